"""All formats, and which one a file is in: by looking at it, or by name."""

from pathlib import Path

from arena_kit.battles.readers.arenas import ARENAS
from arena_kit.battles.readers.format import OWN, Columns, Format, mapped
from arena_kit.battles.readers.judges import JUDGES
from arena_kit.battles.readers.stores import STORES
from arena_kit.battles.readers.tables import TABLES
from arena_kit.battles.tabular import columns_of, listed
from arena_kit.files import DataError, option

FORMATS: tuple[Format, ...] = (OWN, *ARENAS, *JUDGES, *STORES, *TABLES)


def format_of(path: Path, name: str | None = None, columns: Columns | None = None) -> Format:
    """The format of a file: the one that is named, the columns that are mapped, or else the one
    its columns show.
    """
    if name and columns:
        raise DataError(f"{path}: a format ({name}) and columns are named; allowed: one of them")
    if name:
        known = {each.name: each for each in FORMATS}
        if name not in known:
            raise DataError(f"{path}: unknown format {name!r}; allowed: {', '.join(known)}")
        return known[name]
    present = columns_of(path)
    if not columns:
        return _seen(path, present)
    own = mapped(columns, present)
    if present and (missing := [each for each in own.needs[:3] if each not in present]):
        raise DataError(f"{path}: missing column {', '.join(missing)}; found: {listed(present)}")
    return own


def _seen(path: Path, columns: tuple[str, ...]) -> Format:
    """The format that needs most of those whose columns are all there; a file without columns is
    an empty one of ours.
    """
    if not columns:
        return OWN
    known = (mapped(Columns(), columns), *FORMATS[1:])
    fitting = [each for each in known if set(each.needs) <= set(columns)]
    if not fitting:
        raise DataError(f"{path}: {_unknown(columns)}")
    most = max(len(each.needs) for each in fitting)
    best = [each for each in fitting if len(each.needs) == most]
    if len(best) > 1:
        names = " or ".join(each.name for each in best)
        by = option("--format", "format=")
        raise DataError(f"{path}: could be {names} by its columns; say which with {by}")
    return best[0]


def _unknown(columns: tuple[str, ...]) -> str:
    """A sentence on columns that no format fits: the nearest one, and what to do."""
    nearest = min(FORMATS, key=lambda each: len(set(each.needs) - set(columns)))
    lacking = [name for name in nearest.needs if name not in columns]
    return (
        f"missing column {', '.join(lacking)} for the nearest format, {nearest.name}; "
        f"found: {listed(columns)}; name the format with "
        + option(
            "--format or the columns with --model-a, --model-b, --winner, --question, --voter and "
            "labels with --value 'left=model_a'",
            "format= or the columns with columns=Columns(model_a=…, values={'left': 'model_a'})",
        )
    )
