"""Reading mutated inputs within limits of time and memory."""

from __future__ import annotations

import io
import json
import random
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from endless import SECONDS, limit_memory
from every_format import CASES, SIDES, VALUES, challenge_document
from hostile.containers import job

from evaluation.challenge import Challenge
from evaluation.files.decoding.guard import prepare
from evaluation.files.submission import SubmissionFiles, collection_findings, find_case_files
from evaluation.findings.errors import EvaluationError
from evaluation.platform.kit import example_files, packed
from evaluation.scoring.read import read_prediction, read_shared, submission_side
from evaluation.scoring.receive import ReceivedSubmission, receive_submission
from fuzz.mutate import mutated

MEMORY_BYTES = 2 << 30  # address space beyond what the libraries take
CLASS_PROBABILITIES = " with class probabilities"
WITH_CLASS_PROBABILITIES = ("points_csv", "points_csv shared", "nucls_csv")
LABEL_IMAGES: dict[str, dict[str, object]] = {  # in containers and with rules of which every_format has no example
    "label_image nifti": {"files": "{case}.nii"},
    "label_image nifti gz": {"files": "{case}.nii.gz"},
    "label_image nrrd": {"files": "{case}.nrrd"},
    "label_image components by class": {"files": "{case}_{class}.png", "components": 8},
    "label_image components": {"files": "{case}.tif", "components": 4, "class_values": VALUES},
}
WITH_MORE = tuple(kind + CLASS_PROBABILITIES for kind in WITH_CLASS_PROBABILITIES)
KINDS = (*SIDES, *LABEL_IMAGES, "zip", "predictions.json", *WITH_MORE)


class MemoryFiles(SubmissionFiles):
    """Files that are in memory."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.path = Path("memory")
        self.names = tuple(sorted(files))

    def size(self, name: str) -> int:
        return len(self.files[name])

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.files[name])


def make_target(kind: str) -> tuple[dict[str, bytes], Callable[[dict[str, bytes]], None]]:
    """Valid files of a kind, and the function that reads them once one of them was mutated."""
    if kind == "zip":
        return zip_target()
    of_format = "label_image class table" if kind in LABEL_IMAGES else kind.removesuffix(CLASS_PROBABILITIES)
    document = challenge_document("polygons_json" if kind == "predictions.json" else of_format, CASES[:2])
    if kind == "predictions.json":
        document["submission"] |= {"socket": "nuclei", "case_key": "{case}.tif"}
    if kind in LABEL_IMAGES:
        if "components" in LABEL_IMAGES[kind]:
            del document["submission"]["class_table"]
        document["submission"] |= LABEL_IMAGES[kind]
    challenge = Challenge.build(document)
    files = example_files(challenge, challenge.submission, challenge.cases)
    if kind.endswith(CLASS_PROBABILITIES):
        files = {name: with_class_probabilities(content) for name, content in files.items()}
    if kind == "predictions.json":
        jobs = json.dumps([job(number, name=f"c{number}.tif") for number in (1, 2)]).encode()
        files = {kind: jobs, **{f"job{number}/output/nuclei.json": b'{"polygons": []}' for number in (1, 2)}}

    def read(files: dict[str, bytes]) -> None:
        stored = MemoryFiles(files)
        layout = find_case_files(stored, challenge)
        contents: dict = dict(layout.files)
        if layout.shared_files:
            shared = read_shared(submission_side(challenge, stored), challenge.cases, layout.shared_files)
            collection_findings(challenge, shared.mentioned, shared.unknown)
            contents = dict(shared.cases)
            if shared.faults:
                raise EvaluationError(*shared.faults)
        for case in challenge.cases:
            if case.name in contents:
                read_prediction(challenge, stored, case, contents[case.name])

    return files, read


def with_class_probabilities(content: bytes) -> bytes:
    """The same nuclei with a probability for each class of ``tests/every_format.py``."""
    header, *rows = content.splitlines()
    return b"\n".join([header + b",probability_Lymphocyte,probability_Epithelial", *(row + b",0.25,1" for row in rows)])


def zip_target() -> tuple[dict[str, bytes], Callable[[dict[str, bytes]], None]]:
    challenge = Challenge.build(challenge_document("label_image by class", CASES[:2]))
    archive = packed(example_files(challenge, challenge.submission, challenge.cases))
    path = Path(f"/dev/shm/fuzz-{random.getrandbits(64):x}.zip") if Path("/dev/shm").is_dir() else Path("fuzz.zip")

    def read(files: dict[str, bytes]) -> None:
        path.write_bytes(files["submission.zip"])
        try:
            received: ReceivedSubmission = receive_submission(challenge, path)
            for case in challenge.cases:
                if case.name in received.contents:
                    read_prediction(challenge, received.files, case, received.contents[case.name])
        finally:
            path.unlink()

    return {"submission.zip": archive}, read


def inputs_of(files: dict[str, bytes], kind: str, seed: int, numbers: range) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Mutated copies of the files; in each of them one file differs."""
    names = sorted(files)
    for number in numbers:
        chance = random.Random(f"{kind}/{seed}/{number}")
        name = chance.choice(names)
        yield number, {**files, name: mutated(files[name], chance)}


def fuzz(kind: str, seed: int, numbers: range) -> tuple[Counter[str], list[str]]:
    """Read the inputs; how they ended, and what must not have happened."""
    prepare("evaluation.files.formats", "scipy.sparse.csgraph")  # many are started anew
    files, read = make_target(kind)
    read(files)  # and what is imported for it
    limit_memory(MEMORY_BYTES)
    ended: Counter[str] = Counter()
    failures: list[str] = []
    for number, given in inputs_of(files, kind, seed, numbers):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            read(given)
            ended["read"] += 1
        except EvaluationError as error:
            ended[error.findings[0].code] += 1
            str(error)
        except BaseException:  # noqa: BLE001 (whatever it is, it is a failure)
            failures.append(failure(kind, number, given, files, traceback.format_exc()))
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ended, failures


def failure(kind: str, number: int, given: dict[str, bytes], files: dict[str, bytes], why: str) -> str:
    folder = Path("fuzz-failures")
    folder.mkdir(exist_ok=True)
    name = next((name for name in given if given[name] != files[name]), "unchanged")
    path = folder / f"{kind}-{number}-{name}".replace("/", "_").replace(" ", "_")
    path.write_bytes(given.get(name, b""))
    return f"{kind} input {number} ({path}): {why}"
