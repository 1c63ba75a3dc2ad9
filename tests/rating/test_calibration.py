"""Calibration: what a verdict is worth, how far a judge errs, and what real judges are worth."""

import csv
import gzip
import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

from arena_kit import BattleLog, BradleyTerry, RatingError, read_battles
from arena_kit.battles.battle import Source
from arena_kit.battles.log import Labels
from arena_kit.rating.with_judge.placement import (
    MIN_MODELS,
    MIN_SHARED,
    Calibration,
    JudgeError,
    Placement,
    calibrated,
    judge_error,
)
from tests import naive
from tests.samples import NEW, World, all_pairs, drawn, steps

METHOD = BradleyTerry()


def others(log: BattleLog) -> BattleLog:
    at = log.models.index(NEW)
    return log.select((log.a != at) & (log.b != at))


@pytest.mark.slow  # a simulation; the temperature itself is tested by hand
def test_a_judge_that_is_too_sure_is_toned_down() -> None:
    """Toned down, a judge that overstates every gap places a model much nearer to the truth."""
    world = World([*steps(6, 50), 150.0], 2500, seed=1)
    full, soft = (abs(world.placed_error(world.sure(), soft=each)) for each in (False, True))
    assert soft < 0.5 * full
    found = calibrated(others(world.human), world.sure(), METHOD)
    assert 0.5 < found.worth < 0.9
    assert found.nll_human <= found.nll < found.nll_full
    world = World(steps(6, 60), 3000, ties=0.15)
    found = calibrated(world.human, world.human.of_source(Source.LLM_JUDGE), METHOD)
    assert found.worth > 0.999
    assert (found.agreement, found.n_shared) == (1, 3000)
    assert found.nll == pytest.approx(found.nll_human, abs=1e-6)
    assert found.nll_full == pytest.approx(found.nll_human, abs=1e-12)


def naive_nll(
    votes: list[tuple[int, int, float]], verdicts: list[tuple[int, int, float]], n: int
) -> float:
    """Mean negative log-likelihood of votes under strengths by verdicts."""
    rating = naive.bradley_terry(verdicts, n, 0.5)
    wins = [1 / (1 + 10 ** ((rating[b] - rating[a]) / 400)) for a, b, _ in votes]
    both = zip(votes, wins, strict=True)
    return -float(np.mean([v * math.log(p) + (1 - v) * math.log(1 - p) for (*_, v), p in both]))


def test_the_temperature_is_the_best_one() -> None:
    """An independent fit has its lowest loss, and the same losses, at our temperature."""
    world = World(steps(4, 70), 600, seed=5, ties=0.1)
    verdicts = world.sure()
    found = calibrated(world.human, verdicts, BradleyTerry(prior_when="always"))
    share = {0: 1.0, 1: 0.0, 2: 0.5, 3: 0.5}

    def rows(log: BattleLog, temperature: float | None = None) -> list[tuple[int, int, float]]:
        taken = [share[int(o)] for o in log.outcome]
        if temperature is not None:
            taken = [1 / (1 + math.exp(-(2 * s - 1) / temperature)) for s in taken]
        return list(zip(log.a.tolist(), log.b.tolist(), taken, strict=True))

    votes = rows(world.human)
    grid = found.temperature * np.array([0.5, 0.8, 0.95, 1, 1.05, 1.25, 2])
    losses = [naive_nll(votes, rows(verdicts, t), 4) for t in grid]
    assert int(np.argmin(losses)) == 3
    assert found.nll == pytest.approx(losses[3], abs=1e-9)
    assert found.nll_full == pytest.approx(naive_nll(votes, rows(verdicts), 4), abs=1e-9)
    assert found.nll_human == pytest.approx(naive_nll(votes, votes, 4), abs=1e-9)


def test_what_a_verdict_is_worth() -> None:
    """At temperature 1 a verdict is 1 / (1 + 1/e) of a win; errors of 24, 32 and 30 are 50."""
    rest = {"n_shared": 1, "agreement": 1.0, "nll": 0.0, "nll_full": 0.0, "nll_human": 0.0}
    one = Calibration(temperature=1.0, log_error=0.1, **rest)  # type: ignore[arg-type]
    log = World(steps(3, 10), 6).log(np.array([0, 1, 2, 3, 0, 1]))
    win = 1 / (1 + math.exp(-1))
    assert one.worth == pytest.approx(win)
    soft = one.applied(log)
    assert soft.share_a == pytest.approx([win, 1 - win, 0.5, 0.5, win, 1 - win])
    assert np.array_equal(soft.outcome, log.outcome)
    assert log.share_a is None
    world = World([*steps(6, 50), 90.0], 2000)
    placed = Placement(model=NEW, min_battles=0, method=METHOD)(world.human, world.sure())
    row = placed.joint[NEW]

    def with_row(**changes: Any) -> Any:
        rows = [replace(r, **changes) if r == row else r for r in placed.joint.ratings]
        error = JudgeError(sd=24.0, n_models=6, n_shared=2000)
        joint = replace(placed.joint, ratings=tuple(rows))
        return replace(placed, joint=joint, judge_error=error, calibration_error=32.0)

    known = with_row(extra={"se": 30.0})
    wide = known.cautious
    assert (wide.rating, wide.extra["se"]) == (row.rating, pytest.approx(50))
    for end in (wide.ci_high - row.rating, row.rating - wide.ci_low):
        assert end == pytest.approx(1.959963984540054 * 50)
    assert replace(known, judge_error=None).cautious is None
    assert with_row(ci_low=None, ci_high=None, extra={"se": None}).cautious is None


@pytest.mark.slow  # fifty experiments, each calibrated and placed
def test_the_temperature_is_not_known_exactly() -> None:
    """Places of one judge in repeated experiments spread as their standard errors say."""
    rng = np.random.default_rng(5)
    skill = {f"m{i}": 1000 + 60 * (i - 2.5) for i in range(6)} | {NEW: 1150.0}
    sure = {model: 1000 + 2.5 * (rating - 1000) for model, rating in skill.items()}
    arena, trio = all_pairs([m for m in skill if m != NEW]), ["m0", "m2", "m5"]
    places, errors = [], []
    for _ in range(50):
        shared = drawn(rng, skill, all_pairs(trio), 280, "s")
        human = BattleLog.joined(drawn(rng, skill, arena, 4000), shared)
        strength = np.array([sure[model] for model in shared.models])
        chance = 1 / (1 + 10 ** ((strength[shared.b] - strength[shared.a]) / 400))
        said = replace(shared, outcome=(rng.random(280) > chance).astype(np.int8))
        own = drawn(rng, sure, [(NEW, model) for model in trio], 240, "j")
        verdicts = BattleLog.joined(said, own).of_source(Source.LLM_JUDGE)
        found = Placement(model=NEW, min_battles=0, soft=True, method=METHOD)(human, verdicts)
        places.append(found.joint[NEW].rating)
        errors.append(found.shown[NEW].extra["se"])
    assert np.std(places, ddof=1) < 1.2 * np.mean(errors)


def other_questions(log: BattleLog) -> BattleLog:
    return replace(log, question_id=Labels.of(f"other{k}" for k in range(len(log))))


def test_shared_by_question_and_models() -> None:
    """Battles are shared by question and models, each once, however often it was judged."""
    for change, n in (
        (lambda log: replace(log, question_id=None), 0),
        (other_questions, 0),
        (lambda log: replace(log, models=("u", "v", "w")), 0),
        (lambda log: log.select(np.arange(MIN_SHARED - 1)), MIN_SHARED - 1),
        (lambda log: log.select(np.arange(MIN_SHARED)), MIN_SHARED),
        (lambda log: BattleLog.joined(log, log), 400),
        (lambda log: replace(log, outcome=np.full(400, 2, np.int8)), 400),
    ):
        world = World(steps(3, 60), 400)
        verdicts = change(world.sure())
        if n >= MIN_SHARED:
            found = calibrated(world.human, verdicts, METHOD)
            assert json.loads(json.dumps(asdict(found), allow_nan=False))["n_shared"] == n
            continue
        with pytest.raises(RatingError, match=f"need 200 battles .* found {n}$") as caught:
            calibrated(world.human, verdicts, METHOD)
        assert "\n" not in str(caught.value)


def test_only_other_models_calibrate() -> None:
    """The placed model's own verdicts calibrate nothing; a judge's error of 40 points is found."""
    world = World([*steps(7, 50), 90.0], 900, 4)
    verdicts = world.judged(1.5 * world.skill)
    at = world.human.models.index(NEW)
    own = (world.human.a == at) | (world.human.b == at)
    human = replace(
        world.human, outcome=np.where(own, 1 - world.human.outcome, world.human.outcome)
    )
    placement = Placement(model=NEW, min_battles=0, soft=True, method=METHOD)
    one = placement(world.human, verdicts)
    two = placement(human, verdicts)
    assert one.calibration == two.calibration
    assert one.calibration == calibrated(others(world.human), others(verdicts), METHOD)
    assert one.judge_error == two.judge_error
    assert one.hidden != two.hidden
    found, planted = errors(40, n=4000, sims=6)
    assert found == pytest.approx(planted, rel=0.2)
    assert errors(0, n=4000, sims=4)[0] < 25


@pytest.mark.parametrize("n_models", [MIN_MODELS - 1, MIN_MODELS])
def test_the_error_needs_models(n_models: int) -> None:
    """Nothing is said about a judge's error on fewer than five models."""
    world = World(steps(n_models, 50), 2000)
    found = judge_error(world.human, world.sure(), METHOD, None)
    assert (found is not None) is (n_models >= MIN_MODELS)
    assert judge_error(other_questions(world.human), world.sure(), METHOD, None) is None


def errors(sd: float, n: int, sims: int) -> tuple[float, float]:
    """Root mean square of the error found, and of the one that Student's t asks for."""
    found, planted = [], []
    for seed in range(sims):
        world = World(steps(10, 30), n, 100 + seed)
        own = world.rng.normal(0, sd, 10)
        own -= own.mean()
        verdicts = world.judged(world.skill + own)
        error = judge_error(world.human, verdicts, METHOD, None)
        found.append(error.sd**2)
        planted.append(float(own @ own) / 9)
    allowed = t.ppf(0.975, 9) / 1.959963984540054 * math.sqrt(1 + 1 / 10)
    return math.sqrt(np.mean(found)), allowed * math.sqrt(np.mean(planted))


def test_agreement_on_real_battles(data: Path) -> None:
    """On 26,919 real battles people and GPT-4 agree as published: in 83.3 % of 14,397."""
    file, judge = data / "chatbot_arena_27k" / "battles.csv.gz", "gpt-4-0125-preview"
    with gzip.open(file, "rt") as lines:
        rows = list(csv.DictReader(lines))
    both = [row for row in rows if {row["human"], row[judge]} <= {"a", "b"}]
    assert len(both) == 14_397
    people, verdicts = (read_battles(file, winner=winner) for winner in ("human", judge))
    found = calibrated(people, verdicts, METHOD)
    assert round(100 * found.agreement, 1) == 83.3
    agreement = np.mean([row["human"] == row[judge] for row in both])
    assert found.agreement == pytest.approx(agreement, abs=2e-4), "a few questions came twice"
    battles = {(row["question_id"], *sorted([row["model_a"], row["model_b"]])) for row in rows}
    assert found.n_shared == len(battles)
