"""How many attackers the voter tests find, how many honest voters they accuse, and what it saves.

    .venv/bin/python benchmarks/integrity.py --picture docs/integrity.png
    .venv/bin/python benchmarks/integrity.py --weekly

takes some ten minutes; `--only season --keep FILE` measures one kind of crowd, and adds it to those
that a run before has put into the file.

Rules were chosen on the seeds `tuning`; what is printed is of the seeds `held-out`, on which
nothing was tried before, unless `--seeds tuning` asks for the others. LLMFAO's voters are the same
in both: only the attackers differ.

The crowds: seasons under the policy's matchmaking (20 models, 200 voters of 100 votes, whose
tastes differ by 50 rating points per model, normal or with the heavy tail of Student's t with 3
degrees of freedom), voters of 100 votes drawn from the 1,670,250 votes of Chatbot Arena, and the
124 voters of LLMFAO; the last two from $ARENA_KIT_DATA (default ../shared/data).

Five attackers (`--attackers`) push the same model, drawn for each repetition, with 100 votes each
for it. An attacker's matchups are those of the crowd, drawn again: all of them, or
only its own battles; what they say honestly is drawn from the crowd's ratings and share of ties.

Found and false alarms are what `voter_tests` says at its own level; the curve, detection against
false alarms, is read off all honest voters' evidence. With `--weekly` each crowd is reviewed twelve
times, with all votes so far (a twelfth more of every voter's each time), and whoever stands out
once counts.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from arena_kit import Arena, Battle, BattleLog, BradleyTerry, Outcome, RatingError, read_battles
from arena_kit.battles.battle import A_WINS, B_WINS, TIE
from arena_kit.battles.log import Labels
from arena_kit.files import read_json, write_json
from arena_kit.matchmaking.simulation import Planted, World, planted, played
from arena_kit.runs.settings.files import read_policy
from arena_kit.validity.voters import voter_tests

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

SEEDS = {"tuning": 17, "held-out": 20_261_116}
VOTES, WEEKS = 100, 12
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
        voter = int(self.session[number].rpartition("-")[2]) - 1
        seen = replace(self, quality=self.quality + self.taste[voter][:, None])
        return Planted.vote(seen, number, a, b, prompt)


def season(rng: np.random.Generator, *, heavy: bool) -> BattleLog:
    """Honest voters under the policy, their tastes normal or with a heavy tail."""
    world = World(matchups=20_000, prompts=60, session_length=VOTES, noise=0.0, newcomers=0)
    drawn = planted(world, rng)
    given = {each.name: getattr(drawn, each.name) for each in fields(drawn)}
    shape = world.matchups, world.models
    taste = rng.standard_t(3, shape) / np.sqrt(3) if heavy else rng.standard_normal(shape)
    fans = Fans(**given, taste=50 * taste)
    arena = Arena(read_policy(Path("params/policy.yaml")), (), drawn.prompts, rng=rng)
    battles = [
        replace(vote.matchup.battle(vote.outcome), voter=drawn.session[vote.number])
        for vote in played(fans, arena)
    ]
    return BattleLog.from_battles(battles)


def from_counts(rng: np.random.Generator, voters: int = 1000) -> BattleLog:
    """Voters of 100 votes each, drawn from the counts, and the rest as counts by nobody."""
    counts = read_battles(DATA / "chatbot_arena_1m7_counts" / "pair_counts.csv.gz")
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


def measure(
    tally: Tally, crowd: BattleLog, attack: Attack | None, n: int, rng: np.random.Generator
) -> None:
    """Attack a crowd once, and look who stands out."""
    model = int(rng.integers(len(crowd.models)))
    log = crowd if attack is None else attacked(crowd, attack, model, n, rng)
    tests = voter_tests(log)
    bad = {test.voter for test in tests.tests if test.voter.startswith("attacker-")}
    out = {test.voter for test in tests.flagged}
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


def weekly(crowd: BattleLog, attack: Attack | None, n: int, rng: np.random.Generator) -> None:
    """Review a crowd every week, and print who stood out at the last look, and ever."""
    model = int(rng.integers(len(crowd.models)))
    log = crowd if attack is None else attacked(crowd, attack, model, n, rng)
    ever: set[str] = set()
    for week in range(1, WEEKS + 1):
        with suppress(RatingError):  # too few votes of anybody so far
            tests = voter_tests(log.select(_so_far(log, week / WEEKS)))
            last = {test.voter for test in tests.flagged}
            ever |= last
    bad = {test.voter for test in tests.tests if test.voter.startswith("attacker-")}
    accused = f"accused at the last look {len(last - bad)}, ever {len(ever - bad)}"
    found = f"; {len(ever & bad)} of {len(bad)} attackers found" if bad else ""
    honest = len(tests.tests) - len(bad)
    print(f"    {attack.title if attack else HONEST}: {honest} honest voters, {accused}{found}")


def _so_far(log: BattleLog, share: float) -> NDArray[np.bool_]:
    """The first votes of every voter, and all votes by nobody."""
    assert log.voter is not None
    codes = log.voter.codes
    order = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes[order], codes)
    rank = np.empty(len(codes), np.int64)
    rank[order] = np.arange(len(codes))
    counts = np.bincount(codes + 1)[codes + 1]
    return np.asarray((codes < 0) | (rank - first < share * counts))


def crowds(seasons: int, base: int) -> Iterator[tuple[str, int, Callable[[], BattleLog]]]:
    """The crowds, the number of each, and how to make one."""
    for i in range(seasons):
        yield "season", i, lambda i=i: season(drawn(base, i), heavy=False)
        yield "heavy tastes", i, lambda i=i: season(drawn(base, 100 + i), heavy=True)
    yield "1.67M votes", 0, lambda: from_counts(drawn(base, 1000))
    yield "LLMFAO", 0, llmfao


def drawn(*seed: int) -> np.random.Generator:
    """What everything of one seed is drawn from."""
    return np.random.default_rng(seed)


def main() -> None:
    """Attack, print the table, draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", choices=SEEDS, default="held-out")
    parser.add_argument("--seasons", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3, help="models pushed per crowd")
    parser.add_argument("--attackers", type=int, default=5)
    parser.add_argument("--only", default="", help="one crowd by the start of its name")
    parser.add_argument("--weekly", action="store_true", help="review every week instead")
    parser.add_argument("--keep", type=Path, help="JSON that results are added to")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    base = SEEDS[given.seeds]
    print(f"seeds: {given.seeds} ({base})")
    tallies = read_kept(given.keep)
    for name, number, make in crowds(given.seasons, base):
        if not name.startswith(given.only):
            continue
        crowd, start = make(), process_time()
        print(f"{name} {number}: {len(crowd):,} rows", flush=True)
        if given.weekly:
            for attack in (None, *PLAIN):
                weekly(crowd, attack, given.attackers, drawn(base, 77, 1000 * number))
            continue
        measure(tallies.setdefault((name, HONEST), Tally()), crowd, None, 0, drawn(base, 77))
        print(f"    tested in {process_time() - start:.1f} s", flush=True)
        for attack in ATTACKS:
            for k in range(given.repeats):
                tally = tallies.setdefault((name, attack.title), Tally())
                measure(tally, crowd, attack, given.attackers, drawn(base, 77, 1000 * number + k))
    if given.keep:
        rows = [[*key, asdict(tally)] for key, tally in tallies.items()]
        write_json(given.keep, rows)
    if tallies:
        report(tallies)
    if given.picture:
        draw(tallies, given.picture)


def read_kept(path: Path | None) -> dict[tuple[str, str], Tally]:
    """What runs before have measured."""
    rows = read_json(path) if path and path.exists() else []
    return {(name, title): Tally(**values) for name, title, values in rows}


def report(tallies: dict[tuple[str, str], Tally]) -> None:
    """Print what was found."""
    print("\nfound at the tests' own level | false alarms | rating (rank)")
    for (name, title), tally in tallies.items():
        n, honest = len(tally.attackers), len(tally.honest)
        alarms = f"{tally.accused} of {honest} honest ({100 * tally.accused / honest:.2f}%)"
        if not n:
            print(f"{name:12} {title:50} {'':>16} {alarms}")
            continue
        ratings = " → ".join(f"{x:.0f}" for x in np.mean(tally.boards, axis=0))
        ranks = " → ".join(f"{x:.1f}" for x in np.mean(tally.ranks, axis=0))
        told = f"{tally.found} of {n} ({100 * tally.found / n:.0f}%)"
        print(f"{name:12} {title:50} {told:>16} {alarms:34} {ratings} ({ranks})")
    print("rating and rank of the pushed model: before the attack, with it, without who stands out")
    print("\nattackers found where so many honest voters are accused:")
    print(f"{'':63}" + "".join(f"{alarm:>7.1%}" for alarm in ALARMS))
    for (name, title), tally in tallies.items():
        if tally.attackers:
            print(f"{name:12} {title:50}" + "".join(f"{x:>7.0%}" for x in tally.curve()))


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
