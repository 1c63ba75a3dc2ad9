"""How good judges are, side by side on the same pairs. The judge report's door."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from arena_kit.battles.battle import Source
from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError, write_json
from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.judges.baseline import unread_rubrics
from arena_kit.judging.judges.replay import ReplayJudge
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.quality.calls import lengths_of
from arena_kit.judging.quality.canaries import canary_pairs
from arena_kit.judging.quality.canary_report import CanaryReport
from arena_kit.judging.quality.estimates import Measure
from arena_kit.judging.quality.gate import Rule
from arena_kit.judging.quality.judge import Judged, JudgeQuality, agree, cheapest
from arena_kit.judging.quality.measures import Families
from arena_kit.judging.verdicts.records import Judgment
from arena_kit.judging.verdicts.settle import to_battles
from arena_kit.reporting import judge_report
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.answer import QUESTIONS, RunAnswer
from arena_kit.reporting.board import rate
from arena_kit.runs.record.battles import battles_file, battles_of, judges_of, labels_of
from arena_kit.runs.record.inputs import tournament_inputs
from arena_kit.runs.record.record import Record, Recorded, find_root, open_record
from arena_kit.runs.settings.files import JudgeSettings, read_gate
from arena_kit.runs.settings.parameters import JudgeReportParams, told
from arena_kit.runs.tournament.canaries import recorded_measures
from arena_kit.runs.tournament.judge import Judgments
from arena_kit.runs.tournament.judge import judge as ask
from arena_kit.runs.tournament.plan import Plan, read_plan
from arena_kit.runs.tournament.publish import caveats, run_facts, write_record

MODE = "judge_report"
FILE = "judges.json"


@dataclass(frozen=True, kw_only=True)
class JudgeStudy(Recorded):
    """Judges measured on the same pairs; open one with `JudgeStudy.open`, then ask for `judges`
    and `save()` the artifacts.

    With `judgments` its judge was asked; otherwise verdicts are read from records or a file.
    """

    root: Path
    params: JudgeReportParams
    judgments: Judgments | None

    @classmethod
    def open(cls, namespace: Mapping[str, Any] | None = None, /, **parameters: Any) -> JudgeStudy:
        """Validate parameters, claim a record, and ask the judge where verdicts are not read."""
        root = find_root()
        params = told(JudgeReportParams, MODE, namespace, parameters)
        if not params.reads:
            judgments = ask(Plan.of(MODE, params))
            return cls(root=root, params=params, record=judgments.record, judgments=judgments)
        check_sources(params, root)
        record = Record.begin(MODE, params.model_dump(mode="json"), root)
        return cls(root=root, params=params, record=record, judgments=None)

    @cached_property
    def judges(self) -> tuple[Judged, ...]:
        """Every judge on the pairs that all of them judged; the embedded one is always there."""
        with self.record.failing():
            found = [*self._asked(), *self._recorded(), *self._columns()]
            if all(each.judge != self._settings.baseline.model for each in found):
                found.append(self._embedded())
        return tuple(found)

    def answer(self) -> RunAnswer:
        """What each judge is worth, and which is the cheapest that will do; kept in answer.json."""
        first, *others = self.judges
        return RunAnswer(
            question=QUESTIONS[MODE],
            sentences=[*map(judge_report.sentence, others), *judge_report.choice(self.judges)],
            gate=first.gate,
            about_judge=True,
            facts=self._facts(),
            caveats=self._caveats(),
        )

    def _facts(self) -> dict[str, str]:
        """By whom, on what, when and for how much."""
        labels = {"labels": str(self._settings.labels or "none"), "rules": str(self._settings.gate)}
        if self.judgments is not None:
            return run_facts(self.judgments.plan, self.record) | labels
        params = self.params
        return {
            "judges": ", ".join(each.judge for each in self.judges),
            "verdicts": ", ".join([*params.records, *filter(None, [params.verdicts])]),
            **labels,
            "cost": "nothing, these verdicts were there",
            **self.record.facts,
        }

    def _caveats(self) -> list[str]:
        """What not to conclude, and what was left out for want of the texts."""
        if self.judgments is not None:
            return caveats(self.judgments.plan, self.record.read())
        why = self._why_no_texts if self.params.records else ""
        return [f"Length, strata and rubric use are left out: {why}."] if why else []

    def save(self) -> Record:
        """Write judges.json and answer.json, and close the record."""
        with self.record.failing():
            alpha, best = agree(self.judges), cheapest(self.judges)
            rows = {
                "answer": judge_report.sentences(self.judges),
                "cheapest": best and best.judge,
                "alpha": alpha and alpha.as_dict(),
                "judges": [each.as_dict() for each in self.judges],
            }
            write_json(self.record.path / FILE, rows)
            if self.judgments is not None:
                board = rate(to_battles(self.judgments), **self.judgments.plan.rating)
                write_record(board, self.judgments)
            write_json(self.record.path / ANSWER_FILE, self.answer().as_dict())
        return self.record.close()

    def _asked(self) -> Iterator[Judged]:
        """The judge of this run."""
        asked = self.judgments
        if asked is None:
            return
        yield Judged(
            judge=asked.plan.judge.model,
            source="asked now",
            quality=asked.quality,
            gate=asked.gate,
            battles=to_battles(asked),
            canaries=asked.canary_suite,
            **_effort(asked, self.record.read()["judging"]),
        )

    def _recorded(self) -> Iterator[Judged]:
        """The judges of records on the pairs that all of them judged."""
        for path, judgments in self._records.items():
            yield self._measured(
                judgments[0].forward.judge_model or path.name,
                [judgment for judgment in judgments if judgment.pair in self._shared],
                source=str(path.relative_to(self.root) if path.is_relative_to(self.root) else path),
                more=recorded_measures(path, self._rules),
                timing=open_record(path).get("judging") or {},
            )

    @cached_property
    def _records(self) -> dict[Path, list[Judgment]]:
        """What each record judged."""
        paths = [self.root / path for path in self.params.records]
        by_path = {path: ReplayJudge.from_record(path).judgments() for path in paths}
        for path, judgments in by_path.items():
            if not judgments:
                raise DataError(f"{path}: holds no verdict, so there is no judge to measure")
        return by_path

    @cached_property
    def _shared(self) -> set[Pair]:
        """The pairs that all records judged."""
        pairs = [{judgment.pair for judgment in each} for each in self._records.values()]
        shared = set.intersection(*pairs)
        if not shared:
            names = ", ".join(path.name for path in self._records)
            raise DataError(f"records: no pair was judged in all of {names}")
        return shared

    def _columns(self) -> Iterator[Judged]:
        """The judges of a file: its columns of verdicts, or those that it names."""
        file, params = self.params.verdicts, self.params
        if not file:
            return
        for judge, log in _verdicts_of(self.root, params):
            quality = JudgeQuality.from_battles(
                judge,
                log,
                labels=self._labels,
                both_orders=params.both_orders,
                families=Families.around(judge, self._settings.families),
            )
            yield Judged(
                judge=judge,
                source=file,
                quality=quality,
                gate=quality.gate(self._rules),
                battles=log,
                n_verdicts=len(log) * (1 + params.both_orders),
            )

    def _embedded(self) -> Judged:
        """The embedded judge on the same pairs: what any judge must beat. Where the texts are not
        at hand it cannot be asked, and its row says why.
        """
        plan = self._texts
        if plan is None:
            quality = JudgeQuality(judge=self._settings.baseline.model, dimensions=())
            why = f"not asked: {self._why_no_texts}"
            return Judged(
                judge=quality.judge, source=why, quality=quality, gate=quality.gate(self._rules)
            )
        own = plan.material
        recorded = bool(self.params.records)
        pairs = [pair for pair in plan.pairing.pairs if not recorded or pair in self._shared]
        judge = plan.tournament.judge.baseline
        judgments = judge_pairs(pairs, own, judge, plan.ledger)
        suite = canary_pairs(own.rubrics, salt=own.salt, graded=own.graded)
        asked = judge_pairs(suite.pairs, suite.material, judge, plan.ledger)
        canaries = CanaryReport.of(judge.model, suite, asked)
        return self._measured(judge.model, judgments, source="asked now", canaries=canaries)

    def _measured(
        self,
        judge: str,
        judgments: Sequence[Judgment],
        *,
        source: str,
        canaries: CanaryReport | None = None,
        more: Sequence[Measure] = (),
        timing: Mapping[str, float] | None = None,
    ) -> Judged:
        plan = self._texts
        quality = JudgeQuality.of(
            judge,
            judgments,
            labels=self._labels,
            lengths=lengths_of(plan.responses) if plan else None,
            families=Families.around(judge, self._settings.families),
            strata={p.prompt_id: p.source for p in plan.bank} if plan else None,
            unread=unread_rubrics(judge, plan.material.rubrics.values()) if plan else (),
        )
        measured = canaries.measures if canaries else []
        return Judged(
            judge=judge,
            source=source,
            quality=quality,
            gate=quality.gate(self._rules, more=[*measured, *more]),
            battles=to_battles(judgments),
            canaries=canaries,
            **_effort(judgments, timing or {}),
        )

    @property
    def _texts(self) -> Plan | None:
        """What was judged, with the texts; None where they are not at hand."""
        return self._plan[0]

    @property
    def _why_no_texts(self) -> str:
        return self._plan[1]

    @cached_property
    def _plan(self) -> tuple[Plan | None, str]:
        """The plan of this run or of the first record, or why there is none."""
        if self.judgments is not None:
            return self.judgments.plan, ""
        if not self.params.records:
            return None, f"{self.params.verdicts} has verdicts but no texts"
        try:
            return read_plan(MODE, tournament=str(next(iter(self._records)).resolve())), ""
        except DataError as error:
            return None, str(error)

    @cached_property
    def _settings(self) -> JudgeSettings:
        file, _ = tournament_inputs(self.root / self.params.tournament, self.root)
        return self.params.override(file).judge

    @cached_property
    def _labels(self) -> BattleLog | None:
        return labels_of(self.root, self._settings)

    @cached_property
    def _rules(self) -> dict[str, Rule]:
        return read_gate(self.root, self._settings.gate)


def check_sources(params: JudgeReportParams, root: Path) -> None:
    """Refuse records and files of verdicts that cannot be read."""
    for path in params.records:
        open_record(root / path)
    for _ in _verdicts_of(root, params) if params.verdicts else ():
        pass


def _effort(judgments: Sequence[Judgment], timing: Mapping[str, float]) -> dict[str, Any]:
    """How many verdicts there are, and what 1,000 of them cost and take."""
    verdicts = [verdict for judgment in judgments for verdict in judgment.verdicts]
    n, asked = len(verdicts), timing.get("asked")
    return {
        "n_verdicts": n,
        "usd": 1000 * sum(v.cost_usd for v in verdicts) / n if n else None,
        "seconds": 1000 * timing["seconds"] / asked if asked else None,
    }


def _verdicts_of(root: Path, params: JudgeReportParams) -> Iterator[tuple[str, BattleLog]]:
    """The verdicts of each judge in a file."""
    for column in params.columns:
        yield column, battles_of(params.verdicts, root, winner=column)
    if params.columns:
        return
    log = battles_of(params.verdicts, root, source=Source.LLM_JUDGE)
    for judge in judges_of(log) or [battles_file(root / params.verdicts).stem]:
        own = log if log.judge_model is None else log.select(log.judge_model.values() == judge)
        yield judge, own
