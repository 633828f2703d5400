"""Sums, products and quotients at the ends of what numbers can hold."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from test_csv_formats import points as read_csv_points
from test_json_formats import point, points
from test_json_formats import read as read_json

from evaluation import Challenge, instances_from_labels, score_instances
from evaluation.challenge.cases import LONGEST_SIDE_PX, MOST_PIXELS, read_cases
from evaluation.findings.errors import ChallengeBroken
from evaluation.metrics import classification, every_nucleus
from evaluation.metrics.curves import average_precision
from evaluation.metrics.every_nucleus import HALF, ONE, join_halves
from evaluation.model import CaseTable, Instances, PairSamples, PredictionSamples, Units, um_to_px

SURE = (0.99999999, 0.99999998, 0.99999997)


def units_of(quality: np.ndarray, cases: int) -> Units:
    """All cases together; every nucleus is matched, with these IoU."""
    case = np.sort(np.arange(len(quality)) % cases)
    confusion = np.zeros((cases, 2, 2), np.int64)
    confusion[:, 1, 1] = np.bincount(case, minlength=cases)
    pairs = PairSamples(case, np.ones((len(quality), 2), np.int64), {"iou": quality}, None, None)
    zero = np.zeros(cases, np.int64)
    sums = {"cases": zero + 1, "confusion": confusion, "points": zero, "missing": zero, "empty": zero}
    return Units(CaseTable(sums, {}, np.ones(cases), pairs, None), csr_array(np.ones((1, cases), np.int64)))


def test_more_pairs_than_a_sum_of_64_bits_holds_in_one_case():
    assert every_nucleus.all_mean(units_of(np.ones(2**22 + 9), 1), "iou").value.tolist() == [1.0]
    assert every_nucleus.best_mean(units_of(np.ones(2**22 + 9), 1), "iou", 1.0).value.tolist() == [1.0]


def test_more_pairs_than_a_sum_of_64_bits_holds_in_three_cases():
    assert every_nucleus.coverage_curve(units_of(np.ones(4_500_000), 3), "iou", [0.5, 1.0]).tolist() == [1.0, 1.0]


def test_the_best_share_of_five_million_pairs_is_that_of_sorted_values():
    quality = np.random.default_rng(1).uniform(0.9, 1, 5_000_000)
    units = units_of(quality, 1)
    for coverage in (0.5, 1.0):
        best = np.sort(quality)[len(quality) - math.ceil(coverage * len(quality)) :]
        assert every_nucleus.best_mean(units, "iou", coverage).value[0] == pytest.approx(best.mean(), abs=1e-9)


@given(st.lists(st.integers(0, ONE), min_size=1, max_size=20))
def test_two_halves_are_the_sum_rounded_once(quality):
    halves = np.divmod(np.array(quality), HALF)
    assert float(join_halves(*(half.sum() for half in halves))) == float(sum(quality))


@pytest.mark.parametrize("times", [1, 10**6, 3 * 10**9 // 3000, 10**12])
def test_agreement_beyond_chance_of_any_number_of_pairs(times):
    """The same matrix, however often: the value is that of the small one, by whole numbers without end."""
    small = [[3000, 1000], [500, 2000]]
    confusion = np.zeros((1, 3, 3), np.int64)
    confusion[0, 1:, 1:] = np.array(small) * times
    units = Units(
        CaseTable({"cases": np.ones(1), "confusion": confusion}, {}, np.ones(1), None, None), csr_array([[1]])
    )
    covariance, spread = (
        5000 * 6500 - (4000 * 3500 + 2500 * 3000),
        (6500**2 - 3500**2 - 3000**2) * (6500**2 - 4000**2 - 2500**2),
    )
    assert classification.matthews_correlation(units).value[0] == pytest.approx(
        covariance / math.sqrt(spread), abs=1e-12
    )
    chance = Fraction(4000 * 3500 + 2500 * 3000, 6500**2)
    kappa = (Fraction(5000, 6500) - chance) / (1 - chance)
    assert classification.cohen_kappa(units).value[0] == pytest.approx(float(kappa), abs=1e-12)


def test_an_image_with_a_side_beyond_all_distances_is_refused():
    challenge = Challenge.from_preset("dsb2018", name="x")
    wide = replace(instances_from_labels(np.ones((1, 5), int), class_id=1), shape_yx=(1, 3_000_000_000))
    with pytest.raises(ValueError, match="3,000,000,000"):
        score_instances(challenge, {"a": (wide, wide)})


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


@pytest.mark.parametrize(
    ("height", "width", "got"),
    [
        (1, LONGEST_SIDE_PX + 1, "width '4000001'; expected a whole number of pixels, 1 to 4,000,000"),
        (LONGEST_SIDE_PX, LONGEST_SIDE_PX, "16,000,000,000,000 pixels; expected at most 500,000,000,000"),
    ],
)
def test_larger_images_are_refused(height, width, got):
    with pytest.raises(ChallengeBroken, match=got):
        read_cases(f"case,height,width\na,{height},{width}\n")
    with pytest.raises(ValueError, match="px; expected"):
        wide = filled(1, 1)
        both = replace(wide, shape_yx=(height, width))
        score_instances(Challenge.from_preset("dsb2018", name="x"), {"a": (both, both)})


@given(st.integers(1, 10**7), st.integers(1, 999), st.integers(0, 3))
def test_um_are_the_px_that_one_would_write_down(px_thousandths, spacing_thousandths, digits):
    """k thousandths of a pixel, at a spacing with three decimals: back to k thousandths, to the digit."""
    px, spacing = Fraction(px_thousandths, 10**digits), Fraction(spacing_thousandths, 1000)
    assert um_to_px(float(px * spacing), float(spacing)) == float(px)
    assert um_to_px(np.array([float(px * spacing)]), float(spacing)).tolist() == [float(px)]


def test_um_that_are_no_short_number_of_px_are_divided():
    assert um_to_px(4.0, 0.24199951) == 4.0 / 0.24199951


@pytest.mark.parametrize("family", ["boundary_iou", "surface_dice"])
def test_a_tolerance_in_um_is_that_in_px(family):
    """Squares of 30 px, 4 px apart; 0.7 um at 0.2 um/px are 3.5 px, though the quotient of floats is below."""
    labels = np.zeros((60, 60), np.int64)
    labels[10:40, 10:40] = 1
    found = []
    for key, spacing in (("tolerance_px", None), ("tolerance_um", 0.2)):
        metrics = {
            "families": ["segmentation", "thresholds"],
            "iou_thresholds": [0.5],
            "measures": [family],
            "boundary": "closed",
            key: 3.5 if spacing is None else 0.7,
        }
        challenge = Challenge.from_preset(
            "dsb2018",
            name="x",
            metrics=metrics,
            ranking={"method": "sum_of_ranks", "ties": "min", "significance_level": 0.05, "columns": []},
            matching={
                "rules": [
                    {"name": "iou", "rule": "iou_above", "threshold": 0.5, "class_aware": False, "ties": "first_pixel"}
                ]
            },
        )
        result = score_instances(challenge, {"a": (labels, np.roll(labels, 4, axis=1))}, spacing_um=spacing)
        found.append(result.value(f"segmentation.{family}.pooled"))
    assert found[0] == found[1]
    if family == "boundary_iou":
        assert found[0] == pytest.approx(1 / 3, abs=1e-6)


@pytest.mark.parametrize("read", [
    lambda: read_json(points(*(point(1, 2, probability=p) for p in SURE)), "points_json").probability,
    lambda: read_csv_points("x,y,score\n" + "".join(f"1,2,{p}\n" for p in SURE)).probability,
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
