"""Sentinels in real runs: one paid look per run, the same requests each time, and a change told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arena_kit import DataError, Study
from arena_kit.runs.record.progress import Progress
from arena_kit.runs.tournament.canaries import look
from tests.emulator import Emulator
from tests.samples import KEY

BULK, LOOK = 36, 24
SMALL: dict[str, Any] = {
    "judge": "anthropic", "max_cost_usd": 5.0, "limit_pairs": 6, "n_perms": 20,
    "preflight": False, "sentinels": LOOK,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _served(_no_keys: None, monkeypatch: pytest.MonkeyPatch, emulator: Emulator) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", emulator.base_url)


def looked(**changes: Any) -> Study:
    study = Study.open("headline", **SMALL | changes)
    study.save()
    return study


def test_every_run_pays_for_one_look_and_a_changed_judge_is_told(
    workspace: Path, emulator: Emulator
) -> None:
    """Five looks at the same judge, then one that always names A: the sixth look says so."""
    first = looked()
    assert first.plan.forecast is not None
    assert first.plan.forecast.requests == BULK + LOOK
    assert len(emulator.billing.rows) == BULK + LOOK
    assert first.record.read()["cost"]["by_dimension"]["sentinels"]["answers"] == LOOK
    assert first.record.read()["cost"]["usd_spent"] == pytest.approx(emulator.billing.total_usd)
    for n in range(2, 6):
        study = looked()
        assert len(emulator.billing.rows) == BULK + n * LOOK
        assert study.drift is not None
        assert not study.drift.drifted
    emulator.settings.update({"behaviour": "first"})
    changed = looked()
    kept = json.loads((changed.record.path / "drift.json").read_text())
    assert kept["drifted"]
    assert len(kept["looks"]) == 6
    assert "answers otherwise than before" in changed.probes()["drift"]
    assert changed.record.read()["drift"]["drifted"]
    (file,) = (workspace / ".arena_kit" / "sentinels").glob("*.json")
    assert len(json.loads(file.read_text())["looks"]) == 6


def test_another_served_model_is_told(workspace: Path, emulator: Emulator) -> None:
    """A server that answers under another name than at the look before has changed."""
    own = {
        "judge": "openai_compatible",
        "judge_model": "own",
        "base_url": f"{emulator.base_url}/v1",
    }
    looked(**own)
    emulator.app.tamper = lambda request, body: body.replace(b'"model": "own"', b'"model": "new"')
    drift = looked(**own).drift
    assert drift is not None
    assert drift.drifted
    assert "own is now served by new, before by own" in drift.sentences()[0]


def test_a_run_that_goes_on_pays_for_its_look_once(workspace: Path, emulator: Emulator) -> None:
    study = looked()
    paid = len(emulator.billing.rows)
    again = look(study.plan, Progress(study.record))
    assert again is not None
    assert len(again.looks) == 1
    assert len(emulator.billing.rows) == paid


def test_sentinels_stay_the_same_when_the_bank_changes(workspace: Path, emulator: Emulator) -> None:
    """They are kept with their texts: more pairs are judged beside the same sentinels."""
    first, second = looked(), looked(limit_pairs=9)
    assert first.plan.sentinels is not None
    assert second.plan.sentinels is not None
    assert first.plan.sentinels.requests(1) == second.plan.sentinels.requests(1)
    assert second.drift is not None
    assert len(second.drift.looks) == 2


def test_a_cap_that_is_used_up_leaves_sentinels_out(workspace: Path, emulator: Emulator) -> None:
    """What was judged is kept; the record has no drift.json."""
    looked()
    before = len(emulator.billing.rows)
    study = looked(max_cost_usd=1e-6)
    assert study.drift is None
    assert len(emulator.billing.rows) == before
    assert not (study.record.path / "drift.json").exists()


def test_no_more_sentinels_than_pairs(workspace: Path) -> None:
    with pytest.raises(DataError, match=r"400 sentinels take 200 pairs, and this run has 18; ask"):
        looked(sentinels=400)
    with pytest.raises(DataError, match="sentinels"):
        looked(sentinels=3)


def test_repeats_are_paid_once_and_measure_whether_the_judge_says_the_same(
    workspace: Path, emulator: Emulator
) -> None:
    """Twelve requests are asked twice, in equal parts of three dimensions; the forecast holds
    them, a further run finds them in the ledger, and the gate has a row for them.
    """
    asking = {"sentinels": 0, "repeats": 12}
    first = looked(**asking)
    assert first.plan.forecast is not None
    assert first.plan.forecast.requests == len(emulator.billing.rows) == BULK + 12
    assert first.record.read()["cost"]["by_dimension"]["repeats"]["answers"] == 12
    shares = {each.dimension: each.stability for each in first.quality.dimensions}
    assert {name: share.n for name, share in shares.items()} == dict.fromkeys(first.dimensions, 4)
    assert {f.measure.rule for f in first.gate.findings} >= {"repeats"}
    rows = (first.record.path / "repeats.jsonl").read_text().splitlines()
    once = {v.presentation.request_id: v.winner for j in first.judgments for v in j.verdicts}
    twice = [v for j in first.repeats for v in j.verdicts]
    same = [once[v.presentation.request_id] == v.winner for v in twice]
    assert len(rows) == len(same) == 12
    assert sum(same) == sum(round((s.value or 0) * s.n) for s in shares.values())
    again = looked(**asking)
    assert len(emulator.billing.rows) == BULK + 12
    assert again.plan.forecast is not None
    assert again.plan.forecast.requests == 0


def test_repeats_that_the_cap_does_not_allow_are_left_out(
    workspace: Path, emulator: Emulator
) -> None:
    """The bulk is in the ledger; what was judged is kept, and no stability is told."""
    looked(sentinels=0)
    study = looked(sentinels=0, repeats=12, max_cost_usd=1e-6)
    assert study.repeats == []
    assert len(emulator.billing.rows) == BULK
    assert all(each.stability.value is None for each in study.quality.dimensions)
