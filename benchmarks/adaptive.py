"""How many calls does a tournament need when rounds go where they decide? Replayed, simulated.

    .venv/bin/python benchmarks/adaptive.py [--worlds 400] [--replays 5] [--seed 7]

Each tournament is judged twice: in full, in every order that there is, and in adaptive rounds that
take the same verdicts; one order of a pair is one call. Per set: the share of all calls that the
rounds made, the share of the full run's decided neighbours that they decided, too (the full run
read at the rounds' level, and at that of one look), decided pairs that the full run decided the
other way round, and, where the truth is planted, the share of tournaments with any decided pair
whose order is false. Real verdicts are read from $ARENA_KIT_DATA (default ../shared/data).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise
from math import log as ln
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit import BattleLog, BradleyTerry, claims
from arena_kit.battles.log import Labels
from arena_kit.matchmaking.adaptive import AdaptiveRounds, Calls, Table
from arena_kit.rating.base import Ratings, rated_or_none

LOOKS = 12  # as `Plan.looks` has it
LARGE = 50_000  # calls that a table has room for, from which a set is replayed once
DATA = Path(os.environ.get("ARENA_KIT_DATA", "../shared/data"))
JUDGES_27K = ("gpt-4-0125-preview", "gpt-3.5-turbo", "claude-3-opus-20240229")
LLMBAR = ("GPT-4", "ChatGPT", "LLaMA2", "PaLM2", "Falcon")
#: What the first model of a pair got (1, 0 or half), by pair, prompt and order; NaN: no verdict.
Shares = NDArray[np.float64]
Pairs = set[tuple[str, str]]
#: A prompt, the model shown first, the one shown second, and what the first got.
Game = tuple[str, str, str, float]


class Verdicts(NamedTuple):
    """The verdicts of a set and its models; `apart`: every battle is on a question of its own."""

    shares: Shares
    models: tuple[str, ...]
    apart: bool = False

    @property
    def possible(self) -> Calls:
        """The calls that have a verdict."""
        return ~np.isnan(self.shares)


class Score(NamedTuple):
    """One tournament's part of a line."""

    used: float
    rounds: int
    full: int
    found: int
    full_once: int
    found_once: int
    reversed: int
    false: bool | None


def settled(shares: Shares, made: Calls) -> Shares:
    """What each pair on each prompt is settled as: orders that differ are a tie; NaN: not asked."""
    one, other = np.moveaxis(np.where(made, shares, np.nan), 2, 0)
    both = np.where(one == other, one, 0.5)
    return np.where(np.isnan(one), other, np.where(np.isnan(other), one, both))


def rated(of: Verdicts, made: Calls, looks: int = LOOKS) -> Ratings | None:
    """The rating of the verdicts of some calls."""
    share = settled(of.shares, made)
    row, prompt = np.nonzero(~np.isnan(share))
    given = share[row, prompt]
    low, high = np.array(list(combinations(range(len(of.models)), 2)), np.int32).T
    question = np.arange(len(row)) if of.apart else prompt
    names = np.array([f"q{i:05d}" for i in range(1 + question.max())], object)
    log = BattleLog(
        models=of.models,
        a=low[row],
        b=high[row],
        outcome=np.select([given == 1, given == 0], [0, 1], 2).astype(np.int8),
        question_id=Labels(names, question.astype(np.int32)),
    )
    method = BradleyTerry(inconsistent="tie", looks=looks)
    return rated_or_none(method, log) if log.per_model().all() else None


def in_rounds(method: AdaptiveRounds, of: Verdicts) -> tuple[Ratings | None, Calls, int]:
    """A tournament judged in rounds: its rating, the calls that were made, how many rounds."""
    nothing = np.full(of.shares.shape, np.nan)
    table = Table(of.models, of.possible, np.zeros_like(of.possible), nothing)
    ratings, n = None, 0
    while (chosen := method.next(table, ratings) if ratings else method.first(table)).any():
        made, n = table.made | chosen, n + 1
        table = replace(table, made=made, shares=np.where(made, of.shares, np.nan))
        ratings = rated(of, made)
    return ratings, table.made, n


def decided(ratings: Ratings | None) -> Pairs:
    """Every two models, the first one above, whose order is decided."""
    if ratings is None:
        return set()
    names = ratings.models
    return {(names[i], names[j]) for i, j in zip(*np.nonzero(claims.decided(ratings)), strict=True)}


def in_full(of: Verdicts) -> tuple[Pairs, Pairs, Pairs]:
    """Of a full run: the neighbours that are decided at the rounds' level and at that of one look,
    and every pair that is decided at either.
    """
    once, often = (rated(of, of.possible, looks) for looks in (1, LOOKS))
    order = set(pairwise(once.order)) if once else set()
    return decided(often) & order, decided(once) & order, decided(often) | decided(once)


def scored(
    method: AdaptiveRounds,
    of: Verdicts,
    full: tuple[Pairs, Pairs, Pairs],
    truth: dict[str, float] | None = None,
) -> Score:
    """One tournament judged in rounds, held against the full run."""
    often, once, every = full
    ratings, made, rounds = in_rounds(method, of)
    got = decided(ratings)
    return Score(
        used=made.sum() / of.possible.sum(),
        rounds=rounds,
        full=len(often),
        found=len(often & got),
        full_once=len(once),
        found_once=len(once & got),
        reversed=sum((below, above) in every for above, below in got),
        false=None if truth is None else any(truth[a] < truth[b] for a, b in got),
    )


def share_found(found: int, full: int) -> str:
    """How many of the full run's decided neighbours were found."""
    return f"{100 * found / full:.1f} % of {full}" if full else "none decided"


def line(name: str, scores: list[Score]) -> None:
    """Print what some tournaments gave together, as a row of a table."""
    total = {name: sum(getattr(s, name) for s in scores) for name in Score._fields[2:7]}
    planted = [score.false for score in scores if score.false is not None]
    used, rounds = (np.array([getattr(s, name) for s in scores]) for name in Score._fields[:2])
    cells = [
        name,
        f"{used.mean():.2f} ({used.min():.2f} to {used.max():.2f})",
        f"{rounds.mean():.0f} (at most {rounds.max()})",
        *(share_found(total[f"found{look}"], total[f"full{look}"]) for look in ("", "_once")),
        f"{total['reversed']}",
        f"{100 * np.mean(planted):.1f} % of {len(planted)}" if planted else "–",
    ]
    print(f"| {' | '.join(cells)} |", flush=True)


def world(
    rng: np.random.Generator, n: int, prompts: int, spread: float, bias: float
) -> tuple[Verdicts, dict[str, float]]:
    """Verdicts on models of known skill, on prompts that each favour some, in both orders: each
    order adds noise of its own and, on the logit scale, a bias towards what is shown first.
    """
    models = tuple(f"m{i}" for i in range(n))
    skill = rng.normal(0, spread, n)
    level = ln(10) / 400 * (skill[:, None] + rng.normal(0, 60, (n, prompts)))
    low, high = np.array(list(combinations(range(n), 2))).T
    better = level[low] - level[high] + rng.logistic(0, 1, (len(low), prompts))
    seen = better[..., None] + rng.normal(0, 0.8, (*better.shape, 2)) + np.array([bias, -bias])
    shares = np.where(np.abs(seen) < 0.35, 0.5, (seen > 0).astype(float))
    return Verdicts(shares, models), dict(zip(models, skill.tolist(), strict=True))


def table_of(verdicts: Iterable[Game]) -> Verdicts:
    """Verdicts as shares."""
    given = list(verdicts)
    models = tuple(sorted({model for _, *two, _ in given for model in two}))
    rows = {pair: n for n, pair in enumerate(combinations(models, 2))}
    columns = {prompt: n for n, prompt in enumerate(dict.fromkeys(each[0] for each in given))}
    shares = np.full((len(rows), len(columns), 2), np.nan)
    for prompt, first, second, share in given:
        swapped = first > second
        row = rows[(second, first) if swapped else (first, second)]
        shares[row, columns[prompt], int(swapped)] = 1 - share if swapped else share
    return Verdicts(shares, models)


def rows_of(file: str) -> Iterator[dict[str, str]]:
    """The rows of a file of the data folder."""
    with gzip.open(DATA / file, "rt", encoding="utf-8") as lines:
        yield from csv.DictReader(lines)


def qlora() -> Verdicts:
    """QLoRA's GPT-4 verdicts on `oa`, every pair in both orders; an unparsed one is left out."""
    share = {"first": 1.0, "second": 0.0, "tie": 0.5, "unparsed": np.nan}
    return table_of(
        (row["question_id"], row["first_model"], row["second_model"], share[row["verdict"]])
        for row in rows_of("qlora_gpt4_judge/verdicts.csv.gz")
    )


def mtbench(turn: str) -> Verdicts:
    """GPT-4 on one turn of MT-bench. Its file has both orders settled: a winner was named in both,
    and where the orders contradict each other the first slot is taken to have won twice.
    """
    share = {"model_a": (1.0, 0.0), "model_b": (0.0, 1.0), "tie": (0.5, 0.5)}
    return table_of(
        (row["question_id"], *two, won)
        for row in rows_of("mtbench_human_gpt4/gpt4_pair.csv.gz")
        if row["turn"] == turn
        for two, won in zip(
            ((row["model_a"], row["model_b"]), (row["model_b"], row["model_a"])),
            share.get(row["winner"], (1.0, 1.0)),
            strict=True,
        )
    )


def llmbar(judge: str) -> Verdicts:
    """A judge of LLMBar's 419 instances, plain prompting: the better output against the other."""
    return table_of(
        (row["subset"] + row["idx"], *names, float(row[winner] == shown[0]))
        for row in rows_of("llmbar/judge_verdicts.csv.gz")
        if row["judge"] == judge and row["prompting"] == "Vanilla"
        if row["subset"].startswith("LLMBar/")
        for winner, shown in (("winner_original_order", "12"), ("winner_swapped_order", "21"))
        if row[winner]
        for names in [["better" if each == row["gold"] else "worse" for each in shown]]
    )


def llmfao(judge: str) -> Verdicts:
    """A judge of LLMFAO, which saw each pair in one order."""
    share = {"left": 1.0, "right": 0.0, "tie": 0.5}
    return table_of(
        (row["prompt"], row["left"], row["right"], share[row["winner"]])
        for row in rows_of(f"llmfao/{judge}-comparisons.csv.gz")
    )


def arena_27k(judge: str) -> Verdicts:
    """A judge of Chatbot Arena's 27k battles, which saw each in one order; every battle is on a
    question of its own, so that those of each pair are merely numbered.
    """
    share, met = {"a": 1.0, "b": 0.0}, Counter[frozenset[str]]()
    games: list[Game] = []
    for row in rows_of("chatbot_arena_27k/battles.csv.gz"):
        met[pair := frozenset((row["model_a"], row["model_b"]))] += 1
        won = share.get(row[judge], 0.5)
        games.append((str(met[pair]), row["model_a"], row["model_b"], won))
    return table_of(games)._replace(apart=True)


SETS: dict[str, Callable[[], Verdicts]] = {
    "QLoRA oa": qlora,
    **{f"MT-bench, turn {turn}": partial(mtbench, turn) for turn in "12"},
    **{f"LLMBar, {judge}": partial(llmbar, judge) for judge in LLMBAR},
    **{f"LLMFAO, {judge}": partial(llmfao, judge) for judge in ("gpt3", "gpt4")},
    **{f"27k, {judge}": partial(arena_27k, judge) for judge in JUDGES_27K},
}


def replayed(name: str, of: Verdicts, seeds: range) -> list[Score]:
    """Print a line of one set, replayed with each seed, or once where it is large."""
    full = in_full(of)
    some = seeds[:1] if of.shares.size > LARGE else seeds
    scores = [scored(AdaptiveRounds(seed=seed), of, full) for seed in some]
    line(f"{name}, {len(of.models)} models", scores)
    return scores * (len(seeds) // len(scores))


def print_real(seeds: range) -> None:
    """A line for each real set and for all of them, each with the same weight."""
    every = [score for name, of in SETS.items() for score in replayed(name, of(), seeds)]
    line(f"all {len(SETS)} sets", every)


def print_banks(seed: int) -> None:
    """A line for QLoRA's prompts in banks of a usual size."""
    whole = qlora()
    banks = [whole._replace(shares=whole.shares[:, start::8]) for start in range(8)]
    scores = [scored(AdaptiveRounds(seed=seed), bank, in_full(bank)) for bank in banks]
    line("QLoRA oa in 8 banks of 119 or 120 prompts", scores)


def print_simulated(worlds: int, seed: int) -> None:
    """A line for each spread of skills, and one for a judge with a strong position bias."""
    for spread, bias in ((100, 0.3), (150, 0.3), (200, 0.3), (300, 0.3), (150, 1.5)):
        rng = np.random.default_rng([seed, spread, int(10 * bias)])
        scores = []
        for number in range(worlds // 4):
            n, prompts = int(rng.integers(6, 9)), int(rng.choice([80, 120, 200]))
            of, truth = world(rng, n, prompts, spread, bias)
            scores.append(scored(AdaptiveRounds(seed=number), of, in_full(of), truth))
        line(f"simulated, SD {spread}, position bias {bias}", scores)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=400)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--replays", type=int, default=5)
    options = parser.parse_args()
    head = ("set", "calls", "rounds", "found", "of one look", "reversed", "false")
    for row in (head, ["---"] * len(head)):
        print(f"| {' | '.join(row)} |")
    if DATA.is_dir():
        print_real(range(options.seed, options.seed + options.replays))
        print_banks(options.seed)
    print_simulated(options.worlds, options.seed)


if __name__ == "__main__":
    main()
