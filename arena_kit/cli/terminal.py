"""Tables in the terminal. Names may come from anywhere, so they are shown as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from arena_kit.files import read_json, visible
from arena_kit.judging.cost import Forecast, dollars
from arena_kit.judging.quality.statuses import served_sentence
from arena_kit.policy.constants import Phase
from arena_kit.rating import claims
from arena_kit.rating.base import Ratings
from arena_kit.reporting import neighbours
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.tables import (
    Table,
    facts,
    interval_text,
    number,
    percent,
    ranks_text,
    span,
)
from arena_kit.reporting.tournament_tables import (
    ABOUT,
    SCALES,
    barred_text,
    forecast_rows,
    missing_text,
)
from arena_kit.runs.compare import Comparison, Delta
from arena_kit.runs.record import open_record
from arena_kit.site.overview import Overview

_FEW = 3  # models of a tier that are named
_SHOWN_FLIPS = 10
_SHOWN_ORDERS = 10
_WHOLE_NAME = 32  # characters, beside the numbers of a board at 80 columns
_EXTRA = {"uncontrolled": "without control", "rd": "RD"}


def show_board(record: Path) -> None:
    """The leaderboard of a run record and under it the answer that its report begins with; of a
    judge report the answer alone.
    """
    answer = read_json(record / ANSWER_FILE) if (record / ANSWER_FILE).is_file() else None
    if (record / "judges.json").is_file():
        answer = answer or {"question": "", "said": read_json(record / "judges.json")["answer"]}
    elif (record / "elo_ratings.json").is_file():
        _show_placement(record, answered=answer is not None)
    elif (record / "leaderboard.json").is_file():
        board = read_json(record / "leaderboard.json")
        _show_policy(board)
        if not Phase(board["phase"]).shows_diagnostics:
            return
    elif (record / "elo_results.json").is_file():
        _show_tournament(record, answered=answer is not None)
    if answer is not None:
        for sentence in ("", answer["question"], *answer["said"]):
            _say(sentence)
    elif (record / "judge_gate.json").is_file():  # records before had no answer
        _say(read_json(record / "judge_gate.json")["sentence"])


def _show_placement(record: Path, *, answered: bool) -> None:
    """The board as the report shows it, and what may be concluded from it."""
    results = read_json(record / "elo_ratings.json")
    plain = {"ratings": results["ratings"], "heading": "where this judge puts it", "caution": ""}
    summary = read_json(record / "placement.json")  # records before had neither of both
    board, worth = summary.get("board", plain), summary.get("in_votes", "")
    rows = [
        {
            "rank": rank,
            "model": row["model"] + (" ◀ placed" if row["model"] == results["model"] else ""),
            "rating": f"{row['rating']:.0f}",
            "95% interval": span(row["ci_low"], row["ci_high"]),
            "battles": row["n_battles"],
        }
        for rank, row in enumerate(board["ratings"], 1)
    ]
    title = f"{results['model']} in {results['arena']}, judged by {results['judge_model']}"
    _print(Table(rows=rows, title=f"{title}: {board['heading']}", left=["model"]))
    for sentence in (board["caution"], worth):
        if sentence and not answered:
            _say(sentence)


def _show_policy(board: Mapping[str, Any]) -> None:
    """The board as its rollout phase shows it to readers (12); in the shadow as it was before."""
    phase = Phase(board["phase"])
    by_elo = board["ordered_by"] == "legacy_elo"
    score, value = ("Elo", "legacy_elo") if by_elo else ("rating", "conservative")
    rows = [
        {"rank": row["official_rank"], "model": row["model"], score: f"{row[value]:.0f}"}
        | (_validity(row) if phase.shows_diagnostics else {})
        | {"votes": row["votes"]}
        for row in board["rows"]
    ]
    _print(Table(rows=rows, title=board["arena"], left=["model", "badge"]))
    if not phase.shows_diagnostics:
        _say(f"Phase {int(phase)}: confidence, coverage, badges and status are in the record only.")
        return
    status = board["status"]
    aside = "" if status["published"] else " (computed, not published)"
    _say(f"Rules kept: {status['status']}{aside}: {'; '.join(status['reasons'])}")
    if "order_decided" in board:  # records of earlier versions do not have it
        _say(f"Order decided{aside}: {board['order_decided']['sentence']}")
    if board.get("tiers"):
        _say(f"Tiers, each decidedly above all later ones: {'; '.join(map(_tier, board['tiers']))}")


def _tier(models: Sequence[str]) -> str:
    """A tier by its models, or by how many there are."""
    few = len(models) <= _FEW
    return ", ".join(models) if few else f"{len(models)} models, {models[0]} to {models[-1]}"


def _validity(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "confidence": f"{row['confidence']}%",
        "coverage": percent(row["prompt_coverage"]),
        "badge": row["badge"],
    }


def _show_tournament(record: Path, *, answered: bool) -> None:
    """A board per dimension by Bradley–Terry, Elo beside it, and what is to be known of them; what
    may be said of the order only where no answer follows that says it.
    """
    manifest, results = open_record(record), read_json(record / "elo_results.json")
    strengths = read_json(record / "bradley_terry.json")
    for dimension in manifest["dimensions"]:
        if rated := strengths.get(dimension):
            rows = _board_rows(rated["ratings"], results["primary"][dimension])
            title = f"{dimension} ({rated['n_battles']} battles), by Bradley–Terry"
            _print(Table(rows=rows, title=title, left=["entrant"], nowrap=["entrant"]))
        else:
            _say(f"{dimension}: not rated; the report says why.")
    if any(strengths.values()):
        _say(SCALES)
    for sentence in (*_cautions(results), *_probed(manifest), *_left_out(manifest)):
        _say(sentence)
    rated_on = {d: strengths.get(d) or {} for d in manifest["dimensions"]}
    claims_of = {d: rated["claims"] for d, rated in rated_on.items() if "claims" in rated}
    for dimension, said in () if answered else claims_of.items():  # records before had no answer
        _say(f"{dimension}, by Bradley–Terry: {' '.join(said['sentences'])}")
    _show_open({d: said["neighbours"] for d, said in claims_of.items()})


def _board_rows(
    ratings: Sequence[Mapping[str, Any]], elo: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, object]]:
    return [
        {
            "rank": rank,
            "entrant": row["model"],
            "rating": f"{row['rating']:.0f}",
            "95% interval": span(row["ci_low"], row["ci_high"]),
            "ranks": ranks_text(tuple(row["ranks"]) if row["ranks"] else None),
            **_elo_beside(elo.get(row["model"])),
        }
        for rank, row in enumerate(ratings, 1)
    ]


def _elo_beside(entry: Mapping[str, Any] | None) -> dict[str, str | None]:
    """Elo of an entrant; before 0.1.0 was released, `ci95_*` was the shuffle's."""
    if entry is None:
        return {"Elo ± SEM": None, "evidence interval": None}
    before = "evidence_" if "evidence_ci95_low" in entry else ""
    low, high = (entry[f"{before}ci95_{end}"] for end in ("low", "high"))
    sem = number(entry.get("order_sem"), ".1f")
    return {"Elo ± SEM": f"{entry['mean']:.0f} ± {sem}", "evidence interval": span(low, high)}


def _cautions(results: Mapping[str, Any]) -> list[str]:
    """On which dimensions Elo's intervals hold too seldom; records before had no such notes."""
    notes: Mapping[str, Sequence[str]] = results.get("notes", {})
    if len(notes) < 2:
        return [f"{dimension}: {note}" for dimension, each in notes.items() for note in each]
    told = "Elo's evidence intervals hold the truth too seldom on"
    return [f"{told} {', '.join(notes)}; the report says why. Use Bradley–Terry's."]


def _probed(manifest: Mapping[str, Any]) -> list[str]:
    """What canaries and sentinels said of the judge, where they were asked."""
    told = (manifest.get(name) or {} for name in ("preflight", "drift"))
    return [" ".join(each["sentences"]) for each in told if each]


def _left_out(manifest: Mapping[str, Any]) -> list[str]:
    """What a tournament did without: responses that are missing, battles of the judge's own
    family, the judge that was asked.
    """
    dropped = manifest["dropped"]
    lost = missing_text(dropped["missing_responses"], dropped["prompts"], dropped["pairs"])
    barred = barred_text(dropped.get("own_family", {}))  # records before had none
    served = served_sentence(manifest.get("served_by_others") or {})
    return [sentence for sentence in (lost, barred, served) if sentence]


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
                _say(f"  {rating.model} has no interval: {rating.no_interval}")
        for note in ratings.notes:
            _say(f"  {note}")
        if name in claimed:
            _show_claims(claimed[name])
        for parameter, value in ratings.fit.items():
            if not parameter.endswith("_se"):
                error = ratings.fit.get(f"{parameter}_se")
                label = "mean negative log-likelihood" if parameter == "nll" else parameter
                _say(f"  {label}: {value:.4g}" + (f" ± {error:.2g} (SE)" if error else ""))


def _show_claims(said: Mapping[str, Any]) -> None:
    """What may be said about an order, how few votes it rests on, and what the open orders need."""
    fragile = said["fragility"]
    rests_on = [fragile["sentence"]] if fragile else []
    for sentence in (*said["sentences"], *rests_on, ABOUT[said["about"]]):
        _say(f"  {sentence}")
    _show_open({"": said["neighbours"]})


def _show_open(orders: Mapping[str, list[dict[str, Any]]]) -> None:
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
            _say(f"  … and {waiting - _SHOWN_ORDERS} more (--json lists all)")


def show_table(table: Table) -> None:
    """A table, and its notes as sentences under it."""
    _print(table)
    for sentence in table.notes:
        _say(f"  {sentence}")


def show_comparison(comparison: Comparison) -> None:
    """Warnings, settings that differ, verdicts that flipped, gaps that moved, orders that are
    decided in one record only.
    """
    for warning in comparison.warnings:
        _say(warning)
    if comparison.settings:
        settings = [
            {"key": key, "before": str(old), "after": str(new)}
            for key, (old, new) in comparison.settings.items()
        ]
        _print(Table(rows=settings, title="Settings and inputs that differ", left=["key"]))
    else:
        _say("Settings and inputs: no difference.")
    _show_flips(comparison)
    _show_moves(comparison.deltas)
    _say("Who is above whom, by Bradley–Terry (--json lists all orders):")
    for orders in comparison.orders:
        _say(f"  {orders.sentence}")


def _show_flips(comparison: Comparison) -> None:
    """The verdicts that changed, some of them by name."""
    flips = comparison.flips
    _say(
        f"Verdicts: {len(flips)} of {comparison.n_shared} shared presentations changed; "
        f"{comparison.only_before} only before, {comparison.only_after} only after."
    )
    for flip in flips[:_SHOWN_FLIPS]:
        shown = f"{flip.dimension} {flip.prompt_id} {flip.first} | {flip.second}"
        _say(f"  {shown}: {flip.before} → {flip.after}")
    if len(flips) > _SHOWN_FLIPS:
        _say(f"  … and {len(flips) - _SHOWN_FLIPS} more (--json lists all)")


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
        _say("Other battles: no shared verdict changed; prompts, pairs or settings did.")


def show_forecast(forecast: Forecast | None, title: str = "Forecast") -> None:
    """What a run would cost."""
    if forecast is None:
        _say("This run costs nothing: nobody is asked over the network.")
        return
    _print(replace(facts(forecast_rows(forecast), name="forecast"), title=title, labels=True))


def show_cap(usd: float, cap: float) -> None:
    """Whether a cap allows what is forecast."""
    if not cap:
        _say(f"{dollars(usd)}, and no max_cost_usd is set: such a run is refused.")
    elif usd > cap:
        _say(f"{dollars(usd)} is more than max_cost_usd {cap:g} allows: such a run is refused.")
    else:
        _say(f"{dollars(usd)} is within max_cost_usd {cap:g}.")


def show_expected(sentences: Mapping[str, str]) -> None:
    """What a run is expected to decide; dimensions of which the same is said stand together."""
    for sentence in dict.fromkeys(sentences.values()):
        names = ", ".join(name for name, each in sentences.items() if each == sentence)
        _say(f"{names}: {sentence}")


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
    _say(f"spent ${cost['usd_spent']:.4f}{unknown if cost['usd_unknown'] else ''}")


def show_batches(rows: Sequence[Mapping[str, Any]]) -> None:
    """Batches under way."""
    if not rows:
        _say("No batch is under way.")
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
        _say("No record is here; arena-kit run pilot makes one.")
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


def _say(text: str) -> None:
    Console(highlight=False).print(Text(visible(text)), soft_wrap=True)
