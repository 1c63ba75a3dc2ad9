"""One table for every place where rows are shown, and numbers in words."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from arena_kit.files import csv_cell, visible
from arena_kit.rating.base import Rating

if TYPE_CHECKING:
    import rich.table
    from great_tables import GT

DASH = "–"
_NOTE = "color: #57606a; font-size: 13px; line-height: 1.4; margin: 4px 0; max-width: 46rem"
_MARKDOWN = str.maketrans(
    {c: f"\\{c}" for c in "\\`*_[]|~$"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)
#: What great-tables leaves as it is: OT1 fonts have no such bar and quotation mark.
_LATEX = str.maketrans({"|": r"\textbar{}", '"': r"\symbol{34}", DASH: "--"})


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
        table = self._styled(self._great_table(_text))
        for n, row in enumerate(self.rows):
            for name in self._names:
                if isinstance(cell := row[name], Cell):
                    table = table.fmt(_always(cell.html), columns=name, rows=[n])
        return table.as_raw_html(inline_css=True) + notes

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
        """A LaTeX table with booktabs rules, as great-tables writes and escapes it."""
        table = self._great_table(lambda value: _printable(_text(value)))
        for note in self.notes:
            table = table.tab_source_note(note)
        return table.as_latex().translate(_LATEX)

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

    def _great_table(self, show: Callable[[object], str]) -> GT:
        import pandas as pd
        from great_tables import GT

        names = self._names
        body = [[show(row[name]) for name in names] for row in self.rows]
        frame = pd.DataFrame(body, columns=names, dtype=object)
        table = GT(frame, groupname_col=self.group or None, id=self.name)
        if self.title:
            table = table.tab_header(title=self.title)
        table = table.tab_options(
            table_font_size="12px" if self.small else "14px",
            table_margin_left="0px",
            heading_align="left",
            heading_title_font_size="15px",
            data_row_padding="5px",
            column_labels_font_weight="600",
            column_labels_hidden=not self.labels,
            row_group_font_weight="600",
            row_group_background_color="#f6f8fa",
            table_border_top_style="none",
            heading_border_bottom_style="none",
        ).opt_horizontal_padding(1.6)
        table = table.cols_align("right")
        return table.cols_align("left", [name for name in names if self._is_left(name)])

    def _styled(self, table: GT) -> GT:
        """The table with styles of single cells, which great-tables has for HTML alone."""
        from great_tables import loc, style

        bold, one_line = style.text(weight="600"), style.css("white-space: nowrap;")
        if self.bold:
            table = table.tab_style(bold, loc.body(columns=list(self.bold)))
        if self.nowrap:
            table = table.tab_style(one_line, loc.body(columns=list(self.nowrap)))
        if self.marked is not None:
            highlight = [style.fill(color="#fdebd9"), bold]
            table = table.tab_style(highlight, loc.body(rows=[self.marked]))
        return table


def _always(html: str) -> Callable[[object], str]:
    """A formatter that gives this HTML whatever the value is."""
    return lambda _: html


def _text(value: object) -> str:
    return DASH if value is None else value.text if isinstance(value, Cell) else str(value)


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
