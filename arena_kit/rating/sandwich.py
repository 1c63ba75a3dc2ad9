"""Robust (sandwich) covariance of a fit, with battles clustered by question."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from arena_kit.rating.evidence import Evidence
from arena_kit.rating.likelihood import Cells, Fit
from arena_kit.rating.tie_models import Floats

_CHUNK = 4096


def covariance(fit: Fit, evidence: Evidence, same: NDArray[np.bool_]) -> Floats:
    """The covariance of all parameters; NaN where there is only one piece of evidence.

    Of models whose battles all ended the `same` way the residuals say nothing; their variance is
    at least the one that the model of the outcomes gives them.
    """
    cells, pieces = evidence.rows, evidence.pieces
    if pieces < 2:
        return np.full(fit.information.shape, np.nan)
    scores = _scores(fit, cells) / np.sqrt(evidence.counts)  # n votes alike, not one of weight n
    if evidence.clusters is not None:
        meat = _meat_of_clusters(cells, scores, evidence.clusters, fit.n_models)
    else:
        meat = _meat_of_rows(cells, scores, fit.n_models)
    bread = fit.inverse()
    found: Floats = bread @ meat @ bread * (pieces / (pieces - 1))
    if same.any():
        n = fit.n_models
        missing = np.maximum(0, np.diag(bread)[:n] - np.diag(found)[:n])
        found[np.arange(n), np.arange(n)] += np.where(same, missing, 0)
    return found


def _scores(fit: Fit, cells: Cells) -> Floats:
    """The slope of each row's log-likelihood: in the gap first, then in tie and covariates."""
    terms = fit.terms(cells)
    tie = [terms.t] if fit.ties.start is not None else []
    return np.stack([terms.eta, *tie, *(terms.eta * x for x in cells.x.T)])


def _meat_of_rows(cells: Cells, scores: Floats, n: int) -> Floats:
    """The sum over rows of the outer product of their scores."""
    gap, rest = scores[0], scores[1:]
    square = np.bincount(cells.a * n + cells.b, gap**2, n * n).reshape(n, n)
    square = square + square.T
    border = np.array(
        [np.bincount(cells.a, gap * each, n) - np.bincount(cells.b, gap * each, n) for each in rest]
    ).reshape(len(rest), n)
    laplacian = np.diag(square.sum(axis=1)) - square
    return np.block([[laplacian, border.T], [border, rest @ rest.T]])


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
