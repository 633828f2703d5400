"""Executors of others: of Dask, or any other of ``concurrent.futures``. Worker processes of ours: processes.py."""

from __future__ import annotations

import logging
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from evaluation.files.results import __version__
from evaluation.files.submission import SubmissionFiles
from evaluation.files.system import memory_left, usable_processors
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import WorkersLost, WrongUsage
from evaluation.scoring.processes import WorkerLost

CLUSTER_TASKS = 8  # at least, where a cluster has not started its workers yet


class LentExecutor(Executor):
    """An executor of somebody else, which runs ``width`` tasks at once. Its workers are unknown.

    The task of a lost worker raises WorkerLost; WorkersLost is raised if all are lost, or run another program.
    """

    def __init__(self, executor: Executor, width: int) -> None:
        self._executor, self._width = executor, width
        self._futures: list[Future[Any]] = []

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        packed = pickle.dumps(partial(function, *arguments, **options), pickle.HIGHEST_PROTOCOL)
        try:
            lent = self._executor.submit(_run_packed, __version__, packed, self._width)
        except (RuntimeError, OSError) as error:  # BrokenExecutor among them, and connections that are closed
            raise WorkersLost(_no_executor(error)) from error
        self._futures.append(lent)
        future: Future[Any] = Future()
        lent.add_done_callback(partial(self._settle, future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel the tasks that no worker has begun; the executor goes on."""
        for lent in self._futures:
            lent.cancel()

    def _settle(self, future: Future[Any], lent: Future[Any]) -> None:
        try:
            future.set_result(lent.result())
        except _worker_was_lost():
            future.set_exception(WorkerLost())
        except CancelledError as error:
            watch = getattr(self._executor, "watch", None)  # of a cluster
            future.set_exception(WorkersLost(_scheduler_lost(watch.address) if watch else _no_executor(error)))
        except ImportError as error:
            future.set_exception(WorkersLost(fault("no-cluster", "a worker", wording="package-not-found", error=error)))
        except Exception as error:  # noqa: BLE001, of the task: raised again where its outcome is wanted
            future.set_exception(error)


def _run_packed(version: str, packed: bytes, beside: int) -> Any:
    """Run the task that a worker was sent, with the program that sent it: another may give other numbers.

    beside   number of parallel tasks; on this machine at most the number of processors
    """
    from evaluation.files.decoding.guard import of_thread

    if version != __version__:
        finding = fault("no-cluster", "a worker", wording="other-program", version=__version__, own_version=version)
        raise WorkersLost(finding)
    task = pickle.loads(packed)
    for path in _paths_of(task.args):
        if not path.exists():  # or its files would seem to be missing
            raise WorkersLost(fault("no-cluster", "a worker", wording="folder-not-shared", path=path))
    of_machine = min(beside, usable_processors())
    try:
        of_thread.share = None if beside == 1 else memory_left().together // of_machine // 2
        return task()
    finally:
        of_thread.share = None  # the thread may belong to the main process


def _paths_of(task: Sequence[Any]) -> list[Path]:
    """The files and folders that a task reads."""
    paths = [argument.path if isinstance(argument, SubmissionFiles) else argument for argument in task]
    return [path for path in paths if isinstance(path, Path)]


def _worker_was_lost() -> tuple[type[Exception], ...]:
    """Errors of executors for the task of a lost worker. Dask and Ray have already tried several workers."""
    distributed, ray = sys.modules.get("distributed"), sys.modules.get("ray")
    of_dask = () if distributed is None else (distributed.KilledWorker,)
    of_ray = () if ray is None else (ray.exceptions.WorkerCrashedError,)
    return (BrokenExecutor, *of_dask, *of_ray)


def _no_executor(error: BaseException) -> Finding:
    return fault("no-cluster", "the executor", wording="executor-stopped", why=str(error) or type(error).__name__)


def tasks_at_once(executor: Executor) -> int:
    """The number of parallel tasks of an executor, if known."""
    client = getattr(executor, "_client", None)
    if client is not None:  # of dask.distributed; a cluster may start its workers when there are tasks
        return max(CLUSTER_TASKS, sum(int(threads) for threads in client.nthreads().values()))
    return int(getattr(executor, "_max_workers", 0)) or usable_processors()


# --- A Dask cluster that exists already, as an executor. dask.distributed is imported when one is asked for. ----------


CONNECT_SECONDS = 30
WORKER_SECONDS = 600  # that a cluster may be without workers: queues of clusters take their time
REPORT_EVERY_SECONDS = 20
LARGE_TASK = "1GiB"  # from where on Dask warns: all that a submission comes to is one argument, to be added up


class _Watch:
    """Tells that a cluster has no workers, and ends the waiting for them."""

    def __init__(self, client: Any, address: str, say: Callable[[str], None]) -> None:
        self.client, self.address, self.say = client, address, say
        self.since: float | None = None
        self.reported = 0.0

    def has_workers(self) -> bool:
        """Return whether there are workers now. Raises WorkersLost: no-cluster, for the scheduler, or after all
        waiting."""
        try:
            threads = self.client.nthreads() if self.client.status == "running" else None
        except OSError:
            threads = None
        if threads is None:
            raise WorkersLost(_scheduler_lost(self.address))
        if threads:
            self.since = None
            return True
        now = time.monotonic()
        if self.since is None:
            self.since, self.reported = now, now
        if now - self.since >= WORKER_SECONDS:
            where = f"--cluster {quote(self.address, 120)}"
            raise WorkersLost(fault("no-cluster", where, wording="no-workers", seconds=WORKER_SECONDS))
        if now - self.reported >= REPORT_EVERY_SECONDS:
            self.reported = now
            self.say(f"no workers at {self.address} yet, waiting {now - self.since:.0f} s of {WORKER_SECONDS}")
        return False


def _scheduler_lost(address: str) -> Finding:
    return fault("no-cluster", f"--cluster {quote(address, 120)}", wording="scheduler-lost")


@contextmanager
def connect(address: str | None, say: Callable[[str], None] = print) -> Iterator[Executor | None]:
    """An executor of a cluster by the address of its scheduler, such as ``tcp://login1:8786``; None without an address.

    say  is called with a line every 20 s while the cluster has no workers

    Raises WrongUsage (missing-extra, no-cluster) and WorkersLost. The cluster is there afterwards as it was.
    """
    if address is None:
        yield None
        return
    try:
        import dask
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        finding = fault("missing-extra", "--cluster", package=error.name or "distributed", extra="cluster")
        raise WrongUsage(finding) from None
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGE_TASK}), _silenced():
        problem = partial(fault, "no-cluster", wording="no-address")
        try:
            get_address_host_port(address)
            problem = partial(fault, "no-cluster", wording="no-scheduler", seconds=CONNECT_SECONDS)
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError):
            raise WrongUsage(problem(f"--cluster {quote(address, 120)}")) from None
        with client, client.get_executor(pure=False) as executor:  # type: ignore[no-untyped-call]
            executor.watch = _Watch(client, address, say)
            while not executor.watch.has_workers():
                time.sleep(min(1, REPORT_EVERY_SECONDS))
            yield executor


@contextmanager
def _silenced() -> Iterator[None]:
    """Silence the log of cluster libraries, which print tracebacks when a connection ends; we report it in words."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
