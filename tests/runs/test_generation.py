"""Responses made here: filled once, resumed, and never mixed with another definition's."""

import hashlib
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from arena_kit.files import DataError
from arena_kit.judging.asking.cost import CostError
from arena_kit.runs.record.record import Record, open_record
from arena_kit.runs.tournament.generate import Generation
from tests.emulator import ApiError, Emulator, Fault, Reply
from tests.samples import KEY, call, plan_of, sizes

N = 6
TOURNAMENT = "params/small.yaml"


@pytest.fixture(autouse=True)
def _a_key(_no_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


class Arena:
    """A workspace with six prompts and two entrants, made at the emulated service."""

    def __init__(self, root: Path, emulator: Emulator) -> None:
        self.root = root
        self.emulator = emulator
        bank = (root / "sample" / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
        few = bank[:N]
        (root / "sample" / "few.jsonl").write_text("\n".join(few) + "\n", encoding="utf-8")
        self.prompts = [json.loads(line) for line in few]
        self.file = root / "responses" / "responses_plain.jsonl"
        values = yaml.safe_load((root / "params" / "own_entrants.yaml").read_text())
        claude = {"backend": "anthropic", "model": "claude-sonnet-5-5", "max_tokens": 400}
        claude |= {"base_url": emulator.base_url}
        values |= {"prompts": "sample/few.jsonl", "entrants": ["plain", "terse"]}
        values["generate"] = {"plain": claude, "terse": claude | {"system": "Be brief."}}
        self.write(values)

    def write(self, values: dict[str, Any]) -> None:
        (self.root / TOURNAMENT).write_text(yaml.safe_dump(values), encoding="utf-8")

    def define(self, entrant: str = "plain", **changes: Any) -> None:
        """Change an entrant's definition; None takes a key away."""
        values = yaml.safe_load((self.root / TOURNAMENT).read_text())
        definition = values["generate"][entrant] | changes
        values["generate"][entrant] = {k: v for k, v in definition.items() if v is not None}
        self.write(values)

    def serve_by_chat(self, **changes: Any) -> None:
        """Let `plain` be a model behind a chat-completions server on this machine."""
        chat: dict[str, Any] = {
            "backend": "openai_compatible",
            "base_url": f"{self.emulator.base_url}/v1",
        }
        self.define(**(chat | {"model": "own", "temperature": 0.7} | changes))

    def plan(self, **changes: Any) -> Generation:
        shared = {"tournament": TOURNAMENT, "entrants": ["plain"], "max_cost_usd": 5.0}
        return Generation.read(shared | changes, "parameters")

    def generate(self, **changes: Any) -> Record:
        return self.plan(**changes).run()

    def rows(self, file: Path | None = None) -> list[dict[str, Any]]:
        """The file's lines, each of which must be whole."""
        lines = (file or self.file).read_bytes().split(b"\n")
        assert lines[-1] == b"", "the file ends with a newline"
        return [json.loads(line) for line in lines[:-1]]

    def texts(self) -> dict[str, str]:
        return {row["prompt_id"]: row["response_text"] for row in self.rows()}

    def complete(self) -> bool:
        """Whether the file answers every prompt once."""
        return sorted(row["prompt_id"] for row in self.rows()) == sorted(
            prompt["prompt_id"] for prompt in self.prompts
        )

    def asked(self) -> int:
        """How many requests the service has accepted."""
        return len(self.emulator.billing.accepted)

    def last_record(self) -> dict[str, Any]:
        newest = max((self.root / "runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return open_record(newest)


@pytest.fixture
def arena(workspace: Path, emulator: Emulator) -> Arena:
    return Arena(workspace, emulator)


@contextmanager
def ctrl_c(when: Callable[[], bool]) -> Iterator[None]:
    """Press Ctrl-C in the main thread a moment after something became so."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.005):
            if when():
                time.sleep(0.1)
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                return

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGINT, before)


def test_a_file_is_filled_by_a_batch(arena: Arena) -> None:
    """Every prompt gets one line with the documented columns, from one batch, as billed."""
    manifest = arena.generate().read()
    assert arena.complete()
    assert sizes(arena.emulator) == [N]
    definition = {
        "backend": "anthropic", "base_url": arena.emulator.base_url, "effort": "",
        "max_tokens": 400, "model": "claude-sonnet-5-5", "seed": None, "system": "",
        "temperature": None,
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()
    columns = {"entrant_id", "prompt_id", "response_text", "diagnostics", "timestamp"}
    about = {"definition", "model", "served_model", "status", "usage", "cost_usd"}
    for row in arena.rows():
        assert (set(row), set(row["diagnostics"])) == (columns, about)
        assert (row["entrant_id"], row["diagnostics"]["definition"]) == ("plain", digest)
        assert row["response_text"]
    paid = sum(row["diagnostics"]["cost_usd"] for row in arena.rows())
    assert paid == pytest.approx(arena.emulator.billing.total_usd, abs=1e-12)
    assert manifest["cost"]["usd_spent"] == pytest.approx(paid, abs=1e-12)
    assert (manifest["status"], manifest["mode"]) == ("finished", "generate")
    made = manifest["entrants"]["plain"]
    assert (made["responses"], made["definition"]) == ({"ok": N}, digest)
    assert made["file"] == "responses/responses_plain.jsonl"
    assert KEY not in json.dumps(manifest)
    before = arena.file.read_bytes()
    assert arena.generate().read()["cost"]["usd_spent"] == 0.0
    assert (arena.file.read_bytes(), arena.asked()) == (before, N)


def test_what_is_sent(arena: Arena) -> None:
    """A batch's body holds the prompt's text and the entrant's settings: no schema, no names."""
    seen: list[dict[str, Any]] = []
    arena.emulator.settings.behaviour = lambda params: seen.append(params) or "An answer."
    arena.define("terse", effort="high")
    arena.generate(entrants=["terse"])
    cached = {"type": "ephemeral", "ttl": "1h"}
    assert seen == [
        {
            "model": "claude-sonnet-5-5",
            "max_tokens": 400,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": cached}],
            "messages": [{"role": "user", "content": prompt["text"]}],
            "output_config": {"effort": "high"},
        }
        for prompt in arena.prompts
    ]
    arena.define("terse", transport="messages")
    arena.generate(entrants=["terse"])
    assert len(seen) == N
    seen.clear()
    arena.serve_by_chat()
    arena.generate(max_cost_usd=0)
    assert arena.complete()
    assert {row["diagnostics"]["cost_usd"] for row in arena.rows()} == {0.0}
    assert all("seed" not in body and "response_format" not in body for body in seen)
    assert [body["temperature"] for body in seen] == [0.7] * N


def test_a_failed_prompt_is_told_and_asked_again_a_refusal_is_a_response(arena: Arena) -> None:
    """A prompt that fails is told and asked again; a refusal is a response, paid once."""
    bad = arena.prompts[2]

    def refuse_one(params: Any) -> str | Reply:
        if params["messages"][0]["content"] == bad["text"]:
            raise ApiError(400, "Not this one.")
        return Reply(text="No.", stop_reason="refusal")

    arena.emulator.settings.behaviour = refuse_one
    made = arena.generate().read()["entrants"]["plain"]
    assert made["failed"] == {bad["prompt_id"]: "invalid_request_error: Not this one."}
    assert made["responses"] == {"refused": N - 1}
    assert [row["response_text"] for row in arena.rows()] == ["No."] * (N - 1)
    arena.emulator.settings.behaviour = "reader"
    assert arena.generate().read()["entrants"]["plain"]["failed"] == {}
    assert arena.complete()
    assert arena.asked() == N + 1
    arena.emulator.faults.add(Fault(on="item", kind="message_null", count=1))
    arena.define(system="Answer in verse.")
    arena.generate()
    assert len(arena.rows()) == N - 1


def test_an_interrupted_live_run_keeps_what_came(arena: Arena) -> None:
    """A response is in the file as soon as it came."""
    arena.serve_by_chat()
    arena.emulator.faults.add(Fault(on="chat", kind="hang", after=N - 1, seconds=0.6))

    def five_lines() -> bool:
        return arena.file.is_file() and arena.file.read_bytes().count(b"\n") == N - 1

    with pytest.raises(KeyboardInterrupt), ctrl_c(five_lines):
        arena.generate()
    assert len(arena.rows()) == N - 1
    arena.serve_by_chat(seed=7)
    arena.emulator.settings.latency, before = 0.4, arena.asked()
    with pytest.raises(KeyboardInterrupt), ctrl_c(lambda: arena.asked() == before + 4):
        arena.generate()
    assert len(arena.rows()) == arena.asked() - before == 4
    failed = arena.last_record()
    assert (failed["status"], failed["cost"]["usd_spent"]) == ("failed", 0.0)
    arena.generate()
    assert arena.complete()
    assert arena.asked() - before == N


def test_lost_and_torn_lines_are_written_from_the_ledger(arena: Arena) -> None:
    """A file that is gone, that lost lines, or whose last line was cut short by a crash."""
    arena.emulator.settings.behaviour = lambda params: "One\u2028\u2029\u0085two, naïveté"
    arena.generate()
    whole, before = arena.file.read_bytes(), arena.texts()
    three = b"".join(whole.splitlines(keepends=True)[:3])
    inside = whole[: whole.rfind("é".encode()) + 1]
    for damaged in (b"", three, whole[:-1], whole[:-20], whole[:-150], inside):
        arena.file.write_bytes(damaged)
        arena.generate()
        assert arena.texts() == before
        assert arena.complete()
    assert whole.startswith(three)
    assert arena.asked() == N


def test_a_changed_definition_is_asked_anew(arena: Arena) -> None:
    """Responses of an earlier definition leave the file and are refused by judging."""
    arena.generate(entrants=[])
    [old] = {row["diagnostics"]["definition"] for row in arena.rows()}
    arena.define(system="Answer in verse.")
    stale = r"responses_plain.jsonl: .* not made by plain's present definition; run"
    with pytest.raises(DataError, match=stale):
        plan_of("pilot", tournament=TOURNAMENT)
    arena.generate()
    plan_of("pilot", tournament=TOURNAMENT)
    assert old not in {row["diagnostics"]["definition"] for row in arena.rows()}
    assert arena.complete()
    arena.define(system=None)
    arena.generate()
    assert {row["diagnostics"]["definition"] for row in arena.rows()} == {old}
    assert sizes(arena.emulator) == [N, N, N]
    other = {"entrant_id": "plain", "prompt_id": arena.prompts[0]["prompt_id"]}
    arena.file.write_text(line := json.dumps(other | {"response_text": "Mine."}) + "\n")
    with pytest.raises(DataError, match=r"responses_plain.jsonl: holds responses made elsewhere"):
        arena.generate()
    assert (arena.file.read_text(), sizes(arena.emulator)) == (line, [N, N, N])
    with pytest.raises(DataError, match="present definition"):
        plan_of("pilot", tournament=TOURNAMENT)


def test_each_prompt_has_a_seed_of_its_own(arena: Arena) -> None:
    """Seeds differ by prompt and definition, fit into 31 bits, are sent and stand in the file."""
    sent: dict[str, int] = {}

    def seeds(seed: int) -> dict[str, int]:
        arena.serve_by_chat(seed=seed)
        arena.emulator.settings.behaviour = lambda body: (
            sent.update({body["messages"][-1]["content"]: body["seed"]}) or "An answer."
        )
        arena.generate()
        found = {row["prompt_id"]: row["diagnostics"]["seed"] for row in arena.rows()}
        assert found == {p["prompt_id"]: sent[p["text"]] for p in arena.prompts}
        return found

    first, other = seeds(7), seeds(8)
    assert len({*first.values(), *other.values()}) == 2 * N
    assert all(0 <= seed < 2**31 for seed in first.values())


@pytest.mark.parametrize(
    ("cap", "entrants", "kind"),
    [(0, ["plain"], DataError), (0.0001, ["plain"], CostError), (1.1, [], CostError)],
    ids=["no cap", "below the forecast", "enough for one alone"],
)
def test_a_cap_is_held(arena: Arena, cap: float, entrants: list[str], kind: type) -> None:
    """Without a cap, below the forecast, or above it for all together, nothing is sent."""
    if not entrants:
        cap *= max(each.usd_no_hits for each in arena.plan(entrants=[]).forecasts().values())
    with pytest.raises(kind, match="max_cost_usd"):
        arena.generate(entrants=entrants, max_cost_usd=cap)
    assert arena.asked() == 0
    assert not (arena.root / "runs").exists()
    assert not arena.file.exists()


def test_offline_writes_from_the_ledger_alone(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline a file is rebuilt without a key, a cap or a request; what is missing is refused."""
    with pytest.raises(DataError, match=r"offline, but 6 responses of .*plain.jsonl are not made"):
        arena.generate(offline=True, max_cost_usd=0)
    assert arena.emulator.requests == []
    arena.generate()
    before, n = arena.texts(), len(arena.emulator.requests)
    arena.file.unlink()
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    arena.generate(offline=True, max_cost_usd=0)
    assert arena.texts() == before
    arena.define(system="Answer in verse.")
    with pytest.raises(DataError, match="no key: set ANTHROPIC_API_KEY"):
        arena.generate()
    assert len(arena.emulator.requests) == n


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"entrants": ["oak"]}, 2), ({"tournament": "params/tournament.yaml"}, 2),
        ({"colour": "blue"}, 2), ({"max_cost_usd": -1}, 2), ({"max_cost_usd": 0.0001}, 3), ({}, 0),
    ],
)  # fmt: skip
def test_the_command_line(arena: Arena, changes: dict[str, Any], code: int) -> None:
    """`generate` forecasts without sending, then fills the files and prints the record's path."""
    file = arena.root / "params" / "small_generate.yaml"
    file.write_text(yaml.safe_dump({"tournament": TOURNAMENT, "max_cost_usd": 5.0} | changes))
    done = call("generate", "--params", file)
    assert done.exit_code == code, done.output
    if code:
        assert (len(done.stderr.strip().splitlines()), arena.asked()) == (1, 0)
        return
    assert open_record(done.stdout.splitlines()[-1])["status"] == "finished"
    assert arena.complete()
    assert arena.asked() == 2 * N
    forecast = call("generate", "--params", file, "--forecast", "--json")
    assert {name: each["answered"] for name, each in json.loads(forecast.stdout).items()} == {
        "plain": N, "terse": N,
    }  # fmt: skip
    assert arena.asked() == 2 * N
