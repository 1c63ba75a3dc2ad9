"""The validity report from files to a record: artifacts, parameters, the notebooks, refusals."""

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterator
from contextlib import chdir
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from arena_kit import BattleLog, DataError, publish_policy, read_season, write_battles
from arena_kit.cli.records import show_board
from arena_kit.runs.policy import Season
from arena_kit.runs.record.record import Record
from arena_kit.runs.settings.files import validated
from arena_kit.runs.settings.parameters import PolicyParams
from tests.samples import ROOT, Elements, season, timed
from tests.samples import votes_on as log

ARTIFACTS = (
    "manifest.json", "leaderboard.json", "leaderboard.csv", "leaderboard.md", "leaderboard.tex",
    "validity.json", "model_detail.json", "answer.json",
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace with the policy, a file of votes, and nothing else."""
    root = tmp_path_factory.mktemp("policy")
    (root / "params").mkdir()
    for name in ("policy.yaml", "tournament.yaml"):
        (root / "params" / name).write_bytes((ROOT / "params" / name).read_bytes())
    write_battles(root / "votes.csv", timed(season(n=2400)))
    write_battles(root / "plain.csv", season(n=600))
    write_battles(root / "counts.csv", BattleLog.from_counts(["x"], ["y"], [3.0], [4.0]))
    rows = [f"x,y,{won},{d},q" for d in ("one", "two") for won in ("model_a", "model_b", "tie")]
    header = "model_a,model_b,winner,dimension,question_id"
    (root / "two.csv").write_text("\n".join([header, *rows]) + "\n")
    with chdir(root):
        yield root


def opened(mode: str = "policy_validity", **more: Any) -> Season:
    return read_season(mode, **{"battles": "votes.csv", "arena": "test arena"} | more)


def published(season: Season) -> Record:
    return publish_policy(season, season.report())


@pytest.fixture(scope="module")
def record(home: Path) -> Record:
    return published(opened())


def found(record: Record, name: str) -> Any:
    return json.loads((record.path / name).read_text())


def test_artifacts(record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    """The record holds leaderboard, validity, a page per model, and the box with its numbers."""
    manifest, values = found(record, "manifest.json"), found(record, "validity.json")
    assert (manifest["mode"], manifest["status"]) == ("policy_validity", "finished")
    assert (manifest["battles"]["n"], manifest["policy"]["phase"]) == (2400, 4)
    assert (manifest["week"], manifest["compare_week"]) == ("2026-W39", "2026-W38")
    for name in ("manifest.json", "leaderboard.json", "validity.json"):
        assert found(record, name)["arena"] == "test arena"
    assert values["confidence_stability"]["settled_rd"] == pytest.approx(60.3, abs=0.1)
    rows = found(record, "leaderboard.json")["rows"]
    with (record.path / "leaderboard.csv").open() as lines:
        table = list(csv.DictReader(lines))
    assert [row["model"] for row in rows] == [row["model"] for row in table]
    assert float(table[0]["conservative"]) == rows[0]["conservative"]
    pages = found(record, "model_detail.json")
    assert set(pages) == {f"m{n}" for n in range(6)}
    assert set(pages["m0"]["deficits"]["by_opponent"]) == set(pages) - {"m0"}
    show_board(record.path)
    out = capsys.readouterr().out
    assert all(word in out for word in ("test arena", "Established", "officially stable"))
    box, values = found(record, "answer.json"), found(record, "validity.json")
    objectives, rules, order = box["answer"]
    met = sum(each["met"] is True for each in values["objectives"])
    assert objectives.startswith(f"Objectives: {met} of 4 objectives are met")
    for each in values["objectives"]:
        assert (each["objective"] in objectives) == (each["met"] is False)
    assert rules == f"Rules kept: {values['status']['status']}."
    assert order.startswith("Order decided: ")
    assert box["facts"]["run"] == record.path.name


def test_same_again(home: Path, record: Record) -> None:
    """The same input gives the same bytes."""
    again = published(opened())
    for name in ARTIFACTS[1:-1]:
        assert (again.path / name).read_bytes() == (record.path / name).read_bytes(), name


def test_pages(home: Path) -> None:
    """By default the pages are those of the top three."""
    read = opened("model_pages")
    report = read.report()
    assert [page.model for page in read.pages(report)] == list(report.now.order[:3])
    one = opened("model_pages", models=["m5"])
    record = publish_policy(one, one.report(), one.pages(one.report()))
    assert set(found(record, "model_detail.json")) == {"m5"}
    assert found(record, "answer.json")["answer"][0].startswith("m5: rank ")
    assert record.read()["status"] == "finished"


def test_12_phase_and_weeks(home: Path) -> None:
    """12: a phase of the parameters goes before the policy file's."""
    shadow = opened(phase=1, week="2026-W38", compare_week="2026-09-08")
    facts = shadow.facts(shadow.report())
    values = found(published(shadow), "validity.json")
    assert (values["phase"], values["published"]) == (1, False)
    assert facts["rollout phase"].startswith("1, shadow")
    assert facts["compared with"] == "2026-W37"
    assert "800 later votes are excluded" in facts["week"]
    assert validated(PolicyParams, {"week": date(2026, 9, 14)}, "x").week == "2026-09-14"


def test_retired_and_no_timestamps(home: Path) -> None:
    """What is retired leaves the board, and the report names it."""
    read = opened(battles="plain.csv", retired=["m0", "q00"])
    report = read.report()
    facts, values = read.facts(report), found(published(read), "validity.json")
    assert "m0" not in report.now.order
    assert facts["models"].endswith("; retired: m0")
    assert facts["prompts"].endswith("; retired: q00")
    assert facts["compared with"].startswith("Weeks cannot be compared")
    assert (values["week"], values["top_rank_churn"]) == (None, None)
    assert values["pair_completeness"]


def test_12_earlier_board(home: Path) -> None:
    """Ranks are compared with an earlier record, unless its method was another (12)."""
    v2, elo = (published(opened(week="2026-W37", phase=p)) for p in (4, 2))
    now = opened(earlier=str(v2.path.relative_to(home))).report().now
    assert all(row.rank_change is not None for row in now.rows)
    other = opened(earlier=str(elo.path))
    report = other.report()
    assert all(row.rank_change is None for row in report.now.rows)
    assert "the method changed" in other.facts(report)["ranks compared"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"battles": "nowhere.csv"}, "no such file"),
        ({"battles": "two.csv"}, r"has several dimensions \(one, two\); name one"),
        ({"battles": "counts.csv"}, "counts single votes"), ({"phase": 5}, "phase"),
        ({"unknown": 1}, "unknown"), ({"dimension": "taste"}, "no dimension 'taste'"),
        ({"policy": "params/none.yaml"}, "no such file"), ({"winner": "human"}, "human"),
        ({"retired": ["nobody"]}, "retired: 'nobody' is no model or prompt of votes.csv"),
        ({"retired": [f"m{n}" for n in range(5)]}, "1 of 6 models are left, 2 needed"),
    ],
)  # fmt: skip
def test_refused_at_the_door(home: Path, change: dict[str, Any], why: str) -> None:
    """What cannot work is refused in a sentence, before a record is made."""
    before = set((home / "runs").glob("*"))
    with pytest.raises(DataError, match=why):
        opened(**change)
    assert set((home / "runs").glob("*")) == before


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"week": "soon"}, "'soon' is not a week"),
        ({"battles": "plain.csv", "week": "2026-W38"}, "cannot be selected"),
        ({"mode": "model_pages", "models": ["nobody"]}, "models: no model 'nobody' on the board"),
        ({"earlier": "votes.csv"}, "not valid JSON"),
    ],
)
def test_refused_later(home: Path, change: dict[str, Any], why: str) -> None:
    """What the votes do not allow is refused in a sentence, and the record says so."""
    read = opened(**change)
    with pytest.raises(DataError, match=why):
        read.pages(read.report())
    assert read.record.read()["status"] == "failed"


def test_small_files(home: Path) -> None:
    """One dimension of several can be named; a file in which one pair met has a board of two."""
    assert len(opened(battles="two.csv", dimension="two").battles) == 3
    write_battles(home / "two_models.csv", timed(log(*[("x", "y", "a", "q")] * 9)))
    assert opened(battles="two_models.csv").report().now.order == ("x", "y")


def test_real_votes(data: Path, home: Path) -> None:
    """6,000 real votes work through a parameter."""
    with gzip.open(data / "chatbot_arena_27k" / "battles.csv.gz", "rt") as lines:
        (home / "real.csv").write_text("".join(islice(lines, 6001)))
    read = opened(battles="real.csv", winner="human", arena="")
    report = read.report()
    board = report.now
    assert (board.rows[0].model, len(board.rows)) == ("gpt-4", len(read.battles.models))
    assert (board.strengths.order[0], board.status.status) == ("gpt-4", "calibrating")
    assert all(row.provisional for row in board.rows)
    assert "too few for the coverage" in read.facts(report)["prompts"]
    assert "no timestamp" in read.facts(report)["compared with"]
    publish_policy(read, report)


def test_notebooks(quick_report: Callable[[str], Path]) -> None:
    """The notebooks' reports show the policy's numbers under its sections, and say that the season
    is simulated; tests/reporting/test_one_order.py has the other phases.
    """
    weekly, paged = quick_report("policy_validity"), quick_report("model_pages")
    assert all((weekly / name).is_file() for name in ARTIFACTS)
    page = (weekly / "report.html").read_text()
    queue = page.split("Queue mix (Policy 6)")[-1].split("<h2")[0]
    shown = re.findall(r">(\d+%)</td>\s*</tr>", queue)
    assert [each for each in shown if each != "0%"] == ["40%", "30%", "20%", "10%"]
    floor = "at least 12 decisive votes on 6 prompts"
    assert all(text in page for text in (floor, "target of 4 votes", "200 needed"))
    assert "16 models was within ±12 % of 2W/M = 129 exposures" in page
    named: set[str] = set()
    for run, figures in (weekly, {"leaderboard"}), (paged, {"deficits", "quality", "history"}):
        for folder in (run / "figures", run / "figures" / "narrow"):
            assert {path.stem for path in folder.glob("*.png")} == figures
        report = (run / "report.html").read_text()
        assert "simulated, no person voted" in report
        heads = [part.split(")")[0].replace(",", "").split() for part in report.split("(Policy ")]
        named |= {section for head in heads[1:] for section in head}
        assert "script" not in Elements(report.split("<main>")[1]).tags
    assert {"3", "4", "5", "6", "6.1", "7.1", "7.2", "7.3", "8", "8.3"} <= named
    assert {"9.1", "9.2", "9.3", "10", "11", "12"} <= named
