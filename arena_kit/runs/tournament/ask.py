"""A plan's judge asked for a record: the asking itself, and what the record keeps of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from arena_kit.battles.write import write_battles
from arena_kit.files import write_jsonl
from arena_kit.judging.asking.cost import Spending
from arena_kit.judging.asking.judge_pairs import Material, OfflineError, judge_pairs
from arena_kit.judging.judges.base import BatchJudge
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.quality.canaries import PREFIX
from arena_kit.judging.quality.measures import position_bias, served_by_others, served_warning
from arena_kit.judging.verdicts.records import Answer, Judgment
from arena_kit.judging.verdicts.settle import settlement_counts, status_counts, to_battles
from arena_kit.runs.record.artifacts import write_verdicts
from arena_kit.runs.record.progress import Progress
from arena_kit.runs.record.record import Record
from arena_kit.runs.tournament.plan import Plan

#: Figures of a whole run, which no dimension has.
_OF_THE_RUN = {"usd_unknown", "usd_saved_by_prompt_cache"}


def ask_judge(
    plan: Plan,
    progress: Progress,
    pairs: Sequence[Pair],
    material: Material | None = None,
    *,
    prewarm: bool = True,
    repetition: int = 0,
) -> list[Judgment]:
    """Judgments of some pairs, from the ledger or asked for and paid by the run of `progress`.

    `material` is the plan's own unless another is given; without `prewarm` no request is sent
    ahead for the prompt cache, and a `repetition` has answers of its own.
    """
    options = plan.ask_options(progress.record.token, progress.say)
    return judge_pairs(
        pairs,
        material or plan.material,
        plan.judge,
        plan.ledger,
        offline=plan.params.offline and plan.params.judge != "replay",
        max_attempts=plan.tournament.judge.max_attempts,
        repetition=repetition,
        options=options if prewarm else replace(options, prewarm=False),
        on_progress=progress.show,
    )


def keep_judgments(
    plan: Plan, progress: Progress, judgments: Sequence[Judgment], **more: Any
) -> None:
    """Write all verdicts and battles into the record, and into its manifest what they add up to,
    with `more`; says where another model answered than the one that was asked.
    """
    record = progress.record
    if warning := served_warning(judgments):
        progress.say(warning)
    write_verdicts(record.path, judgments, list(plan.tournament.dimensions))
    write_battles(record.path / "battles.jsonl", to_battles(judgments))
    record.update(
        counts={
            "pairs": plan.pairing.counts(),
            "verdicts": status_counts(judgments),
            "judgments": settlement_counts(judgments),
        },
        position_bias={name: bias.as_dict() for name, bias in position_bias(judgments).items()},
        served_by_others=served_by_others(judgments),
        **more,
    )


def keep_failure(record: Record, error: BaseException, ledger: Ledger | None) -> None:
    """Keep of a run that fails the verdicts that an offline one lacks (missing.jsonl) and, where
    it has a `ledger` to pay from, what it has spent.
    """
    if isinstance(error, OfflineError):
        missing = ({"request_id": request_id} for request_id in error.missing)
        write_jsonl(record.path / "missing.jsonl", missing)
    if ledger is not None:
        record.add_spent(ledger)


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
    """The tokens and dollars of a run's answers on each dimension, on canaries and on repeats;
    empty for a judge that takes no tokens.

    These are the answers that the run paid for, re-asked ones included, or, where nothing costs,
    those behind its verdicts.
    """
    if plan.price is None:
        return {}
    made = plan.ledger.paid(run)
    if plan.price.free:
        fresh = [v for j in judgments for v in j.verdicts if not v.cached]
        made = [
            Answer(request_id=v.presentation.request_id, status=v.status, usage=v.usage)
            for v in fresh
        ]
    answers: dict[str, list[Answer]] = {dimension: [] for dimension in plan.tournament.dimensions}
    for answer in made:
        answers.setdefault(_purpose(answer.request_id), []).append(answer)
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


def _purpose(request_id: str) -> str:
    """What an answer was paid for: its dimension, canaries or repeats."""
    dimension, _, rest = request_id.partition("|")
    if "@" in rest.rpartition("#")[2]:
        return "repeats"
    return "canaries" if rest.startswith(PREFIX) else dimension
