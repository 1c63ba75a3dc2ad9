"""Votes under the ranking validity policy, from a battles file to a record, step by step.

`read_season` reads, `Season.report` and `Season.pages` compute, `publish_policy` writes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError, file_hash, file_in, read_json
from arena_kit.policy.constants import Phase, Policy
from arena_kit.policy.coverage import Coverage, check_single_votes
from arena_kit.reporting import model_pages, policy_tables
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.answer import RunAnswer
from arena_kit.reporting.board import ABOUT
from arena_kit.runs.record import inputs
from arena_kit.runs.record.record import Record, find_root
from arena_kit.runs.settings.files import read_policy
from arena_kit.runs.settings.parameters import SeasonParams, resolve_parameters
from arena_kit.validity.leaderboard import Earlier, earlier_of
from arena_kit.validity.model_page import ModelDetail, model_detail
from arena_kit.validity.sentences import validity_values
from arena_kit.validity.weekly import Retired, WeeklyReport, weekly_report

if TYPE_CHECKING:
    from arena_kit.reporting.figures import Plot

MODE = "policy_validity"
SHOWN, CHECKED = 3, 2
_PHASES = {
    Phase.SHADOW: "1, shadow: computed, not shown to readers",
    Phase.LANES: "2, lanes: matchups from the lanes, order by legacy Elo",
    Phase.MIGRATION: "3, migration: order by conservative score, legacy Elo shown",
    Phase.GOVERNANCE: "4, governance: the weekly validity report is published",
}


@dataclass(frozen=True, kw_only=True)
class Season:
    """The votes of an arena, the policy that they are under, and the record of this run."""

    root: Path
    params: SeasonParams
    policy: Policy
    battles: BattleLog = field(repr=False)
    record: Record

    @property
    def arena(self) -> str:
        """The arena's name with what must be said of its votes."""
        params, note = self.params, inputs.arena_note(self.battles, "")
        return inputs.arena_name(params.battles, params.arena, note)

    def report(self) -> WeeklyReport:
        """The weekly report on the week of the parameters."""
        params = self.params
        with self.record.failing():
            return weekly_report(
                self.battles,
                self.policy,
                week=params.week,
                compare_week=getattr(params, "compare_week", ""),
                earlier=_earlier(self.root, getattr(params, "earlier", "")),
                retired=_retired(self.battles, params),
            )

    def pages(self, report: WeeklyReport) -> tuple[ModelDetail, ...]:
        """The pages of the models that the parameters name, by default of the top three and of
        two more at most that are due a quality check.
        """
        board = report.now
        top = list(board.order[:SHOWN])
        due = [each.model for each in board.checks if each.model not in top]
        named = getattr(self.params, "models", [])
        with self.record.failing():
            if unknown := [name for name in named if name not in board.order]:
                known = ", ".join(board.order)
                raise DataError(f"models: no model {unknown[0]!r} on the board; on it: {known}")
            return tuple(model_detail(board, name) for name in named or top + due[:CHECKED])

    def facts(self, report: WeeklyReport) -> dict[str, str]:
        """What the report is about, in words."""
        board, votes = report.now, report.now.battles
        retired = _retired(self.battles, self.params)
        in_week = f"; {report.in_week.sum()} in the week" if report.week else ""
        since = f"with those of {getattr(self.params, 'earlier', '') or 'the comparison week'}"
        return {
            "arena": self.arena,
            "week": _week(report),
            "compared with": report.compared.label if report.compared else report.note,
            "votes": f"{len(votes)}, of which {votes.decisive().sum()} decisive{in_week}",
            "models": f"{len(board.rows)}, {len(board.band)} of them contenders"
            + _without(retired.models),
            "prompts": _prompts(board.coverage) + _without(retired.prompts),
            "policy": self.params.policy,
            "rollout phase": _PHASES[self.policy.phase],
            "ordered by": board.epoch,
            "claims": ABOUT[board.order_decided.about],
            "ranks compared": board.movement or since,
        }

    def answer(self, report: WeeklyReport, pages: Sequence[ModelDetail] = ()) -> RunAnswer:
        """Which objectives are met, what the board may be called and which of its orders are
        decided, or a sentence for each of the pages; and what not to conclude.
        """
        note, facts = inputs.arena_note(self.battles, ""), self.facts(report)
        return RunAnswer(
            sentences=model_pages.sentences(pages, report.now)
            if pages
            else policy_tables.answer(report),
            brief=[] if pages else policy_tables.brief(report),
            caveats=[*([f"The votes: {note}."] if note else []), facts["claims"]],
            facts={name: facts[name] for name in ("arena", "week", "votes", "models", "prompts")}
            | {"judge": "none: votes alone", "cost": "nothing", "policy": facts["rollout phase"]}
            | self.record.facts,
        )


def read_season(mode: str = MODE, /, **parameters: Any) -> Season:
    """Validate the parameters of a notebook, read policy and votes, and begin a record that keeps
    both.
    """
    root = find_root()
    params: SeasonParams = resolve_parameters(mode, parameters)
    policy, battles = read_inputs(params, root)
    record = Record.begin(mode, params.model_dump(mode="json"), root)
    season = Season(root=root, params=params, policy=policy, battles=battles, record=record)
    _describe(season)
    return season


def publish_policy(
    season: Season,
    report: WeeklyReport,
    pages: Sequence[ModelDetail] = (),
    *,
    figures: Sequence[Plot] = (),
) -> Record:
    """Write the answer, and the pages (model_detail.json) or, without any, the leaderboard (JSON,
    CSV, Markdown, LaTeX), board.json, validity.json and the pages of all models.
    """
    files = {ANSWER_FILE: season.answer(report, pages).as_dict()}
    if not pages:
        pages = [model_detail(report.now, model) for model in report.now.order]
        files |= _board_files(season, report)
    least = season.policy.prompt_scores.min_votes
    files["model_detail.json"] = {page.model: page.as_dict(least) for page in pages}
    return season.record.publish(files, figures)


def _board_files(season: Season, report: WeeklyReport) -> dict[str, Any]:
    """The board and the figures of the weekly report by file, of which the manifest has some."""
    board, arena = report.now, {"arena": season.arena}
    values, printed = validity_values(report), policy_tables.printed(board)
    season.record.update(
        status_of_board=values["status"] | {"sentence": board.status.sentence},
        order_decided=board.order_decided.sentence,
        week=values["week"],
        compare_week=values["compare_week"],
        epoch=board.epoch,
    )
    return {
        "leaderboard.json": arena | board.as_dict(),
        "board.json": policy_tables.to_board(board, season.arena).as_dict(),
        "leaderboard.csv": policy_tables.every_metric(board).csv,
        "leaderboard.md": printed.markdown,
        "leaderboard.tex": printed.latex,
        "validity.json": arena | values,
    }


def _describe(season: Season) -> None:
    """Keep votes and policy in the record, and say in its manifest what they are."""
    params, record = season.params, season.record
    votes, policy = inputs.battles_file(season.root / params.battles), season.root / params.policy
    suffixes = votes.suffixes[-2:] if votes.suffix == ".gz" else [votes.suffix]
    with record.failing():
        kept = {f"battles{''.join(suffixes)}": votes, "policy.yaml": policy}
        inputs.keep_inputs(record, kept, params.inputs)
    record.update(
        arena=season.arena,
        battles={
            "file": params.battles,
            "sha256": file_hash(votes),
            "n": len(season.battles),
            "note": inputs.arena_note(season.battles, ""),
        },
        policy={
            "file": params.policy,
            "sha256": file_hash(policy),
            "phase": int(season.policy.phase),
        },
    )


def read_inputs(params: SeasonParams, root: Path) -> tuple[Policy, BattleLog]:
    """Read policy and battles, one vote per row, and refuse parameters that do not fit them."""
    policy = read_policy(root / params.policy)
    if params.phase:
        policy = replace(policy, phase=Phase(params.phase))
    battles = inputs.battles_of(
        params.battles, root, winner=params.winner, dimension=params.dimension
    )
    if not len(battles):
        raise DataError(f"{params.battles}: holds no battles")
    check_single_votes(battles)
    left = len(set(battles.models) - set(_retired(battles, params).models))
    if left < 2:
        raise DataError(f"retired: {left} of {len(battles.models)} models are left, 2 needed")
    return policy, battles


def _earlier(root: Path, name: str) -> Earlier | None:
    """The published ranks of an earlier record."""
    path = root / name
    file = file_in(path, "leaderboard.json") if path.is_dir() else path
    return earlier_of(read_json(file), name) if name else None


def _retired(battles: BattleLog, params: SeasonParams) -> Retired:
    """The retired models and prompts; a name must be that of one of them."""
    for name in params.retired:
        if (name in battles.models) == (name in battles.prompts):
            both = "both a model and a prompt" if name in battles.models else "no model or prompt"
            raise DataError(f"retired: {name!r} is {both} of {params.battles}")
    models, prompts = (
        [name for name in params.retired if name in known]
        for known in (battles.models, battles.prompts)
    )
    return Retired(models, prompts)


def _week(report: WeeklyReport) -> str:
    if report.week is None:
        return "none: all battles of the file"
    partly = "" if report.complete else ", incomplete at the last vote"
    later = f"; {report.later} later votes are excluded" if report.later else ""
    sunday = report.week.monday + timedelta(days=6)
    return f"{report.week.label}, {report.week.monday} to {sunday}{partly}{later}"


def _without(retired: Collection[str]) -> str:
    return f"; retired: {', '.join(retired)}" if retired else ""


def _prompts(coverage: Coverage) -> str:
    n = int(coverage.active.sum())
    if not n:
        return "none are named or active, so coverage is unknown"
    mean = coverage.by_prompt[np.ix_(coverage.enabled, coverage.active)].mean()
    thin = mean < coverage.policy.prompts.floor
    short = ": too few for the coverage that the policy requires" if thin else ""
    return f"{n}; a model has {mean:.2g} decisive votes on each, on average{short}"
