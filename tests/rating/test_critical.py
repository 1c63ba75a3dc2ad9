"""How large a gap must be: Student's t and the studentized range, against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, studentized_range
from scipy.stats import t as student_t

from arena_kit.rating.critical_values import normal_score, span_scores, t_score, widening


@pytest.mark.parametrize("df", [9, 14, 39, 1000])
@pytest.mark.parametrize("t", [-3.0, 0.0, 0.5, 2.0, 5.0])
def test_a_t_is_as_improbable_as_its_normal_score(t: float, df: int) -> None:
    """Both leave the same probability above them."""
    expected = norm.isf(student_t.sf(t, df))
    assert float(normal_score(t, df)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("z", [1.959964, 2.807, 4.2])
def test_the_t_score_is_the_quantile(z: float) -> None:
    """It leaves as much above it as the normal deviate does."""
    df = np.array([[9.0, 14.0], [200.0, np.inf]])
    expected = student_t.isf(norm.sf(z), df)
    np.testing.assert_allclose(t_score(z, df), expected, rtol=1e-5)


@pytest.mark.parametrize("level", [0.95, 0.995])
def test_span_scores_are_the_studentized_range(level: float) -> None:
    """The gap between the best and worst of p equal models, in standard errors of a gap."""
    scores = span_scores(30, level)
    assert len(scores) == 30
    assert scores[0] == 0
    for p in (2, 3, 8, 30):
        expected = studentized_range.ppf(level, p, np.inf) / np.sqrt(2)
        assert scores[p - 1] == pytest.approx(expected, abs=2e-4)


def test_widening_by_hand() -> None:
    """Ten clusters: t with nine degrees of freedom is 2.2622, and the spread misses sqrt(10/9)."""
    assert float(widening(9)) == pytest.approx(2.262157 / 1.959964 * np.sqrt(10 / 9), rel=1e-6)
    assert float(widening(np.inf)) == 1.0
