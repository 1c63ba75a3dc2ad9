"""Judging a tournament: every answer asked once, none lost, none invented."""

from __future__ import annotations

import gc
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from arena_kit.judging.asking.judge_pairs import OfflineError, judge_pairs
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.pairs.prompts import Response
from arena_kit.judging.verdicts.records import JudgeRequest, Settlement, Status
from tests.samples import ENTRANTS, MATERIAL, PAIRS, PROMPTS, ScriptedJudge, outcomes, statuses

FIRST_ASKED = {
    f"tone|{prompt_id}|{first}|{second}#1"
    for prompt_id in PROMPTS
    for first, second in permutations(ENTRANTS, 2)
}


def by_name(request: JudgeRequest) -> str:
    """Names the entrant that comes first in the alphabet, in whichever slot it stands."""
    shown = request.presentation
    winner = "A" if shown.first < shown.second else "B"
    return f'{{"justification": "By name.", "winner": "{winner}"}}'


def asked_of(ledger: Ledger, script: Any = by_name, pairs: Any = PAIRS, **more: Any) -> Any:
    """What a new judge with this script was asked, and the judgments."""
    judge = ScriptedJudge(script)
    judgments = judge_pairs(pairs, more.pop("material", MATERIAL), judge, ledger, **more)
    return judge.asked, judgments


def test_both_orders_of_every_pair_are_asked_once(ledger: Ledger) -> None:
    """Six pairs make twelve requests, each once, and are settled in the order given. A run on a
    full cache asks nothing and settles the same, its verdicts marked cached.
    """
    asked, first = asked_of(ledger)
    assert (len(asked), {*asked}) == (12, FIRST_ASKED)
    assert outcomes(first) == [(p, Settlement.WINNER, p.entrant_a) for p in PAIRS]
    assert len(ledger) == 12
    assert {v.judge_model for j in first for v in j.verdicts} == {"scripted/v1"}
    asked, second = asked_of(ledger)
    assert asked == []
    assert outcomes(second) == outcomes(first)
    assert [j.forward._replace(cached=False) for j in second] == [j.forward for j in first]
    assert [{v.cached for j in run for v in j.verdicts} for run in (first, second)] == [
        {False},
        {True},
    ]


def test_garbage_is_collected_as_before_afterwards(ledger: Ledger) -> None:
    """Judging collects garbage rarely, and leaves the collector as it was, after an error too."""
    before = gc.get_threshold()
    seen = []

    def watched(request: JudgeRequest) -> str:
        seen.append(gc.get_threshold())
        return by_name(request)

    asked_of(ledger, watched)
    assert seen[0] > before
    with pytest.raises(OfflineError):
        asked_of(ledger, repetition=1, offline=True)
    assert gc.get_threshold() == before


def test_a_changed_response_is_asked_again_and_no_other(ledger: Ledger) -> None:
    """Rewriting one response asks again for its own two pairs in both orders."""
    asked_of(ledger)
    new = Response(entrant_id="ash", prompt_id="q1", response_text="Rewritten.")
    changed = replace(MATERIAL, responses={**MATERIAL.responses, ("ash", "q1"): new})
    asked, _ = asked_of(ledger, material=changed)
    assert sorted(asked) == sorted(i for i in FIRST_ASKED if "|q1|" in i and "ash" in i)


@pytest.mark.parametrize("other", [{"model": "scripted/v2"}, {"settings": {"effort": "low"}}])
def test_another_judge_is_asked_for_itself(ledger: Ledger, other: dict[str, Any]) -> None:
    """Answers of one judge do not serve a judge with another model or other settings."""
    asked_of(ledger)
    judge = ScriptedJudge(by_name, **other)
    judge_pairs(PAIRS, MATERIAL, judge, ledger)
    assert {*judge.asked} == FIRST_ASKED


def test_offline_lists_only_what_is_missing(ledger: Ledger) -> None:
    """Offline on a cache of one prompt names the six requests of the other; progress begins with
    what is cached, rises one by one and ends with all.
    """
    asked_of(ledger, pairs=PAIRS[:3])
    missing = {i for i in FIRST_ASKED if "|q2|" in i}
    with pytest.raises(OfflineError, match="6 verdicts are not in the cache") as caught:
        asked_of(ledger, pytest.fail, offline=True)
    assert {*caught.value.missing} == missing
    assert "tone|q2|cherry|beech#1" in str(caught.value)
    seen: list[tuple[int, int]] = []
    asked, _ = asked_of(ledger, on_progress=lambda done, total: seen.append((done, total)))
    assert (len(asked), {*asked}) == (6, missing)
    assert seen == [(done, 12) for done in range(6, 13)]


@pytest.mark.parametrize("max_attempts", [1, 2, 3])
def test_an_unreadable_answer_is_asked_for_a_bounded_number_of_times(
    ledger: Ledger, max_attempts: int
) -> None:
    """A judge that never names a winner is asked max_attempts times and stays unparsable; offline,
    its answer is not missing.
    """
    asked, judgments = asked_of(
        ledger, lambda request: "Hard to say.", PAIRS[:1], max_attempts=max_attempts
    )
    assert sorted(asked) == sorted(
        f"tone|q1|{order}#{attempt}"
        for order in ("ash|beech", "beech|ash")
        for attempt in range(1, max_attempts + 1)
    )
    assert statuses(judgments) == [Status.UNPARSABLE, Status.UNPARSABLE]
    assert outcomes(judgments) == [(PAIRS[0], Settlement.INCOMPLETE, None)]
    assert judgments[0].forward.raw_text == "Hard to say."
    again = asked_of(ledger, pytest.fail, PAIRS[:1], offline=True, max_attempts=5)[1]
    assert statuses(again) == statuses(judgments)


def test_only_the_unreadable_order_is_asked_again(ledger: Ledger) -> None:
    """A re-ask that can be read replaces the unreadable answer and no other."""

    def script(request: JudgeRequest) -> str:
        first_try = request.request_id == "tone|q1|beech|ash#1"
        return "Hard to say." if first_try else by_name(request)

    asked, judgments = asked_of(ledger, script)
    assert {*asked} - FIRST_ASKED == {"tone|q1|beech|ash#2"}
    assert outcomes(judgments)[0] == (PAIRS[0], Settlement.WINNER, "ash")
    assert (judgments[0].forward.attempt, judgments[0].backward.attempt) == (1, 2)


@pytest.mark.parametrize(
    ("status", "paid"),
    [
        (Status.ERRORED, False),
        (Status.EXPIRED, False),
        (Status.CANCELED, False),
        (None, False),
        (Status.REFUSED, True),
        (Status.TRUNCATED, True),
    ],
)
def test_only_unpaid_failures_are_asked_again(
    ledger: Ledger, status: Status | None, paid: bool
) -> None:
    """An answer that failed or is missing is counted, not settled; where it was not paid for, it
    is asked for on the next run.
    """

    def script(request: JudgeRequest) -> str | Status | None:
        return status if request.presentation.first == "cherry" else by_name(request)

    asked, judgments = asked_of(ledger, script)
    assert len(asked) == 12
    assert statuses(judgments).count(status or Status.MISSING) == 4
    assert [j.settlement for j in judgments].count(Settlement.INCOMPLETE) == 4
    assert len(ledger) == (12 if paid else 8)
    again, judgments = asked_of(ledger)
    failed = {i for i in FIRST_ASKED if i.split("|")[2] == "cherry"}
    assert {*again} == (set() if paid else failed)
    assert statuses(judgments).count(Status.OK) == (8 if paid else 12)


def test_equal_texts_share_one_answer(ledger: Ledger) -> None:
    """Two entrants with the same words are asked about once, and both get the verdict."""
    twins = {
        (name, "q1"): Response(entrant_id=name, prompt_id="q1", response_text="3 words on q1.")
        for name in ("beech", "cherry")
    }
    material = replace(MATERIAL, responses={**MATERIAL.responses, **twins})
    asked, judgments = asked_of(
        ledger, lambda request: '{"winner": "A"}', PAIRS[:2], material=material
    )
    assert len(asked) == 2
    assert [j.pair for j in judgments] == PAIRS[:2]
    assert statuses(judgments) == [Status.OK] * 4


def test_a_judge_that_fails_midway_keeps_what_it_answered(ledger: Ledger) -> None:
    """Answers given before a crash are in the cache, and the next run asks for the rest."""
    seen: list[str] = []

    def script(request: JudgeRequest) -> str:
        if len(seen) == 5:
            raise ConnectionError("the line went dead")
        seen.append(request.request_id)
        return by_name(request)

    with pytest.raises(ConnectionError, match="the line went dead"):
        asked_of(ledger, script)
    assert len(ledger) == 5
    asked, judgments = asked_of(ledger)
    assert (len(asked), {*asked}) == (7, FIRST_ASKED - {*seen})
    assert {*statuses(judgments)} == {Status.OK}
