"""What must not grow faster than its input: without a limit that a slow or busy machine could pass."""

import re
import signal
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 20.0  # of processor time; what is read once takes less than one, on every machine that was tried


@contextmanager
def not_endless() -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < SECONDS


def limit_memory(beyond: int) -> None:
    """Give this process no more than so many bytes of address space beyond what it has; signals of timers end work."""
    import resource  # Windows has none

    used = int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10
    resource.setrlimit(resource.RLIMIT_AS, (used + beyond, resource.RLIM_INFINITY))
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, give_up)


def give_up(*_: object) -> None:
    raise TimeoutError("no end in sight")


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()
