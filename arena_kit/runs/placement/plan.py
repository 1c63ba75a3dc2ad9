"""What placing a model among others would read, ask and cost, before anything is sent.

Verdicts are read, or made here: then a sample of the arena is a tournament of one rubric, planned
and judged as any other.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from arena_kit.battles.battle import Source
from arena_kit.battles.log import BattleLog
from arena_kit.battles.read import read_battle_texts
from arena_kit.files import DataError, read_text
from arena_kit.judging.asking import cost
from arena_kit.judging.judges.base import Judge, PaidJudge
from arena_kit.judging.pairs.pairing import Pairing
from arena_kit.judging.pairs.prompts import Response, read_prompts, read_responses
from arena_kit.judging.quality.gate import Rule
from arena_kit.judging.verdicts.rendering import Rubric
from arena_kit.rating.with_judge.placement import MIN_SHARED, Placement
from arena_kit.reporting import placement, tables
from arena_kit.runs.placement import sample as sampling
from arena_kit.runs.record import inputs
from arena_kit.runs.record.record import find_root
from arena_kit.runs.settings import files
from arena_kit.runs.settings.judges import make_judge
from arena_kit.runs.settings.parameters import PlacementParams, resolve_parameters
from arena_kit.runs.tournament.generate import Job
from arena_kit.runs.tournament.plan import Plan, is_lexical, material_of

MODE = "placement"
Responses = Mapping[tuple[str, str], Response]


#: What the model's `answers` and the `verdicts` on them would cost, without what is free. Verdicts
#: on answers that are not made yet are priced with answers of the expected length.
Forecasts = Mapping[str, cost.Forecast]


def forecast_values(parts: Forecasts) -> dict[str, Any]:
    """The forecasts of a placement and their sums as plain values, for JSON."""
    names = ("usd_all_hits", "usd_no_cache", "usd_no_hits", "usd_at_most")
    total = {name: sum(getattr(part, name) for part in parts.values()) for name in names}
    return {name: part.as_dict() for name, part in parts.items()} | {"total": total}


@dataclass(frozen=True, kw_only=True)
class SampleTournament:
    """A sample of the arena to be judged: who answers it, who judges it, and for how much.

    `given` are the model's answers where they are read; `job` makes them where they are not.
    """

    root: Path
    params: PlacementParams
    tournament: files.TournamentFile
    sample: sampling.ArenaSample
    rubric: Rubric = field(repr=False)
    judge: Judge
    given: Responses = field(repr=False)
    job: Job | None

    @property
    def paid(self) -> list[PaidJudge]:
        """Who is asked over the network: the model itself, the judge, both or none."""
        generator = [self.job.judge] if self.job else []
        return [*generator, *([self.judge] if isinstance(self.judge, PaidJudge) else [])]

    def refuse_unready(self) -> None:
        """Raise when somebody who is asked must be paid without a cap, or lacks a key."""
        if self.params.offline:
            return
        cost.refuse_without_cap(self.paid, self.params.max_cost_usd)
        if self.job is not None and self.job.fresh():
            self.job.judge.ready()
        if isinstance(self.judge, PaidJudge) and self.plan(self.answers_at_hand()).buys:
            self.judge.ready()

    def refuse_above_cap(self, run: str) -> None:
        """Raise, before anything is sent, when what this run has spent and what answers and
        verdicts are forecast at exceed the cap together.
        """
        if self.params.offline or all(each.price.free for each in self.paid):
            return
        spent = cost.booked(self.expected.ledger, run)
        cost.refuse_above_cap(self.forecast, self.params.max_cost_usd, spent)

    @cached_property
    def forecast(self) -> Forecasts:
        """What would be sent and what that costs, after all that the ledger already answers."""
        parts = {"answers": self.job.forecast()} if self.job else {}
        verdicts = self.expected.forecast
        return parts | ({"verdicts": verdicts} if verdicts else {})

    @cached_property
    def expected(self) -> Plan:
        """The plan of judging; for answers not made yet with recorded ones, cut or repeated to the
        usual length.
        """
        sample, job, stand_ins = self.sample, self.job, {}
        if job is None:
            return self.plan(self.answers_at_hand())
        n_bytes = round(job.budget.output_tokens()[0] / job.budget.estimator.tokens_per_byte)
        for pair in sample.battles:
            text = sample.recorded[sample.opponent(pair), pair.prompt_id].response_text
            cell = (sample.entrant, pair.prompt_id)
            stand_ins[cell] = Response(
                entrant_id=cell[0], prompt_id=cell[1], response_text=_of_length(text, n_bytes)
            )
        return self.plan(stand_ins | self.answers_at_hand())

    def answers_at_hand(self) -> dict[tuple[str, str], Response]:
        """The model's answers that were read, or that the ledger has."""
        made = self.job.answers() if self.job else {}
        return {**self.given, **{(self.sample.entrant, q): each for q, each in made.items()}}

    def plan(self, answers: Responses) -> Plan:
        """The plan of judging these answers of the model, and the battles that people decided."""
        sample, dimension = self.sample, self.rubric.dimension
        there = [p for p in sample.battles if (sample.entrant, p.prompt_id) in answers]
        absent = [p.prompt_id for p in sample.asked if (sample.entrant, p.prompt_id) not in answers]
        prompts = list(sample.prompts)
        path = self.root / self.params.tournament
        return Plan(
            mode=MODE,
            root=self.root,
            params=self.params,
            tournament=self.tournament,
            files=inputs.InputFiles.in_workspace(path, self.tournament, self.root),
            prompts=prompts,
            pairing=Pairing(
                pairs=(*there, *sample.shared),
                missing=tuple((sample.entrant, q) for q in absent),
                dropped_prompts=(),
                dropped_pairs={dimension: len(sample.battles) - len(there)},
            ),
            material=material_of(
                prompts,
                {**sample.recorded, **answers},
                {dimension: self.rubric},
                self.tournament,
                self.root,
            ),
            judge=self.judge,
        )

    def facts(self) -> dict[str, str]:
        """What is drawn from the arena, who answers and what the judge is asked, in words."""
        sample, params, rubric = self.sample, self.params, self.rubric
        source = f"read from {params.responses}"
        if self.job is not None:
            source = f"made by {self.job.definition.model} ({self.job.definition.backend})"
        return {
            "answers": f"{len(sample.asked)}, {source}",
            "battles": f"{len(sample.battles)} against {len(sample.opponents)} opponents, and "
            f"{len(sample.shared)} that people decided too; drawn with seed {params.seed}",
            "requests": f"{2 * (len(sample.battles) + len(sample.shared))} verdicts, both orders",
            "rubric": f"{rubric.dimension} v{rubric.version}, reference: {rubric.reference}",
        }


@dataclass(frozen=True, kw_only=True)
class PlacementPlan:
    """What a placement reads and would ask; nothing has been sent or written.

    `verdicts` were made elsewhere, or `tournament` makes them: then there are none yet. `rules` say
    what the judge must keep.
    """

    root: Path
    params: PlacementParams
    settings: files.PlacementSettings
    human: BattleLog = field(repr=False)
    verdicts: BattleLog = field(repr=False)
    tournament: SampleTournament | None
    rules: Mapping[str, Rule] = field(repr=False)

    @property
    def method(self) -> Placement:
        """How the model is placed."""
        params = self.params
        return self.settings.method(params.model, params.min_battles, params.seed)

    @property
    def forecast(self) -> Forecasts:
        """What answers and verdicts would cost; nothing where both were made before."""
        return self.tournament.forecast if self.tournament else {}

    @property
    def judge_model(self) -> str:
        """Who judges: who is asked, else as the parameters say, else as the battles do."""
        if self.tournament is not None:
            return self.tournament.judge.model
        column = self.settings.judged_winner
        named = self.params.judge_model or next(iter(inputs.judges_of(self.verdicts)), "")
        return named or ("an unnamed judge" if column == "winner" else column)

    @property
    def note(self) -> str:
        """What is to be known about the votes: as the settings say, else as the sessions do."""
        return inputs.arena_note(self.human, self.settings.human_note)

    @property
    def arena(self) -> str:
        """The arena's name with what must be said of it: as the parameters say, else its file's."""
        return inputs.arena_name(self.params.human, self.params.arena, self.note)

    @property
    def facts(self) -> dict[str, str]:
        """What is placed where, by whom and how, in words."""
        params, settings = self.params, self.settings
        return {
            "model": params.model,
            "judge": f"{self.judge_model}{self._about_judge}",
            "arena": self.arena,
            **(self.tournament.facts() if self.tournament else {}),
            "rating": "Bradley–Terry, ties half a win, "
            f"both-bad votes {'as ties' if settings.both_bad == 'tie' else 'left out'}, "
            f"inconsistent judgments {'as ties' if settings.inconsistent == 'tie' else 'dropped'}",
            "interval": f"{settings.n_bootstraps} resamples of whole questions, seed {params.seed}",
        }

    @property
    def _about_judge(self) -> str:
        """What is to be known about the judge beside its name."""
        if is_lexical(self.judge_model):
            return " (demo judge, ignores rubrics)"
        definition = self.settings.generate
        own = definition is not None and definition.model == self.judge_model
        return " (judges its own answers: risk of self-preference)" if own else ""

    def _repr_html_(self) -> str:
        return tables.facts(self.facts, name="plan").html + placement.forecast(self.forecast).html


def read_placement(**parameters: Any) -> PlacementPlan:
    """What placing a model among models that people voted on would read, ask and cost.

    See `PlacementParams` for the parameters, and the section `placement` of the tournament file
    for other settings. Nothing is sent but requests to count tokens, and nothing is written.
    """
    return placement_plan(resolve_parameters(MODE, parameters))


def placement_plan(params: PlacementParams, root: Path | None = None) -> PlacementPlan:
    """The plan of valid parameters: all inputs read, the judge ready to be asked."""
    root = root or find_root()
    file = params.override(files.read_tournament(root / params.tournament))
    settings = file.placement
    _refuse_contradictions(params, settings)
    if params.judged:
        human = inputs.human_votes(params.human, root, winner=settings.human_winner)
        verdicts, sampled = _read_verdicts(params, settings, root), None
    else:
        human, sampled = _sample_tournament(params, file, root)
        verdicts = human.select([])
    return PlacementPlan(
        root=root,
        params=params,
        settings=settings,
        human=human,
        verdicts=verdicts,
        tournament=sampled,
        rules=files.read_gate(root, file.judge.gate),
    )


def _refuse_contradictions(params: PlacementParams, settings: files.PlacementSettings) -> None:
    """Refuse settings that cannot stand together."""
    made = settings.generate is not None
    if params.judged:
        idle = {"responses": params.responses, "placement.generate": made,
                "placement.texts": settings.texts, "max_cost_usd": params.max_cost_usd,
                "judge": params.judge != "baseline"}  # fmt: skip
        if named := ", ".join(name for name, given in idle.items() if given):
            raise DataError(
                f"{named} say how to judge here, but judged names verdicts made before, "
                f"{params.judged!r}: set judged to an empty text, or leave the others out"
            )
        return
    if bool(params.responses) == made:
        raise DataError(
            "judged is empty, so the model's answers are judged here: set responses, the folder "
            "that holds them, or placement.generate, how they are made; "
            f"{'both are' if made else 'neither is'} given"
        )
    if settings.texts and settings.languages:
        raise DataError("placement.languages has no effect: a prompt bank has no languages")
    if settings.soft and settings.n_shared < MIN_SHARED:
        raise DataError(
            f"placement.soft needs {MIN_SHARED} battles that people and the judge both decide: set "
            f"n_shared to more than that, or soft to false; n_shared is {settings.n_shared}"
        )


def _sample_tournament(
    params: PlacementParams, file: files.TournamentFile, root: Path
) -> tuple[BattleLog, SampleTournament]:
    """People's votes, and the sample of their arena, with judge and generator ready."""
    file, rubric = _with_rubric(file, root)
    settings = file.placement
    human, texts, known = _read_arena(params.human, settings, root)
    entrant = sampling.entrant_id(params.model)
    given: Responses = {}
    if params.responses:
        given = read_responses(root / params.responses, [entrant], known)
    answered = [q for q, p in texts.prompts.items() if (entrant, p.prompt_id) in given]
    sample = sampling.draw(
        texts,
        params.model,
        settings.method(params.model, params.min_battles, params.seed).arena(human).models,
        dimension=rubric.dimension,
        n_battles=settings.n_battles,
        n_shared=settings.n_shared,
        seed=params.seed,
        answered=answered if params.responses else None,
        needs_gold=rubric.needs_gold,
    )
    return human, SampleTournament(
        root=root,
        params=params,
        tournament=file,
        sample=sample,
        rubric=rubric,
        judge=make_judge(MODE, params, file, root),
        given=given,
        job=_job(params, file, sample, root),
    )


def _with_rubric(file: files.TournamentFile, root: Path) -> tuple[files.TournamentFile, Rubric]:
    """The tournament file with the one rubric of this placement in place of its own."""
    settings = file.placement
    text = read_text(root / settings.rubric)
    heading = text.partition("\n")[0].strip()
    version = re.search(r"\bversion (\S+)$", heading)
    if version is None:
        raise DataError(
            f"{settings.rubric}:1: the heading must end in 'version …', not {heading!r}"
        )
    dimension = files.check_dimension(settings.dimension or settings.rubric.stem)
    shared: Any = {"version": version[1], "reference": settings.reference}
    own = files.DimensionSettings(rubric=settings.rubric, **shared)
    rubric = Rubric(dimension=dimension, text=text, **shared)
    return file.model_copy(update={"dimensions": {dimension: own}}), rubric


def _read_arena(
    path: str, settings: files.PlacementSettings, root: Path
) -> tuple[BattleLog, sampling.RecordedTexts, set[str]]:
    """People's votes, the texts that can be used, and the ids of all prompts of the arena."""
    human = inputs.human_votes(path, root, winner=settings.human_winner)
    if settings.texts:
        file = files.read_tournament(root / settings.texts)
        bank = read_prompts(root / file.prompts)
        known = {prompt.prompt_id for prompt in bank}
        voted = [entrant for entrant in file.entrants if entrant in human.models]
        responses = read_responses(root / file.responses, voted, known)
        return human, sampling.RecordedTexts.of_bank(human, bank, responses), known
    battles, written = read_battle_texts(inputs.battles_file(root / path))
    if human.question_id is None and len(human) == len(written):
        human = sampling.with_question_ids(human, written)
    texts = sampling.RecordedTexts.of_file(
        battles, written, languages=settings.languages, single_turn=settings.single_turn
    )
    questions = sampling.question_ids(battles, written)
    return human, texts, {sampling.prompt_id(question) for question in questions}


def _read_verdicts(
    params: PlacementParams, settings: files.PlacementSettings, root: Path
) -> BattleLog:
    """The verdicts of one judge on one dimension, which is then forgotten: votes have none."""
    verdicts = inputs.battles_of(
        params.judged,
        root,
        winner=settings.judged_winner,
        source=Source.LLM_JUDGE,
        dimension=settings.dimension,
        judge_model=params.judge_model,
    )
    judge = params.judge_model or next(iter(inputs.judges_of(verdicts)), None)
    return replace(verdicts, dimension=None).of_source(Source.LLM_JUDGE, judge)


def _job(
    params: PlacementParams, file: files.TournamentFile, sample: sampling.ArenaSample, root: Path
) -> Job | None:
    """How the model's answers are made; they are expected to be as long as the recorded ones."""
    definition = file.placement.generate
    if definition is None:
        return None
    job = Job.of(sample.entrant, definition, sample.asked, file, root, params)
    tokens = cost.Estimator().tokens
    lengths = [tokens(each.response_text) for each in sample.recorded.values()]
    usual = round(sum(lengths) / len(lengths))
    return replace(job, expected_tokens=max(1, min(usual, definition.max_tokens)))


def _of_length(text: str, n_bytes: int) -> str:
    """A text cut or repeated to about so many bytes."""
    whole = (text.strip() or "No answer.").encode("utf-8", "surrogatepass") + b" "
    return (whole * (1 + n_bytes // len(whole)))[:n_bytes].decode("utf-8", "ignore")
