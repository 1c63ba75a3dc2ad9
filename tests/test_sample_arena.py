"""The sample arena: made by its script, byte for byte, and labelled simulated wherever shown."""

import gzip
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arena_kit import BattleLog, BradleyTerry, read_battles, to_battles
from arena_kit.battles.read import read_battle_texts
from tests.samples import ROOT, edited, jsonl, judgments_of

ARENA = ROOT / "sample" / "arena"
VOTES, VERDICTS = ARENA / "simulated_votes.csv.gz", ARENA / "judged_by_baseline.jsonl.gz"


@pytest.mark.parametrize(
    ("script_name", "name"),
    [
        ("labels.py", "../simulated_labels.csv.gz"),
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
    """The judged battles are what the demo judge says on the sample's factuality prompts."""
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
    """Votes say that they are simulated, ratings follow the skills, texts are the sample's."""
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
