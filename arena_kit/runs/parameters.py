"""What a run may be told, one model per kind of notebook, validated at the door."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from arena_kit.rating.bradley_terry import BradleyTerry
from arena_kit.runs.settings import (
    DEFAULT_TOURNAMENT,
    VARIABLE,
    Id,
    Strict,
    TournamentFile,
    service_address,
)


class GenerateParams(Strict):
    """What `arena-kit generate` may be told; empty `entrants` and `strata` mean all."""

    tournament: Path = DEFAULT_TOURNAMENT
    entrants: list[Id] = Field(default_factory=list)
    max_cost_usd: float = Field(default=0.0, ge=0)
    strata: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    subset_seed: int = Field(default=0, ge=0)
    offline: bool = False


class RunParams(Strict):
    """What a run may change; `""`, `0` and `-1` (for a seed) take the tournament file's."""

    tournament: Path = DEFAULT_TOURNAMENT
    judge: Literal["baseline", "replay", "anthropic", "openai_compatible"] = "baseline"
    judge_model: str = ""
    max_cost_usd: float = Field(default=0.0, ge=0)
    transport: Literal["batches", "messages"] = "batches"
    prewarm: bool = False
    base_url: Annotated[str, AfterValidator(service_address)] = ""
    key_variable: str = Field(default="", pattern=VARIABLE)
    n_perms: int = Field(default=0, ge=0)
    limit_pairs: int = Field(default=0, ge=0)
    offline: bool = False
    seed: int = Field(default=-1, ge=-1)
    strata: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    subset_seed: int = Field(default=0, ge=0)
    replay_from: str = ""
    run_dir: str = ""

    def applied(self, file: TournamentFile) -> TournamentFile:
        """The tournament file with this run's overrides in place."""
        changes: dict[str, Any] = {}
        if self.n_perms:
            changes["n_perms"] = self.n_perms
        if self.seed >= 0:
            changes["shuffle_seed"] = self.seed
        return file.model_copy(update={"elo": file.elo.model_copy(update=changes)})


class PlacementParams(Strict):
    """What a placement may be told; files are relative to the workspace."""

    model: str = Field(min_length=1)
    human: str = "sample/arena/simulated_votes.csv.gz"
    human_winner: str = "winner"
    human_note: str = ""
    judged: str = "sample/arena/judged_by_baseline.jsonl.gz"
    judged_winner: str = "winner"
    judge_model: str = ""
    dimension: str = ""
    arena: str = ""
    min_battles: int = Field(default=500, ge=0)
    soft: bool = True
    prior: float = Field(default=0.5, ge=0)
    both_bad: Literal["tie", "exclude"] = "tie"
    inconsistent: Literal["tie", "drop"] = "drop"
    n_bootstraps: int = Field(default=500, ge=100)
    seed: int = Field(default=0, ge=0)
    inline_human: bool = True
    run_dir: str = ""

    def method(self) -> BradleyTerry:
        """The rating method these parameters describe."""
        return BradleyTerry(
            prior=self.prior,
            both_bad=self.both_bad,
            inconsistent=self.inconsistent,
            interval="percentile",
            resamples=self.n_bootstraps,
            seed=self.seed,
        )


def _week_text(value: object) -> object:
    """A date that YAML has read as one, as text again."""
    return value.isoformat() if isinstance(value, date) else value


class PolicyParams(Strict):
    """What a validity report may be told; files are relative to the workspace, `0` takes the
    policy file's phase, and empty weeks are the last complete one and the one before.
    """

    battles: str = "sample/arena/season.csv.gz"
    winner: str = "winner"
    dimension: str = ""
    arena: str = ""
    note: str = ""
    policy: str = "params/policy.yaml"
    phase: int = Field(default=0, ge=0, le=4)
    week: Annotated[str, BeforeValidator(_week_text)] = ""
    compare_week: Annotated[str, BeforeValidator(_week_text)] = ""
    earlier: str = ""
    retired_models: list[str] = Field(default_factory=list)
    retired_prompts: list[str] = Field(default_factory=list)
    detail: list[str] = Field(default_factory=list)
    run_dir: str = ""


#: The parameters of every notebook that is not a judged tournament.
PARAMETERS: dict[str, type[BaseModel]] = {
    "placement": PlacementParams,
    "policy_validity": PolicyParams,
}


def parameters_of(notebook: str) -> type[BaseModel]:
    """The model that a notebook's parameters must fit."""
    return PARAMETERS.get(notebook, RunParams)
