"""What a planned tournament is expected to decide: by an earlier record of it, or by its size."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.rating.base import MIN_QUESTIONS, rated_or_none
from arena_kit.rating.claims import claims, power
from arena_kit.reporting.tables import probability
from arena_kit.runs.record.inputs import battles_of
from arena_kit.runs.record.record import open_record, readable_records, runs_folder
from arena_kit.runs.settings.parameters import RunParams
from arena_kit.runs.tournament.plan import Plan, is_lexical
from arena_kit.runs.tournament.protocol import Claim

Floats = NDArray[np.float64]


def _expected(
    record: str = "",
    neighbours: Sequence[power.Prospect] = (),
    gaps: tuple[float, float] | None = None,
    why_not: str = "",
) -> dict[str, Any]:
    """What a run is expected to decide of one dimension, in words, too.

    With an earlier `record` (its name and judge), the chance of every two neighbours of its
    ranking; without, the gaps that are decided with a chance of 50 and of 80 %. `why_not` says why
    neither is known.
    """
    half, most = gaps or (None, None)
    if neighbours:
        each = ", ".join(f"{p.above} over {p.below} {probability(p.chance)}" for p in neighbours)
        sentence = (
            f"{sum(p.chance for p in neighbours):.1f} of {len(neighbours)} neighbouring orders are "
            f"expected to be decided, by {record}: {each}."
        )
    elif gaps:
        sentence = (
            f"a gap of {half:.0f} points between neighbours is decided with a chance of 50%, "
            f"one of {most:.0f} points with 80% (entrants otherwise alike, variances "
            f"{power.DESIGN_EFFECT:g} times those of independent battles)."
        )
    else:
        sentence = f"no order can be decided: {why_not}."
    return {
        "record": record or None,
        "neighbours": [asdict(pair) for pair in neighbours],
        "expected_decided": sum(p.chance for p in neighbours) if neighbours else None,
        "gap_decided_in_50_percent": half,
        "gap_decided_in_80_percent": most,
        "design_effect_assumed": power.DESIGN_EFFECT if gaps else None,
        "sentence": sentence,
    }


def expectations(plan: Plan, record: Path | None = None) -> dict[str, dict[str, Any]]:
    """What each dimension of a plan is expected to decide, by the record that is named or else the
    latest one of the same tournament.
    """
    named, record = record, record or latest_record(plan)
    manifest = open_record(record) if record else {}
    logs = battles_of(record).by_dimension() if record else {}
    name = f"{record.name} (judge {manifest.get('judge_model')})" if record else ""
    by_dimension = {
        dimension: _of_dimension(
            plan, dimension, logs, name, again=_asks_the_same(plan, manifest, dimension)
        )
        for dimension in plan.tournament.dimensions
    }
    if named and all(each["design_effect_assumed"] for each in by_dimension.values()):
        raise DataError(f"{named}: has no dimension that rates all of {plan.tournament.name}")
    return by_dimension


def study_size(
    plan: Plan, texts: Sequence[str], wanted: float, gap: float | None, record: Path | None
) -> list[dict[str, Any]]:
    """How large a study must be for primary claims: prompts in all and per stratum, judge calls,
    dollars and people's votes, with the power of other sizes.

    Parameters
    ----------
    texts
        The claims in words; empty takes those of the plan's protocol.
    gap
        Points that are assumed; None takes the gap of the record, shrunk.
    record
        A pilot; None takes the latest of the same tournament, if there is one.
    """
    texts = texts or (plan.protocol or {}).get("primary", ())
    if not texts:
        raise DataError("no primary claim: name one with --claim, or a protocol that has one")
    known = tuple(plan.tournament.entrants), tuple(plan.tournament.dimensions)
    parts, record = [Claim.read(text, *known) for text in texts], record or latest_record(plan)
    method = plan.tournament.elo.bradley_terry()
    share = 1 - (1 - claims.level(method.looks)) / 2 / len(parts)
    logs = battles_of(record).by_dimension() if record else {}
    whole = _whole(plan)
    out = []
    for claim in parts:
        log = logs.get(claim.dimension)
        ratings = rated_or_none(method, log) if log is not None else None
        placed = {row.model for row in ratings.ratings if row.placed} if ratings else set()
        if ratings and {claim.above, claim.below} <= placed:
            effect, source = power.Effect.of(ratings, claim.above, claim.below, gap), record
        elif gap is not None:
            effect, source = power.Effect.assumed(gap, len(known[0]), method.scale), None
        else:
            raise DataError(f"{claim}: no record rates both; name one with --from, or a --gap")
        out.append(_size(whole, claim, effect, (wanted, share), source))
    return out


def _size(
    whole: Plan, claim: Claim, effect: power.Effect, wanted: tuple[float, float], by: Path | None
) -> dict[str, Any]:
    """What one claim needs."""
    pairs = [pair for pair in whole.pairing.pairs if pair.dimension == claim.dimension]
    ids = dict.fromkeys(pair.prompt_id for pair in pairs)
    bank = Counter(whole.material.prompts[name].source for name in ids)
    cost, calls = whole.cost(), 2 * len(whole.pairing.pairs) / bank.total()
    usd = cost.usd_no_hits / max(1, cost.requests) if cost else 0.0

    def row(n: int) -> dict[str, Any]:
        asked = ceil(n * calls)
        paid = {"dollars": round(asked * usd, 2)} if cost else {}
        return {"prompts": n, "judge calls": asked, **paid, "power": effect.power(n, wanted[1])}

    n = effect.prompts(*wanted)
    sizes = {*(MIN_QUESTIONS * 2**k for k in range(7)), bank.total(), *([n] if n else [])}
    gap, how = f"{effect.gap:.0f} points", by.name if by else "assumed noise"
    if n is None:
        most = power.MOST_PROMPTS
        reached = f"{effect.power(most, wanted[1]):.0%} at {most:,} prompts"
        sentence = f"{wanted[0]:.0%} power is not within reach, {reached}"
    else:
        sentence = f"{n:,} new prompts for {wanted[0]:.0%} power"
    return {
        "claim": str(claim),
        "gap": effect.gap,
        "probability": wanted[1],
        "needed": row(n) if n else None,
        "prompts_per_stratum": {s: ceil((n or 0) * k / bank.total()) for s, k in bank.items()},
        "votes": effect.votes(whole.tournament.elo.scale).prompts(*wanted),
        "curve": [row(size) for size in sorted(sizes)],
        "bank": bank.total(),
        "sentence": f"{claim}: {sentence} (gap {gap}, {how}; the bank has {bank.total():,}).",
    }


def _whole(plan: Plan) -> Plan:
    """The plan on the whole bank."""
    params = plan.params.model_dump() | {"strata": {}, "limit_pairs": 0}
    return Plan.of(plan.mode, RunParams.model_validate(params))


def whole_bank(plan: Plan, battles: BattleLog) -> dict[str, dict[str, Any]]:
    """What each dimension is expected to decide once the whole bank is judged, by the battles of a
    run on a part of it.
    """
    whole, logs = _whole(plan), battles.by_dimension() if len(battles) else {}
    return {
        dimension: _of_dimension(whole, dimension, logs, "this run", again=True)
        for dimension in plan.tournament.dimensions
    }


def _of_dimension(
    plan: Plan, dimension: str, logs: Mapping[str, BattleLog], name: str, *, again: bool
) -> dict[str, Any]:
    """By earlier battles, where there are any that rate all entrants, else by size."""
    pairs = [pair for pair in plan.pairing.pairs if pair.dimension == dimension]
    log = logs.get(dimension)
    n = len({pair.prompt_id for pair in pairs})
    known = _by_record(plan, pairs, n, log, name, again=again) if log is not None else None
    return (known or _by_size(plan, pairs, n)) | {"prompts": n}


def latest_record(plan: Plan) -> Path | None:
    """The latest finished record of the same tournament that has battles; of the demo judge
    only where it is the plan's, too.
    """
    records = readable_records(runs_folder(plan.root))
    usable = {path: manifest for path, manifest in records if _serves(plan, path, manifest)}
    return max(usable, key=lambda path: str(usable[path].get("started_at")), default=None)


def _serves(plan: Plan, path: Path, manifest: Mapping[str, Any]) -> bool:
    tournament, judge = manifest.get("tournament"), str(manifest.get("judge_model"))
    same = isinstance(tournament, dict) and tournament.get("name") == plan.tournament.name
    fair = judge == plan.judge.model or not is_lexical(judge)
    finished = manifest.get("status") == "finished" and (path / "battles.jsonl").is_file()
    return same and fair and finished


def _asks_the_same(plan: Plan, manifest: Mapping[str, Any], dimension: str) -> bool:
    """Whether the plan would get the record's own verdicts again, from the ledger."""
    judge = {"model": plan.judge.model, "settings": dict(plan.judge.settings)}
    rubric = manifest.get("rubrics", {}).get(dimension, {}).get("sha256")
    return (manifest.get("judge"), rubric) == (judge, plan.material.rubrics[dimension].digest)


def _by_record(
    plan: Plan, pairs: list[Pair], questions: int, log: BattleLog, name: str, *, again: bool
) -> dict[str, Any] | None:
    """By the battles of a record; None where they do not rate all entrants."""
    models = tuple(sorted(plan.tournament.entrants))
    log = log.among(models)
    ratings = rated_or_none(plan.tournament.elo.bradley_terry(), log)
    if ratings is None or ratings.models != models:
        return None
    judged = [(log.models[a], log.models[b]) for a, b in zip(log.a, log.b, strict=True)]
    known = set(log.battle_id.tolist()) if again and log.battle_id is not None else set()
    meetings = power.Meetings(
        earlier=_met(models, judged),
        planned=_met(models, (pair.entrants for pair in pairs)),
        repeated=_met(models, (pair.entrants for pair in pairs if pair.pair_id in known)),
        questions=questions,
    )
    neighbours = power.prospects(ratings, meetings)
    return _expected(record=name, neighbours=neighbours) if neighbours else None


def _by_size(plan: Plan, pairs: list[Pair], questions: int) -> dict[str, Any]:
    """By how often entrants meet, alone."""
    met = _met(tuple(sorted(plan.tournament.entrants)), (pair.entrants for pair in pairs))
    if questions < MIN_QUESTIONS:
        return _expected(why_not=f"prompts judged: {questions}, needed: {MIN_QUESTIONS}")
    if not power.connected(met):
        return _expected(why_not="no chain of pairs joins all entrants")
    return _expected(gaps=power.smallest_gaps(met, questions, plan.tournament.elo.scale))


def _met(models: tuple[str, ...], pairs: Iterable[tuple[str, str]]) -> Floats:
    """How often every two models meet."""
    place = {model: i for i, model in enumerate(models)}
    met = np.zeros((len(models),) * 2)
    for a, b in pairs:
        met[place[a], place[b]] += 1
    return np.asarray(met + met.T)
