"""The validity report from files to a record: artifacts, parameters, the notebook, refusals."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import chdir
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from arena_kit import BattleLog, DataError, PolicyStudy, write_battles
from arena_kit.cli.board import show_board
from arena_kit.runs.record.record import Record
from arena_kit.runs.settings.files import validated
from arena_kit.runs.settings.parameters import PolicyParams
from tests.samples import ROOT, Elements, copy_workspace, report_of, season, timed
from tests.samples import votes_on as log

ARTIFACTS = (
    "manifest.json", "leaderboard.json", "leaderboard.csv", "leaderboard.md", "leaderboard.tex",
    "validity.json", "model_detail.json",
)  # fmt: skip
FIGURES = ("exposure", "confidence", "bands", "deficits", "quality", "history")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace with the policy, a file of votes, and nothing else."""
    root = tmp_path_factory.mktemp("policy")
    (root / "params").mkdir()
    for name in ("policy.yaml", "tournament.yaml"):
        (root / "params" / name).write_bytes((ROOT / "params" / name).read_bytes())
    write_battles(root / "votes.csv", timed(season(n=2400)))
    write_battles(root / "plain.csv", season(n=600))
    with chdir(root), pytest.MonkeyPatch.context() as patch:
        patch.delenv("ARENA_KIT_RUNS", raising=False)
        patch.delenv("ARENA_KIT_RUN_TOKEN", raising=False)
        yield root


def opened(**more: Any) -> PolicyStudy:
    return PolicyStudy.open(**{"battles": "votes.csv", "arena": "test arena"} | more)


@pytest.fixture(scope="module")
def saved(home: Path) -> Record:
    return opened(note="nobody voted", detail=["m2", "m0"]).save()


def found(record: Record, name: str) -> Any:
    return json.loads((record.path / name).read_text())


@pytest.mark.parametrize("kept", [True, False])
def test_the_votes_are_kept_in_the_record(home: Path, kept: bool) -> None:
    """The record has the votes and the policy byte for byte or, on request, only their hashes."""
    record = opened(inputs="copy" if kept else "hashes").save()
    for name, source in (("battles.csv", "votes.csv"), ("policy.yaml", "params/policy.yaml")):
        content = (home / source).read_bytes()
        entry = record.read()["inputs"][name]
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        assert (entry["bytes"], entry["kept"]) == (len(content), kept)
        copy = record.path / "inputs" / name
        assert copy.read_bytes() == content if kept else not copy.exists()


class TestRecord:
    """What a report leaves."""

    def test_artifacts(self, saved: Record) -> None:
        """The record holds manifest, leaderboard, validity figures and model pages."""
        assert all((saved.path / name).is_file() for name in ARTIFACTS)
        manifest = found(saved, "manifest.json")
        assert (manifest["mode"], manifest["status"]) == ("policy_validity", "finished")
        assert manifest["battles"]["n"] == 2400
        assert len(manifest["battles"]["sha256"]) == 64
        assert manifest["policy"]["phase"] == 4
        assert (manifest["week"], manifest["compare_week"]) == ("2026-W39", "2026-W38")

    def test_answer(self, saved: Record) -> None:
        """The box has the objectives met beside both statuses, and what must be said of the votes;
        the numbers are those of validity.json.
        """
        box, values = found(saved, "answer.json"), found(saved, "validity.json")
        objectives, rules, order = box["answer"]
        met = sum(each["met"] is True for each in values["objectives"])
        assert objectives.startswith(f"Objectives: {met} of 4 objectives are met")
        for each in values["objectives"]:
            assert (each["objective"] in objectives) == (each["met"] is False)
        assert rules == f"Rules kept: {values['status']['status']}."
        assert order.startswith("Order decided: ")
        assert "The votes: nobody voted." in box["caveats"]
        assert box["facts"]["run"] == saved.path.name

    def test_label(self, saved: Record) -> None:
        """What must be said of the votes stands wherever the arena is named."""
        for name in ("manifest.json", "leaderboard.json", "validity.json"):
            assert found(saved, name)["arena"] == "test arena (nobody voted)"

    def test_validity(self, saved: Record) -> None:
        """12: validity.json has the four checks, the status and the feasibility."""
        values = found(saved, "validity.json")
        assert values["published"]
        for name in ("coverage_fairness", "pair_completeness", "confidence_stability",
                     "top_rank_churn", "status", "quality_checks", "feasibility",
                     "integrity"):  # fmt: skip
            assert name in values
        assert values["confidence_stability"]["settled_rd"] == pytest.approx(60.3, abs=0.1)

    def test_leaderboard(self, saved: Record) -> None:
        """JSON and CSV hold the same board."""
        rows = found(saved, "leaderboard.json")["rows"]
        with (saved.path / "leaderboard.csv").open() as lines:
            table = list(csv.DictReader(lines))
        assert [row["model"] for row in rows] == [row["model"] for row in table]
        assert float(table[0]["conservative"]) == rows[0]["conservative"]

    def test_pages(self, saved: Record) -> None:
        """The file has the page of every model, whichever are shown."""
        pages = found(saved, "model_detail.json")
        assert set(pages) == {f"m{n}" for n in range(6)}
        assert set(pages["m0"]["deficits"]["by_opponent"]) == set(pages) - {"m0"}

    def test_pages_shown(self, home: Path) -> None:
        """By default the top three are shown, and two more at most that are due a check."""
        study = opened()
        assert [page.model for page in study.details] == list(study.board.order[:3])
        last = study.board.order[-1]
        assert [page.model for page in opened(detail=[last]).details] == [last]

    def test_terminal(self, saved: Record, capsys: pytest.CaptureFixture[str]) -> None:
        """The command line shows the board and its status."""
        show_board(saved.path)
        out = capsys.readouterr().out
        assert "test arena (nobody voted)" in out
        assert "Established" in out
        assert "officially stable" in out

    def test_same_again(self, home: Path, saved: Record) -> None:
        """The same input gives the same bytes."""
        again = opened(note="nobody voted", detail=["m2", "m0"]).save()
        for name in ARTIFACTS[1:]:
            assert (again.path / name).read_bytes() == (saved.path / name).read_bytes(), name


class TestParameters:
    """What a report may be told."""

    def test_phase(self, home: Path) -> None:
        """12: a phase of the parameters goes before the policy file's."""
        shadow = opened(phase=1)
        values = found(shadow.save(), "validity.json")
        assert (values["phase"], values["published"]) == (1, False)
        assert shadow.board.policy.phase.orders_by == "legacy_elo"
        assert shadow.facts()["rollout phase"].startswith("1, shadow")

    def test_weeks(self, home: Path) -> None:
        """Weeks are ISO weeks or dates, also where YAML has read a date."""
        study = opened(week="2026-W38", compare_week="2026-09-08")
        assert study.facts()["compared with"] == "2026-W37"
        assert "800 later votes do not count" in study.facts()["week"]
        read = validated(PolicyParams, {"week": date(2026, 9, 14)}, "x")
        assert read.week == "2026-09-14"

    def test_retired(self, home: Path) -> None:
        """What is retired leaves the board, and the report names it."""
        study = opened(retired_models=["m0"], retired_prompts=["q00"])
        assert "m0" not in study.board.order
        assert study.facts()["models"].endswith("; retired: m0")
        assert study.facts()["prompts"].endswith("; retired: q00")
        study.save()

    def test_earlier_board(self, home: Path) -> None:
        """Ranks are compared with an earlier record, unless its method was another (12)."""
        v2, elo = (opened(week="2026-W37", phase=p).save() for p in (4, 2))
        now = opened(earlier=str(v2.path.relative_to(home)))
        assert all(row.rank_change is not None for row in now.board.rows)
        other = opened(earlier=str(elo.path))
        assert all(row.rank_change is None for row in other.board.rows)
        assert "a change of method is not shown as movement" in other.facts()["ranks compared"]

    def test_no_timestamps(self, home: Path) -> None:
        """A file without timestamps has everything but the comparison."""
        study = opened(battles="plain.csv")
        assert study.facts()["compared with"].startswith("No weeks can be compared: 600 of 600")
        values = found(study.save(), "validity.json")
        assert (values["week"], values["top_rank_churn"]) == (None, None)
        assert values["pair_completeness"]

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"battles": "nowhere.csv"}, "no such file"),
            ({"phase": 5}, "phase"),
            ({"unknown": 1}, "unknown"),
            ({"dimension": "taste"}, "no dimension 'taste'"),
            ({"policy": "params/none.yaml"}, "no such file"),
            ({"winner": "human"}, "human"),
            ({"retired_models": ["nobody"]}, "retired_models: no model 'nobody' in votes.csv"),
            ({"retired_prompts": ["none"]}, "retired_prompts: no prompt 'none' in votes.csv"),
            ({"retired_models": [f"m{n}" for n in range(5)]}, "1 of 6 are left, 2 needed"),
        ],
    )
    def test_refused_at_the_door(self, home: Path, change: dict[str, Any], said: str) -> None:
        """What cannot work is refused in a sentence, before a record is made."""
        before = set((home / "runs").glob("*"))
        with pytest.raises(DataError, match=said):
            opened(**change)
        assert set((home / "runs").glob("*")) == before

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"week": "soon"}, "'soon' is not a week"),
            ({"week": "2020-W01"}, "week 2020-W01 has no votes"),
            ({"battles": "plain.csv", "week": "2026-W38"}, "cannot be told"),
            ({"detail": ["nobody"]}, "detail: no model 'nobody' on the board; on it: m0"),
            ({"earlier": "votes.csv"}, "not valid JSON"),
        ],
    )
    def test_refused_later(self, home: Path, change: dict[str, Any], said: str) -> None:
        """What the votes do not allow is refused in a sentence, and the record says so."""
        study = opened(**change)
        with pytest.raises(DataError, match=said):
            _ = study.details
        assert study.record.read()["status"] == "failed"

    def test_several_dimensions(self, home: Path) -> None:
        """Of several dimensions one must be named."""
        rows = [
            {"model_a": "x", "model_b": "y", "winner": w, "dimension": d, "question_id": "q"}
            for d in ("one", "two")
            for w in ("model_a", "model_b", "tie")
        ]
        lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
        (home / "two.csv").write_text("\n".join(lines) + "\n")
        with pytest.raises(DataError, match=r"has several dimensions \(one, two\); name one"):
            opened(battles="two.csv")
        assert len(opened(battles="two.csv", dimension="two").battles) == 3

    def test_pair_counts(self, home: Path) -> None:
        """Rows that stand for many votes are refused."""
        counted = BattleLog.from_counts(["x"], ["y"], [3.0], [4.0])
        write_battles(home / "counts.csv", counted)
        with pytest.raises(DataError, match="counts single votes"):
            opened(battles="counts.csv")


def test_real_votes(data: Path, home: Path) -> None:
    """The 27k real votes work through a parameter: gpt-4 leads, all are provisional for want of
    prompts asked twice, and nothing is compared for want of timestamps.
    """
    file = data / "chatbot_arena_27k" / "battles.csv.gz"
    study = opened(battles=str(file), winner="human", arena="")
    board = study.board
    assert (board.rows[0].model, len(board.rows)) == ("gpt-4", 20)
    assert board.strengths.order[0] == "gpt-4"
    assert board.status.status == "calibrating"
    assert all(row.provisional for row in board.rows)
    assert "too few for the coverage" in study.facts()["prompts"]
    assert "no timestamp" in study.facts()["compared with"]
    study.save()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record that the notebook leaves in a fresh workspace, with one model's page. `make test`
    also runs it in a kernel, where nbval compares what it prints.
    """
    root = copy_workspace(tmp_path_factory.mktemp("run") / "workspace")
    with chdir(root):
        return report_of("policy_validity", root, detail=["model-04"]).parent


def test_notebook(run: Path) -> None:
    """The notebook leaves a record and a report that names the policy's sections and says that
    the season is simulated.
    """
    assert all((run / name).is_file() for name in ARTIFACTS)
    for folder in (run / "figures", run / "figures" / "narrow"):
        assert {path.stem for path in folder.glob("*.png")} == set(FIGURES)
    report = (run / "report.html").read_text()
    assert "simulated, no person voted" in report
    headings = [part.split(")")[0].replace(",", "").split() for part in report.split("(Policy ")]
    named = {section for heading in headings[1:] for section in heading}
    assert {"3", "4", "5", "6", "6.1", "6.2", "7.1", "7.2", "7.3", "8.3"} <= named
    assert {"9.1", "9.2", "9.3", "10", "11", "12"} <= named
    assert "script" not in Elements(report.split("<main>")[1]).tags


def test_in_a_browser(run: Path, rendered: Callable[[Path], str]) -> None:
    """A browser shows the status."""
    dom = rendered(run / "report.html")
    assert "officially stable" in dom


def test_only_one_model_votes(home: Path) -> None:
    """A file in which one pair met has a board of two."""
    write_battles(home / "two_models.csv", timed(log(*[("x", "y", "a", "q")] * 9)))
    assert opened(battles="two_models.csv").board.order == ("x", "y")
