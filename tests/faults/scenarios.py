"""The scenarios: one death per step, one fault per kind, and seeded mixtures of both."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from random import Random
from typing import Literal, NamedTuple

from tests.faults import catalogue
from tests.faults.catalogue import AMBIGUOUS, FAULTS, LIVE_FAULTS, SHARES, Faults, kind_of
from tests.faults.child import After, At, Death
from tests.faults.tournament import N_BULK, Transport

#: Result lines and polls, whose number varies, are sampled, others with every seed.
_EVERY = {"collect:line": 5, "poll:before": 6, "poll:after": 6}
#: How many seeded scenarios there are of a kind, where that is not 12.
_N = {"mixture": 90, "kill": 40, "restored": 36, "host": 18, "rival": 16}
#: Seconds; an undisturbed run takes about as long.
_LONGEST_MOMENT = 0.4
#: How many of each kind the quick matrix takes, where that is not one.
_QUICK = {"step": 13, "mixture": 4, "restored": 4, "host": 3}

#: How often an undisturbed run reaches each point, and that for each transport.
Seen = Mapping[str, int]
SeenBy = Mapping[Transport, Seen]

#: What a process and host in the records of a killed life are changed to before the next one:
#: another host's, those of a process that lives, those of the first process of this host.
Host = Literal["", "renamed", "reused", "first"]
_LIVE_KINDS = {"kill", *(kind for name in LIVE_FAULTS if (kind := kind_of(name)) != name)}


class Restore(NamedTuple):
    """An older copy takes the ledger's place once the run is done, and the run begins anew."""

    way: Literal["backup", "copy"]
    after: int  # lives, before the copy is made
    deaths: tuple[Death, ...] = ()  # of the first lives of the second act


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What goes wrong: at the service, and with the judging process in its first lives."""

    name: str
    seed: int = 1
    faults: Faults = ()
    deaths: tuple[Death, ...] = ()  # of the first lives, one each
    settings: Mapping[str, object] = field(default_factory=dict)
    foreign: tuple[int, ...] = ()  # sizes of somebody else's batches before every life
    rivals: int = 1
    asleep_hours: float = 0.0  # at the service, between two lives
    skew_hours: float = 0.0  # by which its clock is ahead
    transport: Transport = "batches"
    restore: Restore | None = None
    host: Host = ""  # with one, every life works on a run record

    def is_called(self, pattern: str) -> bool:
        return self.name == pattern or fnmatch(self.name, pattern)

    def service(self) -> dict[str, object]:
        usual = {"behaviour": "mixed", "shares": SHARES, "batch_seconds": 0.02, "seed": self.seed}
        return usual | dict(self.settings)


def scenario_kind(name: str) -> str:
    group, _, rest = name.partition("/")
    if group.startswith("fault"):
        return f"fault: {kind_of(rest)}{' + kill' * (group == 'fault+kill')}"
    if group == "live":
        fault = kind_of(rest.split("/")[1])
        return f"live: {fault}" if fault in _LIVE_KINDS else "live: fault"
    return group


def matrix(seen: SeenBy, seed: int) -> list[Scenario]:
    batches = seen["batches"]
    scenarios = [
        *_steps(batches, seed),
        *(Scenario(name=f"fault/{name}", faults=faults) for name, faults in FAULTS.items()),
        *(*_faults_with_kills(batches, seed), *_behaviours(batches, seed)),
        *(*_strangers(), *_skewed(), *_asleep()),
        *(*_random_kills(seed), *_interrupts(seed), *_rivals(seed)),
        *(*_restored(batches, seed), *_hosts(batches, seed)),
        *(s for live in ("messages", "chat") for s in _live(live, seen[live], seed)),
        *_mixtures(batches, seed),
    ]
    return [replace(scenario, seed=seed) for scenario in scenarios]


def quick(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """A fixed sample, spread evenly over every kind."""
    kinds: dict[str, list[Scenario]] = {}
    for scenario in scenarios:
        kinds.setdefault(scenario_kind(scenario.name), []).append(scenario)
    sample = []
    for kind, members in kinds.items():
        n = min(_QUICK.get(kind, 1), len(members))
        sample += [members[index * len(members) // n] for index in range(n)]
    return sample


def _steps(seen: Seen, seed: int) -> Iterator[Scenario]:
    """One death at every durable step."""
    for point, n in seen.items():
        most, step = n // 2 if point.startswith("poll") else n, _EVERY.get(point, 1)
        for number in range(1 + (seed - 1) % step, most + 1, step):
            yield Scenario(name=f"step/{point}/{number}", deaths=(At(point, number),))


def _faults_with_kills(seen: Seen, seed: int) -> Iterator[Scenario]:
    """Each fault with a death at a seeded step, or with two at seeded moments."""
    for number, (name, faults) in enumerate(FAULTS.items()):
        luck = Random(f"{seed}:{name}")
        deaths: tuple[Death, ...] = (_some_step(luck, seen),)
        if (number + seed) % 2 == 0:
            deaths = (_some_moment(luck), _some_moment(luck))
        yield Scenario(name=f"fault+kill/{name}", faults=faults, deaths=deaths)


def _behaviours(seen: Seen, seed: int) -> Iterator[Scenario]:
    for name, settings in catalogue.BEHAVIOURS.items():
        step = _some_step(Random(f"{seed}:{name}"), seen)
        for kind, deaths in (("calm", ()), ("kill", (step,))):
            yield Scenario(name=f"answers/{name}/{kind}", settings=settings, deaths=deaths)


def _strangers() -> Iterator[Scenario]:
    """Somebody else's batches of the same size, while a create must be reconciled."""
    some, crowd = (1, 1, N_BULK, N_BULK), (2,) * 120
    for slow in (0.0, 0.6):
        ways: dict[str, tuple[Faults, tuple[Death, ...], tuple[int, ...]]] = {
            **{name: (FAULTS[name], (), some) for name in AMBIGUOUS},
            **{f"crowd/{n}": ((), (At("submitted:before", n),), crowd) for n in (1, 3)},
            **{f"submitted:before/{n}": ((), (At("submitted:before", n),), some) for n in (1, 3)},
        }
        for name, (faults, deaths, foreign) in ways.items():
            yield Scenario(
                name=f"stranger/{name}/{slow:g}s", faults=faults, deaths=deaths, foreign=foreign,
                settings={"batch_seconds": slow},
            )  # fmt: skip


def _skewed() -> Iterator[Scenario]:
    """The service's clock is days away from ours, while a create must be reconciled."""
    for hours in (-9000, -30, 30, 9000):
        skew = Scenario(name=f"skew/{hours}h", skew_hours=hours)
        for name in AMBIGUOUS:
            faults, foreign = FAULTS[name], (1, N_BULK)
            yield replace(skew, name=f"{skew.name}/{name}", faults=faults, foreign=foreign)
        for n in (1, 3):
            death = At("submitted:before", n)
            yield replace(skew, name=f"{skew.name}/submitted:before/{n}", deaths=(death,))


def _asleep() -> Iterator[Scenario]:
    """Killed, and started again only hours or days later."""
    for hours in (1, 25, 6 * 24):
        asleep = Scenario(name=f"asleep/{hours}h", asleep_hours=hours)
        for point, n in (("submitted:before", 3), ("submitted:after", 3), ("record:within", 5)):
            yield replace(asleep, name=f"{asleep.name}/{point}/{n}", deaths=(At(point, n),))
        yield Scenario(
            name=f"{asleep.name}/unfinished", deaths=(After(0.3),) * 4,
            settings={"batch_seconds": hours * 3600}, asleep_hours=1.05 * hours,
        )  # fmt: skip


def _lots(kind: str, seed: int) -> Iterator[tuple[int, Random]]:
    """Numbers of the seeded scenarios of a kind, each with luck of its own."""
    return ((number, Random(f"{seed}:{kind}:{number}")) for number in range(_N.get(kind, 12)))


def _random_kills(seed: int) -> Iterator[Scenario]:
    """One to five kills in a row, at seeded moments."""
    for number, luck in _lots("kill", seed):
        deaths = tuple(_some_moment(luck) for _ in range(1 + number % 5))
        yield Scenario(name=f"kill/{number:02}", deaths=deaths)


def _interrupts(seed: int) -> Iterator[Scenario]:
    """Ctrl-C once or twice, then a kill, at seeded moments."""
    for number, luck in _lots("interrupt", seed):
        moments = [_some_moment(luck).seconds for _ in range(2)]
        deaths = [After(moment, signal.SIGINT) for moment in moments[: 1 + number % 2]]
        yield Scenario(name=f"interrupt/{number:02}", deaths=(*deaths, _some_moment(luck)))


def _rivals(seed: int) -> Iterator[Scenario]:
    """Two judging processes at once on one ledger; in half of them one is killed."""
    for number, luck in _lots("rival", seed):
        deaths = (_some_moment(luck),) if number % 2 else ()
        names = luck.sample(sorted(FAULTS), number % 3)
        yield Scenario(name=f"rival/{number:02}", rivals=2, deaths=deaths, faults=_joined(names))


def _restored(seen: Seen, seed: int) -> Iterator[Scenario]:
    """Killed, copied, finished, restored, and run again, with faults or more kills."""
    visible = sorted(FAULTS.keys() - catalogue.HIDING)
    for number, luck in _lots("restored", seed):
        way: Literal["backup", "copy"] = "copy" if number % 2 else "backup"
        deaths = tuple(_some_death(luck, seen) for _ in range(1 + number % 2))
        again = (_some_death(luck, seen),) if number // 2 % 2 else ()
        names = luck.sample(visible, luck.randint(1, 2)) if number % 3 == 0 else []
        yield Scenario(
            name=f"restored/{way}/{number:02}", deaths=deaths,
            restore=Restore(way, luck.randint(1, len(deaths)), again), faults=_joined(names),
            foreign=luck.choice(((), (), (1, N_BULK))),
        )  # fmt: skip


def _hosts(seen: Seen, seed: int) -> Iterator[Scenario]:
    """Killed while it runs a record, whose process then seems to live on, or elsewhere."""
    ways: tuple[Host, ...] = ("renamed", "reused", "first")
    for number, luck in _lots("host", seed):
        way = ways[number % len(ways)]
        deaths = tuple(_some_death(luck, seen) for _ in range(luck.randint(1, 2)))
        rivals = 1 + number // len(ways) % 2
        yield Scenario(name=f"host/{way}/{number:02}", host=way, deaths=deaths, rivals=rivals)


def _live(transport: Transport, seen: Seen, seed: int) -> Iterator[Scenario]:
    """Calls that are answered at once, killed under way, or served badly, or both."""
    live = Scenario(name=f"live/{transport}", transport=transport, settings={"latency": 0.01})
    for number, luck in _lots(transport, seed):
        deaths = tuple(_some_death(luck, seen) for _ in range(1 + number % 3))
        yield replace(live, name=f"{live.name}/kill/{number:02}", deaths=deaths)
    for number, (fault, how) in enumerate(LIVE_FAULTS.items()):
        luck = Random(f"{seed}:{transport}:{fault}")
        faults = ({"on": transport, "after": luck.randint(0, 20), **how},)
        deaths = (_some_death(luck, seen),) if (number + seed) % 2 else ()
        yield replace(live, name=f"{live.name}/{fault}", faults=faults, deaths=deaths)


def _mixtures(seen: Seen, seed: int) -> Iterator[Scenario]:
    """Two to five faults, up to three deaths, sometimes strangers and slow batches."""
    for number, luck in _lots("mixture", seed):
        names = luck.sample(sorted(FAULTS), luck.randint(2, 5))
        deaths = [_some_death(luck, seen) for _ in range(luck.randint(0, 3))]
        yield Scenario(
            name=f"mixture/{number:03}", faults=_joined(names), deaths=tuple(deaths),
            settings={"batch_seconds": luck.choice((0.0, 0.05, 0.2))},
            foreign=luck.choice(((), (), (1, N_BULK))),
        )  # fmt: skip


def _joined(names: Sequence[str]) -> Faults:
    return tuple(fault for name in names for fault in FAULTS[name])


def _some_step(luck: Random, seen: Seen) -> At:
    point = luck.choice([point for point in sorted(seen) if not point.startswith("poll")])
    return At(point, luck.randint(1, seen[point]))


def _some_moment(luck: Random) -> After:
    return After(luck.uniform(0.01, _LONGEST_MOMENT))


def _some_death(luck: Random, seen: Seen) -> Death:
    return _some_step(luck, seen) if luck.random() < 0.5 else _some_moment(luck)
