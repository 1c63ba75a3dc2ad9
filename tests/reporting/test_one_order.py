"""No two places of a report disagree on who is above whom."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from arena_kit import BradleyTerry, PermutationElo, bradley_terry, tournament_plots
from arena_kit.battles.log import Labels
from arena_kit.rating.elo import k_sweep
from arena_kit.reporting.answer import disagreements, order
from arena_kit.reporting.figures import Plot
from arena_kit.runs.artifacts import bradley_terry as artifact
from arena_kit.runs.artifacts import pairwise_winrates
from tests.samples import log_of, won

#: Elo stops on its way: `few` beat `many` ten times of 14, and has moved less.
VOTES = log_of(won("few", "many", 10, 4) + won("many", "weak", 150, 20))
LOG = replace(VOTES, dimension=Labels.of(["taste"] * len(VOTES)))
ELO = PermutationElo(n_perms=20, evidence_replicates=20)
STRENGTHS, RATED = {"taste": BradleyTerry()(LOG)}, {"taste": ELO(LOG)}
SWEEP = {"taste": k_sweep(ELO, LOG, [4.0, 16.0])}
BEST_FIRST = ["few", "many", "weak"]

FIGURES = {
    "forest": tournament_plots.forest(STRENGTHS),
    "winrates": tournament_plots.winrates(pairwise_winrates(LOG), STRENGTHS),
    "above": bradley_terry.above(STRENGTHS),
    "order_against_evidence": tournament_plots.order_against_evidence(RATED, STRENGTHS),
    "permutation_spread": tournament_plots.permutation_spread(RATED, STRENGTHS),
    "k_heatmap": tournament_plots.k_heatmap(SWEEP, STRENGTHS),
}


def from_the_top(plot: Plot) -> list[list[str]]:
    """The models down the side of each panel, of the figure for a page and of that for a phone."""
    sides = []
    for figure in (plot.figure, plot.narrow()):
        (ax,) = figure.axes
        ticks = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
        turned = ax.yaxis_inverted()
        ordered = sorted((at if turned else -at, label.get_text()) for at, label in ticks)
        sides.append([text for _, text in ordered])
    return sides


def test_elo_is_against_the_board_here() -> None:
    """By Elo `many` leads, by Bradley–Terry `few`: each of the tests below can fail."""
    assert list(RATED["taste"].order) == ["many", "few", "weak"]
    assert list(STRENGTHS["taste"].order) == BEST_FIRST
    assert len(disagreements(RATED, STRENGTHS)) == 1


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_the_order_of_the_board(name: str) -> None:
    """Down its side stand the models as Bradley–Terry orders them, best on top."""
    assert from_the_top(FIGURES[name]) == [BEST_FIRST, BEST_FIRST]


def test_every_table_and_sentence_has_it() -> None:
    """The board, the neighbours, the answer, the text and the artifact name them alike."""
    board = [str(row["entrant"]) for row in bradley_terry.board(RATED, STRENGTHS).rows]
    pairs = bradley_terry.neighbours(STRENGTHS, {"taste": LOG}).rows
    said = order("taste", STRENGTHS["taste"])
    text = bradley_terry.board_text(RATED, STRENGTHS, {})
    kept = artifact(STRENGTHS, LOG, ["taste"])["taste"]
    assert board == BEST_FIRST
    assert [row["order"] for row in pairs] == ["few over many", "many over weak"]
    assert said.endswith("Best first: few, many, weak.")
    assert re.findall(r"^  \d\. (\w+)", text, re.MULTILINE) == BEST_FIRST
    assert [row["model"] for row in kept["ratings"]] == BEST_FIRST
    assert [(row["above"], row["below"]) for row in kept["claims"]["neighbours"]] == [
        ("few", "many"),
        ("many", "weak"),
    ]
