"""The battle, its outcomes, and the columnar log that every rating method takes."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit.battles.battle import (
    OUTCOMES,
    Battle,
    Outcome,
    Source,
    check_id,
    check_model_name,
    read_outcome,
    read_source,
)
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.files import DataError

NOON = datetime(2024, 8, 14, 12, 0, tzinfo=UTC)
TEXT = ("question_id", "dimension", "judge_model", "battle_id", "session", "lane")


def battle(
    model_a: str = "ash", model_b: str = "beech", winner: str = "tie", **more: object
) -> Battle:
    return Battle(model_a=model_a, model_b=model_b, winner=winner, **more)  # type: ignore[arg-type]


moments = st.integers(0, 10**17).map(lambda us: NOON + timedelta(microseconds=us))
quick = settings(max_examples=20, deadline=None)


@st.composite
def battles(draw: st.DrawFn) -> Battle:
    """Any valid battle between a few models."""
    a, b = draw(st.permutations(["ash", "beech", "cherry", "樺"]))[:2]
    inconsistent = draw(st.booleans())
    texts = {name: draw(st.none() | st.text(max_size=3)) for name in TEXT}
    return Battle(
        model_a=a,
        model_b=b,
        winner=Outcome.TIE if inconsistent else draw(st.sampled_from(OUTCOMES)),
        inconsistent=inconsistent,
        source=draw(st.sampled_from(Source)),
        timestamp=draw(st.none() | moments),
        weight=draw(st.just(1.0) | st.floats(1e-6, 1e6)),
        **texts,
    )


logs = st.lists(battles(), max_size=12)


# Outcomes


def test_there_are_four_outcomes() -> None:
    """A battle ends in one of four ways, named as they stand on disk."""
    assert {str(outcome) for outcome in Outcome} == {"model_a", "model_b", "tie", "both_bad"}


def test_only_a_named_winner_is_decisive() -> None:
    """Decisive means model_a or model_b, nothing else."""
    assert [o for o in Outcome if o.decisive] == [Outcome.MODEL_A, Outcome.MODEL_B]


@pytest.mark.parametrize(
    ("label", "outcome"),
    [
        ("model_a", Outcome.MODEL_A),
        ("model_b", Outcome.MODEL_B),
        ("tie", Outcome.TIE),
        ("both_bad", Outcome.BOTH_BAD),
        ("bothbad", Outcome.BOTH_BAD),
        ("tie (bothbad)", Outcome.BOTH_BAD),
    ],
)
def test_every_spelling_in_use_is_read(label: str, outcome: Outcome) -> None:
    """Each spelling of an outcome found in published files stands for one outcome."""
    assert read_outcome(label) is outcome


@pytest.mark.parametrize(
    "label", ["TIE", "tie ", "", "A", "model_c", "tie (inconsistent)", None, 0.5, 1, ["tie"]]
)
def test_an_unknown_outcome_is_refused(label: object) -> None:
    """A label outside the table is an error that shows it and lists what is allowed."""
    shown = re.escape(repr(label))
    allowed = r"model_a, model_b, tie, both_bad, bothbad, tie \(bothbad\), tie_bothbad, a, b"
    with pytest.raises(DataError, match=rf"unknown winner {shown}; allowed: {allowed}"):
        read_outcome(label)


def test_an_unknown_source_is_refused() -> None:
    """A battle is decided by a judge or a human; any other source is an error."""
    assert read_source("llm-judge") is Source.LLM_JUDGE
    assert read_source("human") is Source.HUMAN
    with pytest.raises(DataError, match="unknown source 'crowd'; allowed: llm-judge, human"):
        read_source("crowd")


# Ids and names


@quick
@given(st.text(max_size=6) | st.text(st.sampled_from("aZ0._:/@+- \n~é"), max_size=6))
def test_an_id_is_a_short_run_of_safe_characters(value: str) -> None:
    """An id holds only the characters that file names and HTML bear, and never '..'."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    safe = value != "" and set(value) <= set(letters + "0123456789._:/@+-") and ".." not in value
    if safe:
        assert check_id(value, "prompt_id") == value
    else:
        with pytest.raises(DataError, match=r"prompt_id .* is not a valid id; allowed: 1 to 128"):
            check_id(value, "prompt_id")


def test_an_id_has_at_most_128_characters() -> None:
    """The 128th character of an id is allowed and the 129th is not."""
    assert check_id("x" * 128, "entrant_id") == "x" * 128
    with pytest.raises(DataError, match="entrant_id"):
        check_id("x" * 129, "entrant_id")


@pytest.mark.parametrize("value", [7, None, ["a"], b"a"])
def test_an_id_is_text(value: object) -> None:
    """A number, null or list is never taken for an id."""
    with pytest.raises(DataError, match="is not a valid id"):
        check_id(value, "prompt_id")


@pytest.mark.parametrize("name", ["Airoboros L2 70B", "yi-34b (chat)", "樺", "<b>x</b>", "x" * 256])
def test_published_model_names_are_allowed(name: str) -> None:
    """A model name may hold spaces, brackets and any script."""
    assert check_model_name(name) == name


@pytest.mark.parametrize("name", ["", "x" * 257, "a\nb", "a\x07", "a\u202eb", "\ud800", 7, None])
def test_an_unprintable_model_name_is_refused(name: object) -> None:
    """Empty, endless, invisible or non-text names are errors that state the rule."""
    with pytest.raises(DataError, match=r"model name .* allowed: 1 to 256 printable characters"):
        check_model_name(name)


def test_a_huge_name_does_not_flood_the_message() -> None:
    """The error about a name of a million characters is itself short."""
    with pytest.raises(DataError, match="model name") as caught:
        check_model_name("x" * 1_000_000)
    assert len(str(caught.value)) < 200


# Battle


def test_a_battle_needs_only_models_and_winner() -> None:
    """Every other field has a default: a human's vote of weight 1."""
    plain = Battle(model_a="ash", model_b="beech", winner=Outcome.TIE)
    assert (plain.source, plain.weight, plain.inconsistent) == (Source.HUMAN, 1.0, False)
    assert all(getattr(plain, name) is None for name in (*TEXT, "timestamp"))


def test_labels_on_disk_become_members() -> None:
    """A battle made from the words in a file holds an outcome and a source."""
    read = battle(winner="tie (bothbad)", source="llm-judge")
    assert (read.winner, read.source) == (Outcome.BOTH_BAD, Source.LLM_JUDGE)


def test_a_battle_is_frozen() -> None:
    """A battle does not change once made."""
    with pytest.raises(FrozenInstanceError):
        battle().winner = Outcome.MODEL_A  # type: ignore[misc]


def test_a_model_does_not_battle_itself() -> None:
    """A battle between a model and itself is refused."""
    with pytest.raises(DataError, match="two different models, but both are 'ash'"):
        battle("ash", "ash")


@pytest.mark.parametrize("side", ["model_a", "model_b"])
def test_both_sides_need_a_valid_name(side: str) -> None:
    """An invalid name is refused on either side."""
    with pytest.raises(DataError, match="model name '' is not valid"):
        battle(**{side: ""})  # type: ignore[arg-type]


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_is_positive_and_finite(weight: float) -> None:
    """A weight that no rating method could use is refused."""
    with pytest.raises(DataError, match=f"weight {weight!r} is not a positive finite number"):
        battle(weight=weight)


@pytest.mark.parametrize("winner", ["model_a", "model_b", "both_bad"])
def test_an_inconsistent_battle_has_no_winner(winner: str) -> None:
    """Two orders that disagree name no winner: only tie may stand beside the flag."""
    assert battle(winner="tie", inconsistent=True).inconsistent
    with pytest.raises(DataError, match=f"an inconsistent battle has winner 'tie', not.*{winner}"):
        battle(winner=winner, inconsistent=True)


def test_an_unknown_winner_makes_no_battle() -> None:
    """No label quietly becomes a tie."""
    with pytest.raises(DataError, match="unknown winner 'draw'"):
        battle(winner="draw")


# Labels


def test_labels_are_codes_into_sorted_names() -> None:
    """Names come out sorted, each row holds its name's place, -1 where it is missing."""
    labels = Labels.of(["c", "a", None, "c"])
    assert labels.names.tolist() == ["a", "c"]
    assert labels.codes.tolist() == [1, 0, -1, 1]


@quick
@given(st.lists(st.none() | st.text(max_size=3), max_size=8))
def test_labels_give_the_strings_back(values: list[str | None]) -> None:
    """Encoding loses nothing, and a missing value is not an empty one."""
    assert Labels.of(values).values().tolist() == values


@quick
@given(st.lists(st.none() | st.sampled_from("abcd"), max_size=8), st.data())
def test_taking_rows_encodes_as_if_only_they_existed(
    values: list[str | None], data: st.DataObject
) -> None:
    """Some rows of a column equal the column of those rows: unused names are gone."""
    rows = data.draw(st.permutations(range(len(values))))[: len(values) // 2]
    taken = Labels.of(values).take(np.array(rows, int))
    alone = Labels.of([values[i] for i in rows])
    assert taken.names.tolist() == alone.names.tolist()
    assert taken.codes.tolist() == alone.codes.tolist()


# A log: records to columns and back


def test_a_log_holds_codes_into_sorted_models() -> None:
    """Models are sorted by name and every row indexes them, with its outcome's number."""
    log = BattleLog.from_battles(
        [battle("cherry", "ash", "model_b"), battle("ash", "beech", "both_bad")]
    )
    assert log.models == ("ash", "beech", "cherry")
    assert (log.a.tolist(), log.b.tolist()) == ([2, 0], [0, 1])
    assert [OUTCOMES[i] for i in log.outcome] == [Outcome.MODEL_B, Outcome.BOTH_BAD]
    assert len(log) == 2


@quick
@given(logs)
def test_a_log_gives_its_battles_back(records: list[Battle]) -> None:
    """From records to columns and back, every field of every battle is the same, in order."""
    assert list(BattleLog.from_battles(records).to_battles()) == records


def test_a_log_is_built_from_any_iterable() -> None:
    """Battles may come one by one."""
    assert len(BattleLog.from_battles(battle(weight=i + 1) for i in range(3))) == 3


def test_columns_that_no_battle_has_are_absent() -> None:
    """A plain log carries no empty columns, and its weights and flags have their defaults."""
    log = BattleLog.from_battles([battle(), battle()])
    assert set(log.columns()) == {"model_a", "model_b", "winner", "source"}
    assert log.weights().tolist() == [1.0, 1.0]
    assert log.flags().tolist() == [False, False]


def test_one_value_makes_a_column() -> None:
    """A field that one battle has is a column, empty for the others."""
    log = BattleLog.from_battles([battle(), battle(battle_id="7", lane="b", weight=2.5)])
    columns = log.columns()
    assert columns["battle_id"].tolist() == [None, "7"]
    assert columns["lane"].tolist() == [None, "b"]
    assert log.weights().tolist() == [1.0, 2.5]


def test_flags_and_decisive_mark_their_rows() -> None:
    """Flags mark inconsistent judgments; decisive marks rows with a winner and no other."""
    log = BattleLog.from_battles(
        [
            battle(winner="model_a"),
            battle(winner="model_b"),
            battle(winner="tie"),
            battle(winner="both_bad"),
            battle(winner="tie", inconsistent=True),
        ]
    )
    assert log.decisive().tolist() == [True, True, False, False, False]
    assert log.flags().tolist() == [False, False, False, False, True]


def test_a_timestamp_keeps_its_instant() -> None:
    """A time with an offset comes back as the same moment, in UTC, to the microsecond."""
    local = datetime(2024, 1, 1, 0, 30, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    (back,) = BattleLog.from_battles([battle(timestamp=local)]).to_battles()
    assert back.timestamp == datetime(2023, 12, 31, 22, 30, 0, 123456, tzinfo=UTC)
    assert back.timestamp.tzinfo is UTC


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock stands at UTC+9."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_a_time_without_zone_does_not_depend_on_the_machine() -> None:
    """A timestamp without a zone means UTC, as it does in a file, wherever the code runs."""
    log = BattleLog.from_battles([battle(timestamp=NOON.replace(tzinfo=None))])
    assert [b.timestamp for b in log.to_battles()] == [NOON]


def test_an_empty_log_is_a_log() -> None:
    """No battles make a log without models that answers every question."""
    log = BattleLog.from_battles([])
    assert (len(log), log.models, list(log.to_battles())) == (0, (), [])
    assert log.clusters().tolist() == []
    assert {name: len(column) for name, column in log.pair_counts().items()} == dict.fromkeys(
        ("model_a", "model_b", "a_wins", "b_wins", "tie", "both_bad"), 0
    )
    assert len(log.select([])) == 0


def test_a_log_prints_in_one_line() -> None:
    """The repr of a log tells its size, not its contents."""
    log = BattleLog.from_battles([battle()] * 1000)
    assert repr(log) == "BattleLog(1000 battles, 2 models)"


def test_a_frame_has_the_names_on_disk() -> None:
    """The pandas frame of a log has the file's columns, a row per battle."""
    frame = BattleLog.from_battles([battle(question_id="007"), battle("樺", "ash")]).to_frame()
    assert frame["model_a"].tolist() == ["ash", "樺"]
    assert frame["winner"].tolist() == ["tie", "tie"]
    assert frame["question_id"].isna().tolist() == [False, True]
    assert frame["question_id"][0] == "007"


# Parts of a log


@quick
@given(logs, st.data())
def test_selecting_rows_equals_building_from_them(
    records: list[Battle], data: st.DataObject
) -> None:
    """A selection is the log of the chosen battles: their fields, their order, their models."""
    rows = data.draw(st.permutations(range(len(records))))[: (len(records) + 1) // 2]
    part = BattleLog.from_battles(records).select(rows)
    alone = BattleLog.from_battles(records[i] for i in rows)
    assert list(part.to_battles()) == list(alone.to_battles())
    assert part.models == alone.models


@quick
@given(logs, st.data())
def test_a_mask_selects_like_its_indices(records: list[Battle], data: st.DataObject) -> None:
    """A mask keeps the rows it marks, in their order."""
    n = len(records)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)
    kept = [record for record, keep in zip(records, mask, strict=True) if keep]
    assert list(BattleLog.from_battles(records).select(mask).to_battles()) == kept


def test_battles_among_some_models() -> None:
    """Only battles with both sides named are left, and a name that nobody has changes nothing."""
    pairs = [("x", "y"), ("y", "z"), ("z", "x"), ("y", "x")]
    log = BattleLog.from_battles(Battle(model_a=a, model_b=b, winner=Outcome.TIE) for a, b in pairs)
    left = log.among(["x", "y", "nobody"])
    assert [(b.model_a, b.model_b) for b in left.to_battles()] == [("x", "y"), ("y", "x")]
    assert left.models == ("x", "y")


def test_selecting_leaves_the_log_alone() -> None:
    """A selection is a new log; the one it came from keeps its rows and models."""
    log = BattleLog.from_battles([battle("ash", "beech"), battle("beech", "cherry")])
    assert log.select([1]).models == ("beech", "cherry")
    assert log.models == ("ash", "beech", "cherry")
    assert (log.a.tolist(), log.b.tolist()) == ([0, 1], [1, 2])


@pytest.mark.parametrize("length", [1, 3])
def test_a_mask_of_another_length_is_refused(length: int) -> None:
    """A mask made for another log is an error, not a different selection."""
    log = BattleLog.from_battles([battle(), battle()])
    mask = np.array([True, False, False])[:length]
    with pytest.raises(IndexError, match=f"a mask of {length} for 2 battles"):
        log.select(mask)


def test_dimensions_come_in_name_order() -> None:
    """Each dimension has its own log; battles without one come under the empty name."""
    log = BattleLog.from_battles(
        [
            battle(dimension="tone", battle_id="1"),
            battle("beech", "cherry", dimension="facts", battle_id="2"),
            battle(battle_id="3"),
            battle(dimension="tone", battle_id="4"),
        ]
    )
    found = log.by_dimension()
    assert list(found) == ["", "facts", "tone"]
    assert {name: [b.battle_id for b in part.to_battles()] for name, part in found.items()} == {
        "": ["3"],
        "facts": ["2"],
        "tone": ["1", "4"],
    }
    assert found["facts"].models == ("beech", "cherry")


def test_a_log_without_dimensions_is_one_part() -> None:
    """Where no battle has a dimension, all of them come under the empty name."""
    log = BattleLog.from_battles([battle(), battle()])
    assert [(name, len(part)) for name, part in log.by_dimension().items()] == [("", 2)]


def test_splitting_by_dimension_loses_no_battle() -> None:
    """Battles with an empty dimension and battles without one are all still there."""
    log = BattleLog.from_battles([battle(dimension=""), battle(), battle(dimension="facts")])
    assert {name: len(part) for name, part in log.by_dimension().items()} == {"": 2, "facts": 1}


def test_battles_on_one_question_are_one_cluster() -> None:
    """Two battles share a cluster when they share a question; one without stands alone."""
    asked = ["q2", None, "q1", "q2", None]
    clusters = BattleLog.from_battles(battle(question_id=q) for q in asked).clusters().tolist()
    assert clusters[0] == clusters[3]
    assert sorted(set(clusters)) == [0, 1, 2, 3]


def test_without_questions_every_battle_is_its_own_cluster() -> None:
    """Clusters need no questions: each battle is then independent."""
    assert BattleLog.from_battles([battle()] * 3).clusters().tolist() == [0, 1, 2]


def test_clusters_have_no_gaps_after_selecting() -> None:
    """Clusters of a selection are numbered from 0 again."""
    log = BattleLog.from_battles(battle(question_id=q) for q in "abcb").select([1, 3, 2])
    clusters = log.clusters().tolist()
    assert clusters[0] == clusters[1]
    assert set(clusters) == {0, 1}


# Pair counts

Table = dict[tuple[str, str], list[float]]


def table(log: BattleLog) -> Table:
    """The pair counts as {pair: [a_wins, b_wins, tie, both_bad]}."""
    counts = log.pair_counts()
    names = ("model_a", "model_b", "a_wins", "b_wins", "tie", "both_bad")
    rows = zip(*(counts[name].tolist() for name in names), strict=True)
    return {(a, b): list(numbers) for a, b, *numbers in rows}


def naive_table(records: list[Battle]) -> Table:
    """The same, counted battle by battle."""
    found: Table = defaultdict(lambda: [0.0] * 4)
    for record in records:
        column = OUTCOMES.index(record.winner)
        if record.model_a > record.model_b and column < 2:
            column = 1 - column
        low, high = sorted((record.model_a, record.model_b))
        found[low, high][column] += record.weight
    return dict(found)


def test_pair_counts_by_hand() -> None:
    """Votes for one pair add up whichever side it was shown on, weights and all."""
    log = BattleLog.from_battles(
        [
            battle("beech", "ash", "model_a"),
            battle("ash", "beech", "model_b", weight=2.0),
            battle("ash", "beech", "model_a"),
            battle("beech", "ash", "tie"),
            battle("ash", "beech", "tie", inconsistent=True),
            battle("beech", "cherry", "both_bad", weight=0.5),
        ]
    )
    assert table(log) == {("ash", "beech"): [1, 3, 2, 0], ("beech", "cherry"): [0, 0, 0, 0.5]}


@quick
@given(logs)
def test_pair_counts_equal_counting_one_by_one(records: list[Battle]) -> None:
    """The columnar count is the naive one."""
    found, expected = table(BattleLog.from_battles(records)), naive_table(records)
    assert found.keys() == expected.keys()
    for pair, numbers in expected.items():
        assert found[pair] == pytest.approx(numbers, rel=1e-12)


@quick
@given(logs)
def test_swapping_sides_changes_no_count(records: list[Battle]) -> None:
    """Showing every pair the other way round, with the vote turned, counts the same."""
    other = {Outcome.MODEL_A: Outcome.MODEL_B, Outcome.MODEL_B: Outcome.MODEL_A}
    swapped = [
        replace(r, model_a=r.model_b, model_b=r.model_a, winner=other.get(r.winner, r.winner))
        for r in records
    ]
    assert table(BattleLog.from_battles(swapped)) == table(BattleLog.from_battles(records))


def test_counts_become_weighted_battles() -> None:
    """A row of counts is one battle per outcome seen, weighted by how often."""
    log = BattleLog.from_counts(
        ["beech"], ["ash"], a_wins=[3], b_wins=[0], tie=[2], both_bad=[5], source=Source.LLM_JUDGE
    )
    assert [(b.model_a, b.winner, b.weight, b.source) for b in log.to_battles()] == [
        ("beech", Outcome.MODEL_A, 3.0, Source.LLM_JUDGE),
        ("beech", Outcome.TIE, 2.0, Source.LLM_JUDGE),
        ("beech", Outcome.BOTH_BAD, 5.0, Source.LLM_JUDGE),
    ]


def test_ties_need_not_be_counted() -> None:
    """A table of wins alone is a log without ties."""
    log = BattleLog.from_counts(["ash", "beech"], ["beech", "cherry"], a_wins=[1, 2], b_wins=[3, 4])
    assert table(log) == {("ash", "beech"): [1, 3, 0, 0], ("beech", "cherry"): [2, 4, 0, 0]}


count_rows = st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any)
pairs = st.sampled_from([("ash", "beech"), ("ash", "cherry"), ("beech", "cherry"), ("beech", "樺")])


@quick
@given(st.dictionaries(pairs, count_rows))
def test_counts_survive_the_log(counts: dict[tuple[str, str], list[int]]) -> None:
    """A table of counts comes back from the log made of it."""
    columns = [[row[k] for row in counts.values()] for k in range(4)]
    log = BattleLog.from_counts(
        [a for a, _ in counts],
        [b for _, b in counts],
        a_wins=columns[0],
        b_wins=columns[1],
        tie=columns[2],
        both_bad=columns[3],
    )
    assert table(log) == counts


@pytest.mark.parametrize("count", [-1, float("nan"), float("inf")])
def test_an_impossible_count_is_refused(count: float) -> None:
    """A count is a finite number, 0 or more."""
    with pytest.raises(DataError, match="a pair count is not a finite number >= 0"):
        BattleLog.from_counts(["ash"], ["beech"], a_wins=[count], b_wins=[1])


@pytest.mark.parametrize("model_b", [["beech"], ["beech", "cherry", "dogwood"]])
def test_counts_have_two_models_in_each_row(model_b: list[str]) -> None:
    """Columns of models of different length are not a table of pairs."""
    with pytest.raises(DataError, match="every column of counts needs 2 rows, as model_a has"):
        BattleLog.from_counts(["ash", "ash"], model_b, a_wins=[1, 1], b_wins=[1, 1])


def test_a_pair_of_counts_needs_two_models() -> None:
    """Counts of a model against itself are refused."""
    with pytest.raises(DataError, match="two different models, but both are 'ash'"):
        BattleLog.from_counts(["ash"], ["ash"], a_wins=[1], b_wins=[0])


# Several logs as one


def join(*parts: list[Battle]) -> BattleLog:
    return BattleLog.joined(*(BattleLog.from_battles(part) for part in parts))


@st.composite
def soft_battles(draw: st.DrawFn) -> Battle:
    """Any valid battle, with a soft outcome or without."""
    return replace(draw(battles()), share_a=draw(st.none() | st.floats(0, 1)))


def identity(row: Battle) -> object:
    """What no two battles share: the id; those without one are all different."""
    return row.battle_id or object()


soft_logs = st.lists(soft_battles(), max_size=6, unique_by=identity)


@st.composite
def soft_parts(draw: st.DrawFn) -> tuple[list[Battle], list[Battle], list[Battle]]:
    """Three lists of battles, any of them empty, that share no battle id."""
    rows = draw(st.lists(soft_battles(), max_size=18, unique_by=identity))
    cut, end = sorted(draw(st.tuples(*[st.integers(0, len(rows))] * 2)))
    return rows[:cut], rows[cut:end], rows[end:]


@quick
@given(soft_parts())
def test_a_joined_log_is_the_log_of_all_battles(
    parts: tuple[list[Battle], list[Battle], list[Battle]],
) -> None:
    """Joined logs hold every battle with every field, in the order given, encoded as if they had
    been built together.
    """
    rows = [row for part in parts for row in part]
    found, together = join(*parts), BattleLog.from_battles(rows)
    assert list(found.to_battles()) == rows
    assert found.models == together.models
    assert found.columns().keys() == together.columns().keys()
    assert found.clusters().tolist() == together.clusters().tolist()


@quick
@given(soft_logs, st.data())
def test_parts_that_are_joined_are_the_whole(records: list[Battle], data: st.DataObject) -> None:
    """Cutting a log in two and joining the parts gives it back; so does selecting again."""
    log = BattleLog.from_battles(records)
    cut = data.draw(st.integers(0, len(records)))
    parts = log.select(np.arange(cut)), log.select(np.arange(cut, len(records)))
    whole = BattleLog.joined(*parts)
    assert list(whole.to_battles()) == records
    assert list(whole.select(np.arange(cut)).to_battles()) == records[:cut]


def test_a_column_that_one_log_lacks_is_missing_there() -> None:
    """Where a log had no such column, its battles have none of it: no question, no share, no
    time, weight 1.
    """
    bare = [battle("ash", "beech", "model_a")]
    full = [
        battle(
            "cherry",
            "ash",
            "tie",
            question_id="q1",
            battle_id="b1",
            timestamp=NOON,
            weight=2.5,
            inconsistent=True,
            share_a=0.25,
            session="s",
            judge_model="j",
        )
    ]
    for parts in ((bare, full), (full, bare)):
        found = join(*parts)
        assert list(found.to_battles()) == parts[0] + parts[1]
        assert sorted(found.weights().tolist()) == [1.0, 2.5]
        assert sorted(found.flags().tolist()) == [False, True]


def test_a_battle_is_joined_once() -> None:
    """A battle that two logs share is refused, naming its id and both places; battles without an
    id, and those of another judge under the same id, are all joined.
    """
    one = [battle(battle_id="a"), battle(battle_id="b")]
    with pytest.raises(DataError) as refused:
        join(one, [battle()], [battle(), battle(battle_id="b")])
    told = "battle_id 'b' in row 1 of log 3 was there before, in row 1 of log 1"
    assert str(refused.value) == told
    judged = [replace(row, source=Source.LLM_JUDGE, judge_model="j") for row in one]
    assert len(join(one, judged, [battle()], [battle()])) == 6


def test_joining_leaves_covariates_out_and_the_logs_alone() -> None:
    """Numbers of one log mean nothing beside another; neither log is changed."""
    one = replace(BattleLog.from_battles([battle()]), covariates={"length": np.array([0.5])})
    two = BattleLog.from_battles([battle("cherry", "ash")])
    assert BattleLog.joined(one, two).covariates is None
    assert one.covariates is not None
    assert (one.models, two.models) == (("ash", "beech"), ("ash", "cherry"))
    assert one.a.tolist() == two.b.tolist() == [0]


def test_questions_of_joined_logs_are_shared_by_name() -> None:
    """Battles on a question of the same id are one cluster, whichever log they came from."""
    found = join(
        [battle(question_id="q1"), battle()], [battle(question_id="q1"), battle(question_id="q2")]
    )
    clusters = found.clusters().tolist()
    assert clusters[0] == clusters[2]
    assert len(set(clusters)) == 3


def test_all_battles_of_a_source() -> None:
    """Told to be a judge's, every battle is; told to be people's, no judge is left."""
    log = BattleLog.from_battles([battle(judge_model="old"), battle("ash", "cherry")])
    judged = list(log.of_source(Source.LLM_JUDGE, "new").to_battles())
    assert [(b.source, b.judge_model) for b in judged] == [(Source.LLM_JUDGE, "new")] * 2
    human = list(log.of_source(Source.HUMAN).to_battles())
    assert [(b.source, b.judge_model) for b in human] == [(Source.HUMAN, None)] * 2
    assert [b.judge_model for b in log.to_battles()] == ["old", None]


def test_covariates_follow_their_battles() -> None:
    """A selection has the numbers of its rows, and battles as records have none."""
    log = BattleLog.from_battles([battle(battle_id=i) for i in "abc"])
    log = replace(log, covariates={"length": np.array([1.0, 2.0, 3.0])})
    part = log.select([2, 0])
    assert part.covariates is not None
    assert part.covariates["length"].tolist() == [3.0, 1.0]
    assert [b.battle_id for b in part.to_battles()] == ["c", "a"]
    assert log.to_frame()["length"].tolist() == [1.0, 2.0, 3.0]


@quick
@given(soft_logs)
def test_sides_in_order_tell_the_same_battles(records: list[Battle]) -> None:
    """The side first by name is the first; winner and share are seen from there."""
    log = BattleLog.from_battles(records).sides_in_order()
    other = {Outcome.MODEL_A: Outcome.MODEL_B, Outcome.MODEL_B: Outcome.MODEL_A}
    for before, after in zip(records, log.to_battles(), strict=True):
        turned = replace(
            before,
            model_a=before.model_b,
            model_b=before.model_a,
            winner=other.get(before.winner, before.winner),
            share_a=None if before.share_a is None else 1 - before.share_a,
        )
        assert after == (before if before.model_a < before.model_b else turned)
