"""What a tournament's run paid: in all, for each dimension, and as its manifest says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from arena_kit.judging.asking.cost import Spending
from arena_kit.judging.judges.base import BatchJudge, Price
from arena_kit.judging.quality.canaries.pairs import PREFIX
from arena_kit.judging.verdicts.records import Answer, Judgment
from arena_kit.runs.tournament.plan import Plan

#: What is told of the whole run, and not of a dimension.
_OF_THE_RUN = {"usd_unknown", "usd_saved_by_prompt_cache"}


def run_spending(plan: Plan, run: str) -> Spending | None:
    """What a run paid its judge; None for a judge that costs nothing."""
    if plan.price is None:
        return None
    return Spending.of(
        plan.ledger.paid(run),
        plan.price,
        batch=isinstance(plan.judge, BatchJudge),
        usd_unknown=plan.ledger.usd_unknown(run),
    )


def spending_by_dimension(
    plan: Plan, run: str, judgments: Sequence[Judgment]
) -> dict[str, Spending]:
    """The tokens and dollars of a run's answers on each dimension, on canaries and
    repeats; empty for a judge that takes no tokens.
    """
    if plan.price is None:
        return {}
    answers: dict[str, list[Answer]] = {dimension: [] for dimension in plan.tournament.dimensions}
    for answer in _made_now(plan, run, judgments, plan.price):
        answers.setdefault(_spent_on(answer.request_id), []).append(answer)
    batch = isinstance(plan.judge, BatchJudge)
    return {name: Spending.of(own, plan.price, batch=batch) for name, own in answers.items()}


def manifest_cost(plan: Plan, run: str, judgments: Sequence[Judgment]) -> dict[str, Any]:
    """What a run paid, and what answers from the ledger had cost when they were made."""
    verdicts = [verdict for judgment in judgments for verdict in judgment.verdicts]
    cost: dict[str, Any] = {
        "forecast": plan.forecast and plan.forecast.as_dict(),
        "usd_spent": plan.ledger.spent(run),
        "usd_saved_by_cache": sum(v.cost_usd for v in verdicts if v.cached),
    }
    spending = run_spending(plan, run)
    if spending is None:
        return cost
    return cost | {
        "usd_unknown": spending.usd_unknown,
        "over_cap": cost["usd_spent"] + spending.usd_unknown > plan.params.max_cost_usd,
        "answers_paid": spending.as_dict(),
        "attempts": plan.ledger.outcomes(run),
        "by_dimension": _token_use(plan, run, judgments),
    }


def _token_use(plan: Plan, run: str, judgments: Sequence[Judgment]) -> dict[str, Any]:
    reused = Counter(j.pair.dimension for j in judgments for v in j.verdicts if v.cached)
    return {
        dimension: {"from_ledger": reused[dimension]}
        | {name: value for name, value in spent.as_dict().items() if name not in _OF_THE_RUN}
        for dimension, spent in spending_by_dimension(plan, run, judgments).items()
    }


def _made_now(plan: Plan, run: str, judgments: Sequence[Judgment], price: Price) -> list[Answer]:
    """The answers that were made for a run: those it paid for, re-asked ones included, or, where
    nothing costs, those behind its verdicts.
    """
    if not price.free:
        return plan.ledger.paid(run)
    fresh = [v for j in judgments for v in j.verdicts if not v.cached]
    return [
        Answer(request_id=v.presentation.request_id, status=v.status, usage=v.usage) for v in fresh
    ]


def _spent_on(request_id: str) -> str:
    """What an answer was paid for: its dimension, canaries or repeats."""
    dimension, _, rest = request_id.partition("|")
    if "@" in rest.rpartition("#")[2]:
        return "repeats"
    return "canaries" if rest.startswith(PREFIX) else dimension
