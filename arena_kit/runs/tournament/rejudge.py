"""Another judge on the recorded pairs of a run: what is asked, and what became of the verdicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.judging.asking.judge_pairs import Material
from arena_kit.judging.judges.replay import ReplayJudge
from arena_kit.judging.pairs.pairing import Pairing
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.quality.agreement import (
    Agreement,
    agreement,
    matched,
    rank_correlation,
    verdicts,
)
from arena_kit.judging.verdicts.records import Judgment, Settlement, Slot
from arena_kit.judging.verdicts.settle import settle_all, share_of_first, verdict_of
from arena_kit.rating.base import rated_or_none
from arena_kit.reporting.board import Board
from arena_kit.runs.record.artifacts import REPEATS_FILE
from arena_kit.runs.record.compare import (
    Orders,
    decided_orders,
    named_orders,
    recorded_winners,
    shared_battles,
)
from arena_kit.runs.record.record import open_record

Codes = NDArray[Any]

ARTIFACT = "rejudge.json"
#: What two orders say, sorted, that name the same entrant or a tie.
_AGREE = ([Slot.A, Slot.B], [Slot.TIE, Slot.TIE])
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
    kept: tuple[Judgment, ...] = field(repr=False)
    why: Mapping[str, int]

    @property
    def fact(self) -> str:
        """The same in words."""
        if not self.why:
            return f"the pairs of {self.record.name}, first judged by {self.judge_model}"
        reasons = ", ".join(f"{why}: {n}" for why, n in self.why.items())
        return (
            f"{sum(self.why.values())} pairs of {self.record.name} of which {self.judge_model} was "
            f"unsure ({reasons}); its verdicts on the other {len(self.kept)} stand"
        )


def rejudged(
    record: Path, which: str, pairing: Pairing, material: Material
) -> tuple[Pairing, Rejudged]:
    """The pairs of a run that a record has verdicts on, and what the run takes over from it;
    `which` is `all`, or `unsure` for those of which the record's judge was unsure.
    """
    if not record.is_dir():
        raise DataError(f"replay_from: {record} is no record, whose pairs could be judged again")
    judgments = recorded_judgments(record, pairing.pairs, material)
    if not judgments:
        raise DataError(f"{record}: has no verdict on any pair of this run")
    models = sorted({j.forward.judge_model for j in judgments})
    again = _recorded_repeats(record)
    reasons = {j.pair: unsure(j, again.get(j.pair, ())) for j in judgments}
    asked = [why for why in reasons.values() if why] if which != "all" else []
    if which != "all" and not asked:
        raise DataError(f"{record}: its judge was sure of every pair, so none is judged again")
    return replace(pairing, pairs=tuple(reasons)), Rejudged(
        record=record,
        judge_model=" + ".join(models),
        kept=tuple(j for j in judgments if asked and not reasons[j.pair]),
        why=dict(Counter(asked)),
    )


def unsure(judgment: Judgment, repeats: Sequence[Judgment] = ()) -> str:
    """Why a judge is unsure of a pair, in words; empty where it is sure.

    `repeats` are judgments of the same pair by the same judge, asked again.
    """
    if judgment.settlement is Settlement.INCOMPLETE:
        return "an order has no verdict"
    if judgment.settlement is Settlement.INCONSISTENT:
        return "the orders disagree"
    outcome = (judgment.settlement, judgment.winner)
    if any((other.settlement, other.winner) != outcome for other in repeats):
        return "repeated answers disagree"
    share = share_of_first(judgment)
    weak = share is not None and judgment.winner and max(share, 1 - share) < _STRONG
    return "the grade is weak" if weak else ""


def recorded_judgments(record: Path, pairs: Sequence[Pair], material: Material) -> list[Judgment]:
    """A record's judgments of those pairs on which it has a verdict, read again from its texts."""
    replay = ReplayJudge.from_record(record)
    read = []
    for request in material.requests(pairs):
        if (answer := replay.answer(request)) is None:
            continue
        model = replay.model_of(request)
        read.append(verdict_of(request, answer, judge_model=model, cached=True))
    return settle_all(read)


def _recorded_repeats(record: Path) -> dict[Pair, list[Judgment]]:
    """What a record's judge said to pairs that it was asked a second time."""
    file = record / REPEATS_FILE
    again = ReplayJudge.from_record(file).judgments() if file.is_file() else []
    return {judgment.pair: [judgment] for judgment in again}


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
        same = f"on {self.decided.rate.n} pairs both name a winner, the same on {self.decided.rate}"
        if not self.decided.rate.n:
            same = "no pair has a winner from both"
        return (
            f"{self.dimension}: {self.flipped} of {n} verdicts flipped; {same}.{tau} "
            f"{self._survival} Slot A: {leaning}."
        )

    @property
    def _survival(self) -> str:
        """What became of the decided orders, and which of them do not survive, in words."""
        orders = self.orders
        old = len(orders.kept) + len(orders.lost) + len(orders.reversed)
        if not old:
            gained = f"{len(orders.gained)} are" if orders.gained else "none is"
            return f"No order was decided before, and {gained} now."
        kinds = {"No longer decided": orders.lost, "Now reversed": orders.reversed}
        named = "".join(f" {kind}: {named_orders(each)}." for kind, each in kinds.items() if each)
        return (
            f"Of {old} decided orders {len(orders.kept)} are still decided, {len(orders.lost)} "
            f"open, {len(orders.reversed)} reversed; {len(orders.gained)} new.{named}"
        )


def told_changes(record: Path, what: Rejudged, judge_model: str, board: Board) -> dict[str, Any]:
    """What rejudge.json says: what a judge changed against the record that it judged again. The
    new record has its verdicts and battles.
    """
    kept = {judgment.pair.pair_id for judgment in what.kept}
    changed = changes(what.record, record, board, kept)
    return {
        "before": {"record": str(what.record), "judge_model": what.judge_model},
        "after": {"record": str(record), "judge_model": judge_model},
        "kept_pairs": len(what.kept),
        "unsure": dict(what.why),
        "dimensions": {each.dimension: asdict(each) for each in changed},
        "sentences": [f"Judged again: {what.fact}.", *(each.sentence for each in changed)],
    }


def changes(before: Path, after: Path, board: Board, kept: Collection[str] = ()) -> list[Changed]:
    """What changed in every dimension that two records of the same pairs have, the later one with
    this board; agreement is about the pairs that were judged again, without those (by id) that
    were `kept`.
    """
    earlier = Board.read(before)
    shared = shared_battles((before, earlier), (after, board))
    twice = _said_twice(before, after, kept)
    rows = []
    for orders in decided_orders(earlier, board):
        if orders.dimension not in shared:
            continue
        name, said = orders.dimension, twice.get(orders.dimension, [])
        both = [each for each in said if {each.before, each.after} <= {*Slot}]
        (old, old_method), (new, new_method) = shared[name]
        first, second, question = _settled(old, new, kept)
        tau, rho = rank_correlation(rated_or_none(old_method, old), rated_or_none(new_method, new))
        rows.append(
            Changed(
                dimension=name,
                agreed=sum(each.before == each.after for each in both),
                flipped=sum(each.before != each.after for each in both),
                pairs=agreement(first, second, question, ties="counted"),
                decided=agreement(first, second, question, ties="left out"),
                kendall=tau,
                spearman=rho,
                orders=orders,
                slots={
                    "before": _slots((each.pair, each.before) for each in said),
                    "after": _slots((each.pair, each.after) for each in said),
                },
            )
        )
    return rows


class _Said(NamedTuple):
    """What two judges say to the same presentation of a pair."""

    pair: str
    before: str
    after: str


def _said_twice(before: Path, after: Path, kept: Collection[str]) -> dict[str, list[_Said]]:
    """By dimension, the presentations that were judged again."""
    second = recorded_winners(after)
    twice: dict[str, list[_Said]] = defaultdict(list)
    for key, winner in recorded_winners(before).items():
        dimension, prompt, *sides = key
        a, b = sorted(sides)
        pair = Pair(dimension=dimension, prompt_id=prompt, entrant_a=a, entrant_b=b).pair_id
        if key in second and pair not in kept:
            twice[dimension].append(_Said(pair, winner, second[key]))
    return twice


def _slots(said: Iterable[tuple[str, str]]) -> dict[str, float | int | None]:
    """Order effects in the verdicts (pair, winner or status) of one judge."""
    by_pair: dict[str, list[str]] = defaultdict(list)
    for pair, winner in said:
        by_pair[pair].append(winner)
    named = [winner for winners in by_pair.values() for winner in winners]
    n_a, n_b = named.count(Slot.A), named.count(Slot.B)
    whole = [sorted(two) for two in by_pair.values() if len(two) == 2 and {*two} <= {*Slot}]
    flips = sum(two not in _AGREE for two in whole)
    return {
        "n_decisive_verdicts": n_a + n_b,
        "slot_a_rate": n_a / (n_a + n_b) if n_a + n_b else None,
        "n_pairs": len(whole),
        "flip_rate": flips / len(whole) if whole else None,
    }


def _settled(old: BattleLog, new: BattleLog, kept: Collection[str]) -> tuple[Codes, Codes, Codes]:
    """What two judges say of the same pairs, and the question of each; -1 is no verdict."""
    i, j = matched(old, new)
    first, second = (np.where(log.flags(), -1, verdicts(log)) for log in (old, new))
    ids = None if new.battle_id is None else new.battle_id[j]
    asked = np.ones(len(j), bool) if ids is None else ~np.isin(ids, sorted(kept))
    return first[i][asked], second[j][asked], old.clusters()[i][asked]
