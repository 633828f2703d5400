"""A small challenge in every format, made from the example files of ``evaluation.platform.kit``.

``counts_csv`` is not among them: numbers of nuclei have no rule of matching and one family of metrics, so nothing that
is asked of the others can be asked of them. They have ``tests/test_counts.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.challenge import Challenge, format_rules
from evaluation.files.formats.format import image_bytes
from evaluation.platform.kit import example_files
from nuclei_metrics.model import Case

CASES = (Case("c1", "P1", 20, 30, 0.25, 0), Case("c2", "P1", 20, 30, 0.25, 1), Case("c3", "P2", 20, 30, 0.25, 2))
CLASSES = ("Epithelial", "Lymphocyte")
VALUES = {"Epithelial": 1, "Lymphocyte": 2}
CHANNELS = {"Epithelial": 0, "Lymphocyte": 3}
OUTLINES = {"vertices": "exact", "vanished": "drop", "origin": "pixel_corner"}
COLOURS = {"colours": {"Epithelial": "#ff0000", "Lymphocyte": "#ffff00"}, "border_colour": "#00ff00"}

SIDES: dict[str, dict[str, Any]] = {
    "aperio_xml": {**OUTLINES, "files": "{group}/{case}.xml"},
    "asap_xml outlines": {**OUTLINES, "files": "{case}.xml", "shape": "outline"},
    "asap_xml points": {"files": "{case}.xml", "shape": "point", "origin": "pixel_corner"},
    "geojson outlines": {**OUTLINES, "files": "{case}.geojson", "shape": "outline"},
    "geojson points": {"files": "{case}.geojson", "shape": "point", "origin": "pixel_centre"},
    "polygons_json": {**OUTLINES, "files": "{case}.json", "units": "px"},
    "polygons_json in mm": {**OUTLINES, "files": "{case}.json", "units": "mm"},
    "points_json": {"files": "{case}.json", "origin": "pixel_centre", "units": "um"},
    "points_json by class": {"files": "{case}/{class}.json", "origin": "pixel_corner", "units": "px"},
    "points_csv": {"files": "{case}.csv", "origin": "pixel_centre", "units": "px"},
    "points_csv shared": {"files": "points.csv", "origin": "pixel_centre", "units": "px", "case_key": "{case}.png"},
    "points_csv without header": {
        "files": "{case}.csv", "origin": "pixel_centre", "units": "px",
        "columns": ("x", "y", "class"), "class_values": {"Epithelial": 0, "Lymphocyte": 1},
    },
    "nucls_csv": {**OUTLINES, "files": "{case}.csv", "class_column": "main_classification"},
    "midog_json": {"files": "{case}.json", "origin": "pixel_centre"},
    "midog_json shared": {"files": "all.json", "origin": "pixel_centre", "case_key": "{case}.tiff"},
    "coco_json": {**OUTLINES, "files": "{case}.json"},
    "coco_json shared": {**OUTLINES, "files": "all.json", "case_key": "{case}.png"},
    "rle_csv": {"files": "codes.csv", "pixel_order": "column", "first_pixel": 1},
    "rle_csv by rows": {"files": "codes.csv", "pixel_order": "row", "first_pixel": 0},
    "label_image by class": {"files": "{case}/{class}.tif"},
    "label_image class map npy": {"files": "{case}.npy", "class_map": "{case}_class.npy", "class_values": VALUES},
    "label_image class map tif": {"files": "{case}.tif", "class_map": "{case}_class.tif", "class_values": VALUES},
    "label_image class map png": {"files": "{case}.png", "class_map": "{case}_class.png", "class_values": VALUES},
    "label_image class table": {"files": "{case}.png", "class_table": "{case}.csv"},
    "label_image channel npz": {"files": "{case}.npz", "class_channel": 1, "class_values": VALUES},
    "label_image channel mha": {"files": "{case}.mha", "class_channel": 0, "class_values": VALUES},
    "nary_mat": {"files": "{group}/{case}/{class}/*.mat"},
    "nary_mat class map": {"files": "{case}.mat", "class_map": "{case}_class.mat", "class_values": VALUES},
    "hovernet_mat": {"files": "{case}.mat", "class_values": VALUES},
    "conic_array": {"files": "pred.npy", "class_values": VALUES},
    "pannuke_masks": {"files": "{case}.npy", "class_values": CHANNELS},
    "pannuke_masks shared": {"files": "masks.npy", "class_values": CHANNELS},
    "contours_json hovernet": {
        **OUTLINES, "files": "{case}.json", "shape": "outline", "tool": "hovernet", "origin": "pixel_centre",
        "class_values": VALUES,
    },
    "contours_json cellvit": {
        **OUTLINES, "files": "{case}.json", "shape": "outline", "tool": "cellvit", "origin": "pixel_centre",
    },
    "contours_json cellvit points": {
        "files": "{case}.json", "shape": "point", "tool": "cellvit", "origin": "pixel_centre",
    },
    "contours_json labelme": {**OUTLINES, "files": "{case}.json", "shape": "outline", "tool": "labelme"},
    "yolo_txt": {**OUTLINES, "files": "{case}.txt", "class_values": {"Epithelial": 0, "Lymphocyte": 1}},
    "colour_map": {"files": "{case}.png", "border": "remove", **COLOURS},
    "colour_map dilated": {"files": "{case}.png", "border": "remove_and_dilate", **COLOURS},
}  # fmt: skip


def rules_of(kind: str) -> dict[str, Any]:
    """The keys of one side, its format among them."""
    return {"format": kind.split()[0], **SIDES[kind]}


def challenge_document(kind: str, cases: tuple[Case, ...] = CASES) -> dict[str, Any]:
    """A whole challenge whose reference and submission have the same format."""
    side = rules_of(kind)
    iou = {"name": "iou_above", "rule": "iou_above", "threshold": 0.5}
    near = {"name": "near", "rule": "centroid_closest_first", "radius_px": 3.0}
    families = ("detection", "classification", "segmentation", "panoptic")
    rules = [near] if format_rules(**side).are_points else [iou, near]
    document = small_document(side, *rules, name=f"Example of {kind}", classes=CLASSES, families=families, unit="group")
    document["reference"]["files"] = document["reference"]["files"].replace("*", "1")
    return {**document, "cases": cases}


def small_document(
    side: Mapping[str, Any],
    *rules: Mapping[str, Any],
    name: str = "Small",
    classes: Sequence[str] = ("nucleus",),
    families: Sequence[str] = ("detection",),
    unit: str = "pooled",
    border: str = "open",
    **tables: Any,
) -> dict[str, Any]:
    """A challenge whose sides are in files of one form, matched by these rules; ``tables`` go before what is here."""
    reference = dict(side)
    for key in ("files", "class_map", "class_table"):
        if key in reference:
            reference[key] = f"reference/{reference[key]}"
    if side["format"] != "counts_csv" and not format_rules(**side).are_points:
        reference |= {"overlap": "keep", "overlap_scope": "image"}
    matching = {"matching": {"rules": [{"class_aware": False, "ties": "first_pixel", **rule} for rule in rules]}}
    return {
        "format_version": 1,
        "name": name,
        "classes": [{"name": of_class} for of_class in classes],
        "reference": reference,
        "submission": {**side, "missing_case": "worst", "missing_class_file": "empty"},
        **(matching if rules else {}),
        "metrics": {"families": list(families), "boundary": border},
        "aggregation": {"unit": unit, "undefined": "skip"},
        **tables,
    }


def write_challenge(kind: str, folder: Path) -> tuple[Path, Path]:
    """Write a challenge and a perfect submission; returns both folders."""
    return write_both(challenge_document(kind), folder)


def write_both(document: dict[str, Any], folder: Path) -> tuple[Path, Path]:
    """A challenge with its reference, and a perfect submission."""
    challenge = Challenge.build(document)
    for rules, side in ((challenge.reference, "challenge"), (challenge.submission, "submission")):
        write_files(folder / side, example_files(challenge, rules, challenge.cases))
    return write_rules(document, folder / "challenge"), folder / "submission"


def write_rules(document: Mapping[str, Any], folder: Path) -> Path:
    """challenge.toml and cases.csv."""
    rows = [(c.name, c.group, c.height, c.width, c.spacing_um, c.index) for c in document["cases"]]
    lines = [",".join("" if value is None else str(value) for value in row) for row in rows]
    text = "\n".join(["case,group,height,width,spacing_um,index", *lines, ""])
    rules = toml({key: value for key, value in document.items() if key != "cases"})
    return write_files(folder, {"cases.csv": text, "challenge.toml": rules})


def write_files(folder: Path, files: Mapping[str, Any]) -> Path:
    """Files by their names: bytes, or what makes them, texts, arrays in the format of the suffix, values as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        made = content() if callable(content) else content
        if hasattr(made, "dtype"):
            made = image_bytes(made, name)
        elif not isinstance(made, str | bytes):
            made = json.dumps(made)
        path.write_bytes(made if isinstance(made, bytes) else made.encode())
    return folder


def toml(document: dict[str, Any]) -> str:
    """A document as TOML, all on single lines."""
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in document.items())


def toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else f'"{value}"'
