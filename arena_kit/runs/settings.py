"""The tournament file and the price file, validated at the door."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields, is_dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)

from arena_kit.battles.battle import check_id
from arena_kit.files import DataError, read_text, read_yaml
from arena_kit.judging.judges.base import Structured
from arena_kit.judging.pairing import Missing
from arena_kit.judging.prices import Price
from arena_kit.judging.rendering import Reference, Rubric
from arena_kit.policy.constants import Policy
from arena_kit.rating.bradley_terry import BradleyTerry
from arena_kit.rating.elo import PermutationElo, Treatment
from arena_kit.runs.keys import refuse_keys

Id = Annotated[str, AfterValidator(lambda value: check_id(value, "id"))]


def _dimension(value: str) -> str:
    """A dimension names a file of its own, so it may hold no slash."""
    if "/" in check_id(value, "dimension"):
        raise ValueError(f"dimension {value!r} must not hold a slash")
    return value


def _different(values: list[str]) -> list[str]:
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{value!r} is listed twice")
    return values


def service_address(value: str) -> str:
    """The address of a service: http or https, without a user, a query or a last slash."""
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("must begin with http:// or https:// and name a host")
    if parts.username or parts.password or parts.query:
        raise ValueError("must hold no user, password or query")
    return value.rstrip("/")


DimensionId = Annotated[str, AfterValidator(_dimension)]
Model = TypeVar("Model", bound=BaseModel)


VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$|^$"
DEFAULT_TOURNAMENT = Path("params/tournament.yaml")


class Strict(BaseModel):
    """Input from outside: no unknown keys, no infinite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DimensionSettings(Strict):
    """One dimension: its rubric file, the version that file must carry, and what the
    judge is shown beside the question.
    """

    rubric: Path
    version: str
    reference: Reference = "none"


class BaselineSettings(Strict):
    """Settings of the embedded judge."""

    noise: float = Field(default=0.06, ge=0)
    slot_bias: float = 0.02
    tie_margin: float = Field(default=0.02, ge=0)
    seed: int = Field(default=0, ge=0)


class AnthropicSettings(Strict):
    """How Claude is asked; see `Claude`. `concurrency` and `per_minute` are for live calls."""

    effort: Literal["", "low", "medium", "high", "xhigh", "max"] = "low"
    max_tokens: int = Field(default=4096, ge=64)
    concurrency: int = Field(default=4, ge=1, le=64)
    per_minute: int = Field(default=300, ge=1)
    expected_output_tokens: int = Field(default=400, ge=1)


class ChatSettings(Strict):
    """How a chat-completions server is asked; see `ChatJudge`."""

    max_tokens: int = Field(default=1024, ge=16)
    temperature: float | None = Field(default=0.0, ge=0)
    structured: Structured = "auto"
    concurrency: int = Field(default=4, ge=1, le=256)
    timeout: float = Field(default=300.0, gt=0)
    expected_output_tokens: int = Field(default=200, ge=1)


class JudgeSettings(Strict):
    """Judge models of the two modes, how often an unreadable answer is asked again
    (`max_attempts`), and how often one that failed unpaid is sent (`max_tries`).
    """

    pilot_model: str
    headline_model: str
    max_attempts: int = Field(default=2, ge=1, le=5)
    max_tries: int = Field(default=3, ge=1, le=10)
    baseline: BaselineSettings = BaselineSettings()
    anthropic: AnthropicSettings = AnthropicSettings()
    openai_compatible: ChatSettings = ChatSettings()


class EloSettings(Strict):
    """How battles become ratings; see `PermutationElo`."""

    n_perms: int = Field(default=500, ge=1)
    shuffle_seed: int = Field(default=0, ge=0)
    initial_rating: float = 1400.0
    default_k: float = Field(default=16.0, gt=0)
    k_sweep: list[Annotated[float, Field(gt=0)]] = Field(min_length=1)
    ties: Treatment = "drop"
    both_bad: Treatment = "drop"
    inconsistent: Treatment = "drop"
    evidence_replicates: int = Field(default=500, ge=20)
    evidence_orders: int = Field(default=10, ge=1)

    def method(self) -> PermutationElo:
        """The rating method these settings describe."""
        return PermutationElo(
            k=self.default_k,
            initial=self.initial_rating,
            n_perms=self.n_perms,
            seed=self.shuffle_seed,
            ties=self.ties,
            both_bad=self.both_bad,
            inconsistent=self.inconsistent,
            evidence_replicates=self.evidence_replicates,
            evidence_orders=self.evidence_orders,
        )

    def strengths(self) -> BradleyTerry:
        """Bradley–Terry on the same scale, leaving out what these settings leave out."""
        return BradleyTerry(
            center=self.initial_rating,
            both_bad="exclude" if self.both_bad == "drop" else "tie",
            inconsistent="drop" if self.inconsistent == "drop" else "tie",
        )


class EntrantDefinition(Strict):
    """How `arena-kit generate` makes an entrant's responses.

    `seed` gives each prompt a seed of its own, on servers that take one; `temperature` is
    for chat-completions servers (Claude takes none).
    """

    backend: Literal["anthropic", "openai_compatible"]
    model: str
    system: str = ""
    max_tokens: int = Field(default=1024, ge=16)
    effort: Literal["", "low", "medium", "high", "xhigh", "max"] = ""
    temperature: float | None = Field(default=None, ge=0)
    seed: int | None = Field(default=None, ge=0)
    transport: Literal["batches", "messages"] = "batches"
    base_url: Annotated[str, AfterValidator(service_address)] = ""
    key_variable: str = Field(default="", pattern=VARIABLE)

    @model_validator(mode="after")
    def _no_idle_setting(self) -> EntrantDefinition:
        idle = {"anthropic": ("temperature", "seed"), "openai_compatible": ("effort",)}
        for name in idle[self.backend]:
            if getattr(self, name) not in (None, ""):
                raise ValueError(f"{name} has no effect on backend {self.backend!r}")
        return self

    @property
    def digest(self) -> str:
        """Hash of all that could change a response."""
        shaping = self.model_dump(mode="json", exclude={"transport", "key_variable"})
        return hashlib.sha256(json.dumps(shaping, sort_keys=True).encode()).hexdigest()


class TournamentFile(Strict):
    """A tournament: who competes on what, judged by which rubrics, rated how.

    Paths are relative to the workspace, the folder that holds `params/`.
    """

    name: Id
    entrants: Annotated[list[Id], AfterValidator(_different)] = Field(min_length=2)
    prompts: Path
    responses: Path
    verdicts: Path
    prices: Path = Path("params/prices.yaml")
    missing_responses: Missing = "listwise"
    generate: dict[Id, EntrantDefinition] = {}
    dimensions: dict[DimensionId, DimensionSettings] = Field(min_length=1)
    judge: JudgeSettings
    elo: EloSettings

    @model_validator(mode="after")
    def _generated_compete(self) -> TournamentFile:
        if strangers := sorted({*self.generate} - {*self.entrants}):
            raise ValueError(f"generate defines {', '.join(strangers)}, who is no entrant")
        return self

    def rubrics(self, root: Path) -> dict[str, Rubric]:
        """The rubric texts; each file's heading must name the version asked for."""
        found = {}
        for name, dimension in self.dimensions.items():
            path = root / dimension.rubric
            text = read_text(path)
            heading = text.partition("\n")[0].strip()
            if not heading.endswith(f"version {dimension.version}"):
                raise DataError(
                    f"{path}:1: the heading must end in 'version {dimension.version}', as the "
                    f"tournament file asks for {name}, but reads {heading!r}"
                )
            found[name] = Rubric(
                dimension=name,
                version=dimension.version,
                text=text,
                reference=dimension.reference,
            )
        return found


class _PriceRow(Strict):
    input: float = Field(ge=0)
    output: float = Field(ge=0)
    write: float | None = Field(default=None, ge=0)
    write_5m: float | None = Field(default=None, ge=0)
    read: float | None = Field(default=None, ge=0)
    batch_factor: float = Field(default=1, gt=0, le=1)


class _PriceFile(Strict):
    date: date
    source: str
    models: dict[str, _PriceRow]


def read_prices(path: Path) -> dict[str, Price]:
    """The prices of all models in a price file; a price of caching that is not given is the
    usual multiple of the input's.
    """
    file = validated(_PriceFile, read_yaml(path), str(path))
    return {
        model: Price(
            model=model,
            input=row.input,
            output=row.output,
            write=2 * row.input if row.write is None else row.write,
            write_5m=1.25 * row.input if row.write_5m is None else row.write_5m,
            read=row.input if row.read is None else row.read,
            batch_factor=row.batch_factor,
            source=file.source,
            date=str(file.date),
        )
        for model, row in file.models.items()
    }


def read_tournament(path: Path) -> TournamentFile:
    """A validated tournament file."""
    return validated(TournamentFile, read_yaml(path), str(path))


def validated(model: type[Model], values: dict[str, Any], where: str) -> Model:
    """`values` as a model, or one sentence that says what was wrong and what is allowed."""
    refuse_keys(values, where)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise DataError("; ".join(_sentence(model, e, where) for e in error.errors())) from None


def _sentence(model: type[BaseModel], error: Any, where: str) -> str:
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        known = _known_keys(model, error["loc"][:-1])
        return f"{where}: unknown key {name!r}; allowed: {known}"
    came = str(error["input"])[:60]
    got = "" if error["type"] == "missing" or "@" in came else f", got {came!r}"
    return f"{where}: {name}: {error['msg'].removeprefix('Value error, ')}{got}"


def _known_keys(model: type[BaseModel], path: tuple[Any, ...]) -> str:
    for part in path:
        field = model.model_fields.get(part)
        kind = field.annotation if field else None
        if getattr(kind, "__origin__", None) is dict:
            kind = kind.__args__[1]  # type: ignore[union-attr]
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            model = kind
    return ", ".join(model.model_fields)


DEFAULT_POLICY = Path("params/policy.yaml")


def read_policy(path: Path = DEFAULT_POLICY) -> Policy:
    """The policy of a file; what the file leaves out keeps the value of the policy as written."""
    file = validated(_mirror(Policy, Policy()), read_yaml(path), str(path))
    try:
        policy: Policy = _built(Policy, file.model_dump())
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None
    return policy


def _mirror(group: type[Any], defaults: Any) -> type[Strict]:
    """A strict model with the fields, types and defaults of a dataclass, groups included."""
    hints = get_type_hints(group)
    members: dict[str, Any] = {}
    for name in (each.name for each in fields(group)):
        kind, default = hints[name], getattr(defaults, name)
        if is_dataclass(kind):
            kind = _mirror(kind, default)  # type: ignore[arg-type]
            default = kind(**asdict(default))
        elif kind in (int, float):
            kind = Annotated[kind, BeforeValidator(_no_bool)]
        members[name] = (kind, default)
    return create_model(group.__name__, __base__=Strict, **members)


def _no_bool(value: Any) -> Any:
    """YAML reads `yes` and `on` as true, which is no number."""
    if isinstance(value, bool):
        raise ValueError(f"a number is needed, not {str(value).lower()}")  # noqa: TRY004 (pydantic)
    return value


def _built(group: type[Any], values: dict[str, Any], where: str = "") -> Any:
    """The dataclass again, whose own checks say in which group a value is out of range."""
    hints = get_type_hints(group)
    made = {
        name: _built(hints[name], value, f"{name}: ") if is_dataclass(hints[name]) else value
        for name, value in values.items()
    }
    try:
        return group(**made)
    except ValueError as error:
        raise ValueError(f"{where}{error}") from None
