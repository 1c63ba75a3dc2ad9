"""The weekly validity report, from a battles file to a record. The notebook's door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError, file_hash, read_json, write_json, write_text
from arena_kit.policy.constants import Phase, Policy
from arena_kit.policy.coverage import Coverage
from arena_kit.policy.tally import check_single_votes
from arena_kit.reporting import board_tables, weekly_tables
from arena_kit.reporting.answer import FILE as ANSWER_FILE
from arena_kit.reporting.answer import QUESTIONS, RunAnswer
from arena_kit.reporting.board import ABOUT
from arena_kit.runs.record.battles import arena_name, arena_note, battles_file, battles_of
from arena_kit.runs.record.inputs import keep_inputs
from arena_kit.runs.record.record import Record, Recorded, find_root
from arena_kit.runs.settings.files import read_policy
from arena_kit.runs.settings.parameters import PolicyParams, told
from arena_kit.validity.formats import detail_values, earlier_of, to_dict, validity_values
from arena_kit.validity.integrity import Integrity, LaneShare, integrity, lane_mix
from arena_kit.validity.leaderboard import Earlier, Leaderboard
from arena_kit.validity.model_page import ModelDetail, model_detail
from arena_kit.validity.weekly import Retired, Validity, weekly_report

MODE = "policy_validity"
SHOWN, CHECKED = 3, 2
_PHASES = {
    Phase.SHADOW: "1, shadow: computed, and nothing changes for readers",
    Phase.LANES: "2, lanes: matchups come from the lanes, the order is still legacy Elo's",
    Phase.MIGRATION: "3, migration: ordered by conservative score, legacy Elo beside it",
    Phase.GOVERNANCE: "4, governance: the weekly validity report is published",
}


@dataclass(frozen=True, kw_only=True)
class PolicyStudy(Recorded):
    """An arena under the ranking validity policy; open one with `PolicyStudy.open`, then ask
    for its `report`, `board` and `details`, and `save()` the artifacts.
    """

    root: Path
    params: PolicyParams
    policy: Policy
    battles: BattleLog = field(repr=False)

    @classmethod
    def open(cls, namespace: Mapping[str, Any] | None = None, /, **parameters: Any) -> PolicyStudy:
        """Validate parameters, read policy and battles, then claim a record.

        A notebook passes its `globals()`, of which the parameters are taken.
        """
        root = find_root()
        params = told(PolicyParams, MODE, namespace, parameters)
        policy, battles = read_inputs(params, root)
        record = Record.begin(MODE, params.model_dump(mode="json"), root)
        study = cls(root=root, params=params, policy=policy, battles=battles, record=record)
        study._describe()
        return study

    @cached_property
    def report(self) -> Validity:
        """The figures of the report."""
        with self.record.failing():
            return weekly_report(
                self.battles,
                self.policy,
                week=self.params.week,
                compare_week=self.params.compare_week,
                earlier=self._earlier(),
                retired=Retired(self.params.retired_models, self.params.retired_prompts),
            )

    @property
    def board(self) -> Leaderboard:
        """The leaderboard at the end of the week."""
        return self.report.now

    @cached_property
    def details(self) -> tuple[ModelDetail, ...]:
        """The pages of the models asked for, by default of the top three and of two more at
        most that are due a quality check.
        """
        with self.record.failing():
            top = list(self.board.order[:SHOWN])
            due = [each.model for each in self.board.checks if each.model not in top]
            names = self.params.detail or top + due[:CHECKED]
            for name in names:
                if name not in self.board.order:
                    known = ", ".join(self.board.order)
                    raise DataError(f"detail: no model {name!r} on the board; on it: {known}")
            return tuple(model_detail(self.board, name) for name in names)

    @cached_property
    def lanes(self) -> tuple[LaneShare, ...]:
        """How much of the queue each lane served; empty where the file does not say."""
        return lane_mix(self.board.battles, self.policy, self.report.in_week)

    @cached_property
    def controls(self) -> Integrity:
        """What the file tells about sides and repeats."""
        return integrity(self.board.battles, self.policy)

    @property
    def note(self) -> str:
        """What is to be known about the votes: as the parameters say, else as the sessions do."""
        return arena_note(self.battles, self.params.note)

    @property
    def arena(self) -> str:
        """The arena's name with what must be said of it: as the parameters say, else its file's."""
        return arena_name(self.params.battles, self.params.arena, self.note)

    def answer(self) -> RunAnswer:
        """Which objectives are met, what the board may be called and which of its orders are
        decided, and what not to conclude; kept in answer.json.
        """
        votes = [f"The votes: {self.note}."] if self.note else []
        facts = self.facts()
        return RunAnswer(
            question=QUESTIONS[MODE],
            sentences=weekly_tables.answer(self.report),
            caveats=[*votes, facts["claims"]],
            facts={name: facts[name] for name in ("arena", "week", "votes", "models", "prompts")}
            | {"judge": "none: votes alone", "cost": "nothing", "policy": facts["rollout phase"]}
            | self.record.facts,
        )

    def facts(self) -> dict[str, str]:
        """What the report is about, in words."""
        report, coverage, votes = self.report, self.board.coverage, self.board.battles
        return {
            "arena": self.arena,
            "week": _week(report),
            "compared with": report.compared.label if report.compared else report.note,
            "votes": f"{len(votes)}, of which {votes.decisive().sum()} decisive"
            + (f"; {report.in_week.sum()} in the week" if report.week else ""),
            "models": f"{len(self.board.rows)}, {len(self.board.band.models)} of them contenders"
            + _without(self.params.retired_models),
            "prompts": _prompts(coverage) + _without(self.params.retired_prompts),
            "policy": self.params.policy,
            "rollout phase": _PHASES[self.policy.phase],
            "ordered by": self.board.epoch,
            "claims": ABOUT[self.board.order_decided.about],
            "ranks compared": self.board.movement
            or f"with those of {self.params.earlier or 'the comparison week'}",
        }

    def save(self) -> Record:
        """Write the leaderboard (JSON, CSV, Markdown, LaTeX), validity.json, model_detail.json."""
        with self.record.failing():
            folder = self.record.path
            write_json(folder / "leaderboard.json", {"arena": self.arena} | to_dict(self.board))
            board_tables.to_board(self.board, self.arena).write(folder)
            printed = board_tables.printed(self.board)
            write_text(folder / "leaderboard.csv", board_tables.every_metric(self.board).csv)
            write_text(folder / "leaderboard.md", printed.markdown)
            write_text(folder / "leaderboard.tex", printed.latex)
            values = validity_values(self.report, self.lanes, self.controls)
            write_json(folder / "validity.json", {"arena": self.arena} | values)
            write_json(folder / "model_detail.json", self._pages())
            write_json(folder / ANSWER_FILE, self.answer().as_dict())
            self.record.update(
                status_of_board=values["status"] | {"sentence": self.board.status.sentence},
                order_decided=self.board.order_decided.sentence,
                week=values["week"],
                compare_week=values["compare_week"],
                epoch=self.board.epoch,
            )
        return self.record.close()

    def _pages(self) -> dict[str, Any]:
        """The pages of all models."""
        least = self.policy.prompt_scores.min_votes
        return {
            model: detail_values(model_detail(self.board, model), least)
            for model in self.board.order
        }

    def _describe(self) -> None:
        params = self.params
        votes = battles_file(self.root / params.battles)
        suffixes = votes.suffixes[-2:] if votes.suffix == ".gz" else [votes.suffix]
        kept = {f"battles{''.join(suffixes)}": votes, "policy.yaml": self.root / params.policy}
        with self.record.failing():
            keep_inputs(self.record, kept, params.inputs)
        self.record.update(
            arena=self.arena,
            battles={
                "file": params.battles,
                "sha256": file_hash(votes),
                "n": len(self.battles),
                "note": self.note,
            },
            policy={
                "file": params.policy,
                "sha256": file_hash(self.root / params.policy),
                "phase": int(self.policy.phase),
            },
        )

    def _earlier(self) -> Earlier | None:
        if not self.params.earlier:
            return None
        path = self.root / self.params.earlier
        file = path / "leaderboard.json" if path.is_dir() else path
        return earlier_of(read_json(file), str(self.params.earlier))


def read_inputs(params: PolicyParams, root: Path) -> tuple[Policy, BattleLog]:
    """Read policy and battles, and refuse parameters that do not fit them."""
    policy = read_policy(root / params.policy)
    if params.phase:
        policy = replace(policy, phase=Phase(params.phase))
    battles = _votes(root, params)
    _check_retired(battles, params)
    return policy, battles


def _votes(root: Path, params: PolicyParams) -> BattleLog:
    """The battles of the parameters' dimension, one vote per row."""
    battles = battles_of(params.battles, root, winner=params.winner, dimension=params.dimension)
    if not len(battles):
        raise DataError(f"{params.battles}: holds no battles")
    check_single_votes(battles)
    return battles


def _check_retired(battles: BattleLog, params: PolicyParams) -> None:
    """Refuse to retire what there is not, or all but one model."""
    for what, names, known in (
        ("model", params.retired_models, battles.models),
        ("prompt", params.retired_prompts, battles.prompts),
    ):
        for name in names:
            if name not in known:
                raise DataError(f"retired_{what}s: no {what} {name!r} in {params.battles}; "
                                f"there: {', '.join(known) or 'none'}")  # fmt: skip
    left = len(set(battles.models) - set(params.retired_models))
    if left < 2:
        raise DataError(f"retired_models: {left} of {len(battles.models)} are left, 2 needed")


def _week(report: Validity) -> str:
    if report.week is None:
        return "none: all battles of the file"
    partly = "" if report.complete else ", not over when the last vote came"
    later = f"; {report.later} later votes do not count" if report.later else ""
    sunday = report.week.monday + timedelta(days=6)
    return f"{report.week.label}, {report.week.monday} to {sunday}{partly}{later}"


def _without(retired: list[str]) -> str:
    return f"; retired: {', '.join(retired)}" if retired else ""


def _prompts(coverage: Coverage) -> str:
    n = int(coverage.active.sum())
    if not n:
        return "none are named or active, so nothing can be said about their coverage"
    mean = coverage.by_prompt[np.ix_(coverage.enabled, coverage.active)].mean()
    thin = mean < coverage.policy.prompts.floor
    short = ": too few for the coverage that the policy asks for" if thin else ""
    return f"{n}; a model has {mean:.2g} decisive votes on each, on average{short}"
