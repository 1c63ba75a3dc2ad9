"""Coverage: who was shown how often, and which comparisons were decided how many times.

*Decisive* is a vote that names a winner; a prompt is a `question_id`. `Tally` counts votes one by
one or a whole log at once, and `Coverage` is what it has counted, by name.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import BOTH_BAD, OUTCOMES, TIE
from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.policy.constants import Policy
from arena_kit.policy.exposure import Bools, Counts, Floats, Numbers, Roster, aimed_votes
from arena_kit.policy.rules import PairCoverage, Standing
from arena_kit.rating.glicko2 import GlickoState, replay_order

#: The numbers of two models, the lower one first.
Pair = tuple[int, int]


class Tally:
    """Votes counted under one numbering of models and prompts: a whole log, or one by one.

    A matchup counts as soon as it is shown, with the vote awaited on it as a decisive one;
    a vote without a winner, or a matchup given up, takes that back.

    Attributes
    ----------
    models, prompts
        The number of each name, in the order in which names were added.
    enabled, active
        Which models may be matched and which prompts count.
    outcomes
        Votes of each kind: a row per outcome and a column per model.
    shown, exposure, met
        How often each model was shown, ever and in the rolling window, and how often each pair
        has met, with the matchups that wait for their vote.
    aimed
        How often each model was shown in the window by votes that were to decide its order.
    by_prompt, by_pair, pair_prompts
        Decisive votes, with those awaited, of a model on a prompt and between two models, and
        on how many prompts the latter were cast.
    """

    def __init__(
        self, policy: Policy, models: Iterable[str] = (), prompts: Iterable[str] = ()
    ) -> None:
        self.policy = policy
        self.models: dict[str, int] = {}
        self.prompts: dict[str, int] = {}
        self.enabled, self.active = np.zeros(0, bool), np.zeros(0, bool)
        self.outcomes = np.zeros((len(OUTCOMES), 0), np.int64)
        self.shown, self.exposure, self.aimed = (np.zeros(0, np.int64) for _ in range(3))
        self.met, self.by_pair, self.pair_prompts, self.by_prompt = (
            np.zeros((0, 0), np.int64) for _ in range(4)
        )
        self._on_prompts: dict[Pair, dict[int, int]] = {}
        self._cells = np.zeros((4, 0), np.int64)
        self._window: deque[tuple[Pair, bool]] = deque()
        self._noted: deque[tuple[Roster, Numbers] | None] = deque()
        self._rosters: list[Roster] = []
        self.add(models, prompts)
        self.enabled[:], self.active[:] = True, True

    @classmethod
    def of(
        cls,
        battles: BattleLog,
        policy: Policy,
        models: Iterable[str] | None = None,
        prompts: Iterable[str] | None = None,
    ) -> Self:
        """Count a whole log; `models` are enabled and `prompts` active, by default all of it."""
        check_single_votes(battles)
        enabled = battles.models if models is None else models
        active = battles.prompts if prompts is None else prompts
        tally = cls(policy, enabled, active)
        tally.add(battles.models, battles.prompts)
        tally._count(battles)
        return tally

    def add(self, models: Iterable[str] = (), prompts: Iterable[str] = ()) -> None:
        """Number names that are new, disabled and inactive at first, and make room for them."""
        for numbers, names in ((self.models, models), (self.prompts, prompts)):
            for name in names:
                numbers.setdefault(name, len(numbers))
        n, width = len(self.models), len(self.prompts)
        if self.by_prompt.shape == (n, width):
            return
        self.enabled, self.active = grown(self.enabled, n), grown(self.active, width)
        self.outcomes = grown(self.outcomes, len(OUTCOMES), n)
        self.shown, self.exposure, self.aimed = (
            grown(each, n) for each in (self.shown, self.exposure, self.aimed)
        )
        self.met, self.by_pair, self.pair_prompts = (
            grown(each, n, n) for each in (self.met, self.by_pair, self.pair_prompts)
        )
        self.by_prompt = grown(self.by_prompt, n, width)

    @property
    def matchups(self) -> int:
        """The matchups in the rolling window."""
        return len(self._window)

    def show(self, pair: Pair, prompt: int, change: int = 1) -> None:
        """Count a matchup whose vote is awaited, or take it back (-1); prompt -1 is none."""
        sides = list(pair)
        self.shown[sides] += change
        self.exposure[sides] += change
        self.met[pair, pair[::-1]] += change
        self._decide(pair, prompt, change)

    def vote(self, pair: Pair, prompt: int, outcome: int, *, aimed: bool = False) -> None:
        """Count the vote on a matchup that was shown, perhaps to decide the order of the two."""
        if len(self._window) == self.policy.exposure.window:
            oldest, was_aimed = self._window.popleft()
            self.exposure[list(oldest)] -= 1
            self.aimed[list(oldest)] -= was_aimed
        self._window.append((pair, aimed))
        self.outcomes[outcome, pair] += 1
        self.aimed[list(pair)] += aimed
        if outcome >= TIE:
            self._decide(pair, prompt, -1)

    def due(self, roster: Roster, band: Numbers, more: int = 0) -> Floats:
        """Exposures due to each model in the window and `more` matchups to come.

        Votes whose models and contenders are not known count as if they had been these. What
        votes that decide an order show is due besides, to whom they show.
        """
        known = sum(each.matchups for each in self._rosters) + int(self.aimed.sum()) // 2
        target, unknown = np.zeros(len(roster.present)), len(self._window) - known + more
        for each in dict.fromkeys([*self._rosters, roster]):
            now = each is roster
            due = each.target(band if now else band[:0], unknown if now else 0)
            target[: len(due)] += due
        return np.asarray(target + self.aimed)

    @property
    def unnoted(self) -> int:
        """The votes of the window whose models and contenders are not known."""
        return len(self._window) - len(self._noted)

    def note(self, roster: Roster, band: Numbers, ago: int = 1) -> None:
        """Say who could be met and who was a contender in a vote, so many votes ago; votes of the
        window are noted in their order.
        """
        noted = None if self._window[-ago][1] else (roster, band)
        if len(self._noted) == self.policy.exposure.window and (oldest := self._noted.popleft()):
            oldest[0].add(oldest[1], -1)
        if noted:
            roster.add(band)
        self._noted.append(noted)
        self._rosters = [r for r in dict.fromkeys([*self._rosters, roster]) if r.matchups]

    def on_prompts(self, pair: Pair) -> dict[int, int]:
        """Decisive votes of a pair on each prompt that has or had any, with those awaited."""
        if pair not in self._on_prompts:
            self._on_prompts[pair] = _of_pair(self._cells, pair)
        return self._on_prompts[pair]

    def _decide(self, pair: Pair, prompt: int, change: int) -> None:
        both = pair, pair[::-1]
        self.by_pair[both] += change
        if prompt < 0:
            return
        votes = self.on_prompts(pair)
        votes[prompt] = votes.get(prompt, 0) + change
        self.by_prompt[pair, prompt] += change
        if votes[prompt] == (change > 0):  # the first vote there has come, or the last has gone
            self.pair_prompts[both] += change

    def _count(self, battles: BattleLog) -> None:
        """Count every vote of a log at once, where none was counted before."""
        shape, n = self.by_prompt.shape, len(self.models)
        numbers = np.array([self.models[name] for name in battles.models], np.int64)
        a, b = numbers[battles.a], numbers[battles.b]
        low, high = np.minimum(a, b), np.maximum(a, b)
        recent = replay_order(battles)[-self.policy.exposure.window :]
        aimed = aimed_votes(battles)[recent]
        pairs = zip(low[recent].tolist(), high[recent].tolist(), strict=True)
        self._window.extend(zip(pairs, aimed.tolist(), strict=True))
        self.exposure, self.aimed = (
            np.bincount(np.append(low[rows], high[rows]), minlength=n)
            for rows in (recent, recent[aimed])
        )
        outcome = np.tile(battles.outcome.astype(np.int64), 2)
        self.outcomes = _table(outcome, np.append(low, high), self.outcomes.shape)
        self.shown, self.met = self.outcomes.sum(axis=0), _symmetric(low, high, n)
        decided = np.flatnonzero(battles.decisive())
        low, high = low[decided], high[decided]
        self.by_pair = _symmetric(low, high, n)
        if battles.question_id is None:
            return
        numbers = np.array([self.prompts[name] for name in battles.prompts] + [-1], np.int64)
        prompt = numbers[battles.question_id.codes[decided]]
        low, high, prompt = (each[prompt >= 0] for each in (low, high, prompt))
        self.by_prompt = _table(np.append(low, high), np.tile(prompt, 2), shape)
        self._cells = _cells(low, high, prompt, shape)
        self.pair_prompts = _symmetric(self._cells[0], self._cells[1], n)


def check_single_votes(battles: BattleLog) -> None:
    """Refuse a log whose rows stand for more or less than one vote each."""
    if np.any(battles.weights() != 1.0):
        raise DataError("coverage counts single votes and cannot use weights or pair counts")


def grown(array: NDArray[Any], *shape: int, rest: bool = False) -> NDArray[Any]:
    """An array as the first corner of a larger one; the rest is zeros, or ones."""
    larger = (np.ones if rest else np.zeros)(shape, array.dtype)
    larger[tuple(map(slice, array.shape))] = array
    return larger


def _cells(low: Counts, high: Counts, prompt: Counts, shape: tuple[int, int]) -> Counts:
    """Votes by pair and prompt where there are any, sorted: low, high, prompt and number."""
    codes, votes = np.unique((low * shape[0] + high) * shape[1] + prompt, return_counts=True)
    pairs, prompts = np.divmod(codes, max(1, shape[1]))
    return np.stack([*np.divmod(pairs, max(1, shape[0])), prompts, votes])


def _of_pair(cells: Counts, pair: Pair) -> dict[int, int]:
    """The votes of one pair in such cells, by prompt."""
    for side, number in enumerate(pair):
        cells = cells[:, slice(*np.searchsorted(cells[side], (number, number + 1)))]
    return dict(zip(cells[2].tolist(), cells[3].tolist(), strict=True))


def _table(rows: Counts, columns: Counts, shape: tuple[int, int]) -> Counts:
    flat = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1])
    return flat.reshape(shape)


def _symmetric(low: Counts, high: Counts, size: int) -> Counts:
    table = _table(low, high, (size, size))
    return table + table.T


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureFairness:
    """One model's exposure in the rolling window (7.1).

    `equal_target` is the policy's 2W/M. `target`, which fairness is judged against, is the same
    unless the due is adjusted: where lanes do not allow equal exposure of so many models, and for
    models that joined within the window. `deviation` is relative to the target; the exposure is
    fair where it lies `within` the tolerance of that.
    """

    model: str
    exposure: int
    target: float
    equal_target: float
    tolerance: float
    deviation: float | None
    within: bool
    within_equal: bool


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
    by_prompt
        Decisive votes of a model on a prompt.
    by_pair, pair_prompts
        Decisive votes between two models, and on how many prompts they were cast.
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
        both = np.ix_(row, row)
        by_pair, pair_prompts = tally.by_pair[both], tally.pair_prompts[both]
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

    def index(self, model: str) -> int:
        """The row of a model."""
        if model not in self.models:
            raise KeyError(f"{model!r} is not covered; covered: {', '.join(self.models)}")
        return self.models.index(model)

    def pair(self, first: str, second: str) -> PairCoverage:
        """How well two models are compared (4)."""
        i, j = self.index(first), self.index(second)
        votes, prompts = int(self.by_pair[i, j]), int(self.pair_prompts[i, j])
        return PairCoverage.of(self.policy, votes, prompts)

    def adjacent(self, order: Sequence[str]) -> list[dict[str, Any]]:
        """A row per two neighbours in an order, best first: their decisive votes, on how many
        prompts, and whether that is the floor of comparisons (7.3).
        """
        rows = ((above, below, *self.pair(above, below)) for above, below in pairwise(order))
        return [
            {"above": a, "below": b, "votes": votes, "prompts": prompts, "meets_floor": score >= 1}
            for a, b, votes, prompts, score in rows
        ]

    def prompt_coverage(self) -> NDArray[np.float64]:
        """Share of active prompts on which each model has the floor of decisive votes (7.2)."""
        covered = self.by_prompt[:, self.active] >= self.policy.prompts.floor
        return np.asarray(covered.sum(axis=1) / max(1, int(self.active.sum())))

    def prompt_deficits(self, band: Collection[str] = ()) -> Counts:
        """Decisive votes that each model lacks on each prompt, 0 for inactive prompts.

        Models of the contender band are held to the top-band target, others to the floor.
        """
        rule = self.policy.prompts
        wanted = np.where([m in band for m in self.models], rule.top_target, rule.floor)
        lacking = np.maximum(0, wanted[:, None] - self.by_prompt)
        return np.asarray(np.where(self.active[None, :], lacking, 0).astype(np.int64))

    def fairness(self, due: Mapping[str, float]) -> tuple[ExposureFairness, ...]:
        """Every enabled model's exposure in the window beside what it is due (7.1): what enabled
        models were shown, shared out among them by these parts, and equally.
        """
        enabled = [model for i, model in enumerate(self.models) if self.enabled[i]]
        exposure = self.exposure[self.enabled]
        parts = np.array([(due.get(model, 0.0), 1.0) for model in enabled]).reshape(-1, 2)
        parts *= float(exposure.sum()) / np.maximum(1e-9, parts.sum(axis=0))
        tolerance = self.policy.exposure.tolerance
        near = np.abs(exposure[:, None] - parts) <= tolerance * parts + 1e-9
        rows = zip(enabled, exposure.tolist(), parts.tolist(), near.tolist(), strict=True)
        return tuple(
            ExposureFairness(
                model=model,
                exposure=shown,
                target=target,
                equal_target=equal,
                tolerance=tolerance,
                deviation=shown / target - 1 if target else None,
                within=within,
                within_equal=within_equal,
            )
            for model, shown, (target, equal), (within, within_equal) in rows
        )

    def standings(self, ratings: Mapping[str, GlickoState]) -> list[Standing]:
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
        gaps = [self.pair(*two).score for two in pairwise(order)]
        beside = [gaps[max(0, i - 1) : i + 1] for i in range(len(order))]
        top = self.policy.contenders.band
        return {m: sum(s) / len(s) for m, s in zip(order[:top], beside, strict=False) if s}
