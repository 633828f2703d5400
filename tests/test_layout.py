"""Which file is which case and class: decided by cases.csv, told about everything else."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.challenge import Challenge
from evaluation.findings import render_findings
from evaluation.model import Case
from evaluation.submission import CaseFile, Layout, SharedFile, SubmissionFiles, collection_findings
from evaluation.submission import find_case_files as find_in_submission
from evaluation.submission.patterns import wrapping_folders

CASES = [Case("P1_1", "P1", 20, 30), Case("P1_2", "P1", 20, 30), Case("P2_1", "P2", 25, 30)]
CLASSES = ["Epithelial", "Lymphocyte", "Neutrophil", "Macrophage"]
ONE_CLASS = [{"name": "nucleus", "aliases": ["nuclei"]}]
VALUES = {name: index for index, name in enumerate(CLASSES, start=1)}
OUTLINES = {"vertices": "exact", "origin": "pixel_centre", "vanished": "drop"}
POLYGONS = {"format": "polygons_json", "units": "px", **OUTLINES}
COMPLETE = [f"{case.group}/{case.name}/{name}/1.mat" for case in CASES for name in CLASSES]


def make_challenge(
    cases: list[Case] = CASES, *, classes: list[dict[str, Any]] | None = None, **rules: Any
) -> Challenge:
    tables: dict[str, Any] = {"submission": rules}
    if classes is not None:
        tables["classes"] = classes
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
    return find_in_submission(Listed(names), challenge, never)


def never(stream: BinaryIO, *, where: str) -> Any:
    raise AssertionError(f"{where} is read")


def lines(layout: Layout) -> list[str]:
    return render_findings(layout.findings)


def codes(layout: Layout) -> list[str]:
    return sorted(finding.code for finding in layout.findings)


def class_map_challenge(**rules: Any) -> Challenge:
    return make_challenge(
        format="label_image",
        files="{case}.npy",
        class_map="{case}_class.npy",
        class_values=VALUES,
        **rules,
    )


# --- what belongs where -----------------------------------------------------------------------------------------------


def test_every_file_finds_its_case_and_class() -> None:
    layout = find_case_files(COMPLETE, make_challenge())
    assert layout.files == {
        case.name: tuple(
            CaseFile(f"{case.group}/{case.name}/{name}/1.mat", index) for index, name in enumerate(CLASSES, start=1)
        )
        for case in CASES
    }
    assert layout.missing == frozenset()
    assert layout.findings == ()


def test_real_submission_has_no_findings(shared_data: Any) -> None:
    folder = shared_data / "monusac_challenge" / "submission"
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.mat")]
    cases = [Case(name, name[:2], 1153, 1307) for name in ("P1_1", "P1_2", "P2_1", "P2_2")]
    layout = find_case_files(names, make_challenge(cases))
    assert layout.findings == ()
    assert {name: [file.class_id for file in files] for name, files in layout.files.items()} == {
        "P1_1": [1, 2, 3, 4],
        "P1_2": [1, 2, 3],
        "P2_1": [1, 2, 3, 4],
        "P2_2": [1, 2, 3, 4],
    }


@given(st.randoms(use_true_random=False))
def test_order_of_names_changes_nothing(shuffler: random.Random) -> None:
    strange = ["P1/P1_1/Epithelial/2.mat", "README.md", "P9/P9_1/Epithelial/1.mat", "P1/P2_1/Epithelial/1.mat"]
    names = [*COMPLETE[:7], *strange]
    expected = find_case_files(sorted(names), make_challenge())
    shuffler.shuffle(names)
    assert find_case_files(names, make_challenge()) == expected


def test_class_folders_match_in_any_case_and_by_alias() -> None:
    classes = [{"name": name, "aliases": ["tumour"] if name == "Epithelial" else []} for name in CLASSES]
    names = ["P1/P1_1/TUMOUR/1.mat", "P1/P1_1/lymphocyte/1.mat"]
    layout = find_case_files(names, make_challenge(CASES[:1], classes=classes))
    assert layout.files["P1_1"] == (CaseFile(names[0], 1), CaseFile(names[1], 2))


def test_fixed_text_matches_in_any_case() -> None:
    layout = find_case_files(["P1/P1_1/Epithelial/1.MAT"], make_challenge(CASES[:1]))
    assert layout.files["P1_1"][0].name == "P1/P1_1/Epithelial/1.MAT"


def test_file_of_a_single_class_needs_no_class_in_its_name() -> None:
    challenge = make_challenge(CASES[:1], classes=ONE_CLASS, files="{case}.mat")
    assert find_case_files(["P1_1.mat"], challenge).files == {"P1_1": (CaseFile("P1_1.mat", 1),)}


def test_case_name_with_underscores_is_not_cut_in_two() -> None:
    cases = [Case("a", "P", 9, 8), Case("a_b", "P", 9, 8)]
    challenge = make_challenge(cases, files="{case}_{class}_*.mat")
    layout = find_case_files(["a_b_epithelial_1.mat", "a_epithelial_b_1.mat"], challenge)
    assert layout.files == {
        "a_b": (CaseFile("a_b_epithelial_1.mat", 1),),
        "a": (CaseFile("a_epithelial_b_1.mat", 1),),
    }


def test_pattern_decides_which_files_are_predictions() -> None:
    names = ["P1_1/Epithelial.mat"]
    assert "P1_1" in find_case_files(names, make_challenge(CASES[:1], files="{case}/{class}.mat")).files
    assert codes(find_case_files(names, make_challenge(CASES[:1], files="{case}_{class}.mat"))) == ["no-case-found"]


def test_case_twice_in_a_pattern_must_be_the_same() -> None:
    challenge = make_challenge(CASES[:2], files="{case}/{case}_{class}.mat")
    layout = find_case_files(["P1_1/P1_1_Epithelial.mat", "P1_1/P1_2_Epithelial.mat"], challenge)
    assert list(layout.files) == ["P1_1"]
    assert codes(layout) == ["missing-case-worst", "unused-file"]


def test_accents_that_a_file_system_took_apart_match() -> None:
    layout = find_case_files(["P/Mu\u0308ller/Epithelial/1.mat"], make_challenge([Case("M\u00fcller", "P", 9, 8)]))
    assert list(layout.files) == ["M\u00fcller"]


# --- a folder around everything ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapper", ["submission/", "a/b/", "P1/"])
def test_folders_around_everything_are_ignored(wrapper: str) -> None:
    plain = find_case_files(COMPLETE, make_challenge())
    wrapped = find_case_files([wrapper + name for name in COMPLETE], make_challenge())
    assert wrapped.files["P2_1"][3].name == f"{wrapper}P2/P2_1/Macrophage/1.mat"
    assert wrapped.findings == plain.findings == ()


def test_folder_of_the_only_patient_is_not_ignored() -> None:
    challenge = make_challenge(CASES[:1])
    assert find_case_files(["P1/P1_1/Epithelial/1.mat"], challenge).files["P1_1"][0].class_id == 1
    assert codes(find_case_files(["P1_1/Epithelial/1.mat"], challenge)) == ["no-case-found"]


def test_wrapping_folder_with_the_name_of_a_patient_does_not_hide_another() -> None:
    cases = [Case("a", "P", 9, 8)]
    layout = find_case_files(["P/P/a/Epithelial/1.mat"], make_challenge(cases))
    assert list(layout.files) == ["a"]


# --- findings ---------------------------------------------------------------------------------------------------------


def test_unknown_class_names_the_close_one() -> None:
    layout = find_case_files(["P1/P1_1/Ephitelial/1.mat"], make_challenge(CASES[:1]))
    assert lines(layout) == [
        "[unknown-class] case 'P1_1', 'P1/P1_1/Ephitelial/1.mat': 'Ephitelial' is not a class of this challenge; "
        "expected 'Epithelial', 'Lymphocyte', 'Neutrophil' or 'Macrophage'. Did you mean 'Epithelial'?"
    ]
    assert layout.files == {}


def test_files_of_a_class_that_is_not_scored_are_read_like_others() -> None:
    layout = find_case_files(["P1/P1_1/Ambiguous/1.mat", "P1/P1_1/Epithelial/1.mat"], make_challenge(CASES[:1]))
    assert layout.findings == ()
    assert layout.files["P1_1"] == (CaseFile("P1/P1_1/Ambiguous/1.mat", -1), CaseFile("P1/P1_1/Epithelial/1.mat", 1))


def test_unknown_case_is_told_once_with_the_close_one() -> None:
    extra = [f"P1/p1_1/{name}/1.mat" for name in CLASSES]
    assert lines(find_case_files([*COMPLETE, *extra], make_challenge())) == [
        "[unknown-case] 'P1/p1_1/Epithelial/1.mat', 'P1/p1_1/Lymphocyte/1.mat', 'P1/p1_1/Macrophage/1.mat' and 1 "
        "more: 'p1_1' is not a case of this challenge; expected one of the 3 cases in cases.csv, such as 'P1_1'. Did "
        "you mean 'P1_1'?"
    ]


def test_case_and_class_in_each_others_place_are_told() -> None:
    layout = find_case_files([*COMPLETE, "P1/Epithelial/P1_2/1.mat"], make_challenge())
    assert lines(layout) == [
        "[unknown-case] 'P1/Epithelial/P1_2/1.mat': 'Epithelial' is not a case of this challenge; expected one of the "
        "3 cases in cases.csv, such as 'P1_1'. The names are in the wrong order: put this file at "
        "'P1/P1_2/Epithelial/*.mat'."
    ]


def test_case_and_patient_in_each_others_place_are_told() -> None:
    (line, *_) = lines(find_case_files(["P2_1/P2/Epithelial/1.mat"], make_challenge()))
    assert line.endswith("put this file at 'P2/P2_1/Epithelial/*.mat'.")


def test_case_in_the_folder_of_another_patient_is_told() -> None:
    moved = [name.replace("P2/P2_1", "P1/P2_1") for name in COMPLETE]
    layout = find_case_files(moved, make_challenge())
    assert lines(layout) == [
        "[wrong-group] case 'P2_1', 'P1/P2_1/Epithelial/1.mat', 'P1/P2_1/Lymphocyte/1.mat', "
        "'P1/P2_1/Macrophage/1.mat' and 1 more: in the folder of 'P1', but the case belongs to 'P2'; expected every "
        "case in the folder of its patient (group in cases.csv). Move it; the path is like "
        "'P2/P2_1/Epithelial/*.mat'."
    ]
    assert layout.missing == {"P2_1"}


def test_two_files_for_a_case_and_class_are_told() -> None:
    layout = find_case_files([*COMPLETE, "P1/P1_1/Epithelial/2.mat"], make_challenge())
    assert lines(layout) == [
        "[duplicate-file] case 'P1_1', 'P1/P1_1/Epithelial/2.mat': files of class 'Epithelial' twice; the other is "
        "'P1/P1_1/Epithelial/1.mat'; expected one file for each case and class. Remove one of them."
    ]


def test_two_files_for_a_case_are_told_without_classes() -> None:
    challenge = make_challenge(CASES[:1], classes=ONE_CLASS, files="{case}/*.mat")
    (line,) = lines(find_case_files(["P1_1/1.mat", "P1_1/2.mat"], challenge))
    assert "files twice; the other is 'P1_1/1.mat'; expected one file for each case." in line


def test_missing_case_is_a_warning_where_it_gets_the_worst_value() -> None:
    layout = find_case_files(COMPLETE[:4], make_challenge(missing_case="worst"))
    assert layout.missing == {"P1_2", "P2_1"}
    assert lines(layout) == [
        "[missing-case-worst] case 'P1_2', case 'P2_1': no file; expected predictions for every case in cases.csv. It "
        "gets the worst value of every metric. To change that, add 'P1/P1_2/Epithelial/*.mat'."
    ]
    assert layout.findings[0].severity == "warning"


def test_missing_case_is_an_error_where_it_is_refused() -> None:
    layout = find_case_files(COMPLETE[:8], make_challenge(missing_case="reject"))
    assert layout.missing == {"P2_1"}
    assert lines(layout) == [
        "[missing-case] case 'P2_1': no file; expected predictions for every case in cases.csv. Add "
        "'P2/P2_1/Epithelial/*.mat'; for an image without nuclei write an image of zeros."
    ]
    assert layout.findings[0].severity == "error"


def test_missing_class_file_is_silent_where_it_means_no_nucleus() -> None:
    assert find_case_files(COMPLETE[:3], make_challenge(CASES[:1], missing_class_file="empty")).findings == ()


def test_missing_class_file_is_an_error_where_it_is_refused() -> None:
    layout = find_case_files(COMPLETE[:3], make_challenge(CASES[:1], missing_class_file="reject"))
    assert lines(layout) == [
        "[missing-class-file] case 'P1_1', class 'Macrophage': no file; expected one file for every class, also "
        "without nuclei. Add 'P1/P1_1/Macrophage/*.mat'; without nuclei write an image of zeros."
    ]


def test_unused_files_are_one_warning() -> None:
    extra = ["README.md", "code/train.py", "log.txt", "z.txt", "P1/P1_1/1.mat"]
    layout = find_case_files([*COMPLETE, *extra], make_challenge())
    assert lines(layout) == [
        "[unused-file] 'P1/P1_1/1.mat', 'README.md', 'code/train.py' and 2 more: not used; expected only files like "
        "'{group}/{case}/{class}/*.mat'. Check that these are not predictions."
    ]
    assert {finding.severity for finding in layout.findings} == {"warning"}


def test_nothing_found_shows_the_place_of_what_was_found() -> None:
    layout = find_case_files(["P2_1/Macrophage.mat", "P1_2/Epithelial.mat", "notes.txt", "z"], make_challenge())
    assert lines(layout) == [
        "[no-case-found] submission: no prediction among 4 files ('P1_2/Epithelial.mat', 'P2_1/Macrophage.mat', "
        "'notes.txt' and 1 more); expected files like 'P1/P1_2/Epithelial/*.mat'. The pattern is "
        "'{group}/{case}/{class}/*.mat'; '*' stands for any name."
    ]
    assert layout.missing == {"P1_1", "P1_2", "P2_1"}


def test_no_name_at_all_is_nothing_found() -> None:
    assert lines(find_case_files([], make_challenge())) == [
        "[no-case-found] submission: no file; expected files like 'P1/P1_1/Epithelial/*.mat'. The pattern is "
        "'{group}/{case}/{class}/*.mat'; '*' stands for any name."
    ]


def test_all_faults_are_told_in_one_pass() -> None:
    names = [
        "P1/P1_1/Epithelial/1.mat",
        "P1/P1_1/Epithelial/2.mat",
        "P1/P1_1/Ephitelial/1.mat",
        "P9/P9_1/Epithelial/1.mat",
        "P2/P1_2/Epithelial/1.mat",
        "README.md",
    ]
    assert codes(find_case_files(names, make_challenge(missing_case="reject"))) == [
        "duplicate-file",
        "missing-case",
        "unknown-case",
        "unknown-class",
        "unused-file",
        "wrong-group",
    ]


def test_a_strangers_names_cannot_write_to_the_terminal() -> None:
    layout = find_case_files(["P1/P1_1/\x1b[2JEpithelial\n/1.mat"], make_challenge(CASES[:1]))
    assert all(line.isprintable() for line in lines(layout))


# --- class maps -------------------------------------------------------------------------------------------------------


def test_class_map_goes_with_its_label_image() -> None:
    names = [f"{case.name}{end}.npy" for case in CASES for end in ("", "_class")]
    layout = find_case_files(names, class_map_challenge())
    assert layout.findings == ()
    assert layout.files["P1_2"] == (CaseFile("P1_2.npy", 0, {"class_map": "P1_2_class.npy"}),)


def test_half_a_case_is_told() -> None:
    layout = find_case_files(["P1_1.npy", "P1_2_class.npy", "P2_1.npy", "P2_1_class.npy"], class_map_challenge())
    assert list(layout.files) == ["P2_1"]
    assert lines(layout) == [
        "[incomplete-case] case 'P1_1': a label image without a class map (also case 'P1_2': a class map "
        "without a label image); expected both for every case. Add 'P1_1_class.npy'."
    ]


def test_file_tells_the_class_where_it_can() -> None:
    challenge = make_challenge(CASES[:1], classes=ONE_CLASS, files="{case}.json", **POLYGONS)
    assert find_case_files(["P1_1.json"], challenge).files == {"P1_1": (CaseFile("P1_1.json", 0),)}


@pytest.mark.parametrize("key", ["class_table", "class_map"])
def test_what_goes_with_a_file_is_found_by_its_own_pattern(key: str) -> None:
    rules = {key: "tables/{case}.csv"} if key == "class_table" else {key: "tables/{case}.csv", "class_values": VALUES}
    challenge = make_challenge(CASES[:1], format="label_image", files="{case}.tif", **rules)
    layout = find_case_files(["P1_1.tif", "tables/P1_1.csv"], challenge)
    assert layout.files["P1_1"] == (CaseFile("P1_1.tif", 0, {key: "tables/P1_1.csv"}),)
    assert layout.findings == ()


def test_half_a_case_names_what_is_missing() -> None:
    challenge = make_challenge(CASES[:2], format="label_image", files="{case}.tif", class_table="{case}.csv")
    assert lines(find_case_files(["P1_1.tif", "P1_2.csv"], challenge)) == [
        "[incomplete-case] case 'P1_1': a label image without a class table (also case 'P1_2': a class table without a "
        "label image); expected both for every case. Add 'P1_1.csv'."
    ]


def test_a_known_case_decides_between_a_file_and_what_goes_with_one() -> None:
    cases = [Case("b_class", "P", 9, 8)]
    names = ["b_class.npy", "b_class_class.npy"]
    challenge = make_challenge(
        cases, format="label_image", files="{case}.npy", class_map="{case}_class.npy", class_values=VALUES
    )
    layout = find_case_files(names, challenge)
    assert layout.files == {"b_class": (CaseFile("b_class.npy", 0, {"class_map": "b_class_class.npy"}),)}
    assert layout.findings == ()


# --- notes beside the folder around everything ------------------------------------------------------------------------


@pytest.mark.parametrize("note", ["README", "README.md", "readme.rst", "LICENSE", "Licence.pdf", "notes.txt", "x.MD"])
def test_a_note_beside_the_folder_around_everything_does_not_hide_it(note: str) -> None:
    layout = find_case_files([note, *(f"submission/{name}" for name in COMPLETE)], make_challenge())
    assert set(layout.files) == {"P1_1", "P1_2", "P2_1"}
    assert codes(layout) == ["unused-file"]


def test_something_else_beside_the_folder_is_told() -> None:
    names = ["model.pth", *(f"submission/{name}" for name in COMPLETE)]
    assert codes(find_case_files(names, make_challenge())) == ["no-case-found"]


def test_notes_alone_are_no_folder() -> None:
    assert list(wrapping_folders(["README.md", "notes.txt"])) == [""]
    assert list(wrapping_folders(["docs/README.md"])) == ["", "docs/"]


def test_notes_that_are_predictions_are_read() -> None:
    challenge = make_challenge(CASES[:1], classes=ONE_CLASS, files="{case}.txt")
    assert list(find_case_files(["P1_1.txt", "other/P1_1.txt"], challenge).files) == ["P1_1"]


# --- files of all cases -----------------------------------------------------------------------------------------------


def shared_challenge(**rules: Any) -> Challenge:
    return make_challenge(**{"format": "rle_csv", "pixel_order": "column", "first_pixel": 1, **rules})


@pytest.mark.parametrize("wrapper", ["", "submission/", "a/b/"])
def test_file_of_all_cases_is_found(wrapper: str) -> None:
    layout = find_case_files([f"{wrapper}results.csv"], shared_challenge(files="results.csv"))
    assert layout == Layout({}, frozenset(), (), (SharedFile(f"{wrapper}results.csv", 0),))


def test_file_of_all_cases_is_found_beside_notes() -> None:
    layout = find_case_files(["README.md", "s/out/Results.CSV"], shared_challenge(files="out/results.csv"))
    assert layout.shared_files == (SharedFile("s/out/Results.CSV", 0),)
    assert codes(layout) == ["unused-file"]


def test_files_of_all_cases_for_each_class() -> None:
    challenge = shared_challenge(files="{class}.csv", missing_class_file="empty")
    layout = find_case_files(["Neutrophil.csv", "epithelial.csv"], challenge)
    assert layout.shared_files == (SharedFile("epithelial.csv", 1), SharedFile("Neutrophil.csv", 3))
    assert layout.findings == ()


def test_file_of_a_class_that_is_missing_is_an_error_where_it_is_refused() -> None:
    challenge = shared_challenge(files="{class}.csv", missing_class_file="reject")
    layout = find_case_files([f"{name}.csv" for name in CLASSES[1:]], challenge)
    assert lines(layout) == [
        "[missing-class-file] class 'Epithelial': no file; expected one file for every class, also without nuclei. "
        "Add 'Epithelial.csv'; without nuclei as well."
    ]


def test_file_of_all_cases_of_an_unknown_class_is_told() -> None:
    layout = find_case_files(["Epithelial.csv", "Lymphozyte.csv"], shared_challenge(files="{class}.csv"))
    assert lines(layout) == [
        "[unknown-class] 'Lymphozyte.csv': 'Lymphozyte' is not a class of this challenge; expected 'Epithelial', "
        "'Lymphocyte', 'Neutrophil' or 'Macrophage'. Did you mean 'Lymphocyte'?"
    ]


def test_two_files_of_all_cases_are_told() -> None:
    challenge = shared_challenge(files="{class}.csv")
    layout = find_case_files(["Epithelial.csv", "epithelial.csv"], challenge)
    assert lines(layout) == [
        "[duplicate-file] 'epithelial.csv': files of all cases twice; the other is 'Epithelial.csv'; expected one "
        "file, or one for each class where the challenge asks for that. Remove one of them."
    ]


def test_no_file_of_all_cases_is_an_error() -> None:
    layout = find_case_files(["a.csv", "b.csv"], shared_challenge(files="results.csv"))
    assert layout.missing == {"P1_1", "P1_2", "P2_1"}
    assert lines(layout) == [
        "[no-case-found] submission: no prediction among 2 files ('a.csv', 'b.csv'); expected files like "
        "'results.csv'. The pattern is 'results.csv'; '*' stands for any name."
    ]


def test_csv_that_the_platform_renamed_is_found() -> None:
    challenge = shared_challenge(files="stage1/results.csv")
    assert find_case_files(["predictions.csv"], challenge).shared_files == (SharedFile("predictions.csv", 0),)


@pytest.mark.parametrize("names", [["predictions.csv", "b.csv"], ["x/predictions.csv"], ["predictions.CSV"]])
def test_other_csv_files_are_not_taken_for_one_that_the_platform_renamed(names: list[str]) -> None:
    assert codes(find_case_files(names, shared_challenge(files="results.csv"))) == ["no-case-found"]


def test_renamed_csv_does_not_stand_in_for_other_formats() -> None:
    challenge = make_challenge(format="coco_json", files="results.json", **OUTLINES)
    assert codes(find_case_files(["predictions.csv"], challenge)) == ["no-case-found"]


def test_list_of_jobs_is_any_file_where_the_challenge_names_no_socket() -> None:
    layout = find_case_files([*COMPLETE, "predictions.json"], make_challenge())
    assert len(layout.files) == 3
    assert codes(layout) == ["unused-file"]


# --- what files of all cases lack ------------------------------------------------------------------------------------


def test_cases_that_a_file_of_all_cases_lacks_are_told() -> None:
    challenge = shared_challenge(files="results.csv", case_key="{case}.png", missing_case="reject")
    findings = collection_findings(challenge, {"P1_2", "P2_1"}, {})
    assert render_findings(findings) == [
        "[missing-case] case 'P1_1': no entry; expected predictions for every case in cases.csv. Add entries for "
        "'P1_1.png'; for an image without nuclei as well."
    ]


def test_cases_that_a_file_of_all_cases_lacks_get_the_worst_value() -> None:
    challenge = shared_challenge(files="results.csv", missing_case="worst")
    findings = collection_findings(challenge, {"P1_2", "P2_1"}, {})
    assert render_findings(findings) == [
        "[missing-case-worst] case 'P1_1': no entry; expected predictions for every case in cases.csv. It gets the "
        "worst value of every metric. To change that, add entries for 'P1_1'."
    ]


def test_unknown_cases_in_a_file_of_all_cases_are_told_with_the_close_one() -> None:
    challenge = shared_challenge(files="results.csv", case_key="{case}.png")
    findings = collection_findings(challenge, {case.name for case in CASES}, {"p1_1.PNG": 12, "x": 3})
    assert render_findings(findings) == [
        "[unknown-case] 12 entries for 'p1_1.PNG', 3 entries for 'x': not a case of this challenge; expected one of "
        "the 3 cases in cases.csv, such as 'P1_1.png'. Did you mean 'P1_1.png'?"
    ]


def test_a_hundred_thousand_unknown_cases_are_one_line() -> None:
    unknown = {f"image_{index:06}": 1 for index in range(100_000)}
    findings = collection_findings(shared_challenge(files="results.csv"), {case.name for case in CASES}, unknown)
    assert len(findings) == 3
    (line,) = render_findings(findings)
    assert "'image_000002' and 99,997 more: not a case" in line


def test_complete_file_of_all_cases_has_no_findings() -> None:
    assert collection_findings(shared_challenge(files="results.csv"), {case.name for case in CASES}, {}) == []
