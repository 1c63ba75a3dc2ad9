"""Cache keys: a hash of everything that could change an answer, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache

from pydantic_core import to_json

from arena_kit.judging.judges.base import Judge
from arena_kit.judging.records import Asked

_KEY_VERSION = 2


def cache_keys(judge: Judge, requests: Iterable[Asked]) -> list[str]:
    """A hash for each request of everything that could change its answer."""
    asked = {"schema": _KEY_VERSION, "model": judge.model, "settings": dict(judge.settings)}
    head = json.dumps(asked, sort_keys=True, allow_nan=False).encode()
    return [_key(head, request) for request in requests]


def settings_digest(judge: Judge) -> str:
    """A short hash of a judge's settings, to tell answers made under others apart."""
    return hashlib.sha256(json.dumps(dict(judge.settings), sort_keys=True).encode()).hexdigest()[
        :16
    ]


def _key(head: bytes, request: Asked) -> str:
    parts = (
        head,
        to_json(request.identity),
        _digest(request.system),
        request.user.encode("utf-8", "surrogatepass"),
    )
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


@lru_cache(maxsize=64)
def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
