"""Several judges: how alike they err, and what a further judge would say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arena_kit import BattleLog, BradleyTerry, RatingError, claims, write_battles
from benchmarks.panels import Jury
from tests.samples import call

JURY = Jury(number=9, judges=5, models=5, questions=60, shared=0.4, spread=40)
LOG, CORRELATION = JURY.world(0)


def by(*judges: int) -> BattleLog:
    return LOG.select(np.isin(LOG.judge_model.codes, judges))


def test_a_known_correlation_is_recovered() -> None:
    """The effective number is within 10 % of the planted; a further judge adds their variance."""
    planted = 5 / (1 + 4 * CORRELATION)
    some = np.random.default_rng(0).random(len(LOG)) < 0.9
    turned = replace(LOG, a=LOG.b, b=LOG.a, outcome=1 - LOG.outcome)
    for log in (LOG, turned, LOG.select(some)):
        fit = BradleyTerry()(log).fit
        assert fit["judges_effective"] == pytest.approx(planted, rel=0.1)
        assert fit["judges_effective_low"] < fit["judges_effective"] < fit["judges_effective_high"]
    apart = by(0, 1)
    own = apart.select(apart.clusters() % 2 == apart.judge_model.codes)
    assert "judges" not in BradleyTerry()(own).fit
    assert BradleyTerry()(own).notes == ("Claims are about these judges.",)
    assert "judges" not in BradleyTerry()(by(0)).fit
    rated, further = BradleyTerry()(LOG), BradleyTerry(judges="like_these")(LOG)
    single = np.array([BradleyTerry()(by(j)).values() for j in range(5)])
    gaps = single[:, :, None] - single[:, None, :]
    expected = claims.gap_errors(rated) ** 2 + 1.2 * gaps.var(axis=0, ddof=1)
    assert claims.gap_errors(further) ** 2 == pytest.approx(expected, rel=1e-6)
    assert {row.extra["df"] for row in further.ratings} == {4}
    assert further.notes[-1] == "Claims are about what a further judge like these 5 would say."
    wide, narrow = (
        BradleyTerry(judges=each, interval="percentile", resamples=100)(LOG)["m00"]
        for each in ("like_these", "these")
    )
    assert wide.ci_high - wide.ci_low > 2 * (narrow.ci_high - narrow.ci_low)


def test_two_judges_stand_for_no_others(tmp_path: Path) -> None:
    """With fewer than three judges, or one who lacks a model, it is refused in a sentence."""
    why = "needs 3 judges or more whose verdicts rate all models, not 2"
    lacking = by(0, 1, 2)
    lacking = lacking.select((lacking.judge_model.codes < 2) | (lacking.a > 0))
    for log in (by(0, 1), lacking):
        with pytest.raises(RatingError, match=why):
            BradleyTerry(judges="like_these")(log)
    write_battles(tmp_path / "log.jsonl", LOG)
    shown = call("rate", tmp_path / "log.jsonl", "--set", "judges=like_these").stdout
    assert "of 5 (95 % interval" in shown
    assert "like these 5 would say" in shown
    refused = call("rate", tmp_path / "log.jsonl", "--stream", "--set", "judges=like_these")
    assert "judges='like_these' is not streamed" in refused.stderr
