"""A release: what is built, its checksums, and a signature by a real key that is thrown away."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
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


def test_other_versions_of_python_are_refused_by_name() -> None:
    for version, refused in (((3, 10, 9), True), ((3, 14, 0), True), ((3, 13, 1), False)):
        code = f"import sys; sys.version_info = {version}; import evaluation"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        told = "ImportError: nuclei-evaluation needs Python 3.11, 3.12 or 3.13; this is"
        assert done.stderr.rpartition("\n")[0].rpartition("\n")[2].startswith(told) == refused, done.stderr


@pytest.mark.parametrize(("version", "taken"), [((3, 10, 9), False), ((3, 12, 1), True), ((3, 14, 0), False)])
def test_the_scripts_take_a_tested_python_only(version: tuple[int, ...], taken: bool, tmp_path: Path) -> None:
    """``python3`` of a version, which answers what the script asks it as that version would."""
    stand_in = tmp_path / "bin/python3"
    stand_in.parent.mkdir()
    stand_in.write_text(
        f'#!/bin/bash\nexec {sys.executable} -c "import sys; sys.version_info = {version}; exec(sys.argv[1])" "$3"\n'
    )
    stand_in.chmod(0o755)
    for name in ("bash", "cat", "sha256sum"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    code = f"source {ROOT}/setup/venv.sh; find_python || make_venv {tmp_path}/venv {ROOT}/requirements/run.lock"
    environment = {"PATH": str(tmp_path / "bin")}
    done = subprocess.run(
        [str(tmp_path / "bin/bash"), "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0 and done.stdout.strip() == str(stand_in)) == taken
    assert done.stderr.startswith("Python 3.11, 3.12 or 3.13 was not found") != taken
