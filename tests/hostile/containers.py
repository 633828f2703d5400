"""Hostile ZIP files, folders, names of files, and lists of jobs."""

# ruff: noqa: E501 (one record to a line)

from __future__ import annotations

import os
import socket
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

from hostile.make import MIB, Raw, as_json, deflated, polygon, polygons, zip_of
from hostile.record import JOBS, Content, Hostile, example_files_of

KIND = "polygons_json"
ESCAPES = "\x1b[31mred\n\u202e"
GROUND_TRUTH = "/opt/ml/input/data/ground_truth"

# --- ZIP --------------------------------------------------------------------------------------------------------------


def zipped(fill: Callable[[zipfile.ZipFile], None], then: Callable[[bytes], bytes] = bytes) -> Callable[[Path], Path]:
    """Makes a ZIP file with the perfect submission and what ``fill`` adds; ``then`` changes its bytes."""

    def build(folder: Path) -> Path:
        path = folder.parent / "submission.zip"
        with catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            simplefilter("ignore")  # of names that are there twice
            for name, content in example_files_of(KIND).items():
                archive.writestr(name, content)
            fill(archive)
        path.write_bytes(then(path.read_bytes()))
        return path

    return build


def given(content: Content) -> Callable[[Path], Path]:
    """Hands in a file with these bytes."""

    def build(folder: Path) -> Path:
        path = folder.parent / "submission.zip"
        path.write_bytes(content() if callable(content) else content)
        return path

    return build


def member(name: str, content: bytes = b"x", mode: int = 0) -> Callable[[zipfile.ZipFile], None]:
    def fill(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo(name or "placeholder")
        info.filename = name
        info.external_attr = mode << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(info, content)

    return fill


def nothing(archive: zipfile.ZipFile) -> None:
    """Adds nothing."""


def many(count: int) -> Callable[[zipfile.ZipFile], None]:
    def fill(archive: zipfile.ZipFile) -> None:
        for index in range(count):
            archive.writestr(f"x{index}.txt", b"")

    return fill


def squeezed(name: str, plain: bytes, **facts: Any) -> Raw:
    usual = {"packed": deflated(plain), "size": len(plain), "checksum": zlib.crc32(plain), "method": 8}
    return Raw(name.encode(), **{**usual, **facts})


def shared_kernel() -> bytes:
    """Many members that share the same compressed bytes, as in David Fifield's bomb."""
    first = squeezed("x0", b"\0" * (16 * MIB))
    return zip_of(first, *(replace(first, name=b"x%d" % index, start=0) for index in range(1, 1000)))


def lying(size: int, plain: bytes = b"[]") -> bytes:
    """A ZIP file with the files of all cases; that of the first is not of the size that the list of members says."""
    others = {name: content for name, content in example_files_of(KIND).items() if name != "c1.json"}
    return zip_of(squeezed("c1.json", plain, size=size), *(squeezed(*item) for item in others.items()))


def quine_like() -> bytes:
    """A ZIP whose only member is the ZIP file itself, as far as its list says."""
    whole = 30 + 46 + 2 * len(b"r.zip") + 22
    return zip_of(Raw(b"r.zip", b"", size=whole, packed_bytes=whole, checksum=0))


def zip_record(name: str, code: str | None, build: Callable[[Path], Path], **more: Any) -> Hostile:
    return Hostile(f"zip {name}", KIND, code, build=build, **more)


ZIPS = [
    zip_record("list of members nowhere", "not-a-zip", given(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 9, 9, 2**31, 2**31, 0))),
    zip_record("list of 4 GB in 64 bits", "not-a-zip",
               given(struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2**63, 2**63, 2**63, 0)
                     + struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1) + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0))),
    zip_record("members that share bytes", "overlapping-members", given(shared_kernel)),
    zip_record("that holds itself", "not-a-zip", given(quine_like)),
    zip_record("bomb", "too-compressed", given(lambda: lying(2**31 - 1, b"\0" * MIB)), limits={"bytes_per_file": 2**31}),
    zip_record("member larger than a file may be", "too-large", given(lambda: lying(2**31, b"\0" * MIB))),
    zip_record("file twice, once with another case", "unknown-case", zipped(member("C1.json")), says="Delete it"),
    zip_record("path out of it", "unsafe-path", zipped(member("../../etc/passwd"))),
    zip_record("name with escape codes", "unsafe-path", zipped(member(ESCAPES))),
    zip_record("name of 60,000 letters", "unsafe-path", zipped(member("a" * 60_000))),
    zip_record("1,000 names with escape codes", "unsafe-path",
               zipped(lambda archive: [archive.writestr(f"{ESCAPES}{i}", b"") for i in range(1000)] and None), says="997 more"),
    zip_record("name with NUL", "unsafe-path", zipped(nothing, lambda data: data.replace(b"c1.json", b"c1\0json"))),
    zip_record("name that is not UTF-8", "unsafe-path", zipped(nothing, lambda data: data.replace(b"c1.json", b"\xff\xfe.json"))),
    zip_record("link", "unsafe-path", zipped(member("c4.json", GROUND_TRUTH.encode(), stat.S_IFLNK | 0o777))),
    zip_record("folders 300 deep", None, zipped(member("/".join(["a"] * 300) + "/x.txt")), warns=("unused-file",)),
    zip_record("comment with ends of ZIP files", "not-a-zip", zipped(lambda archive: setattr(archive, "comment", b"PK\5\6" * 16000))),
    zip_record("comment of 64 kB", None, zipped(lambda archive: setattr(archive, "comment", b"x" * 65535)), nuclei=3),
]  # fmt: skip


# --- folders ----------------------------------------------------------------------------------------------------------


def in_folder(change: Callable[[Path], object]) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        change(folder)
        return folder

    return build


def folder_record(name: str, code: str | None, change: Callable[[Path], object], **more: Any) -> Hostile:
    return Hostile(f"folder {name}", KIND, code, build=in_folder(change), **more)


def replaced_by_link(target: str) -> Callable[[Path], None]:
    """The file of the first case becomes a link."""

    def change(folder: Path) -> None:
        (folder / "c1.json").unlink()
        (folder / "c1.json").symlink_to(target)

    return change


def linked_from_above(folder: Path) -> None:
    """A file beside the submission, as the reference is, is handed in by a link."""
    (folder.parent / "reference.json").write_bytes(polygons(polygon()))
    (folder / "c1.json").unlink()
    (folder / "c1.json").symlink_to("../reference.json")


def socket_in(folder: Path) -> None:
    (folder / "c1.json").unlink()
    here = Path.cwd()
    os.chdir(folder)  # paths of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("c1.json")
    finally:
        os.chdir(here)


def fifo_in(folder: Path) -> None:
    (folder / "c1.json").unlink()
    os.mkfifo(folder / "c1.json")


def deep_folders(folder: Path) -> None:
    (folder / "/".join(["a" * 100] * 15)).mkdir(parents=True)
    (folder / "/".join(["a" * 100] * 15) / "x").write_bytes(b"")


def empty_files(*names: str | bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in names:
            raw = name if isinstance(name, bytes) else name.encode()
            (folder / os.fsdecode(raw)).write_bytes(b"")

    return change


def folder_as_file(folder: Path) -> None:
    (folder / "c1.json").unlink()
    (folder / "c1.json").mkdir()


def sparse(folder: Path) -> None:
    with (folder / "c1.json").open("wb") as file:
        file.truncate(2_000_000_001)


FOLDERS = [
    folder_record("link to the password file", "unsafe-path", replaced_by_link("/etc/passwd")),
    folder_record("link to the reference", "unsafe-path", linked_from_above),
    folder_record("link to a device without end", "unsafe-path", replaced_by_link("/dev/zero")),
    folder_record("link to the folder itself", "unsafe-path", lambda folder: (folder / "here").symlink_to(".")),
    folder_record("link through the process", "unsafe-path", replaced_by_link("/proc/self/environ")),
    folder_record("fifo", "unsafe-path", fifo_in),
    folder_record("socket", "unsafe-path", socket_in),
    folder_record("names with escape codes", "unsafe-path", empty_files(*(f"{ESCAPES}{index}" for index in range(100))), says="97 more"),
    folder_record("folders 1,500 letters deep", "unsafe-path", deep_folders),
    folder_record("too many files", "too-many-files", empty_files(*(f"x{index}" for index in range(100))), limits={"files_per_submission": 50}),
    folder_record("a folder in the place of a file", "missing-case", folder_as_file),
    folder_record("file of more than 2 GB", "too-large", sparse),
    folder_record("2,000 unknown cases", "unknown-case", empty_files(*(f"x{index}.json" for index in range(2000))), says="1,997 more"),
    folder_record("with all nuclei outside", "everything-outside",
                  lambda folder: [(folder / f"c{i}.json").write_bytes(polygons(polygon([[9e8, 9e8, 0]] * 3))) for i in (1, 2, 3)],
                  warns=("outside-image",)),
]  # fmt: skip

# --- jobs -------------------------------------------------------------------------------------------------------------


def job(number: int, **changes: Any) -> dict[str, Any]:
    output = {"slug": "nuclei", "super_kind": "File", "relative_path": "nuclei.json", "kind": "Multiple polygons"}
    output |= changes.pop("output", {})
    name = changes.pop("name", f"c{number}")
    inputs = [{"image": {"name": name}, "socket": {"slug": "image", "super_kind": "Image"}}]
    return {"pk": f"job{number}", "status": "Succeeded", "inputs": inputs, "outputs": [{"socket": output}], **changes}


def jobs_record(name: str, code: str | None, content: Content, **more: Any) -> Hostile:
    return Hostile(f"jobs {name}", JOBS, code, {JOBS: content, **OF_ZIP}, **more)


def jobs(*first: Any) -> bytes:
    """The list of jobs; ``first`` in the place of the job of the first case."""
    return as_json([*(first or (job(1),)), job(2), job(3)])


# With this file the platform says that a list of jobs came in a participant's ZIP; without it, what a list says is the organiser's.
OF_ZIP = {"inputs.json": as_json([{"socket": {"slug": "predictions-zip-file"}}])}
PATHS = {
    "up": "../../job2/output/nuclei.json",
    "to the reference": "../../../opt/ml/input/data/ground_truth/reference/c1.json",
    "absolute": f"{GROUND_TRUTH}/c1.json",
    "with escape codes": ESCAPES,
    "with backslashes": "..\\nuclei.json",
    "empty": "",
    "of a million letters": "a" * 1_000_000,
}
JOB_LISTS = [
    jobs_record("empty file", "not-json", b""),
    jobs_record("nested deep", "too-deep", lambda: b"[" * 1_000_000),
    jobs_record("jobs that are none", "invalid-job", jobs(None, 7, "x", [], {}, {"pk": 7})),
    jobs_record("20,000 jobs that are none", "invalid-job", lambda: as_json([None] * 20_000), says="19,997 more"),
    *(jobs_record(f"pk {pk[:20]!r}", "forged-path", jobs(job(1, pk=pk)))
      for pk in ("../job2", "/etc", "job2/../job1", "..", ESCAPES, "a" * 5000, "", "job2\\x")),
    *(jobs_record(f"path {name}", "forged-path", jobs(job(1, output={"relative_path": path}))) for name, path in PATHS.items()),
    jobs_record("path that is none", "invalid-job", jobs(job(1, output={"relative_path": {"a": 1}}))),
    jobs_record("failed", "failed-job", jobs(job(1, status=ESCAPES))),
    jobs_record("status that is none", "invalid-job", jobs(job(1, status=[]))),
    jobs_record("20,000 jobs of the same case", "duplicate-case", lambda: jobs(*[job(1)] * 20_000)),
    jobs_record("10,000 unknown cases", "unknown-case", lambda: jobs(job(1), *(job(i, name=f"x{i}") for i in range(10, 10_010))), says="9,997 more"),
    jobs_record("name of a case with escape codes", "unknown-case", jobs(job(1), job(4, name=ESCAPES))),
    jobs_record("name of a case of a million letters", "unknown-case", jobs(job(1), job(4, name="a" * 1_000_000))),
    jobs_record("a case is missing", "missing-case", as_json([job(1), job(2)])),
    jobs_record("output of two", None, jobs(job(1, pk="job2")), nuclei=0, warns=("suspicious-content",)),
    Hostile("jobs output that is a link", JOBS, "unsafe-path", {JOBS: jobs(), "job1/output/nuclei.json": b""},
            build=in_folder(lambda folder: [(folder / "job1/output/nuclei.json").unlink(),
                                            (folder / "job1/output/nuclei.json").symlink_to("/etc/passwd")])),
    Hostile("jobs list that nobody asked for", KIND, None, {JOBS: b"[" * 1000}, nuclei=3, warns=("unused-file",)),
]  # fmt: skip

CONTAINERS = (*ZIPS, *FOLDERS, *JOB_LISTS)
