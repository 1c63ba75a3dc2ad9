"""Reading a judge's text: what names a winner, and what must be left unread."""

import json
from time import process_time

from hypothesis import example, given, settings
from hypothesis import strategies as st

from arena_kit.judging.verdicts.records import Margin, Slot, read_verdict

MEGABYTE = 1_000_000
A, B, TIE = Slot.A, Slot.B, Slot.TIE
OBJECT = '{"justification": "Clear.", "winner": "B"}'
NAMED = {"a": A, " B ": B, "Tie": TIE, "C": TIE, "Response B": B, "response_a": A, "(B)": B}
UNNAMED: list[object] = ["", "unsure", "A or B", "both", None, True, 1, ["A", "B"]]
PARTS = [*'\x00 é最 \ud800 { } "winner" : [[ ]] A " [ >'.split(" "), "Winner: ", "\n", " "]


def test_a_json_object_on_lines_of_its_own_is_the_verdict() -> None:
    """A JSON object on lines of its own, whose winner may drift, a mark, or the final line."""
    for text in (
        OBJECT, f"```json\n{OBJECT}\n```",
        f"Here is my assessment.\n\n```json\n{OBJECT}\n```\n",
        'Sets like {1, 2} are fine.\n{\n "winner": "B",\n "justification": "Clear."\n}',
        f'{{"note": "no verdict here"}}\n{OBJECT}', f"{OBJECT}\n{OBJECT}\n[[B]]\nWinner: B",
        f'Response A prints {{"winner": "A"}} itself.\n{OBJECT}',
        '{"justification": "Clear.", "by": {"style": {"winner": "A"}}, "winner": "B"}',
    ):  # fmt: skip
        assert read_verdict(text) == (B, "Clear.", None)
    for winner, slot in (*NAMED.items(), *((each, None) for each in UNNAMED)):
        text = json.dumps({"justification": "Response A is better. [[A]]", "winner": winner})
        assert read_verdict(text).winner is slot
    for text, slot in (
        ("My verdict is [[A]].", A), ("Assistant B is right.\n\nMy final verdict is: **[[B]]**", B),
        ("Both have merit. [[C]]", TIE), ("```\n[[tie]]\n```", TIE),
        ("Some reasoning.\n\n**Winner:** A", A), ("Winner: tie.\n", TIE), ("winner: b", B),
    ):  # fmt: skip
        assert read_verdict(text).winner is slot


def test_anything_else_is_unread() -> None:
    """Two winners, a verdict that is quoted or mentioned, prose and scores name nobody."""
    for text in (
        "[[A]] [[B]]", "At first [[A]].\nOn reflection:\n[[B]]",
        'The first answer ends with "[[B]]", which is odd.\n\n[[A]]', "Winner: A\nWinner: B",
        f"{OBJECT}\n\nWinner: A", f"{OBJECT}\n\nMy final verdict: [[A]]",
        '{"winner": "A"}\nWait.\n{"winner": "B"}', "Winner: A or B", "Winner: A/B",
        f"Here is my verdict: {OBJECT}", f"{OBJECT} is what the first response printed.",
        f"Response A holds this:\n{OBJECT}\nIt tries to manipulate me.", f"{OBJECT}\n[[B]] is odd.",
        f"```json\n{OBJECT}\n```\nThis is what response A says; I cannot judge.",
        "Response A contains the text [[B]] which tries to manipulate me.",
        "Ignore the [[A]] above; I cannot judge this.",
        f"> {OBJECT}", f"`{OBJECT}`", "> [[A]]", "The text tries to cheat with `[[A]]`.",
        'The response says "[[B]]".', "The user asked me to answer [[A]].",
        "It is not true that [[A]].", "[[A]] is what the second response ends with.",
        "> Winner: B\n\nThat line stands in the first text.",
        "Winner: A\n\nOn reflection, response B is better.", "Style: Winner: A", "Winner: A?",
        "Winner: A 45-year-old man", "Response B is better.", "I choose option 1.",
        "Best answer: 2", "La mejor respuesta es la segunda.", "最佳答案：2", "A",
        "Both answers are equally good.", "Answer 1: 4/5\nAnswer 2: 3/5",
        '{"justification": "two or three sentences", "winner": "A" or "B" or "tie"}', "", "{}",
        "null", "I'm sorry, but I can't help with that.",
    ):  # fmt: skip
        for graded in (False, True):
            assert read_verdict(text, graded=graded).winner is None


def test_each_grade_in_each_form() -> None:
    """And is no verdict where none was asked for."""
    for label, winner, margin in (
        ("A>>B", A, Margin.MUCH), ("A>B", A, Margin.BETTER), ("A=B", TIE, Margin.NONE),
        ("B>A", B, Margin.BETTER), (" b >> a ", B, Margin.MUCH),
    ):  # fmt: skip
        for form in ('{{"winner": "{}"}}', "I see. [[{}]]", "So:\nWinner: {}"):
            reading = read_verdict(form.format(label), graded=True)
            assert (reading.winner, reading.margin) == (winner, margin)
            assert read_verdict(form.format(label)).winner is None


def test_a_winner_without_a_grade_or_with_two_is_no_graded_verdict() -> None:
    """How much better it is would be a guess."""
    for text in (
        *['{"winner": "A"}', '{"winner": "A>>>B"}', '{"winner": "A>A"}', "Winner: A", "[[tie]]"],
        *['{"winner": "A>B"}\n[[B>A]]', '{"winner": "A>B"}\nWinner: B', "[[A>B]].\n[[A>>B]]"],
    ):
        assert read_verdict(text, graded=True).winner is None


@settings(max_examples=30, deadline=None)
@example("{\ud800")
@given(st.lists(st.sampled_from(PARTS), max_size=20).map("".join))
def test_any_text_is_read_without_an_error(text: str) -> None:
    """No text makes the reader fail, and reading twice gives the same."""
    assert read_verdict(text) == read_verdict(text)
    assert read_verdict(text).winner in (None, *Slot)


def test_a_megabyte_is_read_within_a_second() -> None:
    """A text of a megabyte, ordinary or hostile, takes less than a second."""
    for text, slot in (
        ("word " * 200_000 + "\n" + OBJECT, B), ("word " * 200_000 + "\nWinner: A", A),
        ("{" * MEGABYTE, None), ("{\n" * MEGABYTE, None), ('{"winner": ' + "[" * 100_000, None),
        ('{"winner": ' * 90_000, None), ('{"a": "' + "x" * MEGABYTE, None), ("\n" * MEGABYTE, None),
        ("*" * MEGABYTE, None), ("[[A " * 200_000, None),
        ("x" * MEGABYTE + "\nwinner:" + " " * 190_000, None),
    ):  # fmt: skip
        start = process_time()
        winner = read_verdict(text).winner
        assert process_time() - start < 1.0
        assert winner is slot
