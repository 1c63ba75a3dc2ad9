"""A cascade: the cheap judge first, the dear one only where the cheap one is unsure."""

from __future__ import annotations

from collections.abc import Sequence

from arena_kit.judging.records import Judgment, Settlement
from arena_kit.judging.verdicts import share_of_first

#: A graded winner with less of a win than this, over both orders, is a weak one.
_STRONG = 0.875


def unsure(judgment: Judgment, repeats: Sequence[Judgment] = ()) -> str:
    """Why a judge is unsure of a pair, in words; empty where it is sure.

    `repeats` are judgments of the same pair by the same judge, asked again.
    """
    if judgment.settlement is Settlement.INCOMPLETE:
        return "an order has no verdict"
    if judgment.settlement is Settlement.INCONSISTENT:
        return "the orders disagree"
    said = (judgment.settlement, judgment.winner)
    if any((other.settlement, other.winner) != said for other in repeats):
        return "repeated answers disagree"
    share = share_of_first(judgment)
    weak = share is not None and judgment.winner and max(share, 1 - share) < _STRONG
    return "the grade is weak" if weak else ""
