"""The judge protocol: submit rendered requests, poll, collect raw answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from arena_kit.judging.records import Answer, JudgeRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a submitted batch is."""

    done: int
    total: int

    @property
    def ended(self) -> bool:
        return self.done >= self.total


class Judge(Protocol):
    """Answers rendered requests. Caching, parsing and settling live above it.

    `model` is the id recorded with every verdict; `settings` is everything else that
    could change an answer and therefore belongs to the cache key.
    """

    @property
    def model(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, object]: ...

    def submit(self, requests: Sequence[JudgeRequest]) -> str:
        """Hand requests over; returns a ticket."""

    def poll(self, ticket: str) -> Progress:
        """How far the ticket's requests are."""

    def collect(self, ticket: str) -> Iterator[Answer]:
        """The answers, in any order; a request may be left without one."""


@dataclass(slots=True)
class ImmediateJudge(ABC):
    """A judge that answers as it is asked; subclasses write only `answer`."""

    _tickets: dict[str, list[JudgeRequest]] = field(default_factory=dict, init=False, repr=False)

    @abstractmethod
    def answer(self, request: JudgeRequest) -> Answer | None:
        """The answer to one request, None for none at all."""

    def submit(self, requests: Sequence[JudgeRequest]) -> str:
        ticket = f"ticket-{len(self._tickets)}"
        self._tickets[ticket] = list(requests)
        return ticket

    def poll(self, ticket: str) -> Progress:
        total = len(self._tickets[ticket])
        return Progress(done=total, total=total)

    def collect(self, ticket: str) -> Iterator[Answer]:
        for request in self._tickets[ticket]:
            if (answer := self.answer(request)) is not None:
                yield answer
