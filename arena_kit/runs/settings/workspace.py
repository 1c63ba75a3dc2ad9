"""A fresh workspace from an installed package, and JupyterLab in one."""

import importlib.util
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arena_kit.files import DataError
from arena_kit.judging.pairs import answer_table
from arena_kit.judging.pairs.prompts import Prompt

START = "start_here.ipynb"
PARTS = ("notebooks", "params", "sample", "docs", "design", START)
#: What stands beside them in a checkout and is of no use in a workspace.
_IGNORED = (".ipynb_checkpoints", "__pycache__", "conf.py", "make_*.py", "_[a-z]*")

#: The prompts of a pilot, about; a bank that is not much larger is judged whole.
_PILOT = 50
#: The head of a study's tournament file, and the rubric of either kind of study.
_STARTER = Path(__file__).with_name("starter")


def source_folder() -> Path:
    """Where the shipped parts are: inside the wheel, or the checkout of an editable install."""
    package = Path(__file__).parents[2]
    for folder in (package / "_workspace", package.parent):
        if all((folder / part).exists() for part in PARTS):
            return folder
    raise DataError(f"{package}: this installation has no notebooks, params and sample to copy")


def init_workspace(target: Path) -> list[Path]:
    """Copy the shipped parts into a new or empty folder; returns what was made."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DataError(f"{target}: exists and is not an empty folder")
    source = source_folder()
    target.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        if (source / part).is_file():
            shutil.copy(source / part, target / part)
        else:
            left_out = shutil.ignore_patterns(*_IGNORED)
            shutil.copytree(source / part, target / part, ignore=left_out)
    ignored = ".arena_kit/\n.env\nruns/\n.ipynb_checkpoints/\n"
    (target / ".gitignore").write_text(ignored, encoding="utf-8")
    return [target / part for part in PARTS]


def init_study(
    target: Path, source: Any, *, sheet: str = "", **columns: Any
) -> answer_table.AnswerTable:
    """Make a workspace whose tournament compares the answers in a spreadsheet, a table or a
    DataFrame; `columns` are the fields of `Roles`, for what is not recognised by itself.

    Writes prompts, responses, a starter rubric and the tournament file; returns what was
    understood.
    """
    given = answer_table.Roles(**columns)
    study = answer_table.read_answers(answer_table.read_table(source, sheet), given)
    init_workspace(target)
    study.answers.write(target / "study")
    dimension = "correctness" if study.roles.gold else "quality"
    shutil.copy(_STARTER / f"{dimension}.md", target / "params/rubrics")
    _write_tournament(target, study, dimension)
    for name in ("pilot", "pilot_claude"):
        _write_subset(target / f"params/{name}.yaml", study.answers.prompts)
    return study


def _write_tournament(target: Path, study: answer_table.AnswerTable, dimension: str) -> None:
    """The study's tournament file: judge and rating as shipped, who competes on what replaced."""
    file = target / "params/tournament.yaml"
    _, judge, rest = file.read_text(encoding="utf-8").partition("\njudge:\n")
    own = study.answers
    complete = len(own.responses) == len(own.prompts) * len(own.entrants)
    starter = (_STARTER / "tournament.yaml").read_text(encoding="utf-8")
    head = starter.format(
        name=re.sub(r"[^A-Za-z0-9]+", "-", target.resolve().name).strip("-") or "study",
        entrants=json.dumps(own.entrants, ensure_ascii=False),
        missing="listwise" if complete else "pairwise",
        dimension=dimension,
        reference="gold_answer" if study.roles.gold else "none",
    )
    axes = list(dict.fromkeys(axis for each in own.prompts for axis in each.strata))
    strata = f"\n\nreport:\n  strata: {json.dumps(axes)}" if axes else ""
    file.write_text(head.rstrip() + strata + "\n" + judge + rest, encoding="utf-8")


def _write_subset(file: Path, prompts: Sequence[Prompt]) -> None:
    """The pilot's subset: about fifty prompts in proportion to the strata, or the whole bank."""
    counts = Counter(prompt.source for prompt in prompts)
    part = min(1, _PILOT / len(prompts))
    drawn = {name: max(1, round(part * n)) for name, n in counts.items()} if part < 1 else {}
    text = file.read_text(encoding="utf-8")
    strata = f"strata: {json.dumps(drawn)}\n"
    changed = re.sub(r"strata:\n(?: .*\n)+", lambda _: strata, text)
    file.write_text(changed, encoding="utf-8")


def open_lab(root: Path, more: Sequence[str] = ()) -> None:
    """Become JupyterLab at a workspace's root, on its first notebook where it has one; `more` are
    options of JupyterLab. Its kernels are this environment's Python.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise DataError(
            "JupyterLab is not installed here; install it with: pip install 'arena-kit[lab]'"
        )
    first = f"/tree/{START}" if (root / START).is_file() else ""
    options = [f"--ServerApp.root_dir={root}", f"--LabApp.default_url=/lab{first}", *more]
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    os.chdir(root)
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *options])  # noqa: S606 (fixed words, no shell)
