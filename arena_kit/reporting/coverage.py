"""How well models, prompts and neighbours are covered, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from arena_kit.policy.streamed_coverage import StreamedCoverage
from arena_kit.reporting.tables import Table


def coverage_rows(coverage: StreamedCoverage, order: Sequence[str]) -> list[dict[str, Any]]:
    """What is known of each model, in an order, and of its comparison with the one below."""
    share = coverage.prompt_coverage().tolist()
    rows = []
    below = {pair.above: pair for pair in coverage.adjacent(order)}
    for model in order:
        i, next_ = coverage.index(model), below.get(model)
        rows.append(
            {
                "model": model,
                "votes": int(coverage.votes[i]),
                "decisive": int(coverage.decisive[i]),
                "ties": int(coverage.ties[i]),
                "both_bad": int(coverage.both_bad[i]),
                "prompt_coverage": share[i],
                "below": next_
                and {
                    "model": next_.below,
                    "votes": next_.coverage.votes,
                    "prompts": next_.coverage.prompts,
                    "meets_floor": next_.meets_floor,
                },
            }
        )
    return rows


def coverage_table(coverage: StreamedCoverage, rows: Sequence[Mapping[str, Any]]) -> Table:
    """The same for people."""
    rule, pairs = coverage.policy.prompts, coverage.policy.pairs
    compared = [row["below"] for row in rows if row["below"]]
    met = sum(each["meets_floor"] for each in compared)
    shown = [
        {
            "model": row["model"],
            "votes": f"{row['votes']:,}",
            "decisive": f"{row['decisive']:,}",
            "prompts covered": f"{row['prompt_coverage']:.0%}",
            "with the next: votes": row["below"] and f"{row['below']['votes']:,}",
            "on prompts": row["below"] and f"{row['below']['prompts']:,}",
        }
        for row in rows
    ]
    floor = f"{pairs.votes} decisive votes on {pairs.prompts} prompts"
    notes = [
        f"{rule.floor} decisive votes cover a prompt; {coverage.prompts:,} prompts are named.",
        f"{met} of {len(compared)} neighbours have the floor: {floor}.",
    ]
    return Table(rows=shown, title="Coverage", left=["model"], notes=notes)
