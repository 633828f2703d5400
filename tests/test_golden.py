"""Golden results: the made challenge, scored to the byte. A difference is a change of rules; see CHANGELOG.md.

``./test.sh tests/test_golden.py --renew-golden`` writes them anew; review them as a diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation import score_submission
from evaluation.authoring.demo import TEAMS, write_demo
from evaluation.results.metrics_json import as_json

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return write_demo(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("team", TEAMS)
def test_metrics_of_the_made_challenge_are_golden(made, team, request):
    found = as_json(score_submission(made.challenge, made.submissions[team]).metrics)
    path = GOLDEN / f"demo_{team}.json"
    if request.config.getoption("--renew-golden"):
        path.write_text(found)
    assert found == path.read_text()
