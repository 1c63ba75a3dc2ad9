"""Sheets of a workbook (.xlsx, .xlsm, .xlsb, .xls, .ods) as rows of text."""

from collections.abc import Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, NamedTuple

from arena_kit.files import DataError

SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")


class Sheet(NamedTuple):
    """A sheet: its first row that holds anything names the columns; `numbers` are those of the
    rows in the workbook, and empty rows are left out.
    """

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    numbers: list[int]

    def cell(self, row: int, column: int) -> str:
        """Where a cell stands, as a workbook names it."""
        return f"{self.name}!{_letters(column)}{self.numbers[row]}"


def is_workbook(path: Path) -> bool:
    """Whether a file is a workbook, by its name."""
    return path.name.lower().endswith(SUFFIXES)


def read_sheet(path: Path, name: str = "") -> Sheet:
    """The named sheet of a workbook, or its first; a merged range has its value in every cell."""
    from python_calamine import CalamineError, CalamineWorkbook

    if not path.is_file():
        raise DataError(f"{path}: no such file; check the path")
    try:
        workbook = CalamineWorkbook.from_path(str(path))
        names = workbook.sheet_names
        if name and name not in names:
            raise DataError(f"{path}: no sheet {name!r}; it has: {', '.join(names)}")
        sheet = workbook.get_sheet_by_name(name or names[0])
        cells = [list(map(_text, row)) for row in sheet.to_python(skip_empty_area=False)]
    except (CalamineError, OSError, IndexError) as error:
        raise DataError(f"{path}: not a whole workbook ({error}); save it again") from None
    for (top, left), (bottom, right) in sheet.merged_cell_ranges or []:
        for row in cells[top : bottom + 1]:
            row[left : right + 1] = [cells[top][left]] * (right + 1 - left)
    filled = [(n, tuple(row)) for n, row in enumerate(cells, 1) if any(row)]
    if len(filled) < 2:
        raise DataError(f"{path}: sheet {sheet.name!r} has no rows below a row of column names")
    numbers, rows = zip(*filled, strict=True)
    columns = _named(rows[0])
    return Sheet(sheet.name, columns, [row[: len(columns)] for row in rows[1:]], [*numbers[1:]])


def _text(value: Any) -> str:
    """A cell as text; a whole number without its decimals."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if isinstance(value, date | datetime | time) else str(value).strip()


def _named(header: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns; one without a name has its letter."""
    return tuple(name or _letters(n) for n, name in enumerate(header))


def _letters(column: int) -> str:
    """The letters of a column, counted from 0: A to Z, then AA."""
    head, last = divmod(column, 26)
    return (_letters(head - 1) if head else "") + chr(65 + last)
