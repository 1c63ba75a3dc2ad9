"""The live board: where models stand after the last vote, who was shown how often, and both as the
researcher's page shows them.

Exposure is audited per provider (7.1); a new arena on the export repeats it.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.policy.constants import Policy
from arena_kit.policy.coverage import Coverage, ExposureFairness
from arena_kit.policy.rules import PublicationStatus, publication_status
from arena_kit.rating.base import RatingError
from arena_kit.rating.glicko2 import GlickoState
from arena_kit.reporting.policy_tables import to_board
from arena_kit.validity.leaderboard import Leaderboard, leaderboard
from arena_kit.voting.export import battle_log
from arena_kit.voting.records import StoredVote, counted
from arena_kit.voting.texts import ArenaTexts

#: Where no provider is named.
UNNAMED = "(no provider named)"


def audit_exposure(
    battles: BattleLog, texts: ArenaTexts, fairness: Collection[ExposureFairness]
) -> list[dict[str, Any]]:
    """A row per provider, most shown first, given what each matched model was shown and is due.

    `shown` counts all votes on its models, `share` is their part of all showings. `exposure` is
    that of its matched models in the rolling window, beside the target that the lanes leave them
    and an equal one (2W / M each); it is fair (`within`) inside the policy's tolerance. `outside`
    are its models that are not, each by itself. `private` (published nowhere else) and `withdrawn`
    (matched no more) are its models of that kind with their votes.
    """
    sides = np.bincount(np.append(battles.a, battles.b), minlength=len(battles.models))
    shown = Counter(dict(zip(battles.models, sides.tolist(), strict=True)))
    withdrawn = sorted({*shown, *texts.withdrawn} - {*texts.models})
    provider = {m: texts.providers.get(m, UNNAMED) for m in [*texts.models, *withdrawn]}
    rows = []
    for name in sorted({*provider.values()}):
        own = [model for model in provider if provider[model] == name]
        matched = [each for each in fairness if each.model in own]
        exposure, target = sum(f.exposure for f in matched), sum(f.target for f in matched)
        tolerance = max((each.tolerance for each in matched), default=0.0)
        count = sum(shown[model] for model in own)
        row = {
            "provider": name,
            "models": [each.model for each in matched],
            "private": {model: shown[model] for model in own if model in texts.private},
            "withdrawn": {model: shown[model] for model in own if model in withdrawn},
            "shown": count,
            "share": count / max(1, shown.total()),
            "exposure": exposure,
            "target": target,
            "equal_target": sum(each.equal_target for each in matched),
            "within": abs(exposure - target) <= tolerance * target + 1e-9,
            "outside": [each.model for each in matched if not each.within],
        }
        rows.append(row)
    return sorted(rows, key=lambda row: (-row["shown"], row["provider"]))


@dataclass(frozen=True, kw_only=True, eq=False)
class LiveBoard:
    """An arena after its last vote; a replay of its export gives the same, to the last digit.

    `ratings` and `elo` are of the models that may be matched, `order` is as published. `votes` are
    those that count; `skips` and `removed` count the others, `waiting` the matchups handed out.
    `due` is the exposure that each model is due in the rolling window.
    What is a property is computed when it is asked for.
    """

    policy: Policy
    texts: ArenaTexts = field(repr=False)
    ratings: Mapping[str, GlickoState]
    elo: Mapping[str, float]
    order: tuple[str, ...]
    coverage: Coverage
    due: Mapping[str, float]
    votes: tuple[StoredVote, ...] = field(repr=False)
    skips: int
    removed: int
    waiting: int

    @cached_property
    def battles(self) -> BattleLog:
        """The votes that count, as battles."""
        return battle_log(self.votes)

    @cached_property
    def status(self) -> PublicationStatus:
        """What the board may be called."""
        standings = self.coverage.standings(self.ratings)
        return publication_status(self.policy, standings, self.coverage.pair)

    @cached_property
    def leaderboard(self) -> Leaderboard:
        """The whole leaderboard of the same votes; raises `RatingError` where none is possible."""
        models, prompts = self.texts.models, tuple(self.texts.prompts)
        return leaderboard(self.battles, self.policy, models=models, prompts=prompts)

    @cached_property
    def exposure(self) -> list[dict[str, Any]]:
        """How often the models of each provider were shown, beside what they are due since they
        joined (7.1): see `audit_exposure`.
        """
        return audit_exposure(self.battles, self.texts, self.coverage.fairness(self.due))


def board_view(live: LiveBoard, voters: int) -> dict[str, Any]:
    """The board as the researcher's page shows it: sentences, the forest of Bradley–Terry (model,
    rating, both ends of its 95 % interval) and tables, as JSON holds them.
    """
    by = f"conservative score, the raw rating − {live.policy.deviations:g} RD (few votes lower it)"
    if live.policy.phase.orders_by == "legacy_elo":
        by = "legacy Elo"
    tables = []
    sentences = [f"The board is {live.status.sentence}.", f"Models are ordered by {by}."]
    forest: list[tuple[Any, ...]] = []
    with suppress(RatingError):  # too few votes to rate anybody
        rows = live.leaderboard.rows
        forest = [(r.model, r.bt_rating, r.bt_low, r.bt_high) for r in rows if r.bt_rating]
        board = to_board(live.leaderboard, live.texts.name)
        tables.append(_table("Models in the published order", board.table().rows))
    if live.votes:
        tables.append(_table("Exposure by provider", _provider_rows(live.exposure)))
        for kind in ("private", "withdrawn"):
            votes = sorted((model, n) for row in live.exposure for model, n in row[kind].items())
            models = ", ".join(f"{model} ({n:,} votes)" for model, n in votes)
            sentences += [f"{kind.capitalize()}: {models}."] if models else []
    counts = [
        f"{counted(len(live.votes), 'vote')} of {counted(voters, 'voter')}",
        f"{counted(live.waiting, 'pair')} waiting",
        *([f"{live.skips:,} skipped"] if live.skips else []),
        *([f"{live.removed:,} removed"] if live.removed else []),
    ]
    state = ", ".join(counts)
    return {"state": state, "sentences": sentences, "forest": forest, "tables": tables}


def _provider_rows(audit: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    return [
        {
            "provider": row["provider"],
            "models": len(row["models"]),
            "shown": row["shown"],
            "share": f"{100 * row['share']:.0f}%",
            "in the window": row["exposure"],
            "due": round(row["target"]),
            "exposure": "fair" if row["within"] else "outside its bounds",
        }
        for row in audit
    ]


def _table(title: str, rows: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    columns = list(rows[0]) if rows else []
    return {"title": title, "columns": columns, "rows": [list(row.values()) for row in rows]}
