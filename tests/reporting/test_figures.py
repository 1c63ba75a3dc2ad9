"""Figures for a phone: as narrow as it is, stacked, with type that can be read."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from arena_kit import BattleLog, rate
from arena_kit.battles.log import Labels
from arena_kit.reporting import tournament_plots
from arena_kit.reporting.figures import Plot, plot, shown_name
from tests.samples import all_pairs, drawn

NAMES = [f"entrant-{n:02d}" for n in range(12)]
RNG = np.random.default_rng(0)
LOG = drawn(RNG, {m: 30.0 * n for n, m in enumerate(NAMES)}, all_pairs(NAMES), 700)
BATTLES = BattleLog.joined(
    *(replace(LOG, dimension=Labels.of([name] * len(LOG))) for name in ("taste", "sight"))
)
BOARD = rate(BATTLES)
PLOTS: dict[str, Callable[[], Plot]] = {
    "forest": BOARD.plot,
    "winrates": lambda: tournament_plots.winrates(BATTLES, BOARD),
    "above": BOARD.plot_pairs,
    "power": lambda: tournament_plots.power_curves(BOARD.fits["bradley_terry"]),
}
#: A figure has 100 pixels per inch of a page; a phone of 390 leaves 360 for it.
PIXELS, ROOM = 100, 360


@pytest.mark.parametrize("name", PLOTS)
def test_a_narrow_figure_can_be_read(name: str) -> None:
    """It fits a phone, no type is under ten pixels, and every panel has its ticks."""
    figure = PLOTS[name]().narrow()
    assert figure.get_figwidth() * PIXELS <= ROOM
    shown = [text for text in figure.findobj(Text) if text.get_text()]
    assert min(text.get_fontsize() for text in shown) / 72 * PIXELS >= 10
    figure.draw_without_rendering()
    boxes = [ax.get_position() for ax in figure.axes]
    assert len(boxes) == 2
    assert boxes[0].y0 > boxes[1].y1
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            labels = [tick.label1.get_visible() for tick in axis.get_major_ticks()]
            assert labels
            assert all(labels)


def test_a_rare_colour_stays(tmp_path: Path) -> None:
    """One green mark among a thousand shades of red and blue is green in the file, too."""

    @plot("rare", "One mark")
    def rare(values: list[np.ndarray]) -> Figure:
        figure = Figure(figsize=(6, 6), dpi=160)
        ax = figure.subplots()
        ax.imshow(values, cmap="RdBu")
        ax.plot([3], [3], "o", color="#009e73", markersize=4)
        return figure

    rare([*RNG.random((12, 12))]).save(tmp_path / "rare.png")
    colours = Image.open(tmp_path / "rare.png").convert("RGB").getcolors(1 << 24)
    assert colours is not None
    assert min(max(abs(r - 0), abs(g - 158), abs(b - 115)) for _, (r, g, b) in colours) <= 4


def test_a_long_name_is_shortened_in_the_middle() -> None:
    """Both ends of a name tell it apart from others."""
    assert shown_name("short") == "short"
    long = shown_name(f"begins{'x' * 100}ends")
    assert len(long) <= 44
    assert long.startswith("begins")
    assert long.endswith("ends")


def test_power_grows_with_the_study() -> None:
    """A line for each of the first six adjacent pairs, which only rises."""
    for ax in PLOTS["power"]().figure.axes:
        *lines, level = ax.lines
        assert len(lines) == min(6, len(NAMES) - 1)
        assert all(np.all(np.diff(line.get_ydata()) >= 0) for line in lines)
        assert set(level.get_ydata()) == {0.8}
