"""Fuzz every reader: mutated examples must be read, or refused with findings, within the limits of time and memory.

    PYTHONPATH=.:library:tests python -m fuzz --inputs 20000 [--kind "geojson outlines"] [--seed 0] [--workers 2]

Inputs depend on kind, seed and number only. One that does something else is written to ``fuzz-failures/``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from processes import end_with_parent

from fuzz.run import KINDS, fuzz


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    step = max(1, min(2000, options.inputs))
    failures: list[str] = []
    end_with_parent()
    with ProcessPoolExecutor(options.workers, get_context("spawn"), initializer=end_with_parent) as pool:
        for kind in options.kind or KINDS:
            began = time.monotonic()
            parts = [range(first, min(first + step, options.inputs)) for first in range(0, options.inputs, step)]
            ended: Counter[str] = Counter()
            for counts, bad in pool.map(fuzz, [kind] * len(parts), [options.seed] * len(parts), parts):
                ended += counts
                failures += bad
            told = ", ".join(f"{code} {count:,}" for code, count in ended.most_common(6))
            print(f"{kind:30} {options.inputs:,} inputs in {time.monotonic() - began:.0f} s: {told}", flush=True)
    for line in failures[:50]:
        print(line)
    print(f"{len(failures):,} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
