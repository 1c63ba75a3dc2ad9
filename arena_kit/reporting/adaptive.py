"""A tournament judged in rounds: what was decided when, and for how many calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

from arena_kit.judging.pairs.pairing import Pairing
from arena_kit.matchmaking.adaptive import Neighbours, Round, Standing
from arena_kit.rating.claims import claims
from arena_kit.reporting import figures as fig
from arena_kit.reporting.board import POWER, orders_of
from arena_kit.reporting.tables import DASH, Table, span

Rounds = Mapping[str, Sequence[Round]]
_COLOURS: dict[Standing, str] = {
    "decided": fig.ACCENT,
    "equivalent": "#009e73",
    "hopeless": "#e69f00",
    "unresolved": fig.LINE,
}


def standings(rounds: Rounds) -> Table:
    """Neighbours of the last round: their gap with the interval of repeated looks, and whether
    their order is decided, or would be with so many further prompts.
    """
    needed = {
        (dimension, order.above, order.below): order.needed
        for dimension, each in rounds.items()
        if each and (rated := each[-1].ratings)
        for order in orders_of(rated)
    }
    rows = [
        {
            "dimension": dimension,
            "order": f"{pair.above} over {pair.below}",
            "gap": f"{pair.gap:.0f}",
            "interval": span(pair.low, pair.high),
            "is": pair.standing,
            "chance with all calls": DASH if pair.standing == "decided" else f"{pair.chance:.0%}",
            "further prompts": needed.get((dimension, pair.above, pair.below)),
        }
        for dimension, each in rounds.items()
        if each
        for pair in each[-1].neighbours
    ]
    return Table(
        rows, "standings", group="dimension", nowrap=["order"],
        empty="No dimension has a rating.",
        notes=["Intervals are at the level that decides two neighbours.", POWER],
    )  # fmt: skip


def effort(rounds: Rounds, pairing: Pairing, stopped: Mapping[str, str]) -> Table:
    """How many calls of each dimension were made, of how many, and why no more."""
    rows, counts = [], pairing.counts()
    for dimension, each in rounds.items():
        made, full = each[-1].calls if each else 0, 2 * counts.get(dimension, 0)
        known = [pair.standing for pair in each[-1].neighbours] if each else []
        rows.append(
            {
                "dimension": dimension,
                "rounds": len(each),
                "calls": made,
                "of all": f"{full} ({made / max(1, full):.0%})",
                "neighbours decided": f"{known.count('decided')} of {len(known)}",
                "stopped because": stopped[dimension],
            }
        )
    return Table(rows, "effort")


def text(rounds: Rounds, stopped: Mapping[str, str]) -> str:
    """What was decided with how many calls, the same on every machine: for quoting."""
    lines = []
    for dimension, each in rounds.items():
        calls, rated = (each[-1].calls, each[-1].ratings) if each else (0, None)
        said = claims.sentences(rated)[:1] if rated else ()
        why = f"{calls} calls in {len(each)} rounds; {stopped[dimension]}."
        told = f"{dimension}: {' '.join([*said, why])}"
        lines += wrap(told, 88, subsequent_indent="    ")  # a report's box holds so much in a line
        lines += [
            f"  {pair.above + ' over ' + pair.below:<24} {pair.standing}"
            for pair in (each[-1].neighbours if each else ())
        ]
    return "\n".join(lines)


@fig.plot("rounds", "What was known of each two neighbours after each round, per dimension")
def decisions(rounds: Rounds, pairing: Pairing) -> fig.Figure:
    """When the order of each two final neighbours became decided."""
    from matplotlib.patches import Patch

    shown = {name: each for name, each in rounds.items() if each and each[-1].neighbours}
    n = max((len(each[-1].neighbours) for each in shown.values()), default=1)
    names = [f"{p.above} over {p.below}" for each in shown.values() for p in each[-1].neighbours]
    title, panels = "When was the order decided?", max(1, len(shown))
    figure, axes = fig.panels_of(1.6 + 0.34 * n, panels, title, labels=names)
    full = pairing.counts()
    for ax, (dimension, each) in zip(axes, shown.items(), strict=False):
        final = list(reversed(each[-1].neighbours))
        for y, pair in enumerate(final):
            before = 0.0
            for known in each:
                share = known.calls / (2 * full[dimension])
                colour = _COLOURS[known.standing(pair.above, pair.below)]
                ax.barh(y, share - before, left=before, color=colour, height=0.62, linewidth=0)
                before = share
        ax.set_yticks(range(len(final)), [_over(pair) for pair in final])
        ax.xaxis.set_major_formatter("{x:.0%}")
        ax.set(title=dimension, xlim=(0, 1), xlabel="calls, of a full round robin in both orders")
    handles = [Patch(color=colour) for colour in _COLOURS.values()]
    fig.legend_below(figure, handles, list(_COLOURS), columns=4)
    return figure


def _over(pair: Neighbours) -> str:
    """Two neighbours on an axis, on two lines where they are long."""
    above, below = fig.shown_name(pair.above), fig.shown_name(pair.below)
    return f"{above}{' ' if len(above + below) < 16 else chr(10)}over {below}"
