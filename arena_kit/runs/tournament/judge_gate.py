"""Whether a run's judge may be used: the gate of its pilot and canaries before the bulk, which stop
a paid judge that fails; repeats after it; and what the record keeps of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from arena_kit.files import read_json, write_json, write_jsonl
from arena_kit.judging.asking.cost import CostError, dollars
from arena_kit.judging.quality.canaries import Canaries
from arena_kit.judging.quality.canary_report import CanaryReport
from arena_kit.judging.quality.estimates import Measure
from arena_kit.judging.quality.gate import Gate, Level, Rule, UnfitJudgeError, gate
from arena_kit.judging.quality.judge import JudgeQuality
from arena_kit.judging.verdicts.records import REPEAT, JudgeRequest, Judgment
from arena_kit.runs.record.artifacts import REPEATS_FILE
from arena_kit.runs.record.progress import Progress
from arena_kit.runs.record.record import Record, readable_records, runs_folder
from arena_kit.runs.tournament.ask import ask_judge
from arena_kit.runs.tournament.plan import Plan

FILE, CANARY_FILE, SUITE_FILE = "judge_gate.json", "canaries.json", "canary_suite.json"


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


def preflight(
    plan: Plan, progress: Progress, bulk: Callable[[], list[JudgeRequest]]
) -> CanaryReport | None:
    """Ask the canaries, keep what they say in the record, and refuse a paid judge that fails.

    `bulk` gives the requests that would be sent next. None is asked where that is nothing, or
    offline; those that the ledger answers are reported all the same.
    """
    canaries = plan.canaries
    if canaries is None or not _ready(plan, progress, canaries, bulk):
        return None
    report, outcome = _ask(plan, progress, canaries, CANARY_FILE)
    progress.record.update(
        preflight={
            "level": str(outcome.level),
            "requests": report.requests,
            "usd": report.usd_spent,
            "sentences": report.sentences(),
        }
    )
    if outcome.level is Level.FAILED and plan.spends and not plan.tournament.judge.allow_failed:
        raise UnfitJudgeError(
            f"{outcome.sentence.rstrip('.')} (pre-flight, {CANARY_FILE}); nothing but "
            f"{report.requests} canaries was asked, for {dollars(report.usd_spent)} now; "
            "judge.allow_failed: true goes on all the same"
        )
    return report


def full_suite(plan: Plan, progress: Progress, suite: Canaries) -> CanaryReport:
    """Ask every canary of the plan's rubrics, under 200 requests per dimension and within the cap,
    and keep what they say in the record.
    """
    return _ask(plan, progress, suite, SUITE_FILE)[0]


def concerns(measures: Iterable[Measure], rules: Mapping[str, Rule]) -> list[Measure]:
    """What of a pre-flight speaks against a judge: a handful of canaries earns no trust, and takes
    none away where nothing went wrong.
    """
    return [each for each in measures if each.rule and rules[each.rule].doubts(each)]


def recorded_measures(record: Path, rules: Mapping[str, Rule]) -> list[Measure]:
    """What the canaries of an earlier run say of its judge: all of a full suite, of a pre-flight
    what speaks against it.
    """
    for name in (SUITE_FILE, CANARY_FILE):
        if (record / name).is_file():
            measures = [Measure(**row) for row in read_json(record / name)["measures"]]
            return measures if name == SUITE_FILE else concerns(measures, rules)
    return []


def repeated(plan: Plan, progress: Progress, judgments: Sequence[Judgment]) -> list[Judgment]:
    """Ask some of a run's requests a second time, and keep the verdicts in the record; what the
    cap does not allow is not asked, and said.
    """
    asked = {*plan.asked}
    pairs = plan.repeated([each.pair for each in judgments if each.pair in asked])
    if not pairs:
        return []
    progress.say(f"repeats: {2 * len(pairs)} requests asked a second time")
    try:
        again = ask_judge(plan, progress, pairs, prewarm=False, repetition=REPEAT)
    except CostError as error:
        progress.say(f"no request is asked a second time: {error}")
        return []
    verdicts = [verdict for judgment in again for verdict in judgment.verdicts]
    write_jsonl(progress.record.path / REPEATS_FILE, [verdict.as_row() for verdict in verdicts])
    return again


def _ready(
    plan: Plan, progress: Progress, canaries: Canaries, bulk: Callable[[], list[JudgeRequest]]
) -> bool:
    """Whether there are canaries to report; raises where they and the bulk are above the cap."""
    fresh = plan.unanswered(canaries.requests())
    if not fresh:
        return True
    if plan.params.offline:
        return False
    if plan.price is None:
        return True
    ahead = bulk()
    if not ahead:
        return False
    run = progress.record.token
    if not plan.ledger.under_way(run):  # else an earlier try was allowed to send them
        plan.ask_options(run, progress.say).allow([*fresh, *ahead])
    progress.say(f"pre-flight: {len(fresh)} canaries first; {len(ahead)} requests wait for them")
    return True


def _ask(
    plan: Plan, progress: Progress, canaries: Canaries, file: str
) -> tuple[CanaryReport, Gate]:
    """How the judge does on some canaries and its gate by them, written into the record."""
    judgments = ask_judge(plan, progress, canaries.pairs, canaries.material, prewarm=False)
    report = CanaryReport.of(plan.judge.model, canaries, judgments)
    outcome = gate(report.judge, report.measures, plan.rules)
    write_json(progress.record.path / file, report.as_dict() | {"gate": outcome.as_dict()})
    return report, outcome


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
