"""Elo and Glicko-2 on battles that stay on disk: replayed in order, a chunk at a time.

Resamples are replayed beside the battles themselves: each plays a battle as often as its question
is drawn (`poisson_weights`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import log as ln

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import OUTCOMES
from arena_kit.battles.cells import CellTable, Rows, Stream, Way
from arena_kit.battles.log import BattleLog, Ints
from arena_kit.fanout import cluster, fan_out, shares
from arena_kit.rating import elo_steps
from arena_kit.rating.base import (
    MIN_QUESTIONS,
    Rating,
    RatingError,
    Ratings,
    check_kept,
    check_unweighted,
    known,
    scores,
    why_no_interval,
)
from arena_kit.rating.critical import widening
from arena_kit.rating.elo import PermutationElo
from arena_kit.rating.elo_replay import Games
from arena_kit.rating.glicko2 import Glicko2
from arena_kit.rating.glicko2_replay import States, replay
from arena_kit.rating.poisson_weights import PoissonWeights
from arena_kit.rating.resampling import interval
from arena_kit.rating.sketch import Sketch
from arena_kit.rating.tie_models import Floats

#: Games times replays from which compiled code pays for its start.
COMPILED_FROM = 200_000

Times = NDArray[np.uint8]
