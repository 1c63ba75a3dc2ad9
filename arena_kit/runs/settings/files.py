"""The tournament file and the price file, validated at the door."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import PydanticSerializationError, to_json

from arena_kit.battles.battle import check_entrant_id, check_id, check_model_name
from arena_kit.files import DataError, read_text, read_yaml
from arena_kit.judging.judges.base import IMAGE_EDGE, Price, Structured
from arena_kit.judging.judges.baseline import BaselineJudge
from arena_kit.judging.pairs.pairing import Missing
from arena_kit.judging.quality.gate import Rule
from arena_kit.judging.verdicts.rendering import Reference, Rubric
from arena_kit.policy.constants import Policy
from arena_kit.rating.bradley_terry.method import BothBad, BradleyTerry, Inconsistent
from arena_kit.rating.elo import MAX_PERMS, PermutationElo
from arena_kit.rating.with_judge.placement import Placement
from arena_kit.runs.settings.workspace import source_folder

_PLACED = Placement(model="").method

Id = Annotated[str, AfterValidator(lambda value: check_id(value, "id"))]
Name = Annotated[str, AfterValidator(lambda value: check_model_name(value, "name"))]
EntrantId = Annotated[str, AfterValidator(lambda value: check_entrant_id(value, "entrant"))]


def check_dimension(value: str) -> str:
    """A dimension names a file of its own, so it may hold no slash."""
    if "/" in check_id(value, "dimension"):
        raise DataError(f"dimension {value!r} must not hold a slash")
    return value


def _different(values: list[str]) -> list[str]:
    if twice := [value for value in values if values.count(value) > 1]:
        raise ValueError(f"{twice[0]!r} is listed twice")
    return values


def service_address(value: str) -> str:
    """The address of a service: http or https, without a user, a query or a last slash."""
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("must begin with http:// or https:// and name a host")
    if parts.username or parts.password or parts.query:
        raise ValueError("must hold no user, password or query")
    return value.rstrip("/")


DimensionId = Annotated[str, AfterValidator(check_dimension)]
Kind = TypeVar("Kind")

#: Variables that hold a key by custom.
ANTHROPIC_KEY, CHAT_KEY = "ANTHROPIC_API_KEY", "OPENAI_API_KEY"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$|^$"
DEFAULT_TOURNAMENT = Path("params/tournament.yaml")
DEFAULT_GATE = Path("params/judge_gate.yaml")
#: Whether a record keeps copies of its inputs, or only their names, sizes and hashes.
Keeping = Literal["copy", "hashes"]


class Strict(BaseModel):
    """Input from outside: no unknown keys, no infinite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def shared_with(self, kind: type[Any]) -> dict[str, Any]:
        """The values of those fields that a dataclass has by the same name."""
        return self.model_dump(include={field.name for field in fields(kind)})


class DimensionSettings(Strict):
    """One dimension: its rubric file, the version that file must carry, what the judge is shown
    beside the question, and the turn that it judges (0: the whole conversation).
    """

    rubric: Path
    version: str
    reference: Reference = "none"
    turn: int = Field(default=0, ge=0)


class AnthropicSettings(Strict):
    """How Claude is asked; see `Claude`. `concurrency` and `per_minute` are for live calls."""

    effort: Literal["", "low", "medium", "high", "xhigh", "max"] = "low"
    max_tokens: int = Field(default=4096, ge=64)
    concurrency: int = Field(default=4, ge=1, le=64)
    per_minute: int = Field(default=300, ge=1)
    expected_output_tokens: int = Field(default=400, ge=1)
    image_edge: int = Field(default=IMAGE_EDGE, ge=0)


class ChatSettings(Strict):
    """How a chat-completions server is asked; see `ChatJudge`."""

    max_tokens: int = Field(default=1024, ge=16)
    temperature: float | None = Field(default=0.0, ge=0)
    structured: Structured = "auto"
    concurrency: int = Field(default=4, ge=1, le=256)
    timeout: float = Field(default=300.0, gt=0)
    expected_output_tokens: int = Field(default=200, ge=1)
    sees: bool = False
    image_edge: int = Field(default=IMAGE_EDGE, ge=0)


class JudgeSettings(Strict):
    """The judge: which model, where and how it is asked, and what it must keep.

    Parameters
    ----------
    pilot_model, headline_model
        The model of a paid judge in `pilot` and in the other notebooks.
    transport, base_url, key_variable
        Batches at half the price or messages at once, the address of the service, and the
        environment variable with its key; empty takes the usual ones.
    prewarm
        Send one request per rubric ahead, so that the rest find it cached, where that saves.
    preflight
        Ask a few canaries first, and stop there when a paid judge fails on them.
    repeats
        Requests asked a second time, to measure how often the judge says the same.
    allow_failed
        Go on with a paid judge that was measured and is not usable.
    only_entrant
        Judge only pairs with this entrant; empty judges everybody.
    replay_from, rejudge
        The record or file whose verdicts the judge `replay` repeats, or whose pairs are judged
        again: `all`, or those of which its judge was `unsure`.
    max_attempts, max_tries
        How often an unreadable answer is asked again, and one that failed unpaid is sent.
    graded
        Ask by how much the better response is better, too.
    reasoning
        Whether the judge is shown reasoning in responses (parts of that kind, and what stands
        between think tags): `keep`, or `strip`.
    gate, labels, labels_winner, report_labels
        The file of rules that a judge must keep; people's votes or gold labels on the same
        battles, and their column; the same for the judge report alone.
    families, bar_own_family
        The family of entrants and judges; whether battles of the judge's own are left out.
    """

    pilot_model: str = ""
    headline_model: str = ""
    transport: Literal["batches", "messages"] = "batches"
    base_url: Annotated[str, AfterValidator(service_address)] = ""
    key_variable: str = Field(default="", pattern=VARIABLE)
    prewarm: bool = True
    preflight: bool = True
    repeats: int = Field(default=0, ge=0, multiple_of=2)
    allow_failed: bool = False
    only_entrant: str = ""
    replay_from: str = ""
    rejudge: Literal["", "all", "unsure"] = ""
    max_attempts: int = Field(default=2, ge=1, le=5)
    max_tries: int = Field(default=3, ge=1, le=10)
    graded: bool = False
    reasoning: Literal["keep", "strip"] = "keep"
    gate: Path = DEFAULT_GATE
    labels: Path | None = None
    labels_winner: str = "winner"
    report_labels: Path | None = None
    families: dict[str, str] = {}
    bar_own_family: bool = False
    baseline: BaselineJudge = BaselineJudge()
    anthropic: AnthropicSettings = AnthropicSettings()
    openai_compatible: ChatSettings = ChatSettings()

    @model_validator(mode="after")
    def _rejudges_a_record(self) -> JudgeSettings:
        if self.rejudge and not self.replay_from:
            raise ValueError("rejudge needs replay_from, the record whose pairs are judged again")
        return self


#: Settings of a judge that a workspace has for itself: none is taken from somebody's record.
OWN_JUDGE_SETTINGS = (
    "transport", "base_url", "key_variable", "prewarm", "preflight", "repeats", "allow_failed",
    "replay_from", "rejudge", "gate", "labels", "labels_winner", "report_labels",
)  # fmt: skip


class ReportSettings(Strict):
    """What a report says and its record keeps: neighbours surely within `margin` points are
    equivalent (0 for none); `inputs` are kept as copies or as hashes; `strata` are the axes of the
    prompts (`source`, `subject`, `tags` or one of their own) that have boards of their own.
    """

    margin: float = Field(default=0.0, ge=0)
    inputs: Keeping = "copy"
    strata: list[str] = ["source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EloSettings(PermutationElo):
    """How battles become ratings: the settings of the method, and the K of the sweep."""

    k_sweep: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)]

    def method(self) -> PermutationElo:
        """The method alone."""
        return PermutationElo(**{f.name: getattr(self, f.name) for f in fields(PermutationElo)})

    def bradley_terry(self, looks: int = 1) -> BradleyTerry:
        """Bradley–Terry on the same scale, leaving out what these settings leave out."""
        return BradleyTerry(
            scale=self.scale,
            center=self.initial,
            both_bad="exclude" if self.both_bad == "drop" else "tie",
            inconsistent="drop" if self.inconsistent == "drop" else "tie",
            looks=looks,
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


class ArenaSettings(Strict):
    """What an arena of people's votes says of entrants, past ones among them: whose a model is
    (`providers`), which are matched but published nowhere (`private`), and which are matched no
    more (`withdrawn`).
    """

    providers: dict[EntrantId, Name] = {}
    private: list[EntrantId] = []
    withdrawn: list[EntrantId] = []


class PlacementSettings(Strict):
    """How a model is placed among models that people voted on.

    Parameters
    ----------
    human_winner, judged_winner
        The columns of outcomes in the files of votes and of verdicts.
    human_note
        Shown wherever the arena is named; empty takes what the votes say.
    dimension
        The dimension of the verdicts; empty when there is only one, or the rubric's name.
    soft
        Tone verdicts down as people's votes on the same battles suggest.
    prior, both_bad, inconsistent, n_bootstraps
        Bradley–Terry's: wins added to each side of pairs where one never beat the other, what
        both-bad votes and inconsistent judgments count for, resamples of whole questions.
    texts
        A tournament file whose prompts and responses are the arena's; empty takes the columns of
        the file of votes.
    generate
        How the model's answers are made where no folder holds them.
    rubric, reference
        What better means, and what the judge sees beside the question.
    n_battles, n_shared
        Battles of the model, balanced over opponents, and battles of the others that the judge
        decides as people did, for its own error.
    languages, single_turn
        Only battles in these languages; only battles of one turn.
    """

    human_winner: str = "winner"
    judged_winner: str = "winner"
    human_note: str = ""
    dimension: str = ""
    soft: bool = True
    prior: float = _PLACED.prior
    both_bad: BothBad = _PLACED.both_bad
    inconsistent: Inconsistent = _PLACED.inconsistent
    n_bootstraps: int = Field(default=_PLACED.resamples, ge=100, le=MAX_PERMS)
    texts: str = ""
    generate: EntrantDefinition | None = None
    rubric: Path = Path("params/rubrics/preference.md")
    reference: Reference = "none"
    n_battles: int = Field(default=200, ge=1)
    n_shared: int = Field(default=400, ge=0)
    languages: list[str] = []
    single_turn: bool = True

    def method(self, model: str, min_battles: int, seed: int) -> Placement:
        """How a model is placed."""
        own = {"resamples": self.n_bootstraps, "seed": seed} | self.shared_with(BradleyTerry)
        method = replace(_PLACED, **own)
        return Placement(model=model, min_battles=min_battles, soft=self.soft, method=method)


class TournamentFile(Strict):
    """A tournament: who competes on what, judged by which rubrics, rated how.

    Paths are relative to the workspace, the folder that holds `params/`; `protocol` is the file
    of `arena-kit protocol freeze` that runs are held against.
    """

    name: Id
    entrants: Annotated[list[EntrantId], AfterValidator(_different)] = Field(min_length=2)
    prompts: Path
    responses: Path
    verdicts: Path
    prices: Path = Path("params/prices.yaml")
    protocol: Path | None = None
    missing_responses: Missing = "listwise"
    generate: dict[Id, EntrantDefinition] = {}
    dimensions: dict[DimensionId, DimensionSettings] = Field(min_length=1)
    judge: JudgeSettings
    elo: EloSettings
    report: ReportSettings = ReportSettings()
    arena: ArenaSettings = ArenaSettings()
    placement: PlacementSettings = PlacementSettings()

    @model_validator(mode="after")
    def _names_are_known(self) -> TournamentFile:
        if strangers := sorted({*self.generate} - {*self.entrants}):
            raise ValueError(f"generate defines {', '.join(strangers)}, who is no entrant")
        known = {*self.entrants, *self.arena.providers}
        for name in ("private", "withdrawn"):
            if strangers := sorted({*getattr(self.arena, name)} - known):
                raise ValueError(
                    f"arena.{name} names {', '.join(strangers)}, who is no entrant "
                    "and has no provider"
                )
        return self


def read_rubrics(
    dimensions: Mapping[str, DimensionSettings], paths: Mapping[str, Path]
) -> dict[str, Rubric]:
    """The rubrics in these files; each file's heading must name the version asked for."""
    rubrics = {}
    for name, dimension in dimensions.items():
        path = paths[name]
        text = read_text(path)
        heading = text.partition("\n")[0].strip()
        if not heading.endswith(f"version {dimension.version}"):
            raise DataError(
                f"{path}:1: the heading must end in 'version {dimension.version}', as the "
                f"tournament file asks for {name}; another line stands there"
            )
        rubrics[name] = Rubric(
            dimension=name, version=dimension.version, text=text, reference=dimension.reference,
            turn=dimension.turn,
        )  # fmt: skip
    return rubrics


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
    prices = {}
    for model, row in file.models.items():
        usual = {"write": 2 * row.input, "write_5m": 1.25 * row.input, "read": row.input}
        figures = usual | row.model_dump(exclude_none=True)
        prices[model] = Price(model=model, source=file.source, date=str(file.date), **figures)
    return prices


_RULES = (
    "readable", "flips", "slot", "length", "family", "repeats", "rubric", "people", "canary",
    "attack", "contrast",
)  # fmt: skip
_GateFile = create_model("_GateFile", __base__=Strict, **dict.fromkeys(_RULES, Rule))  # type: ignore[call-overload]


def read_gate(root: Path = Path(), path: Path = DEFAULT_GATE) -> dict[str, Rule]:
    """What a judge must keep, by the name of the rule; a workspace without a file of its own has
    the rules that are shipped.
    """
    shipped = path == DEFAULT_GATE and not (root / path).is_file()
    file = (source_folder() if shipped else root) / path
    rules = validated(_GateFile, read_yaml(file), str(file), strict=True)
    return {name: getattr(rules, name) for name in _RULES}


def read_tournament(path: Path) -> TournamentFile:
    """A validated tournament file."""
    return validated(TournamentFile, read_yaml(path), str(path), strict=True)


def override(file: TournamentFile, overrides: Mapping[str, Any], where: str) -> TournamentFile:
    """The tournament file with settings replaced by dotted name, as `judge.base_url`; a variable
    with a key must be one that the file names, or a service's usual one.
    """
    if not overrides:
        return file
    values = file.model_dump(mode="json")
    keys = _key_variables(values) | {ANTHROPIC_KEY, CHAT_KEY, ""}
    if strange := _key_variables(overrides) - keys:
        raise DataError(
            f"{where}: key_variable {min(strange)[:60]!r} is not named in the tournament file; "
            f"allowed: {', '.join(sorted(filter(None, keys)))}"
        )
    for name, value in overrides.items():
        *path, last = name.split(".")
        section = values
        for part in path:
            section = section.get(part, {}) if isinstance(section, dict) else {}
        if not path or not isinstance(section, dict) or not section:
            known = ", ".join(k for k, v in values.items() if isinstance(v, dict))
            raise DataError(f"{where}: {name!r} names no setting in a section; sections: {known}")
        section[last] = value
    return validated(TournamentFile, values, where, strict=True)


def _key_variables(values: Mapping[str, Any]) -> set[str]:
    return {text for name, text in _texts(values) if name.endswith("key_variable")}


def is_text(name: str) -> bool:
    """Whether a setting of the tournament file, by dotted name, is a text."""
    *path, last = name.split(".")
    return _members(_section(TournamentFile, tuple(path))).get(last) in (str, Path)


DEFAULT_POLICY = Path("params/policy.yaml")
_LOOKS_LIKE_A_KEY = re.compile(r"\bsk-[A-Za-z0-9_-]{12,}|\bBearer\s+\S{12,}", re.IGNORECASE)
_NAMES_A_KEY = re.compile(r"(api_?key|_token|_secret)$", re.IGNORECASE)
_SHORTEST_KEY = 12


def read_policy(path: Path = DEFAULT_POLICY) -> Policy:
    """The policy of a file; what the file leaves out keeps the value of the policy as written."""
    values = asdict(Policy())
    for name, value in read_yaml(path).items():
        whole = isinstance(value, dict) and isinstance(values.get(name), dict)
        values[name] = values[name] | value if whole else value
    return validated(Policy, values, str(path), strict=True)


def validated(
    kind: type[Kind], values: dict[str, Any], where: str, *, strict: bool = False
) -> Kind:
    """`values` as a model or dataclass, or one sentence that says what was wrong and what is
    allowed. `strict` takes neither a text nor a truth value (YAML's `yes`) for a number.
    """
    refuse_keys(values, where)
    union: Any = kind | None  # a dataclass by itself could not be given a config
    adapter = TypeAdapter[Any](union, config=Strict.model_config)
    try:
        text = to_json(values, inf_nan_mode="constants")
        valid: Kind = adapter.validate_json(text, strict=strict)
    except PydanticSerializationError as error:
        raise DataError(f"{where}: {error}") from None
    except ValidationError as error:
        raise DataError("; ".join(_sentence(kind, e, where) for e in error.errors())) from None
    return valid


def _sentence(kind: type[Any], error: Any, where: str) -> str:
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        known = ", ".join(_members(_section(kind, error["loc"][:-1])))
        return f"{where}: unknown key {name!r}; allowed: {known}"
    came = str(error["input"])[:60]
    of_a_section = error["type"] == "value_error" and isinstance(error["input"], dict)
    hidden = error["type"] == "missing" or of_a_section or "@" in came
    why = error["msg"].removeprefix("Value error, ")
    return f"{where}: {name and f'{name}: '}{why}" + ("" if hidden else f", got {came!r}")


def _section(kind: type[Any], path: tuple[Any, ...]) -> type[Any]:
    """The model or dataclass at a path of keys."""
    for part in path:
        inner = _members(kind).get(part)
        if get_origin(inner) is dict:
            inner = get_args(inner)[1]
        kind = inner if isinstance(inner, type) else kind
    return kind


def _members(kind: type[Any]) -> dict[str, Any]:
    """The fields of a model or dataclass with their types."""
    if issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def refuse_keys(values: Mapping[str, Any], where: str) -> None:
    """Raise when a parameter holds what is or looks like a key, without repeating it."""
    texts = list(_texts(values))
    named = _key_variables(values)
    secret = {
        value
        for name, value in os.environ.items()
        if (name in named or _NAMES_A_KEY.search(name)) and len(value) >= _SHORTEST_KEY
    }
    for name, text in texts:
        if _LOOKS_LIKE_A_KEY.search(text) or any(key in text for key in secret):
            raise DataError(
                f"{where}: {name} holds a key; keys come from the environment or a git-ignored "
                ".env, and key_variable names the variable"
            )


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(str(key), "a name")
            yield from _texts(inner, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, name)
    else:
        yield name, str(value)
