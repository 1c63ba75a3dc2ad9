"""Ratings of battles that stay on disk are those of the same battles in memory."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arena_kit import BattleLog, BradleyTerry
from arena_kit.battles import on_disk as battles_on_disk
from arena_kit.battles.log import Labels
from arena_kit.battles.on_disk import BattleFiles
from arena_kit.battles.read import read_battles
from arena_kit.battles.write import write_battles
from arena_kit.rating.base import Ratings
from arena_kit.rating.bradley_terry.on_disk import rate_boards
from tests.samples import asked, expanded

BOOTSTRAP = BradleyTerry(interval="percentile", resamples=100)


def on_disk(log: BattleLog, path: Path, parts: int = 2) -> BattleFiles:
    path.mkdir()
    for n, rows in enumerate(np.array_split(np.arange(len(log)), parts)):
        write_battles(path / f"{n}.parquet", log.select(rows))
    return BattleFiles.of(path)


def rows_of(ratings: Ratings) -> dict[str, list[float]]:
    return {
        row.model: [row.rating, row.ci_low or 0, row.ci_high or 0, row.extra["se"] or 0]
        for row in ratings.ratings
    }


def assert_same(mine: Ratings, theirs: Ratings, tolerance: float = 1e-7) -> None:
    assert mine.order == theirs.order
    for model, expected in rows_of(theirs).items():
        assert rows_of(mine)[model] == pytest.approx(expected, abs=tolerance)
    assert (mine.n_battles, mine.dropped) == (theirs.n_battles, theirs.dropped)


def weighted(log: BattleLog) -> BattleLog:
    return replace(log, weight=np.random.default_rng(1).uniform(0.5, 2, len(log)))


@pytest.mark.parametrize(
    ("log", "method"),
    [
        (asked(900), BradleyTerry()),
        (asked(900, voters=90), BradleyTerry()),
        (asked(900, voters=90), BradleyTerry(cluster="voter")),
        (asked(900, voters=5), BradleyTerry()),
        (asked(900), BradleyTerry(cluster="battle", both_bad="exclude")),
        (weighted(asked(900)), BradleyTerry(baseline="m02")),
        (weighted(asked(900)), BradleyTerry(cluster="battle")),
        (asked(900), BradleyTerry(ties="davidson")),
        (replace(asked(900), question_id=None), BOOTSTRAP),
    ],
    ids=["question", "two-way", "voter", "few voters", "battle", "weights", "weights alone",
         "davidson", "counts"],
)  # fmt: skip
def test_the_sandwich_is_as_in_memory(tmp_path: Path, log: BattleLog, method: BradleyTerry) -> None:
    """Ratings, standard errors and intervals agree with those of the log in memory."""
    rated, unrated = rate_boards(method, on_disk(log, tmp_path / "votes"))
    assert not unrated
    assert_same(rated[""], method(log))


def test_dimensions_are_rated_one_by_one(tmp_path: Path) -> None:
    """Each dimension has its board, and one that cannot be rated says why."""
    log = asked(2000)
    codes = np.arange(len(log)) % 2
    log = replace(log, dimension=Labels.of(np.array(["facts", "style"], object)[codes]))
    alone = asked(20).select([0])
    alone = replace(alone, models=("x", "y"), dimension=Labels.of(["tone"]))
    both = BattleLog.joined(log, replace(alone, outcome=np.array([3], np.int8)))
    method = BradleyTerry(both_bad="exclude")
    rated, unrated = rate_boards(method, on_disk(both, tmp_path / "votes"))
    for name in ("facts", "style"):
        assert_same(rated[name], method(log.by_dimension()[name]))
    assert "all were dropped (1 both_bad)" in unrated["tone"]
    only, _ = rate_boards(method, on_disk(both, tmp_path / "again"), only="facts")
    assert list(only) == ["facts"]


def test_order_and_chunks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Order, files and chunks change no bit; with voters intervals have the two-way width."""
    log = asked(3000)
    first, _ = rate_boards(BOOTSTRAP, on_disk(log, tmp_path / "one", parts=1))
    monkeypatch.setattr(battles_on_disk, "CHUNK", 2048)
    shuffled = log.select(np.random.default_rng(5).permutation(len(log)))
    second, _ = rate_boards(BOOTSTRAP, on_disk(shuffled, tmp_path / "two", parts=3))
    assert np.array_equal(first[""].replicates, second[""].replicates)
    log = asked(3000, questions=300, voters=60)
    rated, _ = rate_boards(replace(BOOTSTRAP, resamples=1000), on_disk(log, tmp_path / "votes"))
    mine, exact = (rows_of(each) for each in (rated[""], BradleyTerry()(log)))
    ratio = np.array([mine[model][3] / exact[model][3] for model in mine])
    assert ratio.mean() == pytest.approx(1, abs=0.05)


@pytest.mark.slow  # writes, reads and resamples 1.67 million rows: about a quarter of a minute
def test_all_real_votes_give_one_board_streamed_and_in_memory(data: Path, tmp_path: Path) -> None:
    """1.67 million real votes as rows: the board of the counts, streamed and in memory."""
    file = expanded(data, tmp_path / "votes.parquet")
    log, stream = read_battles(file), BattleFiles.of(file)
    assert len(stream) == len(log) > 1_600_000
    rated, _ = rate_boards(BradleyTerry(), stream)
    assert_same(rated[""], BradleyTerry()(log))
    counts = read_battles(data / "chatbot_arena_1m7_counts" / "pair_counts.csv.gz")
    for row in BradleyTerry()(counts).ratings:
        assert rated[""][row.model].rating == pytest.approx(row.rating, abs=1e-7)
    drawn, _ = rate_boards(BOOTSTRAP, stream)
    se = [drawn[""][m].extra["se"] / rated[""][m].extra["se"] for m in drawn[""].models]  # type: ignore[operator]
    assert np.mean(se) == pytest.approx(1, abs=0.03)
