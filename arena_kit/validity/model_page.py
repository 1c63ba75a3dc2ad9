"""One model in detail (9.1, 9.2): summary, prompts, opponents, neighbours, quality and history.

Each part of a page is rows: plain records, which JSON and tables are derived from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS, BOTH_BAD, TIE
from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import expected_share, known
from arena_kit.rating.claims import claims
from arena_kit.rating.glicko2.method import replay_order
from arena_kit.validity.leaderboard import Floats, Leaderboard, Sides, rating_of
from arena_kit.validity.weekly import Row, numbered, untimed, week_numbers

RECENT = 10  # votes behind recent form and recent delta
_LISTED = 200  # prompts named at most in JSON


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deficits:
    """Where a model lacks votes: a row per opponent and a column per prompt.

    `on_prompt` is the part of the floor or target that is missing on each prompt, `against`
    the part of an equal share that is missing against each opponent. `votes` are decisive.
    """

    opponents: tuple[str, ...]
    prompts: tuple[str, ...]
    on_prompt: Floats
    against: Floats
    votes: NDArray[np.int64]

    @property
    def joint(self) -> Floats:
        """What a vote of each cell would reduce: both parts together (6.1)."""
        return self.on_prompt[None, :] + self.against[:, None]

    def as_dict(self) -> dict[str, Any]:
        """What is missing, in parts of 1; a cell of the heatmap is the sum of its two."""
        parts = zip(self.prompts, self.on_prompt.tolist(), strict=True)
        lacking = sorted((-part, name) for name, part in parts if part > 0)[:_LISTED]
        return {
            "prompts_lacking": int(np.count_nonzero(self.on_prompt)),
            "by_prompt": {name: round(-part, 3) for part, name in lacking},
            "by_opponent": dict(zip(self.opponents, self.against.round(3).tolist(), strict=True)),
        }


class History(NamedTuple):
    """Rating and RD after each vote of a model; `moments` is None where the log has no times."""

    moments: NDArray[np.datetime64] | None
    rating: Floats
    rd: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelDetail:
    """Everything on one model's page.

    Parameters
    ----------
    summary
        Votes, the win rate of decisive ones, the mean score, a letter per recent vote, the latest
        last (W win, L loss, D draw, B both bad), and the rating change over them.
    neighbours
        The record against the immediate neighbours in rank and whether it has the floor (7.3);
        `above` is how probable Bradley–Terry finds it that the model is above this neighbour, for
        this pair alone and one look; `order` is whether the votes decide the order of the two.
    trend
        Both-bad votes by week, or by tenths of the votes (8.3).
    prompts, opponents
        Votes on each prompt and against each opponent; `score` is raw, and `surprise` how far it
        lies above what the ratings of both models promise.
    """

    model: str
    summary: Row
    deficits: Deficits
    neighbours: Sequence[Row]
    trend: Sequence[Row]
    history: History
    prompts: Sequence[Row]
    opponents: Sequence[Row]

    def as_dict(self, least: int = 1) -> dict[str, Any]:
        """Plain values, for JSON; rating and RD as they stood after each vote.

        Prompts with fewer than `least` votes of the model are left out, as they count nowhere.
        """
        moments = self.history.moments
        return {
            "model": self.model,
            "recent_votes": len(self.summary["form"]),
            "summary": self.summary,
            "neighbours": [{**each, "order": asdict(each["order"])} for each in self.neighbours],
            "both_bad_trend": self.trend,
            "deficits": self.deficits.as_dict(),
            "prompts": [each for each in self.prompts if each["votes"] >= least],
            "opponents": self.opponents,
            "confidence_history": {
                "time": None if moments is None else [_time(each) for each in moments],
                "rating": np.round(self.history.rating, 3).tolist(),
                "rd": np.round(self.history.rd, 3).tolist(),
            },
        }


def model_detail(board: Leaderboard, model: str) -> ModelDetail:
    """The page of a model of the board."""
    board[model]  # raises where it is not on the board
    sides = _own(board.battles, model)
    history = _history(board, model)
    return ModelDetail(
        model=model,
        summary=_summary(board.battles, sides, history, board.policy.glicko.rating),
        deficits=_deficits(board, model, sides),
        neighbours=_neighbours(board, model, sides),
        trend=_trend(board.battles, sides),
        history=history,
        prompts=_breakdown(board, sides, board.battles.prompts, sides.prompt),
        opponents=_breakdown(board, sides, board.battles.models, sides.other),
    )


def _own(battles: BattleLog, model: str) -> Sides:
    """The model's votes in order of time, as it saw them."""
    code = battles.models.index(model) if model in battles.models else -1
    place = np.argsort(replay_order(battles))
    both = Sides.of(battles)
    own = both.where(both.model == code)
    order = np.argsort(place[own.battle], kind="stable")
    return own.where(order)


def _summary(battles: BattleLog, sides: Sides, history: History, initial: float) -> Row:
    decided = sides.where(battles.decisive()[sides.battle])
    counted = sides.score[~np.isnan(sides.score)]
    recent = sides.where(np.arange(len(sides.battle)) >= len(sides.battle) - RECENT)
    rating = history.rating
    start = rating[-RECENT - 1] if len(rating) > RECENT else initial
    return {
        "votes": len(sides.battle),
        "win_rate": float(np.mean(_won(battles, decided))) if len(decided.score) else None,
        "score": float(np.mean(counted)) if len(counted) else None,
        "form": "".join(_letters(battles, recent)),
        "delta": float(rating[-1] - start) if len(rating) else None,
    }


def _letters(battles: BattleLog, sides: Sides) -> list[str]:
    """A letter per vote; a judgment whose orders disagree has a dash."""
    outcome = battles.outcome[sides.battle]
    kinds = [outcome == BOTH_BAD, battles.flags()[sides.battle], outcome == TIE]
    won = np.where(_won(battles, sides), "W", "L")
    letters: list[str] = np.select(kinds, ["B", "–", "D"], won).tolist()
    return letters


def _won(battles: BattleLog, sides: Sides) -> NDArray[np.bool_]:
    """Which votes named the model; a soft share does not change who won (8.1)."""
    winner = np.where(battles.outcome == A_WINS, battles.a, battles.b)[sides.battle]
    won: NDArray[np.bool_] = battles.decisive()[sides.battle] & (winner == sides.model)
    return won


def _deficits(board: Leaderboard, model: str, sides: Sides) -> Deficits:
    coverage = board.coverage
    others = tuple(name for name in board.order if name != model)
    rows = [coverage.index(name) for name in others]
    own, rule = coverage.index(model), board.policy.prompts
    wanted = rule.top_target if model in board.band else rule.floor
    lack = coverage.prompt_deficits(board.band)[own] / wanted
    met = coverage.by_pair[own, rows]
    equal = max(1e-9, float(met.mean())) if len(met) else 1.0
    against = np.maximum(0.0, 1 - met / equal)
    active = np.flatnonzero(coverage.active)
    prompts = tuple(coverage.prompts[i] for i in active)
    return Deficits(
        opponents=others,
        prompts=prompts,
        on_prompt=lack[active],
        against=against,
        votes=_decisive_votes(board.battles, sides, others, prompts),
    )


def _decisive_votes(
    battles: BattleLog, sides: Sides, opponents: Sequence[str], prompts: Sequence[str]
) -> NDArray[np.int64]:
    """A row per opponent and a column per prompt; votes on others are left out."""
    row = _places(battles.models, opponents)[sides.other]
    column = _places(battles.prompts, prompts)[sides.prompt]
    counted = battles.decisive()[sides.battle] & (row >= 0) & (column >= 0)
    votes = np.zeros((len(opponents), len(prompts)), np.int64)
    np.add.at(votes, (row[counted], column[counted]), 1)
    return votes


def _places(known: Sequence[str], names: Sequence[str]) -> NDArray[np.int64]:
    """Where each known name stands among `names`, -1 for not at all; the last is for code -1."""
    place = {name: i for i, name in enumerate(names)}
    return np.array([*(place.get(name, -1) for name in known), -1], np.int64)


def _neighbours(board: Leaderboard, model: str, sides: Sides) -> list[Row]:
    order, rated = board.conservative_order, board.strengths.models
    place, above = order.index(model), claims.above(board.strengths)
    rows = []
    for i in (n for n in (place - 1, place + 1) if 0 <= n < len(order)):
        other, pair = order[i], board.coverage.pair(model, order[i])
        both = model in rated and other in rated
        rows.append(
            {
                "model": other,
                "rank": i + 1,
                **_record(board.battles, sides, other),
                "votes": pair.votes,
                "prompts": pair.prompts,
                "meets_floor": pair.meets_floor(board.policy),
                "above": known(float(above[rated.index(model), rated.index(other)]))
                if both
                else None,
                "order": board.adjacent[min(i, place)],
            }
        )
    return rows


def _record(battles: BattleLog, sides: Sides, other: str) -> dict[str, int]:
    code = battles.models.index(other) if other in battles.models else -1
    met = sides.where(sides.other == code)
    letters = _letters(battles, met)
    return {"wins": letters.count("W"), "losses": letters.count("L"), "ties": letters.count("D")}


def _trend(battles: BattleLog, sides: Sides) -> list[Row]:
    """By week; by tenths of the model's votes where weeks cannot be told."""
    bad = battles.outcome[sides.battle] == BOTH_BAD
    n = len(sides.battle)
    if n and battles.timestamp is not None and not untimed(battles):
        part = week_numbers(battles.timestamp[sides.battle])
        labels = {w: numbered(w).label for w in range(int(part.min()), int(part.max()) + 1)}
    else:
        part = np.arange(n) * 10 // max(1, n)
        labels = {int(i): f"{10 * i}–{10 * i + 10} %" for i in np.unique(part)}
    rows = []
    for i, label in labels.items():
        votes, both_bad = int((part == i).sum()), int(bad[part == i].sum())
        floor = 1 - both_bad / votes if votes else None
        rows.append({"label": label, "votes": votes, "both_bad": both_bad, "quality_floor": floor})
    return rows


def _history(board: Leaderboard, model: str) -> History:
    times = None if untimed(board.battles) else board.battles.timestamp
    if model not in board.history.models:
        return History(None if times is None else times[:0], np.zeros(0), np.zeros(0))
    votes, rating, rd, _ = board.history.of(model)
    return History(None if times is None else times[votes], rating, rd)


def _breakdown(
    board: Leaderboard, sides: Sides, names: Sequence[str], codes: NDArray[np.int64]
) -> list[Row]:
    """The votes by what `codes` stand for, most votes first."""
    import pandas as pd

    battles, rating = board.battles, rating_of(board.battles, board.strengths)
    times = battles.timestamp
    votes = pd.DataFrame(
        {
            "name": np.array([*names, ""], object)[codes],
            "decisive": battles.decisive()[sides.battle],
            "both_bad": battles.outcome[sides.battle] == BOTH_BAD,
            "score": sides.score,
            "surprise": sides.score - expected_share(rating[sides.model] - rating[sides.other]),
            "battle": sides.battle,
        }
    )
    groups = votes[codes >= 0].groupby("name")
    sums, means = groups[["decisive", "both_bad"]].sum(), groups[["score", "surprise"]].mean()
    table = groups["battle"].agg(votes="size", first="first", last="last").join([sums, means])
    rows = [
        {
            "name": name,
            **{column: int(row[column]) for column in ("votes", "decisive", "both_bad")},
            **{column: known(row[column]) for column in ("score", "surprise")},
            "first_seen": None if times is None else _time(times[int(row["first"])]),
            "last_seen": None if times is None else _time(times[int(row["last"])]),
        }
        for name, row in table.iterrows()
    ]
    return sorted(rows, key=lambda row: (-row["votes"], row["name"]))


def _time(moment: np.datetime64) -> str | None:
    return None if np.isnat(moment) else f"{moment.astype('datetime64[s]')}Z"
