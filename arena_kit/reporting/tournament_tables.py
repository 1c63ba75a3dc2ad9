"""Tables of a tournament, and examples of its judgments."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from arena_kit.battles.battle import A_WINS, B_WINS
from arena_kit.battles.content import Conversation, data_url, numbered
from arena_kit.battles.log import BattleLog
from arena_kit.judging.asking.cost import Forecast, Prewarm, Spending, dollars
from arena_kit.judging.pairs.pairing import Pairing
from arena_kit.judging.pairs.prompts import Prompt, Response
from arena_kit.judging.quality.measures import served_by_others, served_sentence
from arena_kit.judging.verdicts.records import (
    Judgment,
    Settlement,
    Status,
    Verdict,
    settlement_counts,
    status_counts,
)
from arena_kit.rating.base import Ratings
from arena_kit.rating.claims import claims
from arena_kit.rating.elo import Stability
from arena_kit.reporting.board import Board, Dimension
from arena_kit.reporting.html import rendered
from arena_kit.reporting.tables import Shown, Table, facts, number, percent

_LONGEST_SHOWN = 1200  # characters of a response in an example


def pair_counts(pairing: Pairing, prompts: Sequence[Prompt]) -> Table:
    """Per dimension: prompts, pairs, requests, and pairs lost to missing responses."""
    used = Counter(name for name, _ in {(p.dimension, p.prompt_id) for p in pairing.pairs})
    rows = [
        {
            "dimension": dimension,
            "prompts": f"{used[dimension]} of {len(prompts)}",
            "pairs": n,
            "requests (both orders)": 2 * n,
            "pairs dropped": pairing.dropped_pairs.get(dimension, 0),
        }
        for dimension, n in (dict.fromkeys(pairing.dropped_pairs, 0) | pairing.counts()).items()
    ]
    lost = missing_text(pairing.missing, pairing.dropped_prompts, pairing.dropped_pairs)
    return Table(rows, "pairs", notes=[lost, barred_text(pairing.barred)])


def barred_text(barred: Mapping[str, int]) -> str:
    """How many pairs of the judge's own family were excluded; empty where none."""
    n = sum(barred.values())
    return f"{n} pairs of the judge's own family were excluded." if n else ""


def missing_text(
    missing: Iterable[Sequence[str]], prompts: Sequence[str], pairs: Mapping[str, int]
) -> str:
    """Which entrants lack responses, and what that excludes; empty where none is missing.

    `missing` has an entrant and a prompt each, `prompts` are left out whole, and `pairs` counts
    those that are not judged, by dimension.
    """
    lacking = Counter(entrant for entrant, _ in missing)
    if not lacking:
        return ""
    whose = ", ".join(f"{n} of {entrant}" for entrant, n in lacking.most_common())
    whole = f"{len(prompts)} whole prompt{'s' * (len(prompts) > 1)}, " if prompts else ""
    n = f"{sum(pairs.values())} pairs over {len(pairs)} dimension{'s' * (len(pairs) > 1)}"
    return f"Missing responses ({whose}) excluded {whole}{n}."


def verdict_counts(judgments: Sequence[Judgment]) -> Table:
    """Per dimension: verdicts by status, then what the pairs were settled as; under it, what there
    was none of, and who answered in place of the model that was asked.
    """
    groups: dict[str, tuple[dict[str, dict[str, int]], list[Status] | list[Settlement]]] = {
        "verdicts by status (one per call)": (status_counts(judgments), list(Status)),
        "pairs settled as": (settlement_counts(judgments), list(Settlement)),
    }
    rows = [
        {"counted": group, "": str(kind), **{d: counts[d][str(kind)] for d in counts}}
        for group, (counts, kinds) in groups.items()
        for kind in kinds
        if any(each[str(kind)] for each in counts.values())
    ]
    shown = {row[""] for row in rows}
    absent = [str(k) for _, kinds in groups.values() for k in kinds if str(k) not in shown]
    served = served_sentence(served_by_others(judgments))
    notes = [f"None: {', '.join(absent)}." if absent else "", served]
    return Table(rows, "verdicts", group="counted", notes=notes, empty="No verdicts.")


def examples(
    judgments: Sequence[Judgment],
    prompts: Mapping[str, Prompt],
    responses: Mapping[tuple[str, str], Response],
) -> Shown:
    """One win and one inconsistent pair of each dimension, with what the judge said.

    Which ones is settled by a hash of the pair, so they are neither chosen nor random.
    """
    chosen: dict[tuple[str, Settlement], Judgment] = {}
    for judgment in sorted(judgments, key=lambda j: sha256(j.pair.pair_id.encode()).digest()):
        chosen.setdefault((judgment.pair.dimension, judgment.settlement), judgment)
    wanted = [
        chosen.get((dimension, kind))
        for dimension in dict.fromkeys(j.pair.dimension for j in judgments)
        for kind in (Settlement.WINNER, Settlement.INCONSISTENT)
    ]
    cards = [_card(j, prompts[j.pair.prompt_id], responses) for j in wanted if j is not None]
    return Shown("".join(c.html for c in cards), "\n\n".join(c.text for c in cards))


def _card(
    judgment: Judgment, prompt: Prompt, responses: Mapping[tuple[str, str], Response]
) -> Shown:
    pair = judgment.pair
    outcome = f"{judgment.winner} wins" if judgment.winner else str(judgment.settlement)
    html = rendered(
        "example",
        title=f"{pair.dimension} · {pair.prompt_id} · {outcome}",
        prompt=_said(prompt.text),
        sides=[
            (entrant, _said(responses[entrant, pair.prompt_id].response_text))
            for entrant in (pair.entrant_a, pair.entrant_b)
        ],
        verdicts=[(each.presentation.first, _verdict(each)) for each in judgment.verdicts],
    )
    return Shown(html, f"{pair.pair_id}: {outcome}")


def _said(text: str) -> Iterator[tuple[str, str, str]]:
    """A text or, of a conversation, each part: who says it, its text, and a picture's address."""
    if not isinstance(text, Conversation):
        yield "", _cut(text), ""
        return
    for turn, message in numbered(text.messages):
        for part in message.parts:
            tool = f", tool call {part.name}" if part.kind == "tool_call" else ""
            image = data_url(part.name, text.pictures[part.name]) if part.kind == "image" else ""
            result = "" if part.result is None else f"\n→ {part.result}"
            yield f"{message.role}{tool}, turn {turn}", _cut(f"{part.text}{result}"), image


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + " …"


def _verdict(verdict: Verdict) -> str:
    named = verdict.winning_entrant or (str(verdict.winner) if verdict.winner else "no verdict")
    grade = f" ({verdict.margin})" if verdict.margin and verdict.winning_entrant else ""
    return f"{named}{grade}. {verdict.justification[:600]}"


def outlook(expected: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the whole bank is expected to decide, in a sentence; none where nothing is known."""
    pairs = [pair for each in expected.values() for pair in each["neighbours"]]
    likely = sum(pair["chance"] for pair in pairs)
    said = f"The whole bank should decide about {likely:.0f} of {len(pairs)} adjacent pairs."
    return [said] if pairs else []


Stabilities = Mapping[str, Sequence[Stability]]


def stability_table(stability: Stabilities, board: Board) -> Table:
    """Per adjacent pair: at which K the order holds, and whether it is decided, which depends
    on the evidence (by Bradley–Terry), not on K.
    """
    rows = [
        {
            "dimension": dimension,
            "adjacent pair": f"{pair.above} over {pair.below}",
            "ordered": "at every K" if pair.ordered_everywhere else _at(pair.ordered_at),
            "order by Bradley–Terry": evidence_state(pair, board[dimension]),
            "resamples in this order": (
                f"{percent(pair.share_above[0], '.1f')} at K {pair.ks[0]:g}, "
                f"{percent(pair.share_above[-1], '.1f')} at K {pair.ks[-1]:g}"
            ),
        }
        for dimension, pairs in stability.items()
        for pair in pairs
    ]
    left, empty = ["resamples in this order"], stability_answer(stability, board)
    return Table(rows, "stability", group="dimension", left=left, empty=empty)


def stability_answer(stability: Stabilities, board: Board) -> str:
    """Whether the order depends on K, and how much of it is unresolved, in a sentence."""
    pairs = [(dimension, pair) for dimension, ordered in stability.items() for pair in ordered]
    if not pairs:
        return "No dimension has a rating."
    moved = [f"{p.above} and {p.below} on {d}" for d, p in pairs if not p.ordered_everywhere]
    kept = "No: the ranking is the same for every K"
    order = f"Yes: {', '.join(moved)} change order with K" if moved else kept
    weak = sum(evidence_state(pair, board[d]) != "decided" for d, pair in pairs)
    return f"{order}; {weak} of {len(pairs)} adjacent pairs are unresolved by Bradley–Terry."


def evidence_state(pair: Stability, dimension: Dimension) -> str:
    """Whether the order of two neighbours by Elo is decided by Bradley–Terry's ratings."""
    if dimension.is_decided(pair.above, pair.below):
        return "decided"
    reverse = dimension.is_decided(pair.below, pair.above)
    return "decided in the reverse order" if reverse else "unresolved"


def shrinkage(sweep: Mapping[str, Mapping[float, Ratings]], board: Board) -> Table:
    """Per dimension and K, how many Elo points stand for one of Bradley–Terry."""
    fits = board.fits.get("bradley_terry", {})
    rows = [
        {"dimension": dimension}
        | {
            f"K {k:g}": number(claims.shrinkage(ratings, fits[dimension]), ".2f")
            for k, ratings in by_k.items()
        }
        for dimension, by_k in sweep.items()
        if dimension in fits
    ]
    noted = {name: [k for k, each in by_k.items() if each.notes] for name, by_k in sweep.items()}
    less = "intervals cover less than 95%"
    short = [f"{name}: {less} {_at(ks)}." for name, ks in noted.items() if ks]
    return Table(rows, "shrinkage", notes=short, empty="No dimension has a rating.")


def _at(ks: Iterable[float]) -> str:
    return f"at K {', '.join(f'{k:g}' for k in ks) or 'none'}"


_FREE = Table([], empty="Nothing: the judge runs locally.")


def forecast(cost: Forecast | None) -> Table:
    """Requests, tokens and dollars of a run before it starts."""
    return _FREE if cost is None else facts(forecast_rows(cost), name="forecast")


def forecast_rows(cost: Forecast) -> dict[str, str]:
    """A forecast in words."""
    return {
        "requests": f"{cost.requests:,} to send, {cost.answered:,} already answered",
        "input tokens": f"{cost.system_tokens:,} of system texts (cacheable) and "
        f"{cost.user_tokens:,} of user texts",
        "output tokens": f"{cost.output_tokens:,}, thinking included",
        "all prompt-cache hits": dollars(cost.usd_all_hits),
        "without prompt caching": dollars(cost.usd_no_cache),
        "no prompt-cache hit": f"{dollars(cost.usd_no_hits)} (compared with max_cost_usd)",
        "upper bound": f"{dollars(cost.usd_at_most)}, if every answer has max_tokens",
        "how counted": f"{cost.counted}; {cost.assumed}",
        "prices": f"{cost.model}: {cost.priced}",
    }


def spending(
    spent: Spending | None,
    judgments: Sequence[Judgment],
    cap: float = 0.0,
    by_dimension: Mapping[str, Spending] | None = None,
    ahead: Prewarm | None = None,
) -> Table:
    """What a run paid, in all and per dimension, what the caches did for it, and what to know about
    either.
    """
    if spent is None:
        return _FREE
    verdicts = [v for j in judgments for v in j.verdicts]
    reused = [v for v in verdicts if v.cached]
    saved = spent.usd_saved_by_prompt_cache
    rows = {
        "spent": f"{dollars(spent.usd)} on {spent.answers:,} answers",
        "from the ledger": f"{len(reused):,} verdicts, free now; they cost "
        f"{dollars(sum(v.cost_usd for v in reused))} earlier",
        "input tokens": f"{spent.input_tokens:,} uncached, {spent.written_tokens:,} written to "
        f"the prompt cache, {spent.read_tokens:,} read from it",
        "output tokens": f"{spent.output_tokens:,}, of them {spent.thinking_tokens:,} thinking",
        "prompt-cache hit rate": f"{percent(spent.hit_rate, '.1f')} of the cacheable tokens",
        "prompt caching": f"{'saved' if saved >= 0 else 'cost'} {dollars(abs(saved))}",
    }
    rows |= {"sent ahead": ahead.words} if ahead is not None else {}
    rows |= {
        f"on {dimension}": f"{dollars(part.usd)}: {part.input_tokens:,} input tokens uncached, "
        f"{part.written_tokens:,} written, {part.read_tokens:,} read, {part.output_tokens:,} output"
        for dimension, part in (by_dimension or {}).items()
    }
    if spent.usd_unknown:
        rows["spent"] += f", and about {dollars(spent.usd_unknown)} not reported by the service"
    unanswered = sum(v.detail.startswith("no answer, and") for v in verdicts)
    warnings = {
        spent.warning: bool(spent.warning),
        f"The cost exceeds max_cost_usd {cap:g}: answers were longer than forecast.": cap
        and spent.usd + spent.usd_unknown > cap,
        f"{unanswered} live calls had no answer and may have been billed.": unanswered,
    }
    warning = " ".join(sentence for sentence, holds in warnings.items() if holds)
    return facts(rows | ({"warning": warning} if warning else {}), name="spending")


def pairwise_winrates(battles: BattleLog) -> list[dict[str, Any]]:
    """A row per dimension and pair (sides in name order): wins, and `ties`, which are settled ones
    and inconsistent ones.
    """
    rows = []
    for dimension, log in battles.sides_in_order().by_dimension().items():
        counted = {
            "a_wins": log.outcome == A_WINS,
            "b_wins": log.outcome == B_WINS,
            "ties": ~log.decisive(),
            "inconsistent": log.flags(),
            "settled_ties": ~log.decisive() & ~log.flags(),
        }
        pairs, which = np.unique([log.a, log.b], axis=1, return_inverse=True)
        totals = {name: np.bincount(which.ravel(), mask) for name, mask in counted.items()}
        rows += [
            {"dimension": dimension, "entrant_a": log.models[i], "entrant_b": log.models[j]}
            | {name: int(total[n]) for name, total in totals.items()}
            for n, (i, j) in enumerate(pairs.T)
        ]
    return rows
