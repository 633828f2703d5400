"""The commands as people and the platform run them: files, exit codes, and the last line on stderr."""

from __future__ import annotations

import csv
import errno
import io
import json
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
import tifffile
from scipy.io import loadmat, savemat

from evaluation.challenge import preset_names, preset_text
from evaluation.commands import main as cli
from evaluation.commands import options
from evaluation.commands.main import COMMANDS, GROUPS


def evaluation(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command in this process: its exit code, and what it prints."""
    command = [str(argument) for argument in arguments]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = cli.run(command)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


def evaluation_of_its_own(
    *arguments: object, program: tuple[str, str] = ("-m", "evaluation")
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, as people do."""
    command = [sys.executable, *program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def submission(demo, tmp_path):
    """A copy of a submission that a test may break."""
    return Path(shutil.copytree(demo.submissions["finder"], tmp_path / "submission"))


def score(challenge: Path, submission: Path, output: Path, *more: object) -> subprocess.CompletedProcess[str]:
    return evaluation(
        "score", "--quiet", "--challenge", challenge, "--submission", submission, "--output", output, *more
    )


# --- score ----------------------------------------------------------------------------------------------------------


def test_without_arguments_the_paths_of_the_platform_are_used(demo, tmp_path, monkeypatch):
    (tmp_path / "output").mkdir()
    (tmp_path / "input").symlink_to(demo.submissions["finder"])
    monkeypatch.setattr(options, "INPUT", tmp_path / "input")
    monkeypatch.setattr(options, "OUTPUT", tmp_path / "output")
    monkeypatch.setattr(options, "GROUND_TRUTH", tmp_path / "nowhere")
    assert cli.run(["score"]) == 0  # a dry run: the image's own ground truth, which is the demo's
    own = (tmp_path / "output" / "metrics.json").read_bytes()
    monkeypatch.setattr(options, "GROUND_TRUTH", demo.challenge)
    assert cli.run(["score"]) == 0
    shipped = json.loads(own)
    assert shipped.pop("leaderboard")["submissions"] == 4  # the image's ground truth holds the demo's results
    assert json.loads((tmp_path / "output" / "metrics.json").read_bytes()) == shipped


# --- what goes wrong ------------------------------------------------------------------------------------------------


def put(value: float, submission: Path) -> None:
    """A pixel of a class of a case that is no label."""
    path = submission / "P1/P1_1/Epithelial/1.mat"
    labels = loadmat(path)["n_ary_mask"].astype(np.float64)
    labels[2, 7] = value
    savemat(path, {"n_ary_mask": labels})


def empty_folder(submission: Path) -> None:
    shutil.rmtree(submission)
    submission.mkdir()


def link_out(submission: Path) -> None:
    path = submission / "P1/P1_1/Epithelial/1.mat"
    path.unlink()
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("code, spoil", [
    ("empty-submission", empty_folder),
    ("unreadable-file", lambda folder: (folder / "P1/P1_1/Epithelial/1.mat").write_bytes(b"MATLAB 5.0 MAT-file")),
    ("negative-label", lambda folder: put(-1, folder)),
    ("unknown-case", lambda folder: (folder / "P1/P1_1").rename(folder / "P1/P1_9")),
    ("unsafe-path", link_out),
])  # fmt: skip
def test_a_broken_submission_ends_with_one_helpful_line_and_no_result(demo, tmp_path, submission, code, spoil):
    spoil(submission)
    for command in (("score", "--output", tmp_path / "out"), ("validate",)):
        done = evaluation(*command, "--challenge", demo.challenge, "--submission", submission)
        last = done.stderr.splitlines()[-1]
        assert done.returncode == 1
        assert last.startswith("Submission rejected: [") and f"[{code}]" in last and "; expected " in last
        assert len(last) <= 1000 and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_process_leaves_with_its_exit_code_and_one_last_line(demo, tmp_path, submission):
    empty_folder(submission)
    folders = ("--challenge", demo.challenge, "--submission", submission, "--output", tmp_path / "out")
    done = evaluation_of_its_own("score", *folders)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("Submission rejected: [")


def test_all_faults_come_in_one_pass(demo, tmp_path, submission):
    put(np.nan, submission)
    (submission / "P2" / "P2_1").rename(submission / "P2" / "P2_7")
    done = score(demo.challenge, submission, tmp_path / "out")
    assert {"[not-finite]", "[unknown-case]"} <= set(done.stderr.replace(":", " ").split())


@pytest.mark.parametrize("file", ["challenge.toml", "cases.csv"])  # of the reference: test_leaks.py
def test_a_broken_challenge_is_not_the_participants_fault(demo, tmp_path, file):
    challenge = Path(shutil.copytree(demo.challenge, tmp_path / "challenge"))
    (challenge / file).write_text("SECRET_NUCLEUS_4711 <")
    done = score(challenge, demo.submissions["finder"], tmp_path / "out")
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 3
    assert last.startswith("The challenge itself has a fault")
    assert "P1_1" not in last
    assert "SECRET" not in last
    assert len(done.stderr.splitlines()) > 1
    assert not (tmp_path / "out").exists()


def test_a_killed_worker_ends_the_evaluation_without_a_result(demo, tmp_path):
    script = (
        "import os, signal, sys\n"
        "from evaluation.commands import main as cli\nfrom evaluation.scoring import street\n"
        "from killer import kill_worker\n"
        "street.score_cases = kill_worker\n"
        "sys.exit(cli.run(sys.argv[1:]))\n"
    )
    folders = ("--challenge", demo.challenge, "--submission", demo.submissions["finder"], "--output", tmp_path / "out")
    done = evaluation_of_its_own("score", *folders, "--workers", "2", program=("-c", script))
    assert done.returncode == 70
    assert "stopped from outside" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("closed", "workers"), [(">&-", 1), ("2>&-", 2), ("<&- >&- 2>&-", 2)])
def test_closed_standard_streams_change_nothing(demo, tmp_path, closed, workers):
    options = ["--challenge", demo.challenge, "--submission", demo.submissions["finder"]]
    options += ["--output", tmp_path / "out", "--workers", workers]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "evaluation", "score", *map(str, options)],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")
    assert (b"detection.f1" in done.stderr) == ("2>&-" not in closed)
    assert (tmp_path / "out/metrics.json").is_file()


def test_a_scored_submission_stays_scored_if_there_is_no_memory_for_hints(demo, tmp_path, monkeypatch, capsys):
    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr("evaluation.folders.hints.hints_about_files", fail)
    arguments = ["score", "--challenge", demo.challenge, "--submission", demo.submissions["finder"]]
    assert cli.run([*map(str, arguments), "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().err.endswith("metrics.json, details.json, objects.csv\n")


@pytest.mark.parametrize("command", ["rasterise", "sensitivity", "kit", "phase"])
def test_commands_without_a_submission_say_nothing_of_it(command, tmp_path, capsys):
    (tmp_path / "challenge.toml").write_text("colour = 'red'\n")
    output = [] if command == "sensitivity" else ["--output", str(tmp_path / "out")]
    assert cli.run([command, "--challenge", str(tmp_path), *output]) == 3
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "The challenge itself has a fault. Organisers: see the lines above."


@pytest.mark.parametrize("error, told", [
    (OSError(errno.ENOSPC, "No space left on device"), f"in the folder of temporary files, '{gettempdir()}')"),
    (OSError(errno.ENOSPC, "No space left on device", "out/big"), "No space left on device ('out/big')"),
    (OSError(errno.EACCES, "Permission denied", "SECRET"), "Cannot run: Permission denied; this"),
    (RuntimeError("SECRET"), "because of a fault in the program; the organisers find the details in the log."),
])  # fmt: skip
def test_a_full_disk_is_named_and_nothing_else_that_an_error_says(error, told, demo, tmp_path, monkeypatch, capsys):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("evaluation.scoring.street.score_submission", fail)
    submission = demo.submissions["finder"]
    arguments = ["score", "--challenge", demo.challenge, "--submission", submission, "--output", tmp_path / "out"]
    assert cli.run([str(a) for a in arguments]) == 70
    last = capsys.readouterr().err.splitlines()[-1]
    assert told in last and last.endswith("this is not about the submission.") == isinstance(error, OSError)
    assert "SECRET" not in last and "Traceback" not in last


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no device is always full, and Python ends with 120")
def test_a_full_output_is_told_and_is_no_rejection():
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "evaluation", "--version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 70
    (line,) = done.stderr.splitlines()
    assert line.startswith("Cannot run: No space left on device")


@pytest.mark.parametrize("arguments, told", [
    ("compare --latex a b", "No such option '--latex'.\n"),
    ("score --chalenge a", "No such option '--chalenge'. Did you mean '--challenge'?\n"),
    ("score --bogus", "No such option"), ("validate", "Missing option"), ("xyz", "No such command 'xyz'.\n"),
    ("scroe", "No such command 'scroe'. Did you mean 'score'?\n"),
    ("leader-board", "No such command 'leader-board'. Did you mean 'leaderboard'?\n"),
    ("score --challenge nowhere --submission /nonexistent --output out", "Cannot run: [no-challenge] 'nowhere'"),
    ("init --preset monusac somewhere", "[unknown-preset]"),
    ("explain unknown-clas", "Did you mean 'unknown-class'?"),
    ("explain presets monusac", "[unknown-preset] preset: 'monusac'; expected "),
    ("explain monusac2020", "Did you mean 'presets monusac2020'?"),
    ("explain unknown-class monusac2020", "Got unexpected extra argument (monusac2020)"),
    ("explain unknown-class --schema metrics.json", "Got unexpected extra argument (unknown-class)"),
    ("explain presets --schema metrics.json", "Got unexpected extra argument (presets)"),
    ("explain --schema objects.csv", "is not one of"),
])  # fmt: skip
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = evaluation(*arguments.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


# --- the other commands ---------------------------------------------------------------------------------------------


def test_the_last_line_of_validate_repeats_what_it_warns_of(demo, submission):
    for case in ("P1_1", "P2_2"):
        shutil.rmtree(next(submission.glob(f"*/{case}")))
    (submission / "notes.md").write_text("a note")
    done = evaluation("validate", "--challenge", demo.challenge, "--submission", submission)
    assert done.returncode == 0
    *_, last = done.stdout.splitlines()
    assert last.startswith("Valid, with ") and "can be scored" not in done.stdout
    assert "warnings: 2 of 8 cases have no file and count as nothing found; " in last
    assert last.endswith("; 1 file is not used.")


def test_validate_says_once_that_files_were_decoded_without_confinement(demo, monkeypatch):
    call = ["validate", "--challenge", demo.challenge, "--submission", demo.submissions["finder"]]
    monkeypatch.setattr("evaluation.commands.run.missing_here", list)
    assert "confine" not in evaluation(*call).stdout + evaluation(*call, "--json").stdout
    monkeypatch.setattr("evaluation.commands.run.missing_here", lambda: ["Landlock", "seccomp"])
    assert evaluation(*call).stdout.count("Files were decoded without Landlock, seccomp to confine the decoder") == 1
    assert json.loads(evaluation(*call, "--json").stdout)["unconfined"] == ["Landlock", "seccomp"]


def test_validate_gives_findings_as_json(demo, submission):
    put(-1, submission)
    done = evaluation("validate", "--challenge", demo.challenge, "--submission", submission, "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert document["valid"] is False
    found = {finding["code"]: finding["severity"] for finding in document["findings"]}
    assert found == {"negative-label": "error"}


def test_rasterise_writes_label_maps_that_can_be_read_back(demo, tmp_path):
    done = evaluation("rasterise", "--challenge", demo.challenge, "--output", tmp_path)
    assert done.returncode == 0
    rows = list(csv.DictReader((tmp_path / "instances.csv").read_text().splitlines()))
    report = json.loads((tmp_path / "rasterisation.json").read_text())
    for case, facts in report["cases"].items():
        labels = tifffile.imread(tmp_path / "labels" / case[:2] / f"{case}.tif")
        mine = [row for row in rows if row["case"] == case]
        assert facts["outlines"] >= len(mine) > 0
        assert np.bincount(labels.reshape(-1))[1:].tolist() == [int(row["area_px"]) for row in mine]


def test_presets_are_listed():
    listed = [line.split()[0] for line in evaluation("explain", "presets").stdout.splitlines()]
    assert listed == preset_names()
    assert evaluation("explain", "presets", "monusac2020").stdout == preset_text("monusac2020")


def test_help_shows_every_command_once_in_groups_and_in_80_columns():
    lines = evaluation("--help").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    shown = [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in COMMANDS]
    assert shown == list(COMMANDS)
    assert {f"{group}:" for group in GROUPS} <= set(lines)
    assert len([line for line in lines if line.startswith("               ")]) == 0  # one line each


# --- real data ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def derived(shared_data, tmp_path_factory):
    """MoNuSAC's forms with expected values of the published code; the challenge is three keys."""
    folder = tmp_path_factory.mktemp("derived")
    shutil.copytree(shared_data / "monusac_challenge" / "ground_truth", folder / "challenge")
    text = 'format_version = 1\nname = "derived"\npreset = "monusac2020"\n'
    (folder / "challenge").chmod(0o755)
    (folder / "challenge" / "challenge.toml").write_text(text)
    done = score(folder / "challenge", shared_data / "monusac_challenge" / "submission", folder / "out")
    assert (done.returncode, done.stderr) == (0, "")
    expected = json.loads((shared_data / "monusac_challenge" / "expected.json").read_text())
    return (
        json.loads((folder / "out" / "metrics.json").read_text()),
        json.loads((folder / "out" / "details.json").read_text()),
        expected,
    )


PATHS = {
    "pq_group_mean": "panoptic.pq",
    "dq_group_mean": "panoptic.rq",
    "sq_group_mean": "panoptic.sq",
    "det_acc": "detection.threat_score",
    "det_prec": "detection.precision",
    "det_rec": "detection.recall",
    "det_f1": "detection.f1",
    "balanced_accuracy": "classification.balanced_accuracy",
    "iou_class_mean": "segmentation.iou_class_mean",
    "hausdorff_px": "segmentation.hausdorff_px",
    **{
        f"class_{short}_{name.lower()}": f"classification.per_class.{name}.{long}"
        for name in ("Epithelial", "Lymphocyte", "Neutrophil", "Macrophage")
        for short, long in (("prec", "precision"), ("rec", "recall"), ("f1", "f1"))
    },
}


@pytest.mark.parametrize("rule", ["strict_iou", "centroid"])
def test_every_value_of_the_published_code_is_met(derived, rule):
    metrics, details, expected = derived
    tree = metrics if rule == "strict_iou" else metrics["alternatives"]["best_iou_centroid_inside"]
    found = {}
    for key, path in PATHS.items():
        node = tree
        for part in (*path.split("."), "group_mean"):
            node = node[part]
        found[key] = node
    matrix = expected[rule]["confusion_matrix"]
    values = {key: value for key, value in expected[rule].items() if key != "confusion_matrix"}
    assert found == pytest.approx(values, abs=1e-6)
    name = "iou_above" if rule == "strict_iou" else "best_iou_centroid_inside"
    assert details["pooled"]["rules"][name]["counts"]["confusion_matrix"] == matrix


def test_init_reads_the_headers_of_real_slides(shared_data, tmp_path):
    folder = tmp_path / "real" / "reference" / "A9K0"
    folder.mkdir(parents=True)
    for path in (shared_data / "monusac").iterdir():
        shutil.copy(path, folder)
    assert evaluation("init", "--preset", "monusac2020", tmp_path / "real").returncode == 0
    assert (tmp_path / "real" / "cases.csv").read_text().splitlines()[1:] == [
        "A9K0_1,A9K0,1153,1307",
        "A9K0_3,A9K0,185,497",
    ]
    assert evaluation("rasterise", "--challenge", tmp_path / "real", "--output", tmp_path / "out").returncode == 0
    report = json.loads((tmp_path / "out" / "rasterisation.json").read_text())["cases"]["A9K0_1"]
    assert (report["contested_px"], report["outlines_self_intersecting"]) == (592, 76)


def test_the_number_of_workers_may_come_from_the_environment(demo, tmp_path, monkeypatch, capsys):
    given = ["score", "--challenge", str(demo.challenge), "--submission", str(demo.submissions["finder"])]
    for workers, code in (("0", 2), ("2", 0)):
        monkeypatch.setenv("NUCLEI_EVALUATION_WORKERS", workers)
        assert cli.run([*given, "--output", str(tmp_path / workers)]) == code


def test_the_last_line_says_which_format_the_files_have_as_validate_does(demo, tmp_path):
    other = shutil.copytree(demo.challenge / "reference", tmp_path / "outlines", copy_function=shutil.copyfile)
    given = ["--challenge", demo.challenge, "--submission", other]
    done = evaluation("score", *given, "--output", tmp_path / "out")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert "It contains 8 images as aperio_xml" in last and "evaluation convert" in last
    assert last == evaluation("validate", *given).stderr.strip().splitlines()[-1]
