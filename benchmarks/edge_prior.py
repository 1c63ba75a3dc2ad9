"""What half a win on every pair does to ratings: the table of design/edge-prior.md.

    .venv/bin/python benchmarks/edge_prior.py [DATA]

DATA is the folder of real battles (default: $ARENA_KIT_DATA, else ../shared/data).
"""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path

import numpy as np

from arena_kit import BattleLog, BradleyTerry, claims, read_battles


def always(prior: float, **settings: float) -> BradleyTerry:
    """Bradley–Terry with a prior on every pair that met."""
    return BradleyTerry(prior=prior, prior_when="always", **settings)  # type: ignore[arg-type]


def sparse() -> tuple[BattleLog, np.ndarray]:
    """Battles of 129 models with lognormal exposure, and their skills (mean 0)."""
    rng = np.random.default_rng(0)
    n, size = 129, 87_231
    skill, exposure = rng.normal(0, 150, n), rng.lognormal(0, 1, n)
    sides = rng.choice(n, (2, 2 * size), p=exposure / exposure.sum())
    a, b = sides[:, sides[0] != sides[1]][:, :size]
    p = 1 / (1 + 10 ** ((skill[b] - skill[a]) / 400))
    tie, draw = 1.4 * p * (1 - p), rng.random(size)
    outcome = np.where(draw < p - tie / 2, 0, np.where(draw < p + tie / 2, 2, 1))
    names = tuple(f"m{i:03d}" for i in range(n))
    log = BattleLog(
        models=names,
        a=a.astype(np.int32),
        b=b.astype(np.int32),
        outcome=outcome.astype(np.int8),
    )
    return log, skill - skill.mean()


def main() -> None:
    """Print slopes, coverage, and distances to the published list."""
    log, truth = sparse()
    for prior in (0.0, 0.05, 0.5):
        found = always(prior, center=0.0)(log)
        rows = [found[model] for model in log.models]
        rating = np.array([row.rating for row in rows])
        held = [r.ci_low <= t <= r.ci_high for r, t in zip(rows, truth, strict=True)]
        slope = rating @ truth / (truth @ truth)
        print(f"simulated, prior {prior}: slope {slope:.2f}, coverage {100 * np.mean(held):.0f} %")
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ARENA_KIT_DATA")
    folder = Path(given or Path(__file__).parent.parent.parent / "shared" / "data")
    votes = read_battles(folder / "chatbot_arena_27k" / "battles.csv.gz", winner="human")
    slope = claims.shrinkage(always(0.5)(votes), always(0.0)(votes))
    print(f"27k votes, prior 0.5 against none: slope {slope:.2f}")
    counts = folder / "chatbot_arena_1m7_counts"
    with (counts / "published_lmsys_ratings.csv").open() as lines:
        listed = {
            r["model"]: float(r["rating"]) for r in csv.DictReader(lines) if r["date"] == "20240822"
        }
    for prior in (0.0, 0.5):
        found = always(prior)(read_battles(counts / "pair_counts.csv.gz"))
        gap = np.array([found[m].rating - listed[m] for m in found.models if m in listed])
        gap -= gap.mean()
        rms, most = np.sqrt((gap**2).mean()), np.abs(gap).max()
        print(f"1.67 million votes, prior {prior}: RMS {rms:.2f}, largest {most:.1f}")


if __name__ == "__main__":
    main()
