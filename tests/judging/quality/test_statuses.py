"""How a judge's answers ended."""

from __future__ import annotations

import pytest

from arena_kit import JudgeQuality
from arena_kit.judging.quality.statuses import statuses
from arena_kit.judging.verdicts.records import Slot, Status
from tests.samples import settled

A, B, TIE = Slot.A, Slot.B, Slot.TIE


def test_each_status_is_a_share_of_all_verdicts_and_ties_of_those_that_can_be_read() -> None:
    """Of eight verdicts one is refused, one truncated, two are unparsable and one is a tie: half
    are read, a quarter of these are ties.
    """
    found = statuses(
        settled(
            (A, Status.REFUSED),
            (TIE, B),
            (Status.UNPARSABLE, Status.UNPARSABLE),
            (A, Status.TRUNCATED),
        )
    )
    assert (found.readable.value, found.readable.n) == (0.5, 8)
    assert (found.ties.value, found.ties.n) == (0.25, 4)
    shares = {name: share.value for name, share in found.shares.items() if share.value}
    assert shares == {"ok": 0.5, "refused": 0.125, "truncated": 0.125, "unparsable": 0.25}
    assert found.unread == "1 refused, 1 truncated, 2 unparsable"


def test_the_reason_says_what_became_of_verdicts_that_cannot_be_read() -> None:
    quality = JudgeQuality.of("j", settled((A, B), (A, Status.REFUSED)))
    (measure,) = (m for m in quality.measures() if m.rule == "readable")
    assert measure.about == "verdicts that could be read (1 refused)"
    assert measure.value == pytest.approx(0.75)


def test_a_judge_that_never_answered_is_measured_by_that() -> None:
    """Orders and slots are said to be not measured rather than left out."""
    quality = JudgeQuality.of("j", settled((Status.REFUSED, Status.MISSING)))
    found = {m.rule: m.value for m in quality.measures()}
    assert found == {"readable": 0.0, "flips": None, "slot": None, "people": None}
