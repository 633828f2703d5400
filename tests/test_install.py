"""What is installed, and what is released."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import evaluation
import nuclei_metrics

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGE = ROOT / "evaluation"
LIBRARY = ROOT / "library"

PROGRAM = """\
from concurrent.futures import Executor
from typing import Any, assert_type

import numpy as np

from evaluation import (
    Case, Challenge, ChallengeBroken, EvaluationError, Finding, Instances, Result, SubmissionRejected, __version__,
    check_submission, instances_from_labels, instances_from_outlines, score_instances, score_submission,
)


def compare(executor: Executor) -> float | None:
    challenge = Challenge.from_preset("monusac2020", name="mine")
    reference = instances_from_labels(np.zeros((4, 4), np.int32), [])
    prediction = instances_from_outlines([[(0, 0), (2, 0), (2, 2)]], [1], (4, 4), overlap="last")
    assert_type(reference, Instances)
    assert_type(prediction, Instances)
    result = score_instances(challenge, {"image": (reference, prediction)})
    assert_type(result, Result)
    assert_type(result.findings, tuple[Finding, ...])
    try:
        assert_type(score_submission("challenge", "submission", executor=executor), Result)
        checked, _ = check_submission("challenge", "submission")
        assert_type(checked, Challenge)
    except (SubmissionRejected, ChallengeBroken) as error:
        broken: EvaluationError = error
        assert_type(broken.findings[0].code, str)
    assert_type(__version__, str)
    assert_type(Case("a", "P1", 10, 20).shape_yx, tuple[int, int])
    return result.value("detection.f1.pooled")
"""
FAULTS = {
    "from evaluation import score_submision\n": "score_submision",
    "from evaluation import score_submission\nscore_submission(1, 2)\n": "arg-type",
    "from evaluation import Result\ndef value(result: Result) -> str:\n    return result.value('a')\n": "return-value",
}


def test_every_file_of_the_package_is_installed_with_it() -> None:
    """pip installs modules of packages, and of other files those that pyproject.toml names."""
    packages = PACKAGE, LIBRARY / "nuclei_metrics"
    folders = {path.parent for package in packages for path in package.rglob("__init__.py")}
    named = {
        path
        for package, patterns in PROJECT["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for home in (ROOT, LIBRARY)
        for path in home.joinpath(*package.split(".")).glob(pattern)
    }
    found = (path for package in packages for path in package.rglob("*"))
    files = {path for path in found if path.is_file() and "__pycache__" not in path.parts}
    assert PACKAGE / "py.typed" in files
    assert {path for path in files if path.parent not in folders} <= named
    assert {path for path in files if path.suffix != ".py"} == named


def test_the_library_alone_has_the_same_files_and_version() -> None:
    project = tomllib.loads((LIBRARY / "pyproject.toml").read_text())
    rooms = {".".join(path.parent.relative_to(LIBRARY).parts) for path in LIBRARY.glob("nuclei_metrics/**/__init__.py")}
    assert set(project["tool"]["setuptools"]["packages"]) == rooms
    data = "package-data"
    ours = {"nuclei_metrics": PROJECT["tool"]["setuptools"][data]["nuclei_metrics"]}
    assert project["tool"]["setuptools"][data] == ours
    assert project["project"]["version"] == nuclei_metrics.__version__ == evaluation.__version__
    assert {one.partition(">")[0] for one in project["project"]["dependencies"]} == {"numpy", "scipy"}


def test_one_version_stands_everywhere() -> None:
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert citation is not None
    assert {PROJECT["project"]["version"], citation[1]} == {evaluation.__version__}
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert changes[0] == evaluation.__version__


def test_the_command_of_the_package_is_there() -> None:
    module, _, function = PROJECT["project"]["scripts"]["evaluation"].partition(":")
    code = f"import sys; from {module} import {function}; sys.argv = ['evaluation', '--version']; {function}()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"evaluation, version {evaluation.__version__}\n"


@pytest.mark.parametrize("words, completions", [
    ("evaluation sens", ["plain,sensitivity"]), ("evaluation score --sub", ["plain,--submission"]),
    ("evaluation score --output ", ["file,"]),
])  # fmt: skip
def test_a_shell_completes_commands_options_and_paths(words: str, completions: list[str]) -> None:
    environment = {**os.environ, "_EVALUATION_COMPLETE": "bash_complete", "COMP_WORDS": words}
    environment["COMP_CWORD"] = str(words.count(" "))
    done = subprocess.run(
        [sys.executable, "-m", "evaluation"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == completions


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment in which the package is installed, as mypy finds it there."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", symlinks=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    for package in (PACKAGE, ROOT / "library" / "nuclei_metrics"):
        (site / package.name).symlink_to(package)
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv" / "bin" / "python"


def checked_by_mypy(python: Path, program: str) -> str:
    """What mypy says of a program that lies where the package does not."""
    folder = python.parents[2]
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "--config-file=", "program.py"],
        cwd=folder, env={**os.environ, "PYTHONPATH": "", "MYPYPATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout


def test_programs_that_use_the_public_names_are_type_checked(elsewhere: Path) -> None:
    assert checked_by_mypy(elsewhere, PROGRAM) == "Success: no issues found in 1 source file\n"
    for program, fault in FAULTS.items():
        assert fault in checked_by_mypy(elsewhere, program), program


def test_the_command_that_the_line_of_a_missing_library_names_brings_it(tmp_path: Path) -> None:
    """From the index of this machine, into an environment of a copy of the repository."""
    for name in ("evaluate.sh", "setup", "requirements", "evaluation", "library"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tmp_path / name)
    ring = struct.pack(">8h", 0, 6, 6, 0, 0, 0, 6, 6)
    (tmp_path / "a.roi").write_bytes(struct.pack(">4shBx4hH46x", b"Iout", 228, 0, 1, 1, 7, 7, 4) + ring)

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    convert = ("./evaluate.sh", "convert", "a.roi", "out", "--to", "geojson")
    refused = run(*convert)
    assert refused.returncode == 1, refused.stderr
    line = r"\[missing-extra\] 'a.roi': 'roifile' is not installed; .* Run '([^']+)' in the folder"
    told = re.search(line, refused.stderr)
    assert told is not None, refused.stderr
    brought = run(told[1])
    assert brought.returncode == 0, brought.stderr
    assert run(*convert).returncode == 0
    assert len(json.loads((tmp_path / "out.geojson").read_text())["features"]) == 1
    imports = "import zarr, roifile, pyarrow.parquet"
    assert run(".venv/bin/python", "-c", imports).returncode == 0


# --- what the program and its documents tell to install ---------------------------------------------------------------

TOLD = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.toml"), *ROOT.glob("docs/*.md"), *ROOT.glob("*.md")]
EXTRAS = PROJECT["project"]["optional-dependencies"]
PLAIN = r"[\w.\[\],'{}>=-]"


def told_to_install() -> dict[str, str]:
    """Each ``pip install`` of the program and its documents, extras filled in, and where it stands."""
    given = {path: path.read_text(encoding="utf-8") for path in TOLD}
    filled = set(re.findall(r'[ (]extra="(\w+)"\s*\)', "".join(given.values())))
    assert filled == {"report", "cluster", "imports"}
    found = {}
    for path, text in given.items():
        for words in re.findall(rf"(?<![-\w/])pip\s+install\s+(?!-)({PLAIN}+(?: {PLAIN}+(?=[`\n]))*)", text):
            for extra in filled if "{extra}" in words else {""}:
                found[words.replace("{extra}", extra).strip(".,;") if words != "." else words] = path.name
    return found


def test_each_extra_and_package_that_is_told_to_be_installed_has_what_is_missing() -> None:
    assert {"'.[imports]'", "'.[report]'", "'.[cluster]'", "pandas", "."} <= set(told_to_install())
    bringing = importlib.metadata.packages_distributions()
    for words, place in told_to_install().items():
        name, extras = re.fullmatch(r"'?([\w.-]+)(?:\[([\w,]+)\])?'?", words).groups()
        assert set((extras or "").split(",")) - {""} <= set(EXTRAS), (words, place)
        assert name == "." or name in bringing[name], (words, place)
    imported = {"report": "jinja2 matplotlib", "imports": "zarr h5py roifile pyarrow", "cluster": "distributed"}
    for extra, modules in imported.items():
        packages = [re.split("[<>=]", package)[0] for package in EXTRAS[extra]]
        for package, module in zip(packages, modules.split(), strict=True):
            assert package in map(str.casefold, bringing[module])


def test_each_script_that_is_named_is_there() -> None:
    named = {script for path in TOLD for script in re.findall(r"(?<![\w/])(?:\./|setup/)\w+\.sh\b", path.read_text())}
    assert {"setup/imports.sh", "./evaluate.sh"} <= named
    lacking = {script for script in named if not (ROOT / script.removeprefix("./")).is_file()}
    assert lacking == set()


# --- a release: what is built, its checksums, and a signature by a real key that is thrown away -----------------------


VERIFY = (
    "ssh-keygen -Y verify -f allowed_signers -I nuclei-evaluation -n nuclei-evaluation -s SHA256SUMS.sig <SHA256SUMS"
)


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The project as a repository of its own with one commit."""
    folder = tmp_path / "clone"
    left_out = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "tests", "docs", "benchmarks", "*.egg-info")
    shutil.copytree(ROOT, folder, ignore=left_out)
    git = "git -c user.name=a -c user.email=a@b"
    done = shell(f"git init -q . && git add . && {git} commit -qm all", folder)
    assert done.returncode == 0, done.stderr
    return folder


def release(clone: Path, key: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run with a Python that has setuptools, from the index or this one."""
    environment = {**os.environ, "WITHOUT_IMAGE": "1", "PYTHONPATH": ""}
    script = [str(clone / "setup/release.sh"), str(key), str(folder)]
    return subprocess.run(script, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not there")
def test_a_release_is_signed_and_anything_changed_is_seen(clone: Path, tmp_path: Path) -> None:
    key, out = tmp_path / "key", tmp_path / "release"
    assert shell(f"ssh-keygen -q -t ed25519 -N '' -f {key}", tmp_path).returncode == 0
    (clone / "litter.py").write_text("not committed")
    done = release(clone, key, out)
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in out.iterdir())
    (wheel,), (source,) = ([name for name in names if name.endswith(end)] for end in (".whl", ".tar.gz"))
    assert {"SHA256SUMS", "SHA256SUMS.sig", "sbom.cdx.json", "commit.txt", wheel, source} == set(names)
    packed = zipfile.ZipFile(out / wheel).namelist()
    assert "evaluation/__init__.py" in packed and "evaluation/challenge/presets/recommended.toml" in packed
    assert not any("litter" in name for name in packed)
    assert json.loads((out / "sbom.cdx.json").read_text())["bomFormat"] == "CycloneDX"
    sums = dict(line.split("  ")[::-1] for line in (out / "SHA256SUMS").read_text().splitlines())
    signed = [name for name in names if not name.startswith("SHA256SUMS")]
    assert sums == {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in signed}

    (out / "allowed_signers").write_text(done.stdout.splitlines()[-1] + "\n")
    assert 'Good "nuclei-evaluation" signature' in shell(VERIFY, out).stdout
    assert shell("sha256sum --check SHA256SUMS", out).returncode == 0
    with (out / wheel).open("ab") as stream:
        stream.write(b"x")
    assert shell("sha256sum --check SHA256SUMS", out).returncode == 1
    with (out / "SHA256SUMS").open("a") as stream:
        stream.write("0" * 64 + "  more\n")
    assert shell(VERIFY, out).returncode != 0

    again = release(clone, key, out)
    assert (again.returncode, again.stderr) == (1, f"'{out}' is there already.\n")
    (clone / "README.md").write_text("changed")
    changed = release(clone, key, tmp_path / "other")
    assert "not committed" in changed.stderr and not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("version", "taken"), [((3, 10, 9), False), ((3, 12, 1), True), ((3, 14, 0), True), ((3, 15, 0), False)]
)
def test_the_program_and_its_scripts_take_a_tested_python_only(
    version: tuple[int, ...], taken: bool, tmp_path: Path
) -> None:
    """``python3`` of a version, which answers what the script asks it as that version would."""
    code = f"import sys; sys.version_info = {version}; import evaluation"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = "ImportError: nuclei-evaluation needs Python 3.11 to 3.14; this is"
    assert done.stderr.rpartition("\n")[0].rpartition("\n")[2].startswith(told) != taken, done.stderr
    stand_in = tmp_path / "bin/python3"
    stand_in.parent.mkdir()
    asked = f'{sys.executable} -c "import sys; sys.version_info = {version}; exec(sys.argv[1])" "$3"'
    stand_in.write_text(f"#!/bin/bash\nexec {asked}\n")
    stand_in.chmod(0o755)
    for name in ("bash", "cat", "sha256sum"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    code = f"source {ROOT}/setup/venv.sh; find_python || make_venv {tmp_path}/venv {ROOT}/requirements/run.lock"
    command, environment = [str(tmp_path / "bin/bash"), "-c", code], {"PATH": str(tmp_path / "bin")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode == 0 and done.stdout.strip() == str(stand_in)) == taken
    assert done.stderr.startswith("Python 3.11 to 3.14 was not found") != taken
