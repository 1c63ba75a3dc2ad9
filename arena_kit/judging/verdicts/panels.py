"""Several judges as one: a panel that votes on every pair, by majority or weighted by skill."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from math import log as ln
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS, B_WINS, TIE, Source
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.files import DataError
from arena_kit.judging.quality.agreement import Share, alpha, share_of, verdicts

Floats = NDArray[np.float64]
Codes = NDArray[Any]
Voting = Literal["majority", "weighted"]

#: Verdicts on pairs that people decided, below which a judge's skill is not told from them.
LEAST_LABELLED = 30
#: Judges below which skill cannot be told without people: two who differ may each be wrong.
LEAST_JUDGES = 3
_STEPS = 200
_TOLERANCE = 1e-8
_FROM_EACH_OTHER = "how far the judges agree"
#: A skill without people's votes from which a judge's own verdicts decide nearly alone.
_TAKEN_FOR_TRUTH = 0.98
#: What a verdict counts for each side: in the order of `agreement.LABELS`.
_FIRST, _TIE, _SECOND = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One judge of a panel: its verdicts, its weight, its skill where that was measured (the share
    of its decisive verdicts that are right), and how often it agrees with what the others say
    without it, where both name a winner.
    """

    judge: str
    n: int
    weight: float
    skill: float | None
    agrees: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What a panel says: a battle per pair, and who of its members disagrees.

    Where no verdict has more weight than every other, the pair is `split` and its battle
    inconsistent. `skill_from` says what weights rest on; `alpha` is Krippendorff's.
    """

    voting: Voting
    battles: BattleLog = field(repr=False)
    members: tuple[Member, ...]
    skill_from: str
    unanimous: int
    split: int
    alpha: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "voting": self.voting,
            "members": [asdict(member) for member in self.members],
            "skill_from": self.skill_from,
            "pairs": len(self.battles),
            "unanimous": self.unanimous,
            "split": self.split,
            "alpha": self.alpha,
        }

    @property
    def sentences(self) -> list[str]:
        """The same in words."""
        pairs = len(self.battles)
        about = "" if self.alpha is None else f"; Krippendorff's α {self.alpha:.2f}"
        first = (
            f"Panel of {len(self.members)} judges ({self.voting}): {self.unanimous} of {pairs} "
            f"pairs unanimous, {self.split} split and left without a winner{about}."
        )
        rows = [first]
        if self.skill_from:
            rows.append(f"Weights are log odds of skill, told from {self.skill_from}.")
        if self.skill_from == _FROM_EACH_OTHER:
            rows += [
                f"{member.judge} is all but taken for the truth, which judges alone cannot tell."
                for member in self.members
                if (member.skill or 0.0) > _TAKEN_FOR_TRUTH
            ]
        for member in sorted(self.members, key=lambda each: each.agrees.value or 0.0):
            skill = "" if member.skill is None else f", skill {member.skill:.1%}"
            rows.append(
                f"{member.judge}: agrees with the others on {member.agrees} of pairs with a winner"
                f"{skill}, weight {member.weight:.2f}."
            )
        return rows


def panel(battles: BattleLog, voting: Voting = "majority") -> Panel:
    """One battle per pair from the battles of several judges on it.

    Parameters
    ----------
    battles
        Judges' battles, told apart by `judge_model`, and people's where there are any. Pairs are
        the same where both models, the question and the dimension are; an inconsistent battle is
        no vote.
    voting
        `majority` counts every judge alike. `weighted` gives each the log odds of its skill: the
        share of its decisive verdicts that agree with people, or, without people, that are right
        if the judges err independently of each other (the one-parameter model of Dawid and Skene,
        by expectation maximisation). A judge that does no better than chance has no weight.
    """
    table = _Table.of(battles)
    skill, source = (None, "") if voting == "majority" else _skills(table)
    weights = np.ones(len(table.judges)) if skill is None else _log_odds(skill)
    if not weights.any():
        raise DataError("no judge of the panel does better than chance, so none has weight")
    decided = table.decided(weights)
    return Panel(
        voting=voting,
        battles=table.battles(decided, f"panel/{voting}"),
        members=tuple(table.member(j, weights, skill) for j in range(len(table.judges))),
        skill_from=source,
        unanimous=int(table.unanimous().sum()),
        split=int((decided < 0).sum()),
        alpha=table.alpha(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """What every judge (row) says of every pair (column), as a place in `LABELS`; -1 is nothing.

    `first` is a battle of each pair in `log`, and `people` what most votes of people say.
    """

    log: BattleLog
    judges: tuple[str, ...]
    said: Codes
    people: Codes
    first: Codes
    questions: Codes

    @classmethod
    def of(cls, battles: BattleLog) -> _Table:
        log = battles.sides_in_order()
        if log.question_id is None or log.judge_model is None:
            raise DataError("a panel needs battles with question_id and judge_model")
        human = np.zeros(len(log), bool)
        if log.source is not None:
            human = log.source.values() == str(Source.HUMAN)
        judge = np.where(human, -1, log.judge_model.codes)
        _, place = np.unique(judge[judge >= 0], return_inverse=True)
        names = [str(log.judge_model.names[code]) for code in np.unique(judge[judge >= 0])]
        if len(names) < 2:
            raise DataError(
                f"a panel needs two judges or more; found: {', '.join(names) or 'none'}"
            )
        judged = np.flatnonzero(judge >= 0)
        columns = np.stack([log.a, log.b, log.question_id.codes, _codes(log.dimension, len(log))])
        _, first, unit = np.unique(
            columns[:, judged], axis=1, return_index=True, return_inverse=True
        )
        unit = unit.reshape(-1)
        said = np.full((len(names), len(first)), -1)
        _refuse_twice(names, place, unit)
        said[place, unit] = np.where(log.flags(), -1, verdicts(log))[judged]
        rows = judged[first]
        return cls(
            log=log,
            judges=tuple(names),
            said=said,
            people=_people(log, human, columns, rows),
            first=rows,
            questions=log.clusters()[rows],
        )

    def decided(self, weights: Floats) -> Codes:
        """The verdict with the most weight on each pair; -1 where none has more than the others."""
        total = np.stack([weights @ (self.said == label) for label in range(3)])
        most = total.max(axis=0)
        alone = np.isclose(total, most).sum(axis=0) == 1
        return np.where(alone & (most > 0), total.argmax(axis=0), -1)

    def unanimous(self) -> NDArray[np.bool_]:
        """Pairs on which every judge says the same, and none says nothing."""
        same: NDArray[np.bool_] = (self.said == self.said[0]).all(axis=0) & (self.said[0] >= 0)
        return same

    def member(self, j: int, weights: Floats, skill: Floats | None) -> Member:
        others = self.decided(np.where(np.arange(len(weights)) == j, 0.0, weights))
        own = self.said[j]
        both = (own >= 0) & (own != _TIE) & (others >= 0) & (others != _TIE)
        return Member(
            judge=self.judges[j],
            n=int((own >= 0).sum()),
            weight=float(weights[j]),
            skill=None if skill is None else float(skill[j]),
            agrees=share_of((own == others)[both], self.questions[both]),
        )

    def alpha(self) -> float | None:
        """Krippendorff's alpha; None where no two judges speak of one pair."""
        if (self.said >= 0).sum(axis=0).max() < 2:
            return None
        value = alpha(np.where(self.said < 0, np.nan, self.said))
        return None if np.isnan(value) else value

    def battles(self, said: Codes, judge: str) -> BattleLog:
        """A battle of the panel per pair that some judge decided."""
        some = (self.said >= 0).any(axis=0)
        outcome = np.array([A_WINS, TIE, B_WINS, TIE], np.int8)[said]  # the last place is -1
        plain = replace(
            self.log,
            battle_id=None, timestamp=None, session=None, voter=None, lane=None, weight=None,
            share_a=None, served_model=None, inconsistent=None,
        ).select(self.first)  # fmt: skip
        log = replace(
            plain,
            outcome=outcome,
            inconsistent=said < 0,
            judge_model=Labels.of([judge] * len(said)),
        )
        return log.select(some)


def _codes(labels: Labels | None, n: int) -> Codes:
    return np.zeros(n, int) if labels is None else labels.codes


def _refuse_twice(names: list[str], judge: Codes, unit: Codes) -> None:
    """Refuse a judge with two verdicts on one pair: which of them counts would be a guess."""
    keys, counts = np.unique(np.stack([judge, unit]), axis=1, return_counts=True)
    if (twice := keys[:, counts > 1]).size:
        raise DataError(
            f"{names[twice[0, 0]]} has several battles on one pair (same models, question and "
            f"dimension), {int((counts > 1).sum())} times in all; a panel takes one verdict each"
        )


def _people(log: BattleLog, human: NDArray[np.bool_], columns: Codes, rows: Codes) -> Codes:
    """What most of people's votes on each pair say; -1 where there is none, or no majority."""
    votes: dict[tuple[int, ...], int] = {}
    labels = verdicts(log)
    for row in np.flatnonzero(human):
        if labels[row] != _TIE:
            key = tuple(columns[:, row].tolist())
            votes[key] = votes.get(key, 0) + (1 if labels[row] == _FIRST else -1)
    lean = np.array([votes.get(tuple(columns[:, row].tolist()), 0) for row in rows])
    return np.where(lean > 0, _FIRST, np.where(lean < 0, _SECOND, -1))


def _skills(table: _Table) -> tuple[Floats, str]:
    """Each judge's share of right verdicts, and what that was told from."""
    decisive = (table.said >= 0) & (table.said != _TIE)
    labelled = decisive & (table.people >= 0)
    counts = labelled.sum(axis=1)
    if counts.any():
        for name, n in zip(table.judges, counts.tolist(), strict=True):
            if n < LEAST_LABELLED:
                raise DataError(
                    f"the skill of {name} needs {LEAST_LABELLED} verdicts on pairs that people "
                    f"decided, found {n}"
                )
        right = (labelled & (table.said == table.people)).sum(axis=1)
        return (right + 1) / (
            counts + 2
        ), f"people's votes on {int(labelled.any(axis=0).sum())} pairs"
    if len(table.judges) < LEAST_JUDGES:
        raise DataError(
            f"without people's votes, skill can be told from {LEAST_JUDGES} judges or more; "
            f"got {len(table.judges)}: {', '.join(table.judges)}"
        )
    return _dawid_skene(np.where(decisive, 1 - table.said, 0)), _FROM_EACH_OTHER


def _dawid_skene(votes: Codes) -> Floats:
    """The skill of judges (rows) who vote 1 or -1 (0 is no vote) on pairs whose truth is not known:
    the likeliest under independent errors, begun at the majority.
    """
    right = np.abs(votes).sum(axis=1)
    lean = np.sign(votes.sum(axis=0)).astype(float)
    skill = np.zeros(len(votes))
    for _ in range(_STEPS):
        before = skill
        agreed = ((1 + votes * lean) / 2 * (votes != 0)).sum(axis=1)
        skill = (agreed + 1) / (right + 2)
        if np.abs(skill - before).max() < _TOLERANCE:
            break
        lean = np.tanh(np.log(skill / (1 - skill)) @ votes / 2)
    return skill


def _log_odds(skill: Floats) -> Floats:
    """The weight of each judge under independent errors; none for those at chance or below."""
    return np.array([max(0.0, ln(p / (1 - p))) for p in skill.tolist()])
