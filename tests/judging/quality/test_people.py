"""Agreement with people, as published and as the gate reads it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arena_kit import BattleLog, JudgeQuality, read_battles, read_gate
from arena_kit.judging.quality.gate import Level
from arena_kit.judging.quality.people import between, people
from tests.samples import ROOT, log_of

JUDGES = ("gpt-4-0125-preview", "claude-3-opus-20240229", "gpt-3.5-turbo")


@pytest.fixture(scope="module")
def arena(data: Path) -> dict[str, BattleLog]:
    file = data / "chatbot_arena_27k" / "battles.csv.gz"
    return {name: read_battles(file, winner=name) for name in ("human", *JUDGES)}


@pytest.mark.parametrize(
    ("judge", "agreed", "slot_a", "level", "why"),
    [
        (JUDGES[0], 0.833, 0.551, Level.TRUSTED, ()),
        (JUDGES[1], 0.723, 0.395, Level.CAUTION, ("slot", "people")),
        (JUDGES[2], 0.570, 0.863, Level.FAILED, ("slot", "people")),
    ],
)
def test_judges_of_the_arena_pass_the_gate_by_what_their_data_card_says(
    arena: dict[str, BattleLog],
    judge: str,
    agreed: float,
    slot_a: float,
    level: Level,
    why: tuple[str, ...],
) -> None:
    """On 26,919 battles that people voted on; the judge that names the first answer in 86 % and
    agrees with people hardly more often than a coin is not usable.
    """
    quality = JudgeQuality.from_battles(judge, arena[judge], labels=arena["human"])
    (found,) = quality.dimensions
    assert found.people is not None
    assert found.people.decided.rate.value == pytest.approx(agreed, abs=5e-4)
    assert found.position.slot_a.value == pytest.approx(slot_a, abs=5e-4)
    result = quality.gate(read_gate(ROOT))
    assert result.level is level
    assert {f.measure.rule for f in result.findings if f.level is level} >= {*why}
    assert result.sentence.startswith(f"The judge {judge} is {level}: ")


def test_ratings_by_a_better_judge_are_nearer_to_peoples_and_worth_more_votes(
    arena: dict[str, BattleLog],
) -> None:
    """GPT-3.5 orders the 20 models nearly as people do, for its lean hits all alike, but its
    ratings are further off, and it is worth fewer votes; a judge that is people is not off at all.
    """
    good, poor = (people(arena[name], arena["human"]) for name in (JUDGES[0], JUDGES[2]))
    itself = people(arena["human"], arena["human"])
    assert good is not None
    assert poor is not None
    assert itself is not None
    assert good.ranks is not None
    assert poor.ranks is not None
    assert itself.ranks is not None
    assert good.ranks.n_models == 20
    assert (good.ranks.spearman or 0) > (poor.ranks.spearman or 0) > 0.9
    assert good.ranks.rating_error < poor.ranks.rating_error
    assert good.worth is not None
    assert poor.worth is not None
    assert good.worth.votes > 5 * poor.worth.votes
    assert itself.decided.rate.value == 1.0
    assert itself.ranks.kendall == pytest.approx(1)
    assert itself.ranks.rating_error == 0


def test_gpt4_agrees_with_experts_as_often_as_the_mt_bench_paper_says(data: Path) -> None:
    """Zheng et al. (2023), Table 5, both turns together: 1,757 of 2,668 and 1,458 of 1,723, on
    logs that are matched by models, question and turn.
    """
    folder = data / "mtbench_human_gpt4"
    logs = []
    for name in ("gpt4_pair", "human"):
        log = read_battles(folder / f"{name}.csv.gz")
        turns = np.genfromtxt(folder / f"{name}.csv.gz", str, delimiter=",", skip_header=1)[:, 1]
        logs.append(_with_turns(log, turns))
    judge, votes = logs
    assert votes.voter is not None
    experts = np.array([str(who).startswith("expert") for who in votes.voter.values()])
    strata = {f"{q}/{turn}": f"turn {turn}" for q in range(81, 161) for turn in "12"}
    found = people(judge, votes.select(experts), strata)
    assert found is not None
    assert (found.counted.agreed, found.counted.rate.n) == (886 + 871, 1343 + 1325)
    assert (found.decided.agreed, found.decided.rate.n) == (727 + 731, 859 + 864)
    per_turn = {name: (each.agreed, each.rate.n) for name, each in found.strata.items()}
    assert per_turn == {"turn 1": (727, 859), "turn 2": (731, 864)}


def _with_turns(log: BattleLog, turns: np.ndarray) -> BattleLog:
    """The same battles, each turn a question of its own."""
    assert log.question_id is not None
    names = zip(log.question_id.values(), turns, strict=True)
    return replace(log, question_id=type(log.question_id).of([f"{q}/{t}" for q, t in names]))


def test_judges_agree_among_themselves_beyond_chance(arena: dict[str, BattleLog]) -> None:
    """Krippendorff's alpha of two equal judges is 1 and falls with one that names slot A; the
    interval of 26,919 questions is narrow.
    """
    twice = between({"one": arena[JUDGES[0]], "two": arena[JUDGES[0]]})
    three = between({name: arena[name] for name in JUDGES})
    two = between({name: arena[name] for name in JUDGES[:2]})
    assert twice.value == pytest.approx(1.0)
    assert three.value is not None
    assert two.value is not None
    assert 0 < three.value < two.value < 1
    assert three.ci_low is not None
    assert three.ci_high is not None
    assert three.ci_high - three.ci_low < 0.02


def test_labels_without_the_same_battles_are_no_labels() -> None:
    judged = log_of([("x", "y", "model_a")], questions="p")
    assert people(judged, log_of([("x", "y", "model_a"), ("x", "y", "tie")])) is None
    rules = [m.rule for m in JudgeQuality.from_battles("j", judged).measures() if m.value is None]
    assert rules == ["people"], "nothing else shows that verdicts are right"
