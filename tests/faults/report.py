"""The matrix as a table, and what to type to see a failure again."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.faults.harness import Outcome

_COLUMNS = (
    "scenarios",
    "runs",
    "kills",
    "restarts",
    "faults fired",
    "requests billed",
    "paid twice",
    "lost",
    "duplicated",
    "miscounted",
)


def show(console: Console, outcomes: Sequence[Outcome], *, flags: str, seconds: float) -> None:
    """The table by group, every failure with its command, and the sums."""
    groups = list(dict.fromkeys(outcome.group for outcome in outcomes))
    table = Table(*_COLUMNS[:1], box=None, pad_edge=False)
    for name in _COLUMNS[1:]:
        table.add_column(name, justify="right")
    for group in groups:
        members = [outcome for outcome in outcomes if outcome.group == group]
        table.add_row(group, *map(str, _sums(members)))
    console.print(table)
    for outcome in outcomes:
        if not outcome.clean:
            console.print(_failure(outcome, flags), soft_wrap=True, markup=False, highlight=False)
    sums = _sums(outcomes)
    failed = sum(not outcome.clean for outcome in outcomes)
    paused = sum(outcome.pauses for outcome in outcomes)
    locked = sum(outcome.locked for outcome in outcomes)
    console.print(
        f"{sums[0]} runs, {sums[1]} kills, {sums[2]} restarts ({paused} after a pause for credit, "
        f"{locked} after a lock), {sums[3]} faults fired, {sums[4]} requests billed, "
        f"{failed} failed, {seconds:.0f} s",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"paid twice: {sums[5]}, lost: {sums[6]}, duplicated verdicts: {sums[7]}",
        highlight=False,
        soft_wrap=True,
    )


def _sums(outcomes: Sequence[Outcome]) -> list[int]:
    return [
        len(outcomes),
        sum(o.kills for o in outcomes),
        sum(max(0, o.lives - 1) for o in outcomes),
        sum(o.fired for o in outcomes),
        *(
            sum(getattr(o.finding, name) for o in outcomes)
            for name in ("billed", "paid_twice", "lost", "duplicated", "miscounted")
        ),
    ]


def _failure(outcome: Outcome, flags: str) -> str:
    reasons = "; ".join(filter(None, (outcome.trouble, *outcome.finding.details)))
    command = f"python -m tests.faults --only '{outcome.name}' {flags}"
    return f"FAILED {outcome.name}: {reasons}\n  again: {command}"
