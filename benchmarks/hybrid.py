"""What are verdicts worth beside human votes, and do the intervals hold? Measured both ways.

    .venv/bin/python benchmarks/hybrid.py [votes|planted|decided|placement ...] [--draws N]
        [--seed N] [--judges NAME ...]

Reads chatbot_arena_27k from $ARENA_KIT_DATA (default ../shared/data). Four tables:

votes      26,919 battles that people and three judges decided are the population: its ratings by
           people are the truth. Each draw takes 26,919 battles from it with replacement, all with
           verdicts, the first 500, 1,000 or 2,000 with votes.
planted    20 models with skills of SD 120 Elo, a judge with errors of its own, votes and verdicts
           drawn from them: nothing is estimated from what it is compared with. One model has no
           votes and is placed. The last judge errs by 15 points but puts one model 200 too high.
decided    The same planted boards: how many orders are called decided, by votes alone and by both,
           how many boards call one that is false, and on how many all true ranks are possible.
placement  A model of the 27k set is placed among 5 to 9 others, drawn at random, by one judge: its
           rating by its own votes is the truth, and those votes are hidden. That rating has noise
           of its own; the last columns allow for it.

An interval covers when it holds the truth. The effective sample is how many times as many votes
alone would do as well: by squared error, and as the intervals say (mean squared width).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from arena_kit import BattleLog, BradleyTerry, Hybrid, claims, read_battles
from arena_kit.battles.battle import Source
from arena_kit.battles.log import Labels
from arena_kit.rating.base import Ratings
from arena_kit.rating.with_judge.hybrid import HybridRatings
from arena_kit.rating.with_judge.placement import Placement

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator], tuple[BattleLog, BattleLog, dict[str, float]]]

JUDGES = ("gpt-4-0125-preview", "claude-3-opus-20240229", "gpt-3.5-turbo")
SIZES = (500, 1000, 2000)
OTHERS = (5, 6, 7, 8, 9)
METHOD = BradleyTerry()
DATA = Path(os.environ.get("ARENA_KIT_DATA") or Path(__file__).parents[2] / "shared" / "data")

#: A planted judge: how far its gaps are spread, the SD of its errors, and whether it knows skills.
PLANTED = {
    "errs by 15": (1.3, 15.0, True),
    "errs by 40": (1.3, 40.0, True),
    "errs by 100": (1.0, 100.0, True),
    "knows nothing": (1.0, 120.0, False),
    "tosses a coin": (0.0, 0.0, False),
    "one 200 too high": (1.0, 15.0, True),
}
MODELS, VERDICTS = 20, 10_000


@dataclass(frozen=True)
class Board:
    """One draw: squared errors, hits and widths of people alone and both together."""

    squares: Floats
    hits: Floats
    widths: Floats
    unvoted: list[bool]
    named: tuple[str, ...]
    worth: float


def board(found: HybridRatings, truth: dict[str, float]) -> Board:
    """What a draw gave, against the truth."""
    models = found.people.models
    shown = [found.people, found.ratings]
    columns = np.array([_columns(each, models) for each in shown])
    target = np.array([truth[m] for m in models])
    rating, low, high = columns[:, 0], columns[:, 1], columns[:, 2]
    others = [found.ratings[m] for m in truth if m not in models]
    return Board(
        squares=(rating - target) ** 2,
        hits=(low <= target) & (target <= high),
        widths=high - low,
        unvoted=[bool((r.ci_low or 0) <= truth[r.model] <= (r.ci_high or 0)) for r in others],
        named=tuple(each.model for each in found.disagreements),
        worth=found.worth.votes,
    )


def _columns(ratings: Ratings, models: tuple[str, ...]) -> Floats:
    rows = [ratings[m] for m in models]
    return np.array([[r.rating, r.ci_low, r.ci_high] for r in rows], float).T


def boards(draw: Draw, draws: int, seed: list[int]) -> list[Board]:
    """Draws of one setting, each from a generator of its own."""
    out = []
    for k in range(draws):
        human, judged, truth = draw(np.random.default_rng([*seed, k]))
        out.append(board(Hybrid()(human, judged), truth))
    return out


def line(found: list[Board]) -> list[str]:
    """The figures of one setting."""
    squares, hits, widths = (
        [np.concatenate([getattr(each, name)[k] for each in found]) for k in range(2)]
        for name in ("squares", "hits", "widths")
    )
    same = [each for each in found if each.hits.shape[1] == max(b.hits.shape[1] for b in found)]
    worst = np.mean([each.hits for each in same], axis=0).min(axis=1)
    ratio = widths[1] / widths[0]
    return [
        f"{100 * hits[0].mean():.1f}",
        f"{100 * hits[1].mean():.1f}",
        f"{100 * worst[1]:.0f}",
        f"{squares[0].mean() / squares[1].mean():.2f}",
        f"{(widths[0] ** 2).mean() / (widths[1] ** 2).mean():.2f}",
        f"{np.median(ratio):.2f}",
        f"{ratio.max():.3f}",
        f"{np.median([each.worth for each in found]):.0f}",
    ]


COLUMNS = (
    "people cover %|both cover %|worst model %|effective, by error|by width|median width ratio"
    "|largest|worth, votes per model"
).split("|")


CLAIMED = ("orders decided", "boards with a false one %", "boards with all ranks in range %")


def table(first: list[str], rows: Iterator[list[str]], columns: list[str]) -> None:
    """Print a table row by row."""
    names = [*first, *columns]
    print("| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def real(judge: str) -> tuple[BattleLog, BattleLog]:
    """The 27k set: people's votes and a judge's verdicts."""
    file = DATA / "chatbot_arena_27k" / "battles.csv.gz"
    human = read_battles(file, winner="human").of_source(Source.HUMAN)
    return human, read_battles(file, winner=judge).of_source(Source.LLM_JUDGE, judge)


def votes_rows(draws: int, seed: int, judges: list[str]) -> Iterator[list[str]]:
    """The 27k set, judge by judge."""
    for judge in judges:
        human, judged = real(judge)
        truth = {row.model: row.rating for row in METHOD(human).ratings}
        for n in SIZES:

            def draw(
                rng: np.random.Generator, human: BattleLog = human, judged: BattleLog = judged,
                n: int = n, truth: dict[str, float] = truth,
            ) -> tuple[BattleLog, BattleLog, dict[str, float]]:  # fmt: skip
                rows = rng.integers(0, len(human), len(human))
                return again(human, rows[:n]), again(judged, rows), truth

            yield [judge, f"{n:,}", *line(boards(draw, draws, [seed, 1, JUDGES.index(judge), n]))]


def again(log: BattleLog, rows: NDArray[np.int64]) -> BattleLog:
    """Battles drawn with replacement, each on a question of its own."""
    names = np.array([f"q{k:06d}" for k in range(len(rows))], object)
    return replace(log.select(rows), question_id=Labels(names, np.arange(len(rows), dtype="i4")))


@dataclass(frozen=True)
class Planted:
    """Draws from planted skills; `new` has no votes."""

    judge: str
    votes: int

    def __call__(self, rng: np.random.Generator) -> tuple[BattleLog, BattleLog, dict[str, float]]:
        slope, error, knows = PLANTED[self.judge]
        skill = rng.normal(0, 120, MODELS)
        skill -= skill[1:].mean()
        theirs = slope * (knows * skill + rng.normal(0, error, MODELS))
        theirs[-1] += 200 * (self.judge == "one 200 too high")
        a = rng.integers(0, MODELS, VERDICTS)
        b = (a + rng.integers(1, MODELS, VERDICTS)) % MODELS
        luck = rng.random((2, VERDICTS))
        luck[1] = np.where(rng.random(VERDICTS) < 0.3, luck[0], luck[1])  # they see battles alike
        names = ("a-new", *(f"m{i:02d}" for i in range(1, MODELS)))
        human, judged = (
            BattleLog(
                models=names, a=a.astype("i4"), b=b.astype("i4"), outcome=outcome,
                question_id=Labels(QUESTIONS, np.arange(VERDICTS, dtype="i4")),
            )
            for outcome in (_played(skill, a, b, luck[0]), _played(theirs, a, b, luck[1]))
        )  # fmt: skip
        old = np.flatnonzero((a > 0) & (b > 0))[: self.votes]
        truth = dict(zip(names, (1000 + skill).tolist(), strict=True))
        return human.select(old), judged, truth


QUESTIONS = np.array([f"q{k:06d}" for k in range(VERDICTS)], object)


def _played(skill: Floats, a: NDArray[np.int64], b: NDArray[np.int64], luck: Floats) -> Floats:
    """Outcomes whose expected score is that of Bradley–Terry, ties included."""
    p = 1 / (1 + 10 ** ((skill[b] - skill[a]) / 400))
    tie = 1.4 * p * (1 - p)
    won = p - tie / 2
    return np.where(luck < won, 0, np.where(luck < won + tie, 2, 1)).astype(np.int8)


def planted_rows(draws: int, seed: int, judges: list[str]) -> Iterator[list[str]]:
    """Planted judges, from good to useless."""
    for judge in judges:
        for n in SIZES:
            found = boards(Planted(judge, n), draws, [seed, 2, [*PLANTED].index(judge), n])
            placed = 100 * np.mean([hit for each in found for hit in each.unvoted])
            last = f"m{MODELS - 1:02d}"
            others = 100 * np.mean([bool({*each.named} - {last}) for each in found])
            it = 100 * np.mean([last in each.named for each in found])
            extra = [f"{placed:.1f}", f"{others:.0f}", f"{it:.0f}"]
            yield [judge, f"{n:,}", *line(found), *extra]


def decided_rows(draws: int, seed: int, judges: list[str]) -> Iterator[list[str]]:
    """Claims about the order of planted boards, by votes alone and by both."""
    for judge in judges:
        for n in SIZES:
            found: list[list[float]] = []
            for k in range(draws):
                rng = np.random.default_rng([seed, 5, [*PLANTED].index(judge), n, k])
                human, judged, truth = Planted(judge, n)(rng)
                both = Hybrid()(human, judged)
                found.append([*claimed(both.people, truth), *claimed(both.ratings, truth)])
            alone, wrong, ranks, *together = np.mean(found, axis=0)
            cells = [(alone, 1), (together[0], 1), (wrong, 100), (together[1], 100)]
            cells += [(ranks, 100), (together[2], 100)]
            yield [judge, f"{n:,}", *(f"{value * scale:.1f}" for value, scale in cells)]


def claimed(ratings: Ratings, truth: dict[str, float]) -> list[float]:
    """The decided orders, whether one is false, and whether all true ranks are possible."""
    skill = np.array([truth[m] for m in ratings.models])
    clear, ranges = claims.decided(ratings), claims.rank_ranges(ratings)
    order = sorted(ratings.models, key=lambda m: -truth[m])
    rows = [(ranges[m] or (1, len(order)), rank) for rank, m in enumerate(order, 1)]
    held = all(best <= rank <= worst for (best, worst), rank in rows)
    return [float(clear.sum()), bool((clear & (skill[:, None] < skill)).any()), held]


def placement_rows(draws: int, seed: int, judges: list[str]) -> Iterator[list[str]]:
    """One model placed among few others, by Placement and by Hybrid. Toned down, which changes
    GPT-4's verdicts only and takes ten times as long, half of the draws are made.
    """
    for soft, judge in [*((False, judge) for judge in judges), (True, JUDGES[0])]:
        human, judged = real(judge)
        for k in OTHERS:
            rng = np.random.default_rng([seed, 3 + soft, JUDGES.index(judge), k])
            hits: list[list[bool]] = []
            widths: list[list[float]] = []
            for _ in range(draws // 2 if soft else draws):
                chosen = [human.models[i] for i in rng.permutation(len(human.models))[: k + 1]]
                found = placed(human.among(chosen), judged.among(chosen), chosen[0], soft)
                hits.append([each.hit(noisy=noisy) for noisy in (False, True) for each in found])
                widths.append([each.half for each in found])
            strict = zip(np.mean(hits, axis=0), np.median(widths, axis=0), strict=False)
            cells = [f"{100 * hit:.1f} (± {half:.0f})" for hit, half in strict]
            cells += [f"{100 * hit:.1f}" for hit in np.mean(hits, axis=0)[2:]]
            yield [judge, "toned down" if soft else "in full", str(k), *cells]


@dataclass(frozen=True)
class Spot:
    """How far a model is placed from its rating by hidden votes, the interval's half-width, and
    the standard error of the rating by hidden votes.
    """

    off: float
    half: float
    noise: float

    def hit(self, *, noisy: bool) -> bool:
        """Whether the interval holds that rating; `noisy` allows for its own noise."""
        return abs(self.off) <= np.hypot(self.half, 1.96 * self.noise * noisy)


def placed(human: BattleLog, judged: BattleLog, model: str, soft: bool) -> list[Spot]:
    """The model's place by both ways."""
    found = Placement(model=model, min_battles=0, soft=soft, method=METHOD)(human, judged)
    row, hidden = found.cautious, found.hidden
    if row is None or hidden is None:
        raise ValueError(f"{model} cannot be compared")
    both = Hybrid()(human.among(m for m in human.models if m != model), judged).ratings[model]
    return [
        Spot(
            (each.ci_low + each.ci_high) / 2 - hidden.rating,
            (each.ci_high - each.ci_low) / 2,
            hidden.extra["se"],
        )
        for each in (row, both)
    ]


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", default=["votes", "planted", "decided", "placement"])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2027)
    parser.add_argument("--judges", nargs="*", default=[*JUDGES, *PLANTED])
    asked = parser.parse_args()
    real_ones = [judge for judge in JUDGES if judge in asked.judges]
    planted_ones = [judge for judge in PLANTED if judge in asked.judges]
    if "votes" in asked.tables:
        table(["judge", "votes"], votes_rows(asked.draws, asked.seed, real_ones), COLUMNS)
    if "planted" in asked.tables:
        extra = ["new model covers %", "boards naming another %", "naming the one %"]
        rows = planted_rows(asked.draws, asked.seed, planted_ones)
        table(["planted judge", "votes"], rows, [*COLUMNS, *extra])
    if "decided" in asked.tables:
        ways = [f"{what}, {who}" for what in CLAIMED for who in ("people", "both")]
        rows = decided_rows(asked.draws, asked.seed, planted_ones)
        table(["planted judge", "votes"], rows, ways)
    if "placement" in asked.tables:
        first = ["judge", "verdicts", "others"]
        ways = ["Placement covers %", "Hybrid covers %", "Placement, noise allowed", "Hybrid"]
        table(first, placement_rows(asked.draws, asked.seed, real_ones), ways)


if __name__ == "__main__":
    main()
