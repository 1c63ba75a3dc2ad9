"""The clustered bootstrap of Bradley–Terry: what a resample is, and what its spread means."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t as student_t

from arena_kit import Battle, BattleLog, BradleyTerry, Outcome, PermutationElo, RatingError
from arena_kit.battles.battle import MAX_WEIGHT
from arena_kit.battles.log import Labels
from arena_kit.rating.bradley_terry.bootstrap import Priors, replicates
from arena_kit.rating.bradley_terry.clusters import Evidence, Votes, of_clusters
from arena_kit.rating.bradley_terry.likelihood import TIE_MODELS, Cells, Fit, Pairs, fitted
from arena_kit.rating.resampling import PoissonWeights

UNIT = 400 / math.log(10)
PERCENTILE = BradleyTerry(interval="percentile", resamples=100)


def battle(a: str, b: str, winner: str, question: str, **more: object) -> Battle:
    return Battle(model_a=a, model_b=b, winner=Outcome(winner), question_id=question, **more)


def simulated(
    questions: int, per_question: int, *, seed: int = 0, ties: float = 0.2, models: int = 4
) -> BattleLog:
    """Votes on questions with a difficulty of their own per model, and a length beside them."""
    rng = np.random.default_rng(seed)
    n = questions * per_question
    skill = np.linspace(0, 1, models)
    asked = np.repeat(np.arange(questions), per_question)
    trap = rng.normal(0, 0.7, (questions, models))
    a = rng.integers(0, models, n)
    b = (a + rng.integers(1, models, n)) % models
    length = rng.normal(size=n)
    gap = skill[a] - skill[b] + trap[asked, a] - trap[asked, b] + 0.4 * length
    won = rng.random(n) < 1 / (1 + np.exp(-gap))
    names = np.where(rng.random(n) < ties, "tie", np.where(won, "model_a", "model_b"))
    log = BattleLog.from_battles(
        battle(f"m{i}", f"m{j}", str(w), f"q{q:03}")
        for i, j, w, q in zip(a, b, names, asked, strict=True)
    )
    return replace(log, covariates={"length": length})


def voted(questions: int, voters: int, n: int, *, seed: int = 0, effect: float = 0.8) -> BattleLog:
    """Votes of voters with a taste of their own for each model, on questions that suit some."""
    rng = np.random.default_rng(seed)
    question, voter = rng.integers(0, questions, n), rng.integers(0, voters, n)
    level = (
        np.linspace(0, 1, 4)
        + rng.normal(0, effect, (questions, 4))[question]
        + rng.normal(0, effect, (voters, 4))[voter]
    )
    a = rng.integers(0, 4, n)
    b = (a + rng.integers(1, 4, n)) % 4
    row = np.arange(n)
    won = rng.random(n) < 1 / (1 + np.exp(level[row, b] - level[row, a]))
    return BattleLog.from_battles(
        battle(f"m{i}", f"m{j}", "model_a" if w else "model_b", f"q{q:03}", voter=f"v{v:03}")
        for i, j, w, q, v in zip(a, b, won, question, voter, strict=True)
    )


def as_counts(log: BattleLog) -> BattleLog:
    """The same votes as a table of pair counts."""
    table = log.pair_counts()
    sides = [table[side].tolist() for side in ("model_a", "model_b")]
    return BattleLog.from_counts(*sides, table["a_wins"], table["b_wins"], table["tie"])


def refits(
    log: BattleLog, method: BradleyTerry, n: int, *, compiled: bool | None = None
) -> tuple[Fit, Votes, NDArray[np.float64]]:
    """The fit to a log, what its resamples are drawn from, and what each was refitted to."""
    evidence = Evidence.of(log, np.empty((len(log), 0)), method.cluster)
    pairs = Pairs.of(evidence.rows, len(log.models))
    spare = pairs.prior(method.prior, 0)
    none = pairs.prior(0, 0)
    always = spare if method.prior_when == "always" else none
    cells = pairs.pooled(evidence.rows).and_also(always)
    fit = fitted(cells, len(log.models), TIE_MODELS[method.ties])
    votes, priors = evidence.votes(method.seed, max(n, 200)), Priors(always=always, spare=spare)
    return fit, votes, replicates(fit, votes, priors, n, compiled=compiled)


def times_in(votes: Votes, number: int) -> NDArray[np.float64]:
    """How often each cell stands in one resample."""
    return np.asarray(votes.drawn(slice(number - number % 4, number + 1))[:, -1])


def rows_in(log: BattleLog, n: int, seed: int = 0) -> list[NDArray[np.intp]]:
    """The battles of each of `n` resamples, as often as their question stands in it."""
    clusters = log.clusters()
    keys = np.arange(clusters.max() + 1, dtype=np.uint64)
    times = PoissonWeights.of(seed, n).times(keys, slice(0, n)).T
    return [np.repeat(np.arange(len(log)), drawn[clusters]) for drawn in times]


def has_peak(cells: Cells, times: NDArray[np.float64], n: int) -> bool:
    """Whether a resample has a finite rating without a prior (Ford 1957)."""
    beat = np.eye(n, dtype=bool)
    won, lost = cells.wins * times > 0
    beat[cells.a[won], cells.b[won]] = True
    beat[cells.b[lost], cells.a[lost]] = True
    return bool(np.all(np.linalg.matrix_power(beat.astype(float), n) > 0))


@pytest.fixture(params=[False, True], ids=["plain", "compiled"])
def compiled(request: pytest.FixtureRequest) -> bool:
    """Both engines, as far as installed."""
    if request.param:
        pytest.importorskip("numba")
    return bool(request.param)


@pytest.mark.parametrize(
    ("log", "method"),
    [
        (as_counts(simulated(600, 1)), BradleyTerry()),
        (simulated(120, 6), BradleyTerry(prior_when="always")),
        (simulated(120, 6), BradleyTerry(cluster="battle")),
        (simulated(120, 5), BradleyTerry(ties="davidson")),
        (voted(60, 30, 1500), BradleyTerry()),
    ],
    ids=["counts", "questions", "battles", "davidson", "voters"],
)
def test_resamples_spread_as_the_sandwich_says(log: BattleLog, method: BradleyTerry) -> None:
    """Two ways to the same standard error agree."""
    robust = method(log)
    found = replace(method, interval="percentile", resamples=300)(log)
    for model in log.models:
        assert found[model].rating == robust[model].rating
        assert found[model].extra["se"] == pytest.approx(robust[model].extra["se"], rel=0.18)
    spread = np.cov(found.replicates.T)
    size = np.sqrt(np.outer(np.diag(spread), np.diag(spread)))
    assert np.abs(robust.covariance - spread).max() < 0.27 * size.max()


def rated(log: BattleLog, method: BradleyTerry) -> NDArray[np.float64]:
    found = replace(method, interval="sandwich")(log)
    return np.array([found[model].rating for model in found.models])


@pytest.mark.parametrize(
    "method",
    [
        BradleyTerry(),
        BradleyTerry(prior_when="always"),
        BradleyTerry(ties="davidson", prior_when="always"),
        BradleyTerry(prior=0, covariates=("length",)),
    ],
)
def test_a_resample_is_a_refit_of_the_battles_it_stands_for(method: BradleyTerry) -> None:
    """Row r of the replicates is the rating of the log with the questions that draw r names."""
    log = simulated(25, 6, seed=2)
    found = replace(method, interval="percentile", resamples=100, seed=7)(log)
    for number, rows in enumerate(rows_in(log, 12, seed=7)):
        again = log.select(rows)
        assert len(again.pair_counts()["model_a"]) == 6, "every pair met again, as the prior needs"
        np.testing.assert_allclose(found.replicates[number], rated(again, method), atol=1e-6)


ENGINES = {
    "questions": lambda: simulated(60, 5, models=6),
    "counts": lambda: as_counts(simulated(400, 1)),
    "votes": lambda: replace(simulated(400, 1, models=8), question_id=None),
    "large counts": lambda: BattleLog.from_counts(
        ["x", "y", "x"], ["y", "z", "z"], [9000, 40, 13_149], [7000, 60, 1], [500, 0, 3]
    ),
}


@pytest.mark.parametrize("case", ENGINES)
@pytest.mark.parametrize("method", [BradleyTerry(prior=0), BradleyTerry(prior_when="always")])
def test_compiled_and_plain_agree(case: str, method: BradleyTerry) -> None:
    """The two engines give the same ratings to 1e-9 points, clustered or from counts."""
    pytest.importorskip("numba")
    log = ENGINES[case]()
    _, _, plain = refits(log, method, 40, compiled=False)
    _, _, fast = refits(log, method, 40, compiled=True)
    assert np.isfinite(plain).all()
    np.testing.assert_allclose(UNIT * fast, UNIT * plain, rtol=0, atol=1e-9)


def test_few_battles_have_a_fit_in_every_resample(compiled: bool) -> None:
    """Each resample is where every model has as many wins as its odds let expect."""
    rng, strength = np.random.default_rng(4), np.linspace(-4, 4, 7)
    for _ in range(12):
        a, b = np.append([np.arange(6), np.arange(1, 7)], rng.integers(0, 7, (2, 14)), axis=1)
        a, b = a[a != b], b[a != b]
        won = rng.random(len(a)) < 1 / (1 + np.exp(strength[b] - strength[a]))
        log = BattleLog.from_counts([f"m{i}" for i in a], [f"m{i}" for i in b], won, ~won)
        method = BradleyTerry(prior=0.1, prior_when="always")
        _, votes, found = refits(log, method, 12, compiled=compiled)
        met = Pairs.of(votes.cells, 7)
        for number, theta in enumerate(found):
            cells = votes.cells.with_weights(times_in(votes, number)).and_also(met.prior(0.1, 0))
            share = 1 / (1 + np.exp(theta[cells.b] - theta[cells.a]))
            more = cells.outcomes[0] - cells.games * share
            gained = np.bincount(cells.a, more, 7) - np.bincount(cells.b, more, 7)
            np.testing.assert_allclose(gained, 0, atol=1e-8)
        np.testing.assert_array_equal(found[:5], refits(log, method, 5, compiled=compiled)[2])


def test_newtons_method_does_not_go_back_and_forth() -> None:
    """Newton's steps do not jump for ever; the spread between clusters is that of a loop."""
    a, b = np.array([0, 0, 1, 2, 2, 2, 2]), np.array([1, 5, 2, 3, 4, 5, 6])
    won = np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 2.1])
    lost = np.array([0.1, 2.1, 2.1, 0.1, 0.1, 0.1, 0.1])
    cells = Cells.plain(a, b, np.stack([won, 0 * won, lost]))
    away = math.log(11) * (np.array([-1, 0, 1, 1, 0, 0, 0]) - 1 / 7)
    found = fitted(cells, 7, TIE_MODELS["half"], away).theta
    np.testing.assert_allclose(found[a] - found[b], np.log(won / lost), atol=1e-9)
    rng = np.random.default_rng(3)
    n, rows = 24, 300
    a = rng.integers(0, n, rows)
    b = (a + rng.integers(1, n, rows)) % n
    clusters = np.concatenate([rng.integers(0, 200, 180), np.full(120, 200)]).astype(np.int32)
    clusters = np.unique(clusters, return_inverse=True)[1].astype(np.int32)
    scores = rng.normal(size=rows)
    for sign in (-1, 1):
        expected = np.zeros((n, n))
        for cluster in range(clusters.max() + 1):
            summed = np.zeros(n)
            for row in np.flatnonzero(clusters == cluster):
                summed[a[row]] += scores[row]
                summed[b[row]] += sign * scores[row]
            expected += np.outer(summed, summed)
        found = of_clusters(a, b, scores, clusters, n, sign)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_steps_that_run_away_are_caught(compiled: bool) -> None:
    """Where steps overshoot, or weights are 1e9 beside 1, every resample has its fit."""
    small, large = simulated(11, 6, seed=4, ties=0.3), simulated(1, 900, seed=5, ties=0.3)
    named = BattleLog.from_battles(
        [*small.to_battles(), *(replace(b, question_id="all") for b in large.to_battles())]
    )
    method = BradleyTerry(prior=0)
    *_, found = refits(named, method, 60, compiled=compiled)
    drawn = rows_in(named, 60)
    often = [number for number, rows in enumerate(drawn) if len(rows) >= 2700]
    assert often, "some resample draws the large question three times"
    for number in often:
        expected = (rated(named.select(drawn[number]), method) - 1000) / UNIT
        np.testing.assert_allclose(found[number] - found[number].mean(), expected, atol=1e-8)
    assert np.isfinite(found).all()
    log = simulated(25, 12, seed=3)
    heavy = replace(log, weight=np.where(np.arange(len(log)) % 2, MAX_WEIGHT, 1.0))
    *_, found = refits(heavy, BradleyTerry(), 60, compiled=compiled)
    assert np.isfinite(found).all()


def test_the_percentile_interval_is_that_of_the_replicates() -> None:
    """Interval and error are those of the replicates, which counts and their votes share."""
    log = simulated(25, 4)
    found = PERCENTILE(log)
    assert found.replicates.shape == (100, 4)
    np.testing.assert_allclose(found.replicates.mean(axis=1), 1000, atol=1e-8)
    for n, model in enumerate(found.models):
        ordered = sorted(found.replicates[:, n])
        place = 0.025 * 99  # between the third and the fourth of 100
        low = ordered[2] + (place - 2) * (ordered[3] - ordered[2])
        own = np.bincount(log.clusters()[(log.a == n) | (log.b == n)])
        seen = own.sum() ** 2 / (own**2).sum()
        wider = student_t.ppf(0.975, seen - 1) / 1.9599640 * math.sqrt(seen / (seen - 1))
        rating = found[model].rating
        assert found[model].ci_low == pytest.approx(rating + wider * (low - rating), abs=1e-4)
        assert found[model].extra["se"] == pytest.approx(np.std(ordered, ddof=1), abs=1e-9)
    votes = replace(simulated(200, 1), question_id=None, covariates=None)
    one, other = PERCENTILE(votes), PERCENTILE(as_counts(votes))
    np.testing.assert_allclose(one.replicates, other.replicates, atol=1e-7)
    assert one["m0"].ci_low == pytest.approx(other["m0"].ci_low, abs=1e-7)


@pytest.mark.parametrize("ties", ["half", "davidson"])
def test_ten_questions_are_enough_for_an_interval(ties: str) -> None:
    """On ten questions every model has an interval around its rating; on nine none has one."""
    log = simulated(10, 8, ties=0.4)
    method = replace(PERCENTILE, ties=ties)  # type: ignore[arg-type]
    for rating in method(log).ratings:
        assert rating.ci_low < rating.rating < rating.ci_high
    nine = log.select(log.clusters() < 9)
    assert all(rating.ci_low is None for rating in method(nine).ratings)


def upsets(questions: int, lost: int) -> BattleLog:
    """Two battles per question, which x wins, but for some where it loses both."""
    return BattleLog.from_battles(
        battle("x", "y", "model_b" if q < lost else "model_a", f"q{q}")
        for q in range(questions)
        for _ in range(2)
    )


def lost_resamples(log: BattleLog, n: int, seed: int = 0) -> int:
    """How many resamples have no finite rating without a prior, by brute force."""
    _, votes, _ = refits(log, BradleyTerry(seed=seed), 1)
    drawn = [times_in(votes, number) for number in range(n)]
    return sum(not has_peak(votes.cells, times, len(log.models)) for times in drawn)


def test_resamples_that_one_model_sweeps_are_counted() -> None:
    """With two lost questions of ten, a resample in seven has none of them."""
    method = replace(PERCENTILE, prior=0, resamples=200)
    expected = lost_resamples(upsets(10, 2), 200)
    assert 10 < expected < 60
    message = f"^{expected} of 200 resamples have no finite rating; set a prior"
    with pytest.raises(RatingError, match=message):
        method(upsets(10, 2))
    found = method(upsets(12, 4))
    lost = np.isnan(found.replicates).all(axis=1)
    assert 0 < lost.sum() == lost_resamples(upsets(12, 4), 200) <= 10
    assert np.isfinite(found.replicates[~lost]).all()
    assert found["x"].ci_low is not None


@pytest.mark.parametrize("prior", [0.5, 2.0])
def test_a_resample_gets_the_spare_prior_where_it_needs_it(compiled: bool, prior: float) -> None:
    """Of two models a resample has the odds of the battles drawn."""
    log = upsets(10, 2)
    for when in ("needed", "always"):
        method = BradleyTerry(prior=prior, prior_when=when)  # type: ignore[arg-type]
        _, votes, found = refits(log, method, 120, compiled=compiled)
        swept = 0
        for number in range(120):
            times = times_in(votes, number)
            won, lost = votes.cells.outcomes[[0, 2]] @ times
            swept += (one_way := not (won and lost))
            added = prior if one_way or when == "always" else 0.0
            gap = found[number, 0] - found[number, 1]
            assert gap == pytest.approx(math.log((won + added) / (lost + added)), abs=1e-8)
        assert 5 < swept < 30


def test_a_resample_has_a_rating_only_where_one_exists(compiled: bool) -> None:
    """Without a prior, a resample without a model, or without its win or loss, has no rating."""
    rare = [battle("r", "m0", f"model_{w}", f"q{q:03}") for q, w in enumerate("aba")]
    with_a_rare_model = [*simulated(30, 10, ties=0).to_battles(), *rare]
    few_votes = replace(simulated(40, 1, models=7, seed=3, ties=0), question_id=None)
    for log in (BattleLog.from_battles(with_a_rare_model), few_votes):
        _, votes, found = refits(log, BradleyTerry(prior=0), 100, compiled=compiled)
        exists = [has_peak(votes.cells, times_in(votes, n), len(log.models)) for n in range(100)]
        assert 30 < sum(exists) < 90
        np.testing.assert_array_equal(np.isfinite(found).all(axis=1), exists)


@pytest.mark.filterwarnings("error")
def test_resamples_without_a_tie_are_counted() -> None:
    """Of fifteen questions with a tie on two, the resamples that drew neither have no fit."""
    log = simulated(15, 8, seed=11, ties=0)
    log.outcome[[0, 8]] = 2
    tieless = sum(not (log.outcome[rows] == 2).any() for rows in rows_in(log, 100))
    message = f"^{tieless} of 100 resamples have no finite fit: too few ties for ties='davidson'$"
    with pytest.raises(RatingError, match=message):
        replace(PERCENTILE, ties="davidson")(log)


def test_counts_stay_so_many_votes_beside_judged_battles() -> None:
    """A table of counts joined to battles on questions rates as the votes that it counts."""
    counts = BattleLog.from_counts(["x", "y", "x"], ["y", "z", "z"], [60, 50, 70], [40, 50, 30])
    judged = BattleLog.from_battles(
        battle("x", "new", "model_a" if n % 3 else "model_b", f"q{n}") for n in range(60)
    )
    votes = BattleLog.from_battles(
        replace(row, weight=1.0) for row in counts.to_battles() for _ in range(int(row.weight))
    )
    joined = BattleLog.joined(counts, judged)
    parts = (joined, BattleLog.joined(votes, judged)), (joined.select(range(len(counts))), votes)
    for found, expected in ([BradleyTerry()(log) for log in part] for part in parts):
        for rating in expected.ratings:
            assert found[rating.model].rating == pytest.approx(rating.rating, abs=1e-7)
            assert found[rating.model].extra["se"] == pytest.approx(rating.extra["se"], rel=1e-6)


def one_way(log: BattleLog, groups: list[object], *, jackknife: bool = True) -> NDArray[np.float64]:
    """The cluster jackknife (or plain sandwich) by definition, at the package's ratings."""
    found = BradleyTerry(prior=0)(log)
    theta = np.array([found[model].rating - 1000 for model in log.models]) / UNIT
    n = len(theta)
    x = np.eye(n)[log.a] - np.eye(n)[log.b]
    p = 1 / (1 + np.exp(-x @ theta))
    scores = x * ((log.outcome == 0) - p)[:, None]
    weighted = (p * (1 - p))[:, None] * x
    numbers = {g: np.array([h == g for h in groups]) for g in set(groups)}
    total, size = np.zeros((n, n)), len(numbers)
    for own in numbers.values():
        left = ~own if jackknife else np.ones(len(own), bool)
        step = np.linalg.pinv(x[left].T @ weighted[left]) @ scores[own].sum(axis=0)
        total += np.outer(step, step)
    small = (size - 1) / size if jackknife else size / (size - 1)
    return np.asarray(UNIT**2 * small * total)


def test_two_way_is_question_and_voter_less_both() -> None:
    """Cameron, Gelbach and Miller (2011): jackknives by question and by voter, less by both."""
    log = voted(20, 15, 400)
    asked, by = log.question_id.codes.tolist(), log.voter.codes.tolist()
    both = list(zip(asked, by, strict=True))
    expected = one_way(log, asked) + one_way(log, by) - one_way(log, both, jackknife=False)
    assert np.linalg.eigvalsh(expected).min() > -1e-6
    np.testing.assert_allclose(BradleyTerry(prior=0)(log).covariance, expected, rtol=1e-6)
    for way, groups in (("question", asked), ("voter", by), ("battle", list(range(400)))):
        found = BradleyTerry(prior=0, cluster=way)(log)  # type: ignore[arg-type]
        floor = 0.01 if way == "battle" else 1e-6  # a variance is not below that of the outcomes
        np.testing.assert_allclose(found.covariance, one_way(log, groups), rtol=floor)


def test_elo_knows_voters_too() -> None:
    """Few voters widen Elo's evidence interval; `both` is what the log names."""
    log = voted(200, 12, 800)
    method = PermutationElo(n_perms=20, evidence_replicates=200, evidence_orders=5)
    alone, known = method(replace(log, voter=None)), method(log)
    ratio = [known[m].extra["evidence_se"] / alone[m].extra["evidence_se"] for m in log.models]
    robust = [BradleyTerry(cluster=way)(log) for way in ("question", "both")]  # type: ignore[arg-type]
    narrow, wide = (np.mean([r.extra["se"] for r in each.ratings]) for each in robust)
    assert np.mean(ratio) == pytest.approx(wide / narrow, rel=0.15)
    assert wide > 1.3 * narrow
    assert 10 < known["m0"].extra["df"] < 11  # type: ignore[operator]
    log = voted(20, 15, 300)
    by_question = BradleyTerry(cluster="question")(log)
    names = [f"v{n}" for n in range(300)]
    for same in (
        replace(log, voter=None),
        replace(log, voter=Labels.of(names)),
        replace(log, voter=Labels.of([names[n % 7] for n in range(300)])),
    ):
        np.testing.assert_array_equal(BradleyTerry()(same).covariance, by_question.covariance)
    found = BradleyTerry()(replace(log, question_id=None)).covariance
    np.testing.assert_allclose(found, BradleyTerry(cluster="voter")(log).covariance, rtol=1e-9)
