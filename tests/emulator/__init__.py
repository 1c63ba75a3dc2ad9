"""A loopback stand-in for the Messages and Batches API, written from documents.

It shares no code with the package it tests. Each rule carries the mark of its source:
[RUN] tried with the real SDK, [SRC] read in the SDK, [DOC-A] official documentation of
August 2026, [DOC-B] official documentation, excerpt only, [3P] a third party, [INF] an
inference. No rule was observed on the real service.
"""

from tests.emulator.behaviours import Reply
from tests.emulator.messages import digest_of
from tests.emulator.rules import ApiError
from tests.emulator.server import Emulator
from tests.emulator.settings import Fault

__all__ = ["ApiError", "Emulator", "Fault", "Reply", "digest_of"]
