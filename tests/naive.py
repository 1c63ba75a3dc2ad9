"""Reference implementations: slow, obvious, and what the fast ones are held against."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from arena_kit import BattleLog
from arena_kit.rating.base import Ratings

MASK = 2**64 - 1
#: Rating points per unit of the logistic scale.
UNIT = 400 / math.log(10)


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
State = tuple[float, float, float]


def glicko2(
    games: Sequence[tuple[int, int, int, float]], n_models: int, start: State, *, idle: bool,
    tau: float, limits: tuple[float, float] = (30, 350),
) -> list[State]:  # fmt: skip
    """Glicko-2 of games (period, a, b, score), by period; those who are `idle` grow uncertain."""
    states, entered = [start] * n_models, set[int]()
    by_period = {n: list(some) for n, some in groupby(games, lambda game: game[0])}
    for period in range(min(by_period), max(by_period) + 1):
        met: dict[int, list[tuple[State, float]]] = {model: [] for model in entered if idle}
        for _, a, b, score in by_period.get(period, []):
            met.setdefault(a, []).append((states[b], score))
            met.setdefault(b, []).append((states[a], 1 - score))
        after = {m: glicko2_period(states[m], g, tau, limits) for m, g in met.items()}
        states = [after.get(model, state) for model, state in enumerate(states)]
        entered |= set(met)
    return states


def glicko2_period(
    player: State, games: Sequence[tuple[State, float]], tau: float, limits: tuple[float, float]
) -> State:
    """One rating period of one player, step by step as Glickman (2013) writes it."""
    rating, deviation, sigma = player
    phi, information, improvement = deviation / UNIT, 0.0, 0.0
    for (other, other_deviation, _), score in games:
        g = 1 / math.sqrt(1 + 3 * (other_deviation / UNIT / math.pi) ** 2)
        e = 1 / (1 + math.exp(-g * (rating - other) / UNIT))
        information += g * g * e * (1 - e)
        improvement += g * (score - e)
    if games:
        v = 1 / information
        sigma = glicko2_volatility(phi, sigma, v, v * improvement, tau)
    variance = 1 / (1 / (phi**2 + sigma**2) + information)
    deviation = min(limits[1], max(limits[0], math.sqrt(variance) * UNIT))
    return rating + UNIT * variance * improvement, deviation, sigma


def glicko2_volatility(phi: float, sigma: float, v: float, delta: float, tau: float) -> float:
    """Step 5: the new volatility, by SciPy's root of the paper's f."""
    start = math.log(sigma**2)

    def f(x: float) -> float:
        e = math.exp(x)
        top = e * (delta**2 - phi**2 - v - e)
        return top / (2 * (phi**2 + v + e) ** 2) - (x - start) / tau**2

    return math.exp(brentq(f, start - 30, start + 30, xtol=1e-14) / 2)


def chances(ties: str, gap: float, tie: float) -> tuple[float, float, float]:
    """Win, tie and loss of the first side, as Bradley-Terry, Davidson and Rao-Kupper have it."""
    first, second, more = math.exp(gap / 2), math.exp(-gap / 2), math.exp(tie)
    if ties == "half":
        return first / (first + second), 0.0, second / (first + second)
    if ties == "davidson":
        total = first + second + more * math.sqrt(first * second)
        return first / total, more * math.sqrt(first * second) / total, second / total
    win, loss = first / (first + more * second), second / (second + more * first)
    both = (first + more * second) * (second + more * first)
    return win, (more**2 - 1) * first * second / both, loss


@dataclass(frozen=True)
class Naive:
    """The likelihood as a plain sum; parameters: strengths but the first, tie, coefficients."""

    log: BattleLog
    ties: str = "half"
    prior: float = 0.0
    only_needed: bool = False
    covariates: tuple[str, ...] = ()

    def parameters(self, found: Ratings) -> list[float]:
        """What our fit found, in natural units and per unit of a covariate."""
        first = found[self.log.models[0]].rating
        theta = [(found[model].rating - first) / UNIT for model in self.log.models[1:]]
        theta += [] if self.ties == "half" else [found.fit["tie"]]
        known = self.log.covariates or {}
        typical = [np.sqrt(np.mean(known[name] ** 2)) for name in self.covariates]
        found_slopes = [found.fit[name] / UNIT for name in self.covariates]
        return theta + [slope / size for slope, size in zip(found_slopes, typical, strict=True)]

    def _chances(self, theta: Sequence[float], a: str, b: str, x: float) -> tuple[float, ...]:
        strength = dict(zip(self.log.models, [0.0, *theta], strict=False))
        tie = 0.0 if self.ties == "half" else theta[len(self.log.models) - 1]
        return chances(self.ties, strength[a] - strength[b] + x, tie)

    def rows(self, theta: Sequence[float]) -> list[float]:
        """The log-likelihood of every battle, times its weight."""
        known = self.log.covariates or {}
        slopes = theta[len(theta) - len(self.covariates) :]
        out = []
        for n, battle in enumerate(self.log.to_battles()):
            x = sum(k * known[name][n] for k, name in zip(slopes, self.covariates, strict=True))
            win, tie, loss = self._chances(theta, battle.model_a, battle.model_b, float(x))
            hard = {"model_a": 1.0, "model_b": 0.0}.get(battle.winner, 0.5)
            share = hard if battle.share_a is None else battle.share_a
            if self.ties != "half" and not battle.winner.decisive:
                value = math.log(tie)
            else:
                value = share * math.log(win) + (1 - share) * math.log(loss)
            out.append(battle.weight * value)
        return out

    def total(self, theta: Sequence[float]) -> float:
        """The log-likelihood of all battles and of the prior's wins."""
        met = {tuple(sorted((x.model_a, x.model_b))) for x in self.log.to_battles()}
        if self.only_needed:
            met &= self.divided()
        added = [self._chances(theta, a, b, 0.0) for a, b in met] if self.prior else []
        return sum(self.rows(theta)) + self.prior * sum(
            math.log(win) + math.log(loss) for win, _, loss in added
        )

    def divided(self) -> set[tuple[str, ...]]:
        """Two models of which one never beat the other, not even through others."""
        alone = self._apart(ties=False)
        n = len(self.log.models)
        known = self.ties == "half" or len(alone) < n * (n - 1)
        return self._apart(ties=True) if known else alone

    def _apart(self, *, ties: bool) -> set[tuple[str, ...]]:
        """The same with ties counted or not, by Warshall's closure."""
        models = self.log.models
        above = {(model, model) for model in models}
        for battle in self.log.to_battles():
            sides = (battle.model_a, battle.model_b)
            shared = ties and not battle.winner.decisive
            above |= {sides} if battle.winner == "model_a" or shared else set()
            above |= {sides[::-1]} if battle.winner == "model_b" or shared else set()
        for k in models:
            above |= {(i, j) for i in models for j in models if {(i, k), (k, j)} <= above}
        return {(i, j) for i in models for j in models if not {(i, j), (j, i)} <= above}

    def slope(self, theta: list[float], h: float = 1e-5) -> NDArray[np.float64]:
        """The gradient by central differences."""
        return np.array(
            [(self.total(up) - self.total(down)) / (2 * h) for up, down in nudged(theta, h)]
        )

    def covariance(self, theta: list[float], pieces: Sequence[object]) -> NDArray[np.float64]:
        """The cluster jackknife (CR3): one Newton step to the fit without each piece of evidence;
        the tie parameter keeps the whole curvature.
        """
        whole, kinds = self.curvature(theta), sorted(set(pieces), key=str)
        tie = np.array([self.ties != "half" and n == len(self.log.models) - 1
                        for n in range(len(theta))])  # fmt: skip
        slopes = self._slopes(theta, 1e-5)
        bends = [self._slopes(down, 1e-3) - self._slopes(up, 1e-3)
                 for up, down in nudged(theta, 1e-3)]  # fmt: skip
        steps = []
        for kind in kinds:
            own = [p == kind for p in pieces]
            score = slopes[:, own].sum(axis=1)
            bend = np.array([each[:, own].sum(axis=1) / 2e-3 for each in bends])
            left = whole - bend * np.outer(~tie, ~tie)
            step = np.linalg.solve(left, score * ~tie)
            steps.append(step + np.linalg.solve(whole, score * tie))
        return np.transpose(steps) @ np.array(steps) * (len(kinds) - 1) / len(kinds)

    def _slopes(self, theta: list[float], h: float) -> NDArray[np.float64]:
        """The gradient of every battle (columns), by central differences."""
        return np.array(
            [np.subtract(self.rows(up), self.rows(down)) / (2 * h) for up, down in nudged(theta, h)]
        )

    def curvature(self, theta: list[float], h: float = 1e-3) -> NDArray[np.float64]:
        """Minus the second derivatives, by differences of the central differences."""
        rows = [
            (self.slope(up, h) - self.slope(down, h)) / (2 * h) for up, down in nudged(theta, h)
        ]
        return -np.array(rows)


def nudged(theta: list[float], h: float) -> list[tuple[list[float], list[float]]]:
    """Every parameter in turn moved up and down by `h`, the others as they are."""
    return [
        (
            [value + h * (i == j) for j, value in enumerate(theta)],
            [value - h * (i == j) for j, value in enumerate(theta)],
        )
        for i in range(len(theta))
    ]


def centred(covariance: NDArray[np.float64], n_models: int) -> NDArray[np.float64]:
    """The covariance of ratings around their mean, from that of all strengths but the first."""
    lifted = np.vstack([np.zeros(n_models - 1), np.eye(n_models - 1)])
    lifted -= lifted.mean(axis=0)
    return UNIT**2 * lifted @ covariance[: n_models - 1, : n_models - 1] @ lifted.T


def bradley_terry(battles: list[tuple[int, int, float]], n: int, prior: float) -> list[float]:
    """Minorisation–maximisation straight from the definition, in Elo units, mean 0."""
    wins = np.zeros((n, n))
    for a, b, score in battles:
        wins[a, b] += score
        wins[b, a] += 1 - score
    wins += prior * (wins + wins.T > 0)
    worth, new = np.zeros(n), np.ones(n)
    while np.abs(new - worth).max() > 1e-14:
        worth = new
        new = wins.sum(axis=1) / ((wins + wins.T) / (worth[:, None] + worth)).sum(axis=1)
        new = new / np.exp(np.log(new).mean())
    return [400 * math.log10(w) for w in new]


def contrasts(n: int) -> NDArray[np.float64]:
    """Helmert's contrasts: orthonormal, and blind to a shift of all."""
    rows = np.zeros((n - 1, n))
    for k in range(1, n):
        rows[k - 1, :k], rows[k - 1, k] = 1.0, -k
        rows[k - 1] /= math.sqrt(k * (k + 1))
    return rows


@dataclass(frozen=True)
class FayHerriotGrid:
    """The Fay–Herriot model by brute force: every error variance and slope of a fine grid."""

    y: NDArray[np.float64]
    x: NDArray[np.float64]
    noise: NDArray[np.float64]

    def weights(self, used: Sequence[int]) -> list[tuple[float, float, float]]:
        """(error variance, slope, posterior weight), by the ratings of some models only."""
        everyone = contrasts(len(self.y))
        spread = np.linalg.eigvalsh(everyone @ self.noise @ everyone.T)
        some = np.array(used)
        q = contrasts(len(some))
        y, x, noise = q @ self.y[some], q @ self.x[some], q @ self.noise[np.ix_(some, some)] @ q.T
        cells = []
        for log_variance in np.linspace(math.log(1e-4), math.log(1e8), 240):
            variance = math.exp(log_variance)
            wide = noise + variance * np.eye(len(y))
            inverse, log_det = np.linalg.inv(wide), float(np.linalg.slogdet(wide)[1])
            prior = 0.5 * math.log(float(np.sum((variance + spread) ** -2.0))) + log_variance
            centre, sd = (x @ inverse @ y) / (x @ inverse @ x), (x @ inverse @ x) ** -0.5
            for slope in centre + sd * np.linspace(-7, 7, 41):
                off = y - slope * x
                fit = -0.5 * (log_det + off @ inverse @ off)
                cells.append((variance, float(slope), fit + prior, math.log(sd)))
        most = max(fit + step for _, _, fit, step in cells)
        total = sum(math.exp(fit + step - most) for _, _, fit, step in cells)
        return [(v, s, math.exp(fit + step - most) / total) for v, s, fit, step in cells]

    def moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Posterior mean and standard deviation of each model's rating, mean 0 over models."""
        n = len(self.y)
        q = contrasts(n)
        noise = q @ self.noise @ q.T
        first, second = np.zeros(n), np.zeros(n)
        for variance, slope, weight in self.weights(range(n)):
            if weight < 1e-12:
                continue
            gain = variance * np.linalg.inv(noise + variance * np.eye(n - 1))
            mean = q.T @ (slope * q @ self.x + gain @ (q @ self.y - slope * q @ self.x))
            left = q.T @ (variance * np.eye(n - 1) - gain * variance) @ q
            first += weight * mean
            second += weight * (np.diag(left) + mean**2)
        return first, np.sqrt(second - first**2)

    def surprise(self, model: int) -> float:
        """How probable it is that a model is as far from the others' prediction as it is."""
        n = len(self.y)
        others = [i for i in range(n) if i != model]
        q = contrasts(n)
        below = 0.0
        for variance, slope, weight in self.weights(others):
            if weight < 1e-12:
                continue
            wide = q @ self.noise @ q.T + variance * np.eye(n - 1)
            precision = q.T @ np.linalg.inv(wide) @ q  # conditional on the others, as of any normal
            off = (precision @ (self.y - slope * self.x))[model] / precision[model, model]
            below += weight * math.erfc(-off * math.sqrt(precision[model, model] / 2)) / 2
        return 2 * min(below, 1 - below)
