"""A grid of runs, and their answers side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from arena_kit.files import DataError, read_json, write_json, write_text
from arena_kit.reporting.sweep import SweepIndex, SweptRun
from arena_kit.runs.sweep import Grid, run_sweep
from tests.samples import HOSTILE, Elements


def grid(workspace: Path, text: str, name: str = "k_sweep") -> Grid:
    write_text(workspace / "grid.yaml", text)
    return Grid.read(name, workspace / "grid.yaml", workspace)


def test_a_grid_is_every_combination(workspace: Path) -> None:
    """Lists are varied, single values are not, and the file's order is kept."""
    made = grid(workspace, "subset_seed: [0, 1]\nn_perms: 20\nmargin: [0.0, 5.0]\n", "pilot")
    assert made.runs == tuple(
        {"subset_seed": seed, "n_perms": 20, "margin": margin}
        for seed in (0, 1)
        for margin in (0.0, 5.0)
    )
    assert made.names() == ["001", "002", "003", "004"]
    assert made.varied == ["subset_seed", "margin"]


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        ("sede: [1]", "pilot", "unknown parameter 'sede' of pilot; allowed: allow_failed_judge"),
        ("run_dir: [x]", "pilot", "unknown parameter 'run_dir'"),
        ("seed: []", "pilot", "seed has no value"),
        ("", "pilot", "gives 0 runs; allowed: 1 to 1,000"),
        ("seed: [1]", "pylot", "no notebook 'pylot'; known: adaptive"),
    ],
)
def test_a_wrong_grid_is_refused(workspace: Path, text: str, name: str, sentence: str) -> None:
    """One sentence before anything starts."""
    with pytest.raises(DataError, match=sentence.replace("'", ".")):
        grid(workspace, text, name)


def finished(folder: Path, name: str, answer: str) -> None:
    """A finished record, as far as a sweep looks at it."""
    write_json(folder / name / "manifest.json", {"status": "finished"})
    told = {"answer": [answer], "question": "Who is first?"}
    write_json(folder / name / "answer.json", told)


def test_finished_runs_are_not_run_again(workspace: Path) -> None:
    """A folder whose runs are all finished only renews its index; another grid is refused."""
    folder = workspace / "runs" / "sweep"
    made = grid(workspace, "subset_seed: [0, 1]", "pilot")
    write_json(folder / "sweep.json", {"notebook": "pilot", "runs": list(made.runs), "params": ""})
    finished(folder, "001", "facts: x is first (P 91%)")
    finished(folder, "002", "facts: x is first (P > 99%)")
    (index,) = run_sweep(made, folder, root=workspace)
    assert index.sentences == ["All 2 finished runs give the same answer, up to probabilities."]
    assert read_json(folder / "index.json")["answers"][0]["runs"] == ["001", "002"]
    assert 'href="002/report.html"' in (folder / "index.html").read_text(encoding="utf-8")
    other = grid(workspace, "subset_seed: [0, 2]", "pilot")
    with pytest.raises(DataError, match="holds the sweep of another grid"):
        list(run_sweep(other, folder, root=workspace))


def test_the_index_says_first_where_answers_differ() -> None:
    """Topics that agree and those that do not, runs that did not finish, and no text as markup."""
    bad = HOSTILE[1]
    runs = [
        SweptRun(name="001", parameters={"k": 4}, status="finished",
                 answer=["facts: x is first (P 60%).", "tone: y is first (P 70%)."]),
        SweptRun(name="002", parameters={"k": bad}, status="finished",
                 answer=["facts: x is first (P 80%).", f"tone: {bad} is first (P 70%)."]),
        SweptRun(name="003", parameters={"k": 16}, status="failed", error=bad),
    ]  # fmt: skip
    index = SweepIndex(notebook="pilot", runs=runs)
    assert index.sentences == [
        "The answer depends on what was varied: 2 runs give 2 different ones.",
        "facts: the same in all runs.",
        "tone: 2 different answers.",
        "1 of 3 runs did not finish.",
    ]
    assert index.html.index("depends on") < index.html.index("x is first")
    assert "img" not in Elements(index.html).tags


@pytest.mark.slow  # three kernels, one after another
def test_a_sweep_goes_on_where_it_was(workspace: Path) -> None:
    """A run that is missing is run, one that failed goes on, and a finished one stays as it is."""
    folder = workspace / "runs" / "sweep"
    made = grid(workspace, "subset_seed: [0, 1]\nn_perms: 20\nlimit_pairs: 10\n", "pilot")
    *_, index = run_sweep(made, folder, root=workspace, jobs=1)
    assert [run.status for run in index.runs] == ["finished", "finished"]
    assert all(run.answer for run in index.runs)
    before = (folder / "001" / "manifest.json").read_bytes()
    manifest = read_json(folder / "002" / "manifest.json")
    write_json(folder / "002" / "manifest.json", manifest | {"status": "failed"})
    *_, again = run_sweep(made, folder, root=workspace, jobs=1)
    assert again.as_dict() == index.as_dict()
    assert (folder / "001" / "manifest.json").read_bytes() == before
