"""Drawing an arena's recorded answers: what is left out, that opponents are balanced, the ids."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from arena_kit import Battle, BattleLog, DataError
from arena_kit.battles.read import BattleTexts
from arena_kit.judging.pairs.prompts import Prompt, Response
from arena_kit.judging.verdicts.records import to_battles
from arena_kit.runs.placement.sample import (
    ArenaSample,
    RecordedBattle,
    RecordedTexts,
    draw,
    question_ids,
    with_question_ids,
)

Row = tuple[str, str, str | None, dict[str, Any]]


def arena(*rows: Row) -> tuple[BattleLog, BattleTexts]:
    """Battles (model_a, model_b, question) whose texts follow from who answered what."""
    battles = BattleLog.from_battles(
        Battle(model_a=a, model_b=b, winner="model_a", question_id=q)  # type: ignore[arg-type]
        for a, b, q, _ in rows
    )
    given = [
        {"prompt": f"{q}?", "response_a": f"{a} on {q}", "response_b": f"{b} on {q}"}
        | {"language": "en", "turns": 1}
        | changes
        for a, b, q, changes in rows
    ]
    columns = {
        name: np.array([row[name] for row in given], object)
        for name in ("prompt", "response_a", "response_b", "language")
    }
    turns = np.array([row["turns"] for row in given], np.int32)
    return battles, BattleTexts(**columns, turns=turns)


def grid(models: int, questions: int) -> RecordedTexts:
    """Every two neighbours met on every question."""
    names = [f"m{i}" for i in range(models)]
    rows = [(a, b, f"q{q:03}", {}) for q in range(questions) for a, b in zip(names, names[1:])]  # noqa: B905, RUF007
    return RecordedTexts.of_file(*arena(*rows))


def drawn(texts: RecordedTexts, n: int, **changes: Any) -> ArenaSample:
    everybody = {model for model, _ in texts.answers}
    return draw(texts, "new", everybody, **{"dimension": "taste", "n_battles": n} | changes)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"prompt": None}, "without a prompt and both answers"),
        ({"prompt": " "}, "without a prompt and both answers"),
        ({"response_b": None}, "without a prompt and both answers"),
        ({"turns": 2}, "more than one turn"),
        ({"language": "de"}, "another language, or none named"),
        ({"language": None}, "another language, or none named"),
        ({"prompt": "other?"}, "another prompt under the same question id"),
        ({"response_a": "changed"}, "another answer of the same model to the same question"),
    ],
)
def test_what_cannot_be_used_is_counted(changes: dict[str, Any], why: str) -> None:
    """A battle that cannot be used is left out by its reason, and leaves no answer behind."""
    rows = arena(("x", "y", "q1", {}), ("x", "z", "q1", changes))
    texts = RecordedTexts.of_file(*rows, languages=["en"])
    assert (texts.left_out, texts.battles) == ({why: 1}, [RecordedBattle("q1", "x", "y")])
    assert set(texts.answers) == {("x", "q1"), ("y", "q1")}


def test_filters_can_be_lifted() -> None:
    """Without filters, conversations of any language and length lend their first answers."""
    rows = arena(("x", "y", "q1", {"turns": 3, "language": "de"}), ("x", "y", "q2", {"turns": 0}))
    assert len(RecordedTexts.of_file(*rows, single_turn=False).battles) == 2
    assert RecordedTexts.of_file(*rows).battles == [RecordedBattle("q2", "x", "y")]
    with pytest.raises(DataError, match=r"no battle .*: 1 .*1 another language.*named: de, en$"):
        RecordedTexts.of_file(*rows, languages=["fr"])


@pytest.mark.parametrize("n", [1, 7, 35, 60, 200])
def test_opponents_are_balanced_and_prompts_new(n: int) -> None:
    """Opponents have equally many battles or one more."""
    sample = drawn(grid(7, 40), n)
    counts = list(sample.opponents.values())
    assert sum(counts) == n
    assert max(counts) - min([*counts, 0] if n < 7 else counts) <= 1
    uses = Counter(pair.prompt_id for pair in sample.battles)
    assert (len(uses), len(set(sample.battles))) == (min(n, 40), n)
    assert max(uses.values()) - min(uses.values()) <= 2
    rows = [("x", "y", f"q{i}", {}) for i in range(10)] + [("z", "x", "q0", {})]
    sample = drawn(RecordedTexts.of_file(*arena(*rows)), 9)
    assert sample.opponents == {"x": 4, "y": 4, "z": 1}
    with pytest.raises(DataError, match=r"n_battles is 15, .*only 14 recorded answers"):
        drawn(grid(7, 2), 15)


def test_the_seed_decides() -> None:
    """The same seed draws the same battles whatever the order of the file; another one others."""
    texts = grid(5, 60)
    prompts, answers = (dict(reversed(x.items())) for x in (texts.prompts, texts.answers))
    turned = replace(texts, prompts=prompts, answers=answers)
    assert drawn(texts, 30).battles == drawn(turned, 30).battles
    assert drawn(texts, 30).battles != drawn(texts, 30, seed=1).battles


def test_only_opponents_and_answered_prompts() -> None:
    """Only named opponents are met, never the model itself, and only on prompts it has answered."""
    rows = [(a, b, f"q{i}", {}) for i in range(9) for a, b in (("x", "y"), ("y", "rare"))]
    rows += [("new", "x", f"q{i}", {}) for i in range(9)]
    texts = RecordedTexts.of_file(*arena(*rows))
    sample = draw(texts, "new", ["x", "y", "new"], dimension="taste", n_battles=4, n_shared=50,
                  answered=["q1", "q2", "q3"])  # fmt: skip
    assert set(sample.opponents) == {"x", "y"}
    assert {pair.prompt_id for pair in sample.battles} <= {"q1", "q2", "q3"}
    assert {(p.entrant_a, p.entrant_b) for p in sample.shared} == {("x", "y")}
    assert len(sample.shared) == 9
    assert {entrant for entrant, _ in sample.recorded} == {"x", "y"}
    assert sample.recorded["x", "q1"].response_text == "x on q1"


def test_shared_battles_are_among_few_models() -> None:
    """Shared battles are among the ten models with the most, or more where it takes more."""
    pairs = [(f"m{i:02}", f"m{j:02}") for i in range(20) for j in range(i)]
    rows = [(a, b, f"q{a}{b}{k}", {}) for a, b in pairs for k in range(2 if a < "m12" else 1)]
    texts = RecordedTexts.of_file(*arena(*rows))
    assert len(rows) == 66 * 2 + (190 - 66)

    def models(n: int) -> set[str]:
        sample = drawn(texts, 1, n_shared=n)
        assert len(sample.shared) == min(n, len(rows))
        return {side for pair in sample.shared for side in (pair.entrant_a, pair.entrant_b)}

    assert models(80) <= {f"m{i:02}" for i in range(10)}, "45 pairs of ten, twice each"
    assert models(132) == {f"m{i:02}" for i in range(12)}
    assert (len(models(133)), len(models(999))) == (13, 20)


def test_names_that_are_no_ids_come_back() -> None:
    """Names that no entrant has are judged under ids, and battles have the arena's names again."""
    rows = [("GPT-4|turbo", "y", f"q {i}?", {}) for i in range(3)]
    sample = draw(RecordedTexts.of_file(*arena(*rows)), "new model", ["GPT-4|turbo", "y"],
                  dimension="taste", n_battles=6)  # fmt: skip
    assert all(pair.pair_id.count("|") == 3 for pair in sample.battles)
    judged = BattleLog.from_battles(
        Battle(model_a=p.entrant_a, model_b=p.entrant_b, winner="tie", question_id=p.prompt_id)  # type: ignore[arg-type]
        for p in sample.battles
    )
    named = sample.renamed(judged)
    assert set(named.models) == {"GPT-4|turbo", "y", "new model"}
    assert set(named.prompts) == {"q 0?", "q 1?", "q 2?"}
    assert len(sample.renamed(to_battles([]))) == 0


def test_questions_without_an_id_are_known_by_their_prompt() -> None:
    """Battles on equal prompts are on one question, which also clusters people's votes."""
    battles, texts = arena(
        ("x", "y", None, {"prompt": "Why?"}),
        ("x", "z", None, {"prompt": "Why?"}),
        ("x", "z", None, {"prompt": "How?", "response_a": "so"}),
    )
    one, same, other = question_ids(battles, texts)
    assert one == same != other
    assert with_question_ids(battles, texts).clusters().tolist() == [1, 1, 0]
    assert len(RecordedTexts.of_file(battles, texts).prompts) == 2


def test_a_bank_of_ones_own() -> None:
    """A bank lends prompts, responses and gold answers to votes; what it lacks is counted."""
    bank = [
        Prompt(prompt_id="q1", text="One?", source="s", gold_answer="1"),
        Prompt(prompt_id="q2", text="Two?", source="s"),
    ]
    responses = {
        (m, q): Response(entrant_id=m, prompt_id=q, response_text=f"{m} on {q}")
        for m in ("x", "y")
        for q in ("q1", "q2")
    }
    battles, _ = arena(("y", "x", "q1", {}), ("x", "y", "q2", {}), ("x", "z", "q1", {}),
                       ("x", "y", "q9", {}), ("x", "y", None, {}))  # fmt: skip
    texts = RecordedTexts.of_bank(battles, bank, responses)
    assert texts.left_out == {"a question outside the prompt bank": 2, "without both responses": 1}
    assert texts.battles == [RecordedBattle("q1", "x", "y"), RecordedBattle("q2", "x", "y")]
    sample = drawn(texts, 2, needs_gold=True, n_shared=9)
    assert {pair.prompt_id for pair in [*sample.battles, *sample.shared]} == {"q1"}
    assert sample.prompts[0].gold_answer == "1"
