"""Presets against their published scores, each written down once more from its definition, slowly, on dense masks.

conic2022, pannuke, hovernet, consep, monuseg2018, dsb2018 and sartorius2021 rank by outlines, monkey2024, midog2021,
puma2024 and nucls by detection. Made images and real files; the examples of docs/presets.md are worked too.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import real_challenges as real
from grand_challenge_metrics.scorers import score_detection
from literal import (
    literal_average_precision_101,
    literal_closest_first,
    literal_confidence_first,
    literal_sensitivity,
    points_of,
)
from preset_files import points_json, score, start, write
from scipy.io import savemat
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from skimage.draw import polygon as draw_polygon
from sklearn.metrics import accuracy_score, matthews_corrcoef, r2_score, roc_auc_score
from test_overlap_metrics import literal_aji, literal_aji_plus, literal_dice2

from benchmarks.label_maps import draw_label_maps
from benchmarks.synthesis import Mistakes, seeded
from evaluation import Challenge, Result, instances_from_labels, score_instances
from evaluation.challenge.matching_rules import InFileOrder, Sides
from evaluation.findings.errors import ChallengeBroken
from nuclei_metrics.matching import overlap_table
from nuclei_metrics.model import Case

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


def score_pictures(preset: str, pictures: list[Picture]) -> Result:
    images = {f"image_{index}": picture.instances() for index, picture in enumerate(pictures)}
    return score_instances(Challenge.from_preset(preset, name="test"), images)


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


def mean_where_defined(of, pictures: list[Picture]) -> float:
    """A mean over images, of which those without a nucleus on either side are left out."""
    return float(np.mean([of(picture) for picture in pictures if len(picture.reference) + len(picture.prediction)]))


def binary_pq(picture: Picture) -> float:
    return pq(pq_counts(picture))


def of_sides(literal):
    return lambda picture: float(literal(picture.reference, picture.prediction))


def conic(pictures: list[Picture]) -> dict[str, float]:
    """Each class is added up over all images before the mean over classes."""
    of_classes = [sum(pq_counts(picture.of_class(t)) for picture in pictures) for t in range(1, 7)]
    numbers = [
        [
            [int((side == t).sum()) for side in (picture.reference_class, picture.prediction_class)]
            for picture in pictures
        ]
        for t in range(1, 7)
    ]
    return {
        "panoptic.pq.pooled": float(np.mean([pq(counts) for counts in of_classes])),
        "panoptic.binary.pq.case_mean": mean_where_defined(binary_pq, pictures),
        "counting.r2.pooled": float(np.mean([r2_score(*np.transpose(of_class)) for of_class in numbers])),
    }


def finding_and_naming(preset: str, pictures: list[Picture]) -> dict[str, float]:
    """Pooled over all images."""
    names = Challenge.from_preset(preset, name="test").class_names
    matrix = confusion(pictures, len(names), radius=12)
    prefix = "alternatives.centroid_12_px"
    return {
        f"{prefix}.detection.f1.pooled": f_d(matrix),
        f"{prefix}.classification.accuracy.pooled": np.trace(matrix[1:, 1:]) / matrix[1:, 1:].sum(),
        **{f"{prefix}.detection.per_class.{name}.f_c.pooled": f_c(matrix, t) for t, name in enumerate(names, start=1)},
    }


def hovernet(pictures: list[Picture]) -> dict[str, float]:
    """The mean over images. DICE2 counts a nucleus as often as it is touched, and is 0 where nothing is."""
    formulas = {
        "overlap.dice1": dice1,
        "overlap.dice2": of_sides(literal_dice2),
        "overlap.aji": of_sides(literal_aji),
        "overlap.aji_plus": of_sides(literal_aji_plus),
        "panoptic.binary.pq": binary_pq,
    }
    means = {f"{path}.case_mean": mean_where_defined(of, pictures) for path, of in formulas.items()}
    return means | finding_and_naming("hovernet", pictures)


def kaggle(pictures: list[Picture]) -> dict[str, float]:
    """The mean over images of the mean over thresholds."""
    return {"thresholds.threat_score_iou50_95.case_mean": mean_where_defined(mean_threat_score, pictures)}


@pytest.mark.parametrize("preset, classes, published", [
    ("conic2022", 6, conic),
    ("hovernet", 5, hovernet),
    ("consep", 4, lambda pictures: finding_and_naming("consep", pictures)),
    ("monuseg2018", 1, lambda of: {"overlap.aji.case_mean": mean_where_defined(of_sides(literal_aji), of)}),
    ("dsb2018", 1, kaggle),
    ("sartorius2021", 1, kaggle),
])  # fmt: skip
def test_made_images_have_their_published_scores(preset, classes, published):
    """Some images without prediction, without reference, and without either."""
    pictures = make_pictures(classes)
    result = score_pictures(preset, pictures)
    for path, expected in published(pictures).items():
        assert result.value(path) == pytest.approx(expected, abs=ROUNDED), path


# --- the examples of the pages ----------------------------------------------------------------------------------------


def draw(text: str) -> np.ndarray:
    return np.array([[int(symbol) for symbol in row] for row in text.split()])


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
    sides = tuple(instances_from_labels(draw(text), class_id=1) for text in (reference, prediction))
    for preset in ("hovernet", "monuseg2018"):
        result = score_instances(Challenge.from_preset(preset, name="test"), {"image": sides})
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


def test_the_published_pairing_loses_many_pairs_of_a_dense_image():
    """The image of the page of hovernet: 600 nuclei, 5% missed, 5% spurious."""
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


# --- through files ----------------------------------------------------------------------------------------------------


def start_arrays(folder: Path, preset: str, number: int, strata: Sequence[str] = ()) -> tuple[Path, Path]:
    """Folders of a challenge whose files hold all images, one after the other."""
    cases = [{"case": f"image_{k}", "height": SIZE[0], "width": SIZE[1], "index": k} for k in range(number)]
    return start(folder, preset, [case | ({"stratum": strata[k]} if strata else {}) for k, case in enumerate(cases)])


TISSUES = ["colon", "colon", "skin", "colon", "bile-duct", "skin", "skin", "colon", "skin"]


def channels(masks: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """H x W x 6 as PanNuke stores them: ids of one class in each channel, the last one 1 where nothing is."""
    planes = [labels_of(masks[classes == t]) for t in range(1, 6)]
    background = np.all([plane == 0 for plane in planes], axis=0)
    return np.stack([*planes, background], axis=-1).astype(float)


def score_pannuke(folder: Path, pictures: list[Picture]) -> Result:
    challenge, submission = start_arrays(folder, "pannuke", len(pictures), TISSUES)
    reference = [channels(picture.reference, picture.reference_class) for picture in pictures]
    prediction = [channels(picture.prediction, picture.prediction_class) for picture in pictures]
    np.save(challenge / "reference" / "masks.npy", np.stack(reference))
    np.save(submission / "masks.npy", np.stack(prediction))
    return score((challenge, submission))


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


def test_pannuke_leaves_out_images_and_classes_of_which_the_reference_has_no_nucleus(tmp_path):
    """mPQ is the mean over classes, then images, then tissues; each image lacks a class that the prediction has."""
    pictures = make_pictures(5)
    for index, picture in enumerate(pictures[:6]):
        kept = picture.reference_class != index % 5 + 1
        reference, classes = picture.reference[kept], picture.reference_class[kept]
        pictures[index] = replace(picture, reference=reference, reference_class=classes)
    assert sum(len(set(p.prediction_class) - set(p.reference_class)) for p in pictures if len(p.reference)) >= 5
    result = score_pannuke(tmp_path, pictures)
    by_class = [[published_pq(picture.of_class(t)) for picture in pictures] for t in range(1, 6)]
    of_images = [mean_of_numbers(values) for values in zip(*by_class, strict=True)]
    expected = {
        "panoptic.pq.stratum_mean": mean_over_tissues(of_images),
        "alternatives.classes_ignored.panoptic.binary.pq.stratum_mean": mean_over_tissues(
            [published_pq(picture) for picture in pictures]
        ),
    }
    for name, values in zip(result.challenge.class_names, by_class, strict=True):
        expected[f"panoptic.per_class.{name}.pq.case_mean"] = mean_of_numbers(values)
    for path, value in expected.items():
        assert result.value(path) == pytest.approx(value, abs=ROUNDED), path


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
        result = score_pannuke(tmp_path / name, [picture])
        binary = result.value("alternatives.classes_ignored.panoptic.binary.pq.stratum_mean")
        assert (result.value("panoptic.pq.stratum_mean"), binary) == expected


def test_conic_reads_the_published_arrays(tmp_path):
    pictures = make_pictures(6, number=2)
    challenge, submission = start_arrays(tmp_path, "conic2022", len(pictures))
    planes: tuple[list, list] = ([], [])
    for picture in pictures:
        both = ((picture.reference, picture.reference_class), (picture.prediction, picture.prediction_class))
        for of_side, (masks, classes) in zip(planes, both, strict=True):
            ids = labels_of(masks)
            of_side.append(np.stack([ids, np.array([0, *classes])[ids]], axis=-1))
    np.save(challenge / "reference" / "labels.npy", np.stack(planes[0]).astype(np.uint16))
    np.save(submission / "predictions.npy", np.stack(planes[1]).astype(np.uint16))
    found = score((challenge, submission)).value("panoptic.pq.pooled")
    assert found == score_pictures("conic2022", pictures).value("panoptic.pq.pooled")


def test_consep_reads_the_published_files_and_merges_their_seven_types(tmp_path):
    ids = np.arange(8).repeat(4).reshape(4, 8)  # nucleus k has the published type k
    challenge, submission = start(tmp_path, "consep", [{"case": "test_1", "height": 4, "width": 8}])
    savemat(challenge / "reference" / "test_1.mat", {"inst_map": ids, "type_map": ids.astype(float)})
    types = np.array([1, 2, 3, 3, 4, 4, 4])[:, None]
    savemat(submission / "test_1.mat", {"inst_map": ids, "inst_type": types})
    result = score((challenge, submission))
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
    challenge, submission = start(tmp_path, "dsb2018", cases)
    (challenge / "reference" / "solution.csv").symlink_to(source / "stage1_solution.csv")
    shutil.copyfile(source / f"submission_{team}.csv", submission / "submission.csv")
    result = score((challenge, submission))
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
    cases = [{"case": image["id"], "height": image["height"], "width": image["width"]} for image in images]
    challenge, submission = start(tmp_path, "sartorius2021", cases)
    cells, found, shares = ["id,annotation,width,height,cell_type"], ["id,predicted"], []
    for image in images:
        height, width = image["height"], image["width"]
        of_image = [a for a in document["annotations"] if a["image_id"] == image["id"]]
        for place, annotation in enumerate(of_image):
            code = code_along_rows(mask_down_columns(annotation["segmentation"]["counts"], (height, width)))
            cells.append(f"{image['id']},{code},{width},{height},{types[annotation['category_id']]}")
            found += [f"{image['id']},{code}"] if place % 5 else []
        shares.append(1 - len(range(0, len(of_image), 5)) / len(of_image))
    write(challenge / "reference" / "cells.csv", "\n".join([*cells, ""]))
    write(submission / "submission.csv", "\n".join([*found, ""]))
    result = score((challenge, submission))
    assert result.value("thresholds.threat_score_iou50_95.case_mean") == pytest.approx(np.mean(shares), abs=ROUNDED)


# --- MONKEY -----------------------------------------------------------------------------------------------------------

MONKEY_RATES = (10, 20, 50, 100, 200, 300)


def near_first(reference: np.ndarray, prediction: np.ndarray, radius: float) -> list[tuple[int, int]]:
    """The closest pair of all leaves, then the next one, up to the radius."""
    distance = cdist(reference, prediction)
    near = {(i, j): float(distance[i, j]) for i, j in np.argwhere(distance <= radius).tolist()}
    return literal_closest_first(near, range(len(reference)), range(len(prediction)))


def monkey_value(result: Result, name: str) -> float | None:
    """Lymphocytes are judged within 4 um, the others within 5."""
    prefix = "alternatives.within_4_um." if name == "lymphocytes" else ""
    return result.value(f"{prefix}curves.per_class.{name}.froc.pooled")


def monkey_job(slide: str) -> dict[str, Any]:
    """An entry of predictions.json as MONKEY's jobs have it."""
    outputs = [
        {"interface": {"slug": f"detected-{name}", "kind": "Multiple points", "relative_path": f"detected-{name}.json"}}
        for name in ("lymphocytes", "monocytes", "inflammatory-cells")
    ]
    image = {"image": {"name": f"{slide}_PAS_CPG.tif"}, "interface": {"slug": "kidney-transplant-biopsy"}}
    return {"pk": slide, "inputs": [image], "outputs": outputs}


def literal_monkey(
    slides: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], radius: float, area_mm2: float
) -> float:
    """FROC of one list of points: reference and prediction in um, and the confidences, of each slide."""
    right = []
    for reference, prediction, _ in slides:
        found = {j for _, j in near_first(reference, prediction, radius)}
        right += [j in found for j in range(len(prediction))]
    probability = np.concatenate([slide[2] for slide in slides])
    targets = sum(len(reference) for reference, _, _ in slides)
    limits = [rate * area_mm2 for rate in MONKEY_RATES]
    return float(np.mean([literal_sensitivity(probability, np.array(right), targets, limit) for limit in limits]))


@pytest.mark.parametrize("seed", [1, 2])
def test_monkey_reads_one_curve_of_all_slides_for_each_list_of_points(tmp_path, seed):
    rng = np.random.default_rng(seed)
    spacing = 0.25
    areas = {"A_P1": 0.03, "B_P2": 0.05, "C_P3": 0.02}
    cases = [
        {"case": name, "height": 400, "width": 400, "spacing_um": spacing, "area_mm2": area}
        for name, area in areas.items()
    ]
    folders = start(tmp_path, "monkey2024", cases)
    slides: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
    for slide in areas:
        for name in ("inflammatory-cells", "lymphocytes", "monocytes"):
            reference = rng.integers(0, 400, (12, 2))
            prediction = np.concatenate([reference[:9] + rng.normal(0, 12, (9, 2)), rng.uniform(0, 400, (14, 2))])
            probability = np.round(rng.uniform(0, 1, len(prediction)), 1 + seed)
            write(folders[0] / f"reference/{slide}_{name}.json", points_json(reference))
            millimetres = points_json(prediction * spacing / 1000, probability)
            write(folders[1] / slide / "output" / f"detected-{name}.json", millimetres)
            slides.setdefault(name, []).append((reference * spacing, prediction * spacing, probability))
    write(folders[1] / "predictions.json", json.dumps([monkey_job(slide) for slide in areas]))
    result = score(folders)
    for name, of_name in slides.items():
        radius = 4.0 if name == "lymphocytes" else 5.0
        expected = literal_monkey(of_name, radius, sum(areas.values()))
        assert monkey_value(result, name) == pytest.approx(expected, abs=1e-6), name


def test_the_points_of_monkey_that_were_drawn_in_asap_are_judged_by_those_of_its_json_files(shared_data, tmp_path):
    """The dots of the XML as detections in millimetres; those with an odd place in the file are less certain."""
    data = shared_data / "monkey"
    areas = json.loads((data / "ground_truth/A_P000001_monocytes.json").read_text())["area_rois"]
    area_mm2 = areas * (real.MONKEY_UM / 1000) ** 2
    case = {"case": "A_P000001", "height": 90_000, "width": 22_000, "spacing_um": real.MONKEY_UM, "area_mm2": area_mm2}
    folders = start(tmp_path, "monkey2024", [case])
    dots = asap_dots(data / "A_P000001.xml")
    dots["inflammatory-cells"] = np.concatenate([dots["lymphocytes"], dots["monocytes"]])
    expected, pairs = {}, {}
    for name, of_name in dots.items():
        source = data / f"ground_truth/A_P000001_{name}.json"
        write(folders[0] / f"reference/A_P000001_{name}.json", source.read_bytes())
        reference = np.array([point["point"] for point in json.loads(source.read_text())["points"]])
        probability = np.where(np.arange(len(of_name)) % 2, 0.25, 0.75)
        output = folders[1] / "A_P000001/output" / f"detected-{name}.json"
        write(output, points_json(of_name * real.MONKEY_UM / 1000, probability))
        radius = (4.0 if name == "lymphocytes" else 5.0) / real.MONKEY_UM
        pairs[name] = len(near_first(reference, of_name, radius))
        expected[name] = literal_monkey([(reference, of_name, probability)], radius, area_mm2)
    write(folders[1] / "predictions.json", (data / "test/predictions.json").read_bytes())
    result = score(folders)
    for name, value in expected.items():
        assert monkey_value(result, name) == pytest.approx(value, abs=1e-6), name
        prefix = "alternatives.within_4_um." if name == "lymphocytes" else ""
        recall = result.value(f"{prefix}detection.per_class.{name}.recall.pooled")
        targets = {"inflammatory-cells": 1121, "lymphocytes": 498, "monocytes": 623}[name]
        assert recall == pytest.approx(pairs[name] / targets, abs=1e-6)
    assert (pairs["lymphocytes"], pairs["monocytes"]) == (460, 622)  # 460 and 621 within 16 px: SOURCES.md


def asap_dots(path: Path) -> dict[str, np.ndarray]:
    """Dots by their group, read without our readers."""
    found: dict[str, list[list[float]]] = {"lymphocytes": [], "monocytes": []}
    for annotation in ElementTree.parse(path).getroot().iter("Annotation"):
        if annotation.get("Type") == "Dot":
            (point,) = annotation.iter("Coordinate")
            found[annotation.attrib["PartOfGroup"]].append([float(point.attrib[axis]) for axis in "XY"])
    return {name: np.array(points) for name, points in found.items()}


# --- MIDOG ------------------------------------------------------------------------------------------------------------


def midog_reference(images: Mapping[str, np.ndarray], others: int = 0) -> str:
    """Boxes of 50 px whose middles are the points; the first ``others`` of each image are no mitoses."""
    annotations = [
        {"image_id": i, "category_id": 2 if k < others else 1, "bbox": [x - 25, y - 25, x + 25, y + 25]}
        for i, points in enumerate(images.values())
        for k, (x, y) in enumerate(points.tolist())
    ]
    return json.dumps({
        "images": [{"id": i, "file_name": f"{name}.tiff"} for i, name in enumerate(images)],
        "categories": [{"id": 1, "name": "mitotic figure"}, {"id": 2, "name": "not mitotic figure"}],
        "annotations": annotations,
    })  # fmt: skip


def midog_challenge(
    folder: Path, images: Mapping[str, tuple[np.ndarray, np.ndarray]], spacing: float
) -> tuple[Path, Path]:
    cases = [{"case": name, "height": 1000, "width": 1000, "spacing_um": spacing} for name in images]
    folders = start(folder, "midog2021", cases)
    reference = midog_reference({name: reference for name, (reference, _) in images.items()})
    write(folders[0] / "reference/MIDOG.json", reference)
    for name, (_, prediction) in images.items():
        points = points_json(prediction * spacing / 1000, name="mitotic figure")
        write(folders[1] / f"{name}.json", points)
    return folders


def test_midog_adds_up_what_is_found_within_seven_and_a_half_micrometres(tmp_path):
    rng = np.random.default_rng(3)
    images, tp, total = {}, 0, 0
    for index in range(5):
        reference = rng.integers(30, 970, (8, 2)).astype(float)
        prediction = np.concatenate([reference + rng.normal(0, 25, (8, 2)), rng.uniform(0, 1000, (5, 2))])
        images[f"{index:03}"] = reference, prediction
        tp += len(near_first(reference, prediction, 7.5 / 0.25))
        total += len(reference) + len(prediction)
    result = score(midog_challenge(tmp_path, images, 0.25))
    assert result.value("detection.f1.pooled") == pytest.approx(2 * tp / total, abs=1e-6)


@pytest.mark.parametrize(("y_mm", "f1"), [(0.03988, 1.0), (0.039879, 0.0)])
def test_exactly_seven_and_a_half_micrometres_is_a_match_of_midog(tmp_path, y_mm, f1):
    """206 px at 0.23 um are 47.38 um; 39.88 um is exactly 7.5 um off, whatever the rounding of mm, um and px."""
    found = np.array([[0.02346, y_mm]]) / 0.23 * 1000
    result = score(midog_challenge(tmp_path, {"001": (np.array([[102.0, 206.0]]), found)}, 0.23))
    assert result.value("detection.f1.pooled") == f1


# The published fault ``file_order`` of MIDOG 2021: the library that it counted with goes through the file.
FILE_ORDER = {"matching": {"published_faults": ["file_order"]}}
ANY_ORDER = {"matching": {"published_faults": []}}


@pytest.mark.parametrize(("order", "as_published"), [([0, 1], 0.5), ([1, 0], 1.0)])
def test_the_order_of_the_file_of_midog_decides_unless_the_fault_is_taken_out(tmp_path, order, as_published):
    """Mitoses at 0 and 8 um, detections at 5 and -7 um: the first takes the one at 5, unless it comes last."""
    reference, prediction = np.array([[100.0, 50], [108, 50]]), np.array([[105.0, 50], [93, 50]])
    folders = midog_challenge(tmp_path, {"001": (reference[order], prediction)}, 1.0)
    assert score(folders).value("detection.f1.pooled") == as_published
    rules = folders[0] / "challenge.toml"
    rules.write_text(f"{rules.read_text()}[matching]\npublished_faults = []\n")
    assert score(folders).value("detection.f1.pooled") == 1.0


def in_file_order(reference, prediction, *, class_aware: bool):
    rule = {"name": "a", "rule": "centroid_closest_first", "radius_px": 25, "ties": "first_pixel"}
    sides = Sides(Case("a", "a", 300, 300), overlap_table(reference, prediction), reference, prediction, "open")
    return InFileOrder(**rule, class_aware=class_aware).match(sides)


def test_the_pairs_are_as_many_as_the_library_counts_in_any_order_of_the_reference():
    """Mitoses, and a detection near most of them and ten elsewhere."""
    rng = np.random.default_rng(1)
    differ = 0
    for _ in range(100):
        reference = rng.uniform(0, 300, (rng.integers(0, 40), 2))
        near = reference[rng.random(len(reference)) < 0.9] + rng.normal(0, 12, 2)
        prediction = rng.permutation(np.concatenate([near, rng.uniform(0, 300, (rng.integers(0, 11), 2))]))
        by_order = []
        for points in (reference, reference[::-1]):
            found = len(in_file_order(points_of(points), points_of(prediction), class_aware=False))
            sides = {"ground_truth": [tuple(at) for at in points], "predictions": [tuple(at) for at in prediction]}
            counted = score_detection(**sides, radius=25)
            assert (counted.true_positives, counted.false_negatives) == (found, len(points) - found)
            assert counted.false_positives == len(prediction) - found
            by_order.append(found)
        differ += by_order[0] != by_order[1]
    assert differ > 20


def test_in_file_order_points_of_other_classes_stay_free_and_no_points_have_no_pair():
    left, right = points_of([(5, 5), (5, 6)], classes=[1, 2]), points_of([(5, 5)], classes=[2])
    found = [in_file_order(left, right, class_aware=aware).reference_index.tolist() for aware in (False, True)]
    assert found == [[0], [1]]
    images = {"a": (points_of([]), points_of([(1, 1)])), "b": (points_of([(1, 1)]), points_of([]))}
    result = score_instances(Challenge.from_preset("midog2021", name="a", **FILE_ORDER), images, spacing_um=1.0)
    assert result.value("detection.f1.pooled") == 0


def test_the_fault_needs_the_rule_in_whose_place_it_stands():
    with pytest.raises(ChallengeBroken, match="the first rule 'centroid_closest_first'"):
        Challenge.from_preset("nucls", name="a", **FILE_ORDER)
    plain, faulty = (Challenge.from_preset("midog2021", name="a", **rules).hash for rules in (ANY_ORDER, {}))
    assert plain != faulty


def test_the_mitoses_of_midog_plus_plus_are_found_where_they_are_and_no_hard_negative_is(shared_data, tmp_path):
    """Every third mitosis is left out, all hard negatives are handed in as what they are and do not count."""
    source = shared_data / "midog/databases/MIDOG++.json.gz"
    document = json.loads(gzip.decompress(source.read_bytes()))
    chosen = document["images"][:60]
    cases = [
        {"case": image["file_name"].removesuffix(".tiff"), "height": image["height"], "width": image["width"],
         "spacing_um": 0.23}
        for image in chosen
    ]  # fmt: skip
    folders = start(tmp_path, "midog2021", cases)
    ids = {image["id"] for image in chosen}
    kept = [annotation for annotation in document["annotations"] if annotation["image_id"] in ids]
    write(folders[0] / "reference/MIDOG.json", json.dumps({**document, "images": chosen, "annotations": kept}))
    found = mitoses = 0
    for image, case in zip(chosen, cases, strict=True):
        points = []
        for annotation in (annotation for annotation in kept if annotation["image_id"] == image["id"]):
            x0, y0, x1, y1 = annotation["bbox"]
            is_mitosis = annotation["category_id"] == 1
            mitoses += is_mitosis
            if is_mitosis and mitoses % 3 == 0:
                continue
            found += is_mitosis
            place = [(x0 + x1) / 2 * 0.23e-3, (y0 + y1) / 2 * 0.23e-3, 0.0]
            points.append({"point": place, "name": "mitotic figure" if is_mitosis else "non-mitotic figure"})
        write(folders[1] / f"{case['case']}.json", json.dumps({"type": "Multiple points", "points": points}))
    result = score(folders)
    assert found > 100
    assert result.value("detection.f1.pooled") == pytest.approx(2 * found / (found + mitoses), abs=1e-6)


def test_the_points_of_the_container_of_midog_are_read_with_and_without_a_name(shared_data, tmp_path):
    expected = json.loads((shared_data / "midog/test/expected_output.json").read_text())["points"]
    figures = [point["point"][:2] for point in expected if point["name"] == "mitotic figure"]
    spacing = 0.25
    reference = np.array(figures) / spacing * 1000
    folders = midog_challenge(tmp_path, {"007": (reference, reference)}, spacing)
    for output in ("test/expected_output.json", "output/mitotic-figures.json"):
        write(folders[1] / "007.json", (shared_data / "midog" / output).read_bytes())
        result = score(folders)
        submitted = len(json.loads((shared_data / "midog" / output).read_text())["points"])
        named = len(figures) if "test" in output else submitted
        assert result.value("detection.f1.pooled") == pytest.approx(2 * len(figures) / (len(figures) + named), abs=1e-6)


# --- PUMA -------------------------------------------------------------------------------------------------------------

Nucleus = tuple[str, tuple[float, float], float]  # class, centroid, confidence


def literal_puma_f1(reference: Sequence[Nucleus], prediction: Sequence[Nucleus]) -> dict[str, float]:
    """F1 of each class on either side of one image: the most confident prediction takes the nearest free nucleus."""
    scores = {}
    for name in {nucleus[0] for nucleus in (*reference, *prediction)}:
        left, right = ([nucleus for nucleus in side if nucleus[0] == name] for side in (reference, prediction))
        near = {
            (i, j): math.dist(one[1], other[1])
            for (i, one), (j, other) in product(enumerate(left), enumerate(right))
            if math.dist(one[1], other[1]) <= 15
        }
        surest = sorted(range(len(right)), key=lambda j: -right[j][2])
        pairs = literal_confidence_first(near, range(len(left)), surest)
        scores[name] = 2 * len(pairs) / (len(left) + len(right))
    return scores


def square(x: float, y: float, side: int = 4) -> list[list[float]]:
    return [[x, y], [x + side, y], [x + side, y + side], [x, y + side]]


def puma_files(folders: tuple[Path, Path], case: str, reference: Sequence[Nucleus], prediction: Sequence[Nucleus]):
    """Squares of 4 px around the centroids."""

    def corners(nucleus: Nucleus) -> list[list[float]]:
        return square(nucleus[1][0] - 2, nucleus[1][1] - 2)

    features = [
        {"type": "Feature", "properties": {"classification": {"name": f"nuclei_{nucleus[0]}"}},
         "geometry": {"type": "Polygon", "coordinates": [[*corners(nucleus), corners(nucleus)[0]]]}}
        for nucleus in reference
    ]  # fmt: skip
    polygons = [
        {"name": f"nuclei_{nucleus[0]}", "probability": nucleus[2],
         "path_points": [[x, y, 0.5] for x, y in corners(nucleus)]}
        for nucleus in prediction
    ]  # fmt: skip
    collection = json.dumps({"type": "FeatureCollection", "features": features})
    write(folders[0] / f"reference/{case}_nuclei.geojson", collection)
    write(folders[1] / f"{case}.json", json.dumps({"type": "Multiple polygons", "polygons": polygons}))


def test_puma_lets_the_most_confident_prediction_choose_first(tmp_path):
    rng = np.random.default_rng(11)
    names = real.PUMA_CLASSES[:3]
    cases = [{"case": f"roi_{i}", "height": 128, "width": 128} for i in range(4)]
    folders = start(tmp_path, "puma2024", cases)
    per_image = []
    for case in cases:
        places = rng.integers(3, 125, (24, 2)).astype(float)
        moved = np.clip(places + rng.integers(-9, 10, places.shape), 2, 126)
        confidence = rng.permutation(24) / 32
        reference = [(str(rng.choice(names)), (x, y), 1.0) for x, y in places.tolist()]
        prediction = [
            (reference[i][0] if rng.random() < 0.8 else str(rng.choice(names)), (x, y), float(confidence[i]))
            for i, (x, y) in enumerate(moved.tolist())
        ]
        puma_files(folders, case["case"], reference, prediction[:20])
        per_image.append(literal_puma_f1(reference, prediction[:20]))
    result = score(folders)
    expected = np.mean([np.mean(list(of.values())) for of in per_image])
    assert result.value("detection.macro_f1.case_mean") == pytest.approx(expected, abs=1e-6)
    for name in names:
        of_class = np.mean([of[name] for of in per_image if name in of])
        assert result.value(f"detection.per_class.{name}.f1.case_mean") == pytest.approx(of_class, abs=1e-6)


def test_a_confident_prediction_takes_the_nucleus_of_a_nearer_one(tmp_path):
    """One nucleus; a prediction on it with confidence .1 and one 10 px away with .9: found either way, but by whom."""
    folders = start(tmp_path, "puma2024", [{"case": "roi", "height": 64, "width": 64}])
    nuclei = [("tumor", (20.0, 20.0), 1.0), ("tumor", (34.0, 20.0), 1.0)]
    guesses = [("tumor", (20.0, 20.0), 0.1), ("tumor", (26.0, 20.0), 0.9)]
    puma_files(folders, "roi", nuclei, guesses)
    result = score(folders)
    # .9 is 6 px from the first nucleus and 8 from the second: it takes the first, and .1 is 14 from what is left.
    assert result.value("detection.f1.pooled") == 1.0
    assert literal_puma_f1(nuclei, guesses) == {"tumor": 1.0}
    puma_files(folders, "roi", nuclei, [("tumor", (18.0, 20.0), 0.1), ("tumor", (26.0, 20.0), 0.9)])
    result = score(folders)
    assert result.value("detection.f1.pooled") == 0.5
    assert result.value("alternatives.closest_first.detection.f1.pooled") == 1.0


def nuclei_by_position(polygons: Sequence[Mapping[str, Any]]) -> list[Nucleus]:
    """Classes and centroids of the pixels of polygons, in the order of their first pixels, row by row."""
    found = []
    for polygon in polygons:
        xy = np.array(polygon["path_points"])[:, :2] - 0.5
        rows, columns = draw_polygon(xy[:, 1], xy[:, 0], (1024, 1024))
        first = min(zip(rows.tolist(), columns.tolist(), strict=True))
        found.append((first, (polygon["name"], (float(columns.mean()), float(rows.mean())), 1.0)))
    return [nucleus for _, nucleus in sorted(found, key=lambda entry: entry[0])]


def published_puma_f1(
    reference: Sequence[Mapping[str, Any]], prediction: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """As the published code counts one image: nuclei in the order of the file, centroids of vertices, below 15 px."""

    def centroids(polygons: Sequence[Mapping[str, Any]], name: str) -> list[np.ndarray]:
        return [np.mean(p["path_points"], axis=0)[:2] for p in polygons if p["name"] == name]

    scores = {}
    for name in {polygon["name"] for polygon in (*reference, *prediction)}:
        free, targets = centroids(prediction, name), centroids(reference, name)
        total, tp = len(free) + len(targets), 0
        for target in targets:
            distances = [float(np.linalg.norm(place - target)) for place in free]
            if distances and min(distances) < 15:
                del free[int(np.argmin(distances))]
                tp += 1
        scores[name] = 2 * tp / total
    return scores


def test_the_real_input_of_puma_is_scored_as_defined_and_as_published_but_for_absent_classes(shared_data, tmp_path):
    """Against its own polygons, every tenth taken out and every seventh of the rest renamed."""
    names = [f"nuclei_{name}" for name in real.PUMA_CLASSES]
    submitted = real.puma_polygons(shared_data)
    kept = {
        case: [
            {**polygon, "name": names[(names.index(polygon["name"]) + (index % 7 == 0)) % 10]}
            for index, polygon in enumerate(polygons)
            if index % 10
        ]
        for case, polygons in submitted.items()
    }
    pair = real.puma(shared_data, tmp_path, kept)
    start(tmp_path, "puma2024", [{"case": case, "height": 1024, "width": 1024} for case in kept])
    result = score((pair.challenge, pair.submission))
    defined = [literal_puma_f1(nuclei_by_position(kept[c]), nuclei_by_position(submitted[c])) for c in kept]
    expected = np.mean([np.mean(list(of.values())) for of in defined])
    assert result.value("detection.macro_f1.case_mean") == pytest.approx(expected, abs=1e-6)
    published = [published_puma_f1(kept[case], submitted[case]) for case in kept]
    for name in real.PUMA_CLASSES:
        of_images = [of[f"nuclei_{name}"] for of in published if f"nuclei_{name}" in of]
        found = result.value(f"detection.per_class.{name}.f1.case_mean")
        # The published code divides by the number of all images: a class that one of two lacks has half as much there.
        assert found == (pytest.approx(np.mean(of_images), abs=1e-6) if of_images else None), name


# --- NuCLS ------------------------------------------------------------------------------------------------------------

NUCLS_HEADER = ["raw_classification", "main_classification", "super_classification", "type",
                "xmin", "ymin", "xmax", "ymax", "coords_x", "coords_y"]  # fmt: skip
NUCLS = tuple(rules.name for rules in Challenge.from_preset("nucls", name="test").classes)
SUPER = {"tumor_nonMitotic": 0, "tumor_mitotic": 0, "nonTILnonMQ_stromal": 1, "macrophage": 1, "lymphocyte": 2,
         "plasma_cell": 2, "other_nucleus": 3}  # fmt: skip


def box_iou(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=2)
    areas = [np.prod(side[:, 2:] - side[:, :2], axis=1) for side in (a, b)]
    return shared / (areas[0][:, None] + areas[1][None] - shared)


def nucls_rows(boxes: np.ndarray, classes: Sequence[str]) -> list[list[object]]:
    return [[name, name, name, "rectangle", *box, "", ""] for box, name in zip(boxes.tolist(), classes, strict=True)]


def csv_text(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    return text.getvalue()


def test_nucls_judges_pairs_of_greatest_total_iou_joins_super_classes_then_and_ranks_by_confidence(tmp_path):
    """Boxes on whole pixels, whose IoU is that of their pixels."""
    rng = np.random.default_rng(8)
    cases = [{"case": f"fov_{i}", "height": 200, "width": 220} for i in range(6)]
    folders = start(tmp_path, "nucls", cases)
    truth, chances, ranked, ious = [], [], [], []
    for case in cases:
        corner = rng.integers(0, 170, (25, 2))
        boxes = np.concatenate([corner, corner + rng.integers(8, 25, (25, 2))], axis=1)
        classes = rng.integers(0, 7, 25)
        shifted = boxes[:20] + np.tile(rng.integers(-2, 3, (20, 2)), 2)
        new = rng.integers(0, 170, (6, 2))
        predicted = np.clip(np.concatenate([shifted, np.concatenate([new, new + 15], axis=1)]), 0, 200)
        chance = rng.dirichlet(np.ones(7), len(predicted)) * 0.5
        chance[np.arange(20), classes[:20]] += 0.3
        chance = np.round(chance, 4)
        confidence = np.round(rng.permutation(len(predicted)) / 64, 6)
        write(
            folders[0] / f"reference/{case['case']}.csv",
            csv_text(NUCLS_HEADER, nucls_rows(boxes, [NUCLS[c] for c in classes])),
        )
        rows = nucls_rows(predicted, [NUCLS[c] for c in chance.argmax(axis=1)])
        rows = [[*row, p, *c] for row, p, c in zip(rows, confidence.tolist(), chance.tolist(), strict=True)]
        header = [*NUCLS_HEADER, "probability", *(f"probability_{name}" for name in NUCLS)]
        write(folders[1] / f"{case['case']}.csv", csv_text(header, rows))
        iou = box_iou(boxes, predicted)
        cost = np.where(iou > 0.5, 1 - iou, 99.0)
        matched = [(i, j) for i, j in zip(*linear_sum_assignment(cost), strict=True) if cost[i, j] < 99]
        truth += [classes[i] for i, _ in matched]
        chances += [chance[j] for _, j in matched]
        ious += [iou[i, j] for i, j in matched]
        enough = {(i, j): -iou[i, j] for i, j in np.argwhere(iou >= 0.5).tolist()}
        found = {j for _, j in literal_confidence_first(enough, range(len(boxes)), np.argsort(-confidence))}
        ranked += [(value, j in found) for j, value in enumerate(confidence.tolist())]
    truth, chance = np.array(truth), np.array(chances)
    predicted = chance.argmax(axis=1)
    group = np.array([SUPER[name] for name in NUCLS])
    of_classes = [roc_auc_score(truth == k, chance[:, k]) for k in range(7)]
    sureness, hits = np.array(ranked)[:, 0], np.array(ranked)[:, 1] == 1
    average_precision = literal_average_precision_101(sureness, hits, 25 * len(cases))
    result = score(folders)
    for path, expected in (
        ("classification.accuracy", accuracy_score(truth, predicted)),
        ("classification.mcc", matthews_corrcoef(truth, predicted)),
        ("classification.auroc", np.mean(of_classes)),
        ("segmentation.iou_median", np.median(ious)),
        ("classification.grouped.super.accuracy", accuracy_score(group[truth], group[predicted])),
        ("classification.grouped.super.mcc", matthews_corrcoef(group[truth], group[predicted])),
        ("alternatives.confidence_first.curves.average_precision_101", average_precision),
    ):
        assert result.value(f"{path}.pooled") == pytest.approx(expected, abs=1e-6), path
