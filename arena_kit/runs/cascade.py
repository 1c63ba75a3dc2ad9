"""A calibrated cascade as a file: made from two judges' battles and people's votes, and followed
by a run that asks the dear judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError, read_json, write_json
from arena_kit.judging.cascade import CalibratedCascade, Cascade, Tally, Verdicts, rating_gaps
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.verdicts.records import Judgment
from arena_kit.judging.verdicts.settle import to_battles
from arena_kit.runs.record.battles import judges_of
from arena_kit.runs.settings.files import Strict, validated


class CascadeFile(Strict):
    """Which judges a cascade was calibrated on, in which dimension (empty where battles name
    none), and what it did on all battles that it was calibrated on.
    """

    cheap: str
    dear: str
    dimension: str
    cascade: CalibratedCascade
    calibration: Tally

    def write(self, path: Path) -> None:
        """As JSON."""
        write_json(path, self.model_dump(mode="json"))

    @property
    def sentences(self) -> list[str]:
        """What it promises, and for how many calls."""
        one, tally = self.cascade, self.calibration
        promise = (
            f"{self.cheap}, then {self.dear} where the first is unsure: answers agree with people "
            f"on at least {one.target:.0%} of the battles that people decide (shown on {one.n} "
            f"battles: at least {one.agreement_low:.1%}; risk {one.risk:.0%})."
        )
        calls = (
            f"In the calibration it answered {tally.answered:.1%} of the battles decided by people "
            f"and a judge, and asked {self.dear} about {tally.asked:.1%} of all."
        )
        rule = (
            f"A verdict of {self.cheap} is taken from a confidence of {one.take_cheap:.2f} on, one "
            f"of {self.dear} from {one.take_dear:.2f} on; of the rest the cascade abstains."
        )
        return [promise, calls, rule]


def calibrated(
    cheap: BattleLog, dear: BattleLog, people: BattleLog, how: Cascade, dimension: str
) -> CascadeFile:
    """A cascade from one judge's battles to another's, calibrated on people's votes."""
    names = [_only_judge(log, which) for log, which in ((cheap, "cheap"), (dear, "dear"))]
    battles, votes, questions = Verdicts.on_votes(cheap, dear, people)
    cascade = how(battles, votes, questions) if (votes != 0).any() else None
    if cascade is None:
        raise DataError(
            f"no cascade of {names[0]} and {names[1]} can promise {how.target:.0%} agreement on "
            f"{how.coverage:.0%} of the battles, from {int((votes != 0).sum())} that people decided"
        )
    tally = cascade.tally(battles, votes)
    return CascadeFile(
        cheap=names[0], dear=names[1], dimension=dimension, cascade=cascade, calibration=tally
    )


def _only_judge(log: BattleLog, which: str) -> str:
    names = judges_of(log)
    if len(names) != 1:
        raise DataError(f"the {which} judge's battles name {len(names)} judges, not one: {names}")
    return names[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyCascade:
    """A cascade on the pairs of one record: what its cheap judge said, and whom to ask."""

    path: Path
    file: CascadeFile
    battles: Verdicts = field(repr=False)
    place: dict[Pair, int] = field(repr=False)

    @classmethod
    def of(cls, path: Path, judgments: Sequence[Judgment], dear: str) -> ReadyCascade:
        """Refuses other judges and dimensions than those of the calibration: the promise is about
        these alone.
        """
        file = validated(CascadeFile, read_json(path), str(path))
        dimensions = {j.pair.dimension for j in judgments}
        judges = {j.forward.judge_model for j in judgments}
        for what, allowed, came in (
            ("dimension", {file.dimension}, dimensions),
            ("cheap judge", {file.cheap}, judges),
            ("dear judge", {file.dear}, {dear}),
        ):
            if came != allowed:
                raise DataError(
                    f"{path}: calibrated with the {what} {', '.join(sorted(allowed))!r}, but this "
                    f"run has {', '.join(sorted(came))!r}"
                )
        return cls(
            path=path,
            file=file,
            battles=_said(judgments),
            place={judgment.pair: n for n, judgment in enumerate(judgments)},
        )

    def why(self, judgment: Judgment) -> str:
        """Why the dear judge is asked about a pair; empty where it is not."""
        row = np.array([self.place[judgment.pair]])
        asks = self.file.cascade.asks(self.battles.at(row))[0]
        return f"confidence below {self.file.cascade.take_cheap:.2f}" if asks else ""

    def promise(self, asked: Sequence[Judgment], n_pairs: int) -> dict[str, Any]:
        """What is promised of which pairs, once the dear judge has answered."""
        cascade = self.file.cascade
        rows = np.array([self.place[judgment.pair] for judgment in asked])
        told = replace(self.battles.at(rows), dear=_signs(asked))
        abstained = [
            judgment.pair.pair_id
            for judgment, answer in zip(asked, cascade.answers(told).tolist(), strict=True)
            if not answer
        ]
        sentence = (
            f"By the cascade {self.path.name}, {n_pairs - len(abstained)} of {n_pairs} pairs have "
            f"an answer that agrees with people at least {cascade.target:.0%} of the time (risk "
            f"{cascade.risk:.0%}), on pairs like those of the calibration that people decide; of "
            f"{len(abstained)} it abstains."
        )
        return {"file": asdict(cascade), "abstained": abstained, "sentence": sentence}


def _said(judgments: Sequence[Judgment]) -> Verdicts:
    """What the cheap judge says of every pair, with the gap of the two entrants in its ratings."""
    log = to_battles(judgments)
    gaps = dict(zip(zip(log.a.tolist(), log.b.tolist(), strict=True), rating_gaps(log).tolist(),
                    strict=True))  # fmt: skip
    index = {model: n for n, model in enumerate(log.models)}
    signal = [
        gaps.get((index.get(j.pair.entrant_a, -1), index.get(j.pair.entrant_b, -1)), 0.0)
        for j in judgments
    ]
    cheap = _signs(judgments)
    return Verdicts.of(cheap, np.zeros(len(cheap)), signal)


def _signs(judgments: Sequence[Judgment]) -> np.ndarray[Any, np.dtype[np.int_]]:
    """1 where a pair's first entrant wins, -1 where its second does, else 0."""
    return np.array([
        0 if j.winner is None else 1 if j.winner == j.pair.entrant_a else -1 for j in judgments
    ])  # fmt: skip
