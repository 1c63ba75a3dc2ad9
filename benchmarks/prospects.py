"""Is what forecasts expect to be decided decided as often? Simulated, from pilot to run.

    .venv/bin/python benchmarks/prospects.py cost        # 300 worlds per setting
    .venv/bin/python benchmarks/prospects.py power       # 400 worlds per setting

Models of normal skills meet on every question, which each suit some of them (an effect of 150 Elo
unless said otherwise); a pilot sees the first questions. Said is the mean chance of all neighbours
of the pilot's ranking, came the share of them that the run decides; then both where the chance was
said to be in a range. A run may judge the pilot's questions, too, or others only.

`power`: of every pilot, one open order of those that a board gives a number of further prompts for,
at random. Asked for a power of 50 and of 70 %, came is the share of them that the pilot and so many
further prompts decide, given the share of open orders within reach.

Before `cost`, design effects of judged sets in $ARENA_KIT_DATA (default ../shared/data): variances
of neighbours' gaps, clustered by question, relative to as many independent battles of even models.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from itertools import pairwise
from math import log as ln
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from arena_kit import BattleLog, BradleyTerry, RatingError, claims, read_battles
from arena_kit.battles.log import Labels
from arena_kit.rating.base import Ratings
from arena_kit.rating.claims.power import (
    Meetings,
    covariance,
    gap_variance,
    information,
    prospects,
)

Floats = NDArray[np.float64]

SEED = 27182
EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A pilot and a run: how many models, on how many questions each, and of what spread."""

    number: int
    models: int
    pilot: int
    run: int
    repeats: bool = True
    skills: float = 120.0
    effect: float = 150.0

    @property
    def title(self) -> str:
        """What a row of the table is called."""
        which = "the same and more" if self.repeats else "others"
        effect = "" if self.effect else ", no question effects"
        return (
            f"{self.models} models (SD {self.skills:.0f}), {self.pilot} then {self.run} questions, "
            f"{which}{effect}"
        )

    @property
    def pilot_title(self) -> str:
        """What a row is called where only the pilot is given."""
        return self.title.partition(" then")[0] + f" prompts, effects of {self.effect:.0f}"


SETTINGS = (
    Setting(number=1, models=4, pilot=50, run=143, skills=150),
    Setting(number=2, models=6, pilot=20, run=100),
    Setting(number=3, models=6, pilot=20, run=100, repeats=False),
    Setting(number=4, models=8, pilot=30, run=200, effect=0),
    Setting(number=5, models=12, pilot=30, run=100),
    Setting(number=6, models=6, pilot=50, run=150, skills=40),
)


#: Pilots behind the forecasts of a board, and the power that is asked for.
POWER = (
    Setting(number=11, models=2, pilot=40, run=0, skills=100),
    Setting(number=12, models=4, pilot=30, run=0, skills=100),
    Setting(number=13, models=6, pilot=20, run=0, skills=100),
    Setting(number=14, models=8, pilot=20, run=0, skills=100, effect=75),
    Setting(number=15, models=12, pilot=15, run=0, skills=100),
)
ASKED = (0.5, 0.7)


def battles(setting: Setting, rng: np.random.Generator) -> tuple[BattleLog, BattleLog]:
    """The battles of a pilot and of the run after it."""
    total = setting.run if setting.repeats else setting.pilot + setting.run
    log = judged(setting, rng.normal(0, setting.skills, setting.models), range(total), rng)
    first = log.clusters() < setting.pilot
    return log.select(first), log if setting.repeats else log.select(~first)


def judged(
    setting: Setting, skill: Floats, questions: range, rng: np.random.Generator
) -> BattleLog:
    """The battles of all models on some questions."""
    n, total = setting.models, len(questions)
    pairs = np.stack(np.triu_indices(n, 1)).astype(np.int32)
    question, pair = np.divmod(np.arange(total * pairs.shape[1]), pairs.shape[1])
    level = skill + rng.normal(0, setting.effect, (total, n))
    a, b = pairs[:, pair]
    p = 1 / (1 + 10 ** ((level[question, b] - level[question, a]) / 400))
    tie, u = 1.4 * p * (1 - p), rng.random(len(p))
    outcome = np.select([u < p - tie / 2, u < p + tie / 2], [0, 2], 1).astype(np.int8)
    labels = Labels(np.array([f"q{i:05d}" for i in questions], object), question.astype("i4"))
    return BattleLog(
        models=tuple(f"m{i:02d}" for i in range(n)), a=a, b=b, outcome=outcome, question_id=labels
    )


def asked_and_came(setting: Setting, worlds: int) -> tuple[dict[float, Floats], list[float]]:
    """Whether so many further prompts decided an order, by the power that was asked for, of every
    world that has one within reach; and the shares of open orders that are.
    """
    came: dict[float, list[bool]] = {power: [] for power in ASKED}
    reach: dict[float, list[bool]] = {power: [] for power in ASKED}
    for world in range(worlds):
        rng = np.random.default_rng([SEED, setting.number, world])
        skill = rng.normal(0, setting.skills, setting.models)
        pilot = judged(setting, skill, range(setting.pilot), rng)
        before = BradleyTerry()(pilot)
        for power in ASKED:
            waiting = [p for p in claims.neighbours(before, power=power) if p.state == "unresolved"]
            reach[power] += [bool(pair.prompts) for pair in waiting]
            if within := [pair for pair in waiting if pair.prompts]:
                pair = within[rng.integers(len(within))]
                more = range(setting.pilot, setting.pilot + (pair.prompts or 0))
                after = BradleyTerry()(BattleLog.joined(pilot, judged(setting, skill, more, rng)))
                at = after.models.index(pair.above), after.models.index(pair.below)
                clear = claims.decided(after)
                came[power].append(bool(clear[at] or clear[at[::-1]]))
    shares = [float(np.mean(each or [0])) for each in reach.values()]
    return {power: np.array(each, float) for power, each in came.items()}, shares


def print_power(worlds: int) -> None:
    """Print the table of forecasts of a board."""
    print(f"{worlds} worlds per setting, seed {SEED}; in %.\n")
    print("| models, pilot | asked 50: came | within reach | asked 70: came | within reach |")
    print("| --- | --- | --- | --- | --- |")
    every: dict[float, list[float]] = {power: [] for power in ASKED}
    for setting in POWER:
        came, reach = asked_and_came(setting, worlds)
        cells = [setting.pilot_title]
        for power, share in zip(ASKED, reach, strict=True):
            every[power].extend(came[power])
            cells += [_share(came[power]), f"{100 * share:.0f}"]
        print(f"| {' | '.join(cells)} |", flush=True)
    fifty, seventy = (_share(np.array(each)) for each in every.values())
    print(f"| all | {fifty} | | {seventy} | |")


def _share(came: Floats) -> str:
    """A share with its Monte-Carlo error."""
    if not len(came):
        return "–"
    return f"{100 * came.mean():.1f} ± {100 * came.std() / np.sqrt(len(came)):.1f}"


def said_and_came(setting: Setting, worlds: int, seed: int = SEED) -> tuple[Floats, Floats]:
    """The chance of every two neighbours of each pilot, and whether the run decided them."""
    said, came = [], []
    every = 1.0 - np.eye(setting.models)
    meetings = Meetings(
        earlier=setting.pilot * every,
        planned=setting.run * every,
        repeated=setting.pilot * setting.repeats * every,
        questions=setting.run,
    )
    for world in range(worlds):
        pilot, run = battles(setting, np.random.default_rng([seed, setting.number, world]))
        try:
            before, after = BradleyTerry()(pilot), BradleyTerry()(run)
        except RatingError:  # a world in which one model never lost
            continue
        clear = claims.decided(after)
        for pair in prospects(before, meetings):
            at = after.models.index(pair.above), after.models.index(pair.below)
            said.append(pair.chance)
            came.append(clear[at] or clear[at[::-1]])
    return np.array(said), np.array(came, float)


def design_effects(ratings: Ratings, met: Floats) -> str:
    """The least, the median and the largest of all neighbours."""
    plain, errors = covariance(information(met / 4)), claims.gap_errors(ratings) * ln(10) / 400
    places = pairwise([ratings.models.index(model) for model in ratings.order])
    found = [errors[i, j] ** 2 / gap_variance(plain, i, j) for i, j in places]
    return f"{min(found):.1f} to {max(found):.1f}, median {np.median(found):.1f}"


def print_design_effects(data: Path) -> None:
    """Design effects of QLoRA's and of MT-bench's verdicts by GPT-4, where they are there."""
    from adaptive import qlora, rated

    if (data / "qlora_gpt4_judge" / "verdicts.csv.gz").is_file():
        verdicts = qlora()
        every = verdicts.shares.shape[1] * (1.0 - np.eye(len(verdicts.models)))
        told = design_effects(rated(verdicts, verdicts.possible), every)
        print(f"design effects, QLoRA (7 models, 953 questions): {told}")
    if (file := data / "mtbench_human_gpt4" / "gpt4_pair.csv.gz").is_file():
        log = read_battles(file)
        met = np.zeros((len(log.models),) * 2)
        np.add.at(met, (log.a, log.b), 1.0)
        told = design_effects(BradleyTerry()(log), met + met.T)
        print(f"design effects, MT-bench (6 models, 80 questions, two turns each): {told}")
    print()


def main() -> None:
    """Print the design effects and the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["cost", "power"], nargs="?", default="cost")
    parser.add_argument("--worlds", type=int, default=0)
    options = parser.parse_args()
    if options.what == "power":
        print_power(options.worlds or 400)
        return
    worlds = options.worlds or 300
    print_design_effects(Path(os.environ.get("ARENA_KIT_DATA", "../shared/data")))
    print(f"{worlds} worlds per setting, seed {SEED}; in %: said, came.\n")
    ranges = [f"{100 * low:.0f}–{min(100, 100 * high):.0f}" for low, high in pairwise(EDGES)]
    for row in (["setting", "all neighbours", *ranges], ["---"] * (len(EDGES) + 1)):
        print(f"| {' | '.join(row)} |")
    for setting in SETTINGS:
        said, came = said_and_came(setting, worlds)
        cells = [setting.title, f"{100 * said.mean():.0f}, {100 * came.mean():.0f}"]
        for low, high in pairwise(EDGES):
            some = (low <= said) & (said < high)
            few = some.sum() < 20
            cells.append(
                "–" if few else f"{100 * said[some].mean():.0f}, {100 * came[some].mean():.0f}"
            )
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
