"""One model in detail (9.1, 9.2): summary, prompts, opponents, neighbours, quality and history.

Each part of a page is rows: plain records, which JSON and tables are derived from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS, BOTH_BAD, TIE
from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import expected_share, known
from arena_kit.rating.claims import claims
from arena_kit.rating.glicko2 import replay_order
from arena_kit.validity.leaderboard import Floats, Leaderboard, rating_of, vote_sides
from arena_kit.validity.weekly import Row, numbered, untimed, week_numbers

if TYPE_CHECKING:
    import pandas as pd

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
    own, history = _own(board.battles, model), _history(board, model)
    return ModelDetail(
        model=model,
        summary=_summary(own, history, board.policy.glicko.rating),
        deficits=_deficits(board, model, own),
        neighbours=list(_neighbours(board, model, own)),
        trend=_trend(board.battles, own),
        history=history,
        prompts=_breakdown(board, own, board.battles.prompts, "prompt"),
        opponents=_breakdown(board, own, board.battles.models, "other"),
    )


def _own(battles: BattleLog, model: str) -> pd.DataFrame:
    """The model's votes in order of time, as it saw them, with a letter each: a judgment whose
    orders disagree has a dash.
    """
    code = battles.models.index(model) if model in battles.models else -1
    sides = vote_sides(battles)
    own = sides[sides["model"] == code]
    own = own.iloc[np.argsort(np.argsort(replay_order(battles))[own["battle"]], kind="stable")]
    rows = own["battle"].to_numpy()
    outcome = battles.outcome[rows]
    won = np.where(outcome == A_WINS, battles.a[rows], battles.b[rows]) == code
    kinds = [outcome == BOTH_BAD, battles.flags()[rows], outcome == TIE]
    return own.assign(
        decisive=battles.decisive()[rows],
        both_bad=outcome == BOTH_BAD,
        letter=np.select(kinds, ["B", "–", "D"], np.where(won, "W", "L")),
    )


def _summary(own: pd.DataFrame, history: History, initial: float) -> Row:
    decided, counted = own["letter"][own["decisive"]], own["score"].dropna()
    rating = history.rating
    start = rating[-RECENT - 1] if len(rating) > RECENT else initial
    return {
        "votes": len(own),
        "win_rate": float(np.mean(decided == "W")) if len(decided) else None,
        "score": float(np.mean(counted.to_numpy())) if len(counted) else None,
        "form": "".join(own["letter"][-RECENT:]),
        "delta": float(rating[-1] - start) if len(rating) else None,
    }


def _deficits(board: Leaderboard, model: str, own: pd.DataFrame) -> Deficits:
    coverage = board.coverage
    others = tuple(name for name in board.order if name != model)
    rows = [coverage.index(name) for name in others]
    row, rule = coverage.index(model), board.policy.prompts
    wanted = rule.top_target if model in board.band else rule.floor
    lack = coverage.prompt_deficits(board.band)[row] / wanted
    met = coverage.by_pair[row, rows]
    equal = max(1e-9, float(met.mean())) if len(met) else 1.0
    against = np.maximum(0.0, 1 - met / equal)
    active = np.flatnonzero(coverage.active)
    prompts = tuple(coverage.prompts[i] for i in active)
    return Deficits(
        opponents=others,
        prompts=prompts,
        on_prompt=lack[active],
        against=against,
        votes=_decisive_votes(board.battles, own, others, prompts),
    )


def _decisive_votes(
    battles: BattleLog, own: pd.DataFrame, opponents: Sequence[str], prompts: Sequence[str]
) -> NDArray[np.int64]:
    """A row per opponent and a column per prompt; votes on others are left out."""
    import pandas as pd

    met = own[own["decisive"] & (own["prompt"] >= 0)]
    other, prompt = _names(battles.models)[met["other"]], _names(battles.prompts)[met["prompt"]]
    votes = pd.crosstab(other, prompt).reindex(index=[*opponents], columns=[*prompts], fill_value=0)
    return votes.to_numpy(np.int64)


def _neighbours(board: Leaderboard, model: str, own: pd.DataFrame) -> Iterator[Row]:
    order, rated = board.conservative_order, board.strengths.models
    place, above = order.index(model), claims.above(board.strengths)
    for i in (n for n in (place - 1, place + 1) if 0 <= n < len(order)):
        other, pair = order[i], board.coverage.pair(model, order[i])
        both = [rated.index(each) for each in (model, other) if each in rated]
        letters = "".join(own["letter"][_names(board.battles.models)[own["other"]] == other])
        yield {
            "model": other,
            "rank": i + 1,
            "wins": letters.count("W"),
            "losses": letters.count("L"),
            "ties": letters.count("D"),
            "votes": pair.votes,
            "prompts": pair.prompts,
            "meets_floor": pair.score >= 1,
            "above": known(float(above[*both])) if len(both) == 2 else None,
            "order": board.adjacent[min(i, place)],
        }


def _trend(battles: BattleLog, own: pd.DataFrame) -> list[Row]:
    """By week; by tenths of the model's votes where weeks cannot be told."""
    n = len(own)
    if n and battles.timestamp is not None and not untimed(battles):
        part = week_numbers(battles.timestamp[own["battle"]])
        labels = {w: numbered(w).label for w in range(int(part.min()), int(part.max()) + 1)}
    else:
        part = np.arange(n) * 10 // max(1, n)
        labels = {int(i): f"{10 * i}–{10 * i + 10} %" for i in np.unique(part)}
    counts = own.groupby(part)["both_bad"].agg(["size", "sum"]).reindex([*labels], fill_value=0)
    rows = zip(labels.values(), *(counts[each].tolist() for each in counts), strict=True)
    return [
        {"label": label, "votes": n, "both_bad": bad, "quality_floor": 1 - bad / n if n else None}
        for label, n, bad in rows
    ]


def _history(board: Leaderboard, model: str) -> History:
    times = None if untimed(board.battles) else board.battles.timestamp
    if model not in board.history.models:
        return History(None if times is None else times[:0], np.zeros(0), np.zeros(0))
    votes, rating, rd, _ = board.history.of(model)
    return History(None if times is None else times[votes], rating, rd)


def _breakdown(
    board: Leaderboard, own: pd.DataFrame, names: Sequence[str], column: str
) -> list[Row]:
    """The votes by prompt or by opponent, most votes first."""
    times, rating = board.battles.timestamp, rating_of(board.battles, board.strengths)
    expected = expected_share(rating[own["model"]] - rating[own["other"]])
    votes = own.assign(name=_names(names)[own[column]], surprise=own["score"] - expected)
    groups = votes[votes[column] >= 0].groupby("name")
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


def _names(known: Sequence[str]) -> NDArray[np.object_]:
    """Names by their codes; the last is that of -1."""
    return np.array([*known, None], object)


def _time(moment: np.datetime64) -> str | None:
    return None if np.isnat(moment) else f"{moment.astype('datetime64[s]')}Z"
