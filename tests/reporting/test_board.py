"""A board: what it holds of its battles, and that its file gives it back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arena_kit import (
    Battle,
    BattleLog,
    Board,
    BradleyTerry,
    DataError,
    Glicko2,
    Outcome,
    PermutationElo,
    RatingError,
    rate,
)
from arena_kit.rating.claims import claims

ELO = PermutationElo(n_perms=20, evidence_replicates=40, evidence_orders=2)
BATTLES = BattleLog.from_battles(
    Battle(model_a=a, model_b=b, winner=won, dimension=dimension, question_id=f"q{n}")
    for dimension in ("clarity", "depth")
    for n in range(24)
    for a, b, won in (
        ("ash", "box", Outcome.MODEL_A if n % 4 else Outcome.MODEL_B),
        ("box", "cob", Outcome.MODEL_A if n % 3 else Outcome.TIE),
        ("cob", "ash", Outcome.MODEL_B if n % 5 else Outcome.MODEL_A),
    )
)


@pytest.fixture(scope="module")
def board() -> Board:
    return rate(BATTLES, elo=ELO, judged=True)


def test_the_numbers_are_those_of_the_methods(board: Board) -> None:
    """Every rating, interval, rank and claim is what method and claims say of the same battles."""
    for name, log in BATTLES.by_dimension().items():
        rated, elo = BradleyTerry()(log), ELO(log)
        rows = board.rows(name)
        assert [row.model for row in rows] == list(rated.order)
        for row in rows:
            own = rated[row.model]
            assert (row.rating, row.ci_low, row.ci_high) == (own.rating, own.ci_low, own.ci_high)
            assert row.se == own.extra["se"]
            beside = row.beside["elo"]
            assert beside.rating == elo[row.model].rating
            assert beside.order_sem == elo[row.model].extra["order_sem"]
            assert row.ranks == claims.rank_ranges(rated, repeated=True)[row.model]
        assert tuple(map(tuple, board[name].tiers)) == claims.tiers(rated)
        assert [(o.above, o.below, o.state) for o in board[name].orders] == [
            pair[:3] for pair in claims.neighbours(rated)
        ]
    assert board.n_battles == len(BATTLES)


def test_a_file_gives_the_board_back(board: Board, tmp_path: Path) -> None:
    """A board that is written and read is the same, in its values and in what it shows."""
    board.write(tmp_path)
    again = Board.read(tmp_path)
    assert again.as_dict() == board.as_dict()
    assert again.text() == board.text()
    assert again.to_frame().equals(Board.read(tmp_path / "board.json").to_frame())
    assert again.fits == {}
    assert [*board.fits["elo"]] == ["clarity", "depth"]


@pytest.mark.parametrize(
    "spoil",
    [lambda v: v | {"version": 99}, lambda v: v | {"ratings": [{}]}, lambda v: [v]],
    ids=["later", "damaged", "a list"],
)
def test_what_is_no_board_is_refused(board: Board, tmp_path: Path, spoil) -> None:  # type: ignore[no-untyped-def]
    """A later version, a damaged file and other JSON are errors that name the file."""
    file = tmp_path / "board.json"
    file.write_text(json.dumps(spoil(board.as_dict())))
    with pytest.raises(DataError, match=r"board\.json"):
        Board.read(file)


def test_what_is_not_rated_is_named() -> None:
    """A dimension without a rating and models without a battle are on the board with the reason;
    where nothing at all is rated, that is an error unless dimensions were named.
    """
    board = rate(BATTLES, dimensions=["depth", "style"], models=["ash", "yew"])
    assert board.rated == ["depth"]
    assert board.unrated == {"depth": "yew (no battle)", "style": board["style"].unrated}
    assert "there are none" in board["style"].unrated
    with pytest.raises(RatingError, match="no battles"):
        rate(BATTLES.select([]))
    assert rate(BATTLES.select([]), dimensions=["depth"]).ratings == []


def test_other_methods_make_no_claims() -> None:
    """Elo and Glicko-2 give ratings and possible ranks, but decide no order."""
    for name, method in (("elo", ELO), ("glicko2", Glicko2(evidence_replicates=20))):
        board = rate(BATTLES, method)
        assert [*board.fits] == [name]
        assert not any(each.orders or each.sentences for each in board.dimensions)
        assert all(row.ranks for row in board.ratings)


def test_a_plot_shows_itself(board: Board) -> None:
    """The forest and the matrix of pairs are drawn from a board alone."""
    for plot in (board.plot(), Board.model_validate(board.as_dict()).plot_pairs()):
        assert plot._repr_mimebundle_()["image/png"].startswith("iVBOR")
