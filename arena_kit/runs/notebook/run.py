"""Running a notebook headlessly into a record, over papermill."""

from __future__ import annotations

import ast
import importlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_kit.files import EXIT_CODES, ArenaError, DataError, read_json, read_value, read_yaml
from arena_kit.judging.asking.batches import left_running
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Status
from arena_kit.reporting.html import export_report
from arena_kit.runs.placement.plan import placement_plan
from arena_kit.runs.record.inputs import replay_parameters
from arena_kit.runs.record.progress import kernel_state, status_line
from arena_kit.runs.record.record import (
    TOKEN_VARIABLE,
    Record,
    open_record,
    recorded_parameters,
    refuse_foreign,
    runs_folder,
)
from arena_kit.runs.settings import parameters as settings
from arena_kit.runs.settings.files import is_text
from arena_kit.runs.tournament.judge import refuse_unready
from arena_kit.runs.tournament.plan import Plan

_ENGINE = "arena-kit"
_GRAMMAR = "rfc3987_syntax"
_LONGEST_SOCKET_FOLDER = 70  # a socket's path may have about 100 characters


class RunFailedError(ArenaError, RuntimeError):
    """A run that did not finish; its record is kept."""

    def __init__(self, message: str, record: Record, exit_code: int) -> None:
        super().__init__(message)
        self.record = record
        self.exit_code = exit_code


@dataclass(frozen=True, kw_only=True)
class NotebookRun:
    """A notebook and its parameters: those `given` to it, and all of them, valid; `resumed` is the
    record that it goes on with.
    """

    notebook: Path
    root: Path
    given: dict[str, Any]
    params: Any
    resumed: Path | None = None

    @classmethod
    def resolve(
        cls,
        name: str,
        root: Path,
        *,
        params_file: Path | None = None,
        from_record: Path | None = None,
        resumed: Path | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> NotebookRun:
        """Parameters come from `params_file` (default `params/<name>.yaml`), then `overrides`;
        unknown and ill-typed ones are refused. With `from_record` they are those that repeat the
        record's verdicts on the inputs that it kept, unless a file or `overrides` say otherwise;
        with `resumed` they are the record's own.
        """
        notebook = _notebook(name, root)
        defaults = notebook_defaults(notebook)
        if resumed is None:
            given, source = _given(notebook, params_file, from_record, root)
        else:
            given, source = _recorded(notebook, recorded_parameters(resumed), resumed)
        changes = {key: _typed(key, text, defaults) for key, text in (overrides or {}).items()}
        values = _merged(given, changes)
        for key in sorted(values.keys() - defaults.keys()):
            where, listed = "-p" if key in changes else source, ", ".join(sorted(defaults))
            raise DataError(f"{where}: unknown parameter {key!r} of {name}; allowed: {listed}")
        params = settings.resolve_parameters(name, defaults | values)
        return cls(notebook=notebook, root=root, given=values, params=params, resumed=resumed)

    @classmethod
    def of_record(cls, path: Path, root: Path, overrides: Mapping[str, str]) -> NotebookRun:
        """The run of a record with its own parameters and `overrides`; only a run that this
        workspace began.
        """
        mode = open_record(path).get("mode")
        if mode == "generate":
            raise DataError(f"{path}: made by `arena-kit generate`; run that again, and it goes on")
        refuse_foreign(path, root)
        return cls.resolve(str(mode), root, resumed=path, overrides=overrides)

    @property
    def name(self) -> str:
        return self.notebook.stem

    def tournament(self) -> Plan:
        """The plan of a judged tournament."""
        with chdir(self.root):
            return Plan.of(self.name, self.params)

    def plan(self) -> Plan | None:
        """The plan of what is judged; None where no judge is asked."""
        if isinstance(self.params, settings.RunParams):
            return self.tournament()
        if not isinstance(self.params, settings.PlacementParams):
            return None
        with chdir(self.root):
            sampled = placement_plan(self.params, self.root).tournament
            return sampled.plan(sampled.answers_at_hand()) if sampled else None

    def check(self, *, progress: bool = False) -> dict[str, str]:
        """What would run, in words; refuses now what the kernel, which works in the workspace's
        root, would refuse after it has started and has a record.
        """
        words = "checking parameters, data and judge"
        with chdir(self.root), status_line(lambda: words, shown=progress):
            return _checked(self.name, self.params, self.root)

    def start(
        self,
        *,
        runs_dir: Path | None = None,
        ask_again: str | None = None,
        say: Callable[[str], None] = print,
        progress: bool = True,
    ) -> Record:
        """Execute the notebook into a new record, or into the resumed one, which did not finish,
        and render its report: what was paid for is in the ledger, and batches that went on are
        collected. Requests with the final status `ask_again` are asked again; how many and for how
        much is said first.
        """
        if ask_again:
            if (plan := self.plan()) is None:
                raise DataError(f"{self.name} calls no judge, so there is no request to repeat")
            plan.ask_again(Status(ask_again), say)
        record = Record.reopen(self.resumed) if self.resumed else None
        try:
            self.check(progress=progress)
        except BaseException:
            if record:
                record.release()
            raise
        if record is None and self.params.run_dir:
            record = Record.claim(self.root / self.params.run_dir)
        record = record or Record.create(runs_dir or runs_folder(self.root), self.name)
        return self.into(record, progress=progress)

    def into(self, record: Record, *, progress: bool) -> Record:
        """Execute the notebook into a record, and render its report."""
        own = {"run_dir": str(record.path.resolve())}
        record.start(self.name, self.params.model_dump(mode="json") | own, self.root)
        try:
            with status_line(lambda: kernel_state(record), shown=progress, lines=True):
                execute(self.notebook, record, self.given | own, self.root)
            export_report(record.path / "report.ipynb", record.path / "report.html")
        except BaseException as error:
            raise _failure(error, record, self.root) from error
        else:
            record.finish()
        finally:
            record.release()
        return record


def notebook_defaults(notebook: Path) -> dict[str, Any]:
    """The parameters that a notebook's cell tagged so declares, with their values."""
    for cell in read_json(notebook)["cells"]:
        if "parameters" in cell["metadata"].get("tags", []):
            lines = ast.parse("".join(cell["source"])).body
            return {
                line.target.id: ast.literal_eval(line.value)
                for line in lines
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
                if line.value is not None
            }
    return {}


def _recorded(
    notebook: Path, values: Mapping[str, Any], record: Path
) -> tuple[dict[str, Any], str]:
    """Those of a record's parameters that a notebook declares, and where they come from."""
    known = notebook_defaults(notebook)
    declared = {name: value for name, value in values.items() if name in known}
    return declared, f"{record}/manifest.json"


def _merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of several layers, of which the last wins; dotted names go under `overrides`."""
    plain: dict[str, Any] = {}
    dotted: dict[str, Any] = {}
    for layer in layers:
        dotted |= layer.get("overrides", {}) | {n: v for n, v in layer.items() if "." in n}
        plain |= {n: v for n, v in layer.items() if "." not in n}
    return plain | ({"overrides": dotted} if dotted else {})


def _typed(name: str, text: str, defaults: Mapping[str, Any]) -> Any:
    """A value of the command line; a text stays one."""
    plain = is_text(name) if "." in name else isinstance(defaults.get(name), str)
    return text if plain else read_value(name, text)


def _notebook(name: str, root: Path) -> Path:
    known = sorted(path.stem for path in (root / "notebooks").glob("*.ipynb"))
    if name not in known:
        raise DataError(f"no notebook {name!r}; known: {', '.join(known) or 'none'}")
    return root / "notebooks" / f"{name}.ipynb"


def _given(
    notebook: Path, params_file: Path | None, from_record: Path | None, root: Path
) -> tuple[dict[str, Any], str]:
    """Parameters by file and by the record that is repeated, and where they come from."""
    replayed: dict[str, Any] = {}
    if from_record is not None:
        if settings.parameters_of(notebook.stem) is not settings.RunParams:
            raise DataError(f"{notebook.stem} calls no judge, so it cannot repeat verdicts")
        replayed, source = _recorded(notebook, replay_parameters(from_record), from_record)
        if params_file is None:
            return replayed, source
    file = params_file or Path("params") / f"{notebook.stem}.yaml"
    file = file if file.is_file() else root / file
    return _merged(replayed, read_yaml(file)), str(file)


def _checked(name: str, params: Any, root: Path) -> dict[str, str]:
    """What is known of a notebook's inputs, which are read and checked."""
    if isinstance(params, settings.PlacementParams):
        placement = placement_plan(params, root)
        logs = {"votes": (placement.human, params.human)}
        if placement.tournament is None:
            logs["verdicts"] = (placement.verdicts, params.judged)
        else:
            placement.tournament.refuse_unready()
        return placement.facts | {n: f"{len(log):,} of {file}" for n, (log, file) in logs.items()}
    if isinstance(params, settings.VotesParams):
        return _votes(params, root)
    if isinstance(params, settings.JudgeReportParams) and params.reads:
        from arena_kit.runs.tournament.judge_report import JudgeSources

        return JudgeSources.of(params).facts
    plan = Plan.of(name, params)
    refuse_unready(plan)
    return plan.facts


def _votes(params: settings.VotesParams, root: Path) -> dict[str, str]:
    """What is known of people's votes."""
    from arena_kit.runs.policy import read_inputs
    from arena_kit.runs.record.inputs import voted

    more = {}
    if isinstance(params, settings.SeasonParams):
        policy, battles = read_inputs(params, root)
        phase = f"{params.policy}, phase {int(policy.phase)}"
        more = {"prompts": f"{len(battles.prompts)}", "policy": phase}
    elif "://" in params.battles:
        return {"votes": f"of {params.battles.rpartition('@')[2]}"}
    else:
        battles = voted(params.battles, root, winner=params.winner, dimension=params.dimension)
    read = {"votes": f"{len(battles):,} of {params.battles}", "models": f"{len(battles.models)}"}
    return read | more


def _failure(error: BaseException, record: Record, root: Path) -> RunFailedError:
    kind = str(getattr(error, "ename", type(error).__name__))
    message = str(getattr(error, "evalue", error)) or _interrupted(record, root)
    with suppress(OSError):  # on a full disk the manifest stays as it was, and resume goes on
        record.finish(error=f"{kind}: {message}")
    with suppress(Exception):  # the reason above is what counts; a report of it is a courtesy
        export_report(record.path / "report.ipynb", record.path / "report.html")
    return RunFailedError(message, record, EXIT_CODES.get(kind, 1))


def _interrupted(record: Record, root: Path) -> str:
    """What goes on without the interrupted run, and what it has paid."""
    tournament = record.read().get("tournament")
    if tournament is None:
        return "interrupted before anything was sent"
    ledger = Ledger(root / tournament["verdicts"])
    record.add_spent(ledger)
    return left_running(ledger)


def import_papermill() -> Any:
    """Import papermill. Where JupyterLab is installed beside it, jsonschema would compile a grammar
    of addresses on the way, for more than a second; no notebook needs it.
    """
    grammar: Any = sys.modules.setdefault(_GRAMMAR, None)  # type: ignore[arg-type]  # as if absent
    try:
        return importlib.import_module("papermill")
    finally:
        if grammar is None:
            del sys.modules[_GRAMMAR]


def _saving_engine(papermill: Any) -> type:
    """Papermill's engine, which saves the notebook before and after every cell; this one does so
    after each code cell and at the end, however that comes.
    """

    class SavingEngine(papermill.engines.NBClientEngine):  # type: ignore[misc]
        @classmethod
        def execute_managed_notebook(cls, run: Any, kernel_name: str, **options: Any) -> None:
            path, run.output_path = run.output_path, None

            def save(**_: object) -> None:
                papermill.iorw.write_ipynb(run.nb, path)

            try:
                super().execute_managed_notebook(run, kernel_name, on_cell_executed=save, **options)
            finally:
                run.output_path = path

    return SavingEngine


def execute(notebook: Path, record: Record, parameters: dict[str, Any], root: Path) -> None:
    """Run a notebook's cells with these parameters, in the workspace; leaves report.ipynb."""
    from traitlets.config import Config

    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # the kernel is this environment's Python
    folder = tempfile.TemporaryDirectory(prefix="arena-kit-")
    with folder as private, _quiet_kernel(Path(private), record) as kernel:
        short = len(private) < _LONGEST_SOCKET_FOLDER and os.name == "posix"
        manager = {"transport": "ipc", "ip": f"{private}/kernel"} if short else {}
        papermill = import_papermill()
        papermill.engines.papermill_engines.register(_ENGINE, _saving_engine(papermill))
        papermill.execute_notebook(
            str(notebook),
            str(record.path / "report.ipynb"),
            engine_name=_ENGINE,
            parameters=parameters,
            cwd=str(root),
            progress_bar=False,
            config=Config({"KernelManager": manager}),
            kernel_manager_class=kernel,
            log_output=False,
        )


@contextmanager
def _quiet_kernel(private: Path, record: Record) -> Iterator[str | type]:
    """A kernel manager whose kernel joins this record and writes its own errors into a file, of
    which the last line is told when the kernel dies: on Ctrl-C, kernel, client and event loop
    would each print a traceback besides the sentence that we print.
    """
    from jupyter_client.manager import AsyncKernelManager
    from nbclient.exceptions import DeadKernelError

    joined = os.environ | {TOKEN_VARIABLE: record.pass_on()}
    with (private / "kernel.log").open("w+", encoding="utf-8", errors="replace") as log:

        class QuietKernelManager(AsyncKernelManager):
            async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
                await super().start_kernel(**options, stderr=log, env=joined)

        logging.disable(logging.ERROR)
        try:
            yield QuietKernelManager
        except DeadKernelError as error:
            log.seek(0)
            last = next((line for line in reversed(log.read().splitlines()) if line.strip()), "")
            raise RuntimeError(f"{error}{': ' if last else ''}{last}") from None
        except KeyboardInterrupt:
            tasks = logging.getLogger("asyncio")  # those that nobody awaited are noticed later
            tasks.setLevel(logging.CRITICAL)
            raise
        finally:
            logging.disable(logging.NOTSET)
