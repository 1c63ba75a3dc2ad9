"""A tournament judged in rounds, each where it decides most. The adaptive notebook's door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.files import write_json
from arena_kit.judging.asking.cost import booked
from arena_kit.judging.judges.base import cache_keys
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.verdicts.records import JudgeRequest, Judgment
from arena_kit.judging.verdicts.settle import to_battles
from arena_kit.matchmaking.adaptive import AdaptiveRounds, Calls, Round, Table
from arena_kit.rating.base import rated_or_none
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.claims import claims
from arena_kit.runs.record.progress import Progress
from arena_kit.runs.record.record import Record
from arena_kit.runs.settings.parameters import AdaptiveParams
from arena_kit.runs.tournament.study import Study

MODE = "adaptive"


@dataclass(kw_only=True)
class _Dimension:
    """One dimension while it is judged: its calls as a table, and the rounds so far."""

    cells: dict[Pair, tuple[int, int]]
    table: Table
    rounds: list[Round] = field(default_factory=list)

    @classmethod
    def of(cls, pairs: Sequence[Pair], entrants: Sequence[str]) -> _Dimension:
        models = tuple(sorted(entrants))
        prompts = dict.fromkeys(pair.prompt_id for pair in pairs)
        column = {prompt: i for i, prompt in enumerate(prompts)}
        made = np.zeros((len(models) * (len(models) - 1) // 2, len(prompts)), bool)
        table = Table(models, made.copy(), made)
        row = {(models[i], models[j]): n for n, (i, j) in enumerate(table.pairs)}
        cells = {p: (row[p.entrant_a, p.entrant_b], column[p.prompt_id]) for p in pairs}
        for cell in cells.values():
            table.possible[cell] = True
        return cls(cells=cells, table=table)

    def chosen(self, rounds: AdaptiveRounds) -> Calls:
        """The calls of the next round; none at the end."""
        if not self.rounds or self.rounds[-1].ratings is None:
            return rounds.first(self.table)
        return rounds.next(self.table, self.rounds[-1].ratings)

    def pairs_of(self, calls: Calls) -> list[Pair]:
        """The pairs that these calls judge, in the order of the table."""
        chosen = [pair for pair, cell in self.cells.items() if calls[cell]]
        return sorted(chosen, key=self.cells.__getitem__)

    def learn(
        self,
        pairs: Sequence[Pair],
        battles: BattleLog,
        method: BradleyTerry,
        rounds: AdaptiveRounds,
    ) -> None:
        """Count these calls as made, and rate what all of them gave."""
        made = self.table.made.copy()
        for pair in pairs:
            made[self.cells[pair]] = True
        self.table = replace(self.table, made=made)
        whole = battles.models == self.table.models
        ratings = rated_or_none(method, battles) if whole else None
        known = rounds.neighbours(self.table, ratings) if ratings else []
        self.rounds.append(
            Round(
                number=len(self.rounds) + 1,
                calls=int(made.sum()),
                ratings=ratings,
                neighbours=tuple(known),
            )
        )


@dataclass(frozen=True, kw_only=True)
class AdaptiveStudy(Study):
    """A tournament judged in rounds until its order is decided, or money or calls run out.

    A round is chosen from what the rounds before it gave, so that a run that is resumed makes the
    same calls again, which the ledger answers.
    """

    _judged: dict[str, _Dimension] = field(default_factory=dict, repr=False)

    @property
    def params(self) -> AdaptiveParams:
        """What this run was told."""
        return cast("AdaptiveParams", self.plan.params)

    @property
    def choosing(self) -> AdaptiveRounds:
        """How calls are chosen, and when neighbours are decided."""
        return self.params.rounds()

    @property
    def rounds(self) -> dict[str, list[Round]]:
        """The rounds of each dimension; judges them where that has not been done."""
        _ = self.judgments
        return {name: each.rounds for name, each in self._judged.items()}

    @cached_property
    def stopped(self) -> dict[str, str]:
        """Why each dimension was judged no further, in words."""
        _ = self.judgments
        return {name: _why(each, self.choosing) for name, each in self._judged.items()}

    def _found(self, mode: str) -> list[str]:
        """The answer per dimension, and how many judgments it took."""
        made, full = len(self.judgments), len(self.plan.pairing.pairs)
        effort = f"{made:,} of {full:,} pairs were judged ({made / max(1, full):.0%})."
        return [*super()._found(mode), f"Judgments: {effort}"]

    def facts(self) -> dict[str, str]:
        """What is judged by whom, in words."""
        rounds = self.choosing
        return super().facts() | {
            "requests": f"at most {2 * len(self.plan.pairing.pairs)}, in rounds",
            "decided": f"neighbours {claims.neighbour_score():.2f} standard errors apart, or more, "
            f"in any round{f'; equivalent within {rounds.margin:g} points' * bool(rounds.margin)}",
        }

    def save(self) -> Record:
        """Write the result artifacts and `rounds.json`, then close the record as any study does."""
        with self.record.failing(self._on_failure):
            rounds = {n: [each.as_dict() for each in of] for n, of in self.rounds.items()}
            write_json(
                self.record.path / "rounds.json", {"rounds": rounds, "stopped": self.stopped}
            )
        return super().save()

    def _bulk(self) -> list[JudgeRequest]:
        """The first round, which is all that is certain."""
        self._begin()
        return self.plan.unanswered(self.plan.material.requests(self._wanted()))

    def _begin(self) -> None:
        """Lay out the calls of every dimension; none is made yet."""
        for name in self.dimensions:
            own = [pair for pair in self.plan.pairing.pairs if pair.dimension == name]
            self._judged[name] = _Dimension.of(own, self.plan.tournament.entrants)

    def _judge(self, progress: Progress) -> list[Judgment]:
        """Judge round after round, all dimensions in one."""
        self._begin()
        dimensions = self._judged
        judgments: list[Judgment] = []
        method = self.plan.tournament.elo.strengths()
        while wanted := self._affordable(self._wanted()):
            judgments += self._asked(wanted, progress)
            battles = to_battles(judgments)
            logs = battles.by_dimension() if len(battles) else {}
            for name, each in dimensions.items():
                own = [pair for pair in wanted if pair.dimension == name]
                if own:
                    log = logs.get(name, battles.select([]))
                    each.learn(own, log, method, self.choosing)
        return judgments

    def _wanted(self) -> list[Pair]:
        """The pairs of the next round of all dimensions; none once the rounds are used up."""
        rounds, wanted = self.choosing, []
        for each in self._judged.values():
            if len(each.rounds) < self.params.max_rounds:
                wanted += each.pairs_of(each.chosen(rounds))
        return wanted

    def _affordable(self, pairs: list[Pair]) -> list[Pair]:
        """The first pairs that what is left of the money pays for; all where nothing costs, and of
        the first round, which is refused where it is too dear.
        """
        budget, begun = self.plan.budget, any(each.rounds for each in self._judged.values())
        if budget is None or not self.plan.spends or not begun:
            return pairs
        ledger, run = self.plan.ledger, self.record.token
        left = self.params.max_cost_usd - booked(ledger, run)
        requests = self.plan.material.requests(pairs)
        keys = cache_keys(self.plan.judge, requests)
        settled = ledger.settled(keys)
        fresh = [r for key, r in zip(keys, requests, strict=True) if key not in settled]
        costs = dict(zip(map(id, fresh), budget.forecast_each(fresh), strict=True))
        both = zip(requests[::2], requests[1::2], strict=True)
        each = [sum(costs.get(id(request), 0.0) for request in two) for two in both]
        return [p for p, total in zip(pairs, np.cumsum(each), strict=True) if total <= left]


def _why(dimension: _Dimension, rounds: AdaptiveRounds) -> str:
    """Why a dimension was judged no further."""
    if not dimension.rounds or dimension.rounds[-1].ratings is None:
        return "no rating exists for what was judged"
    standings = {pair.standing for pair in dimension.rounds[-1].neighbours}
    if standings <= {"decided", "equivalent"}:
        return "every neighbour is decided" + (" or equivalent" if rounds.margin else "")
    if not dimension.table.left.any():
        return "every call was made"
    if "open" not in standings:
        return "the calls that are left would hardly decide what is open"
    return "the money or the rounds that were allowed are used up"
