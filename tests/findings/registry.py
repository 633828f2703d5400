"""Which fixture is for which code."""

from __future__ import annotations

from collections.abc import Callable

from findings.bench import Fixture

FIXTURES: dict[str, Fixture] = {}


def example_of(code: str) -> Callable[[Fixture], Fixture]:
    """Mark the function that makes the input and returns what the program prints about it."""

    def register(fixture: Fixture) -> Fixture:
        if code in FIXTURES:
            raise ValueError(f"two fixtures for {code}")
        FIXTURES[code] = fixture
        return fixture

    return register
