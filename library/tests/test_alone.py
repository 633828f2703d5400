"""The library by itself: nothing but numpy, scipy and the standard library can be imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIBRARY = Path(__file__).parents[1]
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
val = nm.Evaluation()
val.update(a, b)
print(val.compute()["detection.recall"].value)
assert not {"evaluation", "pydantic", "shapely", "skimage"} & set(sys.modules)
"""


def python(code: str) -> str:
    """Run code where the library alone is on the path; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(LIBRARY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_module_and_two_label_maps_need_numpy_and_scipy_alone():
    assert python(ALONE) == "[[1, 7]] [4] 0.6666666666666666 0.5\n0.5\n"


def test_the_name_of_the_package_imports_nothing_until_a_name_is_used():
    code = "import sys, nuclei_metrics; print(sorted(n for n in sys.modules if n.split('.')[0] in {'numpy', 'scipy'}))"
    assert python(code) == "[]\n"


def test_every_public_name_is_there_and_is_where_type_checkers_look():
    code = """
import ast, nuclei_metrics
tree = ast.parse(open(nuclei_metrics.__file__).read())
typed = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
assert [getattr(nuclei_metrics, name) for name in nuclei_metrics.__all__]
print(set(nuclei_metrics.__all__) ^ (typed - {"annotations", "import_module", "TYPE_CHECKING", "Any"}))
"""
    assert python(code) == "set()\n"
