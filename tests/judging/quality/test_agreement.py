"""Agreement of voters, against figures that others published."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from arena_kit import BattleLog, DataError, JudgeQuality, read_battles, read_gate
from arena_kit.battles.log import Labels
from arena_kit.judging.quality.agreement import (
    agreement,
    alpha,
    between,
    matched,
    people,
    verdicts,
)
from arena_kit.judging.quality.estimates import NOTHING, find, share_of
from arena_kit.judging.quality.gate import Level
from tests.samples import ROOT, log_of

#: Four observers on twelve units, from Krippendorff (2011), "Computing Krippendorff's
#: Alpha-Reliability", section C; he prints 0.743 (nominal) and 0.815 (ordinal).
KRIPPENDORFF = np.array([
    [1, 2, 3, 3, 2, 1, 4, 1, 2, np.nan, np.nan, np.nan],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, np.nan, 3],
    [np.nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, np.nan],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, np.nan],
])  # fmt: skip
JUDGES = ("gpt-4-0125-preview", "claude-3-opus-20240229", "gpt-3.5-turbo")


def rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def turns(path: Path) -> BattleLog:
    """The battles of MT-bench, each turn a question of its own, named as `unit` names it."""
    log = read_battles(path)
    assert log.question_id is not None
    names = zip(log.question_id.values(), (row["turn"] for row in rows(path)), strict=True)
    return replace(log, question_id=Labels.of([f"{q}/{t}" for q, t in names])).sides_in_order()


@pytest.fixture(scope="module")
def experts(data: Path) -> BattleLog:
    votes = turns(data / "mtbench_human_gpt4" / "human.csv.gz")
    assert votes.voter is not None
    return votes.select([str(who).startswith("expert") for who in votes.voter.values()])


@pytest.fixture(scope="module")
def arena(data: Path) -> dict[str, BattleLog]:
    file = data / "chatbot_arena_27k" / "battles.csv.gz"
    return {name: read_battles(file, winner=name) for name in ("human", *JUDGES)}


def units(log: BattleLog) -> dict[tuple[object, ...], list[int]]:
    """The votes on each two models and question."""
    assert log.question_id is not None
    keys = zip(log.a.tolist(), log.b.tolist(), log.question_id.values(), strict=True)
    votes = defaultdict(list)
    for key, vote in zip(keys, verdicts(log).tolist(), strict=True):
        votes[key].append(vote)
    return votes


def test_gpt4_agrees_with_experts_as_often_as_the_mt_bench_paper_says(
    data: Path, experts: BattleLog
) -> None:
    """Zheng et al. (2023), Table 5: 886 of 1,343 and 871 of 1,325 with ties, 727 of 859 and 731 of
    864 without, in the two turns.
    """
    judge = turns(data / "mtbench_human_gpt4" / "gpt4_pair.csv.gz")
    strata = {f"{q}/{turn}": f"turn {turn}" for q in range(81, 161) for turn in "12"}
    found = people(judge, experts, strata)
    whole, decided = find(found, "agreement_with_ties"), find(found, "agreement")
    assert (whole.count, whole.n) == (886 + 871, 1343 + 1325)
    assert (decided.count, decided.n) == (727 + 731, 859 + 864)
    per_turn = [find(found, "agreement", stratum=f"turn {turn}").counted for turn in "12"]
    assert per_turn == ["727 of 859", "731 of 864"]


@pytest.mark.parametrize(
    ("turn", "counted", "left_out"),
    [("1", (454, 721), (388, 479)), ("2", (471, 707), (388, 474))],
)
def test_experts_agree_with_each_other_as_often_as_the_mt_bench_paper_says(
    experts: BattleLog, turn: str, counted: tuple[int, int], left_out: tuple[int, int]
) -> None:
    """Zheng et al. (2023), Table 5: 63 and 81 %, 67 and 82 %; every two experts on one pair."""
    own = {key: votes for key, votes in units(experts).items() if str(key[2]).endswith(turn)}
    first, second = np.array([two for votes in own.values() for two in combinations(votes, 2)]).T
    for ties, published in (("counted", counted), ("left out", left_out)):
        found = agreement(first, second, ties=ties)  # type: ignore[arg-type]
        assert (found.agreed, found.rate.n) == published


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
    assert quality.find("agreement").value == pytest.approx(agreed, abs=5e-4)
    assert quality.find("slot_a").value == pytest.approx(slot_a, abs=5e-4)
    result = quality.gate(read_gate(ROOT))
    assert result.level is level
    assert {f.measure.rule for f in result.findings if f.level is level} >= {*why}
    assert set(quality.to_frame().measure) >= {"agreement", "kappa", "slot_a", "rating_error"}


def test_ratings_by_a_better_judge_are_nearer_to_peoples(arena: dict[str, BattleLog]) -> None:
    """GPT-3.5 orders the 20 models nearly as people do, for its lean hits all alike, but its
    ratings are further off; a judge that is people is not off at all.
    """
    good, poor, itself = (people(arena[n], arena["human"]) for n in (JUDGES[0], JUDGES[2], "human"))
    assert find(good, "spearman").n == 20
    assert (find(good, "spearman").value or 0) > (find(poor, "spearman").value or 0) > 0.9
    assert (find(good, "rating_error").value or 0) < (find(poor, "rating_error").value or 0)
    for measure, value in (("agreement", 1.0), ("kendall", 1.0), ("rating_error", 0.0)):
        assert find(itself, measure).value == pytest.approx(value)


def test_judges_agree_among_themselves_beyond_chance(arena: dict[str, BattleLog]) -> None:
    """Krippendorff's alpha of two equal judges is 1 and falls with one that names slot A; the
    interval of 26,919 questions is narrow.
    """
    twice = between({"one": arena[JUDGES[0]], "two": arena[JUDGES[0]]})
    three, two = (between({name: arena[name] for name in names}) for names in (JUDGES, JUDGES[:2]))
    assert twice.value == pytest.approx(1.0)
    assert 0 < (three.value or 0) < (two.value or 0) < 1
    assert (three.high or 1) - (three.low or 0) < 0.02


def test_llmbar_statistics_come_out_as_published(data: Path) -> None:
    """Correct in each order, in both, and equal in both orders, and the kappa between the two
    orders, for 499 settings of judge, prompting and subset.
    """
    groups = defaultdict(list)
    for row in rows(data / "llmbar" / "judge_verdicts.csv.gz"):
        groups[row["subset"], row["judge"], row["prompting"]].append(row)
    table = {"1": 0, "2": 2, "": -1}
    with (data / "llmbar" / "published_statistics.csv").open(encoding="utf-8") as lines:
        published = list(csv.DictReader(lines))
    assert len(published) == 499
    for entry in published:
        own = groups[entry["subset"], entry["judge"], entry["prompting"]]
        gold, one, two = (
            np.array([table[row[name]] for row in own])
            for name in ("gold", "winner_original_order", "winner_swapped_order")
        )
        for name, found in (
            ("correct_original", gold == one),
            ("correct_swapped", gold == two),
            ("correct_both", (gold == one) & (gold == two)),
            ("equal", one == two),
        ):
            share, (count, _, of) = share_of(found), entry[name].partition(" / ")
            assert (share.count, share.n) == (int(count), int(of.split(" = ")[0]))
        if np.all((one >= 0) & (two >= 0)) and entry["kappa_agreement"]:
            kappa = agreement(one, two, ties="counted").kappa.value
            assert kappa == pytest.approx(float(entry["kappa_agreement"]), abs=1e-9)


def test_alpha_of_krippendorffs_own_example_and_its_interval() -> None:
    """The published value; the interval against alphas computed anew without each of four clusters
    of three units. A unit that one observer saw alone is no agreement.
    """
    clusters = np.repeat(np.arange(4), 3)
    found = alpha(KRIPPENDORFF, clusters)
    assert found.value is not None
    assert (round(found.value, 3), found.n) == (0.743, 40)
    without = np.array([alpha(KRIPPENDORFF[:, clusters != k]).value for k in range(4)], float)
    se = np.sqrt(3 / 4 * ((without - without.mean()) ** 2).sum())
    assert found.low == pytest.approx(found.value - 3.182446 * se, abs=1e-6)


def test_alpha_of_mt_bench_voters(data: Path) -> None:
    """The report of judgelab prints 0.4855 over all human votes; a voter's second vote on a pair is
    another row there.
    """
    votes = units(turns(data / "mtbench_human_gpt4" / "human.csv.gz"))
    table = np.full((max(map(len, votes.values())), len(votes)), np.nan)
    for column, each in enumerate(votes.values()):
        table[: len(each), column] = each
    assert alpha(table).value == pytest.approx(0.4855, abs=5e-4)


@pytest.mark.parametrize(
    ("ratings", "value"),
    [
        ([[0, 1, 2], [0, 1, 2]], 1.0),
        ([[1, 1], [1, 1]], None),
        ([[1, np.nan], [np.nan, 2]], None),
        ([[np.nan], [np.nan]], None),
    ],
)
def test_alpha_is_one_without_a_difference_and_unknown_with_a_single_value(
    ratings: list[list[float]], value: float | None
) -> None:
    assert alpha(ratings).value == value


def test_kappa_of_a_table_worked_by_hand() -> None:
    """Of 50 rows 20 and 15 agree, the margins are 25 and 30: (0.7 - 0.5) / (1 - 0.5) = 0.4, the
    example of Cohen's kappa in most textbooks.
    """
    first = [0] * 25 + [2] * 25
    second = [0] * 20 + [2] * 5 + [0] * 10 + [2] * 15
    found = agreement(first, second, ties="counted")
    assert found.rate.value == pytest.approx(0.7)
    assert found.kappa.value == pytest.approx(0.4)


def test_the_interval_of_agreement_holds_the_truth() -> None:
    """Of 400 simulated sets of 25 questions that differ in difficulty, 93 to 97 % hold it."""
    rng = np.random.default_rng(8)
    held = []
    for _ in range(400):
        agree = rng.random((25, 8)) < rng.beta(6, 2, 25)[:, None]
        found = share_of(agree.ravel(), np.repeat(np.arange(25), 8))
        held.append((found.low or 0) <= 0.75 <= (found.high or 1))
    assert 0.92 <= np.mean(held) <= 0.98


def test_nothing_in_common_is_no_agreement() -> None:
    """Neither of columns nor of logs; and then it is said that nobody was asked."""
    assert agreement([0, -1], [-1, 2], ties="counted").rate == NOTHING
    judged = log_of([("x", "y", "model_a")], questions="p")
    assert people(judged, log_of([("x", "y", "model_a"), ("x", "y", "tie")])) == []
    findings = JudgeQuality.from_battles("j", judged).gate(read_gate(ROOT)).findings
    assert [f.measure.rule for f in findings if f.measure.value is None] == ["people"]


def test_rows_are_matched_by_models_question_and_dimension() -> None:
    """Whichever side a model stands on; not without a question."""
    first = log_of([("x", "y", "model_a"), ("x", "z", "tie")]).sides_in_order()
    turned = log_of([("y", "x", "model_b"), ("z", "x", "model_a")]).sides_in_order()
    one, two = matched(first, turned)
    assert (one.tolist(), two.tolist()) == ([0, 1], [0, 1])
    found = agreement(verdicts(first)[one], verdicts(turned)[two], ties="counted")
    assert (found.agreed, found.rate.n) == (1, 2)
    plain = BattleLog.from_counts(["x"], ["y"], [3], [2])
    with pytest.raises(DataError, match="question_id"):
        matched(plain, plain)
