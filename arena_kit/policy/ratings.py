"""The ratings that the policy asks for: Glicko-2 vote by vote (5.1), Bradley–Terry beside it."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import isnan

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import BOTH_BAD
from arena_kit.battles.log import BattleLog
from arena_kit.policy.constants import LOOKS, LegacyElo, Policy
from arena_kit.policy.exposure import DueWindow, Roster, aimed_votes, joined
from arena_kit.rating.base import Ratings, components, expected_share, scores
from arena_kit.rating.bradley_terry.clusters import CLAIMS_ABOUT
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.glicko2.method import Glicko2, GlickoHistory, GlickoState, replay_order


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


def final_states(history: GlickoHistory) -> dict[str, GlickoState]:
    """Where every model stood after the last vote."""
    last = _last_seen(history, len(history))
    flat = [column.ravel()[last] for column in (history.rating, history.rd, history.volatility)]
    rows = zip(history.models, *(column.tolist() for column in flat), strict=True)
    return {model: GlickoState(*state) for model, *state in rows}


def exposure_due(
    history: GlickoHistory, policy: Policy, enabled: Collection[str], battles: BattleLog
) -> dict[str, float]:
    """What each enabled model is due of the rolling window, from its first vote on (7.1).

    Contenders are those before each vote. Who has no vote at all is due a share throughout, as
    no log tells since when it could have been met. `battles` is the log of the history, whose
    lanes tell which votes were to decide open neighbours: those are due to whom they show.
    """
    begin = max(0, len(history) - policy.exposure.window)
    value = history.rating - policy.deviations * history.rd
    score, last = np.full(len(history.models), -np.inf), _last_seen(history, begin)
    score[last >= 0] = value.ravel()[last[last >= 0]]
    names = [*history.models, *sorted(set(enabled) - set(history.models))]
    on = np.array([model in enabled for model in names], bool)
    out = ~on[: len(history.models)]
    score[out], value[out[history.sides]] = -np.inf, -np.inf
    since = joined(history.sides, len(names), without=0)
    window, roster = DueWindow(policy), Roster(policy, on & (since <= begin))
    aimed = aimed_votes(battles)[history.battle]
    for number in range(begin, len(history)):
        sides = history.sides[number]
        if np.any(since[sides] == number):
            roster = Roster(policy, on & (since <= number))
        band = np.argsort(-score, kind="stable")[: policy.contenders.band]
        window.note(roster, band[score[band] > -np.inf], aimed=bool(aimed[number]))
        score[sides] = value[number]
    target = window.due(roster, np.empty(0, np.intp))
    own = history.sides[begin:][aimed[begin:]]
    target += np.where(on, np.bincount(own.ravel(), minlength=len(names)), 0)
    return dict(zip(names, target.tolist(), strict=True))


def _last_seen(history: GlickoHistory, end: int) -> NDArray[np.int64]:
    """Where each model's last state before a vote stands in the flat columns, -1 for none."""
    last = np.full(len(history.models), -1)
    np.maximum.at(last, history.sides[:end].ravel(), np.arange(2 * end))
    return last


def glicko2_of(policy: Policy) -> Glicko2:
    """The method that the policy asks for (5.1), its settings the policy's, without intervals."""
    rule = policy.glicko
    return Glicko2(
        initial=rule.rating,
        rd=rule.rd,
        volatility=rule.volatility,
        tau=rule.tau,
        rd_min=rule.rd_min,
        rd_max=rule.rd_max,
        evidence_replicates=0,
    )


def legacy_elo(battles: BattleLog, rule: LegacyElo) -> dict[str, float]:
    """Elo of every model of a log, replayed once by time and battle id."""
    rating = dict.fromkeys(battles.models, rule.initial)
    for a, b, score in votes_in_order(battles):
        update_elo(rating, a, b, score, rule)
    return rating


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
