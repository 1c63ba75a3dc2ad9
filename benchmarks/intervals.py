"""Do 95 % intervals hold the truth 95 % of the time? Simulated, with the truth known.

    .venv/bin/python benchmarks/intervals.py            # 1,000 samples per scenario
    .venv/bin/python benchmarks/intervals.py --quick    # 60 of them

Eight models 60 Elo apart meet on questions. A question may suit a model more or less (an effect of
its own for every question and model), so battles on one question are alike. With p the chance that
the first side is better on this question, a battle is a tie with probability 1.4 p (1 - p) and the
rest is shared so that the first side's expected score is p: ties as half wins are then exact.

The truth is the population value of what Bradley–Terry estimates: its fit to the expected scores of
all pairs, each as often as it meets, centred on the mean. Expected scores average p over questions,
by numerical integration. Averaging through a curve draws them towards one half, so with question
effects this truth is narrower than the skills that were planted; no amount of battles would give
those back.
"""

from __future__ import annotations

if __name__ == "coverage":
    # Numba asks for the package of this name, and finds this file beside any benchmark.
    raise ImportError("benchmarks/intervals.py is not the coverage package")

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from math import log as ln

import numpy as np
from numpy.typing import NDArray

from arena_kit import BattleLog, BradleyTerry, PermutationElo
from arena_kit.battles.battle import A_WINS, B_WINS, TIE
from arena_kit.battles.log import Labels
from arena_kit.rating import elo, glicko2
from arena_kit.rating.base import NORMAL_95, Ratings
from arena_kit.rating.bradley_terry import bootstrap as refits
from arena_kit.rating.elo import k_sweep
from arena_kit.rating.glicko2 import Glicko2

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

SEED = 4
WORKERS = 2
MODELS = tuple("abcdefgh")
SKILLS = np.linspace(-210.0, 210.0, len(MODELS))
PAIRS = np.stack(np.triu_indices(len(MODELS), 1)).astype(np.int32)
#: Elo's resamples are slow: one sample in so many measures their interval.
EVERY = 5
ORDERS = (100, 1_000, 10_000)
SPREAD_KS = (4.0, 16.0, 32.0)
EXPLAINED = """\
Share of intervals that hold the truth, in %, ± its Monte-Carlo error (mean half-width in Elo).
The truth is the population value of Bradley–Terry: its fit to the expected scores of all pairs,
centred on the mean. Elo's own target is its average rating over all samples."""
#: What a row of the table says, whose intervals it shows, and whether these are held against the
#: average rating of all samples (what the method itself aims at) instead of the truth.
METHODS = (
    ("Bradley–Terry, jackknife by question (default)", "sandwich by question", False),
    ("the same with half a win added to every pair", "sandwich, prior always", False),
    ("Bradley–Terry, bootstrap by question, percentile", "percentile by question", False),
    ("Bradley–Terry, jackknife by battle", "sandwich by battle", False),
    ("Bradley–Terry, bootstrap by battle, percentile", "percentile by battle", False),
    ("Permutation Elo, mean ± 1.96 order SEM", "order SEM", False),
    ("the same, against Elo's own target", "order SEM", True),
    ("Permutation Elo, evidence interval", "evidence", False),
    ("the same, against Elo's own target", "evidence", True),
    ("Glicko-2, rating ± 1.96 RD", "RD", False),
    ("Glicko-2, evidence interval", "Glicko-2 evidence", False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """How battles come about.

    `effect` is the standard deviation, in Elo, of how much a question suits a model. Without
    `battles`, every pair meets on every question; with, so many pairs meet at random, on questions
    of their own where there are enough. `exposure` is the standard deviation of the logarithm of
    how often models are drawn. With `repeats`, each battle is judged again with the sides
    exchanged, and counts as two: the second verdict repeats the first with this probability and is
    drawn anew otherwise.
    """

    number: int
    title: str
    questions: int
    effect: float = 150.0
    battles: int = 0
    exposure: float = 0.0
    repeats: float = 0.0

    def pair_shares(self) -> Floats:
        """How often each pair meets, as a share of all battles; the same in every sample."""
        drawn = np.random.default_rng(SEED).normal(0, self.exposure, len(MODELS))
        share: Floats = np.exp(drawn[PAIRS]).prod(axis=0)
        return share / share.sum()

    def meetings(self, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """The question and the pair of every battle."""
        pairs, n = PAIRS.shape[1], self.battles
        if not n:
            question, pair = np.divmod(np.arange(self.questions * pairs), pairs)
        else:
            pair = rng.choice(pairs, n, p=self.pair_shares())
            own = n <= self.questions
            question = np.arange(n) if own else rng.integers(0, self.questions, n)
        return question.astype(np.int32), pair.astype(np.int32)


SCENARIOS = (
    Scenario(number=1, title="72 questions × 28 pairs", questions=72),
    Scenario(number=2, title="the same, no question effects", questions=72, effect=0.0),
    Scenario(
        number=3, title="uneven exposure, random pairs", questions=200, battles=2_000, exposure=1.0
    ),
    Scenario(
        number=4, title="judged twice", questions=1_008, effect=0.0, battles=1_008, repeats=0.8
    ),
    Scenario(number=5, title="15 questions × 28 pairs", questions=15),
)


def win_rate(gap: Floats) -> Floats:
    """The expected score of a side that is `gap` Elo ahead."""
    return 1 / (1 + 10 ** (-gap / 400))


def truth(scenario: Scenario) -> Floats:
    """The Bradley–Terry fit to the expected scores, centred; without any code of the package."""
    x, weight = np.polynomial.hermite_e.hermegauss(80)
    gap = SKILLS[PAIRS[0]] - SKILLS[PAIRS[1]]
    noise = np.sqrt(2) * scenario.effect * x
    expected = win_rate(gap[:, None] + noise) @ (weight / weight.sum())
    share = scenario.pair_shares()
    contrast = np.eye(len(MODELS))[PAIRS[0]] - np.eye(len(MODELS))[PAIRS[1]]
    unit, rating = ln(10) / 400, np.zeros(len(MODELS))
    for _ in range(50):
        p = win_rate(contrast @ rating)
        slope = contrast.T @ (share * (expected - p))
        bend = contrast.T @ ((share * p * (1 - p))[:, None] * contrast)
        rating += np.linalg.solve(bend + 1 / len(MODELS), slope) / unit
    return np.asarray(rating - rating.mean())


def sample(scenario: Scenario, rng: np.random.Generator) -> BattleLog:
    """Battles of one sample, in random order."""
    question, pair = scenario.meetings(rng)
    level = SKILLS + rng.normal(0, scenario.effect, (scenario.questions, len(MODELS)))
    a, b = PAIRS[:, pair]
    p = win_rate(level[question, a] - level[question, b])
    told = [(question, a, b, first := verdicts(p, rng))]
    if scenario.repeats:
        again = np.where(rng.random(len(p)) < scenario.repeats, first, verdicts(p, rng))
        told.append((question, b, a, np.array([B_WINS, A_WINS, TIE])[again]))
    order = rng.permutation(len(told) * len(p))
    question, a, b, outcome = (np.concatenate(each)[order] for each in zip(*told, strict=True))
    names = np.array([f"q{i:05d}" for i in range(scenario.questions)], object)
    return BattleLog(
        models=MODELS,
        a=a,
        b=b,
        outcome=outcome.astype(np.int8),
        question_id=Labels(names, question),
    )


def verdicts(p: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Outcomes with expected score `p`, of which 1.4 p (1 - p) are ties."""
    tie, u = 1.4 * p * (1 - p), rng.random(len(p))
    return np.where(u < p - tie / 2, A_WINS, np.where(u < p + tie / 2, TIE, B_WINS))


def ends(found: Ratings) -> Floats:
    """Rating, low and high end of each model, a row each, around the mean rating."""
    rows = [found[model] for model in MODELS]
    table = np.array([[r.rating, r.ci_low, r.ci_high] for r in rows], float).T
    return np.asarray(table - table[0].mean())


def within(center: Floats, half: Floats) -> Floats:
    """The same for an interval of so much to either side."""
    table = np.stack([center, center - half, center + half])
    return np.asarray(table - center.mean())


def sem_interval(orders: Floats) -> Floats:
    """Mean ± 1.96 SEM of ratings in shuffled orders, a row per order."""
    sem = orders.std(axis=0, ddof=1) / np.sqrt(len(orders))
    return within(orders.mean(axis=0), NORMAL_95 * sem)


def bradley_terry(log: BattleLog, seed: int) -> Iterator[tuple[str, Floats]]:
    """Every interval that Bradley–Terry has."""
    yield "sandwich, prior always", ends(BradleyTerry(prior_when="always")(log))
    for cluster in ("question", "battle"):
        yield f"sandwich by {cluster}", ends(BradleyTerry(cluster=cluster)(log))
        method = BradleyTerry(cluster=cluster, interval="percentile", resamples=500, seed=seed)
        yield f"percentile by {cluster}", ends(method(log))


def replays(log: BattleLog, seed: int) -> Iterator[tuple[str, Floats]]:
    """The intervals of methods that replay battles in an order."""
    resamples = 0 if seed % EVERY else 500
    found = PermutationElo(ties="half", seed=seed, evidence_replicates=resamples)(log)
    yield "order SEM", sem_interval(found.traces)
    if resamples:
        yield "evidence", ends(found)
    glicko = Glicko2(seed=seed, evidence_replicates=resamples)(log)
    if resamples:
        yield "Glicko-2 evidence", ends(glicko)
    rows = [glicko[model] for model in MODELS]
    rd = np.array([row.extra["rd"] for row in rows], float)
    yield "RD", within(np.array([row.rating for row in rows]), NORMAL_95 * rd)


def generator(scenario: Scenario, number: int) -> np.random.Generator:
    """The generator of one sample, whoever draws it."""
    return np.random.default_rng([SEED, scenario.number, number])


def one(task: tuple[Scenario, int]) -> dict[str, Floats]:
    """Every method's intervals on one sample."""
    scenario, number = task
    log = sample(scenario, generator(scenario, number))
    return dict([*bradley_terry(log, number), *replays(log, number)])


def one_by_orders(number: int) -> dict[str, Floats]:
    """Elo's mean ± 1.96 SEM from more and more orders, and ± 1.96 SD of the orders for some K."""
    log = sample(SCENARIOS[0], generator(SCENARIOS[0], number))
    elo = PermutationElo(ties="half", seed=number, n_perms=ORDERS[-1], evidence_replicates=0)
    orders = elo(log).traces
    found = {f"K 16, ± 1.96 SEM, {n:,} orders": sem_interval(orders[:n]) for n in ORDERS}
    swept = k_sweep(replace(elo, n_perms=ORDERS[1]), log, SPREAD_KS)
    for k, each in swept.items():
        mean, sd = each.traces.mean(axis=0), each.traces.std(axis=0, ddof=1)
        found[f"K {k:.0f}, ± 1.96 SD, {ORDERS[1]:,} orders"] = within(mean, NORMAL_95 * sd)
    return found


def share_held(tables: list[Floats], target: Floats) -> tuple[float, float, float]:
    """The share of intervals that hold the target, its Monte-Carlo error, the mean half-width.

    Intervals of one sample hang together, so the error comes from the spread between samples.
    """
    low, high = np.stack(tables)[:, 1:].transpose(1, 0, 2)
    held = ((low <= target) & (target <= high)).mean(axis=1)
    error = held.std(ddof=1) / np.sqrt(len(held))
    return float(100 * held.mean()), float(100 * error), float((high - low).mean() / 2)


def cell(tables: list[Floats], target: Floats) -> str:
    """One measurement as the tables show it."""
    held, error, half = share_held(tables, target)
    return f"{held:.1f} ± {error:.1f} ({half:.{1 if half < 10 else 0}f})"


def own_target(tables: list[Floats]) -> Floats:
    """What the average sample of this size gives."""
    return np.asarray(np.stack(tables)[:, 0].mean(axis=0))


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """A Markdown table."""
    for row in [head, ["---"] * len(head), *rows]:
        print(f"| {' | '.join(row)} |")
    print()


def print_scenarios() -> None:
    """What was drawn, and the truth in each scenario."""
    rows = []
    for each in SCENARIOS:
        log, value = sample(each, generator(each, 0)), truth(each)
        seen = np.bincount(np.concatenate([log.a, log.b]))
        ties = 100 * (log.outcome == TIE).mean()
        rows.append(
            [f"({each.number})", each.title, f"{each.questions:,}", f"{len(log):,}",
             f"{seen.min()}–{seen.max()}", f"{ties:.0f} %", f"{each.effect:.0f}",
             f"−{-value.min():.0f} to {value.max():.0f}"]
        )  # fmt: skip
    head = "|scenario|questions|battles|per model|ties|question × model SD|truth (planted ±210)"
    print_table(head.split("|"), rows)


def print_coverage(found: list[list[dict[str, Floats]]]) -> None:
    """Shares per method and scenario."""
    rows = []
    for label, key, own in METHODS:
        row = [label]
        for scenario, samples in zip(SCENARIOS, found, strict=True):
            tables = [each[key] for each in samples if key in each]
            target = own_target([each["order SEM"] for each in samples]) if own else truth(scenario)
            row.append(cell(tables, target))
        rows.append(row)
    print_table(["95 % interval", *(f"({s.number}) {s.title}" for s in SCENARIOS)], rows)


def print_orders(samples: list[dict[str, Floats]]) -> None:
    """What becomes of the SEM with more orders; scenario 1."""
    value = truth(SCENARIOS[0])
    tables = {key: [each[key] for each in samples] for key in samples[0]}
    rows = [[key, cell(t, value), cell(t, own_target(t))] for key, t in tables.items()]
    print_table(["permutation Elo", "holds the truth", "holds its own target"], rows)


def prepare_worker() -> None:
    """Compiled code from the first battle on, and one thread each: the same results, sooner."""
    for module in (elo, glicko2, refits):
        module.COMPILED_FROM = 0
    os.cpu_count = lambda: 1


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sims", type=int, default=1_000, help="samples per scenario")
    parser.add_argument("--quick", action="store_true", help="60 samples per scenario")
    given = parser.parse_args()
    sims = 60 if given.quick else given.sims
    found = []
    with ProcessPoolExecutor(WORKERS, initializer=prepare_worker) as pool:
        for scenario in SCENARIOS:
            print(f"scenario {scenario.number} …", file=sys.stderr)
            found.append(list(pool.map(one, [(scenario, n) for n in range(sims)], chunksize=5)))
        by_orders = list(pool.map(one_by_orders, range(max(20, sims // 10))))
    print_scenarios()
    few = len(range(0, sims, EVERY))
    print(f"{sims:,} samples per scenario ({few:,} for evidence intervals), seed {SEED}.")
    print(f"{EXPLAINED}\n")
    print_coverage(found)
    print(f"Scenario (1), {len(by_orders)} samples:\n")
    print_orders(by_orders)


if __name__ == "__main__":
    main()
