"""A Dask cluster that exists already, as an executor. dask.distributed is imported when one is asked for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from typing import Any

from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import WorkersLost, WrongUsage

CONNECT_SECONDS = 30
WORKER_SECONDS = 600  # that a cluster may be without workers: queues of clusters take their time
REPORT_EVERY_SECONDS = 20
LARGE_TASK = "1GiB"  # from where on Dask warns: all that a submission comes to is one argument, to be added up


class Watch:
    """Tells that a cluster has no workers, and ends the waiting for them."""

    def __init__(self, client: Any, address: str, say: Callable[[str], None]) -> None:
        self.client, self.address, self.say = client, address, say
        self.lock = threading.Lock()  # many threads wait for tasks; one of them asks
        self.since: float | None = None
        self.reported = 0.0

    def has_workers(self) -> bool:
        """Whether there are workers now. Raises WorkersLost: no-cluster, for the scheduler, or after all waiting."""
        if not self.lock.acquire(blocking=False):
            return True
        try:
            if self.client.status != "running":
                raise WorkersLost(scheduler_lost(self.address))
            try:
                if self.client.nthreads():
                    self.since = None
                    return True
            except OSError:
                raise WorkersLost(scheduler_lost(self.address)) from None
            now = time.monotonic()
            if self.since is None:
                self.since, self.reported = now, now
            if now - self.since >= WORKER_SECONDS:
                raise WorkersLost(
                    fault(
                        "no-cluster",
                        f"--cluster {quote(self.address, 120)}",
                        wording="no-workers",
                        seconds=WORKER_SECONDS,
                    )
                )
            if now - self.reported >= REPORT_EVERY_SECONDS:
                self.reported = now
                self.say(f"no workers at {self.address} yet, waiting {now - self.since:.0f} s of {WORKER_SECONDS}")
            return False
        finally:
            self.lock.release()


def scheduler_lost(address: str) -> Finding:
    return fault("no-cluster", f"--cluster {quote(address, 120)}", wording="scheduler-lost")


@contextmanager
def connect(address: str | None, say: Callable[[str], None] = print) -> Iterator[Executor | None]:
    """An executor of the cluster whose scheduler is at an address, such as ``tcp://login1:8786``; None without one.

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
        raise WrongUsage(
            fault("missing-extra", "--cluster", package=error.name or "distributed", extra="cluster")
        ) from None
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGE_TASK}), silenced():
        problem = partial(fault, "no-cluster", wording="no-address")
        try:
            get_address_host_port(address)
            problem = partial(fault, "no-cluster", wording="no-scheduler", seconds=CONNECT_SECONDS)
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError):
            raise WrongUsage(problem(f"--cluster {quote(address, 120)}")) from None
        with client, client.get_executor(pure=False) as executor:  # type: ignore[no-untyped-call]
            executor.watch = Watch(client, address, say)
            while not executor.watch.has_workers():
                time.sleep(min(1, REPORT_EVERY_SECONDS))
            yield executor


@contextmanager
def silenced() -> Iterator[None]:
    """Nothing is logged: libraries of the cluster print tracebacks where a connection ends, which we tell in words."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
