"""Tables and pictures of a placed model: what they show, and safe names."""

import warnings
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.text import Text

from arena_kit import Board, BradleyTerry
from arena_kit.rating.claims import claims
from arena_kit.rating.with_judge.placement import JudgeError, Placed, Placement
from arena_kit.reporting import placement
from arena_kit.reporting.board import board_of
from arena_kit.reporting.figures import Plot, shown_name
from arena_kit.reporting.tables import ranks_text
from tests.samples import HOSTILE, NEW, World, judged, steps, won
from tests.samples import log_of as log

MARKUP = "[b](javascript:alert(1)) *x* {{y}} `z`"


@cache
def placed_among(a: str, b: str, c: str, new: str, n: int = 40) -> Placed:
    votes = log(won(a, b, 30, 12, 4) + won(b, c, 25, 14, 6) + won(a, c, 28, 9, 3)
                + won(new, b, 12, 13), "q")  # fmt: skip
    verdicts = judged(won(new, a, n // 4, n // 2) + won(c, new, n // 8, n // 8))
    method = BradleyTerry(interval="percentile", resamples=100)
    return Placement(model=new, min_battles=0, method=method)(votes, verdicts)


def texts(plot: Plot) -> list[str]:
    return [each.get_text() for each in plot.figure.findobj(Text) if each.get_text()]


def drawn(plot: Plot, folder: Path) -> bytes:
    plot.save(folder / "figure.png")
    return (folder / "figure.png").read_bytes()


def row_of(placed: Placed, model: str = NEW) -> dict[str, object]:
    (row,) = [row for row in placement.board(placed).rows if row["model"] == model]
    return dict(row)


def test_the_leaderboard_of_a_placement(tmp_path: Path) -> None:
    """Board, ways and picture have everybody best first, the placed model both ways."""
    placed = placed_among("ann", "bob", "cy", NEW)
    shown, joint = placement.board(placed, "cast in 2023"), placed.joint
    ranges = claims.rank_ranges(joint)
    for row, each in zip(shown.rows, joint.ratings, strict=True):
        span = f"{each.ci_low:.0f} to {each.ci_high:.0f}"
        told = [row[name] for name in ("model", "rating", "95% interval", "rank range")]
        assert told == [each.model, f"{each.rating:.0f}", span, ranks_text(ranges[each.model])]
    assert shown.marked == joint.order.index(NEW)
    alone = ranks_text(claims.single_rank_ranges(joint)[NEW])
    assert f"hold for all models at once; for {NEW} alone: {alone}." in shown.text
    assert "Human votes: cast in 2023." in shown.text
    assert placed.hidden is not None
    rows = {row["placed by"]: row for row in placement.ways(placed).rows}
    for name, rating in (
        ("joint fit", placed.joint[NEW]),
        ("others held fixed", placed.anchored[NEW]),
        ("its human votes (held out)", placed.hidden),
    ):
        row, span = rows[name], f"{rating.ci_low:.0f} to {rating.ci_high:.0f}"
        assert (row["rating"], row["battles"]) == (f"{rating.rating:.0f}", rating.n_battles)
        assert (row["95% interval"], row["evidence alone"]) == (span, span), "nothing else is known"
    moved = max(abs(placed.joint[m].rating - placed.human[m].rating) for m in placed.human.models)
    assert moved > 1
    assert f"by at most {moved:.1f} points" in placement.ways(placed).text
    told, own = placement.brief(placed), placed.joint[NEW]
    assert told[0].startswith(f"{NEW}: estimated rank {placed.joint.order.index(NEW) + 1} of 4 (")
    assert f"{own.rating:.0f} (95% interval {own.ci_low:.0f} to {own.ci_high:.0f})" in told[0]
    assert told[1] == "Judge error: unknown."
    plot = placement.forest(placed, "simulated")
    (ax,) = plot.figure.axes
    assert tuple(t.get_text() for t in ax.get_yticklabels()) == placed.joint.order[::-1]
    assert "votes simulated" in ax.get_xlabel()
    assert "votes" not in placement.forest(placed).figure.axes[0].get_xlabel()
    assert any(f"Where does this judge put {NEW}?" in text for text in texts(plot))
    labelled = {line.get_label(): line.get_xdata()[0] for line in ax.lines}
    assert placed.hidden is not None
    assert labelled["joint fit, judge error unknown"] == placed.joint[NEW].rating
    assert labelled["others held fixed"] == placed.anchored[NEW].rating
    assert labelled["by people's own votes, set aside"] == placed.hidden.rating
    points = {float(line.get_xdata()[0]) for line in ax.lines}
    assert points >= {row.rating for row in placed.joint.ratings}
    assert drawn(plot, tmp_path) == drawn(placement.forest(placed, "simulated"), tmp_path)


def test_the_calibration_in_words() -> None:
    """Verdicts in full are called so; toned down, the table says by how much and on what."""
    assert "count in full" in placement.calibration(placed_among("a", "b", "c", NEW)).text
    world = World([*steps(6, 50), 90.0], 3000, 2)
    placed = Placement(model=NEW, min_battles=0, soft=True, method=BradleyTerry())(
        world.human, world.sure()
    )
    found = placed.calibration
    assert found is not None
    told = " ".join(placement.calibration(placed).text.split())
    assert f"battles decided by human votes and by the judge {found.n_shared} " in told
    assert f"same winner, where both name one {100 * found.agreement:.1f}% " in told
    assert f"a clear verdict counts {found.worth:.3f} of a win " in told


def test_few_verdicts(tmp_path: Path) -> None:
    """A model without an interval is shown with dashes, in tables and pictures alike."""
    placed = placed_among("ann", "bob", "cy", NEW, n=8)
    assert placed.joint[NEW].ci_low is None
    assert [row_of(placed)[name] for name in ("95% interval", "rank range")] == ["–", "–"]
    assert "nan" not in placement.ways(placed).html
    assert "(– on its own," in placement.brief(placed)[0]
    assert drawn(placement.forest(placed), tmp_path).startswith(b"\x89PNG")


def hostile(name: str) -> Placed:
    """A model of a hostile name, placed among others of such names."""
    others = [f"{n}{each}"[:256] for n, each in enumerate([*HOSTILE, MARKUP])]
    votes = log(row for a, b in pairwise(others) for row in won(a, b, 12, 8))
    verdicts = judged([row for other in others[:4] for row in won(name, other, 4, 3)])
    return Placement(model=name, min_battles=0, method=BradleyTerry())(votes, verdicts)


def board_named(placed: Placed) -> Board:
    """A board whose dimension has the name of a model."""
    return board_of({placed.model: placed.joint})


def test_hostile_names_in_pictures(tmp_path: Path) -> None:
    """Any name can be drawn, and is drawn as it is, a long one shortened in the middle."""
    name = "$\\frac{$ costs $5, not $6"
    placed = hostile(name)
    for plot in (placement.forest(placed, name), board_named(placed).plot_pairs()):
        assert drawn(plot, tmp_path).startswith(b"\x89PNG")
        assert {*texts(plot)} >= {shown_name(model) for model in placed.joint.models}
        shown = plot.figure.findobj(Text)
        assert not [t for t in shown if name in t.get_text() and "$" in name and t.get_parse_math()]


@pytest.mark.parametrize("length", [80, 256])
def test_long_names_in_pictures(length: int, tmp_path: Path) -> None:
    """Names of 80 characters leave room for the picture; those of 256 do not end the run."""
    placed = placed_among(*(letter * length for letter in "abcd"))
    with warnings.catch_warnings(action="error" if length < 100 else "ignore"):
        for plot in (placement.forest(placed), board_named(placed).plot_pairs()):
            assert drawn(plot, tmp_path).startswith(b"\x89PNG")


def told_of(placed: Placed) -> list[str]:
    """Every text in which a placement is told: tables, picture, answer in words."""
    tables, picture = (placement.board(placed), placement.ways(placed)), placement.forest(placed)
    legend = [t.get_text() for t in picture.figure.legends[0].get_texts()]
    return [*(t.text for t in tables), *texts(picture), *placement.brief(placed), *legend]


def test_a_judge_whose_error_is_unknown_promises_nothing() -> None:
    """A judge's error is shown everywhere, or said to be unknown in every place."""
    told = told_of(placed_among("ann", "bob", "cy", NEW))
    assert sum("error unknown" in text or "error is unknown" in text for text in told) >= 3
    assert not any("including the judge error" in text for text in told)
    error = JudgeError(sd=80.0, n_models=6, n_shared=900)
    placed = replace(placed_among("ann", "bob", "cy", NEW), judge_error=error)
    wide = placed.cautious
    assert wide is not None
    span = f"{wide.ci_low:.0f} to {wide.ci_high:.0f}"
    assert row_of(placed)["95% interval"] == span
    assert span in placement.ways(placed).text
    assert span in placement.brief(placed)[0]
    bars = [s for c in placement.forest(placed).figure.axes[0].collections
            for s in getattr(c, "get_segments", list)()]  # fmt: skip
    assert any(s[0][0] == pytest.approx(wide.ci_low) for s in bars)
    told = told_of(placed)
    assert any("80 points (SD), estimated from 6 other models" in t for t in told)
    assert not any("unknown" in text for text in told)
