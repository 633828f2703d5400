"""Presets that rank by detection: MONKEY, MIDOG, PUMA and NuCLS.

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
from preset_files import points_json, score, start, write
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from skimage.draw import polygon as draw_polygon
from sklearn.metrics import accuracy_score, matthews_corrcoef, roc_auc_score

from evaluation import Challenge, Result

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


@pytest.mark.parametrize(("y_mm", "f1"), [(0.03988, 1.0), (0.039879, 0.0)])
def test_exactly_seven_and_a_half_micrometres_is_a_match_of_midog(tmp_path, y_mm, f1):
    """206 px at 0.23 um are 47.38 um; 39.88 um is exactly 7.5 um off, whatever the rounding of mm, um and px."""
    found = np.array([[0.02346, y_mm]]) / 0.23 * 1000
    result = score(midog_challenge(tmp_path, {"001": (np.array([[102.0, 206.0]]), found)}, 0.23))
    assert result.value("detection.f1.pooled") == f1


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
