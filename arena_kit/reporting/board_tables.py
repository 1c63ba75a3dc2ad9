"""The leaderboard in the form that the policy locks (9.3), and its publication status (10)."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from arena_kit.policy.constants import Phase
from arena_kit.policy.feasibility import badge_limit
from arena_kit.policy.rules import Badge, Status
from arena_kit.reporting.show import Shown, table
from arena_kit.validity.formats import (
    DASH,
    rank_text,
    rating_cell,
    score_texts,
    shown,
    validity_texts,
)
from arena_kit.validity.leaderboard import BoardRow, Leaderboard
from arena_kit.validity.weekly import Validity

if TYPE_CHECKING:
    from great_tables import GT

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
_FEW = 5  # prompts below which an average score is pointed out
_SMALL = "font-size: 11px; color: #57606a; white-space: nowrap"


def board(found: Leaderboard) -> Shown:
    """The board as readers see it in its rollout phase.

    The Rating cell has the conservative score over the raw rating in small text, the badge
    stands in the model cell, and a tooltip says why the badge is what it is.
    """
    import pandas as pd

    diagnostics = found.policy.phase.shows_diagnostics
    rows = [
        {"Rank": rank_text(row), "Model": row.model, "Rating": rating_cell(found, row)[0]}
        | (validity_texts(row) if diagnostics else {})
        | score_texts(row)
        for row in found.rows
    ]
    frame = pd.DataFrame(rows)

    def look(gt: GT) -> GT:
        gt = gt.cols_align("right").cols_align("left", columns=["Model"])
        for n, row in enumerate(found.rows):
            for column, cell in _cells(found, row).items():
                gt = gt.fmt(partial(_instead, cell), columns=column, rows=[n])
        for note in _notes(found):
            gt = gt.tab_source_note(note)
        return gt

    return Shown(table(frame, name="leaderboard", style=look).html, board_text(found))


def _instead(cell: str, _: object) -> str:
    """The cell, whatever stood there."""
    return cell


def _cells(found: Leaderboard, row: BoardRow) -> dict[str, str]:
    """The cells that are more than a text, as HTML with every text escaped."""
    value, small = rating_cell(found, row)
    under = f'<div style="{_SMALL}">{escape(small.strip("()"))}</div>' if small else ""
    told = f"RD {row.rd:.1f}, volatility {row.volatility:.4f}"
    diagnostics = found.policy.phase.shows_diagnostics
    tip = f' title="{escape(told)}"' if diagnostics else ""
    badge = _badge(row) if diagnostics else ""
    return {
        "Rank": f'<span style="white-space: nowrap">{escape(rank_text(row))}{_change(row)}</span>',
        "Model": f"<b>{escape(row.model)}</b>{badge}",
        "Rating": f"<div{tip}><b>{escape(value)}</b></div>{under}",
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


def _notes(found: Leaderboard) -> list[str]:
    phase = found.policy.phase
    notes = []
    if phase.orders_by == "conservative":
        n = f"{found.policy.deviations:g}"
        notes.append(f"Rating: conservative score (raw rating - {n} RD), under it the raw rating.")
    else:
        notes.append("Rating: legacy Elo, which the order rests on in this rollout phase.")
    if any(row.official_rank is None for row in found.rows):
        notes.append(f"{DASH} in Rank: provisional, and outside official claims.")
    if phase.shows_diagnostics:
        scale = found.policy.confidence
        notes.append(
            f"Confidence: RD {scale.rd_best:g} is 100 %, RD {scale.rd_best + scale.rd_span:g} is "
            "0 %; it is no probability. Coverage: prompt coverage."
        )
        notes.append(badge_limit(found.policy))
    if phase.shows_legacy_elo and phase.orders_by == "conservative":
        notes.append("Elo: the legacy rating, for continuity during the transition.")
    notes.append("Consistency, Spread and Avg score are raw: they depend on who met whom.")
    few = sum(r.raw.average is not None and r.raw.prompts < _FEW for r in found.rows)
    if few:
        notes.append(f"Avg score rests on fewer than {_FEW} prompts for {few} models.")
    if found.movement:
        notes.append(f"No rank changes are shown: {found.movement}.")
    else:
        notes.append("▲▼: change of official rank since the board compared with.")
    return [note for note in notes if note]


def metrics(found: Leaderboard) -> Shown:
    """Every other metric of every model (9.1, 9.2), folded away; why some are provisional."""
    import pandas as pd
    from great_tables import loc
    from great_tables import style as look_of

    def look(gt: GT) -> GT:
        gt = gt.cols_align("right").cols_align("left", columns=["model"])
        gt = gt.tab_style(look_of.css("white-space: nowrap"), loc.body())
        gt = gt.tab_source_note(
            "BT is Bradley–Terry: the ratings under which all votes together are likeliest, with "
            "their standard error (SE), which unlike RD rests on the evidence alone."
        )
        for note in (*_unmet(found), *_provisional(found)):
            gt = gt.tab_source_note(note)
        return gt.tab_options(table_font_size="12px")

    frame = pd.DataFrame([_metric_row(row, found.policy.phase) for row in found.rows])
    made = table(frame, name="metrics", style=look)
    return Shown(f"<details><summary>All metrics</summary>{made.html}</details>", made.text)


def _unmet(found: Leaderboard) -> list[str]:
    names = [row.model for row in found.rows if row.bt_rating is None]
    if not names:
        return []
    return [f"No Bradley–Terry rating for {', '.join(names)}: no vote connects them to the rest."]


def _provisional(found: Leaderboard) -> list[str]:
    rows = [row for row in found.rows if row.provisional]
    if len(rows) > _FEW:
        return [f"{len(rows)} models are provisional; leaderboard.json says why each."]
    return [f"{r.model} is provisional: {'; '.join(r.provisional_reasons)}." for r in rows]


def _metric_row(row: BoardRow, phase: Phase) -> dict[str, Any]:
    by_elo = phase.orders_by == "legacy_elo"
    legacy = {"legacy Elo": f"{row.legacy_elo:.0f} (#{row.legacy_rank})"}
    return {
        "model": row.model,
        **({"v2 rank": row.conservative_rank, "v2 score": f"{row.conservative:.0f}"}
           if by_elo else {}),
        "raw": f"{row.rating:.0f}",
        "RD": f"{row.rd:.1f}",
        "volatility": f"{row.volatility:.4f}",
        "BT": _number(row.bt_rating, ".0f"),
        "BT SE": _number(row.bt_se, ".1f"),
        "pair coverage": _number(row.pair_coverage, ".2f"),
        "adjusted score": _number(row.adjusted.average, "+.2f"),
        "adjusted spread": _number(row.adjusted.spread, ".2f"),
        "adjusted consistency": _number(row.adjusted.consistency, ".0f"),
        "decisive": row.decisive,
        "quality floor": _number(row.quality_floor, ".3f"),
        "shown / due": f"{row.exposure} / {row.exposure_target:.0f}",
        **(legacy if phase.shows_legacy_elo else {}),
    }  # fmt: skip


def _number(value: float | None, how: str) -> str:
    return DASH if value is None else f"{value:{how}}"


def status(report: Validity) -> Shown:
    """What the board may be called, with each condition; unpublished before the migration."""
    found = report.now
    official = found.status.status is Status.OFFICIAL
    back, ink = _PILL[Badge.STABLE if official else Badge.PROVISIONAL]
    phase = found.policy.phase
    unpublished = f" (computed, not published in phase {int(phase)})"
    aside = "" if phase.publishes_status else unpublished
    items = "".join(
        f"<li>{'✓' if met else '✗'} {escape(text)}</li>" for met, text in found.status.conditions
    )
    html = (
        f'<p><span style="background-color: {back}; color: {ink}; padding: 3px 12px; '
        f'border-radius: 12px; font-weight: 600">{escape(found.status.status)}</span>'
        f'{escape(aside)}</p><ul style="list-style: none; padding-left: 8px">{items}</ul>'
        f"<p>{escape(_meaning(report, official=official))}</p>"
    )
    return Shown(html, found.status.sentence + aside)


def _meaning(report: Validity, *, official: bool) -> str:
    """What the label says and does not say, and what it was before."""
    said = (
        "The label says that these conditions are met, not that the ranks are certain."
        if official
        else "The ranking stays visible, with this caveat."
    )
    if report.before is None:
        return said
    was = report.before.status
    if was.status is report.now.status.status:
        return f"{said} It was the same in the comparison week."
    return f"{said} In the comparison week it was {was.sentence}."


def board_text(found: Leaderboard) -> str:
    """The board as text, the same on every machine: for quoting and for checks."""
    rows = shown(found)
    names = [name for name in ("Rank", "Model", "Rating", "Confidence", "Coverage") if rows]
    names = [name for name in names if name in rows[0]] if rows else []
    width = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    lines = [{name: name for name in names}, *rows]
    return "\n".join(
        "  ".join(
            line[name].ljust(width[name]) if name == "Model" else line[name].rjust(width[name])
            for name in names
        ).rstrip()
        for line in lines
    )
