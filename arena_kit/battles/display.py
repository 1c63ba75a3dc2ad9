"""A small escaped table: how notebooks show objects that stand below the reports."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from arena_kit.files import ArenaError, visible

_LONGEST = 600
_OPTION = re.compile(r"(arena-kit [^`;,]*)|--([a-z][a-z-]*)")
_STYLE = "text-align: left; vertical-align: top; padding: 2px 12px 2px 0"


def show_errors_in_short() -> None:
    """In IPython, show an error of ours as its sentence, in which options of the command line are
    called as in Python, but for whole commands; `%tb` has the frames.
    """
    from IPython.core.getipython import get_ipython

    def show(shell: Any, kind: Any, error: Any, frames: Any, **_: Any) -> None:
        sentence = _OPTION.sub(lambda m: m[1] or m[2].replace("-", "_"), str(error))
        error.args = (sentence, *error.args[1:])
        shell.showtraceback((kind, error, frames), exception_only=True)

    shell: Any = get_ipython()
    if shell is not None:
        shell.set_custom_exc((ArenaError,), show)


def html_table(
    rows: Sequence[Mapping[str, object]], *, title: str, notes: Sequence[str] = ()
) -> str:
    """Rows under a title, all of the same columns; every text is escaped and long ones are cut."""
    parts = [f"<div><b>{_safe(title)}</b></div>"]
    if rows:
        head = "".join(f'<th style="{_STYLE}">{_safe(name)}</th>' for name in rows[0])
        cells = ("".join(map(_cell, row.values())) for row in rows)
        body = "".join(f"<tr>{each}</tr>" for each in cells)
        named = f"<thead><tr>{head}</tr></thead>" if any(name.strip() for name in rows[0]) else ""
        parts.append(f"<table>{named}<tbody>{body}</tbody></table>")
    parts += [f"<div><small>{_safe(note)}</small></div>" for note in notes]
    return f"<div>{''.join(parts)}</div>"


def html_facts(facts: Mapping[str, object], *, title: str) -> str:
    """Named facts, one per line."""
    return html_table([{"": name, " ": value} for name, value in facts.items()], title=title)


def _cell(value: object) -> str:
    side = "right" if isinstance(value, int | float) else "left"
    return f'<td style="{_STYLE.replace("left", side)}">{_safe(value)}</td>'


def _safe(value: object) -> str:
    text = "–" if value is None else str(value)
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return escape(visible(text))
