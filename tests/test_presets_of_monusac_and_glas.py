"""The presets of MoNuSAC as published and of GlaS, against their definitions, written down once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from preset_files import MONUSAC, blobs, disturbed, ids_of, overlap, score, squares_xml, start, write
from scipy.io import savemat
from scipy.spatial.distance import cdist

from evaluation import Challenge, instances_from_labels, score_instances

# --- MoNuSAC as published ---------------------------------------------------------------------------------------------


def literal_monusac(reference: Mapping[str, np.ndarray], prediction: Mapping[str, np.ndarray]) -> float | None:
    """PQ of one sub-image as it was published, from n-ary masks; the mean over the classes that the reference has."""
    qualities = []
    for name, drawn in reference.items():
        if not drawn.any():
            continue
        found = prediction[name]
        unmatched = set(ids_of(found))
        iou_sum, matched = 0.0, 0
        for number in ids_of(drawn):
            for label in ids_of(found[drawn == number]):
                iou = overlap(drawn == number, found == label) / ((drawn == number) | (found == label)).sum()
                if iou > 0.5:
                    iou_sum, matched = iou_sum + iou, matched + 1
                    unmatched -= {number}  # the published slip: not ``label``
        missed = len(ids_of(drawn)) - matched
        qualities.append(iou_sum / (matched + len(unmatched) / 2 + missed / 2))
    return sum(qualities) / len(qualities) if qualities else None


def test_the_published_ranking_of_monusac_is_met_on_files(tmp_path):
    """Outlines are numbered through the file, layers in any order; classes without an outline are not looked at."""
    rng = np.random.default_rng(5)
    cases = [{"case": f"image{i}", "group": f"P{i // 2}", "height": 60, "width": 70} for i in range(6)]
    folders = start(tmp_path, "monusac2020_as_published", cases)
    expected = []
    for case in cases:
        layers, number, reference = [], 0, {name: np.zeros((60, 70), int) for name in MONUSAC}
        for name in rng.permutation(MONUSAC):
            boxes = []
            for _ in range(rng.integers(0, 6)):
                y, x, h, w = (int(v) for v in (rng.integers(0, 50), rng.integers(0, 60), *rng.integers(4, 9, 2)))
                number += 1
                reference[name][y : y + h, x : x + w] = number
                boxes.append((y, y + h - 1, x, x + w - 1))
            layers.append((name, boxes))
        prediction = {}
        for name in MONUSAC:
            moved = np.roll(reference[name], rng.integers(0, 2, 2), axis=(0, 1))
            new = blobs(rng, 2, 70)[:60]
            prediction[name] = np.where(moved == 0, (new > 0) * (new + 30), moved)
            if rng.random() < 0.7:
                ids = ids_of(prediction[name])
                values = np.zeros(200, int)
                values[ids] = rng.permutation(len(ids)) + rng.integers(1, 9)
                prediction[name] = values[prediction[name]]
            file = folders[1] / case["group"] / case["case"] / name / "1.mat"
            file.parent.mkdir(parents=True)
            savemat(file, {"n_ary_mask": prediction[name].astype(np.uint16)})
        write(folders[0] / f"reference/{case['group']}/{case['case']}.xml", squares_xml(layers))
        expected.append(literal_monusac(reference, prediction))
    values = [value for value in expected if value is not None]
    assert score(folders).value("panoptic.pq.case_mean") == pytest.approx(np.mean(values), abs=1e-6)


def test_ignored_and_vanished_outlines_have_numbers_too(tmp_path):
    """The nucleus is the third outline of its file: the prediction with the id 3 is taken off, 1 is not."""
    for label, expected in ((3, 1.0), (1, 1 / 1.5)):
        case = {"case": "image", "group": "P", "height": 30, "width": 30}
        folders = start(tmp_path / str(label), "monusac2020_as_published", [case])
        outside = (90, 95, 90, 95)
        layers = [("Ambiguous", [(20, 29, 20, 29)]), ("Lymphocyte", [outside, (2, 9, 2, 9)])]
        write(folders[0] / "reference/P/image.xml", squares_xml(layers))
        mask = np.zeros((30, 30), np.uint8)
        mask[2:10, 2:10] = label
        (folders[1] / "P/image/Lymphocyte").mkdir(parents=True)
        savemat(folders[1] / "P/image/Lymphocyte/a.mat", {"n_ary_mask": mask})
        assert score(folders).value("panoptic.pq.case_mean") == pytest.approx(expected, abs=1e-6)


# --- GlaS -------------------------------------------------------------------------------------------------------------


def dice(a: np.ndarray, b: np.ndarray) -> float:
    return 2 * overlap(a, b) / int(a.sum() + b.sum())


def set_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Hausdorff distance of two sets of pixels."""
    distance = cdist(np.argwhere(a), np.argwhere(b))
    return float(max(distance.min(axis=0).max(), distance.min(axis=1).max()))


def masks_in(labels: np.ndarray) -> list[np.ndarray]:
    """In the order of their first pixels."""
    masks = [labels == label for label in ids_of(labels)]
    return sorted(masks, key=lambda mask: int(np.flatnonzero(mask)[0]))


def partner(mask: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray | None:
    shared = [overlap(mask, other) for other in others]
    return others[int(np.argmax(shared))] if any(shared) else None


def literal_glas(images: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float, float]:
    """Object F1, object Dice and object Hausdorff of the images of a test part, reference and segmentation."""
    hits = objects = 0
    dices: tuple[list, list] = ([], [])
    distances: tuple[list, list] = ([], [])
    for reference, segmentation in images:
        glands, segmented = masks_in(reference), masks_in(segmentation)
        objects += len(glands) + len(segmented)
        for mask in segmented:
            gland = partner(mask, glands)
            hits += gland is not None and 2 * overlap(mask, gland) > gland.sum()
        for side, (these, others) in enumerate(((segmented, glands), (glands, segmented))):
            for mask in these:
                best, area = partner(mask, others), int(mask.sum())
                dices[side].append((area, 0.0 if best is None else dice(mask, best)))
                candidates = others if best is None else [best]
                distances[side].append((area, min(set_distance(mask, other) for other in candidates)))

    def weighted(values: Sequence[tuple[int, float]]) -> float:
        return sum(area * value for area, value in values) / sum(area for area, _ in values)

    mean_dice, mean_distance = ((weighted(of[0]) + weighted(of[1])) / 2 for of in (dices, distances))
    return 2 * hits / objects, mean_dice, mean_distance


GLAS_COLUMNS = ("objects.f1.pooled", "objects.dice.pooled", "objects.hausdorff_px.pooled")


def score_glas(images: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[float | None]:
    instances = {
        f"image{i}": (instances_from_labels(reference, class_id=1), instances_from_labels(segmentation, class_id=1))
        for i, (reference, segmentation) in enumerate(images)
    }
    result = score_instances(Challenge.from_preset("glas2015", name="test"), instances)
    return [result.value(path) for path in GLAS_COLUMNS]


@pytest.mark.parametrize("seed", range(4))
def test_the_objects_of_glas_are_weighed_over_all_images_of_a_test_part(seed):
    rng = np.random.default_rng(seed)
    references = [blobs(rng, 6) for _ in range(4)]
    images = [(reference, disturbed(rng, reference)) for reference in references]
    assert score_glas(images) == pytest.approx(literal_glas(images), abs=1e-6)


def test_a_glas_object_must_cover_more_than_half_of_its_gland_and_may_be_much_larger():
    gland = np.zeros((12, 12), int)
    gland[4:8, 4:8] = 1
    half, large = np.zeros_like(gland), np.ones_like(gland)
    half[4:8, 4:6] = 7
    assert score_glas([(gland, half)])[0] == 0.0
    assert score_glas([(gland, large)])[:2] == [1.0, pytest.approx(2 * 16 / 160, abs=1e-6)]
