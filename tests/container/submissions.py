"""What is handed in to the image: submissions that fail, each in its own way, and challenges in every format.

Each stands in a folder of its own with ``ground_truth`` and ``submission``. The reference of those that fail has texts
and numbers that stand nowhere else, and none of them may be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from every_format import CASES, SIDES, challenge_document, write_files
from every_format import write_challenge as write_perfect
from hostile.corpus import CORPUS
from hostile.make import mha
from hostile.record import JOBS, Hostile, example_files_of, write_challenge
from test_leaks import NUCLEI, planted_document, planted_reference

from evaluation.authoring.kit import example_files
from evaluation.challenge import Challenge

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


# Of the corpus: these are scored by the image's program in a process of their own each.
CHOSEN = """\
xml aperio billion laughs
xml aperio external entity
xml aperio gzip bomb
xml aperio elements nested 200,000 deep
xml aperio coordinate 1e999
xml aperio coordinate NaN
xml aperio name of a class with escape codes
xml aperio 50,000 nuclei of an unknown class
geojson 1e999
geojson 200,000 times Infinity
geojson nested 2 million deep
geojson gzip bomb of brackets
geojson class name with escape codes
json polygons with Infinity
json polygons nested deep
json coco code bomb
json coco compressed codes of whole slides
json midog nested deep
csv coordinate 1e999
csv class with escape codes
csv a line of 2 million commas
csv codes of whole slides
csv code gigantic
label_image npy 200,000 x 200,000 px
label_image npy array of objects
label_image npz bomb behind the array
label_image png 200,000 x 200,000 px
label_image png bomb
label_image tif 200,000 x 200,000 px
label_image tif deflate bomb
label_image tif page that follows itself
label_image mha 200,000 x 200,000 px
label_image mha data at /etc/passwd
nary_mat mat 200,000 x 200,000 px
nary_mat mat bomb
nary_mat mat HDF5 external link
nary_mat mat HDF5 bomb
zip bomb
zip members that share bytes
zip that holds itself
zip path out of it
zip link
zip name with escape codes
folder link to the password file
folder link to the reference
folder link to a device without end
folder fifo
folder file of more than 2 GB
folder too many files
folder with all nuclei outside
jobs nested deep
jobs path up
jobs path to the reference
jobs path absolute
jobs path with escape codes
jobs pk '../job2'
jobs name of a case with escape codes
jobs a case is missing
jobs failed
jobs output that is a link
""".splitlines()


def of_corpus(folder: Path, *, everything: bool = False) -> Iterator[Given]:
    """Submissions of the corpus that are rejected."""
    by_name = {record.name: record for record in CORPUS if record.code is not None}
    if missing := [name for name in CHOSEN if name not in by_name]:
        raise LookupError(f"not in the corpus, or not rejected: {missing}")
    planted = write_planted(folder / "planted")
    for index, name in enumerate(by_name if everything else CHOSEN):
        record = by_name[name]
        place = folder / f"corpus{index}"
        _, submission = record.write(place)
        (place / "challenge").rename(place / "ground_truth")
        write_challenge(planted_document(record.document()), place / "ground_truth", record.size)
        (place / "ground_truth" / "reference").symlink_to(Path("../..", planted.name))
        yield Given(name, place, record.code or "", submission.relative_to(place).as_posix())


def write_planted(folder: Path) -> Path:
    """A reference whose texts and numbers stand nowhere else."""
    folder.mkdir(parents=True)
    for case, nuclei in zip(CASES, (NUCLEI, 1, 1), strict=True):
        (folder / f"numbat_{case.group}_{case.name}.xml").write_bytes(planted_reference(nuclei))
    return folder


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
