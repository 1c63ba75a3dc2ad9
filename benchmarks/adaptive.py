"""How many calls does a tournament need when rounds go where they decide? Replayed, simulated.

    .venv/bin/python benchmarks/adaptive.py [--worlds 400] [--seed 7]

Each tournament is judged twice: in full, and in adaptive rounds that take the same verdicts. Per
setting: the share of all calls that the rounds made, the share of the full run's decided
neighbours that they decided too, and, where the truth is planted, the share of tournaments with
any decided pair whose order is false. The same for calls made at random until the same stop.
QLoRA's GPT-4 verdicts are read from $ARENA_KIT_DATA (default ../shared/data).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit import BattleLog, BradleyTerry, claims
from arena_kit.battles.log import Labels
from arena_kit.matchmaking.adaptive import AdaptiveRounds, Calls, Table
from arena_kit.rating.base import Ratings

METHOD = BradleyTerry(inconsistent="tie")
#: What the first model of a pair got (1, 0 or half), per pair and prompt; NaN: no verdict.
Shares = NDArray[np.float64]


class Played(NamedTuple):
    """A tournament that ended: its rating, and the calls that were made."""

    ratings: Ratings
    made: Calls


class Score(NamedTuple):
    """One tournament's part of a line."""

    used: float
    full: int
    found: int
    false: bool


def rated(models: tuple[str, ...], shares: Shares, made: Calls) -> Ratings:
    """The rating of the verdicts of some calls."""
    row, prompt = np.nonzero(made)
    low, high = np.array(list(combinations(range(len(models)), 2)), np.int32).T
    outcome = np.select([shares[made] == 1, shares[made] == 0], [0, 1], 2)
    names = np.array([f"q{i:05d}" for i in range(made.shape[1])], object)
    log = BattleLog(
        models=models,
        a=low[row],
        b=high[row],
        outcome=outcome.astype(np.int8),
        question_id=Labels(names, prompt.astype(np.int32)),
    )
    return METHOD(log)


def in_rounds(
    rounds: AdaptiveRounds, models: tuple[str, ...], shares: Shares, *, random: bool = False
) -> Played:
    """A tournament judged in rounds; `random` ones stop alike, but take any calls that are left."""
    table = Table(models, ~np.isnan(shares), np.zeros(shares.shape, bool))
    table = replace(table, made=rounds.first(table))
    rng = np.random.default_rng(rounds.seed)
    while True:
        ratings = rated(models, shares, table.made)
        chosen = rounds.next(table, ratings)
        if not chosen.any():
            return Played(ratings, table.made)
        if random:
            left = np.flatnonzero(table.left)
            picked = rng.choice(left, min(len(left), int(chosen.sum())), replace=False)
            chosen = np.isin(np.arange(table.left.size), picked).reshape(table.left.shape)
        table = replace(table, made=table.made | chosen)


def decided(ratings: Ratings) -> set[tuple[str, str]]:
    """Every two models, the first one above, whose order is decided."""
    names = ratings.models
    return {(names[i], names[j]) for i, j in zip(*np.nonzero(claims.decided(ratings)), strict=True)}


def neighbours(ratings: Ratings) -> set[tuple[str, str]]:
    """The neighbours of a ranking that are decided."""
    return decided(ratings) & set(pairwise(ratings.order))


def scored(
    rounds: AdaptiveRounds,
    shares: Shares,
    models: tuple[str, ...],
    truth: dict[str, float] | None,
    *,
    random: bool,
) -> Score:
    """One tournament, judged in full and in rounds."""
    possible = ~np.isnan(shares)
    wanted = neighbours(rated(models, shares, possible))
    played = in_rounds(rounds, models, shares, random=random)
    got = decided(played.ratings)
    false = truth is not None and any(truth[a] < truth[b] for a, b in got)
    return Score(played.made.sum() / possible.sum(), len(wanted), len(wanted & got), false)


def line(name: str, scores: list[Score], *, planted: bool) -> None:
    """Print what some tournaments gave together."""
    full, found = (sum(getattr(score, each) for score in scores) for each in ("full", "found"))
    false = f", false {100 * np.mean([s.false for s in scores]):.1f} % of runs" if planted else ""
    used = np.array([score.used for score in scores])
    print(
        f"{name}: {used.mean():.2f} of the calls ({used.min():.2f} to {used.max():.2f}), "
        f"{100 * found / max(1, full):.1f} % of {full} decided neighbours found{false}",
        flush=True,
    )


def world(
    rng: np.random.Generator, n: int, prompts: int, spread: float
) -> tuple[Shares, tuple[str, ...], dict[str, float]]:
    """Verdicts on models of known skill, on prompts that each favour some; a fifth are ties."""
    models = tuple(f"m{i}" for i in range(n))
    skill = rng.normal(0, spread, n)
    level = skill[:, None] + rng.normal(0, 60, (n, prompts))
    low, high = np.array(list(combinations(range(n), 2))).T
    won = rng.random((len(low), prompts)) < 1 / (1 + 10 ** ((level[high] - level[low]) / 400))
    shares = np.where(rng.random(won.shape) < 0.2, 0.5, won.astype(float))
    return shares, models, dict(zip(models, skill.tolist(), strict=True))


def qlora(file: Path) -> tuple[Shares, tuple[str, ...]]:
    """QLoRA's verdicts, both orders settled as ours are; an unparsed one leaves its call out."""
    verdicts: dict[tuple[str, str, str], str] = {}
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            verdicts[row["question_id"], row["first_model"], row["second_model"]] = row["verdict"]
    models = tuple(sorted({first for _, first, _ in verdicts}))
    prompts = sorted({question for question, _, _ in verdicts})
    first = {"first": 1.0, "second": 0.0, "tie": 0.5, "unparsed": np.nan}
    pairs = list(combinations(models, 2))
    shares = np.full((len(pairs), len(prompts)), np.nan)
    for i, (a, b) in enumerate(pairs):
        for j, prompt in enumerate(prompts):
            one = first[verdicts.get((prompt, a, b), "unparsed")]
            two = 1 - first[verdicts.get((prompt, b, a), "unparsed")]
            shares[i, j] = one if one == two else 0.5 if one + two >= 0 else np.nan
    return shares, models


def main() -> None:
    """Print every line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=400)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--replays", type=int, default=10)
    options = parser.parse_args()
    data = Path(os.environ.get("ARENA_KIT_DATA", "../shared/data"))
    if (file := data / "qlora_gpt4_judge" / "verdicts.csv.gz").is_file():
        shares, models = qlora(file)
        for random in (False, True):
            played = [
                scored(AdaptiveRounds(seed=seed), shares, models, None, random=random)
                for seed in range(options.seed, options.seed + options.replays)
            ]
            name = "random calls" if random else "adaptive"
            line(f"QLoRA oa, 7 models x 953 prompts, {name}", played, planted=False)
    for spread in (100, 150, 200, 300):
        for random in (False, True):
            rng = np.random.default_rng([options.seed, spread])
            played = []
            for seed in range(options.worlds):
                n, prompts = int(rng.integers(6, 9)), int(rng.choice([80, 120, 200]))
                shares, models, truth = world(rng, n, prompts, spread)
                rounds = AdaptiveRounds(seed=seed)
                played.append(scored(rounds, shares, models, truth, random=random))
            name = "random calls" if random else "adaptive"
            line(f"6 to 8 models (SD {spread}) x 80 to 200 prompts, {name}", played, planted=True)


if __name__ == "__main__":
    main()
