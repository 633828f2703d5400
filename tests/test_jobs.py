"""The platform's algorithm phase: predictions.json says which outputs belong to which case, in any order."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from every_format import challenge_document, write_files

from evaluation.challenge import Challenge, LimitRules
from evaluation.files.submission import CaseFile, Layout, find_case_files, open_submission
from evaluation.files.submission.jobs import classes_by_slug
from evaluation.findings import render_findings
from evaluation.findings.errors import ChallengeBroken
from nuclei_metrics.model import Case

CASES = [Case("a", "P1", 20, 30), Case("b", "P2", 20, 30)]
NUCLEUS = [{"name": "nucleus"}]
TWO_CLASSES = [{"name": "lymphocyte", "aliases": ["lymphocytes"]}, {"name": "T cell"}]
BY_CLASS = {"classes": TWO_CLASSES, "socket": "{class}", "files": "{case}_{class}.json"}
POLYGONS = {"format": "polygons_json", "units": "px", "vertices": "exact", "origin": "pixel_centre", "vanished": "drop"}
NUCLEI = {"slug": "nuclei", "kind": "Multiple polygons", "super_kind": "File", "relative_path": "nuclei.json"}
MASKS = {"slug": "nuclei", "kind": "Image", "super_kind": "Image", "relative_path": "images/nuclei"}
NO_OUTLINES = {"units": None, "vertices": None, "origin": None, "vanished": None}
NEAREST = {"name": "r", "rule": "centroid_assignment", "class_aware": False, "ties": "first_pixel", "radius_px": 15.0}


def make_challenge(cases: list[Case] = CASES, *, classes: Any = NUCLEUS, **rules: Any) -> Challenge:
    submission = {"files": "{case}.json", "socket": "nuclei", "missing_case": "worst", **POLYGONS, **rules}
    return Challenge.from_preset(
        "monusac2020", name="test", cases=cases, classes=classes, submission=submission, matching={"rules": [NEAREST]}
    )


def make_job(name: str = "a", pk: str = "job-1", outputs: Any = (NUCLEI,), **other: Any) -> dict[str, Any]:
    described = [{"pk": 7, "file": "https://x/1", "image": None, "value": None, "socket": socket} for socket in outputs]
    given = {"pk": 6, "file": None, "image": {"pk": "9", "name": name}, "socket": {"slug": "slide"}}
    return {"pk": pk, "status": "Succeeded", "inputs": [given], "outputs": described, **other}


def write(folder: Path, jobs: Any, *names: str) -> Path:
    return write_files(folder, {"predictions.json": json.dumps(jobs), **dict.fromkeys(names, "{}")})


def find(folder: Path, challenge: Challenge) -> Layout:
    files = open_submission(folder, challenge.limits)
    return find_case_files(files, challenge)


def lines(layout: Layout) -> list[str]:
    return render_findings(layout.findings)


def broken(folder: Path, challenge: Challenge) -> list[str]:
    """What the organisers are told of a phase and a challenge that differ."""
    with pytest.raises(ChallengeBroken) as error:
        find(folder, challenge)
    return render_findings(error.value.findings)


BOTH = [make_job("a", "job-1"), make_job("b", "job-2")]
FILES_OF_BOTH = ["job-1/output/nuclei.json", "job-2/output/nuclei.json"]


# --- real lists of jobs -----------------------------------------------------------------------------------------------

PUMA_CASES = [Case(f"preliminary_test_set_primary_roi_00{number}", "P", 1024, 1024) for number in (4, 5)]


def puma_challenge(**rules: Any) -> Challenge:
    return make_challenge(
        PUMA_CASES, **{"socket": "melanoma-10-class-nuclei-segmentation", "case_key": "{case}.tif", **rules}
    )


def nuclei_of(folder: Path, layout: Layout) -> dict[str, list[int]]:
    return {
        case: [len(json.loads((folder / file.name).read_text())["polygons"]) for file in files]
        for case, files in layout.files.items()
    }


def test_real_submission_of_two_jobs(shared_data: Path) -> None:
    folder = shared_data / "puma" / "submission"
    layout = find(folder, puma_challenge())
    assert layout.findings == ()
    assert layout.missing == frozenset()
    assert nuclei_of(folder, layout) == {PUMA_CASES[0].name: [401], PUMA_CASES[1].name: [453]}
    assert {file.class_id for files in layout.files.values() for file in files} == {0}


def renamed(value: Any, keys: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {keys.get(key, key): renamed(item, keys) for key, item in value.items()}
    return [renamed(item, keys) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(3))
def test_order_and_names_of_keys_in_a_real_submission_change_nothing(shared_data, tmp_path, seed):
    shutil.copytree(shared_data / "puma" / "submission", tmp_path, dirs_exist_ok=True)
    expected = find(tmp_path, puma_challenge())
    shuffler = random.Random(seed)
    jobs = renamed(json.loads((tmp_path / "predictions.json").read_text()), {"interface": "socket", "url": "unknown"})
    for job in jobs:
        shuffler.shuffle(job["inputs"])
        shuffler.shuffle(job["outputs"])
    jobs.reverse()
    write(tmp_path, jobs)
    assert find(tmp_path, puma_challenge()) == expected


def test_real_submission_against_other_cases_names_the_close_ones(shared_data: Path) -> None:
    told = broken(shared_data / "puma" / "submission", puma_challenge(case_key="{case}.tiff"))
    assert told == [
        "[unknown-case] 'predictions.json', job '80873d95-fc44-4393-a39a-617bd8725d20': the input of a job, "
        "'preliminary_test_set_primary_roi_004.tif', is not a case of this challenge (also 'predictions.json', job "
        "'d112c34d-b7ae-425c-b9d4-8caa0890b1de': the input of a job, 'preliminary_test_set_primary_roi_005.tif', is "
        "not a case of this challenge); expected one of the 2 cases in cases.csv. Organisers: write case_key = "
        "'{case}.tif' under [submission]."
    ]


def test_real_list_whose_outputs_are_not_there(shared_data: Path, tmp_path: Path) -> None:
    shutil.copy(shared_data / "monkey" / "test" / "predictions.json", tmp_path)
    points = {"format": "points_json", "vertices": None, "vanished": None, "files": "{case}/detected-{class}.json"}
    named = {"socket": "detected-{class}", "case_key": "{case}_PAS_CPG.tif"}
    classes = [{"name": "lymphocytes"}, {"name": "monocytes"}]
    challenge = make_challenge([Case("A_P000001", "P", 9, 8)], classes=classes, **points, **named)
    assert lines(find(tmp_path, challenge)) == [
        "[missing-output] case 'A_P000001', 'detected-lymphocytes.json': no such file; expected the output "
        "'detected-lymphocytes' of every job. Write it for every case, even if no nucleus was found."
    ]
    names = [f"A_P000001/output/detected-{name}.json" for name in ("inflammatory-cells", "lymphocytes", "monocytes")]
    jobs = json.loads((tmp_path / "predictions.json").read_text())
    layout = find(write(tmp_path, jobs, *names), challenge)
    assert layout.files == {"A_P000001": (CaseFile(names[1], 1), CaseFile(names[2], 2))}
    assert layout.findings == ()


# --- when the list counts ---------------------------------------------------------------------------------------------


def test_list_in_folders_around_everything_counts_and_without_one_the_pattern(tmp_path: Path) -> None:
    write_files(tmp_path / "v", {"a.json": "{}", "b.json": "{}"})
    by_pattern = find(tmp_path / "v", make_challenge()).files
    assert by_pattern == {"a": (CaseFile("a.json", 0),), "b": (CaseFile("b.json", 0),)}
    shutil.rmtree(tmp_path / "v")
    write(tmp_path / "w" / "x", BOTH, *FILES_OF_BOTH)
    (tmp_path / "README.md").write_text("")
    assert find(tmp_path, make_challenge()).files["b"] == (CaseFile("w/x/job-2/output/nuclei.json", 0),)


def test_forged_list_is_never_read_where_the_challenge_names_no_socket(tmp_path: Path) -> None:
    write(tmp_path, [make_job("a", "../../etc")], "a.json", "b.json")
    layout = find(tmp_path, make_challenge(socket=None))
    assert set(layout.files) == {"a", "b"}
    assert [finding.code for finding in layout.findings] == ["unused-file"]


# --- the case of a job ------------------------------------------------------------------------------------------------


def with_inputs(*inputs: dict[str, Any]) -> dict[str, Any]:
    return {**make_job(), "inputs": list(inputs)}


def slide(**described: Any) -> dict[str, Any]:
    return with_inputs({"image": {"name": "z"}, "socket": {"slug": "z"}}, {"image": {"name": "a"}, **described})


TWO_INPUTS = with_inputs(*make_job()["inputs"], {"image": {"name": "b"}, "interface": {"slug": "mask"}})
MY_CASE = {"cases": [Case("my case", "P", 9, 8)], "case_key": "{case}.json"}


@pytest.mark.parametrize("job, rules, cases", [
    *((slide(**described), {"input": "slide"}, {"a"}) for described in (
        {"socket": {"slug": "slide"}}, {"interface": {"slug": "slide"}},
        {"socket": {"slug": "slide"}, "interface": {"slug": "other"}},
        {"socket": None, "interface": {"slug": "slide"}})),
    (TWO_INPUTS, {"input": "slide"}, {"a"}), (TWO_INPUTS, {"input": "mask"}, {"b"}),
    *((with_inputs({"file": file, "image": None, "socket": {"slug": "s"}}), MY_CASE, {"my case"}) for file in (
        "https://grand-challenge.org/media/1/2/my%20case.json", "https://x/my%20case.json?key=a/b",
        "my case.json")),
    (make_job("P1-a.tif"), {"case_key": "{group}-{case}.tif"}, {"a"}),
    *((make_job(name), {"case_key": "{case}.tif"}, set()) for name in (
        "A.tif", "a.TIF", "a.tif.tif", "x/a.tif", "a")),
    (make_job("Mu\u0308ller"), {"cases": [Case("M\u00fcller", "P", 9, 8)]}, {"M\u00fcller"}),
])  # fmt: skip
def test_an_input_names_the_case(tmp_path: Path, job: Any, rules: Any, cases: set[str]) -> None:
    challenge = make_challenge(**{"cases": [case for case in CASES if case.name in (cases or {"a"})], **rules})
    write(tmp_path, [job], FILES_OF_BOTH[0])
    if cases:
        assert set(find(tmp_path, challenge).files) == cases
    else:
        assert broken(tmp_path, challenge)[-1].startswith("[unknown-case] 'predictions.json', job 'job-1': the input ")


def test_each_job_has_one_of_the_inputs_that_are_listed(tmp_path: Path) -> None:
    first, second = make_job("a"), make_job("b", "job-2")
    second["inputs"] = [{"image": {"name": "b"}, "socket": {"slug": "scan"}}]
    write(tmp_path, [first, second], *FILES_OF_BOTH)
    assert set(find(tmp_path, make_challenge(input=["slide", "scan"])).files) == {"a", "b"}
    assert broken(tmp_path, make_challenge(input=["slide", "photo"])) == [
        "[invalid-job] 'predictions.json', job 'job-2': 0 inputs 'slide' or 'photo' among 1 ('scan'); expected one "
        "input, which has the name of the case. Organisers: name the input that counts with submission.input in "
        "challenge.toml."
    ]


# --- the phase and the challenge differ: the organiser's mistakes, which end with exit code 3 -------------------------


@pytest.mark.parametrize("jobs, rules, line", [
    ([TWO_INPUTS], {"input": "slides"}, "[invalid-job] 'predictions.json', job 'job-1': 0 inputs 'slides' among 2 "
     "('slide' and 'mask'); expected one input, which has the name of the case. Organisers: name the input that counts "
     "with submission.input in challenge.toml."),
    ([TWO_INPUTS], {}, "[invalid-job] 'predictions.json', job 'job-1': 2 inputs ('slide' and 'mask'); expected one "
     "input, which has the name of the case. Organisers: name the input that counts with submission.input in "
     "challenge.toml."),
    (BOTH, {"socket": "cells"}, "[missing-output] 'predictions.json': no job has it; the outputs are 'nuclei'; "
     "expected an output 'cells' of every job. Organisers: write the slug of the output of the phase as "
     "submission.socket."),
    ([*BOTH, make_job("b", "job-3")], {}, "[duplicate-case] case 'b': 2 jobs ('job-2', 'job-3'); expected one job for "
     "each case. Organisers: in the archive of the phase, give the files of all items different names."),
    ([*BOTH, make_job("c", "job-3")], {}, "[unknown-case] 'predictions.json', job 'job-3': the input of a job, 'c', is "
     "not a case of this challenge; expected one of the 2 cases in cases.csv. Organisers: add the image to cases.csv, "
     "or take it out of the archive of the phase."),
    ([make_job("a.tif"), make_job("b.tif", "job-2")], {}, "[unknown-case] 'predictions.json', job 'job-1': the input "
     "of a job, 'a.tif', is not a case of this challenge (also 'predictions.json', job 'job-2': the input of a job, "
     "'b.tif', is not a case of this challenge); expected one of the 2 cases in cases.csv. Organisers: write case_key "
     "= '{case}.tif' under [submission]."),
    (BOTH[:1], {}, "[missing-case] case 'b': no job; expected a job for every case in cases.csv, since the platform "
     "evaluates when all jobs have succeeded. Organisers: add an item with the file 'b' to the archive of the phase, "
     "with exactly the inputs of the interface, or take the case out of cases.csv."),
])  # fmt: skip
@pytest.mark.parametrize("more", [{}, {"missing_case": "reject"}, {"case_names": "hidden"}])
def test_mistakes_of_the_organiser_are_told_to_the_organiser(tmp_path, jobs, rules, line, more):
    write(tmp_path, jobs, *FILES_OF_BOTH)
    assert broken(tmp_path, make_challenge(**rules, **more)) == [line]


@pytest.mark.parametrize("forged", [
    {"status": "Failed"}, {"pk": "../x"}, {"inputs": []}, {"outputs": [None]},
    {"outputs": [{"socket": {**NUCLEI, "relative_path": "../x"}}]},
])  # fmt: skip
def test_a_list_that_the_platform_does_not_write_is_the_participants(tmp_path, forged):
    """Also beside what an organiser could have caused: a case without a job."""
    write(tmp_path, [{**BOTH[0], **forged}], *FILES_OF_BOTH)
    if forged.get("inputs") == []:  # the platform may write this
        assert "[invalid-job]" in broken(tmp_path, make_challenge())[0]
    else:
        assert {"failed-job", "forged-path", "invalid-job"} & {
            one.code for one in find(tmp_path, make_challenge()).findings
        }


def write_inputs(folder: Path, slug: str) -> None:
    """What the platform writes beside a submission: it says what kind of phase it is."""
    (folder / "inputs.json").write_text(json.dumps([{"socket": {"slug": slug}, "file": "https://x/1"}]))


def of_participant(folder: Path, how: str) -> Path:
    """A list of jobs in a ZIP: unpacked on the platform, packed on a laptop."""
    write_inputs(folder, "predictions-zip-file" if how == "unpacked" else "predictions-json-file")
    return folder if how == "unpacked" else Path(shutil.make_archive(str(folder.parent / "packed"), "zip", folder))


@pytest.mark.parametrize("how", ["unpacked", "packed"])
@pytest.mark.parametrize(("jobs", "rules", "code"), [
    (BOTH[:1], {}, "missing-case"),
    (BOTH, {"socket": "cells"}, "missing-output"),
    ([*BOTH, make_job("c", "job-3")], {}, "unknown-case"),
    ([*BOTH, make_job("b", "job-3")], {}, "duplicate-case"),
    ([TWO_INPUTS, BOTH[1]], {}, "invalid-job"),
    ([BOTH[0], make_job("b", "job-4", [{**NUCLEI, "super_kind": "Value"}])], {}, "unsupported-output"),
])  # fmt: skip
def test_a_list_of_jobs_in_a_zip_is_the_participants_who_reads_no_fix_of_an_organiser(tmp_path, how, jobs, rules, code):
    write(tmp_path / "tree", jobs, *FILES_OF_BOTH)
    told = lines(find(of_participant(tmp_path / "tree", how), make_challenge(**rules)))
    assert any(line.startswith(f"[{code}] ") for line in told)
    assert "Organisers" not in "".join(told) and "Do not write predictions.json yourself." in "".join(told)
    write_inputs(tmp_path / "tree", "predictions-json-file")
    assert any(line.startswith(f"[{code}] ") for line in broken(tmp_path / "tree", make_challenge(**rules)))


def test_jobs_for_a_challenge_without_a_socket_are_the_organisers_mistake(tmp_path):
    write(tmp_path / "tree", BOTH, *FILES_OF_BOTH)
    for slug in ("", "predictions-json-file"):  # real trees from before 2024 have no inputs.json
        if slug:
            write_inputs(tmp_path / "tree", slug)
        for files in ("{case}.json", "{group}/{case}/{class}.json"):
            assert broken(tmp_path / "tree", make_challenge(socket=None, files=files)) == [
                "[missing-rule] challenge.toml: submission.socket: missing, and 'predictions.json' lists 2 jobs of an "
                "algorithm phase; expected the slug of the output that contains the nuclei, here 'nuclei'. Add the "
                "key; 'evaluation init CHALLENGE --submission predictions.json' writes all keys of an algorithm phase."
            ]
    for how in ("unpacked", "packed"):
        (told,) = lines(find(of_participant(tmp_path / "tree", how), make_challenge(socket=None)))
        assert told.startswith("[no-case-found] submission: no prediction among ") and "Organisers" not in told
    (tmp_path / "tree" / "predictions.json").write_text("[7]")  # the platform writes no such list
    write_inputs(tmp_path / "tree", "predictions-json-file")
    assert lines(find(tmp_path / "tree", make_challenge(socket=None)))[0].startswith("[no-case-found] ")


@pytest.mark.parametrize("socket", [None, "nuclei"])
def test_an_empty_zip_is_empty_although_the_platform_writes_a_list_beside_it(tmp_path, socket):
    write_inputs(tmp_path, "predictions-zip-file")
    assert lines(find(tmp_path, make_challenge(socket=socket)))[0].startswith("[empty-submission] submission: empty")
    (tmp_path / "z.txt").write_text("")
    (told,) = lines(find(tmp_path, make_challenge(socket=socket)))
    assert told.startswith("[no-case-found] submission: no prediction among 1 file ('z.txt'); ")


@pytest.mark.parametrize("changes, code", [({"status": "Failed"}, "failed-job"), ({"pk": "../job-1"}, "forged-path")])
def test_case_with_an_unusable_job_is_missing_but_told_once(tmp_path: Path, changes: dict[str, str], code: str) -> None:
    job = {**make_job("b", "job-2"), **changes}
    layout = find(write(tmp_path, [BOTH[0], job], FILES_OF_BOTH[0]), make_challenge())
    assert layout.missing == {"b"}
    assert [finding.code for finding in layout.findings] == [code]


# --- outputs ----------------------------------------------------------------------------------------------------------


def of_one_job(tmp_path: Path, outputs: Any, *names: str, **rules: Any) -> Layout:
    write(tmp_path, [make_job("a", outputs=outputs)], *(f"job-1/output/{name}" for name in names))
    return find(tmp_path, make_challenge(CASES[:1], **rules))


@pytest.mark.parametrize("suffix", [".mha", ".tif", ".tiff", ".TIF"])
def test_image_output_is_the_one_image_in_its_folder(tmp_path: Path, suffix: str) -> None:
    names = [f"images/nuclei/6f4b{suffix}", "images/nuclei/deeper/1.tif", "images/2.tif", "images/nuclei/log.txt"]
    layout = of_one_job(tmp_path, [MASKS], *names, format="label_image", files="{case}.tif", **NO_OUTLINES)
    assert layout.files == {"a": (CaseFile(f"job-1/output/images/nuclei/6f4b{suffix}", 1),)}


TISSUE = {**NUCLEI, "slug": "tissue", "relative_path": "tissue.json"}


@pytest.mark.parametrize("outputs, names, line", [
    ([MASKS], ["images/nuclei/1.png"],
     "[missing-output] case 'a', 'images/nuclei': no image in the folder; expected one .mha, .tif or .tiff. Write "
     "it for every case, even if no nucleus was found."),
    ([MASKS], ["images/nuclei/1.tif", "images/nuclei/2.mha"],
     "[duplicate-file] case 'a', 'images/nuclei': 2 images in the folder; expected one image for each case. Write "
     "one only."),
    ([NUCLEI, NUCLEI], ["nuclei.json"],
     "[duplicate-file] case 'a': two outputs for 'nuclei'; expected every output once. Delete one of them."),
])  # fmt: skip
def test_what_is_wrong_with_outputs_is_told(tmp_path: Path, outputs: Any, names: list[str], line: str) -> None:
    assert lines(of_one_job(tmp_path, outputs, *names)) == [line]


@pytest.mark.parametrize("outputs", [[TISSUE, NUCLEI], [{**NUCLEI, "super_kind": "Value"}]])
def test_the_output_of_the_socket_is_taken_also_a_value_that_was_stored_as_a_file(tmp_path: Path, outputs: Any) -> None:
    layout = of_one_job(tmp_path, outputs, "tissue.json", "nuclei.json")
    assert [file.name for file in layout.files["a"]] == ["job-1/output/nuclei.json"]
    assert "missing-output" not in {finding.code for finding in layout.findings}


def test_outputs_for_each_class_are_found_by_name_alias_and_slug(tmp_path: Path) -> None:
    outputs = [{**NUCLEI, "slug": slug, "relative_path": f"{slug}.json"} for slug in ("t-cell", "lymphocytes", "other")]
    layout = of_one_job(tmp_path, outputs, "t-cell.json", "lymphocytes.json", **BY_CLASS)
    assert layout.files == {
        "a": (CaseFile("job-1/output/lymphocytes.json", 1), CaseFile("job-1/output/t-cell.json", 2))
    }
    assert layout.findings == ()


@pytest.mark.parametrize("policy, slugs, codes", [
    ("empty", ["lymphocyte"], []),
    ("reject", ["lymphocyte"], None),
    ("reject", ["lymphocyte", "t-cell"], []),
    ("empty", [], None),
    ("empty", ["lymphocyte", "lymphocytes"], ["duplicate-file"]),
])  # fmt: skip
def test_outputs_of_classes_are_counted(tmp_path: Path, policy: str, slugs: list[str], codes: list[str] | None) -> None:
    outputs = [{**NUCLEI, "slug": slug} for slug in slugs]
    if codes is None:  # no job has it: the phase has another output
        with pytest.raises(ChallengeBroken, match=r"\[missing-output\] 'predictions.json': no job"):
            of_one_job(tmp_path, outputs, "nuclei.json", **BY_CLASS, missing_class_file=policy)
        return
    layout = of_one_job(tmp_path, outputs, "nuclei.json", **BY_CLASS, missing_class_file=policy)
    assert [finding.code for finding in layout.findings] == codes


# --- what is forged ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pk, relative_path", [
    *(("job-1", path) for path in (
        "../../secret.json", "/etc/passwd", "../../../opt/ml/input/data/ground_truth/a.json", "a//nuclei.json",
        "nuclei.json\n", "..\\nuclei.json", "", "x" * 5000)),
    *((pk, "nuclei.json") for pk in ("..", "../other", "a/b", "", "/job-1")),
])  # fmt: skip
def test_paths_that_lead_elsewhere_are_refused(tmp_path: Path, pk: str, relative_path: str) -> None:
    write(tmp_path, [make_job("a", pk, [{**NUCLEI, "relative_path": relative_path}])], FILES_OF_BOTH[0], "secret.json")
    layout = find(tmp_path, make_challenge(CASES[:1]))
    assert layout.files == {}
    assert "forged-path" in {finding.code for finding in layout.findings}
    assert all(line.isprintable() and len(line) < 1000 for line in lines(layout))


def test_link_among_the_outputs_that_leads_out_is_refused(tmp_path: Path) -> None:
    from evaluation.findings.errors import SubmissionRejected

    (tmp_path / "reference.json").write_text("{}")
    write(tmp_path / "s", [make_job()], "job-1/output/other.json")
    (tmp_path / "s/job-1/output/nuclei.json").symlink_to("../../../reference.json")
    with pytest.raises(SubmissionRejected, match="a link to a file outside the submission"):
        find(tmp_path / "s", make_challenge())


# --- lists that are none ----------------------------------------------------------------------------------------------


def test_what_is_no_list_of_jobs_is_told(tmp_path: Path) -> None:
    inputs = (None, {}, [7], [{}], [{"image": {}}], [{"image": {"name": 7}, "file": 7}])
    outputs = ([{"slug": "nuclei"}], [{"slug": "nuclei", "relative_path": 5}])
    jobs = [{"pk": 5}, *(make_job(inputs=of) for of in inputs), *(make_job(outputs=of) for of in outputs)]
    for document in ({}, [], None, 7, "jobs", [None], [[]], [7], [{}], *([job] for job in jobs)):
        layout = find(write(tmp_path, document), make_challenge())
        assert (layout.files, layout.missing) == ({}, {"a", "b"}), document
        assert "invalid-job" in {finding.code for finding in layout.findings}, document
    for none in (None, {}, [None]):
        assert lines(find(write(tmp_path, [{**make_job(), "outputs": none}]), make_challenge()))[0] == (
            "[invalid-job] 'predictions.json', job 'job-1': no list of outputs; expected jobs as the platform writes "
            "them, with pk, inputs and outputs. Do not write predictions.json yourself."
        )


def test_file_that_is_no_json_is_told(tmp_path: Path) -> None:
    (tmp_path / "predictions.json").write_text('[{"pk": NaN}]')
    layout = find(tmp_path, make_challenge())
    assert [finding.code for finding in layout.findings] == ["not-json"]
    assert layout.missing == {"a", "b"}


def test_list_is_read_within_the_limits_of_the_challenge(tmp_path: Path) -> None:
    write(tmp_path, [make_job()], FILES_OF_BOTH[0])
    challenge = make_challenge().model_copy(update={"limits": LimitRules(json_depth=3)})
    assert [finding.code for finding in find(tmp_path, challenge).findings] == ["too-deep"]


def test_thousands_of_unknown_jobs_are_told_in_one_line(tmp_path: Path) -> None:
    write(tmp_path, [make_job(f"c{index}", f"job-{index}") for index in range(2000)])
    told = broken(tmp_path, make_challenge([Case(f"case {index}", "P", 9, 8) for index in range(200)]))
    (line,) = [line for line in told if line.startswith("[unknown-case]")]
    assert "; 1,997 more)" in line


# --- slugs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("alias", "name"), [("T-cell", "T cell"), ("T cell", "T-cell")])
def test_the_slug_of_a_class_name_goes_before_that_of_an_alias(alias, name):
    document = challenge_document("label_image by class")
    document["classes"] = [{"name": "Immune", "aliases": [alias]}, {"name": name}]
    document["submission"] |= {"socket": "nuclei-{class}"}
    slugs = classes_by_slug(Challenge.build(document))
    assert slugs["nuclei-t-cell"] == 2
    assert slugs["nuclei-immune"] == 1
