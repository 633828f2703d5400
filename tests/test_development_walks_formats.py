"""What docs/development.md says on adding a format and a matching rule, done in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FORMAT = """
import io
from pathlib import Path
from evaluation.authoring.kit import example_files
from evaluation.authoring.convert import convert_file
from evaluation.authoring.kit import write_kit
from evaluation.challenge import Challenge
from evaluation.findings.errors import ChallengeBroken, InputFault
from evaluation.formats import Request, read_annotations
from evaluation.model import Case

RULES = '''
format_version = 1
name = "dots"
classes = [{ name = "a" }, { name = "b" }]
reference = { format = "dots_txt", files = "reference/{case}.txt", origin = "pixel_corner", swapped = true }
metrics = { families = ["detection"], boundary = "open" }
aggregation = { unit = "case", undefined = "skip" }
[submission]
format = "dots_txt"
files = "{case}.txt"
origin = "pixel_corner"
swapped = true
missing_case = "worst"
missing_class_file = "empty"
[[matching.rules]]
name = "near"
rule = "centroid_closest_first"
radius_px = 3
class_aware = false
ties = "first_pixel"
'''
folder = Path("challenge")
folder.mkdir()
(folder / "challenge.toml").write_text(RULES)
(folder / "cases.csv").write_text("case,group,height,width\\nc,c,20,40\\n")
challenge = Challenge.load(folder)
(content,) = example_files(challenge, challenge.submission, challenge.cases).values()
request = Request(
    where="'c.txt'", name="c.txt", rules=challenge.submission,
    classes=challenge.class_table(challenge.submission), limits=challenge.limits,
)
(points,) = read_annotations(io.BytesIO(content), request, challenge.cases[0]).parts
print("points", points.points_xy.tolist(), points.class_id.tolist())
try:
    read_annotations(io.BytesIO(b"1 2 a\\n3 a\\n1 2 c\\n"), request, challenge.cases[0])
except InputFault as fault:
    print("faults", sorted(finding.code for finding in fault.findings))
write_kit(folder, Path("kit"))
guide = Path("kit/GUIDE.md").read_text()
print("kit", "text with a line `x y class`" in guide, "In each line y comes before x." in guide)
Path("one.txt").write_bytes(content)
conversion = convert_file(
    Path("one.txt"), Path("one.json"), "platform", format="dots_txt", options={"swapped": True}
)
print("converted", [path.name for path in conversion.files])
(folder / "challenge.toml").write_text(RULES.replace("swapped = true", "units = 'px'"))
try:
    Challenge.load(folder)
except ChallengeBroken as broken:
    print("refused", sorted({finding.code for finding in broken.findings}))
"""

RULE = """
import numpy as np
from evaluation import Challenge, instances_from_labels
from evaluation.challenge import MATCHING_RULES
from evaluation.challenge.matching_rules import Sides
from evaluation.matching import overlap_table
from evaluation.model import Case

rule = {"name": "dice", "rule": "dice_above", "threshold": 0.5, "class_aware": False, "ties": "first_pixel"}
(rule,) = Challenge.from_preset("monusac2020", name="n", matching={"rules": [rule]}).matching.rules
reference = instances_from_labels(np.array([[1, 1, 2, 2, 2, 0, 3]]))
prediction = instances_from_labels(np.array([[7, 0, 9, 9, 0, 0, 0]]))
matches = rule.match(Sides(Case("c", "c", 1, 7), overlap_table(reference, prediction), reference, prediction, "open"))
print("pairs", matches.reference_index.tolist(), matches.prediction_index.tolist())
print("words", rule.short, "|", rule.words)
"""


def walk(heading: str) -> str:
    """A section of the page."""
    page = (ROOT / "docs/development.md").read_text()
    found = re.search(rf"^## {heading}$(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def follow(section: str, root: Path) -> list[str]:
    """Write the new files of a section and change the others as its differences say; returns their names."""
    touched = []
    for name, text in re.findall(r"```python\n# (\S+\.py)\n(.*?)```", section, re.DOTALL):
        assert not (root / name).exists()
        (root / name).write_text(text)
        touched.append(name)
    for name, text in re.findall(r"```diff\n--- (\S+)\n(.*?)```", section, re.DOTALL):
        lines, place = (root / name).read_text().splitlines(), 0
        for line in text.splitlines():
            if line.startswith("+"):
                lines.insert(place, line[1:])
                place += 1
            else:
                place = lines.index(line[1:], place) + 1
        (root / name).write_text("\n".join(lines) + "\n")
        touched.append(name)
    return touched


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(ROOT / "evaluation", tmp_path / "evaluation", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def said_by(code: str, root: Path) -> dict[str, str]:
    """What a program prints in the copy, by the first word of each line."""
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_the_walk_through_a_format_adds_one(copy):
    touched = follow(walk("Adding a format"), copy)
    assert len(touched) == 2  # a new file, and the rules with their line in the list; docs/formats.md comes on top
    assert said_by(FORMAT, copy) == {
        "points": "[[3.5, 3.5], [9.5, 3.5], [15.5, 3.5]] [1, 2, 1]",
        "faults": "['invalid-annotation', 'unknown-class']",
        "kit": "True True",
        "converted": "['one.json']",
        "refused": "['contradictory-rules', 'missing-rule']",
    }


def test_the_walk_through_a_matching_rule_adds_one(copy):
    """IoU 1/2 and Dice 2/3; IoU 2/3 and Dice 4/5."""
    assert len(follow(walk("Adding a matching rule"), copy)) == 2
    assert said_by(RULE, copy) == {
        "pairs": "[0, 1] [0, 1]",
        "words": "Dice > 0.5 | A reference nucleus and a prediction are a pair if their Dice coefficient is above 0.5; "
        "of rival pairs the highest first. Classes do not matter for the pairing; the classes of the pairs are "
        "compared afterwards.",
    }
