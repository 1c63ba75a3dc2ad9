"""Pictures of simulated arenas. Titles ask the question that the picture answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from arena_kit.matchmaking.accuracy import CLAIM_MARGIN, Checkpoint, Duel, Run
from arena_kit.policy.constants import Policy
from arena_kit.reporting.figures import ACCENT, LINE, SOFT, WARM, panels_of, plot
from arena_kit.reporting.simulation import top_size

_BAND = (10, 90)  # percentiles of the seeds that bands span


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A question, what answers it at a checkpoint, and a bound that it is held to."""

    title: str
    label: str
    value: Callable[[Run, Checkpoint], float]
    percent: bool = True
    band: bool = True
    bound: float | None = None
    bound_text: str = ""


@plot("against_votes", "what votes buy")
def against_votes(duels: Sequence[Duel], policy: Policy) -> Figure:
    """What both systems reach with how many votes, and what they claim of it."""
    figure, axes = panels_of(
        13, 3.1, 9, "What do votes buy, under the policy and under the scheme before it?"
    )
    top = top_size(duels, policy)
    _ratings(axes[2], duels, f"Which rating orders the top {top} best at the end?")
    _claims(axes[8], duels, "How many claims are false?")
    for ax, panel in zip([*axes[:2], *axes[3:8]], _panels(policy, top), strict=True):
        _lines(ax, duels, panel)
    for ax in [*axes[:2], *axes[3:]]:
        _newcomers(ax, duels)
    _legend(axes[0], len(duels))
    return figure


def _panels(policy: Policy, top: int) -> tuple[Panel, ...]:
    rule = policy.publication
    return (
        Panel(title="Is the order of all models right?", label="rank correlation with the truth",
              value=lambda run, at: run.published(at).correlation, percent=False),
        Panel(title=f"Is the true top {top} in order?", label="share of its pairs ordered right",
              value=lambda run, at: run.published(at).order_accuracy),
        Panel(title="Is every model shown as often as due?", label="largest deviation, window",
              value=lambda _, at: at.exposure_deviation,
              bound=policy.exposure.tolerance, bound_text="tolerance"),
        Panel(title="Is every model tried on every prompt?", label="least prompt coverage",
              value=lambda _, at: at.coverage_least),
        Panel(title="Have neighbours at the top met enough?", label="adjacent pairs with the floor",
              value=lambda _, at: at.adjacent_share,
              bound=rule.pair_share, bound_text="needed for the label"),
        Panel(title="How sure does the rating say it is?", label="median RD",
              value=lambda _, at: at.median_rd, percent=False,
              bound=rule.median_rd, bound_text="allowed for the label"),
        Panel(title="When is it “officially stable”?", label="share of seeds",
              value=lambda _, at: float(at.official), band=False),
    )  # fmt: skip


def _systems(duels: Sequence[Duel]) -> tuple[tuple[str, str, list[Run]], ...]:
    return (
        ("policy v2", ACCENT, [duel.v2 for duel in duels]),
        ("baseline", WARM, [duel.baseline for duel in duels]),
    )


def _lines(ax: Axes, duels: Sequence[Duel], panel: Panel) -> None:
    """The mean over seeds against votes, with a band that most seeds lie in."""
    votes = [at.votes for at in duels[0].v2.checkpoints]
    if panel.bound is not None:
        ax.axhline(panel.bound, color=SOFT, linewidth=1, linestyle=":")
        box = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.5}
        ax.annotate(panel.bound_text, (votes[-1], panel.bound), (0, 3), ha="right", fontsize=8,
                    textcoords="offset points", color=SOFT, zorder=5, bbox=box)  # fmt: skip
    for _, colour, runs in _systems(duels):
        table = np.array([[panel.value(run, at) for at in run.checkpoints] for run in runs])
        if panel.band and len(runs) > 1:
            low, high = np.percentile(table, _BAND, axis=0)
            ax.fill_between(votes, low, high, color=colour, alpha=0.15, linewidth=0)
        ax.plot(votes, table.mean(axis=0), color=colour, linewidth=1.8)
    _dressed(ax, panel.title, panel.label, percent=panel.percent)


def _claims(ax: Axes, duels: Sequence[Duel], title: str) -> None:
    """Share of false claims up to each checkpoint, all seeds together."""
    votes = [at.votes for at in duels[0].v2.checkpoints]
    kinds: dict[str, Callable[[Checkpoint], bool | None]] = {
        "-": lambda at: at.claim.false if at.claim else None,
        ":": lambda at: at.claim.strictly_false if at.claim else None,
        "--": lambda at: at.order.false if at.order and at.order.claimed else None,
    }
    for _, colour, runs in _systems(duels):
        for style, is_false in kinds.items():
            ax.plot(votes, _false_share(runs, is_false), style, color=colour, linewidth=1.8)
    ax.set_ylim(-0.02, 1.05)
    ax.annotate(
        f"rules kept, solid: by over {CLAIM_MARGIN:g} points,\ndotted: at all; "
        "dashed: order decided",
        (0.03, 0.06), xycoords="axes fraction", fontsize=8, color=SOFT,
    )  # fmt: skip
    _dressed(ax, title, "share of claims so far", percent=True)


def _false_share(
    runs: Sequence[Run], is_false: Callable[[Checkpoint], bool | None]
) -> NDArray[np.float64]:
    """Of the looks so far that claimed something, the share of false ones; None claims nothing."""
    looks = [[is_false(at) for at in run.checkpoints] for run in runs]
    claimed = np.array([[look is not None for look in row] for row in looks]).sum(axis=0).cumsum()
    wrong = np.array([[look is True for look in row] for row in looks]).sum(axis=0).cumsum()
    share: NDArray[np.float64] = np.where(claimed > 0, wrong / np.maximum(1, claimed), np.nan)
    return share


def _ratings(ax: Axes, duels: Sequence[Duel], title: str) -> None:
    """Three ratings of the same votes, a dot per seed and a line at the mean."""
    kinds: dict[str, Callable[[Run], float | None]] = {
        "conservative": lambda run: run.end.conservative.order_accuracy,
        "Elo": lambda run: run.end.elo.order_accuracy,
        "Bradley–Terry": lambda run: (
            run.bradley_terry.order_accuracy if run.bradley_terry else None
        ),
    }
    for shift, (_, colour, runs) in zip((-0.14, 0.14), _systems(duels), strict=True):
        for place, value in enumerate(kinds.values()):
            shares = [each for run in runs if (each := value(run)) is not None]
            if shares:
                at = place + shift + np.linspace(-0.07, 0.07, len(shares))
                ax.plot(at, sorted(shares), "o", color=colour, alpha=0.35, markersize=4)
                ax.hlines(fmean(shares), place + shift - 0.11, place + shift + 0.11, color=colour,
                          linewidth=2.4)  # fmt: skip
    _dressed(ax, title, "share of its pairs ordered right", percent=True)
    ax.set_xticks(range(len(kinds)), kinds)
    ax.set_xlabel("rating of the same votes")


def _dressed(ax: Axes, title: str, label: str, *, percent: bool) -> None:
    ax.set(title=title, ylabel=label, xlabel="votes")
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(5))
    if percent:
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.grid(axis="y", color=LINE, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(length=0)


def _legend(ax: Axes, seeds: int) -> None:
    low, high = _BAND
    about = f"mean of {seeds} seeds, band: {high - low} % of them" if seeds > 1 else "one seed"
    for n, (text, colour) in enumerate(
        (("policy v2", ACCENT), ("baseline", WARM), (f"{about}; bars: newcomers", SOFT))
    ):
        ax.annotate(text, (0.98, 0.26 - 0.09 * n), xycoords="axes fraction", ha="right",
                    color=colour, fontweight="bold" if n < 2 else "normal",
                    fontsize=9.5 if n < 2 else 8)  # fmt: skip


def _newcomers(ax: Axes, duels: Sequence[Duel]) -> None:
    """A bar from the last measurement without a newcomer to the first with it."""
    points = duels[0].v2.checkpoints
    for before, after in pairwise(points):
        if after.models > before.models:
            ax.axvspan(before.votes, after.votes, color=LINE, alpha=0.5, linewidth=0, zorder=0)
    ax.set_xlim(0, 1.02 * points[-1].votes)
