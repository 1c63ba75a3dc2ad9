"""A study: one tournament file, one run's parameters, one record. The notebooks' door."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from arena_kit.battles.log import BattleLog
from arena_kit.files import file_hash, write_jsonl
from arena_kit.judging.cost import Spending
from arena_kit.judging.judges.base import BatchJudge
from arena_kit.judging.prompts import responses_file
from arena_kit.judging.quality import PositionBias, position_bias
from arena_kit.judging.records import Judgment
from arena_kit.judging.tournament import OfflineError, judge_pairs
from arena_kit.judging.verdicts import settlement_counts, status_counts, to_battles
from arena_kit.rating.base import RatingError, Ratings
from arena_kit.rating.elo import PermutationElo, k_sweep
from arena_kit.rating.stability import Stability, neighbour_stability
from arena_kit.runs import artifacts
from arena_kit.runs.plan import Plan
from arena_kit.runs.progress import judging_progress
from arena_kit.runs.record import Record, Recorded, claimed_record


@dataclass(frozen=True, kw_only=True)
class Study(Plan, Recorded):
    """A judged tournament from prompts to a record; each step is computed once.

    Open one with `Study.open`, which validates everything and claims a record, then ask
    for `judgments`, `battles`, `ratings`, `sweep`, and `save()` the artifacts.
    """

    @classmethod
    def open(cls, mode: str, **parameters: Any) -> Study:
        """Validate parameters and inputs, then claim a record and write its first manifest."""
        plan = Plan.read(mode, parameters)
        plan.refuse_without_cap()
        values = {f.name: getattr(plan, f.name) for f in fields(plan)}
        study = cls(**values, record=claimed_record(mode, plan.params.run_dir, plan.root))
        study._begin()
        return study

    @property
    def dimensions(self) -> list[str]:
        return list(self.tournament.dimensions)

    @property
    def method(self) -> PermutationElo:
        """The rating method of the tournament file with this run's overrides."""
        return self.tournament.elo.method()

    @cached_property
    def judgments(self) -> list[Judgment]:
        """Every pair judged in both orders and settled."""
        with self._failing(), judging_progress(self.record) as progress:
            self.record.update(cost={"forecast": self.forecast and self.forecast.as_dict()})
            found = judge_pairs(
                self.pairing.pairs,
                self.material,
                self.judge,
                self.ledger,
                offline=self.params.offline and self.params.judge != "replay",
                max_attempts=self.tournament.judge.max_attempts,
                terms=self.terms(self.record.token, progress.say),
                on_progress=progress.show,
            )
            artifacts.write_verdicts(self.record.path, found, self.dimensions)
            self.record.update(
                counts=self._counts(found), cost=self._cost(found), position_bias=_bias(found)
            )
        return found

    @cached_property
    def spending(self) -> Spending | None:
        """What this run paid its judge; None for a judge that costs nothing."""
        if self.price is None:
            return None
        paid = self.ledger.paid(self.record.token)
        return Spending.of(paid, self.price, batch=isinstance(self.judge, BatchJudge))

    @cached_property
    def battles(self) -> BattleLog:
        return to_battles(self.judgments)

    @cached_property
    def bias(self) -> dict[str, PositionBias]:
        return position_bias(self.judgments)

    @cached_property
    def _rated(self) -> tuple[dict[str, dict[float, Ratings]], dict[str, str]]:
        """Ratings at every K of the sweep and at the default one, all from one replay."""
        ks = sorted({*map(float, self.tournament.elo.k_sweep), self.method.k})
        logs = self.battles.by_dimension() if len(self.battles) else {}
        rated, unrated = {}, {}
        for dimension in self.dimensions:
            log = logs.get(dimension, self.battles.select([]))
            try:
                rated[dimension] = k_sweep(self.method, log, ks)
            except RatingError as error:
                unrated[dimension] = str(error)
            else:
                if absent := sorted({*self.tournament.entrants} - {*log.models}):
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
        method = self.tournament.elo.strengths()
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
    def stability(self) -> dict[str, list[Stability]]:
        """How neighbours of each ranking fare across the sweep."""
        logs = self.battles.by_dimension()
        return {
            dimension: neighbour_stability(
                by_k, self.method.k, method=self.method, battles=logs[dimension]
            )
            for dimension, by_k in self.sweep.items()
        }

    def facts(self) -> dict[str, str]:
        """What is judged by whom, in words."""
        rubrics = ", ".join(f"{r.dimension} v{r.version}" for r in self.material.rubrics.values())
        strata = ", ".join(f"{n} {name}" for name, n in self._prompt_set()["strata"].items())
        n_pairs = len(self.pairing.pairs)
        lexical = self.judge.model.startswith("baseline/")
        return {
            "tournament": self.tournament.name,
            "judge": self.judge.model + (" (compares words, reads no rubric)" if lexical else ""),
            "entrants": ", ".join(sorted(self.tournament.entrants)),
            "prompts": f"{len(self.prompts)} of {len(self.bank)} ({strata})",
            "rubrics": rubrics,
            "requests": f"{2 * n_pairs} ({n_pairs} pairs in both orders)",
            "missing responses": f"{len(self.pairing.missing)}, treated "
            f"{self.tournament.missing_responses}",
            "rating": f"Elo, K {self.method.k:g}, mean of {self.method.n_perms} orders, "
            f"evidence from {self.method.evidence_replicates} resamples",
            "seeds": f"shuffles {self.method.seed}, subset {self.params.subset_seed}",
        }

    def save(self) -> Record:
        """Write the result artifacts and, unless a runner does it, close the record."""
        with self._failing():
            artifacts.write_results(
                self.record.path,
                self.battles,
                self.ratings,
                self.sweep,
                self.strengths,
                dimensions=self.dimensions,
                default_k=self.method.k,
            )
            self.record.update(unrated=self.unrated)
        return self._close()

    def _begin(self) -> None:
        self._start(self.mode, self.params.model_dump(mode="json"))
        folder = self.root / self.tournament.responses
        self.record.update(
            tournament=self.tournament.model_dump(mode="json"),
            judge={"model": self.judge.model, "settings": dict(self.judge.settings)},
            entrants=sorted(self.tournament.entrants),
            dimensions=self.dimensions,
            prompt_set=self._prompt_set(),
            responses={e: file_hash(responses_file(folder, e)) for e in self.tournament.entrants},
            rubrics={
                name: {"version": rubric.version, "sha256": rubric.digest}
                for name, rubric in self.material.rubrics.items()
            },
            seeds={"shuffle": self.method.seed, "subset": self.params.subset_seed},
            rating={"method": "permutation-elo", "settings": _settings(self.method)},
            dropped={
                "missing_responses": [list(cell) for cell in self.pairing.missing],
                "prompts": list(self.pairing.dropped_prompts),
                "pairs": self.pairing.dropped_pairs,
            },
        )
        artifacts.write_pairs(self.record.path, self.pairing.pairs)

    def _prompt_set(self) -> dict[str, Any]:
        strata: dict[str, int] = {}
        for prompt in self.prompts:
            strata[prompt.source] = strata.get(prompt.source, 0) + 1
        return {
            "file": str(self.tournament.prompts),
            "sha256": file_hash(self.root / self.tournament.prompts),
            "bank": len(self.bank),
            "selected": len(self.prompts),
            "strata": strata,
        }

    def _counts(self, judgments: list[Judgment]) -> dict[str, Any]:
        return {
            "pairs": self.pairing.counts(),
            "verdicts": status_counts(judgments),
            "judgments": settlement_counts(judgments),
        }

    def _cost(self, judgments: list[Judgment]) -> dict[str, Any]:
        """What this run paid, and what answers from the ledger had cost when they were made."""
        verdicts = [v for j in judgments for v in (j.forward, j.backward)]
        cost: dict[str, Any] = {
            "forecast": self.forecast and self.forecast.as_dict(),
            "usd_spent": self.ledger.spent(self.record.token),
            "usd_saved_by_cache": sum(v.cost_usd for v in verdicts if v.cached),
        }
        if self.spending is not None:
            cost["over_cap"] = cost["usd_spent"] > self.params.max_cost_usd
            cost["answers_paid"] = self.spending.as_dict()
            cost["attempts"] = self.ledger.outcomes(self.record.token)
        return cost

    def _on_failure(self, error: BaseException) -> None:
        if isinstance(error, OfflineError):
            missing = ({"request_id": request_id} for request_id in error.missing)
            write_jsonl(self.record.path / "missing.jsonl", missing)
        if self.price is not None:
            self.record.add_spent(self.ledger.spent(self.record.token))


def _settings(method: PermutationElo) -> dict[str, Any]:
    return {name: getattr(method, name) for name in method.__dataclass_fields__}


def _bias(judgments: list[Judgment]) -> dict[str, Any]:
    return {name: found.as_dict() for name, found in position_bias(judgments).items()}
