"""How a tie enters the likelihood of Bradley–Terry: as half a win, or as an outcome of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Terms(NamedTuple):
    """The log-likelihood's slopes in the gap `eta` and in the tie parameter `t`, and its
    curvatures, each with the sign that makes it positive at the peak; per cell.
    """

    eta: Floats
    t: Floats
    eta_eta: Floats
    eta_t: Floats
    t_t: Floats


Outcomes = Callable[[Floats, float, Floats, Floats, Floats], Terms]
Values = Callable[[Floats, float, Floats, Floats, Floats], Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class TieModel:
    """One treatment of ties: where its parameter starts (None: it has none), the log-likelihood
    and its terms.
    """

    start: float | None
    value: Values
    terms: Outcomes


def _half(eta: Floats, _: float, won: Floats, tied: Floats, lost: Floats) -> Terms:
    won, lost = won + tied / 2, lost + tied / 2
    games = won + lost
    p = _sigmoid(eta)
    none = np.zeros_like(eta)
    return Terms(won - games * p, none, games * p * (1 - p), none, none)


def _half_value(eta: Floats, _: float, won: Floats, tied: Floats, lost: Floats) -> Floats:
    return np.asarray((won + tied + lost) * _log_sigmoid(eta) - (lost + tied / 2) * eta)


def _davidson(eta: Floats, t: float, won: Floats, tied: Floats, lost: Floats) -> Terms:
    """Odds of win : tie : loss are e^(eta/2) : e^t : e^(-eta/2)."""
    games = won + tied + lost
    win, tie, loss = _davidson_chances(eta, t)
    lead = (win - loss) / 2
    return Terms(
        (won - lost) / 2 - games * lead,
        tied - games * tie,
        games * ((win + loss) / 4 - lead**2),
        -games * tie * lead,
        games * tie * (1 - tie),
    )


def _davidson_value(eta: Floats, t: float, won: Floats, tied: Floats, lost: Floats) -> Floats:
    total = np.logaddexp(np.logaddexp(eta / 2, -eta / 2), t)
    return np.asarray((won - lost) * eta / 2 + tied * t - (won + tied + lost) * total)


def _davidson_chances(eta: Floats, t: float) -> Floats:
    """Win, tie and loss."""
    logs = np.stack([eta / 2, np.full_like(eta, t), -eta / 2])
    return np.asarray(np.exp(logs - np.logaddexp.reduce(logs, axis=0)))


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -700, 700))))


def _log_sigmoid(x: Floats) -> Floats:
    return np.asarray(-np.logaddexp(0, -x))


TIE_MODELS = {
    "half": TieModel(start=None, value=_half_value, terms=_half),
    "davidson": TieModel(start=0.0, value=_davidson_value, terms=_davidson),
}
