"""The verdict cache: answers are kept once, whole, and under everything that could change them."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from arena_kit.files import DataError
from arena_kit.judging.judges.base import cache_keys
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.verdicts.records import Answer, JudgeRequest, Status
from arena_kit.judging.verdicts.settle import presentations
from tests.samples import ScriptedJudge

PAIR = Pair(dimension="tone", prompt_id="q1", entrant_a="ash", entrant_b="beech")
FORWARD, BACKWARD = presentations(PAIR)
REQUEST = JudgeRequest(presentation=FORWARD, system="Be fair.", user="A or B?", boundary="b")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger in a folder that does not exist yet."""
    return Ledger(tmp_path / "cache" / "verdicts.sqlite")


def answer(text: str = "B", status: Status = Status.OK) -> Answer:
    return Answer(
        request_id="tone|q1|ash|beech#1",
        status=status,
        text=text,
        served_model="judge/x-2026",
        usage={"input_tokens": 120, "output_tokens": 7},
        cost_usd=0.0123,
        detail="end_turn",
    )


def judge(model: str = "judge/x", settings: Mapping[str, object] | None = None) -> ScriptedJudge:
    return ScriptedJudge(lambda request: None, model=model, settings=settings or {})


#: Puts 200 answers one by one, as soon as it is told to begin.
WRITE_MANY = """
import sys
from pathlib import Path
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Answer, Status
path, name = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
input()
for i in range(200):
    answer = Answer(request_id="r", status=Status.OK, text=f"{name} says {i}")
    Ledger(path).put(name, [(f"{name}-{i}", answer)])
"""


def test_an_answer_comes_back_as_it_was(ledger: Ledger) -> None:
    """Text, status, served model, usage, cost and detail survive the round trip exactly; half of a
    surrogate pair, as a cut-off emoji leaves behind, does not stop the keeping.
    """
    answers = {str(status): answer(status=status) for status in Status}
    answers["k1"] = answer("Antwort: 最佳 \x00 \n")
    ledger.put("judge/x", [*answers.items(), ("k2", answer("Calm \ud83d. Winner: B"))])
    assert ledger.get(answers) == answers
    assert len(ledger) == len(answers) + 1


def test_unknown_keys_are_left_out(ledger: Ledger) -> None:
    """Only cached keys come back, and asking an absent file makes none."""
    assert ledger.get(["k1"]) == {}
    assert len(ledger) == 0
    assert not ledger.path.exists()
    ledger.put("judge/x", [("k1", answer())])
    assert set(ledger.get(["k1", "k2"])) == {"k1"}
    assert ledger.get([]) == {}


def test_many_keys_are_found_at_once(ledger: Ledger) -> None:
    """More keys than SQLite takes in one statement are all looked up."""
    ledger.put("judge/x", [(f"k{i}", answer(str(i))) for i in range(1_234)])
    found = ledger.get(f"k{i}" for i in range(40_000))
    assert {key: kept.text for key, kept in found.items()} == {
        f"k{i}": str(i) for i in range(1_234)
    }


def test_a_second_put_does_not_overwrite(ledger: Ledger) -> None:
    """The first answer under a key stays; new keys beside it are still kept."""
    ledger.put("judge/x", [("k1", answer("first"))])
    ledger.put("judge/x", [("k1", answer("second")), ("k2", answer("third"))])
    assert {k: a.text for k, a in ledger.get(["k1", "k2"]).items()} == {
        "k1": "first",
        "k2": "third",
    }


def key_of(judge: ScriptedJudge, request: JudgeRequest) -> str:
    return cache_keys(judge, [request])[0]


def test_everything_that_could_change_an_answer_changes_the_key() -> None:
    """Model, settings, system text, user text, position and attempt each make another key."""
    keys = [
        key_of(judge(), REQUEST),
        key_of(judge(model="judge/y"), REQUEST),
        key_of(judge(settings={"effort": "low"}), REQUEST),
        key_of(judge(settings={"effort": "high"}), REQUEST),
        key_of(judge(), REQUEST._replace(system="Be kind.")),
        key_of(judge(), REQUEST._replace(user="B or A?")),
        key_of(judge(), REQUEST._replace(system="Be fair.A or B?", user="")),
        key_of(judge(), REQUEST._replace(presentation=BACKWARD)),
        key_of(judge(), REQUEST._replace(attempt=2)),
    ]
    assert len(set(keys)) == len(keys)
    assert key_of(judge(), REQUEST._replace()) == keys[0]


def test_the_key_does_not_depend_on_the_order_of_settings() -> None:
    """The same settings written in another order, also inside, make the same key."""
    one = {"effort": "low", "limits": {"tokens": 9, "seconds": 5}}
    other = {"limits": {"seconds": 5, "tokens": 9}, "effort": "low"}
    assert list(one) != list(other)
    assert key_of(judge(settings=one), REQUEST) == key_of(judge(settings=other), REQUEST)


def test_a_file_that_is_not_sqlite_is_one_clear_error(tmp_path: Path) -> None:
    """A text file in the ledger's place is named, and is left as it was."""
    path = tmp_path / "verdicts.sqlite"
    path.write_text("These are not the verdicts you are looking for. " * 50, encoding="utf-8")
    before = path.read_bytes()
    ledger = Ledger(path)
    words = r"verdicts\.sqlite: the verdict cache cannot be used \(file is not a database\)"
    with pytest.raises(DataError, match=words):
        ledger.get(["k1"])
    with pytest.raises(DataError, match=words):
        ledger.put("judge/x", [("k1", answer())])
    with pytest.raises(DataError, match=words):
        len(ledger)
    assert path.read_bytes() == before


def test_another_schema_is_refused(ledger: Ledger) -> None:
    """A file made by a later version is refused with both versions and left unchanged."""
    ledger.put("judge/x", [("k1", answer())])
    with sqlite3.connect(ledger.path) as con:
        con.execute("PRAGMA user_version = 99")
    con.close()
    with pytest.raises(DataError, match=r"a ledger of schema 99, and this arena_kit knows 3 only"):
        ledger.get(["k1"])
    with pytest.raises(DataError, match=r"a ledger of schema 99"):
        ledger.put("judge/x", [("k2", answer())])
    with sqlite3.connect(ledger.path) as con:
        assert con.execute("SELECT key FROM answers").fetchall() == [("k1",)]
    con.close()


def test_a_new_file_that_another_process_is_preparing_is_waited_for(ledger: Ledger) -> None:
    """A first put waits for the short lock that another first put holds on the new file."""
    ledger.path.parent.mkdir()
    other = sqlite3.connect(ledger.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, other.execute, ["COMMIT"])
    release.start()
    try:
        ledger.put("judge/x", [("k1", answer())])
    finally:
        release.join()
        other.close()
    assert ledger.get(["k1"]) == {"k1": answer()}


def test_two_processes_writing_at_once_lose_nothing(ledger: Ledger) -> None:
    """Two processes that start on an absent file with 200 answers each leave all 400."""
    ledger.path.parent.mkdir()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE_MANY, str(ledger.path), name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name in "xy"
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        print(file=writer.stdin, flush=True)
    for writer in writers:
        writer.communicate(timeout=60)
    assert [writer.returncode for writer in writers] == [0, 0]
    keys = [f"{name}-{i}" for name in "xy" for i in range(200)]
    found = ledger.get(keys)
    assert len(found) == len(ledger) == 400
    assert all(found[key].text == key.replace("-", " says ") for key in keys)
