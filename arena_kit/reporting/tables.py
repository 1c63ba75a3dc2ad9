"""One table for every place where rows are shown, and numbers in words."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from arena_kit.files import csv_cell, visible
from arena_kit.rating.base import Rating

if TYPE_CHECKING:
    import rich.table

DASH = "–"
_NOTE = "color: #57606a; font-size: 13px; line-height: 1.4; margin: 4px 0; max-width: 46rem"
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
_TITLE = "font-size: 15px; margin: 4px 0"
_RULE = "1px solid #d8dee4"
_HEAD = f"font-weight: 600; border-bottom: {_RULE}; padding: 5px 8px; vertical-align: bottom"
_GROUP = f"font-weight: 600; background-color: #f6f8fa; padding: 5px 8px; border-top: {_RULE}"


@dataclass(frozen=True, slots=True)
class Shown:
    """Something to display: HTML for notebooks, the same content as text elsewhere."""

    html: str
    text: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with an HTML form of its own, in which every text must be escaped already."""

    text: str
    html: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
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
        The columns aligned left, the others being aligned right; by default those that hold text.
    nowrap, bold
        Columns whose cells stay on one line; columns in bold type.
    marked
        The row that is highlighted.
    labels
        Whether the names of the columns are shown.
    small
        Whether type is small.
    notes
        Sentences under the table.
    empty
        The sentence that is shown instead of a table without rows.
    """

    rows: Sequence[Mapping[str, object]]
    name: str = "table"
    title: str = ""
    columns: Sequence[str] = ()
    group: str = ""
    left: Sequence[str] | None = None
    nowrap: Sequence[str] = ()
    bold: Sequence[str] = ()
    marked: int | None = None
    labels: bool = True
    small: bool = False
    notes: Sequence[str] = ()
    empty: str = ""

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __str__(self) -> str:
        return self.text

    @property
    def html(self) -> str:
        """An escaped, static HTML table with its styles in the tags; it scrolls by itself where it
        is wide, and the notes under it do not.
        """
        notes = "".join(
            f'<p style="{_NOTE}">{escape(note, quote=False)}</p>' for note in self.notes
        )
        if self.empty and not self.rows:
            return f"<p>{escape(self.empty)}</p>"
        title = f'<p style="{_TITLE}">{escape(self.title)}</p>' if self.title else ""
        size = "12px" if self.small else "14px"
        style = f"border-collapse: collapse; margin-left: 0; font-size: {size}"
        body = f"{self._html_head()}<tbody>{''.join(self._html_rows())}</tbody>"
        wide = f'<div id="{escape(self.name)}" style="overflow-x: auto">'
        return (
            f'{title}{wide}<table class="arena_table" style="{style}">{body}</table></div>{notes}'
        )

    def _html_head(self) -> str:
        if not self.labels:
            return ""
        names = [name for name in self._names if name != self.group]
        cells = (f'<th style="{_HEAD}; {self._side(name)}">{escape(name)}</th>' for name in names)
        return f"<thead><tr>{''.join(cells)}</tr></thead>"

    def _html_rows(self) -> Iterator[str]:
        """The rows, each group under its name."""
        names = [name for name in self._names if name != self.group]
        style = {name: self._cell_style(name) for name in names}
        group: object = None
        for n, row in enumerate(self.rows):
            if self.group and (not n or row[self.group] != group):
                group = row[self.group]
                yield f'<tr><th colspan="{len(names)}" style="{_GROUP}; text-align: left">'
                yield f"{_html(group)}</th></tr>"
            more = "; background-color: #fdebd9; font-weight: 600" if n == self.marked else ""
            cells = (f'<td style="{style[name]}{more}">{_html(row[name])}</td>' for name in names)
            yield f"<tr>{''.join(cells)}</tr>"

    def _cell_style(self, name: str) -> str:
        bold = "; font-weight: 600" if name in self.bold else ""
        one_line = "; white-space: nowrap" if name in self.nowrap else ""
        return f"border-top: {_RULE}; padding: 5px 8px; {self._side(name)}{bold}{one_line}"

    def _side(self, name: str) -> str:
        return "text-align: left" if self._is_left(name) else "text-align: right"

    @property
    def text(self) -> str:
        """Lines of aligned columns, the same on every machine."""
        if self.empty and not self.rows:
            return self.empty
        heads = [self._names] if self.labels else []
        lines = [[_printable(text) for text in line] for line in (*heads, *self._lines())]
        width = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
        side = ["<" if self._is_left(name) else ">" for name in self._names]
        body = [
            "  ".join(f"{t:{s}{n}}" for t, s, n in zip(line, side, width, strict=True)).rstrip()
            for line in lines
        ]
        title = [self.title] if self.title else []
        return "\n".join([*map(_printable, title), *body, *map(_printable, self.notes)])

    def __rich_console__(
        self, _console: rich.console.Console, options: rich.console.ConsoleOptions
    ) -> Iterator[rich.table.Table]:
        """The table in the terminal; no text is read as markup or steers it."""
        yield self._grid(options.max_width)

    def _grid(self, room: int) -> rich.table.Table:
        from rich.table import Table as Grid
        from rich.text import Text

        title = Text(visible(self.title))
        grid = Grid(title=title, title_justify="left", show_header=self.labels)
        for name, width in zip(self._names, self._widths(room), strict=True):
            grid.add_column(
                Text(visible(name)),
                justify="left" if self._is_left(name) else "right",
                overflow="fold",
                no_wrap=name in self.nowrap,
                width=width,
            )
        for n, line in enumerate(self._lines()):
            if self.group and n and line[self._names.index(self.group)]:
                grid.add_section()
            grid.add_row(*(Text(visible(text)) for text in line))
        return grid

    def _widths(self, room: int) -> list[int | None]:
        """Columns as wide as their cells, under headings of several lines, where that and only
        that spares the cells from being wrapped; else None, for rich to decide.
        """
        from rich.cells import cell_len

        columns = zip(self._names, *self._lines(), strict=True)
        texts = [[visible(text).splitlines() or [""] for text in column] for column in columns]
        cells = [max((cell_len(t) for x in rest for t in x), default=0) for _, *rest in texts]
        heads = [cell_len(head[0]) for head, *_ in texts]
        words = [max(map(cell_len, head[0].split()), default=0) for head, *_ in texts]
        frame = 3 * len(cells) + 1
        tight = [max(pair) for pair in zip(cells, words, strict=True)]
        loose = sum(max(pair) for pair in zip(cells, heads, strict=True))
        if loose + frame <= room or sum(tight) + frame > room:
            return [None] * len(cells)
        return list(tight)

    @property
    def csv(self) -> str:
        """The values as they are, with a header; nothing where there is none. Text that a
        spreadsheet would take for a formula has an apostrophe before it.
        """
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(map(csv_cell, self._names))
        for row in self.rows:
            cells = (row[name] for name in self._names)
            values = (cell.text if isinstance(cell, Cell) else cell for cell in cells)
            writer.writerow(map(csv_cell, values))
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
        lines = [[_latex(text) for text in line] for line in (self._names, *self._lines())]
        head, *body = [" & ".join(line) + r" \\" for line in lines]
        title = [rf"\caption*{{{_latex(self.title)}}}"] if self.title else []
        rows = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", head, r"\midrule", *body]
        ends = [r"\bottomrule", r"\end{tabular}", *(rf"\\ {_latex(n)}" for n in self.notes)]
        inner = "\n".join([*title, *rows, *ends])
        return f"\\begin{{table}}\n\\centering\n{inner}\n\\end{{table}}\n"

    @property
    def _names(self) -> list[str]:
        return list(self.columns or (self.rows[0] if self.rows else ()))

    def _is_left(self, column: str) -> bool:
        if self.left is not None:
            return column in (self.group, *self.left)
        return not all(isinstance(row[column], int | float) for row in self.rows)

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
    return DASH if value is None else value.text if isinstance(value, Cell) else str(value)


def _html(value: object) -> str:
    return value.html if isinstance(value, Cell) else escape(_text(value), quote=False)


def _latex(text: str) -> str:
    return _printable(text).translate(_LATEX)


def _printable(text: str) -> str:
    """The text on one line: a space for every character that does not print."""
    return "".join(c if c.isprintable() else " " for c in text)


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
    return DASH if low is None or high is None else f"{low:.0f} to {high:.0f}"


def interval_text(rating: Rating) -> str:
    """The 95 % interval in words."""
    return span(rating.ci_low, rating.ci_high)


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
