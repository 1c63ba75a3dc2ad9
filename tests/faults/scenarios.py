"""The scenarios: one death per step, one fault per kind, and seeded mixtures of both."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from random import Random

from tests.faults.catalogue import AMBIGUOUS, BEHAVIOURS, FAULTS, Faults
from tests.faults.dying import After, At, Death
from tests.faults.tournament import N_BULK, SHARES

_EVERY_LINE = 5
_EVERY_POLL = 6
_MIXTURES = 90
_RANDOM_KILLS = 40
_RIVALS = 16
_INTERRUPTS = 12
#: Seconds; an undisturbed run takes about as long.
_LONGEST_MOMENT = 0.4
#: How many of each group the quick matrix takes.
_QUICK = {"step": 13, "fault": 7, "fault+kill": 6, "mixture": 4}
_QUICK_OTHERS = 2

#: How often an undisturbed run reaches each point.
Seen = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What goes wrong: at the service, and with the judging process in its first lives.

    `deaths` belong to the first lives, one each; `foreign` are sizes of batches that
    somebody else makes in the same account before every life; `rivals` judging processes
    start at once; `asleep_hours` pass at the service between two lives, whose clock is
    `skew_hours` ahead of ours from the start.
    """

    name: str
    faults: Faults = ()
    deaths: tuple[Death, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    foreign: tuple[int, ...] = ()
    rivals: int = 1
    asleep_hours: float = 0.0
    skew_hours: float = 0.0

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]

    def service(self, seed: int) -> dict[str, object]:
        """The settings of the service."""
        usual = {"behaviour": "mixed", "shares": SHARES, "batch_seconds": 0.02, "seed": seed}
        return usual | dict(self.settings)


def matrix(seen: Seen, seed: int) -> list[Scenario]:
    """Every scenario of the full matrix."""
    return [
        *_steps(seen),
        *_faults(),
        *_faults_with_kills(seen, seed),
        *_behaviours(seen, seed),
        *_strangers(),
        *_skewed(),
        *_asleep(),
        *_random_kills(seed),
        *_interrupts(seed),
        *_rivals(seed),
        *_mixtures(seen, seed),
    ]


def quick(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """A fixed sample, spread evenly over every group."""
    groups: dict[str, list[Scenario]] = {}
    for scenario in scenarios:
        groups.setdefault(scenario.group, []).append(scenario)
    sample = []
    for group, members in groups.items():
        n = min(_QUICK.get(group, _QUICK_OTHERS), len(members))
        sample += [members[index * len(members) // n] for index in range(n)]
    return sample


def chosen(scenarios: Sequence[Scenario], pattern: str) -> list[Scenario]:
    """Those with this name; `*` stands for anything."""
    return [s for s in scenarios if s.name == pattern or fnmatch(s.name, pattern)]


def _steps(seen: Seen) -> Iterator[Scenario]:
    """One death at every durable step; result lines and polls, whose number varies, are sampled."""
    every = {"collect:line": _EVERY_LINE, "poll:before": _EVERY_POLL, "poll:after": _EVERY_POLL}
    for point, n in seen.items():
        most = n // 2 if point.startswith("poll") else n
        for number in range(1, most + 1, every.get(point, 1)):
            yield Scenario(name=f"step/{point}/{number}", deaths=(At(point, number),))


def _faults() -> Iterator[Scenario]:
    for name, faults in FAULTS.items():
        yield Scenario(name=f"fault/{name}", faults=faults)


def _faults_with_kills(seen: Seen, seed: int) -> Iterator[Scenario]:
    """Each fault with a death at a seeded step, or with two at seeded moments."""
    for number, (name, faults) in enumerate(FAULTS.items()):
        luck = Random(f"{seed}:{name}")
        deaths: tuple[Death, ...] = (_some_step(luck, seen),)
        if number % 2:
            deaths = (_some_moment(luck), _some_moment(luck))
        yield Scenario(name=f"fault+kill/{name}", faults=faults, deaths=deaths)


def _behaviours(seen: Seen, seed: int) -> Iterator[Scenario]:
    for name, settings in BEHAVIOURS.items():
        luck = Random(f"{seed}:{name}")
        for kind, deaths in (("calm", ()), ("kill", (_some_step(luck, seen),))):
            yield Scenario(name=f"answers/{name}/{kind}", settings=settings, deaths=deaths)


def _strangers() -> Iterator[Scenario]:
    """Somebody else's batches of the same size, while a create must be reconciled."""
    for slow in (0.0, 0.6):
        settings = {"batch_seconds": slow}
        foreign = (1, 1, N_BULK, N_BULK)
        for name in AMBIGUOUS:
            yield Scenario(
                name=f"stranger/{name}/{slow:g}s",
                faults=FAULTS[name],
                foreign=foreign,
                settings=settings,
            )
        for n in (1, 3):
            yield Scenario(
                name=f"stranger/crowd/{n}/{slow:g}s",
                deaths=(At("submitted:before", n),),
                foreign=(2,) * 120,
                settings=settings,
            )
            yield Scenario(
                name=f"stranger/submitted:before/{n}/{slow:g}s",
                deaths=(At("submitted:before", n),),
                foreign=foreign,
                settings=settings,
            )


def _skewed() -> Iterator[Scenario]:
    """The service's clock is days away from ours, while a create must be reconciled."""
    for hours in (-9000, -30, 30, 9000):
        for name in AMBIGUOUS:
            yield Scenario(
                name=f"skew/{hours}h/{name}",
                faults=FAULTS[name],
                skew_hours=hours,
                foreign=(1, N_BULK),
            )
        for n in (1, 3):
            yield Scenario(
                name=f"skew/{hours}h/submitted:before/{n}",
                deaths=(At("submitted:before", n),),
                skew_hours=hours,
            )


def _asleep() -> Iterator[Scenario]:
    """Killed, and started again only hours or days later."""
    for hours in (1, 25, 6 * 24):
        for point, n in (("submitted:before", 3), ("submitted:after", 3), ("record:within", 5)):
            yield Scenario(
                name=f"asleep/{hours}h/{point}/{n}", deaths=(At(point, n),), asleep_hours=hours
            )
        slow = {"batch_seconds": hours * 3600}
        yield Scenario(
            name=f"asleep/{hours}h/unfinished",
            deaths=(After(0.3), After(0.3), After(0.3), After(0.3)),
            settings=slow,
            asleep_hours=1.05 * hours,
        )


def _random_kills(seed: int) -> Iterator[Scenario]:
    """One to five kills in a row, at seeded moments."""
    for number in range(_RANDOM_KILLS):
        luck = Random(f"{seed}:kill:{number}")
        n = 1 + number % 5
        deaths = tuple(_some_moment(luck) for _ in range(n))
        yield Scenario(name=f"kill/{number:02}", deaths=deaths)


def _interrupts(seed: int) -> Iterator[Scenario]:
    """Ctrl-C once or twice, then a kill, at seeded moments."""
    for number in range(_INTERRUPTS):
        luck = Random(f"{seed}:interrupt:{number}")
        moments = [_some_moment(luck).seconds for _ in range(2)]
        deaths = [After(moment, signal.SIGINT) for moment in moments[: 1 + number % 2]]
        yield Scenario(name=f"interrupt/{number:02}", deaths=(*deaths, _some_moment(luck)))


def _rivals(seed: int) -> Iterator[Scenario]:
    """Two judging processes at once on one ledger; in half of them one is killed."""
    for number in range(_RIVALS):
        luck = Random(f"{seed}:rival:{number}")
        deaths = (_some_moment(luck),) if number % 2 else ()
        names = luck.sample(sorted(FAULTS), number % 3)
        faults = [fault for name in names for fault in FAULTS[name]]
        yield Scenario(name=f"rival/{number:02}", rivals=2, deaths=deaths, faults=tuple(faults))


def _mixtures(seen: Seen, seed: int) -> Iterator[Scenario]:
    """Two to five faults, up to three deaths, sometimes strangers and slow batches."""
    for number in range(_MIXTURES):
        luck = Random(f"{seed}:mixture:{number}")
        names = luck.sample(sorted(FAULTS), luck.randint(2, 5))
        deaths = [_some_death(luck, seen) for _ in range(luck.randint(0, 3))]
        yield Scenario(
            name=f"mixture/{number:03}",
            faults=tuple(fault for name in names for fault in FAULTS[name]),
            deaths=tuple(deaths),
            settings={"batch_seconds": luck.choice((0.0, 0.05, 0.2))},
            foreign=luck.choice(((), (), (1, N_BULK))),
        )


def _some_step(luck: Random, seen: Seen) -> At:
    point = luck.choice([point for point in sorted(seen) if not point.startswith("poll")])
    return At(point, luck.randint(1, seen[point]))


def _some_moment(luck: Random) -> After:
    return After(luck.uniform(0.01, _LONGEST_MOMENT))


def _some_death(luck: Random, seen: Seen) -> Death:
    return _some_step(luck, seen) if luck.random() < 0.5 else _some_moment(luck)
