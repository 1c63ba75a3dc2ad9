"""Files of battles rated: of any size without holding them, and votes and verdicts together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from arena_kit.battles.battle import Source
from arena_kit.battles.log import BattleLog
from arena_kit.battles.on_disk import BattleFiles, Meter
from arena_kit.battles.readers.format import Columns
from arena_kit.files import DataError, option
from arena_kit.rating.base import RatingError, each_rated
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.bradley_terry.on_disk import rate_boards
from arena_kit.rating.claims import claims
from arena_kit.rating.with_judge.hybrid import Hybrid, HybridRatings
from arena_kit.rating.with_judge.placement import Placed
from arena_kit.reporting import hybrid
from arena_kit.reporting.board import Board, board_of
from arena_kit.runs.record.artifacts import rows_with_ranks
from arena_kit.runs.record.inputs import battles_file, battles_of
from arena_kit.runs.settings.files import validated


def rate_files(
    path: str | Path,
    method: BradleyTerry | None = None,
    *,
    format: str | None = None,  # noqa: A002 (what --format takes)
    columns: Columns | None = None,
    dimension: str | None = None,
    margin: float = 0.0,
    meter: Meter | None = None,
) -> Board:
    """Rate battles where they are, without holding them: a file, a folder of files or a pattern
    such as `votes/*.parquet`, by Bradley–Terry.

    Parameters
    ----------
    format, columns
        How the files are read: a format by its name, or which columns are the battle's.
    dimension
        Only this one, where battles name dimensions.
    margin
        Points within which neighbours count as equivalent.
    meter
        Says how far the work is.
    """
    meter = meter or Meter()
    stream = BattleFiles.of(path, format=format, columns=columns, meter=meter)
    parts = stream.cells.log.dimension_rows()
    if dimension is not None and dimension not in parts:
        named = ", ".join(name for name in parts if name) or "none"
        raise DataError(f"{path}: no dimension {dimension!r}; found: {named}")

    def start(doing: str) -> None:
        meter.start(doing, len(stream))

    results, unrated = rate_boards(method or BradleyTerry(), stream, only=dimension, start=start)
    if not results:
        raise RatingError("; ".join(f"{n}: {why}" if n else why for n, why in unrated.items()))
    logs = {name: stream.cells.log.select(at) for name, at in parts.items()}
    return board_of(results, logs, unrated=unrated, margin=margin)


def rate_together(
    people: Path,
    judge: Path,
    method: Hybrid,
    *,
    format: str | None,  # noqa: A002 (what --format takes)
    columns: Columns,
    judge_winner: str,
    judge_model: str,
    dimension: str | None,
    chosen: Path | None = None,
) -> tuple[dict[str, HybridRatings], dict[str, str]]:
    """The board of every dimension that people decided on in one file and a judge in another, or in
    the same, and why others have none.

    A file that names no dimension counts for whichever is asked for. `format` and `columns` say how
    people's file is read, `judge_winner` is the judge's column of outcomes, and `judge_model` may
    be empty where the verdicts are of one judge. `chosen` are the battles that people were asked
    about (see `choose_battles`).
    """
    drawn = battles_of(chosen) if chosen else None
    log = battles_of(people, format=format, columns=columns, source=Source.HUMAN)
    same = battles_file(people).resolve() == battles_file(judge).resolve()
    if same and log.source is None and columns.winner == judge_winner:
        raise DataError(
            f"{people}: column {judge_winner!r} cannot be both the votes and the "
            "verdicts: name the judge's column, or another file"
        )
    named: Any = {"columns": Columns(winner=judge_winner), "judge_model": judge_model}
    judged = battles_of(judge, source=Source.LLM_JUDGE, **named)
    votes, verdicts = _parts(people, log, dimension), _parts(judge, judged, dimension)
    if [*votes] == [""]:
        verdicts = _only(verdicts, judge, people)
    if [*verdicts] == [""]:
        votes = _only(votes, people, judge)

    def rated(name: str) -> HybridRatings:
        if name not in votes or name not in verdicts:
            who = "people" if name in votes else "the judge"
            raise RatingError(f"only {who} decided on this dimension")
        return method(votes[name], verdicts[name], drawn)

    return each_rated(sorted({*votes, *verdicts}), rated)


def hybrid_method(settings: Mapping[str, Any], where: str) -> Hybrid:
    """The method that settings of Bradley–Terry and `min_battles` describe."""
    rest = dict(settings)
    own = {"min_battles": rest.pop("min_battles")} if "min_battles" in rest else {}
    method, hybrid = validated(BradleyTerry, rest, where), validated(Hybrid, own, where)
    try:
        return replace(hybrid, method=method)
    except ValueError as error:
        raise DataError(f"{where}: people and judge together: {error}") from None


def placed_together(placed: Placed, human: BattleLog, judged: BattleLog) -> HybridRatings:
    """The models of a placement, rated by all votes among them, those on the placed model included,
    and all verdicts; the scale is the placement's. Raises `RatingError` where that is not possible.
    """
    arena = placed.human.models
    settings = {f.name: placed.human.settings[f.name] for f in fields(BradleyTerry)}
    method = BradleyTerry(**settings | {"center_on": arena})
    votes, verdicts = (log.among([*arena, placed.model]) for log in (human, judged))
    return Hybrid(method=method)(votes, verdicts)


def hybrid_summary(found: HybridRatings) -> dict[str, Any]:
    """All of a board as plain values for JSON: ratings with rank ranges, what people and
    judge say, what the judge is worth, who stands out, and what may be said about the order.
    """
    return found.as_dict() | {
        "ratings": rows_with_ranks(found.ratings),
        "claims": claims.summary(hybrid.in_votes(found)),
        "notes": hybrid.notes(found),
    }


def _parts(path: Path, log: BattleLog, dimension: str | None) -> dict[str, BattleLog]:
    """The battles by dimension, or those of one alone, without the name of the dimension."""
    parts = {name: replace(part, dimension=None) for name, part in log.by_dimension().items()}
    if dimension is None or [*parts] == [""]:
        return parts
    if dimension not in parts:
        named = ", ".join(name for name in parts if name)
        raise DataError(f"{path}: no dimension {dimension!r}; found: {named}")
    return {"": parts[dimension]}


def _only(parts: Mapping[str, BattleLog], file: Path, beside: Path) -> dict[str, BattleLog]:
    """The one dimension of a file, as the other file names none; several are refused."""
    if len(parts) > 1:
        raise DataError(
            f"{file}: has several dimensions ({', '.join(parts)}), and {beside} does not say which "
            f"of them it is about: name one with {option('--dimension', 'dimension=')}"
        )
    return {"": next(iter(parts.values()))}
