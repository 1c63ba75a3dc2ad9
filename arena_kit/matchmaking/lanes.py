"""The lanes: each proposes pairs to match next, best first (6.1 to 6.4), and the matchups that they
become.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from math import log as ln
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import B_WINS, BOTH_BAD, OUTCOMES, TIE, Battle, Outcome
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.files import ArenaError
from arena_kit.policy.constants import DECIDES, LOOKS, Policy, PromptFloors
from arena_kit.policy.coverage import Tally
from arena_kit.policy.exposure import Bools, Counts, Floats, Numbers
from arena_kit.rating.base import Ratings, expected_share, rated_or_none
from arena_kit.rating.bradley_terry.clusters import CLAIMS_ABOUT
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.claims import claims
from arena_kit.rating.claims.power import chance_decided

_MANY = 100_000  # votes of one pair beyond any arena
_CHUNK = 1024  # prompts compared at a time
_FAR = 1e6  # sets those who come first apart from all others
_ANCHOR = 0.05, 2.0  # weights of a contender far above its exposure target, and far below it
_AHEAD = 0.5  # tolerances by which one may be above its target and still go first for a floor
_JOINED = 3.0  # tolerances by which all may be above their targets because others have joined


class MatchmakingError(ArenaError, ValueError):
    """A matchup that cannot be served, or does not wait for a vote; the message says why."""


class Lane(StrEnum):
    """What a matchup is for (6); before the lanes are turned on, all are `BASELINE` (2, 12).

    `DECIDE` is none of the policy as written: docs/arena.md.
    """

    COVERAGE = "coverage"
    CONTENDER = "contender"
    UNCERTAINTY = "uncertainty"
    EXPLORATION = "exploration"
    DECIDE = DECIDES
    BASELINE = "baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matchup:
    """Two models to be compared on a prompt, on the sides given, and why.

    `matchup_id` is random, so a voter may see it. `lane` served the matchup; `fallen_through`
    are the lanes tried before it, which had nothing to serve, the drawn one first.
    """

    matchup_id: str
    model_a: str
    model_b: str
    prompt: str
    lane: Lane
    reason: str
    fallen_through: tuple[Lane, ...] = ()
    session: str | None = None

    @property
    def drawn(self) -> Lane:
        """The lane that was drawn by weight."""
        return self.fallen_through[0] if self.fallen_through else self.lane

    def battle(self, outcome: Outcome, **more: Any) -> Battle:
        """The battle that this matchup becomes with its vote."""
        return Battle(
            model_a=self.model_a,
            model_b=self.model_b,
            winner=outcome,
            question_id=self.prompt,
            lane=str(self.lane),
            session=self.session,
            **more,
        )


class Proposal(NamedTuple):
    """A pair that a lane would match, why, and what a vote on each prompt would be worth.

    Without `worth` the pair's least covered prompt is taken. A `prompt` is asked as it is,
    under no rule against repeats.
    """

    first: int
    second: int
    reason: str
    worth: Floats | None = None
    prompt: int | None = None


class Cast(NamedTuple):
    """A vote as it was cast, in numbers: both models, the prompt (-1: none) and the outcome. What
    tells nothing of the two, both-bad or contradictory, has the outcome both-bad.
    """

    first: int
    second: int
    prompt: int
    outcome: int


class OpenPair(NamedTuple):
    """Two neighbours whose order is open, by number.

    `gap` ± `half` is the interval at the level that decides neighbours; `more` is how many votes
    between the two would decide them if the gap stays as it is.
    """

    above: int
    below: int
    gap: float
    half: float
    more: float

    @property
    def reason(self) -> str:
        """Why the two should meet."""
        known = self.more < _MANY
        votes = f"about {float(f'{self.more:.2g}'):,.0f}" if known else f"over {_MANY:,}"
        gap = f"gap {self.gap:.0f} ± {self.half:.0f}"
        return f"unresolved adjacent pair, {gap}; {votes} more votes decide it"


class _Fit(NamedTuple):
    """What the last fit says: models with an interval, best first, and what holds of each two."""

    order: Numbers
    gap: Floats
    error: Floats
    settled: Bools
    worth: Floats


class OpenNeighbours:
    """The votes so far, and which neighbours at the top they leave open.

    The votes are counted by pair and outcome, and Bradley–Terry is fitted to them anew every so
    many votes, always at the same ones: an arena opened again on its votes sees what one that went
    on sees.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._cluster = CLAIMS_ABOUT[policy.claims_about][-1]
        self._counts: Counter[Cast] = Counter()
        self._votes = 0
        self._fit: _Fit | None = None

    def add(self, votes: Sequence[Cast] | Counts) -> None:
        """Count votes in their order, a row each, and look at them when it is time; if a lane is to
        use it.
        """
        if not self._policy.decide_share:
            return
        rows = np.asarray(votes, np.int64).reshape(-1, len(Cast._fields))
        every = self._policy.decide.refresh
        cut = max(0, (self._votes + len(rows)) // every * every - self._votes)
        if cut:
            self._count(rows[:cut])
            self._fit = self._refit()
        if cut < len(rows):
            self._count(rows[cut:])

    def open_pairs(self, enabled: Bools) -> list[OpenPair]:
        """The open neighbours among the best of these models, closest to being decided first."""
        if self._fit is None:
            return []
        top = self._fit.order[enabled[self._fit.order]][: self._policy.contenders.band]
        found = [self._open(self._fit, *two) for two in pairwise(top.tolist())]
        return sorted((pair for pair in found if pair), key=lambda pair: pair.more)

    def _open(self, fit: _Fit, above: int, below: int) -> OpenPair | None:
        """Two neighbours, None where they are decided or equivalent, or hopeless; or where votes
        that all say the same tell nothing of their spread.
        """
        rule, at, level = self._policy.decide, (above, below), claims.neighbour_score(LOOKS)
        gap, variance, worth = float(fit.gap[at]), float(fit.error[at]) ** 2, fit.worth[at]
        if fit.settled[at] or not variance > 0:
            return None
        shrinks = 1 / (1 + rule.reach * worth * variance)
        if chance_decided(gap, variance, shrinks, LOOKS) < rule.hopeless_below:
            return None
        needed = (level / gap) ** 2 if gap > 0 else np.inf
        more = max(1.0, (needed - 1 / variance) / worth)
        return OpenPair(above, below, gap, level * sqrt(variance), more)

    def _count(self, votes: Counts) -> None:
        self._votes += len(votes)
        first, second, prompt, outcome = votes.T
        low, high = np.minimum(first, second), np.maximum(first, second)
        winner = np.where((first > second) & (outcome <= B_WINS), 1 - outcome, outcome)
        asked = 1 + (prompt if self._cluster == "question" else np.full(len(votes), -1))
        shape = (1 + int(high.max()),) * 2 + (1 + int(asked.max()), len(OUTCOMES))
        cells = np.ravel_multi_index((low, high, asked, winner), shape)
        codes, times = np.unique(cells, return_counts=True)
        columns = (each.tolist() for each in (*np.unravel_index(codes, shape), times))
        for i, j, cluster, won, n in zip(*columns, strict=True):
            self._counts[Cast(i, j, cluster - 1, won)] += n

    def _refit(self) -> _Fit | None:
        """What the votes say now, None where they give no ratings."""
        counted = sorted((each, n) for each, n in self._counts.items() if each.outcome != BOTH_BAD)
        if not counted:
            return None
        log = _log(np.array([(*each, n) for each, n in counted], np.int64))
        ratings = rated_or_none(BradleyTerry(cluster=self._cluster, looks=LOOKS), log)
        if ratings is None:
            return None
        ties = float(log.weights()[log.outcome == TIE].sum()) / ratings.n_battles
        return _fit_of(ratings, self._policy, ties, ratings.n_battles / self._votes)


def _log(cells: Counts) -> BattleLog:
    """Votes as rows of models, prompt, outcome and number, under names that are their numbers."""
    first, second, prompt, outcome, times = cells.T
    names = [None if each < 0 else f"{each:06d}" for each in prompt.tolist()]
    return BattleLog(
        models=tuple(f"{i:06d}" for i in range(1 + int(second.max()))),
        a=first.astype(np.int32), b=second.astype(np.int32), outcome=outcome.astype(np.int8),
        weight=times.astype(float), question_id=Labels.of(names) if any(names) else None,
    )  # fmt: skip


def _fit_of(ratings: Ratings, policy: Policy, ties: float, counted: float) -> _Fit:
    """What ratings say of every two models; `ties` of the votes that count are ties, and so many
    of all votes are `counted`.
    """
    numbers = np.array([int(model) for model in ratings.models])
    n = 1 + int(numbers.max())
    known = [int(row.model) for row in ratings.ratings if row.placed]
    rating = ratings.values()
    gap = rating[:, None] - rating[None, :]
    unit = ln(10) / ratings.settings["scale"]
    spread = 1 / (4 * np.cosh(unit * gap / 2) ** 2)
    worth = counted * unit**2 * spread**2 / np.maximum(spread - ties / 4, 1e-3)
    clear = claims.decided(ratings)
    settled = clear | clear.T | claims.equivalent(ratings, policy.publication.margin)
    tables = (gap, claims.gap_errors(ratings), settled, worth)
    return _Fit(np.array(known, np.intp), *(_spread(each, numbers, n) for each in tables))


def _spread(table: NDArray[Any], numbers: Numbers, n: int) -> NDArray[Any]:
    """A table of some models as one of all."""
    larger = np.zeros((n, n), table.dtype)
    larger[np.ix_(numbers, numbers)] = table
    return larger


class PromptGaps:
    """The part of its floor or target that each model lacks on each prompt it can be shown on.

    Models of the contender band are held to the target (7.2). `by_prompt` are the decisive votes
    of each model on each prompt, `can` says where a model may be shown, and `active` which prompts
    count. Whoever changes the votes of a model says so with `forget`.
    """

    def __init__(self, rule: PromptFloors, can: Bools, active: Bools, by_prompt: Counts) -> None:
        self._rule, self._can, self._active, self._by_prompt = rule, can, active, by_prompt
        n = len(by_prompt)
        self._never = rule.top_target + 1  # the level where a model cannot be shown
        wanted = rule.floor, rule.top_target
        self._lacks = np.stack([_lacks(each, self._never) for each in wanted])
        self._levels = np.zeros(by_prompt.shape, np.min_scalar_type(self._never))
        self._known, self._in_band = np.zeros(n, bool), np.zeros(n, np.intp)
        self._total, self._most = np.zeros(n), np.zeros(n)
        self._covered = np.zeros(n, np.int64)

    def forget(self, models: Iterable[int]) -> None:
        """Work these models out anew at the next update."""
        self._known[list(models)] = False

    def update(self, band: NDArray[np.intp]) -> None:
        """Take in what changed since the last update, with this contender band."""
        in_band = np.zeros_like(self._in_band)
        in_band[band] = 1
        self._known &= in_band == self._in_band
        self._in_band = in_band
        for model in np.flatnonzero(~self._known).tolist():
            votes = self._by_prompt[model]
            level = np.minimum(votes, self._rule.top_target)
            self._levels[model] = np.where(self._can[model], level, self._never)
            lack = self.of(model)
            self._total[model] = np.maximum(lack, 0).sum()
            self._most[model] = lack.max(initial=-np.inf)
            self._covered[model] = np.count_nonzero((votes >= self._rule.floor) & self._active)
        self._known[:] = True

    def of(self, model: int) -> Floats:
        """What a model lacks on each prompt, -inf where it cannot be shown."""
        return np.asarray(self._lacks[self._in_band[model]].take(self._levels[model]))

    @property
    def total(self) -> Floats:
        """What each model lacks on all prompts together, as a share of them."""
        return np.asarray(self._total / max(1, self._by_prompt.shape[1]))

    @property
    def coverage(self) -> Floats:
        """The share of active prompts on which each model has the floor (7.2)."""
        return np.asarray(self._covered / np.count_nonzero(self._active))

    def most_with(self, model: int, mates: Bools) -> Floats:
        """The most that the model and each of its mates lack together on one prompt.

        Prompts on which the model lacks most come first, and none is looked at any more once no
        mate can lack more.
        """
        most = np.full(len(mates), -np.inf)
        for lack, prompts in self._falling(model):
            others = np.flatnonzero(mates & (most < lack + self._most))
            if not len(others):
                break
            levels = self._levels.take(prompts, axis=1)[others]
            best = self._lacks[self._in_band[others, None], levels].max(axis=1)
            most[others] = np.maximum(most[others], lack + best)
        return most

    def _falling(self, model: int) -> Iterator[tuple[float, NDArray[np.intp]]]:
        """What the model lacks, the most first, and some of the prompts on which it does."""
        lacks, levels = self._lacks[self._in_band[model]], self._levels[model]
        enough = int(np.flatnonzero(lacks == 0)[0])
        for n in range(enough + 1):
            same = levels == n if n < enough else (levels >= n) & (levels < self._never)
            prompts = same.nonzero()[0]
            for start in range(0, len(prompts), _CHUNK):
                yield float(lacks[n]), prompts[start : start + _CHUNK]


def _lacks(wanted: int, never: int) -> Floats:
    """The part of the wanted votes that is lacking at each level, which are votes but the last."""
    return np.append(np.maximum(0.0, 1 - np.arange(never) / wanted), -np.inf)


@dataclass(slots=True, kw_only=True)
class Table:
    """What the lanes look at when the next matchup is drawn, in numbers of models and prompts: what
    holds until models change, and what is set anew for each draw (from `rng` on).

    All counts include the matchups that wait for their vote.

    Parameters
    ----------
    tally
        Votes counted: of models, of pairs, on prompts.
    order, band
        Enabled models by conservative score, best first, and the contenders among them.
    mates, can, shared
        Which two models may meet, which model may be shown on which prompt, and on how many
        prompts two models both may.
    asked
        The numbers of the prompts that two models or more may be shown on.
    gaps, open_neighbours
        What each model lacks on prompts, and which orders of the top are open.
    due
        Times that each model is due in the rolling window.
    among, only
        Which prompts may be asked in this draw, and which of them are tried now.
    want
        How far the exposure lies below its due, in tolerances: above 1 a model is below the
        lower bound, under -1 it is above the upper one (7.1).
    """

    policy: Policy
    tally: Tally
    names: list[str]
    mates: Bools
    can: Bools
    asked: NDArray[np.intp]
    shared: Counts
    open_neighbours: OpenNeighbours
    gaps: PromptGaps
    rng: np.random.Generator = field(init=False)
    among: Bools = field(init=False)
    only: Bools = field(init=False)
    rating: Floats = field(init=False)
    rd: Floats = field(init=False)
    order: NDArray[np.intp] = field(init=False)
    band: NDArray[np.intp] = field(init=False)
    due: Floats = field(init=False)
    want: Floats = field(init=False)

    def best_first(self, score: Floats, among: Bools) -> list[int]:
        """Models by score; equals at random.

        Far above `_FAR` the random part is rounded away at times, and then the order of numbers
        decides: sorting must be stable, or the order would depend on the processor.
        """
        key = score + 1e-9 * self.rng.random(len(score))
        ranked = np.where(among, -key, np.inf).argsort(kind="stable")
        models: list[int] = ranked[: np.count_nonzero(among)].tolist()
        return models

    def drawn(self, weights: Floats, among: NDArray[np.intp]) -> list[int]:
        """Models of `among` in a random order, each next one drawn by its weight."""
        keys = self.rng.standard_exponential(len(among)) / weights
        models: list[int] = among[keys.argsort(kind="stable")].tolist()
        return models


def propose_coverage(table: Table) -> Iterator[Proposal]:
    """The model that lacks most, with the opponent and prompt that fill most gaps (6.1, 7.1).

    What a model lacks is exposure in the window, votes on prompts and votes against
    opponents. Models below the lower bound of exposure come first, furthest below first. An
    opponent above its target counts less; but one below it does not count more, else
    newcomers would mostly meet each other. For the same reason, where most models are above
    their targets because others have just joined, only those further above count less.
    """
    others = _opponent_lack(table)
    weight = table.policy.exposure.weight
    fair, usual = weight * table.want, np.median(table.want[table.order])
    shown_often = np.minimum(0.0, fair - weight * np.clip(usual, -_JOINED, 0))
    total = fair + table.gaps.total + others.sum(axis=1) / len(others)
    first = np.where(table.want > 1, _FAR + fair, total)
    for anchor in table.best_first(first, np.logical_or.reduce(table.mates, axis=1)):
        mates, gaps = table.mates[anchor], table.gaps
        gain = shown_often + others[anchor] + gaps.most_with(anchor, mates)
        reason, lack = _coverage_reason(table, anchor), gaps.of(anchor)
        for other in table.best_first(gain, mates):
            yield Proposal(anchor, other, reason, lack + gaps.of(other))


def _opponent_lack(table: Table) -> Floats:
    """The part of an equal share of its votes that each model lacks against each opponent."""
    met = table.tally.by_pair * table.mates
    mates = np.maximum(1, table.mates.sum(axis=1))
    equal = np.maximum(1e-9, met.sum(axis=1) / mates)
    return np.asarray(np.maximum(0.0, 1 - met / equal[:, None]) * table.mates)


def _coverage_reason(table: Table, anchor: int) -> str:
    rule, due = table.policy.exposure, table.due[anchor]
    name, exposure = table.names[anchor], table.tally.exposure[anchor]
    shown = f"{name} was shown {exposure} times, target {due:.1f}"
    if table.want[anchor] > 1:
        return f"{shown}: below the bound of {due * (1 - rule.tolerance):.1f}"
    return f"{shown}: largest deficit of exposure, prompts and opponents"


def propose_contender(table: Table) -> Iterator[Proposal]:
    """Neighbours at the top below the floor of comparisons first (7.3), then close rivals (6.2).

    Contenders are drawn as anchors by how far they are below their exposure target (7.1).
    """
    yield from _below_floor(table)
    band, rule = table.band, table.policy.contenders
    for anchor in table.drawn(np.clip(1 + table.want[band], *_ANCHOR), band):
        usual = (_neighbours, _close_contenders, _challengers)
        first = bisect((rule.nearest, rule.nearest + rule.other), table.rng.random())
        kinds = [usual[first], *(kind for kind in usual if kind is not usual[first])]
        place = table.order.tolist().index(anchor)
        for kind in kinds:
            relation, rivals = kind(table, place)
            reason = f"rank {place + 1} meets {relation}"
            for other in rivals:
                if table.mates[anchor, other]:
                    yield Proposal(anchor, other, reason)


def _below_floor(table: Table) -> Iterator[Proposal]:
    """Adjacent contenders without the floor, furthest from it first.

    Where a pair shares fewer prompts than the floor asks for, all that it shares suffice. A
    pair that has met as often as the policy has patience for waits its turn like others, and so
    does one of which a model has been shown too often (7.1): whoever enters the band has a pair
    without the floor at every rank it passes. Too often is counted in exposures of a whole
    window, as a model that has just joined is due hardly any: each one is many per cent of that.
    """
    rule, pairs = table.policy.pairs, (table.band[:-1], table.band[1:])
    votes, prompts = table.tally.by_pair[pairs], table.tally.pair_prompts[pairs]
    needed = np.minimum(rule.prompts, table.shared[pairs])
    lacking = ((votes < rule.votes) | (prompts < needed)) & (table.tally.met[pairs] < rule.patience)
    fair, due = table.policy.exposure, table.due[table.band]
    slack = _AHEAD * fair.tolerance * np.maximum(due, 2 * fair.window / len(table.order))
    ahead = table.tally.exposure[table.band] - due > slack
    lacking &= ~(ahead[:-1] | ahead[1:])
    if not lacking.any():
        return
    progress = np.minimum(votes / rule.votes, prompts / np.maximum(1, needed))
    for n in progress.argsort(kind="stable").tolist():
        if lacking[n] and needed[n]:
            seen = f"{votes[n]}/{rule.votes} votes on {prompts[n]}/{needed[n]} prompts"
            above, below = table.band[n : n + 2].tolist()
            yield Proposal(above, below, f"ranks {n + 1} and {n + 2} have {seen}")


def _neighbours(table: Table, place: int) -> tuple[str, list[int]]:
    """One above and one below, the less shown of the two first."""
    around = table.order[max(0, place - 1) : place + 2].tolist()
    around.remove(int(table.order[place]))
    return "the adjacent model in rank", sorted(around, key=lambda i: -table.want[i])


def _close_contenders(table: Table, place: int) -> tuple[str, list[int]]:
    """Contenders that are no neighbours in rank, the closest rating first."""
    others = [i for n, i in enumerate(table.band.tolist()) if abs(n - place) > 1]
    rating = table.rating[table.order[place]]
    others.sort(key=lambda i: abs(table.rating[i] - rating))
    return "the closest-rated other contender", others


def _challengers(table: Table, _place: int) -> tuple[str, list[int]]:
    """Models ranked right below the band, at random."""
    rule = table.policy.contenders
    below = table.order[rule.band : rule.band + rule.challenger_depth]
    return "a challenger from below the contender band", table.rng.permutation(below).tolist()


def propose_uncertainty(table: Table) -> Iterator[Proposal]:
    """A model with high RD and low coverage, with the opponent who tells most about it (6.3)."""
    coverage = table.gaps.coverage
    weights = table.rd * (2 - coverage)
    for anchor in table.drawn(weights[table.order], table.order):
        expected = expected_share(table.rating[anchor] - table.rating)
        votes = table.tally.by_pair[anchor]
        tells = 1 - 2 * np.abs(expected - 0.5) + table.policy.coverage_bonus / (votes + 1)
        own = f"RD {table.rd[anchor]:.1f} at coverage {coverage[anchor]:.2f}"
        for other in table.best_first(tells, table.mates[anchor]):
            score = f"expected score {expected[other]:.2f} after {votes[other]} votes"
            yield Proposal(anchor, other, f"{own}; {score}")


def propose_exploration(table: Table) -> Iterator[Proposal]:
    """Two models at random, the less shown the likelier (6.4)."""
    shown = table.tally.shown
    weights = 1 / (shown + 1.0)
    for first in table.drawn(weights[table.order], table.order):
        mates = table.mates[first].nonzero()[0]
        for second in table.drawn(weights[mates], mates):
            reason = f"drawn at random, shown {shown[first]} and {shown[second]} times"
            yield Proposal(first, second, reason)


def propose_decide(table: Table) -> Iterator[Proposal]:
    """Open neighbours at the top, closest to being decided first.

    None while any model is outside its bounds of exposure (7.1): the turn passes to the coverage
    lane, which has only a part of the window to bring it back.
    """
    if np.abs(table.want[table.order]).max() > 1:
        return
    for pair in table.open_neighbours.open_pairs(table.tally.enabled):
        yield Proposal(pair.above, pair.below, pair.reason)


def propose_baseline(table: Table) -> Iterator[Proposal]:
    """The scheme before the lanes (2): a prompt at random, then two models, the less shown the
    likelier.
    """
    asked = table.asked[table.only[table.asked]]
    if not len(asked):
        return
    prompt = int(asked[table.rng.integers(len(asked))])
    among = table.can[:, prompt].nonzero()[0]
    shown = table.tally.shown
    first, second = table.drawn(1 / (shown[among] + 1.0), among)[:2]
    reason = f"a prompt at random; shown {shown[first]} and {shown[second]} times"
    yield Proposal(first, second, reason, prompt=prompt)


PROPOSE: dict[Lane, Callable[[Table], Iterator[Proposal]]] = {
    Lane.COVERAGE: propose_coverage,
    Lane.CONTENDER: propose_contender,
    Lane.UNCERTAINTY: propose_uncertainty,
    Lane.EXPLORATION: propose_exploration,
    Lane.DECIDE: propose_decide,
    Lane.BASELINE: propose_baseline,
}


def lane_weights(policy: Policy) -> dict[Lane, float]:
    """How often each lane is drawn (6); in the shadow there are none yet (12)."""
    if not policy.phase.uses_lanes:
        return {Lane.BASELINE: 1.0}
    return {Lane(name): share for name, share in policy.lane_shares.items()}


def best_prompt(
    table: Table, proposal: Proposal, options: NDArray[np.intp], votes: Mapping[int, int]
) -> int:
    """The prompt worth most to the lane, then with the fewest votes of the pair, then with the
    fewest of its two models; equals at random.
    """
    counts, drawn = table.tally.by_prompt, table.rng.random(len(options))
    worth = [] if proposal.worth is None else [-proposal.worth[options]]
    of_both = counts[proposal.first, options] + counts[proposal.second, options]
    best = np.arange(len(options))
    for key in (*worth, _on(options, votes), of_both, drawn):
        best = best[key[best] == key[best].min()]
    return int(options[best[0]])


def _on(options: NDArray[np.intp], votes: Mapping[int, int]) -> Counts:
    """The votes on each of these prompts."""
    found: Counts = np.zeros(len(options), np.int64)
    prompts = np.fromiter(votes, np.intp, len(votes))
    place = np.minimum(np.searchsorted(options, prompts), len(options) - 1)
    there = options[place] == prompts
    found[place[there]] = np.fromiter(votes.values(), np.int64, len(votes))[there]
    return found


def explored_prompt(table: Table, proposal: Proposal, options: NDArray[np.intp]) -> int:
    """Any prompt on which one of the two lacks its floor, or any at all (6.4)."""
    counts = table.tally.by_prompt
    fewest = np.minimum(counts[proposal.first, options], counts[proposal.second, options])
    short = fewest < table.policy.prompts.floor
    pool = options[short] if short.any() else options
    return int(pool[table.rng.integers(len(pool))])
