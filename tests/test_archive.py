"""The archive of a challenge, and what of it can be computed again."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation.commands.main import run
from evaluation.platform.archive import verify_archive

FROZEN = Path(__file__).parent / "golden" / "frozen"


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The board of two frozen teams, and one that is rejected."""
    folder = tmp_path_factory.mktemp("scored")
    for team in ("finder", "namer"):
        shutil.copytree(FROZEN / "submissions" / team, folder / "submissions" / team)
    (folder / "submissions" / "empty.csv").write_text("nothing\n")
    shutil.copytree(FROZEN / "challenge", folder / "challenge")
    sides = ["--challenge", str(folder / "challenge"), "--submissions", str(folder / "submissions")]
    assert run(["leaderboard", *sides, "--output", str(folder / "out")]) == 0
    return folder


def archived(scored: Path, path: Path, *more: str) -> Path:
    sides = ["--challenge", str(scored / "challenge"), "--results", str(scored / "out"), "--output", str(path)]
    assert run(["archive", *sides, "--creator", "Doe, Jane", "--date", "2026-11-22", *more]) == 0
    return path


@pytest.fixture
def verify(capfd: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """The lines that 'verify' prints, with the exit code that it must have."""

    def verified(path: Path, *more: str, code: int = 0) -> list[str]:
        capfd.readouterr()
        assert run(["verify", str(path), *more]) == code
        printed = capfd.readouterr()
        assert (code == 2) == bool(printed.err)
        return (printed.out + printed.err).splitlines()

    return verified


def rewritten(path: Path, name: str, old: str | None, new: str) -> None:
    """Change a text of a member, or all of it, and its checksum with it."""
    with zipfile.ZipFile(path) as archive:
        contents = {member: archive.read(member) for member in archive.namelist()}
    assert old is None or old.encode() in contents[name]
    before = hashlib.sha256(contents[name]).hexdigest()
    contents[name] = contents[name].replace(old.encode(), new.encode(), 1) if old else new.encode("latin-1")
    after = hashlib.sha256(contents[name]).hexdigest()
    contents["SHA256SUMS"] = contents["SHA256SUMS"].replace(before.encode(), after.encode())
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in contents.items():
            archive.writestr(member, data)


def test_a_private_archive_is_computed_again_to_the_byte(scored: Path, tmp_path: Path, verify) -> None:
    path = archived(scored, tmp_path / "a.zip", "--private", "--image", "sha256:12")
    again = archived(scored, tmp_path / "b.zip", "--private", "--image", "sha256:12")
    assert path.read_bytes() == again.read_bytes()
    told = verify(path)
    assert told[-1] == "everything that can be checked agrees"
    for what in ("files, by SHA256SUMS", "hash of rules", "ranking in", "counts of finder", "counts of namer"):
        assert [line.partition(":")[0] for line in told if what in line] == ["same to the byte"], what
    assert any(line.startswith("cannot be checked: the scores, from the submissions") for line in told)
    about = json.loads(zipfile.ZipFile(path).read("archive.json"))
    assert about["software"]["image"] == "sha256:12" and about["left_out"] == []


def test_a_public_archive_holds_nothing_that_tells_the_reference(scored: Path, tmp_path: Path, verify) -> None:
    path = archived(scored, tmp_path / "a.zip")
    names = zipfile.ZipFile(path).namelist()
    assert not [n for n in names if "reference" in n or n.endswith(("details.json", "objects.csv"))]
    assert {"results/finder/metrics.json", "results/empty/key.json", "requirements/run.lock"} <= set(names)
    told = verify(path, "--submissions", str(scored / "submissions"))  # without the reference nothing is scored again
    ranking = "the ranking in leaderboard.json (ranks and values alone; tests and samples need details.json)"
    for line in (
        f"same to the digit: {ranking}", "cannot be checked: counts of finder",
        "cannot be checked: the scores, from the submissions (",
    ):  # fmt: skip
        assert any(line in of for of in told), line
    rewritten(path, "leaderboard.json", '"position": 1', '"position": "x"')
    assert any("cannot be checked: the ranking in leaderboard.json" in line for line in verify(path))


def test_the_names_of_hidden_cases_are_left_out(scored: Path, tmp_path: Path) -> None:
    shutil.copytree(scored, tmp_path / "scored")
    with (tmp_path / "scored/challenge/challenge.toml").open("a") as stream:
        stream.write('[submission]\ncase_names = "hidden"\n')
    names = zipfile.ZipFile(archived(tmp_path / "scored", tmp_path / "a.zip")).namelist()
    assert "challenge/challenge.toml" in names and "challenge/cases.csv" not in names


@pytest.mark.parametrize("name, old, new, line", [
    ("results/finder/objects.csv", ",matched,", ",missed,", "differs: counts of finder, from its nuclei"),
    ("leaderboard.json", '"position": 1', '"position": 2', "differs: the ranking in leaderboard.json"),
    ("challenge/cases.csv", "P1_1,P1,280", "P1_1,P1,281", "differs: the hash of rules and cases"),
])  # fmt: skip
def test_what_was_changed_is_found_although_its_checksum_was_changed_too(
    scored, tmp_path, verify, name, old, new, line
):
    path = archived(scored, tmp_path / "a.zip", "--private")
    rewritten(path, name, old, new)
    told = "\n".join(verify(path, code=1))
    assert line in told and "same to the byte: " in told


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values of a JSON document."""
    nodes = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found = [leaf for key, node in nodes for leaf in leaves(node, (*path, key))]
    return iter(found or [path])


def change_value(tree: Any, path: tuple[Any, ...]) -> None:
    *steps, last = path
    for step in steps:
        tree = tree[step]
    old = tree[last]
    is_number = isinstance(old, int | float) and not isinstance(old, bool)
    tree[last] = old + 1 if is_number else f"{old}x" if isinstance(old, str) else 0.123


@pytest.mark.parametrize("private", [True, False])
def test_one_value_that_was_changed_with_its_checksum_is_found_or_named_as_not_checked(scored, tmp_path, private):
    """In every JSON file, some values spread over it."""
    path = archived(scored, tmp_path / "a.zip", *(["--private"] if private else []))
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name).decode() for name in archive.namelist()}
    changed, unseen, tried = tmp_path / "changed.zip", set(), set()
    for name in [of for of in contents if of.endswith(".json") and "namer" not in of]:
        every = list(leaves(json.loads(contents[name])))
        for leaf in every[3 :: max(1, len(every) // 4)]:
            document = json.loads(contents[name])
            change_value(document, leaf)
            shutil.copy(path, changed)
            rewritten(changed, name, None, json.dumps(document))
            checked = verify_archive(changed, tmp_path / f"{len(tried)}")
            tried.add((name, leaf))
            if all(of.outcome != "differs" for of in checked):
                unseen.add((name, leaf[0]))
    assert {name for name, _ in tried} >= {"zenodo.json", "leaderboard.json", "results/finder/metrics.json"}
    not_checked = {"archive.json"} if private else {"archive.json", "leaderboard.json"}
    assert {of for of in unseen if of[0] not in not_checked and of[1] not in ("software", "findings", "key")} == set()


@pytest.mark.parametrize(("file", "path"), [("metrics.json", ["panoptic", "sq"]), ("details.json", ["cases"])])
def test_a_number_is_computed_again_although_the_key_and_the_checksums_follow_it(scored, tmp_path, verify, file, path):
    """A pooled number that does not rank, and a score of a case."""
    archive = archived(scored, tmp_path / "a.zip", "--private")
    with zipfile.ZipFile(archive) as found:
        before = found.read(f"results/finder/{file}")
    document = json.loads(before)
    places = {rule: paths.index("detection.f1") for rule, paths in document.get("score_paths", {}).items()}

    def is_meant(leaf: tuple[Any, ...]) -> bool:
        return leaf[-1] == "pooled" or (leaf[-2] == "scores" and leaf[-1] == places[leaf[-3]])

    leaf = next(of for of in leaves(document) if list(of[: len(path)]) == path and is_meant(of))
    change_value(document, leaf)
    rewritten(archive, f"results/finder/{file}", None, text := json.dumps(document))
    hashes = (hashlib.sha256(of).hexdigest() for of in (before, text.encode("latin-1")))
    rewritten(archive, "results/finder/key.json", *hashes)
    told = "\n".join(verify(archive, code=1))
    assert "same to the byte: metrics.json, details.json, objects.csv of finder, by key.json" in told
    assert "differs: numbers of finder in metrics.json" in told


@pytest.mark.parametrize(
    "name, content",
    [
        ("results/finder/details.json", '{"cases": []}'),
        ("results/finder/details.json", '{"challenge": {"name": "De'),
        ("results/finder/metrics.json", "[]"),
        ("results/finder/metrics.json", '{"challenge": {"hash": [1]}}'),
        ("results/finder/metrics.json", "[" * 100_000),
        ("challenge/challenge.toml", ".".join("a" * 50_000) + " = 1"),
        ("challenge/challenge.toml", "a = " + "[" * 50_000),
        ("challenge/challenge.toml", "format_version = 0x" + "f" * 50_000),
        ("challenge/challenge.toml", "# " + "x" * 2_000_000),
        ("challenge/cases.csv", "case\n" * 3),
        ("results/finder/objects.csv", "case,rule\n\0"),
        ("results/finder/objects.csv", "\xff"),
    ],
    ids=lambda value: value[:30],
)
def test_what_is_damaged_cannot_be_checked(scored: Path, tmp_path: Path, capfd, name: str, content: str) -> None:
    """Its checksum was changed with it. The processor time is bounded, since tomllib takes the square of a key."""
    path = archived(scored, tmp_path / "a.zip", "--private")
    rewritten(path, name, None, content)
    capfd.readouterr()
    began = time.process_time()
    assert run(["verify", str(path)]) in (0, 1)
    told = capfd.readouterr()
    assert (told.err, time.process_time() - began < 10) == ("", True)
    assert any(line.startswith("cannot be checked: ") and "submissions" not in line for line in told.out.splitlines())


@pytest.mark.parametrize("name", ["challenge/challenge.toml", "results/finder/metrics.json", "more.txt"])
def test_a_file_that_is_too_large_for_what_it_is_is_refused_before_it_is_unpacked(scored, tmp_path, verify, name):
    path = archived(scored, tmp_path / "a.zip")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open(f"z/{name}", "w") as member:
        for _ in range(101):
            member.write(bytes(1_000_000))
    told = " ".join(verify(path, code=2))
    assert f"[too-large] 'z/{name}': 101,000,000 bytes; expected at most " in told


def of_submissions(lines: list[str]) -> list[str]:
    return [line for line in lines if "from its submission" in line or "by its submission" in line]


def test_with_the_submissions_every_result_is_computed_again(scored: Path, tmp_path: Path, verify) -> None:
    path = archived(scored, tmp_path / "a.zip", "--private")
    (tmp_path / "given").symlink_to(scored / "submissions")
    files = "metrics.json, details.json, objects.csv"
    assert of_submissions(verify(path, "--submissions", str(tmp_path / "given"))) == [
        f"same to the byte: scores of finder, from its submission ({files})",
        f"same to the byte: scores of namer, from its submission ({files})",
        "same to the byte: the rejection of empty, from its submission",
    ]
    with zipfile.ZipFile(path) as archive:
        value = json.loads(archive.read("results/finder/metrics.json"))["detection"]["f1"]["group_mean"]
    rewritten(path, "results/finder/metrics.json", f'"group_mean": {value}', f'"group_mean": {value + 1e-7:.7f}')
    rewritten(path, "results/namer/objects.csv", ",matched,", ",missed,")
    told = of_submissions(verify(path, "--submissions", str(tmp_path / "given"), code=1))
    assert "same to the digit: scores of finder, from its submission (different bytes in metrics.json)" in told
    (changed,) = (line for line in told if line.startswith("differs: scores of namer"))
    assert "objects.csv: line " in changed and "missed in the archive, matched now" in changed


def test_a_submission_that_is_another_or_not_there_is_told(scored: Path, tmp_path: Path, verify) -> None:
    path = archived(scored, tmp_path / "a.zip", "--private")
    shutil.copytree(scored / "submissions/namer", tmp_path / "given/finder")
    shutil.copytree(scored / "submissions/namer", tmp_path / "given/empty")
    finder, namer, empty = of_submissions(verify(path, "--submissions", str(tmp_path / "given"), code=1))
    assert finder.startswith("differs: scores of finder, from its submission (metrics.json: ")
    assert namer == "cannot be checked: scores of namer, from its submission (there is no such submission)"
    assert empty == "differs: the rejection of empty, from its submission (it is scored now)"


def test_a_file_that_was_changed_or_lost_is_named(scored: Path, tmp_path: Path, verify) -> None:
    zipfile.ZipFile(archived(scored, tmp_path / "a.zip")).extractall(tmp_path / "a")
    (tmp_path / "a/zenodo.json").write_text("{}")
    (tmp_path / "a/datacite.json").unlink()
    assert "by SHA256SUMS (zenodo.json, datacite.json (missing))" in " ".join(verify(tmp_path / "a", code=1))


def test_the_metadata_have_what_datacite_and_zenodo_require(scored: Path, tmp_path: Path) -> None:
    archive = zipfile.ZipFile(archived(scored, tmp_path / "a.zip"))
    datacite, zenodo = (json.loads(archive.read(f"{name}.json")) for name in ("datacite", "zenodo"))
    assert datacite["creators"] == zenodo["creators"] == [{"name": "Doe, Jane"}]
    assert datacite["publicationYear"] == "2026" and zenodo["publication_date"] == "2026-11-22"
    assert datacite["types"]["resourceTypeGeneral"] == "Dataset" and zenodo["upload_type"] == "dataset"
    assert datacite["titles"] == [{"title": zenodo["title"]}]
    lines = [line.partition(": ") for line in archive.read("CITATION.cff").decode().splitlines()]
    cff = {key: json.loads(value) for key, _, value in lines}
    assert (cff["cff-version"], cff["type"], cff["date-released"]) == ("1.2.0", "dataset", "2026-11-22")
    assert cff["title"] == zenodo["title"] and cff["message"]
    assert cff["authors"] == [{"family-names": "Doe", "given-names": "Jane"}]
