"""The command that opens a run record, wherever it stands: its board, and its battles' texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from arena_kit.cli.base import echo, echo_json, json_option, plain_errors, record_folder
from arena_kit.files import DataError, read_json

_SHOWN = ("first", "winner", "winning_entrant", "justification")


@click.command()
@click.argument("record", type=record_folder)
@click.argument("battle", required=False)
@json_option("every battle, or BATTLE, with its texts as JSON lines")
@plain_errors
def show(record: Path, battle: str | None, as_json: bool) -> None:
    """Open a run RECORD: its board or, with the battle_id of a BATTLE, that battle's texts.

    Needs nothing but the record's folder; texts need one that kept its inputs.
    """
    from arena_kit.runs.record.record import open_record

    if battle or as_json:
        for row in _battles(record, battle):
            _print(row, as_json=as_json)
        return
    manifest = open_record(record)
    show_board(record)
    echo(f"{manifest.get('mode')} of {manifest.get('started_at')}, {manifest.get('status')}")
    kept = [entry["kept"] for entry in manifest.get("inputs", {}).values()]
    echo(f"inputs: {sum(kept)} files kept, {len(kept) - sum(kept)} only as hashes")


def show_board(record: Path) -> None:
    """The board of a run record and under it the answer that its report begins with."""
    from arena_kit.cli import terminal
    from arena_kit.reporting.answer import FILE as ANSWER
    from arena_kit.reporting.board import FILE as BOARD
    from arena_kit.reporting.board import Board

    answer = read_json(record / ANSWER) if (record / ANSWER).is_file() else None
    board = Board.read(record) if (record / BOARD).is_file() else None
    if board:
        terminal.show_board(board, answered=answer is not None)
    if answer and (board is None or board.diagnostics):
        for sentence in ("", answer["question"], *answer["said"]):
            echo(sentence)


@click.command()
@click.argument("before", type=record_folder)
@click.argument("after", type=record_folder)
@json_option("JSON instead of tables")
@plain_errors
def compare(before: Path, after: Path, as_json: bool) -> None:
    """What changed between two run records.

    Warns where prompt sets, judges or centers differ. Shows parameters and inputs that differ,
    verdicts that flipped, how far each entrant's Bradley–Terry gap to the others moved, with the
    interval of that change, and which decided orders were lost, gained or reversed.
    """
    from arena_kit.cli import terminal
    from arena_kit.runs.record.compare import compare_records

    comparison = compare_records(before, after)
    if as_json:
        echo_json(comparison.as_dict())
    else:
        terminal.show_comparison(comparison)


def _battles(record: Path, wanted: str | None) -> Iterator[dict[str, Any]]:
    """The battles of a record with their texts and what the judge said; one where it is wanted."""
    from arena_kit.runs.record.inputs import record_texts
    from arena_kit.site.reading import verdicts_of

    log, texts = record_texts(record)
    rows = list(
        zip(log.to_battles(), texts.prompt, texts.response_a, texts.response_b, strict=True)
    )
    chosen = [row for row in rows if wanted in (None, row[0].battle_id)]
    if wanted and not chosen:
        raise DataError(
            f"{record}: no battle {wanted!r} among {len(rows)}; battles.jsonl lists them"
        )
    said = verdicts_of(record)
    for battle, prompt, response_a, response_b in chosen:
        yield {
            "battle_id": battle.battle_id,
            "model_a": battle.model_a,
            "model_b": battle.model_b,
            "winner": "inconsistent" if battle.inconsistent else str(battle.winner),
            "judge_model": battle.judge_model,
            "prompt": prompt,
            "response_a": response_a,
            "response_b": response_b,
            "verdicts": [
                {name: verdict[name] for name in _SHOWN}
                for verdict in said.get(str(battle.battle_id), [])
            ],
        }


def _print(battle: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        echo(json.dumps(battle, allow_nan=False))
        return
    outcome = battle.get(battle["winner"], battle["winner"])
    echo(f"{battle['battle_id']}: {outcome}, judged by {battle['judge_model']}")
    for name, text in (
        ("prompt", battle["prompt"]),
        (battle["model_a"], battle["response_a"]),
        (battle["model_b"], battle["response_b"]),
    ):
        echo(f"\n[{name}]\n{text}")
    for verdict in battle["verdicts"]:
        named = verdict["winning_entrant"] or verdict["winner"] or "no verdict"
        echo(f"\n[{verdict['first']} shown first: {named}]\n{verdict['justification']}")
