"""What all commands share: the group they hang on, and errors in one sentence.

The group knows its commands by name and imports a command's module when that command is run, so
`--help` and `--version` import nothing.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from arena_kit import __version__
from arena_kit.files import EXIT_CODES, ArenaError, visible

P = ParamSpec("P")
R = TypeVar("R")

Lists = dict[str, list[tuple[str, str]]]

FAILED, WRONG_INPUT = 1, 2


class LocalPath(click.Path):
    """A path on this machine; a path would take a slash from a web address."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if "://" in str(value):
            self.fail(f"{value} is a web address; download it and name the file", param, ctx)
        return super().convert(value, param, ctx)


#: Types of arguments and options that are paths.
PATH = LocalPath(path_type=Path)
FILE = LocalPath(path_type=Path, dir_okay=False)
FOLDER = LocalPath(path_type=Path, file_okay=False)


def echo(*lines: object, err: bool = False) -> None:
    """Print lines; what came from a server or a file cannot steer the terminal."""
    for line in lines:
        click.echo(visible(str(line)), err=err)


def echo_json(values: object, **how: Any) -> None:
    """Print what a program reads; `how` as `json.dumps` takes it."""
    echo(json.dumps(values, indent=2, allow_nan=False, **how))


def echo_either(as_json: bool, values: object, show: Callable[..., None], *args: object) -> None:
    """Print values as JSON for a program, or what `show` makes of its arguments for a person."""
    if as_json:
        echo_json(values)
    else:
        show(*args)


@contextmanager
def plain_errors() -> Iterator[None]:
    """One sentence on stderr and the documented exit code instead of a traceback."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: echo(f"warning: {message}", err=True)
            yield
    except (click.exceptions.Exit, BrokenPipeError):  # click ends quietly at a closed pipe
        raise
    except ArenaError as error:
        kinds = (kind.__name__ for kind in type(error).__mro__)
        _stop(str(error), next((EXIT_CODES[k] for k in kinds if k in EXIT_CODES), FAILED))
    except OSError as error:
        _stop(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), WRONG_INPUT)
    except KeyboardInterrupt as error:
        if sys.stderr.isatty():
            click.echo("\r\x1b[K", err=True, nl=False)  # a bar may stand in the line
        _stop(str(error) or "interrupted", FAILED)


def _stop(message: str, code: int) -> None:
    echo(f"error: {message}", err=True)
    sys.exit(code)


class Listing(click.Command):
    """A command whose help ends with lists: titles with terms and what each means."""

    def __init__(self, *args: Any, lists: Callable[[], Lists], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lists = lists

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Make the lists now, when help is asked for."""
        super().format_epilog(ctx, formatter)
        for title, rows in self._lists().items():
            with formatter.section(visible(title)):
                formatter.write_dl([(visible(term), visible(text)) for term, text in rows])


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def json_option(printed: str = "JSON instead of a table") -> Decorator:
    """The flag `--json`: print what a program reads."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {printed}.")


def runs_folder_option(described: str) -> Decorator:
    """The option `--runs-dir`: where records are, or go to."""
    described = f"{described} (default: runs/ in the workspace)."
    return click.option("--runs-dir", type=FOLDER, help=described)


def params_option(described: str) -> Decorator:
    """The option `--params`: a file of a notebook's parameters."""
    described = f"{described} (default: params/NAME.yaml)."
    return click.option("--params", "params_file", type=FILE, help=described)


def cluster_option(command: Callable[P, R]) -> Callable[P, R]:
    """The option that sends work to a Dask cluster; the command itself knows nothing of it."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        from arena_kit.fanout import on_cluster

        address: Any = kwargs.pop("cluster", None)
        with on_cluster(address):
            return command(*args, **kwargs)

    described = (
        "Compute on the Dask cluster with this scheduler (default: $DASK_SCHEDULER_ADDRESS)."
    )
    return click.option("--cluster", metavar="tcp://HOST:PORT", help=described)(wrapped)


def record_folder(name: str) -> Path:
    """A record by its folder or by its name in runs/: a type of arguments."""
    from arena_kit.runs.record.record import near_runs

    path = Path(name)
    named = path if path.exists() or path.name != name else near_runs(Path()) / name
    return named if named.is_dir() else path


class Commands(click.Group):
    """Commands in sections; the module of one is imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_MODULES)

    def invoke(self, ctx: click.Context) -> Any:
        with plain_errors():
            return super().invoke(ctx)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in _MODULES:
            import_module(f"arena_kit.cli.{_MODULES[name]}")  # hangs its commands on the group
        return super().get_command(ctx, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for section, rows in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text) in rows.items()])


#: Section → command → its module and what it does.
COMMANDS = {
    "Judge": {
        "run": ("runs", "Run a notebook into a new record."),
        "resume": ("runs", "Resume a record that did not finish."),
        "cost": ("runs", "Forecast requests, tokens and dollars; sends nothing."),
        "generate": ("runs", "Generate the responses of entrants."),
        "rejudge": ("runs", "Judge the pairs of a record with another judge."),
    },
    "Rate": {
        "rate": ("rate", "Rate a file of battles, or a record."),
        "import": ("imports", "Convert another tool's battles or answers."),
        "simulate": ("simulate", "Simulate an arena under the validity policy."),
    },
    "Keep": {
        "runs": ("records", "List, show, compare, export and prune records."),
        "site": ("records", "Make a static site of records."),
        "ledger": ("ledger", "Check ledger and votes (or: check), back up, list batches."),
        "votes": ("votes", "Collect, list, review and export human votes."),
    },
    "Study": {
        "plan": ("study", "How many prompts, calls, dollars and votes a claim needs."),
        "protocol": ("study", "Fix the analysis beforehand; check records against it."),
        "paper": ("study", "Tables, figures and methods text of a record for a paper."),
    },
    "Start": {
        "init": ("main", "Make a workspace: notebooks, parameters, sample, documentation."),
        "lab": ("main", "Open JupyterLab in the workspace."),
    },
}
_MODULES = {name: module for rows in COMMANDS.values() for name, (module, _) in rows.items()}
_MODULES["check"] = "ledger"  # `ledger check` by a shorter name


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="arena-kit")
def main() -> None:
    """Turn judge verdicts and human votes into model ratings you can defend.

    Start with `arena-kit run pilot` in a workspace (`arena-kit init DIR` makes one).
    """
