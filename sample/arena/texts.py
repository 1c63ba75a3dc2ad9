"""How the sample arena with texts was made: votes of people who do not exist, on answers that do.

    python sample/arena/texts.py

writes simulated_texts.jsonl.gz beside this file, the same bytes every time. Three entrants of the
sample answer in full, all four also in brief: the first two sentences of what they wrote.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from arena_kit.battles.write import write_columns
from arena_kit.judging.pairs.prompts import read_prompts, read_responses

#: Planted skills in Elo points; nobody votes on dogwood, which is there to be placed.
SKILLS = {
    "aspen": 1130, "birch": 1010, "cedar": 890,
    "aspen-brief": 1040, "birch-brief": 940, "cedar-brief": 830, "dogwood-brief": 960,
}  # fmt: skip
N_VOTES = 1_800
QUESTION_EFFECT = 80.0  # a question suits some models better: standard deviation in Elo
BOTH_BAD = 0.05
OUTCOMES = np.array(["model_a", "model_b", "tie", "both_bad"], object)


def brief(text: str) -> str:
    """The first two sentences."""
    return " ".join(re.split(r"(?<=[.!?])\s+", text.strip())[:2])


def answers(sample: Path, prompt_ids: list[str]) -> dict[tuple[str, str], str]:
    """What every model of the arena said to every prompt."""
    entrants = ("aspen", "birch", "cedar", "dogwood")
    whole = read_responses(sample / "responses", entrants, prompt_ids)
    said = {key: response.response_text for key, response in whole.items()}
    short = {(f"{name}-brief", prompt): brief(text) for (name, prompt), text in said.items()}
    return said | short


def votes(rng: np.random.Generator, n_prompts: int) -> tuple[np.ndarray, ...]:
    """Who met whom on which prompt and what was voted; ties are likelier between equals."""
    n = len(SKILLS)
    skill = np.array(list(SKILLS.values()), float) + rng.normal(0, QUESTION_EFFECT, (n_prompts, n))
    question = np.sort(rng.integers(0, n_prompts, N_VOTES))
    a = rng.integers(0, n, N_VOTES)
    b = (a + rng.integers(1, n, N_VOTES)) % n
    p = 1 / (1 + 10 ** ((skill[question, b] - skill[question, a]) / 400))
    tie, luck = 1.2 * p * (1 - p), rng.random(N_VOTES)
    vote = np.where(luck < p - tie / 2, 0, np.where(luck < p + tie / 2, 2, 1))
    return question, a, b, np.where(rng.random(N_VOTES) < BOTH_BAD, 3, vote)


def main() -> None:
    """Write the file, battles on one prompt together."""
    folder = Path(__file__).parent
    prompts = read_prompts(folder.parent / "prompts.jsonl")
    said = answers(folder.parent, [prompt.prompt_id for prompt in prompts])
    rng = np.random.default_rng(20261001)
    question, a, b, vote = votes(rng, len(prompts))
    names, ids = np.array([*SKILLS], object), np.array([p.prompt_id for p in prompts], object)
    sides = {"a": names[a], "b": names[b]}
    session = [f"simulated-{i:04d}" for i in rng.integers(0, 300, N_VOTES)]
    columns: dict[str, object] = {
        "battle_id": [f"text-{i:05d}" for i in range(N_VOTES)],
        "model_a": sides["a"],
        "model_b": sides["b"],
        "winner": OUTCOMES[vote],
        "source": ["human"] * N_VOTES,
        "question_id": ids[question],
        "session": session,
        "language": ["en"] * N_VOTES,
        "turns": [1] * N_VOTES,
        "prompt": [prompts[q].text for q in question],
        "response_a": [said[m, q] for m, q in zip(sides["a"], ids[question], strict=True)],
        "response_b": [said[m, q] for m, q in zip(sides["b"], ids[question], strict=True)],
    }
    whole = {name: np.array(column, object) for name, column in columns.items()}
    write_columns(folder / "simulated_texts.jsonl.gz", whole)


if __name__ == "__main__":
    main()
