"""The ratings that the policy asks for: Glicko-2 vote by vote (5.1), Bradley–Terry beside it."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from math import isnan

import numpy as np

from arena_kit.battles.battle import BOTH_BAD
from arena_kit.battles.log import BattleLog
from arena_kit.policy.constants import LOOKS, LegacyElo, Policy
from arena_kit.rating.base import Ratings, components, expected_share, scores
from arena_kit.rating.bradley_terry.clusters import CLAIMS_ABOUT
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.glicko2 import Glicko2, GlickoHistory, replay_order


def epoch_of(policy: Policy) -> str:
    """The method that the published order rests on, with the settings that change it."""
    if policy.phase.orders_by == "legacy_elo":
        return f"Elo, K {policy.legacy_elo.k:g} from {policy.legacy_elo.initial:g}"
    start = policy.glicko
    return (
        f"Glicko-2 rating - {policy.deviations:g} RD, from {start.rating:g}/{start.rd:g}/"
        f"{start.volatility:g}, tau {start.tau:g}, RD {start.rd_min:g} to {start.rd_max:g}"
    )


def rated(battles: BattleLog, policy: Policy) -> tuple[GlickoHistory, Ratings]:
    """Glicko-2 vote by vote (5.1), and Bradley–Terry on the same votes, its intervals about
    what the policy's claims are about.

    Models of which no vote counts are left out of both. Newcomers that have only met each
    other are left out of Bradley–Terry, which is of the largest group of models that met.
    """
    method = glicko2_of(policy)
    counted = set(method.kept(battles)[0].models)
    known = np.array([model in counted for model in battles.models], bool)
    rows = np.flatnonzero(known[battles.a] & known[battles.b])
    log = battles.select(rows) if len(rows) else battles
    history = method.history(log)
    return replace(history, battle=rows[history.battle]), strengths(log, policy)


def strengths(battles: BattleLog, policy: Policy) -> Ratings:
    """Bradley–Terry of the largest group of models that met: what every claim of a board about
    who is above whom rests on.
    """
    cluster = CLAIMS_ABOUT[policy.claims_about][0]
    method = BradleyTerry(
        center=policy.glicko.rating, both_bad="exclude", cluster=cluster, looks=LOOKS
    )
    return method(_largest_group(battles))


def _largest_group(battles: BattleLog) -> BattleLog:
    """The battles of the most models that are connected by votes that count."""
    counts = (battles.outcome != BOTH_BAD) & ~battles.flags()
    group = components(len(battles.models), battles.a[counts], battles.b[counts])
    largest = np.bincount(group).argmax()
    return battles.select((group[battles.a] == largest) & (group[battles.b] == largest))


def glicko2_of(policy: Policy) -> Glicko2:
    """The method that the policy asks for (5.1), its settings the policy's, without intervals."""
    rule = asdict(policy.glicko)
    return Glicko2(initial=rule.pop("rating"), **rule, evidence_replicates=0)


def update_elo(
    rating: dict[str, float], a: str, b: str, score: float | None, rule: LegacyElo
) -> None:
    """Take in one vote, of which the first model got `score`: 1, 0, or half for a tie.

    None is a both-bad vote: a loss of each model to a baseline that stays at the initial
    rating, which is one of the reasons to replace this rating. NaN moves nothing.
    """
    if score is None:
        for model in (a, b):
            rating[model] -= rule.k * expected_share(rating[model] - rule.initial)
        return
    if isnan(score):
        return
    step = rule.k * (score - expected_share(rating[a] - rating[b]))
    rating[a] += step
    rating[b] -= step


def votes_in_order(battles: BattleLog) -> Iterator[tuple[str, str, float | None]]:
    """Both models of every vote and what the first of them got, by time and battle id.

    None is both-bad, and NaN a judgment whose two orders disagree: it moves nothing.
    """
    rows, names = replay_order(battles), battles.models
    bad = (battles.outcome[rows] == BOTH_BAD).tolist()
    got = np.where(battles.flags(), np.nan, scores(battles))[rows].tolist()
    columns = battles.a[rows].tolist(), battles.b[rows].tolist(), got
    for a, b, score, both_bad in zip(*columns, bad, strict=True):
        yield names[a], names[b], None if both_bad else score
