"""The second step: the judge of a plan is asked, into a record. The only step that may spend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from time import monotonic
from typing import Any, overload

from arena_kit.files import file_hash
from arena_kit.judging.asking.cost import Spending
from arena_kit.judging.judges.base import PaidJudge
from arena_kit.judging.judges.baseline import unread_rubrics
from arena_kit.judging.pairs.prompts import Pair, responses_file
from arena_kit.judging.quality.calls import lengths_of
from arena_kit.judging.quality.canary_report import CanaryReport
from arena_kit.judging.quality.gate import Gate
from arena_kit.judging.quality.judge import JudgeQuality
from arena_kit.judging.verdicts.records import Judgment
from arena_kit.reporting import tournament_tables
from arena_kit.reporting.tables import Shown, facts
from arena_kit.runs.record import artifacts
from arena_kit.runs.record.inputs import keep_tournament
from arena_kit.runs.record.progress import judging_progress
from arena_kit.runs.record.record import Record
from arena_kit.runs.tournament.ask import (
    ask_judge,
    keep_failure,
    keep_judgments,
    manifest_cost,
    run_spending,
    spending_by_dimension,
)
from arena_kit.runs.tournament.judge_gate import (
    concerns,
    failed_pilot,
    full_suite,
    preflight,
    refuse_unfit,
    repeated,
)
from arena_kit.runs.tournament.plan import Plan


@dataclass(frozen=True, kw_only=True, eq=False)
class Judgments(Sequence[Judgment]):
    """The judgments of a run, in the order of its pairs, with the record that keeps them.

    `repeats` are those of pairs judged a second time; `canaries` says how the judge did on the
    pre-flight and `canary_suite` how on all canaries, where either was asked; `spending` is what
    the run paid, None for a judge that costs nothing.
    """

    plan: Plan = field(repr=False)
    record: Record
    judgments: tuple[Judgment, ...] = field(repr=False)
    repeats: tuple[Judgment, ...] = field(default=(), repr=False)
    canaries: CanaryReport | None = field(default=None, repr=False)
    canary_suite: CanaryReport | None = field(default=None, repr=False)
    spending: Spending | None = None
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.judgments)

    @overload
    def __getitem__(self, index: int) -> Judgment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Judgment, ...]: ...
    def __getitem__(self, index: int | slice) -> Judgment | tuple[Judgment, ...]:
        return self.judgments[index]

    @cached_property
    def quality(self) -> JudgeQuality:
        """What its verdicts show of the judge, held against labels where there are some."""
        plan = self.plan
        return JudgeQuality.of(
            plan.judge.model,
            self.judgments,
            repeats=self.repeats,
            labels=plan.labels,
            lengths=lengths_of(plan.responses),
            families=plan.families,
            strata={prompt.prompt_id: prompt.source for prompt in plan.prompts},
            unread=unread_rubrics(plan.judge.model, plan.material.rubrics.values()),
        )

    @cached_property
    def gate(self) -> Gate:
        """Whether the judge's verdicts may be built upon, by the rules of the tournament file."""
        plan, suite = self.plan, self.canary_suite
        measures = self.canaries.measures if self.canaries else ()
        earlier = failed_pilot(plan) if plan.tournament.judge.allow_failed else ""
        return self.quality.gate(
            plan.rules,
            more=suite.measures if suite else concerns(measures, plan.rules),
            note=earlier and f"This run was allowed although {earlier}.",
        )

    def examples(self) -> Shown:
        """Some judgments with their texts, unless the record may hold only hashes of them."""
        plan = self.plan
        if plan.tournament.report.inputs == "hashes":
            why = "Left out: this record keeps only hashes of its inputs (report.inputs: hashes)."
            return Shown(f"<p>{why}</p>", why)
        return tournament_tables.examples(self, plan.material.prompts, plan.responses)

    def _repr_html_(self) -> str:
        """Verdicts by status, what canaries say of the judge, and what the run paid."""
        plan, token = self.plan, self.record.token
        words = " ".join(self.canaries.sentences()) if self.canaries else "none were asked"
        paid = tournament_tables.spending(
            self.spending,
            self.judgments,
            plan.params.max_cost_usd,
            spending_by_dimension(plan, token, self.judgments),
        )
        canaries = facts({"canaries": words}, name="canaries")
        return f"{tournament_tables.verdict_counts(self.judgments).html}{canaries.html}{paid.html}"


def refuse_unready(plan: Plan) -> None:
    """Raise what would stop a run before anything is sent: a paid judge without a cap or a key,
    wrong rules or labels, a judge that a pilot found not usable.
    """
    plan.refuse_without_cap()
    _ = plan.rules, plan.labels  # wrong files are refused before anything is asked
    refuse_unfit(plan)
    if plan.buys and isinstance(plan.judge, PaidJudge):
        plan.judge.ready()


def judge(
    plan: Plan, *, pairs: Sequence[Pair] | None = None, earlier: Judgments | None = None
) -> Judgments:
    """Ask the plan's judge about every pair in both orders, and keep its verdicts in a record.

    This is the only step that may spend, within `max_cost_usd`. Answers that the ledger has are
    not asked for again, so a run that was stopped goes on where it was. Canaries are asked first;
    a paid judge that fails on them is an `UnfitJudgeError`. A run that fails leaves its record.

    Parameters
    ----------
    pairs
        Judge only these pairs of the plan.
    earlier
        Go on with the record of these judgments, which stay.
    """
    if earlier is None:
        refuse_unready(plan)
    record = _begin(plan) if earlier is None else earlier.record
    wanted = plan.asked if pairs is None else list(pairs)
    with booked(plan, record):
        if earlier is None:
            record.update(cost={"forecast": plan.forecast and plan.forecast.as_dict()})
            earlier = ask_canaries(plan, record, None if pairs is None else wanted)
        return _judge(plan, wanted, earlier)


@contextmanager
def booked(plan: Plan, record: Record, *, spends: bool = False) -> Iterator[None]:
    """Close the record as failed where the block fails, with what was spent and is missing."""
    ledger = plan.ledger if spends or plan.price is not None else None
    with record.failing(lambda error: keep_failure(record, error, ledger)):
        yield


def _begin(plan: Plan) -> Record:
    """Claim a record and write down what is to be judged."""
    record = Record.begin(plan.mode, plan.params.model_dump(mode="json"), plan.root)
    with record.failing():
        keep_tournament(record, plan.tournament, plan.files, plan.tournament.report.inputs)
    record.update(**_manifest(plan))
    artifacts.write_pairs(record.path, plan.pairing.pairs)
    return record


def ask_canaries(plan: Plan, record: Record, pairs: Sequence[Pair] | None = None) -> Judgments:
    """Nothing judged yet but the canaries of the pre-flight, and all where the notebook asks."""
    with judging_progress(record, unit="canary verdict") as progress:
        report = preflight(
            plan,
            progress,
            lambda: plan.bulk if pairs is None else plan.unanswered(plan.material.requests(pairs)),
        )
        suite = full_suite(plan, progress, plan.suite) if plan.suite else None
    return Judgments(plan=plan, record=record, judgments=(), canaries=report, canary_suite=suite)


def _judge(plan: Plan, pairs: Sequence[Pair], before: Judgments) -> Judgments:
    """Judge some pairs besides those judged before, and keep all of it."""
    record, began = before.record, monotonic()
    warm = before.canaries is not None and before.canaries.fresh  # every rubric was sent ahead
    with judging_progress(record) as progress:
        fresh = ask_judge(plan, progress, pairs, prewarm=not warm)
        seconds = before.seconds + monotonic() - began
        judgments = (*before.judgments, *_with_kept(plan, fresh))
        repeats = before.repeats or _ask_repeats(plan, record, judgments)
        asked = sum(not v.cached for j in judgments for v in j.verdicts)
        keep_judgments(
            plan,
            progress,
            judgments,
            judging={"seconds": round(seconds, 3), "asked": asked},
            cost=manifest_cost(plan, record.token, judgments),
        )
    spending = run_spending(plan, record.token)
    made: dict[str, Any] = {
        "judgments": judgments,
        "repeats": repeats,
        "spending": spending,
        "seconds": seconds,
    }
    return replace(before, plan=plan, **made)


def _with_kept(plan: Plan, judgments: Sequence[Judgment]) -> Sequence[Judgment]:
    """These and the recorded judgments that stand, in the order of the plan's pairs."""
    if plan.rejudged is None:
        return judgments
    place = {pair: n for n, pair in enumerate(plan.pairing.pairs)}
    return sorted([*plan.rejudged.kept, *judgments], key=lambda each: place[each.pair])


def _ask_repeats(plan: Plan, record: Record, judgments: Sequence[Judgment]) -> tuple[Judgment, ...]:
    """Some of these judged a second time, under a progress bar of their own."""
    if not plan.tournament.judge.repeats:
        return ()
    with judging_progress(record, unit="repeated verdict") as progress:
        return tuple(repeated(plan, progress, judgments))


def _manifest(plan: Plan) -> dict[str, Any]:
    """What the manifest says of a plan, with hashes of all that is read."""
    tournament, judge, labels = plan.tournament, plan.judge, plan.tournament.judge.labels
    folder = plan.files.responses
    method, seed = tournament.elo.method(), plan.params.seed
    return {
        "tournament": tournament.model_dump(mode="json"),
        "judge": {"model": judge.model, "settings": dict(judge.settings)},
        "labels": labels and {"file": str(labels), "sha256": file_hash(plan.root / labels)},
        "config_path": str(plan.params.tournament),
        "judge_model": judge.model,
        "bank_size": len(plan.bank),
        "selected_prompt_count": len(plan.prompts),
        "entrants": sorted(tournament.entrants),
        "dimensions": list(tournament.dimensions),
        "prompt_set": plan.prompt_set(),
        "responses": {e: file_hash(responses_file(folder, e)) for e in tournament.entrants},
        "rubrics": {
            name: {"version": rubric.version, "sha256": rubric.digest}
            for name, rubric in plan.material.rubrics.items()
        },
        "dropped": {
            "missing_responses": [list(cell) for cell in plan.pairing.missing],
            "prompts": list(plan.pairing.dropped_prompts),
            "pairs": plan.pairing.dropped_pairs,
            "own_family": plan.pairing.barred,
        },
        "n_perms": method.n_perms,
        "shuffle_seed": method.seed,
        "pilot_seed": seed,
        "seeds": {"shuffle": method.seed, "subset": seed},
        "rating": {"method": "permutation-elo", "settings": asdict(method)},
    }
