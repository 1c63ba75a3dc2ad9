"""The key of a vote store: it seals ballots and signs cookies, and stays with the researcher."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from arena_kit.files import DataError

_BYTES = 32


def key_file(store: str, root: Path) -> Path:
    """Where the key of a store is: beside a SQLite file, else in the workspace."""
    return root / ".arena_kit" / "votes.key" if "://" in store else Path(store).with_suffix(".key")


def signing_key(path: Path) -> bytes:
    """The key in a file that only its owner may read; made where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    else:
        text = secrets.token_hex(_BYTES)
        with os.fdopen(handle, "w", encoding="ascii") as out:
            out.write(f"{text}\n")
            out.flush()
            os.fsync(out.fileno())
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _BYTES:
        raise DataError(f"{path}: is no key of a vote store; expected {2 * _BYTES} hex digits")
    return key


def signature(key: bytes, *parts: str) -> str:
    """HMAC-SHA-256 of some texts, each on a line of its own."""
    return hmac.new(key, "\n".join(parts).encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def same(given: str, wanted: str) -> bool:
    """Whether two texts are equal, compared in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode("utf-8", "replace"))
