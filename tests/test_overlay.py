"""Drawings and pictures of a scored submission."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import shapely
import shapely.geometry
import tifffile
from every_format import small_document, write_files, write_rules
from findings import Bench
from hypothesis import given, settings
from hypothesis import strategies as st
from imagecodecs import png_encode, webp_decode

from evaluation import score_submission
from evaluation.challenge import Challenge
from evaluation.commands.main import run
from evaluation.findings.errors import ChallengeBroken, SubmissionRejected
from evaluation.folders.demo import DemoPaths
from evaluation.report.pictures import (
    STATE_COLOURS,
    WINDOW_PX,
    JudgedCase,
    SecondPass,
    Window,
    find_images,
    illustrate_cases,
    label_tiffs,
    outline_texts,
    overlay_geojson,
    scene_of,
)
from evaluation.scoring.match import match_case
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.score import Result
from nuclei_metrics.instances.prepare import PreparedReference, prepare_reference
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.metrics.counts import ErrorKinds
from nuclei_metrics.model import Case, Instances, Points

CLASSES = ("small", "LARGE")
IOU = {"rule": "iou_above", "threshold": 0.5}
LABELS = {"format": "label_image", "files": "{case}/{class}.tif"}
AS_DRAWN: dict[str, Any] = {
    "overlap": "keep", "overlap_scope": "image", "vanished": None, "vertices": None, "origin": None
}  # fmt: skip


def challenge_of(policy: str | None = None, rule: dict[str, Any] = IOU, files: dict[str, Any] = LABELS) -> Challenge:
    document = small_document(files, {"name": "first", **rule}, classes=CLASSES, border="closed")
    document["reference"] |= {"ignore": {"policy": policy}} if policy else {}
    return Challenge.build(document)


def letters(drawing: str) -> npt.NDArray[np.str_]:
    return np.array([list(row) for row in drawing.splitlines()])


def nuclei(characters: npt.NDArray[np.str_]) -> Instances:
    """Every letter is a nucleus: small letters of the first class, capitals of the second."""
    labels = np.where(np.char.isalpha(characters), characters.view(np.uint32), 0).astype(np.int64)
    return instances_from_labels(labels, [2 if chr(v).isupper() else 1 for v in np.unique(labels) if v])


def judged_case(reference: str, prediction: str, policy: str | None = None, rule: dict[str, Any] = IOU) -> JudgedCase:
    """A case of two drawings; ``#`` in the reference is an ignore region."""
    left, right = letters(reference), letters(prediction)
    scored, region = nuclei(left), instances_from_labels(left == "#")
    region = replace(region, class_id=np.full(len(region), -1, np.int16))
    sides = [side for side in (scored, region) if len(side)]
    prepared = prepare_reference(sides, scored.shape_yx, **AS_DRAWN, ignore_policy=policy)  # type: ignore[arg-type]
    return judged(challenge_of(policy, rule), prepared, nuclei(right))


def judged(challenge: Challenge, reference: PreparedReference, prediction: Instances | None) -> JudgedCase:
    case = Case("tiny", "P1", *reference.instances.shape_yx)
    matched = match_case(challenge, case, reference, prediction)
    (measured,) = measure_cases(challenge, [matched])
    kinds = (side.kinds[challenge.matching.rules[0].name] for side in (measured.reference, measured.prediction))
    return JudgedCase(matched, ErrorKinds(*kinds))


def prepared_of(labels: npt.NDArray[np.int64]) -> PreparedReference:
    instances = instances_from_labels(labels, np.ones(len(np.unique(labels[labels > 0])), int))
    return prepare_reference([instances], labels.shape, **AS_DRAWN)  # type: ignore[arg-type]


# --- drawings for QuPath ----------------------------------------------------------------------------------------------


def features_of(case: JudgedCase) -> list[dict[str, Any]]:
    document = json.loads(overlay_geojson(case, CLASSES))
    assert document["type"] == "FeatureCollection"
    features: list[dict[str, Any]] = document["features"]
    return features


def states_of(case: JudgedCase) -> list[str]:
    return [feature["properties"]["classification"]["name"] for feature in features_of(case)]


FIVE = (".aaa..bbb.........ddd....", ".aaa........ccc...DDD....")
PAIR, WRONG = ([f"{state}: {side}" for side in ("reference", "prediction")] for state in ("Matched", "Wrong class"))
ALL_STATES = [*PAIR, *WRONG, "False negative", "False positive"]


@pytest.mark.parametrize("reference, prediction, policy, rule, states", [
    (*FIVE, None, IOU, ALL_STATES),
    (*FIVE, None, {**IOU, "class_aware": True}, ALL_STATES),  # the rule finds no pair of "ddd"; names decide
    (".####..aa.", "..bb...aa.", "drop_centroid", IOU, ["Ignore region", *PAIR, "Ignored"]),
    ("....", "....", None, IOU, []), ("a...", "....", None, IOU, ["False negative"]),
    ("....\n....", "bbbb\nbbbb", None, IOU, ["False positive"]), ("a.a.\n.a.a", "a.a.\n.a.a", None, IOU, PAIR),
])  # fmt: skip
def test_every_nucleus_has_the_state_of_what_became_of_it(reference, prediction, policy, rule, states) -> None:
    assert sorted(states_of(judged_case(reference, prediction, policy, rule))) == sorted(states)


def test_contested_pixels_are_a_region() -> None:
    two = [nuclei(letters(drawing)) for drawing in ("......\n.aaa..\n......", "......\n...bb.\n......")]
    prepared = prepare_reference(two, (3, 6), **{**AS_DRAWN, "overlap": "last"})
    contested, *_ = features_of(judged(challenge_of(), prepared, two[0]))
    assert contested["properties"]["classification"]["name"] == "Contested"
    assert shapely.geometry.shape(contested["geometry"]).bounds == (3, 1, 4, 2)


def points(*places_xy: tuple[float, float]) -> Points:
    count = len(places_xy)
    return Points(np.array(places_xy, np.float64), np.ones(count, np.int16), np.arange(count).astype(object))


def test_points_are_points() -> None:
    options = {**dict.fromkeys(AS_DRAWN), "origin": "pixel_centre"}
    both = (points((10, 10), (30, 20)), points((11, 10), (50, 30)))
    reference, prediction = (prepare_reference([side], (40, 60), **options) for side in both)
    table = {"format": "points_csv", "files": "{case}.csv", "units": "px", "origin": "pixel_centre"}
    near = {"rule": "centroid_closest_first", "radius_px": 3.0, "class_aware": False}
    case = judged(challenge_of(rule=near, files=table), reference, prediction.instances)
    shapes = {f["properties"]["classification"]["name"]: f["geometry"]["coordinates"] for f in features_of(case)}
    assert set(shapes) == {*PAIR, "False negative", "False positive"}
    assert shapes["False negative"] == [30.5, 20.5] and shapes["False positive"] == [50.5, 30.5]


def test_every_nucleus_is_a_detection_with_its_state_colour_class_and_area() -> None:
    told = []
    for feature in features_of(judged_case(*FIVE)):
        of = feature["properties"]
        state, name = of["metadata"]["Error"], of["classification"]["name"].split(":")[0]
        colour = "#" + bytes(of["classification"]["color"]).hex()
        told.append((name, state, of["name"], of["measurements"]))
        is_named = {"False negative": "missed", "False positive": "spurious"}.get(name, name.lower().replace(" ", "_"))
        assert (feature["type"], of["objectType"], colour) == ("Feature", "detection", STATE_COLOURS[is_named])
    assert told == [
        ("Matched", "none", "small", {"Area px^2": 3, "IoU": 1}),
        ("False negative", "missed", "small", {"Area px^2": 3}),
        ("Wrong class", "wrong class", "small", {"Area px^2": 3, "IoU": 1}),
        ("Wrong class", "wrong class", "LARGE", {"Area px^2": 3, "IoU": 1}),
        ("Matched", "none", "small", {"Area px^2": 3, "IoU": 1}),
        ("False positive", "spurious", "small", {"Area px^2": 3}),
    ]


def test_shapes_are_valid_and_cover_the_pixels() -> None:
    """A hole, two parts, and two parts that touch at a corner."""
    reference = "aaa..b.\na.a...b\naaa....\n...c..b"
    shapes = [shapely.geometry.shape(f["geometry"]) for f in features_of(judged_case(reference, reference))]
    assert all(shape.is_valid for shape in shapes)
    assert [shape.area for shape in shapes] == [8, 3, 1] * 2
    assert [shape.geom_type for shape in shapes] == ["Polygon", "MultiPolygon", "Polygon"] * 2
    assert shapes[0].bounds == (0, 0, 3, 3) and shapes[2].bounds == (3, 3, 4, 4)


def test_regions_are_annotations() -> None:
    region = features_of(judged_case("##..\n#.aa", "....\n..aa", "clip"))[0]
    assert region["properties"]["objectType"] == "annotation"
    assert shapely.geometry.shape(region["geometry"]).area == 3


def test_the_iou_of_a_pair_stands_although_a_piece_beside_it_has_another() -> None:
    told = [
        (f["properties"]["metadata"]["Error"], f["properties"]["measurements"]["IoU"])
        for f in features_of(judged_case("aaaaaaaaaa", "dddddd.eee"))
    ]
    assert told == [("none", 0.6), ("none", 0.6), ("split", 0.3)]


@given(st.integers(1, 4000), st.integers(1, 4000), st.data())
@settings(max_examples=200, deadline=None)
def test_views_hold_their_box_and_stay_in_the_image(height: int, width: int, data: st.DataObject) -> None:
    y0, x0 = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    y1, x1 = data.draw(st.integers(y0 + 1, height)), data.draw(st.integers(x0 + 1, width))
    view = Window.around((y0, x0, y1, x1), (height, width), 256)
    assert 0 <= view.y0 <= y0 and y1 <= view.y1 <= height
    assert 0 <= view.x0 <= x0 and x1 <= view.x1 <= width
    assert max(view.y1 - view.y0, view.x1 - view.x0) <= 256 * view.step


# --- the second pass over a scored submission, from files to pictures -------------------------------------------------


TEAM = "finder"
ENDS = (".geojson", "_prediction.tif", "_reference.tif")


@pytest.fixture(scope="module")
def scored(demo: DemoPaths) -> Result:
    return score_submission(demo.challenge, demo.submissions[TEAM], workers=1)


@pytest.fixture(scope="module")
def seen(demo: DemoPaths, tmp_path_factory: pytest.TempPathFactory) -> SecondPass:
    names, overlays = ["P3_2", "P1_1", "no such case", "P3_2"], tmp_path_factory.mktemp("overlays")
    return illustrate_cases(demo.challenge, demo.submissions[TEAM], drawn=names, overlays=overlays, workers=1)


@pytest.fixture(scope="module")
def overlays(seen: SecondPass) -> Path:
    """The folder that the second pass has filled."""
    return seen.files[0].parent


def rows_of(result: Result) -> list[dict[str, str]]:
    return [row for row in csv.DictReader(io.StringIO(result.objects)) if row["rule"] == "iou_above"]


def test_the_rows_of_scenes_are_those_of_objects_csv(seen: SecondPass, scored: Result) -> None:
    assert [*seen.scenes] == ["P1_1", "P3_2"]
    for name, scene in seen.scenes.items():
        rows = [row for row in rows_of(scored) if row["case"] == name]
        for side, texts in (("reference", scene.reference), ("prediction", scene.prediction)):
            areas = [int(row[f"{side}_area_px"] or 0) for row in rows]
            assert [area_of(text) for text in texts] == areas
        assert {row["kind"] for row in rows if row["outcome"] == "matched"} <= {"right", "wrong_class"}


def area_of(text: str) -> int:
    """Pixels inside an outline as the page has it, by the shoelace formula."""
    twice = 0
    for ring in filter(None, text.split(";")):
        x, y, *sides = map(int, ring.split(" "))
        corners = [(x, y)]
        for turn, length in enumerate(sides):
            x, y = (x, y + length) if turn % 2 else (x + length, y)
            corners.append((x, y))
        assert x == corners[0][0] or y == corners[0][1]  # the last side leads back
        twice += sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in zip(corners, [*corners[1:], corners[0]], strict=True))
    return twice // 2


def test_an_outline_has_its_hole() -> None:
    labels = np.zeros((90, 150), np.int64)
    labels[3:80, 5:140] = 1
    labels[10:70, 20:100] = 0
    (text,) = outline_texts(instances_from_labels(labels), np.array([True]))
    assert area_of(text) == 77 * 135 - 60 * 80


def test_the_errors_of_every_case_are_sorted(seen: SecondPass, scored: Result) -> None:
    for errors, case in zip(seen.errors, scored.cases, strict=True):
        assert errors.case == case.case
        np.testing.assert_array_equal(errors.counts.confusion, case.counts["iou_above"].confusion)
        assert errors.reference.sum() == len(case.reference.class_id)


def test_of_a_large_case_the_worst_nuclei_have_windows(tmp_path: Path) -> None:
    labels = np.zeros((1500, 2100), np.int64)
    for number, (y, x) in enumerate([(100, 100), (700, 900), (1300, 2000), (50, 1900)], start=1):
        labels[y : y + 10 * number, x : x + 10 * number] = number
    case = judged(challenge_of(), prepared_of(labels), None)  # all are missed
    scene = scene_of(case, None, 2 * WINDOW_PX**2)
    assert not scene.is_whole
    assert [(0 <= of.y0 <= y and y + size <= of.y1, 0 <= of.x0 <= x and x + size <= of.x1)
            for of, (y, x, size) in zip(scene.windows, [(50, 1900, 40), (1300, 2000, 30)], strict=True)] == [
        (True, True)] * 2  # fmt: skip
    assert [bool(text) for text in scene.reference] == [False, False, True, True]
    (tmp_path / "tissue.png").write_bytes(png_encode(np.zeros((1500, 2100, 3), np.uint8)))
    half = scene_of(case, tmp_path / "tissue.png", 750 * 1050)
    assert half.is_whole and webp_decode(half.windows[0].webp).shape == (750, 1050, 3)


def test_label_images_give_both_nuclei_of_a_pair_the_same_number() -> None:
    case = judged_case("aaa.bb..", "ccc....d")
    reference, prediction = (tifffile.imread(io.BytesIO(content)) for content in label_tiffs(case).values())
    assert reference.tolist() == [[1, 1, 1, 0, 2, 2, 0, 0]]
    assert prediction.tolist() == [[1, 1, 1, 0, 0, 0, 0, 4]]


def test_workers_change_no_byte(demo: DemoPaths, seen: SecondPass, overlays: Path, tmp_path: Path) -> None:
    again = illustrate_cases(
        demo.challenge, demo.submissions[TEAM], drawn=["P3_2", "P1_1"], overlays=tmp_path, workers=2
    )
    assert tuple(overlays / path.name for path in again.files) == seen.files
    assert sorted(seen.files) == sorted(overlays.iterdir())
    for name, scene in seen.scenes.items():
        other = again.scenes[name]
        assert (other.windows, other.reference, other.prediction) == (scene.windows, scene.reference, scene.prediction)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in overlays.iterdir()
    }


def test_our_own_reader_reads_an_overlay_back(overlays: Path, seen: SecondPass, scored: Result, tmp_path: Path) -> None:
    """As QuPath sees it: classes are what became of the nuclei."""
    names = ["Matched: reference", "Matched: prediction", "False negative", "False positive", "Wrong class: reference",
             "Wrong class: prediction", "Ignored", "Ignore region", "Contested"]  # fmt: skip
    source = overlays / "P1_1.geojson"
    target = ["--to", "geojson", "--classes", ",".join(names)]
    assert run(["convert", str(source), str(tmp_path / "drawn.geojson"), *target]) == 0
    features = json.loads((tmp_path / "drawn.geojson").read_text())["features"]
    row = Counter(feature["properties"]["classification"]["name"] for feature in features)
    (case,) = (case for case in scored.cases if case.case.name == "P1_1")
    counts = case.counts["iou_above"]
    right = int(np.trace(counts.confusion))
    assert int(row["False negative"]) == counts.false_negatives
    assert int(row["Matched: reference"]) == int(row["Matched: prediction"]) == right
    assert int(row["Wrong class: prediction"]) == counts.true_positives - right
    assert int(row["False positive"]) == counts.false_positives
    assert int(row["Ignored"]) == case.ignored_predictions == 1


def test_shapes_of_an_overlay_are_valid_and_have_the_areas_of_objects_csv(overlays: Path, scored: Result) -> None:
    rows = [row for row in rows_of(scored) if row["case"] == "P2_1"]
    features = json.loads((overlays / "P2_1.geojson").read_bytes())["features"]
    shapes = {f["id"]: shapely.geometry.shape(f["geometry"]) for f in features if "id" in f}
    assert all(shape.is_valid for shape in shapes.values())
    assert {f"{side} {row[f'{side}_id']}": float(row[f"{side}_area_px"])
            for row in rows for side in ("reference", "prediction") if row[f"{side}_id"]} == {
        name: shape.area for name, shape in shapes.items()
    }  # fmt: skip


def tiny(bench: Bench) -> tuple[str, str]:
    """A challenge of two cases of 20 x 30 px and a perfect submission, in the working directory."""
    bench.make("geojson outlines")
    return "challenge", "submission"


@pytest.mark.parametrize("name, images, is_shown", [
    *((f"{folder}/case_017.png", None, True) for folder in ("challenge/images", "challenge/images/P1", "REFERENCE")),
    *((f"pictures/{name}", Path("pictures"), True) for name in ("case_017.png", "P1/case_017.png")),
    ("challenge/images/case_017.png", Path("challenge/reference"), False),  # a folder is given: nowhere else
])  # fmt: skip
def test_an_image_is_found_and_shown(bench: Bench, name: str, images: Path | None, is_shown: bool) -> None:
    folders = tiny(bench)
    (reference,) = {path.parent for path in Path("challenge").rglob("case_017.geojson")}
    bench.write(name.replace("REFERENCE", str(reference)), np.full((20, 30, 3), (10, 200, 90), np.uint8))
    seen = illustrate_cases(*folders, drawn=["case_017", "case_018"], images=images)
    assert [has_tissue(seen, name) for name in ("case_017", "case_018")] == [is_shown, False]
    assert not seen.findings
    if is_shown:
        pixels = webp_decode(seen.scenes["case_017"].windows[0].webp)
        assert pixels.shape == (20, 30, 3) and abs(pixels.astype(int) - (10, 200, 90)).max() < 5


def has_tissue(seen: SecondPass, name: str = "case_017") -> bool:
    return any(window.webp for window in seen.scenes[name].windows)


DAMAGED = bytearray(png_encode(np.zeros((20, 30, 3), np.uint8)))
DAMAGED[-20] ^= 255


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"II*\0\x08\0\0\0\xff\xff", bytes(DAMAGED)])
def test_an_image_that_cannot_be_read_is_told_once_and_left_out(bench: Bench, content: bytes) -> None:
    folders = tiny(bench)
    bench.write(f"challenge/images/case_017.{'png' if content[1:4] == b'PNG' else 'tif'}", content)
    seen = illustrate_cases(*folders, drawn=["case_017"], overlays=Path("out"))
    assert [finding.code for finding in seen.findings] == ["image-left-out"]
    assert not has_tissue(seen)


def test_label_images_of_the_reference_are_no_images_of_tissue(bench: Bench) -> None:
    bench.make("label_image class map png", reference={"files": "{case}.png", "class_map": "{case}_class.png"})
    challenge = Challenge.load("challenge")
    assert find_images(challenge, Path("challenge")) == {}
    bench.write("challenge/images/case_018.TIF", np.zeros((20, 30), np.uint8))
    assert find_images(challenge, Path("challenge")) == {"case_018": Path("challenge/images/case_018.TIF")}


# --- other challenges, other submissions ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["points_csv", "coco_json shared", "rle_csv"])
def test_other_kinds_of_nuclei_are_drawn(bench: Bench, kind: str) -> None:
    bench.make(kind)
    seen = illustrate_cases("challenge", "submission", drawn=["case_017"], overlays=Path("out"))
    scene = seen.scenes["case_017"]
    assert any(map(all, zip(scene.reference, scene.prediction, strict=True)))
    assert all(map(any, zip(scene.reference, scene.prediction, strict=True)))
    ends = ENDS if "points" not in kind else ENDS[:1]
    written = sorted(path.name for path in Path("out").iterdir())
    assert written == sorted(f"case_01{i}{end}" for i in "78" for end in ends)


def test_of_numbers_of_nuclei_there_are_no_pictures(tmp_path: Path) -> None:
    for folder in ("challenge/reference", "submission"):
        write_files(tmp_path / folder, {"counts.csv": "case,small\na,3\n"})
    rules = small_document({"format": "counts_csv", "files": "counts.csv"}, classes=["small"], families=["counting"])
    write_rules({**rules, "cases": [Case("a", "a", 9, 9)]}, tmp_path / "challenge")
    seen = illustrate_cases(tmp_path / "challenge", tmp_path / "submission", drawn=["a"], overlays=tmp_path / "o")
    assert seen.scenes == {} and seen.files == seen.errors == ()


def test_a_case_that_was_not_submitted_is_all_missed_and_said_so(demo: DemoPaths, tmp_path: Path) -> None:
    shutil.copytree(demo.submissions[TEAM], tmp_path / "team")
    shutil.rmtree(tmp_path / "team/P2/P2_1")
    seen = illustrate_cases(demo.challenge, tmp_path / "team", drawn=["P2_1"], workers=1)
    scene = seen.scenes["P2_1"]
    assert all(scene.reference) and len(scene.reference) > 20
    assert not any(scene.prediction)


def test_faults_are_raised_as_when_it_is_scored(bench: Bench) -> None:
    challenge, submission = tiny(bench)
    original = Path(submission, "case_017.geojson").read_bytes()
    Path(submission, "case_017.geojson").write_bytes(b"{")
    with pytest.raises(SubmissionRejected, match="not-json"):
        illustrate_cases(challenge, submission)
    Path(submission, "case_017.geojson").write_bytes(original)
    (reference,) = Path(challenge).rglob("case_018.geojson")
    reference.write_bytes(b"{")
    with pytest.raises(ChallengeBroken, match="not-json"):
        illustrate_cases(challenge, submission)


# --- real data --------------------------------------------------------------------------------------------------------


def test_real_tissue_lies_under_the_outlines(shared_data: Path, tmp_path: Path) -> None:
    """P1_1 was made of A9K0_1: inside the outlines lie nuclei, which haematoxylin makes dark."""
    challenge = tmp_path / "challenge"
    shutil.copytree(shared_data / "monusac_challenge/ground_truth", challenge, copy_function=shutil.copyfile)
    (challenge / "challenge.toml").write_text('format_version = 1\nname = "real"\npreset = "monusac2020"\n')
    (challenge / "images/P1").mkdir(parents=True)
    slide = shared_data / "monusac/A9K0_1.svs"
    (challenge / "images/P1/P1_1.svs").symlink_to(slide)
    (challenge / "images/P1_2.svs").symlink_to(shared_data / "monusac/A9K0_3.svs")  # another image
    submission = shared_data / "monusac_challenge/submission"
    seen = illustrate_cases(challenge, submission, drawn=["P1_1", "P1_2"], overlays=tmp_path / "out", workers=1)
    assert [finding.where for finding in seen.findings] == ["case 'P1_2', 'P1_2.svs'"]

    whole = tifffile.imread(slide, key=0).astype(int)
    features = json.loads((tmp_path / "out/P1_1.geojson").read_bytes())["features"]
    epithelial = [
        f for f in features if f["properties"].get("name") == "Epithelial" and f["id"].startswith("reference")
    ]
    assert len(epithelial) > 250
    centres = [shapely.geometry.shape(f["geometry"]).representative_point() for f in epithelial]
    inside = np.array([whole[int(point.y), int(point.x)].sum() for point in centres])
    assert np.median(inside) < 0.75 * np.median(whole.sum(axis=2))
    alone = {"False negative", "Ignored"}  # nuclei of the reference without a prediction
    missed = [f for f in features
              if f["properties"]["classification"]["name"] in alone and f["id"].startswith("reference")]  # fmt: skip
    sides = zip(seen.scenes["P1_1"].reference, seen.scenes["P1_1"].prediction, strict=True)
    assert len(missed) == sum(bool(reference) and not prediction for reference, prediction in sides)
