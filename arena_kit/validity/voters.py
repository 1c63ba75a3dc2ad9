"""Tests of each voter against the others, with the false-discovery rate controlled over all.

A voter's votes are compared with ratings fitted without them. Each test gives an e-value against
honest taste: its mean is at most 1 for an honest voter, at any time at which one looks. The
weighted mean over tests goes through e-BH (Wang and Ramdas 2022), so that of the flagged voters
at most `level` are honest, on average. See design/voter-tests.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.rating.base import RatingError, check_connected
from arena_kit.rating.bradley_terry.bootstrap import refitted
from arena_kit.rating.bradley_terry.likelihood import TIE_MODELS, Cells, Pairs, fitted
from arena_kit.rating.bradley_terry.method import BradleyTerry, one_thread

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.intp]

#: Shifts in log odds; at the ends nearly every vote goes one way.
GRID: Floats = np.linspace(-6, 6, 49)
#: The largest spread that is tried: where it is the estimate, the votes do not bound the spread.
MAX_SPREAD = 3.0
_SPREADS = np.geomspace(0.15, MAX_SPREAD, 25)
_CENTERS = np.linspace(-1, 1, 21)
_OUTLIERS = 0.01  # share of groups that need not be honest while the spread is estimated
_LIKELIHOOD_DROP = 1.92  # half the 95 % quantile of chi-squared with one degree of freedom
_CHUNK = 1 << 15  # rows worked on at a time
_MAX_GROUPS = 10_000  # that the spread is estimated from


def uniform(some: Bools) -> Floats:
    """Equal weights on some shifts of the grid."""
    return np.asarray(some / some.sum())


#: Alternatives: any shift to one side, half of the weight on one that leaves hardly a vote to the
#: other.
UPWARDS: Floats = 0.5 * uniform(GRID > 0) + 0.5 * uniform(GRID[-1] <= GRID)
EITHER_WAY: Floats = 0.5 * UPWARDS + 0.5 * UPWARDS[::-1]


@dataclass(frozen=True, slots=True)
class NullShifts:
    """The null hypothesis: shifts of honest groups are normal, with this center and spread."""

    center: float
    spread: float

    @property
    def weights(self) -> Floats:
        """How likely each shift of the grid is."""
        density = np.exp(-0.5 * ((GRID - self.center) / self.spread) ** 2)
        return np.asarray(density / density.sum())


@dataclass(frozen=True, eq=False)
class ShiftLikelihoods:
    """The log-likelihood of every shift of the grid for each group: a row per group of `keys`."""

    keys: Codes
    table: Floats

    @classmethod
    def of(
        cls, keys: Codes, won: Bools, gap: Floats, slope: Floats, weight: Floats
    ) -> ShiftLikelihoods:
        """Votes with log odds `gap` of being won, to which a shift adds `slope` times itself."""
        groups, place = np.unique(keys, return_inverse=True)
        order = np.argsort(place, kind="stable")
        table = np.zeros((len(groups), len(GRID)))
        for start in range(0, len(order), _CHUNK):
            rows = order[start : start + _CHUNK]
            sign = np.where(won[rows], 1.0, -1.0)[:, None]
            odds = sign * (gap[rows, None] + slope[rows, None] * GRID)
            logs = -weight[rows, None] * np.logaddexp(0, -odds)
            first = np.flatnonzero(np.diff(place[rows], prepend=-1))
            table[place[rows[first]]] += np.add.reduceat(logs, first, axis=0)
        return cls(groups, table)

    def marginal(self, weights: Floats) -> Floats:
        """The log-likelihood of each group where shifts have these weights."""
        return np.asarray(self._peak[:, 0] + np.log(self._relative @ weights))

    def log_e_value(self, alternative: Floats, null: NullShifts) -> Floats:
        """The log likelihood ratio of each group: an e-value, whose mean under the null is 1."""
        return self.marginal(alternative) - self.marginal(null.weights)

    def posterior_mean(self, null: NullShifts) -> Floats:
        """The posterior mean of each group's shift."""
        weighted = self._relative * null.weights
        return np.asarray(weighted @ GRID / weighted.sum(axis=1))

    def select(self, rows: Bools) -> ShiftLikelihoods:
        """Some of the groups."""
        return ShiftLikelihoods(self.keys[rows], self.table[rows])

    @cached_property
    def _peak(self) -> Floats:
        return np.asarray(self.table.max(axis=1, keepdims=True))

    @cached_property
    def _relative(self) -> Floats:
        return np.asarray(np.exp(self.table - self._peak))


#: The false discovery rate: the mean share of honest voters among flagged ones, at most.
LEVEL = 0.05
#: Decisive votes from which a voter is tested, and voters from which there are others.
MIN_VOTES, MIN_VOTERS = 10, 3
_MAX_ROUNDS = 6
_MIN_REASON = 1.0  # evidence (log10) from which a test is a reason
#: Votes that follow the ratings less than others' do, down to those that reverse them twice.
_CARELESS: Floats = uniform((GRID < 0) & (GRID >= -3))
#: Words a second above which nobody reads, and seconds below which nobody compares two responses.
_MAX_READING_SPEED, _MIN_SECONDS = 20.0, 3.0
_MIN_HURRIED = 0.05  # share of votes that any honest voter may cast too fast
_HURRY = NullShifts(0.0, 1.0)  # how far honest voters differ in that: assumed, not estimated


class Rule(StrEnum):
    """The tests of a voter: for or against one model, for a side, too fast to have read."""

    PUSH = "push"
    SIDE = "side"
    SPEED = "speed"


_WEIGHTS = {Rule.PUSH: 6.0, Rule.SIDE: 1.0, Rule.SPEED: 1.0}  # what harms most counts most


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One test's e-value against a voter, as log10, with its counts in words; `about` is the model
    that is pushed.
    """

    rule: Rule
    evidence: float
    text: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterTest:
    """One voter: how many votes, the e-value of all tests together (log10), and the reasons, the
    heaviest first. `sharpness` is how closely the votes follow the others' ratings: 1 as theirs
    do, 0 by chance.
    """

    voter: str
    votes: int
    decisive: int
    evidence: float
    flagged: bool
    sharpness: float
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterTests:
    """All voters that were tested, the largest e-value first.

    `needed` is the e-value (log10) from which a voter is flagged; `too_few` voters had too few
    decisive votes, and `unnamed` votes name no voter. `honest` is the null hypothesis of each test.
    """

    tests: tuple[VoterTest, ...]
    level: float
    needed: float
    too_few: int
    unnamed: int
    honest: Mapping[Rule, NullShifts]

    @property
    def flagged(self) -> tuple[VoterTest, ...]:
        """The flagged voters."""
        return tuple(test for test in self.tests if test.flagged)


def voter_tests(
    battles: BattleLog,
    *,
    level: float = LEVEL,
    seconds: Floats | None = None,
    words: Floats | None = None,
) -> VoterTests:
    """Test every voter of a log against the others; raises `RatingError` where nobody can be.

    Votes without a voter count for the ratings alone. `seconds` is how long each vote's responses
    were looked at and `words` how many they have, NaN where that is not known.
    """
    labels = battles.voter
    if labels is None or not (labels.codes >= 0).any():
        raise RatingError("no vote has a voter, so no voter can be tested")
    decisive = np.asarray(battles.decisive() & ~battles.flags())
    tested = _tested(labels, decisive)
    code = np.full(len(labels.names) + 1, -1, np.int64)
    code[tested] = np.arange(len(tested))
    voter = code[labels.codes]
    log, who = battles.select(decisive), voter[decisive]
    ratings = LeaveOneVoterOut(log)

    def round_without(out: Bools) -> _Round:
        """All tests, with ratings and null hypotheses from those who are not `out`."""
        votes = Votes.of(log, who, ratings.gaps(who, np.append(out, False)[who]), ~out)
        rules = [push(votes), side(votes)]
        if seconds is not None and np.isfinite(seconds[voter >= 0]).any():
            rules.append(speed(voter, seconds, words, ~out))
        return _Round.of(votes, rules, level)

    found = round_without(np.zeros(len(tested), bool))
    found = round_without(found.evidence >= -np.log(level))  # without all who would alone
    for _ in range(_MAX_ROUNDS):
        before, found = found, round_without(found.out)
        if np.array_equal(before.out, found.out):
            break
    counts = np.bincount(labels.codes + 1)[1:]
    names = [str(name) for name in labels.names[tested]]
    return VoterTests(
        tests=tuple(found.tests(names, counts[tested])),
        level=level,
        needed=found.needed / np.log(10),
        too_few=int(np.count_nonzero(counts) - len(tested)),
        unnamed=int(np.count_nonzero(labels.codes < 0)),
        honest={each.rule: each.null for each in found.rules},
    )


def e_bh(log_e_values: Floats, level: float) -> tuple[Bools, float]:
    """Who is discovered by the e-BH procedure, and the log e-value that it took."""
    n = len(log_e_values)
    bars = np.log(n / level) - np.log(np.arange(1, n + 1))
    passed = np.flatnonzero(np.sort(log_e_values)[::-1] >= bars)
    needed = float(bars[passed[-1]] if len(passed) else bars[0])
    return np.asarray(log_e_values >= needed), needed


def _tested(labels: Labels, decisive: Bools) -> Codes:
    """The codes of voters with enough decisive votes; refuses where they are too few."""
    counts = np.bincount(labels.codes[decisive] + 1, minlength=len(labels.names) + 1)[1:]
    tested = np.flatnonzero(counts >= MIN_VOTES)
    if len(tested) < MIN_VOTERS:
        raise RatingError(
            f"{len(tested)} voters have at least {MIN_VOTES} decisive votes; the tests need "
            f"{MIN_VOTERS} such voters"
        )
    return tested


def estimate_null(groups: ShiftLikelihoods, alternative: Floats, *, centered: bool) -> NullShifts:
    """Center and spread of honest groups by maximum likelihood; of the spread the upper end of its
    95 % profile-likelihood interval.

    Each group may be an outlier that the `alternative` explains, at a price, so that a few that are
    not honest hardly widen the spread.
    """
    if not len(groups.keys):
        return NullShifts(0.0, MAX_SPREAD)
    every = -(-len(groups.keys) // _MAX_GROUPS)
    groups = groups.select(np.arange(len(groups.keys)) % every == 0)
    usual, outlier = np.log(1 - _OUTLIERS), np.log(_OUTLIERS) + groups.marginal(alternative)
    candidates = [
        NullShifts(float(center), float(spread))
        for center in ([0.0] if centered else _CENTERS)
        for spread in _SPREADS
    ]
    likelihood = {
        null: float(np.logaddexp(usual + groups.marginal(null.weights), outlier).sum())
        for null in candidates
    }
    best = max(candidates, key=likelihood.__getitem__)
    profile = [null for null in candidates if null.center == best.center]
    possible = [n for n in profile if likelihood[n] > likelihood[best] - _LIKELIHOOD_DROP]
    return max(possible, key=lambda null: null.spread)


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """All tests of everyone: the log e-values together, the bar of e-BH, and who passes it."""

    votes: Votes
    rules: list[RuleEvidence]
    evidence: Floats
    needed: float
    out: Bools

    @classmethod
    def of(cls, votes: Votes, rules: list[RuleEvidence], level: float) -> _Round:
        weights = np.array([_WEIGHTS[each.rule] for each in rules])
        logs = np.array([each.log for each in rules]) + np.log(weights / weights.sum())[:, None]
        evidence = np.logaddexp.reduce(logs)
        out, needed = e_bh(evidence, level)
        return cls(votes, rules, evidence, needed, out)

    def tests(self, names: list[str], votes: NDArray[np.intp]) -> Iterator[VoterTest]:
        """A test per voter, the largest e-value first."""
        fits, null = self.votes.sharpness
        sharpness = 1 + fits.posterior_mean(null)
        decisive = np.bincount(self.votes.voter, minlength=len(names))
        for i in np.argsort(-self.evidence, kind="stable").tolist():
            yield VoterTest(
                voter=names[i],
                votes=int(votes[i]),
                decisive=int(decisive[i]),
                evidence=float(self.evidence[i] / np.log(10)),
                flagged=bool(self.out[i]),
                sharpness=float(sharpness[i]),
                reasons=self._reasons(i),
            )

    def _reasons(self, voter: int) -> tuple[Reason, ...]:
        """The tests that speak against a voter, the strongest first."""
        strong = [each for each in self.rules if each.log[voter] >= _MIN_REASON * np.log(10)]
        strong.sort(key=lambda each: -each.log[voter] - np.log(_WEIGHTS[each.rule]))
        return tuple(each.reason(voter) for each in strong)


@dataclass(frozen=True, slots=True)
class RuleEvidence:
    """One test's log e-value for each voter, its null hypothesis, and what it counted of a voter:
    in words, and the model that it is about.
    """

    rule: Rule
    log: Floats
    null: NullShifts
    describe: Callable[[int], tuple[str, str]]

    def reason(self, voter: int) -> Reason:
        """The test's evidence against one voter."""
        text, about = self.describe(voter)
        log10 = float(self.log[voter] / np.log(10))
        return Reason(rule=self.rule, evidence=log10, text=text, about=about)


@dataclass(frozen=True, eq=False)
class Votes:
    """Decisive votes of the voters that are tested: a row per vote, voters as codes from 0.

    `gap` is how far the first model is ahead by ratings without this voter, in log odds; `honest`
    says of each voter whether null hypotheses are estimated from it.
    """

    voter: Codes
    a: Codes
    b: Codes
    won: Bools
    gap: Floats
    weight: Floats
    models: tuple[str, ...]
    honest: Bools

    @classmethod
    def of(cls, log: BattleLog, voter: Codes, gaps: Floats, honest: Bools) -> Votes:
        """Those of a log's votes that have a voter (a code of 0 or more)."""
        rows = voter >= 0
        return cls(
            voter=voter[rows],
            a=log.a[rows].astype(np.int64),
            b=log.b[rows].astype(np.int64),
            won=log.outcome[rows] == A_WINS,
            gap=gaps[rows],
            weight=log.weights()[rows],
            models=log.models,
            honest=honest,
        )

    @cached_property
    def sharpness(self) -> tuple[ShiftLikelihoods, NullShifts]:
        """By how much each voter's log odds are those of the ratings, more or fewer times over."""
        fits = ShiftLikelihoods.of(self.voter, self.won, self.gap, self.gap, self.weight)
        return fits, estimate_null(fits.select(self.honest), _CARELESS, centered=False)


def push(votes: Votes) -> RuleEvidence:
    """A model that wins (or loses) this voter's battles more often than the others' ratings and the
    voter's own sharpness explain. Models weigh by the square of how often they were seen, so that
    one whose battles were sought out counts.
    """
    n = len(votes.models)
    keys = np.concatenate([votes.voter * n + votes.a, votes.voter * n + votes.b])
    won, weight = np.concatenate([votes.won, ~votes.won]), np.tile(votes.weight, 2)
    gap = np.concatenate([votes.gap, -votes.gap])
    gap = gap * _sharpness_elsewhere(votes, keys, won, gap, weight)
    fits = ShiftLikelihoods.of(keys, won, gap, np.ones(len(gap)), weight)
    voter = fits.keys // n
    null = estimate_null(fits.select(votes.honest[voter]), EITHER_WAY, centered=True)
    seen, wins, expected = (
        np.bincount(np.searchsorted(fits.keys, keys), each, len(fits.keys))
        for each in (weight, weight * won, weight * _probability(gap))
    )
    share = seen**2 / np.bincount(voter, seen**2)[voter]
    parts = fits.log_e_value(EITHER_WAY, null) + np.log(share)
    order = np.lexsort((parts, voter))
    strongest = np.zeros(len(votes.honest), np.intp)
    strongest[voter[order]] = order  # the last of a voter stays

    def describe(i: int) -> tuple[str, str]:
        k = strongest[i]
        model, high = votes.models[int(fits.keys[k] % n)], wins[k] >= expected[k]
        counts = _counts("", wins[k], seen[k], expected[k], high=high)
        return f"{model} {'won' if high else 'lost'} {counts}", model

    log = np.full(len(votes.honest), -np.inf)
    np.logaddexp.at(log, voter, parts)
    return RuleEvidence(Rule.PUSH, log, null, describe)


def _sharpness_elsewhere(
    votes: Votes, keys: Codes, won: Bools, gap: Floats, weight: Floats
) -> Floats:
    """How sharply the voter of each row votes in battles without the row's model."""
    fits, null = votes.sharpness
    of_model = ShiftLikelihoods.of(keys, won, gap, gap, weight)
    rest = fits.table[of_model.keys // len(votes.models)] - of_model.table
    elsewhere = 1 + ShiftLikelihoods(of_model.keys, rest).posterior_mean(null)
    return np.asarray(elsewhere[np.searchsorted(of_model.keys, keys)])


def side(votes: Votes) -> RuleEvidence:
    """One side that wins more often than the models on it explain, to this voter's sharpness."""
    sharpness, spread = votes.sharpness
    gap = votes.gap * (1 + sharpness.posterior_mean(spread))[votes.voter]
    one = np.ones(len(votes.won))
    fits = ShiftLikelihoods.of(votes.voter, votes.won, gap, one, votes.weight)
    null = estimate_null(fits.select(votes.honest), EITHER_WAY, centered=False)
    left, expected, count = (
        np.bincount(votes.voter, votes.weight * each, len(votes.honest))
        for each in (votes.won, _probability(gap + null.center), one)
    )

    def describe(i: int) -> tuple[str, str]:
        high = left[i] >= expected[i]
        counts = _counts("", left[i], count[i], expected[i], high=high)
        return f"the {'left' if high else 'right'} side won {counts}", ""

    return RuleEvidence(Rule.SIDE, fits.log_e_value(EITHER_WAY, null), null, describe)


def speed(voter: Codes, seconds: Floats, words: Floats | None, honest: Bools) -> RuleEvidence:
    """Votes that come faster than anybody can read, more of them than others have. Where the words
    are not known, any vote in under three seconds is too fast.
    """
    known = np.flatnonzero((voter >= 0) & np.isfinite(seconds))
    least = np.full(len(known), np.nan) if words is None else words[known] / _MAX_READING_SPEED
    least = np.where(np.isfinite(least), least, _MIN_SECONDS)
    who, one = voter[known], np.ones(len(known))
    fast = seconds[known] < least
    hurried, count = (np.bincount(who, each, len(honest)) for each in (fast, one))
    shares = (hurried / np.maximum(1, count))[honest & (count > 0)]
    usual = float(np.clip(np.median(shares), _MIN_HURRIED, 1 - _MIN_HURRIED))
    fits = ShiftLikelihoods.of(who, fast, np.log(usual / (1 - usual)) * one, one, one)
    log = np.zeros(len(honest))
    log[fits.keys] = fits.log_e_value(UPWARDS, _HURRY)

    def describe(i: int) -> tuple[str, str]:
        what = " votes were faster than the responses can be read"
        return _counts(what, hurried[i], count[i], count[i] * usual, high=True), ""

    return RuleEvidence(Rule.SPEED, log, _HURRY, describe)


def _probability(log_odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-log_odds)))


def _counts(what: str, n: float, of: float, expected: float, *, high: bool) -> str:
    """Observed and expected counts in words, or those of the opposite where there are few."""
    if not high:
        n, expected = of - n, of - expected
    return f"{n:.0f} of {of:.0f}{what} (expected {expected:.0f})"


class LeaveOneVoterOut:
    """Bradley–Terry on decisive votes from which some are taken out, each time refitted from where
    it was with them.

    Without a voter's votes, some model may have won or lost all that is left: pairs that no longer
    beat each other then share a win, as in `BradleyTerry`.
    """

    def __init__(self, log: BattleLog) -> None:
        check_connected(log.models, log.a, log.b)
        self._n = len(log.models)
        self._votes = Cells.of(log, np.zeros((len(log), 0)))
        self._pair = Pairs.of(self._votes, self._n)
        self._pooled = self._pair.pooled(self._votes)
        self._pairs = Pairs.of(self._pooled, self._n)

    def gaps(self, voter: Codes, out: Bools) -> Floats:
        """How far each vote's first model is ahead of the second, in log odds, by the votes that
        are neither `out` nor by the same voter; votes of voter -1 are by nobody.
        """
        with one_thread():
            others = self._less(self._pooled, np.flatnonzero(out))
            fit = fitted(self._with_prior(others), self._n, TIE_MODELS["half"])
            inverse, gaps = fit.inverse(), self._gap(fit.theta, np.arange(len(out)))
            for rows in _rows_of(np.where(out, -1, voter)):
                left = self._with_prior(self._less(others, rows))
                gaps[rows] = self._gap(refitted(fit, left, inverse), rows)
        return gaps

    def _less(self, pooled: Cells, rows: Rows) -> Cells:
        """The pairs' cells without some votes."""
        own = replace(self._pair, of_cell=self._pair.of_cell[rows], turned=self._pair.turned[rows])
        gone = own.pooled(self._votes.at(rows))
        return replace(pooled, outcomes=np.maximum(0, pooled.outcomes - gone.outcomes))

    def _with_prior(self, pooled: Cells) -> Cells:
        """The pairs' cells, with a prior where no finite rating exists without."""
        return pooled.and_also(BradleyTerry().priors(pooled, self._pairs).always)

    def _gap(self, theta: Floats, rows: Rows) -> Floats:
        return np.asarray(theta[self._votes.a[rows]] - theta[self._votes.b[rows]])


def _rows_of(voter: Codes) -> list[Rows]:
    """The rows of each voter."""
    order = np.argsort(voter, kind="stable")
    order = order[voter[order] >= 0]
    starts = np.flatnonzero(np.diff(voter[order], prepend=-1))
    return np.split(order, starts[1:]) if len(order) else []
