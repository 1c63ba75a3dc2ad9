"""The weekly validity report (12): two boards, what changed between them, and who moved.

A week is an ISO week, Monday to Sunday in UTC. Each check of the report is a list of rows: plain
records, which JSON, tables and sentences are derived from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.policy.constants import Policy
from arena_kit.policy.exposure import feasibility
from arena_kit.rating.base import RatingError
from arena_kit.validity.leaderboard import Earlier, Leaderboard, leaderboard

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Week:
    """A week by its Monday."""

    monday: date

    @classmethod
    def parse(cls, text: str) -> Self:
        """The week of a text: an ISO week, or a date within the week."""
        try:
            day = date.fromisoformat(text)
        except ValueError:
            allowed = "an ISO week like 2026-W38, or a date like 2026-09-16"
            raise DataError(f"{text!r} is not a week; allowed: {allowed}") from None
        return cls(day - timedelta(days=day.weekday()))

    @property
    def label(self) -> str:
        """The week as ISO 8601 writes it."""
        return f"{self.monday:%G-W%V}"

    @property
    def end(self) -> np.datetime64:
        """The midnight after its Sunday, which no longer belongs to it."""
        return np.datetime64(self.monday, "us") + np.timedelta64(7, "D")


def untimed(battles: BattleLog) -> int:
    """How many battles have no timestamp."""
    times = battles.timestamp
    return len(battles) if times is None else int(np.isnat(times).sum())


def chosen_weeks(
    times: NDArray[np.datetime64], week: str = "", compare: str = ""
) -> tuple[Week, bool, Week | None]:
    """The week of a report, whether it is complete, and the week to compare with, None where there
    is no vote so early; empty texts take the last complete week with votes, and the last week with
    votes before it.

    A week is complete when votes reach its Sunday. Where none is, the last one is taken.
    """
    first, last = times.astype("datetime64[D]")[[times.argmin(), times.argmax()]].tolist()
    voted = [numbered(n) for n in np.unique(week_numbers(times)).tolist()]
    over = [each for each in voted if last >= each.monday + timedelta(days=6)]
    asked = Week.parse(week) if week else (over or voted)[-1]
    if asked not in voted:
        raise DataError(f"week {asked.label} has no votes; votes are from {first} to {last}")
    before = [each for each in voted if each < asked]
    against = Week.parse(compare) if compare else before[-1] if before else None
    if against is not None and against >= asked:
        raise DataError(f"compare_week {against.label} must be before week {asked.label}")
    if compare and against not in voted:
        raise DataError(f"compare_week {compare} has no votes; votes begin on {first}")
    return asked, asked in over, against


def until(battles: BattleLog, week: Week) -> BattleLog:
    """The battles up to the end of a week; all need a timestamp."""
    if battles.timestamp is None:
        raise DataError("battles without timestamps have no weeks")
    return battles.select(battles.timestamp < week.end)


def week_numbers(times: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """A number per moment that is equal within a week, and one more in the next."""
    days: NDArray[np.int64] = times.astype("datetime64[D]").astype(np.int64)
    return (days + 3) // 7  # day 0 was a Thursday


def numbered(number: int) -> Week:
    """The week of such a number."""
    return Week(date(1970, 1, 5) + timedelta(weeks=int(number) - 1))


class Retired(NamedTuple):
    """Models that are matched no more, and prompts that are asked no more; their votes stay."""

    models: Collection[str] = ()
    prompts: Collection[str] = ()


NOTHING_RETIRED = Retired()


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyReport:
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
    pairs
        A row per two neighbours in the contender band: how well they are compared (7.3).
    prompts
        A row per model, in the published order: its prompt coverage (7.2), and the share of prompts
        with the top-band target.
    confidence
        A row per model, in the published order: RD and the Bradley–Terry standard error.
    churn
        How the top changed against its confidence bands, None without a comparison.
    """

    now: Leaderboard
    before: Leaderboard | None = None
    week: Week | None = None
    complete: bool = True
    compared: Week | None = None
    later: int = 0
    note: str
    feasibility: tuple[str, ...]
    pairs: Sequence[Row]
    prompts: Sequence[Row]
    confidence: Sequence[Row]
    churn: Row | None = None

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
        return np.asarray(times >= np.datetime64(self.week.monday))


def weekly_report(
    battles: BattleLog,
    policy: Policy | None = None,
    *,
    week: str = "",
    compare_week: str = "",
    earlier: Earlier | None = None,
    retired: Retired = NOTHING_RETIRED,
) -> WeeklyReport:
    """The report on a log up to the end of a week, compared with an earlier week.

    Empty weeks take the last complete one and the one before it. Without timestamps there is
    one board of all battles as they stand, and nothing to compare; asking for a week is then
    an error. Ranks are compared with those of `earlier`, where given, else of that week. What
    is `retired` is left out of the boards of both weeks.
    """
    board = partial(_board, policy=policy or Policy(), retired=retired)
    if (missing := untimed(battles)) or not len(battles):
        note = _no_weeks(battles, missing, week or compare_week)
        return _report(board(battles, earlier=earlier), note=note)
    assert battles.timestamp is not None  # noqa: S101 (no battle is untimed)
    shown, complete, against = chosen_weeks(battles.timestamp, week, compare_week)
    counted = until(battles, shown)
    before, note = _before(board, battles, against, asked=bool(compare_week))
    if earlier is None and before is not None:
        earlier = before.earlier()
    return _report(
        board(counted, earlier=earlier),
        before,
        note=note,
        week=shown,
        complete=complete,
        compared=against if before else None,
        later=len(battles) - len(counted),
    )


def _board(
    battles: BattleLog, *, policy: Policy, retired: Retired, earlier: Earlier | None = None
) -> Leaderboard:
    models = [name for name in battles.models if name not in retired.models]
    if len(battles) and len(models) < 2:
        n = len(battles.models)
        raise DataError(f"{len(models)} of {n} models with votes are active, 2 needed")
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
        raise DataError(f"week {asked} cannot be selected: {timeless}")
    order = "in file order" if battles.battle_id is None else "in order of battle_id"
    first = "" if missing == len(battles) else ", those with a timestamp first"
    return f"Weeks cannot be compared: {timeless}. All battles count, {order}{first}."


def _before(
    board: Callable[[BattleLog], Leaderboard], battles: BattleLog, week: Week | None, *, asked: bool
) -> tuple[Leaderboard | None, str]:
    """The board of the comparison week, or why there is none."""
    if week is None:
        return None, "There is no earlier week with votes to compare."
    try:
        return board(until(battles, week)), ""
    except (RatingError, DataError) as error:
        if asked:
            raise
        return None, f"Week {week.label} cannot be compared: {error}."


def _report(now: Leaderboard, before: Leaderboard | None = None, **about: Any) -> WeeklyReport:
    n_prompts, top = int(now.coverage.active.sum()), now.policy.publication.top
    return WeeklyReport(
        now=now,
        before=before,
        **about,
        feasibility=feasibility(now.policy, len(now.rows), n_prompts),
        pairs=pair_checks(now, before),
        prompts=prompt_checks(now, before),
        confidence=confidence_checks(now, before),
        churn=churn(confidence_bands(before), confidence_bands(now), top=top) if before else None,
    )


def pair_checks(now: Leaderboard, before: Leaderboard | None) -> list[Row]:
    """Adjacent contenders (7.3), best first, beside the same pairs in the comparison week."""
    rows = []
    for pair in now.coverage.adjacent(now.band):
        two = pair["above"], pair["below"]
        known = before is not None and {*two} <= {*before.coverage.models}
        votes, prompts, _ = before.coverage.pair(*two) if before and known else (None,) * 3
        rows.append(pair | {"votes_before": votes, "prompts_before": prompts})
    return rows


def prompt_checks(now: Leaderboard, before: Leaderboard | None) -> list[Row]:
    """Every model's coverage of prompts (7.2), in the published order."""
    coverage, target = now.coverage, now.policy.prompts.top_target
    reached = (coverage.by_prompt[:, coverage.active] >= target).sum(axis=1)
    share = reached / max(1, int(coverage.active.sum()))
    then = {row.model: row.prompt_coverage for row in before.rows} if before else {}
    return [
        {
            "model": row.model,
            "coverage": row.prompt_coverage,
            "coverage_before": then.get(row.model),
            "contender": row.model in now.band,
            "target": float(share[coverage.index(row.model)]),
        }
        for row in now.rows
    ]


def confidence_checks(now: Leaderboard, before: Leaderboard | None) -> list[Row]:
    """Every model's RD and standard error, in the published order."""
    then = {row.model: (row.rd, row.bt_se) for row in before.rows} if before else {}
    names, new = ("model", "rd", "se", "rd_before", "se_before"), (None, None)
    rows = ((row.model, row.rd, row.bt_se, *then.get(row.model, new)) for row in now.rows)
    return [dict(zip(names, row, strict=True)) for row in rows]


class Band(NamedTuple):
    """A model and its confidence band: rating less and plus so many RDs."""

    model: str
    low: float
    high: float

    def overlaps(self, other: Band) -> bool:
        """Whether the two bands have a point in common."""
        return self.low <= other.high and other.low <= self.high


def confidence_bands(board: Leaderboard) -> list[Band]:
    """The models by conservative score with their confidence bands."""
    n = board.policy.deviations
    rows = [board[model] for model in board.conservative_order]
    return [Band(row.model, row.rating - n * row.rd, row.rating + n * row.rd) for row in rows]


def churn(before: Sequence[Band], now: Sequence[Band], *, top: int) -> Row:
    """How the top changed between two orders, best first; the bands are those of `now`.

    A row of `moves` is a model of either top whose rank changed, None in a week in which it was
    not there: `crossed` are the models that it changed order with, and `apart` those of them whose
    band does not overlap with its own, so that chance did not make the move.
    """
    rank = {each.model: n for n, each in enumerate(now, 1)}
    was = {each.model: n for n, each in enumerate(before, 1)}
    band = {each.model: each for each in now}
    upper = [m for m in {**rank, **was} if min(rank.get(m, top + 1), was.get(m, top + 1)) <= top]
    swapped = [
        (a, b)
        for a, b in combinations([m for m in rank if m in was], 2)
        if (rank[a] < rank[b]) != (was[a] < was[b]) and (a in upper or b in upper)
    ]
    moves = []
    for model in (m for m in upper if rank.get(m) != was.get(m)):
        crossed = [b if a == model else a for a, b in swapped if model in (a, b)]
        apart = [other for other in crossed if not band[model].overlaps(band[other])]
        moves.append(
            {
                "model": model,
                "before": was.get(model),
                "now": rank.get(model),
                "crossed": crossed,
                "apart": apart,
                "inside_bands": not apart,
            }
        )
    return {
        "top": top,
        "moves": sorted(moves, key=lambda move: (move["now"] or len(rank) + 1, move["model"])),
        "pairs_swapped": len(swapped),
        "pairs_swapped_inside_bands": sum(band[a].overlaps(band[b]) for a, b in swapped),
    }
