"""Voting in a notebook, on the same store and as blind as on the page.

Nothing that the browser gets says which models are shown, unless the arena reveals that after a
vote: the ticket stays in the kernel, and the widgets hold the texts alone.
"""

from __future__ import annotations

import getpass
import re
import secrets
import time
from html import escape
from pathlib import Path
from typing import Any

from arena_kit.files import DataError
from arena_kit.runs.record.record import find_root
from arena_kit.runs.settings.files import DEFAULT_TOURNAMENT
from arena_kit.site.texts import plain, safe_html
from arena_kit.voting.live import LiveArena
from arena_kit.voting.page import CHOICES
from arena_kit.voting.records import Choice, Receipt, RefusalError, Shown
from arena_kit.voting.store import DEFAULT_STORE
from arena_kit.voting.texts import ArenaTexts

_BUTTONS = [(Choice(each.value), each.label, each.keys[-1].lower()) for each in CHOICES]
_NEXT = "n"
_KEYS = "One key each: a, b, t (tie), x (both bad), s (skip), n (next)"
_CARD = (
    "border: 1px solid #d8dee4; border-radius: 8px; padding: 4px 14px; overflow-wrap: anywhere; "
    "line-height: 1.5"
)


def vote(
    store: str | Path = DEFAULT_STORE,
    tournament: str | Path = DEFAULT_TOURNAMENT,
    *,
    voter: str = "",
    dimension: str | None = None,
    question: str = "",
    goal: int = 0,
    reveal: bool = False,
) -> VotingWidget:
    """A widget to vote with, on the prompts and responses of a tournament; leave it as the last
    line of a cell. Paths are relative to the workspace.

    Parameters
    ----------
    store
        Where votes are kept: a SQLite file, or a `postgresql://` address.
    voter
        Who votes, by default the user's name here.
    question
        What is asked, by default what the rubric of the dimension asks.
    goal
        How many votes are wanted; 0 shows a count without an end.
    reveal
        Whether models are named after each vote; votes on responses that were named to the voter
        are then flagged.
    """
    root = find_root()
    where = store if "://" in str(store) else root / store
    live = LiveArena.open(where, Path(tournament), root=root, dimension=dimension, reveal=reveal)
    return VotingWidget(live, voter=voter or _user(), question=question, goal=goal)


class VotingWidget:
    """Two anonymous responses with buttons under them and, where the arena reveals it, who they
    were once the vote is stored.

    Buttons can be reached with the tab key; in the field under them one letter votes. `box` is the
    widget that a notebook shows, `session` what the store knows this one by.
    """

    def __init__(self, arena: LiveArena, *, voter: str, question: str = "", goal: int = 0) -> None:
        widgets = _ipywidgets()
        self.arena, self.voter, self.goal = arena, voter, goal
        self.session = f"lab-{secrets.token_urlsafe(12)}"
        self._shown: Shown | None = None
        self._since = 0.0
        half = {"flex": "1 1 22em", "min_width": "0"}
        self._left, self._right = (widgets.HTML(layout=half) for _ in range(2))
        self._prompt, self._message, self._progress = (widgets.HTML() for _ in range(3))
        self._buttons = {choice: _button(label, key) for choice, label, key in _BUTTONS}
        self._next = _button("Next", _NEXT)
        self._keys = widgets.Text(placeholder=_KEYS, description="Keys", layout={"width": "46em"})
        for choice, button in self._buttons.items():
            button.on_click(lambda _, choice=choice: self.cast(choice))
        self._next.on_click(lambda _: self.show_next())
        self._keys.observe(self._typed, names="value")
        row = {"flex_flow": "row wrap", "align_items": "stretch", "grid_gap": "10px"}
        parts = [
            widgets.HTML(_heading(arena.texts, question)),
            self._prompt,
            widgets.Box([self._left, self._right], layout=row),
            widgets.Box([*self._buttons.values(), self._next], layout=row),
            self._keys,
            self._message,
            self._progress,
        ]
        self.box: Any = widgets.VBox(parts)
        self.show_next()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return self.box._repr_mimebundle_(**kwargs)

    def show_next(self) -> None:
        """Show the next pair."""
        try:
            self._shown = self.arena.issue(session=self.session, voter=self.voter)
        except RefusalError as error:
            self._shown = None
            self._say(str(error))
            self._enable(voting=False, following=True)
            return
        title, beside = self.arena.texts.reference_title, self._shown.reference
        cards = _card("Prompt", self._shown.prompt) + (_card(title, beside) if beside else "")
        self._prompt.value = cards
        self._left.value = _card("A", self._shown.left)
        self._right.value = _card("B", self._shown.right)
        self._message.value = ""
        self._count(self._shown.count)
        self._enable(voting=True, following=False)
        self._since = time.monotonic()

    def cast(self, choice: Choice) -> None:
        """Vote on the pair that is shown, and say what became of it."""
        shown = self._shown
        if shown is None:
            return
        self._enable(voting=False, following=False)
        try:
            receipt = self.arena.cast(
                shown.ticket, session=self.session, choice=choice, digest=shown.digest,
                seconds=time.monotonic() - self._since, source="lab",
            )  # fmt: skip
        except RefusalError as error:
            self._say(f"Not stored: {error}")
        else:
            self._say(_revealed(receipt))
            self._count(receipt.count)
        self._shown = None
        self._enable(voting=False, following=True)

    def close(self) -> None:
        """Take the widget off the page and let go of the store."""
        self.box.close()
        self.arena.close()

    def _typed(self, change: dict[str, Any]) -> None:
        """One letter votes, or goes on; the field is then empty again."""
        key = str(change["new"]).strip().lower()[-1:]
        if not key:
            return
        self._keys.value = ""
        choices = {letter: choice for choice, _, letter in _BUTTONS}
        if key in choices:
            self.cast(choices[key])
        elif key == _NEXT and self._shown is None:
            self.show_next()

    def _enable(self, *, voting: bool, following: bool) -> None:
        for button in self._buttons.values():
            button.disabled = not voting
        self._next.disabled = not following

    def _say(self, sentence: str) -> None:
        self._message.value = f'<p role="status">{escape(plain(sentence))}</p>'

    def _count(self, votes: int) -> None:
        of = f" of {self.goal}" if self.goal else ""
        self._progress.value = f"<small>Votes of {escape(self.voter)}: {votes}{of}</small>"


def _revealed(receipt: Receipt) -> str:
    if receipt.choice is Choice.SKIP:
        return "Skipped: it does not count."
    if receipt.left is None or receipt.right is None:
        return "Stored."
    return f"Stored. A was {receipt.left}, B was {receipt.right}."


def _heading(texts: ArenaTexts, question: str) -> str:
    """The question, and under it the rubric to open where the votes are on a dimension."""
    asked = f"<h3>{escape(plain(question or texts.question()))}</h3>"
    rubrics = [safe_html(rubric.text) for rubric in texts.rubrics_on(texts.dimensions)]
    return asked + "".join(f"<details><summary>Guidelines</summary>{r}</details>" for r in rubrics)


def _card(title: str, text: str) -> str:
    """A text with its title; Markdown becomes safe HTML, and pictures fit."""
    heading = f'<h4 style="margin: 6px 0">{title}</h4>'
    shown = safe_html(text).replace("<img ", '<img style="max-width: 100%" ')
    return f'<section style="{_CARD}">{heading}{shown}</section>'


def _button(label: str, key: str) -> Any:
    text, tooltip = f"{label} ({key})", f"key {key}"
    return _ipywidgets().Button(description=text, tooltip=tooltip, layout={"width": "auto"})


def _ipywidgets() -> Any:
    try:
        import ipywidgets
    except ImportError:
        raise DataError(
            "voting in a notebook needs the extra lab: pip install 'arena-kit[lab,vote]'"
        ) from None
    return ipywidgets


def _user() -> str:
    """The user's name as an id."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", getpass.getuser()).strip(".-") or "me"
