"""The peers' side of `bench.py`: one work in a fresh process, told as one line of JSON.

    .venv/peers/bin/python benchmarks/peers.py WORK FOLDER

Peers are called the fastest way their public functions allow. What would take minutes is timed
at two sizes and extrapolated along the line through them, so that no fixed cost is multiplied.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
from bench import best, peak_mb

Measured = dict[str, Any]


def whole(call: Callable[[], object]) -> Measured:
    """The time of a work done in full."""
    call()
    return best(call)


def part(call: Callable[[int], object], few: int, many: int, of: int, repeats: int = 3) -> Measured:
    """The time that `call(of)` would take, from `call(few)` and `call(many)`."""
    call(few)
    low, high = (best(lambda n=n: call(n), at_least=repeats, seconds=0) for n in (few, many))
    times = {name: low[name] + (high[name] - low[name]) * (of - few) / (many - few) for name in low}
    return times | {"measured": many, "of": of}


def codes(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sides and outcomes as numbers."""
    data = np.load(folder / f"{name}.npz")
    return data["a"].astype(np.int64), data["b"].astype(np.int64), data["outcome"]


def evalica_codes(folder: Path, name: str) -> tuple[Any, ...]:
    """Sides, winners and index in the form that evalica takes fastest."""
    import pandas as pd
    from evalica import Winner

    a, b, outcome = codes(folder, name)
    winners = np.array([Winner.X, Winner.Y, Winner.Draw], np.uint8)[outcome]
    return a, b, winners, pd.Index(np.arange(max(a.max(), b.max()) + 1))


def evalica_frame(folder: Path) -> tuple[Any, ...]:
    """Columns of a frame of names, as its users pass them; reading the winners is not timed."""
    import pandas as pd
    from evalica import Winner

    a, b, outcome = codes(folder, "arena")
    models = np.array([f"model-{i:06d}" for i in range(a.max() + 1)], object)
    winners = np.array([Winner.X, Winner.Y, Winner.Draw], object)[outcome]
    frame = pd.DataFrame({"left": models[a], "right": models[b], "winner": winners})
    return frame["left"], frame["right"], frame["winner"]


def elo(folder: Path) -> Measured:
    """Evalica's Elo in a loop, with nothing but shuffling and replaying repeated."""
    import evalica

    a, b, winners, index = evalica_codes(folder, "elo")
    rng = np.random.default_rng(1)

    def orders(n: int) -> None:
        for _ in range(n):
            order = rng.permutation(len(a))
            evalica.elo(a[order], b[order], winners[order], index=index, initial=1000, k=4)

    return part(orders, 10, 110, of=1000)


def fit(folder: Path) -> Measured:
    """Evalica's Bradley–Terry, which has no intervals of its own."""
    import evalica

    a, b, winners, index = evalica_codes(folder, "arena")
    return whole(lambda: evalica.bradley_terry(a, b, winners, index=index))


def fit_frame(folder: Path) -> Measured:
    """The same from a frame of names."""
    import evalica

    sides = evalica_frame(folder)
    return whole(lambda: evalica.bradley_terry(*sides))


def bootstrap(folder: Path) -> Measured:
    """Evalica's percentile bootstrap; it holds 8 MB per resample, so a few stand for all."""
    *battles, index = evalica_codes(folder, "arena")
    return part(partial(_bootstrap, battles, index), 5, 25, of=1000)


def bootstrap_frame(folder: Path) -> Measured:
    """The same from a frame of names."""
    return part(partial(_bootstrap, evalica_frame(folder), None), 5, 25, of=1000)


def _bootstrap(battles: Any, index: Any, n: int) -> None:
    import evalica

    evalica.bootstrap(
        evalica.bradley_terry,
        *battles,
        index=index,
        n_resamples=n,
        bootstrap_method="percentile",
        random_state=0,
    )


def bootstrap_large(folder: Path) -> Measured:
    """FastChat's public method, written anew: a multinomial draw of the (pair, outcome) cells
    per resample, each fitted by SciPy's L-BFGS-B in a pool of two processes.
    """
    found = part(partial(_multinomial, *codes(folder, "large")), 2, 10, of=100, repeats=1)
    del found["cpu"]  # that of the pool is not counted
    return found


def _multinomial(a: np.ndarray, b: np.ndarray, outcome: np.ndarray, n: int) -> np.ndarray:
    n_models = int(max(a.max(), b.max())) + 1
    cells, counts = np.unique((a * n_models + b) * 3 + outcome, return_counts=True)
    pairs = np.stack(np.divmod(cells // 3, n_models), axis=1)
    score = np.array([1.0, 0.0, 0.5])[cells % 3]
    drawn = np.random.default_rng(0).multinomial(len(a), counts / len(a), n) / len(a)
    with Pool(2) as pool:
        return np.array(list(pool.imap_unordered(partial(_lbfgs, pairs, score, n_models), drawn)))


def _lbfgs(pairs: np.ndarray, score: np.ndarray, n_models: int, share: np.ndarray) -> np.ndarray:
    from scipy.optimize import minimize

    start, options = np.zeros(n_models), {"maxiter": 100, "gtol": 1e-6}
    found = minimize(
        _loss, start, args=(pairs, score, share), jac=True, method="L-BFGS-B", options=options
    )
    return np.asarray(found.x)


def _loss(
    rating: np.ndarray, pairs: np.ndarray, score: np.ndarray, share: np.ndarray
) -> tuple[float, np.ndarray]:
    """The negative log-likelihood, and its gradient scattered to the models of each cell."""
    from scipy.special import expit

    both = rating[pairs]
    p = expit(np.log(10) * (both[:, 0] - both[:, 1]))
    loss = -np.sum(share * (score * np.log(p) + (1 - score) * np.log(1 - p)))
    change = np.log(10) * share * (p - score)
    gradient = np.zeros_like(rating)
    np.add.at(gradient, pairs, change[:, None] * np.array([1.0, -1.0]))
    return float(loss), gradient


def glicko2(folder: Path) -> Measured:
    """A player object per model, both updated after every vote from where they stood."""
    from glicko2 import Player

    a, b, outcome = (column.tolist() for column in codes(folder, "votes"))
    scores = [(1.0, 0.0, 0.5)[each] for each in outcome]

    def votes(n: int) -> None:
        players = [Player() for _ in range(max(a) + 1)]
        for i, j, score in zip(a[:n], b[:n], scores, strict=False):
            one, other = players[i], players[j]
            rating, rd = one.rating, one.rd
            one.update_player([other.rating], [other.rd], [score])
            other.update_player([rating], [rd], [1 - score])

    return part(votes, 10_000, 60_000, of=len(a))


def read(function: str, file: str) -> Callable[[Path], Measured]:
    """DuckDB's own reading of the same file into a table."""

    def measured(folder: Path) -> Measured:
        import duckdb

        query = f"CREATE TABLE t AS FROM {function}('{folder / file}')"
        return whole(lambda: duckdb.connect().execute(query))

    return measured


WORKS: dict[str, tuple[Callable[[Path], Measured], str, str]] = {
    "elo": (elo, "evalica", "evalica"),
    "fit": (fit, "evalica", "evalica"),
    "fit_frame": (fit_frame, "evalica", "evalica"),
    "bootstrap": (bootstrap, "evalica", "evalica"),
    "bootstrap_frame": (bootstrap_frame, "evalica", "evalica"),
    "bootstrap_large": (bootstrap_large, "FastChat way, SciPy", "scipy"),
    "glicko2": (glicko2, "glicko2", "glicko2"),
    "read": (read("read_json", "battles.jsonl"), "DuckDB", "duckdb"),
    "read_small": (read("read_csv", "battles.csv"), "DuckDB", "duckdb"),
}


def main() -> None:
    """Do one work and tell how long it took."""
    work, title, package = WORKS[sys.argv[1]]
    found = work(Path(sys.argv[2]))
    found |= {"version": f"{title} {version(package)}", "peak_mb": peak_mb()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
