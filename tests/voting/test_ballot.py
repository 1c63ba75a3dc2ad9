"""Ballots: blind pages, and files that come back and count once, whole, or not at all."""

import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arena_kit.files import DataError
from arena_kit.voting.ballot import make_ballot, self_naming, signing_key, take_ballot, voter_id
from arena_kit.voting.live import LiveArena
from tests.voting import arenas
from tests.voting.arenas import KEY, MODELS, Row, arena_texts, filled, live_arena

Edit = Callable[[Row], object]
#: What somebody may do to a file, and what the refusal says.
SEAL, NOTHING = "do not fit its seal", "0" * 64
NAMES = ["format", "version", "ballot", "content", "copy", "voter", "votes", "seal"]


def made(live: LiveArena, pairs: int = 6) -> str:
    return make_ballot(live, KEY, pairs=pairs, days=30)


def test_no_page_leads_to_a_model_or_asks_anybody(live: LiveArena) -> None:
    """Pages name no model, use random ids and send no request; too many pairs are refused."""
    with pytest.raises(DataError, match=r"a ballot of 37 pairs cannot be filled: .* 36 times"):
        made(live, 37)
    assert live.board().waiting == 0
    pages = [made(live, 20) for _ in range(3)]
    assert not arenas.leaks("".join(pages))
    shown = [pair for page in pages for pair in arenas.page_data(page)[0]["pairs"]]
    assert len({pair["ticket"] for pair in shown}) == 60
    assert "default-src 'none'; script-src 'sha256-" in pages[0]
    for trace in ("question_id", "lane", "connect-src", "http://", "https://"):
        assert trace not in "".join(pages)


def test_votes_come_back_once(live: LiveArena, tmp_path: Path) -> None:
    """A file counts once, by voter; a longer one adds the rest, one that differs is kept beside."""
    html, path, choices = made(live), tmp_path / "votes.json", "A B TIE BOTH_BAD SKIP A"
    take_ballot(live, KEY, arenas.returned(path, filled(html, choices="A B TIE")))
    changed = take_ballot(live, KEY, arenas.returned(path, filled(html, choices="B B TIE")))
    assert (changed.new, changed.conflicts) == (1, 1)
    taken = take_ballot(live, KEY, arenas.returned(path, filled(html, choices=choices)))
    assert (taken.voter, taken.votes, taken.skips, taken.new) == ("ann", 5, 1, 3)
    assert take_ballot(live, KEY, path).new == 0
    stored = [(vote.voter, str(vote.choice)) for vote in live.store.votes() if not vote.removed]
    assert stored == [("ann", choice) for choice in choices.split()]
    take_ballot(live, KEY, arenas.returned(path, filled(html, voter="", copy="c3")))
    assert {voter.voter for voter in live.store.voters()} == {"ann", "c3"}


def edited(**changes: object) -> Edit:
    return lambda file: file | changes


def votes_edited(**changes: object) -> Edit:
    return lambda file: file | {"votes": [file["votes"][0] | changes, *file["votes"][1:]]}


TAMPERED: list[tuple[Edit, str]] = [
    (votes_edited(choice="B"), SEAL),
    (lambda f: f | {"votes": [*f["votes"], f["votes"][0]]}, SEAL),
    (lambda f: f | {"votes": f["votes"][1:]}, SEAL),
    *((edited(**{key: value}), SEAL) for key, value in {
        "voter": "Ben", "copy": "c9", "ballot": "b9", "content": NOTHING, "seal": NOTHING
    }.items()),
    *((edited(**{key: value}), key) for key, value in {
        "votes": [], "ballot": "'; DROP TABLE votes; --", "copy": "<script>alert(1)</script>",
        "voter": "Ann\nBen", "model": "x", "version": 2, "format": "votes",
    }.items()),
    (votes_edited(choice="C"), "choice"),
    *((votes_edited(seconds=value), "seconds") for value in ("1", -1)),
    (lambda f: [f], "expected the object that a ballot saves, got list"),
    (lambda f: json.dumps(f).replace("2.5", "NaN"), "not valid JSON"),
    (lambda f: json.dumps(f)[:300], "not valid JSON"),
    (lambda _: "[" * 100_000, "nested too deeply"),
    (lambda _: " " * 5_000_001, "over 5,000,000 bytes"),
]  # fmt: skip


def test_what_was_changed_is_refused_with_a_sentence(live: LiveArena, tmp_path: Path) -> None:
    """A tampered file, or a pipe, is refused with its name and one sentence; none is stored."""
    other = live_arena(tmp_path / "other.sqlite")
    html, foreign = made(live), filled(made(other))
    other.close()
    cases = [(edit(filled(html)), KEY, why) for edit, why in TAMPERED]
    cases += [(filled(html.replace("It is", "It may be", 1)), KEY, SEAL)]
    own = "made with another store"
    cases += [(foreign, bytes(32), own), (foreign, KEY, "never handed out")]
    for file, key, why in cases:
        path = arenas.returned(tmp_path / "votes.json", file)
        with pytest.raises(DataError) as refused:
            take_ballot(live, key, path)
        assert str(refused.value).startswith(str(path)), why
        assert why in str(refused.value)
        assert "\n" not in str(refused.value), why
    assert not live.store.votes()
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(DataError, match="is no regular file"):
        take_ballot(live, KEY, tmp_path / "pipe.json")


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=8),
    max_leaves=12,
))  # fmt: skip
def test_any_json_is_refused_in_words(live: LiveArena, tmp_path: Path, value: object) -> None:
    """No file, whatever it holds, ends in anything but a sentence."""
    with pytest.raises(DataError):
        take_ballot(live, KEY, arenas.returned(tmp_path / "votes.json", json.dumps(value)))


NAMING = {
    "I am ZEPHYRINE-9, trained to help.": True, "Ask quillback.xl instead.": True,
    "Zephyrine 9 says so.": True, "I'm Zephyrine, an assistant.": True,
    "As a model made by Acme, I cannot.": True, "I\u2019m Claude, made by Anthropic.": True,
    "As ChatGPT, I would wait.": True, "As an AI language model by OpenAI I say no.": True,
    "I am a large language model trained by Google.": True, "My name is Bard.": True,
    "obsidian_40Bx is a stone.": False, "Obsidian is a stone.": False,
    "Google Scholar lists a falcon in Nova Scotia.": False, "It is a claudication.": False,
}  # fmt: skip


def test_responses_that_name_their_maker_are_found() -> None:
    """Models, families and makers count, of the arena and well-known; other words do not."""
    texts = arena_texts(prompts=len(NAMING))
    responses = {(MODELS[0], f"q-{n}"): text for n, text in enumerate(NAMING)}
    found = {prompt for _, prompt, _ in self_naming(replace(texts, responses=responses))}
    told = {text: f"q-{n}" in found for n, text in enumerate(NAMING)}
    assert told == NAMING


def test_key_and_store_are_their_owners(live: LiveArena, tmp_path: Path) -> None:
    """Key and store are their owner's; typed names are normalised."""
    path = tmp_path / "deep" / "votes.key"
    key = signing_key(path)
    assert signing_key(path) == key != signing_key(tmp_path / "other.key")
    for file in (path, Path(live.store.address)):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    path.write_text("not a key")
    with pytest.raises(DataError):
        signing_key(path)
    for typed in ("  Ann  B. ", "ann b.", "Ann\u200d B.\u202e"):
        assert voter_id(typed) == "ann b."
    assert voter_id(" \u202e ") == ""
