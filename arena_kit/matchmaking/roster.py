"""The roster: which models may meet on which prompts."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike

from arena_kit.matchmaking.coverage import Bools
from arena_kit.matchmaking.matchup import MatchmakingError


class Roster:
    """Models and prompts under their numbers; new ones are disabled, and inactive, at first.

    `available` says which model has a response to which prompt. `survey` derives from it
    what holds until the next change: `can` (a response to an active prompt, of an enabled
    model), `shared` (prompts on which two models both can), `mates` (who may meet whom),
    `asked` (prompts on which somebody may) and `by_name` (the place of each name by alphabet).
    """

    def __init__(self) -> None:
        self.models: dict[str, int] = {}
        self.prompts: dict[str, int] = {}
        self.model_names: list[str] = []
        self.prompt_names: list[str] = []
        self.enabled, self.active = np.zeros(0, bool), np.zeros(0, bool)
        self.available = np.zeros((0, 0), bool)
        self.survey()

    def add_model(self, name: str) -> int:
        """The number of a model, known or new; a new one has a response to every prompt."""
        if name not in self.models:
            self.models[name] = len(self.models)
            self.model_names.append(name)
            self.enabled = np.append(self.enabled, False)
            self.available = np.pad(self.available, ((0, 1), (0, 0)), constant_values=True)
        return self.models[name]

    def add_prompt(self, name: str) -> int:
        """The number of a prompt, known or new; every model has a response to a new one."""
        if name not in self.prompts:
            self.prompts[name] = len(self.prompts)
            self.prompt_names.append(name)
            self.active = np.append(self.active, False)
            self.available = np.pad(self.available, ((0, 0), (0, 1)), constant_values=True)
        return self.prompts[name]

    def set_enabled(self, model: int, *, enabled: bool = True) -> None:
        """Let a model be matched, or not."""
        self.enabled[model] = enabled

    def set_active(self, prompt: int, *, active: bool = True) -> None:
        """Let a prompt be asked, or not."""
        self.active[prompt] = active

    def set_available(self, table: ArrayLike) -> None:
        """Say for every model and prompt at once whether there is a response."""
        found: Bools = np.array(table, bool)
        if found.shape != self.available.shape:
            rows, columns = self.available.shape
            raise ValueError(
                f"available must have {rows} rows (models) and {columns} columns (prompts), "
                f"not the shape {found.shape}"
            )
        self.available = found

    def set_responses(self, model: str, prompts: Collection[str]) -> None:
        """Say which prompts a model has responses to."""
        _check_known(prompts, self.prompts, "prompt")
        self.available[self.models[model]] = [name in prompts for name in self.prompt_names]

    def set_responders(self, prompt: str, models: Collection[str]) -> None:
        """Say which models have a response to a prompt."""
        _check_known(models, self.models, "model")
        self.available[:, self.prompts[prompt]] = [name in models for name in self.model_names]

    def survey(self) -> None:
        """Derive who may meet whom."""
        self.can: Bools = self.available & self.enabled[:, None] & self.active[None, :]
        self.shared = self.can.astype(np.int64) @ self.can.T.astype(np.int64)
        self.mates: Bools = self.shared > 0
        np.fill_diagonal(self.mates, False)  # noqa: FBT003
        self.asked = np.flatnonzero(self.can.sum(axis=0) >= 2)
        self.by_name = np.argsort(np.argsort(np.array(self.model_names, object)))
        self.n_enabled = int(self.enabled.sum())

    def cause(self) -> str | None:
        """Why no two models can meet, None where some can."""
        if self.n_enabled < 2:
            return f"{self.n_enabled} of {len(self.models)} models enabled, 2 needed"
        if not self.active.any():
            return f"none of {len(self.prompts)} prompts is active"
        if not self.mates.any():
            return "no two enabled models both have a response to the same active prompt"
        return None


def _check_known(given: Collection[str], known: Collection[str], what: str) -> None:
    if isinstance(given, str):
        raise MatchmakingError(f"a list of {what}s is needed, not the text {given!r}")
    if unknown := sorted(set(given) - set(known)):
        raise MatchmakingError(f"unknown {what}s {', '.join(unknown)}; known: {', '.join(known)}")
