"""How far the judge itself can be trusted: who served it, and order effects in its verdicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt

from arena_kit.judging.records import Judgment, Settlement, Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionBias:
    """Order effects of one dimension.

    `flip_rate` is the share of pairs with both answers whose two orders disagree.
    `slot_a_rate` is the share of decisive verdicts that name the response shown first;
    a judge that ignores order stands at 0.5. `slot_a_se` is its standard error, clustered
    by pair.
    """

    n_pairs: int
    flips: int
    n_decisive: int
    slot_a: int
    slot_a_se: float | None

    @property
    def flip_rate(self) -> float | None:
        return self.flips / self.n_pairs if self.n_pairs else None

    @property
    def slot_a_rate(self) -> float | None:
        return self.slot_a / self.n_decisive if self.n_decisive else None

    def as_dict(self) -> dict[str, float | int | None]:
        """Plain values, for JSON."""
        return {
            "n_pairs": self.n_pairs,
            "flips": self.flips,
            "flip_rate": self.flip_rate,
            "n_decisive_verdicts": self.n_decisive,
            "slot_a_wins": self.slot_a,
            "slot_a_rate": self.slot_a_rate,
            "slot_a_se": self.slot_a_se,
        }


def position_bias(judgments: Sequence[Judgment]) -> dict[str, PositionBias]:
    """Order effects per dimension, in the order in which dimensions first appear."""
    by_dimension: dict[str, list[Judgment]] = defaultdict(list)
    for judgment in judgments:
        by_dimension[judgment.pair.dimension].append(judgment)
    return {dimension: _bias(own) for dimension, own in by_dimension.items()}


def _bias(judgments: Sequence[Judgment]) -> PositionBias:
    whole = [j for j in judgments if j.settlement is not Settlement.INCOMPLETE]
    named = [[v.winner for v in j.verdicts if v.winner in (Slot.A, Slot.B)] for j in judgments]
    decisive = [winners for winners in named if winners]
    n = sum(len(winners) for winners in decisive)
    first = sum(winner is Slot.A for winners in decisive for winner in winners)
    return PositionBias(
        n_pairs=len(whole),
        flips=sum(j.settlement is Settlement.INCONSISTENT for j in whole),
        n_decisive=n,
        slot_a=first,
        slot_a_se=_clustered_se(decisive, n, first),
    )


def _clustered_se(decisive: Sequence[Sequence[Slot]], n: int, first: int) -> float | None:
    """The cluster-robust standard error of the slot A rate, each pair being a cluster."""
    if len(decisive) < 2:
        return None
    rate = first / n
    residuals = [sum((winner is Slot.A) - rate for winner in winners) for winners in decisive]
    return sqrt(sum(r * r for r in residuals)) / n


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One condition a judge should meet before money is spent on it: a number of pairs or a share
    (None where it cannot be measured), and its limit, a least or a most.
    """

    dimension: str
    what: str
    value: float | None
    limit: float
    least: bool

    @property
    def passed(self) -> bool:
        if self.value is None:
            return False
        return self.value >= self.limit if self.least else self.value <= self.limit

    @property
    def found(self) -> str:
        """The value in words."""
        return str(self.value) if isinstance(self.value, int) else _percent(self.value)

    @property
    def allowed(self) -> str:
        """The limit in words."""
        limit = str(self.limit) if isinstance(self.limit, int) else f"{self.limit:.0%}"
        return f"at least {limit}" if self.least else f"at most {limit}"

    def as_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return asdict(self) | {"passed": self.passed}


def readiness(
    judgments: Sequence[Judgment],
    *,
    min_pairs: int = 30,
    min_ok: float = 0.98,
    max_flip_rate: float = 0.30,
    max_slot_bias: float = 0.10,
) -> list[Check]:
    """Is the judge fit for a larger run? Per dimension: enough pairs to tell, answers that
    could be read, orders that agree, and no lean to one slot beyond `max_slot_bias`.
    """
    checks = []
    for name, bias in position_bias(judgments).items():
        verdicts = [v for j in judgments if j.pair.dimension == name for v in j.verdicts]
        ok = sum(v.winner is not None for v in verdicts) / len(verdicts)
        flips, slot = bias.flip_rate, bias.slot_a_rate
        lean = None if slot is None else abs(slot - 0.5)
        conditions = (
            ("pairs with both orders", bias.n_pairs, min_pairs, True),
            ("verdicts that could be read", ok, min_ok, True),
            ("orders that disagree", flips, max_flip_rate, False),
            ("slot A rate away from 50%", lean, max_slot_bias, False),
        )
        checks += [
            Check(dimension=name, what=what, value=value, limit=limit, least=least)
            for what, value, limit, least in conditions
        ]
    return checks


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def served_by_others(judgments: Iterable[Judgment]) -> dict[str, int]:
    """How many verdicts came from a model that was not asked, by its name."""
    others = (verdict.other_model for judgment in judgments for verdict in judgment.verdicts)
    return dict(Counter(filter(None, others)))


def served_warning(judgments: Iterable[Judgment]) -> str:
    """A sentence when other models answered than the one that was asked; empty when none did."""
    return served_sentence(served_by_others(judgments))


def served_sentence(others: Mapping[str, int]) -> str:
    """The same from counts by model."""
    counts = ", ".join(f"{n} by {name}" for name, n in sorted(others.items()))
    told = f"Verdicts were served by another model than asked: {counts}; "
    return f"{told}such battles name it in served_model." if others else ""
