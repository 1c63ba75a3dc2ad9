"""Does the evidence interval of permutation Elo mean what it says? Simulated, with known skills.

    .venv/bin/python benchmarks/evidence.py              # against Elo's own target
    .venv/bin/python benchmarks/evidence.py arrival      # against the truth, by K and battles

Per setting: the ratio of the average evidence SE to the true spread of the ratings over fresh
samples, and the share of 95 % intervals that hold the expected rating (its mean over all samples).
Then for one entrant far below the others: how often it is winless and has no interval, the share
of printed intervals that hold its expected rating, and that share with the winless ones' as well.

`arrival` holds the intervals against the truth of `intervals.py`, which no K draws together: the
share that hold it, the share that `holding` expects of the same samples, in how many samples
the ratings say that intervals hold too seldom, and the share that hold in the others.
"""

from __future__ import annotations

import sys
from itertools import combinations

import numpy as np
from intervals import MODELS, Scenario, ends, prepare_worker, print_table, truth
from intervals import sample as world

from arena_kit import BattleLog, BradleyTerry, PermutationElo
from arena_kit.battles.log import Labels
from arena_kit.rating import elo
from arena_kit.rating.elo import holding, k_sweep

KS = (4.0, 8.0, 16.0, 32.0)
SEED = 32


def sample(rng: np.random.Generator, questions: int, per_question: int, effect: float) -> BattleLog:
    """Battles of six models, 60 Elo apart, on questions that each favour some of them."""
    n = questions * per_question
    question = np.repeat(np.arange(questions, dtype=np.int32), per_question)
    a = rng.integers(0, 6, n, dtype=np.int32)
    b = ((a + rng.integers(1, 6, n)) % 6).astype(np.int32)
    level = 60.0 * np.arange(6) + rng.normal(0, effect, (questions, 6))
    gap = level[question, a] - level[question, b]
    lost = rng.random(n) > 1 / (1 + 10 ** (-gap / 400))
    names = np.array([f"q{i:06d}" for i in range(questions)], object)
    return BattleLog(
        models=tuple("abcdef"),
        a=a,
        b=b,
        outcome=lost.astype(np.int8),
        question_id=Labels(names, question),
    )


def measure(questions: int, per_question: int, effect: float, k: float, samples: int) -> None:
    """Print one line of the table."""
    rng = np.random.default_rng(1)
    means, errors, lows, highs = [], [], [], []
    for seed in range(samples):
        method = PermutationElo(k=k, n_perms=200, evidence_replicates=200, seed=seed)
        found = method(sample(rng, questions, per_question, effect))
        rows = [found[m] for m in "abcdef"]
        means.append([r.rating for r in rows])
        errors.append([r.extra["evidence_se"] or np.nan for r in rows])
        lows.append([np.nan if r.ci_low is None else r.ci_low for r in rows])
        highs.append([np.nan if r.ci_high is None else r.ci_high for r in rows])
    truth = np.mean(means, axis=0)
    held = np.mean((np.array(lows) <= truth) & (truth <= np.array(highs)))
    ratio = np.mean(errors) / np.std(means, axis=0, ddof=1).mean()
    print(
        f"{questions:6d} questions x {per_question:2d} battles, question effect {effect:3.0f}, "
        f"K {k:2.0f}: SE ratio {ratio:4.2f}, coverage {100 * held:4.1f} %"
    )
    sys.stdout.flush()


def weak(gap: float, questions: int, samples: int) -> None:
    """Print one line about a model so far below three others, which it meets on every question."""
    rng, pairs = np.random.default_rng(2), list(combinations(range(4), 2))
    a, b = (np.tile(side, questions).astype(np.int32) for side in zip(*pairs, strict=True))
    labels = Labels(
        np.array([f"q{i:06d}" for i in range(questions)], object),
        np.repeat(np.arange(questions, dtype=np.int32), len(pairs)),
    )
    rows = []
    for seed in range(samples):
        level = np.array([-gap, 0, 60, 120]) + rng.normal(0, 100, (questions, 4))
        ahead = level[labels.codes, a] - level[labels.codes, b]
        lost = (rng.random(len(a)) > 1 / (1 + 10 ** (-ahead / 400))).astype(np.int8)
        log = BattleLog(models=tuple("wxyz"), a=a, b=b, outcome=lost, question_id=labels)
        method = PermutationElo(n_perms=100, evidence_replicates=200, evidence_orders=5, seed=seed)
        found = method(log)
        draws = found.replicates[:, found.models.index("w")]
        shown = found["w"].ci_low is not None
        rows.append((found["w"].rating, *np.percentile(draws, [2.5, 97.5]), shown))
    rating, low, high, shown = np.array(rows).T
    held, printed = (low <= rating.mean()) & (rating.mean() <= high), shown == 1
    print(
        f"{questions:6d} questions, {gap:3.0f} below the others: no interval in "
        f"{100 * np.mean(~printed):4.1f} % of samples, coverage of those printed "
        f"{100 * held[printed].mean():5.1f} %, with the winless {100 * held.mean():5.1f} %"
    )
    sys.stdout.flush()


def arrived(scenario: Scenario, samples: int) -> list[list[str]]:
    """The rows of one setting, a K each."""
    found: dict[float, list[tuple[float, float, bool]]] = {k: [] for k in KS}
    target = truth(scenario)
    for seed in range(samples):
        log = world(scenario, np.random.default_rng([SEED, scenario.number, seed]))
        method = PermutationElo(ties="half", initial=0, n_perms=200, evidence_replicates=200,
                                evidence_orders=5, seed=seed)  # fmt: skip
        strengths = BradleyTerry(center=0)(log)
        for k, rated in k_sweep(method, log, KS).items():
            _, low, high = ends(rated)
            shown = ~np.isnan(low)
            held = ((low <= target) & (target <= high))[shown].mean()
            found[k].append((held, np.nanmean(holding(rated, strengths)), bool(rated.notes)))
    rows = []
    for k, each in found.items():
        held, expected, told = np.array(each).T
        quiet = held[told == 0]
        error = 100 * held.std(ddof=1) / np.sqrt(samples)
        figures = [f"{100 * held.mean():.1f} ± {error:.1f}", f"{100 * expected.mean():.1f}"]
        figures += [f"{100 * told.mean():.0f}", f"{100 * quiet.mean():.1f}" if len(quiet) else "–"]
        rows.append([scenario.title, f"{k:.0f}", *figures])
    return rows


def arrival(samples: int) -> None:
    """Print the table of intervals against the truth."""
    prepare_worker()
    rows = []
    for number, questions in enumerate((15, 30, 72, 200)):
        title = f"{questions} questions × 28 pairs"
        rows += arrived(Scenario(number=number, title=title, questions=questions), samples)
    alike = Scenario(number=7, title="72 × 28, no question effects", questions=72, effect=0.0)
    rows += arrived(alike, samples)
    uneven = {"questions": 200, "exposure": 1.0}
    for number, battles in enumerate((600, 3_000), 8):
        title = f"{battles:,} battles, uneven exposure"
        rows += arrived(Scenario(number=number, title=title, battles=battles, **uneven), samples)
    print(f"{len(MODELS)} models, {samples} samples per setting, seed {SEED}.\n")
    head = "setting|K|hold the truth, %|expected, %|samples that say so, %|hold in the others, %"
    print_table(head.split("|"), rows)


def main() -> None:
    """Print the table, also for fewer questions than reports show an interval for."""
    if sys.argv[1:] == ["arrival"]:
        arrival(100)
        return
    for gap in (900, 700, 550, 400):
        weak(gap, 60, 150)
    elo.MIN_QUESTIONS = 2
    measure(5, 20, 150, 16, 150)
    measure(10, 20, 150, 16, 150)
    measure(30, 10, 150, 16, 150)
    measure(100, 10, 150, 16, 100)
    measure(300, 1, 0, 16, 150)
    measure(20_000, 1, 0, 32, 12)


if __name__ == "__main__":
    main()
