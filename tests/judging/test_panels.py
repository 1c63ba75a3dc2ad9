"""Several judges as one: who wins a pair, what each is worth, who disagrees."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from math import log as ln
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from arena_kit import Battle, BattleLog, DataError, Outcome, Source, read_battles, write_battles
from arena_kit.battles.log import Labels
from arena_kit.cli.main import main
from arena_kit.judging.verdicts.panels import panel

A, B, TIE = Outcome.MODEL_A, Outcome.MODEL_B, Outcome.TIE
OUTCOMES = {"a": A, "b": B, "-": TIE}


def battles_of(*judges: str, people: str = "") -> BattleLog:
    """What each judge says of pairs on questions of their own: a, b, - (tie), ? (inconsistent), or
    a blank for nothing; and what people say.
    """
    rows = []
    for name, verdicts in [*((f"j{n}", said) for n, said in enumerate(judges)), ("", people)]:
        rows += [
            Battle(
                model_a="ash",
                model_b="beech",
                winner=OUTCOMES.get(said, TIE),
                inconsistent=said == "?",
                question_id=f"q{n:04}",
                judge_model=name or None,
                source=Source.LLM_JUDGE if name else Source.HUMAN,
            )
            for n, said in enumerate(verdicts)
            if said != " "
        ]
    return BattleLog.from_battles(rows)


def said(log: BattleLog) -> str:
    words = {A: "a", B: "b", TIE: "-"}
    return "".join("?" if b.inconsistent else words[b.winner] for b in log.to_battles())


@pytest.mark.parametrize(
    ("votes", "verdict"),
    [("aab", "a"), ("abb", "b"), ("ab-", "?"), ("a--", "-"), ("a?b", "?"), ("aa ", "a"),
     ("a?-", "?"), ("?? ", "?"), ("b? ", "b"), ("---", "-")],
)  # fmt: skip
def test_the_verdict_with_most_votes_is_the_panels(votes: str, verdict: str) -> None:
    """A pair on which no verdict has more votes than every other has no winner; an inconsistent
    judgment is no vote.
    """
    found = panel(battles_of(*votes))
    assert said(found.battles) == ("" if set(votes) <= {"?", " "} else verdict)


def test_the_panels_battles_name_the_panel_and_leave_the_rest_alone() -> None:
    given = battles_of("ab", "aa", "ba")
    found = panel(given)
    assert len(given) == 6
    assert [b.judge_model for b in found.battles.to_battles()] == ["panel/majority"] * 2
    assert [b.question_id for b in found.battles.to_battles()] == ["q0000", "q0001"]
    assert {b.source for b in found.battles.to_battles()} == {Source.LLM_JUDGE}


def test_sides_may_be_turned() -> None:
    """A judge's file that names the pair the other way round says the same."""
    plain = battles_of("aab", "aba", "abb")
    turned = [
        Battle(model_a=b.model_b, model_b=b.model_a, winner={A: B, B: A, TIE: TIE}[b.winner],
               question_id=b.question_id, judge_model=b.judge_model, source=b.source)
        if b.judge_model == "j1" else b
        for b in plain.to_battles()
    ]  # fmt: skip
    assert said(panel(BattleLog.from_battles(turned)).battles) == said(panel(plain).battles)


def test_weights_are_the_log_odds_of_agreement_with_people() -> None:
    """By hand: 36 of 40 right is 37 of 42 with one right and one wrong added; ties and pairs that
    people left open teach nothing.
    """
    people = "a" * 40 + "-" * 5
    judges = ("a" * 36 + "b" * 4 + "b" * 5, "a" * 30 + "b" * 10 + "-" * 5, "b" * 25 + "a" * 15)
    found = panel(battles_of(*judges, people=people), "weighted")
    first, second, third = found.members
    assert first.skill == pytest.approx(37 / 42)
    assert first.weight == pytest.approx(ln(37 / 5))
    assert second.weight == pytest.approx(ln(31 / 11))
    assert third.weight == 0.0  # 16 of 42, worse than chance
    assert found.skill_from == "people's votes on 40 pairs"


def test_one_judge_of_skill_outvotes_two_without() -> None:
    people = "ab" * 50
    good = people[:-2] + "ba"
    poor = ("aabb" * 25, "abba" * 25)
    found = panel(battles_of(good, *poor, people=people), "weighted")
    assert said(found.battles) == good


def test_skill_is_found_without_people_where_judges_err_independently() -> None:
    """Five judges whose planted skills are known, on 4,000 pairs."""
    rng = np.random.default_rng(5)
    skills = np.array([0.9, 0.8, 0.7, 0.6, 0.55])
    truth = rng.choice([1, -1], 4000)
    votes = np.where(rng.random((5, 4000)) < skills[:, None], truth, -truth)
    texts = ["".join("a" if vote > 0 else "b" for vote in row) for row in votes]
    found = panel(battles_of(*texts), "weighted")
    assert [m.skill for m in found.members] == pytest.approx(skills.tolist(), abs=0.03)
    right = np.array(["a" if t > 0 else "b" for t in truth]) == np.array(list(said(found.battles)))
    majority = np.array([*said(panel(battles_of(*texts)).battles)])
    assert right.mean() > (majority == np.where(truth > 0, "a", "b")).mean()


def test_members_are_held_against_the_others_without_them() -> None:
    """By hand: j2 differs from the other two, who agree, on two of four pairs."""
    found = panel(battles_of("aabb", "aabb", "abab"))
    assert found.members[2].agrees.value == 0.5
    assert found.members[2].agrees.n == 4
    assert (found.unanimous, found.split) == (2, 0)
    assert "j2: agrees with the others on 50.0%" in found.sentences[1]


@pytest.mark.parametrize(
    ("log", "voting", "sentence"),
    [
        (battles_of("ab"), "majority", "two judges or more; found: j0"),
        (battles_of("ab", "ab"), "weighted", "from 3 judges or more; got 2: j0, j1"),
        (battles_of("ab", "ab", people="ab"), "weighted", "j0 needs 30 verdicts"),
        (replace(battles_of("ab", "ab"), question_id=None), "majority", "needs battles with"),
        (BattleLog.joined(battles_of("a", "b"), battles_of("b")), "majority",
         "j0 has several battles on one pair"),
        (battles_of("a" * 40, "ab" * 20, people="b" * 40), "weighted", "better than chance"),
    ],
)  # fmt: skip
def test_what_is_no_panel_is_refused(log: BattleLog, voting: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        panel(log, voting)  # type: ignore[arg-type]


def test_real_judges_have_the_skill_that_the_data_card_says(data: Path) -> None:
    """26,919 votes: GPT-4 83.3 %, Claude 72.3 %, GPT-3.5 57.0 %; weights follow that order, and
    the weighted panel agrees with people more often than the majority does.
    """
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
    both = BattleLog.joined(*logs, people.select(once))
    alone = panel(BattleLog.joined(*logs), "weighted")
    assert "gpt-4-0125-preview is all but taken for the truth" in " ".join(alone.sentences)
    weighted = panel(both, "weighted")
    assert [round(m.skill or 0, 3) for m in weighted.members] == [0.723, 0.570, 0.833]
    agreed = {}
    for found in (weighted, panel(both)):
        votes = {b.question_id: b for b in people.select(once).sides_in_order().to_battles()}
        both_decided = [
            (b.winner, votes[b.question_id].winner)
            for b in found.battles.to_battles()
            if b.winner.decisive and votes[b.question_id].winner.decisive
        ]
        agreed[found.voting] = sum(x == y for x, y in both_decided) / len(both_decided)
    assert agreed["weighted"] > agreed["majority"] > 0.8


def test_the_command_line_rates_what_the_judges_of_several_files_say(tmp_path: Path) -> None:
    """Two judges' files and a third: the panel's battles are rated, its members are told."""
    rng = np.random.default_rng(0)
    files = []
    for judge, skill in (("x", 0.9), ("y", 0.8), ("z", 0.6)):
        rows = [
            Battle(
                model_a=a, model_b=b, winner=A if rng.random() < skill else B,
                question_id=f"q{n}", judge_model=judge, source=Source.LLM_JUDGE,
            )
            for n, (a, b) in product(range(40), [("ash", "beech"), ("beech", "cherry")])
        ]  # fmt: skip
        files.append(tmp_path / f"{judge}.jsonl")
        write_battles(files[-1], BattleLog.from_battles(rows))
    words = ["rate", str(files[0]), "--also", str(files[1]), "--also", str(files[2])]
    done = CliRunner().invoke(main, [*words, "--method", "bradley-terry", "--panel", "majority"])
    assert done.exit_code == 0, done.stderr
    assert "Panel of 3 judges (majority)" in done.stdout
    told = CliRunner().invoke(main, [*words, "--panel", "weighted", "--json",
                                     "--method", "bradley-terry"])  # fmt: skip
    found = json.loads(told.stdout)
    assert [row["model"] for row in found["ratings"]] == ["ash", "beech", "cherry"]
    weights = {each["judge"]: each["weight"] for each in found["panel"]["members"]}
    assert weights["x"] > weights["z"]
    assert found["n_battles"] + found["panel"]["split"] == 80
