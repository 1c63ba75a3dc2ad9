"""Does the evidence interval of permutation Elo mean what it says? Simulated, with known skills.

    .venv/bin/python benchmarks/evidence.py

Per setting: the ratio of the average evidence SE to the true spread of the ratings over fresh
samples, and the share of 95 % intervals that hold the expected rating (its mean over all samples).
"""

from __future__ import annotations

import sys

import numpy as np

from arena_kit import BattleLog, PermutationElo
from arena_kit.battles.log import Labels
from arena_kit.rating import elo


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


def main() -> None:
    """Print the table, also for fewer questions than reports show an interval for."""
    elo.MIN_QUESTIONS = 2
    measure(5, 20, 150, 16, 150)
    measure(10, 20, 150, 16, 150)
    measure(30, 10, 150, 16, 150)
    measure(100, 10, 150, 16, 100)
    measure(300, 1, 0, 16, 150)
    measure(20_000, 1, 0, 32, 12)


if __name__ == "__main__":
    main()
