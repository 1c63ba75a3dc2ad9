"""Golden cases: every rating method against hand calculations and published figures."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena_kit.battles.battle import Battle
from arena_kit.battles.log import BattleLog
from arena_kit.battles.read import read_battles
from arena_kit.matchmaking.arena import Arena
from arena_kit.policy.constants import LegacyElo, Policy
from arena_kit.rating.base import Ratings
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.elo import PermutationElo
from arena_kit.rating.glicko2 import Glicko2

CASES = Path(__file__).parent.parent / "cases"
RATED = json.loads((CASES / "ratings.json").read_text(encoding="utf-8"))

IN_ORDER = PermutationElo(
    k=4, initial=1000, n_perms=1, shuffle=False, ties="half", evidence_replicates=0
)
PLAIN = BradleyTerry(prior=0)


def votes_of(case: dict[str, Any]) -> BattleLog:
    return BattleLog.from_battles(
        Battle(model_a=a, model_b=b, winner=winner) for a, b, winner in case["votes"]
    )


def ratings(result: Ratings) -> dict[str, float]:
    return {rating.model: rating.rating for rating in result.ratings}


def rated(method: str, log: BattleLog) -> dict[str, Any]:
    """Ratings of a log by the method of that name; for Glicko-2, RD and volatility with them."""
    if method == "elo":
        return ratings(IN_ORDER(log))
    if method == "legacy_elo":
        policy = Policy(legacy_elo=LegacyElo(k=4, initial=1000))
        return Arena(policy, log.models, (), rng=np.random.default_rng(), battles=log).elo
    if method == "bradley_terry":
        return ratings(BradleyTerry(both_bad="exclude")(log))
    rows = Glicko2(evidence_replicates=0)(log).ratings
    return {row.model: [row.rating, row.extra["rd"], row.extra["volatility"]] for row in rows}


@pytest.mark.parametrize("method", ["elo", "legacy_elo", "bradley_terry", "glicko2"])
@pytest.mark.parametrize("case", RATED, ids=lambda case: case["name"])
def test_ratings(case: dict[str, Any], method: str) -> None:
    """Each method rates each case as its claim and its source say."""
    expected = case["expected"].get(method, case["expected"]["elo"])
    result = rated(method, votes_of(case))
    assert set(result) == set(expected), case["claim"]
    for model, figures in expected.items():
        assert result[model] == pytest.approx(figures, rel=0, abs=1e-8), case["claim"]


@pytest.mark.parametrize("method", ["elo", "legacy_elo"])
def test_llmfao(method: str, data: Path) -> None:
    """Elo with K 4 in file order equals the published scores of 8,931 crowd votes to 1e-9."""
    sides = {"left": "model_a", "right": "model_b", "tie": "tie"}
    with gzip.open(data / "llmfao" / "crowd-comparisons.csv.gz", "rt") as lines:
        votes = [(row["left"], row["right"], sides[row["winner"]]) for row in csv.DictReader(lines)]
    with (data / "llmfao" / "evalica" / "llmfao-golden.csv").open() as lines:
        rows = [row for row in csv.DictReader(lines) if row["algorithm"] == "elo"]
    scores = {row["item"]: float(row["score"]) for row in rows}
    assert rated(method, votes_of({"votes": votes})) == pytest.approx(scores, rel=0, abs=1e-9)


@pytest.fixture(scope="module")
def arena() -> BattleLog:
    """1.67 million votes of Chatbot Arena up to 2024-08-14, as pair counts."""
    return read_battles(CASES / "chatbot_arena_20240814.csv.gz")


@pytest.mark.parametrize("method", [BradleyTerry(), PLAIN])
def test_the_published_list(arena: BattleLog, method: BradleyTerry) -> None:
    """The ratings match the LMSYS list of 2024-08-22 by default and without a prior."""
    with (CASES / "lmsys_20240822.csv").open(encoding="utf-8") as lines:
        listed = {row["model"]: float(row["rating"]) for row in csv.DictReader(lines)}
    result = ratings(method(arena))
    gap = np.array([result[model] - listed[model] for model in result.keys() & listed.keys()])
    assert len(gap) == 129
    assert gap.std() < 0.5
    assert np.abs(gap - gap.mean()).max() < 3


@pytest.mark.parametrize(("ties", "nll"), [("half", 0.6554), ("davidson", 1.0100)])
def test_the_published_likelihoods(ties: Any, nll: float, arena: BattleLog) -> None:
    """The mean negative log-likelihood is the one that leaderbot publishes, to four digits."""
    result = BradleyTerry(prior=0, ties=ties, both_bad="exclude")(arena)
    assert result.n_battles == 1_374_996
    assert result.fit["nll"] == pytest.approx(nll, abs=5.1e-5)
