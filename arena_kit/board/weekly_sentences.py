"""The weekly validity report (12) in words: a sentence for each of its checks."""

from __future__ import annotations

from statistics import median

import numpy as np

from arena_kit.board.weekly import Validity


def order_note(report: Validity) -> str:
    """That ranks here are not those of the board; empty where they are."""
    if report.now.policy.phase.orders_by == "conservative":
        return ""
    return "Ranks in this report are by conservative score; the published order is legacy Elo's."


def status(report: Validity) -> str:
    """What the board may be called, why, and what it was called a week before (10)."""
    now, before = report.now.status, report.before
    if before is None:
        return f"{now.sentence}."
    was = before.status
    if was.status is now.status:
        return f"{now.sentence}. It was {was.status} in the comparison week, too."
    return f"{now.sentence}. In the comparison week it was {was.sentence}."


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
        f"{'; outside: ' + _listed(outside) if outside else ''}."
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
    said = (
        f"{met} of {len(report.pairs)} adjacent contender pairs have the floor of {rule.votes} "
        f"decisive votes on {rule.prompts} prompts"
    )
    if report.before is None:
        return f"{said}."
    then = report.before.coverage.adjacent(report.before.band.models)
    had = sum(pair.meets_floor for pair in then)
    return f"{said}; of the pairs adjacent in the comparison week, {had} of {len(then)} had it."


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
        "Publication status": status(report),
        "Coverage fairness": fairness(report),
        "Prompt fairness": prompts(report),
        "Pair completeness": pairs(report),
        "Confidence stability": confidence(report),
        "Top-rank churn": churn(report),
        "Quality checks due": f"{', '.join(each.model for each in report.now.checks) or 'none'}.",
    }


def _listed(names: list[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _median(now: list[float | None] | list[float], before: list[float | None]) -> str:
    found = [value for value in now if value is not None]
    then = [value for value in before if value is not None]
    if not found:
        return "unknown"
    was = f" ({median(then):.1f} in the comparison week)" if then else ""
    return f"{median(found):.1f}{was}"
