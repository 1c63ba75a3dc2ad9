"""The report and the record of a board that was made of a file: those of a run, without a kernel.

The report is a notebook whose cells are written with what they would show.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arena_kit.battles.log import BattleLog
from arena_kit.battles.write import write_battles
from arena_kit.files import DataError, file_hash, read_text, write_json, write_text
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.answer import RunAnswer, about, order
from arena_kit.reporting.board import FILE as BOARD
from arena_kit.reporting.board import Board, label
from arena_kit.reporting.html import export_report
from arena_kit.runs.record.record import Record, find_root, runs_folder

_QUESTION = "Who is ahead in these battles, and how sure can we be?"
_RATINGS = """## Ratings

The bars of the picture above are 95 % intervals. Each interval is about one model; whether two
models differ is a question about their gap."""
_ABOVE = """## Who is above whom?

Each probability is for one pair named beforehand. A *decided* order holds for all pairs at once; an
*open* order is not one to report."""
_FILES = """## Artifacts

`board.json` holds this board and `battles.jsonl` the battles, where they were held in memory:
`arena-kit rate` with the record's folder gives the same board again."""

#: A text, or code and what it shows.
Cell = tuple[str, Sequence[object]]


def publish_rating(board: Board, battles: BattleLog | None, file: Path, page: Path) -> Record:
    """Write the page of a board and a record of how it was made; battles that were not held in
    memory are not copied.
    """
    record = Record.create(_folder(page), "rate")
    board = board.model_copy(update={"title": board.title or file.stem})
    with record.failing():
        told = {"file": str(file), "method": board.method, "settings": board.settings}
        record.start("rate", told)
        source = {"sha256": file_hash(file)} if file.is_file() else {}
        record.update(battles={"file": str(file), "n": board.n_battles, **source})
        if battles is not None:
            write_battles(record.path / "battles.jsonl", battles)
        answer = _answer(board, file, record)
        board.write(record.path)
        write_json(record.path / ANSWER_FILE, answer.as_dict())
        has_pairs = any(each.above for each in board.dimensions)
        pictures = [board.plot(), *([board.plot_pairs()] if has_pairs else [])]
        for each in pictures:
            record.keep_figure(each)
        cells = _cells(board, answer, pictures)
        _write_notebook(record.path / "report.ipynb", f"Rating of {file.name}", cells)
        export_report(record.path / "report.ipynb", record.path / "report.html")
        write_text(page, read_text(record.path / "report.html"))
    return record.close()


def _folder(page: Path) -> Path:
    """Where the record goes: as those of runs do, or beside the page outside a workspace."""
    try:
        return runs_folder(find_root())
    except DataError:
        return runs_folder(page.parent)


def _answer(board: Board, file: Path, record: Record) -> RunAnswer:
    """Who is first, and what is not separable, in a sentence per dimension."""
    rated = [board[name] for name in board.rated]
    titled = [each.model_copy(update={"name": each.name or board.title}) for each in rated]
    models = len({row.model for row in board.ratings})
    return RunAnswer(
        question=_QUESTION,
        sentences=[
            order(each) if each.orders else f"{each.name}: {_listed(board, row.name)}"
            for each, row in zip(titled, rated, strict=True)
        ],
        caveats=[*about(board), *board.notes, *(note for each in rated for note in each.notes)],
        facts={"file": file.name, "battles": f"{board.n_battles:,}", "models": f"{models:,}",
               "method": label(board), "cost": "nothing", **record.facts},
    )  # fmt: skip


def _listed(board: Board, dimension: str) -> str:
    names = ", ".join(row.model for row in board.rows(dimension))
    return f"best first by {label(board)}, which decides no order: {names}."


def _cells(board: Board, answer: RunAnswer, pictures: Sequence[object]) -> list[Cell]:
    forest, *above = pictures
    code = f'import arena_kit as ak\n\nboard = ak.Board.read("{BOARD}")\nboard.plot()'
    pairs = ("display(board.plot_pairs())\nboard.orders()", [*above, board.orders()])
    claims = [(_ABOVE, ()), pairs] if above else []
    return [(code, [forest, answer]), (_RATINGS, ()), ("board", [board]), *claims, (_FILES, ())]


def _write_notebook(path: Path, title: str, cells: Sequence[Cell]) -> None:
    """A notebook of texts and, where something is shown, of code with its output."""
    import nbformat
    from nbformat import v4

    make: Any = v4
    book = make.new_notebook(
        metadata={"title": title}, cells=[make.new_markdown_cell(f"# {title}")]
    )
    for source, shown in cells:
        outputs = [make.new_output("display_data", **_bundle(each)) for each in shown]
        cell = make.new_code_cell(source, outputs=outputs) if shown else None
        book.cells.append(cell or make.new_markdown_cell(source))
    write_text(path, nbformat.writes(book))  # type: ignore[no-untyped-call]


def _bundle(value: Any) -> dict[str, Any]:
    bundle = value._repr_mimebundle_()
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
    return {"data": data, "metadata": metadata}
