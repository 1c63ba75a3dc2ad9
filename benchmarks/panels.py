"""Several judges as one, on 26,919 battles that people voted on: GPT-4, Claude and GPT-3.5.

    ARENA_KIT_DATA=... python benchmarks/panels.py

Prints how often a panel, and each judge alone, agrees with people where both name a winner, how
many battles it leaves without one, and how its Bradley–Terry ratings correlate with people's.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from arena_kit import BattleLog, BradleyTerry, read_battles
from arena_kit.battles.battle import Source
from arena_kit.battles.log import Labels
from arena_kit.judging.quality.agreement import agreement, matched, verdicts
from arena_kit.judging.quality.panel import panel
from arena_kit.rating.base import Ratings

DATA = Path(os.environ.get("ARENA_KIT_DATA", Path(__file__).parents[2] / "shared" / "data"))
JUDGES = ("gpt-4-0125-preview", "claude-3-opus-20240229", "gpt-3.5-turbo")


def read() -> tuple[BattleLog, list[BattleLog]]:
    """People's votes and each judge's verdicts; of nine questions that come twice, one battle."""
    file = DATA / "chatbot_arena_27k" / "battles.csv.gz"
    people = read_battles(file, winner="human").of_source(Source.HUMAN)
    once = np.unique(people.clusters(), return_index=True)[1]
    judged = []
    for name in JUDGES:
        log = read_battles(file, winner=name).of_source(Source.LLM_JUDGE)
        judged.append(replace(log, judge_model=Labels.of([name] * len(log))).select(once))
    return people.select(once).sides_in_order(), judged


def correlation(rated: Ratings, human: Ratings) -> float:
    """Pearson's correlation of two sets of ratings."""
    ratings = [[each[model].rating for model in human.models] for each in (rated, human)]
    return float(np.asarray(np.corrcoef(ratings))[0, 1])


def show(name: str, log: BattleLog, people: BattleLog, rated: Ratings, human: Ratings) -> None:
    mine = log.sides_in_order()
    i, j = matched(mine, people)
    found = agreement(verdicts(mine)[i], verdicts(people)[j], ties="left out").rate
    open_ones = int((verdicts(mine) == 1).sum())
    print(
        f"{name:32} {found} of {found.n} battles; without a winner {open_ones}; "
        f"correlation of ratings with people's {correlation(rated, human):.3f}"
    )


def main() -> None:
    people, judged = read()
    method = BradleyTerry()
    human = method(people)
    for name, log in zip(JUDGES, judged, strict=True):
        show(name, log, people, method(log), human)
    every = BattleLog.joined(*judged)
    majority = panel(every).battles
    show("majority", majority, people, method(majority), human)
    pooled = correlation(method(every), human)
    print(f"{'pooled':32} correlation of ratings with people's {pooled:.3f}")


if __name__ == "__main__":
    main()
