"""The batches of a ledger that are under way: looked at, canceled or given up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from arena_kit.files import DataError
from arena_kit.judging.judges.base import Batch, BatchJudge, Price
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.ledger.rows import Intent
from arena_kit.runs.settings.judges import ANTHROPIC_KEY
from arena_kit.runs.settings.keys import read_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The batches of one ledger, and the variable of the key to speak to their service."""

    ledger: Ledger
    root: Path
    key_variable: str = ""

    def under_way(self) -> list[Intent]:
        """What may still owe results, oldest first; without a batch id it is unconfirmed."""
        return self.ledger.open_intents()

    def look(self, intent: Intent) -> Batch:
        """The batch as the service sees it now."""
        return self._judge(intent).poll(_id(intent))

    def cancel(self, name: str) -> Batch:
        """Ask the service to stop a batch. What it has answered is billed and collected by
        the next run; the rest is unpaid.
        """
        intent = self._find(name)
        batch = self._judge(intent).cancel(_id(intent))
        self.ledger.canceled(intent)
        return batch

    def give_up(self, name: str) -> Intent:
        """Forget a batch: its results are not waited for, and its requests may be sent again."""
        intent = self._find(name)
        with self.ledger.locked("give up"):
            self.ledger.close(intent, "given_up")
        return intent

    def _find(self, name: str) -> Intent:
        intents = self.under_way()
        for intent in intents:
            if name in (intent.intent, intent.batch_id):
                return intent
        known = ", ".join(intent.batch_id or intent.intent for intent in intents) or "none"
        raise DataError(f"no batch {name!r} is under way; under way: {known}")

    def _judge(self, intent: Intent) -> BatchJudge:
        from arena_kit.judging.judges.anthropic import AnthropicBatches, client_of

        variable = self.key_variable or ANTHROPIC_KEY
        key = read_key(variable, self.root)
        if key is None:
            raise DataError(f"no key: set {variable} in the environment or in .env")
        client = client_of(key, intent.service.origin)
        nothing = Price(model=intent.model, input=0, output=0)
        return AnthropicBatches(
            client=client, model=intent.model, price=nothing, max_tokens=1, effort=""
        )  # it looks and cancels, and is asked nothing


def _id(intent: Intent) -> str:
    if intent.batch_id is None:
        raise DataError(
            f"whether {intent.intent} became a batch is not known yet; the next run finds out"
        )
    return intent.batch_id
