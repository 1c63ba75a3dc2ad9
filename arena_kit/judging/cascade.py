"""A cascade: the cheap judge first, the dear one only where the cheap one is unsure.

`unsure` says so of one judgment, by itself. `Cascade` learns it from battles that people decided,
and chooses the thresholds under which what the cascade says agrees with people as often as asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.judging.quality.agreement import matched, verdicts
from arena_kit.judging.quality.regression import fitted
from arena_kit.judging.verdicts.records import Judgment, Settlement
from arena_kit.judging.verdicts.settle import share_of_first
from arena_kit.rating.bradley_terry.method import BradleyTerry

Floats = NDArray[np.float64]
Codes = NDArray[Any]

#: A graded winner with less of a win than this, over both orders, is a weak one.
_STRONG = 0.875
#: Confidences from which a verdict may be taken.
_THRESHOLDS = np.round(np.arange(0.50, 0.96, 0.02), 2)
_RIDGE = 1e-6


def unsure(judgment: Judgment, repeats: Sequence[Judgment] = ()) -> str:
    """Why a judge is unsure of a pair, in words; empty where it is sure.

    `repeats` are judgments of the same pair by the same judge, asked again.
    """
    if judgment.settlement is Settlement.INCOMPLETE:
        return "an order has no verdict"
    if judgment.settlement is Settlement.INCONSISTENT:
        return "the orders disagree"
    outcome = (judgment.settlement, judgment.winner)
    if any((other.settlement, other.winner) != outcome for other in repeats):
        return "repeated answers disagree"
    share = share_of_first(judgment)
    weak = share is not None and judgment.winner and max(share, 1 - share) < _STRONG
    return "the grade is weak" if weak else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """What a cheap and a dear judge say of the same battles: 1 for the first model, -1 for the
    second, 0 for a tie or nothing.

    `signals` (a column each) are what else is known before the dear judge is asked, turned as
    verdicts are: positive where it speaks for the first model, such as the gap between the two
    models in the cheap judge's own ratings, or the margin of a graded verdict.
    """

    cheap: Codes
    dear: Codes
    signals: Floats

    @classmethod
    def of(cls, cheap: ArrayLike, dear: ArrayLike, signals: ArrayLike | None = None) -> Verdicts:
        """From any sequences of the same length."""
        one, two = np.asarray(cheap, int), np.asarray(dear, int)
        more = np.zeros((len(one), 0)) if signals is None else np.asarray(signals, float)
        more = more.reshape(len(one), -1)
        if len(one) != len(two):
            raise DataError(f"a cascade needs verdicts of both judges: {len(one)} and {len(two)}")
        return cls(cheap=one, dear=two, signals=more)

    @classmethod
    def on_votes(
        cls, cheap: BattleLog, dear: BattleLog, people: BattleLog
    ) -> tuple[Verdicts, Codes, Codes]:
        """What two judges say of battles that people voted on (same models and question), what
        people say, and the question of each; the signal is the cheap judge's own rating gap.
        """
        logs = [replace(log, dimension=None).sides_in_order() for log in (cheap, dear, people)]
        first, second = matched(logs[0], logs[1])
        shared = logs[0].select(first)
        row, vote = matched(shared, logs[2])
        votes = [np.asarray(signs(log)) for log in logs]
        battles = cls.of(
            votes[0][first][row], votes[1][second][row], rating_gaps(logs[0])[first][row]
        )
        return battles, votes[2][vote], shared.clusters()[row]

    def at(self, rows: NDArray[Any]) -> Verdicts:
        """Some of the battles."""
        return Verdicts(cheap=self.cheap[rows], dear=self.dear[rows], signals=self.signals[rows])

    def known(self, *, asked: bool) -> Floats:
        """What is known of each battle, before or after the dear judge was `asked`."""
        columns = [np.ones(len(self.cheap)), self.cheap, *self.signals.T]
        return np.stack([*columns, self.dear] if asked else columns, axis=1)


def signs(log: BattleLog) -> Codes:
    """What each battle says: 1 for the first model, -1 for the second, 0 for neither."""
    return 1 - verdicts(log).astype(int)


def rating_gaps(log: BattleLog) -> Floats:
    """How far the first model of each battle is ahead in Bradley–Terry ratings by the log itself,
    in log odds.
    """
    strength = BradleyTerry().strengths(log)
    gaps: Floats = strength[log.a] - strength[log.b]
    return gaps


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What a cascade did on battles that people decided: how many it answered, how often it agreed
    with them, and the shares of battles that it `answered` and put to the dear judge (`asked`).
    """

    n: int
    agreed: int
    answered: float
    asked: float

    @property
    def agreement(self) -> float | None:
        return self.agreed / self.n if self.n else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedCascade:
    """A cascade whose answers agree with people at least `target` often, up to a `risk` of being
    wrong about that: `agreement_low` is the lower bound that was shown, on `n` battles.

    The cheap judge's verdict is taken from the confidence `take_cheap` on; else the dear judge is
    asked, whose verdict is taken from `take_dear` on; else the cascade abstains.
    """

    target: float
    risk: float
    take_cheap: float
    take_dear: float
    agreement_low: float
    n: int
    before: tuple[float, ...]
    after: tuple[float, ...]

    def asks(self, battles: Verdicts) -> NDArray[np.bool_]:
        """Battles that are put to the dear judge, whose verdicts need not be known."""
        return ~_taken(battles.cheap, _chance(battles, self.before), self.take_cheap)

    def answers(self, battles: Verdicts) -> Codes:
        """What the cascade says: 1 for the first model, -1 for the second, 0 where it abstains."""
        asked = self.asks(battles)
        dear = _taken(battles.dear, _chance(battles, self.after), self.take_dear)
        return np.where(asked, np.where(dear, battles.dear, 0), battles.cheap)

    def tally(self, battles: Verdicts, people: ArrayLike) -> Tally:
        """How it does on battles that people voted on."""
        asked, said = self.asks(battles), self.answers(battles)
        return _tally(said, asked, battles, np.asarray(people, int))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """How a cascade is calibrated on battles that people decided.

    One half of the questions teaches the confidence, a logistic regression of people's choice on
    the verdicts and signals, and orders the pairs of thresholds: from the one that agrees most to
    those that ask the dear judge less, among those that answer enough. The other half tests them
    in that order, each by a one-sided binomial bound (Clopper–Pearson; fewer battles count where
    questions repeat), until one fails. The order was fixed before that half was looked at, so the
    chance that the one chosen agrees less than `target` is at most `risk`.

    Parameters
    ----------
    target
        The agreement with people that is promised.
    risk
        The chance of promising it wrongly.
    coverage
        The share of battles decided by people and by a judge that should be answered.
    seed
        Of the halves.
    """

    target: float = 0.8
    risk: float = 0.05
    coverage: float = 0.75
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("target", "risk", "coverage"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must be between 0 and 1, not {getattr(self, name)!r}")

    def __call__(
        self, battles: Verdicts, people: ArrayLike, clusters: ArrayLike | None = None
    ) -> CalibratedCascade | None:
        """The calibrated cascade; None where no pair of thresholds passes."""
        voted = np.asarray(people, int)
        group = np.arange(len(voted)) if clusters is None else np.asarray(clusters)
        names, place = np.unique(group, return_inverse=True)
        rng = np.random.default_rng(self.seed)
        taught = rng.permutation(len(names))[place] < len(names) // 2
        best: CalibratedCascade | None = None
        for candidate in self._path(battles.at(taught), voted[taught]):
            low, n = self._bound(candidate, battles.at(~taught), voted[~taught], group[~taught])
            if low < self.target:
                break
            best = replace(candidate, agreement_low=low, n=n)
        return best

    def _path(self, battles: Verdicts, people: Codes) -> Iterator[CalibratedCascade]:
        """Candidates from the one that agrees most on to those that ask less."""
        before, after = (_fitted(battles, people, asked=asked) for asked in (False, True))
        chances = _chance(battles, before), _chance(battles, after)
        tried: list[tuple[float, float, float, float]] = []
        for cheap, dear in product(_THRESHOLDS.tolist(), repeat=2):
            asked = ~_taken(battles.cheap, chances[0], cheap)
            taken = np.where(_taken(battles.dear, chances[1], dear), battles.dear, 0)
            tally = _tally(np.where(asked, taken, battles.cheap), asked, battles, people)
            if tally.agreement is not None and tally.answered >= self.coverage:
                tried.append((-tally.agreement, tally.asked, cheap, dear))
        least = np.inf
        for _, share, cheap, dear in sorted(tried):
            if share < least:
                least = share
                yield CalibratedCascade(
                    target=self.target,
                    risk=self.risk,
                    take_cheap=cheap,
                    take_dear=dear,
                    agreement_low=0.0,
                    n=0,
                    before=before,
                    after=after,
                )

    def _bound(
        self, cascade: CalibratedCascade, battles: Verdicts, people: Codes, clusters: Codes
    ) -> tuple[float, int]:
        """A lower bound on the agreement, and the number of battles that it rests on."""
        answers = cascade.answers(battles)
        both = (answers != 0) & (people != 0)
        agreed = (answers == people)[both]
        return agreement_bound(agreed, clusters[both], self.risk), int(both.sum())


def agreement_bound(agreed: ArrayLike, clusters: ArrayLike, risk: float) -> float:
    """The lower bound of Clopper and Pearson on a share, at this one-sided risk; where rows of a
    cluster are alike, for as many independent rows as they are worth (Korn and Graubard).
    """
    from scipy.special import betaincinv  # scipy.stats takes four times longer to import

    flags = np.asarray(agreed, float)
    n = len(flags)
    if not n or not flags.any():
        return 0.0
    share = float(flags.mean())
    _, place = np.unique(np.asarray(clusters), return_inverse=True)
    sums = np.bincount(place, flags - share)
    spread = float((sums**2).sum()) / n**2
    worth = min(float(n), share * (1 - share) / spread) if spread > 0 else float(place.max() + 1)
    won = share * worth
    return float(betaincinv(won, worth - won + 1, risk))


def _tally(said: Codes, asked: NDArray[np.bool_], battles: Verdicts, people: Codes) -> Tally:
    decided = (people != 0) & ((battles.cheap != 0) | (battles.dear != 0))
    both = (said != 0) & (people != 0)
    return Tally(
        n=int(both.sum()),
        agreed=int((said == people)[both].sum()),
        answered=float(both.sum() / max(1, decided.sum())),
        asked=float(asked.mean()),
    )


def _taken(said: Codes, chance: Floats, least: float) -> NDArray[np.bool_]:
    """Verdicts that name a model with enough confidence."""
    confidence = np.where(said > 0, chance, 1 - chance)
    taken: NDArray[np.bool_] = (said != 0) & (confidence >= least)
    return taken


def _chance(battles: Verdicts, weights: tuple[float, ...]) -> Floats:
    """The chance that people prefer the first model."""
    asked = len(weights) > 2 + battles.signals.shape[1]
    chance: Floats = 1 / (1 + np.exp(-battles.known(asked=asked) @ np.array(weights)))
    return chance


def _fitted(battles: Verdicts, people: Codes, *, asked: bool) -> tuple[float, ...]:
    """Logistic regression of people's choice on what is known."""
    x, y = battles.known(asked=asked)[people != 0], people[people != 0] > 0
    if len({*y.tolist()}) < 2:
        raise DataError("a cascade is calibrated on battles that people decided for both sides")
    return tuple(fitted(x, y.astype(float), _RIDGE).tolist())
