"""How far voters agree on the same battles: shares, Cohen's kappa, Krippendorff's alpha, what that
says of a judge beside people, and a panel of judges that votes on every pair.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import nan
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_kit.battles.battle import A_WINS, B_WINS, OUTCOMES, TIE, Source
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.files import DataError
from arena_kit.judging.quality import estimates
from arena_kit.judging.quality.estimates import Estimate, Floats, Measure, share_of
from arena_kit.rating.base import Ratings, known, rated_or_none
from arena_kit.rating.bradley_terry.method import BradleyTerry

Rows = NDArray[np.integer[Any]]
Ties = Literal["counted", "left out"]
#: What a verdict may say, in the order of the tables: the first side, neither, the second.
LABELS = ("model_a", "tie", "model_b")

#: The judge of a panel's battles.
PANEL = "panel/majority"
#: Models below which no rank correlation is told.
_MIN_RANKED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How often two voters say the same, and how much of that is beyond chance (`kappa`), with
    ties as a verdict of their own or only where both are decisive.
    """

    ties: Ties
    agreed: int
    rate: Estimate
    kappa: Estimate


def agreement(
    first: ArrayLike, second: ArrayLike, clusters: ArrayLike | None = None, *, ties: Ties
) -> Agreement:
    """Agreement of two columns of `LABELS` (as numbers; -1 is no verdict), row by row.

    Parameters
    ----------
    clusters
        What rows belong together, as numbers; by default each stands for itself.
    ties
        `counted` as a verdict, or `left out`: only rows that both decide.
    """
    one, two = np.asarray(first), np.asarray(second)
    kept = (one >= 0) & (two >= 0)
    if ties == "left out":
        kept &= (one != 1) & (two != 1)
    groups = np.arange(len(one)) if clusters is None else np.asarray(clusters)
    one, two, groups = one[kept], two[kept], groups[kept]
    return Agreement(
        ties=ties,
        agreed=int((one == two).sum()),
        rate=share_of(one == two, groups),
        kappa=estimates.jackknifed(_tables(one, two, groups), _kappas, n=len(one)),
    )


def verdicts(log: BattleLog) -> NDArray[np.int8]:
    """What each battle says, as a place in `LABELS`; ties of every kind are ties."""
    table = np.full(len(OUTCOMES), LABELS.index("tie"), np.int8)
    table[A_WINS], table[B_WINS] = LABELS.index("model_a"), LABELS.index("model_b")
    return np.asarray(table[log.outcome])


def matched(first: BattleLog, second: BattleLog) -> tuple[Rows, Rows]:
    """Rows of both logs that are about the same battle: row by row for two columns of one file,
    else every combination on the same two models, question and dimension; none without questions.
    Sides must be in order (`BattleLog.sides_in_order`).
    """
    ours, theirs = _keys(first), _keys(second)
    if ours == theirs:
        return np.arange(len(ours)), np.arange(len(ours))
    if first.question_id is None or second.question_id is None:
        theirs = []
    by_key: dict[tuple[object, ...], list[int]] = {}
    for row, key in enumerate(theirs):
        by_key.setdefault(key, []).append(row)
    pairs = [(i, j) for i, key in enumerate(ours) for j in by_key.get(key, ())]
    rows = np.array(pairs, np.intp).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def alpha(ratings: ArrayLike, clusters: ArrayLike | None = None) -> Estimate:
    """Krippendorff's alpha of several voters (rows) on the same units (columns), NaN where a voter
    said nothing: 1 is full agreement, 0 what chance would give. No value where no two voters
    differ anywhere and only one value was ever given.

    The interval leaves out one cluster of units at a time.
    """
    parts = _coincidences(ratings)
    groups = np.arange(len(parts)) if clusters is None else np.asarray(clusters)
    return estimates.jackknifed(estimates.sums(parts, groups), _alphas, n=round(float(parts.sum())))


def between(judges: Mapping[str, BattleLog]) -> Estimate:
    """Krippendorff's alpha of several judges, or of judges and people, on the battles of the first
    one; ties are a verdict of their own, and the interval leaves out a question at a time.
    """
    logs = [log.sides_in_order() for log in judges.values()]
    table = np.full((len(logs), len(logs[0])), np.nan)
    for row, log in enumerate(logs):
        ours, theirs = matched(logs[0], log)
        table[row, ours] = verdicts(log)[theirs]
    questions = logs[0].question_id
    return alpha(table, None if questions is None else questions.codes)


def people(
    judged: BattleLog, labels: BattleLog, strata: Mapping[str, str] | None = None
) -> list[Measure]:
    """A judge's battles held against labels on the same two models and question; nothing where
    there are none.

    `agreement_by_call` is of battles that people decided, where a judge whose two orders disagree
    is right in one call of two; `agreement` and `kappa` are of battles decisive by both, and these
    three also of each stratum of questions; `agreement_with_ties` and `kappa_with_ties` are of all
    of them with ties as a verdict. Ratings of the same models by the judge and by people are
    compared by `spearman`, `kendall` and `rating_error`, the root mean square of the differences in
    points, both sides centred.

    Parameters
    ----------
    labels
        People's votes or gold labels. Without dimensions they are held against any.
    strata
        The stratum of each question.
    """
    judge, voters, ours, theirs = _paired(judged, labels)
    if not len(ours):
        return []
    one, two = verdicts(judge)[ours], verdicts(voters)[theirs]
    questions = ours if judge.question_id is None else judge.question_id.codes[ours]
    whole, flipped = agreement(one, two, questions, ties="counted"), judge.flags()[ours]
    with_ties = whole.rate.named("agreement_with_ties"), whole.kappa.named("kappa_with_ties")
    stratum, rows = stratum_of(judge, strata or {})[ours], []
    for name in ("", *sorted({str(each) for each in stratum if each})):
        at = (stratum == name) | (not name)
        calls = _by_call(one[at], two[at], questions[at], flipped[at])
        decided = agreement(one[at], two[at], questions[at], ties="left out")
        rows += [
            calls.named("agreement_by_call", stratum=name, rule="" if name else "people"),
            decided.rate.named("agreement", stratum=name),
            decided.kappa.named("kappa", stratum=name),
            *(() if name else with_ties),
        ]
    return rows + _ranks(judge.select(np.unique(ours)), voters.select(np.unique(theirs)))


def confusion(judged: BattleLog, labels: BattleLog) -> NDArray[np.int64]:
    """How often people (rows) and the judge (columns) name the first of two models by name, a tie
    and the second; the last column counts verdicts that changed with the presentation order.
    """
    judge, voters, ours, theirs = _paired(judged, labels)
    said = np.where(judge.flags(), len(LABELS), verdicts(judge))[ours]
    table = np.zeros((len(LABELS), len(LABELS) + 1), np.int64)
    np.add.at(table, (verdicts(voters)[theirs], said), 1)
    return table


def _paired(judged: BattleLog, labels: BattleLog) -> tuple[BattleLog, BattleLog, Rows, Rows]:
    """Both with sides in order, and the rows of each that are about the same battles; labels
    without dimensions are about any.
    """
    judge, voters = judged.sides_in_order(), labels.sides_in_order()
    if voters.dimension is None or judge.dimension is None:
        judge, voters = replace(judge, dimension=None), replace(voters, dimension=None)
    return judge, voters, *matched(judge, voters)


def _by_call(
    judge: NDArray[np.int8], people: NDArray[np.int8], questions: ArrayLike, flipped: ArrayLike
) -> Estimate:
    """Agreement where both decided, half of it where the judge's two orders disagree."""
    half = np.asarray(flipped) & (people != 1)
    kept = ((judge != 1) & (people != 1)) | half
    right = np.where(half, 0.5, judge == people)[kept]
    parts = estimates.sums(np.stack([right, np.ones(len(right))], 1), np.asarray(questions)[kept])
    rate = estimates.jackknifed(parts, lambda total: total[:, 0] / total[:, 1], n=len(right))
    return rate if half.any() else share_of(right, np.asarray(questions)[kept])


def rank_correlation(
    first: Ratings | None, second: Ratings | None
) -> tuple[float | None, float | None]:
    """Kendall's and Spearman's correlation of the models that both rate; None of fewer than 3."""
    from scipy.stats import kendalltau, spearmanr

    shared = _rated_by_both(first, second)
    if first is None or second is None or len(shared) < _MIN_RANKED:
        return None, None
    one, two = (ratings.values(shared) for ratings in (first, second))
    return known(float(kendalltau(one, two).statistic)), known(float(spearmanr(one, two).statistic))


def _ranks(judged: BattleLog, labels: BattleLog) -> list[Measure]:
    """How far ratings by the judge are from people's, where both exist; one who rates all models
    alike has no rank correlation.
    """
    if len({*judged.models} & {*labels.models}) < _MIN_RANKED:
        return []
    judge, voters = (rated_or_none(BradleyTerry(prior=0.5), log) for log in (judged, labels))
    both = _rated_by_both(judge, voters)
    if judge is None or voters is None or len(both) < _MIN_RANKED:
        return []
    one, two = (rated.values(both) for rated in (judge, voters))
    apart = (one - one.mean()) - (two - two.mean())
    kendall, spearman = rank_correlation(judge, voters)
    values = {"spearman": spearman, "kendall": kendall,
              "rating_error": float(np.sqrt((apart**2).mean()))}  # fmt: skip
    return [Measure(measure=name, value=value, n=len(both)) for name, value in values.items()]


def _rated_by_both(first: Ratings | None, second: Ratings | None) -> Sequence[str]:
    return [] if first is None or second is None else sorted({*first.models} & {*second.models})


def stratum_of(log: BattleLog, strata: Mapping[str, str]) -> NDArray[np.object_]:
    """The stratum of each row, empty where it has none."""
    if log.question_id is None:
        return np.full(len(log), "", object)
    names = np.array([strata.get(str(name), "") for name in log.question_id.names], object)
    return np.asarray(names[log.question_id.codes])


def _keys(log: BattleLog) -> list[tuple[object, ...]]:
    names = np.array(log.models, object)
    columns = [names[log.a].tolist(), names[log.b].tolist()]
    named = (log.question_id, log.dimension)
    columns += [labels.values().tolist() for labels in named if labels is not None]
    return list(zip(*columns, strict=True))


def _tables(
    one: NDArray[np.int_], two: NDArray[np.int_], groups: NDArray[np.integer[Any]]
) -> Floats:
    """A 3 x 3 table of what was said per cluster."""
    names, place = np.unique(groups, return_inverse=True)
    flat = np.bincount((place * 3 + one) * 3 + two, minlength=9 * len(names))
    return flat.reshape(-1, 3, 3).astype(float)


def _kappas(tables: Floats) -> Floats:
    shares = tables / tables.sum(axis=(1, 2), keepdims=True)
    by_chance = (shares.sum(axis=1) * shares.sum(axis=2)).sum(axis=1)
    agreed = np.trace(shares, axis1=1, axis2=2)
    return np.asarray((agreed - by_chance) / (1 - by_chance))


def _coincidences(ratings: ArrayLike) -> Floats:
    """Per unit, how often each two values were given by two voters; a square table each."""
    values = np.asarray(ratings, float)
    given = np.unique(values[~np.isnan(values)])
    counts = (values[:, :, None] == given).sum(axis=0).astype(float)
    units = counts.sum(axis=1)
    counts[units < 2] = 0.0
    share = counts / np.maximum(units - 1, 1)[:, None]
    tables: Floats = counts[:, :, None] * share[:, None, :]
    tables -= np.eye(len(given))[None] * share[:, None, :]
    return tables


def _alphas(tables: Floats) -> Floats:
    totals = tables.sum(axis=2)
    n = totals.sum(axis=1)
    differing, by_chance = n - np.trace(tables, axis1=1, axis2=2), n**2 - (totals**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        alphas: Floats = 1 - differing * (n - 1) / by_chance
    return np.where(by_chance > 0, alphas, nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One judge of a panel: how many pairs it has a verdict on, and how often it agrees with what
    the others say without it, where both name a winner.
    """

    judge: str
    n: int
    agrees: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What a panel says: a battle per pair, and who of its members disagrees.

    Where no verdict has more votes than every other, the pair is `split` and its battle
    inconsistent. `alpha` is Krippendorff's.
    """

    battles: BattleLog = field(repr=False)
    members: tuple[Member, ...]
    unanimous: int
    split: int
    alpha: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "members": [asdict(member) for member in self.members],
            "pairs": len(self.battles),
            "unanimous": self.unanimous,
            "split": self.split,
            "alpha": self.alpha,
        }

    @property
    def sentences(self) -> list[str]:
        """The same in words."""
        coefficient = "" if self.alpha is None else f"; Krippendorff's α {self.alpha:.2f}"
        members = sorted(self.members, key=lambda each: each.agrees.value or 0.0)
        first = (
            f"Panel of {len(members)} judges (majority): {self.unanimous} of {len(self.battles)} "
            f"pairs unanimous, {self.split} split and left without a winner{coefficient}."
        )
        told = "agrees with the others on {} of pairs with a winner."
        return [first, *(f"{each.judge}: {told.format(each.agrees)}" for each in members)]


def panel(battles: BattleLog) -> Panel:
    """One battle per pair from the battles of several judges on it, by majority.

    Parameters
    ----------
    battles
        Judges' battles, told apart by `judge_model`; people's are left out. Pairs are the same
        where both models, the question and the dimension are; an inconsistent battle is no vote.
    """
    log = battles.sides_in_order()
    if log.source is not None:
        log = log.select(log.source.values() != str(Source.HUMAN))
    judges, votes, rows = _votes(log)
    decided = _majority(votes)
    questions = log.clusters()[rows]
    return Panel(
        battles=_battles(log.select(rows), decided).select((votes >= 0).any(axis=0)),
        members=tuple(_member(name, j, votes, questions) for j, name in enumerate(judges)),
        unanimous=int(((votes == votes[0]).all(axis=0) & (votes[0] >= 0)).sum()),
        split=int((decided < 0).sum()),
        alpha=alpha(np.where(votes < 0, np.nan, votes)).value,
    )


def _votes(log: BattleLog) -> tuple[list[str], Rows, Rows]:
    """The judges, what every judge (row) says of every pair (column) as a place in `LABELS` (-1 is
    nothing), and a battle of each pair.
    """
    if log.question_id is None or log.judge_model is None:
        raise DataError("a panel needs battles with question_id and judge_model")
    codes, judge = np.unique(log.judge_model.codes, return_inverse=True)
    names = [str(log.judge_model.names[code]) for code in codes]
    if len(names) < 2:
        raise DataError(f"a panel needs two judges or more; found: {', '.join(names) or 'none'}")
    dimension = np.zeros(len(log), int) if log.dimension is None else log.dimension.codes
    columns = np.stack([log.a, log.b, log.question_id.codes, dimension])
    _, rows, pair = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    pair = pair.reshape(-1)
    _refuse_twice(names, judge, pair)
    votes = np.full((len(names), len(rows)), -1)
    votes[judge, pair] = np.where(log.flags(), -1, verdicts(log))
    return names, votes, rows


def _refuse_twice(names: list[str], judge: Rows, pair: Rows) -> None:
    """Refuse a judge with two verdicts on one pair: which of them counts would be a guess."""
    keys, counts = np.unique(np.stack([judge, pair]), axis=1, return_counts=True)
    if (twice := keys[:, counts > 1]).size:
        raise DataError(
            f"{names[twice[0, 0]]} has several battles on one pair (same models, question and "
            f"dimension), {int((counts > 1).sum())} times in all; a panel takes one verdict each"
        )


def _majority(votes: Rows) -> Rows:
    """The verdict with the most votes on each pair; -1 where none has more than every other."""
    counts = np.stack([(votes == label).sum(axis=0) for label in range(3)])
    most = counts.max(axis=0)
    alone = (counts == most).sum(axis=0) == 1
    return np.where(alone & (most > 0), counts.argmax(axis=0), -1)


def _member(name: str, j: int, votes: Rows, questions: Rows) -> Member:
    own, others = votes[j], _majority(np.delete(votes, j, axis=0))
    agrees = agreement(own, others, questions, ties="left out").rate
    return Member(judge=name, n=int((own >= 0).sum()), agrees=agrees)


def _battles(log: BattleLog, decided: Rows) -> BattleLog:
    """The panel's battle on each pair."""
    return replace(
        log,
        battle_id=None, timestamp=None, session=None, voter=None, lane=None, weight=None,
        share_a=None, served_model=None,
        outcome=np.array([A_WINS, TIE, B_WINS, TIE], np.int8)[decided],  # the last place is -1
        inconsistent=decided < 0,
        judge_model=Labels.of([PANEL] * len(log)),
    )  # fmt: skip
