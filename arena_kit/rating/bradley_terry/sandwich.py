"""How sure Bradley–Terry strengths are without resampling: the sandwich covariance, of one fit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log as ln

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import RatingError, Ratings, scores, together
from arena_kit.rating.bradley_terry.clusters import Evidence, Partition
from arena_kit.rating.bradley_terry.likelihood import (
    Cells,
    Codes,
    Fit,
    bordered,
    laplacian,
    to_models,
)
from arena_kit.rating.bradley_terry.tie_models import Floats

_CHUNK = 4096  # clusters summed at once
_FEW = 8  # a cluster with fewer rows than this part of the models is summed by products
_NEGLIGIBLE = 1e-10  # an eigenvalue, as a share of the largest, that is rounding


def covariance(fit: Fit, evidence: Evidence, same: NDArray[np.bool_]) -> Floats:
    """The sandwich covariance of all parameters; NaN where there is only one piece of evidence.

    Clustered two ways, it is what question and voter give less what both together give (Cameron,
    Gelbach and Miller 2011), without its negative eigenvalues. Of models whose battles all ended
    the `same` way the residuals say nothing; their variance is at least the one that the model of
    the outcomes gives them.
    """
    if evidence.pieces < 2:
        return np.full(fit.information.shape, np.nan)
    meat = [part.sign * _meat(fit, evidence, part) for part in evidence.partitions()]
    return sandwiched(fit, meat, same)


def sandwiched(fit: Fit, meat: Sequence[Floats], same: NDArray[np.bool_]) -> Floats:
    """The sandwich of what each way to cut the battles adds to the spread of the slope."""
    bread = fit.inverse()
    sandwich: Floats = bread @ sum(meat) @ bread
    if len(meat) > 1:
        sandwich = _power(sandwich, 1.0)  # negative eigenvalues become 0
    if same.any():
        n = fit.n_models
        missing = np.maximum(0, np.diag(bread)[:n] - np.diag(sandwich)[:n])
        sandwich[np.arange(n), np.arange(n)] += np.where(same, missing, 0)
    return sandwich


def stretched(draws: Floats, centre: Floats, narrow: Floats, wide: Floats) -> Floats:
    """Draws with the covariance `narrow`, moved about their centre so that it is `wide`, each as
    little as possible (optimal transport between normal distributions).

    A bootstrap that draws questions and voters at once counts what neither explains three times;
    this keeps the shape that drawing one of them gives, and the size of the two-way sandwich.
    """
    n = len(centre)  # of further parameters there are no draws
    narrow, wide = narrow[:n, :n], wide[:n, :n]
    root, inverse, moved = _power(narrow, 0.5), _power(narrow, -0.5), draws - centre
    missing = np.isnan(moved)
    moved = np.where(missing, 0.0, moved) @ (inverse @ _power(root @ wide @ root, 0.5) @ inverse)
    return np.where(missing, np.nan, centre + moved)


def _power(matrix: Floats, exponent: float) -> Floats:
    """A power of a positive semi-definite matrix, on the space that it spans."""
    value, vector = np.linalg.eigh((matrix + matrix.T) / 2)
    spanned = value > _NEGLIGIBLE * value.max()
    return np.asarray((vector[:, spanned] * value[spanned] ** exponent) @ vector[:, spanned].T)


def _meat(fit: Fit, evidence: Evidence, part: Partition) -> Floats:
    """The spread of the likelihood's slope between the pieces of one way to cut the battles."""
    cells = evidence.rows
    scores = scores_of(fit, cells) / np.sqrt(evidence.counts)  # n votes alike, not one of weight n
    small_sample = part.pieces / (part.pieces - 1)
    if part.clusters is not None:
        return small_sample * meat_of_clusters(cells, scores, part.clusters, fit.n_models)
    (gap, *_), rest, n = scores, scores[1:], fit.n_models
    border = _border(cells, gap, rest, n)
    return small_sample * bordered(laplacian(cells, gap**2, n), border, rest @ rest.T)


def scores_of(fit: Fit, cells: Cells) -> Floats:
    """The slope of each row's log-likelihood: in the gap first, then in tie and covariates."""
    terms = fit.terms(cells)
    tie = [terms.t] if fit.ties.start is not None else []
    return np.stack([terms.eta, *tie, *(terms.eta * x for x in cells.x.T)])


def meat_of_clusters(cells: Cells, scores: Floats, clusters: NDArray[np.int32], n: int) -> Floats:
    """The sum over clusters of the outer product of their summed scores.

    A cluster with few rows adds the products of any two of those; one with many, of whole sums.
    """
    gap, pieces = scores[0], int(clusters.max()) + 1
    rest = np.array([np.bincount(clusters, each, pieces) for each in scores[1:]])
    rest = rest.reshape(len(scores) - 1, pieces)
    inner = np.zeros((n, n))
    many = (np.bincount(clusters) > n // _FEW)[clusters]
    for rows, summed in ((~many, _of_few), (many, _of_many)):
        if rows.any():
            inner += summed(clusters[rows], cells.a[rows], cells.b[rows], gap[rows], n)
    return bordered(inner, _border(cells, gap, rest[:, clusters], n), rest @ rest.T)


def _border(cells: Cells, gap: Floats, others: Floats, n: int) -> Floats:
    """The products of gaps with other scores, a row for each of these and a column per model."""
    return np.array([to_models(cells, gap * each, n) for each in others]).reshape(len(others), n)


def _of_few(clusters: NDArray[np.int32], a: Codes, b: Codes, gap: Floats, n: int) -> Floats:
    """The sum over clusters of the products of any two of their gaps, at the models' places."""
    order = together(clusters)
    clusters, a, b, gap = clusters[order], a[order], b[order], gap[order]
    half, apart = np.zeros(n * n), 0
    while len(first := np.flatnonzero(clusters[apart:] == clusters[: len(clusters) - apart])):
        second = first + apart
        products = np.tile(gap[first] * gap[second] / (1 if apart else 2), 2)
        row_a, row_b, a_too, b_too = a[first] * n, b[first] * n, a[second], b[second]
        half += np.bincount(np.append(row_a + a_too, row_b + b_too), products, n * n)
        half -= np.bincount(np.append(row_a + b_too, row_b + a_too), products, n * n)
        apart += 1
    return half.reshape(n, n) + half.reshape(n, n).T


def _of_many(clusters: NDArray[np.int32], a: Codes, b: Codes, gap: Floats, n: int) -> Floats:
    """The same by a row of sums per cluster."""
    numbers, row = np.unique(clusters, return_inverse=True)
    order = together(row)
    edges = np.searchsorted(row[order], np.arange(0, len(numbers) + _CHUNK, _CHUNK))
    rows = min(_CHUNK, len(numbers))
    meat = np.zeros((n, n))
    for start, end in pairwise(edges):
        some = order[start:end]
        place, value = row[some] % _CHUNK * n, gap[some]
        summed = np.bincount(place + a[some], value, rows * n)
        summed -= np.bincount(place + b[some], value, rows * n)
        summed = summed.reshape(rows, n)
        meat += summed.T @ summed
    return meat


class Influence:
    """How far each question moves each rating with ties as half a win: `pulls` (questions × models)
    times `bread`.
    """

    def __init__(self, log: BattleLog, ratings: Ratings) -> None:
        from scipy.sparse import csr_array

        self.models, self.questions = log.models, _questions(log)
        size, unit = len(log.models), ratings.settings["scale"] / ln(10)
        strength = ratings.values(log.models) / unit
        chance = 1 / (1 + np.exp(strength[log.b] - strength[log.a]))
        pull = log.weights() * (scores(log) - chance)
        rows, sides = np.tile(log.clusters(), 2), np.append(log.a, log.b)
        shape = (int(rows.max()) + 1, size)
        self.pulls = csr_array((np.append(pull, -pull), (rows, sides)), shape=shape)
        information = laplacian(log, log.weights() * chance * (1 - chance), size)
        self.bread: Floats = unit * np.linalg.pinv(information, hermitian=True)

    def shared(self, other: Influence) -> Floats:
        """The covariance of these ratings (rows) with others (columns)."""
        names = sorted(self.questions.keys() & other.questions.keys())
        mine = self.pulls[[self.questions[name] for name in names]]
        theirs = other.pulls[[other.questions[name] for name in names]]
        return np.asarray(self.bread @ (mine.T @ theirs).toarray() @ other.bread)


def _questions(log: BattleLog) -> dict[str, int]:
    """The row of each named question."""
    if log.question_id is None:
        return {}
    rows = dict(zip(log.question_id.codes.tolist(), log.clusters().tolist(), strict=True))
    return {str(log.question_id.names[code]): row for code, row in rows.items() if code >= 0}


def covariance_of(ratings: Ratings) -> Floats:
    """The covariance of ratings; raises where their evidence shows none."""
    if ratings.covariance is None or not np.isfinite(ratings.covariance).all():
        raise RatingError("the covariance of ratings needs battles on two questions at least")
    return ratings.covariance
