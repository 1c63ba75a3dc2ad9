"""The parameters of a notebook, one model per kind, validated at the door."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from arena_kit.matchmaking.adaptive import AdaptiveRounds
from arena_kit.rating.with_judge.placement import Placement
from arena_kit.runs.settings import files
from arena_kit.validity.voters import LEVEL

_ROUNDS = AdaptiveRounds()


class GenerateParams(files.Strict):
    """Parameters of `arena-kit generate`; empty `entrants` and `strata` mean all."""

    tournament: Path = files.DEFAULT_TOURNAMENT
    entrants: list[files.Id] = Field(default_factory=list)
    max_cost_usd: float = Field(default=0.0, ge=0)
    strata: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    seed: int = Field(default=0, ge=0)
    offline: bool = False


class JudgeParams(files.Strict):
    """Parameters of a run with a judge; all other settings are the tournament file's, and
    `overrides` replaces some of them by dotted name, as `judge.base_url`.
    """

    tournament: Path = files.DEFAULT_TOURNAMENT
    judge: Literal["baseline", "replay", "anthropic", "openai_compatible"] = "baseline"
    judge_model: str = ""
    max_cost_usd: float = Field(default=0.0, ge=0)
    seed: int = Field(default=0, ge=0)
    offline: bool = False
    overrides: dict[str, Any] = Field(default_factory=dict)
    run_dir: str = ""

    #: Whether the judge is asked all canaries, beside the few of the pre-flight.
    full_suite: ClassVar[bool] = False

    def override(self, file: files.TournamentFile) -> files.TournamentFile:
        """The tournament file with this run's overrides in place."""
        return files.override(file, self.overrides, f"{self.tournament} with this run's overrides")


class RunParams(JudgeParams):
    """Parameters of a judged tournament."""

    strata: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    limit_pairs: int = Field(default=0, ge=0)


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

    def override(self, file: files.TournamentFile) -> files.TournamentFile:
        """The tournament file with this run's overrides; labels in a column of their own stand in
        the file of verdicts unless another is named, those of other verdicts in `report_labels`.
        """
        file = super().override(file)
        in_file = Path(self.verdicts) if file.judge.labels_winner != "winner" else None
        labels = file.judge.labels or (in_file if self.verdicts else file.judge.report_labels)
        judge = file.judge.model_copy(update={"labels": labels})
        return file.model_copy(update={"judge": judge})


class PlacementParams(JudgeParams):
    """Parameters of a placement; files are relative to the workspace.

    Where `judged` is empty, the model's answers are judged here: `responses` is the folder that
    holds them, else the section `placement` of the tournament file says how they are made.
    """

    model: str = Field(min_length=1)
    human: str = "sample/arena/simulated_texts.jsonl.gz"
    judged: str = "sample/arena/judged_texts.jsonl.gz"
    responses: str = ""
    arena: str = ""
    min_battles: int = Field(default=Placement(model="").min_battles, ge=0)
    judge: Literal["baseline", "anthropic", "openai_compatible"] = "baseline"


class VotesParams(files.Strict):
    """Parameters of a notebook about people's votes."""

    battles: str
    winner: str = "winner"
    dimension: str = ""
    arena: str = ""
    inputs: files.Keeping = "copy"
    run_dir: str = ""


class SeasonParams(VotesParams):
    """Votes under the policy; files are relative to the workspace, `0` takes the policy file's
    phase, an empty week is the last complete one, and `retired` names models and prompts.
    """

    battles: str = "sample/arena/season.csv.gz"
    policy: str = str(files.DEFAULT_POLICY)
    phase: int = Field(default=0, ge=0, le=4)
    week: str = ""
    retired: list[str] = Field(default_factory=list)


class PolicyParams(SeasonParams):
    """Parameters of a validity report; an empty `compare_week` is the one before, and `earlier` a
    record whose published ranks are compared instead.
    """

    compare_week: str = ""
    earlier: str = ""


class ModelPagesParams(SeasonParams):
    """Parameters of model pages; no `models` means the top three and those due a quality check."""

    models: list[str] = Field(default_factory=list)


class ReviewParams(VotesParams):
    """What a review of voters may be told; files are relative to the workspace. The battles may be
    a vote store, and its `tournament` tells how much there was to read.
    """

    battles: str = "sample/arena/pushed_votes.csv.gz"
    tournament: str = ""
    note: str = ""
    level: float = Field(default=LEVEL, gt=0, lt=1)
    leave_out: list[str] = Field(default_factory=list)


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
    return files.validated(parameters_of(notebook), dict(given), f"parameters of {notebook}")


def parameters_of(notebook: str) -> type[BaseModel]:
    """The model that a notebook's parameters must fit."""
    return PARAMETERS.get(notebook, RunParams)
