"""The report of a notebook that runs in JupyterLab: its file, with what the kernel has shown.

Lab saves the file whenever it likes and tells the kernel nothing of it, so texts come from the
file, and code and outputs from the kernel.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from arena_kit.files import read_json, write_text
from arena_kit.reporting.html import export_report

#: The notebook's file, as Jupyter Server tells its kernels, and as VS Code does.
SESSION_VARIABLE, VSCODE_NAME = "JPY_SESSION_NAME", "__vsc_ipynb_file__"


@dataclass(slots=True)
class _Run:
    """A cell that ran: its id (empty where the front end sends none), code and outputs."""

    cell_id: str
    source: str
    outputs: list[Any]


@dataclass(slots=True)
class _Session:
    """What this kernel has run since a record was begun, by execution count."""

    shell: Any
    notebook: Path
    ran: dict[int, _Run] = field(default_factory=dict)
    records: list[Path] = field(default_factory=list)

    def after_cell(self, result: Any) -> None:
        """Keep what a cell has shown, then render the records that it closed."""
        if result.execution_count is not None:  # what a front end asks by itself has none
            cell_id, source = str(result.info.cell_id or ""), str(result.info.raw_cell)
            run = _Run(cell_id, source, list(_outputs(self.shell, result)))
            self.ran[result.execution_count] = run
        while self.records:
            record = self.records.pop()
            try:
                _render(self.notebook, self.ran, record)
                _link(record / "report.html", self.notebook.parent)
            except Exception as error:  # the record is whole without its report
                print(f"no report.html: {error}", file=sys.stderr)  # noqa: T201


_session: _Session | None = None


def follow() -> None:
    """Keep what cells show from now on, where this is the kernel of a notebook in Lab."""
    global _session  # noqa: PLW0603 (a process is one kernel)
    if _session is not None or "ipykernel" not in sys.modules:
        return
    from IPython import get_ipython

    shell: Any = get_ipython()
    if shell is None:
        return
    name = shell.user_ns.get(VSCODE_NAME) or os.environ.get(SESSION_VARIABLE, "")
    if not (notebook := Path(str(name))).is_file():
        return
    _session = _Session(shell, notebook)
    shell.events.register("post_run_cell", _session.after_cell)


def render_after_cell(record: Path) -> None:
    """Write report.ipynb and report.html into a record once the cell that closes it has ended."""
    if _session is not None and record not in _session.records:
        _session.records.append(record)


def _outputs(shell: Any, result: Any) -> Iterator[Any]:
    """What a cell printed, displayed and ended with; its progress bars are left out."""
    kept = getattr(shell.history_manager, "outputs", {})  # IPython 9 has them
    for each in kept.get(result.execution_count, ()):
        if each.output_type == "out_stream":
            yield _output("stream", name="stdout", text="".join(each.bundle["stream"]))
        elif each.output_type == "display_data":
            yield _output("display_data", data=dict(each.bundle))
    if result.result is not None:
        data, metadata = shell.display_formatter.format(result.result)
        yield _output("display_data", data=data, metadata=metadata)
    if error := result.error_before_exec or result.error_in_exec:
        name = type(error).__name__
        traceback = [f"{name}: {error}"]
        yield _output("error", ename=name, evalue=str(error), traceback=traceback)


def _output(kind: str, **values: Any) -> Any:
    from nbformat.v4 import new_output

    return new_output(kind, **values)  # type: ignore[no-untyped-call]


def _render(notebook: Path, ran: Mapping[int, _Run], record: Path) -> None:
    import nbformat

    node = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    parameters = read_json(record / "manifest.json")["parameters"]
    node.cells = _cells(node.cells, dict(ran), parameters)
    write_text(record / "report.ipynb", nbformat.writes(node))  # type: ignore[no-untyped-call]
    export_report(record / "report.ipynb", record / "report.html")


def _link(report: Path, folder: Path) -> None:
    """Say under the cell where the report is; Lab opens a link from the notebook's folder."""
    from IPython.display import Markdown, display

    path = Path(os.path.relpath(report, folder)).as_posix()
    display(Markdown(f"The report of this run: [{report.parent.name}]({quote(path)})"))  # type: ignore[no-untyped-call]


def _cells(cells: list[Any], ran: dict[int, _Run], parameters: Mapping[str, Any]) -> list[Any]:
    """The file's texts and the cells that ran, each in its place in the file or, where it has
    none there, before the next one that ran; parameters as the run resolved them.
    """
    from nbformat.v4 import new_code_cell

    placed: list[tuple[int, Any]] = []
    for cell in cells:
        if cell.cell_type != "code":
            placed.append((0, cell))
        elif "parameters" in cell.metadata.get("tags", []):
            cell.source = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
            placed.append((0, cell))
        elif (count := _last_run(cell, ran)) is not None:
            run = ran.pop(count)
            cell.source, cell.outputs = run.source, run.outputs
            placed.append((count, cell))
        while cell.cell_type == "code" and (earlier := _last_run(cell, ran)) is not None:
            del ran[earlier]
    for count, run in sorted(ran.items()):
        after = (n for n, (other, _) in enumerate(placed) if other > count)
        cell = new_code_cell(run.source, outputs=run.outputs)  # type: ignore[no-untyped-call]
        placed.insert(next(after, len(placed)), (count, cell))
    return [cell for _, cell in placed]


def _last_run(cell: Any, ran: Mapping[int, _Run]) -> int | None:
    """The last time that a cell of the file ran, known by its id, else by its code."""
    by_id = [n for n, run in ran.items() if run.cell_id and run.cell_id == cell.get("id")]
    by_code = [n for n, run in ran.items() if run.source.strip() == cell.source.strip()]
    return max(by_id or by_code, default=None)
