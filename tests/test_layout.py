"""Which file is which case and class: decided by cases.csv, told about everything else."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.challenge import Challenge
from evaluation.files.submission import CaseFile, Layout, SubmissionFiles, collection_findings
from evaluation.files.submission import find_case_files as find_in_submission
from evaluation.files.submission.by_pattern import wrapping_folders
from evaluation.findings import render_findings
from nuclei_metrics.model import Case

CASES = [Case("P1_1", "P1", 20, 30), Case("P1_2", "P1", 20, 30), Case("P2_1", "P2", 25, 30)]
CLASSES = ["Epithelial", "Lymphocyte", "Neutrophil", "Macrophage"]
ONE_CLASS = {"classes": [{"name": "nucleus", "aliases": ["nuclei"]}]}
ALIASES = {"classes": [{"name": name, "aliases": ["tumour"] if name == "Epithelial" else []} for name in CLASSES]}
VALUES = {name: index for index, name in enumerate(CLASSES, start=1)}
OUTLINES = {"vertices": "exact", "origin": "pixel_centre", "vanished": "drop"}
POLYGONS = {"format": "polygons_json", "units": "px", **OUTLINES}
CLASS_MAPS = {
    "format": "label_image", "files": "{case}.npy", "class_map": "{case}_class.npy", "class_values": VALUES
}  # fmt: skip
TABLES = {"format": "label_image", "files": "{case}.tif", "class_table": "{case}.csv"}
CODES = {"format": "rle_csv", "pixel_order": "column", "first_pixel": 1}
RESULTS, BY_CLASS = {**CODES, "files": "results.csv"}, {**CODES, "files": "{class}.csv"}
COMPLETE = [f"{case.group}/{case.name}/{name}/1.mat" for case in CASES for name in CLASSES]
FIRST, FOUND = {"cases": CASES[:1]}, ["P1_1", "P1_2", "P2_1"]
PATTERN = "The pattern is '{group}/{case}/{class}/*.mat'; '*' matches any name."
EVERY_CASE = "expected predictions for every case in cases.csv."
REMOVE = "Delete it. The challenge does not use it."
NO_CASE = "is not a case of this challenge; expected one of the 3 cases in cases.csv, such as 'P1_1'."


def make_challenge(cases: list[Case] = CASES, *, classes: Any = None, **rules: Any) -> Challenge:
    tables = {"submission": rules} | ({} if classes is None else {"classes": classes})
    return Challenge.from_preset("monusac2020", name="test", cases=cases, **tables)


class Listed(SubmissionFiles):
    """Files of which nothing but the names is asked."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(set(names)))

    def size(self, name: str) -> int:
        raise AssertionError(f"the size of {name} is asked")

    def open(self, name: str) -> BinaryIO:
        raise AssertionError(f"{name} is opened")


def find_case_files(names: Iterable[str], challenge: Challenge) -> Layout:
    return find_in_submission(Listed(names), challenge)


def test_every_file_finds_its_case_and_class() -> None:
    layout = find_case_files(COMPLETE, make_challenge())
    assert layout.files == {
        case.name: tuple(
            CaseFile(f"{case.group}/{case.name}/{name}/1.mat", index) for index, name in enumerate(CLASSES, start=1)
        )
        for case in CASES
    }
    assert (layout.missing, layout.findings) == (frozenset(), ())


@given(st.randoms(use_true_random=False))
def test_order_of_names_changes_nothing(shuffler: random.Random) -> None:
    strange = ["P1/P1_1/Epithelial/2.mat", "README.md", "P9/P9_1/Epithelial/1.mat", "P1/P2_1/Epithelial/1.mat"]
    names = [*COMPLETE[:7], *strange]
    expected = find_case_files(sorted(names), make_challenge())
    shuffler.shuffle(names)
    assert find_case_files(names, make_challenge()) == expected


LAYOUTS = [  # names, the challenge, the files that are found, and the lines or (one word each) their codes
    ("classes match in any case and by alias", ["P1/P1_1/TUMOUR/1.mat", "P1/P1_1/lymphocyte/1.mat"], FIRST | ALIASES,
     {"P1_1": [("P1/P1_1/TUMOUR/1.mat", 1), ("P1/P1_1/lymphocyte/1.mat", 2)]}, []),
    ("fixed text matches in any case", ["P1/P1_1/Epithelial/1.MAT"], FIRST,
     {"P1_1": [("P1/P1_1/Epithelial/1.MAT", 1)]}, []),
    ("the only class needs no name", ["P1_1.mat"], FIRST | ONE_CLASS | {"files": "{case}.mat"},
     {"P1_1": [("P1_1.mat", 1)]}, []),
    ("a case name with underscores is not cut in two", ["a_b_epithelial_1.mat", "a_epithelial_b_1.mat"],
     {"cases": [Case("a", "P", 9, 8), Case("a_b", "P", 9, 8)], "files": "{case}_{class}_*.mat"},
     {"a_b": [("a_b_epithelial_1.mat", 1)], "a": [("a_epithelial_b_1.mat", 1)]}, []),
    ("the pattern decides", ["P1_1/Epithelial.mat"], FIRST | {"files": "{case}/{class}.mat"},
     {"P1_1": [("P1_1/Epithelial.mat", 1)]}, []),
    ("the pattern decides", ["P1_1/Epithelial.mat"], FIRST | {"files": "{case}_{class}.mat"}, {}, ["no-case-found"]),
    ("a case twice in a pattern must be the same", ["P1_1/P1_1_Epithelial.mat", "P1_1/P1_2_Epithelial.mat"],
     {"cases": CASES[:2], "files": "{case}/{case}_{class}.mat"}, ["P1_1"], ["missing-case-worst", "unused-file"]),
    ("accents that a file system took apart", ["P/Mu\u0308ller/Epithelial/1.mat"],
     {"cases": [Case("M\u00fcller", "P", 9, 8)]}, ["M\u00fcller"], []),
    # --- a folder around everything
    *(("folders around everything are ignored", [wrapper + name for name in COMPLETE], {}, FOUND, [])
      for wrapper in ("submission/", "a/b/", "P1/")),
    ("the folder of the only patient is not ignored", ["P1/P1_1/Epithelial/1.mat"], FIRST, ["P1_1"], []),
    ("the folder of the only patient is not ignored", ["P1_1/Epithelial/1.mat"], FIRST, {}, ["no-case-found"]),
    ("a wrapping folder with the name of a patient", ["P/P/a/Epithelial/1.mat"], {"cases": [Case("a", "P", 9, 8)]},
     {"a": [("P/P/a/Epithelial/1.mat", 1)]}, []),
    *(("a note beside the folder does not hide it", [note, *(f"submission/{name}" for name in COMPLETE)], {}, FOUND,
       ["unused-file"])
      for note in ("README", "README.md", "readme.rst", "LICENSE", "Licence.pdf", "notes.txt", "x.MD")),
    ("something else beside the folder is told", ["model.pth", *(f"submission/{name}" for name in COMPLETE)], {}, {},
     ["no-case-found"]),
    ("notes that are predictions are read", ["P1_1.txt", "other/P1_1.txt"], FIRST | ONE_CLASS | {"files": "{case}.txt"},
     ["P1_1"], ["unused-file"]),
    # --- findings
    ("an unknown class", ["P1/P1_1/Ephitelial/1.mat"], FIRST, {},
     ["[unknown-class] case 'P1_1', 'P1/P1_1/Ephitelial/1.mat': 'Ephitelial' is not a class of this challenge; "
      "expected 'Epithelial', 'Lymphocyte', 'Neutrophil' or 'Macrophage'. Did you mean 'Epithelial'?"]),
    ("a class that is not scored", ["P1/P1_1/Ambiguous/1.mat", "P1/P1_1/Epithelial/1.mat"], FIRST,
     {"P1_1": [("P1/P1_1/Ambiguous/1.mat", -1), ("P1/P1_1/Epithelial/1.mat", 1)]}, []),
    ("an unknown case is told once", [*COMPLETE, *(f"P1/p1_1/{name}/1.mat" for name in CLASSES)], {}, FOUND,
     ["[unknown-case] 'P1/p1_1/Epithelial/1.mat', 'P1/p1_1/Lymphocyte/1.mat', 'P1/p1_1/Macrophage/1.mat' and 1 more: "
      f"'p1_1' {NO_CASE} {REMOVE}"]),
    ("a misspelt case is one that is missing", [*COMPLETE[:8], "P2/p2_1/Epithelial/1.mat"], {}, FOUND[:2],
     [f"[unknown-case] 'P2/p2_1/Epithelial/1.mat': 'p2_1' {NO_CASE} Did you mean 'P2_1'?",
      f"[missing-case-worst] case 'P2_1': no file; {EVERY_CASE} It gets the worst value of every metric. To change "
      "that, add 'P2/P2_1/Epithelial/*.mat'."]),
    ("case and class in each other's place", [*COMPLETE, "P1/Epithelial/P1_2/1.mat"], {}, FOUND,
     [f"[unknown-case] 'P1/Epithelial/P1_2/1.mat': 'Epithelial' {NO_CASE} The names are in the wrong order: put this "
      "file at 'P1/P1_2/Epithelial/*.mat'."]),
    ("case and patient in each other's place", [*COMPLETE[:8], "P2_1/P2/Epithelial/1.mat"], {}, FOUND[:2],
     [f"[unknown-case] 'P2_1/P2/Epithelial/1.mat': 'P2' {NO_CASE} The names are in the wrong order: put this file at "
      "'P2/P2_1/Epithelial/*.mat'.",
      f"[missing-case-worst] case 'P2_1': no file; {EVERY_CASE} It gets the worst value of every metric. To change "
      "that, add 'P2/P2_1/Epithelial/*.mat'."]),
    ("a case in the folder of another patient", [name.replace("P2/P2_1", "P1/P2_1") for name in COMPLETE], {},
     FOUND[:2],
     ["[wrong-group] case 'P2_1', 'P1/P2_1/Epithelial/1.mat', 'P1/P2_1/Lymphocyte/1.mat', 'P1/P2_1/Macrophage/1.mat' "
      "and 1 more: in the folder of 'P1', but the case belongs to 'P2'; expected each case in its patient's "
      "folder ('group' in cases.csv). Move it; the path is like 'P2/P2_1/Epithelial/*.mat'."]),
    ("two files for a case and class", [*COMPLETE, "P1/P1_1/Epithelial/2.mat"], {}, FOUND,
     ["[duplicate-file] case 'P1_1', 'P1/P1_1/Epithelial/2.mat': files of class 'Epithelial' twice; the other is "
      "'P1/P1_1/Epithelial/1.mat'; expected one file for each case and class. Remove one of them."]),
    ("two files for a case", ["P1_1/1.mat", "P1_1/2.mat"], FIRST | ONE_CLASS | {"files": "{case}/*.mat"}, ["P1_1"],
     ["[duplicate-file] case 'P1_1', 'P1_1/2.mat': files twice; the other is 'P1_1/1.mat'; expected one file for each "
      "case. Remove one of them."]),
    ("a missing case gets the worst value", COMPLETE[:4], {"missing_case": "worst"}, FOUND[:1],
     [f"[missing-case-worst] case 'P1_2', case 'P2_1': no file; {EVERY_CASE} It gets the worst value of every metric. "
      "To change that, add 'P1/P1_2/Epithelial/*.mat'."]),
    ("a missing case is refused", COMPLETE[:8], {"missing_case": "reject"}, FOUND[:2],
     [f"[missing-case] case 'P2_1': no file; {EVERY_CASE} Add 'P2/P2_1/Epithelial/*.mat'; for an image without nuclei "
      "write an image of zeros."]),
    ("a missing file of a class means no nucleus", COMPLETE[:3], FIRST | {"missing_class_file": "empty"}, ["P1_1"], []),
    ("a missing file of a class is refused", COMPLETE[:3], FIRST | {"missing_class_file": "reject"}, ["P1_1"],
     ["[missing-class-file] case 'P1_1', class 'Macrophage': no file; expected one file per class, even without "
      "nuclei. Add 'P1/P1_1/Macrophage/*.mat'; without nuclei write an image of zeros."]),
    ("unused files are one warning", [*COMPLETE, "README.md", "code/train.py", "log.txt", "z.txt", "P1/P1_1/1.mat"], {},
     FOUND,
     ["[unused-file] 'P1/P1_1/1.mat', 'README.md', 'code/train.py' and 2 more: not used; expected only files like "
      "'{group}/{case}/{class}/*.mat'. If these are predictions, rename them."]),
    ("nothing found", ["P2_1/Macrophage.mat", "P1_2/Epithelial.mat", "notes.txt", "z"], {}, {},
     ["[no-case-found] submission: no prediction among 4 files ('P1_2/Epithelial.mat', 'P2_1/Macrophage.mat', "
      f"'notes.txt' and 1 more); expected files like 'P1/P1_2/Epithelial/*.mat'. {PATTERN}"]),
    ("a folder for each case", ["P1_2/mask.npy", "P2_1/mask.npy"], CLASS_MAPS, {},
     ["[no-case-found] submission: no prediction among 2 files ('P1_2/mask.npy', 'P2_1/mask.npy'); expected files "
      "like 'P1_2.npy'. The pattern is '{case}.npy'; '*' matches any name. 'P1_2/mask.npy' is in a folder of its "
      "case: submit it as 'P1_2.npy'."]),
    ("files of another type", ["P1_2.tif", "P2_1.tif"], CLASS_MAPS, {},
     ["[no-case-found] submission: no prediction among 2 files ('P1_2.tif', 'P2_1.tif'); expected files like "
      "'P1_2.npy'. The pattern is '{case}.npy'; '*' matches any name. 'P1_2.tif' is of another type: write "
      "'P1_2.npy'."]),
    ("no name at all", [], {}, {},
     ["[empty-submission] submission: empty; expected predictions. Check the path, and "
      "that your export succeeded."]),
    ("all faults in one pass", ["P1/P1_1/Epithelial/1.mat", "P1/P1_1/Epithelial/2.mat", "P1/P1_1/Ephitelial/1.mat",
                                "P9/P9_1/Epithelial/1.mat", "P2/P1_2/Epithelial/1.mat", "README.md"],
     {"missing_case": "reject"}, ["P1_1"],
     ["duplicate-file", "missing-case", "unknown-case", "unknown-class", "unused-file", "wrong-group"]),
    ("names cannot write to the terminal", ["P1/P1_1/\x1b[2JEpithelial\n/1.mat"], FIRST, {}, ["no-case-found"]),
    # --- files that go with others
    ("a class map goes with its label image", [f"{case.name}{end}.npy" for case in CASES for end in ("", "_class")],
     CLASS_MAPS, {name: [(f"{name}.npy", 0, {"class_map": f"{name}_class.npy"})] for name in FOUND}, []),
    ("half a case", ["P1_1.npy", "P1_2_class.npy", "P2_1.npy", "P2_1_class.npy"], CLASS_MAPS, ["P2_1"],
     ["[incomplete-case] case 'P1_1': a label image without a class map (also case 'P1_2': a class map without a label "
      "image); expected both for every case. Add 'P1_1_class.npy'."]),
    ("half a case", ["P1_1.tif", "P1_2.csv"], TABLES | {"cases": CASES[:2]}, {},
     ["[incomplete-case] case 'P1_1': a label image without a class table (also case 'P1_2': a class table without a "
      "label image); expected both for every case. Add 'P1_1.csv'."]),
    ("a file tells the class where it can", ["P1_1.json"], FIRST | ONE_CLASS | POLYGONS | {"files": "{case}.json"},
     {"P1_1": [("P1_1.json", 0)]}, []),
    ("found by its own pattern", ["P1_1.tif", "tables/P1_1.csv"], FIRST | TABLES | {"class_table": "tables/{case}.csv"},
     {"P1_1": [("P1_1.tif", 0, {"class_table": "tables/P1_1.csv"})]}, []),
    ("found by its own pattern", ["P1_1.npy", "tables/P1_1.csv"],
     FIRST | CLASS_MAPS | {"class_map": "tables/{case}.csv"},
     {"P1_1": [("P1_1.npy", 0, {"class_map": "tables/P1_1.csv"})]}, []),
    ("a known case decides", ["b_class.npy", "b_class_class.npy"],
     CLASS_MAPS | {"cases": [Case("b_class", "P", 9, 8)]},
     {"b_class": [("b_class.npy", 0, {"class_map": "b_class_class.npy"})]}, []),
    ("a list of jobs is any file without a socket", [*COMPLETE, "predictions.json"], {}, FOUND, ["unused-file"]),
    # --- files of all cases: of a class, or of all (0)
    *(("a file of all cases", [f"{wrapper}results.csv"], RESULTS, [(f"{wrapper}results.csv", 0)], [])
      for wrapper in ("", "submission/", "a/b/")),
    ("beside notes", ["README.md", "s/out/Results.CSV"], CODES | {"files": "out/results.csv"},
     [("s/out/Results.CSV", 0)], ["unused-file"]),
    ("for each class", ["Neutrophil.csv", "epithelial.csv"], BY_CLASS | {"missing_class_file": "empty"},
     [("epithelial.csv", 1), ("Neutrophil.csv", 3)], []),
    ("a class that is missing", [f"{name}.csv" for name in CLASSES[1:]], BY_CLASS | {"missing_class_file": "reject"},
     [(f"{name}.csv", number) for number, name in enumerate(CLASSES[1:], start=2)],
     ["[missing-class-file] class 'Epithelial': no file; expected one file per class, even without nuclei. Add "
      "'Epithelial.csv'; without nuclei as well."]),
    ("an unknown class", ["Epithelial.csv", "Lymphozyte.csv"], BY_CLASS, [("Epithelial.csv", 1)],
     ["[unknown-class] 'Lymphozyte.csv': 'Lymphozyte' is not a class of this challenge; expected 'Epithelial', "
      "'Lymphocyte', 'Neutrophil' or 'Macrophage'. Did you mean 'Lymphocyte'?"]),
    ("two files", ["Epithelial.csv", "epithelial.csv"], BY_CLASS, [("Epithelial.csv", 1)],
     ["[duplicate-file] 'epithelial.csv': files of all cases twice; the other is 'Epithelial.csv'; "
      "expected one file, or one file per class if the challenge requires it. Remove one of them."]),
    ("no file", ["a.csv", "b.csv"], RESULTS, [],
     ["[no-case-found] submission: no prediction among 2 files ('a.csv', 'b.csv'); expected files like 'results.csv'. "
      "The pattern is 'results.csv'; '*' matches any name."]),
    ("a CSV file that the platform renamed", ["predictions.csv"], CODES | {"files": "stage1/results.csv"},
     [("predictions.csv", 0)], []),
    *(("other CSV files are not renamed ones", names, RESULTS, [], ["no-case-found"])
      for names in (["predictions.csv", "b.csv"], ["x/predictions.csv"], ["predictions.CSV"])),
    ("other formats are not renamed", ["predictions.csv"], OUTLINES | {"format": "coco_json", "files": "results.json"},
     [], ["no-case-found"]),
]  # fmt: skip


@pytest.mark.parametrize(("why", "names", "rules", "files", "said"), LAYOUTS, ids=[row[0] for row in LAYOUTS])
def test_names_become_cases_or_are_told(why, names, rules, files, said):
    challenge = make_challenge(**rules)
    layout = find_case_files(names, challenge)
    lines = render_findings(layout.findings)
    assert all(line.isprintable() for line in lines)
    assert (lines if said and said[0].startswith("[") else sorted({f.code for f in layout.findings})) == said
    assert all((f.severity == "warning") == (f.code in ("unused-file", "missing-case-worst")) for f in layout.findings)
    if isinstance(files, dict):
        assert layout.files == {case: tuple(CaseFile(*facts) for facts in found) for case, found in files.items()}
    elif challenge.submission.format in ("rle_csv", "coco_json"):
        assert (layout.files, layout.shared_files) == ({}, tuple(CaseFile(*facts) for facts in files))
        return
    else:
        assert list(layout.files) == files
    assert layout.missing == {case.name for case in challenge.cases} - set(files)


def test_notes_alone_are_no_folder() -> None:
    assert list(wrapping_folders(["README.md", "notes.txt"])) == [""]
    assert list(wrapping_folders(["docs/README.md"])) == ["", "docs/"]


# --- what files of all cases lack -------------------------------------------------------------------------------------

MENTIONED = {case.name for case in CASES}


@pytest.mark.parametrize("rules, mentioned, unknown, lines", [
    ({}, MENTIONED, {}, []),
    ({"case_key": "{case}.png", "missing_case": "reject"}, {"P1_2", "P2_1"}, {},
     [f"[missing-case] case 'P1_1': no entry; {EVERY_CASE} Add entries for 'P1_1.png'; for an image without nuclei "
      "as well."]),
    ({"missing_case": "worst"}, {"P1_2", "P2_1"}, {},
     [f"[missing-case-worst] case 'P1_1': no entry; {EVERY_CASE} It gets the worst value of every metric. To "
      "change that, add entries for 'P1_1'."]),
    ({"case_key": "{case}.png"}, MENTIONED, {"p1_1.PNG": 12, "x": 3},
     ["[unknown-case] 12 entries for 'p1_1.PNG', 3 entries for 'x': not a case of this challenge; expected one of "
      f"the 3 cases in cases.csv, such as 'P1_1.png'. {REMOVE}"]),
])  # fmt: skip
def test_what_a_file_of_all_cases_lacks_is_told(rules, mentioned, unknown, lines):
    findings = collection_findings(make_challenge(**RESULTS, **rules), mentioned, unknown)
    assert render_findings(findings) == lines


def test_a_hundred_thousand_unknown_cases_are_one_line() -> None:
    unknown = {f"image_{index:06}": 1 for index in range(100_000)}
    findings = collection_findings(make_challenge(**RESULTS), MENTIONED, unknown)
    assert len(findings) == 3
    (line,) = render_findings(findings)
    assert "'image_000002' and 99,997 more: not a case" in line
