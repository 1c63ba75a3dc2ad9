"""Neighbours of a board: whether their order is decided, how few votes it rests on, and how many
more would decide it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import RatingError, Ratings
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.claims import claims
from arena_kit.rating.claims.power import Fragility, fragility
from arena_kit.reporting.tables import Table

Row = dict[str, Any]

SO_FEW = "So few battles, removed or added, would turn the order round."
SO_MANY = "So many more would decide it about every second time, if its gap stays as it is."


def rests_on(strengths: Ratings, battles: BattleLog) -> Fragility | None:
    """How few votes would change the first place of Bradley–Terry's ratings and the order of all
    neighbours; None for other methods and under settings for which that cannot be asked (an own
    model of ties, covariates, soft outcomes).
    """
    if strengths.method != "bradley-terry":
        return None
    try:
        return fragility(battles, BradleyTerry(**strengths.settings))
    except RatingError:
        return None


def orders(
    strengths: Ratings, fragile: Fragility | None, margin: float = 0.0, *, judged: bool = False
) -> list[Row]:
    """Plain values of all neighbours, best first: their state, how many `more` battles would decide
    an open order, and how few votes `removed` or `added` would turn it round (None where no number
    is known to). Where each battle is one pair `judged` in both orders, also the `calls`.
    """
    votes = {(each.above, each.below): each for each in (fragile.neighbours if fragile else ())}
    rows = []
    for pair in claims.neighbours(strengths, margin):
        turned = votes.get((pair.above, pair.below))
        row: Row = pair._asdict() | {
            "gap": strengths[pair.above].rating - strengths[pair.below].rating,
            "removed": turned and turned.removed,
            "added": turned and turned.added,
        }
        rows.append(row | ({"calls": _calls(strengths, pair.more)} if judged else {}))
    return rows


def _calls(strengths: Ratings, more: int | None) -> int | None:
    """The judge calls behind so many more battles: two a pair, and some pairs give none."""
    judged = strengths.n_battles + sum(strengths.dropped.values())
    return None if more is None else 2 * ceil(more * judged / strengths.n_battles)


def table(rows: Mapping[str, list[Row]], *, only_open: bool = False, most: int = 0) -> Table:
    """The neighbours of each dimension as `orders` has them; only the open ones, and no more than
    `most`, where that is asked for. A single board has the dimension "".
    """
    chosen = [
        (dimension, row)
        for dimension, own in rows.items()
        for row in own
        if not only_open or row["state"] == "open"
    ]
    more = "more judge calls" if any("calls" in row for _, row in chosen) else "more battles"
    return Table(
        rows=[
            ({"dimension": dimension} if dimension else {})
            | {"order": f"{row['above']} over {row['below']}", "gap": f"{row['gap']:.0f}"}
            | ({} if only_open else {"is": row["state"]})
            | {
                "battles removed": _votes_text(row["removed"]),
                "or added": _votes_text(row["added"]),
                more: more_text(row),
            }
            for dimension, row in chosen[: most or None]
        ],
        name="neighbours",
        group="dimension" if any(rows) else "",
        left=["order", "is"],
        notes=[SO_FEW, SO_MANY],
        empty="No two neighbours have a rating with an interval.",
    )


def _votes_text(number: int | None) -> str | None:
    """A number of votes; a dash where no number is known to turn the order round."""
    return None if number is None else f"{number:,}"


def more_text(row: Row) -> str | None:
    """How many more an open order needs, to two digits."""
    if row["state"] != "open":
        return None
    more = row.get("calls", row["more"])
    return "out of reach" if more is None else f"{claims.two_digits(more):,}"
