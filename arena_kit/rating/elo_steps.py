"""One Elo update after another, as plain Python and, by `stream_kernels`, compiled."""

from __future__ import annotations

from math import exp
from typing import Any


def play(a: Any, b: Any, score: Any, times: Any, k: float, unit: float, ratings: Any) -> None:
    """Play games in order, each so many times, moving `ratings`; `unit` is ln 10 / scale."""
    for game in range(len(a)):
        i, j = a[game], b[game]
        for _ in range(times[game]):
            change = k * (score[game] - 1.0 / (1.0 + exp((ratings[j] - ratings[i]) * unit)))
            ratings[i] += change
            ratings[j] -= change
