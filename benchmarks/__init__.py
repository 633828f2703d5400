"""How long the program takes, and what its claims rest on: see README.md."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where the sets are kept: ``NUCLEI_BENCHMARK_CACHE``, else a folder in the user's cache."""
    chosen = os.environ.get("NUCLEI_BENCHMARK_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "nuclei-evaluation-benchmarks"
