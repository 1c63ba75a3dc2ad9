"""The same request asked again: how often a judge says the same."""

from __future__ import annotations

import numpy as np

from arena_kit.judging.quality.agreement import Share, share_of
from arena_kit.judging.quality.calls import Calls


def stability(calls: Calls) -> Share:
    """The share of equal answers among every two to the same request (one pair in one order), with
    an interval clustered by question.
    """
    rows = calls.select(calls.answered)
    request = rows.pair * 2 + (rows.first < rows.second)
    names, place = np.unique(request, return_inverse=True)
    counts = np.bincount(place * 3 + rows.said, minlength=3 * len(names)).reshape(-1, 3)
    equal = (counts * (counts - 1) // 2).sum(axis=1)
    asked = counts.sum(axis=1)
    unequal = asked * (asked - 1) // 2 - equal
    question = np.zeros(len(names), int)
    question[place] = rows.clusters
    flags = np.repeat(np.tile([True, False], len(names)), np.stack([equal, unequal], 1).ravel())
    return share_of(flags, np.repeat(question, equal + unequal))
