"""Files of other tools: the options that say how one is read, and the command that imports it."""

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypedDict

import click

from arena_kit.battles.battle import Source, check_entrant_id
from arena_kit.battles.log import BattleLog
from arena_kit.battles.read import read_file
from arena_kit.battles.readers.format import Columns, Format
from arena_kit.battles.readers.formats import FORMATS, format_of
from arena_kit.battles.tabular import SUFFIXES
from arena_kit.battles.write import write_battles
from arena_kit.cli.base import PATH, echo, main
from arena_kit.files import DataError, limits_lifted
from arena_kit.judging.pairs.answer_logs import collect


def _lift_limits(context: click.Context, _option: click.Parameter, given: bool) -> None:
    context.call_on_close(partial(limits_lifted.reset, limits_lifted.set(given)))


_OPTIONS = (
    click.option("--format", "format_name", metavar="NAME",
                 help="The format of FILE, where looking at it does not tell: "
                 f"{', '.join(each.name for each in FORMATS)}."),
    click.option("--model-a", metavar="COLUMN", help="The column of the first model."),
    click.option("--model-b", metavar="COLUMN", help="The column of the second model."),
    click.option("--winner", metavar="COLUMN", help="The column of the outcome."),
    click.option("--question", metavar="COLUMN", help="The column of the question."),
    click.option("--voter", metavar="COLUMN", help="The column of who voted."),
    click.option("--value", "values", multiple=True, metavar="LABEL=OUTCOME",
                 help="What a label of the outcome means: model_a, model_b, tie, both_bad, name "
                 "(the model that is called so), or nothing where its rows are to be left out; may "
                 "be repeated."),
    click.option("--no-limits", is_flag=True, expose_value=False, callback=_lift_limits,
                 help="Read lines of over 64 MB, and hold Parquet of over 20 million rows."),
)  # fmt: skip


class HowToRead(TypedDict):
    """How a file is to be read, as the options say."""

    format: str | None
    columns: Columns


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how a file is read; the command gets them as `how`."""

    @wraps(command)
    def wrapped(
        *args: Any, format_name: str | None, values: tuple[str, ...], **options: Any
    ) -> Any:
        names = ("model_a", "model_b", "winner", "question", "voter")
        given = {name: options.pop(name) for name in names}
        named = {name: column for name, column in given.items() if column}
        columns = Columns(**named, values=dict(map(_label, values)))
        return command(*args, how=HowToRead(format=format_name, columns=columns), **options)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def _label(text: str) -> tuple[str, str]:
    label, equals, outcome = text.rpartition("=")
    if not equals:
        raise DataError(f"--value {text!r}: expected LABEL=OUTCOME")
    return label, outcome


@main.command("import")
@click.argument("files", nargs=-1, required=True, metavar="[NAME=]FILE...")
@click.option("--out", required=True, type=PATH,
              help="For battles a file: .parquet, .jsonl, .csv, .tsv or .gz of text. For answers a "
              "new folder.")  # fmt: skip
@click.option("--texts/--no-texts", default=True,
              help="Whether prompts and answers go along with battles.")  # fmt: skip
@reading_options
def import_(files: tuple[str, ...], out: Path, texts: bool, how: HowToRead) -> None:
    """Convert another tool's battles or answers.

    Battles: one FILE. Its format is recognised from its columns or given with --format; for other
    files name the columns with --model-a, --model-b and --winner.

    Answers, where --out is a folder: logs of Inspect (.eval or JSON), samples of lm-eval
    (samples_*.jsonl) and answers of Arena-Hard (model_answer) become the prompts and responses of a
    tournament. Several models on the same samples become entrants; NAME= gives one another name
    than its log does. lm-eval's samples do not name the model: their folder does.
    """
    if out.name.lower().endswith(sum(SUFFIXES.values(), ())):
        _import_battles(files, out, texts, how)
    else:
        _import_answers(files, out)


def _import_battles(files: tuple[str, ...], out: Path, texts: bool, how: HowToRead) -> None:
    if len(files) > 1:
        raise DataError(f"battles are imported from one file, not from {len(files)}")
    file = Path(files[0])
    fmt = format_of(file, how["format"], how["columns"])
    log, said = read_file(file, fmt, texts=texts)
    write_battles(out, log, said)
    echo(*sentences(file, log, fmt), out)


def _import_answers(logs: tuple[str, ...], out: Path) -> None:
    if out.exists() and any(out.iterdir()):
        raise DataError(f"{out}: holds files of its own; choose a new or empty folder")
    answers = collect([_named(log) for log in logs])
    answers.write(out)
    echo(*(f"left out: {n} {what}" for what, n in answers.left_out.items()), err=True)
    if answers.scores:
        echo(f"the logs' own scores: arena-kit rate {out / 'scores.csv'}", err=True)
    if len(answers.entrants) < 2:
        echo("a tournament needs a second entrant's answers to the same samples", err=True)
    echo(
        f"{len(answers.prompts)} prompts, {len(answers.responses)} responses of "
        f"{', '.join(answers.entrants)}: {out}"
    )


def _named(word: str) -> tuple[str, Path]:
    """The entrant that is named, or '', and the log; a file's own name may hold a sign of
    equality.
    """
    name, equals, path = word.partition("=")
    if not equals or Path(word).is_file():
        return "", Path(word)
    return check_entrant_id(name, "entrant"), Path(path)


def sentences(file: Path, log: BattleLog, fmt: Format) -> list[str]:
    """What was read, what the file does not say, and what is to be known about its format."""
    weight = "" if log.weight is None else f", total weight {log.weight.sum():,.0f}"
    read = f"{len(log):,} battles of {len(log.models):,} models{weight}"
    told = [f"read {read}, from {file}: {fmt.title} ({fmt.name})"]
    judged = log.source is not None and list(log.source.names) == [Source.LLM_JUDGE]
    who = {"judge_model": "judge"} if judged else {"voter": "voter"}
    names = {"question_id": "question id", **who, "timestamp": "time"}
    unsaid = [f"no {word}" for column, word in names.items() if getattr(log, column) is None]
    alone = log.question_id is None and log.voter is None
    so = ": intervals treat every battle as independent" if alone else ""
    missing = f"the file has {', '.join(unsaid)}{so}" if unsaid else ""
    return [*told, *(text for text in (missing, fmt.note) if text)]
