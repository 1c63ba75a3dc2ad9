"""The command that plays a whole arena whose truth is known."""

import signal
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from arena_kit.cli import base as cli
from arena_kit.fanout import fan_out
from arena_kit.files import DataError
from arena_kit.matchmaking.simulation import CLAIM_MARGIN, EVERY, Duel, World, duel
from arena_kit.policy.constants import Phase, Policy
from arena_kit.policy.exposure import feasibility
from arena_kit.runs.settings.files import DEFAULT_POLICY, read_policy, validated

_HELP = {
    "models": "Models, including newcomers.",
    "prompts": "Prompts.",
    "matchups": "Votes in each system.",
    "newcomers": "Models that join half-way.",
    "skill_sd": "SD of skills over models, in rating points.",
    "prompt_sd": "SD of a model's responses around its skill, in rating points.",
    "tie_gap": "Responses with a smaller perceived gap tie.",
    "bad_below": "Mean floor; two responses perceived below it are both bad.",
    "bad_sd": "SD of that floor over prompts.",
    "noise": "Share of voters who vote at random.",
    "session_length": "Mean number of matchups that a voter sees.",
    "answered": "Share of prompts that a model has a response to.",
}


_COUNTS: dict[str, tuple[Any, Any, str]] = {  # kind, default, help
    "seeds": (click.IntRange(1), 5, "Simulated arenas."),
    "seed": (click.IntRange(0), 0, "Seed of the first; others follow."),
    "every": (click.IntRange(1), EVERY, "Votes between measurements."),
    "jobs": (click.IntRange(0), 0, "Parallel processes; 0: one per core."),
}


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """An option for every setting of the world, and for the number of simulations."""
    world = {f.name: (type(f.default), f.default, _HELP[f.name]) for f in fields(World)}
    for name, (kind, default, text) in reversed((world | _COUNTS).items()):
        flag = f"--{name.replace('_', '-')}"
        command = click.option(flag, type=kind, default=default, show_default=True, help=text)(
            command
        )
    return command


@cli.main.command()
@_options
@click.option("--policy", "policy_file", type=cli.FILE,
              help="Policy file (default: params/policy.yaml where there is one, else the policy "
              "as written).")  # fmt: skip
@cli.cluster_option
@click.option("--plot", type=cli.FILE, metavar="FILE.png",
              help="Also plot the measures against votes.")  # fmt: skip
@cli.json_option("JSON instead of tables")
def simulate(
    policy_file: Path | None,
    seeds: int,
    seed: int,
    every: int,
    jobs: int,
    plot: Path | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Simulate an arena with known skills under the policy and under the earlier scheme.

    Both see the same models, prompts and voters and are compared seed by seed: rank correlation
    with the truth, coverage of models and prompts, when the board is officially stable, and how
    often that label is false (an adjacent pair of the top in the wrong order by more than 20
    points). Also which orders of the top are decided, how often such a claim is false, and how
    often equivalent models differ by more than the margin. The baseline publishes Elo; its RD and
    label are those that the policy would give.
    """
    world = validated(World, settings, "simulate")
    if plot and not (plot.suffix.lower() == ".png" and plot.parent.is_dir()):  # before the work
        raise DataError(f"--plot writes a .png file into a folder that is there, not {plot}")
    named = policy_file or (DEFAULT_POLICY if DEFAULT_POLICY.is_file() else None)
    policy = read_policy(named) if named else Policy()
    numbers = range(seed, seed + seeds)
    with _ignored_by_workers():
        played = simulated(world, policy, numbers, every, jobs)
    duels = list(_shown(played, seeds, as_json=as_json))
    if plot:
        from arena_kit.reporting.simulation import against_votes

        against_votes(duels, policy).save(plot)
    if as_json:
        cli.echo_json(_as_dict(world, policy, numbers, every, duels), sort_keys=True)
    else:
        _show(world, policy, duels)


def simulated(
    world: World, policy: Policy, numbers: Sequence[int], every: int, jobs: int
) -> Iterator[Duel]:
    """A duel for each seed, in their order, played by so many processes (0: all cores)."""
    return fan_out(partial(_play, world, policy, every), numbers, by="processes", jobs=jobs)


def _play(world: World, policy: Policy, every: int, number: int) -> Duel:
    return duel(world, policy, rng=np.random.default_rng(number), every=every)


@contextmanager
def _ignored_by_workers() -> Iterator[None]:
    """Workers that start now ignore Ctrl-C, which a terminal sends to them, too: it is this
    process that ends them.
    """
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _shown(duels: Iterator[Duel], total: int, *, as_json: bool) -> Iterator[Duel]:
    try:
        from tqdm import tqdm

        hidden = as_json or not sys.stderr.isatty()
        yield from tqdm(duels, total=total, desc="worlds", unit=" worlds", disable=hidden)
    finally:
        if isinstance(duels, Generator):
            with warnings.catch_warnings(action="ignore"):  # of worlds that are not awaited
                duels.close()


def _as_dict(
    world: World, policy: Policy, numbers: Sequence[int], every: int, duels: Sequence[Duel]
) -> dict[str, Any]:
    from arena_kit.reporting import simulation

    return {
        "settings": {
            "world": asdict(world),
            "policy": asdict(policy),
            "seeds": list(numbers),
            "every": every,
            "claim_margin": CLAIM_MARGIN,
        },
        "summary": simulation.summary(duels),
        "promises": simulation.promises(policy, duels),
        "limits": _limits(policy, world),
        "sentence": simulation.sentence(duels, policy),
        "runs": [
            {"seed": number} | {system: asdict(run) for system, run in duel._asdict().items()}
            for number, duel in zip(numbers, duels, strict=True)
        ],
    }


def _limits(policy: Policy, world: World) -> tuple[str, ...]:
    """What cannot be promised to so many models and prompts, and why."""
    return feasibility(replace(policy, phase=Phase.GOVERNANCE), world.models, world.prompts)


def _show(world: World, policy: Policy, duels: Sequence[Duel]) -> None:
    from arena_kit.cli import terminal
    from arena_kit.reporting import simulation
    from arena_kit.reporting.tables import Table

    drawn = f"{world.models} models, {world.prompts} prompts, {world.matchups} votes"
    title = f"{drawn}: mean ± SD of {len(duels)} seeds"
    terminal.show_table(Table(simulation.table_rows(duels), title=title))
    kept = [
        {
            "what": row["promise"],
            "found": f"{row['value']:.1%}",
            "bound": f"{row['bound']:.1%}",
            "kept": "yes" if row["met"] else "no",
        }
        for row in simulation.promises(policy, duels)
    ]
    title = "Guarantees of the policy, worst seed"
    terminal.show_table(Table(kept, title=title))
    cli.echo(*_limits(policy, world), simulation.sentence(duels, policy))
