"""Every metric of every family has the properties that the registry declares, and those that all metrics must have.

In the manner of scikit-learn's ``test_common``: a metric that is added to the registry is tested here from then on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from literal import instances_of, sides
from pictures import METRICS, score_all
from situations import SITUATIONS

from evaluation.challenge import Challenge
from evaluation.scoring.from_arrays import score_instances
from evaluation.scoring.match import match_case
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.score import case_table
from nuclei_metrics.aggregation import unite
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.metrics import FAMILIES, Metric, metrics_of
from nuclei_metrics.metrics.metric import Effect
from nuclei_metrics.model import UNDEFINED_REASONS, Case, Instances, Measure, Region, Scores, Units
from nuclei_metrics.model.counts import Score

CLASSES = ("a", "b", "c")
RULE = {"name": "first", "rule": "iou_above", "threshold": 0.5}
NOTHING = Region(np.empty(0, np.int64), np.empty(0, np.int64))
some = settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


# --- images, and what all metrics say of them -------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """Dense nuclei of one side: masks (N, H, W), classes (N,), confidences (N,), probabilities of classes (N, C)."""

    masks: np.ndarray
    classes: np.ndarray
    confidence: np.ndarray
    of_class: np.ndarray

    def instances(self) -> Instances:
        found = instances_of(self.masks, self.classes)
        probability, of_class = self.confidence.astype(np.float64), self.of_class.astype(np.float64)
        return replace(found, probability=probability, class_probability=of_class)

    def chosen(self, order: Sequence[int]) -> Side:
        rows = np.array(order, np.int64)
        return Side(self.masks[rows], self.classes[rows], self.confidence[rows], self.of_class[rows])

    def padded(self, top: int, left: int, bottom: int, right: int) -> Side:
        return replace(self, masks=np.pad(self.masks, [(0, 0), (top, bottom), (left, right)]))

    def joined(self, other: Side) -> Side:
        return Side(*(np.concatenate(pair) for pair in zip(vars(self).values(), vars(other).values(), strict=True)))


Image = tuple[Side, Side]


@st.composite
def dense_sides(draw: Any, height: int, width: int) -> Side:
    masks, classes = draw(sides(height, width, overlap=False, most=4))
    number = len(masks)
    confidence = draw(st.lists(st.sampled_from([0.1, 0.4, 0.5, 0.9]), min_size=number, max_size=number))
    weights = draw(st.lists(st.tuples(*[st.integers(1, 4)] * 3), min_size=number, max_size=number))
    of_class = np.array(weights, float).reshape(-1, 3)
    return Side(masks, np.array(classes, int), np.array(confidence), of_class / of_class.sum(axis=1, keepdims=True))


@st.composite
def images(draw: Any) -> Image:
    """The prediction has some nuclei of the reference, whole or with an end cut off, and others of its own."""
    height, width = draw(st.integers(1, 7)), draw(st.integers(1, 8))
    reference, others = draw(dense_sides(height, width)), draw(dense_sides(height, width))
    found = reference.chosen([index for index in range(len(reference.masks)) if draw(st.booleans())])
    cut = draw(st.integers(0, width))
    kept = found.masks & (np.arange(width) < max(cut, 1))
    masks = np.where(kept.any(axis=(1, 2))[:, None, None], kept, found.masks)
    given_names = draw(st.lists(st.integers(1, 3), min_size=len(masks), max_size=len(masks)))
    classes = np.array(given_names, int) if draw(st.booleans()) else found.classes
    beside = others.masks & ~masks.any(axis=0)
    left = [index for index, mask in enumerate(beside) if mask.any()]
    return reference, replace(found, masks=masks, classes=classes).joined(replace(others, masks=beside).chosen(left))


batches = st.lists(images(), min_size=2, max_size=4)


@cache
def challenge_of(classes: tuple[str, ...] = CLASSES) -> Challenge:
    return Challenge.from_preset(
        "monusac2020",
        name="properties",
        classes=[{"name": name} for name in classes],
        metrics={**METRICS, "class_groups": {"coarse": {"x": ("a", "b"), "y": ("c",)}}},
        matching={"rules": [{**RULE, "class_aware": False, "ties": "first_pixel"}]},
    )


@cache
def metrics() -> dict[str, Metric]:
    return {".".join(m.path): m for m in metrics_of(challenge_of().metric_choice(), class_aware=False)}


@dataclass(frozen=True)
class Told:
    """What every metric says of some units."""

    units: Units
    scores: Mapping[str, Scores]

    def at(self, path: str, unit: int = 0) -> Score:
        return self.scores[path].at(unit)


def tell(
    batch: Sequence[Image], members: Sequence[Sequence[int]] | None = None, classes: tuple[str, ...] = CLASSES
) -> Told:
    """Each image a unit, or the unions in ``members``."""
    challenge = challenge_of(classes)
    matched = []
    for index, (reference, prediction) in enumerate(batch):
        case = Case(f"case_{index}", f"case_{index}", *reference.masks.shape[1:], spacing_um=0.5)
        prepared = PreparedReference(reference.instances(), NOTHING)
        matched.append(match_case(challenge, case, prepared, prediction.instances()))
    table = case_table(challenge, measure_cases(challenge, matched), "first", primary=True)
    units = unite(table, [[row] for row in range(len(batch))] if members is None else members)
    found = metrics_of(challenge.metric_choice(), class_aware=False)
    return Told(units, {".".join(metric.path): metric.evaluate(units) for metric in found})


def each_and_all(batch: Sequence[Image]) -> list[Sequence[int]]:
    """Units: each image, and all of them together."""
    return [*([row] for row in range(len(batch))), range(len(batch))]


def assert_equal(one: Told, other: Told, *, besides: Mapping[str, str] | None = None, exactly: bool = False) -> None:
    """Both say the same, unit by unit; ``besides``: beginnings of the pages of metrics that may differ, and why."""
    for path, metric in metrics().items():
        if not metric.page.startswith(tuple(besides or ())):
            left, right = one.scores[path], other.scores[path]
            assert left.reason.tolist() == right.reason.tolist(), path
            tolerance = 0 if exactly else 1e-9
            np.testing.assert_allclose(left.value, right.value, rtol=tolerance, atol=tolerance, err_msg=path)


def worsening(metric: Metric, before: float, after: float) -> float:
    """Above 0 if it got worse, 0 if it stayed."""
    if metric.better == "one":
        change = abs(math.log(max(after, 1e-9))) - abs(math.log(max(before, 1e-9)))
    else:
        change = before - after if metric.better == "higher" else after - before
    return 0.0 if abs(change) < 1e-9 else change


@cache
def drawn(picture: str, confidence: tuple[tuple[str, float], ...] | None = None) -> dict[str, Score]:
    """What every metric says of a picture, pooled."""
    (scores,) = score_all(picture, confidence=None if confidence is None else dict(confidence)).scores.values()
    return {".".join(metric.path): metric.means["pooled"].score for metric in scores}


@cache
def drawn_metrics() -> dict[str, Metric]:
    choice = score_all("a b").challenge.metric_choice()
    return {".".join(m.path): m for m in metrics_of(choice, class_aware=False)}


def test_all_families_and_measures_are_there() -> None:
    assert {metric.family for metric in metrics().values()} == set(FAMILIES)
    measured = {metric.page.partition(".")[2] for metric in metrics().values() if metric.family == "segmentation"}
    assert measured == set(get_args(Measure))
    assert any("grouped" in metric.path for metric in metrics().values())


# --- values -----------------------------------------------------------------------------------------------------------


@some
@given(batches)
def test_every_value_is_in_its_range_and_no_better_than_the_best_or_worse_than_the_worst(batch: list[Image]) -> None:
    told = tell(batch, each_and_all(batch))
    for path, metric in metrics().items():
        found, worst = told.scores[path], metric.worst_of(told.units)
        defined = found.reason == 0
        assert np.array_equal(np.isnan(found.value), ~defined), path
        assert np.all((found.reason >= 0) & (found.reason <= len(UNDEFINED_REASONS))), path
        value, worst = found.value[defined], worst[defined]
        assert np.all(np.isfinite(value)), path
        assert np.all((metric.lowest <= value) & (value <= metric.highest)), path
        if metric.worst is not None:
            assert np.all(value <= worst + 1e-9 if metric.better == "lower" else value >= worst), path


@some
@given(batches)
def test_a_perfect_prediction_has_the_best_value_or_a_reason(batch: list[Image]) -> None:
    copies = []
    for reference, _ in batch:
        certain = replace(reference, of_class=np.eye(3)[reference.classes - 1])
        copies.append((reference, certain))
    told = tell(copies, each_and_all(batch))
    for path, metric in metrics().items():
        best = metric.lowest if metric.better == "lower" else 1.0
        found = told.scores[path]
        np.testing.assert_allclose(found.value[found.reason == 0], best, atol=1e-12, err_msg=path)


def test_the_best_value_is_within_the_bounds_and_the_worst_one_is_a_bound() -> None:
    for path in metrics():
        metric = metrics()[path]
        if metric.better == "lower":
            assert metric.lowest == 0.0, path
            bounded = ("covered", "overall", "partition")
            assert metric.highest == math.inf or metric.family in bounded, path
            assert metric.worst in ("diagonal_px", "diagonal_um", None) or metric.worst == metric.highest, path
        else:
            assert metric.highest == (math.inf if metric.better == "one" else 1.0), path
            has_worst = math.isfinite(metric.lowest) and metric.better != "one"
            assert metric.worst == (metric.lowest if has_worst else None), path


# --- symmetry ---------------------------------------------------------------------------------------------------------

OTHER_SIDE = {"no-reference": "no-prediction", "no-prediction": "no-reference"}
TIED_ASSIGNMENT = {"overlap.aji_plus": "of two sets of pairs with equal total IoU one is taken by the order of pixels"}


def swapped(score: Score) -> Score:
    """As it must be when the sides change places."""
    return replace(score, undefined=OTHER_SIDE.get(score.undefined or "", score.undefined))


@some
@given(batches)
def test_symmetric_metrics_stay_the_same_when_the_sides_change_places(batch: list[Image]) -> None:
    members = each_and_all(batch)
    one, other = tell(batch, members), tell([(right, left) for left, right in batch], members)
    for path, metric in metrics().items():
        if metric.symmetric and metric.page not in TIED_ASSIGNMENT:
            for unit in range(len(members)):
                expected, found = swapped(one.at(path, unit)), other.at(path, unit)
                assert found.undefined == expected.undefined, path
                assert found.value == pytest.approx(expected.value, abs=1e-9), path


def exchange(picture: str) -> str:
    return "\n".join(" ".join(reversed(line.split())) for line in picture.strip().splitlines())


SURE = tuple((letter, 0.9 - index / 100) for index, letter in enumerate("fGhacbBAdDeCEg"))  # the surest first
ORDINARY = SITUATIONS["ordinary"].picture
ASYMMETRIC = (
    ORDINARY,
    "aabbcdddde aaaacCCeee",
    "aaaa.bb aacc.bb",  # split
    "aa.bb aa.BB",  # one class in the reference, two in the prediction
    "A.. A.B\n\n... ...",  # 1 and 0 tumor cells, 2 and 0 predicted
)


def test_a_metric_that_is_not_declared_symmetric_is_not() -> None:
    for path in (path for path, metric in drawn_metrics().items() if not metric.symmetric):
        pairs = [(drawn(picture, SURE)[path], drawn(exchange(picture), SURE)[path]) for picture in ASYMMETRIC]
        assert any(
            swapped(one).undefined != other.undefined or one.value != pytest.approx(other.value, abs=1e-9)
            for one, other in pairs
        ), path


# --- what must not matter ---------------------------------------------------------------------------------------------


ROUNDED = {  # centroids are rounded where they lie, so the last digit is not the same
    "segmentation.centroid_distance": "as said",
    "covered.distance": "has centroid distances among them",
    "overall.distance": "as above",
}
BY_THE_FIRST_PIXEL = {  # which of two equal candidates is first is another question in a mirror
    **TIED_ASSIGNMENT,
    "overlap.aji": "partners of equal IoU may have unequal areas",
    "overlap.splits": "a prediction that shares as much with two nuclei is assigned to the first",
    "overlap.merges": "a nucleus that shares as much with two predictions is assigned to the first",
    "objects.": "objects that share as much may have unequal areas",
    "curves.coco": "predictions of equal confidence take a nucleus in the order of their first pixels",
    "curves.per_class.coco_ap": "as above",
}


@some
@given(
    batches,
    st.randoms(use_true_random=False),
    st.tuples(*[st.integers(0, 5)] * 4),
    st.sampled_from([(1,), (2,), (1, 2)]),
    st.permutations([0, 1, 2]),
)
def test_order_of_nuclei_padding_mirror_and_order_of_classes_change_nothing(
    batch, random, margins, axes, order
) -> None:
    """The border of the image is outside of every nucleus here (``boundary = "closed"``); a mirror may change ties.

    Class k of the challenge becomes class ``order[k]``; its name and its probabilities go with it.
    """
    names = tuple(CLASSES[order.index(place)] for place in range(3))

    def mixed(side: Side) -> Side:
        return side.chosen(random.sample(range(len(side.masks)), len(side.masks)))

    def flipped(side: Side) -> Side:
        return replace(side, masks=np.flip(side.masks, axes))

    def renumbered(side: Side) -> Side:
        of_class = side.of_class[:, [order.index(place) for place in range(3)]]
        return replace(side, classes=np.array(order)[side.classes - 1] + 1, of_class=of_class)

    def told(change: Any, classes: tuple[str, ...] = CLASSES) -> Told:
        return tell([(change(left), change(right)) for left, right in batch], classes=classes)

    plain, padded = tell(batch), told(lambda side: side.padded(*margins))
    assert_equal(plain, told(mixed), exactly=True)
    assert_equal(plain, padded, besides=ROUNDED, exactly=True)
    assert_equal(plain, padded)
    assert_equal(plain, told(flipped), besides=BY_THE_FIRST_PIXEL)
    assert_equal(plain, told(renumbered, names))


def test_a_mirror_changes_nothing_of_the_ordinary_case_which_has_no_ties() -> None:
    lines = [line.split() for line in ORDINARY.strip().splitlines()]
    mirrored = "\n".join(" ".join(part[::-1] for part in parts) for parts in lines)
    one, other = drawn(ORDINARY, SURE), drawn(mirrored, SURE)
    for path in one:
        assert other[path].value == pytest.approx(one[path].value, abs=1e-12), path


@some
@given(batches)
def test_the_order_of_cases_changes_no_digit_and_a_single_group_is_pooled(batch: list[Image]) -> None:
    challenge = challenge_of().model_copy(update={"ranking": None})
    given_images = {f"case_{n}": (left.instances(), right.instances()) for n, (left, right) in enumerate(batch)}
    groups = dict.fromkeys(given_images, "patient")
    one, other = (
        score_instances(challenge, dict(order), groups=groups, spacing_um=0.5)
        for order in (given_images.items(), reversed(given_images.items()))
    )
    assert one.metrics == other.metrics
    for metric in one.scores["first"]:
        assert metric.means["group_mean"].score == metric.means["pooled"].score


ACROSS_IMAGES = {  # what is counted by image, or looked for in it
    "curves.froc": "false positives per image",
    "curves.sensitivity": "false positives per image",
    "curves.per_class.froc": "false positives per image",
    "objects.hausdorff_px": "an object without a best one looks for the nearest in its image",
    "partition.adapted_rand": "pixels without a prediction are a part of their image",
    "partition.v": "pixels without a prediction are a part of their image",
    "counting.": "errors in the number of nuclei are those of images",
}


@some
@given(images(), images())
def test_two_images_are_pooled_as_if_they_were_one(one: Image, other: Image) -> None:
    """Side by side on one canvas; splitting an image into tiles without cutting nuclei changes nothing either."""
    (height, width), (below, beside) = one[0].masks.shape[1:], other[0].masks.shape[1:]
    rows = max(height, below)
    both = tuple(
        left.padded(0, 0, rows - height, beside + 1).joined(right.padded(0, width + 1, rows - below, 0))
        for left, right in zip(one, other, strict=True)
    )
    apart, together = tell([one, other], [[0, 1]]), tell([(both[0], both[1])])
    assert_equal(apart, together, besides=ACROSS_IMAGES)


# --- one more error ---------------------------------------------------------------------------------------------------


def one_more(draw_class: int, confidence: float, shape: tuple[int, int]) -> Side:
    """A nucleus in the lower right corner."""
    mask = np.zeros((1, *shape), bool)
    mask[0, -2:, -2:] = True
    return Side(mask, np.array([draw_class]), np.array([confidence]), np.full((1, 3), 1 / 3))


@some
@given(batches, st.integers(1, 3), st.sampled_from([0.05, 0.5, 0.95]), st.sampled_from(["missed", "spurious"]))
def test_one_more_error_does_to_a_value_what_is_declared(batch, of_class, confidence, kind):
    before, after = [], []
    for image in batch:
        left, right = (side.padded(0, 0, 9, 9) for side in image)
        extra = one_more(of_class, confidence, left.masks.shape[1:])
        before.append((left, right))
        after.append((left.joined(extra), right) if kind == "missed" else (left, right.joined(extra)))
    members = each_and_all(batch)
    one, other = tell(before, members), tell(after, members)
    for path, metric in metrics().items():
        effect: Effect = getattr(metric, kind)
        for unit in range(len(members)):
            value = one.at(path, unit).value
            if value is not None and effect != "either":
                changed = other.at(path, unit).value
                assert changed is not None, path
                change = worsening(metric, value, changed)
                assert change == 0 if effect == "none" else change >= 0, path


PERFECT = "AA.bb.... AA.bb...."
ONE_MISSED, ONE_SPURIOUS = "AA.bb.eCg AA.bb....", "AA.bb.... AA.bb.fGh"
BETTER_OR_WORSE = {  # before, with one more error
    ("covered.class_recall", "missed"): (("a.. a..", "a.b a.."), ("a.. A..", "a.b A..")),
    ("covered.class_f1", "missed"): (("a.B.. a.B..", "a.B.c a.B.."), ("a.B.. A.B..", "a.B.c A.B..")),
    ("objects.hausdorff_px", "missed"): (
        ("aa. aa.", "aa.......b aa........"),
        ("aaaaaaaaa.C. aaaaa.....C.", "aaaaaaaaa.Cb aaaaa.....C."),
    ),
    ("objects.hausdorff_px", "spurious"): (
        ("aa........ aa........", "aa........ aa.......b"),
        ("aaaaaaaaa.C. aaaaa.....C.", "aaaaaaaaa.C. aaaaa.....Cb"),
    ),
    **{
        (page, "missed"): (("aaaa.bb... aaaa......", "aaaa.bb.cc aaaa......"), ("aa... bc...", "aa.dd bc..."))
        for page in ("partition.adapted_rand", "partition.variation_of_information")
    },
    **{
        (page, kind): (worse, better)
        for page in ("counting.mean_absolute_error", "counting.per_class.mean_absolute_error")
        for kind, worse, better in (
            ("missed", ("a.. a..", "a.b a.."), ("... a..", "..b a..")),
            ("spurious", ("a.. a..", "a.. a.b"), ("a.. ...", "a.. ..b")),
        )
    },
    **{
        (page, kind): (worse, better)
        for page in ("counting.r2", "counting.per_class.r2")
        for kind, worse, better in (
            ("missed", ("a.. a..\n\n... ...", "a.b a..\n\n... ..."), ("a.. a.c\n\n... ...", "a.b a.c\n\n... ...")),
            ("spurious", ("a.. a..\n\n... ...", "a.. a.b\n\n... ..."), ("a.. ...\n\n... ...", "a.. ..b\n\n... ...")),
        )
    },
}


def test_the_declared_effect_of_one_more_error_is_seen_in_an_example() -> None:
    for kind in ["missed", "spurious"]:
        for page in sorted({metric.page for metric in drawn_metrics().values()}):
            of_page = {path: metric for path, metric in drawn_metrics().items() if metric.page == page}
            effect: Effect = getattr(next(iter(of_page.values())), kind)
            after = drawn(ONE_MISSED if kind == "missed" else ONE_SPURIOUS, SURE)
            for path, metric in of_page.items():
                before = drawn(PERFECT, SURE)[path]
                if effect == "worse":
                    assert worsening(metric, required(before), required(after[path])) > 0, path
                if effect == "none":
                    assert after[path].undefined == before.undefined, path
                    assert after[path].value == pytest.approx(before.value, abs=1e-12), path
            if effect == "either":
                path = next(path for path in of_page if "tumor" not in path)
                worse, better = (
                    worsening(of_page[path], *(required(drawn(picture, SURE)[path]) for picture in pair))
                    for pair in BETTER_OR_WORSE[page, kind]
                )
                assert worse > 0 > better, (page, kind)


def required(score: Score) -> float:
    assert score.value is not None, score
    return score.value
