"""The report and the record of a board that was made of a file: those of a run, without a kernel.

The report is a notebook whose cells are written with what they would show.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arena_kit.battles.log import BattleLog
from arena_kit.battles.write import write_battles
from arena_kit.files import file_hash, read_text, write_json, write_text
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.answer import RunAnswer, about, brief, order
from arena_kit.reporting.board import Board, label
from arena_kit.reporting.figures import Plot
from arena_kit.reporting.html import export_report
from arena_kit.runs.record.record import Record, near_runs

_TITLE = "Rating: who is ahead, and how sure can we be?"
_RATINGS = "Each interval is about one model; whether two models differ is a question on their gap."
_PAIRS = (
    "Each probability is for one pair named beforehand. A *decided* order holds for all pairs at "
    "once; an *unresolved* order is not one to report."
)


def publish_rating(board: Board, battles: BattleLog | None, file: Path, page: Path) -> Record:
    """Write the page of a board and a record of how it was made; battles that were not held in
    memory are not copied.
    """
    record = Record.create(near_runs(page.parent), "rate")
    board = board.model_copy(update={"title": board.title or file.stem})
    with record.failing():
        told = {"file": str(file), "method": board.method, "settings": board.settings}
        record.start("rate", told)
        record.update(battles={"sha256": file_hash(file) if file.is_file() else None})
        if battles is not None:
            write_battles(record.path / "battles.jsonl", battles)
        answer = _answer(board, file, record)
        board.write(record.path)
        write_json(record.path / ANSWER_FILE, answer.as_dict())
        _write_report(board, answer, record)
        write_text(page, read_text(record.path / "report.html"))
    return record.close()


def _answer(board: Board, file: Path, record: Record) -> RunAnswer:
    """Who is first, and what is not separable, in a sentence per dimension."""
    rated = [board[name] for name in board.rated]
    named = [each.model_copy(update={"name": each.name or board.title}) for each in rated]
    facts = {"file": file.name, "battles": f"{board.n_battles:,}", "method": label(board)}
    return RunAnswer(
        brief=brief(board),
        sentences=[order(each) for each in named if each.orders],
        caveats=about(board),
        facts={**facts, "cost": "nothing", **record.facts},
    )


def _write_report(board: Board, answer: RunAnswer, record: Record) -> None:
    """The notebook and its page."""
    from nbformat import v4, writes

    make: Any = v4
    book = make.new_notebook(metadata={"title": _TITLE})
    for text, code, *shown in _sections(board, answer):
        for plot in (each for each in shown if isinstance(each, Plot)):
            record.keep_figure(plot)
        cell = make.new_code_cell(code, outputs=[_output(each) for each in shown])
        book.cells += [make.new_markdown_cell(text), cell]
    notebook = record.path / "report.ipynb"
    write_text(notebook, writes(book))  # type: ignore[no-untyped-call]
    export_report(notebook, notebook.with_suffix(".html"))


def _sections(board: Board, answer: RunAnswer) -> Iterator[tuple[Any, ...]]:
    """A text, the code under it, and what that shows; only Bradley–Terry compares all pairs."""
    code = 'import arena_kit as ak\n\nboard = ak.Board.read("board.json")\nboard.plot()'
    yield f"# {_TITLE}", code, answer.summary, board.plot(), answer
    yield f"## Ratings\n\n{_RATINGS}", "board", board
    if any(each.above for each in board.dimensions):
        code = "display(board.plot_pairs())\nboard.orders()"
        yield f"## Who is above whom?\n\n{_PAIRS}", code, board.plot_pairs(), board.orders()


def _output(shown: Any) -> Any:
    from nbformat.v4 import new_output

    bundle = shown._repr_mimebundle_()
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
    return new_output("display_data", data=data, metadata=metadata)  # type: ignore[no-untyped-call]
