"""The command that makes a tournament's prompts and responses from other tools' logs."""

from __future__ import annotations

from pathlib import Path

import click

from arena_kit.cli.base import FOLDER, echo, main, plain_errors
from arena_kit.files import DataError


@main.command("import-responses")
@click.argument("logs", nargs=-1, required=True, metavar="[NAME=]LOG...")
@click.option("--out", required=True, type=FOLDER,
              help="Folder for prompts.jsonl, responses/ and scores.csv.")  # fmt: skip
@plain_errors
def import_responses(logs: tuple[str, ...], out: Path) -> None:
    """Prompts and responses for a tournament from other tools' LOGs of answers.

    Takes logs of Inspect (.eval or JSON), samples of lm-eval (samples_*.jsonl) and answers of
    Arena-Hard (model_answer). Several models on the same samples become entrants; NAME= gives one
    another name than its log does. lm-eval's samples do not name the model: their folder does.
    """
    from arena_kit.judging.pairs.answer_logs.collection import collect

    if out.exists() and any(out.iterdir()):
        raise DataError(f"{out}: holds files of its own; choose a new or empty folder")
    answers = collect([_named(log) for log in logs])
    answers.write(out)
    for what, n in answers.left_out.items():
        echo(f"left out: {n} {what}", err=True)
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
    from arena_kit.battles.battle import check_entrant_id

    name, equals, path = word.partition("=")
    if not equals or Path(word).is_file():
        return "", Path(word)
    return check_entrant_id(name, "entrant"), Path(path)
