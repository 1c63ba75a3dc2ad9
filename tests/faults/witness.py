"""What really happened: the service's bill beside the ledger's file, read directly."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.service import FOREIGN
from tests.faults.tournament import PAIRS

#: Statuses that a verdict may end with once the service is well again.
_ANSWERED = ("ok", "refused", "truncated", "unparsable")
_CENT_FRACTION = 1e-9

Bill = Sequence[tuple[str, float]]
Verdicts = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a scenario came to; all but `billed` should be zero."""

    billed: int = 0
    paid_twice: int = 0
    lost: int = 0
    duplicated: int = 0
    miscounted: int = 0
    details: tuple[str, ...] = ()


@dataclass(slots=True)
class _Book:
    """The ledger's file, as plain rows; keys are shortened as custom ids shorten them."""

    answers: dict[str, str] = field(default_factory=dict)  # key: status
    asked: Counter[str] = field(default_factory=Counter)  # answers by request id
    spent: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    open: int = 0


def compare(bill: Bill, ledger: Path, verdicts: Verdicts) -> Finding:
    """Hold the bill, the file and the final verdicts against each other."""
    book = _read(ledger)
    charged: dict[str, list[float]] = defaultdict(list)
    for name, usd in bill:
        if not name.startswith(f"{FOREIGN}-"):
            charged[name.partition("-")[2]].append(usd)
    twice = {key: len(paid) - 1 for key, paid in charged.items() if len(paid) > 1}
    unkept = charged.keys() - book.answers.keys()
    unanswered = _unanswered(verdicts, book)
    shown = Counter(name for name, _ in verdicts)
    extra = [name for name, n in (*shown.items(), *book.asked.items()) if n > 1]
    wrong = _wrong_sums(charged, book)
    return Finding(
        billed=sum(map(len, charged.values())),
        paid_twice=sum(twice.values()),
        lost=len(unkept) + len(unanswered) + book.open,
        duplicated=len(extra),
        miscounted=len(wrong),
        details=tuple(
            f"{what}: {', '.join(sorted(names)[:4])}"
            for what, names in (
                ("paid twice", list(twice)),
                ("billed without an answer", list(unkept)),
                ("without a verdict", unanswered),
                ("still open", [f"{book.open} attempts"] if book.open else []),
                ("duplicated", extra),
                ("miscounted", wrong),
            )
            if names
        ),
    )


def _unanswered(verdicts: Verdicts, book: _Book) -> list[str]:
    """Presentations of the tournament without a paid verdict."""
    status = dict(verdicts)
    shown = {
        "|".join((pair.dimension, pair.prompt_id, *order))
        for pair in PAIRS
        for order in (
            (pair.entrant_a, pair.entrant_b),
            (pair.entrant_b, pair.entrant_a),
        )
    }
    return [
        name
        for name in sorted(shown)
        if f"{name}#1" not in book.asked or status.get(name) not in (*_ANSWERED, "errored")
    ]


def _wrong_sums(charged: dict[str, list[float]], book: _Book) -> list[str]:
    """Keys whose cost in the ledger is not what was charged.

    A result that came without a readable usage has no price in the ledger: it is kept as
    `errored` and left out here. An answer that nobody charged for was made up.
    """
    priced = [key for key, status in book.answers.items() if status != "errored"]
    wrong = [
        key for key in priced if abs(sum(charged.get(key, ())) - book.spent[key]) > _CENT_FRACTION
    ]
    unpaid = [key for key in book.spent if book.spent[key] and key not in charged]
    return sorted({*wrong, *unpaid, *(book.answers.keys() - charged.keys())})


def _read(path: Path) -> _Book:
    book = _Book()
    if not path.exists():
        return book
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as con:
        for key, request_id, status in con.execute("SELECT key, request_id, status FROM answers"):
            book.answers[key[:40]] = status
            book.asked[request_id] += 1
        attempts = "SELECT key, outcome, cost_usd FROM attempts JOIN requests USING (request)"
        for key, outcome, usd in con.execute(attempts):
            book.spent[key[:40]] += usd
            book.open += outcome is None
    return book
