"""What a run found, in sentences: those its report begins with, or, of records from before those
were kept, what other artifacts say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from arena_kit.files import read_json
from arena_kit.judging.quality.measures import served_sentence
from arena_kit.policy.constants import Phase
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.tables import ranks_text, span
from arena_kit.site.boards import strengths_of

#: Artifacts that hold the answer of a notebook, and where; pilots had readiness.json before 0.1.0.
_HOLD = {
    "readiness.json": "answer",
    "k_sweep.json": "answer",
    "judges.json": "answer",
    "rejudge.json": "sentences",
    "voters.json": "answer",
}


def answers(record: Path, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """The answer of a record's notebook."""
    if kept := _kept(record):
        return tuple(kept["said"][: len(kept["said"]) - len(kept["caveats"])])
    gate = manifest.get("judge_gate") if manifest.get("mode") == "pilot" else None
    first = [gate["sentence"]] if gate else []
    return (*first, *_held(record), *_boards(record, manifest))


def cautions_of(record: Path, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """What not to conclude, and what is to be known of the judge: what its gate
    says, and who answered in its place. A pilot's gate is its answer.
    """
    if kept := _kept(record):
        return tuple(kept["caveats"])
    gate = {} if manifest.get("mode") == "pilot" else manifest.get("judge_gate") or {}
    served = served_sentence(manifest.get("served_by_others") or {})
    return tuple(filter(None, [gate.get("sentence"), served]))


def _kept(record: Path) -> dict[str, Any] | None:
    """The box of the report, where the record has one and its phase shows it."""
    board = record / "leaderboard.json"
    if not (record / ANSWER_FILE).is_file():
        return None
    if board.is_file() and not Phase(read_json(board)["phase"]).shows_diagnostics:
        return None
    kept: dict[str, Any] = read_json(record / ANSWER_FILE)
    return kept


def _held(record: Path) -> Iterator[str]:
    for name, key in _HOLD.items():
        if (record / name).is_file():
            said = read_json(record / name)[key]
            yield from [_whole(said)] if isinstance(said, str) else map(_whole, said)


def _boards(record: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    """What may be said of the order on each board."""
    if (record / "elo_results.json").is_file():
        strengths = strengths_of(record)
        for dimension in manifest["dimensions"]:
            if said := strengths.get(dimension, {}).get("claims"):
                yield f"{dimension}: {said['sentences'][0]}"
    if (record / "placement.json").is_file():
        yield _placed(read_json(record / "placement.json"))
    if (record / "leaderboard.json").is_file():
        yield from _board_status(read_json(record / "leaderboard.json"))


def _placed(placement: Mapping[str, Any]) -> str:
    board = placement["board"]
    row = next(row for row in board["ratings"] if row["model"] == placement["model"])
    interval = span(row["ci_low"], row["ci_high"])
    ranks = ranks_text(row["ranks"] and tuple(row["ranks"]))
    return (
        f"{row['model']}: {row['rating']:.0f} ({interval}), rank {ranks} of "
        f"{len(board['ratings'])}, {board['heading']}."
    )


def _board_status(board: Mapping[str, Any]) -> Iterator[str]:
    """The status of a policy's board, as far as its rollout phase shows it (12)."""
    phase, status = Phase(board["phase"]), board["status"]
    if not phase.shows_diagnostics:
        yield f"Phase {int(phase)}: confidence, coverage, badges and status are not shown yet."
        return
    aside = "" if status["published"] else " (computed, not published)"
    yield f"Rules kept{aside}: {status['status']}: {'; '.join(status['reasons'])}."
    if "order_decided" in board:  # records of earlier versions do not have it
        yield f"Order decided{aside}: {_whole(board['order_decided']['sentence'])}"


def _whole(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
