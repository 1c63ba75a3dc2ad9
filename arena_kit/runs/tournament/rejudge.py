"""Another judge on the recorded pairs of a run: what is asked, and what became of the verdicts."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from arena_kit.files import DataError
from arena_kit.judging.asking.judge_pairs import Material
from arena_kit.judging.judges.replay import ReplayJudge
from arena_kit.judging.pairs.pairing import Pairing
from arena_kit.judging.quality.agreement import LABELS, Agreement, agreement, rank_correlation
from arena_kit.judging.quality.measures import calls_of, position
from arena_kit.judging.verdicts import records
from arena_kit.rating.base import rated_or_none
from arena_kit.reporting.board import Board
from arena_kit.runs.record.artifacts import REPEATS_FILE
from arena_kit.runs.record.compare import Orders, Side, decided_orders, shared_battles
from arena_kit.runs.record.record import open_record

ARTIFACT = "rejudge.json"
#: A graded winner with less of a win than this, over both orders, is a weak one.
_STRONG = 0.875
#: Notebooks whose records hold judged pairs, and the one that judges these again.
_NOTEBOOKS = {
    "pilot": "pilot", "headline": "headline", "k_sweep": "k_sweep", "adaptive": "headline",
}  # fmt: skip


def notebook_for(record: Path) -> str:
    """The notebook that judges a record's pairs again: its own, or headline for an adaptive one,
    whose pairs have been chosen.
    """
    mode = open_record(record).get("mode")
    if mode not in _NOTEBOOKS:
        known = ", ".join(_NOTEBOOKS)
        raise DataError(f"{record}: rejudge needs the record of {known}, not of {mode!r}")
    return _NOTEBOOKS[mode]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudged:
    """What a run takes over from the record whose pairs it judges again: the judgments that stand
    (`kept`; none where all pairs are judged again), and why the others are asked for.
    """

    record: Path
    judge_model: str
    kept: tuple[records.Judgment, ...] = field(repr=False)
    why: Mapping[str, int]

    @property
    def fact(self) -> str:
        """The same in words."""
        if not self.why:
            return f"the pairs of {self.record.name}, first judged by {self.judge_model}"
        reasons = ", ".join(f"{why}: {n}" for why, n in self.why.items())
        return (
            f"{sum(self.why.values())} pairs of {self.record.name} of which {self.judge_model} was "
            f"unsure ({reasons}); its verdicts on the other {len(self.kept)} pairs are kept"
        )


def rejudged(
    record: Path, which: str, pairing: Pairing, material: Material
) -> tuple[Pairing, Rejudged]:
    """The pairs of a run that a record has verdicts on, and what the run takes over from it;
    `which` is `all`, or `unsure` for those of which the record's judge was unsure.
    """
    if not record.is_dir():
        raise DataError(f"replay_from: {record} is not a run record")
    replay = ReplayJudge.from_record(record)
    answered = [(each, replay.answer(each)) for each in material.requests(pairing.pairs)]
    judgments = records.settle_all(
        records.verdict_of(request, answer, judge_model=replay.model_of(request), cached=True)
        for request, answer in answered
        if answer is not None
    )
    if not judgments:
        raise DataError(f"{record}: has no verdict on any pair of this run")
    models = sorted({v.judge_model for j in judgments for v in j.verdicts})
    file = record / REPEATS_FILE
    again = ReplayJudge.from_record(file).judgments() if file.is_file() else []
    repeats = {judgment.pair: judgment for judgment in again}
    reasons = {j.pair: unsure(j, repeats.get(j.pair)) for j in judgments}
    asked = [why for why in reasons.values() if why] if which != "all" else []
    if which != "all" and not asked:
        raise DataError(f"{record}: its judge was sure of every pair; none is judged again")
    return replace(pairing, pairs=tuple(reasons)), Rejudged(
        record=record,
        judge_model=" + ".join(models),
        kept=tuple(j for j in judgments if asked and not reasons[j.pair]),
        why=dict(Counter(asked)),
    )


def unsure(judgment: records.Judgment, repeat: records.Judgment | None = None) -> str:
    """Why a judge is unsure of a pair, in words; empty where it is sure.

    `repeat` is the judgment of the same pair by the same judge, asked again.
    """
    if judgment.settlement is records.Settlement.INCOMPLETE:
        return "missing verdict"
    if judgment.settlement is records.Settlement.INCONSISTENT:
        return "verdict changed with presentation order"
    outcome = (judgment.settlement, judgment.winner)
    if repeat is not None and (repeat.settlement, repeat.winner) != outcome:
        return "repeated answers differ"
    share = records.share_of_first(judgment)
    weak = share is not None and judgment.winner and max(share, 1 - share) < _STRONG
    return "weak grade" if weak else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What another judge changed in one dimension.

    `agreed` and `flipped` count presentations on which both judges gave a verdict; `pairs` is
    the agreement of the settled pairs and `decided` that of pairs with a winner from both.
    `kendall` and `spearman` correlate the two rankings by Bradley–Terry. `orders` says what
    became of the decided ones, and `slots` holds both judges' order effects on the same
    presentations.
    """

    dimension: str
    agreed: int
    flipped: int
    pairs: Agreement
    decided: Agreement
    kendall: float | None
    spearman: float | None
    orders: Orders
    slots: Mapping[str, Mapping[str, float | int | None]]

    @property
    def sentence(self) -> str:
        """The same in words."""
        n = self.agreed + self.flipped
        tau = "" if self.kendall is None else f" Rank correlation (Kendall's τ) {self.kendall:.2f}."
        slots = [self.slots[when]["slot_a_rate"] for when in ("before", "after")]
        leaning = " → ".join("–" if s is None else f"{s:.1%}" for s in slots)
        rate = self.decided.rate
        same = f"the winner agrees on {rate} of {rate.n} pairs"
        same = same if rate.n else "no pair has a winner by both judges"
        orders = self.orders.sentence.removeprefix(f"{self.dimension}: d")
        return (
            f"{self.dimension}: {self.flipped} of {n} verdicts changed; {same}.{tau} D{orders} "
            f"Slot A: {leaning}."
        )


def rejudge_summary(record: Path, what: Rejudged, judge_model: str, board: Board) -> dict[str, Any]:
    """rejudge.json: what a judge changed against the record that it judged again. The new record
    has its verdicts and battles.
    """
    kept = {judgment.pair.pair_id for judgment in what.kept}
    changed = list(changes(what.record, record, board, kept))
    return {
        "before": {"record": str(what.record), "judge_model": what.judge_model},
        "after": {"record": str(record), "judge_model": judge_model},
        "kept_pairs": len(what.kept),
        "unsure": dict(what.why),
        "dimensions": {each.dimension: asdict(each) for each in changed},
        "sentences": [f"Judged again: {what.fact}.", *(each.sentence for each in changed)],
    }


def changes(
    before: Path, after: Path, board: Board, kept: Collection[str] = ()
) -> Iterator[Changed]:
    """What changed in every dimension that two records of the same pairs have, the later one with
    this board; agreement is about the pairs that were judged again, without those (by id) that
    were `kept`.
    """
    earlier = Board.read(before)
    shared = shared_battles((before, earlier), (after, board))
    old, new = (
        {judgment.pair: judgment for judgment in ReplayJudge.from_record(path).judgments()}
        for path in (before, after)
    )
    again = [pair for pair in old if pair in new and pair.pair_id not in kept]
    for orders in decided_orders(earlier, board):
        if sides := shared.get(orders.dimension):
            own = [pair for pair in again if pair.dimension == orders.dimension]
            judged = [[side[pair] for pair in own] for side in (old, new)]
            yield _changed(orders, sides, *judged)


def _changed(
    orders: Orders,
    sides: tuple[Side, Side],
    old: Sequence[records.Judgment],
    new: Sequence[records.Judgment],
) -> Changed:
    """What another judge changed in a dimension, by both judges' judgments of the same pairs."""
    one, two = ({v.presentation: v.winner for j in each for v in j.verdicts} for each in (old, new))
    both = [(one[shown], two[shown]) for shown in one if one[shown] and two.get(shown)]
    first, second = (list(map(_label, judged)) for judged in (old, new))
    question = np.unique([each.pair.prompt_id for each in old], return_inverse=True)[1]
    tau, rho = rank_correlation(*(rated_or_none(method, log) for log, method in sides))
    slots = {"before": position(calls_of(old)), "after": position(calls_of(new))}
    return Changed(
        dimension=orders.dimension,
        agreed=sum(one == two for one, two in both),
        flipped=sum(one != two for one, two in both),
        pairs=agreement(first, second, question, ties="counted"),
        decided=agreement(first, second, question, ties="left out"),
        kendall=tau,
        spearman=rho,
        orders=orders,
        slots={when: each.as_dict() for when, each in slots.items()},
    )


def _label(judgment: records.Judgment) -> int:
    """How a pair was settled, as a place in `LABELS`; -1 where it was not."""
    if judgment.settlement is records.Settlement.TIE:
        return LABELS.index("tie")
    places = (judgment.pair.entrant_a, None, judgment.pair.entrant_b)
    return places.index(judgment.winner) if judgment.winner else -1
