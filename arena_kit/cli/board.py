"""The board of a run record in the terminal, and the answer that its report begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arena_kit.cli.base import echo
from arena_kit.cli.terminal import show_open, show_table
from arena_kit.files import read_json
from arena_kit.judging.quality.measures import served_sentence
from arena_kit.policy.constants import Phase
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.board import SCALES
from arena_kit.reporting.tables import Table, number, percent, ranks_text, span
from arena_kit.reporting.tournament_tables import barred_text, missing_text
from arena_kit.runs.record.record import open_record

_FEW = 3  # models of a tier that are named


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
            echo(sentence)
    elif (record / "judge_gate.json").is_file():  # records before had no answer
        echo(read_json(record / "judge_gate.json")["sentence"])


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
    show_table(Table(rows=rows, title=f"{title}: {board['heading']}", left=["model"]))
    for sentence in (board["caution"], worth):
        if sentence and not answered:
            echo(sentence)


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
    show_table(Table(rows=rows, title=board["arena"], left=["model", "badge"]))
    if not phase.shows_diagnostics:
        echo(f"Phase {int(phase)}: confidence, coverage, badges and status are in the record only.")
        return
    status = board["status"]
    aside = "" if status["published"] else " (computed, not published)"
    echo(f"Rules kept: {status['status']}{aside}: {'; '.join(status['reasons'])}")
    if "order_decided" in board:  # records of earlier versions do not have it
        echo(f"Order decided{aside}: {board['order_decided']['sentence']}")
    if board.get("tiers"):
        echo(f"Tiers, each decidedly above all later ones: {'; '.join(map(_tier, board['tiers']))}")


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
            show_table(Table(rows=rows, title=title, left=["entrant"], nowrap=["entrant"]))
        else:
            echo(f"{dimension}: not rated; the report says why.")
    if any(strengths.values()):
        echo(SCALES)
    for sentence in (*_cautions(results), *_probed(manifest), *_left_out(manifest)):
        echo(sentence)
    rated_on = {d: strengths.get(d) or {} for d in manifest["dimensions"]}
    claims_of = {d: rated["claims"] for d, rated in rated_on.items() if "claims" in rated}
    for dimension, said in () if answered else claims_of.items():  # records before had no answer
        echo(f"{dimension}, by Bradley–Terry: {' '.join(said['sentences'])}")
    show_open({d: said["neighbours"] for d, said in claims_of.items()})


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
    """What canaries said of the judge, where they were asked."""
    preflight = manifest.get("preflight") or {}
    return [" ".join(preflight["sentences"])] if preflight else []


def _left_out(manifest: Mapping[str, Any]) -> list[str]:
    """What a tournament did without: responses that are missing, battles of the judge's own
    family, the judge that was asked.
    """
    dropped = manifest["dropped"]
    lost = missing_text(dropped["missing_responses"], dropped["prompts"], dropped["pairs"])
    barred = barred_text(dropped.get("own_family", {}))  # records before had none
    served = served_sentence(manifest.get("served_by_others") or {})
    return [sentence for sentence in (lost, barred, served) if sentence]
