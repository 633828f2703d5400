"""Hashes of challenges, frozen: a change here means that results before and after cannot be compared.

``./test.sh tests/test_hashes.py --renew-golden`` adds those of new presets and formats; nothing else may change.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from every_format import SIDES, challenge_document

from evaluation.challenge import Challenge, preset_names

FROZEN = Path(__file__).parent / "golden" / "challenge_hashes.json"
GROUND_TRUTH = Path(__file__).parents[1] / "ground_truth"
RULES = {
    "iou_above": {"threshold": 0.5},
    "iou_assignment": {"threshold": 0},
    "best_iou_centroid_inside": {},
    "best_iou_any_overlap": {},
    "centroid_closest_first": {"radius_px": 2.5},
    "centroid_assignment": {"radius_px": 2.5},
    "centroid_assignment after": {"radius_px": 2.5, "cutoff": "after"},
    "hausdorff_closest_first": {"radius_px": 3},
    "confidence_first": {"radius_px": 2.5},
    "confidence_first iou": {"threshold": 0.3},
}
COUNTS = {
    "reference": {"format": "counts_csv", "files": "counts.csv"},
    "submission": {
        "format": "counts_csv", "files": "counts.csv", "missing_case": "worst", "missing_class_file": "empty"
    },
    "matching": {"rules": ()},
    "metrics": {"families": ("counting",), "boundary": "open"},
}  # fmt: skip


def with_rule(name: str) -> Challenge:
    rule = {"name": "a", "rule": name.split()[0], "class_aware": True, "ties": "first_pixel", **RULES[name]}
    return Challenge.from_preset("monusac2020", name="frozen", matching={"rules": [rule]})


def challenges() -> dict[str, Challenge]:
    counts = {**challenge_document("geojson outlines"), **COUNTS}
    return {
        **{f"preset {name}": Challenge.from_preset(name, name="frozen") for name in preset_names()},
        **{f"format {kind}": Challenge.build(challenge_document(kind)) for kind in SIDES},
        **{f"rule {name}": with_rule(name) for name in RULES},
        "format counts_csv": Challenge.build(counts),
        "ground_truth": Challenge.load(GROUND_TRUTH),
    }


def test_the_hashes_of_challenges_are_what_they_were(request):
    found = {name: challenge.hash for name, challenge in challenges().items()}
    if request.config.getoption("--renew-golden"):
        FROZEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(FROZEN.read_text())


@pytest.mark.parametrize("kind", SIDES)
def test_a_challenge_comes_back_from_a_worker_as_it_was(kind):
    challenge = Challenge.build(challenge_document(kind))
    returned = pickle.loads(pickle.dumps(challenge))
    assert returned == challenge
    assert type(returned.reference) is type(challenge.reference)
