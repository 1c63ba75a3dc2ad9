"""The command that calibrates a cascade of two judges on people's votes."""

from __future__ import annotations

from pathlib import Path

import click

from arena_kit.cli.base import FILE, PATH, echo, echo_json, json_option, main, plain_errors


@main.command()
@click.argument("cheap", type=PATH)
@click.argument("dear", type=PATH)
@click.option("--people", required=True, type=PATH,
              help="Battles that people decided, on the same models and questions.")  # fmt: skip
@click.option("--target", default=0.8, show_default=True,
              help="The agreement with people that is promised.")  # fmt: skip
@click.option("--risk", default=0.05, show_default=True,
              help="The chance of promising it wrongly.")  # fmt: skip
@click.option("--coverage", default=0.75, show_default=True,
              help="The share of battles that should be answered.")  # fmt: skip
@click.option("--dimension", default="", help="Calibrate on this dimension of the judges.")
@click.option("--out", default=Path("cascade.json"), show_default=True, type=FILE,
              help="The file that rejudge --cascade takes.")  # fmt: skip
@json_option("the file instead of sentences")
@plain_errors
def cascade(
    cheap: Path,
    dear: Path,
    people: Path,
    target: float,
    risk: float,
    coverage: float,
    dimension: str,
    out: Path,
    as_json: bool,
) -> None:
    """Calibrate when the verdict of judge CHEAP is enough, and when judge DEAR is to be asked.

    CHEAP and DEAR are battles files or records of the two judges on the same pairs. Then
    `arena-kit rejudge RECORD --cascade FILE` asks the dear judge only where it is needed.
    """
    from arena_kit.battles.battle import Source
    from arena_kit.files import DataError
    from arena_kit.judging.cascade import Cascade
    from arena_kit.runs.cascade import calibrated
    from arena_kit.runs.record.battles import battles_of

    try:
        how = Cascade(target=target, risk=risk, coverage=coverage)
    except ValueError as error:
        raise DataError(str(error)) from None
    judged = [
        battles_of(file, source=Source.LLM_JUDGE, dimension=dimension) for file in (cheap, dear)
    ]
    votes = battles_of(people, source=Source.HUMAN)
    calibration = calibrated(
        judged[0], judged[1], votes, how, dimension or next(iter(judged[0].by_dimension()))
    )
    calibration.write(out)
    if as_json:
        echo_json(calibration.model_dump(mode="json"))
        return
    for sentence in calibration.sentences:
        echo(sentence)
    echo(out)
