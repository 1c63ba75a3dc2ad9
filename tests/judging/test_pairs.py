"""Prompts, responses and pairs: what each accepts, and which of them a run judges."""

from collections import Counter
from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arena_kit.files import DataError
from arena_kit.judging.pairs import prompts as banks
from arena_kit.judging.pairs.pairing import build_pairs, select_subset
from arena_kit.judging.pairs.prompts import ExpectedBehavior, Pair, Prompt, Response
from tests.samples import ENTRANTS, SAMPLE

GOLD_ONLY = {"facts": True, "tone": False}
BAD_IDS = ["", "../x", "a..b", "p 1", "p1\n", "<b>", "é", "x" * 129, 1, None]
ids = st.text(st.sampled_from("ab:/"), min_size=1, max_size=5)


def prompt(prompt_id: Any = "p1", source: Any = "plain", **changes: Any) -> Prompt:
    shared = {"text": "Is it so?", "gold_answer": "Yes."} | changes
    return Prompt(prompt_id=prompt_id, source=source, **shared)


def response(**changes: Any) -> Response:
    shared = {"entrant_id": "ash", "prompt_id": "p1", "response_text": "So."}
    return Response(**(shared | changes))


def cells(entrants: list[str], prompts: list[Prompt]) -> set[tuple[str, str]]:
    return set(product(entrants, [p.prompt_id for p in prompts]))


def bank(**sizes: int) -> list[Prompt]:
    return [prompt(f"{source}-{i:02d}", source) for source, n in sizes.items() for i in range(n)]


def test_the_words_on_disk_become_members() -> None:
    """Words become members; ids end up in file names and HTML, so only safe ones pass."""
    read = prompt(expected_behavior="abstain", tags=["heart", "dose"])
    assert read.expected_behavior is ExpectedBehavior.ABSTAIN
    assert read.tags == ("heart", "dose")
    for made, name, words, value in ROWS:
        with pytest.raises(DataError, match=words):
            made(**{name: value})


REFUSED: dict[tuple[Callable[..., object], str, str], list[object]] = {
    (prompt, "prompt_id", r"prompt_id .* is not a valid id; allowed: 1 to 128"): BAD_IDS,
    (prompt, "source", "source .* is not a valid id"): BAD_IDS,
    (response, "entrant_id", "entrant_id .* is not valid"):
        ["", "a|b", " a", "a ", "=1+1", "+a", "-a", "@a", "a\nb", "a" * 257, 1, None],
    (response, "prompt_id", "prompt_id .* is not a valid id"): BAD_IDS,
    (prompt, "expected_behavior", r"unknown expected_behavior .*hedge, answer, abstain"): [
        "HEDGE", "", "refuse", 1, ["hedge"]
    ],
    (prompt, "text", "the text of prompt p1 must be a non-empty"): ["", " \n\t", None, 5, ["Why?"]],
    (prompt, "tags", "tags"): ["heart", 5, [1, 2]],
    (response, "response_text", "response_text of p1 must be a"): [None, 5, ["So."]],
}  # fmt: skip
ROWS = [(*key, value) for key, values in REFUSED.items() for value in values]


@settings(max_examples=30, deadline=None)
@given(st.floats() | st.integers(-2, 2) | st.sampled_from(["0.5", True, [0.5]]))
def test_p_correct_is_a_probability(value: Any) -> None:
    """A number from 0 to 1 passes, with both ends; nothing else does, NaN included."""
    if type(value) in (int, float) and 0 <= value <= 1:
        assert response(p_correct=value).p_correct == value
    else:
        with pytest.raises(DataError, match=r"p_correct .* is not a number from 0 to 1"):
            response(p_correct=value)


@settings(max_examples=30, deadline=None)
@example(["a", "b", "b:c", "c"], {"p", "p:a"})  # p, a, b:c reads like p:a, b, c
@given(st.lists(ids, min_size=2, max_size=4, unique=True), st.sets(ids, min_size=1, max_size=3))
def test_every_pair_has_its_own_id(entrants: list[str], prompts: set[str]) -> None:
    """Whatever characters ids are made of; a pair is in name order."""
    pairs = [
        Pair(dimension=dimension, prompt_id=prompt_id, entrant_a=a, entrant_b=b)
        for a, b in combinations(sorted(entrants), 2)
        for prompt_id in prompts
        for dimension in ("facts", "tone")
    ]
    assert len({p.pair_id for p in pairs}) == len(pairs)
    for first, second in [("b", "a"), ("a", "a")]:
        with pytest.raises(DataError, match="two entrants in name order"):
            Pair(dimension="d", prompt_id="p", entrant_a=first, entrant_b=second)


def test_a_missing_response_costs_its_prompt_or_its_pairs() -> None:
    """All of its prompt listwise, two of three pairwise; one without a gold answer is not lost."""
    for missing, kept, counts, lost_prompts, lost_pairs in (
        ("listwise", set(), (3, 3), ("q2", "q3"), (3, 6)),
        ("pairwise", {("q2", "ash", "cherry"), ("q3", "beech", "cherry")}, (4, 5), (), (2, 4)),
    ):
        prompts = [prompt("q1"), prompt("q2"), prompt("q3", gold_answer=None)]
        have = cells(ENTRANTS, prompts) - {("beech", "q2"), ("ash", "q3")}
        pairing = build_pairs(prompts, ENTRANTS, have, GOLD_ONLY, missing=missing)
        tone = {
            (p.prompt_id, p.entrant_a, p.entrant_b) for p in pairing.pairs if p.dimension == "tone"
        }
        assert {row for row in tone if row[0] != "q1"} == kept
        assert pairing.counts() == dict(zip(GOLD_ONLY, counts, strict=True))
        assert pairing.missing == (("beech", "q2"), ("ash", "q3"))
        assert pairing.dropped_prompts == lost_prompts
        assert pairing.dropped_pairs == dict(zip(GOLD_ONLY, lost_pairs, strict=True))


def test_the_limit_keeps_the_first_pairs_of_each_dimension() -> None:
    """A limit of four keeps the first four of each dimension; barred entrants meet nobody."""
    prompts = [prompt("q1"), prompt("q2")]
    whole, some, more = (
        build_pairs(prompts, ENTRANTS, cells(ENTRANTS, prompts), GOLD_ONLY, limit=limit)
        for limit in (0, 4, 99)
    )
    assert some.pairs == whole.pairs[:4] + whole.pairs[6:10]
    assert some.dropped_pairs == {"facts": 0, "tone": 0}
    turned = build_pairs(prompts, ENTRANTS[::-1], cells(ENTRANTS, prompts), GOLD_ONLY)
    assert more == whole == turned
    prompts = [prompt("q1"), prompt("q2")]
    have = cells(ENTRANTS, prompts) - {("ash", "q2")}
    pairing = build_pairs(prompts, ENTRANTS, have, {"tone": False}, barred={"cherry"})
    [pair] = pairing.pairs
    assert (pair.prompt_id, pair.entrant_a, pair.entrant_b) == ("q1", "ash", "beech")
    assert (pairing.barred, pairing.dropped_pairs) == ({"tone": 4}, {"tone": 1})
    with pytest.raises(DataError, match="of the judge's own family"):
        build_pairs(prompts, ENTRANTS, have, {"tone": False}, barred={"cherry", "ash"})


def test_a_tournament_without_a_pair_is_refused() -> None:
    """A tournament without a pair, and a stratum that cannot serve, is refused by name."""
    for entrants, words in (
        *((some, "two or more entrants, got") for some in ([], ["ash"], ["ash", "ash"])),
        (ENTRANTS, "no pair can be judged: 3 responses are missing"),
    ):
        with pytest.raises(DataError, match=words):
            build_pairs([prompt("q1")], entrants, set(), {"tone": False})
    for strata, words in (
        ({"x": 2, "y": 10}, "stratum 'y' has 9 prompts in the bank, but 10 were"),
        ({"nowhere": 1}, "stratum 'nowhere' has 0 prompts in the bank, but 1 were"),
        ({"x": -1}, "stratum 'x' has 12 prompts in the bank, but -1 were"),
        ({"x": 0, "y": 0}, "select no prompt at all"),
    ):
        with pytest.raises(DataError, match=words):
            select_subset(bank(x=12, y=9), strata, seed=0)


def test_the_whole_shipped_bank_makes_2274_pairs() -> None:
    """Four entrants make 93 x 6 factuality pairs and 143 x 6 on each other dimension."""
    prompts = banks.read_prompts(SAMPLE / "prompts.jsonl")
    entrants = ["aspen", "birch", "cedar", "dogwood"]
    have = banks.read_responses(SAMPLE / "responses", entrants, [p.prompt_id for p in prompts])
    dimensions = {"factuality": True, "calibration": False, "clinical_utility": False}
    pairing = build_pairs(prompts, entrants, have, dimensions)
    assert pairing.counts() == {"factuality": 558, "calibration": 858, "clinical_utility": 858}
    assert len(pairing.pairs) == 93 * 6 + 143 * 6 * 2 == 2274
    assert pairing.missing == ()


def names(prompts: list[Prompt], source: str) -> set[str]:
    return {p.prompt_id for p in prompts if p.source == source}


def test_a_subset_is_decided_by_its_seed() -> None:
    """The same seed draws the same prompts, also from a bank in another order; others differ."""
    prompts = bank(x=20, y=20)
    drawn = [
        frozenset(p.prompt_id for p in select_subset(prompts, {"x": 5, "y": 5}, seed))
        for seed in range(8)
    ]
    chosen = select_subset(prompts, {"y": 5, "x": 5}, 3)
    assert Counter(p.source for p in chosen) == {"x": 5, "y": 5}
    assert chosen == [p for p in prompts if p in chosen], "in bank order"
    again = select_subset(prompts[::-1], {"x": 5, "y": 5}, 3)
    assert ({p.prompt_id for p in again}, len(set(drawn))) == (drawn[3], 8)


@settings(max_examples=20, deadline=None)
@given(small=st.integers(0, 12), more=st.integers(0, 12), seed=st.integers(0, 2**32))
def test_asking_for_more_only_adds(small: int, more: int, seed: int) -> None:
    """Growing one stratum keeps what it had, and every other stratum stays as it was."""
    prompts = bank(x=12, y=9)
    few, many = sorted((small, more))
    before = select_subset(prompts, {"x": few, "y": 4}, seed)
    after = select_subset(prompts, {"y": 4, "x": many}, seed)
    assert names(before, "x") <= names(after, "x")
    assert (len(names(after, "x")), names(before, "y")) == (many, names(after, "y"))
