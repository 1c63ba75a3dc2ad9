"""The command line: `arena-kit` and `python -m arena_kit`."""

import os
import signal


def main() -> None:
    """Run a command. While modules are imported nothing has begun, so that Ctrl-C just ends the
    process, without a traceback of imports; the commands themselves say what it interrupts.
    """
    os.environ.setdefault(
        "PYDANTIC_DISABLE_PLUGINS", "__all__"
    )  # which read all packages' metadata
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from arena_kit.cli.main import main as commands

    signal.signal(signal.SIGINT, handler)
    commands()


if __name__ == "__main__":
    main()
