"""Side by side with peers in one run: ratios, not wall times, are the result.

    make bench

Both sides get the same synthetic battles. Every work runs in fresh processes: ours (`ours.py`)
under this Python, the peer's (`peers.py`) under that of `.venv/peers`, in turns. Shown is the best
of several calls; `first` is our first call in a new environment, with all imports and every kernel
compiled, by the clock and, in brackets, the processor's time from the start of Python. `of CPU` is
the ratio of processor time, which says what a busy machine hides: the peers use one core, some of
our works use all. A bar that is missed, or that could not be measured, makes the exit status 1.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OURS = Path(sys.executable)
PEERS = HERE.parent / ".venv" / "peers" / "bin" / "python"
READY = PEERS.parent.parent / "ready"  # made by make when every peer is installed
COLD_RUNS = 7
ROUNDS = int(os.environ.get("ARENA_KIT_BENCH_ROUNDS", "2"))  # of peer and ours, in turns

Measured = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What ours is held to: times faster, or times the peer's time, megabytes, and seconds of the
    first call; 0 is no bar. Without any, a line only informs.
    """

    faster: float = 0
    slower: float = 0
    mb: float = 0
    first: float = 0

    @property
    def informs(self) -> bool:
        return not (self.faster or self.slower or self.mb)

    def __str__(self) -> str:
        if self.informs:
            return ""
        told = f"≥ {self.faster:g}x" if self.faster else f"≤ {self.slower:g}x time"
        told += f", ≤ {self.mb:g} MB" if self.mb else ""
        return told + (f", first ≤ {self.first:g} s" if self.first else "")

    def met(self, ours: Measured, peer: Measured) -> bool:
        """Whether times and memory are within the bar."""
        if (self.mb and ours["peak_mb"] > self.mb) or (self.first and ours["first"] > self.first):
            return False
        if self.faster:
            return bool(peer["seconds"] >= self.faster * ours["seconds"])
        return bool(ours["seconds"] <= self.slower * peer["seconds"])


@dataclass(frozen=True, kw_only=True)
class Work:
    """One line of the table: what `ours.py` and `peers.py` are asked for, and the bar."""

    what: str
    ours: str
    peer: str
    bar: Bar
    peer_python: Path = field(default=PEERS)


WORKS = [
    Work(what="permutation Elo, 10,000 x 1,000 orders x 8", ours="elo", peer="elo",
         bar=Bar(faster=35, first=3)),
    Work(what="BT fit alone, 87,231 x 129, codes", ours="strengths", peer="fit",
         bar=Bar(faster=1.8)),
    Work(what="  the same with sandwich intervals", ours="fit", peer="fit", bar=Bar(faster=0.65)),
    Work(what="  the same from a frame of names", ours="fit_frame", peer="fit_frame", bar=Bar()),
    Work(what="BT + 1,000 bootstraps, 87,231 x 129, codes", ours="bootstrap", peer="bootstrap",
         bar=Bar(faster=65, mb=500, first=3)),
    Work(what="  the same by question (17,446)", ours="bootstrap_questions", peer="bootstrap",
         bar=Bar(faster=65, mb=500, first=3)),
    Work(what="  the same from a frame of names", ours="bootstrap_frame",
         peer="bootstrap_frame", bar=Bar()),
    Work(what="BT + 100 bootstraps, 2,000,000 x 300, codes", ours="bootstrap_large",
         peer="bootstrap_large", bar=Bar(faster=250, mb=1000)),
    Work(what="Glicko-2 per vote, 1,000,000 x 50", ours="glicko2", peer="glicko2",
         bar=Bar(faster=80, first=3)),
    Work(what="read 1,000,000 battles (JSONL)", ours="read", peer="read",
         bar=Bar(slower=2.7), peer_python=OURS),
    Work(what="read 1,000 battles (CSV)", ours="read_small", peer="read_small",
         bar=Bar(), peer_python=OURS),
]  # fmt: skip
COLD = {
    "cold start, rate 1,000 battles: default / bradley-terry": ([], "bradley-terry"),
    "cold start: --method elo / same": (["--method", "elo"], "elo"),
}


def best(call: Callable[[], object], *, at_least: int = 3, seconds: float = 1.0) -> Measured:
    """The shortest of several calls, the least disturbed one, by the clock and by the processor's
    time; quick calls are made more often.
    """
    times: list[tuple[float, float]] = []
    while len(times) < at_least or sum(each[0] for each in times) < seconds:
        start, cpu = time.perf_counter(), time.process_time()
        call()
        times.append((time.perf_counter() - start, time.process_time() - cpu))
    return {"seconds": min(each[0] for each in times), "cpu": min(each[1] for each in times)}


def peak_mb() -> float:
    """The most memory that this process has held (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def worker(python: Path, script: str, name: str, folder: str) -> Measured:
    """What a worker says of one work; `error` where it failed."""
    if python == PEERS and not READY.exists():
        return {"error": "no peers"}
    command = [str(python), str(HERE / script), name, folder]
    with tempfile.TemporaryDirectory() as kernels:  # nothing is compiled there yet
        env = os.environ | {"NUMBA_CACHE_DIR": kernels}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        return {"error": (done.stderr.strip() or "no message").splitlines()[-1]}
    found: Measured = json.loads(done.stdout)
    return found


def least(several: list[Measured]) -> Measured:
    """The least of each figure of several runs of one work; an error where one failed."""
    figures = ("seconds", "cpu", "first", "first_cpu", "peak_mb")
    if any("error" in each for each in several):
        return next(each for each in several if "error" in each)
    return several[0] | {
        name: min(each[name] for each in several) for name in figures if name in several[0]
    }


def cold_start(folder: str, options: list[str], algorithm: str) -> tuple[Measured, Measured]:
    """The two command lines on the same 1,000 battles, run in turns."""
    ours = [OURS.parent / "arena-kit", "rate", f"{folder}/battles.csv", *options]
    peer = [PEERS.parent / "evalica", "-i", f"{folder}/peer.csv", "pairwise", algorithm]
    if not READY.exists():
        times = [_run(ours) for _ in range(COLD_RUNS)]
        return {"seconds": min(times[1:]), "first": times[0]}, {"error": "no peers"}
    turns = [(_run(ours), _run(peer)) for _ in range(COLD_RUNS)]
    best_ours, best_peer = (min(times) for times in zip(*turns[1:], strict=True))
    return {"seconds": best_ours, "first": turns[0][0]}, {
        "seconds": best_peer,
        "version": "evalica's command",
    }


def _run(command: list[Any]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def show(what: str, ours: Measured, peer: Measured, bar: Bar) -> bool | None:
    """Print one line and say whether its bar is met; None where it has none."""
    measured = "error" not in ours and "error" not in peer
    met = measured and bar.met(ours, peer)
    ratio = _ratio(ours, peer, bar) if measured else ""
    verdict = "met" if met else "NOT MET" if measured else "not measured"
    by_cpu = f"{peer['cpu'] / ours['cpu']:.3g}x" if measured and "cpu" in peer else ""
    numbers = (f"{ratio:>10}", f"{by_cpu:>7}", f" {bar!s:<32}")
    cells = (f"{what:<50}", *_ours(ours), *_peer(peer), *numbers)
    print(*cells, "" if bar.informs else verdict, flush=True)
    return None if bar.informs else met


def _ours(ours: Measured) -> tuple[str, str, str]:
    if "error" in ours:
        return f"failed: {ours['error']}", "", ""
    peak = f"{ours['peak_mb']:.0f} MB" if "peak_mb" in ours else ""
    cpu = f"({ours['first_cpu']:.1f})" if "first_cpu" in ours else ""
    return f"{ours['seconds']:8.4f} s", f"{ours['first']:6.2f} s {cpu:<5}", f"{peak:>7}"


def _peer(peer: Measured) -> tuple[str, str]:
    if "error" in peer:
        return f"  {peer['error']:<26}", f"{'':26}"
    part = f"x {peer['measured']:,} of {peer['of']:,}" if peer.get("measured") else ""
    return f"  {peer['version']:<26}", f"{peer['seconds']:8.3f} s {part:<19}"


def _ratio(ours: Measured, peer: Measured, bar: Bar) -> str:
    if not bar.slower:
        return f"{peer['seconds'] / ours['seconds']:.3g}x"
    return f"{ours['seconds'] / peer['seconds']:.2f}x time"


def header_if_busy() -> None:
    """Say that other work disturbs what is measured."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 2:
        print(f"The machine is busy (load {load:.1f} on {cores} cores): these times are disturbed.")


def header() -> None:
    """Print what the columns are, and what to know before reading them."""
    header_if_busy()
    if not READY.exists():
        print("There is no environment of peers in .venv/peers, so only our side is measured.")
    print(f"{'work':<50} {'ours':>10} {'first (CPU)':>14} {'peak':>7}   {'peer':<26}", end="")
    print(f" {'its time':>10} {'(x: extrapolated)':<19} {'ratio':>10} {'of CPU':>7}  {'bar':<32}")


def main() -> None:
    """Run every benchmark and say whether all bars are met."""
    header()
    met = []
    peers: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([OURS, HERE / "ours.py", "data", folder], check=True)
        for work in WORKS:
            ours, peer = [], peers.setdefault(work.peer, [])
            for turn in range(ROUNDS):
                if len(peer) <= turn:
                    peer.append(worker(work.peer_python, "peers.py", work.peer, folder))
                ours.append(worker(OURS, "ours.py", work.ours, folder))
            met.append(show(work.what, least(ours), least(peer), work.bar))
        for what, (options, algorithm) in COLD.items():
            ours, peer = cold_start(folder, options, algorithm)
            met.append(show(what, ours, peer, Bar(slower=1.5)))
    held = [each for each in met if each is not None]
    print(f"{sum(held)} of {len(held)} bars met")
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
