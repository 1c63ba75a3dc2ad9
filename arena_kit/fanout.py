"""Fan-out: one function on many tasks, on the cores of this machine or on a Dask cluster.

Results come in the order of the tasks. A task carries its own seed, so that who computed it, how
many did, and whether one of them was lost on the way change nothing.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from multiprocessing import get_context
from typing import Any, Literal, TypeVar

from arena_kit.files import DataError

Task = TypeVar("Task")
Result = TypeVar("Result")
#: Where work is done without a cluster: threads for kernels that release the interpreter,
#: processes for Python, and `here` for tasks that use all cores themselves.
By = Literal["threads", "processes", "here"]

VARIABLE = "DASK_SCHEDULER_ADDRESS"
_PATIENCE = 30  # seconds for a scheduler to answer and a worker to come
_SHARES = 4  # tasks per core: some take longer than others
_CLUSTER_SHARES = 32
_address: ContextVar[str | None] = ContextVar("address", default=None)


@contextmanager
def on_cluster(address: str | None) -> Iterator[None]:
    """Send the work of a block to this scheduler; '' keeps it here, None is what it was."""
    before = _address.set(cluster() if address is None else address)
    try:
        yield
    finally:
        _address.reset(before)


def cluster() -> str:
    """The scheduler that work goes to, by `on_cluster` or the environment; '' for none."""
    named = _address.get()
    return os.environ.get(VARIABLE, "") if named is None else named


def fan_out(
    function: Callable[[Task], Result], tasks: Sequence[Task], *, by: By = "threads", jobs: int = 0
) -> Iterator[Result]:
    """The results of a function for every task, in their order, from `jobs` workers (0: as many as
    there are cores) or, where one is named, from a cluster.
    """
    if address := cluster():
        return _from_cluster(_client(address), function, tasks)
    jobs = min(jobs or os.cpu_count() or 1, len(tasks))
    if by == "here" or jobs <= 1:
        return map(function, tasks)
    if by == "threads":
        return _from_pool(ThreadPoolExecutor(jobs), function, tasks)
    return _from_pool(ProcessPoolExecutor(jobs, get_context("spawn")), function, tasks)


def shares(n: int) -> list[slice]:
    """Consecutive shares of n pieces of work, a task each; together they are all."""
    parts = _CLUSTER_SHARES if cluster() else _SHARES * (os.cpu_count() or 1)
    edges = [n * part // parts for part in range(parts + 1)]
    return [slice(a, b) for a, b in pairwise(edges) if a < b]


def _from_pool(
    pool: Executor, function: Callable[[Task], Result], tasks: Sequence[Task]
) -> Iterator[Result]:
    """Results from workers, which start at once and end with the iterator."""
    results = _awaited(pool, pool.map(function, tasks))
    next(results)  # from here on, closing it ends the workers
    return results


def _awaited(pool: Executor, results: Iterator[Any]) -> Iterator[Any]:
    """None, and the results of a pool; where nobody waits for them, its processes are ended."""
    try:
        yield None
        yield from results
    except BaseException:
        for worker in list((getattr(pool, "_processes", None) or {}).values()):
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _from_cluster(
    client: Any, function: Callable[[Task], Result], tasks: Sequence[Task]
) -> Iterator[Result]:
    """Results from workers; what a lost worker had is computed again, the function that all tasks
    share with it, since that is a task itself.
    """
    shared = client.submit(_itself, function, pure=False)
    waiting = [client.submit(_called, shared, task, pure=False) for task in tasks]
    try:
        while waiting:
            yield waiting[0].result()
            waiting.pop(0).release()
    finally:
        client.cancel([shared, *waiting])


def _itself(function: Any) -> Any:
    return function


def _called(function: Callable[[Task], Result], task: Task) -> Result:
    """A task on a worker, where work within it stays."""
    with on_cluster(""):
        return function(task)


@cache
def _client(address: str) -> Any:
    """A connection to a scheduler whose workers run this version."""
    try:
        import distributed
    except ImportError:
        raise DataError(
            f"cluster {address}: Dask is not installed; pip install 'arena-kit[dask]'"
        ) from None
    try:
        connect: Any = distributed.Client
        client = connect(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise DataError(f"cluster {address}: no Dask scheduler answers ({error})") from None
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        raise DataError(f"cluster {address}: the scheduler has no worker") from None
    versions = set(client.run(_version).values())
    if versions != {_version()}:
        raise DataError(
            f"cluster {address}: workers run arena-kit {', '.join(sorted(versions))}; "
            f"allowed: {_version()}, as here"
        )
    return client


def _version() -> str:
    from arena_kit import __version__

    return __version__
