"""Several judges as one: what a panel is worth, on real verdicts and on simulated ones.

    ARENA_KIT_DATA=... python benchmarks/panels.py
    python benchmarks/panels.py --simulated --worlds 400

On 26,919 battles that people voted on: how often a panel of GPT-4, Claude and GPT-3.5, and each
judge alone, agrees with people where both name a winner, how many battles it leaves without one,
and how its Bradley–Terry ratings correlate with people's. Then the effective number of judges there
and in LLMFAO (GPT-4 and GPT-3.5).

Simulated judges share a part of their draws, so that the correlation of their residuals is known,
and have skills of the models of their own (SD in points). Printed are the effective number that
was planted, the mean that was found, how often the interval holds it, and how often the 95 %
interval from all judges but one holds the rating by that one on the same questions: for
`judges="like_these"` and for `judges="these"`.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from arena_kit import BattleLog, BradleyTerry, read_battles
from arena_kit.battles.battle import Source
from arena_kit.battles.log import Labels
from arena_kit.battles.readers.format import Columns
from arena_kit.judging.quality.agreement import agreement, matched, panel, verdicts
from arena_kit.rating.base import Ratings
from arena_kit.rating.bradley_terry.likelihood import Floats

SEED = 83
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


def llmfao(which: str) -> BattleLog:
    """The verdicts of GPT-4 and of GPT-3.5 on the same pairs."""
    sides = {"left": "model_a", "right": "model_b"}
    columns = Columns(model_a="left", model_b="right", question="prompt", values=sides)
    files = {"gpt-4": f"gpt4-{which}.csv.gz", "gpt-3.5-turbo": f"gpt3-{which}.csv.gz"}
    logs = {judge: read_battles(DATA / "llmfao" / f, columns=columns) for judge, f in files.items()}
    return BattleLog.joined(*(log.of_source(Source.LLM_JUDGE, j) for j, log in logs.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Jury:
    """Judges who decide every pair of models on every question."""

    number: int
    judges: int
    models: int
    questions: int
    shared: float
    spread: float = 0.0

    @property
    def title(self) -> str:
        """What a row of the table is called."""
        return (
            f"{self.judges} judges, {self.models} models × {self.questions} questions, "
            f"shared {self.shared:g}, own skills {self.spread:g}"
        )

    def world(self, world: int) -> tuple[BattleLog, float]:
        """A log, and the mean correlation of the residuals of two judges."""
        rng = np.random.default_rng([SEED, self.number, world])
        pairs = np.stack(np.triu_indices(self.models, 1)).astype(np.int32)
        question = np.repeat(np.arange(self.questions, dtype=np.int32), pairs.shape[1])
        a, b = np.tile(pairs, self.questions)
        skill = rng.normal(0, 100, self.models)
        skill = skill + rng.normal(0, self.spread, (self.judges, self.models))
        p = 1 / (1 + 10 ** ((skill[:, b] - skill[:, a]) / 400))
        common = rng.random(p.shape) < np.sqrt(self.shared)
        won = np.where(common, rng.random(len(a)), rng.random(p.shape)) < p
        judge = np.repeat(np.arange(self.judges, dtype=np.int32), len(a))
        log = BattleLog(
            models=tuple(f"m{i:02d}" for i in range(self.models)),
            a=np.tile(a, self.judges), b=np.tile(b, self.judges),
            outcome=np.where(won, 0, 1).astype(np.int8).ravel(),
            question_id=Labels(np.array([f"q{i:04d}" for i in range(self.questions)], object),
                               np.tile(question, self.judges)),
            judge_model=Labels(np.array([f"j{i}" for i in range(self.judges)], object), judge),
        )  # fmt: skip
        return log, self.shared * _comonotone(p)


def _comonotone(p: Floats) -> float:
    """The mean correlation of two judges' verdicts that are decided by the same draws."""
    size = np.sqrt((p * (1 - p)).sum(axis=1))
    found = [
        (np.minimum(p[i], p[j]) - p[i] * p[j]).sum() / (size[i] * size[j])
        for i, j in zip(*np.triu_indices(len(p), 1), strict=True)
    ]
    return float(np.mean(found))


JURIES = (
    Jury(number=1, judges=6, models=8, questions=80, shared=0.33),
    Jury(number=2, judges=6, models=8, questions=80, shared=0.46, spread=40),
    Jury(number=3, judges=6, models=8, questions=30, shared=0.1, spread=40),
    Jury(number=4, judges=4, models=6, questions=60, shared=0.6, spread=60),
    Jury(number=5, judges=2, models=6, questions=60, shared=0.4, spread=20),
)


def held(log: BattleLog, last: int) -> list[list[bool]]:
    """Whether intervals from all judges but the last hold its ratings, model by model: those for a
    further judge, and for these judges.
    """
    alone = np.asarray(log.judge_model and log.judge_model.codes == last)
    further, others = BradleyTerry()(log.select(alone)), log.select(~alone)
    boards = [BradleyTerry(judges=each)(others) for each in ("like_these", "these")]
    return [
        [(row.ci_low or 0) <= further[row.model].rating <= (row.ci_high or 0) for row in b.ratings]
        for b in boards
    ]


def simulated(worlds: int) -> None:
    """Print a row per jury."""
    print(f"\n{worlds} worlds a row, seed {SEED}; a further judge: share of ratings held, in %.\n")
    print("| jury | planted | found | interval holds, % | further judge: like_these, these |")
    print("| --- | --- | --- | --- | --- |")
    for jury in JURIES:
        k, planted, found, holds, kept = jury.judges, [], [], [], []
        for world in range(worlds):
            log, correlation = jury.world(world)
            fit = BradleyTerry()(log).fit
            planted.append(k / (1 + (k - 1) * correlation))
            found.append(fit["judges_effective"])
            low, high = fit["judges_effective_low"], fit["judges_effective_high"]
            holds.append(low <= planted[-1] <= high)
            kept += [held(log, k - 1)] if k > 3 else []
        further = [
            f"{100 * np.mean([each[n] for each in kept]):.1f}" if kept else "–" for n in (0, 1)
        ]
        print(f"| {jury.title} | {np.mean(planted):.2f} | {np.mean(found):.2f} | "
              f"{100 * np.mean(holds):.1f} | {', '.join(further)} |", flush=True)  # fmt: skip


def real() -> None:
    """Print what judges of real battles are worth."""
    people, judged = read()
    method = BradleyTerry()
    human = method(people)
    for name, log in zip(JUDGES, judged, strict=True):
        show(name, log, people, method(log), human)
    every = BattleLog.joined(*judged)
    majority = panel(every).battles
    show("majority", majority, people, method(majority), human)
    pooled = method(every)
    told = f"correlation of ratings with people's {correlation(pooled, human):.3f}"
    print(f"{'pooled':32} {told}\n\n27k battles: {pooled.notes[-2]}")
    for which in ("crowd-comparisons", "comparisons"):
        print(f"LLMFAO, {which}: {method(llmfao(which)).notes[-2]}")


def main() -> None:
    """Print the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--simulated", action="store_true", help="leave the real verdicts out")
    parser.add_argument("--worlds", type=int, default=400)
    options = parser.parse_args()
    if not options.simulated:
        real()
    simulated(options.worlds)


if __name__ == "__main__":
    main()
