"""The library by itself: nothing but numpy, scipy and the standard library can be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ALONE = """
import importlib, pkgutil, sys
import numpy, scipy, scipy.sparse, scipy.spatial, scipy.optimize, scipy.stats  # what they need, they have
ALLOWED = {"numpy", "scipy", "nuclei_metrics", *sys.stdlib_module_names, *(name.split(".")[0] for name in sys.modules)}
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in ALLOWED:
            raise ImportError(f"{name} is imported")
sys.meta_path.insert(0, Wall())
import nuclei_metrics as nm
for module in pkgutil.walk_packages(nm.__path__, "nuclei_metrics."):
    importlib.import_module(module.name)
a, b = numpy.array([[1, 1, 0, 4, 4]]), numpy.array([[7, 7, 0, 0, 0]])
found = nm.match(a, b)
print(found.pairs.tolist(), found.missed.tolist(), nm.panoptic_quality(a, b).value, nm.aji(a, b).value)
print(len(nm.Evaluation().update(a, b).compute()))
assert not {"evaluation", "pydantic", "shapely", "skimage"} & set(sys.modules)
"""


def test_every_module_and_two_label_maps_need_numpy_and_scipy_alone():
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", ALONE], env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "[[1, 7]] [4] 0.6666666666666666 0.5\n35\n"
