"""What a run asks beside its bulk: canaries before it, and no bulk from a paid judge that fails on
them; after it repeats, to see whether the judge says the same twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from arena_kit.files import read_json, write_json, write_jsonl
from arena_kit.judging.asking.cost import CostError, dollars
from arena_kit.judging.quality.canaries import Canaries
from arena_kit.judging.quality.canary_report import CanaryReport
from arena_kit.judging.quality.estimates import Measure
from arena_kit.judging.quality.gate import Gate, Level, Rule, UnfitJudgeError, gate
from arena_kit.judging.verdicts.records import REPEAT, JudgeRequest, Judgment
from arena_kit.runs.record.artifacts import REPEATS_FILE
from arena_kit.runs.record.progress import Progress
from arena_kit.runs.tournament.ask import ask_judge
from arena_kit.runs.tournament.plan import Plan

FILE, SUITE_FILE = "canaries.json", "canary_suite.json"


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
    report, outcome = _ask(plan, progress, canaries, FILE)
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
            f"{outcome.sentence.rstrip('.')} (pre-flight, {FILE}); nothing but {report.requests} "
            f"canaries was asked, for {dollars(report.usd_spent)} now; judge.allow_failed: true "
            "goes on all the same"
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
    for name in (SUITE_FILE, FILE):
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
