"""The commands that look at voters: review, removal and its undoing."""

from __future__ import annotations

import getpass
import json
from typing import TYPE_CHECKING, Any, Literal

import click

from arena_kit.cli.base import echo, plain_errors
from arena_kit.cli.votes import kept_store, options_of, store_option, votes

if TYPE_CHECKING:
    from arena_kit.voting.store import VoteStore

_change_options = options_of(
    click.argument("names", metavar="NAME...", nargs=-1, required=True),
    click.option("--why", required=True, help="The reason, which the log keeps."),
    click.option("--what", "kind", type=click.Choice(["voter", "session", "vote"]), default="voter",
                 show_default=True,
                 help="What the names are: voters, sessions, or votes by their battle_id."),
    click.option("--by", default="", help="Who decides (default: the user's name here)."),
    store_option,
)  # fmt: skip


@votes.command()
@click.option("--level", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05,
              show_default=True,
              help="Share of honest voters among those who stand out, at most.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print every voter's tests as JSON.")
@store_option
@plain_errors
def review(level: float, as_json: bool, store: str) -> None:
    """Test every voter against the others; nothing is removed.

    The same with tables and a picture: arena-kit run vote_review -p battles PATH
    """
    from arena_kit.cli import terminal
    from arena_kit.reporting import vote_review
    from arena_kit.voting.review import ReviewedVotes

    with kept_store(store) as kept:
        votes = ReviewedVotes.of_store(kept)
    tests = votes.test_voters(level)
    if as_json:
        echo(json.dumps(vote_review.to_dict(tests), indent=2, sort_keys=True))
        return
    if tests.standing_out:
        terminal.show_table(vote_review.standing_out(tests))
    boards = votes.boards([test.voter for test in tests.standing_out])
    for sentence in (*vote_review.answer(tests, boards), *vote_review.caveats(tests)):
        echo(sentence)


@votes.command()
@_change_options
@plain_errors
def remove(names: tuple[str, ...], why: str, kind: Any, by: str, store: str) -> None:
    """Leave votes out of the board and of every export; `restore` takes that back.

    Nothing is deleted. The log keeps who removed what, when and why, and every arena on the store
    replays the votes that are left.
    """
    _change("removed", names, why, kind, by, store)


@votes.command()
@_change_options
@plain_errors
def restore(names: tuple[str, ...], why: str, kind: Any, by: str, store: str) -> None:
    """Take removals back: the votes count again, in their old places."""
    _change("restored", names, why, kind, by, store)


def _change(
    what: Literal["removed", "restored"],
    names: tuple[str, ...],
    why: str,
    kind: Literal["voter", "session", "vote"],
    by: str,
    store: str,
) -> None:
    with kept_store(store) as kept:
        before = _counting(kept)
        act = kept.remove if what == "removed" else kept.restore
        n = act(kind, names, why=why, by=by or getpass.getuser())
        left = _counting(kept)
    several = kind if n == 1 else f"{kind}s"
    echo(f"{what}: {n} {several}, {abs(left - before):,} votes; {left:,} votes count now")


def _counting(store: VoteStore) -> int:
    """How many votes count: no skips, none removed."""
    return sum(vote.choice.outcome is not None and not vote.removed for vote in store.votes())
