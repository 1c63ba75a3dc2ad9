"""Boards per stratum: pooled where strata agree, apart where they do not, silent on few prompts."""

from dataclasses import replace
from math import log as ln
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arena_kit as ak
from arena_kit import Battle, BattleLog, BradleyTerry, claims
from arena_kit.battles.log import Labels
from arena_kit.files import DataError
from arena_kit.rating.base import RatingError
from arena_kit.rating.resampling import win_differences
from arena_kit.rating.strata import _shrunk, by_stratum
from arena_kit.reporting.strata import plot_strata, strata_forest, strata_table
from arena_kit.runs.record.inputs import battles_of

UNIT = 400 / ln(10)


def battles(sizes: dict[str, int], gaps: dict[str, float], seed: int = 0) -> BattleLog:
    """Battles of three models; m0 is `gaps[stratum]` points above the others, which are equal."""
    rng, rows, of = np.random.default_rng(seed), [], {}
    for name, n in sizes.items():
        for q in range(n):
            of[f"{name}{q}"] = name
            for a, b in ((0, 1), (0, 2), (1, 2)):
                lead = gaps[name] * (a == 0) / UNIT
                won = rng.random() < 1 / (1 + np.exp(-lead))
                rows.append(Battle(model_a=f"m{a}", model_b=f"m{b}", question_id=f"{name}{q}",
                                   winner="model_a" if won else "model_b"))  # fmt: skip
    return BattleLog.from_battles(rows).with_strata({"subject": of})


def test_large_strata_keep_their_own_ratings() -> None:
    """Large strata keep their own ratings; equal ones share, with much shorter intervals."""
    log = battles({"x": 3000, "y": 3000}, {"x": 0, "y": 150})
    found = by_stratum(log, "subject")
    labels = (log.strata or {})["subject"]
    for s, name in enumerate(found.names):
        alone = BradleyTerry()(log.select(labels.values() == name))
        assert found.rating[s] == pytest.approx(alone.values(), abs=2)
        widths = [row.ci_high - row.ci_low for row in map(alone.__getitem__, found.models)]
        assert found.high[s] - found.low[s] == pytest.approx(widths, rel=0.1)
    assert found.p_equal < 1e-6
    assert ("m0", "y") in {each[:2] for each in found.deviations}
    middle, low, high = found.spread
    assert low < middle < high
    log = battles(dict.fromkeys("abcdefgh", 12), dict.fromkeys("abcdefgh", 100.0), seed=5)
    found = by_stratum(log, "subject")
    labels = (log.strata or {})["subject"]
    one = BradleyTerry()(log.select(labels.values() == "a"))
    alone = np.mean([row.ci_high - row.ci_low for row in one.ratings])
    assert np.mean(found.high - found.low) < 0.6 * alone
    assert not found.deviations
    assert found.p_equal > 0.05
    assert "do not differ beyond noise" in found.sentences()[0]


def test_further_prompts_are_those_of_a_stratum_by_itself() -> None:
    """First place in one of two strata (97.5 %) needs prompts as 95 % to 98.5 % do alone."""
    log = battles({"x": 200, "y": 400}, {"x": 35, "y": 900}, seed=3)
    found = by_stratum(log, "subject")
    x = log.select((log.strata or {})["subject"].values() == "x")
    once, often = (claims.neighbours(BradleyTerry(looks=n)(x))[0].prompts or 0 for n in (1, 12))
    assert 0 < 0.8 * once <= found.more[0] <= 1.2 * often
    assert found.more[1] == 0
    shown = strata_table(ak.rate(log)).rows[-1]
    assert (shown["model"], shown["y"]) == ("further prompts", "decided")
    more = battles(dict.fromkeys("xyz", 12), dict.fromkeys("xyz", 0.0))
    fewer = more.select((more.strata or {})["subject"].values() != "z")
    parts = [replace(part, dimension=Labels.of([name] * len(part)))
             for name, part in (("d", more), ("e", fewer))]  # fmt: skip
    assert strata_table(ak.rate(BattleLog.joined(*parts))).html.count("no battles") == 4


def test_two_prompts_make_no_claim() -> None:
    """Two prompts make no claim, a missing model is pooled and wider, one stratum is refused."""
    log = battles({"large": 200, "tiny": 2}, {"large": 0, "tiny": 4000})
    found = by_stratum(log, "subject")
    assert np.isfinite(found.rating).all()
    assert not found.decided[1].any()
    assert not found.deviations
    log = battles({"x": 60, "y": 60}, {"x": 200, "y": 200})
    codes = (log.strata or {})["subject"].codes
    kept = log.select((codes == 0) | ((log.a != 0) & (log.b != 0)))
    found = by_stratum(kept, "subject")
    assert np.isnan(found.alone[1, 0])
    width = found.high - found.low
    assert width[1, 0] > width[0, 0]
    assert strata_table(ak.rate(kept)).rows[0]["y"] == "no battles"
    log = battles({"x": 20}, {"x": 0})
    with pytest.raises(RatingError, match="has 1 strata"):
        by_stratum(log, "subject")
    board = ak.rate(log)
    assert board.dimensions[0].strata == []
    assert strata_table(board).text == "No prompt has a stratum."


def test_a_board_holds_its_strata(tmp_path: Path, pilot_record: Path) -> None:
    """board.json and figures keep every stratum, which files and records name."""
    board = ak.rate(battles({"x": 40, "y": 40}, {"x": 0, "y": 400}))
    board.write(tmp_path / "board.json")
    again = ak.Board.read(tmp_path / "board.json")
    assert again.dimensions[0].strata == board.as_dict()["dimensions"][0]["strata"]
    cells = plot_strata(again).figure.axes[0].texts
    assert len(cells) == 6
    panels = strata_forest(again)
    titles = [ax.get_title(loc="left") for ax in panels.figure.axes]
    assert (panels.name, titles) == ("strata_forest", ["x (40 prompts)", "y (40 prompts)"])
    file = tmp_path / "votes.csv"
    file.write_text("model_a;model_b;winner;language\nx;y;A;de\ny;x;B;fr\nx;y;A;\n")
    strata: Any = ak.read_battles(file, strata=["language"]).strata
    assert strata["language"].values().tolist() == ["de", "fr", None]
    with pytest.raises(DataError, match=r"no column 'lang' with strata; columns: model_a, .*"):
        ak.read_battles(file, strata=["lang"])
    recorded: Any = battles_of(pilot_record, strata=("source",)).strata
    assert {*recorded["source"].names} == {"curated", "open_recall", "vignette"}
    with pytest.raises(DataError, match="no prompt has a stratum on 'taste'"):
        battles_of(pilot_record, strata=("taste",))


def test_intervals_are_those_of_the_error() -> None:
    """The covariance of shrunk contrasts is that of their error in 1,000 simulated studies."""
    rng = np.random.default_rng(3)
    root = rng.normal(size=(5, 2, 2))
    noise = root @ root.swapaxes(1, 2) + np.eye(2)
    known, lower = np.linalg.inv(noise), np.linalg.cholesky(noise)
    for spread in (0.0, 2.0):
        true = rng.normal(0, spread, (1000, 5, 2))
        seen = true + np.einsum("sij,nsj->nsi", lower, rng.normal(size=true.shape))
        error = true - np.array([_shrunk(known, each, 1.5)[0] for each in seen])
        _, own, bias = _shrunk(known, seen[0], 1.5)
        expected = np.diagonal(own + spread**2 * bias, axis1=1, axis2=2)
        assert error.var(axis=0) == pytest.approx(expected, rel=0.12)


def test_win_difference_by_hand() -> None:
    """Nine of twelve questions won: 9/12 − 3/12 = 0.5. The jackknife of a mean has the variance
    0.75 / 11, so the battles are worth 11 independent ones; Wilson's interval of 3/4 at t = 2.20099
    (11 degrees of freedom) is 0.4223 to 0.9249. Of a perfect record of twelve its lower end is
    12 / (12 + t²), never 1.
    """
    log = BattleLog.from_battles(
        Battle(model_a="x", model_b="y", winner="model_a" if n < 9 else "model_b",
               question_id=f"q{n}") for n in range(12)
    )  # fmt: skip
    x, y = win_differences(log)["x"], win_differences(log)["y"]
    assert x.value == -y.value == 0.5
    assert (x.low, x.high) == pytest.approx((2 * 0.4223 - 1, 2 * 0.9249 - 1), abs=3e-4)
    assert (y.low, y.high) == pytest.approx((1 - 2 * 0.9249, 1 - 2 * 0.4223), abs=3e-4)
    perfect = win_differences(replace(log, outcome=np.zeros(12, np.int8)))["x"]
    assert perfect.low == pytest.approx(2 * 12 / (12 + 2.20099**2) - 1, abs=1e-4)
    assert (perfect.value, perfect.high) == (1.0, pytest.approx(1.0))
    few = win_differences(log.select(range(9)))["x"]
    assert few == (1.0, None, None)
