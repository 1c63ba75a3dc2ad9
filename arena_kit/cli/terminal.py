"""Tables in the terminal. Names may come from anywhere, so they are shown as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from arena_kit.cli.base import echo
from arena_kit.judging.asking.cost import Forecast, dollars
from arena_kit.rating.base import Ratings
from arena_kit.rating.claims import claims
from arena_kit.reporting import neighbours
from arena_kit.reporting.board import ABOUT
from arena_kit.reporting.tables import Table, facts, interval_text, ranks_text, span
from arena_kit.reporting.tournament_tables import forecast_rows
from arena_kit.runs.record.compare import Comparison, Delta
from arena_kit.site.overview import Overview

_SHOWN_FLIPS = 10
_SHOWN_ORDERS = 10
_WHOLE_NAME = 32  # characters, beside the numbers of a board at 80 columns
_EXTRA = {"uncontrolled": "without control", "rd": "RD"}


def show_ratings(results: Mapping[str, Ratings], claimed: Mapping[str, Mapping[str, Any]]) -> None:
    """Ratings of a battles file, a table per dimension, and what may be said about the order."""
    for name, ratings in results.items():
        ranges = claims.rank_ranges(ratings, repeated=True)
        extra = [name for name in _EXTRA if name in ratings.ratings[0].extra]
        dropped = ", ".join(f"{n} {kind}" for kind, n in ratings.dropped.items() if n)
        counted = f"{ratings.n_battles} battles" + (f", dropped: {dropped}" if dropped else "")
        rows = [
            {
                "rank": rank,
                "model": rating.model,
                "rating": f"{rating.rating:.1f}",
                "95% evidence interval": interval_text(rating),
                "possible ranks": ranks_text(ranges[rating.model]),
                **{_EXTRA[name]: f"{rating.extra[name]:.1f}" for name in extra},
                "battles": rating.n_battles,
            }
            for rank, rating in enumerate(ratings.ratings, 1)
        ]
        _print(Table(rows=rows, title=f"{name or ratings.method} ({counted})", left=["model"]))
        for rating in ratings.ratings:
            if rating.no_interval:
                echo(f"  {rating.model} has no interval: {rating.no_interval}")
        for note in ratings.notes:
            echo(f"  {note}")
        if name in claimed:
            _show_claims(claimed[name])
        for parameter, value in ratings.fit.items():
            if not parameter.endswith("_se"):
                error = ratings.fit.get(f"{parameter}_se")
                label = "mean negative log-likelihood" if parameter == "nll" else parameter
                echo(f"  {label}: {value:.4g}" + (f" ± {error:.2g} (SE)" if error else ""))


def _show_claims(said: Mapping[str, Any]) -> None:
    """What may be said about an order, how few votes it rests on, and what the open orders need."""
    fragile = said["fragility"]
    rests_on = [fragile["sentence"]] if fragile else []
    for sentence in (*said["sentences"], *rests_on, ABOUT[said["about"]]):
        echo(f"  {sentence}")
    show_open({"": said["neighbours"]})


def show_open(orders: Mapping[str, list[dict[str, Any]]]) -> None:
    """The orders that are open, how few battles they rest on and how many more would decide them;
    records before did not count those they rest on.
    """
    rows = [pair for own in orders.values() for pair in own]
    waiting = sum(pair["state"] == "open" for pair in rows)
    if waiting and all("removed" in pair for pair in rows):
        shown = neighbours.table(orders, only_open=True, most=_SHOWN_ORDERS)
        title = "Orders that are open, what they rest on and what would decide them"
        _print(replace(shown, title=title))
        if waiting > _SHOWN_ORDERS:
            echo(f"  … and {waiting - _SHOWN_ORDERS} more (--json lists all)")


def show_table(table: Table) -> None:
    """A table, and its notes as sentences under it."""
    _print(table)
    for sentence in table.notes:
        echo(f"  {sentence}")


def show_comparison(comparison: Comparison) -> None:
    """Warnings, settings that differ, verdicts that flipped, gaps that moved, orders that are
    decided in one record only.
    """
    for warning in comparison.warnings:
        echo(warning)
    if comparison.settings:
        settings = [
            {"key": key, "before": str(old), "after": str(new)}
            for key, (old, new) in comparison.settings.items()
        ]
        _print(Table(rows=settings, title="Settings and inputs that differ", left=["key"]))
    else:
        echo("Settings and inputs: no difference.")
    _show_flips(comparison)
    _show_moves(comparison.deltas)
    echo("Who is above whom, by Bradley–Terry (--json lists all orders):")
    for orders in comparison.orders:
        echo(f"  {orders.sentence}")


def _show_flips(comparison: Comparison) -> None:
    """The verdicts that changed, some of them by name."""
    flips = comparison.flips
    echo(
        f"Verdicts: {len(flips)} of {comparison.n_shared} shared presentations changed; "
        f"{comparison.only_before} only before, {comparison.only_after} only after."
    )
    for flip in flips[:_SHOWN_FLIPS]:
        shown = f"{flip.dimension} {flip.prompt_id} {flip.first} | {flip.second}"
        echo(f"  {shown}: {flip.before} → {flip.after}")
    if len(flips) > _SHOWN_FLIPS:
        echo(f"  … and {len(flips) - _SHOWN_FLIPS} more (--json lists all)")


def _show_moves(deltas: Sequence[Delta]) -> None:
    """The entrants' gaps before and after, and what may be said of the change."""
    moved = [
        {
            "dimension": delta.dimension,
            "entrant": delta.entrant,
            "before": f"{delta.before:+.0f}",
            "after": f"{delta.after:+.0f}",
            "change": f"{delta.change:+.1f}",
            "95% interval of it": span(delta.low, delta.high),
            "that is": delta.says,
        }
        for delta in deltas
    ]
    columns = ("dimension", "entrant", "before", "after", "change", "95% interval of it", "that is")
    title = "Bradley–Terry, as the gap to the mean of the entrants that both have"
    left = ["entrant", "that is"]
    _print(Table(rows=moved, title=title, columns=columns, group="dimension", left=left))
    if any(delta.says == "other battles" for delta in deltas):
        echo("Other battles: no shared verdict changed; prompts, pairs or settings did.")


def show_forecasts(forecasts: Mapping[str, Forecast], cap: float) -> None:
    """What a run would cost, under their titles, and whether a cap allows that."""
    if not forecasts:
        echo("This run costs nothing: nobody is asked over the network.")
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


def show_expected(sentences: Mapping[str, str]) -> None:
    """What a run is expected to decide; dimensions of which the same is said stand together."""
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
    columns = ("entrant", "model", "responses", "failed", "file")
    _print(Table(rows=rows, title="Responses", columns=columns, left=["entrant", "model", "file"]))
    cost = manifest["cost"]
    unknown = f", and about ${cost['usd_unknown']:.4f} not told by the service"
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
    _print(Table(rows=shown, title="Under way", left=left, nowrap=["batch"]))


def show_runs(runs: Sequence[Overview]) -> None:
    """Records, each with its facts and its answer."""
    if not runs:
        echo("No record is here; arena-kit run pilot makes one.")
        return
    shown = [
        {"run": _facts(run), "answer": "\n".join(run.answer) or run.why_not or None} for run in runs
    ]
    columns = ("run", "answer")
    _print(Table(rows=shown, title="Runs", columns=columns, left=columns, nowrap=["run"]))


def _facts(run: Overview) -> str:
    ended = ", ".join(filter(None, [run.status, run.cost]))
    lines = [run.id, run.date and f"{run.date} UTC", run.mode, run.judge, ended, run.note]
    return "\n".join(filter(None, lines))


def _print(table: Table) -> None:
    """Print a table; names of models stay whole, unless they leave no room for their numbers."""
    whole = [each for each in ("model", "entrant") if _longest(table, each) <= _WHOLE_NAME]
    Console(highlight=False).print(replace(table, nowrap=[*table.nowrap, *whole]))


def _longest(table: Table, column: str) -> int:
    return max((len(str(row.get(column, ""))) for row in table.rows), default=0)
