"""Votes as battles that every notebook reads, with their voters or without."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np

from arena_kit.battles.battle import OUTCOMES, Source
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.voting.records import Choice, StoredVote, Ticket
from arena_kit.voting.store import VoteStore

_CODES = {each: OUTCOMES.index(each.outcome) for each in Choice if each.outcome is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The battles of a store, how many votes are none (skips, and those removed), and how many are
    on responses whose model the voter had been told.
    """

    battles: BattleLog
    skips: int
    removed: int
    known: int


def exported(store: VoteStore, *, deidentified: bool = False) -> Export:
    """The votes of a store as battles, in their order, with a column for each attribute of voters;
    removed ones are left out.
    """
    with store.reading() as transaction:
        votes, known = transaction.votes(), transaction.attributes()
    kept = [vote for vote in votes if not vote.removed]
    counted = [vote for vote in kept if vote.choice.outcome is not None]
    names = dict.fromkeys(name for each in known.values() for name in each)
    strata = {
        name: Labels.of([known.get(v.voter, {}).get(name) for v in counted]) for name in names
    }
    log = replace(battle_log(counted), strata=strata or None)
    return Export(
        battles=without_identities(log) if deidentified else log,
        skips=len(kept) - len(counted),
        removed=len(votes) - len(kept),
        known=sum(vote.known for vote in counted),
    )


def conflicting(store: VoteStore) -> list[list[StoredVote]]:
    """Votes of one voter on a matchup and dimension of a ballot that differ, in their order."""
    groups: dict[tuple[str, str, str | None], list[StoredVote]] = {}
    for vote in (each for each in store.votes() if each.source == "ballot"):
        matchup = vote.ticket.copy_of or vote.ticket.ticket
        groups.setdefault((vote.voter, matchup, vote.ticket.dimension), []).append(vote)
    return [group for group in groups.values() if len(group) > 1]


def battle_log(votes: Sequence[StoredVote]) -> BattleLog:
    """Votes that are battles, in their order; the left side is the first."""
    vote = _columns(StoredVote, votes, "ticket", "choice", "session", "voter", "cast_at")
    ticket = _columns(
        Ticket, vote["ticket"], "ticket", "model_a", "model_b", "prompt", "dimension", "lane"
    )
    sides = Labels.of(ticket["model_a"] + ticket["model_b"])
    a, b = np.split(sides.codes, 2)
    return BattleLog(
        models=tuple(sides.names),
        a=a,
        b=b,
        outcome=np.array([_CODES[choice] for choice in vote["choice"]], np.int8),
        source=Labels.of([str(Source.HUMAN)] * len(votes)),
        question_id=Labels.of(ticket["prompt"]),
        dimension=Labels.of(ticket["dimension"]) if any(ticket["dimension"]) else None,
        session=Labels.of(vote["session"]),
        voter=Labels.of(vote["voter"]),
        lane=Labels.of(ticket["lane"]),
        battle_id=np.array(ticket["ticket"], object),
        timestamp=np.array(vote["cast_at"], "datetime64[us]"),
    )


def _columns(
    kind: type[StoredVote | Ticket], rows: Sequence[Any], *names: str
) -> dict[str, list[Any]]:
    """Some fields of records, as columns."""
    return {name: list(map(itemgetter(kind._fields.index(name)), rows)) for name in names}


def without_identities(log: BattleLog) -> BattleLog:
    """The same battles, nobody to be told from them: voters and sessions are numbered by chance
    and anew in every export, times are days, and ids say only the order of votes.
    """
    width = max(6, len(str(len(log))))
    ids = [f"vote-{n:0{width}}" for n in range(1, len(log) + 1)]
    times = log.timestamp
    return replace(
        log,
        voter=_renamed(log.voter, "voter"),
        session=_renamed(log.session, "session"),
        battle_id=np.array(ids, object),
        timestamp=None if times is None else times.astype("datetime64[D]").astype("datetime64[us]"),
    )


def _renamed(column: Labels | None, what: str) -> Labels | None:
    if column is None:
        return None
    ids = [f"{what}-{secrets.token_hex(8)}" for _ in column.names]
    return Labels.of(np.array([*ids, None], object)[column.codes])
