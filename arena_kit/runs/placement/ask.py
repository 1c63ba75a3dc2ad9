"""A new model's answers made, judged and settled, with all that a record keeps of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from arena_kit.battles.battle import Source
from arena_kit.battles.log import BattleLog
from arena_kit.files import write_json, write_jsonl, write_text
from arena_kit.judging.asking.cost import Spending
from arena_kit.judging.judges.base import BatchJudge, PaidJudge, ServiceError
from arena_kit.judging.pairs.prompts import file_row, read_responses, responses_file
from arena_kit.judging.quality.canary_report import CanaryReport
from arena_kit.judging.verdicts.records import Judgment
from arena_kit.judging.verdicts.settle import to_battles
from arena_kit.runs.placement.plan import ArenaPlan, Responses
from arena_kit.runs.record.artifacts import write_pairs
from arena_kit.runs.record.inputs import NAMES, keep_inputs
from arena_kit.runs.record.progress import judging_progress
from arena_kit.runs.record.record import Record
from arena_kit.runs.tournament.ask import ask_judge, keep_failure, keep_judgments
from arena_kit.runs.tournament.canaries import preflight
from arena_kit.runs.tournament.generate import answer_counts
from arena_kit.runs.tournament.plan import Plan


@dataclass(frozen=True, kw_only=True)
class ArenaRun:
    """An arena plan carried out into a record; each step is done once, and again for free after
    an interruption: the ledger has what was paid for.
    """

    plan: ArenaPlan
    record: Record

    @cached_property
    def answers(self) -> Responses:
        """The model's answers, read or made; what could not be made is in the manifest."""
        plan, record = self.plan, self.record
        with record.failing(self._on_failure):
            before = record.read().get("cost", {})  # of an earlier try, whose forecast holds
            record.update(cost={"forecast": plan.forecast.as_dict()} | before)
            plan.refuse_above_cap(record.token)
            _ = self.canaries
            answers = self._made() if plan.job else self._read()
            if not answers:
                raise ServiceError(f"not one answer of {plan.params.model} was made")
            self._keep_inputs(answers)
        return answers

    @cached_property
    def canaries(self) -> CanaryReport | None:
        """How the judge did on the canaries, before answers are bought for it to judge."""
        plan = self.plan.expected
        with judging_progress(self.record, unit="canary verdict") as progress:
            return preflight(plan, progress, lambda: plan.bulk)

    @cached_property
    def judging(self) -> Plan:
        """What is judged, and how."""
        return self.plan.judging(self.answers)

    @cached_property
    def judgments(self) -> list[Judgment]:
        """Every pair judged in both orders and settled."""
        plan, record = self.judging, self.record
        with record.failing(self._on_failure), judging_progress(record) as progress:
            write_pairs(record.path, plan.pairing.pairs)
            judgments = ask_judge(plan, progress, plan.pairing.pairs)
            keep_judgments(plan, progress, judgments, cost=self._cost())
        return judgments

    @cached_property
    def battles(self) -> BattleLog:
        """What the judge decided, under the arena's own names."""
        settled = self.plan.sample.renamed(to_battles(self.judgments))
        return replace(settled, dimension=None).of_source(Source.LLM_JUDGE, self.plan.judge.model)

    @cached_property
    def spending(self) -> dict[str, Spending]:
        """What this run paid for answers and for verdicts; without what is free."""
        paid = defaultdict(list)
        for answer in self.plan.ledger.paid(self.record.token):
            made = answer.request_id.startswith("generate|")
            paid["answers" if made else "verdicts"].append(answer)
        asked = {"answers": self.plan.job and self.plan.job.judge, "verdicts": self.plan.judge}
        return {
            name: Spending.of(paid[name], judge.price, batch=isinstance(judge, BatchJudge))
            for name, judge in asked.items()
            if isinstance(judge, PaidJudge)
        }

    def describe(self) -> None:
        """Keep in the record what is judged, by whom and how it was drawn."""
        plan = self.plan
        params, sample, rubric = plan.params, plan.sample, plan.rubric
        self.record.update(
            tournament=plan.tournament.model_dump(mode="json"),
            judge={"model": plan.judge.model, "settings": dict(plan.judge.settings)},
            dimensions=[rubric.dimension],
            rubrics={
                rubric.dimension: {
                    "file": str(params.rubric),
                    "version": rubric.version,
                    "sha256": rubric.digest,
                }
            },
            sample={
                "battles": len(sample.battles),
                "shared": len(sample.shared),
                "prompts": len(sample.prompts),
                "opponents": sample.opponents,
                "left_out": dict(plan.texts.left_out),
                "seed": params.seed,
            },
            generator=None
            if plan.job is None
            else plan.job.definition.model_dump(mode="json") | {"entrant": sample.entrant},
        )
        self._keep_inputs()

    def _keep_inputs(self, answers: Responses | None = None) -> None:
        """Keep what is judged as a tournament's files, so that the record can be read anywhere;
        the model's own answers as well, when they are there.
        """
        with TemporaryDirectory(prefix="arena-kit-") as scratch:
            folder = Path(scratch)
            self._write_inputs(folder, answers or {})
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            named = {path.relative_to(folder).as_posix(): path for path in files}
            keep_inputs(self.record, named, self.plan.params.inputs)

    def _write_inputs(self, folder: Path, answers: Responses) -> None:
        sample, rubric = self.plan.sample, self.plan.rubric
        rows = defaultdict(list)
        for (entrant, _), response in {**sample.recorded, **answers}.items():
            rows[entrant].append(file_row(response))
        entrants = sorted({*rows, sample.entrant})
        for entrant in entrants:
            write_jsonl(responses_file(folder / "responses", entrant), rows[entrant])
        write_jsonl(folder / "prompts.jsonl", [file_row(prompt) for prompt in sample.prompts])
        write_text(folder / "rubrics" / f"{rubric.dimension}.md", rubric.text)
        file = self.plan.tournament.model_dump(mode="json") | {"entrants": entrants, "generate": {}}
        write_text(folder / "tournament.yaml", yaml.safe_dump(file, sort_keys=False))
        names = {"models": dict(sample.models), "questions": dict(sample.questions)}
        write_json(folder / NAMES, names)

    def _read(self) -> Responses:
        """The model's answers to the sampled prompts."""
        ids = {prompt.prompt_id for prompt in self.plan.sample.asked}
        return {cell: each for cell, each in self.plan.given.items() if cell[1] in ids}

    def _made(self) -> Responses:
        """The model's answers as they are made, in the ledger and then in the record."""
        job, record = self.plan.job, self.record
        if job is None:
            raise TypeError("nobody is defined who could answer")
        with (
            TemporaryDirectory(prefix="arena-kit-") as scratch,
            judging_progress(record, unit="response") as progress,
        ):
            file = responses_file(Path(scratch), job.entrant)
            options = job.ask_options(record.token, progress.say)
            failed = job.fill(file, options, progress.show)
            counts = answer_counts(file)
            answers = read_responses(Path(scratch), [job.entrant], job.answers())
        record.update(
            answers={
                "definition": job.definition.digest,
                "model": job.definition.model,
                "responses": counts,
                "failed": {prompt: answer.detail for prompt, answer in failed.items()},
            }
        )
        return answers

    def _cost(self) -> dict[str, Any]:
        """What this run paid, for both, held against the forecast and the cap."""
        ledger, token = self.plan.ledger, self.record.token
        cost: dict[str, Any] = {
            "forecast": self.record.read()["cost"]["forecast"],
            "usd_spent": ledger.spent(token),
            "usd_unknown": ledger.usd_unknown(token),
            "answers_paid": {name: each.as_dict() for name, each in self.spending.items()},
            "attempts": ledger.outcomes(token),
        }
        cap = self.plan.params.max_cost_usd
        cost["over_cap"] = bool(cap) and cost["usd_spent"] + cost["usd_unknown"] > cap
        return cost

    def _on_failure(self, error: BaseException) -> None:
        keep_failure(self.record, error, self.plan.ledger if self.plan.asked else None)
