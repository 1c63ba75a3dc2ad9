"""Coverage of battles that stay on disk, in memory that grows with neither votes nor prompts.

Votes of models and pairs come from the kinds of battle. What is said of prompts comes from one pass
in which the votes on a prompt are together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import BOTH_BAD, TIE
from arena_kit.battles.cells import Rows, Stream, whole_clusters
from arena_kit.files import DataError
from arena_kit.policy.constants import Policy
from arena_kit.policy.coverage import NOT_SINGLE, PairTable
from arena_kit.policy.exposure import Counts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class StreamedCoverage(PairTable):
    """The coverage of a streamed log: all its models are enabled and all its prompts active.

    Parameters
    ----------
    prompts
        How many prompts the log names.
    covered
        On how many of them each model has the floor of decisive votes.
    """

    prompts: int
    covered: Counts

    @classmethod
    def of(cls, stream: Stream, policy: Policy | None = None) -> Self:
        """Count a stream."""
        policy, log, count = policy or Policy(), stream.cells.log(), stream.cells.count
        if np.any(stream.cells.weight != count):
            raise DataError(NOT_SINGLE)
        n, low, high = len(log.models), np.minimum(log.a, log.b), np.maximum(log.a, log.b)

        def of_models(kind: NDArray[np.bool_]) -> Counts:
            sides = np.append(low[kind], high[kind])
            return np.bincount(sides, np.tile(count[kind], 2), n).astype(np.int64)

        decisive = log.decisive()
        pair = np.where(decisive, low.astype(np.int64) * n + high, -1)
        by_pair = np.bincount(pair[decisive], count[decisive], n * n).astype(np.int64)
        prompts, covered, pair_prompts = 0, np.zeros(n, np.int64), np.zeros(n * n, np.int64)
        if "question" in stream.ways:
            for rows in whole_clusters(stream.grouped("question", named=True)):
                prompt = _numbered(rows)
                prompts += int(prompt[-1]) + 1
                here = pair[rows.cell]
                prompt, here = prompt[here >= 0], here[here >= 0]
                covered += _with_floor(prompt, here, n, policy.prompts.floor)
                pair_prompts += np.bincount(np.unique(prompt * n * n + here) % (n * n),
                                            minlength=n * n)  # fmt: skip
        return cls(
            policy=policy,
            models=log.models,
            votes=of_models(np.ones(len(log), bool)),
            decisive=of_models(decisive),
            ties=of_models(log.outcome == TIE),
            both_bad=of_models(log.outcome == BOTH_BAD),
            by_pair=_symmetric(by_pair, n),
            pair_prompts=_symmetric(pair_prompts, n),
            prompts=prompts,
            covered=covered,
        )

    def prompt_coverage(self) -> NDArray[np.float64]:
        """Share of prompts on which each model has the floor of decisive votes (7.2)."""
        return np.asarray(self.covered / max(1, self.prompts), float)


def _numbered(rows: Rows) -> NDArray[np.int64]:
    """The number of each row's prompt among those of the rows, which are sorted by it."""
    new = rows.cluster[1:] != rows.cluster[:-1]
    return np.concatenate([[0], np.cumsum(new)])


def _with_floor(
    prompt: NDArray[np.int64], pair: NDArray[np.int64], n: int, floor: int
) -> NDArray[np.int64]:
    """On how many prompts each model has so many of these decisive votes."""
    model = np.concatenate(np.divmod(pair, n))
    cells, votes = np.unique(np.tile(prompt, 2) * n + model, return_counts=True)
    return np.bincount(cells[votes >= floor] % n, minlength=n)


def _symmetric(flat: Counts, n: int) -> Counts:
    table = flat.reshape(n, n)
    return np.asarray(table + table.T)
