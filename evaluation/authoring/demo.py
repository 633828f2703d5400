"""The demo: a made challenge like MoNuSAC 2020, and three made teams, each of which is good at one skill.

Their panoptic quality is nearly the same, although their mistakes are clearly different. ``write_demo`` only writes
files; they are scored like any others.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.authoring import synthesis as made
from evaluation.authoring.synthesis import Mistakes, NucleusKind, draw_nuclei, label_map, seeded, select_outlines
from evaluation.execution.workers import Progress
from evaluation.formats.format import mat_bytes
from evaluation.leaderboard.board import score_and_rank, write_board
from evaluation.leaderboard.document import Board
from evaluation.leaderboard.team_scores import read_metrics
from evaluation.model import Bool, Outlines

DEFAULT_SEED = 9  # one at which the three come out within 0.03 in PQ; they are near each other at any
SPACING_UM = 0.25
AMBIGUOUS = NucleusKind("Ambiguous", 5000, 0.1, (0.25, 0.1, 0.05))
LINE_COLOURS = (255, 65535, 16711680, 65280, 33023)

TITLE = "Three teams, one made challenge: means over four patients"

SHOWN_SKILLS = {
    "best and worst at detection": "detection.f1",
    "at classification": "classification.balanced_accuracy",
    "at segmentation": "segmentation.iou_class_mean",
}

CHALLENGE_TOML = """\
# The example challenge that the image ships, made by `evaluation demo`: no real patients, no real teams.
format_version = 1
name = "Demo: nuclei of four patients"
preset = "recommended"
"""


@dataclass(frozen=True, slots=True)
class DemoPaths:
    """Where the demo was written: the folder of the challenge, and that of each team's submission by its name."""

    challenge: Path
    submissions: dict[str, Path]


@dataclass(frozen=True, slots=True)
class PlannedImage:
    """One image of the demo: how many nuclei are drawn, and the share of each class (0: the class is absent)."""

    group: str
    case: str
    shape_yx: tuple[int, int]
    nuclei: int
    class_weights: tuple[float, float, float, float]
    ambiguous: bool = False


IMAGES = (
    PlannedImage("P1", "P1_1", (280, 330), 58, (6, 4, 1, 0.8), ambiguous=True),
    PlannedImage("P2", "P2_1", (240, 210), 36, (3, 6, 1, 0)),
    PlannedImage("P2", "P2_2", (200, 320), 40, (4, 4, 1, 0.6)),
    PlannedImage("P3", "P3_1", (220, 260), 36, (5, 3, 0, 0.8)),
    PlannedImage("P3", "P3_2", (300, 240), 44, (4, 4, 1, 0.6), ambiguous=True),
    PlannedImage("P3", "P3_3", (210, 200), 26, (1, 5, 2, 0)),
    PlannedImage("P4", "P4_1", (260, 290), 46, (2, 6, 2, 0.8)),
    PlannedImage("P4", "P4_2", (230, 270), 38, (5, 4, 1, 0.6)),
)


def confused(right: float) -> list[list[float]]:
    """A confusion matrix: the right class with this probability, each wrong one as often as the others."""
    classes = len(made.MONUSAC_KINDS)
    wrong = (1 - right) / (classes - 1)
    return [[right if row == column else wrong for column in range(classes)] for row in range(classes)]


TEAMS = {
    # segmentation: good outlines, around little more than half of the nuclei
    "outliner": Mistakes(missed=0.36, spurious=0.02, confusion=confused(0.95), grow_spread_px=0.3, roughen_px=0.4),
    # detection: finds nearly every nucleus, but often with the wrong class
    "finder": Mistakes(missed=0.03, spurious=0.03, confusion=confused(0.84), grow_px=1.1, grow_spread_px=0.6),
    # classification: nearly always the right class, but outlines lie two pixels too far inside
    "namer": Mistakes(
        missed=0.09, spurious=0.08, confusion=confused(0.99), grow_px=-1.8, grow_spread_px=0.4, shift_px=1
    ),
}


def write_demo(folder: Path, seed: int = DEFAULT_SEED) -> DemoPaths:
    """Write the challenge and the submissions of three teams into a folder, the same bytes for the same seed.

    ``challenge/``           challenge.toml, cases.csv and ``reference/<patient>/<case>.xml``
    ``submissions/<team>/``  ``<patient>/<case>/<class>/1.mat``, a file for each class that the team found

    Unclear nuclei are not in the reference; they lie in an Ambiguous region, and teams may find them all the same.
    Files of that name are replaced, others stay. Raises OSError if the folder cannot be written. The bytes of the
    ``.mat`` files depend on the compression library, their contents do not.
    """
    challenge = folder / "challenge"
    submissions = {team: folder / "submissions" / team for team in TEAMS}
    for name, content in lists().items():
        write_bytes(challenge / name, content)
    for index, image in enumerate(IMAGES):
        nuclei = draw_nuclei(seeded(seed, index), image.shape_yx, image.nuclei, image.class_weights, vertex_step_px=3.5)
        reference, regions = nuclei, None
        if image.ambiguous:
            regions = draw_nuclei(seeded(seed, index, 0), image.shape_yx, 1, (1,), kinds=(AMBIGUOUS,), vertex_step_px=6)
            reference = select_outlines(nuclei, ~centre_inside(nuclei, regions, image.shape_yx))
        path = challenge / "reference" / image.group / f"{image.case}.xml"
        write_bytes(path, aperio_xml(reference, regions).encode())
        for number, (team, mistakes) in enumerate(TEAMS.items(), start=1):
            prediction = made.perturb(seeded(seed, index, number), nuclei, image.shape_yx, mistakes)
            write_prediction(submissions[team] / image.group / image.case, prediction, image.shape_yx)
    return DemoPaths(challenge, submissions)


def lists() -> dict[str, bytes]:
    """The rules and the list of what is scored, by the names of their files."""
    rows = [f"{image.case},{image.group},{image.shape_yx[0]},{image.shape_yx[1]},{SPACING_UM}" for image in IMAGES]
    cases = "\n".join(["case,group,height,width,spacing_um", *rows, ""])
    return {"challenge.toml": CHALLENGE_TOML.encode(), "cases.csv": cases.encode()}


def is_demo(challenge_folder: Path) -> bool:
    """Whether a folder holds the made challenge: its rules and its list of cases, to the letter."""
    files = {challenge_folder / name: content for name, content in lists().items()}
    return all(path.is_file() and path.read_bytes() == content for path, content in files.items())


def centre_inside(nuclei: Outlines, regions: Outlines, shape_yx: tuple[int, int]) -> Bool:
    """Whether the centre of each nucleus lies in a region, bool (N,)."""
    labels, _ = label_map(regions, shape_yx)
    x, y = np.floor(made.centres_xy(nuclei)).astype(np.int64).T
    inside: Bool = labels[y, x] > 0
    return inside


def aperio_xml(nuclei: Outlines, regions: Outlines | None) -> str:
    """The annotations of one image as ImageScope writes them: an ``Annotation`` for each class, also if it is empty."""
    layers = [(kind.name, rings_of(nuclei, index)) for index, kind in enumerate(made.MONUSAC_KINDS, start=1)]
    if regions is not None:
        layers.append((AMBIGUOUS.name, rings_of(regions, 1)))
    lines = [f'<Annotations MicronsPerPixel="{SPACING_UM:.6f}">']
    for number, (name, rings) in enumerate(layers, start=1):
        lines += [
            f'<Annotation Id="{number}" Name="" Type="4" LineColor="{LINE_COLOURS[number - 1]}" Visible="1">',
            f'<Attributes><Attribute Name="{name}" Id="0" Value=""/></Attributes>',
            '<Regions><RegionAttributeHeaders><AttributeHeader Id="9999" Name="Region" ColumnWidth="-1"/>'
            "</RegionAttributeHeaders>",
        ]
        for region, ring in enumerate(rings, start=1):
            vertices = "".join(f'<Vertex X="{x}" Y="{y}" Z="0"/>' for x, y in ring)
            lines.append(f'<Region Id="{region}" Type="0" Zoom="1"><Vertices>{vertices}</Vertices></Region>')
        lines.append("</Regions><Plots/></Annotation>")
    return "\n".join([*lines, "</Annotations>", ""])


def rings_of(outlines: Outlines, class_id: int) -> list[list[list[int]]]:
    """The vertices (x, y) of each outline of a class, in document order."""
    chosen = select_outlines(outlines, outlines.class_id == class_id)
    points = chosen.points_xy.astype(np.int64)
    return [points[start:stop].tolist() for start, stop in zip(chosen.ring_start, chosen.ring_start[1:], strict=False)]


def write_prediction(folder: Path, prediction: Outlines, shape_yx: tuple[int, int]) -> None:
    """One n-ary mask for each class that occurs, ``<class>/1.mat``; nuclei of different classes may overlap."""
    for index, kind in enumerate(made.MONUSAC_KINDS, start=1):
        labels, _ = label_map(select_outlines(prediction, prediction.class_id == index), shape_yx)
        if labels.any():
            write_bytes(folder / kind.name / "1.mat", mat_bytes(labels))


def write_bytes(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """metrics.json of the three teams, their leaderboard, and where all is written."""

    results: dict[str, dict[str, Any]]
    board: Board
    folder: Path | None

    def lines(self) -> list[str]:
        """What the table shows, in words; every statement follows from its numbers."""

        def means(path: str) -> dict[str, float]:
            family, name = path.split(".")
            means = {team: metrics[family][name]["group_mean"] for team, metrics in self.results.items()}
            return {team: value for team, value in means.items() if value is not None}

        quality = means("panoptic.pq").values()
        spread = math.ceil(round(1000 * (max(quality) - min(quality)), 3)) / 1000
        skills = [(skill, means(path)) for skill, path in SHOWN_SKILLS.items()]
        return [
            f"Panoptic quality puts the three within {spread:.3f} of each other. The skills that it mixes differ more:",
            *(
                f"  {skill}: {max(values, key=values.__getitem__)} {max(values.values()):.2f}, "
                f"{min(values, key=values.__getitem__)} {min(values.values()):.2f}"
                for skill, values in skills
            ),
        ]

    def closing_lines(self) -> list[str]:
        """What stands below the leaderboard: what was ranked, and where the files are."""
        lines = [
            "Ranked by detection, by detection with the right class (the mean of the F1 of each class), and by the "
            "outlines of the better half of each class: a false negative has a cost in every column."
        ]
        if self.folder is not None:
            files = "challenge/, submissions/, results/<team>/ with metrics.json, leaderboard.json and leaderboard.csv"
            lines.append(f"Written to {self.folder}: {files}.")
        return lines


def run_demo(output: Path | None, *, workers: int | None = None, progress: Progress | None = None) -> DemoOutcome:
    """Write a challenge and its teams to ``output`` (None: to a temporary folder), and score and rank them."""
    with tempfile.TemporaryDirectory(prefix="evaluation-demo-") as temporary:
        folder = output or Path(temporary)
        challenge = write_demo(folder).challenge
        board = score_and_rank(challenge, folder / "submissions", folder, workers=workers, progress=progress)
        write_board(folder, board)
        results = {team: read_metrics(folder / "results" / team / "metrics.json", where=team) for team in TEAMS}
    return DemoOutcome(results, board, output)
