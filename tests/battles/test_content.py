"""Conversations, tool transcripts and pictures: read from every form, and carried unchanged."""

import base64
import hashlib
import json
import pickle
import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from PIL import Image

from arena_kit import DataError
from arena_kit.battles import content
from arena_kit.battles.content import (
    Conversation,
    Message,
    Part,
    PictureFiles,
    data_url,
    made_content,
    picture_bytes,
)
from arena_kit.battles.log import BattleLog
from arena_kit.battles.read import read_battle_texts, style_of
from arena_kit.battles.write import write_battles
from arena_kit.files import write_jsonl
from arena_kit.judging.pairs.answer_logs import Collection
from arena_kit.judging.pairs.prompts import Prompt, Response, read_prompts, read_responses
from tests.samples import battle, picture


def drawn(form: str = "PNG", size: tuple[int, int] = (60, 40), **saved: Any) -> bytes:
    return picture(*size, form=form, **saved)


def url(content: bytes, media: str = "image/png") -> str:
    return f"data:{media};base64,{base64.b64encode(content).decode()}"


CALL = {"id": "c1", "function": {"name": "look", "arguments": '{"q": 1}'}}
CHAT = [
    {"role": "assistant", "content": "Wait.", "reasoning_content": "hm", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "42"},
    {"role": "assistant", "content": "It is 42."},
    {"role": "user", "content": [{"type": "text", "text": "And"},
                                 {"type": "image_url", "image_url": {"url": url(drawn())}}]},
    {"role": "assistant", "content": "Red."},
]  # fmt: skip
OWN = made_content(CHAT, PictureFiles(Path("x")), response=True)
SOURCE = {"type": "base64", "media_type": "image/png", "data": url(drawn()).partition(",")[2]}
FORMS: dict[str, list[dict[str, Any]]] = {
    "messages API": [
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Wait."},
            {"type": "tool_use", "id": "t", "name": "look", "input": {"q": 1}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t",
             "content": [{"type": "text", "text": "42"}]}]},
        {"role": "assistant", "content": [{"type": "text", "text": "It is 42."}]},
        {"role": "user", "content": [{"type": "text", "text": "And"},
                                     {"type": "image", "source": SOURCE}]},
        {"role": "assistant", "content": "Red."},
    ],
    "Inspect": [
        {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "hm"},
                                          {"type": "text", "text": "Wait."}],
         "tool_calls": [{"id": "c", "function": "look", "arguments": {"q": 1}}]},
        {"role": "tool", "tool_call_id": "c", "content": "42"},
        {"role": "assistant", "content": "It is 42."},
        {"role": "user", "content": [{"type": "text", "text": "And"},
                                     {"type": "image", "image": url(drawn())}]},
        {"role": "assistant", "content": "Red."},
    ],
    "our own": OWN.as_json() if isinstance(OWN, Conversation) else [],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_messages_is_read_alike(form: str, tmp_path: Path) -> None:
    """Reasoning, text, the tool's call with its result, and the picture by its pixels."""
    content.write_pictures(tmp_path, [OWN])
    read = made_content(FORMS[form], PictureFiles(tmp_path / "x"), response=True)
    assert read.messages == OWN.messages
    first, second = read.messages[:2]
    assert [part.kind for part in first.parts] == ["reasoning", "text", "tool_call"]
    assert first.parts[2] == Part("tool_call", '{"q": 1}', "look", "42")
    assert second == Message("assistant", (Part("text", "It is 42."),))
    assert (content.turns_of(read), content.spoken(read)) == (2, "Wait.\n\nIt is 42.\n\nRed.")
    assert style_of(read)[-3:] == (2, 1, 1)
    assert "hm" not in content.without_reasoning(read)
    assert pickle.loads(pickle.dumps(read)).messages == OWN.messages


def test_wrong_messages_are_named_with_file_and_line(tmp_path: Path) -> None:
    """One text is that text, however written; what is wrong is told with file and line."""
    for rows, response, words in (
        ([{"role": "assistant", "content": "Hi"}], False, "a prompt ends with user, not with as"),
        ([{"role": "user", "content": "Hi"}], True, "a response goes from assistant to assistant"),
        ([CHAT[2], {"role": "system", "content": "x"}], True, "a system message may only come fir"),
        ([CHAT[1]], True, "a tool result without its call"),
        ([{"role": "judge", "content": "x"}], True, "unknown role 'judge'; allowed"),
        ([{"role": "user", "content": [{"type": "audio"}]}], False, "type 'audio' cannot be read"),
        ([{"role": "user", "content": [3]}], False, "a form that cannot be read"),
        ("text", False, "a conversation is a list of messages"),
        ([CHAT[0], CHAT[1] | {"content": "x" * 5_000_000}, CHAT[2]], True,
         "a tool result has 5,000,000 characters; allowed: at most 2,000,000"),
    ):  # fmt: skip
        cell = {"entrant_id": "a"} if response else {"source": "s"}
        file = tmp_path / "responses_a.jsonl" if response else tmp_path / "prompts.jsonl"
        fine = {"text": "Why?", "response_text": "So.", "prompt_id": "q1"} | cell
        write_jsonl(file, [fine, {"prompt_id": "q2", "messages": rows} | cell])
        with pytest.raises(DataError, match=rf"{file.name}:2: .*{words}"):
            read_responses(tmp_path, ["a"], ["q1", "q2"]) if response else read_prompts(file)
    talk = [{"from": "human", "value": "Hi"}]
    assert type(made_content(talk, content.Pictures(), response=False)) is str
    assert made_content(talk, content.Pictures(), response=False) == "Hi"
    assert content.without_reasoning("<think>so\nso</think>\nYes.") == "Yes."


EXIF = Image.Exif()
EXIF[0x010E] = "secret-model"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><title>secret</title>{}</svg>'


@pytest.mark.parametrize(
    ("content", "suffix"),
    [
        (drawn("JPEG", exif=EXIF, comment=b"secret"), "jpg"), (drawn("WEBP", exif=EXIF), "png"),
        (drawn("PNG", exif=b"Exif\0\0secret"), "png"),
        (SVG.format("<!--secret--><g/>").encode(), "svg"),
    ],
)  # fmt: skip
def test_pictures_keep_pixels_and_nothing_else(content: bytes, suffix: str, tmp_path: Path) -> None:
    """Neither EXIF nor comments nor the file's name go on; the name is the hash."""
    (tmp_path / "secret-model.bin").write_bytes(content)
    pictures = PictureFiles(tmp_path / "log.jsonl")
    name = pictures("secret-model.bin")
    kept = picture_bytes(name, pictures[name])
    assert name.endswith(f".{suffix}")
    assert b"secret" not in kept + name.encode()
    assert b"Exif" not in kept
    if suffix != "svg":
        shown, given_pixels = (Image.open(BytesIO(each)).convert("RGB") for each in (kept, content))
        difference = np.asarray(shown, int) - np.asarray(given_pixels, int)
        assert np.abs(difference).max() <= (0 if suffix == "png" else 3)


_HEADER = b"IHDR" + struct.pack(">II", 20_000, 10_000) + b"\x08\x02\0\0\0"
HUGE = drawn()[:12] + _HEADER + struct.pack(">I", zlib.crc32(_HEADER)) + drawn()[33:]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "'p' is missing in"),
        (b"not a picture", r"is not a whole PNG, JPEG, WebP or SVG"),
        (drawn()[:60], r"is not a whole PNG, JPEG, WebP or SVG"),
        (drawn("GIF"), r"is not a whole PNG, JPEG, WebP or SVG"),
        (HUGE, "has over 50,000,000 pixels"),
        (SVG.format("<script>alert(1)</script>").encode(), r"an SVG with <script>, which is not"),
        (SVG.format('<rect onclick="x()"/>').encode(), "an SVG with onclick"),
        (SVG.format('<use href="http://a.example/#x"/>').encode(), "an SVG with href"),
        (SVG.format('<rect fill="url(http://a.example/)"/>').encode(), "to another file"),
        (b"<!DOCTYPE svg [<!ENTITY x 'y'>]>" + SVG.format("").encode(), "a document type"),
        (b"<svg", "is not a whole SVG"),
    ],
)  # fmt: skip
def test_wrong_pictures_are_one_sentence(content: bytes | None, words: str, tmp_path: Path) -> None:
    """Missing, damaged, of 200 megapixels, or an SVG that does more than draw."""
    if content is not None:
        (tmp_path / "p").write_bytes(content)
    with pytest.raises(DataError, match=words):
        PictureFiles(tmp_path / "log.jsonl")("p")


def test_our_own_files_name_pictures_by_their_hash(tmp_path: Path) -> None:
    """Other names, lost and changed files are told apart; nothing is fetched from elsewhere."""
    file = tmp_path / "prompts.jsonl"
    asked = [{"role": "user", "content": [{"type": "image", "image": "cat.png"}]}]
    write_jsonl(file, [{"prompt_id": "q1", "source": "s", "messages": asked}])
    with pytest.raises(DataError, match=r"prompts\.jsonl:1: .*not named by its SHA-256; arena-kit"):
        read_prompts(file)
    store = PictureFiles(file)
    name = store(url(drawn()))
    asked[0]["content"] = [{"type": "image", "image": name}]
    write_jsonl(file, [{"prompt_id": "q1", "source": "s", "messages": asked}])
    with pytest.raises(DataError, match=rf"prompts\.jsonl:1: picture {name} is missing"):
        read_prompts(file)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / name).write_bytes(drawn("PNG", (9, 9)))
    (prompt,) = read_prompts(file)
    loud = drawn("JPEG", exif=EXIF)
    by_hand = tmp_path / "images" / f"{hashlib.sha256(loud).hexdigest()}.jpg"
    by_hand.write_bytes(loud)
    assert b"secret" not in base64.b64decode(data_url(by_hand.name, by_hand).partition(",")[2])
    vector = SVG.format("<script/>").encode()
    hostile = tmp_path / "images" / f"{hashlib.sha256(vector).hexdigest()}.svg"
    hostile.write_bytes(vector)
    with pytest.raises(DataError, match="an SVG with <script>"):
        PictureFiles(file, named_only=True)(hostile.name)
    with pytest.raises(DataError, match=rf"{name}: changed since it was named"):
        picture_bytes(name, prompt.text.pictures[name])
    for reference in ("http://a.example/x.png", "../x.png", "/etc/x.png"):
        with pytest.raises(DataError, match=r"not fetched|is missing in"):
            PictureFiles(tmp_path / "log.jsonl")(reference)


def test_pictures_are_scaled_to_what_judges_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest edge is the setting, a token 28 pixels square; bytes are scaled to fit."""
    for size, edge, sent, tokens in (
        ((300, 200), 1568, (300, 200), 11 * 8), ((3136, 1568), 1568, (1568, 784), 56 * 28),
        ((300, 200), 0, (300, 200), 11 * 8),
    ):  # fmt: skip
        picture = drawn("PNG", size)
        name = f"{hashlib.sha256(picture).hexdigest()}.png"
        media, shown = content.scaled(name, picture, edge)
        assert (media, Image.open(BytesIO(shown)).size) == ("image/png", sent)
        assert content.picture_tokens(picture, edge) == tokens
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)
    Image.fromarray(noise).save(out := BytesIO(), "PNG")
    name = f"{hashlib.sha256(out.getvalue()).hexdigest()}.png"
    monkeypatch.setattr(content, "_MOST_SENT", 100_000)
    _, shown = content.scaled(name, out.getvalue(), 400)
    assert len(shown) <= 100_000
    with pytest.raises(DataError, match=r"judges take 100,000 bytes and edges .*: set image_edge"):
        content.scaled(name, out.getvalue(), 0)


# Import, record, reader and export

STORE = PictureFiles(Path("x"))
NAMES = [STORE(url(drawn("PNG", (n, n)))) for n in (3, 5)]
TEXTS = st.text(max_size=30) | st.sampled_from(
    ['{"messages": [', '{"messages": []}', '{"conversation": {}}', "[turn 1: user 0]", "<think>"]
)
PARTS = st.one_of(
    st.sampled_from(["text", "reasoning"]).flatmap(lambda kind: TEXTS.map(lambda t: Part(kind, t))),
    st.sampled_from(NAMES).map(lambda name: Part("image", name=name)),
    st.tuples(TEXTS, st.text("abc", min_size=1), st.none() | TEXTS).map(
        lambda call: Part("tool_call", *call)
    ),
)
SAID = st.lists(PARTS, min_size=1, max_size=4).map(tuple)


def messages(*roles: str) -> st.SearchStrategy[list[Message]]:
    return st.tuples(*(st.builds(Message, st.just(role), SAID) for role in roles)).map(list)


ASKED = messages("user") | messages("system", "user") | messages("user", "assistant", "user")
SAID_BACK = messages("assistant") | messages("assistant", "assistant", "user", "assistant")
CONTENTS = st.tuples(
    TEXTS | ASKED.map(lambda each: content.simplified(each, STORE)),
    TEXTS | SAID_BACK.map(lambda each: content.simplified(each, STORE)),
    TEXTS | SAID_BACK.map(lambda each: content.simplified(each, STORE)),
).filter(lambda texts: all(map(str.strip, texts)))


@settings(max_examples=12, deadline=None, phases=[Phase.generate])
@given(texts=CONTENTS, kind=st.sampled_from(["jsonl", "csv", "parquet"]))
def test_conversations_survive_files_unchanged(
    texts: tuple[str, str, str], kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In the files of a tournament and in those of battles, the pictures beside them."""
    folder = tmp_path_factory.mktemp("kept")
    prompt = Prompt(prompt_id="q", text=texts[0], source="s")
    responses = [
        Response(entrant_id=e, prompt_id="q", response_text=t)
        for e, t in zip("ab", texts[1:], strict=True)
    ]
    Collection(prompts=(prompt,), responses=(*responses,), scores=(), left_out={}).write(folder)
    (again,) = read_prompts(folder / "prompts.jsonl")
    back = read_responses(folder / "responses", ["a", "b"], ["q"]).values()
    out = folder / f"battles.{kind}"
    log = BattleLog.from_battles([battle("a", "b", "model_a", "q")])
    names = ("prompt", "response_a", "response_b")
    write_battles(out, log, {n: np.array([t], object) for n, t in zip(names, texts, strict=True)})
    kept = read_battle_texts(out)[1]
    read = [again.text, *(each.response_text for each in back)]
    for before, after in zip(
        [*texts, *texts], [*read, *(getattr(kept, n)[0] for n in names)], strict=True
    ):
        assert (type(after), after) == (type(before), before)
        for part in before.parts("image") if isinstance(before, Conversation) else ():
            assert picture_bytes(part.name, after.pictures[part.name]) == STORE[part.name]


@settings(max_examples=40, deadline=None)
@given(parts=st.lists(PARTS, min_size=2, max_size=5).map(tuple))
def test_no_part_contains_a_delimiter(parts: tuple[Part, ...]) -> None:
    """What ends a part holds a hash of all parts, so a part that copies one changes it."""
    first = Conversation([Message("assistant", parts)])
    copied = (Part("text", first), *parts[1:])
    second = Conversation([Message("assistant", copied)])
    mark = str(second).partition("]")[0].rpartition(" ")[2]
    assert mark not in json.dumps(second.as_json())
    assert str(second).count(mark) == len(copied) + sum(p.result is not None for p in copied)
