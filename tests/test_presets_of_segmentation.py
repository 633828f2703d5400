"""Presets that rank by outlines.

conic2022, pannuke, hovernet, consep, monuseg2018, dsb2018 and sartorius2021.

Every published score is written down once more from its definition, slowly and on dense masks, and compared on made
images; the examples of docs/presets are worked too.
"""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.metrics import r2_score
from test_overlap_metrics import literal_aji, literal_aji_plus, literal_dice2

from benchmarks.label_maps import draw_label_maps
from benchmarks.synthesis import Mistakes, seeded
from evaluation import Challenge, instances_from_labels, score_instances, score_submission

SIZE = (150, 170)
ROUNDED = 5.1e-7  # metrics.json has six decimals
TEAM = Mistakes(
    missed=0.15, spurious=0.2, grow_px=0.5, grow_spread_px=1.5, shift_px=2, roughen_px=1.0, split=0.15, merged=0.1
)


@dataclass(frozen=True)
class Picture:
    """An image as masks: bool (N, H, W) and classes (N,) of each side."""

    reference: np.ndarray
    prediction: np.ndarray
    reference_class: np.ndarray
    prediction_class: np.ndarray

    def of_class(self, number: int) -> Picture:
        r, p = self.reference_class == number, self.prediction_class == number
        return Picture(self.reference[r], self.prediction[p], self.reference_class[r], self.prediction_class[p])

    def instances(self):
        return tuple(
            instances_from_labels(labels_of(masks), classes)
            for masks, classes in ((self.reference, self.reference_class), (self.prediction, self.prediction_class))
        )


def labels_of(masks: np.ndarray) -> np.ndarray:
    return sum((mask * (index + 1) for index, mask in enumerate(masks)), np.zeros(SIZE, np.int32)).astype(np.int32)


def masks_of(labels: np.ndarray) -> np.ndarray:
    ids = [number for number in np.unique(labels) if number]
    return np.array([labels == number for number in ids], bool).reshape(-1, *SIZE)


def make_picture(seed: int, classes: int, count: int = 14) -> Picture:
    """Made nuclei; four of five predictions have the class of the reference nucleus that they cover most."""
    maps = draw_label_maps(seeded(seed), SIZE, count, TEAM)
    rng = np.random.default_rng(seed)
    reference, prediction = masks_of(maps.reference), masks_of(maps.prediction)
    reference_class = rng.integers(1, classes + 1, len(reference))
    prediction_class = rng.integers(1, classes + 1, len(prediction))
    for j, mask in enumerate(prediction):
        shared = [(mask & other).sum() for other in reference]
        if max(shared, default=0) > 0 and rng.random() < 0.8:
            prediction_class[j] = reference_class[int(np.argmax(shared))]
    return Picture(reference, prediction, reference_class, prediction_class)


EMPTY = np.zeros((0, *SIZE), bool)
NONE = np.zeros(0, int)


def make_pictures(classes: int, number: int = 6) -> list[Picture]:
    """Made images, and three more: without prediction, without reference, without either."""
    pictures = [make_picture(seed, classes, 6 + 2 * seed) for seed in range(1, number + 1)]
    first = pictures[0]
    return [
        *pictures,
        Picture(first.reference, EMPTY, first.reference_class, NONE),
        Picture(EMPTY, first.prediction[:3], NONE, first.prediction_class[:3]),
        Picture(EMPTY, EMPTY, NONE, NONE),
    ]


def score(preset: str, pictures: list[Picture], groups: list[str] | None = None, **rules):
    challenge = Challenge.from_preset(preset, name="test", **rules)
    names = [f"image_{index}" for index in range(len(pictures))]
    return score_instances(
        challenge,
        {name: picture.instances() for name, picture in zip(names, pictures, strict=True)},
        groups=dict(zip(names, groups, strict=True)) if groups else None,
    )


# --- the published definitions, written out ---------------------------------------------------------------------------


def iou(a: np.ndarray, b: np.ndarray) -> Fraction:
    return Fraction(int((a & b).sum()), int((a | b).sum()))


def pairs_above(picture: Picture, threshold: Fraction) -> list[Fraction]:
    """IoU of all pairs above the threshold; from 1/2 on no nucleus is in two of them."""
    values = [iou(a, b) for a, b in product(picture.reference, picture.prediction)]
    return [value for value in values if value > threshold]


def pq_counts(picture: Picture) -> np.ndarray:
    """tp, fp, fn and the sum of IoU."""
    values = pairs_above(picture, Fraction(1, 2))
    tp = len(values)
    return np.array([tp, len(picture.prediction) - tp, len(picture.reference) - tp, float(sum(values))])


def pq(counts: np.ndarray) -> float:
    tp, fp, fn, total = counts
    return total / (tp + fp / 2 + fn / 2)


def dice1(picture: Picture) -> float:
    a, b = picture.reference.any(axis=0), picture.prediction.any(axis=0)
    return 2 * (a & b).sum() / (a.sum() + b.sum())


def by_sides(literal: Callable[[np.ndarray, np.ndarray], Fraction | None]) -> Callable[[Picture], float]:
    return lambda picture: float(literal(picture.reference, picture.prediction))


aji, aji_plus, dice2 = by_sides(literal_aji), by_sides(literal_aji_plus), by_sides(literal_dice2)


def centroids(masks: np.ndarray) -> np.ndarray:
    return np.array([np.argwhere(mask).mean(axis=0) for mask in masks]).reshape(-1, 2)


def near_pairs(picture: Picture, radius: float) -> list[tuple[int, int]]:
    """All nuclei of the image are assigned with the least total distance; pairs beyond the radius are then dropped."""
    distance = cdist(centroids(picture.reference), centroids(picture.prediction))
    return [(i, j) for i, j in zip(*linear_sum_assignment(distance), strict=True) if distance[i, j] <= radius]


def confusion(pictures: list[Picture], classes: int, radius: float) -> np.ndarray:
    """Rows reference, columns prediction, index 0 none; summed over images."""
    matrix = np.zeros((classes + 1, classes + 1), int)
    for picture in pictures:
        pairs = near_pairs(picture, radius)
        for i, j in pairs:
            matrix[picture.reference_class[i], picture.prediction_class[j]] += 1
        for i in set(range(len(picture.reference))) - {i for i, _ in pairs}:
            matrix[picture.reference_class[i], 0] += 1
        for j in set(range(len(picture.prediction))) - {j for _, j in pairs}:
            matrix[0, picture.prediction_class[j]] += 1
    return matrix


def f_d(matrix: np.ndarray) -> float:
    tp = matrix[1:, 1:].sum()
    return 2 * tp / (2 * tp + matrix[0].sum() + matrix[:, 0].sum())


def f_c(matrix: np.ndarray, t: int) -> float:
    tp = matrix[t, t]
    wrong = matrix[1:, t].sum() + matrix[t, 1:].sum() - 2 * tp
    return 2 * tp / (2 * tp + 2 * wrong + matrix[0, t] + matrix[t, 0])


def mean_threat_score(picture: Picture) -> float:
    values = []
    for percent in range(50, 100, 5):
        tp = len(pairs_above(picture, Fraction(percent, 100)))
        values.append(tp / (len(picture.reference) + len(picture.prediction) - tp))
    return float(np.mean(values))


# --- comparisons ------------------------------------------------------------------------------------------------------


def has_any(picture: Picture) -> bool:
    return len(picture.reference) + len(picture.prediction) > 0


def mean_where_defined(of, pictures: list[Picture]) -> float:
    return float(np.mean([of(picture) for picture in pictures if has_any(picture)]))


def test_conic_adds_up_each_class_over_all_images_before_it_averages():
    pictures = make_pictures(6)
    expected = np.mean([pq(sum(pq_counts(picture.of_class(t)) for picture in pictures)) for t in range(1, 7)])
    assert score("conic2022", pictures).value("panoptic.pq.pooled") == pytest.approx(expected, abs=ROUNDED)


def test_conic_prints_beside_it_pq_without_classes_per_image():
    pictures = make_pictures(6)
    expected = mean_where_defined(lambda picture: pq(pq_counts(picture)), pictures)
    assert score("conic2022", pictures).value("panoptic.binary.pq.case_mean") == pytest.approx(expected, abs=ROUNDED)


def test_conic_counts_each_class_and_averages_r2():
    pictures = make_pictures(6)
    counts = [
        [
            [int((side == t).sum()) for side in (picture.reference_class, picture.prediction_class)]
            for picture in pictures
        ]
        for t in range(1, 7)
    ]
    expected = np.mean([r2_score(*np.transpose(of_class)) for of_class in counts])
    assert score("conic2022", pictures).value("counting.r2.pooled") == pytest.approx(expected, abs=ROUNDED)


def test_hovernet_averages_the_outlines_over_images():
    pictures = make_pictures(5)
    result = score("hovernet", pictures)
    for path, of in (
        ("overlap.dice1", dice1),
        ("overlap.aji", aji),
        ("overlap.aji_plus", aji_plus),
        ("panoptic.binary.pq", lambda picture: pq(pq_counts(picture))),
    ):
        expected = mean_where_defined(of, pictures)
        assert result.value(f"{path}.case_mean") == pytest.approx(expected, abs=ROUNDED), path


def test_dice2_counts_a_nucleus_as_often_as_it_is_touched_and_is_0_where_nothing_is():
    pictures = make_pictures(5)
    values = [dice2(picture) for picture in pictures if len(picture.reference) and len(picture.prediction)]
    expected = sum(values) / sum(has_any(picture) for picture in pictures)
    assert score("hovernet", pictures).value("overlap.dice2.case_mean") == pytest.approx(expected, abs=ROUNDED)


@pytest.mark.parametrize(("preset", "classes"), [("hovernet", 5), ("consep", 4)])
def test_finding_and_naming_are_pooled_over_all_images(preset, classes):
    pictures = make_pictures(classes)
    result = score(preset, pictures)
    matrix = confusion(pictures, classes, radius=12)
    names = Challenge.from_preset(preset, name="test").class_names
    prefix = "alternatives.centroid_12_px"
    pairs = matrix[1:, 1:]
    assert result.value(f"{prefix}.detection.f1.pooled") == pytest.approx(f_d(matrix), abs=ROUNDED)
    assert result.value(f"{prefix}.classification.accuracy.pooled") == pytest.approx(
        np.trace(pairs) / pairs.sum(), abs=ROUNDED
    )
    for t, name in enumerate(names, start=1):
        found = result.value(f"{prefix}.detection.per_class.{name}.f_c.pooled")
        assert found == pytest.approx(f_c(matrix, t), abs=ROUNDED), name


def test_monuseg_ranks_by_the_mean_of_aji_over_images():
    pictures = make_pictures(1)
    expected = mean_where_defined(aji, pictures)
    assert score("monuseg2018", pictures).value("overlap.aji.case_mean") == pytest.approx(expected, abs=ROUNDED)


@pytest.mark.parametrize("preset", ["dsb2018", "sartorius2021"])
def test_the_kaggle_score_is_the_mean_over_images_of_the_mean_over_thresholds(preset):
    pictures = make_pictures(1)
    expected = mean_where_defined(mean_threat_score, pictures)
    found = score(preset, pictures).value("thresholds.threat_score_iou50_95.case_mean")
    assert found == pytest.approx(expected, abs=ROUNDED)


# --- the examples of the pages ----------------------------------------------------------------------------------------


def draw(text: str) -> np.ndarray:
    return np.array([[int(symbol) for symbol in row] for row in text.split()])


def score_drawing(preset: str, reference: str, prediction: str, classes: tuple[Any, Any] = (None, None)):
    sides = [instances_from_labels(draw(text), of) for text, of in zip((reference, prediction), classes, strict=True)]
    return score_instances(Challenge.from_preset(preset, name="test"), {"image": (sides[0], sides[1])})


@pytest.mark.parametrize("path, reference, prediction, expected", [
    # A prediction of 5 px over two nuclei of 2: both take it, or one does.
    ("overlap.aji", "11022", "33333", Fraction(4, 10)),
    ("overlap.aji_plus", "11022", "33333", Fraction(2, 7)),
    # One of three nuclei found.
    ("overlap.dice2", "11022033", "11000000", Fraction(1)),
    ("overlap.dice1", "11022033", "11000000", Fraction(1, 2)),
    ("overlap.aji", "11022033", "11000000", Fraction(1, 3)),
    # IoU 1/4 with both predictions: the one whose first pixel comes first is the partner.
    ("overlap.aji", "1111000 0000000", "1022000 2222000", Fraction(1, 10)),
    ("overlap.aji", "1111000 0000000", "2011000 1111000", Fraction(1, 10)),
    ("overlap.aji", "1111000 0000000", "1101000 1111200", Fraction(3, 9)),
    # One nucleus, found perfectly.
    ("panoptic.binary.pq", "1100 1100", "1100 1100", Fraction(1)),
])  # fmt: skip
def test_outlines_have_the_values_of_the_pages(path, reference, prediction, expected):
    for preset in ("hovernet", "monuseg2018"):
        classes = [[1] * int(draw(text).max()) if "3333" not in text else [1] for text in (reference, prediction)]
        result = score_drawing(preset, reference, prediction, tuple(classes))
        assert result.value(f"{path}.case_mean") == pytest.approx(float(expected), abs=ROUNDED)


def test_an_image_without_a_match_has_no_sq_under_hovernet_and_a_pq_of_0():
    """SQ 1 and undefined; published SQ is 0 there, and the mean 1/2. PQ and DQ: 1 and 0."""
    found, missed = (instances_from_labels(draw(text), [1]) for text in ("1100 1100", "0011 0011"))
    sides = {"found": (found, found), "missed": (found, missed)}
    result = score_instances(Challenge.from_preset("hovernet", name="test"), sides)
    values = [result.value(f"panoptic.binary.{of}.case_mean") for of in ("sq", "rq", "pq")]
    assert values == [1.0, 0.5, 0.5]
    rule = next(iter(result.scores))
    assert result.details["means"][rule]["panoptic"]["binary"]["sq"]["case_mean"]["left_out"] == 1


def f_d_of(images, cutoff: str | None = None) -> float | None:
    """F_d under the rules of hovernet, or with another cutoff."""
    changed = {"name": "centroid_12_px", "rule": "centroid_assignment", "radius_px": 12, "class_aware": False}
    rules = {} if cutoff is None else {"matching": {"rules": [changed | {"cutoff": cutoff, "ties": "first_pixel"}]}}
    result = score_instances(Challenge.from_preset("hovernet", name="test", **rules), {"image": images})
    return result.value(f"{'alternatives.centroid_12_px.' if cutoff is None else ''}detection.f1.pooled")


def test_a_shorter_total_that_goes_beyond_twelve_pixels_costs_a_pair_as_published():
    """References at (0, 0) and (0, 12), predictions at (0, 12) and (12, 12): 16.97 px in total, or 24."""
    reference, prediction = np.zeros((13, 13), int), np.zeros((13, 13), int)
    reference[0, 0], reference[0, 12], prediction[0, 12], prediction[12, 12] = 1, 2, 1, 2
    sides = instances_from_labels(reference, [1, 1]), instances_from_labels(prediction, [1, 1])
    assert (f_d_of(sides), f_d_of(sides, "before")) == (0.5, 1.0)


def test_the_published_pairing_loses_many_pairs_of_a_dense_image():
    """The image of the page of hovernet: 600 nuclei, 5 % missed, 5 % spurious."""
    mistakes = Mistakes(missed=0.05, spurious=0.05, shift_px=2, grow_spread_px=1.0, split=0.05, merged=0.05)
    maps = draw_label_maps(seeded(3), (1000, 1000), 600, mistakes)
    sides, centres = [], []
    for labels, classes in ((maps.reference, maps.reference_class), (maps.prediction, maps.prediction_class)):
        sides.append(instances_from_labels(labels, classes))
        y, x = np.nonzero(labels)
        number = labels[y, x]
        sums = np.stack([np.bincount(number, weights) for weights in (y, x, np.ones(len(y)))])[:, np.unique(number)]
        centres.append((sums[:2] / sums[2]).T)
    distance = cdist(*centres)
    published = (distance[linear_sum_assignment(distance)] <= 12).sum() * 2 / sum(distance.shape)
    assert f_d_of(tuple(sides)) == pytest.approx(published, abs=ROUNDED)
    assert (f_d_of(tuple(sides)), f_d_of(tuple(sides), "before")) == pytest.approx((0.780, 0.901), abs=5e-4)


def test_a_class_on_neither_side_is_left_out_of_the_mean_of_conic():
    result = score_drawing("conic2022", "1100220", "1100220", ([1, 2], [1, 2]))
    assert result.value("panoptic.pq.pooled") == 1.0


def test_an_image_without_nuclei_on_either_side_is_left_out_and_others_count_as_nothing():
    pictures = [*make_pictures(1, number=1)]
    result, expected = score("dsb2018", pictures), mean_threat_score(pictures[0]) / 3
    assert result.value("thresholds.threat_score_iou50_95.case_mean") == pytest.approx(expected, abs=ROUNDED)


# --- through files ----------------------------------------------------------------------------------------------------


def write_challenge(folder: Path, preset: str, cases: Iterable[Mapping[str, Any]]) -> Path:
    """A challenge of nothing but a preset, and its cases."""
    rows = list(cases)
    (folder / "reference").mkdir(parents=True)
    (folder / "challenge.toml").write_text(f'format_version = 1\nname = "test"\npreset = "{preset}"\n')
    with (folder / "cases.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder


def array_cases(number: int, **columns: list[str]) -> list[dict[str, Any]]:
    size = {"height": SIZE[0], "width": SIZE[1]}
    more = [{name: values[index] for name, values in columns.items()} for index in range(number)]
    return [{"case": f"image_{index}", **size, "index": index, **more[index]} for index in range(number)]


TISSUES = ["colon", "colon", "skin", "colon", "bile-duct", "skin", "skin", "colon", "skin"]


def channels(masks: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """H x W x 6 as PanNuke stores them: ids of one class in each channel, the last one 1 where nothing is."""
    planes = [labels_of(masks[classes == t]) for t in range(1, 6)]
    background = np.all([plane == 0 for plane in planes], axis=0)
    return np.stack([*planes, background], axis=-1).astype(float)


def score_pannuke(folder: Path, pictures: list[Picture]):
    challenge = write_challenge(folder / "challenge", "pannuke", array_cases(len(pictures), stratum=TISSUES))
    (folder / "submission").mkdir()
    reference = [channels(picture.reference, picture.reference_class) for picture in pictures]
    prediction = [channels(picture.prediction, picture.prediction_class) for picture in pictures]
    np.save(challenge / "reference" / "masks.npy", np.stack(reference))
    np.save(folder / "submission" / "masks.npy", np.stack(prediction))
    return score_submission(challenge, folder / "submission")


def published_pq(picture: Picture) -> float:
    """PQ of an image, NaN where the reference is empty."""
    return pq(pq_counts(picture)) if len(picture.reference) else np.nan


def mean_of_numbers(values: Iterable[float]) -> float:
    """``nanmean``, NaN without a number."""
    numbers = [value for value in values if not np.isnan(value)]
    return float(np.mean(numbers)) if numbers else np.nan


def mean_over_tissues(values: list[float]) -> float:
    """Mean over images with a value, in each tissue; then over the tissues that have any."""
    tissues = {tissue: [v for v, of in zip(values, TISSUES, strict=True) if of == tissue] for tissue in TISSUES}
    return mean_of_numbers(mean_of_numbers(of_tissue) for of_tissue in tissues.values())


@pytest.fixture(scope="module")
def pannuke(tmp_path_factory):
    """Made images, with nuclei of classes that the image lacks in the prediction, and their result."""
    pictures = make_pictures(5)
    for index, picture in enumerate(pictures[:6]):
        kept = picture.reference_class != index % 5 + 1
        reference, classes = picture.reference[kept], picture.reference_class[kept]
        pictures[index] = replace(picture, reference=reference, reference_class=classes)
    assert sum(len(set(p.prediction_class) - set(p.reference_class)) for p in pictures if len(p.reference)) >= 5
    return pictures, score_pannuke(tmp_path_factory.mktemp("pannuke"), pictures)


def test_mpq_of_pannuke_is_the_mean_over_classes_then_images_then_tissues(pannuke):
    pictures, result = pannuke
    values = [mean_of_numbers(published_pq(picture.of_class(t)) for t in range(1, 6)) for picture in pictures]
    assert result.value("panoptic.pq.stratum_mean") == pytest.approx(mean_over_tissues(values), abs=ROUNDED)


def test_bpq_of_pannuke_leaves_out_images_whose_reference_is_empty(pannuke):
    pictures, result = pannuke
    expected = mean_over_tissues([published_pq(picture) for picture in pictures])
    found = result.value("alternatives.classes_ignored.panoptic.binary.pq.stratum_mean")
    assert found == pytest.approx(expected, abs=ROUNDED)


def test_a_class_of_pannuke_is_averaged_over_the_images_whose_reference_has_it(pannuke):
    pictures, result = pannuke
    for t, name in enumerate(result.challenge.class_names, start=1):
        expected = mean_of_numbers(published_pq(picture.of_class(t)) for picture in pictures)
        found = result.value(f"panoptic.per_class.{name}.pq.case_mean")
        assert found == pytest.approx(expected, abs=ROUNDED), name


def test_a_spurious_nucleus_costs_nothing_in_pannuke_if_the_image_lacks_its_class():
    """The page's example: one nucleus, found perfectly, and a spurious one of another class."""
    sides = instances_from_labels(draw("1100000"), [1]), instances_from_labels(draw("1100220"), [1, 2])
    paths = "panoptic.pq.stratum_mean", "alternatives.classes_ignored.panoptic.binary.pq.stratum_mean"
    for present, expected in (("reference", [1.0, 0.666667]), ("either", [0.5, 0.666667])):
        aggregation = {"unit": "case", "undefined": "skip", "class_present": present}
        challenge = Challenge.from_preset("pannuke", name="test", aggregation=aggregation)
        result = score_instances(challenge, {"image": sides}, strata={"image": "skin"})
        assert [result.value(path) for path in paths] == expected


def test_pannuke_pairs_inside_each_class_where_channels_share_pixels(tmp_path):
    """The nucleus is found, and found again as another class; that class costs where the image has it, far away."""
    square, other = np.zeros((2, 1, *SIZE), bool)
    square[0, 5:9, 5:9] = other[0, 50:53, 60:63] = True
    twice = np.concatenate([square, square])
    alone = Picture(square, twice, np.array([2]), np.array([1, 2]))
    beside = Picture(np.concatenate([square, other]), twice, np.array([2, 1]), np.array([1, 2]))
    for name, picture, expected in (("alone", alone, (1.0, 0.666667)), ("beside", beside, (0.5, 0.5))):
        (tmp_path / name).mkdir()
        result = score_pannuke(tmp_path / name, [picture])
        binary = result.value("alternatives.classes_ignored.panoptic.binary.pq.stratum_mean")
        assert (result.value("panoptic.pq.stratum_mean"), binary) == expected


def test_conic_reads_the_published_arrays(tmp_path):
    pictures = make_pictures(6)
    challenge = write_challenge(tmp_path / "challenge", "conic2022", array_cases(len(pictures)))
    (tmp_path / "submission").mkdir()
    for path, side in ((challenge / "reference" / "labels.npy", 0), (tmp_path / "submission" / "predictions.npy", 1)):
        planes = []
        for picture in pictures:
            masks, classes = (
                (picture.reference, picture.reference_class),
                (picture.prediction, picture.prediction_class),
            )[side]
            ids = labels_of(masks)
            planes.append(np.stack([ids, np.array([0, *classes])[ids]], axis=-1))
        np.save(path, np.stack(planes).astype(np.uint16))
    found = score_submission(challenge, tmp_path / "submission").value("panoptic.pq.pooled")
    assert found == score("conic2022", pictures).value("panoptic.pq.pooled")


def test_consep_reads_the_published_files_and_merges_their_seven_types(tmp_path):
    ids = np.arange(8).repeat(4).reshape(4, 8)  # nucleus k has the published type k
    challenge = write_challenge(tmp_path / "challenge", "consep", [{"case": "test_1", "height": 4, "width": 8}])
    savemat(challenge / "reference" / "test_1.mat", {"inst_map": ids, "type_map": ids.astype(float)})
    (tmp_path / "submission").mkdir()
    types = np.array([1, 2, 3, 3, 4, 4, 4])[:, None]
    savemat(tmp_path / "submission" / "test_1.mat", {"inst_map": ids, "inst_type": types})
    result = score_submission(challenge, tmp_path / "submission")
    assert result.value("classification.accuracy.pooled") == 1.0
    assert result.value("panoptic.pq.case_mean") == 1.0
    matrix = result.details["pooled"]["rules"]["iou_above"]["counts"]["confusion_matrix"]
    assert np.diag(matrix).tolist() == [0, 1, 1, 2, 3]


# --- real files -------------------------------------------------------------------------------------------------------


def row_of_nuclei(classes: list[int], width: int):
    """Nuclei of two pixels in a row."""
    labels = np.zeros((1, width), int)
    labels[0, : 2 * len(classes)] = np.repeat(np.arange(1, len(classes) + 1), 2)
    return instances_from_labels(labels, classes)


def test_the_images_of_pannuke_without_bpq_are_those_of_a_published_evaluation(shared_data):
    """The nuclei of each image and class are known, and the bPQ of a model; here every image has a spurious nucleus."""
    scores = json.loads((shared_data / "cellvit" / "vit256_fold1_results.json").read_text())
    with (shared_data / "cellvit" / "fold2_cell_count.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name != "Image"]
    reference = {row["Image"]: [t for t, name in enumerate(names, 1) for _ in range(int(row[name]))] for row in rows}
    width = 2 * max(map(len, reference.values())) + 2
    images = {name: (row_of_nuclei(classes, width), row_of_nuclei([1], width)) for name, classes in reference.items()}
    result = score_instances(
        Challenge.from_preset("pannuke", name="test"), images, strata=dict.fromkeys(images, "skin")
    )
    units = result.units["classes_ignored"]["cases"]
    undefined = units.scores["panoptic", "binary", "pq"].reason != 0
    left_out = {name for name, of in zip(units.names, undefined.tolist(), strict=True) if of}
    published = {name for name, of in scores["image_metrics"].items() if np.isnan(of["bPQ"])}
    assert (len(images), len(left_out)) == (2722, 114)
    assert left_out == published


@pytest.mark.parametrize(("team", "expected"), [("DatName", 0.2619), ("gray53", 0.4266)])
def test_real_submissions_to_the_data_science_bowl_have_their_score(shared_data, tmp_path, team, expected):
    source = shared_data / "dsb2018"
    with (source / "stage1_solution.csv").open(newline="") as file:
        sizes = {row["ImageId"]: (row["Height"], row["Width"]) for row in csv.DictReader(file)}
    cases = [{"case": name, "height": height, "width": width} for name, (height, width) in sizes.items()]
    challenge = write_challenge(tmp_path / "challenge", "dsb2018", cases)
    (challenge / "reference" / "solution.csv").symlink_to(source / "stage1_solution.csv")
    (tmp_path / "submission").mkdir()
    shutil.copyfile(source / f"submission_{team}.csv", tmp_path / "submission" / "submission.csv")
    result = score_submission(challenge, tmp_path / "submission")
    assert result.value("thresholds.threat_score_iou50_95.case_mean") == pytest.approx(expected, abs=5e-5)


def mask_down_columns(counts: list[int], shape_yx: tuple[int, int]) -> np.ndarray:
    """COCO's uncompressed code: how many pixels are 0, then 1, then 0, …, column by column."""
    return np.repeat(np.arange(len(counts)) % 2, counts).reshape(shape_yx[::-1]).T


def code_along_rows(mask: np.ndarray) -> str:
    """Pairs of start and length, pixels numbered from 1 along the rows."""
    change = np.flatnonzero(np.diff(np.concatenate([[0], mask.ravel(), [0]]))) + 1
    return " ".join(f"{start} {stop - start}" for start, stop in change.reshape(-1, 2))


def test_cells_of_sartorius_that_are_found_perfectly_score_their_share(shared_data, tmp_path):
    """Three images, every fifth cell missed: all others match themselves at every threshold, though cells overlap."""
    with gzip.open(next((shared_data / "sartorius").glob("*.json.gz"))) as file:
        document = json.load(file)
    types = {category["id"]: category["name"] for category in document["categories"]}
    images = document["images"][:3]
    challenge = write_challenge(
        tmp_path / "challenge",
        "sartorius2021",
        [{"case": image["id"], "height": image["height"], "width": image["width"]} for image in images],
    )
    (tmp_path / "submission").mkdir()
    shares = []
    with (
        (challenge / "reference" / "cells.csv").open("w") as cells,
        (tmp_path / "submission" / "submission.csv").open("w") as found,
    ):
        print("id,annotation,width,height,cell_type", file=cells)
        print("id,predicted", file=found)
        for image in images:
            size = (image["height"], image["width"])
            of_image = [a for a in document["annotations"] if a["image_id"] == image["id"]]
            for place, annotation in enumerate(of_image):
                code = code_along_rows(mask_down_columns(annotation["segmentation"]["counts"], size))
                cell_type = types[annotation["category_id"]]
                print(f"{image['id']},{code},{size[1]},{size[0]},{cell_type}", file=cells)
                if place % 5:
                    print(f"{image['id']},{code}", file=found)
            shares.append(1 - len(range(0, len(of_image), 5)) / len(of_image))
    result = score_submission(challenge, tmp_path / "submission")
    assert result.value("thresholds.threat_score_iou50_95.case_mean") == pytest.approx(np.mean(shares), abs=ROUNDED)
