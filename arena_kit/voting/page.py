"""The page people vote in: one template and one script, for a ballot file and for the server."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from arena_kit.site.texts import plain, safe_html
from arena_kit.voting.records import Shown

if TYPE_CHECKING:
    from jinja2 import Environment

QUESTION = "Which response is better?"


class _Choice(NamedTuple):
    """One thing that a voter may say; without a `value` it is no vote."""

    value: str
    label: str
    help: str
    keys: tuple[str, ...]
    shortcut: str


#: What a voter may say, in the order of the buttons.
CHOICES = (
    _Choice("A", "A is better", "the response on the left, or the upper one",
            ("1", "←", "A"), "1 ArrowLeft A"),
    _Choice("B", "B is better", "the response on the right, or the lower one",
            ("2", "→", "B"), "2 ArrowRight B"),
    _Choice("TIE", "Tie", "both are equally good", ("T",), "T"),
    _Choice("BOTH_BAD", "Both bad", "neither is any use", ("X",), "X"),
    _Choice("SKIP", "Skip", "you cannot tell; it does not count", ("S",), "S"),
)  # fmt: skip
_BACK = _Choice("", "Back", "to the pair before, to vote otherwise", ("Z",), "Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page, and the content security policy that a server sends with it."""

    html: str
    policy: str


def shown_pair(shown: Shown) -> dict[str, str]:
    """What a voter's browser is sent of a pair; Markdown becomes safe HTML here."""
    texts = {name: _rendered(getattr(shown, name)) for name in ("prompt", "left", "right")}
    return {"ticket": shown.ticket, "digest": shown.digest, **texts}


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
    choices = (*CHOICES, _BACK)
    return _page("vote", question, data, choices=choices, ballot=True, seal=seal(content))


def live_page(question: str = QUESTION, reveal: bool = False) -> Page:
    """A page that asks the server it came from for every pair; with `reveal` it says that models
    are named after the vote.
    """
    how: Any = {"choices": CHOICES, "ballot": False, "seal": "", "reveal": reveal}
    return _page("vote", question, {}, connects=True, **how)


def board_page(question: str = QUESTION) -> Page:
    """The researcher's page: ratings and coverage as votes come in."""
    return _page("board", question, {}, connects=True)


def _page(name: str, question: str, data: object, *, connects: bool = False, **values: Any) -> Page:
    from markupsafe import Markup

    script, style = _asset(f"{name}.js"), _site_style() + _asset("vote.css")
    connect = "connect-src 'self'; " if connects else ""
    policy = (
        f"default-src 'none'; script-src '{_source(script)}'; style-src '{_source(style)}'; "
        f"{connect}base-uri 'none'; form-action 'none'"
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
