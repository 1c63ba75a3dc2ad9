"""Prompts, responses and pairs: what each accepts, and how it refuses the rest."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arena_kit.files import DataError
from arena_kit.judging.pairs.prompts import ExpectedBehavior, Pair, Prompt, Response


def prompt(**changes: object) -> Prompt:
    fields: dict[str, object] = {"prompt_id": "p1", "text": "Why?", "source": "plain"}
    return Prompt(**(fields | changes))  # type: ignore[arg-type]


def response(**changes: object) -> Response:
    fields: dict[str, object] = {"entrant_id": "ash", "prompt_id": "p1", "response_text": "So."}
    return Response(**(fields | changes))  # type: ignore[arg-type]


def pair(entrant_a: str, entrant_b: str, prompt_id: str = "p1", dimension: str = "facts") -> Pair:
    return Pair(dimension=dimension, prompt_id=prompt_id, entrant_a=entrant_a, entrant_b=entrant_b)


BAD_IDS = ["", "../x", "a..b", "p 1", "p1\n", "<b>", "é", "x" * 129, 1, None]


# Prompts


def test_the_words_on_disk_become_members() -> None:
    """A behaviour given as text is a member, and a list of tags is a fixed tuple."""
    read = prompt(expected_behavior="abstain", tags=["heart", "dose"])
    assert read.expected_behavior is ExpectedBehavior.ABSTAIN
    assert read.tags == ("heart", "dose")


@pytest.mark.parametrize("value", ["HEDGE", "", "refuse", 1, ["hedge"]])
def test_an_unknown_behaviour_is_refused(value: object) -> None:
    """A behaviour outside the three is an error that lists them."""
    with pytest.raises(DataError, match=r"unknown expected_behavior .*hedge, answer, abstain"):
        prompt(expected_behavior=value)


@pytest.mark.parametrize("value", BAD_IDS)
@pytest.mark.parametrize(
    ("made", "name"),
    [(prompt, "prompt_id"), (prompt, "source"), (response, "entrant_id"), (response, "prompt_id")],
)
def test_ids_are_checked(made: Callable[..., object], name: str, value: object) -> None:
    """Ids end up in file names and HTML, so only safe ones pass."""
    with pytest.raises(DataError, match=rf"{name} .* is not a valid id; allowed: 1 to 128"):
        made(**{name: value})


@pytest.mark.parametrize("value", ["", " \n\t", None, 5, ["Why?"]])
def test_a_prompt_asks_something(value: object) -> None:
    """A prompt whose text is empty, blank or not text is refused by its id."""
    with pytest.raises(DataError, match="the text of prompt p1 must be a non-empty string"):
        prompt(text=value)


@pytest.mark.parametrize("tags", ["heart", 5, [1, 2]])
def test_tags_are_a_list_of_words(tags: object) -> None:
    """One word in place of a list is refused, not taken apart into letters."""
    with pytest.raises(DataError, match="tags"):
        prompt(tags=tags)


# Responses


@pytest.mark.parametrize("value", [None, 5, ["So."]])
def test_a_response_is_text(value: object) -> None:
    """A response that is not text is refused, naming its prompt."""
    with pytest.raises(DataError, match="response_text of p1 must be a"):
        response(response_text=value)


@settings(max_examples=30, deadline=None)
@given(st.floats() | st.integers(-2, 2) | st.sampled_from(["0.5", True, [0.5]]))
def test_p_correct_is_a_probability(value: Any) -> None:
    """A number from 0 to 1 passes, with both ends; nothing else does, NaN included."""
    if type(value) in (int, float) and 0 <= value <= 1:
        assert response(p_correct=value).p_correct == value
    else:
        with pytest.raises(DataError, match=r"p_correct .* is not a number from 0 to 1"):
            response(p_correct=value)


# Pairs


def test_a_pair_is_in_name_order() -> None:
    """Pairs are unordered, so there is one way to write each."""
    for first, second in [("beech", "ash"), ("ash", "ash")]:
        with pytest.raises(DataError, match="two entrants in name order"):
            pair(first, second)


ids = st.text(st.sampled_from("ab:/"), min_size=1, max_size=5)


@settings(max_examples=30, deadline=None)
@example(["a", "b", "b:c", "c"], {"p", "p:a"})  # p, a, b:c reads like p:a, b, c
@given(st.lists(ids, min_size=2, max_size=4, unique=True), st.sets(ids, min_size=1, max_size=3))
def test_every_pair_has_its_own_id(entrants: list[str], prompts: set[str]) -> None:
    """Within a tournament no two pairs share an id, whatever characters ids are made of."""
    pairs = [
        pair(a, b, prompt_id, dimension)
        for a, b in combinations(sorted(entrants), 2)
        for prompt_id in prompts
        for dimension in ("facts", "tone")
    ]
    assert len({p.pair_id for p in pairs}) == len(pairs)
