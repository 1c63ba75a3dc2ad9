"""How a voter votes, whatever the ratings: copies of another's votes, and speed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.validity.leans import UPWARDS, Codes, Floats, Honest, Leans, honest_leans
from arena_kit.validity.voter_rules import Rule, RuleEvidence, chance, largest, log_sums

Bools = NDArray[np.bool_]

#: Words a second above which nobody reads, and seconds below which nobody compares two responses.
TOO_FAST, TOO_SHORT = 20.0, 3.0
_LEAST_SHARED = 3  # votes on the same two responses that two voters must share to be compared
_MOST_PAIRS = 50_000  # pairs of voters that are compared
_MOST_VOTERS = 40  # of one pair of responses that are compared with each other
_LEAST_FAST = 0.05  # share of votes that any honest voter may cast too fast
_PACES = Honest(
    0.0, 1.0
)  # how far honest voters differ in that, in log odds: assumed, not estimated
_SMOOTH = 4.0  # votes' worth of the usual agreement in what an item's agreement is thought to be


@dataclass(frozen=True, eq=False)
class Shared:
    """Votes of two voters on the same two responses: a row each, with whether they agree, and the
    log odds that two voters do there. Where votes have times, `timed`, the first voter of the two
    was the earlier one, and cannot have copied.
    """

    first: Codes
    second: Codes
    agree: Bools
    odds: Floats
    timed: bool

    @classmethod
    def of(cls, battles: BattleLog, voter: Codes) -> Shared | None:
        """The shared votes of a log whose votes have these voters (-1 for those not tested)."""
        if battles.question_id is None:
            return None
        log, n = battles.sides_in_order(), len(battles.models)
        asked = battles.question_id.codes.astype(np.int64)
        item = (asked * n + log.a) * n + log.b
        rows = np.flatnonzero((voter >= 0) & (asked >= 0))
        _, first_votes = np.unique(np.stack([item[rows], voter[rows]]), axis=1, return_index=True)
        rows = rows[first_votes]
        outcome = np.minimum(log.outcome, 2)
        found: list[tuple[int, int, bool]] = []
        chances: list[Floats] = []
        for same in np.split(rows, np.flatnonzero(np.diff(item[rows])) + 1):
            if len(same) > 1:
                some = [
                    (int(voter[i]), int(voter[j]), bool(outcome[i] == outcome[j]))
                    for i, j in combinations(same[:_MOST_VOTERS].tolist(), 2)
                ]
                found += some
                chances.append(np.array([agree for _, _, agree in some], float))
        if not found:
            return None
        usual = float(np.mean(np.concatenate(chances)))
        first, second, agree = (np.array(column) for column in zip(*found, strict=True))
        rest = np.concatenate([_others(each, usual) for each in chances])
        when = _moments(battles, voter)
        if when is not None:
            late = when[first] > when[second]
            first, second = np.where(late, second, first), np.where(late, first, second)
        return cls(first, second, agree, np.log(rest / (1 - rest)), when is not None).often()

    def often(self) -> Shared | None:
        """Only voters who share enough, and those who share most; None where none do."""
        key = self.first * (self.second.max() + 1) + self.second
        _, place, count = np.unique(key, return_inverse=True, return_counts=True)
        least = _LEAST_SHARED
        if len(count) > _MOST_PAIRS:
            least = max(least, int(np.partition(count, -_MOST_PAIRS)[-_MOST_PAIRS]) + 1)
        kept = count[place] >= least
        if not kept.any():
            return None
        return replace(
            self,
            first=self.first[kept],
            second=self.second[kept],
            agree=self.agree[kept],
            odds=self.odds[kept],
        )


def _moments(battles: BattleLog, voter: Codes) -> Floats | None:
    """When each voter voted, on the median; None where a vote has no time."""
    times, mine = battles.timestamp, voter >= 0
    if times is None or np.isnat(times[mine]).any():
        return None
    moments = times[mine].astype("datetime64[us]").astype(np.int64)
    order = np.lexsort((moments, voter[mine]))
    starts = np.searchsorted(voter[mine][order], np.arange(voter.max() + 2))
    middle = np.minimum((starts[:-1] + starts[1:]) // 2, len(order) - 1)
    return np.asarray(moments[order][middle], float)


def _others(agree: Floats, usual: float) -> Floats:
    """How often two voters agree on an item, told by the other twos."""
    usual = min(max(usual, 0.01), 0.99)
    share: Floats = (agree.sum() - agree + _SMOOTH * usual) / (len(agree) - 1 + _SMOOTH)
    return share


def copy(shared: Shared, voters: list[str], honest: Bools) -> RuleEvidence:
    """Votes that agree with another voter's on the same responses more often than voters do."""
    n = len(voters)
    key = shared.first * n + shared.second
    one = np.ones(len(key))
    leans = Leans.of(key, shared.agree, shared.odds, one, one)
    first, second = leans.keys // n, leans.keys % n
    usual = honest_leans(leans.select(honest[first] & honest[second]), UPWARDS, centered=False)
    place = np.searchsorted(leans.keys, key)
    count, agreed, expected = (
        np.bincount(place, each, len(leans.keys))
        for each in (one, shared.agree, chance(shared.odds + usual.center))
    )
    found = leans.log_evidence(UPWARDS, usual)
    sides = [(second, first)] if shared.timed else [(second, first), (first, second)]
    voter, other = (np.concatenate(each) for each in zip(*sides, strict=True))
    weight = np.tile(count**2, len(sides))
    parts = np.tile(found, len(sides)) + np.log(weight / np.bincount(voter, weight, n)[voter])
    most = largest(voter, parts, n)
    log = log_sums(voter, parts, n)

    def tell(i: int) -> tuple[str, str]:
        k = most[i] % len(leans.keys)
        name = voters[int(other[most[i]])]
        return (
            f"{agreed[k]:.0f} of {count[k]:.0f} votes on the same responses are {name}'s, where "
            f"{expected[k]:.1f} were to be expected"
        ), name

    return RuleEvidence(Rule.COPY, np.where(np.isneginf(log), 0.0, log), usual, tell)


def speed(
    voter: Codes, seconds: Floats, words: Floats | None, honest: Bools
) -> RuleEvidence | None:
    """Votes that come faster than anybody can read, more of them than others have; None without
    times. Without words, any vote in under three seconds is too fast.
    """
    known = np.flatnonzero((voter >= 0) & np.isfinite(seconds))
    if not len(known):
        return None
    least = np.full(len(known), TOO_SHORT) if words is None else words[known] / TOO_FAST
    least = np.where(np.isfinite(least), least, TOO_SHORT)
    who, one = voter[known], np.ones(len(known))
    fast = seconds[known] < least
    hurried, count = (np.bincount(who, each, len(honest)) for each in (fast, one))
    shares = (hurried / np.maximum(1, count))[honest & (count > 0)]
    usual = float(np.clip(np.median(shares), _LEAST_FAST, 1 - _LEAST_FAST))
    leans = Leans.of(who, fast, np.log(usual / (1 - usual)) * one, one, one)
    log = np.zeros(len(honest))
    log[leans.keys] = leans.log_evidence(UPWARDS, _PACES)

    def tell(i: int) -> tuple[str, str]:
        return (
            f"{hurried[i]:.0f} of {count[i]:.0f} votes came faster than the responses can be "
            f"read, where {count[i] * usual:.1f} were to be expected"
        ), ""

    return RuleEvidence(Rule.SPEED, log, _PACES, tell)
