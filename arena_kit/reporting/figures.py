"""The look that all pictures share.

Figures are built without pyplot, so they are safe in any thread and leave no state.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from arena_kit.files import whole_file
from arena_kit.rating.base import Ratings

P = ParamSpec("P")

INK, SOFT, LINE = "#1f2328", "#57606a", "#d8dee4"
ACCENT, WARM, MARKED = "#0072b2", "#d55e00", "#fdebd9"
_RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.parse_math": False,  # a name with dollars is no formula
    "axes.edgecolor": LINE,
    "axes.labelcolor": SOFT,
    "axes.titlesize": 10,
    "axes.titlepad": 8,
    "axes.titlelocation": "left",
    "xtick.color": SOFT,
    "ytick.color": INK,
    "text.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def panels_of(
    width: float, height: float, panels: int, title: str, *, labels: Iterable[str] = (), **more: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with its panels; `height` is that of one row of them, and long labels leave
    room for fewer panels in a row.
    """
    columns = min(panels, in_a_row(labels))
    rows = -(-panels // columns)
    figure = Figure(figsize=(width, height * rows), dpi=160, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    axes = list(figure.subplots(rows, columns, squeeze=False, **more).flat)
    for spare in axes[panels:]:
        spare.set_visible(False)
    return figure, axes[:panels]


def in_a_row(labels: Iterable[str]) -> int:
    """How many panels with such labels fit side by side."""
    longest = max((len(label) for label in labels), default=0)
    return 3 if longest <= 12 else 2 if longest <= 24 else 1


def models_of(ratings: Iterable[Ratings]) -> list[str]:
    """The names of all models rated."""
    return [model for rated in ratings for model in rated.models]


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure with the name of its file; `alt` says in words what it shows."""

    figure: Figure
    name: str
    alt: str


def plot(name: str, alt: str) -> Callable[[Callable[P, Figure]], Callable[P, Plot]]:
    """Name what a function draws, and draw it with our look, whatever the user's settings are.

    Where its first argument is empty, the figure says that there is nothing to show.
    """

    def named(draw: Callable[P, Figure]) -> Callable[P, Plot]:
        @wraps(draw)
        def drawn(*args: P.args, **kwargs: P.kwargs) -> Plot:
            with rc_context(_RC):  # type: ignore[arg-type]
                figure = draw(*args, **kwargs) if args[0] else _nothing()
            return Plot(figure, name, alt)

        return drawn

    return named


def _nothing() -> Figure:
    figure = Figure(figsize=(9, 0.6), dpi=160)
    figure.text(0.01, 0.4, "Nothing to show: no dimension has a rating.", fontsize=11, color=SOFT)
    return figure


@dataclass(frozen=True, slots=True)
class Picture:
    """A saved figure; `alt` says in words what it shows."""

    path: Path
    width: int
    alt: str

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, str], dict[str, object]]:
        data = base64.b64encode(self.path.read_bytes()).decode()
        bundle = {"image/png": data, "text/plain": self.alt}
        return bundle, {"image/png": {"width": self.width, "alt": self.alt}}


def save_picture(plot: Plot, path: Path) -> Picture:
    """Write a plot as PNG, the same bytes for the same figure, and return it."""
    with whole_file(path) as part:
        plot.figure.savefig(part, format="png", metadata={"Software": None})
    return Picture(path, int(plot.figure.get_figwidth() * 100), plot.alt)
