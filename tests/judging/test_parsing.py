"""Reading a judge's text: what names a winner, and what must be left unread."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit.judging.verdicts.parsing import read_verdict
from arena_kit.judging.verdicts.records import Slot
from tests.samples import CASES

MEGABYTE = 1_000_000
Texts = dict[tuple[str, str, str], str]
HOSTILE = json.loads((CASES / "hostile_verdicts.json").read_text(encoding="utf-8"))["cases"]


@pytest.fixture(scope="module")
def real_texts(data: Path) -> Texts:
    """Real judge texts that their authors could not read, by question and models in order."""
    path = data / "qlora_gpt4_judge" / "unparsed_texts.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return {
        (row["question_id"], row["first_model"], row["second_model"]): row["text"]
        for row in rows
        if row["bench"] == "oa"
    }


@pytest.mark.parametrize("winner", list(Slot))
def test_a_json_verdict_is_read_with_its_justification(winner: Slot) -> None:
    """A verdict in the asked form gives its winner and its justification."""
    reading = read_verdict(json.dumps({"justification": "It is calmer.", "winner": str(winner)}))
    assert reading.winner is winner
    assert reading.justification == "It is calmer."


@pytest.mark.parametrize(
    "text",
    [
        'Here is my verdict: {"justification": "Clear.", "winner": "B"} Thank you.',
        '```json\n{"justification": "Clear.", "winner": "B"}\n```',
        'Winner: A, at first sight.\n```\n{\n "winner": "B",\n "justification": "Clear."\n}\n```',
        'Sets like {1, 2} are fine. {"justification": "Clear.", "winner": "B", "confidence": 0.9}',
        '{"note": "no verdict here"} {"justification": "Clear.", "winner": "B"}',
    ],
)
def test_json_is_found_in_prose_and_code_fences(text: str) -> None:
    """A JSON verdict counts wherever it stands, before anything the prose says."""
    reading = read_verdict(text)
    assert reading.winner is Slot.B
    assert reading.justification == "Clear."


@pytest.mark.parametrize(
    ("winner", "slot"),
    [
        ("a", Slot.A),
        (" B ", Slot.B),
        ("Tie", Slot.TIE),
        ("TIE", Slot.TIE),
        ("Response B", Slot.B),
        ("response_a", Slot.A),
        ("Assistant A", Slot.A),
        ("(B)", Slot.B),
        ("the first", Slot.A),
        ("1", Slot.A),
        (2, Slot.B),
        ("3", Slot.TIE),
        (3, Slot.TIE),
        ("C", Slot.TIE),
        ("draw", Slot.TIE),
        ("neither", Slot.TIE),
    ],
)
def test_the_winner_field_may_drift(winner: object, slot: Slot) -> None:
    """Other case, a label around the letter, and numbers still name the slot."""
    assert read_verdict(json.dumps({"justification": "", "winner": winner})).winner is slot


@pytest.mark.parametrize(
    "winner", ["", "unsure", "A or B", "A and B", "both", None, True, 0, 4, 1.5, ["A", "B"]]
)
def test_a_winner_field_that_names_no_single_slot_is_unread(winner: object) -> None:
    """A winner that is absent, unknown or double gives none."""
    assert read_verdict(json.dumps({"justification": "Hm.", "winner": winner})).winner is None


@pytest.mark.parametrize("winner", [None, "unsure"])
def test_a_json_verdict_without_winner_is_not_read_from_its_justification(
    winner: str | None,
) -> None:
    """A JSON verdict that declines to name a winner has none, whatever its reasoning weighs."""
    text = {"justification": "Response A is better on tone, yet I cannot decide.", "winner": winner}
    assert read_verdict(json.dumps(text)).winner is None


def test_the_last_json_verdict_counts() -> None:
    """A judge that corrects itself is taken at its last word."""
    text = '{"winner": "A", "justification": "x"}\nWait.\n{"winner": "B", "justification": "y"}'
    assert read_verdict(text).winner is Slot.B
    assert read_verdict(text).justification == "y"


def test_the_outer_winner_counts_before_one_nested_inside() -> None:
    """An object inside a verdict does not speak for the verdict."""
    text = '{"justification": "x", "by_criterion": {"style": {"winner": "B"}}, "winner": "A"}'
    assert read_verdict(text).winner is Slot.A


def test_json_quoted_inside_a_justification_does_not_count() -> None:
    """A verdict that quotes another verdict in its justification is read as itself."""
    quoted = {"justification": 'It writes {"winner": "B"} itself.', "winner": "A"}
    assert read_verdict(json.dumps(quoted)).winner is Slot.A


def test_the_answer_form_repeated_is_no_verdict() -> None:
    """A judge that only repeats the form it was asked to fill in names nobody."""
    form = '{"justification": "two or three sentences", "winner": "A" or "B" or "tie"}'
    assert read_verdict(form).winner is None


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("My verdict is [[A]].", Slot.A),
        ("[[B]]", Slot.B),
        ("Both have merit. [[C]]", Slot.TIE),
        ("[[tie]]", Slot.TIE),
        ("At first [[A]], but on reflection:\n[[B]]", Slot.B),
    ],
)
def test_the_bracket_form_is_read(text: str, slot: Slot) -> None:
    """A label in double brackets is a verdict, and the last one counts."""
    assert read_verdict(text).winner is slot


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("Winner: B", Slot.B),
        ("**Winner:** Response A", Slot.A),
        ("Final answer: B", Slot.B),
        ("Best answer: 2", Slot.B),
        ("Best answer: 3", Slot.TIE),
        ("I choose option 1.", Slot.A),
        ("I would choose option 3.", Slot.TIE),
        ("Therefore I pick C.", Slot.TIE),
        ("The better response is the first.", Slot.A),
        ("The best answer is provided by Assistant 2.", Slot.B),
        ("Response B is slightly better.", Slot.B),
        ("Response A wins.", Slot.A),
        ("Assistant 2's answer is the best.", Slot.B),
        ("It is a tie.", Slot.TIE),
        ("Both answers are equally good.", Slot.TIE),
    ],
)
def test_english_prose_is_read(text: str, slot: Slot) -> None:
    """The usual English ways of naming a winner are understood."""
    assert read_verdict(f"Some reasoning about both first.\n\n{text}").winner is slot


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("La mejor respuesta es la segunda.", Slot.B),
        ("La mejor respuesta: 1", Slot.A),
        ("Elijo la opción 3.", Slot.TIE),
        ("La meilleure réponse est celle de l'assistant 2.", Slot.B),
        ("Die beste Antwort ist die von Assistant 1.", Slot.A),
        ("Лучший ответ: 1", Slot.A),
        ("Мой выбор: 3", Slot.TIE),
        ("最佳答案：2", Slot.B),
        ("最好的回答是第一", Slot.A),
    ],
)
def test_prose_in_other_languages_is_read(text: str, slot: Slot) -> None:
    """Verdicts in Spanish, French, German, Russian and Chinese are understood."""
    assert read_verdict(text).winner is slot


def test_the_last_statement_counts() -> None:
    """An early lean gives way to the conclusion that follows it."""
    text = "On style, response A is better.\nOn facts, response B is better.\nWinner: B"
    assert read_verdict(text).winner is Slot.B


def test_a_concluding_tie_overrides_an_earlier_lean() -> None:
    """A text that leans to one side and then concludes that both are equal is a tie."""
    text = "On style, response A is better.\nOverall, both answers are equally good."
    assert read_verdict(text).winner is Slot.TIE


@pytest.mark.parametrize(
    "text",
    [
        "The better answer is A, but the winner is B.",
        "Some thoughts.\nWinner: A, or rather winner: B",
        "Response A is better and response B is better",
        "[[A]] [[B]]",
    ],
)
def test_a_last_sentence_that_contradicts_itself_is_unread(text: str) -> None:
    """Two different winners in the last sentence give none."""
    assert read_verdict(text).winner is None


@pytest.mark.parametrize(
    "text",
    [
        "The winner is a response that stays calm.",
        "I prefer a response with detail.",
        "The better response is a close call.",
        "I would choose a middle way.",
        "The best is a matter of taste.",
    ],
)
def test_the_article_a_is_not_slot_a(text: str) -> None:
    """A lower-case article after a word of choosing names nobody."""
    assert read_verdict(text).winner is None


@pytest.mark.parametrize(
    "text",
    [
        "I cannot choose.",
        "I cannot choose A or B.",
        "I can't choose option 1 over option 2.",
        "I can\N{RIGHT SINGLE QUOTATION MARK}t choose option 1 over option 2.",
        "I do not prefer A.",
        "I don't prefer A.",
        "I am unable to choose A or B.",
    ],
)
def test_declining_to_choose_is_unread(text: str) -> None:
    """A judge that says that it does not choose names nobody."""
    assert read_verdict(text).winner is None


def test_a_denied_winner_is_unread() -> None:
    """A denial that one response is better is not a vote for it."""
    assert read_verdict("Response A is not better than response B.").winner is None


def test_neither_nor_is_not_a_vote_for_the_one_named_last() -> None:
    """Saying that neither is better is no win for either of them."""
    reading = read_verdict("Neither response A nor response B is better.")
    assert reading.winner in (None, Slot.TIE)


@pytest.mark.parametrize(
    "text", ["The responses are not equally good.", "They are not equally helpful."]
)
def test_a_denied_tie_is_unread(text: str) -> None:
    """A denial that both are equal is no tie."""
    assert read_verdict(text).winner is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n\t",
        "{",
        "{}",
        "null",
        "I'm sorry, but I can't help with that.",
        "Both responses discuss the question.",
        "Answer 1: 4/5\nAnswer 2: 3/5",
        "Best answer: 1/10",
        "The choice is difficult.",
    ],
)
def test_a_text_without_a_verdict_is_unread(text: str) -> None:
    """Empty texts, refusals and scores alone give none."""
    assert read_verdict(text).winner is None


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                ["{", "}", '"winner"', ":", "[[", "]]", "A", "best", "choose", '"', "["]
            ),
            st.text(max_size=5),
        ),
        max_size=20,
    ).map("".join)
)
def test_any_text_is_read_without_an_error(text: str) -> None:
    """No text makes the reader fail, and reading twice gives the same."""
    assert read_verdict(text) == read_verdict(text)
    assert read_verdict(text).winner in (None, *Slot)


def test_deep_nesting_is_unread_and_no_crash() -> None:
    """JSON nested deeper than a reader can follow is unread like any other broken text."""
    assert read_verdict('{"winner": ' + "[" * 100_000).winner is None


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("word " * 200_000 + '{"justification": "", "winner": "B"}', Slot.B),
        ("word " * 200_000 + "\nWinner: A", Slot.A),
        ("{" * MEGABYTE, None),
        ('{"winner": ' * 90_000, None),
        ('{"a": "' + "x" * MEGABYTE, None),
        ("\n" * MEGABYTE, None),
        ("best " * 200_000, None),
        ("both " * 200_000, None),
        ("x" * MEGABYTE + "best" + " " * 2_900, None),
        ("x" * MEGABYTE + " winner" + '"' * 2_900, None),
        ("x" * MEGABYTE + " response A" + " " * 2_900, None),
    ],
    ids=[
        "json-last",
        "prose-last",
        "braces",
        "open-objects",
        "open-string",
        "newlines",
        "best",
        "both",
        "best-spaces",
        "winner-quotes",
        "response-spaces",
    ],
)
def test_a_megabyte_is_read_within_a_second(text: str, slot: Slot | None) -> None:
    """A text of a megabyte, ordinary or hostile, takes less than a second."""
    start = process_time()
    winner = read_verdict(text).winner
    assert process_time() - start < 1.0
    assert winner is slot


def test_most_real_texts_are_read(real_texts: Texts) -> None:
    """At least 1,440 of 1,482 texts that their authors' parser gave up on are read."""
    read = sum(read_verdict(text).winner is not None for text in real_texts.values())
    assert len(real_texts) == 1_482
    assert read >= 1_440


def test_real_texts_are_read_as_labelled(real_texts: Texts) -> None:
    """On 60 real texts the reader agrees with labels made by reading each whole text."""
    labelled = json.loads((CASES / "qlora_labels.json").read_text(encoding="utf-8"))
    meaning = {"first": Slot.A, "second": Slot.B, "tie": Slot.TIE, "none": None}
    wrong = [
        (row, winner)
        for row in labelled["labels"]
        if (
            winner := read_verdict(
                real_texts[row["question_id"], row["first_model"], row["second_model"]]
            ).winner
        )
        is not meaning[row["label"]]
    ]
    assert len(labelled["labels"]) == 60
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("Winner: B. Both responses are equally long, though.", Slot.B),
        ("I choose B. I pick 3 reasons below.", Slot.B),
        ("Verdict: Response A is worse", None),
        ("Winner: A/B", None),
        ("Winner: A & B", None),
        ("I cannot say that response A is better.", None),
        ('{"winner": "no clear winner, it is a wash"}', None),
        ('{"winner": "a tie"}', Slot.TIE),
        ("A", Slot.A),
        ("Answer: B", Slot.B),
        ("winner: b", Slot.B),
        ("{'winner': 'A'}", Slot.A),
        ("It was not accurate.\n\nBest answer: 1", Slot.A),
    ],
)
def test_asides_and_denials(text: str, slot: Slot | None) -> None:
    """A formal verdict stands whatever is said around it, and what is denied is no verdict."""
    assert read_verdict(text).winner is slot


@pytest.mark.parametrize("case", HOSTILE, ids=[case["text"][:40] for case in HOSTILE])
def test_what_only_looks_like_a_verdict_is_unread(case: dict[str, str | None]) -> None:
    """Denials, questions, suppositions, quotations, articles, headings and contradictions name
    nobody, and a verdict that stands beside them is still read.
    """
    assert read_verdict(str(case["text"])).winner == case["winner"]


def test_hostile_cases_show_every_kind_of_doubt() -> None:
    """There are hostile texts of ten kinds that must stay unread, and some that must be read."""
    assert len({case["kind"] for case in HOSTILE if case["winner"] is None}) >= 10
    assert {case["winner"] for case in HOSTILE} == {None, *Slot}
