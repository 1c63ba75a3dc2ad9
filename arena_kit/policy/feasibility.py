"""Which settings of the policy can hold together, and what is fair where not all can.

The contender lane shows its band more often than others, and only the coverage lane can make
up for that: the other two have rules of their own, which show everybody about equally. So
there is a least share that a member of the band gets, and with many models it lies above
the equal one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil, floor, pi, sqrt

from arena_kit.policy.constants import Glicko, Policy
from arena_kit.rating.base import Number
from arena_kit.rating.glicko2.replay import SCALE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureShares:
    """Exposures due to one model per matchup: equally, in the band, and outside of it.

    All models together have 2 per matchup. `band` and `others` are lane-adjusted: as near
    to `equal` as the lanes allow.
    """

    equal: float
    band: float
    others: float

    def due(self, part: Number) -> Number:
        """The share of a model that was in the band for this part of the time."""
        return self.others + part * (self.band - self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasibility:
    """What can hold with so many models once the lanes are on; `reasons` is a sentence for each
    limit.
    """

    settled_rd: float
    reasons: tuple[str, ...]


def feasibility(policy: Policy, n_models: int, n_prompts: int | None = None) -> Feasibility:
    """What the policy can guarantee to so many models and prompts."""
    reasons = [_exposure_sentence(policy, n_models)]
    if not policy.phase.uses_lanes:
        reasons.append("The lanes are not on yet: until then every model is due an equal share.")
    else:
        reasons.append(_newcomer_sentence(policy, n_models))
    if n_prompts is not None:
        reasons += _prompt_sentences(policy, n_prompts)
    if policy.decide_share:
        reasons.append(_decide_sentence(policy))
    return Feasibility(settled_rd=settled_rd(policy.glicko), reasons=tuple(reasons))


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
    """What each model is due when the coverage lane compensates as far as it can."""
    band, equal = policy.contenders.band, 2 / max(1, n_models)
    if n_models <= band:
        return _all_equal(n_models)
    least = _from_contender_lane(policy) + _everywhere(policy) / n_models
    most = least + 2 * policy.lanes.coverage / band
    due = min(max(equal, least), most)
    if due == equal:
        return _all_equal(n_models)
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
    shares = exposure_shares(policy, n_models)
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
        f"With {100 * policy.lanes.contender:g} % of matchups kept for the top "
        f"{policy.contenders.band}, equal exposure within "
        f"{100 * policy.exposure.tolerance:g} % is possible for {limit} models, and there are "
        f"{n_models}"
    )
    if equal_is_feasible(policy, n_models):
        return f"{sentence}."
    if up_to is None or n_models <= up_to:
        sentence += ", for whom it is not"
    window = policy.exposure.window
    return (
        f"{sentence}: in {window} matchups a contender is due {shares.band * window:.0f} exposures "
        f"and any other model {shares.others * window:.0f}, where equal would be "
        f"{shares.equal * window:.0f}."
    )


def _newcomer_sentence(policy: Policy, n_models: int) -> str:
    """Which bound holds for a model that has just joined, and why not the tolerance."""
    rule = policy.exposure
    due = due_shares(policy, n_models).others
    return (
        f"A model that joins is due exposure from then on, {100 * due:.1f} per 100 matchups "
        f"outside the top {policy.contenders.band}. At first no {100 * rule.tolerance:g} % is "
        f"guaranteed: until it is due {1 / rule.tolerance:.0f}, one exposure is more than that, "
        "and the uncertainty and exploration lanes look for whoever has a high RD and was shown "
        "least, so it is shown more than its due until the coverage lane has made up for it."
    )


def _decide_sentence(policy: Policy) -> str:
    """To whom the lane that decides open neighbours is due."""
    return (
        f"{100 * policy.decide_share:g} % of matchups are kept to decide open neighbours of the "
        f"top {policy.contenders.band}: they are due to the models that they show, and shares "
        "of exposure are shares of the rest."
    )


def _prompt_sentences(policy: Policy, n_prompts: int) -> list[str]:
    sentences = []
    rule = policy.repeats
    needed = ceil(rule.meetings / rule.same_prompt)
    if n_prompts < needed:
        sentences.append(
            f"A prompt at most {rule.same_prompt} times in a pair's {rule.meetings} meetings "
            f"takes {needed} prompts, and there are {n_prompts}: as few repeats as possible "
            "are made instead."
        )
    if n_prompts < policy.pairs.prompts:
        sentences.append(
            f"The floor of neighbours asks for {policy.pairs.prompts} prompts, and there are "
            f"{n_prompts}: it cannot be met."
        )
    return sentences
