"""A study: one tournament file, one run's parameters, one record. The notebooks' door."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any, Self

from arena_kit.battles.log import BattleLog
from arena_kit.files import file_hash, write_json, write_jsonl
from arena_kit.judging.canaries.report import CanaryReport
from arena_kit.judging.cost import Spending
from arena_kit.judging.drift import DriftReport
from arena_kit.judging.gate import Gate
from arena_kit.judging.judges.base import BatchJudge
from arena_kit.judging.judges.baseline import unread_rubrics
from arena_kit.judging.prices import Price
from arena_kit.judging.prompts import Pair, responses_file
from arena_kit.judging.quality.calls import lengths_of
from arena_kit.judging.quality.judge import JudgeQuality
from arena_kit.judging.quality.position import PositionBias, position_bias
from arena_kit.judging.quality.statuses import served_by_others, served_warning
from arena_kit.judging.records import Answer, JudgeRequest, Judgment, Status
from arena_kit.judging.tournament import OfflineError, judge_pairs
from arena_kit.judging.verdicts import SHARES, settlement_counts, status_counts, to_battles
from arena_kit.rating.base import RatingError, Ratings
from arena_kit.rating.elo import PermutationElo, k_sweep
from arena_kit.rating.stability import Stability, neighbour_stability
from arena_kit.reporting import tournament_tables
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.answer import QUESTIONS, RunAnswer, disagreements, order, unread
from arena_kit.reporting.tables import Shown
from arena_kit.reporting.tournament_tables import about
from arena_kit.runs import answers, artifacts
from arena_kit.runs.canaries import concerns, full_suite, look, preflight, spent_on
from arena_kit.runs.inputs import keep_tournament
from arena_kit.runs.judge_gate import failed_pilot, held, ready_plan
from arena_kit.runs.parameters import RunParams, parameters_in, parameters_of
from arena_kit.runs.plan import Plan
from arena_kit.runs.progress import Progress, judging_progress
from arena_kit.runs.record import Record, Recorded
from arena_kit.runs.rejudge import write_changes

#: What a report says of graded verdicts.
GRADED_SHARES = (
    "graded: "
    + ", ".join(f"{margin} counts {share:g} of a win" for margin, share in SHARES.items())
    + " (mean of both orders)"
)


class UnusableError(RuntimeError):
    """A run of which not one verdict can be used."""


@dataclass(frozen=True, kw_only=True)
class Study(Recorded):
    """A judged tournament from prompts to a record; each step is computed once.

    Open one with `Study.open`, which validates everything and claims a record, then ask
    for `judgments`, `battles`, `ratings`, `sweep`, and `save()` the artifacts. What is to be
    judged, by whom and for how much is in `plan`.
    """

    plan: Plan

    @classmethod
    def open(
        cls, mode: str, namespace: Mapping[str, Any] | None = None, /, **parameters: Any
    ) -> Self:
        """Validate parameters and inputs, then claim a record and write its first manifest.

        A notebook passes its `globals()`, of which the parameters are taken.
        """
        plan = ready_plan(mode, parameters_in(parameters_of(mode), namespace) | parameters)
        record = Record.begin(mode, plan.params.model_dump(mode="json"), plan.root)
        study = cls(plan=plan, record=record)
        study._describe()
        return study

    @property
    def root(self) -> Path:
        """The workspace."""
        return self.plan.root

    @property
    def params(self) -> RunParams:
        """What this run was told."""
        return self.plan.params

    @property
    def dimensions(self) -> list[str]:
        """What is judged, in the order of the tournament file."""
        return list(self.plan.tournament.dimensions)

    @property
    def method(self) -> PermutationElo:
        """The rating method of the tournament file with this run's overrides."""
        return self.plan.tournament.elo.method()

    @cached_property
    def canaries(self) -> CanaryReport | None:
        """How the judge did on the canaries of the pre-flight; None where it was not asked. A paid
        judge that fails is an `UnfitJudgeError`.
        """
        plan, record = self.plan, self.record
        bar = judging_progress(record, unit="canary verdict")
        with record.failing(self._on_failure), bar as progress:
            record.update(cost={"forecast": plan.forecast and plan.forecast.as_dict()})
            return preflight(plan, record, progress, self._bulk)

    @cached_property
    def canary_suite(self) -> CanaryReport | None:
        """How the judge does on every canary, where the notebook asks for all: under 200 requests
        per dimension, within the cap.
        """
        _ = self.canaries
        if self.plan.suite is None:
            return None
        bar = judging_progress(self.record, unit="canary verdict")
        with self.record.failing(self._on_failure), bar as progress:
            return full_suite(self.plan, self.record, progress, self.plan.suite)

    @cached_property
    def drift(self) -> DriftReport | None:
        """Whether the judge answers sentinels as in earlier runs; None where it was not asked."""
        if self.plan.sentinels is None:
            return None
        _ = self.canaries
        with judging_progress(self.record, unit="sentinel verdict") as progress:
            return look(self.plan, self.record, progress)

    @cached_property
    def judgments(self) -> list[Judgment]:
        """Every pair judged in both orders and settled, after the canaries."""
        _ = self.canaries, self.canary_suite
        record = self.record
        with record.failing(self._on_failure), judging_progress(record) as progress:
            began = monotonic()
            judgments = self._judge(progress)
            took = monotonic() - began
            _ = self.drift
            if warning := served_warning(judgments):
                progress.say(warning)
            artifacts.write_verdicts(record.path, judgments, self.dimensions)
            record.update(
                judging={"seconds": round(took, 3), "asked": _asked_now(judgments)},
                counts=self._counts(judgments),
                cost=self._cost(judgments),
                position_bias={n: bias.as_dict() for n, bias in position_bias(judgments).items()},
                served_by_others=served_by_others(judgments),
            )
        return judgments

    def _bulk(self) -> list[JudgeRequest]:
        """What would be asked next after the pre-flight."""
        return self.plan.bulk

    def _judge(self, progress: Progress) -> list[Judgment]:
        """Judge all pairs, but for those whose recorded judgment stands."""
        again = self.plan.rejudged
        judgments = [*(again.kept if again else ()), *self._asked(self.plan.asked, progress)]
        place = {pair: n for n, pair in enumerate(self.plan.pairing.pairs)}
        return sorted(judgments, key=lambda judgment: place[judgment.pair])

    def _asked(self, pairs: Sequence[Pair], progress: Progress) -> list[Judgment]:
        """Judgments of some pairs, from the ledger or asked for."""
        plan = self.plan
        terms = plan.terms(self.record.token, progress.say)
        if self.canaries is not None and self.canaries.fresh:
            terms = replace(terms, prewarm=False)  # the pre-flight has sent every rubric ahead
        return judge_pairs(
            pairs,
            plan.material,
            plan.judge,
            plan.ledger,
            offline=self.params.offline and self.params.judge != "replay",
            max_attempts=plan.tournament.judge.max_attempts,
            terms=terms,
            on_progress=progress.show,
        )

    @cached_property
    def spending(self) -> Spending | None:
        """What this run paid its judge; None for a judge that costs nothing."""
        if self.plan.price is None:
            return None
        paid = self.plan.ledger.paid(self.record.token)
        return Spending.of(
            paid,
            self.plan.price,
            batch=isinstance(self.plan.judge, BatchJudge),
            usd_unknown=self.plan.ledger.usd_unknown(self.record.token),
        )

    @cached_property
    def spending_by_dimension(self) -> dict[str, Spending]:
        """The tokens and dollars of this run's answers on each dimension; empty for a judge that
        takes no tokens.
        """
        return self._by_dimension(self.judgments)

    def _by_dimension(self, judgments: list[Judgment]) -> dict[str, Spending]:
        price = self.plan.price
        if price is None:
            return {}
        answers: dict[str, list[Answer]] = {dimension: [] for dimension in self.dimensions}
        for answer in self._made_now(judgments, price):
            answers.setdefault(spent_on(answer.request_id), []).append(answer)
        batch = isinstance(self.plan.judge, BatchJudge)
        return {name: Spending.of(own, price, batch=batch) for name, own in answers.items()}

    def _made_now(self, judgments: list[Judgment], price: Price) -> list[Answer]:
        """The answers that were made for this run: those it paid for, re-asked ones included, or,
        where nothing costs, those behind its verdicts.
        """
        if not price.free:
            return self.plan.ledger.paid(self.record.token)
        fresh = [v for j in judgments for v in j.verdicts if not v.cached]
        return [
            Answer(request_id=v.presentation.request_id, status=v.status, usage=v.usage)
            for v in fresh
        ]

    @cached_property
    def battles(self) -> BattleLog:
        return to_battles(self.judgments)

    @cached_property
    def bias(self) -> dict[str, PositionBias]:
        return position_bias(self.judgments)

    @cached_property
    def _rated(self) -> tuple[dict[str, dict[float, Ratings]], dict[str, str]]:
        """Ratings at every K of the sweep and at the default one, all from one replay."""
        ks = sorted({*map(float, self.plan.tournament.elo.k_sweep), self.method.k})
        logs = self.battles.by_dimension() if len(self.battles) else {}
        rated, unrated = {}, {}
        for dimension in self.dimensions:
            log = logs.get(dimension, self.battles.select([]))
            try:
                rated[dimension] = k_sweep(self.method, log, ks)
            except RatingError as error:
                unrated[dimension] = str(error)
            else:
                if absent := sorted({*self.plan.tournament.entrants} - {*log.models}):
                    unrated[dimension] = f"{', '.join(absent)} (no battle)"
        return rated, unrated

    @property
    def ratings(self) -> dict[str, Ratings]:
        """Ratings per dimension; what does not exist is in `unrated`, with the reason."""
        return {dimension: by_k[self.method.k] for dimension, by_k in self._rated[0].items()}

    @cached_property
    def strengths(self) -> dict[str, Ratings]:
        """Bradley–Terry ratings per dimension, on the center and the battles that Elo counts
        (ties too, as half a win): claims about who is above whom rest on these.
        """
        method = self.plan.tournament.elo.strengths()
        logs = self.battles.by_dimension()
        return {dimension: method(logs[dimension]) for dimension in self.ratings}

    @property
    def sweep(self) -> dict[str, dict[float, Ratings]]:
        """Ratings per dimension at every K of the sweep, and at the default K."""
        return self._rated[0]

    @property
    def unrated(self) -> dict[str, str]:
        """Per dimension, what has no rating and why: the dimension, or some entrants."""
        return self._rated[1]

    @cached_property
    def winrates(self) -> list[dict[str, Any]]:
        """Wins, ties and inconsistent judgments of every pair and dimension."""
        rows = artifacts.pairwise_winrates(self.battles)
        return sorted(rows, key=lambda row: self.dimensions.index(row["dimension"]))

    @cached_property
    def quality(self) -> JudgeQuality:
        """What its verdicts show of the judge, held against labels where there are some."""
        plan, judgments = self.plan, self.judgments
        with self.record.failing():
            return JudgeQuality.of(
                plan.judge.model,
                judgments,
                labels=plan.labels,
                lengths=lengths_of(plan.responses),
                families=plan.families,
                strata={prompt.prompt_id: prompt.source for prompt in plan.prompts},
                unread=unread_rubrics(plan.judge.model, plan.material.rubrics.values()),
            )

    @cached_property
    def gate(self) -> Gate:
        """Whether the judge's verdicts may be built upon; kept in judge_gate.json."""
        earlier = failed_pilot(self.plan) if self.params.allow_failed_judge else ""
        suite = self.canary_suite
        with self.record.failing():
            return held(
                self.record,
                self.quality,
                self.plan.rules,
                more=suite.measures() if suite else concerns(self.canaries, self.plan.rules),
                note=earlier and f"This run was allowed although {earlier}.",
            )

    @cached_property
    def stability(self) -> dict[str, list[Stability]]:
        """How neighbours of each ranking fare across the sweep; kept in k_sweep.json."""
        logs = self.battles.by_dimension()
        stability = {
            dimension: neighbour_stability(
                by_k, self.method.k, method=self.method, battles=logs[dimension]
            )
            for dimension, by_k in self.sweep.items()
        }
        artifacts.write_k_sweep(self.record.path, stability, self.strengths, self.method.k)
        return stability

    def answer(self) -> RunAnswer:
        """What the run found, how sure that is, and what not to conclude; kept in answer.json."""
        mode = str(self.record.read()["mode"])
        return RunAnswer(
            question=QUESTIONS.get(mode, ""),
            sentences=self._found(mode),
            gate=self.gate,
            about_judge=mode == "pilot",
            facts=self.run_facts(),
            caveats=[
                *answers.caveats(self.plan, self.record.read()),
                *disagreements(self.ratings, self.strengths),
                *about(self.strengths),
            ],
        )

    def _found(self, mode: str) -> list[str]:
        """The answer in a sentence or two per dimension."""
        if mode == "k_sweep":
            return [tournament_tables.stability_answer(self.stability, self.strengths)]
        found = {d: order(d, rated, self.params.margin) for d, rated in self.strengths.items()}
        found |= {d: unread(d) for d in self.quality.unread}
        missing = {d: f"{d}: not rated, {why.rstrip('.')}." for d, why in self.unrated.items()}
        return [each[d] for d in self.dimensions for each in (found, missing) if d in each]

    def run_facts(self) -> dict[str, str]:
        """By whom, what, when, on what and for how much."""
        plan, manifest = self.plan, self.record.read()
        strata = ", ".join(f"{n} {name}" for name, n in plan.prompt_set()["strata"].items())
        recording = self.params.replay_from if self.params.judge == "replay" else ""
        return {
            "judge": f"{plan.judge.model}, {answers.asked_at(plan.judge, recording)}",
            "compared": answers.compared(plan),
            "prompts": f"{len(plan.prompts)} of {len(plan.bank)} ({strata})",
            "status": answers.verdicts_status(manifest["counts"]["verdicts"]),
            "left out": answers.joined(answers.left_out(manifest)),
            "cost": answers.cost_text(manifest["cost"]),
            **answers.of_run(self.record),
        }

    def facts(self) -> dict[str, str]:
        """What is judged by whom, in words."""
        plan, tournament, method = self.plan, self.plan.tournament, self.method
        rubrics = ", ".join(f"{r.dimension} v{r.version}" for r in plan.material.rubrics.values())
        strata = ", ".join(f"{n} {name}" for name, n in plan.prompt_set()["strata"].items())
        lexical = plan.judge.model.startswith("baseline/")
        only = f" of {self.params.only_entrant}" if self.params.only_entrant else ""
        canaries = len(plan.canaries.pairs) if plan.canaries else 0
        return {
            "tournament": tournament.name,
            "judge": plan.judge.model + (" (compares words, reads no rubric)" if lexical else ""),
            **({"judged again": plan.rejudged.fact} if plan.rejudged else {}),
            "entrants": ", ".join(sorted(tournament.entrants)),
            "prompts": f"{len(plan.prompts)} of {len(plan.bank)} ({strata})",
            "rubrics": rubrics,
            **({"verdicts": GRADED_SHARES} if tournament.judge.graded else {}),
            "requests": f"{2 * len(plan.asked)} ({len(plan.asked)} pairs{only} in both orders)",
            "beside them": f"{2 * canaries} canaries before and {self.params.sentinels} sentinels "
            "after, where they are not in the ledger",
            "missing responses": f"{len(plan.pairing.missing)}, treated "
            f"{tournament.missing_responses}",
            "rating": f"Elo, K {method.k:g}, mean of {method.n_perms} orders, "
            f"evidence from {method.evidence_replicates} resamples",
            "seeds": f"shuffles {method.seed}, subset {self.params.subset_seed}",
        }

    def probes(self) -> dict[str, str]:
        """What canaries and sentinels say of the judge, in words."""
        canaries, drift = self.canaries, self.drift
        return {
            "canaries": " ".join(canaries.sentences())
            if canaries
            else "Canaries: none were asked.",
            "drift": " ".join(drift.sentences()) if drift else "Drift: no sentinels were asked.",
        }

    def examples(self) -> Shown:
        """Some judgments with their texts, unless the record may hold only hashes of them."""
        if self.params.inputs == "hashes":
            why = "Left out: this record keeps only hashes of its inputs (inputs: hashes)."
            return Shown(f"<p>{why}</p>", why)
        return tournament_tables.examples(
            self.judgments, self.plan.material.prompts, self.plan.responses
        )

    def save(self) -> Record:
        """Write the result artifacts and, unless a runner does it, close the record; as failed,
        with an `UnusableError`, when not one verdict can be used.
        """
        self.write()
        return self.record.close()

    def write(self) -> None:
        """Write the result artifacts; the record stays open."""
        with self.record.failing(self._on_failure):
            _ = self.gate  # kept in the record, asked for or not
            artifacts.write_results(
                self.record.path,
                self.battles,
                self.ratings,
                self.sweep,
                self.strengths,
                dimensions=self.dimensions,
                default_k=self.method.k,
                margin=self.params.margin,
            )
            rating = self.record.read()["rating"]
            engines = {dimension: each.engine for dimension, each in self.ratings.items()}
            self.record.update(unrated=self.unrated, rating=rating | {"engines": engines})
            self._refuse_unusable()
            write_json(self.record.path / ANSWER_FILE, self.answer().as_dict())
            if self.plan.rejudged:
                again, model = self.plan.rejudged, self.plan.judge.model
                write_changes(self.record.path, again, model, self.judgments)

    def _refuse_unusable(self) -> None:
        """Raise where a judge was asked and not one of its verdicts can be used."""
        statuses = Counter(str(v.status) for j in self.judgments for v in j.verdicts)
        if statuses and not statuses[Status.OK]:
            parts = ", ".join(f"{n} {status}" for status, n in sorted(statuses.items()))
            raise UnusableError(
                f"not one of {statuses.total()} verdicts can be used ({parts}); their texts are in "
                f"{self.record.path / 'verdicts'}"
            )

    def _describe(self) -> None:
        plan = self.plan
        tournament, judge, pairing = plan.tournament, plan.judge, plan.pairing
        folder, labels = plan.files.responses, tournament.judge.labels
        with self.record.failing():
            keep_tournament(self.record, tournament, plan.files, self.params.inputs)
        self.record.update(
            tournament=tournament.model_dump(mode="json"),
            judge={"model": judge.model, "settings": dict(judge.settings)},
            labels=labels and {"file": str(labels), "sha256": file_hash(plan.root / labels)},
            config_path=str(self.params.tournament),
            judge_model=judge.model,
            bank_size=len(plan.bank),
            selected_prompt_count=len(plan.prompts),
            n_perms=self.method.n_perms,
            shuffle_seed=self.method.seed,
            pilot_seed=self.params.subset_seed,
            entrants=sorted(tournament.entrants),
            dimensions=self.dimensions,
            prompt_set=plan.prompt_set(),
            responses={e: file_hash(responses_file(folder, e)) for e in tournament.entrants},
            rubrics={
                name: {"version": rubric.version, "sha256": rubric.digest}
                for name, rubric in plan.material.rubrics.items()
            },
            seeds={"shuffle": self.method.seed, "subset": self.params.subset_seed},
            rating={"method": "permutation-elo", "settings": asdict(self.method)},
            dropped={
                "missing_responses": [list(cell) for cell in pairing.missing],
                "prompts": list(pairing.dropped_prompts),
                "pairs": pairing.dropped_pairs,
                "own_family": pairing.barred,
            },
        )
        artifacts.write_pairs(self.record.path, pairing.pairs)

    def _counts(self, judgments: list[Judgment]) -> dict[str, Any]:
        return {
            "pairs": self.plan.pairing.counts(),
            "verdicts": status_counts(judgments),
            "judgments": settlement_counts(judgments),
        }

    def _cost(self, judgments: list[Judgment]) -> dict[str, Any]:
        """What this run paid, and what answers from the ledger had cost when they were made."""
        verdicts = [v for j in judgments for v in j.verdicts]
        cost: dict[str, Any] = {
            "forecast": self.plan.forecast and self.plan.forecast.as_dict(),
            "usd_spent": self.plan.ledger.spent(self.record.token),
            "usd_saved_by_cache": sum(v.cost_usd for v in verdicts if v.cached),
        }
        if self.spending is not None:
            cost["usd_unknown"] = self.spending.usd_unknown
            cost["over_cap"] = cost["usd_spent"] + cost["usd_unknown"] > self.params.max_cost_usd
            cost["answers_paid"] = self.spending.as_dict()
            cost["attempts"] = self.plan.ledger.outcomes(self.record.token)
            cost["by_dimension"] = self._token_use(judgments)
        return cost

    def _token_use(self, judgments: list[Judgment]) -> dict[str, Any]:
        reused = Counter(j.pair.dimension for j in judgments for v in j.verdicts if v.cached)
        left_out = {"usd_unknown", "usd_saved_by_prompt_cache"}  # told of the whole run
        return {
            dimension: {"from_ledger": reused[dimension]}
            | {name: value for name, value in spent.as_dict().items() if name not in left_out}
            for dimension, spent in self._by_dimension(judgments).items()
        }

    def _on_failure(self, error: BaseException) -> None:
        if isinstance(error, OfflineError):
            missing = ({"request_id": request_id} for request_id in error.missing)
            write_jsonl(self.record.path / "missing.jsonl", missing)
        if self.plan.price is not None:
            ledger, run = self.plan.ledger, self.record.token
            self.record.add_spent(ledger.spent(run), ledger.usd_unknown(run))


def _asked_now(judgments: Sequence[Judgment]) -> int:
    """How many verdicts were not in the ledger before."""
    return sum(not verdict.cached for judgment in judgments for verdict in judgment.verdicts)
