"""The second step: the judge of a plan is asked, into a record. The only step that may spend.

Canaries come before the bulk and stop a paid judge that fails on them; repeats come after it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any

from arena_kit.battles.write import write_battles
from arena_kit.files import file_hash, read_json, write_json, write_jsonl
from arena_kit.judging.asking.cost import PREWARM, CostError, Prewarm, Spending, dollars
from arena_kit.judging.asking.judge_pairs import Material, OfflineError, judge_pairs
from arena_kit.judging.judges.base import BatchJudge, PaidJudge, Price
from arena_kit.judging.pairs.prompts import Pair, responses_file
from arena_kit.judging.quality.canaries import PREFIX, Canaries, CanaryReport
from arena_kit.judging.quality.estimates import Measure
from arena_kit.judging.quality.gate import Gate, Level, Rule, UnfitJudgeError, gate
from arena_kit.judging.quality.judge import JudgeQuality
from arena_kit.judging.quality.measures import position_bias, served_by_others, served_sentence
from arena_kit.judging.verdicts.records import (
    REPEAT,
    Answer,
    Judgment,
    Presentation,
    settle_all,
    settlement_counts,
    status_counts,
    to_battles,
)
from arena_kit.judging.verdicts.rendering import is_changed
from arena_kit.rating.claims.claims import level
from arena_kit.reporting import tournament_tables
from arena_kit.reporting.tables import Shown, facts
from arena_kit.runs.record import artifacts
from arena_kit.runs.record.inputs import keep_tournament
from arena_kit.runs.record.progress import Progress, judging_progress
from arena_kit.runs.record.record import Record, readable_records, runs_folder
from arena_kit.runs.tournament.plan import Plan
from arena_kit.runs.tournament.power import whole_bank
from arena_kit.runs.tournament.protocol import FILE as PROTOCOL_FILE

GATE_FILE, CANARY_FILE, SUITE_FILE = "judge_gate.json", "canaries.json", "canary_suite.json"
#: Figures of a whole run, which no dimension has.
_OF_THE_RUN = {"usd_unknown", "usd_saved_by_prompt_cache"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Judgments(Sequence[Judgment]):
    """The judgments of a run, in the order of its pairs, with the record that keeps them.

    `repeats` are those of pairs judged a second time; `canaries` says how the judge did on the
    pre-flight and `canary_suite` how on all canaries, where either was asked.
    """

    plan: Plan = field(repr=False)
    record: Record
    judgments: tuple[Judgment, ...] = field(repr=False)
    repeats: tuple[Judgment, ...] = field(default=(), repr=False)
    canaries: CanaryReport | None = field(default=None, repr=False)
    canary_suite: CanaryReport | None = field(default=None, repr=False)
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.judgments)

    def __getitem__(self, index: Any) -> Any:
        return self.judgments[index]

    @cached_property
    def quality(self) -> JudgeQuality:
        """What its verdicts show of the judge, held against labels where there are some."""
        plan, strata = self.plan, {each.prompt_id: each.source for each in self.plan.prompts}
        more: Any = {"repeats": self.repeats, "labels": plan.labels, "strata": strata}
        return plan.quality(plan.judge.model, self.judgments, **more)

    @cached_property
    def gate(self) -> Gate:
        """Whether the judge's verdicts may be built upon, by the rules of the tournament file."""
        plan, suite = self.plan, self.canary_suite
        measures = self.canaries.measures if self.canaries else ()
        earlier = failed_pilot(plan) if plan.tournament.judge.allow_failed else ""
        full, note = ([], "") if suite else full_measurement(plan.root, _asked(plan), plan.rules)
        return self.quality.gate(
            plan.rules,
            more=suite.measures if suite else concerns(measures, plan.rules),
            full=full,
            note=f"This run was allowed, but {earlier}." if earlier else note,
        )

    def whole_bank(self) -> dict[str, dict[str, Any]]:
        """What each dimension is expected to decide once the whole bank is judged."""
        return whole_bank(self.plan, to_battles(self))

    def examples(self) -> Shown:
        """Some judgments with their texts, unless the record may hold only hashes of them."""
        plan = self.plan
        if plan.tournament.report.inputs == "hashes":
            why = "Left out: this record keeps only hashes of its inputs (report.inputs: hashes)."
            return Shown(f"<p>{why}</p>", why)
        return tournament_tables.examples(self, plan.material.prompts, plan.material.responses)

    def _repr_html_(self) -> str:
        """Verdicts by status, what canaries say of the judge, and what the run paid."""
        words = " ".join(self.canaries.sentences()) if self.canaries else "none"
        total, parts, ahead = paid_for(self.plan, self.record.token, self.judgments)
        cap = self.plan.params.max_cost_usd
        paid = tournament_tables.spending(total, self.judgments, cap, parts, ahead)
        canaries = facts({"canaries": words}, name="canaries")
        return f"{tournament_tables.verdict_counts(self.judgments).html}{canaries.html}{paid.html}"


def refuse_unready(plan: Plan) -> None:
    """Raise what would stop a run before anything is sent: a paid judge without a cap or a key,
    wrong rules or labels, a judge that a pilot found not usable.
    """
    plan.refuse_without_cap()
    _ = plan.rules, plan.labels  # wrong files are refused before anything is asked
    if not plan.buys:
        return
    heeds_pilot = plan.mode != "pilot" and not plan.tournament.judge.allow_failed
    if heeds_pilot and (why := failed_pilot(plan)):
        raise UnfitJudgeError(f"{why}; nothing was sent (judge.allow_failed: true overrides this)")
    if isinstance(plan.judge, PaidJudge):
        plan.judge.ready()


def judge(
    plan: Plan, *, calls: Sequence[Presentation] | None = None, earlier: Judgments | None = None
) -> Judgments:
    """Ask the plan's judge about every pair in both orders, and keep its verdicts in a record.

    This is the only step that may spend, within `max_cost_usd`. Answers that the ledger has are
    not asked for again, so a run that was stopped goes on where it was. Canaries are asked first;
    a paid judge that fails on them is an `UnfitJudgeError`. A run that fails leaves its record.

    Parameters
    ----------
    calls
        Ask only these, each a pair of the plan in one order.
    earlier
        Go on with the record of these judgments, which stay.
    """
    if earlier is None:
        refuse_unready(plan)
    record = _begin(plan) if earlier is None else earlier.record
    wanted: Sequence[Pair | Presentation] = plan.asked if calls is None else calls
    with booked(plan, record):
        if earlier is None:
            forecast = plan.cost()
            record.update(cost={"forecast": forecast and forecast.as_dict()})
            earlier = ask_canaries(plan, record, calls)
        return _judge(plan, wanted, earlier)


@contextmanager
def booked(plan: Plan, record: Record, *, spends: bool = False) -> Iterator[None]:
    """Close the record as failed where the block fails, with what was spent and the verdicts that
    an offline run lacks (missing.jsonl).
    """

    def keep(error: BaseException) -> None:
        if isinstance(error, OfflineError):
            missing = ({"request_id": request_id} for request_id in error.missing)
            write_jsonl(record.path / "missing.jsonl", missing)
        if spends or plan.price is not None:
            record.add_spent(plan.ledger)

    with record.failing(keep):
        yield


def _begin(plan: Plan) -> Record:
    """Claim a record and write down what is to be judged."""
    record = Record.begin(plan.mode, plan.params.model_dump(mode="json"), plan.root)
    with record.failing():
        keep_tournament(record, plan.tournament, plan.files, plan.tournament.report.inputs)
        if plan.protocol:
            write_json(record.path / PROTOCOL_FILE, plan.protocol)
    record.update(**plan_manifest(plan))
    artifacts.write_pairs(record.path, plan.pairing.pairs)
    return record


def _judge(plan: Plan, pairs: Sequence[Pair | Presentation], before: Judgments) -> Judgments:
    """Judge some pairs besides those judged before, and keep all of it; pairs of which the other
    order was asked before are settled anew.
    """
    record, began = before.record, monotonic()
    warm = before.canaries is not None and before.canaries.fresh  # every rubric was sent ahead
    with judging_progress(record) as progress:
        fresh = _ask(plan, progress, pairs, prewarm=not warm)
        seconds = before.seconds + monotonic() - began
        if plan.rejudged:  # the recorded judgments that stand, in the order of the plan's pairs
            place = {pair: n for n, pair in enumerate(plan.pairing.pairs)}
            fresh = sorted([*plan.rejudged.kept, *fresh], key=lambda each: place[each.pair])
        judgments = (*before.judgments, *fresh)
        if before.judgments:
            judgments = tuple(settle_all(v for each in judgments for v in each.verdicts))
        repeats = before.repeats or _repeats(plan, record, judgments)
        if warning := served_sentence(served_by_others(judgments)):
            progress.say(warning)
        _keep(plan, record, judgments, seconds)
    return replace(before, plan=plan, seconds=seconds, judgments=judgments, repeats=repeats)


def _ask(
    plan: Plan,
    progress: Progress,
    pairs: Sequence[Pair | Presentation],
    material: Material | None = None,
    *,
    prewarm: bool = False,
    repetition: int = 0,
) -> list[Judgment]:
    """Judgments of some pairs, from the ledger or asked for and paid by the run of `progress`.

    `material` is the plan's own unless another is given; with `prewarm` requests may be sent
    ahead for the prompt cache, and a `repetition` has answers of its own.
    """
    options = plan.ask_options(progress.record.token, progress.say)
    return judge_pairs(
        pairs,
        material or plan.material,
        plan.judge,
        plan.ledger,
        offline=plan.params.offline and plan.params.judge != "replay",
        max_attempts=plan.tournament.judge.max_attempts,
        repetition=repetition,
        options=options if prewarm else replace(options, prewarm=False),
        on_progress=progress.show,
    )


def _repeats(plan: Plan, record: Record, judgments: Sequence[Judgment]) -> tuple[Judgment, ...]:
    """Some of a run's requests asked a second time, kept in the record; what the cap does not allow
    is not asked, and said.
    """
    asked = {*plan.asked}
    pairs = plan.repeated([each.pair for each in judgments if each.pair in asked])
    if not pairs:
        return ()
    with judging_progress(record, unit="repeated verdict") as progress:
        progress.say(f"repeats: {2 * len(pairs)} requests are sent a second time")
        try:
            again = _ask(plan, progress, pairs, repetition=REPEAT)
        except CostError as error:
            progress.say(f"no request is asked a second time: {error}")
            return ()
    rows = [verdict.as_row() for judgment in again for verdict in judgment.verdicts]
    write_jsonl(record.path / artifacts.REPEATS_FILE, rows)
    return tuple(again)


def _keep(plan: Plan, record: Record, judgments: Sequence[Judgment], seconds: float) -> None:
    """Write all verdicts and battles into the record, and what they add up to into its manifest."""
    artifacts.write_verdicts(record.path, judgments, list(plan.tournament.dimensions))
    write_battles(record.path / "battles.jsonl", to_battles(judgments))
    asked = sum(not v.cached for j in judgments for v in j.verdicts)
    record.update(
        counts={
            "pairs": plan.pairing.counts(),
            "verdicts": status_counts(judgments),
            "judgments": settlement_counts(judgments),
        },
        position_bias={name: bias.as_dict() for name, bias in position_bias(judgments).items()},
        served_by_others=served_by_others(judgments),
        judging={"seconds": round(seconds, 3), "asked": asked},
        cost=_cost(plan, record.token, judgments),
    )


def paid_for(
    plan: Plan, run: str, judgments: Sequence[Judgment]
) -> tuple[Spending | None, dict[str, Spending], Prewarm | None]:
    """What a run paid its judge, what of it for each dimension, canaries and repeats, and what was
    sent ahead; nothing for a judge that takes no tokens.

    The parts are those of the answers that the run paid for, re-asked ones included, or, where
    nothing costs, of those behind its verdicts.
    """
    if plan.price is None:
        return None, {}, None
    price, batch = plan.price, isinstance(plan.judge, BatchJudge)
    made = paid = plan.ledger.paid(run)
    if price.free:
        fresh = [v for j in judgments for v in j.verdicts if not v.cached]
        made = [Answer(v.presentation.request_id, v.status, usage=v.usage) for v in fresh]
    answers: dict[str, list[Answer]] = {dimension: [] for dimension in plan.tournament.dimensions}
    for answer in made:
        answers.setdefault(_purpose(answer.request_id), []).append(answer)
    parts = {name: Spending.of(own, price, batch=batch) for name, own in answers.items()}
    unknown = plan.ledger.usd_unknown(run)
    total = Spending.of(paid, price, batch=batch, usd_unknown=unknown)
    return total, parts, _prewarmed(plan, price, paid, run)


def _prewarmed(plan: Plan, price: Price, paid: Sequence[Answer], run: str) -> Prewarm | None:
    """What a run sent ahead of its bulk, which filled the prompt cache: requests for that purpose
    or, where these were not needed, canaries; None where nothing was written ahead.
    """
    batch, requests = isinstance(plan.judge, BatchJudge), plan.ledger.paid(run, PREWARM)
    ahead = requests or [each for each in paid if _purpose(each.request_id) == "canaries"]
    sent = Spending.of(ahead, price, batch=batch)
    if not sent.written_tokens:
        return None
    first = {each.request_id for each in ahead}
    others = (each for each in paid if each.request_id not in first)
    judged = (each for each in others if _purpose(each.request_id) != "generate")
    read = sum(each.usage.get("cache_read_input_tokens", 0) for each in judged)
    what, saved = "requests" if requests else "canaries", price.usd_saved(read, batch=batch)
    return Prewarm(what=what, sent=sent, read_tokens=read, usd_saved=saved)


def _cost(plan: Plan, run: str, judgments: Sequence[Judgment]) -> dict[str, Any]:
    """What a run paid, and what answers from the ledger had cost when they were made."""
    reused = [(j.pair.dimension, v.cost_usd) for j in judgments for v in j.verdicts if v.cached]
    spent, from_ledger = plan.ledger.spent(run), Counter(dimension for dimension, _ in reused)
    cost: dict[str, Any] = {
        "forecast": plan.forecast and plan.forecast.as_dict(),
        "usd_spent": spent,
        "usd_saved_by_cache": sum(usd for _, usd in reused),
    }
    total, parts, ahead = paid_for(plan, run, judgments)
    if total is None:
        return cost
    return cost | {
        "usd_unknown": total.usd_unknown,
        "over_cap": spent + total.usd_unknown > plan.params.max_cost_usd,
        "answers_paid": total.as_dict(),
        "attempts": plan.ledger.outcomes(run),
        "prewarm": ahead and asdict(ahead),
        "by_dimension": {
            name: {"from_ledger": from_ledger[name]}
            | {key: value for key, value in own.as_dict().items() if key not in _OF_THE_RUN}
            for name, own in parts.items()
        },
    }


def _purpose(request_id: str) -> str:
    """What an answer was paid for: its dimension, canaries or repeats."""
    dimension, _, rest = request_id.partition("|")
    if "@" in rest.rpartition("#")[2]:
        return "repeats"
    return "canaries" if rest.startswith(PREFIX) else dimension


def write_gate(record: Record, gate: Gate, quality: JudgeQuality) -> None:
    """Keep the gate of a judge in the record as judge_gate.json, with all that was measured, and,
    in short, in its manifest.
    """
    measures = [row.as_dict() for row in quality.measures]
    write_json(record.path / GATE_FILE, gate.as_dict() | {"measures": measures})
    record.update(judge_gate={"level": str(gate.level), "sentence": gate.sentence})


def failed_pilot(plan: Plan) -> str:
    """What the latest pilot or judge report that asked this judge the same way, by the same
    rubrics, found, where that was not usable; else empty.
    """
    newest = _newest(plan.root, _asked(plan), "pilot", "judge_report")
    if newest is None or newest[1]["judge_gate"]["level"] != Level.FAILED:
        return ""
    path, manifest = newest
    kind, sentence = manifest["mode"].replace("_", " "), manifest["judge_gate"]["sentence"]
    return f"the {kind} {path.name} found: {sentence.rstrip('.')}"


def full_measurement(
    root: Path, asked: Mapping[str, Any], rules: Mapping[str, Rule]
) -> tuple[list[Measure], str]:
    """All that the newest judge report measured of a judge (model, settings and rubrics, as a
    manifest has them), and its name in a sentence; nothing where there is none.
    """
    newest = _newest(root, asked, "judge_report")
    if newest is None:
        return [], ""
    path = newest[0]
    measured = [Measure(**row) for row in read_json(path / GATE_FILE)["measures"]]
    note = f"The full measurement of {path.name} is counted."
    return [*recorded_measures(path, rules), *measured], note


def _asked(plan: Plan) -> dict[str, Any]:
    """Who is asked how and by which rubrics, as a manifest has it."""
    judge = {"model": plan.judge.model, "settings": dict(plan.judge.settings)}
    rubrics = {name: {"sha256": each.digest} for name, each in plan.material.rubrics.items()}
    return {"judge": json.loads(json.dumps(judge)), "rubrics": rubrics}


def _newest(
    root: Path, asked: Mapping[str, Any], *modes: str
) -> tuple[Path, Mapping[str, Any]] | None:
    """The newest record of these modes with the gate of the judge of a manifest, same rubrics."""
    found = [
        (path, manifest)
        for path, manifest in readable_records(runs_folder(root))
        if manifest.get("mode") in modes
        and manifest.get("judge_gate")
        and manifest.get("judge") == asked.get("judge")
        and _digests(manifest) == _digests(asked)
    ]
    return max(found, key=lambda each: str(each[1].get("started_at")), default=None)


def _digests(manifest: Mapping[str, Any]) -> dict[str, str]:
    return {name: each.get("sha256") for name, each in (manifest.get("rubrics") or {}).items()}


def ask_canaries(
    plan: Plan, record: Record, calls: Sequence[Presentation] | None = None
) -> Judgments:
    """Nothing judged yet but the canaries of the pre-flight, and all where the notebook asks."""
    with judging_progress(record, unit="canary verdict") as progress:
        report = _preflight(plan, progress, calls)
        suite = _report(plan, progress, plan.suite, SUITE_FILE)[0] if plan.suite else None
    return Judgments(plan=plan, record=record, judgments=(), canaries=report, canary_suite=suite)


def _preflight(
    plan: Plan, progress: Progress, calls: Sequence[Presentation] | None
) -> CanaryReport | None:
    """Ask the canaries, keep what they say in the record, and refuse a paid judge that fails."""
    canaries = plan.canaries
    if canaries is None or not _reports(plan, progress, canaries, calls):
        return None
    report, outcome = _report(plan, progress, canaries, CANARY_FILE)
    progress.record.update(
        preflight={
            "level": str(outcome.level),
            "requests": report.requests,
            "usd": report.usd_spent,
            "sentences": report.sentences(),
        }
    )
    if outcome.level is Level.FAILED and plan.spends and not plan.tournament.judge.allow_failed:
        raise UnfitJudgeError(
            f"{outcome.sentence.rstrip('.')} (pre-flight, {CANARY_FILE}); nothing but "
            f"{report.requests} canaries was asked, for {dollars(report.usd_spent)} now; "
            "judge.allow_failed: true goes on all the same"
        )
    return report


def _reports(
    plan: Plan, progress: Progress, canaries: Canaries, calls: Sequence[Presentation] | None
) -> bool:
    """Whether there are canaries to report: none is asked offline, or where nothing would be sent
    after them; those that the ledger answers are reported all the same. Raises where they and the
    bulk are above the cap.
    """
    fresh = plan.unanswered(canaries.requests())
    if not fresh or plan.params.offline:
        return not fresh
    if plan.price is None:
        return True
    bulk = plan.bulk if calls is None else plan.unanswered(plan.material.requests(calls))
    run = progress.record.token
    if bulk and not plan.ledger.under_way(run):  # else an earlier try was allowed to send them
        plan.ask_options(run, progress.say).allow([*fresh, *bulk])
    if bulk:
        progress.say(f"pre-flight: {len(fresh)} canaries first; {len(bulk)} requests wait for them")
    return bool(bulk)


def _report(
    plan: Plan, progress: Progress, canaries: Canaries, file: str
) -> tuple[CanaryReport, Gate]:
    """How the judge does on some canaries and its gate by them, written into the record."""
    judgments = _ask(plan, progress, canaries.pairs, canaries.material)
    report = CanaryReport.of(plan.judge.model, canaries, judgments)
    outcome = gate(report.judge, report.measures, plan.rules)
    write_json(progress.record.path / file, report.as_dict() | {"gate": outcome.as_dict()})
    return report, outcome


def concerns(measures: Iterable[Measure], rules: Mapping[str, Rule]) -> list[Measure]:
    """What of a pre-flight speaks against a judge: a handful of canaries earns no trust, and takes
    none away where nothing went wrong.
    """
    return [each for each in measures if each.rule and rules[each.rule].doubts(each)]


def recorded_measures(record: Path, rules: Mapping[str, Rule]) -> list[Measure]:
    """What the canaries of an earlier run say of its judge: all of a full suite, of a pre-flight
    what speaks against it.
    """
    for name in (SUITE_FILE, CANARY_FILE):
        if (record / name).is_file():
            measures = [Measure(**row) for row in read_json(record / name)["measures"]]
            return measures if name == SUITE_FILE else concerns(measures, rules)
    return []


def plan_manifest(plan: Plan) -> dict[str, Any]:
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
        "bank_size": len(plan.material.prompts),
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
        "shown_changed": [
            list(c) for c, r in plan.material.responses.items() if is_changed(r.response_text)
        ],
        "n_perms": method.n_perms,
        "shuffle_seed": method.seed,
        "pilot_seed": seed,
        "seeds": {"shuffle": method.seed, "subset": seed},
        "rating": {"method": "permutation-elo", "settings": asdict(method)},
        "analysis": {
            "rating": asdict(plan.rating["method"]),
            "level": level(plan.looks),
            "gate": {name: asdict(rule) for name, rule in plan.rules.items()},
        },
    }
