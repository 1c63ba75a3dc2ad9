"""A board: what it holds of its battles, and that its file gives it back."""

import json
import math
from dataclasses import replace
from pathlib import Path
from statistics import linear_regression

import pytest
from scipy.stats import norm, studentized_range
from scipy.stats import t as student_t

import arena_kit as ak
from arena_kit import Battle, BattleLog, Board, BradleyTerry, DataError, Glicko2, Outcome, rate
from arena_kit.rating.claims import claims
from arena_kit.rating.elo import k_sweep
from arena_kit.reporting import tournament_tables
from arena_kit.reporting.tables import probability
from tests.samples import CASES, log_of, won

ELO = ak.PermutationElo(n_perms=20, evidence_replicates=40, evidence_orders=2)
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
    return rate(BATTLES, elo=ELO)


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
            assert row.ranks == claims.rank_ranges(rated)[row.model]
        assert tuple(map(tuple, board[name].tiers)) == claims.tiers(rated)
        assert [(o.above, o.below, o.state) for o in board[name].orders] == [
            pair[:3] for pair in claims.neighbours(rated)
        ]
    assert board.n_battles == len(BATTLES)


def test_a_file_gives_the_board_back(board: Board, tmp_path: Path) -> None:
    """A board that is written and read is the same, in its values and in what it shows."""
    board.write(tmp_path)
    again, values = Board.read(tmp_path), board.as_dict()
    assert (again.as_dict(), again.text()) == (values, board.text())
    assert again.to_frame().equals(Board.read(tmp_path / "board.json").to_frame())
    assert (again.fits, [*board.fits["elo"]]) == ({}, ["clarity", "depth"])
    for plot in (board.plot(), again.plot_pairs()):
        assert plot._repr_mimebundle_()[0]["image/png"].startswith("iVBOR")
    for other in (values | {"version": 99}, values | {"ratings": [{}]}, [values]):
        (tmp_path / "board.json").write_text(json.dumps(other))
        with pytest.raises(DataError, match=r"board\.json"):
            Board.read(tmp_path)


def test_what_is_not_rated_is_named() -> None:
    """A dimension without a rating and models without a battle are on the board with the reason."""
    board = rate(BATTLES, dimensions=["depth", "style"], models=["ash", "yew"])
    assert board.rated == ["depth"]
    assert board.unrated == {"depth": "yew (no battle)", "style": board["style"].unrated}
    assert "there are none" in board["style"].unrated
    with pytest.raises(ak.RatingError, match="no battles"):
        rate(BATTLES.select([]))
    assert rate(BATTLES.select([]), dimensions=["depth"]).ratings == []


def test_other_methods_make_no_claims() -> None:
    """Elo and Glicko-2 give ratings and rank ranges, but decide no order."""
    for name, method in (("elo", ELO), ("glicko2", Glicko2(evidence_replicates=20))):
        board = rate(BATTLES, method)
        assert [*board.fits] == [name]
        assert not any(each.orders or each.sentences for each in board.dimensions)
        assert all(row.ranks for row in board.ratings)


MIXED = log_of(won("ann", "bob", 45, 5) + won("bob", "cy", 26, 24) + won("ann", "cy", 44, 6))


def test_neighbours_are_decided_by_their_gap() -> None:
    """An order is decided only where the gap is beyond the studentized range of two at 95 %."""
    board = rate(MIXED)
    rated = board.fits["bradley_terry"][""]
    assert rated.covariance is not None
    states = []
    for order in board[""].orders:
        i, j = rated.models.index(order.above), rated.models.index(order.below)
        gap = rated[order.above].rating - rated[order.below].rating
        spread = math.sqrt(rated.covariance[[i, j], [i, j]].sum() - 2 * rated.covariance[i, j])
        df = min(rated[order.above].extra["df"], rated[order.below].extra["df"])
        chance = student_t.cdf(gap / spread, df)
        bar = studentized_range.ppf(0.95, 2, math.inf) / math.sqrt(2)
        states.append("decided" if chance > norm.cdf(bar) else "unresolved")
        assert order.gap == pytest.approx(gap)
        assert order.probability == claims.above(rated)[i, j]
    assert [order.state for order in board[""].orders] == states == ["decided", "unresolved"]


def test_neighbours_say_how_fragile_and_how_far() -> None:
    """12 to 8: prompts are named, five battles turn it; 2.7 errors leave first place open."""
    (order,) = rate(log_of(won("ann", "bob", 12, 8)))[""].orders
    assert (order.removed, order.added) == (5, 5)
    assert order.prompts == order.more  # every battle has a question of its own
    assert order.needed == f"{claims.two_digits(order.more):,}"
    board = rate(log_of(won("ann", "bob", 86, 54)))
    assert claims.rank_ranges(board.fits["bradley_terry"][""]) == {"ann": (1, 1), "bob": (2, 2)}
    board = rate(log_of(won("ann", "bob", 86, 54)), BradleyTerry(looks=80))
    assert [row.ranks for row in board.ratings] == [(1, 2), (1, 2)]
    assert board[""].first == ["ann", "bob"]


def test_intervals_apart_and_no_order_are_explained() -> None:
    """Of 80 to 50, read 80 times, a note says why; read once, the order is decided."""
    log = log_of(won("ann", "bob", 80, 50))
    often, once = (rate(log, BradleyTerry(looks=looks))[""] for looks in (80, 1))
    (note,) = (each for each in often.notes if "do not overlap: ann and bob" in each)
    assert "for 80 looks" in note
    assert (often.orders[0].state, once.orders[0].state) == ("unresolved", "decided")
    assert not any("do not overlap" in each for each in once.notes)


def test_the_matrix_of_probabilities() -> None:
    """In each cell of a triangle the chance that the row's is above the column's, bold where
    decided.
    """
    board = rate(MIXED)
    (ax,) = (ax for ax in board.plot_pairs().figure.axes if ax.get_visible())
    names = [row.model for row in board.ratings]
    assert [t.get_text() for t in ax.get_yticklabels()] == names[:-1]
    assert [t.get_text() for t in ax.get_xticklabels()] == names[1:]
    assert len(ax.texts) == len(names) * (len(names) - 1) / 2
    for text in ax.texts:
        column, row = map(int, text.get_position())
        assert text.get_text() == probability(board[""].above[names[row]][names[column + 1]])
        assert (text.get_weight() == "bold") == (row == 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "50%"), (0.004, "<1%"), (0.0, "<1%"), (0.996, ">99%"), (0.99, "99%"), (math.nan, "–")],
)
def test_no_probability_is_certain(value: float, text: str) -> None:
    """A probability is never shown as 0 % or 100 %, and an unknown one is a dash."""
    assert probability(value) == text


def test_a_golden_board() -> None:
    """All values of a small board are those that are kept, to 9 digits, and no field is missing."""
    kept = json.loads((CASES / "board.json").read_text())
    elo = replace(ELO, evidence_replicates=0)
    close(rate(BATTLES, elo=elo).as_dict(), kept)


def close(found: object, kept: object, at: str = "board") -> None:
    if isinstance(kept, dict) and isinstance(found, dict):
        assert {*found} == {*kept}, at
        for name, value in kept.items():
            close(found[name], value, f"{at}.{name}")
    elif isinstance(kept, list) and isinstance(found, list):
        assert len(found) == len(kept), at
        for n, value in enumerate(kept):
            close(found[n], value, f"{at}[{n}]")
    else:
        expected = pytest.approx(kept, rel=1e-9) if isinstance(kept, float) else kept
        assert found == expected, at


def test_the_contract_file_of_a_record_is_its_board(pilot_record: Path) -> None:
    """bradley_terry.json has the ratings and claims of the board, on Elo's center."""
    board = Board.read(pilot_record)
    found = json.loads((pilot_record / "bradley_terry.json").read_text())
    assert [*found] == sorted(board.names)
    for name, entry in found.items():
        assert [row["rating"] for row in entry["ratings"]] == [r.rating for r in board.rows(name)]
        assert entry["claims"]["tiers"] == board[name].tiers
        mean = sum(row["rating"] for row in entry["ratings"]) / len(entry["ratings"])
        assert mean == pytest.approx(1400, abs=1e-6)
        for a, row in entry["above"].items():
            known = {b: p for b, p in row.items() if p is not None}
            assert all(p + entry["above"][b][a] == pytest.approx(1) for b, p in known.items())


def test_shrinkage_is_a_slope() -> None:
    """Per K the least-squares slope of Elo on Bradley–Terry, none where all are equal."""
    board = rate(MIXED)
    sweep = {"": k_sweep(ELO, MIXED, [1.0, 8.0, 32.0])}
    (row,) = tournament_tables.shrinkage(sweep, board).rows
    models = board.fits["bradley_terry"][""].models
    x = board.fits["bradley_terry"][""].values(models).tolist()
    slopes = [linear_regression(x, r.values(models).tolist()).slope for r in sweep[""].values()]
    assert [row[f"K {k:g}"] for k in (1.0, 8.0, 32.0)] == [f"{slope:.2f}" for slope in slopes]
    assert slopes == sorted(slopes)
    even = log_of(won("ann", "bob", 10, 10) + won("bob", "cy", 10, 10) + won("cy", "ann", 10, 10))
    same = tournament_tables.shrinkage({"": k_sweep(ELO, even, [16.0])}, rate(even))
    assert "nan" not in same.text + same.html
