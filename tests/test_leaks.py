"""Nothing about the reference in what participants see: its texts and numbers are planted, and searched for."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from every_format import CASES, SIDES, challenge_document
from fuzz.mutate import mutated
from hostile.corpus import CORPUS
from hostile.make import aperio, hdf5, mha, vertices
from hostile.record import JOBS, Hostile, example_files_of
from hostile.record import write_challenge as write_rules

from evaluation.commands import main as cli
from evaluation.commands import options

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


REJECTED = [record for record in CORPUS if record.code is not None and is_cheap(record)]
CHOSEN = REJECTED[::2]


def test_there_are_hundreds_of_rejected_submissions():
    assert len(CHOSEN) > 200
    assert {record.kind for record in CHOSEN} >= set(SIDES) - {"x"} - {kind for kind in SIDES if " " in kind} - {
        "counts_csv"
    }


@pytest.mark.parametrize("case_names", ["public", "hidden"])
def test_no_rejected_submission_is_told_anything_of_the_reference(
    case_names, platform, few_nuclei, many_nuclei, capsys
):
    leaks = []
    for index, record in enumerate(CHOSEN[case_names == "hidden" :: 2]):
        reference = few_nuclei if index % 8 or record.limits else many_nuclei  # limits are for both sides
        document = record.document()
        document["submission"]["case_names"] = case_names
        prepare(platform, reference, document)
        (platform / str(index)).mkdir()
        _, submission = record.write(platform / str(index))
        code, lines = score(platform, submission, capsys)
        # The platform writes the list of jobs: with hidden names, an image that is no case is the challenge's fault.
        is_job = case_names == "hidden" and record.kind == JOBS and record.code == "unknown-case"
        if code != (3 if is_job else 1) or not lines:
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
        for path, content in {**files, name: mutated(files[name], chance)}.items():
            (submission / path).parent.mkdir(parents=True, exist_ok=True)
            (submission / path).write_bytes(content)
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
    submission = platform / "submission"
    for name, content in example_files_of(kind).items():
        (submission / name).parent.mkdir(parents=True, exist_ok=True)
        (submission / name).write_bytes(content)
    code, lines = score(platform, submission, capsys)
    assert (code, lines) == (0, [])
    check_metrics(platform / "output" / "metrics.json")
    written = [(platform / "output" / name).read_text() for name in ("details.json", "objects.csv")]
    assert all(NAME.search(text) and "zebrafinch" in planted_in(text) for text in written)  # for administrators
    assert written[1].count("zebrafinch") >= NUCLEI


# --- submissions that reach for the reference -------------------------------------------------------------------------


def reaching(platform: Path, way: str) -> tuple[str, dict[str, bytes | str]]:
    """A kind of challenge and files that lead to the reference; texts are targets of links."""
    target = str(platform / GROUND_TRUTH / "reference" / "numbat_P1_c1.xml")
    if way == "link":
        return "aperio_xml", {"P1/c1.xml": target}
    if way == "relative link":
        return "aperio_xml", {"P1/c1.xml": f"../../{GROUND_TRUTH}/reference/numbat_P1_c1.xml"}
    if way == "entity":
        head = f"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY x SYSTEM 'file://{target}'>]>"
        return "aperio_xml", {"P1/c1.xml": aperio("&x;", head=head)}
    if way == "header":
        return "label_image channel mha", {"c1.mha": mha(b"", ElementDataFile=target)}
    if way == "relative header":
        return "label_image channel mha", {
            "c1.mha": mha(b"", ElementDataFile=f"../{GROUND_TRUTH}/reference/numbat_P1_c1.xml")
        }
    import h5py

    if way == "external data":
        return "hovernet_mat", {
            "c1.mat": hdf5(lambda file: file.create_dataset("inst_map", (30, 20), "u1", external=[(target, 0, 600)]))
        }
    return "hovernet_mat", {"c1.mat": hdf5(lambda file: file.__setitem__("inst_map", h5py.ExternalLink(target, "/")))}


@pytest.mark.parametrize(
    "way", ["link", "relative link", "entity", "header", "relative header", "external data", "external link"]
)
def test_no_way_leads_from_a_submission_to_the_reference(way, platform, few_nuclei, capsys):
    kind, files = reaching(platform, way)
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
    submission = platform / "submission"
    submission.mkdir()
    for name, content in example_files_of("polygons_json").items():
        (submission / name).write_bytes(content)
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
