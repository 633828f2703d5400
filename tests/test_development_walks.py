"""The walks of docs/development.md, in a copy of the program.

A walk is a section of that page. Its blocks are taken in order:

- ``python`` whose first line is ``# path``: becomes that new file
- ``diff`` whose first line is ``--- path``: its lines with "+" are put between the lines without sign, those with "-"
  are taken away; the old lines must stand in the file, once
- ``shell``: lines with "$ " are commands, ``evaluation …`` or ``./test.sh …`` (pytest); they must succeed, and print
  the lines that follow them
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = "docs/development.md"
MOST_FILES = {  # by hand
    "Adding a metric": 2, "Adding a finding": 2,
    "Adding a format": 3, "Adding a matching rule": 2,
}  # fmt: skip
REGISTRIES = {
    "library/nuclei_metrics/matching/__init__.py",
    "library/nuclei_metrics/metrics/__init__.py",
    "evaluation/commands/main.py",
}  # one line in one of them is free


def blocks_of(heading: str) -> list[tuple[str, str]]:
    """Language and text of each block of a section."""
    page = (ROOT / PAGE).read_text()
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    assert section, heading
    return re.findall(r"^```(\w+)\n(.*?)^```$", section[1], re.DOTALL | re.MULTILINE)


def change(root: Path, diff: str) -> tuple[str, int]:
    """Make the change of a diff block; the file, and how many lines it adds or takes away."""
    head, *lines = diff.splitlines()
    name = head.removeprefix("--- ")
    before = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    after = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
    text = (root / name).read_text()
    assert text.count(before) == 1, f"these lines do not stand in {name} once:\n{before}"
    (root / name).write_text(text.replace(before, after))
    return name, sum(line[:1] in "+-" for line in lines)


def run(root: Path, program: str, *arguments: str) -> str:
    """What a program prints in the copy; it must succeed."""
    module = {"python": [], "evaluation": ["-m", "evaluation"], "./test.sh": ["-m", "pytest", "-p", "no:cacheprovider"]}
    environment = {"PYTHONPATH": f"{root}:{root / 'library'}", "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *module[program], *arguments]
    found = subprocess.run(command, cwd=root, env={**os.environ, **environment}, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def check_commands(root: Path, text: str) -> None:
    """Run the commands of a shell block; each must print the lines that follow it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *expected = part.splitlines()
        printed = run(root, *shlex.split(command)).splitlines()
        assert [line for line in expected if line not in printed] == [], command


def copy_of_the_program(folder: Path) -> Path:
    for name in ("evaluation", "library", "tests", "docs"):
        ignored = shutil.ignore_patterns("__pycache__", "frozen")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.mark.parametrize("heading", MOST_FILES)
def test_a_walk_of_the_page_works_and_touches_few_files(heading: str, tmp_path: Path) -> None:
    root = copy_of_the_program(tmp_path)
    touched = set()
    for language, text in blocks_of(heading):
        name, is_free = text.partition("\n")[0].removeprefix("# "), False
        if language == "shell":
            check_commands(root, text)
        elif language == "diff":
            name, lines = change(root, text)
            is_free = name in REGISTRIES and lines == 1
        elif language == "python":
            assert not (root / name).exists(), name
            (root / name).write_text(text.partition("\n")[2])
        if language in ("diff", "python") and not is_free and not name.startswith(("tests/", "docs/")):
            touched.add(name)
    assert 1 <= len(touched) <= MOST_FILES[heading]
    if heading in AFTERWARDS:
        program, told = AFTERWARDS[heading]
        printed = run(root, "python", "-c", program).splitlines()
        assert dict(line.split(" ", 1) for line in printed) == told


def test_every_walk_of_the_page_is_executed() -> None:
    walks = re.findall(r"^## (Adding a .*)$", (ROOT / PAGE).read_text(), re.MULTILINE)
    assert set(MOST_FILES) <= set(walks)
    assert [heading for heading in walks if any(blocks_of(heading)) and heading not in MOST_FILES] == []


def test_a_change_whose_old_lines_are_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(AssertionError, match="do not stand in"):
        change(tmp_path, "--- a.py\n+z = 3\n y = 2\n")
    assert change(tmp_path, "--- a.py\n+z = 3\n x = 1\n") == ("a.py", 1)
    assert (tmp_path / "a.py").read_text() == "z = 3\nx = 1\n"


def test_a_command_that_prints_something_else_is_noticed() -> None:
    with pytest.raises(AssertionError, match="explain"):
        check_commands(ROOT, "$ evaluation explain detection.f1\nnobody prints this\n")


# --- programs that use the format and the matching rule that were added -----------------------------------------------


FORMAT = """
import io
from pathlib import Path
from evaluation.platform.kit import example_files
from evaluation.folders.convert import convert_file
from evaluation.platform.kit import write_kit
from evaluation.challenge import Challenge
from evaluation.findings.errors import ChallengeBroken, InputFault
from evaluation.files.formats import Request, read_annotations
from nuclei_metrics.model import Case

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
    Path("one.txt"), Path("one.json"), "platform", options={"swapped": True}  # its format is detected
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
from nuclei_metrics.matching import overlap_table
from nuclei_metrics.model import Case

rule = {"name": "dice", "rule": "dice_above", "threshold": 0.5, "class_aware": False, "ties": "first_pixel"}
(rule,) = Challenge.from_preset("monusac2020", name="n", matching={"rules": [rule]}).matching.rules
reference = instances_from_labels(np.array([[1, 1, 2, 2, 2, 0, 3]]))
prediction = instances_from_labels(np.array([[7, 0, 9, 9, 0, 0, 0]]))
matches = rule.match(Sides(Case("c", "c", 1, 7), overlap_table(reference, prediction), reference, prediction, "open"))
print("pairs", matches.reference_index.tolist(), matches.prediction_index.tolist())
print("words", rule.short, "|", rule.words)
"""


AFTERWARDS = {
    "Adding a format": (FORMAT, {
        "points": "[[3.5, 3.5], [20.5, 3.5], [37.5, 3.5]] [1, 2, 1]",
        "faults": "['invalid-annotation', 'unknown-class']",
        "kit": "True True",
        "converted": "['one.json']",
        "refused": "['contradictory-rules', 'missing-rule']",
    }),
    "Adding a matching rule": (RULE, {  # IoU 1/2 and Dice 2/3; IoU 2/3 and Dice 4/5
        "pairs": "[0, 1] [0, 1]",
        "words": "Dice > 0.5 | A reference nucleus and a prediction are a pair if their Dice coefficient is above 0.5; "
        "of rival pairs the highest first. Classes do not matter for the pairing; the classes of the pairs are "
        "compared afterwards.",
    }),
}  # fmt: skip
