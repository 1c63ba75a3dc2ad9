"""Are claims true as often as they say? Simulated, with the truth known.

    .venv/bin/python benchmarks/claims.py ranges       # all rank ranges at once
    .venv/bin/python benchmarks/claims.py voters       # 95 % intervals with voter effects
    .venv/bin/python benchmarks/claims.py questions    # few questions, and P(above)
    .venv/bin/python benchmarks/claims.py seasons      # false "decided" over 80 looks
    .venv/bin/python benchmarks/claims.py policy       # the same under policy v2's own votes

`--worlds` says how many samples each table is made of, `--seed` which; `--rows` picks rows of the
last table, which takes seconds per world. Models meet on questions
and before voters, each of which may suit a model more or less. With p the chance that the first
side is better there, a battle is a tie with probability 1.4 p (1 - p), and the rest is shared so
that its expected score is p. The truth is the population value of Bradley–Terry: its fit to the
expected scores of all pairs, each as often as it meets (see benchmarks/intervals.py).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import log as ln
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit import BattleLog, BradleyTerry, claims
from arena_kit.battles.battle import A_WINS, B_WINS, BOTH_BAD, OUTCOMES, TIE
from arena_kit.battles.log import Labels
from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.simulation import played
from arena_kit.matchmaking.world import World, planted
from arena_kit.policy.constants import Decide, Policy
from arena_kit.rating.base import Ratings
from arena_kit.rating.bradley_terry.clusters import Cluster
from arena_kit.rating.critical_values import normal_score, span_scores

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

SEED = 20
EVERY, VOTES, TOP = 250, 20_000, 8
SHOWN = (2_500, 5_000, 10_000, 20_000)
SHOWN_POLICY = (2_500, 4_500, 5_000, 10_000, 20_000)
#: The bar of single gaps that earlier simulations went by, beside the level of the package.
SINGLE = 2.58
#: Resampling is slow: one world in so many measures its intervals.
BOOTSTRAP_EVERY = 10


def win_rate(gap: Floats) -> Floats:
    """The expected score of a side that is `gap` Elo ahead."""
    return 1 / (1 + 10 ** (-gap / 400))


def verdicts(p: Floats, rng: np.random.Generator) -> NDArray[np.int8]:
    """Outcomes with expected score `p`, of which 1.4 p (1 - p) are ties."""
    tie, u = 1.4 * p * (1 - p), rng.random(len(p))
    return np.where(u < p - tie / 2, A_WINS, np.where(u < p + tie / 2, TIE, B_WINS)).astype(np.int8)


def all_pairs(n: int) -> Ints:
    """The first and the second side of every pair."""
    return np.stack(np.triu_indices(n, 1)).astype(np.int32)


def population(expected: Floats, share: Floats, n: int) -> Floats:
    """The Bradley–Terry fit to pairs' expected scores, centred; without any code of the package."""
    first, second = all_pairs(n)
    contrast = np.eye(n)[first] - np.eye(n)[second]
    rating = np.zeros(n)
    for _ in range(50):
        p = win_rate(contrast @ rating)
        slope = contrast.T @ (share * (expected - p))
        bend = contrast.T @ ((share * p * (1 - p))[:, None] * contrast)
        rating += np.linalg.solve(bend + 1 / n, slope) / (ln(10) / 400)
    return np.asarray(rating - rating.mean())


def expected_scores(skill: Floats, sd: float) -> Floats:
    """Every pair's expected score where each model's strength varies with this deviation."""
    first, second = all_pairs(len(skill))
    x, weight = np.polynomial.hermite_e.hermegauss(60)
    noise = np.sqrt(2) * sd * x
    gap = (skill[first] - skill[second])[:, None] + noise
    return np.asarray(win_rate(gap) @ (weight / weight.sum()))


def labels(codes: NDArray[np.integer], n: int) -> Labels:
    """A column of numbered names."""
    return Labels(np.array([f"{i:06d}" for i in range(n)], object), codes.astype(np.int32))


def named(n: int) -> tuple[str, ...]:
    """Models whose alphabetical order is that of their numbers."""
    return tuple(f"m{i:02d}" for i in range(n))


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How battles come about; deviations in Elo.

    Without `battles`, every pair meets on every question. With, pairs are drawn at random, the
    models as unevenly as `exposure` says (from most to least), each on a random question (one of
    its own where there are none) and before a random voter. `stays` is how many battles in a row
    one voter sees on one question.
    """

    title: str
    models: int = 8
    spacing: float = 60.0
    random_skills: bool = False
    questions: int = 72
    battles: int = 0
    voters: int = 0
    stays: int = 1
    by_question: float = 0.0
    by_voter: float = 0.0
    by_both: float = 0.0
    exposure: tuple[float, float] = (1.0, 1.0)

    def skills(self, rng: np.random.Generator) -> Floats:
        """Strengths of the models, best first: evenly spaced, or drawn with as much spread."""
        even = self.spacing * np.arange(self.models)[::-1]
        drawn = (
            np.sort(rng.normal(0, even.std(), self.models))[::-1] if self.random_skills else even
        )
        return np.asarray(drawn - drawn.mean())

    def shares(self) -> Floats:
        """How often each pair meets."""
        weight = np.random.default_rng(1).permutation(np.geomspace(*self.exposure, self.models))
        met: Floats = weight[all_pairs(self.models)].prod(axis=0)
        return np.asarray(met / met.sum())

    def truth(self, skill: Floats) -> Floats:
        """Where very many battles would lead."""
        sd = float(np.sqrt(self.by_question**2 + self.by_voter**2 + self.by_both**2))
        return population(expected_scores(skill, sd), self.shares(), self.models)

    def sample(self, skill: Floats, rng: np.random.Generator) -> BattleLog:
        """The battles of one world."""
        pairs = all_pairs(self.models)
        if self.battles:
            pair = rng.choice(pairs.shape[1], self.battles, p=self.shares())
            visits = -(-self.battles // self.stays)
            question = np.repeat(rng.integers(0, max(1, self.questions), visits), self.stays)
        else:
            question, pair = np.divmod(np.arange(self.questions * pairs.shape[1]), pairs.shape[1])
        n = len(pair)
        question = question[:n]
        voter = self._voters(n, rng)
        visit = np.arange(n) // self.stays
        level = skill + (
            rng.normal(0, self.by_question, (max(1, self.questions), self.models))[question]
            + rng.normal(0, self.by_voter, (max(1, self.voters), self.models))[voter]
            + rng.normal(0, self.by_both, (visit.max() + 1, self.models))[visit]
        )
        a, b = pairs[:, pair]
        row = np.arange(n)
        return BattleLog(
            models=named(self.models),
            a=a,
            b=b,
            outcome=verdicts(win_rate(level[row, a] - level[row, b]), rng),
            question_id=labels(question, self.questions) if self.questions else None,
            voter=labels(voter, self.voters) if self.voters else None,
        )

    def _voters(self, n: int, rng: np.random.Generator) -> Ints:
        """Who votes: some come much more often than others."""
        if not self.voters:
            return np.zeros(n, np.int32)
        active = rng.lognormal(0, 0.7, self.voters)
        visits = rng.choice(self.voters, -(-n // self.stays), p=active / active.sum())
        return np.repeat(visits, self.stays)[:n].astype(np.int32)


def drawn(design: Design, worlds: int, seed: int) -> Iterator[tuple[BattleLog, Floats]]:
    """Samples with their truth, each from a generator of its own."""
    for number in range(worlds):
        rng = np.random.default_rng([seed, number])
        skill = design.skills(rng)
        yield design.sample(skill, rng), design.truth(skill)


def share(held: Sequence[float | np.bool_] | Floats) -> str:
    """A share in %, ± its Monte-Carlo error from the spread between worlds."""
    each = np.asarray(held, float)
    return f"{100 * each.mean():.1f} ± {100 * each.std(ddof=1) / np.sqrt(len(each)):.1f}"


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A Markdown table."""
    for row in [head, ["---"] * len(head), *rows]:
        print(f"| {' | '.join(row)} |", flush=True)
    print(flush=True)


def covered(ratings: Ratings, truth: Floats) -> tuple[float, float]:
    """The share of ratings and the share of gaps whose 95 % interval holds the truth."""
    rows = [ratings[model] for model in ratings.models]
    low = np.array([r.ci_low for r in rows], float) - ratings.settings["center"]
    high = np.array([r.ci_high for r in rows], float) - ratings.settings["center"]
    true = truth[:, None] - truth[None, :]
    between, pairs = claims.gaps(ratings), np.triu_indices(len(truth), 1)
    held = ((between.low <= true) & (true <= between.high))[pairs]
    return float(((low <= truth) & (truth <= high)).mean()), float(held.mean())


def ranks_held(ranges: dict[str, tuple[int, int] | None], truth: Floats) -> tuple[bool, float]:
    """Whether every true rank lies in its range, and the ranges' mean width."""
    rank = (-truth).argsort().argsort() + 1
    limits = np.array([each for each in ranges.values() if each is not None])
    held = (limits[:, 0] <= rank) & (rank <= limits[:, 1])
    return bool(held.all()), float((limits[:, 1] - limits[:, 0] + 1).mean())


RANGES = (
    Design(title="8 models × 72 questions", by_question=150.0),
    Design(title="20 models × 10 questions", models=20, spacing=25, questions=10, by_question=150),
    Design(
        title="30 models, 30,000 to 200 battles each",
        models=30,
        spacing=15.0,
        questions=0,
        battles=60_000,
        exposure=(150.0, 1.0),
    ),
    Design(title="8 models alike (5 Elo apart) × 72 questions", spacing=5.0, by_question=150.0),
)


def print_ranges(worlds: int, seed: int) -> None:
    """Simultaneous coverage of rank ranges, and their mean width."""
    rows = []
    for design in RANGES:
        found: dict[str, list[tuple[bool, float]]] = {"at once": [], "single": []}
        for log, truth in drawn(design, worlds, seed):
            ratings = BradleyTerry()(log)
            found["at once"].append(ranks_held(claims.rank_ranges(ratings), truth))
            found["single"].append(ranks_held(claims.single_rank_ranges(ratings), truth))
        cells = [
            f"{share([h for h, _ in each])} ({np.mean([w for _, w in each]):.1f})"
            for each in found.values()
        ]
        rows.append([design.title, *cells])
    print_table(
        ["all true ranks in their ranges, % (mean width)", "`rank_ranges`", "`single_rank_ranges`"],
        rows,
    )


VOTERS = (
    Design(title="voter effects", battles=2_000, questions=200, voters=60, by_voter=150.0),
    Design(
        title="voter and question effects",
        battles=2_000,
        questions=100,
        voters=60,
        by_voter=120.0,
        by_question=120.0,
    ),
    Design(
        title="voter, question and voter × question effects",
        battles=2_000,
        questions=100,
        voters=60,
        stays=3,
        by_voter=100.0,
        by_question=100.0,
        by_both=150.0,
    ),
    Design(
        title="as MT-bench: 6 models, 80 questions, 65 voters",
        models=6,
        battles=3_300,
        questions=80,
        voters=65,
        stays=2,
        by_voter=100.0,
        by_question=120.0,
    ),
    Design(
        title="20 voters, 20 questions",
        battles=1_200,
        questions=20,
        voters=20,
        by_voter=120.0,
        by_question=120.0,
    ),
    Design(title="no effects at all", battles=2_000, questions=100, voters=60),
)
WAYS: tuple[Cluster, ...] = ("both", "question", "voter", "battle")


def print_voters(worlds: int, seed: int) -> None:
    """Coverage of ratings' and gaps' intervals by what counts as one piece of evidence."""
    rows = []
    for design in VOTERS:
        held: dict[str, list[tuple[float, float]]] = {way: [] for way in (*WAYS, "bootstrap")}
        for number, (log, truth) in enumerate(drawn(design, worlds, seed)):
            for way in WAYS:
                held[way].append(covered(BradleyTerry(cluster=way)(log), truth))
            if number % BOOTSTRAP_EVERY == 0:
                resampled = BradleyTerry(interval="percentile", seed=number)(log)
                held["bootstrap"].append(covered(resampled, truth))
        cells = [
            f"{share([r for r, _ in each])}, {100 * np.mean([g for _, g in each]):.1f}"
            for each in held.values()
        ]
        rows.append([design.title, *cells])
    print_table(["95 % intervals that hold, % (ratings, gaps)", *WAYS, "both, bootstrap"], rows)


QUESTIONS = tuple(
    Design(title=f"{n} questions × {pairs} pairs", models=models, questions=n, by_question=150.0)
    for n, models, pairs in ((10, 8, 28), (15, 8, 28), (20, 8, 28), (30, 8, 28), (10, 20, 190))
)


def print_questions(worlds: int, seed: int) -> None:
    """Coverage with few questions, and how often P(above) of 0.90 to 0.95 is right."""
    rows = []
    for design in QUESTIONS:
        held = [covered(BradleyTerry()(log), truth) for log, truth in drawn(design, worlds, seed)]
        right: list[float] = []
        for log, truth in drawn(replace(design, random_skills=True), worlds, seed + 1):
            chance = claims.above(BradleyTerry()(log))
            said = (chance >= 0.9) & (chance <= 0.95)
            right += (truth[:, None] > truth[None, :])[said].tolist()
        rows.append(
            [
                design.title,
                share([r for r, _ in held]),
                share([g for _, g in held]),
                f"{100 * np.mean(right):.1f}",
            ]
        )
    print_table(["%", "ratings", "gaps", "right where P(above) is 0.90–0.95"], rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Season:
    """An arena that is looked at every 250 of 20,000 votes.

    `adaptive` is the share of votes that go to neighbours of the top 8 whose order is open.
    With `prompts`, votes fall on so many prompts again and again.
    """

    title: str
    models: int = 20
    skill_sd: float = 120.0
    adaptive: float = 0.0
    prompts: int = 0
    prompt_sd: float = 0.0
    cluster: Cluster = "battle"


class Arenas:
    """Many arenas side by side: votes counted by prompt, pair and outcome, and their ratings.

    The fit, its sandwich and the span rule are those of the package, written once more for all
    arenas at once; `check` holds them against it.
    """

    def __init__(self, worlds: int, models: int, prompts: int, cluster: Cluster) -> None:
        self.pairs, self.cluster = all_pairs(models), cluster
        self.contrast = np.eye(models)[self.pairs[0]] - np.eye(models)[self.pairs[1]]
        self.table = np.zeros((worlds, prompts, self.pairs.shape[1], 3))
        self.rating = np.zeros((worlds, models))
        self.score = np.zeros((worlds, models, models))
        self.clear = np.zeros((worlds, models, models), bool)

    def log(self, world: int) -> BattleLog:
        """One arena's votes."""
        table = self.table[world]
        by_prompt = table if self.cluster == "question" else table.sum(axis=0, keepdims=True)
        return tallied(by_prompt, self.rating.shape[1])

    def rate(self) -> None:
        """Ratings and decided orders of all arenas; none where an arena has no finite rating."""
        votes = self.table.sum(axis=1)
        won, lost = votes @ np.array([1, 0, 0.5]), votes @ np.array([0, 1, 0.5])
        self.rating, information = self._fit(won, won + lost)
        spread = self._sandwich(information)
        variance = np.diagonal(spread, axis1=1, axis2=2)
        error = np.sqrt(variance[:, :, None] + variance[:, None, :] - 2 * spread)
        seen = self._seen()
        df = np.minimum(seen[:, :, None], seen[:, None, :]) - 1.0
        gap = self.rating[:, :, None] - self.rating[:, None, :]
        known = (error > 0) & (df >= 9)
        score = normal_score(np.divide(gap, error, out=0 * gap, where=known), np.maximum(df, 9))
        finite = self._finite(won, lost)[:, None, None]
        self.score = np.where(finite, score, 0.0)
        place = (-self.rating).argsort(axis=1).argsort(axis=1)
        span = np.abs(place[:, :, None] - place[:, None, :])
        clear = score > np.array(span_scores(gap.shape[1], claims.DECIDED))[span]
        while (further := clear | (clear.astype(float) @ clear > 0)).sum() > clear.sum():
            clear = further
        self.clear = clear & finite

    def truth(self, expected: Floats) -> Floats:
        """The population value of the ratings: the fit to all pairs' expected scores, each as often
        as it met so far.
        """
        games = self.table.sum(axis=(1, 3))
        return self._fit(expected * games, games)[0]

    def _fit(self, won: Floats, games: Floats) -> tuple[Floats, Floats]:
        """Newton's method from where the ratings were: the peak, and the curvature there."""
        first, second = self.pairs
        n = self.rating.shape[1]
        theta = self.rating.copy()
        for _ in range(12):
            p = 1 / (1 + np.exp(-(theta[:, first] - theta[:, second])))
            weight = games * p * (1 - p)
            information = np.full((len(theta), n, n), 1 / n)
            information[:, first, second] -= weight
            information[:, second, first] -= weight
            information[:, range(n), range(n)] += weight @ np.abs(self.contrast)
            slope = (won - games * p) @ self.contrast
            step = np.linalg.solve(information, slope[:, :, None])[:, :, 0]
            theta = theta + np.clip(step, -1, 1)
            if np.abs(step).max() < 1e-9:
                break
        return np.clip(theta - theta.mean(axis=1, keepdims=True), -9, 9), information

    def _sandwich(self, information: Floats) -> Floats:
        """The sandwich covariance, by vote or by prompt."""
        gap = self.rating[:, self.pairs[0]] - self.rating[:, self.pairs[1]]
        residual = np.array([1, 0, 0.5]) - 1 / (1 + np.exp(-gap))[:, :, None]
        if self.cluster == "question":
            pulls = np.einsum("wqpo,wpo->wqp", self.table, residual) @ self.contrast
            meat = np.swapaxes(pulls, 1, 2) @ pulls
            pieces = (self.table.sum(axis=(2, 3)) > 0).sum(axis=1)
        else:
            votes = self.table.sum(axis=1)
            squared = (votes * residual**2).sum(axis=2)
            meat = np.einsum("pi,wp,pj->wij", self.contrast, squared, self.contrast, optimize=True)
            pieces = votes.sum(axis=(1, 2))
        bread = np.linalg.inv(information)
        return np.asarray(bread @ meat @ bread * (pieces / (pieces - 1))[:, None, None])

    def _seen(self) -> Floats:
        """How many votes or prompts each model was seen on."""
        met = self.table.sum(axis=3) @ np.abs(self.contrast)
        return np.asarray((met > 0).sum(axis=1) if self.cluster == "question" else met.sum(axis=1))

    def _finite(self, won: Floats, lost: Floats) -> NDArray[np.bool_]:
        """Which arenas have a finite rating without a prior: all beat each other through others."""
        first, second = self.pairs
        reach = np.tile(np.eye(self.rating.shape[1], dtype=bool), (len(won), 1, 1))
        reach[:, first, second] = won > 0
        reach[:, second, first] = lost > 0
        for _ in range(5):
            reach = reach.astype(float) @ reach > 0
        return np.asarray(reach.all(axis=(1, 2)))

    def check(self, world: int) -> None:
        """Refuse ratings or orders that the package does not give."""
        ratings = BradleyTerry(cluster=self.cluster)(self.log(world))
        theirs = np.array([ratings[m].rating - 1000 for m in ratings.models]) * ln(10) / 400
        clear = claims.decided(ratings)
        if (
            not np.allclose(theirs, self.rating[world], atol=1e-6)
            or (clear != self.clear[world]).any()
        ):
            raise AssertionError(f"arena {world} is not rated as the package rates it")


class Looks:
    """What was claimed over the looks at arenas side by side, beside the truth."""

    def __init__(self, worlds: int, models: int) -> None:
        self.models = models
        claimed = ("top", "board", "first", "tiers", "ranks")
        self.false = {name: np.zeros(worlds, bool) for name in claimed}
        self.shares: dict[int, float] = {}
        self.single: dict[int, float] = {}

    def look(self, arenas: Arenas, truth: Floats, votes: int) -> NDArray[np.bool_]:
        """Check all claims; which neighbours of the top are open, by their places."""
        clear, true_order = arenas.clear, (-truth).argsort(axis=1)
        order = (-arenas.rating).argsort(axis=1)
        better = in_order(truth[:, :, None] > truth[:, None, :], order)
        clear_here = in_order(clear, order)
        upper = np.triu(np.ones((self.models, self.models), bool), 1)
        wrong = clear_here & ~better & upper
        cuts = [
            clear_here[:, :n, n:].all(axis=(1, 2)) & ~better[:, :n, n:].all(axis=(1, 2))
            for n in range(1, self.models)
        ]
        ahead, behind = clear.sum(axis=1), clear.sum(axis=2)
        rank = true_order.argsort(axis=1)
        missed = (ahead > rank) | (self.models - 1 - behind < rank)
        leads = clear_here[:, 0].sum(axis=1) == self.models - 1
        for name, failed in (
            ("top", wrong[:, :TOP, :TOP].any(axis=(1, 2))),
            ("board", wrong.any(axis=(1, 2))),
            ("first", leads & (order[:, 0] != true_order[:, 0])),
            ("tiers", np.any(cuts, axis=0)),
            ("ranks", missed.any(axis=1)),
        ):
            self.false[name] |= failed
        near = np.arange(TOP - 1)
        self.shares[votes] = in_order(clear, true_order)[:, near, near + 1].mean()
        above = in_order(arenas.score > SINGLE, true_order)
        self.single[votes] = above[:, near, near + 1].mean()
        return np.asarray(~clear_here[:, near, near + 1])

    def row(self, title: str) -> list[str]:
        """A row of the table of seasons."""
        decided = " / ".join(f"{100 * self.shares[votes]:.0f}" for votes in SHOWN)
        return [title, *(share(each) for each in self.false.values()), decided]


def in_order(matrix: NDArray[np.bool_], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Matrices with a row and a column per model, both in these orders."""
    rows = np.take_along_axis(matrix, order[:, :, None], axis=1)
    return np.take_along_axis(rows, order[:, None, :], axis=2)


def seasons(kind: Season, worlds: int, rng: np.random.Generator) -> Looks:
    """Arenas looked at again and again."""
    n, pairs = kind.models, all_pairs(kind.models)
    prompts = max(1, kind.prompts)
    skill = rng.normal(0, kind.skill_sd, (worlds, n))
    level = skill[:, None] + rng.normal(0, kind.prompt_sd, (worlds, prompts, n))
    even = np.full(pairs.shape[1], 1 / pairs.shape[1])
    these = win_rate(level[:, :, pairs[0]] - level[:, :, pairs[1]]).mean(axis=1)
    arenas, looks = Arenas(worlds, n, prompts, kind.cluster), Looks(worlds, n)
    weight = np.tile(even, (worlds, 1))
    for votes in range(EVERY, VOTES + 1, EVERY):
        for world in range(worlds):
            pair = rng.choice(len(even), EVERY, p=weight[world])
            prompt = rng.integers(0, prompts, EVERY)
            a, b = pairs[:, pair]
            outcome = verdicts(win_rate(level[world, prompt, a] - level[world, prompt, b]), rng)
            np.add.at(arenas.table[world], (prompt, pair, outcome), 1)
        arenas.rate()
        if votes % 5_000 == 0:
            arenas.check(votes // 5_000 % worlds)
        truth = skill if kind.cluster == "question" else arenas.truth(these)
        undecided = looks.look(arenas, truth, votes)
        weight = aimed(kind.adaptive, even, arenas.rating, undecided)
    return looks


def aimed(share_aimed: float, even: Floats, rating: Floats, undecided: NDArray[np.bool_]) -> Floats:
    """How often each pair meets: in part everybody, in part the open neighbours of the top."""
    n = rating.shape[1]
    order = (-rating).argsort(axis=1)[:, :TOP]
    low, high = np.minimum(order[:, 1:], order[:, :-1]), np.maximum(order[:, 1:], order[:, :-1])
    pair = (low * (2 * n - low - 1)) // 2 + high - low - 1
    number = undecided.sum(axis=1)
    aims = np.where(number > 0, share_aimed, 0.0)
    chosen = np.zeros((len(rating), len(even)))
    np.put_along_axis(chosen, pair, undecided / np.maximum(1, number)[:, None], axis=1)
    return (1 - aims)[:, None] * even + aims[:, None] * chosen


def tallied(table: Floats, n: int) -> BattleLog:
    """A log of counts by prompt, pair and outcome; with a single prompt it has no questions."""
    prompt, pair, outcome = np.nonzero(table)
    a, b = all_pairs(n)[:, pair]
    return BattleLog(
        models=named(n),
        a=a,
        b=b,
        outcome=outcome.astype(np.int8),
        weight=table[prompt, pair, outcome],
        question_id=labels(prompt, len(table)) if len(table) > 1 else None,
    )


SEASONS = (
    Season(title="uniform votes"),
    Season(title="adaptive votes", adaptive=0.8),
    Season(title="adaptive votes, near-tied models", skill_sd=20.0, adaptive=0.8),
    Season(
        title="adaptive votes, 15 prompts with effects of 150, claims about these prompts",
        adaptive=0.8,
        prompts=15,
        prompt_sd=150.0,
    ),
    Season(
        title="the same, claims about prompts like these",
        adaptive=0.8,
        prompts=15,
        prompt_sd=150.0,
        cluster="question",
    ),
    Season(title="uniform votes, near-tied models", skill_sd=20.0),
    Season(
        title="uniform votes, 15 prompts with effects of 150, claims about these prompts",
        prompts=15,
        prompt_sd=150.0,
    ),
)
SEASON_HEAD = (
    "seasons with a false claim, %",
    "decided, top 8",
    "decided, whole board",
    "first",
    "tiers",
    "rank ranges",
    "true top-8 neighbours decided at " + " / ".join(f"{n:,}" for n in SHOWN),
)


def print_seasons(worlds: int, seed: int) -> None:
    """False claims over 80 looks."""
    rows = []
    for number, kind in enumerate(SEASONS):
        rows.append(seasons(kind, worlds, np.random.default_rng([seed, number])).row(kind.title))
        print(f"… {' | '.join(rows[-1])}", file=sys.stderr, flush=True)
    print_table(SEASON_HEAD, rows)


POLICY_WORLDS = {
    "": World(matchups=VOTES, newcomers=0),
    ", near-tied models": World(matchups=VOTES, newcomers=0, skill_sd=20.0),
    ", prompt effects of 150": World(matchups=VOTES, newcomers=0, prompt_sd=150.0),
}
POLICIES = {
    "policy v2, its four lanes": Policy(),
    "policy v2 and the decide lane": Policy(decide=Decide(share=0.4)),
}
POLICY_HEAD = (
    "seasons with a false claim, of all",
    "decided, top 8",
    "decided, whole board",
    "first",
    "tiers",
    "rank ranges",
    "true top-8 neighbours decided at " + " / ".join(f"{n:,}" for n in SHOWN_POLICY),
    f"the same where single gaps of {SINGLE:g} SE decide",
    "exposure within its bound, % (at the end; all looks of full windows)",
    "most shown model, times an equal share",
)


class Played(NamedTuple):
    """A season: the truth, its votes at every look by pair and outcome, and how far exposures were
    off what was due, and above an equal share, at most.
    """

    truth: Floats
    votes: Floats
    deviation: Floats
    most: Floats


def policy_votes(world: World, policy: Policy, rng: np.random.Generator) -> Played:
    """An arena whose matchups a policy draws: 15 prompts, one voter in ten at random; both-bad
    votes are left out.
    """
    for_world, for_arena = rng.spawn(2)
    found = planted(world, for_world)
    place = {model: i for i, model in enumerate(found.models)}
    n = len(place)
    looks, exposure = np.zeros((VOTES // EVERY, n * (n - 1) // 2, 3)), []
    arena = Arena(policy, (), found.prompts, rng=for_arena)
    for vote in played(found, arena):
        a, b = place[vote.matchup.model_a], place[vote.matchup.model_b]
        outcome = OUTCOMES.index(vote.outcome)
        if vote.number % EVERY == EVERY - 1:
            due = arena.scheduler.exposure_due(arena.ratings)
            rows = arena.scheduler.coverage().fairness(due)
            most = max(row.exposure / row.equal_target for row in rows)
            exposure.append((max(abs(row.deviation or 0.0) for row in rows), most))
        if outcome == BOTH_BAD:
            continue
        if a > b:
            a, b, outcome = b, a, (B_WINS, A_WINS, TIE)[outcome]
        looks[vote.number // EVERY, a * (2 * n - a - 1) // 2 + b - a - 1, outcome] += 1
    return Played(found.truth, looks, *np.array(exposure).T)


def print_policy(worlds: int, seed: int, chosen: Sequence[int] = ()) -> None:
    """False claims where policy v2 draws the votes; it takes seconds per world."""
    rows = []
    for number, ((title, policy), (kind, world)) in enumerate(
        product(POLICIES.items(), POLICY_WORLDS.items())
    ):
        if not chosen or number in chosen:
            at = 99 + list(POLICY_WORLDS).index(kind)
            rngs = [np.random.default_rng([seed, at, i]) for i in range(worlds)]
            found = [policy_votes(world, policy, rng) for rng in rngs]
            rows.append(policy_row(title + kind, found, policy))
            print(f"… {' | '.join(rows[-1])}", file=sys.stderr, flush=True)
    print_table(POLICY_HEAD, rows)


def policy_row(title: str, found: Sequence[Played], policy: Policy) -> list[str]:
    """A row of the table of seasons whose votes a policy draws."""
    truth, votes, deviation, most = (np.array(each) for each in zip(*found, strict=True))
    looks = looked_at(truth, votes)
    full = policy.exposure.window // EVERY - 1
    within = deviation <= policy.exposure.tolerance + 1e-9
    return [
        title,
        *(f"{each.sum()} of {len(each)}" for each in looks.false.values()),
        *(
            " / ".join(f"{100 * shares[votes]:.0f}" for votes in SHOWN_POLICY)
            for shares in (looks.shares, looks.single)
        ),
        f"{100 * within[:, -1].mean():.0f}; {100 * within[:, full:].mean():.1f}",
        f"{most[:, full:].mean():.1f}",
    ]


def looked_at(truth: Floats, votes: Floats) -> Looks:
    """What was claimed over these looks, claims being about these prompts."""
    worlds, models = truth.shape
    arenas, looks = Arenas(worlds, models, 1, "battle"), Looks(worlds, models)
    for number in range(votes.shape[1]):
        arenas.table[:, 0] += votes[:, number]
        arenas.rate()
        looks.look(arenas, truth, EVERY * (number + 1))
    return looks


SECTIONS: dict[str, tuple[Callable[[int, int], None], int]] = {
    "ranges": (print_ranges, 1_000),
    "voters": (print_voters, 1_000),
    "questions": (print_questions, 1_000),
    "seasons": (print_seasons, 500),
    "policy": (print_policy, 100),
}


def main() -> None:
    """Print the tables of some sections."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="+", choices=SECTIONS)
    parser.add_argument("--worlds", type=int, default=0, help="samples per row")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--rows", type=int, nargs="*", help="rows of `policy`, from 0")
    given = parser.parse_args()
    for name in given.sections:
        section, usual = SECTIONS[name]
        worlds = given.worlds or usual
        print(f"{name}: {worlds:,} worlds per row, seed {given.seed}\n", flush=True)
        if given.rows and name == "policy":
            section = partial(print_policy, chosen=given.rows)
        section(worlds, given.seed)


if __name__ == "__main__":
    main()
