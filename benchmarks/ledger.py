"""What our own code adds to a paid run of 100,000 requests, and the memory it takes.

    .venv/bin/python benchmarks/ledger.py

A tournament of 50,000 pairs is judged in both orders through the real SDK against the
loopback emulator, which runs in a process of its own. Time inside the SDK's calls and in
pauses is taken out; what remains is ours: rendering, keys, the ledger, reading, settling.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import combinations, islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import anthropic  # noqa: E402
import httpx2  # noqa: E402
from anthropic.resources.messages.batches import Batches  # noqa: E402
from anthropic.resources.messages.messages import Messages  # noqa: E402
from anthropic.resources.models import Models  # noqa: E402

from arena_kit.judging.asking.judge_pairs import Material, judge_pairs  # noqa: E402
from arena_kit.judging.asking.options import AskOptions, Backoff  # noqa: E402
from arena_kit.judging.judges.anthropic import AnthropicBatches  # noqa: E402
from arena_kit.judging.judges.base import Price  # noqa: E402
from arena_kit.judging.ledger.ledger import Ledger  # noqa: E402
from arena_kit.judging.pairs.prompts import Pair, Prompt, Response  # noqa: E402
from arena_kit.judging.verdicts.rendering import Rubric  # noqa: E402

N_PAIRS = int(os.environ.get("ARENA_KIT_BENCH_PAIRS", "50000"))
MICROSECONDS, GIGABYTES = 160.0, 2.0
ENTRANTS = [f"entrant-{i:02d}" for i in range(26)]
WORDS = "calcium renal dose repeat advise monitor review potassium bleed stop within hours".split()


SDK_CALLS = [
    (Batches, "create"),
    (Batches, "retrieve"),
    (Batches, "list"),
    (Messages, "count_tokens"),
    (Models, "retrieve"),
    (anthropic.Anthropic, "get"),
]


class Outside:
    """Adds up the time spent in other people's code and in pauses, by the clock and by the
    processor.
    """

    def __init__(self) -> None:
        self.seconds = self.cpu = 0.0
        self._inside = False

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return call(*args, **kwargs)
            self._inside, start, cpu = True, time.perf_counter(), time.thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                self._inside = False
                self.seconds += time.perf_counter() - start
                self.cpu += time.thread_time() - cpu

        return wrapped

    def timed_chunks(self, chunks: Callable[..., Iterator[bytes]]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Iterator[bytes]:
            step = self.timed(chunks(*args, **kwargs).__next__)
            while True:
                try:
                    yield step()
                except StopIteration:
                    return

        return wrapped


def tournament() -> tuple[list[Pair], Material]:
    """Pairs with responses of ordinary length and rubrics of the shipped ones' size."""
    n_prompts = N_PAIRS // 325 + 1
    prompts = [f"q{i:04d}" for i in range(n_prompts)]
    pairs = (
        Pair(dimension="factuality", prompt_id=p, entrant_a=a, entrant_b=b)
        for p in prompts
        for a, b in combinations(ENTRANTS, 2)
    )
    material = Material(
        prompts={p: Prompt(prompt_id=p, text=_text(p, 40), source="s") for p in prompts},
        responses={
            (e, p): Response(entrant_id=e, prompt_id=p, response_text=_text(e + p, 90))
            for e in ENTRANTS
            for p in prompts
        },
        rubrics={
            "factuality": Rubric(
                dimension="factuality",
                version="2",
                text=(ROOT / "params/rubrics/factuality.md").read_text(encoding="utf-8"),
            )
        },
        salt=b"salt",
    )
    return list(islice(pairs, N_PAIRS)), material


def _text(seed: str, n: int) -> str:
    start = sum(seed.encode())
    return " ".join(f"{WORDS[(start * (i + 1)) % len(WORDS)]}{i % 7}" for i in range(n)) + seed


def emulator() -> tuple[subprocess.Popen[str], str]:
    """An emulator in its own process, and its address."""
    command = [sys.executable, "-m", "tests.emulator", "--port", "0", "--seconds", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    address = process.stdout.readline().split()[-1]
    return process, address


def main() -> None:
    """Print the time per request and the memory, beside their bars."""
    pairs, material = tournament()
    outside = Outside()
    for owner, name in SDK_CALLS:
        setattr(owner, name, outside.timed(getattr(owner, name)))
    httpx2.Response.iter_bytes = outside.timed_chunks(httpx2.Response.iter_bytes)
    time.sleep = outside.timed(time.sleep)
    process, address = emulator()
    try:
        client = anthropic.Anthropic(api_key="none", base_url=address, max_retries=0)
        price = Price(model="claude-opus-5-5", input=4, output=20, write=8, read=0.2)
        judge = AnthropicBatches(
            client=client, model="claude-opus-5-5", price=price, max_tokens=4096, effort=""
        )
        options = AskOptions(run="bench", backoff=Backoff(first_wait=0.2))
        with tempfile.TemporaryDirectory() as folder:
            first, second = (Ledger(Path(folder) / name) for name in ("first", "second"))
            judge_pairs(pairs[:1], material, judge, first, options=options)  # the SDK loads lazily
            outside.seconds = outside.cpu = 0.0
            start, cpu = time.perf_counter(), time.thread_time()
            judgments = judge_pairs(pairs, material, judge, second, options=options)
            total, cpu = time.perf_counter() - start, time.thread_time() - cpu
    finally:
        process.terminate()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    n = 2 * len(judgments)
    each = (total - outside.seconds) / n * 1e6
    ok = [each <= MICROSECONDS, peak <= GIGABYTES]
    print(f"{n} requests in {total:.1f} s, of which {outside.seconds:.1f} s in the SDK and pauses")
    own = (cpu - outside.cpu) / n * 1e6
    print(f"our own code: {each:.0f} µs a request (bar {MICROSECONDS:.0f}): {_met(ok[0])}; "
          f"{own:.0f} µs of the processor")  # fmt: skip
    print(f"peak memory: {peak:.2f} GB (bar {GIGABYTES:.0f}): {_met(ok[1])}")
    sys.exit(not all(ok))


def _met(met: bool) -> str:
    return "met" if met else "NOT MET"


if __name__ == "__main__":
    main()
