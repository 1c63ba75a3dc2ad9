"""The box that a report opens with: it answers in sentences, and no text in it acts."""

import json
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arena_kit import BattleLog, Board, PermutationElo, answer, rate
from arena_kit.battles.log import Labels
from arena_kit.judging.judges.anthropic import client_of
from arena_kit.judging.judges.baseline import BaselineJudge
from arena_kit.reporting import tournament_tables
from arena_kit.reporting.answer import RunAnswer, brief, disagreements, order
from arena_kit.reporting.html import clean_html
from arena_kit.runs.tournament.judge import Judgments
from arena_kit.runs.tournament.publish import asked_at, left_out
from tests import samples
from tests.emulator import Emulator
from tests.samples import SMALL, batch_judge, copy_workspace, judgments_of, log_of, rated, won


def taste(votes: list[tuple[str, str, str]], margin: float = 0.0) -> Board:
    """The board of votes on one dimension."""
    log = log_of(votes)
    return rate(replace(log, dimension=Labels.of(["taste"] * len(log))), margin=margin)


def test_who_is_first_and_who_cannot_be_told_apart() -> None:
    """Nine of ten is first with more than 99 %; 26 and 24 of 50 are open."""
    votes = won("ann", "bob", 45, 5) + won("bob", "cy", 26, 24) + won("ann", "cy", 44, 6)
    assert order(taste(votes)["taste"]) == (
        "taste: ann is first (P > 99%); bob and cy are not separable. Best first: ann, bob, cy."
    )
    alike = order(taste(votes, margin=500)["taste"])
    assert "bob and cy are equivalent within 500 points" in alike
    votes = won("ann", "bob", 26, 24) + won("ann", "cy", 45, 5) + won("bob", "cy", 45, 5)
    said = order(taste(votes)["taste"])
    assert said.startswith("taste: first place: ann and bob are not separable (ann above bob: P ")
    assert "cy" not in said.partition("Best first")[0]


def test_elo_against_the_board_is_told() -> None:
    """Where Elo has two neighbours the other way round, the box says so; where not, nothing."""
    elo = PermutationElo(n_perms=20, evidence_replicates=0)
    votes, turned = (log_of(won("ann", "bob", *n)) for n in ((30, 20), (20, 30)))
    assert disagreements(rate(votes, elo=elo)) == []
    (told,) = disagreements(rate(votes, elo=lambda _: elo(turned)))
    assert told.endswith("Elo has bob above ann, against Bradley–Terry; the order is unresolved.")


HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(1)">'


def test_no_text_of_the_box_acts() -> None:
    """Names, facts and caveats that are HTML are text, before and after the report is cleaned."""
    box = RunAnswer(
        brief=[f"{HOSTILE}: {HOSTILE}"], sentences=[f"{HOSTILE}: {HOSTILE}"],
        facts={HOSTILE: HOSTILE}, caveats=[HOSTILE],
    )  # fmt: skip
    for html in (box.html, clean_html(box.html), box.summary.html):
        assert "<script" not in html
        assert "<img" not in html
        assert html.count("&lt;script") == (2 if html == box.summary.html else 5)


def test_who_is_best_at_what_in_a_few_words() -> None:
    """One winner is named with its dimensions, several as not separable, none as no answer."""
    ahead = won("ann", "bob", 45, 5) + won("ann", "cy", 44, 6) + won("bob", "cy", 26, 24)
    level = won("ann", "bob", 26, 24) + won("ann", "cy", 45, 5) + won("bob", "cy", 45, 5)
    logs = [log_of(votes) for votes in (ahead, ahead, level, won("ann", "bob", 3, 2))]
    names = ["taste", "smell", "sight", "touch"]
    logs = [replace(log, dimension=Labels.of([name] * len(log)))
            for log, name in zip(logs, names, strict=True)]  # fmt: skip
    board = rate(BattleLog.joined(*logs))
    assert brief(board, ["smell"]) == [
        "Best: ann on taste.", "sight: ann and bob not separable.", "No answer on smell and touch.",
    ]  # fmt: skip
    assert brief(board)[0] == "Best: ann on smell and taste."


def test_where_a_judge_was_asked(emulator: Emulator) -> None:
    """The service is told from any other address, and both from this process and a recording."""
    elsewhere = batch_judge(emulator)
    there = batch_judge(emulator, client=client_of("none", "https://api.anthropic.com"))
    assert asked_at(elsewhere) == f"called at {emulator.base_url}"
    assert asked_at(there) == "called at https://api.anthropic.com"
    assert asked_at(BaselineJudge()) == "run locally"
    assert asked_at(BaselineJudge(), "runs/one") == "replayed from runs/one"


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Judgments, Path]]:
    """A small pilot and its record; the demo judge was not written for one dimension."""
    root = copy_workspace(tmp_path_factory.mktemp("answer") / "workspace")
    rubric = root / "params" / "rubrics" / "clinical_utility.md"
    rubric.write_text(rubric.read_text() + "\nPrefer a friendly tone.\n")
    with chdir(root):
        study = judgments_of("pilot", **SMALL)
        yield study, samples.published(study).path


def test_the_box_says_who_judged_what_where_and_for_how_much(pilot: tuple[Judgments, Path]) -> None:
    """Judge and place, what it compared, prompts, run and cost stand in the box."""
    study, record = pilot
    box = answer(rated(study), study)
    assert box.facts["judge"] == "baseline/lexical-v1, run locally"
    assert "it ignores rubrics" in box.facts["compared"]
    n, bank = len(study.plan.prompts), len(study.plan.material.prompts)
    assert box.facts["prompts"].startswith(f"{n} of {bank} (")
    assert (box.facts["cost"], box.facts["run"]) == ("nothing", record.name)
    assert any("compares words, not meaning" in each for each in box.caveats)
    assert f"This run used {n} of {bank} prompts." in box.caveats
    assert "is not usable" in box.said[0], "a pilot is about its judge"
    assert any(
        each.startswith("clinical_utility: the demo judge cannot apply") for each in box.said
    )
    assert any(each.startswith("calibration: ") and "Best first" in each for each in box.said)
    assert json.loads((record / "answer.json").read_text())["said"] == box.said
    table = tournament_tables.verdict_counts(study)
    assert "ok" in [row[""] for row in table.rows]
    assert table.notes[0].startswith("None: refused, truncated"), "never occurred: folded"


def test_inconsistent_pairs_are_counted_among_those_judged() -> None:
    """Where rounds judge 10 of 100 pairs in both orders and two are inconsistent, that is two of
    ten; adaptive rounds count them as ties.
    """
    settled = {"winner": 8, "tie": 0, "one_order": 5, "inconsistent": 2, "incomplete": 0}
    manifest: dict[str, Any] = {
        "dropped": {"missing_responses": [], "prompts": [], "pairs": {}},
        "counts": {"pairs": {"tone": 100}, "judgments": {"tone": settled}},
    }
    for mode, treated in (("pilot", "were excluded"), ("adaptive", "count as ties")):
        assert left_out(manifest | {"mode": mode}) == [
            f"2 of 10 pairs {treated}: the verdict changed with presentation order."
        ]
