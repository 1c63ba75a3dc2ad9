"""A small arena of four models for tests of votes."""

from __future__ import annotations

from arena_kit.policy.constants import Policy
from arena_kit.voting.live import Limits, LiveArena
from arena_kit.voting.store import VoteStore
from arena_kit.voting.texts import ArenaTexts

MODELS = ("aspen", "birch", "cedar", "dogwood")
PROMPTS = tuple(f"q-{n}" for n in range(6))
OFTEN = Limits(per_minute=10**6, per_day=10**6)


def texts(*models: str, changed: str = "") -> ArenaTexts:
    """Texts that name no model; `changed` is added to every response."""
    names = models or MODELS
    return ArenaTexts(
        name="small",
        models=names,
        prompts={prompt: f"What is {prompt}?" for prompt in PROMPTS},
        responses={
            (model, prompt): f"It is number {n}.{k}.{changed}"
            for n, model in enumerate(names)
            for k, prompt in enumerate(PROMPTS)
        },
        providers={"aspen": "north", "birch": "north", "cedar": "south"},
        private=("birch",),
    )


def live(
    address: str,
    shown: ArenaTexts | None = None,
    *,
    limits: Limits = OFTEN,
    policy: Policy | None = None,
) -> LiveArena:
    """An arena on the store at an address."""
    store = VoteStore.open(address)
    return LiveArena(store, shown or texts(), policy or Policy(), limits=limits, seed=5)
