"""The public surface: small, explicit, and complete."""

import subprocess
import sys
from types import ModuleType

import pandas as pd
import pytest

import arena_kit
from arena_kit import BattleLog, BradleyTerry, DataError, Glicko2, PermutationElo, rate

FRAME = pd.DataFrame(
    {"model_a": ["x", "x", "y", "z"], "model_b": ["y", "z", "z", "x"], "dimension": list("ffcc"),
     "winner": ["model_a", "tie", "model_b", "model_b"]}
)  # fmt: skip


def test_names_resolve() -> None:
    """Public names are documented, few, and all there are."""
    for name in arena_kit.__all__:
        found = getattr(arena_kit, name)
        assert name == "__version__" or found.__doc__, f"{name} has no docstring"
    assert len(arena_kit.__all__) <= 46  # with __version__
    assert set(dir(arena_kit)) == set(arena_kit.__all__)
    found = {
        name
        for name, value in vars(arena_kit).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }
    assert found <= set(arena_kit.__all__)
    assert not hasattr(arena_kit, "write_json")


def test_a_frame_is_rated_as_its_log_is() -> None:
    """Every method and `rate` take a pandas frame; results are frames and figures; what is no
    table of battles is a sentence.
    """
    log = BradleyTerry()(FRAME)
    for method in (BradleyTerry(), PermutationElo(n_perms=10, evidence_replicates=0), Glicko2()):
        assert method(FRAME).order[0] == "x"
    assert list(log.to_frame()["model"]) == list(log.order)
    assert [label.get_text() for label in log.plot().get_yticklabels()] == list(log.order)
    assert rate(FRAME).names == ["c", "f"]
    with pytest.raises(DataError, match="a BattleLog or a pandas frame, got list"):
        BradleyTerry()([FRAME])  # type: ignore[arg-type]


def test_a_log_is_cut_and_filtered() -> None:
    """A column by name, battles by slice, mask, index and value; an unknown column is named."""
    log = BattleLog.from_counts(["x", "x"], ["y", "z"], [2, 1], [1, 0], [0, 1])
    assert list(log["winner"]) == ["model_a", "model_b", "model_a", "tie"]
    some = (slice(2), log["model_b"] == "z", [0, 3], -1)
    assert [len(log[each]) for each in some] == [2, 2, 2, 1]
    assert len(log.where(model="z", winner=["tie", "both_bad"])) == 1
    assert log.where(model="y").models == ("x", "y")
    with pytest.raises(KeyError, match="no column 'lane'; there: model_a"):
        log["lane"]


def test_an_error_in_a_notebook_is_its_sentence() -> None:
    """No frames, no options of the command line; errors of others keep their frames."""
    ours = "raise ak.DataError('say it with --model-a; or arena-kit rate --stream x')"
    cells = ["import arena_kit as ak", "ak.open_run('nowhere')", "1 / 0", ours]
    code = (
        "from IPython.core.interactiveshell import InteractiveShell as Shell; "
        f"[Shell.instance(colors='NoColor').run_cell(cell) for cell in {cells}]"
    )
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    first, theirs, last = told.split("An exception has occurred")[1], told, told[-200:]
    assert "nowhere: not a run record (no manifest.json)" in first
    assert "open_run.py" not in told
    assert "----> 1 1 / 0" in theirs
    assert "DataError: say it with model_a; or arena-kit rate --stream x" in last
