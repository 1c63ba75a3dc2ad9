"""Reference implementations: slow, obvious, and what the fast ones are held against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from itertools import groupby

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


#: A rating, its deviation and its volatility.
State = tuple[Decimal, Decimal, Decimal]
PI = Decimal("3.14159265358979323846264338327950288419716939937510")
DIGITS = 40


def glicko2(
    games: Sequence[tuple[int, int, float]],
    n_models: int,
    *,
    start: tuple[float, float, float],
    tau: float,
    limits: tuple[float, float],
) -> list[State]:
    """Glicko-2 vote by vote: each is a rating period of its own for its two models."""
    states = [decimals(start)] * n_models
    for a, b, score in games:
        new_a = glicko2_period(states[a], [(states[b], score)], tau=tau, limits=limits)
        new_b = glicko2_period(states[b], [(states[a], 1 - score)], tau=tau, limits=limits)
        states[a], states[b] = new_a, new_b
    return states


def glicko2_periods(
    games: Sequence[tuple[int, int, int, float]],
    n_models: int,
    *,
    start: tuple[float, float, float],
    tau: float,
    limits: tuple[float, float],
) -> list[State]:
    """Glicko-2 by rating periods: games are (period, a, b, score), by period."""
    states = [decimals(start)] * n_models
    entered: set[int] = set()
    by_period = {n: list(some) for n, some in groupby(games, lambda game: game[0])}
    for period in range(min(by_period), max(by_period) + 1):
        met: dict[int, list[tuple[State, float]]] = {model: [] for model in entered}
        for _, a, b, score in by_period.get(period, []):
            met.setdefault(a, []).append((states[b], score))
            met.setdefault(b, []).append((states[a], 1 - score))
        after = {m: glicko2_period(states[m], g, tau=tau, limits=limits) for m, g in met.items()}
        states = [after.get(model, state) for model, state in enumerate(states)]
        entered |= set(met)
    return states


def glicko2_period(
    player: State,
    games: Sequence[tuple[State, float]],
    *,
    tau: float,
    limits: tuple[float, float] = (30, 350),
) -> State:
    """One rating period of one player, step by step as Glickman (2013) writes it."""
    with localcontext() as context:
        context.prec = DIGITS
        scale = 400 / Decimal(10).ln()
        low, high = decimals(limits)
        rating, deviation, sigma = player
        mu, phi = rating / scale, deviation / scale
        if not games:
            idle = (phi * phi + sigma * sigma).sqrt()
            return rating, min(high, max(low, idle * scale)), sigma
        information = improvement = Decimal(0)
        for (other_rating, other_deviation, _), score in games:
            g = 1 / (1 + 3 * (other_deviation / scale) ** 2 / PI**2).sqrt()
            e = 1 / (1 + (-g * (mu - other_rating / scale)).exp())
            information += g * g * e * (1 - e)
            improvement += g * (Decimal(score) - e)
        v = 1 / information
        sigma = glicko2_volatility(phi, sigma, v, v * improvement, Decimal(tau))
        phi = 1 / (1 / (phi * phi + sigma * sigma) + 1 / v).sqrt()
        rating += scale * phi * phi * improvement
        return rating, min(high, max(low, phi * scale)), sigma


def glicko2_volatility(
    phi: Decimal, sigma: Decimal, v: Decimal, delta: Decimal, tau: Decimal
) -> Decimal:
    """Step 5: the new volatility by the Illinois procedure, to 30 digits."""
    start = (sigma * sigma).ln()

    def f(x: Decimal) -> Decimal:
        e = x.exp()
        top = e * (delta * delta - phi * phi - v - e)
        return top / (2 * (phi * phi + v + e) ** 2) - (x - start) / (tau * tau)

    a = start
    if delta * delta > phi * phi + v:
        b = (delta * delta - phi * phi - v).ln()
    else:
        k = 1
        while f(start - k * tau) < 0:
            k += 1
        b = start - k * tau
    f_a, f_b = f(a), f(b)
    while abs(b - a) > Decimal("1e-30"):
        c = a + (a - b) * f_a / (f_b - f_a)
        f_c = f(c)
        if f_c * f_b <= 0:
            a, f_a = b, f_b
        else:
            f_a /= 2
        b, f_b = c, f_c
    return (a / 2).exp()


def decimals(numbers: Sequence[float]) -> tuple[Decimal, ...]:
    """The exact values of floats."""
    return tuple(Decimal(number) for number in numbers)
