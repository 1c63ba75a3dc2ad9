"""Which orders of a board are decided: verdicts, what is missing, and the present rate of votes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from arena_kit.policy.constants import Policy, Publication
from arena_kit.policy.order import Verdict, neighbour_orders, order_status, votes_per_week
from tests.samples import rated_by_hand, timed, votes_on

POLICY = Policy()
BOARD = "abcdefghi"
RATINGS = dict(zip(BOARD, (1700.0, 1650.0, 1649.0, 1600.0, 1640.0, 1595.0, 1500.0, 1498.0, 1520.0),
                   strict=True))  # fmt: skip
ERRORS = dict.fromkeys(BOARD, 10.0) | {"g": 4.0, "h": 4.0}
#: Ratings known to 10 points have gaps known to 14.14. Two neighbours by rating are decided from
#: 2.807 standard errors on (39.70 points), the ends of three from 3.131 on (44.28).
VERDICTS = {
    "ab": Verdict.DECIDED,  # 50 points, neighbours
    "bc": Verdict.OPEN,  # 1 point
    "cd": Verdict.DECIDED,  # 49 points over three models: c, e, d
    "de": Verdict.REVERSED,  # e is 40 points above d
    "ef": Verdict.DECIDED,  # 45 points over three models: e, d, f
    "fg": Verdict.DECIDED,  # 95 points
    "gh": Verdict.EQUIVALENT,  # 2 points ± 5.66: 18 / 5.66 = 3.18 standard errors inside 20
    "hi": Verdict.OPEN,  # i is 22 points above h, ± 10.77: 2.04 standard errors
}
STRENGTHS = rated_by_hand(RATINGS, ERRORS)


def test_neighbours_of_a_board_by_hand() -> None:
    """The board's own neighbours are judged, whatever their places by rating."""
    found = neighbour_orders(POLICY, BOARD, STRENGTHS)
    assert {pair.above + pair.below: pair.verdict for pair in found} == VERDICTS
    assert [pair.gap for pair in found] == [50, 1, 49, -40, 45, 95, 2, -22]
    assert {pair.above for pair in found if not pair.settled} == {"b", "d", "h"}


def test_missing_votes_by_hand() -> None:
    """1 ± 14.14 is equivalent at (39.70 / 19)² times, 22 ± 10.77 decided at 2.349 times."""
    found = {p.above + p.below: p for p in neighbour_orders(POLICY, BOARD, STRENGTHS, 500.0)}
    assert found["bc"].becomes is Verdict.EQUIVALENT
    assert found["bc"].more == pytest.approx(3366, abs=5)
    assert found["bc"].weeks == pytest.approx(3366 / 500, abs=0.01)
    assert found["bc"].needs == (
        "about 3,400 more votes (about 7 weeks at the present rate) until they are equivalent"
    )
    assert found["hi"].becomes is Verdict.REVERSED
    assert found["hi"].more == pytest.approx(1349, abs=5)
    assert found["ab"].more is found["ab"].becomes is found["ab"].weeks is None
    without = {p.above + p.below: p for p in neighbour_orders(POLICY, BOARD, STRENGTHS)}
    assert without["hi"].needs == "about 1,300 more votes until it is decided the other way round"
    strict = replace(POLICY, publication=Publication(margin=0.0))
    (pair,) = neighbour_orders(strict, "bc", STRENGTHS)
    assert pair.becomes is Verdict.DECIDED
    assert pair.more == pytest.approx(1000 * (39.70**2 - 1), rel=1e-3)


def test_the_order_of_the_top_in_a_sentence() -> None:
    """Decided, equivalent, turned round and open are counted, those against the board named."""
    found = order_status(POLICY, BOARD, STRENGTHS, 500.0)
    assert not found.whole
    assert found.sentence == (
        "4 of 8 neighbours of the top 9 are decided, 1 equivalent within 20 points, 1 decided the "
        "other way round, 2 open; in Bradley–Terry's own order 4 of 8 are decided or equivalent; "
        "against the board the votes decide e above d; the next, h over "
        "i, takes about 1,300 more votes (about 3 weeks at the present rate) until it is decided "
        "the other way round; claims are about prompts like these"
    )
    assert [pair.above for pair in found.by_votes] == list("abcedfig")
    assert [pair.settled for pair in found.by_votes] == [
        True,  # a over b, 50 points
        False,  # b over c, 1
        False,  # c over e, 9
        True,  # e over d, 40
        False,  # d over f, 5
        True,  # f over i, 75
        False,  # i over g, 20
        True,  # g over h, equivalent
    ]
    whole = order_status(
        POLICY, "abdf", rated_by_hand({"a": 300.0, "b": 200.0, "d": 100.0, "f": 0.0})
    )
    assert whole.whole
    assert whole.counts == (
        "3 of 3 neighbours of the top 4 are decided, 0 equivalent within 20 points, 0 open"
    )


def test_what_is_not_known_is_open() -> None:
    """Without an interval, or unconnected, a model is decided against nobody."""
    strengths = rated_by_hand({"a": 900.0, "b": 0.0}, {"a": float("nan"), "b": 10.0})
    for names in ("ab", "bz"):
        (pair,) = neighbour_orders(POLICY, names, strengths, 500.0)
        assert pair.verdict is Verdict.OPEN
        assert pair.gap is None
        assert pair.needs == "too little evidence for any claim"
    (equal,) = neighbour_orders(
        replace(POLICY, publication=Publication(margin=0.0)),
        "xy",
        rated_by_hand({"x": 0.0, "y": 0.0}),
    )
    assert equal.needs == "no number of votes in reach would settle it"
    nobody = order_status(POLICY, ["a"], strengths)
    assert not nobody.whole
    assert nobody.sentence == "no two models are rated, so no order can be decided"


def test_the_present_rate_of_votes() -> None:
    """Of the last four weeks, both-bad left out: 9 votes a day are 63 a week."""
    busy = [("x", "y", "!" if n % 10 == 0 else "ab"[n % 2], "q") for n in range(400)]
    votes = timed(votes_on(*busy), days=40)
    assert votes_per_week(votes) == pytest.approx(63, abs=0.5)
    assert votes.timestamp is not None
    early = np.where(np.arange(400) < 100, votes.timestamp[0], votes.timestamp)
    assert votes_per_week(replace(votes, timestamp=early)) == pytest.approx(63, abs=0.5)
    assert votes_per_week(timed(votes_on(*busy), days=0.5)) is None
    assert votes_per_week(votes_on(*busy)) is None
