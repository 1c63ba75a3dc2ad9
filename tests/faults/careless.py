"""What would go wrong without the guard: the matrix must notice each of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import anthropic

from arena_kit.judging.judges.anthropic import AnthropicBatches
from arena_kit.judging.ledger import Ledger
from arena_kit.judging.ledger_rows import Intent, Transport
from arena_kit.judging.ledger_schema import opened
from arena_kit.judging.records import Asked


class ForgetfulLedger(Ledger):
    """Knows only the batches of its own process, and its file refuses nothing."""

    own: ClassVar[set[str]] = set()

    def plan(self, requests: Mapping[str, Asked], **more: Any) -> Intent:
        with opened(self.path) as con:
            con.execute("DROP INDEX IF EXISTS under_way_once")
            con.execute("DROP TRIGGER IF EXISTS answered_once")
        intent = Ledger.plan(self, requests, **more)
        self.own.add(intent.intent)
        return intent

    def open_intents(self, transport: Transport = "batches") -> list[Intent]:
        return [i for i in Ledger.open_intents(self, transport) if i.intent in self.own]


class RetryingJudge(AnthropicBatches):
    """Leaves the SDK's own retries on, for creating batches too."""

    @property
    def _once(self) -> anthropic.Anthropic:
        return self.client.with_options(max_retries=2)
