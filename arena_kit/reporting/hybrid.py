"""The board that people and a judge rated together, and what each of them is worth."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from arena_kit.rating.base import Ratings
from arena_kit.rating.claims import claims
from arena_kit.rating.with_judge.hybrid import HybridRatings
from arena_kit.reporting.board import (
    ABOUT,
    BesideMethod,
    Board,
    BoardRow,
    Dimension,
    MethodRating,
    board_of,
    claims_of,
)
from arena_kit.reporting.tables import percent

#: The share of a rating below which a judge is said to make up next to nothing of it.
LITTLE = 0.1
INTERVALS = (
    "± is half of a 95% interval; the judge alone stands on people's scale. No interval is wider "
    "than by votes alone; they hold on average over models."
)


RESTS_ON = (
    "Decided orders, and possible ranks, which hold for all models at once, rest on a judge that "
    "errs on all models alike; further battles would have to be people's votes."
)


def hybrid_board(boards: Mapping[str, HybridRatings], unrated: Mapping[str, str]) -> Board:
    """The boards of people and judge together, by dimension; beside each rating what people alone
    and the judge alone, on people's scale, say.
    """
    board = board_of(
        {name: found.ratings for name, found in boards.items()},
        beside={"people": {name: found.people for name, found in boards.items()}},
        unrated=unrated,
    )
    settings = next(iter(boards.values())).judge.settings
    judge = BesideMethod(method="bradley-terry", settings=settings)
    rows = [_with_judge(row, boards[row.dimension]) for row in board.ratings]
    dimensions = [
        _hybrid(each, boards[each.name]) if each.name in boards else each
        for each in board.dimensions
    ]
    beside = board.beside | {"judge": judge}
    return board.model_copy(update={"ratings": rows, "beside": beside, "dimensions": dimensions})


def _with_judge(row: BoardRow, found: HybridRatings) -> BoardRow:
    alone = found.by_judge(row.model)
    beside = {} if alone is None else {"judge": MethodRating(rating=alone)}
    return row.model_copy(update={"beside": row.beside | beside})


def _hybrid(dimension: Dimension, found: HybridRatings) -> Dimension:
    own = found.ratings.as_dict()
    values = {name: value for name, value in found.as_dict().items() if name not in own}
    told = [*_worths(found), INTERVALS, *_outliers(found), RESTS_ON]
    claimed = claims_of(in_votes(found), None)
    return dimension.model_copy(update=claimed | {"notes": told, "hybrid": values})


def notes(found: HybridRatings) -> list[str]:
    """What the board rests on and what may be said about its order, in sentences."""
    return [*_worths(found), INTERVALS, *_outliers(found), *order(found)]


def order(found: HybridRatings) -> list[str]:
    """What may be said about the order of the board, what it rests on and what it is about."""
    said = " ".join(claims.sentences(in_votes(found)))
    return [said, RESTS_ON, ABOUT[claims.about(found.ratings)]]


def in_votes(found: HybridRatings) -> Ratings:
    """The ratings with the number of battles that counts for claims, which ask how many more would
    decide an order: the votes that alone would say as much, as only more votes say more.
    """
    return replace(found.ratings, n_battles=round(found.effective_sample))


def _worths(found: HybridRatings) -> list[str]:
    """What the verdicts were worth, and how much the judge has to say."""
    times = found.effective_sample / found.people.n_battles
    votes, verdicts = found.people.n_battles, found.judge.n_battles
    effective = f"{round(found.effective_sample):,} votes alone ({times:.1f} times as many)"
    return [
        f"{votes:,} votes and {verdicts:,} verdicts say as much as {effective}.",
        f"{str(found.worth).capitalize()}; its error is about {found.error.sd:.0f} points.",
        _say(found),
    ]


def _say(found: HybridRatings) -> str:
    """How much of a rating the judge makes up, in words; that of one whose ratings have nothing to
    do with people's is next to nothing.
    """
    if not found.follows_people:
        slope = f"{found.slope:.2f} ± {found.slope_se:.2f}, SE"
        return (
            f"Its ratings do not surely rise with people's (slope {slope}), so it has next to no "
            "say: votes decide, and few votes are only drawn towards the mean."
        )
    share = found.judge_share
    much = "next to nothing" if share < LITTLE else f"about {percent(share)} of a rating"
    median = np.median([row.n_battles for row in found.people.ratings])
    return f"On a model with {median:,.0f} votes (the median) it makes up {much}."


def _outliers(found: HybridRatings) -> list[str]:
    """The models on which people and judge disagree, and those with too few votes."""
    sentences = [
        f"{each.model}: people put it {abs(each.gap):.0f} points "
        f"{'above' if each.gap > 0 else 'below'} what the judge lets expect "
        f"(chance {each.chance:.3f}); believe the votes there."
        for each in found.disagreements
    ]
    if not sentences:
        sentences.append("People and judge disagree on no model more than on the others.")
    if found.left_out:
        few = ", ".join(f"{model} ({n})" for model, n in found.left_out.items())
        sentences.append(f"Too few votes to count: {few}; the judge places those it saw.")
    return sentences
