"""Measure an image under the platform's limits: memory and time of a large set, the time to start, and its parts.

    PYTHONPATH=.:tests python -m container.measure podman IMAGE [--images 100] [--format NAME]

The set is made by the seeded generator (made_set.py): images of 1500 x 1500 px with 1,500 nuclei each, in groups of
three, by the rules of MoNuSAC 2020 (reference as ImageScope XML); the submission is in each of some formats in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

from container import submissions
from container.engine import Engine
from container.made_set import FORMATS, NUCLEI, SIDE_PX, write_set
from container.prove import HERE, LINKS, PYTHON, several_of
from container.submissions import Given

HOUR = 3600.0
GB, MB = 10**9, 10**6
PARTS = """
du -s --block-size=1000000 /opt/venv/lib/python3*/site-packages/* /opt/evaluation | sort -rn | head -n 12
du -sx --block-size=1000000 / 2>/dev/null
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=["podman", "docker"])
    parser.add_argument("image")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--format", action="append", choices=list(FORMATS), help="only these formats")
    options = parser.parse_args()
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="measure-") as folder:
        scratch = Path(folder)
        engine = Engine.of(options.engine, options.image, scratch)
        print(f"{options.images} images of {SIDE_PX} x {SIDE_PX} px, {NUCLEI} nuclei each, 2 CPUs, 7 GiB:", flush=True)
        print(f"{'submission':16}{'seconds':>9}{'peak GB':>9}{'without files GB':>18}", flush=True)
        for format in options.format or FORMATS:
            measure_set(engine, write_set(scratch / format, options.images, format), format)
        empty = submissions.nothing(scratch / "one")
        seconds = sorted(engine.score(empty.path, empty.ground_truth).seconds for _ in range(5))
        low, middle, high = seconds[0], seconds[2], seconds[-1]
        print(f"from the start to the end, an empty submission: {middle:.2f} s ({low:.2f} to {high:.2f})")
        print("parts in MB:")
        print(engine.run(["-c", PARTS], entrypoint="/bin/sh").out, end="")


def measure_set(engine: Engine, place: Path, name: str) -> None:
    given = [Given(name, place)]
    (place / "list.json").write_text(json.dumps(several_of(place, given, seconds=HOUR)))
    ended = engine.run(
        ["/proof/several.py", "/given/list.json"], entrypoint=PYTHON, links=LINKS,
        mounts={"/given": place, "/proof": HERE}, seconds=HOUR,
    )  # fmt: skip
    if ended.code != 0:
        raise SystemExit(f"{name}: the container ended with {ended.code}: {ended.err[-500:]}")
    one, total = (json.loads(line) for line in ended.out.splitlines())
    if one["code"] != 0 or one["err"]:
        raise SystemExit(f"{name}: exit code {one['code']}: {one['err'][-500:]}")
    peak = "?" if total["peak_bytes"] is None else f"{total['peak_bytes'] / GB:.2f}"
    print(f"{name:16}{one['seconds']:>9.1f}{peak:>9}{one['anonymous_bytes'] / GB:>18.2f}", flush=True)


if __name__ == "__main__":
    main()
