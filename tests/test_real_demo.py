"""The sample of real annotations that is part of the program, and the demo on it. Needs no other data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tifffile
from shapely.geometry import shape

from evaluation import score_submission
from evaluation.authoring.real_demo import COPIES, write_real_demo
from evaluation.commands.main import run

SAMPLE = Path(__file__).resolve().parents[1] / "evaluation" / "authoring" / "sample"
# Pixels of each label in the tile of NuCLS, counted with numpy; and the labels that are Tumor in its class map.
AREAS = [495, 534, 162, 124, 351, 341, 571, 419, 209, 170, 935, 85, 164, 739, 599, 74, 420, 400, 307, 389]
TUMOR = {4, 7, 9, 13, 14, 15, 16, 17, 19}


def features_of(path: Path) -> list[dict]:
    return json.loads(path.read_text())["features"]


def test_the_sample_is_small_and_has_its_source_and_licence_beside_it():
    assert sorted(path.name for path in SAMPLE.iterdir()) == [
        "SOURCE.md",
        "cases.csv",
        "challenge.toml",
        "nucls_tile.geojson",
    ]
    assert sum(path.stat().st_size for path in SAMPLE.iterdir()) < 20_000
    text = (SAMPLE / "SOURCE.md").read_text()
    for words in ("NuCLS", "GigaScience", "CC0 1.0", "creativecommons.org/publicdomain/zero/1.0", "perturbed copies"):
        assert words in text


def test_the_sample_has_the_areas_and_classes_of_the_tile_that_it_was_made_of():
    features = features_of(SAMPLE / "nucls_tile.geojson")
    assert [feature["id"] for feature in features] == [str(label) for label in range(1, 21)]
    polygons = [shape(feature["geometry"]) for feature in features]
    assert all(polygon.is_valid and polygon.geom_type == "Polygon" for polygon in polygons)
    assert [polygon.area for polygon in polygons] == AREAS
    names = {int(one["id"]): one["properties"]["classification"]["name"] for one in features}
    assert names == {label: "Tumor" if label in TUMOR else "Non-Tumor" for label in range(1, 21)}


def test_the_sample_has_the_pixels_of_the_tile(shared_data, tmp_path):
    made = write_real_demo(tmp_path / "demo")
    assert run(["rasterise", "--challenge", str(made.challenge), "--output", str(tmp_path / "labels")]) == 0
    (path,) = [path for path in (tmp_path / "labels").rglob("*.tif*") if "class" not in path.name]
    tile = np.load(shared_data / "nucls_tiles" / "test_1.npy", allow_pickle=True).item()
    assert np.array_equal(tifffile.imread(path), tile["inst_map"])


def test_the_same_files_are_written_again(tmp_path):
    written = []
    for name in ("once", "again"):
        write_real_demo(tmp_path / name)
        folder = tmp_path / name
        written.append({p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()})
    assert written[0] == written[1]
    assert written[0]["challenge/reference/SOURCE.md"] == (SAMPLE / "SOURCE.md").read_bytes()
    assert {name for name in written[0] if name.startswith("submissions/")} == {
        f"submissions/{copy}/nucls_tile.geojson" for copy in COPIES
    }


def test_the_reference_as_submission_is_perfect(tmp_path):
    made = write_real_demo(tmp_path)
    (tmp_path / "perfect").mkdir()
    shutil.copy(made.challenge / "reference" / "nucls_tile.geojson", tmp_path / "perfect")
    result = score_submission(made.challenge, tmp_path / "perfect", workers=1)
    assert result.value("panoptic.pq.pooled") == result.value("classification.accuracy.pooled") == 1
    assert result.value("segmentation.hausdorff_px.pooled") == 0
    assert result.details["pooled"]["rules"]["iou_above"]["counts"]["true_positives"] == 20


def test_every_copy_shows_the_mistake_that_it_is_named_after(tmp_path):
    made = write_real_demo(tmp_path)
    value = {
        copy: score_submission(made.challenge, folder, workers=1).value for copy, folder in made.submissions.items()
    }
    for path, worst in (
        ("detection.recall.pooled", "missing_nuclei"),
        ("classification.accuracy.pooled", "wrong_classes"),
        ("segmentation.iou.pooled", "small_outlines"),
    ):
        assert min(value, key=lambda copy: value[copy](path)) == worst
        assert all(value[copy](path) > 0.95 for copy in value if copy != worst)
    assert len(features_of(made.submissions["missing_nuclei"] / "nucls_tile.geojson")) < 20


@pytest.mark.parametrize("kept", [True, False])
def test_the_command_says_that_annotations_are_real_and_predictions_are_copies(kept, tmp_path, capsys):
    assert run(["demo", "--real", *(["--output", str(tmp_path / "out")] if kept else [])]) == 0
    told = capsys.readouterr().out
    assert "Three perturbed copies of 20 real annotations (one tile of NuCLS)" in told
    for copy in COPIES:
        assert copy in told
        assert (tmp_path / "out" / "results" / copy / "metrics.json").is_file() == kept
