"""Tables in the terminal. Names may come from anywhere, so they are shown as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from arena_kit.files import read_json
from arena_kit.judging.cost import Forecast, dollars
from arena_kit.rating import claims
from arena_kit.rating.base import Ratings
from arena_kit.reporting.tournament_tables import forecast_rows
from arena_kit.runs.compare import Comparison
from arena_kit.runs.record import open_record

_LEFT = (
    "dimension",
    "entrant",
    "model",
    "key",
    "what",
    "value",
    "batch",
    "for",
    "state",
    "file",
    "badge",
)
_SHOWN_FLIPS = 10
_EXTRA = {"uncontrolled": "without control", "rd": "RD"}


def show_board(record: Path) -> None:
    """The leaderboard of a run record."""
    if (record / "elo_ratings.json").is_file():
        _show_placement(read_json(record / "elo_ratings.json"))
    elif (record / "leaderboard.json").is_file():
        _show_policy(read_json(record / "leaderboard.json"))
    elif (record / "elo_results.json").is_file():
        _show_tournament(record)


def _show_placement(found: Mapping[str, Any]) -> None:
    rows = [
        (
            str(rank),
            row["model"] + (" ◀ placed" if row["source"] == "evaluated" else ""),
            f"{row['rating']:.0f}",
            _interval(row["ci_low"], row["ci_high"]),
            str(row["n_battles"]),
        )
        for rank, row in enumerate(found["ratings"], 1)
    ]
    columns = ("rank", "model", "rating", "95% interval", "battles")
    _print(f"{found['model']} in {found['arena']}, judged by {found['judge_model']}", columns, rows)


def _show_policy(found: Mapping[str, Any]) -> None:
    by_elo = found["ordered_by"] == "legacy_elo"
    rows = [
        (
            "–" if row["official_rank"] is None else str(row["official_rank"]),
            row["model"],
            f"{row['legacy_elo']:.0f}" if by_elo else f"{row['conservative']:.0f}",
            f"{row['confidence']}%",
            f"{100 * row['prompt_coverage']:.0f}%",
            row["badge"],
            str(row["votes"]),
        )
        for row in found["rows"]
    ]
    score = "Elo" if by_elo else "rating"
    columns = ("rank", "model", score, "confidence", "coverage", "badge", "votes")
    _print(found["arena"], columns, rows)
    status = found["status"]
    aside = "" if status["published"] else " (computed, not published)"
    _say(f"{status['status']}{aside}: {'; '.join(status['reasons'])}")


def _show_tournament(record: Path) -> None:
    primary = read_json(record / "elo_results.json")["primary"]
    rows: list[Sequence[str]] = []
    for dimension in open_record(record)["dimensions"]:
        ranked = sorted(primary[dimension].values(), key=lambda entry: -entry["mean"])
        if not ranked:
            rows.append((dimension, "–", "not rated; the report says why", "", ""))
        rows += [
            (
                dimension if rank == 1 else "",
                str(rank),
                entry["entrant_id"],
                f"{entry['mean']:.0f}",
                _interval(entry["evidence_ci95_low"], entry["evidence_ci95_high"]),
            )
            for rank, entry in enumerate(ranked, 1)
        ]
    columns = ("dimension", "rank", "entrant", "Elo", "95% evidence interval")
    _print("Elo with 95% evidence intervals", columns, rows, section="dimension")


def show_ratings(results: Mapping[str, Ratings]) -> None:
    """Ratings of a battles file, a table per dimension."""
    for name, ratings in results.items():
        ranges = claims.rank_ranges(ratings)
        extra = [name for name in _EXTRA if name in ratings.ratings[0].extra]
        dropped = ", ".join(f"{n} {kind}" for kind, n in ratings.dropped.items() if n)
        counted = f"{ratings.n_battles} battles" + (f", dropped: {dropped}" if dropped else "")
        rows = [
            (
                str(rank),
                rating.model,
                f"{rating.rating:.1f}",
                _interval(rating.ci_low, rating.ci_high),
                _ranks(ranges[rating.model]),
                *(f"{rating.extra[name]:.1f}" for name in extra),
                str(rating.n_battles),
            )
            for rank, rating in enumerate(ratings.ratings, 1)
        ]
        columns = ("rank", "model", "rating", "95% evidence interval", "possible ranks")
        more = (*(_EXTRA[name] for name in extra), "battles")
        _print(f"{name or ratings.method} ({counted})", (*columns, *more), rows)
        for what, value in ratings.fit.items():
            if not what.endswith("_se"):
                error = ratings.fit.get(f"{what}_se")
                told = "mean negative log-likelihood" if what == "nll" else what
                _say(f"  {told}: {value:.4g}" + (f" ± {error:.2g} (SE)" if error else ""))


def show_comparison(found: Comparison) -> None:
    """Settings that differ, verdicts that flipped, ratings that moved."""
    if found.settings:
        rows = [(key, str(old), str(new)) for key, (old, new) in found.settings.items()]
        _print("Settings and inputs that differ", ("key", "before", "after"), rows)
    else:
        _say("Settings and inputs: no difference.")
    _say(
        f"Verdicts: {len(found.flips)} of {found.n_shared} shared presentations changed; "
        f"{found.only_before} only before, {found.only_after} only after."
    )
    for flip in found.flips[:_SHOWN_FLIPS]:
        shown = f"{flip.dimension} {flip.prompt_id} {flip.first} | {flip.second}"
        _say(f"  {shown}: {flip.before} → {flip.after}")
    if len(found.flips) > _SHOWN_FLIPS:
        _say(f"  … and {len(found.flips) - _SHOWN_FLIPS} more (--json lists all)")
    columns = ("dimension", "entrant", "before", "after", "change", "intervals")
    moved = [
        (
            delta.dimension,
            delta.entrant,
            f"{delta.before:.0f} ({_interval(*delta.before_interval)})",
            f"{delta.after:.0f} ({_interval(*delta.after_interval)})",
            f"{delta.change:+.1f}",
            {True: "overlap", False: "apart", None: "–"}[delta.overlap],
        )
        for delta in found.deltas
    ]
    _print("Ratings", columns, moved)


def show_forecast(found: Forecast | None, title: str = "Forecast") -> None:
    """What a run would cost."""
    if found is None:
        _say("This run costs nothing: its judge runs in this process.")
        return
    _print(title, ("what", "value"), list(forecast_rows(found).items()))


def show_cap(usd: float, cap: float) -> None:
    """Whether a cap allows what is forecast."""
    if not cap:
        _say(f"{dollars(usd)}, and no max_cost_usd is set: such a run is refused.")
    elif usd > cap:
        _say(f"{dollars(usd)} is more than max_cost_usd {cap:g} allows: such a run is refused.")
    else:
        _say(f"{dollars(usd)} is within max_cost_usd {cap:g}.")


def show_generated(manifest: Mapping[str, Any]) -> None:
    """What was generated for whom."""
    rows = [
        (
            entrant,
            made["model"],
            ", ".join(f"{n} {status}" for status, n in made["responses"].items()) or "none",
            str(len(made["failed"])),
            made["file"],
        )
        for entrant, made in manifest["entrants"].items()
    ]
    _print("Responses", ("entrant", "model", "responses", "failed", "file"), rows)
    _say(f"spent ${manifest['cost']['usd_spent']:.4f}")


def show_batches(rows: Sequence[Mapping[str, Any]]) -> None:
    """Batches under way."""
    if not rows:
        _say("No batch is under way.")
        return
    columns = ("batch", "requests", "model", "expires (UTC)", "state")
    shown = [
        (
            row["batch_id"] or f"unconfirmed ({row['intent']})",
            str(row["n_requests"]),
            row["model"],
            row["expires_at"][5:16].replace("T", " ") or "–",
            row.get("status") or row["state"],
        )
        for row in rows
    ]
    _print("Under way", columns, shown)


def _print(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, section: str = ""
) -> None:
    table = Table(title=Text(title), title_justify="left")
    for column in columns:
        left = column in _LEFT
        table.add_column(
            column,
            justify="left" if left else "right",
            overflow="fold",
            no_wrap=column == "batch",
        )
    for n, row in enumerate(rows):
        if section and n and row[columns.index(section)]:
            table.add_section()
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


def _say(text: str) -> None:
    Console(highlight=False).print(Text(text), soft_wrap=True)


def _ranks(ranks: tuple[int, int] | None) -> str:
    if ranks is None:
        return "–"
    return str(ranks[0]) if ranks[0] == ranks[1] else f"{ranks[0]} to {ranks[1]}"


def _interval(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{low:.0f} to {high:.0f}"
