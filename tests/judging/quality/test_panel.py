"""Several judges as one: who wins a pair, and who disagrees."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arena_kit import Battle, BattleLog, DataError, Outcome, write_battles
from arena_kit.battles.battle import Source
from arena_kit.judging.quality.agreement import panel
from tests.samples import call

A, B, TIE = Outcome.MODEL_A, Outcome.MODEL_B, Outcome.TIE
OUTCOMES = {"a": A, "b": B, "-": TIE}


def battles_of(*judges: str, people: str = "") -> BattleLog:
    """What each says of pairs: a, b, - (tie), ? (inconsistent), or a blank for nothing."""
    voters = [*((f"j{n}", said) for n, said in enumerate(judges)), ("", people)]
    return BattleLog.from_battles(
        Battle(
            model_a="ash", model_b="beech", winner=OUTCOMES.get(said, TIE),
            inconsistent=said == "?", question_id=f"q{n:04}", judge_model=name or None,
            source=Source.LLM_JUDGE if name else Source.HUMAN,
        )
        for name, verdicts in voters
        for n, said in enumerate(verdicts)
        if said != " "
    )  # fmt: skip


def said(log: BattleLog) -> str:
    words = {A: "a", B: "b", TIE: "-"}
    return "".join("?" if b.inconsistent else words[b.winner] for b in log.to_battles())


def test_the_verdict_with_most_votes_is_the_panels() -> None:
    """Else there is no winner; people and inconsistent judgments do not vote; one is no panel."""
    for votes, verdict in (
        ("aab", "a"), ("abb", "b"), ("ab-", "?"), ("a--", "-"), ("a?b", "?"), ("aa ", "a"),
        ("a?-", "?"), ("?? ", ""), ("b? ", "b"), ("---", "-"),
    ):  # fmt: skip
        assert said(panel(battles_of(*votes, people="b")).battles) == verdict
    for log, sentence in (
        (battles_of("ab"), "two judges or more; found: j0"),
        (replace(battles_of("ab", "ab"), question_id=None), "needs battles with"),
        (BattleLog.joined(battles_of("a", "b"), battles_of("b")), "j0 has several battles on one"),
    ):
        with pytest.raises(DataError, match=sentence):
            panel(log)


def test_the_panels_battles_name_the_panel_and_its_members_are_compared_with_the_others() -> None:
    """By hand: j2 differs from the other two on two of four pairs; either way round."""
    given = battles_of("aabb", "aabb", "abab")
    found = panel(given)
    rows = list(found.battles.to_battles())
    assert [b.question_id for b in rows] == ["q0000", "q0001", "q0002", "q0003"]
    assert {(b.judge_model, b.source) for b in rows} == {("panel/majority", Source.LLM_JUDGE)}
    assert (found.members[2].agrees.value, found.members[2].agrees.n) == (0.5, 4)
    assert (found.unanimous, found.split) == (2, 0)
    assert "j2: agrees with the others on 50.0%" in found.sentences[1]
    turned = [
        replace(b, model_a=b.model_b, model_b=b.model_a, winner={A: B, B: A}[b.winner])
        if b.judge_model == "j1" else b
        for b in given.to_battles()
    ]  # fmt: skip
    assert said(panel(BattleLog.from_battles(turned)).battles) == said(found.battles)


def test_the_command_line_rates_what_the_judges_of_several_files_say(tmp_path: Path) -> None:
    """Three judges' files: the panel's battles are rated, its members are told."""
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(["a", "b"], 40, p=[p, 1 - p])) for p in (0.9, 0.8, 0.6)]
    files = [tmp_path / f"j{n}.jsonl" for n in range(3)]
    for n, file in enumerate(files):
        write_battles(file, battles_of(*[""] * n, texts[n]))
    words: list[object] = ["rate", files[0], "--also", files[1], "--also", files[2], "--panel"]
    words += ["--method", "bradley-terry"]
    assert "Panel of 3 judges (majority)" in call(*words).stdout
    found = json.loads(call(*words, "--json").stdout)
    assert [row["model"] for row in found["ratings"]] == ["ash", "beech"]
    assert [each["judge"] for each in found["panel"]["members"]] == ["j0", "j1", "j2"]
    assert found["n_battles"] + found["panel"]["split"] == 40
