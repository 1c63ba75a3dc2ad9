"""What the weekly report checks of pairs, prompts and confidence, now and a week before."""

from __future__ import annotations

from dataclasses import dataclass

from arena_kit.board.leaderboard import Leaderboard


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCheck:
    """Two neighbours in the contender band, and how well they are compared (7.3)."""

    above: str
    below: str
    votes: int
    prompts: int
    votes_before: int | None
    prompts_before: int | None
    meets_floor: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCheck:
    """A model's coverage of prompts (7.2); `target` is the share with the top-band target."""

    model: str
    coverage: float
    coverage_before: float | None
    contender: bool
    target: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceCheck:
    """RD and the Bradley–Terry standard error of a model, now and in the comparison week."""

    model: str
    rd: float
    rd_before: float | None
    se: float | None
    se_before: float | None


def pair_checks(now: Leaderboard, before: Leaderboard | None) -> tuple[PairCheck, ...]:
    """Adjacent contenders (7.3), best first."""
    found = []
    for pair in now.coverage.adjacent(now.band.models):
        known = before is not None and {pair.above, pair.below} <= set(before.coverage.models)
        then = before.coverage.pair(pair.above, pair.below) if before and known else None
        found.append(
            PairCheck(
                above=pair.above,
                below=pair.below,
                votes=pair.found.votes,
                prompts=pair.found.prompts,
                votes_before=then.votes if then else None,
                prompts_before=then.prompts if then else None,
                meets_floor=pair.meets_floor,
            )
        )
    return tuple(found)


def prompt_checks(now: Leaderboard, before: Leaderboard | None) -> tuple[PromptCheck, ...]:
    """Every model's coverage of prompts (7.2), in order of the conservative score."""
    coverage, target = now.coverage, now.policy.prompts.top_target
    reached = (coverage.by_prompt[:, coverage.active] >= target).sum(axis=1)
    share = reached / max(1, int(coverage.active.sum()))
    then = {row.model: row.prompt_coverage for row in before.rows} if before else {}
    return tuple(
        PromptCheck(
            model=model,
            coverage=now[model].prompt_coverage,
            coverage_before=then.get(model),
            contender=model in now.band.models,
            target=float(share[coverage.index(model)]),
        )
        for model in now.conservative_order
    )


def confidence_checks(now: Leaderboard, before: Leaderboard | None) -> tuple[ConfidenceCheck, ...]:
    """Every model's RD and standard error, in order of the conservative score."""
    then = {row.model: row for row in before.rows} if before else {}
    return tuple(
        ConfidenceCheck(
            model=model,
            rd=now[model].rd,
            rd_before=then[model].rd if model in then else None,
            se=now[model].bt_se,
            se_before=then[model].bt_se if model in then else None,
        )
        for model in now.conservative_order
    )
