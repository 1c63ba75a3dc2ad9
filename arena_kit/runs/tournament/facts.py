"""What a tournament says of itself: in words for its report, in plain values for its manifest."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from arena_kit.files import file_hash
from arena_kit.judging.pairs.prompts import responses_file
from arena_kit.judging.verdicts.settle import SHARES
from arena_kit.runs.record.record import Record
from arena_kit.runs.tournament import answers
from arena_kit.runs.tournament.plan import Plan

#: What a report says of graded verdicts.
_GRADED_SHARES = (
    "graded: "
    + ", ".join(f"{margin} counts {share:g} of a win" for margin, share in SHARES.items())
    + " (mean of both orders)"
)


def facts(plan: Plan) -> dict[str, str]:
    """What is judged by whom, in words: what is known before it is judged."""
    tournament, params = plan.tournament, plan.params
    method = tournament.elo.method()
    rubrics = ", ".join(f"{r.dimension} v{r.version}" for r in plan.material.rubrics.values())
    lexical = answers.is_lexical(plan.judge.model)
    only = f" of {params.only_entrant}" if params.only_entrant else ""
    canaries = len(plan.canaries.pairs) if plan.canaries else 0
    return {
        "tournament": tournament.name,
        "judge": plan.judge.model + (" (compares words, reads no rubric)" if lexical else ""),
        **({"judged again": plan.rejudged.fact} if plan.rejudged else {}),
        "entrants": ", ".join(sorted(tournament.entrants)),
        "prompts": _prompts(plan),
        "rubrics": rubrics,
        **({"verdicts": _GRADED_SHARES} if tournament.judge.graded else {}),
        "requests": f"{2 * len(plan.asked)} ({len(plan.asked)} pairs{only} in both orders)",
        "beside them": f"{2 * canaries} canaries before, {params.repeats} repeats after, "
        "where they are not in the ledger",
        "missing responses": f"{len(plan.pairing.missing)}, treated {tournament.missing_responses}",
        "rating": f"Elo, K {method.k:g}, mean of {method.n_perms} orders, "
        f"evidence from {method.evidence_replicates} resamples",
        "seeds": f"shuffles {method.seed}, subset {params.subset_seed}",
    }


def run_facts(plan: Plan, record: Record) -> dict[str, str]:
    """By whom, what, when, on what and for how much, of a tournament that was judged."""
    manifest = record.read()
    recording = plan.params.replay_from if plan.params.judge == "replay" else ""
    return {
        "judge": f"{plan.judge.model}, {answers.asked_at(plan.judge, recording)}",
        "compared": answers.compared(plan),
        "prompts": _prompts(plan),
        "status": answers.verdicts_status(manifest["counts"]["verdicts"]),
        "left out": answers.joined(answers.left_out(manifest)),
        "cost": answers.cost_text(manifest["cost"]),
        **answers.of_run(record),
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
    method, subset = plan.tournament.elo.method(), plan.params.subset_seed
    return {
        "n_perms": method.n_perms,
        "shuffle_seed": method.seed,
        "pilot_seed": subset,
        "seeds": {"shuffle": method.seed, "subset": subset},
        "rating": {"method": "permutation-elo", "settings": asdict(method)},
    }


def _prompts(plan: Plan) -> str:
    strata = ", ".join(f"{n} {name}" for name, n in plan.prompt_set()["strata"].items())
    return f"{len(plan.prompts)} of {len(plan.bank)} ({strata})"
