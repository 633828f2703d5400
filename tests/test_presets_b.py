"""The presets of MoNuSAC as published, MIDOG, NuCLS, GlaS, MONKEY and PUMA, and one test over all presets.

Every published score is written down once more from its definition, slowly, and compared on made and on real files.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import real_challenges as real
from scipy.io import savemat
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from skimage.draw import polygon as draw_polygon
from sklearn.metrics import accuracy_score, matthews_corrcoef, roc_auc_score

from evaluation import Challenge, Result, instances_from_labels, score_instances, score_submission
from evaluation.authoring.examples import example_files
from evaluation.challenge import preset_names, preset_text
from evaluation.commands.main import run
from evaluation.model import Case

MONUSAC = ("Epithelial", "Lymphocyte", "Neutrophil", "Macrophage")


# --- files ------------------------------------------------------------------------------------------------------------


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def start(folder: Path, preset: str, cases: Sequence[Mapping[str, Any]]) -> tuple[Path, Path]:
    """Folders of a challenge that takes all its rules from a preset, and of a submission to it."""
    challenge, submission = folder / "challenge", folder / "submission"
    write(challenge / "challenge.toml", f'format_version = 1\nname = "{preset}"\npreset = "{preset}"\n')
    with (challenge / "cases.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(cases[0]))
        writer.writeheader()
        writer.writerows(cases)
    submission.mkdir(exist_ok=True)
    return challenge, submission


def score(folders: tuple[Path, Path]) -> Result:
    return score_submission(*folders, workers=1)


def points_json(points: np.ndarray, probability: Sequence[float] | None = None, name: str | None = None) -> str:
    items: list[dict[str, Any]] = [{"point": [*map(float, point), 0.5]} for point in points]
    for index, item in enumerate(items):
        item |= {} if probability is None else {"probability": float(probability[index])}
        item |= {} if name is None else {"name": name}
    return json.dumps({"type": "Multiple points", "points": items, "version": {"major": 1, "minor": 0}})


# --- pictures ---------------------------------------------------------------------------------------------------------


def ids_of(labels: np.ndarray) -> list[int]:
    return [int(label) for label in np.unique(labels) if label]


def blobs(rng: np.random.Generator, count: int, size: int = 40) -> np.ndarray:
    """Up to ``count`` rectangles that do not overlap, numbered in no order."""
    labels = np.zeros((size, size), int)
    for label in rng.permutation(count) + 1:
        y, x = rng.integers(0, size - 4, 2)
        h, w = rng.integers(3, 12, 2)
        box = labels[y : y + h, x : x + w]
        box[box == 0] = label
    return labels


def disturbed(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    """The same picture moved by a pixel or two, with some nuclei gone, some new, and other numbers."""
    moved = np.roll(labels, rng.integers(-2, 3, 2), axis=(0, 1))
    for label in ids_of(moved):
        if rng.random() < 0.2:
            moved[moved == label] = 0
    extra = blobs(rng, 3, len(labels))
    moved = np.where(moved == 0, extra + (extra > 0) * 100, moved)
    numbers = np.concatenate([[0], rng.permutation(200) + 1])
    return numbers[moved]


def overlap(a: np.ndarray, b: np.ndarray) -> int:
    return int((a & b).sum())


# --- MoNuSAC as published ---------------------------------------------------------------------------------------------

SQUARES = np.zeros((100, 100), int)
SQUARES[10:20, 10:20], SQUARES[10:20, 30:40], SQUARES[50:60, 50:60] = 1, 2, 3


@pytest.mark.parametrize(("numbers", "expected"), [((4, 5, 6), 3 / 4.5), ((3, 1, 2), 1.0), ((3, 4, 5), 3 / 4)])
def test_three_squares_found_perfectly_score_by_their_ids_as_published_and_one_otherwise(numbers, expected):
    reference = instances_from_labels(SQUARES, class_id=1)
    prediction = instances_from_labels(np.array([0, *numbers])[SQUARES], class_id=1)
    for preset, value in (("monusac2020_as_published", expected), ("monusac2020", 1.0)):
        challenge = Challenge.from_preset(preset, name="fabricated")
        result = score_instances(challenge, {"image": (reference, prediction)})
        assert result.value("panoptic.pq.case_mean") == pytest.approx(value, abs=1e-6)


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


def squares_xml(layers: Sequence[tuple[str, Sequence[tuple[int, int, int, int]]]]) -> str:
    """Outlines of boxes (first and last row, first and last column) as Aperio XML; ids begin at 1 in each layer."""
    text = ""
    for name, boxes in layers:
        regions = ""
        for index, (y0, y1, x0, x1) in enumerate(boxes, start=1):
            vertices = "".join(f'<Vertex X="{x}" Y="{y}"/>' for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1)))
            regions += f'<Region Id="{index}"><Vertices>{vertices}</Vertices></Region>'
        attributes = f'<Attributes><Attribute Name="{name}"/></Attributes>'
        text += f"<Annotation>{attributes}<Regions>{regions}</Regions></Annotation>"
    return f"<?xml version='1.0'?>\n<Annotations>{text}</Annotations>\n"


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


# --- MONKEY -----------------------------------------------------------------------------------------------------------

MONKEY_RATES = (10, 20, 50, 100, 200, 300)


def literal_closest_first(reference: np.ndarray, prediction: np.ndarray, radius: float) -> list[tuple[int, int]]:
    """The closest pair of all leaves, then the next one, up to the radius."""
    distance = cdist(reference, prediction)
    pairs: list[tuple[int, int]] = []
    for i, j in sorted(map(tuple, np.argwhere(distance <= radius).tolist()), key=lambda pair: distance[pair]):
        if all(i != other and j != another for other, another in pairs):
            pairs.append((i, j))
    return pairs


def literal_froc(hits: Sequence[float], misses: Sequence[float], targets: int, area_mm2: float) -> float:
    """Mean sensitivity at MONKEY's rates, on the curve through every confidence, straight between its points."""
    curve = [(0.0, 0.0)]
    for threshold in sorted({*hits, *misses}, reverse=True):
        rate = sum(value >= threshold for value in misses) / area_mm2
        curve.append((rate, sum(value >= threshold for value in hits) / targets))
    read = []
    for rate in MONKEY_RATES:
        left = max(point for point in curve if point[0] <= rate)
        right = min((point for point in curve if point[0] > rate), default=None)
        share = 0.0 if right is None else (rate - left[0]) / (right[0] - left[0])
        read.append(left[1] if right is None else left[1] + share * (right[1] - left[1]))
    return sum(read) / len(read)


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
    hits, misses = [], []
    for reference, prediction, probability in slides:
        found = {j for _, j in literal_closest_first(reference, prediction, radius)}
        hits += [float(value) for j, value in enumerate(probability) if j in found]
        misses += [float(value) for j, value in enumerate(probability) if j not in found]
    return literal_froc(hits, misses, sum(len(reference) for reference, _, _ in slides), area_mm2)


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
        pairs[name] = len(literal_closest_first(reference, of_name, radius))
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
        tp += len(literal_closest_first(reference, prediction, 7.5 / 0.25))
        total += len(reference) + len(prediction)
    result = score(midog_challenge(tmp_path, images, 0.25))
    assert result.value("detection.f1.pooled") == pytest.approx(2 * tp / total, abs=1e-6)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_order_of_the_file_of_midog_decides_nothing(tmp_path, order):
    """Mitoses at 0 and 8 um, detections at 5 and -7 um: the published code finds one pair or two, by that order."""
    reference, prediction = np.array([[100.0, 50], [108, 50]]), np.array([[105.0, 50], [93, 50]])
    result = score(midog_challenge(tmp_path, {"001": (reference[list(order)], prediction)}, 1.0))
    assert result.value("detection.f1.pooled") == 1.0


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
        free = [place for of_class, place, _ in reference if of_class == name]
        targets = len(free)
        mine = sorted((nucleus for nucleus in prediction if nucleus[0] == name), key=lambda nucleus: -nucleus[2])
        tp = 0
        for _, place, _ in mine:
            near = min(free, key=lambda other: math.dist(place, other), default=None)
            if near is not None and math.dist(place, near) <= 15:
                free.remove(near)
                tp += 1
        scores[name] = 2 * tp / (targets + len(mine))
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


@pytest.fixture(scope="module")
def nucls(tmp_path_factory) -> tuple[Result, dict[str, Any]]:
    """Boxes on whole pixels, whose IoU is that of their pixels; and what the published definitions make of them."""
    rng = np.random.default_rng(8)
    cases = [{"case": f"fov_{i}", "height": 200, "width": 220} for i in range(6)]
    folders = start(tmp_path_factory.mktemp("nucls"), "nucls", cases)
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
        ranked += literal_hits(iou, confidence)
    facts = {
        "truth": np.array(truth),
        "chance": np.array(chances),
        "ious": np.array(ious),
        "ap": literal_ap(ranked, 25 * len(cases)),
    }
    return score(folders), facts


def literal_hits(iou: np.ndarray, confidence: np.ndarray) -> list[tuple[float, bool]]:
    """Each prediction with whether it is a hit: by falling confidence the best free reference, IoU >= 1/2."""
    free, found = set(range(len(iou))), []
    for j in np.argsort(-confidence, kind="stable"):
        best = max(free, key=lambda i: iou[i, j], default=None)
        hit = best is not None and iou[best, j] >= 0.5
        free -= {best} if hit else set()
        found.append((float(confidence[j]), bool(hit)))
    return found


def literal_ap(ranked: Sequence[tuple[float, bool]], targets: int) -> float:
    """Mean over recalls 0, 0.01 ... 1 of the greatest precision at this recall or a higher one; ties enter together."""
    curve = []
    for threshold in sorted({confidence for confidence, _ in ranked}):
        hits = [hit for confidence, hit in ranked if confidence >= threshold]
        curve.append((sum(hits) / targets, sum(hits) / len(hits)))
    steps = [step / 100 for step in range(101)]
    return float(np.mean([max((p for r, p in curve if r >= step - 1e-12), default=0.0) for step in steps]))


def test_the_classes_of_nucls_are_judged_on_the_pairs_of_greatest_total_iou(nucls):
    result, facts = nucls
    predicted = facts["chance"].argmax(axis=1)
    for path, expected in (
        ("accuracy", accuracy_score(facts["truth"], predicted)),
        ("mcc", matthews_corrcoef(facts["truth"], predicted)),
        ("auroc", np.mean([roc_auc_score(facts["truth"] == k, facts["chance"][:, k]) for k in range(7)])),
    ):
        assert result.value(f"classification.{path}.pooled") == pytest.approx(expected, abs=1e-6), path
    assert result.value("segmentation.iou_median.pooled") == pytest.approx(np.median(facts["ious"]), abs=1e-6)


def test_the_super_classes_of_nucls_are_joined_after_matching(nucls):
    result, facts = nucls
    group = np.array([SUPER[name] for name in NUCLS])
    truth, predicted = group[facts["truth"]], group[facts["chance"].argmax(axis=1)]
    found = result.value("classification.grouped.super.accuracy.pooled")
    assert found == pytest.approx(accuracy_score(truth, predicted), abs=1e-6)
    found = result.value("classification.grouped.super.mcc.pooled")
    assert found == pytest.approx(matthews_corrcoef(truth, predicted), abs=1e-6)


def test_average_precision_of_nucls_ignores_classes_and_follows_confidence(nucls):
    result, facts = nucls
    found = result.value("alternatives.confidence_first.curves.average_precision_101.pooled")
    assert found == pytest.approx(facts["ap"], abs=1e-6)


# --- all presets ------------------------------------------------------------------------------------------------------

MADE = (
    Case("c1", "P1", 20, 30, 0.25, 0, stratum="one", area_mm2=0.02),
    Case("c2", "P1", 20, 30, 0.25, 1, stratum="one", area_mm2=0.03),
    Case("c3", "P2", 20, 30, 0.25, 2, stratum="two", area_mm2=0.02),
)


def copied_preset(preset: str, folder: Path) -> Challenge:
    """A challenge as ``evaluation init`` writes it, with the made cases."""
    assert run(["init", "--preset", preset, str(folder)]) == 0
    header = "case,group,height,width,spacing_um,index,stratum,area_mm2"
    rows = [f"{c.name},{c.group},{c.height},{c.width},{c.spacing_um},{c.index},{c.stratum},{c.area_mm2}" for c in MADE]
    (folder / "cases.csv").write_text("\n".join([header, *rows, ""]))
    return Challenge.load(folder)


def example_squares(challenge: Challenge) -> list[tuple[str, list[tuple[int, int, int, int]]]]:
    """The three nuclei of the example files: squares of 6 px in a row, of the classes in turn."""
    classes = challenge.class_names
    squares = [(0, 5, 6 * index, 6 * index + 5) for index in range(3)]
    return [(name, [s for i, s in enumerate(squares) if i % len(classes) == k]) for k, name in enumerate(classes)]


@pytest.mark.parametrize("preset", preset_names())
def test_a_preset_loads_is_copied_with_its_comments_and_scores_a_perfect_submission(preset, tmp_path):
    challenge = copied_preset(preset, tmp_path / "challenge")
    assert challenge.cases == MADE
    assert preset_text(preset) in (tmp_path / "challenge" / "challenge.toml").read_text()
    assert challenge.model_dump(exclude={"cases", "name"}) == Challenge.from_preset(preset, name="x").model_dump(
        exclude={"cases", "name"}
    )
    for side, root in ((challenge.reference, "challenge"), (challenge.submission, "submission")):
        for name, content in example_files(challenge, side, challenge.cases).items():
            truncated = side.value("vertices") == "truncate"  # the squares of the examples lie on edges of pixels
            write(tmp_path / root / name, squares_xml(example_squares(challenge)) if truncated else content)
    result = score((tmp_path / "challenge", tmp_path / "submission"))
    assert challenge.ranking is not None and challenge.ranking.columns
    for column in challenge.ranking.columns:
        value = result.value(column.path)
        if value is None:
            node: Any = result.metrics["undefined"]
            for key in column.path.split("."):
                node = node[key]
            assert node in ("no-probability", "one-class", "constant-reference"), column.path
        else:
            best = 1.0 if column.direction == "descending" else 0.0
            assert value == pytest.approx(best, abs=1e-9), column.path
