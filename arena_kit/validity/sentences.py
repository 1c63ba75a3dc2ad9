"""The weekly validity report (12) in words: a sentence for each of its checks."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import numpy as np

from arena_kit.rating.base import some
from arena_kit.validity.leaderboard import Leaderboard
from arena_kit.validity.weekly import Validity


def order_note(board: Leaderboard) -> str:
    """That ranks here are not those of the board; empty where they are."""
    if board.policy.phase.orders_by == "conservative":
        return ""
    return "Ranks in this report are by conservative score; the published order is legacy Elo's."


def rules(report: Validity) -> str:
    """What the board may be called by the rules it keeps, and what a week before (10)."""
    now, before = report.now.status, report.before
    if before is None:
        return f"{now.sentence}."
    was = before.status
    if was.status is now.status:
        return f"{now.sentence}. It was {was.status} in the comparison week, too."
    return f"{now.sentence}. In the comparison week it was {was.sentence}."


def order(report: Validity) -> str:
    """What the votes decide about the order of the top, now and a week before."""
    now, before = report.now.order_decided, report.before
    if before is None:
        return f"{_upper(now.sentence)}."
    return f"{_upper(now.sentence)}. In the comparison week: {before.order_decided.counts}."


def fairness(report: Validity) -> str:
    """Coverage fairness, judged against the lane-adjusted target."""
    rows, rule = report.now.fairness, report.now.policy.exposure
    outside = [
        f"{row.model} {100 * row.deviation:+.0f} %"
        for row in sorted(rows, key=lambda row: -abs(row.deviation or 0))
        if not row.within and row.deviation is not None
    ]
    slack = f"{100 * rule.tolerance:g} %"
    equal = sum(row.within_equal for row in rows)
    return (
        f"{len(rows) - len(outside)} of {len(rows)} models were shown within {slack} of their "
        f"lane-adjusted target in the last {report.now.coverage.matchups} matchups, and {equal} "
        f"within {slack} of an equal share"
        f"{'; outside: ' + some(outside, 8) if outside else ''}."
    )


def prompts(report: Validity) -> str:
    """How equally prompts are covered."""
    shares = [row.coverage for row in report.prompts]
    top = [row.target for row in report.prompts if row.contender]
    coverage, rule = report.now.coverage, report.now.policy.prompts
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    spread = f"is {low} %" if low == high else f"lies between {low} and {high} %"
    cells = coverage.by_prompt[np.ix_(coverage.enabled, coverage.active)]
    return (
        f"Prompt coverage ({rule.floor} decisive votes or more on a prompt) {spread}; contenders "
        f"have the top-band target of {rule.top_target} on {100 * float(np.mean(top)):.0f} % of "
        f"prompts; {int((cells == 0).sum()):,} of {cells.size:,} model-prompt cells have no "
        "decisive vote."
    )


def pairs(report: Validity) -> str:
    """Pair completeness of the contender band."""
    rule = report.now.policy.pairs
    met = sum(pair.meets_floor for pair in report.pairs)
    sentence = (
        f"{met} of {len(report.pairs)} adjacent contender pairs have the floor of {rule.votes} "
        f"decisive votes on {rule.prompts} prompts"
    )
    if report.before is None:
        return f"{sentence}."
    then = report.before.coverage.adjacent(report.before.band.models)
    had = sum(pair.meets_floor for pair in then)
    return f"{sentence}; of the pairs adjacent in the comparison week, {had} of {len(then)} had it."


def confidence(report: Validity) -> str:
    """Confidence stability, and what RD cannot say."""
    top = report.confidence[: report.now.policy.publication.top]
    rd = _median([row.rd for row in top], [row.rd_before for row in top])
    se = _median([row.se for row in top], [row.se_before for row in top])
    return (
        f"Median RD of the top {len(top)} is {rd}; it stops falling near "
        f"{report.feasibility.settled_rd:.1f} whatever the evidence. How sure the evidence makes a "
        f"rating is its Bradley–Terry standard error: the median is {se}."
    )


def churn(report: Validity) -> str:
    """Who changed places at the top."""
    return report.note if report.churn is None else report.churn.sentence


def sentences(report: Validity) -> dict[str, str]:
    """The report in a sentence each (12)."""
    return {
        "Rules kept": rules(report),
        "Order decided": order(report),
        "Coverage fairness": fairness(report),
        "Prompt fairness": prompts(report),
        "Pair completeness": pairs(report),
        "Confidence stability": confidence(report),
        "Top-rank churn": churn(report),
        "Quality checks due": f"{', '.join(each.model for each in report.now.checks) or 'none'}.",
    }


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _median(now: list[float | None] | list[float], before: list[float | None]) -> str:
    known = [value for value in now if value is not None]
    then = [value for value in before if value is not None]
    if not known:
        return "unknown"
    was = f" ({median(then):.1f} in the comparison week)" if then else ""
    return f"{median(known):.1f}{was}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One objective; `met` is None where the votes cannot tell. `rule` is what decides."""

    objective: str
    met: bool | None
    why: str
    rule: str


def objectives(report: Validity) -> tuple[Objective, ...]:
    """What the policy is to achieve, and whether this arena has it."""
    return _robust(report), _compared(report), _prompts(report), _visible(report)


def verdict(judged: tuple[Objective, ...]) -> str:
    """How many objectives are met, in a sentence."""
    met = sum(each.met is True for each in judged)
    unknown = sum(each.met is None for each in judged)
    more = f", {unknown} cannot be told" if unknown else ""
    return f"{met} of {len(judged)} objectives are met{more}."


def _robust(report: Validity) -> Objective:
    swapped = report.churn is not None and report.churn.swaps_inside > 0
    return Objective(
        objective="Top ranks are robust to sampling noise",
        met=report.now.order_decided.whole and not swapped,
        why=f"{_upper(report.now.order_decided.counts)}. {churn(report)}",
        rule="all neighbours at the top are decided or equivalent, and no two of the top changed "
        "order while their bands overlap",
    )


def _compared(report: Validity) -> Objective:
    share = report.now.policy.publication.pair_share
    met = sum(pair.meets_floor for pair in report.pairs)
    return Objective(
        objective="Nearby top models are compared enough",
        met=met >= share * len(report.pairs) - 1e-9 if report.pairs else None,
        why=pairs(report),
        rule=f"{100 * share:g} % of adjacent contenders have the floor",
    )


def _prompts(report: Validity) -> Objective:
    least = report.now.policy.established.prompt_coverage
    below = [row.model for row in report.prompts if row.coverage < least - 1e-9]
    some = f" Below {100 * least:g} %: {', '.join(below)}." if 0 < len(below) <= 6 else ""
    return Objective(
        objective="No model is advantaged by prompt luck",
        met=not below if report.now.coverage.active.any() else None,
        why=prompts(report) + some,
        rule=f"every model covers {100 * least:g} % of prompts",
    )


def _visible(report: Validity) -> Objective:
    rows, phase = report.now.rows, report.now.policy.phase
    n = sum(row.provisional for row in rows)
    shown = "RD, confidence and badges are shown to readers"
    if not phase.shows_diagnostics:
        shown = f"Nothing of it is shown to readers in phase {int(phase)}"
    return Objective(
        objective="Uncertainty is visible",
        met=phase.shows_diagnostics,
        why=f"{shown}; {n} of {len(rows)} models are provisional.",
        rule="readers see it, and provisional models are labelled",
    )
