"""How long a machine takes decides nothing: no test has a deadline, as in the tests of the application."""

from __future__ import annotations

from hypothesis import settings

if settings().deadline is not None:  # else the tests of the application have said so
    settings.register_profile("library", deadline=None)
    settings.load_profile("library")
