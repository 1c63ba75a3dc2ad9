"""Simulated arenas: how the policy fares against the scheme before it, in numbers and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from arena_kit.judging.quality.estimates import t_quantile
from arena_kit.matchmaking.accuracy import CLAIM_MARGIN, Duel, Run
from arena_kit.policy.constants import Phase, Policy
from arena_kit.policy.feasibility import feasibility

#: Seeds of which the exposure promise holds; the lanes draw at random, so no bound is certain.
_FAIR_SEEDS = 0.95


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a run: how it is called, read and written; `better` is 1 where more is."""

    key: str
    label: str
    of: Callable[[Run], float | None]
    text: str = "{:.3f}"
    better: int = 0


#: *At the end* is one noisy moment; *on the way* is the mean of all checkpoints. Bradley–Terry
#: fits all votes at once. The baseline knows no RD or label: both are computed in its shadow.
METRICS = (
    Metric("correlation", "rank correlation, at the end",
           lambda run: run.published(run.end).correlation, "{:.3f}", 1),
    Metric("correlation_on_the_way", "rank correlation, on the way",
           lambda run: fmean(run.published(c).correlation for c in run.checkpoints), "{:.3f}", 1),
    Metric("order_accuracy", "top pairs in order, at the end",
           lambda run: run.published(run.end).order_accuracy, "{:.1%}", 1),
    Metric("order_accuracy_on_the_way", "top pairs in order, on the way",
           lambda run: fmean(run.published(c).order_accuracy for c in run.checkpoints),
           "{:.1%}", 1),
    Metric("bradley_terry_correlation", "Bradley–Terry: rank correlation",
           lambda run: run.bradley_terry.correlation if run.bradley_terry else None, "{:.3f}", 1),
    Metric("bradley_terry_order_accuracy", "Bradley–Terry: top pairs in order",
           lambda run: run.bradley_terry.order_accuracy if run.bradley_terry else None,
           "{:.1%}", 1),
    Metric("exposure_deviation", "exposure off its due, at most",
           lambda run: run.end.exposure_deviation, "{:.1%}", -1),
    Metric("coverage_mean", "prompt coverage, mean",
           lambda run: run.end.coverage_mean, "{:.1%}", 1),
    Metric("coverage_least", "prompt coverage, least",
           lambda run: run.end.coverage_least, "{:.1%}", 1),
    Metric("adjacent_share", "adjacent contenders with the floor",
           lambda run: run.end.adjacent_share, "{:.1%}", 1),
    Metric("median_rd", "median RD",
           lambda run: run.end.median_rd, "{:.1f}"),
    Metric("stable_at", "rules kept: votes until officially stable",
           lambda run: run.stable_at, "{:.0f}", -1),
    Metric("false_claims", f"rules kept: claims false by over {CLAIM_MARGIN:g} points",
           lambda run: _share([claim.false for claim in run.claims]), "{:.1%}", -1),
    Metric("strictly_false_claims", "rules kept: claims false at all",
           lambda run: _share([claim.strictly_false for claim in run.claims]), "{:.1%}", -1),
    Metric("order_settled", "order decided: top neighbours, at the end",
           lambda run: _part(run.end.order.settled, run.end.order.neighbours)
           if run.end.order else None, "{:.1%}", 1),
    Metric("order_settled_by_votes", "the same in Bradley–Terry's own order",
           lambda run: _part(run.end.order.settled_by_votes, run.end.order.neighbours)
           if run.end.order else None, "{:.1%}", 1),
    Metric("false_orders", "order decided: looks with a false one",
           lambda run: _share([order.false for order in run.orders]), "{:.1%}", -1),
    Metric("false_order_seasons", "order decided: seasons with a false one",
           lambda run: float(any(order.false for order in run.orders)), "{:.1%}", -1),
    Metric("stable_badges", "badge Stable: models, at the end",
           lambda run: run.end.stable, "{:.1f}", 1),
    Metric("false_badges", "badge Stable: false ones, of all looks",
           lambda run: _part(sum(at.wrongly_stable for at in run.checkpoints),
                             sum(at.stable for at in run.checkpoints)), "{:.1%}", -1),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Policy minus baseline over the seeds in which both have the number.

    `half` is half the width of the 95 % interval of the mean (Student's t over seeds), None
    with a single seed.
    """

    mean: float
    half: float | None
    seeds: int
    higher: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves 0 out; two seeds may agree by chance."""
        return self.seeds > 2 and self.half is not None and abs(self.mean) > self.half


def difference(metric: Metric, duels: Sequence[Duel]) -> Difference | None:
    """How far apart the two systems are, compared seed by seed; None where they cannot be."""
    pairs = [(metric.of(duel.v2), metric.of(duel.baseline)) for duel in duels]
    gaps = [v2 - baseline for v2, baseline in pairs if v2 is not None and baseline is not None]
    if not gaps:
        return None
    n = len(gaps)
    half = t_quantile(n - 1) * stdev(gaps) / sqrt(n) if n > 1 else None
    return Difference(mean=fmean(gaps), half=half, seeds=n, higher=sum(gap > 0 for gap in gaps))


def spread(values: Sequence[float | None]) -> dict[str, float | int | None]:
    """Mean, standard deviation and range of those there are, and how many that is."""
    known = [float(value) for value in values if value is not None]
    return {
        "mean": fmean(known) if known else None,
        "sd": stdev(known) if len(known) > 1 else None,
        "least": min(known, default=None),
        "most": max(known, default=None),
        "seeds": len(known),
    }


def summary(duels: Sequence[Duel]) -> dict[str, Any]:
    """Every metric over the seeds, for each system, and how far they are apart."""
    apart = {metric.key: difference(metric, duels) for metric in METRICS}
    return {
        "v2": {m.key: spread([m.of(duel.v2) for duel in duels]) for m in METRICS},
        "baseline": {m.key: spread([m.of(duel.baseline) for duel in duels]) for m in METRICS},
        "difference": {
            key: None if gap is None else asdict(gap) | {"clear": gap.clear}
            for key, gap in apart.items()
        },
    }


def promises(policy: Policy, duels: Sequence[Duel]) -> list[dict[str, Any]]:
    """What the policy promises of its matchups, beside the worst seed."""
    runs = [duel.v2 for duel in duels]
    lanes = max(
        abs(share - policy.lane_shares[lane]) for run in runs for lane, share in run.drawn.items()
    )
    left = max(abs(run.left - 0.5) for run in runs)
    exposure = [run.end.exposure_deviation for run in runs]
    fair = fmean(each <= policy.exposure.tolerance + 1e-9 for each in exposure)
    adjacent = fmean(run.end.adjacent_share for run in runs)
    coverage = min(run.end.coverage_mean for run in runs)
    rule = policy.publication
    rows = (
        ("lane shares as drawn, off their weights at most", lanes, 0.02, -1),
        ("better model on the left, off one half at most", left, 0.015, -1),
        (
            "exposure in the last window, off its due at most",
            max(exposure),
            policy.exposure.tolerance,
            -1,
        ),
        ("seeds in which it lies within that bound, of all", fair, _FAIR_SEEDS, 1),
        ("adjacent contenders with the floor, mean of seeds", adjacent, rule.pair_share, 1),
        ("mean prompt coverage, at least", coverage, rule.prompt_coverage, 1),
    )
    return [
        {"promise": text, "value": value, "bound": bound,
         "met": value * sign >= bound * sign - 1e-9}
        for text, value, bound, sign in rows
    ]  # fmt: skip


def limits(policy: Policy, n_models: int, n_prompts: int) -> tuple[str, ...]:
    """What cannot be promised to so many models and prompts, and why."""
    return feasibility(replace(policy, phase=Phase.GOVERNANCE), n_models, n_prompts).reasons


def table_rows(duels: Sequence[Duel]) -> list[dict[str, str | None]]:
    """Every metric: policy and baseline (mean ± SD over seeds), and the difference."""
    values = summary(duels)
    return [
        {
            "what": metric.label,
            "policy v2": _with_spread(metric, values["v2"][metric.key]),
            "baseline": _with_spread(metric, values["baseline"][metric.key]),
            "difference (95 %)": _difference_text(metric, difference(metric, duels)),
        }
        for metric in METRICS
    ]


def sentence(duels: Sequence[Duel], policy: Policy) -> str:
    """How the comparison falls, whichever way."""
    by_key = {metric.key: metric for metric in METRICS}
    top = _fares(
        by_key["order_accuracy_on_the_way"], duels, f"the true top {top_size(duels, policy)}"
    )
    every = _fares(by_key["correlation_on_the_way"], duels, "all models")
    votes = duels[0].v2.end.votes
    return (
        f"On average of all measurements up to {votes} votes the policy {top} and {every}; "
        f"under it {_rules_kept(duels)}, and {_order_decided(duels)}."
    )


def _rules_kept(duels: Sequence[Duel]) -> str:
    """How often the label of a board that keeps the rules was false."""
    claims = [claim for duel in duels for claim in duel.v2.claims]
    if not claims:
        return "“officially stable” (rules kept) was never claimed"
    return (
        f"{sum(claim.false for claim in claims)} of {len(claims)} claims of “officially stable” "
        f"(rules kept) were false by more than {CLAIM_MARGIN:g} points and "
        f"{sum(claim.strictly_false for claim in claims)} at all"
    )


def _order_decided(duels: Sequence[Duel]) -> str:
    """How often what was called decided or equivalent was false."""
    orders = [order for duel in duels for order in duel.v2.orders]
    if not orders:
        return "no order was decided"
    false = sum(order.false for order in orders)
    return (
        f"{false} of {len(orders)} looks at decided orders had a false one among the top (of "
        f"{sum(order.claimed for order in orders):,} pairs "
        f"{sum(order.wrong + order.apart for order in orders):,})"
    )


def top_size(duels: Sequence[Duel], policy: Policy) -> int:
    """How many models the true top has: the contender band, or all there are."""
    return min(policy.contenders.band, duels[0].v2.end.models)


def _fares(metric: Metric, duels: Sequence[Duel], what: str) -> str:
    gap = difference(metric, duels)
    values = " against ".join(
        metric.text.format(fmean(float(metric.of(run) or 0.0) for run in runs))
        for runs in ([duel.v2 for duel in duels], [duel.baseline for duel in duels])
    )
    if gap is None or not gap.clear:
        return f"orders {what} neither clearly better nor worse than the baseline ({values})"
    return f"orders {what} {'better' if gap.mean > 0 else 'worse'} than the baseline ({values})"


def _with_spread(metric: Metric, values: Mapping[str, Any]) -> str | None:
    if values["mean"] is None:
        return None
    mean = metric.text.format(values["mean"])
    return mean if values["sd"] is None else f"{mean} ± {metric.text.format(values['sd'])}"


def _difference_text(metric: Metric, gap: Difference | None) -> str | None:
    if gap is None:
        return None
    mean = metric.text.replace("{:", "{:+").format(gap.mean)
    if gap.half is None:
        return mean
    if gap.mean == gap.half == 0:
        return "none"
    verdict = "" if gap.clear else "unclear"
    if gap.clear and metric.better:
        verdict = "better" if gap.mean * metric.better > 0 else "worse"
    return f"{mean} ± {metric.text.format(gap.half)} {verdict}".rstrip()


def _share(outcomes: Sequence[bool]) -> float | None:
    return _part(sum(outcomes), len(outcomes))


def _part(some: int, all_: int) -> float | None:
    return some / all_ if all_ else None
