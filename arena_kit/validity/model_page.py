"""One model in detail (9.1, 9.2): summary, prompts, opponents, neighbours, quality and history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS, BOTH_BAD, TIE
from arena_kit.battles.log import BattleLog
from arena_kit.policy.order import PairOrder
from arena_kit.rating.base import expected_share, known
from arena_kit.rating.claims import claims
from arena_kit.rating.glicko2.method import replay_order
from arena_kit.validity.leaderboard import Leaderboard
from arena_kit.validity.prompt_scores import Sides, rating_of
from arena_kit.validity.weeks import numbered, untimed, week_numbers

Floats = NDArray[np.float64]

RECENT = 10  # votes behind recent form and recent delta


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The head of the page; `form` has a letter per recent vote, the latest last.

    W, L and D are a win, a loss and a draw, B is both-bad. `win_rate` is of decisive votes,
    `delta` the rating change over the recent votes.
    """

    votes: int
    win_rate: float | None
    score: float | None
    form: str
    delta: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Votes of a model on one prompt, or against one opponent.

    `score` is raw; `surprise` is how far it lies above what the ratings of both models
    promise. Times are None where the log has none.
    """

    name: str
    votes: int
    decisive: int
    both_bad: int
    score: float | None
    surprise: float | None
    first_seen: datetime | None
    last_seen: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """The record against an immediate neighbour in rank, and whether it has the floor (7.3).

    `above` is how probable Bradley–Terry finds it that the model is above this neighbour, for this
    pair alone and one look; `order` is whether the votes decide the order of the two.
    """

    model: str
    rank: int
    wins: int
    losses: int
    ties: int
    votes: int
    prompts: int
    meets_floor: bool
    above: float | None
    order: PairOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Both-bad votes of a model in one stretch of time (8.3)."""

    label: str
    votes: int
    both_bad: int

    @property
    def quality_floor(self) -> float | None:
        """The share of votes that were not both-bad."""
        return 1 - self.both_bad / self.votes if self.votes else None


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Path:
    """Rating and RD after each vote of a model; `moments` is None where the log has no times."""

    moments: NDArray[np.datetime64] | None
    rating: Floats
    rd: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelDetail:
    """Everything on one model's page."""

    model: str
    summary: Summary
    deficits: Deficits
    neighbours: tuple[Neighbour, ...]
    trend: tuple[Trend, ...]
    path: Path
    prompts: tuple[Breakdown, ...]
    opponents: tuple[Breakdown, ...]


def model_detail(board: Leaderboard, model: str) -> ModelDetail:
    """The page of a model of the board."""
    board[model]  # raises where it is not on the board
    sides = _own(board.battles, model)
    path = _path(board, model)
    return ModelDetail(
        model=model,
        summary=_summary(board.battles, sides, path, board.policy.glicko.rating),
        deficits=_deficits(board, model, sides),
        neighbours=_neighbours(board, model, sides),
        trend=_trend(board.battles, sides),
        path=path,
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


def _summary(battles: BattleLog, sides: Sides, path: Path, initial: float) -> Summary:
    decided = sides.where(battles.decisive()[sides.battle])
    counted = sides.score[~np.isnan(sides.score)]
    recent = sides.where(np.arange(len(sides.battle)) >= len(sides.battle) - RECENT)
    start = path.rating[-RECENT - 1] if len(path.rating) > RECENT else initial
    return Summary(
        votes=len(sides.battle),
        win_rate=float(np.mean(_won(battles, decided))) if len(decided.score) else None,
        score=float(np.mean(counted)) if len(counted) else None,
        form="".join(_letters(battles, recent)),
        delta=float(path.rating[-1] - start) if len(path.rating) else None,
    )


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
    wanted = rule.top_target if model in board.band.models else rule.floor
    lack = coverage.prompt_deficits(board.band.models)[own] / wanted
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


def _neighbours(board: Leaderboard, model: str, sides: Sides) -> tuple[Neighbour, ...]:
    order, rated = board.conservative_order, board.strengths.models
    place, above = order.index(model), claims.above(board.strengths)
    neighbours = []
    for i in (place - 1, place + 1):
        if not 0 <= i < len(order):
            continue
        other, pair = order[i], board.coverage.pair(model, order[i])
        both = model in rated and other in rated
        neighbours.append(
            Neighbour(
                model=other,
                rank=i + 1,
                **_record(board.battles, sides, other),
                votes=pair.votes,
                prompts=pair.prompts,
                meets_floor=pair.meets_floor(board.policy),
                above=known(float(above[rated.index(model), rated.index(other)])) if both else None,
                order=board.adjacent[min(i, place)],
            )
        )
    return tuple(neighbours)


def _record(battles: BattleLog, sides: Sides, other: str) -> dict[str, int]:
    code = battles.models.index(other) if other in battles.models else -1
    met = sides.where(sides.other == code)
    letters = _letters(battles, met)
    return {"wins": letters.count("W"), "losses": letters.count("L"), "ties": letters.count("D")}


def _trend(battles: BattleLog, sides: Sides) -> tuple[Trend, ...]:
    """By week; by tenths of the model's votes where weeks cannot be told."""
    bad = battles.outcome[sides.battle] == BOTH_BAD
    n = len(sides.battle)
    if n and battles.timestamp is not None and not untimed(battles):
        part = week_numbers(battles.timestamp[sides.battle])
        labels = {w: numbered(w).label for w in range(int(part.min()), int(part.max()) + 1)}
    else:
        part = np.arange(n) * 10 // max(1, n)
        labels = {int(i): f"{10 * i}–{10 * i + 10} %" for i in np.unique(part)}
    return tuple(
        Trend(label=label, votes=int((part == i).sum()), both_bad=int(bad[part == i].sum()))
        for i, label in labels.items()
    )


def _path(board: Leaderboard, model: str) -> Path:
    times = None if untimed(board.battles) else board.battles.timestamp
    if model not in board.history.models:
        empty = np.zeros(0)
        return Path(moments=None if times is None else times[:0], rating=empty, rd=empty)
    votes, rating, rd, _ = board.history.of(model)
    return Path(moments=None if times is None else times[votes], rating=rating, rd=rd)


def _breakdown(
    board: Leaderboard, sides: Sides, names: Sequence[str], codes: NDArray[np.int64]
) -> tuple[Breakdown, ...]:
    """The votes by what `codes` stand for, most votes first."""
    battles, rating = board.battles, rating_of(board.battles, board.strengths)
    surprise = sides.score - expected_share(rating[sides.model] - rating[sides.other])
    present, first, group = np.unique(codes, return_index=True, return_inverse=True)
    last = len(codes) - 1 - np.unique(codes[::-1], return_index=True)[1]
    columns = zip(
        present.tolist(),
        np.bincount(group, minlength=len(present)).tolist(),
        np.bincount(group, battles.decisive()[sides.battle]).tolist(),
        np.bincount(group, battles.outcome[sides.battle] == BOTH_BAD).tolist(),
        _means(sides.score, group),
        _means(surprise, group),
        sides.battle[first].tolist(),
        sides.battle[last].tolist(),
        strict=True,
    )
    rows = [
        Breakdown(
            name=str(names[code]),
            votes=votes,
            decisive=int(decisive),
            both_bad=int(both_bad),
            score=known(score),
            surprise=known(gap),
            first_seen=_moment(battles, first_seen),
            last_seen=_moment(battles, last_seen),
        )
        for code, votes, decisive, both_bad, score, gap, first_seen, last_seen in columns
        if code >= 0
    ]
    return tuple(sorted(rows, key=lambda row: (-row.votes, row.name)))


def _means(values: Floats, group: NDArray[np.intp]) -> list[float]:
    """The mean of each group's values that are known, NaN where none is."""
    there = ~np.isnan(values)
    total = np.bincount(group, np.where(there, values, 0.0))
    with np.errstate(invalid="ignore"):
        means: list[float] = (total / np.bincount(group, there)).tolist()
    return means


def _moment(battles: BattleLog, row: int) -> datetime | None:
    if battles.timestamp is None:
        return None
    moment: datetime | None = battles.timestamp[row].astype("datetime64[s]").item()
    return moment
