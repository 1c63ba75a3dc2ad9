"""The sample arena: made by its script, byte for byte, and labelled simulated wherever shown."""

from __future__ import annotations

import gzip
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arena_kit import BattleLog, BradleyTerry, publish_placement, read_battles, to_battles
from arena_kit.battles.read import read_battle_texts
from arena_kit.files import read_yaml
from arena_kit.reporting import placement
from tests.samples import ROOT, edited, jsonl, judgments_of, placed_model

ARENA = ROOT / "sample" / "arena"
VOTES, VERDICTS = ARENA / "simulated_votes.csv.gz", ARENA / "judged_by_baseline.jsonl.gz"
NOTE = "simulated, no person voted"


@pytest.mark.parametrize(
    ("script_name", "name"),
    [
        ("simulate.py", VOTES.name),
        # 6,000 matchups; tests/matchmaking/test_scheduler.py notices others at once
        pytest.param("season.py", "season.csv.gz", marks=pytest.mark.slow),
        ("pushed.py", "pushed_votes.csv.gz"),
        ("texts.py", "simulated_texts.jsonl.gz"),
    ],
)
def test_the_script_makes_the_file(workspace: Path, script_name: str, name: str) -> None:
    """The committed votes are what their script writes, byte for byte."""
    copy, committed = workspace / "sample" / "arena" / name, ARENA / name
    copy.unlink()
    subprocess.run([sys.executable, copy.parent / script_name], check=True, timeout=120)
    assert gzip.decompress(copy.read_bytes()) == gzip.decompress(committed.read_bytes())
    assert copy.read_bytes() == committed.read_bytes()


def test_the_verdicts_are_the_embedded_judges(workspace: Path) -> None:
    """The judged battles are what the embedded judge says on the sample's factuality prompts,
    not made up: judging them again gives the same battles.
    """
    edited(workspace, dimensions__calibration=None, dimensions__clinical_utility=None)
    battles = to_battles(judgments_of("headline", n_perms=20)).by_dimension()["factuality"]
    fields = ("battle_id", "model_a", "model_b", "winner", "inconsistent", "question_id")

    def told(log: BattleLog) -> list[tuple[object, ...]]:
        return sorted(tuple(getattr(b, field) for field in fields) for b in log.to_battles())  # type: ignore[type-var]

    committed = read_battles(VERDICTS)
    assert told(committed) == told(battles)
    assert committed.judge_model is not None
    assert list(committed.judge_model.names) == ["baseline/lexical-v1"]


def test_planted_skills_come_out() -> None:
    """Every vote says that it is simulated. Ratings follow the planted skills: correlated above
    0.99, and not stretched (what a question suits draws them together a little, as the ties do).
    Only yew has fewer than the 500 votes that a ranked model needs, also without the votes on the
    model to place; that one was judged and voted on, so that both can be compared.
    """
    votes, judged = read_battles(VOTES), read_battles(VERDICTS)
    assert votes.session is not None
    assert all(str(name).startswith("simulated-") for name in votes.session.names)
    assert (votes.session.codes >= 0).all()
    assert set(votes.columns()["source"]) == {"human"}
    skills = runpy.run_path(str(ARENA / "simulate.py"))["SKILLS"]
    ratings = BradleyTerry(prior=0)(votes)
    skill = np.array([skills[model] for model in ratings.models], float)
    found = np.array([ratings[model].rating for model in ratings.models])
    assert np.corrcoef(skill, found)[0, 1] > 0.99
    assert 0.75 < np.polyfit(skill, found, 1)[0] < 1.05
    rest = votes.among([model for model in votes.models if model != "dogwood"])
    counts = dict(zip(rest.models, np.bincount(np.concatenate([rest.a, rest.b])), strict=True))
    assert [model for model, n in counts.items() if n < 500] == ["yew"]
    assert len(votes) - len(rest) >= 500
    assert "dogwood" in judged.models
    assert set(judged.models) < set(votes.models)


def test_the_arena_with_texts() -> None:
    """Its votes are called simulated, nobody voted on the model to be placed, every text is the
    sample's own or its first two sentences, and it is small.
    """
    file = ARENA / "simulated_texts.jsonl.gz"
    log, texts = read_battle_texts(file)
    assert log.simulated()
    assert "dogwood" not in log.models
    assert file.stat().st_size < 300_000
    files = (ROOT / "sample" / "responses").glob("*.jsonl")
    whole = {" ".join(row["response_text"].split()) for path in files for row in jsonl(path)}
    for text in {*texts.response_a, *texts.response_b}:
        words = " ".join(text.split())
        sentences = len(re.findall(r"[.!?](?= |$)", words))
        shorter = sentences <= 3 and any(each.startswith(words) for each in whole)
        assert words in whole or shorter
    assert {*texts.prompt} <= {row["text"] for row in jsonl(ROOT / "sample" / "prompts.jsonl")}


def test_the_params_file_says_so() -> None:
    """The sample's params file names the simulated file and says so; the notebook says it, too."""
    file = ROOT / "params" / "placement.yaml"
    assert read_yaml(file)["human"] == "sample/arena/simulated_votes.csv.gz"
    assert "simulated" in file.read_text().splitlines()[0]
    notebook = json.loads((ROOT / "notebooks" / "placement.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"]]
    assert "votes are simulated" in cells[0]
    for name in ("board", "forest"):
        (cell,) = [each for each in cells if f"placement.{name}(" in each]
        assert "plan.note" in cell, f"{name} without the note"


def test_artifacts_and_figures_say_so(workspace: Path) -> None:
    """The ratings file, the manifest, the facts, the leaderboard and the picture carry the note,
    and the placed model comes out near its planted skill.
    """
    study = placed_model(**read_yaml(workspace / "params" / "placement.yaml"))
    record, plan = publish_placement(study), study.verdicts.plan
    found = json.loads((record.path / "elo_ratings.json").read_text())
    assert found["arena"] == f"simulated_votes ({NOTE})"
    human = record.read()["human_battles"]
    assert human["note"] == NOTE
    assert "simulated" in human["file"]
    assert NOTE in plan.facts["arena"]
    assert f"People's votes: {NOTE}." in placement.board(study.placed, plan.note).html
    assert NOTE in placement.forest(study.placed, plan.note).figure.axes[0].get_xlabel()
    hidden = study.placed.hidden
    assert hidden is not None
    assert study.placed.joint["dogwood"].rating == pytest.approx(hidden.rating, abs=40)
