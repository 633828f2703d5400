"""The published fault ``file_order``: the counts of the library that MIDOG 2021 counted with, from files and points."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from grand_challenge_metrics.scorers import score_detection
from literal import points_of

from evaluation import Challenge, score_instances, score_submission
from evaluation.challenge.matching_rules import InFileOrder, Sides
from evaluation.findings.errors import ChallengeBroken
from evaluation.matching import overlap_table
from evaluation.model import Case

MIDOG = {"matching": {"published_faults": ["file_order"]}}
RULE = {"name": "a", "rule": "centroid_closest_first", "radius_px": 25, "ties": "first_pixel"}


def crowd(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Mitoses, and a detection near each of them and ten elsewhere."""
    reference = rng.uniform(0, 300, (rng.integers(0, 40), 2))
    near = reference[rng.random(len(reference)) < 0.9] + rng.normal(0, 12, 2)
    return reference, rng.permutation(np.concatenate([near, rng.uniform(0, 300, (rng.integers(0, 11), 2))]))


def counted(reference: np.ndarray, prediction: np.ndarray) -> tuple[int, int, int]:
    found = score_detection(
        ground_truth=[tuple(at) for at in reference], predictions=[tuple(at) for at in prediction], radius=25
    )
    return found.true_positives, found.false_negatives, found.false_positives


def test_the_pairs_are_as_many_as_the_library_counts_in_any_order_of_the_reference():
    rng = np.random.default_rng(1)
    rule = InFileOrder(**RULE, class_aware=False)
    differ = 0
    for _ in range(100):
        reference, prediction = crowd(rng)
        by_order = []
        for points in (reference, reference[::-1]):
            left, right = points_of(points), points_of(prediction)
            sides = Sides(Case("a", "a", 300, 300), overlap_table(left, right), left, right, "open")
            found = len(rule.match(sides))
            assert (found, len(points) - found, len(prediction) - found) == counted(points, prediction)
            by_order.append(found)
        differ += by_order[0] != by_order[1]
    assert differ > 20


def test_class_aware_points_of_other_classes_stay_free():
    left, right = points_of([(5, 5), (5, 6)], classes=[1, 2]), points_of([(5, 5)], classes=[2])
    sides = Sides(Case("a", "a", 300, 300), overlap_table(left, right), left, right, "open")
    assert [len(InFileOrder(**RULE, class_aware=aware).match(sides)) for aware in (False, True)] == [1, 1]
    assert InFileOrder(**RULE, class_aware=True).match(sides).reference_index.tolist() == [1]


@pytest.mark.parametrize(("order", "f1"), [((0, 8), 0.5), ((8, 0), 1.0)])
def test_midog_with_the_fault_counts_by_the_order_of_the_file(order: tuple[int, int], f1: float, tmp_path: Path):
    """Mitoses at 0 and 8 um, detections at 5 and -7 um: the first takes the one at 5, unless it comes last."""
    (tmp_path / "reference").mkdir()
    boxes = [[100 + x - 25, 75, 100 + x + 25, 125] for x in order]
    images = [{"id": 1, "file_name": "001.tiff", "width": 300, "height": 300}]
    annotations = [{"id": i, "image_id": 1, "category_id": 1, "bbox": box} for i, box in enumerate(boxes)]
    categories = [{"id": 1, "name": "mitotic figure"}]
    document = {"images": images, "annotations": annotations, "categories": categories}
    (tmp_path / "reference" / "MIDOG.json").write_text(json.dumps(document))
    (tmp_path / "cases.csv").write_text("case,group,height,width,spacing_um\n001,a,300,300,1\n")
    points = [{"name": "mitotic figure", "point": [(100 + x) / 1000, 0.1, 0]} for x in (5, -7)]
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "001.json").write_text(json.dumps({"type": "Multiple points", "points": points}))
    head = 'format_version = 1\nname = "a"\npreset = "midog2021"\n'
    for text, expected in (("", 1.0), ('[matching]\npublished_faults = ["file_order"]\n', f1)):
        (tmp_path / "challenge.toml").write_text(head + text)
        result = score_submission(tmp_path, tmp_path / "sent")
        assert result.value("detection.f1.pooled") == expected


def test_the_fault_needs_the_rule_in_whose_place_it_stands():
    with pytest.raises(ChallengeBroken, match="the first rule 'centroid_closest_first'"):
        Challenge.from_preset("nucls", name="a", **MIDOG)
    aware = Challenge.from_preset("midog2021", name="a", **MIDOG)
    assert aware.hash != Challenge.from_preset("midog2021", name="a").hash


def test_images_without_points_on_a_side_have_no_pair():
    challenge = Challenge.from_preset("midog2021", name="a", **MIDOG)
    images = {"a": (points_of([]), points_of([(1, 1)])), "b": (points_of([(1, 1)]), points_of([]))}
    result = score_instances(challenge, images, spacing_um=1.0)
    assert result.value("detection.f1.pooled") == 0
