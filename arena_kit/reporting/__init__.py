"""Presentation: the board, tables, pictures and the self-contained report.

A module is loaded when it is first used: `arena_kit.reporting.tables`.
"""

from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import Any as _Any


def __getattr__(name: str) -> _Any:
    home = f"{__name__}.{name}"
    if name.startswith("_") or _find_spec(home) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _import_module(home)
