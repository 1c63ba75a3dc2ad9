"""The ratings of a board as rows, whichever method made them, and as documents of the
every_eval_ever schema 0.3.0, one per model.

Fields as in https://github.com/evaleval/every_eval_ever (`every_eval_ever/schemas`), folders as
its datastore has them: `<collection>/<developer>/<model>/<uuid>.json`.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError, file_hash, write_csv, write_json
from arena_kit.reporting.board import Board, BoardRow, MethodRating
from arena_kit.runs.record.inputs import judges_of
from arena_kit.runs.record.record import open_record, package_versions

COLUMNS = (
    "dimension", "model", "method", "settings", "rating", "ci_low", "ci_high", "interval",
    "best_rank", "worst_rank", "n_battles",
)  # fmt: skip
_CLUSTERS = {"both": "question and, where known, voter"}
#: Ways of placing a model, beside the board that shows it.
_WAYS = ("joint", "anchored")


#: A model's rating by one method in one dimension: `COLUMNS` and `se`. None is what the board does
#: not say; `interval` is what made the 95 % interval, and empty where there is none.
RatingRow = Mapping[str, Any]


def rating_rows(board: Board) -> Iterator[RatingRow]:
    """The ratings of a board by its own method, then by each beside it."""
    for row in board.ratings:
        error = row.se if row.evidence_se is None else row.evidence_se
        best, worst = row.ranks or (None, None)
        own = {"se": error, "best_rank": best, "worst_rank": worst, "n_battles": row.n_battles}
        yield _rating_row(row, row, board.method, board.settings) | own
    for name, beside in board.beside.items():
        method = f"placement-{name}" if name in _WAYS else beside.method
        for row in board.ratings:
            if figures := row.beside.get(name):
                yield _rating_row(row, figures, method, beside.settings)


def _rating_row(
    row: BoardRow, figures: BoardRow | MethodRating, method: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    same = {name: getattr(figures, name) for name in ("rating", "ci_low", "ci_high", "se")}
    known = {"dimension": row.dimension, "model": row.model, "method": method, **same}
    interval = "" if figures.ci_low is None else _interval(settings)
    return dict.fromkeys(COLUMNS) | known | {"settings": dict(settings), "interval": interval}


def write_ratings_csv(path: Path, rows: Iterable[RatingRow]) -> None:
    """Write ratings as one tidy CSV table, a row per dimension, model and method."""
    cells = [{name: row[name] for name in COLUMNS} for row in rows]
    for row in cells:
        row["settings"] = json.dumps(row["settings"], sort_keys=True, allow_nan=False)
    write_csv(path, cells, COLUMNS)


def _interval(settings: Mapping[str, Any]) -> str:
    """What made the interval of a method with these settings."""
    if "interval" in settings:  # Bradley–Terry's
        cluster = str(settings["cluster"])
        return f"{settings['interval']}, clustered by {_CLUSTERS.get(cluster, cluster)}"
    return "bootstrap, clustered by question"


SCHEMA_VERSION = "0.3.0"
Relationship = Literal["first_party", "third_party", "collaborative", "other"]
_NAMES = {
    "bradley-terry": "Bradley–Terry rating",
    "permutation-elo": "Elo rating, mean over random orders",
    "glicko2": "Glicko-2 rating",
    "conservative-score": "Glicko-2 rating less two rating deviations",
}
_INPUTS = ("prompt_set", "human_battles", "judged_battles", "battles")
_LEVEL = {"confidence_level": 0.95}
_UNKNOWN = {"deployment_type": "unknown", "model_availability": "unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where ratings come from; `token` stays the same when they are exported again."""

    collection: str
    token: str
    details: Mapping[str, str] = field(default_factory=dict)
    evaluated_at: str | None = None


def record_provenance(record: Path) -> Provenance:
    """Where the ratings of a run record come from, by its manifest."""
    manifest = open_record(record)
    tournament = manifest.get("tournament", {})
    arena = str(manifest.get("arena") or tournament.get("name") or record.name)
    pins = {name: (manifest.get(name) or {}).get("sha256") for name in _INPUTS}
    details = {f"{name}_sha256": pin for name, pin in pins.items() if pin}
    judge = (manifest.get("judge") or {}).get("model")
    return Provenance(
        collection=arena,
        token=f"{manifest.get('mode')}_{manifest.get('started_at')}",
        details=details | ({"judge_model": judge} if judge else {}),
        evaluated_at=manifest.get("finished_at"),
    )


def file_provenance(file: Path, battles: BattleLog) -> Provenance:
    """Where the ratings of a battles file come from: its name, its bytes, the judges it names."""
    digest, judges = file_hash(file), ", ".join(judges_of(battles))
    return Provenance(
        collection=file.name.partition(".")[0],
        token=digest[:12],
        details={"battles_sha256": digest} | ({"judge_model": judges} if judges else {}),
    )


def write_documents(
    folder: Path,
    rows: Sequence[RatingRow],
    provenance: Provenance,
    *,
    organization: str,
    relationship: Relationship,
    developers: Mapping[str, str],
    now: datetime,
) -> list[Path]:
    """Write a document per model and give the files, the best-rated model's first.

    `organization` publishes the ratings, `relationship` is its relation to the models, `developers`
    are those of models whose names have none ('' for all others); none stands in a record. A file's
    name depends on record and model only, so that exporting again replaces it.
    """
    for name in developers.values():
        if _portable(name) != name:
            raise DataError(f"developer {name!r}; allowed: letters, digits and . _ + -")
    source = {
        "source_name": provenance.collection,
        "source_type": "evaluation_run",
        "source_organization_name": organization,
        "evaluator_relationship": relationship,
    }
    files = []
    for model in dict.fromkeys(row["model"] for row in rows):
        document = _document(model, [row for row in rows if row["model"] == model], provenance)
        document |= {"source_metadata": source, "retrieved_timestamp": f"{now.timestamp():.0f}"}
        if developer := developer_of(model, developers):
            document["model_info"]["developer"] = developer
        place = (provenance.collection, developer or "unknown", model.split("/", 1)[-1])
        files.append(_place(folder, place, document["evaluation_id"]))
        write_json(files[-1], document)
    return files


def _document(model: str, rows: Iterable[RatingRow], provenance: Provenance) -> dict[str, Any]:
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{provenance.collection}/{model}/{provenance.token}",
        "eval_library": {"name": "arena-kit", "version": package_versions()["arena-kit"]},
        "model_info": {"name": model, "id": model, "additional_details": _UNKNOWN},
        "evaluation_results": [_result(row, provenance) for row in rows],
    }
    at = provenance.evaluated_at
    return document | ({"evaluation_timestamp": at} if at else {})


def developer_of(model: str, developers: Mapping[str, str]) -> str:
    """Who made a model: the first part of its name, or else as they are named; empty where nobody
    is.
    """
    developer, slash, _ = model.partition("/")
    return developer if slash else developers.get(model, developers.get("", ""))


def _result(row: RatingRow, provenance: Provenance) -> dict[str, Any]:
    name = ".".join(part for part in (provenance.collection, row["dimension"]) if part)
    variant = f"k={row['settings']['k']:g}" if "k" in row["settings"] else ""
    return {
        "evaluation_result_id": "::".join(filter(None, (name, row["method"], variant))),
        "evaluation_name": name,
        "source_data": {
            "dataset_name": provenance.collection,
            "source_type": "other",
            "additional_details": dict(provenance.details),
        },
        "metric_config": _metric(row),
        "score_details": _score(row),
    }


def _metric(row: RatingRow) -> dict[str, Any]:
    """The metric; a rating has no bounds, which the schema spells as texts."""
    plain = (str, int, float, bool)
    return {
        "metric_id": f"arena-kit.{row['method']}",
        "metric_name": _NAMES.get(row["method"], f"Bradley–Terry rating, {row['method']}"),
        "metric_kind": "elo",
        "metric_unit": "points",
        "metric_parameters": {
            name: value if isinstance(value, plain) else json.dumps(value)
            for name, value in row["settings"].items()
        },
        "lower_is_better": False,
        "score_type": "continuous",
        "min_score": "-Infinity",
        "max_score": "Infinity",
    }


def _score(row: RatingRow) -> dict[str, Any]:
    """The rating with what is known of its uncertainty."""
    battles = {} if row["n_battles"] is None else {"n_battles": str(row["n_battles"])}
    best, worst = row["best_rank"], row["worst_rank"]
    ranks = {} if best is None else {"possible_ranks": f"{best} to {worst}"}
    score: dict[str, Any] = {"score": row["rating"], "details": battles | ranks}
    if row["ci_low"] is None or row["ci_high"] is None:
        return score
    method = {"method": row["interval"]}
    uncertainty = {
        "confidence_interval": {"lower": row["ci_low"], "upper": row["ci_high"]} | _LEVEL | method,
        "standard_error": None if row["se"] is None else {"value": row["se"]} | method,
        "num_samples": row["n_battles"],
    }
    known = {name: value for name, value in uncertainty.items() if value is not None}
    return score | {"uncertainty": known}


def _place(folder: Path, parts: tuple[str, str, str], evaluation_id: str) -> Path:
    """The file of a document of a collection, developer and model; its UUID is made from its id."""
    digest = hashlib.sha256(evaluation_id.encode()).digest()
    return folder.joinpath(*map(_portable, parts)) / f"{UUID(bytes=digest[:16], version=4)}.json"


def _portable(name: str) -> str:
    """A name that every file system takes."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", name)[:200].strip(".") or "_"
