"""What docs/security.md promises and no other file of tests shows: what is refused, what is left out, what is told."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from every_format import CASES, write_challenge

from evaluation.authoring.demo import DemoPaths
from evaluation.commands import main as cli
from evaluation.commands import options
from evaluation.results.csv_files import safe_cell


@pytest.fixture(scope="module")
def made(demo: DemoPaths) -> DemoPaths:
    return demo


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """The exit code of a command, and its last line on stderr."""
    code = cli.run([str(argument) for argument in arguments])
    lines = capsys.readouterr().err.splitlines()
    return code, lines[-1] if lines else ""


def score(capsys: pytest.CaptureFixture[str], challenge: Path, submission: Path, output: Path) -> tuple[int, str]:
    return run(capsys, "score", "--challenge", challenge, "--submission", submission, "--output", output)


def at_the_platform(
    folder: Path, patch: pytest.MonkeyPatch, submission: Path, ground_truth: Path | None, own: Path | None = None
) -> Path:
    """Put everything where the platform has it; the folder that results are written to."""
    (folder / "output").mkdir()
    (folder / "input").symlink_to(submission)
    patch.setattr(options, "INPUT", folder / "input")
    patch.setattr(options, "OUTPUT", folder / "output")
    patch.setattr(options, "GROUND_TRUTH", ground_truth or folder / "nowhere")
    if own is not None:
        patch.setattr(options, "OWN_GROUND_TRUTH", own)
    return folder / "output"


def test_every_test_that_the_page_names_is_there():
    tests = Path(__file__).parent
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", (tests.parent / "docs/security.md").read_text())
    assert len(named) > 12
    assert [(file, name) for file, name in named if f"def {name}(" not in (tests / file).read_text()] == []


# --- the ground truth -------------------------------------------------------------------------------------------------


def test_an_empty_ground_truth_is_the_organisers_fault_if_the_image_holds_only_the_demo(
    made, tmp_path, monkeypatch, capsys
):
    (tmp_path / "empty/folder").mkdir(parents=True)
    output = at_the_platform(tmp_path, monkeypatch, made.submissions["finder"], tmp_path / "empty")
    code, last = run(capsys, "score")
    assert code == 3
    assert "not about the submission" in last
    assert list(output.iterdir()) == []


def test_a_ground_truth_that_cannot_be_looked_into_is_the_organisers_fault(made, tmp_path, monkeypatch, capsys):
    """An archive may keep the permissions of the organiser's folders, which the user of the image does not have."""
    output = at_the_platform(tmp_path, monkeypatch, made.submissions["finder"], made.challenge, made.challenge)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may look into everything
    code = cli.run(["score"])
    first, last = capsys.readouterr().err.splitlines()
    assert (code, last.partition(";")[0]) == (3, "The challenge itself has a fault")
    assert "permission denied" in first
    assert list(output.iterdir()) == []


DENIED = """
import errno, sys
from pathlib import Path

closed = Path(sys.argv[1])

def told(do):
    def denied(path, *arguments, **options):
        if closed in path.parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return do(path, *arguments, **options)
    return denied

Path.stat, Path.open = told(Path.stat), told(Path.open)
from evaluation.commands import main
sys.exit(main.run(sys.argv[2:]))
"""


def score_denied(
    closed: Path, challenge: Path, submission: Path, output: Path, workers: int = 1
) -> tuple[int, list[str]]:
    """Exit code and lines of ``score`` where nothing in a folder can be looked at; root may look into everything.

    A process of its own: only one without other threads has workers that are copies of it, with what is denied.
    """
    arguments = ["--challenge", challenge, "--submission", submission, "--output", output, "--workers", workers]
    command = [sys.executable, "-c", DENIED, closed, "score", *arguments]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.splitlines()


def test_a_challenge_that_cannot_be_looked_into_is_the_organisers_fault(tmp_path):
    challenge, submission = write_challenge("polygons_json", tmp_path)
    code, (first, last) = score_denied(challenge, challenge, submission, tmp_path / "out")
    assert (code, last.partition(";")[0]) == (3, "The challenge itself has a fault")
    assert first == "[invalid-text] challenge.toml: Permission denied; expected a readable file."


@pytest.mark.parametrize(
    ("kind", "workers"), [("polygons_json", 1), ("label_image by class", 2), ("points_json by class", 1)]
)
def test_a_folder_of_the_reference_that_cannot_be_looked_into_is_the_organisers_fault(tmp_path, kind, workers):
    challenge, submission = write_challenge(kind, tmp_path)
    code, (*before, last) = score_denied(challenge / "reference", challenge, submission, tmp_path / "out", workers)
    assert code == 3, before
    assert last.startswith("The challenge itself has a fault")
    assert before[0].startswith("[unreadable-file] 'reference/")


def test_an_image_that_was_built_with_a_ground_truth_uses_it(made, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    own = Path(shutil.copytree(made.challenge, tmp_path / "own"))
    (own / "challenge.toml").write_text((own / "challenge.toml").read_text().replace("Demo: nuclei", "Nuclei"))
    output = at_the_platform(tmp_path, monkeypatch, made.submissions["finder"], tmp_path / "empty", own)
    assert run(capsys, "score")[0] == 0
    assert json.loads((output / "metrics.json").read_text())["challenge"]["name"] == "Nuclei of four patients"


@pytest.mark.parametrize("own", [Path(__file__).parents[1] / "ground_truth", None])
def test_without_the_folder_of_the_platform_the_demo_is_scored(made, tmp_path, monkeypatch, capsys, own):
    at_the_platform(tmp_path, monkeypatch, made.submissions["finder"], None, own or made.challenge)
    assert run(capsys, "score")[0] == 0


def test_a_hard_link_to_the_reference_is_refused(tmp_path, capsys):
    challenge, submission = write_challenge("points_csv", tmp_path)
    (submission / "c2.csv").unlink()
    os.link(challenge / "reference/c2.csv", submission / "c2.csv")
    code, last = score(capsys, challenge, submission, tmp_path / "out")
    assert code == 1
    assert last.startswith("Submission rejected: [unsafe-path] 'c2.csv'")
    assert "a file of the challenge under another name" in last
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("how", ["copied", "linked to each other", "the reference itself"])
def test_other_files_are_not_taken_for_the_reference(tmp_path, capsys, how):
    challenge, submission = write_challenge("points_csv", tmp_path)
    if how == "linked to each other":
        shutil.copytree(submission, tmp_path / "backup", copy_function=os.link)
    given = challenge / "reference" if how == "the reference itself" else submission
    assert score(capsys, challenge, given, tmp_path / "out")[0] == 0


# --- hidden names -----------------------------------------------------------------------------------------------------


def write_jobs(folder: Path, case_names: str, names: list[str], **job: Any) -> tuple[Path, Path]:
    """A challenge of the platform's algorithm phase, and its list of jobs, each with a perfect file of polygons."""
    challenge, submission = write_challenge("polygons_json", folder)
    text = (challenge / "challenge.toml").read_text()
    keys = f'missing_case = "worst", socket = "nuclei", case_names = "{case_names}"'
    (challenge / "challenge.toml").write_text(text.replace('missing_case = "worst"', keys))
    jobs = []
    for number, name in enumerate(names, start=1):
        value = {"socket": {"slug": "nuclei", "relative_path": "nuclei.json", "super_kind": "File"}}
        jobs.append({"pk": f"job{number}", "status": "Succeeded", "inputs": [{"image": {"name": name}}],
                     "outputs": [value], **job})  # fmt: skip
        (folder / f"jobs/job{number}/output").mkdir(parents=True)
        shutil.copy(submission / "c1.json", folder / f"jobs/job{number}/output/nuclei.json")
    (folder / "jobs/predictions.json").write_text(json.dumps(jobs))
    return challenge, folder / "jobs"


@pytest.mark.parametrize(("case_names", "expected"), [("public", 1), ("hidden", 3)])
def test_an_image_that_is_no_case_is_the_organisers_mismatch_where_names_are_hidden(
    tmp_path, capsys, case_names, expected
):
    challenge, jobs = write_jobs(tmp_path, case_names, [*(case.name for case in CASES), "quokka-2019-0044"])
    code, last = score(capsys, challenge, jobs, tmp_path / "out")
    assert code == expected
    assert ("quokka" in last) == (case_names == "public")


def test_every_name_of_an_input_is_taken_out_of_the_public_line(tmp_path, capsys):
    """The platform may spell the name of an image in another way than cases.csv; no spelling is told."""
    names = ["Mu\u0308ller", *(case.name for case in CASES[1:])]
    challenge, jobs = write_jobs(tmp_path, "hidden", names, status="Failed on Mu\u0308ller")
    (challenge / "cases.csv").write_text((challenge / "cases.csv").read_text().replace("c1,", "Müller,", 1))
    for path in (challenge / "reference").glob("c1.*"):
        path.rename(path.with_name(path.name.replace("c1", "Müller")))
    code, last = score(capsys, challenge, jobs, tmp_path / "out")
    assert code == 1
    assert "[failed-job]" in last
    assert "ller" not in last


# --- tables that a spreadsheet opens ----------------------------------------------------------------------------------

ODD = [
    '=HYPERLINK("http://x","y")', "@SUM(A1)", "+1+1", "-2+3", "x" * 100_000, "a\n=2", "\x1b[31mred", " =1", "＝1",
    "a;=1",
]  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_no_text_begins_as_a_formula_does_and_none_is_long(text):
    cell = str(safe_cell(text))
    assert cell.isprintable()
    assert len(cell) <= 202
    for part in cell.split(";"):
        assert part.lstrip()[:1] not in "=+-@＝" or not part


def test_ids_of_strangers_are_harmless_in_the_table_of_objects(tmp_path, capsys):
    challenge, submission = write_challenge("geojson outlines", tmp_path)
    document = json.loads((submission / "c1.geojson").read_bytes())
    for feature, text in zip(document["features"], ODD, strict=False):
        feature["id"] = text
    (submission / "c1.geojson").write_text(json.dumps(document))
    assert score(capsys, challenge, submission, tmp_path / "out")[0] == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out/objects.csv").read_text())))
    ids = {row["prediction_id"] for row in rows}
    assert {str(safe_cell(text)) for text in ODD[: len(document["features"])]} <= ids
    assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "-", "@"))]


# --- what cannot be done ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "--results", "r"),
        ("rasterise", "--challenge", "c"),
        ("sensitivity", "--challenge", "c"),
        ("kit", "--challenge", "c"),
        ("demo",),
    ],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.parametrize("address", ["s3://bucket/out", "gs://bucket/out", "file:///tmp/out", "https://a.example/out"])
def test_an_address_is_no_place_to_write_to(tmp_path, monkeypatch, capsys, arguments, address):
    monkeypatch.chdir(tmp_path)
    code, last = run(capsys, *arguments, "--output", address)
    assert code == 2
    assert last.startswith(f"Cannot run: [cannot-write] '{address}': an address of storage; expected a folder or file ")
    assert list(tmp_path.iterdir()) == []
