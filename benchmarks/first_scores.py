"""Time from two folders of label images to first scores: this program, stardist and panoptica, each a new process.

    python -m benchmarks.first_scores [--images 8] [--rounds 3]

Each contender starts Python, reads the same TIFF files, pairs them by name and prints scores of all images. Ours also
finds out formats, sizes and classes, and gives intervals and Hausdorff distances; panoptica is asked for IoU alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tifffile

from evaluation.authoring.synthesis import Mistakes, draw_nuclei, label_map, perturb, seeded

SHAPE = (512, 512)
READ = """
import sys; from pathlib import Path; import tifffile, numpy as np
names = sorted(path.name for path in Path(sys.argv[1]).glob('*.tif'))
pairs = [[tifffile.imread(Path(side, name)) for side in sys.argv[1:]] for name in names]
"""
CONTENDERS = {
    "evaluation compare": None,
    "stardist matching": READ
    + "from stardist.matching import matching_dataset\n"
    + "print(matching_dataset([a for a, _ in pairs], [b for _, b in pairs], thresh=0.5, show_progress=False).f1)\n",
    "panoptica": READ
    + "from panoptica import InputType, Metric, NaiveThresholdMatching, Panoptica_Evaluator\n"
    + "judge = Panoptica_Evaluator(expected_input=InputType.UNMATCHED_INSTANCE,\n"
    + "    instance_matcher=NaiveThresholdMatching(), instance_metrics=[Metric.IOU],\n"
    + "    global_metrics=[], verbose=False, log_times=False)\n"
    + "rq = [judge.evaluate(b, a)['ungrouped'].rq for a, b in pairs]\n"
    + "print(float(np.mean(rq)))\n",
}


def write_sides(folder: Path, images: int) -> None:
    """Label TIFFs of 512 x 512 px with some 250 nuclei, and a perturbed copy."""
    mistakes = Mistakes(missed=0.1, spurious=0.1, grow_spread_px=0.5)
    for index in range(images):
        nuclei = draw_nuclei(seeded(index), SHAPE, 250, (1, 1, 1, 1))
        found = perturb(seeded(index, 1), nuclei, SHAPE, mistakes)
        for side, outlines in (("reference", nuclei), ("prediction", found)):
            (folder / side).mkdir(exist_ok=True)
            labels, _ = label_map(outlines, SHAPE)
            tifffile.imwrite(folder / side / f"{index:03}.tif", labels.astype(np.uint16), compression="zlib")


def run(code: str | None, folder: Path) -> tuple[float, float, str]:
    """Seconds on the clock and of the processor, and the last line that is printed."""
    import resource

    sides = [str(folder / "reference"), str(folder / "prediction")]
    command = [
        sys.executable,
        *(["-m", "evaluation", "compare"] if code is None else ["-W", "ignore", "-c", code]),
        *sides,
    ]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        return clock, used, f"failed: {done.stderr.strip().splitlines()[-1][:80]}"
    lines = [line for line in done.stdout.splitlines() if "detection.f1" in line or code is not None]
    return clock, used, " ".join(lines[-1].split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        write_sides(Path(temporary), arguments.images)
        found = {
            name: [run(code, Path(temporary)) for _ in range(arguments.rounds)] for name, code in CONTENDERS.items()
        }
    print(
        f"{arguments.images} label images of {SHAPE[0]} x {SHAPE[1]} px, each a new process, the shortest of "
        f"{arguments.rounds}"
    )
    print("| | seconds on the clock | of the processor | F1 at IoU 0.5 |\n| --- | --- | --- | --- |")
    for name, rounds in found.items():
        clock, used = min(each[0] for each in rounds), min(each[1] for each in rounds)
        print(f"| {name} | {clock:.2f} | {used:.2f} | {rounds[0][2]} |")


if __name__ == "__main__":
    main()
