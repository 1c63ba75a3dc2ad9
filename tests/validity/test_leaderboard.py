"""The leaderboard: every metric of policy 9, the rollout phases, and its formats."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from scipy.stats import studentized_range

from arena_kit import BattleLog, BradleyTerry, Glicko2, RatingError
from arena_kit.battles.log import Labels
from arena_kit.matchmaking.arena import Arena
from arena_kit.policy.constants import (
    LegacyElo,
    Phase,
    Policy,
    PromptScores,
    Publication,
    Threshold,
)
from arena_kit.policy.order import Verdict
from arena_kit.policy.ratings import legacy_elo
from arena_kit.policy.rules import Badge
from arena_kit.reporting import policy_tables
from arena_kit.reporting.html import clean_html
from arena_kit.validity.leaderboard import (
    Leaderboard,
    earlier_of,
    leaderboard,
    prompt_scores,
    score_summary,
)
from arena_kit.validity.model_page import model_detail
from arena_kit.validity.weekly import weekly_report
from tests.samples import HOSTILE, Elements, season
from tests.samples import votes_on as log

SHADOW, LANES, MIGRATION, GOVERNANCE = Phase


@pytest.fixture(scope="module")
def votes() -> BattleLog:
    return season()


@pytest.fixture(scope="module")
def board(votes: BattleLog) -> Leaderboard:
    return leaderboard(votes)


class TestScores:
    """Policy 9.1 with the definitions of the specification."""

    def test_by_hand(self) -> None:
        """9.1: prompts scored 1, 0.5 and 0.75 have mean 0.75, spread 0.2041, consistency 59."""
        found = prompt_scores(
            log(
                ("x", "y", "a", "q1"), ("y", "x", "b", "q1"),  # two wins: 1
                ("x", "y", "a", "q2"), ("x", "y", "b", "q2"),  # a win and a loss: 0.5
                ("x", "y", "-", "q3"), ("x", "y", "a", "q3"),  # a draw and a win: 0.75
                ("x", "y", "b", "q4"),  # one vote: does not count
                ("x", "y", "!", "q4"),  # nor does both-bad
            ),
            PromptScores(),
        )["x"]  # fmt: skip
        assert found == {
            "avg_score": pytest.approx(0.75),
            "spread": pytest.approx(np.sqrt((0.0625 + 0.0625) / 3)),
            "consistency": 59,
            "prompts": 3,
        }

    @pytest.mark.parametrize(
        ("scores", "summary"),
        [
            ([1.0, 0.0], (0.5, None, None, 2)),  # too few prompts for a spread
            ([], (None, None, None, 0)),
            ([0.3] * 4, (0.3, 0.0, 100, 4)),
            ([1.0, 0.0, 1.0, 0.0], (0.5, 0.5, 0, 4)),
        ],
    )
    def test_ends(self, scores: list[float], summary: tuple[float | None, ...]) -> None:
        """9.1: no spread is 100 % consistent, one of 0.5 or more 0 %; few prompts have none."""
        found = tuple(score_summary(np.array(scores), PromptScores()).values())
        assert found == pytest.approx(summary)

    def test_adjusted_removes_scheduling(self) -> None:
        """9.1: of two equal models, the one matched with weak opponents has the better raw
        score, and not the better adjusted one.
        """
        rng = np.random.default_rng(3)
        rows = []
        for n in range(4000):
            model, other, p = [("lucky", "weak", 0.76), ("unlucky", "strong", 0.24)][n % 2]
            if n % 5 == 0:
                model, other, p = "lucky", "unlucky", 0.5
            rows.append((model, other, "a" if rng.random() < p else "b", f"q{n % 20}"))
        votes = log(*rows)
        for strengths, low, high in ((None, 0.2, 1.0), (BradleyTerry()(votes), -0.05, 0.05)):
            found = prompt_scores(votes, PromptScores(), strengths)
            gap = (found["lucky"]["avg_score"] or 0) - (found["unlucky"]["avg_score"] or 0)
            assert low < gap < high


class TestLegacyElo:
    """The rating of policy 2."""

    def test_by_hand(self) -> None:
        """2: K 16 from 1500, a win is +8, and both-bad takes 8 from each at the baseline."""
        rule = LegacyElo()
        assert legacy_elo(log(("x", "y", "a", "q")), rule) == {"x": 1508.0, "y": 1492.0}
        assert legacy_elo(log(("x", "y", "!", "q")), rule) == {"x": 1492.0, "y": 1492.0}
        assert legacy_elo(log(("x", "y", "-", "q")), rule) == {"x": 1500.0, "y": 1500.0}

    def test_as_a_running_arena_keeps_it(self, votes: BattleLog) -> None:
        """A running arena keeps the same Elo and Glicko-2 vote by vote, and the same order."""
        for phase in Phase:
            policy = Policy(phase=phase)
            kept = Arena(policy, votes.models, (), rng=np.random.default_rng(0), battles=votes)
            board = leaderboard(votes, policy)
            assert kept.order() == list(board.order)
            for row in board.rows:
                assert row.legacy_elo == pytest.approx(kept.elo[row.model], abs=1e-9)
                assert row.rating == pytest.approx(kept.ratings[row.model].rating, abs=1e-6)


class TestRows:
    """Policy 5 and 9.2."""

    def test_rating_state(self, votes: BattleLog, board: Leaderboard) -> None:
        """5.1: rating, RD and volatility are Glicko-2's; 4: conservative is rating - 2 RD."""
        ratings = Glicko2(evidence_replicates=0)(votes)
        for row in board.rows:
            assert row.rating == pytest.approx(ratings[row.model].rating)
            assert row.rd == pytest.approx(ratings[row.model].extra["rd"])
            assert row.volatility == pytest.approx(ratings[row.model].extra["volatility"])
            assert row.conservative == pytest.approx(row.rating - 2 * row.rd)
        scores = [row.conservative for row in board.rows]
        assert scores == sorted(scores, reverse=True), "5.2: not by rating"
        assert [row.rank for row in board.rows] == [1, 2, 3, 4, 5, 6]

    def test_newly_lucky(self) -> None:
        """5.2: a newcomer with four wins has the best rating and does not lead."""
        base = [("good", f"m{n % 4}", "a" if n % 3 else "b", f"q{n % 9}") for n in range(300)]
        base += [
            (f"m{n % 4}", f"m{(n + 1) % 4}", "ab"[n // 4 % 2], f"q{n % 9}") for n in range(300)
        ]
        board = leaderboard(log(*base, *[("lucky", "m0", "a", f"q{n}") for n in range(4)]))
        assert max(board.rows, key=lambda row: row.rating).model == "lucky"
        assert board.rows[0].model == "good"
        assert board["lucky"].badge is Badge.PROVISIONAL
        assert board["lucky"].official_rank is None
        assert "4 decisive votes, 80 needed" in board["lucky"].provisional_reasons

    def test_provisional_are_visible(self, votes: BattleLog) -> None:
        """5.3: provisional models keep their place in the order and have no official rank."""
        strict = Threshold(decisive=10_000, prompt_coverage=0.8, rd=90)
        loose = leaderboard(votes, Policy(established=replace(strict, decisive=750), stable=strict))
        assert [row.rank for row in loose.rows] == [1, 2, 3, 4, 5, 6]
        named = [row.official_rank for row in loose.rows if not row.provisional]
        assert named == list(range(1, len(named) + 1))
        assert 0 < len(named) < 6
        none = leaderboard(votes, Policy(established=strict, stable=strict))
        assert all(row.official_rank is None for row in none.rows)

    def test_counts(self, votes: BattleLog, board: Leaderboard) -> None:
        """9.1: the record, the votes and both-bad add up; 8.3: the floor is 1 - rate."""
        for row in board.rows:
            assert row.votes == row.wins + row.losses + row.ties + row.both_bad
            assert row.decisive == row.wins + row.losses
            assert row.quality_floor == pytest.approx(1 - row.both_bad / row.votes)
        assert sum(row.votes for row in board.rows) == 2 * len(votes)
        assert sum(row.wins for row in board.rows) == sum(row.losses for row in board.rows)

    def test_evidence_beside_rd(self, votes: BattleLog, board: Leaderboard) -> None:
        """Bradley–Terry's rating and standard error stand beside RD, both-bad left out; claims are
        about these prompts, where every vote counts, or about prompts like these.
        """
        likewise = leaderboard(votes, Policy(claims_about="prompts_like_these"))
        for made, cluster in ((board, "battle"), (likewise, "question")):
            found = BradleyTerry(center=1500, both_bad="exclude", cluster=cluster)(votes)  # type: ignore[arg-type]
            for row in made.rows:
                assert row.bt_rating == pytest.approx(found[row.model].rating)
                assert row.bt_se == pytest.approx(found[row.model].extra["se"])
                assert row.bt_se < row.rd / 2
        assert board.order_decided.about == "these_prompts"
        assert likewise.order_decided.about == "prompts_like_these"
        assert "Claims are about prompts like these" in policy_tables.board(likewise).html

    def test_only_both_bad(self) -> None:
        """8.3: a model with nothing but both-bad votes is shown where new models begin."""
        board = leaderboard(log(("x", "y", "a", "q"), ("y", "x", "b", "q"), ("z", "x", "!", "q")))
        row = board["z"]
        assert (row.rating, row.rd, row.both_bad, row.bt_rating) == (1500.0, 350.0, 1, None)
        assert board["x"].both_bad == 1

    def test_enabled_models(self, votes: BattleLog) -> None:
        """Models without a vote are on the board when enabled, others only while they are; where no
        vote counts there is no board. Tiers are numbered among the models of the board.
        """
        board = leaderboard(votes, models=["m1", "m2", "new"])
        assert set(board.order) == {"m1", "m2", "new"}
        assert board["new"].votes == 0
        assert board["new"].provisional
        assert min(row.tier for row in board.rows if row.tier) == 1
        with pytest.raises(RatingError):
            leaderboard(log(("a", "b", "!", "q")))

    def test_newcomers_that_only_met_each_other(self, votes: BattleLog) -> None:
        """10: the ranking stays visible; Bradley–Terry leaves out those apart, and says so."""
        apart = replace(log(("x", "y", "a", "q00"), ("y", "x", "a", "q01")), battle_id=None)
        board = leaderboard(BattleLog.joined(votes, apart))
        assert len(board.rows) == 8
        assert {row.model for row in board.rows if row.bt_rating is None} == {"x", "y"}
        for row in leaderboard(votes).rows:
            assert board[row.model].rating == row.rating
            assert board[row.model].bt_rating == pytest.approx(row.bt_rating, abs=1e-6)
        assert "No Bradley–Terry rating for" in policy_tables.metrics(board).html
        assert model_detail(board, "x").neighbours

    def test_input_untouched(self, votes: BattleLog, board: Leaderboard) -> None:
        """The same log gives the same board, and rows in another order do, too."""
        turned = votes.select(np.arange(len(votes))[::-1])
        assert leaderboard(votes).as_dict() == board.as_dict()
        again = leaderboard(turned)
        assert again.order == board.order
        for row in again.rows:
            assert row.rating == board[row.model].rating
            assert row.bt_rating == pytest.approx(board[row.model].bt_rating)


class TestOrderDecided:
    """What stands beside the rules that are kept (10): which orders the votes decide."""

    def test_against_the_studentized_range(self, votes: BattleLog, board: Leaderboard) -> None:
        """A pair of the board is decided when its gap is larger, in standard errors, than SciPy's
        99.5 % point of the studentized range over √2 for as many models as it spans.
        """
        fit = BradleyTerry(both_bad="exclude", cluster="battle")(votes)
        assert fit.covariance is not None
        verdicts = []
        for pair in board.order_decided.pairs:
            i, j = (fit.models.index(model) for model in (pair.above, pair.below))
            spread = np.sqrt(fit.covariance[[i, j], [i, j]].sum() - 2 * fit.covariance[i, j])
            gap = fit[pair.above].rating - fit[pair.below].rating
            span = abs(fit.order.index(pair.above) - fit.order.index(pair.below)) + 1
            bar = studentized_range.ppf(0.995, span, np.inf) / np.sqrt(2)
            assert abs(abs(gap) / spread - bar) > 0.05, "too close to tell the two apart"
            assert pair.gap == pytest.approx(gap)
            assert (pair.verdict is Verdict.DECIDED) == (gap / spread > bar)
            assert pair.settled == (pair.verdict is Verdict.DECIDED)
            verdicts.append(pair.verdict)
        assert {Verdict.DECIDED, Verdict.OPEN} <= set(verdicts)

    def test_stable_can_be_reached(self) -> None:
        """9.2: after 8,000 votes on models 60 points apart the votes decide every pair, and those
        are Stable whose neighbours on the board stand as the votes have them. The conservative
        score follows the latest votes: it puts m5 above m3, and neither is Stable.
        """
        board = leaderboard(season(n=8000, seed=2))
        assert board.order == ("m0", "m1", "m2", "m4", "m5", "m3")
        verdicts = [pair.verdict for pair in board.order_decided.pairs]
        assert verdicts == [Verdict.DECIDED] * 4 + [Verdict.REVERSED]
        assert not board.order_decided.whole
        badges = [row.badge for row in board.rows]
        assert badges == [Badge.STABLE] * 4 + [Badge.ESTABLISHED] * 2
        assert board["m3"].badge_reasons[-1] == (
            "below m5 on the board, and the votes decide the opposite"
        )

    def test_twins_are_equivalent(self) -> None:
        """Two models that win every second of 20,000 votes, 0 points apart with a standard error of
        2 · 400 / ln 10 / √20,000 = 2.5, are equivalent within 20 points, and Stable.
        """
        votes = log(*[("x", "y", "ab"[n % 2], f"q{n % 7}") for n in range(20_000)])
        board = leaderboard(votes)
        (pair,) = board.order_decided.pairs
        assert pair.verdict is Verdict.EQUIVALENT
        assert {row.badge for row in board.rows} == {Badge.STABLE}
        assert {row.tier for row in board.rows} == {1}

    def test_provisional_models_are_no_neighbours(self, votes: BattleLog) -> None:
        """5.3: a newcomer is outside official claims, so it is in no pair of the top and no badge
        asks for its order.
        """
        new = [("new", "m5", "a", f"q{n:02}") for n in range(9)]
        joined = BattleLog.joined(
            replace(votes, battle_id=None), replace(log(*new), battle_id=None)
        )
        board = leaderboard(joined, Policy(publication=Publication(top=6)))
        assert board["new"].provisional
        assert board.conservative_order.index("new") < 6
        assert not any("new" in " ".join(row.badge_reasons) for row in board.rows)
        assert not any("new" in (pair.above, pair.below) for pair in board.order_decided.pairs)
        assert len(board.order_decided.pairs) == 5

    def test_in_json_and_on_the_board(self, board: Leaderboard) -> None:
        """JSON has every pair, the counts and the tiers; the board the tier under the rank, and
        what its claims are about.
        """
        found = json.loads(json.dumps(board.as_dict(), allow_nan=False))
        assert len(found["order_decided"]["pairs"]) == sum(
            found["order_decided"]["counts"].values()
        )
        assert sorted(chain(*found["tiers"])) == sorted(board.order)
        for n, group in enumerate(found["tiers"], 1):
            assert {board[model].tier for model in group} == {n}
        assert shown(board)["Rank"] == "1 (tier 1)"
        assert "Claims are about these prompts" in policy_tables.board(board).html
        table = str(policy_tables.order(board))
        assert all(f"{p.above} over {p.below}" in table for p in board.order_decided.pairs)
        assert found["fragility"]["sentence"] in table

    def test_how_few_votes_the_first_place_rests_on(self) -> None:
        """Of 10 votes x won 6: two of those 6 taken out leave 4 to 4, three 3 to 4; one more vote
        for y than the two that are missing is added.
        """
        votes = log(*[("x", "y", "aaaaaabbbb"[n], f"q{n}") for n in range(10)])
        fragile = leaderboard(votes).fragility()
        assert fragile is not None
        assert (fragile.above, fragile.removed, fragile.added) == ("x", 3, 3)

    def test_voters_are_the_evidence_where_they_are_named(self, votes: BattleLog) -> None:
        """About these prompts every voter is one piece of evidence. With fewer than ten of them
        nothing is claimed, and the reason is told.
        """
        many, few = (
            replace(votes, voter=Labels.of(f"v{k % n}" for k in range(len(votes)))) for n in (60, 5)
        )
        fit = BradleyTerry(both_bad="exclude", cluster="voter")(many)
        for row in leaderboard(many).rows:
            assert row.bt_se == pytest.approx(fit[row.model].extra["se"])
        board = leaderboard(few)
        assert {pair.verdict for pair in board.order_decided.pairs} == {Verdict.OPEN}
        assert {row.tier for row in board.rows} == {None}
        assert "too little evidence for any claim" in " ".join(board.rows[0].badge_reasons)
        assert shown(board)["Rank"] == "1"


def shown(board: Leaderboard) -> dict[str, str]:
    """The first row of the board as readers of its CSV see it."""
    (first, *_) = csv.DictReader(io.StringIO(policy_tables.board(board).csv))
    return first


class TestPhases:
    """Policy 12."""

    def test_shadow_changes_nothing(self, votes: BattleLog) -> None:
        """Phase 1: the official order is legacy Elo's, v2 is computed, and readers see no sign."""
        board = leaderboard(votes, Policy(phase=SHADOW))
        elo = legacy_elo(votes, LegacyElo())
        assert list(board.order) == sorted(elo, key=lambda model: -elo[model])
        assert [row.official_rank for row in board.rows] == [1, 2, 3, 4, 5, 6]
        assert sorted(row.conservative_rank for row in board.rows) == [1, 2, 3, 4, 5, 6]
        texts = shown(board)
        assert texts["Rating"] == f"{board.rows[0].legacy_elo:.0f}"
        assert not {"Confidence", "Coverage"} & set(texts)
        page = policy_tables.board(board).html
        assert all(badge not in page for badge in Badge)
        assert "RD" not in page
        report = weekly_report(votes, Policy(phase=SHADOW))
        assert "not published in phase 1" in str(policy_tables.status(report))

    def test_lanes_add_diagnostics(self, votes: BattleLog) -> None:
        """Phase 2: the same order and label, with badges, confidence and coverage beside it."""
        shadow, board = (leaderboard(votes, Policy(phase=p)) for p in (SHADOW, LANES))
        assert board.order == shadow.order
        assert shown(board)["Rating"] == shown(shadow)["Rating"]
        assert set(shown(board)) - set(shown(shadow)) == {"Confidence", "Coverage"}
        assert not board.as_dict()["status"]["published"]

    def test_9_3_tooltips(self, votes: BattleLog) -> None:
        """9.3: advanced metrics are in tooltips: RD on the rating, what it lacks on the badge."""
        board = leaderboard(votes)
        page = policy_tables.board(board).html
        for row in board.rows:
            assert f'title="RD {row.rd:.1f}, volatility {row.volatility:.4f}"' in page
        assert 'title="not Stable: order with m' in page

    def test_migration_and_governance(self, votes: BattleLog, board: Leaderboard) -> None:
        """Phase 3: ordered by conservative score, legacy Elo as a second field, which phase 4 no
        longer shows.
        """
        migrated = leaderboard(votes, Policy(phase=MIGRATION))
        assert board.order == migrated.order == board.conservative_order
        row = board.rows[0]
        value, raw = f"{row.conservative:.0f}", f"raw {row.rating:.0f}"
        assert shown(migrated)["Rating"] == f"{value} ({raw}, Elo {row.legacy_elo:.0f})"
        assert shown(board)["Rating"] == f"{value} ({raw})"
        assert migrated.as_dict()["status"]["published"]


class TestEpochs:
    """Rank history carries a method epoch."""

    def test_change_within_an_epoch(self, votes: BattleLog, board: Leaderboard) -> None:
        """Official ranks of an earlier board under the same method are compared; a model that had
        none did not move, and does not move the others.
        """
        before = leaderboard(votes.select(np.arange(len(votes) * 3 // 4)))
        now = leaderboard(votes, earlier=before.earlier())
        assert now.movement == ""
        for row in now.rows:
            old, new = before[row.model].official_rank, row.official_rank
            both = old is not None and new is not None
            assert row.rank_change == (old - new if both else None)
        hidden = replace(board.earlier(), ranks={"m1": 1})
        assert leaderboard(votes, earlier=hidden)["m0"].rank_change is None

    def test_change_of_method_is_no_movement(self, votes: BattleLog) -> None:
        """12: moving the order from Elo to the conservative score moves nobody."""
        before = leaderboard(votes.select(np.arange(200)), Policy(phase=LANES))
        now = leaderboard(votes, Policy(phase=MIGRATION), earlier=before.earlier())
        assert all(row.rank_change is None for row in now.rows)
        assert "a change of method is not shown as movement" in now.movement
        assert "▲" not in policy_tables.board(now).html

    def test_settings_are_part_of_the_method(self, board: Leaderboard, votes: BattleLog) -> None:
        """Another tau or another number of deviations begins a new epoch; a phase may not."""
        policy = Policy()
        other = replace(policy, glicko=replace(policy.glicko, tau=0.6))
        assert leaderboard(votes, other).epoch != board.epoch
        assert leaderboard(votes, replace(policy, deviations=1.0)).epoch != board.epoch
        assert leaderboard(votes, replace(policy, phase=MIGRATION)).epoch == board.epoch

    def test_from_json(self, board: Leaderboard) -> None:
        """An earlier board is known by its JSON; anything else is refused in a sentence."""
        again = earlier_of(json.loads(json.dumps(board.as_dict())), "board.json")
        assert again == board.earlier()
        with pytest.raises(ValueError, match=r"board\.json: not a leaderboard"):
            earlier_of({"rows": 3}, "board.json")


NAMES = [HOSTILE[0], HOSTILE[1], r"\input{x} $y$ & 5% #1 _a_ ^b~", "a|b `c` *d* [e](f)", '=1+"x"']


@pytest.fixture(scope="module")
def hostile() -> Leaderboard:
    """A board whose models have names that would do harm unescaped."""
    rng = np.random.default_rng(0)
    rows = []
    for n in range(300):
        i, j = rng.choice(len(NAMES), 2, replace=False).tolist()
        rows.append((NAMES[i], NAMES[j], "ab-!"[rng.integers(4)], f"q{n % 7}"))
    return leaderboard(log(*rows))


class TestFormats:
    """JSON, CSV, Markdown, LaTeX and HTML."""

    def test_every_metric(self, board: Leaderboard) -> None:
        """9.1, 9.2: JSON and CSV hold every metric under the same names."""
        (row, *_) = board.as_dict()["rows"]
        wanted = (
            "rank official_rank model badge conservative rating rd volatility confidence "
            "prompt_coverage pair_coverage consistency_raw spread_raw avg_score_raw "
            "consistency_adjusted spread_adjusted avg_score_adjusted wins losses ties votes "
            "decisive both_bad quality_floor exposure exposure_target exposure_equal_target "
            "provisional provisional_reasons bt_rating bt_se legacy_elo rank_change"
        ).split()
        assert set(wanted) <= set(row)
        assert next(csv.reader(io.StringIO(policy_tables.every_metric(board).csv))) == list(row)
        json.dumps(board.as_dict(), allow_nan=False)

    def test_html(self, hostile: Leaderboard) -> None:
        """Nothing in the table is active, whatever the names, and cleaning keeps its look."""
        for made in (policy_tables.board(hostile), policy_tables.metrics(hostile)):
            found = Elements(made.html)
            assert found.tags <= {
                "div", "style", "table", "thead", "tbody", "tfoot", "tr", "th", "td", "span", "b",
                "details", "summary", "p",
            }  # fmt: skip
            assert not [name for name, _ in found.attributes if name.startswith("on")]
            assert "&lt;script&gt;" in clean_html(made.html)

    def test_locked_form(self, board: Leaderboard) -> None:
        """9.3: one Rating column with the raw rating in small text, Confidence and Coverage
        columns, the badge in the model cell and nowhere else.
        """
        html = clean_html(policy_tables.board(board).html)
        heads = [part.split("</th>")[0].split(">")[-1] for part in html.split("<th ")[1:]]
        assert heads == [
            "Rank", "Model", "Rating", "Confidence", "Coverage", "Consistency", "Spread",
            "Avg score", "Record", "Votes", "Both bad",
        ]  # fmt: skip
        row = board.rows[0]
        cells = html.split("<tbody")[1].split("<td ")[1:12]
        assert f"<b>{row.conservative:.0f}</b>" in cells[2]
        assert f"raw {row.rating:.0f}" in cells[2]
        assert "font-size: 11px" in cells[2].replace(":11px", ": 11px")
        assert row.badge in cells[1]
        assert sum(row.badge in cell for cell in cells) == 1

    def test_empty_columns(self) -> None:
        """What is not known is a dash."""
        texts = shown(leaderboard(log(("x", "y", "a", "q1"), ("y", "x", "a", "q2"))))
        assert texts["Consistency"] == texts["Spread"] == texts["Avg score"] == "–"
