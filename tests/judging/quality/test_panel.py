"""Several judges as one: who wins a pair, and who disagrees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from arena_kit import Battle, BattleLog, DataError, Outcome, Source, read_battles, write_battles
from arena_kit.battles.log import Labels
from arena_kit.cli.main import main
from arena_kit.judging.quality.panel import panel

A, B, TIE = Outcome.MODEL_A, Outcome.MODEL_B, Outcome.TIE
OUTCOMES = {"a": A, "b": B, "-": TIE}


def battles_of(*judges: str, people: str = "") -> BattleLog:
    """What each judge says of pairs on questions of their own: a, b, - (tie), ? (inconsistent), or
    a blank for nothing; and what people say.
    """
    voters = [*((f"j{n}", said) for n, said in enumerate(judges)), ("", people)]
    return BattleLog.from_battles(
        Battle(
            model_a="ash",
            model_b="beech",
            winner=OUTCOMES.get(said, TIE),
            inconsistent=said == "?",
            question_id=f"q{n:04}",
            judge_model=name or None,
            source=Source.LLM_JUDGE if name else Source.HUMAN,
        )
        for name, verdicts in voters
        for n, said in enumerate(verdicts)
        if said != " "
    )


def said(log: BattleLog) -> str:
    words = {A: "a", B: "b", TIE: "-"}
    return "".join("?" if b.inconsistent else words[b.winner] for b in log.to_battles())


@pytest.mark.parametrize(
    ("votes", "verdict"),
    [("aab", "a"), ("abb", "b"), ("ab-", "?"), ("a--", "-"), ("a?b", "?"), ("aa ", "a"),
     ("a?-", "?"), ("?? ", ""), ("b? ", "b"), ("---", "-")],
)  # fmt: skip
def test_the_verdict_with_most_votes_is_the_panels(votes: str, verdict: str) -> None:
    """A pair on which no verdict has more votes than every other has no winner; an inconsistent
    judgment is no vote, and neither is what people say.
    """
    assert said(panel(battles_of(*votes, people="b")).battles) == verdict


def test_the_panels_battles_name_the_panel_and_leave_the_rest_alone() -> None:
    given = battles_of("ab", "aa", "ba")
    rows = list(panel(given).battles.to_battles())
    assert len(given) == 6
    assert [b.judge_model for b in rows] == ["panel/majority"] * 2
    assert [b.question_id for b in rows] == ["q0000", "q0001"]
    assert {b.source for b in rows} == {Source.LLM_JUDGE}


def test_sides_may_be_turned() -> None:
    """A judge's file that names the pair the other way round says the same."""
    plain = battles_of("aab", "aba", "abb")
    turned = [
        replace(b, model_a=b.model_b, model_b=b.model_a, winner={A: B, B: A, TIE: TIE}[b.winner])
        if b.judge_model == "j1" else b
        for b in plain.to_battles()
    ]  # fmt: skip
    assert said(panel(BattleLog.from_battles(turned)).battles) == said(panel(plain).battles)


def test_members_are_held_against_the_others_without_them() -> None:
    """By hand: j2 differs from the other two, who agree, on two of four pairs."""
    found = panel(battles_of("aabb", "aabb", "abab"))
    assert (found.members[2].agrees.value, found.members[2].agrees.n) == (0.5, 4)
    assert (found.unanimous, found.split) == (2, 0)
    assert "j2: agrees with the others on 50.0%" in found.sentences[1]


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        (battles_of("ab"), "two judges or more; found: j0"),
        (replace(battles_of("ab", "ab"), question_id=None), "needs battles with"),
        (BattleLog.joined(battles_of("a", "b"), battles_of("b")), "j0 has several battles on one"),
    ],
)
def test_what_is_no_panel_is_refused(log: BattleLog, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        panel(log)


def test_real_judges_agree_with_people_as_the_data_card_says(data: Path) -> None:
    """26,919 votes: GPT-4 alone agrees on 83.3 %, and a poor member makes the majority worse."""
    file = data / "chatbot_arena_27k" / "battles.csv.gz"
    names = ("claude-3-opus-20240229", "gpt-3.5-turbo", "gpt-4-0125-preview")
    people = read_battles(file, winner="human").of_source(Source.HUMAN)
    assert people.question_id is not None
    _, once = np.unique(people.question_id.codes, return_index=True)  # nine questions come twice
    logs = [
        replace(log, judge_model=Labels.of([name] * len(log))).select(once)
        for name in names
        for log in [read_battles(file, winner=name).of_source(Source.LLM_JUDGE)]
    ]
    votes = {b.question_id: b.winner for b in people.select(once).sides_in_order().to_battles()}

    def agreement(log: BattleLog) -> float:
        decided = [
            b.winner is votes[b.question_id]
            for b in log.sides_in_order().to_battles()
            if b.winner.decisive and votes[b.question_id].decisive
        ]
        return sum(decided) / len(decided)

    assert round(agreement(logs[2]), 3) == 0.833
    assert 0.8 < agreement(panel(BattleLog.joined(*logs)).battles) < 0.833


def test_the_command_line_rates_what_the_judges_of_several_files_say(tmp_path: Path) -> None:
    """Three judges' files: the panel's battles are rated, its members are told."""
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(["a", "b"], 40, p=[p, 1 - p])) for p in (0.9, 0.8, 0.6)]
    log = battles_of(*texts)
    assert log.judge_model is not None
    files = []
    for judge in log.judge_model.names:
        files.append(str(tmp_path / f"{judge}.jsonl"))
        write_battles(Path(files[-1]), log.select(log.judge_model.values() == judge))
    words = ["rate", files[0], "--also", files[1], "--also", files[2], "--panel"]
    done = CliRunner().invoke(main, [*words, "--method", "bradley-terry"])
    assert done.exit_code == 0, done.stderr
    assert "Panel of 3 judges (majority)" in done.stdout
    told = CliRunner().invoke(main, [*words, "--method", "bradley-terry", "--json"])
    found = json.loads(told.stdout)
    assert [row["model"] for row in found["ratings"]] == ["ash", "beech"]
    assert [each["judge"] for each in found["panel"]["members"]] == ["j0", "j1", "j2"]
    assert found["n_battles"] + found["panel"]["split"] == 40
