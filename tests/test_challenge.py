"""Challenges, from the rules of a file or of a preset."""

from __future__ import annotations

import io
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from endless import not_endless
from every_format import CASES, SIDES, challenge_document, write_files, write_rules
from preset_files import score, squares_xml, write
from pydantic import ValidationError

from evaluation import Challenge, score_submission
from evaluation.board.rules import parse_settings
from evaluation.challenge import preset_names, preset_text, read_cases
from evaluation.challenge.formats import FORMATS, faults_of
from evaluation.commands.main import run
from evaluation.commands.screen import wrapped
from evaluation.findings import Finding, did_you_mean, quote, render_findings, render_summary
from evaluation.findings.errors import ChallengeBroken, SubmissionRejected
from evaluation.platform.kit import example_files, write_kit
from nuclei_metrics.model import Case

THREE_CASES = "case,group,height,width\nb,P2,20,10\na,P1,30,40\n"


def refusal(**rules) -> list[str]:
    with pytest.raises(ChallengeBroken) as error:
        Challenge.from_preset("monusac2020", name="test", **rules)
    return [str(finding) for finding in error.value.findings]


def test_three_keys_and_a_list_of_cases_are_a_challenge(tmp_path):
    (tmp_path / "challenge.toml").write_text('format_version = 1\nname = "mine"\npreset = "monusac2020"\n')
    (tmp_path / "cases.csv").write_text(THREE_CASES)
    challenge = Challenge.load(tmp_path)
    assert [rule.rule for rule in challenge.matching.rules] == ["iou_above", "best_iou_centroid_inside"]
    assert challenge.cases == (Case("a", "P1", 30, 40), Case("b", "P2", 20, 10))


A_POINT_RULE = {"name": "a", "rule": "centroid", "class_aware": True, "ties": "first_pixel"}
AN_IOU_RULE = {"name": "a", "rule": "iou_above", "class_aware": True, "ties": "first_pixel"}
CORNERS = {"format": "geojson", "files": "{case}.geojson", "origin": "pixel_centre", "vertices": "exact"}
OWN = "; expected only keys of this format."
NEEDED = (
    "; expected a value, since every rule that can change a score must be written. Add the key, or start from a preset."
)


@pytest.mark.parametrize("rules, starts, ends", [
    ({"reference": {"overlap": "paint"}},
     "[invalid-rule] reference.overlap: 'paint'; expected 'keep', 'last', 'first', 'smallest', 'class_order' or "
     "'ignore'.", ""),
    ({"submission": {"missing_cases": "worst"}},
     "[unknown-key] submission.missing_cases: an unknown key; expected one of 'case_key', 'case_names', "
     "'class_map', 'class_values', 'coordinates', 'duplicates', 'files', 'format', 'input', 'missing_case', "
     "'missing_class_file', 'regions', 'skip_cases', 'skip_classes' or 'socket'.", " Did you mean 'missing_case'?"),
    ({"matching": {"rules": [AN_IOU_RULE]}}, "[missing-rule] matching.rules.0.threshold: missing", NEEDED),
    ({"matching": {"rules": [A_POINT_RULE]}},
     "[invalid-rule] matching.rules.0.rule: 'centroid'; expected one of the matching rules 'iou_above', ",
     "or 'confidence_first'."),
    ({"reference": {"ignore": {"policy": "drop_overlapping"}}},
     "[contradictory-rules] reference.ignore.fraction: None with policy 'drop_overlapping'; expected a fraction with "
     "the policy 'drop_overlapping' or 'drop_unmatched', and only with them.", ""),
    ({"reference": {"ignore": {"clases": ["x"]}}},
     "[unknown-key] reference.ignore.clases: an unknown key; expected one of 'classes', 'fraction' or "
     "'policy'.", " Did you mean 'classes'?"),
    ({"reference": {"overlap_scope": "class"}},
     "[contradictory-rules] reference.overlap_scope: 'class' with overlap 'class_order'; expected 'image', since the "
     "order of the classes decides between classes.", ""),
    ({"classes": [{"name": "A"}, {"name": "B", "aliases": ["a"]}]},
     "[contradictory-rules] classes: 'a' is the name of two classes; expected names and aliases that differ from each "
     "other and from reference.ignore.classes, also when upper and lower case are the same.", ""),
    ({"submission": {"files": "{case}.tif"}},
     "[contradictory-rules] submission.files: no {class} and no class_map although there are several classes; expected "
     "a key that defines the class of a nucleus.",
     " Write {class} in 'files', or add class_map or class_table. 'init' needs a sample with classes."),
    ({"submission": {"files": "{image}.tif"}},
     "[invalid-rule] submission.files: '{image}.tif'; ", "a pattern with no fields but {case}, {class}, {group}."),
    ({"submission": {"files": "{group}/{class}.mat"}}, "[invalid-rule] submission.files: '{group}/{class}.mat'; ",
     "expected a pattern with {case} and no fields but {case}, {class}, {group}."),
    ({"ranking": {"significance_level": "0.05"}},
     "[invalid-rule] ranking.significance_level: the text '0.05'; ", "expected a valid number."),
    ({"ranking": {"significance_level": 5}}, "[invalid-rule] ranking.significance_level: 5; ", "expected less than 1."),
    ({"submission": {"files": "../{case}/{class}"}},
     "[invalid-rule] submission.files: '../{case}/{class}'; expected a relative path with '/' between its parts, "
     "without '..'.", ""),
    ({"reference": {"format": "geojsn"}},
     "[invalid-rule] reference.format: 'geojsn'; expected one of the formats 'aperio_xml', ",
     "or 'counts_csv'. Did you mean 'geojson'?"),
    ({"reference": {"units": "px"}},
     "[contradictory-rules] reference.units: given with the format 'aperio_xml'", OWN),
    ({"submission": {"format": "points_json", "files": "{case}.json", "origin": "pixel_centre"}},
     "[missing-rule] submission.units: missing", NEEDED),
    ({"submission": {**CORNERS, "shape": "point"}},
     "[contradictory-rules] submission.vertices: given with the format 'geojson' of points", OWN),
    ({"submission": {**CORNERS, "shape": "outline"}}, "[missing-rule] submission.vanished: missing", NEEDED),
    ({"reference": 3}, "[invalid-rule] reference: '3'; ", "expected a table."),
])  # fmt: skip
def test_a_refusal_names_the_key_and_the_way_out(rules, starts, ends):
    (line,) = refusal(**rules)
    line = line.replace(" challenge.toml:", "")
    assert (line[: len(starts)], line[len(line) - len(ends) :]) == (starts, ends)


def test_all_faults_come_in_one_pass():
    lines = refusal(reference={"overlap": "paint", "origin": "corner"}, aggregation={"unit": "mean"}, extra=1)
    assert len(lines) == 4


def test_missing_files_are_named(tmp_path):
    with pytest.raises(ChallengeBroken, match=r"\[missing-file\] challenge\.toml"):
        Challenge.load(tmp_path)
    (tmp_path / "challenge.toml").write_text("format_version = = 1")
    with pytest.raises(ChallengeBroken, match=r"\[invalid-toml\].*line 1"):
        Challenge.load(tmp_path)
    (tmp_path / "challenge.toml").write_text('format_version = 1\nname = "x"\npreset = "monusac2020"\n')
    with pytest.raises(ChallengeBroken, match=r"\[missing-file\] cases\.csv"):
        Challenge.load(tmp_path)


COSTLY = {
    "one long key": ".".join("a" * 50_000) + " = 1",
    "long keys": "".join(f"k{i}" + ".a" * 500 + " = 1\n" for i in range(900)),
    "quoted keys": '"," . ' * 20_000 + "a = 1",
    "a table with a long name": "[a" + ".a" * 5_000 + "]\n" + "".join(f"k{i} = 1\n" for i in range(90_000)),
    "deep arrays": "a = " + "[" * 100_000,
    "deep arrays that end": "a = " + "[" * 5000 + "]" * 5000,
    "deep tables": "a = " + "{a = " * 100_000,
    "digits": "format_version = " + "9" * 900_000,
    "few digits": "format_version = " + "1" * 5000,
    "digits of base 16": "format_version = 0x" + "f" * 900_000,
    "many lines": "a = 1\n" * 200_000,
}


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY)
def test_a_challenge_that_takes_long_to_parse_is_refused_before(tmp_path, text):
    (tmp_path / "challenge.toml").write_text(text)
    with not_endless(), pytest.raises(ChallengeBroken):
        Challenge.load(tmp_path)


def test_nobody_parses_toml_of_others_but_one_function():
    """The package's own words are the exception."""
    package = Path(__file__).parents[1] / "evaluation"
    parsing = [path.relative_to(package).as_posix() for path in package.rglob("*.py") if "tomllib." in path.read_text()]
    assert sorted(parsing) == ["challenge/documents.py", "findings/__init__.py", "platform/wheel.py"]
    for long in (".".join("a" * 50_000), "{a = " * 5_000 + "}"):
        assert parse_settings([f"method={long}"]) == {"method": long}


def test_the_hash_knows_every_rule_and_every_case_but_not_their_order_nor_the_ranking():
    header, *rows = THREE_CASES.splitlines()
    cases, reordered = read_cases(THREE_CASES), read_cases("\n".join([header, *rows[::-1]]))

    def hash_of(**rules) -> str:
        return Challenge.from_preset("monusac2020", name="x", **{"cases": cases, **rules}).hash

    plain = hash_of()
    ranking = {"method": "median_of_ranks", "significance_level": 0.01, "seed": 7}
    for same in ({"cases": reordered}, {"ranking": ranking}, {"submission": {"units": None}}):
        assert hash_of(**same) == plain
    others = [{"cases": cases[:1]}, {"metrics": {"boundary": "closed"}}, {"aggregation": {"undefined": "worst"}}]
    assert len({plain, *(hash_of(**rules) for rules in others)}) == 4
    assert re.fullmatch("[0-9a-f]{64}", plain)


@pytest.mark.parametrize("text, line", [
    ("case,height\na,1\n", "[invalid-cases] cases.csv, line 1: no column 'width'; expected the columns "
     "'case', 'height' and 'width'."),
    ("name,group\na,1\n", "[invalid-cases] cases.csv, line 1: no column 'case', 'height' or 'width'; expected"),
    ("case;height;width\na;5;5\n", "[invalid-csv] cases.csv, line 1: columns separated by semicolons; expected"),
    ("case\theight\twidth\na\t5\t5\n", "[invalid-csv] cases.csv, line 1: columns separated by tabs"),
    ("case,height,widht\na,1,1\n", "[invalid-cases] cases.csv, line 1: no column 'width'"),
    ("case,height,width\n", "[invalid-cases] cases.csv: no rows"),
    ("case,height,width\na,0,5\n", "[invalid-cases] cases.csv, line 2: height '0'"),
    ("case,height,width\na,5,1.5\n", "[invalid-cases] cases.csv, line 2: width '1.5'"),
    ("case,height,width\na,5,5\na,5,5\n", "[invalid-cases] cases.csv, line 3: case 'a' again"),
    ("case,height,width\na,5,5\nA,5,5\n", "[invalid-cases] cases.csv, line 3: case 'A' beside 'a'"),
    ("case,height,width\naux.1,5,5\n", "[invalid-cases] cases.csv, line 2: case 'aux.1'; expected a name of letters"),
    ("case,height,width\na.,5,5\n", "[invalid-cases] cases.csv, line 2: case 'a.'; expected a name of letters"),
    ("case,height,width\n../a,5,5\n", "[invalid-cases] cases.csv, line 2: case '../a'"),
    ("case,height,width\na,5\n", "[invalid-cases] cases.csv, line 2: another number of values"),
    ("case,height,width,spacing_um\na,5,5,nan\n", "[invalid-cases] cases.csv, line 2: spacing_um 'nan'"),
    ("case,height,width,area_mm2\na,5,5,0\n", "[invalid-cases] cases.csv, line 2: area_mm2 '0'; expected the"),
    ("case,height,width,index\na,5,5,0\nb,5,5,0\n", "[invalid-cases] cases.csv, line 3: index '0'; expected its"),
    ("case,height,width,index\na,5,5,-1\n", "[invalid-cases] cases.csv, line 2: index '-1'; expected its index"),
    ("case,height,width,offset_y\na,5,5,inf\n", "[invalid-cases] cases.csv, line 2: offset_y 'inf'; expected px"),
    ("case,height,width,stratum\na,5,5,a/b\n", "[invalid-cases] cases.csv, line 2: stratum 'a/b'; expected a name"),
    ("case,group,height,width\na,a/b,5,5\n", "[invalid-cases] cases.csv, line 2: group 'a/b'; expected a name of"),
    ("case,height,width\na,4000001,5\n", "[invalid-cases] cases.csv, line 2: height '4000001'; expected a whole"),
    *((f"case,height,width,{column}\na,10,10,{size}\n", f"[invalid-cases] cases.csv, line 2: {column} '{size}'")
      for column in ("spacing_um", "area_mm2") for size in ("1e307", "1e-320", "1000001")),
])  # fmt: skip
def test_a_bad_row_is_named_by_its_line(text, line):
    with pytest.raises(ChallengeBroken) as error:
        read_cases(text)
    assert str(error.value.findings[0]).startswith(line)


def test_cases_are_in_the_order_of_their_groups_then_names():
    cases = read_cases("case,group,height,width\na,P2,1,1\nc,P1,1,1\nb,P1,1,1\n")
    assert [case.name for case in Challenge.from_preset("monusac2020", name="x", cases=cases).cases] == ["b", "c", "a"]


def test_a_case_without_group_is_a_group_of_its_own():
    assert read_cases("case,height,width\na,5,6\n") == (Case("a", "a", 5, 6),)
    assert read_cases("case, group ,height,width\na,,5,6\n") == (Case("a", "a", 5, 6),)
    cells = "case,height,width,offset_y,index,stratum,area_mm2\na, 5,6,-2.5,0,colon,1.5\n"
    assert read_cases(cells) == (Case("a", "a", 5, 6, None, 0, (0.0, -2.5), "colon", 1.5),)
    for size in ("0.000001", "0.25", "1000000"):
        assert read_cases(f"case,height,width,spacing_um\na,10,10,{size}\n")[0].spacing_um == float(size)


def test_all_that_a_validator_finds_is_carried_through_pydantic_as_findings():
    with pytest.raises(ValidationError) as error:
        FORMATS["asap_xml"].model_validate(
            {"format": "asap_xml", "files": "{case}.xml", "origin": "pixel_corner", "shape": "outline"}
        )
    (fault,) = error.value.errors()
    found = [(finding.code, finding.where) for finding in fault["ctx"]["error"].findings]
    assert found == [("missing-rule", "vanished"), ("missing-rule", "vertices")]
    assert [each.where for each in faults_of(fault, ("reference", 0))] == [
        "reference.0.vanished",
        "reference.0.vertices",
    ]


# --- findings -------------------------------------------------------------------------------------------------------


def finding(where: str, got: str = "-1", code: str = "invalid-rule") -> Finding:
    return Finding(code, where, got, "something else", "Change it.")


def test_equal_mistakes_are_one_line_with_three_examples_whatever_their_order():
    """Different values are shown for three places, too."""
    many = [finding(f"place {n:05}") for n in range(5000)]
    assert render_findings(many) == render_findings(many[::-1]) == [
        "[invalid-rule] place 00000, place 00001, place 00002 and 4,997 more: -1; expected something else. Change it."
    ]  # fmt: skip
    (line,) = render_findings([finding("a", "-1"), finding("b", "-2"), finding("c", "-3"), finding("d", "-4")])
    assert line.startswith("[invalid-rule] a: -1 (also b: -2; c: -3; 1 more); expected something else.")
    findings = [finding("b"), finding("a"), finding("z", code="unknown-key")]
    assert render_findings(findings) == render_findings(findings[::-1])


def test_the_summary_fits_the_line_that_the_platform_shows():
    for number in (1, 3, 40):
        findings = [Finding("invalid-rule", "x" * 100, "got", f"rule {n}", "y" * 90) for n in range(number)]
        summary = render_summary(findings, intro="Submission rejected:")
        assert len(summary) <= 400
        assert "\n" not in summary
        assert summary.startswith(f"Submission rejected: [invalid-rule] {'x' * 100}: got; expected rule 0. {'y' * 90}")
        rest = {1: "", 3: " And 2 more kinds of problem: see the lines above."}
        assert summary.endswith(rest.get(number, " And 39 more kinds of problem: see the lines above."))


def test_a_summary_has_the_most_important_fault_whole_with_one_place_if_it_is_long():
    """What is wrong with the layout explains the rest; the catalogue has it first."""
    layout = [Finding("unknown-case", f"'{n}/{'x' * 100}'", f"got {n}", "a case", "Rename it.") for n in range(7)]
    others = [Finding("fractional-label", "'a'", "0.5", "whole numbers"), Finding("missing-case", "case 'b'", "c", "d")]
    summary = render_summary([*others, *layout], intro="Submission rejected:", rest="'evaluation validate' lists them")
    assert summary == (
        f"Submission rejected: [unknown-case] '0/{'x' * 100}' and 6 more: got 0; expected a case. Rename it. "
        "And 2 more kinds of problem: 'evaluation validate' lists them."
    )


def test_a_summary_is_bounded_whatever_the_names_and_says_where_the_rest_is():
    where = ", ".join(f"'{letter * 119}'" for letter in "abc")
    long = [Finding("unknown-case", where, "no case", "a case", "Rename it.")]
    short = ", ".join(f"'{letter * 26}…{letter * 14}'" for letter in "abc")
    summary = render_summary(long, intro="Submission rejected:")
    assert summary == f"Submission rejected: [unknown-case] {short}: no case; expected a case. Rename it."
    alone, together = (
        render_summary([finding("word " * 1000), *others], intro="Submission rejected:") for others in ([], long)
    )
    assert 390 < len(alone) <= 400 and alone.endswith("word word … And details: see the lines above.")
    assert len(together) <= 400 and together.endswith(" And 1 more kind of problem: see the lines above.")


def test_no_line_is_longer_than_readers_of_logs_take():
    assert wrapped("µ" * 1_000_000, io.StringIO()) == "µ" * 16_383 + "…"


def test_names_of_strangers_are_printed_without_control_characters():
    assert quote("a\nb\x1b[31m\u202e") == "'a?b?[31m?'"
    assert len(quote("x" * 10_000)) < 80


def test_suggestions_ignore_case_and_stay_silent_when_nothing_is_close():
    assert did_you_mean("lymphocytes", ["Epithelial", "Lymphocyte"]) == "Did you mean 'Lymphocyte'?"
    assert did_you_mean("zzz", ["Epithelial"]) == ""


def test_another_format_than_that_of_the_preset_does_not_keep_the_keys_of_the_preset():
    masks = {"format": "label_image", "files": "reference/{case}/{class}.tif"}
    assert Challenge.from_preset("monusac2020", name="x", reference=masks).reference.value("vertices") is None
    assert Challenge.from_preset("monusac2020", name="x", reference={"format": "aperio_xml"}).reference.vertices


def test_a_class_cannot_be_skipped():
    for side, name in (("reference", "Epithelial"), ("submission", "LYMPHOCYTE")):
        document = challenge_document("geojson outlines")
        document[side] |= {"skip_classes": (name,)}
        with pytest.raises(ChallengeBroken, match=f"contradictory-rules.*{side}.skip_classes"):
            Challenge.build(document)


# --- every preset loads, is taken over by its name, and scores a perfect submission -----------------------------------


MADE = (
    Case("c1", "P1", 20, 30, 0.25, 0, stratum="one", area_mm2=0.02),
    Case("c2", "P1", 20, 30, 0.25, 1, stratum="one", area_mm2=0.03),
    Case("c3", "P2", 20, 30, 0.25, 2, stratum="two", area_mm2=0.02),
)


def copied_preset(preset: str, folder: Path) -> Challenge:
    """A challenge as ``evaluation init`` writes it, with the made cases."""
    assert run(["init", "--preset", preset, str(folder)]) == 0
    header = "case,group,height,width,spacing_um,index,stratum,area_mm2"
    rows = [f"{c.name},{c.group},{c.height},{c.width},{c.spacing_um},{c.index},{c.stratum},{c.area_mm2}" for c in MADE]
    (folder / "cases.csv").write_text("\n".join([header, *rows, ""]))
    return Challenge.load(folder)


def example_squares(challenge: Challenge) -> list[tuple[str, list[tuple[int, int, int, int]]]]:
    """The three nuclei of the example files: squares of 6 px from edge to edge, of the classes in turn."""
    classes, step = challenge.class_names, (MADE[0].width - 6) // 2
    squares = [(0, 5, step * index, step * index + 5) for index in range(3)]
    return [(name, [s for i, s in enumerate(squares) if i % len(classes) == k]) for k, name in enumerate(classes)]


@pytest.mark.parametrize("preset", preset_names())
def test_a_preset_is_taken_over_by_its_name_and_scores_a_perfect_submission(preset, tmp_path):
    challenge = copied_preset(preset, tmp_path / "challenge")
    assert challenge.cases == MADE
    assert preset_text(preset).startswith("# ")
    written = tomllib.loads((tmp_path / "challenge" / "challenge.toml").read_text())
    assert set(written) <= {"format_version", "name", "version", "preset"}
    left_out = {"cases", "name"}
    of_preset = Challenge.from_preset(preset, name="x")
    assert challenge.model_dump(exclude=left_out) == of_preset.model_dump(exclude=left_out)
    for side, root in ((challenge.reference, "challenge"), (challenge.submission, "submission")):
        for name, content in example_files(challenge, side, challenge.cases).items():
            truncated = side.value("vertices") == "truncate"  # the squares of the examples lie on edges of pixels
            write(tmp_path / root / name, squares_xml(example_squares(challenge)) if truncated else content)
    result = score((tmp_path / "challenge", tmp_path / "submission"))
    assert challenge.ranking is not None and challenge.ranking.columns
    for column in challenge.ranking.columns:
        value = result.value(column.path)
        if value is None:
            node: Any = result.metrics["undefined"]
            for key in column.path.split("."):
                node = node[key]
            assert node in ("no-probability", "one-class", "constant-reference"), column.path
        else:
            best = 1.0 if column.direction == "descending" else 0.0
            assert value == pytest.approx(best, abs=1e-9), column.path


# --- several numbers for a class: types of the files are merged while they are read -----------------------------------


NUMBERED = ["points_csv", *(kind for kind, rules in SIDES.items() if "class_values" in rules)]
ONE = {"Epithelial": 1, "Lymphocyte": 4}
OTHER = {"Epithelial": 3, "Lymphocyte": 2}
BOTH = {"Epithelial": [1, 3], "Lymphocyte": [4, 2]}


def with_values(kind: str, reference: Any, submission: Any) -> dict[str, Any]:
    document = challenge_document(kind)
    document["reference"]["class_values"], document["submission"]["class_values"] = reference, submission
    return document


def write_numbered(document: dict[str, Any], folder: Path) -> Path:
    challenge = Challenge.build(document)
    write_files(folder, example_files(challenge, challenge.reference, CASES))
    return write_rules(document, folder)


@pytest.mark.parametrize("kind", NUMBERED)
def test_every_number_of_a_class_stands_for_it_and_examples_have_the_first(kind, tmp_path):
    """The reference is written with the first numbers of the classes, the submission with others."""
    challenge = write_numbered(with_values(kind, BOTH, BOTH), tmp_path / "challenge")
    other = Challenge.build(with_values(kind, OTHER, OTHER))
    write_files(tmp_path / "submission", example_files(other, other.submission, CASES))
    result = score_submission(challenge, tmp_path / "submission", workers=1)
    assert result.value("classification.accuracy.pooled") == 1.0
    assert result.value("detection.f1.pooled") == 1.0
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
    write_rules({**document, "cases": [Case("a", "a", 1, 7)]}, tmp_path)
    (tmp_path / "submission").mkdir()
    for name in ("a.npy", "a_class.npy"):
        (tmp_path / "submission" / name).write_bytes((tmp_path / name).read_bytes())
    result = score_submission(tmp_path, tmp_path / "submission", workers=1)
    counts = result.details["pooled"]["rules"]["iou_above"]["counts"]
    assert counts["confusion_matrix"] == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize("value, line", [
    ([1, 2], "[contradictory-rules] reference.class_values: '2' more than once; expected every value once."),
    ([1, 1], "[contradictory-rules] reference.class_values: '1' more than once; expected every value once."),
    ([1, 0], "[contradictory-rules] reference.class_values: the value 0, which is the background; expected values from "
     "1."),
    *((value, f"[invalid-rule] reference.class_values.Epithelial: '{value}'; expected a whole number from 0 to 32,767, "
       "or a list of some.") for value in ([], -1, 32768, True, "a|b", 1.0)),
])  # fmt: skip
def test_what_is_wrong_with_the_numbers_is_told(value, line):
    with pytest.raises(ChallengeBroken) as caught:
        Challenge.build(with_values("hovernet_mat", {"Epithelial": value, "Lymphocyte": 2}, ONE))
    assert [found.replace(" challenge.toml:", "") for found in render_findings(caught.value.findings)] == [line]


def test_one_number_and_a_list_of_it_are_the_same_rules():
    plain, listed = (
        Challenge.build(with_values("hovernet_mat", {"Epithelial": 1, "Lymphocyte": value}, ONE)) for value in (2, [2])
    )
    assert plain == listed
    assert plain.hash == listed.hash
    assert plain.hash != Challenge.build(with_values("hovernet_mat", {"Epithelial": 1, "Lymphocyte": [2, 3]}, ONE)).hash
    dumped = plain.model_dump(mode="json")["reference"]
    assert dumped["class_values"] == {"Epithelial": 1, "Lymphocyte": 2}
    again = {**dumped, "skip_classes": (), "skip_cases": (), "ignore": {}}
    assert type(plain.reference).model_validate(again) == plain.reference  # dumped rules are rules


def test_a_number_that_is_no_class_is_told_with_all_that_are(tmp_path):
    """In a finding of a submission, and in the guide of the kit."""
    challenge = write_numbered(with_values("hovernet_mat", BOTH, BOTH), tmp_path / "challenge")
    write_kit(challenge, tmp_path / "kit")
    guide = (tmp_path / "kit/GUIDE.md").read_text()
    assert "- Epithelial = 1 or 3\n- Lymphocyte = 4 or 2\n" in guide
    other = Challenge.build(with_values("hovernet_mat", {"Epithelial": 9, "Lymphocyte": 2}, {**ONE, "Epithelial": 9}))
    write_files(tmp_path / "submission", example_files(other, other.submission, CASES[:1]))
    with pytest.raises(SubmissionRejected) as caught:
        score_submission(challenge, tmp_path / "submission", workers=1)
    line = render_findings(caught.value.findings)[0]
    assert "the value 9 for 2 nuclei" in line
    assert "0 for no class, 1 ('Epithelial'), 2 ('Lymphocyte'), 3 ('Epithelial'), 4 ('Lymphocyte')" in line


def test_a_single_file_is_converted_with_merged_types(tmp_path, capsys):
    (tmp_path / "nuclei.csv").write_text("x,y,class\n1,1,3\n5,2,4\n7,7,5\n")
    options = ["--from", "points_csv", "--set", "class_values={a=[3, 4], b=5}", "--to", "platform"]
    assert run(["convert", str(tmp_path / "nuclei.csv"), str(tmp_path / "out.json"), *options]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert [point["name"] for point in found["points"]] == ["a", "a", "b"]
    options[3] = "class_values={a=[3, 'x'], b=5}"
    assert run(["convert", str(tmp_path / "nuclei.csv"), str(tmp_path / "out.json"), *options]) == 2
    assert "[invalid-rule] --set class_values.a=: " in capsys.readouterr().err
