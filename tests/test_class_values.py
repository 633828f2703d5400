"""Several numbers for a class: types of the files are merged while they are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_format import CASES, SIDES, challenge_document, toml

from evaluation import Challenge, score_submission
from evaluation.authoring.kit import example_files, write_kit
from evaluation.challenge.formats import FORMATS
from evaluation.commands.main import run
from evaluation.findings import render_findings
from evaluation.findings.errors import ChallengeBroken, SubmissionRejected

NUMBERED = [kind for kind, rules in SIDES.items() if "class_values" in rules]
ONE = {"Epithelial": 1, "Lymphocyte": 4}
OTHER = {"Epithelial": 3, "Lymphocyte": 2}
BOTH = {"Epithelial": [1, 3], "Lymphocyte": [4, 2]}


def with_values(kind: str, reference: Any, submission: Any) -> dict[str, Any]:
    document = challenge_document(kind)
    document["reference"]["class_values"], document["submission"]["class_values"] = reference, submission
    return document


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write_challenge(document: dict[str, Any], folder: Path) -> Path:
    challenge = Challenge.build(document)
    write(folder, example_files(challenge, challenge.reference, CASES))
    rows = [f"{c.name},{c.group},{c.height},{c.width},{c.spacing_um},{c.index}" for c in CASES]
    (folder / "cases.csv").write_text("\n".join(["case,group,height,width,spacing_um,index", *rows, ""]))
    (folder / "challenge.toml").write_text(toml({key: value for key, value in document.items() if key != "cases"}))
    return folder


@pytest.mark.parametrize("kind", NUMBERED)
def test_every_number_of_a_class_stands_for_it(kind, tmp_path):
    """The reference is written with the first numbers of the classes, the submission with others."""
    challenge = write_challenge(with_values(kind, BOTH, BOTH), tmp_path / "challenge")
    other = Challenge.build(with_values(kind, OTHER, OTHER))
    write(tmp_path / "submission", example_files(other, other.submission, CASES))
    result = score_submission(challenge, tmp_path / "submission", workers=1)
    assert result.value("classification.accuracy.pooled") == 1.0
    assert result.value("detection.f1.pooled") == 1.0


@pytest.mark.parametrize("kind", NUMBERED)
def test_examples_are_written_with_the_first_number(kind):
    several, first = (Challenge.build(with_values(kind, values, values)) for values in (BOTH, ONE))
    written = [example_files(challenge, challenge.submission, CASES) for challenge in (several, first)]
    # The header of a .mat file holds the time at which it was written.
    found = [{name: data[128:] if name.endswith(".mat") else data for name, data in files.items()} for files in written]
    assert found[0] == found[1]


def test_the_numbered_formats_are_those_that_know_class_values():
    formats = {name for name, rules in FORMATS.items() if "class_values" in rules.model_fields}
    by_name = {"midog_json", "coco_json"}  # their examples have names of classes
    assert {kind.split()[0] for kind in NUMBERED} | by_name == formats


def test_pixels_of_merged_types_vote_together(tmp_path):
    """A nucleus of 3 pixels of a, 2 of b and 2 of c, where b and c are one class."""
    labels = np.ones((1, 7), np.uint16)
    types = np.array([[1, 1, 1, 2, 2, 3, 3]], np.uint16)
    rules = {"format": "label_image", "files": "{case}.npy", "class_map": "{case}_class.npy"}
    values = {"Epithelial": 1, "Lymphocyte": [2, 3]}
    np.save(tmp_path / "a.npy", labels)
    np.save(tmp_path / "a_class.npy", types)
    document = with_values("label_image class map npy", values, values)
    document["reference"] |= rules
    document["submission"] |= rules
    (tmp_path / "challenge.toml").write_text(toml({key: value for key, value in document.items() if key != "cases"}))
    (tmp_path / "cases.csv").write_text("case,height,width\na,1,7\n")
    (tmp_path / "submission").mkdir()
    for name in ("a.npy", "a_class.npy"):
        (tmp_path / "submission" / name).write_bytes((tmp_path / name).read_bytes())
    result = score_submission(tmp_path, tmp_path / "submission", workers=1)
    counts = result.details["pooled"]["rules"]["iou_above"]["counts"]
    assert counts["confusion_matrix"] == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]


# --- rules ------------------------------------------------------------------------------------------------------------


def fault_of(values: Any) -> str:
    with pytest.raises(ChallengeBroken) as caught:
        Challenge.build(with_values("hovernet_mat", values, ONE))
    (line,) = render_findings(caught.value.findings)
    return line


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"Epithelial": [1, 2], "Lymphocyte": 2},
         "[contradictory-rules] challenge.toml: reference.class_values: the same value twice; expected every value "
         "once, for one class."),
        ({"Epithelial": [1, 1], "Lymphocyte": 2},
         "[contradictory-rules] challenge.toml: reference.class_values: the same value twice; expected every value "
         "once, for one class."),
        ({"Epithelial": [1, 0], "Lymphocyte": 2},
         "[contradictory-rules] challenge.toml: reference.class_values: the value 0, which is the background; "
         "expected values from 1."),
        ({"Epithelial": [], "Lymphocyte": 2},
         "[invalid-rule] challenge.toml: reference.class_values.Epithelial: '[]'; expected a whole number from 0 to "
         "32,767, or a list of some."),
        *(({"Epithelial": value, "Lymphocyte": 2},
          f"[invalid-rule] challenge.toml: reference.class_values.Epithelial: {shown}; expected a whole number "
          "from 0 to 32,767, or a list of some.") for value, shown in ((-1, "'-1'"), (32768, "'32768'"), (True,
           "'True'"), ("a|b", "'a|b'"), (1.0, "'1.0'"))),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_numbers_is_told(values, line):
    assert fault_of(values) == line


def test_one_number_and_a_list_of_it_are_the_same_rules():
    plain, listed = (
        Challenge.build(with_values("hovernet_mat", {"Epithelial": 1, "Lymphocyte": value}, ONE)) for value in (2, [2])
    )
    assert plain == listed
    assert plain.hash == listed.hash
    assert plain.hash != Challenge.build(with_values("hovernet_mat", {"Epithelial": 1, "Lymphocyte": [2, 3]}, ONE)).hash
    dumped = plain.model_dump(mode="json")["reference"]["class_values"]
    assert dumped == {"Epithelial": 1, "Lymphocyte": 2}


def test_dumped_rules_are_rules():
    challenge = Challenge.build(with_values("hovernet_mat", BOTH, ONE))
    rules = challenge.reference.model_dump(mode="json")
    assert rules["class_values"] == BOTH
    plain = {**rules, "skip_classes": (), "skip_cases": (), "ignore": {}}
    assert type(challenge.reference).model_validate(plain) == challenge.reference


def test_a_number_that_is_no_class_is_told_with_all_that_are(tmp_path):
    challenge = write_challenge(with_values("hovernet_mat", BOTH, BOTH), tmp_path / "challenge")
    other = Challenge.build(with_values("hovernet_mat", {"Epithelial": 9, "Lymphocyte": 2}, {**ONE, "Epithelial": 9}))
    write(tmp_path / "submission", example_files(other, other.submission, CASES[:1]))
    with pytest.raises(SubmissionRejected) as caught:
        score_submission(challenge, tmp_path / "submission", workers=1)
    line = render_findings(caught.value.findings)[0]
    assert "the value 9 for 2 nuclei" in line
    assert "0 for no class, 1 ('Epithelial'), 3 ('Epithelial'), 4 ('Lymphocyte'), 2 ('Lymphocyte')" in line


# --- commands ---------------------------------------------------------------------------------------------------------


def test_the_guide_of_the_kit_lists_every_number(tmp_path):
    challenge = write_challenge(with_values("hovernet_mat", BOTH, BOTH), tmp_path / "challenge")
    guide = (write_kit(challenge, tmp_path / "kit").folder / "GUIDE.md").read_text()
    assert "- Epithelial = 1 or 3\n- Lymphocyte = 4 or 2\n" in guide


def test_a_single_file_is_converted_with_merged_types(tmp_path, capsys):
    (tmp_path / "nuclei.csv").write_text("x,y,class\n1,1,3\n5,2,4\n7,7,5\n")
    options = ["--from", "points_csv", "--set", "class_values={a=[3, 4], b=5}", "--to", "platform"]
    assert run(["convert", str(tmp_path / "nuclei.csv"), str(tmp_path / "out.json"), *options]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert [point["name"] for point in found["points"]] == ["a", "a", "b"]
    options[3] = "class_values={a=[3, 'x'], b=5}"
    assert run(["convert", str(tmp_path / "nuclei.csv"), str(tmp_path / "out.json"), *options]) == 2
    assert "[invalid-rule] --set class_values.a=: " in capsys.readouterr().err
