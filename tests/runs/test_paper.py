"""The kit for a paper: it holds what the record holds, and LaTeX takes it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from arena_kit.files import DataError, file_hash, read_json
from arena_kit.runs.record.paper import Paper, write_paper


@pytest.fixture(scope="module")
def kit(pilot_record: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    write_paper(pilot_record, folder)
    return folder


def test_numbers_are_the_records(kit: Path, pilot_record: Path) -> None:
    """Every number of the methods text stands in the manifest, the board or the gate."""
    paper = Paper.of(pilot_record)
    manifest = paper.manifest
    settled = manifest["counts"]["judgments"].values()
    flow = paper.flow()
    assert flow["pairs inconsistent"] == sum(each["inconsistent"] for each in settled)
    assert flow["pairs judged"] == sum(manifest["counts"]["pairs"].values())
    held = " ".join(
        (pilot_record / name).read_text() for name in ("manifest.json", "board.json")
    ) + " ".join(f"{n:,}" for n in flow.values())
    known = {*re.findall(r"\d+(?:\.\d+)?", held)}
    # 95 % intervals, the level in percent, odds of 10 to 1, the number of models and years of works
    known |= {"95", "10", "1", str(len(manifest["entrants"]))}
    known |= {f"{manifest['analysis']['rating'][name]:g}" for name in ("center", "scale")}
    text = re.sub(r"\[[a-z]+\d{4}\]", "", (kit / "methods.txt").read_text())
    assert {*re.findall(r"\d+(?:\.\d+)?", text)} <= known
    card = read_json(kit / "data_card.json")
    assert card["sha256"]["board.json"] == file_hash(pilot_record / "board.json")


def test_checklist_points_into_the_record(kit: Path, pilot_record: Path) -> None:
    """Each place that the checklist names is there; the rest is for the author to fill."""
    manifest = read_json(pilot_record / "manifest.json")
    rows = [
        row for row in Paper.of(pilot_record).checklist().rows if "Flow" not in str(row["item"])
    ]
    for row in rows:
        place = str(row["where in the record"])
        file, _, keys = place.partition(": ")
        if file == "manifest.json":
            assert all(key.partition(".")[0].strip() in manifest for key in re.split("[,;]", keys)
                       if "/" not in key and ".txt" not in key)  # fmt: skip
        elif place != "author to fill":
            assert (pilot_record / file).exists()
    assert "author to fill" in (kit / "checklist.md").read_text()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX on this machine")
def test_latex_compiles(kit: Path) -> None:
    """Pdflatex and bibtex make a document of it, and every reference is found."""
    for command in (["pdflatex"], ["bibtex"], ["pdflatex"], ["pdflatex"]):
        more = ["-interaction=nonstopmode", "-halt-on-error"] if command == ["pdflatex"] else []
        done = subprocess.run([*command, *more, "paper"], cwd=kit, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode(errors="replace")[-1500:]
    assert (kit / "paper.pdf").stat().st_size > 20_000
    assert "undefined" not in (kit / "paper.log").read_text(errors="replace")


def test_only_judged_tournaments(tmp_path: Path) -> None:
    """A record without a board is refused in a sentence, and nothing is written."""
    (tmp_path / "manifest.json").write_text('{"mode": "vote_review", "status": "finished"}')
    with pytest.raises(DataError, match="a paper needs a finished judged tournament"):
        write_paper(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
