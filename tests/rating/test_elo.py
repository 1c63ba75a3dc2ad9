"""PermutationElo: published results, properties, and ratings that do not exist."""

import csv
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import BattleLog, Outcome, PermutationElo
from tests.samples import battle, ring

QUICK = PermutationElo(n_perms=40, evidence_replicates=40, evidence_orders=4)


def test_qlora_table(data: Path) -> None:
    """Permutation Elo on the QLoRA verdicts matches the paper's table within Monte-Carlo error."""
    names = {"first": "model_a", "second": "model_b", "tie": "tie"}
    with gzip.open(data / "qlora_gpt4_judge" / "verdicts.csv.gz", "rt") as lines:
        log = BattleLog.from_battles(
            battle(row["first_model"], row["second_model"], names[row["verdict"]])
            for row in csv.DictReader(lines)
            if row["bench"] == "oa" and row["verdict"] != "unparsed"
        )
    with (data / "qlora_gpt4_judge" / "published_elo.csv").open() as lines:
        published = {r["model"]: float(r["oa_gpt4"]) for r in csv.DictReader(lines) if r["oa_gpt4"]}
    found = PermutationElo(k=32, initial=1000, n_perms=40, ties="half", evidence_replicates=0)(log)
    for model, rating in published.items():
        sem = found[model].extra["order_sem"]
        margin = 3 * np.hypot(sem, sem * np.sqrt(40 / 10_000)) + 0.5
        assert abs(found[model].rating - rating) < margin


def league(chances: dict[tuple[str, str], float], questions: int, seed: int) -> BattleLog:
    """Every pair meets on every question, and its first model wins with such a chance."""
    rng = np.random.default_rng(seed)
    return BattleLog.from_battles(
        battle(a, b, "model_a" if rng.random() < chance else "model_b", f"q{q}")
        for q in range(questions)
        for (a, b), chance in chances.items()
    )


@pytest.mark.parametrize(("chance", "verb"), [(0.0, "lost"), (1.0, "won")])
def test_who_always_loses_or_wins_has_no_interval(chance: float, verb: str) -> None:
    """No resample holds an outcome that was not seen, so a winless entrant loses all of each."""
    chances = {("x", other): chance for other in "abc"}
    log = league(chances | {("a", "b"): 0.6, ("b", "c"): 0.6, ("a", "c"): 0.7}, 50, seed=1)
    found = QUICK(log)
    assert np.ptp(found.replicates[:, found.models.index("x")]) < 20
    assert (found["x"].ci_low, found["x"].ci_high, found["x"].extra["evidence_se"]) == (None,) * 3
    assert found["x"].no_interval == f"it {verb} every battle that counts"
    assert all(found[model].ci_low is not None for model in "abc")
    assert not any(found[model].no_interval for model in "abc")


def test_a_group_that_always_loses_has_no_interval() -> None:
    """Two entrants that beat only each other are as unsure as one that beats nobody."""
    chances = {(high, low): 1.0 for high in "abc" for low in "xy"}
    chances |= {("a", "b"): 0.6, ("b", "c"): 0.6, ("a", "c"): 0.7, ("x", "y"): 0.5}
    log = league(chances, 40, seed=2)
    found = QUICK(log)
    assert [found[model].ci_low is None for model in "abcxy"] == [False] * 3 + [True] * 2
    assert found["x"].no_interval.startswith("between it and the others every battle was won by")
    tied = log.select(np.arange(len(log)))
    tied.outcome[0] = 2
    assert replace(QUICK, ties="half")(tied)["x"].ci_low is not None


@given(st.lists(st.sampled_from([*Outcome]), min_size=6, max_size=12))
@settings(max_examples=10, deadline=None)
def test_properties(winners: list[str]) -> None:
    """Elo is zero-sum, deterministic, blind to names, and leaves its input alone."""
    sides = [("a", "b"), ("b", "c"), ("c", "a")]
    rows = [battle(*sides[i % 3], winner, f"q{i}") for i, winner in enumerate([*winners])] + [
        battle(*pair, "model_a", f"z{n}") for n, pair in enumerate(sides)
    ]
    log = BattleLog.from_battles(rows)
    before = log.columns()
    found = QUICK(log)
    assert sum(r.rating for r in found.ratings) == pytest.approx(3 * 1400, abs=1e-6)
    assert QUICK(log).as_dict() == found.as_dict()
    renamed = BattleLog.from_battles(
        replace(b, model_a=f"x{b.model_a}", model_b=f"x{b.model_b}") for b in rows
    )
    for rating in found.ratings:
        assert QUICK(renamed)[f"x{rating.model}"].rating == rating.rating
    for name, column in log.columns().items():
        assert (column == before[name]).all()


def test_treatments() -> None:
    """Dropped kinds are counted and change nothing; `half` makes them count."""
    extra = [battle("a", "b", winner, "t") for winner in ("tie", "both_bad")]
    extra += [battle("a", "b", "tie", "t", inconsistent=True)]
    plain, more = BattleLog.from_battles(ring()), BattleLog.from_battles(ring() + extra)
    found = QUICK(more)
    assert found.dropped == {"tie": 1, "both_bad": 1, "inconsistent": 1}
    assert [r.rating for r in found.ratings] == [r.rating for r in QUICK(plain).ratings]
    halved = replace(QUICK, inconsistent="half")(more)
    assert halved.dropped == {"tie": 1, "both_bad": 1, "inconsistent": 0}
    assert halved.n_battles == found.n_battles + 1
