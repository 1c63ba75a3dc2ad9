"""Run records: a folder per run, with a manifest written first and last."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import socket
import subprocess
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_kit.battles.display import html_facts
from arena_kit.files import DataError, LockedError, file_in, read_json, write_json, write_text
from arena_kit.runs.record import live_report

if TYPE_CHECKING:
    from filelock import FileLock

    from arena_kit.judging.ledger.ledger import Ledger
    from arena_kit.reporting.figures import Plot

RUNS_VARIABLE = "ARENA_KIT_RUNS"
TOKEN_VARIABLE = "ARENA_KIT_RUN_TOKEN"  # noqa: S105 (the name of a variable, not a secret)
_MARKER = Path("params/tournament.yaml")
#: A workspace's own list of the runs that it began: a digest of what each was told, by its token.
_BEGUN = Path(".arena_kit/begun")
_PACKAGES = (
    "arena-kit", "numpy", "numba", "pydantic", "duckdb", "papermill", "matplotlib", "anthropic"
)  # fmt: skip


def find_root(start: Path | None = None) -> Path:
    """The workspace around a folder: the nearest one above it with params/tournament.yaml."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / _MARKER).is_file():
            return folder
    raise DataError(
        f"no workspace here: neither {start} nor a folder above it has {_MARKER}; "
        "make one with: arena-kit init DIR"
    )


def runs_folder(root: Path) -> Path:
    """Where records go: $ARENA_KIT_RUNS, or runs/ in the workspace."""
    return Path(os.environ.get(RUNS_VARIABLE) or root / "runs")


def near_runs(folder: Path) -> Path:
    """Where records are: those of the workspace, or outside of any those beside a folder."""
    with suppress(DataError):
        return runs_folder(find_root())
    return runs_folder(folder)


def utc_now() -> str:
    """This moment, as manifests write it."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Record:
    """One run's folder. Claimed once, so two runs never write into the same one, and locked by
    the process that runs it: the lock is the operating system's and ends with its process.
    """

    path: Path
    token: str
    _lock: FileLock = field(repr=False, compare=False)

    @classmethod
    def create(cls, folder: Path, mode: str) -> Record:
        """A new folder `<mode>_<UTC stamp>`, numbered when that second is taken."""
        stamp = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
        for n in range(1, 1000):
            path = folder / (f"{mode}_{stamp}" if n == 1 else f"{mode}_{stamp}_{n}")
            with suppress(FileExistsError):
                path.mkdir(parents=True)
                return cls.claim(path)
        raise LockedError(f"{folder} already holds 999 records of {mode}_{stamp}")

    @classmethod
    def claim(cls, path: Path) -> Record:
        """Take a folder for this run; refuse one that another run has taken."""
        path.mkdir(parents=True, exist_ok=True)
        claim = path / ".claim"
        token = _inherited(path) or secrets.token_hex(16)
        if not claim.exists() and any(path.iterdir()):
            raise LockedError(f"{path} holds files of its own; choose a new or empty run_dir")
        try:
            with claim.open("x", encoding="utf-8") as out:
                out.write(token)
        except FileExistsError:
            if claim.read_text(encoding="utf-8") != token:
                raise LockedError(
                    f"{path} belongs to another run ({_state(path)}); choose another run_dir"
                ) from None
        record = cls(path, token, _lock_of(path, attached=token == _inherited(path)))
        record.hold()
        return record

    @classmethod
    def reopen(cls, path: Path) -> Record:
        """Take up a record that did not finish; refuse one that is finished or still runs."""
        _refuse_finished(path)
        claim = path / ".claim"
        if not claim.is_file():
            raise DataError(f"{path}: not claimed by any run, so there is nothing to resume")
        record = cls(path, claim.read_text(encoding="utf-8"), _lock_of(path))
        record.hold()
        _refuse_finished(path)  # by a run that held the lock until now
        return record

    @classmethod
    def begin(cls, mode: str, parameters: dict[str, Any], root: Path) -> Record:
        """The record of a run in this process, in the folder that its parameters name or in a new
        one; its first manifest is written, unless a runner has.
        """
        folder = parameters["run_dir"]
        record = cls.claim(root / folder) if folder else cls.create(runs_folder(root), mode)
        if not record.attached:
            record.start(mode, parameters, root)
            live_report.follow()
            _close_in_the_end(record, mode)
        return record

    def hold(self) -> None:
        """Be the one process that runs this record; refuse while another is. Whoever a runner
        passed the record on to has a lock of its own, for it may outlive the runner.
        """
        from filelock import Timeout

        if self.held:
            return
        try:
            self._lock.acquire(timeout=0)
            if not self.attached:
                with _lock_of(self.path, attached=True).acquire(timeout=0):
                    pass
        except Timeout:
            self.release()
            process = self.read().get("process") or {}
            who = f"process {process.get('pid')} on {process.get('host')}"
            raise LockedError(f"{self.path}: this run is still active ({who})") from None

    @property
    def held(self) -> bool:
        """Whether this process has a lock on the record."""
        return bool(self._lock.is_locked)

    def release(self) -> None:
        """Let another process go on with this record."""
        self._lock.release()

    def close(self, error: str | None = None) -> Record:
        """Close the record as finished, or as failed with the reason, unless a runner will."""
        if not self.attached:
            self.finish(error)
            self.release()
            live_report.render_after_cell(self.path)
        return self

    @contextmanager
    def failing(self, also: Callable[[BaseException], None] | None = None) -> Iterator[None]:
        """Where the block fails, do `also`, then close the record as failed, unless attached."""
        self.hold()
        try:
            yield
        except BaseException as error:
            if also is not None:
                also(error)
            self.close(f"{type(error).__name__}: {error}")
            raise

    @property
    def attached(self) -> bool:
        """Whether a runner outside this process owns the record and will close it."""
        return _inherited(self.path) == self.token

    def pass_on(self) -> str:
        """What a runner puts into the environment so that its kernel may join this record."""
        return f"{self.token}:{self.path.resolve()}"

    def read(self) -> dict[str, Any]:
        """The manifest as it stands; empty before it is first written."""
        return open_record(self.path) if (self.path / "manifest.json").exists() else {}

    @property
    def facts(self) -> dict[str, str]:
        """Which run this is, and when it began."""
        began = str(self.read()["started_at"]).replace("T", " ").removesuffix("Z")
        return {"run": self.path.name, "begun": f"{began} UTC"}

    def _repr_html_(self) -> str:
        """What the manifest says of the run, in short."""
        return html_facts(in_short(self.read()), title=f"Record {self.path.name}")

    def update(self, **values: Any) -> dict[str, Any]:
        """Write the manifest with these top-level values replaced."""
        manifest = self.read() | values
        write_json(self.path / "manifest.json", manifest)
        return manifest

    def start(self, mode: str, parameters: dict[str, Any], root: Path | None = None) -> None:
        """Write the first manifest; of an earlier try, when and how it ended is kept. The
        workspace at `root` remembers the run, so that it may be resumed there; one that cannot be
        written to remembers none.
        """
        if root is not None:
            with suppress(OSError):
                write_text(root / _BEGUN / self.token, _digest(mode, parameters))
        before = self.read()
        names = ("started_at", "finished_at", "status", "error")
        tries = [{name: before.get(name) for name in names}] if before else []
        self.update(
            earlier_tries=[*before.get("earlier_tries", []), *tries],
            mode=mode,
            parameters=parameters,
            status="running",
            started_at=utc_now(),
            finished_at=None,
            error=None,
            process={"pid": os.getpid(), "host": socket.gethostname()},
            versions=package_versions(),
            code=code_state(Path.cwd()),
        )

    def publish(self, files: Mapping[str, Any], figures: Iterable[Plot] = ()) -> Record:
        """Write files of JSON values or texts, keep figures, and close the record as finished,
        unless a runner will.
        """
        with self.failing():
            for name, values in files.items():
                write = write_text if isinstance(values, str) else write_json
                write(self.path / name, values)
            for plot in figures:
                self.keep_figure(plot)
        return self.close()

    def keep_figure(self, plot: Plot) -> Plot:
        """Save a plot in the record, as a page and as a phone show it, and return it."""
        folder, name = self.path / "figures", f"{plot.name}.png"
        plot.save(folder / name, folder / "narrow" / name)
        return plot

    def add_spent(self, ledger: Ledger) -> None:
        """What the run has paid so far, by the ledger, and what it may have paid beside; a run
        that fails has costs, too.
        """
        spent, unknown = ledger.spent(self.token), ledger.usd_unknown(self.token)
        paid = {"usd_spent": spent, "usd_unknown": unknown}
        self.update(cost=self.read().get("cost", {}) | paid)

    def finish(self, error: str | None = None) -> dict[str, Any]:
        """Close the record as finished, or as failed with the reason."""
        status = "failed" if error else "finished"
        return self.update(status=status, finished_at=utc_now(), error=error)


def _lock_of(path: Path, *, attached: bool = False) -> FileLock:
    from filelock import FileLock

    return FileLock(path / (".kernel.lock" if attached else ".lock"), thread_local=False)


def _refuse_finished(path: Path) -> None:
    if open_record(path).get("status") == "finished":
        raise DataError(f"{path}: this run has finished; there is nothing to resume")


def _inherited(path: Path) -> str | None:
    """The token of this record, where a runner passed it on to this process."""
    token, _, folder = os.environ.get(TOKEN_VARIABLE, "").partition(":")
    return token if token and Path(folder) == path.resolve() else None


def open_record(path: str | Path) -> dict[str, Any]:
    """The manifest of a record folder."""
    manifest = file_in(Path(path), "manifest.json")
    if not manifest.is_file():
        raise DataError(f"{path}: not a run record (no manifest.json)")
    values = read_json(manifest)
    if not isinstance(values, dict):
        kind = type(values).__name__
        raise DataError(f"{manifest}: expected a JSON object with a run's facts, got {kind}")
    return values


def refuse_foreign(path: Path, root: Path) -> None:
    """Raise where a workspace did not begin the run of a record, or not with these parameters: a
    record may be somebody else's, and its parameters say who is paid with which key.
    """
    mode, claim = open_record(path).get("mode"), path / ".claim"
    token = claim.read_bytes().decode("ascii", "replace") if claim.is_file() else ""
    known = root / _BEGUN / (token if re.fullmatch("[0-9a-f]{32}", token) else "none")
    said = _digest(mode, recorded_parameters(path))
    if not known.is_file() or known.read_text(encoding="utf-8") != said:
        raise DataError(
            f"{path}: not begun in this workspace, or its parameters were changed, so it is not "
            "resumed; `arena-kit run` with your own parameters takes paid answers from the ledger, "
            "and `arena-kit run --from-record` repeats the record's verdicts"
        )


def _digest(mode: object, parameters: object) -> str:
    """A hash of what a run was told."""
    return hashlib.sha256(json.dumps([mode, parameters], sort_keys=True).encode()).hexdigest()


def recorded_parameters(path: Path) -> dict[str, Any]:
    """What the run of a record was told."""
    parameters = open_record(path).get("parameters")
    if not isinstance(parameters, dict):
        kind = type(parameters).__name__
        raise DataError(f"{path}/manifest.json: parameters must be a mapping, got {kind}")
    return parameters


def readable_records(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The records directly in a folder whose manifest can be read, by name, with it."""
    for file in sorted(folder.glob("*/manifest.json")):
        with suppress(DataError):
            yield file.parent, open_record(file.parent)


def in_short(manifest: Mapping[str, Any]) -> dict[str, object]:
    """What a manifest says of its run, without what it does not have."""
    judge = manifest.get("judge") or {}
    spent = (manifest.get("cost") or {}).get("usd_spent")
    facts = {
        "notebook": manifest.get("mode"),
        "status": manifest.get("status"),
        "error": manifest.get("error"),
        "started": manifest.get("started_at"),
        "finished": manifest.get("finished_at"),
        "judge": judge.get("model"),
        "gate": (manifest.get("judge_gate") or {}).get("sentence"),
        "spent": f"${spent:,.2f}" if spent else None,
    }
    return {name: value for name, value in facts.items() if value}


def _state(path: Path) -> str:
    with suppress(DataError):
        manifest = open_record(path)
        return f"status {manifest.get('status')}, started {manifest.get('started_at')}"
    return "just started"


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that shape results."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


@cache
def _version(package: str) -> str:
    with suppress(PackageNotFoundError):
        return version(package)
    return "not installed"


def code_state(folder: Path) -> dict[str, Any]:
    """The git commit of a folder and whether it had uncommitted changes, where known."""

    def git(*words: str) -> str | None:
        command, quiet = ["git", "-C", str(folder), *words], subprocess.DEVNULL
        with suppress(OSError, subprocess.SubprocessError):  # fixed words, no shell
            return subprocess.check_output(command, stderr=quiet, text=True, timeout=10).strip()  # noqa: S603
        return None

    commit = git("rev-parse", "HEAD")
    dirty = bool(git("status", "--porcelain", "--untracked-files=no")) if commit else None
    return {"commit": commit, "uncommitted_changes": dirty}


_latest: dict[str, Path] = {}


def _close_in_the_end(record: Record, mode: str) -> None:
    """See to it that a record of this process does not stay as if it still ran."""
    _latest[mode] = record.path
    same = copy(record)  # which keeps nobody's study alive
    atexit.register(_abandon, same)
    weakref.finalize(record, _opened_again, same, mode).atexit = False


def _opened_again(record: Record, mode: str) -> None:
    """What becomes of a record that nobody has any more: where the study was opened anew, as when
    a cell runs twice, it is removed if nothing was asked for it, else closed as failed.
    """
    if _latest[mode] == record.path or not _is_open(record):
        return
    if record.read().get("cost"):
        record.finish(error="reopened before the record was saved")
    else:
        shutil.rmtree(record.path, ignore_errors=True)
    record.release()


def _abandon(record: Record) -> None:
    """Close a record whose session ends before it was saved."""
    if _is_open(record):
        record.finish(error="the session ended before the record was saved")


def _is_open(record: Record) -> bool:
    """Whether this process has a record that it has not closed."""
    return record.held and record.path.is_dir() and record.read().get("status") == "running"
