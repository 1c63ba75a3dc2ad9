"""Voting in a notebook: blind until the vote is stored, by button and by key."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arena_kit.voting.live import LiveArena
from tests.samples import HOSTILE, Elements
from tests.voting.arenas import arena_texts, leaks, live_arena

pytest.importorskip("ipywidgets", reason="the extra lab is not installed")

from arena_kit.voting.widget import VotingWidget

ACTIVE = {"script", "img", "svg", "iframe", "style", "meta", "form", "a", "input"}


def every(widget: Any) -> list[Any]:
    return [widget, *(each for child in getattr(widget, "children", ()) for each in every(child))]


def sent(widget: VotingWidget) -> str:
    return json.dumps([each.get_state() for each in every(widget.box)], default=str)


def press(widget: VotingWidget, *labels: str) -> None:
    for label in labels:
        buttons = [each for each in every(widget.box) if hasattr(each, "click")]
        [button] = [each for each in buttons if each.description.startswith(label)]
        button.click()


def test_buttons_and_keys_vote_blind(live: LiveArena) -> None:
    """Each button and key casts its choice once; names are told after it, where revealed."""
    widget = VotingWidget(live, voter="ann", goal=9)
    assert live.issue(session=widget.session, voter="ann").ticket not in sent(widget)
    for label in ("B is better", "Tie", "Both bad", "Skip"):
        assert not leaks(sent(widget))
        live.reveal = label != "Tie"
        press(widget, label, label)
        kept = live.store.votes()[-1].ticket
        said = f"A was {kept.model_a}, B was {kept.model_b}" in sent(widget)
        assert said == (label not in ("Tie", "Skip"))
        assert bool(leaks(sent(widget))) == said
        press(widget, "Next")
    [field] = [each for each in every(widget.box) if hasattr(each, "continuous_update")]
    for key in "anbntnxns":
        field.value = key
    choices = ["B", "TIE", "BOTH_BAD", "SKIP", "A", "B", "TIE", "BOTH_BAD", "SKIP"]
    votes = [(vote.voter, str(vote.choice), vote.source) for vote in live.store.votes()]
    assert votes == [("ann", choice, "lab") for choice in choices]
    assert "Votes of ann: 7 of 9" in sent(widget)
    press(widget, "Next")
    live.texts = replace(live.texts, responses=dict.fromkeys(live.texts.responses, "changed"))
    press(widget, "Tie")
    assert "Not stored: " in sent(widget)
    assert len(live.store.votes()) == 9


def test_texts_do_nothing_and_limits_are_said(tmp_path: Path) -> None:
    """Markup in texts is text; a voter who asks too fast reads why."""
    texts = arena_texts(more=" ".join(["**bold**", *HOSTILE]))
    arena = live_arena(tmp_path / "other.sqlite", texts, per_minute=1)
    widget = VotingWidget(arena, voter="ann")
    html = "".join(each.value for each in every(widget.box) if type(each).__name__ == "HTML")
    found = Elements(html)
    assert "strong" in found.tags
    assert not found.tags & ACTIVE
    assert not [name for name, _ in found.attributes if name.startswith(("on", "href", "src"))]
    press(widget, "Tie", "Next")
    assert "at most 1 matchups in a minute" in sent(widget)
    press(widget, "Tie")
    assert len(arena.store.votes()) == 1
    arena.close()
