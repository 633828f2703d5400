"""The scripts around the image, with a stand-in for the engine; the image itself is proven by tests/container."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from container.submissions import CHOSEN, EXPECTED
from hostile.corpus import CORPUS
from packaging.requirements import Requirement

from evaluation.files.results import __version__

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = {"test": "requirements/test.lock", "docs": "requirements/docs.lock"}  # that test.sh --all makes
TARBALL = f"nuclei-evaluation-image-{__version__}.tar.gz"
GOOD = "linux/amd64 10001:10001 [/opt/venv/bin/python -m evaluation score]"
TOOLS = (
    "awk", "bash", "basename", "cat", "chmod", "cp", "cut", "dirname", "env", "find", "git", "grep", "gzip", "head",
    "id", "ls", "mkdir", "mktemp", "mv", "readlink", "rm", "sed", "sha256sum", "sort", "tail", "tar", "tee",
    "touch", "tr", "uname", "flock",
)  # fmt: skip
ENGINE = """#!/bin/bash
# A stand-in for podman or docker: writes down how it was called, and does what the environment says.
echo "$(basename "$0") $*" >>"$STUB/calls"
case "$*" in
  info*) exit "${INFO_CODE:-0}" ;;
  *Architecture*) echo "$ABOUT" ;;
  *Config.Labels*) echo "$LABEL" ;;
  *.Size*) echo 480123456 ;;
  image\\ inspect*) exit "${INSPECT_CODE:-0}" ;;
  save*) cat "$STUB/image.tar"; exit "${SAVE_CODE:-0}" ;;
  build*) exit "${BUILD_CODE:-0}" ;;
esac
"""


class Machine:
    """A folder of programs that is the whole PATH, with or without engines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        for name in TOOLS:
            if path := shutil.which(name):
                (self.bin / name).symlink_to(path)
        self.image(manifest=True)

    def image(self, *, manifest: bool) -> None:
        """What ``save`` writes."""
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as archive:
            member = tarfile.TarInfo("manifest.json" if manifest else "else.json")
            archive.addfile(member, io.BytesIO())
        (self.folder / "image.tar").write_bytes(file.getvalue())

    def install(self, name: str) -> None:
        (self.bin / name).write_text(ENGINE)
        (self.bin / name).chmod(0o755)

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def run(self, *command: Path | str, **environment: str) -> subprocess.CompletedProcess[str]:
        here = str(self.folder)
        variables = {"PATH": str(self.bin), "HOME": here, "STUB": here, "ABOUT": GOOD, "LABEL": "unknown"}
        variables |= environment
        return subprocess.run([*map(str, command)], env=variables, capture_output=True, text=True, check=False)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


@pytest.fixture
def with_podman(machine: Machine) -> Machine:
    machine.install("podman")
    return machine


# --- build.sh ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [False, True])
def test_build_without_an_engine_is_one_sentence_also_if_its_client_is_there(client, machine):
    if client:
        machine.install("docker")
    done = machine.run(ROOT / "build.sh", INFO_CODE="1")
    assert (done.returncode, done.stdout) == (75, "")
    assert done.stderr == (
        "No container engine was found: neither podman nor docker answers. "
        "On Debian, as root: apt-get install podman buildah\n"
    )


@pytest.mark.parametrize(("there", "used"), [(["docker"], "docker"), (["docker", "podman"], "podman")])
def test_build_takes_what_is_there(there, used, machine):
    for name in there:
        machine.install(name)
    done = machine.run(ROOT / "build.sh", "--build-arg", "PYTHON_IMAGE=another:base", IMAGE="here:tag")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Built here:tag with {used}: 480 MB.\n"
    (build,) = [call for call in machine.calls if " build " in call]
    assert build.startswith(f"{used} build --platform linux/amd64 --tag here:tag ")
    assert (
        f" --label org.opencontainers.image.version={__version__} --label org.opencontainers.image.revision=" in build
    )
    assert build.endswith(f" --build-arg PYTHON_IMAGE=another:base {ROOT}")


@pytest.mark.parametrize("there", [(), ("podman",), ("docker", "debootstrap")])
def test_a_build_without_registry_says_what_it_needs(there, machine):
    for name in (*there, *(["docker"] if not there else [])):
        machine.install(name)
    done = machine.run(ROOT / "build.sh", "--without-registry")
    assert (done.returncode, done.stdout) == (75, "")
    assert done.stderr.startswith("There is no base image: ")
    assert "apt-get install podman buildah runc debootstrap" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="debootstrap needs root")
def test_a_build_without_registry_takes_debian_and_the_index_of_the_machine(machine):
    for name in ("podman", "debootstrap"):
        machine.install(name)
    pip = "#!/bin/bash\nif [[ $* == *'config list' ]]; then echo \"global.cert='/etc/hosts'\"; fi\n"
    (machine.bin / "python3").write_text(pip)
    (machine.bin / "python3").chmod(0o755)
    clone = machine.folder / "clone"
    for name in ("build.sh", "setup", "evaluation/files/results/__init__.py"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy2)(ROOT / name, clone / name)
    done = machine.run(clone / "build.sh", "--without-registry", "--no-cache")
    assert (done.returncode, done.stderr) == (0, "")
    (build,) = [call for call in machine.calls if " build " in call]
    assert " --build-arg PYTHON_IMAGE=localhost/nuclei-evaluation-base:bookworm --isolation chroot --volume /" in build
    assert build.endswith(f"/pip.conf:/etc/pip.conf:ro --volume /etc/hosts:/etc/hosts:ro --no-cache {clone}")


# --- .ci/audit --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("found, code, told", [
    ({"dependencies": [{"name": "a", "version": "1", "vulns": []}]}, 0, "1 packages, 0 known faults."),
    ({"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}]}, 1,
     "a 1: CVE-1; repaired in 2"),
    (None, 0, "Packages were NOT checked for known faults: no list of faults could be reached."),
])  # fmt: skip
def test_known_faults_of_packages_fail_and_an_index_that_is_not_reached_does_not(tmp_path, found, code, told):
    stub = tmp_path / "pip-audit"
    write = "" if found is None else f"cat >\"${{@: -1}}\" <<'END'\n{json.dumps(found)}\nEND\n"
    stub.write_text(f"#!/bin/bash\n[[ $* == *--disable-pip* ]] || exit 9\n{write}exit 1\n")
    stub.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([ROOT / ".ci/audit"], env={"PATH": path}, capture_output=True, text=True, check=False)
    assert (done.returncode, told in done.stdout.splitlines()) == (code, True), done


def test_a_failing_build_fails(with_podman):
    done = with_podman.run(ROOT / "build.sh", BUILD_CODE="125")
    assert done.returncode == 125
    assert "Built" not in done.stdout
    assert "If no image registry can be reached, as root on Debian: ./build.sh --without-registry" in done.stderr


def test_podman_copies_layers_where_it_cannot_mount_them(machine):
    machine.install("podman")
    text = ENGINE.replace('exit "${INFO_CODE:-0}"', "[[ $STORAGE_DRIVER == vfs ]]; exit")
    (machine.bin / "podman").write_text(text.replace('echo "$(', 'echo "${STORAGE_DRIVER:-} $('))
    assert machine.run(ROOT / "build.sh").returncode == 0
    assert any(call.startswith("vfs podman build") for call in machine.calls)


def test_the_image_is_made_as_the_platform_wants_it():
    text = (ROOT / "Dockerfile").read_text()
    last = text[text.rindex("\nFROM ") :]
    assert text.count("\nFROM ${PYTHON_IMAGE}") == 2
    assert "--require-hashes" in text and "--only-binary :all:" in text
    assert "\nUSER 10001:10001\n" in last
    assert last.endswith('ENTRYPOINT ["/opt/venv/bin/python", "-m", "evaluation", "score"]\n')
    assert "RUN" not in last
    assert "ENV GRAND_CHALLENGE" not in text


# --- export.sh --------------------------------------------------------------------------------------------------------


@pytest.fixture
def ground_truth(tmp_path: Path) -> Path:
    folder = tmp_path / "truth"
    (folder / "reference").mkdir(parents=True)
    for name in ("challenge.toml", "cases.csv", "reference/b.xml", "reference/a.xml"):
        (folder / name).write_text(name)
    return folder


def export(
    machine: Machine, ground_truth: Path, name: str = "export", **environment: str
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = machine.folder / name
    return folder, machine.run(copied(machine) / "export.sh", folder, ground_truth, **environment)


def copied(machine: Machine) -> Path:
    """What export.sh needs, outside of any clone, so that the revision is unknown."""
    folder = machine.folder / "copy"
    for name in ("export.sh", "setup", "requirements/run.lock", "evaluation/files/results/__init__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True)
        else:
            shutil.copy2(ROOT / name, folder / name)
    return folder


def test_export_writes_what_is_uploaded_and_says_where(with_podman, ground_truth):
    folder, done = export(with_podman, ground_truth)
    assert (done.returncode, done.stderr) == (0, "")
    names = ["SHA256SUMS", "ground_truth.tar.gz", TARBALL, "sbom.cdx.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert gzip.decompress((folder / TARBALL).read_bytes()) == (with_podman.folder / "image.tar").read_bytes()
    for name in (TARBALL, "ground_truth.tar.gz", "sbom.cdx.json"):
        line = f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}"
        assert line in (folder / "SHA256SUMS").read_text().splitlines()
        assert line in done.stdout.splitlines()
    assert f"{TARBALL}     upload as a method of the phase" in done.stdout
    assert "ground_truth.tar.gz     upload as the ground truth of the phase" in done.stdout
    assert any("save --format docker-archive" in call for call in with_podman.calls)


def test_export_lists_the_packages_of_the_lock(with_podman, ground_truth):
    """The oracle reads the lock as pip does."""
    folder, _ = export(with_podman, ground_truth)
    found = json.loads((folder / "sbom.cdx.json").read_text())
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
    assert found["metadata"]["component"] == {
        "type": "container", "name": "nuclei-evaluation", "version": __version__
    }  # fmt: skip
    lines = (ROOT / "requirements/run.lock").read_text().replace("\\\n", " ").splitlines()
    locked = {}
    for line in (line for line in lines if line and not line.lstrip().startswith("#")):
        requirement = Requirement(line.partition(" --hash")[0])
        (version,) = requirement.specifier
        locked[requirement.name, version.version] = sorted(re.findall(r"--hash=sha256:(\w+)", line))
    listed = {
        (of["name"], of["version"]): sorted(each["content"] for each in of["hashes"]) for of in found["components"]
    }
    assert listed == locked
    assert len(listed) > 10
    assert all(of["purl"] == f"pkg:pypi/{of['name']}@{of['version']}" for of in found["components"])
    again, _ = export(with_podman, ground_truth, "again")
    assert (again / "sbom.cdx.json").read_bytes() == (folder / "sbom.cdx.json").read_bytes()


@pytest.mark.parametrize("about, told", [
    (GOOD.replace("amd64", "arm64"), "is linux/arm64; the platform takes linux/amd64."),
    *((GOOD.replace("10001:10001", user), f"runs as '{user}'; the platform wants a user other than root.")
      for user in ("none", "root", "0:10001", "00")),
    *((f"linux/amd64 10001:10001 {entrypoint}", "has no entrypoint.") for entrypoint in ("none", "[]")),
])  # fmt: skip
def test_export_refuses_what_the_platform_refuses(about, told, with_podman, ground_truth):
    folder, done = export(with_podman, ground_truth, ABOUT=about)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"'localhost/nuclei-evaluation:latest' {told}\n"
    assert not folder.exists()


def test_export_refuses_an_image_of_another_commit_or_of_changes(with_podman, ground_truth):
    """After a build that failed the former image still has the name."""
    clone = copied(with_podman)
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    folder = with_podman.folder / "export"

    def told(label: str) -> tuple[int, str]:
        done = with_podman.run(clone / "export.sh", folder, ground_truth, LABEL=label)
        return done.returncode, done.stderr

    assert told(head) == (0, "")
    code, line = told("0" * 40)
    assert code == 1 and f"was built of commit '{'0' * 40}', but here is '{head}'. Run ./build.sh again." in line
    (clone / "setup" / "more.sh").touch()
    assert told(head)[0] == 1
    code, line = told(f"{head}-dirty")
    assert code == 1 and "was built of changes that are not committed. Commit them" in line


@pytest.mark.parametrize("way", ["code", "another file", "nothing"])
def test_a_failing_save_fails_and_leaves_nothing(way, with_podman, ground_truth):
    folder, _ = export(with_podman, ground_truth)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    if way == "another file":
        with_podman.image(manifest=False)
    if way == "nothing":
        (with_podman.folder / "image.tar").write_bytes(b"")
    (ground_truth / "challenge.toml").write_text("changed")
    _, done = export(with_podman, ground_truth, SAVE_CODE="3" if way == "code" else "0")
    assert done.returncode != 0
    assert "upload" not in done.stdout
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("environment, told", [
    ({"INFO_CODE": "1"}, "No container engine was found"),
    ({"INSPECT_CODE": "1"}, "There is no image 'localhost/nuclei-evaluation:latest'. Run ./build.sh first."),
])  # fmt: skip
def test_export_says_what_is_missing(environment: Mapping[str, str], told, with_podman, ground_truth):
    folder, done = export(with_podman, ground_truth, **environment)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert told in done.stderr
    assert not folder.exists()
    _, done = export(with_podman, with_podman.bin)
    assert (done.returncode, done.stderr) == (1, f"There is no challenge.toml in '{with_podman.bin}'.\n")


LITTER = ("Thumbs.db", "a.xml~", ".a.xml.swp")


def test_the_tarball_of_the_ground_truth_is_the_same_whatever_the_disk_says(with_podman, ground_truth, tmp_path):
    first, _ = export(with_podman, ground_truth, "first")
    other = tmp_path / "other"
    (other / "reference").mkdir(parents=True)
    for name in ("reference/a.xml", "cases.csv"):  # in another order, with other times and modes, and with litter
        (other / name).write_text(name)
        os.utime(other / name, (1e9, 1e9))
        (other / name).chmod(0o600)
    (other / "reference" / "b.xml").symlink_to(ground_truth / "reference" / "b.xml")
    os.link(ground_truth / "challenge.toml", other / "challenge.toml")
    for litter in (".DS_Store", "._a.xml", ".gitignore", *(f"reference/{name}" for name in LITTER)):
        (other / litter).write_text("litter")
    for litter in ("__MACOSX", "reference/__pycache__", ".git"):
        (other / litter).mkdir()
        (other / litter / "x").write_text("litter")
    second, done = export(with_podman, other, "second")
    assert (done.returncode, done.stderr) == (0, "")
    tarballs = [(folder / "ground_truth.tar.gz").read_bytes() for folder in (first, second)]
    assert tarballs[0] == tarballs[1]
    with tarfile.open(fileobj=io.BytesIO(tarballs[0])) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == [
        ".", "./cases.csv", "./challenge.toml", "./reference", "./reference/a.xml", "./reference/b.xml"
    ]  # fmt: skip
    assert {(m.uid, m.gid, m.mtime, m.uname, m.gname) for m in members} == {(0, 0, 0, "", "")}
    assert {(m.type, m.mode) for m in members} == {(tarfile.REGTYPE, 0o644), (tarfile.DIRTYPE, 0o755)}


# --- test.sh ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The scripts of the repository, with a Python that finds nothing wrong."""
    folder = tmp_path / "clone"
    for name in ("test.sh", "setup", "tests/container", *ENVIRONMENTS.values(), "evaluation/files/results/__init__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, folder / name)
    for name in ENVIRONMENTS:
        python = folder / f".venv-{name}" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch(0o755)
    stand_in(folder, "exit 0")
    return folder


def stand_in(clone: Path, script: str) -> None:
    """Another Python for the clone, with the stamp of a finished set-up."""
    for name, of_lock in ENVIRONMENTS.items():
        python = clone / f".venv-{name}" / "bin" / "python"
        python.write_text(f"#!/bin/bash\n{script}\n")
        lock = clone / of_lock
        stamp = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (lock, python)]
        (python.parents[1] / ".lock-stamp").write_text("".join(f"{line}  -\n" for line in stamp))


def log_python(clone: Path) -> Path:
    """A file with the arguments of every call of Python, a line each."""
    stand_in(clone, f'echo "$*" >>"{clone}/calls"')
    return clone / "calls"


@pytest.mark.parametrize(("required", "code"), [("0", 0), ("1", 1)])
def test_without_an_engine_the_last_line_says_that_the_image_was_not_tested(required, code, machine, clone):
    done = machine.run(clone / "test.sh", "--all", REQUIRE_CONTAINER=required)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.splitlines()[-1] == (
        "The image was NOT tested: neither podman nor docker answers (REQUIRE_CONTAINER=1 makes this a failure)."
    )


@pytest.mark.parametrize("required", ["0", "1"])
def test_without_a_base_it_was_not_tested_and_an_image_that_cannot_be_built_is_a_failure(required, machine, clone):
    machine.install("docker")
    done = machine.run(clone / "test.sh", "--all", REQUIRE_CONTAINER=required)
    assert done.returncode == int(required)
    assert done.stdout.splitlines()[-1].startswith("The image was NOT tested: no base image; set TEST_PYTHON_IMAGE")
    shutil.copy2(ROOT / "build.sh", clone)
    environment = {"TEST_PYTHON_IMAGE": "a:base", "BUILD_CODE": "1", "REQUIRE_CONTAINER": required}
    done = machine.run(clone / "test.sh", "--all", **environment)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "The image FAILED: it could not be built from 'a:base'."


@pytest.mark.parametrize("code, last", [
    (0, "The image was tested under the platform's limits, and passed."),
    (1, "The image FAILED: see the lines above."),
])  # fmt: skip
def test_the_last_line_says_whether_the_image_passed(code, last, machine, clone):
    machine.install("docker")
    shutil.copy2(ROOT / "build.sh", clone)
    stand_in(clone, f'[[ "$*" != *container.prove* ]] || exit {code}')
    done = machine.run(clone / "test.sh", "--all", TEST_PYTHON_IMAGE="a:base", REQUIRE_CONTAINER="1")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, last)


@pytest.mark.parametrize("there", [False, True])
def test_without_a_browser_a_line_says_that_pages_were_not_tested(there, machine, clone):
    browser = machine.bin / "chromium"
    if there:
        machine.install("chromium")
    done = machine.run(clone / "test.sh", "--all", CHROMIUM=str(browser))
    line = f"Pages were NOT tested in a browser: there is no {browser} (REQUIRE_BROWSER=1 makes this a failure)."
    assert (done.returncode, line in done.stdout.splitlines()) == (0, not there)


@pytest.mark.parametrize("arguments, called", [
    # Without arguments nothing but Python is needed, and marked tests are left out; --all leaves no test out.
    ((), ["-m pytest -n 2 --verbose --fast"]), (("--fast",), ["-m pytest -n 2 --verbose --fast"]),
    (("--all",), ["-m pytest -n 2 --verbose"]), (("-k", "one or two"), ["-m pytest -k one or two"]),
    (("--campaign",), ["mutants.py", "-m fuzz --inputs 7 --workers 2"]), (("--all", "tests"), []),
])  # fmt: skip
def test_arguments_of_the_script_say_what_is_run(arguments, called, machine, clone):
    python, variables = log_python(clone), {"FUZZ_INPUTS": "7"}
    if arguments != ("--all",):
        variables |= {"REQUIRE_CONTAINER": "1", "REQUIRE_BROWSER": "1"}
    done = machine.run(clone / "test.sh", *arguments, **variables)
    lines = python.read_text().splitlines() if python.exists() else []
    assert (done.returncode == 2) == (called == []) and [line for line in called if line not in lines] == []
    assert "--all" in arguments or "--campaign" in arguments or "image" not in done.stdout


def test_ci_demands_the_image_and_a_browser_and_installs_what_they_take():
    text = (ROOT / ".ci" / "run").read_text()
    assert '\nREQUIRE_CONTAINER=1 REQUIRE_BROWSER=1 "$root/test.sh" --all ' in text
    assert "for program in podman buildah runc debootstrap chromium; do" in text
    setup = (ROOT / "setup" / "venv.sh").read_text()
    assert setup.index("apt-get update") < setup.index("apt-get install -y")


# --- the list of what is handed in to the image -----------------------------------------------------------------------


def test_expected_lines_are_of_submissions_of_the_corpus_that_are_rejected_and_of_a_few_others():
    rejected = {record.name for record in CORPUS if record.code is not None}
    assert [name for name in CHOSEN if name not in rejected] == []
    assert len(CHOSEN) > 50 and len(json.loads(EXPECTED.read_text())) == len(CHOSEN) + 9


def test_a_dry_run_gets_the_image_and_what_was_named(machine, clone):
    machine.install("docker")
    calls = log_python(clone)
    done = machine.run(clone / "test.sh", "--image", "my challenge", "sent", "--jobs", IMAGE="here:tag")
    assert (done.returncode, done.stderr) == (0, "")
    assert calls.read_text() == "-m container.dry_run docker here:tag my challenge sent --jobs\n"
    done = machine.run(clone / "test.sh", "--image", INSPECT_CODE="1")
    image = "localhost/nuclei-evaluation:latest"
    assert (done.returncode, done.stderr) == (75, f"There is no image '{image}'. Run ./build.sh first.\n")
