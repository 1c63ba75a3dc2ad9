"""A notebook executed by papermill in a kernel that joins its record and keeps errors to itself."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from arena_kit.runs.record.record import TOKEN_VARIABLE, Record

_GRAMMAR = "rfc3987_syntax"
_ENGINE = "arena_kit"
_SAVED_EVERY = 1.0  # seconds
_LONGEST_SOCKET_FOLDER = 70  # a socket's path may have about 100 characters


def import_papermill() -> Any:
    """Import papermill. Where JupyterLab is installed beside it, jsonschema would compile a grammar
    of addresses on the way, for more than a second; no notebook needs it.
    """
    hidden = _GRAMMAR not in sys.modules
    if hidden:
        sys.modules[_GRAMMAR] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        import papermill
    finally:
        if hidden:
            del sys.modules[_GRAMMAR]
    return papermill


def execute(notebook: Path, record: Record, parameters: dict[str, Any], root: Path) -> None:
    """Run a notebook's cells with these parameters, in the workspace; leaves report.ipynb."""
    from traitlets.config import Config

    folder = tempfile.TemporaryDirectory(prefix="arena-kit-")
    with _kernel_environment(record), folder as private, _kernel_errors(Path(private)) as quiet:
        short = len(private) < _LONGEST_SOCKET_FOLDER and os.name == "posix"
        manager = {"transport": "ipc", "ip": f"{private}/kernel"} if short else {}
        papermill = import_papermill()
        papermill.engines.papermill_engines.register(_ENGINE, _sparing_engine())
        papermill.execute_notebook(
            str(notebook),
            str(record.path / "report.ipynb"),
            parameters=parameters,
            engine_name=_ENGINE,
            cwd=str(root),
            progress_bar=False,
            config=Config({"KernelManager": manager}),
            kernel_manager_class=quiet,
            log_output=False,
        )


def _sparing_engine() -> type:
    """The engine of papermill, which saves the notebook before and after each cell: here once a
    second at most, and in the end, however it ends.
    """
    from papermill.engines import NBClientEngine, NotebookExecutionManager

    class Manager(NotebookExecutionManager):  # type: ignore[misc]
        def save(self, **options: Any) -> None:
            if (self.now() - self.last_save_time).total_seconds() >= _SAVED_EVERY:
                super().save(**options)

        def notebook_complete(self, **options: Any) -> None:
            self.last_save_time = self.start_time - timedelta(seconds=_SAVED_EVERY)
            super().notebook_complete(**options)

    class Engine(NBClientEngine):  # type: ignore[misc]
        @classmethod
        def execute_notebook(
            cls, nb: Any, kernel_name: str, output_path: str, *, progress_bar: bool, **options: Any
        ) -> Any:
            manager = Manager(nb, output_path, progress_bar=progress_bar)
            manager.notebook_start()
            try:
                cls.execute_managed_notebook(manager, kernel_name, **options)
            finally:
                manager.notebook_complete()
            return manager.nb

    return Engine


@contextmanager
def _kernel_errors(private: Path) -> Iterator[str | type]:
    """A kernel manager whose kernel writes its own errors into a file, of which the last line is
    told when the kernel dies: on Ctrl-C, kernel, client and event loop would each print a
    traceback besides the sentence that we print.
    """
    from jupyter_client.manager import AsyncKernelManager
    from nbclient.exceptions import DeadKernelError

    with (private / "kernel.log").open("w+", encoding="utf-8", errors="replace") as log:

        class QuietKernelManager(AsyncKernelManager):
            async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
                await super().start_kernel(**options, stderr=log)

        loggers = [logging.getLogger(name) for name in ("papermill", "traitlets", "asyncio")]
        before = [logger.level for logger in loggers]
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield QuietKernelManager
        except DeadKernelError as error:
            log.seek(0)
            last = next((line for line in reversed(log.read().splitlines()) if line.strip()), "")
            raise RuntimeError(f"{error}{': ' if last else ''}{last}") from None
        except KeyboardInterrupt:
            before[-1] = logging.CRITICAL  # tasks that nobody awaited are noticed later
            raise
        finally:
            for logger, level in zip(loggers, before, strict=True):
                logger.setLevel(level)


@contextmanager
def _kernel_environment(record: Record) -> Iterator[None]:
    """Variables for the kernel: it joins this record and is this environment's Python."""
    changes = {TOKEN_VARIABLE: record.pass_on(), "JUPYTER_PREFER_ENV_PATH": "1"}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
