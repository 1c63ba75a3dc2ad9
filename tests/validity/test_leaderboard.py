"""The leaderboard: every metric of policy 9, the rollout phases, and its formats."""

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
from arena_kit.policy import constants
from arena_kit.policy.constants import Phase, Policy, PromptScores, Threshold
from arena_kit.policy.rules import Badge, Verdict
from arena_kit.reporting import policy_tables
from arena_kit.reporting.html import clean_html
from arena_kit.validity import leaderboard as boards
from arena_kit.validity.leaderboard import Leaderboard, leaderboard, prompt_scores
from arena_kit.validity.model_page import model_detail
from arena_kit.validity.weekly import weekly_report
from tests.samples import season
from tests.samples import votes_on as log

SHADOW, LANES, MIGRATION, GOVERNANCE = Phase


@pytest.fixture(scope="module")
def votes() -> BattleLog:
    return season(n=1800)


@pytest.fixture(scope="module")
def board(votes: BattleLog) -> Leaderboard:
    return leaderboard(votes)


def shown(board: Leaderboard) -> dict[str, str]:
    """The first row of the board as readers of its CSV see it."""
    (first, *_) = csv.DictReader(io.StringIO(policy_tables.board(board).csv))
    return first


def test_9_1_scores_by_hand() -> None:
    """9.1: scores 1, 0.5, 0.75 by hand; weak opponents raise the raw, not the adjusted score."""
    met = {"q1": "aa", "q2": "ab", "q3": "-a", "q4": "b!"}
    rows = [("x", "y", winner, q) for q, winners in met.items() for winner in winners]
    assert prompt_scores(log(*rows), PromptScores())["x"] == {
        "avg_score": pytest.approx(0.75), "spread": pytest.approx(np.sqrt((0.0625 + 0.0625) / 3)),
        "consistency": 59, "prompts": 3,
    }  # fmt: skip
    for scores, summary in (
        ([1.0, 0.0], (0.5, None, None, 2)),  # too few prompts for a spread
        ([], (None, None, None, 0)),
        ([0.3] * 4, (0.3, 0.0, 100, 4)),
        ([1.0, 0.0, 1.0, 0.0], (0.5, 0.5, 0, 4)),
    ):
        found = tuple(boards.score_summary(np.array(scores), PromptScores()).values())
        assert found == pytest.approx(summary)
    rng, rows = np.random.default_rng(3), []
    for n in range(4000):
        model, other, p = [("lucky", "weak", 0.76), ("unlucky", "strong", 0.24)][n % 2]
        if n % 5 == 0:
            model, other, p = "lucky", "unlucky", 0.5
        rows.append((model, other, "a" if rng.random() < p else "b", f"q{n % 20}"))
    for strengths, low, high in ((None, 0.2, 1.0), (BradleyTerry()(log(*rows)), -0.05, 0.05)):
        found = prompt_scores(log(*rows), PromptScores(), strengths)
        gap = (found["lucky"]["avg_score"] or 0) - (found["unlucky"]["avg_score"] or 0)
        assert low < gap < high


def test_rows(votes: BattleLog, board: Leaderboard) -> None:
    """5.1, 5.2, 8.3, 9.1: Glicko-2's states, rating - 2 RD, records that add up, in any order."""
    ratings = Glicko2(evidence_replicates=0)(votes)
    for row in board.rows:
        own = ratings[row.model]
        state = own.rating, own.extra["rd"], own.extra["volatility"]
        assert (row.rating, row.rd, row.volatility) == pytest.approx(state)
        assert row.conservative == pytest.approx(row.rating - 2 * row.rd)
        assert row.votes == row.wins + row.losses + row.ties + row.both_bad
        assert row.decisive == row.wins + row.losses
        assert row.quality_floor == pytest.approx(1 - row.both_bad / row.votes)
    scores = [row.conservative for row in board.rows]
    assert scores == sorted(scores, reverse=True)
    assert [row.rank for row in board.rows] == [1, 2, 3, 4, 5, 6]
    assert sum(row.votes for row in board.rows) == 2 * len(votes)
    assert sum(row.wins for row in board.rows) == sum(row.losses for row in board.rows)
    assert leaderboard(votes).as_dict() == board.as_dict()
    turned = leaderboard(votes.select(np.arange(len(votes))[::-1]))
    assert turned.order == board.order
    for row in turned.rows:
        assert row.rating == board[row.model].rating
        assert row.bt_rating == pytest.approx(board[row.model].bt_rating)


def test_5_3_provisional_are_visible(votes: BattleLog) -> None:
    """5.3: provisional models keep their place, have no official rank and are in no pair."""
    strict = Threshold(decisive=10_000, prompt_coverage=0.8, rd=90)
    some, none = (
        leaderboard(votes, Policy(established=replace(strict, decisive=n), stable=strict))
        for n in (470, 10_000)
    )
    assert [row.rank for row in some.rows] == [1, 2, 3, 4, 5, 6]
    named = [row.official_rank for row in some.rows if not row.provisional]
    assert named == list(range(1, len(named) + 1))
    assert 0 < len(named) < 6
    assert {row.official_rank for row in none.rows} == {None}
    new = log(*[("new", "m5", "a", f"q{n:02}") for n in range(9)])
    joined = BattleLog.joined(*(replace(each, battle_id=None) for each in (votes, new)))
    board = leaderboard(joined, Policy(publication=constants.Publication(top=6)))
    assert board["new"].provisional
    assert board.conservative_order.index("new") < 6
    assert not any("new" in " ".join(row.badge_reasons) for row in board.rows)
    assert not any("new" in (pair.above, pair.below) for pair in board.order_decided.pairs)
    assert len(board.order_decided.pairs) == 5


def test_models_without_votes_that_count(votes: BattleLog, board: Leaderboard) -> None:
    """8.3, 10: models without votes stay; Bradley–Terry stands beside RD, voters are clusters."""
    bad = leaderboard(log(("x", "y", "a", "q"), ("y", "x", "b", "q"), ("z", "x", "!", "q")))
    row = bad["z"]
    assert (row.rating, row.rd, row.both_bad, row.bt_rating) == (1500.0, 350.0, 1, None)
    some = leaderboard(votes, models=["m1", "m2", "new"])
    assert set(some.order) == {"m1", "m2", "new"}
    assert (some["new"].votes, some["new"].provisional) == (0, True)
    assert min(row.tier for row in some.rows if row.tier) == 1
    with pytest.raises(RatingError):
        leaderboard(log(("a", "b", "!", "q")))
    apart = replace(log(("x", "y", "a", "q00"), ("y", "x", "a", "q01")), battle_id=None)
    joined = leaderboard(BattleLog.joined(votes, apart))
    assert {row.model for row in joined.rows if row.bt_rating is None} == {"x", "y"}
    for row in board.rows:
        assert joined[row.model].rating == row.rating
        assert joined[row.model].bt_rating == pytest.approx(row.bt_rating, abs=1e-6)
    assert "No Bradley–Terry rating for" in policy_tables.metrics(joined).html
    assert model_detail(joined, "x").neighbours
    likewise = leaderboard(votes, Policy(claims_about="similar_prompts"))
    for made, cluster in ((board, "battle"), (likewise, "question")):
        found = BradleyTerry(center=1500, both_bad="exclude", cluster=cluster)(votes)  # type: ignore[arg-type]
        for row in made.rows:
            evidence = found[row.model].rating, found[row.model].extra["se"]
            assert (row.bt_rating, row.bt_se) == pytest.approx(evidence)
            assert (row.bt_se or 0) < row.rd / 2
    assert board.order_decided.about == "these_prompts"
    assert likewise.order_decided.about == "similar_prompts"
    assert "Results generalise to similar prompts" in policy_tables.board(likewise).html
    voters = (Labels.of(f"v{k % n}" for k in range(len(votes))) for n in (60, 5))
    many, few = (replace(votes, voter=each) for each in voters)
    fit = BradleyTerry(both_bad="exclude", cluster="voter")(many)
    for row in leaderboard(many).rows:
        assert row.bt_se == pytest.approx(fit[row.model].extra["se"])
    board = leaderboard(few)
    assert {pair.verdict for pair in board.order_decided.pairs} == {Verdict.UNRESOLVED}
    assert {row.tier for row in board.rows} == {None}
    assert "too little evidence for a claim" in " ".join(board.rows[0].badge_reasons)
    assert shown(board)["Rank"] == "1"


def test_10_against_the_studentized_range(votes: BattleLog, board: Leaderboard) -> None:
    """Decided beyond SciPy's 99.5 % studentized range over √2; twins ± 5.5 are equivalent."""
    fit = BradleyTerry(both_bad="exclude", cluster="battle")(votes)
    for pair in board.order_decided.pairs:
        i, j = (fit.models.index(model) for model in (pair.above, pair.below))
        spread = np.sqrt(fit.covariance[[i, j], [i, j]].sum() - 2 * fit.covariance[i, j])
        gap = fit[pair.above].rating - fit[pair.below].rating
        span = abs(fit.order.index(pair.above) - fit.order.index(pair.below)) + 1
        bar = studentized_range.ppf(0.995, span, np.inf) / np.sqrt(2)
        assert abs(abs(gap) / spread - bar) > 0.05, "too close to tell the two apart"
        assert pair.gap == pytest.approx(gap)
        assert (pair.verdict is Verdict.DECIDED) == pair.settled == (gap / spread > bar)
    assert {True, False} == {pair.settled for pair in board.order_decided.pairs}
    board = leaderboard(log(*[("x", "y", "ab"[n % 2], f"q{n % 7}") for n in range(4000)]))
    assert [pair.verdict for pair in board.order_decided.pairs] == [Verdict.EQUIVALENT]
    assert {(row.badge, row.tier) for row in board.rows} == {(Badge.STABLE, 1)}


def test_12_phases(votes: BattleLog, board: Leaderboard) -> None:
    """12: phases 1, 2 publish legacy Elo, 3 the conservative score beside Elo, 4 without."""
    shadow, lanes = (leaderboard(votes, Policy(phase=p)) for p in (SHADOW, LANES))
    elo = Arena(
        Policy(), votes.models, votes.prompts, rng=np.random.default_rng(), battles=votes
    ).elo
    assert list(shadow.order) == sorted(elo, key=lambda model: -elo[model])
    assert [row.official_rank for row in shadow.rows] == [1, 2, 3, 4, 5, 6]
    assert sorted(row.conservative_rank for row in shadow.rows) == [1, 2, 3, 4, 5, 6]
    assert shown(shadow)["Rating"] == f"{shadow.rows[0].legacy_elo:.0f}"
    page = policy_tables.board(shadow).html
    assert not any(sign in page for sign in (*Badge, "RD", "Confidence", "Coverage"))
    report = weekly_report(votes, Policy(phase=SHADOW))
    assert "not published in phase 1" in str(policy_tables.status(report))
    assert (lanes.order, shown(lanes)["Rating"]) == (shadow.order, shown(shadow)["Rating"])
    assert set(shown(lanes)) - set(shown(shadow)) == {"Confidence", "Coverage"}
    assert not lanes.as_dict()["status"]["published"]
    migrated = leaderboard(votes, Policy(phase=MIGRATION))
    assert board.order == migrated.order == board.conservative_order
    row = board.rows[0]
    value, raw = f"{row.conservative:.0f}", f"raw {row.rating:.0f}"
    assert shown(migrated)["Rating"] == f"{value} ({raw}, Elo {row.legacy_elo:.0f})"
    assert shown(board)["Rating"] == f"{value} ({raw})"
    assert migrated.as_dict()["status"]["published"]


def test_12_rank_changes(votes: BattleLog, board: Leaderboard) -> None:
    """12: official ranks are compared within a method; a change of it moves nobody."""
    before = leaderboard(votes.select(np.arange(len(votes) * 3 // 4)))
    now = leaderboard(votes, earlier=before.earlier())
    assert now.movement == ""
    for row in now.rows:
        old, new = before[row.model].official_rank, row.official_rank
        both = old is not None and new is not None
        assert row.rank_change == (old - new if both else None)
    hidden = replace(board.earlier(), ranks={"m1": 1})
    assert leaderboard(votes, earlier=hidden)["m0"].rank_change is None
    before = leaderboard(votes.select(np.arange(200)), Policy(phase=LANES))
    now = leaderboard(votes, Policy(phase=MIGRATION), earlier=before.earlier())
    assert all(row.rank_change is None for row in now.rows)
    assert "the method changed from" in now.movement
    assert "▲" not in policy_tables.board(now).html
    assert now.epoch == board.epoch != before.epoch
    for other in (Policy(glicko=constants.Glicko(tau=0.6)), Policy(deviations=1.0)):
        assert leaderboard(votes, other).epoch != board.epoch
    again = boards.earlier_of(json.loads(json.dumps(board.as_dict())), "board.json")
    assert again == board.earlier()
    with pytest.raises(ValueError, match=r"board\.json: not a leaderboard"):
        boards.earlier_of({"rows": 3}, "board.json")


def test_9_3_locked_form(board: Leaderboard) -> None:
    """9.3: one Rating column, badge and RD in place; JSON and CSV have every metric and pair."""
    page = policy_tables.board(board).html
    for row in board.rows:
        assert f'title="RD {row.rd:.1f}, volatility {row.volatility:.4f}"' in page
    assert 'title="not Stable: order with m' in page
    html = clean_html(page)
    heads = [part.split("</th>")[0].split(">")[-1] for part in html.split("<th ")[1:]]
    assert ", ".join(heads) == (
        "Rank, Model, Rating, Confidence, Coverage, Consistency, Spread, Avg score, Record, "
        "Votes, Both bad"
    )
    row, cells = board.rows[0], html.split("<tbody")[1].split("<td ")[1:12]
    assert f"<b>{row.conservative:.0f}</b>" in cells[2]
    assert f"raw {row.rating:.0f}" in cells[2]
    assert "font-size: 11px" in cells[2].replace(":11px", ": 11px")
    assert [n for n, cell in enumerate(cells) if row.badge in cell] == [1]
    texts = shown(leaderboard(log(("x", "y", "a", "q1"), ("y", "x", "a", "q2"))))
    assert texts["Consistency"] == texts["Spread"] == texts["Avg score"] == "–"
    found = json.loads(json.dumps(board.as_dict(), allow_nan=False))
    order = found["order_decided"]
    assert len(order["pairs"]) == sum(order["counts"].values())
    assert sorted(chain(*found["tiers"])) == sorted(board.order)
    for n, group in enumerate(found["tiers"], 1):
        assert {board[model].tier for model in group} == {n}
    assert shown(board)["Rank"] == "1 (tier 1)"
    assert "Results hold for these prompts" in policy_tables.board(board).html
    table = str(policy_tables.order(board))
    assert all(f"{p.above} over {p.below}" in table for p in board.order_decided.pairs)
    assert found["fragility"]["sentence"] in table
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
