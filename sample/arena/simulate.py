"""How the sample arena was made: votes of people who do not exist.

    python sample/arena/simulate.py

writes simulated_votes.csv.gz beside this file, the same bytes every time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from arena_kit import BattleLog, write_battles
from arena_kit.battles.battle import Source
from arena_kit.battles.log import Labels

#: Planted skills in Elo points; yew has too few votes to be ranked.
SKILLS = {
    "aspen": 1130, "birch": 1010, "cedar": 890, "dogwood": 1050, "elm": 1190, "fir": 1150,
    "hazel": 1095, "juniper": 1060, "larch": 1000, "maple": 960, "oak": 930, "pine": 850,
    "rowan": 800, "yew": 1000,
}  # fmt: skip
SHOWN = {"dogwood": 0.6, "yew": 0.15}  # how often, against 1 for the others
N_VOTES, N_QUESTIONS = 8_000, 600
QUESTION_EFFECT = 80.0  # a question suits some models better: standard deviation in Elo
BOTH_BAD = 0.08
JUDGED = ("aspen", "birch", "cedar")  # people also vote on what the judge decided


def judged_questions(folder: Path) -> list[str]:
    """The questions on which the demo judge decided, from the file beside this one."""
    from arena_kit import read_battles

    found = read_battles(folder / "judged_by_baseline.jsonl.gz").question_id
    return [] if found is None else [str(name) for name in found.names]


def matchups(rng: np.random.Generator, judged: list[str]) -> tuple[np.ndarray, ...]:
    """Who meets whom on which question: random, and every judged battle of the three once."""
    names = list(SKILLS)
    share = np.array([SHOWN.get(name, 1.0) for name in names])
    pairs = np.array([rng.choice(len(names), 2, replace=False, p=share / share.sum())
                      for _ in range(N_VOTES)])  # fmt: skip
    question = rng.integers(0, N_QUESTIONS, N_VOTES)
    trio = [names.index(name) for name in JUDGED]
    more = [
        (i, j, N_QUESTIONS + q) for i in trio for j in trio if i < j for q in range(len(judged))
    ]
    extra = np.array(more)
    a, b = np.concatenate([pairs, extra[:, :2]]).T
    every = np.concatenate([question, extra[:, 2]])
    order = rng.permutation(len(a))
    turned = rng.random(len(a)) < 0.5
    a, b = np.where(turned, b, a), np.where(turned, a, b)
    return a[order], b[order], every[order]


def outcomes(rng: np.random.Generator, a: np.ndarray, b: np.ndarray, q: np.ndarray) -> np.ndarray:
    """What was voted: ties are the likelier the closer the two are."""
    skill = np.array(list(SKILLS.values()), float)
    effect = rng.normal(0, QUESTION_EFFECT, (q.max() + 1, len(skill)))
    p = 1 / (1 + 10 ** ((skill[b] + effect[q, b] - skill[a] - effect[q, a]) / 400))
    tie = 1.2 * p * (1 - p)
    draw = rng.random(len(p))
    found = np.where(draw < p - tie / 2, 0, np.where(draw < p + tie / 2, 2, 1))
    return np.where(rng.random(len(p)) < BOTH_BAD, 3, found).astype(np.int8)


def simulated(folder: Path) -> BattleLog:
    """The votes, one every few minutes over two months."""
    rng = np.random.default_rng(20260901)
    judged = judged_questions(folder)
    a, b, question = matchups(rng, judged)
    outcome = outcomes(rng, a, b, question)
    names = np.array([f"arena-q{i:03d}" for i in range(N_QUESTIONS)] + judged, object)
    gaps = rng.exponential(610, len(a)).astype("timedelta64[s]")
    log = BattleLog(
        models=tuple(SKILLS),
        a=a.astype(np.int32),
        b=b.astype(np.int32),
        outcome=outcome,
        question_id=Labels.of(names[question]),
        battle_id=np.array([f"vote-{i:05d}" for i in range(len(a))], object),
        timestamp=(np.datetime64("2026-09-01T08:00:00", "us") + np.cumsum(gaps)),
        session=Labels.of([f"simulated-{i:04d}" for i in rng.integers(0, 900, len(a))]),
    )
    return log.of_source(Source.HUMAN)


def main() -> None:
    """Write the file."""
    folder = Path(__file__).parent
    write_battles(folder / "simulated_votes.csv.gz", simulated(folder))


if __name__ == "__main__":
    main()
