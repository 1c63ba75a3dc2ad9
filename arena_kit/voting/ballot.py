"""Ballots: blind pages that need no server, and the votes that come back from them as files."""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field, StringConstraints

from arena_kit.battles.battle import Battle
from arena_kit.battles.read import read_battles
from arena_kit.battles.tabular import listed
from arena_kit.files import DataError, read_json
from arena_kit.judging.pairs.answer_table import Table, read_table
from arena_kit.runs.settings.files import Strict, validated
from arena_kit.voting.page import ballot_page
from arena_kit.voting.records import BallotVote, Choice, Opaque, RefusalError, VoterName
from arena_kit.voting.texts import ArenaTexts

_DAY = 24 * 3600.0
_KEY_BYTES = 32
LARGEST_FILE = 5_000_000  # bytes; a vote has about 200
_LONGEST = 60  # characters of a name, as the page takes it
#: Columns of battles files, which no attribute may be called.
_TAKEN = {each.name for each in fields(Battle)} | {"prompt", "response_a", "response_b"}

#: A prompt and two models.
Comparison = tuple[str, str, str]
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class BallotArena(Protocol):
    """What ballots need of an arena: `LiveArena` has it."""

    texts: ArenaTexts

    @property
    def vote_count(self) -> int: ...
    def issue_ballot(self, n: int, voter: Any, *, session: str, lasts: float | None) -> Any: ...
    def cast_ballot(self, answers: Any, *, session: str, voter: str) -> Any: ...


class ReturnedBallot(Strict):
    """A file of votes as the page saves it.

    `content` is the hash of what the page held, `copy` (here `copy_id`) a random name of the
    browser it was filled in by, and `seal` ties all of it to the page.
    """

    format: Literal["arena_kit votes"]
    version: Literal[1]
    ballot: Opaque
    content: Hash
    copy_id: Opaque = Field(alias="copy")
    voter: VoterName
    votes: list[BallotVote] = Field(min_length=1, max_length=10_000)
    seal: Hash

    def is_sealed_by(self, key: bytes) -> bool:
        """Whether the page that was made here sealed just these votes."""
        about = (self.ballot, self.content, self.copy_id, self.voter)
        rows = [
            (v.ticket, v.digest, str(v.choice), f"{v.seconds:.1f}", v.comment, v.dimension)
            for v in self.votes
        ]
        cells = (cell for row in rows for cell in (row if row[-1] else row[:-1]))
        page_key = _seal(key, self.ballot, self.content).encode()
        return hmac.compare_digest(self.seal, _signature(page_key, *about, *cells))


def key_file(store: str, root: Path) -> Path:
    """Where the key of a store is: beside a SQLite file, else in the workspace."""
    return root / ".arena_kit" / "votes.key" if "://" in store else Path(store).with_suffix(".key")


def signing_key(path: Path) -> bytes:
    """The key that seals ballots and signs cookies, in a file that only its owner may read; made
    where there is none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as out:
            out.write(f"{secrets.token_hex(_KEY_BYTES)}\n")
            out.flush()
            os.fsync(out.fileno())
    with suppress(ValueError):
        key = bytes.fromhex(path.read_text(encoding="ascii", errors="replace"))
        if len(key) == _KEY_BYTES:
            return key
    raise DataError(f"{path}: is no key of a vote store; expected {2 * _KEY_BYTES} hex digits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What came of a returned file: who voted, how many votes and skips, how many are new, and how
    many votes are left out: repeats, as the voter had just seen the pair on the prompt elsewhere,
    and conflicts with earlier votes under the same name.
    """

    voter: str
    votes: int
    skips: int
    new: int
    repeats: int
    conflicts: int


class InvitedVoter(NamedTuple):
    """A voter whom a ballot is made for ('' for anybody): the prompts that may be asked, None for
    all, the `attributes` that the store keeps, and the battles that were chosen beforehand (see
    `read_chosen`), None where the arena draws them.
    """

    name: str = ""
    prompts: Collection[str] | None = None
    attributes: Mapping[str, str] = {}
    chosen: Sequence[Comparison] | None = None

    def is_asked(self, prompt: str) -> bool:
        return self.prompts is None or prompt in self.prompts


ANYBODY: InvitedVoter = InvitedVoter()


def read_voters(path: Path, texts: ArenaTexts) -> list[InvitedVoter]:
    """The voters of a table (CSV or a workbook): `voter` is the name or code. A column that is
    called as an axis of the prompts' strata (`subject`) routes: it holds the strata that the voter
    is asked about, separated by semicolons, none for all. Other columns are attributes.
    """
    table = read_table(path)
    if "voter" not in table.columns or not table.rows:
        raise DataError(f"{path}: expected a column voter and a row for each of them")
    names = [name for name in table.columns if name != "voter"]
    axes = {name: found for name in names if (found := texts.prompts_by(name))}
    attributes = [name for name in names if name not in axes]
    if taken := sorted({*attributes} & _TAKEN):
        raise DataError(f"{path}: the column {taken[0]!r} is one of battles files; rename it")
    _check_names(table)
    rows = [dict(zip(table.columns, cells, strict=True)) for cells in table.rows]
    about = ({name: row[name] for name in attributes if row[name]} for row in rows)
    routes = (_route(table, n, axes) for n in range(len(rows)))
    return list(map(InvitedVoter, table.values("voter"), routes, about))


def _check_names(table: Table) -> None:
    """Refuse a row without a name that a page takes, and a second row of one voter."""
    rows: dict[str, int] = {}
    column = table.columns.index("voter")
    for n, name in enumerate(table.values("voter")):
        if not voter_id(name) or len(name) > _LONGEST or not name.isprintable():
            raise DataError(f"{table.cell(n, column)}: expected a name of 1 to {_LONGEST} letters")
        if (first := rows.setdefault(voter_id(name), n)) != n:
            place = table.cell(first, column)
            raise DataError(f"{table.cell(n, column)}: {name!r} is a voter of {place}, too")


def _route(table: Table, n: int, axes: Mapping[str, dict[str, set[str]]]) -> set[str] | None:
    """The prompts of the strata that a row names on every axis, None where it names none."""
    routes = []
    for axis, strata in axes.items():
        column = table.columns.index(axis)
        wanted = [name.strip() for name in table.rows[n][column].split(";") if name.strip()]
        if unknown := [name for name in wanted if name not in strata]:
            what = f"no prompt has {axis} {unknown[0]!r}; known: {listed(sorted(strata))}"
            raise DataError(f"{table.cell(n, column)}: {what}")
        routes += [set().union(*(strata[name] for name in wanted))] if wanted else []
    return set.intersection(*routes) if routes else None


def make_ballot(
    live: BallotArena, key: bytes, *, pairs: int, days: float, question: str = "",
    voter: InvitedVoter = ANYBODY,
) -> str:  # fmt: skip
    """A ballot as a page: so many matchups of the arena, which wait for its votes from now on.

    Ids in it are random; what they stand for is in the store only. Without a question it is that
    of the dimension's rubric.
    """
    check_enough(live.texts, pairs, voter)
    ballot, lasts = secrets.token_hex(12), days * _DAY
    try:
        shown = live.issue_ballot(pairs, voter, session=ballot, lasts=lasts)
    except RefusalError as error:
        raise DataError(f"a ballot of {pairs} pairs cannot be filled: {error}") from None
    seal = partial(_seal, key, ballot)
    return ballot_page(ballot, seal, shown, live.texts, question, voter.name).html


def check_enough(texts: ArenaTexts, pairs: int, voter: InvitedVoter = ANYBODY) -> None:
    """Refuse a ballot of more pairs than there are two responses to one of its prompts, or than
    were chosen.
    """
    answered = texts.available().sum(axis=0)[[voter.is_asked(each) for each in texts.prompts]]
    there = int((answered * (answered - 1) // 2).sum())
    why = f"two responses to one prompt are there {there:,} times only"
    if voter.chosen is not None:
        there = sum(voter.is_asked(prompt) for prompt, *_ in voter.chosen)
        why = f"{there:,} were chosen"
    if pairs > there:
        whose = f" for {voter.name}" if voter.name else ""
        raise DataError(f"a ballot of {pairs:,} pairs{whose} cannot be filled: {why}")


def read_chosen(path: Path, texts: ArenaTexts) -> list[Comparison]:
    """The battles that `arena-kit votes choose` wrote, whose texts must be there."""
    chosen = [
        (str(prompt), first, second) for prompt, first, second in read_battles(path).compared()
    ]
    for prompt, first, second in chosen:
        if texts.digest_now(prompt, first, second) is None:
            what = f"{first} and {second} on prompt {prompt!r}"
            why = "the tournament lacks a response, or the prompt is not asked on the dimension"
            raise DataError(f"{path}: {what} cannot be voted on: {why}")
    return chosen


def take_ballot(live: BallotArena, key: bytes, path: Path) -> Taken:
    """Check a returned file and store its votes: all of them, or none."""
    returned = _read(path)
    if not returned.is_sealed_by(key):
        raise DataError(
            f"{path}: its votes do not fit its seal: the file or the page was changed, or the "
            "ballot was made with another store"
        )
    tickets = [(vote.ticket, vote.dimension) for vote in returned.votes]
    if len({*tickets}) < len(tickets):
        raise DataError(f"{path}: has two votes on one pair; allowed is one on each")
    voter = voter_id(returned.voter) or returned.copy_id
    before = live.vote_count
    try:
        receipts = live.cast_ballot(returned.votes, session=returned.copy_id, voter=voter)
    except RefusalError as error:
        raise DataError(f"{path}: {error}; nothing of this file was stored") from None
    skips = sum(vote.choice is Choice.SKIP for vote in returned.votes)
    return Taken(
        voter=voter,
        votes=len(tickets) - skips,
        skips=skips,
        new=live.vote_count - before,
        repeats=sum(receipt.left_out == "repeat" for receipt in receipts),
        conflicts=sum(receipt.left_out == "conflict" for receipt in receipts),
    )


def free_paths(out: Path, voters: Sequence[str]) -> list[Path]:
    """Where ballots go, for these voters ('' for anybody); what was made before may have been sent,
    so it stays.
    """
    is_page = out.suffix.lower() in (".html", ".htm")
    if is_page and len(voters) == 1 and not out.exists():
        return [out]
    if is_page or out.is_file():
        raise DataError(f"{out}: name a folder, or for one ballot a new file that ends in .html")
    made = [path.stem.split("-")[1] for path in out.glob("ballot-*.html")]
    last = max((int(number) for number in made if number.isdecimal()), default=0)
    slugs = [re.sub(r"[^A-Za-z0-9]+", "-", voter).strip("-") for voter in voters]
    names = ["-".join(filter(None, (str(n), slug))) for n, slug in enumerate(slugs, last + 1)]
    return [out / f"ballot-{name}.html" for name in names]


def voter_id(name: str) -> str:
    """A name that somebody typed, so that `Ann ` and `ann` are one voter; what cannot be seen in
    it is left out.
    """
    seen = "".join(each for each in " ".join(name.split()) if each.isprintable())
    return seen.casefold().strip()


def self_naming(texts: ArenaTexts) -> Iterator[tuple[str, str, str]]:
    """Model, prompt and the words of responses that name a model of the arena, its family or its
    maker, or a well-known one; no page can hide them.

    Names of entrants count in any spelling (`gpt-4o`, `GPT 4o`). Words that also mean something
    else, and names of one or two letters, count where a text speaks of itself (`I am …`, `made by
    …`).
    """
    names = {part for model in texts.models for part in (model, model.rpartition("/")[2])}
    spelled = {re.sub(r"\W|_", "", name): _spelling(name) for name in names}
    sure = [*map(_spelling, _KNOWN), *(s for name, s in spelled.items() if len(name) > 2)]
    makers = {*texts.providers.values(), *(m.partition("/")[0] for m in texts.models if "/" in m)}
    families = {found[0] for name in names if (found := re.match(r"[^\W\d_]+", name))}
    of_itself = map(_spelling, {*_AMBIGUOUS, *makers, *families, *names} - {""})
    words = rf"{_OF_ITSELF}(?:{'|'.join(of_itself)})|(?:{'|'.join(sure)})"
    pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)
    for (model, prompt), text in texts.responses.items():
        if found := pattern.search(text):
            yield model, prompt, found[0]


def _spelling(name: str) -> str:
    """A pattern of a name: between its words and numbers there may be a sign, or nothing."""
    return r"[\W_]?".join(map(re.escape, re.findall(r"[^\W\d_]+|\d+", name))) or re.escape(name)


#: Models and makers whose names mean nothing else.
_KNOWN = (
    "ChatGPT", "GPT-3", "GPT-4", "GPT-5", "OpenAI", "Claude", "Anthropic", "Gemini", "DeepMind",
    "Gemma", "LLaMA", "Meta AI", "Mistral", "Mixtral", "Qwen", "Tongyi", "DeepSeek", "Grok", "xAI",
    "Cohere", "Command R", "Copilot", "Kimi", "Moonshot AI", "ChatGLM", "Zhipu", "Nemotron",
    "MiniMax", "Hunyuan", "Doubao", "Baichuan", "Vicuna", "InternLM",
)  # fmt: skip
#: Those that are words, too.
_AMBIGUOUS = (
    "GPT", "Google", "Bard", "Meta", "Microsoft", "Phi", "Amazon", "Nova", "Alibaba", "Yi", "Baidu",
    "ERNIE", "GLM", "Falcon", "Command", "Nvidia", "Apple", "Perplexity", "Sonar", "Tencent",
    "ByteDance", "IBM", "Granite",
)  # fmt: skip
#: What stands before a name when a text speaks of itself.
_OF_ITSELF = (
    r"(?:I\s*['\u2019]?\s*a?m|my name is|call me|known as|as|by|from|at)\s+"
    r"(?:(?:an?|the|your|AI|model|assistant|chatbot|called|named)\s+){0,4}"
)


def _read(path: Path) -> ReturnedBallot:
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: is no regular file, so it is no file of votes")
    if path.is_file() and path.stat().st_size > LARGEST_FILE:
        raise DataError(f"{path}: has over {LARGEST_FILE:,} bytes, so it is no file of votes")
    values = read_json(path)
    if not isinstance(values, dict):
        raise DataError(
            f"{path}: expected the object that a ballot saves, got {type(values).__name__}"
        )
    return validated(ReturnedBallot, values, str(path), strict=True)


def _seal(key: bytes, ballot: str, content: str) -> str:
    """What a page seals its votes with; another content would have another one."""
    return _signature(key, "ballot", ballot, content)[:32]


def _signature(key: bytes, *parts: str) -> str:
    """HMAC-SHA-256 of some texts, each on a line of its own, as the page's script makes it."""
    return hmac.new(key, "\n".join(parts).encode("utf-8", "replace"), hashlib.sha256).hexdigest()
