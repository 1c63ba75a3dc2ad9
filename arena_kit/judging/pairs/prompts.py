"""What is judged: prompts, the responses to them, and the pairs to compare; and their files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from arena_kit.battles.battle import check_entrant_id, check_id, made_id
from arena_kit.battles.content import Conversation, PictureFiles, made_content
from arena_kit.files import DataError, read_lines

#: What a judge can be shown at most is far below; more is a wrong file, and would fill the memory.
MAX_TEXT = 2_000_000
MAX_PROMPTS = 100_000


class ExpectedBehavior(StrEnum):
    """What a well-calibrated answer does with a prompt that has no gold answer."""

    HEDGE = "hedge"
    ANSWER = "answer"
    ABSTAIN = "abstain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One question of the bank; `source` is the stratum from which subsets are drawn, `strata` are
    its values on further axes, such as specialty or language. The text is a `Conversation` where
    the file has `messages` instead.
    """

    prompt_id: str
    text: str
    source: str
    subject: str | None = None
    gold_answer: str | None = None
    expected_behavior: ExpectedBehavior | None = None
    tags: tuple[str, ...] = ()
    strata: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_id(self.prompt_id, "prompt_id")
        check_id(self.source, "source")
        _check_text(self.text, f"the text of prompt {self.prompt_id}")
        for name in ("subject", "gold_answer"):
            if not isinstance(getattr(self, name), str | None):
                raise DataError(f"{name} of prompt {self.prompt_id} must be a string or null")
        tags, behavior, strata = self.tags, self.expected_behavior, self.strata
        texts = isinstance(strata, dict) and all(isinstance(v, str) for v in strata.values())
        if not texts:
            raise DataError(f"strata of prompt {self.prompt_id} must be an object of strings")
        if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
            raise DataError(f"tags of prompt {self.prompt_id} must be a list of strings")
        object.__setattr__(self, "tags", tuple(tags))
        if behavior is not None:
            if behavior not in list(ExpectedBehavior):
                allowed = ", ".join(ExpectedBehavior)
                shown = str(behavior)[:40]
                raise DataError(f"unknown expected_behavior {shown!r}; allowed: {allowed}")
            object.__setattr__(self, "expected_behavior", ExpectedBehavior(behavior))

    def stratum(self, axis: str) -> str | None:
        """The stratum on an axis: a value of `strata`, the source, the subject or the first tag;
        None where the prompt has none.
        """
        own = {"source": self.source, "subject": self.subject, "tags": next(iter(self.tags), None)}
        return self.strata.get(axis) or own.get(axis)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One entrant's answer to one prompt, as cached on disk: a text, or a `Conversation` of one or
    more turns where the file has `messages` instead.
    """

    entrant_id: str
    prompt_id: str
    response_text: str
    p_correct: float | None = None
    diagnostics: Mapping[str, object] = field(default_factory=dict)
    timestamp: str | None = None

    def __post_init__(self) -> None:
        check_entrant_id(self.entrant_id, "entrant_id")
        check_id(self.prompt_id, "prompt_id")
        _check_text(self.response_text, f"response_text of {self.prompt_id}", empty=True)
        p = self.p_correct
        number = isinstance(p, int | float) and not isinstance(p, bool)
        if p is not None and not (number and 0 <= p <= 1):
            raise DataError(f"p_correct {p!r} is not a number from 0 to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two entrants to compare on one prompt and dimension; unordered, so kept in name order."""

    dimension: str
    prompt_id: str
    entrant_a: str
    entrant_b: str

    def __post_init__(self) -> None:
        if not self.entrant_a < self.entrant_b:
            raise DataError(f"a pair is two entrants in name order, not {self!r}")

    @property
    def entrants(self) -> tuple[str, str]:
        return self.entrant_a, self.entrant_b

    @property
    def pair_id(self) -> str:
        return "|".join((self.dimension, self.prompt_id, self.entrant_a, self.entrant_b))


Row = TypeVar("Row", Prompt, Response)
#: The field that holds the text; a file may have `messages` instead.
_TEXT: dict[type, str] = {Prompt: "text", Response: "response_text"}


def read_prompts(path: Path) -> list[Prompt]:
    """A prompt bank: JSONL of `Prompt` fields, each id once, at least one."""
    found: dict[str, tuple[int, Prompt]] = {}
    for line, prompt in _read_rows(path, Prompt):
        first, _ = found.setdefault(prompt.prompt_id, (line, prompt))
        if first != line:
            raise DataError(
                f"{path}:{line}: prompt_id {prompt.prompt_id!r} is already on line {first}"
            )
        if len(found) > MAX_PROMPTS:
            raise DataError(
                f"{path}:{line}: a prompt bank holds at most {MAX_PROMPTS:,} prompts, not more"
            )
    if not found:
        raise DataError(f"{path}: the prompt bank is empty")
    return [prompt for _, prompt in found.values()]


def read_responses(
    folder: Path, entrants: Sequence[str], prompt_ids: Iterable[str]
) -> dict[tuple[str, str], Response]:
    """Every entrant's `responses_<entrant>.jsonl`, by (entrant, prompt).

    A response of another entrant, to a prompt outside the bank, or given twice is an
    error: joining is by id, and a wrong id would otherwise go unseen.
    """
    known = set(prompt_ids)
    cache: dict[tuple[str, str], Response] = {}
    for entrant in entrants:
        path = responses_file(folder, entrant)
        for line, response in _read_rows(path, Response):
            key = (response.entrant_id, response.prompt_id)
            if response.entrant_id != entrant:
                raise DataError(
                    f"{path}:{line}: entrant_id {response.entrant_id!r} in the file of {entrant!r}"
                )
            if response.prompt_id not in known:
                raise DataError(
                    f"{path}:{line}: prompt_id {response.prompt_id!r} is not in the prompt bank"
                )
            if key in cache:
                raise DataError(f"{path}:{line}: a second response to {response.prompt_id!r}")
            cache[key] = response
    return cache


def responses_file(folder: Path, entrant: str) -> Path:
    """Where an entrant's responses are: by an id made from its name, in which a slash becomes two
    underscores.
    """
    return folder / f"responses_{made_id(entrant).replace('/', '__')}.jsonl"


def _read_rows(path: Path, kind: type[Row]) -> Iterator[tuple[int, Row]]:
    """The rows of a JSONL file with their line numbers; unknown fields are left out."""
    names, text = {f.name for f in fields(kind)}, _TEXT[kind]
    for line, row in read_lines(path):
        try:
            if text not in row and "messages" in row:
                pictures = PictureFiles(path, named_only=True)
                row[text] = made_content(row["messages"], pictures, response=kind is Response)
            yield line, kind(**{key: value for key, value in row.items() if key in names})
        except DataError as error:
            raise DataError(f"{path}:{line}: {error}") from None
        except TypeError as error:
            raise DataError(f"{path}:{line}: {_missing(error)}") from None


def _missing(error: TypeError) -> str:
    """Which fields a line lacks, from the words of the constructor's error."""
    text = str(error)
    names = text.partition("argument")[2].lstrip("s: ")
    return f"missing {names}" if "required" in text else text


def _check_text(value: object, what: str, *, empty: bool = False) -> None:
    if not isinstance(value, str) or not (empty or value.strip()):
        wanted = "a string" if empty else "a non-empty string"
        raise DataError(f"{what} must be {wanted}, not {str(value)[:40]!r}")
    if len(value) > MAX_TEXT:
        raise DataError(f"{what} must have at most {MAX_TEXT:,} characters, not {len(value):,}")


def file_row(item: Prompt | Response) -> dict[str, object]:
    """A prompt or response as a line of its file, without what it does not have."""
    row = {name: value for name, value in asdict(item).items() if value not in (None, (), {})}
    text = row[_TEXT[type(item)]]
    if isinstance(text, Conversation):
        row["messages"] = text.as_json()
        del row[_TEXT[type(item)]]
    return row
