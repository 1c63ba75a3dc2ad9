"""The boards of a run record as plain rows, whatever notebook made them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from arena_kit.files import DataError, read_json
from arena_kit.policy.constants import Phase
from arena_kit.rating.base import RatingError
from arena_kit.reporting.board import ABOUT
from arena_kit.reporting.tables import DASH, number, percent, ranks_text, span
from arena_kit.runs.record import artifacts
from arena_kit.runs.record.battles import battles_of
from arena_kit.runs.record.compare import record_battles
from arena_kit.runs.record.record import open_record

_TWO_SCALES = (
    "Bradley–Terry orders the board. Permutation Elo stands beside it on a scale of its own: it "
    "moves by at most K points a battle, so its gaps are smaller."
)
_NOW = "Rated now: this record was made before boards were ordered by Bradley–Terry."


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a board; `help` says what it holds, and `text` ones are not numbers."""

    key: str
    label: str
    help: str = ""
    text: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """What a board shows, and what it is sorted by; None comes last."""

    text: str
    sort: float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A rating with its interval, to be drawn."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRow:
    """One model of a board; `marked` is the one that the run is about."""

    model: str
    cells: Mapping[str, Cell]
    interval: Interval | None = None
    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A ranking, best first, with the sentences that stand over it and the notes below."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[BoardRow]
    sentences: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def scale(self) -> tuple[float, float] | None:
        """From the lowest to the highest end of an interval; None where there is none."""
        drawn = [row.interval for row in self.rows if row.interval]
        if not drawn:
            return None
        return min(each.low for each in drawn), max(each.high for each in drawn)


def boards_of(record: Path) -> list[Board]:
    """The boards of a record: one per dimension of a tournament, one of any other run."""
    if (record / "placement.json").is_file():
        return [_placement(read_json(record / "placement.json"))]
    if (record / "leaderboard.json").is_file():
        return [_policy(read_json(record / "leaderboard.json"))]
    if (record / "elo_results.json").is_file():
        return list(_tournament(record))
    raise DataError(f"{record}: has no board")


def strengths_of(record: Path) -> dict[str, Any]:
    """What a tournament record says by Bradley–Terry; the battles of one that was made before it
    said so are rated now, with its settings.
    """
    if not _rated_now(record):
        strengths: dict[str, Any] = read_json(record / "bradley_terry.json")
        return strengths
    rated = {}
    for dimension, (battles, method) in record_battles(record).items():
        with suppress(RatingError):  # a dimension without a rating stays empty
            rated[dimension] = method(battles)
    return artifacts.bradley_terry(rated, battles_of(record), open_record(record)["dimensions"])


def _rated_now(record: Path) -> bool:
    return not (record / "bradley_terry.json").is_file()


_RANK = Column(key="rank", label="Rank")
_RATING = Column(key="rating", label="Rating", help="Bradley–Terry rating")
_INTERVAL = Column(key="interval", label="95 % interval", help="What the evidence leaves open")
_RANKS = Column(key="ranks", label="Possible ranks", help="Of all models at once")
_TIER = Column(key="tier", label="Tier", help="Each tier is decidedly above the next")
_BATTLES = Column(key="battles", label="Battles", help="Battles that count")


def _tournament(record: Path) -> Iterator[Board]:
    elo = read_json(record / "elo_results.json")
    manifest, strengths = open_record(record), strengths_of(record)
    now = [_NOW] if _rated_now(record) else []
    unrated = manifest.get("unrated") or {}
    for dimension in manifest["dimensions"]:
        rated = strengths.get(dimension)
        why = [f"Not rated: {unrated[dimension]}."] if dimension in unrated else []
        if rated:
            board = _dimension(dimension, rated, elo["primary"].get(dimension, {}), why)
            of_elo = elo.get("notes", {}).get(dimension, [])
            yield replace(board, notes=[*now, *board.notes, *of_elo])
        else:
            yield Board(name=dimension, columns=(), rows=(), sentences=why or ["Not rated."])


def _dimension(
    name: str, rated: Mapping[str, Any], elo: Mapping[str, Any], why: Sequence[str]
) -> Board:
    said = rated["claims"]
    tier = {model: n for n, group in enumerate(said["tiers"], 1) for model in group}
    fragile = said.get("fragility") or {}
    rows = []
    for rank, row in enumerate(rated["ratings"], 1):
        model = row["model"]
        cells = _rated(rank, row) | {
            "ranks": _ranks(said["ranks_at_once"].get(model)),
            "tier": Cell(str(tier.get(model, DASH)), tier.get(model)),
            "elo": _elo(elo.get(model, {})),
        }
        rows.append(BoardRow(model=model, cells=cells, interval=_drawn(row)))
    return Board(
        name=name,
        columns=(
            _RANK, _RATING, _INTERVAL,
            _RANKS,
            _TIER,
            Column(key="elo", label="Elo", help="Permutation Elo and its evidence interval"),
            _BATTLES,
        ),
        rows=rows,
        sentences=[*said["sentences"], *filter(None, [fragile.get("sentence")]), *why],
        notes=[*_without_interval(rated["ratings"]), ABOUT[said["about"]], _TWO_SCALES],
    )  # fmt: skip


def _placement(placement: Mapping[str, Any]) -> Board:
    shown = placement["board"]
    rows = [
        BoardRow(
            model=row["model"],
            cells=_rated(rank, row) | {"ranks": _ranks(row["ranks"])},
            interval=_drawn(row),
            marked=row["model"] == placement["model"],
        )
        for rank, row in enumerate(shown["ratings"], 1)
    ]
    at_once = "ranks_alone" in placement  # records before had ranks of each model alone
    ranks = replace(_RANKS, help=_RANKS.help if at_once else "For one model named beforehand")
    return Board(
        name=f"{placement['model']}: {shown['heading']}",
        columns=(_RANK, _RATING, _INTERVAL, ranks, _BATTLES),
        rows=rows,
        sentences=[each for each in (shown["caution"], placement.get("in_votes")) if each],
        notes=_without_interval(shown["ratings"]),
    )


def _policy(board: Mapping[str, Any]) -> Board:
    """The board as its rollout phase shows it to readers (12)."""
    phase, by_elo = Phase(board["phase"]), board["ordered_by"] == "legacy_elo"
    score = Column(key="rating", label="Elo" if by_elo else "Rating",
                   help="" if by_elo else "Conservative score: rating less two RD")  # fmt: skip
    more = (
        Column(key="raw", label="Raw rating ± RD"),
        Column(key="confidence", label="Confidence"),
        Column(key="coverage", label="Prompt coverage"),
        Column(key="badge", label="Badge", text=True),
        *([_TIER] if board.get("tiers") else []),
    )
    return Board(
        name=board["arena"],
        columns=(
            _RANK, score, *(more if phase.shows_diagnostics else ()),
            Column(key="record", label="Won, lost, tied", text=True),
            Column(key="battles", label="Votes"),
        ),
        rows=[_policy_row(row, "legacy_elo" if by_elo else "conservative")
              for row in board["rows"]],
        notes=[board["epoch"]] if phase.shows_diagnostics else [],
    )  # fmt: skip


def _policy_row(row: Mapping[str, Any], score: str) -> BoardRow:
    cells = {
        "rank": Cell(str(row["official_rank"] or DASH), row["official_rank"]),
        "rating": Cell(f"{row[score]:.0f}", row[score]),
        "raw": Cell(f"{row['rating']:.0f} ± {row['rd']:.0f}", row["rating"]),
        "confidence": Cell(f"{row['confidence']}%", row["confidence"]),
        "coverage": Cell(percent(row["prompt_coverage"]), row["prompt_coverage"]),
        "badge": Cell(row["badge"], row["badge"]),
        "tier": Cell(str(row.get("tier") or DASH), row.get("tier")),
        "record": Cell(f"{row['wins']}–{row['losses']}–{row['ties']}", row["wins"]),
        "battles": Cell(f"{row['votes']:,}", row["votes"]),
    }
    return BoardRow(model=row["model"], cells=cells)


def _rated(rank: int, row: Mapping[str, Any]) -> dict[str, Cell]:
    return {
        "rank": Cell(str(rank), rank),
        "rating": Cell(number(row["rating"], ".0f"), row["rating"]),
        "interval": Cell(span(row["ci_low"], row["ci_high"]), row["ci_low"]),
        "battles": Cell(f"{row['n_battles']:,}", row["n_battles"]),
    }


def _ranks(ranks: Sequence[int] | None) -> Cell:
    if not ranks:
        return Cell(DASH, None)
    best, worst = ranks
    return Cell(ranks_text((best, worst)), best + worst / 1000)


def _elo(entry: Mapping[str, Any]) -> Cell:
    if not entry:
        return Cell(DASH, None)
    low, high = entry["ci95_low"], entry["ci95_high"]
    interval = "" if low is None or high is None else f" ({span(low, high)})"
    return Cell(f"{entry['mean']:.0f}{interval}", entry["mean"])


def _without_interval(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why models have no interval, in a sentence for each reason."""
    named: dict[str, list[str]] = {}
    for row in rows:
        if row.get("no_interval"):
            named.setdefault(row["no_interval"], []).append(row["model"])
    return [f"No interval of {', '.join(models)}: {why}." for why, models in named.items()]


def _drawn(row: Mapping[str, Any]) -> Interval | None:
    if row["ci_low"] is None or row["ci_high"] is None:
        return None
    return Interval(low=row["ci_low"], middle=row["rating"], high=row["ci_high"])
