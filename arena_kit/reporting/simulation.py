"""Simulated arenas: how the policy fares against the scheme before it, in words and a picture.

The baseline knows no RD or label: both are computed in its shadow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np

from arena_kit.judging.quality.estimates import t_quantile
from arena_kit.matchmaking.simulation import CLAIM_MARGIN, Duel, Run
from arena_kit.policy.constants import Policy
from arena_kit.reporting import figures as fig

#: Seeds of which the exposure promise holds; the lanes draw at random, so no bound is certain.
_FAIR_SEEDS = 0.95
_SYSTEMS = {"v2": "policy v2", "baseline": "baseline"}
_BAND = (10, 90)  # percentiles of the seeds that bands span
_PANELS: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "Rank correlation with the truth": lambda at: at["correlation"],
    "Pairs of the true top in order": lambda at: at["order_accuracy"],
    "Largest deviation from exposure target": lambda at: at["exposure_deviation"],
    "Prompt coverage, mean of models": lambda at: at["coverage_mean"],
    "Median RD": lambda at: at["median_rd"],
    "Officially stable, share of seeds": lambda at: at["official"],
    "False claims, share of seeds": lambda at: (at["inversion"] or 0.0) > CLAIM_MARGIN,
}


class Metric(NamedTuple):
    """How a metric of a run is named and written; `better` is 1 where more is, -1 where less is."""

    label: str
    text: str = "{:.1%}"
    better: int = 1


#: *At the end* is one noisy moment; *on the way* is the mean of all checkpoints.
METRICS = {
    "correlation_on_the_way": Metric("rank correlation, on the way", "{:.3f}"),
    "order_accuracy_on_the_way": Metric("top pairs in order, on the way"),
    "bradley_terry_order_accuracy": Metric("Bradley–Terry: top pairs in order, at the end"),
    "exposure_deviation": Metric("largest deviation from exposure target", better=-1),
    "coverage_mean": Metric("prompt coverage, mean"),
    "adjacent_share": Metric("adjacent contenders with enough votes"),
    "stable_at": Metric("rules kept: votes until officially stable", "{:.0f}", -1),
    "false_claims": Metric(f"rules kept: claims false by over {CLAIM_MARGIN:g} points", better=-1),
    "order_settled": Metric("order decided: adjacent pairs of the top, at the end"),
    "order_settled_by_votes": Metric("the same in Bradley–Terry order"),
    "false_orders": Metric("order decided: looks with a false one", better=-1),
    "stable_badges": Metric("badge Stable: models, at the end", "{:.1f}"),
    "false_badges": Metric("badge Stable: share of false ones", better=-1),
}


def metrics(run: Run) -> dict[str, Any]:
    """Every metric of one run; None where the run does not have it."""
    looks, end = run.checkpoints, run.checkpoints[-1]
    official = [at for at in looks if at["official"]]
    ordered = [at for at in looks if at["decided"] + at["equivalent"]]
    badges = sum(at["stable"] for at in looks)
    return {
        "correlation_on_the_way": _mean(at["correlation"] for at in looks),
        "order_accuracy_on_the_way": _mean(at["order_accuracy"] for at in looks),
        "bradley_terry_order_accuracy": end["bradley_terry_order_accuracy"],
        "exposure_deviation": end["exposure_deviation"],
        "coverage_mean": end["coverage_mean"],
        "adjacent_share": end["adjacent_share"],
        "stable_at": official[0]["votes"] if official else None,
        "false_claims": _mean(at["inversion"] > CLAIM_MARGIN for at in official),
        "order_settled": _ratio(end["settled"], end["neighbours"]),
        "order_settled_by_votes": _ratio(end["settled_by_votes"], end["neighbours"]),
        "false_orders": _mean(at["wrong"] + at["apart"] > 0 for at in ordered),
        "stable_badges": end["stable"],
        "false_badges": _ratio(sum(at["wrongly_stable"] for at in looks), badges),
    }


def summary(duels: Sequence[Duel]) -> dict[str, dict[str, dict[str, Any]]]:
    """Mean and SD of every metric over seeds, by system; and policy minus baseline over the seeds
    in which both have it, with half the width of its 95 % interval (Student's t).
    """
    v2, baseline = ([metrics(run) for run in runs] for runs in zip(*duels, strict=True))
    parts = {
        system: {name: _spread(row[name] for row in rows) for name in METRICS}
        for system, rows in (("v2", v2), ("baseline", baseline))
    }
    pairs = list(zip(v2, baseline, strict=True))
    gaps = {
        name: [a[name] - b[name] for a, b in pairs if None not in (a[name], b[name])]
        for name in METRICS
    }
    return parts | {"difference": {name: _difference(gap) for name, gap in gaps.items()}}


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return _ratio(sum(known), len(known))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _spread(values: Iterable[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    sd = stdev(known) if len(known) > 1 else None
    return {"mean": _mean(known), "sd": sd, "seeds": len(known)}


def _difference(gaps: Sequence[float]) -> dict[str, Any]:
    found, n = _spread(gaps), len(gaps)
    half = t_quantile(n - 1) * found["sd"] / sqrt(n) if n > 1 else None
    clear = n > 2 and half is not None and abs(found["mean"]) > half
    return {"mean": found["mean"], "half": half, "seeds": n, "clear": clear}


def table_rows(duels: Sequence[Duel]) -> list[dict[str, str | None]]:
    """Every metric: policy and baseline (mean ± SD over seeds), and the difference."""
    values = summary(duels)
    return [
        {
            "what": metric.label,
            **{label: _with_spread(metric.text, values[system][key], "sd")
               for system, label in _SYSTEMS.items()},
            "difference (95 %)": _difference_text(metric, values["difference"][key]),
        }
        for key, metric in METRICS.items()
    ]  # fmt: skip


def _with_spread(text: str, values: Mapping[str, Any], spread: str) -> str | None:
    if values["mean"] is None:
        return None
    width = "" if values[spread] is None else f" ± {text.format(values[spread])}"
    return f"{text.format(values['mean'])}{width}"


def _difference_text(metric: Metric, gap: Mapping[str, Any]) -> str | None:
    if gap["mean"] == gap["half"] == 0:
        return "none"
    text = _with_spread(metric.text.replace("{:", "{:+"), gap, "half")
    if text is None or gap["half"] is None:
        return text
    clear = "better" if gap["mean"] * metric.better > 0 else "worse"
    return f"{text.replace('± +', '± ')} {clear if gap['clear'] else 'unclear'}"


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
    values, end = summary(duels), duels[0].v2.checkpoints[-1]
    top = min(policy.contenders.band, end["models"])  # the contender band, or all there are
    parts = {"order_accuracy_on_the_way": f"the true top {top}",
             "correlation_on_the_way": "all models"}  # fmt: skip
    fares = " and ".join(_fares(key, values, what) for key, what in parts.items())
    return f"On average over all measurements up to {end['votes']} votes, the policy {fares}."


def _fares(key: str, values: Mapping[str, Any], what: str) -> str:
    gap, text = values["difference"][key], METRICS[key].text
    means = " against ".join(text.format(values[system][key]["mean"]) for system in _SYSTEMS)
    clear = "better" if gap["mean"] > 0 else "worse"
    how = clear if gap["clear"] else "not significantly better or worse"
    return f"orders {what} {how} than the baseline ({means})"


@fig.plot("against_votes", "Accuracy, exposure and claims against votes")
def against_votes(duels: Sequence[Duel], policy: Policy) -> fig.Figure:
    """What both systems reach with how many votes: the mean of the seeds, and where most lie."""
    title = "Accuracy, exposure and claims: policy and earlier scheme"
    figure, axes = fig.panels_of(2.6, len(_PANELS), title, most=2)
    for ax, (name, value) in zip(axes, _PANELS.items(), strict=True):
        for runs, label, ink in zip(
            zip(*duels, strict=True), _SYSTEMS.values(), (fig.ACCENT, fig.WARM), strict=True
        ):
            votes = [at["votes"] for at in runs[0].checkpoints]
            values = np.array([[value(at) for at in run.checkpoints] for run in runs], float)
            ax.fill_between(votes, *np.percentile(values, _BAND, axis=0), color=ink, alpha=0.15)
            ax.plot(votes, values.mean(axis=0), color=ink, label=f"{label}: mean of seeds")
        ax.set(title=name, xlabel="votes")
    axes[2].axhline(policy.exposure.tolerance, color=fig.SOFT, linewidth=1, linestyle=":")
    fig.legend_below(figure, *axes[0].get_legend_handles_labels(), columns=2)
    return figure
