"""Simulated arenas: how the policy fares against the scheme before it, as frames, words, a picture.

`looks_frame` has a row per system, seed and checkpoint, `metrics_frame` one per system and seed.
The baseline knows no RD or label: both are computed in its shadow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arena_kit.judging.quality.estimates import t_quantile
from arena_kit.matchmaking.simulation import CLAIM_MARGIN, Duel
from arena_kit.policy.constants import Policy
from arena_kit.reporting import figures as fig

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Seeds of which the exposure promise holds; the lanes draw at random, so no bound is certain.
_FAIR_SEEDS = 0.95
_BAND = (10, 90)  # percentiles of the seeds that bands span
_OF_ALL_VOTES = ("bradley_terry_correlation", "bradley_terry_order_accuracy")
_SYSTEMS = {"v2": ("policy v2", fig.ACCENT), "baseline": ("baseline", fig.WARM)}


class Metric(NamedTuple):
    """How a metric of a run is named and written; `better` is 1 where more is, -1 where less is."""

    label: str
    text: str = "{:.1%}"
    better: int = 1


#: *At the end* is one noisy moment; *on the way* is the mean of all checkpoints.
METRICS = {
    "correlation": Metric("rank correlation, at the end", "{:.3f}"),
    "correlation_on_the_way": Metric("rank correlation, on the way", "{:.3f}"),
    "order_accuracy": Metric("top pairs in order, at the end"),
    "order_accuracy_on_the_way": Metric("top pairs in order, on the way"),
    "bradley_terry_correlation": Metric("Bradley–Terry: rank correlation", "{:.3f}"),
    "bradley_terry_order_accuracy": Metric("Bradley–Terry: top pairs in order"),
    "exposure_deviation": Metric("largest deviation from exposure target", better=-1),
    "coverage_mean": Metric("prompt coverage, mean"),
    "coverage_least": Metric("prompt coverage, least"),
    "adjacent_share": Metric("adjacent contenders with enough votes"),
    "median_rd": Metric("median RD", "{:.1f}", 0),
    "stable_at": Metric("rules kept: votes until officially stable", "{:.0f}", -1),
    "false_claims": Metric(f"rules kept: claims false by over {CLAIM_MARGIN:g} points", better=-1),
    "strictly_false_claims": Metric("rules kept: claims false by any amount", better=-1),
    "order_settled": Metric("order decided: adjacent pairs of the top, at the end"),
    "order_settled_by_votes": Metric("the same in Bradley–Terry order"),
    "false_orders": Metric("order decided: looks with a false one", better=-1),
    "false_order_seasons": Metric("order decided: seasons with a false one", better=-1),
    "stable_badges": Metric("badge Stable: models, at the end", "{:.1f}"),
    "false_badges": Metric("badge Stable: share of false ones", better=-1),
}


def looks_frame(duels: Sequence[Duel]) -> pd.DataFrame:
    """Every checkpoint of every run, with whether what it claims of either kind is false: 0 or 1,
    NaN where nothing is claimed.
    """
    import pandas as pd

    looks = pd.DataFrame(
        {"system": system, "seed": seed, **at}
        for seed, duel in enumerate(duels)
        for system, run in duel._asdict().items()
        for at in run.checkpoints
    ).astype(dict.fromkeys(("inversion", *_OF_ALL_VOTES), float))
    claimed = looks["official"]
    return looks.assign(
        false_claim=(looks["inversion"] > CLAIM_MARGIN).where(claimed).astype(float),
        strictly_false_claim=(looks["inversion"] > 0).where(claimed).astype(float),
        false_order=(looks["wrong"] + looks["apart"] > 0)
        .where(looks["decided"] + looks["equivalent"] > 0)
        .astype(float),
    )


def metrics_frame(looks: pd.DataFrame) -> pd.DataFrame:
    """A row per system and seed and a column per metric, NaN where a run does not have it."""
    keys = ["system", "seed"]
    runs = looks.groupby(keys)
    end = runs.tail(1).set_index(keys)
    return end.assign(
        correlation_on_the_way=runs["correlation"].mean(),
        order_accuracy_on_the_way=runs["order_accuracy"].mean(),
        stable_at=looks[looks["official"]].groupby(keys)["votes"].min(),
        false_claims=runs["false_claim"].mean(),
        strictly_false_claims=runs["strictly_false_claim"].mean(),
        order_settled=end["settled"] / end["neighbours"],
        order_settled_by_votes=end["settled_by_votes"] / end["neighbours"],
        false_orders=runs["false_order"].mean(),
        false_order_seasons=runs["false_order"].max().fillna(0.0),
        stable_badges=end["stable"],
        false_badges=runs["wrongly_stable"].sum() / runs["stable"].sum(),
    )[list(METRICS)].astype(float)


def summary_frame(metrics: pd.DataFrame) -> pd.DataFrame:
    """A row per metric: mean, SD and range of each system over seeds, and policy minus baseline
    over the seeds in which both have it, with half the width of its 95 % interval (Student's t).
    """
    import pandas as pd

    names = {"mean": "mean", "std": "sd", "min": "least", "max": "most", "count": "seeds"}
    runs = {system: pd.DataFrame(metrics.loc[system]) for system in _SYSTEMS}
    parts = {s: frame.agg(list(names)).T.rename(columns=names) for s, frame in runs.items()}
    gap = runs["v2"] - runs["baseline"]
    n, higher = gap.count(), (runs["v2"] > runs["baseline"]).sum()
    half = [t_quantile(k - 1) * sd / sqrt(k) if k > 1 else None
            for k, sd in zip(n, gap.std(), strict=True)]  # fmt: skip
    apart = pd.DataFrame({"mean": gap.mean(), "half": half, "seeds": n, "higher": higher})
    apart["clear"] = (n > 2) & (apart["mean"].abs() > apart["half"].astype(float))
    return pd.concat(parts | {"difference": apart}, axis=1)


def summary(duels: Sequence[Duel]) -> dict[str, Any]:
    """Every metric over the seeds for each system, and how far they are apart, for JSON."""
    import pandas as pd

    frame = summary_frame(metrics_frame(looks_frame(duels))).astype(object)
    known = frame.where(frame.notna(), None)
    parts = (*_SYSTEMS, "difference")
    return {part: pd.DataFrame(known[part]).to_dict("index") for part in parts}


def table_rows(duels: Sequence[Duel]) -> list[dict[str, str | None]]:
    """Every metric: policy and baseline (mean ± SD over seeds), and the difference."""
    values = summary(duels)
    return [
        {
            "what": metric.label,
            **{label: _with_spread(metric, values[s][key], "sd")
               for s, (label, _) in _SYSTEMS.items()},
            "difference (95 %)": _difference_text(metric, values["difference"][key]),
        }
        for key, metric in METRICS.items()
    ]  # fmt: skip


def _with_spread(metric: Metric, values: Mapping[str, Any], spread: str) -> str | None:
    if values["mean"] is None:
        return None
    mean = metric.text.format(values["mean"])
    return mean if values[spread] is None else f"{mean} ± {metric.text.format(values[spread])}"


def _difference_text(metric: Metric, gap: Mapping[str, Any]) -> str | None:
    if gap["mean"] == gap["half"] == 0:
        return "none"
    signed = metric._replace(text=metric.text.replace("{:", "{:+"))
    text = _with_spread(signed, gap, "half")
    if text is None or gap["half"] is None:
        return text
    verdict = "" if gap["clear"] else " unclear"
    if gap["clear"] and metric.better:
        verdict = " better" if gap["mean"] * metric.better > 0 else " worse"
    return text.replace("± +", "± ") + verdict


def promises(policy: Policy, duels: Sequence[Duel]) -> list[dict[str, Any]]:
    """The guarantees of the policy, beside the worst seed."""
    runs, shares = [duel.v2 for duel in duels], policy.lane_shares
    off = [abs(share - shares[lane]) for run in runs for lane, share in run.drawn.items()]
    left = [abs(run.left - 0.5) for run in runs]
    ends = [run.checkpoints[-1] for run in runs]
    exposure = [end["exposure_deviation"] for end in ends]
    rule, tolerance = policy.publication, policy.exposure.tolerance
    fair = fmean(each <= tolerance + 1e-9 for each in exposure)
    adjacent = fmean(end["adjacent_share"] for end in ends)
    coverage = min(end["coverage_mean"] for end in ends)
    rows = (
        ("largest deviation of lane shares from weights", max(off), 0.02, -1),
        ("largest deviation of left wins from 50 %", max(left), 0.015, -1),
        ("largest deviation from exposure target, last window", max(exposure), tolerance, -1),
        ("share of seeds within that bound", fair, _FAIR_SEEDS, 1),
        ("adjacent contenders with enough votes, mean of seeds", adjacent, rule.pair_share, 1),
        ("mean prompt coverage, at least", coverage, rule.prompt_coverage, 1),
    )
    return [
        {"promise": text, "value": value, "bound": bound, "met": value * s >= bound * s - 1e-9}
        for text, value, bound, s in rows
    ]


def sentence(duels: Sequence[Duel], policy: Policy) -> str:
    """How the comparison of the orders falls, whichever way."""
    values, votes = summary(duels), duels[0].v2.checkpoints[-1]["votes"]
    parts = {
        "order_accuracy_on_the_way": f"the true top {_top_size(duels, policy)}",
        "correlation_on_the_way": "all models",
    }
    fares = " and ".join(_fares(key, values, what) for key, what in parts.items())
    return f"On average over all measurements up to {votes} votes, the policy {fares}."


def _top_size(duels: Sequence[Duel], policy: Policy) -> int:
    """How many models the true top has: the contender band, or all there are."""
    return min(policy.contenders.band, int(duels[0].v2.checkpoints[-1]["models"]))


def _fares(key: str, values: Mapping[str, Any], what: str) -> str:
    gap, metric = values["difference"][key], METRICS[key]
    means = " against ".join(metric.text.format(values[s][key]["mean"]) for s in _SYSTEMS)
    clear = "better" if gap["mean"] > 0 else "worse"
    how = clear if gap["clear"] else "not significantly better or worse"
    return f"orders {what} {how} than the baseline ({means})"


@fig.plot("against_votes", "Accuracy, exposure and claims against votes")
def against_votes(duels: Sequence[Duel], policy: Policy) -> Figure:
    """What both systems reach with how many votes, and what they claim of it."""
    looks, top = looks_frame(duels), _top_size(duels, policy)
    figure, axes = fig.panels_of(
        9, 3.1, 4, "Accuracy, exposure and claims: policy and earlier scheme", most=2
    )
    _lines(axes[0], looks, "order_accuracy", f"Is the true top {top} in order?",
           "share of its pairs in the right order")  # fmt: skip
    _lines(axes[1], looks, "exposure_deviation", "Is exposure on target?",
           "largest deviation (dotted: tolerance)")  # fmt: skip
    axes[1].axhline(policy.exposure.tolerance, color=fig.SOFT, linewidth=1, linestyle=":")
    _lines(axes[2], looks, "official", "When is it “officially stable”?", "share of seeds")
    _false_claims(axes[3], looks)
    fig.legend_below(figure, *axes[0].get_legend_handles_labels(), columns=2)
    return figure


def _by_votes(looks: pd.DataFrame, value: str, system: str) -> pd.DataFrame:
    """A row per number of votes and a column per seed."""
    own = looks[looks["system"] == system]
    return own.pivot(index="votes", columns="seed", values=value).astype(float)


def _lines(ax: Axes, looks: pd.DataFrame, value: str, title: str, label: str) -> None:
    """The mean over seeds against votes, with a band that most seeds lie in."""
    for system, (name, colour) in _SYSTEMS.items():
        table = _by_votes(looks, value, system)
        if value != "official":
            low, high = np.percentile(table, _BAND, axis=1)
            ax.fill_between(table.index, low, high, color=colour, alpha=0.15, linewidth=0)
        ax.plot(table.index, table.mean(axis=1), color=colour, linewidth=1.8,
                label=f"{name}: mean of {table.shape[1]} seeds")  # fmt: skip
    _dress(ax, title, label)


def _false_claims(ax: Axes, looks: pd.DataFrame) -> None:
    """Share of false claims up to each checkpoint, all seeds together."""
    kinds = {"false_claim": "-", "strictly_false_claim": ":", "false_order": "--"}
    for system, (_, colour) in _SYSTEMS.items():
        for value, style in kinds.items():
            table = _by_votes(looks, value, system)
            claimed, wrong = table.count(axis=1).cumsum(), table.sum(axis=1).cumsum()
            ax.plot(table.index, wrong / claimed, style, color=colour, linewidth=1.8)
    ax.set_ylim(-0.02, 1.05)
    ax.annotate(
        f"rules kept, solid: by over {CLAIM_MARGIN:g} points,\ndotted: at all; "
        "dashed: order decided",
        (0.03, 0.06), xycoords="axes fraction", fontsize=8, color=fig.SOFT,
    )  # fmt: skip
    _dress(ax, "How many claims are false?", "share of claims so far")


def _dress(ax: Axes, title: str, label: str) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    ax.set(title=title, ylabel=label, xlabel="votes")
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.grid(axis="y", color=fig.LINE, linewidth=0.6)
