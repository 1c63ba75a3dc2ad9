"""Numba, where it is installed and pays for its start: a kernel is compiled at its first call.

Kernels are plain loops over arrays that the caller made: Numba compiles those in a fraction of the
time that array expressions take, and the first call in a new environment waits for it.
"""

import importlib.util
import logging
from collections.abc import Callable
from functools import cache
from threading import Timer
from typing import Any, cast

Function = Callable[..., Any]
#: What kernels do without, since compiling it takes time: reference counts (they make no arrays),
#: a way to be called from C, and rewritten array expressions.
_OPTIONS: dict[str, Any] = {
    "nogil": True, "cache": True, "error_model": "numpy",
    "_nrt": False, "no_cfunc_wrapper": True, "no_rewrites": True,
}  # fmt: skip
_PATIENCE = 1.0  # seconds; loading what was compiled before takes less


class Kernel:
    """A function that is compiled, or loaded from Numba's cache, at its first call, and so are the
    functions (`parts`) that it calls; the first that takes long says so.
    """

    def __init__(
        self, function: Function, *fastmath: str, parts: tuple[Function, ...] = ()
    ) -> None:
        self._function, self._fastmath, self._parts = function, set(fastmath), parts
        self._compiled: Function | None = None

    def __call__(self, *args: Any) -> Any:
        if self._compiled is None:
            self._compiled = self._compile(args)
        return self._compiled(*args)

    def _compile(self, args: tuple[Any, ...]) -> Function:
        from numba import njit, typeof

        for part in self._parts:
            _register(part)
        compiled: Any = njit(self._function, fastmath=self._fastmath, **_OPTIONS)
        notice = Timer(_PATIENCE, _say_so)
        notice.daemon = True
        notice.start()
        try:
            compiled.compile(tuple(map(typeof, args)))
        finally:
            notice.cancel()
        return cast("Function", compiled)


@cache
def _register(part: Function) -> None:
    from numba.extending import register_jitable

    register_jitable(error_model="numpy")(part)


@cache
def _say_so() -> None:
    logging.getLogger("arena_kit").warning(
        "preparing kernels: they are compiled once in an environment, which takes a few seconds"
    )


def numba_pays(work: float, least: float) -> bool:
    """Whether compiled code pays for its start, where Numba is installed."""
    return work >= least and importlib.util.find_spec("numba") is not None
