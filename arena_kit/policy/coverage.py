"""Coverage: who was shown how often, and which comparisons were decided how many times.

*Decisive* is a vote that names a winner; a prompt is a `question_id`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import BOTH_BAD, TIE
from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.policy.constants import Policy
from arena_kit.policy.feasibility import due_shares
from arena_kit.policy.rules import PairCoverage, Rated, Standing
from arena_kit.rating.glicko2 import replay_order

Counts = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureFairness:
    """One model's exposure in the rolling window (7.1).

    `target` is lane-adjusted and is what fairness is judged against; `equal_target` is an
    equal share of the window's matchups.
    """

    model: str
    exposure: int
    target: float
    equal_target: float
    tolerance: float

    @property
    def deviation(self) -> float | None:
        """How far the exposure lies from the target, relative to it."""
        return self.exposure / self.target - 1 if self.target else None

    @property
    def within(self) -> bool:
        """Whether the exposure lies within the tolerance of the target."""
        return _within(self.exposure, self.target, self.tolerance)

    @property
    def within_equal(self) -> bool:
        """Whether it lies within the tolerance of the equal target."""
        return _within(self.exposure, self.equal_target, self.tolerance)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjacentPair:
    """Two neighbours in rank and how well they are compared (7.3)."""

    above: str
    below: str
    found: PairCoverage
    meets_floor: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Coverage:
    """The coverage of a log, or of the votes so far; arrays follow `models` and `prompts`.

    Parameters
    ----------
    enabled, active
        Which models may be matched and which prompts count; others keep their votes.
    votes, decisive, ties, both_bad
        Votes of each model in all, and of each kind. Votes are also how often it was shown.
    exposure, matchups
        How often each model was shown in the rolling window, and the matchups in it.
    by_prompt, by_pair, pair_prompts
        Decisive votes of a model on a prompt and between two models, and on how many
        prompts the latter were cast.
    cells, cell_votes
        Decisive votes of a pair on a prompt, where there are any: `cells` has a row
        (lower model, higher model, prompt) for each of `cell_votes`, sorted.
    """

    policy: Policy
    models: tuple[str, ...]
    prompts: tuple[str, ...]
    enabled: Bools
    active: Bools
    votes: Counts
    decisive: Counts
    ties: Counts
    both_bad: Counts
    exposure: Counts
    matchups: int
    by_prompt: Counts
    by_pair: Counts
    pair_prompts: Counts
    cells: Counts
    cell_votes: Counts

    def __repr__(self) -> str:
        return (
            f"Coverage({len(self.models)} models, {len(self.prompts)} prompts, "
            f"{int(self.votes.sum()) // 2} votes)"
        )

    @classmethod
    def of(
        cls,
        battles: BattleLog,
        policy: Policy | None = None,
        *,
        models: Collection[str] | None = None,
        prompts: Collection[str] | None = None,
    ) -> Self:
        """The coverage of a log, its votes by time and battle id where it has them.

        `models` are the enabled models and `prompts` the active prompts, each by default
        all of the log. Others of the log are kept as disabled and inactive, and names that
        the log does not hold have no votes.
        """
        check_single_votes(battles)
        policy = policy or Policy()
        rows, columns = _names(battles.models, models), _names(battles.prompts, prompts)
        votes = _Votes.of(battles, rows, columns)
        recent = replay_order(battles)[-policy.exposure.window :]
        cells, cell_votes = votes.cells()
        return cls(
            policy=policy,
            models=rows,
            prompts=columns,
            enabled=_mask(rows, models),
            active=_mask(columns, prompts),
            votes=votes.per_model(np.arange(len(battles))),
            decisive=votes.per_model(votes.decided),
            ties=votes.per_model(battles.outcome == TIE),
            both_bad=votes.per_model(battles.outcome == BOTH_BAD),
            exposure=votes.per_model(recent),
            matchups=len(recent),
            by_prompt=votes.by_prompt(),
            by_pair=_symmetric(votes.low[votes.decided], votes.high[votes.decided], len(rows)),
            pair_prompts=_symmetric(cells[:, 0], cells[:, 1], len(rows)),
            cells=cells,
            cell_votes=cell_votes,
        )

    def index(self, model: str) -> int:
        """The row of a model."""
        if model not in self.models:
            raise KeyError(f"{model!r} is not covered; covered: {', '.join(self.models)}")
        return self.models.index(model)

    def prompt_coverage(self) -> NDArray[np.float64]:
        """Share of active prompts on which each model has the floor of decisive votes (7.2)."""
        covered = self.by_prompt[:, self.active] >= self.policy.prompts.floor
        share: NDArray[np.float64] = covered.sum(axis=1) / max(1, int(self.active.sum()))
        return share

    def prompt_deficits(self, band: Collection[str] = ()) -> Counts:
        """Decisive votes that each model lacks on each prompt, 0 for inactive prompts.

        Models of the contender band are held to the top-band target, others to the floor.
        """
        rule = self.policy.prompts
        wanted = np.where([m in band for m in self.models], rule.top_target, rule.floor)
        lacking = np.maximum(0, wanted[:, None] - self.by_prompt)
        found: Counts = np.where(self.active[None, :], lacking, 0).astype(np.int64)
        return found

    def fairness(self, band: Collection[str] | Mapping[str, float]) -> tuple[ExposureFairness, ...]:
        """Every enabled model's exposure in the window beside what it is due (7.1).

        `band` names the contenders, or says for which part of the window each model was one.
        What disabled models were shown in the window is not shared out.
        """
        shares = due_shares(self.policy, int(self.enabled.sum()))
        matchups = float(self.exposure[self.enabled].sum()) / 2
        within = band if isinstance(band, Mapping) else dict.fromkeys(band, 1.0)
        return tuple(
            ExposureFairness(
                model=model,
                exposure=int(self.exposure[i]),
                target=matchups * shares.due(within.get(model, 0.0)),
                equal_target=matchups * shares.equal,
                tolerance=self.policy.exposure.tolerance,
            )
            for i, model in enumerate(self.models)
            if self.enabled[i]
        )

    def standings(self, ratings: Mapping[str, Rated]) -> list[Standing]:
        """What the rules ask of every enabled model."""
        share = self.prompt_coverage().tolist()
        return [
            Standing(
                model=model,
                rating=ratings[model].rating,
                rd=ratings[model].rd,
                decisive=int(self.decisive[i]),
                prompt_coverage=share[i],
                votes=int(self.votes[i]),
                both_bad=int(self.both_bad[i]),
            )
            for i, model in enumerate(self.models)
            if self.enabled[i]
        ]

    def pair(self, first: str, second: str) -> PairCoverage:
        """How well two models are compared (4)."""
        i, j = self.index(first), self.index(second)
        return PairCoverage(votes=int(self.by_pair[i, j]), prompts=int(self.pair_prompts[i, j]))

    def adjacent(self, order: Sequence[str]) -> tuple[AdjacentPair, ...]:
        """The neighbours in an order and whether they have the floor of comparisons (7.3)."""
        return tuple(
            AdjacentPair(above=above, below=below, found=found,
                         meets_floor=found.meets_floor(self.policy))
            for above, below in pairwise(order)
            for found in [self.pair(above, below)]
        )  # fmt: skip

    def pair_scores(self, order: Sequence[str]) -> dict[str, float]:
        """The pair coverage score of each contender, in an order of all models (9.2).

        It is the mean over the neighbours in rank of how much of the floor is there; the
        neighbour below the last contender counts.
        """
        gaps = [self.pair(*two).score(self.policy) for two in pairwise(order)]
        beside = [gaps[max(0, i - 1) : i + 1] for i in range(len(order))]
        top = self.policy.contenders.band
        return {m: sum(s) / len(s) for m, s in zip(order[:top], beside, strict=False) if s}

    def against(self, model: str) -> Counts:
        """Decisive votes of one model, a row per opponent and a column per prompt."""
        i = self.index(model)
        table = np.zeros((len(self.models), len(self.prompts)), np.int64)
        for own, other in ((0, 1), (1, 0)):
            mine = self.cells[:, own] == i
            table[self.cells[mine, other], self.cells[mine, 2]] = self.cell_votes[mine]
        return table


class _Votes(NamedTuple):
    """The votes of a log in numbers of the models and prompts that coverage is about.

    `placed` marks the decisive ones that were cast on a prompt.
    """

    low: Counts
    high: Counts
    prompt: Counts
    decided: Bools
    placed: Bools
    shape: tuple[int, int]

    @classmethod
    def of(cls, battles: BattleLog, models: Sequence[str], prompts: Sequence[str]) -> Self:
        a, b = (_recoded(battles.models, models, side) for side in (battles.a, battles.b))
        prompt = np.full(len(battles), -1)
        if (asked := battles.question_id) is not None:
            prompt = _recoded(tuple(asked.names), prompts, asked.codes)
        decided = battles.decisive()
        shape = len(models), len(prompts)
        return cls(
            np.minimum(a, b), np.maximum(a, b), prompt, decided, decided & (prompt >= 0), shape
        )

    def per_model(self, votes: NDArray[Any]) -> Counts:
        sides = np.concatenate([self.low[votes], self.high[votes]])
        return np.bincount(sides, minlength=self.shape[0])

    def by_prompt(self) -> Counts:
        sides = np.concatenate([self.low[self.placed], self.high[self.placed]])
        return _table(sides, np.tile(self.prompt[self.placed], 2), self.shape)

    def cells(self) -> tuple[Counts, Counts]:
        """Pairs on prompts, sorted, and the votes of each."""
        size, width = (max(1, n) for n in self.shape)
        pair = (self.low * size + self.high)[self.placed]
        found, votes = np.unique(pair * width + self.prompt[self.placed], return_counts=True)
        pairs, prompts = np.divmod(found, width)
        return np.column_stack([*np.divmod(pairs, size), prompts]), votes


def check_single_votes(battles: BattleLog) -> None:
    """Refuse a log whose rows stand for more or less than one vote each."""
    if np.any(battles.weights() != 1.0):
        raise DataError("coverage counts single votes and cannot use weights or pair counts")


def _names(known: Sequence[str], given: Collection[str] | None) -> tuple[str, ...]:
    return tuple(sorted({*known, *(given or ())}))


def _mask(names: Sequence[str], given: Collection[str] | None) -> Bools:
    return np.array([given is None or name in given for name in names], bool)


def _recoded(known: Sequence[str], names: Sequence[str], codes: NDArray[np.int32]) -> Counts:
    """Codes into one sorted list as codes into a longer one; -1 stays."""
    place = np.searchsorted(np.array(names, object), np.array(known, object))
    found: Counts = np.append(place, -1)[codes].astype(np.int64)
    return found


def _table(rows: Counts, columns: Counts, shape: tuple[int, int]) -> Counts:
    flat = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1])
    return flat.reshape(shape)


def _symmetric(low: Counts, high: Counts, size: int) -> Counts:
    table = _table(low, high, (size, size))
    return table + table.T


def _within(exposure: float, target: float, tolerance: float) -> bool:
    return abs(exposure - target) <= tolerance * target + 1e-9
