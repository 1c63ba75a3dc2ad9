"""A tournament judged in rounds, each where it decides most: a loop over the usual steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.judging.asking.cost import booked
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.verdicts.records import Judgment, Presentation, presentations, to_battles
from arena_kit.matchmaking.adaptive import AdaptiveRounds, Round, Table
from arena_kit.rating.base import rated_or_none
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.runs.settings.parameters import AdaptiveParams
from arena_kit.runs.tournament.judge import Judgments
from arena_kit.runs.tournament.plan import Plan


@dataclass(frozen=True, kw_only=True)
class _Dimension:
    """One dimension while it is judged: its calls as a table, and the rounds so far."""

    cells: Mapping[Pair, tuple[int, int]]
    table: Table
    rounds: tuple[Round, ...] = ()

    @classmethod
    def of(cls, pairs: Sequence[Pair], plan: Plan) -> _Dimension:
        models = tuple(sorted(plan.tournament.entrants))
        prompts = dict.fromkeys(pair.prompt_id for pair in pairs)
        column = {prompt: i for i, prompt in enumerate(prompts)}
        possible = np.zeros((len(models) * (len(models) - 1) // 2, len(prompts), 2), bool)
        axes = plan.strata.values()
        labels = [str([axis.get(prompt) for axis in axes]) for prompt in prompts]
        strata = np.unique(labels, return_inverse=True)[1]
        table = Table(models, possible, possible.copy(), np.full(possible.shape, np.nan), strata)
        row = {(models[i], models[j]): n for n, (i, j) in enumerate(table.pairs)}
        cells = {p: (row[p.entrant_a, p.entrant_b], column[p.prompt_id]) for p in pairs}
        for cell in cells.values():
            table.possible[cell] = True
        return cls(cells=cells, table=table)

    def chosen(self, method: AdaptiveRounds) -> list[Presentation]:
        """The calls of the next round, in the order of the table; none at the end."""
        rated = self.rounds[-1].ratings if self.rounds else None
        calls = method.next(self.table, rated) if rated else method.first(self.table)
        pairs = sorted(self.cells, key=self.cells.__getitem__)
        return [
            shown
            for pair in pairs
            for shown, wanted in zip(presentations(pair), calls[self.cells[pair]], strict=True)
            if wanted
        ]

    def after(
        self,
        judgments: Sequence[Judgment],
        battles: BattleLog,
        rating: BradleyTerry,
        method: AdaptiveRounds,
    ) -> _Dimension:
        """With all that was judged so far, rated."""
        table = replace(self.table, made=self.table.made.copy(), shares=self.table.shares.copy())
        for judgment in judgments:
            for verdict in judgment.verdicts:
                order = int(verdict.presentation.first != judgment.pair.entrant_a)
                cell = (*self.cells[judgment.pair], order)
                named = verdict.winning_entrant
                table.made[cell] = True
                if verdict.winner:
                    table.shares[cell] = 0.5 if named is None else named == judgment.pair.entrant_a
        whole = battles.models == table.models
        ratings = rated_or_none(rating, battles) if whole else None
        known = Round(
            number=len(self.rounds) + 1,
            calls=int(table.made.sum()),
            ratings=ratings,
            neighbours=tuple(method.neighbours(table, ratings) if ratings else ()),
        )
        return replace(self, table=table, rounds=(*self.rounds, known))

    def why_stopped(self, margin: float) -> str:
        """Why judging stopped."""
        if not self.rounds or self.rounds[-1].ratings is None:
            return "the battles so far give no rating"
        standings = {pair.standing for pair in self.rounds[-1].neighbours}
        if standings <= {"decided", "equivalent"}:
            return "every adjacent pair is decided" + (" or equivalent" if margin else "")
        if not self.table.left.any():
            return "every call was made"
        if "unresolved" not in standings:
            return "the remaining calls are unlikely to resolve any order"
        return "the limit on cost or rounds was reached"


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """The rounds of a tournament so far, and the `calls` of the next one, each a pair in one order;
    none at the end.

    Begin with `Rounds.of(plan)`, make its calls, and go on with `after`. A round is chosen from
    what the rounds before it gave, so that a run that is resumed makes the same calls again,
    which the ledger answers.
    """

    plan: Plan = field(repr=False)
    method: AdaptiveRounds
    max_rounds: int
    calls: tuple[Presentation, ...] = field(repr=False)
    _dimensions: Mapping[str, _Dimension] = field(repr=False)

    @classmethod
    def of(cls, plan: Plan) -> Rounds:
        """Before the first round of a plan of the `adaptive` notebook."""
        params = plan.params
        if not isinstance(params, AdaptiveParams):
            raise DataError(f"rounds need a plan of 'adaptive', not of {plan.mode!r}")
        shared = params.shared_with(AdaptiveRounds)
        method = AdaptiveRounds(**shared, margin=plan.tournament.report.margin)
        dimensions = {
            name: _Dimension.of([p for p in plan.pairing.pairs if p.dimension == name], plan)
            for name in plan.tournament.dimensions
        }
        return cls(
            plan=plan,
            method=method,
            max_rounds=params.max_rounds,
            calls=_chosen(dimensions, method, params.max_rounds),
            _dimensions=dimensions,
        )

    def after(self, judgments: Judgments) -> Rounds:
        """With this round judged, and the next one chosen, as far as there is money for it."""
        battles = to_battles(judgments)
        logs = battles.by_dimension() if len(battles) else {}
        rating, dimensions = self.plan.rating["method"], dict(self._dimensions)
        for name in {shown.pair.dimension for shown in self.calls}:
            own = [each for each in judgments if each.pair.dimension == name]
            log = logs.get(name, battles.select([]))
            dimensions[name] = dimensions[name].after(own, log, rating, self.method)
        chosen = _chosen(dimensions, self.method, self.max_rounds)
        calls = _affordable(self.plan, chosen, judgments.record.token)
        return replace(self, calls=calls, _dimensions=dimensions)

    @property
    def history(self) -> dict[str, tuple[Round, ...]]:
        """The rounds of each dimension."""
        return {name: each.rounds for name, each in self._dimensions.items()}

    @property
    def stopped(self) -> dict[str, str]:
        """Why judging of each dimension stopped, in words."""
        margin = self.method.margin
        return {name: each.why_stopped(margin) for name, each in self._dimensions.items()}

    @property
    def sentence(self) -> str:
        """How many calls it took, and how many pairs were shown in one order only."""
        asked = np.concatenate(
            [d.table.made.sum(axis=2).ravel() for d in self._dimensions.values()]
        )
        made, full = int(asked.sum()), 2 * len(self.plan.pairing.pairs)
        return (
            f"Calls: {made:,} of {full:,} were made ({made / max(1, full):.0%}); "
            f"{(asked == 2).sum():,} pairs were judged in both orders, "
            f"{(asked == 1).sum():,} in one and {full // 2 - (asked > 0).sum():,} in none."
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for rounds.json."""
        rounds = {name: [each.as_dict() for each in of] for name, of in self.history.items()}
        return {"rounds": rounds, "stopped": self.stopped}


def _chosen(
    dimensions: Mapping[str, _Dimension], method: AdaptiveRounds, most: int
) -> tuple[Presentation, ...]:
    """The calls of the next round of all dimensions; none once the rounds are used up."""
    going_on = [each for each in dimensions.values() if len(each.rounds) < most]
    return tuple(shown for each in going_on for shown in each.chosen(method))


def _affordable(plan: Plan, calls: Sequence[Presentation], run: str) -> tuple[Presentation, ...]:
    """The first calls that what is left of the money pays for; all where nothing costs."""
    if plan.budget is None or not plan.spends:
        return tuple(calls)
    left = plan.params.max_cost_usd - booked(plan.ledger, run)
    requests = plan.material.requests(calls)
    fresh = plan.unanswered(requests)
    costs = dict(zip(map(id, fresh), plan.budget.forecast_each(fresh), strict=True))
    totals = np.cumsum([costs.get(id(request), 0.0) for request in requests])
    return tuple(shown for shown, total in zip(calls, totals, strict=True) if total <= left)
