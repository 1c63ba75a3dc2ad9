"""Placing a model in an arena of human votes, from files to a record. The notebook's door."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from arena_kit.battles.battle import Source
from arena_kit.battles.log import BattleLog
from arena_kit.battles.write import write_battles
from arena_kit.files import file_hash, write_csv, write_json
from arena_kit.judging.judges.baseline import unread_rubrics
from arena_kit.judging.quality.calls import lengths_of
from arena_kit.judging.quality.gate import Gate, Rule
from arena_kit.judging.quality.judge import JudgeQuality
from arena_kit.judging.verdicts.records import Judgment
from arena_kit.rating.base import RatingError
from arena_kit.rating.with_judge.hybrid import HybridRatings
from arena_kit.rating.with_judge.placement import Placed
from arena_kit.reporting import placement, tournament_tables
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.answer import QUESTIONS, RunAnswer
from arena_kit.reporting.board import JudgeGate
from arena_kit.reporting.tables import Shown
from arena_kit.runs.placement import facts as placement_facts
from arena_kit.runs.placement.artifacts import (
    bootstrap_rows,
    elo_ratings,
    judged_battles,
    placement_board,
    placement_summary,
)
from arena_kit.runs.placement.ask import ArenaRun
from arena_kit.runs.placement.hybrid import hybrid_summary, placed_together
from arena_kit.runs.placement.plan import ArenaForecast, ArenaPlan
from arena_kit.runs.record.battles import (
    arena_name,
    arena_note,
    battles_file,
    battles_of,
    human_votes,
    judges_of,
)
from arena_kit.runs.record.record import Record, Recorded, find_root
from arena_kit.runs.settings.files import DEFAULT_GATE, read_gate
from arena_kit.runs.settings.parameters import PlacementParams, told
from arena_kit.runs.tournament.canaries import concerns
from arena_kit.runs.tournament.facts import asked_at
from arena_kit.runs.tournament.judge_gate import write_gate
from arena_kit.runs.tournament.plan import LEXICAL, is_lexical

MODE = "placement"


@dataclass(frozen=True, kw_only=True)
class PlacementInputs:
    """What a placement reads: votes, verdicts or the plan that asks for some, and rules."""

    human: BattleLog = field(repr=False)
    verdicts: BattleLog | None = field(repr=False)
    plan: ArenaPlan | None
    rules: Mapping[str, Rule]


def read_inputs(params: PlacementParams, root: Path) -> PlacementInputs:
    """Read all inputs; a judge is ready to be asked, within a cap where it must be paid."""
    plan = ArenaPlan.read(params, root) if params.judged_here else None
    rules = read_gate(root, plan.tournament.judge.gate if plan else DEFAULT_GATE)
    if plan is not None:
        plan.refuse_without_cap()
    human = plan.human if plan else human_votes(params.human, root, winner=params.human_winner)
    verdicts = None if plan else _read_verdicts(root, params)
    return PlacementInputs(human=human, verdicts=verdicts, plan=plan, rules=rules)


@dataclass(frozen=True, kw_only=True)
class PlacementStudy(Recorded):
    """One model placed among others; open one with `PlacementStudy.open`, then ask for `placed`
    and `save()` the artifacts.

    `verdicts` were made elsewhere; where there are none, `run` asks for them. `rules` say what the
    judge must keep.
    """

    root: Path
    params: PlacementParams
    human: BattleLog = field(repr=False)
    verdicts: BattleLog | None = field(repr=False)
    run: ArenaRun | None = field(repr=False)
    rules: Mapping[str, Rule] = field(repr=False)

    @classmethod
    def open(
        cls, namespace: Mapping[str, Any] | None = None, /, **parameters: Any
    ) -> PlacementStudy:
        """Validate parameters and read all inputs, then claim a record and write its manifest.

        A notebook passes its `globals()`, of which the parameters are taken.
        """
        root = find_root()
        params = told(PlacementParams, MODE, namespace, parameters)
        inputs = read_inputs(params, root)
        record = Record.begin(MODE, params.model_dump(mode="json"), root)
        study = cls(
            root=root,
            params=params,
            human=inputs.human,
            verdicts=inputs.verdicts,
            run=ArenaRun(plan=inputs.plan, record=record) if inputs.plan else None,
            rules=inputs.rules,
            record=record,
        )
        study._describe()
        return study

    @cached_property
    def judged(self) -> BattleLog:
        """The verdicts as battles: as they were read, or as the judge settles them now."""
        if self.run is not None:
            return self.run.battles
        if self.verdicts is None:
            raise TypeError("neither verdicts nor a judge")
        return self.verdicts

    @cached_property
    def placed(self) -> Placed:
        """The model among the others, placed jointly and with the others held fixed.

        Verdicts that were made here count in full where too few of them meet people's votes.
        """
        judged, place = self.judged, self.params.placement()
        with self.record.failing():
            try:
                return place(self.human, judged)
            except RatingError:
                if not (self.run and place.soft):
                    raise
                return replace(place, soft=False)(self.human, judged)

    @cached_property
    def _both(self) -> HybridRatings | RatingError:
        """All models by votes and verdicts together, or why that is not possible."""
        try:
            return placed_together(self.placed, self.human, self.judged)
        except RatingError as error:
            return error

    @property
    def together(self) -> HybridRatings | None:
        """All models by people and judge together, votes on the placed one included; None where
        that is not possible, and `apart` says why.
        """
        return self._both if isinstance(self._both, HybridRatings) else None

    @property
    def apart(self) -> str:
        """Why people and judge cannot be rated together; empty where they can."""
        return str(self._both) if isinstance(self._both, RatingError) else ""

    @property
    def judge_model(self) -> str:
        """Who judged: who is asked now, else as the parameters say, else as the battles do."""
        if self.run is not None:
            return self.run.plan.judge.model
        column = self.params.judged_winner
        named = self.params.judge_model or next(iter(judges_of(self.judged)), "")
        return named or ("a judge without a name" if column == "winner" else column)

    @cached_property
    def quality(self) -> JudgeQuality:
        """What its verdicts and people's votes on the same battles show of the judge."""
        judged, judgments = self.judged, self.judgments
        with self.record.failing():
            if self.run is None:
                settled = (self.root / self.params.judged).is_dir()  # a record's, by both orders
                return JudgeQuality.from_battles(
                    self.judge_model,
                    judged,
                    labels=self.human,
                    both_orders=settled or judged.inconsistent is not None,
                )
            plan = self.run.judging
            return JudgeQuality.of(
                self.judge_model,
                judgments,
                labels=self.human,
                battles=judged,
                lengths=lengths_of(plan.responses),
                families=plan.families,
                unread=unread_rubrics(self.judge_model, [self.run.plan.rubric]),
            )

    @cached_property
    def gate(self) -> Gate:
        """Whether the judge's verdicts may be built upon."""
        quality = self.quality
        with self.record.failing():
            canaries = self.run.canaries if self.run else None
            measures = canaries.measures if canaries else ()
            return quality.gate(self.rules, more=concerns(measures, self.rules))

    @property
    def note(self) -> str:
        """What is to be known about the votes: as the parameters say, else as the sessions do."""
        return arena_note(self.human, self.params.human_note)

    @property
    def arena(self) -> str:
        """The arena's name with what must be said of it: as the parameters say, else its file's."""
        return arena_name(self.params.human, self.params.arena, self.note)

    def answer(self) -> RunAnswer:
        """Where the model stands, how sure that is, what not to conclude; kept in answer.json."""
        lexical = [LEXICAL] if is_lexical(self.judge_model) else []
        votes = [f"People's votes: {self.note}."] if self.note else []
        worth = [placement.in_votes(self.params.model, self.together, self.apart)]
        return RunAnswer(
            question=QUESTIONS[MODE],
            sentences=[placement.answer(self.placed), *(worth if self.together else [])],
            gate=self.gate,
            caveats=[
                placement.caution(self.placed),
                *([] if self.together else worth),
                *votes,
                *lexical,
            ],
            facts=self._run_facts(),
        )

    def _run_facts(self) -> dict[str, str]:
        """By whom, on what, when and for how much."""
        plan, placed = self.run and self.run.plan, self.placed
        where = asked_at(plan.judge) if plan else f"verdicts of {self.params.judged}"
        words = "words, no rubric" if is_lexical(self.judge_model) else "two responses each"
        return {
            "judge": f"{self.judge_model}, {where}",
            "compared": f"{words}, in {self._judged_battles.removesuffix(' count')} battles",
            "votes": f"{placed.human.n_battles:,} on {len(placed.human.models)} models "
            f"in {self.arena}",
            "left out": placement_facts.left_out(placed.left_out, self.params.min_battles),
            "cost": placement_facts.spent(self.run),
            **self.record.facts,
        }

    def facts(self) -> dict[str, str]:
        """What is placed where, by whom and how, in words: what is known before it is judged."""
        params = self.params
        return {
            "model": params.model,
            "judge": f"{self.judge_model}{placement_facts.about_judge(self.judge_model, params)}",
            "arena": self.arena,
            **(placement_facts.asked(self.run.plan) if self.run else {}),
            "rating": "Bradley–Terry, ties half a win, "
            f"both-bad votes {'as ties' if params.both_bad == 'tie' else 'left out'}, "
            f"inconsistent judgments {'as ties' if params.inconsistent == 'tie' else 'dropped'}",
            "interval": f"{params.n_bootstraps} resamples of whole questions, seed {params.seed}",
        }

    def counted(self) -> dict[str, str]:
        """What counted, and what a verdict was taken to be worth, in words."""
        placed = self.placed
        return {
            "human battles": f"{placed.human.n_battles} of {len(self.human)} count, "
            f"{len(placed.human.models)} models",
            **(placement_facts.of_run(self.run) if self.run else {}),
            "judged battles": self._judged_battles,
            "left out": placement_facts.left_out(placed.left_out, self.params.min_battles),
            "verdicts": placement_facts.worth(placed, wanted=self.params.soft),
            "judge's error": placement_facts.judge_error(placed),
            "spent": placement_facts.spent(self.run),
        }

    @property
    def _judged_battles(self) -> str:
        return placement_facts.judged_battles(self.placed, len(self.judged), self.run)

    @property
    def forecast(self) -> ArenaForecast:
        """What answers and verdicts would cost; nothing where both were made before."""
        return self.run.plan.forecast if self.run else ArenaForecast(answers=None, verdicts=None)

    @property
    def statuses(self) -> dict[str, int]:
        """How many verdicts ended in each status; empty where they were made elsewhere."""
        return dict(Counter(str(v.status) for j in self.judgments for v in j.verdicts))

    @property
    def judgments(self) -> list[Judgment]:
        """What was judged here, both orders settled."""
        return self.run.judgments if self.run else []

    def examples(self) -> Shown:
        """A clear verdict and an inconsistent one on the model, with all texts."""
        if self.run is None:
            elsewhere = "The verdicts were made elsewhere; their texts are not at hand."
            return Shown(f"<p>{elsewhere}</p>", elsewhere)
        entrant, plan = self.run.plan.sample.entrant, self.run.judging
        mine = [j for j in self.judgments if entrant in (j.pair.entrant_a, j.pair.entrant_b)]
        return tournament_tables.examples(mine, plan.material.prompts, plan.responses)

    def save(self) -> Record:
        """Write battles.jsonl, elo_ratings.json, bootstrap_ratings.csv and placement.json."""
        with self.record.failing():
            write_gate(self.record, self.gate, self.quality)
            placed, folder = self.placed, self.record.path
            if self.run is not None:
                write_battles(folder / "judged.jsonl", self.judged)
            every = placed.battles  # of the joint fit; people's votes may be pinned only
            written = every if self.params.inline_human else judged_battles(every)
            write_battles(folder / "battles.jsonl", written)
            ratings = elo_ratings(
                placed, self.params, arena=self.arena, judge_model=self.judge_model
            )
            write_json(folder / "elo_ratings.json", ratings)
            write_json(folder / ANSWER_FILE, self.answer().as_dict())
            write_json(folder / "placement.json", placement_summary(placed) | self._in_votes())
            in_votes = str(self._in_votes().get("in_votes") or "")
            board = placement_board(placed, self.arena, in_votes)
            board.model_copy(update={"gate": JudgeGate(**self.gate.as_dict())}).write(folder)
            write_csv(
                folder / "bootstrap_ratings.csv", bootstrap_rows(placed.joint), placed.joint.models
            )
            self.record.update(
                rating={"method": placed.joint.method, "settings": placed.joint.settings},
                left_out=placed.left_out,
                unused=placed.unused,
            )
        return self.record.close()

    def _describe(self) -> None:
        params = self.params
        self.record.update(
            model=params.model,
            arena=arena_name(params.human, params.arena),
            judge={"model": self.judge_model},
            human_battles={
                "file": params.human,
                "sha256": file_hash(battles_file(self.root / params.human)),
                "inlined": params.inline_human,
                "note": self.note,
            },
            judged_battles=None
            if self.run
            else {
                "file": params.judged,
                "sha256": file_hash(battles_file(self.root / params.judged)),
            },
            seeds={"resamples": params.seed},
        )
        if self.run is not None:
            self.run.describe()

    def _in_votes(self) -> dict[str, Any]:
        """What people and judge say together, for JSON; None where they cannot be."""
        together = self.together
        return {
            "together": together and hybrid_summary(together),
            "in_votes": placement.in_votes(self.params.model, together, self.apart),
        }


def _read_verdicts(root: Path, params: PlacementParams) -> BattleLog:
    """The verdicts of one judge on one dimension, which is then forgotten: votes have none."""
    verdicts = battles_of(
        params.judged,
        root,
        winner=params.judged_winner,
        source=Source.LLM_JUDGE,
        dimension=params.dimension,
        judge_model=params.judge_model,
    )
    judge = params.judge_model or next(iter(judges_of(verdicts)), None)
    return replace(verdicts, dimension=None).of_source(Source.LLM_JUDGE, judge)
