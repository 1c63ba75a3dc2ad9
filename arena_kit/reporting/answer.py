"""The answer first: what a run found, how sure that is and what not to conclude, in one box."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arena_kit.judging.quality.gate import Gate, Level
from arena_kit.reporting.board import Board, Dimension, Order
from arena_kit.reporting.html import rendered
from arena_kit.reporting.tables import Displayed

FILE = "answer.json"
#: What each notebook asks.
QUESTIONS = {
    "pilot": "Before the whole bank is judged: on a stratified subset of the prompts, does this "
    "judge answer readably and ignore the order of presentation, and what ranking begins to show?",
    "headline": "On the whole prompt bank, how do the entrants rank on each dimension, and which "
    "differences does the evidence carry?",
    "adaptive": "Who is above whom on each dimension, with no more judgments than that takes?",
    "k_sweep": "Elo's step size K is a choice, not a finding. Does any pair of neighbours in the "
    "ranking change places when K changes?",
    "placement": "People have voted on many models; a judge compares one more model with some of "
    "them. Where does it stand on the people's scale, and how sure is that?",
    "judge_report": "Do a judge's verdicts agree with people, ignore the order and the length of "
    "responses, read the rubric, and resist instructions hidden in a response? Which is the "
    "cheapest judge that does?",
    "policy_validity": "Does this arena keep what the Ranking Validity Policy v2 promises, what "
    "may its leaderboard be called, and which of its orders are decided?",
    "model_pages": "What do the votes say of each of these models: its record, its neighbours, "
    "where it lacks votes, and how its rating came about?",
    "vote_review": "Do any voters behave anomalously, and how would the board change without them?",
}
_LISTED = 6  # models of a board that a sentence names in full
_SHOWN_PAIRS = 3
_COLOURS = {Level.TRUSTED: "#1a7f37", Level.CAUTION: "#9a6700", Level.FAILED: "#b42318"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAnswer(Displayed):
    """What stands first in a report and last in the terminal.

    `sentences` answer the question, `caveats` hold for this run and no other, `facts` say by whom,
    when, on what and for how much. Where the question is about the judge, its gate comes first.
    """

    question: str
    sentences: Sequence[str]
    facts: Mapping[str, str]
    caveats: Sequence[str] = ()
    gate: Gate | None = None
    about_judge: bool = False

    @property
    def said(self) -> list[str]:
        """All sentences: the answer, the judge's gate, the caveats."""
        gate = [self.gate.sentence] if self.gate else []
        answer = [*gate, *self.sentences] if self.about_judge else [*self.sentences, *gate]
        return [*answer, *self.caveats]

    @property
    def text(self) -> str:
        """The box as lines."""
        facts = [f"{what}: {value}" for what, value in self.facts.items()]
        return "\n".join([self.question, *self.said, *facts])

    @property
    def html(self) -> str:
        """The box, every text escaped; what a sentence is about in bold, where that is short."""
        return rendered("answer", box=self, colours=_COLOURS)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "question": self.question,
            "answer": list(self.sentences),
            "gate": self.gate and self.gate.sentence,
            "caveats": list(self.caveats),
            "facts": dict(self.facts),
            "said": self.said,
        }


def order(dimension: Dimension) -> str:
    """Who is first, who cannot be told apart and the order of all, in a sentence or two."""
    if not dimension.orders:
        return f"{dimension.name}: no order can be told, the evidence does not reach."
    below = [o for o in dimension.orders if not {o.above, o.below} <= {*dimension.first}]
    said = [_first(dimension), *_alike(below, dimension.margin)]
    names = [o.above for o in dimension.orders] + [dimension.orders[-1].below]
    listed = f" Best first: {', '.join(names)}." if len(names) <= _LISTED else ""
    return f"{dimension.name}: {'; '.join(said)}.{listed}"


def unread(dimension: str) -> str:
    """What is to be said of a dimension whose rubric the judge does not read."""
    return f"{dimension}: no answer, for this judge does not read the rubric that defines it."


def _first(dimension: Dimension) -> str:
    """Who is first and how sure that is, or between whom it is open."""
    first, best = dimension.first, dimension.orders[0]
    if len(first) == 1:
        return f"{first[0]} is first ({probable(best.probability)})"
    named = f"{', '.join(first[:-1])} and {first[-1]}"
    names = named if len(first) <= _LISTED else f"{len(first)} entrants"
    sure = probable(dimension.above[first[0]][first[1]])
    lead = f"{first[0]} above {first[1]}: {sure} as a pair by itself"
    return f"the first place is open between {names} ({lead})"


def _alike(pairs: Sequence[Order], margin: float) -> Iterator[str]:
    """Neighbours further down whose order is not decided."""
    for state, told in (
        ("open", "cannot be told apart"),
        ("equivalent", f"are equivalent within {margin:g} points"),
    ):
        named = [f"{pair.above} and {pair.below}" for pair in pairs if pair.state == state]
        if named:
            left = len(named) - _SHOWN_PAIRS
            more = f" (and {left} more neighbouring pairs)" if left > 0 else ""
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
