"""The answer first: what a run found, how sure that is and what not to conclude, in one box."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arena_kit.judging.quality.gate import Gate
from arena_kit.reporting.board import Board, Dimension, Order
from arena_kit.reporting.html import LEVEL_COLOURS, rendered
from arena_kit.reporting.tables import Displayed, Shown

FILE = "answer.json"
_LISTED = 6  # models of a board that a sentence names in full
_SHOWN_PAIRS = 3
_SHOWN_DIMENSIONS = 3  # of which a few words say what is open


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAnswer(Displayed):
    """What stands first in a report and last in the terminal.

    `brief` answers the question in fifty words at most, beside the figure; `sentences` answer it in
    full, `caveats` hold for this run and no other, `facts` say by whom, when, on what and for how
    much. Where the question is about the judge, its gate comes first.
    """

    brief: Sequence[str] = ()
    sentences: Sequence[str]
    facts: Mapping[str, str]
    caveats: Sequence[str] = ()
    gate: Gate | None = None
    about_judge: bool = False

    @property
    def summary(self) -> Shown:
        """The answer in brief, to stand over the figure that shows it."""
        gate = [self.gate.brief] if self.gate else []
        words = [*gate, *self.brief] if self.about_judge else [*self.brief, *gate]
        parts = [each.partition(": ") for each in words]
        return Shown(rendered("summary", parts=parts), " ".join(words))

    @property
    def said(self) -> list[str]:
        """All sentences: the answer, the judge's gate, the caveats."""
        gate = [self.gate.sentence] if self.gate else []
        answer = [*gate, *self.sentences] if self.about_judge else [*self.sentences, *gate]
        return [*answer, *self.caveats]

    @property
    def text(self) -> str:
        """The box as lines."""
        return "\n".join([*self.said, *(f"{what}: {value}" for what, value in self.facts.items())])

    @property
    def html(self) -> str:
        """The box, every text escaped; what a sentence is about in bold, where that is short."""
        return rendered("answer", box=self, colours=LEVEL_COLOURS)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "brief": self.summary.text,
            "answer": list(self.sentences),
            "gate": self.gate and self.gate.sentence,
            "caveats": list(self.caveats),
            "facts": dict(self.facts),
            "said": self.said,
        }


def order(dimension: Dimension) -> str:
    """Who is first, who cannot be told apart and the order of all, in a sentence or two."""
    if not dimension.orders:
        return f"{dimension.name}: too few battles to rank."
    below = [o for o in dimension.orders if not {o.above, o.below} <= {*dimension.first}]
    said = [_first(dimension), *_alike(below, dimension.margin)]
    names = [o.above for o in dimension.orders] + [dimension.orders[-1].below]
    listed = f" Best first: {', '.join(names)}." if len(names) <= _LISTED else ""
    return f"{dimension.name}: {'; '.join(said)}.{listed}"


def brief(board: Board, unread: Sequence[str] = ()) -> list[str]:
    """Who is best at what and which first places are open, in a few words; `unread` are dimensions
    whose rubric the judge does not read.
    """
    best: dict[str, list[str]] = {}
    several = []
    for each in (each for each in board.dimensions if each.first and each.name not in unread):
        if len(each.first) == 1:
            best.setdefault(each.first[0], []).append(each.name)
        else:
            named = f"{each.name}: {_together(each.first)}" if each.name else _together(each.first)
            several.append(f"{named} not separable.")
    firsts = [f"{m} on {_listed(names)}" if any(names) else m for m, names in best.items()]
    left = len(several) - _SHOWN_DIMENSIONS
    more = [f"{left} more dimensions: first place open."] if left > 0 else []
    missing = [each.name for each in board.dimensions if each.name in unread or not each.first]
    none = [f"No answer on {_listed(missing)}."] if missing else []
    said = [f"Best: {'; '.join(firsts)}."] if firsts else []
    return [*said, *several[:_SHOWN_DIMENSIONS], *more, *none]


def _together(models: Sequence[str]) -> str:
    return f"{len(models)} entrants" if len(models) > _SHOWN_PAIRS else _listed(models)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def unread(dimension: str) -> str:
    """What is to be said of a dimension whose rubric the judge does not read."""
    return f"{dimension}: the demo judge cannot apply your rubric; choose an LLM judge."


def _first(dimension: Dimension) -> str:
    """Who is first and how sure that is, or between whom it is open."""
    first, best = dimension.first, dimension.orders[0]
    if len(first) == 1:
        return f"{first[0]} is first ({probable(best.probability)})"
    names = _listed(first) if len(first) <= _LISTED else f"{len(first)} entrants"
    sure = probable(dimension.above[first[0]][first[1]])
    lead = f"{first[0]} above {first[1]}: {sure}"
    return f"first place: {names} are not separable ({lead})"


def _alike(pairs: Sequence[Order], margin: float) -> Iterator[str]:
    """Neighbours further down whose order is not decided."""
    for state, told in (
        ("unresolved", "are not separable"),
        ("equivalent", f"are equivalent within {margin:g} points"),
    ):
        named = [f"{pair.above} and {pair.below}" for pair in pairs if pair.state == state]
        if named:
            left = len(named) - _SHOWN_PAIRS
            more = f" (and {left} more adjacent pairs)" if left > 0 else ""
            yield f"{', '.join(named[:_SHOWN_PAIRS])}{more} {told}"


def probable(value: float | None) -> str:
    """A probability as an answer quotes it; never 0 or 1, which no finite evidence gives."""
    if value is None:
        return "P unknown"
    if value > 0.99:
        return "P > 99%"
    return "P < 1%" if value < 0.01 else f"P {100 * value:.0f}%"


def disagreements(board: Board) -> list[str]:
    """Where Elo has neighbours of the board the other way round."""
    told = []
    for dimension in board.dimensions:
        elo = {
            row.model: row.beside["elo"].rating
            for row in board.rows(dimension.name)
            if "elo" in row.beside
        }
        told += [
            f"On {dimension.name} Elo has {pair.below} above {pair.above}, against Bradley–Terry; "
            f"the order is {pair.state}."
            for pair in dimension.orders
            if {pair.above, pair.below} <= {*elo} and elo[pair.below] > elo[pair.above]
        ]
    return told


def about(board: Board) -> list[str]:
    """What the claims are about and at which level they hold, in a sentence for each kind."""
    return list(dict.fromkeys(said for dimension in board.dimensions for said in dimension.scope))
