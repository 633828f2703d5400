"""A Dask cluster that exists already, as an executor. dask.distributed is imported when one is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from evaluation.findings import Finding, quote
from evaluation.findings.errors import WrongUsage

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
        fix = "Install them: pip install '.[cluster]' in the folder of this program."
        got = f"{quote(error.name or 'distributed')} is not installed"
        expected = "the packages of the extra 'cluster'"
        raise WrongUsage(Finding("missing-extra", "--cluster", got, expected, fix)) from None
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGE_TASK}):
        got = "no address of a scheduler"
        try:
            get_address_host_port(address)
            got = f"no scheduler answered within {CONNECT_SECONDS} s"
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError):
            expected = "the address of a running Dask scheduler, such as tcp://login1:8786"
            fix = "docs/cluster.md shows how to start one."
            raise WrongUsage(Finding("no-cluster", f"--cluster {quote(address, 120)}", got, expected, fix)) from None
        with client, client.get_executor(pure=False) as executor:  # type: ignore[no-untyped-call]
            yield executor
