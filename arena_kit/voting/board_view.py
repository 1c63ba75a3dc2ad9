"""The live board as the researcher's page shows it: sentences and tables of plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from arena_kit.policy.rules import Standing, confidence, provisional_state
from arena_kit.voting.board import LiveBoard


def board_view(board: LiveBoard, voters: int) -> dict[str, Any]:
    """What is shown of the board, as JSON holds it."""
    tables = [_standings(board)]
    if len(board.votes):
        tables.append(_providers(board))
    return {
        "state": _state(board, voters),
        "sentences": [f"The board is {board.status.sentence}.", *_variants(board)],
        "tables": tables,
    }


def _state(board: LiveBoard, voters: int) -> str:
    counts = [
        f"{_counted(len(board.votes), 'vote')} of {_counted(voters, 'voter')}",
        f"{_counted(board.waiting, 'pair')} waiting",
        *([f"{board.skips:,} skipped"] if board.skips else []),
        *([f"{board.removed:,} removed"] if board.removed else []),
    ]
    return ", ".join(counts)


def _counted(n: int, what: str) -> str:
    return f"1 {what}" if n == 1 else f"{n:,} {what}s"


def _standings(board: LiveBoard) -> dict[str, Any]:
    by_model = {each.model: each for each in board.standings}
    rows = [
        {"": rank, "model": model, **_standing(board, by_model[model])}
        for rank, model in enumerate(board.order, 1)
    ]
    return _table("Models in the published order", rows)


def _standing(board: LiveBoard, standing: Standing) -> dict[str, Any]:
    policy = board.policy
    return {
        "rating − 2 RD": round(standing.conservative(policy)),
        "rating": round(standing.rating),
        "confidence": f"{confidence(policy, standing.rd)} %",
        "coverage": f"{standing.prompt_coverage:.0%}".replace("%", " %"),
        "votes": standing.votes,
        "decisive": standing.decisive,
        "both bad": standing.both_bad,
        "state": "provisional" if provisional_state(policy, standing).provisional else "ranked",
    }


def _providers(board: LiveBoard) -> dict[str, Any]:
    rows = [
        {
            "provider": each.provider,
            "models": len(each.models),
            "shown": each.shown,
            "share": f"{each.share:.0%}".replace("%", " %"),
            "in the window": each.exposure,
            "due": round(each.target),
            "exposure": "fair" if each.within else "outside its bounds",
        }
        for each in board.exposure.providers
    ]
    return _table("Exposure by provider", rows)


def _variants(board: LiveBoard) -> list[str]:
    if not board.votes:
        return []
    found = {"Private": board.exposure.private, "Withdrawn": board.exposure.withdrawn}
    return [
        f"{kind}: {', '.join(f'{each.model} ({each.votes:,} votes)' for each in variants)}."
        for kind, variants in found.items()
        if variants
    ]


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    columns = list(rows[0]) if rows else []
    return {"title": title, "columns": columns, "rows": [list(row.values()) for row in rows]}
