"""Play the crash matrix: `python -m tests.faults [--quick] [--jobs 2]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from tests.faults.careless import ForgetfulLedger, RetryingJudge
from tests.faults.harness import Outcome, Variant, play_all, rehearse
from tests.faults.report import show
from tests.faults.scenarios import Scenario, chosen, matrix, quick


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, report, and return 0 only when nothing at all went wrong."""
    options = _parser().parse_args(arguments)
    console = Console(width=130)
    started = time.monotonic()
    scenarios = _scenarios(options)
    if options.list:
        console.print("\n".join(scenario.name for scenario in scenarios), markup=False)
        return 0
    if not scenarios:
        console.print(f"no scenario is called {options.only!r}", markup=False)
        return 2
    outcomes = _played(scenarios, options)
    flags = f"--seed {options.seed}{_flags(options)}"
    show(console, outcomes, flags=flags, seconds=time.monotonic() - started)
    complete = len(outcomes) == len(scenarios)  # a worker that broke off gives fewer
    return 0 if complete and all(outcome.clean for outcome in outcomes) else 1


def _scenarios(options: argparse.Namespace) -> list[Scenario]:
    scenarios = matrix(rehearse(options.seed), options.seed)
    if options.only:
        return chosen(scenarios, options.only)
    return quick(scenarios) if options.quick else scenarios


def _played(scenarios: list[Scenario], options: argparse.Namespace) -> list[Outcome]:
    variant = Variant()
    if options.without_guard:
        variant = Variant(ledger=ForgetfulLedger)
    if options.with_sdk_retries:
        variant = Variant(judge=RetryingJudge)
    outcomes = []
    for outcome in play_all(scenarios, seed=options.seed, variant=variant, jobs=options.jobs):
        outcomes.append(outcome)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{len(outcomes)} of {len(scenarios)}")
        if options.verbose:
            sys.stderr.write(f"{outcome.seconds:5.1f} s  {outcome.lives} lives  {outcome.name}\n")
    sys.stderr.write("\n" if sys.stderr.isatty() else "")
    names = [scenario.name for scenario in scenarios]
    return sorted(outcomes, key=lambda outcome: names.index(outcome.name))


def _flags(options: argparse.Namespace) -> str:
    return "".join(
        f" --{name.replace('_', '-')}"
        for name in ("without_guard", "with_sdk_retries")
        if getattr(options, name)
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="a fixed sample of about forty scenarios")
    add("--jobs", type=int, default=1, help="workers at once, each with a service of its own")
    add("--seed", type=int, default=1, help="texts, answers and moments of death")
    add("--only", metavar="NAME", default="", help="scenarios of this name; * is anything")
    add("--list", action="store_true", help="names of the scenarios, and nothing else")
    add("--verbose", action="store_true", help="one line per scenario as it ends")
    add("--without-guard", action="store_true", help="forget open batches: must fail")
    add("--with-sdk-retries", action="store_true", help="let the SDK repeat calls: must fail")
    return parser


if __name__ == "__main__":
    sys.exit(main())
