"""Shares, their intervals and agreement of voters: by hand, and against published figures."""

import csv
import gzip
from collections import defaultdict
from dataclasses import replace
from itertools import combinations, zip_longest
from pathlib import Path

import numpy as np
import pytest

from arena_kit import BattleLog, JudgeQuality, read_battles, read_gate
from arena_kit.battles.log import Labels
from arena_kit.judging.quality.agreement import (
    agreement,
    alpha,
    between,
    matched,
    panel,
    people,
    verdicts,
)
from arena_kit.judging.quality.estimates import NOTHING, Estimate, find, share_of, wilson
from arena_kit.judging.quality.gate import Level
from tests.samples import ROOT, log_of

#: Four observers on twelve units, from Krippendorff (2011), "Computing Krippendorff's
#: Alpha-Reliability", section C; he prints 0.743 (nominal).
KRIPPENDORFF = np.array([
    [1, 2, 3, 3, 2, 1, 4, 1, 2, np.nan, np.nan, np.nan],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, np.nan, 3],
    [np.nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, np.nan],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, np.nan],
])  # fmt: skip
JUDGES = ("gpt-4-0125-preview", "claude-3-opus-20240229", "gpt-3.5-turbo")
Ends = tuple[float | None, float | None, float | None]


def ends(found: Estimate) -> Ends:
    return found.value, found.low, found.high


def rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def arena(data: Path) -> dict[str, BattleLog]:
    file = data / "chatbot_arena_27k" / "battles.csv.gz"
    return {name: read_battles(file, winner=name) for name in ("human", *JUDGES)}


def units(log: BattleLog) -> dict[tuple[object, ...], list[int]]:
    keys = zip(log.a.tolist(), log.b.tolist(), log.question_id.values(), strict=True)
    votes = defaultdict(list)
    for key, vote in zip(keys, verdicts(log).tolist(), strict=True):
        votes[key].append(vote)
    return votes


def test_the_interval_of_a_share_is_that_of_the_mean_of_its_clusters() -> None:
    """The t interval of clusters' means, the rule of three, and Wilson's as tables print it."""
    rng = np.random.default_rng(2)
    flags = rng.random((12, 5)) < rng.random(12)[:, None]
    mean, half = flags.mean(), 2.200985 * flags.mean(axis=1).std(ddof=1) / np.sqrt(12)
    found = share_of(flags.ravel(), np.repeat(np.arange(12), 5))
    assert ends(found) == pytest.approx((mean, mean - half, mean + half), abs=1e-6)
    one_of_ten = share_of([True] + [False] * 9)
    assert ends(one_of_ten) == pytest.approx((0.1, 0.0, 0.1 + 2.262157 * 0.1), abs=1e-6)
    clusters = np.repeat(np.arange(30), 10)
    found = share_of(np.zeros(300, bool), clusters)
    assert ends(found) == (0.0, 0.0, pytest.approx(3 / 30, abs=0.006))
    assert share_of(np.ones(300, bool), clusters).low == pytest.approx(1 - (found.high or 0))
    for hits, wanted in ((8, (0.8, 0.4902, 0.9433)), (0, (0.0, 0.0, 0.2775))):
        found = wilson([True] * hits + [False] * (10 - hits))
        assert (found.counted, ends(found)) == (f"{hits} of 10", pytest.approx(wanted, abs=1e-4))
        assert wilson([]).value is None


def test_distances_from_one_half() -> None:
    """An interval that holds one half reaches down to no distance at all."""
    for share, away, above, rest in (
        ((0.7, 0.6, 0.8), (0.2, 0.1, 0.3), (0.2, 0.1, 0.3), (0.3, 0.2, 0.4)),
        ((0.45, 0.2, 0.6), (0.05, 0.0, 0.3), (-0.05, -0.3, 0.1), (0.55, 0.4, 0.8)),
        ((0.3, None, None), (0.2, None, None), (-0.2, None, None), (0.7, None, None)),
    ):
        given = Estimate(value=share[0], low=share[1], high=share[2], n=9)
        moved = (given.from_half(), given.above_half(), given.complement())
        for found, wanted in zip(moved, (away, above, rest), strict=True):
            assert ends(found) == pytest.approx(wanted)
        assert {found.n for found in moved} == {9}


def test_agreement_on_mt_bench_is_as_published(data: Path) -> None:
    """Zheng et al. (2023), Table 5, in both turns; Judgelab's report prints an alpha of 0.4855."""
    names = ("gpt4_pair.csv.gz", "human.csv.gz")
    logs = []
    for path in (data / "mtbench_human_gpt4" / name for name in names):
        turns = Labels.of([f"{row['question_id']}/{row['turn']}" for row in rows(path)])
        logs.append(replace(read_battles(path), question_id=turns).sides_in_order())
    judge, humans = logs
    experts = humans.select([str(who).startswith("expert") for who in humans.voter.values()])
    strata = {f"{q}/{turn}": f"turn {turn}" for q in range(81, 161) for turn in "12"}
    found = people(judge, experts, strata)
    assert find(found, "agreement_with_ties").counted == f"{886 + 871} of {1343 + 1325}"
    assert find(found, "agreement").counted == f"{727 + 731} of {859 + 864}"
    per_turn = [find(found, "agreement", stratum=f"turn {turn}").counted for turn in "12"]
    assert per_turn == ["727 of 859", "731 of 864"]
    for turn, counted, left_out in (
        ("1", "454 of 721", "388 of 479"),
        ("2", "471 of 707", "388 of 474"),
    ):
        own = [votes for key, votes in units(experts).items() if str(key[2]).endswith(turn)]
        first, second = np.array([two for votes in own for two in combinations(votes, 2)]).T
        assert agreement(first, second, ties="counted").rate.counted == counted
        assert agreement(first, second, ties="left out").rate.counted == left_out
    table = np.array([*zip_longest(*units(humans).values(), fillvalue=np.nan)])
    assert alpha(table).value == pytest.approx(0.4855, abs=5e-4)


def test_judges_of_the_arena_pass_as_their_data_card_says(arena: dict[str, BattleLog]) -> None:
    """One that names the first answer in 86 % is not usable, though it orders models well."""
    qualities = []
    for judge, agreed, slot_a, level, why in (
        (JUDGES[0], 0.833, 0.551, Level.TRUSTED, set()),
        (JUDGES[1], 0.723, 0.395, Level.CAUTION, {"slot", "people"}),
        (JUDGES[2], 0.570, 0.863, Level.FAILED, {"slot", "people"}),
    ):
        quality = JudgeQuality.from_battles(judge, arena[judge], labels=arena["human"])
        shares = quality.find("agreement").value, quality.find("slot_a").value
        assert shares == pytest.approx((agreed, slot_a), abs=5e-4)
        result = quality.gate(read_gate(ROOT))
        assert result.level is level
        assert {f.measure.rule for f in result.findings if f.level is level} >= why
        qualities.append(quality)
    assert {*qualities[0].to_frame().measure} >= {"agreement", "kappa", "slot_a", "rating_error"}
    correlations = [quality.find("spearman").value or 0 for quality in qualities]
    errors = [quality.find("rating_error").value or 0 for quality in qualities]
    assert correlations[0] > correlations[2] > 0.9
    assert errors[0] < errors[2]
    assert qualities[0].find("spearman").n == 20


def test_judges_agree_among_themselves_beyond_chance(arena: dict[str, BattleLog]) -> None:
    """Alpha falls with a judge that names slot A, and so does the majority it is a member of."""
    three, two = (between({name: arena[name] for name in names}) for names in (JUDGES, JUDGES[:2]))
    assert 0 < (three.value or 0) < (two.value or 0) < 1
    assert (three.high or 1) - (three.low or 0) < 0.02
    itself = people(arena["human"], arena["human"])
    equal = [find(itself, name).value for name in ("agreement", "kendall", "rating_error")]
    assert equal == pytest.approx([1.0, 1.0, 0.0])
    votes = arena["human"]
    _, once = np.unique(votes.question_id.codes, return_index=True)  # nine questions come twice
    some = once[::4]
    judged = [
        replace(arena[name], judge_model=Labels.of([name] * len(votes))).select(some)
        for name in JUDGES
    ]
    logs = (panel(BattleLog.joined(*judged)).battles, judged[0])
    majority, alone = (find(people(log, votes.select(some)), "agreement").value for log in logs)
    assert 0.8 < (majority or 0) < (alone or 0) == pytest.approx(0.833, abs=0.01)


def test_llmbar_statistics_come_out_as_published(data: Path) -> None:
    """Shares correct and equal, and the kappa of both orders, for an eighth of 499 settings."""
    groups, place = defaultdict(list), {"1": 0, "2": 2, "": -1}
    for row in rows(data / "llmbar" / "judge_verdicts.csv.gz"):
        names = ("gold", "winner_original_order", "winner_swapped_order")
        key = row["subset"], row["judge"], row["prompting"]
        groups[key].append([place[row[name]] for name in names])
    with (data / "llmbar" / "published_statistics.csv").open(encoding="utf-8") as lines:
        published = list(csv.DictReader(lines))
    assert len(published) == 499
    for entry in published[::8]:
        gold, one, two = np.array(groups[entry["subset"], entry["judge"], entry["prompting"]]).T
        for name, found in (
            ("correct_original", gold == one),
            ("correct_swapped", gold == two),
            ("correct_both", (gold == one) & (gold == two)),
            ("equal", one == two),
        ):
            assert share_of(found).counted == entry[name].partition(" = ")[0].replace("/", "of")
        if np.all((one >= 0) & (two >= 0)) and entry["kappa_agreement"]:
            kappa = agreement(one, two, ties="counted").kappa.value
            assert kappa == pytest.approx(float(entry["kappa_agreement"]), abs=1e-9)


def test_alpha_of_krippendorffs_own_example_and_its_interval() -> None:
    """Alpha is Krippendorff's, its interval a jackknife; kappa of 35 of 50 is 0.4 by hand."""
    clusters = np.repeat(np.arange(4), 3)
    found = alpha(KRIPPENDORFF, clusters)
    assert (round(found.value, 3), found.n) == (0.743, 40)
    without = np.array([alpha(KRIPPENDORFF[:, clusters != k]).value for k in range(4)], float)
    se = np.sqrt(3 / 4 * ((without - without.mean()) ** 2).sum())
    assert found.low == pytest.approx(found.value - 3.182446 * se, abs=1e-6)
    assert alpha([[0, 1, 2], [0, 1, 2]]).value == 1.0
    for unknown in ([[1, 1], [1, 1]], [[1, np.nan], [np.nan, 2]], [[np.nan], [np.nan]]):
        assert alpha(unknown).value is None
    second = [0] * 20 + [2] * 5 + [0] * 10 + [2] * 15
    found = agreement([0] * 25 + [2] * 25, second, ties="counted")
    assert (found.rate.value, found.kappa.value) == pytest.approx((0.7, 0.4))


def test_rows_are_matched_by_models_question_and_dimension() -> None:
    """Whichever side a model stands on; nothing in common is no agreement."""
    first = log_of([("x", "y", "model_a"), ("x", "z", "tie")]).sides_in_order()
    turned = log_of([("y", "x", "model_b"), ("z", "x", "model_a")]).sides_in_order()
    one, two = matched(first, turned)
    assert (one.tolist(), two.tolist()) == ([0, 1], [0, 1])
    found = agreement(verdicts(first)[one], verdicts(turned)[two], ties="counted")
    assert found.rate.counted == "1 of 2"
    one, two = (BattleLog.from_counts(["x"] * n, ["y"] * n, [3] * n, [2] * n) for n in (1, 2))
    assert [len(rows) for rows in matched(one, two)] == [0, 0]
    assert agreement([0, -1], [-1, 2], ties="counted").rate == NOTHING
    other = log_of([("x", "y", "model_a")], questions="p")
    assert people(other, first) == []
    findings = JudgeQuality.from_battles("j", other).gate(read_gate(ROOT)).findings
    assert [f.measure.rule for f in findings if f.measure.value is None] == ["people"]
