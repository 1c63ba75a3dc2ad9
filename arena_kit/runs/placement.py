"""Placing a model in an arena of human votes, from files to a record. The notebook's door."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import Any

from arena_kit.battles.battle import Source
from arena_kit.battles.files import write_battles
from arena_kit.battles.log import BattleLog
from arena_kit.files import file_hash, write_csv, write_json
from arena_kit.judging.cost import dollars
from arena_kit.judging.gate import Gate, Rule
from arena_kit.judging.judges.baseline import unread_rubrics
from arena_kit.judging.quality.calls import lengths_of
from arena_kit.judging.quality.judge import JudgeQuality
from arena_kit.judging.records import Judgment
from arena_kit.rating import claims
from arena_kit.rating.base import Rating, RatingError, Ratings
from arena_kit.rating.hybrid import HybridRatings
from arena_kit.rating.placement import Placed
from arena_kit.reporting import placement, tournament_tables
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.answer import QUESTIONS, RunAnswer
from arena_kit.reporting.tables import Shown
from arena_kit.runs import answers
from arena_kit.runs.arena_plan import ArenaForecast, ArenaPlan
from arena_kit.runs.arena_run import ArenaRun
from arena_kit.runs.artifacts import rows_with_ranks
from arena_kit.runs.battles import (
    arena_name,
    arena_note,
    battles_file,
    battles_of,
    human_votes,
    judges_of,
)
from arena_kit.runs.canaries import concerns
from arena_kit.runs.hybrid import hybrid_summary, placed_together
from arena_kit.runs.judge_gate import held
from arena_kit.runs.parameters import PlacementParams, parameters_in
from arena_kit.runs.record import Record, Recorded, find_root
from arena_kit.runs.settings import DEFAULT_GATE, read_gate, validated

MODE = "placement"
_PLAIN = (
    "ci_low, ci_high, ranks and above of the placed model hold the evidence alone: where this "
    "judge puts it; with_judge_error also holds how far this judge is from people, null where "
    "unknown, and is what the board shows"
)


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
        given = parameters_in(PlacementParams, namespace) | parameters
        params = validated(PlacementParams, given, f"parameters of {MODE}")
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
        """Whether the judge's verdicts may be built upon; kept in judge_gate.json."""
        quality = self.quality
        with self.record.failing():
            canaries = self.run.canaries if self.run else None
            return held(self.record, quality, self.rules, more=concerns(canaries, self.rules))

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
        lexical = [answers.LEXICAL] if answers.is_lexical(self.judge_model) else []
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
        where = answers.asked_at(plan.judge) if plan else f"verdicts of {self.params.judged}"
        words = "words, no rubric" if answers.is_lexical(self.judge_model) else "two responses each"
        return {
            "judge": f"{self.judge_model}, {where}",
            "compared": f"{words}, in {self._judged_battles().removesuffix(' count')} battles",
            "votes": f"{placed.human.n_battles:,} on {len(placed.human.models)} models "
            f"in {self.arena}",
            "left out": _listed(placed.left_out, self.params.min_battles),
            "cost": self._spent(),
            **answers.of_run(self.record),
        }

    def facts(self) -> dict[str, str]:
        """What is placed where, by whom and how, in words: what is known before it is judged."""
        params = self.params
        return {
            "model": params.model,
            "judge": f"{self.judge_model}{self._about_judge()}",
            "arena": self.arena,
            **(self._asked() if self.run else {}),
            "rating": "Bradley–Terry, ties half a win, "
            f"both-bad votes {'as ties' if params.both_bad == 'tie' else 'left out'}, "
            f"inconsistent judgments {'as ties' if params.inconsistent == 'tie' else 'dropped'}",
            "interval": f"{params.n_bootstraps} resamples of whole questions, seed {params.seed}",
        }

    def _about_judge(self) -> str:
        """What is to be known about the judge beside its name."""
        if self.judge_model.startswith("baseline/"):
            return " (compares words, reads no rubric)"
        definition = self.params.definition
        own = definition is not None and definition.model == self.judge_model
        return " (judges its own answers, which judges tend to favour)" if own else ""

    def _asked(self) -> dict[str, str]:
        """What is drawn from the arena, who answers and what the judge is asked."""
        if self.run is None:
            return {}
        plan = self.run.plan
        sample, definition = plan.sample, self.params.definition
        rubric = plan.rubric
        source = f"read from {self.params.responses}"
        if definition is not None:
            source = f"made by {definition.model} ({definition.backend})"
        return {
            "answers": f"{len(sample.asked)}, {source}",
            "battles": f"{len(sample.battles)} against {len(sample.opponents)} opponents, and "
            f"{len(sample.shared)} that people decided too; drawn with seed {self.params.seed}",
            "requests": f"{2 * (len(sample.battles) + len(sample.shared))} verdicts, both orders",
            "rubric": f"{rubric.dimension} v{rubric.version}, reference: {rubric.reference}",
        }

    def counted(self) -> dict[str, str]:
        """What counted, and what a verdict was taken to be worth, in words."""
        placed = self.placed
        return {
            "human battles": f"{placed.human.n_battles} of {len(self.human)} count, "
            f"{len(placed.human.models)} models",
            **self._answered(),
            **self._canaries(),
            "judged battles": self._judged_battles(),
            "left out": _listed(placed.left_out, self.params.min_battles),
            "verdicts": _worth(placed, wanted=self.params.soft),
            "judge's error": _error(placed),
            "spent": self._spent(),
        }

    def _spent(self) -> str:
        """What this run paid, for what, in words."""
        parts = self.run.spending if self.run else {}
        if not parts:
            return "nothing"
        spent = [f"{dollars(each.usd)} on {each.answers:,} {name}" for name, each in parts.items()]
        unknown = self.record.read()["cost"]["usd_unknown"]
        aside = [f"about {dollars(unknown)} not told by the service"] if unknown else []
        return ", ".join([*spent, *aside])

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

    def _judged_battles(self) -> str:
        """How many of the model's judged battles count, and what became of the others."""
        placed = self.placed
        settled = len(self.judged) - placed.unused["judged, of other models"]
        if self.run is None:
            return f"{placed.n_judged} of {settled} count"
        drawn = len(self.run.plan.sample.battles)
        lost = f", {drawn - settled} lack a usable verdict" if drawn > settled else ""
        return f"{placed.n_judged} of {drawn} drawn count{lost}"

    def _answered(self) -> dict[str, str]:
        """What became of the answers that were made here."""
        made = self.record.read().get("answers")
        if made is None:
            return {}
        counts = ", ".join(f"{n} {status}" for status, n in sorted(made["responses"].items()))
        failed = f"; {len(made['failed'])} could not be made" if made["failed"] else ""
        return {"answers made": f"{counts or 'none'}{failed}"}

    def _canaries(self) -> dict[str, str]:
        """What the pre-flight said of the judge, where one was made."""
        canaries = self.run.canaries if self.run else None
        return {"canaries": " ".join(canaries.sentences())} if canaries else {}

    def save(self) -> Record:
        """Write battles.jsonl, elo_ratings.json, bootstrap_ratings.csv and placement.json."""
        with self.record.failing():
            _ = self.gate  # kept in the record, asked for or not
            placed, folder = self.placed, self.record.path
            if self.run is not None:
                write_battles(folder / "judged.jsonl", self.judged)
            write_battles(folder / "battles.jsonl", self._written())
            write_json(folder / "elo_ratings.json", self._elo_ratings())
            write_json(folder / ANSWER_FILE, self.answer().as_dict())
            write_json(folder / "placement.json", placement_summary(placed) | self._in_votes())
            write_csv(
                folder / "bootstrap_ratings.csv",
                _resamples(placed.joint),
                placed.joint.models,
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

    def _written(self) -> BattleLog:
        """The battles of the joint fit; without people's votes where those are only pinned."""
        battles = self.placed.battles
        if self.params.inline_human:
            return battles
        return battles.select(_judged_rows(battles))

    def _in_votes(self) -> dict[str, Any]:
        """What people and judge say together, for JSON; None where they cannot be."""
        found = self.together
        return {
            "together": found and hybrid_summary(found),
            "in_votes": placement.in_votes(self.params.model, found, self.apart),
        }

    def _elo_ratings(self) -> dict[str, Any]:
        params = self.params
        names = ("model", "rating", "ci_low", "ci_high", "n_battles")
        return {
            "arena": self.arena,
            "model": params.model,
            "judge_model": self.judge_model,
            "n_bootstraps": params.n_bootstraps,
            "seed": params.seed,
            "interval": _PLAIN,
            "with_judge_error": _interval(self.placed.cautious),
            "ratings": [
                {name: getattr(row, name) for name in names}
                | {"source": "evaluated" if row.model == params.model else "human"}
                for row in self.placed.joint.ratings
            ],
        }


def placement_summary(placed: Placed) -> dict[str, Any]:
    """Both ways of placing with rank ranges and probabilities, by the evidence alone, and the
    board as it is shown, which holds what is known of the judge's error; plain values for JSON.
    `ranks` hold for all models at once, `ranks_alone` for the placed model, named beforehand.
    """
    ways = {"joint": placed.joint, "anchored": placed.anchored, "board": placed.shown}
    return {
        "model": placed.model,
        "joint": rows_with_ranks(placed.joint),
        "anchored": rows_with_ranks(placed.anchored),
        "ranks_alone": {way: claims.single_rank_ranges(r)[placed.model] for way, r in ways.items()},
        "above": {
            "joint": _above(placed.joint, placed.model),
            "anchored": _above(placed.anchored, placed.model),
        },
        "hidden_human_rating": placed.hidden and placed.hidden.as_dict(),
        "calibration": placed.calibration and asdict(placed.calibration),
        "calibration_error": placed.calibration_error,
        "judge_error": placed.judge_error and asdict(placed.judge_error),
        "with_judge_error": placed.cautious and placed.cautious.as_dict(),
        "interval": _PLAIN,
        "board": {
            "heading": placement.heading(placed),
            "caution": placement.caution(placed),
            "ratings": rows_with_ranks(placed.shown),
            "above": _above(placed.shown, placed.model),
        },
        "left_out": placed.left_out,
        "unused": placed.unused,
        "n_judged": placed.n_judged,
        "n_human": placed.human.n_battles,
        "dropped": placed.joint.dropped,
    }


def _above(ratings: Ratings, model: str) -> dict[str, float]:
    """How probable it is that the model is above each other one."""
    row = claims.above(ratings)[ratings.models.index(model)]
    pairs = zip(ratings.models, row, strict=True)
    return {m: float(p) for m, p in pairs if m != model and not isnan(p)}


def _interval(row: Rating | None) -> dict[str, float | None] | None:
    return None if row is None else {"ci_low": row.ci_low, "ci_high": row.ci_high}


def _resamples(ratings: Ratings) -> list[dict[str, object]]:
    return [dict(zip(ratings.models, row, strict=True)) for row in ratings.replicates.tolist()]


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


def _judged_rows(battles: BattleLog) -> Any:
    if battles.source is None:
        raise TypeError("battles without a source")
    return battles.source.values() == str(Source.LLM_JUDGE)


def _listed(left_out: Mapping[str, int], least: int) -> str:
    if not left_out:
        return f"nobody (all have at least {least} human battles)"
    shown = ", ".join(f"{model} ({n})" for model, n in list(left_out.items())[:10])
    more = f" and {len(left_out) - 10} more" if len(left_out) > 10 else ""
    return f"{shown}{more}: fewer than {least} human battles"


def _error(placed: Placed) -> str:
    error = placed.judge_error
    if error is None:
        return (
            "unknown: needs 5 other models that people and the judge compared on the same battles"
        )
    return f"{error.sd:.0f} points (SD), as {error.n_models} other models show that both rated"


def _worth(placed: Placed, *, wanted: bool) -> str:
    fit = placed.calibration
    if fit is None and wanted:
        return "count in full, for want of battles that people and the judge both decided"
    if fit is None:
        return "count in full"
    return (
        f"a clear one is worth {fit.worth:.2f} of a win (temperature {fit.temperature:.2f}, "
        f"from {fit.n_shared} battles that people decided too)"
    )
