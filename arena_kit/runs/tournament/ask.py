"""A plan's judge asked for a record: the asking itself, and what the record keeps of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from arena_kit.files import write_jsonl
from arena_kit.judging.asking.judge_pairs import Material, OfflineError, judge_pairs
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.quality.position import position_bias
from arena_kit.judging.quality.statuses import served_by_others, served_warning
from arena_kit.judging.verdicts.records import Judgment
from arena_kit.judging.verdicts.settle import settlement_counts, status_counts
from arena_kit.runs.record.artifacts import write_verdicts
from arena_kit.runs.record.progress import Progress
from arena_kit.runs.record.record import Record
from arena_kit.runs.tournament.plan import Plan


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
    """Write all verdicts into the record, and into its manifest what they add up to, with `more`;
    says where another model answered than the one that was asked.
    """
    record = progress.record
    if warning := served_warning(judgments):
        progress.say(warning)
    write_verdicts(record.path, judgments, list(plan.tournament.dimensions))
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
    """What a run that fails leaves: the verdicts that an offline one lacks (missing.jsonl) and,
    where it has a `ledger` to pay from, what it has spent.
    """
    if isinstance(error, OfflineError):
        missing = ({"request_id": request_id} for request_id in error.missing)
        write_jsonl(record.path / "missing.jsonl", missing)
    if ledger is not None:
        record.add_spent(ledger)
