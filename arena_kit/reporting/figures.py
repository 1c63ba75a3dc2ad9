"""The look that all pictures share.

Figures are built without pyplot, so they are safe in any thread and leave no state.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

import numpy as np
from numpy.typing import NDArray

from arena_kit.files import whole_file
from arena_kit.reporting.html import LEVEL_COLOURS, NARROW_TYPE
from arena_kit.reporting.tables import probability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Figure  # noqa: PLC0414 (for the modules of reports)

P = ParamSpec("P")

_COLOURS = 128

INK, SOFT, LINE = "#1f2328", "#57606a", "#d8dee4"
ACCENT, WARM, MARKED, SHADE = "#0072b2", "#d55e00", "#fdebd9", "#e8eff6"
HUES = (ACCENT, WARM, "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
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
    "xtick.major.size": 0,
    "ytick.major.size": 0,
}


_NARROW = ContextVar("narrow", default=False)
#: Inches of a figure on a page and on a phone; 100 pixels each, so that type is alike in both.
_PAGE, _PHONE = 9.0, 3.6
_LEAST_TYPE = 7.5  # points, ten pixels
#: Inches that the first screen leaves to its figure, and that axis, title and legend take of it:
#: once, and with each panel; on a page and on a phone.
_SCREEN, _ONCE, _EACH = (6.2, 5.2), (0.95, 0.75), (0.55, 0.42)
_LEAST_ROW, _LARGEST_ROW = 0.15, 0.34
_LONGEST_NAME, _LONGEST_NARROW = 44, 22


def panels_of(
    height: float,
    panels: int,
    title: str,
    *,
    labels: Iterable[str] = (),
    most: int = 3,
    **more: Any,
) -> tuple[Figure, list[Axes]]:
    """A figure with its panels; `height` is that of one row of them, and long labels leave
    room for fewer panels in a row. A narrow one stacks them, each with its own ticks.
    """
    from matplotlib.figure import Figure

    narrow = _NARROW.get()
    columns = _columns(panels, labels, most)
    rows = -(-panels // columns)
    size = (_PHONE if narrow else _PAGE, height * rows)
    figure = Figure(figsize=size, dpi=160, layout="constrained")
    words = fill(title, 36) if narrow else title
    figure.suptitle(words, x=0.01, ha="left", fontsize=11 if narrow else 12, fontweight="bold")
    axes = list(figure.subplots(rows, columns, squeeze=False, **more).flat)
    for ax in axes:
        ax.tick_params(labelbottom=True, **({"labelleft": True} if columns == 1 else {}))
    for spare in axes[panels:]:
        spare.set_visible(False)
    return figure, axes[:panels]


def is_narrow() -> bool:
    """Whether the figure is drawn for a phone."""
    return _NARROW.get()


def _columns(panels: int, labels: Iterable[str], most: int = 3) -> int:
    return 1 if _NARROW.get() else min(panels, in_a_row(labels), most)


def on_first_screen(
    n: int, panels: int, title: str, labels: Sequence[str], **more: Any
) -> tuple[Figure, list[Axes], int]:
    """A figure with panels of `n` rows that fits the first screen of a report, and how many of the
    rows there is room for. A phone shows no title: the report has one.
    """
    stacked, narrow = -(-panels // _columns(panels, labels)), _NARROW.get()
    once, each = _ONCE[narrow], _EACH[narrow]
    room = (_SCREEN[narrow] - once) / stacked - each
    shown = min(n, max(3, int(room / _LEAST_ROW)))
    height = once / stacked + each + shown * min(_LARGEST_ROW, room / shown)
    figure, axes = panels_of(height, panels, "" if narrow else title, labels=labels, **more)
    return figure, axes, shown


class Verdict(Protocol):
    """What a judge's gate says of it, in brief."""

    @property
    def level(self) -> str: ...
    @property
    def brief(self) -> str: ...


def matrices_of(
    n: int, panels: int, title: str, labels: Sequence[str]
) -> tuple[Figure, list[Axes], float]:
    """A figure with a triangle of `n` models in each panel, and the side of a cell in inches; many
    models leave room for fewer panels in a row.
    """
    n = max(1, n - 1)
    if _NARROW.get():
        most, side = 1, (_PHONE - 0.9) / n
    else:
        fitting = range(min(panels, in_a_row(labels)), 0, -1)
        sides = {columns: (_PAGE / columns - 0.8) / n for columns in fitting}
        most = next((columns for columns, side in sides.items() if side > _READABLE), 1)
        side = sides[most]
    side = min(0.66, side)
    figure, axes = panels_of(side * n + 1.5, panels, title, labels=labels, most=most)
    return figure, axes, side


def interval_bar(
    ax: Axes, row: Interval, y: float, color: str = ACCENT, mark: str = "o", label: str = ""
) -> None:
    """A rating as a mark on its interval. Its number stands in the table of the board alone."""
    low, high = row.ci_low, row.ci_high
    if low is not None or high is not None:
        start, end = (row.rating if each is None else each for each in (low, high))
        ax.hlines(y, start, end, color=color, linewidth=2.2)
    if (low is None) != (high is None):  # the end that is open
        mark = "<" if low is None else ">"
    ax.plot(row.rating, y, mark, color=color, markersize=5.5, label=label or None)


_READABLE = 0.28  # inches of a cell that holds two digits


def name_rows(ax: Axes, names: Sequence[str], **settings: Any) -> None:
    """Names at the side, upwards from 0; `settings` are those of the axes."""
    ax.set_yticks(range(len(names)), [shown_name(name) for name in names])
    ax.set(**settings)


def cell(ax: Axes, x: float, y: float, text: str, **looks: Any) -> None:
    """A text in a cell of a matrix; hundreds of them would take the layout seconds."""
    ax.text(x, y, text, ha="center", va="center", in_layout=False, **looks)


def share_matrix(
    ax: Axes,
    shares: NDArray[np.float64],
    texts: Mapping[tuple[int, int], str],
    names: Sequence[str],
    side: float,
    *,
    bold: NDArray[np.bool_] | None = None,
    under: Mapping[tuple[int, int], str] | None = None,
    **settings: Any,
) -> None:
    """Shares of the row's model against each one after it in cells of so many inches, each with
    its percentage (in a small one without its sign) and, where there is room, a text `under` it.
    """
    below = np.tri(len(shares), dtype=bool)  # says the same again
    ax.imshow(np.where(below, np.nan, shares)[:-1, 1:], cmap="RdBu", vmin=0, vmax=1)
    size = 9.5 if side > 0.5 else 8.5 if side > 0.4 else _LEAST_TYPE
    for (i, j), text in ((at, text) for at, text in texts.items() if at[0] < at[1]):
        light = abs(shares[i, j] - 0.5) > 0.21
        cell(ax, j - 1, i - 0.08 * bool(under), text if side > 0.4 else text.removesuffix("%"),
             fontsize=size, color="white" if light else INK,
             weight="bold" if bold is not None and bold[i, j] else "normal")  # fmt: skip
        if under:
            cell(ax, j - 1, i + 0.26, under[i, j], fontsize=7.5, color="white" if light else SOFT)
    name_rows(ax, names[:-1], **settings)
    labels = [shown_name(name) for name in names[1:]]
    ax.set_xticks(range(len(labels)), labels, rotation=30 if side > 0.5 else 60, ha="right")
    ax.spines[:].set_visible(False)


def shown_name(name: str) -> str:
    """A name as an axis shows it, shortened in the middle where it is too long."""
    most = _LONGEST_NARROW if _NARROW.get() else _LONGEST_NAME
    half = most // 2
    return name if len(name) <= most else f"{name[:half]}…{name[1 - half :]}"


def legend_below(figure: Figure, *entries: Any, columns: int, phone: int = 1) -> None:
    """A legend under the panels in so many columns, and so many on a phone; `entries` are handles
    and labels, those of all panels by default.
    """
    n = phone if _NARROW.get() else columns
    figure.legend(*entries, loc="outside lower left", ncols=n, frameon=False, fontsize=8.5)


def in_a_row(labels: Iterable[str]) -> int:
    """How many panels with such labels fit side by side."""
    longest = max((len(label) for label in labels), default=0)
    return 3 if longest <= 12 else 2 if longest <= 24 else 1


@dataclass(frozen=True)
class Plot:
    """A figure with the name of its file; `alt` says in words what it shows, and `narrow` draws it
    for a phone. The same figure has the same bytes.
    """

    figure: Figure
    name: str
    alt: str
    narrow: Callable[[], Figure]

    @cached_property
    def png(self) -> bytes:
        """The picture as a page shows it."""
        return _png(self.figure)

    @cached_property
    def narrow_png(self) -> bytes:
        """The picture as a phone shows it."""
        return _png(self.narrow())

    def save(self, path: Path, narrow: Path | None = None) -> None:
        """Write the picture as PNG, the same bytes for the same figure, and its `narrow` form."""
        for file, png in ((path, self.png), (narrow, self.narrow_png if narrow else b"")):
            if file is not None:
                with whole_file(file) as part:
                    part.write_bytes(png)

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, str], dict[str, object]]:
        pictures = {"image/png": self.png, NARROW_TYPE: self.narrow_png}
        bundle = {kind: base64.b64encode(each).decode() for kind, each in pictures.items()}
        width = int(self.figure.get_figwidth() * 100)
        about: dict[str, object] = {"image/png": {"width": width, "alt": self.alt}}
        return bundle | {"text/plain": self.alt}, about


def plot(name: str, alt: str) -> Callable[[Callable[P, Figure]], Callable[P, Plot]]:
    """Name what a function draws, and draw it with our look, whatever the user's settings are.

    Where its first argument is empty, the figure says that there is nothing to show.
    """

    def named(draw: Callable[P, Figure]) -> Callable[P, Plot]:
        @wraps(draw)
        def drawn(*args: P.args, **kwargs: P.kwargs) -> Plot:
            def figure() -> Figure:
                from matplotlib import rc_context

                with rc_context(_RC):  # type: ignore[arg-type]
                    return draw(*args, **kwargs) if args[0] else nothing_to_show()

            return Plot(figure(), name, alt, lambda: _for_a_phone(figure))

        return drawn

    return named


def _for_a_phone(draw: Callable[[], Figure]) -> Figure:
    """The figure as a narrow page shows it: panels stacked, words wrapped, no type too small."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    token = _NARROW.set(True)
    try:
        figure = draw()
    finally:
        _NARROW.reset(token)
    with rc_context(_RC):  # type: ignore[arg-type]
        for ax in figure.axes:
            ax.set_xlabel(fill(ax.get_xlabel(), 36))
            ax.set_title(fill(ax.get_title(loc="left"), 30), loc="left")
    for text in figure.findobj(Text):
        text.set_fontsize(max(text.get_fontsize(), _LEAST_TYPE))
    return figure


def nothing_to_show() -> Figure:
    """A figure that says so."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_PHONE if _NARROW.get() else _PAGE, 0.6), dpi=160)
    figure.text(0.01, 0.4, "Nothing to show: there is no data.", fontsize=9, color=SOFT)
    return figure


class Interval(Protocol):
    """A model's rating with its interval."""

    @property
    def model(self) -> str: ...
    @property
    def rating(self) -> float: ...
    @property
    def ci_low(self) -> float | None: ...
    @property
    def ci_high(self) -> float | None: ...


@plot("forest", "Rating of every entrant with its 95 % interval, per dimension; tiers shaded")
def forest(
    rows: Mapping[str, Sequence[Interval]],
    center: float | None = None,
    marked: str = "",
    gate: Verdict | None = None,
    title: str = "",
) -> Figure:
    """Ratings with their intervals, a panel per dimension, best on top, every second tier shaded;
    `marked` is highlighted, and what the judge's `gate` says stands under the panels. A figure with
    a title of its own need not fit the first screen.
    """
    n = max(map(len, rows.values()))
    names = [row.model for each in rows.values() for row in each]
    if title:
        shown = n
        figure, axes = panels_of(1.1 + 0.25 * n, len(rows), title, labels=names, sharex=True)
    else:
        title = "Who is ahead, and how sure can we be?"
        figure, axes, shown = on_first_screen(n, len(rows), title, names, sharex=True)
    for ax, (dimension, each) in zip(axes, rows.items(), strict=True):
        upwards = list(reversed(each[:shown]))
        for y, row in enumerate(upwards):
            interval_bar(ax, row, y)
            if row.model == marked:
                band(ax, y, MARKED)
            elif (getattr(row, "tier", None) or 0) % 2:
                band(ax, y, SHADE)
        if center is not None:
            ax.axvline(center, color=LINE, linewidth=1, zorder=0.5)
        best = f" (best {shown} of {len(each)})" if shown < len(each) else ""
        name_rows(ax, [row.model for row in upwards], title=f"{dimension}{best}",
                  ylim=(-0.5, len(upwards) - 0.5))  # fmt: skip
    tiers = any(getattr(row, "tier", None) for each in rows.values() for row in each)
    label_below(axes, f"rating (95% interval{'; tiers shaded' if tiers else ''})")
    if gate and gate.brief:
        words, colour = fill(gate.brief, 46 if _NARROW.get() else 110), LEVEL_COLOURS[gate.level]
        figure.supxlabel(words, x=0.01, ha="left", fontsize=9.5, color=colour, weight="bold")
    return figure


def band(ax: Axes, y: float, colour: str) -> None:
    """A row with a background of its own."""
    ax.axhspan(y - 0.5, y + 0.5, color=colour, linewidth=0, zorder=0)


def label_below(axes: Sequence[Axes], label: str) -> None:
    """What the horizontal axis of every panel means, on a phone once."""
    for ax in axes[-1:] if _NARROW.get() else axes:
        ax.set_xlabel(label)


@plot(
    "above",
    "Probability that the row entrant is above the column entrant, for one pair named beforehand, "
    "per dimension; decided orders in bold",
)
def above(
    panels: Mapping[str, tuple[Sequence[str], NDArray[np.float64], NDArray[np.bool_]]],
) -> Figure:
    """How probable it is that the row's model is above the column's, for one pair named
    beforehand; orders that are decided for all pairs at once stand in bold. A panel has its models,
    their probabilities and which orders are decided.
    """
    labels = [name for names, *_ in panels.values() for name in names]
    n = max(len(names) for names, *_ in panels.values())
    title = "How sure is one pair named beforehand? (bold: decided)"
    figure, axes, side = matrices_of(n, len(panels), title, labels)
    for ax, (dimension, (names, shares, clear)) in zip(axes, panels.items(), strict=True):
        texts = {at: probability(float(p)) for at, p in np.ndenumerate(shares) if at[0] != at[1]}
        share_matrix(ax, shares, texts, names, side, bold=clear | clear.T, title=dimension,
                     xlabel="… is above")  # fmt: skip
    axes[0].set_ylabel("probability that …")
    return figure


def _png(figure: Figure) -> bytes:
    """A figure in so many colours as it takes to look the same, in half the bytes; chosen so that
    rare ones, which mean something, stay.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()  # once; `savefig` draws twice and encodes what is decoded here
    few = (
        Image.fromarray(np.asarray(canvas.buffer_rgba()))
        .convert("RGB")
        .quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    out = io.BytesIO()
    few.save(out, format="png", compress_level=6)  # 9 takes four times as long for a tenth of it
    return out.getvalue()
