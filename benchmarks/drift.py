"""How soon drift of a judge is found, and how often it is cried where there is none.

    python benchmarks/drift.py [--worlds 400]

A world is a judge with 100 sentinel pairs (200 calls a look). Each pair's two orders disagree with
a probability of its own; `repeat` is the correlation of one pair's outcome between two looks: 0
where every look draws anew, towards 1 where the judge answers alike each time. After `before` looks
the flip rate rises. The test is that of `arena_kit.judging.drift`; shares are of worlds.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from scipy.stats import beta, norm

from arena_kit.judging.drift import ALPHA, LEVEL, LOOKS, WINDOWS, shift

PAIRS = 100
AFTER = (1, 2, 3, 4, 6, 8, 12, 16)


def outcomes(
    rng: np.random.Generator, rate: float, change: float, repeat: float, before: int, looks: int
) -> np.ndarray:
    """Pairs by looks: whether the two orders disagreed; the rate changes after `before` looks."""
    place = rng.random(PAIRS)

    def chances(mean: float) -> np.ndarray:
        if repeat == 0:
            return np.full(PAIRS, mean)
        size = 1 / repeat - 1
        return beta.ppf(place, mean * size, (1 - mean) * size)

    old, new = chances(rate), chances(rate + change)
    by_look = np.where(np.arange(looks) < before, old[:, None], new[:, None])
    return (rng.random((PAIRS, looks)) < by_look).astype(float)


def score(table: np.ndarray, window: int) -> float:
    """The same statistic in standard errors, to pass over looks that cannot alarm."""
    n = table.shape[1]
    share = table.mean(1)
    variance = (share * (1 - share)).sum() * window * (n - window) / (n - 1)
    excess = table[:, -window:].sum() - share.sum() * window
    return abs(excess) / np.sqrt(variance) if variance > 0 else 0.0


def alarm(table: np.ndarray) -> bool:
    """Whether any window of the table's last look is an alarm."""
    for window in WINDOWS:
        if window < table.shape[1] and score(table, window) > 2.5:
            found = shift(table, window)
            if found is not None and found.found:
                return True
    return False


def found_after(rng: np.random.Generator, before: int, **world: float) -> int:
    """Looks from the change to the first alarm; more than any where none came."""
    table = outcomes(rng, before=before, looks=before + AFTER[-1], **world)
    for after in range(1, AFTER[-1] + 1):
        if alarm(table[:, : before + after]):
            return after
    return AFTER[-1] + 1


def false_alarm(rng: np.random.Generator, rate: float, repeat: float) -> bool:
    """Whether any of a year's looks at an unchanged judge is an alarm."""
    table = outcomes(rng, rate, 0.0, repeat, LOOKS, LOOKS)
    return any(alarm(table[:, :n]) for n in range(2, LOOKS + 1))


def joint_bar(paths: int, seed: int) -> float:
    """The bar, in standard errors, that all looks and windows of one statistic cross together with
    half of the allowed chance, for very many pairs; the sum of chances can only be higher.
    """
    sums = np.random.default_rng(seed).standard_normal((paths, LOOKS)).cumsum(1)
    sums = np.concatenate([np.zeros((paths, 1)), sums], axis=1)
    highest = np.zeros(paths)
    for n in range(2, LOOKS + 1):
        for window in (w for w in WINDOWS if w < n):
            early = sums[:, n - window]
            gap = (sums[:, n] - early) / window - early / (n - window)
            highest = np.maximum(highest, np.abs(gap) / np.sqrt(1 / window + 1 / (n - window)))
    return float(np.quantile(highest, 1 - ALPHA / 2))


def power_curve(worlds: int, seed: int) -> None:
    print(f"\nPower: share of {worlds} worlds in which the change was found within so many looks")
    head = "  ".join(f"{n:>5}" for n in AFTER)
    print(f"{'rate':>5} {'change':>7} {'repeat':>7} {'before':>7}   {head}")
    for change in (0.05, 0.10, 0.15):
        for rate in (0.10, 0.20, 0.30) if change == 0.10 else (0.20,):
            for repeat in (0.0, 0.5, 0.8):
                for before in (4, 12, 26) if change == 0.10 else (12,):
                    rng = np.random.default_rng([seed, int(100 * rate), int(10 * repeat), before])
                    one = partial(found_after, rng, before, rate=rate, change=change, repeat=repeat)
                    looks = np.array([one() for _ in range(worlds)])
                    shares = "  ".join(f"{(looks <= n).mean():5.1%}" for n in AFTER)
                    print(f"{rate:5.0%} {change:7.0%} {repeat:7.1f} {before:7d}   {shares}")


def false_alarms(worlds: int, seed: int) -> None:
    print(f"\nFalse alarms over {LOOKS} looks, of {worlds} worlds (allowed: {ALPHA:.0%})")
    for rate in (0.10, 0.20, 0.30):
        for repeat in (0.0, 0.5, 0.8):
            rng = np.random.default_rng([seed, int(100 * rate), int(10 * repeat)])
            n = sum(false_alarm(rng, rate, repeat) for _ in range(worlds))
            print(f"rate {rate:.0%}, repeat {repeat}: {n} ({n / worlds:.2%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{2 * PAIRS} calls a look; windows {WINDOWS}; a test alarms at p <= {LEVEL:.2g}")
    bar = norm.isf(LEVEL / 2)
    print(
        f"that is {bar:.2f} standard errors; {joint_bar(100_000, options.seed):.2f} taken jointly"
    )
    power_curve(options.worlds, options.seed)
    false_alarms(options.worlds, options.seed)


if __name__ == "__main__":
    main()
