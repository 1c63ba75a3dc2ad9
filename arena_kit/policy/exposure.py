"""What each model is due of exposure (7.1), and which settings of the policy can hold together.

The contender lane shows its band more often than others, and only the coverage lane can make
up for that: the other two have rules of their own, which show everybody about equally. So
there is a least share that a member of the band gets, and with many models it lies above
the equal one.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil, floor, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.policy.constants import DECIDES, Glicko, Policy
from arena_kit.rating.glicko2 import SCALE

Bools = NDArray[np.bool_]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureShares:
    """Exposures due to one model per matchup: equally, in the band, and outside of it.

    All models together have 2 per matchup. `band` and `others` are equal where the lanes allow
    that within the tolerance, and lane-adjusted where not: as near to `equal` as they allow.
    """

    equal: float
    band: float
    others: float


def feasibility(policy: Policy, n_models: int, n_prompts: int | None = None) -> tuple[str, ...]:
    """What the policy can guarantee to so many models and prompts, a sentence for each limit."""
    off = "The lanes are off, so every model has the same exposure target."
    newcomers = _newcomer_sentence(policy, n_models) if policy.phase.uses_lanes else off
    reasons = [_exposure_sentence(policy, n_models), newcomers]
    if n_prompts is not None:
        reasons += _prompt_sentences(policy, n_prompts)
    if policy.decide_share:
        reasons.append(_decide_sentence(policy))
    return tuple(reasons)


def stable_rd(policy: Policy) -> float:
    """The RD that the badge Stable allows: the policy's, or the floor of RD where that is higher.

    The floor is where RD settles for a model that wins three of four votes, in whole points: among
    equals it is lower, but who leads meets few equals.
    """
    return max(policy.stable.rd, float(ceil(settled_rd(policy.glicko, wins=0.75))))


def due_shares(policy: Policy, n_models: int) -> ExposureShares:
    """What each model is due in the policy's phase: an equal share until the lanes are on (12)."""
    return exposure_shares(policy, n_models) if policy.phase.uses_lanes else _all_equal(n_models)


def exposure_shares(policy: Policy, n_models: int) -> ExposureShares:
    """What each model is due: 2/M per matchup (7.1) where that is feasible, else adjusted."""
    if equal_is_feasible(policy, n_models):
        return _all_equal(n_models)
    return _lane_adjusted(policy, n_models)


def _lane_adjusted(policy: Policy, n_models: int) -> ExposureShares:
    """What each model gets when the coverage lane compensates as far as it can."""
    band, equal = policy.contenders.band, 2 / max(1, n_models)
    if n_models <= band:
        return _all_equal(n_models)
    least = _from_contender_lane(policy) + _everywhere(policy) / n_models
    most = least + 2 * policy.lanes.coverage / band
    due = min(max(equal, least), most)
    return ExposureShares(equal=equal, band=due, others=(2 - band * due) / (n_models - band))


def equal_up_to(policy: Policy) -> int | None:
    """The most models that can all be shown equally within the tolerance, None for any number.

    A band member's least share relative to the equal one grows with the number of models;
    it may reach 1 + tolerance.
    """
    if not policy.lanes.contender:
        return None
    most = 2 * (1 + policy.exposure.tolerance) - _everywhere(policy)
    n_models = max(policy.contenders.band, floor(most / _from_contender_lane(policy) + 1e-9))
    while not equal_is_feasible(policy, n_models):
        n_models -= 1
    return n_models


def equal_is_feasible(policy: Policy, n_models: int) -> bool:
    """Whether so many models can all be shown equally within the tolerance."""
    shares = _lane_adjusted(policy, n_models)
    slack = policy.exposure.tolerance * shares.equal + 1e-12
    return max(abs(shares.band - shares.equal), abs(shares.others - shares.equal)) <= slack


@cache
def settled_rd(glicko: Glicko, wins: float = 0.5) -> float:
    """The RD at which one update per vote neither adds nor removes any, for a model that wins
    this share of its votes.

    Before a vote the volatility adds to the deviation, and the vote takes away what a game
    between such models tells: the two cancel here.
    """
    phi, noise = glicko.rd / SCALE, glicko.volatility**2
    for _ in range(2000):
        information = wins * (1 - wins) / (1 + 3 * phi**2 / pi**2)
        phi = 1 / sqrt(1 / (phi**2 + noise) + information)
    return min(max(phi * SCALE, glicko.rd_min), glicko.rd_max)


def _all_equal(n_models: int) -> ExposureShares:
    equal = 2 / max(1, n_models)
    return ExposureShares(equal=equal, band=equal, others=equal)


def _from_contender_lane(policy: Policy) -> float:
    """What the contender lane gives each of the band per matchup, when some are outside.

    Of the neighbours met, one in twice the band is the model right below the band.
    """
    rule = policy.contenders
    inside = rule.nearest * (1 - 1 / (2 * rule.band)) + rule.other
    return policy.lanes.contender * (1 + inside) / rule.band


def _everywhere(policy: Policy) -> float:
    """What the lanes that show everybody about equally give to all models together."""
    return 2 * (policy.lanes.uncertainty + policy.lanes.exploration)


def _exposure_sentence(policy: Policy, n_models: int) -> str:
    shares, up_to = exposure_shares(policy, n_models), equal_up_to(policy)
    limit = "any number of" if up_to is None else f"up to {up_to}"
    sentence = (
        f"{100 * policy.lanes.contender:g} % of matchups are reserved for the top "
        f"{policy.contenders.band}, so equal exposure within "
        f"{100 * policy.exposure.tolerance:g} % is feasible for {limit} models; there are "
        f"{n_models}"
    )
    if equal_is_feasible(policy, n_models):
        return f"{sentence}."
    if up_to is None or n_models <= up_to:
        sentence += ", for which it is not feasible"
    window = policy.exposure.window
    return (
        f"{sentence}. In {window} matchups the target is {shares.band * window:.0f} exposures for "
        f"a contender and {shares.others * window:.0f} for any other model (equal: "
        f"{shares.equal * window:.0f})."
    )


def _newcomer_sentence(policy: Policy, n_models: int) -> str:
    """Why the tolerance does not hold for a model that has just joined."""
    rule = policy.exposure
    due = due_shares(policy, n_models).others
    return (
        f"A new model's target counts from when it joins: {100 * due:.1f} exposures per 100 "
        f"matchups outside the top {policy.contenders.band}. The {100 * rule.tolerance:g} % "
        f"tolerance does not hold for it at first: below a target of {1 / rule.tolerance:.0f}, one "
        "exposure exceeds it, and the uncertainty and exploration lanes prefer models with a high "
        "RD and few exposures, so it is overexposed until the coverage lane compensates."
    )


def _decide_sentence(policy: Policy) -> str:
    """How matchups of the decide lane count as exposure."""
    return (
        f"{100 * policy.decide_share:g} % of matchups are reserved for unresolved adjacent pairs "
        f"in the top {policy.contenders.band}; they count as exposure of the models that they "
        "show, and targets are shares of the other matchups."
    )


def _prompt_sentences(policy: Policy, n_prompts: int) -> list[str]:
    sentences = []
    rule = policy.repeats
    needed = ceil(rule.meetings / rule.same_prompt)
    if n_prompts < needed:
        sentences.append(
            f"A pair that meets {rule.meetings} times with each prompt at most {rule.same_prompt} "
            f"times needs {needed} prompts; there are {n_prompts}, so prompts repeat as little as "
            "possible."
        )
    if n_prompts < policy.pairs.prompts:
        sentences.append(
            f"Adjacent pairs need {policy.pairs.prompts} prompts; there are {n_prompts}, so this "
            "minimum cannot be met."
        )
    return sentences


def aimed_votes(battles: BattleLog) -> Bools:
    """Which votes the decide lane served, as far as the log names lanes."""
    if battles.lane is None:
        return np.zeros(len(battles), bool)
    return np.asarray(battles.lane.values() == DECIDES)


def joined(sides: NDArray[np.integer], n_models: int, without: int) -> Counts:
    """How many votes there were before each model joined, as far as its first vote tells; `sides`
    are both models of every vote, and `without` is the number for a model that has none.

    A model that is there is soon shown: those whose first vote is among the first two per model
    were there from the start.
    """
    first = np.full(n_models, without, np.int64)
    models, place = np.unique(sides, return_index=True)
    first[models] = place // 2
    return np.where(first <= 2 * n_models, 0, first)


class Roster:
    """The models that could be met at a time, and the matchups of the window drawn from them.

    `in_band` counts for how many of these matchups each model was a contender. Matchups that
    decide open neighbours do not count: nobody else is due a share of them.
    """

    def __init__(self, policy: Policy, present: Bools) -> None:
        self.present = present.copy()
        self.shares = due_shares(policy, int(present.sum()))
        self.matchups = 0
        self.in_band: Counts = np.zeros(len(present), np.int64)

    def add(self, band: Numbers, change: int = 1) -> None:
        """Count a matchup and its contenders, or take it back (-1)."""
        self.matchups += change
        self.in_band[band] += change

    def target(self, band: Numbers, more: int) -> Floats:
        """Exposures due in these matchups, and in `more` to come with such contenders."""
        in_band = self.in_band.astype(float)
        in_band[band] += more
        extra = self.shares.band - self.shares.others
        due = (self.matchups + more) * self.shares.others + in_band * extra
        return np.where(self.present, due, 0.0)
