"""A Dask cluster that exists already, as an executor. dask.distributed is imported when one is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from evaluation.findings import quote
from evaluation.findings.command_line import MissingExtra
from evaluation.findings.errors import WrongUsage
from evaluation.findings.execution import NoAddress, NoScheduler

CONNECT_SECONDS = 30
LARGE_TASK = "1GiB"  # from where on Dask warns: all that a submission comes to is one argument, to be added up


@contextmanager
def connect(address: str | None) -> Iterator[Executor | None]:
    """An executor of the cluster whose scheduler is at an address, such as ``tcp://login1:8786``; None without one.

    Raises WrongUsage: missing-extra, no-cluster. The cluster is there afterwards as it was.
    """
    if address is None:
        yield None
        return
    try:
        import dask
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise WrongUsage(MissingExtra(error.name or "distributed", "cluster").at("--cluster")) from None
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGE_TASK}):
        fault = NoAddress()
        try:
            get_address_host_port(address)
            fault = NoScheduler(CONNECT_SECONDS)
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError):
            raise WrongUsage(fault.at(f"--cluster {quote(address, 120)}")) from None
        with client, client.get_executor(pure=False) as executor:  # type: ignore[no-untyped-call]
            yield executor
