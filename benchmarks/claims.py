"""Are claims true as often as they say? Simulated, with the truth known.

    .venv/bin/python benchmarks/claims.py              # every table; hours on one core
    .venv/bin/python benchmarks/claims.py smallest monotone coverage voters one_look ranks looks
    .venv/bin/python benchmarks/claims.py policy       # under the votes that policy v2 draws

`--worlds` says how many samples each row is made of, `--seed` which, `--rows` picks rows. Models
meet on questions and before voters, each of which may suit a model more or less. On the logit scale
a battle is a tie where the first side's lead, with logistic noise, is within 0.45. The truth is the
population value of Bradley–Terry: its fit to the expected scores of all pairs, without any code of
the package.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log as ln
from time import process_time

import numpy as np
from numpy.typing import NDArray

from arena_kit import BattleLog, BradleyTerry, claims
from arena_kit.battles.battle import A_WINS, B_WINS, BOTH_BAD, OUTCOMES, TIE
from arena_kit.battles.log import Labels
from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.simulation import World, planted, played
from arena_kit.policy.constants import Decide, Policy
from arena_kit.rating.base import Ratings
from arena_kit.rating.critical_values import span_scores

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

SEED = 3141
TIES = 0.45
UNIT = 400 / ln(10)
EVERY = 250


def sigmoid(x: Floats) -> Floats:
    """The logistic function."""
    return np.asarray(1 / (1 + np.exp(-x)))


def expected_score(gap: Floats) -> Floats:
    """What a side that is `gap` points ahead scores on average, ties as half."""
    return np.asarray((sigmoid(gap / UNIT - TIES) + sigmoid(gap / UNIT + TIES)) / 2)


def verdicts(gap: Floats, rng: np.random.Generator) -> NDArray[np.int8]:
    """Outcomes of battles in which the first side is `gap` points ahead."""
    lead = gap / UNIT + rng.logistic(size=len(gap))
    return np.where(lead > TIES, A_WINS, np.where(lead < -TIES, B_WINS, TIE)).astype(np.int8)


def all_pairs(n: int) -> Ints:
    """The first and the second side of every pair."""
    return np.stack(np.triu_indices(n, 1)).astype(np.int32)


def population(expected: Floats, n: int) -> Floats:
    """The Bradley–Terry fit to pairs' expected scores, each as often as the others, centred."""
    first, second = all_pairs(n)
    rating = np.zeros(n)
    for _ in range(50):
        p = sigmoid((rating[first] - rating[second]) / UNIT)
        slope = np.bincount(first, expected - p, n) - np.bincount(second, expected - p, n)
        bend = np.full((n, n), 1 / n)
        bend[first, second] -= p * (1 - p)
        bend[second, first] -= p * (1 - p)
        sides = np.append(first, second)
        bend[range(n), range(n)] += np.bincount(sides, np.tile(p * (1 - p), 2), n)
        rating += UNIT * np.clip(np.linalg.solve(bend, slope), -1, 1)
    return np.asarray(rating - rating.mean())


def zipf(n: int, exponent: float) -> Floats:
    """Shares that fall with a power of the rank."""
    weight = np.arange(1, n + 1.0) ** -exponent
    return np.asarray(weight / weight.sum())


def labels(codes: NDArray[np.integer], n: int) -> Labels:
    """A column of numbered names."""
    return Labels(np.array([f"{i:06d}" for i in range(n)], object), codes.astype(np.int32))


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How battles come about; deviations in points.

    With `skill_sd` 0 models stand `spacing` apart. Without `battles` every pair meets on every
    question; with, pairs are drawn at random. Questions and voters come by Zipf's law with these
    exponents, the first voter with the share `top_voter` where it is not 0.
    """

    title: str
    models: int = 8
    skill_sd: float = 0.0
    spacing: float = 0.0
    battles: int = 0
    questions: int = 200
    question_sd: float = 150.0
    question_zipf: float = 0.0
    voters: int = 0
    voter_sd: float = 80.0
    voter_zipf: float = 0.5
    top_voter: float = 0.0

    def drawn(self, worlds: int, seed: int) -> Iterator[tuple[BattleLog, Floats, Floats]]:
        """Samples with the truth for voters like these and for these voters, each from a generator
        of its own.
        """
        for number in range(worlds):
            rng = np.random.default_rng([seed, number])
            skill = rng.normal(0, self.skill_sd, self.models) if self.skill_sd else self._even()
            yield self.sample(skill - skill.mean(), rng)

    def _even(self) -> Floats:
        return self.spacing * np.arange(self.models, dtype=float)[::-1]

    def _shares(self) -> Floats:
        if not self.top_voter:
            return zipf(self.voters, self.voter_zipf)
        others = np.full(self.voters - 1, (1 - self.top_voter) / (self.voters - 1))
        return np.append(self.top_voter, others)

    def sample(self, skill: Floats, rng: np.random.Generator) -> tuple[BattleLog, Floats, Floats]:
        n, pairs = self.models, all_pairs(self.models)
        if self.battles:
            pair = rng.integers(0, pairs.shape[1], self.battles)
            share = zipf(self.questions, self.question_zipf)
            question = rng.choice(self.questions, self.battles, p=share)
        else:
            question, pair = np.divmod(np.arange(self.questions * pairs.shape[1]), pairs.shape[1])
        by_question = rng.normal(0, self.question_sd, (self.questions, n))
        by_voter = rng.normal(0, self.voter_sd if self.voters else 0.0, (max(1, self.voters), n))
        shares = self._shares() if self.voters else np.ones(1)
        voter = rng.choice(len(shares), len(pair), p=shares)
        level = skill + by_question[question] + by_voter[voter]
        a, b = pairs[:, pair]
        row = np.arange(len(pair))
        log = BattleLog(
            models=tuple(f"m{i:03d}" for i in range(n)),
            a=a,
            b=b,
            outcome=verdicts(level[row, a] - level[row, b], rng),
            question_id=labels(question, self.questions),
            voter=labels(voter, self.voters) if self.voters else None,
        )
        sd = np.hypot(self.question_sd, self.voter_sd if self.voters else 0.0)
        like_these = population(self._expected(skill[None], np.ones(1), sd), n)
        if not self.voters:
            return log, like_these, like_these
        these = population(self._expected(skill + by_voter, shares, self.question_sd), n)
        return log, like_these, these

    def _expected(self, levels: Floats, shares: Floats, sd: float) -> Floats:
        """Every pair's expected score, where strengths vary by `sd` about each of some levels."""
        first, second = all_pairs(self.models)
        x, weight = np.polynomial.hermite_e.hermegauss(40)
        gap = levels[:, first] - levels[:, second]
        scores = sum(
            w * expected_score(gap + np.sqrt(2) * sd * at)
            for at, w in zip(x, weight / weight.sum(), strict=True)
        )
        return np.asarray(shares @ np.asarray(scores))


def share(held: Sequence[float | bool] | Floats) -> str:
    """A share in %, ± its Monte-Carlo error from the spread between worlds."""
    each = np.asarray(held, float)
    return f"{100 * each.mean():.1f} ± {100 * each.std(ddof=1) / np.sqrt(len(each)):.1f}"


def print_row(*cells: str) -> None:
    """A row of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def print_head(*cells: str) -> None:
    """The head of a Markdown table."""
    print_row(*cells)
    print_row(*["---"] * len(cells))


def covered(ratings: Ratings, truth: Floats) -> float:
    """The share of ratings whose 95 % interval holds the truth."""
    rows = [ratings[model] for model in ratings.models]
    low = np.array([-np.inf if r.ci_low is None else r.ci_low for r in rows])
    high = np.array([np.inf if r.ci_high is None else r.ci_high for r in rows])
    at = truth + ratings.settings["center"]
    return float(((low <= at) & (at <= high)).mean())


def ranks_held(ratings: Ratings, truth: Floats) -> bool:
    """Whether the possible ranks of every model hold its true one; equal models share ranks."""
    above = (truth[None, :] > truth[:, None] + 1e-9).sum(axis=1)
    below = (truth[None, :] < truth[:, None] - 1e-9).sum(axis=1)
    limits = [each for each in claims.rank_ranges(ratings).values() if each]
    low, high = np.array(limits).T
    return bool(np.all((low <= len(truth) - below) & (high >= 1 + above)))


def false_and_found(ratings: Ratings, truth: Floats) -> tuple[bool, float]:
    """Whether any decided order is false, and the share of true orders that are decided."""
    clear, gap = claims.decided(ratings), truth[:, None] - truth[None, :]
    true = gap > 1e-9
    return bool((clear & ~true).any()), float(clear[true].mean()) if true.any() else 0.0


def read_so_often(ratings: Ratings, looks: int) -> Ratings:
    """The same ratings, read so many times."""
    return replace(ratings, settings=ratings.settings | {"looks": looks})


def two(won: int, lost: int, tied: int = 0) -> BattleLog:
    """Two models on questions of their own."""
    n = won + lost + tied
    return BattleLog(
        models=("a", "b"),
        a=np.zeros(n, np.int32),
        b=np.ones(n, np.int32),
        outcome=np.repeat([A_WINS, B_WINS, TIE], [won, lost, tied]).astype(np.int8),
        question_id=labels(np.arange(n), n),
    )


def print_smallest(_: int, __: int, ___: Sequence[int]) -> None:
    """The fewest wins without a loss that decide, on questions of their own."""
    print_head("looks", "level", "smallest n–0 decided")
    for looks, level in claims.LEVELS.items():
        method = BradleyTerry(looks=looks)
        found = next(n for n in range(1, 99) if claims.decided(method(two(n, 0)))[0, 1])
        print_row(str(looks), f"{level:g}", f"{found}–0")


def improved(log: BattleLog, model: int, rng: np.random.Generator) -> BattleLog:
    """The log with a battle more, on a new question, that a model wins; or a loss turned."""
    lost = np.flatnonzero(
        ((log.a == model) & (log.outcome == B_WINS)) | ((log.b == model) & (log.outcome == A_WINS))
    )
    if len(lost) and rng.random() < 0.5:
        outcome = log.outcome.copy()
        row = rng.choice(lost)
        outcome[row] = A_WINS if log.a[row] == model else B_WINS
        return replace(log, outcome=outcome)
    assert log.question_id is not None
    codes, n = log.question_id.codes, len(log.question_id.names)
    other = rng.choice([i for i in range(len(log.models)) if i != model])
    return replace(
        log,
        a=np.append(log.a, np.int32(model)),
        b=np.append(log.b, np.int32(other)),
        outcome=np.append(log.outcome, np.int8(A_WINS)),
        question_id=labels(np.append(codes, n), n + 1),
    )


def print_monotone(worlds: int, seed: int, _: Sequence[int]) -> None:
    """Improvements of a model that undo a decision in its favour, near the bar."""
    print_head("models", "improvements of a pair near the bar", "statistic falls, %",
               "decision undone, %")  # fmt: skip
    for label, least, most in (("2", 2, 2), ("3 to 12", 3, 12)):
        tried = fell = undone = 0
        for number in range(worlds):
            rng = np.random.default_rng([seed, most, number])
            log, *_ = next(iter(_random_log(rng, least, most).drawn(1, int(rng.integers(2**31)))))
            before = BradleyTerry()(log)
            pair = _near_bar(before, rng)
            if pair is None:
                continue
            after = BradleyTerry()(improved(log, pair[0], rng))
            tried += 1
            now, then = claims.deviates(after)[pair], claims.deviates(before)[pair]
            fell += now < then - 1e-6
            undone += claims.decided(before)[pair] and not claims.decided(after)[pair]
        print_row(label, str(tried), f"{100 * fell / tried:.1f}", f"{100 * undone / tried:.1f}")


def _random_log(rng: np.random.Generator, least: int, most: int) -> Design:
    models = int(rng.integers(least, most + 1))
    return Design(
        title="",
        models=models,
        skill_sd=float(rng.choice([60, 150, 300])),
        battles=int(rng.integers(15, 60) * models / 2),
        questions=int(rng.integers(15, 60)),
        question_sd=float(rng.choice([0, 100])),
    )


def _near_bar(ratings: Ratings, rng: np.random.Generator) -> tuple[int, int] | None:
    """A decided pair whose deviate is at most a fifth above its bar, at random."""
    bar = np.array(span_scores(len(ratings.models), claims.level(1)))
    place = (-ratings.values()).argsort().argsort()
    bars = bar[np.abs(place[:, None] - place[None, :])]
    deviate = claims.deviates(ratings)
    pairs = np.argwhere((deviate > bars) & (deviate < 1.2 * bars) & (bars > 0))
    return tuple(pairs[rng.integers(len(pairs))].tolist()) if len(pairs) else None


SPACED = {"spacing": 60.0, "question_sd": 150.0}
COVERAGE = (
    Design(title="100 questions, equal", questions=100, battles=2_000, **SPACED),
    Design(title="100 questions × 28 pairs", questions=100, **SPACED),
    Design(title="100 questions, Zipf 1", questions=100, battles=2_000, question_zipf=1.0,
           **SPACED),
    Design(title="60 voters, equal", battles=2_000, voters=60, voter_zipf=0.0, **SPACED),
    Design(title="60 voters, Zipf 1", battles=2_000, voters=60, voter_zipf=1.0, voter_sd=150.0,
           **SPACED),
    Design(title="40 voters, the first casts 30 %", battles=2_000, voters=40, top_voter=0.3,
           voter_sd=150.0, **SPACED),
    Design(title="10 questions × 28 pairs", questions=10, **SPACED),
    Design(title="15 questions × 28 pairs", questions=15, **SPACED),
    Design(title="20 questions × 28 pairs", questions=20, **SPACED),
    Design(title="10 questions × 190 pairs", questions=10, models=20, **SPACED),
)  # fmt: skip


def print_coverage(worlds: int, seed: int, rows: Sequence[int]) -> None:
    """How many 95 % intervals of ratings hold the truth."""
    print_head("95 % intervals that hold, %", "jackknife (default)", "by battle")
    for design in chosen(COVERAGE, rows):
        held: dict[str, list[float]] = {"both": [], "battle": []}
        for log, truth, _ in design.drawn(worlds, seed):
            for way, shares in held.items():
                shares.append(covered(BradleyTerry(cluster=way)(log), truth))  # type: ignore[arg-type]
        print_row(design.title, *map(share, held.values()))


NEAR = {"battles": 2_000, "voter_sd": 150.0, "skill_sd": 5.0}
VOTERS = (
    *(Design(title=f"{n} voters", voters=n, voter_zipf=0.0, **NEAR) for n in (6, 9, 20, 40)),
    *(Design(title=f"40 voters, the first casts {share:.0%}", voters=40, top_voter=share, **NEAR)
      for share in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)),
)  # fmt: skip


def print_voters(worlds: int, seed: int, rows: Sequence[int]) -> None:
    """Boards with a false decided order where voters are few or unequal."""
    print_head("near-tied models, 2,000 votes", "boards about these voters, %",
               "false boards at 1 look, %", "at 80 looks' level, %")  # fmt: skip
    for design in chosen(VOTERS, rows):
        these, false = [], {1: [], 80: []}
        for log, like_these, of_these in design.drawn(worlds, seed):
            ratings = BradleyTerry()(log)
            for looks, found in false.items():
                truth = of_these if ratings.notes else like_these
                found.append(false_and_found(read_so_often(ratings, looks), truth)[0])
            these.append(bool(ratings.notes))
        print_row(design.title, share(these), *(share(each) for each in false.values()))


def lab(title: str, models: int, **more: float) -> Design:
    """A board of 250 battles per model (each takes part in 500), 200 questions, 100 voters."""
    return Design(title=title, models=models, battles=250 * models, voters=100, **more)  # type: ignore[arg-type]


ONE_LOOK = tuple(lab(f"{n} models, SD 100", n, skill_sd=100.0) for n in (8, 20, 40, 100))
SMALL = (
    Design(title="8 models, SD 250, 100 battles", skill_sd=250.0, battles=100, questions=100),
    Design(title="20 models, SD 400, 300 battles", models=20, skill_sd=400.0, battles=300),
    Design(title="8 equal models, 200 questions × 28 pairs"),
)


def print_one_look(worlds: int, seed: int, rows: Sequence[int]) -> None:
    """False boards and true orders decided at one look, beside the levels of more looks."""
    print_head("one look", "false boards, %", "true orders decided, %", "at the level of 12 looks",
               "at that of 80 looks", "CPU s a board")  # fmt: skip
    for design in chosen((*ONE_LOOK, *SMALL), rows):
        found: dict[int, list[tuple[bool, float]]] = {1: [], 12: [], 80: []}
        spent = 0.0
        for log, truth, _ in design.drawn(worlds, seed):
            started = process_time()
            ratings = BradleyTerry()(log)
            claims.decided(ratings)
            spent += process_time() - started
            for looks, each in found.items():
                each.append(false_and_found(read_so_often(ratings, looks), truth))
        cells = [f"{share([f for f, _ in each])}, {100 * np.mean([p for _, p in each]):.1f}"
                 for each in found.values()]  # fmt: skip
        print_row(design.title, *cells[0].split(", "), *cells[1:], f"{spent / worlds:.2f}")


RANKS = tuple(
    lab(f"{n} models, {kind}", n, skill_sd=sd)
    for n in (8, 20, 60, 100)
    for kind, sd in (("near-tied (SD 5)", 5.0), ("SD 100", 100.0))
) + tuple(lab(f"{n} equal models", n) for n in (8, 20, 60, 100))


def print_ranks(worlds: int, seed: int, rows: Sequence[int]) -> None:
    """How often the possible ranks of all models hold all true ranks at once."""
    print_head("rank ranges of one look", "hold all true ranks, %")
    for design in chosen(RANKS, rows):
        drawn = design.drawn(worlds, seed)
        print_row(design.title, share([ranks_held(BradleyTerry()(log), t) for log, t, _ in drawn]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Season:
    """An arena of 20 models that is looked at every 250 votes; `aimed` is the share of votes that
    go to open neighbours of the top eight.
    """

    title: str
    looks: int
    skill_sd: float = 100.0
    aimed: float = 0.0
    top_voter: float = 0.0
    models: int = 20


SEASONS = tuple(
    Season(title=title, looks=looks, **more)  # type: ignore[arg-type]
    for looks in (12, 80)
    for title, more in (
        ("uniform votes", {}),
        ("80 % of votes to open neighbours", {"aimed": 0.8}),
        ("near-tied models (SD 20), 80 % to open neighbours", {"aimed": 0.8, "skill_sd": 20.0}),
        ("one of 60 voters casts 29 %", {"top_voter": 0.29}),
    )
)


def print_looks(worlds: int, seed: int, rows: Sequence[int]) -> None:
    """Seasons in which any look made a false claim, at the level of as many looks and below."""
    print_head("looks", "season", *(f"false at {level:g}, %" for level in claims.LEVELS.values()),
               "adjacent pairs of the top 8 decided in the end, %")  # fmt: skip
    for season in chosen(SEASONS, rows):
        rngs = [np.random.default_rng([seed, season.looks, n]) for n in range(worlds)]
        found = [_season(season, rng) for rng in rngs]
        columns = list(zip(*found, strict=True))
        print_row(str(season.looks), season.title, *map(share, columns))


def _season(season: Season, rng: np.random.Generator) -> tuple[float, ...]:
    """Whether any look was false, by level, and the neighbours decided in the end."""
    n = season.models
    design = Design(title="", models=n, battles=season.looks * EVERY, voters=60 if season.top_voter
                    else 0, top_voter=season.top_voter, question_sd=0.0)  # fmt: skip
    skill = rng.normal(0, season.skill_sd, n)
    log, truth, _ = design.sample(skill - skill.mean(), rng)
    weight, false = None, dict.fromkeys(claims.LEVELS, False)
    share_found = 0.0
    parts: list[BattleLog] = []
    for look in range(season.looks):
        rows = np.arange(look * EVERY, (look + 1) * EVERY)
        part = log.select(rows)
        if season.aimed and weight is not None:
            part = _aimed(part, truth, weight, season.aimed, rng)
        parts.append(part)
        votes = replace(BattleLog.joined(*parts), question_id=None)
        once = BradleyTerry()(votes)
        for looks in claims.LEVELS:
            ratings = read_so_often(once, looks)
            wrong, _ = false_and_found(ratings, truth[[int(m[1:]) for m in ratings.models]])
            false[looks] |= wrong
            if looks == season.looks:
                top = claims.neighbours(ratings)[:7]
                weight = [(p.above, p.below) for p in top if p.state == "unresolved"]
                share_found = float(np.mean([p.state == "decided" for p in top]))
    return (*map(float, false.values()), share_found)


def _aimed(
    part: BattleLog, truth: Floats, pairs: Sequence[tuple[str, str]], aimed: float,
    rng: np.random.Generator,
) -> BattleLog:  # fmt: skip
    """Votes of which a share is between open neighbours."""
    if not pairs:
        return part
    moved = np.flatnonzero(rng.random(len(part)) < aimed)
    names = part.models
    two = np.array([[names.index(x), names.index(y)] for x, y in pairs], np.int32)
    a, b, outcome = part.a.copy(), part.b.copy(), part.outcome.copy()
    a[moved], b[moved] = two[rng.integers(len(two), size=len(moved))].T
    outcome[moved] = verdicts(truth[a[moved]] - truth[b[moved]], rng)
    return replace(part, a=a, b=b, outcome=outcome)


POLICIES = {
    "policy v2, its four lanes": Policy(),
    "policy v2 and the decide lane": Policy(decide=Decide(share=0.4)),
}
POLICY_WORLDS = {
    "": World(matchups=20_000, newcomers=0),
    ", near-tied models": World(matchups=20_000, newcomers=0, skill_sd=20.0),
    ", prompt effects of 150": World(matchups=20_000, newcomers=0, prompt_sd=150.0),
}


def print_policy(worlds: int, seed: int, rows: Sequence[int]) -> None:
    """Seasons of 20,000 votes that a policy draws, about these prompts, with a false claim."""
    print_head("80 looks at 20,000 votes", "false seasons",
               "top-8 neighbours decided in the end, %", "exposure within its bound, % of looks",
               "most shown model, times an equal share")  # fmt: skip
    every = [(t + k, p, w) for t, p in POLICIES.items() for k, w in POLICY_WORLDS.items()]
    for title, policy, world in chosen(every, rows):
        found = [_policy_season(world, policy, np.random.default_rng([seed, 99, i]))
                 for i in range(worlds)]  # fmt: skip
        false, decided, within, most = (np.array(each) for each in zip(*found, strict=True))
        print_row(title, f"{false.sum()} of {worlds}", f"{100 * decided.mean():.0f}",
                  f"{100 * within.mean():.1f}", f"{most.mean():.1f}")  # fmt: skip


def _policy_season(
    world: World, policy: Policy, rng: np.random.Generator
) -> tuple[bool, float, float, float]:
    """Any false claim of 80 looks, top-8 neighbours decided, exposure in bounds and at most."""
    for_world, for_arena = rng.spawn(2)
    found = planted(world, for_world)
    place = {model: i for i, model in enumerate(found.models)}
    n, false, decided = len(place), False, 0.0
    cast, within, most = np.zeros((n, n, len(OUTCOMES))), list[bool](), list[float]()
    arena = Arena(policy, (), found.prompts, rng=for_arena)
    for vote in played(found, arena):
        outcome = OUTCOMES.index(vote.outcome)
        if outcome != BOTH_BAD:
            cast[place[vote.matchup.model_a], place[vote.matchup.model_b], outcome] += 1
        if vote.number % EVERY != EVERY - 1:
            continue
        ratings = BradleyTerry(looks=80)(_tallied(cast))
        false |= false_and_found(ratings, found.truth)[0]
        top = claims.neighbours(ratings)[:7]
        decided = float(np.mean([pair.state == "decided" for pair in top]))
        if vote.number >= policy.exposure.window:
            rows = arena.scheduler.coverage().fairness(arena.scheduler.exposure_due(arena.ratings))
            worst = max(abs(row.deviation or 0.0) for row in rows)
            within.append(worst <= policy.exposure.tolerance + 1e-9)
            most.append(max(row.exposure / row.equal_target for row in rows))
    return false, decided, float(np.mean(within)), float(np.mean(most))


def _tallied(cast: Floats) -> BattleLog:
    """Votes that were counted by model, model and outcome."""
    a, b, outcome = np.nonzero(cast)
    return BattleLog(
        models=tuple(f"m{i:03d}" for i in range(len(cast))),
        a=a.astype(np.int32),
        b=b.astype(np.int32),
        outcome=outcome.astype(np.int8),
        weight=cast[a, b, outcome],
    )


def chosen(every: Sequence, rows: Sequence[int]) -> list:  # type: ignore[type-arg]
    """Some rows of a table, or all."""
    return [every[i] for i in rows] if rows else list(every)


Section = Callable[[int, int, Sequence[int]], None]
SECTIONS: dict[str, tuple[Section, int]] = {
    "smallest": (print_smallest, 1),
    "monotone": (print_monotone, 3_000),
    "coverage": (print_coverage, 400),
    "voters": (print_voters, 400),
    "one_look": (print_one_look, 400),
    "ranks": (print_ranks, 400),
    "looks": (print_looks, 100),
    "policy": (print_policy, 20),
}


def main() -> None:
    """Print the tables of some sections."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []])
    parser.add_argument("--worlds", type=int, default=0, help="samples per row")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--rows", type=int, nargs="*", default=[], help="rows of a table, from 0")
    given = parser.parse_args()
    for name in given.sections or SECTIONS:
        section, usual = SECTIONS[name]
        worlds = given.worlds or usual
        print(f"\n{name}: {worlds:,} worlds per row, seed {given.seed}\n", flush=True)
        section(worlds, given.seed, given.rows)


if __name__ == "__main__":
    main()
