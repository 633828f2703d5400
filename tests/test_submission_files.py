"""Folders and ZIP files of strangers: the same names and bytes from both, and nothing from elsewhere."""

from __future__ import annotations

import errno
import io
import os
import pickle
import re
import shutil
import struct
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from endless import memory_below
from every_format import write_files
from hostile.make import Raw, deflated, zip_of
from hypothesis import given
from hypothesis import strategies as st

from evaluation.challenge import Challenge, LimitRules
from evaluation.files.submission import SubmissionFiles
from evaluation.files.submission import files as module
from evaluation.files.submission import open_submission as open_with_limits
from evaluation.findings.errors import InputFault, SubmissionRejected, WrongUsage
from evaluation.folders.convert import is_soon_looked_at
from evaluation.scoring.receive import receive_submission

KINDS = pytest.mark.parametrize("kind", ["folder", "zip"])
FULL = "expected a complete file. Write or pack it again."


def open_submission(path: Path, **limits: int) -> SubmissionFiles:
    return open_with_limits(path, LimitRules(**limits))


def write_named(root: Path, *names: str) -> Path:
    return write_files(root, {name: name for name in names})


def write_zip(path: Path, *names: str, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name in names:
            archive.writestr(name, name.encode())
    return path


def made(folder: Path, kind: str, *names: str) -> Path:
    """A submission whose files hold their names; a name that ends with '/' is a folder."""
    if kind == "zip":
        return write_zip(folder / "s.zip", *names)
    for name in names:
        (folder / "s" / (name if name.endswith("/") else ".")).mkdir(parents=True, exist_ok=True)
    return write_named(folder / "s", *(name for name in names if not name.endswith("/")))


def rejected(path: Path, **limits: int) -> list[str]:
    """The lines of the findings for which a submission is refused."""
    with pytest.raises(SubmissionRejected) as error:
        open_submission(path, **limits)
    return [str(finding) for finding in error.value.findings]


def content_of(files: SubmissionFiles, name: str = "1.mat") -> bytes:
    with files.open(name) as stream:
        return stream.read()


def unreadable(path: Path, name: str, **limits: int) -> str:
    files = open_submission(path, **limits)
    with pytest.raises(InputFault) as error:
        files.open(name)
    return str(error.value.findings[0])


def patched(path: Path, mark: bytes, offset: int, value: bytes) -> Path:
    """The file with other bytes so far behind the last of these."""
    content = bytearray(path.read_bytes())
    place = content.rindex(mark) + offset
    content[place : place + len(value)] = value
    path.write_bytes(content)
    return path


def test_folder_and_zip_of_it_give_the_same_names_sizes_and_bytes(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "monusac_challenge" / "submission"
    archive = Path(shutil.make_archive(str(tmp_path / "submission"), "zip", folder))
    of_folder = open_submission(folder)
    of_zip = open_submission(archive)
    assert of_folder.names == of_zip.names
    assert len(of_folder.names) == 15
    for name in of_folder.names:
        expected = (folder / name).read_bytes()
        assert of_folder.size(name) == of_zip.size(name) == len(expected)
        with of_folder.open(name) as plain, of_zip.open(name) as member:
            assert plain.read() == member.read() == expected
            assert member.seek(0) == 0


@KINDS
def test_names_are_sorted_and_litter_of_operating_systems_is_left_out(tmp_path: Path, kind: str) -> None:
    litter = ["__MACOSX/a/._1.mat", "b/.DS_Store", "Thumbs.db", "b/._1.mat", "b/desktop.ini", "b/Icon\r"]
    path = made(tmp_path, kind, "b/2.mat", "b/10.mat", "a.mat", *litter)
    assert open_submission(path).names == ("a.mat", "b/10.mat", "b/2.mat")


def test_links_to_the_submission_and_inside_it_are_followed(tmp_path: Path) -> None:
    write_named(tmp_path / "real", "a/1.mat")
    (tmp_path / "input").symlink_to(tmp_path / "real")
    (tmp_path / "real/b.mat").symlink_to("a/1.mat")
    files = open_submission(tmp_path / "input")
    assert [content_of(files, name) for name in ("a/1.mat", "b.mat")] == [b"a/1.mat"] * 2


@pytest.mark.parametrize("when", ["before the listing", "after it"])
def test_a_link_out_of_the_submission_is_refused(tmp_path: Path, when: str) -> None:
    write_named(tmp_path, "s2/reference.mat", "s/1.mat")
    files = open_submission(tmp_path / "s")
    (tmp_path / "s/1.mat").unlink()
    (tmp_path / "s/1.mat").symlink_to("../s2/reference.mat")
    (tmp_path / "s/folder").symlink_to("../s2")
    if when == "after it":
        with pytest.raises(InputFault, match=r"\[unsafe-path\] '1.mat': a link to a file outside"):
            files.open("1.mat")
    else:
        names = ("1.mat", "folder")
        lines = [f"[unsafe-path] '{name}': a link to a file outside the submission; {UNSAFE}" for name in names]
        assert sorted(rejected(tmp_path / "s")) == lines


def test_a_zip_in_a_zip_is_told(tmp_path: Path) -> None:
    inner = write_zip(tmp_path / "inner.zip", "1.mat")
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as archive:
        archive.write(inner, "team/inner.zip")
    challenge = Challenge.load(Path(__file__).parents[1] / "ground_truth")
    (finding,) = receive_submission(challenge, tmp_path / "outer.zip").findings
    assert finding.code == "no-case-found"
    assert finding.fix.endswith("'team/inner.zip' is a ZIP, which is not opened: submit this ZIP, or its files.")


def test_all_unsafe_names_are_told_in_one_pass_three_of_a_kind_by_name(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "s.zip", *(f"../{index}.mat" for index in range(10)), "/etc/passwd")
    with pytest.raises(SubmissionRejected) as error:
        open_submission(path)
    assert len(error.value.findings) == 4
    assert sum(finding.count for finding in error.value.findings) == 11


@KINDS
def test_too_many_files_and_folders_are_refused(tmp_path: Path, kind: str) -> None:
    path = made(tmp_path, kind, *(f"{index}.mat" for index in range(6)))
    assert len(open_submission(path, files_per_submission=6).names) == 6
    assert rejected(path, files_per_submission=5) == [
        "[too-many-files] submission: more than 5 files; expected at most 5 files (limits.files_per_submission in "
        "challenge.toml). Submit only prediction files."
    ]
    path = made(tmp_path / "b" if kind == "folder" else tmp_path, kind, "1.mat", *(f"{index}/" for index in range(200)))
    assert open_submission(path, files_per_submission=51).names == ("1.mat",)
    assert rejected(path, files_per_submission=50)[0].startswith("[too-many-files] submission: more than 50 files")


def test_a_zip_with_a_huge_list_of_members_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = write_zip(tmp_path / "s.zip", *(f"{index}.mat" for index in range(50)))
    monkeypatch.setattr(module, "SMALL_LIST_BYTES", 1000)
    monkeypatch.setattr(zipfile, "ZipInfo", None)  # would fail if a member were listed
    assert rejected(path, files_per_submission=2) == [
        "[too-many-files] submission: a list of members of 2,590 bytes; expected at most 2 files "
        "without large extra fields (limits.files_per_submission in challenge.toml). Submit only prediction files."
    ]


@KINDS
def test_the_sizes_of_all_files_together_are_bounded(tmp_path: Path, kind: str) -> None:
    names = ("a.json", "b/c.json", "b/d.json")
    path, size = made(tmp_path, kind, *names), sum(map(len, names))
    assert open_submission(path, bytes_per_submission=size).names == names
    assert rejected(path, bytes_per_submission=size - 1) == [
        f"[too-large] submission: {size} bytes in all files, unpacked; expected at most {size - 1} "
        "(limits.bytes_per_submission in challenge.toml). Submit only prediction files."
    ]
    open_submission(path, bytes_per_file=8).open("b/c.json").close()
    assert unreadable(path, "b/c.json", bytes_per_file=7) == (
        "[too-large] 'b/c.json': 8 bytes; expected at most 7 bytes in a file (limits.bytes_per_file in challenge.toml)."
    )


@KINDS
def test_a_submission_travels_to_another_process(tmp_path: Path, kind: str) -> None:
    copy = pickle.loads(pickle.dumps(open_submission(made(tmp_path, kind, "a/1.mat"))))
    assert copy.names == ("a/1.mat",)
    assert content_of(copy, "a/1.mat") == b"a/1.mat"


# --- paths that cannot be used ----------------------------------------------------------------------------------------


def wrong_usage(path: Path) -> str:
    with pytest.raises(WrongUsage) as error:
        open_submission(path)
    return str(error.value.findings[0]).partition(": ")[2]


def test_paths_that_cannot_be_used_are_wrong_usage(tmp_path: Path) -> None:
    write_named(tmp_path, "file")
    (tmp_path / "loop").symlink_to("loop")
    for path, told in (
        (tmp_path / "predictons", "no such folder or file; expected a folder or a ZIP file with predictions."),
        (tmp_path / "file" / "below", "no such folder or file;"), (tmp_path / "a\0b", "no such folder or file;"),
        (tmp_path / ("x" * 5000), "file name too long;"), (tmp_path / "loop", "too many levels of symbolic links;"),
        (Path("/dev/null"), "not a folder or file;"),
    ):  # fmt: skip
        assert wrong_usage(path).startswith(told)


@pytest.fixture
def locked() -> Iterator[Path]:
    """A folder with a submission, a ZIP file and a folder that may not be read by the user that the test runs as."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    write_named(root / "s", "a/1.mat", "closed/1.mat")
    write_named(root / "t", "1.mat")
    (root / "t" / "1.mat").chmod(0)
    write_zip(root / "s.zip", "1.mat")
    (root / "s" / "closed").chmod(0)
    (root / "s.zip").chmod(0)
    user = os.geteuid()
    os.seteuid(user or 65534)
    yield root
    os.seteuid(user)
    (root / "s" / "closed").chmod(0o755)
    shutil.rmtree(root)


def test_what_may_not_be_read_is_told(locked: Path) -> None:
    assert rejected(locked / "s") == [f"[unreadable-file] 'closed/': permission denied; {FULL}"]
    assert unreadable(locked / "t", "1.mat") == f"[unreadable-file] '1.mat': permission denied; {FULL}"
    assert wrong_usage(locked / "s" / "closed" / "deeper").startswith("permission denied;")
    assert wrong_usage(locked / "s.zip").startswith("permission denied;")


def test_folders_deeper_than_the_system_can_name_are_told(tmp_path: Path) -> None:
    here = os.open(write_named(tmp_path, "1.mat"), os.O_RDONLY)
    for _ in range(20):
        os.mkdir("x" * 250, dir_fd=here)
        below = os.open("x" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (line,) = rejected(tmp_path)
    assert line.startswith("[unreadable-file] 'xxxx")
    assert "file name too long" in line


def test_a_zip_that_vanishes_is_told(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "s.zip", "1.mat")
    files = open_submission(path)
    path.unlink()
    with pytest.raises(InputFault, match=r"\[unreadable-file\] '1.mat': no such file or directory"):
        files.open("1.mat")


# --- ZIP files, written by hand ---------------------------------------------------------------------------------------


def raw_zip(path: Path, *members: Raw, **ends: bytes) -> Path:
    path.write_bytes(zip_of(*members, **ends))
    return path


DAMAGED = "damaged inside the ZIP file"
NUCLEI = b"nuclei" * 1000


def squeezed(**facts: Any) -> Raw:
    return Raw(
        **{"packed": deflated(NUCLEI), "size": len(NUCLEI), "checksum": zlib.crc32(NUCLEI), "method": 8, **facts}
    )


def test_a_zip_written_by_hand_is_read(tmp_path: Path) -> None:
    path = raw_zip(tmp_path / "s.zip", Raw(), squeezed(name=b"2.mat"), Raw(name=b"3.mat", packed=b""))
    files = open_submission(path)
    assert [content_of(files, name) for name in files.names] == [b"content", NUCLEI, b""]
    assert zipfile.ZipFile(path).testzip() is None


def larger_than_it_says(path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("1.mat", bytes(50_000_000))
    return patched(path, b"PK\1\2", 24, struct.pack("<I", 100))


ZEROS = bytes(1_000_000)
GROWN = squeezed(packed=deflated(ZEROS), size=len(ZEROS), checksum=zlib.crc32(ZEROS))
UNREADABLE = [  # how the ZIP is made, limits, and how the line of its first member begins; limits can be met
    *((lambda path, raw=raw: raw_zip(path, raw), {}, f"[unreadable-file] '1.mat': {DAMAGED}; {FULL}") for raw in (
        squeezed(size=len(NUCLEI) - 1), squeezed(size=len(NUCLEI) + 1), squeezed(checksum=1),
        squeezed(packed=deflated(NUCLEI)[:-1]), squeezed(packed=deflated(bytes(50_000_000)), size=1000),
        squeezed(packed=b"\xff" * 20), Raw(size=8), Raw(size=6), Raw(packed=b"", size=0, checksum=5))),
    (larger_than_it_says, {}, f"[unreadable-file] '1.mat': {DAMAGED}"),
    (lambda path: patched(raw_zip(path, Raw()), b"PK\3\4", 0, b"XX"), {}, f"[unreadable-file] '1.mat': {DAMAGED}"),
    (lambda path: patched(write_zip(path, "1.mat"), b"PK\1\2", 8, b"\1"), {},
     "[unreadable-file] '1.mat': encrypted with a password; expected"),
    *((lambda path, method=method: write_zip(path, "1.mat", compression=method), {},
       f"[unreadable-file] '1.mat': compressed with method {method}, not with deflate (8); expected")
      for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)),
    (lambda path: raw_zip(path, GROWN), {"bytes_per_file": 999_999}, "[too-large] '1.mat': 1,000,000 bytes; expected"),
    (lambda path: raw_zip(path, GROWN), {"archive_ratio": 100}, "[too-compressed] '1.mat': 1,000,000 bytes from "),
    (lambda path: raw_zip(path, squeezed(size=1_900_000_000)), {}, "[too-compressed] '1.mat': 1,900,000,000 bytes"),
    (lambda path: raw_zip(path, squeezed(packed=bytes(10), size=50)), {"archive_ratio": 4}, "[too-compressed]"),
    (lambda path: raw_zip(path, squeezed(packed=bytes(10), size=50)), {"archive_ratio": 5}, "[unreadable-file]"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "limits", "begin"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_a_member_that_is_not_what_it_says_is_told(tmp_path: Path, make: Any, limits: Any, begin: str) -> None:
    path = make(tmp_path / "s.zip")
    open_submission(path)
    with memory_below(8_000_000):
        assert unreadable(path, "1.mat", **limits).startswith(begin)


@pytest.mark.parametrize(("raw", "content"), [
    (squeezed(packed=deflated(NUCLEI) + b"more"), NUCLEI),
    (squeezed(packed=deflated(NUCLEI) + bytes(30_000_000)), NUCLEI),
    (Raw(size=3, checksum=zlib.crc32(b"con")), b"con"),
])  # fmt: skip
def test_data_behind_the_size_that_a_member_claims_are_not_read(tmp_path: Path, raw: Raw, content: bytes) -> None:
    files = open_submission(raw_zip(tmp_path / "s.zip", raw))
    with memory_below(8_000_000):
        assert content_of(files) == content


def test_members_beside_a_damaged_one_are_read(tmp_path: Path) -> None:
    path = patched(raw_zip(tmp_path / "s.zip", Raw(name=b"2.mat"), Raw()), b"1.matcontent", 5, b"C")
    assert DAMAGED in unreadable(path, "1.mat")
    assert content_of(open_submission(path), "2.mat") == b"content"
    assert content_of(open_submission(raw_zip(path, GROWN))) == ZEROS


def test_a_large_member_is_kept_out_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_MEMORY_BYTES", 1_000_000)
    with zipfile.ZipFile(tmp_path / "s.zip", "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("1.npy", bytes(60_000_000))
        written.writestr("2.npy", bytes(1_000_000))
    files = open_submission(tmp_path / "s.zip")
    with memory_below(8_000_000), files.open("1.npy") as stream:
        assert not isinstance(stream, io.BytesIO)
        assert (stream.seek(0, 2), stream.seek(59_999_999), stream.read()) == (60_000_000, 59_999_999, b"\0")
    assert isinstance(files.open("2.npy"), io.BytesIO)


@pytest.mark.parametrize("when", ["made", "written"])
def test_no_room_for_a_large_member_is_no_fault_of_it(tmp_path, monkeypatch, when):
    def room() -> BinaryIO:
        if when == "made":
            raise OSError(errno.ENOSPC, "No space left on device")
        return full

    monkeypatch.setattr(module, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(tempfile, "TemporaryFile", room)
    files = open_submission(write_zip(tmp_path / "s.zip", "1.mat"))
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError, match="No space left on device"):
        files.open("1.mat")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@KINDS
def test_a_machine_that_can_open_no_more_files_is_no_fault_of_a_submission(tmp_path, monkeypatch, number, kind):
    def none_left(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    files = open_submission(made(tmp_path, kind, "1.mat"))
    monkeypatch.setattr("builtins.open", none_left)
    monkeypatch.setattr(Path, "open", none_left)
    with pytest.raises(OSError, match=re.escape(os.strerror(number))):
        files.open("1.mat")


def test_names_that_macos_writes_are_read(tmp_path: Path) -> None:
    decomposed, dos = "Mu\u0308ller.mat".encode(), "M\u00fcller.mat".encode("cp437")
    path = raw_zip(tmp_path / "s.zip", Raw(name=decomposed), Raw(name=dos))
    assert sorted(open_submission(path).names) == ["Mu\u0308ller.mat", "M\u00fcller.mat"]


# --- the list of members ----------------------------------------------------------------------------------------------


def end_64(list_bytes: int, list_start: int, *, record_at: int) -> bytes:
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, list_bytes, list_start)
    return record + struct.pack("<4sLQL", b"PK\6\7", 0, record_at, 1)


def list_of(path: Path) -> tuple[int, int]:
    """Where the list of members starts, and its bytes."""
    content = path.read_bytes()
    return content.index(b"PK\1\2"), content.index(b"PK\5\6") - content.index(b"PK\1\2")


@pytest.mark.parametrize("record_at", [0, 10**15])
def test_the_record_of_large_files_counts_wherever_it_is_said_to_be(tmp_path, monkeypatch, record_at):
    members = [Raw(name=b"%d.mat" % index) for index in range(50)]
    start, size = list_of(raw_zip(tmp_path / "s.zip", *members))
    path = raw_zip(tmp_path / "s.zip", *members, end_64=end_64(size, start, record_at=record_at))
    patched(path, b"PK\5\6", 12, struct.pack("<L", 100))  # a list that seems to be short
    if sys.version_info >= (3, 14):  # whose zipfile wants the record to be there
        assert rejected(path)[0].startswith("[not-a-zip]")
        return
    assert len(open_submission(path).names) == 50
    monkeypatch.setattr(module, "SMALL_LIST_BYTES", 1000)
    assert rejected(path, files_per_submission=2)[0].startswith("[too-many-files] submission: a list of members of 2,5")


def linked(path: Path) -> Path:
    member = zipfile.ZipInfo("1.mat")
    member.create_system, member.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(path, "w") as written:
        written.writestr(member, "/opt/ml/input/data/ground_truth/1.mat")
    return path


def shortened(path: Path) -> Path:
    write_zip(path, "1.mat", "2.mat").write_bytes(path.read_bytes()[:-30])
    return path


def with_record(path: Path, damage: Any) -> Path:
    """A record of large files that does not stand where it is said to be."""
    start, size = list_of(raw_zip(path, Raw()))
    return raw_zip(path, Raw(), end_64=damage(end_64(size, start, record_at=start + size)))


def with_something_else(path: Path, place: int) -> Path:
    content = bytearray(raw_zip(path, Raw(name=b"1.mat"), Raw(name=b"2.mat")).read_bytes())
    second = content.rindex(b"PK\1\2")
    content[second + place : second + place] = b"?"
    end = content.rindex(b"PK\5\6")
    struct.pack_into("<L", content, end + 12, end - content.index(b"PK\1\2"))
    path.write_bytes(content)
    return path


def twice(path: Path) -> Path:
    with pytest.warns(UserWarning, match="Duplicate name"):
        return write_zip(path, "1.mat", "1.mat")


def of_bytes(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def in_folder(change: Callable[[Path], object], *names: str) -> Callable[[Path], Path]:
    """A folder with a file and what a change adds."""

    def make(path: Path) -> Path:
        change(write_named(path.with_name("a"), "1.mat", *names))
        return path.with_name("a")

    return make


UNSAFE = (
    "expected plain files inside the submission, with '/' between folders and short, printable names. "
    "Copy the file itself, or rename it."
)
NO_ZIP, UNSAFE_NAME = "[not-a-zip]", "[unsafe-path]"
SHARED_BYTES = (
    "[overlapping-members] '2.mat': bytes of the ZIP file that also belong to '1.mat'; expected members that follow "
    "each other. Pack the ZIP again."
)
REJECTED = [  # how the ZIP is made, how the first line begins, and what stands in it
    *((lambda path, name=name: write_zip(path, "good.mat", name), UNSAFE_NAME, f": {why}; {UNSAFE}")
      for name, why in (
          ("../../etc/x.mat", "a name with '..'"), ("a/../../x.mat", "a name with '..'"),
          ("/etc/passwd", "an absolute path"), ("C:/x.mat", "an absolute path"),
          ("a\\b.mat", "a name with a backslash"), ("a//b.mat", "a name with an empty part or '.'"),
          ("a/./b.mat", "a name with an empty part or '.'"),
          ("a\nb.mat", "a name with control characters or invalid characters"), ("x" * 256, "a name of 256 characters"),
          ("/".join(["x" * 200] * 6), "a name of 1,205 characters"))),
    (lambda path: write_zip(path, "team\\1.mat"), UNSAFE_NAME,
     "use another program, such as 7-Zip or 'python -m zipfile -c'."),
    (linked, f"{UNSAFE_NAME} '1.mat': a link; {UNSAFE}", ""),
    (lambda path: raw_zip(path, Raw(name=b"")), f"{UNSAFE_NAME} '': a member without", ""),
    (lambda path: raw_zip(path, Raw(name=b"1.mat\0.txt")), UNSAFE_NAME, "control characters"),
    *((make, "[empty-submission] submission: empty; expected predictions. Check the path, and "
       "that your export succeeded.", "")
      for make in (write_zip, lambda path: write_named(path.with_name("a"), "below/.DS_Store"))),
    *((lambda path, content=content: of_bytes(path, content),
       "[not-a-zip] 's.zip': not a ZIP file, or a damaged one; expected a folder or a ZIP file. Pack or copy it again.",
       "") for content in (b"", b"not a zip", b"PK\x05\x06", b"PK\x03\x04" + b"\0" * 100)),
    (twice, "[duplicate-file] '1.mat': twice in the ZIP file; expected every file once. Pack the ZIP again.", ""),
    *((in_folder(lambda folder, name=name, target=target: (folder / name).symlink_to(target), "a/1.mat"),
       f"{UNSAFE_NAME} '{name}': {what}; {UNSAFE}", "") for name, target, what in (
        ("nowhere", "absent", "a link to a missing file"), ("loop", "loop", "a link to a missing file"),
        ("a/up", "..", "a link to a folder"))),
    (in_folder(lambda folder: os.mkfifo(folder / "pipe.mat")),
     f"{UNSAFE_NAME} 'pipe.mat': not a file or folder; {UNSAFE}", ""),
    *((in_folder(lambda folder, name=name: (folder / os.fsdecode(name)).touch()),
       f"{UNSAFE_NAME} '{shown}': a name with control characters or invalid characters", "")
      for name, shown in ((b"a\nb.mat", "a?b.mat"), (b"\x1b[31mred.mat", "?[31mred.mat"), (b"\xff.mat", "?.mat"))),
    (shortened, NO_ZIP, ""),
    *((lambda path, start=start: raw_zip(path, Raw(name=b"1.mat"), Raw(name=b"2.mat", start=start)), SHARED_BYTES, "")
      for start in (0, 10, 41)),
    (lambda path: raw_zip(path, squeezed(name=b"kernel.npy"), *(
        squeezed(name=b"%06d.npy" % index, start=0) for index in range(10_000))), "[overlapping-members]", ""),
    *((lambda path, facts=facts: raw_zip(path, Raw(**facts)), NO_ZIP, "")
      for facts in ({"start": 1000}, {"packed_bytes": 50}, {"packed_bytes": 0xFFFFFFFE})),
    *((lambda path, damage=damage: with_record(path, damage), NO_ZIP, "") for damage in (
        lambda record: record[:56] + b"\0\0\0\0" + record[56:], lambda record: b"\0" * 56 + record[56:])),
    *((lambda path, place=place: raw_zip(path, Raw(), end_64=end_64(*place, record_at=0)), NO_ZIP, "")
      for place in ((10**15, 0), (46, 10**15), (2**64 - 1, 2**64 - 1))),
    *((lambda path, place=place: with_something_else(path, place), NO_ZIP, "") for place in (0, 20, 45)),
]  # fmt: skip


@pytest.mark.parametrize(("make", "begin", "within"), REJECTED, ids=range(len(REJECTED)))
def test_a_submission_is_refused_with_this_line(tmp_path: Path, make: Any, begin: str, within: str) -> None:
    line = rejected(make(tmp_path / "s.zip"))[0]
    assert line.startswith(begin)
    assert within in line
    assert line.isprintable()


def extra_64(*numbers: int) -> bytes:
    return struct.pack(f"<2H{len(numbers)}Q", 1, 8 * len(numbers), *numbers)


def test_numbers_of_64_bits_are_read(tmp_path: Path) -> None:
    unix_time = struct.pack("<2HL", 0x5455, 4, 0)
    large = 0xFFFFFFFF
    raw = squeezed(size=large, packed_bytes=large, extra=unix_time + extra_64(6000, len(deflated(NUCLEI))))
    files = open_submission(raw_zip(tmp_path / "s.zip", raw))
    assert files.size("1.mat") == 6000
    assert content_of(files) == NUCLEI
    huge = squeezed(size=large, extra=extra_64(10**15))
    assert "1,000,000,000,000,000 bytes in all files" in rejected(raw_zip(tmp_path / "s.zip", huge))[0]
    cut_off = squeezed(size=large, packed_bytes=large, extra=extra_64(6000))
    assert rejected(raw_zip(tmp_path / "s.zip", cut_off))[0].startswith("[not-a-zip]")


@pytest.mark.parametrize(("members", "extra_bytes"), [(1, 1028), (1000, 512)])
def test_extra_fields_that_zipfile_takes_long_to_read_are_refused(tmp_path, monkeypatch, members, extra_bytes):
    few = raw_zip(tmp_path / "few.zip", *(Raw(name=b"%d.mat" % index, extra=bytes(1024)) for index in range(200)))
    assert len(open_submission(few, files_per_submission=200).names) == 200
    raws = [Raw(name=b"%d.mat" % index, extra=bytes(extra_bytes), size=0xFFFFFFFF) for index in range(members)]
    path = raw_zip(tmp_path / "s.zip", *raws)
    monkeypatch.setattr(zipfile, "ZipInfo", None)  # would fail if a member were listed
    (line,) = rejected(path, files_per_submission=1000)
    assert "without large extra fields" in line
    assert not is_soon_looked_at(path)


def test_bytes_before_and_behind_a_zip_change_nothing(tmp_path: Path) -> None:
    path = raw_zip(tmp_path / "s.zip", Raw(), comment=b"packed by hand")
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())
    assert content_of(open_submission(path)) == b"content"


NAMES = st.text("ab1_ \u00e9\u4e2d", min_size=1, max_size=8)


@given(
    st.dictionaries(NAMES, st.binary(max_size=300) | st.just(bytes(5000)), min_size=1, max_size=6),
    st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
    st.binary(max_size=40),
    st.booleans(),
    st.binary(max_size=20),
)
def test_any_zip_holds_what_zipfile_reads(contents, compression, comment, is_streamed, prefix):
    buffer = Unseekable() if is_streamed else io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as written:
        written.comment = comment.replace(b"PK", b"")
        for name, content in contents.items():
            with written.open(zipfile.ZipInfo(name), "w", force_zip64=len(content) % 2 == 1) as member:
                member.write(content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.zip"
        path.write_bytes(prefix.replace(b"PK", b"") + buffer.getvalue())
        files = open_submission(path)
        assert {name: content_of(files, name) for name in files.names} == contents


class Unseekable(io.BytesIO):
    """A stream that a ZIP file is written to in one go: sizes stand behind the data of each member."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError


@given(st.integers(0, 10**9), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6))
def test_any_damage_is_told(cut: int, changes: list[tuple[int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = raw_zip(Path(folder) / "s.zip", Raw(), squeezed(name=b"2.mat", extra=extra_64(1, 2)), comment=b"a")
        content = bytearray(path.read_bytes())
        for place, value in changes:
            content[place % len(content)] = value
        path.write_bytes(content[: len(content) - cut % 3 * (cut % len(content))])
        try:
            files = open_submission(path, files_per_submission=10)
            for name in files.names:
                files.open(name).close()
        except (SubmissionRejected, InputFault) as fault:
            assert all(str(finding) for finding in fault.findings)
