"""What a prompt or a response is made of: a text or, where there is more, a conversation.

A plain text is a `str`. A `Conversation` is one too, so whatever carries texts carries it: its
characters are a transcript whose delimiters hold a hash of all its parts, so that no part can
contain one.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from arena_kit.files import DataError

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
