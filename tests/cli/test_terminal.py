"""What the command line prints: a server's words are shown, never obeyed."""

import json
import os
import re
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from arena_kit.battles.battle import Battle, Outcome
from arena_kit.battles.log import BattleLog
from arena_kit.battles.write import write_battles
from arena_kit.cli.main import main
from arena_kit.cli.records import show_board
from arena_kit.files import visible
from arena_kit.judging.judges.base import Batch, BusyError, cache_keys
from arena_kit.judging.ledger.ledger import Ledger, Sender
from arena_kit.policy.constants import Phase, Policy
from arena_kit.policy.rules import Badge, PublicationLabel
from arena_kit.reporting.policy_tables import to_board
from arena_kit.validity.leaderboard import leaderboard
from tests import samples
from tests.emulator import Emulator, Fault
from tests.samples import KEY, MATERIAL, PAIRS, ROOT, batch_judge, copy_workspace, log_of, season

#: Clears the screen, sets the title of the window, overwrites a line, the same as one C1 byte,
#: and turns the direction of writing.
STEERING = "a\x1b[2J\x1b]0;title\x07b\rc\x9b31md\x7fe\u202ef"
SHOWN = "a[U+001B][2J[U+001B]]0;title[U+0007]b[U+000D]c[U+009B]31md[U+007F]e[U+202E]f"
BATCH = Batch(
    batch_id=f"msgbatch_{STEERING}", n_requests=12, status="in_progress",
    created_at="2026-11-01T00:00:00+00:00", expires_at="2026-11-02T00:00:00+00:00",
)  # fmt: skip


def here(*words: str, cwd: Path, emulator: Emulator) -> Result:
    """A command in this process, where the SDK is imported already, in a wide terminal."""
    address = {"ANTHROPIC_BASE_URL": emulator.base_url, "ANTHROPIC_API_KEY": KEY}
    with chdir(cwd):
        return CliRunner(env=address | {"COLUMNS": "400"}).invoke(main, words)


def steers(text: str) -> bool:
    """Whether a terminal that prints this text does anything but print."""
    return re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text) is not None


@pytest.fixture
def workspace(tmp_path: Path, emulator: Emulator) -> Path:
    """A workspace whose ledger holds a batch with a hostile id, as a service may give it."""
    root = copy_workspace(tmp_path / "workspace")
    ledger, judge = Ledger(root / ".arena_kit" / "verdicts.sqlite"), batch_judge(emulator)
    requests = MATERIAL.requests(PAIRS)
    by_key = dict(zip(cache_keys(judge, requests), requests, strict=True))
    intent = ledger.plan(by_key, Sender(judge, "judge", "first"), "batches")
    ledger.submitted(intent, BATCH)
    return root


def test_a_service_does_not_steer_the_terminal(workspace: Path, emulator: Emulator) -> None:
    """The table of batches shows an id with escape sequences in it as code points."""
    listed = here("ledger", "batches", cwd=workspace, emulator=emulator)
    assert f"msgbatch_{SHOWN}" in listed.stdout
    as_json = here("ledger", "batches", "--json", cwd=workspace, emulator=emulator)
    assert json.loads(as_json.stdout)[0]["batch_id"] == BATCH.batch_id
    emulator.faults.add(Fault(on="retrieve", kind="status", status=400, message=STEERING))
    refused = here("ledger", "batches", "--look", cwd=workspace, emulator=emulator)
    assert refused.exit_code == 1
    assert f"refused (400): {SHOWN}" in refused.stderr
    assert not steers(listed.stdout + as_json.stdout + refused.stderr + refused.stdout)


def test_names_do_not_steer_the_terminal(tmp_path: Path) -> None:
    """A dimension with escape sequences in its name is rated under a name that only prints."""
    rows = [
        Battle(model_a="gpt-4o", model_b="gpt-4\u043e", winner=winner, dimension=STEERING,
               question_id=f"q{n}")
        for n, winner in enumerate([Outcome.MODEL_A, Outcome.MODEL_B] * 10)
    ]  # fmt: skip
    write_battles(tmp_path / "votes.jsonl", BattleLog.from_battles(rows))
    rated = subprocess.run(
        [sys.executable, "-m", "arena_kit", "rate", "votes.jsonl"],
        cwd=tmp_path, env=os.environ | {"COLUMNS": "400"}, capture_output=True, text=True,
        check=True, timeout=120, encoding="utf-8",
    )  # fmt: skip
    assert SHOWN in rated.stdout.replace("\n", "")
    assert not steers(rated.stdout)
    told = r"warning: votes.jsonl: 'gpt-4o' and 'gpt-4\u043e' look alike and count as two models"
    assert rated.stderr == told + "\n"


@pytest.mark.parametrize("phase", Phase)
def test_12_the_board_in_the_terminal_shows_what_its_phase_shows(
    phase: Phase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Section 12: in phase 1 the terminal shows what readers saw before, rank, Elo and votes."""
    board = leaderboard(season(n=600), Policy(phase=phase))
    to_board(board, "arena").write(tmp_path)
    show_board(tmp_path)
    shown = capsys.readouterr().out
    hidden = ("confidence", "coverage", "badge", *Badge, *PublicationLabel, "computed")
    if phase is Phase.SHADOW:
        table, _, note = shown.partition("Phase 1:")
        assert not [word for word in hidden if word in table]
        assert "are in the record only" in note
        assert all(f"{row.legacy_elo:.0f}" in table for row in board.rows)
        assert not any(f" {row.conservative:.0f} " in table for row in board.rows)
    else:
        assert all(word in shown for word in hidden[:3])
        aside = "" if phase.publishes_status else " (computed, not published)"
        assert f"Rules kept{aside}: {board.status.status}" in shown
        assert f"Order decided{aside}: {board.order_decided.counts}" in shown.replace("\n", " ")


def test_what_steers_is_shown_and_the_rest_stays() -> None:
    """Control and bidi characters are shown, and no command prints past what shows them."""
    bidi = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
    for code in [*range(0x20), *range(0x7F, 0xA0), *bidi]:
        assert visible(chr(code)) == (chr(code) if chr(code) in "\t\n" else f"[U+{code:04X}]")
    plain = "Ärzte, 你好, שלום, مرحبا, 👩‍⚕️\n\tand\r\nso on"
    assert visible(plain) == plain.replace("\r", "")
    assert str(BusyError("\x1b[2J", 3.0)) == "[U+001B][2J"
    commands = [path for path in (ROOT / "arena_kit" / "cli").glob("*.py") if path.stem != "base"]
    assert commands
    for path in commands:
        assert not re.search(r"click\.s?echo", path.read_text()), f"{path} prints past base.echo"


def test_names_and_numbers_are_whole_at_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A board with long names has one line per model at 80 columns: it is headings that wrap."""
    monkeypatch.setenv("COLUMNS", "80")
    for size in (24, 32):
        names = [f"{letter * (size - 4)}-2.5" for letter in "mw"]
        write_battles(tmp_path / "votes.jsonl", log_of(samples.won(*names, 30, 20)))
        shown = CliRunner().invoke(main, ["rate", str(tmp_path / "votes.jsonl")]).stdout
        board = shown[: shown.index("  First place")].splitlines()
        assert all(f" {name} " in "\n".join(board) for name in names)
        assert max(map(len, board)) <= 80
        assert [line.split()[1] for line in board[-2:]] == names


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    """Whoever has read enough of an output is told of no error."""
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner\nx,y,tie\n")
    words = [sys.executable, "-m", "arena_kit", "rate", str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # long before the command prints
        assert process.stderr.read() == b""
