"""What the platform needs and hands over: a phase, its starter kits, jobs; the kit for participants."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import SimpleITK
from baseline import ALGORITHM, JOB, algorithm_phase, board_with_baseline, write_jobs, write_kit_and_inputs
from container.job_tree import write_job_tree

from evaluation import score_submission
from evaluation.challenge import Challenge
from evaluation.commands.main import run
from evaluation.files.schemas import json_schema, model_of
from evaluation.folders.demo import write_demo
from evaluation.platform.phase import phase_of
from evaluation.platform.wheel import WHEEL_FILE

POLYGONS = {"slug": "nuclei-polygons", "kind": "Multiple polygons", "super_kind": "File"}
MADE_NAME = "the_original_filename_of_the_file_that_was_uploaded.suffix"


def said(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    capsys.readouterr()
    assert run(list(map(str, arguments))) == code
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's reference, and the finder's predictions as the platform's polygons."""
    folder = tmp_path_factory.mktemp("demo")
    made = write_demo(folder)
    convert = ["convert", "--challenge", str(made.challenge), str(made.submissions["finder"])]
    assert run([*convert, str(folder / "polygons"), "--to", "platform"]) == 0
    return folder


@pytest.fixture
def phase(demo: Path, tmp_path: Path) -> Path:
    return algorithm_phase(demo, tmp_path)


def placed(demo: Path, case: str, target: Path) -> None:
    (file,) = (demo / "polygons").rglob(f"{case}*.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)


# --- init -------------------------------------------------------------------------------------------------------------


def test_a_list_of_jobs_becomes_a_challenge_that_scores_them(demo: Path, phase: Path, tmp_path: Path) -> None:
    """The oracle is the same submission in the demo's own challenge, with its overlap rule."""
    rules = Challenge.load(phase).submission
    assert (rules.socket, rules.input, rules.case_key) == ("nuclei-polygons", "he-image", "{case}.tif")
    assert (rules.files, rules.case_names) == ("{case}.json", "hidden")
    tree = tmp_path / "tree"
    jobs = []
    for case in Challenge.load(phase).cases:
        image = {"image": {"name": f"{case.name}.tif"}, "socket": {"slug": "he-image"}}
        jobs.append({**JOB, "pk": f"pk-{case.name}", "inputs": [image]})
        placed(demo, case.name, tree / f"pk-{case.name}" / "output" / "nuclei-polygons.json")
    (tree / "predictions.json").write_text(json.dumps(jobs))
    scored = score_submission(phase, tree, workers=1)
    expected = score_submission(demo / "challenge", demo / "submissions" / "finder", workers=1)
    for path in ("detection.precision.pooled", "detection.recall.pooled"):
        assert scored.value(path) == pytest.approx(expected.value(path), abs=0.01)


def test_classes_of_the_jobs_that_the_reference_lacks_are_named(demo: Path, tmp_path: Path, capsys) -> None:
    placed(demo, "P1_1", output := tmp_path / "tree" / JOB["pk"] / "output" / "nuclei-polygons.json")
    jobs = tmp_path / "tree" / "predictions.json"
    jobs.write_text(json.dumps([JOB]))
    assert "The reference has no class" not in said(capsys, *begun(demo, tmp_path / "known", jobs))
    output.write_text(output.read_text().replace('"Lymphocyte"', '"Plasma cell"', 1))
    told = said(capsys, *begun(demo, tmp_path / "unknown", jobs))
    assert "The reference has no class 'Plasma cell': submissions with it are rejected." in told


def begun(demo: Path, folder: Path, jobs: Path) -> list[object]:
    """The command that begins a challenge of the jobs, with the demo's reference."""
    shutil.copytree(demo / "challenge" / "reference", folder / "reference")
    return ["init", folder, "--submission", jobs]


@pytest.mark.parametrize(("outputs", "socket", "format"), [
    ([{**POLYGONS, "slug": "a"}, {"slug": "b", "kind": "Image"}], "a", "polygons_json"),
    ([{"slug": "mask", "kind": "Image"}, {"slug": "nuclei", "kind": "Image"}], "nuclei", "label_image"),
    ([{"slug": "x", "is_image_kind": True, "relative_path": "images/x"}], "x", "label_image"),
    ([{"slug": "x", "is_json_kind": True, "relative_path": "x.json"}], "x", "polygons_json"),
    ([{**POLYGONS, "slug": f"of-{name}"} for name in ("epithelial", "lymphocyte")], "of-{class}", "polygons_json"),
    ([{"slug": "x", "kind": "Anything"}], "x", "geojson"),
])  # fmt: skip
def test_the_output_with_the_nuclei_is_found(outputs, socket, format, demo, tmp_path) -> None:
    jobs = tmp_path / "predictions.json"
    jobs.write_text(json.dumps([{**JOB, "outputs": [{"socket": output} for output in outputs]}]))
    rules = Challenge.load(algorithm_phase(demo, tmp_path, jobs)).submission
    assert (rules.socket, rules.format) == (socket, format)


def test_without_a_reference_the_jobs_name_the_cases(tmp_path: Path) -> None:
    jobs = tmp_path / "predictions.json"
    jobs.write_text(
        json.dumps(
            [JOB, {**JOB, "pk": "b", "inputs": [{"file": "https://x/media/2/b.tif", "socket": {"slug": "he-image"}}]}]
        )
    )
    assert run(["init", str(tmp_path / "c"), "--submission", str(jobs)]) == 0
    rows = list(csv.DictReader((tmp_path / "c" / "cases.csv").read_text().splitlines()))
    assert [row["case"] for row in rows] == ["P1_1", "b"]


def test_real_outputs_tell_their_units(demo: Path, tmp_path: Path) -> None:
    """Sizes are in the names of no file here: the reference's are filled in by an image beside it."""
    jobs = tmp_path / "tree" / "predictions.json"
    outline = {"path_points": [[0.01, 0.02, 0.5], [0.03, 0.02, 0.5], [0.02, 0.04, 0.5]], "name": "Epithelial"}
    jobs.parent.mkdir()
    jobs.write_text(json.dumps([JOB]))
    output = tmp_path / "tree" / "0a" / "output" / "nuclei-polygons.json"
    output.parent.mkdir(parents=True)
    output.write_text(json.dumps({"type": "Multiple polygons", "polygons": [outline]}))
    shutil.copytree(demo / "challenge" / "reference", tmp_path / "c" / "reference")
    SimpleITK.WriteImage(SimpleITK.Image(330, 280, SimpleITK.sitkUInt8), str(tmp_path / "c/reference/P1/P1_1.png"))
    assert run(["init", str(tmp_path / "c"), "--submission", str(jobs.parent)]) == 0
    assert 'units = "mm"' in (tmp_path / "c" / "challenge.toml").read_text()


def test_jobs_without_an_output_of_nuclei_are_refused(tmp_path: Path, capsys) -> None:
    jobs = tmp_path / "predictions.json"
    jobs.write_text(json.dumps([{**JOB, "outputs": [{"socket": {"slug": "x", "kind": "Float"}}]}]))
    assert run(["init", str(tmp_path / "c"), "--submission", str(jobs)]) == 2
    assert "[nothing-to-compare]" in capsys.readouterr().err


# --- the phase --------------------------------------------------------------------------------------------------------


def test_a_phase_asks_support_for_its_sockets_and_names_the_items_of_the_archive(phase: Path, tmp_path, capsys) -> None:
    text = said(capsys, "phase", "--challenge", phase, "--output", tmp_path / "for_platform")
    for line in ("Kind of phase: Algorithm", "  he-image: Image; images/he-image",
                 "  nuclei-polygons: Multiple polygons; nuclei-polygons.json", "Interface: he-image -> nuclei-polygons",
                 "Archive: 8 items; the input of each is he-image and no other", "P1_1.tif is case P1_1"):  # fmt: skip
        assert line in text.splitlines()
    document = json.loads(said(capsys, "phase", "--challenge", phase, "--json"))
    rows = list(csv.DictReader((tmp_path / "for_platform" / "archive.csv").read_text().splitlines()))
    assert rows == document["archive"] and len(rows) == 8
    assert document["schemas"] == {"nuclei-polygons": json_schema("polygons_json")}
    assert json.loads((tmp_path / "for_platform" / "pack-context.json").read_text()) == document["pack_context"]
    kinds = {socket["relative_path"]: socket["kept_out"] for socket in document["support"]["evaluation_outputs"]}
    assert kinds == {"details.json": True, "objects.csv": False}  # stored in the database, it is printed to everybody


def test_every_named_output_is_written_and_valid(phase: Path, demo: Path, tmp_path: Path) -> None:
    challenge = Challenge.load(phase)
    shutil.copytree(demo / "polygons", tmp_path / "polygons")
    for path in [*(tmp_path / "polygons").rglob("*.json")]:
        model_of("polygons_json").validate_python(json.loads(path.read_text()))
    (tmp_path / "flat").mkdir()
    for case in challenge.cases:
        placed(demo, case.name, tmp_path / "flat" / f"{case.name}.json")
    write_job_tree(challenge, tmp_path / "flat", (tmp_path / "tree"))
    jobs = json.loads((tmp_path / "tree" / "predictions.json").read_text())
    model_of("predictions.json").validate_python(jobs)
    assert run(["score", "--challenge", str(phase), "--submission", str(tmp_path / "tree"),
                "--output", str(tmp_path / "out")]) == 0  # fmt: skip
    for socket in phase_of(challenge).support.evaluation_outputs:
        assert (tmp_path / "out" / socket.relative_path).stat().st_size > 0


def test_what_the_platform_cannot_hold_and_what_a_name_lacks_are_told() -> None:
    challenge = Challenge.from_preset("recommended", name="a", submission={"socket": "nuclei-{class}"})
    lines = phase_of(challenge).document()["explanation"]
    assert any("no kind of output for nary_mat" in line for line in lines)
    assert any(line.startswith("submission.input is not set") for line in lines)
    assert [socket.slug for socket in phase_of(challenge).support.outputs] == [
        "nuclei-epithelial", "nuclei-lymphocyte", "nuclei-neutrophil", "nuclei-macrophage"
    ]  # fmt: skip


def test_a_newcomer_scores_the_real_jobs_of_puma(shared_data: Path, tmp_path: Path, capsys) -> None:
    """By the words of docs/organisers.md. The reference is of other images: the jobs get their names."""
    challenge, tree = tmp_path / "my_challenge", tmp_path / "tree"
    (challenge / "reference").mkdir(parents=True)
    for path in (shared_data / "puma" / "reference").glob("*primary*"):
        shutil.copy(path, challenge / "reference")
    shutil.copytree(shared_data / "puma" / "submission", tree)
    jobs = (tree / "predictions.json").read_text()
    for old, new in (("preliminary_test_set_primary_roi_004", "training_set_primary_roi_101"),
                     ("preliminary_test_set_primary_roi_005", "training_set_primary_roi_102")):  # fmt: skip
        jobs = jobs.replace(old, new)
    (tree / "predictions.json").write_text(jobs)
    assert "2 of 2 inputs are cases of the reference." in said(capsys, "init", challenge, "--submission", tree)
    cases = challenge / "cases.csv"
    cases.write_text(cases.read_text().replace(",,\n", ",1024,1024\n"))  # as init asks
    said(capsys, "score", "--challenge", challenge, "--submission", tree, "--output", tmp_path / "out")
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    rows = list(csv.DictReader((tmp_path / "out" / "objects.csv").read_text().splitlines()))
    predicted = [row for row in rows if row["rule"] == "iou_above" and row["outcome"] != "missed"]
    assert len(predicted) == 401 + 453  # polygons of the two jobs
    assert 0 < metrics["detection"]["f1"]["pooled"] < 0.05  # of other images
    assert "Archive: 2 items" in said(capsys, "phase", "--challenge", challenge)


# --- starter kits -----------------------------------------------------------------------------------------------------


def starter_kit_keys(value: dict[str, Any]) -> dict[str, Any]:
    """An input or output as the starter kit of the platform has it: ``socket``, and no kinds."""
    described = {key: item for key, item in value["interface"].items() if key not in ("kind", "super_kind")}
    described["is_image_kind"] = described["relative_path"].startswith("images/")
    return {**{key: item for key, item in value.items() if key != "interface"}, "socket": described}


@pytest.mark.parametrize("keys", ["forge", "starter kit"])
def test_the_packs_of_the_platform_are_scored(keys: str, demo: Path, phase: Path, tmp_path: Path) -> None:
    """grand-challenge-forge makes a tree of what ``phase`` writes; it exits with 0 also when it makes none."""
    pytest.importorskip("grand_challenge_forge")
    assert run(["phase", "--challenge", str(phase), "--output", str(tmp_path / "p")]) == 0
    forge = [sys.executable, "-c", "from grand_challenge_forge.cli import cli; cli()", "pack", "-o", tmp_path / "pack"]
    subprocess.run([*forge, tmp_path / "p" / "pack-context.json"], check=True, capture_output=True)
    (found,) = (tmp_path / "pack").glob("*/*/example-evaluation-method/test/input")
    jobs = json.loads((found / "predictions.json").read_text())
    names = [case.name for case in Challenge.load(phase).cases]
    assert {value["image"]["name"] for job in jobs for value in job["inputs"]} == {MADE_NAME}
    jobs += [{**jobs[0], "pk": f"more-{name}"} for name in names[len(jobs) :]]
    for job, name in zip(jobs, names, strict=True):
        job["inputs"] = [{**value, "image": {"name": f"{name}.tif"}} for value in job["inputs"]]
        placed(demo, name, found / job["pk"] / "output" / "nuclei-polygons.json")
        if keys == "starter kit":
            job |= {side: list(map(starter_kit_keys, job[side])) for side in ("inputs", "outputs")}
    made = tmp_path / "made.json"
    made.write_text(json.dumps(jobs))
    shutil.copy(made, found / "predictions.json")
    scored = score_submission(phase, found, workers=1)
    assert scored.value("detection.f1.pooled") == pytest.approx(0.96, abs=0.02)
    again = algorithm_phase(demo, tmp_path / "again", found)
    assert Challenge.load(again).submission == Challenge.load(phase).submission


# --- the kit ----------------------------------------------------------------------------------------------------------


def test_a_kit_holds_the_program_its_schema_and_an_example_algorithm(phase: Path, tmp_path: Path, capsys) -> None:
    kit = tmp_path / "kit"
    said(capsys, "kit", "--challenge", phase, "--output", kit)
    guide = (kit / "GUIDE.md").read_text()
    assert f"pipx install ./{WHEEL_FILE}" in guide and "A container with an algorithm." in guide
    assert "`example_algorithm/` is a baseline" in guide
    assert "{case}.tif" not in guide and "ZIP of it" not in guide
    assert json.loads((kit / "submission.schema.json").read_text()) == json_schema("polygons_json")
    capsys.readouterr()
    assert run(["validate", "--challenge", str(kit), "--submission", str(kit / "example_submission.zip")]) == 0
    assert capsys.readouterr().err == ""
    proposal = (kit / "PROPOSAL.md").read_text()
    for words in ("`detection.f1.group_mean`), higher is better", "8 cases of 4 patients", "## Missing data"):
        assert words in proposal


def test_the_example_in_the_kit_of_the_demo_is_valid_without_a_warning(demo: Path, tmp_path: Path, capsys) -> None:
    said(capsys, "kit", "--challenge", demo / "challenge", "--output", tmp_path / "kit")
    example = tmp_path / "kit" / "example_submission.zip"
    assert run(["validate", "--challenge", str(tmp_path / "kit"), "--submission", str(example)]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("Valid: all 8 cases of 'Demo: nuclei of four patients' can be scored.\n", "")


def test_the_wheel_in_a_kit_is_the_program(phase: Path, tmp_path: Path, capsys) -> None:
    """pip unpacks it, and the unpacked program alone, beside the packages of this environment, validates."""
    said(capsys, "kit", "--challenge", phase, "--output", tmp_path / "kit")
    wheel = tmp_path / "kit" / WHEEL_FILE
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", tmp_path / "site"]
    subprocess.run([*pip, wheel], check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-m", "evaluation", "validate", "--challenge", tmp_path / "kit", "--submission",
         tmp_path / "kit" / "example_submission"],
        env={"PYTHONPATH": str(tmp_path / "site"), "PYTHONSAFEPATH": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("Valid: all 2 cases")
    with zipfile.ZipFile(wheel) as packed:
        (metadata,) = (name for name in packed.namelist() if name.endswith("METADATA"))
        assert "Requires-Dist: pydantic>=2.10\n" in packed.read(metadata).decode()


@pytest.mark.parametrize("kind", ["Multiple polygons", "Multiple points", "Image"])
def test_the_example_algorithm_reads_its_input_and_its_output_is_scored(kind: str, demo: Path, tmp_path: Path) -> None:
    """Its container is built and run by tests/container/example_algorithm.py."""
    challenge = write_kit_and_inputs(demo, tmp_path, kind)
    program = tmp_path / ALGORITHM / "inference.py"

    if kind == "Image":  # a socket that existed before may have another path than its slug
        for given in (tmp_path / "inputs").iterdir():
            (given / "images" / "he-image").rename(given / "images" / "scan")

    def run_here(given: Path, output: Path) -> None:
        subprocess.run([sys.executable, "-W", "error", program, given, output], check=True)

    tree = write_jobs(challenge, tmp_path, run_here)
    assert score_submission(challenge, tree, workers=1).value("detection.f1.pooled") > 0.5
    if kind == "Multiple polygons":
        board = board_with_baseline(demo, tmp_path, challenge, tree)
        assert [team["position"] for team in board["teams"]] == [1, 2, 3]
        (entry,) = board["shown"]
        assert entry["name"] == "baseline"
