"""One emulated service, one ledger, and the judges that ask it."""

from collections.abc import Iterator
from typing import Any

import pytest

from arena_kit.judging.asking.options import AskOptions
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Judgment, Status
from tests import samples
from tests.emulator import Emulator, Fault

JUDGES: dict[str, Any] = {
    "batches": samples.batch_judge, "messages": samples.live_judge, "chat": samples.chat_judge,
}  # fmt: skip
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions"}
OPTIONS = {*AskOptions.__slots__, "on_progress"}


def interrupt(_text: str) -> None:
    """What is done when words are said while waiting: the user presses Ctrl-C."""
    raise KeyboardInterrupt


class Bench:
    """A service, a ledger, what was said meanwhile, and twelve requests on six pairs."""

    def __init__(self, emulator: Emulator, ledger: Ledger) -> None:
        self.emulator, self.ledger = emulator, ledger
        self.said: list[str] = []

    def judge(self, by: str = "batches", **changes: Any) -> Any:
        if by == "batches" and "timeout" in changes:
            key, timeout = changes.pop("key", samples.KEY), changes.pop("timeout")
            changes["client"] = samples.client_of(self.emulator, key, timeout=timeout)
        return JUDGES[by](self.emulator, **changes)

    def judged(self, n: int = 6, by: str = "batches", **changes: Any) -> list[Judgment]:
        """The first n pairs put to a judge; `changes` are options of asking and of the judge."""
        allowed = {name: changes.pop(name) for name in OPTIONS & changes.keys()}
        judge = changes.pop("judge", None) or self.judge(by, **changes)
        return samples.judged_by(judge, self.ledger, n, **{"say": self.said.append} | allowed)

    def statuses(self, n: int = 6, by: str = "batches", **changes: Any) -> list[Status]:
        return samples.statuses(self.judged(n, by, **changes))

    def all_ok(self, by: str = "batches", **changes: Any) -> bool:
        """Whether every request gets a verdict, and none of the twelve was charged twice."""
        found = {*self.statuses(by=by, **changes)}
        digests = [row.digest for row in self.bill]
        return found == {Status.OK} and len(digests) == len({*digests}) == 12

    def fail(self, *faults: Fault) -> None:
        self.emulator.faults.add(*faults)

    @property
    def bill(self) -> list[Any]:
        return self.emulator.billing.rows

    @property
    def sizes(self) -> list[int]:
        return samples.sizes(self.emulator)

    def calls(self, by: str) -> list[int | None]:
        """The status of every live call, None for a dropped one."""
        return [row.status for row in self.emulator.requests if row.path == PATHS[by]]


@pytest.fixture
def bench(emulator: Emulator, ledger: Ledger) -> Bench:
    return Bench(emulator, ledger)


@pytest.fixture
def slow(ledger: Ledger) -> Iterator[Bench]:
    """A service whose batches end only when its clock is pushed."""
    with Emulator(batch_seconds=3600) as running:
        yield Bench(running, ledger)
