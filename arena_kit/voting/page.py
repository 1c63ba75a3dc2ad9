"""The page people vote in: one template and one script, for a ballot file and for the server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

from arena_kit.site.pages import asset, literal, templates
from arena_kit.site.texts import safe_html
from arena_kit.voting.records import Shown
from arena_kit.voting.texts import ArenaTexts

_HERE = "arena_kit.voting"
_rendered = lru_cache(maxsize=4096, typed=True)(safe_html)


class _Choice(NamedTuple):
    """One thing that a voter may say; without a `value` it is no vote."""

    value: str
    label: str
    help: str
    keys: tuple[str, ...]
    shortcut: str


#: What a voter may say, in the order of the buttons.
CHOICES: tuple[_Choice, ...] = (
    _Choice("A", "A is better", "the response on the left, or the upper one",
            ("1", "←", "A"), "1 ArrowLeft A"),
    _Choice("B", "B is better", "the response on the right, or the lower one",
            ("2", "→", "B"), "2 ArrowRight B"),
    _Choice("TIE", "Tie", "both are equally good", ("T",), "T"),
    _Choice("BOTH_BAD", "Both bad", "neither is any use", ("X",), "X"),
    _Choice("SKIP", "Skip", "you cannot tell; it does not count", ("S",), "S"),
)  # fmt: skip
#: What a page that asks about several dimensions has beside them.
_SEVERAL: tuple[_Choice, ...] = (
    _Choice("", "Next pair", "and leave out the dimensions that are open", ("Enter",), "Enter"),
    _Choice("", "Guidelines", "open or close those of the dimension", ("G",), "G"),
    _Choice("", "Back", "to the dimension or pair before, to vote otherwise", ("Z",), "Z"),
)
_BACK = _Choice("", "Back", "to the pair before, to vote otherwise", ("Z",), "Z")
_UNDO = _Choice("", "Undo", "take the last vote back and vote again", ("Z",), "Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page, and the content security policy that a server sends with it."""

    html: str
    policy: str


def shown_pair(shown: Shown) -> dict[str, Any]:
    """What a voter's browser is sent of a pair; Markdown becomes safe HTML here."""
    names = ("prompt", "reference", "left", "right")
    texts = {name: _rendered(getattr(shown, name)) for name in names}
    return {"ticket": shown.ticket, "digest": shown.digest, **texts}


def ballot_page(
    ballot: str,
    seal: Callable[[str], str],
    pairs: Sequence[Shown],
    texts: ArenaTexts,
    question: str = "",
    voter: str = "",
) -> Page:
    """A page with all its pairs in it, which asks no server for anything; `seal` gives what it
    seals its votes with, by the SHA-256 of its data. Of several dimensions it asks one after the
    other on each pair. The name of a voter whom it is made for is filled in.
    """
    data: dict[str, Any] = {"ballot": ballot, "pairs": [shown_pair(pair) for pair in pairs]}
    about, choices = _instructions(texts, question, len(pairs)), (*CHOICES, _BACK)
    if len(texts.dimensions) > 1:
        asked = {name: (_title(name), texts.question(name)) for name in texts.dimensions}
        data["dimensions"], choices = asked, (*CHOICES, *_SEVERAL)
        for row, pair in zip(data["pairs"], pairs, strict=True):
            row["dimensions"] = pair.dimensions
    if voter:
        data["voter"] = voter
    content = hashlib.sha256(literal(data).encode()).hexdigest()
    return _page("vote", data, ballot=True, seal=seal(content), choices=choices, **about)


def live_page(
    texts: ArenaTexts, question: str = "", *, goal: int = 0, reveal: bool = False
) -> Page:
    """A page that asks the server it came from for every pair, until the voter has cast `goal`
    votes (0 for no end); with `reveal` it says that models are named after the vote.
    """
    choices = CHOICES if reveal else (*CHOICES, _UNDO)
    how: Any = {"ballot": False, "seal": "", "reveal": reveal, "choices": choices}
    about = _instructions(texts, question, goal)
    return _page("vote", {"goal": goal}, connects=True, **how, **about)


def _instructions(texts: ArenaTexts, question: str, pairs: int) -> dict[str, Any]:
    """What voters are told first: the question, the judge's rubric, and how long it takes."""
    from markupsafe import Markup

    seconds = texts.seconds_per_pair
    whole = f"{pairs:,} pairs take about {max(1, round(pairs * seconds / 60)):,} minutes"
    return {
        "question": question or texts.question(),
        "dimensions": texts.dimensions,
        "rubrics": [
            (each.dimension, _title(each.dimension), Markup(safe_html(each.text)))  # noqa: S704
            for each in texts.rubrics_on(texts.dimensions)
        ],
        "reference": texts.reference_title,
        "duration": whole if pairs else f"A pair takes about {5 * ceil(seconds / 5)} seconds",
    }


def _title(dimension: str) -> str:
    """A dimension's name as a reader sees it."""
    return dimension.replace("_", " ").capitalize()


def board_page() -> Page:
    """The researcher's page: ratings and coverage as votes come in."""
    return _page("board", {}, connects=True)


def _page(name: str, data: object, *, connects: bool = False, **values: Any) -> Page:
    from markupsafe import Markup

    script = asset(f"{name}.js", _HERE)
    style = asset("site.css") + asset("vote.css", _HERE)
    connect = "connect-src 'self'; " if connects else ""
    policy = (
        f"default-src 'none'; script-src '{_source(script)}'; style-src '{_source(style)}'; "
        f"img-src data:; {connect}base-uri 'none'; form-action 'none'"
    )
    html = templates(_HERE).get_template(f"{name}.html.j2").render(
        policy=Markup(policy),  # noqa: S704 (made above)
        style=Markup(style),  # noqa: S704 (our own file)
        script=Markup(script),  # noqa: S704 (our own file)
        data=Markup(literal(data)),  # noqa: S704 (holds no <)
        **values,
    )  # fmt: skip
    return Page(html=html, policy=policy)


def _source(text: str) -> str:
    """The hash by which a content security policy lets this one inline text pass."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
