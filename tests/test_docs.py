"""What the documents show works: files, Python and commands as they stand, links, and the site."""

import importlib.util
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import nbformat
import numpy as np
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner

from arena_kit import __version__, read_battles, write_battles
from arena_kit.cli import runs as cli_runs
from arena_kit.cli.main import main
from arena_kit.files import read_value, read_yaml
from arena_kit.runs.notebook.run import NotebookRun
from arena_kit.runs.settings.files import override, read_tournament, validated
from arena_kit.runs.settings.parameters import parameters_of
from tests.emulator import Emulator
from tests.emulator.__main__ import DEFAULT
from tests.samples import KEY, ROOT, copy_workspace, edited, record_of, run_cells, short_season

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"),
                *ROOT.glob("design/*.md")])  # fmt: skip
GENERATED = ROOT / "docs" / "reference"

#: Commands that are held against their options and parameters alone, and why.
ONLY_CHECKED = {
    r"-p judge (anthropic|openai_compatible)|_claude\.yaml|--judge anthropic": "needs a service",
    r"^arena-kit generate (?!.*--forecast)": "needs a service",
    r"^arena-kit (import|import-responses) (?!crowd)": "tests/battles and tests/cli have the files",
    r"^arena-kit runs open ": "opens a browser",
    r"^arena-kit lab": "opens JupyterLab",
    r"^arena-kit votes serve": "runs until it is ended, as in tests/voting/test_commands.py",
    r"^arena-kit votes (add|list|export|review|remove|restore)|votes.sqlite": "needs votes, as "
    "tests/voting have",
    r"^arena-kit votes choose|--chosen": "tests/rating/test_chosen.py has verdicts enough",
    r"--cluster ": "needs a cluster, as tests/test_fanout.py has",
    r"^arena-kit resume ": "needs a run that was killed, which tests/runs/test_record.py has",
    r"^arena-kit paper runs/headline": "docs/tutorial.md has it",
    r"^arena-kit rate team.csv --report": "README.md has one",
    r"--verdicts runs/": "takes five models, and the sample has four",
    r"runs/(cheap|by_x|all_by_cheap)": "needs several judges, as tests/cli and tests/runs have",
}
COSTS_NOTHING = r"^arena-kit cost |--forecast$"
#: Commands that take seconds: `make test-all` runs them, `make test` checks what they are given.
TAKES_SECONDS = ("run", "rejudge", "simulate")
#: What a long command is given besides: it is to work, in seconds.
SMALLER = {
    r"^arena-kit simulate": ["--matchups", "300", "--seeds", "1"],
    r"--method permutation-elo": ["--set", "n_perms=20"],
    r"interval=percentile": ["--set", "resamples=100"],
}
#: Other programs, and why they are not run.
NOT_OURS = {
    "pip": "installs", "uv": "installs", "export": "sets a key", "echo": "changes a shell's start",
    "papermill": "tests/test_notebooks.py runs it", "_ARENA_KIT_COMPLETE=bash_source": "see below",
}  # fmt: skip


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the file that the sentence before it names."""

    language: str
    text: str
    file: str


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks; a paragraph that ends in a file's name and a colon names the file."""
    fence = r"(?:`([\w./-]+)`:\n\n)?```(\w+)\n(.*?)```"
    found = re.findall(fence, page.read_text(), re.DOTALL)
    return [Block(language, text, file) for file, language, text in found]


def commands_of(text: str) -> Iterator[list[str]]:
    """The commands of a console block, without comments, word by word."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            for command in line[2:].split(" && "):
                yield shlex.split(command, comments=True)


def kind_of(words: list[str]) -> str:
    """A command without its values: what several pages show alike is run for the first."""
    after = pairwise(["", *words])
    named = [word for before, word in after if word.startswith("-") or before in ("-p", "run")]
    return " ".join([words[0], *named])


def new_runs(pages: list[Path]) -> set[tuple[Path, int]]:
    """The blocks, by page and number, with a run of a kind that no block before shows."""
    seen: set[str] = set()
    found = set()
    every = [(page, n, block) for page in pages for n, block in enumerate(blocks_of(page))]
    for page, n, block in every:
        shown = commands_of(block.text) if block.language == "console" else ()
        runs = [w for w in shown if w[0] == "python" or (w[1:2] and w[1] in TAKES_SECONDS)]
        kinds = {kind_of(words[1:]) for words in runs}
        if kinds - seen:
            found.add((page, n))
        seen |= kinds
    return found


@pytest.fixture(scope="session")
def furnished(once: Callable[[str, Callable[[Path], object]], Path], recorded: Path) -> Path:
    """A workspace with the records and files that the documents name."""

    def make(root: Path) -> None:
        with chdir(copy_workspace(root)):
            short_season(root)
            shutil.copytree(recorded / ".arena_kit", ".arena_kit")
            _records(recorded / "runs")
            _votes()

    return once("furnished", make)


def _records(made: Path) -> None:
    """Records under the names that the documents use."""
    first = "RECORD", "runs/pilot_20261115_020556", "runs/pilot_20261115_193705", "runs/headline_a"
    for name in (*first, "runs/RUN"):
        shutil.copytree(made / "one", name)
    for name in ("OTHER_RECORD", "runs/headline_20261115_075914", "runs/headline_b", "runs/OTHER"):
        shutil.copytree(made / "noisy", name)


def furnish(furnished: Path, target: Path, page: Path, *left_out: str) -> Path:
    """A copy of the furnished workspace with the records that a page names."""
    text, runs = page.read_text(), furnished / "runs"
    unnamed = [run.name for run in runs.iterdir() if run.name not in f"RUN {text}"]
    ignored = shutil.ignore_patterns(*unnamed, *left_out)
    return Path(shutil.copytree(furnished, target, dirs_exist_ok=True, ignore=ignored))


def _votes() -> None:
    """Votes of the sample under the names and columns that the documents use."""
    some = pd.read_csv("sample/arena/simulated_votes.csv.gz", dtype=str)[:1500]
    some.to_csv("votes.csv.gz", index=False)
    shutil.copy("sample/arena/pushed_votes.csv.gz", "my_votes.csv.gz")
    shutil.copy("params/placement_arena.yaml", "my_placement.yaml")
    texts = pd.read_json("sample/arena/simulated_texts.jsonl.gz", lines=True, dtype=False)
    texts.loc[::3, "response_a"] = "# Answer\n\n- " + texts.loc[::3, "response_a"]
    texts.to_json("votes.jsonl", orient="records", lines=True)
    log = read_battles("votes.csv.gz")
    for month, half in zip(("05", "06"), np.array_split(np.arange(len(log)), 2), strict=True):
        write_battles(f"votes/2026-{month}.parquet", log.select(half))
    rows = pd.read_csv("votes.csv.gz", dtype=str)[:1000]
    judged = rows.assign(source="llm-judge", judge_model="acme/judge-1")
    judged.to_json("verdicts.jsonl", orient="records", lines=True)
    judges = ("human", "gpt-4-0125-preview", "claude-3-opus-20240229", "gpt-3.5-turbo")
    battles = rows[["model_a", "model_b", "question_id"]]
    battles = battles.assign(**dict.fromkeys(judges, rows["winner"]))
    for name in ("battles.csv", "battles.csv.gz"):
        battles.to_csv(name, index=False)
    names = {"model_a": "left", "model_b": "right", "question_id": "item", "session": "worker"}
    side = {"model_a": "left", "model_b": "right", "tie": "skip", "both_bad": "skip"}
    crowd = rows[[*names]].rename(columns=names).assign(vote=rows["winner"].map(side))
    crowd.to_csv("crowd.csv", index=False)
    arena = rows[["model_a", "model_b"]].assign(
        winner="model_a", anony=True, judge=rows["session"], turn=1, language="English",
        tstamp=1.0 + rows.index,
    )  # fmt: skip
    arena.to_json("clean_battle.json", orient="records")


def try_page(page: Path, home: Path, furnished: Path, *, everything: bool) -> Path:
    """Write a page's files, run its Python and commands in order; the folder in which it ends."""
    where = furnish(furnished, home / "workspace", page)
    shutil.copy(TUTORIAL.with_suffix("") / "answers.csv", where)
    for n, block in enumerate(blocks_of(page)):
        with chdir(where):
            if block.file and block.language != "console":
                Path(block.file).parent.mkdir(parents=True, exist_ok=True)
                Path(block.file).write_text(block.text)
            elif block.language == "python":
                exec(compile(block.text, str(page), "exec"), {})
        if block.language == "console":
            for words in commands_of(block.text):
                whole = everything and (page, n) in NEW
                where = try_command(words, where, page, furnished, everything=whole)
    return where


def try_command(
    words: list[str], where: Path, page: Path, furnished: Path, *, everything: bool
) -> Path:
    """Try one command in a folder; the folder that the next one is in."""
    program, *rest = words
    if program == "cd":
        home = where / rest[0]
        own = ["params"] if (home / "study").is_dir() else []  # a study's own stay
        return furnish(furnished, home, page, *own)
    with chdir(where):
        if program == "arena-kit":
            _try_ours(rest, everything=everything)
        elif program == "make":
            assert re.search(rf"^{rest[0]}\b.*:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        elif program == "python":
            assert Path(rest[0]).is_file(), rest[0]  # a file that the page shows
            if everything:
                subprocess.run([sys.executable, *rest], check=True)
        elif program == ".venv/bin/python":
            assert (ROOT / rest[0]).is_file(), rest[0]  # a benchmark, minutes and more
        else:
            assert program in NOT_OURS, words
    return where


def _try_ours(words: list[str], *, everything: bool) -> None:
    line = " ".join(["arena-kit", *words])
    given = _checked(words)
    asks = any(re.search(pattern, line) for pattern in ONLY_CHECKED)
    if asks and not re.search(COSTS_NOTHING, line):
        return
    if words[0] in TAKES_SECONDS and not everything:
        if "run_dir" in given:  # further commands look at the record
            record_of(words[1], **given)
        return
    more = [word for long, added in SMALLER.items() if re.search(long, line) for word in added]
    done = CliRunner().invoke(main, [*words, *more], catch_exceptions=False)
    assert done.exit_code == 0, f"{line}\n{done.output}"


def _checked(words: list[str]) -> dict[str, Any]:
    """The parameters that a command gives, after click and the notebook's model took them all."""
    name, *rest = words
    context = click.Context(main, **main.context_settings)
    command = main.get_command(context, name)
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context)
        command = command.get_command(context, rest.pop(0))
    assert command, f"no command {name}"
    context = command.make_context(name, list(rest), parent=context)
    if name not in ("run", "cost"):
        return {}
    dotted = {k: read_value(k, v) for k, v in context.params["overrides"] if "." in k}
    override(read_tournament(ROOT / "params" / "tournament.yaml"), dotted, " ".join(words))
    plain = {k: read_value(k, v) for k, v in context.params["overrides"] if "." not in k}
    given = plain | ({"overrides": dotted} if dotted else {})
    file = context.params["params_file"]
    if file is None or file.is_file():
        whole = (read_yaml(file) if file else {}) | given
        notebook = context.params["name"] or str(file.stem).split("_", maxsplit=1)[0]
        if notebook == "placement":
            whole.setdefault("model", "dogwood")
        validated(parameters_of(notebook), whole, " ".join(words))
    return given


SHOWN = [page for page in PAGES if page.parent not in (GENERATED, ROOT / "design")
         and any(block.language in ("console", "python") for block in blocks_of(page))]  # fmt: skip
NEW = new_runs(SHOWN)
TUTORIAL = ROOT / "docs" / "tutorial.md"


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in SHOWN if page != TUTORIAL], ids=page_name)
def test_what_a_page_shows_works(page: Path, tmp_path: Path, furnished: Path) -> None:
    """Files, Python and quick commands work in their order; others get what they take."""
    try_page(page, tmp_path, furnished, everything=False)


@pytest.mark.slow  # each run starts a kernel
@pytest.mark.parametrize("page", sorted({page for page, _ in NEW}), ids=page_name)
def test_all_that_a_page_shows_works(page: Path, tmp_path: Path, furnished: Path) -> None:
    """All commands of a page work in their order, runs that no page before shows among them."""
    try_page(page, tmp_path, furnished, everything=True)


def test_the_tutorial_says_what_comes_out(tmp_path: Path, furnished: Path) -> None:
    """What the tutorial shows works; its numbers and its claim are those of its own files."""
    page = TUTORIAL
    with chdir(try_page(page, tmp_path, furnished, everything=False)):
        words = ["rate", "runs/rehearsal", "--method", "bradley-terry", "--json"]
        rated = json.loads(CliRunner().invoke(main, words).stdout)
    changed = rated["dropped"]["inconsistent"]
    assert f"{changed} of {rated['n_battles'] + changed} changed with the order" in page.read_text()
    assert "*First: careful, decided.*" in page.read_text()
    (found,) = rated["dimensions"]
    assert found["first"] == ["careful"]
    assert f"{found['fragility']['removed']} removed would reverse it" in page.read_text()
    for n, row in enumerate(rated["ratings"], 1):
        interval = f"{row['ci_low']:.0f} to {row['ci_high']:.0f}"
        assert f"| {n} | {row['model']} | {row['rating']:.0f} | {interval} |" in page.read_text()


def test_the_misspelt_is_noticed(tmp_path: Path, furnished: Path) -> None:
    """An option, a parameter, a file or a name that does not exist fails the test of its page."""
    for line in (
        "$ arena-kit rate votes.csv.gz --jason", "$ arena-kit run pilot -p n_perm 3",
        "$ arena-kit rate vote.csv.gz", "$ arena-kit rates votes.csv.gz", "$ make pilots",
        "$ rm -r runs",
    ):  # fmt: skip
        page = tmp_path / "page.md"
        page.write_text(f"```console\n{line}\n```\n")
        with pytest.raises((AssertionError, KeyError, ValueError, click.ClickException)):
            try_page(page, tmp_path / str(len(line)), furnished, everything=False)


def test_the_free_walk_through_ends_well(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of docs/claude.md ends on the emulator: billed, and by a judge that is usable."""
    blocks = [block.text for block in blocks_of(ROOT / "docs" / "claude.md")]
    walk = next(text for text in blocks if "make emulator" in text)
    runs = [words[2:] for words in commands_of(walk) if words[:2] == ["arena-kit", "run"]]
    edited(workspace, elo__n_perms=20, dimensions__clinical_utility=None)
    with Emulator(behaviour=DEFAULT) as emulator:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", emulator.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        bills = {}
        for words in runs:
            given = cli_runs.run.make_context("run", words).params
            run = NotebookRun.resolve(
                given["name"], workspace, params_file=given["params_file"],
                overrides=dict(given["overrides"]),
            )  # fmt: skip
            run.check()
            node = nbformat.read(run.notebook, as_version=4)
            record = run_cells(node, shows="", **run.given)["record"]
            manifest = record.read()
            assert manifest["status"] == "finished"
            assert manifest["judge_gate"]["level"] != "not usable", manifest["judge_gate"]
            bills[run.name] = manifest["cost"]["usd_spent"]
        assert sum(bills.values()) == pytest.approx(emulator.billing.total_usd)
    assert [*bills] == ["pilot", "adaptive", "headline", "placement", "judge_report"]
    assert min(bills.values()) > 0, bills


def test_completion_in_the_shell() -> None:
    """What docs/install.md tells a shell to read completes the names of commands."""
    done = CliRunner().invoke(
        main, [], prog_name="arena-kit", env={"_ARENA_KIT_COMPLETE": "bash_source"}
    )
    assert "complete -o nosort -F _arena_kit_completion arena-kit" in done.stdout


@pytest.mark.slow  # mypy of the package; the pages' own test runs the examples
def test_examples_are_typed(tmp_path: Path) -> None:
    """All Python of the documents passes mypy --strict, and a misspelt name in it would not."""
    examples = [block.text for page in PAGES for block in blocks_of(page)
                if block.language == "python"]  # fmt: skip
    assert len(examples) >= 3
    for n, code in enumerate(examples):
        (tmp_path / f"example{n}.py").write_text(code)
    typo = "from arena_kit import BradleyTerry\nBradleyTerry(resample=5)\n"
    (tmp_path / "typo.py").write_text(typo)
    words = ["-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, done.stdout
    assert "typo.py:2" in errors[0]


def test_users_need_one_door() -> None:
    """No document imports a submodule, links lead to files, the citation has this version."""
    for page in [*PAGES, *ROOT.glob("notebooks/*.ipynb")]:
        assert not re.findall(r"(?:from|import) arena_kit\.\S+", page.read_text()), page.name
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page_name(page)}: {target}"
    readme = (ROOT / "README.md").read_text()
    assert len(readme.split()) < 900
    assert "](docs/index.md)" in readme
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == __version__


def test_the_reference_is_what_the_code_says() -> None:
    """The reference says what the code has; `python docs/make_reference.py` renews it."""
    with chdir(ROOT):
        pages = runpy.run_path("docs/make_reference.py")["PAGES"]
        assert {path.stem for path in GENERATED.glob("*.md")} == set(pages)
        for name, make in pages.items():
            assert (GENERATED / f"{name}.md").read_text() == make(), name


@pytest.mark.slow  # builds the whole site
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """The documents build as a site, and its pages fetch nothing from elsewhere."""
    if importlib.util.find_spec("sphinx") is None:
        pytest.skip("sphinx is not installed; the extra docs has it")
    words = ["-m", "sphinx", "-q", "-W", "-c", "docs", ".", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        fetched = r'<[^>]+ src="http|<link [^>]*href="http'
        assert not re.search(fetched, page.read_text()), page
    index = json.loads((tmp_path / "searchindex.js").read_text().partition("(")[2].rstrip(");\n"))
    for word in ("excel", "semicolon", "heatmap"):  # what people look for
        found = index["terms"][word]
        names = [index["docnames"][n] for n in (found if isinstance(found, list) else [found])]
        assert {"docs/index", "docs/rating"} <= {*names}, word
