"""The ratings of a run record or of a battles file as rows, whichever method made them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError, read_json, write_csv
from arena_kit.rating.base import RatingError, Ratings
from arena_kit.runs.record.artifacts import rows_with_ranks
from arena_kit.runs.record.record import open_record

COLUMNS = (
    "dimension", "model", "method", "settings", "rating", "ci_low", "ci_high", "interval",
    "best_rank", "worst_rank", "n_battles",
)  # fmt: skip
_CLUSTERS = {"both": "question and, where known, voter"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingRow:
    """One model's rating by one method in one dimension; None is what the source does not say.

    `interval` is what made the 95 % interval, and empty where there is none.
    """

    dimension: str
    model: str
    method: str
    settings: Mapping[str, Any]
    rating: float
    ci_low: float | None = None
    ci_high: float | None = None
    se: float | None = None
    interval: str = ""
    ranks: tuple[int, int] | None = None
    n_battles: int | None = None

    @classmethod
    def of(
        cls, values: Mapping[str, Any], interval: str, *, dimension: str = "", **named: Any
    ) -> RatingRow:
        """A row from the values that records write for a model."""
        known = values.get("ci_low") is not None
        return cls(
            dimension=dimension,
            model=values["model"],
            rating=values["rating"],
            ci_low=values.get("ci_low"),
            ci_high=values.get("ci_high"),
            se=values.get("se", values.get("evidence_se")),
            interval=interval if known else "",
            ranks=tuple(values["ranks"]) if values.get("ranks") else None,
            n_battles=values.get("n_battles"),
            **named,
        )


def write_ratings_csv(path: Path, rows: Iterable[RatingRow]) -> None:
    """Write ratings as one tidy CSV table, a row per dimension, model and method."""
    write_csv(path, [_cells(row) for row in rows], COLUMNS)


def _cells(row: RatingRow) -> dict[str, object]:
    best, worst = row.ranks or (None, None)
    settings = json.dumps(dict(row.settings), sort_keys=True, allow_nan=False)
    values = {"settings": settings, "best_rank": best, "worst_rank": worst}
    return {name: values[name] if name in values else getattr(row, name) for name in COLUMNS}


def rated_rows(
    battles: BattleLog, methods: Sequence[Callable[[BattleLog], Ratings]]
) -> tuple[list[RatingRow], list[str]]:
    """The ratings of battles, by dimension and method, and a sentence for each that does not
    exist.
    """
    rows: list[RatingRow] = []
    unrated: list[str] = []
    for dimension, log in battles.by_dimension().items():
        for method in methods:
            try:
                rows += _computed(dimension, method(log))
            except RatingError as error:
                name = f"{dimension}, " if dimension else ""
                unrated.append(f"{name}{type(method).__name__}: {error}")
    if not rows:
        raise RatingError("; ".join(unrated))
    return rows, unrated


def recorded_rows(record: Path) -> list[RatingRow]:
    """The ratings that stand in a run record."""
    manifest = open_record(record)
    readers = {
        "bradley_terry.json": _strengths,
        "elo_results.json": _elo,
        "placement.json": _placed,
        "leaderboard.json": _board,
    }
    files = {name: record / name for name in readers if (record / name).is_file()}
    rows: list[RatingRow] = []
    for name, file in files.items():
        try:
            rows += readers[name](read_json(file), manifest)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{file}: not as a record has it ({error!r})") from None
    if not rows:
        raise DataError(
            f"{record}: a record of {manifest.get('mode')}, status {manifest.get('status')}, "
            f"without ratings; they would be in {', '.join(readers)}"
        )
    return rows


def _computed(dimension: str, ratings: Ratings) -> Iterator[RatingRow]:
    interval = _interval(ratings.method, ratings.settings)
    for values in rows_with_ranks(ratings):
        yield RatingRow.of(
            values, interval, dimension=dimension, method=ratings.method, settings=ratings.settings
        )


def _interval(method: str, settings: Mapping[str, Any]) -> str:
    """What made the interval of a method with these settings."""
    if method == "bradley-terry":
        cluster = str(settings["cluster"])
        return f"{settings['interval']}, clustered by {_CLUSTERS.get(cluster, cluster)}"
    return "bootstrap, clustered by question"


def _strengths(values: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[RatingRow]:
    for dimension, rated in values.items():
        for row in rated.get("ratings", ()):
            method, settings = rated["method"], rated["settings"]
            interval = _interval(method, settings)
            yield RatingRow.of(row, interval, dimension=dimension, method=method, settings=settings)


def _elo(values: Mapping[str, Any], manifest: Mapping[str, Any]) -> Iterator[RatingRow]:
    """Elo at every K of the sweep; before 0.2, `ci95_*` was the shuffle's noise and the evidence
    had names of its own.
    """
    for dimension, by_k in values["k_sensitivity"].items():
        for k, entries in by_k.items():
            settings = manifest["rating"]["settings"] | {"k": float(k)}
            for entry in entries.values():
                named = {
                    "model": entry["entrant_id"],
                    "rating": entry["mean"],
                    "ci_low": entry.get("evidence_ci95_low", entry["ci95_low"]),
                    "ci_high": entry.get("evidence_ci95_high", entry["ci95_high"]),
                    "se": entry.get("evidence_se", entry.get("se")),
                }
                yield RatingRow.of(
                    named,
                    _interval("permutation-elo", settings),
                    dimension=dimension,
                    method="permutation-elo",
                    settings=settings,
                )


def _placed(values: Mapping[str, Any], manifest: Mapping[str, Any]) -> Iterator[RatingRow]:
    """Both ways of placing, and the placed model's interval with the judge's own error in it."""
    settings = manifest["rating"]["settings"]
    interval = _interval("bradley-terry", settings)
    ways = {
        "joint": (values["joint"], interval),
        "anchored": (values["anchored"], interval),
        "with-judge-error": (
            [values["with_judge_error"]] if values.get("with_judge_error") else [],
            "normal, with the judge's own error",
        ),
    }
    for way, (rows, kind) in ways.items():
        for row in rows:
            yield RatingRow.of(row, kind, method=f"placement-{way}", settings=settings)


def _board(values: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[RatingRow]:
    """The policy's ratings: Glicko-2, the conservative score, and Bradley–Terry beside them."""
    epoch = {"epoch": values["epoch"]}
    for row in values["rows"]:
        shared = {"model": row["model"], "n_battles": row["votes"]}
        glicko = shared | {"rating": row["rating"]}
        yield RatingRow.of(glicko, "", method="glicko2", settings=epoch)
        score = shared | {"rating": row["conservative"]}
        yield RatingRow.of(score, "", method="conservative-score", settings=epoch)
        if row["bt_rating"] is not None:
            strength = shared | {
                "rating": row["bt_rating"],
                "ci_low": row["bt_low"],
                "ci_high": row["bt_high"],
                "se": row["bt_se"],
            }
            yield RatingRow.of(strength, "sandwich", method="bradley-terry", settings={})
