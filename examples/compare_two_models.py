"""Compare two models on a reference.

The reference and the predictions are those of the demo. With your data: leave out the first command, and pass your
folders, files or ZIPs. Formats, pairs of files, image sizes and classes are detected.
"""

import subprocess
import sys

import evaluation

subprocess.run([sys.executable, "-m", "evaluation", "demo", "--output", "demo"], check=True, stdout=subprocess.DEVNULL)

comparison = evaluation.compare(
    "demo/challenge/reference", {"finder": "demo/submissions/finder", "namer": "demo/submissions/namer"}
)
print(comparison)
for model in ("finder", "namer"):
    print(f"AJI of {model}: {comparison.value('overlap.aji.group_mean', model):.4f}")
comparison.report("compare.html")
