"""What the gate makes of judges whose quality is known, and what a length preference does to ranks.

    python benchmarks/judge_gate.py           # refused and trusted judges, 400 worlds a cell
    python benchmarks/judge_gate.py ranks     # pairs of models that a length preference reverses

A world has eight models, two of the judge's family, pairs of models on questions of their own, and
one vote of a person on each. The quality of a response is its model's (SD 100 points) and its own
(SD 200); lengths have nothing to do with it (SD 0.5 doublings between models, 0.5 within). A person
names the better of two responses with the probability of a logistic curve on which two people agree
in 81 % of pairs, as MT-bench's experts do.
"""

import argparse
from collections import Counter
from functools import partial
from math import acos, pi

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from arena_kit import Battle, BattleLog, JudgeQuality, read_gate
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.quality.gate import Gate, Level
from arena_kit.judging.quality.measures import Families
from arena_kit.judging.verdicts.records import Slot, Status, Verdict, presentations, settle

RULES = read_gate()
MODELS, OWN = 8, 2
SKILL, RESPONSE, PERSON = 100.0, 200.0, 60.0
BETWEEN, WITHIN = 0.5, 0.5
SHARES = (0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.88, 0.9, 0.95)
Floats = NDArray[np.float64]
#: What judges see: of the quality (1 is as much as a person, 0 nothing), and how often they name
#: the longer of two responses of equal models, if twice as long, and that of their own family.
JUDGES: dict[str, tuple[float, float, float]] = {
    "names the better": (1000.0, 0.5, 0.5),
    "is like a person": (1.0, 0.5, 0.5),
    "answers at random": (0.0, 0.5, 0.5),
    "names the worse": (-1000.0, 0.5, 0.5),
    "prefers twice as long, 65 %": (1.0, 0.65, 0.5),
    "prefers twice as long, 75 %": (1.0, 0.75, 0.5),
    "prefers twice as long, 88 %": (1.0, 0.88, 0.5),
    "prefers its family, 80 %": (1.0, 0.5, 0.8),
}
#: Judges that must not be refused.
ACCURATE = ("names the better", "is like a person")


def named_first(judge: str, quality: Floats, longer: Floats, own: Floats) -> Floats:
    """The probability that a judge names the first of two responses, by differences; the slopes are
    steeper than the shares say, for the responses' own quality blurs both.
    """
    sees, twice, family = JUDGES[judge]
    blurred = np.hypot(1, np.sqrt(2) * RESPONSE / PERSON / 1.7)
    bias = blurred * (logit(twice) * longer + logit(family) * own)
    return np.asarray(expit(sees * quality / PERSON + bias))


def world(judge: str, pairs: int, rng: np.random.Generator, *, families: bool) -> Gate:
    """The gate of a judge in a world of its own."""
    skill, length = rng.normal(0, SKILL, MODELS), rng.normal(0, BETWEEN, MODELS)
    sides = np.sort([rng.choice(MODELS, 2, replace=False) for _ in range(pairs)])
    qualities = skill[sides] + rng.normal(0, RESPONSE, sides.shape)
    lengths = length[sides] + rng.normal(0, WITHIN, sides.shape)
    quality, longer = (each[:, 0] - each[:, 1] for each in (qualities, lengths))
    member = (sides < OWN).astype(float)
    first = named_first(judge, quality, longer, member[:, 0] - member[:, 1])
    names = [f"m{i}" for i in range(MODELS)]
    judgments, labels = [], []
    for n, (a, b) in enumerate(sides):
        pair = Pair(dimension="d", prompt_id=f"q{n}", entrant_a=names[a], entrant_b=names[b])
        named = [rng.random() < first[n], rng.random() < first[n]]
        verdicts = [
            Verdict(shown, Status.OK, Slot.A if won == (shown.first == names[a]) else Slot.B)
            for shown, won in zip(presentations(pair), named, strict=True)
        ]
        judgments.append(settle(*verdicts))
        voted = "model_a" if rng.random() < expit(quality[n] / PERSON) else "model_b"
        labels.append(Battle(model_a=names[a], model_b=names[b], winner=voted, question_id=f"q{n}"))
    words = {
        (names[m], f"q{n}"): round(200 * 2.0 ** lengths[n, s])
        for n, pair_of in enumerate(sides) for s, m in enumerate(pair_of)
    }  # fmt: skip
    of = {**dict.fromkeys(names[:OWN], "own"), "judge": "own"} if families else {}
    quality_of = JudgeQuality.of(
        "judge", judgments, labels=BattleLog.from_battles(labels), lengths=words,
        families=Families.around("judge", of),
    )  # fmt: skip
    return quality_of.gate(RULES)


def gates(worlds: int, seed: int) -> None:
    """Print how often each judge is refused and trusted, and by which rules it is refused."""
    print(f"{'judge':30}{'pairs':>6}{'families':>10}{'refused':>9}{'trusted':>9}  refused by")
    for name in JUDGES:
        for pairs in (30, 150):
            for families in (False, True) if name in ACCURATE or "family" in name else (False,):
                rng = np.random.default_rng(seed)
                made = partial(world, name, pairs, rng, families=families)
                found = [made() for _ in range(worlds)]
                levels = Counter(gate.level for gate in found)
                rules = Counter(
                    rule for gate in found
                    for rule in {f.measure.rule for f in gate.findings if f.level is Level.FAILED}
                )  # fmt: skip
                by = ", ".join(f"{rule} {n / worlds:.1%}" for rule, n in rules.most_common())
                shares = (levels[level] / worlds for level in (Level.FAILED, Level.TRUSTED))
                refused, trusted = shares
                print(f"{name:30}{pairs:6}{'named' if families else '-':>10}"
                      f"{refused:9.1%}{trusted:9.1%}  {by}", flush=True)  # fmt: skip


def ranks(worlds: int, seed: int) -> None:
    """Print the share of pairs of models that a judge orders wrongly whose verdicts are as many as
    one likes and whose only fault is that it prefers longer responses.
    """
    rng = np.random.default_rng(seed)
    spreads = (0.25, 0.5, 0.7)
    print("win share of an equal response twice as long, and pairs of models in the wrong order")
    print(
        f"{'share':>7}{'points':>8}" + "".join(f"{f'SD {s:g}':>9}" for s in spreads) + "   (theory)"
    )
    for share in SHARES:
        points = 400 / np.log(10) * logit(share)
        wrong = [_reversed(points * spread, worlds, rng) for spread in spreads]
        theory = acos(1 / np.hypot(1, points * spreads[1] / SKILL)) / pi
        cells = "".join(f"{each:9.1%}" for each in wrong)
        print(f"{share:7.0%}{points:8.0f}{cells}   {theory:.1%} at SD {spreads[1]:g}")


def _reversed(bias: float, worlds: int, rng: np.random.Generator) -> float:
    skill = rng.normal(0, SKILL, (worlds, MODELS))
    seen = skill + rng.normal(0, bias, skill.shape)
    one, two = np.triu_indices(MODELS, 1)
    return float(np.mean((skill[:, one] > skill[:, two]) != (seen[:, one] > seen[:, two])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="gates", choices=["gates", "ranks"])
    parser.add_argument("--worlds", type=int, default=400)
    parser.add_argument("--seed", type=int, default=26)
    given = parser.parse_args()
    (gates if given.what == "gates" else ranks)(given.worlds, given.seed)


if __name__ == "__main__":
    main()
