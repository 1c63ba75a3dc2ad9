"""How long the fragility of a large board takes, and whether every number turns its order round.

    .venv/bin/python benchmarks/fragility.py

The 1,670,250 votes of Chatbot Arena up to August 2024, read from $ARENA_KIT_DATA (default
../shared/data). Processor seconds are the least of five runs. The numbers are then found once more
with every refit begun from nothing instead of the ratings of all votes; they must be the same.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import process_time
from typing import Any

from arena_kit import read_battles
from arena_kit.rating.bradley_terry.likelihood import TIE_MODELS, fitted
from arena_kit.rating.claims import power as module
from arena_kit.rating.claims.power import fragility


def from_nothing(fit: Any, cells: Any, _: Any) -> Any:
    """A refit that does not know where the ratings were."""
    return fitted(cells, fit.n_models, TIE_MODELS["half"]).theta


def main() -> None:
    """Print both answers."""
    data = Path(os.environ.get("ARENA_KIT_DATA", "../shared/data"))
    log = read_battles(data / "chatbot_arena_1m7_counts" / "pair_counts.csv.gz")
    taken = []
    for _ in range(5):
        start = process_time()
        found = fragility(log)
        taken.append(process_time() - start)
    print(f"{found.first.of:,} votes, {len(log.models)} models: {min(taken):.2f} s (bar: 1 s)")
    print(found.first.sentence)
    module.refitted = from_nothing
    again = fragility(log)
    same = sum(one == two for one, two in zip(found.neighbours, again.neighbours, strict=True))
    print(f"confirmed from nothing: {same} of {len(found.neighbours)} neighbours, ", end="")
    print("and the first place" if found.first == again.first else "but not the first place")


if __name__ == "__main__":
    main()
