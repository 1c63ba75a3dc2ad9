"""The page people vote in: one template and one script, for a ballot file and for the server."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import StringConstraints

from arena_kit.site.texts import plain, safe_html

if TYPE_CHECKING:
    from jinja2 import Environment

QUESTION = "Which response is better?"
#: An id or a hash as a page holds it and gives it back.
Opaque = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,128}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """One thing that a voter may say; without a `value` it is no vote."""

    value: str
    label: str
    help: str
    keys: tuple[str, ...]
    shortcut: str


_CHOICES = (
    _Choice(value="A", label="A is better", help="the response on the left, or the upper one",
            keys=("1", "←", "A"), shortcut="1 ArrowLeft A"),
    _Choice(value="B", label="B is better", help="the response on the right, or the lower one",
            keys=("2", "→", "B"), shortcut="2 ArrowRight B"),
    _Choice(value="TIE", label="Tie", help="both are equally good", keys=("T",), shortcut="T"),
    _Choice(value="BOTH_BAD", label="Both bad", help="neither is any use",
            keys=("X",), shortcut="X"),
    _Choice(value="SKIP", label="Skip", help="you cannot tell; it does not count",
            keys=("S",), shortcut="S"),
)  # fmt: skip
_BACK = _Choice(value="", label="Back", help="to the pair before, to vote otherwise",
                keys=("Z",), shortcut="Z")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page, and the content security policy that a server sends with it."""

    html: str
    policy: str


def shown_pair(ticket: str, digest: str, prompt: str, left: str, right: str) -> dict[str, str]:
    """What a voter's browser is sent of a pair; Markdown becomes safe HTML here."""
    return {
        "ticket": ticket,
        "digest": digest,
        "prompt": _rendered(prompt),
        "left": _rendered(left),
        "right": _rendered(right),
    }


@lru_cache(maxsize=4096)
def _rendered(text: str) -> str:
    return safe_html(text)


def ballot_page(
    ballot: str,
    seal: Callable[[str], str],
    pairs: Sequence[dict[str, str]],
    question: str = QUESTION,
) -> Page:
    """A page with all its pairs in it, which asks no server for anything; `seal` gives what it
    seals its votes with, by the SHA-256 of its data.
    """
    data = {"ballot": ballot, "pairs": list(pairs)}
    content = hashlib.sha256(_literal(data).encode()).hexdigest()
    choices = (*_CHOICES, _BACK)
    return _page("vote", question, data, choices=choices, ballot=True, seal=seal(content))


def live_page(question: str = QUESTION) -> Page:
    """A page that asks the server it came from for every pair."""
    return _page("vote", question, {}, choices=_CHOICES, ballot=False, seal="", connects=True)


def board_page(question: str = QUESTION) -> Page:
    """The researcher's page: ratings and coverage as votes come in."""
    return _page("board", question, {}, connects=True)


def _page(name: str, question: str, data: object, *, connects: bool = False, **values: Any) -> Page:
    from markupsafe import Markup

    script, style = _asset(f"{name}.js"), _site_style() + _asset("vote.css")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_source(script)}'",
            f"style-src '{_source(style)}'",
            *(["connect-src 'self'"] if connects else []),
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    html = _templates().get_template(f"{name}.html.j2").render(
        policy=Markup(policy),  # noqa: S704 (made above)
        question=question,
        style=Markup(style),  # noqa: S704 (our own file)
        script=Markup(script),  # noqa: S704 (our own file)
        data=Markup(_literal(data)),  # noqa: S704 (holds no <)
        **values,
    )  # fmt: skip
    return Page(html=html, policy=policy)


def _source(text: str) -> str:
    """The hash by which a content security policy lets this one inline text pass."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _literal(values: object) -> str:
    """JSON that any encoding takes and that ends no script element."""
    return json.dumps(values, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text("utf-8")


@cache
def _site_style() -> str:
    return files("arena_kit.site").joinpath("assets", "site.css").read_text("utf-8")


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    return Environment(
        loader=PackageLoader("arena_kit.voting", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else plain(value),
    )
