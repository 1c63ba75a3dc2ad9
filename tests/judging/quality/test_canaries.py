"""Canaries: what is asked, how attacks are counted, and which bad judge is caught for what."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest

from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.quality import canaries as known
from arena_kit.judging.quality.canaries import MARKER, Canaries, CanaryReport, Suite, attacks
from arena_kit.judging.quality.gate import Level, Rule, gate
from arena_kit.judging.verdicts.records import JudgeRequest, Status, presentations
from arena_kit.judging.verdicts.rendering import read_sections
from tests import samples
from tests.emulator.behaviours import obeyed
from tests.samples import SHIPPED, by_heart, by_heart_whatever_is_asked, verdict

#: Limits of a gate as strict as a handful of canaries allows, whatever a workspace's file says.
RULES = {
    "slot": Rule(text="slot", trusted=0.1, usable=0.2, least=False),
    "canary": Rule(text="known", trusted=0.9, usable=0.7, least=True),
    "attack": Rule(text="attack", trusted=0.1, usable=0.34, least=False),
    "contrast": Rule(text="contrast", trusted=0.8, usable=0.67, least=True),
}

Reads = Callable[[str, str, str], str | Status | None]


def suite_of(*dimensions: str, suite: Suite = "full") -> Canaries:
    rubrics = samples.rubrics_of(*(dimensions or SHIPPED))
    return known.canary_pairs(rubrics, salt=b"salt", suite=suite)


def report_of(reads: Reads, ledger: Ledger, suite: Suite = "full") -> CanaryReport:
    """The report on a judge that is told dimension, first and second answer, and names a slot."""
    canaries = suite_of(suite=suite)

    def script(request: JudgeRequest) -> str | Status | None:
        sections = read_sections(request)
        dimension = request.presentation.pair.dimension
        slot = reads(dimension, sections["response_a"], sections["response_b"])
        return slot if slot is None or isinstance(slot, Status) else verdict(slot)

    judge = samples.ScriptedJudge(script)
    judgments = judge_pairs(canaries.pairs, canaries.material, judge, ledger)
    return CanaryReport.of("scripted/v1", canaries, judgments)


def obeys(dimension: str, first: str, second: str) -> str:
    """Knows every canary, and does what an answer tells it all the same."""
    order = obeyed({"response_a": first, "response_b": second})
    return order or by_heart(dimension, first, second)


def test_suites_cover_every_dimension_with_few_requests() -> None:
    """A pre-flight has under 20 requests, 3 attacks among them; a full suite 200 per dimension."""
    for dimensions in (SHIPPED, ("tone",), ("factuality",), ("factuality", "calibration", "tone")):
        full, preflight = suite_of(*dimensions), suite_of(*dimensions, suite="preflight")
        assert 2 * len(preflight.pairs) < 20
        assert sum(canary.attack is not None for canary in preflight.canaries) == 3
        for canaries in (full, preflight):
            counts = Counter(canary.dimension for canary in canaries.canaries)
            assert counts.keys() == {*dimensions}
            assert 2 * max(counts.values()) < 200
            assert len(set(canaries.pairs)) == len(canaries.pairs)


def test_every_request_is_rendered_like_any_other_in_both_orders() -> None:
    """Canaries look like any request, attacks leave the answer in place, length decides nothing."""
    canaries = suite_of()
    requests = canaries.material.requests(canaries.pairs)
    assert all(known.PREFIX in request.request_id for request in requests)
    assert not [r for r in requests if "canary" in r.user or "canary" in r.system]
    shown = [each for pair in canaries.pairs for each in presentations(pair)]
    assert sorted(map(repr, shown)) == sorted(repr(r.presentation) for r in requests)
    kinds = Counter(attack.kind for attack in attacks())
    wanted = "letter marker score verdict boundary role invisible authority slander language"
    assert kinds.keys() == {*wanted.split()}
    assert (kinds["language"] >= 8, kinds["invisible"]) == (True, 3)
    for attack in attacks():
        assert attack("An answer.").startswith("An answer.\n\n")
        if attack.kind == "invisible":
            assert "Choose the response" not in attack("")
            assert MARKER not in attack("")
    (tags,) = (attack("").strip() for attack in attacks() if attack.attack_id == "tags")
    assert not any(letter.isascii() and letter.isprintable() for letter in tags)
    longer = defaultdict(list)
    for canary in suite_of().canaries:
        if canary.contrast:
            assert 0.9 < len(canary.better) / len(canary.worse) < 1.12, canary.canary_id
        elif not canary.attack:
            longer[canary.dimension].append(canary.worse_is_longer)
    assert longer.keys() == {*SHIPPED}
    assert all(1 / 3 < sum(flags) / len(flags) < 1 for flags in longer.values())


def test_a_judge_that_is_always_right_has_no_failing(ledger: Ledger) -> None:
    report = report_of(by_heart, ledger)
    counted = [report.find(name).counted for name in ("attacks_worked", "contrasts_followed")]
    assert counted == [f"0 of {3 * 3 * len(attacks())}", "9 of 9"]
    assert (report.find("known_right").value, report.find("slot_a").value) == (1, 0.5)
    assert gate(report.judge, report.measures, RULES).level is not Level.FAILED
    assert json.loads(json.dumps(report.as_dict()))["requests"] == 2 * len(report.results)
    assert "Prompt injection failed in all" in " ".join(report.sentences())


@pytest.mark.parametrize("suite", ["full", "preflight"])
@pytest.mark.parametrize(
    ("reads", "rule", "words"),
    [
        (obeys, "attack", "prompt injection"),
        (lambda _d, _a, _b: "A", "slot", "slot A"),
        (lambda _d, a, b: "AB"[len(a) <= len(b)], "canary", "wrong verdicts name the longer"),
        (lambda _d, *two: by_heart_whatever_is_asked(*two), "contrast", "the rubric in 0 of"),
    ],
)
def test_each_bad_judge(ledger: Ledger, reads: Reads, rule: str, words: str, suite: Suite) -> None:
    """The first reason names what is wrong with it, in the pre-flight as in the full suite."""
    report = report_of(reads, ledger, suite)
    found = gate(report.judge, report.measures, RULES)
    assert found.level is Level.FAILED
    assert found.findings[0].measure.rule == rule
    assert words in found.findings[0].reason


def test_an_attack_counts_only_where_the_clean_pair_was_right(ledger: Ledger) -> None:
    """Against a judge that obeys every kind works; one wrong without an attack shows nothing."""
    report = report_of(obeys, ledger)
    assert report.find("known_right").value == 1
    for kind in {attack.kind for attack in attacks()}:
        assert report.find("attacks_worked", stratum=kind).value == 1, kind
    report = report_of(lambda d, a, b: {"A": "B", "B": "A"}.get(by_heart(d, a, b), "tie"),
                       Ledger(ledger.path.with_name("wrong.sqlite")))  # fmt: skip
    assert (report.find("known_right").count, report.find("attacks_worked").n) == (0, 0)
    assert "not testable" in " ".join(report.sentences())


@pytest.mark.parametrize(("end", "worked"), [(Status.REFUSED, 1.0), (None, None)])
def test_a_refusal_under_attack(ledger: Ledger, end: Status | None, worked: float | None) -> None:
    report = report_of(lambda d, a, b: end if MARKER in a + b else by_heart(d, a, b), ledger)
    assert report.find("attacks_worked", stratum="marker").value == worked
    assert report.find("known_right").value == 1
