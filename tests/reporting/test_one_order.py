"""No two places of a report disagree on who is above whom, and none repeats a number."""

import re
from dataclasses import replace

import pytest

from arena_kit import PermutationElo, rate
from arena_kit.battles.log import Labels
from arena_kit.policy.constants import Phase, Policy
from arena_kit.rating.elo import k_sweep
from arena_kit.rating.with_judge.placement import Placement
from arena_kit.reporting import model_pages, placement, policy_tables, tournament_plots
from arena_kit.reporting.answer import disagreements, order
from arena_kit.reporting.figures import Plot
from arena_kit.validity.model_page import model_detail
from arena_kit.validity.weekly import weekly_report
from tests.samples import judged, log_of, season, timed, won

#: Elo stops on its way: `few` beat `many` ten times of 14, and has moved less.
VOTES = log_of(won("few", "many", 10, 4) + won("many", "weak", 150, 20))
LOG = replace(VOTES, dimension=Labels.of(["taste"] * len(VOTES)))
ELO = PermutationElo(n_perms=20, evidence_replicates=20)
BOARD = rate(LOG, elo=ELO)
SWEEP = {"taste": k_sweep(ELO, LOG, [4.0, 16.0])}
BEST_FIRST = ["few", "many", "weak"]

FIGURES = {
    "forest": BOARD.plot(),
    "winrates": tournament_plots.winrates(LOG, BOARD),
    "above": BOARD.plot_pairs(),
    "ranks": tournament_plots.rank_probabilities(BOARD.fits["bradley_terry"]),
    "permutation_spread": tournament_plots.permutation_spread(BOARD),
    "k_heatmap": tournament_plots.k_heatmap(SWEEP, BOARD),
}


def from_the_top(plot: Plot) -> list[list[str]]:
    """The models down the side of the first panel, of a page's figure and of a phone's."""
    sides = []
    for figure in (plot.figure, plot.narrow()):
        ax = figure.axes[0]
        ticks = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
        turned = ax.yaxis_inverted()
        ordered = sorted((at if turned else -at, label.get_text()) for at, label in ticks)
        sides.append([text for _, text in ordered])
    return sides


def test_elo_is_against_the_board_here() -> None:
    """Elo is against the board; tables and sentences have the board's order, figures no number."""
    assert BOARD.to_frame("elo")["model"].tolist() == ["many", "few", "weak"]
    assert [row.model for row in BOARD.ratings] == BEST_FIRST
    assert len(disagreements(BOARD)) == 1
    assert [row["model"] for row in BOARD.table().rows] == BEST_FIRST
    assert [row["order"] for row in BOARD.orders().rows] == ["few over many", "many over weak"]
    assert order(BOARD["taste"]).endswith("Best first: few, many, weak.")
    assert re.findall(r"^ +\d  (\w+)", BOARD.text(), re.MULTILINE) == BEST_FIRST
    figures = FIGURES["forest"].figure, FIGURES["forest"].narrow()
    assert [text.get_text() for each in figures for text in each.axes[0].texts] == []


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_the_order_of_the_board(name: str) -> None:
    """Down its side stand the models as Bradley–Terry orders them, best on top."""
    triangle = name in ("winrates", "above")  # whose last row would be empty
    assert from_the_top(FIGURES[name]) == [BEST_FIRST[:-1] if triangle else BEST_FIRST] * 2


SEASON = timed(season(900, 12, seed=3))


@pytest.mark.parametrize("phase", Phase)
def test_12_a_policy_report_has_the_published_order(phase: Phase) -> None:
    """12: what the phase publishes orders tables and figures; columns and status are its own."""
    report = weekly_report(SEASON, Policy(phase=phase))
    board = report.now
    other = [row.legacy_rank for row in board.rows], [row.conservative_rank for row in board.rows]
    assert other[0] != other[1]  # or the test could not fail
    shown = list(board.order)
    cells = [row["Model"].text for row in policy_tables.board(board).rows]  # type: ignore[attr-defined]
    assert [text.partition(" (")[0] for text in cells] == shown
    assert from_the_top(model_pages.leaderboard(report)) == [shown] * 2
    for table in (policy_tables.fairness(report), policy_tables.confidence(report)):
        assert [row["model"] for row in table.rows] == shown
    page = model_detail(board, shown[-1])
    assert list(page.deficits.opponents) == shown[:-1]
    notes = policy_tables.order(board).notes
    told = any("published order is by legacy Elo" in note for note in notes)
    assert told == (phase < Phase.MIGRATION)
    page = policy_tables.board(board).html
    assert (">Confidence</th>" in page, ", Elo " in page) == (phase > 1, phase == 3)
    assert report.published == (phase == 4)


def test_a_placement_has_one_order() -> None:
    """Table, text and picture of a placed model's board name the models alike."""
    people = log_of(won("a", "b", 30, 10) + won("b", "c", 30, 12) + won("a", "c", 40, 9))
    verdicts = judged(won("new", "b", 9, 8) + won("new", "c", 14, 3))
    placed = Placement(model="new", min_battles=0)(people, verdicts)
    best_first = list(placed.shown.order)
    assert best_first.index("new") in (1, 2)
    assert [row["model"] for row in placement.board(placed).rows] == best_first
    assert from_the_top(placement.forest(placed)) == [best_first] * 2
    at = best_first.index("new") + 1
    assert f"rank {at} of 4" in placement.brief(placed)[0]
