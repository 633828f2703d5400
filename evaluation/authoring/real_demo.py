"""The demo on real annotations: a sample of the NuCLS data set, and predictions that are perturbed copies of it.

The challenge and its reference lie in ``sample/``, with their source and licence. Each prediction is the reference with
mistakes of one kind, drawn with a fixed seed; no model made it. ``write_real_demo`` only writes files; they are scored
like any others.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import numpy as np

from evaluation.authoring.demo import DemoOutcome, DemoPaths, run_demo, write_bytes
from evaluation.authoring.synthesis import Mistakes, outlines_from_rings, perturb, seeded
from evaluation.formats.geojson import write_geojson
from evaluation.model import Outlines

SEED = 11  # one at which the three come out within 0.02 in PQ
CASE = "nucls_tile"
SHAPE_YX = (256, 256)
CLASSES = ("Non-Tumor", "Tumor")
FILES = {"challenge.toml": "", "cases.csv": "", "SOURCE.md": "reference", f"{CASE}.geojson": "reference"}
TITLE = "Three perturbed copies of 20 real annotations (one tile of NuCLS)"
COPIES = {
    # three nuclei in ten are missing; the others are nearly as they were
    "missing_nuclei": Mistakes(missed=0.3, roughen_px=0.4),
    # all nuclei, of which some have the wrong class
    "wrong_classes": Mistakes(grow_spread_px=0.6, confusion=[[0.85, 0.15], [0.15, 0.85]]),
    # outlines lie more than a pixel too far inside
    "small_outlines": Mistakes(spurious=0.05, grow_px=-1.3, roughen_px=0.4),
}


def write_real_demo(folder: Path, seed: int = SEED) -> DemoPaths:
    """Write the challenge and three perturbed copies of its reference, the same bytes for the same seed.

    ``challenge/``           challenge.toml, cases.csv, ``reference/nucls_tile.geojson`` and its source and licence
    ``submissions/<copy>/``  ``nucls_tile.geojson``

    Files of that name are replaced, others stay. Raises OSError if the folder cannot be written.
    """
    challenge = folder / "challenge"
    submissions = {copy: folder / "submissions" / copy for copy in COPIES}
    for name, below in FILES.items():
        write_bytes(challenge / below / name, files("evaluation.authoring").joinpath("sample", name).read_bytes())
    reference = sample_outlines()
    for index, (copy, mistakes) in enumerate(COPIES.items()):
        prediction = perturb(seeded(seed, index), reference, SHAPE_YX, mistakes)
        write_bytes(submissions[copy] / f"{CASE}.geojson", write_geojson(prediction, CLASSES, (None, None)))
    return DemoPaths(challenge, submissions)


def sample_outlines() -> Outlines:
    """The annotations of the sample: polygons of one ring each, with vertices on the corners of pixels."""
    features = json.loads(files("evaluation.authoring").joinpath("sample", f"{CASE}.geojson").read_bytes())["features"]
    rings = [np.array(feature["geometry"]["coordinates"][0][:-1], np.float64) for feature in features]
    names = [feature["properties"]["classification"]["name"] for feature in features]
    return outlines_from_rings(rings, [1 + CLASSES.index(name) for name in names])


def run_real_demo(
    output: Path | None, *, workers: int | None = None, progress: Callable[[int, int], None] | None = None
) -> DemoOutcome:
    """Write the challenge and the copies to ``output`` (None: to a temporary folder), and score them."""
    return run_demo(output, workers=workers, progress=progress, write=write_real_demo, title=TITLE)
