"""The leaderboard in the form that the policy locks (9.3), and its publication status (10)."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from arena_kit.board.formats import (
    DASH,
    rank_text,
    rating_cell,
    score_texts,
    shown,
    validity_texts,
)
from arena_kit.board.leaderboard import Leaderboard
from arena_kit.board.rows import BoardRow
from arena_kit.matchmaking.policy import Phase
from arena_kit.matchmaking.rules import Badge, Status
from arena_kit.reporting.tables import Shown, table

if TYPE_CHECKING:
    from great_tables import GT

_PILL = {
    Badge.STABLE: ("#dafbe1", "#1a7f37"),
    Badge.ESTABLISHED: ("#ddf4ff", "#0550ae"),
    Badge.PROVISIONAL: ("#fff1d6", "#7d4e00"),
}
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
        "Rank": f"{escape(rank_text(row))}{_change(row)}",
        "Model": f"<b>{escape(row.model)}</b>{badge}",
        "Rating": f"<div{tip}><b>{escape(value)}</b></div>{under}",
    }


def _badge(row: BoardRow) -> str:
    back, ink = _PILL[row.badge]
    why = escape("; ".join(row.badge_reasons))
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
        notes.append(f"Rating: raw rating - {found.policy.deviations:g} RD; below it the raw one.")
    else:
        notes.append("Rating: legacy Elo, which the order rests on in this rollout phase.")
    if any(row.official_rank is None for row in found.rows):
        notes.append(f"{DASH} in Rank: provisional, and outside official claims.")
    if phase.shows_diagnostics:
        notes.append("Confidence is RD as a percentage; Coverage is prompt coverage.")
    notes.append("Consistency, Spread and Avg score are raw: they depend on who met whom.")
    if found.movement:
        notes.append(f"No rank changes are shown: {found.movement}.")
    else:
        notes.append("▲▼: rank change since the comparison.")
    return notes


def metrics(found: Leaderboard) -> Shown:
    """Every other metric of every model (9.1, 9.2), folded away; why some are provisional."""
    import pandas as pd
    from great_tables import loc
    from great_tables import style as look_of

    def look(gt: GT) -> GT:
        gt = gt.cols_align("right").cols_align("left", columns=["model"])
        gt = gt.tab_style(look_of.css("white-space: nowrap"), loc.body())
        for row in found.rows:
            if row.provisional:
                why = "; ".join(row.provisional_reasons)
                gt = gt.tab_source_note(f"{row.model} is provisional: {why}.")
        return gt.tab_options(table_font_size="12px")

    frame = pd.DataFrame([_metric_row(row, found.policy.phase) for row in found.rows])
    made = table(frame, name="metrics", style=look)
    return Shown(f"<details><summary>All metrics</summary>{made.html}</details>", made.text)


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


def status(found: Leaderboard) -> Shown:
    """What the board may be called, with the reasons; before the migration it is not published."""
    official = found.status.status is Status.OFFICIAL
    back, ink = _PILL[Badge.STABLE if official else Badge.PROVISIONAL]
    aside = (
        ""
        if found.policy.phase.publishes_status
        else f" (computed, not published in phase {int(found.policy.phase)})"
    )
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in found.status.reasons)
    caveat = "" if official else "<p>The ranking stays visible, with this caveat.</p>"
    html = (
        f'<p><span style="background-color: {back}; color: {ink}; padding: 3px 12px; '
        f'border-radius: 12px; font-weight: 600">{escape(found.status.status)}</span>'
        f"{escape(aside)}</p><ul>{reasons}</ul>{caveat}"
    )
    return Shown(html, found.status.sentence + aside)


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
