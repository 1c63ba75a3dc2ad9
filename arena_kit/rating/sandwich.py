"""Robust (sandwich) covariance of a fit, with battles clustered by question."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from arena_kit.rating.evidence import Evidence
from arena_kit.rating.likelihood import Cells, Fit
from arena_kit.rating.tie_models import Floats

_CHUNK = 4096


def covariance(fit: Fit, evidence: Evidence) -> Floats:
    """The covariance of all parameters; NaN where there is only one piece of evidence."""
    cells, pieces = evidence.rows, evidence.pieces
    if pieces < 2:
        return np.full(fit.information.shape, np.nan)
    scores = _scores(fit, cells)
    if evidence.clusters is not None:
        meat = _meat_of_clusters(cells, scores, evidence.clusters, fit.n_models)
    else:
        alike = np.ones(len(cells.a)) if evidence.counts is None else evidence.counts
        meat = _meat_of_rows(cells, scores, 1 / alike, fit.n_models)
    bread = fit.inverse()
    found: Floats = bread @ meat @ bread * (pieces / (pieces - 1))
    return found


def _scores(fit: Fit, cells: Cells) -> Floats:
    """The slope of each row's log-likelihood: in the gap first, then in tie and covariates."""
    terms = fit.terms(cells)
    tie = [terms.t] if fit.ties.start is not None else []
    return np.stack([terms.eta, *tie, *(terms.eta * x for x in cells.x.T)])


def _meat_of_rows(cells: Cells, scores: Floats, times: Floats, n: int) -> Floats:
    """The sum over rows of the outer product of their scores."""
    gap, rest = scores[0], scores[1:]
    square = np.bincount(cells.a * n + cells.b, times * gap**2, n * n).reshape(n, n)
    square = square + square.T
    border = np.array(
        [
            np.bincount(cells.a, times * gap * each, n)
            - np.bincount(cells.b, times * gap * each, n)
            for each in rest
        ]
    ).reshape(len(rest), n)
    laplacian = np.diag(square.sum(axis=1)) - square
    return np.block([[laplacian, border.T], [border, (rest * times) @ rest.T]])


def _meat_of_clusters(cells: Cells, scores: Floats, clusters: NDArray[np.int32], n: int) -> Floats:
    """The sum over clusters of the outer product of their summed scores."""
    size = n + len(scores) - 1
    order = np.argsort(clusters, kind="stable")
    edges = np.searchsorted(clusters[order], np.arange(0, clusters.max() + 1 + _CHUNK, _CHUNK))
    meat = np.zeros((size, size))
    for start, end in pairwise(edges):
        some = order[start:end]
        row = (clusters[some] % _CHUNK).astype(np.intp) * size
        extras = [row + n + i for i in range(len(scores) - 1)]
        places = np.concatenate([row + cells.a[some], row + cells.b[some], *extras])
        values = np.concatenate([scores[0, some], -scores[0, some], *scores[1:, some]])
        summed = np.bincount(places, values, _CHUNK * size).reshape(_CHUNK, size)
        meat += summed.T @ summed
    return meat
