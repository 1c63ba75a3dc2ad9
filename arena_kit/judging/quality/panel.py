"""Several judges as one: a panel that votes on every pair, each judge with one vote."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS, B_WINS, TIE, Source
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.files import DataError
from arena_kit.judging.quality.agreement import alpha, verdicts
from arena_kit.judging.quality.estimates import Estimate, share_of

Codes = NDArray[Any]

JUDGE_MODEL = "panel/majority"
#: The place of a tie among `agreement.LABELS`.
_TIE = 1


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


def _votes(log: BattleLog) -> tuple[list[str], Codes, Codes]:
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


def _refuse_twice(names: list[str], judge: Codes, pair: Codes) -> None:
    """Refuse a judge with two verdicts on one pair: which of them counts would be a guess."""
    keys, counts = np.unique(np.stack([judge, pair]), axis=1, return_counts=True)
    if (twice := keys[:, counts > 1]).size:
        raise DataError(
            f"{names[twice[0, 0]]} has several battles on one pair (same models, question and "
            f"dimension), {int((counts > 1).sum())} times in all; a panel takes one verdict each"
        )


def _majority(votes: Codes) -> Codes:
    """The verdict with the most votes on each pair; -1 where none has more than every other."""
    counts = np.stack([(votes == label).sum(axis=0) for label in range(3)])
    most = counts.max(axis=0)
    alone = (counts == most).sum(axis=0) == 1
    return np.where(alone & (most > 0), counts.argmax(axis=0), -1)


def _member(name: str, j: int, votes: Codes, questions: Codes) -> Member:
    own, others = votes[j], _majority(np.delete(votes, j, axis=0))
    both = (own >= 0) & (own != _TIE) & (others >= 0) & (others != _TIE)
    agrees = share_of((own == others)[both], questions[both])
    return Member(judge=name, n=int((own >= 0).sum()), agrees=agrees)


def _battles(log: BattleLog, decided: Codes) -> BattleLog:
    """The panel's battle on each pair."""
    return replace(
        log,
        battle_id=None, timestamp=None, session=None, voter=None, lane=None, weight=None,
        share_a=None, served_model=None,
        outcome=np.array([A_WINS, TIE, B_WINS, TIE], np.int8)[decided],  # the last place is -1
        inconsistent=decided < 0,
        judge_model=Labels.of([JUDGE_MODEL] * len(log)),
    )  # fmt: skip
