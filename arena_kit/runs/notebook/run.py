"""Running a notebook headlessly into a record, over papermill."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Mapping
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

from arena_kit.files import DataError, read_value, read_yaml
from arena_kit.judging.asking.batches import left_running
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Status
from arena_kit.reporting.html import export_report
from arena_kit.runs.notebook.check import Ready
from arena_kit.runs.notebook.kernel import execute, import_papermill
from arena_kit.runs.placement.plan import ArenaPlan
from arena_kit.runs.record.inputs import replay_parameters
from arena_kit.runs.record.progress import status_line, watching
from arena_kit.runs.record.record import Record, open_record, recorded_parameters, runs_folder
from arena_kit.runs.settings.files import validated
from arena_kit.runs.settings.parameters import PlacementParams, RunParams, parameters_of
from arena_kit.runs.tournament.plan import Plan

#: What an error inside a notebook means to scripts; anything else is a failed run.
EXIT_CODES = {
    "DataError": 2,
    "OfflineError": 3,
    "LockedError": 3,
    "CostError": 3,
    "UnfitJudgeError": 3,
    "PausedError": 3,
    "RatingError": 2,
}
FAILED = 1


class RunFailedError(RuntimeError):
    """A run that did not finish; its record is kept."""

    def __init__(self, message: str, record: Record, exit_code: int) -> None:
        super().__init__(message)
        self.record = record
        self.exit_code = exit_code


def run_notebook(
    name: str,
    *,
    root: Path,
    params_file: Path | None = None,
    from_record: Path | None = None,
    overrides: Mapping[str, str] | None = None,
    runs_dir: Path | None = None,
    ask_again: Status | None = None,
    say: Callable[[str], None] = print,
    progress: bool = True,
) -> Record:
    """Execute `notebooks/<name>.ipynb` into a new record and render its report.

    Parameters come from `params_file` (default `params/<name>.yaml`), then `overrides`;
    unknown or ill-typed ones are refused before anything starts. `from_record` repeats a
    record's verdicts on the inputs that it kept, unless parameters say otherwise. Requests with
    the final status `ask_again` are asked again; how many and for how much is said first.
    """
    notebook, parameters = _resolved(name, root, params_file, from_record, overrides)
    _ask_again(notebook, parameters, ask_again, say)
    _ready(notebook, parameters, root, progress=progress)
    folder = parameters.get("run_dir")
    record = (
        Record.claim(root / folder)
        if folder
        else Record.create(runs_dir or runs_folder(root), name)
    )
    return _run(notebook, record, parameters, root, progress=progress)


def resume_notebook(
    path: Path,
    *,
    root: Path,
    overrides: Mapping[str, str] | None = None,
    ask_again: Status | None = None,
    say: Callable[[str], None] = print,
    progress: bool = True,
) -> Record:
    """Go on with a record that did not finish, with its own parameters and `overrides`.

    What was paid for is in the ledger, and batches that went on are collected. `ask_again` as
    for `run_notebook`.
    """
    manifest = open_record(path)
    if manifest.get("mode") == "generate":
        raise DataError(f"{path}: made by `arena-kit generate`; run that again, and it goes on")
    notebook = _notebook(str(manifest.get("mode")), root)
    known = notebook_parameters(notebook)
    given = {name: value for name, value in recorded_parameters(path).items() if name in known}
    parameters = _parameters(notebook, given, f"{path}/manifest.json", overrides or {})
    _ask_again(notebook, parameters, ask_again, say)
    record = Record.reopen(path)
    try:
        _ready(notebook, parameters, root, progress=progress)
    except BaseException:
        record.release()
        raise
    return _run(notebook, record, parameters, root, progress=progress)


def planned(name: str, *, root: Path, from_record: Path, overrides: Mapping[str, str]) -> Plan:
    """What `run_notebook` would do on the inputs of a record, read, checked and priced."""
    notebook, parameters = _resolved(name, root, None, from_record, overrides)
    return Plan.read(name, notebook_defaults(notebook) | parameters)


def ready_run(
    name: str,
    *,
    root: Path,
    params_file: Path | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Ready:
    """What `run_notebook` would run, with parameters, data and judge checked; no kernel starts."""
    notebook, parameters = _resolved(name, root, params_file, None, overrides)
    return _ready(notebook, parameters, root)


def _ready(
    notebook: Path, parameters: dict[str, Any], root: Path, *, progress: bool = False
) -> Ready:
    """What would run; refuses now what the kernel, which works in the workspace's root, would
    refuse after it has started and has a record.
    """
    words, whole = "checking parameters, data and judge", notebook_defaults(notebook) | parameters
    with chdir(root), status_line(lambda: words, shown=progress):
        return Ready.read(notebook.stem, whole)


def _resolved(
    name: str,
    root: Path,
    params_file: Path | None,
    from_record: Path | None,
    overrides: Mapping[str, str] | None,
) -> tuple[Path, dict[str, Any]]:
    """A notebook and what it is told; unknown and ill-typed parameters are refused."""
    notebook = _notebook(name, root)
    given, source = _given(notebook, params_file, from_record, root)
    return notebook, _parameters(notebook, given, source, overrides or {})


def _ask_again(
    notebook: Path, parameters: dict[str, Any], status: Status | None, say: Callable[[str], None]
) -> None:
    if status is None:
        return
    whole, kind = notebook_defaults(notebook) | parameters, parameters_of(notebook.stem)
    plan: Plan | ArenaPlan | None = None
    if issubclass(kind, RunParams):
        plan = Plan.read(notebook.stem, whole)
    elif kind is PlacementParams:
        plan = ArenaPlan.of(whole)
    if plan is None:
        raise DataError(f"{notebook.stem} asks no judge, so nothing can be asked again")
    plan.ask_again(status, say)


def _run(
    notebook: Path, record: Record, parameters: dict[str, Any], root: Path, *, progress: bool
) -> Record:
    parameters["run_dir"] = str(record.path.resolve())
    known = parameters_of(notebook.stem)
    whole = notebook_defaults(notebook) | parameters
    resolved = validated(known, whole, f"parameters of {notebook.stem}")
    record.start(notebook.stem, resolved.model_dump(mode="json"))
    try:
        with watching(record, shown=progress):
            execute(notebook, record, parameters, root)
        export_report(record.path / "report.ipynb", record.path / "report.html")
    except BaseException as error:
        raise _failure(error, record, root) from error
    else:
        record.finish()
    finally:
        record.release()
    return record


def known_notebooks(root: Path) -> list[str]:
    """The names of a workspace's notebooks."""
    return sorted(path.stem for path in (root / "notebooks").glob("*.ipynb"))


def _notebook(name: str, root: Path) -> Path:
    known = known_notebooks(root)
    if name not in known:
        raise DataError(f"no notebook {name!r}; known: {', '.join(known) or 'none'}")
    return root / "notebooks" / f"{name}.ipynb"


def _given(
    notebook: Path, params_file: Path | None, from_record: Path | None, root: Path
) -> tuple[dict[str, Any], str]:
    """Parameters by file and by the record that is repeated, and where they come from."""
    replayed: dict[str, Any] = {}
    if from_record is not None:
        if parameters_of(notebook.stem) is not RunParams:
            raise DataError(f"--from-record repeats verdicts, and {notebook.stem} asks no judge")
        known = notebook_parameters(notebook)
        taken = replay_parameters(from_record).items()
        replayed = {name: value for name, value in taken if name in known}
        if params_file is None:
            return replayed, f"{from_record}/manifest.json"
    file = params_file or Path("params") / f"{notebook.stem}.yaml"
    file = file if file.is_file() else root / file
    return replayed | read_yaml(file), str(file)


def _parameters(
    notebook: Path, given: dict[str, Any], source: str, overrides: Mapping[str, str]
) -> dict[str, Any]:
    name = notebook.stem
    allowed = notebook_parameters(notebook)
    for key in [*given, *overrides]:
        if key not in allowed:
            where = "-p" if key in overrides else source
            known = ", ".join(sorted(allowed))
            raise DataError(f"{where}: unknown parameter {key!r} of {name}; allowed: {known}")
    given |= {
        key: text if allowed[key] == "str" else read_value(key, text)
        for key, text in overrides.items()
    }
    validated(parameters_of(name), given, f"parameters of {name}")
    return given


def notebook_parameters(notebook: Path) -> dict[str, str]:
    """Names and types that a notebook's parameters cell declares, as papermill sees them."""
    cell = import_papermill().inspect_notebook(str(notebook))
    return {name: each["inferred_type_name"] for name, each in cell.items()}


def notebook_defaults(notebook: Path) -> dict[str, Any]:
    """What a notebook runs with where it is told nothing."""
    cell = import_papermill().inspect_notebook(str(notebook))
    return {name: literal_eval(each["default"]) for name, each in cell.items()}


def _failure(error: BaseException, record: Record, root: Path) -> RunFailedError:
    kind = str(getattr(error, "ename", type(error).__name__))
    message = str(getattr(error, "evalue", error)) or _interrupted(record, root)
    with suppress(OSError):  # on a full disk the manifest stays as it was, and resume goes on
        record.finish(error=f"{kind}: {message}")
    with suppress(Exception):  # the reason above is what counts; a report of it is a courtesy
        export_report(record.path / "report.ipynb", record.path / "report.html")
    return RunFailedError(message, record, EXIT_CODES.get(kind, FAILED))


def _interrupted(record: Record, root: Path) -> str:
    """What goes on without the interrupted run, and what it has paid."""
    tournament = record.read().get("tournament")
    if tournament is None:
        return "interrupted before anything was sent"
    ledger = Ledger(root / tournament["verdicts"])
    record.add_spent(ledger)
    return left_running(ledger)
