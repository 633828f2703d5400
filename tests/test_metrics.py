"""Formulas of metrics, also at the ends of what numbers can hold."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from formats import read_part
from formats.json_outlines import point, points
from literal import points_of
from made_counts import score_of, units_of
from scipy.sparse import csr_array
from test_formulas import MISSING, mean_of
from test_surfaces import band, digits, everything, outlines

from evaluation import Challenge, score_instances
from evaluation.challenge.documents import LONGEST_SIDE_PX, MOST_PIXELS, read_cases
from evaluation.findings.errors import ChallengeBroken
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.matching.rules import match_centroid_closest_first
from nuclei_metrics.metrics import count_matches, every_nucleus, metrics_of
from nuclei_metrics.metrics.counts import overlap_measures
from nuclei_metrics.metrics.curves import average_precision
from nuclei_metrics.model import Boundaries, CaseTable, Instances, MatchCounts, MetricChoice, Units
from nuclei_metrics.model.counts import PairSamples, PredictionSamples, Score


def test_points_on_one_side_are_enough_to_have_no_outlines_also_when_pooled_with_a_missing_case():
    """What every metric says of points stands in ``situations``."""
    sides = instances_from_labels(np.full((50, 70), 1), class_id=1), points_of([(24.5, 34.5)], shape_yx=(50, 70))
    for pair in (sides, sides[::-1]):
        matches = match_centroid_closest_first(*pair, radius_px=0, class_aware=True)
        points = count_matches(*pair, matches, classes=2, measures=overlap_measures(matches))
        assert (len(matches), points.outlines, dict(points.measures)) == (1, False, {})
    for metric in metrics_of(MetricChoice(("segmentation", "panoptic"), ("a", "b")), class_aware=False):
        assert score_of(metric.evaluate, points, MISSING) == Score(None, "points-only")
        mean = mean_of(metric, units_of(points, MISSING), "worst")
        assert (mean.score, mean.units, mean.left_out, mean.penalised) == (Score(None, "points-only"), 0, 2, 0)


# --- sums, products and quotients at the ends of what numbers can hold ------------------------------------------------


SURE = (0.99999999, 0.99999998, 0.99999997)


def filled(height: int, width: int) -> Instances:
    """One nucleus that fills an image."""
    start = np.arange(height, dtype=np.int64) * width
    one = np.ones(1, np.int16)
    return Instances((height, width), one, one, start, start + width, np.zeros(height, np.int32))


def test_a_nucleus_that_fills_the_largest_image_has_its_centroid_in_the_middle():
    """Sums of coordinates of the pixels of a nucleus, twice: 63 bits hold them."""
    for height, width in ((MOST_PIXELS // LONGEST_SIDE_PX, LONGEST_SIDE_PX), (LONGEST_SIDE_PX // 8, 10**6)):
        assert height * width == MOST_PIXELS
        image = filled(height, width)
        assert image.centroids_yx().tolist() == [[(height - 1) / 2, (width - 1) / 2]]
        assert image.centroid_pixels_yx().tolist() == [[height // 2, width // 2]]


@pytest.mark.parametrize("height, width, got", [
    (1, LONGEST_SIDE_PX + 1, "width '4000001'; expected a whole number of pixels, 1 to 4,000,000"),
    (LONGEST_SIDE_PX, LONGEST_SIDE_PX, "16,000,000,000,000 pixels; expected at most 500,000,000,000"),
    (1, 3_000_000_000, "width '3000000000'; expected a whole number of pixels, 1 to 4,000,000"),
])  # fmt: skip
def test_larger_images_are_refused(height, width, got):
    with pytest.raises(ChallengeBroken, match=got):
        read_cases(f"case,height,width\na,{height},{width}\n")
    with pytest.raises(ValueError, match="px; expected"):
        both = replace(filled(1, 1), shape_yx=(height, width))
        score_instances(Challenge.from_preset("dsb2018", name="x"), {"a": (both, both)})


@pytest.mark.parametrize("family", ["boundary_iou", "surface_dice"])
def test_a_tolerance_in_um_is_that_in_px(family):
    """Squares of 30 px, 4 px apart; 0.7 um at 0.2 um/px are 3.5 px, though the quotient of floats is below."""
    labels = np.zeros((60, 60), np.int64)
    labels[10:40, 10:40] = 1
    found = []
    rule = {"name": "iou", "rule": "iou_above", "threshold": 0.5, "class_aware": False, "ties": "first_pixel"}
    for tolerance, spacing in (({"tolerance_px": 3.5}, None), ({"tolerance_um": 0.7}, 0.2)):
        metrics = {"families": ["segmentation", "thresholds"], "measures": [family], "boundary": "closed", **tolerance}
        rules = {"metrics": metrics, "ranking": None, "matching": {"rules": [rule]}}
        challenge = Challenge.from_preset("dsb2018", name="x", **rules)
        result = score_instances(challenge, {"a": (labels, np.roll(labels, 4, axis=1))}, spacing_um=spacing)
        found.append(result.value(f"segmentation.{family}.pooled"))
    assert found[0] == found[1]
    if family == "boundary_iou":
        assert found[0] == pytest.approx(1 / 3, abs=1e-6)


@pytest.mark.parametrize("read", [
    lambda: read_part(points(*(point(1, 2, name="", probability=p) for p in SURE)), format="points_json").probability,
    lambda: read_part("x,y,score\n" + "".join(f"1,2,{p}\n" for p in SURE), format="points_csv").probability,
])  # fmt: skip
def test_probabilities_that_differ_in_the_eighth_digit_are_no_ties(read):
    """Right, wrong, right, in this order: (1 + 2/3) / 2 of two nuclei is 5/6; a tie of all would give 2/3."""
    probability = read()
    assert probability.tolist() == list(SURE)
    samples = PredictionSamples(
        np.zeros(3, np.int64), np.ones(3, np.int16), np.array([1, 0, 1]), probability, None, None
    )
    sums = {"cases": np.ones(1, np.int64), "confusion": np.array([[[0, 1], [0, 2]]])}
    units = Units(CaseTable(sums, {}, np.ones(1), None, samples), csr_array([[1]]))
    assert average_precision(units).value.tolist() == [pytest.approx(5 / 6)]


def units_at_bounds(quality: np.ndarray, cases: int) -> Units:
    """All cases together; every nucleus is matched, with these IoU."""
    case = np.sort(np.arange(len(quality)) % cases)
    confusion = np.zeros((cases, 2, 2), np.int64)
    confusion[:, 1, 1] = np.bincount(case, minlength=cases)
    pairs = PairSamples(case, np.ones((len(quality), 2), np.int64), {"iou": quality}, None, None)
    zero = np.zeros(cases, np.int64)
    sums = {"cases": zero + 1, "confusion": confusion, "points": zero, "missing": zero, "empty": zero}
    return Units(CaseTable(sums, {}, np.ones(cases), pairs, None), csr_array(np.ones((1, cases), np.int64)))


def test_the_best_share_of_five_million_pairs_is_that_of_sorted_values():
    quality = np.random.default_rng(1).uniform(0.9, 1, 5_000_000)
    units = units_at_bounds(quality, 1)
    for coverage in (0.5, 1.0):
        best = np.sort(quality)[len(quality) - math.ceil(coverage * len(quality)) :]
        assert every_nucleus.best_mean(units, "iou", coverage).value[0] == pytest.approx(best.mean(), abs=1e-9)


def test_more_pairs_than_a_sum_of_64_bits_holds_in_one_case_and_in_three():
    one, three = units_at_bounds(np.ones(2**22 + 9), 1), units_at_bounds(np.ones(4_500_000), 3)
    assert every_nucleus.all_mean(one, "iou").value.tolist() == [1.0]
    assert every_nucleus.best_mean(one, "iou", 1.0).value.tolist() == [1.0]
    assert every_nucleus.coverage_curve(three, "iou", [0.5, 1.0]).tolist() == [1.0, 1.0]


# --- boundaries, bands and distances, against other programs ----------------------------------------------------------


def test_the_published_case_of_surface_distance_differs_by_where_the_surface_lies(shared_data):
    """Their surface elements are the corners of a pixel; with these as points their numbers come out, all of them."""
    (case, *_) = json.loads((shared_data / "peer_cases.json").read_text())["surface_distance"]
    assert "gt pixel (50,70), pred pixel (50,72)" in case["what"]

    def corners(y: int, x: int) -> Boundaries:
        return outlines([(y + dy, x + dx) for dy in (0, 1) for dx in (0, 1)])

    theirs = everything(corners(50, 70), corners(50, 72), 1.0)
    assert theirs.mean_surface_distance_px.tolist() == [np.mean(case["average_surface_distance"])]
    assert theirs.hausdorff_px.tolist() == [case["hd100"]]
    assert theirs.hausdorff95_px.tolist() == [case["hd95"]]
    assert theirs.surface_dice.tolist() == [case["surface_dice_1mm"]]
    ours = everything(outlines([(50, 70)]), outlines([(50, 72)]), 1.0)
    assert digits(ours) == [[case["hd100"]], [case["hd95"]], [2.0], [0.0]]


# --- many pairs measured at once --------------------------------------------------------------------------------------


def counts_of(images: dict[str, tuple[np.ndarray, np.ndarray]], **metrics: object) -> dict[str, MatchCounts]:
    """What is counted and measured of label maps of each image, of one class."""
    challenge = Challenge.from_preset(
        "monusac2020",
        name="test",
        classes=[{"name": "nucleus"}],
        metrics={"families": ["segmentation"], "boundary": "closed", **metrics},
        ranking={"columns": []},
    )
    sides = {name: tuple(instances_from_labels(side, class_id=1) for side in pair) for name, pair in images.items()}
    return {case.case.name: case.counts["iou_above"] for case in score_instances(challenge, sides).cases}


def bars(number: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bars of 4 px in a row each; the predicted bar goes on for 0 to 3 px more, by chance. Both sides, and how many."""
    longer = np.random.default_rng(seed).integers(0, 4, number)
    reference, prediction = np.zeros((2, 2 * number, 9), int)
    for bar, more in enumerate(longer):
        reference[2 * bar, 1:5] = prediction[2 * bar, 1 : 5 + more] = bar + 1
    return reference, prediction, longer


def test_every_pair_of_a_crowded_image_has_its_own_measures_between_those_of_small_images():
    """5,000 pairs are measured in several batches, of which the first and the last hold other images, too."""
    made = {"a": bars(3, 1), "b": bars(5000, 2), "c": bars(700, 3), "d": bars(1, 4)}
    measures = ["iou", "hausdorff_px", "boundary_iou"]
    images = {name: (reference, prediction) for name, (reference, prediction, _) in made.items()}
    counts = counts_of(images, measures=measures, tolerance_px=1)
    for name, (_, _, longer) in made.items():
        found = counts[name].measures
        assert found["hausdorff_px"].tolist() == longer.tolist()
        assert found["boundary_iou"].tolist() == (4 / (4 + longer)).tolist()


def band_iou(reference: np.ndarray, prediction: np.ndarray, width_px: int, border: str) -> float:
    p, q = (band(labels > 0, width_px, border) for labels in (reference, prediction))
    return (p & q).sum() / (p | q).sum()


def test_the_band_of_boundary_iou_is_as_wide_as_the_rounded_tolerance_and_at_least_one_pixel():
    reference, prediction = np.zeros((2, 30, 34), int)
    reference[4:22, 5:25] = prediction[5:24, 6:27] = 1
    for tolerance, width in ((0.3, 1), (1.0, 1), (1.49, 1), (1.5, 2), (2.4, 2), (2.5, 3), (3.2, 3)):
        images = {"image": (reference, prediction)}
        found = counts_of(images, measures=["iou", "boundary_iou"], tolerance_px=tolerance)["image"].measures
        assert found["boundary_iou"].tolist() == [band_iou(reference, prediction, width, "closed")]


@pytest.mark.parametrize(("boundary", "distance", "expected"), [("closed", 3.0, 24 / 50), ("open", 6.0, 12 / 24)])
def test_the_border_of_the_image_is_an_outline_as_the_challenge_says(boundary, distance, expected):
    """Both nuclei are as wide as the image; under open only the lower edges, and the upper one inside, are outlines."""
    reference, prediction = np.zeros((2, 20, 12), int)
    reference[:10] = prediction[3:10] = 1
    options = {"measures": ["iou", "hausdorff_px", "boundary_iou"], "tolerance_px": 1}
    counts = counts_of({"image": (reference, prediction)}, boundary=boundary, **options)
    assert counts["image"].measures["hausdorff_px"].tolist() == [distance]
    assert counts["image"].measures["boundary_iou"].tolist() == [expected]


def test_nuclei_at_the_edges_of_images_of_different_sizes_are_measured_as_those_of_one_image():
    """What lies on the last row and column of a small image has no outline there, whatever is measured with it."""
    images = {}
    for name, (height, width) in {"small": (14, 17), "wide": (14, 40), "high": (33, 17), "large": (33, 40)}.items():
        reference, prediction = np.zeros((2, height, width), int)
        reference[height - 9 :, width - 11 :] = prediction[height - 8 :, width - 9 :] = 1
        images[name] = reference, prediction
    options = {"boundary": "open", "measures": ["iou", "hausdorff_px", "boundary_iou"], "tolerance_px": 2}
    together = counts_of(images, **options)
    for name, sides in images.items():
        assert together[name].measures["boundary_iou"].tolist() == [band_iou(*sides, 2, "open")]
        assert together[name].measures["hausdorff_px"].tolist() == [np.hypot(1, 2)]
