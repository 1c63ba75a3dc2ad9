"""Reference implementations: slow, obvious, and what the fast ones are held against."""

from __future__ import annotations

import math
from collections.abc import Sequence

MASK = 2**64 - 1


def elo(
    games: Sequence[tuple[int, int, float]],
    n_models: int,
    *,
    k: float,
    initial: float,
    scale: float = 400.0,
) -> list[float]:
    """Elo in the order given, straight from the definition."""
    ratings = [float(initial)] * n_models
    for a, b, score in games:
        expected = 1 / (1 + math.pow(10, (ratings[b] - ratings[a]) / scale))
        change = k * (score - expected)
        ratings[a] += change
        ratings[b] -= change
    return ratings


def splitmix(seed: int, i: int) -> int:
    """The i-th draw of SplitMix64 with plain integers."""
    z = (seed + i * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def shuffle(items: Sequence[int], seed: int) -> list[int]:
    """Fisher-Yates with one draw per position."""
    out = list(items)
    for i in range(len(out) - 1, 0, -1):
        j = ((splitmix(seed, i) >> 32) * (i + 1)) >> 32
        out[i], out[j] = out[j], out[i]
    return out
