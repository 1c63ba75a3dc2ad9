"""The battle, its outcomes, and the columnar log that every rating method takes."""

import re
import time
from collections import defaultdict
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arena_kit.battles import battle as rules
from arena_kit.battles.battle import OUTCOMES, Battle, Outcome, Source
from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError

NOON = datetime(2024, 8, 14, 12, 0, tzinfo=UTC)
TEXT = ("question_id", "dimension", "judge_model", "battle_id", "session", "lane")
OTHER = {Outcome.MODEL_A: Outcome.MODEL_B, Outcome.MODEL_B: Outcome.MODEL_A}


def battle(
    model_a: str = "ash", model_b: str = "beech", winner: str = "tie", **more: object
) -> Battle:
    return Battle(model_a=model_a, model_b=model_b, winner=winner, **more)  # type: ignore[arg-type]


def log_of(*records: Battle) -> BattleLog:
    return BattleLog.from_battles(records)


def swapped(record: Battle) -> Battle:
    """The same battle, seen from the other side."""
    a, b, winner, share = record.model_a, record.model_b, record.winner, record.share_a
    share = None if share is None else 1 - share
    return replace(record, model_a=b, model_b=a, winner=OTHER.get(winner, winner), share_a=share)


moments = st.integers(0, 10**17).map(lambda us: NOON + timedelta(microseconds=us))
quick = settings(max_examples=10, deadline=None)


@st.composite
def battles(draw: st.DrawFn) -> Battle:
    """Any valid battle between a few models, with a soft outcome or without."""
    a, b = draw(st.permutations(["ash", "beech", "cherry", "樺"]))[:2]
    inconsistent = draw(st.booleans())
    winner = Outcome.TIE if inconsistent else draw(st.sampled_from(OUTCOMES))
    texts = {name: draw(st.none() | st.text("ab樺", max_size=3)) for name in TEXT}
    texts |= {"source": draw(st.sampled_from(Source)), "timestamp": draw(st.none() | moments)}
    weight, share = draw(st.just(1.0) | st.floats(1e-6, 1e6)), draw(st.none() | st.floats(0, 1))
    return battle(a, b, winner, inconsistent=inconsistent, weight=weight, share_a=share, **texts)


logs = st.lists(battles(), max_size=12, unique_by=lambda row: row.battle_id or object())


def test_every_spelling_in_use_is_read() -> None:
    """Each spelling in published files is one of four outcomes; any other label is refused."""
    assert [str(o) for o in Outcome] == ["model_a", "model_b", "tie", "both_bad"]
    for labels in ("model_a model_b tie both_bad", "A B both neither", "Left RIGHT Tie bothbad"):
        assert [rules.read_outcome(label) for label in labels.split()] == list(Outcome)
    spaced = ["Model A", " tie ", "Both bad", "tie (bothbad)"]
    meant = [Outcome.MODEL_A, Outcome.TIE, Outcome.BOTH_BAD, Outcome.BOTH_BAD]
    assert [rules.read_outcome(label) for label in spaced] == meant
    assert [rules.read_source(label) for label in ("llm-judge", "human")] == list(Source)
    for label in ("draw", "-1", "1", "", "tie (inconsistent)", None, 0.5, 1):
        allowed = "model_a, model_b, tie, both_bad, a, left, b, right, both, neither"
        with pytest.raises(DataError, match=rf"{re.escape(repr(label))}; allowed: {allowed}"):
            rules.read_outcome(label)


SAFE = {*"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@+-"}


@quick
@given(st.text("aZ0._:/@+- \n~é樺\u202e\x00", max_size=6))
@example("x" * 128)
@example("x" * 129)
@example(7)
@example(None)
@example(b"a")
def test_an_id_is_a_short_run_of_safe_characters(value: str) -> None:
    """An id is up to 128 of the characters that file names and HTML bear, and never '..'."""
    if isinstance(value, str) and 0 < len(value) < 129 and {*value} <= SAFE and ".." not in value:
        assert rules.check_id(value, "prompt_id") == value
    else:
        with pytest.raises(DataError, match=r"prompt_id .* is not a valid id; allowed: 1 to 128"):
            rules.check_id(value, "prompt_id")


@pytest.mark.parametrize(
    "name", ["", "x" * 257, "x" * 1_000_000, "a\nb", "a\x07", "a\u202eb", "\ud800", 7, None]
)
def test_a_model_name_is_printable(name: object) -> None:
    """A name may hold spaces, brackets and any one script."""
    with pytest.raises(DataError, match=r"allowed: 1 to 256 printable characters") as caught:
        rules.check_model_name(name)
    assert len(str(caught.value)) < 200
    names = ["gpt-4o", "GPT-5", "gpt-40", "Модель 1", "模型", "GPT模型", "modèle", "yi (chat)"]
    assert [rules.check_model_name(each) for each in [*names, "<b>x</b>", "x" * 256]][:8] == names
    assert rules.look_alikes(names) == ""


def test_a_battle_needs_only_models_and_winner() -> None:
    """All else has a default, a human's vote of weight 1; words become members; nothing changes."""
    plain = battle()
    assert (plain.source, plain.weight, plain.inconsistent) == (Source.HUMAN, 1.0, False)
    assert all(getattr(plain, name) is None for name in (*TEXT, "timestamp"))
    read = battle(winner="tie (bothbad)", source="llm-judge")
    assert (read.winner, read.source) == (Outcome.BOTH_BAD, Source.LLM_JUDGE)
    with pytest.raises(FrozenInstanceError):
        plain.winner = Outcome.MODEL_A  # type: ignore[misc]


def test_what_no_method_could_rate_makes_no_battle() -> None:
    """A model against itself, a wrong name, winner, source, weight or share is refused."""
    for wrong in (
        {"model_b": "ash"}, {"model_a": ""}, {"model_b": ""}, {"winner": "draw"},
        {"source": "crowd"},
        *({"weight": weight} for weight in (0.0, -1.0, float("nan"), float("inf"), "1")),
        *({"share_a": share} for share in (-0.1, 1.1, float("nan"), "half")),
        *({"winner": w, "inconsistent": True} for w in ("model_a", "model_b", "both_bad")),
        {"inconsistent": "no"},
    ):  # fmt: skip
        assert battle(inconsistent=True).inconsistent
        with pytest.raises(DataError):
            battle(**wrong)


def test_a_log_holds_codes_into_sorted_models() -> None:
    """Rows index models sorted by name; a battle that two logs share is refused by its id."""
    log = log_of(battle("cherry", "ash", "model_b"), battle("ash", "beech", "both_bad"))
    assert log.models == ("ash", "beech", "cherry")
    assert (log.a.tolist(), log.b.tolist()) == ([2, 0], [0, 1])
    assert [OUTCOMES[i] for i in log.outcome] == [Outcome.MODEL_B, Outcome.BOTH_BAD]
    assert repr(log) == "BattleLog(2 battles, 3 models)"
    log = log_of(*(battle(winner=o) for o in OUTCOMES), battle(winner="tie", inconsistent=True))
    assert log.decisive().tolist() == [True, True, False, False, False]
    assert log.flags().tolist() == [False, False, False, False, True]
    log = log_of()
    assert (len(log), log.models, list(log.to_battles())) == (0, (), [])
    assert (log.clusters().tolist(), len(log.select([]))) == ([], 0)
    assert {len(column) for column in log.pair_counts().values()} == {0}
    one, none = [battle(battle_id="a"), battle(battle_id="b")], log_of(battle())
    with pytest.raises(DataError) as refused:
        BattleLog.joined(log_of(*one), none, log_of(battle(), one[1]))
    told = "battle_id 'b' in row 1 of log 3 was there before, in row 1 of log 1"
    assert str(refused.value) == told
    judged = [replace(row, source=Source.LLM_JUDGE, judge_model="j") for row in one]
    assert len(BattleLog.joined(log_of(*one), log_of(*judged), none, none)) == 6


@quick
@given(logs, st.data())
def test_selecting_rows_is_building_from_them(records: list[Battle], data: st.DataObject) -> None:
    """A selection, by indices or a mask, is the log of the chosen battles."""
    n, log = len(records), BattleLog.from_battles(iter(records))
    rows = data.draw(st.permutations(range(n)))[: (n + 1) // 2]
    part, mask = log.select(rows), np.isin(np.arange(n), rows)
    assert list(part.to_battles()) == [records[i] for i in rows]
    assert part.models == log_of(*(records[i] for i in rows)).models
    assert list(log.select(mask).to_battles()) == [records[i] for i in sorted(rows)]
    assert list(log.to_battles()) == records
    for length in {n + 1, abs(n - 1)}:
        with pytest.raises(IndexError, match=f"a mask of {length} for {n} battles"):
            log.select(np.ones(length, bool))


def test_covariates_and_models_of_a_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A selection has the numbers of its rows, a dimension its log, a time its UTC instant."""
    log = log_of(*(battle(*pair) for pair in [("x", "y"), ("y", "z"), ("z", "x"), ("y", "x")]))
    log = replace(log, covariates={"length": np.array([1.0, 2.0, 3.0, 4.0])})
    assert log.to_frame()["length"].tolist() == [1.0, 2.0, 3.0, 4.0]
    left = log.among(["x", "y", "nobody"])
    assert [(b.model_a, b.model_b) for b in left.to_battles()] == [("x", "y"), ("y", "x")]
    for part, expected in ((left, [1.0, 4.0]), (log.select([2, 0]), [3.0, 1.0])):
        assert part.covariates["length"].tolist() == expected
    names = ["tone", "facts", None, "tone", ""]
    log = log_of(*(battle(dimension=d, battle_id=str(n)) for n, d in enumerate(names)))
    parts = [(d, [*part.columns()["battle_id"]]) for d, part in log.by_dimension().items()]
    assert parts == [("", ["2", "4"]), ("facts", ["1"]), ("tone", ["0", "3"])]
    assert [(d, len(part)) for d, part in log_of(battle()).by_dimension().items()] == [("", 1)]
    log = log_of(*(battle(question_id=q) for q in ["q2", None, "q1", "q2", None]))
    clusters = log.clusters().tolist()
    assert (clusters[0], sorted(set(clusters))) == (clusters[3], [0, 1, 2, 3])
    assert sorted(log.select([3, 0, 4]).clusters().tolist()) == [0, 0, 1]
    assert log_of(*[battle()] * 3).clusters().tolist() == [0, 1, 2]
    local = datetime(2024, 1, 1, 0, 30, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    with monkeypatch.context() as machine:
        machine.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        log = log_of(*(battle(timestamp=t) for t in (local, NOON.replace(tzinfo=None))))
        back = [b.timestamp for b in log.to_battles()]
    time.tzset()
    assert back == [datetime(2023, 12, 31, 22, 30, 0, 123456, tzinfo=UTC), NOON]
    assert {moment.tzinfo for moment in back if moment} == {UTC}


Table = dict[tuple[str, str], list[float]]


def table(log: BattleLog) -> Table:
    """The pair counts as {pair: [a_wins, b_wins, tie, both_bad]}."""
    counts = log.pair_counts()
    names = ("model_a", "model_b", "a_wins", "b_wins", "tie", "both_bad")
    rows = zip(*(counts[name].tolist() for name in names), strict=True)
    return {(a, b): list(numbers) for a, b, *numbers in rows}


@quick
@given(logs)
def test_pair_counts_equal_counting_one_by_one(records: list[Battle]) -> None:
    """The columnar count is the naive one, whichever side each pair was shown on."""
    seen = [record if record.model_a < record.model_b else swapped(record) for record in records]
    expected: Table = defaultdict(lambda: [0.0] * 4)
    for each in seen:
        expected[each.model_a, each.model_b][OUTCOMES.index(each.winner)] += each.weight
    for rows in (records, [swapped(record) for record in records]):
        found = table(BattleLog.from_battles(rows))
        assert found.keys() == expected.keys()
        for pair, numbers in expected.items():
            assert found[pair] == pytest.approx(numbers, rel=1e-12)
    assert list(BattleLog.from_battles(records).sides_in_order().to_battles()) == seen


def test_counts_become_weighted_battles() -> None:
    """Counts are one battle per outcome seen, weighted; what is no count or weight is refused."""
    for counts in ([3, 0, 0, 5], [0, 1, 2.5, 0], [1, 2]):
        columns = [[n] for n in counts]
        log = BattleLog.from_counts(["beech"], ["ash"], *columns, source=Source.LLM_JUDGE)
        expected = [(o, n) for o, n in zip(OUTCOMES, counts, strict=False) if n]
        assert [(b.winner, b.weight) for b in log.to_battles()] == expected
        assert {(b.model_a, b.source) for b in log.to_battles()} == {("beech", Source.LLM_JUDGE)}
    for model_b, count in (
        (["beech"], -1),
        (["beech"], float("nan")),
        (["beech"], float("inf")),
        ([], 1),
        (["ash"], 1),
    ):
        with pytest.raises(DataError):
            BattleLog.from_counts(["ash"], model_b, a_wins=[count], b_wins=[1])
    for weight in (-1.0, 0.0, float("nan"), 1e300):
        log = BattleLog.from_battles([battle("x", "y"), battle("y", "x")])
        with pytest.raises(DataError, match=re.escape(f"battle 1: weight {weight:g} is not")):
            replace(log, weight=np.array([1.0, weight]))


@quick
@given(logs, st.data())
def test_parts_that_are_joined_are_the_whole(records: list[Battle], data: st.DataObject) -> None:
    """Joined logs hold every field of every battle in order, encoded as if built together."""
    cuts = st.integers(0, len(records))
    cut, end = sorted(data.draw(st.tuples(cuts, cuts)))
    parts = records[:cut], records[cut:end], records[end:]
    whole, together = BattleLog.joined(*map(BattleLog.from_battles, parts)), log_of(*records)
    assert (list(whole.to_battles()), whole.models) == (records, together.models)
    assert whole.columns().keys() == together.columns().keys()
    assert whole.clusters().tolist() == together.clusters().tolist()
