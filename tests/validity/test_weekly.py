"""The weekly validity report by policy number: weeks, fairness, pairs, confidence, churn."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest

from arena_kit import Battle, BattleLog, DataError, RatingError, read_battles
from arena_kit.battles.battle import BOTH_BAD
from arena_kit.matchmaking.simulation import season as simulated
from arena_kit.matchmaking.world import World
from arena_kit.policy.constants import Contenders, Decide, Phase, Policy
from arena_kit.policy.order import Verdict
from arena_kit.policy.ratings import exposure_due, rated
from arena_kit.policy.rules import PublicationLabel, PublicationStatus
from arena_kit.reporting import board_tables, model_page, weekly_plots, weekly_tables
from arena_kit.reporting import model_page as model_pages
from arena_kit.validity import sentences
from arena_kit.validity.churn import Move, Place, churn
from arena_kit.validity.formats import detail_values, validity_values
from arena_kit.validity.integrity import integrity, lane_mix
from arena_kit.validity.leaderboard import leaderboard
from arena_kit.validity.model_page import RECENT, model_detail
from arena_kit.validity.sentences import objectives, verdict
from arena_kit.validity.weekly import Retired, Validity, places, weekly_report
from arena_kit.validity.weeks import Week, chosen_weeks, numbered, week_numbers
from tests.samples import HOSTILE, ROOT, season, timed
from tests.samples import votes_on as log

MONDAY = datetime(2026, 9, 7, tzinfo=UTC)


@pytest.fixture(scope="module")
def votes() -> BattleLog:
    return timed(season(models=10, n=2700, seed=1))


@pytest.fixture(scope="module")
def report(votes: BattleLog) -> Validity:
    return weekly_report(votes)


class TestWeeks:
    """Which weeks a report is about."""

    @pytest.mark.parametrize("text", ["2026-W38", "2026W38", "2026-09-14", "2026-09-20"])
    def test_written(self, text: str) -> None:
        """A week is written as ISO 8601 does, or as any date in it."""
        assert Week.parse(text) == Week(date(2026, 9, 14))
        assert Week.parse(text).label == "2026-W38"

    @pytest.mark.parametrize("text", ["2026-W60", "38", "last", "2026-9-1", "W38"])
    def test_refused(self, text: str) -> None:
        """Anything else is refused with what is allowed."""
        with pytest.raises(DataError, match="is not a week; allowed: an ISO week like 2026-W38"):
            Week.parse(text)

    def test_year_ends(self) -> None:
        """The first days of January may belong to a week of the year before."""
        assert Week.parse("2027-01-01").label == "2026-W53"

    def test_numbers(self) -> None:
        """Numbers of weeks change from Sunday to Monday."""
        days = np.array(["2026-09-13T23:59", "2026-09-14", "1970-01-01"], "datetime64[us]")
        sunday, monday, first = week_numbers(days).tolist()
        assert monday == sunday + 1
        assert numbered(monday) == Week(date(2026, 9, 14))
        assert numbered(first).monday == date(1969, 12, 29)

    def moments(self, *days: str) -> np.ndarray:
        return np.array(days, "datetime64[us]")

    def test_default(self) -> None:
        """Without a parameter it is the last week with votes that is over, and the one before."""
        over = chosen_weeks(self.moments("2026-09-07", "2026-09-20T10:00"))
        assert (over.week.label, over.complete) == ("2026-W38", True)
        assert over.compared == Week(date(2026, 9, 7))
        open_ = chosen_weeks(self.moments("2026-09-01", "2026-09-19T23:00"))
        assert open_.week.label == "2026-W36", "a week without votes is not reported on"

    def test_no_complete_week(self) -> None:
        """Where no week is complete, the only one is taken and said to be incomplete."""
        found = chosen_weeks(self.moments("2026-09-08", "2026-09-09"))
        assert (found.week.label, found.complete, found.compared) == ("2026-W37", False, None)

    def test_asked_for(self) -> None:
        """A week without votes, and a comparison that does not lie before, are refused."""
        times = self.moments("2026-09-07", "2026-09-15", "2026-09-27")
        assert chosen_weeks(times, "2026-W39", "2026-W37").compared == Week.parse("2026-W37")
        with pytest.raises(DataError, match="week 2026-W45 has no votes; votes are from"):
            chosen_weeks(times, "2026-W45")
        with pytest.raises(DataError, match="compare_week 2026-W38 must lie before the week"):
            chosen_weeks(times, "2026-W38", "2026-W38")
        with pytest.raises(DataError, match="compare_week 2026-W30 has no votes"):
            chosen_weeks(times, "2026-W38", "2026-W30")
        gap = self.moments("2026-09-07", "2026-09-27")
        with pytest.raises(DataError, match="week 2026-W38 has no votes"):
            chosen_weeks(gap, "2026-W38")
        assert chosen_weeks(gap).compared == Week.parse("2026-W37")


def place(model: str, low: float, high: float) -> Place:
    return Place(model=model, low=low, high=high)


class TestChurn:
    """12: top-rank churn against confidence bands, by hand."""

    def test_nothing_moved(self) -> None:
        """The same order is no churn."""
        order = [place("a", 10, 20), place("b", 5, 15)]
        found = churn(order, order, top=10)
        assert (found.moves, found.swaps) == ((), 0)
        assert found.sentence == "No model of the top 10 changed rank."

    def test_leaving_the_top(self) -> None:
        """A model that falls out of the top is named apart from those that are in it."""
        before = [place("a", 10, 20), place("b", 9, 19), place("c", 8, 18)]
        now = [place("a", 10, 20), place("c", 9, 19), place("b", 8, 18)]
        said = churn(before, now, top=2).sentence
        assert said.startswith("1 of the top 2 changed rank, and b (2 → 3) left it; 1 pair")
        gone = churn(before, now[:2], top=2).sentence
        assert gone.startswith("1 of the top 2 changed rank, and b (2 → gone) left it")

    def test_inside_the_bands(self) -> None:
        """Two neighbours that change places while their bands overlap moved inside them."""
        before = [place("a", 10, 20), place("b", 5, 15), place("c", 0, 4)]
        now = [place("b", 9, 19), place("a", 8, 18), place("c", 0, 4)]
        found = churn(before, now, top=10)
        assert [(m.model, m.before, m.now, m.crossed) for m in found.moves] == [
            ("b", 2, 1, ("a",)),
            ("a", 1, 2, ("b",)),
        ]
        assert all(move.inside for move in found.moves)
        assert (found.swaps, found.swaps_inside) == (1, 1)
        assert "sampling noise alone may do that" in found.sentence

    def test_outside_the_bands(self) -> None:
        """One that overtakes two, of which one lies apart by now, moved outside them."""
        before = [place("a", 0, 1), place("b", 0, 1), place("c", 0, 1)]
        now = [place("c", 30, 40), place("a", 25, 35), place("b", 5, 15)]
        found = churn(before, now, top=10)
        (mover,) = [move for move in found.moves if move.model == "c"]
        assert (mover.crossed, mover.apart, mover.inside) == (("a", "b"), ("b",), False)
        assert (found.swaps, found.swaps_inside) == (2, 1)
        assert "1 of them with bands that lie apart: c (b)" in found.sentence

    def test_touching_bands_overlap(self) -> None:
        """Bands with one point in common overlap."""
        assert place("a", 10, 20).overlaps(place("b", 20, 30))
        assert not place("a", 10, 19.9).overlaps(place("b", 20, 30))

    def test_newcomer(self) -> None:
        """A newcomer pushes others down without any two of them changing order."""
        before = [place("a", 10, 20), place("b", 5, 15)]
        found = churn(before, [place("n", 12, 30), *before], top=10)
        assert [(m.model, m.before, m.now) for m in found.moves] == [
            ("n", None, 1), ("a", 1, 2), ("b", 2, 3),
        ]  # fmt: skip
        assert (found.swaps, found.moves[1].crossed) == (0, ())

    def test_only_the_top(self) -> None:
        """Moves below the top of both weeks are no top-rank churn."""
        before = [place(m, 0, 1) for m in "abcd"]
        found = churn(before, [before[0], before[1], before[3], before[2]], top=2)
        assert found.moves == ()


class TestReport:
    """Policy 12: the weekly validity report."""

    def test_weeks(self, votes: BattleLog, report: Validity) -> None:
        """The board is that of the end of the week, the other that of the week before."""
        assert report.week
        assert report.compared
        assert (report.week.label, report.compared.label) == ("2026-W39", "2026-W38")
        assert len(report.now.battles) == len(votes)
        assert report.before
        assert len(report.before.battles) == pytest.approx(2 / 3 * len(votes), abs=1)

    def test_earlier_week(self, votes: BattleLog, report: Validity) -> None:
        """Votes after the week do not count, whenever the report is made."""
        then = weekly_report(votes, week="2026-W38")
        assert report.before
        assert then.now.order == report.before.order
        assert then.later == len(votes) - len(then.now.battles)

    def test_fairness(self, report: Validity) -> None:
        """7.1: exposure of every model in the window, with the feasibility sentence."""
        assert sum(row.exposure for row in report.now.fairness) == 2 * 2000
        assert report.now.fairness[0].equal_target == 400
        said = sentences.fairness(report)
        assert "within 12 % of their lane-adjusted target in the last 2000" in said
        assert "equal exposure within 12 % is possible for up to" in report.feasibility.reasons[0]
        assert "is possible for up to" in weekly_tables.fairness(report).html

    def test_prompts(self, report: Validity) -> None:
        """7.2: coverage now and then, and the top-band target for contenders."""
        rows = {row.model: row for row in report.prompts}
        assert sum(row.contender for row in rows.values()) == 8
        for model, row in rows.items():
            assert row.coverage == report.now[model].prompt_coverage
            assert 0 <= row.target <= row.coverage

    def test_top_band_target(self) -> None:
        """7.2: of two prompts a model has four decisive votes on one and three on the other."""
        rows = [("x", "y", "ab"[n % 2], "q1") for n in range(4)]
        rows += [("x", "y", "ab"[n % 2], "q2") for n in range(3)]
        found = {row.model: row for row in weekly_report(timed(log(*rows), days=1)).prompts}
        assert (found["x"].coverage, found["x"].target) == (1.0, 0.5)

    def test_votes_of_the_week(self, report: Validity, votes: BattleLog) -> None:
        """12: the last of three weeks with evenly spread votes has a third of them."""
        assert int(report.in_week.sum()) == len(votes) // 3

    def test_bands_are_two_deviations(self, report: Validity) -> None:
        """12: the band of churn begins at the conservative score and ends as far above."""
        for place in places(report.now):
            row = report.now[place.model]
            assert place.low == pytest.approx(row.conservative)
            assert place.high == pytest.approx(row.rating + 2 * row.rd)

    def test_bradley_terry_agrees(self, report: Validity) -> None:
        """12: a move counts the models passed that all votes put on the same side."""
        top, low = (report.now[name] for name in (report.now.order[0], report.now.order[-1]))
        assert top.bt_rating and low.bt_rating and top.bt_rating > low.bt_rating  # noqa: PT018
        for model, other, agreed in ((top, low, 1), (low, top, 1)):
            move = Move(model=model.model, before=5, now=1, crossed=(other.model,), apart=())
            assert weekly_tables._agreed(report, move) == f"{agreed} of 1"
        rows = [replace(row, bt_rating=-row.bt_rating) for row in report.now.rows if row.bt_rating]
        turned = replace(report, now=replace(report.now, rows=tuple(rows)))
        assert weekly_tables._agreed(turned, move) == "0 of 1"

    def test_kinds_of_votes(self) -> None:
        """8: every kind of vote is counted, with what it does."""
        rows = [("x", "y", kind, "q") for kind in "aab--!"]
        shown = str(weekly_tables.votes(weekly_report(timed(log(*rows), days=1))))
        counts = dict(zip(("A or B", "tie", "both bad"), (3, 2, 1), strict=True))
        for kind, n in counts.items():
            (line,) = (each for each in shown.splitlines() if each.strip().startswith(kind))
            assert line.strip().removeprefix(kind).split()[0] == str(n)

    def test_pairs(self, report: Validity) -> None:
        """7.3: the seven adjacent pairs of eight contenders against the floor."""
        assert len(report.pairs) == 7
        for pair in report.pairs:
            found = report.now.coverage.pair(pair.above, pair.below)
            assert (pair.votes, pair.prompts) == (found.votes, found.prompts)
            assert pair.meets_floor == (pair.votes >= 12 and pair.prompts >= 6)
            assert report.before
            assert pair.votes_before == report.before.coverage.pair(pair.above, pair.below).votes

    def test_confidence(self, report: Validity) -> None:
        """12: RD then and now beside the standard error, and that RD stops falling near 60."""
        said = sentences.confidence(report)
        assert "it stops falling near 60.3 whatever the evidence" in said
        assert "Bradley–Terry standard error" in said
        for row in report.confidence:
            assert report.before
            assert row.rd_before == report.before[row.model].rd
            assert row.se_before == report.before[row.model].bt_se

    def test_rd_stops_falling(self) -> None:
        """5.1: from 2,000 to 8,000 votes RD stays, and the standard error halves."""
        few, many = (leaderboard(season(n=n, models=6, seed=2)) for n in (2000, 8000))
        rd, se = (
            [np.median([getattr(row, name) for row in b.rows]) for b in (few, many)]
            for name in ("rd", "bt_se")
        )
        assert abs(rd[1] - rd[0]) < 3
        assert se[1] < 0.75 * se[0]

    def test_status_and_checks(self, report: Validity) -> None:
        """10 and 8.3: status with its reasons, and the quality checks, in text and JSON."""
        text = weekly_tables.text(report)
        assert text.index("Rules kept: ") < text.index("Order decided: ") < text.index("Coverage")
        assert "Quality checks due: none." in text
        values = validity_values(report, (), integrity(report.now.battles, Policy()))
        found = json.loads(json.dumps(values, allow_nan=False))
        assert found["status"]["reasons"] == list(report.now.status.reasons)
        assert found["published"] is True

    def test_quality_check(self) -> None:
        """8.3: a model with many both-bad votes is listed, with the numbers."""
        rows = [("x", "y", "ab"[n % 2], f"q{n % 8}") for n in range(60)]
        rows += [("x", "z", "a", f"q{n % 8}") for n in range(20)]
        rows += [("z", "y", "!", f"q{n % 8}") for n in range(15)]
        found = weekly_report(timed(log(*rows)))
        assert [check.model for check in found.now.checks] == ["z"]
        worst, *others = weekly_tables.quality(found).rows
        assert (worst["model"], worst["both-bad rate"], worst["check"]) == ("z", "42.9%", "due")
        assert not any(row["check"] for row in others), "y is at 20 % and not above"

    @pytest.mark.parametrize("phase", Phase)
    def test_publication_by_phase(self, votes: BattleLog, phase: Phase) -> None:
        """12: only governance publishes the report; before it, it is computed and says so."""
        found = weekly_report(votes, Policy(phase=phase))
        assert found.published == (phase is Phase.GOVERNANCE)
        assert ("not published in phase" in weekly_tables.text(found)) != found.published
        assert found.churn is not None

    def test_phase_changes_no_figure(self, votes: BattleLog, report: Validity) -> None:
        """12: shadow mode computes the same figures, and says that ranks are not the board's."""
        shadow = weekly_report(votes, Policy(phase=Phase.SHADOW))
        assert sentences.sentences(shadow) == sentences.sentences(report)
        note = (
            "Ranks in this report are by conservative score; the published order is legacy Elo's."
        )
        assert note in weekly_tables.weekly(shadow).html.replace("&#x27;", "'")
        assert sentences.order_note(report.now) == ""
        assert shadow.now.epoch != report.now.epoch

    def test_no_timestamps(self) -> None:
        """Without timestamps one sentence replaces the comparison, and the rest is there."""
        found = weekly_report(season(n=600))
        assert (found.week, found.compared, found.churn) == (None, None, None)
        assert sentences.churn(found) == (
            "No weeks can be compared: 600 of 600 battles have no timestamp, so all count, by "
            "their ids as texts."
        )
        assert len(found.now.rows) == 6
        assert found.pairs
        with pytest.raises(DataError, match=r"a week \(2026-W38\) cannot be told: 600 of 600"):
            weekly_report(season(n=600), week="2026-W38")

    def test_some_timestamps(self, votes: BattleLog) -> None:
        """One battle without a time is enough to make weeks unknown."""
        assert votes.timestamp is not None
        times = votes.timestamp.copy()
        times[7] = np.datetime64("NaT")
        assert "1 of 2700 battles" in weekly_report(replace(votes, timestamp=times)).note

    def test_first_week(self, votes: BattleLog) -> None:
        """In the first week there is nothing to compare with."""
        found = weekly_report(votes, week="2026-W37")
        assert found.note == "No week can be compared: there are no votes before this one."

    def test_unrated_week(self) -> None:
        """A comparison week in which no vote counts is left out, or refused when asked for."""
        rows = [("a", "b", "!", "q"), ("c", "d", "!", "q")] * 20
        rows += [("b", "c", "ab"[n % 2], "q") for n in range(40)]
        votes = timed(log(*rows), days=14)
        found = weekly_report(votes)
        assert "Week 2026-W37 cannot be compared" in found.note
        with pytest.raises(RatingError, match="all were dropped"):
            weekly_report(votes, compare_week="2026-W37")


def ordered(report: Validity, verdict_: Verdict) -> Validity:
    """The same report, where this is said of the first two models and all others are decided."""
    first, *others = report.now.order_decided.pairs
    pairs = (replace(first, verdict=verdict_),
             *(replace(pair, verdict=Verdict.DECIDED) for pair in others))  # fmt: skip
    order = replace(report.now.order_decided, pairs=pairs)
    return replace(report, now=replace(report.now, order_decided=order))


class TestObjectives:
    """Policy 3: what the policy is to achieve, with a verdict each."""

    def met(self, report: Validity) -> list[bool | None]:
        return [each.met for each in objectives(report)]

    def test_verdicts(self, report: Validity) -> None:
        """Each verdict follows from the figures by its rule."""
        assert report.churn
        adjacent = [pair.meets_floor for pair in report.pairs]
        covered = [row.coverage >= 0.8 for row in report.prompts]
        steady = report.now.order_decided.whole and not report.churn.swaps_inside
        wanted = [steady, np.mean(adjacent) >= 0.8, all(covered), True]
        assert self.met(report) == wanted
        found = objectives(report)
        assert verdict(found) == f"{sum(wanted)} of 4 objectives are met."
        assert verdict(found) in weekly_tables.objectives(report).html

    def test_swaps_inside_the_bands_are_noise(self, report: Validity) -> None:
        """Two models at the top that change order while their bands overlap break the first, and
        so does an order that is open.
        """
        assert report.churn
        for verdict_, inside, met in (
            (Verdict.DECIDED, 0, True),
            (Verdict.EQUIVALENT, 0, True),
            (Verdict.DECIDED, 1, False),
            (Verdict.OPEN, 0, False),
        ):
            churned = replace(report.churn, swaps=1, swaps_inside=inside)
            moved = replace(ordered(report, verdict_), churn=churned)
            assert self.met(moved)[0] is met

    def test_boundaries(self, report: Validity) -> None:
        """Four of five pairs and 80 % of prompts are enough; a little less is not."""
        five = [replace(pair, meets_floor=n > 0) for n, pair in enumerate(report.pairs[:5])]
        assert self.met(replace(report, pairs=tuple(five)))[1] is True
        assert self.met(replace(report, pairs=tuple(five[:4])))[1] is False
        for share, met in ((0.8, True), (0.799, False)):
            rows = tuple(replace(row, coverage=share) for row in report.prompts)
            assert self.met(replace(report, prompts=rows))[2] is met

    def test_without_weeks(self) -> None:
        """Without a comparison the order alone tells whether ranks are robust."""
        found = weekly_report(season(n=600))
        assert found.churn is None
        assert self.met(found)[0] is False
        assert self.met(ordered(found, Verdict.DECIDED))[0] is True
        nothing = replace(found, pairs=())
        assert "1 cannot be told" in verdict(objectives(nothing))

    def test_12_shadow_shows_nothing(self, votes: BattleLog) -> None:
        """12: in the shadow uncertainty is computed, and not visible."""
        assert self.met(weekly_report(votes, Policy(phase=Phase.SHADOW)))[3] is False


class TestStatus:
    """Policy 10: the label with its conditions and with what it was before."""

    def test_change_is_told(self, report: Validity) -> None:
        """A board that was calibrating a week before says so, with what was missing."""
        assert report.before
        loose = PublicationStatus(
            status=PublicationLabel.OFFICIAL, top=(), reasons=("all is well",)
        )
        tight = replace(loose, status=PublicationLabel.CALIBRATING, reasons=("RD is 80",))
        now = replace(report.now, status=loose)
        moved = replace(report, now=now, before=replace(report.before, status=tight))
        said = "In the comparison week it was calibrating: RD is 80."
        assert sentences.rules(moved).endswith(said)
        assert said in board_tables.status(moved).html
        assert "not that the ranks are certain" in board_tables.status(moved).html
        same = replace(report, now=now, before=replace(report.before, status=loose))
        assert sentences.rules(same).endswith("It was officially stable in the comparison "
                                                      "week, too.")  # fmt: skip

    def test_every_condition_is_marked(self, report: Validity) -> None:
        """All three conditions are shown, met or not."""
        conditions = report.now.status.conditions
        assert len(conditions) == 3
        page = board_tables.status(report).html
        official = report.now.status.status is PublicationLabel.OFFICIAL
        assert ("stays visible, with this caveat" in page) is not official
        assert page.count("✓") == sum(met for met, _ in conditions)
        assert page.count("✗") == sum(not met for met, _ in conditions)


class TestRetired:
    """Models that are matched no more and prompts that are asked no more."""

    def test_left_out(self, votes: BattleLog, report: Validity) -> None:
        """They leave the board, coverage and targets of both weeks; their votes stay."""
        prompt = str(votes.question_id.names[0]) if votes.question_id else ""
        gone = report.now.order[0]
        found = weekly_report(votes, retired=Retired([gone], [prompt]))
        assert set(found.now.order) == set(report.now.order) - {gone}
        assert found.before is not None
        assert gone not in found.before.order
        assert prompt not in model_detail(found.now, found.now.order[0]).deficits.prompts
        assert gone not in model_detail(found.now, found.now.order[0]).deficits.opponents
        for row in found.now.rows:
            assert (row.rating, row.votes) == (
                report.now[row.model].rating,
                report.now[row.model].votes,
            )
        places = sum(row.exposure for row in found.now.rows)
        assert {round(row.exposure_equal_target, 9) for row in found.now.rows} == {
            round(places / 9, 9)
        }
        assert found.now.status.sentence

    def test_nobody_left(self, votes: BattleLog) -> None:
        """A week in which fewer than two models are left is refused in a sentence."""
        gone = Retired(votes.models[:9])
        with pytest.raises(DataError, match="1 of 10 models with votes are not retired, 2 needed"):
            weekly_report(votes, retired=gone)

    def test_exposure_due(self) -> None:
        """A newcomer is due its part of the matchups from its first on: 2/4 of the last 10 of 40;
        a retired model is due nothing, and one without a vote its part of all.
        """
        policy = Policy(contenders=Contenders(band=8))
        early = [("a", "b", "a", "q"), ("b", "c", "a", "q"), ("c", "a", "b", "q")] * 10
        late = [("new", "c", "a", "q")] * 10
        history, _ = rated(log(*early, *late), policy)
        due = exposure_due(history, policy, ["a", "b", "c", "new"])
        assert due["new"].target == pytest.approx(10 * 2 / 4)
        assert due["a"].target == pytest.approx(30 * 2 / 3 + 10 * 2 / 4)
        without = exposure_due(history, policy, ["b", "c", "new", "unseen"])
        assert without["a"].target == 0
        assert without["unseen"].target == pytest.approx(30 * 2 / 3 + 10 * 2 / 4)


class TestIntegrity:
    """Policy 6 and 11: what a log tells about how its votes came to be."""

    def test_lanes(self) -> None:
        """6: shares of the queue beside the weights."""
        lanes = ["coverage"] * 5 + ["contender"] * 3 + ["uncertainty"] * 2
        votes = BattleLog.from_battles(
            Battle(model_a="a", model_b="b", winner="tie", lane=lane)  # type: ignore[arg-type]
            for lane in lanes
        )
        late = np.arange(10) >= 6
        found = {
            each.lane: (each.share, each.lately, each.weight)
            for each in lane_mix(votes, Policy(phase=Phase.LANES), late)
        }
        assert found["coverage"] == (0.5, 0.0, 0.4)
        assert found["contender"] == (0.3, 0.5, 0.3)
        assert found["exploration"] == (0.0, 0.0, 0.1)
        assert lane_mix(season(n=10), Policy()) == ()
        decide = lane_mix(votes, Policy())[4]
        assert (decide.lane, decide.votes, decide.weight) == ("decide", 0, 0.4)

    def test_third_repeat(self) -> None:
        """6.2: the third meeting on a prompt within ten is counted, the third after ten is not."""
        other = [(m, "d", "a", f"p{n}") for m in "ab" for n in range(9)]
        close = [("a", "b", "a", "q")] * 3 + other
        far = [("a", "b", "a", "q")] * 2 + [("b", "a", "a", f"p{n}") for n in range(9)]
        policy = Policy()
        assert integrity(log(*close), policy).prompt_repeats == 1
        assert integrity(log(*far, ("a", "b", "a", "q")), policy).prompt_repeats == 0

    def test_sessions(self) -> None:
        """11: a session that sees a pair on a prompt again within the gap is counted."""

        def votes(gap: int) -> BattleLog:
            asked = ["q", *(f"p{n}" for n in range(gap)), "q"]
            return BattleLog.from_battles(
                Battle(model_a="a", model_b="b", winner="tie", question_id=q, session="s",  # type: ignore[arg-type]
                       battle_id=f"v{n:03}")
                for n, q in enumerate(asked)
            )  # fmt: skip

        assert integrity(votes(49), Policy()).session_repeats == 1
        assert integrity(votes(50), Policy()).session_repeats == 0

    def test_ids_used_twice(self) -> None:
        """11: a battle id that comes twice is counted."""
        row = Battle(model_a="a", model_b="b", winner="tie", battle_id="v")  # type: ignore[arg-type]
        assert integrity(BattleLog.from_battles([row, row]), Policy()).same_ids == 1

    def test_missing_responses(self) -> None:
        """6.2: where models lack most responses the scheduler repeats as seldom as it can, and
        that is no breach of the rule.
        """
        world = World(models=10, newcomers=1, matchups=1500, answered=0.4)
        found = simulated(world, Policy(), rng=np.random.default_rng(0), start=MONDAY, days=7)
        assert integrity(found, Policy()).prompt_repeats == 0

    def test_columns_that_are_empty(self) -> None:
        """Of a week whose votes name no lane, session or id, nothing is said about these."""
        named = Battle(model_a="a", model_b="b", winner="tie", question_id="q", session="s",  # type: ignore[arg-type]
                       lane="coverage", battle_id="v")  # fmt: skip
        bare = replace(named, session=None, lane=None, battle_id=None)
        early = BattleLog.from_battles([bare, named]).select([0])
        found = integrity(early, Policy())
        assert (found.session_repeats, found.same_ids, lane_mix(early, Policy())) == (
            None,
            None,
            (),
        )

    def test_few_prompts(self) -> None:
        """6.2: where the arena has two prompts, five meetings of ten on each are no repeat."""
        turns = [("a", "b", "a", "pq"[n % 2]) for n in range(20)]
        assert integrity(log(*turns), Policy()).prompt_repeats == 0
        assert integrity(log(*turns, *[turns[-1]] * 3), Policy()).prompt_repeats == 3

    def test_12_lanes_in_the_shadow(self) -> None:
        """12: in phase 1 all of the queue is the scheme before."""
        votes = BattleLog.from_battles(
            [Battle(model_a="a", model_b="b", winner="tie", lane="baseline")]  # type: ignore[arg-type]
        )
        (found,) = lane_mix(votes, Policy(phase=Phase.SHADOW))
        assert (found.lane, found.share, found.weight) == ("baseline", 1.0, 1.0)

    def test_sides_of_a_model_with_few_votes(self) -> None:
        """11: one vote on the left is less far from half than 30 of 40."""
        rows = [*[("a", "b", "a", "q")] * 30, *[("b", "a", "a", "q")] * 10, ("c", "d", "a", "q")]
        found = integrity(log(*rows), Policy())
        assert (found.left_of, found.left) == ("a", 0.75)
        assert found.left_errors == pytest.approx((30 - 10) / 40**0.5)
        assert not found.left_chance, "some model of four is 3.02 off once in 100 arenas"
        assert integrity(log(*rows[:-3], rows[-1]), Policy()).left_errors > 3.02
        even = [*rows[2:], *[("b", "a", "a", "q")] * 2]
        assert integrity(log(*even), Policy()).left_chance

    def test_sides(self) -> None:
        """11: how far from half a model's sides are."""
        found = integrity(log(*[("a", "b", "a", "q")] * 3, ("b", "a", "a", "q")), Policy())
        assert (found.left_of, found.left) == ("a", 0.75)
        assert found.left_wins == 1.0
        assert found.session_repeats is None


class TestDetail:
    """Policy 9.2: the page of a model."""

    def test_soft_shares_do_not_change_who_won(self) -> None:
        """8.1: a decisive vote with a share of its own is a win on the page as on the board."""
        row = Battle(model_a="a", model_b="b", winner="model_a", question_id="q", share_a=0.9)  # type: ignore[arg-type]
        board = leaderboard(BattleLog.from_battles([row] * 12))
        found = model_detail(board, "a")
        assert (board["a"].wins, found.neighbours[0].wins, found.summary.win_rate) == (12, 12, 1.0)
        assert found.summary.form == "W" * 10

    def test_by_hand(self) -> None:
        """9.1: win rate of decisive votes, form with the latest last, delta of recent votes."""
        votes = timed(log(
            ("x", "y", "a", "q1"), ("y", "x", "a", "q1"), ("x", "y", "-", "q2"),
            ("x", "y", "!", "q2"), ("x", "y", "a", "q1"),
        ), days=10)  # fmt: skip
        board = leaderboard(votes)
        found = model_detail(board, "x")
        assert found.summary.win_rate == pytest.approx(2 / 3)
        assert found.summary.form == "WLDBW"
        assert found.summary.delta == pytest.approx(board["x"].rating - 1500)
        (first, second) = found.prompts
        assert (first.name, first.votes, first.score) == ("q1", 3, pytest.approx(2 / 3))
        assert (second.name, second.votes, second.score, second.both_bad) == ("q2", 2, 0.5, 1)
        assert second.last_seen == datetime(2026, 9, 13)  # noqa: DTZ001 (UTC, as in the log)
        (near,) = found.neighbours
        assert (near.wins, near.losses, near.ties, near.votes) == (2, 1, 1, 3), "9.2"
        assert not near.meets_floor

    def test_delta_of_the_last_ten(self) -> None:
        """9.1: with twelve votes, recent delta begins where the second vote left the rating."""
        rows = [("x", "y", "aabababaabba"[n], f"q{n}") for n in range(12)]
        board, early = leaderboard(log(*rows)), leaderboard(log(*rows[:2]))
        delta = model_detail(board, "x").summary.delta
        assert delta == pytest.approx(board["x"].rating - early["x"].rating)

    def test_better_than_its_rating(self) -> None:
        """9.1: a model that wins all on one prompt and loses all on another is above expectation
        on the first.
        """
        rows = [("x", "y", "a", "good")] * 8 + [("x", "y", "b", "bad")] * 4
        rows += [("y", "z", "ab"[n % 2], "good") for n in range(12)]
        board = leaderboard(log(*rows))
        pages = {row.name: row for row in model_detail(board, "x").prompts}
        assert (pages["good"].surprise or 0) > 0 > (pages["bad"].surprise or 0)

    def test_above_a_neighbour(self, report: Validity) -> None:
        """9.2: a model is probably above a neighbour whose Bradley–Terry rating is lower, and the
        page has the order of these two, whichever of them it is about.
        """
        board = report.now
        for model in board.order:
            own = board[model].bt_rating or 0.0
            for near in model_detail(board, model).neighbours:
                assert near.above is not None
                assert (near.above > 0.5) == (own > (board[near.model].bt_rating or 0.0))
                assert {near.order.above, near.order.below} == {model, near.model}
                upper = near.rank > board[model].conservative_rank
                assert upper == (near.order.above == model)
                if near.order.verdict is Verdict.DECIDED:
                    assert (near.above > 0.99) if upper else (near.above < 0.01)

    def test_weeks_until_decided(self, report: Validity, votes: BattleLog) -> None:
        """900 votes a week, 5 % of them both-bad: an open pair takes its votes over 855 a week."""
        waiting = [p for p in report.now.adjacent if p.more is not None and p.weeks is not None]
        assert waiting
        counted = np.mean(votes.outcome != BOTH_BAD)
        for pair in waiting:
            assert pair.weeks == pytest.approx((pair.more or 0) / (900 * counted), rel=0.01)

    def test_history_of_responses(self) -> None:
        """9.1: which prompts a model's responses were shown on, and when, the latest first."""
        votes = timed(log(*[("x", "y", "a", q) for q in ("q1", "q2", "q2")]), days=3)
        rows = model_pages.responses([model_detail(leaderboard(votes), "x")]).rows
        assert [(row["response to"], row["shown"]) for row in rows] == [("q2", 2), ("q1", 1)]
        assert rows[0]["first seen (UTC)"] == "2026-09-08 00:00"
        assert rows[0]["last seen (UTC)"] == "2026-09-09 00:00"

    def test_confidence_history(self, report: Validity) -> None:
        """9.2: the path ends at the rating and RD of the board."""
        board = report.now
        for model in board.order[:3]:
            path = model_detail(board, model).path
            assert path.rating[-1] == pytest.approx(board[model].rating)
            assert path.rd[-1] == pytest.approx(board[model].rd)
            assert len(path.rating) == board[model].votes

    def test_trend(self, report: Validity) -> None:
        """8.3: both-bad votes by week add up to those of the board."""
        board = report.now
        found = model_detail(board, board.order[0])
        assert [trend.label for trend in found.trend] == ["2026-W37", "2026-W38", "2026-W39"]
        assert sum(trend.both_bad for trend in found.trend) == board.rows[0].both_bad
        assert sum(trend.votes for trend in found.trend) == board.rows[0].votes
        untimed = leaderboard(season(n=600))
        assert len(model_detail(untimed, "m0").trend) == 10

    def test_deficits(self) -> None:
        """6.1, 9.2: a cell lacks what is missing on the prompt and against the opponent."""
        rows = [("x", "y", "a", "q1")] * 3 + [("x", "z", "a", "q2")] + [("y", "z", "a", "q2")]
        rows += [("y", "x", "-", "q1"), ("y", "x", "!", "q2")]
        found = model_detail(leaderboard(log(*rows)), "x").deficits
        at = {name: i for i, name in enumerate(found.opponents)}
        assert found.votes[at["y"]].tolist() == [3, 0]
        # x is a contender: 4 votes wanted per prompt; an equal share against two is 2
        assert found.joint[at["y"]].tolist() == [0.25, 0.75]
        assert found.joint[at["z"]].tolist() == [0.75, 1.25]
        narrow = Policy(contenders=Contenders(band=2))
        outside = model_detail(leaderboard(log(*rows), narrow), "z").deficits
        assert outside.on_prompt.tolist() == [1.0, 0.0], "two votes suffice outside the band"
        board = leaderboard(log(*rows), models=["x", "y", "new"], prompts=["q2", "q1", "q0"])
        fewer = model_detail(board, "y").deficits
        votes = dict(zip(fewer.opponents, fewer.votes.tolist(), strict=True))
        assert (fewer.prompts, votes) == (("q0", "q1", "q2"), {"x": [0, 3, 0], "new": [0, 0, 0]})

    def test_opponents_add_up(self, report: Validity) -> None:
        """9.1: opponents and prompts break the same votes down."""
        found = model_detail(report.now, report.now.order[0])
        assert sum(row.votes for row in found.opponents) == found.summary.votes
        assert sum(row.votes for row in found.prompts) == found.summary.votes
        assert len(found.summary.form) == RECENT
        json.dumps(detail_values(found), allow_nan=False)

    def test_no_prompts(self) -> None:
        """A file without prompts has pages without prompts."""
        votes = replace(season(n=300), question_id=None)
        board = leaderboard(votes)
        found = model_detail(board, "m0")
        assert found.prompts == ()
        assert "names no prompts" in str(model_pages.prompts([found]))
        assert "names no prompts" in str(model_pages.responses([found]))
        model_page.deficits([found], board)


def test_everything_can_be_drawn() -> None:
    """Tables escape hostile names, and pictures show them without reading formulas."""
    names = [HOSTILE[0], HOSTILE[1], r"$\frac$", "x" * 200, "plain"]
    rng = np.random.default_rng(5)
    rows = []
    for n in range(400):
        i, j = rng.choice(5, 2, replace=False).tolist()
        rows.append((names[i], names[j], "ab-!"[rng.integers(4)], f"$q{n % 7}"))
    report = weekly_report(timed(log(*rows)))
    pages = [model_detail(report.now, model) for model in report.now.order]
    shown = [
        board_tables.status(report), weekly_tables.fairness(report), weekly_tables.pairs(report),
        weekly_tables.churn(report), weekly_tables.quality(report),
        weekly_tables.objectives(report),
        weekly_tables.controls(integrity(report.now.battles, Policy())),
        model_pages.summary(pages), model_pages.neighbours(pages, report.now),
        model_pages.prompts(pages), model_pages.opponents(pages), model_pages.responses(pages),
    ]  # fmt: skip
    for each in shown:
        assert "<script" not in each.html
        assert "<img" not in each.html
    for plot in (
        weekly_plots.exposure(report), weekly_plots.confidence(report),
        weekly_plots.bands(report), model_page.deficits(pages[:2], report.now),
        model_page.quality(pages[:2], report.now),
        model_page.history(pages[:2], report.now),
    ):  # fmt: skip
        plot.figure.set_dpi(40)
        plot.figure.canvas.draw()


def test_sample_season() -> None:
    """The sample season keeps the policy with its four lanes: lanes, sides, exposure, pairs and
    repeats.
    """
    votes = read_battles(ROOT / "sample" / "arena" / "season.csv.gz")
    policy = Policy(decide=Decide(share=0.0))
    report = weekly_report(votes, policy)
    assert report.now.policy == policy
    assert all(abs(lane.share - lane.weight) < 0.03 for lane in lane_mix(votes, policy))
    assert all(row.within for row in report.now.fairness)
    found = integrity(votes, policy)
    assert (found.prompt_repeats, found.session_repeats, found.same_ids) == (0, 0, 0)
    assert sum(row.provisional for row in report.now.rows) == 1
    assert votes.timestamp is not None
    assert votes.timestamp.max() < np.datetime64(MONDAY.replace(tzinfo=None) + timedelta(days=42))
