"""How the sample's votes were made: those of people who do not exist, on the sample's responses.

    python sample/labels.py

writes simulated_labels.csv.gz beside this file, the same bytes every time. On factuality a planted
error costs a response most votes; else votes follow the planted skills.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np

from arena_kit.battles.write import write_columns
from arena_kit.judging.pairs.prompts import read_prompts, read_responses

#: Planted skills in Elo points, by dimension.
SKILLS = {
    "factuality": {"aspen": 1180, "birch": 1050, "cedar": 980, "dogwood": 1100},
    "calibration": {"aspen": 1180, "birch": 860, "cedar": 1050, "dogwood": 980},
    "clinical_utility": {"aspen": 1150, "birch": 1130, "cedar": 800, "dogwood": 1060},
}
ERROR = 400.0  # Elo points that a planted error costs on factuality
QUESTION_EFFECT = 80.0  # a question suits some models better: standard deviation in Elo
OUTCOMES = np.array(["model_a", "model_b", "tie"], object)


def main() -> None:
    """Write the file, a vote on each pair of each dimension."""
    folder = Path(__file__).parent
    prompts, models = read_prompts(folder / "prompts.jsonl"), sorted(SKILLS["factuality"])
    responses = read_responses(folder / "responses", models, [p.prompt_id for p in prompts])
    rng = np.random.default_rng(20261101)
    rows = []
    for dimension, skills in SKILLS.items():
        for prompt in prompts:
            if dimension == "factuality" and not prompt.gold_answer:
                continue
            strength = {m: skills[m] + rng.normal(0, QUESTION_EFFECT) for m in models}
            for model in models:
                wrong = (responses[model, prompt.prompt_id].diagnostics or {}).get("planted_error")
                strength[model] -= ERROR if wrong and dimension == "factuality" else 0.0
            for a, b in combinations(models, 2):
                p = 1 / (1 + 10 ** ((strength[b] - strength[a]) / 400))
                tie, luck = 0.8 * p * (1 - p), rng.random()
                vote = 0 if luck < p - tie / 2 else 2 if luck < p + tie / 2 else 1
                voter = f"simulated-{rng.integers(0, 60):03d}"
                rows.append((a, b, OUTCOMES[vote], dimension, prompt.prompt_id, voter))
    names = ("model_a", "model_b", "winner", "dimension", "question_id", "session")
    columns = zip(names, zip(*rows, strict=True), strict=True)
    whole: dict[str, object] = {name: np.array(column, object) for name, column in columns}
    whole["source"] = np.array(["human"] * len(rows), object)
    write_columns(folder / "simulated_labels.csv.gz", whole)


if __name__ == "__main__":
    main()
