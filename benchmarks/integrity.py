"""How many attackers the voter tests find, how many honest voters they accuse, and what it saves.

    .venv/bin/python benchmarks/integrity.py --seasons 3 --picture docs/integrity.png

The crowds: seasons under the policy's matchmaking (20 models, 200 voters of 100 votes, whose
tastes differ by 50 rating points per model, normal or with the heavy tail of Student's t with 3
degrees of freedom), voters of 100 votes drawn from the 1,670,250 votes of Chatbot Arena, and the
124 voters of LLMFAO; the last two from $ARENA_KIT_DATA (default ../shared/data).

Five attackers (`--attackers`) push the same model, drawn for each repetition, with 100 votes each
for it. An attacker's matchups are those of the crowd, drawn again: all of them, or
only its own battles; what they say honestly is drawn from the crowd's ratings and share of ties.

Detection at 1 % false alarms is read off all honest voters' evidence; found and false alarms are
what `voter_tests` says at its own level.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from arena_kit import Arena, Battle, BattleLog, BradleyTerry, Outcome, read_battles
from arena_kit.battles.battle import A_WINS, B_WINS, TIE
from arena_kit.battles.log import Labels
from arena_kit.matchmaking.simulation import played
from arena_kit.matchmaking.world import Planted, World, planted
from arena_kit.runs.settings import read_policy
from arena_kit.validity.voters import voter_tests

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

SEED = 17
VOTES = 100
DATA = Path(os.environ.get("ARENA_KIT_DATA", "../shared/data"))
ALARMS = np.array([0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1])
HONEST = "nobody attacks"


@dataclass(frozen=True, slots=True)
class Attack:
    """One kind of attacker: whether only the model's own battles are voted in, which share of
    those is voted honestly, and whether the 100 votes are all votes or only those for the model.
    """

    title: str
    own_battles: bool
    honest: float = 0.0
    in_all: bool = False


ATTACKS = (
    Attack("always for it, honest elsewhere, 100 votes for it", own_battles=False),
    Attack("only in its own battles, always for it", own_battles=True),
    Attack("own battles, 25% honest", own_battles=True, honest=0.25),
    Attack("own battles, 50% honest", own_battles=True, honest=0.5),
    Attack("own battles, 75% honest", own_battles=True, honest=0.75),
    Attack("always for it, honest elsewhere, 100 votes in all", own_battles=False, in_all=True),
)
PLAIN = ATTACKS[:2]


@dataclass
class Tally:
    """What was measured of one kind of attack in one crowd."""

    honest: list[float] = field(default_factory=list)
    attackers: list[float] = field(default_factory=list)
    found: int = 0
    accused: int = 0
    boards: list[tuple[float, float, float]] = field(default_factory=list)
    ranks: list[tuple[int, int, int]] = field(default_factory=list)

    def curve(self) -> Floats:
        """The share of attackers above the evidence that so many honest voters exceed."""
        bars = np.quantile(self.honest, 1 - ALARMS, method="higher")
        return np.array([np.mean(np.array(self.attackers) > bar) for bar in bars])


@dataclass(frozen=True, kw_only=True)
class Fans(Planted):
    """A world whose voters have tastes: so many points more for a model, a row per voter."""

    taste: Floats

    def vote(self, number: int, a: int, b: int, prompt: int) -> Outcome:
        voter = int(self.voters.session[number].rpartition("-")[2]) - 1
        seen = replace(self, quality=self.quality + self.taste[voter][:, None])
        return Planted.vote(seen, number, a, b, prompt)


def season(seed: int, *, heavy: bool) -> BattleLog:
    """Honest voters under the policy, their tastes normal or with a heavy tail."""
    rng = np.random.default_rng([SEED, seed])
    world = World(matchups=20_000, prompts=60, session_length=VOTES, noise=0.0, newcomers=0)
    drawn = planted(world, rng)
    given = {each.name: getattr(drawn, each.name) for each in fields(drawn)}
    shape = world.matchups, world.models
    taste = rng.standard_t(3, shape) / np.sqrt(3) if heavy else rng.standard_normal(shape)
    fans = Fans(**given, taste=50 * taste)
    arena = Arena(read_policy(Path("params/policy.yaml")), (), drawn.prompts, rng=rng)
    battles = [
        replace(vote.matchup.battle(vote.outcome), voter=drawn.voters.session[vote.number])
        for vote in played(fans, arena)
    ]
    return BattleLog.from_battles(battles)


def from_counts(seed: int, voters: int = 1000) -> BattleLog:
    """Voters of 100 votes each, drawn from the counts, and the rest as counts by nobody."""
    counts = read_battles(DATA / "chatbot_arena_1m7_counts" / "pair_counts.csv.gz")
    rng = np.random.default_rng([SEED, 1000 + seed])
    weight = counts.weights().astype(np.int64)
    taken = rng.multivariate_hypergeometric(weight, voters * VOTES, method="marginals")
    rows = rng.permutation(np.repeat(np.arange(len(counts)), taken))
    rest = replace(counts, weight=(weight - taken).astype(float)).select(weight > taken)
    turned = rng.random(len(rows)) < 0.5
    names = [f"voter-{i:04}" for i in range(voters)]
    drawn = replace(
        counts.select(rows),
        weight=None,
        voter=Labels(np.array(names, object), np.repeat(np.arange(voters, dtype=np.int32), VOTES)),
    )
    return BattleLog.joined(_turned(drawn, turned), rest)


def llmfao() -> BattleLog:
    """The real voters of LLMFAO."""
    outcome = {"left": Outcome.MODEL_A, "right": Outcome.MODEL_B, "tie": Outcome.TIE}
    with gzip.open(DATA / "llmfao" / "crowd-comparisons.csv.gz", "rt", encoding="utf-8") as lines:
        return BattleLog.from_battles(
            Battle(
                model_a=row["left"],
                model_b=row["right"],
                winner=outcome[row["winner"]],
                question_id=row["prompt"],
                voter=row["worker"],
            )
            for row in csv.DictReader(lines)
        )


def _turned(log: BattleLog, turned: NDArray[np.bool_]) -> BattleLog:
    """The same battles, some of them with their sides changed."""
    decided = turned & log.decisive()
    return replace(
        log,
        a=np.where(turned, log.b, log.a),
        b=np.where(turned, log.a, log.b),
        outcome=np.where(decided, 1 - log.outcome, log.outcome).astype(np.int8),
    )


def attacked(
    crowd: BattleLog, attack: Attack, model: int, n: int, rng: np.random.Generator
) -> BattleLog:
    """The crowd's votes with those of n attackers, who are called attacker-1 and so on."""
    named = crowd.voter
    pool = crowd.select(named.codes >= 0) if named is not None else crowd
    place, ratings = pool.models.index(crowd.models[model]), BradleyTerry().strengths(pool)
    parts = [_attacker(pool, ratings, attack, place, f"attacker-{i + 1}", rng) for i in range(n)]
    return BattleLog.joined(replace(crowd, battle_id=None), *parts)


def _attacker(
    pool: BattleLog,
    strength: Floats,
    attack: Attack,
    model: int,
    name: str,
    rng: np.random.Generator,
) -> BattleLog:
    """One attacker's votes."""
    own = (pool.a == model) | (pool.b == model)
    if attack.own_battles:
        rows = rng.choice(np.flatnonzero(own), VOTES)
    elif attack.in_all:
        rows = rng.choice(len(pool), VOTES)
    else:
        rows = rng.choice(len(pool), round(VOTES / own.mean()))
    pushed = own[rows] & (rng.random(len(rows)) >= attack.honest)
    a, b = pool.a[rows], pool.b[rows]
    wins = np.where(a == model, A_WINS, B_WINS)
    ahead = rng.random(len(rows)) < 1 / (1 + np.exp(strength[b] - strength[a]))
    tied = rng.random(len(rows)) >= pool.decisive().mean()
    honest = np.where(tied, TIE, np.where(ahead, A_WINS, B_WINS))
    return BattleLog(
        models=pool.models,
        a=a,
        b=b,
        outcome=np.where(pushed, wins, honest).astype(np.int8),
        question_id=None if pool.question_id is None else pool.question_id.take(rows),
        voter=Labels.of([name] * len(rows)),
    )


def measure(tally: Tally, crowd: BattleLog, attack: Attack | None, n: int, seed: int) -> None:
    """Attack a crowd once, and look who stands out."""
    rng = np.random.default_rng([SEED, 77, seed])
    model = int(rng.integers(len(crowd.models)))
    log = crowd if attack is None else attacked(crowd, attack, model, n, rng)
    tests = voter_tests(log)
    bad = {test.voter for test in tests.tests if test.voter.startswith("attacker-")}
    out = {test.voter for test in tests.standing_out}
    tally.honest += [test.evidence for test in tests.tests if test.voter not in bad]
    tally.attackers += [test.evidence for test in tests.tests if test.voter in bad]
    tally.found += len(out & bad)
    tally.accused += len(out - bad)
    if attack is not None:
        kept = ~np.isin(log.voter.values(), list(out)) if log.voter is not None else []
        name = crowd.models[model]
        ratings = [BradleyTerry(cluster="battle")(each) for each in (crowd, log, log.select(kept))]
        tally.boards.append(tuple(each[name].rating for each in ratings))  # type: ignore[arg-type]
        tally.ranks.append(tuple(each.order.index(name) + 1 for each in ratings))  # type: ignore[arg-type]


def crowds(seasons: int) -> Iterator[tuple[str, int, Callable[[], BattleLog]]]:
    """The crowds, how often each is attacked, and how to make one."""
    for i in range(seasons):
        yield "season", i, lambda i=i: season(i, heavy=False)
        yield "heavy tastes", i, lambda i=i: season(100 + i, heavy=True)
    yield "1.67M votes", 0, lambda: from_counts(0)
    yield "LLMFAO", 0, llmfao


def main() -> None:
    """Attack, print the table, draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seasons", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=4, help="models pushed per crowd")
    parser.add_argument("--attackers", type=int, default=5)
    parser.add_argument("--only", default="", help="one crowd by the start of its name")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    tallies: dict[tuple[str, str], Tally] = {}
    for name, number, make in crowds(given.seasons):
        if name.startswith(given.only):
            crowd, start = make(), process_time()
            measure(tallies.setdefault((name, HONEST), Tally()), crowd, None, 0, 0)
            took = process_time() - start
            for attack in ATTACKS:
                for k in range(given.repeats):
                    tally = tallies.setdefault((name, attack.title), Tally())
                    measure(tally, crowd, attack, given.attackers, 1000 * number + k)
            print(f"{name} {number}: {len(crowd):,} rows, tested in {took:.1f} s")
    report(tallies)
    if given.picture:
        draw(tallies, given.picture)


def report(tallies: dict[tuple[str, str], Tally]) -> None:
    """Print what was found."""
    print("\nfound, at the tests' own level | at 1% false alarms | false alarms | rating (rank)")
    for (name, title), tally in tallies.items():
        n, honest = len(tally.attackers), len(tally.honest)
        alarms = f"{tally.accused} of {honest} honest ({100 * tally.accused / honest:.2f}%)"
        if not n:
            print(f"{name:12} {title:50} {'':>30} {alarms}")
            continue
        at_one = 100 * tally.curve()[ALARMS == 0.01][0]
        ratings = " → ".join(f"{x:.0f}" for x in np.mean(tally.boards, axis=0))
        ranks = " → ".join(f"{x:.1f}" for x in np.mean(tally.ranks, axis=0))
        told = f"{tally.found} of {n} ({100 * tally.found / n:.0f}%), {at_one:.0f}%"
        print(f"{name:12} {title:50} {told:>30} {alarms:34} {ratings} ({ranks})")
    print("rating and rank of the pushed model: before the attack, with it, without who stands out")


def draw(tallies: dict[tuple[str, str], Tally], path: Path) -> None:
    """Detection against false alarms, a panel per crowd."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for name, _ in tallies))
    figure, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 3.6), sharey=True)
    for ax, name in zip(np.atleast_1d(axes), names, strict=True):
        for attack in ATTACKS:
            curve = tallies[name, attack.title].curve()
            ax.plot(100 * ALARMS, 100 * curve, marker="o", markersize=3, label=attack.title)
        ax.axvline(1, color="#999999", linewidth=0.8, linestyle=":")
        ax.set(title=name, xlabel="honest voters accused (%)", xscale="log", ylim=(-3, 103))
    np.atleast_1d(axes)[0].set_ylabel("attackers found (%)")
    handles, labels = np.atleast_1d(axes)[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    figure.set_layout_engine("constrained")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
