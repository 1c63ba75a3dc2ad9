"""The last step: what a run found in words, and its record, with all artifacts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from arena_kit.battles.log import BattleLog
from arena_kit.files import ArenaError
from arena_kit.judging.asking.cost import dollars
from arena_kit.judging.judges.base import Judge, PaidJudge
from arena_kit.judging.quality.measures import served_sentence
from arena_kit.judging.verdicts.records import Status, to_battles
from arena_kit.rating.base import each_rated
from arena_kit.rating.elo import k_sweep
from arena_kit.reporting import tournament_tables
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.answer import RunAnswer, about, brief, disagreements, order, unread
from arena_kit.reporting.board import Board, JudgeGate
from arena_kit.reporting.tournament_tables import barred_text, missing_text
from arena_kit.runs.record import artifacts
from arena_kit.runs.record.artifacts import EloSweep
from arena_kit.runs.record.record import Record
from arena_kit.runs.settings.parameters import RunParams
from arena_kit.runs.tournament.judge import Judgments, booked, write_gate
from arena_kit.runs.tournament.plan import LEXICAL, Plan, is_lexical, prompts_text
from arena_kit.runs.tournament.protocol import outcome
from arena_kit.runs.tournament.rejudge import ARTIFACT as CHANGES_FILE
from arena_kit.runs.tournament.rejudge import rejudge_summary

_SERVICE = "https://api.anthropic.com"

if TYPE_CHECKING:
    from arena_kit.reporting.figures import Plot


class UnusableError(ArenaError, RuntimeError):
    """A run of which not one verdict can be used."""


def sweep_elo(battles: BattleLog, plan: Plan) -> EloSweep:
    """Elo at every K of the plan's tournament file, all from one replay; a dimension without a
    rating is left out.
    """
    method = plan.tournament.elo.method()
    ks = sorted({*map(float, plan.tournament.elo.k_sweep), method.k})
    logs, nothing = battles.by_dimension() if len(battles) else {}, battles.select([])
    names = plan.tournament.dimensions
    ratings, _ = each_rated(
        names, lambda name: k_sweep(method, logs.get(name, nothing), ks), none_allowed=True
    )
    return EloSweep(method=method, ratings=ratings)


def answer(
    board: Board, judgments: Judgments, *, sweep: EloSweep | None = None, more: Sequence[str] = ()
) -> RunAnswer:
    """What the run found, how sure that is, and what not to conclude.

    With a `sweep` the question is whether the order depends on K; `more` are sentences to be
    said besides.
    """
    plan, record = judgments.plan, judgments.record
    found, short = _order_of_each(board, judgments), brief(board, judgments.quality.unread)
    if sweep is not None:
        found = [tournament_tables.stability_answer(sweep.stability, board)]
        short = found
    return RunAnswer(
        brief=[*short, *more],
        sentences=[
            *_preregistered(board, judgments).get("sentences", []),
            *found,
            *more,
            *_changes(board, judgments).get("sentences", []),
        ],
        gate=judgments.gate,
        about_judge=plan.mode in ("pilot", "judge_report"),
        facts=run_facts(plan, record),
        caveats=[*caveats(plan, record.read()), *disagreements(board), *about(board)],
    )


def _order_of_each(board: Board, judgments: Judgments) -> list[str]:
    """The answer in a sentence or two per dimension."""
    orders = {name: order(board[name]) for name in board.rated}
    orders |= {name: unread(name) for name in judgments.quality.unread}
    missing = {n: f"{n}: not rated, {why.rstrip('.')}." for n, why in board.unrated.items()}
    return [each[name] for name in board.names for each in (orders, missing) if name in each]


def _changes(board: Board, judgments: Judgments) -> dict[str, Any]:
    """What this judge changed against the record whose pairs it judged again, as rejudge.json
    says it; empty where no record was.
    """
    plan = judgments.plan
    if plan.rejudged is None or not len(to_battles(judgments)):
        return {}
    return rejudge_summary(judgments.record.path, plan.rejudged, plan.judge.model, board)


def publish(
    board: Board,
    judgments: Judgments,
    *,
    answer: RunAnswer | None = None,
    figures: Sequence[Plot] = (),
    sweep: EloSweep | None = None,
    files: Mapping[str, Any] | None = None,
) -> Record:
    """Write the artifacts of a run into its record and, unless a runner does it, close it; as
    failed, with an `UnusableError`, when not one verdict can be used.

    Parameters
    ----------
    answer
        What the run found; by default what `answer` says.
    figures
        Plots to keep beside the report.
    sweep
        Elo at every K, where it was made before.
    files
        Values to be written as JSON besides, by file name.
    """
    plan, record, folder = judgments.plan, judgments.record, judgments.record.path
    with booked(plan, record):
        write_gate(record, judgments.gate, judgments.quality)
        battles = to_battles(judgments)
        swept = sweep or sweep_elo(battles, plan)
        artifacts.write_results(folder, battles, swept, board)
        if sweep is not None:
            artifacts.write_k_sweep(folder, sweep, board)
        rating = record.read()["rating"]
        engines = {dimension: rated.engine for dimension, rated in swept.primary.items()}
        record.update(unrated=board.unrated, rating=rating | {"engines": engines})
        _refuse_unusable(judgments)
        found = answer or _default_answer(board, judgments, sweep=sweep)
        _described(board, judgments).write(folder)
        changed = _changes(board, judgments)
        own = {ANSWER_FILE: found.as_dict()} | ({CHANGES_FILE: changed} if changed else {})
    return record.publish(own | {**(files or {})}, figures)


_default_answer = answer


def _described(board: Board, judgments: Judgments) -> Board:
    """The board with the tournament's name, the judge's gate, and what was left out."""
    canaries = judgments.canaries.sentences() if judgments.canaries else []
    notes = [*board.notes, *canaries, *left_out(judgments.record.read())]
    gate = JudgeGate(**judgments.gate.as_dict())
    more: dict[str, Any] = {"title": judgments.plan.tournament.name, "gate": gate, "notes": notes}
    if held := _preregistered(board, judgments):
        more["protocol"] = held
    return board.model_copy(update=more)


def _preregistered(board: Board, judgments: Judgments) -> dict[str, Any]:
    """What the board says of its protocol; empty without one."""
    protocol = judgments.plan.protocol
    return outcome(protocol, judgments.record.read(), board) if protocol else {}


def _refuse_unusable(judgments: Judgments) -> None:
    """Raise where a judge was asked and not one of its verdicts can be used."""
    statuses = Counter(str(v.status) for j in judgments for v in j.verdicts)
    if statuses and not statuses[Status.OK]:
        parts = ", ".join(f"{n} {status}" for status, n in sorted(statuses.items()))
        raise UnusableError(
            f"not one of {statuses.total()} verdicts can be used ({parts}); their texts are in "
            f"{judgments.record.path / 'verdicts'}"
        )


def run_facts(plan: Plan, record: Record) -> dict[str, str]:
    """By whom, what, when, on what and for how much, of a tournament that was judged."""
    manifest, by = record.read(), "by word overlap; it ignores rubrics"
    recording = plan.tournament.judge.replay_from if plan.params.judge == "replay" else ""
    if not is_lexical(plan.judge.model):
        rubrics = (f"{r.dimension} v{r.version}" for r in plan.material.rubrics.values())
        by = f"in both orders; rubrics: {', '.join(rubrics)}"
    entrants = ", ".join(sorted(plan.tournament.entrants))
    return {
        "judge": f"{plan.judge.model}, {asked_at(plan.judge, recording)}",
        "compared": f"two responses at a time of {entrants}, {by}",
        "prompts": prompts_text(plan),
        "status": verdicts_status(manifest["counts"]["verdicts"]),
        "left out": " ".join(left_out(manifest)) or "nothing",
        "cost": cost_text(manifest["cost"]),
        **record.facts,
    }


def asked_at(judge: Judge, replay_from: str = "") -> str:
    """Where a judge ran."""
    if isinstance(judge, PaidJudge):
        return f"called at {judge.service.origin}"
    return f"replayed from {replay_from}" if replay_from else "run locally"


def verdicts_status(counts: Mapping[str, Mapping[str, int]]) -> str:
    """How many verdicts are usable, and the statuses of the others."""
    totals = Counter[str]()
    for by_status in counts.values():
        totals.update(by_status)
    lost = ", ".join(f"{n:,} {status}" for status, n in totals.items() if n and status != "ok")
    usable = f"{totals['ok']:,} of {totals.total():,} verdicts usable"
    return f"incomplete: {usable} ({lost})" if lost else f"complete: {usable}"


def left_out(manifest: Mapping[str, Any]) -> list[str]:
    """What a tournament excluded: missing responses, battles of the judge's own family, pairs whose
    verdict changed with presentation order (of an adaptive run they are ties).
    """
    dropped, counts = manifest["dropped"], manifest.get("counts") or {}
    lost = missing_text(dropped["missing_responses"], dropped["prompts"], dropped["pairs"])
    settled = (counts.get("judgments") or {}).values()
    twice = sum(each.get("inconsistent", 0) for each in settled)
    both = sum(sum(each.values()) - each.get("one_order", 0) for each in settled)
    treated = "count as ties" if manifest.get("mode") == "adaptive" else "were excluded"
    flips = f"{twice:,} of {both:,} pairs {treated}: the verdict changed with presentation order."
    barred = barred_text(dropped.get("own_family", {}))
    return [sentence for sentence in (lost, barred, flips * bool(twice)) if sentence]


def cost_text(cost: Mapping[str, Any]) -> str:
    """What a run paid."""
    usd, unknown = cost.get("usd_spent") or 0.0, cost.get("usd_unknown") or 0.0
    aside = f", and about {dollars(unknown)} not reported by the service" if unknown else ""
    saved = cost.get("usd_saved_by_cache") or 0.0
    had = f"; answers from the ledger cost {dollars(saved)} earlier" if saved else ""
    return (dollars(usd) if usd else "nothing") + aside + had


def caveats(plan: Plan, manifest: Mapping[str, Any]) -> list[str]:
    """What not to conclude from this run."""
    params, only = plan.params, plan.tournament.judge.only_entrant
    limit = params.limit_pairs if isinstance(params, RunParams) else 0
    elsewhere = params.judge == "anthropic" and not asked_at(plan.judge).endswith(_SERVICE)
    n, bank = len(plan.prompts), len(plan.material.prompts)
    served = served_sentence(manifest.get("served_by_others") or {})
    over_cap = (manifest.get("cost") or {}).get("over_cap")
    sentences = {
        LEXICAL: is_lexical(plan.judge.model),
        "The answers do not come from the service's own address.": elsewhere,
        f"Only battles of {only} were judged.": only,
        f"At most {limit} pairs were judged (limit_pairs).": limit,
        f"This run used {n} of {bank} prompts.": n < bank,
        served: served,
        "The run cost more than max_cost_usd: answers were longer than forecast.": over_cap,
    }
    return [sentence for sentence, holds in sentences.items() if holds]
