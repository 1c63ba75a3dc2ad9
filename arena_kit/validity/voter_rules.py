"""The rules a voter is tested by: what each looks at, and its evidence against honest taste."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from arena_kit.validity.leans import (
    EITHER_WAY,
    GRID,
    Codes,
    Floats,
    Honest,
    Leans,
    honest_leans,
)

Bools = NDArray[np.bool_]

#: Votes that follow the ratings less than honest ones do, down to those that reverse them twice.
_CARELESS: Floats = np.where((GRID < 0) & (GRID >= -3), 1.0, 0.0) / np.sum(
    (GRID < 0) & (GRID >= -3)
)


class Rule(StrEnum):
    """What a voter can stand out by."""

    PUSH = "push"
    AGAINST = "against"
    SIDE = "side"
    COPY = "copy"
    SPEED = "speed"


@dataclass(frozen=True, slots=True)
class RuleEvidence:
    """One rule's log e-value for each voter, how far honest voters differ (None where the rule
    does not estimate that), and what it saw of a voter: in words, and the model or voter it is
    about.
    """

    rule: Rule
    log: Floats
    honest: Honest | None
    tell: Callable[[int], tuple[str, str]]


@dataclass(frozen=True, eq=False)
class Votes:
    """Decisive votes of the voters that are tested: a row per vote, voters as codes from 0.

    `gap` is how far the first model is ahead by ratings without this voter, in log odds; `honest`
    says of each voter whether the spread of honest taste is estimated from it.
    """

    voter: Codes
    a: Codes
    b: Codes
    won: Bools
    gap: Floats
    weight: Floats
    models: tuple[str, ...]
    honest: Bools

    @property
    def n_voters(self) -> int:
        return len(self.honest)

    @cached_property
    def sharpness(self) -> tuple[Leans, Honest]:
        """By how much each voter's log odds are those of the ratings, more or fewer times over."""
        leans = Leans.of(self.voter, self.won, self.gap, self.gap, self.weight)
        return leans, honest_leans(leans.select(self.honest), _CARELESS, centered=False)

    @cached_property
    def own_gap(self) -> Floats:
        """The gaps as each voter seems to see them."""
        leans, honest = self.sharpness
        return np.asarray(self.gap * (1 + leans.mean(honest))[self.voter])


def push(votes: Votes) -> RuleEvidence:
    """A model that wins (or loses) this voter's battles more often than others and the voter's own
    care explain. Models weigh by the square of how often they were seen, so that one whose
    battles were sought out counts.
    """
    n = len(votes.models)
    sides = [
        (votes.voter * n + votes.a, votes.won, 1.0),
        (votes.voter * n + votes.b, ~votes.won, -1.0),
    ]
    keys = np.concatenate([key for key, _, _ in sides])
    won = np.concatenate([wins for _, wins, _ in sides])
    weight = np.tile(votes.weight, 2)
    gap = np.concatenate([votes.gap, -votes.gap]) * _care_elsewhere(votes, keys)
    leans = Leans.of(keys, won, gap, np.ones(len(gap)), weight)
    voter = leans.keys // n
    honest = honest_leans(leans.select(votes.honest[voter]), EITHER_WAY, centered=True)
    seen, wins, expected = (
        np.bincount(np.searchsorted(leans.keys, keys), each, len(leans.keys))
        for each in (weight, weight * won, weight * chance(gap))
    )
    share = seen**2 / np.bincount(voter, seen**2)[voter]
    parts = leans.log_evidence(EITHER_WAY, honest) + np.log(share)
    most = largest(voter, parts, votes.n_voters)

    def tell(i: int) -> tuple[str, str]:
        k = most[i]
        model = votes.models[int(leans.keys[k] % n)]
        verb = "won" if wins[k] >= expected[k] else "lost"
        count, due = (
            (wins[k], expected[k]) if verb == "won" else (seen[k] - wins[k], seen[k] - expected[k])
        )
        return (
            f"{model} {verb} {count:.0f} of {seen[k]:.0f}, where {due:.1f} were to be expected",
            model,
        )

    return RuleEvidence(Rule.PUSH, log_sums(voter, parts, votes.n_voters), honest, tell)


def _care_elsewhere(votes: Votes, keys: Codes) -> Floats:
    """How sharply the voter of each row votes in battles without the row's model."""
    n = len(votes.models)
    leans, honest = votes.sharpness
    twice = [np.concatenate([each, each]) for each in (votes.won, votes.gap, votes.weight)]
    of_model = Leans.of(keys, twice[0], twice[1], twice[1], twice[2])
    elsewhere = Leans(of_model.keys, leans.table[of_model.keys // n] - of_model.table)
    return np.asarray((1 + elsewhere.mean(honest))[np.searchsorted(of_model.keys, keys)])


def against(votes: Votes) -> RuleEvidence:
    """Votes that follow the others' ratings less than honest voters' do: by chance, or reversed."""
    leans, honest = votes.sharpness
    upper = (votes.gap > 0) == votes.won
    agreed, expected = (
        np.bincount(votes.voter, votes.weight * each, votes.n_voters)
        for each in (upper, chance(np.abs(votes.gap)))
    )
    count = np.bincount(votes.voter, votes.weight, votes.n_voters)

    def tell(i: int) -> tuple[str, str]:
        return (
            f"the model with the higher rating won {agreed[i]:.0f} of {count[i]:.0f}, where "
            f"{expected[i]:.1f} were to be expected"
        ), ""

    return RuleEvidence(Rule.AGAINST, leans.log_evidence(_CARELESS, honest), honest, tell)


def side(votes: Votes) -> RuleEvidence:
    """One side that wins more often than the models on it explain."""
    one = np.ones(len(votes.won))
    leans = Leans.of(votes.voter, votes.won, votes.own_gap, one, votes.weight)
    honest = honest_leans(leans.select(votes.honest), EITHER_WAY, centered=False)
    left, expected, count = (
        np.bincount(votes.voter, votes.weight * each, votes.n_voters)
        for each in (votes.won, chance(votes.own_gap + honest.center), one)
    )

    def tell(i: int) -> tuple[str, str]:
        name = "left" if left[i] >= expected[i] else "right"
        won, due = (
            (left[i], expected[i])
            if name == "left"
            else (count[i] - left[i], count[i] - expected[i])
        )
        return (
            f"the {name} side won {won:.0f} of {count[i]:.0f}, where {due:.1f} were to be expected",
            "",
        )

    return RuleEvidence(Rule.SIDE, leans.log_evidence(EITHER_WAY, honest), honest, tell)


def chance(gap: Floats) -> Floats:
    """How often log odds are won."""
    share: Floats = 1 / (1 + np.exp(-gap))
    return share


def log_sums(group: Codes, logs: Floats, n: int) -> Floats:
    """The logarithm of each group's sum; -inf where it has none."""
    top = np.full(n, -np.inf)
    np.maximum.at(top, group, logs)
    total = np.bincount(group, np.exp(logs - top[group]), n)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(total > 0, top + np.log(total), -np.inf))


def largest(group: Codes, values: Floats, n: int) -> NDArray[np.intp]:
    """Where each group has its largest value."""
    order = np.lexsort((values, group))
    most = np.zeros(n, np.intp)
    most[group[order]] = order  # the last of a group stays
    return most
