"""A world with planted skills: models, prompts and voters whose truth is known."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as settings

from arena_kit.battles.battle import OUTCOMES, Outcome
from arena_kit.policy.constants import STRICT, Count, NonNegative, Positive, Share
from arena_kit.policy.exposure import Bools, Counts
from arena_kit.rating.glicko2.replay import SCALE

Floats = NDArray[np.float64]

_CENTRE = 1500.0
_EARLIEST, _LATEST = 0.3, 0.5  # when newcomers join, as parts of the whole


@settings(frozen=True, slots=True, kw_only=True, config=STRICT)
class World:
    """The settings of a simulated arena; strengths are in rating points around 1500.

    Parameters
    ----------
    models, prompts, matchups
        How many there are; newcomers are among the models.
    newcomers
        Models that join between 30 % and 50 % of the matchups, one after the other.
    skill_sd, prompt_sd
        How far skills spread over models, and how far a model's response to one prompt lies
        from its skill.
    tie_gap
        A voter who sees two responses closer than this calls a tie.
    bad_below, bad_sd
        The quality floor: a voter who sees both responses below it calls both bad. It
        differs by prompt, with this mean and spread.
    noise
        Share of voters who press one of the four buttons at random.
    session_length
        Mean number of matchups that a voter sees.
    answered
        Share of prompts that a model has a response to; the first prompt is answered by all.
    """

    models: Annotated[int, Field(ge=2)] = 20
    prompts: Count = 15
    matchups: Count = 6000
    newcomers: Annotated[int, Field(ge=0)] = 2
    skill_sd: Positive = 120.0
    prompt_sd: NonNegative = 60.0
    tie_gap: NonNegative = 60.0
    bad_below: float = 1430.0
    bad_sd: NonNegative = 40.0
    noise: Share = 0.1
    session_length: Annotated[float, Field(ge=1, le=1e9)] = 8.0
    answered: Annotated[float, Field(gt=0, le=1)] = 1.0

    def __post_init__(self) -> None:
        if self.newcomers > self.models - 2:
            most = self.models - 2
            raise ValueError(f"newcomers must be at most {most}, as 2 models begin")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Planted:
    """A world with everything drawn that matchmaking has no say in.

    Parameters
    ----------
    quality, answered
        A row per model and a column per prompt: how good the response is, and whether there
        is one.
    truth
        How good each model is: the mean quality of its responses.
    floor
        The quality below which a response to a prompt is bad.
    joins
        How many matchups there are before each model joins.
    left, right, button, session
        What each matchup's voter brings along, whoever is shown: how much better than it is each
        response appears, what one who votes at random presses (-1 for those who look), and the
        voter's name.
    """

    world: World
    models: tuple[str, ...]
    prompts: tuple[str, ...]
    quality: Floats
    answered: Bools
    truth: Floats
    floor: Floats
    joins: Counts
    left: Floats
    right: Floats
    button: Counts
    session: tuple[str, ...]

    def vote(self, number: int, a: int, b: int, prompt: int) -> Outcome:
        """What the voter of a matchup says of two models on a prompt.

        Both responses appear with an error of their own, drawn from a Gumbel distribution.
        So one that appears better does so with the odds of Bradley and Terry, and whether
        both appear bad says nothing about which of them is better.
        """
        if self.button[number] >= 0:
            return OUTCOMES[int(self.button[number])]
        left = self.quality[a, prompt] + self.left[number]
        right = self.quality[b, prompt] + self.right[number]
        if max(left, right) < self.floor[prompt]:
            return Outcome.BOTH_BAD
        if abs(left - right) < self.world.tie_gap:
            return Outcome.TIE
        return Outcome.MODEL_A if left > right else Outcome.MODEL_B


def planted(world: World, rng: np.random.Generator) -> Planted:
    """Draw a world."""
    shape = world.models, world.prompts
    skill = rng.normal(_CENTRE, world.skill_sd, world.models)
    quality = skill[:, None] + rng.normal(0, world.prompt_sd, shape)
    answered = rng.random(shape) < world.answered
    answered[:, 0] = True
    return Planted(
        world=world,
        models=_names("model", world.models),
        prompts=_names("prompt", world.prompts),
        quality=quality,
        answered=answered,
        truth=np.average(quality, axis=1, weights=answered),
        floor=rng.normal(world.bad_below, world.bad_sd, world.prompts),
        joins=_joins(world, rng),
        **_voters(world, rng),
    )


def _names(what: str, n: int) -> tuple[str, ...]:
    """Numbered names whose alphabetical order is that of the numbers."""
    return tuple(f"{what}-{i:0{len(str(n))}}" for i in range(1, n + 1))


def _joins(world: World, rng: np.random.Generator) -> Counts:
    joins = np.zeros(world.models, np.int64)
    late = rng.permutation(world.models)[: world.newcomers]
    joins[late] = np.linspace(_EARLIEST, _LATEST, world.newcomers) * world.matchups
    return joins


def _voters(world: World, rng: np.random.Generator) -> dict[str, Any]:
    lengths = rng.geometric(1 / world.session_length, world.matchups)
    ends = np.cumsum(np.minimum(lengths, world.matchups))
    voter = np.searchsorted(ends, np.arange(world.matchups), side="right")
    blind = rng.random(world.matchups) < world.noise
    button = rng.integers(len(OUTCOMES), size=world.matchups)
    width = len(str(world.matchups))
    return {
        "left": rng.gumbel(0, SCALE, world.matchups),
        "right": rng.gumbel(0, SCALE, world.matchups),
        "button": np.where(blind[voter], button, -1),
        "session": tuple(f"voter-{v + 1:0{width}}" for v in voter.tolist()),
    }
