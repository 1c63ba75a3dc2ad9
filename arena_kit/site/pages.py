"""The pages of a site as texts, by the path of each file."""

from __future__ import annotations

import json
import secrets
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from arena_kit import __version__
from arena_kit.files import DataError, read_json, read_text
from arena_kit.judging.verdicts.rendering import escaped
from arena_kit.reporting.board import FILE as BOARD
from arena_kit.reporting.board import Board, BoardRow, Column, Dimension, columns
from arena_kit.reporting.html import on_a_site
from arena_kit.reporting.tables import DASH, percent
from arena_kit.site.overview import Overview
from arena_kit.site.reading import ReadBattle, Reading
from arena_kit.site.texts import plain, safe_html, slug

if TYPE_CHECKING:
    from jinja2 import Environment

_ASSETS = ("site.css", "site.js")
_CHUNK = 200_000  # characters of a file that is loaded on demand
_OUTCOMES = ("model_a", "model_b", "tie", "both_bad", "inconsistent", "incomplete")
_SVG_WIDTH, _SVG_MARGIN = 160, 6
#: Columns of a board of one stratum.
_OF_STRATA = ("rank", "model", "rating", "95% interval", "battles")
_POOLED = (
    "Ratings of a stratum shrink towards the overall rating (partial pooling); decided orders of "
    "the whole board hold for all prompts."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardView:
    """One dimension of a board, or a stratum of it, as a page shows it: sentences over its rows and
    notes under them.
    """

    name: str
    stratum: str = ""
    columns: Sequence[Column]
    rows: Sequence[BoardRow]
    sentences: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def scale(self) -> tuple[float, float] | None:
        """From the lowest to the highest end of an interval, or rating of one that lacks an end;
        None where there is no interval.
        """
        spans = [(row.ci_low, row.rating, row.ci_high) for row in self.rows]
        known = [each for low, at, high in spans for each in (low, at, high)
                 if each is not None and not low is high is None]  # fmt: skip
        return (min(known), max(known)) if known else None


def boards_of(record: Path) -> list[BoardView]:
    """The boards of a record, one per dimension, as far as the phase of a policy's rollout shows
    them.
    """
    if not (record / BOARD).is_file():
        raise DataError(f"{record}: has no board")
    board = Board.read(record)
    shown, views = columns(board), []
    for each in board.dimensions:
        why_not = [f"Not rated: {each.unrated}."] if each.unrated else []
        said, notes = [*each.said, *why_not], [*each.notes, *board.notes]
        bare = BoardView(name=each.name or board.title, columns=shown, rows=board.rows(each.name))
        whole = replace(bare, sentences=said, notes=notes)
        views += [whole, *_by_stratum(each, whole)] if board.diagnostics else [bare]
    return views


def _by_stratum(dimension: Dimension, whole: BoardView) -> Iterator[BoardView]:
    """The boards of all strata of a dimension."""
    shown = [column for column in whole.columns if column.label in _OF_STRATA]
    for axis in dimension.strata:
        for name, part in axis["boards"].items():
            known = [row for row in part["ratings"] if row["n_battles"]]
            first, *each = axis["sentences"]
            pairs = zip(each, axis["deviations"], strict=False)  # then a forecast for all strata
            said = [first, *(sentence for sentence, odd in pairs if odd["stratum"] == name)]
            rows = [BoardRow(rank=n, dimension=dimension.name, **r) for n, r in enumerate(known, 1)]
            notes = [f"{part['n_questions']} prompts. {_POOLED}"]
            yield replace(
                whole, stratum=name, columns=shown, rows=rows, sentences=said, notes=notes
            )


class Grid(NamedTuple):
    """A table of a model's page: names or numbers under headings, the first with a link."""

    title: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str | float | None]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """All that the site shows of one record; `no_board` and `no_reading` say what it cannot."""

    run: Overview
    facts: Mapping[str, str] = field(default_factory=dict)
    boards: Sequence[BoardView] = ()
    reading: Reading | None = None
    opponents: Mapping[str, Sequence[Grid]] = field(default_factory=dict)
    report: Path | None = None
    no_board: str = ""
    no_reading: str = ""

    @property
    def slug(self) -> str:
        return slug(self.run.id)

    @property
    def shown(self) -> bool:
        """Whether it has a page of its own."""
        return bool(self.boards or self.reading)

    @property
    def dimensions(self) -> list[str]:
        """The names of its boards."""
        return list(dict.fromkeys(board.name for board in self.boards))

    @property
    def strata(self) -> list[str]:
        """The strata that have boards, after '' for all prompts; empty where none has."""
        names = list(dict.fromkeys(board.stratum for board in self.boards))
        return names if len(names) > 1 else []

    @property
    def models(self) -> list[str]:
        """All models of its boards, the best of the first board first."""
        return list(dict.fromkeys(row.model for board in self.boards for row in board.rows))


def first_files(pages: Sequence[RunPage], nonce: str) -> dict[str, str]:
    """Texts of the first page and of what all pages need, by their paths. Scripts and styles that
    do not have the `nonce` are refused by each page's content security policy.
    """
    made = {f"assets/{name}": asset(name) for name in _ASSETS}
    return made | {"index.html": _rendered("index", root="", nonce=nonce, pages=pages)}


def reader_page(page: RunPage) -> str:
    """The reader of a run as one page with all its data in it, for a frame in a notebook."""
    from markupsafe import Markup

    style, script = (asset(name) for name in _ASSETS)
    data = dict(_data(page.reading)) if page.reading else {}
    inline = {
        "style": Markup(style),  # noqa: S704 (our own file)
        "script": Markup("\n".join([*data.values(), script])),  # noqa: S704 (holds no <)
    }
    nonce = secrets.token_urlsafe(16)
    return _rendered("battles", root="", nonce=nonce, page=page, inline=inline)


def run_files(page: RunPage, nonce: str) -> dict[str, str]:
    """Texts of all files of one run by their paths in its folder."""
    shared = {"nonce": nonce, "page": page}
    made: dict[str, str] = {}
    if page.report:
        back = "index.html" if page.shown else "../index.html"
        made["report.html"] = on_a_site(read_text(page.report), back)
    if page.shown:
        links = {model: f"models/{slug(model)}.html" for model in page.models}
        made["index.html"] = _rendered("run", root="../", links=links, **shared)
    for model in page.models:
        places = [(board, row) for board in page.boards for row in board.rows
                  if row.model == model and not board.stratum]  # fmt: skip
        own = {"places": places, "tables": page.opponents.get(model, ()), "model": model}
        made[f"models/{slug(model)}.html"] = _rendered("model", root="../../", **own, **shared)
    if page.reading:
        made["battles.html"] = _rendered("battles", root="../", **shared)
        made |= dict(_data(page.reading))
    return made


@cache
def asset(name: str, package: str = "arena_kit.site") -> str:
    """The text of a script or a style."""
    return files(package).joinpath("assets", name).read_text("utf-8")


def _rendered(name: str, **values: Any) -> str:
    return templates().get_template(f"{name}.html.j2").render(version=__version__, **values)


@cache
def templates(package: str = "arena_kit.site") -> Environment:
    """The templates of a package's pages; what a value holds is shown as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    found = Environment(
        loader=PackageLoader(package, "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else plain(value),
    )
    found.globals |= {"at": _position, "inline": None}
    found.filters["cell"] = _cell
    return found


def _position(value: float, scale: tuple[float, float]) -> str:
    """Where a rating stands in the picture of its interval."""
    low, high = scale
    share = (value - low) / (high - low) if high > low else 0.5
    return f"{_SVG_MARGIN + share * (_SVG_WIDTH - 2 * _SVG_MARGIN):.1f}"


def _cell(value: str | float | None) -> str:
    """What a table shows of a name, a count or a share."""
    if isinstance(value, float):
        return percent(value)
    return DASH if value is None else f"{value:,}" if isinstance(value, int) else value


# What one model did against each other one

_KINDS = {"tie": "tied", "both_bad": "tied", "inconsistent": "inconsistent",
          "incomplete": "unusable"}  # fmt: skip


def opponents_of(record: Path, reading: Reading | None) -> dict[str, list[Grid]]:
    """The tables of every model: from its battles or, in a policy's record, from its page there."""
    if (record / "model_detail.json").is_file():
        details = read_json(record / "model_detail.json")
        return {model: list(_voted(detail, details)) for model, detail in details.items()}
    counts: Any = defaultdict(lambda: defaultdict(Counter))
    for battle in reading.battles if reading else ():
        for model, other in ((battle.model_a, battle.model_b), (battle.model_b, battle.model_a)):
            kind = _KINDS.get(battle.outcome) or ("won" if battle.winner == model else "lost")
            counts[model, battle.dimension][other][kind] += 1
    tables: dict[str, list[Grid]] = {}
    for (model, dimension), met in counts.items():
        tables.setdefault(model, []).append(_head_to_head(model, dimension, met))
    return tables


def _head_to_head(model: str, dimension: str, met: Mapping[str, Counter[str]]) -> Grid:
    kinds = ["won", "lost", "tied", "inconsistent"]
    kinds += ["unusable"] if any(counted["unusable"] for counted in met.values()) else []
    rows: list[tuple[str, list[str | float | None]]] = []
    for other, counted in sorted(met.items()):
        where = {"entrant": model, "opponent": other, "dimension": dimension}
        address = urlencode({name: value for name, value in where.items() if value})
        rows.append((f"../battles.html#{address}", [other, *(counted[kind] for kind in kinds)]))
    title = f"Head to head, {dimension}" if dimension else "Head to head"
    return Grid(title, ["opponent", *kinds], rows)


def _voted(detail: Mapping[str, Any], models: Collection[str]) -> Iterator[Grid]:
    """The opponents and prompts of a model under a policy; opponents have pages."""
    for title, known in (("opponents", models), ("prompts", ())):
        rows = [
            (
                f"{slug(row['name'])}.html" if row["name"] in known else "",
                [row[name] for name in ("name", "votes", "decisive", "both_bad", "score")],
            )
            for row in detail[title]
        ]
        yield Grid(title.capitalize(), [title[:-1], "votes", "decisive", "both bad", "score"], rows)


# The reader's data: columns in one file, each text once in files that are loaded on demand


def _data(reading: Reading) -> Iterator[tuple[str, str]]:
    battles = reading.battles
    models = _numbered(name for b in battles for name in (b.model_a, b.model_b))
    dimensions = _numbered(b.dimension for b in battles)
    prompts = _numbered(b.prompt for b in battles)
    asked = _numbered(prompt for prompt in prompts if prompt in reading.prompts)
    texts = [safe_html(reading.prompts[prompt]) for prompt in asked]
    said = {cell: len(texts) + n for n, cell in enumerate(reading.responses)}
    texts += [safe_html(text) for text in reading.responses.values()]
    shown = {at: n for n, at in enumerate(reading.references)}
    judged = [*(reading.prompts[prompt] for prompt in asked), *reading.responses.values()]
    raw = [plain(escaped(text)) for text in [*judged, *reading.references.values()]]
    verdicts = [[_verdict(row) for row in battle.verdicts] for battle in battles]
    series = (("texts", texts), ("raw", raw if reading.sent else []), ("verdicts", verdicts))
    parts = {name: _chunks(items) for name, items in series}
    named = {"models": models, "dimensions": dimensions, "prompts": prompts}
    values = {name: [*map(plain, each)] for name, each in named.items()} | {
        "outcomes": _OUTCOMES,
        "id": [plain(battle.id) for battle in battles],
        "a": [models[battle.model_a] for battle in battles],
        "b": [models[battle.model_b] for battle in battles],
        "dimension": [dimensions[battle.dimension] for battle in battles],
        "prompt": [prompts[battle.prompt] for battle in battles],
        "outcome": [_OUTCOMES.index(battle.outcome) for battle in battles],
        "disputed": [int(battle.disputed) for battle in battles],
        "people": [_people(battle, reading.note) for battle in battles],
        "prompt_text": [asked.get(name, -1) for name in prompts],
        "text_a": [said.get((battle.model_a, battle.prompt), -1) for battle in battles],
        "text_b": [said.get((battle.model_b, battle.prompt), -1) for battle in battles],
        "sent": [reading.sent.get(name) for name in dimensions],
        "reference": [
            len(judged) + shown[at] if (at := (b.dimension, b.prompt)) in shown else -1
            for b in battles
        ],
        "starts": {name: [start for start, _ in chunks] for name, chunks in parts.items()},
    }
    yield "data/battles.js", f"window.arenaKitBattles = {literal(values)};\n"
    for name, chunks in parts.items():
        for n, (_, items) in enumerate(chunks):
            yield f"data/{name}-{n}.js", f'arenaKitChunk("{name}-{n}", {literal(items)});\n'


def _numbered(names: Iterator[str]) -> dict[str, int]:
    """Different names in order, each with its number."""
    return {name: n for n, name in enumerate(sorted(set(names)))}


def _people(battle: ReadBattle, note: str) -> str:
    """What people voted, in words."""
    words = {"tie": "tie", "both_bad": "both bad"}
    votes = [f"{words.get(name, name)} {n}" for name, n in sorted(battle.people.items())]
    aside = f" ({note})" if note else ""
    return plain(f"People's votes{aside}: {', '.join(votes)}.") if votes else ""


def _verdict(row: Mapping[str, Any]) -> dict[str, str]:
    served = row["served_model"] or row["judge_model"]
    named = ", ".join(filter(None, [row["winning_entrant"] or row["winner"], row["margin"]]))
    shown = {
        "first": row["first"], "named": named, "status": row["status"], "detail": row["detail"],
        "judge": served, "justification": row["justification"], "raw": row["raw_text"],
    }  # fmt: skip
    return {name: plain(value or "") for name, value in shown.items()}


def _chunks(items: Sequence[Any]) -> list[tuple[int, list[Any]]]:
    """The items in files of bearable size: where each begins, and what it holds."""
    parts: list[tuple[int, list[Any]]] = []
    size = _CHUNK
    for n, item in enumerate(items):
        length = len(item) if isinstance(item, str) else len(json.dumps(item))
        if size + length > _CHUNK:
            parts.append((n, []))
            size = 0
        parts[-1][1].append(item)
        size += length
    return parts


def literal(values: object) -> str:
    """JSON that is a literal of JavaScript in every encoding, and ends no script element."""
    return json.dumps(values, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
