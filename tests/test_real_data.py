"""Whole challenges on real files: what SOURCES.md of ../shared/data says, from challenge.toml to the scores."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import real_challenges as real
import tifffile
from every_format import toml, write_files
from pycocotools import mask as coco_mask
from scipy.optimize import linear_sum_assignment
from skimage.draw import polygon as draw_polygon

from evaluation import Result, check_submission, score_submission
from evaluation.commands.main import run

PERFECT = (1.0, 1.0, 1.0)
OF_PYCOCOTOOLS = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def counts_of(result: Result, rule: str | None = None) -> tuple[int, int, int]:
    """TP, FP and FN, pooled, under a rule; without a name under the first one."""
    confusion = result.units[rule or next(iter(result.units))]["pooled"].units.sum("confusion")[0]
    return int(confusion[1:, 1:].sum()), int(confusion[0].sum()), int(confusion[:, 0].sum())


def values(result: Result, *paths: str) -> tuple[float | None, ...]:
    return tuple(result.value(path) for path in paths)


def without_identity(result: Result) -> dict[str, Any]:
    """All metrics, without the hash of the rules."""
    return {key: value for key, value in result.metrics.items() if key not in ("challenge", "software")}


def score(pair: real.Real) -> Result:
    return score_submission(pair.challenge, pair.submission, workers=1)


def convert(*arguments: object) -> None:
    assert run(["convert", *map(str, arguments)]) == 0


def validated(pair: real.Real) -> list[str]:
    """What 'validate' finds, but for own duplicates, which real files have and which change no score there."""
    found = [finding.code for finding in check_submission(pair.challenge, pair.submission, workers=1)[1]]
    return [code for code in found if code != "own-duplicates"]


# --- dsb2018 ----------------------------------------------------------------------------------------------------------

IOU_FIRST = ("detection.f1.pooled", "panoptic.pq.pooled", "panoptic.pq.case_mean")


@pytest.mark.parametrize("team, counts, scores, at_half", [
    ("DatName", (1659, 1430, 2493), (0.4582, 0.3324, 0.4368, 0.2619), 8),
    ("gray53", (2445, 216, 1707), (0.7177, 0.5679, 0.5830, 0.4266), 2),
])  # fmt: skip
def test_the_teams_of_the_data_science_bowl_have_their_scores(shared_data, tmp_path, team, counts, scores, at_half):
    pair = real.dsb2018(shared_data, tmp_path, team)
    assert validated(pair) == []
    result = score(pair)
    threat = [
        result.value(f"{'' if name == 'iou_50' else f'alternatives.{name}.'}detection.threat_score.case_mean")
        for name in result.units
        if name != "at_least_half"
    ]
    assert counts_of(result) == counts
    assert (*values(result, *IOU_FIRST), np.mean(threat)) == pytest.approx(scores, abs=5e-5)
    # Pairs at exactly one half do not count; the rule that lets them in has as many more.
    assert counts_of(result, "at_least_half")[0] == counts[0] + at_half
    # The platform's predictions phase gives a CSV that is handed in as it is this name.
    (pair.submission / "submission.csv").rename(pair.submission / "predictions.csv")
    assert validated(pair) == []


def test_images_without_an_object_count_as_submitted_and_images_without_a_row_do_not(shared_data, tmp_path):
    pair = real.dsb2018(shared_data, tmp_path, "gray53")
    result = score(pair)
    cases = {case.case.name: case.counts["iou_50"] for case in result.cases}
    empty = [name for name, of in cases.items() if of.true_positives + of.false_positives == 0]
    assert (len(cases), len(empty)) == (65, 12)
    assert result.details["pooled"]["rules"]["iou_50"]["counts"]["missing_cases"] == 0
    file = pair.submission / "submission.csv"
    rows = file.read_text().splitlines(keepends=True)
    file.write_text("".join(row for row in rows if not row.endswith(",\n")))
    without = score(pair)
    assert Counter(finding.code for finding in without.findings) == {"missing-case-worst": 12}
    assert counts_of(without) == counts_of(result)
    precision = [one.value("detection.precision.pooled") for one in (result, without)]
    assert precision[1] == pytest.approx(precision[0] * 53 / 65, abs=2e-6)


# --- monkey -----------------------------------------------------------------------------------------------------------

RADII = {0: 1040, 4: 1080, 8: 1107, 16: 1117, 20: 1119, 41: 1121}


@pytest.fixture(scope="module")
def monkey(shared_data, tmp_path_factory) -> Result:
    rules = [real.radius_rule(radius, name=f"radius_{radius}") for radius in (16, 0, 4, 8, 20, 41)]
    rules.append(real.radius_rule(41, name="closest_first", rule="centroid_closest_first"))
    rules.append(real.radius_rule(16 * real.MONKEY_UM + 1e-9, name="in_um", unit="um"))
    pair = real.monkey(shared_data, tmp_path_factory.mktemp("monkey"), rules)
    assert validated(pair) == []
    return score(pair)


def test_monkey_has_as_many_pairs_as_measured_within_each_radius(monkey):
    for radius, pairs in RADII.items():
        assert counts_of(monkey, f"radius_{radius}") == (pairs, 469 + 771 - pairs, 498 + 623 - pairs)
    assert counts_of(monkey, "closest_first")[0] == 1120
    assert counts_of(monkey, "in_um") == counts_of(monkey, "radius_16")


def test_monkey_confuses_the_classes_as_measured_at_16_px(monkey):
    matrix = monkey.details["pooled"]["rules"]["radius_16"]["counts"]["confusion_matrix"]
    assert [row[1:] for row in matrix[1:]] == [[460, 36], [0, 621]]
    assert values(
        monkey, "classification.accuracy.pooled", "classification.per_class.lymphocytes.recall.pooled"
    ) == pytest.approx((1081 / 1117, 460 / 496), abs=1e-6)


def test_the_jobs_of_monkey_with_an_output_for_each_class_in_millimetres(shared_data, tmp_path):
    pair = real.monkey_on_the_platform(shared_data, tmp_path)
    assert validated(pair) == []
    assert counts_of(score(pair)) == (498 + 623, 0, 0)
    (pair.submission / "A_P000001" / "output" / "detected-monocytes.json").unlink()
    assert "missing-output" in validated(pair)


# --- puma -------------------------------------------------------------------------------------------------------------

PUMA_JOBS = {"preliminary_test_set_primary_roi_004": 401, "preliminary_test_set_primary_roi_005": 453}


@pytest.fixture(scope="module")
def puma_polygons(shared_data) -> dict[str, list[dict[str, Any]]]:
    found = real.puma_polygons(shared_data)
    assert {name: len(polygons) for name, polygons in found.items()} == PUMA_JOBS
    return found


def test_the_real_input_of_puma_against_nine_of_ten_of_its_own_polygons(shared_data, tmp_path, puma_polygons):
    """Every tenth polygon is taken out of the reference and every seventh that is left has the next class."""

    def renamed(index: int, polygon: dict[str, Any]) -> dict[str, Any]:
        place = [f"nuclei_{name}" for name in real.PUMA_CLASSES].index(polygon["name"])
        name = real.PUMA_CLASSES[(place + 1) % 10] if index % 7 == 0 else polygon["name"]
        return {**polygon, "name": name}

    kept = {
        name: [renamed(index, polygon) for index, polygon in enumerate(polygons) if index % 10]
        for name, polygons in puma_polygons.items()
    }
    changed = sum(index % 7 == 0 for polygons in puma_polygons.values() for index in range(len(polygons)) if index % 10)
    total = sum(map(len, kept.values()))
    pair = real.puma(shared_data, tmp_path, kept)
    assert validated(pair) == []
    result = score(pair)
    assert counts_of(result) == counts_of(result, "near") == (total, 854 - total, 0)
    assert values(
        result,
        "detection.precision.pooled",
        "detection.recall.pooled",
        "classification.accuracy.pooled",
        "segmentation.iou.pooled",
        "segmentation.hausdorff_px.pooled",
    ) == pytest.approx((total / 854, 1, 1 - changed / total, 1, 0), abs=1e-6)


def test_input_may_be_a_link_and_its_jobs_in_any_order(shared_data, tmp_path, puma_polygons, capsys):
    kept = {name: polygons[: len(polygons) // 2] for name, polygons in puma_polygons.items()}
    linked = real.puma(shared_data, tmp_path / "linked", kept, input_as="link")
    shuffled = real.puma(shared_data, tmp_path / "shuffled", kept)
    jobs = json.loads((shuffled.submission / "predictions.json").read_text())
    random.Random(3).shuffle(jobs[0]["outputs"])
    (shuffled.submission / "predictions.json").write_text(json.dumps(jobs[::-1]))
    for pair in (linked, shuffled):
        folders = ("--challenge", pair.challenge, "--submission", pair.submission)
        assert run(["score", "--quiet", *map(str, folders), "--output", str(pair.challenge.parent / "output")]) == 0
    written = [
        {name: (tmp_path / way / "output" / name).read_bytes() for name in ("metrics.json", "objects.csv")}
        for way in ("linked", "shuffled")
    ]
    assert written[0]["objects.csv"] == written[1]["objects.csv"]
    metrics = [json.loads(files["metrics.json"]) for files in written]
    assert {**metrics[0], "challenge": 0} == {**metrics[1], "challenge": 0}
    assert metrics[0]["detection"]["recall"]["pooled"] == 1.0
    assert capsys.readouterr().err == ""  # the platform marks results with any output there


def test_what_the_platform_scores_is_what_a_laptop_scores(shared_data, tmp_path, puma_polygons):
    """The jobs, and their files one for each case, as 'convert' writes them."""
    kept = {name: polygons[50:] for name, polygons in puma_polygons.items()}
    pair = real.puma(shared_data, tmp_path, kept)
    convert("--challenge", pair.challenge, pair.submission, tmp_path / "laptop", "--to", "platform")
    results = [score_submission(pair.challenge, folder) for folder in (pair.submission, tmp_path / "laptop")]
    assert results[0].metrics == results[1].metrics
    assert counts_of(results[0]) == (854 - 100, 100, 0)


@pytest.mark.parametrize(("factor", "offset"), [(0.00025, 0), (1, 40_000)], ids=["millimetres", "slide"])
def test_puma_in_other_coordinates_is_rejected_and_not_scored_as_nothing(
    shared_data, tmp_path, puma_polygons, capsys, factor, offset
):
    pair = real.puma(shared_data, tmp_path, puma_polygons)
    for file in pair.submission.glob(f"*/output/{real.PUMA_SOCKET}.json"):
        document = json.loads(file.read_text())
        for polygon in document["polygons"]:
            polygon["path_points"] = [
                [x * factor + offset, y * factor + offset, z] for x, y, z in polygon["path_points"]
            ]
        file.write_text(json.dumps(document))
    arguments = ["--challenge", str(pair.challenge), "--submission", str(pair.submission)]
    assert run(["validate", *arguments]) == run(["score", *arguments, "--output", str(tmp_path / "out")]) == 1
    assert "[everything-outside] submission: all 854 nuclei" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out" / "metrics.json").exists()


def painted(path: Path, rule: str) -> tuple[np.ndarray, int]:
    """Label map of a PUMA file by skimage, features drawn one over the other, and how many features there are."""
    data = path.read_bytes()
    features = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["features"]
    labels = np.zeros(1024 * 1024, int)
    for label, feature in enumerate(features, start=1):
        geometry = feature["geometry"]
        parts = [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]
        for rings in parts:
            outer, *holes = (pixels_of(ring) for ring in rings)
            own = np.setdiff1d(outer, np.concatenate([*holes, np.empty(0, int)]))
            labels[own if rule == "last" else own[labels[own] == 0]] = label
    return labels.reshape(1024, 1024), len(features)


def pixels_of(ring: list[list[float]]) -> np.ndarray:
    """Flat indices of the pixels of a ring whose coordinates count from the corners of pixels."""
    x, y = np.array(ring, float)[:, :2].T - 0.5
    rows, columns = draw_polygon(y, x, (1024, 1024))
    return rows * 1024 + columns


@pytest.mark.parametrize("rule", ["last", "first"])
def test_the_references_of_puma_become_the_pixels_of_skimage(shared_data, tmp_path, rule):
    pair = real.puma_reference(shared_data, tmp_path, rule)
    assert run(["rasterise", "--challenge", str(pair.challenge), "--output", str(tmp_path / "labels")]) == 0
    report = json.loads((tmp_path / "labels" / "rasterisation.json").read_text())["cases"]
    with (tmp_path / "labels" / "instances.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    total = 0
    for path in sorted((shared_data / "puma" / "reference").iterdir()):
        name = path.name.split("_nuclei")[0]
        expected, features = painted(path, rule)
        labels = tifffile.imread(tmp_path / "labels" / "labels" / name / f"{name}.tif")
        # The same pixels under other numbers: nuclei that are lost leave no gap.
        ids, renumbered = np.unique(expected, return_inverse=True)
        assert np.array_equal(labels, renumbered.reshape(labels.shape))
        lost = features - (len(ids) - 1)
        assert lost == len(report[name]["outlines_lost_whole"]) + len(report[name]["outlines_vanished"])
        assert len([row for row in rows if row["case"] == name]) == features - lost
        total += features
        if (name, rule) == ("training_set_metastatic_roi_029", "last"):
            assert len(report[name]["outlines_lost_whole"]) == 1
    assert total == 546 + 302 + 382 + 471
    assert sum(of_case["outlines_multi_part"] for of_case in report.values()) > 0
    assert sum(of_case["outlines_with_holes"] for of_case in report.values()) > 0


# --- monusac, monusac_challenge, monuseg ------------------------------------------------------------------------------

MONUSAC_CLASSES = ("Epithelial", "Lymphocyte", "Neutrophil", "Macrophage")


@pytest.fixture(scope="module")
def monusac(shared_data, tmp_path_factory) -> tuple[real.Real, Result]:
    folder = tmp_path_factory.mktemp("monusac")
    pair = real.Real(monusac_challenge(shared_data, folder / "challenge"), shared_data / "monusac_challenge/submission")
    return pair, score(pair)


def monusac_challenge(data: Path, folder: Path, source: Path | None = None, **rules: Any) -> Path:
    document = {"format_version": 1, "name": "MoNuSAC", "preset": "monusac2020", **rules}
    write_files(folder, {"challenge.toml": toml(document)})
    real.copy(data / "monusac_challenge" / "ground_truth" / "cases.csv", folder / "cases.csv")
    real.link(source or data / "monusac_challenge" / "ground_truth" / "reference", folder / "reference")
    return folder


CONVERTED = {
    "label_tiff": real.class_map_rules(MONUSAC_CLASSES),
    "geojson": real.in_files("geojson", "{case}.geojson", shape="outline", **real.CORNERS),
    "nary_mat": real.in_files("nary_mat", "{case}_{class}.mat"),
}


@pytest.mark.parametrize("target", CONVERTED)
def test_a_converted_submission_has_all_scores_of_the_original(shared_data, tmp_path, monusac, target):
    pair, original = monusac
    convert("--challenge", pair.challenge, pair.submission, tmp_path / "submission", "--to", target)
    rules = {"submission": CONVERTED[target], "reference": {"overlap": "class_order"}}  # else both sides keep overlaps
    challenge = monusac_challenge(shared_data, tmp_path / "challenge", **rules)
    result = score_submission(challenge, tmp_path / "submission")
    assert without_identity(result) == without_identity(original)
    expected = json.loads((shared_data / "monusac_challenge" / "expected.json").read_text())["strict_iou"]
    assert result.value("panoptic.pq.group_mean") == pytest.approx(expected["pq_group_mean"], abs=1e-6)
    assert result.value("segmentation.hausdorff_px.group_mean") == pytest.approx(expected["hausdorff_px"], abs=1e-6)


OF_PRESET = {"overlap": "class_order", "overlap_scope": "image"}  # written since the format is another
KEPT_OUTLINES = {"origin": "pixel_centre", "vertices": "truncate", "vanished": "drop", **OF_PRESET}
REFERENCES = {
    "geojson": real.in_files("geojson", "reference/{case}.geojson", shape="outline", **KEPT_OUTLINES),
    "platform": real.in_files("polygons_json", "reference/{case}.json", units="px", **KEPT_OUTLINES),
    "label_tiff": {
        **real.class_map_rules((*MONUSAC_CLASSES, "Ambiguous")),
        "files": "reference/{case}.tif",
        "class_map": "reference/{case}_class.tif",
    },
}


@pytest.mark.parametrize("target", REFERENCES)
def test_a_converted_reference_gives_all_scores_of_the_original(shared_data, tmp_path, monusac, target):
    """Outlines keep their vertices, which the rules truncate, and the Ambiguous regions their class, which is one
    behind the others; for label images, 'convert' applies the overlap rule."""
    pair, original = monusac
    option = ("--overlap", "class_order") if target == "label_tiff" else ("--origin", "pixel_centre")
    convert("--challenge", pair.challenge, "reference", tmp_path / "reference", "--to", target, *option)
    rules = {"reference": REFERENCES[target]}
    challenge = monusac_challenge(shared_data, tmp_path / "challenge", tmp_path / "reference", **rules)
    assert without_identity(score_submission(challenge, pair.submission)) == without_identity(original)


def test_the_images_of_monusac_as_label_images_score_as_perfect_submissions(shared_data, tmp_path):
    pair = real.monusac(shared_data, tmp_path)
    arguments = (pair.submission, "--to", "label_tiff", "--overlap", "class_order")
    convert("--challenge", pair.challenge, "reference", *arguments)
    result = score(pair)
    matrix = np.diag(result.details["pooled"]["rules"]["iou_above"]["counts"]["confusion_matrix"])
    assert matrix.tolist() == [0, 314, 0, 5, 7]
    assert counts_of(result) == counts_of(result, "best_iou_centroid_inside") == (326, 0, 0)
    assert values(result, "panoptic.pq.group_mean", "segmentation.iou.pooled", "detection.f1.case_mean") == PERFECT


def test_the_overlap_rule_costs_a_perfect_submission_to_monuseg_what_it_is_known_to_cost(shared_data, tmp_path):
    pair = real.monuseg(shared_data, tmp_path, "TCGA-50-5931", "last")
    quality = {}
    for rule in ("last", "first", "smallest"):
        folder = tmp_path / rule
        convert("--challenge", pair.challenge, "reference", folder, "--to", "label_tiff", "--overlap", rule)
        (folder / "TCGA-50-5931_class.tif").unlink()
        result = score_submission(pair.challenge, folder)
        quality[rule] = result.value("panoptic.pq.pooled")
    assert quality == pytest.approx({"last": 1, "first": 0.9456, "smallest": 0.9780}, abs=5e-5)


# --- nucls_tiles ------------------------------------------------------------------------------------------------------


def nucls(data: Path, folder: Path, columns: list[str]) -> real.Real:
    """The map of a pickled tile, written by its owner, as reference; its centroids as submission."""
    content = np.load(data / "nucls_tiles" / "test_1.npy", allow_pickle=True).item()
    rules = {"origin": "pixel_centre", "units": "px", "columns": columns}
    pair = real.build(
        folder,
        classes=["nucleus"],
        cases=real.case_rows([("test_1", 256, 256)]),
        reference=real.in_files("label_image", "reference/{case}.tif", **real.KEEP),
        submission=real.in_files("points_csv", "{case}.csv", **rules),
        rules=[real.radius_rule(10, name="near")],
        links={},
        copies={"test_1.csv": data / "nucls_tiles" / "test_1.csv"},
    )
    write_files(pair.challenge / "reference", {"test_1.tif": content["inst_map"].astype(np.uint16)})
    return pair


def test_the_centroids_of_a_nucls_tile_are_found_in_its_pickled_map_and_not_when_swapped(shared_data, tmp_path):
    content = np.load(shared_data / "nucls_tiles" / "test_1.npy", allow_pickle=True).item()
    labels = content["inst_map"]
    centroids = np.array([np.argwhere(labels == label).mean(axis=0) for label in np.unique(labels[labels > 0])])
    with (shared_data / "nucls_tiles" / "test_1.csv").open(newline="") as file:
        points = np.array([[float(cell) for cell in row[:2]] for row in csv.reader(file)])
    assert (len(centroids), len(points)) == (20, 22)
    assert sum(labels[int(y), int(x)] > 0 for x, y in points) == 17
    assert sum(labels[int(x), int(y)] > 0 for x, y in points) == 2
    found = {}
    for columns, yx in ((["x", "y", "_"], points[:, ::-1]), (["y", "x", "_"], points)):
        pair = nucls(shared_data, tmp_path / columns[0], columns)
        result = score(pair)
        pairs = most_pairs(centroids, yx, 10)
        assert counts_of(result) == (pairs, 22 - pairs, 20 - pairs)
        found[columns[0]] = pairs
    assert found == {"x": 17, "y": 4}


def most_pairs(reference_yx: np.ndarray, prediction_yx: np.ndarray, radius: float) -> int:
    """The most pairs within a radius, by scipy."""
    distance = np.hypot(*(reference_yx[:, None] - prediction_yx).transpose(2, 0, 1))
    chosen = linear_sum_assignment(distance <= radius, maximize=True)
    return int((distance[chosen] <= radius).sum())


# --- evalutils_points -------------------------------------------------------------------------------------------------


def test_the_points_of_evalutils_match_as_scipy_matches_them(shared_data, tmp_path):
    radii = (5, 20, 50)
    pair = real.evalutils(shared_data, tmp_path, radii)
    assert validated(pair) == []
    result = score(pair)
    sides = [
        np.loadtxt(shared_data / "evalutils_points" / f"{name}.csv", delimiter=",", skiprows=1)[:, :2]
        for name in ("reference", "predictions")
    ]
    assert [len(side) for side in sides] == [564, 1465]
    distance = np.hypot(*(sides[0][:, None] - sides[1]).transpose(2, 0, 1))
    for radius in radii:
        best = most_pairs(*sides, radius)
        assert counts_of(result, f"assignment_{radius}") == (best, 1465 - best, 564 - best)
        greedy = closest_first(distance, radius)
        assert counts_of(result, f"closest_first_{radius}") == (greedy, 1465 - greedy, 564 - greedy)


def closest_first(distance: np.ndarray, radius: float) -> int:
    """Pairs taken in the order of their distance, each point once."""
    order = np.argwhere(distance <= radius)
    order = order[np.argsort(distance[tuple(order.T)], kind="stable")]
    rows, columns, pairs = set(), set(), 0
    for row, column in order.tolist():
        if row not in rows and column not in columns:
            rows.add(row)
            columns.add(column)
            pairs += 1
    return pairs


# --- midog ------------------------------------------------------------------------------------------------------------


def test_midog_finds_its_mitoses_again_and_skips_hard_negatives(shared_data, tmp_path):
    result = score(real.midog(shared_data, tmp_path, hard_negatives="skip"))
    document = json.loads(gzip.decompress((shared_data / "midog/databases/MIDOG++.json.gz").read_bytes()))
    assert (len(document["annotations"]), len(document["images"])) == (26_286, 553)
    mitoses = sum(annotation["category_id"] == 1 for annotation in document["annotations"])
    assert counts_of(result) == (mitoses, 0, 0)
    means = result.details["means"]["near"]["detection"]["f1"]["case_mean"]
    assert means == {"units": 553 - 78, "left_out": 78, "penalised": 0, "standard_deviation": 0.0}
    # One box reaches over the edge so far that its middle lies outside.
    assert {finding.code for finding in result.findings} == {"outside-image"}


def test_the_containers_of_midog_agree_on_their_points_in_millimetres(shared_data, tmp_path):
    pair = real.midog_container(shared_data, tmp_path)
    assert validated(pair) == []
    result = score(pair)
    assert counts_of(result) == (2, 0, 0)


# --- sartorius, consep, panopticapi -----------------------------------------------------------------------------------


@OF_PYCOCOTOOLS
def test_the_overlapping_masks_of_consep_are_scored_as_they_are(shared_data, tmp_path):
    """Against masks from pycocotools, counted one by one, and scipy's assignment."""
    pair = real.consep(shared_data, tmp_path)
    assert validated(pair) == []
    result = score(pair)
    stitched = np.load(shared_data / "consep" / "test_1_gt_stitched.npz")
    labels, types = stitched["inst"], stitched["type"]
    document = json.loads((shared_data / "consep/predict/maskrcnn/preds/test_1.json").read_text())
    votes = np.zeros((labels.max() + 1, 5), int)
    np.add.at(votes, (labels.ravel(), types.ravel()), 1)
    reference_class = votes[1:].argmax(axis=1) - 1  # types 2, 3, 4
    prediction_class = np.array(document["labels"])  # 1, 2, 3
    cover = np.zeros(labels.shape, int)
    shared, area = [], []
    for code in document["masks"]:
        x, y, width, height = coco_mask.toBbox(code).astype(int)
        box = np.s_[y : y + height, x : x + width]
        mask = coco_mask.decode(code)[box] > 0
        cover[box] += mask
        area.append(coco_mask.area(code))
        shared.append(np.bincount(labels[box][mask], minlength=labels.max() + 1)[1:])
    assert (cover > 1).sum() == 148_237
    intersection = np.array(shared).T
    union = np.bincount(labels.ravel())[1:, None] + np.array(area) - intersection
    candidate = 2 * intersection > union
    assert (candidate.sum(axis=1) > 1).sum() > 0  # predictions that overlap compete
    i, j = linear_sum_assignment(np.where(candidate, 1000 + intersection / union, 0), maximize=True)
    i, j = i[candidate[i, j]], j[candidate[i, j]]
    assert counts_of(result) == (len(i), len(area) - len(i), len(votes) - 1 - len(i))
    iou = intersection[i, j] / union[i, j]
    of_class = []
    for class_id in (1, 2, 3):
        right = (reference_class[i] == class_id) & (prediction_class[j] == class_id)
        sizes = (reference_class == class_id).sum() + (prediction_class == class_id).sum()
        of_class.append(iou[right].sum() / (sizes / 2))
    expected = (iou.sum() / ((len(votes) - 1 + len(area)) / 2), np.mean(of_class), iou.mean())
    paths = ("panoptic.binary.pq.pooled", "panoptic.pq.pooled", "segmentation.iou.pooled")
    assert values(result, *paths) == pytest.approx(expected, abs=1e-6)


@OF_PYCOCOTOOLS
def test_the_overlapping_masks_of_consep_become_label_images_only_by_a_rule(shared_data, tmp_path, capsys):
    pair = real.consep(shared_data, tmp_path)
    arguments = ["convert", "--challenge", str(pair.challenge), str(pair.submission), str(tmp_path / "a")]
    assert run([*arguments, "--to", "label_tiff"]) == 1
    assert "[overlap-in-label-map] case 'test_1': 148,237 pixels" in capsys.readouterr().err
    assert run([*arguments, "--to", "label_tiff", "--overlap", "first"]) == 0
    masks = json.loads((shared_data / "consep/predict/maskrcnn/preds/test_1.json").read_text())["masks"]
    covered = coco_mask.decode(coco_mask.merge(masks))
    assert np.array_equal(tifffile.imread(tmp_path / "a" / "test_1.tif") > 0, covered > 0)


# --- stardist, neurips_cellseg ----------------------------------------------------------------------------------------


def test_label_tiffs_become_geojson_and_score_perfectly(shared_data, tmp_path):
    pair = real.label_tiffs(shared_data, tmp_path)
    convert("--challenge", pair.challenge, "reference", pair.submission, "--to", "geojson")
    assert validated(pair) == []
    result = score(pair)
    found = {case.case.name: case.counts["iou"].true_positives for case in result.cases}
    assert found == {"mask2d": 125, "cell_00225_label": 6, "cell_00528_label": 44, "cell_00849_label": 187}
    assert values(result, "panoptic.pq.case_mean", "segmentation.iou.pooled", "detection.f1.pooled") == PERFECT
    ids = {int(row["reference_id"]) for row in csv.DictReader(io.StringIO(result.objects)) if row["case"] == "mask2d"}
    assert (len(ids), max(ids)) == (125, 183)
