"""The reference pages, made from the code: `python docs/make_reference.py` writes them anew."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from arena_kit import Battle
from arena_kit.battles.battle import ID_RULE, OUTCOME_LABELS
from arena_kit.cli.base import FAILED, WRONG_INPUT
from arena_kit.cli.main import main
from arena_kit.files import EXIT_CODES
from arena_kit.judging.judges.baseline import BaselineJudge
from arena_kit.judging.pairs.prompts import Prompt, Response
from arena_kit.runs.settings.files import (
    AnthropicSettings,
    ChatSettings,
    DimensionSettings,
    EloSettings,
    EntrantDefinition,
    JudgeSettings,
    TournamentFile,
)

ROOT = Path(__file__).parents[1]
WIDTH = 76
EXIT_CODES = {
    0: "finished",
    FAILED: "failed, interrupted, or without one usable verdict; the record is kept",
    WRONG_INPUT: "wrong usage or input",
    EXIT_CODES["CostError"]: "refused: above the cost cap, verdicts missing offline, "
    "locked by another run, no credit, a judge that is not usable",
}
MADE = "*Made from the code by `docs/make_reference.py`; `make docs` renews it.*\n"
_CELL = re.compile(r"(\w+): (\w+(?:\[\w+\])?) = (.*?)  # (.*)")


def table(*rows: tuple[str, ...]) -> str:
    """Rows as Markdown, the first one as the head."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def code(value: object) -> str:
    """A value as it is written in YAML, nothing for none."""
    text = str(value) if isinstance(value, str | Path) else json.dumps(value)
    return f"`{text}`" if text not in ("", "null") else ""


def commands() -> str:
    """Every command with its own help, and what its exit code means."""
    codes = [(str(n), meaning) for n, meaning in EXIT_CODES.items()]
    parts = ["# Commands\n", MADE, "## Exit codes\n", table(("code", "meaning"), *codes)]
    for name, command in _commands(main, "arena-kit"):
        context = click.Context(
            command, info_name=name, terminal_width=WIDTH, **main.context_settings
        )
        parts += [f"## {name}\n", f"```text\n{command.get_help(context)}\n```\n"]
    return "\n".join(parts)


def _commands(group: click.Group, path: str) -> list[tuple[str, click.Command]]:
    """All commands under a group by their full names, those of inner groups among them."""
    found = []
    context = click.Context(group)
    for name in sorted(group.list_commands(context)):
        command = group.get_command(context, name)
        assert command is not None
        found.append((f"{path} {name}", command))
        if isinstance(command, click.Group):
            found += _commands(command, f"{path} {name}")
    return found


def parameters() -> str:
    """What every notebook may be told, from its cell of parameters."""
    parts = ["# Parameters of runs\n", MADE, _PARAMETERS]
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        if rows := _CELL.findall(_parameters_cell(path)):
            parts.append(f"## {path.stem}\n")
            found = [(f"`{name}`", kind, code(default.strip('"')), text)
                     for name, kind, default, text in rows]  # fmt: skip
            parts.append(table(("name", "type", "default", "what"), *found))
    return "\n".join(parts)


_PARAMETERS = """\
They stand in `params/<notebook>.yaml`, in any file named by `--params`, or after `-p`; what a file
leaves out has the default shown here, which is the notebook's own. `arena-kit run` refuses an
unknown name; papermill alone only logs it.
"""


def _parameters_cell(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    tagged = [c for c in cells if "parameters" in c["metadata"].get("tags", [])]
    return "".join(line for cell in tagged for line in cell["source"])


def files() -> str:
    """The fields of the files that are read: battles, prompts, responses, tournament."""
    parts = ["# Files and fields\n", MADE, _FILES]
    labels = ", ".join(f"`{label}`" for label in OUTCOME_LABELS)
    parts += [*section("## Battles", Battle), f"`winner` is one of {labels}; nothing else.\n"]
    parts += [*section("## Prompts", Prompt), f"Ids are {ID_RULE}.\n"]
    parts += section("## Responses", Response)
    parts += section("## The tournament file", TournamentFile)
    for key, kind in _SECTIONS.items():
        parts += section(f"### {key}", kind)
    return "\n".join(parts)


_FILES = """\
JSONL unless said otherwise; every file may carry further keys, which are kept or ignored, except
those in `params/`, where an unknown key is refused. A run record's files are described under
[records](../records.md), files of other tools under [formats](../formats.md), the policy's
constants in [`params/policy.yaml`](../../params/policy.yaml) and a judge's rules in
[`params/judge_gate.yaml`](../../params/judge_gate.yaml) themselves.
"""
_SECTIONS: dict[str, type[Any]] = {
    "dimensions.NAME": DimensionSettings,
    "judge": JudgeSettings,
    "judge.baseline": BaselineJudge,
    "judge.anthropic": AnthropicSettings,
    "judge.openai_compatible": ChatSettings,
    "elo": EloSettings,
    "generate.ENTRANT": EntrantDefinition,
}


def section(heading: str, kind: type[Any]) -> list[str]:
    """A heading, what the class is, and its fields."""
    return [f"{heading}\n", prose(kind), fields_of(kind)]


def prose(kind: type[Any]) -> str:
    """A class's docstring as one paragraph after another."""
    text = textwrap.dedent(" " * 4 + (kind.__doc__ or ""))
    text = text.partition("\nParameters\n")[0].partition("\nAttributes\n")[0]
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n")) + "\n"


def fields_of(kind: type[Any]) -> str:
    """Name, type and default of each field of a model or dataclass."""
    if issubclass(kind, BaseModel):
        rows = [
            (name, field.annotation, _default(field.get_default(call_default_factory=True)))
            for name, field in kind.model_fields.items()
        ]
    else:
        hints = get_type_hints(kind)
        rows = [
            (field.name, hints[field.name], _dataclass_default(field)) for field in fields(kind)
        ]
    shown = [(f"`{name}`", _type(annotation), default) for name, annotation, default in rows]
    return table(("field", "type", "default"), *shown)


def _dataclass_default(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return _default(field.default_factory())
    return "required" if field.default is MISSING else _default(field.default)


def _default(value: object) -> str:
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, BaseModel) or hasattr(value, "__dataclass_fields__"):
        return "see there"
    return code(value)


def _type(annotation: Any) -> str:
    """A type in words: the values that are allowed, or the name without its modules."""
    if annotation is None or annotation is type(None):
        return "null"
    inner = get_args(annotation)
    if inner and all(isinstance(value, str) for value in inner):
        return ", ".join(f"`{value}`" for value in inner if value)
    if "|" in str(annotation) and inner:
        return " or ".join(_type(each) for each in inner)
    if hasattr(annotation, "__members__"):
        return ", ".join(f"`{value}`" for value in annotation)
    if isinstance(annotation, type) and not inner:
        return _WORDS.get(annotation.__name__, "section")
    return _WORDS[annotation.__origin__.__name__]


_WORDS = {
    "str": "text", "Path": "path", "int": "integer", "float": "number", "bool": "true or false",
    "datetime": "time", "tuple": "list", "list": "list", "dict": "mapping", "Mapping": "mapping",
}  # fmt: skip

PAGES = {"commands": commands, "parameters": parameters, "files": files}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (ROOT / "docs" / "reference" / f"{page}.md").write_text(make(), encoding="utf-8")
