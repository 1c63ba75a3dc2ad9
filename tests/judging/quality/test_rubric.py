"""Whether a judge reads the rubric, by its verdicts on two dimensions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from arena_kit import JudgeQuality, read_gate
from arena_kit.judging.judges.baseline import MODEL, unread_rubrics
from arena_kit.judging.quality.calls import Calls
from arena_kit.judging.quality.gate import Level
from arena_kit.judging.quality.measures import NO_RUBRIC
from arena_kit.judging.quality.rubric import likenesses
from arena_kit.judging.verdicts.records import Judgment, Slot
from arena_kit.judging.verdicts.rendering import Rubric
from tests.samples import ROOT, settled

A, B, TIE = Slot.A, Slot.B, Slot.TIE
ASH, BEECH, FLIP = (A, B), (B, A), (A, A)


def both(tone: list[tuple[Slot, Slot]], facts: list[tuple[Slot, Slot]]) -> list[Judgment]:
    return settled(*tone) + settled(*facts, dimension="facts")


def test_pairs_and_correlation_of_two_dimensions_worked_by_hand() -> None:
    """Of five pairs one flips on tone; of the other four one is answered otherwise. Signed verdicts
    are 2, 2, -2, -2, 0 and 2, -2, -2, -2, 2: their correlation is 0.6124.
    """
    (found,) = likenesses(
        Calls.of(both([ASH, ASH, BEECH, BEECH, FLIP], [ASH, BEECH, BEECH, BEECH, ASH]))
    )
    assert (found.different.value, found.different.n) == (0.25, 4)
    x, y = [2, 2, -2, -2, 0], [2, -2, -2, -2, 2]
    assert found.correlation.value == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert (found.one, found.other, found.correlation.n) == ("tone", "facts", 5)


def test_noise_does_not_hide_that_two_dimensions_are_one() -> None:
    """A judge with one opinion and one call in ten at random correlates less than fully between
    dimensions; corrected for the noise that its orders show, it does.
    """
    rng = np.random.default_rng(4)
    opinion = rng.random(3000) < 0.5

    def call(first: bool) -> Slot:
        noisy = (rng.random() < 0.5) if rng.random() < 0.1 else first
        return A if noisy else B

    noisy = [[(call(o), call(not o)) for o in opinion] for _ in range(2)]
    (found,) = likenesses(Calls.of(both(noisy[0], noisy[1])))
    assert found.correlation.value is not None
    assert found.correlation.value < 0.93
    assert found.corrected == pytest.approx(1.0, abs=0.02)
    assert found.different.value is not None
    assert found.different.value < 0.02


def test_a_judge_that_answers_all_dimensions_alike_fails_on_each() -> None:
    """The reason names the other dimension and the share."""
    said = [ASH, BEECH] * 20
    quality = JudgeQuality.of("j", both(said, said))
    found = quality.gate(read_gate(ROOT))
    assert found.level is Level.FAILED
    failed = [f for f in found.findings if f.level is Level.FAILED]
    assert [(f.measure.rule, f.measure.dimension) for f in failed] == [
        ("rubric", "tone"),
        ("rubric", "facts"),
    ]
    assert failed[0].reason == (
        "pairs answered otherwise than on facts on tone: 0.0% of 40, at least 2% is usable"
    )


def test_one_dimension_alone_shows_nothing_of_the_rubric() -> None:
    assert likenesses(Calls.of(settled(ASH, BEECH))) == ()


def test_the_embedded_judge_implements_the_rubrics_that_are_shipped_and_no_other() -> None:
    """Another text under the same name is another rubric; no other judge is concerned."""
    names = ("factuality", "calibration", "clinical_utility", "preference")
    shipped = [_rubric(ROOT / "params" / "rubrics" / f"{name}.md") for name in names]
    assert unread_rubrics(MODEL, shipped) == ("preference",)
    own = Rubric(dimension="factuality", version="9", text="Prefer the response that cites more.")
    assert unread_rubrics(MODEL, [own]) == ("factuality",)
    assert unread_rubrics("claude-opus-5-5", [own]) == ()


def _rubric(path: Path) -> Rubric:
    return Rubric(dimension=path.stem, version="2", text=path.read_text(encoding="utf-8"))


def test_a_judge_that_reads_no_rubric_fails_on_what_it_does_not_implement() -> None:
    """However few verdicts there are, for this is known, not measured."""
    quality = JudgeQuality.of(MODEL, settled(ASH, BEECH), unread=["tone"])
    found = quality.gate(read_gate(ROOT))
    assert found.level is Level.FAILED
    assert found.reasons[0].startswith(f"{NO_RUBRIC} on tone")
