"""arena_kit: judge verdicts and human votes, turned into ratings you can defend.

`__init__.pyi` lists the public names, for editors and for this module alike. Each is loaded
when it is first used, so `import arena_kit` costs next to nothing.
"""

import re as _re
import sys as _sys
from importlib import import_module as _import_module
from pathlib import Path as _Path

__version__ = "0.1.0"

_STUB = _Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOMES = {name: home for home, name in _re.findall(r"\nfrom (\S+) import (\w+) as", _STUB)}

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604 (the stub has the names)


if "IPython" in _sys.modules:
    _import_module("arena_kit.battles.display").show_errors_in_short()


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'arena_kit' has no attribute {name!r}")
    home = _HOMES[name]
    value: object = None if home == __name__ else getattr(_import_module(home), name, None)
    if value is None:  # a module of its own, not yet loaded
        value = _import_module(f"{home}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
