"""Keys: from the environment or a git-ignored .env, and from nowhere else."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from arena_kit.files import DataError

_LOOKS_LIKE_A_KEY = re.compile(r"\bsk-[A-Za-z0-9_-]{12,}|\bBearer\s+\S{12,}", re.IGNORECASE)
_NAMES_A_KEY = re.compile(r"(api_?key|_token|_secret)$", re.IGNORECASE)
_SHORTEST_KEY = 12


def read_key(variable: str, root: Path) -> str | None:
    """The key named by an environment variable, or by a line of the workspace's .env."""
    if value := os.environ.get(variable):
        return value
    file = root / ".env"
    if not file.is_file():
        return None
    if _committable(file):
        raise DataError(f"{file}: git does not ignore this file; add .env to .gitignore")
    return dotenv_values(file).get(variable) or None


def refuse_keys(values: Mapping[str, Any], where: str) -> None:
    """Raise when a parameter holds what is or looks like a key, without repeating it."""
    texts = list(_texts(values))
    named = {text for name, text in texts if name.endswith("key_variable")}
    secret = {
        value
        for name, value in os.environ.items()
        if (name in named or _NAMES_A_KEY.search(name)) and len(value) >= _SHORTEST_KEY
    }
    for name, text in texts:
        if _LOOKS_LIKE_A_KEY.search(text) or any(key in text for key in secret):
            raise DataError(
                f"{where}: {name} holds a key; keys come from the environment or a git-ignored "
                ".env, and key_variable names the variable"
            )


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(str(key), "a name")
            yield from _texts(inner, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, name)
    else:
        yield name, str(value)


def _committable(file: Path) -> bool:
    """Whether the file stands in a git working tree that does not ignore it."""
    command = ["git", "-C", str(file.parent), "check-ignore", "--quiet", file.name]
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 1
