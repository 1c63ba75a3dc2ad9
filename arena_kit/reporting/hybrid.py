"""The board that people and a judge rated together, and what each of them is worth."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from arena_kit.rating.base import Ratings
from arena_kit.rating.claims import claims
from arena_kit.rating.with_judge.hybrid import HybridRatings
from arena_kit.reporting import board as schema
from arena_kit.reporting.board import ABOUT, Board, BoardRow, Dimension, board_of, claims_of
from arena_kit.reporting.tables import percent

#: Below this weight the number is not quoted.
LITTLE = 0.1
INTERVALS = (
    "± is half the width of a 95% interval; judge alone is on the scale of human votes. Intervals "
    "cover 95% on average over models and are never wider than by votes alone."
)


RESTS_ON = (
    "Decided orders and rank ranges assume the same judge error for all models; further battles "
    "must be human votes."
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
    judge = schema.BesideMethod(method="bradley-terry", settings=settings)
    rows = [_with_judge(row, boards[row.dimension]) for row in board.ratings]
    dimensions = [
        _hybrid(each, boards[each.name]) if each.name in boards else each
        for each in board.dimensions
    ]
    beside = board.beside | {"judge": judge}
    return board.model_copy(update={"ratings": rows, "beside": beside, "dimensions": dimensions})


def _with_judge(row: BoardRow, found: HybridRatings) -> BoardRow:
    alone = found.by_judge(row.model)
    beside = {} if alone is None else {"judge": schema.MethodRating(rating=alone)}
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
    """What the verdicts are worth in votes, and the judge's weight."""
    times = found.effective_sample / found.people.n_battles
    votes, verdicts = found.people.n_battles, found.judge.n_battles
    effective = f"{round(found.effective_sample):,} votes alone ({times:.1f} times as many)"
    return [
        f"{votes:,} votes and {verdicts:,} verdicts are as informative as {effective}.",
        f"{str(found.worth).capitalize()}; judge error {found.error.sd:.0f} points (SD).",
        _say(found),
        *_chosen(found),
    ]


def _chosen(found: HybridRatings) -> list[str]:
    """What a choice of battles with known probabilities adds."""
    if found.explained is None:
        return []
    gain = f"battles take {percent(found.explained)} off the variance of ratings by votes."
    weights = "Votes are weighted by the inverse probability of their battle"
    return [f"{weights}; verdicts on the other {gain}"]


def _say(found: HybridRatings) -> str:
    """The judge's weight in a rating, in words; near zero if its ratings do not increase with those
    by human votes.
    """
    if not found.follows_people:
        slope = f"{found.slope:.2f} ± {found.slope_se:.2f}, SE"
        return (
            f"Its ratings do not increase significantly with those by votes (slope {slope}), so "
            "its weight is near zero; ratings with few votes shrink towards the mean."
        )
    share = found.judge_share
    much = f"below {percent(LITTLE)}" if share < LITTLE else f"about {percent(share)}"
    median = np.median([row.n_battles for row in found.people.ratings])
    return f"The judge's weight in a rating with {median:,.0f} votes (the median) is {much}."


def _outliers(found: HybridRatings) -> Iterator[str]:
    """The models on which votes and judge disagree, and those with too few votes."""
    for each in found.disagreements:
        side = "above" if each.gap > 0 else "below"
        points = f"{abs(each.gap):.0f} points {side} the judge's prediction (p = {each.chance:.3f})"
        yield f"{each.model}: its rating by votes is {points}; trust the votes."
    if not found.disagreements:
        yield "Votes and judge disagree significantly on no model."
    if found.left_out:
        few = ", ".join(f"{model} ({n})" for model, n in found.left_out.items())
        yield f"Too few votes: {few}; the judge rates those it compared."
