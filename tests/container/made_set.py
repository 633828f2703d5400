"""A set of any size, made by the seeded generator: it keeps the image's workers busy."""

from __future__ import annotations

from pathlib import Path

from every_format import toml

from benchmarks.demo_files import aperio_xml
from benchmarks.synthesis import MONUSAC_KINDS, Mistakes, draw_nuclei, perturb, seeded
from evaluation.files.formats.listed_nuclei import write_polygons_json

SHAPE = (1500, 1500)
NUCLEI = 1500  # in an image; those of MoNuSeg, of 1000 x 1000 px, have 700
TEAM = Mistakes(missed=0.05, spurious=0.05, grow_spread_px=0.6, shift_px=1, roughen_px=0.4)
NAMES = tuple(kind.name for kind in MONUSAC_KINDS)
POLYGONS = {"format": "polygons_json", "files": "{case}.json", "units": "px", "vertices": "exact", "vanished": "drop",
            "origin": "pixel_corner"}  # fmt: skip


def write_set(folder: Path, images: int) -> Path:
    """Write ``ground_truth/`` and ``submission/`` into the folder: ``images`` images by the rules of MoNuSAC 2020."""
    rules = {"format_version": 1, "name": "Made", "preset": "monusac2020", "submission": POLYGONS}
    (folder / "ground_truth" / "reference").mkdir(parents=True)
    (folder / "submission").mkdir()
    (folder / "ground_truth" / "challenge.toml").write_text(toml(rules))
    rows = ["case,group,height,width"]
    for index in range(images):
        case, group = f"image{index:03}", f"P{index // 3}"
        rows.append(f"{case},{group},{SHAPE[0]},{SHAPE[1]}")
        nuclei = draw_nuclei(seeded(1, index), SHAPE, NUCLEI)
        reference = folder / "ground_truth" / "reference" / group / f"{case}.xml"
        reference.parent.mkdir(exist_ok=True)
        reference.write_text(aperio_xml(nuclei, None))
        prediction = perturb(seeded(1, index, 1), nuclei, SHAPE, TEAM)
        (folder / "submission" / f"{case}.json").write_bytes(write_polygons_json(prediction, NAMES, case))
    (folder / "ground_truth" / "cases.csv").write_text("\n".join([*rows, ""]))
    return folder
