"""``init`` in a folder with a reference: what it finds there becomes the rules, and ``--refresh`` adds what is new."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from scipy.io import savemat

from evaluation import Challenge, score_submission
from evaluation.commands.main import run
from evaluation.findings.errors import ChallengeBroken
from evaluation.formats.format import image_bytes

LABELS = np.zeros((20, 30), np.uint16)
LABELS[2:8, 3:9], LABELS[10:16, 12:20] = 1, 2


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(name: str, labels: np.ndarray = LABELS) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    tifffile.imwrite(name, labels)


def test_label_images_become_a_challenge_that_scores(capsys):
    for name in ("P1/a_mask", "P1/b_mask", "P2/c_mask"):
        put(f"mine/reference/{name}.tif")
    assert run(["init", "mine"]) == 0
    assert "3 images as label_image, no classes" in capsys.readouterr().out
    text = Path("mine/challenge.toml").read_text()
    assert 'preset = "recommended"' in text
    assert 'files = "reference/{group}/{case}.tif"' in text
    assert len(text.splitlines()) < 35
    assert Path("mine/cases.csv").read_text().splitlines()[1:] == [
        "a_mask,P1,20,30", "b_mask,P1,20,30", "c_mask,P2,20,30"
    ]  # fmt: skip
    result = score_submission("mine", "mine/reference")
    assert result.value("detection.f1.group_mean") == 1


def test_a_folder_for_each_patient_may_hold_one_image():
    for name in ("Miller/a", "Smith/b"):
        put(f"mine/reference/{name}.tif")
    assert run(["init", "mine"]) == 0
    assert 'files = "reference/{group}/{case}.tif"' in Path("mine/challenge.toml").read_text()
    assert Path("mine/cases.csv").read_text().splitlines()[1:] == ["a,Miller,20,30", "b,Smith,20,30"]
    assert score_submission("mine", "mine/reference").value("detection.f1.group_mean") == 1


@pytest.mark.parametrize("name", ["stroma", "Epithelial"])
def test_files_where_the_preset_expects_them_may_have_another_format(name, capsys):
    """ASAP's XML lies where the preset has Aperio's."""
    corners = ((2, 3), (2, 9), (8, 9), (8, 3))
    points = "".join(f'<Coordinate Order="{at}" X="{x}" Y="{y}"/>' for at, (y, x) in enumerate(corners))
    shape = f'<Annotation Name="n" Type="Polygon" PartOfGroup="{name}"><Coordinates>{points}</Coordinates></Annotation>'
    for case in ("P1/a", "P2/b"):
        path = Path(f"mine/reference/{case}.xml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"<ASAP_Annotations><Annotations>{shape}</Annotations></ASAP_Annotations>")
    assert run(["init", "mine"]) == 0
    assert f"2 images as asap_xml, classes '{name}'" in capsys.readouterr().out
    cases = Path("mine/cases.csv")
    assert cases.read_text().splitlines()[1:] == ["a,P1,,", "b,P2,,"]
    cases.write_text(cases.read_text().replace(",,", ",20,30"))
    assert score_submission("mine", "mine/reference").value("detection.f1.group_mean") == 1


def test_classes_of_hovernet_get_their_numbers():
    Path("mine/reference").mkdir(parents=True)
    savemat("mine/reference/a.mat", {"inst_map": LABELS, "inst_type": np.array([[3], [1]])})
    assert run(["init", "mine"]) == 0
    challenge = Challenge.load("mine")
    assert challenge.class_names == ("1", "3")
    assert challenge.reference.value("class_values") == {"1": (1,), "3": (3,)}


def test_tables_with_the_classes_of_ids_are_part_of_the_challenge():
    for group in ("P1", "P2"):
        for case in ("a", "b"):
            put(f"mine/reference/{group}/{group}{case}.tif")
            Path(f"mine/reference/{group}/{group}{case}.csv").write_text("label,type\n1,tumour\n2,stroma\n")
    assert run(["init", "mine"]) == 0
    challenge = Challenge.load("mine")
    assert challenge.class_names == ("tumour", "stroma")
    assert challenge.reference.value("class_table") == "reference/{group}/{case}.csv"
    assert challenge.submission.value("class_table") == "{group}/{case}.csv"
    assert score_submission("mine", "mine/reference").value("classification.accuracy.pooled") == 1


@pytest.mark.parametrize(("classes", "key"), [("mask.csv", "class_table"), ("mask_class.tif", "class_map")])
def test_classes_beside_images_that_are_named_by_their_folders_are_part_of_the_challenge(classes, key):
    for case in ("ab", "cd"):
        put(f"mine/reference/{case}/mask.tif")
        if key == "class_map":
            put(f"mine/reference/{case}/{classes}")
        else:
            Path(f"mine/reference/{case}/{classes}").write_text("label,type\n1,tumour\n2,stroma\n")
    assert run(["init", "mine"]) == 0
    challenge = Challenge.load("mine")
    assert len(challenge.classes) == 2
    assert challenge.reference.files == "reference/{case}/mask.tif"
    assert challenge.reference.value(key) == f"reference/{{case}}/{classes}"
    assert score_submission("mine", "mine/reference").value("classification.accuracy.pooled") == 1


def test_a_table_that_calls_nuclei_ambiguous_is_part_of_a_challenge_with_one_class():
    put("mine/reference/a.tif")
    Path("mine/reference/a.csv").write_text("id,class\n1,tumour\n2,Ambiguous\n")
    put("submitted/a.tif", np.where(LABELS == 1, 1, 0).astype(np.uint16))
    assert run(["init", "mine"]) == 0
    assert Challenge.load("mine").reference.value("class_table") == "reference/{case}.csv"
    assert score_submission("mine", "submitted").value("detection.f1.pooled") == 1


def test_a_sample_gives_the_form_of_submissions_and_the_sizes(own_demo, tmp_path):
    (tmp_path / "mine").mkdir()
    (own_demo.challenge / "reference").rename(tmp_path / "mine" / "reference")
    assert run(["init", "mine", "--submission", str(own_demo.submissions["finder"])]) == 0
    challenge = Challenge.load("mine")
    assert challenge.submission.format == "nary_mat"
    assert challenge.reference.ignore.classes == ("Ambiguous",)
    assert {case.name: case.shape_yx for case in challenge.cases}["P1_1"] == (280, 330)
    result = score_submission("mine", own_demo.submissions["finder"])
    assert result.value("detection.f1.group_mean") == pytest.approx(0.9581, abs=5e-5)


def test_points_get_rules_for_points():
    Path("mine/reference").mkdir(parents=True)
    Path("mine/reference/a.csv").write_text("x,y\n3,4\n8,9\n")
    assert run(["init", "mine"]) == 0
    Path("mine/cases.csv").write_text("case,group,height,width\na,a,20,30\n")
    assert score_submission("mine", "mine/reference").value("detection.f1.pooled") == 1


def test_refresh_adds_what_is_new_and_keeps_what_was_edited(capsys):
    put("mine/reference/a.tif")
    assert run(["init", "mine"]) == 0
    Path("mine/cases.csv").write_text("case,group,height,width,spacing_um\na,Miller,20,,0.25\ngone,X,5,5,\n")
    put("mine/reference/b.tif", np.zeros((7, 9), np.uint8))
    capsys.readouterr()
    assert run(["init", "--refresh", "mine"]) == 0
    assert Path("mine/cases.csv").read_text().splitlines()[1:] == [
        "a,Miller,20,30,0.25", "gone,X,5,5,", "b,b,7,9,"
    ]  # fmt: skip
    told = capsys.readouterr().out
    assert "1 case added, 1 size filled in, 2 rows kept" in told
    assert "1 of its cases have no reference file" in told
    assert run(["init", "--refresh", "mine"]) == 0
    assert "0 cases added, 0 sizes filled in, 3 rows kept" in capsys.readouterr().out


def test_files_in_places_of_several_forms_are_told(capsys):
    put("mine/reference/one/a_x.tif")
    put("mine/reference/b.tif")
    assert run(["init", "mine"]) == 2
    told = capsys.readouterr().err
    assert "files in places that no one pattern describes" in told
    assert "Give all of them one ending, and put them into one folder or into one for each patient." in told


def test_what_the_platform_gives_is_no_sample_of_a_folder(capsys):
    put("mine/reference/a.tif")
    for job in ("1", "2"):
        put(f"input/{job}/output/labels.tif")
    Path("input/predictions.json").write_text("[]")
    assert run(["init", "mine", "--submission", "input"]) == 2
    told = capsys.readouterr().err
    assert "a download from the platform" in told and "socket" in told
    assert run(["init", "mine"]) == 0


def test_a_preset_whose_files_lie_elsewhere_keeps_its_classes_and_submissions():
    corners = [[1, 1], [9, 1], [5, 8], [1, 1]]
    nucleus = {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [corners]}}
    nucleus["properties"] = {"classification": {"name": "nuclei_tumor"}}
    Path("mine/reference/A").mkdir(parents=True)
    Path("mine/reference/A/a.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [nucleus]}))
    tifffile.imwrite("mine/reference/A/a.tif", np.zeros((20, 30, 3), np.uint8))
    assert run(["init", "mine", "--preset", "puma2024"]) == 0
    found, preset = Challenge.load(Path("mine")), Challenge.from_preset("puma2024", name="puma")
    assert found.reference.files == "reference/A/{case}.geojson"
    assert (found.classes, found.submission) == (preset.classes, preset.submission)
    assert [case.name for case in found.cases] == ["a"]


@pytest.mark.parametrize("ending", ["", "_anno"])
def test_class_maps_that_the_preset_does_not_have_become_part_of_the_challenge(ending):
    """With ``_anno`` the label images lie where GlaS has them."""
    suffix = ".png" if ending else ".tif"
    for case in "ab":
        Path("mine/reference").mkdir(parents=True, exist_ok=True)
        Path(f"mine/reference/{case}{ending}{suffix}").write_bytes(image_bytes(LABELS, suffix))
        Path(f"mine/reference/{case}{ending}_class{suffix}").write_bytes(image_bytes(LABELS, suffix))
    assert run(["init", "mine", "--preset", "glas2015"]) == 0
    challenge = Challenge.load("mine")
    assert challenge.class_names == ("1", "2")
    assert challenge.reference.value("class_map") == f"reference/{{case}}_class{suffix}"
    assert challenge.reference.value("class_values") == {"1": (1,), "2": (2,)}


def test_class_maps_with_one_class_leave_a_preset_of_one_class_as_it_is():
    put("mine/reference/a.tif")
    put("mine/reference/a_class.tif", (LABELS > 0).astype(np.uint8))
    assert run(["init", "mine", "--preset", "glas2015"]) == 0
    assert Challenge.load("mine").class_names == ("gland",)


@pytest.mark.parametrize("name", ["a", "a_nuclei"])
def test_points_are_not_taken_for_the_outlines_of_a_preset(capsys, name):
    nucleus = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [3, 4]}}
    nucleus["properties"] = {"classification": {"name": "nuclei_tumor"}}
    Path("mine/reference").mkdir(parents=True)
    Path(f"mine/reference/{name}.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [nucleus]}))
    assert run(["init", "mine", "--preset", "puma2024"]) == 3
    assert "given with the format 'geojson' of points" in capsys.readouterr().err


def test_slides_of_a_patient_of_tcga_are_one_group():
    for name in ("TCGA-50-5931-01Z-00-DX1", "TCGA-50-5931-01Z-00-DX2", "TCGA-21-5784-01Z-00-DX1"):
        put(f"mine/reference/{name}.tif")
    assert run(["init", "mine"]) == 0
    groups = [line.split(",")[1] for line in Path("mine/cases.csv").read_text().splitlines()[1:]]
    assert groups == ["TCGA-21-5784", "TCGA-50-5931", "TCGA-50-5931"]
    put("mine/reference/other.tif")
    Path("mine/cases.csv").unlink()
    Path("mine/challenge.toml").unlink()
    assert run(["init", "mine"]) == 0
    rows = [line.split(",")[:2] for line in Path("mine/cases.csv").read_text().splitlines()[1:]]
    assert all(case == group for case, group in rows)


def test_the_column_that_imagescope_names_is_no_class(capsys):
    """As in MoNuSeg's files."""
    Path("mine/reference").mkdir(parents=True)
    Path("mine/reference/a.xml").write_text(
        """<Annotations><Annotation><Attributes><Attribute Name="Description"/></Attributes><Regions><Region><Vertices>
        <Vertex X="1" Y="1"/><Vertex X="9" Y="1"/><Vertex X="5" Y="8"/></Vertices></Region></Regions></Annotation>
        </Annotations>"""
    )
    tifffile.imwrite("mine/reference/a.tif", np.zeros((20, 30, 3), np.uint8))
    assert run(["init", "mine"]) == 0
    (entry,) = Challenge.load(Path("mine")).classes
    assert entry.name == "nucleus"
    result = score_submission("mine", "mine/reference")
    assert result.value("detection.f1.pooled") == 1


def test_a_fault_says_which_entry_came_from_the_preset(tmp_path):
    text = 'format_version = 1\nname = "x"\npreset = "monusac2020"\n[metrics]\nfamilies = ["detection"]\n'
    text += '[[classes]]\nname = "Ambiguous"\n'
    (tmp_path / "challenge.toml").write_text(text)
    (tmp_path / "cases.csv").write_text("case,group,height,width\na,a,5,5\n")
    with pytest.raises(ChallengeBroken) as raised:
        Challenge.load(tmp_path)
    assert any("classes" in fault.where and "preset" not in fault.where for fault in raised.value.findings)
    (tmp_path / "challenge.toml").write_text(
        'format_version = 1\nname = "x"\npreset = "recommended"\n[reference]\noverlap_scope = "class"\n'
    )
    with pytest.raises(ChallengeBroken) as raised:
        Challenge.load(tmp_path)
    assert "of the preset" not in raised.value.findings[0].where
    (tmp_path / "challenge.toml").write_text(
        'format_version = 1\nname = "x"\npreset = "recommended"\n[metrics]\nmeasures = ["iou"]\n'
    )
    with pytest.raises(ChallengeBroken) as raised:
        Challenge.load(tmp_path)
    assert raised.value.findings[0].where == "challenge.toml: metrics.distance_cap_px, of the preset 'recommended'"


def test_the_file_has_what_differs_from_the_preset_and_no_more():
    put("mine/reference/a.tif")
    assert run(["init", "mine"]) == 0
    written = tomllib.loads(Path("mine/challenge.toml").read_text())
    assert written["submission"] == {"format": "label_image", "files": "{case}.tif"}
    assert written["reference"] == {"format": "label_image", "files": "reference/{case}.tif", "ignore": {"classes": []}}
    assert "missing_case" not in Path("mine/challenge.toml").read_text()


def test_other_classes_in_files_of_the_preset_s_form_are_taken_over(capsys):
    xml = """<Annotations><Annotation><Attributes><Attribute Name="{}"/></Attributes><Regions><Region><Vertices>
        <Vertex X="1" Y="1"/><Vertex X="9" Y="1"/><Vertex X="5" Y="8"/></Vertices></Region></Regions></Annotation>
        </Annotations>"""
    for folder, name in (("mine", "Mitosis"), ("usual", "Neutrophil")):
        path = Path(folder, "reference/P1/a.xml")
        path.parent.mkdir(parents=True)
        path.write_text(xml.format(name))
        tifffile.imwrite(path.with_name("a.tif"), np.zeros((20, 30, 3), np.uint8))
        capsys.readouterr()
        assert run(["init", folder]) == 0
        assert "file-not-read" not in capsys.readouterr().out  # the picture of the case
    assert [entry.name for entry in Challenge.load(Path("mine")).classes] == ["Mitosis"]
    assert len(Challenge.load(Path("usual")).classes) == 4
    assert Challenge.load(Path("mine")).cases[0].group == "P1"
