"""Which pairs are judged, which prompts a run draws, and what is lost for want of a response."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit.files import DataError
from arena_kit.judging.pairs.pairing import build_pairs, select_subset
from arena_kit.judging.pairs.prompts import Prompt, read_prompts, read_responses
from tests.samples import SAMPLE

ENTRANTS = ["ash", "beech", "cherry"]
GOLD_ONLY = {"facts": True, "tone": False}


def prompt(prompt_id: str, source: str = "plain", gold: str | None = "Yes.") -> Prompt:
    return Prompt(prompt_id=prompt_id, text="Is it so?", source=source, gold_answer=gold)


def cells(entrants: list[str], prompts: list[Prompt]) -> set[tuple[str, str]]:
    return set(product(entrants, [p.prompt_id for p in prompts]))


def bank(**sizes: int) -> list[Prompt]:
    return [prompt(f"{source}-{i:02d}", source) for source, n in sizes.items() for i in range(n)]


def ids(prompts: list[Prompt], source: str) -> set[str]:
    return {p.prompt_id for p in prompts if p.source == source}


def test_barred_entrants_meet_nobody_and_are_counted_apart_from_what_is_missing() -> None:
    """Without cherry one pair is left on each prompt, and two are counted as barred; a response
    that is missing besides is counted as before.
    """
    prompts = [prompt("q1"), prompt("q2")]
    have = cells(ENTRANTS, prompts) - {("ash", "q2")}
    pairing = build_pairs(prompts, ENTRANTS, have, {"tone": False}, barred={"cherry"})
    assert [(p.prompt_id, p.entrant_a, p.entrant_b) for p in pairing.pairs] == [
        ("q1", "ash", "beech")
    ]
    assert (pairing.barred, pairing.dropped_pairs) == ({"tone": 4}, {"tone": 1})
    with pytest.raises(DataError, match="of the judge's own family"):
        build_pairs(prompts, ENTRANTS, have, {"tone": False}, barred={"cherry", "ash"})


@settings(max_examples=20, deadline=None)
@given(
    entrants=st.permutations(["e1", "e2", "e3", "e4", "e5"]).flatmap(
        lambda names: st.integers(2, 5).map(lambda n: names[:n])
    ),
    n_prompts=st.integers(1, 4),
)
def test_pairs_are_all_combinations_whatever_the_order_of_entrants(
    entrants: list[str], n_prompts: int
) -> None:
    """N entrants on m prompts make m times n-choose-2 distinct pairs, in name order."""
    prompts = bank(plain=n_prompts)
    pairing = build_pairs(prompts, entrants, cells(entrants, prompts), {"tone": False})
    assert len(set(pairing.pairs)) == len(pairing.pairs) == n_prompts * comb(len(entrants), 2)
    assert all(pair.entrant_a < pair.entrant_b for pair in pairing.pairs)


def test_a_gold_only_dimension_uses_only_prompts_with_a_gold_answer() -> None:
    """A prompt without a gold answer is paired on the other dimensions alone, and not as lost."""
    prompts = [prompt("with"), prompt("without", gold=None)]
    pairing = build_pairs(prompts, ENTRANTS, cells(ENTRANTS, prompts), GOLD_ONLY)
    assert pairing.counts() == {"facts": 3, "tone": 6}
    assert {p.prompt_id for p in pairing.pairs if p.dimension == "facts"} == {"with"}
    assert pairing.dropped_pairs == {"facts": 0, "tone": 0}


def test_listwise_leaves_the_whole_prompt_out() -> None:
    """One missing response costs all pairs of its prompt in every dimension."""
    prompts = [prompt("q1"), prompt("q2"), prompt("q3", gold=None)]
    have = cells(ENTRANTS, prompts) - {("beech", "q2"), ("ash", "q3")}
    pairing = build_pairs(prompts, ENTRANTS, have, GOLD_ONLY, missing="listwise")
    assert {p.prompt_id for p in pairing.pairs} == {"q1"}
    assert pairing.counts() == {"facts": 3, "tone": 3}
    assert pairing.missing == (("beech", "q2"), ("ash", "q3"))
    assert pairing.dropped_prompts == ("q2", "q3")
    assert pairing.dropped_pairs == {"facts": 3, "tone": 6}


def test_pairwise_leaves_out_only_the_pairs_that_lack_a_response() -> None:
    """One missing response of three entrants costs two of the three pairs of its prompt."""
    prompts = [prompt("q1"), prompt("q2"), prompt("q3", gold=None)]
    have = cells(ENTRANTS, prompts) - {("beech", "q2"), ("ash", "q3")}
    pairing = build_pairs(prompts, ENTRANTS, have, GOLD_ONLY, missing="pairwise")
    kept = {(p.prompt_id, p.entrant_a, p.entrant_b) for p in pairing.pairs if p.dimension == "tone"}
    assert {k for k in kept if k[0] != "q1"} == {("q2", "ash", "cherry"), ("q3", "beech", "cherry")}
    assert pairing.counts() == {"facts": 4, "tone": 5}
    assert pairing.missing == (("beech", "q2"), ("ash", "q3"))
    assert pairing.dropped_prompts == ()
    assert pairing.dropped_pairs == {"facts": 2, "tone": 4}


def test_no_pair_left_is_an_error_that_counts_the_missing_responses() -> None:
    """When missing responses leave no pair, the message says how many are missing."""
    with pytest.raises(DataError, match="no pair can be judged: 3 responses are missing"):
        build_pairs([prompt("q1")], ENTRANTS, set(), {"tone": False})


def test_the_limit_keeps_the_first_pairs_of_each_dimension() -> None:
    """A limit of four keeps four pairs per dimension, the first ones, and loses none."""
    prompts = [prompt("q1"), prompt("q2")]
    have = cells(ENTRANTS, prompts)
    whole = build_pairs(prompts, ENTRANTS, have, GOLD_ONLY)
    some = build_pairs(prompts, ENTRANTS, have, GOLD_ONLY, limit=4)
    assert some.counts() == {"facts": 4, "tone": 4}
    assert some.pairs == whole.pairs[:4] + whole.pairs[6:10]
    assert some.dropped_pairs == {"facts": 0, "tone": 0}
    assert build_pairs(prompts, ENTRANTS, have, GOLD_ONLY, limit=0) == whole
    assert build_pairs(prompts, ENTRANTS, have, GOLD_ONLY, limit=99) == whole


@pytest.mark.parametrize("entrants", [[], ["ash"], ["ash", "ash"]])
def test_fewer_than_two_entrants_are_refused(entrants: list[str]) -> None:
    """A tournament of nobody, of one, or of one named twice is refused."""
    prompts = [prompt("q1")]
    with pytest.raises(DataError, match="two or more entrants, got"):
        build_pairs(prompts, entrants, cells(entrants, prompts), {"tone": False})


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
    assert {p.prompt_id for p in again} == drawn[3]
    assert len(set(drawn)) == 8


@settings(max_examples=20, deadline=None)
@given(small=st.integers(0, 12), more=st.integers(0, 12), seed=st.integers(0, 2**32))
def test_asking_for_more_only_adds_and_leaves_other_strata_alone(
    small: int, more: int, seed: int
) -> None:
    """Growing one stratum keeps what it had, and every other stratum stays as it was."""
    prompts = bank(x=12, y=9)
    few, many = sorted((small, more))
    before = select_subset(prompts, {"x": few, "y": 4}, seed)
    after = select_subset(prompts, {"y": 4, "x": many}, seed)
    assert ids(before, "x") <= ids(after, "x")
    assert len(ids(after, "x")) == many
    assert ids(before, "y") == ids(after, "y")


@pytest.mark.parametrize(
    ("strata", "words"),
    [
        ({"x": 2, "y": 10}, "stratum 'y' has 9 prompts in the bank, but 10 were"),
        ({"nowhere": 1}, "stratum 'nowhere' has 0 prompts in the bank, but 1 were"),
        ({"x": -1}, "stratum 'x' has 12 prompts in the bank, but -1 were"),
        ({"x": 0, "y": 0}, "select no prompt at all"),
    ],
)
def test_a_stratum_that_cannot_serve_is_named(strata: dict[str, int], words: str) -> None:
    """A stratum that is too small, unknown or asked for nonsense is named with its size."""
    with pytest.raises(DataError, match=words):
        select_subset(bank(x=12, y=9), strata, seed=0)


def test_the_whole_shipped_bank_makes_2274_pairs() -> None:
    """Four entrants make 93 x 6 factuality pairs and 143 x 6 on each other dimension."""
    prompts = read_prompts(SAMPLE / "prompts.jsonl")
    entrants = ["aspen", "birch", "cedar", "dogwood"]
    have = read_responses(SAMPLE / "responses", entrants, [p.prompt_id for p in prompts])
    dimensions = {"factuality": True, "calibration": False, "clinical_utility": False}
    pairing = build_pairs(prompts, entrants, have, dimensions)
    assert pairing.counts() == {"factuality": 558, "calibration": 858, "clinical_utility": 858}
    assert len(pairing.pairs) == 93 * 6 + 143 * 6 * 2 == 2274
    assert pairing.missing == ()
