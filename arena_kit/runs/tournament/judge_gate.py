"""The gate of a run: what it must have before it starts, what its record keeps of the judge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arena_kit.files import write_json
from arena_kit.judging.quality.gate import Gate, Level, UnfitJudgeError
from arena_kit.judging.quality.judge import JudgeQuality
from arena_kit.runs.record.record import Record, readable_records, runs_folder
from arena_kit.runs.tournament.plan import Plan

FILE = "judge_gate.json"


def write_gate(record: Record, gate: Gate, quality: JudgeQuality) -> None:
    """Keep the gate of a judge in the record as judge_gate.json, with all that was measured, and,
    in short, in its manifest.
    """
    measures = [row.as_dict() for row in quality.measures]
    write_json(record.path / FILE, gate.as_dict() | {"measures": measures})
    record.update(judge_gate={"level": str(gate.level), "sentence": gate.sentence})


def refuse_unfit(plan: Plan) -> None:
    """Raise before anything is bought of a judge that the latest pilot with the same model,
    settings and rubrics found not usable, unless the parameters allow it.
    """
    if plan.mode == "pilot" or plan.tournament.judge.allow_failed or not plan.buys:
        return
    if why := failed_pilot(plan):
        raise UnfitJudgeError(
            f"{why}; nothing was sent (judge.allow_failed lets the run go on all the same)"
        )


def failed_pilot(plan: Plan) -> str:
    """What the latest pilot of this judge found, where that was not usable; else empty."""
    latest = max(_pilots(plan), key=lambda each: str(each[1].get("started_at")), default=None)
    if latest is None or latest[1]["judge_gate"]["level"] != Level.FAILED:
        return ""
    path, manifest = latest
    return f"the pilot {path.name} found: {manifest['judge_gate']['sentence'].rstrip('.')}"


def _pilots(plan: Plan) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The records of pilots that asked this judge the same way and came to a judgement."""
    settings = json.loads(json.dumps(dict(plan.judge.settings)))
    judge = {"model": plan.judge.model, "settings": settings}
    rubrics = {name: each.digest for name, each in plan.material.rubrics.items()}
    for path, manifest in readable_records(runs_folder(plan.root)):
        same = manifest.get("mode") == "pilot" and manifest.get("judge") == judge
        texts = {n: each.get("sha256") for n, each in (manifest.get("rubrics") or {}).items()}
        if same and texts == rubrics and manifest.get("judge_gate"):
            yield path, manifest
