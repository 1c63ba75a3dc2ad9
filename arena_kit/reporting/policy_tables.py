"""The leaderboard in the form that the policy locks (9.3), and the tables of the weekly report."""

from dataclasses import asdict, replace
from html import escape
from math import ceil

import numpy as np

from arena_kit.policy.constants import Phase
from arena_kit.policy.exposure import settled_rd, stable_rd
from arena_kit.policy.rules import Badge, Verdict
from arena_kit.rating.claims.claims import two_digits
from arena_kit.reporting import board as schema
from arena_kit.reporting.board import ABOUT, Board, BoardRow, MethodRating
from arena_kit.reporting.tables import DASH, Shown, Table, facts, number, percent
from arena_kit.validity import sentences
from arena_kit.validity.leaderboard import Leaderboard, LeaderboardRow
from arena_kit.validity.sentences import integrity, lane_mix
from arena_kit.validity.weekly import Row, WeeklyReport

_PILL = {
    Badge.STABLE: ("#dafbe1", "#1a7f37"),
    Badge.ESTABLISHED: ("#ddf4ff", "#0550ae"),
    Badge.PROVISIONAL: ("#fff1d6", "#7d4e00"),
}
_NEXT = {Badge.ESTABLISHED: "not Stable: ", Badge.PROVISIONAL: "not Established: "}
_VERDICT = {each: each.value for each in Verdict}
_VERDICT[Verdict.REVERSED] = "decided in the reverse order"
_FEW = 5  # prompts below which an average score is pointed out
_CELLS = 60  # named at most
_SMALL = "font-size: 11px; color: #57606a; white-space: nowrap"


def board(leaderboard: Leaderboard) -> Table:
    """The board as readers see it in its rollout phase (9.1, 9.3, 12).

    The Rating cell has the conservative score over the raw rating in small text, the Rank cell
    the tier under the rank; the badge stands in the model cell, and a tooltip says why the badge
    is what it is.
    """
    phase = leaderboard.policy.phase
    rows = [
        {"Rank": _rank(row, phase), "Model": _model(row, phase), "Rating": _rating(row, phase)}
        | _columns(row, phase)
        for row in leaderboard.rows
    ]
    return Table(rows, "leaderboard", notes=_notes(leaderboard))


def to_board(leaderboard: Leaderboard, arena: str) -> Board:
    """The leaderboard in the form that all boards have, ordered as its phase publishes it."""
    phase = leaderboard.policy.phase
    by_elo, settings = phase.orders_by == "legacy_elo", {"epoch": leaderboard.epoch}
    strengths = leaderboard.strengths.settings
    return Board(
        version=schema.VERSION,
        title=arena,
        method="legacy-elo" if by_elo else "conservative-score",
        settings=settings,
        ratings=[_board_row(row, by_elo=by_elo) for row in leaderboard.rows],
        n_battles=len(leaderboard.battles),
        dropped={},
        dimensions=[_dimension(leaderboard)],
        beside={
            "glicko2": schema.BesideMethod(method="glicko2", settings=settings),
            "bradley_terry": schema.BesideMethod(method="bradley-terry", settings=strengths),
            "elo": schema.BesideMethod(method="legacy-elo"),
        },
        publication=schema.Publication(
            phase=int(phase),
            diagnostics=phase.shows_diagnostics,
            epoch=leaderboard.epoch,
            status=leaderboard.status.status,
            reasons=list(leaderboard.status.reasons),
            published=phase.publishes_status,
        ),
    )


def _dimension(leaderboard: Leaderboard) -> schema.Dimension:
    status, decided = leaderboard.status, leaderboard.order_decided
    fragile = leaderboard.fragility()
    aside = "" if leaderboard.policy.phase.publishes_status else " (computed, not published)"
    return schema.Dimension(
        name="",
        n_battles=len(leaderboard.battles),
        about=decided.about,
        tiers=leaderboard.tiers,
        margin=decided.margin,
        orders=[
            schema.Order(
                above=p.above, below=p.below, state=p.verdict.value, gap=p.gap, more=p.more
            )
            for p in leaderboard.adjacent
        ],
        fragility=fragile and schema.FirstPlace(**asdict(fragile), sentence=fragile.sentence),
        sentences=[
            f"Rules kept{aside}: {status.status}: {'; '.join(status.reasons)}.",
            f"Order decided{aside}: {decided.sentence}.",
        ],
        notes=[ABOUT[decided.about]],
    )


def _board_row(row: LeaderboardRow, *, by_elo: bool) -> BoardRow:
    beside = {
        "glicko2": MethodRating(rating=row.rating, rd=row.rd),
        "elo": MethodRating(rating=row.legacy_elo),
    }
    if row.bt_rating is not None:
        beside["bradley_terry"] = MethodRating(
            rating=row.bt_rating, ci_low=row.bt_low, ci_high=row.bt_high, se=row.bt_se
        )
    return BoardRow(
        dimension="",
        rank=row.rank,
        model=row.model,
        rating=row.legacy_elo if by_elo else row.conservative,
        ci_low=None,
        ci_high=None,
        n_battles=row.votes,
        tier=row.tier,
        beside=beside,
        validity=schema.Validity(**asdict(row) | {"badge": str(row.badge)}),
    )


def printed(leaderboard: Leaderboard) -> Table:
    """The board for Markdown and LaTeX: no notes, for they explain what only HTML shows."""
    return replace(board(leaderboard), left=["Record"], notes=())


def every_metric(leaderboard: Leaderboard) -> Table:
    """Every metric of every model under its plain name, for CSV."""
    rows = [
        {name: "; ".join(v) if isinstance(v, tuple) else v for name, v in asdict(row).items()}
        for row in leaderboard.rows
    ]
    return Table(rows, "every_metric")


def _rank(row: LeaderboardRow, phase: Phase) -> Shown:
    """The official rank, or a dash for a model outside official claims (5.3), its change, and
    the tier, which the votes decide.
    """
    rank = DASH if row.official_rank is None else str(row.official_rank)
    html = f'<span style="white-space: nowrap">{rank}{_change(row)}</span>'
    if not phase.shows_diagnostics or row.tier is None:
        return Shown(html, rank)
    under = f'<div style="{_SMALL}">tier {row.tier}</div>'
    return Shown(html + under, f"{rank} (tier {row.tier})")


def _model(row: LeaderboardRow, phase: Phase) -> Shown:
    """The name and its badge, with what the badge, or the next one, rests on."""
    name = f"<b>{escape(row.model)}</b>"
    if not phase.shows_diagnostics:
        return Shown(name, row.model)
    back, ink = _PILL[row.badge]
    why = escape(_NEXT.get(row.badge, "") + "; ".join(row.badge_reasons))
    style = f"background-color: {back}; color: {ink}; font-size: 11px; padding: 1px 7px"
    style += "; border-radius: 9px; white-space: nowrap"
    badge = f' <span title="{why}" style="{style}">{escape(row.badge)}</span>'
    return Shown(name + badge, f"{row.model} ({row.badge})")


def _rating(row: LeaderboardRow, phase: Phase) -> Shown:
    """What the order rests on, and the raw rating in small text under it (9.3).

    Legacy Elo is the value before the migration, and beside the raw rating during it (12).
    """
    spread = f"RD {row.rd:.1f}, volatility {row.volatility:.4f}"
    tip = f' title="{spread}"' if phase.shows_diagnostics else ""
    if phase.orders_by == "legacy_elo":
        return Shown(f"<div{tip}><b>{row.legacy_elo:.0f}</b></div>", f"{row.legacy_elo:.0f}")
    legacy = f", Elo {row.legacy_elo:.0f}" if phase.shows_legacy_elo else ""
    value, small = f"{row.conservative:.0f}", f"raw {row.rating:.0f}{legacy}"
    under = f'<div style="{_SMALL}">{small}</div>'
    return Shown(f"<div{tip}><b>{value}</b></div>{under}", f"{value} ({small})")


def _columns(row: LeaderboardRow, phase: Phase) -> dict[str, object]:
    """The two columns that the policy adds (9.3), and those that were there before (9.1), whose
    scores are raw.
    """
    added = {"Confidence": f"{row.confidence}%", "Coverage": percent(row.prompt_coverage)}
    return (added if phase.shows_diagnostics else {}) | {
        "Consistency": number(row.consistency_raw, "", "%"),
        "Spread": number(row.spread_raw, ".2f"),
        "Avg score": number(row.avg_score_raw, ".2f"),
        "Record": f"{row.wins}/{row.losses}/{row.ties}",
        "Votes": row.votes,
        "Both bad": row.both_bad,
    }


def _change(row: LeaderboardRow) -> str:
    if not row.rank_change:
        return ""
    mark, ink = ("▲", "#1a7f37") if row.rank_change > 0 else ("▼", "#a40e26")
    style = f"font-size: 11px; color: {ink}; white-space: nowrap"
    return f' <span style="{style}">{mark}{abs(row.rank_change)}</span>'


def _notes(leaderboard: Leaderboard) -> list[str]:
    policy, phase = leaderboard.policy, leaderboard.policy.phase
    scale, by_elo = policy.confidence, phase.orders_by == "legacy_elo"
    few = sum(r.avg_score_raw is not None and r.prompts_raw < _FEW for r in leaderboard.rows)
    provisional = any(row.official_rank is None for row in leaderboard.rows)
    shown = {
        "Rating: legacy Elo, which determines the order in this rollout phase.": by_elo,
        f"Rating: conservative score (raw rating − {policy.deviations:g} RD) above the raw "
        "rating.": not by_elo,
        f"{DASH} in Rank: provisional, not officially ranked.": provisional,
        f"Confidence: RD rescaled ({scale.rd_best:g} is 100 %, {scale.rd_best + scale.rd_span:g} "
        "is 0 %), not a probability. Coverage: prompt coverage.": phase.shows_diagnostics,
        "Tier: every model is decided above all models of later tiers, by Bradley–Terry; ranks "
        "within a tier may be chance.": phase.shows_diagnostics,
        ABOUT[leaderboard.order_decided.about]: phase.shows_diagnostics,
        "Elo: the legacy rating, for continuity during the transition.": phase.shows_legacy_elo
        and not by_elo,
        "Consistency, Spread and Avg score are raw, not adjusted for opponents.": True,
        f"Avg score uses fewer than {_FEW} prompts for {few} models.": bool(few),
        f"Rank changes are not shown: {leaderboard.movement}.": bool(leaderboard.movement),
        "▲▼: change of official rank since the earlier board.": not leaderboard.movement,
    }
    return [note for note, is_shown in shown.items() if is_shown]


def metrics(leaderboard: Leaderboard) -> Shown:
    """Every other metric of every model (9.1, 9.2), folded away; why some are provisional."""
    rows = [_metric_row(row, leaderboard.policy.phase) for row in leaderboard.rows]
    about_bt = (
        "BT: Bradley–Terry (maximum likelihood) rating with its standard error (SE), which unlike "
        f"RD measures the evidence alone. {ABOUT[leaderboard.order_decided.about]}"
    )
    unrated = ", ".join(row.model for row in leaderboard.rows if row.bt_rating is None)
    unmet = unrated and f"No Bradley–Terry rating for {unrated}: no votes link them to the others."
    notes = [about_bt, unmet, *_provisional(leaderboard)]
    table = Table(rows, "metrics", nowrap=list(rows[0]), small=True, notes=notes)
    return Shown(f"<details><summary>All metrics</summary>{table.html}</details>", table.text)


def stability(leaderboard: Leaderboard) -> Table:
    """The first unmet condition of each model that is not Stable (9.2)."""
    rows = [
        {
            "model": row.model,
            "badge": str(row.badge),
            "first unmet condition": row.badge_reasons[0],
            "further": len(row.badge_reasons) - 1 or None,
        }
        for row in leaderboard.rows
        if row.badge is not Badge.STABLE
    ]
    n, rule = len(leaderboard.rows), leaderboard.policy.stable
    title = f"Stable: {n - len(rows)} of {n} models"
    note = (
        f"Stable requires {rule.decisive} decisive votes, prompt coverage "
        f"{rule.prompt_coverage:g}, RD at most {stable_rd(leaderboard.policy):g}, and a decided or "
        "equivalent order with the officially ranked models directly above and below. "
        "leaderboard.json lists all reasons."
    )
    return Table(
        rows, "stability", title=title, nowrap=["model"], notes=[note], empty="All are Stable."
    )


def _provisional(leaderboard: Leaderboard) -> list[str]:
    rows = [row for row in leaderboard.rows if row.provisional]
    if len(rows) > _FEW:
        return [f"{len(rows)} models are provisional; leaderboard.json lists the reasons."]
    return [f"{r.model} is provisional: {'; '.join(r.provisional_reasons)}." for r in rows]


def _metric_row(row: LeaderboardRow, phase: Phase) -> dict[str, object]:
    by_elo = phase.orders_by == "legacy_elo"
    legacy = {"legacy Elo": f"{row.legacy_elo:.0f} (#{row.legacy_rank})"}
    return {
        "model": row.model,
        **({"v2 rank": row.conservative_rank, "v2 score": f"{row.conservative:.0f}"}
           if by_elo else {}),
        "raw": f"{row.rating:.0f}",
        "RD": f"{row.rd:.1f}",
        "volatility": f"{row.volatility:.4f}",
        "BT": number(row.bt_rating, ".0f"),
        "BT SE": number(row.bt_se, ".1f"),
        "tier": row.tier,
        "pair coverage": number(row.pair_coverage, ".2f"),
        "adjusted score": number(row.avg_score_adjusted, "+.2f"),
        "adjusted spread": number(row.spread_adjusted, ".2f"),
        "adjusted consistency": number(row.consistency_adjusted, ".0f"),
        "decisive": row.decisive,
        "quality floor": number(row.quality_floor, ".3f") + " (check due)" * row.quality_check,
        "exposure / target": f"{row.exposure} / {row.exposure_target:.0f}",
        **(legacy if phase.shows_legacy_elo else {}),
    }  # fmt: skip


def status(report: WeeklyReport) -> Table:
    """The publication label (10) and what is decided about the order; neither is published before
    the migration.
    """
    now, before, aside = report.now.status, report.before, _aside(report)
    rows = [{"met": _mark(met), "condition": text} for met, text in now.conditions]
    meaning = (
        "The label means that these conditions are met, not that the ranks are certain."
        if all(met for met, _ in now.conditions)
        else "The ranking is shown with this caveat."
    )
    if before is not None:
        same = before.status.status is now.status
        was = before.status.status if same else before.status.sentence
        meaning += f" In the comparison week: {was}."
    return Table(
        rows, "status", title=f"Rules kept: {now.status}{aside}", labels=False,
        notes=[meaning, f"Order decided{aside}: {sentences.order(report)}"],
    )  # fmt: skip


def _aside(report: WeeklyReport) -> str:
    phase = report.now.policy.phase
    return "" if phase.publishes_status else f" (computed, not published in phase {int(phase)})"


def order(leaderboard: Leaderboard) -> Table:
    """The adjacent pairs of the top, and whether the votes decide their order."""
    rows = [
        {
            "adjacent pair": f"{pair.above} over {pair.below}",
            "BT gap": number(pair.gap, "+.0f"),
            "order": _VERDICT[pair.verdict],
            "more votes": None if pair.more is None else f"{two_digits(pair.more):,}",
            "weeks": None if pair.weeks is None else f"{two_digits(ceil(pair.weeks)):,}",
            "expected": None if pair.becomes is None else _VERDICT[pair.becomes],
        }
        for pair in leaderboard.order_decided.pairs
    ]
    margin = f"{leaderboard.order_decided.margin:g}"
    note = (
        "Decided: the gap is significant for all pairs at once and for repeated looks. "
        f"Equivalent: it is within {margin} points, likewise. More votes: needed for 50 % power at "
        "this gap, distributed as now. Weeks: at the current rate. Expected: the result."
    )
    fragile, about = leaderboard.fragility(), ABOUT[leaderboard.order_decided.about]
    notes = [sentences.order_note(leaderboard), note, about, fragile.sentence if fragile else ""]
    return Table(rows, "order", notes=notes, empty="The board has fewer than two models.")


def fairness(report: WeeklyReport) -> Table:
    """Exposure in the rolling window against 2W/M and adjusted targets (7.1), and prompts (7.2)."""
    exposure = {row.model: row for row in report.now.fairness}
    adjusted = sentences.adjusted_due(report)
    within = f"within ±{100 * report.now.policy.exposure.tolerance:g} %"
    rows = [
        {
            "model": row["model"],
            "band": "contender" if row["contender"] else "",
            "exposure": (own := exposure[row["model"]]).exposure,
            "2W/M": f"{own.equal_target:.0f}",
            **({f"{within} of it": _mark(own.within_equal), "adjusted target": f"{own.target:.0f}"}
               if adjusted else {}),
            "deviation": percent(own.deviation, "+.1f"),
            within: _mark(own.within),
            "prompt coverage": _compare(percent(row["coverage"]), percent(row["coverage_before"])),
            "prompts at top target": percent(row["target"]),
        }
        for row in report.prompts
    ]  # fmt: skip
    notes = [adjusted, *report.feasibility, _unasked(report)]
    return Table(rows, "fairness", nowrap=["model"], notes=notes)


def _unasked(report: WeeklyReport) -> str:
    """Where models have no decisive vote on a prompt: perhaps there is no response to show."""
    coverage = report.now.coverage
    active = np.flatnonzero(coverage.active)
    missing = {
        model: [coverage.prompts[j] for j in active if not coverage.by_prompt[i, j]]
        for i, model in enumerate(coverage.models)
        if coverage.enabled[i]
    }
    cells = [f"{model} on {', '.join(names)}" for model, names in missing.items() if names]
    if not cells or sum(map(len, missing.values())) > _CELLS:
        return ""
    return f"No decisive vote, perhaps because a response is missing: {'; '.join(cells)}."


def pairs(report: WeeklyReport) -> Table:
    """Votes and prompts of adjacent contenders against the minimum (7.3)."""
    rule = report.now.policy.pairs
    rows = [
        {
            "adjacent pair": f"{row['above']} over {row['below']}",
            f"decisive votes ({rule.votes} needed)": _compare(row["votes"], row["votes_before"]),
            f"prompts ({rule.prompts} needed)": _compare(row["prompts"], row["prompts_before"]),
            "met": _mark(row["meets_floor"]),
        }
        for row in report.pairs
    ]
    before = "In brackets: the same pair at the end of the comparison week." * bool(report.before)
    return Table(rows, "pairs", notes=[before], empty="There are fewer than two contenders.")


def churn(report: WeeklyReport) -> Table:
    """Rank changes in the top, the models passed, and whether the bands are disjoint (12)."""
    rows = [
        {
            "model": move["model"],
            "rank": f"{move['before'] or 'new'} → {move['now'] or 'gone'}",
            "changed order with": ", ".join(move["crossed"]) or "none: models joined or left",
            "bands": f"disjoint: {', '.join(move['apart'])}" if move["apart"] else "overlap",
            "BT agrees": _agreed(report.now, move),
        }
        for move in (report.churn["moves"] if report.churn else ())
    ]
    agrees = (
        "BT agrees: for how many of these models Bradley–Terry, which weights all votes equally, "
        "gives the new order."
    )
    return Table(
        rows, "churn", nowrap=["model", "rank", "bands", "BT agrees"],
        notes=[sentences.order_note(report.now), agrees],
        empty=sentences.churn(report),
    )  # fmt: skip


def _agreed(board: Leaderboard, move: Row) -> str:
    """With how many of the models passed the Bradley–Terry order agrees."""
    if not move["crossed"] or move["now"] is None:
        return DASH
    own = board[move["model"]]
    agreed = [
        (own.bt_rating > other.bt_rating) == (own.conservative_rank < other.conservative_rank)
        for other in (board[name] for name in move["crossed"])
        if own.bt_rating is not None and other.bt_rating is not None
    ]
    return f"{sum(agreed)} of {len(agreed)}" if agreed else DASH


def objectives(report: WeeklyReport) -> Table:
    """The four objectives (3), each with a verdict and what it rests on."""
    judged = sentences.objectives(report)
    met = {True: "yes", False: "not yet", None: "not testable"}
    rows = [
        {"objective": each["objective"], "met": met[each["met"]], "why": each["why"],
         "it is met when": each["rule"]}
        for each in judged
    ]  # fmt: skip
    return Table(
        rows, "objectives", title=sentences.verdict(judged), bold=["objective"], nowrap=["met"],
        notes=[sentences.order_note(report.now)],
    )  # fmt: skip


def answer(report: WeeklyReport) -> list[str]:
    """How many objectives are met and which are not, what the board may be called, and what is
    decided about its order, in sentences.
    """
    judged, board, aside = sentences.objectives(report), report.now, _aside(report)
    waiting = [each["objective"] for each in judged if each["met"] is False]
    missing = f" Not yet: {'; '.join(waiting)}." if waiting else ""
    return [
        f"Objectives: {sentences.verdict(judged)}{missing}",
        f"Rules kept{aside}: {board.status.status}.",
        f"Order decided{aside}: {board.order_decided.counts}.",
    ]


def brief(report: WeeklyReport) -> list[str]:
    """The same in a few words."""
    return [*answer(report)[1:], f"Objectives: {sentences.verdict(sentences.objectives(report))}"]


def weekly(report: WeeklyReport) -> Table:
    """The report in a sentence for each of its checks (12), but for those that the publication
    status shows.
    """
    note, checks = sentences.order_note(report.now), sentences.sentences(report)
    in_status = ("Rules kept", "Order decided")
    shown = {name: each for name, each in checks.items() if name not in in_status}
    return facts(({"Ranks": note} if note else {}) | shown, name="weekly")


def _mark(met: bool) -> str:
    return "✓" if met else "✗"


def _compare(now: object, before: object) -> str:
    return str(now) if before is None or before == DASH else f"{now} ({before})"


def confidence(report: WeeklyReport) -> Table:
    """RD beside the Bradley–Terry standard error, now and in the comparison week (12)."""
    rows = [
        {"model": row["model"]}
        | {
            label: _compare(number(row[name], ".1f"), number(row[f"{name}_before"], ".1f"))
            for name, label in (("rd", "RD"), ("se", "Bradley–Terry SE"))
        }
        for row in report.confidence
    ]
    floor = f"RD levels off near {settled_rd(report.now.policy.glicko):.1f}."
    return Table(rows, "confidence", notes=[f"{floor} In brackets: the comparison week."])


def lanes(report: WeeklyReport) -> Table:
    """How much of the queue each lane served, beside its weight (6)."""
    rows = [
        {
            "lane": lane["lane"],
            "votes": lane["votes"],
            "share": percent(lane["share"], ".1f"),
            **({"in the week": percent(lane["lately"], ".1f")} if report.week else {}),
            "weight": percent(lane["weight"]),
        }
        for lane in lane_mix(report.now.battles, report.now.policy, report.in_week)
    ]
    note = (
        "Weight: the share of matchups for which the lane is drawn. A lane without a pair passes "
        "its turn on. Votes of a lane without weight were cast under other settings."
    )
    return Table(rows, "lanes", notes=[note], empty="The file has no lanes.")


def controls(report: WeeklyReport) -> Table:
    """What the file tells about sides and repeats (6.2, 11)."""
    counts = integrity(report.now.battles, report.now.policy)
    chance = "within chance" if counts["left_chance"] else "more than chance"
    left_won = percent(counts["left_wins"], ".1f")
    return facts(
        {
            "Sides": "{left_of} deviates most from 50 %: left in {left:.1%} of its votes "
            "({left_errors:.1f} standard errors, ".format(**counts)
            + f"{chance})",
            "Left side won": f"{left_won} of decisive votes",
            "Pair met too often on a prompt (6.2)": _counted(counts["prompt_repeats"], "meetings"),
            "Session saw pair and prompt again (11)": _counted(counts["session_repeats"], "votes"),
            "Battle ids used twice": _counted(counts["same_ids"], "votes"),
            "Names hidden before the vote, no bots": "not recorded in a battles file",
        },
        name="controls",
    )


def _counted(n: int | None, what: str) -> str:
    return "not recorded in this file" if n is None else f"{n} {what}"
