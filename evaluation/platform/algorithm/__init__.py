"""An example algorithm for an algorithm phase: a container that participants can change, build and upload."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

from evaluation.challenge import Challenge
from evaluation.platform.phase import phase_of

PACKAGES = ("numpy", "scipy", "scikit-image", "SimpleITK", "tifffile", "imagecodecs")
_HERE = Path(__file__).parent


def example_algorithm(challenge: Challenge) -> dict[str, str]:
    """Return the Dockerfile and the program by name; empty without a socket, or for a format that they do not write."""
    rules = challenge.submission
    write = _HERE / f"write_{rules.format}.txt"
    if rules.socket is None or "{class}" in rules.socket or not write.is_file():
        return {}
    request = phase_of(challenge).support
    words = {
        "@INPUT@": request.inputs[0].slug,
        "@OUTPUT@": request.outputs[0].relative_path,
        "@CLASSES@": repr(list(challenge.class_names)),
        "@UNITS@": str(rules.value("units") or "px"),
        "@ORIGIN@": "0.0" if rules.value("origin") == "pixel_centre" else "0.5",
        "@WRITE@": write.read_text("utf-8").rstrip(),
        "@PYTHON@": "{}.{}".format(*sys.version_info),  # the one for which there are these versions of packages
        "@PACKAGES@": " ".join(f"{name}=={version(name)}" for name in PACKAGES),
    }
    texts = {name: (_HERE / f"{name.removesuffix('.py')}.txt").read_text("utf-8") for name in _FILES}
    for mark, text in words.items():
        texts = {name: each.replace(mark, text) for name, each in texts.items()}
    return texts


_FILES = ("Dockerfile", "inference.py")
