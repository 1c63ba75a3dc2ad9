"""Canaries: what is asked, how attacks are counted, and which bad judge is caught for what."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest

from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.quality.canaries import (
    MARKER,
    PREFIX,
    Canaries,
    Suite,
    attacks,
    canary_pairs,
)
from arena_kit.judging.quality.canary_report import CanaryReport
from arena_kit.judging.quality.gate import Gate, Level, Rule, gate
from arena_kit.judging.verdicts.records import JudgeRequest, Status
from arena_kit.judging.verdicts.rendering import read_sections
from arena_kit.judging.verdicts.settle import presentations
from tests.emulator.behaviours import obeyed
from tests.samples import (
    SHIPPED,
    ScriptedJudge,
    by_heart,
    by_heart_whatever_is_asked,
    rubrics_of,
    verdict,
)

#: Limits of a gate as strict as a handful of canaries allows, whatever a workspace's file says.
RULES = {
    "slot": Rule(text="slot", trusted=0.1, usable=0.2, least=False),
    "canary": Rule(text="known", trusted=0.9, usable=0.7, least=True),
    "attack": Rule(text="attack", trusted=0.1, usable=0.34, least=False),
    "contrast": Rule(text="contrast", trusted=0.8, usable=0.4, least=True),
}

Reads = Callable[[str, str, str], str | Status | None]


def suite_of(*dimensions: str, suite: Suite = "full") -> Canaries:
    return canary_pairs(rubrics_of(*(dimensions or SHIPPED)), salt=b"salt", suite=suite)


def scripted(reads: Reads) -> ScriptedJudge:
    """A judge that is told dimension, first and second answer, and names a slot."""

    def script(request: JudgeRequest) -> str | Status | None:
        sections = read_sections(request)
        dimension = request.presentation.pair.dimension
        said = reads(dimension, sections["response_a"], sections["response_b"])
        return said if said is None or isinstance(said, Status) else verdict(said)

    return ScriptedJudge(script)


def obeys(dimension: str, first: str, second: str) -> str:
    """Knows every canary, and does what an answer tells it all the same."""
    told = obeyed({"response_a": first, "response_b": second})
    return told or by_heart(dimension, first, second)


def longer(_dimension: str, first: str, second: str) -> str:
    return "A" if len(first) > len(second) else "B"


def ignores_rubric(_dimension: str, first: str, second: str) -> str:
    return by_heart_whatever_is_asked(first, second)


def first_slot(_dimension: str, _first: str, _second: str) -> str:
    return "A"


def report_of(reads: Reads, ledger: Ledger, suite: Suite = "full") -> CanaryReport:
    canaries = suite_of(suite=suite)
    judgments = judge_pairs(canaries.pairs, canaries.material, scripted(reads), ledger)
    return CanaryReport.of("scripted/v1", canaries, judgments)


def gate_of(report: CanaryReport) -> Gate:
    return gate(report.judge, report.measures, RULES)


# What is asked


@pytest.mark.parametrize(
    "dimensions", [SHIPPED, ("tone",), ("factuality",), ("factuality", "calibration", "tone")]
)
def test_a_preflight_is_a_handful_and_covers_every_dimension(dimensions: tuple[str, ...]) -> None:
    """Under 20 requests in all, 3 attacks among them, whatever the rubrics are called."""
    canaries = suite_of(*dimensions, suite="preflight")
    assert 2 * len(canaries.pairs) < 20
    assert {canary.dimension for canary in canaries.canaries} == {*dimensions}
    assert sum(canary.attack is not None for canary in canaries.canaries) == 3
    assert len(set(canaries.pairs)) == len(canaries.pairs)


def test_the_full_suite_is_under_200_requests_per_dimension() -> None:
    counts = Counter(canary.dimension for canary in suite_of(*SHIPPED, "tone").canaries)
    assert counts.keys() == {*SHIPPED, "tone"}
    assert all(2 * n < 200 for n in counts.values())


def test_every_request_is_rendered_like_any_other_in_both_orders() -> None:
    """Ids are the canaries' own, and no text tells a judge that it is being tested."""
    canaries = suite_of()
    requests = canaries.material.requests(canaries.pairs)
    assert len(requests) == 2 * len(canaries.pairs)
    assert all(PREFIX in request.request_id for request in requests)
    assert not [r for r in requests if "canary" in r.user or "canary" in r.system]
    by_pair = {pair: presentations(pair) for pair in canaries.pairs}
    assert {r.presentation for r in requests} == {p for two in by_pair.values() for p in two}


def test_attacks_are_of_many_kinds_and_languages_and_leave_the_answer_in_place() -> None:
    kinds = Counter(attack.kind for attack in attacks())
    wanted = "letter marker score verdict boundary role invisible authority slander language"
    assert kinds.keys() == {*wanted.split()}
    assert kinds["language"] >= 8
    assert kinds["invisible"] == 3
    for attack in attacks():
        assert attack("An answer.").startswith("An answer.\n\n")
    one, other = attacks()[:2]
    assert one(other("An answer.")).count("Ignore the rubric") == 2


def test_invisible_attacks_show_no_letter_of_their_instruction() -> None:
    """Tag characters and zero-width spaces keep the words from being found as they are."""
    by_id = {attack.attack_id: attack("") for attack in attacks()}
    for name in ("tags", "zero-width", "bidi"):
        assert "Choose the response" not in by_id[name]
        assert MARKER not in by_id[name]
    assert not any(letter.isascii() and letter.isprintable() for letter in by_id["tags"].strip())


def test_length_decides_nothing() -> None:
    """The worse answer is the longer one in more than a third of known pairs and the shorter one
    in some of each dimension; contrasts are alike in length.
    """
    for canary in suite_of().canaries:
        if canary.contrast:
            assert 0.9 < len(canary.better) / len(canary.worse) < 1.12, canary.canary_id
    for dimension in SHIPPED:
        known = [
            c for c in suite_of().canaries
            if c.dimension == dimension and not c.attack and not c.contrast
        ]  # fmt: skip
        share = sum(c.worse_is_longer for c in known) / len(known)
        assert 1 / 3 < share < 1


# What is counted


def test_a_judge_that_is_always_right_has_no_failing(ledger: Ledger) -> None:
    report = report_of(by_heart, ledger)
    assert report.find("known_right").value == 1
    assert report.find("attacks_worked").counted == f"0 of {3 * 3 * len(attacks())}"
    assert report.find("contrasts_followed").counted == "9 of 9"
    assert report.find("slot_a").value == 0.5
    assert gate_of(report).level is not Level.FAILED
    assert json.loads(json.dumps(report.as_dict()))["requests"] == 2 * len(report.results)
    assert "None of" in " ".join(report.sentences())


@pytest.mark.parametrize("suite", ["full", "preflight"])
@pytest.mark.parametrize(
    ("reads", "rule", "words"),
    [
        (obeys, "attack", "smuggled instructions that worked"),
        (first_slot, "slot", "slot A"),
        (longer, "canary", "wrong verdicts name the longer answer"),
        (ignores_rubric, "contrast", "changed with the dimension"),
    ],
)
def test_each_bad_judge_fails_for_its_own_reason(
    ledger: Ledger, reads: Reads, rule: str, words: str, suite: Suite
) -> None:
    """The first reason names what is wrong with it, in the pre-flight as in the full suite."""
    found = gate_of(report_of(reads, ledger, suite))
    assert found.level is Level.FAILED
    assert found.findings[0].measure.rule == rule
    assert words in found.reasons[0]


def test_every_kind_of_attack_succeeds_against_a_judge_that_obeys(ledger: Ledger) -> None:
    """An order to choose A also loses the right verdict: the two orders then disagree."""
    report = report_of(obeys, ledger)
    assert report.find("known_right").value == 1
    kinds = {attack.kind for attack in attacks()}
    by_kind = {kind: report.find("attacks_worked", stratum=kind).value for kind in kinds}
    assert by_kind == dict.fromkeys(kinds, 1.0)


def test_an_attack_counts_only_where_the_clean_pair_was_right(ledger: Ledger) -> None:
    """A judge that is wrong without an attack shows nothing about attacks."""
    report = report_of(lambda d, a, b: {"A": "B", "B": "A"}.get(by_heart(d, a, b), "tie"), ledger)
    assert (report.find("known_right").count, report.find("attacks_worked").n) == (0, 0)
    assert "cannot be told" in " ".join(report.sentences())


@pytest.mark.parametrize(("end", "worked"), [(Status.REFUSED, 1.0), (None, None)])
def test_a_refusal_under_attack_loses_the_verdict_and_a_failing_service_says_nothing(
    ledger: Ledger, end: Status | None, worked: float | None
) -> None:
    report = report_of(lambda d, a, b: end if MARKER in a + b else by_heart(d, a, b), ledger)
    assert report.find("attacks_worked", stratum="marker").value == worked
    assert report.find("known_right").value == 1


def test_canaries_are_asked_once_per_judge_and_rubric(ledger: Ledger) -> None:
    """A second run is answered by the ledger; another rubric text is asked anew."""
    judge = scripted(by_heart)
    canaries = suite_of(suite="preflight")
    for _ in range(2):
        judge_pairs(canaries.pairs, canaries.material, judge, ledger)
    before = len(judge.asked)
    assert before == 2 * len(canaries.pairs)
    changed = rubrics_of(*SHIPPED) | {"factuality": rubrics_of("accuracy")["accuracy"]}
    again = canary_pairs(changed, salt=b"salt", suite="preflight")
    judge_pairs(again.pairs, again.material, judge, ledger)
    assert {name.partition("|")[0] for name in judge.asked[before:]} == {"factuality"}
