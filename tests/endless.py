"""What must not grow faster than its input: without a limit that a slow or busy machine could pass."""

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 20.0  # of processor time; what is read once takes less than one, on every machine that was tried


@contextmanager
def not_endless() -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < SECONDS


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()
