"""Rows of JSON files, seen from Python: their keys, their lines, and what is wrong with them.

DuckDB reads these files; here is what it does not tell.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from arena_kit.files import DataError, read_lines, refuse_constant

#: The longest row, in bytes.
LONGEST = 67_108_864
#: What a damaged text file raises.
BROKEN = (OSError, EOFError, zlib.error, ValueError, RecursionError)


def is_array(path: Path) -> bool:
    """Whether a file holds one array; JSONL begins with an object."""
    try:
        with opened(path) as text:
            return text.read(4096).lstrip()[:1] != "{"
    except BROKEN:
        return False


def first_keys(path: Path, *, array: bool) -> tuple[str, ...]:
    """All keys of the first 100 rows that can be read, in the order of their first appearance."""
    keys: dict[str, None] = {}
    try:
        with opened(path) as text:
            rows = (row for _, row in elements(text)) if array else _whole_lines(text)
            for row in islice(rows, 100):
                keys |= dict.fromkeys(row if isinstance(row, dict) else ())
    except BROKEN:
        pass
    return tuple(keys)


def line_of(path: Path, row: int, *, array: bool) -> int:
    """The line on which a row begins."""
    if not array:
        return next(line for line, _ in islice(read_lines(path), row, None))
    with opened(path) as text:
        return next(line for line, _ in islice(elements(text), row, None))


def check_json(path: Path, *, array: bool) -> None:
    """Refuse a file at the line that is not a JSON object, or that holds a bare NaN."""
    if not array:
        for _ in read_lines(path):
            pass
        return
    try:
        with opened(path) as text:
            json.loads(text.read(), parse_constant=refuse_constant)
            text.seek(0)
            strangers = ((n, row) for n, row in elements(text) if not isinstance(row, dict))
            line, row = next(strangers, (0, {}))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: not valid JSON ({error.msg})") from None
    except BROKEN as error:
        raise DataError(f"{path}: not valid JSON ({error})") from None
    if line:
        raise DataError(f"{path}:{line}: expected a JSON object, got {type(row).__name__}")


def elements(text: IO[str]) -> Iterator[tuple[int, Any]]:
    """The elements of a JSON array, each with the line it begins on; read piece by piece."""
    decoder, line, rest, between = json.JSONDecoder(), 1, "", "[, \t\r\n"
    while piece := text.read(1 << 20):
        rest += piece
        while (skipped := len(rest) - len(rest.lstrip(between))) < len(rest):
            try:
                element, end = decoder.raw_decode(rest, skipped)
            except ValueError:
                if len(rest) > LONGEST:
                    raise
                break
            if end == len(rest):
                break
            line += rest.count("\n", 0, skipped)
            yield line, element
            line += rest.count("\n", skipped, end)
            rest, between = rest[end:], ", \t\r\n"


def opened(path: Path) -> IO[str]:
    """A text file, gzipped or not; bytes that are no text are passed over."""
    reader: Any = gzip.open if path.suffix == ".gz" else open
    text: IO[str] = reader(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
    return text


def _whole_lines(text: IO[str]) -> Iterator[Any]:
    while line := text.readline(LONGEST):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue
