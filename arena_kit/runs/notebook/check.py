"""Whether a run could start: parameters, data and judge, read and checked without a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arena_kit.judging.judges.base import PaidJudge
from arena_kit.runs.record.record import find_root
from arena_kit.runs.settings.files import validated
from arena_kit.runs.settings.parameters import (
    JudgeReportParams,
    PlacementParams,
    ReviewParams,
    SeasonParams,
    parameters_of,
)
from arena_kit.runs.tournament.judge_gate import ready_plan
from arena_kit.runs.tournament.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A run that could start now, as the plan of a tournament or as what is `known` of another
    notebook's input. Nothing is sent or recorded.
    """

    plan: Plan | None = None
    known: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, mode: str, parameters: dict[str, Any]) -> Ready:
        """Refuse, in a sentence, what the notebook would refuse when it opens its study, and a
        judge that cannot be asked for want of a key.
        """
        params = validated(parameters_of(mode), parameters, f"parameters of {mode}")
        root = find_root()
        if isinstance(params, PlacementParams):
            return cls(known=_placement(params, root))
        if isinstance(params, SeasonParams):
            return cls(known=_policy(params, root))
        if isinstance(params, ReviewParams):
            return cls(known=_review(params, root))
        if isinstance(params, JudgeReportParams) and params.reads:
            return cls(known=_judges(params, root))
        plan = ready_plan(mode, parameters)
        if plan.buys and isinstance(plan.judge, PaidJudge):
            plan.judge.ready()
        return cls(plan=plan)

    def facts(self) -> dict[str, str]:
        """What would run, in words."""
        return dict(self.known) if self.plan is None else _tournament(self.plan)


def _tournament(plan: Plan) -> dict[str, str]:
    asked, fresh = 2 * len(plan.asked), len(plan.bulk)
    return {
        "tournament": plan.tournament.name,
        "judge": f"{plan.judge.model}, {_where(plan)}",
        "entrants": ", ".join(sorted(plan.tournament.entrants)),
        "dimensions": ", ".join(plan.tournament.dimensions),
        "prompts": f"{len(plan.prompts)} of {len(plan.bank)}",
        "requests": f"{asked:,} ({len(plan.asked):,} pairs in both orders), of which "
        f"{asked - fresh:,} are in the ledger",
        "missing responses": f"{len(plan.pairing.missing)}",
    }


def _where(plan: Plan) -> str:
    """Where the judge is asked, and up to which price."""
    if not isinstance(plan.judge, PaidJudge):
        return "in this process, for nothing"
    cap = f", at most ${plan.params.max_cost_usd:g}" if plan.spends else ""
    return f"at {plan.judge.service.origin or 'its own service'}{cap}"


def _placement(params: PlacementParams, root: Path) -> dict[str, str]:
    from arena_kit.runs.placement.study import read_inputs

    inputs = read_inputs(params, root)
    sources = {"model": params.model, "votes": f"{len(inputs.human):,} of {params.human}"}
    if inputs.verdicts is not None:
        return sources | {"verdicts": f"{len(inputs.verdicts):,} of {params.judged}"}
    if inputs.plan is None:
        raise TypeError("neither verdicts nor a judge")
    inputs.plan.refuse_without_keys()
    sample = inputs.plan.sample
    return sources | {
        "judge": inputs.plan.judge.model,
        "requests": f"{2 * (len(sample.battles) + len(sample.shared)):,} "
        f"({len(sample.battles)} battles against {len(sample.opponents)} opponents and "
        f"{len(sample.shared)} that people decided, in both orders)",
    }


def _policy(params: SeasonParams, root: Path) -> dict[str, str]:
    from arena_kit.runs.policy import read_inputs

    policy, battles = read_inputs(params, root)
    return {
        "votes": f"{len(battles):,} of {params.battles}",
        "models": f"{len(battles.models)}",
        "prompts": f"{len(battles.prompts)}",
        "policy": f"{params.policy}, phase {int(policy.phase)}",
    }


def _review(params: ReviewParams, root: Path) -> dict[str, str]:
    from arena_kit.runs.record.battles import voted

    if "://" in params.battles:
        return {"votes": f"of {params.battles.rpartition('@')[2]}"}
    battles = voted(params.battles, root, winner=params.winner, dimension=params.dimension)
    return {"votes": f"{len(battles):,} of {params.battles}", "models": f"{len(battles.models)}"}


def _judges(params: JudgeReportParams, root: Path) -> dict[str, str]:
    from arena_kit.runs.tournament.judge_report import check_sources

    check_sources(params, root)
    return {"verdicts": ", ".join([*params.records, *filter(None, [params.verdicts])])}
