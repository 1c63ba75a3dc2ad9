"""Coverage: who was shown how often, and which comparisons were decided how many times.

*Decisive* is a vote that names a winner; a prompt is a `question_id`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import BOTH_BAD, TIE
from arena_kit.battles.log import BattleLog
from arena_kit.policy.constants import Policy
from arena_kit.policy.exposure import Bools, Counts, Due
from arena_kit.policy.feasibility import due_shares
from arena_kit.policy.rules import PairCoverage, Rated, Standing
from arena_kit.policy.tally import Pair, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureFairness:
    """One model's exposure in the rolling window (7.1).

    `target` is lane-adjusted and is what fairness is judged against; `equal_target` is an
    equal share. Both count from the matchup at which the model joined.
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
    coverage: PairCoverage
    meets_floor: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PairTable:
    """Votes of models and between any two of them; arrays follow `models`.

    Parameters
    ----------
    votes, decisive, ties, both_bad
        Votes of each model in all, and of each kind. Votes are also how often it was shown.
    by_pair, pair_prompts
        Decisive votes between two models, and on how many prompts they were cast.
    """

    policy: Policy
    models: tuple[str, ...]
    votes: Counts
    decisive: Counts
    ties: Counts
    both_bad: Counts
    by_pair: Counts
    pair_prompts: Counts

    def index(self, model: str) -> int:
        """The row of a model."""
        if model not in self.models:
            raise KeyError(f"{model!r} is not covered; covered: {', '.join(self.models)}")
        return self.models.index(model)

    def pair(self, first: str, second: str) -> PairCoverage:
        """How well two models are compared (4)."""
        i, j = self.index(first), self.index(second)
        return PairCoverage(votes=int(self.by_pair[i, j]), prompts=int(self.pair_prompts[i, j]))

    def adjacent(self, order: Sequence[str]) -> tuple[AdjacentPair, ...]:
        """The neighbours in an order and whether they have the floor of comparisons (7.3)."""
        return tuple(
            AdjacentPair(
                above=above,
                below=below,
                coverage=(coverage := self.pair(above, below)),
                meets_floor=coverage.meets_floor(self.policy),
            )
            for above, below in pairwise(order)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Coverage(PairTable):
    """The coverage of a log, or of the votes so far; arrays follow `models` and `prompts`.

    Parameters
    ----------
    enabled, active
        Which models may be matched and which prompts count; others keep their votes.
    exposure, matchups
        How often each model was shown in the rolling window, and the matchups in it.
    by_prompt
        Decisive votes of a model on a prompt.
    """

    prompts: tuple[str, ...]
    enabled: Bools
    active: Bools
    exposure: Counts
    matchups: int
    by_prompt: Counts

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
        return cls.counted(Tally.of(battles, policy or Policy(), models, prompts))

    @classmethod
    def counted(cls, tally: Tally, awaited: Iterable[tuple[Pair, int]] = ()) -> Self:
        """The coverage of a tally's votes, less those `awaited`: a pair and prompt for each."""
        models, prompts = sorted(tally.models), sorted(tally.prompts)
        row = np.array([tally.models[name] for name in models], np.intp)
        column = np.array([tally.prompts[name] for name in prompts], np.intp)
        exposure, by_prompt = tally.exposure[row], tally.by_prompt[np.ix_(row, column)]
        by_pair, pair_prompts = (
            table[np.ix_(row, row)] for table in (tally.by_pair, tally.pair_prompts)
        )
        row_of, column_of = np.argsort(row), np.argsort(column)
        for (pair, prompt), n in Counter(awaited).items():
            sides = row_of[list(pair)]
            exposure[sides] -= n
            by_prompt[sides, column_of[prompt]] -= n
            by_pair[sides, sides[::-1]] -= n
            pair_prompts[sides, sides[::-1]] -= int(tally.on_prompts(pair).get(prompt, 0) == n)
        return cls(
            policy=tally.policy,
            models=tuple(models),
            prompts=tuple(prompts),
            enabled=tally.enabled[row],
            active=tally.active[column],
            votes=tally.outcomes.sum(axis=0)[row],
            decisive=by_pair.sum(axis=1),
            ties=tally.outcomes[TIE, row],
            both_bad=tally.outcomes[BOTH_BAD, row],
            exposure=exposure,
            matchups=tally.matchups,
            by_prompt=by_prompt,
            by_pair=by_pair,
            pair_prompts=pair_prompts,
        )

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
        deficits: Counts = np.where(self.active[None, :], lacking, 0).astype(np.int64)
        return deficits

    def fairness(self, due: Collection[str] | Mapping[str, Due]) -> tuple[ExposureFairness, ...]:
        """Every enabled model's exposure in the window beside what it is due (7.1).

        `due` says what each model is due, or only names the contenders, where all models and
        contenders were the same throughout. What disabled models were shown in the window is
        not shared out.
        """
        dues = self._shared_out(due) if isinstance(due, Mapping) else self._unchanged(due)
        return tuple(
            ExposureFairness(
                model=model,
                exposure=int(self.exposure[i]),
                target=dues[model].target,
                equal_target=dues[model].equal,
                tolerance=self.policy.exposure.tolerance,
            )
            for i, model in enumerate(self.models)
            if self.enabled[i]
        )

    def _shared_out(self, due: Mapping[str, Due]) -> dict[str, Due]:
        """What enabled models were shown, shared out among them by what each is due."""
        enabled = [model for i, model in enumerate(self.models) if self.enabled[i]]
        shown = float(self.exposure[self.enabled].sum())
        parts = np.array([due.get(model, (0.0, 0.0)) for model in enabled]).reshape(-1, 2)
        parts *= shown / np.maximum(1e-9, parts.sum(axis=0))
        return {model: Due(*part) for model, part in zip(enabled, parts.tolist(), strict=True)}

    def _unchanged(self, band: Collection[str]) -> dict[str, Due]:
        """What is due where nobody joined or left, and the contenders were these throughout."""
        shares = due_shares(self.policy, int(self.enabled.sum()))
        matchups = float(self.exposure[self.enabled].sum()) / 2
        return {
            m: Due(matchups * shares.due(float(m in band)), matchups * shares.equal)
            for m in self.models
        }

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

    def pair_scores(self, order: Sequence[str]) -> dict[str, float]:
        """The pair coverage score of each contender, in an order of all models (9.2).

        It is the mean over the neighbours in rank of how much of the floor is there; the
        neighbour below the last contender counts.
        """
        gaps = [self.pair(*two).score(self.policy) for two in pairwise(order)]
        beside = [gaps[max(0, i - 1) : i + 1] for i in range(len(order))]
        top = self.policy.contenders.band
        return {m: sum(s) / len(s) for m, s in zip(order[:top], beside, strict=False) if s}


def _within(exposure: float, target: float, tolerance: float) -> bool:
    return abs(exposure - target) <= tolerance * target + 1e-9
