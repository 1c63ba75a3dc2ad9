"""The steps of a placement: verdicts read or made, the model placed, the record published."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import yaml

from arena_kit.battles.battle import Source
from arena_kit.battles.log import BattleLog
from arena_kit.battles.write import write_battles
from arena_kit.files import file_hash, write_csv, write_json, write_jsonl, write_text
from arena_kit.judging.asking import cost
from arena_kit.judging.asking.cost import Spending, dollars
from arena_kit.judging.judges.base import BatchJudge, PaidJudge, ServiceError
from arena_kit.judging.pairs.prompts import file_row, read_responses, responses_file
from arena_kit.judging.quality.gate import Gate
from arena_kit.judging.quality.judge import JudgeQuality
from arena_kit.judging.verdicts.records import to_battles
from arena_kit.rating.base import RatingError, Ratings, some
from arena_kit.rating.claims import claims
from arena_kit.rating.with_judge.hybrid import HybridRatings
from arena_kit.rating.with_judge.placement import Placed
from arena_kit.reporting import placement, tournament_tables
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.answer import RunAnswer
from arena_kit.reporting.board import Board, JudgeGate, board_of
from arena_kit.reporting.tables import Shown, facts
from arena_kit.runs.placement import plan as planning
from arena_kit.runs.record.artifacts import rows_with_ranks, write_pairs
from arena_kit.runs.record.inputs import NAMES, arena_name, battles_file, keep_inputs
from arena_kit.runs.record.rate_files import hybrid_summary, placed_together
from arena_kit.runs.record.record import Record
from arena_kit.runs.tournament import judge as judging
from arena_kit.runs.tournament.plan import LEXICAL, is_lexical
from arena_kit.runs.tournament.publish import asked_at

if TYPE_CHECKING:
    from arena_kit.reporting.figures import Plot


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacementVerdicts:
    """The verdicts of a placement as battles, under the arena's own names, and its record.

    `judgments` are those that were made here; None where verdicts were read.
    """

    plan: planning.PlacementPlan
    record: Record
    battles: BattleLog = field(repr=False)
    judgments: judging.Judgments | None = field(default=None, repr=False)

    @cached_property
    def quality(self) -> JudgeQuality:
        """What its verdicts and people's votes on the same battles show of the judge."""
        plan, made, model = self.plan, self.judgments, self.plan.judge_model
        if made is None:
            record = (plan.root / plan.params.judged).is_dir()  # settled by both orders
            both = record or self.battles.inconsistent is not None
            return JudgeQuality.from_battles(
                model, self.battles, labels=plan.human, both_orders=both
            )
        return made.plan.quality(model, made, labels=plan.human, battles=self.battles)

    @cached_property
    def gate(self) -> Gate:
        """Whether the judge's verdicts may be built upon."""
        canaries = self.judgments.canaries if self.judgments else None
        rules = self.plan.rules
        more = judging.concerns(canaries.measures if canaries else (), rules)
        full, note = judging.full_measurement(self.plan.root, self.record.read(), rules)
        return self.quality.gate(rules, more=more, full=full, note=note)

    @property
    def statuses(self) -> dict[str, int]:
        """How many verdicts ended in each status; empty where they were made elsewhere."""
        return dict(Counter(str(v.status) for j in self.judgments or () for v in j.verdicts))

    def examples(self) -> Shown:
        """A clear verdict and an inconsistent one on the model, with all texts."""
        if self.judgments is None or self.plan.tournament is None:
            elsewhere = "The verdicts were made elsewhere; their texts are not available."
            return Shown(f"<p>{elsewhere}</p>", elsewhere)
        entrant, own = self.plan.tournament.sample.entrant, self.judgments.plan.material
        mine = [j for j in self.judgments if entrant in (j.pair.entrant_a, j.pair.entrant_b)]
        return tournament_tables.examples(mine, own.prompts, own.responses)

    @property
    def spent(self) -> str:
        """What this run paid, and for what, in words."""
        cost = self.record.read().get("cost") or {"answers_paid": {}, "usd_unknown": 0}
        paid = cost["answers_paid"].items()
        parts = [f"{dollars(one['usd'])} on {one['answers']:,} {what}" for what, one in paid]
        if unknown := cost["usd_unknown"]:
            parts.append(f"about {dollars(unknown)} not reported by the service")
        return ", ".join(parts) or "nothing"

    @property
    def facts(self) -> dict[str, str]:
        """What became of the answers that were made here, and what canaries say of the judge."""
        words = {"spent": self.spent}
        if made := self.record.read().get("answers"):
            counts = ", ".join(f"{n} {status}" for status, n in sorted(made["responses"].items()))
            failed = f"; {len(made['failed'])} could not be made" if made["failed"] else ""
            words["answers made"] = f"{counts or 'none'}{failed}"
        if self.judgments and self.judgments.canaries:
            words["canaries"] = " ".join(self.judgments.canaries.sentences())
        return words

    def _repr_html_(self) -> str:
        met = placement.met(self.battles, self.plan.params.model, self.statuses)
        return met.html + facts(self.facts, name="verdicts").html


def judge_placement(plan: planning.PlacementPlan) -> PlacementVerdicts:
    """The verdicts of a placement, read or made, in a record. The only step that may spend: the
    model's answers are made and judged within `max_cost_usd`, canaries first.

    Answers that the ledger has are not asked for again. A run that fails leaves its record.
    """
    tournament = plan.tournament
    if tournament is not None:
        tournament.refuse_unready()
    record = Record.begin(planning.MODE, plan.params.model_dump(mode="json"), plan.root)
    with record.failing():
        _describe(plan, record)
    if tournament is None:
        return PlacementVerdicts(plan=plan, record=record, battles=plan.verdicts)
    forecast = record.read().get("cost", {}).get("forecast")
    forecast = forecast or planning.forecast_values(tournament.forecast)
    expected = tournament.expected
    with judging.booked(expected, record, spends=bool(tournament.paid)):
        record.update(cost=record.read().get("cost", {}) | {"forecast": forecast})
        tournament.refuse_above_cap(record.token)
        began = judging.ask_canaries(expected, record)
        answers = _answers(tournament, record)
        _keep_inputs(tournament, record, answers)
        sampled = tournament.plan(answers)
        write_pairs(record.path, sampled.pairing.pairs)
        judgments = judging.judge(sampled, earlier=replace(began, plan=sampled))
    settled = tournament.sample.renamed(to_battles(judgments))
    battles = replace(settled, dimension=None).of_source(Source.LLM_JUDGE, plan.judge_model)
    _keep_cost(tournament, record, forecast)
    return PlacementVerdicts(plan=plan, record=record, battles=battles, judgments=judgments)


def _answers(tournament: planning.SampleTournament, record: Record) -> planning.Responses:
    """The model's answers to the sampled prompts, read, or made into the ledger and the record."""
    job = tournament.job
    if job is None:
        ids = {prompt.prompt_id for prompt in tournament.sample.asked}
        answers = {cell: each for cell, each in tournament.given.items() if cell[1] in ids}
    else:
        with TemporaryDirectory(prefix="arena-kit-") as scratch:
            made = job.fill(responses_file(Path(scratch), job.entrant), record)
            answers = read_responses(Path(scratch), [job.entrant], job.answers())
        record.update(answers=made)
    if not answers:
        raise ServiceError(f"not one answer of {tournament.params.model} was made")
    return answers


def _describe(plan: planning.PlacementPlan, record: Record) -> None:
    """Keep in the record what is placed where, and what is judged by whom."""
    params, settings = plan.params, plan.settings
    record.update(
        model=params.model,
        placement=settings.model_dump(mode="json"),
        arena=arena_name(params.human, params.arena),
        judge={"model": plan.judge_model},
        human_battles=_pin(plan.root, params.human) | {"note": plan.note},
        judged_battles=None if plan.tournament else _pin(plan.root, params.judged),
        seeds={"resamples": params.seed},
    )
    if plan.tournament is not None:
        _describe_sample(plan.tournament, record)


def _pin(root: Path, file: str) -> dict[str, Any]:
    return {"file": file, "sha256": file_hash(battles_file(root / file))}


def _describe_sample(tournament: planning.SampleTournament, record: Record) -> None:
    """Say in the manifest how the sample was drawn, by whom it is answered and judged."""
    sample, rubric, job = tournament.sample, tournament.rubric, tournament.job
    judge, file = tournament.judge, str(tournament.tournament.placement.rubric)
    text = {"file": file, "version": rubric.version, "sha256": rubric.digest}
    record.update(
        tournament=tournament.tournament.model_dump(mode="json"),
        judge={"model": judge.model, "settings": dict(judge.settings)},
        dimensions=[rubric.dimension],
        rubrics={rubric.dimension: text},
        sample={
            **{name: len(getattr(sample, name)) for name in ("battles", "shared", "prompts")},
            "opponents": sample.opponents,
            "left_out": dict(sample.left_out),
            "seed": tournament.params.seed,
        },
        generator=job and job.definition.model_dump(mode="json") | {"entrant": sample.entrant},
    )
    _keep_inputs(tournament, record)


def _keep_inputs(
    tournament: planning.SampleTournament, record: Record, answers: planning.Responses | None = None
) -> None:
    """Keep what is judged as a tournament's files, so that the record can be read anywhere; the
    model's own answers as well, when they are there.
    """
    sample, rubric = tournament.sample, tournament.rubric
    rows = defaultdict(list)
    for (entrant, _), response in {**sample.recorded, **(answers or {})}.items():
        rows[entrant].append(file_row(response))
    entrants = sorted({*rows, sample.entrant})
    file = tournament.tournament.model_dump(mode="json") | {"entrants": entrants, "generate": {}}
    names = {"models": dict(sample.models), "questions": dict(sample.questions)}
    with TemporaryDirectory(prefix="arena-kit-") as scratch:
        folder = Path(scratch)
        for entrant in entrants:
            write_jsonl(responses_file(folder / "responses", entrant), rows[entrant])
        write_jsonl(folder / "prompts.jsonl", [file_row(prompt) for prompt in sample.prompts])
        write_text(folder / "rubrics" / f"{rubric.dimension}.md", rubric.text)
        write_text(folder / "tournament.yaml", yaml.safe_dump(file, sort_keys=False))
        write_json(folder / NAMES, names)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        named = {path.relative_to(folder).as_posix(): path for path in files}
        keep_inputs(record, named, tournament.tournament.report.inputs)


def _keep_cost(
    tournament: planning.SampleTournament, record: Record, forecast: Mapping[str, Any]
) -> None:
    """Keep what the run paid for answers and for verdicts, without what is free, held against the
    forecast and the cap.
    """
    ledger, run, cap = tournament.expected.ledger, record.token, tournament.params.max_cost_usd
    paid = defaultdict(list)
    for answer in ledger.paid(run):
        made = answer.request_id.startswith("generate|")
        paid["answers" if made else "verdicts"].append(answer)
    asked = {"answers": tournament.job and tournament.job.judge, "verdicts": tournament.judge}
    spending = {
        name: Spending.of(paid[name], judge.price, batch=isinstance(judge, BatchJudge)).as_dict()
        for name, judge in asked.items()
        if isinstance(judge, PaidJudge)
    }
    over = 0 < cap < cost.booked(ledger, run)
    own = {"forecast": forecast, "answers_paid": spending, "over_cap": over}
    own |= {"usd_unknown": ledger.usd_unknown(run)}
    record.update(cost=record.read()["cost"] | own)


@dataclass(frozen=True, kw_only=True)
class PlacedModel:
    """A model placed among others, jointly and with the others held fixed (`placed`), and all of
    them by people and judge `together`; `apart` says why where that is not possible.
    """

    verdicts: PlacementVerdicts
    placed: Placed
    together: HybridRatings | None
    apart: str = ""

    @property
    def _judged_battles(self) -> str:
        """How many of the model's judged battles count, and what became of the others."""
        placed, tournament = self.placed, self.verdicts.plan.tournament
        settled = len(self.verdicts.battles) - placed.unused["judged, of other models"]
        if tournament is None:
            return f"{placed.n_judged} of {settled} count"
        drawn = len(tournament.sample.battles)
        lost = f", {drawn - settled} lack a usable verdict" if drawn > settled else ""
        return f"{placed.n_judged} of {drawn} drawn count{lost}"

    @property
    def _left_out(self) -> str:
        """The models that have too few human battles to be rated."""
        least, models = self.verdicts.plan.params.min_battles, self.placed.left_out
        if not models:
            return f"nobody (all have at least {least} human battles)"
        shown = some([f"{model} ({n})" for model, n in models.items()], 10)
        return f"{shown}: fewer than {least} human battles"

    def answer(self) -> RunAnswer:
        """Where the model stands, how sure that is, and what not to conclude."""
        plan, model = self.verdicts.plan, self.verdicts.plan.params.model
        lexical = [LEXICAL] if is_lexical(plan.judge_model) else []
        votes = [f"People's votes: {plan.note}."] if plan.note else []
        worth = [placement.in_votes(model, self.together, self.apart)]
        brief = placement.brief(self.placed)
        return RunAnswer(
            brief=brief,
            sentences=[brief[0], *(worth if self.together else [])],
            gate=self.verdicts.gate,
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
        plan, placed = self.verdicts.plan, self.placed
        asked = plan.tournament and asked_at(plan.tournament.judge)
        words = "words, no rubric" if is_lexical(plan.judge_model) else "two responses each"
        return {
            "judge": f"{plan.judge_model}, {asked or f'verdicts of {plan.params.judged}'}",
            "compared": f"{words}; of its battles, {self._judged_battles}",
            "votes": f"{placed.human.n_battles:,} of {len(plan.human):,} on "
            f"{len(placed.human.models)} models in {plan.arena}",
            "left out": self._left_out,
            "cost": self.verdicts.spent,
            **self.verdicts.record.facts,
        }


def place(verdicts: PlacementVerdicts) -> PlacedModel:
    """The model among the others, by people's votes on those and the judge's verdicts on it.

    Verdicts that were made here count in full where too few of them meet people's votes.
    """
    plan, method = verdicts.plan, verdicts.plan.method
    with verdicts.record.failing():
        try:
            placed = method(plan.human, verdicts.battles)
        except RatingError:
            if verdicts.judgments is None or not method.soft:
                raise
            placed = replace(method, soft=False)(plan.human, verdicts.battles)
    try:
        together = placed_together(placed, plan.human, verdicts.battles)
    except RatingError as error:
        return PlacedModel(verdicts=verdicts, placed=placed, together=None, apart=str(error))
    return PlacedModel(verdicts=verdicts, placed=placed, together=together)


def publish_placement(
    model: PlacedModel, *, answer: RunAnswer | None = None, figures: Sequence[Plot] = ()
) -> Record:
    """Write the artifacts of a placement into its record and, unless a runner does it, close it:
    battles.jsonl, board.json, elo_ratings.json, bootstrap_ratings.csv and placement.json.
    """
    verdicts, placed = model.verdicts, model.placed
    plan, record, folder = verdicts.plan, verdicts.record, verdicts.record.path
    joint, in_votes = placed.joint, placement.in_votes(placed.model, model.together, model.apart)
    both = {"together": model.together and hybrid_summary(model.together), "in_votes": in_votes}
    with record.failing():
        judging.write_gate(record, verdicts.gate, verdicts.quality)
        if verdicts.judgments is not None:
            write_battles(folder / "judged.jsonl", verdicts.battles)
        write_battles(folder / "battles.jsonl", placed.battles)
        gate = JudgeGate(**verdicts.gate.as_dict())
        board = placement_board(placed, plan.arena, in_votes)
        board.model_copy(update={"gate": gate}).write(folder)
        resamples = [dict(zip(joint.models, row, strict=True)) for row in joint.replicates.tolist()]
        write_csv(folder / "bootstrap_ratings.csv", resamples, joint.models)
        made = {"method": joint.method, "settings": joint.settings}
        record.update(rating=made, left_out=placed.left_out, unused=placed.unused)
        files = {
            "elo_ratings.json": elo_ratings(placed, plan),
            "placement.json": placement_summary(placed) | both,
            ANSWER_FILE: (answer or model.answer()).as_dict(),
        }
    return record.publish(files, figures)


_INTERVAL = (
    "ci_low, ci_high, ranks and above of the placed model do not include the judge error; "
    "with_judge_error does (null where unknown), as the board"
)


def placement_summary(placed: Placed) -> dict[str, Any]:
    """placement.json: both ways of placing with rank ranges and probabilities, by the evidence
    alone; board.json is what is shown, which holds what is known of the judge's error. `ranks`
    hold for all models at once, `ranks_alone` for the placed model, named beforehand.
    """
    ways = {"joint": placed.joint, "anchored": placed.anchored}
    shown = ways | {"board": placed.shown}
    return {
        "model": placed.model,
        **{way: rows_with_ranks(rated) for way, rated in ways.items()},
        "ranks_alone": {n: claims.single_rank_ranges(r)[placed.model] for n, r in shown.items()},
        "above": {way: _above(rated, placed.model) for way, rated in shown.items()},
        "hidden_human_rating": placed.hidden and placed.hidden.as_dict(),
        "calibration": placed.calibration and asdict(placed.calibration),
        "calibration_error": placed.calibration_error,
        "judge_error": placed.judge_error and asdict(placed.judge_error),
        "with_judge_error": placed.cautious and placed.cautious.as_dict(),
        "interval": _INTERVAL,
        "left_out": placed.left_out,
        "unused": placed.unused,
        "n_judged": placed.n_judged,
        "n_human": placed.human.n_battles,
        "dropped": placed.joint.dropped,
    }


def placement_board(placed: Placed, title: str, in_votes: str) -> Board:
    """The board as it is shown, the placed model marked; beside it both ways of placing by the
    evidence alone.
    """
    shown, ways = placed.shown, {"joint": placed.joint, "anchored": placed.anchored}
    board = board_of({"": shown}, beside={way: {"": each} for way, each in ways.items()})
    said = [sentence for sentence in (placement.caution(placed), in_votes) if sentence]
    rows = [
        row.model_copy(update={"marked": True}) if row.model == placed.model else row
        for row in board.ratings
    ]
    dimension = board[""].model_copy(update={"sentences": said, "orders": []})
    heading = f"{placed.model} in {title}: {placement.heading(placed)}"
    return board.model_copy(update={"title": heading, "ratings": rows, "dimensions": [dimension]})


def elo_ratings(placed: Placed, plan: planning.PlacementPlan) -> dict[str, Any]:
    """elo_ratings.json: every model's rating, and how it was made."""
    names, cautious = ("model", "rating", "ci_low", "ci_high", "n_battles"), placed.cautious
    return {
        "arena": plan.arena,
        "model": placed.model,
        "judge_model": plan.judge_model,
        "n_bootstraps": plan.settings.n_bootstraps,
        "seed": plan.params.seed,
        "interval": _INTERVAL,
        "with_judge_error": cautious and {"ci_low": cautious.ci_low, "ci_high": cautious.ci_high},
        "ratings": [
            {name: getattr(row, name) for name in names}
            | {"source": "evaluated" if row.model == placed.model else "human"}
            for row in placed.joint.ratings
        ],
    }


def _above(ratings: Ratings, model: str) -> dict[str, float]:
    """How probable it is that the model is above each other one."""
    row = claims.above(ratings)[ratings.models.index(model)]
    pairs = zip(ratings.models, row, strict=True)
    return {m: float(p) for m, p in pairs if m != model and not isnan(p)}
