"""Can a judge stand in for people when a model is placed? Measured on 26,919 human votes.

    .venv/bin/python benchmarks/placement_27k.py [DATA]

DATA is the folder that holds chatbot_arena_27k (default: $ARENA_KIT_DATA, else ../shared/data).
Each of the 20 models in turn has its human votes hidden and is placed by a judge's verdicts on the
same battles. The error is the placed rating minus the rating by the hidden votes; an interval
covers when it holds that rating. The last two columns add the judge's error on the other models.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arena_kit import BattleLog, BradleyTerry, read_battles
from arena_kit.battles.battle import Source
from arena_kit.rating.with_judge.placement import Placed, Placement

JUDGES = ("gpt-4-0125-preview", "claude-3-opus-20240229", "gpt-3.5-turbo")
METHOD = BradleyTerry()  # sandwich intervals: the bootstrap's are the same, slower


@dataclass(frozen=True)
class Outcome:
    """One model, placed."""

    error: float
    half_width: float
    half_width_cautious: float
    covered: bool
    covered_cautious: bool
    ranks_off: int


def outcome(placed: Placed) -> Outcome:
    """How far the placed rating is from the one by hidden votes."""
    mine, hidden = placed.joint[placed.model], placed.hidden
    if hidden is None or mine.ci_low is None or mine.ci_high is None:
        raise ValueError(f"{placed.model} cannot be compared")
    error = mine.rating - hidden.rating
    wide = placed.cautious or mine
    others = np.array([r.rating for r in placed.human.ratings])
    off = int((others > mine.rating).sum()) - int((others > hidden.rating).sum())
    return Outcome(
        error=error,
        half_width=(mine.ci_high - mine.ci_low) / 2,
        covered=mine.ci_low <= hidden.rating <= mine.ci_high,
        covered_cautious=(wide.ci_low or 0) <= hidden.rating <= (wide.ci_high or 0),
        half_width_cautious=((wide.ci_high or 0) - (wide.ci_low or 0)) / 2,
        ranks_off=abs(off),
    )


def line(judge: str, soft: bool, found: list[Outcome], worth: float) -> str:
    """One row of the table."""
    errors = np.array([each.error for each in found])
    return (
        f"| {judge} | {'toned down' if soft else 'in full'} | {worth:.2f} "
        f"| {np.sqrt(np.mean(errors**2)):.1f} | {np.abs(errors).max():.0f} | {errors.mean():+.1f} "
        f"| {np.mean([f.ranks_off for f in found]):.2f} "
        f"| {np.mean([f.half_width for f in found]):.1f} "
        f"| {100 * np.mean([f.covered for f in found]):.0f} % "
        f"| {np.mean([f.half_width_cautious for f in found]):.1f} "
        f"| {100 * np.mean([f.covered_cautious for f in found]):.0f} % |"
    )


def main() -> None:
    """Print the table, judge by judge."""
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ARENA_KIT_DATA")
    folder = Path(given or Path(__file__).parent.parent.parent / "shared" / "data")
    file = folder / "chatbot_arena_27k" / "battles.csv.gz"
    human = read_battles(file, winner="human").of_source(Source.HUMAN)
    columns = "judge verdicts worth RMS largest mean ranks ± covers ±judge covers".split()
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for judge in JUDGES:
        judged = read_battles(file, winner=judge).of_source(Source.LLM_JUDGE, judge)
        for soft in (False, True):
            print(row(judge, human, judged, soft=soft), flush=True)


def row(judge: str, human: BattleLog, judged: BattleLog, *, soft: bool) -> str:
    """Place all models by one judge."""
    placed = [
        Placement(model=model, soft=soft, method=METHOD)(human, judged) for model in human.models
    ]
    worths = [1.0 if each.calibration is None else each.calibration.worth for each in placed]
    return line(judge, soft, [outcome(each) for each in placed], float(np.mean(worths)))


if __name__ == "__main__":
    main()
