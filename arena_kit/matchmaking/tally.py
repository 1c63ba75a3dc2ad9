"""Coverage kept up to date vote by vote."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

import numpy as np

from arena_kit.battles import BOTH_BAD, OUTCOMES, TIE, Outcome
from arena_kit.matchmaking.coverage import Counts, Coverage
from arena_kit.matchmaking.policy import Policy


class CoverageTally:
    """Votes counted as they come; `coverage()` is then what `Coverage.of` finds in their log.

    Models and prompts are numbered in the order in which they are first seen.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.models: dict[str, int] = {}
        self.prompts: dict[str, int] = {}
        self.votes, self.ties, self.both_bad, self.exposure = (_zeros(0) for _ in range(4))
        self.by_prompt, self.by_pair = _zeros(0, 0), _zeros(0, 0)
        self._cells: dict[tuple[int, int, int], int] = {}
        self._window: deque[tuple[int, int]] = deque()

    def model(self, name: str) -> int:
        """The number of a model, which is counted from now on."""
        if name not in self.models:
            self.models[name] = len(self.models)
            for per_model in ("votes", "ties", "both_bad", "exposure"):
                setattr(self, per_model, np.append(getattr(self, per_model), 0))
            self.by_prompt = np.pad(self.by_prompt, ((0, 1), (0, 0)))
            self.by_pair = np.pad(self.by_pair, (0, 1))
        return self.models[name]

    def prompt(self, name: str) -> int:
        """The number of a prompt, which is counted from now on."""
        if name not in self.prompts:
            self.prompts[name] = len(self.prompts)
            self.by_prompt = np.pad(self.by_prompt, ((0, 0), (0, 1)))
        return self.prompts[name]

    @property
    def matchups(self) -> int:
        """The matchups in the rolling window."""
        return len(self._window)

    def add(self, model_a: str, model_b: str, prompt: str | None, outcome: Outcome) -> None:
        """Count one vote."""
        if model_a == model_b:
            raise ValueError(f"a vote needs two different models, but both are {model_a!r}")
        number = -1 if prompt is None else self.prompt(prompt)
        self.count(self.model(model_a), self.model(model_b), number, OUTCOMES.index(outcome))

    def count(self, a: int, b: int, prompt: int, outcome: int) -> None:
        """Count one vote given in numbers; -1 is no prompt."""
        for side in (a, b):
            self.votes[side] += 1
            if outcome == TIE:
                self.ties[side] += 1
            elif outcome == BOTH_BAD:
                self.both_bad[side] += 1
        self._show(a, b)
        if outcome < TIE:
            self._decide(min(a, b), max(a, b), prompt)

    def _show(self, a: int, b: int) -> None:
        if len(self._window) == self.policy.exposure.window:
            for side in self._window.popleft():
                self.exposure[side] -= 1
        self._window.append((a, b))
        self.exposure[a] += 1
        self.exposure[b] += 1

    def _decide(self, low: int, high: int, prompt: int) -> None:
        self.by_pair[low, high] += 1
        self.by_pair[high, low] += 1
        if prompt >= 0:
            self.by_prompt[low, prompt] += 1
            self.by_prompt[high, prompt] += 1
            cell = low, high, prompt
            self._cells[cell] = self._cells.get(cell, 0) + 1

    def coverage(
        self, models: Collection[str] | None = None, prompts: Collection[str] | None = None
    ) -> Coverage:
        """The coverage so far; `models` are enabled and `prompts` active, by default all."""
        for model in models or ():
            self.model(model)
        for prompt in prompts or ():
            self.prompt(prompt)
        rows, columns = sorted(self.models), sorted(self.prompts)
        row, column = [self.models[m] for m in rows], [self.prompts[p] for p in columns]
        cells, cell_votes = self._sorted_cells(np.argsort(row), np.argsort(column))
        pair_prompts = _zeros(len(rows), len(rows))
        np.add.at(pair_prompts, (cells[:, 0], cells[:, 1]), 1)
        by_pair = self.by_pair[np.ix_(row, row)]
        return Coverage(
            policy=self.policy,
            models=tuple(rows),
            prompts=tuple(columns),
            enabled=np.array([models is None or m in models for m in rows], bool),
            active=np.array([prompts is None or p in prompts for p in columns], bool),
            votes=self.votes[row],
            decisive=by_pair.sum(axis=1),
            ties=self.ties[row],
            both_bad=self.both_bad[row],
            exposure=self.exposure[row],
            matchups=self.matchups,
            by_prompt=self.by_prompt[np.ix_(row, column)],
            by_pair=by_pair,
            pair_prompts=pair_prompts + pair_prompts.T,
            cells=cells,
            cell_votes=cell_votes,
        )

    def _sorted_cells(self, row_of: Counts, column_of: Counts) -> tuple[Counts, Counts]:
        """The cells under the numbers of sorted names, in order."""
        found = np.array(list(self._cells), np.int64).reshape(-1, 3)
        pairs = np.sort(row_of[found[:, :2]], axis=1)
        cells = np.column_stack([pairs, column_of[found[:, 2]]]).astype(np.int64)
        order = np.lexsort(cells.T[::-1])
        return cells[order], np.array(list(self._cells.values()), np.int64)[order]


def _zeros(*shape: int) -> Counts:
    return np.zeros(shape, np.int64)
