"""Make a challenge of GeoJSON files as QuPath exports them, and rank two teams.

The annotations are those of the demo, converted to GeoJSON. With your data: put the files of each patient and the
images of the same names into qupath_challenge/reference/<patient>/, and begin with ``init``.
"""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import tifffile

CHALLENGE = Path("qupath_challenge")


def evaluation(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "evaluation", *arguments], check=True)


evaluation("demo", "--output", "demo")
evaluation("convert", "--challenge", "demo/challenge", "reference", "exported", "--to", "geojson")
with Path("demo/challenge/cases.csv").open(encoding="utf-8", newline="") as file:
    for case in csv.DictReader(file):
        patient = CHALLENGE / "reference" / case["group"]
        patient.mkdir(parents=True, exist_ok=True)
        Path(f"exported/{case['case']}.geojson").rename(patient / f"{case['case']}.geojson")
        image = np.full((int(case["height"]), int(case["width"]), 3), (228, 186, 212), np.uint8)
        tifffile.imwrite(patient / f"{case['case']}.tif", image, photometric="rgb")  # init reads its size
for team in ("finder", "namer"):
    sent = ["demo/challenge", f"demo/submissions/{team}", f"submissions/{team}"]
    evaluation("convert", "--challenge", *sent, "--to", "geojson")

evaluation("init", str(CHALLENGE), "--submission", "submissions/finder")
evaluation("rasterise", "--challenge", str(CHALLENGE), "--output", "rasterised")
evaluation("validate", "--challenge", str(CHALLENGE), "--submission", "submissions/finder")
where = ["--challenge", str(CHALLENGE), "--submissions", "submissions"]
evaluation("leaderboard", *where, "--output", "board", "--report")
