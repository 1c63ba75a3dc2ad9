"""A grid of runs of one notebook: every combination of some parameters, each into its own record.

Records that are finished are not run again, so a sweep that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from arena_kit.fanout import fan_out, work_stays_here
from arena_kit.files import DataError, LockedError, read_json, read_yaml, write_json, write_text
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.sweep import SweepIndex, SweptRun
from arena_kit.runs.notebook.run import (
    RunFailedError,
    known_notebooks,
    notebook_parameters,
    resume_notebook,
    run_notebook,
)

FILE = "sweep.json"
#: More runs than this are refused: a grid grows by multiplication, and each run takes a kernel.
MOST_RUNS = 1000
#: Parameters that a grid cannot vary: each run has its own record.
_OWN = ("run_dir",)


@dataclass(frozen=True, slots=True)
class Grid:
    """A notebook and the parameters of every run."""

    notebook: str
    runs: tuple[dict[str, Any], ...]

    @classmethod
    def read(cls, name: str, file: Path, root: Path) -> Grid:
        """A YAML file with a list of values for every parameter that varies, and one value for
        those that do not; a parameter that is a list itself takes a list of lists.
        """
        if name not in known_notebooks(root):
            known = ", ".join(known_notebooks(root)) or "none"
            raise DataError(f"no notebook {name!r}; known: {known}")
        kinds = notebook_parameters(root / "notebooks" / f"{name}.ipynb")
        given = read_yaml(file)
        for key in given:
            if key not in kinds or key in _OWN:
                allowed = ", ".join(sorted(set(kinds) - set(_OWN)))
                raise DataError(f"{file}: unknown parameter {key!r} of {name}; allowed: {allowed}")
        values = [_values(key, value, kinds[key], file) for key, value in given.items()]
        runs = tuple(dict(zip(given, each, strict=True)) for each in product(*values))
        if not given or len(runs) > MOST_RUNS:
            n = len(runs) if given else 0
            raise DataError(f"{file}: gives {n:,} runs; allowed: 1 to {MOST_RUNS:,}")
        return cls(name, runs)

    def names(self) -> list[str]:
        """The folder of every run."""
        width = max(3, len(str(len(self.runs))))
        return [f"{number:0{width}}" for number in range(1, len(self.runs) + 1)]

    @property
    def varied(self) -> list[str]:
        """The parameters that differ between runs; all where there is one run."""
        names = list(self.runs[0])
        several = [n for n in names if len({json.dumps(run[n]) for run in self.runs}) > 1]
        return several or names


def _values(key: str, value: Any, kind: str, file: Path) -> list[Any]:
    """All values of a parameter."""
    several = isinstance(value, list) and not (
        kind.startswith("list") and not all(isinstance(each, list) for each in value)
    )
    if several and not value:
        raise DataError(f"{file}: {key} has no value; allowed: one or a list of some")
    return list(value) if several else [value]


def run_sweep(
    grid: Grid, folder: Path, *, root: Path, params_file: Path | None = None, jobs: int = 0
) -> Iterator[SweepIndex]:
    """Run what is not finished of a grid into the records of a folder; after every run comes the
    index as it then is, which is kept beside them as index.html and index.json.
    """
    _keep(grid, folder, params_file)
    names = grid.names()
    cells = [(name, run) for name, run in zip(names, grid.runs, strict=True)]
    told = None if params_file is None else params_file.resolve()
    play = partial(_one_run, grid.notebook, folder.resolve(), root.resolve(), told)
    todo = [cell for cell in cells if _status(folder / cell[0]) != "finished"]
    errors: dict[str, str] = {}
    locked = []
    for cell, error in zip(todo, fan_out(play, todo, by="processes", jobs=jobs), strict=True):
        errors[cell[0]] = error.text
        if error.locked:
            locked.append(cell)
        yield _indexed(grid, folder, errors)
    for cell in locked:  # what only one may do at a time, such as paying, is done one by one
        errors[cell[0]] = play(cell).text
        yield _indexed(grid, folder, errors)
    if not todo:
        yield _indexed(grid, folder, errors)


def _keep(grid: Grid, folder: Path, params_file: Path | None) -> None:
    """Write down what the folder is for; refuse one that is for another grid."""
    mine = {
        "notebook": grid.notebook,
        "runs": list(grid.runs),
        "params": str(params_file) if params_file else "",
    }
    file = folder / FILE
    if file.is_file():
        if read_json(file) != mine:
            raise DataError(f"{folder}: holds the sweep of another grid; choose a new folder")
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise DataError(f"{folder}: holds files of its own; choose a new or empty folder")
    write_json(file, mine)


@dataclass(frozen=True, slots=True)
class Ended:
    """Why a run did not finish (empty where it did), and whether another held what it needs."""

    text: str
    locked: bool = False


def _one_run(
    notebook: str,
    folder: Path,
    root: Path,
    params_file: Path | None,
    cell: tuple[str, Mapping[str, Any]],
) -> Ended:
    """Run one combination, or go on with it."""
    name, parameters = cell
    record = folder / name
    overrides = {key: _text(value) for key, value in parameters.items()}
    if record.is_dir() and _status(record) == "":
        shutil.rmtree(record)  # stopped before its manifest, so nothing was asked
    try:
        with work_stays_here():
            if record.is_dir():
                resume_notebook(record, root=root, progress=False)
            else:
                given = overrides | {"run_dir": str(record)}
                run_notebook(
                    notebook, root=root, params_file=params_file, overrides=given, progress=False
                )
    except RunFailedError as error:
        locked = str(error.record.read().get("error", "")).startswith(LockedError.__name__)
        return Ended(str(error), locked)
    except LockedError as error:
        return Ended(str(error), locked=True)
    except (DataError, RuntimeError, OSError) as error:
        return Ended(str(error))
    return Ended("")


def _text(value: Any) -> str:
    """A value as `-p` takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _status(record: Path) -> str:
    """How the record of a run stands; empty where there is none."""
    file = record / "manifest.json"
    return str(read_json(file).get("status", "")) if file.is_file() else ""


def _indexed(grid: Grid, folder: Path, errors: Mapping[str, str]) -> SweepIndex:
    """The index of a folder, written beside its records."""
    index = SweepIndex(
        notebook=grid.notebook,
        runs=[
            _swept(folder, name, {key: run[key] for key in grid.varied}, errors.get(name, ""))
            for name, run in zip(grid.names(), grid.runs, strict=True)
        ],
    )
    write_json(folder / "index.json", index.as_dict())
    write_text(folder / "index.html", index.html)
    return index


def _swept(folder: Path, name: str, parameters: dict[str, Any], error: str) -> SweptRun:
    record = folder / name
    status = _status(record) or ("failed" if error else "not run yet")
    answer: Mapping[str, Any] = {}
    if status == "finished" and (record / ANSWER_FILE).is_file():
        answer = read_json(record / ANSWER_FILE)
    said: Sequence[str] = answer.get("answer", ())
    return SweptRun(
        name=name,
        parameters=parameters,
        status=status,
        error=error,
        answer=said,
        question=str(answer.get("question", "")),
    )
