"""``init`` in a folder with a reference: what it finds there becomes the rules, and ``--refresh`` adds what is new."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from scipy.io import savemat

from evaluation import Challenge, score_submission
from evaluation.authoring.demo import write_demo
from evaluation.commands.main import run
from evaluation.findings.errors import ChallengeBroken

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


def test_classes_of_hovernet_get_their_numbers():
    Path("mine/reference").mkdir(parents=True)
    savemat("mine/reference/a.mat", {"inst_map": LABELS, "inst_type": np.array([[3], [1]])})
    assert run(["init", "mine"]) == 0
    challenge = Challenge.load("mine")
    assert challenge.class_names == ("1", "3")
    assert challenge.reference.value("class_values") == {"1": (1,), "3": (3,)}


def test_a_sample_gives_the_form_of_submissions_and_the_sizes(tmp_path):
    made = write_demo(tmp_path / "demo")
    (tmp_path / "mine").mkdir()
    (made.challenge / "reference").rename(tmp_path / "mine" / "reference")
    assert run(["init", "mine", "--submission", str(made.submissions["finder"])]) == 0
    challenge = Challenge.load("mine")
    assert challenge.submission.format == "nary_mat"
    assert challenge.reference.ignore.classes == ("Ambiguous",)
    assert {case.name: case.shape_yx for case in challenge.cases}["P1_1"] == (280, 330)
    result = score_submission("mine", made.submissions["finder"])
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
    assert "1 cases added, 1 sizes filled in, 2 rows kept" in told
    assert "1 of its cases have no reference file" in told
    assert run(["init", "--refresh", "mine"]) == 0
    assert "0 cases added, 0 sizes filled in, 3 rows kept" in capsys.readouterr().out


def test_files_in_places_of_several_forms_are_told(capsys):
    put("mine/reference/one/a_x.tif")
    put("mine/reference/b.tif")
    assert run(["init", "mine"]) == 2
    assert "files in places that no one pattern describes" in capsys.readouterr().err


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
