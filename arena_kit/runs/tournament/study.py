"""A study: one tournament file, one run's parameters, one record. The notebooks' door."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any, Self

from arena_kit.battles.log import BattleLog
from arena_kit.battles.write import write_battles
from arena_kit.files import write_json
from arena_kit.judging.asking.cost import Spending
from arena_kit.judging.judges.baseline import unread_rubrics
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.quality.calls import lengths_of
from arena_kit.judging.quality.canaries.report import CanaryReport
from arena_kit.judging.quality.gate import Gate
from arena_kit.judging.quality.judge import JudgeQuality
from arena_kit.judging.quality.position import PositionBias, position_bias
from arena_kit.judging.verdicts.records import JudgeRequest, Judgment, Status
from arena_kit.judging.verdicts.settle import to_battles
from arena_kit.rating.base import RatingError, Ratings
from arena_kit.rating.elo.k_stability import Stability, neighbour_stability
from arena_kit.rating.elo.method import PermutationElo, k_sweep
from arena_kit.reporting import tournament_tables
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.answer import QUESTIONS, RunAnswer, about, disagreements, order, unread
from arena_kit.reporting.board import Board, JudgeGate, board_of
from arena_kit.reporting.tables import Shown
from arena_kit.runs.record import artifacts
from arena_kit.runs.record.inputs import keep_tournament
from arena_kit.runs.record.progress import Progress, judging_progress
from arena_kit.runs.record.record import Record, Recorded
from arena_kit.runs.settings.parameters import RunParams, parameters_in, parameters_of
from arena_kit.runs.tournament import answers
from arena_kit.runs.tournament import facts as tournament_facts
from arena_kit.runs.tournament.ask import ask_judge, keep_failure, keep_judgments
from arena_kit.runs.tournament.canaries import concerns, full_suite, preflight, repeated
from arena_kit.runs.tournament.judge_gate import failed_pilot, held, ready_plan
from arena_kit.runs.tournament.plan import Plan
from arena_kit.runs.tournament.rejudge import ARTIFACT as CHANGES_FILE
from arena_kit.runs.tournament.rejudge import told_changes
from arena_kit.runs.tournament.spending import manifest_cost, run_spending, spending_by_dimension


class UnusableError(RuntimeError):
    """A run of which not one verdict can be used."""


@dataclass(frozen=True, kw_only=True)
class Study(Recorded):
    """A judged tournament from prompts to a record; each step is computed once.

    Open one with `Study.open`, which validates everything and claims a record, then ask
    for `judgments`, `battles`, `ratings`, `sweep`, and `save()` the artifacts. What is to be
    judged, by whom and for how much is in `plan`.
    """

    plan: Plan

    @classmethod
    def open(
        cls, mode: str, namespace: Mapping[str, Any] | None = None, /, **parameters: Any
    ) -> Self:
        """Validate parameters and inputs, then claim a record and write its first manifest.

        A notebook passes its `globals()`, of which the parameters are taken.
        """
        plan = ready_plan(mode, parameters_in(parameters_of(mode), namespace) | parameters)
        record = Record.begin(mode, plan.params.model_dump(mode="json"), plan.root)
        study = cls(plan=plan, record=record)
        study._describe()
        return study

    @property
    def root(self) -> Path:
        """The workspace."""
        return self.plan.root

    @property
    def params(self) -> RunParams:
        """What this run was told."""
        return self.plan.params

    @property
    def dimensions(self) -> list[str]:
        """What is judged, in the order of the tournament file."""
        return list(self.plan.tournament.dimensions)

    @property
    def method(self) -> PermutationElo:
        """The rating method of the tournament file with this run's overrides."""
        return self.plan.tournament.elo.method()

    @cached_property
    def canaries(self) -> CanaryReport | None:
        """How the judge did on the canaries of the pre-flight; None where it was not asked. A paid
        judge that fails is an `UnfitJudgeError`.
        """
        plan, record = self.plan, self.record
        bar = judging_progress(record, unit="canary verdict")
        with record.failing(self._on_failure), bar as progress:
            record.update(cost={"forecast": plan.forecast and plan.forecast.as_dict()})
            return preflight(plan, progress, self._bulk)

    @cached_property
    def canary_suite(self) -> CanaryReport | None:
        """How the judge does on every canary, where the notebook asks for all: under 200 requests
        per dimension, within the cap.
        """
        _ = self.canaries
        if self.plan.suite is None:
            return None
        bar = judging_progress(self.record, unit="canary verdict")
        with self.record.failing(self._on_failure), bar as progress:
            return full_suite(self.plan, progress, self.plan.suite)

    @property
    def judgments(self) -> list[Judgment]:
        """Every pair judged in both orders and settled, after the canaries."""
        return self._judged_twice[0]

    @property
    def repeats(self) -> list[Judgment]:
        """Some of the same pairs judged a second time, where the parameters want that."""
        return self._judged_twice[1]

    @cached_property
    def _judged_twice(self) -> tuple[list[Judgment], list[Judgment]]:
        _ = self.canaries, self.canary_suite
        record = self.record
        with record.failing(self._on_failure), judging_progress(record) as progress:
            began = monotonic()
            judgments = self._judge(progress)
            took = monotonic() - began
            again = self._repeated(judgments)
            keep_judgments(
                self.plan,
                progress,
                judgments,
                judging={"seconds": round(took, 3), "asked": _asked_now(judgments)},
                cost=manifest_cost(self.plan, record.token, judgments),
            )
        return judgments, again

    def _bulk(self) -> list[JudgeRequest]:
        """What would be asked next after the pre-flight."""
        return self.plan.bulk

    def _judge(self, progress: Progress) -> list[Judgment]:
        """Judge all pairs, but for those whose recorded judgment stands."""
        again = self.plan.rejudged
        judgments = [*(again.kept if again else ()), *self._asked(self.plan.asked, progress)]
        place = {pair: n for n, pair in enumerate(self.plan.pairing.pairs)}
        return sorted(judgments, key=lambda judgment: place[judgment.pair])

    def _repeated(self, judgments: list[Judgment]) -> list[Judgment]:
        """Some of these judged a second time, under a progress bar of their own."""
        if not self.params.repeats:
            return []
        with judging_progress(self.record, unit="repeated verdict") as progress:
            return repeated(self.plan, progress, judgments)

    def _asked(self, pairs: Sequence[Pair], progress: Progress) -> list[Judgment]:
        """Judgments of some pairs, from the ledger or asked for."""
        warm = self.canaries is not None and self.canaries.fresh  # every rubric was sent ahead
        return ask_judge(self.plan, progress, pairs, prewarm=not warm)

    @cached_property
    def spending(self) -> Spending | None:
        """What this run paid its judge; None for a judge that costs nothing."""
        return run_spending(self.plan, self.record.token)

    @cached_property
    def spending_by_dimension(self) -> dict[str, Spending]:
        """The tokens and dollars of this run's answers on each dimension; empty for a judge that
        takes no tokens.
        """
        return spending_by_dimension(self.plan, self.record.token, self.judgments)

    @cached_property
    def battles(self) -> BattleLog:
        return to_battles(self.judgments)

    @cached_property
    def bias(self) -> dict[str, PositionBias]:
        return position_bias(self.judgments)

    @cached_property
    def _rated(self) -> tuple[dict[str, dict[float, Ratings]], dict[str, str]]:
        """Ratings at every K of the sweep and at the default one, all from one replay."""
        ks = sorted({*map(float, self.plan.tournament.elo.k_sweep), self.method.k})
        logs = self.battles.by_dimension() if len(self.battles) else {}
        rated, unrated = {}, {}
        for dimension in self.dimensions:
            log = logs.get(dimension, self.battles.select([]))
            try:
                rated[dimension] = k_sweep(self.method, log, ks)
            except RatingError as error:
                unrated[dimension] = str(error)
            else:
                if absent := sorted({*self.plan.tournament.entrants} - {*log.models}):
                    unrated[dimension] = f"{', '.join(absent)} (no battle)"
        return rated, unrated

    @property
    def ratings(self) -> dict[str, Ratings]:
        """Ratings per dimension; what does not exist is in `unrated`, with the reason."""
        return {dimension: by_k[self.method.k] for dimension, by_k in self._rated[0].items()}

    @cached_property
    def strengths(self) -> dict[str, Ratings]:
        """Bradley–Terry ratings per dimension, on the center and the battles that Elo counts
        (ties too, as half a win): claims about who is above whom rest on these.
        """
        method = self.plan.tournament.elo.strengths()
        logs = self.battles.by_dimension()
        return {dimension: method(logs[dimension]) for dimension in self.ratings}

    @property
    def sweep(self) -> dict[str, dict[float, Ratings]]:
        """Ratings per dimension at every K of the sweep, and at the default K."""
        return self._rated[0]

    @property
    def unrated(self) -> dict[str, str]:
        """Per dimension, what has no rating and why: the dimension, or some entrants."""
        return self._rated[1]

    @cached_property
    def board(self) -> Board:
        """Ratings and claims of every dimension, Elo beside them, and the judge's gate."""
        board = board_of(
            self.strengths,
            self.battles.by_dimension() if len(self.battles) else {},
            beside={"elo": self.ratings},
            dimensions=self.dimensions,
            unrated=self.unrated,
            margin=self.params.margin,
            judged=True,
        )
        probes = self.canaries.sentences() if self.canaries else []
        left_out = answers.left_out(self.record.read())
        return board.model_copy(
            update={
                "title": self.plan.tournament.name,
                "gate": JudgeGate(**self.gate.as_dict()),
                "notes": [*board.notes, *probes, *left_out],
            }
        )

    @cached_property
    def winrates(self) -> list[dict[str, Any]]:
        """Wins, ties and inconsistent judgments of every pair and dimension."""
        rows = artifacts.pairwise_winrates(self.battles)
        return sorted(rows, key=lambda row: self.dimensions.index(row["dimension"]))

    @cached_property
    def quality(self) -> JudgeQuality:
        """What its verdicts show of the judge, held against labels where there are some."""
        plan, judgments = self.plan, self.judgments
        with self.record.failing():
            return JudgeQuality.of(
                plan.judge.model,
                judgments,
                repeats=self.repeats,
                labels=plan.labels,
                lengths=lengths_of(plan.responses),
                families=plan.families,
                strata={prompt.prompt_id: prompt.source for prompt in plan.prompts},
                unread=unread_rubrics(plan.judge.model, plan.material.rubrics.values()),
            )

    @cached_property
    def gate(self) -> Gate:
        """Whether the judge's verdicts may be built upon; kept in judge_gate.json."""
        earlier = failed_pilot(self.plan) if self.params.allow_failed_judge else ""
        suite = self.canary_suite
        with self.record.failing():
            return held(
                self.record,
                self.quality,
                self.plan.rules,
                more=suite.measures() if suite else concerns(self.canaries, self.plan.rules),
                note=earlier and f"This run was allowed although {earlier}.",
            )

    @cached_property
    def stability(self) -> dict[str, list[Stability]]:
        """How neighbours of each ranking fare across the sweep; kept in k_sweep.json."""
        logs = self.battles.by_dimension()
        stability = {
            dimension: neighbour_stability(by_k, self.method, logs[dimension])
            for dimension, by_k in self.sweep.items()
        }
        artifacts.write_k_sweep(self.record.path, stability, self.strengths, self.method.k)
        return stability

    @cached_property
    def changed(self) -> dict[str, Any]:
        """What this judge changed against the record whose pairs it judged again, as rejudge.json
        says it; empty where no record was.
        """
        again, folder = self.plan.rejudged, self.record.path
        if again is None or not len(self.battles):
            return {}
        with self.record.failing(self._on_failure):
            write_battles(folder / "battles.jsonl", self.battles)  # records are compared as files
            self.board.write(folder)
            return told_changes(folder, again, self.plan.judge.model)

    def answer(self) -> RunAnswer:
        """What the run found, how sure that is, and what not to conclude; kept in answer.json."""
        mode = str(self.record.read()["mode"])
        return RunAnswer(
            question=QUESTIONS.get(mode, ""),
            sentences=[*self._found(mode), *self.changed.get("sentences", [])],
            gate=self.gate,
            about_judge=mode == "pilot",
            facts=self.run_facts(),
            caveats=[
                *answers.caveats(self.plan, self.record.read()),
                *disagreements(self.board),
                *about(self.board),
            ],
        )

    def _found(self, mode: str) -> list[str]:
        """The answer in a sentence or two per dimension."""
        if mode == "k_sweep":
            return [tournament_tables.stability_answer(self.stability, self.strengths)]
        board = self.board
        answers_of = {d: order(board[d]) for d in board.rated}
        answers_of |= {d: unread(d) for d in self.quality.unread}
        missing = {d: f"{d}: not rated, {why.rstrip('.')}." for d, why in self.unrated.items()}
        return [each[d] for d in self.dimensions for each in (answers_of, missing) if d in each]

    def run_facts(self) -> dict[str, str]:
        """By whom, what, when, on what and for how much."""
        return tournament_facts.run_facts(self.plan, self.record)

    def facts(self) -> dict[str, str]:
        """What is judged by whom, in words."""
        return tournament_facts.facts(self.plan)

    def probes(self) -> dict[str, str]:
        """What canaries say of the judge, in words."""
        report = self.canaries
        said = " ".join(report.sentences()) if report else "Canaries: none were asked."
        return {"canaries": said}

    def examples(self) -> Shown:
        """Some judgments with their texts, unless the record may hold only hashes of them."""
        if self.params.inputs == "hashes":
            why = "Left out: this record keeps only hashes of its inputs (inputs: hashes)."
            return Shown(f"<p>{why}</p>", why)
        return tournament_tables.examples(
            self.judgments, self.plan.material.prompts, self.plan.responses
        )

    def save(self) -> Record:
        """Write the result artifacts and, unless a runner does it, close the record; as failed,
        with an `UnusableError`, when not one verdict can be used.
        """
        self.write()
        return self.record.close()

    def write(self) -> None:
        """Write the result artifacts; the record stays open."""
        with self.record.failing(self._on_failure):
            _ = self.gate  # kept in the record, asked for or not
            artifacts.write_results(
                self.record.path,
                self.battles,
                self.ratings,
                self.sweep,
                self.strengths,
                dimensions=self.dimensions,
                default_k=self.method.k,
                margin=self.params.margin,
            )
            self.board.write(self.record.path)
            rating = self.record.read()["rating"]
            engines = {dimension: each.engine for dimension, each in self.ratings.items()}
            self.record.update(unrated=self.unrated, rating=rating | {"engines": engines})
            self._refuse_unusable()
            write_json(self.record.path / ANSWER_FILE, self.answer().as_dict())
            if self.changed:
                write_json(self.record.path / CHANGES_FILE, self.changed)

    def _refuse_unusable(self) -> None:
        """Raise where a judge was asked and not one of its verdicts can be used."""
        statuses = Counter(str(v.status) for j in self.judgments for v in j.verdicts)
        if statuses and not statuses[Status.OK]:
            parts = ", ".join(f"{n} {status}" for status, n in sorted(statuses.items()))
            raise UnusableError(
                f"not one of {statuses.total()} verdicts can be used ({parts}); their texts are in "
                f"{self.record.path / 'verdicts'}"
            )

    def _describe(self) -> None:
        plan = self.plan
        with self.record.failing():
            keep_tournament(self.record, plan.tournament, plan.files, self.params.inputs)
        self.record.update(**tournament_facts.manifest_facts(plan))
        artifacts.write_pairs(self.record.path, plan.pairing.pairs)

    def _on_failure(self, error: BaseException) -> None:
        keep_failure(self.record, error, None if self.plan.price is None else self.plan.ledger)


def _asked_now(judgments: Sequence[Judgment]) -> int:
    """How many verdicts were not in the ledger before."""
    return sum(not verdict.cached for judgment in judgments for verdict in judgment.verdicts)
