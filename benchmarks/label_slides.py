"""Label TIFFs as large as slides: made, and scored in a process of its own, beside arrays in memory.

The reference and the prediction are tiled, deflated BigTIFFs of 32 bits; a drawn square is used again and again with
labels of its own. ``ns/px`` are processor time over the pixels of one image. From arrays, and decoding alone, are
measured at the first size only: two arrays of 50,000 x 50,000 px take 20 GB.

    python -m benchmarks.label_slides             sides of 10,000 and 50,000 px (8 minutes, 2 GB of disk)
    python -m benchmarks.label_slides 5000        another side
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tifffile

from benchmarks.label_maps import LabelMaps, draw_label_maps
from benchmarks.sets import MISTAKES
from benchmarks.synthesis import MONUSAC_WEIGHTS, seeded

SEED = 909
TILE_PX = 512
SQUARE_PX = 4 * TILE_PX
NUCLEI = 1000  # in a square
CHALLENGE_TOML = """\
format_version = 1
name = "Made label slides"

[[classes]]
name = "nucleus"

[reference]
format = "label_image"
files = "reference/{case}.tif"
overlap = "keep"
overlap_scope = "image"

[submission]
format = "label_image"
files = "{case}.tif"
missing_case = "reject"
missing_class_file = "empty"

[[matching.rules]]
name = "iou_above"
rule = "iou_above"
threshold = 0.5
class_aware = false
ties = "first_pixel"

[metrics]
families = ["detection", "segmentation", "panoptic"]
measures = ["iou", "dice"]
boundary = "open"

[aggregation]
unit = "pooled"
undefined = "skip"
"""


def draw_square() -> LabelMaps:
    """Reference and prediction of the square that the slides are made of."""
    shape_yx = SQUARE_PX, SQUARE_PX
    return draw_label_maps(seeded(SEED), shape_yx, NUCLEI, MISTAKES, class_weights=MONUSAC_WEIGHTS)


def tiles(square: npt.NDArray[Any], side: int) -> Iterator[npt.NDArray[np.uint32]]:
    """The tiles of a slide, row by row."""
    beside = -(-side // TILE_PX)
    for row in range(beside):
        for column in range(beside):
            top, left = (row * TILE_PX) % SQUARE_PX, (column * TILE_PX) % SQUARE_PX
            number = (row * TILE_PX // SQUARE_PX) * beside + column * TILE_PX // SQUARE_PX
            tile = square[top : top + TILE_PX, left : left + TILE_PX].astype(np.uint32)
            yield np.where(tile, tile + np.uint32(number * (NUCLEI + 1000)), np.uint32(0))


def write_slide(folder: Path, side: int) -> None:
    """Write ``challenge/`` and ``submission/``, the same for the same side."""
    square = draw_square()
    (folder / "challenge" / "reference").mkdir(parents=True)
    (folder / "submission").mkdir()
    (folder / "challenge" / "challenge.toml").write_text(CHALLENGE_TOML)
    (folder / "challenge" / "cases.csv").write_text(f"case,group,height,width\nslide,slide,{side},{side}\n")
    for parent, labels in (
        (folder / "challenge" / "reference", square.reference),
        (folder / "submission", square.prediction),
    ):
        tifffile.imwrite(
            parent / "slide.tif", tiles(labels, side), shape=(side, side), dtype=np.uint32, tile=(TILE_PX, TILE_PX),
            compression="zlib", compressionargs={"level": 1}, bigtiff=True, metadata=None, maxworkers=1,
        )  # fmt: skip


def in_memory(folder: Path, side: int) -> dict[str, float]:
    """The same from arrays in memory, to the same files; and decoding of both files by tifffile, tile by tile."""
    from evaluation.challenge import Challenge
    from evaluation.scoring.from_arrays import score_instances
    from nuclei_metrics.instances.runs import instances_from_labels

    paths = folder / "challenge" / "reference" / "slide.tif", folder / "submission" / "slide.tif"
    begin = time.process_time()
    for path in paths:
        with tifffile.TiffFile(path) as file:
            for _ in file.pages.first.segments(maxworkers=1):
                pass
    decoded = time.process_time()
    arrays = [tifffile.imread(path, maxworkers=1) for path in paths]
    challenge = Challenge.load(folder / "challenge")
    begin_engine = time.process_time()
    reference, prediction = (instances_from_labels(labels, class_id=1) for labels in arrays)
    result = score_instances(challenge, {"slide": (reference, prediction)})
    result.write(folder / "from_memory")
    return {
        "decoding": (decoded - begin) * 1e9 / side**2,
        "engine": (time.process_time() - begin_engine) * 1e9 / side**2,
    }


def score(folder: Path, side: int) -> dict[str, float]:
    """``evaluation score`` with one worker."""
    from evaluation.scoring.street import score_submission

    begin = time.process_time()
    result = score_submission(folder / "challenge", folder / "submission", workers=1)
    result.write(folder / "output")
    return {
        "ns": (time.process_time() - begin) * 1e9 / side**2,
        "pairs": next(iter(result.cases[0].counts.values())).true_positives,
    }


STEPS: dict[str, Callable[[Path, int], dict[str, float]]] = {"memory": in_memory, "score": score}


def in_own_process(step: str, folder: Path, side: int) -> dict[str, float]:
    """A step, and its peak of resident memory in GB."""
    command = [sys.executable, "-m", "benchmarks.label_slides", step, str(folder), str(side)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main(sides: list[int]) -> None:
    print("| side, px | from files, ns/px | from arrays | decoding | ratio | peak, GB | pairs |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    beside: dict[str, float] = {}
    for side in sides:
        with tempfile.TemporaryDirectory(prefix="label-slides-") as folder:
            write_slide(Path(folder), side)
            scored = in_own_process("score", Path(folder), side)
            beside = beside or in_own_process("memory", Path(folder), side)
        ratio = scored["ns"] / (beside["engine"] + beside["decoding"])
        numbers = [scored["ns"], beside["engine"], beside["decoding"], ratio, scored["peak"]]
        print(
            f"| {side:,} | {' | '.join(f'{number:.2f}' for number in numbers)} | {int(scored['pairs']):,} |", flush=True
        )


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in STEPS:
        found = STEPS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
        found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(json.dumps(found))
    else:
        main([int(side) for side in sys.argv[1:]] or [10_000, 50_000])
