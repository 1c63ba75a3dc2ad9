"""How the sample of a pushed model was made: votes of people who do not exist, five of them not
what they seem.

    python sample/arena/pushed.py

writes pushed_votes.csv.gz beside this file. Sixty honest voters with tastes of their own vote on
matchups drawn evenly. Three more vote only where elm is shown, and always for elm; one prefers
whatever stands left; one presses A or B at random, which sixty votes do not show.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from arena_kit import Battle, Outcome, write_battles
from arena_kit.battles.battle import Source
from arena_kit.battles.log import BattleLog

SKILLS = {
    "aspen": 1130, "birch": 1080, "cedar": 1060, "elm": 1000, "fir": 990, "hazel": 960,
    "juniper": 930, "larch": 850,
}  # fmt: skip
PUSHED = "elm"
PROMPTS = [f"simulated-{i:02}" for i in range(1, 41)]
TASTE, TIES = 40.0, 0.2
MONDAY = datetime(2026, 10, 5, 8, tzinfo=UTC)

Row = tuple[str, str, str, Outcome]


def drawn(rng: np.random.Generator, taste: dict[str, float]) -> Row:
    """A matchup of two models on a prompt, and what a voter with these tastes says."""
    a, b = (str(name) for name in rng.choice(list(SKILLS), 2, replace=False))
    prompt = str(rng.choice(PROMPTS))
    gap = SKILLS[a] + taste[a] - SKILLS[b] - taste[b]
    if rng.random() < TIES:
        return a, b, prompt, Outcome.TIE
    ahead = rng.random() < 1 / (1 + 10 ** (-gap / 400))
    return a, b, prompt, Outcome.MODEL_A if ahead else Outcome.MODEL_B


def honest(rng: np.random.Generator, n: int) -> list[Row]:
    """The votes of one honest voter."""
    taste = {name: float(rng.normal(0, TASTE)) for name in SKILLS}
    return [drawn(rng, taste) for _ in range(n)]


def pushing(rng: np.random.Generator, n: int) -> list[Row]:
    """Votes for one model in its own battles."""
    rows = (row for row in iter(lambda: honest(rng, 1)[0], None) if PUSHED in row[:2])
    own = [next(rows) for _ in range(n)]
    sides = {True: Outcome.MODEL_A, False: Outcome.MODEL_B}
    return [(a, b, prompt, sides[a == PUSHED]) for a, b, prompt, _ in own]


def simulated() -> BattleLog:
    """All votes, voter by voter."""
    rng = np.random.default_rng(20261005)
    votes = {f"simulated-{i:02}": honest(rng, int(rng.integers(30, 91))) for i in range(1, 61)}
    votes |= {f"simulated-{i:02}": pushing(rng, 60) for i in (61, 62, 63)}
    left = [(a, b, prompt, Outcome.MODEL_A) for a, b, prompt, _ in honest(rng, 60)]
    votes["simulated-64"] = left
    sides = (Outcome.MODEL_A, Outcome.MODEL_B)
    votes["simulated-65"] = [(*row[:3], sides[rng.integers(2)]) for row in honest(rng, 60)]
    rows = [(voter, *row) for voter, some in votes.items() for row in some]
    return BattleLog.from_battles(
        Battle(
            model_a=a,
            model_b=b,
            winner=outcome,
            source=Source.HUMAN,
            question_id=prompt,
            battle_id=f"vote-{n:04}",
            timestamp=MONDAY + timedelta(minutes=n),
            session=voter,
            voter=voter,
        )
        for n, (voter, a, b, prompt, outcome) in enumerate(rows, 1)
    )


def main() -> None:
    """Write the file."""
    write_battles(Path(__file__).parent / "pushed_votes.csv.gz", simulated())


if __name__ == "__main__":
    main()
