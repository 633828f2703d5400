"""Files and pictures of made challenges that take all their rules from a preset."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evaluation import Result, score_submission

MONUSAC = ("Epithelial", "Lymphocyte", "Neutrophil", "Macrophage")


# --- files ------------------------------------------------------------------------------------------------------------


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def start(folder: Path, preset: str, cases: Sequence[Mapping[str, Any]]) -> tuple[Path, Path]:
    """Folders of a challenge that takes all its rules from a preset, and of a submission to it."""
    challenge, submission = folder / "challenge", folder / "submission"
    write(challenge / "challenge.toml", f'format_version = 1\nname = "{preset}"\npreset = "{preset}"\n')
    with (challenge / "cases.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(cases[0]))
        writer.writeheader()
        writer.writerows(cases)
    for made in (challenge / "reference", submission):
        made.mkdir(exist_ok=True)
    return challenge, submission


def score(folders: tuple[Path, Path]) -> Result:
    return score_submission(*folders, workers=1)


def points_json(points: np.ndarray, probability: Sequence[float] | None = None, name: str | None = None) -> str:
    items: list[dict[str, Any]] = [{"point": [*map(float, point), 0.5]} for point in points]
    for index, item in enumerate(items):
        item |= {} if probability is None else {"probability": float(probability[index])}
        item |= {} if name is None else {"name": name}
    return json.dumps({"type": "Multiple points", "points": items, "version": {"major": 1, "minor": 0}})


def squares_xml(layers: Sequence[tuple[str, Sequence[tuple[int, int, int, int]]]]) -> str:
    """Outlines of boxes (first and last row, first and last column) as Aperio XML; ids begin at 1 in each layer."""
    text = ""
    for name, boxes in layers:
        regions = ""
        for index, (y0, y1, x0, x1) in enumerate(boxes, start=1):
            vertices = "".join(f'<Vertex X="{x}" Y="{y}"/>' for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1)))
            regions += f'<Region Id="{index}"><Vertices>{vertices}</Vertices></Region>'
        attributes = f'<Attributes><Attribute Name="{name}"/></Attributes>'
        text += f"<Annotation>{attributes}<Regions>{regions}</Regions></Annotation>"
    return f"<?xml version='1.0'?>\n<Annotations>{text}</Annotations>\n"


# --- pictures ---------------------------------------------------------------------------------------------------------


def ids_of(labels: np.ndarray) -> list[int]:
    return [int(label) for label in np.unique(labels) if label]


def blobs(rng: np.random.Generator, count: int, size: int = 40) -> np.ndarray:
    """Up to ``count`` rectangles that do not overlap, numbered in no order."""
    labels = np.zeros((size, size), int)
    for label in rng.permutation(count) + 1:
        y, x = rng.integers(0, size - 4, 2)
        h, w = rng.integers(3, 12, 2)
        box = labels[y : y + h, x : x + w]
        box[box == 0] = label
    return labels


def disturbed(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    """The same picture moved by a pixel or two, with some nuclei gone, some new, and other numbers."""
    moved = np.roll(labels, rng.integers(-2, 3, 2), axis=(0, 1))
    for label in ids_of(moved):
        if rng.random() < 0.2:
            moved[moved == label] = 0
    extra = blobs(rng, 3, len(labels))
    moved = np.where(moved == 0, extra + (extra > 0) * 100, moved)
    numbers = np.concatenate([[0], rng.permutation(200) + 1])
    return numbers[moved]


def overlap(a: np.ndarray, b: np.ndarray) -> int:
    return int((a & b).sum())
