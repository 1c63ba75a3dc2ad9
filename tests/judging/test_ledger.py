"""The ledger: answers are kept once, whole; what was paid for survives kills, copies and damage."""

import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from arena_kit.files import DataError, LockedError
from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.judges.base import cache_keys
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Answer, JudgeRequest, Status, presentations
from tests import samples
from tests.emulator import Emulator, Fault
from tests.judging.conftest import Bench
from tests.samples import MATERIAL, PAIRS, batch_judge, options, sizes, statuses

#: Keeps answers of this name one by one, once told to begin, and says how many; a holder alone.
WRITER = """
import sys
from contextlib import nullcontext
from pathlib import Path
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Answer, Status
ledger, name, n = Ledger(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
print(0, flush=True)
input()
with ledger.locked("writer") if name == "holder" else nullcontext():
    for i in range(n):
        answer = Answer(request_id=f"r{i}", status=Status.OK, text=f"{name} says {i} " * 50)
        ledger.put(name, [(f"{name}-{i}", answer)])
        print(i + 1, flush=True)
    sys.stdin.read()
"""
FORWARD, BACKWARD = presentations(PAIRS[0])
REQUEST = JudgeRequest(presentation=FORWARD, system="Be fair.", user="A or B?", boundary="b")
READ = """
import sys
from pathlib import Path
from arena_kit.files import DataError
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Answer, Status
ledger = Ledger(Path(sys.argv[1]))
print(len(ledger), len(ledger.get(f"holder-{i}" for i in range(9))), ledger.settled(["holder-1"]))
try:
    ledger.put("judge/x", [("new", Answer(request_id="r", status=Status.OK))])
except DataError as error:
    print(error)
try:
    with ledger.locked("run"):
        print("locked")
except DataError as error:
    print(error)
"""


class Writer:
    def __init__(self, path: Path, n: int, name: str = "holder") -> None:
        command = [sys.executable, "-c", WRITER, str(path), name, str(n)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.wait(0)

    def begin(self) -> None:
        print(file=self.process.stdin, flush=True)

    def wait(self, until: int) -> None:
        while int(self.process.stdout.readline()) < until:
            pass

    def end(self, *, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        self.process.communicate("", timeout=60)


def put_answers(ledger: Ledger, n: int) -> dict[str, Answer]:
    answers = {
        f"key{i}": Answer(
            request_id=f"tone|q{i}|ash|beech#1",
            status=[*Status][i % len(Status)] if i > 60 else Status.OK,
            text=f"The calmer one is B ({i}). " * 20,
            served_model="judge/x-2026",
            usage={"input_tokens": 100 + i, "output_tokens": i},
            cost_usd=i / 1000,
            detail="end_turn",
            run="first",
        )
        for i in range(n)
    }
    ledger.put("judge/x", answers.items())
    return answers


def test_an_answer_comes_back_as_it_was(ledger: Ledger) -> None:
    """Of 40,000 keys, with half of a surrogate pair; the first answer under a key stays."""
    assert (ledger.get(["key1"]), len(ledger), ledger.path.exists()) == ({}, 0, False)
    answers = put_answers(ledger, 1_234)
    odd = {"odd": answers["key1"]._replace(text="Antwort: 最佳 \x00 \n")}
    cut = answers["key1"]._replace(text="Calm \ud83d. Winner: B")
    ledger.put("judge/x", [*odd.items(), ("cut", cut), ("key1", cut)])
    assert ledger.get([*odd, *(f"key{i}" for i in range(40_000))]) == answers | odd
    assert len(ledger) == 1_234 + 2


def key_of(
    request: JudgeRequest, model: str = "judge/x", settings: Mapping[str, object] | None = None
) -> str:
    judge = samples.ScriptedJudge(lambda request: None, model=model, settings=settings or {})
    return cache_keys(judge, [request])[0]


def test_everything_that_could_change_an_answer_changes_the_key() -> None:
    """The order of settings does not, also inside."""
    changes: list[dict[str, Any]] = [
        {"system": "Be kind."}, {"user": "B or A?"}, {"system": "Be fair.A or B?", "user": ""},
        {"presentation": BACKWARD}, {"attempt": 2},
    ]  # fmt: skip
    keys = [
        key_of(REQUEST),
        key_of(REQUEST, model="judge/y"),
        *(key_of(REQUEST, settings={"effort": effort}) for effort in ("low", "high")),
        *(key_of(REQUEST._replace(**change)) for change in changes),
    ]
    assert (len(set(keys)), key_of(REQUEST._replace())) == (len(keys), keys[0])
    one = {"effort": "low", "limits": {"tokens": 9, "seconds": 5}}
    other = {"limits": {"seconds": 5, "tokens": 9}, "effort": "low"}
    assert key_of(REQUEST, settings=one) == key_of(REQUEST, settings=other)


@pytest.mark.parametrize("schema", [0, 2, 99], ids=["not SQLite", "older", "newer"])
def test_a_file_that_is_no_ledger_of_ours_is_left_alone(ledger: Ledger, schema: int) -> None:
    """A text file and the file of another version are named, and left as they were."""
    words = r"verdicts\.sqlite: the verdict cache cannot be used \(file is not a database\)"
    ledger.path.write_text("These are not the verdicts you are looking for. " * 50)
    if schema:
        ledger.path.unlink()
        put_answers(ledger, 1)
        with closing(sqlite3.connect(ledger.path)) as con:
            con.execute(f"PRAGMA user_version = {schema}")
        words = f"a ledger of schema {schema}, and this arena_kit knows 3 only"
    before = ledger.path.read_bytes()
    for use in (lambda: ledger.get(["key0"]), lambda: put_answers(ledger, 2), lambda: len(ledger)):
        with pytest.raises(DataError, match=words):
            use()
    assert ledger.path.read_bytes() == before


def test_two_processes_writing_at_once_lose_nothing(ledger: Ledger, tmp_path: Path) -> None:
    """A backup made while they write holds all that was kept when it began."""
    writers = [Writer(ledger.path, 60, name) for name in "xy"]
    for writer in writers:
        writer.begin()
    writers[0].wait(30)
    ledger.back_up(tmp_path / "backup.sqlite")
    for writer in writers:
        writer.end()
    texts = {f"{name}-{i}": f"{name} says {i} " * 50 for name in "xy" for i in range(60)}
    assert {key: kept.text for key, kept in ledger.get(texts).items()} == texts
    backup = Ledger(tmp_path / "backup.sqlite")
    kept = backup.get(texts)
    assert len(kept) == len(backup) <= 120
    assert all(answer.text == texts[key] for key, answer in kept.items())
    assert {f"x-{i}" for i in range(30)} <= kept.keys()
    left = {path.name for path in tmp_path.iterdir()} - {f"{ledger.path.name}.lock"}
    assert left == {"backup.sqlite", ledger.path.name}


def test_a_second_process_is_refused_and_a_dead_one_is_not_waited_for(bench: Bench) -> None:
    """While another process holds the ledger, nothing is sent; a full cache needs no lock."""
    holder = Writer(bench.ledger.path, 1)
    holder.begin()
    holder.wait(1)
    who = rf"process {holder.process.pid} on {socket.gethostname()}, since \d{{4}}-"
    with pytest.raises(LockedError, match=who):
        bench.judged()
    assert bench.emulator.requests == []
    holder.end(kill=True)
    assert bench.all_ok()
    with bench.ledger.locked("theirs"):
        assert bench.all_ok()
    assert bench.sizes == [12]


def test_a_copy_alone_has_every_answer(emulator: Emulator, ledger: Ledger, tmp_path: Path) -> None:
    """Copied when the last group has come, or after a kill, it pays for nothing again."""
    copy = tmp_path / "copy.sqlite"

    def copy_when_done(done: int, total: int) -> None:
        if done == total:
            shutil.copy(ledger.path, copy)

    judge = batch_judge(emulator)
    samples.judged_by(judge, ledger, on_progress=copy_when_done)
    assert {*statuses(samples.judged_by(judge, Ledger(copy), run="second"))} == {Status.OK}
    assert sizes(emulator) == [12]
    writer = Writer(ledger.path, 20)
    writer.begin()
    writer.wait(20)
    writer.end(kill=True)
    shutil.copy(ledger.path, copy)
    assert len(Ledger(copy)) == 12 + 20


def test_the_backup_command_copies_the_ledger_of_the_workspace(workspace: Path) -> None:
    """`arena-kit ledger backup FILE` says how many answers the verified copy holds."""
    answers = put_answers(Ledger(workspace / ".arena_kit" / "verdicts.sqlite"), 3)
    done, again = (samples.call("ledger", "backup", "copy.sqlite") for _ in range(2))
    assert done.stdout == "copy.sqlite: 3 answers, all intact\n"
    assert (done.exit_code, again.exit_code) == (0, 2)
    assert "this file exists" in again.stderr
    assert Ledger(workspace / "copy.sqlite").get(answers) == answers
    with pytest.raises(DataError, match="there is no ledger"):
        Ledger(workspace / "none.sqlite").back_up(workspace / "other.sqlite")


@pytest.fixture
def restored(ledger: Ledger, emulator: Emulator) -> Ledger:
    """Twelve requests are paid for in two batches, then an older copy takes the ledger's place."""
    judge, older = batch_judge(emulator), ledger.path.with_name("older.sqlite")
    samples.judged_by(judge, ledger, 3)
    ledger.back_up(older)
    samples.judged_by(judge, ledger)
    replace_file(ledger.path, older.read_bytes())
    return ledger


def test_a_restored_ledger_collects_what_it_lost(emulator: Emulator, restored: Ledger) -> None:
    """Also below newer ones that it knows, and where results end early; nothing is paid twice."""
    judge, sentences = batch_judge(emulator), list[str]()
    rigour = [replace(PAIRS[0], dimension="rigour")]
    judge_pairs(rigour, samples.TWO_RUBRICS, judge, restored, options=options(run="2"))
    emulator.faults.add(Fault(on="results", kind="short", times=2))
    judgments = samples.judged_by(judge, restored, run="3", say=sentences.append)
    assert ({*statuses(judgments)}, sizes(emulator)) == ({Status.OK}, [6, 6, 2])
    spent = sum(restored.spent(run) for run in ("first", "2", "3"))
    assert spent == pytest.approx(emulator.billing.total_usd)
    assert "holds 6 of these requests, but the ledger did not know it" in "".join(sentences)


def test_only_what_the_lost_batch_lacks_is_sent(emulator: Emulator, restored: Ledger) -> None:
    """Requests beyond a lost batch are sent, alone; one no longer wanted is not taken."""
    pairs = [*PAIRS[:3], *PAIRS[4:], replace(PAIRS[0], dimension="rigour")]
    material = replace(MATERIAL, rubrics={**samples.TWO_RUBRICS.rubrics, **MATERIAL.rubrics})
    asked = options(run="2")
    judgments = judge_pairs(pairs, material, batch_judge(emulator), restored, options=asked)
    assert ({*statuses(judgments)}, sizes(emulator), len(restored)) == ({Status.OK}, [6, 6, 2], 12)


def test_others_batches_are_left_alone(emulator: Emulator, ledger: Ledger, tmp_path: Path) -> None:
    """Batches of another ledger for other requests are not taken up; running ones are named."""
    judge, sentences = batch_judge(emulator), list[str]()
    samples.judged_by(judge, ledger, 1)
    judge_pairs(PAIRS[1:3], MATERIAL, judge, Ledger(tmp_path / "other.sqlite"), options=options())
    emulator.settings.batch_seconds = 3600
    running = judge.submit({"theirs": MATERIAL.requests(PAIRS[:1])[0]})
    emulator.settings.batch_seconds = 0
    judge_pairs(PAIRS[3:], MATERIAL, judge, ledger, options=options(say=sentences.append))
    assert sizes(emulator) == [2, 4, 1, 6]
    assert f"this ledger does not know {running.batch_id}" in sentences[0]
    assert not [text for text in sentences if "did not know" in text]


def flipped(content: bytes, at: int, mask: int) -> bytes:
    return content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :]


def replace_file(path: Path, content: bytes) -> None:
    """Put other bytes in a ledger's place, with nothing beside it."""
    for name in (f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)
    path.write_bytes(content)


def damage_text(ledger: Ledger, text: str) -> None:
    """Change one byte in the middle of a text that the file holds once."""
    content = ledger.path.read_bytes()
    assert content.count(text.encode()) == 1
    replace_file(ledger.path, flipped(content, content.index(text.encode()) + len(text) // 2, 1))


def test_no_flipped_byte_changes_or_loses_an_answer_in_silence(ledger: Ledger) -> None:
    """Over 100 single flipped bytes each answer comes back as it was kept, or there is an error."""
    random, errors = Random(0), 0
    answers = put_answers(ledger, 60)
    content = ledger.path.read_bytes()
    for _ in range(100):
        at, mask = random.randrange(len(content)), random.randrange(1, 256)
        replace_file(ledger.path, flipped(content, at, mask))
        try:
            assert ledger.settled(answers) == set(answers), f"byte {at} ^ {mask}"
            assert ledger.get(answers) == answers, f"byte {at} ^ {mask}"
        except DataError:
            errors += 1
    assert errors >= 20


def test_a_flipped_byte_never_makes_another_salt(ledger: Ledger) -> None:
    """The secret that every cache key depends on comes back as it was, or there is an error."""
    put_answers(ledger, 3)
    salt, errors = ledger.salt(), 0
    content = ledger.path.read_bytes()
    at_salt = content.index(salt)
    page = at_salt // 4096 * 4096
    for at in (*range(at_salt - 12, at_salt + 48), *range(page, page + 12)):
        replace_file(ledger.path, flipped(content, at, mask := 1 << at % 8))
        try:
            assert ledger.salt() == salt, f"byte {at} ^ {mask}"
        except DataError:
            errors += 1
    assert errors >= 32


def test_a_damaged_answer_is_named_and_not_used(ledger: Ledger) -> None:
    """One damaged answer is an error that names its request and its file; others still come."""
    answers = put_answers(ledger, 9)
    damage_text(ledger, answers["key4"].text)
    words = (
        r"verdicts\.sqlite: the kept answer to 'tone\|q4\|ash\|beech#1' is damaged and not used; "
        r"to request and pay it again: `arena-kit ledger check --forget-damaged`"
    )
    for read in (ledger.get, ledger.settled, lambda _: ledger.paid("first")):
        with pytest.raises(DataError, match=words):
            read(answers)
    del answers["key4"]
    assert ledger.get(answers) == answers


def test_a_damaged_answer_stops_a_run_before_it_pays(emulator: Emulator, ledger: Ledger) -> None:
    """With one answer damaged nothing is sent; once it is forgotten, it alone is asked again."""
    judge = batch_judge(emulator)
    samples.judged_by(judge, ledger, 3)
    [answer, *_] = ledger.paid("first")
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as con:
        con.execute("UPDATE answers SET text = 'A' WHERE request_id = ?", [answer.request_id])
    with pytest.raises(DataError, match="is damaged"):
        samples.judged_by(judge, ledger, run="second")
    assert sizes(emulator) == [6]
    assert [damage.request_id for damage in ledger.check().answers] == [answer.request_id]
    assert ledger.forget_damaged() == (1, pytest.approx(answer.cost_usd))
    assert {*statuses(samples.judged_by(judge, ledger, run="second"))} == {Status.OK}
    assert sizes(emulator) == [6, 7]


def test_check_names_all_that_is_damaged_and_forgets_it_when_told(workspace: Path) -> None:
    """`ledger check` ends with 2; `--forget-damaged` says what asking again may cost."""
    ledger = Ledger(workspace / ".arena_kit" / "verdicts.sqlite")
    answers = put_answers(ledger, 9)
    damage_text(ledger, answers["key4"].text)
    damage_text(ledger, answers["key7"].text)
    done = samples.call("ledger", "check", ledger.path)
    assert (done.exit_code, len(ledger)) == (2, 9)
    for n in (4, 7):
        assert f"the answer to 'tone|q{n}|ash|beech#1' is damaged" in done.stdout
    assert "--forget-damaged" in done.stderr
    done = samples.call("ledger", "check", "--forget-damaged")
    assert done.exit_code == 0, done.output
    assert "2 damaged answers are removed; requesting them again may cost $" in done.stdout
    assert set(ledger.get(answers)) == set(answers) - {"key4", "key7"}


def test_check_mends_a_damaged_index(ledger: Ledger) -> None:
    """A key damaged in the index comes back, one damaged in the table is forgotten."""
    answers = put_answers(ledger, 9)
    content = ledger.path.read_bytes()
    left = []
    for at in (content.find(b"key5"), content.rfind(b"key5")):  # the index and the table
        replace_file(ledger.path, flipped(content, at + 3, 8))
        assert samples.call("ledger", "check", ledger.path).exit_code == 2
        assert samples.call("ledger", "check", ledger.path, "--forget-damaged").exit_code == 0
        left.append(ledger.get(answers))
    without = {key: kept for key, kept in answers.items() if key != "key5"}
    assert left in ([answers, without], [without, answers])


@pytest.mark.parametrize("kill", [True, False])
def test_a_write_protected_ledger_is_read_and_not_written(tmp_path: Path, kill: bool) -> None:
    """With and without a `-wal` file beside it, and nothing is left there."""
    path = tmp_path / "kept" / "verdicts.sqlite"
    path.parent.mkdir()
    writer = Writer(path, 9)
    writer.begin()
    writer.wait(9)
    writer.end(kill=kill)
    before = sorted(path.parent.iterdir())
    assert kill == (path.with_name("verdicts.sqlite-wal") in before)
    samples.write_protect(path.parent)
    done = samples.run_unprivileged(READ, str(path), cwd=samples.ROOT)
    path.parent.chmod(0o755)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == "9 9 {'holder-1'}"
    assert (
        third == f"{path}: answers could not be kept (Permission denied), so nothing new is asked"
    )
    assert second.endswith("cannot be used (attempt to write a readonly database)")
    assert sorted(path.parent.iterdir()) == before
