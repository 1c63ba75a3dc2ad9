"""Tables in the terminal. Names may come from anywhere, so they are shown as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from arena_kit.cli.base import echo
from arena_kit.reporting.board import Board, Dimension, label
from arena_kit.reporting.tables import Table, facts

if TYPE_CHECKING:
    from arena_kit.judging.asking.cost import Forecast
    from arena_kit.runs.record.compare import Comparison, Delta
    from arena_kit.site.overview import Overview

_SHOWN_FLIPS = 10
_SHOWN_ORDERS = 10
_NAMED = ("model", "entrant")
_WHOLE_NAME = 32  # characters, beside the numbers of a board at 80 columns


def show_board(board: Board, *, answered: bool = False) -> None:
    """A board: a table per dimension with its claims, unless an answer follows that has them, and
    the unresolved comparisons.
    """
    for each in board.dimensions:
        if board.rows(each.name):
            table = board.table(each.name, narrow=True)
            _print(replace(table, title=_title(board, each), notes=()))
        said = [] if answered else [*each.said, *_fitted(each.fit)]
        about = [] if answered or board.publication else each.scope
        for sentence in (*said, *about, *each.notes) if board.diagnostics else ():
            echo(f"  {sentence}")
    echo(*board.notes)
    if board.publication is None:
        _show_open(board)
    elif not board.diagnostics:
        hidden = "confidence, coverage, badges and status are in the record only."
        echo(f"Phase {board.publication.phase}: {hidden}")


def _title(board: Board, dimension: Dimension) -> str:
    dropped = ", ".join(f"{n} {kind}" for kind, n in dimension.dropped.items() if n)
    n, aside = dimension.n_battles, f", dropped: {dropped}" if dropped else ""
    counted = f"{n:,} {'battle' if n == 1 else 'battles'}{aside}"
    name = dimension.name or board.title
    return f"{name} ({counted}), by {label(board)}" if name else f"{label(board)} ({counted})"


def _fitted(fit: Mapping[str, float]) -> Iterator[str]:
    """What was fitted beside the ratings, with standard errors."""
    for name, value in fit.items():
        if not name.endswith("_se") and not name.startswith("judges"):  # a note has those
            error = fit.get(f"{name}_se")
            label = "mean negative log-likelihood" if name == "nll" else name
            yield f"{label}: {value:.4g}" + (f" ± {error:.2g} (SE)" if error else "")


def _show_open(board: Board) -> None:
    """The unresolved comparisons, with fragility and the further battles needed."""
    waiting = sum(order.state == "unresolved" for each in board.dimensions for order in each.orders)
    if waiting:
        shown = board.orders(only_open=True, most=_SHOWN_ORDERS)
        show_table(replace(shown, title="Unresolved comparisons"))
        if waiting > _SHOWN_ORDERS:
            echo(f"  … and {waiting - _SHOWN_ORDERS} more (--json lists all)")


def show_table(table: Table) -> None:
    """A table, and its notes as sentences under it."""
    _print(table)
    echo(*(f"  {sentence}" for sentence in table.notes))


def show_comparison(comparison: Comparison) -> None:
    """Warnings, settings that differ, verdicts that flipped, gaps that moved, orders that are
    decided in one record only.
    """
    echo(*comparison.warnings)
    if comparison.settings:
        settings = [
            {"key": key, "before": str(old), "after": str(new)}
            for key, (old, new) in comparison.settings.items()
        ]
        _print(Table(settings, title="Settings and inputs that differ"))
    else:
        echo("Settings and inputs: no difference.")
    flips = comparison.flips
    echo(comparison.verdicts)
    for flip in flips[:_SHOWN_FLIPS]:
        shown = f"{flip.dimension} {flip.prompt_id} {flip.first} | {flip.second}"
        echo(f"  {shown}: {flip.before} → {flip.after}")
    if len(flips) > _SHOWN_FLIPS:
        echo(f"  … and {len(flips) - _SHOWN_FLIPS} more (--json lists all)")
    _show_moves(comparison.deltas)
    echo("Order by Bradley–Terry (--json lists all pairs):")
    echo(*(f"  {orders.sentence}" for orders in comparison.orders))


def _show_moves(deltas: Sequence[Delta]) -> None:
    """The entrants' gaps before and after, and what may be said of the change."""
    from arena_kit.runs.record.compare import GAPS

    columns = ("dimension", "entrant", "before", "after", "change", "95% interval", "due to")
    rows: Any = [delta.cells for delta in deltas]
    left = ["entrant", "due to"]
    _print(Table(rows, title=GAPS, columns=columns, group="dimension", left=left))
    if any(delta.says == "other battles" for delta in deltas):
        echo("Other battles: prompts, pairs or settings changed, but no shared verdict.")


def show_forecasts(forecasts: Mapping[str, Forecast], cap: float) -> None:
    """What a run would cost, under their titles, and whether a cap allows that."""
    from arena_kit.judging.asking.cost import dollars
    from arena_kit.reporting.tournament_tables import forecast_rows

    if not forecasts:
        echo("This run costs nothing: it sends no request.")
        return
    for title, each in forecasts.items():
        _print(replace(facts(forecast_rows(each), name="forecast"), title=title, labels=True))
    usd = sum(each.usd_no_hits for each in forecasts.values())
    if not cap:
        echo(f"{dollars(usd)}, and no max_cost_usd is set: such a run is refused.")
    elif usd > cap:
        echo(f"{dollars(usd)} is more than max_cost_usd {cap:g} allows: such a run is refused.")
    else:
        echo(f"{dollars(usd)} is within max_cost_usd {cap:g}.")


def show_expected(expected: Mapping[str, Mapping[str, Any]]) -> None:
    """What a run is expected to decide; dimensions with the same sentence are joined."""
    sentences = {name: each["sentence"] for name, each in expected.items()}
    for sentence in dict.fromkeys(sentences.values()):
        names = ", ".join(name for name, each in sentences.items() if each == sentence)
        echo(f"{names}: {sentence}")


def show_generated(manifest: Mapping[str, Any]) -> None:
    """What was generated for whom."""
    rows = [
        {
            "entrant": entrant,
            "model": entry["model"],
            "responses": ", ".join(f"{n} {status}" for status, n in entry["responses"].items())
            or "none",
            "failed": len(entry["failed"]),
            "file": entry["file"],
        }
        for entrant, entry in manifest["entrants"].items()
    ]
    _print(Table(rows, title="Responses"))
    cost = manifest["cost"]
    unknown = f", and about ${cost['usd_unknown']:.4f} not reported by the service"
    echo(f"spent ${cost['usd_spent']:.4f}{unknown if cost['usd_unknown'] else ''}")


def show_batches(rows: Sequence[Mapping[str, Any]]) -> None:
    """Batches under way."""
    if not rows:
        echo("No batch is under way.")
        return
    shown = [
        {
            "batch": row["batch_id"] or f"unconfirmed ({row['intent']})",
            "requests": row["n_requests"],
            "model": row["model"],
            "expires (UTC)": row["expires_at"][5:16].replace("T", " ") or None,
            "state": row.get("status") or row["state"],
        }
        for row in rows
    ]
    left = ["batch", "model", "state"]
    _print(Table(shown, title="Under way", left=left, nowrap=["batch"]))


def show_runs(runs: Sequence[Overview]) -> None:
    """Records, each with its facts and its answer."""
    if not runs:
        echo("No records yet; arena-kit run pilot makes one.")
        return
    shown = [
        {"run": _facts(run), "answer": "\n".join(run.answer) or run.why_not or None} for run in runs
    ]
    columns = ("run", "answer")
    _print(Table(shown, title="Runs", columns=columns, left=columns, nowrap=["run"]))


def _facts(run: Overview) -> str:
    ended = ", ".join(filter(None, [run.status, run.cost]))
    lines = [run.id, run.date and f"{run.date} UTC", run.mode, run.judge, ended, run.note]
    return "\n".join(filter(None, lines))


def _print(table: Table) -> None:
    """Print a table; names of models stay whole, unless they leave no room for their numbers."""
    longest = {n: max((len(str(row.get(n, ""))) for row in table.rows), default=0) for n in _NAMED}
    whole = [name for name in _NAMED if longest[name] <= _WHOLE_NAME]
    room = get_terminal_size().columns
    echo(replace(table, nowrap=[*table.nowrap, *whole]).in_terminal(room))
