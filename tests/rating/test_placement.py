"""Placement: closed forms, the score equation, what holds the arena in place, and what refuses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student_t

from arena_kit import Battle, BattleLog, BradleyTerry, Placement, RatingError, Source
from tests.samples import NEW, all_pairs, drawn, judged, won
from tests.samples import log_of as log

UNIT = 400 / math.log(10)
SANDWICH = BradleyTerry()
ALWAYS = BradleyTerry(prior_when="always")
PLAIN = BradleyTerry(prior=0)


def rooted(rise: Callable[[float], float]) -> float:
    """Where a falling function crosses zero, by bisection."""
    low, high = -60.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if rise(middle) > 0 else (low, middle)
    return (low + high) / 2


def place_of(
    anchors: Mapping[str, float], games: Sequence[tuple[str, float, float]], prior: float
) -> float:
    """The rating at which expected wins equal wins; games are (opponent, share won, weight)."""
    every = [*games, *((m, 0.5, 2 * prior) for m in {m for m, _, _ in games})]

    def surplus(rating: float) -> float:
        return sum(
            weight * (share - 1 / (1 + 10 ** ((anchors[m] - 1000 * rating) / 400)))
            for m, share, weight in every
        )

    return 1000 * rooted(surplus)


ARENA = log(won("x", "y", 30, 10))
TRIO = log(won("x", "y", 30, 12, 4) + won("y", "z", 25, 14, 6) + won("x", "z", 28, 9, 3))
TO_TRIO = judged(won(NEW, "x", 8, 14, 3) + won("y", NEW, 9, 12, 2) + won(NEW, "z", 15, 4, 1))


def placement(**changes: object) -> Placement:
    return Placement(**{"model": NEW, "min_battles": 0, "method": SANDWICH} | changes)  # type: ignore[arg-type]


def test_one_opponent_by_hand() -> None:
    """3 wins and 1 loss are 400 log10(3.5 / 1.5) points above the opponent with half a win added
    to both sides, and 400 log10(3) without, or where the prior is not needed.
    """
    verdicts = judged(won(NEW, "x", 3, 1))
    for method, odds in ((ALWAYS, 3.5 / 1.5), (SANDWICH, 3), (PLAIN, 3)):
        found = placement(method=method)(ARENA, verdicts)
        gap = found.anchored[NEW].rating - found.human["x"].rating
        assert gap == pytest.approx(400 * math.log10(odds))


def test_the_others_keep_the_ratings_of_people() -> None:
    """With the others held fixed, they have exactly the rows of the fit to human votes alone."""
    found = placement()(TRIO, TO_TRIO)
    people = SANDWICH(TRIO)
    for model in ("x", "y", "z"):
        assert found.anchored[model] == found.human[model] == people[model]
    assert set(found.anchored.models) == {NEW, "x", "y", "z"}
    assert [r.rating for r in found.anchored.ratings] == sorted(
        (r.rating for r in found.anchored.ratings), reverse=True
    )


outcomes = st.sampled_from(["model_a", "model_b", "tie"])
weights = st.sampled_from([1.0, 1.0, 0.5, 3.0])
shares = st.none() | st.floats(0, 1)
verdict_lists = st.lists(
    st.tuples(st.sampled_from("xyz"), outcomes, weights, shares, st.booleans()),
    min_size=1,
    max_size=25,
)


@settings(max_examples=30, deadline=None)
@given(verdict_lists, st.sampled_from([0.1, 0.5, 3.0]))
def test_the_place_solves_its_equation(
    rows: list[tuple[str, str, float, float | None, bool]], prior: float
) -> None:
    """The place is where the wins expected against fixed opponents equal the wins taken: ties,
    weights, soft outcomes and the prior included. Bisection finds the same.
    """
    other = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
    battles, games = [], []
    for n, (opponent, winner, weight, share, turned) in enumerate(rows):
        taken = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}[winner] if share is None else share
        games.append((opponent, taken, weight))
        battles.append(
            Battle(
                model_a=opponent if turned else NEW,
                model_b=NEW if turned else opponent,
                winner=other[winner] if turned else winner,  # type: ignore[arg-type]
                question_id=f"j{n}",
                weight=weight,
                share_a=None if share is None else 1 - share if turned else share,
            )
        )
    method = BradleyTerry(prior=prior, prior_when="always")
    found = placement(method=method)(TRIO, BattleLog.from_battles(battles))
    anchors = {m: found.human[m].rating for m in ("x", "y", "z")}
    assert found.anchored[NEW].rating == pytest.approx(place_of(anchors, games, prior), abs=1e-6)


def test_the_standard_error_by_hand() -> None:
    """Against one opponent, w wins and l losses have the variance 1/w + 1/l of a log-odds (times
    n/(n-1) for n questions), and the opponent's own variance comes on top. The interval takes
    Student's t with n - 1 degrees of freedom.
    """
    found = placement(method=PLAIN)(ARENA, judged(won(NEW, "x", 24, 16)))
    own = UNIT**2 * (1 / 24 + 1 / 16) * 40 / 39
    anchor = UNIT**2 * (1 / 30 + 1 / 10) * 40 / 39 / 4
    mine = found.anchored[NEW]
    se = math.sqrt(own + anchor)
    assert mine.extra["se"] == pytest.approx(se, rel=1e-9)
    assert mine.ci_high - mine.rating == pytest.approx(student_t.ppf(0.975, 39) * se, rel=1e-7)
    assert mine.rating - mine.ci_low == pytest.approx(student_t.ppf(0.975, 39) * se, rel=1e-7)


def test_anchors_pull_as_finite_differences_say() -> None:
    """The covariance of the place with each anchor is that of the anchors, carried over by how
    the place moves when one of them is moved a little.
    """
    found = placement(method=ALWAYS)(TRIO, TO_TRIO)
    anchors = {m: found.human[m].rating for m in ("x", "y", "z")}
    share = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}
    games = [
        (b.model_b, share[b.winner], 1.0)
        if b.model_a == NEW
        else (b.model_a, 1 - share[b.winner], 1.0)
        for b in TO_TRIO.to_battles()
    ]
    pull = np.array(
        [
            (
                place_of(anchors | {m: anchors[m] + 0.5}, games, 0.5)
                - place_of(anchors | {m: anchors[m] - 0.5}, games, 0.5)
            )
            for m in ("x", "y", "z")
        ]
    )
    assert pull.sum() == pytest.approx(1, abs=1e-5), "all anchors up is the place up"
    people = ALWAYS(TRIO).covariance
    covariance = found.anchored.covariance
    assert people is not None
    assert covariance is not None
    rest = [found.anchored.models.index(m) for m in ("x", "y", "z")]
    at = found.anchored.models.index(NEW)
    assert covariance[at, rest] == pytest.approx(pull @ people, rel=1e-4)
    assert covariance[np.ix_(rest, rest)] == pytest.approx(people)


def test_intervals_cover_the_truth() -> None:
    """Of 80 simulated arenas the 95 % interval holds the planted rating of the placed model in
    at least 88 % (three standard errors below 95 %), both ways of placing.
    """
    skill = {f"m{i}": 1000 + 60.0 * (i - 2.5) for i in range(6)}
    pairs, rng = all_pairs(list(skill)), np.random.default_rng(7)
    meets = [(NEW, m) for m in ("m0", "m2", "m5")]
    covered = np.zeros(2)
    for _ in range(80):
        arena = drawn(rng, skill, pairs, 400)
        verdicts = drawn(rng, skill | {NEW: 1080.0}, meets, 120, "j", Source.LLM_JUDGE)
        found = placement(method=PLAIN)(arena, verdicts)
        rows = [found.joint[NEW], found.anchored[NEW]]
        covered += [row.ci_low <= 1080 <= row.ci_high for row in rows]
    assert (covered / 80 >= 0.88).all(), covered


@pytest.mark.parametrize(("votes", "counted"), [(499, False), (500, True)])
def test_enough_battles(votes: int, counted: bool) -> None:
    """A model with 500 human battles is ranked, one with 499 is left out and listed."""
    rows = won("x", "y", 400, 200) + won("z", "x", votes - votes // 2, votes // 2)
    verdicts = judged(won(NEW, "x", 10, 10) + won(NEW, "z", 7, 5))
    found = Placement(model=NEW, method=SANDWICH)(log(rows), verdicts)
    assert ("z" in found.human.models) is counted
    assert found.left_out == ({} if counted else {"z": 499})
    assert found.unused == {
        "judged, of other models": 0,
        "judged, against a model left out": 0 if counted else 12,
    }
    assert found.n_judged == (32 if counted else 20)


def test_what_is_not_used_is_counted() -> None:
    """Judged battles of other models, and those against a model that people hardly know or do
    not know at all, count for nothing and are counted.
    """
    votes = log(won("x", "y", 30, 20) + won("rare", "x", 1, 2))
    extra = won(NEW, "rare", 3, 1) + won("x", "y", 50, 0) + won("stranger", NEW, 5, 0)
    used = won(NEW, "x", 9, 6)
    found = placement(min_battles=10)(votes, judged(used + extra))
    plain = placement(min_battles=10)(votes, judged(used))
    assert found.left_out == {"rare": 3}
    assert found.unused == {"judged, of other models": 50, "judged, against a model left out": 9}
    assert found.joint.ratings == plain.joint.ratings
    assert found.anchored.ratings == plain.anchored.ratings


HIDDEN = log(won(NEW, "x", 20, 5) + won("z", NEW, 3, 19), "hidden")


@pytest.mark.parametrize(
    "change",
    [
        lambda hidden: hidden.select([]),
        lambda hidden: replace(hidden, outcome=1 - hidden.outcome),
        lambda hidden: BattleLog.joined(hidden, hidden, hidden),
        lambda hidden: replace(hidden, weight=np.full(len(hidden), 900.0)),
    ],
    ids=["removed", "turned round", "three times", "weighted"],
)
@pytest.mark.parametrize("least", [0, 86])
def test_votes_on_the_model_are_set_aside(
    change: Callable[[BattleLog], BattleLog], least: int
) -> None:
    """Whatever people voted on the placed model, nothing but `hidden` moves: no rating, no
    interval, and not who is left out.
    """
    verdicts = TO_TRIO
    method = BradleyTerry(interval="percentile", resamples=100)
    one, other = (
        placement(min_battles=least, method=method)(BattleLog.joined(TRIO, votes), verdicts)
        for votes in (HIDDEN, change(HIDDEN))
    )
    assert one.joint.ratings == other.joint.ratings
    assert np.array_equal(one.joint.replicates, other.joint.replicates)
    assert one.anchored.ratings == other.anchored.ratings
    assert one.left_out == other.left_out
    assert one.hidden is not None
    assert one.hidden != other.hidden


def test_both_bad_and_inconsistent_follow_the_method() -> None:
    """A both-bad verdict and an inconsistent judgment are half a win or nothing, as the method
    says, and what is dropped is counted.
    """
    rows = [
        *(Battle(model_a=NEW, model_b="x", winner=w, question_id=f"j{n}")  # type: ignore[arg-type]
          for n, (_, _, w) in enumerate(won(NEW, "x", 6, 2))),
        Battle(model_a=NEW, model_b="x", winner="both_bad", question_id="b"),  # type: ignore[arg-type]
        Battle(model_a="x", model_b=NEW, winner="tie", question_id="i", inconsistent=True),  # type: ignore[arg-type]
    ]  # fmt: skip
    verdicts = BattleLog.from_battles(rows)
    for both_bad, inconsistent, won_lost in (
        ("tie", "tie", (7, 3)),
        ("tie", "drop", (6.5, 2.5)),
        ("exclude", "tie", (6.5, 2.5)),
        ("exclude", "drop", (6, 2)),
    ):
        method = replace(PLAIN, both_bad=both_bad, inconsistent=inconsistent)
        found = placement(method=method)(ARENA, verdicts)
        gap = 400 * math.log10(won_lost[0] / won_lost[1])
        assert found.anchored[NEW].rating - found.human["x"].rating == pytest.approx(gap)
        assert found.anchored.dropped == found.joint.dropped
        assert found.anchored.dropped == {
            "tie": 0,
            "both_bad": int(both_bad == "exclude"),
            "inconsistent": int(inconsistent == "drop"),
        }


def test_order_sides_and_names_do_not_matter() -> None:
    """Battles in reverse, with sides swapped and models renamed, place the model alike."""
    before = placement()(TRIO, TO_TRIO)

    def turned(battles: BattleLog) -> BattleLog:
        other = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
        names = {"x": "one", "y": "two", "z": "a third", NEW: "4"}
        return BattleLog.from_battles(
            replace(
                b, model_a=names[b.model_b], model_b=names[b.model_a], winner=other[b.winner]
            )
            for b in reversed(list(battles.to_battles()))
        )  # fmt: skip

    after = placement(model="4")(turned(TRIO), turned(TO_TRIO))
    for mine, theirs in ((before.joint, after.joint), (before.anchored, after.anchored)):
        assert theirs["4"].rating == pytest.approx(mine[NEW].rating, abs=1e-8)
        assert theirs["4"].extra["se"] == pytest.approx(mine[NEW].extra["se"])
        assert theirs["a third"].rating == pytest.approx(mine["z"].rating, abs=1e-8)


def test_votes_on_one_question_give_no_interval() -> None:
    """Where all human votes are on one question nobody knows how sure the anchors are; then the
    place has no interval either (and never a NaN, which no JSON holds).
    """
    votes = BattleLog.from_battles(
        Battle(model_a=a, model_b=b, winner=w, question_id="only")  # type: ignore[arg-type]
        for a, b, w in won("x", "y", 30, 10)
    )
    found = placement()(votes, judged(won(NEW, "x", 24, 16))).anchored[NEW]
    assert math.isfinite(found.rating)
    assert found.ci_low is None
    assert found.extra["se"] is None


@pytest.mark.parametrize("result", ["won", "lost"])
def test_without_a_prior_straight_results_have_no_place(result: str) -> None:
    """A model that won (or lost) every battle has no finite place without a prior; the sentence
    says what to do, with a prior there is a place.
    """
    rows = won(NEW, "x", 12, 0) if result == "won" else won(NEW, "x", 0, 12)
    with pytest.raises(RatingError, match=r"set a prior above 0$"):
        placement(method=PLAIN)(ARENA, judged(rows))
    assert math.isfinite(placement()(ARENA, judged(rows)).anchored[NEW].rating)


def one_sentence(error: BaseException) -> bool:
    return "\n" not in str(error) and len(str(error)) > 20


def test_a_model_that_the_judge_does_not_know() -> None:
    """The sentence names the model, those that were judged, and the arena."""
    with pytest.raises(
        RatingError, match=r"no judged battle of 'oak'.*judged models:.*arena:"
    ) as e:
        placement(model="oak")(TRIO, TO_TRIO)
    assert one_sentence(e.value)
    assert all(name in str(e.value) for name in ("new", "x", "y", "z"))


def test_nothing_of_the_model_counts() -> None:
    """A model with inconsistent judgments only has no rating, and the sentence says so."""
    verdicts = BattleLog.from_battles(
        Battle(model_a=NEW, model_b="x", winner="tie", question_id=f"j{n}", inconsistent=True)  # type: ignore[arg-type]
        for n in range(30)
    )
    with pytest.raises(RatingError, match=r"new.*30 inconsistent dropped") as caught:
        placement()(TRIO, verdicts)
    assert one_sentence(caught.value)


def test_an_arena_of_nobody() -> None:
    """No two models with enough votes: the sentence says how many the most had."""
    with pytest.raises(RatingError, match=r"no two models have 500 human battles.*is 91$") as e:
        Placement(model=NEW)(TRIO, TO_TRIO)
    assert one_sentence(e.value)
    with pytest.raises(RatingError, match="no two models have 1 human"):
        placement(min_battles=1)(TRIO.select([]), TO_TRIO)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"min_battles": -1}, "min_battles must be 0 or more, not -1"),
        ({"method": BradleyTerry(ties="davidson")}, "ties 'half'"),
        ({"method": BradleyTerry(covariates=("length",))}, "no covariates"),
        ({"method": BradleyTerry(baseline="x")}, "must not name a baseline"),
        ({"method": BradleyTerry(center_on=("x",))}, "must not name a baseline or center_on"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, object], why: str) -> None:
    """A setting that has no meaning here is refused by name."""
    with pytest.raises(ValueError, match=why):
        placement(**changes)


# What is known beside the evidence
