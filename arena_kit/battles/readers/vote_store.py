"""Vote stores of arena_kit on SQLite: what `arena-kit votes export` would write of them."""

from __future__ import annotations

from functools import partial

from arena_kit.battles.readers.format import Format
from arena_kit.battles.sqlite_tables import query_columns

#: A row per vote with its ticket.
_VOTES = """
WITH removed AS (
    SELECT kind, target FROM removals AS line
    WHERE NOT undone AND number = (
        SELECT max(number) FROM removals WHERE kind = line.kind AND target = line.target
    )
)
SELECT votes.ticket AS ticket, model_a, model_b, choice, prompt AS question, dimension,
       votes.session AS session, votes.voter AS voter, lane,
       strftime('%Y-%m-%dT%H:%M:%S', cast_at / 1000000, 'unixepoch')
       || printf('.%06dZ', cast_at % 1000000) AS cast_at,
       EXISTS (
           SELECT 1 FROM removed
           WHERE (kind = 'voter' AND target = votes.voter)
              OR (kind = 'session' AND target = votes.session)
              OR (kind = 'vote' AND target = votes.ticket)
       ) AS is_removed
FROM votes JOIN tickets ON tickets.ticket = votes.ticket
ORDER BY votes.number
"""


STORE = Format(
    name="vote-store",
    title="vote store of arena-kit",
    follows="arena-kit 0.1",
    needs=("arena", "tickets", "votes", "voters", "removals"),
    also=(
        "ticket", "model_a", "model_b", "choice", "question", "dimension", "session", "voter",
        "lane", "cast_at", "is_removed",
    ),
    battles={
        "model_a": "model_a",
        "model_b": "model_b",
        "winner": "CASE choice WHEN 'A' THEN 'model_a' WHEN 'B' THEN 'model_b' "
        "WHEN 'TIE' THEN 'tie' WHEN 'BOTH_BAD' THEN 'both_bad' ELSE choice END",
        "question_id": "question",
        "dimension": "dimension",
        "battle_id": "ticket",
        "session": "session",
        "voter": "voter",
        "lane": "lane",
        "timestamp": "cast_at",
        "source": "'human'",
    },
    left_out={
        "votes that were removed": "is_removed = '1'",
        "skipped pairs": "choice = 'SKIP' AND is_removed = '0'",
    },
    load=partial(query_columns, query=_VOTES),
    note="removed votes and skipped pairs are left out, as in an export",
)  # fmt: skip
