"""Units that hold cases once, against scipy's sparse products."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from evaluation.model import Unions


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(), (1,), (7,)])
def test_sums_are_those_of_scipy_to_the_last_bit(seed: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    cases, sizes = 30, rng.integers(1, 30, 12)
    indices = np.concatenate([np.sort(rng.permutation(cases)[:size]) for size in sizes])
    unions = Unions(indices, np.concatenate([[0], np.cumsum(sizes)]), cases)
    numbers = rng.normal(size=(cases, *shape)) * 10.0 ** rng.integers(-9, 9, (cases, *shape))
    numbers[3] = np.nan
    for values in (numbers, rng.integers(-9, 9, (cases, *shape)), numbers > 0):
        for part in (slice(None), slice(4, 9), slice(11, 12)):
            expected = unions.tocsr()[part] @ values
            found = unions[part] @ values
            assert found.dtype == expected.dtype and found.shape == expected.shape
            np.testing.assert_array_equal(found, expected)


def test_the_median_of_units_needs_no_scipy_sparse() -> None:
    """Importing it takes longer than pooling all scores of a small data set."""
    program = """
import sys
import numpy as np
from evaluation.metrics.order_statistics import median_of_units
from evaluation.model import Unions, Units

units = Units(None, Unions(np.array([0, 1, 1]), np.array([0, 2, 3]), 2))
print(median_of_units(np.array([1.0, 5.0, 2.0]), np.array([0, 0, 1]), units).tolist(), "scipy.sparse" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[2.0, 2.0] False"
