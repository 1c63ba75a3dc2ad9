"""The files of a tournament record, made from its judgments, battles and ratings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.files import whole_file, write_csv, write_json, write_jsonl
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.verdicts.records import Judgment
from arena_kit.rating.base import Ratings, known
from arena_kit.rating.claims import claims
from arena_kit.rating.elo import PermutationElo, Stability, neighbour_stability
from arena_kit.reporting import tournament_tables
from arena_kit.reporting.board import Board, Dimension

WINRATE_COLUMNS = (
    "dimension", "entrant_a", "entrant_b", "a_wins", "b_wins", "ties", "inconsistent",
    "settled_ties",
)  # fmt: skip
#: What the fields of elo_results.json mean.
_FIELDS = (
    "sem (also order_sem) is the Monte-Carlo error of the mean over shuffled orders. se, ci95_low "
    "and ci95_high come from resampled questions: they reflect sampling of questions."
)

#: Verdicts of requests that a run asked a second time.
REPEATS_FILE = "repeats.jsonl"


@dataclass(frozen=True, kw_only=True)
class EloSweep:
    """Elo of every dimension at each K of a tournament file, its own K among them."""

    method: PermutationElo
    ratings: Mapping[str, Mapping[float, Ratings]]

    @property
    def primary(self) -> dict[str, Ratings]:
        """The ratings at the tournament's own K."""
        return {dimension: by_k[self.method.k] for dimension, by_k in self.ratings.items()}

    @cached_property
    def stability(self) -> dict[str, list[Stability]]:
        """How neighbours of each ranking fare across the sweep."""
        ratings = self.ratings.items()
        return {dimension: neighbour_stability(by_k, self.method.k) for dimension, by_k in ratings}


def write_pairs(folder: Path, pairs: Sequence[Pair]) -> None:
    """matches/matches.jsonl: what was to be judged."""
    names = ("dimension", "prompt_id", "entrant_a", "entrant_b")
    rows = [{name: getattr(pair, name) for name in names} for pair in pairs]
    write_jsonl(folder / "matches" / "matches.jsonl", rows)


def write_verdicts(folder: Path, judgments: Sequence[Judgment], dimensions: Sequence[str]) -> None:
    """verdicts/<dimension>.jsonl: both orders of every pair, raw text included."""
    for dimension in dimensions:
        rows = [
            {**verdict.as_row(), "settlement": str(judgment.settlement)}
            for judgment in judgments
            if judgment.pair.dimension == dimension
            for verdict in judgment.verdicts
        ]
        write_jsonl(folder / "verdicts" / f"{dimension}.jsonl", rows)


def write_results(folder: Path, battles: BattleLog, swept: EloSweep, board: Board) -> None:
    """elo_results.json, elo_per_perm.npz, bradley_terry.json and pairwise_winrates.csv."""
    decisive = {d: int(log.decisive().sum()) for d, log in battles.by_dimension().items()}
    results = elo_results(swept, board.names)
    results["n_decisive_matches"] = {d: decisive.get(d, 0) for d in board.names}
    write_json(folder / "elo_results.json", results)
    write_json(folder / "bradley_terry.json", bradley_terry(board))
    traces: dict[str, Any] = {}
    for d, ratings in swept.primary.items():
        traces |= {f"{d}__data": ratings.traces, f"{d}__entrants": np.array(ratings.models)}
    with whole_file(folder / "elo_per_perm.npz") as part, part.open("wb") as out:
        np.savez(out, **traces)
    rows = tournament_tables.pairwise_winrates(battles)
    write_csv(folder / "pairwise_winrates.csv", rows, WINRATE_COLUMNS)


def write_k_sweep(folder: Path, sweep: EloSweep, board: Board) -> None:
    """k_sweep.json: whether the order depends on K, and every two neighbours at each K."""
    stability = sweep.stability
    pairs = [pair for ordered in stability.values() for pair in ordered]
    moved = any(not pair.ordered_everywhere for pair in pairs) if pairs else None
    verdict = {
        "order_depends_on_k": moved,
        "answer": tournament_tables.stability_answer(stability, board),
        "default_k": sweep.method.k,
        "neighbours": {
            name: [_followed(pair, board[name]) for pair in each]
            for name, each in stability.items()
        },
    }
    write_json(folder / "k_sweep.json", verdict)


def _followed(pair: Stability, dimension: Dimension) -> dict[str, Any]:
    columns = zip(pair.ks, pair.gap, pair.low, pair.high, pair.share_above, strict=True)
    return {
        "above": pair.above,
        "below": pair.below,
        "ordered_at_every_k": pair.ordered_everywhere,
        "smallest_ordered_k": next(iter(pair.ordered_at), None),
        "evidence": tournament_tables.evidence_state(pair, dimension),
        "by_k": {
            f"{k:g}": {
                "gap": gap,
                "ci95_low": known(low),
                "ci95_high": known(high),
                "share_above": known(share),
            }
            for k, gap, low, high, share in columns
        },
    }


def elo_results(swept: EloSweep, dimensions: Sequence[str]) -> dict[str, Any]:
    """Ratings per dimension and K; `se` and `ci95_*` come from the resampled questions,
    `order_sem`, and `sem` beside it, is the shuffle's. A dimension without a rating is empty.
    `notes` says what the fields mean, and of which dimensions the intervals hold the truth too
    seldom, and why.
    """
    primary = swept.primary
    return {
        "default_k": swept.method.k,
        "primary": {d: _entries(primary[d]) if d in primary else {} for d in dimensions},
        "k_sensitivity": {
            d: {f"{k:g}": _entries(ratings) for k, ratings in swept.ratings.get(d, {}).items()}
            for d in dimensions
        },
        "notes": {"fields": [_FIELDS]}
        | {d: list(rated.notes) for d, rated in primary.items() if rated.notes},
    }


def bradley_terry(board: Board) -> dict[str, Any]:
    """Per dimension: ratings with intervals and rank ranges, what may be said about the order,
    how probable it is that one entrant is above another (for one pair named beforehand), and the
    settings. A dimension without a rating is empty.
    """
    fits = board.fits.get("bradley_terry", {})
    return {each.name: _claimed(each, fits.get(each.name)) for each in board.dimensions}


def _claimed(dimension: Dimension, rated: Ratings | None) -> dict[str, Any]:
    if rated is None:
        return {}
    values = dimension.model_dump(mode="json", exclude_unset=True)
    names = ("about", "first", "tiers", "unplaced", "margin", "sentences", "fragility")
    rows = rows_with_ranks(rated)
    return rated.as_dict() | {
        "ratings": rows,
        "claims": {name: values[name] for name in names}
        | {
            "neighbours": [
                {key: value for key, value in pair.items() if key != "probability"}
                for pair in values["orders"]
            ],
            "ranks_at_once": {row["model"]: row["ranks"] for row in rows if row["ranks"]},
        },
        "above": values["above"],
    }


def rows_with_ranks(ratings: Ratings) -> list[dict[str, Any]]:
    """A row per model, best first, with the ranks that decided orders leave open to all at once."""
    ranges = claims.rank_ranges(ratings)
    return [row.as_dict() | {"ranks": ranges[row.model]} for row in ratings.ratings]


def _entries(ratings: Ratings) -> dict[str, dict[str, Any]]:
    return {
        rating.model: {
            "entrant_id": rating.model,
            "mean": rating.rating,
            "order_sem": rating.extra["order_sem"],
            "sem": rating.extra["order_sem"],
            "se": rating.extra["evidence_se"],
            "ci95_low": rating.ci_low,
            "ci95_high": rating.ci_high,
        }
        for rating in ratings.ratings
    }
