"""The parameters of a notebook, one model per kind, validated at the door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Field, model_validator

from arena_kit.files import DataError
from arena_kit.judging.verdicts.rendering import Reference
from arena_kit.matchmaking.adaptive import AdaptiveRounds
from arena_kit.rating.bradley_terry.method import BothBad, BradleyTerry, Inconsistent
from arena_kit.rating.elo.method import MAX_PERMS
from arena_kit.rating.with_judge.calibration import MIN_SHARED
from arena_kit.rating.with_judge.placement import Placement
from arena_kit.runs.settings.files import (
    DEFAULT_POLICY,
    DEFAULT_TOURNAMENT,
    VARIABLE,
    EntrantDefinition,
    Id,
    Keeping,
    Strict,
    TournamentFile,
    override,
    service_address,
    validated,
)
from arena_kit.validity.voters import LEVEL

Params = TypeVar("Params", bound=BaseModel)

_METHOD = Placement(model="").method
_ROUNDS = AdaptiveRounds()


class GenerateParams(Strict):
    """Parameters of `arena-kit generate`; empty `entrants` and `strata` mean all."""

    tournament: Path = DEFAULT_TOURNAMENT
    entrants: list[Id] = Field(default_factory=list)
    max_cost_usd: float = Field(default=0.0, ge=0)
    strata: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    seed: int = Field(default=0, ge=0)
    offline: bool = False


class RunParams(Strict):
    """Parameters of a judged tournament; all other settings are the tournament file's, and
    `overrides` replaces some of them by dotted name, as `judge.base_url`.
    """

    tournament: Path = DEFAULT_TOURNAMENT
    judge: Literal["baseline", "replay", "anthropic", "openai_compatible"] = "baseline"
    judge_model: str = ""
    max_cost_usd: float = Field(default=0.0, ge=0)
    strata: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    limit_pairs: int = Field(default=0, ge=0)
    seed: int = Field(default=0, ge=0)
    offline: bool = False
    overrides: dict[str, Any] = Field(default_factory=dict)
    run_dir: str = ""

    #: Whether the judge is asked all canaries, beside the few of the pre-flight.
    full_suite: ClassVar[bool] = False

    def override(self, file: TournamentFile) -> TournamentFile:
        """The tournament file with this run's overrides in place."""
        return override(file, self.overrides, f"{self.tournament} with this run's overrides")


class AdaptiveParams(RunParams):
    """Parameters of a tournament in rounds; see `AdaptiveRounds`."""

    first_share: float = Field(default=_ROUNDS.first_share, gt=0, le=1)
    round_share: float = Field(default=_ROUNDS.round_share, gt=0, le=1)
    hopeless_below: float = Field(default=_ROUNDS.hopeless_below, ge=0, lt=1)
    max_rounds: int = Field(default=100, ge=1)


class JudgeReportParams(RunParams):
    """Parameters of a judge report: verdicts to read instead of asking for some.

    `records` are run records, a judge each; `verdicts` is a file, its judges the `columns` with
    their verdicts or those it names.
    """

    full_suite: ClassVar[bool] = True

    records: list[str] = Field(default_factory=list)
    verdicts: str = ""
    columns: list[str] = Field(default_factory=list)
    both_orders: bool = False

    @property
    def reads(self) -> bool:
        """Whether verdicts are read, and no judge is asked."""
        return bool(self.records or self.verdicts)

    def override(self, file: TournamentFile) -> TournamentFile:
        """The tournament file with this run's overrides; labels in a column of their own stand in
        the file of verdicts unless another is named.
        """
        file = super().override(file)
        if not self.verdicts or file.judge.labels or file.judge.labels_winner == "winner":
            return file
        judge = file.judge.model_copy(update={"labels": Path(self.verdicts)})
        return file.model_copy(update={"judge": judge})


class ArenaParams(Strict):
    """How a new model's battles are drawn, answered and judged; read where `judged` is empty.

    The tournament file gives the judge's settings, the ledger and the prices. `texts` names a
    tournament file whose prompts and responses are the arena's; empty takes the columns of the
    arena's own file. `responses` is a folder that holds the model's answers; else `generate`
    defines how they are made, as for an entrant of a tournament file.
    """

    tournament: Path = DEFAULT_TOURNAMENT
    judge_model: str = ""
    max_cost_usd: float = Field(default=0.0, ge=0)
    allow_failed_judge: bool = False
    transport: Literal["batches", "messages"] = "batches"
    prewarm: bool = False
    preflight: bool = True
    base_url: Annotated[str, AfterValidator(service_address)] = ""
    key_variable: str = Field(default="", pattern=VARIABLE)
    offline: bool = False
    inputs: Keeping = "copy"
    judged: str = ""
    texts: str = ""
    responses: str = ""
    generate: dict[str, Any] = Field(default_factory=dict)
    rubric: Path = Path("params/rubrics/preference.md")
    reference: Reference = "none"
    n_battles: int = Field(default=200, ge=1)
    n_shared: int = Field(default=400, ge=0)
    languages: list[str] = Field(default_factory=list)
    single_turn: bool = True
    judge: Literal["baseline", "anthropic", "openai_compatible"] = "baseline"
    soft: bool = True

    def run_params(self) -> RunParams:
        """The parameters of the tournament that judges."""
        names = {"allow_failed_judge": "judge.allow_failed", "inputs": "report.inputs"} | {
            name: f"judge.{name}"
            for name in ("transport", "prewarm", "preflight", "base_url", "key_variable")
        }
        changed = self.model_dump(include={*names}, exclude_defaults=True)
        overrides = {names[name]: value for name, value in changed.items()}
        return RunParams(
            tournament=self.tournament,
            judge=self.judge,
            judge_model=self.judge_model,
            max_cost_usd=self.max_cost_usd,
            offline=self.offline,
            overrides={"judge.prewarm": False} | overrides,
        )

    @property
    def judged_here(self) -> bool:
        """Whether verdicts are made, not read."""
        return not self.judged

    @property
    def definition(self) -> EntrantDefinition | None:
        """How the model's answers are made; None where they are read."""
        return validated(EntrantDefinition, self.generate, "generate") if self.generate else None

    @model_validator(mode="after")
    def _can_be_judged(self) -> ArenaParams:
        definition = self.definition
        if not self.judged_here:
            self._refuse_idle()
            return self
        if bool(self.responses) == bool(definition):
            both = "both are given" if definition else "neither is given"
            raise ValueError(
                "judged is empty, so the model's answers are judged here: set responses, the "
                f"folder that holds them, or generate, how they are made; {both}"
            )
        if self.texts and self.languages:
            raise ValueError("languages has no effect with texts: a prompt bank names none")
        if self.soft and self.n_shared < MIN_SHARED:
            raise ValueError(
                f"soft needs {MIN_SHARED} battles that people and the judge both decide: set "
                f"n_shared to more than that, or soft to false; n_shared is {self.n_shared}"
            )
        return self

    def _refuse_idle(self) -> None:
        """Refuse settings that say how to judge where verdicts are read."""
        fields = ArenaParams.model_fields
        idle = [
            name
            for name in ("texts", "responses", "generate", "judge", "max_cost_usd")
            if getattr(self, name) != fields[name].get_default(call_default_factory=True)
        ]
        if idle:
            raise ValueError(
                f"{', '.join(idle)} say how to judge here, but judged names verdicts made before, "
                f"{self.judged!r}: set judged to an empty text, or leave the others out"
            )


class PlacementParams(ArenaParams):
    """What a placement may be told; files are relative to the workspace."""

    model: str = Field(min_length=1)
    human: str = "sample/arena/simulated_votes.csv.gz"
    human_winner: str = "winner"
    human_note: str = ""
    judged: str = "sample/arena/judged_by_baseline.jsonl.gz"
    judged_winner: str = "winner"
    dimension: str = ""
    arena: str = ""
    min_battles: int = Placement(model="").min_battles
    prior: float = _METHOD.prior
    both_bad: BothBad = _METHOD.both_bad
    inconsistent: Inconsistent = _METHOD.inconsistent
    n_bootstraps: int = Field(default=_METHOD.resamples, ge=100, le=MAX_PERMS)
    seed: int = _METHOD.seed
    inline_human: bool = True
    run_dir: str = ""

    @model_validator(mode="after")
    def _in_range(self) -> PlacementParams:
        self.placement()
        return self

    def placement(self) -> Placement:
        """The placement these parameters describe, which takes over what has the same name."""
        method = replace(_METHOD, resamples=self.n_bootstraps, **self.shared_with(BradleyTerry))
        return Placement(method=method, **self.shared_with(Placement))


class SeasonParams(Strict):
    """Votes under the policy; files are relative to the workspace, `0` takes the policy file's
    phase, an empty week is the last complete one, and `retired` names models and prompts.
    """

    battles: str = "sample/arena/season.csv.gz"
    winner: str = "winner"
    dimension: str = ""
    arena: str = ""
    policy: str = str(DEFAULT_POLICY)
    phase: int = Field(default=0, ge=0, le=4)
    week: str = ""
    retired: list[str] = Field(default_factory=list)
    inputs: Keeping = "copy"
    run_dir: str = ""


class PolicyParams(SeasonParams):
    """Parameters of a validity report; an empty `compare_week` is the one before, and `earlier` a
    record whose published ranks are compared instead.
    """

    compare_week: str = ""
    earlier: str = ""


class ModelPagesParams(SeasonParams):
    """Parameters of model pages; no `models` means the top three and those due a quality check."""

    models: list[str] = Field(default_factory=list)


class ReviewParams(Strict):
    """What a review of voters may be told; files are relative to the workspace. The battles may be
    a vote store, and its `tournament` tells how much there was to read.
    """

    battles: str = "sample/arena/pushed_votes.csv.gz"
    winner: str = "winner"
    dimension: str = ""
    tournament: str = ""
    arena: str = ""
    note: str = ""
    level: float = Field(default=LEVEL, gt=0, lt=1)
    leave_out: list[str] = Field(default_factory=list)
    inputs: Keeping = "copy"
    run_dir: str = ""


#: The parameters of every notebook that takes other ones than `RunParams`.
PARAMETERS: dict[str, type[BaseModel]] = {
    "adaptive": AdaptiveParams,
    "judge_report": JudgeReportParams,
    "model_pages": ModelPagesParams,
    "placement": PlacementParams,
    "policy_validity": PolicyParams,
    "vote_review": ReviewParams,
}


def resolve_parameters(notebook: str, given: Mapping[str, Any]) -> Any:
    """The parameters of a notebook, validated; those that are not given have their defaults."""
    return validated(parameters_of(notebook), dict(given), f"parameters of {notebook}")


def told(
    kind: type[Params], mode: str, namespace: Mapping[str, Any] | None, given: dict[str, Any]
) -> Params:
    """The parameters among a notebook's `globals()`, and those given besides."""
    named = parameters_in(kind, namespace)
    return validated(kind, named | given, f"parameters of {mode}")


def parameters_in(kind: type[BaseModel], namespace: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parameters among a notebook's `globals()`, which must have all of them; none without."""
    if namespace is None:
        return {}
    if missing := [name for name in kind.model_fields if name not in namespace]:
        raise DataError(f"the parameters cell must name {', '.join(missing)}, too")
    return {name: namespace[name] for name in kind.model_fields}


def parameters_of(notebook: str) -> type[BaseModel]:
    """The model that a notebook's parameters must fit."""
    return PARAMETERS.get(notebook, RunParams)
