"""The figures of the weekly validity report (12): two boards, and what changed between them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.policy.constants import Policy
from arena_kit.policy.exposure import Feasibility, feasibility
from arena_kit.rating.base import RatingError
from arena_kit.validity.churn import Churn, Place, churn
from arena_kit.validity.leaderboard import Earlier, Leaderboard, leaderboard
from arena_kit.validity.weeks import Week, chosen_weeks, until, untimed


class Retired(NamedTuple):
    """Models that are matched no more, and prompts that are asked no more; their votes stay."""

    models: Collection[str] = ()
    prompts: Collection[str] = ()


NOTHING_RETIRED = Retired()


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """The figures of one report.

    Parameters
    ----------
    now, before
        The boards at the end of the week and of the comparison week, None without one.
    week, complete, compared
        The week, whether votes reach its Sunday, and the comparison week.
    later
        Votes after the week, which do not count.
    note
        Why nothing is compared; empty where it is.
    """

    now: Leaderboard
    before: Leaderboard | None
    week: Week | None
    complete: bool
    compared: Week | None
    later: int
    note: str
    feasibility: Feasibility
    pairs: tuple[PairCheck, ...]
    prompts: tuple[PromptCheck, ...]
    confidence: tuple[ConfidenceCheck, ...]
    churn: Churn | None

    @property
    def published(self) -> bool:
        """Whether the rollout phase publishes this report, or it is computed beside."""
        return self.now.policy.phase.publishes_weekly_report

    @property
    def in_week(self) -> NDArray[np.bool_]:
        """Which battles of the board were cast in the week; all, where there are no weeks."""
        times = self.now.battles.timestamp
        if self.week is None or times is None:
            return np.ones(len(self.now.battles), bool)
        cast: NDArray[np.bool_] = times >= np.datetime64(self.week.monday)
        return cast


def weekly_report(
    battles: BattleLog,
    policy: Policy | None = None,
    *,
    week: str = "",
    compare_week: str = "",
    earlier: Earlier | None = None,
    retired: Retired = NOTHING_RETIRED,
) -> Validity:
    """The report on a log up to the end of a week, compared with an earlier week.

    Empty weeks take the last complete one and the one before it. Without timestamps there is
    one board of all battles as they stand, and nothing to compare; asking for a week is then
    an error. Ranks are compared with those of `earlier`, where given, else of that week. What
    is `retired` is left out of the boards of both weeks.
    """
    board = partial(_board, policy=policy or Policy(), retired=retired)
    if (missing := untimed(battles)) or not len(battles):
        note = _no_weeks(battles, missing, week or compare_week)
        return _report(board(battles, earlier=earlier), None, note=note)
    assert battles.timestamp is not None  # noqa: S101 (no battle is untimed)
    chosen = chosen_weeks(battles.timestamp, week, compare_week)
    counted = until(battles, chosen.week)
    before, note = _before(board, battles, chosen.compared, asked=bool(compare_week))
    if earlier is None and before is not None:
        earlier = before.earlier()
    return _report(
        board(counted, earlier=earlier),
        before,
        note=note,
        week=chosen.week,
        complete=chosen.complete,
        compared=chosen.compared if before else None,
        later=len(battles) - len(counted),
    )


def _board(
    battles: BattleLog, *, policy: Policy, retired: Retired, earlier: Earlier | None = None
) -> Leaderboard:
    models = [name for name in battles.models if name not in retired.models]
    if len(battles) and len(models) < 2:
        n = len(battles.models)
        raise DataError(f"{len(models)} of {n} models with votes are not retired, 2 needed")
    return leaderboard(
        battles,
        policy,
        earlier=earlier,
        models=models,
        prompts=[name for name in battles.prompts if name not in retired.prompts],
    )


def _no_weeks(battles: BattleLog, missing: int, asked: str) -> str:
    timeless = f"{missing} of {len(battles)} battles have no timestamp"
    if asked:
        raise DataError(f"a week ({asked}) cannot be told: {timeless}")
    order = "as they stand in the file" if battles.battle_id is None else "by their ids as texts"
    first = "" if missing == len(battles) else ", those with one first"
    return f"No weeks can be compared: {timeless}, so all count, {order}{first}."


def _before(
    board: Callable[[BattleLog], Leaderboard], battles: BattleLog, week: Week | None, *, asked: bool
) -> tuple[Leaderboard | None, str]:
    """The board of the comparison week, or why there is none."""
    if week is None:
        return None, "No week can be compared: there are no votes before this one."
    try:
        return board(until(battles, week)), ""
    except (RatingError, DataError) as error:
        if asked:
            raise
        return None, f"Week {week.label} cannot be compared: {error}."


def _report(
    now: Leaderboard,
    before: Leaderboard | None,
    *,
    note: str,
    week: Week | None = None,
    complete: bool = True,
    compared: Week | None = None,
    later: int = 0,
) -> Validity:
    n_prompts, top = int(now.coverage.active.sum()), now.policy.publication.top
    return Validity(
        now=now,
        before=before,
        week=week,
        complete=complete,
        compared=compared,
        later=later,
        note=note,
        feasibility=feasibility(now.policy, len(now.rows), n_prompts),
        pairs=pair_checks(now, before),
        prompts=prompt_checks(now, before),
        confidence=confidence_checks(now, before),
        churn=churn(places(before), places(now), top=top) if before else None,
    )


def places(board: Leaderboard) -> list[Place]:
    """The models by conservative score with their confidence bands."""
    n = board.policy.deviations
    rows = [board[model] for model in board.conservative_order]
    return [
        Place(model=row.model, low=row.rating - n * row.rd, high=row.rating + n * row.rd)
        for row in rows
    ]


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
    checks = []
    for pair in now.coverage.adjacent(now.band.models):
        known = before is not None and {pair.above, pair.below} <= set(before.coverage.models)
        then = before.coverage.pair(pair.above, pair.below) if before and known else None
        checks.append(
            PairCheck(
                above=pair.above,
                below=pair.below,
                votes=pair.coverage.votes,
                prompts=pair.coverage.prompts,
                votes_before=then.votes if then else None,
                prompts_before=then.prompts if then else None,
                meets_floor=pair.meets_floor,
            )
        )
    return tuple(checks)


def prompt_checks(now: Leaderboard, before: Leaderboard | None) -> tuple[PromptCheck, ...]:
    """Every model's coverage of prompts (7.2), in the published order."""
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
        for model in now.order
    )


def confidence_checks(now: Leaderboard, before: Leaderboard | None) -> tuple[ConfidenceCheck, ...]:
    """Every model's RD and standard error, in the published order."""
    then = {row.model: row for row in before.rows} if before else {}
    return tuple(
        ConfidenceCheck(
            model=model,
            rd=now[model].rd,
            rd_before=then[model].rd if model in then else None,
            se=now[model].bt_se,
            se_before=then[model].bt_se if model in then else None,
        )
        for model in now.order
    )
