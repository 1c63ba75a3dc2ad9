"""How many votes an order rests on."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from arena_kit import BattleLog, BradleyTerry, RatingError
from arena_kit.rating.claims.power import Fragile, fragility

PLAIN = BradleyTerry(prior=0)


def counted(*rows: tuple[str, str, int, int, int]) -> BattleLog:
    """A log of wins, losses and ties of each pair."""
    a, b, won, lost, tied = zip(*rows, strict=True)
    return BattleLog.from_counts(a, b, won, lost, tied)


def test_two_models_by_hand() -> None:
    """Of 30 wins and 10 losses, 21 wins less leave 9 to 10."""
    for ties in (0, 7):
        found = fragility(counted(("x", "y", 30, 10, ties)))
        assert found.first == Fragile(
            above="x", below="y", removed=21, added=21, between=40 + ties, of=40 + ties
        )
        assert found.neighbours == (found.first,)


def turns(table: np.ndarray, change: tuple[int, ...]) -> bool:
    """Whether the second of three models is above the first once these votes are gone."""
    left = table.ravel() - np.array(change)
    pairs = (("a", "b"), ("a", "c"), ("b", "c"))
    rows = [(*pair, *n) for pair, n in zip(pairs, left.reshape(3, 3).tolist(), strict=True)]
    strength = PLAIN.strengths(counted(*rows))
    return bool(strength[1] > strength[0] + 1e-9)


def test_no_smaller_choice_turns_the_order_round() -> None:
    """All choices of fewer votes, tried one by one, leave the order; one of as many does not."""
    table = np.array([[6, 4, 2], [9, 3, 1], [8, 4, 1]])
    pairs = (("a", "b"), ("a", "c"), ("b", "c"))
    log = counted(*((*pair, *n) for pair, n in zip(pairs, table.tolist(), strict=True)))
    (found, _) = fragility(log, PLAIN).neighbours
    assert (found.above, found.below) == ("a", "b")
    assert found.removed is not None
    choices = list(product(*(range(min(n, found.removed) + 1) for n in table.ravel())))
    fewer = [c for c in choices if 0 < sum(c) < found.removed]
    assert not any(turns(table, choice) for choice in fewer)
    assert any(turns(table, choice) for choice in choices if sum(choice) == found.removed)


def test_the_first_place_may_fall_to_another_than_the_second() -> None:
    """The third has met the first a few times only, and needs fewer votes than the second."""
    log = counted(
        ("a", "b", 5200, 4800, 0),
        ("c", "d", 4, 3, 0),
        ("a", "d", 6000, 4000, 0),
        ("b", "d", 5800, 4200, 0),
    )
    found = fragility(log)
    assert found.first.below == "c"
    assert found.first.removed is not None
    assert found.first.removed < 10


def test_votes_that_keep_a_third_finite_are_not_the_only_ones() -> None:
    """Where the most influential votes cannot go, others turn the two round all the same."""
    rows = [("a", "b", 60, 40, 0), ("a", "z", 99, 0, 0), ("b", "z", 98, 2, 0)]
    (found, _) = fragility(counted(*rows)).neighbours
    assert (found.above, found.below) == ("a", "b")
    assert found.removed is not None
    for fewer, turned in ((found.removed, True), (found.removed - 1, False)):
        left = BradleyTerry(prior=0)(counted(("a", "b", 60 - fewer, 40, 0), *rows[1:]))
        assert (left.order[0] == "b") is turned


def test_what_cannot_be_told_is_refused() -> None:
    """Ties of their own, covariates and soft outcomes have no votes to count."""
    log = counted(("x", "y", 3, 2, 2))
    with pytest.raises(RatingError, match="fragility needs ties='half'"):
        fragility(log, BradleyTerry(ties="davidson"))
    with pytest.raises(RatingError, match="no soft outcomes"):
        fragility(replace(log, share_a=np.full(len(log), 0.5)))


def test_in_words() -> None:
    """The sentence names both ways, how much that is of the votes between the two."""
    found = Fragile(above="x", below="y", removed=3, added=5, between=750, of=40_000)
    assert found.sentence == (
        "3 battles removed or 5 added would put y above x, 0.4% of the 750 between the two."
    )
    one = replace(found, removed=None, added=1)
    assert one.sentence == "1 battle added would put y above x, 0.13% of the 750 between the two."
    every = Fragile(above="x", below="y", removed=8, added=None, between=8, of=20)
    assert every.sentence == "8 battles removed would put y above x, 100% of the 8 between the two."
    far = replace(found, removed=1200, added=None)
    assert far.sentence == "1,200 battles removed would put y above x; the two met 750 times."
    assert replace(far, between=0).sentence.endswith("would put y above x; they never met.")
    never = replace(found, removed=None, added=None)
    assert never.sentence == "No choice of battles puts y above x."
