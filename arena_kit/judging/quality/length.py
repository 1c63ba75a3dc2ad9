"""Preference for the longer response, beyond what the models behind the two are worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from arena_kit.judging.quality.agreement import Share, share_of
from arena_kit.judging.quality.calls import Calls
from arena_kit.judging.quality.regression import shift


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthPreference:
    """How length moves verdicts, with intervals clustered by question.

    `raw` is the share of decisive verdicts that name the longer response. `doubled` is the win
    share of a response twice as long as one of equal quality: from a logistic regression of every
    verdict on the two models (their fitted ratings), the slot, and the logarithm of the lengths'
    ratio. A response may be longer and better on its question; the regression cannot tell.
    """

    raw: Share
    doubled: Share


def length_preference(calls: Calls) -> LengthPreference:
    """The preference of these answers, of which those without lengths are left out."""
    rows = calls.select(calls.answered & np.isfinite(calls.longer))
    differs = rows.longer != 0
    decisive = differs & (rows.said != 1)
    named_longer = (rows.said == 0) == (rows.longer > 0)
    raw = share_of(named_longer[decisive], rows.clusters[decisive])
    if not decisive.any():
        return LengthPreference(raw=raw, doubled=raw)
    x = np.column_stack([rows.longer, np.ones(len(rows)), rows.model_columns(rows.models)])
    doubled = shift(x, rows.won, rows.clusters, 0, n=int(differs.sum()))
    return LengthPreference(raw=raw, doubled=doubled)
