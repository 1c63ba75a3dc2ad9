"""What a tournament says of itself: in words for its report, in plain values for its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from arena_kit.files import file_hash
from arena_kit.judging.asking.cost import dollars
from arena_kit.judging.judges.base import Judge, PaidJudge
from arena_kit.judging.pairs.prompts import responses_file
from arena_kit.judging.quality.measures import served_sentence
from arena_kit.reporting.tournament_tables import barred_text, missing_text
from arena_kit.runs.record.record import Record
from arena_kit.runs.settings.parameters import RunParams
from arena_kit.runs.tournament.plan import LEXICAL, Plan, is_lexical, prompts_text

_SERVICE = "https://api.anthropic.com"


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
    aside = f", and about {dollars(unknown)} not sentences by the service" if unknown else ""
    saved = cost.get("usd_saved_by_cache") or 0.0
    had = f"; answers from the ledger had cost {dollars(saved)}" if saved else ""
    return (dollars(usd) if usd else "nothing") + aside + had


def caveats(plan: Plan, manifest: Mapping[str, Any]) -> list[str]:
    """What not to conclude from this run."""
    params, settings, sentences = plan.params, plan.tournament.judge, []
    if is_lexical(plan.judge.model):
        sentences.append(LEXICAL)
    if params.judge == "anthropic" and not asked_at(plan.judge).endswith(_SERVICE):
        sentences.append("The answers come from another address than the service's own.")
    if settings.only_entrant:
        sentences.append(f"Only battles of {settings.only_entrant} were judged.")
    if isinstance(params, RunParams) and params.limit_pairs:
        sentences.append(f"Judging was cut short (limit_pairs {params.limit_pairs}).")
    if len(plan.prompts) < len(plan.bank):
        sentences.append(
            f"{len(plan.prompts)} of {len(plan.bank)} prompts were judged, not the bank."
        )
    if served := served_sentence(manifest.get("served_by_others") or {}):
        sentences.append(served)
    if (manifest.get("cost") or {}).get("over_cap"):
        sentences.append("The run cost more than max_cost_usd: answers were longer than forecast.")
    return sentences


def run_facts(plan: Plan, record: Record) -> dict[str, str]:
    """By whom, what, when, on what and for how much, of a tournament that was judged."""
    manifest = record.read()
    recording = plan.tournament.judge.replay_from if plan.params.judge == "replay" else ""
    return {
        "judge": f"{plan.judge.model}, {asked_at(plan.judge, recording)}",
        "compared": compared(plan),
        "prompts": prompts_text(plan),
        "status": verdicts_status(manifest["counts"]["verdicts"]),
        "left out": " ".join(left_out(manifest)) or "nothing",
        "cost": cost_text(manifest["cost"]),
        **record.facts,
    }


def manifest_facts(plan: Plan) -> dict[str, Any]:
    """What the manifest says of a plan, with hashes of all that is read."""
    return _judged(plan) | _rated(plan)


def _judged(plan: Plan) -> dict[str, Any]:
    tournament, judge, labels = plan.tournament, plan.judge, plan.tournament.judge.labels
    folder = plan.files.responses
    return {
        "tournament": tournament.model_dump(mode="json"),
        "judge": {"model": judge.model, "settings": dict(judge.settings)},
        "labels": labels and {"file": str(labels), "sha256": file_hash(plan.root / labels)},
        "config_path": str(plan.params.tournament),
        "judge_model": judge.model,
        "bank_size": len(plan.bank),
        "selected_prompt_count": len(plan.prompts),
        "entrants": sorted(tournament.entrants),
        "dimensions": list(tournament.dimensions),
        "prompt_set": plan.prompt_set(),
        "responses": {e: file_hash(responses_file(folder, e)) for e in tournament.entrants},
        "rubrics": {
            name: {"version": rubric.version, "sha256": rubric.digest}
            for name, rubric in plan.material.rubrics.items()
        },
        "dropped": {
            "missing_responses": [list(cell) for cell in plan.pairing.missing],
            "prompts": list(plan.pairing.dropped_prompts),
            "pairs": plan.pairing.dropped_pairs,
            "own_family": plan.pairing.barred,
        },
    }


def _rated(plan: Plan) -> dict[str, Any]:
    method, subset = plan.tournament.elo.method(), plan.params.seed
    return {
        "n_perms": method.n_perms,
        "shuffle_seed": method.seed,
        "pilot_seed": subset,
        "seeds": {"shuffle": method.seed, "subset": subset},
        "rating": {"method": "permutation-elo", "settings": asdict(method)},
    }
