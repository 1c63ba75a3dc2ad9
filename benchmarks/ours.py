"""Our side of `bench.py`: one work in a fresh process, told as one line of JSON.

    .venv/bin/python benchmarks/ours.py WORK FOLDER

The work `data` makes the battles that both sides take.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench import best, peak_mb

Call = Callable[[], object]
SIZES = {"elo": (10_000, 8), "arena": (87_231, 129), "large": (2_000_000, 300),
         "votes": (1_000_000, 50), "small": (1_000, 20)}  # fmt: skip
PER_QUESTION = 5


def battles(n: int, n_models: int) -> dict[str, np.ndarray]:
    """Battles between models of known skill, some met far more often than others.

    Skills are N(0, 150) Elo, exposure is lognormal, and a tie has the chance 1.4 p (1 - p),
    taken from both sides alike, so that the expected score is p (about 28 % are ties).
    """
    rng = np.random.default_rng(n)
    skill, exposure = rng.normal(0, 150, n_models), rng.lognormal(0, 1, n_models)
    share = exposure / exposure.sum()
    a, b = rng.choice(n_models, (2, n), p=share).astype(np.int32)
    while (same := a == b).any():
        b[same] = rng.choice(n_models, same.sum(), p=share)
    p = 1 / (1 + 10 ** ((skill[b] - skill[a]) / 400))
    tie = 1.4 * p * (1 - p)
    draw = rng.random(n)
    outcome = np.where(draw < tie, 2, draw >= p + tie / 2).astype(np.int8)
    question = rng.integers(0, n // PER_QUESTION, n, dtype=np.int32)
    return {"a": a, "b": b, "outcome": outcome, "question": question}


def names(kind: str, n: int) -> np.ndarray:
    """Names that sort as their numbers do."""
    return np.array([f"{kind}-{i:06d}" for i in range(n)], object)


def make_data(folder: Path) -> None:
    """Write what every work reads."""
    from arena_kit import write_battles
    from arena_kit.battles.log import Labels

    for name, size in SIZES.items():
        np.savez(folder / f"{name}.npz", **battles(*size))
    write_csv(folder)
    log = columns(folder, "votes")
    n = len(log["a"])
    log["dimension"] = Labels(names("dimension", 1), np.zeros(n, np.int32))
    log["battle_id"] = names("battle", n)
    write_battles(folder / "battles.jsonl", _log(log | {"question_id": questions(folder, "votes")}))


def write_csv(folder: Path) -> None:
    """The same small log as our command line reads it and as evalica's does."""
    data = np.load(folder / "small.npz")
    models = names("model", SIZES["small"][1])
    sides = {
        "battles.csv": (["model_a", "model_b", "winner"], ["model_a", "model_b", "tie"]),
        "peer.csv": (["left", "right", "winner"], ["left", "right", "tie"]),
    }
    for name, (header, outcomes) in sides.items():
        told = np.array(outcomes, object)[data["outcome"]]
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(header)
            rows.writerows(zip(models[data["a"]], models[data["b"]], told, strict=True))


def columns(folder: Path, name: str) -> dict[str, Any]:
    """The arrays a log is made of."""
    data = np.load(folder / f"{name}.npz")
    models = tuple(names("model", SIZES[name][1]))
    return {"models": models, "a": data["a"], "b": data["b"], "outcome": data["outcome"]}


def questions(folder: Path, name: str) -> Any:
    """The question of every battle."""
    from arena_kit.battles.log import Labels

    codes = np.load(folder / f"{name}.npz")["question"]
    return Labels(names("question", int(codes.max()) + 1), codes)


def frame(folder: Path, name: str) -> Any:
    """The battles as people have them: a frame of names."""
    import pandas as pd

    log = columns(folder, name)
    models = np.array(log["models"], object)
    told = np.array(["model_a", "model_b", "tie"], object)[log["outcome"]]
    return pd.DataFrame({"model_a": models[log["a"]], "model_b": models[log["b"]], "winner": told})


def _log(arrays: dict[str, Any]) -> Any:
    from arena_kit import BattleLog

    return BattleLog(**arrays)


def elo(folder: Path) -> Call:
    """Mean Elo over 1,000 orders; ties count half, as they do for the peer."""
    from arena_kit import PermutationElo

    log = columns(folder, "elo")
    method = PermutationElo(k=4, initial=1000, n_perms=1000, ties="half", evidence_replicates=0)
    return lambda: method(_log(log))


def bradley_terry(data: str, *, by_question: bool = False, **settings: Any) -> Callable[..., Call]:
    """Bradley–Terry from arrays of codes."""

    def prepared(folder: Path) -> Call:
        from arena_kit import BradleyTerry

        log = columns(folder, data)
        if by_question:
            log["question_id"] = questions(folder, data)
        method = BradleyTerry(prior=0.5, **settings)
        return lambda: method(_log(log))

    return prepared


def strengths(folder: Path) -> Call:
    """The strengths alone, without intervals."""
    from arena_kit import BradleyTerry

    log = columns(folder, "arena")
    return lambda: BradleyTerry().strengths(_log(log))


def bradley_terry_frame(**settings: Any) -> Callable[..., Call]:
    """Bradley–Terry from a frame of names."""

    def prepared(folder: Path) -> Call:
        from arena_kit import BradleyTerry
        from arena_kit.battles.read import battles_from_frame

        table = frame(folder, "arena")
        method = BradleyTerry(prior=0.5, **settings)
        return lambda: method(battles_from_frame(table))

    return prepared


def glicko2(folder: Path) -> Call:
    """One update per vote, without resamples."""
    from arena_kit.rating.glicko2 import Glicko2

    log = columns(folder, "votes")
    return lambda: Glicko2(evidence_replicates=0)(_log(log))


def read(file: str) -> Callable[[Path], Call]:
    """A file into a log."""

    def prepared(folder: Path) -> Call:
        from arena_kit import read_battles

        return lambda: read_battles(folder / file)

    return prepared


BOOTSTRAP: dict[str, Any] = {"interval": "percentile", "resamples": 1000}
WORKS: dict[str, Callable[[Path], Call]] = {
    "elo": elo,
    "strengths": strengths,
    "fit": bradley_terry("arena"),
    "fit_frame": bradley_terry_frame(),
    "bootstrap": bradley_terry("arena", **BOOTSTRAP),
    "bootstrap_questions": bradley_terry("arena", by_question=True, **BOOTSTRAP),
    "bootstrap_frame": bradley_terry_frame(**BOOTSTRAP),
    "bootstrap_large": bradley_terry("large", interval="percentile", resamples=100),
    "glicko2": glicko2,
    "read": read("battles.jsonl"),
    "read_small": read("battles.csv"),
}


def main() -> None:
    """Do one work and tell how long it took."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    if name == "data":
        make_data(folder)
        return
    start = time.perf_counter()
    call = WORKS[name](folder)
    call()
    first = {"first": time.perf_counter() - start, "first_cpu": time.process_time()}
    print(json.dumps(best(call) | first | {"peak_mb": peak_mb()}))


if __name__ == "__main__":
    main()
