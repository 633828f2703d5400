"""What docs/security.md promises: nothing of the reference leaks, and what is refused, left out and told."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from every_format import CASES, SIDES, challenge_document, write_challenge, write_files
from fuzz.mutate import mutated
from hostile.corpus import CORPUS
from hostile.make import aperio, hdf5, mha, vertices
from hostile.record import JOBS, Hostile, example_files_of
from hostile.record import write_challenge as write_rules

from evaluation.commands import main as cli
from evaluation.commands import options
from evaluation.files.results.documents import safe_cell

NUCLEI = 7919  # of the first case
PLANTED_WORDS = ("axolotl", "okapi", "zebrafinch", "wombat", "quokka", "numbat", "narwhal")
PLANTED_NUMBERS = ("48611", "48,611", "7919", "7,919", "90047", "90,047", "7921", "7,921")
GROUND_TRUTH = "axolotl-ground-truth"
NAMES = sorted({name for case in CASES for name in (case.name, case.group)})
NAME = re.compile(rf"(?<!\w)(?:{'|'.join(NAMES)})(?!\w)")
FILE = "reference/numbat_{group}_{case}.xml"


def planted_reference(nuclei: int, name: str = "Epithelial") -> bytes:
    """Annotations with comments, ids, texts and coordinates that stand nowhere else; every nucleus is one pixel."""
    corners = ((0.2, 0.2), (0.8, 0.2), (0.8, 0.8), (0.2, 0.8))
    shapes = [vertices(*((i % 30 + dx, i // 30 % 20 + dy) for dx, dy in corners)) for i in range(nuclei)]
    outside = vertices(("48611.5", "48611.25"), ("48612.5", "48611.25"), ("48612.5", "48613"))
    text = aperio(*shapes, outside, name=name).decode()
    text = text.replace('<Region Id="', '<Region Text="wombat" Type="0" Id="zebrafinch-90047')
    return f"{text}<!-- okapi -->".encode()


def planted_document(document: dict[str, Any]) -> dict[str, Any]:
    """The challenge of a submission, with the planted reference."""
    reference = {"format": "aperio_xml", "files": FILE, "overlap": "keep", "overlap_scope": "image",
                 "vertices": "exact", "vanished": "drop", "origin": "pixel_corner"}  # fmt: skip
    return {**document, "reference": reference}


@pytest.fixture(scope="module")
def few_nuclei(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reference(tmp_path_factory.mktemp("few"), 7)


@pytest.fixture(scope="module")
def many_nuclei(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reference(tmp_path_factory.mktemp("many"), NUCLEI)


def write_reference(folder: Path, nuclei: int) -> Path:
    """The files of the planted reference, with so many nuclei in the first case."""
    for case, count in zip(CASES, (nuclei, 1, 1), strict=True):
        (folder / f"numbat_{case.group}_{case.name}.xml").write_bytes(planted_reference(count))
    return folder


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folders of the platform: input is a link, output is empty, the ground truth was uploaded."""
    for name in ("output", GROUND_TRUTH):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(options, "INPUT", tmp_path / "input")
    monkeypatch.setattr(options, "OUTPUT", tmp_path / "output")
    monkeypatch.setattr(options, "GROUND_TRUTH", tmp_path / GROUND_TRUTH)
    return tmp_path


def prepare(platform: Path, reference: Path, document: dict[str, Any]) -> None:
    """Put the challenge where the platform has it."""
    ground_truth = platform / GROUND_TRUTH
    shutil.rmtree(ground_truth)
    write_rules(planted_document(document), ground_truth)
    (ground_truth / "reference").symlink_to(reference)


def score(platform: Path, submission: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Score as the platform does; the exit code and the lines on stderr."""
    (platform / "input").unlink(missing_ok=True)
    (platform / "input").symlink_to(submission)
    code = cli.run(["score", "--workers", "1"])
    return code, [line for line in capsys.readouterr().err.splitlines() if line.strip()]


def planted_in(text: str, numbers: tuple[str, ...] = PLANTED_NUMBERS) -> list[str]:
    """What of the reference is in a text; numbers count where they stand by themselves."""
    words = [word for word in PLANTED_WORDS if word in text.lower()]
    return words + [number for number in numbers if re.search(rf"(?<![\d,.]){number}(?![\d]|,\d)", text)]


def numbers_and_texts(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All keys and values of a JSON document, one by one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield path, key
            yield from numbers_and_texts(inner, f"{path}.{key}")
    else:
        yield path, value


def is_cheap(record: Hostile) -> bool:
    """Whether a record needs no large files; images of other sizes do not fit the planted reference."""
    return record.size is None and all(
        isinstance(content, bytes) and len(content) < 100_000 for content in record.files.values()
    )


CHOSEN = [record for record in CORPUS if record.code is not None and is_cheap(record)]


@pytest.mark.parametrize("case_names", ["public", "hidden"])
def test_no_rejected_submission_is_told_anything_of_the_reference(
    case_names, platform, few_nuclei, many_nuclei, capsys
):
    assert len(CHOSEN) > 100 and {record.kind for record in CHOSEN} > {"aperio_xml", "rle_csv", "nary_mat", JOBS}
    leaks = []
    for index, record in enumerate(CHOSEN[case_names == "hidden" :: 2]):
        reference = few_nuclei if index % 8 or record.limits else many_nuclei  # limits are for both sides
        document = record.document()
        document["submission"]["case_names"] = case_names
        prepare(platform, reference, document)
        (platform / str(index)).mkdir()
        _, submission = record.write(platform / str(index))
        code, lines = score(platform, submission, capsys)
        # The platform writes the list of jobs: one that does not go with the challenge is the organiser's fault.
        is_of_phase = record.kind == JOBS and code == 3
        if code != (3 if is_of_phase else 1) or not lines:
            leaks.append((record.name, code, lines))
        leaks += [(record.name, found, line) for line in lines if (found := planted_in(line))]
        leaks += [(record.name, "path", line) for line in lines if str(platform) in line]
        if case_names == "hidden" and NAME.search(lines[-1]):
            leaks.append((record.name, "name of a case", lines[-1]))
        if list((platform / "output").iterdir()):
            leaks.append((record.name, "output", ""))
    assert leaks == []


@pytest.mark.parametrize("kind", SIDES)
def test_no_mutated_submission_is_told_anything_of_the_reference(kind, platform, few_nuclei, capsys):
    document = challenge_document(kind)
    document["submission"]["case_names"] = "hidden"
    prepare(platform, few_nuclei, document)
    files = example_files_of(kind)
    for seed in range(6):
        chance = random.Random(f"{kind}/{seed}")
        name = chance.choice(sorted(files))
        submission = platform / f"submission{seed}"
        write_files(submission, {**files, name: mutated(files[name], chance)})
        code, lines = score(platform, submission, capsys)
        assert code in (0, 1)
        assert [(line, found) for line in lines if (found := planted_in(line))] == []
        if code == 1:
            assert not NAME.search(lines[-1])
        else:
            assert lines == []
            check_metrics(platform / "output" / "metrics.json")
            shutil.rmtree(platform / "output")
            (platform / "output").mkdir()


def check_metrics(path: Path) -> None:
    """metrics.json holds aggregates only: no name, no path, no list, and no number as large as a count."""
    text = path.read_text()
    assert planted_in(text) == []
    assert len(text) < 100_000
    for place, value in numbers_and_texts(json.loads(text)):
        assert not isinstance(value, list), place
        if isinstance(value, str):
            assert not NAME.search(value) and "/" not in value, place
        elif value is not None:
            assert -1 <= value <= 1 or "hausdorff" in place, place
            assert value < 40  # px, the diagonal of the images


@pytest.mark.parametrize("kind", SIDES)
def test_metrics_of_a_scored_submission_hold_nothing_of_single_cases(kind, platform, many_nuclei, capsys):
    document = challenge_document(kind)
    document["name"] = "A challenge"
    prepare(platform, many_nuclei, document)
    code, lines = score(platform, write_files(platform / "submission", example_files_of(kind)), capsys)
    assert (code, lines) == (0, [])
    check_metrics(platform / "output" / "metrics.json")
    written = [(platform / "output" / name).read_text() for name in ("details.json", "objects.csv")]
    assert all(NAME.search(text) and "zebrafinch" in planted_in(text) for text in written)  # for administrators
    assert written[1].count("zebrafinch") >= NUCLEI


# --- submissions that reach for the reference -------------------------------------------------------------------------


def with_external_data(target: str) -> bytes:
    return hdf5(lambda file: file.create_dataset("inst_map", (30, 20), "u1", external=[(target, 0, 600)]))


BESIDE = f"../{GROUND_TRUTH}/reference/numbat_P1_c1.xml"
ENTITY = "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY x SYSTEM 'file://{}'>]>"
WAYS = {  # kind of the challenge, file, and content by the path of the reference; a text is the target of a link
    "link": ("aperio_xml", "P1/c1.xml", str),
    "relative link": ("aperio_xml", "P1/c1.xml", lambda target: f"../{BESIDE}"),
    "entity": ("aperio_xml", "P1/c1.xml", lambda target: aperio("&x;", head=ENTITY.format(target))),
    "header": ("label_image channel mha", "c1.mha", lambda target: mha(b"", ElementDataFile=target)),
    "relative header": ("label_image channel mha", "c1.mha", lambda target: mha(b"", ElementDataFile=BESIDE)),
    "external data": ("hovernet_mat", "c1.mat", with_external_data),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_from_a_submission_to_the_reference(way, platform, few_nuclei, capsys):
    kind, name, content_of = WAYS[way]
    files = {name: content_of(str(platform / GROUND_TRUTH / "reference" / "numbat_P1_c1.xml"))}
    prepare(platform, few_nuclei, challenge_document(kind))
    submission = platform / "submission"
    for name, content in {**example_files_of(kind), **files}.items():
        path = submission / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(content) if isinstance(content, str) else path.write_bytes(content)
    code, lines = score(platform, submission, capsys)
    assert code == 1
    told_by_itself = ("axolotl", "numbat")  # the header that was handed in holds the path
    assert [word for line in lines for word in planted_in(line) if word not in told_by_itself] == []


# --- faults of the reference ------------------------------------------------------------------------------------------

FAULTS = {
    "unknown class": planted_reference(5, name="quokka"),
    "coordinate": planted_reference(5).replace(b"48611.5", b"narwhal"),
    "cut off": planted_reference(5)[:-60],
    "another format": b"<narwhal/>",
    "nothing": b"",
}


@pytest.mark.parametrize("fault", [*FAULTS, "missing"])
@pytest.mark.parametrize("case_names", ["public", "hidden"])
def test_a_fault_of_the_reference_is_not_in_the_last_line(fault, case_names, platform, few_nuclei, capsys):
    document = challenge_document("polygons_json")
    document["submission"]["case_names"] = case_names
    prepare(platform, few_nuclei, document)
    (platform / GROUND_TRUTH / "reference").unlink()
    shutil.copytree(few_nuclei, platform / GROUND_TRUTH / "reference")
    broken = platform / GROUND_TRUTH / "reference" / "numbat_P1_c2.xml"
    broken.write_bytes(FAULTS[fault]) if fault in FAULTS else broken.unlink()
    submission = write_files(platform / "submission", example_files_of("polygons_json"))
    code, (*before, last) = score(platform, submission, capsys)
    assert code == 3
    assert "numbat_P1_c2.xml" in "".join(before)  # administrators are told
    assert (
        last == "The challenge itself has a fault; this is not about the submission. Organisers: see the lines above."
    )
    assert planted_in(last) == []
    assert list((platform / "output").iterdir()) == []


def test_the_search_finds_what_is_planted():
    assert planted_in("7,919 nuclei, 'Wombat' at 48611.5") == ["wombat", "48611", "7,919"]
    assert planted_in("0.7919, 17919 and 7,919,000") == []
    assert [word for word in PLANTED_WORDS if word not in ("axolotl", "numbat", "quokka", "narwhal")] == [
        word for word in ("okapi", "zebrafinch", "wombat") if word.encode() in planted_reference(1)
    ]


# --- what docs/security.md promises and no other file of tests shows: what is refused, what is left out, what is  -----


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """The exit code of a command, and its last line on stderr."""
    code = cli.run([str(argument) for argument in arguments])
    lines = capsys.readouterr().err.splitlines()
    return code, lines[-1] if lines else ""


def score_with(capsys: pytest.CaptureFixture[str], challenge: Path, submission: Path, output: Path) -> tuple[int, str]:
    return run(capsys, "score", "--challenge", challenge, "--submission", submission, "--output", output)


def test_every_test_that_the_page_names_is_there():
    tests = Path(__file__).parent
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", (tests.parent / "docs/security.md").read_text())
    assert len(named) > 12
    assert [(file, name) for file, name in named if f"def {name}(" not in (tests / file).read_text()] == []


# --- the ground truth -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["empty", "denied"])
def test_an_empty_ground_truth_is_the_organisers_fault_if_the_image_holds_only_the_demo(
    demo, platform, monkeypatch, capsys, fault
):
    """An archive may keep the permissions of the organiser's folders, which the user of the image does not have."""
    if fault == "empty":
        (platform / GROUND_TRUTH / "folder").mkdir()
    else:
        monkeypatch.setattr(options, "GROUND_TRUTH", demo.challenge)
        monkeypatch.setattr(options, "OWN_GROUND_TRUTH", demo.challenge)
        monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may look into everything
    code, (*before, last) = score(platform, demo.submissions["finder"], capsys)
    assert (code, last.partition(";")[0]) == (3, "The challenge itself has a fault")
    assert fault == "empty" or "permission denied" in before[0]
    assert list((platform / "output").iterdir()) == []


DENIED = """
import builtins, errno, io, os, sys
from pathlib import Path

closed = Path(sys.argv[1])

def told(do):
    def denied(path, *arguments, **options):
        if isinstance(path, str | os.PathLike) and closed in Path(path).parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return do(path, *arguments, **options)
    return denied

os.stat, builtins.open = told(os.stat), told(open)
io.open = open
from evaluation.commands import main
sys.exit(main.run(sys.argv[2:]))
"""


def score_denied(closed: Path, challenge: Path, submission: Path, output: Path, workers: int) -> tuple[int, list[str]]:
    """Exit code and lines of ``score_with`` where nothing in a folder can be looked at; root may look into everything.

    A process of its own: only one without other threads has workers that are copies of it, with what is denied.
    """
    arguments = ["--challenge", challenge, "--submission", submission, "--output", output, "--workers", workers]
    command = [sys.executable, "-c", DENIED, closed, "score", *arguments]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize("kind, workers, closed, line", [
    ("polygons_json", 1, ".", "[invalid-text] challenge.toml: Permission denied; expected a readable file."),
    ("polygons_json", 1, "reference", "[unreadable-file] 'reference/"),
    ("label_image by class", 2, "reference", "[unreadable-file] 'reference/"),
])  # fmt: skip
def test_a_folder_that_cannot_be_looked_into_is_the_organisers_fault(tmp_path, kind, workers, closed, line):
    challenge, submission = write_challenge(kind, tmp_path)
    code, (*before, last) = score_denied(challenge / closed, challenge, submission, tmp_path / "out", workers)
    assert code == 3, before
    assert last.startswith("The challenge itself has a fault")
    assert before[0].startswith(line)


def test_an_image_that_was_built_with_a_ground_truth_uses_it(demo, platform, monkeypatch, capsys):
    own = Path(shutil.copytree(demo.challenge, platform / "own"))
    (own / "challenge.toml").write_text((own / "challenge.toml").read_text().replace("Demo: nuclei", "Nuclei"))
    monkeypatch.setattr(options, "OWN_GROUND_TRUTH", own)
    assert score(platform, demo.submissions["finder"], capsys)[0] == 0
    metrics = json.loads((platform / "output" / "metrics.json").read_text())
    assert metrics["challenge"]["name"] == "Nuclei of four patients"


@pytest.mark.parametrize("own", [Path(__file__).parents[1] / "ground_truth", None])
def test_without_the_folder_of_the_platform_the_demo_is_scored(demo, platform, monkeypatch, capsys, own):
    (platform / GROUND_TRUTH).rmdir()
    monkeypatch.setattr(options, "OWN_GROUND_TRUTH", own or demo.challenge)
    assert score(platform, demo.submissions["finder"], capsys)[0] == 0


def test_a_hard_link_to_the_reference_is_refused(tmp_path, capsys):
    challenge, submission = write_challenge("points_csv", tmp_path)
    (submission / "c2.csv").unlink()
    os.link(challenge / "reference/c2.csv", submission / "c2.csv")
    code, last = score_with(capsys, challenge, submission, tmp_path / "out")
    assert code == 1
    assert last.startswith("Submission rejected: [unsafe-path] 'c2.csv'")
    assert "a file of the challenge under another name" in last
    assert not (tmp_path / "out").exists()


def test_a_csv_that_is_the_whole_submission_is_no_hard_link_to_the_reference(tmp_path, capsys):
    challenge, submission = write_challenge("rle_csv", tmp_path)
    (reference,) = (challenge / "reference").glob("*.csv")
    os.link(reference, tmp_path / "predictions.csv")
    assert score_with(capsys, challenge, *submission.glob("*.csv"), tmp_path / "out")[0] == 0
    code, last = score_with(capsys, challenge, tmp_path / "predictions.csv", tmp_path / "linked")
    assert code == 1
    assert "a file of the challenge under another name" in last


@pytest.mark.parametrize("how", ["copied", "linked to each other", "the reference itself"])
def test_other_files_are_not_taken_for_the_reference(tmp_path, capsys, how):
    challenge, submission = write_challenge("points_csv", tmp_path)
    if how == "linked to each other":
        shutil.copytree(submission, tmp_path / "backup", copy_function=os.link)
    given = challenge / "reference" if how == "the reference itself" else submission
    assert score_with(capsys, challenge, given, tmp_path / "out")[0] == 0


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


@pytest.mark.parametrize("case_names", ["public", "hidden"])
def test_an_image_that_is_no_case_is_the_organisers_mismatch(tmp_path, capsys, case_names):
    challenge, jobs = write_jobs(tmp_path, case_names, [*(case.name for case in CASES), "quokka-2019-0044"])
    code, last = score_with(capsys, challenge, jobs, tmp_path / "out")
    assert code == 3
    assert "quokka" not in last


def test_every_name_of_an_input_is_taken_out_of_the_public_line(tmp_path, capsys):
    """The platform may spell the name of an image in another way than cases.csv; no spelling is told."""
    names = ["Mu\u0308ller", *(case.name for case in CASES[1:])]
    challenge, jobs = write_jobs(tmp_path, "hidden", names, status="Failed on Mu\u0308ller")
    (challenge / "cases.csv").write_text((challenge / "cases.csv").read_text().replace("c1,", "Müller,", 1))
    for path in (challenge / "reference").glob("c1.*"):
        path.rename(path.with_name(path.name.replace("c1", "Müller")))
    code, last = score_with(capsys, challenge, jobs, tmp_path / "out")
    assert code == 1
    assert "[failed-job]" in last
    assert "ller" not in last


# --- tables that a spreadsheet opens ----------------------------------------------------------------------------------

ODD = [
    '=HYPERLINK("http://x","y")', "@SUM(A1)", "+1+1", "-2+3", "x" * 100_000, "a\n=2", "\x1b[31mred", " =1", "＝1",
    "a;=1",
]  # fmt: skip


def test_no_text_begins_as_a_formula_does_and_none_is_long():
    for cell in (str(safe_cell(text)) for text in ODD):
        assert cell.isprintable() and len(cell) <= 202
        assert [part for part in cell.split(";") if part and part.lstrip()[:1] in "=+-@＝"] == []


def test_ids_of_strangers_are_harmless_in_the_table_of_objects(tmp_path, capsys):
    challenge, submission = write_challenge("geojson outlines", tmp_path)
    document = json.loads((submission / "c1.geojson").read_bytes())
    for feature, text in zip(document["features"], ODD, strict=False):
        feature["id"] = text
    (submission / "c1.geojson").write_text(json.dumps(document))
    assert score_with(capsys, challenge, submission, tmp_path / "out")[0] == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out/objects.csv").read_text())))
    ids = {row["prediction_id"] for row in rows}
    assert {str(safe_cell(text)) for text in ODD[: len(document["features"])]} <= ids
    assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "-", "@"))]


# --- what cannot be done ----------------------------------------------------------------------------------------------


def test_an_address_is_no_place_to_write_to(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("c").mkdir()
    Path("c/challenge.toml").touch()
    challenge = ("--challenge", "c")
    commands = [("report", "--results", "r"), *((name, *challenge) for name in ("rasterise", "sensitivity", "kit"))]
    for scheme, command in zip(("s3", "gs", "file", "https", "s3"), [*commands, ("demo",)], strict=True):
        address = f"{scheme}://bucket/out"
        code, last = run(capsys, *command, "--output", address)
        line = f"Cannot run: [cannot-write] '{address}': a storage URL; expected a local path"
        assert (code, last[: len(line)]) == (2, line)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
