"""What a prompt or a response is made of: a text or, where there is more, a conversation.

A plain text is a `str`. A `Conversation` is one too, so whatever carries texts carries it: its
characters are a transcript whose delimiters hold a hash of all its parts, so that no part can
contain one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from itertools import zip_longest
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree as ET

from arena_kit.files import DataError, whole_file

if TYPE_CHECKING:
    from PIL import Image


Kind = Literal["text", "reasoning", "image", "tool_call"]
_ROLES = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "model", "bot", "chatgpt"), "assistant"),
    **dict.fromkeys(("tool", "function", "observation"), "tool"),
}
_THINK = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)\s*", re.DOTALL | re.IGNORECASE)
_TOOL_NAME = re.compile(r"[^\[\]\n\r]{1,200}")
MAX_RESULT = 2_000_000
#: How cells of a table that hold more than a text begin: ours, and others' to be split.
_OWN, _OTHERS = '{"messages":', '{"conversation":'


class Pictures(dict[str, Path | bytes]):
    """The pictures of a conversation by name: files, or bytes. Called with what a message refers
    to, a path or a data URL, it keeps the picture and returns its name; this one reads none.
    """

    def __call__(self, reference: str) -> str:
        return reference


class Part(NamedTuple):
    """A piece of a message. `name` is the file of an image or the name of a tool, whose arguments
    are the `text`, and whose `result` is None where none came back.
    """

    kind: Kind
    text: str = ""
    name: str = ""
    result: str | None = None

    def as_json(self) -> dict[str, object]:
        """The part as files hold it."""
        if self.kind == "image":
            return {"type": "image", "image": self.name}
        if self.kind == "tool_call":
            result = {} if self.result is None else {"result": self.result}
            return {"type": self.kind, "name": self.name, "arguments": self.text, **result}
        return {"type": self.kind, "text": self.text}


class Message(NamedTuple):
    """What one side says at a time; the role is `system`, `user` or `assistant`."""

    role: str
    parts: tuple[Part, ...]

    def as_json(self) -> dict[str, object]:
        """The message as files hold it; a content that is one text is that text."""
        plain = len(self.parts) == 1 and self.parts[0].kind == "text"
        content = self.parts[0].text if plain else [part.as_json() for part in self.parts]
        return {"role": self.role, "content": content}


class Conversation(str):
    """Messages, as a text: its characters are the transcript."""

    messages: tuple[Message, ...]
    pictures: Pictures

    def __new__(cls, messages: Iterable[Message], pictures: Pictures | None = None) -> Self:
        rows = tuple(messages)
        whole = json.dumps([each.as_json() for each in rows])
        mark = hashlib.sha256(whole.encode()).hexdigest()[:24]
        self = super().__new__(cls, transcript(rows, mark))
        self.messages, self.pictures = rows, pictures or Pictures()
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Conversation, (self.messages, self.pictures)

    def as_json(self) -> list[dict[str, object]]:
        """The messages as files hold them."""
        return [message.as_json() for message in self.messages]

    def parts(self, kind: Kind) -> list[Part]:
        """All parts of one kind."""
        return [part for message in self.messages for part in message.parts if part.kind == kind]


def numbered(messages: Sequence[Message]) -> Iterator[tuple[int, Message]]:
    """Each message with its turn; one that the user writes begins the next."""
    turn = int(messages[0].role == "assistant")
    for message in messages:
        turn += message.role == "user"
        yield max(1, turn), message


def transcript(
    messages: Sequence[Message], mark: str, shown: Callable[[str], str] = lambda text: text
) -> str:
    """All parts in order, each after a line in brackets that says what it is and ends in the mark;
    texts as `shown`.
    """
    lines, images = [], 0
    for turn, message in numbered(messages):
        for part in message.parts:
            said, what = shown(part.text), message.role
            if part.kind == "image":
                images += 1
                said, what = "", f"image {images}"
            elif part.kind == "tool_call":
                what = f"tool call {shown(part.name)}"
            elif part.kind == "reasoning":
                what = f"{message.role}'s reasoning"
            lines += [f"[turn {turn}: {what} {mark}]", said]
            if part.result is not None:
                lines += [f"[turn {turn}: tool result {mark}]", shown(part.result)]
    return "\n".join(lines)


def simplified(messages: Iterable[Message], pictures: Pictures | None = None) -> str:
    """A conversation, or its text where it is one message that is one text."""
    rows = tuple(messages)
    if len(rows) == 1 and rows[0].role != "system" and [p.kind for p in rows[0].parts] == ["text"]:
        return rows[0].parts[0].text
    return Conversation(rows, pictures)


def turns_of(text: str) -> int:
    """How often the user wrote and the assistant answered."""
    rows = text.messages if isinstance(text, Conversation) else ()
    return max((turn for turn, _ in numbered(rows)), default=1) if rows else 1


def until(text: str, turn: int) -> str:
    """A conversation up to a turn, all of it for 0; a plain text is its first turn."""
    if not isinstance(text, Conversation):
        return text
    kept = (each for n, each in numbered(text.messages) if not turn or n <= turn)
    return simplified(kept, text.pictures)


def spoken(text: str) -> str:
    """What the assistant wrote, all turns together; of a plain text all of it."""
    if not isinstance(text, Conversation):
        return text
    said = (m.parts for m in text.messages if m.role == "assistant")
    return "\n\n".join(part.text for parts in said for part in parts if part.kind == "text")


def has_reasoning(text: str) -> bool:
    """Whether a text holds reasoning: a part of it, or what stands between think tags."""
    return without_reasoning(text) != text


def without_reasoning(text: str) -> str:
    """A text without the reasoning that it holds."""
    if not isinstance(text, Conversation):
        return _THINK.sub("", text) if "<think" in text.lower() else text
    kept = []
    for message in text.messages:
        parts = (part for part in message.parts if part.kind != "reasoning")
        bare = (p._replace(text=_THINK.sub("", p.text)) if p.kind == "text" else p for p in parts)
        kept.append(message._replace(parts=tuple(bare)))
    return simplified(kept, text.pictures)


# Reading and writing


def read_messages(rows: Any, store: Pictures) -> tuple[Message, ...]:
    """Messages in one of the forms that tools write: chat completions, the Messages API, Inspect,
    ShareGPT, and our own. A tool's result stands with its call.
    """
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"a conversation is a list of messages, not {str(rows)[:40]!r}")
    reader = _Reader(store)
    try:
        for row in rows:
            reader.read(row)
    except (AttributeError, TypeError) as error:
        raise DataError(f"a message in a form that cannot be read ({error})") from None
    return tuple(Message(role, tuple(parts)) for role, parts in reader.messages)


def _role(row: Mapping[str, Any]) -> str:
    """Who speaks in a message, by our name; empty where that is unknown."""
    return _ROLES.get(str(row.get("role", row.get("from"))).lower(), "")


class _Reader:
    """Messages as they are read; `calls` says in which parts, and where, each id's call stands."""

    def __init__(self, store: Pictures) -> None:
        self.store = store
        self.messages: list[tuple[str, list[Part]]] = []
        self.calls: dict[str, tuple[list[Part], int]] = {}

    def read(self, row: Mapping[str, Any]) -> None:
        role = _role(row)
        content = row.get("content", row.get("value"))
        listed = content if isinstance(content, list) else [content]
        if not role:
            named, allowed = str(row.get("role"))[:40], ", ".join({*_ROLES.values()})
            raise DataError(f"unknown role {named!r}; allowed: {allowed}")
        if role == "tool":
            self._result(row.get("tool_call_id"), listed)
            return
        if role == "system" and any(said != role for said, _ in self.messages):
            raise DataError("a role out of order: a system message may only come first")
        parts: list[Part] = []
        thought = row.get("reasoning_content") or row.get("reasoning")
        for part in [{"type": "reasoning", "text": thought}] * bool(thought) + listed:
            self._part(parts, part)
        for call in row.get("tool_calls") or []:
            function = call.get("function")
            self._call(parts, function if isinstance(function, dict) else call, call.get("id"))
        results = any(isinstance(p, dict) and p.get("type") == "tool_result" for p in listed)
        if parts or not results:
            self.messages.append((role, parts or [Part("text")]))

    def _part(self, parts: list[Part], part: Any) -> None:
        given = {"text": part or ""} if isinstance(part, str | None) else part
        kind = given.get("type") or "text"
        named = (given.get(name) for name in ("text", "answer", kind))
        text = next((each for each in named if isinstance(each, str)), None)
        if part is None:
            return
        if kind in ("reasoning", "thinking"):
            parts.append(Part("reasoning", text or ""))
        elif kind.endswith("text") and text is not None:
            parts.append(Part("text", text))
        elif kind in ("image", "image_url", "input_image"):
            parts.append(Part("image", name=self.store(_reference(given))))
        elif kind in ("tool_call", "tool_use"):
            self._call(parts, given, given.get("id"))
        elif kind == "tool_result":
            self._result(given.get("tool_use_id"), given.get("content"))
        else:
            raise DataError(f"a part of type {str(kind)[:40]!r} cannot be read")

    def _call(self, parts: list[Part], call: Mapping[str, Any], call_id: Any) -> None:
        name = call.get("name", call.get("function"))
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            raise DataError(f"{str(name)[:40]!r} is no name of a tool")
        given = call.get("arguments", call.get("input"))
        arguments = given if isinstance(given, str) else json.dumps(given or {})
        result = None if call.get("result") is None else _bounded(str(call["result"]))
        self.calls[str(call_id)] = parts, len(parts)
        parts.append(Part("tool_call", arguments, name, result))

    def _result(self, call_id: Any, content: Any) -> None:
        parts, n = self.calls.pop(str(call_id), ([], 0))
        if not parts:
            raise DataError(f"a role out of order: a tool result without its call ({call_id})")
        inner: list[Part] = []
        for part in content if isinstance(content, list) else [content]:
            self._part(inner, part)
        text = "\n".join(part.text for part in inner if part.kind == "text")
        parts[n] = parts[n]._replace(result=_bounded(text))
        parts += [part for part in inner if part.kind == "image"]


def _reference(part: Mapping[str, Any]) -> str:
    """What an image part refers to: a path, an address or a data URL."""
    source = part.get("source") or part.get("image_url") or part.get("image") or ""
    if not isinstance(source, dict):
        return str(source)
    return str(source.get("url") or f"data:{source.get('media_type')};base64,{source.get('data')}")


def _bounded(text: str) -> str:
    if len(text) > MAX_RESULT:
        n = f"{len(text):,}"
        raise DataError(f"a tool result has {n} characters; allowed: at most {MAX_RESULT:,}")
    return text


def divided(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The prompt and the response: what stands before the first answer, and the rest."""
    at = next((n for n, each in enumerate(messages) if each.role == "assistant"), len(messages))
    return tuple(messages[:at]), tuple(messages[at:])


def check_order(messages: Sequence[Message], *, response: bool) -> None:
    """Raise where a prompt does not end with the user, or a response does not begin and end with
    the assistant.
    """
    roles = [message.role for message in messages] or ["nobody"]
    if response and not roles[0] == roles[-1] == "assistant":
        why = f"a response goes from assistant to assistant, not from {roles[0]} to {roles[-1]}"
        raise DataError(f"a role out of order: {why}")
    if not response and roles[-1] != "user":
        raise DataError(f"a role out of order: a prompt ends with user, not with {roles[-1]}")


def made_content(rows: Any, store: Pictures, *, response: bool) -> str:
    """A prompt or a response out of its messages."""
    messages = read_messages(rows, store)
    check_order(messages, response=response)
    return simplified(messages, store)


def cell_of(text: str | None) -> str | None:
    """A text as a cell of a table; a conversation is JSON there, and so is a text that begins like
    it.
    """
    if isinstance(text, Conversation):
        return json.dumps({"messages": text.as_json()}, ensure_ascii=False)
    if text is not None and text.startswith((_OWN, _OTHERS)):
        return json.dumps({"messages": [{"role": "assistant", "content": text}]})
    return text


def read_cell(cell: str | None, store: Pictures, *, response: bool) -> str | None:
    """The text of a cell; a whole conversation, which others' files hold, is divided."""
    if cell is None or not cell.startswith((_OWN, _OTHERS)):
        return cell
    try:
        whole = json.loads(cell)
    except ValueError:
        return cell
    if "messages" in whole:
        return simplified(read_messages(whole["messages"], store), store)
    said = whole["conversation"]
    if "history" in said:
        return simplified(read_messages(_ancestors(said["history"], said["id"]), store), store)
    rows = _interleaved(said) if isinstance(said, dict) else said
    first = next((n for n, row in enumerate(rows) if _role(row) == "assistant"), len(rows))
    chosen = rows[first:] if response else rows[:first]
    if not chosen:
        return None
    text = simplified(read_messages(chosen, store), store)
    return until(text, whole.get("turns") or 0)


def _interleaved(said: Mapping[str, list[str | None]]) -> list[dict[str, str]]:
    """Lists of what the user and the assistant wrote, as messages by turns."""
    turns = zip_longest(said["user"], said["assistant"])
    by_role = (zip(("user", "assistant"), turn, strict=True) for turn in turns)
    return [{"role": role, "content": text or ""} for turn in by_role for role, text in turn]


def _ancestors(history: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A message of Open WebUI's tree and what was said before it, with the files of each."""
    chain: list[dict[str, Any]] = []
    while name in history and len(chain) < len(history):
        node = history[name]
        files = [{"type": "image", "image": file.get("url")} for file in node.get("files") or ()]
        text = {"type": "text", "text": node.get("content") or ""}
        chain.insert(0, {"role": node.get("role"), "content": [text, *files]})
        name = node.get("parentId")
    return chain


FOLDER = "images"
MEDIA_TYPES = {"png": "image/png", "jpg": "image/jpeg", "svg": "image/svg+xml"}
#: Decoding takes four bytes a pixel.
MAX_PIXELS = 50_000_000
MAX_BYTES = 30_000_000
_NAME = re.compile(r"[0-9a-f]{64}\.(?:png|jpg|svg)")
NAMES = re.compile(_NAME.pattern.encode())
#: A picture costs a token for each square of so many pixels (platform.claude.com, vision, 2026).
_PATCH = 28
#: The most bytes (5 MB in base64) and pixels of an edge that services take of a picture.
_MOST_SENT, _MOST_EDGE = 3_900_000, 8000
#: The longest edge of a picture on a page, in pixels.
_SHOWN_EDGE = 1568
_SVG = "{http://www.w3.org/2000/svg}"
#: Elements of SVG that draw; none of them runs, embeds or fetches anything.
_DRAWN = {
    f"{_SVG}{name}" for name in (
        "svg g path rect circle ellipse line polyline polygon text tspan defs use linearGradient "
        "radialGradient stop clipPath mask pattern symbol marker title desc metadata style"
    ).split()
}  # fmt: skip
_UNDRAWN = {f"{_SVG}{name}" for name in ("title", "desc", "metadata")}


class PictureFiles(Pictures):
    """Pictures beside a file: those that it names by hash lie in `images/` there, or one folder
    up; others, by a path or a data URL, are read and made safe unless `named_only`.
    """

    def __init__(self, file: Path, *, named_only: bool = False) -> None:
        super().__init__()
        self.beside, self.named_only = file.parent, named_only

    def __call__(self, reference: str) -> str:
        if _NAME.fullmatch(reference):
            self[reference] = self._kept(reference)
            return reference
        if self.named_only:
            why = "not named by its SHA-256; arena-kit import does that"
            raise DataError(f"picture {reference[:60]!r} is {why}")
        name, content = _made_safe(_content(reference, self.beside), reference[:60])
        self[name] = content
        return name

    def _kept(self, name: str) -> Path:
        places = [self.beside / FOLDER / name, self.beside.parent / FOLDER / name]
        for path in places:
            if path.is_file():
                if name.endswith(".svg"):
                    _safe_svg(path.read_bytes(), name)
                else:
                    _opened(path, name).close()
                return path
        raise DataError(f"picture {name} is missing; expected it in {places[0].parent}")


def write_pictures(folder: Path, texts: Iterable[str | None]) -> None:
    """Write the pictures of conversations to `images/` of a folder."""
    for text in texts:
        for name, source in text.pictures.items() if isinstance(text, Conversation) else ():
            with whole_file(folder / FOLDER / name) as part:
                part.write_bytes(picture_bytes(name, source))


def picture_bytes(name: str, source: Path | bytes) -> bytes:
    """What a picture's file holds, if that has the hash of its name."""
    content = source if isinstance(source, bytes) else source.read_bytes()
    if hashlib.sha256(content).hexdigest() != name.partition(".")[0]:
        where = source if isinstance(source, Path) else name
        raise DataError(f"{where}: changed since it was named")
    return content


@lru_cache(maxsize=128)
def data_url(name: str, source: Path | bytes) -> str:
    """A picture for people as an address that holds it, with neither metadata nor its file's name;
    a large one is scaled.
    """
    clean, content = _made_safe(picture_bytes(name, source), name)
    if not clean.endswith(".svg"):
        content = scaled(clean, content, _SHOWN_EDGE)[1]
    return f"data:{MEDIA_TYPES[clean[65:]]};base64,{base64.b64encode(content).decode()}"


@lru_cache(maxsize=128)
def scaled(name: str, source: Path | bytes, edge: int) -> tuple[str, bytes]:
    """The media type and the content of a picture for a judge, none of its edges longer than
    `edge` pixels; 0 leaves it as it is.
    """
    content, limit = picture_bytes(name, source), edge
    with _opened(BytesIO(content), name) as image:
        if not edge and (max(image.size) > _MOST_EDGE or len(content) > _MOST_SENT):
            size = f"{len(content):,} bytes and {image.width} × {image.height} pixels"
            allowed = f"{_MOST_SENT:,} bytes and edges of {_MOST_EDGE} pixels"
            raise DataError(f"picture {name} has {size}; judges take {allowed}: set image_edge")
        while edge and (max(image.size) > edge or len(content) > _MOST_SENT):
            image.thumbnail((limit, limit))
            content, limit = _encoded(image, name[65:]), limit * 3 // 4
    return MEDIA_TYPES[name[65:]], content


@lru_cache(maxsize=100_000)
def picture_tokens(source: Path | bytes, edge: int) -> int:
    """What a picture costs in tokens at most, as `scaled`."""
    with _opened(BytesIO(source) if isinstance(source, bytes) else source, "") as image:
        factor = min(1.0, edge / max(image.size)) if edge else 1.0
        width, height = (ceil(ceil(side * factor) / _PATCH) for side in image.size)
    return width * height


def _content(reference: str, folder: Path) -> bytes:
    """What a path or a data URL refers to; nothing is fetched."""
    what = f"picture {reference[:60]!r}"
    if reference.startswith("data:"):
        head, _, data = reference.partition(",")
        try:
            return base64.b64decode(data) if head.endswith(";base64") else unquote_to_bytes(data)
        except binascii.Error:
            raise DataError(f"{what} is not a whole data URL") from None
    if re.match(r"\w+://", reference):
        raise DataError(f"{what} is an address, which is not fetched; save it as a file")
    path = (folder / reference).resolve()
    if not path.is_relative_to(folder.resolve()) or not path.is_file():
        raise DataError(f"{what} is missing in {folder}")
    if path.stat().st_size > MAX_BYTES:
        raise DataError(f"{what} has over {MAX_BYTES:,} bytes")
    return path.read_bytes()


def _made_safe(content: bytes, what: str) -> tuple[str, bytes]:
    """A picture without metadata, and its name."""
    vector = content[:1000].lstrip().startswith(b"<") and b"<svg" in content[:10_000].lower()
    suffix, clean = ("svg", _safe_svg(content, what)) if vector else _safe_image(content, what)
    return f"{hashlib.sha256(clean).hexdigest()}.{suffix}", clean


def _safe_image(content: bytes, what: str) -> tuple[str, bytes]:
    """Pixels decoded and encoded again: JPEG stays JPEG, all else becomes PNG."""
    from PIL import ImageOps

    with _opened(BytesIO(content), what) as image:
        suffix = "jpg" if image.format == "JPEG" else "png"
        try:
            image.load()
        except Exception as error:  # of a decoder that is given any bytes
            raise _damaged(what, error) from None
        with suppress(Exception):  # orientation in damaged EXIF
            ImageOps.exif_transpose(image, in_place=True)
        return suffix, _encoded(image, suffix)


def _opened(source: Path | BytesIO, what: str) -> Image.Image:
    """A picture whose header was read: its kind, and that it is not too large."""
    from PIL import Image

    try:
        image = Image.open(source, formats=("PNG", "JPEG", "WEBP"))
    except Image.DecompressionBombError:
        raise DataError(f"picture {what!r} has over {MAX_PIXELS:,} pixels") from None
    except Exception as error:  # of a decoder that is given any bytes
        raise _damaged(what, error) from None
    if image.width * image.height > MAX_PIXELS:
        raise DataError(f"picture {what!r} has over {MAX_PIXELS:,} pixels")
    return image


def _damaged(what: str, error: Exception) -> DataError:
    why = f"not a whole PNG, JPEG, WebP or SVG ({type(error).__name__})"
    return DataError(f"picture {what!r} is {why}")


def _encoded(image: Image.Image, suffix: str) -> bytes:
    """The pixels of an image alone, as a file."""
    from PIL import Image

    kind, modes = ("JPEG", ("RGB", "L")) if suffix == "jpg" else ("PNG", ("RGBA", "RGB", "LA", "L"))
    mode = image.mode if image.mode in modes else modes[0]
    bare, out = Image.new(mode, image.size), BytesIO()
    bare.paste(image.convert(mode))
    bare.save(out, kind, **({"quality": 95} if kind == "JPEG" else {}))
    return out.getvalue()


def _safe_svg(content: bytes, what: str) -> bytes:
    """An SVG that only draws, without titles, metadata and comments."""
    if b"<!" in content.replace(b"<!--", b""):
        raise DataError(f"picture {what!r} is an SVG with a document type, which is not allowed")
    try:
        root = ET.fromstring(content)  # noqa: S314 (no document type, so no entities)
    except ET.ParseError as error:
        raise DataError(f"picture {what!r} is not a whole SVG ({error})") from None
    for element in root.iter():
        if bad := next(_not_drawing(element), None):
            raise DataError(f"picture {what!r} is an SVG with {bad[:60]}, which is not allowed")
    for element in list(root.iter()):
        for child in [each for each in element if each.tag in _UNDRAWN]:
            element.remove(child)
    ET.register_namespace("", _SVG[1:-1])
    return ET.tostring(root)


def _not_drawing(element: ET.Element) -> Iterator[str]:
    """What in an element runs, embeds or refers to something else."""
    if element.tag not in _DRAWN:
        yield f"<{str(element.tag).rpartition('}')[2]}>"
    for name, value in [*element.attrib.items(), ("style", element.text or "")]:
        plain = name.rpartition("}")[2].lower()
        if plain.startswith("on") or (plain == "href" and not value.startswith("#")):
            yield plain
        if re.search(r"url\((?!\s*['\"]?#)|@import|javascript:", value, re.IGNORECASE):
            yield "a reference to another file"
