"""The matrix as a table, and what to type to see a failure again."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table

from tests.faults.harness import Outcome

_FINDINGS = ("billed", "unknown", "paid_twice", "lost", "duplicated", "miscounted", "astray")
_COLUMNS = (
    *("scenarios", "runs", "kills", "restarts", "faults fired", "requests billed"),
    *("live in doubt", "paid twice", "lost", "duplicated", "miscounted", "astray"),
)


def watched(outcomes: Iterable[Outcome], total: int, *, verbose: bool) -> Iterator[Outcome]:
    """The outcomes, and on standard error how far they are."""
    for n, outcome in enumerate(outcomes, 1):
        if verbose or n % 100 == 0 or not outcome.clean:
            line = f"{n} of {total}  {outcome.seconds:5.1f} s  {outcome.name}"
            sys.stderr.write(f"{line}{'' if outcome.clean else '  FAILED'}\n")
        yield outcome


def show(console: Console, outcomes: Sequence[Outcome], *, flags: str, seconds: float) -> None:
    """The table by kind, every failure with its command, and the sums."""
    kinds = list(dict.fromkeys(outcome.kind for outcome in outcomes))
    table = Table(*_COLUMNS[:1], box=None, pad_edge=False)
    for name in _COLUMNS[1:]:
        table.add_column(name, justify="right")
    for kind in kinds:
        members = [outcome for outcome in outcomes if outcome.kind == kind]
        table.add_row(kind, *map(str, _sums(members)))
    console.print(table)
    for outcome in outcomes:
        if not outcome.clean:
            console.print(_failure(outcome, flags), soft_wrap=True, markup=False, highlight=False)
    runs, kills, restarts, fired, billed, unknown, twice, lost, duplicated, *_ = _sums(outcomes)
    failed = sum(not outcome.clean for outcome in outcomes)
    paused = sum(outcome.pauses for outcome in outcomes)
    locked = sum(outcome.locked for outcome in outcomes)
    console.print(
        f"{runs} runs, {kills} kills, {restarts} restarts ({paused} after a pause for credit, "
        f"{locked} after a lock), {fired} faults fired, {billed} requests billed, {unknown} live "
        f"calls in doubt, {failed} failed, {seconds:.0f} s",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"paid twice: {twice}, lost: {lost}, duplicated verdicts: {duplicated}",
        highlight=False,
        soft_wrap=True,
    )


def _sums(outcomes: Sequence[Outcome]) -> list[int]:
    return [
        len(outcomes),
        sum(o.kills for o in outcomes),
        sum(max(0, o.lives - 1) for o in outcomes),
        sum(o.fired for o in outcomes),
        *(sum(getattr(o.finding, name) for o in outcomes) for name in _FINDINGS),
    ]


def _failure(outcome: Outcome, flags: str) -> str:
    reasons = "; ".join(filter(None, (outcome.trouble, *outcome.finding.details)))
    command = f"python -m tests.faults --only '{outcome.name}' --seed {outcome.seed}{flags}"
    return f"FAILED {outcome.name} (seed {outcome.seed}): {reasons}\n  again: {command}"
