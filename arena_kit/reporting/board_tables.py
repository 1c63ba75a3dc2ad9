"""The leaderboard in the form that the policy locks (9.3), and its publication status (10)."""

from __future__ import annotations

from dataclasses import asdict, replace
from html import escape
from math import ceil

from arena_kit.policy.constants import Phase
from arena_kit.policy.order import Verdict
from arena_kit.policy.rules import Badge, PublicationLabel
from arena_kit.rating.claims.claims import two_digits
from arena_kit.reporting.board import (
    ABOUT,
    VERSION,
    BesideMethod,
    Board,
    Dimension,
    FirstPlace,
    MethodRating,
    Order,
    Publication,
)
from arena_kit.reporting.board import BoardRow as RatedRow
from arena_kit.reporting.board import Validity as Standing
from arena_kit.reporting.tables import DASH, Cell, Shown, Table, number, percent
from arena_kit.validity.formats import flat
from arena_kit.validity.leaderboard import BoardRow, Leaderboard
from arena_kit.validity.sentences import order as decided
from arena_kit.validity.sentences import order_note
from arena_kit.validity.weekly import Validity

_PILL = {
    Badge.STABLE: ("#dafbe1", "#1a7f37"),
    Badge.ESTABLISHED: ("#ddf4ff", "#0550ae"),
    Badge.PROVISIONAL: ("#fff1d6", "#7d4e00"),
}
_NEXT = {
    Badge.STABLE: "",
    Badge.ESTABLISHED: "not Stable: ",
    Badge.PROVISIONAL: "not Established: ",
}
_VERDICT = {
    Verdict.DECIDED: "decided",
    Verdict.EQUIVALENT: "equivalent",
    Verdict.OPEN: "open",
    Verdict.REVERSED: "decided the other way round",
}
_FEW = 5  # prompts below which an average score is pointed out
_SMALL = "font-size: 11px; color: #57606a; white-space: nowrap"


def board(leaderboard: Leaderboard) -> Table:
    """The board as readers see it in its rollout phase (9.1, 9.3, 12).

    The Rating cell has the conservative score over the raw rating in small text, the Rank cell
    the tier under the rank; the badge stands in the model cell, and a tooltip says why the badge
    is what it is.
    """
    diagnostics = leaderboard.policy.phase.shows_diagnostics
    rows = [
        {
            "Rank": _rank(row, diagnostics=diagnostics),
            "Model": _model(row, diagnostics=diagnostics),
            "Rating": _rating(row, leaderboard.policy.phase),
        }
        | (_validity(row) if diagnostics else {})
        | _scores(row)
        for row in leaderboard.rows
    ]
    return Table(rows=rows, name="leaderboard", left=["Model"], notes=_notes(leaderboard))


def to_board(leaderboard: Leaderboard, arena: str) -> Board:
    """The leaderboard in the form that all boards have, ordered as its phase publishes it."""
    policy, status, decided = leaderboard.policy, leaderboard.status, leaderboard.order_decided
    phase, fragile = policy.phase, leaderboard.fragility()
    by_elo = phase.orders_by == "legacy_elo"
    tiers: dict[int, list[str]] = {}
    for row in sorted(leaderboard.rows, key=lambda row: -(row.bt_rating or 0.0)):
        if row.tier is not None:
            tiers.setdefault(row.tier, []).append(row.model)
    aside = "" if phase.publishes_status else " (computed, not published)"
    return Board(
        version=VERSION,
        title=arena,
        method="legacy-elo" if by_elo else "conservative-score",
        settings={"epoch": leaderboard.epoch},
        ratings=[_board_row(row, by_elo=by_elo) for row in leaderboard.rows],
        n_battles=len(leaderboard.battles),
        dropped={},
        dimensions=[
            Dimension(
                name="",
                n_battles=len(leaderboard.battles),
                about=decided.about,
                tiers=[tiers[n] for n in sorted(tiers)],
                margin=decided.margin,
                orders=[
                    Order(
                        above=pair.above,
                        below=pair.below,
                        state=pair.verdict.value,
                        gap=pair.gap,
                        more=pair.more,
                    )
                    for pair in leaderboard.adjacent
                ],
                fragility=fragile and FirstPlace(**asdict(fragile), sentence=fragile.sentence),
                sentences=[
                    f"Rules kept{aside}: {status.status}: {'; '.join(status.reasons)}.",
                    f"Order decided{aside}: {decided.sentence}.",
                ],
                notes=[ABOUT[decided.about]],
            )
        ],
        beside={
            "glicko2": BesideMethod(method="glicko2", settings={"epoch": leaderboard.epoch}),
            "bradley_terry": BesideMethod(
                method="bradley-terry", settings=leaderboard.strengths.settings
            ),
            "elo": BesideMethod(method="legacy-elo"),
        },
        publication=Publication(
            phase=int(phase),
            diagnostics=phase.shows_diagnostics,
            epoch=leaderboard.epoch,
            status=status.status,
            reasons=list(status.reasons),
            published=phase.publishes_status,
        ),
    )


def _board_row(row: BoardRow, *, by_elo: bool) -> RatedRow:
    beside = {
        "glicko2": MethodRating(rating=row.rating, rd=row.rd),
        "elo": MethodRating(rating=row.legacy_elo),
    }
    if row.bt_rating is not None:
        beside["bradley_terry"] = MethodRating(
            rating=row.bt_rating, ci_low=row.bt_low, ci_high=row.bt_high, se=row.bt_se
        )
    shared = ("confidence", "prompt_coverage", "provisional", "wins", "losses", "ties")
    return RatedRow(
        dimension="",
        rank=row.rank,
        model=row.model,
        rating=row.legacy_elo if by_elo else row.conservative,
        ci_low=None,
        ci_high=None,
        n_battles=row.votes,
        tier=row.tier,
        beside=beside,
        validity=Standing(
            official_rank=row.official_rank,
            badge=str(row.badge),
            **{name: getattr(row, name) for name in shared},
        ),
    )


def printed(leaderboard: Leaderboard) -> Table:
    """The board for Markdown and LaTeX: no notes, for they explain what only HTML shows."""
    return replace(board(leaderboard), left=["Model", "Record"], notes=())


def board_text(leaderboard: Leaderboard) -> str:
    """The board's first columns as text, the same on every machine: for quoting and for checks."""
    whole = board(leaderboard)
    names = [n for n in whole.rows[0] if n in ("Rank", "Model", "Rating", "Confidence", "Coverage")]
    return replace(whole, columns=names, notes=()).text


def every_metric(leaderboard: Leaderboard) -> Table:
    """Every metric of every model under its plain name, for CSV."""
    rows = [
        {name: "; ".join(v) if isinstance(v, tuple) else v for name, v in flat(row).items()}
        for row in leaderboard.rows
    ]
    return Table(rows=rows, name="every_metric")


def _rank(row: BoardRow, *, diagnostics: bool) -> Cell:
    """The official rank, or a dash for a model outside official claims (5.3), its change, and
    the tier, which the votes decide.
    """
    rank = DASH if row.official_rank is None else str(row.official_rank)
    html = f'<span style="white-space: nowrap">{rank}{_change(row)}</span>'
    if not diagnostics or row.tier is None:
        return Cell(rank, html)
    tier = f"tier {row.tier}"
    return Cell(f"{rank} ({tier})", f'{html}<div style="{_SMALL}">{tier}</div>')


def _model(row: BoardRow, *, diagnostics: bool) -> Cell:
    name = f"<b>{escape(row.model)}</b>"
    if not diagnostics:
        return Cell(row.model, name)
    return Cell(f"{row.model} ({row.badge})", name + _badge(row))


def _rating(row: BoardRow, phase: Phase) -> Cell:
    """What the order rests on, and the raw rating in small text under it (9.3).

    Legacy Elo is the value before the migration, and beside the raw rating during it (12).
    """
    spread = f"RD {row.rd:.1f}, volatility {row.volatility:.4f}"
    tip = f' title="{spread}"' if phase.shows_diagnostics else ""
    if phase.orders_by == "legacy_elo":
        return Cell(f"{row.legacy_elo:.0f}", f"<div{tip}><b>{row.legacy_elo:.0f}</b></div>")
    legacy = f", Elo {row.legacy_elo:.0f}" if phase.shows_legacy_elo else ""
    value, small = f"{row.conservative:.0f}", f"raw {row.rating:.0f}{legacy}"
    under = f'<div style="{_SMALL}">{small}</div>'
    return Cell(f"{value} ({small})", f"<div{tip}><b>{value}</b></div>{under}")


def _validity(row: BoardRow) -> dict[str, object]:
    """The two columns that the policy adds (9.3)."""
    return {"Confidence": f"{row.confidence}%", "Coverage": percent(row.prompt_coverage)}


def _scores(row: BoardRow) -> dict[str, object]:
    """The columns that were there before (9.1); scores are raw."""
    return {
        "Consistency": number(row.raw.consistency, "", "%"),
        "Spread": number(row.raw.spread, ".2f"),
        "Avg score": number(row.raw.average, ".2f"),
        "Record": f"{row.wins}/{row.losses}/{row.ties}",
        "Votes": row.votes,
        "Both bad": row.both_bad,
    }


def _badge(row: BoardRow) -> str:
    back, ink = _PILL[row.badge]
    why = escape(_NEXT[row.badge] + "; ".join(row.badge_reasons))
    return (
        f' <span title="{why}" style="background-color: {back}; color: {ink}; font-size: 11px; '
        f'padding: 1px 7px; border-radius: 9px; white-space: nowrap">{escape(row.badge)}</span>'
    )


def _change(row: BoardRow) -> str:
    if not row.rank_change:
        return ""
    up = row.rank_change > 0
    mark, ink = ("▲", "#1a7f37") if up else ("▼", "#a40e26")
    return (
        f' <span style="font-size: 11px; color: {ink}; white-space: nowrap">'
        f"{mark}{abs(row.rank_change)}</span>"
    )


def _notes(leaderboard: Leaderboard) -> list[str]:
    phase = leaderboard.policy.phase
    notes = []
    if phase.orders_by == "conservative":
        n = f"{leaderboard.policy.deviations:g}"
        notes.append(f"Rating: conservative score (raw rating - {n} RD), under it the raw rating.")
    else:
        notes.append("Rating: legacy Elo, which the order rests on in this rollout phase.")
    if any(row.official_rank is None for row in leaderboard.rows):
        notes.append(f"{DASH} in Rank: provisional, and outside official claims.")
    if phase.shows_diagnostics:
        scale = leaderboard.policy.confidence
        notes.append(
            f"Confidence: RD {scale.rd_best:g} is 100 %, RD {scale.rd_best + scale.rd_span:g} is "
            "0 %; it is no probability. Coverage: prompt coverage."
        )
        tier = "Tier: every model is decidedly above all models of later tiers, by Bradley–Terry"
        stable = (
            "Stable: votes and coverage as the policy asks, RD at its floor, and the order against "
            "both officially ranked neighbours decided or equivalent."
        )
        notes += [f"{tier}; ranks within a tier may be chance.", stable, ABOUT[_about(leaderboard)]]
    if phase.shows_legacy_elo and phase.orders_by == "conservative":
        notes.append("Elo: the legacy rating, for continuity during the transition.")
    notes.append("Consistency, Spread and Avg score are raw: they depend on who met whom.")
    few = sum(r.raw.average is not None and r.raw.prompts < _FEW for r in leaderboard.rows)
    if few:
        notes.append(f"Avg score rests on fewer than {_FEW} prompts for {few} models.")
    if leaderboard.movement:
        notes.append(f"No rank changes are shown: {leaderboard.movement}.")
    else:
        notes.append("▲▼: change of official rank since the board compared with.")
    return [note for note in notes if note]


def _about(leaderboard: Leaderboard) -> str:
    return leaderboard.order_decided.about


def metrics(leaderboard: Leaderboard) -> Shown:
    """Every other metric of every model (9.1, 9.2), folded away; why some are provisional."""
    rows = [_metric_row(row, leaderboard.policy.phase) for row in leaderboard.rows]
    about_bt = (
        "BT is Bradley–Terry: the ratings under which all votes together are likeliest, with "
        "their standard error (SE), which unlike RD rests on the evidence alone. "
        f"{ABOUT[_about(leaderboard)]}"
    )
    table = Table(
        rows=rows,
        name="metrics",
        left=["model"],
        nowrap=list(rows[0]),
        small=True,
        notes=[about_bt, *_unmet(leaderboard), *_provisional(leaderboard)],
    )
    return Shown(f"<details><summary>All metrics</summary>{table.html}</details>", table.text)


def _unmet(leaderboard: Leaderboard) -> list[str]:
    names = [row.model for row in leaderboard.rows if row.bt_rating is None]
    if not names:
        return []
    return [f"No Bradley–Terry rating for {', '.join(names)}: no vote connects them to the rest."]


def _provisional(leaderboard: Leaderboard) -> list[str]:
    rows = [row for row in leaderboard.rows if row.provisional]
    if len(rows) > _FEW:
        return [f"{len(rows)} models are provisional; leaderboard.json says why each."]
    return [f"{r.model} is provisional: {'; '.join(r.provisional_reasons)}." for r in rows]


def _metric_row(row: BoardRow, phase: Phase) -> dict[str, object]:
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
        "adjusted score": number(row.adjusted.average, "+.2f"),
        "adjusted spread": number(row.adjusted.spread, ".2f"),
        "adjusted consistency": number(row.adjusted.consistency, ".0f"),
        "decisive": row.decisive,
        "quality floor": number(row.quality_floor, ".3f"),
        "shown / due": f"{row.exposure} / {row.exposure_target:.0f}",
        **(legacy if phase.shows_legacy_elo else {}),
    }  # fmt: skip


def status(report: Validity) -> Shown:
    """What the board may be called by the rules it keeps, and beside it what is decided about its
    order; neither is published before the migration.
    """
    board, phase = report.now, report.now.policy.phase
    unpublished = f" (computed, not published in phase {int(phase)})"
    aside = "" if phase.publishes_status else unpublished
    html = f"{_rules_html(report, aside)}{_order_html(report, aside)}"
    rules = f"Rules kept: {board.status.sentence}{aside}"
    return Shown(html, f"{rules}\nOrder decided: {board.order_decided.sentence}{aside}")


def _rules_html(report: Validity, aside: str) -> str:
    status = report.now.status
    official = status.status is PublicationLabel.OFFICIAL
    items = "".join(
        f"<li>{'✓' if met else '✗'} {escape(text)}</li>" for met, text in status.conditions
    )
    pill = _pill(status.status, Badge.STABLE if official else Badge.PROVISIONAL)
    return (
        f"<p><b>Rules kept:</b> {pill}{escape(aside)}</p>"
        f'<ul style="list-style: none; padding-left: 8px">{items}</ul>'
        f"<p>{escape(_meaning(report, official=official))}</p>"
    )


def _order_html(report: Validity, aside: str) -> str:
    order = report.now.order_decided
    whole = "whole" if order.whole else "in part" if order.of(Verdict.DECIDED) else "not yet"
    pill = _pill(whole, Badge.STABLE if order.whole else Badge.PROVISIONAL)
    return f"<p><b>Order decided:</b> {pill}{escape(aside)}</p><p>{escape(decided(report))}</p>"


def _pill(text: str, look: Badge) -> str:
    back, ink = _PILL[look]
    return (
        f'<span style="background-color: {back}; color: {ink}; padding: 3px 12px; '
        f'border-radius: 12px; font-weight: 600">{escape(text)}</span>'
    )


def order(leaderboard: Leaderboard) -> Table:
    """The neighbours of the top, and whether the votes decide their order."""
    rows = [
        {
            "neighbours": f"{pair.above} over {pair.below}",
            "BT gap": number(pair.gap, "+.0f"),
            "order": _VERDICT[pair.verdict],
            "more votes": None if pair.more is None else f"{two_digits(pair.more):,}",
            "weeks": None if pair.weeks is None else f"{two_digits(ceil(pair.weeks)):,}",
            "until": None if pair.becomes is None else _VERDICT[pair.becomes],
        }
        for pair in leaderboard.order_decided.pairs
    ]
    margin = f"{leaderboard.order_decided.margin:g}"
    note = (
        "Decided: the gap clears a level that holds for all pairs and for repeated looks. "
        f"Equivalent: it surely lies within {margin} points. More votes: of the present mix, if "
        "the gap stays as it is; by then about every second such order is settled. Weeks: at the "
        "present rate."
    )
    return Table(
        rows=rows,
        name="order",
        left=["neighbours", "order", "until"],
        notes=[*filter(None, [order_note(leaderboard), note]), *_about_order(leaderboard)],
        empty="The board has no two models.",
    )


def _about_order(leaderboard: Leaderboard) -> list[str]:
    """What the order is about, and how few votes would turn the first place round."""
    fragile = leaderboard.fragility()
    return [ABOUT[_about(leaderboard)], *([fragile.sentence] if fragile else [])]


def _meaning(report: Validity, *, official: bool) -> str:
    """What the label says and does not say, and what it was before."""
    meaning = (
        "The label says that these conditions are met, not that the ranks are certain."
        if official
        else "The ranking stays visible, with this caveat."
    )
    if report.before is None:
        return meaning
    was = report.before.status
    if was.status is report.now.status.status:
        return f"{meaning} It was the same in the comparison week."
    return f"{meaning} In the comparison week it was {was.sentence}."
