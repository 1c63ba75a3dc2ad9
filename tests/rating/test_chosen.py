"""Votes on battles drawn from a judge's: known probabilities, and verdicts that count for votes."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from arena_kit import BattleLog, BradleyTerry, Hybrid, RatingError, read_battles
from arena_kit.battles.log import Labels
from arena_kit.battles.write import write_battles
from arena_kit.rating.with_judge.chosen import choose_battles
from tests.samples import call

MODELS = tuple("abcdef")
PAIRS = np.array([*combinations(range(len(MODELS)), 2)])


def verdicts(seed: int, prompts: int = 60) -> BattleLog:
    """All pairs on all prompts, with a tie now and then."""
    rng = np.random.default_rng(seed)
    suits = np.arange(len(MODELS)) * 0.4 + rng.normal(0, 1, (prompts, len(MODELS)))
    gap = (suits[:, PAIRS[:, 0]] - suits[:, PAIRS[:, 1]]).ravel()
    return BattleLog(
        models=MODELS,
        a=np.tile(PAIRS[:, 0], prompts).astype(np.int32),
        b=np.tile(PAIRS[:, 1], prompts).astype(np.int32),
        outcome=np.where(np.abs(gap) < 0.4, 2, gap < 0).astype(np.int8),
        question_id=Labels.of(f"q{i:02}" for i in np.repeat(np.arange(prompts), len(PAIRS))),
    )


def on(log: BattleLog, chosen: BattleLog) -> BattleLog:
    """The battles of a log that were chosen."""
    asked = {*chosen.compared()}
    return log.select([each in asked for each in log.compared()])


def test_probabilities_are_known() -> None:
    """Battles are drawn as often as their weights say; pairs and verdicts in proportion."""
    log, often = verdicts(1), dict.fromkeys(verdicts(1).compared(), 0)
    for seed in range(400):
        chosen = choose_battles(log, 150, unsure=3, seed=seed)
        assert len({*chosen.compared()}) == 150
        for each in chosen.compared():
            often[each] += 1
    open_ones = log.outcome == 2
    expected = np.where(open_ones, 3, 1) * 150 / (900 + 2 * open_ones.sum())
    found = np.array([*often.values()]) / 400
    assert np.abs(found - expected).max() < 5 * np.sqrt(0.25 / 400)
    assert found[open_ones].mean() / found[~open_ones].mean() == pytest.approx(3, rel=0.02)
    known = dict(zip(often, expected, strict=True))
    assert [known[each] for each in chosen.compared()] == pytest.approx(1 / chosen.weights())
    even = choose_battles(log, 150)
    assert {*np.bincount(even.a * 6 + even.b)[np.array([1, 10, 29])]} == {10}
    assert even.weights() == pytest.approx(6)
    whole = choose_battles(log, 900, unsure=3)
    assert {*whole.compared()} == {*log.compared()}
    assert whole.weights() == pytest.approx(1)


@pytest.mark.parametrize("unsure", [1, 4])
def test_votes_like_the_verdicts_give_the_ratings_of_all_verdicts(unsure: float) -> None:
    """Where people agree with the judge, votes on a sixth of the battles give nearly the gaps of
    all verdicts, whatever the probabilities: half the error of votes alone, and less doubt.
    """
    log, off, wide = verdicts(2), [], []
    whole = BradleyTerry()(log).values(MODELS)
    for seed in range(5):
        chosen = choose_battles(log, 150, unsure=unsure, seed=seed)
        found = Hybrid()(on(log, chosen), log, chosen)
        rated = (found.ratings, found.people)
        off.append([np.abs(each.values(MODELS) - whole).mean() for each in rated])
        wide.append([np.mean([row.extra["se"] for row in each.ratings]) for each in rated])
    (both, alone), (narrow, plain) = np.mean(off, axis=0), np.mean(wide, axis=0)
    assert both < alone / 2
    assert narrow < 0.8 * plain


def test_a_choice_of_all_changes_nothing() -> None:
    """Where every judged battle was chosen, the board is that without a choice."""
    log, votes = verdicts(6), verdicts(7)
    plain, both = (Hybrid()(votes, log, each) for each in (None, choose_battles(log, 900)))
    assert both.ratings.values(MODELS) == pytest.approx(plain.ratings.values(MODELS))
    assert both.explained == pytest.approx(0, abs=1e-9)


def test_refused() -> None:
    """Too many, verdicts without questions, votes on other battles or without a verdict."""
    log = verdicts(4)
    with pytest.raises(RatingError, match="901 battles are to be chosen, but 900 were judged"):
        choose_battles(log, 901)
    with pytest.raises(RatingError, match="no question_id"):
        choose_battles(replace(log, question_id=None), 5)
    chosen = choose_battles(log, 300)
    with pytest.raises(RatingError, match="600 of 900 votes are on battles that were not chosen"):
        Hybrid()(log, log, chosen)
    votes, rest = on(log, chosen), log.select(np.arange(900) >= 450)
    with pytest.raises(RatingError, match="of 300 votes are on battles without a verdict"):
        Hybrid()(votes, rest, chosen)


def test_commands(tmp_path: Path) -> None:
    """`votes choose` draws from a file of verdicts, and `rate --chosen` rates votes on these."""
    log, where = verdicts(5), [tmp_path / name for name in ("judge.csv", "chosen.csv", "votes.csv")]
    write_battles(where[0], replace(log, source=Labels.of(["llm-judge"] * 900)))
    done = call("votes", "choose", where[0], "--votes", 120, "--unsure", 2, "--out", where[1])
    assert "chosen.csv: 120 of 900 judged battles;" in done.output
    chosen = read_battles(where[1])
    write_battles(where[2], replace(on(log, chosen), source=None))
    words = ("rate", where[2], "--chosen", where[1], "--json")
    board = json.loads(call(*words, "--verdicts", where[0]).stdout)
    rated, about = board["ratings"], board["dimensions"][0]
    assert 0.5 < about["hybrid"]["explained"] < 1
    assert any("off the variance of ratings by votes" in note for note in about["notes"])
    expected = Hybrid()(on(log, chosen), log, choose_battles(log, 120, unsure=2)).ratings
    assert {row["model"]: row["rating"] for row in rated} == pytest.approx(
        {row.model: row.rating for row in expected.ratings}
    )
    assert "--chosen: only with --verdicts" in call(*words).output
