"""What models lack on prompts, kept row by row: a row is worked out anew when its votes change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from arena_kit.policy.constants import PromptFloors
from arena_kit.policy.exposure import Bools, Counts, Floats

_AT_ONCE = 1024  # prompts looked at together


class PromptGaps:
    """The part of its floor or target that each model lacks on each prompt it can be shown on.

    Models of the contender band are held to the target (7.2). `by_prompt` are the decisive votes
    of each model on each prompt, `can` says where a model may be shown, and `active` which prompts
    count. Whoever changes the votes of a model says so with `forget`.
    """

    def __init__(self, rule: PromptFloors, can: Bools, active: Bools, by_prompt: Counts) -> None:
        self._rule, self._can, self._active, self._by_prompt = rule, can, active, by_prompt
        n = len(by_prompt)
        self._never = rule.top_target + 1  # the level where a model cannot be shown
        wanted = rule.floor, rule.top_target
        self._lacks = np.stack([_lacks(each, self._never) for each in wanted])
        self._levels = np.zeros(by_prompt.shape, np.min_scalar_type(self._never))
        self._known, self._in_band = np.zeros(n, bool), np.zeros(n, np.intp)
        self._total, self._most = np.zeros(n), np.zeros(n)
        self._covered = np.zeros(n, np.int64)

    def forget(self, models: Iterable[int]) -> None:
        """Work these models out anew at the next look."""
        self._known[list(models)] = False

    def look(self, band: NDArray[np.intp]) -> None:
        """Take in what changed since the last look, with this contender band."""
        in_band = np.zeros_like(self._in_band)
        in_band[band] = 1
        self._known &= in_band == self._in_band
        self._in_band = in_band
        for model in np.flatnonzero(~self._known).tolist():
            votes = self._by_prompt[model]
            level = np.minimum(votes, self._rule.top_target)
            self._levels[model] = np.where(self._can[model], level, self._never)
            lack = self.of(model)
            self._total[model] = np.maximum(lack, 0).sum()
            self._most[model] = lack.max(initial=-np.inf)
            self._covered[model] = np.count_nonzero((votes >= self._rule.floor) & self._active)
        self._known[:] = True

    def of(self, model: int) -> Floats:
        """What a model lacks on each prompt, -inf where it cannot be shown."""
        lack: Floats = self._lacks[self._in_band[model]].take(self._levels[model])
        return lack

    @property
    def total(self) -> Floats:
        """What each model lacks on all prompts together, as a share of them."""
        share: Floats = self._total / max(1, self._by_prompt.shape[1])
        return share

    @property
    def coverage(self) -> Floats:
        """The share of active prompts on which each model has the floor (7.2)."""
        share: Floats = self._covered / np.count_nonzero(self._active)
        return share

    def most_with(self, model: int, mates: Bools) -> Floats:
        """The most that the model and each of its mates lack together on one prompt.

        Prompts on which the model lacks most come first, and none is looked at any more once no
        mate can lack more.
        """
        most = np.full(len(mates), -np.inf)
        for lack, prompts in self._falling(model):
            others = np.flatnonzero(mates & (most < lack + self._most))
            if not len(others):
                break
            levels = self._levels.take(prompts, axis=1)[others]
            best = self._lacks[self._in_band[others, None], levels].max(axis=1)
            most[others] = np.maximum(most[others], lack + best)
        return most

    def _falling(self, model: int) -> Iterator[tuple[float, NDArray[np.intp]]]:
        """What the model lacks, the most first, and some of the prompts on which it does."""
        lacks, levels = self._lacks[self._in_band[model]], self._levels[model]
        enough = int(np.flatnonzero(lacks == 0)[0])
        for n in range(enough + 1):
            same = levels == n if n < enough else (levels >= n) & (levels < self._never)
            prompts = same.nonzero()[0]
            for start in range(0, len(prompts), _AT_ONCE):
                yield float(lacks[n]), prompts[start : start + _AT_ONCE]


def _lacks(wanted: int, never: int) -> Floats:
    """The part of the wanted votes that is lacking at each level, which are votes but the last."""
    return np.append(np.maximum(0.0, 1 - np.arange(never) / wanted), -np.inf)
