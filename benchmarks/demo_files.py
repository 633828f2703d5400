"""The files of the demo: a made challenge like MoNuSAC 2020, and three made teams, each of which is good at one skill.

``python -m benchmarks.demo_files`` writes what is shipped: ``evaluation/folders/demo.zip`` and ``ground_truth/``.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import synthesis as made
from benchmarks.synthesis import Mistakes, NucleusKind, draw_nuclei, label_map, seeded, select_outlines
from evaluation.files.formats.format import mat_bytes
from evaluation.folders.demo import DEMO
from nuclei_metrics.model import Bool, Outlines

GROUND_TRUTH = Path(__file__).resolve().parents[1] / "ground_truth"
SEED = 9  # one at which the three come out within 0.03 in PQ; they are near each other at any
SPACING_UM = 0.25
AMBIGUOUS = NucleusKind("Ambiguous", 5000, 0.1, (0.25, 0.1, 0.05))
LINE_COLOURS = (255, 65535, 16711680, 65280, 33023)

CHALLENGE_TOML = """\
# The example challenge that the image ships, made by `evaluation demo`: no real patients, no real teams.
format_version = 1
name = "Demo: nuclei of four patients"
preset = "recommended"
"""


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


def draw_demo(folder: Path, seed: int = SEED) -> None:
    """Write the challenge and the submissions of three teams into a folder, the same bytes for the same seed.

    ``challenge/``           challenge.toml, cases.csv and ``reference/<patient>/<case>.xml``
    ``submissions/<team>/``  ``<patient>/<case>/<class>/1.mat``, a file for each class that the team found

    Unclear nuclei are not in the reference; they lie in an Ambiguous region, and teams may find them all the same.
    The bytes of the ``.mat`` files depend on the compression library, their contents do not.
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


def lists() -> dict[str, bytes]:
    """The rules and the list of what is scored, by the names of their files."""
    rows = [f"{image.case},{image.group},{image.shape_yx[0]},{image.shape_yx[1]},{SPACING_UM}" for image in IMAGES]
    cases = "\n".join(["case,group,height,width,spacing_um", *rows, ""])
    return {"challenge.toml": CHALLENGE_TOML.encode(), "cases.csv": cases.encode()}


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


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        draw_demo(folder)
        with zipfile.ZipFile(DEMO, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
            for path in sorted(filter(Path.is_file, folder.rglob("*"))):
                member = zipfile.ZipInfo(path.relative_to(folder).as_posix())
                packed.writestr(member, path.read_bytes(), zipfile.ZIP_DEFLATED)
        shutil.copytree(folder / "challenge", GROUND_TRUTH, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
