"""Ties as outcomes of their own: published fits, closed forms, and a naive twin of it all."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import BattleLog, BradleyTerry, RatingError
from arena_kit.rating.base import Ratings
from arena_kit.rating.bradley_terry.likelihood import TIE_MODELS, Terms
from tests.naive import Naive, chances
from tests.samples import log_of

UNIT = 400 / math.log(10)
DAVIDSON = BradleyTerry(ties="davidson")
quick = settings(max_examples=20, deadline=None)
counts = st.integers(1, 5_000)


def two(wins: float, ties: float, losses: float) -> BattleLog:
    """Counts of two models."""
    return BattleLog.from_counts(["x"], ["y"], [wins], [losses], [ties])


def gap(found: Ratings) -> float:
    return (found["x"].rating - found["y"].rating) / UNIT


START = [
    ("m0", "m1", "tie"), ("m1", "m2", "model_a"), ("m2", "m1", "tie"), ("m2", "m3", "model_b")
]  # fmt: skip
tournaments = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(1, 3),
        st.sampled_from(["model_a", "model_b", "tie", "both_bad"]),
    ),
    max_size=25,
).map(lambda rows: START + [(f"m{a}", f"m{(a + k) % 4}", winner) for a, k, winner in rows])


gap_values = st.floats(-6, 6)
cell = st.tuples(*[st.floats(0, 50)] * 3)


def terms(ties: str, eta: float, t: float, won: float, tied: float, lost: float) -> Terms:
    one = [np.array([value]) for value in (won, tied, lost)]
    found = TIE_MODELS[ties].terms(np.array([eta]), t, *one)
    return Terms(*(float(each[0]) for each in found))  # type: ignore[arg-type]


def value(ties: str, eta: float, t: float, won: float, tied: float, lost: float) -> float:
    one = [np.array([each]) for each in (won, tied, lost)]
    return float(TIE_MODELS[ties].value(np.array([eta]), t, *one)[0])


@pytest.mark.parametrize("ties", TIE_MODELS)
@quick
@given(gap_values, st.floats(0.05, 3), cell)
def test_slopes_and_curvatures_are_derivatives(
    ties: str, eta: float, t: float, outcomes: tuple[float, float, float]
) -> None:
    """Slopes are the differences of the likelihood, curvatures minus those of the slopes."""
    h = 1e-5
    here = terms(ties, eta, t, *outcomes)
    in_eta = [terms(ties, eta + s * h, t, *outcomes) for s in (1, -1)]
    in_t = [terms(ties, eta, t + s * h, *outcomes) for s in (1, -1)]
    rise = value(ties, eta + h, t, *outcomes) - value(ties, eta - h, t, *outcomes)
    rise_in_t = value(ties, eta, t + h, *outcomes) - value(ties, eta, t - h, *outcomes)

    def difference(pair: list[Terms], name: str) -> float:
        return float((getattr(pair[0], name) - getattr(pair[1], name)) / (2 * h))

    close = {"rel": 1e-5, "abs": 1e-4}
    assert here.eta == pytest.approx(rise / (2 * h), **close)
    assert here.eta_eta == pytest.approx(-difference(in_eta, "eta"), **close)
    if ties == "half":
        assert (here.t, here.eta_t, here.t_t, rise_in_t) == (0, 0, 0, 0)
        return
    assert here.t == pytest.approx(rise_in_t / (2 * h), **close)
    assert here.t_t == pytest.approx(-difference(in_t, "t"), **close)
    assert here.eta_t == pytest.approx(-difference(in_t, "eta"), **close)
    assert here.eta_t == pytest.approx(-difference(in_eta, "t"), **close)


@quick
@given(gap_values, st.floats(0.05, 3))
def test_the_three_chances_are_the_papers_and_sum_to_one(eta: float, t: float) -> None:
    """The likelihood of a single win, tie and loss is the chance that the paper gives it."""
    found = [math.exp(value("davidson", eta, t, *outcome)) for outcome in np.eye(3)]
    assert sum(found) == pytest.approx(1, abs=1e-12)
    assert found == pytest.approx(chances("davidson", eta, t), rel=1e-9)


def closed(wins: float, tied: float, losses: float) -> tuple[float, float]:
    """Gap and tie parameter of two models."""
    return math.log(wins / losses), math.log(tied / math.sqrt(wins * losses))


@quick
@given(counts, counts, counts)
def test_two_models(wins: int, ties: int, losses: int) -> None:
    """Gap and tie parameter are those of the closed form."""
    found = replace(DAVIDSON, prior=0)(two(wins, ties, losses))
    assert (gap(found), found.fit["tie"]) == pytest.approx(closed(wins, ties, losses), abs=1e-7)


def test_the_prior_adds_wins_and_no_ties() -> None:
    """50-30-20 is fitted as 50.5, 30, 20.5; no tie, no prior and soft outcomes are refused."""
    method, always = DAVIDSON, replace(DAVIDSON, prior_when="always")
    for counted in ((5, 3, 0), (0, 3, 0)):
        with pytest.raises(RatingError):
            replace(method, prior=0)(two(*counted))
    for found, counted in (
        (always(two(50, 30, 20)), (50.5, 30, 20.5)),
        (method(two(50, 30, 20)), (50, 30, 20)),
        (method(two(50, 30, 0)), (50.5, 30, 0.5)),
        (method(two(0, 30, 0)), (0.5, 30, 0.5)),
        (replace(method, prior=2)(two(0, 30, 7)), (2, 30, 9)),
    ):
        assert (gap(found), found.fit["tie"]) == pytest.approx(closed(*counted), abs=1e-7)
    tieless = BattleLog.from_counts(["x"], ["y"], [5.0], [3.0], 0, [4.0])
    soft = replace(two(1, 1, 1), share_a=np.array([0.4, 0.5, 0.6]))
    for battles, why in (
        (two(5, 0, 3), "cannot be fitted: no battle is a tie"),
        (tieless, "cannot be fitted: no battle is a tie"),
        (soft, "needs wins, losses and ties, not soft"),
    ):
        with pytest.raises(RatingError, match=f"ties='davidson' {why}"):
            replace(DAVIDSON, both_bad="exclude")(battles)


@pytest.mark.parametrize("when", ["needed", "always"])
@pytest.mark.parametrize("ties", TIE_MODELS)
@settings(max_examples=12, deadline=None)
@given(rows=tournaments)
def test_the_fit_is_a_peak(ties: str, when: str, rows: list[tuple[str, str, str]]) -> None:
    """At the fit the plain sum over battles, with half wins where they are due, has no slope."""
    battles = log_of(rows)
    naive = Naive(battles, ties, 0.5, only_needed=when == "needed")
    found = BradleyTerry(ties=ties, prior_when=when)(battles)  # type: ignore[arg-type]
    theta = naive.parameters(found)
    assert np.abs(naive.slope(theta)).max() < 1e-6
    mean = -sum(naive.rows(theta)) / len(rows)
    assert found.fit["nll"] == pytest.approx(mean, abs=1e-10)
