"""What placing a new model into an arena would ask and cost, before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from arena_kit.battles.battle import check_id
from arena_kit.battles.log import BattleLog
from arena_kit.battles.read import read_battle_texts
from arena_kit.files import DataError, read_text
from arena_kit.judging.asking.cost import (
    Estimator,
    Forecast,
    booked,
    refuse_above_cap,
    refuse_without_cap,
)
from arena_kit.judging.asking.judge_pairs import Material
from arena_kit.judging.judges.base import BatchJudge, Judge, PaidJudge
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.pairs.pairing import Pairing
from arena_kit.judging.pairs.prompts import Response, read_prompts, read_responses
from arena_kit.judging.verdicts.records import Status
from arena_kit.judging.verdicts.rendering import Rubric
from arena_kit.runs.placement.sample import (
    ArenaSample,
    RecordedTexts,
    draw,
    entrant_id,
    prompt_id,
    question_ids,
    with_question_ids,
)
from arena_kit.runs.record.battles import battles_file, human_votes
from arena_kit.runs.record.inputs import InputFiles
from arena_kit.runs.record.record import find_root
from arena_kit.runs.settings.files import (
    DimensionSettings,
    TournamentFile,
    read_tournament,
    validated,
)
from arena_kit.runs.settings.judges import make_judge
from arena_kit.runs.settings.parameters import PlacementParams
from arena_kit.runs.tournament.generate import Job
from arena_kit.runs.tournament.plan import Plan

Responses = Mapping[tuple[str, str], Response]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaForecast:
    """What the model's answers and the verdicts on them would cost; None for what is free.

    Verdicts on answers that are not made yet are priced with answers of the expected length, and
    at the very most with the longest that the model may give. `usd_at_least` is what asking costs
    with every prompt-cache hit and next to no answer.
    """

    answers: Forecast | None
    verdicts: Forecast | None
    usd_at_least: float = 0.0

    @property
    def parts(self) -> dict[str, Forecast]:
        """The forecasts that there are, by what they pay for."""
        both = {"answers": self.answers, "verdicts": self.verdicts}
        return {name: part for name, part in both.items() if part is not None}

    def total(self, name: str) -> float:
        """A sum of dollars over both, by the field's name."""
        return sum(float(getattr(part, name)) for part in self.parts.values())

    @property
    def together(self) -> dict[str, float]:
        """Dollars for both, by when they are paid."""
        return {
            "at the very least": self.usd_at_least,
            "with all prompt-cache hits": self.total("usd_all_hits"),
            "without one, which is held against max_cost_usd": self.total("usd_no_hits"),
            "at the very most": self.total("usd_at_most"),
        }

    def as_dict(self) -> dict[str, Any]:
        sums = ("usd_all_hits", "usd_no_cache", "usd_no_hits", "usd_at_most")
        parts = {name: part.as_dict() for name, part in self.parts.items()}
        total = {name: self.total(name) for name in sums}
        return parts | {"total": {"usd_at_least": self.usd_at_least} | total}


@dataclass(frozen=True, kw_only=True)
class ArenaPlan:
    """A drawn sample, who answers it, who judges it, and for how much; nothing has been sent.

    `given` are the model's answers where they are read; `job` makes them where they are not.
    """

    root: Path
    params: PlacementParams
    tournament: TournamentFile
    human: BattleLog = field(repr=False)
    texts: RecordedTexts = field(repr=False)
    sample: ArenaSample
    rubric: Rubric = field(repr=False)
    judge: Judge
    given: Responses = field(repr=False)
    job: Job | None

    @classmethod
    def read(cls, params: PlacementParams, root: Path) -> ArenaPlan:
        """Read the arena, draw the sample and make judge and generator ready to be asked."""
        tournament, rubric = _with_rubric(params, root)
        human, texts, known = _read_arena(params, root)
        entrant = entrant_id(params.model)
        given: Responses = {}
        if params.responses:
            given = read_responses(root / params.responses, [entrant], known)
        answered = [q for q, p in texts.prompts.items() if (entrant, p.prompt_id) in given]
        sample = draw(
            texts,
            params.model,
            params.placement().arena(human).models,
            dimension=rubric.dimension,
            n_battles=params.n_battles,
            n_shared=params.n_shared,
            seed=params.seed,
            answered=answered if params.responses else None,
            needs_gold=rubric.needs_gold,
        )
        return cls(
            root=root,
            params=params,
            tournament=tournament,
            human=human,
            texts=texts,
            sample=sample,
            rubric=rubric,
            judge=make_judge("placement", params.run_params(), tournament, root),
            given=given,
            job=_job(params, tournament, sample, root),
        )

    @classmethod
    def of(cls, parameters: dict[str, Any]) -> ArenaPlan | None:
        """The plan of a placement's parameters; None where its verdicts were made before."""
        params = validated(PlacementParams, parameters, "parameters of placement")
        return cls.read(params, find_root()) if params.judged_here else None

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.root / self.tournament.verdicts)

    @property
    def asked(self) -> list[PaidJudge]:
        """Who is asked over the network: the model itself, the judge, both or none."""
        generator = [self.job.judge] if self.job else []
        return [*generator, *([self.judge] if isinstance(self.judge, PaidJudge) else [])]

    def refuse_without_cap(self) -> None:
        """Raise when somebody who is asked is paid and the parameters name no limit."""
        if not self.params.offline:
            refuse_without_cap(self.asked, self.params.max_cost_usd)

    def refuse_without_keys(self) -> None:
        """Raise when the model or the judge would have to be asked and lacks its key."""
        if self.params.offline:
            return
        if self.job is not None and self.job.fresh():
            self.job.judge.ready()
        if isinstance(self.judge, PaidJudge) and self.judging({**self.given, **self._made()}).buys:
            self.judge.ready()

    def refuse_above_cap(self, run: str) -> None:
        """Raise, before anything is sent, when what this run has spent and what answers and
        verdicts are forecast at exceed the cap together.
        """
        if self.params.offline or all(each.price.free for each in self.asked):
            return
        refuse_above_cap(self.forecast.parts, self.params.max_cost_usd, booked(self.ledger, run))

    @cached_property
    def forecast(self) -> ArenaForecast:
        """What would be sent and what that costs, after all that the ledger already answers."""
        answers, verdicts = None, self._verdicts_forecast()
        least = _at_least(verdicts, self.judge)
        if self.job is not None:
            answers = self.job.forecast()
            least += _at_least(answers, self.job.judge)
        return ArenaForecast(answers=answers, verdicts=verdicts, usd_at_least=least)

    @cached_property
    def expected(self) -> Plan:
        """The plan of judging with answers of the usual length for those that are not made yet."""
        if self.job is None:
            return self.judging(self.given)
        return self.judging(self._stand_ins(self.job.budget.output_tokens()[0]) | self._made())

    def _made(self) -> dict[tuple[str, str], Response]:
        made = self.job.answers() if self.job else {}
        return {(self.sample.entrant, prompt): each for prompt, each in made.items()}

    def _verdicts_forecast(self) -> Forecast | None:
        usual = self.expected.forecast
        if self.job is None:
            return usual
        longest = self.judging(
            self._stand_ins(self.job.definition.max_tokens) | self._made()
        ).forecast
        if usual is None or longest is None:
            return None
        return replace(usual, usd_at_most=longest.usd_at_most)

    def ask_again(self, status: Status, say: Callable[[str], None]) -> None:
        """Have the next run ask the judge again for what has this final status in the ledger."""
        self.judging({**self.given, **self._made()}).ask_again(status, say)

    def judging(self, answers: Responses) -> Plan:
        """The plan of judging these answers of the model, and the battles that people decided."""
        sample, dimension = self.sample, self.rubric.dimension
        there = [p for p in sample.battles if (sample.entrant, p.prompt_id) in answers]
        absent = [p.prompt_id for p in sample.asked if (sample.entrant, p.prompt_id) not in answers]
        responses = {**sample.recorded, **answers}
        prompts = list(sample.prompts)
        return Plan(
            mode="placement",
            root=self.root,
            params=self.params.run_params(),
            tournament=self.tournament,
            files=InputFiles.in_workspace(
                self.root / self.params.tournament, self.tournament, self.root
            ),
            bank=prompts,
            prompts=prompts,
            responses=responses,
            pairing=Pairing(
                pairs=(*there, *sample.shared),
                missing=tuple((sample.entrant, q) for q in absent),
                dropped_prompts=(),
                dropped_pairs={dimension: len(sample.battles) - len(there)},
            ),
            material=Material(
                prompts={p.prompt_id: p for p in prompts},
                responses=responses,
                rubrics={dimension: self.rubric},
                salt=self.ledger.salt(),
                graded=self.tournament.judge.graded,
            ),
            judge=self.judge,
        )

    def _stand_ins(self, tokens: float) -> dict[tuple[str, str], Response]:
        """Answers of so many tokens for those to be made: recorded ones, cut or repeated."""
        if self.job is None:
            return {}
        n_bytes, sample = round(tokens / self.job.budget.estimator.tokens_per_byte), self.sample
        stand_ins = {}
        for pair in sample.battles:
            text = sample.recorded[sample.opponent(pair), pair.prompt_id].response_text
            cell = (sample.entrant, pair.prompt_id)
            stand_ins[cell] = Response(
                entrant_id=cell[0], prompt_id=cell[1], response_text=_of_length(text, n_bytes)
            )
        return stand_ins


def _at_least(forecast: Forecast | None, judge: Judge) -> float:
    """Dollars with every prompt-cache hit and without the answers' tokens."""
    if forecast is None or not isinstance(judge, PaidJudge):
        return 0.0
    usage = {"output_tokens": forecast.output_tokens}
    return forecast.usd_all_hits - judge.price.usd(usage, batch=isinstance(judge, BatchJudge))


def _with_rubric(params: PlacementParams, root: Path) -> tuple[TournamentFile, Rubric]:
    """The tournament file with the one rubric of this placement in place of its own."""
    heading = read_text(root / params.rubric).partition("\n")[0].strip()
    version = re.search(r"\bversion (\S+)$", heading)
    if version is None:
        raise DataError(f"{params.rubric}:1: the heading must end in 'version …', not {heading!r}")
    dimension = check_id(params.dimension or params.rubric.stem, "dimension")
    if "/" in dimension:
        raise DataError(f"dimension {dimension!r} must not hold a slash")
    settings = DimensionSettings(
        rubric=params.rubric, version=version[1], reference=params.reference
    )
    file = params.run_params().override(read_tournament(root / params.tournament))
    file = file.model_copy(update={"dimensions": {dimension: settings}})
    return file, file.rubrics(root)[dimension]


def _read_arena(params: PlacementParams, root: Path) -> tuple[BattleLog, RecordedTexts, set[str]]:
    """People's votes, the texts that can be used, and the ids of all prompts of the arena."""
    human = human_votes(params.human, root, winner=params.human_winner)
    if params.texts:
        file = read_tournament(root / params.texts)
        bank = read_prompts(root / file.prompts)
        known = {prompt.prompt_id for prompt in bank}
        voted = [entrant for entrant in file.entrants if entrant in human.models]
        responses = read_responses(root / file.responses, voted, known)
        return human, RecordedTexts.of_bank(human, bank, responses), known
    battles, said = read_battle_texts(battles_file(root / params.human))
    if human.question_id is None and len(human) == len(said):
        if not params.inline_human:
            raise DataError(
                f"{params.human}: battles without a question_id are known by their prompts, so "
                "they must stand in the record: set inline_human to true"
            )
        human = with_question_ids(human, said)
    texts = RecordedTexts.of_file(
        battles, said, languages=params.languages, single_turn=params.single_turn
    )
    return human, texts, {prompt_id(question) for question in question_ids(battles, said)}


def _job(
    params: PlacementParams, tournament: TournamentFile, sample: ArenaSample, root: Path
) -> Job | None:
    """How the model's answers are made; they are expected to be as long as the recorded ones."""
    if params.definition is None:
        return None
    job = Job.of(
        sample.entrant,
        params.definition,
        sample.asked,
        tournament,
        root,
        cap_usd=params.max_cost_usd,
        offline=params.offline,
    )
    lengths = [Estimator.local().tokens(each.response_text) for each in sample.recorded.values()]
    usual = round(sum(lengths) / len(lengths))
    return replace(job, expected_tokens=max(1, min(usual, params.definition.max_tokens)))


def _of_length(text: str, n_bytes: int) -> str:
    """A text cut or repeated to about so many bytes."""
    whole = (text.strip() or "No answer.").encode("utf-8", "surrogatepass") + b" "
    return (whole * (1 + n_bytes // len(whole)))[:n_bytes].decode("utf-8", "ignore")
