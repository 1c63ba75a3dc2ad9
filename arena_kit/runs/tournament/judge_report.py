"""The judge report: whose verdicts are read or asked for, judges side by side, and the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.judges.replay import ReplayJudge
from arena_kit.judging.quality.canaries import CanaryReport, canary_pairs
from arena_kit.judging.quality.estimates import Measure
from arena_kit.judging.quality.gate import Rule
from arena_kit.judging.quality.judge import Judged, JudgeQuality, agree, cheapest
from arena_kit.judging.quality.measures import Families
from arena_kit.judging.verdicts.records import Judgment, to_battles
from arena_kit.reporting import judge_report, tables
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.answer import RunAnswer
from arena_kit.reporting.board import rate
from arena_kit.runs.record.inputs import arena_note, battles_by_judge, labels_of, tournament_inputs
from arena_kit.runs.record.record import Record, find_root, open_record
from arena_kit.runs.settings.files import JudgeSettings, read_gate
from arena_kit.runs.settings.parameters import JudgeReportParams, resolve_parameters
from arena_kit.runs.tournament.judge import Judgments, full_measurement, judge, recorded_measures
from arena_kit.runs.tournament.plan import Plan, read_plan
from arena_kit.runs.tournament.publish import caveats, publish, run_facts

if TYPE_CHECKING:
    from arena_kit.reporting.figures import Plot

MODE = "judge_report"
FILE = "judges.json"


@dataclass(frozen=True, kw_only=True)
class JudgeSources:
    """Whose verdicts a judge report would read or ask for; nothing has been sent or written.

    `records` holds the judgments of each on the pairs that all of them judged, `verdicts` those of
    each judge in a file. `plan` is that of the judge to be asked or, with its texts, of the first
    record; where there is none, `no_texts` says why.
    """

    root: Path
    params: JudgeReportParams
    settings: JudgeSettings
    records: Mapping[str, Sequence[Judgment]] = field(repr=False)
    verdicts: Mapping[str, BattleLog] = field(repr=False)
    plan: Plan | None = field(repr=False)
    no_texts: str = ""

    @classmethod
    def of(cls, params: JudgeReportParams) -> JudgeSources:
        """The sources of valid parameters, all read."""
        root = find_root()
        settings = params.override(tournament_inputs(root / params.tournament, root)[0]).judge
        plan, why = _plan_with_texts(root, params)
        return cls(
            root=root,
            params=params,
            settings=settings,
            records=_shared_judgments(root, params.records),
            verdicts=battles_by_judge(params.verdicts, root, params.columns),
            plan=plan,
            no_texts=why,
        )

    @property
    def asks(self) -> bool:
        """Whether the judge of the tournament file is asked, and no verdicts are read."""
        return not self.params.reads

    @cached_property
    def labels(self) -> BattleLog | None:
        """People's votes or gold labels on the same battles, where the settings name any."""
        return labels_of(self.root, self.settings)

    @property
    def note(self) -> str:
        """What must be said of people's votes."""
        return "" if self.labels is None else arena_note(self.labels, "")

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """What the judges must keep."""
        return read_gate(self.root, self.settings.gate)

    @property
    def facts(self) -> dict[str, str]:
        """What is measured by which rules, in words."""
        named = {"labels": str(self.settings.labels or "none"), "rules": str(self.settings.gate)}
        read = [*self.params.records, *filter(None, [self.params.verdicts])]
        return ({} if self.asks else {"verdicts": ", ".join(read)}) | named

    def _repr_html_(self) -> str:
        """The facts and, where a judge would be asked, its plan with the forecast."""
        plan = self.plan._repr_html_() if self.asks and self.plan else ""
        return tables.facts(self.facts, name="sources").html + plan


def read_judges(**parameters: Any) -> JudgeSources:
    """What a judge report would read or ask, by these parameters; see `JudgeReportParams`."""
    return JudgeSources.of(resolve_parameters(MODE, parameters))


@dataclass(frozen=True, kw_only=True)
class JudgeComparison:
    """Judges measured on the same pairs, with the record that keeps them; `judgments` are those
    that were asked for.
    """

    sources: JudgeSources = field(repr=False)
    record: Record
    judges: tuple[Judged, ...]
    judgments: Judgments | None = field(default=None, repr=False)

    def answer(self) -> RunAnswer:
        """What each judge is worth, and which is the cheapest that will do."""
        first, *others = self.judges
        return RunAnswer(
            brief=judge_report.brief(self.judges),
            sentences=[*map(judge_report.sentence, others), *judge_report.choice(self.judges)],
            gate=first.gate,
            about_judge=True,
            facts=self._facts(),
            caveats=self._caveats(),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for judges.json."""
        alpha, best = agree(self.judges), cheapest(self.judges)
        return {
            "answer": judge_report.sentences(self.judges),
            "cheapest": best and best.judge,
            "alpha": alpha and alpha.as_dict(),
            "judges": [each.as_dict() for each in self.judges],
        }

    def _facts(self) -> dict[str, str]:
        """By whom, on what, when and for how much."""
        if self.judgments is not None:
            return run_facts(self.judgments.plan, self.record) | self.sources.facts
        return {
            "judges": ", ".join(each.judge for each in self.judges),
            **self.sources.facts,
            "cost": "nothing, the verdicts existed",
            **self.record.facts,
        }

    def _caveats(self) -> list[str]:
        """What not to conclude, and what was left out for want of the texts."""
        if self.judgments is not None:
            note = [f"People's votes: {self.sources.note}."] if self.sources.note else []
            return [*caveats(self.judgments.plan, self.record.read()), *note]
        why = self.sources.no_texts if self.sources.records else ""
        return [f"Length bias, strata and rubric use were not measured: {why}."] if why else []


def measure_judges(sources: JudgeSources) -> JudgeComparison:
    """Measure every judge on the pairs that all of them judged; the demo judge is always included.

    This may spend where the judge of the tournament file is asked, within `max_cost_usd`: all
    canaries, and the pairs of the plan.
    """
    asked = judge(sources.plan) if sources.asks and sources.plan else None
    params = sources.params.model_dump(mode="json")
    record = asked.record if asked else Record.begin(MODE, params, sources.root)
    with record.failing():
        judges = [*_recorded(sources), *_of_file(sources)]
        if asked:
            own: Any = {"canaries": asked.canary_suite, "timing": record.read()["judging"]}
            judges = [Judged.of(asked.quality, asked.gate, asked, source="asked now", **own)]
        if all(each.judge != sources.settings.baseline.model for each in judges):
            judges.append(_embedded(sources))
    return JudgeComparison(sources=sources, record=record, judges=tuple(judges), judgments=asked)


def publish_judges(
    comparison: JudgeComparison, *, answer: RunAnswer | None = None, figures: Sequence[Plot] = ()
) -> Record:
    """Write judges.json and answer.json, of a judge that was asked its ratings, too, and close the
    record.
    """
    record, asked = comparison.record, comparison.judgments
    with record.failing():
        found = answer or comparison.answer()
        files = {FILE: comparison.as_dict(), ANSWER_FILE: found.as_dict()}
        board = rate(to_battles(asked), **asked.plan.rating) if asked else None
    if asked and board:
        return publish(board, asked, answer=found, figures=figures, files=files)
    return record.publish(files, figures)


def _recorded(sources: JudgeSources) -> Iterator[Judged]:
    """The judges of records on the pairs that all of them judged."""
    for source, judgments in sources.records.items():
        path = sources.root / source
        manifest = open_record(path)
        yield _measured(
            sources,
            judgments[0].verdicts[0].judge_model or path.name,
            judgments,
            source=source,
            more=recorded_measures(path, sources.rules),
            full=full_measurement(sources.root, manifest, sources.rules),
            timing=manifest.get("judging"),
        )


def _of_file(sources: JudgeSources) -> Iterator[Judged]:
    """The judges of a file: its columns of verdicts, or those that it names."""
    params = sources.params
    for name, log in sources.verdicts.items():
        families = Families.around(name, sources.settings.families)
        quality = JudgeQuality.from_battles(
            name, log, labels=sources.labels, both_orders=params.both_orders, families=families
        )
        yield Judged(
            judge=name,
            source=params.verdicts,
            quality=quality,
            gate=quality.gate(sources.rules),
            battles=log,
            n_verdicts=len(log) * (1 + params.both_orders),
        )


def _embedded(sources: JudgeSources) -> Judged:
    """The demo judge on the same pairs: what any judge must beat. Where the texts are not at
    hand it cannot be asked, and its row says why.
    """
    plan = sources.plan
    if plan is None:
        quality = JudgeQuality(judge=sources.settings.baseline.model)
        why, gate = f"not run: {sources.no_texts}", quality.gate(sources.rules)
        return Judged(judge=quality.judge, source=why, quality=quality, gate=gate)
    baseline, own, records = plan.tournament.judge.baseline, plan.material, sources.records.values()
    shared = {each.pair for judgments in records for each in judgments}
    pairs = [pair for pair in plan.pairing.pairs if not shared or pair in shared]
    judgments = judge_pairs(pairs, own, baseline, plan.ledger)
    suite = canary_pairs(own.rubrics, salt=own.salt, graded=own.graded)
    asked = judge_pairs(suite.pairs, suite.material, baseline, plan.ledger)
    canaries = CanaryReport.of(baseline.model, suite, asked)
    return _measured(sources, baseline.model, judgments, source="asked now", canaries=canaries)


def _measured(
    sources: JudgeSources,
    name: str,
    judgments: Sequence[Judgment],
    *,
    canaries: CanaryReport | None = None,
    more: Sequence[Measure] = (),
    full: tuple[Sequence[Measure], str] = ((), ""),
    **about: Any,
) -> Judged:
    plan = sources.plan
    axis = next(iter(plan.tournament.report.strata), "source") if plan else ""
    bank = plan.material.prompts.values() if plan else ()
    of, families = plan.quality if plan else JudgeQuality.of, sources.settings.families
    quality = of(
        name,
        judgments,
        labels=sources.labels,
        families=Families.around(name, families),
        strata={prompt.prompt_id: prompt.stratum(axis) or "" for prompt in bank},
    )
    canary_rows = canaries.measures if canaries else ()
    gate = quality.gate(sources.rules, more=[*canary_rows, *more], full=full[0], note=full[1])
    return Judged.of(quality, gate, judgments, canaries=canaries, **about)


def _shared_judgments(root: Path, records: Sequence[str]) -> dict[str, list[Judgment]]:
    """What each record judged of the pairs that all of them judged."""
    judged = {}
    for record in records:
        open_record(root / record)
        judged[record] = ReplayJudge.from_record(root / record).judgments()
        if not judged[record]:
            raise DataError(f"{record}: holds no verdict, so there is no judge to measure")
    pairs = [{each.pair for each in judgments} for judgments in judged.values()]
    shared = set.intersection(*pairs) if pairs else set()
    if records and not shared:
        raise DataError(f"records: no pair was judged in all of {', '.join(records)}")
    return {record: [j for j in own if j.pair in shared] for record, own in judged.items()}


def _plan_with_texts(root: Path, params: JudgeReportParams) -> tuple[Plan | None, str]:
    """The plan of the judge to be asked or of the first record, or why there is none."""
    if not params.reads:
        return Plan.of(MODE, params), ""
    if not params.records:
        return None, f"{params.verdicts} has verdicts but no texts"
    try:
        return read_plan(MODE, tournament=str((root / params.records[0]).resolve())), ""
    except DataError as error:
        return None, str(error)
