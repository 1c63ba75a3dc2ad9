"""Play the crash matrix: `python -m tests.faults [--quick | --runs 1600] [--jobs 2]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from tests.faults.careless import CARELESS, Variant
from tests.faults.harness import play_all, rehearse
from tests.faults.report import show, watched
from tests.faults.scenarios import Scenario, matrix, quick


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, report, and return 0 only when nothing at all went wrong."""
    options = _parser().parse_args(arguments)
    console = Console(width=150)
    started = time.monotonic()
    scenarios = _scenarios(options)
    if options.list:
        console.print("\n".join(scenario.name for scenario in scenarios), markup=False)
        return 0
    if not scenarios:
        console.print(f"no scenario is called {' or '.join(options.only)}", markup=False)
        return 2
    variant = CARELESS[options.careless] if options.careless else Variant()
    played = play_all(scenarios, variant=variant, jobs=options.jobs)
    outcomes = list(watched(played, len(scenarios), verbose=options.verbose))
    order = {(scenario.name, scenario.seed): n for n, scenario in enumerate(scenarios)}
    outcomes.sort(key=lambda outcome: order[outcome.name, outcome.seed])
    flags = f" --careless {options.careless}" if options.careless else ""
    show(console, outcomes, flags=flags, seconds=time.monotonic() - started)
    complete = len(outcomes) == len(scenarios)  # a worker that broke off gives fewer
    return 0 if complete and all(outcome.clean for outcome in outcomes) else 1


def _scenarios(options: argparse.Namespace) -> list[Scenario]:
    """The matrix with the first seed, and with the seeds after it until there are enough runs."""
    scenarios: list[Scenario] = []
    seed = options.seed
    while not scenarios or len(scenarios) < options.runs:
        whole = matrix(rehearse(seed), seed)
        if options.only:
            whole = [s for s in whole if any(s.is_called(name) for name in options.only)]
        if not whole:
            return []
        scenarios += quick(whole) if options.quick else whole
        seed += 1
    return scenarios


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="a fixed sample of every kind of scenario")
    add("--runs", type=int, default=0, help="at least so many, with further seeds")
    add("--jobs", type=int, default=1, help="workers at once, each with a service of its own")
    add("--seed", type=int, default=1, help="texts, answers and moments of death")
    add("--only", metavar="NAME", action="append", help="scenarios of this name; * is anything")
    add("--list", action="store_true", help="names of the scenarios, and nothing else")
    add("--verbose", action="store_true", help="one line per scenario as it ends")
    add("--careless", choices=CARELESS, default="", help="without this guard: must fail")
    return parser


if __name__ == "__main__":
    sys.exit(main())
