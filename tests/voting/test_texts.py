"""What voters are shown: the texts of a tournament."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from arena_kit.files import DataError
from arena_kit.voting.live import LiveArena
from arena_kit.voting.texts import ArenaTexts
from tests.samples import edited
from tests.voting.arenas import texts


def test_the_texts_of_a_tournament(workspace: Path) -> None:
    """The sample's prompts and responses are there by id, and what its file says of models."""
    of = {"aspen": "North & Co.", "elm": "North & Co."}
    edited(workspace, arena={"providers": of, "private": ["birch"], "withdrawn": ["cedar", "elm"]})
    found = ArenaTexts.of_tournament(workspace / "params" / "tournament.yaml", workspace)
    assert found.models == ("aspen", "birch", "dogwood")
    assert (found.providers, found.private, found.withdrawn) == (of, ("birch",), ("cedar", "elm"))
    prompt = next(iter(found.prompts))
    shown = found.shown(prompt, "birch", "aspen")
    assert shown == (
        found.prompts[prompt],
        found.responses["birch", prompt],
        found.responses["aspen", prompt],
    )
    assert found.shown(prompt, "cedar", "aspen") is None
    assert found.available().shape == (3, len(found.prompts))


def test_an_arena_opens_on_a_workspace(workspace: Path) -> None:
    """Tournament and policy are read from the workspace, and a matchup shows texts of it."""
    arena = LiveArena.open(workspace / "votes.sqlite", root=workspace)
    shown = arena.issue(session="s")
    assert shown.prompt in arena.texts.prompts.values()
    assert {shown.left, shown.right} <= {*arena.texts.responses.values()}
    arena.close()


def test_a_digest_depends_on_every_text_and_side() -> None:
    """Other words, other sides and another cut between two texts have another digest."""
    here, there = texts(), texts(changed="!")
    digests = {
        here.digest_now("q-0", "aspen", "birch"),
        here.digest_now("q-0", "birch", "aspen"),
        here.digest_now("q-1", "aspen", "birch"),
        there.digest_now("q-0", "aspen", "birch"),
    }
    assert len(digests) == 4
    assert here.digest != there.digest


def test_a_response_that_is_missing_is_not_shown() -> None:
    """A model without a response to a prompt is not available there."""
    whole = texts()
    some = {key: text for key, text in whole.responses.items() if key != ("birch", "q-2")}
    part = ArenaTexts(name="x", models=whole.models, prompts=whole.prompts, responses=some)
    assert np.argwhere(~part.available()).tolist() == [[1, 2]]
    assert part.shown("q-2", "aspen", "birch") is None


def test_an_arena_needs_two_models() -> None:
    """One model is refused in a sentence."""
    with pytest.raises(DataError, match="two models or more, not 1"):
        texts("aspen")
