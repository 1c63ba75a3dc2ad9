"""Which pairs are judged: the prompts of a run, and every two entrants on each."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice, zip_longest
from typing import Literal

import numpy as np

from arena_kit.files import DataError
from arena_kit.judging.pairs.prompts import Pair, Prompt

Missing = Literal["listwise", "pairwise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """The pairs to judge, and what could not be paired for want of a response.

    `dropped_prompts` lists the prompts left out whole (listwise), `dropped_pairs` counts
    the pairs lost in each dimension, and `missing` names the absent responses. `barred` counts
    the pairs that the judge must not judge.
    """

    pairs: tuple[Pair, ...]
    missing: tuple[tuple[str, str], ...]
    dropped_prompts: tuple[str, ...]
    dropped_pairs: dict[str, int]
    barred: dict[str, int] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Pairs per dimension."""
        return dict(Counter(pair.dimension for pair in self.pairs))


def select_subset(prompts: Sequence[Prompt], strata: Mapping[str, int], seed: int) -> list[Prompt]:
    """A seeded sample with `strata[source]` prompts of each source, in bank order.

    Each stratum is drawn on its own, so asking for more of one leaves the others as they
    were and only adds to it.
    """
    chosen: set[str] = set()
    for source, wanted in strata.items():
        ids = sorted(prompt.prompt_id for prompt in prompts if prompt.source == source)
        if not 0 <= wanted <= len(ids):
            raise DataError(
                f"stratum {source!r} has {len(ids)} prompts in the bank, but {wanted} were wanted"
                " (the parameter strata; {} takes the whole bank)"
            )
        rng = np.random.default_rng([seed, *source.encode()])
        chosen.update(ids[i] for i in rng.permutation(len(ids))[:wanted])
    if not chosen:
        raise DataError("the strata select no prompt at all")
    return [prompt for prompt in prompts if prompt.prompt_id in chosen]


def build_pairs(
    prompts: Sequence[Prompt],
    entrants: Sequence[str],
    available: Collection[tuple[str, str]],
    dimensions: Mapping[str, bool],
    *,
    missing: Missing = "listwise",
    limit: int = 0,
    only: str = "",
    barred: Collection[str] = (),
    prompts_of: Mapping[str, Collection[str]] | None = None,
) -> Pairing:
    """Every two entrants on every prompt, for each dimension.

    Parameters
    ----------
    available
        The (entrant, prompt) cells that have a response.
    dimensions
        Name to whether it needs a gold answer; prompts without one are then not its own.
    missing
        `listwise` leaves a prompt out when any entrant has no response to it, so that
        all entrants are compared on the same prompts; `pairwise` leaves out only the
        pairs that lack one.
    limit
        Keeps the first so many pairs of each dimension; 0 keeps all.
    only
        The entrant that every pair must hold; empty pairs everybody with everybody.
    barred
        Entrants that no pair may hold.
    prompts_of
        The ids of a dimension's prompts, where not all are.
    """
    if len(set(entrants)) < 2:
        raise DataError(f"a tournament needs two or more entrants, got {', '.join(entrants) or 0}")
    if only and only not in entrants:
        raise DataError(f"only_entrant {only!r} does not compete; entrants: {', '.join(entrants)}")
    have = set(available)
    cells = ((entrant, p.prompt_id) for p in prompts for entrant in sorted(entrants))
    absent = [cell for cell in cells if cell not in have]
    incomplete = {prompt_id for _, prompt_id in absent}
    lacking = {(e, p) for p in incomplete for e in entrants} if missing == "listwise" else {*absent}
    pairs: list[Pair] = []
    lost: dict[str, int] = {}
    own: dict[str, int] = {}
    for dimension, needs_gold in dimensions.items():
        wanted = [
            Pair(dimension=dimension, prompt_id=prompt.prompt_id, entrant_a=a, entrant_b=b)
            for prompt in prompts
            if (prompt.gold_answer or not needs_gold)
            and prompt.prompt_id in (prompts_of or {}).get(dimension, (prompt.prompt_id,))
            for a, b in combinations(sorted(set(entrants)), 2)
            if not only or only in (a, b)
        ]
        allowed = [p for p in wanted if not {*p.entrants} & {*barred}]
        kept = [p for p in allowed if not {(e, p.prompt_id) for e in p.entrants} & lacking]
        own[dimension] = len(wanted) - len(allowed)
        lost[dimension] = len(allowed) - len(kept)
        pairs += kept[:limit] if limit else kept
    if not pairs:
        aside = f", {sum(own.values())} pairs are of the judge's own family" if barred else ""
        raise DataError(f"no pair can be judged: {len(absent)} responses are missing{aside}")
    whole = tuple(sorted(incomplete)) if missing == "listwise" else ()
    return Pairing(
        pairs=tuple(pairs), missing=tuple(absent), dropped_prompts=whole, dropped_pairs=lost,
        barred=own if barred else {},
    )  # fmt: skip


def drawn_in_turn(pairs: Sequence[Pair], n: int, seed: int) -> tuple[Pair, ...]:
    """`n` pairs, or all where there are fewer, of each dimension in turn, in an order that the
    seed fixes.
    """
    by_dimension: dict[str, list[Pair]] = {}
    for i in np.random.default_rng(seed).permutation(len(pairs)):
        by_dimension.setdefault(pairs[i].dimension, []).append(pairs[i])
    rounds = zip_longest(*(by_dimension[name] for name in sorted(by_dimension)))
    turns = (pair for each in rounds for pair in each if pair is not None)
    return tuple(islice(turns, n))
