"""Two folders to scores: what ``compare`` finds out, pairs, assumes, prints and keeps."""

from __future__ import annotations

import csv
import html
import json
import re
import sys
import zipfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from scipy.io import savemat
from scipy.spatial.distance import directed_hausdorff

import evaluation
from evaluation.challenge import Challenge
from evaluation.commands.main import run
from evaluation.files.formats.format import image_bytes
from evaluation.folders.pairs import pair_names
from evaluation.report.skills import COMPARED
from evaluation.scoring.street import score_submission
from nuclei_metrics.model.annotations import runs_of, split_labels

pytestmark = pytest.mark.usefixtures("in_folder")

SHAPE = (60, 90)


def nuclei(*boxes: tuple[int, int, int, int], shape: tuple[int, int] = SHAPE) -> np.ndarray:
    """A label map with rectangles (top, left, height, width), numbered from 1."""
    labels = np.zeros(shape, np.uint16)
    for number, (top, left, height, width) in enumerate(boxes, start=1):
        labels[top : top + height, left : left + width] = number
    return labels


FOUR = nuclei((5, 5, 10, 10), (5, 30, 10, 10), (30, 5, 10, 10), (30, 30, 10, 10))
THREE = nuclei((5, 5, 10, 10), (5, 30, 10, 10), (30, 5, 10, 10))  # one missed: precision 1, recall 3/4


def put(path: str, labels: np.ndarray) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if path.endswith(".tif"):
        tifffile.imwrite(path, labels)
    else:
        Path(path).write_bytes(image_bytes(labels, Path(path).suffix))


def sides(reference: np.ndarray = FOUR, masks: np.ndarray = FOUR, names: str = "a") -> None:
    """Label images of both sides, one for each letter."""
    for name in names:
        put(f"reference/{name}.tif", reference)
        put(f"masks/{name}.tif", masks)


def compared(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["compare", *arguments]) == code
    output = capsys.readouterr()
    return output.out + output.err


def metrics_in(folder: str) -> dict[str, Any]:
    return dict(json.loads(Path(folder, "metrics.json").read_text()))


# --- two folders ------------------------------------------------------------------------------------------------------


def test_scores_of_two_folders_are_those_worked_by_hand(capsys):
    """One of four nuclei is missed, three are drawn exactly: at every IoU tp = 3, fn = 1."""
    for name in ("a", "b"):
        put(f"reference/{name}.tif", FOUR)
        put(f"masks/{name}_cp_masks.png", THREE)
    printed = compared(capsys, "reference", "masks", "--output", "out")
    metrics = metrics_in("out")
    assert metrics["detection"]["precision"]["group_mean"] == 1
    assert metrics["detection"]["recall"]["group_mean"] == 0.75
    assert metrics["detection"]["f1"]["group_mean"] == 0.857143
    assert "no intervals, since 2 images are too few" in printed
    assert not re.search("[0-9]–[0-9]", printed)
    assert "without endings such as '_masks'): 'a' with 'a_cp_masks'" in printed
    for name in ("iou50", "iou75", "iou90", "iou50_95"):
        assert metrics["thresholds"][f"f1_{name}"]["pooled"] == pytest.approx(6 / 7, abs=1e-6)
        assert metrics["thresholds"][f"threat_score_{name}"]["pooled"] == 0.75
    area, missed = np.count_nonzero(FOUR), np.count_nonzero(FOUR) - np.count_nonzero(THREE)
    assert metrics["overlap"]["aji"]["pooled"] == pytest.approx(1 - missed / area, abs=1e-6)
    assert metrics["overlap"]["dice1"]["pooled"] == pytest.approx(2 * (area - missed) / (2 * area - missed), abs=1e-6)


def two_models(names: str) -> tuple[str, str, str]:
    """One finds three of four nuclei of each image, the other all."""
    for name in names:
        put(f"reference/{name}.tif", FOUR)
        put(f"first/{name}.npy", THREE)
        put(f"second/{name}_mask.tif", FOUR)
    return "reference", "first", "second"


def test_several_models_stand_side_by_side_and_are_ranked_on_demand(capsys):
    printed = compared(capsys, *two_models("abcdefghijklm"), "--report", "--output", "out", "--ranking")
    assert "means over images, with 95% intervals from 50 nuclei on" in printed
    assert "'second' sum of ranks" in printed
    assert "✓ 1.0000" in printed
    assert {path.name for path in Path("out").iterdir()} == {
        "results", "leaderboard.csv", "leaderboard.json", "compare.html", "images.csv", "differences.csv"
    }  # fmt: skip
    page = Path("out/compare.html").read_text()
    table = page.split('id="compared-scores"')[1].split("</table>")[0].replace("\u00a0", " ")
    for title in ("Detection: F1", "Matched nuclei: IoU", "Panoptic quality"):
        assert f"{title} ↑" in table, title
    assert "1.0000 (1.000 to 1.000)<" in table
    assert ">0.8571 (0.857 to 0.857)<" in table
    assert "On common nuclei" in page
    (pair,) = json.loads(Path("out/leaderboard.json").read_text())["common_nuclei"]["pairs"]
    assert pair["common"] == 39  # 13 images, three nuclei in each, matched by both


def test_a_comparison_fits_a_screen_and_has_the_numbers_of_the_field(capsys):
    """Two models of four images: the tables, what was found; 40 lines at most. The ranking on demand."""
    printed = compared(capsys, *two_models("abcd"))
    assert len(printed.splitlines()) <= 40
    scores = ("Detection: F1", "Threat score at IoU 0.5 ", "Threat score at IoU 0.5:0.05:0.95", "AJI")
    for row in (*scores, "Dice of the foreground"):
        assert row in printed, row
    assert "covered" not in printed and "pooled" not in printed and "mean over images" in printed
    assert "too few images" in printed and "first of" not in printed and "significant" not in printed
    assert "Difference: mean over images. p: test" in " ".join(printed.split())  # there is no interval
    assert "sum of ranks" not in printed.casefold() and "On common" not in printed
    ranked = compared(capsys, "reference", "first", "second", "--ranking")
    assert "1\u2002second" in ranked and len(ranked.splitlines()) > len(printed.splitlines())


def eight_images(empty: str) -> None:
    """Model ``sure`` finds all four nuclei, but none in some images; ``steady`` misses one in every image."""
    for name in "abcdefgh":
        put(f"reference/{name}.npy", FOUR)
        put(f"steady/{name}.npy", THREE)
        put(f"sure/{name}.npy", np.zeros_like(FOUR) if name in empty else FOUR)


def test_the_difference_to_the_best_of_each_score_and_what_decides_it_are_told_and_no_winner(capsys):
    """Without a nucleus in 2 of 8 images ``sure`` is behind in the mean, though it is ahead in six of them."""
    eight_images("ab")
    printed = compared(capsys, "reference", "steady", "sure", "--output", "out", "--report")
    found = evaluation.compare("reference", ["steady", "sure"])
    one = next(one for one in found.differences if one.score == "detection.f1")
    assert (one.model, one.best, one.units, one.ahead) == ("sure", "steady", 8, 6)
    assert one.difference == pytest.approx(6 / 8 - 6 / 7, abs=1e-6) and one.value == 0.75
    told = "2 of 8 images without a nucleus in 'sure': without them 'sure' is ahead, Detection: F1 1.000 against 0.857"
    assert one.decided_by == told
    differences = np.array([-6 / 7] * 2 + [1 / 7] * 6)
    signs = np.array(list(product((1, -1), repeat=8)))
    as_extreme = np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9
    assert one.p_value >= as_extreme.mean() and not one.is_significant  # corrected for three scores
    page = " ".join(html.unescape(re.sub("<[^>]+>", " ", Path("out/compare.html").read_text())).split())
    for text in (" ".join(printed.split()), page):
        assert "Difference: mean over images, with a 95% interval" in text
        assert "6 of 8" in text and "first" not in text.split("Compared with the best model")[1].split("Difference:")[0]
    assert told.partition(",")[0] in page
    rows = list(csv.DictReader(Path("out/differences.csv").read_text().splitlines()))
    assert [row["score"] for row in rows] == [one.score for one in found.differences]
    assert rows[0]["decided_by"] == told and float(rows[0]["difference"]) == one.difference
    assert not Path("out/leaderboard.json").exists()


def test_a_significant_difference_is_called_so_by_the_exact_test(capsys):
    eight_images("")
    found = evaluation.compare("reference", {"steady": "steady", "sure": "sure"})
    assert {one.p_value for one in found.differences} == {2 / 2**8}
    assert all(one.is_significant and one.model == "steady" and one.ahead == 0 for one in found.differences)
    assert evaluation.compare("reference", "sure").differences == []


def test_an_image_without_a_prediction_costs_the_same_in_the_mean_and_in_images_csv(capsys):
    """A precision of nothing is the worst value, as in the mean that is shown; the pooled one is charged as well."""
    eight_images("ab")
    compared(capsys, "reference", "sure", "--output", "out")
    rows = list(csv.DictReader(Path("out/images.csv").read_text().splitlines()))
    found = evaluation.compare("reference", "sure")
    for path in ("detection.f1", "detection.precision", "segmentation.iou", "panoptic.pq", "overlap.aji"):
        values = [float(row[path]) for row in rows]
        assert values[:2] == [0, 0] and np.mean(values) == found.value(path) == 0.75, path
    assert found.value("detection.precision.pooled") == 0.75


def test_another_iou_and_further_families(capsys):
    put("reference.tif", FOUR)
    moved = np.roll(FOUR, 1, axis=1)
    put("prediction.tif", moved)
    found = []
    for iou in ("0.2", "0.95"):
        asked = ("--match", f"iou={iou}", "--output", iou, "--metrics", "objects")
        assert f"an IoU above {iou} match" in compared(capsys, "reference.tif", "prediction.tif", *asked)
        metrics = metrics_in(iou)
        found.append(metrics["detection"]["f1"]["pooled"])
        assert "f1" in metrics["objects"]
    assert found[0] > found[1] and "objects" not in evaluation.compare(FOUR, THREE).result_of().metrics
    assert evaluation.compare(FOUR, moved, match="iou=0.95").value("detection.f1.pooled") == found[1]
    asked = ("reference.tif", "prediction.tif", "--metrics", "pq")
    assert "'pq' is no family of metrics" in compared(capsys, *asked, code=2)


def test_squares_match_by_every_rule_as_the_papers_say():
    """Centred squares of sides l and l + 2: IoU l² / (l + 2)², Hausdorff distance √2 (lessons from MoNuSAC, 5.1)."""
    reference, prediction = np.zeros((2, 40, 60), int)
    reference[10:14, 10:14], prediction[9:15, 9:15] = 1, 1  # IoU 16/36, centroids together
    reference[10:20, 40:50], prediction[19:29, 49:59] = 2, 2  # one pixel shared; centroids 9√2 = 12.7 px apart
    corners = [np.argwhere(side == 1)[[0, -1]] for side in (reference, prediction)]
    assert max(directed_hausdorff(*corners)[0], directed_hausdorff(*corners[::-1])[0]) == pytest.approx(2**0.5)
    matched = {
        "iou=0.5": (0, 0, 0), "iou=0.44": (1, 16 / 36, 2**0.5), "centroid": (1, 16 / 36, 2**0.5),
        "centroid=13": (2, (16 / 36 + 1 / 199) / 2, (2**0.5 + 9 * 2**0.5) / 2), "hausdorff=1.4": (0, 0, 0),
        "hausdorff=1.5": (1, 16 / 36, 2**0.5), "any_overlap": (2, (16 / 36 + 1 / 199) / 2, 5 * 2**0.5),
        "best_iou_centroid_inside": (1, 16 / 36, 2**0.5),
    }  # fmt: skip
    for match, (pairs, iou, distance) in matched.items():
        found = evaluation.compare(reference, prediction, match=match)
        assert found.value("detection.f1.pooled") == pairs / 2, match
        if not pairs:
            continue
        assert found.value("segmentation.iou.pooled") == pytest.approx(iou, abs=1e-6), match
        assert found.value("segmentation.hausdorff_px.pooled") == pytest.approx(distance, abs=1e-6), match


def test_a_matching_rule_that_compare_does_not_have_is_refused(capsys):
    sides(FOUR, THREE, "a")
    for match, words in {
        "dice": "is no matching rule; expected 'iou', 'centroid'", "hausdorff": "expected a radius in px",
        "iou=1": "expected a number from 0 to 0.99", "any_overlap=3": "expected 'any_overlap' alone",
        "centroid=nan": "expected a number from 0",
    }.items():  # fmt: skip
        assert words in compared(capsys, "reference", "masks", "--match", match, code=2)
        with pytest.raises(ValueError, match=re.escape(words)):
            evaluation.compare(FOUR, THREE, match=match)


def test_points_match_within_the_radius_that_is_named(capsys):
    Path("reference.csv").write_text("image,x,y\na,10,10\na,40,10\n")
    Path("points.csv").write_text("image,x,y\na,10,15\na,40,30\n")
    for match, f1 in {"centroid=4": 0, "centroid=5": 0.5, "centroid=20": 1, "any_overlap": 0.5}.items():
        text = compared(capsys, "reference.csv", "points.csv", "--match", match, "--output", match)
        assert metrics_in(match)["detection"]["f1"]["pooled"] == f1, match
        assert f"points within {match.partition('=')[2] or 12} px match" in text


def test_the_saved_challenge_scores_as_compare_does(capsys):
    sides(FOUR, THREE, "ab")
    compared(capsys, "reference", "masks", "--save-challenge", "kept", "--output", "out")
    result = score_submission("kept", "kept/submissions/masks")
    assert result.texts()["metrics.json"] == Path("out/metrics.json").read_text()
    assert Challenge.load("kept").name == "Comparison with reference"
    compared(capsys, "reference", "masks", "--save-challenge", "kept", code=2)  # it is never overwritten


def test_score_speaks_of_no_intervals_of_four_patients(demo, capsys):
    compared(capsys, str(demo.challenge / "reference"), str(demo.submissions["finder"]), "--save-challenge", "kept")
    assert run(["score", "--challenge", "kept", "--submission", "kept/submissions/finder", "--output", "again"]) == 0
    told = capsys.readouterr().err
    assert "matched by iou_above" in told
    assert "intervals" not in told


def test_it_gives_the_numbers_of_the_demo_and_a_copy_of_its_reference_is_perfect(demo):
    reference, finder = demo.challenge / "reference", demo.submissions["finder"]
    found, scored = evaluation.compare(reference, [finder, reference]), score_submission(demo.challenge, finder)
    for path in ("detection.f1", "classification.accuracy", "segmentation.iou", "panoptic.pq", "overall.hausdorff_px"):
        assert found.value(f"{path}.group_mean", "finder") == scored.value(f"{path}.group_mean"), path
    for path in ("detection.f1", "covered.class_recall", "overall.iou", "panoptic.pq"):
        assert found.value(f"{path}.pooled", "reference") == 1, path


# --- what is found out ------------------------------------------------------------------------------------------------


def test_single_files_and_archives_are_taken():
    put("reference.tif", FOUR)
    put("other_name.npy", THREE)
    assert evaluation.compare("reference.tif", "other_name.npy").value("detection.recall.pooled") == 0.75
    put("folder/a.tif", FOUR)
    with zipfile.ZipFile("packed.zip", "w") as archive:
        archive.write("other_name.npy", "some/folder/a.npy")
    assert evaluation.compare("folder", "packed.zip").value("detection.recall.pooled") == 0.75


def test_folders_of_hovernet_are_read_with_their_classes(tmp_path):
    for name in ("a", "b"):
        Path("reference").mkdir(exist_ok=True)
        Path("output/mat").mkdir(parents=True, exist_ok=True)
        savemat(f"reference/{name}.mat", {"inst_map": FOUR, "inst_type": np.array([[1], [2], [2], [5]])})
        savemat(f"output/mat/{name}.mat", {"inst_map": THREE, "inst_type": np.array([[1], [2], [5]])})
        put(f"output/overlay/{name}.png", np.zeros((*SHAPE, 3), np.uint8))
    found = evaluation.compare("reference", "output")
    assert found.challenge.class_names == ("1", "2", "5")
    assert found.value("classification.accuracy.pooled") == 0.666667
    named = evaluation.compare("reference", "output", classes="tumour=1,stroma=2=5")
    assert named.challenge.class_names == ("tumour", "stroma")
    assert named.value("classification.accuracy.pooled") == 1


def put_table(name, *rows):
    Path(name).write_text("\n".join(("id,class", *rows)))


def put_squares(name, *classes, every=20):
    """Nuclei of 10 px beside each other with their classes ("": none), as GeoJSON."""
    features = []
    for x, of_class in zip(range(5, 5 + every * len(classes), every), classes, strict=True):
        ring = [[x, 5], [x + 10, 5], [x + 10, 15], [x, 15], [x, 5]]
        properties = {"classification": {"name": of_class}} if of_class else {}
        geometry = {"type": "Polygon", "coordinates": [ring]}
        features.append({"type": "Feature", "geometry": geometry, "properties": properties})
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(json.dumps({"type": "FeatureCollection", "features": features}))


def test_links_that_lead_out_of_a_folder_are_named(capsys):
    put("reference/a.tif", FOUR)
    Path("masks").mkdir()
    for name in ("a.tif", "b.tif"):
        Path(f"masks/{name}").symlink_to(Path("reference/a.tif").resolve())
    assert "[unsafe-path] 'masks', 'a.tif', 'b.tif': a link to a file outside" in compared(
        capsys, "reference", "masks", code=2
    )


def test_overlaps_are_kept_where_both_sides_can_hold_them_and_told_where_one_cannot(capsys):
    """Two nuclei share 7 columns of 10; the labels of a prediction give them to one."""
    for side in ("reference", "copy"):
        put_squares(f"{side}/a.geojson", "", "", every=3)
    labels = nuclei((5, 5, 10, 3), shape=(30, 40))
    labels[5:15, 8:18] = 2
    put("labels/a.png", labels)
    printed = compared(capsys, "reference", "copy")
    assert "Outlines of the reference overlap" not in printed
    found = evaluation.compare("reference", ["copy", "labels"])
    for model in ("copy", "labels"):
        assert found.value("segmentation.iou.pooled", model) == 1
    assert [note for note in found.notes if "overlap" in note] == [
        "Outlines of the reference overlap, which the files of 'labels' cannot contain: 1 of 2 lose pixels to "
        "other nuclei (overlap = class_order)."
    ]


def put_classes(folder, *classes, names="abcdef"):
    """Images with four nuclei and a table of their classes; "" for no table."""
    for name in names:
        put(f"{folder}/{name}.tif", FOUR)
        if classes:
            put_table(f"{folder}/{name}.csv", *(f"{index},{one}" for index, one in enumerate(classes, start=1)))


def test_scores_and_places_do_not_depend_on_the_other_models():
    """Classes of its own, none at all, other names, points: a third model changes nothing for the first two."""
    put_classes("reference", "t", "t", "s", "s")
    put_classes("A", "t", "t", "s", "s", names="abcde")  # an image is missing: nuclei count as guesses
    put_classes("B", "t", "t", "s", "t")
    put_classes("own", "x", "y", "z", "t")
    put_classes("other", "1", "2", "3", "4")
    put_classes("silent")
    Path("points").mkdir()
    for name in "abcdef":
        Path(f"points/{name}.csv").write_text("x,y,class\n9.5,9.5,t\n")
    alone = evaluation.compare("reference", ["A", "B"])
    assert alone.value("covered.class_recall.pooled", "A") == round((5 + 1 / 2) / 6, 6)
    paths = ["detection.f1.group_mean", "panoptic.pq.pooled"]
    paths += ["covered.class_recall.pooled", "covered.iou_class_mean.pooled"]
    every = ["own", "other", "silent", "points"]
    by_itself = {other: evaluation.compare("reference", other) for other in every}
    for others in (*([other] for other in every), every):
        found = evaluation.compare("reference", ["A", "B", *others])
        for model, path in product("AB", paths):
            assert found.value(path, model) == alone.value(path, model), (others, path)
        if "own" not in others:  # sums of ranks are among all that are ranked
            assert [team.name for team in found.board.teams] == [team.name for team in alone.board.teams]
        for other in others:
            for path in ["detection.f1.group_mean", "detection.recall.pooled"]:
                assert found.value(path, other) == by_itself[other].value(path), (other, path)
        assert {team.name for team in found.board.not_ranked} == set(others) - {"own"}


def test_classes_of_the_command_are_those_that_are_guessed_among():
    put_classes("reference", "t", "t", "s", "s")
    put_classes("A", "t", "t", "s", "s", names="abcde")
    found = evaluation.compare("reference", "A", classes="t,s,x,y")
    assert found.value("covered.class_recall.pooled") == round((5 + 1 / 4) / 6, 6)


def test_class_names_are_kept_as_they_are_written():
    for side in ("reference", "other"):
        put_squares(f"{side}/a.geojson", "Tumour", "Immune (T)")
    found = evaluation.compare("reference", "other")
    assert found.challenge.class_names == ("Tumour", "Immune _T_")
    assert found.challenge.classes[1].aliases == ("Immune (T)",)
    assert found.value("classification.accuracy.pooled") == 1
    assert [finding.code for finding in found.findings] == ["size-unknown"]


def test_patients_are_folders_or_tcga_barcodes():
    for name in ("P1/a", "P1/b", "P2/c"):
        put(f"reference/{name}.tif", FOUR)
        put(f"masks/{name}.tif", FOUR)
    assert {case.group for case in evaluation.compare("reference", "masks").challenge.cases} == {"P1", "P2"}
    for name in ("TCGA-A1-B2C3-01Z-1", "TCGA-A1-B2C3-01Z-2", "TCGA-A1-D4E5-01Z-1"):
        put(f"tcga/{name}.tif", FOUR)
    groups = [case.group for case in evaluation.compare("tcga", "tcga").challenge.cases]
    assert groups == ["TCGA-A1-B2C3", "TCGA-A1-B2C3", "TCGA-A1-D4E5"]


# --- pairs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reference, prediction, pairs", [
    (["a", "b"], ["b", "a"], {"a": "a", "b": "b"}),
    (["Img1", "img2"], ["img1", "IMG2"], {"Img1": "img1", "img2": "IMG2"}),
    (["x_gt", "y_gt"], ["x_cp_masks", "y_seg"], {"x_gt": "x_cp_masks", "y_gt": "y_seg"}),
    (["TCGA-A1-01Z-00-DX1", "TCGA-B2-01Z-00-DX1"], ["TCGA-A1", "TCGA-B2"],
     {"TCGA-A1-01Z-00-DX1": "TCGA-A1", "TCGA-B2-01Z-00-DX1": "TCGA-B2"}),
    (["image_1", "image_2", "image_10"], ["pred_10", "pred_2", "pred_1"],
     {"image_1": "pred_1", "image_2": "pred_2", "image_10": "pred_10"}),
    (["img_001", "img_002"], ["out001v2", "out002v2"], {"img_001": "out001v2", "img_002": "out002v2"}),
    (["a_1", "a_2"], ["a"], {}),
    (["a", "b"], ["c", "d"], {}),
    (["1", "2"], ["12", "22"], {}),
    (["only"], ["other"], {"only": "other"}),
])  # fmt: skip
def test_names_are_paired_where_it_is_clear(reference, prediction, pairs):
    found = pair_names(reference, prediction)
    assert found.pairs == pairs
    assert set(found.without_prediction) == set(reference) - pairs.keys()
    assert set(found.without_reference) == set(prediction) - set(pairs.values())


# --- from Python ------------------------------------------------------------------------------------------------------


def test_regions_of_class_maps_are_nuclei_of_their_classes_if_all_sides_are_class_maps():
    labels = np.zeros((20, 100), int)
    for number in range(10):
        labels[5:12, 10 * number + 2 : 10 * number + 9] = number + 1
    classes = np.where(labels, 1 + labels % 2, 0)
    one_wrong = np.where(labels == 4, 3 - classes, classes)
    found = evaluation.compare(classes, one_wrong * (labels != 9))
    assert found.value("detection.recall.pooled") == 0.9
    assert found.value("classification.accuracy.pooled") == pytest.approx(8 / 9, abs=1e-6)
    found = evaluation.compare(labels, {"map": one_wrong, "labels": labels * (labels != 9)})
    assert [found.value("detection.recall.pooled", model) for model in ("map", "labels")] == [1, 0.9]


def test_a_result_shows_itself_and_becomes_tables(tmp_path):
    pandas = pytest.importorskip("pandas")
    found = evaluation.compare([FOUR, FOUR], {"good": [FOUR, FOUR], "poor": [THREE, THREE]})
    assert "poor: detection F1 0.857" in repr(found)
    assert "<th>good</th><th>poor</th>" in found._repr_html_()
    scores = found.to_frame().set_index(["model", "path"])["value"]
    assert scores["poor", "detection.recall.group_mean"] == 0.75
    cases = found.to_frame("cases")
    assert cases[cases["model"] == "poor"]["detection.recall"].tolist() == [0.75, 0.75]
    rows = found.to_frame("nuclei")
    assert isinstance(rows, pandas.DataFrame)
    counts = rows[rows["model"] == "poor"].groupby("outcome").size()
    assert counts["missed"] == 2  # one in each image
    found.report(tmp_path / "page.html")
    assert "good" in (tmp_path / "page.html").read_text()
    assert [text.get_text() for text in found.plot().legends[0].get_texts()] == ["good", "poor"]


def two_patients(sign: str = "") -> None:
    """Of the images of ``masks`` the first has no nucleus, the second one, the third all."""
    for name, missed in ((f"P/{sign}a", 4), ("P/b", 3), ("Q/c", 0)):
        put(f"reference/{name}.tif", FOUR)
        put(f"masks/{name}.tif", FOUR * (missed < FOUR))
        put(f"all/{name}.tif", FOUR)


def test_a_value_is_the_number_that_is_shown(capsys):
    """Two patients with one and two images, so that means over patients, over images and pooled differ."""
    two_patients()
    found = evaluation.compare("reference", ["masks", "all"])
    printed = compared(capsys, "reference", "masks", "all", "--save-challenge", "kept")
    for path, title in (("detection.f1", "Detection: F1 ↑"), ("overlap.aji", "AJI ↑")):
        value = found.value(path, "masks")
        assert value == found.value(f"{path}.group_mean", "masks") != found.value(f"{path}.case_mean", "masks")
        (line,) = (line for line in printed.splitlines() if title in line)
        assert line.split("↑")[1].split()[:2] == [f"{value:.4f}", "✓"]
    kept = Challenge.load("kept")
    pooled = kept.model_copy(update={"aggregation": kept.aggregation.model_copy(update={"unit": "pooled"})})
    scored = score_submission("kept", "kept/submissions/masks", challenge=pooled)
    assert scored.value("detection.f1") == scored.value("detection.f1.pooled") != scored.value("detection.f1.case_mean")


def test_tables_without_pandas_say_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = evaluation.compare(FOUR, THREE)
    for made in (found, *found.results.values()):
        with pytest.raises(ImportError, match="tables need pandas; install it: pip install pandas"):
            made.to_frame("cases")


def test_images_csv_has_a_row_for_each_model_and_image(capsys):
    two_patients("=")
    assert run(["compare", "reference", "masks", "all", "--output", "out", "--save-challenge", "out"]) == 0
    (line,) = re.findall("Written to out: (.*)", capsys.readouterr().out)
    assert {name.rstrip("/") for name in line.split(", ")} <= {path.name for path in Path("out").iterdir()}
    rows = list(csv.DictReader(Path("out/images.csv").read_text().splitlines()))
    assert [(row["model"], row["patient"], row["image"]) for row in rows] == [
        (model, group, image) for model in ("masks", "all") for group, image in (("P", "_a"), ("P", "b"), ("Q", "c"))
    ]
    assert [row["detection.f1"] for row in rows[:3]] == ["0.0", "0.4", "1.0"]
    assert rows[0]["segmentation.iou"] == "0.0"  # nothing is predicted: the worst value, as in the mean
    assert [column for column in rows[0] if "." in column] == [path for path in COMPARED if path in rows[0]]
    assert (Path("out") / "cases.csv").read_text().startswith("case,group")  # of the challenge that was kept
    run(["compare", "reference", "masks", "--output", "one"])
    assert len(Path("one/images.csv").read_text().splitlines()) == 4


def test_names_from_files_are_escaped_in_notebooks():
    assert "<script>" not in evaluation.compare(FOUR, {"<script>": FOUR})._repr_html_()


def test_score_instances_takes_labels_without_classes():
    one = Challenge.from_preset("monuseg2018", name="one class")
    found = evaluation.score_instances(one, {"a": (FOUR, THREE)})
    assert found.value("detection.recall.pooled") == 0.75
    assert repr(found) == "Result('one class', 1 case)"
    four = Challenge.from_preset("monusac2020", name="four classes")
    with pytest.raises(ValueError, match="labels without classes"):
        evaluation.score_instances(four, {"a": (FOUR, THREE)})
    with pytest.raises(ValueError, match="challenge is of type str; expected other rules, a Challenge"):
        score_submission("challenge", "submission", challenge="monusac2020")


def test_what_one_side_of_arrays_lacks_is_told_as_for_files():
    found = evaluation.compare({"a": FOUR, "b": FOUR}, {"a": FOUR})
    assert ["[not-paired] prediction 'prediction', 'b': no prediction" in str(one) for one in found.findings] == [True]
    found = evaluation.compare((FOUR, ["a", "b", "b", "b"]), (FOUR, ["a", "b", "b", "c"]))
    assert [one.code for one in found.findings] == ["classes-differ"]
    assert "the class 'c' is not in the reference" in str(found.findings[0])
    assert repr(evaluation.compare(FOUR * 0, FOUR * 0)).endswith("prediction: no nuclei")


def test_a_name_in_papers_is_found_as_explain_finds_it():
    found = evaluation.compare(FOUR, THREE)
    assert found.value("AJI") == found.value("overlap.aji") is not None
    assert found.value("mPQ+") == found.value("panoptic.pq.pooled") is not None
    assert found.value("bPQ") == found.value("panoptic.binary.pq.case_mean")
    assert found.value("recall") == found.value("detection.recall")
    assert found.value("AP50") == found.value("thresholds.threat_score_iou50.pooled")  # one image: all readings agree
    two = evaluation.compare([FOUR, THREE], [FOUR, FOUR * 0])
    with pytest.raises(ValueError, match=r"'AP50' can mean 2 scores; .*iou50.pooled \(.*iou50.case_mean \("):
        two.value("AP50")
    with pytest.raises(ValueError, match=r"'SEG', which is not measured here: partition.seg.pooled \(Cell Tracking"):
        found.value("SEG")


def test_what_a_result_has_not_is_refused(tmp_path):
    pytest.importorskip("pandas")
    found = evaluation.compare(FOUR, {"a/b": FOUR, "../c": THREE})
    for read, words in (
        (lambda: found.value("detection.recal.pooled", "a/b"), "Did you mean 'detection.recall.pooled'?"),
        (lambda: found.value("detection.recal", "a/b"), "Did you mean 'detection.recall'?"),
        (lambda: found.value("nothing", "a/b"), "expected a metric such as 'detection.f1', or a path of metrics.json"),
        (lambda: found.value("", "a/b"), "no number at ''"),
        (lambda: found.value("classification.accuracy", "a/b"), "the metrics here are of the families 'detection'"),
        (lambda: found.value("confidence_intervals", "a/b"), "no number at 'confidence_intervals'"),
        (lambda: found.value("detection.f1.pooled"), "several models"),
        (lambda: found.value("detection.recall.pooled", "b"), "no model 'b'; expected 'a/b' or '../c'"),
        (lambda: found.to_frame("case"), "no level 'case'; expected 'scores', 'cases' or 'nuclei'"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            read()
    found.write(tmp_path / "out")
    assert sorted(folder.name for folder in (tmp_path / "out" / "results").iterdir()) == ["_c", "a_b"]
    assert [folder.name for folder in tmp_path.iterdir() if folder.is_dir()] == ["out"]


ONE, PAIR = Challenge.from_preset("monuseg2018", name="one class"), {"a": (FOUR, THREE)}


@pytest.mark.parametrize("arguments, more, words", [
    ((PAIR, ONE), {}, "the first argument is of type dict; expected the rules, a Challenge"),
    ((ONE, [(FOUR, FOUR)]), {}, "the second argument is of type list; expected a table by name"),
    ((ONE, {"a": evaluation.instances_from_labels(FOUR)}), {}, "expected a pair, (reference, prediction)"),
    ((ONE, {"a": (FOUR + 0.5, FOUR)}), {}, "case 'a', reference: labels are not all whole numbers"),
    ((ONE, {1: (FOUR, FOUR)}), {}, "1 cannot be the name of a case"),
    ((ONE, PAIR), {"groups": {"b": "p"}}, "groups contain no name of an image"),
    ((ONE, PAIR), {"strata": ["p"]}, "strata are of type list; expected a table by name"),
    ((ONE, PAIR), {"strata": {"a": 5}}, "5 cannot be the name of a stratum"),
    ((ONE, PAIR), {"spacing_um": -1}, "spacing_um is -1; expected the pixel size in µm"),
    ((ONE, PAIR), {"spacing_um": "0.25"}, "spacing_um is '0.25'; expected the pixel size in µm"),
])  # fmt: skip
def test_wrong_arguments_of_score_instances_end_with_a_sentence(arguments, more, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        evaluation.score_instances(*arguments, **more)


def test_a_radius_in_um_without_the_size_of_a_pixel_is_refused():
    rule = {"name": "near", "rule": "centroid_closest_first", "radius_um": 2.0, "class_aware": False}
    rule["ties"] = "first_pixel"
    challenge = Challenge.from_preset("monuseg2018", name="um", matching={"rules": [rule]})
    with pytest.raises(ValueError, match="radius_um: given, but spacing_um is empty"):
        evaluation.score_instances(challenge, PAIR)


# --- pairs of labels and classes --------------------------------------------------------------------------------------


def pair_findings(first, second):
    found = evaluation.compare((first, second), (first, second))
    return [f"{finding.code} {finding.where}: {finding.got}" for finding in found.findings]


def test_two_images_as_a_pair_are_no_labels_and_classes():
    """A tuple is one image and its classes; two images are a list."""
    large = nuclei(*((top, left, 8, 8) for top in (0, 15, 30, 45) for left in (0, 20, 40, 60)))
    mixed = np.arange(large.size).reshape(large.shape) % 5 + 1
    most_outside = np.where(FOUR > 0, FOUR, 1)
    for second, got in (
        (large, "has a different value for each of the 16 nuclei of the first image"),
        (np.where(large > 0, mixed, 0), "has several values in 16 of 16 nuclei"),
    ):
        assert pair_findings(large, second) == [
            f"no-class-map {where} 'image': the second image {got}" for where in ("reference", "'prediction', image")
        ]
    assert "most of the second image is outside the 4 nuclei" in pair_findings(FOUR, most_outside > 0)[0]
    with pytest.raises(ValueError, match="several images are a list, not a pair"):
        evaluation.compare((FOUR, np.roll(FOUR, 40, axis=1)), (FOUR, FOUR))


def test_class_maps_are_no_second_images():
    classes = np.where(FOUR > 2, 2, FOUR > 0).astype(np.uint8)
    assert pair_findings(FOUR, classes) == []
    assert pair_findings(THREE, THREE) == []  # three nuclei may be of three classes
    frayed = classes.copy()
    frayed[5, 5:15] = 2  # a network that names pixels is not of one mind
    assert pair_findings(FOUR, frayed) == []


@pytest.mark.parametrize("first", [2**53 + 1, 2**60 + 1, 2**63 - 2])
def test_class_tables_may_have_ids_that_no_float_holds(first):
    """Neighbouring ids are one number as floats; the nucleus without a class is not scored."""
    labels = THREE.astype(np.uint64)
    labels[labels > 1] += np.uint64(first - 2)
    for folder in ("reference", "masks"):
        put(f"{folder}/a.npy", labels)
        put_table(f"{folder}/a.csv", "1,x", f"{first},x", f"{first + 1},y")
    found = evaluation.compare("reference", "masks")
    assert found.challenge.class_names == ("x", "y")
    assert [finding.code for finding in found.findings] == []
    assert found.value("classification.accuracy.pooled") == 1
    table = {1: "x", first: "x", first + 1: "y"}
    assert evaluation.compare((labels, table), (labels, table)).value("classification.accuracy.pooled") == 1


def test_of_labels_that_no_float_holds_only_those_that_are_left_out_leave():
    runs = runs_of(np.array([[2**53, 0, 2**53 + 1, 7]], np.uint64))
    assert split_labels(runs, [2**53, 2**70, -1])[0].value.tolist() == [2**53 + 1, 7]


def test_the_page_shows_scores_then_images_from_the_worst_on_their_tissue(browser, tmp_path):
    """Two models, three images with a picture beside: `poor` misses more in each image, most in the last one."""
    from PIL import Image

    rng = np.random.default_rng(2)
    for name in ("reference", "good", "poor", "images"):
        (tmp_path / name).mkdir()
    for image, missed in enumerate((1, 2, 4)):
        labels = np.kron(np.arange(1, 10).reshape(3, 3), np.pad(np.ones((10, 10), np.uint16), 5)).astype(np.uint16)
        tifffile.imwrite(tmp_path / "reference" / f"image_{image}.tif", labels)
        tifffile.imwrite(tmp_path / "good" / f"image_{image}.tif", labels)
        tifffile.imwrite(tmp_path / "poor" / f"image_{image}.tif", labels * (labels > missed))
        tissue = rng.integers(0, 255, (*labels.shape, 3), dtype=np.uint8)
        Image.fromarray(tissue).save(tmp_path / "images" / f"image_{image}.png")
    where = [str(tmp_path / name) for name in ("reference", "good", "poor")]
    assert run(["compare", *where, "--report", "--output", str(tmp_path / "out"), "--workers", "1"]) == 0
    path = tmp_path / "out" / "compare.html"
    assert path.stat().st_size < 300_000
    with browser.open(path, width=1440) as opened:
        assert opened.page.locator(".subtitle").inner_text() == "2 models, 3 images"
        words = opened.page.locator(".case-view figcaption").all_inner_texts()
        assert [text.split(",")[0] for text in words] == ["good", "poor"] * 3
        scores = [float(text.split(", PQ ")[1]) for text in words]
        assert scores[::2] == [1, 1, 1] and scores[1::2] == sorted(scores[1::2]) < [1, 1, 1]
        names = opened.page.locator(".case-view .name").all_inner_texts()
        assert names == ["image_2", "image_1", "image_0"]
        data = json.loads(opened.page.locator("#page_browser").text_content())
        assert [len(case["windows"]) for case in data["cases"]] == [1, 1, 1]  # the tissue
        first = opened.page.locator("#compared-scores tbody tr").first
        assert first.locator("th").inner_text() == "Detection: F1 ↑"
        assert first.locator("td").nth(1).inner_text().startswith("0.8")
        open_sections = opened.page.locator("main > section:not(:has(> .folded)) h2").all_inner_texts()
        assert open_sections == ["Scores", "Images"]
        assert opened.page.evaluate("document.documentElement.scrollHeight") < 4000
        opened.check()


def test_the_page_of_one_model_has_its_scores_and_its_images_first(browser, tmp_path):
    sides(FOUR, THREE)
    assert run(["compare", "reference", "masks", "--report", "--output", "out", "--workers", "1"]) == 0
    with browser.open(Path("out/compare.html").resolve(), width=390) as opened:
        assert opened.page.locator(".subtitle").inner_text() == "1 model, 1 image"
        assert opened.page.locator("main > section:not(:has(> .folded)) h2").all_inner_texts() == ["Scores", "Images"]
        assert opened.page.locator(".case-view figcaption").all_inner_texts() == ["a, PQ 0.857"]
        assert "wrong class" not in opened.page.locator(".legend").first.inner_text()
        titles = opened.page.locator("#compared-scores tbody th").all_inner_texts()
        scores = ("Detection: F1", "Detection: precision", "Detection: recall", "Matched nuclei: IoU")
        assert titles[:4] == [f"{score} ↑" for score in scores]
        assert "interval" not in opened.page.locator("#compared").inner_text()  # there is none
        opened.check()


@pytest.mark.parametrize(("models", "drawn"), [(1, 12), (2, 12), (5, 4)])
def test_a_page_draws_at_most_24_whole_images(browser, models, drawn):
    images = {f"i{number:02}": FOUR for number in range(12)}
    found = evaluation.compare(images, {f"m{number}": images for number in range(models)})
    data = next(b.data for s in found.page().sections for b in s.blocks if hasattr(b, "data"))
    assert min(data["overview"], 12) == drawn


def test_scores_of_one_class_are_not_said_to_be_of_detection(capsys):
    """The first score below a heading carries it, whichever that is."""
    sides(FOUR, THREE)
    printed = compared(capsys, "reference", "masks")
    assert "Matched nuclei: IoU ↑" in printed and "balanced accuracy" not in printed
    assert "pooled" not in printed  # of one image it is the same


def test_what_files_of_several_models_cannot_hold_is_told_once(own_demo, capsys):
    models = [own_demo.submissions[name] for name in ("finder", "namer")]
    printed = compared(capsys, str(own_demo.challenge / "reference"), *map(str, models))
    (line,) = (line for line in printed.splitlines() if "lose pixels" in line)
    assert "which the files of 'finder' and 'namer' cannot contain: 151 of 315" in line
    assert len(printed.splitlines()) <= 42
    assert "too few patients" in printed and "0 of 4" in printed
    assert "[own-duplicates]" not in printed, "4 of 326 and 7 of 318 are few"


def test_points_of_one_class_have_no_scores_of_classes(capsys):
    for folder in ("reference", "dots"):
        Path(folder).mkdir()
        Path(f"{folder}/a.csv").write_text("x,y\n10,12\n30,40\n5,50\n")
    printed = compared(capsys, "reference", "dots")
    assert "Detection: F1 ↑" in printed and "accuracy" not in printed
    assert "Constant reference: all cases have the same number of reference nuclei." in printed
    board = evaluation.compare("reference", {"one": "dots", "two": "dots"}).board
    assert board is not None and board.common_nuclei is None  # points have nothing to measure on common nuclei


# --- masks, stacks and records ----------------------------------------------------------------------------------------

MASKS = np.stack([label == THREE for label in (1, 2, 3)])
RECORDS = [
    {"segmentation": mask, "area": int(mask.sum()), "bbox": [0, 0, 1, 1], "predicted_iou": iou}
    for mask, iou in zip(MASKS, (1.01, 0.9, 0.5), strict=True)
]


def test_masks_of_nuclei_are_taken_as_labels_are():
    expected = evaluation.compare(FOUR, THREE)
    paths = [*expected.to_frame()["path"]]
    for reference, prediction in (
        *((FOUR, of) for of in ([*MASKS], MASKS, MASKS.astype(np.uint8) * 255, np.moveaxis(MASKS, 0, -1), RECORDS)),
        *((FOUR, of) for of in (THREE[None], THREE[None, ..., None], np.dstack([THREE] * 3))),
        *(({"image": FOUR}, {"image": of}) for of in (RECORDS, MASKS, [*MASKS], MASKS[:, None].astype(np.float32))),
        *(([FOUR], [of]) for of in ([*MASKS], RECORDS)),
    ):
        found = evaluation.compare(reference, prediction)
        assert all(found.value(path) == expected.value(path) for path in paths), prediction


def test_confidences_of_records_are_used():
    found = evaluation.compare(FOUR, RECORDS, families=["curves"])
    assert found.value("curves.average_precision.pooled") == 0.75
    assert evaluation.instances_from_masks(RECORDS).probability.tolist() == [1, 0.9, 0.5]


def test_classes_of_masks_are_in_their_order_also_where_one_is_empty():
    reference = (FOUR, TTSS)
    masks = [MASKS[0], np.zeros_like(MASKS[0]), MASKS[1], MASKS[2]]
    found = evaluation.compare(reference, (masks, ["T", "T", "S", "S"]))
    assert found.value("classification.accuracy.pooled") == 0.666667
    with pytest.raises(ValueError, match=r"classes of shape \(2,\) for 4 masks; expected one per mask"):
        evaluation.compare(reference, (masks, ["T", "S"]))


TTSS, TSS = ["T", "T", "S", "S"], ["T", "S", "S"]
OF_PIXELS = np.where(FOUR > 2, 2, FOUR > 0).astype(FOUR.dtype)
BOTH_CORNERS = np.stack([np.pad(np.ones((6, 6), bool), (0, 3)), np.pad(np.ones((6, 6), bool), (3, 0))])
RECALL, ACCURACY = "detection.recall.pooled", "classification.accuracy.pooled"
ARRAYS = {  # both sides, further arguments, the score of each model
    "types": (FOUR.astype(float), {of: THREE.astype(of) for of in ("u1", "i8", "f4", "f8")}, {}, RECALL, [0.75] * 4),
    "lists": ([FOUR, FOUR], [FOUR, THREE], {}, RECALL, [0.875]),
    "lists of models": ([FOUR, FOUR], {"good": [FOUR, FOUR], "poor": [THREE, THREE]}, {}, RECALL, [1, 0.75]),
    "stacks": (np.stack([FOUR, FOUR[::-1]]), np.stack([THREE, FOUR[::-1]]), {}, RECALL, [0.875]),
    "pairs": ([(FOUR, TTSS)] * 2, [(FOUR, TTSS)] * 2, {}, ACCURACY, [1]),
    "a table without an image": ({"a": FOUR, "b": FOUR}, {"b": THREE}, {}, RECALL, [0.375]),
    "instances": (FOUR, evaluation.instances_from_labels(THREE, class_id=1), {}, RECALL, [0.75]),
    "models": (FOUR, {"sam": RECORDS, "labels": THREE, "nothing": []}, {}, RECALL, [0.75, 0.75, 0]),
    "masks of images": ({"a": FOUR, "b": FOUR}, {"a": RECORDS, "b": []}, {}, RECALL, [0.375]),
    "masks that share pixels": (BOTH_CORNERS, BOTH_CORNERS, {}, "segmentation.iou.pooled", [1]),
    "names": ((FOUR, TTSS), (THREE, TSS), {}, ACCURACY, [0.666667]),
    "names in capitals": ((FOUR, ["T", "t", "S", "s"]), (THREE, ["t", "S", "s"]), {}, ACCURACY, [0.666667]),
    "names by label": ((FOUR, dict(enumerate(TTSS, 1))), (THREE, dict(enumerate(TSS, 1))), {}, ACCURACY, [0.666667]),
    "names of pixels": ((FOUR, np.array(["", "T", "S"])[OF_PIXELS]), (THREE, TSS), {}, ACCURACY, [0.666667]),
    "numbers": ((FOUR, [1, 1, 2, 2]), (THREE, [1.0, 2.0, 2.0]), {}, ACCURACY, [0.666667]),
    "numbers of pixels": ((FOUR, OF_PIXELS), (THREE, np.minimum(THREE, 2)), {}, ACCURACY, [0.666667]),
    "numbers in channels": (np.dstack([FOUR, OF_PIXELS]), np.stack([FOUR, OF_PIXELS]), {}, ACCURACY, [1]),
    "names of numbers": ((FOUR, [1, 1, 2, 2]), (THREE, [1, 2, 2]), {"classes": ["tumour", "stroma"]},
                         "classification.per_class.tumour.recall.pooled", [0.5]),
    "another spelling": ((FOUR, TTSS), (FOUR, TTSS), {"classes": "t=T=TT,s"},
                         "classification.per_class.t.recall.pooled", [1]),
    "a mask of one value": (FOUR, {"bool": THREE > 0, "255": 255 * (THREE > 0)}, {}, RECALL, [0.75, 0.75]),
    "masks of one value": (FOUR > 0, THREE > 0, {}, RECALL, [0.75]),
}  # fmt: skip


@pytest.mark.parametrize("form", ARRAYS)
def test_arrays_are_what_they_look_like(form):
    reference, prediction, more, path, expected = ARRAYS[form]
    found = evaluation.compare(reference, prediction, **more)
    assert [found.value(path, model) for model in found.results] == expected
    assert len(found.challenge.classes) == 1 + (path.startswith("classification"))
    assert {one.code for one in found.findings} <= ({"components"} if "one value" in form else {"not-paired"})
    if form.endswith("one value"):
        assert found.findings


def test_a_column_of_pandas_that_is_indexed_by_label_is_a_table():
    column = pytest.importorskip("pandas").Series(["S", "S", "T"], index=[3, 2, 1])
    assert evaluation.compare((FOUR, TTSS), (THREE, column)).value(ACCURACY) == 0.666667


SIDES_WITH_CLASSES = {  # classes of the four nuclei of both sides, and the codes of what is told
    "the same": (["T", "T", "S", "S"], ["T", "S", "S", "S"], []),
    "one more": (["T", "T", "S", "S"], ["T", "X", "S", "S"], ["classes-differ"]),
    "others": (["T", "T", "S", "S"], ["U", "V", "V", "V"], ["classes-differ"]),
    "one on each side": (["T", "T", "T", "T"], ["U", "U", "U", "U"], ["classes-differ"]),
    "one on each side that is none": (["nucleus"] * 4, ["Cells"] * 4, []),
    "of the prediction alone": (None, ["T", "S", "S", "S"], ["classes-differ"]),
    "of the reference alone": (["T", "T", "S", "S"], None, ["classes-differ"]),
    "not scored": (["Ambiguous", "T", "S", "S"], ["T", "T", "S", "S"], []),
    "not scored and given": (["Ambiguous", "T", "S", "S"], ["ambiguous", "T", "S", "S"], []),
}


@pytest.mark.parametrize("name", SIDES_WITH_CLASSES)
def test_classes_of_arrays_are_planned_as_those_of_files(name):
    *sides, codes = SIDES_WITH_CLASSES[name]
    arrays = [FOUR if classes is None else (FOUR, classes) for classes in sides]
    for folder, classes in zip(("reference", "prediction"), sides, strict=True):
        put(f"{folder}/image.npy", FOUR)
        if classes is not None:
            put_table(f"{folder}/image.csv", *(f"{label},{one}" for label, one in enumerate(classes, start=1)))
    found, expected = evaluation.compare(*arrays), evaluation.compare("reference", "prediction")
    assert [one.code for one in found.findings] == codes
    told = ["classes-differ"] if codes else []
    assert [one.code for one in expected.findings if one.code == "classes-differ"] == told
    assert sorted(found.challenge.class_names) == sorted(expected.challenge.class_names)
    paths = [path for path in expected.to_frame()["path"] if path.startswith(("detection.", "classification."))]
    assert paths and all(found.value(path) == expected.value(path) for path in paths)


def test_where_every_class_is_wrong_that_is_said_first_and_pq_is_called_pq_without_classes(capsys, tmp_path):
    """One class on each side, another one: no output may show 1.000 as a panoptic quality."""
    for folder, name in (("reference", "macrophage"), ("prediction", "epithelial")):
        put(f"{folder}/image.npy", FOUR)
        put_table(f"{folder}/image.csv", *(f"{label},{name}" for label in range(1, 5)))
    assert run(["compare", "reference", "prediction", "--output", "out", "--report"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("[classes-differ] prediction 'prediction': its classes are 'epithelial'")
    page, found = Path("out/compare.html").read_text(), evaluation.compare("reference", "prediction")
    html = found._repr_html_()
    for text in (printed, page, html, repr(found)):
        assert "PQ without classes" in text and not re.search(r"Panoptic quality|panoptic\.pq|\bPQ [01]\.", text)
    assert page.index("classes-differ") < page.index("PQ without classes")
    assert html.startswith("<p>[classes-differ]")
    assert "panoptic.pq" not in Path("out/images.csv").read_text()
    assert found.value("panoptic.binary.pq") == 1 and "pq" not in found.results["prediction"].metrics["panoptic"]
    assert not any(path.startswith("panoptic.pq") for path in found.to_frame()["path"])


@pytest.mark.parametrize("reference, prediction, more, words", [
    ([], [], {}, "nothing to compare: no image in the reference"),
    ({}, {}, {}, "nothing to compare: no image in the reference"),
    (FOUR, {}, {}, "nothing to compare: no model in the prediction"),
    ({"a": FOUR}, {"b": FOUR}, {}, "that the reference lacks"),
    ((FOUR, list("abcd")), (FOUR, list("abcd")), {"classes": ["a"]}, "not among the classes"),
    ("folder", [], {}, "nothing to compare: no path in the prediction"),
    ("folder", None, {}, "both are paths, or both are arrays"),
    ("folder", {"../a": "folder"}, {}, "cannot be the name of a model"),
    ("folder", "folder", {"groups": {"a": "p"}}, "groups are for arrays"),
    ({1: FOUR}, {1: FOUR}, {}, "1 cannot be the name of an image or of a model"),
    (FOUR, [FOUR, FOUR], {}, "several models are a table by name"),
    (FOUR, FOUR, {"groups": ["p"]}, "groups are of type list; expected a table by name"),
    (FOUR, FOUR, {"groups": {"imagee": "p"}}, "groups contain no name of an image; expected a table by name"),
    (FOUR, FOUR, {"groups": {"image": 5}}, "5 cannot be the name of a group"),
    (FOUR, FOUR, {"workers": -1}, "workers is -1; expected a whole number from 1"),
    ({"a": FOUR}, {"a": FOUR.T}, {}, "case 'a': the reference is"),
    (np.ma.masked_equal(FOUR, 2), FOUR, {}, "labels are masked"),
    ((FOUR, ["x"]), (FOUR, ["x"]), {}, "classes of shape (1,) for 4 labels; expected one class per label"),
    ((FOUR, "x"), (FOUR, "x"), {}, "classes of shape () for 4 labels; expected one class per label"),
    ((FOUR, FOUR[:5]), (FOUR, FOUR), {}, "or an image of the same shape"),
    ((FOUR, ["x", None, "y", "y"]), (FOUR, "x"), {}, "classes mix names and numbers"),
    ((FOUR, {"x": 1}), (FOUR, {"x": 1}), {}, "a table of classes has labels as keys, not 'x'"),
    (FOUR, evaluation.instances_from_labels(FOUR), {}, "case 'image', prediction: class ids are from 0 to 0"),
    ([[FOUR, ["a"]]], [FOUR], {}, "labels are for instances_from_labels; labels with classes are a pair"),
    ([FOUR, FOUR], [FOUR], {}, "2 images in the reference, 1 in 'prediction': give tables by name"),
    ("folder", FOUR, {}, "both are paths, or both are arrays"),
    (FOUR, "folder", {}, "both are paths, or both are arrays"),
    *(((THREE, [1, 2, number]), (THREE, [1, 2, 1]), {}, "is no class; expected names or whole numbers from 1")
      for number in (-1, 0, 1.5)),
    *((FOUR, labels, {}, "labels are") for labels in (
        FOUR + 0.5, FOUR[:, 0], np.where(FOUR, np.nan, 0.0), -1 * FOUR.astype(int))),
    *(((THREE, [1, 2, 2]), (THREE, [1, 2, 2]), {"classes": classes}, "; expected names") for classes in (
        5, [1, 2], ["a", None], {1: "a"}, {"a": 2, "b": 1}, {"a", "b"}, [], "", "a,a", ["a=b", "A"])),
    (FOUR, np.stack([FOUR, FOUR // 2 * 2, FOUR]), {}, "'prediction', image: an array of shape (3, 60, 90) is a volume"),
    (FOUR, np.kron(FOUR, np.ones((3, 1, 1), int)), {}, "has images that the reference lacks"),
    (FOUR, np.stack([FOUR, FOUR * (FOUR > 1)]), {}, "labels of two kinds in two channels, as InstanSeg's and Mesmer's"),
    (FOUR, MASKS * 0.7, {}, "labels of shape (3, 60, 90) are not all whole numbers; of probabilities"),
    (FOUR, [*(MASKS * 0.7)], {}, "; masks of single nuclei are arrays of True and False"),
    (FOUR, [{"area": 5}], {}, "'prediction', image: record 1 has no 'segmentation'; expected masks (N, H, W)"),
    (FOUR, [{"segmentation": {"size": [9, 9], "counts": "x"}}], {}, "record 1 has a run-length code"),
    (FOUR, [{"segmentation": MASKS[0]}, {"segmentation": MASKS[0][1:]}], {}, "masks of different sizes"),
    (FOUR, np.zeros((2, 3, 9, 9), int), {}, "labels are int64 of shape (2, 3, 9, 9); expected (H, W), (N, H, W)"),
    ({"image": FOUR}, {"image": np.stack([FOUR, FOUR[::-1]])}, {}, "are 2 images; expected one, (H, W)"),
])  # fmt: skip
def test_wrong_arguments_end_with_a_sentence(reference, prediction, more, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        evaluation.compare(reference, prediction, **more)


# --- the table of a paper ---------------------------------------------------------------------------------------------


def test_the_table_of_a_paper_has_a_row_for_each_model_with_the_best_in_bold(capsys):
    """Recall is 3/4 and 1, so F1 6/7 and 1; precision is 1 for both, so none of them is the best."""
    reference, first, second = two_models("ab")
    Path(first).rename("50%_a|b")
    for ending in ("tex", "csv", "md"):
        assert f"Written: t.{ending}" in compared(capsys, reference, "50%_a|b", second, "--table", f"t.{ending}")
    tex, markdown = (Path(f"t.{ending}").read_text() for ending in ("tex", "md"))
    rows = [line for line in tex.splitlines() if line.endswith("\\\\")]
    assert rows[0].startswith(r"Model & Detection: F1 $\uparrow$ & Detection: precision $\uparrow$ &")
    assert rows[1].split(" & ")[1:4] == ["0.857", "1.000", "0.750"]
    assert rows[2].split(" & ")[:4] == ["second", r"\textbf{1.000}", "1.000", r"\textbf{1.000}"]
    assert rows[1].startswith(r"50\_\_a\_b & ")
    assert len({line.count("&") for line in rows}) == 1
    assert "| second | **1.000** | 1.000 | **1.000** |" in markdown
    assert len({line.replace("\\|", "").count("|") for line in markdown.splitlines()[:4]}) == 1
    assert "Mean over 2 images." in markdown
    found = evaluation.compare(reference, {"x": "50%_a|b", "second": second})
    frame = found.to_frame("table")
    assert frame["model"].tolist() == ["x", "second"]
    assert frame["n"].tolist() == [2, 2]
    with Path("t.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    for path in frame.columns[2:]:
        assert frame[path].tolist() == pytest.approx([float(row[path] or "nan") for row in written], nan_ok=True)


def test_a_table_of_another_ending_is_refused_before_anything_is_scored(capsys):
    assert run(["compare", "nowhere", "nothing", "--table", "t.xlsx"]) == 2
    assert "expected .tex, .csv or .md" in capsys.readouterr().err
