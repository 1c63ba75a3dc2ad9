"""What really happened: the service's bill beside the ledger's file, read directly."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

from tests.emulator import digest_of
from tests.faults.service import ELSEWHERE, FOREIGN
from tests.faults.tournament import FORECAST, JUDGES, PAIRS, Transport, judge_of, material

#: Statuses that a verdict may end with once the service is well again.
_ANSWERED = ("ok", "refused", "truncated", "unparsable", "errored")
_CENT_FRACTION = 1e-9

Bill = Sequence[tuple[str, float]]
Verdicts = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a scenario came to; all but `billed` and `unknown` (calls in doubt) should be zero."""

    billed: int = 0
    unknown: int = 0
    paid_twice: int = 0
    lost: int = 0
    duplicated: int = 0
    miscounted: int = 0
    astray: int = 0
    details: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        wrong = (self.paid_twice, self.lost, self.duplicated, self.miscounted, self.astray)
        return not any(wrong)


class Evidence(NamedTuple):
    """What the service knows: custom ids whose results said no cost, live calls maybe in doubt."""

    bill: Bill
    silent: Collection[str] = ()
    astray: int = 0
    doubtful: int = 0


class _Book:
    """The ledger's file by request: a cache key as custom ids shorten it, or a presentation."""

    def __init__(self) -> None:
        #: What each of its answers cost, of those that say so.
        self.answers: dict[str, list[float]] = defaultdict(list)
        self.silent: Counter[str] = Counter()  # answers that say no cost
        self.unknown: Counter[str] = Counter()  # attempts that may have been billed
        self.asked: Counter[str] = Counter()  # answers by request id
        self.spent: dict[str, float] = defaultdict(float)
        self.forecast: dict[str, float] = defaultdict(float)
        self.foreign = self.open = 0


def compare(
    evidence: Evidence, ledger: Path, verdicts: Verdicts, transport: Transport, seed: int
) -> Finding:
    """Hold the bill, the file and the final verdicts against each other."""
    live = transport != "batches"
    book = _read(ledger, live=live)
    charged = _charged(evidence.bill, transport, seed)
    twice = _paid_twice(charged, book)
    shown = Counter(name for name, _ in verdicts)
    wrong = (
        _wrong_live_sums(charged, book, evidence.doubtful)
        if live
        else _wrong_sums(charged, book, {name.partition("-")[2] for name in evidence.silent})
    )
    found = {
        "paid twice": list(twice),
        "billed without an answer": sorted(charged.keys() - book.answers.keys()),
        "without a verdict": _unanswered(verdicts, book), "still open": book.open * ["attempt"],
        "duplicated": [name for name, n in (*shown.items(), *book.asked.items()) if n > 1],
        "miscounted": wrong, "astray": evidence.astray * ["request"],
        "answers from elsewhere": book.foreign * ["answer"],
    }  # fmt: skip
    n = {what: len(names) for what, names in found.items()}
    return Finding(
        billed=sum(map(len, charged.values())),
        unknown=book.unknown.total(),
        paid_twice=sum(twice.values()),
        lost=n["billed without an answer"] + n["without a verdict"] + n["still open"],
        duplicated=n["duplicated"],
        miscounted=n["miscounted"],
        astray=n["astray"] + n["answers from elsewhere"],
        details=tuple(
            f"{what}: {', '.join(sorted(names)[:4])}" for what, names in found.items() if names
        ),
    )


def _charged(bill: Bill, transport: Transport, seed: int) -> dict[str, list[float]]:
    """The bill without other people's requests, by request as the book has them."""
    asked_live = _digests(transport, seed) if transport != "batches" else {}
    charged = defaultdict(list)
    for name, usd in bill:
        kind, _, key = name.partition("-")
        if kind != FOREIGN:
            charged[asked_live.get(key, key)].append(usd)
    return dict(charged)


def _digests(transport: Transport, seed: int) -> dict[str, str]:
    """Presentations by the digest under which the service bills a live question about them."""
    judge = judge_of(JUDGES[transport], "http://127.0.0.1:9")
    asked = material(seed).requests(PAIRS)
    chat = transport == "chat"
    bodies = [judge._body(r) if chat else judge._params(r) for r in asked]
    ids = (r.presentation.request_id for r in asked)
    return dict(zip(map(digest_of, bodies), ids, strict=True))


def _paid_twice(charged: dict[str, list[float]], book: _Book) -> dict[str, int]:
    """How often each request was charged beyond the ledger's answers and doubts."""
    excess = {
        key: len(paid)
        - max(1, len(book.answers.get(key, ())) + book.silent[key] + book.unknown[key])
        for key, paid in charged.items()
    }
    return {key: n for key, n in excess.items() if n > 0}


def _unanswered(verdicts: Verdicts, book: _Book) -> list[str]:
    status = dict(verdicts)
    shown = {
        "|".join((pair.dimension, pair.prompt_id, *order))
        for pair in PAIRS
        for order in permutations((pair.entrant_a, pair.entrant_b))
    }
    return [
        name
        for name in sorted(shown)
        if f"{name}#1" not in book.asked or status.get(name) not in _ANSWERED
    ]


def _wrong_sums(charged: dict[str, list[float]], book: _Book, silent: set[str]) -> list[str]:
    """Keys whose cost in the ledger is neither what was charged nor, unsaid, the forecast."""
    wrong = {*(book.answers.keys() - charged.keys())}
    for key in book.spent.keys() | book.answers.keys():
        known = 0.0 if key in silent else sum(charged.get(key, ()))
        unknown = FORECAST * len(charged.get(key, ())) if key in silent else 0.0
        if not (_equal(book.spent[key], known) and _equal(book.forecast[key], unknown)):
            wrong.add(key)
    return sorted(wrong)


def _wrong_live_sums(charged: dict[str, list[float]], book: _Book, doubtful: int) -> list[str]:
    """Presentations whose answers cost what nobody charged, or whose doubts are not booked."""
    wrong = set()
    for name, costs in book.answers.items():
        left = sorted(charged.get(name, ()))
        for cost in costs:
            nearest = min(left, key=lambda usd: abs(usd - cost), default=-1.0)
            if not _equal(nearest, cost):
                wrong.add(name)
            else:
                left.remove(nearest)
    for name, usd in book.forecast.items():
        if not _equal(usd, FORECAST * (book.silent[name] + book.unknown[name])):
            wrong.add(name)
    in_doubt = book.unknown.total() + book.silent.total()
    return sorted(wrong) + ([f"{in_doubt} in doubt"] if in_doubt > doubtful else [])


def _equal(first: float, second: float) -> bool:
    return abs(first - second) <= _CENT_FRACTION


def _read(path: Path, *, live: bool) -> _Book:
    book = _Book()
    if not path.exists():
        return book

    def name(key: str, request_id: str) -> str:
        return request_id.partition("#")[0] if live else key[:40]

    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as con:
        columns = "key, request_id, usage, cost_usd, served_model"
        for key, request_id, usage, usd, model in con.execute(f"SELECT {columns} FROM answers"):
            request = name(key, request_id)
            book.silent[request] += usage == "{}"
            book.answers[request] += [] if usage == "{}" else [usd]
            book.asked[request_id] += 1
            book.foreign += model == ELSEWHERE
        attempts = (
            "SELECT key, request_id, outcome, cost_usd, usd_unknown FROM attempts "
            "JOIN requests USING (request)"
        )
        for key, request_id, outcome, usd, unknown in con.execute(attempts):
            request = name(key, request_id)
            book.spent[request] += usd
            book.forecast[request] += unknown
            book.unknown[request] += outcome == "unknown"
            book.open += outcome is None
    return book
