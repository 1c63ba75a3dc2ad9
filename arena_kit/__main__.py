"""The command line: `arena-kit` and `python -m arena_kit`."""

import os
import signal

#: Pydantic's search for plugins reads every package's metadata. A second thread of linear algebra
#: spins: it takes a quarter of the CPU of a small board and makes one of 1,000 models no quicker.
_QUICK = {"PYDANTIC_DISABLE_PLUGINS": "__all__", "OPENBLAS_NUM_THREADS": "1"}


def main() -> None:
    """Run a command. While modules are imported nothing has begun, so that Ctrl-C just ends the
    process, without a traceback of imports; the commands themselves say what it interrupts.
    """
    for name, value in _QUICK.items():
        os.environ.setdefault(name, value)
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from arena_kit.cli.main import main as commands

    signal.signal(signal.SIGINT, handler)
    commands()


if __name__ == "__main__":
    main()
