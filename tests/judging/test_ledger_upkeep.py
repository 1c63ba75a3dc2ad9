"""What was paid for survives a copied, a damaged and a write-protected ledger file."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from arena_kit.files import DataError
from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Answer, Status
from tests.emulator import Emulator, Fault
from tests.samples import (
    MATERIAL,
    PAIRS,
    ROOT,
    TWO_RUBRICS,
    batch_judge,
    call,
    options,
    run_unprivileged,
    sizes,
    statuses,
    write_protect,
)

#: Holds the ledger, keeps answers one by one and says how many there are, until it is ended.
_WRITER = """
import sys
from pathlib import Path
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Answer, Status
ledger = Ledger(Path(sys.argv[1]))
with ledger.locked("writer"):
    for i in range(int(sys.argv[2])):
        answer = Answer(request_id=f"r{i}", status=Status.OK, text=f"text {i} " * 50)
        ledger.put("judge/x", [(f"k{i}", answer)])
        print(i + 1, flush=True)
    sys.stdin.read()
"""


def writer(path: Path, n: int) -> subprocess.Popen[str]:
    """Another process that holds the ledger and keeps n answers."""
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), str(n)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_counts(process: subprocess.Popen[str], until: int) -> None:
    """Wait until the other process has kept so many answers."""
    assert process.stdout is not None
    while int(process.stdout.readline()) < until:
        pass


def put_answers(ledger: Ledger, n: int) -> dict[str, Answer]:
    """Keep n answers of some length; returns them by key."""
    answers = {
        f"key{i}": Answer(
            request_id=f"tone|q{i}|ash|beech#1",
            status=Status.OK,
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


def test_a_copy_made_during_a_run_answers_everything(
    emulator: Emulator, ledger: Ledger, tmp_path: Path
) -> None:
    """The ledger file alone, copied when the last group has come, pays for nothing again."""
    copy = tmp_path / "copy.sqlite"

    def copy_when_done(done: int, total: int) -> None:
        if done == total:
            shutil.copy(ledger.path, copy)

    judge = batch_judge(emulator)
    judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options(), on_progress=copy_when_done)
    judgments = judge_pairs(PAIRS, MATERIAL, judge, Ledger(copy), options=options(run="second"))
    assert set(statuses(judgments)) == {Status.OK}
    assert sizes(emulator) == [12]


def test_a_copy_made_after_a_kill_has_every_answer(ledger: Ledger, tmp_path: Path) -> None:
    """What a killed process had kept is in the ledger file alone, without what is beside it."""
    process = writer(ledger.path, 20)
    read_counts(process, until=20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    copy = tmp_path / "copy.sqlite"
    shutil.copy(ledger.path, copy)
    assert len(Ledger(copy)) == 20


def test_a_backup_during_a_run_is_whole(ledger: Ledger, tmp_path: Path) -> None:
    """A backup made while another process writes holds all that was kept when it began."""
    process = writer(ledger.path, 300)
    try:
        read_counts(process, until=100)
        ledger.back_up(tmp_path / "backup.sqlite")
    finally:
        process.communicate("")
    backup = Ledger(tmp_path / "backup.sqlite")
    n = len(backup)
    assert 100 <= n <= 300
    keys = [f"k{i}" for i in range(n)]
    assert {key: kept.text for key, kept in backup.get(keys).items()} == {
        f"k{i}": f"text {i} " * 50 for i in range(n)
    }
    assert len(ledger) == 300
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"backup.sqlite", ledger.path.name, f"{ledger.path.name}.lock"}


def test_the_backup_command_copies_the_ledger_of_the_workspace(workspace: Path) -> None:
    """`arena-kit ledger backup FILE` says how many answers the verified copy holds."""
    answers = put_answers(Ledger(workspace / ".arena_kit" / "verdicts.sqlite"), 3)
    done = call("ledger", "backup", "copy.sqlite")
    assert done.exit_code == 0, done.output
    assert done.stdout == "copy.sqlite: 3 answers, all as they were kept\n"
    assert Ledger(workspace / "copy.sqlite").get(answers) == answers
    again = call("ledger", "backup", "copy.sqlite")
    assert again.exit_code == 2
    assert "there is a file already" in again.stderr
    assert len(Ledger(workspace / "copy.sqlite")) == 3
    with pytest.raises(DataError, match="there is no ledger"):
        Ledger(workspace / "none.sqlite").back_up(workspace / "other.sqlite")


def restored(ledger: Ledger, emulator: Emulator) -> None:
    """Twelve requests are paid for in two batches, then an older copy takes the ledger's place."""
    judge = batch_judge(emulator)
    judge_pairs(PAIRS[:3], MATERIAL, judge, ledger, options=options())
    older = ledger.path.with_name("older.sqlite")
    ledger.back_up(older)
    judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options())
    replace_file(ledger.path, older.read_bytes())


def test_a_restored_older_ledger_collects_what_it_does_not_know(
    emulator: Emulator, ledger: Ledger
) -> None:
    """After an older copy was restored, a batch that only the service knows is collected and
    booked, with a sentence; nothing is paid twice.
    """
    restored(ledger, emulator)
    bill = emulator.billing.total_usd
    sentences: list[str] = []
    judgments = judge_pairs(
        PAIRS,
        MATERIAL,
        batch_judge(emulator),
        ledger,
        options=options(run="2", say=sentences.append),
    )
    assert set(statuses(judgments)) == {Status.OK}
    assert sizes(emulator) == [6, 6]
    assert emulator.billing.total_usd == bill
    assert ledger.spent("first") + ledger.spent("2") == pytest.approx(bill)
    assert "holds 6 of these requests, and the ledger did not know it" in sentences[0]


def test_only_what_the_lost_batch_lacks_is_sent(emulator: Emulator, ledger: Ledger) -> None:
    """Requests beyond those of a lost batch are sent, alone, and one that is no longer wanted is
    not taken from it.
    """
    restored(ledger, emulator)
    pairs = [*PAIRS[:3], *PAIRS[4:], replace(PAIRS[0], dimension="rigour")]
    material = replace(MATERIAL, rubrics={**TWO_RUBRICS.rubrics, **MATERIAL.rubrics})
    judgments = judge_pairs(
        pairs, material, batch_judge(emulator), ledger, options=options(run="2")
    )
    assert set(statuses(judgments)) == {Status.OK}
    assert sizes(emulator) == [6, 6, 2]
    assert len(ledger) == 12


def test_a_lost_batch_below_known_ones_is_collected(emulator: Emulator, ledger: Ledger) -> None:
    """A restored ledger that has sent something new since still finds what it had lost."""
    restored(ledger, emulator)
    rigour = [replace(pair, dimension="rigour") for pair in PAIRS[:1]]
    judge = batch_judge(emulator)
    judge_pairs(rigour, TWO_RUBRICS, judge, ledger, options=options(run="2"))
    judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options(run="3"))
    assert sizes(emulator) == [6, 6, 2]


def test_half_of_a_lost_batch_is_not_taken_for_all_of_it(
    emulator: Emulator, ledger: Ledger
) -> None:
    """Where results end too early without a sign of it, the rest is waited for, not sent."""
    restored(ledger, emulator)
    emulator.faults.add(Fault(on="results", kind="short", times=2))
    judge_pairs(PAIRS, MATERIAL, batch_judge(emulator), ledger, options=options(run="2"))
    assert sizes(emulator) == [6, 6]


def test_batches_of_others_are_left_alone(
    emulator: Emulator, ledger: Ledger, tmp_path: Path
) -> None:
    """Batches that another ledger made for other requests are not taken up; running ones are
    named, for only their results could tell.
    """
    judge, other = batch_judge(emulator), Ledger(tmp_path / "other.sqlite")
    judge_pairs(PAIRS[:1], MATERIAL, judge, ledger, options=options())
    judge_pairs(PAIRS[1:3], MATERIAL, judge, other, options=options())
    emulator.settings.batch_seconds = 3600
    running = judge.submit({"theirs": MATERIAL.requests(PAIRS[:1])[0]})
    emulator.settings.batch_seconds = 0
    sentences: list[str] = []
    judge_pairs(PAIRS[3:], MATERIAL, judge, ledger, options=options(say=sentences.append))
    assert sizes(emulator) == [2, 4, 1, 6]
    assert f"the account runs {running.batch_id}, unknown to this ledger" in sentences[0]
    assert not [text for text in sentences if "did not know" in text]


def flipped(content: bytes, at: int, mask: int) -> bytes:
    """The bytes with one of them changed."""
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


@pytest.mark.parametrize("seed", range(2))
def test_no_flipped_byte_changes_or_loses_an_answer_in_silence(ledger: Ledger, seed: int) -> None:
    """Over 100 single flipped bytes anywhere in the file, every answer comes back as it was
    kept, or there is an error; none is changed, and none is missing without one.
    """
    random = Random(seed)
    answers = put_answers(ledger, 60)
    content = ledger.path.read_bytes()
    errors = 0
    for _ in range(100):
        at, mask = random.randrange(len(content)), random.randrange(1, 256)
        replace_file(ledger.path, flipped(content, at, mask))
        try:
            settled = ledger.settled(answers)
            kept = ledger.get(answers)
        except DataError:
            errors += 1
        else:
            assert settled == set(answers), f"byte {at} ^ {mask}"
            assert kept == answers, f"byte {at} ^ {mask}"
    assert errors >= 20


def test_a_flipped_byte_never_makes_another_salt(ledger: Ledger) -> None:
    """The secret that every cache key depends on comes back as it was, or there is an error."""
    put_answers(ledger, 3)
    salt = ledger.salt()
    content = ledger.path.read_bytes()
    page = content.index(salt) // 4096 * 4096
    near = [*range(content.index(salt) - 12, content.index(salt) + 48), *range(page, page + 12)]
    errors = 0
    for at in near:
        for mask in (1, 2, 16, 128):
            replace_file(ledger.path, flipped(content, at, mask))
            try:
                assert ledger.salt() == salt, f"byte {at} ^ {mask}"
            except DataError:
                errors += 1
    assert errors >= 128


def test_a_damaged_answer_is_named_and_not_used(ledger: Ledger) -> None:
    """One damaged answer is an error that names its request and its file; others still come."""
    answers = put_answers(ledger, 9)
    damage_text(ledger, answers["key4"].text)
    words = (
        r"verdicts\.sqlite: the kept answer to 'tone\|q4\|ash\|beech#1' is damaged and not used; "
        r"`arena-kit ledger check --forget-damaged` .* again"
    )
    with pytest.raises(DataError, match=words):
        ledger.get(answers)
    with pytest.raises(DataError, match=words):
        ledger.settled(answers)
    with pytest.raises(DataError, match=words):
        ledger.paid("first")
    del answers["key4"]
    assert ledger.get(answers) == answers


def test_a_damaged_answer_stops_a_run_before_it_pays(emulator: Emulator, ledger: Ledger) -> None:
    """With one answer damaged nothing is sent; once it is forgotten, it alone is asked again."""
    judge = batch_judge(emulator)
    judge_pairs(PAIRS[:3], MATERIAL, judge, ledger, options=options())
    [answer, *_] = ledger.paid("first")
    with sqlite3.connect(ledger.path) as con:
        con.execute("UPDATE answers SET text = 'A' WHERE request_id = ?", [answer.request_id])
    con.close()
    with pytest.raises(DataError, match="is damaged and not used"):
        judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options(run="second"))
    assert sizes(emulator) == [6]
    assert [damage.request_id for damage in ledger.check().answers] == [answer.request_id]
    assert ledger.forget_damaged() == (1, pytest.approx(answer.cost_usd))
    judgments = judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options(run="second"))
    assert set(statuses(judgments)) == {Status.OK}
    assert sizes(emulator) == [6, 7]


def test_check_names_all_that_is_damaged_and_forgets_it_when_told(workspace: Path) -> None:
    """`ledger check` names damaged answers and ends with 2; `--forget-damaged` removes them and
    says what asking them again may cost.
    """
    ledger = Ledger(workspace / ".arena_kit" / "verdicts.sqlite")
    answers = put_answers(ledger, 9)
    damage_text(ledger, answers["key4"].text)
    damage_text(ledger, answers["key7"].text)
    done = call("ledger", "check", ledger.path)
    assert done.exit_code == 2
    assert "the answer to 'tone|q4|ash|beech#1' is damaged" in done.stdout
    assert "the answer to 'tone|q7|ash|beech#1' is damaged" in done.stdout
    assert "--forget-damaged" in done.stderr
    assert len(ledger) == 9
    done = call("ledger", "check", "--forget-damaged")
    assert done.exit_code == 0, done.output
    assert "2 damaged answers are forgotten; asking them again may cost $" in done.stdout
    assert set(ledger.get(answers)) == set(answers) - {"key4", "key7"}


def test_check_mends_a_damaged_index(ledger: Ledger) -> None:
    """`check` finds a key that is damaged in the index or in the table; `--forget-damaged` makes
    the index anew, which brings the answer back, and forgets one whose own key is damaged.
    """
    answers = put_answers(ledger, 9)
    content = ledger.path.read_bytes()
    left = []
    for at in (content.find(b"key5"), content.rfind(b"key5")):  # the index and the table
        replace_file(ledger.path, flipped(content, at + 3, 8))
        assert call("ledger", "check", ledger.path).exit_code == 2
        assert call("ledger", "check", ledger.path, "--forget-damaged").exit_code == 0
        left.append(ledger.get(answers))
    without = {key: kept for key, kept in answers.items() if key != "key5"}
    assert left in ([answers, without], [without, answers])


_READ = """
import sys
from pathlib import Path
from arena_kit.files import DataError
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Answer, Status
ledger = Ledger(Path(sys.argv[1]))
print(len(ledger), len(ledger.get(f"k{i}" for i in range(9))), ledger.settled(["k1", "other"]))
try:
    ledger.put("judge/x", [("new", Answer(request_id="r", status=Status.OK))])
except DataError as error:
    print(error)
"""


def test_a_write_protected_ledger_is_read_and_not_written(tmp_path: Path) -> None:
    """Answers come from a write-protected ledger, with and without a `-wal` file beside it, and
    nothing is left there; keeping an answer is one clear error.
    """
    ledger = Ledger(tmp_path / "kept" / "verdicts.sqlite")
    words = (
        "verdicts.sqlite: the verdict cache cannot be used (attempt to write a readonly database)"
    )
    for kill in (True, False):
        process = writer(ledger.path, 9)
        read_counts(process, until=9)
        if kill:
            process.kill()
        process.communicate("")
        before = sorted(ledger.path.parent.iterdir())
        assert kill == (ledger.path.with_name("verdicts.sqlite-wal") in before)
        write_protect(ledger.path.parent)
        done = run_unprivileged(_READ, str(ledger.path), cwd=ROOT)
        ledger.path.parent.chmod(0o755)
        for path in before:
            path.chmod(0o644)
        assert done.returncode == 0, done.stderr
        first, second = done.stdout.splitlines()
        assert first == "9 9 {'k1'}"
        assert second.endswith(words)
        assert sorted(ledger.path.parent.iterdir()) == before
