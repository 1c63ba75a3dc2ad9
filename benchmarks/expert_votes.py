"""What a clever choice of battles for people's votes could save, beside a judge on all of them.

    .venv/bin/python benchmarks/expert_votes.py DATA    # the folder that has chatbot_arena_27k

Bounds, on 26,919 battles with a human vote and three judges. Votes are drawn with known
probabilities and weighted by their inverse, so ratings stay unbiased. Beside a judge's verdicts f
(prediction-powered), a vote h adds the residual h − λ f, and the best probabilities are
proportional to its root mean square given what is known beforehand: whether GPT-4 named a winner,
and how many different verdicts the three judges gave. The votes needed are then
(mean of roots)² / mean of squares of those of a random choice. The choice of pairs is bounded by
the design with the least mean standard error of Bradley–Terry (multiplicative algorithm).
"""

import sys
from pathlib import Path

import numpy as np

from arena_kit import BattleLog, BradleyTerry, read_battles
from arena_kit.rating.base import scores

JUDGES = ("gpt-4-0125-preview", "claude-3-opus-20240229", "gpt-3.5-turbo")


def by_verdicts(file: Path, human: BattleLog) -> None:
    """What preferring battles with unsure or different verdicts saves."""
    voted = scores(human)
    said = np.stack([scores(read_battles(file, winner=name)) for name in JUDGES], axis=1)
    differ = np.array([len(set(row)) for row in said.tolist()])
    group = differ * 10 + (said[:, 0] != 0.5)
    best = np.cov(voted, said[:, 0])[0, 1] / said[:, 0].var()
    for name, weight in (("λ 1", 1.0), ("λ best", best)):
        off = voted - voted.mean() - weight * (said[:, 0] - said[:, 0].mean())
        share = np.array([np.mean(group == each) for each in np.unique(group)])
        square = np.array([np.mean(off[group == each] ** 2) for each in np.unique(group)])
        print(f"verdicts, {name}: {(share @ np.sqrt(square)) ** 2 / (share @ square):.3f} of votes")


def by_pairs(human: BattleLog, steps: int = 3000) -> None:
    """What other shares of pairs save."""
    n = len(human.models)
    met = np.zeros((n, n))
    np.add.at(met, (human.a, human.b), 1.0)
    upper = np.triu_indices(n, 1)
    now = (met + met.T)[upper]
    rating = BradleyTerry()(human).values(human.models) * np.log(10) / 400
    worth = 1 / (2 + 2 * np.cosh(rating[upper[0]] - rating[upper[1]]))

    def covariance(share: np.ndarray) -> np.ndarray:
        each = np.zeros((n, n))
        each[upper] = share / share.sum() * worth
        each += each.T
        return np.linalg.pinv(np.diag(each.sum(axis=1)) - each)

    def width(share: np.ndarray) -> float:
        return float(np.sqrt(np.diag(covariance(share))).mean())

    share = now / now.sum()
    for _ in range(steps):
        spread = covariance(share)
        slope = spread @ np.diag(1 / np.sqrt(np.diag(spread))) @ spread
        own = np.diag(slope)
        share *= np.sqrt(worth * (own[upper[0]] + own[upper[1]] - 2 * slope[upper]))
        share /= share.sum()
    for name, each in (("all alike", np.ones_like(now)), ("best", share)):
        print(f"pairs, {name}: {(width(each) / width(now)) ** 2:.3f} of votes")


def main() -> None:
    file = Path(sys.argv[1]) / "chatbot_arena_27k" / "battles.csv.gz"
    human = read_battles(file, winner="human")
    by_verdicts(file, human)
    by_pairs(human)


if __name__ == "__main__":
    main()
