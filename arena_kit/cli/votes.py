"""The commands for people's votes: ballots as files, a page to vote on, the store, and the review
of voters.
"""

from __future__ import annotations

import getpass
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from arena_kit.battles.battle import Source
from arena_kit.battles.log import BattleLog
from arena_kit.battles.write import write_battles
from arena_kit.cli import terminal
from arena_kit.cli.base import FILE, PATH, WRONG_INPUT, echo, echo_json, json_option, main
from arena_kit.files import DataError
from arena_kit.rating.base import scores
from arena_kit.rating.with_judge.chosen import choose_battles, is_unsure
from arena_kit.reporting.tables import Table
from arena_kit.runs.record.inputs import battles_of, tournament_inputs
from arena_kit.runs.record.record import find_root
from arena_kit.runs.settings.judges import is_loopback
from arena_kit.voting.ballot import Taken, read_chosen, read_voters, self_naming
from arena_kit.voting.export import conflicting, exported
from arena_kit.voting.live import Limits, LiveArena
from arena_kit.voting.records import counted, moment
from arena_kit.voting.store import DEFAULT_STORE, VoteStore
from arena_kit.voting.texts import ArenaTexts

if TYPE_CHECKING:
    from arena_kit.voting.access import Access

_NAMED = 50  # responses that are listed


def _options_of(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Several options as one decorator."""
    return lambda command: reduce(lambda inner, option: option(inner), reversed(options), command)


_store_option = click.option(
    "--store", metavar="PATH|URL", default="", envvar="ARENA_KIT_VOTES",
    help=f"Where votes are kept: a SQLite file, or postgresql://… (default: {DEFAULT_STORE} in the "
    "workspace).",
)  # fmt: skip
_arena_options = _options_of(
    click.option("--tournament", type=PATH, default="params/tournament.yaml",
                 show_default=True, help="Whose prompts and responses are voted on."),
    click.option("--policy", type=PATH, default="params/policy.yaml",
                 show_default=True, help="How matchups are drawn."),
    click.option("--dimension", "dimensions", multiple=True,
                 help="What the votes are about, a dimension of the tournament; ballots take "
                 "several (default: the store's, at first none)."),
    _store_option,
)  # fmt: skip
_question_option = click.option(
    "--question", default="",
    help="What voters are asked (default: the question of the dimension's rubric, else Which "
    "response is better?).",
)  # fmt: skip
_removal_options = _options_of(
    click.argument("names", metavar="NAME...", nargs=-1),
    click.option("--known", is_flag=True,
                 help="All votes on responses whose model the voter had been told (--reveal)."),
    click.option("--why", required=True, help="The reason, which the log keeps."),
    click.option("--what", "kind", type=click.Choice(["voter", "session", "vote"]), default="voter",
                 show_default=True,
                 help="What the names are: voters, sessions, or votes by their battle_id."),
    click.option("--by", default="", help="Who decides (default: the user's name here)."),
    _store_option,
)  # fmt: skip


@main.group()
def votes() -> None:
    """Take in, list and hand on people's votes."""


@votes.command()
@click.argument("verdicts", nargs=-1, required=True, type=PATH)
@click.option("--votes", "n", type=click.IntRange(min=1), default=200, show_default=True,
              help="How many battles to choose.")  # fmt: skip
@click.option("--unsure", type=click.FloatRange(min=0.1, max=10), default=1.0, show_default=True,
              metavar="TIMES", help="How many times as probable a battle is on which the verdicts "
              "differ or name no winner.")  # fmt: skip
@click.option("--dimension", help="Only battles with verdicts on this dimension.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the choice.")
@click.option("--out", type=FILE, default=Path("chosen.csv"), show_default=True,
              help="The file to write.")  # fmt: skip
def choose(
    verdicts: tuple[Path, ...], n: int, dimension: str | None, out: Path, **how: Any
) -> None:
    """Choose judged battles for people to vote on, with known probabilities.

    VERDICTS are battles files or run records of one judge or several. A battle is two models on one
    prompt. Pairs and verdicts are drawn in proportion, so that verdicts on the other battles make
    the board of people and judge more precise: make ballots of the chosen battles, and rate their
    votes with --verdicts and --chosen.
    """
    which: Any = {"source": Source.LLM_JUDGE, "dimension": dimension}
    log = BattleLog.joined(*(battles_of(each, **which) for each in verdicts))
    chosen = choose_battles(log, n, **how)
    write_battles(out, chosen)
    what = f"verdicts differ or name no winner on {is_unsure(scores(chosen)).mean():.0%} of them"
    echo(f"{out}: {n:,} of {len({*log.compared()}):,} judged battles; {what}")
    echo(f"next: arena-kit votes ballot --chosen {out}; then arena-kit rate VOTES --verdicts "
         f"{verdicts[0]} --chosen {out}")  # fmt: skip


@votes.command()
@click.option("--pairs", type=click.IntRange(1, 1000), default=40, show_default=True,
              help="Pairs on each ballot.")  # fmt: skip
@click.option("--ballots", type=click.IntRange(1, 1000), default=1, show_default=True,
              help="How many ballots, for a voter each.")  # fmt: skip
@click.option("--voters", type=FILE, metavar="TABLE",
              help="A ballot for each row of a table (CSV): voter, attributes (specialty), and the "
              "strata to be asked about under their axis (subject).")  # fmt: skip
@click.option("--chosen", type=FILE, metavar="FILE",
              help="Ask about the battles of `votes choose`, the least asked first.")  # fmt: skip
@click.option("--out", type=PATH, default="ballots", show_default=True,
              help="Folder of the ballots, or a .html file for one.")  # fmt: skip
@click.option("--days", type=click.IntRange(1, 3650), default=30, show_default=True,
              help="How long votes are waited for; then others get the pairs.")  # fmt: skip
@_question_option
@_arena_options
def ballot(
    ballots: int, out: Path, voters: Path | None, chosen: Path | None, pairs: int, days: int,
    question: str, **where: Any,
) -> None:  # fmt: skip
    """Make blind ballots: pages to send, that need no server.

    Voters open one, vote with the keyboard and send back a small file, which
    `arena-kit votes add` takes in. Which model is which is in the store only; send ballots
    around, never the store. Pairs are drawn as an arena would; several voters may fill in the same
    ballot.
    """
    if voters and ballots > 1:
        raise click.UsageError("--voters makes a ballot for each row; leave --ballots out")
    live = _open_arena(**where)
    _warn_of_names(live)
    about: Any = {"pairs": pairs, "days": days, "question": question}
    about["voters"] = read_voters(voters, live.texts) if voters else ()
    about["chosen"] = read_chosen(chosen, live.texts) if chosen else None
    paths = live.write_ballots(out, ballots, **about)
    for path in paths:
        echo(path)
    made = f"{counted(len(paths), 'ballot')} of {pairs} pairs {_extent(live)}"
    echo(f"{made}, kept in {live.store.address}; what comes back: arena-kit votes add FILE...")


@votes.command()
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to listen on; any but this machine's own needs a token.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8321, show_default=True,
              help="0 takes a free one.")  # fmt: skip
@click.option("--allow-host", "names", multiple=True, metavar="NAME",
              help="A further name of the server in browsers, as behind a proxy.")  # fmt: skip
@click.option("--behind-proxy", "proxy", metavar="ADDRESS", type=ip_address, default=None,
              help="The proxy's IP address, whose X-Forwarded-For is believed.")  # fmt: skip
@click.option("--reveal", is_flag=True,
              help="Name the models after each vote; later votes on a response that was named to "
              "the voter are flagged.")  # fmt: skip
@click.option("--per-minute", type=click.IntRange(min=1), default=30, show_default=True,
              help="Pairs that a voter may ask for in a minute.")  # fmt: skip
@click.option("--goal", type=click.IntRange(min=0), default=0, show_default=True,
              help="Votes that each voter is asked for; 0 for no end.")  # fmt: skip
@_question_option
@_arena_options
def serve(host: str, port: int, names: tuple[str, ...], proxy: object, **where: Any) -> None:
    """Let people vote on a page, live.

    The links are printed once, with their tokens: one for voters (without a token on this
    machine's own address), one for the researcher's board. ARENA_KIT_VOTE_TOKEN and
    ARENA_KIT_BOARD_TOKEN keep links the same over restarts. Ctrl-C ends it; votes are safe at any
    time.
    """
    for package in ("fastapi", "itsdangerous", "uvicorn"):
        if find_spec(package) is None:
            why = f"a server to vote on needs the extra vote ({package} is missing)"
            raise DataError(f"{why}: pip install 'arena-kit[vote]'")
    shown: Any = {name: where.pop(name) for name in ("question", "goal")}
    live = _open_arena(**where)
    live.check_one_dimension()
    import uvicorn

    from arena_kit.voting.server import server_config, voting_app

    _warn_of_names(live)
    access = _access(live.key(), host, names)
    listening = _listen(host, port)
    app = voting_app(live, access, **shown)
    address = _address(host, listening.getsockname()[1], names)
    token = f"#token={quote(access.token, safe='')}" if access.token else ""
    echo(f"voting on {address} {_extent(live)}; {_store_state(live)}")
    echo(f"voters: {address}{token}")
    echo(f"board:  {address}board#token={quote(access.board_token, safe='')}")
    sys.stdout.flush()
    config = server_config(app, access, str(proxy or ""))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C, with the sentence
    try:
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        echo(f"ended; {_store_state(live)}")
        live.close()


@votes.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FILE)
@_arena_options
def add(files: tuple[Path, ...], **where: Any) -> None:
    """Take in the files that voters sent back.

    Each file counts whole or not at all, and once however often it is added. A file that is
    refused is named with the reason, the others are taken in; the exit code is then 2.
    """
    live = _open_arena(**where)
    code = 0
    for path in files:
        try:
            echo(f"{path}: {_taken(live.take_ballot(path))}")
        except DataError as error:
            echo(f"refused: {error}", err=True)
            code = WRONG_INPUT
    echo(_store_state(live))
    sys.exit(code)


def _taken(taken: Taken) -> str:
    """What came of a returned file, in words."""
    text = f"{_held(taken.votes, taken.skips)} of {taken.voter}"
    if taken.new < taken.votes + taken.skips:
        text += f" ({taken.new} new)"
    earlier = "an earlier vote under the same name differs; see `arena-kit votes conflicts`"
    elsewhere = "the same pair and prompt was just voted on elsewhere"
    for n, why in ((taken.repeats, elsewhere), (taken.conflicts, earlier)):
        text += f"; {n:,} of them kept and not counted: {why}" if n else ""
    return text


@votes.command()
@click.argument("names", metavar="[VOTER]...", nargs=-1)
@click.option("--keep", type=click.Choice(["first", "last", "none"]),
              help="Settle the conflicts: which vote on a pair counts.")  # fmt: skip
@click.option("--why", default="", help="The reason, which the log keeps; needed with --keep.")
@click.option("--by", default="", help="Who decides (default: the user's name here).")
@_store_option
def conflicts(names: tuple[str, ...], keep: str | None, why: str, by: str, store: str) -> None:
    """List, or settle, votes on one pair that differ under one name.

    Whoever has a ballot can type any name, and a voter may vote otherwise in a second file. Both
    votes are kept, and the first one counts until you settle it, for the named voters or for all.
    """
    with open_store(store) as kept:
        groups = [group for group in conflicting(kept) if not names or group[0].voter in names]
        if keep is not None:
            chosen = [group[{"first": 0, "last": -1}[keep]] for group in groups if keep != "none"]
            counts = {vote.ticket.ticket for vote in chosen}
            every = {vote.ticket.ticket for group in groups for vote in group}
            reason: Any = {"why": why, "by": by or getpass.getuser()}
            kept.restore("vote", sorted(counts), **reason)
            kept.remove("vote", sorted(every - counts), **reason)
            echo(f"settled: {counted(len(groups), 'pair')}; the {keep} vote counts")
            return
    rows = [
        {"voter": vote.voter, "vote": vote.ticket.ticket, "choice": str(vote.choice),
         **({"dimension": vote.ticket.dimension} if vote.ticket.dimension else {}),
         "cast (UTC)": f"{moment(vote.cast_at):%Y-%m-%d %H:%M}", "session": vote.session,
         "counts": "" if vote.removed else "yes"}
        for group in groups for vote in group
    ]  # fmt: skip
    terminal.show_table(Table(rows, title="Conflicting votes", left=["voter", "vote", "choice"]))


@votes.command("list")
@json_option()
@_store_option
def list_voters(store: str, as_json: bool) -> None:
    """Who voted, how often, and who is removed."""
    kept = open_store(store)
    rows = [
        {"voter": each.voter, "votes": each.votes, "skips": each.skips,
         "first seen (UTC)": f"{moment(each.first_seen):%Y-%m-%d %H:%M}",
         "removed": "yes" if each.removed else ""}
        for each in kept.voters()
    ]  # fmt: skip
    _show(Table(rows, title="Voters", left=["voter", "removed"], nowrap=["voter"]), as_json=as_json)


@votes.command()
@json_option()
@_store_option
def comments(store: str, as_json: bool) -> None:
    """What voters wrote beside their votes, and on which pair."""
    rows = [
        {"voter": vote.voter, "prompt": vote.ticket.prompt, "A": vote.ticket.model_a,
         "B": vote.ticket.model_b, "choice": str(vote.choice), "comment": vote.comment}
        for vote in open_store(store).votes() if vote.comment and not vote.removed
    ]  # fmt: skip
    _show(Table(rows, title="Comments", left=list(rows[0]) if rows else []), as_json=as_json)


def _show(table: Table, *, as_json: bool) -> None:
    """A table, or its rows as JSON."""
    if as_json:
        echo_json(table.rows, ensure_ascii=False)
    else:
        terminal.show_table(table)


@votes.command("export")
@click.option("--out", required=True, type=FILE,
              help="Battles file to write: .jsonl, .csv or .parquet.")  # fmt: skip
@click.option("--deidentified", is_flag=True,
              help="Voters and sessions under random names, times to the day.")  # fmt: skip
@click.option("--texts", type=FILE, metavar="TOURNAMENT",
              help="The tournament whose prompts and responses go along.")  # fmt: skip
@_store_option
def export_votes(out: Path, deidentified: bool, texts: Path | None, store: str) -> None:
    """Write the votes as battles that every notebook and `arena-kit rate` read.

    Removed votes and skips are left out, and counted. The last line is the file's path.
    """
    kept = open_store(store)
    export = exported(kept, deidentified=deidentified)
    if not len(export.battles):
        raise DataError(f"{kept.address}: holds no vote that counts yet")
    said = ArenaTexts.of_tournament(texts, find_root()).of(export.battles) if texts else {}
    write_battles(out, export.battles, said, private=not deidentified)
    left_out = f"{export.skips:,} skipped, {export.removed:,} removed"
    echo(f"{len(export.battles):,} votes; left out: {left_out}")
    if export.known:
        how = "`arena-kit votes remove --known --why …` leaves them out"
        echo(f"of responses whose model the voter had been told: {export.known:,}; {how}")
    echo(out)


@votes.command()
@click.option("--level", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05,
              show_default=True,
              help="Highest mean share of honest voters among flagged ones.")  # fmt: skip
@click.option("--dimension", default="", help="Whose votes, where the store has several.")
@json_option("every voter's tests as JSON")
@_store_option
def review(level: float, dimension: str, as_json: bool, store: str) -> None:
    """Test every voter against the others; nothing is removed.

    The same with tables and a picture: arena-kit run vote_review -p battles PATH
    """
    from arena_kit.reporting import vote_review
    from arena_kit.voting.review import ReviewedVotes

    with open_store(store) as kept:
        votes = ReviewedVotes.of_store(kept, dimension=dimension)
    tests = votes.test_voters(level)
    if as_json:
        echo_json(vote_review.to_dict(tests), sort_keys=True)
        return
    if tests.flagged:
        terminal.show_table(vote_review.flagged(tests))
    boards = votes.boards([test.voter for test in tests.flagged])
    for sentence in (*vote_review.answer(tests, boards), *vote_review.caveats(tests)):
        echo(sentence)


@votes.command()
@_removal_options
def remove(**change: Any) -> None:
    """Leave votes out of the board and of every export; `restore` takes that back.

    Nothing is deleted. The log keeps who removed what, when and why, and every arena on the store
    replays the votes that are left.
    """
    _change("removed", **change)


@votes.command()
@_removal_options
def restore(**change: Any) -> None:
    """Take removals back: the votes count again, in their old places."""
    _change("restored", **change)


def _change(
    what: str, *, names: tuple[str, ...], known: bool, why: str, kind: Any, by: str, store: str
) -> None:
    if bool(names) == known:
        raise click.UsageError("name what it is about, or give --known")
    with open_store(store) as kept:
        if known:
            kind, names = "vote", tuple(v.ticket.ticket for v in kept.votes() if v.known)
        before = len(exported(kept).battles)
        act = kept.remove if what == "removed" else kept.restore
        n = act(kind, names, why=why, by=by or getpass.getuser())
        left = len(exported(kept).battles)
    echo(f"{what}: {counted(n, kind)}, {abs(left - before):,} votes; {left:,} votes count now")


def _open_arena(
    *, tournament: Path, policy: Path, dimensions: tuple[str, ...], store: str, **limits: Any
) -> LiveArena:
    """The arena, with these limits."""
    root, where = find_root(), store_address(store)
    known = tournament_inputs(root / tournament, root)[0].dimensions
    for each in dimensions:
        if each not in known:
            raise DataError(f"--dimension {each!r} is none of {tournament}: {', '.join(known)}")
    more: Any = {"policy": policy, "dimension": dimensions, "reveal": limits.pop("reveal", False)}
    more["limits"] = Limits(**limits)
    return LiveArena.open(where, tournament, root=root, **more)


def open_store(store: str) -> VoteStore:
    """The store that a command is about, which must be there."""
    return VoteStore.open(store_address(store), create=False)


def store_address(store: str) -> str:
    """Where the votes are: as `--store` says, else in the workspace."""
    return store or os.path.relpath(find_root() / DEFAULT_STORE)


def _warn_of_names(live: LiveArena) -> None:
    """Say which responses name a model or its maker, before anybody votes on them."""
    if found := sorted(self_naming(live.texts)):
        what = f"{counted(len(found), 'response')} may name a model or its maker"
        echo(f"warning: {what}, which no page can hide:", err=True)
        for model, prompt, words in found[:_NAMED]:
            echo(f"  {model} on {prompt}: “{words}”", err=True)
        if len(found) > _NAMED:
            echo(f"  and {len(found) - _NAMED:,} more", err=True)


def _held(votes: int, skips: int) -> str:
    return counted(votes, "vote") + (f" and {skips:,} skipped" if skips else "")


def _extent(live: LiveArena) -> str:
    return f"among {len(live.texts.models)} models on {len(live.texts.prompts):,} prompts"


def _store_state(live: LiveArena) -> str:
    """What the store holds now."""
    voters = [each for each in live.store.voters() if each.votes or each.skips]
    held = _held(sum(v.votes for v in voters), sum(v.skips for v in voters))
    return f"{live.store.address} holds {held} of {counted(len(voters), 'voter')}"


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens before anything is printed."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        raise DataError(f"cannot listen on {host}:{port} ({error.strerror or error})") from None


def _access(key: bytes, host: str, names: Sequence[str]) -> Access:
    from arena_kit.voting.access import Access

    if any("*" in name for name in names):
        raise DataError("--allow-host takes one name of the server each, and no wildcard")
    own, is_open = {host, "localhost", "127.0.0.1", "::1", *names}, not is_loopback(host)
    if is_open:
        own |= {socket.gethostname(), socket.getfqdn(), *_addresses()}
    token = os.environ.get("ARENA_KIT_VOTE_TOKEN", "")
    if not token and (names or is_open):
        token = token_urlsafe(24)
    hosts = frozenset(_in_brackets(name.lower().strip("[]")) for name in own)
    board_token = os.environ.get("ARENA_KIT_BOARD_TOKEN") or token_urlsafe(24)
    return Access(hosts=hosts, token=token, board_token=board_token, key=key)


def _addresses() -> set[str]:
    """The addresses that this machine's name leads to, and the one that others see."""
    found = set()
    with suppress(OSError):
        found = {str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None)}
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # of a network for documents; it sends nothing
        found.add(str(probe.getsockname()[0]))
    return found


def _address(host: str, port: int, names: Sequence[str]) -> str:
    """What voters type: a further name is that of a proxy, which speaks TLS."""
    if names:
        return f"https://{names[0]}/"
    unspecified = host in ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)
    return f"http://{socket.gethostname() if unspecified else _in_brackets(host)}:{port}/"


def _in_brackets(host: str) -> str:
    """A name as URLs have it: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host
