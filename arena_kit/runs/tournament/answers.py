"""What the box of a report says of its run: who judged where, what was compared, for how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from arena_kit.judging.asking.cost import dollars
from arena_kit.judging.judges.base import Judge, PaidJudge
from arena_kit.judging.quality.measures import served_sentence
from arena_kit.reporting.tournament_tables import barred_text, missing_text
from arena_kit.runs.record.record import Record
from arena_kit.runs.tournament.plan import Plan

LEXICAL = (
    "The embedded judge compares words, not meaning: its verdicts show how the system works, not "
    "which answer an expert would prefer."
)
_SERVICE = "https://api.anthropic.com"


def is_lexical(model: str) -> bool:
    """Whether a model is the embedded judge."""
    return model.startswith("baseline/")


def asked_at(judge: Judge, replay_from: str = "") -> str:
    """Where a judge was asked."""
    if replay_from and not isinstance(judge, PaidJudge):
        return f"not asked: its verdicts in {replay_from} are repeated"
    if not isinstance(judge, PaidJudge):
        return "asked in this process"
    origin = judge.service.origin
    return f"asked at the service, {origin}" if origin == _SERVICE else f"asked at {origin}"


def compared(plan: Plan) -> str:
    """What the judge actually compared."""
    entrants = ", ".join(sorted(plan.tournament.entrants))
    if is_lexical(plan.judge.model):
        return f"the words of two responses each, of {entrants}; it reads no rubric"
    rubrics = ", ".join(f"{r.dimension} v{r.version}" for r in plan.material.rubrics.values())
    return f"two responses each, of {entrants}, in both orders, by the rubrics {rubrics}"


def of_run(record: Record) -> dict[str, str]:
    """Which run this is, and when it began."""
    began = str(record.read()["started_at"]).replace("T", " ").removesuffix("Z")
    return {"run": record.path.name, "begun": f"{began} UTC"}


def verdicts_status(counts: Mapping[str, Mapping[str, int]]) -> str:
    """How many verdicts there are, and what became of those that cannot be used."""
    totals: dict[str, int] = {}
    for by_status in counts.values():
        for status, n in by_status.items():
            totals[status] = totals.get(status, 0) + n
    lost = ", ".join(f"{n:,} {status}" for status, n in totals.items() if n and status != "ok")
    usable = f"{totals.get('ok', 0):,} of {sum(totals.values()):,} verdicts can be used"
    return f"incomplete, {usable} ({lost})" if lost else f"complete, {usable}"


def left_out(manifest: Mapping[str, Any]) -> list[str]:
    """What a tournament did without: responses that are missing, battles of the judge's own
    family, pairs whose two orders disagree.
    """
    dropped, counts = manifest["dropped"], manifest.get("counts") or {}
    lost = missing_text(dropped["missing_responses"], dropped["prompts"], dropped["pairs"])
    settled = (counts.get("judgments") or {}).values()
    twice = sum(each.get("inconsistent", 0) for each in settled)
    pairs = sum(sum(each.values()) for each in settled)
    flips = f"{twice:,} of {pairs:,} pairs are inconsistent and count for nobody." if twice else ""
    barred = barred_text(dropped.get("own_family", {}))
    return [sentence for sentence in (lost, barred, flips) if sentence]


def cost_text(cost: Mapping[str, Any]) -> str:
    """What a run paid."""
    usd, unknown = cost.get("usd_spent") or 0.0, cost.get("usd_unknown") or 0.0
    aside = f", and about {dollars(unknown)} not told by the service" if unknown else ""
    saved = cost.get("usd_saved_by_cache") or 0.0
    had = f"; answers from the ledger had cost {dollars(saved)}" if saved else ""
    return (dollars(usd) if usd else "nothing") + aside + had


def caveats(plan: Plan, manifest: Mapping[str, Any]) -> list[str]:
    """What not to conclude from this run."""
    params, told = plan.params, []
    if is_lexical(plan.judge.model):
        told.append(LEXICAL)
    if params.judge == "anthropic" and not asked_at(plan.judge).endswith(_SERVICE):
        told.append("The answers come from another address than the service's own.")
    if params.only_entrant:
        told.append(f"Only battles of {params.only_entrant} were judged.")
    if params.limit_pairs:
        told.append(f"Judging was cut short (limit_pairs {params.limit_pairs}).")
    if len(plan.prompts) < len(plan.bank):
        told.append(f"{len(plan.prompts)} of {len(plan.bank)} prompts were judged, not the bank.")
    if served := served_sentence(manifest.get("served_by_others") or {}):
        told.append(served)
    if (manifest.get("cost") or {}).get("over_cap"):
        told.append("The run cost more than max_cost_usd: answers were longer than forecast.")
    return told


def joined(sentences: Sequence[str]) -> str:
    """Sentences as one value, or that there is nothing."""
    return " ".join(sentences) or "nothing"
