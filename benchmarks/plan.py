"""Does a study of the planned size decide its claim as often as planned? Simulated.

    .venv/bin/python benchmarks/plan.py             # 300 worlds a row

Models differ (SD 100 points) and every prompt suits a model more or less (SD 150). A pilot on 40
prompts names the claim: of two models drawn at random, the one it rates higher is above the other.
A new study has the planned number of prompts (at most 1,500: other worlds are drawn again), and its
claim is decided where the probability of the pair exceeds 97.5 %. With a gap assumed, that is the
true one, as the population value of Bradley–Terry.
"""

import argparse

import numpy as np
from strata import population, study

from arena_kit import BattleLog, BradleyTerry
from arena_kit.rating.claims import claims
from arena_kit.rating.claims.power import Effect

SHARE, PILOT, MOST = 0.975, 40, 1500


def one(
    rng: np.random.Generator, models: int, power: float, *, assumed: bool
) -> tuple[int, float, bool] | None:
    """The number of prompts that is planned in one world, their power (more than asked for where
    thirty prompts are too many), and whether they decide the claim.
    """
    skill = rng.normal(0, 100, models)

    def judged(prompts: int) -> BattleLog:
        return study(rng, models, prompts, 0, skill=skill, strata=1)[0]

    pilot = BradleyTerry()(judged(PILOT))
    pair = [f"m{i:02}" for i in rng.choice(models, 2, replace=False)]
    above, below = sorted(pair, key=lambda model: -pilot[model].rating)
    truth = dict(zip(sorted(pilot.models), population(skill), strict=True))
    gap = truth[above] - truth[below]
    if assumed and gap <= 0:
        return None
    effect = Effect.of(pilot, above, below, gap if assumed else None)
    prompts = effect.prompts(power, SHARE)
    if prompts is None or prompts > MOST:
        return None
    rated = BradleyTerry()(judged(prompts))
    at = rated.models.index(above), rated.models.index(below)
    return prompts, effect.power(prompts, SHARE), bool(claims.above(rated)[at] > SHARE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=30)
    given = parser.parse_args()
    print("models  wanted  by            planned %  decided %  median prompts")
    for models in (4, 8):
        for power in (0.5, 0.8):
            for assumed in (False, True):
                rng = np.random.default_rng([given.seed, models, int(100 * power), assumed])
                rows: list[tuple[int, float, bool]] = []
                while len(rows) < given.worlds:
                    rows += [row for row in [one(rng, models, power, assumed=assumed)] if row]
                prompts, planned, decided = np.array(rows, float).T
                by = "a gap assumed" if assumed else "the pilot    "
                print(f"{models:6} {100 * power:7.0f}  {by} {100 * planned.mean():9.1f} "
                      f"{100 * decided.mean():10.1f} {np.median(prompts):15.0f}",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
