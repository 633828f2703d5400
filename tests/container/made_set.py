"""A set of any size, made by the seeded generator: what the memory and the time of the image are measured with."""

from __future__ import annotations

from pathlib import Path

import tifffile
from every_format import toml

from benchmarks.demo_files import aperio_xml, write_prediction
from benchmarks.synthesis import MONUSAC_KINDS, Mistakes, draw_nuclei, label_map, perturb, seeded
from evaluation.formats.listed_nuclei import write_polygons_json
from evaluation.model import Outlines

SIDE_PX = 1500
NUCLEI = 1500  # in an image; those of MoNuSeg, of 1000 x 1000 px, have 700
TEAM = Mistakes(missed=0.05, spurious=0.05, grow_spread_px=0.6, shift_px=1, roughen_px=0.4)
NAMES = tuple(kind.name for kind in MONUSAC_KINDS)
FORMATS = {
    "nary_mat": {"format": "nary_mat", "files": "{group}/{case}/{class}/*.mat"},
    "label_image": {"format": "label_image", "files": "{case}.tif", "class_map": "{case}_class.tif",
                    "class_values": {name: number for number, name in enumerate(NAMES, start=1)}},
    "polygons_json": {"format": "polygons_json", "files": "{case}.json", "units": "px", "vertices": "exact",
                      "vanished": "drop", "origin": "pixel_corner"},
}  # fmt: skip


def write_set(folder: Path, images: int, format: str) -> Path:
    """Write ``ground_truth/`` and ``submission/`` into the folder: ``images`` images by the rules of MoNuSAC 2020."""
    rules = {"format_version": 1, "name": "Measured", "preset": "monusac2020", "submission": FORMATS[format]}
    (folder / "ground_truth" / "reference").mkdir(parents=True)
    (folder / "submission").mkdir()
    (folder / "ground_truth" / "challenge.toml").write_text(toml(rules))
    rows = ["case,group,height,width"]
    for index in range(images):
        case, group = f"image{index:03}", f"P{index // 3}"
        rows.append(f"{case},{group},{SIDE_PX},{SIDE_PX}")
        nuclei = draw_nuclei(seeded(1, index), (SIDE_PX, SIDE_PX), NUCLEI)
        reference = folder / "ground_truth" / "reference" / group / f"{case}.xml"
        reference.parent.mkdir(exist_ok=True)
        reference.write_text(aperio_xml(nuclei, None))
        prediction = perturb(seeded(1, index, 1), nuclei, (SIDE_PX, SIDE_PX), TEAM)
        write_submission(folder / "submission", group, case, prediction, format)
    (folder / "ground_truth" / "cases.csv").write_text("\n".join([*rows, ""]))
    return folder


def write_submission(folder: Path, group: str, case: str, prediction: Outlines, format: str) -> None:
    shape = (SIDE_PX, SIDE_PX)
    if format == "nary_mat":
        write_prediction(folder / group / case, prediction, shape)
    elif format == "polygons_json":
        (folder / f"{case}.json").write_bytes(write_polygons_json(prediction, NAMES, case))
    else:
        labels, class_id = label_map(prediction, shape)
        classes = (class_id[labels - 1] * (labels > 0)).astype("u1")
        for name, image in ((f"{case}.tif", labels.astype("u2")), (f"{case}_class.tif", classes)):
            tifffile.imwrite(folder / name, image, compression="zlib", metadata=None)
