"""What several test files share."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import browser, chromium  # noqa: F401, fixtures
from hypothesis import settings

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the real data, which are never copied into the project (licences)."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"NOT TESTED ON REAL DATA: the folder {SHARED_DATA} is missing")
    return SHARED_DATA


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--renew-golden", action="store_true", help="write the golden results of tests/golden anew")


# Machines are noisy: how long an example takes decides nothing.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
