"""Hints: what would match when nearly nothing does. Each mistake is made on purpose and must be named."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

import evaluation
from evaluation.authoring.convert import convert_file

ROOT = Path(__file__).resolve().parents[1]


def scattered(seed: int, number: int = 40, side: int = 200) -> np.ndarray:
    """Ellipse-like nuclei that do not touch, on a square image, numbered from 1."""
    random = np.random.default_rng(seed)
    labels, label = np.zeros((side, side), np.int32), 0
    while label < number:
        y, x, height, width = (*random.integers(8, side - 8, 2), random.integers(4, 7), random.integers(4, 7))
        around = labels[max(0, y - 9) : y + 10, max(0, x - 9) : x + 10]
        dy, dx = np.ogrid[max(-y, -9) : 10, max(-x, -9) : 10][:2]
        dy, dx = dy[: around.shape[0]], dx[:, : around.shape[1]]
        if not around[dy**2 + dx**2 <= 81].any():
            label += 1
            around[(dy / height) ** 2 + (dx / width) ** 2 <= 1] = label
    return labels


ONE, TWO = scattered(1), scattered(2)
MANY = scattered(3, 320, 640)


def hinted(reference, prediction) -> str:
    found = evaluation.compare(reference, prediction)
    return " ".join(str(finding) for finding in found.findings if finding.code == "nearly-nothing-matches")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (np.transpose, "Transposed, it is 100 % (2 images were tried): are rows and columns"),
        (np.fliplr, "Mirrored left to right, it is 100 %"),
        (np.flipud, "Mirrored top to bottom, it is 100 %"),
        (lambda labels: labels[::-1, ::-1], "Turned by 180 degrees, it is 100 %"),
        (np.rot90, "Turned by 90 degrees, it is 100 %"),
        (lambda labels: np.rot90(labels, 3), "Turned by 270 degrees, it is 100 %"),
        (lambda labels: np.roll(labels, (-11, 17), (0, 1)), "Moved by -17 px in x and 11 px in y"),
        (lambda labels: np.pad(labels[::2, ::2], ((0, 100), (0, 100))), "2 times as large, it is"),
        (
            lambda labels: np.where(labels > 6, 1, labels),
            "With a number for each region, it is 100 % (2 images were tried): are the labels classes, not nuclei?",
        ),
        (lambda labels: np.where(labels, labels, 255), "Is the background a value such as 255?"),
    ],
)
def test_the_usual_mistakes_are_named(change, words):
    assert words in hinted([ONE, TWO], [np.ascontiguousarray(change(ONE)), np.ascontiguousarray(change(TWO))])


PLACES = np.random.default_rng(4).permutation(400)[:60]
POINTS = np.stack([50.0 * (PLACES // 20) + 20, 30.0 * (PLACES % 20) + 7], axis=1)  # x up to 970, y up to 577


def hinted_of_points(prediction: np.ndarray, folder: Path) -> str:
    for side, points in (("reference", POINTS), ("prediction", prediction)):
        (folder / side).mkdir()
        rows = "".join(f"{x},{y}\n" for x, y in points)
        (folder / side / "a.csv").write_text(f"x,y\n{rows}")
    found = evaluation.compare(folder / "reference", folder / "prediction")
    return " ".join(str(finding) for finding in found.findings if finding.code == "nearly-nothing-matches")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda points: points[:, ::-1], "Transposed, it is 100 % (1 image was tried): are rows and columns"),
        (lambda points: 0.25 * points, "4 times as large, it is 100 % (1 image was tried): is the image of"),
        (lambda points: 0.502 * points, "2 times as large, it is 100 %"),
        (lambda points: 2 * points, "0.5 times as large, it is 100 %"),
        (lambda points: 4 * points + 1, "0.25 times as large, it is 100 %"),
        (lambda points: points - (31, -40), "Moved by 31 px in x and -40 px in y, it is 100 %"),
        (lambda points: points, ""),
        (lambda points: points[:20], ""),
        (lambda points: points[::-1] * 0 + np.random.default_rng(5).uniform(0, 900, points.shape), ""),
    ],
)
def test_the_usual_mistakes_of_points_are_named(change, words, tmp_path):
    said = hinted_of_points(change(POINTS), tmp_path)
    assert words in said if words else said == ""
    assert not said or "a point within 12 px for" in said


def test_parts_of_an_outline_that_are_nuclei_are_named(tmp_path):
    ring = [[[x, 5], [x + 10, 5], [x + 10, 15], [x, 15], [x, 5]] for x in (5, 25, 45)]
    apart, together = [("Polygon", [one]) for one in ring], [("MultiPolygon", [[one] for one in ring])]
    for side, shapes in (("r", apart), ("p", together)):
        features = [
            {"type": "Feature", "properties": {}, "geometry": {"type": kind, "coordinates": coordinates}}
            for kind, coordinates in shapes
        ]
        (tmp_path / side).mkdir()
        (tmp_path / side / "a.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    said = " ".join(map(str, evaluation.compare(tmp_path / "r", tmp_path / "p").findings))
    assert "is an outline of several parts several nuclei? Write one for each nucleus." in said
    assert "scipy" not in said


def test_a_mistake_is_named_where_a_third_still_matches():
    labels = np.zeros((200, 200), np.int32)
    places = [(n, n) for n in range(10)] + [(n, n + 3) for n in range(7)] + [(n, n + 5) for n in range(5)]
    for label, (row, column) in enumerate(places, start=1):
        labels[20 * row : 20 * row + 9, 20 * column : 20 * column + 9] = label
    said = hinted(labels, labels.T.copy())
    assert "IoU > 0.5 for 45 % of the nuclei" in said
    assert "Transposed, it is 100 %" in said


def test_a_method_that_finds_half_of_the_nuclei_gets_no_hint():
    assert not hinted([ONE, TWO], [np.where(ONE % 2, ONE, 0), np.where(TWO % 2, TWO, 0)])


def test_ids_of_eight_bits_are_named():
    ids = MANY.astype(np.uint8)
    ids[(MANY > 0) & (ids == 0)] = 1
    ids = (ids % 16 + 1) * (MANY > 0)
    assert "With a number for each region, it is 100 % (1 image was tried): were ids stored in 8 bits" in hinted(
        MANY, ids
    )


def test_swapped_cases_are_named():
    said = hinted({"a": ONE, "b": TWO}, {"a": TWO, "b": ONE})
    assert "Given to each other’s images" in said or "Given to each other's images, it is 100 %" in said
    assert "b for a" in said


def test_permuted_classes_are_named():
    names = [name for name in "TSL" for _ in range(14)][:40]
    other = {"T": "S", "S": "L", "L": "T"}
    said = hinted((ONE, names), (ONE, [other[name] for name in names]))
    assert "the right class for 0 % of the matched nuclei" in said
    assert "it is 100 % ('T is L', 'L is S' and 'S is T'): are they in another order?" in said


def test_numbers_of_classes_off_by_one_are_named():
    numbers = [1 + index // 14 for index in range(40)]
    said = hinted((ONE, numbers), (ONE, [number + 1 for number in numbers]))
    assert "are their numbers off by one?" in said


def test_half_a_pixel_is_named(own_demo, tmp_path):
    """The same vertices as XML, whose whole numbers are pixel centres, and as GeoJSON, where they are corners."""
    for name in ("P2_1", "P2_2"):
        source = own_demo.challenge / "reference" / "P2" / f"{name}.xml"
        (tmp_path / "reference").mkdir(exist_ok=True)
        (tmp_path / "reference" / f"{name}.xml").write_bytes(source.read_bytes())
        convert_file(source, tmp_path / "prediction" / f"{name}.geojson", "geojson", origin="pixel_centre")
    found = evaluation.compare(tmp_path / "reference", tmp_path / "prediction")
    (hint,) = (finding for finding in found.findings if finding.code == "nearly-nothing-matches")
    assert "Moved by +0.5 px in x and y it is 1.00" in hint.fix
    assert "origin = 'pixel_centre'" in hint.fix


@pytest.mark.parametrize(
    "prediction",
    [[ONE, TWO], [scattered(8), scattered(9)], [np.zeros_like(ONE), TWO], [np.zeros_like(ONE), np.zeros_like(ONE)]],
)
def test_no_hint_where_nothing_would_help(prediction):
    assert hinted([ONE, TWO], prediction) == ""


def test_hints_change_no_score():
    plain = evaluation.compare(ONE, ONE.T).value("detection.f1.pooled")
    assert plain < 0.2


def test_score_gives_hints_wherever_it_is_read(own_demo, tmp_path):
    wrong = tmp_path / "wrong"
    for path in own_demo.submissions["namer"].rglob("*.mat"):
        target = wrong / path.relative_to(own_demo.submissions["namer"])
        target.parent.mkdir(parents=True)
        savemat(target, {"n_ary_mask": np.ascontiguousarray(loadmat(path)["n_ary_mask"][:, ::-1])})
    arguments = [sys.executable, "-m", "evaluation", "score", "--challenge", own_demo.challenge, "--submission", wrong]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300"}
    piped = subprocess.run(
        [*arguments, "--output", tmp_path / "a"], capture_output=True, text=True, env=environment, check=True
    )
    assert piped.stdout == ""
    assert "[nearly-nothing-matches]" in piped.stderr
    printed = in_terminal([*arguments, "--output", tmp_path / "b"], environment)
    assert "[nearly-nothing-matches]" in printed
    assert "Mirrored left to right" in printed
    assert "Written to" in printed
    assert (tmp_path / "a/metrics.json").read_bytes() == (tmp_path / "b/metrics.json").read_bytes()


def in_terminal(arguments, environment) -> str:
    """What a command prints on a terminal."""
    main, beside = pty.openpty()
    process = subprocess.Popen(arguments, stdout=beside, stderr=beside, env=environment)
    os.close(beside)
    printed = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        if not piece:
            break
        printed += piece
    assert process.wait() == 0
    return printed.decode()
