"""Placement: closed forms, the score equation, what holds the arena in place, and what refuses."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import t as student_t

from arena_kit import Battle, BattleLog, BradleyTerry, RatingError
from arena_kit.rating.claims.claims import gaps
from arena_kit.rating.with_judge.placement import JudgeError, Placement
from tests.samples import NEW, judged, won
from tests.samples import log_of as log

UNIT = 400 / math.log(10)
SANDWICH = BradleyTerry()
ALWAYS = BradleyTerry(prior_when="always")
PLAIN = BradleyTerry(prior=0)


def place_of(
    anchors: Mapping[str, float], games: Sequence[tuple[str, float, float]], prior: float
) -> float:
    """The rating at which expected wins equal wins; games are (opponent, share won, weight)."""
    every = [*games, *((m, 0.5, 2 * prior) for m in {m for m, _, _ in games})]

    def surplus(rating: float) -> float:
        chances = {m: 1 / (1 + 10 ** ((anchors[m] - rating) / 400)) for m, _, _ in every}
        return sum(weight * (share - chances[m]) for m, share, weight in every)

    return float(brentq(surplus, -60_000, 60_000, xtol=1e-10))


ARENA = log(won("x", "y", 30, 10))
TRIO = log(won("x", "y", 30, 12, 4) + won("y", "z", 25, 14, 6) + won("x", "z", 28, 9, 3))
TO_TRIO = judged(won(NEW, "x", 8, 14, 3) + won("y", NEW, 9, 12, 2) + won(NEW, "z", 15, 4, 1))


def placement(**changes: object) -> Placement:
    return Placement(**{"model": NEW, "min_battles": 0, "method": SANDWICH} | changes)  # type: ignore[arg-type]


def test_one_opponent_by_hand() -> None:
    """3:1 is 400 log10(3), or 3.5:1.5 with a prior; the variance is 1/w + 1/l and the anchor's."""
    verdicts = judged(won(NEW, "x", 3, 1))
    for method, odds in ((ALWAYS, 3.5 / 1.5), (SANDWICH, 3), (PLAIN, 3)):
        found = placement(method=method)(ARENA, verdicts)
        gap = found.anchored[NEW].rating - found.human["x"].rating
        assert gap == pytest.approx(400 * math.log10(odds))
    found = placement(method=PLAIN)(ARENA, judged(won(NEW, "x", 24, 16)))
    own = UNIT**2 * (1 / 24 + 1 / 16) * 40 / 39
    anchor = UNIT**2 * (1 / 30 + 1 / 10) * 40 / 39 / 4
    mine = found.anchored[NEW]
    se = math.sqrt(own + anchor)
    assert mine.extra["se"] == pytest.approx(se, rel=1e-9)
    assert mine.ci_high - mine.rating == pytest.approx(student_t.ppf(0.975, 39) * se, rel=1e-7)
    assert mine.rating - mine.ci_low == pytest.approx(student_t.ppf(0.975, 39) * se, rel=1e-7)


outcomes = st.sampled_from(["model_a", "model_b", "tie"])
weights = st.sampled_from([1.0, 1.0, 0.5, 3.0])
shares = st.none() | st.floats(0, 1)
verdict_rows = st.tuples(st.sampled_from("xyz"), outcomes, weights, shares, st.booleans())
OTHER = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
TAKEN = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}


@settings(max_examples=15, deadline=None)
@given(st.lists(verdict_rows, min_size=1, max_size=25), st.sampled_from([0.1, 0.5, 3.0]))
def test_the_place_solves_its_equation(
    rows: list[tuple[str, str, float, float | None, bool]], prior: float
) -> None:
    """The place is where the wins expected against fixed opponents equal the wins taken."""
    battles, games = [], []
    for n, (opponent, winner, weight, share, turned) in enumerate(rows):
        games.append((opponent, TAKEN[winner] if share is None else share, weight))
        a, b = (opponent, NEW) if turned else (NEW, opponent)
        seen = OTHER[winner] if turned else winner
        side = 1 - share if share is not None and turned else share
        battles.append(Battle(model_a=a, model_b=b, winner=seen, question_id=f"j{n}",  # type: ignore[arg-type]
                              weight=weight, share_a=side))  # fmt: skip
    method = BradleyTerry(prior=prior, prior_when="always")
    found = placement(method=method)(TRIO, BattleLog.from_battles(battles))
    anchors = {m: found.human[m].rating for m in ("x", "y", "z")}
    assert found.anchored[NEW].rating == pytest.approx(place_of(anchors, games, prior), abs=1e-6)


def test_anchors_pull_as_finite_differences_say() -> None:
    """The covariance of the place with each anchor is carried over by finite differences."""
    found, people = placement(method=ALWAYS)(TRIO, TO_TRIO), ALWAYS(TRIO)
    assert set(found.anchored.models) == {NEW, "x", "y", "z"}
    for model in ("x", "y", "z"):
        assert found.anchored[model] == found.human[model] == people[model]
    anchors = {m: found.human[m].rating for m in ("x", "y", "z")}
    games = [
        (b.model_b, TAKEN[b.winner], 1.0) if b.model_a == NEW
        else (b.model_a, 1 - TAKEN[b.winner], 1.0)
        for b in TO_TRIO.to_battles()
    ]  # fmt: skip

    def moved(model: str, by: float) -> float:
        return place_of(anchors | {model: anchors[model] + by}, games, 0.5)

    pull = np.array([moved(m, 0.5) - moved(m, -0.5) for m in ("x", "y", "z")])
    assert pull.sum() == pytest.approx(1, abs=1e-5), "all anchors up is the place up"
    covariance = found.anchored.covariance
    rest = [found.anchored.models.index(m) for m in ("x", "y", "z")]
    at = found.anchored.models.index(NEW)
    assert covariance[at, rest] == pytest.approx(pull @ people.covariance, rel=1e-4)
    assert covariance[np.ix_(rest, rest)] == pytest.approx(people.covariance)


@pytest.mark.parametrize(("votes", "counted"), [(499, False), (500, True)])
def test_enough_battles(votes: int, counted: bool) -> None:
    """A model with 500 human battles is ranked, one with 499 is left out."""
    people = log(won("x", "y", 400, 200) + won("z", "x", votes - votes // 2, votes // 2))
    used, of_z = won(NEW, "x", 10, 10), won(NEW, "z", 7, 5)
    extra = won("x", "y", 50, 0) + won("stranger", NEW, 5, 0)
    place = Placement(model=NEW, method=SANDWICH)
    found = place(people, judged(used + of_z + extra))
    assert ("z" in found.human.models) is counted
    assert found.left_out == ({} if counted else {"z": 499})
    of_rare = 0 if counted else 12
    left = {"judged, of other models": 50, "judged, against a model left out": 5 + of_rare}
    assert (found.unused, found.n_judged) == (left, 32 if counted else 20)
    plain = place(people, judged(used + of_z if counted else used))
    assert found.joint.ratings == plain.joint.ratings
    assert found.anchored.ratings == plain.anchored.ratings


HIDDEN = log(won(NEW, "x", 20, 5) + won("z", NEW, 3, 19), "hidden")


@pytest.mark.parametrize("least", [0, 86])
def test_votes_on_the_model_are_set_aside(least: int) -> None:
    """Votes on the placed model move nothing but `hidden`, not who is left out."""
    place = placement(min_battles=least, method=BradleyTerry(interval="percentile", resamples=100))
    turned = replace(HIDDEN, outcome=1 - HIDDEN.outcome, weight=np.full(len(HIDDEN), 900.0))
    one, other = (place(BattleLog.joined(TRIO, votes), TO_TRIO) for votes in (HIDDEN, turned))
    assert one.joint.ratings == other.joint.ratings
    assert np.array_equal(one.joint.replicates, other.joint.replicates)
    assert (one.anchored.ratings, one.left_out) == (other.anchored.ratings, other.left_out)
    assert one.hidden != other.hidden


def test_hidden_is_what_people_say() -> None:
    """`hidden` is the fit of all votes; both-bad and inconsistent follow the method."""
    votes = BattleLog.joined(TRIO, HIDDEN)
    found = placement()(votes, TO_TRIO).hidden
    assert found == replace(SANDWICH, center_on=("x", "y", "z"))(votes)[NEW]
    assert placement()(TRIO, TO_TRIO).hidden is None
    elsewhere = BattleLog.joined(TRIO, log(won(NEW, "rare", 5, 5), "hidden"))
    assert placement(min_battles=20)(elsewhere, TO_TRIO).hidden is None
    votes = BattleLog.from_battles(replace(b, question_id="only") for b in ARENA.to_battles())
    found = placement()(votes, judged(won(NEW, "x", 24, 16))).anchored[NEW]
    assert math.isfinite(found.rating)
    assert (found.ci_low, found.extra["se"]) == (None, None)
    odd = {"model_a": NEW, "model_b": "x"}
    rows = [
        Battle(**odd, winner="both_bad", question_id="b"),  # type: ignore[arg-type]
        Battle(**odd, winner="tie", question_id="i", inconsistent=True),  # type: ignore[arg-type]
    ]
    verdicts = BattleLog.joined(judged(won(NEW, "x", 6, 2)), BattleLog.from_battles(rows))
    for both_bad, inconsistent in product(("tie", "exclude"), ("tie", "drop")):
        method = replace(PLAIN, both_bad=both_bad, inconsistent=inconsistent)
        found = placement(method=method)(ARENA, verdicts)
        dropped = {"both_bad": both_bad == "exclude", "inconsistent": inconsistent == "drop"}
        half = (2 - sum(dropped.values())) / 2
        gap = 400 * math.log10((6 + half) / (2 + half))
        assert found.anchored[NEW].rating - found.human["x"].rating == pytest.approx(gap)
        assert found.anchored.dropped == found.joint.dropped == {"tie": 0} | dropped


FLIPPED = BattleLog.from_battles(
    Battle(model_a=NEW, model_b="x", winner="tie", question_id=f"j{n}", inconsistent=True)  # type: ignore[arg-type]
    for n in range(30)
)


def test_what_has_no_place_is_refused() -> None:
    """Who won or lost all, or is not judged, has no place; settings without meaning are named."""
    for changes, votes, verdicts, why in (
        ({"method": PLAIN}, ARENA, judged(won(NEW, "x", 12, 0)), r"set a prior above 0$"),
        ({"method": PLAIN}, ARENA, judged(won(NEW, "x", 0, 12)), r"set a prior above 0$"),
        ({"model": "oak"}, TRIO, TO_TRIO, r"no judged .*'oak'.*judged models:.*new.*arena:.*x, y"),
        ({}, TRIO, FLIPPED, r"new.*30 inconsistent dropped"),
        ({"min_battles": 500}, TRIO, TO_TRIO, r"no two models have 500 human battles.*is 91$"),
        ({"min_battles": 1}, TRIO.select([]), TO_TRIO, "no two models have 1 human"),
    ):
        with pytest.raises(RatingError, match=why) as caught:
            placement(**changes)(votes, verdicts)
        assert "\n" not in str(caught.value)
        if "method" in changes:
            assert math.isfinite(placement()(votes, verdicts).anchored[NEW].rating)
    for changes, why in (
        ({"min_battles": -1}, "min_battles must be 0 or more, not -1"),
        ({"method": BradleyTerry(ties="davidson")}, "ties 'half'"),
        ({"method": BradleyTerry(covariates=("length",))}, "no covariates"),
        ({"method": BradleyTerry(baseline="x")}, "must not name a baseline"),
        ({"method": BradleyTerry(center_on=("x",))}, "must not name a baseline or center_on"),
    ):
        with pytest.raises(ValueError, match=why):
            placement(**changes)


@pytest.mark.parametrize("interval", ["sandwich", "percentile"])
def test_what_is_shown_holds_the_judges_error(interval: str) -> None:
    """A judge's error widens the shown interval and all gaps to the model, nobody else's."""
    method = BradleyTerry(interval=interval, resamples=500)  # type: ignore[arg-type]
    plain = placement(method=method)(TRIO, TO_TRIO)
    placed = replace(plain, judge_error=JudgeError(sd=120.0, n_models=6, n_shared=300))
    assert plain.shown is plain.joint
    for shown, evidence in ((placed.shown, placed.joint), (placed.shown_anchored, placed.anchored)):
        wide, narrow = gaps(shown), gaps(replace(evidence, profile=None))
        at = shown.models.index(NEW)
        others = [i for i in range(len(shown.models)) if i != at]
        assert shown.order == evidence.order
        for i in others:
            half = (narrow.high[at, i] - narrow.low[at, i]) / 2
            wanted = math.hypot(half, 1.959963984540054 * 120)
            assert (wide.high[at, i] - wide.low[at, i]) / 2 == pytest.approx(wanted, rel=0.05)
            assert abs(wide.above[at, i] - 0.5) < abs(narrow.above[at, i] - 0.5) + 0.02
            assert shown[shown.models[i]] == evidence[shown.models[i]]
        pairs = np.ix_(others, others)
        assert np.array_equal(wide.low[pairs], narrow.low[pairs])
        se = math.hypot(evidence[NEW].extra["se"] or 0, 120)
        assert shown[NEW].extra["se"] == pytest.approx(se)
        assert shown[NEW].ci_high == pytest.approx(shown[NEW].rating + 1.959963984540054 * se)
