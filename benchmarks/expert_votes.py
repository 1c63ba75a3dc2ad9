"""How many of people's votes a choice of battles saves, beside a judge's verdicts on all of them.

    .venv/bin/python benchmarks/expert_votes.py bounds DATA   # on votes of people, and gold labels
    .venv/bin/python benchmarks/expert_votes.py simulated     # with the package's own choice

What `bounds` prints is the number of votes needed, relative to a random choice whose ratings take
no account of verdicts on other battles; DATA has chatbot_arena_27k, mtbench_human_gpt4 and llmbar.

- verdicts known: a vote's residual (about Bradley–Terry) less λ times that of the verdict. The mean
  standard error of ratings, squared, falls with the residual.
- and aimed: battles on which verdicts differ or name no winner are drawn twice as often, and votes
  are weighted by the inverse of the probability (`choose_battles` with `unsure=2`).
- pairs: the design with the least mean standard error of Bradley–Terry (multiplicative algorithm).

`simulated`: eight models, all pairs on 100 or 300 prompts, three judges. Models differ (SD 100
points) and every prompt suits a model more or less (SD 150); judges err on each model (SD 40).
Experts and judges decide by the same gap: `sharpness` 1 is a vote as of Bradley–Terry, 10 one that
hardly depends on chance. Half as many votes on battles that `choose_battles` draws stand against
400 on battles at random; the truth is the population value of Bradley–Terry, without any code of
the package.
"""

import argparse
import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from strata import PROMPT, SKILL, UNIT

from arena_kit import BattleLog, BradleyTerry, Hybrid, read_battles
from arena_kit.battles.battle import A_WINS, B_WINS
from arena_kit.battles.log import Labels
from arena_kit.rating.base import scores
from arena_kit.rating.with_judge.chosen import choose_battles, is_unsure

Floats = NDArray[np.float64]
JUDGES = ("gpt-4-0125-preview", "claude-3-opus-20240229", "gpt-3.5-turbo")
BARS = ("GPT-4", "ChatGPT", "PaLM2")
MODELS, BIAS, VOTES = 8, 40.0, 400


def residuals(log: BattleLog, score: Floats) -> tuple[Floats, Floats]:
    """Scores less their expectation by Bradley–Terry, and what each would move each rating by."""
    design = np.zeros((len(log), len(log.models)))
    design[np.arange(len(log)), log.a] += 1
    design[np.arange(len(log)), log.b] -= 1
    strength = np.zeros(len(log.models))
    for _ in range(30):
        chance = 1 / (1 + np.exp(-design @ strength))
        bread = np.linalg.pinv((design * (chance * (1 - chance))[:, None]).T @ design)
        strength = strength + bread @ (design.T @ (score - chance))
    return score - chance, design @ bread


def by_verdicts(name: str, human: BattleLog, said: Floats) -> None:
    """What verdicts (a column for each judge) save."""
    off, reach = residuals(human, scores(human))
    beside = np.column_stack([residuals(human, each)[0] for each in said.T])
    saved(name, off, beside, said, reach)


def saved(name: str, off: Floats, beside: Floats, said: Floats, reach: Floats) -> None:
    """Print what is left of votes' residuals beside those of the verdicts, by their reach."""
    rest = off - beside @ np.linalg.lstsq(beside, off, rcond=None)[0]
    moved = (np.sqrt(((reach * each[:, None]) ** 2).sum(axis=0)).mean() for each in (rest, off))
    known = float(np.divide(*moved) ** 2)
    unsure = is_unsure(said.mean(axis=1))
    size = np.where(unsure, 2.0, 1.0)
    aimed = size.mean() * (rest**2 / size).mean() / (rest**2).mean()
    print(f"{name}: unsure {unsure.mean():.0%}, verdicts known {known:.3f} of votes, "
          f"and aimed {known * aimed:.3f}")  # fmt: skip


def by_pairs(human: BattleLog, steps: int = 3000) -> None:
    """What other shares of pairs save."""
    n = len(human.models)
    met = np.zeros((n, n))
    np.add.at(met, (human.a, human.b), 1.0)
    upper = np.triu_indices(n, 1)
    now = (met + met.T)[upper]
    rating = BradleyTerry()(human).values(human.models) * np.log(10) / 400
    worth = 1 / (2 + 2 * np.cosh(rating[upper[0]] - rating[upper[1]]))

    def covariance(share: Floats) -> Floats:
        each = np.zeros((n, n))
        each[upper] = share / share.sum() * worth
        each += each.T
        return np.linalg.pinv(np.diag(each.sum(axis=1)) - each)

    def width(share: Floats) -> float:
        return float(np.sqrt(np.diag(covariance(share))).mean())

    share = now / now.sum()
    for _ in range(steps):
        spread = covariance(share)
        slope = spread @ np.diag(1 / np.sqrt(np.diag(spread))) @ spread
        own = np.diag(slope)
        share *= np.sqrt(worth * (own[upper[0]] + own[upper[1]] - 2 * slope[upper]))
        share /= share.sum()
    for name, each in (("all alike", np.ones_like(now)), ("best", share)):
        print(f"pairs, {name}: {(width(each) / width(now)) ** 2:.3f} of votes")


def experts(folder: Path) -> tuple[BattleLog, Floats]:
    """The votes of MT-bench's experts, and GPT-4's mean verdict on the same question and pair."""
    human, judge = (read_battles(folder / f"{name}.csv.gz") for name in ("human", "gpt4_pair"))
    judge, human = judge.sides_in_order(), human.sides_in_order()
    verdicts: dict[tuple[str | None, str, str], list[float]] = {}
    for battle, score in zip(judge.compared(), scores(judge), strict=True):
        verdicts.setdefault(battle, []).append(score)
    known = np.array([battle in verdicts for battle in human.compared()])
    said = np.array([np.mean(verdicts[battle]) for battle in human.select(known).compared()])
    return human.select(known), said[:, None]


@dataclass(frozen=True)
class World:
    """All battles of a bank: what experts would vote, and what three judges said."""

    truth: Floats
    votes: BattleLog
    verdicts: BattleLog

    @classmethod
    def drawn(cls, rng: np.random.Generator, prompts: int, sharpness: float) -> "World":
        first, second = np.triu_indices(MODELS, 1)
        skill = rng.normal(0, SKILL, MODELS)
        suits = skill + rng.normal(0, PROMPT, (prompts, MODELS))

        def decided(rating: Floats) -> BattleLog:
            gap = (rating[:, first] - rating[:, second]).ravel()
            won = rng.random(len(gap)) < 1 / (1 + np.exp(-sharpness * gap / UNIT))
            asked = np.repeat(np.arange(prompts), len(first))
            return BattleLog(
                models=tuple(f"m{i}" for i in range(MODELS)),
                a=np.tile(first, prompts).astype(np.int32),
                b=np.tile(second, prompts).astype(np.int32),
                outcome=np.where(won, A_WINS, B_WINS).astype(np.int8),
                question_id=Labels.of(f"q{i:03}" for i in asked),
            )

        judged = suits + rng.normal(0, BIAS, MODELS)
        verdicts = BattleLog.joined(*(decided(judged) for _ in range(3)))
        return cls(population(skill, sharpness), decided(suits), verdicts)

    def random(self, rng: np.random.Generator, n: int) -> Floats:
        """Lower and upper ends by votes on battles at random."""
        votes = self.votes.select(rng.choice(len(self.votes), n, replace=False))
        return self._ends(votes, None)

    def chosen(self, rng: np.random.Generator, n: int) -> Floats:
        """Lower and upper ends by votes on chosen battles."""
        drawn = choose_battles(self.verdicts, n, seed=int(rng.integers(2**32)))
        asked = {*drawn.compared()}
        rows = [each in asked for each in self.votes.compared()]
        return self._ends(self.votes.select(rows), drawn)

    def _ends(self, votes: BattleLog, drawn: BattleLog | None) -> Floats:
        found = Hybrid(min_battles=1)(votes, self.verdicts, drawn).ratings
        rows = sorted(found.ratings, key=lambda row: row.model)
        return np.array([(row.ci_low, row.ci_high) for row in rows], float).T - 1000


def population(rating: Floats, sharpness: float) -> Floats:
    """The Bradley–Terry fit to the expected scores of all pairs, centred."""
    nodes, weight = np.polynomial.hermite_e.hermegauss(101)
    gap = (rating[:, None] - rating)[..., None] + np.sqrt(2) * PROMPT * nodes
    expected = (1 / (1 + np.exp(-sharpness * gap / UNIT))) @ (weight / weight.sum())
    found = rating / UNIT
    for _ in range(80):
        p = 1 / (1 + np.exp(found[None] - found[:, None]))
        curve = p * (1 - p)
        np.fill_diagonal(curve, 0)
        bend = np.diag(curve.sum(axis=1)) - curve + 1 / len(found)
        found = found + np.linalg.solve(bend, (expected - p).sum(axis=1))
    return UNIT * (found - found.mean())


def simulated(worlds: int, seed: int) -> None:
    """Coverage and width of the hybrid board by 400 votes at random, and by 200 and 400 chosen."""
    print("prompts sharpness   400 at random   200 chosen       400 chosen      (cover %, width)")
    for prompts, sharpness in ((100, 1), (100, 3), (100, 10), (300, 1), (300, 3), (300, 10)):
        rng = np.random.default_rng([seed, prompts, sharpness])
        rows = []
        for _ in range(worlds):
            world = World.drawn(rng, prompts, sharpness)
            ways = (
                world.random(rng, VOTES),
                world.chosen(rng, VOTES // 2),
                world.chosen(rng, VOTES),
            )
            held = [
                100 * np.mean((low <= world.truth) & (world.truth <= high)) for low, high in ways
            ]
            rows.append([held, [np.mean(high - low) for low, high in ways]])
        held, width = np.mean(rows, axis=0)
        each = "   ".join(f"{c:7.1f} {w:5.0f}" for c, w in zip(held, width, strict=True))
        print(f"{prompts:7} {sharpness:9}   {each}", flush=True)


def gold(folder: Path) -> None:
    """What verdicts of GPT-4, ChatGPT and PaLM2 (both orders) save on LLMBar's gold labels."""
    with gzip.open(folder / "judge_verdicts.csv.gz", "rt", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["prompting"] == "Vanilla"]
    cases: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        both = (row["winner_original_order"], row["winner_swapped_order"])
        right = sum(each == row["gold"] for each in both) / 2
        cases.setdefault((row["subset"], row["idx"]), {})[row["judge"]] = right
    whole = [key for key, each in cases.items() if {*BARS} <= {*each} and "Case" not in key[0]]
    natural = [key for key in whole if "Natural" in key[0]]
    for name, keys in (("all", whole), ("natural", natural)):
        correct = np.array([[cases[key][judge] for judge in BARS] for key in keys])
        side = np.random.default_rng(0).choice([-1.0, 1.0], len(keys))  # of the better response
        off, beside, alike = side / 2, side[:, None] * (correct - 0.5), np.ones((len(keys), 1))
        saved(f"LLMBar, {name} {len(keys)}, GPT-4", off, beside[:, :1], correct[:, :1], alike)
        saved(f"LLMBar, {name} {len(keys)}, three judges", off, beside, correct, alike)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("bounds", "simulated"))
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=30)
    given = parser.parse_args()
    if given.what == "simulated":
        simulated(given.worlds, given.seed)
        return
    file = given.data / "chatbot_arena_27k" / "battles.csv.gz"
    human = read_battles(file, winner="human")
    said = np.column_stack([scores(read_battles(file, winner=name)) for name in JUDGES])
    by_verdicts("27k votes, GPT-4", human, said[:, :1])
    by_verdicts("27k votes, three judges", human, said)
    by_verdicts("MT-bench's experts, GPT-4", *experts(given.data / "mtbench_human_gpt4"))
    gold(given.data / "llmbar")
    by_pairs(human)


if __name__ == "__main__":
    main()
