"""What a log tells about how votes came to be: the queue mix (6) and integrity controls (6.2, 11).

Whether model names were hidden, and who is a bot, no log can tell.
"""

from collections import Counter, defaultdict
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS
from arena_kit.battles.log import BattleLog
from arena_kit.matchmaking.lanes import lane_weights
from arena_kit.matchmaking.repeats import Meetings, Sessions, meetings_in_order
from arena_kit.policy.constants import Policy, Repeats

Row = dict[str, Any]

_RARE = 0.01  # how often some model would be further off, if sides are drawn evenly


def lane_mix(
    battles: BattleLog, policy: Policy, lately: NDArray[np.bool_] | None = None
) -> list[Row]:
    """A row per lane: how much of the queue it served, in all and lately, beside its weight; none
    where the log names no lanes.

    `lately` marks the votes of the week, by default all. Lanes that are not in force in the
    policy's phase have no weight.
    """
    if battles.lane is None or not (battles.lane.codes >= 0).any():
        return []
    served = [None if lane is None else str(lane) for lane in battles.lane.values()]
    recent = served if lately is None else [served[i] for i in np.flatnonzero(lately)]
    votes, late = (Counter(lane for lane in each if lane) for each in (served, recent))
    weights = {str(lane): weight for lane, weight in lane_weights(policy).items()}
    return [
        {
            "lane": lane,
            "votes": votes[lane],
            "share": votes[lane] / max(1, votes.total()),
            "lately": late[lane] / max(1, late.total()),
            "weight": weight,
        }
        for lane, weight in (weights | {x: 0.0 for x in sorted(votes) if x not in weights}).items()
        if votes[lane] or weight
    ]


def integrity(battles: BattleLog, policy: Policy) -> Row:
    """Count what the controls are to prevent; None where the log lacks what a count needs.

    `left_of` is the model whose share of votes on the left, `left`, is furthest from one half
    in standard errors, `left_errors`, and `left_chance` says whether chance would often put
    some model of so many that far; `left_wins` is how often the left side won a decisive vote.
    `prompt_repeats` are meetings on a prompt that the pair had used up (6.2), and
    `session_repeats` votes on a pair and prompt that the session had seen (11).
    """
    n = len(battles.models)
    left, right = (np.bincount(side, minlength=n) for side in (battles.a, battles.b))
    share = left / np.maximum(1, left + right)
    errors = np.abs(left - right) / np.sqrt(np.maximum(1, left + right))
    most = int(np.argmax(errors))
    decided = battles.decisive()
    ids = battles.battle_id
    named = [] if ids is None else [name for name in ids.tolist() if name is not None]
    return {
        "left_of": battles.models[most],
        "left": float(share[most]),
        "left_errors": float(errors[most]),
        "left_chance": bool(errors[most] < NormalDist().inv_cdf(1 - _RARE / (2 * n))),
        "left_wins": float(np.mean(battles.outcome[decided] == A_WINS)) if decided.any() else None,
        "prompt_repeats": _prompt_repeats(battles, policy.repeats),
        "session_repeats": _session_repeats(battles, policy.repeats),
        "same_ids": len(named) - len(set(named)) if named else None,
    }


def _prompt_repeats(battles: BattleLog, rule: Repeats) -> int | None:
    """Meetings on a prompt that the pair had used up; it has those on which both were seen."""
    if battles.question_id is None:
        return None
    seen: dict[int, set[int]] = defaultdict(set)
    for pair, prompt, _ in meetings_in_order(battles):
        for model in pair if prompt >= 0 else ():
            seen[model].add(prompt)
    met, repeats = Meetings(rule), 0
    for pair, prompt, _ in meetings_in_order(battles):
        if prompt in met.used_up(pair, rule.meetings):  # else no need to count prompts
            repeats += prompt in met.used_up(pair, len(seen[pair[0]] & seen[pair[1]]))
        met.add(pair, prompt)
    return repeats


def _session_repeats(battles: BattleLog, rule: Repeats) -> int | None:
    """Votes on a pair and prompt that the session had seen within the gap."""
    if battles.session is None or battles.question_id is None or not rule.session_gap:
        return None
    if not (battles.session.codes >= 0).any():
        return None
    names, repeats = battles.session.names, 0
    sessions = Sessions(replace(rule, sessions=max(1, len(names))))
    for pair, prompt, code in meetings_in_order(battles):
        session = None if code < 0 else str(names[code])
        repeats += prompt in sessions.seen(session, pair)
        sessions.add(session, pair, prompt)
    return repeats
