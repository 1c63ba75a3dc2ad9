"""What changed between two tournament records."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError, read_json, read_lines
from arena_kit.rating import claims
from arena_kit.rating.base import RatingError
from arena_kit.rating.bradley_terry import BradleyTerry
from arena_kit.runs.battles import battles_of
from arena_kit.runs.record import open_record
from arena_kit.runs.settings import recorded_settings, validated

_COMPARED = (
    "mode", "parameters", "tournament", "judge", "prompt_set", "responses", "rubrics", "seeds",
    "rating", "versions",
)  # fmt: skip
_IGNORED = {"parameters.run_dir"}
_SHOWN_ORDERS = 6

Order = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A presentation that both records judged, with different answers."""

    dimension: str
    prompt_id: str
    first: str
    second: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """An entrant's rating in both records."""

    dimension: str
    entrant: str
    before: float
    after: float
    before_interval: tuple[float | None, float | None]
    after_interval: tuple[float | None, float | None]

    @property
    def change(self) -> float:
        return self.after - self.before

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"change": self.change}


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
        changed = "; ".join(f"{kind}: {_named(orders)}" for kind, orders in kinds.items())
        return f"{self.dimension}: decided orders kept: {len(self.kept)}; {changed}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Settings that differ, verdicts that changed, ratings that moved, orders that are decided in
    one record only.
    """

    settings: dict[str, tuple[Any, Any]]
    n_shared: int
    only_before: int
    only_after: int
    flips: list[Flip]
    deltas: list[Delta]
    orders: list[Orders]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"deltas": [delta.as_dict() for delta in self.deltas]}


def compare_records(before: Path, after: Path) -> Comparison:
    """Hold two records of judged tournaments side by side."""
    first, second = recorded_winners(before), recorded_winners(after)
    shared = [key for key in first if key in second]
    flips = [
        Flip(
            dimension=key[0],
            prompt_id=key[1],
            first=key[2],
            second=key[3],
            before=first[key],
            after=second[key],
        )
        for key in shared
        if first[key] != second[key]
    ]
    return Comparison(
        settings=_differences(open_record(before), open_record(after)),
        n_shared=len(shared),
        only_before=len(first) - len(shared),
        only_after=len(second) - len(shared),
        flips=flips,
        deltas=_deltas(before, after),
        orders=_orders(before, after),
    )


def _differences(a: dict[str, Any], b: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    flat_a, flat_b = (_flat({k: m.get(k) for k in _COMPARED}) for m in (a, b))
    return {
        key: (flat_a.get(key), flat_b.get(key))
        for key in sorted(flat_a.keys() | flat_b.keys())
        if flat_a.get(key) != flat_b.get(key) and key not in _IGNORED
    }


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, dict):
            out |= _flat(inner, f"{name}.")
        else:
            out[name] = inner
    return out


def recorded_winners(record: Path) -> dict[tuple[str, str, str, str], str]:
    """What a record's judge said to each presentation (dimension, prompt, first, second): the slot
    that it names, or the status of a verdict that names none.
    """
    files = sorted((record / "verdicts").glob("*.jsonl"))
    if not files:
        raise DataError(f"{record}: no verdicts to compare")
    return {
        (row["dimension"], row["prompt_id"], row["first"], row["second"]): (
            row["winner"] or row["status"]
        )
        for file in files
        for _, row in read_lines(file)
    }


def _deltas(before: Path, after: Path) -> list[Delta]:
    old, new = (_primary(record) for record in (before, after))
    return [
        Delta(
            dimension=dimension,
            entrant=entrant,
            before=old[dimension][entrant]["mean"],
            after=entry["mean"],
            before_interval=_interval(old[dimension][entrant]),
            after_interval=_interval(entry),
        )
        for dimension, entries in new.items()
        for entrant, entry in entries.items()
        if entrant in old.get(dimension, {})
    ]


def _orders(before: Path, after: Path) -> list[Orders]:
    """Decided orders of the dimensions that both records have, by Bradley–Terry with each record's
    settings.
    """
    old, new = (record_battles(record) for record in (before, after))
    rows = []
    for dimension in (name for name in old if name in new):
        (log, method), (log2, method2) = old[dimension], new[dimension]
        shared = {*log.models} & {*log2.models}
        first, second = _decided(method, log, shared), _decided(method2, log2, shared)
        rows.append(_held_beside(dimension, first, second))
    return rows


def _held_beside(dimension: str, old: list[Order], new: list[Order]) -> Orders:
    return Orders(
        dimension=dimension,
        kept=[order for order in new if order in old],
        lost=[order for order in old if order not in new and order[::-1] not in new],
        gained=[order for order in new if order not in old and order[::-1] not in old],
        reversed=[order for order in new if order[::-1] in old],
    )


def record_battles(record: Path) -> dict[str, tuple[BattleLog, BradleyTerry]]:
    """A record's battles by dimension, with the method of its claims."""
    settings = recorded_settings(open_record(record)["rating"], "bradley-terry", record)
    method = validated(BradleyTerry, settings, f"{record}/manifest.json")
    return {name: (log, method) for name, log in battles_of(record).by_dimension().items()}


def _decided(method: BradleyTerry, battles: BattleLog, among: set[str]) -> list[Order]:
    """Decided orders among some entrants, best first; none where no rating exists."""
    try:
        ratings = method(battles)
    except RatingError:
        return []
    clear, index = claims.decided(ratings), ratings.models.index
    order = [model for model in ratings.order if model in among]
    return [(a, b) for a in order for b in order if clear[index(a), index(b)]]


def _named(orders: list[Order]) -> str:
    named = [f"{above} above {below}" for above, below in orders[:_SHOWN_ORDERS]]
    left = len(orders) - len(named)
    return ", ".join([*named, *([f"and {left} more"] if left else [])]) or "none"


def _primary(record: Path) -> dict[str, dict[str, Any]]:
    path = record / "elo_results.json"
    if not path.is_file():
        raise DataError(f"{record}: no elo_results.json; the run did not finish")
    primary: dict[str, dict[str, Any]] = read_json(path)["primary"]
    return primary


def _interval(entry: dict[str, Any]) -> tuple[float | None, float | None]:
    """The evidence interval; before 0.1.0 was released, `ci95_*` was the shuffle's."""
    before = "evidence_" if "evidence_ci95_low" in entry else ""
    return entry[f"{before}ci95_low"], entry[f"{before}ci95_high"]
