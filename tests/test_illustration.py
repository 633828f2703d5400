"""The second pass over a scored submission, from files to pictures."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import shapely.geometry
import tifffile
from every_format import toml
from findings.bench import Bench
from imagecodecs import png_decode, png_encode
from test_overlay import challenge_of, colour, judged, judged_case, prepared_of

from evaluation import Challenge, score_submission
from evaluation.authoring.demo import DemoPaths, write_demo
from evaluation.commands.main import run
from evaluation.findings.errors import ChallengeBroken, SubmissionRejected
from evaluation.metrics.errors import KINDS
from evaluation.report.pictures import SecondPass, illustrate_cases
from evaluation.report.pictures.case_pictures import CasePictures
from evaluation.report.pictures.images import find_images
from evaluation.report.pictures.judging import Mistake, choose_worst
from evaluation.scoring.score import Result

TEAM = "finder"
ENDS = (".geojson", ".png")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoPaths:
    return write_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def scored(demo: DemoPaths) -> Result:
    return score_submission(demo.challenge, demo.submissions[TEAM], workers=1)


@pytest.fixture(scope="module")
def overlays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("overlays")


@pytest.fixture(scope="module")
def seen(demo: DemoPaths, overlays: Path) -> SecondPass:
    names = ["P3_2", "P1_1", "no such case", "P3_2"]
    return illustrate_cases(demo.challenge, demo.submissions[TEAM], worst_cases=names, overlays=overlays, workers=1)


def rows_of(result: Result) -> list[dict[str, str]]:
    return [row for row in csv.DictReader(io.StringIO(result.objects)) if row["rule"] == "iou_above"]


# --- what is counted --------------------------------------------------------------------------------------------------


def test_the_states_are_the_counts_of_the_score(seen: SecondPass, scored: Result) -> None:
    for picture in seen.illustration.cases:
        (case,) = (case for case in scored.cases if case.case.name == picture.case)
        counts = case.counts["iou_above"]
        right = int(np.trace(counts.confusion))
        assert picture.states == {
            "matched": right,
            "wrong_class": counts.true_positives - right,
            "missed": counts.false_negatives,
            "spurious": counts.false_positives,
            "ignored": case.ignored_predictions,
        }


def test_every_case_is_mended(seen: SecondPass, scored: Result) -> None:
    for corrected, case in zip(seen.corrected, scored.cases, strict=True):
        assert corrected.case == case.case
        np.testing.assert_array_equal(corrected.counts["as_is"].confusion, case.counts["iou_above"].confusion)
        assert corrected.reference.sum() == len(case.reference.class_id)


# --- the worst nuclei -------------------------------------------------------------------------------------------------


def test_the_worst_nuclei_cost_what_objects_csv_says(seen: SecondPass, scored: Result) -> None:
    rows = rows_of(scored)
    assert len(seen.illustration.nuclei) == 10
    for nucleus in seen.illustration.nuclei:
        ids = (nucleus.reference_id, nucleus.prediction_id)
        own = [row for row in rows if row["case"] == nucleus.case]
        pair = [
            row for row in own if (row["reference_id"], row["prediction_id"]) == ids and row["outcome"] == "matched"
        ]
        if nucleus.kind in ("right", "wrong_class"):
            area = int(pair[0]["reference_area_px"]) + int(pair[0]["prediction_area_px"])
            union = area / (1 + float(pair[0]["iou"]))
            lost = union if nucleus.kind == "wrong_class" else union * (1 - float(pair[0]["iou"]))
            assert nucleus.loss_px == pytest.approx(lost, abs=0.01)
            assert nucleus.iou == pytest.approx(float(pair[0]["iou"]), abs=1e-6)
            assert (nucleus.reference_class, nucleus.prediction_class) == (
                pair[0]["reference_class"],
                pair[0]["prediction_class"],
            )
        else:
            assert not pair
            lost_rows = [
                int(row[f"{side}_area_px"])
                for side, outcome, own_id in (("reference", "missed", ids[0]), ("prediction", "spurious", ids[1]))
                for row in own
                if row["outcome"] == outcome and row[f"{side}_id"] == own_id
            ]
            assert lost_rows and nucleus.loss_px <= sum(lost_rows)
            if len(lost_rows) == 1:
                assert nucleus.loss_px == lost_rows[0]


def test_the_worst_come_first_and_are_of_several_kinds(seen: SecondPass) -> None:
    losses = [nucleus.loss_px for nucleus in seen.illustration.nuclei]
    assert losses == sorted(losses, reverse=True)
    assert len({nucleus.kind for nucleus in seen.illustration.nuclei}) > 3


def test_the_largest_spurious_nucleus_is_among_the_worst(seen: SecondPass, scored: Result) -> None:
    shown = [nucleus.area_px for nucleus in seen.illustration.nuclei if nucleus.kind == "spurious"]
    areas = [int(row["prediction_area_px"]) for row in rows_of(scored) if row["outcome"] == "spurious"]
    assert shown and shown[0] in sorted(areas)[-5:]  # larger ones may be split, merged or poorly outlined


def test_pictures_have_numbers_captions_and_words_for_those_who_do_not_see_them(seen: SecondPass) -> None:
    pictures = [nucleus.picture for nucleus in seen.illustration.nuclei]
    assert [picture.anchor for picture in pictures] == [f"nucleus-{number}" for number in range(1, 11)]
    assert [case.picture.anchor for case in seen.illustration.cases] == ["overlay-1", "overlay-2"]
    for picture in [*pictures, *(case.picture for case in seen.illustration.cases)]:
        pixels = png_decode(picture.png)
        assert pixels.shape[1] == picture.width_px <= 700
        assert "Case P" in picture.caption and "Case P" in picture.alt


def test_cases_come_in_the_order_asked_for_each_once(seen: SecondPass) -> None:
    assert [case.case for case in seen.illustration.cases] == ["P3_2", "P1_1"]


def mistake(kind: str, loss: int, reference: int = 0) -> tuple[str, Mistake]:
    return "a", Mistake(kind, reference, -1, loss, None)


def test_three_of_a_kind_are_shown_while_there_are_others() -> None:
    candidates = [mistake("missed", 100 - i, i) for i in range(9)] + [mistake("spurious", 5), mistake("split", 4)]
    chosen = [(one.kind, one.loss_px) for _, one in choose_worst(candidates, 5)]
    assert chosen == [("missed", 100), ("missed", 99), ("missed", 98), ("spurious", 5), ("split", 4)]
    assert [one.loss_px for _, one in choose_worst(candidates, 7)] == [100, 99, 98, 97, 96, 5, 4]
    assert choose_worst(candidates[::-1], 7) == choose_worst(candidates, 7)
    assert choose_worst([], 7) == []


def kinds_of(reference: str, prediction: str) -> list[tuple[str, int, int, int]]:
    case = judged_case(reference, prediction)
    return sorted((one.kind, one.reference, one.prediction, one.loss_px) for one in case.mistakes.worst(10))


def test_several_nuclei_in_one_prediction_are_one_mistake() -> None:
    assert kinds_of("aaaa.bbb.cc", "ddddddddddd") == [("merged", 0, 0, 11)]


def test_a_nucleus_in_pieces_tells_of_all_its_pieces() -> None:
    assert kinds_of("aaaaaaaaa", "ddd.eee..") == [("split", 0, 0, 9)]


def test_pieces_beside_a_matched_nucleus_tell_of_themselves() -> None:
    assert kinds_of("aaaaaaaaaa", "dddddd.eee") == [("right", 0, 0, 4), ("split", 0, 1, 3)]


def test_a_poor_outline_costs_both_nuclei() -> None:
    assert kinds_of("aaaa......", ".ddddddd..") == [("poor_outline", 0, 0, 8)]


def test_a_perfect_submission_has_no_worst_nuclei(bench: Bench) -> None:
    seen = illustrate_cases(*tiny(bench), worst_cases=["case_017"])
    assert seen.illustration.nuclei == ()
    assert len(seen.corrected) == 2 and seen.illustration.cases[0].states["matched"] > 0


def test_a_nucleus_larger_than_its_picture_is_drawn_smaller() -> None:
    labels = np.zeros((1500, 2100), np.int64)
    labels[100:1300, 50:2000] = 1
    case = judged(challenge_of(), prepared_of(labels), None)
    with CasePictures(case, ("small", "LARGE"), None) as drawing:
        picture = drawing.nucleus(case.mistakes.worst(1)[0]).picture
    pixels = png_decode(picture.png)
    assert max(pixels.shape) <= 256
    assert (pixels == colour("missed")).all(axis=2).sum() > 2 * (1200 + 1950) / 17


# --- files ------------------------------------------------------------------------------------------------------------


def test_workers_change_no_byte(demo: DemoPaths, seen: SecondPass, overlays: Path, tmp_path: Path) -> None:
    again = illustrate_cases(
        demo.challenge, demo.submissions[TEAM], worst_cases=["P3_2", "P1_1"], overlays=tmp_path, workers=2
    )
    files = tuple(overlays / path.name for path in again.illustration.files)
    assert replace(again.illustration, files=files) == seen.illustration
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in overlays.iterdir()
    }


def test_overlays_of_every_case_are_written(demo: DemoPaths, seen: SecondPass, overlays: Path) -> None:
    cases = Challenge.load(demo.challenge).cases
    assert sorted(path.name for path in overlays.iterdir()) == sorted(c.name + end for c in cases for end in ENDS)
    assert sorted(seen.illustration.files) == sorted(overlays.iterdir())


def test_our_own_reader_reads_an_overlay_back(overlays: Path, seen: SecondPass, scored: Result, tmp_path: Path) -> None:
    """As QuPath sees it: classes are what became of the nuclei."""
    names = ["Matched: reference", "Matched: prediction", "Missed", "Spurious", "Wrong class: reference",
             "Wrong class: prediction", "Ignored", "Ignore region", "Contested"]  # fmt: skip
    source = overlays / "P1_1.geojson"
    target = ["--to", "counts_csv", "--size", "280x330", "--classes", ",".join(names)]
    assert run(["convert", str(source), str(tmp_path / "counts.csv"), *target]) == 0
    row = next(csv.DictReader(io.StringIO((tmp_path / "counts.csv").read_text())))
    states = next(case.states for case in seen.illustration.cases if case.case == "P1_1")
    assert int(row["Missed"]) == states["missed"]
    assert int(row["Matched: reference"]) == int(row["Matched: prediction"]) == states["matched"]
    assert int(row["Wrong class: prediction"]) == states["wrong_class"]
    assert int(row["Spurious"]) == states["spurious"]
    assert int(row["Ignored"]) == states["ignored"] == 1


def test_shapes_of_an_overlay_are_valid_and_have_the_areas_of_objects_csv(overlays: Path, scored: Result) -> None:
    rows = [row for row in rows_of(scored) if row["case"] == "P2_1"]
    features = json.loads((overlays / "P2_1.geojson").read_bytes())["features"]
    shapes = {f["id"]: shapely.geometry.shape(f["geometry"]) for f in features if "id" in f}
    assert all(shape.is_valid for shape in shapes.values())
    assert {f"{side} {row[f'{side}_id']}": float(row[f"{side}_area_px"])
            for row in rows for side in ("reference", "prediction") if row[f"{side}_id"]} == {
        name: shape.area for name, shape in shapes.items()
    }  # fmt: skip


# --- images -----------------------------------------------------------------------------------------------------------


def tiny(bench: Bench) -> tuple[str, str]:
    """A challenge of two cases of 20 x 30 px and a perfect submission, in the working directory."""
    bench.make("geojson outlines")
    return "challenge", "submission"


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, capsys, monkeypatch)


@pytest.mark.parametrize(
    "name",
    [
        "challenge/images/case_017.png",
        "challenge/images/P1/case_017.png",
        "challenge/reference/case_017.png",
        "pictures/case_017.png",
        "pictures/P1/case_017.png",
    ],
)
def test_an_image_is_found_and_shown(bench: Bench, name: str) -> None:
    folders = tiny(bench)
    (reference,) = {path.parent for path in Path("challenge").rglob("case_017.geojson")}
    name = name.replace("challenge/reference", str(reference))
    bench.write(name, np.full((20, 30, 3), (10, 200, 90), np.uint8))
    images = Path("pictures") if name.startswith("pictures") else None
    seen = illustrate_cases(*folders, worst_cases=["case_017", "case_018"], images=images).illustration
    assert [case.has_tissue for case in seen.cases] == [True, False]
    assert not seen.findings
    shown = png_decode(seen.cases[0].picture.png).reshape(-1, 3)
    assert (shown == [(2 * value + 255) // 3 // 16 * 16 + 8 for value in (10, 200, 90)]).all(axis=1).mean() > 0.2
    assert "No image" in seen.cases[1].picture.caption and "No image" not in seen.cases[0].picture.caption


def test_elsewhere_no_image_is_looked_for_if_a_folder_is_given(bench: Bench) -> None:
    folders = tiny(bench)
    bench.write("challenge/images/case_017.png", np.zeros((20, 30, 3), np.uint8))
    Path("empty").mkdir()
    seen = illustrate_cases(*folders, worst_cases=["case_017"], images=Path("empty")).illustration
    assert not seen.cases[0].has_tissue


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"II*\0\x08\0\0\0\xff\xff", b"\x89PNG\r\n\x1a\n"])
def test_an_image_that_cannot_be_read_is_told_and_left_out(bench: Bench, content: bytes) -> None:
    folders = tiny(bench)
    bench.write("challenge/images/case_017.tif", content)
    seen = illustrate_cases(*folders, worst_cases=["case_017"]).illustration
    assert [finding.code for finding in seen.findings] == ["image-left-out"]
    assert not seen.cases[0].has_tissue


def test_an_image_whose_pixels_are_damaged_is_told_once(bench: Bench) -> None:
    folders = tiny(bench)
    image = bytearray(png_encode(np.zeros((20, 30, 3), np.uint8)))
    image[-20] ^= 255
    bench.write("challenge/images/case_017.png", bytes(image))
    seen = illustrate_cases(*folders, worst_cases=["case_017"], overlays=Path("out")).illustration
    assert [finding.code for finding in seen.findings] == ["image-left-out"]
    assert not seen.cases[0].has_tissue


def test_label_images_of_the_reference_are_no_images_of_tissue(bench: Bench) -> None:
    bench.make("label_image class map png", reference={"files": "{case}.png", "class_map": "{case}_class.png"})
    challenge = Challenge.load("challenge")
    assert find_images(challenge, Path("challenge")) == {}
    bench.write("challenge/images/case_018.TIF", np.zeros((20, 30), np.uint8))
    assert find_images(challenge, Path("challenge")) == {"case_018": Path("challenge/images/case_018.TIF")}


# --- other challenges, other submissions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["points_csv", "points_json by class", "coco_json shared", "rle_csv", "asap_xml points"]
)
def test_other_kinds_of_nuclei_are_drawn(bench: Bench, kind: str) -> None:
    bench.make(kind)
    seen = illustrate_cases("challenge", "submission", worst_cases=["case_017"], overlays=Path("out")).illustration
    assert seen.cases[0].states["matched"] > 0
    assert (png_decode(seen.cases[0].picture.png) == colour("matched")).all(axis=2).any()
    assert sorted(path.name for path in Path("out").iterdir()) == sorted(
        f"case_01{i}{end}" for i in "78" for end in ENDS
    )


def test_of_numbers_of_nuclei_there_are_no_pictures(tmp_path: Path) -> None:
    for folder in ("challenge/reference", "submission"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "counts.csv").write_text("case,small\na,3\n")
    table = {"format": "counts_csv", "files": "counts.csv"}
    rules = {
        "format_version": 1,
        "name": "numbers",
        "classes": [{"name": "small"}],
        "reference": {**table, "files": "reference/counts.csv"},
        "submission": {**table, "missing_case": "worst", "missing_class_file": "empty"},
        "metrics": {"families": ["counting"], "boundary": "closed"},
        "aggregation": {"unit": "pooled", "undefined": "skip"},
    }
    (tmp_path / "challenge/challenge.toml").write_text(toml(rules))
    (tmp_path / "challenge/cases.csv").write_text("case,height,width\na,9,9\n")
    seen = illustrate_cases(tmp_path / "challenge", tmp_path / "submission", worst_cases=["a"], overlays=tmp_path / "o")
    assert seen.illustration.nuclei == seen.illustration.cases == seen.illustration.files == seen.corrected == ()


def test_a_case_that_was_not_submitted_is_all_missed_and_said_so(demo: DemoPaths, tmp_path: Path) -> None:
    shutil.copytree(demo.submissions[TEAM], tmp_path / "team")
    shutil.rmtree(tmp_path / "team/P2/P2_1")
    seen = illustrate_cases(demo.challenge, tmp_path / "team", worst_cases=["P2_1"], workers=1).illustration
    assert set(seen.cases[0].states.items()) >= {("matched", 0), ("spurious", 0), ("wrong_class", 0)}
    assert seen.cases[0].states["missed"] > 20
    assert "not submitted" in seen.cases[0].picture.caption
    assert any(nucleus.case == "P2_1" for nucleus in seen.nuclei)


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
    seen = illustrate_cases(
        challenge, submission, worst_cases=["P1_1"], overlays=tmp_path / "out", workers=1
    ).illustration
    assert [finding.where for finding in seen.findings] == ["case 'P1_2', 'P1_2.svs'"]

    whole = tifffile.imread(slide, key=0).astype(int)
    shown = png_decode((tmp_path / "out/P1_1.png").read_bytes()).astype(int)
    soft = (2 * whole + 255) // 3 // 16 * 16 + 8
    assert shown.shape == whole.shape
    assert (shown == soft).all(axis=2).mean() > 0.75

    features = json.loads((tmp_path / "out/P1_1.geojson").read_bytes())["features"]
    epithelial = [
        f for f in features if f["properties"].get("name") == "Epithelial" and f["id"].startswith("reference")
    ]
    assert len(epithelial) > 250
    centres = [shapely.geometry.shape(f["geometry"]).representative_point() for f in epithelial]
    inside = np.array([whole[int(point.y), int(point.x)].sum() for point in centres])
    assert np.median(inside) < 0.75 * np.median(whole.sum(axis=2))
    missed = [f for f in features if f["properties"]["classification"]["name"] == "Missed"]
    lines = np.argwhere((shown == colour("missed")).all(axis=2))
    boxes = np.array([shapely.geometry.shape(f["geometry"]).bounds for f in missed])[:, [1, 0, 3, 2]]
    near = ((lines[:, None] >= boxes[:, :2] - 2) & (lines[:, None] <= boxes[:, 2:] + 2)).all(axis=2).any(axis=1)
    assert near.all() and len(missed) == seen.cases[0].states["missed"]
    assert len(set(KINDS) & {nucleus.kind for nucleus in seen.nuclei}) > 2
