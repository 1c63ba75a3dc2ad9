"""What a placement may be told when its verdicts are made here, on an arena's recorded answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from arena_kit.judging.rendering import Reference
from arena_kit.rating.calibration import MIN_SHARED
from arena_kit.runs.inputs import Keeping
from arena_kit.runs.settings import (
    DEFAULT_TOURNAMENT,
    VARIABLE,
    EntrantDefinition,
    Strict,
    service_address,
    validated,
)


class ArenaParams(Strict):
    """How a new model's battles are drawn, answered and judged; read where `judged` is empty.

    The tournament file gives the judge's settings, the ledger and the prices. `texts` names a
    tournament file whose prompts and responses are the arena's; empty takes the columns of the
    arena's own file. `responses` is a folder that holds the model's answers; else `generate`
    defines how they are made, as for an entrant of a tournament file.
    """

    judged: str = ""
    tournament: Path = DEFAULT_TOURNAMENT
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
    soft: bool = True

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
