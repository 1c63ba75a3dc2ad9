"""One table for every place where rows are shown, and numbers in words."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from math import isnan
from pathlib import Path
from textwrap import wrap
from typing import Any

from arena_kit.files import visible, write_cells
from arena_kit.rating import base
from arena_kit.reporting.html import rendered

DASH = "–"
_MARKDOWN = str.maketrans(
    {c: f"\\{c}" for c in "\\`*_[]|~$"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)
#: OT1 fonts have no bar, angle brackets and straight quotation mark.
_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\symbol{34}"}
    | {DASH: "--", "[": "{[}"}  # after a line's end, a bare bracket is an option
)
#: How a number begins, with its sign or unit, or what stands for one.
_NUMBER = re.compile(r"[<>#$±+-]?\d|[–✓✗]")
_LEAST_WIDTH = 12  # characters to which a column is wrapped


class Displayed:
    """Something with HTML for notebooks and the same content as text for elsewhere."""

    __slots__ = ()

    def _repr_mimebundle_(self: Any, **_: object) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __str__(self: Any) -> str:
        return str(self.text)


@dataclass(frozen=True, slots=True)
class Shown(Displayed):
    """HTML to display, in which every text is escaped already, and its text; may be a cell."""

    html: str
    text: str

    def __html__(self) -> str:
        return self.html


@dataclass(frozen=True, slots=True)
class Table(Displayed):
    """Rows, and how they look as HTML, as text, in the terminal, as CSV, Markdown and LaTeX.

    Texts may come from anywhere: each form escapes them.

    Parameters
    ----------
    rows
        The value of each column, shown as its text; None is a dash.
    name
        Identifies the table in a page.
    title
        What stands over the table.
    columns
        The columns to show, in order; by default those of the first row.
    group
        The column whose values head groups of rows.
    left
        Columns aligned left although they hold numbers, as those with text are.
    nowrap, bold
        Columns whose cells stay on one line; columns in bold type.
    marked
        The row that is highlighted.
    labels
        Whether the names of the columns are shown.
    small
        Whether type is small.
    notes
        Sentences under the table; an empty one is left out.
    empty
        The sentence that is shown instead of a table without rows.
    """

    rows: Sequence[Mapping[str, object]]
    name: str = "table"
    title: str = ""
    columns: Sequence[str] = ()
    group: str = ""
    left: Sequence[str] = ()
    nowrap: Sequence[str] = ()
    bold: Sequence[str] = ()
    marked: int | None = None
    labels: bool = True
    small: bool = False
    notes: Sequence[str] = ()
    empty: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", [*filter(None, self.notes)])

    @property
    def html(self) -> str:
        """An escaped, static HTML table with its styles in the tags; it scrolls by itself where it
        is wide, and the notes under it do not.
        """
        if self.empty and not self.rows:
            return f"<p>{escape(self.empty)}</p>"
        names = [name for name in self._names if name != self.group]
        columns = [(name, "left" if self._is_left(name) else "right") for name in names]
        return rendered("table", table=self, columns=columns)

    @property
    def text(self) -> str:
        """Lines of aligned columns, the same on every machine."""
        if self.empty and not self.rows:
            return self.empty
        body = self._aligned([[[_printable(t)] for t in line] for line in self._shown()])
        title = [self.title] if self.title else []
        return "\n".join([*map(_printable, title), *body, *map(_printable, self.notes)])

    def in_terminal(self, room: int) -> str:
        """The title and lines of aligned columns that fit the room, as far as words can be wrapped:
        headings, then long texts, take several lines. What steers a terminal is shown.
        """
        texts = [[visible(text) for text in line] for line in self._shown()]
        widths = self._widths(texts, room)
        cells = [
            [_wrapped(text, width) for text, width in zip(line, widths, strict=True)]
            for line in texts
        ]
        title = [visible(self.title)] if self.title else []
        return "\n".join([*title, *self._aligned(cells)])

    def _widths(self, texts: Sequence[Sequence[str]], room: int) -> list[int]:
        """Columns as wide as their texts or, where that is too wide, as their cells and the longest
        word of the heading; then the widest that may be wrapped is the first to give way.
        """
        columns = list(zip(*texts, strict=True))
        room -= 2 * (len(columns) - 1)
        widths = [max(map(_longest, column)) for column in columns]
        if sum(widths) > room and self.labels:
            heads = (max(map(len, head.split()), default=0) for head, *_ in columns)
            cells = (max(map(_longest, column[1:]), default=0) for column in columns)
            widths = [max(pair) for pair in zip(heads, cells, strict=True)]
        flexible = [n for n, name in enumerate(self._names) if name not in self.nowrap]
        while flexible and sum(widths) > room:
            widest = max(flexible, key=widths.__getitem__)
            if widths[widest] <= _LEAST_WIDTH:
                break
            widths[widest] -= 1
        return widths

    def _shown(self) -> list[list[str]]:
        """The headings, unless they are hidden, and the rows."""
        return [*([self._names] if self.labels else []), *self._lines()]

    def _aligned(self, rows: Sequence[Sequence[Sequence[str]]]) -> list[str]:
        """Rows, of which each cell has one line or more, as lines of aligned columns."""
        columns = zip(*rows, strict=True)
        widths = [max(len(line) for cell in column for line in cell) for column in columns]
        sides = ["<" if self._is_left(name) else ">" for name in self._names]
        return [
            "  ".join(f"{t:{s}{n}}" for t, s, n in zip(line, sides, widths, strict=True)).rstrip()
            for row in rows
            for line in zip_longest(*row, fillvalue="")
        ]

    @property
    def csv(self) -> str:
        """The values as they are, with a header; nothing where there is none. Text that a
        spreadsheet would take for a formula has an apostrophe before it.
        """
        out, names = io.StringIO(), self._names
        rows = ([(n, row[n]) for n in names] for row in self.rows)
        cells = ({n: v.text if isinstance(v, Shown) else v for n, v in row} for row in rows)
        write_cells(out, cells, names)
        return out.getvalue()

    @property
    def markdown(self) -> str:
        """A Markdown table with its title and notes."""
        rule = ["---" if self._is_left(name) else "---:" for name in self._names]
        body = [[_markdown(_text(row[name])) for name in self._names] for row in self.rows]
        lines = [[_markdown(name) for name in self._names], rule, *body]
        title = f"**{_markdown(self.title)}**\n\n" if self.title else ""
        notes = (f"\n{_markdown(note)}\n" for note in self.notes)
        return title + "".join(f"| {' | '.join(cells)} |\n" for cells in lines) + "".join(notes)

    @property
    def latex(self) -> str:
        """A LaTeX table with booktabs rules."""
        sides = "".join("l" if self._is_left(name) else "r" for name in self._names)
        lines = [[latex_text(text) for text in line] for line in (self._names, *self._lines())]
        head, *body = [" & ".join(line) + r" \\" for line in lines]
        title = [rf"\caption*{{{latex_text(self.title)}}}"] if self.title else []
        rows = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", head, r"\midrule", *body]
        ends = [r"\bottomrule", r"\end{tabular}", *(rf"\\ {latex_text(n)}" for n in self.notes)]
        inner = "\n".join([*title, *rows, *ends])
        return f"\\begin{{table}}\n\\centering\n{inner}\n\\end{{table}}\n"

    @property
    def _names(self) -> list[str]:
        return list(self.columns or (self.rows[0] if self.rows else ()))

    def _is_left(self, column: str) -> bool:
        is_named = column in (self.group, *self.left)
        return is_named or not all(_NUMBER.match(_text(row[column])) for row in self.rows)

    def _lines(self) -> Iterator[list[str]]:
        """The texts of each row; a group is named once."""
        group: object = None
        for row in self.rows:
            line = {name: _text(row[name]) for name in self._names}
            if self.group and row[self.group] == group:
                line[self.group] = ""
            group = row.get(self.group)
            yield list(line.values())


def _text(value: object) -> str:
    return DASH if value is None else str(value)


def latex_text(text: str) -> str:
    """The text on one line, as LaTeX takes it."""
    return _printable(text).translate(_LATEX)


def _printable(text: str) -> str:
    """The text on one line: a space for every character that does not print."""
    return "".join(c if c.isprintable() else " " for c in text)


def _longest(text: str) -> int:
    """Characters of the longest line of a text."""
    return max(map(len, text.splitlines()), default=0)


def _wrapped(text: str, width: int) -> list[str]:
    lines = (wrap(line, width) if len(line) > width else [line] for line in text.splitlines())
    return [part for parts in lines for part in parts] or [""]


def _markdown(text: str) -> str:
    return _printable(text).translate(_MARKDOWN)


def number(value: float | None, how: str, unit: str = "") -> str:
    """A number in a format, with its unit; a dash where there is none."""
    return DASH if value is None or isnan(value) else f"{value:{how}}{unit}"


def percent(value: float | None, how: str = ".0f") -> str:
    """A share as a percentage, a dash where there is none."""
    return DASH if value is None else number(100 * value, how, "%")


def probability(value: float | None) -> str:
    """A probability; never 0 or 1, which no finite evidence gives."""
    if value is None or isnan(value):
        return DASH
    if value < 0.005 or value > 0.995:
        return "<1%" if value < 0.5 else ">99%"
    return f"{100 * value:.0f}%"


def span(low: float | None, high: float | None) -> str:
    """A range in whole numbers, a dash where there is none."""
    return base.span(low, high) or DASH


def ranks_text(ranks: tuple[int, int] | None) -> str:
    """A range of ranks in words."""
    if ranks is None:
        return DASH
    return str(ranks[0]) if ranks[0] == ranks[1] else span(*ranks)


def facts(values: Mapping[str, object], *, name: str) -> Table:
    """Named facts, one per line."""
    rows = [{"what": what, "value": str(value)} for what, value in values.items()]
    return Table(rows=rows, name=name, bold=["what"], labels=False)


#: Folders of a record whose files are listed as one.
_JOINED = ("inputs", "figures/narrow")


def files(folder: Path, root: Path) -> Table:
    """The artifacts of a record with their sizes; what it keeps of its inputs in one row, and the
    pictures for a phone in another.
    """
    shown = folder.relative_to(root) if folder.is_relative_to(root) else folder
    every = [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.name.startswith(".")]
    sizes: dict[str, list[int]] = {}
    for path in every:
        part = next((f"{p}/" for p in _JOINED if path.is_relative_to(folder / p)), "")
        name = str(shown / (part or path.relative_to(folder))) + ("/" if part else "")
        sizes.setdefault(name, []).append(path.stat().st_size)
    rows = [
        {"file": f"{name} ({len(each)} files)" if name.endswith("/") else name,
         "size": _size(sum(each))}
        for name, each in sorted(sizes.items())
    ]  # fmt: skip
    return Table(rows=rows, name="files")


def _size(n: int) -> str:
    return f"{n} B" if n < 1000 else f"{n / 1000:.0f} kB" if n < 1e6 else f"{n / 1e6:.1f} MB"
