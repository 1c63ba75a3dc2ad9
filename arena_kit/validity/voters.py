"""Tests of each voter against the others, with the false alarms held over all of them.

A voter's votes are compared with ratings fitted without them. Each rule gives an e-value, the
evidence against honest taste: its mean is at most 1 for an honest voter, however often one looks.
Their weighted mean is held against voters / level (e-BH, Wang and Ramdas 2022), so that at
most `level` of those who stand out are honest, on average. See design/voter-tests.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.rating.base import RatingError
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.validity.leans import Codes, Floats, Honest
from arena_kit.validity.left_out import LeftOut
from arena_kit.validity.voter_habits import Shared, copy, speed
from arena_kit.validity.voter_rules import Rule, RuleEvidence, Votes, against, push, side

Bools = NDArray[np.bool_]

#: The share of honest voters among those who stand out, at most and on average.
LEVEL = 0.05
#: Decisive votes from which a voter is tested, and voters from which there are others.
LEAST_VOTES, LEAST_VOTERS = 10, 3
_MOST_ROUNDS = 6
_WEIGHTS = {Rule.PUSH: 6.0}  # what harms most counts most; other rules count once
_TOLD = 1.0  # a rule with less evidence (log10) is no reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One rule's evidence against a voter, as log10, and what it saw, in words; `about` is the
    model that is pushed, or the voter that is copied.
    """

    rule: Rule
    evidence: float
    text: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterTest:
    """One voter: how many votes, the evidence of all rules together (log10), and the reasons, the
    heaviest first. `sharpness` is how closely the votes follow the others' ratings: 1 as theirs
    do, 0 by chance.
    """

    voter: str
    votes: int
    decisive: int
    evidence: float
    stands_out: bool
    sharpness: float
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterTests:
    """All voters that were tested, the most conspicuous first.

    `needed` is the evidence (log10) from which a voter stands out; `too_few` voters had too few
    decisive votes, and `unnamed` votes name no voter. `honest` is how far honest voters differ, by
    rule.
    """

    tests: tuple[VoterTest, ...]
    level: float
    needed: float
    too_few: int
    unnamed: int
    honest: Mapping[Rule, Honest]

    @property
    def standing_out(self) -> tuple[VoterTest, ...]:
        """Those who stand out."""
        return tuple(test for test in self.tests if test.stands_out)

    def __getitem__(self, voter: str) -> VoterTest:
        for test in self.tests:
            if test.voter == voter:
                return test
        raise KeyError(f"{voter!r} was not tested")


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
    labels = _named(battles)
    tested = _tested(battles, labels)
    everyone = _Everyone.of(battles, labels, tested, seconds, words)
    found = everyone.tested(np.zeros(len(tested), bool), level)
    suspects = found.evidence >= -np.log(level)  # who would stand out alone, so as to start clean
    found = everyone.tested(suspects, level)
    for _ in range(_MOST_ROUNDS):
        before, found = found, everyone.tested(found.out, level)
        if np.array_equal(before.out, found.out):
            break
    votes = np.bincount(labels.codes + 1)[1:]
    return VoterTests(
        tests=tuple(found.told(everyone.names, votes[tested])),
        level=level,
        needed=found.needed / np.log(10),
        too_few=int(np.count_nonzero(votes) - len(tested)),
        unnamed=int(np.count_nonzero(labels.codes < 0)),
        honest={rule.rule: rule.honest for rule in found.rules if rule.honest is not None},
    )


def stand_out(evidence: Floats, level: float) -> tuple[Bools, float]:
    """Who stands out by e-BH, from log e-values, and the log evidence that it took."""
    bars = np.log(len(evidence) / level) - np.log(np.arange(1, len(evidence) + 1))
    passed = np.flatnonzero(np.sort(evidence)[::-1] >= bars)
    needed = float(bars[passed[-1]] if len(passed) else bars[0])
    return np.asarray(evidence >= needed), needed


def _named(battles: BattleLog) -> Labels:
    """The column of voters; refuses a log without."""
    labels = battles.voter
    if labels is None or not (labels.codes >= 0).any():
        raise RatingError("no vote names its voter, so no voter can be tested")
    return labels


def _tested(battles: BattleLog, labels: Labels) -> Codes:
    """The codes of voters with enough decisive votes; refuses where they are too few."""
    counts = np.bincount(labels.codes[_counted(battles)] + 1, minlength=len(labels.names) + 1)[1:]
    tested = np.flatnonzero(counts >= LEAST_VOTES)
    if len(tested) < LEAST_VOTERS:
        raise RatingError(
            f"{len(tested)} voters have {LEAST_VOTES} decisive votes or more, "
            f"{LEAST_VOTERS} are needed to test one against the others"
        )
    return tested


def _counted(battles: BattleLog) -> Bools:
    """Votes that name a winner."""
    return np.asarray(battles.decisive() & ~battles.flags())


@dataclass(frozen=True, eq=False)
class _Everyone:
    """All that the rules look at; voters as codes from 0, -1 for those who are not tested."""

    names: list[str]
    log: BattleLog
    voter: Codes
    ratings: LeftOut
    shared: Shared | None
    times: tuple[Codes, Floats, Floats | None] | None

    @classmethod
    def of(
        cls,
        battles: BattleLog,
        labels: Labels,
        tested: Codes,
        seconds: Floats | None,
        words: Floats | None,
    ) -> _Everyone:
        code = np.full(len(labels.names) + 1, -1, np.int64)
        code[tested] = np.arange(len(tested))
        voter, counted = code[labels.codes], _counted(battles)
        log = battles.select(counted)
        return cls(
            names=[str(name) for name in labels.names[tested]],
            log=log,
            voter=voter[counted],
            ratings=LeftOut(log, BradleyTerry()),
            shared=Shared.of(battles, voter),
            times=None if seconds is None else (voter, seconds, words),
        )

    def votes(self, out: Bools) -> Votes:
        """The decisive votes, with ratings without their voters and without those who are out."""
        gaps = self.ratings.gaps(self.voter, np.append(out, False)[self.voter])
        mine, log = self.voter >= 0, self.log
        return Votes(
            voter=self.voter[mine],
            a=log.a[mine].astype(np.int64),
            b=log.b[mine].astype(np.int64),
            won=log.outcome[mine] == A_WINS,
            gap=gaps[mine],
            weight=log.weights()[mine],
            models=log.models,
            honest=~out,
        )

    def tested(self, out: Bools, level: float) -> _Found:
        """Everyone's tests, with ratings and honest taste told by those who are not `out`."""
        votes = self.votes(out)
        rules = list(self.rules(votes))
        weights = np.array([_weight(rule) for rule in rules])
        logs = np.array([rule.log for rule in rules]) + np.log(weights / weights.sum())[:, None]
        evidence = np.logaddexp.reduce(logs)
        now, needed = stand_out(evidence, level)
        return _Found(votes, rules, evidence, needed, now)

    def rules(self, votes: Votes) -> Iterator[RuleEvidence]:
        """What every rule that can be applied says."""
        yield from (rule(votes) for rule in (push, against, side))
        if self.shared is not None:
            yield copy(self.shared, self.names, votes.honest)
        if self.times is not None and (found := speed(*self.times, votes.honest)) is not None:
            yield found


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What all rules say of everyone: the log evidence together, what it takes to stand out, and
    who does.
    """

    votes: Votes
    rules: list[RuleEvidence]
    evidence: Floats
    needed: float
    out: Bools

    def told(self, names: list[str], votes: NDArray[np.intp]) -> Iterator[VoterTest]:
        """A test per voter, the most conspicuous first."""
        leans, honest = self.votes.sharpness
        sharpness = 1 + leans.mean(honest)
        decisive = np.bincount(self.votes.voter, minlength=len(names))
        for i in np.argsort(-self.evidence, kind="stable").tolist():
            yield VoterTest(
                voter=names[i],
                votes=int(votes[i]),
                decisive=int(decisive[i]),
                evidence=float(self.evidence[i] / np.log(10)),
                stands_out=bool(self.out[i]),
                sharpness=float(sharpness[i]),
                reasons=_reasons(self.rules, i),
            )


def _weight(rule: RuleEvidence) -> float:
    return _WEIGHTS.get(rule.rule, 1.0)


def _reasons(rules: list[RuleEvidence], voter: int) -> tuple[Reason, ...]:
    """The rules that speak against a voter, the strongest first."""
    loud = [rule for rule in rules if rule.log[voter] >= _TOLD * np.log(10)]
    found = []
    for rule in sorted(loud, key=lambda each: -each.log[voter] - np.log(_weight(each))):
        text, about = rule.tell(voter)
        log10 = float(rule.log[voter] / np.log(10))
        found.append(Reason(rule=rule.rule, evidence=log10, text=text, about=about))
    return tuple(found)
