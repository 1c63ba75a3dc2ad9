"""A small arena for tests of votes: texts, server, voters, ballots, and what must not be seen."""

import base64
import hashlib
import hmac
import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from arena_kit.policy.constants import Policy
from arena_kit.voting.access import Access
from arena_kit.voting.live import Limits, LiveArena
from arena_kit.voting.records import BallotVote, Choice, Receipt, Shown
from arena_kit.voting.server import server_config, voting_app
from arena_kit.voting.store import VoteStore
from arena_kit.voting.texts import ArenaTexts

Row = dict[str, Any]

KEY = bytes(range(32))
BOARD_TOKEN = "the-board-token"
#: Names that occur in no page by chance.
MODELS = ("Zephyrine-9", "acme/Quillback.xl", "obsidian_40B", "Marlowe:v2")


def arena_texts(models: Sequence[str] = MODELS, prompts: int = 6, more: str = "") -> ArenaTexts:
    """Prompts with a response of every model, none of which names one; `more` ends each."""
    asked = {f"q-{k}": f"What is q-{k}?" for k in range(prompts)}
    responses = {
        (model, prompt): f"It is number {n}.{k}.{more}"
        for n, model in enumerate(models)
        for k, prompt in enumerate(asked)
    }
    about: Any = {"providers": dict(zip(MODELS, ("north", "north", "south"), strict=False))}
    about |= {"name": "small", "private": (MODELS[1],)}
    return ArenaTexts(models=tuple(models), prompts=asked, responses=responses, **about)


def live_arena(
    where: Path | str,
    texts: ArenaTexts | None = None,
    policy: Policy | None = None,
    dimension: Sequence[str] = (),
    **limits: Any,
) -> LiveArena:
    """An arena on a store; voters may be quick unless the test says otherwise."""
    often = Limits(**{"per_minute": 10**6, "per_day": 10**6} | limits)
    store = VoteStore.open(where)
    more: Any = {"limits": often, "seed": 5, "dimension": dimension}
    return LiveArena(store, texts or arena_texts(), policy or Policy(), **more)


def vote(
    arena: LiveArena, session: str, choice: Choice | str = "A", voter: str | None = None
) -> Receipt:
    """One vote of a session; no field names a model before it, and after it both if revealed."""
    shown = arena.issue(session=session, voter=voter)
    assert not leaks(str(asdict(shown)))
    assert re.fullmatch("[0-9a-f]{32}", shown.ticket)
    receipt = arena.cast(shown.ticket, session=session, choice=choice, digest=shown.digest)
    kept = arena.store.votes()[-1].ticket
    names = (kept.model_a, kept.model_b)
    told = names if arena.reveal and choice != "SKIP" else (None, None)
    assert (receipt.left, receipt.right) == told
    assert (shown.prompt, shown.left, shown.right) == arena.texts.shown(kept.prompt, *names)
    return receipt


def answers(shown: Sequence[Shown], choice: Choice = Choice.A) -> list[BallotVote]:
    about = {"choice": choice, "seconds": 2.5}
    return [BallotVote(ticket=s.ticket, digest=s.digest, **about) for s in shown]


class Voter:
    """A browser without a screen: keeps its cookie, asks for pairs, votes."""

    def __init__(self, address: str, token: str = "") -> None:
        self.address, self.token, self.bodies = address, token, [""]
        quiet = {"trust_env": False, "timeout": 60, "verify": False}  # no TLS on loopback
        self.client = httpx2.Client(base_url=address, **quiet)

    def ask(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        answer = self.client.post(path, json=body, headers=headers)
        self.bodies.append(answer.text + repr(sorted(answer.headers.items())))
        return answer

    def enter(self) -> httpx2.Response:
        return self.ask("/api/enter", {"token": self.token})

    def pair(self) -> Row:
        answer = self.ask("/api/matchup", {})
        assert answer.status_code == 200, answer.text
        return answer.json()  # type: ignore[no-any-return]

    def vote(self, pair: Row, choice: str) -> httpx2.Response:
        body = {"ticket": pair["ticket"], "digest": pair["digest"], "choice": choice}
        return self.ask("/api/vote", body | {"seconds": 1.5})


@contextmanager
def serving(
    live: LiveArena, *, token: str = "", hosts: Sequence[str] = (), proxy: str = ""
) -> Iterator[str]:
    """The server in a thread on a free port of loopback; gives its address."""
    known = frozenset({"127.0.0.1", *hosts})
    access = Access(hosts=known, token=token, board_token=BOARD_TOKEN, key=KEY)
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    server = uvicorn.Server(server_config(voting_app(live, access), access, proxy))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)


def leaks(text: str, models: Sequence[str] = MODELS) -> list[str]:
    """Whatever of the models' names can be found in a text."""
    low = text.lower()
    return [f"{trace} of {name}" for name in models for trace in _traces(name) if trace in low]


@cache
def _traces(name: str) -> list[str]:
    """A name as it is, as a slug, in base64 at any offset, and the beginning of its hashes."""
    traces = []
    for spelling in {name, name.lower(), re.sub(r"[^a-z0-9]+", "-", name.lower())}:
        raw = spelling.encode()
        hashes = [hashlib.new(kind, raw).hexdigest()[:8] for kind in ("md5", "sha1", "sha256")]
        traces += [spelling.lower(), *hashes]
        for offset in range(3):
            middle = base64.b64encode(b"\0" * offset + raw)[4 if offset else 0 : -4].decode()
            traces += [middle.lower()] if len(middle) >= 8 else []
    return traces


def page_data(html: str) -> tuple[Row, str, str]:
    """The data of a ballot's page, their text as it stands there, and what votes are sealed by."""
    found = re.search(r'id="data" data-seal="([0-9a-f]+)">(.*?)</script>', html, re.DOTALL)
    return json.loads(found[2]), found[2], found[1]


def filled(
    html: str, *, voter: str = "Ann", copy: str = "c0", choices: str = "A B TIE BOTH_BAD SKIP A",
    comment: str = "",
) -> Row:  # fmt: skip
    """The file that a page saves, by the rule that docs/votes.md states; - leaves a vote out."""
    data, text, seal = page_data(html)
    asked = [(pair, name) for pair in data["pairs"] for name in pair.get("dimensions", [""])]
    votes = [
        {
            "ticket": pair["ticket"],
            "digest": pair["digest"],
            "choice": choice,
            "seconds": 2.5,
            "comment": comment,
        }
        | ({"dimension": dimension} if dimension else {})
        for (pair, dimension), choice in zip(asked, choices.split(), strict=False)
        if choice != "-"
    ]
    content = hashlib.sha256(text.encode()).hexdigest()
    about = {"ballot": data["ballot"], "content": content, "copy": copy, "voter": voter}
    lines = [*about.values(), *(cell for vote in votes for cell in map(str, vote.values()))]
    digest = hmac.new(seal.encode(), "\n".join(lines).encode(), hashlib.sha256).hexdigest()
    return {"format": "arena_kit votes", "version": 1, **about, "votes": votes, "seal": digest}


def returned(path: Path, file: object) -> Path:
    path.write_text(file if isinstance(file, str) else json.dumps(file))
    return path
