"""The weekly validity report by policy number: weeks, fairness, pairs, confidence, churn."""

import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from arena_kit import Battle, BattleLog, DataError, RatingError, read_battles
from arena_kit.battles.battle import BOTH_BAD
from arena_kit.matchmaking.simulation import World
from arena_kit.matchmaking.simulation import season as simulated
from arena_kit.policy.constants import Contenders, Decide, Phase, Policy
from arena_kit.policy.rules import PublicationLabel, PublicationStatus, Verdict
from arena_kit.reporting import model_pages, policy_tables
from arena_kit.validity import sentences, weekly
from arena_kit.validity.leaderboard import leaderboard
from arena_kit.validity.model_page import model_detail
from arena_kit.validity.sentences import integrity, lane_mix
from arena_kit.validity.weekly import Band, Week, WeeklyReport, weekly_report
from tests.samples import HOSTILE, ROOT, season, timed
from tests.samples import votes_on as log

MONDAY = datetime(2026, 9, 7, tzinfo=UTC)
ABC = [Band("a", 10, 20), Band("b", 5, 15), Band("c", 0, 4)]


@pytest.fixture(scope="module")
def votes() -> BattleLog:
    return timed(season(models=10, n=2100, seed=1))


@pytest.fixture(scope="module")
def report(votes: BattleLog) -> WeeklyReport:
    return weekly_report(votes)


@pytest.fixture(scope="module")
def few() -> BattleLog:
    return timed(season(models=6, n=400, seed=1))


def moments(*days: str) -> np.ndarray:
    return np.array(days, "datetime64[us]")


def test_weeks_as_written() -> None:
    """A week is ISO 8601 or a date in it, by default the last that is over; wrong are refused."""
    for text in ("2026-W38", "2026W38", "2026-09-14", "2026-09-20"):
        assert Week.parse(text) == Week(date(2026, 9, 14))
    assert Week.parse("2027-01-01").label == "2026-W53"
    for text in ("2026-W60", "38", "last", "2026-9-1", "W38"):
        with pytest.raises(DataError, match="is not a week; allowed: an ISO week like 2026-W38"):
            Week.parse(text)
    days = moments("2026-09-13T23:59", "2026-09-14", "1970-01-01")
    sunday, monday, first = weekly.week_numbers(days).tolist()
    assert (monday, weekly.numbered(monday)) == (sunday + 1, Week(date(2026, 9, 14)))
    assert weekly.numbered(first).monday == date(1969, 12, 29)
    for days, week, complete, compared in (
        (("2026-09-07", "2026-09-20T10:00"), "2026-W38", True, "2026-W37"),
        (("2026-09-01", "2026-09-19T23:00"), "2026-W36", True, None),  # W37 has no votes
        (("2026-09-08", "2026-09-09"), "2026-W37", False, None),
        (("2026-09-07", "2026-09-27"), "2026-W39", True, "2026-W37"),
    ):
        found, over, against = weekly.chosen_weeks(moments(*days))
        assert (found.label, over, against and against.label) == (week, complete, compared)
    times = moments("2026-09-07", "2026-09-15", "2026-09-27")
    assert weekly.chosen_weeks(times, "2026-W39", "2026-W37")[2] == Week.parse("2026-W37")
    for *asked, why in (
        ("2026-W45", "week 2026-W45 has no votes; votes are from"),
        ("2026-W38", "2026-W38", "compare_week 2026-W38 must be before week"),
        ("2026-W38", "2026-W30", "compare_week 2026-W30 has no votes"),
    ):
        with pytest.raises(DataError, match=why):
            weekly.chosen_weeks(times, *asked)


def test_12_churn_by_hand(report: WeeklyReport) -> None:
    """12: who moved since a, b, c, whom it passed and which bands lie apart, in rows and words."""
    for now, top, moves, swaps, words in (
        (ABC, 10, [], (0, 0), "No model of the top 10 changed rank."),
        ([ABC[0], ABC[2], ABC[1]], 1, [], (0, 0), "No model"),  # below the top
        ([Band("b", 9, 19), Band("a", 8, 18), ABC[2]], 10,
         [("b", 2, 1, ["a"], []), ("a", 1, 2, ["b"], [])], (1, 1),
         "1 pair changed order with overlapping bands, as sampling noise allows."),
        # one that overtakes two, of which one lies apart by now
        ([Band("c", 30, 40), Band("a", 25, 35), Band("b", 5, 15)], 10,
         [("c", 3, 1, ["a", "b"], ["b"]), ("a", 1, 2, ["c"], []), ("b", 2, 3, ["c"], ["c"])],
         (2, 1), "1 of them with disjoint bands: c (b), b (c)."),
        # a newcomer pushes others down without any two of them changing order
        ([Band("n", 12, 30), *ABC], 10,
         [("n", None, 1, [], []), *((m, n, n + 1, [], []) for n, m in enumerate("abc", 1))],
         (0, 0), "no pair that was there before changed order."),
        ([ABC[0], Band("c", 9, 19), ABC[1]], 2, [("c", 3, 2, ["b"], []), ("b", 2, 3, ["c"], [])],
         (1, 1), "1 of the top 2 changed rank, and b (2 → 3) left it; 1 pair"),
        ([ABC[0], ABC[2]], 2, [("c", 3, 2, [], []), ("b", 2, None, [], [])], (0, 0),
         "1 of the top 2 changed rank, and b (2 → gone) left it"),
    ):  # fmt: skip
        found = weekly.churn(ABC, now, top=top)
        names = ("model", "before", "now", "crossed", "apart")
        assert [tuple(move[n] for n in names) for move in found["moves"]] == moves
        assert all(move["inside_bands"] == (not move["apart"]) for move in found["moves"])
        assert (found["pairs_swapped"], found["pairs_swapped_inside_bands"]) == swaps
        assert words in sentences.churn(replace(report, churn=found))


def test_12_bands(report: WeeklyReport, votes: BattleLog) -> None:
    """12: boards are those at the ends of both weeks, with their bands, pairs, coverage and RDs."""
    for band in weekly.confidence_bands(report.now):
        row = report.now[band.model]
        assert band.low == pytest.approx(row.conservative)
        assert band.high == pytest.approx(row.rating + 2 * row.rd)
    assert Band("a", 10, 20).overlaps(Band("b", 20, 30))
    assert not Band("a", 10, 19.9).overlaps(Band("b", 20, 30))
    assert (report.week.label, report.compared.label) == ("2026-W39", "2026-W38")
    assert len(report.now.battles) == len(votes)
    assert len(report.before.battles) == pytest.approx(2 / 3 * len(votes), abs=1)
    assert int(report.in_week.sum()) == len(votes) // 3
    then = weekly_report(votes, week="2026-W38")
    assert (then.now.order, then.later) == (report.before.order, len(votes) - len(then.now.battles))
    now, before = report.now, report.before
    assert sum(row.exposure for row in now.fairness) == 2 * 2000
    assert now.fairness[0].equal_target == 400
    assert sum(row["contender"] for row in report.prompts) == 8
    for row in report.prompts:
        assert row["coverage"] == now[row["model"]].prompt_coverage
        assert row["coverage_before"] == before[row["model"]].prompt_coverage
    assert len(report.pairs) == 7
    for pair in report.pairs:
        for board, then in ((now, ""), (before, "_before")):
            found = board.coverage.pair(pair["above"], pair["below"])
            assert (pair[f"votes{then}"], pair[f"prompts{then}"]) == (found.votes, found.prompts)
        assert pair["meets_floor"] == (pair["votes"] >= 12 and pair["prompts"] >= 6)
    for row in report.confidence:
        own, then = now[row["model"]], before[row["model"]]
        figures = [row[name] for name in ("rd", "se", "rd_before", "se_before")]
        assert figures == [own.rd, own.bt_se, then.rd, then.bt_se]


def test_12_sentences(report: WeeklyReport) -> None:
    """10, 12: a sentence for each check; the status names its conditions, now and before."""
    checks = sentences.sentences(report)
    assert list(checks)[:2] == ["Rules kept", "Order decided"]
    assert " 10 models was within ±12 % of 2W/M = 400" in checks["Coverage fairness"]
    assert not sentences.adjusted_due(report)
    assert "it levels off near 60.3" in checks["Confidence stability"]
    assert checks["Quality checks due"] == "none."
    assert "is feasible for up to" in policy_tables.fairness(report).html
    values = json.loads(json.dumps(sentences.validity_values(report), allow_nan=False))
    assert values["sentences"] == checks
    assert values["status"]["reasons"] == list(report.now.status.reasons)
    assert values["published"] is True
    conditions, shown = report.now.status.conditions, policy_tables.status(report).text
    assert len(conditions) == 3
    official = report.now.status.status is PublicationLabel.OFFICIAL
    assert ("shown with this caveat" in shown) is not official
    assert shown.count("✓") == sum(met for met, _ in conditions)
    loose = PublicationStatus(status=PublicationLabel.OFFICIAL, top=(), reasons=("all is well",))
    tight = replace(loose, status=PublicationLabel.CALIBRATING, reasons=("RD is 80",))
    now = replace(report.now, status=loose)
    moved, same = (
        replace(report, now=now, before=replace(report.before, status=was))
        for was in (tight, loose)
    )
    calibrating = "In the comparison week: calibrating: RD is 80."
    assert sentences.rules(moved).endswith(calibrating)
    assert calibrating in policy_tables.status(moved).text
    assert sentences.rules(same).endswith("In the comparison week: officially stable.")


def test_7_2_top_band_target() -> None:
    """7.2, 8.3: top targets, 15 of 35 both-bad listed; 6.2: a third meeting within ten counts."""
    rows = [("x", "y", "ab"[n % 2], "q1" if n < 4 else "q2") for n in range(7)]
    found = weekly_report(timed(log(*rows), days=1)).prompts[0]
    assert (found["coverage"], found["target"]) == (1.0, 0.5)
    rows = [("x", "y", "ab"[n % 2], f"q{n % 8}") for n in range(60)]
    rows += [("x", "z", "a", f"q{n % 8}") for n in range(20)]
    rows += [("z", "y", "!", f"q{n % 8}") for n in range(15)]
    found = weekly_report(timed(log(*rows)))
    assert [check.model for check in found.now.checks] == ["z"]
    assert policy_tables.metrics(found.now).text.count("0.571 (check due)") == 1
    other = [(m, "d", "a", f"p{n}") for m in "ab" for n in range(9)]
    close = [("a", "b", "a", "q")] * 3 + other
    far = [("a", "b", "a", "q")] * 2 + [("b", "a", "a", f"p{n}") for n in range(9)]
    turns = [("a", "b", "a", "pq"[n % 2]) for n in range(20)]
    for rows, repeats in ((close, 1), ([*far, ("a", "b", "a", "q")], 0), (turns, 0),
                          ([*turns, *[turns[-1]] * 3], 3)):  # fmt: skip
        assert integrity(log(*rows), Policy())["prompt_repeats"] == repeats
    world = World(models=10, newcomers=1, matchups=300, answered=0.4)
    played = simulated(world, Policy(), rng=np.random.default_rng(0), start=MONDAY, days=7)
    assert integrity(played, Policy())["prompt_repeats"] == 0


@pytest.mark.parametrize("phase", [Phase.LANES, Phase.MIGRATION])
def test_12_phases(few: BattleLog, phase: Phase) -> None:
    """12: only governance publishes the report; before it the same figures are computed."""
    report, found = weekly_report(few), weekly_report(few, Policy(phase=phase))
    assert found.published == (phase is Phase.GOVERNANCE)
    assert sentences.sentences(found) == sentences.sentences(report)
    shadow = "not published in phase" in policy_tables.status(found).text
    assert shadow == (not phase.publishes_status)
    by_elo = phase.orders_by == "legacy_elo"
    assert bool(sentences.order_note(found.now)) == by_elo
    assert ("published order is by legacy Elo" in policy_tables.weekly(found).text) == by_elo
    assert (found.now.epoch != report.now.epoch) == by_elo
    assert sentences.objectives(found)[3]["met"] == (phase > Phase.SHADOW)


def test_nothing_to_compare(few: BattleLog) -> None:
    """Without times, or a week before, a sentence replaces the comparison."""
    found = weekly_report(season(n=600))
    assert (found.week, found.compared, found.churn) == (None, None, None)
    assert sentences.churn(found) == (
        "Weeks cannot be compared: 600 of 600 battles have no timestamp. All battles count, in "
        "order of battle_id."
    )
    assert len(found.now.rows) == 6
    assert found.pairs
    with pytest.raises(DataError, match="week 2026-W38 cannot be selected"):
        weekly_report(season(n=600), week="2026-W38")
    times = np.where(np.arange(400) == 7, np.datetime64("NaT"), few.timestamp)
    assert "1 of 400 battles" in weekly_report(replace(few, timestamp=times)).note
    first = weekly_report(few, week="2026-W37")
    assert first.note == "There is no earlier week with votes to compare."
    rows = [("a", "b", "!", "q"), ("c", "d", "!", "q")] * 20
    unrated = timed(log(*rows, *[("b", "c", "ab"[n % 2], "q") for n in range(40)]), days=14)
    assert "Week 2026-W37 cannot be compared" in weekly_report(unrated).note
    with pytest.raises(RatingError):
        weekly_report(unrated, compare_week="2026-W37")


def ordered(report: WeeklyReport, verdict: Verdict) -> WeeklyReport:
    """The same report, where this is said of the first two models and all others are decided."""
    first, *others = report.now.order_decided.pairs
    decided = [replace(pair, verdict=Verdict.DECIDED) for pair in others]
    order = replace(report.now.order_decided, pairs=(replace(first, verdict=verdict), *decided))
    return replace(report, now=replace(report.now, order_decided=order))


def met(report: WeeklyReport) -> list[bool | None]:
    return [each["met"] for each in sentences.objectives(report)]


def test_3_objectives(report: WeeklyReport) -> None:
    """3: each verdict follows its rule: a decided order, four of five pairs, 80 % of prompts."""
    covered = [row["coverage"] >= 0.8 for row in report.prompts]
    steady = report.now.order_decided.whole and not report.churn["pairs_swapped_inside_bands"]
    adjacent = np.mean([pair["meets_floor"] for pair in report.pairs]) >= 0.8
    wanted = [steady, adjacent, all(covered), True]
    assert met(report) == wanted
    verdict = sentences.verdict(sentences.objectives(report))
    assert verdict == f"{sum(wanted)} of 4 objectives are met."
    assert verdict in policy_tables.objectives(report).html
    five = [{**pair, "meets_floor": n > 0} for n, pair in enumerate(report.pairs[:5])]
    assert [met(replace(report, pairs=pairs))[1] for pairs in (five, five[:4])] == [True, False]
    for share, enough in ((0.8, True), (0.799, False)):
        prompts = [{**row, "coverage": share} for row in report.prompts]
        assert met(replace(report, prompts=prompts))[2] is enough
    alone = weekly_report(season(n=600))
    assert [met(each)[0] for each in (alone, ordered(alone, Verdict.DECIDED))] == [False, True]
    nothing = sentences.objectives(replace(alone, pairs=()))
    assert "1 cannot be tested" in sentences.verdict(nothing)
    for verdict, inside, robust in (
        (Verdict.DECIDED, 0, True),
        (Verdict.EQUIVALENT, 0, True),
        (Verdict.DECIDED, 1, False),
        (Verdict.UNRESOLVED, 0, False),
    ):
        churned = {**(report.churn or {}), "pairs_swapped": 1, "pairs_swapped_inside_bands": inside}
        assert met(replace(ordered(report, verdict), churn=churned))[0] is robust


def test_retired(few: BattleLog) -> None:
    """7.1: the retired leave both boards and are due nothing, newcomers from their first vote."""
    report = weekly_report(few)
    prompt, gone = few.prompts[0], report.now.order[0]
    found = weekly_report(few, retired=weekly.Retired([gone], [prompt]))
    assert set(found.now.order) == set(report.now.order) - {gone}
    assert gone not in found.before.order
    deficits = model_detail(found.now, found.now.order[0]).deficits
    assert prompt not in deficits.prompts
    assert gone not in deficits.opponents
    for row in found.now.rows:
        same = report.now[row.model]
        assert (row.rating, row.votes) == (same.rating, same.votes)
    places = sum(row.exposure for row in found.now.rows)
    due = {round(row.exposure_equal_target, 9) for row in found.now.rows}
    assert due == {round(places / 5, 9)}
    with pytest.raises(DataError, match="1 of 6 models with votes are active, 2 needed"):
        weekly_report(few, retired=weekly.Retired(few.models[:5]))
    early = [("a", "b", "a", "q"), ("b", "c", "a", "q"), ("c", "a", "b", "q")] * 10
    battles = log(*early, *[("new", "c", "a", "q")] * 10)
    due = {row.model: row.target for row in leaderboard(battles).fairness}
    assert due["new"] == pytest.approx(10 * 2 / 4)
    assert due["a"] == pytest.approx(30 * 2 / 3 + 10 * 2 / 4)
    without = leaderboard(battles, models=["b", "c", "new", "unseen"]).fairness
    assert {row.model for row in without} == {"b", "c", "new", "unseen"}
    assert [row.target for row in without if row.model == "unseen"] == [0]
    assert sentences.fairness(weekly_report(battles)).endswith(
        "The target of 4 of 4 models is adjusted to 5 to 25 exposures (2W/M: 20): "
        "a model that joined within the window is due exposure only since then."
    )
    many = log(*((f"m{i:02}", f"m{j:02}", "a", "q") for i, j in combinations(range(24), 2)))
    crowd = weekly_report(many)
    assert "(2W/M: 23): equal exposure is feasible for up to 23 models" in (
        policy_tables.fairness(crowd).html
    )
    columns = [*policy_tables.fairness(crowd).rows[0]]
    assert columns[3:6] == ["2W/M", "within ±12 % of it", "adjusted target"]
    assert "adjusted target" not in policy_tables.fairness(report).rows[0]


def battle(**values: Any) -> Battle:
    return Battle(model_a="a", model_b="b", winner="tie", **values)  # type: ignore[arg-type]


def test_6_lanes() -> None:
    """6, 11: lane shares beside weights; sessions' repeats, double ids and odd sides count."""
    lanes = ["coverage"] * 5 + ["contender"] * 3 + ["uncertainty"] * 2
    votes = BattleLog.from_battles(battle(lane=lane) for lane in lanes)
    mix = lane_mix(votes, Policy(phase=Phase.LANES), np.arange(10) >= 6)
    found = {each["lane"]: (each["share"], each["lately"], each["weight"]) for each in mix}
    assert (found["coverage"], found["contender"]) == ((0.5, 0.0, 0.4), (0.3, 0.5, 0.3))
    assert found["exploration"] == (0.0, 0.0, 0.1)
    assert [row["weight"] for row in lane_mix(votes, Policy())] == [0.4, 0.3, 0.2, 0.1]
    *four, decide = lane_mix(votes, Policy(decide=Decide(share=0.4)))
    assert [row["weight"] for row in four] == pytest.approx([0.24, 0.18, 0.12, 0.06])
    assert (decide["lane"], decide["votes"], decide["weight"]) == ("decide", 0, 0.4)
    before = BattleLog.from_battles([battle(lane="baseline")])
    (only,) = lane_mix(before, Policy(phase=Phase.SHADOW))
    assert (only["lane"], only["share"], only["weight"]) == ("baseline", 1.0, 1.0)
    assert lane_mix(season(n=10), Policy()) == []
    for gap, repeats in ((49, 1), (50, 0)):
        asked = ["q", *(f"p{n}" for n in range(gap)), "q"]
        votes = BattleLog.from_battles(
            battle(question_id=q, session="s", battle_id=f"v{n:03}") for n, q in enumerate(asked)
        )
        assert integrity(votes, Policy())["session_repeats"] == repeats
        twice = BattleLog.from_battles([battle(battle_id="v")] * 2)
        assert integrity(twice, Policy())["same_ids"] == 1
        named = battle(question_id="q", session="s", lane="coverage", battle_id="v")
        bare = replace(named, session=None, lane=None, battle_id=None)
        early = BattleLog.from_battles([bare, named]).select([0])
        found = integrity(early, Policy())
        assert found["session_repeats"] is found["same_ids"] is None
        assert lane_mix(early, Policy()) == []
    rows = [*[("a", "b", "a", "q")] * 30, *[("b", "a", "a", "q")] * 10, ("c", "d", "a", "q")]
    found = integrity(log(*rows), Policy())
    assert (found["left_of"], found["left"], found["left_wins"]) == ("a", 0.75, 1.0)
    assert found["left_errors"] == pytest.approx((30 - 10) / 40**0.5)
    assert not found["left_chance"]
    even = integrity(log(*rows[2:], *[("b", "a", "a", "q")] * 2), Policy())
    assert even["left_chance"]


def test_9_1_page_by_hand() -> None:
    """9.1: win rate, form, delta, prompts and times, surprise; 8.1: a soft share is a win."""
    rows = [("x", "y", "a", "q1"), ("y", "x", "a", "q1"), ("x", "y", "-", "q2"),
            ("x", "y", "!", "q2"), ("x", "y", "a", "q1")]  # fmt: skip
    board = leaderboard(timed(log(*rows), days=10))
    found = model_detail(board, "x")
    assert (found.summary["win_rate"], found.summary["form"]) == (pytest.approx(2 / 3), "WLDBW")
    assert found.summary["delta"] == pytest.approx(board["x"].rating - 1500)
    names = ("name", "votes", "decisive", "score", "both_bad", "last_seen")
    first, second = ([row[name] for name in names] for row in found.prompts)
    assert first == ["q1", 3, 3, pytest.approx(2 / 3), 0, "2026-09-15T00:00:00Z"]
    assert second == ["q2", 2, 0, 0.5, 1, "2026-09-13T00:00:00Z"]
    (near,) = found.neighbours
    counts = [near[name] for name in ("wins", "losses", "ties", "votes", "meets_floor")]
    assert counts == [2, 1, 1, 3, False], "9.2"
    shown = model_pages.breakdown([found], "prompt").rows
    assert {row["last seen (UTC)"] for row in shown} == {"2026-09-15 00:00", "2026-09-13 00:00"}
    rows = [("x", "y", "aabababaabba"[n], f"q{n}") for n in range(12)]
    board, early = leaderboard(log(*rows)), leaderboard(log(*rows[:2]))
    delta = model_detail(board, "x").summary["delta"]
    assert delta == pytest.approx(board["x"].rating - early["x"].rating)
    rows = [("x", "y", "a", "good")] * 8 + [("x", "y", "b", "bad")] * 4
    rows += [("y", "z", "ab"[n % 2], "good") for n in range(12)]
    pages = {row["name"]: row for row in model_detail(leaderboard(log(*rows)), "x").prompts}
    assert pages["good"]["surprise"] > 0 > pages["bad"]["surprise"]
    row = replace(battle(question_id="q", share_a=0.9), winner="model_a")  # type: ignore[arg-type]
    board = leaderboard(BattleLog.from_battles([row] * 12))
    found = model_detail(board, "a")
    wins = board["a"].wins, found.neighbours[0]["wins"], found.summary["win_rate"]
    assert (wins, found.summary["form"]) == ((12, 12, 1.0), "W" * 10)


def test_9_2_parts_add_up(report: WeeklyReport, votes: BattleLog) -> None:
    """9.2: weeks, prompts and opponents add up; neighbours have order, odds and votes over rate."""
    board = report.now
    for model in board.order[:3]:
        page, row = model_detail(board, model), board[model]
        assert [each["label"] for each in page.trend] == ["2026-W37", "2026-W38", "2026-W39"]
        assert sum(each["both_bad"] for each in page.trend) == row.both_bad
        for parts in (page.trend, page.prompts, page.opponents):
            assert sum(each["votes"] for each in parts) == row.votes == page.summary["votes"]
        end = page.history.rating[-1], page.history.rd[-1]
        assert end == pytest.approx((row.rating, row.rd))
        json.dumps(page.as_dict(), allow_nan=False)
    board = report.now
    for model in board.order:
        own = board[model].bt_rating or 0.0
        for near in model_detail(board, model).neighbours:
            order, upper = near["order"], near["rank"] > board[model].conservative_rank
            assert (near["above"] > 0.5) == (own > (board[near["model"]].bt_rating or 0.0))
            assert {order.above, order.below} == {model, near["model"]}
            assert upper == (order.above == model)
            if order.verdict is Verdict.DECIDED:
                assert (near["above"] > 0.99) if upper else (near["above"] < 0.01)
    waiting = [p for p in board.adjacent if p.more is not None and p.weeks is not None]
    assert waiting
    counted = np.mean(votes.outcome != BOTH_BAD)
    for pair in waiting:
        assert pair.weeks == pytest.approx((pair.more or 0) / (700 * counted), rel=0.01)


def test_9_2_deficits() -> None:
    """6.1, 9.2: a cell lacks part of 4 votes a prompt and of 2 an opponent; or has no prompts."""
    rows = [("x", "y", "a", "q1")] * 3 + [("x", "z", "a", "q2")] + [("y", "z", "a", "q2")]
    rows += [("y", "x", "-", "q1"), ("y", "x", "!", "q2")]
    found = model_detail(leaderboard(log(*rows)), "x").deficits
    at = {name: i for i, name in enumerate(found.opponents)}
    assert found.votes[at["y"]].tolist() == [3, 0]
    assert found.joint[[at["y"], at["z"]]].tolist() == [[0.25, 0.75], [0.75, 1.25]]
    narrow = Policy(contenders=Contenders(band=2))
    outside = model_detail(leaderboard(log(*rows), narrow), "z").deficits
    assert outside.on_prompt.tolist() == [1.0, 0.0], "two votes suffice outside the band"
    board = leaderboard(log(*rows), models=["x", "y", "new"], prompts=["q2", "q1", "q0"])
    fewer = model_detail(board, "y").deficits
    votes = dict(zip(fewer.opponents, fewer.votes.tolist(), strict=True))
    assert (fewer.prompts, votes) == (("q0", "q1", "q2"), {"x": [0, 3, 0], "new": [0, 0, 0]})
    board = leaderboard(replace(season(n=300), question_id=None))
    found = model_detail(board, "m0")
    assert not found.prompts
    assert len(found.trend) == 10
    assert "no prompts" in str(model_pages.breakdown([found], "prompt"))
    model_pages.deficits([found], board)


def test_everything_can_be_drawn() -> None:
    """Tables escape hostile names, and pictures show them without reading formulas."""
    names, rng, rows = [HOSTILE[0], HOSTILE[1], r"$\frac$", "x" * 200], np.random.default_rng(5), []
    for n in range(400):
        i, j = rng.choice(4, 2, replace=False).tolist()
        rows.append((names[i], names[j], "ab-!"[rng.integers(4)], f"$q{n % 7}"))
    report = weekly_report(timed(log(*rows)))
    board, tables = report.now, policy_tables
    pages = [model_detail(board, model) for model in board.order]
    shown = [
        *(table(report) for table in (tables.status, tables.fairness, tables.pairs, tables.churn,
                                      tables.objectives, tables.confidence,
                                      tables.lanes, tables.controls, tables.weekly)),
        tables.board(board), tables.order(board), tables.metrics(board), model_pages.summary(pages),
        model_pages.neighbours(pages, board),
        *(model_pages.breakdown(pages, what) for what in ("prompt", "opponent")),
    ]  # fmt: skip
    assert not any(tag in each.html for each in shown for tag in ("<script", "<img"))
    of_pages = (model_pages.deficits, model_pages.quality, model_pages.history)
    for plot in (model_pages.leaderboard(report), *(draw(pages[:2], board) for draw in of_pages)):
        plot.figure.set_dpi(40)
        plot.figure.canvas.draw()


def test_sample_season() -> None:
    """The sample season keeps the policy that ships: four lanes, and 2W/M within 12 %."""
    votes = read_battles(ROOT / "sample" / "arena" / "season.csv.gz")
    policy = Policy()
    report = weekly_report(votes, policy)
    assert all(abs(lane["share"] - lane["weight"]) < 0.03 for lane in lane_mix(votes, policy))
    assert [row.target for row in report.now.fairness] == pytest.approx([4000 / 18] * 18)
    assert all(row.within and row.within_equal for row in report.now.fairness)
    found = integrity(votes, policy)
    assert [found[n] for n in ("prompt_repeats", "session_repeats", "same_ids")] == [0, 0, 0]
    assert sum(row.provisional for row in report.now.rows) == 1
    lacks = {
        row["model"]: row["first unmet condition"]
        for row in policy_tables.stability(report.now).rows
    }
    assert lacks["model-04"] == f"prompt coverage {11 / 15:.4f}, 0.8 needed"
    assert [row.model for row in report.now.rows if row.model not in lacks] == ["model-02"]
    assert all(re.search(r"\d.* (needed|allowed|votes)|opposite", why) for why in lacks.values())
    assert votes.timestamp.max() < np.datetime64(MONDAY.replace(tzinfo=None) + timedelta(days=42))
