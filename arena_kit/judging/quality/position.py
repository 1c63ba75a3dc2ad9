"""Does the order of presentation decide? Flips between the two orders, and a lean to one slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.judging.quality.agreement import Share, share_of
from arena_kit.judging.quality.calls import Calls
from arena_kit.judging.verdicts.records import Judgment


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionBias:
    """Order effects, with intervals clustered by question.

    `flips` is the share of pairs with both answers whose two orders disagree; `slot_a` the share
    of decisive verdicts that name the response shown first: a judge that ignores order stands at
    one half.
    """

    flips: Share
    slot_a: Share

    def as_dict(self) -> dict[str, float | int | None]:
        """Plain values, for JSON."""
        return {
            "n_pairs": self.flips.n,
            "flip_rate": self.flips.value,
            "flip_low": self.flips.ci_low,
            "flip_high": self.flips.ci_high,
            "n_decisive_verdicts": self.slot_a.n,
            "slot_a_rate": self.slot_a.value,
            "slot_a_low": self.slot_a.ci_low,
            "slot_a_high": self.slot_a.ci_high,
        }


def position(calls: Calls) -> PositionBias:
    """Order effects of these answers together."""
    _, front, behind, questions = calls.both_orders()
    decisive = (calls.said == 0) | (calls.said == 2)
    return PositionBias(
        flips=share_of(front != behind, questions),
        slot_a=share_of(calls.said[decisive] == 0, calls.clusters[decisive]),
    )


def settled(log: BattleLog) -> PositionBias:
    """Order effects of battles that were settled from both orders; which slot won is not known."""
    clusters = None if log.question_id is None else log.question_id.codes
    return PositionBias(flips=share_of(log.flags(), clusters), slot_a=share_of(np.empty(0, bool)))


def position_bias(judgments: Sequence[Judgment]) -> dict[str, PositionBias]:
    """Order effects per dimension, in the order in which dimensions first appear."""
    by_dimension = Calls.of(judgments).by_dimension()
    return {dimension: position(own) for dimension, own in by_dimension.items()}
