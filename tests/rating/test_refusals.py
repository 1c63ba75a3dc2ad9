"""What no method rates, and settings that none takes."""

from dataclasses import replace

import numpy as np
import pytest

from arena_kit import BradleyTerry, PermutationElo, RatingError
from arena_kit.rating.base import Ratings
from arena_kit.rating.glicko2 import Glicko2
from tests.samples import log_of

ELO, GLICKO = PermutationElo(n_perms=2, evidence_replicates=0), Glicko2(evidence_replicates=0)
METHODS = {"elo": ELO, "glicko2": GLICKO, "bradley_terry": BradleyTerry(both_bad="exclude")}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "there are none"),
        ([("a", "b", "both_bad")], "all were dropped .1 both_bad."),
        ([("a", "b", "model_a"), ("b", "c", "both_bad")], "no rating for c"),
        ([("a", "b", "model_a"), ("c", "d", "model_a")], "2 groups.*never met.*a, b; c, d"),
    ],
)
def test_ratings_that_do_not_exist(rows: list[tuple[str, str, str]], why: str, name: str) -> None:
    """Where no rating exists, the error names the cause."""
    with pytest.raises(RatingError, match=why):
        METHODS[name](log_of(rows))
    if name == "glicko2" and "never met" not in why:
        with pytest.raises(RatingError, match=why):
            GLICKO.history(log_of(rows))


@pytest.mark.parametrize("method", [ELO, GLICKO])
def test_replays_know_no_weights(method: PermutationElo | Glicko2) -> None:
    """A method that replays battles one by one refuses weights."""
    with pytest.raises(RatingError, match="cannot use weights"):
        method(replace(log_of([("a", "b", "model_a")]), weight=np.array([2.0])))


WRONG = {
    PermutationElo: {"k": 0, "n_perms": 0, "ties": "win", "evidence_replicates": 3, "seed": -1,
                     "scale": float("nan"), "evidence_orders": 10**8},
    Glicko2: {"initial": float("inf"), "volatility": 0, "tau": float("nan"), "rd": 20, "rd_min": 0,
              "rd_max": 10, "period_days": -1, "inconsistent": "win", "evidence_replicates": 3},
    BradleyTerry: {"scale": 0, "prior": -1, "prior_when": "never", "both_bad": "half",
                   "inconsistent": "half", "ties": "whole", "interval": "t", "cluster": "day"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("method", "setting", "value"),
    [(method, *wrong) for method, settings in WRONG.items() for wrong in settings.items()],
)
def test_settings_are_checked(method: type[Ratings], setting: str, value: object) -> None:
    """A setting outside its range is refused with its name and what is allowed."""
    with pytest.raises(ValueError, match=f"{setting} must be .*not"):
        method(**{setting: value})
