"""Do boards per stratum hold, and what does partial pooling gain? Simulated, with the truth known.

    .venv/bin/python benchmarks/strata.py                  # coverage and width, 400 studies a row
    .venv/bin/python benchmarks/strata.py odd              # one cell that differs
    .venv/bin/python benchmarks/strata.py forecasts        # do promised prompts decide first place?
    .venv/bin/python benchmarks/strata.py mtbench DATA     # held-out log loss on MT-bench's experts

Eight strata; on each prompt of a stratum all pairs of models meet once. A model's rating in a
stratum is its own (SD 100 points) plus a deviation (SD: the spread), and every prompt suits a model
more or less (SD 150). The truth is the population value of Bradley–Terry: its fit to the expected
scores of all pairs, without any code of the package.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import product
from math import ceil
from math import log as ln
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from arena_kit import BattleLog, BradleyTerry, read_battles
from arena_kit.battles.battle import A_WINS, B_WINS
from arena_kit.battles.log import Labels
from arena_kit.rating.base import scores
from arena_kit.rating.strata import Strata, by_stratum

Floats = NDArray[np.float64]
UNIT = 400 / ln(10)
SKILL, PROMPT = 100.0, 150.0
STRATA = 8
MOST = 20  # times a stratum's prompts up to which forecasts are followed
#: Models, prompts per stratum, spread in points.
ROWS = [(m, q, spread) for m, q in ((6, 10), (10, 30)) for spread in (0, 30, 40, 80)]


def population(rating: Floats) -> Floats:
    """The Bradley–Terry fit to the expected scores of all pairs, centred."""
    nodes, weight = np.polynomial.hermite_e.hermegauss(41)
    gap = (rating[:, None] - rating)[..., None] + np.sqrt(2) * PROMPT * nodes
    expected = (1 / (1 + np.exp(-gap / UNIT))) @ (weight / weight.sum())
    found = rating / UNIT
    for _ in range(60):
        p = 1 / (1 + np.exp(found[None] - found[:, None]))
        curve = p * (1 - p)
        np.fill_diagonal(curve, 0)
        bend = np.diag(curve.sum(axis=1)) - curve + 1 / len(found)
        found = found + np.linalg.solve(bend, (expected - p).sum(axis=1))
    return UNIT * (found - found.mean())


def study(
    rng: np.random.Generator,
    models: int,
    prompts: int,
    spread: float,
    odd: float = 0,
    skill: Floats | None = None,
    strata: int = STRATA,
) -> tuple[BattleLog, Floats]:
    """The battles of one study, and the true rating of each model in each stratum."""
    rating = levels(rng, models, spread, skill, strata)
    rating[0, 0] += odd
    return judged(rng, rating, [prompts] * strata), np.array([population(r) for r in rating])


def levels(
    rng: np.random.Generator, models: int, spread: float, skill: Floats | None, strata: int
) -> Floats:
    """What each model can do in each stratum."""
    skill = rng.normal(0, SKILL, models) if skill is None else skill
    return np.asarray(skill + rng.normal(0, spread, (strata, models)))


def judged(
    rng: np.random.Generator, rating: Floats, prompts: Sequence[int], name: str = "q"
) -> BattleLog:
    """The battles of so many prompts in each stratum."""
    strata, models = rating.shape
    first, second = np.triu_indices(models, 1)
    stratum = np.repeat(np.arange(strata), prompts)
    n, each = len(stratum), len(first)
    suits = rating[stratum] + rng.normal(0, PROMPT, (n, models))
    gap = suits[:, first] - suits[:, second]
    won = rng.random(gap.shape) < 1 / (1 + np.exp(-gap / UNIT))
    return BattleLog(
        models=tuple(f"m{i:02}" for i in range(models)),
        a=np.tile(first, n).astype(np.int32),
        b=np.tile(second, n).astype(np.int32),
        outcome=np.where(won.ravel(), A_WINS, B_WINS).astype(np.int8),
        question_id=Labels.of(f"{name}{i:05}" for i in np.repeat(np.arange(n), each)),
        strata={"subject": Labels.of(f"s{s}" for s in np.repeat(stratum, each))},
    )


def separate(log: BattleLog) -> float:
    """The mean width of 95 % intervals where each stratum is rated by itself."""
    labels = (log.strata or {})["subject"]
    width = []
    for code in range(len(labels.names)):
        rated = BradleyTerry()(log.select(labels.codes == code)).ratings
        width += [r.ci_high - r.ci_low for r in rated if None not in (r.ci_low, r.ci_high)]
    return float(np.mean(width))


def each_alone(log: BattleLog, found: Strata) -> Floats:
    """The ratings of each stratum by itself."""
    labels = (log.strata or {})[found.axis]
    parts = (log.select(labels.codes == code) for code in range(len(labels.names)))
    return np.array([BradleyTerry()(part).values(found.models) for part in parts])


def is_false(found: Strata, truth: Floats) -> bool:
    """Whether any decided order is not the true one."""
    return bool(np.any(found.decided & (truth[:, :, None] < truth[:, None, :])))


def coverage(studies: int, seed: int) -> None:
    """The table of coverage, width and false claims."""
    print("models prompts spread  cover % width  alone ratio  false boards %  differ %  named %")
    for models, prompts, spread in ROWS:
        rng = np.random.default_rng([seed, models, prompts, spread])
        rows = []
        for n in range(studies):
            log, truth = study(rng, models, prompts, spread)
            found = by_stratum(log, "subject")
            off = truth + 1000
            alone = separate(log) if n < studies / 8 else np.nan
            rows.append(
                (100 * np.mean((found.low <= off) & (off <= found.high)),
                 np.mean(found.high - found.low), alone, 100 * is_false(found, truth),
                 100 * (found.p_equal < 0.05), 100 * bool(found.deviations))
            )  # fmt: skip
        cover, width, alone, false, differ, named = np.nanmean(rows, axis=0)
        print(f"{models:6} {prompts:7} {spread:6}  {cover:7.1f} {width:5.0f}  {alone:5.0f} "
              f"{width / alone:5.2f}  {false:14.1f} {differ:9.1f} {named:8.1f}",
              flush=True)  # fmt: skip


def odd_cell(studies: int, seed: int) -> None:
    """How often one cell that differs is named, what an oracle would name that knows its standard
    error (and the cell), and how often others are named where none differs.
    """
    print("models prompts  odd  on the board  named %  oracle %  oracle, this cell %  "
          "covered alone %  others named %")  # fmt: skip
    for models, prompts, odd in product((6, 10), (10, 30), (150, 225)):
        rng = np.random.default_rng([seed, models, prompts, odd])
        rows = []
        for _ in range(studies):
            log, truth = study(rng, models, prompts, 0, odd=odd)
            found = by_stratum(log, "subject")
            named = {(each.model, each.stratum) for each in found.deviations}
            off = truth[0, 0] - truth[1:, 0].mean()
            cells = {(each.model, each.stratum): each for each in found.deviations}
            cell = cells.get(("m00", "s0"))
            held = np.nan if cell is None else cell.low <= off <= cell.high
            seen = found.alone[0, 0] - found.alone[1:, 0].mean()
            others = any(m != "m00" and s != "s0" for m, s in named)
            rows.append((off, 100 * (cell is not None), 100 * held, 100 * others, seen - off))
        off, share, held, others, _ = np.nanmean(np.array(rows, float), axis=0)
        z = off / np.std([row[-1] for row in rows])
        bars = ndtri(1 - 0.025 / np.array([STRATA * models, 1]))
        family, alone = 100 * ndtr(z - bars)
        print(f"{models:6} {prompts:7} {odd:4} {off:13.0f} {share:8.1f} {family:9.1f} "
              f"{alone:20.1f} {held:16.1f} {others:15.1f}", flush=True)  # fmt: skip


def forecasts(studies: int, seed: int) -> None:
    """How often the prompts that are said to decide first place in a stratum with 50 % power do."""
    print("models prompts spread  forecasts  median prompts  decided %")
    for models, prompts, spread in ROWS:
        rng = np.random.default_rng([seed, models, prompts, spread])
        sizes, held = [], []
        for _ in range(studies):
            rating = levels(rng, models, spread, None, STRATA)
            log = judged(rng, rating, [prompts] * STRATA)
            found = by_stratum(log, "subject")
            if not 0 < found.more[0] <= MOST * prompts:
                continue
            first, second = np.argsort(-found.rating[0])[:2]
            sizes.append(ceil(found.more[0]))
            more = judged(rng, rating, [sizes[-1]] + [0] * (STRATA - 1), "more")
            then = by_stratum(BattleLog.joined(log, more), "subject").decided[0]
            held.append(100 * (then[first, second] or then[second, first]))
        print(f"{models:6} {prompts:7} {spread:6} {len(sizes):10} {np.median(sizes):15.0f} "
              f"{np.mean(held):10.1f}", flush=True)  # fmt: skip


def held_out(data: Path, seed: int, folds: int = 10) -> None:
    """Log loss of pooled, separate and common boards on questions that were left out."""
    folder = data / "mtbench_human_gpt4"
    log = read_battles(folder / "human.csv.gz")
    questions = map(json.loads, (folder / "questions.jsonl").read_text().splitlines())
    of = {str(each["question_id"]): each["category"] for each in questions}
    log = log.with_strata({"category": of})
    category = (log.strata or {})["category"].values()
    rng = np.random.default_rng(seed)
    fold = rng.permutation(len(log.prompts))[log.clusters()] % folds
    loss: dict[str, list[float]] = {"one board": [], "separate": [], "pooled": []}
    for k in range(folds):
        train, test = log.select(fold != k), np.flatnonzero(fold == k)
        found = by_stratum(train, "category")
        place = {m: i for i, m in enumerate(found.models)}
        one, alone = BradleyTerry()(train).values(found.models), each_alone(train, found)
        for row in test:
            a, b = (log.models[side[row]] for side in (log.a, log.b))
            s = found.names.index(category[row])
            boards = {"one board": one, "separate": alone[s], "pooled": found.rating[s]}
            gaps = {name: board[place[a]] - board[place[b]] for name, board in boards.items()}
            score = scores(log)[row]
            for name, gap in gaps.items():
                p = np.clip(1 / (1 + np.exp(-gap / UNIT)), 1e-6, 1 - 1e-6)
                loss[name].append(-(score * np.log(p) + (1 - score) * np.log(1 - p)))
    for name, each in loss.items():
        print(f"{name:10} {np.nanmean(each):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="coverage")
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--seed", type=int, default=30)
    given = parser.parse_args()
    if given.what == "mtbench":
        held_out(given.data, given.seed)
    else:
        tables = {"coverage": coverage, "odd": odd_cell, "forecasts": forecasts}
        tables[given.what](given.studies, given.seed)


if __name__ == "__main__":
    main()
