"""Why a nucleus is not matched and why a team is behind, in words; duplicates among the kinds of errors."""

from __future__ import annotations

import csv
import gzip
import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import shapely

import evaluation
from evaluation.commands.main import run
from evaluation.folders.demo import DemoPaths

Ring = list[tuple[float, float]]


@pytest.fixture(scope="module")
def board(demo: DemoPaths, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    where = ["--challenge", str(demo.challenge), "--submissions", str(demo.submissions["finder"].parent)]
    assert run(["leaderboard", *where, "--output", str(folder), "--workers", "1"]) == 0
    return folder


def explained(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    assert (run(["explain", *map(str, arguments)]) == 0) == (code == 0)
    output = capsys.readouterr()
    return output.out + output.err


def rows_of(folder: Path, rule: str) -> dict[str, dict[str, str]]:
    """The reference nuclei of P1_1 in objects.csv under a rule, by their ids."""
    with (folder / "objects.csv").open() as stream:
        return {
            row["reference_id"]: row
            for row in csv.DictReader(stream)
            if row["case"] == "P1_1" and row["rule"] == rule and row["reference_id"]
        }


def test_a_nucleus_is_explained_under_every_matching_rule(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = board / "results" / "outliner"
    by_iou, by_centroid = (rows_of(folder, rule) for rule in ("iou_above", "centroid_closest_first"))
    missed = next(id for id, row in by_iou.items() if row["outcome"] == "missed")
    words = explained(capsys, "--results", folder, "--case", "P1_1", "--at", missed)
    row = by_iou[missed]
    assert f"reference nucleus '{missed}'" in words and "is a false negative" in words
    assert f"{float(row['nearest_distance_px']):.1f} px" in words and row["nearest_id"] in words
    other = by_centroid[missed]
    is_matched = other["outcome"] == "matched"
    became = f"matched to predicted nucleus '{other['prediction_id']}'" if is_matched else "not matched"
    assert (
        f"'centroid_closest_first' needs centroids at most 12 px apart: reference nucleus '{missed}' is {became}"
        in (" ".join(words.split()))
    )


def test_a_place_outside_has_no_nucleus(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = board / "results" / "outliner"
    row = next(iter(rows_of(folder, "iou_above").values()))
    near = f"{float(row['row']):.0f},{float(row['column']):.0f}"
    assert row["reference_id"] in explained(capsys, "--results", folder, "--case", "P1_1", "--at", near)
    for place in ("5000,20", "20,5000", "-900,-900"):
        words = explained(capsys, "--results", folder, "--case", "P1_1", f"--at={place}", code=2)
        assert "The point is outside: the nuclei of the case are in" in " ".join(words.split())


def test_a_team_reads_what_one_more_percent_would_change(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = explained(capsys, "--results", board, "--team", "outliner")
    counts = json.loads((board / "results/outliner/details.json").read_text())["pooled"]["rules"]["iou_above"]["counts"]
    hits, missed, extra = (counts[key] for key in ("true_positives", "false_negatives", "false_positives"))
    then = 2 * (hits + 3) / (2 * hits + missed + extra + 3)
    assert round((hits + missed) / 100) == 3 and f"the pooled F1 would be {then:.4f}" in words


# --- duplicates -------------------------------------------------------------------------------------------------------


def rings_of(path: Path) -> list[Ring]:
    """Outlines of PUMA's GeoJSON (polygons of one ring) or of MoNuSeg's XML."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if ".xml" in path.name:
        regions = ElementTree.fromstring(data).iter("Region")
        rings = [[(float(v.attrib["X"]), float(v.attrib["Y"])) for v in region.iter("Vertex")] for region in regions]
    else:
        shapes = [feature["geometry"] for feature in json.loads(data)["features"]]
        rings = [shape["coordinates"][0] for shape in shapes if shape["type"] == "Polygon"]
    return [
        ring for ring in rings if len(ring) > 4 and shapely.Polygon(ring).is_valid and shapely.Polygon(ring).area > 40
    ]


def geojson(rings: dict[str, Ring]) -> str:
    features = [
        {
            "type": "Feature", "id": name, "properties": {},
            "geometry": {"type": "Polygon", "coordinates": [[*ring, ring[0]]]},
        }
        for name, ring in rings.items()
    ]  # fmt: skip
    return json.dumps({"type": "FeatureCollection", "features": features})


@pytest.mark.parametrize(
    "name", ["puma/reference/training_set_primary_roi_102_nuclei.geojson", "monuseg/TCGA-21-5784-01Z-00-DX1.xml.gz"]
)
def test_duplicates_are_what_their_outlines_say(shared_data: Path, tmp_path: Path, name: str) -> None:
    """Thirty nuclei are predicted twice, one pixel aside; areas are those of shapely's polygons."""
    rings = rings_of(shared_data / name)[:150]
    nuclei = {f"n{number}": ring for number, ring in enumerate(rings)}
    copies = {f"copy{number}": [(x + 1, y) for x, y in ring] for number, ring in enumerate(rings[:30])}
    (tmp_path / "reference.geojson").write_text(geojson(nuclei))
    (tmp_path / "prediction.geojson").write_text(geojson({**nuclei, **copies}))
    found = evaluation.compare(tmp_path / "reference.geojson", tmp_path / "prediction.geojson")
    rows = list(csv.DictReader(io.StringIO(next(iter(found.results.values())).objects)))
    rule = rows[0]["rule"]
    predicted = {row["prediction_id"]: row for row in rows if row["rule"] == rule and row["prediction_id"]}
    shapes = {id: shapely.Polygon(({**nuclei, **copies})[id]) for id in predicted}
    matched = [id for id, row in predicted.items() if row["outcome"] == "matched"]
    expected = {
        id
        for id in predicted.keys() - set(matched)
        if any(
            2 * shapes[id].intersection(shapes[other]).area > min(shapes[id].area, shapes[other].area)
            for other in matched
        )
    }
    assert {id for id, row in predicted.items() if row["kind"] == "duplicate"} == expected
    assert len(expected) >= 30
