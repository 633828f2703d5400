"""Folders and ZIP files of strangers: the same names and bytes from both, and nothing from elsewhere."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import struct
import zipfile
from pathlib import Path

import pytest

from evaluation.errors import InputFault, SubmissionRejected, WrongUsage
from evaluation.submission import files as module
from evaluation.submission import open_submission

UNSAFE = (
    "expected plain files inside the submission, with '/' between folders and short, printable names. "
    "Copy the file itself to its place, or rename it."
)


def write_files(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return root


def write_zip(path: Path, *names: str, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name in names:
            archive.writestr(name, name.encode())
    return path


def rejected(path: Path) -> list[str]:
    """The lines of the findings for which a submission is refused."""
    with pytest.raises(SubmissionRejected) as error:
        open_submission(path)
    return [str(finding) for finding in error.value.findings]


def unreadable(path: Path, name: str, **options: int) -> str:
    with open_submission(path, **options) as files, pytest.raises(InputFault) as error:
        files.open(name)
    return str(error.value.findings[0])


def test_folder_and_zip_of_it_give_the_same_names_sizes_and_bytes(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "monusac_challenge" / "submission"
    archive = Path(shutil.make_archive(str(tmp_path / "submission"), "zip", folder))
    with open_submission(folder) as of_folder, open_submission(archive) as of_zip:
        assert of_folder.names == of_zip.names
        assert len(of_folder.names) == 15
        for name in of_folder.names:
            expected = (folder / name).read_bytes()
            assert of_folder.size(name) == of_zip.size(name) == len(expected)
            with of_folder.open(name) as plain, of_zip.open(name) as member:
                assert plain.read() == member.read() == expected
                assert member.seek(0) == 0


def test_names_are_sorted_and_relative(tmp_path: Path) -> None:
    write_files(tmp_path, "b/2.mat", "b/10.mat", "a.mat")
    assert open_submission(tmp_path).names == ("a.mat", "b/10.mat", "b/2.mat")


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_litter_of_operating_systems_is_left_out(tmp_path: Path, kind: str) -> None:
    names = ["a/1.mat", "__MACOSX/a/._1.mat", "a/.DS_Store", "Thumbs.db", "a/._1.mat", "a/desktop.ini", "a/Icon\r"]
    path = write_files(tmp_path / "s", *names) if kind == "folder" else write_zip(tmp_path / "s.zip", *names)
    assert open_submission(path).names == ("a/1.mat",)


def test_the_submission_itself_may_be_a_link(tmp_path: Path) -> None:
    write_files(tmp_path / "real", "a/1.mat")
    (tmp_path / "input").symlink_to(tmp_path / "real")
    with open_submission(tmp_path / "input") as files, files.open("a/1.mat") as stream:
        assert stream.read() == b"a/1.mat"


def test_a_link_inside_the_submission_is_followed(tmp_path: Path) -> None:
    write_files(tmp_path, "a/1.mat")
    (tmp_path / "b.mat").symlink_to("a/1.mat")
    with open_submission(tmp_path) as files, files.open("b.mat") as stream:
        assert stream.read() == b"a/1.mat"


def test_a_link_out_of_the_submission_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, "secret/reference.mat", "submission/a.mat")
    (tmp_path / "submission" / "1.mat").symlink_to("../secret/reference.mat")
    (tmp_path / "submission" / "folder").symlink_to("../secret")
    assert sorted(rejected(tmp_path / "submission")) == [
        f"[unsafe-path] '1.mat': a link that leads out of the submission; {UNSAFE}",
        f"[unsafe-path] 'folder': a link that leads out of the submission; {UNSAFE}",
    ]


def test_a_link_out_of_a_folder_with_the_same_beginning_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, "submission2/reference.mat", "submission/a.mat")
    (tmp_path / "submission" / "1.mat").symlink_to("../submission2/reference.mat")
    assert rejected(tmp_path / "submission")[0].startswith("[unsafe-path] '1.mat': a link that leads out")


def test_a_link_that_appears_after_the_listing_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, "secret.mat", "submission/1.mat")
    files = open_submission(tmp_path / "submission")
    (tmp_path / "submission" / "1.mat").unlink()
    (tmp_path / "submission" / "1.mat").symlink_to("../secret.mat")
    with pytest.raises(InputFault, match=r"\[unsafe-path\] '1.mat': a link that leads out"):
        files.open("1.mat")


def test_links_to_nowhere_to_themselves_and_to_folders_are_refused(tmp_path: Path) -> None:
    write_files(tmp_path, "a/1.mat")
    (tmp_path / "nowhere").symlink_to("absent")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "a" / "up").symlink_to("..")
    assert sorted(line.partition(";")[0] for line in rejected(tmp_path)) == [
        "[unsafe-path] 'a/up': a link to a folder",
        "[unsafe-path] 'loop': a link that leads nowhere",
        "[unsafe-path] 'nowhere': a link that leads nowhere",
    ]


def test_a_pipe_is_refused_and_never_opened(tmp_path: Path) -> None:
    write_files(tmp_path, "a.mat")
    os.mkfifo(tmp_path / "pipe.mat")
    assert rejected(tmp_path) == [f"[unsafe-path] 'pipe.mat': neither a file nor a folder; {UNSAFE}"]


def test_names_with_control_characters_are_refused_and_shown_harmless(tmp_path: Path) -> None:
    write_files(tmp_path, "a\nb.mat", "\x1b[31mred.mat")
    lines = sorted(rejected(tmp_path))
    assert [line.partition(":")[0] for line in lines] == ["[unsafe-path] '?[31mred.mat'", "[unsafe-path] 'a?b.mat'"]
    assert all(line.isprintable() for line in lines)


def test_names_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.mat"))).write_bytes(b"")
    assert rejected(tmp_path)[0].startswith("[unsafe-path] '?.mat': a name with control characters or broken ones")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../../etc/x.mat", "a name with '..'"),
        ("a/../../x.mat", "a name with '..'"),
        ("/etc/passwd", "an absolute path"),
        ("C:/x.mat", "an absolute path"),
        ("a\\b.mat", "a name with a backslash"),
        ("a//b.mat", "a name with an empty part or '.'"),
        ("a/./b.mat", "a name with an empty part or '.'"),
        ("a\nb.mat", "a name with control characters or broken ones"),
        ("x" * 256, "a name of 256 characters"),
        ("/".join(["x" * 200] * 6), "a name of 1,205 characters"),
    ],
)
def test_a_zip_with_an_unsafe_name_is_refused(tmp_path: Path, name: str, why: str) -> None:
    (line,) = rejected(write_zip(tmp_path / "s.zip", "good.mat", name))
    assert line.startswith("[unsafe-path]")
    assert f": {why}; {UNSAFE}" in line


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    member = zipfile.ZipInfo("1.mat")
    member.create_system, member.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        archive.writestr(member, "/opt/ml/input/data/ground_truth/1.mat")
    assert rejected(tmp_path / "s.zip") == [f"[unsafe-path] '1.mat': a link; {UNSAFE}"]


def test_a_name_twice_in_a_zip_is_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = write_zip(tmp_path / "s.zip", "1.mat", "1.mat")
    assert rejected(path) == [
        "[duplicate-file] '1.mat': twice in the ZIP file; expected every file once. Pack the ZIP again."
    ]


def test_all_unsafe_names_are_told_in_one_pass_three_of_a_kind_by_name(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "s.zip", *(f"../{index}.mat" for index in range(10)), "/etc/passwd")
    with pytest.raises(SubmissionRejected) as error:
        open_submission(path)
    assert len(error.value.findings) == 4
    assert sum(finding.count for finding in error.value.findings) == 11


def test_a_path_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage) as error:
        open_submission(tmp_path / "predictons")
    expected = "predictons': no such folder or file; expected a folder or a ZIP file with predictions."
    assert str(error.value).endswith(expected)


@pytest.mark.parametrize("litter", [(), (".DS_Store",)])
def test_an_empty_folder_is_one_finding_also_with_litter_in_it(tmp_path: Path, litter: tuple[str, ...]) -> None:
    (tmp_path / "below").mkdir()
    write_files(tmp_path, *litter)
    assert rejected(tmp_path) == [
        "[empty-submission] submission: no file in it; expected predictions. Check that the folder or ZIP is the right "
        "one and that writing the predictions worked."
    ]


def test_an_empty_zip_is_one_finding(tmp_path: Path) -> None:
    assert rejected(write_zip(tmp_path / "s.zip"))[0].startswith("[empty-submission] submission: no file in it")


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x05\x06", b"PK\x03\x04" + b"\0" * 100])
def test_another_file_is_not_a_zip(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.tar.gz").write_bytes(content)
    assert rejected(tmp_path / "s.tar.gz") == [
        "[not-a-zip] 's.tar.gz': not a ZIP file, or a damaged one; expected a folder or a ZIP file. "
        "Pack or copy it again."
    ]


def test_a_truncated_zip_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "s.zip", "1.mat", "2.mat")
    path.write_bytes(path.read_bytes()[:-30])
    assert rejected(path)[0].startswith("[not-a-zip]")


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{index}.mat" for index in range(6)]
    monkeypatch.setattr(module, "MAX_FILES", 6)
    assert len(open_submission(write_files(tmp_path / "s", *names)).names) == 6
    monkeypatch.setattr(module, "MAX_FILES", 5)
    expected = (
        "[too-many-files] submission: more than 5 files; expected at most 5. Leave out everything but the predictions."
    )
    assert rejected(tmp_path / "s") == [expected]
    assert rejected(write_zip(tmp_path / "s.zip", *names)) == [expected]


def test_a_zip_with_a_huge_list_of_members_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_zip(tmp_path / "s.zip", *(f"{index}.mat" for index in range(50)))
    monkeypatch.setattr(module, "MAX_DIRECTORY_BYTES", 1000)
    monkeypatch.setattr(zipfile, "ZipFile", None)  # would fail if it were called
    assert rejected(path)[0].startswith("[too-many-files]")


def test_a_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path / "s", "abc.mat")
    path = write_zip(tmp_path / "s.zip", "abc.mat")
    for submission in (tmp_path / "s", path):
        with open_submission(submission, bytes_limit=7) as files:
            files.open("abc.mat").close()
        assert unreadable(submission, "abc.mat", bytes_limit=6) == (
            "[too-large] 'abc.mat': 7 bytes; expected at most 6 bytes in a file."
        )


def test_a_member_that_is_larger_than_it_says_gives_no_more_than_that(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("1.mat", bytes(50_000_000))
    content = bytearray(path.read_bytes())
    directory = content.rindex(b"PK\x01\x02")
    struct.pack_into("<I", content, directory + 24, 100)  # uncompressed size
    path.write_bytes(content)
    assert open_submission(path).size("1.mat") == 100
    assert unreadable(path, "1.mat") == (
        "[unreadable-file] '1.mat': damaged inside the ZIP file; expected a file that can be read to its end. "
        "Write or pack it again."
    )


def test_a_bomb_is_refused_by_its_size_alone(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "s.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("1.mat", bytes(20_000_000))
    assert (tmp_path / "s.zip").stat().st_size < 30_000
    line = unreadable(tmp_path / "s.zip", "1.mat", bytes_limit=1_000_000)
    assert "20,000,000 bytes; expected at most 1,000,000" in line


def test_a_damaged_member_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "s.zip", "1.mat", "2.mat", compression=zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[content.index(b"1.mat") + 5] ^= 255  # first byte of the content
    path.write_bytes(content)
    assert unreadable(path, "1.mat").startswith("[unreadable-file] '1.mat': damaged inside the ZIP file")
    with open_submission(path) as files:
        assert files.open("2.mat").read() == b"2.mat"


def test_an_encrypted_member_is_told(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "s.zip", "1.mat")
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    assert unreadable(path, "1.mat").startswith("[unreadable-file] '1.mat': encrypted with a password; expected")


@pytest.mark.parametrize("compression", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_method_that_decompresses_without_bound_is_refused(tmp_path: Path, compression: int) -> None:
    path = write_zip(tmp_path / "s.zip", "1.mat", compression=compression)
    assert unreadable(path, "1.mat").startswith(
        f"[unreadable-file] '1.mat': compressed with method {compression}, not with deflate (8); expected"
    )


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_a_submission_travels_to_another_process(tmp_path: Path, kind: str) -> None:
    path = write_files(tmp_path / "s", "a/1.mat") if kind == "folder" else write_zip(tmp_path / "s.zip", "a/1.mat")
    with open_submission(path) as files:
        copy = pickle.loads(pickle.dumps(files))
    with copy:
        assert copy.names == ("a/1.mat",)
        with copy.open("a/1.mat") as stream:
            assert stream.read() == b"a/1.mat"


def test_a_stream_of_a_zip_outlives_it(tmp_path: Path) -> None:
    with open_submission(write_zip(tmp_path / "s.zip", "1.mat")) as files:
        stream = files.open("1.mat")
    assert isinstance(stream, io.BytesIO)
    assert stream.read() == b"1.mat"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_told(tmp_path: Path) -> None:
    write_files(tmp_path, "1.mat")
    (tmp_path / "1.mat").chmod(0)
    assert unreadable(tmp_path, "1.mat").startswith("[unreadable-file] '1.mat': permission denied; expected")
