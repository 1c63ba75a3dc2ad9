"""The log: many battles as columns, which is what every rating method takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_kit.battles.battle import A_WEIGHT, B_WINS, MAX_WEIGHT, OUTCOMES, Battle, Source
from arena_kit.battles.display import html_table
from arena_kit.files import DataError

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int32]
Strings = NDArray[np.object_]
Hashes = NDArray[np.uint64]
#: By what rows are clustered: what they are about, who voted, or both.
Way = Literal["question", "voter", "both"]
#: How many battles a notebook shows of a log.
_SHOWN = 5
COUNT_COLUMNS = ("a_wins", "b_wins", "tie", "both_bad")


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A column of strings as integer codes into sorted `names`; -1 marks a missing value."""

    names: Strings
    codes: Ints

    @classmethod
    def of(cls, values: Iterable[str | None]) -> Self:
        """Encode strings; the names come out sorted, so equal columns encode equally."""
        rows = list(values)
        known = sorted({name for name in rows if name is not None})
        place: dict[str | None, int] = {name: n for n, name in enumerate(known)} | {None: -1}
        codes = np.fromiter(map(place.__getitem__, rows), np.int32, len(rows))
        return cls(np.array(known, object), codes)

    def values(self) -> Strings:
        """The strings again, one per row, None where missing."""
        names: Strings = np.array([*self.names, None], object)
        return names[self.codes]

    def take(self, rows: NDArray[Any]) -> Self:
        """The same column for some rows, keeping only the names still in use."""
        codes = self.codes[rows]
        used = np.flatnonzero(np.bincount(codes + 1, minlength=1)[1:])
        remap = np.full(len(self.names) + 1, -1, np.int32)
        remap[used] = np.arange(len(used))
        return type(self)(self.names[used], remap[codes])


TEXT_COLUMNS = (
    "source", "question_id", "dimension", "judge_model", "served_model", "session", "voter", "lane",
)  # fmt: skip
#: The other optional columns: their type, and what a battle has that lacks one.
_ARRAYS: Mapping[str, tuple[Any, Any]] = {
    "battle_id": (object, None),
    "timestamp": ("datetime64[us]", np.datetime64("NaT")),
    "weight": (float, 1.0),
    "inconsistent": (bool, False),
    "share_a": (float, np.nan),
}
#: What makes one battle of an id: who decided it, and on what. An id may come again in another
#: dimension, or from another judge.
IDENTITY = ("source", "judge_model", "dimension")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BattleLog:
    """Many battles as columns: what every rating method takes.

    `a` and `b` index `models` (sorted names), `outcome` indexes `OUTCOMES`. A column that
    no battle has is None; in `share_a`, NaN marks a battle without a soft outcome.
    `covariates` are numbers per battle, each a difference of the first side to the second
    (of length, say), that `BradleyTerry` can control for; `strata` says of each axis (language,
    say) to which stratum a battle belongs. Build one with `from_battles` or `from_counts`, or
    read one with `read_battles` (a file); rating methods and `rate` take a pandas frame as it is.
    `log["winner"]` is a column, `log[:100]` and `log[mask]` are some battles,
    `log.where(model="aspen")` those of a model.
    """

    models: tuple[str, ...]
    a: Ints
    b: Ints
    outcome: NDArray[np.int8]
    source: Labels | None = None
    question_id: Labels | None = None
    dimension: Labels | None = None
    judge_model: Labels | None = None
    served_model: Labels | None = None
    session: Labels | None = None
    voter: Labels | None = None
    lane: Labels | None = None
    battle_id: Strings | None = None
    timestamp: NDArray[np.datetime64] | None = None
    weight: NDArray[np.float64] | None = None
    inconsistent: NDArray[np.bool_] | None = None
    share_a: NDArray[np.float64] | None = None
    covariates: Mapping[str, NDArray[np.float64]] | None = None
    strata: Mapping[str, Labels] | None = None

    def __post_init__(self) -> None:
        if self.weight is not None:
            wrong = ~((self.weight > 0) & (self.weight <= MAX_WEIGHT))
            if wrong.any():
                at = int(np.argmax(wrong))
                raise DataError(f"battle {at}: weight {self.weight[at]:g} is not {A_WEIGHT}")

    def __len__(self) -> int:
        return len(self.a)

    def __repr__(self) -> str:
        return f"BattleLog({len(self)} battles, {len(self.models)} models)"

    def __getitem__(self, key: Any) -> Any:
        """A column by its name on disk, or the log of some battles: a slice, a mask or indices."""
        if not isinstance(key, str):
            return self.select(np.arange(len(self))[key].reshape(-1))
        if key not in (columns := self.columns()):
            raise KeyError(f"no column {key!r}; there: {', '.join(columns)}")
        return columns[key]

    def where(self, *, model: str = "", **values: Any) -> Self:
        """The battles of a model, and with these values in columns, each one or several of them:
        `where(model="aspen", dimension="factuality", winner=["tie", "both_bad"])`.
        """
        kept = np.ones(len(self), bool)
        if model:
            kept &= (self["model_a"] == model) | (self["model_b"] == model)
        for name, wanted in values.items():
            several = not isinstance(wanted, str) and isinstance(wanted, Iterable)
            kept &= np.isin(self[name].astype(object), list(wanted) if several else [wanted])
        return self.select(kept)

    def _repr_html_(self) -> str:
        """The first battles as a table."""
        some = {name: column[:_SHOWN].tolist() for name, column in self.columns().items()}
        rows = [dict(zip(some, row, strict=True)) for row in zip(*some.values(), strict=True)]
        more = [f"and {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        title = f"{len(self):,} battles of {len(self.models)} models"
        return html_table(rows, title=title, notes=more)

    @classmethod
    def from_battles(cls, battles: Iterable[Battle]) -> Self:
        """Columns of these records, in their order."""
        rows = list(battles)
        columns = {each.name: [getattr(x, each.name) for x in rows] for each in fields(Battle)}
        columns["timestamp"] = [t and t.astimezone(UTC).replace(tzinfo=None)
                                for t in columns["timestamp"]]  # fmt: skip
        return cls._of(columns, np.array([OUTCOMES.index(x.winner) for x in rows], np.int8))

    @classmethod
    def _of(cls, columns: Mapping[str, Any], outcome: NDArray[np.int8]) -> Self:
        """The log of whole columns; one in which no battle differs from the default is left out."""
        sides = Labels.of(chain(columns["model_a"], columns["model_b"]))
        a, b = np.split(sides.codes, 2)
        given: dict[str, Any] = {}
        for name in TEXT_COLUMNS:
            if len((labels := Labels.of(columns[name])).names):
                given[name] = labels
        for name, (kind, default) in _ARRAYS.items():
            column: NDArray[Any] = np.array(columns[name], kind)
            if np.any((column != default) & (column == column)):  # noqa: PLR0124 (NaN and NaT)
                given[name] = column
        return cls(models=tuple(sides.names), a=a, b=b, outcome=outcome, **given)

    @classmethod
    def from_counts(
        cls,
        model_a: Sequence[str],
        model_b: Sequence[str],
        a_wins: ArrayLike,
        b_wins: ArrayLike,
        tie: ArrayLike = 0,
        both_bad: ArrayLike = 0,
        *,
        source: Source = Source.HUMAN,
    ) -> Self:
        """One weighted row per pair and outcome, from a table of counts with a row per pair."""
        columns = [np.asarray(c, float) for c in (a_wins, b_wins, tie, both_bad)]
        if {len(model_b), *(len(c) for c in columns if c.ndim)} != {len(model_a)}:
            raise DataError(f"every column of counts needs {len(model_a)} rows, as model_a has")
        table = np.stack([np.broadcast_to(c, len(model_a)) for c in columns], axis=1)
        if not np.all(np.isfinite(table) & (table >= 0)):
            raise DataError("a pair count is not a finite number >= 0")
        return cls.from_battles(
            Battle(
                model_a=model_a[i],
                model_b=model_b[i],
                winner=OUTCOMES[k],
                weight=float(table[i, k]),
                source=source,
            )
            for i, k in np.argwhere(table > 0)
        )

    def pair_counts(self) -> dict[str, NDArray[Any]]:
        """A row per pair (sides sorted by name): model_a, model_b, a_wins, b_wins, tie,
        both_bad, each count a sum of weights. Inconsistent judgments count as ties here.
        """
        log = self.sides_in_order()
        pairs, row = np.unique(log.a * np.int64(len(self.models)) + log.b, return_inverse=True)
        table = np.bincount(row * 4 + log.outcome, self.weights(), minlength=4 * len(pairs))
        names = np.array(self.models, object)
        first, second = np.divmod(pairs, max(1, len(self.models)))
        counts = dict(zip(COUNT_COLUMNS, table.reshape(-1, 4).T, strict=True))
        return {"model_a": names[first], "model_b": names[second], **counts}

    def weights(self) -> NDArray[np.float64]:
        """The weight of each battle, 1 where none was given."""
        return np.ones(len(self)) if self.weight is None else self.weight

    def per_model(self, values: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """Values of battles, by default their weights, added up for both of their models."""
        sides, each = np.append(self.a, self.b), self.weights() if values is None else values
        return np.bincount(sides, np.tile(each, 2), len(self.models)).astype(float)

    def flags(self) -> NDArray[np.bool_]:
        """Which battles are inconsistent judgments."""
        return np.zeros(len(self), bool) if self.inconsistent is None else self.inconsistent

    @property
    def prompts(self) -> tuple[str, ...]:
        """The questions that battles name, sorted."""
        return () if self.question_id is None else tuple(map(str, self.question_id.names))

    def compared(self) -> Iterator[tuple[str | None, str, str]]:
        """The question of each battle, None where it has none, and its models in name order."""
        names = np.array(self.models, object)
        asked = np.full(len(self), None) if self.question_id is None else self.question_id.values()
        low, high = names[np.minimum(self.a, self.b)], names[np.maximum(self.a, self.b)]
        return zip(asked, low, high, strict=True)

    def repeat(self) -> tuple[int, int] | None:
        """The rows of the first battle that comes twice (the same id, source, judge and
        dimension), the earlier one first; None where there is none.
        """
        ids = [] if self.battle_id is None else self.battle_id.tolist()
        labels = [getattr(self, name) for name in IDENTITY]
        codes = [each.codes.tolist() for each in labels if each is not None]
        first: dict[tuple[object, ...], int] = {}
        for row, key in enumerate(zip(ids, *codes, strict=False)):
            if key[0] and (earlier := first.setdefault(key, row)) != row:
                return earlier, row
        return None

    def codes(self, column: str) -> Ints:
        """The codes of a column of labels; -1 everywhere without such a column."""
        labels: Labels | None = getattr(self, column)
        return np.full(len(self), -1, np.int32) if labels is None else labels.codes

    def decisive(self) -> NDArray[np.bool_]:
        """Which battles name a winner."""
        return self.outcome <= B_WINS

    def clusters(self, by: Literal["question_id", "voter"] = "question_id") -> Ints:
        """A cluster number per battle: its question (or voter), or itself where it has none."""
        labels: Labels | None = getattr(self, by)
        if labels is None:
            return np.arange(len(self), dtype=np.int32)
        codes = labels.codes.copy()
        missing = np.flatnonzero(codes < 0)
        codes[missing] = len(labels.names) + np.arange(len(missing), dtype=np.int32)
        found = np.bincount(codes) > 0
        return (np.cumsum(found, dtype=np.int32) - 1)[codes]

    def simulated(self) -> bool:
        """Whether the battles say of themselves that nobody voted: all sessions are named so."""
        names = () if self.session is None else tuple(self.session.names)
        return len(names) > 0 and all(str(name).startswith("simulated") for name in names)

    def select(self, rows: ArrayLike) -> Self:
        """The log of some battles (a mask or indices); models without one are left out."""
        index = np.asarray(rows)
        if index.dtype == bool and len(index) != len(self):
            raise IndexError(f"a mask of {len(index)} for {len(self)} battles")
        index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.intp)
        a, b = self.a[index], self.b[index]
        used = np.flatnonzero(np.bincount(np.concatenate([a, b])))
        remap = np.zeros(len(self.models), np.int32)
        remap[used] = np.arange(len(used))
        columns: dict[str, Any] = {}
        for name in (f.name for f in fields(self)):
            column = getattr(self, name)
            if isinstance(column, Labels | np.ndarray):
                columns[name] = column.take(index)
            elif isinstance(column, Mapping):
                columns[name] = {key: each.take(index) for key, each in column.items()}
        if self.share_a is not None and np.isnan(columns["share_a"]).all():
            columns["share_a"] = None
        columns |= {"models": tuple(self.models[i] for i in used), "a": remap[a], "b": remap[b]}
        return type(self)(**columns)

    def with_strata(self, axes: Mapping[str, Mapping[str, str]]) -> Self:
        """The same battles with the strata of their questions, on each axis."""
        asked = self.question_id.values().tolist() if self.question_id else [None] * len(self)
        strata = {
            axis: Labels.of([None if q is None else of.get(q) for q in asked])
            for axis, of in axes.items()
        }
        return replace(self, strata={**(self.strata or {}), **strata})

    def among(self, models: Iterable[str]) -> Self:
        """The battles between two of these models."""
        named = np.isin(np.array(self.models, object), list(models))
        return self.select(named[self.a] & named[self.b])

    @classmethod
    def joined(cls, *logs: Self) -> Self:
        """One log of all battles, in the order given; covariates are left out, and strata that not
        all logs have.

        A battle that comes twice (see `repeat`) is refused.
        """
        columns = [(log.columns(), len(log)) for log in logs]

        def stacked(name: str) -> NDArray[Any]:
            _, default = _ARRAYS.get(name, (object, None))
            return np.concatenate([each.get(name, np.full(n, default)) for each, n in columns])

        names = ("model_a", "model_b", *TEXT_COLUMNS, *_ARRAYS)
        outcome = np.concatenate([log.outcome for log in logs])
        whole = cls._of({name: stacked(name) for name in names}, outcome)
        if (twice := whole.repeat()) is not None:
            raise DataError(_joined_twice(whole, twice, [len(log) for log in logs]))
        axes = set.intersection(*({*(log.strata or {})} for log in logs)) if logs else ()
        strata = {
            axis: Labels.of(chain(*((log.strata or {})[axis].values() for log in logs)))
            for axis in sorted(axes)
        }
        return replace(whole, strata=strata) if strata else whole

    def sides_in_order(self) -> Self:
        """The same battles, the side whose name comes first as the first; no covariates."""
        turned = self.a > self.b
        share = self.share_a
        return replace(
            self,
            a=np.where(turned, self.b, self.a),
            b=np.where(turned, self.a, self.b),
            outcome=np.where(turned & self.decisive(), 1 - self.outcome, self.outcome),
            share_a=None if share is None else np.where(turned, 1 - share, share),
            covariates=None,
        )

    def of_source(self, source: Source, judge_model: str | None = None) -> Self:
        """The same battles, all decided by this source (and judge)."""
        judge = None if judge_model is None else Labels.of([judge_model] * len(self))
        return replace(self, source=Labels.of([str(source)] * len(self)), judge_model=judge)

    def by_dimension(self) -> dict[str, Self]:
        """One log per dimension, in name order; battles without one come under ''."""
        parts = self.dimension_rows().items()
        return {name: self.select(rows) for name, rows in parts} if self.dimension else {"": self}

    def dimension_rows(self) -> dict[str, NDArray[np.intp]]:
        """The rows of each dimension, in name order; those without one come under ''."""
        if self.dimension is None:
            return {"": np.arange(len(self))}
        names, codes = [*self.dimension.names, ""], self.dimension.codes
        return {str(names[code]): np.flatnonzero(codes == code) for code in np.unique(codes)}

    def columns(self) -> dict[str, NDArray[Any]]:
        """The log as plain columns under their names on disk; absent ones are left out."""
        names = np.array(self.models, object)
        labels = {name: getattr(self, name) for name in TEXT_COLUMNS}
        share = self.share_a
        given: dict[str, Any] = {
            "battle_id": self.battle_id,
            "model_a": names[self.a],
            "model_b": names[self.b],
            "winner": np.array([str(o) for o in OUTCOMES], object)[self.outcome],
            **{name: each and each.values() for name, each in labels.items()},
            **{name: getattr(self, name) for name in ("timestamp", "weight", "inconsistent")},
            "share_a": None if share is None else np.where(np.isnan(share), np.array(None), share),
        }
        out = {name: column for name, column in given.items() if column is not None}
        strata = {name: labels.values() for name, labels in (self.strata or {}).items()}
        return {**strata, **out, **(self.covariates or {})}

    def to_battles(self) -> Iterator[Battle]:
        """The records again, in order."""
        columns = replace(self, covariates=None, strata=None).columns()
        lists = {name: column.tolist() for name, column in columns.items()}
        for row in zip(*lists.values(), strict=True):
            given = zip(lists, row, strict=True)
            yield Battle(**{name: value for name, value in given if value is not None})

    def to_frame(self) -> pd.DataFrame:
        """The log as a pandas frame with the names used on disk."""
        import pandas as pd

        return pd.DataFrame(self.columns())


def _joined_twice(whole: BattleLog, rows: tuple[int, int], sizes: Sequence[int]) -> str:
    """The sentence on a battle that comes twice in a joined log; logs count from 1, rows from 0."""
    starts = np.cumsum([0, *sizes])
    logs = [int(np.searchsorted(starts, row, side="right")) for row in rows]
    places = zip(rows, logs, strict=True)
    first, second = (f"row {row - starts[log - 1]} of log {log}" for row, log in places)
    names: Any = whole.battle_id
    return f"battle_id {names[rows[1]]!r} in {second} was there before, in {first}"


# Battles that stay on disk, as rating methods see them: count cells, and rows in chunks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellTable:
    """The count cells of a log: one for all battles of a dimension with the same sides, source and
    outcome.

    Parameters
    ----------
    log
        One battle per cell, whose weight is the sum of weights: the count itself where battles
        have none.
    count
        How many battles there are in each cell.
    """

    log: BattleLog
    count: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.count)


class Rows(NamedTuple):
    """Some battles in a row: the cell of each in the `CellTable`, the hash of the question or voter
    that it is clustered by (of itself, where it names none), and its weight.
    """

    cell: Ints
    cluster: Hashes
    weight: NDArray[np.float64]


class Stream(Protocol):
    """A log that is read in chunks and never held: what `rating.on_disk` takes."""

    @property
    def cells(self) -> CellTable:
        """Its count cells."""

    @property
    def ways(self) -> tuple[Way, ...]:
        """What its battles name: questions, voters."""

    def grouped(self, way: Way | None) -> Iterator[Rows]:
        """All battles by the hash of their question (or voter); None leaves them in order."""
