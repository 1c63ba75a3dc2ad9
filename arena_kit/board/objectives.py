"""The four objectives of the policy (3), each with a verdict and why."""

from __future__ import annotations

from dataclasses import dataclass

from arena_kit.board import weekly_sentences
from arena_kit.board.weekly import Validity


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


def verdict(found: tuple[Objective, ...]) -> str:
    """How many objectives are met, in a sentence."""
    met = sum(each.met is True for each in found)
    unknown = sum(each.met is None for each in found)
    more = f", {unknown} cannot be told" if unknown else ""
    return f"{met} of {len(found)} objectives are met{more}."


def _robust(report: Validity) -> Objective:
    found = report.churn
    return Objective(
        objective="Top ranks are robust to sampling noise",
        met=None if found is None else not found.swaps_inside,
        why=weekly_sentences.churn(report),
        rule="no two models at the top changed order while their bands overlap",
    )


def _compared(report: Validity) -> Objective:
    share = report.now.policy.publication.pair_share
    met = sum(pair.meets_floor for pair in report.pairs)
    return Objective(
        objective="Nearby top models are compared enough",
        met=met >= share * len(report.pairs) - 1e-9 if report.pairs else None,
        why=weekly_sentences.pairs(report),
        rule=f"{100 * share:g} % of adjacent contenders have the floor",
    )


def _prompts(report: Validity) -> Objective:
    least = report.now.policy.established.prompt_coverage
    below = [row.model for row in report.prompts if row.coverage < least - 1e-9]
    some = f" Below {100 * least:g} %: {', '.join(below)}." if 0 < len(below) <= 6 else ""
    return Objective(
        objective="No model is advantaged by prompt luck",
        met=not below if report.now.coverage.active.any() else None,
        why=weekly_sentences.prompts(report) + some,
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
