"""Reading and writing data files; writes are atomic (a temporary file, renamed)."""

import codecs
import gzip
import json
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, AnyStr

#: The longest line of a text file, in bytes.
LONGEST_LINE = 67_108_864
#: Whether the limits on what is read are lifted, as `rate --no-limits` does.
limits_lifted: ContextVar[bool] = ContextVar("limits_lifted", default=False)


class ArenaError(Exception):
    """What is refused, in a sentence; a notebook shows the sentence without the frames."""


class DataError(ArenaError, ValueError):
    """Input that cannot be read as what it claims to be; the message says where."""


#: What an error means to scripts, by its name, as the exit code of a command; any other is 1.
EXIT_CODES = {"DataError": 2, "RatingError": 2} | dict.fromkeys(
    ("OfflineError", "LockedError", "CostError", "UnfitJudgeError", "PausedError"), 3
)


def option(flag: str, argument: str) -> str:
    """How a setting is named: as an option where a command runs, else as an argument in Python."""
    click = sys.modules.get("click")
    return flag if click and click.get_current_context(silent=True) else argument


def whole_text(text: str) -> str:
    """The text with lone surrogates replaced by question marks: UTF-8 cannot encode them."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


#: Characters that a terminal or a browser obeys instead of showing them: the control characters
#: (C0 but for tab and line feed, DEL, C1) and those that turn the direction of writing.
_OBEYED = (
    *(code for code in range(0x20) if chr(code) not in "\t\n"),
    *range(0x7F, 0xA0),
    *(0x061C, 0x200E, 0x200F),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)
_SHOWN = {code: f"[U+{code:04X}]" for code in _OBEYED}


def visible(text: str) -> str:
    """The text with control characters and bidirectional controls shown as their code points,
    such as [U+001B]; line breaks and tabs stay.
    """
    return text.replace("\r\n", "\n").translate(_SHOWN)


class LockedError(ArenaError, RuntimeError):
    """A record folder or a ledger that another run holds."""


def file_in(folder: Path, name: str) -> Path:
    """A file of a folder that may be somebody else's, such as a run record. A link anywhere in it
    is refused: what stands behind it is not the folder's.
    """
    there = folder.rglob("*") if os.path.lexists(folder / name) else iter(())
    if link := next((path for path in there if path.is_symlink()), None):
        raise DataError(f"{link}: a link, and a record holds none")
    return folder / name


def limit(usual: int) -> int:
    """A limit on what is read; lifted, it is the most that DuckDB allows for a row of JSON."""
    return 2**32 - 1 if limits_lifted.get() else usual


def bounded_lines(file: IO[AnyStr]) -> Iterator[AnyStr]:
    """The lines of an open file; one that would fill memory is refused."""
    most, number = limit(LONGEST_LINE), 0
    while line := file.readline(most + 1):
        number += 1
        if len(line) > most:
            why = f"a line has over {most:,} bytes; `arena-kit rate --no-limits` reads longer ones"
            raise DataError(f"{file.name}:{number}: {why}")
        yield line


@contextmanager
def whole_file(path: Path, *, private: bool = False) -> Iterator[Path]:
    """A temporary path beside `path`, renamed onto it only when the block succeeds. A file that is
    replaced keeps its permissions; a new one is the owner's alone if private, else as the umask
    says.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    handle = os.open(part, flags, 0o600 if private else 0o666)
    try:
        mode = (path.stat() if path.is_file() and not private else os.fstat(handle)).st_mode
        os.close(handle)
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.chmod(stat.S_IMODE(mode))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Write JSON that any reader accepts: sorted keys, no NaN, a newline at the end."""
    text = json.dumps(value, allow_nan=False, sort_keys=True, indent=2, ensure_ascii=False)
    write_text(path, text + "\n")


def write_jsonl(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write one JSON object per line, whole; gzipped when the name ends in .gz."""
    opened = gzip.open if path.suffix == ".gz" else open
    with whole_file(path) as part, opened(part, "wt", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n")


def append_lines(path: Path, lines: Sequence[str]) -> None:
    """Add lines to a file, durably."""
    if not lines:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as out:
        out.write("".join(f"{line}\n" for line in lines))
        out.flush()
        os.fsync(out.fileno())


def whole_lines(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """The objects of a JSONL file that is appended to, and whether its last line is whole;
    one that was cut short is left out.
    """
    raw = path.read_bytes()
    end = raw.rfind(b"\n") + 1
    rows = [
        _parse_line(line, f"{path}:{number}")
        for number, line in enumerate(raw[:end].split(b"\n"), 1)
        if line.strip()
    ]
    return rows, end == len(raw)


#: Text that a spreadsheet takes for a formula, as a regular expression of Python and of DuckDB;
#: with apostrophes before it, too, so that adding one and removing one are each other's inverse.
FORMULA = r"^'*[=+\-@\t\r]"
#: A number as text, which is no formula.
NUMBER = r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"


def csv_cell(value: object) -> object:
    """The value as it may stand in a CSV file: text that a spreadsheet would take for a formula
    gets an apostrophe before it.
    """
    if isinstance(value, str) and re.search(FORMULA, value) and not re.fullmatch(NUMBER, value):
        return f"'{value}"
    return value


def write_csv(path: Path, rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> None:
    """Write a CSV table whole; no text in it is a formula."""
    with whole_file(path) as part, part.open("w", encoding="utf-8", newline="") as out:
        write_cells(out, rows, columns)


def write_cells(out: IO[str], rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> None:
    """Write a header and rows as CSV into an open file."""
    import csv

    table = csv.DictWriter(out, columns, lineterminator="\n")
    table.writerow({name: csv_cell(name) for name in columns})
    table.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)


def read_bytes(path: Path) -> bytes:
    """A whole file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the path") from None


def read_text(path: Path) -> str:
    """A whole UTF-8 file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the path") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text (byte {error.start})") from None


def read_json(path: Path) -> Any:
    """A whole JSON file."""
    text = read_text(path)
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except RecursionError:
        raise DataError(f"{path}: nested too deeply") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: not valid JSON ({error.msg})") from None
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON ({error})") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file whose top level is a mapping with each key once."""
    from arena_kit.yaml_loader import load_yaml

    text = read_text(path)
    try:
        value = load_yaml(text)
    except ValueError as error:
        raise DataError(f"{path}{error}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DataError(f"{path}: expected a mapping of keys to values, got {type(value).__name__}")
    return value


def read_value(name: str, text: str) -> Any:
    """One value as YAML writes it, such as a number typed on a command line."""
    from arena_kit.yaml_loader import load_yaml

    try:
        return load_yaml(text)
    except ValueError:
        raise DataError(f"-p {name}: {text[:60]!r} is not a value") from None


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and objects of a JSONL file; blank lines are skipped."""
    if not path.is_file():
        raise DataError(f"{path}: no such file; check the path")
    number = 0
    try:
        opened: Any = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rb") as lines:
            for number, raw in enumerate(bounded_lines(lines), 1):
                line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
                if line.strip():
                    yield number, _parse_line(line, f"{path}:{number}")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}:{number + 1}: not a whole gzip file ({error})") from None


def _parse_line(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line.decode("utf-8"), parse_constant=refuse_constant)
    except UnicodeDecodeError:
        raise DataError(f"{where}: not UTF-8 text") from None
    except RecursionError:
        raise DataError(f"{where}: nested too deeply") from None
    except ValueError as error:
        message = getattr(error, "msg", str(error))
        raise DataError(f"{where}: not valid JSON ({message}); correct the line") from None
    if not isinstance(row, dict):
        raise DataError(f"{where}: expected a JSON object, got {type(row).__name__}")
    return _mended(row) if b"\\ud" in line.lower() else row


def _mended(value: Any) -> Any:
    """The value with lone surrogates replaced in every text of it."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value


def refuse_constant(name: str) -> None:
    """Refuse what JSON does not know: NaN and infinities."""
    raise ValueError(f"{name} is not a JSON number")


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    import hashlib

    return hashlib.sha256(read_bytes(path)).hexdigest()
