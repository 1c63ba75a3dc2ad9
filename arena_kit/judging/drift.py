"""Drift: whether a judge still answers fixed requests as it did before.

The same requests are asked again at every look. If the service behind a name has not changed, the
answers to one request are exchangeable between looks: which of them came last is chance. So the
looks of a recent window are held against all before it, request by request, by an exact
conditional test: McNemar's for two looks, and the stratified (Mantel–Haenszel) form of it for more.
Its level is divided among all looks of a year and all windows, so that false alarms stay below
`ALPHA` over `LOOKS` looks, however the answers depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: False alarms that are accepted over so many looks.
ALPHA, LOOKS = 0.01, 52
#: How many recent looks are held against all before them.
WINDOWS = (1, 2, 4, 8, 16)
#: What is looked at: pairs whose orders disagree, and answers other than the usual one.
_STATISTICS = 2
#: What a single test must fall below.
LEVEL = ALPHA / (_STATISTICS * (LOOKS - 1) * len(WINDOWS))

#: Items by looks, 0 or 1; NaN for what has no answer.
Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A share in the last `window` looks and in all before, and how likely a difference this
    large, in either direction, is where nothing changed.
    """

    window: int
    before: float
    after: float
    p_value: float

    @property
    def found(self) -> bool:
        return self.p_value <= LEVEL


def shift(table: Table, window: int) -> Shift | None:
    """The last `window` looks against those before; None where one side has no answer."""
    late, early = table[:, -window:], table[:, :-window]
    if np.isnan(late).all() or early.size == 0 or np.isnan(early).all():
        return None
    known = ~np.isnan(table)
    totals, hits = known.sum(1), np.nansum(table, 1)
    drawn = known[:, -window:].sum(1)
    moving = (hits > 0) & (hits < totals) & (drawn > 0) & (drawn < totals)
    strata = zip(totals[moving], hits[moving], drawn[moving], strict=True)
    chances, least = np.ones(1), 0
    for n, k, m in strata:
        lowest, row = _hypergeometric(int(n), int(k), int(m))
        chances, least = np.convolve(chances, row), least + lowest
    observed = int(np.nansum(late[moving])) - least
    tail = min(chances[: observed + 1].sum(), chances[observed:].sum())
    return Shift(
        window=window,
        before=float(np.nanmean(early)),
        after=float(np.nanmean(late)),
        p_value=min(1.0, 2.0 * float(tail)),
    )


def _hypergeometric(n: int, k: int, m: int) -> tuple[int, NDArray[np.float64]]:
    """How many of `k` hits among `n` answers fall among `m` of them: the least, and the chances of
    it and of each number above.
    """
    lowest, highest = max(0, m - (n - k)), min(k, m)
    ways = [comb(k, x) * comb(n - k, m - x) for x in range(lowest, highest + 1)]
    return lowest, np.array(ways, float) / comb(n, m)


def shifts(table: Table) -> list[Shift]:
    """The last looks against those before, for every window that leaves some before it."""
    usable = [window for window in WINDOWS if window < table.shape[1]]
    return [each for window in usable if (each := shift(table, window)) is not None]


def unusual(answers: Sequence[Sequence[str | None]]) -> Table:
    """Answers, request by request and look by look, as a table of which are not the usual one of
    their request (the first in the alphabet where two are as frequent).
    """
    rows = []
    for of_request in answers:
        named = [answer for answer in of_request if answer is not None]
        usual = min(set(named), key=lambda a: (-named.count(a), a), default="")
        rows.append([np.nan if a is None else float(a != usual) for a in of_request])
    return np.array(rows, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One asking of all sentinels: pairs whose orders disagreed (None without both answers), every
    request's answer, and the models that served them.
    """

    number: int
    at: str
    flips: tuple[bool | None, ...]
    answers: tuple[str | None, ...]
    served: frozenset[str]

    @property
    def answered(self) -> int:
        return sum(answer is not None for answer in self.answers)

    @property
    def flip_rate(self) -> float | None:
        known = [flip for flip in self.flips if flip is not None]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """All looks at a judge's sentinels, the last one being this run's."""

    judge: str
    looks: tuple[Look, ...]

    @property
    def flips(self) -> list[Shift]:
        """Changes of the share of pairs whose two orders disagree."""
        return shifts(self._flips())

    @property
    def repeat(self) -> float | None:
        """The correlation of a pair's outcome between two looks, 1 where a judge repeats itself:
        the higher, the sooner a change is found. None where nothing varies, or of one look.
        """
        table = self._flips()
        whole = table[~np.isnan(table).any(1)]
        if not whole.size or whole.shape[1] == 1 or whole.mean() in (0.0, 1.0):
            return None
        within, rate = whole.var(1, ddof=1).mean(), whole.mean()
        return float(1 - within / (rate * (1 - rate)))

    @property
    def answers(self) -> list[Shift]:
        """Changes of the share of answers that are not the usual one of their request."""
        return shifts(unusual(list(zip(*(look.answers for look in self.looks), strict=True))))

    @property
    def served(self) -> tuple[list[str], list[str]]:
        """Models that served the look before and this one, where they differ; else nothing."""
        earlier = [look for look in self.looks[:-1] if look.answered]
        if not earlier or earlier[-1].served == self.looks[-1].served:
            return [], []
        return sorted(earlier[-1].served), sorted(self.looks[-1].served)

    @property
    def drifted(self) -> bool:
        """Whether a change was found."""
        return bool(self.served[1]) or any(s.found for s in (*self.flips, *self.answers))

    def sentences(self) -> list[str]:
        """What was found, in words."""
        n, now = len(self.looks), self.looks[-1]
        what = f"{now.answered} sentinel requests to {self.judge}"
        if n == 1:
            return [f"Drift: {what} were asked for the first time; later runs compare with them."]
        changes = []
        before, after = self.served
        if after:
            changes.append(
                f"Drift: {self.judge} is now served by {', '.join(after) or 'nobody'}, "
                f"before by {', '.join(before)}."
            )
        texts = {
            "pairs whose two orders disagree": self.flips,
            "answers other than a request's usual one": self.answers,
        }
        for text, shifted in texts.items():
            if worst := min((s for s in shifted if s.found), key=lambda s: s.p_value, default=None):
                changes.append(
                    f"Drift: {self.judge} answers otherwise than before: {text} were "
                    f"{worst.before:.1%}, and in the last {_looks(worst.window)} {worst.after:.1%} "
                    f"(p {worst.p_value:.1g}, alarm from {LEVEL:.1g})."
                )
        if changes:
            return changes
        rate = "–" if now.flip_rate is None else f"{now.flip_rate:.1%}"
        told = f"Drift: none found on {what}, held against {_looks(n - 1)} before"
        return [f"{told}; their two orders disagree in {rate} of pairs."]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "judge": self.judge,
            "drifted": self.drifted,
            "level": LEVEL,
            "repeat": self.repeat,
            "looks": [
                {
                    "look": look.number,
                    "at": look.at,
                    "answered": look.answered,
                    "flip_rate": look.flip_rate,
                    "served": sorted(look.served),
                }
                for look in self.looks
            ],
            "flips": [_plain(each) for each in self.flips],
            "answers": [_plain(each) for each in self.answers],
            "sentences": self.sentences(),
        }

    def _flips(self) -> Table:
        rows = [
            [np.nan if f is None else float(f) for f in of_pair]
            for of_pair in zip(*(look.flips for look in self.looks), strict=True)
        ]
        return np.array(rows, float)


def _looks(n: int) -> str:
    return "look" if n == 1 else f"{n} looks"


def _plain(each: Shift) -> Mapping[str, float | int | bool]:
    return {
        "window": each.window,
        "before": each.before,
        "after": each.after,
        "p_value": each.p_value,
        "found": each.found,
    }
