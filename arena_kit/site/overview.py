"""A run record in a few words: what a list of runs shows of each."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from arena_kit.files import DataError, read_json
from arena_kit.judging.asking.cost import dollars
from arena_kit.policy.constants import Phase
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.runs.record.record import open_record

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Facts of one run, and its answer in sentences; `why_not` says why there is none, `cautions`
    what is to be known of its judge, and `note` of people's votes in it.
    """

    path: Path
    mode: str = "unknown"
    started_at: str = ""
    judge: str = ""
    status: str = "unreadable"
    usd: float | None = None
    note: str = ""
    answer: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    why_not: str = ""

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def date(self) -> str:
        """The day and minute of its start, in UTC."""
        return _minute(self.started_at)

    @property
    def cost(self) -> str:
        return "" if self.usd is None else dollars(self.usd)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"id": self.id, "path": str(self.path)}


def overviews(folder: Path) -> list[Overview]:
    """The records of a folder, the newest first; those of one second by name."""
    found = [overview(path) for path in records_in(folder)]
    return sorted(found, key=lambda each: (each.started_at, each.id), reverse=True)


def records_in(folder: Path) -> list[Path]:
    """The folders directly below one that hold a manifest, by name."""
    return sorted(path.parent for path in folder.glob("*/manifest.json"))


def overview(record: Path) -> Overview:
    """A record in a few words; one that cannot be read says why."""
    try:
        manifest = open_record(record)
    except DataError as error:
        return Overview(path=record, why_not=str(error))
    (answer, cautions), why_not = attempt(record, _answered, record, manifest, otherwise=([], []))
    note, status = votes_note(manifest), str(manifest.get("status") or "unknown")
    unfinished = "" if status == "finished" else "This run has not finished."
    return Overview(
        path=record,
        mode=str(manifest.get("mode") or "unknown"),
        started_at=str(manifest.get("started_at") or ""),
        judge=_judge(manifest),
        status=status,
        usd=_spent(manifest),
        note=note,
        answer=tuple(answer),
        cautions=tuple(each for each in cautions if not (note and note in each)),
        why_not=why_not or str(manifest.get("error") or unfinished),
    )


def _answered(record: Path, manifest: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The sentences that a report begins with, and what not to conclude, as far as the phase of a
    policy's rollout shows them (12).
    """
    phase = (manifest.get("policy") or {}).get("phase")
    if phase and not Phase(phase).shows_diagnostics:
        return [f"Phase {phase}: confidence, coverage, badges and status are not shown yet."], []
    if not (record / ANSWER_FILE).is_file():
        return [], []
    kept = read_json(record / ANSWER_FILE)
    return kept["said"][: len(kept["said"]) - len(kept["caveats"])], kept["caveats"]


def attempt(record: Path, read: Callable[..., T], *args: Any, otherwise: Any) -> tuple[T, str]:
    """What `read` makes of a record, or `otherwise` and a sentence."""
    try:
        with reading(record):
            return read(*args), ""
    except DataError as error:
        return otherwise, str(error)


@contextmanager
def reading(record: Path) -> Iterator[None]:
    """Say in a sentence that a record cannot be read: it may be older than this version, cut short,
    or somebody else's.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        what = f"{type(error).__name__}: {error}"
        raise DataError(
            f"{record}: its artifacts have another format than this version's ({what})"
        ) from error


def facts_of(record: Path) -> dict[str, str]:
    """What a run was about, by what, in words; only what its manifest has."""
    manifest = open_record(record)
    tournament, versions = manifest.get("tournament") or {}, manifest.get("versions") or {}
    bank, selected = manifest.get("bank_size"), manifest.get("selected_prompt_count")
    votes = (manifest.get("battles") or {}).get("n")
    facts = {
        "run": record.name,
        "tournament": tournament.get("name"),
        "arena": _noted(manifest),
        "entrants": len(manifest["entrants"]) if "entrants" in manifest else None,
        "prompts": f"{selected} of {bank}" if bank else None,
        "votes": f"{votes:,}" if isinstance(votes, int) else votes,
        "started": _in_utc(manifest.get("started_at")),
        "finished": _in_utc(manifest.get("finished_at")),
        "arena_kit": versions.get("arena-kit"),
        "commit": ((manifest.get("code") or {}).get("commit") or "")[:12],
    }
    return {name: str(value) for name, value in facts.items() if value}


def _minute(moment: str) -> str:
    """The day and minute of a moment as records write it."""
    return moment[:16].replace("T", " ")


def _in_utc(moment: object) -> str:
    return f"{_minute(str(moment))} UTC" if moment else ""


def _noted(manifest: Mapping[str, Any]) -> str | None:
    """The arena with what is to be known about its votes."""
    arena, note = manifest.get("arena"), votes_note(manifest)
    return f"{arena} ({note})" if arena and note and note not in arena else arena


def votes_note(manifest: Mapping[str, Any]) -> str:
    """What a run says of the votes of people that it has, such as that they are simulated."""
    votes = manifest.get("human_battles") or manifest.get("battles")
    return str(votes.get("note") or "") if isinstance(votes, dict) else ""


def _judge(manifest: Mapping[str, Any]) -> str:
    judge = manifest.get("judge")
    named = judge.get("model") if isinstance(judge, dict) else None
    return str(named or manifest.get("judge_model") or "")


def _spent(manifest: Mapping[str, Any]) -> float | None:
    cost = manifest.get("cost")
    usd = cost.get("usd_spent") if isinstance(cost, dict) else None
    return float(usd) if isinstance(usd, int | float) else None
