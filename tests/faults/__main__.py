"""Play the crash matrix: `python -m tests.faults [--quick | --runs 1600] [--jobs 2]`."""

import argparse
import sys
import time
from collections.abc import Sequence

import pandas as pd

from tests.faults.careless import CARELESS, Variant
from tests.faults.drivers import drive
from tests.faults.harness import Outcome, play_all, rehearse
from tests.faults.scenarios import Scenario, matrix, quick, scenario_kind

_FINDINGS = ("billed", "unknown", "paid_twice", "lost", "duplicated", "miscounted", "astray")
_COLUMNS = (
    *("runs", "kills", "restarts", "faults fired", "requests billed", "live in doubt"),
    *("paid twice", "lost", "duplicated", "miscounted", "astray"),
)


def main() -> int:
    """Play, report, and return 0 only when nothing at all went wrong."""
    options = _parser().parse_args()
    started = time.monotonic()
    scenarios = _scenarios(options)
    variant = CARELESS[options.careless] if options.careless else Variant()
    outcomes: list[Outcome] = []
    for outcome in play_all(scenarios, variant=variant, jobs=options.jobs):
        outcomes.append(outcome)
        if len(outcomes) % 100 == 0 or not outcome.clean:
            failed = "" if outcome.clean else "  FAILED"
            sys.stderr.write(f"{len(outcomes)} of {len(scenarios)}  {outcome.name}{failed}\n")
    outcomes += () if options.careless else drive(options.only, options.seed, quick=options.quick)
    if not outcomes:
        say(f"no scenario is called {' or '.join(options.only)}")
        return 2
    order = {(scenario.name, scenario.seed): n for n, scenario in enumerate(scenarios)}
    outcomes.sort(key=lambda outcome: order.get((outcome.name, outcome.seed), len(order)))
    flags = f" --careless {options.careless}" if options.careless else ""
    _show(outcomes, flags=flags, seconds=time.monotonic() - started)
    complete = len(outcomes) >= len(scenarios)  # a worker that broke off gives fewer
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


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")


def _show(outcomes: Sequence[Outcome], *, flags: str, seconds: float) -> None:
    by_kind: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_kind.setdefault(scenario_kind(outcome.name), []).append(outcome)
    table = {kind: [*_sums(own).values()] for kind, own in by_kind.items()}
    say(pd.DataFrame.from_dict(table, orient="index", columns=_COLUMNS).to_string())
    failed = [outcome for outcome in outcomes if not outcome.clean]
    for outcome in failed:
        reasons = "; ".join(filter(None, (outcome.trouble, *outcome.finding.details)))
        command = f"python -m tests.faults --only '{outcome.name}' --seed {outcome.seed}{flags}"
        say(f"FAILED {outcome.name} (seed {outcome.seed}): {reasons}")
        say(f"  again: {command}")
    sums = _sums(outcomes)
    say(
        f"{sums['runs']} runs, {sums['kills']} kills, {sums['restarts']} restarts, "
        f"{sums['faults fired']} faults fired, {sums['requests billed']} requests billed, "
        f"{sums['live in doubt']} live calls in doubt, {len(failed)} failed, {seconds:.0f} s\n"
        f"paid twice: {sums['paid twice']}, lost: {sums['lost']}, "
        f"duplicated verdicts: {sums['duplicated']}"
    )


def _sums(outcomes: Sequence[Outcome]) -> dict[str, int]:
    numbers = [
        len(outcomes), sum(o.kills for o in outcomes), sum(max(0, o.lives - 1) for o in outcomes),
        sum(o.fired for o in outcomes),
        *(sum(getattr(o.finding, name) for o in outcomes) for name in _FINDINGS),
    ]  # fmt: skip
    return dict(zip(_COLUMNS, numbers, strict=True))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="a fixed sample of every kind of scenario")
    add("--runs", type=int, default=0, help="at least so many, with further seeds")
    add("--jobs", type=int, default=1, help="workers at once, each with a service of its own")
    add("--seed", type=int, default=1, help="texts, answers and moments of death")
    add(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="scenarios of this name; * is anything",
    )
    add("--careless", choices=CARELESS, default="", help="without this guard: must fail")
    return parser


if __name__ == "__main__":
    sys.exit(main())
