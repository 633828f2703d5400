"""The program as a wheel for the kit, built from the running files.

No registry has the program, and its name there is free for anybody: participants install the file that they get.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import evaluation
import nuclei_metrics
from evaluation.files.results import __version__
from evaluation.findings import fault
from evaluation.findings.errors import WrongUsage

NAME = "nuclei-evaluation"
WHEEL_FILE = f"{NAME.replace('-', '_')}-{__version__}-py3-none-any.whl"
_PACKAGES = (evaluation, nuclei_metrics)
_LITTER = (".pyc", ".pyo")
_PROJECT = Path(evaluation.__path__[0]).parent / "pyproject.toml"  # only in a clone


def wheel_files() -> dict[str, bytes]:
    """Return the files of the wheel by name. Raises WrongUsage if the dependencies are unknown."""
    files = dict(_files_of_packages())
    about = f"{NAME.replace('-', '_')}-{__version__}.dist-info"
    files[f"{about}/METADATA"] = _metadata().encode()
    wheel = ["Wheel-Version: 1.0", f"Generator: {NAME}", "Root-Is-Purelib: true", "Tag: py3-none-any", ""]
    files[f"{about}/WHEEL"] = "\n".join(wheel).encode()
    if _PROJECT.is_file():
        files[f"{about}/LICENSE"] = _PROJECT.with_name("LICENSE").read_bytes()
    scripts = "".join(f"{name} = evaluation.__main__:main\n" for name in ("evaluation", NAME))
    files[f"{about}/entry_points.txt"] = f"[console_scripts]\n{scripts}".encode()
    rows = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in sorted(files.items())]
    files[f"{about}/RECORD"] = "\n".join([*rows, f"{about}/RECORD,,", ""]).encode()
    return files


def _files_of_packages() -> Iterator[tuple[str, bytes]]:
    for package in _PACKAGES:
        (folder,) = map(Path, package.__path__)
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix not in _LITTER:
                yield path.relative_to(folder.parent).as_posix(), path.read_bytes()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _metadata() -> str:
    """Return the metadata of the wheel: from the installed program, or built from pyproject.toml in a clone."""
    if _PROJECT.is_file():
        return _metadata_of(tomllib.loads(_PROJECT.read_text("utf-8"))["project"])
    try:
        return importlib.metadata.distribution(NAME).read_text("METADATA") or ""
    except importlib.metadata.PackageNotFoundError:
        raise WrongUsage(fault("missing-option", "--source", wording="no-wheel")) from None


def _metadata_of(project: Mapping[str, Any]) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {NAME}", f"Version: {__version__}", f"Summary: {project['description']}"]
    lines.append(f"Requires-Python: {project['requires-python']}")
    lines += [f"Requires-Dist: {needed}" for needed in project["dependencies"]]
    for extra, packages in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {needed}; extra == "{extra}"' for needed in packages]
    return "\n".join([*lines, ""])
