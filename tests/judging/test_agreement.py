"""Agreement of voters, against figures that others published."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena_kit import BattleLog, DataError, read_battles
from arena_kit.judging.quality.agreement import (
    Share,
    agreement,
    alpha,
    alpha_share,
    matched,
    share_of,
    verdicts,
)
from tests.samples import log_of

#: Four observers on twelve units, from Krippendorff (2011), "Computing Krippendorff's
#: Alpha-Reliability", section C; he prints 0.743 (nominal) and 0.815 (ordinal).
KRIPPENDORFF = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, np.nan, np.nan, np.nan],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, np.nan, 3],
    [np.nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, np.nan],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, np.nan],
]


def rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def said(row: dict[str, str]) -> int:
    """A vote on the pair in name order: first, tie or second."""
    if row["winner"].startswith("tie"):
        return 1
    return 0 if row[row["winner"]] == min(row["model_a"], row["model_b"]) else 2


def unit(row: dict[str, str]) -> tuple[str, ...]:
    return row["question_id"], row["turn"], *sorted((row["model_a"], row["model_b"]))


@pytest.mark.parametrize(
    ("turn", "counted", "left_out"),
    [("1", (886, 1343), (727, 859)), ("2", (871, 1325), (731, 864))],
)
def test_gpt4_agrees_with_experts_as_often_as_the_mt_bench_paper_says(
    data: Path, turn: str, counted: tuple[int, int], left_out: tuple[int, int]
) -> None:
    """Zheng et al. (2023), Table 5: 66 and 85 % in both turns."""
    folder = data / "mtbench_human_gpt4"
    judge = {unit(row): said(row) for row in rows(folder / "gpt4_pair.csv.gz")}
    votes = [
        row
        for row in rows(folder / "human.csv.gz")
        if row["judge"].startswith("expert") and row["turn"] == turn and unit(row) in judge
    ]
    columns: Any = zip(*((said(row), judge[unit(row)], int(row["question_id"])) for row in votes),
                       strict=True)  # fmt: skip
    first, second, question = columns
    every = agreement(first, second, question, ties="counted")
    decisive = agreement(first, second, question, ties="left out")
    assert (every.agreed, every.rate.n) == counted
    assert (decisive.agreed, decisive.rate.n) == left_out


@pytest.mark.parametrize(
    ("turn", "counted", "left_out"),
    [("1", (454, 721), (388, 479)), ("2", (471, 707), (388, 474))],
)
def test_experts_agree_with_each_other_as_often_as_the_mt_bench_paper_says(
    data: Path, turn: str, counted: tuple[int, int], left_out: tuple[int, int]
) -> None:
    """Zheng et al. (2023), Table 5: 63 and 81 %, 67 and 82 %; every two experts on one pair."""
    by_unit = defaultdict(list)
    for row in rows(data / "mtbench_human_gpt4" / "human.csv.gz"):
        if row["judge"].startswith("expert") and row["turn"] == turn:
            by_unit[unit(row)].append(said(row))
    both = [two for votes in by_unit.values() for two in combinations(votes, 2)]
    every = agreement([x for x, _ in both], [y for _, y in both], ties="counted")
    decisive = agreement([x for x, _ in both], [y for _, y in both], ties="left out")
    assert (every.agreed, every.rate.n) == counted
    assert (decisive.agreed, decisive.rate.n) == left_out


@pytest.mark.parametrize(
    ("judge", "agreed", "slot_a"),
    [
        ("gpt-4-0125-preview", 0.833, 0.551),
        ("claude-3-opus-20240229", 0.723, 0.395),
        ("gpt-3.5-turbo", 0.570, 0.863),
    ],
)
def test_judges_of_the_arena_agree_with_people_as_the_data_card_says(
    data: Path, judge: str, agreed: float, slot_a: float
) -> None:
    """On 26,919 battles that people voted on, and how often each judge names the first answer."""
    file = data / "chatbot_arena_27k" / "battles.csv.gz"
    people, judged = (verdicts(read_battles(file, winner=name)) for name in ("human", judge))
    decisive = agreement(people, judged, ties="left out")
    assert decisive.rate.value == pytest.approx(agreed, abs=5e-4)
    decided = judged[judged != 1]
    assert share_of(decided == 0).value == pytest.approx(slot_a, abs=5e-4)


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
            count, _, of = entry[name].partition(" / ")
            assert (int(found.sum()), len(own)) == (int(count), int(of.split(" = ")[0]))
            assert share_of(found).value == pytest.approx(int(count) / len(own))
        if np.all((one >= 0) & (two >= 0)) and entry["kappa_agreement"]:
            kappa = agreement(one, two, ties="counted").kappa.value
            assert kappa == pytest.approx(float(entry["kappa_agreement"]), abs=1e-9)


def test_alpha_of_krippendorffs_own_example() -> None:
    assert round(alpha(KRIPPENDORFF), 3) == 0.743


def test_the_interval_of_alpha_leaves_out_one_cluster_of_units_at_a_time() -> None:
    """Against alphas computed anew without each of four clusters of three units."""
    table, clusters = np.array(KRIPPENDORFF), np.repeat(np.arange(4), 3)
    without = np.array([alpha(table[:, clusters != k]) for k in range(4)])
    se = np.sqrt(3 / 4 * ((without - without.mean()) ** 2).sum())
    found = alpha_share(table, clusters)
    assert found.value == pytest.approx(alpha(table))
    assert found.ci_low == pytest.approx(alpha(table) - 3.182446 * se, abs=1e-6)
    assert found.n == 40, "a unit that one observer saw alone is no agreement"


def test_a_share_of_nothing_is_bounded_by_the_number_of_clusters() -> None:
    """The rule of three: none in 30 independent questions leaves up to a tenth possible, however
    many verdicts each has.
    """
    found = share_of(np.zeros(300, bool), np.repeat(np.arange(30), 10))
    assert (found.value, found.ci_low) == (0.0, 0.0)
    assert found.ci_high == pytest.approx(3 / 30, abs=0.006)
    assert share_of(np.ones(300, bool), np.repeat(np.arange(30), 10)).ci_low == pytest.approx(
        1 - (found.ci_high or 0)
    )


def test_alpha_of_mt_bench_voters(data: Path) -> None:
    """The report of judgelab prints 0.4855 over all human votes; a voter's second vote on a pair is
    another row there.
    """
    votes = defaultdict(list)
    for row in rows(data / "mtbench_human_gpt4" / "human.csv.gz"):
        votes[unit(row)].append(said(row))
    most = max(map(len, votes.values()))
    table = np.full((most, len(votes)), np.nan)
    for column, each in enumerate(votes.values()):
        table[: len(each), column] = each
    assert alpha(table) == pytest.approx(0.4855, abs=5e-4)


def test_alpha_is_one_without_a_difference_and_unknown_with_a_single_value() -> None:
    assert alpha([[0, 1, 2], [0, 1, 2]]) == 1.0
    assert np.isnan(alpha([[1, 1], [1, 1]]))
    assert np.isnan(alpha([[1, np.nan], [np.nan, 2]]))


def test_kappa_of_a_table_worked_by_hand() -> None:
    """Of 50 rows 20 and 15 agree, the margins are 25 and 30: (0.7 - 0.5) / (1 - 0.5) = 0.4, the
    example of Cohen's kappa in most textbooks.
    """
    first = [0] * 25 + [2] * 25
    second = [0] * 20 + [2] * 5 + [0] * 10 + [2] * 15
    found = agreement(first, second, ties="counted")
    assert found.rate.value == pytest.approx(0.7)
    assert found.kappa.value == pytest.approx(0.4)


def test_the_interval_of_a_share_is_that_of_the_mean_of_its_clusters() -> None:
    """With clusters of one size, leaving one out gives the t interval of the clusters' means."""
    rng = np.random.default_rng(2)
    flags = rng.random((12, 5)) < rng.random(12)[:, None]
    means = flags.mean(axis=1)
    half = 2.200985 * means.std(ddof=1) / np.sqrt(12)  # t with 11 degrees of freedom
    found = share_of(flags.ravel(), np.repeat(np.arange(12), 5))
    assert found.ci_high == pytest.approx(means.mean() + half, abs=1e-6)
    assert found.ci_low == pytest.approx(means.mean() - half, abs=1e-6)


def test_the_interval_of_a_share_does_not_reach_below_nothing() -> None:
    """One row of ten: the t interval would end at 0.1 - 2.262 * 0.1 < 0."""
    found = share_of([True] + [False] * 9)
    assert found.ci_low == 0.0
    assert found.ci_high == pytest.approx(0.1 + 2.262157 * 0.1, abs=1e-6)


def test_the_interval_of_agreement_holds_the_truth() -> None:
    """Of 400 simulated sets of 25 questions that differ in difficulty, 93 to 97 % hold it."""
    rng = np.random.default_rng(8)
    held = []
    for _ in range(400):
        chance = rng.beta(6, 2, 25)
        agree = rng.random((25, 8)) < chance[:, None]
        found = share_of(agree.ravel(), np.repeat(np.arange(25), 8))
        held.append((found.ci_low or 0) <= 0.75 <= (found.ci_high or 1))
    assert 0.92 <= np.mean(held) <= 0.98


def test_nothing_in_common_is_no_agreement() -> None:
    found = agreement([0, -1], [-1, 2], ties="counted")
    assert found.rate == Share(value=None, ci_low=None, ci_high=None, n=0)
    assert str(found.rate) == "–"


def test_rows_are_matched_by_models_question_and_dimension() -> None:
    """Whichever side a model stands on."""
    first = log_of([("x", "y", "model_a"), ("x", "z", "tie")]).sides_in_order()
    turned = log_of([("y", "x", "model_b"), ("z", "x", "model_a")]).sides_in_order()
    assert isinstance(first, BattleLog)
    one, two = matched(first, turned)
    assert one.tolist() == [0, 1]
    assert two.tolist() == [0, 1]
    found = agreement(verdicts(first)[one], verdicts(turned)[two], ties="counted")
    assert (found.agreed, found.rate.n) == (1, 2)


def test_battles_without_a_question_cannot_be_matched() -> None:
    plain = BattleLog.from_counts(["x"], ["y"], [3], [2])
    with pytest.raises(DataError, match="question_id"):
        matched(plain, plain)
