"""``evaluation convert``: what was written is read again as the same nuclei."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shlex
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tifffile
from every_format import SIDES, write_challenge, write_files
from hypothesis import given
from hypothesis import strategies as st
from made_counts import counts_of
from scipy.io import savemat
from test_results_files import full_after

from evaluation.commands.main import run
from evaluation.files.formats.detect import Detected, detect_format
from evaluation.files.results.documents import objects_csv
from evaluation.findings.errors import ConversionRefused, WrongUsage
from evaluation.folders import convert
from evaluation.folders.convert import TARGETS, convert_challenge, convert_file, is_soon_looked_at
from evaluation.scoring import rasterise
from evaluation.scoring.rasterise import label_pages
from nuclei_metrics.model import Case, CaseResult, Instances, Matches, ObjectList

LABELS = np.zeros((12, 15), np.uint16)
LABELS[1:5, 1:6], LABELS[6:11, 2:9], LABELS[0:3, 9:14] = 1, 2, 7


def contents(folder):
    """Every file below a folder."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def label_tiff(tmp_path):
    tifffile.imwrite(tmp_path / "case.tif", LABELS)
    return tmp_path / "case.tif"


def test_labels_become_outlines_and_the_same_labels_again(label_tiff, tmp_path):
    """As QuPath would get them, and back; ids stay."""
    (geojson,) = convert_file(label_tiff, tmp_path / "out.geojson", "geojson").files
    (polygons,) = convert_file(geojson, tmp_path / "polygons", "platform").files
    how = {"format": "polygons_json", "size_yx": LABELS.shape}
    back, _ = convert_file(polygons, tmp_path / "back", "label_tiff", **how).files
    assert np.array_equal(tifffile.imread(back) > 0, LABELS > 0)
    assert len(np.unique(tifffile.imread(back))) == 4
    same, _ = convert_file(geojson, tmp_path / "same", "label_tiff", size_yx=LABELS.shape).files
    assert np.array_equal(tifffile.imread(same), LABELS)


def test_an_origin_moves_outlines_by_half_a_pixel_and_no_pixel(label_tiff, tmp_path):
    (corner,) = convert_file(label_tiff, tmp_path / "corner", "geojson").files
    (centre,) = convert_file(label_tiff, tmp_path / "centre", "geojson", origin="pixel_centre").files
    first, second = (json.loads(path.read_text())["features"][0]["geometry"] for path in (corner, centre))
    assert (np.array(first["coordinates"]) - np.array(second["coordinates"]) == 0.5).all()
    options = {"origin": "pixel_centre"}
    back, _ = convert_file(centre, tmp_path / "back", "label_tiff", options=options, size_yx=LABELS.shape).files
    assert np.array_equal(tifffile.imread(back), LABELS)


@pytest.mark.parametrize(("holds", "wanted", "is_packed"), [
    ("label_tiff", "nary_mat", False), ("geojson", "nary_mat", False), ("geojson", "nary_mat", True),
    ("nary_mat", None, False),
])  # fmt: skip
def test_a_rejected_submission_of_another_format_is_told_with_the_call_that_helps(
    holds, wanted, is_packed, own_demo, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    submission = own_demo.submissions["namer"]
    if wanted is not None:
        convert_challenge(own_demo.challenge, submission, tmp_path / "other files", holds, overlap="last")
        submission = Path("other files")
        if is_packed:
            submission = Path(shutil.make_archive("packed", "zip", submission))
    else:
        next(submission.rglob("*.mat")).write_bytes(b"damaged")
    assert run(["validate", "--challenge", str(own_demo.challenge), "--submission", str(submission)]) == 1
    told = capsys.readouterr().err
    if wanted is None:
        assert "It contains" not in told
        return
    format = "label_image" if holds == "label_tiff" else holds
    assert f"It contains 8 images as {format}; expected: nary_mat." in told
    call = re.search(r"evaluation (convert .*)", told)[1]
    call = call.replace("HEIGHTxWIDTH", "280x330").replace("OUTPUT", "made.mat")
    if is_packed:
        assert "Unpack the ZIP. In its folder this converts a file: " in told
        monkeypatch.chdir("other files")
    assert run(shlex.split(call)) == 0
    assert [*Path().glob("made_*.mat")]


def test_of_a_submission_that_can_be_scored_no_file_is_looked_at_again(demo, monkeypatch):
    monkeypatch.setattr("evaluation.folders.convert.with_other_format", None)
    submission = str(demo.submissions["finder"])
    assert run(["validate", "--challenge", str(demo.challenge), "--submission", submission]) == 0


def test_a_rejected_submission_is_looked_at_again_only_if_it_is_small(demo, tmp_path, monkeypatch):
    names = [path.relative_to(demo.challenge).as_posix() for path in demo.challenge.rglob("*")]
    whole = sum(path.stat().st_size for path in demo.challenge.rglob("*") if path.is_file())
    packed = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", demo.challenge))
    few, single = demo.challenge, demo.challenge / "cases.csv"
    monkeypatch.setattr(convert, "LOOKED_AT_FILES", len(names))
    monkeypatch.setattr(convert, "LOOKED_AT_BYTES", whole)
    assert [*map(is_soon_looked_at, (few, packed, single))] == [True] * 3
    monkeypatch.setattr(convert, "LOOKED_AT_BYTES", whole - 1)
    assert [*map(is_soon_looked_at, (few, packed, single))] == [True, False, True]
    monkeypatch.setattr(convert, "LOOKED_AT_FILES", len(names) - 1)
    assert [*map(is_soon_looked_at, (few, packed, single))] == [False, False, True]
    asked = []
    monkeypatch.setattr("evaluation.folders.look.look", lambda *of: asked.append(of))
    assert run(["validate", "--challenge", str(demo.challenge), "--submission", str(few)]) == 1
    assert not asked


def test_an_image_without_nuclei_is_written_in_every_format(tmp_path):
    """n-ary masks have a file for each class that is there; without any, nothing was written, and nothing said."""
    tifffile.imwrite(tmp_path / "empty.tif", LABELS * 0)
    for target in TARGETS:
        written = convert_file(tmp_path / "empty.tif", tmp_path / target, target).files
        assert len(written) == 1 + (target == "label_tiff")
    (mask,) = convert_file(tmp_path / "nary_mat_nucleus.mat", tmp_path / "back", "nary_mat").files
    assert mask.name == "back_nucleus.mat"


def test_what_is_replaced_is_told_and_the_source_is_never_replaced(label_tiff, tmp_path, capsys):
    """Neither are two outputs one whose names differ behind a dot."""
    before, arguments = label_tiff.read_bytes(), ["convert", str(label_tiff)]
    for name in ("slide.1", "slide.2"):
        assert run([*arguments, str(tmp_path / name), "--to", "geojson"]) == 0
        assert capsys.readouterr().out == f"Written: {tmp_path / name}.geojson\n"
    assert run([*arguments, str(tmp_path / "slide.2.geojson"), "--to", "geojson"]) == 0
    assert capsys.readouterr().out == f"Replaced: {tmp_path / 'slide.2.geojson'}\n"
    for name in ("case.tif", "case"):
        assert run([*arguments, str(tmp_path / name), "--to", "label_tiff"]) == 2
        assert "[file-exists] OUTPUT: the output is also the source" in capsys.readouterr().err
    assert label_tiff.read_bytes() == before
    assert not (tmp_path / "case_class.tif").exists()


def test_of_a_challenge_all_cases_are_written_or_none(tmp_path):
    challenge, _ = write_challenge("aperio_xml", tmp_path)
    files = sorted((challenge / "reference").rglob("*.xml"))
    assert len(convert_challenge(challenge, None, tmp_path / "all", "geojson").replaced) == 0
    again = convert_challenge(challenge, None, tmp_path / "all", "geojson")
    assert again.replaced == {*again.files}
    assert len(files) > 1
    files[-1].write_text("<")
    with pytest.raises(ConversionRefused):
        convert_challenge(challenge, None, tmp_path / "out", "geojson")
    assert not (tmp_path / "out").exists()


def test_into_the_folder_of_the_source_go_files_of_other_names(tmp_path):
    challenge, submission = write_challenge("geojson outlines", tmp_path)
    before = contents(tmp_path)
    for source, folder in ((None, challenge / "reference"), (submission, submission)):
        assert len(convert_challenge(challenge, source, folder, "label_tiff").files) == 6
    after = contents(tmp_path)
    assert {path: after[path] for path in before} == before
    assert len(after) == len(before) + 12


SAME = ("", "")
MOVED = [
    ("geojson outlines", ("reference/{", "labels/{"), "challenge/reference", "challenge/labels"),
    ("geojson outlines", ('"{case}', '"x/{case}'), "submission", "predicted/x"),
    ("geojson outlines", SAME, "submission", "predicted/results"),  # a folder round all files is looked through
    ("label_image class map tif", SAME, "submission", "predicted"),
    ("midog_json shared", ("all.json", "c1.json"), "challenge/reference/all.json", "challenge/reference/c1.json"),
    ("midog_json shared", ('"all.json"', '"c1.json"'), "submission/all.json", "predicted/c1.json"),
]


@pytest.mark.parametrize("moved, source, output, target", [
    (MOVED[0], None, "challenge/labels", "geojson"),
    (MOVED[1], "predicted", "predicted/x", "geojson"),
    (MOVED[2], "predicted", "predicted/results", "geojson"),
    (MOVED[2], "predicted", "link/results", "geojson"),
    (MOVED[3], None, "challenge/reference", "label_tiff"),  # the label images
    (MOVED[3], "predicted", "predicted", "label_tiff"),
    (MOVED[4], None, "challenge/reference", "platform"),
    (MOVED[5], "predicted", "predicted", "platform"),
])  # fmt: skip
def test_no_file_of_the_source_is_replaced(moved, source, output, target, tmp_path):
    """Wherever the rules say that it lies."""
    kind, names, before, after = moved
    challenge, _ = write_challenge(kind, tmp_path)
    rules = challenge / "challenge.toml"
    rules.write_text(rules.read_text().replace(*names))
    (tmp_path / after).parent.mkdir(exist_ok=True)
    (tmp_path / before).rename(tmp_path / after)
    (tmp_path / "link").symlink_to(tmp_path / "predicted")
    there = contents(tmp_path)
    with pytest.raises(WrongUsage, match=r"file-exists.*the output is also the source"):
        convert_challenge(challenge, source and tmp_path / source, tmp_path / output, target)
    assert contents(tmp_path) == there


def test_a_folder_in_the_place_of_a_file_leaves_all_as_it_was(label_tiff, tmp_path):
    challenge, _ = write_challenge("geojson outlines", tmp_path)
    (tmp_path / "out" / "c2.geojson").mkdir(parents=True)
    (tmp_path / "out" / "c1.geojson").write_text("of before")
    before = contents(tmp_path)
    with pytest.raises(WrongUsage, match=r"file-exists.*c2.geojson': a folder"):
        convert_challenge(challenge, None, tmp_path / "out", "geojson")
    with pytest.raises(WrongUsage, match=r"file-exists.*c2.geojson': a folder"):
        convert_file(label_tiff, tmp_path / "out" / "c2", "geojson")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("number", [0, 2])
def test_a_full_disk_leaves_all_as_it_was(there, number, tmp_path, monkeypatch, capsys):
    challenge, _ = write_challenge("geojson outlines", tmp_path)
    if there:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "c1.geojson").write_text("of before")
    before = contents(tmp_path)
    full_after(monkeypatch, number)
    arguments = ["--challenge", str(challenge), "reference", str(tmp_path / "out"), "--to", "geojson"]
    assert run(["convert", *arguments]) == 70
    assert "no space left on device" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_a_conversion_needs_no_room_elsewhere_than_in_its_output(tmp_path, monkeypatch):
    challenge, _ = write_challenge("geojson outlines", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert len(convert_challenge(challenge, None, tmp_path / "new" / "out", "geojson").files) == 3
    assert sorted(path.name for path in (tmp_path / "new").rglob("*")) == [*(f"c{n}.geojson" for n in (1, 2, 3)), "out"]


def test_points_stay_points_and_count_from_where_is_said(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,class\n3,2.5,a\n")
    for origin, expected in (("pixel_centre", [3.0, 2.5]), ("pixel_corner", [3.5, 3.0])):
        options = {"options": {"origin": "pixel_centre"}, "origin": origin}
        (points,) = convert_file(tmp_path / "a.csv", tmp_path / "points", "platform", **options).files
        assert [point["point"][:2] for point in json.loads(points.read_text())["points"]] == [expected]


def test_what_is_not_known_is_told(label_tiff, tmp_path, capsys):
    (geojson,) = convert_file(label_tiff, tmp_path / "a", "geojson").files
    with pytest.raises(WrongUsage, match=r"missing-option.*--size HEIGHTxWIDTH"):
        convert_file(geojson, tmp_path / "b", "label_tiff")
    with pytest.raises(WrongUsage, match=r"unknown-format.*Did you mean 'geojson'"):
        convert_file(geojson, tmp_path / "b", "geojson", format="geojsn")
    text = tmp_path / "x.json"
    text.write_text("[1, 2]")
    with pytest.raises(WrongUsage, match=r"unknown-format.*Name the format with --from"):
        convert_file(text, tmp_path / "b", "geojson")
    with pytest.raises(WrongUsage, match=r"invalid-rule.*--set units"):
        convert_file(geojson, tmp_path / "b", "geojson", format="polygons_json", options={"units": "inch"})
    arguments = ["convert", str(geojson), str(tmp_path / "c")]
    assert run([*arguments, "--to", "geojsn"]) == 2
    assert run([*arguments, "--to", "label_tiff", "--size", "12"]) == 2
    assert run([*arguments, "--to", "label_tiff", "--set", "unit=px"]) == 2
    assert capsys.readouterr().err.count("[") >= 3
    assert run([*arguments, "--to", "label_tiff", "--size", "12x15"]) == 0
    geojson.write_text('{"type": "FeatureCollection", "features": [')
    assert run([*arguments, "--to", "label_tiff", "--size", "12x15"]) == 1
    assert capsys.readouterr().err.startswith("Cannot convert: [not-json]")


NAMES = ["Epithelial", "Epithelial", "Lymphocyte"]


@pytest.mark.parametrize("kind", SIDES)
def test_any_format_becomes_any_other(kind, tmp_path):
    """The example submissions of a challenge, converted: the same number of nuclei of each class in each case."""
    challenge, submission = write_challenge(kind, tmp_path)
    for source, name in ((submission, "submission"), (None, "reference")):
        for target in TARGETS if source else ["platform"]:
            points, output = "points" in kind or kind.startswith("midog"), tmp_path / "converted" / name / target
            if points and target != "platform":
                with pytest.raises(ConversionRefused, match="unsupported-shape"):
                    convert_challenge(challenge, source, output, target)
                continue
            done = convert_challenge(challenge, source, output, target)
            assert done.files and done.findings == ()
            if target == "platform":
                lists = [json.loads(path.read_text())["points" if points else "polygons"] for path in done.files]
                assert [sorted(item["name"] for item in items) for items in lists] == [NAMES] * 3


# --- nothing is lost without a word -----------------------------------------------------------------------------------


def square(x, y, name="a", side=3):
    ring = [[x, y], [x + side, y], [x + side, y + side], [x, y + side], [x, y]]
    geometry = {"type": "Polygon", "coordinates": [ring]}
    return {"type": "Feature", "geometry": geometry, "properties": {"classification": {"name": name}}}


def write_features(path, *features):
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def codes(found):
    return [finding.code for finding in found.findings]


def test_warnings_of_the_reader_are_printed_behind_what_was_written(tmp_path, capsys):
    crowd = {"image_id": 1, "iscrowd": 1, "segmentation": [[5, 5, 8, 5, 8, 8]]}
    single = {"image_id": 1, "segmentation": [[1, 1, 4, 1, 4, 4]]}
    (tmp_path / "crowd.json").write_text(json.dumps({"images": [{"id": 1}], "annotations": [crowd, single]}))
    arguments = ["convert", str(tmp_path / "crowd.json"), str(tmp_path / "out"), "--from", "coco_json", "--to"]
    assert run([*arguments, "geojson"]) == 0
    written, warning = capsys.readouterr().out.splitlines()
    assert written.startswith("Written: ")
    assert warning.startswith("[left-out] 'crowd.json', annotations[0]: a crowd")
    (tmp_path / "crowd.json").write_text(json.dumps({"images": [{"id": 1}], "annotations": [crowd]}))
    assert run([*arguments, "platform"]) == 1
    assert "no nuclei; 1 annotation was ignored" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("target", ["label_tiff", "nary_mat"])
def test_nuclei_on_no_pixel_are_counted_and_a_file_without_any_is_refused(target, tmp_path):
    some = write_features(tmp_path / "some.geojson", square(1, 1), square(50, 1), square(5, 5, side=0.2))
    done = convert_file(some, tmp_path / "some", target, size_yx=(10, 12))
    (finding,) = done.findings
    assert str(finding).startswith(
        "[outside-image] case 'some': 2 of 3 nuclei are outside the image or cover no pixel; "
        "expected x below 12 and y below 10, in px."
    )
    none = write_features(tmp_path / "none.geojson", square(50, 1), square(1, 50))
    with pytest.raises(ConversionRefused, match=r"everything-outside.*'none.geojson': all 2 nuclei"):
        convert_file(none, tmp_path / "none", target, size_yx=(10, 12))
    assert not list(tmp_path.glob("none*[!n]"))
    assert convert_file(none, tmp_path / "kept", "platform", size_yx=(10, 12)).findings == ()  # outlines stay
    empty = write_features(tmp_path / "empty.geojson")
    assert codes(convert_file(empty, tmp_path / "empty", target, size_yx=(10, 12))) == []


def test_a_size_that_is_made_up_is_never_shown(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,1\n-9,1\n")
    (finding,) = convert_file(tmp_path / "a.csv", tmp_path / "a", "platform").findings
    assert (finding.code, finding.expected) == ("outside-image", "x and y of 0 or more, in px")


def test_nuclei_that_others_cover_are_told(tmp_path):
    source = write_features(tmp_path / "a.geojson", square(2, 2), square(1, 1, side=6))
    with pytest.raises(ConversionRefused, match=r"overlap-in-label-map.* The option is --overlap\."):
        convert_file(source, tmp_path / "a", "label_tiff", size_yx=(10, 10))
    done = convert_file(source, tmp_path / "a", "label_tiff", size_yx=(10, 10), overlap="last")
    assert codes(done) == ["left-out"]
    assert "1 of 2 nuclei, without a pixel left under other nuclei" in str(done.findings[0])
    assert codes(convert_file(source, tmp_path / "a", "label_tiff", size_yx=(10, 10), overlap="first")) == []


def test_nuclei_without_a_class_are_not_counted_as_none(tmp_path):
    nameless = square(6, 6)
    nameless["properties"] = {}
    source = write_features(tmp_path / "a.geojson", square(1, 1), nameless)
    with pytest.raises(ConversionRefused, match=r"instance-without-class.*1 of 2 nuclei.*--classes"):
        convert_file(source, tmp_path / "a", "nary_mat", class_names=["a", "b"], size_yx=(12, 12))
    written = convert_file(source, tmp_path / "a", "nary_mat", size_yx=(12, 12)).files
    assert [path.name for path in written] == ["a_a.mat", "a_nucleus.mat"]


def test_classes_that_no_challenge_names_come_in_the_order_of_the_file(tmp_path):
    names = ["stroma", "tumour", "lymphocyte", "Other (x)", "plasma", "b", "a", "necrosis", "fat"]
    features = [square(5 * index, 1, name) for index, name in enumerate([*names, *names[::-1]])]
    source = write_features(tmp_path / "a.geojson", *features)
    done = convert_file(source, tmp_path / "a", "label_tiff", size_yx=(9, 99))
    assert list(done.classes) == names
    numbers, counts = np.unique(tifffile.imread(done.files[1]), return_counts=True)
    assert (numbers.tolist(), set(counts[1:])) == ([*range(10)], {18})


def test_a_challenge_none_of_whose_nuclei_lie_in_an_image_is_refused(tmp_path, capsys):
    challenge, submission = write_challenge("geojson outlines", tmp_path)
    away = json.dumps({"type": "FeatureCollection", "features": [square(500, 500, "Epithelial")]})
    (submission / "c1.geojson").write_text(away)
    arguments = ["convert", "--challenge", str(challenge), str(submission), str(tmp_path / "out"), "--to", "label_tiff"]
    assert run(arguments) == 0
    said = capsys.readouterr().out
    assert said.count("Written: ") == 6
    assert "[outside-image] case 'c1': 1 of 1 nucleus is outside the image" in said
    (submission / "c2.geojson").write_text(away)
    write_features(submission / "c3.geojson")
    arguments[4] = str(tmp_path / "nothing")
    assert run(arguments) == 1
    assert "[everything-outside] submission: all 2 nuclei" in capsys.readouterr().err
    assert not list((tmp_path / "nothing").glob("*"))


# --- files of images --------------------------------------------------------------------------------------------------

RLE = {"pixel_order": "row", "first_pixel": 0}


def coded(*names, more=""):
    rows = [f"{name},{code}{more}" for name, code in zip(names, ("0 3", "12 2"), strict=True)]
    return "\n".join([f"ImageId,EncodedPixels{',Height,Width' * bool(more)}", *rows, ""])


def channels(number, images=1):
    """A nucleus with the id 1 in the first channel and 2 in the second: an id and a class, or two nuclei."""
    array = np.zeros((images, 4, 6, number), np.int32)
    array[:, 1:3, 1:4, :2] = [1, 2]
    return array


COCO = {"images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.png"}], "annotations": []}
NUMBERS = {"options": {"class_values": {"a": 1, "b": 2}}}
OF_IMAGES = {  # one image: how many nuclei it has; several are refused by their number
    "rle_csv": (coded("x.png", "x.png", more=",4,6"), 2, coded("x", "y"), "2 images: 'x' and 'y'", {"options": RLE}),
    "points_csv": ("case,x,y\nA,1,2\nA,3,4\n", 2, "case,x,y\nA,1,2\nB,3,4\n", "2 images", {}),
    "points_csv of no name": ("x,y\n1,2\n", 1, None, "", {}),
    "coco_json": (None, 0, COCO, "2 images", {}),
    "conic_array": (channels(2), 1, channels(2, 3), "3 images", NUMBERS),
    "pannuke_masks": (channels(3), 2, channels(3, 3), "3 images", {"options": {"class_values": {"a": 0, "b": 1}}}),
}


@pytest.mark.parametrize("kind", OF_IMAGES)
def test_a_file_of_one_image_is_taken_whatever_its_name_and_one_of_several_is_refused(kind, tmp_path):
    one, nuclei, several, told, options = OF_IMAGES[kind]
    suffix = "npy" if several is not None and hasattr(several, "dtype") else "csv"
    options = {**options, "format": kind.split()[0]}
    if one is not None:
        write_files(tmp_path, {f"one.{suffix}": one})
        (written,) = convert_file(tmp_path / f"one.{suffix}", tmp_path / "one", "platform", **options).files
        document = json.loads(written.read_text())
        assert len(document.get("points", document.get("polygons"))) == nuclei
    if several is not None:
        write_files(tmp_path, {f"several.{suffix}": several})
        with pytest.raises(ConversionRefused, match=f"other-case.*{told}.*Add --challenge"):
            convert_file(tmp_path / f"several.{suffix}", tmp_path / "several", "platform", **options)


def test_codes_by_rows_need_the_width_of_their_image(tmp_path):
    write_files(tmp_path, {"codes.csv": coded("x.png", "x.png")})
    how = {"format": "rle_csv", "options": RLE}
    labels, _ = convert_file(tmp_path / "codes.csv", tmp_path / "a", "label_tiff", size_yx=(4, 6), **how).files
    assert tifffile.imread(labels).ravel().nonzero()[0].tolist() == [0, 1, 2, 12, 13]
    with pytest.raises(WrongUsage, match=r"missing-option.*--size"):  # it says where a row ends
        convert_file(tmp_path / "codes.csv", tmp_path / "a", "geojson", **how)


def sized_files(folder):
    """Files that tell the size of their image, 12 x 15."""
    np.save(folder / "a.npy", LABELS[None])
    np.savez_compressed(folder / "b.npz", inst=LABELS)
    savemat(folder / "c.mat", {"n_ary_mask": LABELS})
    savemat(folder / "d.mat", {"inst_map": LABELS, "inst_type": np.ones((3, 1))})
    header = "ObjectType = Image\nNDims = 2\nDimSize = 15 12\nElementType = MET_USHORT\nElementDataFile = LOCAL\n"
    (folder / "e.mha").write_bytes(header.encode() + LABELS.tobytes())
    flat = (LABELS == 1).ravel(order="F").nonzero()[0]
    counts = [int(flat[0]), 4, 8, 4, 8, 4, 8, 4, 8, 4]
    code = {"segmentation": {"size": [12, 15], "counts": [*counts, 180 - sum(counts)]}, "image_id": 3}
    (folder / "f.json").write_text(json.dumps([code]))
    ring = {"segmentation": [[1, 1, 6, 1, 6, 5, 1, 5]], "image_id": 3}  # corners of pixels, as pycocotools counts
    image = {"id": 3, "height": 12, "width": 15}
    (folder / "g.json").write_text(json.dumps({"images": [image], "annotations": [ring]}))
    return {"a.npy": None, "b.npz": None, "c.mat": None, "d.mat": "hovernet_mat", "e.mha": None,
            "f.json": "coco_json", "g.json": "coco_json"}  # fmt: skip


def test_files_that_tell_the_size_of_their_image_need_no_option(tmp_path):
    for name, format in sized_files(tmp_path).items():
        for target in ("label_tiff", "geojson"):
            path, *_ = convert_file(tmp_path / name, tmp_path / "out" / name[0], target, format=format).files
            if target == "label_tiff":
                expected = LABELS > 0 if format != "coco_json" else LABELS == 1
                assert np.array_equal(tifffile.imread(path) > 0, expected), name
    (tmp_path / "polygons.json").write_text(json.dumps([{"segmentation": [[1, 1, 5, 1, 5, 4, 1, 4]], "image_id": 3}]))
    assert convert_file(tmp_path / "polygons.json", tmp_path / "p", "geojson", format="coco_json").files
    with pytest.raises(WrongUsage, match=r"missing-option.*--size"):
        convert_file(tmp_path / "polygons.json", tmp_path / "p", "label_tiff", format="coco_json")


def test_real_files_are_converted_as_a_whole_or_refused(shared_data, tmp_path):
    """Files of MONKEY, CoNSeP, mmdetection and the Data Science Bowl, counted by other means."""
    monkey = shared_data / "monkey" / "A_P000001.xml"
    options = {"shape": "point", "skip_classes": ("ROI",)}
    (points,) = convert_file(monkey, tmp_path / "monkey", "platform", options=options).files
    dots = len(re.findall('Type="Dot"', monkey.read_text()))
    assert len(json.loads(points.read_text())["points"]) == dots == 1240
    consep = shared_data / "consep" / "test_1_gt_stitched.npz"
    labels, _ = convert_file(consep, tmp_path / "consep", "label_tiff").files
    with np.load(consep) as arrays:
        assert np.array_equal(tifffile.imread(labels), arrays["inst"])
    masks = shared_data / "consep" / "predict" / "maskrcnn" / "preds" / "test_1.json"
    (geojson,) = convert_file(masks, tmp_path / "masks", "geojson", format="coco_json").files
    assert len(json.loads(geojson.read_text())["features"]) == len(json.loads(masks.read_text())["masks"]) > 0
    codes = shared_data / "dsb2018" / "stage1_solution.csv"
    with pytest.raises(ConversionRefused, match=r"other-case.*65 images"):
        convert_file(codes, tmp_path / "dsb", "geojson", format="rle_csv", options=RLE)


# --- what the options say ---------------------------------------------------------------------------------------------


ASAP = """<ASAP_Annotations><Annotations>
<Annotation Name="1" Type="Polygon" PartOfGroup="ROI"><Coordinates><Coordinate Order="0" X="0" Y="0" />
<Coordinate Order="1" X="9" Y="0" /><Coordinate Order="2" X="9" Y="9" /></Coordinates></Annotation>
<Annotation Name="2" Type="Dot" PartOfGroup="cells"><Coordinates><Coordinate Order="0" X="3" Y="4" /></Coordinates>
</Annotation></Annotations></ASAP_Annotations>"""


def test_the_way_out_of_a_file_of_points_is_told_and_works(tmp_path):
    (tmp_path / "a.xml.gz").write_bytes(gzip.compress(ASAP.encode()))
    assert detect_format(tmp_path / "a.xml.gz") == Detected("asap_xml", {"shape": "outline"})
    paths = (tmp_path / "a.xml.gz", tmp_path / "o", "platform")
    with pytest.raises(ConversionRefused, match=r"unsupported-shape.* If its nuclei are points, add --set shape=point"):
        convert_file(*paths)
    with pytest.raises(ConversionRefused, match=r"unsupported-shape.*--set other_shapes=skip") as refused:
        convert_file(*paths, options={"shape": "point"})
    assert "shape=point" not in str(refused.value)
    (points,) = convert_file(*paths, options={"shape": "point", "skip_classes": ("ROI",)}).files
    assert [point["name"] for point in json.loads(points.read_text())["points"]] == ["cells"]


def test_options_that_would_do_nothing_are_refused(tmp_path, capsys):
    source = write_features(tmp_path / "a.geojson", square(1, 1))
    for key, value in (("case_key", "{case}"), ("coordinates", "slide"), ("class_map", "{case}.png"), ("files", "x")):
        assert run(["convert", str(source), str(tmp_path / "o"), "--to", "geojson", "--set", f"{key}={value}"]) == 2
        assert f"--set {key}=: given for a single file" in capsys.readouterr().err
    challenge, _ = write_challenge("geojson outlines", tmp_path)
    arguments = ["convert", "--challenge", str(challenge), "reference", str(tmp_path / "o"), "--to", "geojson"]
    for more in (["--size", "3x3"], ["--from", "geojson"], ["--set", "units=mm"]):
        assert run([*arguments, *more]) == 2
        assert f"[contradictory-rules] {more[0]}: given with --challenge" in capsys.readouterr().err
    assert run(arguments) == 0
    assert run(["convert", str(tmp_path), str(tmp_path / "o"), "--to", "geojson", "--from", "geojson"]) == 2
    assert "[unreadable-file]" in capsys.readouterr().err


# --- the rasterised reference -----------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 7), st.integers(1, 4), st.integers(1, 5)), max_size=8))
def test_each_instance_is_whole_on_the_first_page_that_has_room_for_it(boxes):
    """The oracle paints instance by instance into whole pictures."""
    masks = np.zeros((len(boxes), 10, 12), bool)
    pages = np.zeros((len(boxes) + 1, 10, 12), int)
    rows = []
    for index, (y, x, height, width) in enumerate(boxes):
        masks[index, y : y + height, x : x + width] = True
        page = next(page for page in pages if not page[masks[index]].any())
        page[masks[index]] = index + 1
        rows += [(12 * row + x, 12 * row + min(x + width, 12), index) for row in range(y, y + height)]
    start, stop, owner = np.array(sorted(rows, key=lambda row: row[0]), np.int64).reshape(-1, 3).T
    count = len(boxes)
    instances = Instances((10, 12), np.ones(count, np.int16), np.arange(count), start, stop, owner.astype(np.int32))
    used = max(1, int((pages.reshape(len(pages), -1).max(axis=1) > 0).sum()))
    found = tifffile.imread(io.BytesIO(label_pages(instances)))
    assert np.array_equal(found.reshape(-1, 10, 12), pages[:used])


def test_rasterise_of_points_says_that_there_is_nothing_to_do(tmp_path, capsys):
    challenge, _ = write_challenge("points_csv", tmp_path)
    assert run(["rasterise", "--challenge", str(challenge), "--output", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == "The reference contains points; there is nothing to rasterise.\n"
    assert not (tmp_path / "out").exists()


def test_rasterise_counts_nuclei_and_names_what_did_not_happen(tmp_path, capsys):
    challenge, _ = write_challenge("rle_csv", tmp_path)
    assert run(["rasterise", "--challenge", str(challenge), "--output", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert said.count(" 3  \n") == 3
    assert "\nIn no case: ignore regions, " in said and ", vanished, " in said.partition("In no case: ")[2]


def test_an_image_that_the_memory_does_not_hold_is_told_with_its_size(tmp_path, capsys, monkeypatch):
    challenge, submission = write_challenge("aperio_xml", tmp_path)

    def no_memory(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(rasterise, "label_pages", no_memory)
    monkeypatch.setattr("evaluation.folders.convert.write_label_tiff", no_memory)
    assert run(["rasterise", "--challenge", str(challenge), "--output", str(tmp_path / "out")]) == 2
    assert "[too-large] case 'c1': a label image of 20 x 30 px, which does not fit" in capsys.readouterr().err
    arguments = ["--challenge", str(challenge), str(submission), str(tmp_path / "out"), "--to", "label_tiff"]
    assert run(["convert", *arguments]) == 1
    assert "case 'c3': an image of 20 x 30 px, which does not fit into memory" in capsys.readouterr().err


# --- objects.csv ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outlines", "areas", "shown"), [(False, [0, 0], ["", ""]), (True, [4, 9], ["4", "9"])])
def test_points_have_no_area_in_the_object_table(outlines, areas, shown):
    nothing = np.empty(0, np.int64)
    side = ObjectList(np.array(["p", "q"], object), np.array([1, 1], np.int16), np.array(areas, np.int64))
    matches = Matches(np.array([0], np.int32), np.array([1], np.int32), nothing, nothing)
    counts = counts_of([[0, 1], [1, 1]], measures={}, outlines=outlines)
    result = CaseResult(Case("c", "g", 5, 5), False, side, side, {"near": matches}, {"near": counts})
    matched, missed, spurious = csv.DictReader("".join(objects_csv([result], ["a"], ["iou"])).splitlines())
    assert [matched["reference_area_px"], matched["prediction_area_px"]] == shown
    assert [missed["reference_area_px"], spurious["prediction_area_px"]] == shown[::-1]
