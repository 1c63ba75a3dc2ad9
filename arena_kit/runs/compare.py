"""What changed between two tournament records."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from arena_kit.files import DataError, read_json, read_lines
from arena_kit.runs.record import open_record

_COMPARED = (
    "mode", "parameters", "tournament", "judge", "prompt_set", "responses", "rubrics", "seeds",
    "rating", "versions",
)  # fmt: skip
_IGNORED = {"parameters.run_dir"}


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
    """An entrant's rating in both records; `overlap` is whether the intervals do."""

    dimension: str
    entrant: str
    before: float
    after: float
    before_interval: tuple[float | None, float | None]
    after_interval: tuple[float | None, float | None]

    @property
    def change(self) -> float:
        return self.after - self.before

    @property
    def overlap(self) -> bool | None:
        (low, high), (low2, high2) = self.before_interval, self.after_interval
        if low is None or high is None or low2 is None or high2 is None:
            return None
        return low <= high2 and low2 <= high

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"change": self.change, "overlap": self.overlap}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Settings that differ, verdicts that changed, ratings that moved."""

    settings: dict[str, tuple[Any, Any]]
    n_shared: int
    only_before: int
    only_after: int
    flips: list[Flip]
    deltas: list[Delta]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"deltas": [delta.as_dict() for delta in self.deltas]}


def compare_records(before: Path, after: Path) -> Comparison:
    """Hold two records of judged tournaments side by side."""
    first, second = _verdicts(before), _verdicts(after)
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


def _verdicts(record: Path) -> dict[tuple[str, str, str, str], str]:
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
