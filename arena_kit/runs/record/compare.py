"""What changed between two tournament records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from arena_kit.battles.display import html_table
from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError, file_in, read_lines
from arena_kit.rating.base import NORMAL_95, RatingError, Ratings, some
from arena_kit.rating.bradley_terry.clusters import Influence
from arena_kit.rating.bradley_terry.likelihood import Floats
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.critical_values import t_score
from arena_kit.reporting.board import Board
from arena_kit.reporting.tables import span
from arena_kit.runs.record.inputs import battles_of
from arena_kit.runs.record.record import open_record

GAPS = "Bradley–Terry gap to the mean of the shared entrants"
_COMPARED = (
    "mode", "parameters", "tournament", "judge", "prompt_set", "responses", "rubrics", "seeds",
    "rating", "versions",
)  # fmt: skip
_IGNORED = {"parameters.run_dir"}
_SHOWN_ORDERS = 6
_NO_CHANGE = 0.05  # rating points

Order = tuple[str, str]
#: Battles of one dimension with the method of their claims; those of two records by dimension.
Side = tuple[BattleLog, BradleyTerry]
Shared = Mapping[str, tuple[Side, Side]]


@dataclass(frozen=True, slots=True)
class Flip:
    """A presentation that both records judged, with different answers."""

    dimension: str
    prompt_id: str
    first: str
    second: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Delta:
    """An entrant's Bradley–Terry gap to the mean of the entrants that both records have.

    The interval is that of the change: questions that both records have count once, so that equal
    verdicts on equal questions leave none. `flips` are the shared verdicts that changed on this
    dimension.
    """

    dimension: str
    entrant: str
    before: float
    after: float
    low: float | None
    high: float | None
    flips: int

    @property
    def change(self) -> float:
        return self.after - self.before

    @property
    def says(self) -> Literal["same", "other battles", "within chance", "moved"]:
        """What may be said of the change: only changed verdicts that chance hardly explains are
        said to move an entrant.
        """
        if abs(self.change) < _NO_CHANGE:
            return "same"
        if not self.flips:
            return "other battles"
        surely = self.low is not None and self.high is not None and self.low * self.high > 0
        return "moved" if surely else "within chance"

    @property
    def cells(self) -> dict[str, object]:
        """As a table shows it."""
        return {
            "dimension": self.dimension,
            "entrant": self.entrant,
            "before": f"{self.before:+.0f}",
            "after": f"{self.after:+.0f}",
            "change": f"{self.change:+.1f}",
            "95% interval": span(self.low, self.high),
            "due to": self.says,
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"change": self.change, "says": self.says}


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What became of the decided orders among a dimension's entrants that both records have.

    Each is (above, below); a reversed one stands as it is after.
    """

    dimension: str
    kept: list[Order]
    lost: list[Order]
    gained: list[Order]
    reversed: list[Order]

    @property
    def sentence(self) -> str:
        """The same in words, with some of those that changed."""
        kinds = {"lost": self.lost, "gained": self.gained, "reversed": self.reversed}
        named = {
            kind: some([f"{above} above {below}" for above, below in orders], _SHOWN_ORDERS)
            for kind, orders in kinds.items()
        }
        changed = "; ".join(f"{kind}: {orders or 'none'}" for kind, orders in named.items())
        return f"{self.dimension}: decided orders kept: {len(self.kept)}; {changed}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Settings that differ, verdicts that changed, gaps that moved, orders that are decided in one
    record only, and what makes the two hard to compare.
    """

    settings: dict[str, tuple[Any, Any]]
    n_shared: int
    only_before: int
    only_after: int
    flips: list[Flip]
    deltas: list[Delta]
    orders: list[Orders]
    warnings: list[str]

    @property
    def verdicts(self) -> str:
        """How many verdicts changed, in words."""
        return (
            f"Verdicts: {len(self.flips)} of {self.n_shared} shared presentations changed; "
            f"{self.only_before} only before, {self.only_after} only after."
        )

    def _repr_html_(self) -> str:
        differ = f"Settings and inputs that differ: {', '.join(self.settings) or 'none'}."
        orders = [each.sentence for each in self.orders]
        notes = [*self.warnings, differ, self.verdicts, *orders]
        return html_table([each.cells for each in self.deltas], title=GAPS, notes=notes)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"deltas": [delta.as_dict() for delta in self.deltas]}


def compare_records(before: Path, after: Path) -> Comparison:
    """Hold two records of judged tournaments side by side."""
    first, second = recorded_winners(before), recorded_winners(after)
    shared = [key for key in first if key in second]
    flips = [Flip(*key, first[key], second[key]) for key in shared if first[key] != second[key]]
    old, new = open_record(before), open_record(after)
    boards = Board.read(before), Board.read(after)
    changed, deltas = Counter(flip.dimension for flip in flips), []
    for dimension, (one, two) in shared_battles(*zip((before, after), boards, strict=True)).items():
        with suppress(RatingError):
            rated = _Rated.of(*one, "before"), _Rated.of(*two, "after")
            deltas += [*_changes(dimension, *rated, flips=changed[dimension])]
    return Comparison(
        settings=_differences(old, new),
        n_shared=len(shared),
        only_before=len(first) - len(shared),
        only_after=len(second) - len(shared),
        flips=flips,
        deltas=deltas,
        orders=list(decided_orders(*boards)),
        warnings=_warnings(old, new, *({key[1] for key in each} for each in (first, second))),
    )


def _warnings(
    a: dict[str, Any], b: dict[str, Any], asked: set[str], asked_after: set[str]
) -> list[str]:
    """Why ratings of the two records are not on one footing, a sentence each."""
    prompts = [(m.get("prompt_set") or {}).get("sha256") for m in (a, b)]
    judges = [m.get("judge") or {} for m in (a, b)]
    centers = [m.get("rating", {}).get("settings", {}).get("initial") for m in (a, b)]
    names = [each.get("model") for each in judges]
    pairs, two = (prompts, names, judges, centers), "{} before, {} after"
    files, who, settings, scale = (before != after for before, after in pairs)
    sets = f"{len(asked)} before, {len(asked_after)} after, {len(asked & asked_after)} in both"
    warnings = {
        f"The prompt sets differ ({sets}): changes may be due to the prompts.": asked
        != asked_after,
        "The prompt files differ: changes may be due to the prompts.": files
        and asked == asked_after,
        f"The judges differ ({two.format(*names)}): changes may be due to the judge.": who,
        "The judge's settings differ: changes may be due to the judge.": settings and not who,
        f"The centers differ ({two.format(*centers)}): only gaps between entrants are "
        "compared.": scale,
    }
    return [warning for warning, holds in warnings.items() if holds]


def _differences(a: dict[str, Any], b: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    flat = [_flat({k: m.get(k) for k in _COMPARED}) for m in (a, b)]
    both = {key: (flat[0].get(key), flat[1].get(key)) for key in sorted({*flat[0], *flat[1]})}
    return {key: two for key, two in both.items() if two[0] != two[1] and key not in _IGNORED}


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Nested settings by dotted name."""
    if not isinstance(value, dict):
        return {name: value}
    parts = (_flat(inner, f"{name}.{key}".lstrip(".")) for key, inner in value.items())
    return {key: each for part in parts for key, each in part.items()}


def recorded_winners(record: Path) -> dict[tuple[str, str, str, str], str]:
    """What a record's judge said to each presentation (dimension, prompt, first, second): the slot
    that it names, or the status of a verdict that names none.
    """
    files = sorted(file_in(record, "verdicts").glob("*.jsonl"))
    if not files:
        raise DataError(f"{record}: no verdicts to compare")
    return {
        (row["dimension"], row["prompt_id"], row["first"], row["second"]): (
            row["winner"] or row["status"]
        )
        for file in files
        for _, row in read_lines(file)
    }


@dataclass(frozen=True, slots=True)
class _Rated:
    """Ratings, and how far each question moves each of them. What has no question is a piece of
    evidence of its record alone.
    """

    ratings: Ratings
    moves: dict[tuple[str, str | int], Floats]

    @classmethod
    def of(cls, battles: BattleLog, method: BradleyTerry, side: str) -> _Rated:
        ratings, log = method(battles), method.kept(battles)[0]
        influence = Influence(log, ratings)
        moves = np.asarray(influence.pulls @ influence.bread)
        names = {row: ("", name) for name, row in influence.questions.items()}
        return cls(ratings, {names.get(row, (side, row)): each for row, each in enumerate(moves)})

    def gaps(self, entrants: Sequence[str]) -> Floats:
        """Each entrant's rating less the mean of all of them."""
        rating = self.ratings.values(entrants)
        return np.asarray(rating - rating.mean())

    def moved(self, question: tuple[str, str | int], entrants: Sequence[str]) -> Floats:
        """How far a question moves these gaps; not at all where it was not asked."""
        if question not in self.moves:
            return np.zeros(len(entrants))
        own = self.moves[question][[self.ratings.models.index(each) for each in entrants]]
        return np.asarray(own - own.mean())


def _changes(dimension: str, old: _Rated, new: _Rated, *, flips: int) -> Iterator[Delta]:
    entrants = [model for model in new.ratings.order if model in old.ratings.models]
    if not entrants:
        return
    questions = list({**old.moves, **new.moves})
    moves = np.array([new.moved(q, entrants) - old.moved(q, entrants) for q in questions])
    n = len(questions)
    error = np.sqrt((moves**2).sum(axis=0) * n / max(1, n - 1))
    gaps = old.gaps(entrants), new.gaps(entrants)
    for entrant, before, after, se in zip(entrants, *gaps, error, strict=True):
        known = [df for each in (old, new) if (df := each.ratings[entrant].extra["df"])]
        change = float(after - before)
        half = float(t_score(NORMAL_95, min(known)) * se) if len(known) == 2 else None
        low, high = (None, None) if half is None else (change - half, change + half)
        yield Delta(dimension, entrant, float(before), float(after), low, high, flips)


def decided_orders(before: Board, after: Board) -> Iterator[Orders]:
    """What became of the decided orders on the dimensions that two boards have, among the entrants
    that both rate; where one rates nobody, nothing is decided there.
    """
    for dimension in before.names:
        if dimension in after.names:
            rated = [{row.model for row in board.rows(dimension)} for board in (before, after)]
            among = set.intersection(*filter(None, rated)) if any(rated) else set()
            decided = [board[dimension].decided.items() for board in (before, after)]
            old, new = (
                [(a, b) for a, others in orders for b in others if {a, b} <= among]
                for orders in decided
            )
            yield Orders(
                dimension=dimension,
                kept=[order for order in new if order in old],
                lost=[o for o in old if o not in new and o[::-1] not in new],
                gained=[o for o in new if o not in old and o[::-1] not in old],
                reversed=[order for order in new if order[::-1] in old],
            )


def shared_battles(before: tuple[Path, Board], after: tuple[Path, Board]) -> Shared:
    """The battles of the dimensions that two records have, with the methods of their boards."""
    methods = [BradleyTerry(**board.settings) for _, board in (before, after)]
    old, new = (battles_of(record).by_dimension() for record, _ in (before, after))
    return {n: ((old[n], methods[0]), (new[n], methods[1])) for n in old if n in new}
