"""Run the emulator in the foreground: `python -m tests.emulator --port 8787`."""

from __future__ import annotations

import argparse
import sys
from threading import Event

from tests.emulator.server import Emulator


def main() -> None:
    """Serve until interrupted."""
    options = _parser().parse_args()
    with Emulator(
        port=options.port,
        verbose=options.verbose,
        seed=options.seed,
        batch_seconds=options.seconds,
        speed=options.speed,
        miss_rate=options.miss_rate,
        behaviour=options.behaviour,
        latency=options.latency,
        key=options.key_check,
    ) as emulator:
        sys.stdout.write(
            f"Serving at {emulator.base_url}\n"
            f"Use it:  export ANTHROPIC_BASE_URL={emulator.base_url} ANTHROPIC_API_KEY=any\n"
            f"Look:    curl {emulator.base_url}/_emulator/billing\n"
        )
        sys.stdout.flush()
        try:
            Event().wait()
        except KeyboardInterrupt:
            sys.stdout.write("Stopped.\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.emulator", description=__doc__)
    parser.add_argument("--port", type=int, default=8787, help="0 takes a free one")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long a batch takes")
    parser.add_argument("--speed", type=float, default=1.0, help="virtual per real seconds")
    parser.add_argument("--miss-rate", type=float, default=0.1, help="cache misses in a batch")
    parser.add_argument("--behaviour", default="reader", help="how the judge answers")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds per message")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--key-check", metavar="KEY", help="the only credential accepted")
    parser.add_argument("--verbose", action="store_true", help="one line per request")
    return parser


if __name__ == "__main__":
    main()
