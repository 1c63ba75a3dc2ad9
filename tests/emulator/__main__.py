"""Run the emulator in the foreground: `python -m tests.emulator --port 8787`."""

import argparse
import sys
from threading import Event

from tests.emulator.behaviours import BEHAVIOURS
from tests.emulator.server import Emulator

#: How the judge answers who is tried for free: docs/claude.md has the commands.
DEFAULT = "attentive"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.emulator", description=__doc__)
    parser.add_argument("--port", type=int, default=8787, help="0 takes a free one")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long a batch takes")
    names = ["mixed", *BEHAVIOURS]
    parser.add_argument("--behaviour", default=DEFAULT, choices=names, help="of the judge")
    given = parser.parse_args()
    try:
        emulator = Emulator(port=given.port, batch_seconds=given.seconds, behaviour=given.behaviour)
    except OSError as error:
        sys.exit(f"port {given.port}: {error.strerror}; choose another with --port")
    with emulator as own:
        sys.stdout.write(
            f"Serving at {own.base_url}\n"
            f"Use it:  export ANTHROPIC_BASE_URL={own.base_url} ANTHROPIC_API_KEY=any\n"
        )
        sys.stdout.flush()
        try:
            Event().wait()
        except KeyboardInterrupt:
            sys.stdout.write(f"Stopped; charged ${own.billing.total_usd:.4f} of nobody's money.\n")


if __name__ == "__main__":
    main()
