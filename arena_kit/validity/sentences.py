"""The checks and objectives of the weekly validity report (12), a sentence each."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import NormalDist, fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS
from arena_kit.battles.log import BattleLog
from arena_kit.matchmaking.arena import Meetings, Sessions, meetings_in_order
from arena_kit.matchmaking.lanes import lane_weights
from arena_kit.policy.constants import Policy, Repeats
from arena_kit.policy.exposure import aimed_votes, equal_is_feasible, equal_up_to, settled_rd
from arena_kit.rating.base import some
from arena_kit.validity.leaderboard import Leaderboard
from arena_kit.validity.weekly import Row, WeeklyReport

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


def validity_values(report: WeeklyReport) -> dict[str, Any]:
    """Everything in the report under plain names, for JSON."""
    board = report.now
    phase, settled = board.policy.phase, settled_rd(board.policy.glicko)
    return {
        "phase": int(phase),
        "published": report.published,
        "week": report.week and report.week.label,
        "week_complete": report.complete if report.week else None,
        "compare_week": report.compared and report.compared.label,
        "comparison": report.note or "compared",
        "n_votes": len(board.battles),
        "n_votes_in_the_week": int(report.in_week.sum()),
        "n_votes_after_the_week": report.later,
        "status": {
            "published": phase.publishes_status,
            "status": board.status.status,
            "reasons": board.status.reasons,
            "before": report.before and report.before.status.status,
        },
        "order_decided": board.order_decided.as_dict(),
        "objectives": objectives(report),
        "sentences": sentences(report),
        "feasibility": report.feasibility,
        "coverage_fairness": [asdict(row) for row in board.fairness],
        "prompt_fairness": report.prompts,
        "pair_completeness": report.pairs,
        "confidence_stability": {"settled_rd": settled, "models": report.confidence},
        "top_rank_churn": report.churn,
        "quality_checks": [asdict(each) for each in board.checks],
        "lanes": lane_mix(board.battles, board.policy, report.in_week),
        "integrity": integrity(board.battles, board.policy),
    }


def order_note(board: Leaderboard) -> str:
    """Says that ranks here are not those of the board; empty where they are."""
    if board.policy.phase.orders_by == "conservative":
        return ""
    return "Ranks here are by conservative score; the published order is by legacy Elo."


def rules(report: WeeklyReport) -> str:
    """The publication label (10) now and in the comparison week."""
    now, before = report.now.status, report.before
    if before is None:
        return f"{now.sentence}."
    was = before.status.status if before.status.status is now.status else before.status.sentence
    return f"{now.sentence}. In the comparison week: {was}."


def order(report: WeeklyReport) -> str:
    """What the votes decide about the order of the top, now and in the comparison week."""
    now, before = f"{_upper(report.now.order_decided.sentence)}.", report.before
    return f"{now} In the comparison week: {before.order_decided.counts}." if before else now


def fairness(report: WeeklyReport) -> str:
    """Coverage fairness against 2W/M, and against the adjusted targets where they differ."""
    rows, rule = report.now.fairness, report.now.policy.exposure
    outside = [
        f"{row.model} {100 * row.deviation:+.0f} %"
        for row in sorted(rows, key=lambda row: -abs(row.deviation or 0))
        if not row.within and row.deviation is not None
    ]
    slack, equal = f"±{100 * rule.tolerance:g} %", f"2W/M = {rows[0].equal_target:.0f} exposures"
    adjusted, also = adjusted_due(report), sum(row.within_equal for row in rows)
    return (
        f"In the last {report.now.coverage.matchups:,} matchups, the exposure of "
        f"{len(rows) - len(outside)} of {len(rows)} models was within {slack} of "
        + (f"its adjusted target, and of {also} within {slack} of {equal}" if adjusted else equal)
        + f"{'; outside: ' + some(outside, 8) if outside else ''}."
        + (f" {adjusted}" if adjusted else "")
    )


def adjusted_due(report: WeeklyReport) -> str:
    """Which exposure targets differ from the policy's 2W/M (7.1), and why; empty if none does."""
    policy, rows = report.now.policy, report.now.fairness
    apart = [row.target for row in rows if abs(row.target - row.equal_target) > 1e-6 * row.target]
    if not apart:
        return ""
    why = "a model that joined within the window is due exposure only since then"
    if policy.phase.uses_lanes and not equal_is_feasible(policy, len(rows)):
        why = f"equal exposure is feasible for up to {equal_up_to(policy)} models"
    elif aimed_votes(report.now.battles).any():
        why = "matchups of the decide lane count for the models that they show"
    return (
        f"The target of {len(apart)} of {len(rows)} models is adjusted to {min(apart):.0f} to "
        f"{max(apart):.0f} exposures (2W/M: {rows[0].equal_target:.0f}): {why}."
    )


def prompts(report: WeeklyReport) -> str:
    """How equally prompts are covered."""
    shares = [row["coverage"] for row in report.prompts]
    top = [row["target"] for row in report.prompts if row["contender"]]
    coverage, rule = report.now.coverage, report.now.policy.prompts
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    spread = f"is {low} %" if low == high else f"lies between {low} and {high} %"
    cells = coverage.by_prompt[np.ix_(coverage.enabled, coverage.active)]
    return (
        f"Prompt coverage (at least {rule.floor} decisive votes on a prompt) {spread}. Contenders "
        f"reach their target of {rule.top_target} votes on {100 * fmean(top):.0f} % of prompts. "
        f"{int((cells == 0).sum()):,} of {cells.size:,} model-prompt cells have no decisive vote."
    )


def pairs(report: WeeklyReport) -> str:
    """Pair completeness of the contender band."""
    rule = report.now.policy.pairs
    met = sum(pair["meets_floor"] for pair in report.pairs)
    sentence = (
        f"{met} of {len(report.pairs)} adjacent contender pairs have at least {rule.votes} "
        f"decisive votes on {rule.prompts} prompts"
    )
    if report.before is None:
        return f"{sentence}."
    then = report.before.coverage.adjacent(report.before.band)
    had = sum(pair["meets_floor"] for pair in then)
    return f"{sentence} ({had} of {len(then)} in the comparison week)."


def confidence(report: WeeklyReport) -> str:
    """Confidence stability: RD and standard error."""
    top = report.confidence[: report.now.policy.publication.top]
    return (
        f"The median RD of the top {len(top)} is {_median(top, 'rd')}; with one update per vote it "
        f"levels off near {settled_rd(report.now.policy.glicko):.1f}. The median Bradley–Terry "
        f"standard error, which measures the evidence, is {_median(top, 'se')}."
    )


def churn(report: WeeklyReport) -> str:
    """Rank changes in the top."""
    change = report.churn
    if change is None:
        return report.note
    top, moves, swaps = change["top"], change["moves"], change["pairs_swapped"]
    if not moves:
        return f"No model of the top {top} changed rank."
    left = [move for move in moves if move["now"] is None or move["now"] > top]
    gone = ", ".join(f"{m['model']} ({m['before']} → {m['now'] or 'gone'})" for m in left)
    moved = f"{len(moves) - len(left)} of the top {top} changed rank"
    moved += f", and {gone} left it" if left else ""
    if not swaps:
        return f"{moved}; no pair that was there before changed order."
    pairs = "1 pair" if swaps == 1 else f"{swaps} pairs"
    outside = swaps - change["pairs_swapped_inside_bands"]
    if not outside:
        return f"{moved}; {pairs} changed order with overlapping bands, as sampling noise allows."
    named = ", ".join(f"{m['model']} ({', '.join(m['apart'])})" for m in moves if m["apart"])
    return f"{moved}; {pairs} changed order, {outside} of them with disjoint bands: {named}."


def sentences(report: WeeklyReport) -> dict[str, str]:
    """A sentence per check of the report (12)."""
    return {
        "Rules kept": rules(report),
        "Order decided": order(report),
        "Coverage fairness": fairness(report),
        "Prompt fairness": prompts(report),
        "Pair completeness": pairs(report),
        "Confidence stability": confidence(report),
        "Top-rank churn": churn(report),
        "Quality checks due": f"{', '.join(each.model for each in report.now.checks) or 'none'}.",
    }


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _median(rows: Sequence[Row], name: str) -> str:
    """The median of a column, and of the same in the comparison week."""
    now, then = ([row[n] for row in rows if row[n] is not None] for n in (name, f"{name}_before"))
    if not now:
        return "unknown"
    return f"{median(now):.1f}" + (f" ({median(then):.1f} in the comparison week)" if then else "")


def objectives(report: WeeklyReport) -> list[Row]:
    """The policy's objectives (3), each with its rule and whether it is met (None: untestable)."""
    return [_robust(report), _compared(report), _prompt_luck(report), _visible(report)]


def verdict(judged: Sequence[Row]) -> str:
    """How many objectives are met, in a sentence."""
    met, unknown = (sum(each["met"] is state for each in judged) for state in (True, None))
    more = f", {unknown} cannot be tested" if unknown else ""
    return f"{met} of {len(judged)} objectives are met{more}."


def _robust(report: WeeklyReport) -> Row:
    swapped = report.churn is not None and report.churn["pairs_swapped_inside_bands"] > 0
    return {
        "objective": "Top ranks are robust to sampling noise",
        "met": report.now.order_decided.whole and not swapped,
        "why": f"{_upper(report.now.order_decided.counts)}. {churn(report)}",
        "rule": "every adjacent pair in the top is decided or equivalent, and no pair changed "
        "order with overlapping bands",
    }


def _compared(report: WeeklyReport) -> Row:
    share = report.now.policy.publication.pair_share
    met = sum(pair["meets_floor"] for pair in report.pairs)
    return {
        "objective": "Nearby top models are compared enough",
        "met": met >= share * len(report.pairs) - 1e-9 if report.pairs else None,
        "why": pairs(report),
        "rule": f"{100 * share:g} % of adjacent contender pairs have this many",
    }


def _prompt_luck(report: WeeklyReport) -> Row:
    least = report.now.policy.established.prompt_coverage
    below = [row["model"] for row in report.prompts if row["coverage"] < least - 1e-9]
    named = f" Below {100 * least:g} %: {', '.join(below)}." if 0 < len(below) <= 6 else ""
    return {
        "objective": "No model is advantaged by prompt luck",
        "met": not below if report.now.coverage.active.any() else None,
        "why": prompts(report) + named,
        "rule": f"every model covers {100 * least:g} % of prompts",
    }


def _visible(report: WeeklyReport) -> Row:
    rows, phase = report.now.rows, report.now.policy.phase
    shown = "RD, confidence and badges are shown to readers"
    if not phase.shows_diagnostics:
        shown = f"RD, confidence and badges are hidden in phase {int(phase)}"
    provisional = sum(row.provisional for row in rows)
    return {
        "objective": "Uncertainty is visible",
        "met": phase.shows_diagnostics,
        "why": f"{shown}; {provisional} of {len(rows)} models are provisional.",
        "rule": "readers see RD, confidence and badges",
    }
