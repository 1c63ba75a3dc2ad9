"""Tables and pictures of Bradley–Terry beside Elo, and of placements: content, and safe names."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from html import escape, unescape
from itertools import pairwise
from pathlib import Path
from statistics import linear_regression
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.text import Text
from scipy.stats import norm, studentized_range
from scipy.stats import t as student_t

from arena_kit import (
    BattleLog,
    BradleyTerry,
    PermutationElo,
    Placed,
    Placement,
    Ratings,
    rate,
    sweep_elo,
    to_battles,
    tournament_tables,
)
from arena_kit import k_sweep as swept
from arena_kit.cli.main import main
from arena_kit.rating.claims import claims
from arena_kit.rating.with_judge.calibration import JudgeError
from arena_kit.reporting import bradley_terry, placement
from arena_kit.reporting.figures import Plot, save_picture, shown_name
from arena_kit.reporting.tables import Table, ranks_text
from tests.samples import (
    HOSTILE,
    NEW,
    Elements,
    World,
    judged,
    judgments_of,
    published,
    steps,
    won,
)
from tests.samples import log_of as log

ELO = PermutationElo(n_perms=20, evidence_replicates=40, evidence_orders=2)
METHOD = BradleyTerry(center=1400)
MARKUP = "[b](javascript:alert(1)) *x* {{y}} `z`"
TABLE_TAGS = {"div", "table", "thead", "tbody", "tfoot", "tr", "th", "td", "span", "style", "p"}


def league(*names: str, rounds: int = 30) -> BattleLog:
    """Every pair on every question; the earlier name is the better."""
    rng = np.random.default_rng(len(names))
    rows = []
    for q in range(rounds):
        for i, a in enumerate(names):
            for j in range(i):
                chance = 1 / (1 + 10 ** ((j - i) * 90 / 400))
                rows.append((names[j], a, "model_b" if rng.random() < chance else "model_a", q))
    return log([row[:3] for row in rows])


def placed_among(a: str, b: str, c: str, new: str, n: int = 40) -> Placed:
    votes = log(won(a, b, 30, 12, 4) + won(b, c, 25, 14, 6) + won(a, c, 28, 9, 3)
                + won(new, b, 12, 13), "q")  # fmt: skip
    verdicts = judged(won(new, a, n // 4, n // 2) + won(c, new, n // 8, n // 8))
    method = BradleyTerry(interval="percentile", resamples=100)
    return Placement(model=new, min_battles=0, method=method)(votes, verdicts)


def cells(shown: Table) -> list[list[str]]:
    """The texts of a table's body, row by row."""
    body = shown.html.split("<tbody")[1].split("</tbody>")[0]
    rows = [re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL) for row in body.split("</tr>")[:-1]]
    return [[unescape(re.sub(r"<.*?>", "", cell)) for cell in row] for row in rows]


def texts(plot: Plot) -> list[str]:
    return [each.get_text() for each in plot.figure.findobj(Text) if each.get_text()]


def drawn(plot: Plot, folder: Path) -> bytes:
    return save_picture(plot, folder / "figure.png").path.read_bytes()


TRIO = league("ann", "bob", "cy")
FOUND = {"taste": METHOD(TRIO), "smell": METHOD(league("cy", "ann", "bob"))}
BY_ELO = {"taste": ELO(TRIO)}


def test_the_board_shows_both_ratings() -> None:
    """Per dimension and entrant: rank, Bradley–Terry with its interval, the ranks that are possible
    for all at once, and the Elo of the same battles, mean ± SEM with its evidence interval; dashes
    where there is no Elo.
    """
    rows = [row for row in cells(bradley_terry.board(BY_ELO, FOUND)) if len(row) > 1]
    assert len(rows) == 6
    for row, (dimension, model) in zip(
        rows, [(d, m) for d in FOUND for m in FOUND[d].order], strict=True
    ):
        rating = FOUND[dimension][model]
        ranks = claims.rank_ranges(FOUND[dimension], repeated=True)[model]
        assert ranks is not None
        assert row[:2] == [str(FOUND[dimension].order.index(model) + 1), model]
        assert row[2] == f"{rating.rating:.0f}"
        assert row[3] == f"{rating.ci_low:.0f} to {rating.ci_high:.0f}"
        assert row[4] == (f"{ranks[0]}" if ranks[0] == ranks[1] else f"{ranks[0]} to {ranks[1]}")
        if dimension == "taste":
            elo = BY_ELO["taste"][model]
            assert row[5] == f"{elo.rating:.0f} ± {elo.extra['order_sem']:.1f}"
            assert row[6] == f"{elo.ci_low:.0f} to {elo.ci_high:.0f}"
        else:
            assert row[5:7] == ["–", "–"]
        assert row[7] == "60"


MIXED_LOG = log(won("ann", "bob", 45, 5) + won("bob", "cy", 26, 24) + won("ann", "cy", 44, 6))
MIXED = METHOD(MIXED_LOG)


def unfolded(text: str) -> list[str]:
    """The lines of a text with those that were folded put together again."""
    assert max(map(len, text.splitlines())) <= 96
    return text.replace("\n    ", " ").splitlines()


def test_neighbours_are_decided_by_their_gap() -> None:
    """The text says for each pair of neighbours how far apart they are and how probable the order
    is, and calls it decided only where the gap is beyond the studentized range of two at 99.5 %,
    read as Student's t.
    """
    found = FOUND | {"sight": MIXED}
    lines = unfolded(bradley_terry.text(found))
    states = []
    for dimension, rated in found.items():
        own = lines[lines.index(dimension) + 3 :][:2]
        for line, above, below in zip(own, rated.order[:-1], rated.order[1:], strict=True):
            gap = rated[above].rating - rated[below].rating
            i, j = rated.models.index(above), rated.models.index(below)
            assert rated.covariance is not None
            spread = math.sqrt(rated.covariance[[i, j], [i, j]].sum() - 2 * rated.covariance[i, j])
            assert f"{above} over {below}" in line
            df = min(rated[above].extra["df"], rated[below].extra["df"])
            chance = student_t.cdf(gap / spread, df)
            bar = studentized_range.ppf(0.995, 2, math.inf) / math.sqrt(2)
            states.append("decided" if chance > norm.cdf(bar) else "open")
            told = ">99%" if chance > 0.995 else f"{100 * chance:.0f}%"
            assert line.endswith(f"{gap:.0f} points, {states[-1]}; P {told} named beforehand")
    assert states == ["open"] * 4 + ["decided", "open"]


def test_ranks_and_first_place_do_not_contradict_each_other() -> None:
    """A lead of 2.7 standard errors, enough for one look at a board, leaves the first place open:
    then the board shows no model with rank 1 alone.
    """
    rated = METHOD(log(won("ann", "bob", 86, 54)))
    assert claims.rank_ranges(rated) == {"ann": (1, 1), "bob": (2, 2)}
    shown = bradley_terry.board({}, {"sight": rated})
    assert [row[4] for row in cells(shown) if len(row) > 1] == ["1 to 2", "1 to 2"]
    assert claims.sentences(rated)[0] == "First place is open between ann and bob."


def test_what_may_be_said_stands_first() -> None:
    """Before all neighbours stand the sentences of each dimension: the first place, the decided
    orders, with the battles how few of them turn the first place round; last, what the claims are
    about.
    """
    lines = unfolded(bradley_terry.text({"sight": MIXED}))
    assert lines[:2] == ["sight", "  First: ann, decided."]
    assert lines[2].startswith("  Neighbouring orders decided: 1 of 2; the next, bob above cy, ")
    assert lines[-1] == "Claims are about prompts like these, not only those that were asked."
    battles = log(won("ann", "bob", 12, 8))
    told = unfolded(bradley_terry.text({"taste": METHOD(battles)}, {"taste": battles}))
    rests_on = (
        "5 battles removed or 5 added would put bob above ann, 25% of the 20 between the two."
    )
    assert told[3] == f"  {rests_on}"
    alone = replace(METHOD, cluster="battle")(TRIO)
    assert bradley_terry.text({"taste": alone, "sight": MIXED}).splitlines()[-2:] == [
        "Claims are about these prompts; others may order the models otherwise.", lines[-1],
    ]  # fmt: skip


def test_neighbours_say_how_fragile_and_how_far() -> None:
    """Each two neighbours have the votes that turn them round, and open ones the calls that would
    decide them. 12 to 8 on questions of their own are 0.41 log odds with a variance of 1/12 + 1/8
    times 20/19; read as Student's t with 19 degrees of freedom, that is a score of 0.85. To become
    2.81 it takes as many times the battles as the square of their ratio, and two calls for each.
    """
    battles = log(won("ann", "bob", 12, 8))
    rated = METHOD(battles)
    (row,) = bradley_terry.neighbours({"taste": rated}, {"taste": battles}).rows
    assert (row["order"], row["is"]) == ("ann over bob", "open")
    assert (row["battles removed"], row["or added"]) == ("5", "5")
    z = norm.isf(student_t.sf(math.log(12 / 8) / math.sqrt((1 / 12 + 1 / 8) * 20 / 19), 19))
    bar = studentized_range.ppf(0.995, 2, 1e6) / math.sqrt(2)
    calls = 2 * 20 * ((bar / z) ** 2 - 1)
    assert float(str(row["more judge calls"]).replace(",", "")) == pytest.approx(calls, rel=0.02)
    decided = bradley_terry.neighbours({"sight": MIXED}, {"sight": MIXED_LOG}).rows[0]
    assert (decided["is"], decided["more judge calls"]) == ("decided", None)


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.5, "50%"), (0.004, "<1%"), (0.0, "<1%"), (0.996, ">99%"), (1.0, ">99%"), (0.99, "99%"),
     (math.nan, "–")],
)  # fmt: skip
def test_no_probability_is_certain(value: float, told: str) -> None:
    """A probability is never shown as 0 % or 100 %, and an unknown one is a dash."""
    assert bradley_terry.share_text(value) == told


@pytest.mark.parametrize(("ranks", "told"), [(None, "–"), ((2, 2), "2"), ((1, 3), "1 to 3")])
def test_ranks_in_words(ranks: tuple[int, int] | None, told: str) -> None:
    """A range of one rank is that rank; no range is a dash."""
    assert ranks_text(ranks) == told


def test_shrinkage_is_a_slope() -> None:
    """Per K the table has the least-squares slope of Elo on Bradley–Terry, and a small K shrinks
    most.
    """
    battles = league("ann", "bob", "cy", "di", rounds=20)
    sweep = {"taste": swept(ELO, battles, [1.0, 8.0, 32.0])}
    reference = METHOD(battles)
    (row,) = cells(bradley_terry.shrinkage(sweep, {"taste": reference}))
    x = [reference[model].rating for model in reference.models]
    slopes = [
        linear_regression(x, [found[model].rating for model in reference.models]).slope
        for found in sweep["taste"].values()
    ]
    assert row == ["taste", *(f"{slope:.2f}" for slope in slopes)]
    assert slopes == sorted(slopes)
    assert slopes[0] < 0.5


def test_shrinkage_of_equals() -> None:
    """Entrants that are all equal have no slope: a dash, never a 'nan'."""
    even = log(won("ann", "bob", 10, 10) + won("bob", "cy", 10, 10) + won("cy", "ann", 10, 10))
    sweep = {"taste": swept(ELO, even, [16.0])}
    shown = bradley_terry.shrinkage(sweep, {"taste": METHOD(even)})
    assert "nan" not in shown.html
    assert "nan" not in shown.text


def test_the_matrix_of_probabilities() -> None:
    """The picture has a panel per dimension, entrants best first, and in each cell the chance
    that the row's is above the column's.
    """
    figure = bradley_terry.above(FOUND).figure
    panels = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title(loc="left") for ax in panels] == list(FOUND)
    for ax, found in zip(panels, FOUND.values(), strict=True):
        assert tuple(t.get_text() for t in ax.get_yticklabels()) == found.order
        assert tuple(t.get_text() for t in ax.get_xticklabels()) == found.order
        shown = {(t.get_position()[1], t.get_position()[0]): t.get_text() for t in ax.texts}
        assert len(shown) == 6
        chance = claims.above(found)
        for (row, column), told in shown.items():
            i, j = (found.models.index(found.order[int(at)]) for at in (row, column))
            assert told == bradley_terry.share_text(float(chance[i, j]))


def test_decided_orders_are_bold_in_the_matrix() -> None:
    """Of three entrants with one far ahead, the four cells with that one are bold, and the two of
    the others' open order are not.
    """
    (ax,) = (ax for ax in bradley_terry.above({"sight": MIXED}).figure.axes if ax.get_visible())
    plain = {t.get_position() for t in ax.texts if t.get_weight() == "normal"}
    bold = {t.get_position() for t in ax.texts if t.get_weight() == "bold"}
    assert (plain, len(bold)) == ({(1, 2), (2, 1)}, 4)


def test_nothing_rated(tmp_path: Path) -> None:
    """Without any rating every table says so in a sentence, the text is empty, and the pictures
    are still pictures.
    """
    for shown in (bradley_terry.board({}, {}), bradley_terry.shrinkage({}, {})):
        assert shown.text == "No dimension has a rating."
        assert shown.html == "<p>No dimension has a rating.</p>"
    assert bradley_terry.text({}) == ""
    plot = bradley_terry.above({})
    assert texts(plot) == ["Nothing to show: no dimension has a rating."]
    assert drawn(plot, tmp_path).startswith(b"\x89PNG")


def board_rows(placed: Placed) -> list[list[str]]:
    return [row for row in cells(placement.board(placed, "cast in 2023")) if len(row) > 1]


def test_the_leaderboard_of_a_placement() -> None:
    """The board has everybody best first, with interval, the ranks possible to all at once, the
    chance that the placed model is above, battles and who decided; the placed model alone is
    marked, and a note has its ranks for it alone.
    """
    placed = placed_among("ann", "bob", "cy", NEW)
    shown = placement.board(placed, "cast in 2023")
    rows = board_rows(placed)
    ranges = claims.rank_ranges(placed.joint, repeated=True)
    chance = claims.above(placed.joint)[placed.joint.models.index(NEW)]
    assert [row[:2] for row in rows] == [[str(n), m] for n, m in enumerate(placed.joint.order, 1)]
    for row in rows:
        rating, ranks = placed.joint[row[1]], ranges[row[1]]
        own = row[1] == NEW
        told = bradley_terry.share_text(float(chance[placed.joint.models.index(row[1])]))
        assert row[2] == f"{rating.rating:.0f}"
        assert row[3] == f"{rating.ci_low:.0f} to {rating.ci_high:.0f}"
        assert row[4] == ranks_text(ranks)
        assert row[5] == ("–" if own else told)
        assert row[6:] == [str(rating.n_battles), "judge" if own else "people"]
    assert "People's votes: cast in 2023." in shown.html
    alone = ranks_text(claims.single_rank_ranges(placed.joint)[NEW])
    assert f"hold for all models at once; for {NEW} alone: {alone}." in shown.text
    marked = [row for row in re.findall(r"<tr.*?</tr>", shown.html, re.DOTALL) if "#fdebd9" in row]
    assert len(marked) == 1
    assert f">{NEW}<" in marked[0]


def test_the_ways_of_placing() -> None:
    """The table has a row per way of placing and one for people's own votes, and its note says
    how far the joint fit moves the others.
    """
    placed = placed_among("ann", "bob", "cy", NEW)
    assert placed.hidden is not None
    rows = {row[0]: row[1:] for row in cells(placement.ways(placed)) if len(row) > 1}
    for name, rating in (
        ("joint fit", placed.joint[NEW]),
        ("others held fixed", placed.anchored[NEW]),
        ("people's own votes, set aside", placed.hidden),
    ):
        assert rows[name][0] == f"{rating.rating:.0f}"
        assert rows[name][1] == f"{rating.ci_low:.0f} to {rating.ci_high:.0f}"
        assert rows[name][2] == rows[name][1], "the evidence alone, where nothing else is known"
        assert rows[name][4] == str(rating.n_battles)
    moved = max(abs(placed.joint[m].rating - placed.human[m].rating) for m in placed.human.models)
    assert moved > 1
    assert f"by at most {moved:.1f} points" in placement.ways(placed).html


def test_the_answer_in_words() -> None:
    """The text names rank, number of models, battles, and each way's rating with its interval."""
    placed = placed_among("ann", "bob", "cy", NEW)
    told = placement.text(placed)
    rank = placed.joint.order.index(NEW) + 1
    assert told.startswith(f"{NEW} is placed at rank {rank} of 4 by ")
    assert "\npossible ranks of it alone: " in told
    assert f"by {placed.n_judged} judged battles" in told
    assert placed.hidden is not None
    for rating in (placed.joint[NEW], placed.anchored[NEW], placed.hidden):
        assert re.search(rf"{rating.rating:.1f} +{rating.ci_low:.0f} to {rating.ci_high:.0f}", told)


def test_the_calibration_in_words() -> None:
    """Verdicts in full are called so; toned down, the table says by how much and on what."""
    assert "count in full" in placement.calibration(placed_among("a", "b", "c", NEW)).text
    world = World([*steps(6, 50), 90.0], 3000, 2)
    placed = Placement(model=NEW, min_battles=0, soft=True, method=BradleyTerry())(
        world.human, world.sure()
    )
    found = placed.calibration
    assert found is not None
    rows = dict(cells(placement.calibration(placed)))
    assert rows["battles that people and the judge both decided"] == str(found.n_shared)
    assert rows["same winner, where both name one"] == f"{100 * found.agreement:.1f}%"
    assert rows["a clear verdict is worth"] == f"{found.worth:.3f} of a win"


def test_the_forest_of_a_placement(tmp_path: Path) -> None:
    """The picture has everybody, best on top, the placed model both ways and by people's own
    votes, and says what is known about the votes.
    """
    placed = placed_among("ann", "bob", "cy", NEW)
    plot = placement.forest(placed, "simulated")
    (ax,) = plot.figure.axes
    assert tuple(t.get_text() for t in ax.get_yticklabels()) == placed.joint.order[::-1]
    assert "votes simulated" in ax.get_xlabel()
    assert "votes" not in placement.forest(placed).figure.axes[0].get_xlabel()
    assert any(f"Where does this judge put {NEW}?" in text for text in texts(plot))
    labelled = {line.get_label(): line.get_xdata()[0] for line in ax.lines}
    assert placed.hidden is not None
    assert labelled["joint fit, where this judge puts it"] == placed.joint[NEW].rating
    assert labelled["others held fixed"] == placed.anchored[NEW].rating
    assert labelled["by people's own votes, set aside"] == placed.hidden.rating
    points = {float(line.get_xdata()[0]) for line in ax.lines}
    assert points >= {row.rating for row in placed.joint.ratings}
    assert drawn(plot, tmp_path) == drawn(placement.forest(placed, "simulated"), tmp_path)


def test_few_verdicts(tmp_path: Path) -> None:
    """A model without an interval is shown with dashes, in tables and pictures alike."""
    placed = placed_among("ann", "bob", "cy", NEW, n=8)
    assert placed.joint[NEW].ci_low is None
    (own,) = [row for row in board_rows(placed) if row[1] == NEW]
    assert own[3:6] == ["–", "–", "–"]
    assert all(row[5] == "–" for row in board_rows(placed))
    assert "nan" not in placement.ways(placed).html
    assert "possible ranks of it alone: –\n" in placement.text(placed)
    assert drawn(placement.forest(placed), tmp_path).startswith(b"\x89PNG")


@cache
def hostile(name: str) -> Placed:
    """A model of a hostile name, placed among others of such names."""
    others = [f"{n}{each}"[:256] for n, each in enumerate([*HOSTILE, MARKUP])]
    votes = log(row for a, b in pairwise(others) for row in won(a, b, 12, 8))
    verdicts = judged([row for other in others[:4] for row in won(name, other, 4, 3)])
    return Placement(model=name, min_battles=0, method=BradleyTerry())(votes, verdicts)


SHOWN: dict[str, Callable[[Placed], Table]] = {
    "board": lambda placed: placement.board(placed, f"{placed.model} voted"),
    "ways": placement.ways,
    "strengths": lambda placed: bradley_terry.board({}, {placed.model: placed.joint}),
    "shrinkage": lambda placed: bradley_terry.shrinkage(
        {placed.model: {16.0: placed.joint}}, {placed.model: placed.joint}
    ),
}


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("name", [HOSTILE[0], HOSTILE[1], MARKUP], ids=["script", "image", "text"])
def test_hostile_names_in_tables(shown: str, name: str) -> None:
    """A name that is HTML or Markdown is text in every table: in cells, heads, groups, notes."""
    html = SHOWN[shown](hostile(name)).html
    found = Elements(html)
    assert found.tags <= TABLE_TAGS
    for attribute, value in found.attributes:
        assert not attribute.startswith("on"), (attribute, value)
        assert attribute not in ("src", "href", "srcdoc", "action"), (attribute, value)
    assert not [text for text in HOSTILE if text in html]
    if shown != "ways":
        assert escape(name) in html or escape(name, quote=False) in html


@pytest.mark.parametrize("name", [HOSTILE[0], MARKUP], ids=["script", "text"])
def test_hostile_names_in_pictures(name: str, tmp_path: Path) -> None:
    """Any name can be drawn, and is drawn as it is; a long one is shortened in the middle."""
    placed = hostile(name)
    for plot in (placement.forest(placed, name), bradley_terry.above({name: placed.joint})):
        assert drawn(plot, tmp_path).startswith(b"\x89PNG")
        assert {*texts(plot)} >= {shown_name(model) for model in placed.joint.models}


@pytest.mark.parametrize("length", [80, 256])
def test_long_names_in_pictures(length: int, tmp_path: Path) -> None:
    """Names of 80 characters leave room for the picture; those of 256 do not end the run."""
    placed = placed_among(*(letter * length for letter in "abcd"))
    with warnings.catch_warnings(action="error" if length < 100 else "ignore"):
        for plot in (placement.forest(placed), bradley_terry.above({"taste": placed.joint})):
            assert drawn(plot, tmp_path).startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["$\\frac{$", "costs $5, not $6"])
def test_dollars_in_pictures(name: str, tmp_path: Path) -> None:
    """A name with dollar signs is drawn as it is: it is no formula, and a broken one does not end
    the run.
    """
    placed = placed_among("ann", "bob", "cy", name)
    for plot in (placement.forest(placed, name), bradley_terry.above({name: placed.joint})):
        drawn(plot, tmp_path)
        read = [t for t in plot.figure.findobj(Text) if name in t.get_text() and t.get_parse_math()]
        assert not read


SMALL = {"strata": {"open_recall": 6, "vignette": 6, "curated": 6}, "n_perms": 20}
DIMENSIONS = {"factuality", "calibration", "clinical_utility"}


def _rate(record: Path, *words: str) -> Mapping[str, Any]:
    done = CliRunner().invoke(main, ["rate", str(record / "battles.jsonl"), "--json", *words])
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_tournament_record_holds_strengths(workspace: Path) -> None:
    """bradley_terry.json of a tournament is what `rate --method bradley-terry` with its settings
    gives: on Elo's center, without what Elo leaves out; and shrinkage is the slope of the two.
    """
    study = judgments_of("k_sweep", **SMALL)
    record = published(study).path
    found = json.loads((record / "bradley_terry.json").read_text())
    assert set(found) == DIMENSIONS
    words = ["--method", "bradley-terry"]
    for change in ("center=1400", "both_bad=exclude", "inconsistent=drop", "prior=0.5"):
        words += ["--set", change]
    rows = _rate(record, *words)["ratings"]
    for dimension, entry in found.items():
        again = [{k: v for k, v in r.items() if k != "dimension"} for r in rows
                 if r["dimension"] == dimension]  # fmt: skip
        assert entry["ratings"] == again
        assert entry["settings"]["center"] == 1400
        mean = np.mean([row["rating"] for row in entry["ratings"]])
        assert mean == pytest.approx(1400, abs=1e-6), "Elo's mean is its start, too"
        for a, row in entry["above"].items():
            assert all(row[b] + entry["above"][b][a] == pytest.approx(1) for b in row)
    elo = json.loads((record / "elo_results.json").read_text())["k_sensitivity"]
    battles = to_battles(study)
    sweep, board = sweep_elo(battles, study.plan), rate(battles, **study.plan.rating)
    rows = cells(tournament_tables.shrinkage(sweep.ratings, board))
    table = {row[0]: row[1:] for row in rows}
    for dimension, by_k in elo.items():
        x = {row["model"]: row["rating"] for row in found[dimension]["ratings"]}
        slopes = [
            linear_regression([x[m] for m in sorted(x)], [e[m]["mean"] for m in sorted(x)]).slope
            for _, e in sorted(by_k.items(), key=lambda item: float(item[0]))
        ]
        assert table[dimension] == [f"{slope:.2f}" for slope in slopes]


def test_ratings_are_not_changed_by_showing() -> None:
    """Tables and pictures leave what they show as it was."""
    placed = placed_among("ann", "bob", "cy", NEW)
    before: list[Ratings] = [replace(each) for each in (placed.joint, placed.anchored)]
    _ = placement.board(placed), placement.forest(placed), bradley_terry.above({"d": placed.joint})
    for one, two in zip(before, (placed.joint, placed.anchored), strict=True):
        assert one.ratings == two.ratings
        assert np.array_equal(one.replicates, two.replicates)


def told_of(placed: Placed) -> list[str]:
    """Every text in which a placement is told: tables, picture, answer in words."""
    tables = [placement.board(placed), placement.ways(placed)]
    picture = placement.forest(placed)
    return [*(t.text for t in tables), *texts(picture), placement.text(placed),
            *[t.get_text() for t in picture.figure.legends[0].get_texts()]]  # fmt: skip


def test_a_judge_whose_error_is_unknown_promises_nothing() -> None:
    """Where the judge's error cannot be estimated, the board's heading, the picture and the answer
    say that this is where this judge puts it; no sentence says where people would.
    """
    told = told_of(placed_among("ann", "bob", "cy", NEW))
    assert sum("where this judge puts it" in text for text in told) >= 3
    assert placement.board(placed_among("ann", "bob", "cy", NEW)).title.endswith("puts it")
    for text in told:
        assert "with this judge's error" not in text
        assert "people would" not in text or "is not known" in text


def test_a_judge_whose_error_is_known_shows_it_everywhere() -> None:
    """Where it can, the board, the ways, the picture and the answer show the interval that holds
    it, and say so.
    """
    error = JudgeError(sd=80.0, n_models=6, n_shared=900)
    placed = replace(placed_among("ann", "bob", "cy", NEW), judge_error=error)
    wide = placed.cautious
    assert wide is not None
    span = f"{wide.ci_low:.0f} to {wide.ci_high:.0f}"
    board = placement.board(placed)
    assert board.rows[board.marked or 0]["95% interval"] == span
    assert span in placement.ways(placed).text
    assert span in placement.text(placed)
    bars = [s for c in placement.forest(placed).figure.axes[0].collections
            for s in getattr(c, "get_segments", list)()]  # fmt: skip
    assert any(s[0][0] == pytest.approx(wide.ci_low) for s in bars)
    told = told_of(placed)
    assert any("80 points (SD) from people's ratings, as 6 other models show" in t for t in told)
    assert not any("where this judge puts it" in text for text in told)
