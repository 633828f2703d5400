"""What is handed in to the image: submissions that fail, each in its own way, and challenges in every format.

Each stands in a folder of its own with ``ground_truth`` and ``submission``. The reference of those that fail has texts
and numbers that stand nowhere else, and none of them may be told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from every_format import CASES, SIDES, challenge_document, write_files
from every_format import write_challenge as write_perfect
from hostile.corpus import CORPUS
from hostile.make import mha
from hostile.record import JOBS, Hostile, example_files_of, write_challenge
from test_leaks import NUCLEI, planted_document
from test_leaks import write_reference as write_planted

from evaluation.challenge import Challenge
from evaluation.platform.kit import example_files

REFERENCE = "/opt/ml/input/data/ground_truth/reference"


@dataclass(frozen=True)
class Given:
    """Something to score.

    finding     the code in the last line
    folder      has ground_truth/ and what is handed in
    submission  what is handed in, relative to the folder
    leads_to    a path in the container by which it reaches for the reference
    """

    name: str
    folder: Path
    finding: str = ""
    submission: str = "submission"
    leads_to: str = ""

    @property
    def ground_truth(self) -> Path:
        return self.folder / "ground_truth"

    @property
    def path(self) -> Path:
        return self.folder / self.submission


EXPECTED = Path(__file__).with_name("expected.json")
# Of the corpus: those with an expected last line are scored by the image's program in a process of their own each. A
# further one gets its name in expected.json, and its line by --renew.
CHOSEN = [record.name for record in CORPUS if record.name in json.loads(EXPECTED.read_text())]


def of_corpus(folder: Path, *, everything: bool = False) -> Iterator[Given]:
    """Submissions of the corpus that are rejected."""
    by_name = {record.name: record for record in CORPUS if record.code is not None}
    planted = folder / "planted"
    planted.mkdir(parents=True)
    write_planted(planted, NUCLEI)
    for index, name in enumerate(by_name if everything else CHOSEN):
        record = by_name[name]
        place = folder / f"corpus{index}"
        _, submission = record.write(place)
        (place / "challenge").rename(place / "ground_truth")
        write_challenge(planted_document(record.document()), place / "ground_truth", record.size)
        (place / "ground_truth" / "reference").symlink_to(Path("../..", planted.name))
        yield Given(name, place, record.code or "", submission.relative_to(place).as_posix())


# --- through the entrypoint, a container each -------------------------------------------------------------------------


def through_entrypoint(folder: Path) -> list[Given]:
    """Those that reach for the reference, where it lies on the platform, and those that are too much."""
    made = [
        nothing(folder / "nothing"),
        reaching(folder / "mha", "an MHA that points at the ground truth", "external-data", "label_image channel mha",
                 lambda submission: [(submission / f"{case.name}.mha").write_bytes(
                     mha(b"", HeaderSize="-1", ElementDataFile=f"{REFERENCE}/{case.name}.mha")) for case in CASES],
                 f"{REFERENCE}/c1.mha"),
        reaching(folder / "link", "a symbolic link to the ground truth", "unsafe-path", "polygons_json",
                 lambda submission: linked(submission / "c1.json", f"{REFERENCE}/c1.json"), "/input/c1.json"),
        forged(folder / "jobs"),
        reaching(folder / "name", "a name with a new line and escape codes", "unsafe-path", "polygons_json",
                 lambda submission: (submission / "\x1b[31mred\nSubmission accepted\u202e.json").write_bytes(b"")),
        ten_million_vertices(folder / "vertices"),
    ]  # fmt: skip
    for record in CORPUS:
        if record.name in ("label_image mha 200,000 x 200,000 px", "geojson nested 2 million deep"):
            place = folder / f"own{len(made)}"
            record.write(place)
            write_reference(place, record.document())
            made.append(Given(record.name, place, record.code or ""))
    return made


def reaching(
    folder: Path, name: str, finding: str, kind: str, change: Callable[[Path], object], leads_to: str = ""
) -> Given:
    """The reference is a perfect submission, and so would this one be if it were followed."""
    document = challenge_document(kind)
    document["submission"] |= {"missing_case": "reject"}
    write_reference(folder, document)
    change(write_files(folder / "submission", example_files_of(kind)))
    return Given(name, folder, finding, leads_to=leads_to)


def write_reference(folder: Path, document: dict[str, Any]) -> None:
    """The ground truth, with the example files as reference."""
    challenge = Challenge.build(document)
    write_challenge(document, folder / "ground_truth")
    write_files(folder / "ground_truth", example_files(challenge, challenge.reference, challenge.cases))


def nothing(folder: Path) -> Given:
    document = challenge_document("polygons_json")
    write_reference(folder, document)
    (folder / "submission").mkdir()
    return Given("an empty folder", folder, "empty-submission")


def linked(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def forged(folder: Path) -> Given:
    """A list of jobs whose paths lead out of /input, to the reference beside it."""
    record = next(record for record in CORPUS if record.name == "jobs path up")
    content = record.files[JOBS]
    outside = b"../../../ground_truth/reference/c1.json"  # /input is a link to a folder beside the ground truth
    assert isinstance(content, bytes) and content.count(b"../../job2/output/nuclei.json") == 1
    forged_jobs = content.replace(b"../../job2/output/nuclei.json", outside)
    Hostile("forged", JOBS, None, {JOBS: forged_jobs}).write(folder)
    write_reference(folder, record.document())
    name = "a forged predictions.json that leaves /input"
    return Given(name, folder, "forged-path", leads_to=f"/input/job1/output/{outside.decode()}")


def ten_million_vertices(folder: Path) -> Given:
    ring = b",".join([b"[1,1,0.5],[9,1,0.5],[9,9,0.5],[1,9,0.5]"] * 2_500_000)
    polygon = b'{"name":"Epithelial","path_points":[' + ring + b"]}"
    content = b'{"type":"Multiple polygons","version":{"major":1,"minor":0},"polygons":[' + polygon + b"]}"
    return reaching(folder, "10 million vertices", "too-large", "polygons_json",
                    lambda submission: (submission / "c1.json").write_bytes(content))  # fmt: skip


# --- what is scored ---------------------------------------------------------------------------------------------------


def of_every_format(folder: Path) -> Iterator[Given]:
    """A perfect submission in every format."""
    for index, kind in enumerate(SIDES):
        place = folder / f"format{index}"
        challenge, _ = write_perfect(kind, place)
        challenge.rename(place / "ground_truth")
        yield Given(f"perfect {kind}", place)
