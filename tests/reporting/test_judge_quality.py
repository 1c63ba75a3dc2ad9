"""What a report says of its judge."""

from arena_kit import JudgeQuality, read_gate
from arena_kit.judging.quality.gate import Level
from arena_kit.judging.verdicts.records import Slot
from arena_kit.reporting import judge_report
from arena_kit.reporting.answer import RunAnswer
from tests.samples import HOSTILE, ROOT, Elements, log_of, settled

A, B = Slot.A, Slot.B
JUDGMENTS = settled(*[(A, B), (B, A)] * 20) + settled(*[(A, B), (A, B)] * 20, dimension="facts")


def test_the_tables_say_what_was_measured_on_each_dimension() -> None:
    """The gate's table has a row for every rule and dimension in doubt, and counts the others."""
    labels = log_of([("ash", "beech", "model_a"), ("ash", "beech", "model_b")] * 20)
    quality = JudgeQuality.of("j", JUDGMENTS, labels=labels, strata={"q0": "hard"})
    gate = quality.gate(read_gate(ROOT))
    table = judge_report.gate_table(gate)
    rows = [(row["measure"], row["dimension"]) for row in table.rows]
    assert ("agreement with human votes", "facts") in rows
    doubts = [each for each in gate.findings if each.level is not Level.TRUSTED]
    assert len(rows) == len(doubts) < len(gate.findings)
    assert table.notes[0].startswith(f"{len(gate.findings) - len(doubts)} further checks")
    measured = judge_report.measured(quality).rows
    found = {(row["dimension"], row["measure"]): row["value"] for row in measured}
    kappa = "Cohen's kappa, both decisive"
    assert (found["tone", kappa], found["facts", kappa]) == (
        "1.00 (1.00 to 1.00)",
        "0.00 (0.00 to 0.00)",
    )
    assert found["facts", "agreement with human votes, both decisive, hard"] == "100.0%"
    besides = {row["measure"] for row in judge_report.measured(quality, compared=True).rows}
    assert {what for _, what in found} - besides == {"agreement with human votes, both decisive"}
    assert not any("order" in what or "slot" in what for _, what in found)  # the picture has those
    (rubric,) = judge_report.rubric_table(quality).rows
    assert rubric["dimensions"] == "tone and facts"
    assert str(rubric["verdicts that differ"]).startswith("50.0%")


def test_a_judge_that_was_never_asked_has_tables_that_say_so() -> None:
    """And its name, which may come from a file, is escaped."""
    quality = JudgeQuality.of("j", [])
    assert str(judge_report.measured(quality)) == "Nothing was measured."
    assert "needs two dimensions" in str(judge_report.rubric_table(quality))
    for name in HOSTILE:
        gate = JudgeQuality.of(name, []).gate(read_gate(ROOT))
        assert "usable with caution" in judge_report.gate_text(gate)
        box = RunAnswer(sentences=[], facts={}, gate=gate)
        assert "script" not in Elements(box.html).tags
        assert name in box.text
