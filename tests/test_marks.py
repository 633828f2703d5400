"""The table of tests that ./test.sh leaves out."""

from __future__ import annotations

import re
from pathlib import Path

from marks import MARKS, OF_FIXTURE, OF_TEST

HERE = Path(__file__).parent


def test_what_is_marked_is_there_and_marked_once() -> None:
    named = [name for names in OF_TEST.values() for name in names]
    assert len(named) == len(set(named))
    assert {*OF_TEST, *OF_FIXTURE.values()} == set(MARKS)
    for name in named:
        file, _, function = name.partition("::")
        assert re.search(rf"^(async )?def {function or 'test_'}", (HERE / file).read_text(), re.MULTILINE), name
