"""The board: ratings of every dimension and what may be said about them, in one documented form.

`rate` makes a `Board` from battles. `board.json` holds one in every run record, and
`arena-kit rate --json` prints one; docs/rating.md describes it. Reports, the
terminal, the site, `open_run`, comparisons and exports read boards and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError, file_in, read_json, write_json
from arena_kit.rating import base
from arena_kit.rating.base import Battles, Rating, Ratings, each_rated
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.claims import claims
from arena_kit.rating.claims.claims import MOST
from arena_kit.rating.claims.power import Fragility, fragility
from arena_kit.rating.resampling import WinDifference, win_differences
from arena_kit.reporting.tables import DASH, Table, number, ranks_text, span

if TYPE_CHECKING:
    import pandas as pd

    from arena_kit.reporting.figures import Plot, Verdict

#: The file of a record that holds its board.
FILE = "board.json"
#: The version of the schema; a reader refuses a later one.
VERSION = 1
#: What claims are about, in words.
ABOUT = {
    "similar_prompts": "Results generalise to similar prompts.",
    "these_prompts": "Results hold for these prompts; other prompts may give another order.",
}
#: Why the two ratings of a board differ.
SCALES = "Elo has not converged, so its scale is compressed; order and claims use Bradley–Terry."
#: What the columns of a table of neighbours count.
REVERSAL = "Removed, added: the fewest battles whose removal or addition reverses the order."
POWER = (
    f"Further: so many decide the order with a chance of 50%; not within reach: over {MOST:.0f} "
    "times as many as there are."
)
#: What methods are called where names must be Python's.
_NAMES = {"bradley-terry": "bradley_terry", "permutation-elo": "elo", "glicko2": "glicko2"}

Method = Callable[[BattleLog], Ratings]
State = Literal["decided", "equivalent", "unresolved", "reversed"]


class _Part(BaseModel):
    """A part of a board. Unknown fields are kept out, as files outlive schemas."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class MethodRating(_Part):
    """What another method says of a model, beside the rating that orders the board.

    `rating` with `ci_low`, `ci_high` and `se` (95 % interval and standard error of the evidence);
    `order_sem`: the Monte-Carlo error of Elo's shuffled orders; `rd`: Glicko-2's rating deviation;
    `no_interval`: why there is no interval.
    """

    rating: float
    ci_low: float | None = None
    ci_high: float | None = None
    se: float | None = None
    order_sem: float | None = None
    rd: float | None = None
    no_interval: str = ""

    @classmethod
    def of(cls, row: Rating) -> MethodRating:
        """The same of a method's own row."""
        values = row.as_dict()
        return cls(**values | {"se": values.get("se", values.get("evidence_se"))})


class Validity(_Part):
    """What the validity policy says of a model: its rank among those that official claims may name
    (None for a provisional one), confidence in percent, prompt coverage from 0 to 1, stability
    badge, and its battles won, lost and tied.
    """

    official_rank: int | None
    confidence: int
    prompt_coverage: float
    badge: str
    provisional: bool
    wins: int
    losses: int
    ties: int


class BoardRow(_Part):
    """One model in one dimension.

    `dimension`: empty where battles name none. `rank`: the place on the board. `rating`, `ci_low`,
    `ci_high`: by the board's method, with a 95 % interval; an end that the battles do not bound is
    None, and so are both where they say too little: `no_interval` says why.
    `n_battles`: battles that count. `ranks`: best and worst rank that decided orders leave open,
    for all models at once. `tier`: each tier is decidedly above the next. `beside`: what other
    methods say, by name (`elo`, `bradley_terry`, `glicko2`, `joint`, `anchored`, `people`,
    `judge`). `marked`: the model that the run is about. `validity`: under a validity policy.

    What only some methods report: `se` and `df` (standard error and its degrees of freedom),
    `evidence_se` and `order_sem` (Elo's, from resampled questions and from shuffled orders), `rd`
    and `volatility` (Glicko-2), `uncontrolled` (the rating without covariates), `votes` and
    `verdicts` (people and judge together), `win_difference` (share of battles won less share lost,
    with its 95 % interval; Bradley–Terry).
    """

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    dimension: str = ""
    rank: int
    model: str
    rating: float
    ci_low: float | None
    ci_high: float | None
    n_battles: int
    no_interval: str = ""
    ranks: tuple[int, int] | None = None
    tier: int | None = None
    beside: dict[str, MethodRating] = Field(default_factory=dict)
    marked: bool = False
    validity: Validity | None = None
    se: float | None = None
    df: float | None = None
    evidence_se: float | None = None
    order_sem: float | None = None
    rd: float | None = None
    volatility: float | None = None
    uncontrolled: float | None = None
    votes: int | None = None
    verdicts: int | None = None
    win_difference: WinDifference | None = None


class Order(_Part):
    """Two neighbours of a dimension: `gap` points apart, their order `decided`, `equivalent` within
    the margin, `open`, or `reversed` (decided against the board's own order).

    `probability`: that `above` is above `below`, for a pair named beforehand. `more`: further
    battles of the present mix that decide an open order with 50 % power; None where more than
    forty times the present ones. `prompts`: on how many further questions, where these are
    clusters. `removed`, `added`: the fewest battles whose removal or addition reverses the order;
    None where none is known to.
    """

    above: str
    below: str
    state: State
    gap: float | None
    probability: float | None = None
    more: int | None = None
    prompts: int | None = None
    removed: int | None = None
    added: int | None = None

    @property
    def name(self) -> str:
        return f"{self.above} over {self.below}"

    @property
    def needed(self) -> str | None:
        """How many further prompts or battles an open order needs, to two digits."""
        if self.state != "unresolved":
            return None
        more = self.more if self.prompts is None else self.prompts
        return "not within reach" if more is None else f"{claims.two_digits(more):,}"


class FirstPlace(_Part):
    """How fragile the first place is: the fewest battles `removed` or `added` that would put
    `below` above `above`; `between` the two there are so many, in all `of`.
    """

    above: str
    below: str
    removed: int | None
    added: int | None
    between: int
    of: int
    sentence: str


class Dimension(_Part):
    """What holds of one dimension beside its rows.

    `unrated`: why it has no rating, or which models have none. `fit`: what was fitted beside the
    ratings. `about`: whether claims are about `similar_prompts` or `these_prompts`. `looks`:
    how often the board is read while battles come in; `level`: that of the span rule. `first`:
    who may be first. `tiers`: groups of models, each decidedly above all later ones. `decided`:
    for each model, whom it is decidedly above. `orders`: all neighbours, best first. `unplaced`:
    models with too little evidence for any claim. `margin`: points within which neighbours count
    as equivalent. `fragility`: of the first place. `above`: the probability that one model is
    above another, for a pair named beforehand. `sentences`: what may be said about the order.
    `notes`: without these, intervals or scales would mislead. `hybrid`: where people and judge
    are rated together, what each of them is worth. `strata`: boards per stratum, of each axis.
    """

    name: str
    n_battles: int = 0
    dropped: dict[str, int] = Field(default_factory=dict)
    unrated: str = ""
    fit: dict[str, float] = Field(default_factory=dict)
    about: str = ""
    looks: int = 1
    level: float | None = None
    first: list[str] = Field(default_factory=list)
    tiers: list[list[str]] = Field(default_factory=list)
    decided: dict[str, list[str]] = Field(default_factory=dict)
    orders: list[Order] = Field(default_factory=list)
    unplaced: list[str] = Field(default_factory=list)
    margin: float = 0.0
    fragility: FirstPlace | None = None
    above: dict[str, dict[str, float | None]] = Field(default_factory=dict)
    sentences: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    hybrid: dict[str, Any] | None = None
    strata: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def scope(self) -> list[str]:
        """What its claims are about, and at which level they hold."""
        times = f"{self.looks} looks" if self.looks > 1 else "one look"
        held = (
            f"Orders are decided at {self.level or 0:.1%} for all pairs and {times}; models whose "
            "intervals do not overlap may still be undecided."
        )
        return [*([ABOUT[self.about]] if self.about else []), *([held] if self.level else [])]

    @property
    def said(self) -> list[str]:
        """What may be said about the order, and how few battles the first place rests on."""
        return [*self.sentences, *([self.fragility.sentence] if self.fragility else [])]

    def is_decided(self, above: str, below: str) -> bool:
        return below in self.decided.get(above, ())


class JudgeGate(_Part):
    """Whether the judge's verdicts may be built upon: its level, that in brief and in a sentence,
    the findings behind it, worst first, and rules that nothing was measured for.
    """

    judge: str
    level: str
    brief: str = ""
    sentence: str
    unmeasured: list[str] = Field(default_factory=list)
    findings: list[dict[str, Any]] = Field(default_factory=list)


class Publication(_Part):
    """What a board under the validity policy may be called, and in which phase of its rollout.

    `diagnostics`: whether readers see confidence, coverage, badges and status. `epoch`: the method
    of the order. `status` with `reasons`; `published` where that is not only computed.
    """

    phase: int
    diagnostics: bool
    epoch: str
    status: str
    reasons: list[str]
    published: bool


class BesideMethod(_Part):
    """A method whose figures stand beside the board's own, with its settings."""

    method: str
    settings: dict[str, Any] = Field(default_factory=dict)


class Board(_Part):
    """Ratings of one or several dimensions, best first in each, and what may be said about them.

    `ratings` has the rows of all dimensions, one after the other; `dimensions` has what holds of
    each, in the same order. `n_battles` and `dropped` are sums over them. `beside` describes the
    methods of the rows' `beside`. `gate` is the judge's, where there is one; `publication` is what
    a validity policy says; `panel` how several judges voted; `protocol` what was fixed beforehand,
    deviations from it and how the primary claims ended; `notes` hold of the whole board.
    `fits` are the results that the board was made of, by method (`bradley_terry`, `elo`) and
    dimension, with traces and covariances: not in files, so a board that was read has none.
    """

    version: int = VERSION
    title: str = ""
    method: str
    settings: dict[str, Any]
    ratings: list[BoardRow]
    n_battles: int
    dropped: dict[str, int]
    dimensions: list[Dimension]
    beside: dict[str, BesideMethod] = Field(default_factory=dict)
    gate: JudgeGate | None = None
    publication: Publication | None = None
    panel: dict[str, Any] | None = None
    protocol: dict[str, Any] | None = None
    notes: list[str] = Field(default_factory=list)
    fits: dict[str, dict[str, InstanceOf[Ratings]]] = Field(
        default_factory=dict, exclude=True, repr=False
    )

    @classmethod
    def read(cls, path: str | Path) -> Board:
        """The board of a file, or of a run record."""
        file = file_in(Path(path), FILE) if Path(path).is_dir() else Path(path)
        values = read_json(file)
        version = values.get("version") if isinstance(values, dict) else None
        if version != VERSION:
            raise DataError(f"{file}: expected a board of version {VERSION}, not {version!r}")
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise DataError(f"{file}: not a board ({where}: {first['msg']})") from None

    def write(self, path: str | Path) -> None:
        """Write the board to a file, or as board.json into a run record."""
        file = Path(path) / FILE if Path(path).is_dir() else Path(path)
        write_json(file, self.as_dict())

    def as_dict(self, *, pairs: bool = True) -> dict[str, Any]:
        """Plain values, for JSON: what was not set is left out, and so, unless `pairs` are wanted,
        are the probabilities of all pairs.
        """
        hidden: Any = {} if pairs else {"dimensions": {"__all__": {"above"}}}
        return self.model_dump(mode="json", exclude_unset=True, exclude=hidden)

    def __getitem__(self, dimension: str) -> Dimension:
        if dimension not in self.names:
            raise KeyError(f"no dimension {dimension!r}; there: {', '.join(self.names)}")
        return self.dimensions[self.names.index(dimension)]

    @property
    def names(self) -> list[str]:
        """The dimensions."""
        return [each.name for each in self.dimensions]

    @property
    def rated(self) -> list[str]:
        """The dimensions that have ratings."""
        return list(dict.fromkeys(row.dimension for row in self.ratings))

    @property
    def unrated(self) -> dict[str, str]:
        """Per dimension, what has no rating and why: the dimension, or some models."""
        return {each.name: each.unrated for each in self.dimensions if each.unrated}

    @property
    def diagnostics(self) -> bool:
        """Whether readers see more than the order: the phase of a validity policy may hide it."""
        return self.publication is None or self.publication.diagnostics

    def settings_of(self, method: str) -> dict[str, Any]:
        """The settings of a method by its full name, on the board or beside; empty for another."""
        beside = {each.method: each.settings for each in self.beside.values()}
        return dict({**beside, self.method: self.settings}.get(method, {}))

    def rows(self, dimension: str) -> list[BoardRow]:
        """The models of one dimension, best first."""
        return [row for row in self.ratings if row.dimension == dimension]

    def to_frame(self, method: str = "") -> pd.DataFrame:
        """A row per dimension and model. By default all of the board, figures of other methods in
        columns that begin with their names; else the figures of one method.
        """
        import pandas as pd

        if method and method != _NAMES.get(self.method):
            given: list[dict[str, Any]] = [
                {"dimension": row.dimension, "model": row.model}
                | row.beside[method].model_dump(exclude_unset=True)
                for row in self.ratings
                if method in row.beside
            ]
            given.sort(key=lambda row: (self.names.index(row["dimension"]), -row["rating"]))
            return pd.DataFrame(given)
        rows = [row.model_dump(exclude_unset=True) for row in self.ratings]
        frame = pd.json_normalize(rows, sep="_")
        return frame.rename(columns=lambda name: re.sub("^(beside|validity)_", "", name))

    def table(self, dimension: str | None = None, *, narrow: bool = False) -> Table:
        """The board as a table, of all dimensions or of one; notes stand under it. A `narrow` one
        leaves out what a terminal has no room for.
        """
        shown = [each for each in self.dimensions if dimension in (None, each.name)]
        shown_columns = [each for each in columns(self) if not (narrow and each.wide)]
        several = dimension is None and len(self.dimensions) > 1
        body = [
            ({"dimension": row.dimension} if several else {})
            | {column.label: column.text(row) for column in shown_columns}
            for each in shown
            for row in self.rows(each.name)
        ]
        missing = [f"Not rated{_on(each)}: {each.unrated}." for each in shown if each.unrated]
        notes = [
            f"{each.name}: {note}" if several else note for each in shown for note in each.notes
        ]
        marked = [n for n, row in enumerate(self.ratings) if row.marked]
        return Table(
            rows=body, name="board", group="dimension" if several else "",
            nowrap=["model", "95% interval", "Elo ± SEM", "Elo interval"], bold=["rating"],
            marked=marked[0] if marked and dimension is None else None,
            notes=[*missing, *self.notes, *notes],
            empty=" ".join(["No dimension has a rating.", *missing]),
        )  # fmt: skip

    def orders(self, *, only_open: bool = False, most: int = 0) -> Table:
        """Every two neighbours: whether their order is decided, how few battles would turn it
        round, and how many more would decide it.
        """
        every = [
            (each.name, order)
            for each in self.dimensions
            for order in each.orders
            if not only_open or order.state == "unresolved"
        ]
        more = f"further {'prompts' if any(o.prompts for _, o in every) else 'battles'}"
        several = len(self.dimensions) > 1
        return Table(
            rows=[
                ({"dimension": name} if several else {})
                | {"order": order.name, "gap": number(order.gap, ".0f")}
                | ({} if only_open else {"is": order.state})
                | {
                    "battles removed": number(order.removed, ","),
                    "or added": number(order.added, ","),
                    more: order.needed,
                }
                for name, order in every[: most or None]
            ],
            name="neighbours",
            group="dimension" if several else "",
            notes=[REVERSAL, POWER],
            empty="No adjacent pair has ratings with intervals.",
        )

    def plot(self, gate: Verdict | None = None) -> Plot:
        """The ratings with their 95 % intervals, a panel per dimension, tiers shaded; under them
        what the judge's `gate` says, by default that of the board.
        """
        from arena_kit.reporting.figures import forest

        marked = next((row.model for row in self.ratings if row.marked), "")
        rows = {name: self.rows(name) for name in self.rated}
        return forest(rows, self.settings.get("center"), marked, gate or self.gate)

    def plot_pairs(self) -> Plot:
        """The probability that one model is above another, a panel per dimension."""
        import numpy as np

        from arena_kit.reporting.figures import above

        panels = {}
        for name in self.rated:
            order, known = [row.model for row in self.rows(name)], self[name]
            shares = [[known.above.get(a, {}).get(b) for b in order] for a in order]
            clear = [[known.is_decided(a, b) for b in order] for a in order]
            panels[name] = order, np.array(shares, float), np.array(clear)
        return above(panels)

    def text(self) -> str:
        """The board and its claims, as lines that are the same on every machine."""
        parts = []
        for each in self.dimensions:
            name = each.name or self.title or label(self)
            parts.append(f"{name} ({each.n_battles:,} battles)")
            if self.rows(each.name):
                parts.append(replace(self.table(each.name), notes=()).text)
            parts += [f"not rated: {each.unrated}"] if each.unrated else []
            parts += [*each.said, *each.notes]
        return "\n".join([*parts, *self.notes])

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": self.text()}

    def _repr_html_(self) -> str:
        return self.table().html

    def __str__(self) -> str:
        return self.text()


def _on(dimension: Dimension) -> str:
    return f" on {dimension.name}" if dimension.name else ""


# Columns that tables, terminal and site show


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a board: the field that it is sorted by (None comes last), how the row is shown,
    as a format, and what it means. `wide` ones are left out where there is little room.
    """

    label: str
    field: str
    show: str | Callable[[BoardRow], str] = ""
    help: str = ""
    is_text: bool = False
    wide: bool = False

    @property
    def key(self) -> str:
        """The label as a name of a style."""
        return re.sub(r"[^a-z]+", "-", self.label.lower()).strip("-")

    def value(self, row: BoardRow) -> Any:
        """What a row is sorted by: a field of it, or of what it holds; of a range its lower end."""
        value: Any = row
        for name in self.field.split("."):
            value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
        return value[0] if isinstance(value, tuple) else value

    def text(self, row: BoardRow) -> str:
        """What a cell shows."""
        if callable(self.show):
            return self.show(row)
        value = self.value(row)
        if value is None:
            return DASH
        return self.show.format(row) if "{" in self.show else f"{value:{self.show}}"


_LABELS = {
    "bradley-terry": "Bradley–Terry",
    "permutation-elo": "Elo",
    "legacy-elo": "Elo",
    "glicko2": "Glicko-2",
    "hybrid": "votes and judge together",
    "conservative-score": "rating − 2 RD",
}
_DIAGNOSTICS = ("raw rating ± RD", "confidence", "coverage", "badge", "tier")


def label(board: Board) -> str:
    """The method of a board in words."""
    return _LABELS.get(board.method, board.method)


def columns(board: Board) -> list[Column]:
    """The columns that say something of a board; diagnostics of a validity policy only where its
    phase shows them.
    """
    hidden = () if board.diagnostics else _DIAGNOSTICS
    every = [each for each in _columns(board) if each.label not in hidden]
    return [c for c in every if any(c.value(row) is not None for row in board.ratings)]


def _columns(board: Board) -> list[Column]:
    policy, crowded = board.publication is not None, "elo" in board.beside
    by = f"By {label(board)}, which orders the board"
    by_orders = any(r.beside["elo"].order_sem for r in board.ratings if "elo" in r.beside)
    return [
        Column("rank", "validity.official_rank" if policy else "rank"),
        Column("model", "model", lambda r: f"{r.model} ◀" if r.marked else r.model, is_text=True),
        Column("rating", "rating", ".0f", by),
        Column("95% interval", "ci_low", lambda row: span(row.ci_low, row.ci_high),
               "Covers the true rating in 95% of samples"),
        Column("rank range", "ranks", lambda row: ranks_text(row.ranks),
               "For all models at once"),
        Column("tier", "tier", "", "Decided above all later tiers", wide=True),
        Column("win difference", "win_difference", _net_text,
               "Share of battles won less share lost, 95 % interval", wide=True),
        *(_ELO if by_orders else ()),
        Column("raw rating ± RD", "beside.glicko2.rating",
               "{0.beside[glicko2].rating:.0f} ± {0.beside[glicko2].rd:.1f}", "Glicko-2",
               wide=True),
        Column("without them", "beside.without_voters.rating", ".0f",
               "Without the flagged voters"),
        Column("people alone", "beside.people.rating", ".0f"),
        Column("judge alone", "beside.judge.rating", ".0f", "On the scale of human votes"),
        Column("votes", "votes", ",", "Human votes", wide=True),
        Column("verdicts", "verdicts", ",", "By the judge", wide=True),
        Column("RD", "rd", ".1f", "Rating deviation"),
        Column("without control", "uncontrolled", ".0f", "Without covariates"),
        Column("confidence", "validity.confidence", "{0.validity.confidence}%"),
        Column("coverage", "validity.prompt_coverage", ".0%", "Of prompts"),
        Column("badge", "validity.badge", is_text=True),
        Column("won, lost, tied", "validity.wins",
               "{0.validity.wins}–{0.validity.losses}–{0.validity.ties}", wide=True),
        Column("battles", "n_battles", ",", "That count", wide=crowded and not policy),
    ]  # fmt: skip


def _net_text(row: BoardRow) -> str:
    value, low, high = row.win_difference or (None, None, None)
    if value is None:
        return DASH
    ends = "" if low is None or high is None else f" ({low:+.0%} to {high:+.0%})"
    return f"{value:+.0%}{ends}"


#: Of Elo that was averaged over shuffled orders.
_ELO = (
    Column("Elo ± SEM", "beside.elo.rating",
           "{0.beside[elo].rating:.0f} ± {0.beside[elo].order_sem:.1f}",
           "Mean over shuffled orders ± its Monte-Carlo error"),
    Column("Elo interval", "beside.elo.ci_low",
           "{0.beside[elo].ci_low:.0f} to {0.beside[elo].ci_high:.0f}",
           "95% interval of Elo"),
)  # fmt: skip


# From battles to a board


def rate(
    battles: Battles,
    method: Method | None = None,
    *,
    elo: Method | None = None,
    dimensions: Sequence[str] | None = None,
    models: Iterable[str] = (),
    margin: float = 0.0,
    strata: Mapping[str, Mapping[str, str]] | None = None,
) -> Board:
    """The board of battles, a log or a pandas frame of them, dimension by dimension: a pure
    function of them.

    Parameters
    ----------
    method
        What orders the board, by default `BradleyTerry()`, which alone says which orders are
        decided; `PermutationElo` and `Glicko2` give ratings and rank ranges.
    elo
        `PermutationElo`, to have its mean ± SEM beside.
    dimensions
        Those of the board, in order; one without a rating says why. By default those of the
        battles, of which at least one must have a rating, else `RatingError` names the cause.
    models
        Those that should be rated; who has no battle is named.
    margin
        Points within which neighbours count as equivalent.
    strata
        On each axis, the stratum of each question: those have boards of their own.
    """
    method, battles = method or BradleyTerry(), base.as_log(battles)
    battles = battles.with_strata(strata) if strata else battles
    logs = battles.by_dimension() if len(battles) else {"": battles}
    nothing = battles.select([])
    names = list(logs) if dimensions is None else list(dimensions)
    results, unrated = each_rated(
        names, lambda name: method(logs.get(name, nothing)), none_allowed=dimensions is not None
    )
    for name in results:
        if absent := sorted({*models} - {*logs[name].models}):
            unrated[name] = f"{', '.join(absent)} (no battle)"
    by_elo = {n: r for n in results if elo and (r := base.rated_or_none(elo, logs[n]))}
    more: Any = {"dimensions": names, "unrated": unrated, "margin": margin}
    return board_of(results, logs, beside={"elo": by_elo}, **more)


def board_of(
    results: Mapping[str, Ratings],
    logs: Mapping[str, BattleLog] | None = None,
    *,
    beside: Mapping[str, Mapping[str, Ratings]] | None = None,
    dimensions: Sequence[str] | None = None,
    unrated: Mapping[str, str] | None = None,
    margin: float = 0.0,
) -> Board:
    """The board of ratings that were made already, with `logs` to say how fragile it is and the
    figures of methods `beside` (such as `elo`), each by dimension.
    """
    unrated, logs = unrated or {}, logs or {}
    names = list(dimensions if dimensions is not None else dict.fromkeys([*results, *unrated]))
    others = {name: each for name, each in (beside or {}).items() if each}
    some = next(iter(results.values()), None)
    return Board(
        version=VERSION,
        method=some.method if some else "bradley-terry",
        settings=some.settings if some else {},
        ratings=[
            row
            for name in names
            if name in results
            for row in _rows(name, results[name], _of(others, name), logs.get(name))
        ],
        n_battles=sum(each.n_battles for each in results.values()),
        dropped={
            kind: sum(each.dropped[kind] for each in results.values())
            for kind in (some.dropped if some else ())
        },
        dimensions=[
            Dimension(
                name=name,
                **({"unrated": unrated[name]} if name in unrated else {}),
                **_values(results.get(name), logs.get(name), margin),
                notes=_notes(results.get(name), _of(others, name)),
            )
            for name in names
        ],
        beside={name: _described(each) for name, each in others.items()},
        notes=[SCALES] if "elo" in others else [],
        fits={_NAMES.get(some.method, some.method): results, **others} if some else {},
    )


def _strata(method: BradleyTerry, battles: BattleLog) -> dict[str, Any]:
    """Boards per stratum of each axis that has two strata or more."""
    if not battles.strata:
        return {}
    from arena_kit.rating.strata import by_stratum

    found, _ = each_rated(
        battles.strata, lambda axis: by_stratum(battles, axis, method).as_dict(), none_allowed=True
    )
    return {"strata": list(found.values())} if found else {}


def _of(beside: Mapping[str, Mapping[str, Ratings]], dimension: str) -> dict[str, Ratings]:
    """What methods beside say of one dimension."""
    return {name: each[dimension] for name, each in beside.items() if dimension in each}


def _described(rated: Mapping[str, Ratings]) -> BesideMethod:
    some = next(iter(rated.values()))
    return BesideMethod(method=some.method, settings=some.settings)


def _rows(
    dimension: str, rated: Ratings, beside: Mapping[str, Ratings], battles: BattleLog | None
) -> list[BoardRow]:
    claimed, net = rated.method == "bradley-terry", {}
    if claimed and battles is not None:
        net = win_differences(BradleyTerry(**rated.settings).kept(battles)[0])
    ranges, groups = claims.rank_ranges(rated), claims.tiers(rated) if claimed else ()
    tier = {model: n for n, group in enumerate(groups, 1) for model in group}

    def figures(model: str) -> dict[str, MethodRating]:
        return {n: MethodRating.of(e[model]) for n, e in beside.items() if model in e.models}

    return [
        BoardRow(
            dimension=dimension,
            rank=rank,
            **row.as_dict(),
            ranks=ranges[row.model],
            **({"tier": tier.get(row.model)} if tier else {}),
            **({"beside": found} if (found := figures(row.model)) else {}),
            **({"win_difference": net[row.model]} if row.model in net else {}),
        )
        for rank, row in enumerate(rated.ratings, 1)
    ]


def _values(rated: Ratings | None, battles: BattleLog | None, margin: float) -> dict[str, Any]:
    """What holds of a dimension beside its rows; claims by Bradley–Terry alone."""
    if rated is None:
        return {}
    counted = {"n_battles": rated.n_battles, "dropped": rated.dropped, "fit": rated.fit}
    if rated.method != "bradley-terry":
        return counted
    if battles is None:
        return counted | claims_of(rated, None, margin)
    method = BradleyTerry(**rated.settings)
    # none with a model of ties, covariates or soft outcomes
    fragile = base.rated_or_none(lambda log: fragility(log, method), battles)
    return counted | claims_of(rated, fragile, margin) | _strata(method, battles)


def claims_of(rated: Ratings, fragile: Fragility | None, margin: float = 0.0) -> dict[str, Any]:
    """Everything that may be said about the order of Bradley–Terry's ratings: fields of a
    `Dimension`.
    """
    summary = claims.summary(rated, margin)
    clear, above = claims.decided(rated), claims.above(rated)
    place = {model: n for n, model in enumerate(rated.models)}
    first = fragile and FirstPlace(**asdict(fragile.first), sentence=fragile.first.sentence)
    return {name: summary[name] for name in _SUMMARY} | {
        "orders": orders_of(rated, fragile, margin),
        "fragility": first,
        "decided": {
            model: [other for other in rated.order if clear[place[model], place[other]]]
            for model in rated.order
        },
        "above": {
            model: {other: base.known(above[i, j]) for other, j in place.items() if i != j}
            for model, i in place.items()
        },
    }


_SUMMARY = ("about", "looks", "level", "first", "tiers", "unplaced", "margin", "sentences")


def orders_of(rated: Ratings, fragile: Fragility | None = None, margin: float = 0.0) -> list[Order]:
    """All neighbours of a ranking by Bradley–Terry, best first."""
    turned = {(each.above, each.below): each for each in (fragile.neighbours if fragile else ())}
    above, place = claims.above(rated), rated.models.index
    return [
        Order(
            above=pair.above,
            below=pair.below,
            state=pair.state,
            gap=rated[pair.above].rating - rated[pair.below].rating,
            probability=base.known(above[place(pair.above), place(pair.below)]),
            more=pair.more,
            removed=(votes := turned.get((pair.above, pair.below))) and votes.removed,
            added=votes and votes.added,
            **({"prompts": pair.prompts} if rated.n_questions else {}),
        )
        for pair in claims.neighbours(rated, margin)
    ]


def _notes(rated: Ratings | None, beside: Mapping[str, Ratings]) -> list[str]:
    """Why models have no interval, and which intervals cover less than 95 %."""
    own = [*without_interval(rated), *rated.notes, *_apart_yet_open(rated)] if rated else []
    elo = beside.get("elo")
    return own + ([*without_interval(elo, "Elo interval"), *elo.notes] if elo else [])


def _apart_yet_open(rated: Ratings) -> list[str]:
    """Why adjacent models whose intervals do not overlap are unresolved, in a sentence."""
    if rated.method != "bradley-terry":
        return []
    named = [
        f"{pair.above} and {pair.below}"
        for pair in claims.neighbours(rated)
        if pair.state == "unresolved"
        and (rated[pair.above].ci_low or -inf) > (rated[pair.below].ci_high or inf)
    ]
    n = claims.looks(rated)
    often = f" and for {n} looks at the board" if n > 1 else ""
    why = f"a decided order must hold for all pairs at once{often}, an interval for one model"
    return [f"Not separable although their intervals do not overlap: {', '.join(named)}; {why}."][
        : len(named)
    ]


def without_interval(rated: Ratings, what: str = "interval") -> list[str]:
    """Why models have no interval, in a sentence for each reason."""
    named: dict[str, list[str]] = {}
    for row in rated.ratings:
        if row.no_interval:
            named.setdefault(row.no_interval, []).append(row.model)
    unbounded = {row.model for row in rated.ratings if row.placed}
    return [
        f"{', '.join(models)} {why}."
        if unbounded.issuperset(models)
        else f"No {what} of {', '.join(models)}: {why}."
        for why, models in named.items()
    ]
