"""Challenges made from the real files of ../shared/data, as their organisers would write them.

Each builder writes challenge.toml and cases.csv, links the reference, copies one submission (whose files may not
be links that lead out of it), and returns both folders.
"""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from every_format import toml, write_files

CORNERS = {"origin": "pixel_corner", "vertices": "exact", "vanished": "drop"}
KEEP = {"overlap": "keep", "overlap_scope": "image"}
MONKEY_UM = 0.24199951
PUMA_CLASSES = ("tumor", "lymphocyte", "plasma_cell", "histiocyte", "melanophage", "neutrophil", "stroma",
                "endothelium", "epithelium", "apoptosis")  # fmt: skip
PUMA_SOCKET = "melanoma-10-class-nuclei-segmentation"


@dataclass(frozen=True)
class Real:
    """The folders of a challenge and of a submission to it."""

    challenge: Path
    submission: Path


def iou_rule(threshold: float, name: str = "iou") -> dict[str, Any]:
    return {"name": name, "rule": "iou_above", "threshold": threshold, "class_aware": False, "ties": "first_pixel"}


def radius_rule(radius: float, *, name: str, rule: str = "centroid_assignment", unit: str = "px") -> dict[str, Any]:
    return {"name": name, "rule": rule, f"radius_{unit}": radius, "class_aware": False, "ties": "first_pixel"}


def write_rules(
    folder: Path,
    *,
    classes: Sequence[str | Mapping[str, Any]],
    cases: Sequence[Mapping[str, Any]],
    reference: Mapping[str, Any],
    submission: Mapping[str, Any],
    rules: Sequence[Mapping[str, Any]],
    families: Sequence[str] = ("detection", "classification", "segmentation", "panoptic"),
) -> Path:
    """challenge.toml and cases.csv."""
    document = {
        "format_version": 1,
        "name": folder.parent.name,
        "classes": [{"name": of_class} if isinstance(of_class, str) else of_class for of_class in classes],
        "reference": reference,
        "submission": {"missing_case": "worst", "missing_class_file": "empty", **submission},
        "matching": {"rules": rules},
        "metrics": {"families": families, "boundary": "open"},
        "aggregation": {"unit": "pooled", "undefined": "skip"},
    }
    rows = [",".join(map(str, row)) for row in (cases[0], *(case.values() for case in cases))]
    return write_files(folder, {"challenge.toml": toml(document), "cases.csv": "\n".join([*rows, ""])})


def build(folder: Path, *, links: Mapping[str, Path], copies: Mapping[str, Path] | None = None, **rules: Any) -> Real:
    """A challenge whose reference consists of links, and the files of one submission."""
    challenge = write_rules(folder / "challenge", **rules)
    for name, source in links.items():
        link(source, challenge / "reference" / name)
    for name, source in (copies or {}).items():
        copy(source, folder / "submission" / name)
    return Real(challenge, folder / "submission")


def in_files(format: str, files: str, **rules: Any) -> dict[str, Any]:
    """The rules of one side."""
    return {"format": format, "files": files, **rules}


def link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(source)


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def case_rows(sizes: Iterable[tuple[str, int, int]], **more: Any) -> list[dict[str, Any]]:
    return [{"case": name, "height": height, "width": width, **more} for name, height, width in sizes]


# --- run-length codes -------------------------------------------------------------------------------------------------


def dsb2018(data: Path, folder: Path, team: str) -> Real:
    """The Data Science Bowl: one class, the ten thresholds of its score. Only the reference knows the sizes."""
    source = data / "dsb2018"
    with (source / "stage1_solution.csv").open(newline="") as file:
        sizes = {row["ImageId"]: (int(row["Height"]), int(row["Width"])) for row in csv.DictReader(file)}
    side = {"pixel_order": "column", "first_pixel": 1}
    thresholds = [*range(50, 100, 5)]
    return build(
        folder,
        classes=["nucleus"],
        cases=case_rows((name, *size) for name, size in sizes.items()),
        reference=in_files("rle_csv", "reference/stage1_solution.csv", **side, **KEEP),
        submission=in_files("rle_csv", "submission.csv", **side),
        rules=[*(iou_rule(t / 100, f"iou_{t}") for t in thresholds), iou_rule(0.499999, "at_least_half")],
        families=["detection", "panoptic"],
        links={"stage1_solution.csv": source / "stage1_solution.csv"},
        copies={"submission.csv": source / f"submission_{team}.csv"},
    )


# --- points -----------------------------------------------------------------------------------------------------------


def monkey(data: Path, folder: Path, rules: Sequence[Mapping[str, Any]], **submission: Any) -> Real:
    """The points of MONKEY's JSON files as reference; without further rules its ASAP dots are the submission."""
    of_dots = in_files("asap_xml", "{case}.xml", shape="point", origin="pixel_corner", skip_classes=["ROI"])
    names = [f"A_P000001_{of_class}.json" for of_class in ("lymphocytes", "monocytes")]
    return build(
        folder,
        classes=["lymphocytes", "monocytes"],
        cases=case_rows([("A_P000001", 90_000, 22_000)], spacing_um=MONKEY_UM),
        reference=in_files("points_json", "reference/{case}_{class}.json", origin="pixel_corner", units="px"),
        submission=submission or of_dots,
        rules=rules,
        links={name: data / "monkey" / "ground_truth" / name for name in names},
        copies={} if submission else {"A_P000001.xml": data / "monkey" / "A_P000001.xml"},
    )


def monkey_on_the_platform(data: Path, folder: Path) -> Real:
    """MONKEY's own predictions.json, with the points of the reference as outputs, in millimetres."""
    sockets = {"socket": "detected-{class}", "case_key": "{case}_PAS_CPG.tif"}
    rules = in_files("points_json", "{case}/{class}.json", origin="pixel_corner", units="mm", **sockets)
    real = monkey(data, folder, [radius_rule(5.0, name="near", unit="um")], **rules)
    copy(data / "monkey" / "test" / "predictions.json", real.submission / "predictions.json")
    for name in ("lymphocytes", "monocytes"):
        document = json.loads((data / f"monkey/ground_truth/A_P000001_{name}.json").read_text())
        points = [{"point": [*(v * MONKEY_UM / 1000 for v in entry["point"]), 0.25]} for entry in document["points"]]
        written = {"type": "Multiple points", "points": points, "version": {"major": 1, "minor": 0}}
        write_files(real.submission / "A_P000001" / "output", {f"detected-{name}.json": written})
    return real


def evalutils(data: Path, folder: Path, radii: Sequence[float]) -> Real:
    """Points as CSV with blanks in the header."""
    side = {"origin": "pixel_corner", "units": "px"}
    return build(
        folder,
        classes=["nucleus"],
        cases=case_rows([("slide", 6700, 8900)]),
        reference=in_files("points_csv", "reference/{case}.csv", **side),
        submission=in_files("points_csv", "{case}.csv", **side),
        rules=[
            radius_rule(radius, name=f"{rule}_{radius}", rule=f"centroid_{rule}")
            for radius in radii
            for rule in ("closest_first", "assignment")
        ],
        links={"slide.csv": data / "evalutils_points" / "reference.csv"},
        copies={"slide.csv": data / "evalutils_points" / "predictions.csv"},
    )


def midog(data: Path, folder: Path, *, hard_negatives: str) -> Real:
    """MIDOG++ against itself. ``hard_negatives``: "skip" them, or make them a "class"."""
    source = data / "midog" / "databases" / "MIDOG++.json.gz"
    images = json.loads(gzip.decompress(source.read_bytes()))["images"]
    sizes = [(image["file_name"].removesuffix(".tiff"), image["height"], image["width"]) for image in images]
    side: dict[str, Any] = {"origin": "pixel_corner", "case_key": "{case}.tiff"}
    classes = ["mitotic figure", "not mitotic figure"]
    if hard_negatives == "skip":
        side["skip_classes"] = [classes.pop()]
    return build(
        folder,
        classes=classes,
        cases=case_rows(sizes),
        reference=in_files("midog_json", "reference/MIDOG++.json.gz", **side),
        submission=in_files("midog_json", "MIDOG++.json.gz", **side),
        rules=[radius_rule(25, name="near", rule="centroid_closest_first")],
        families=["detection", "classification"],
        links={"MIDOG++.json.gz": source},
        copies={"MIDOG++.json.gz": source},
    )


def midog_container(data: Path, folder: Path) -> Real:
    """The container's expected points in millimetres as reference, its other output as submission."""
    side = {"origin": "pixel_corner", "units": "mm"}
    return build(
        folder,
        classes=[{"name": "mitotic figure", "aliases": [""]}],
        cases=case_rows([("007", 1000, 1000)], spacing_um=0.25),
        reference=in_files("points_json", "reference/{case}.json", skip_classes=["non-mitotic figure"], **side),
        submission=in_files("points_json", "{case}.json", **side),
        rules=[radius_rule(7.5, name="near", unit="um")],
        links={"007.json": data / "midog" / "test" / "expected_output.json"},
        copies={"007.json": data / "midog" / "output" / "mitotic-figures.json"},
    )


# --- outlines ---------------------------------------------------------------------------------------------------------


def puma_polygons(data: Path) -> dict[str, list[dict[str, Any]]]:
    """The polygons of the real /input by the name of the case, read without our readers."""
    found = {}
    for job in json.loads((data / "puma" / "submission" / "predictions.json").read_text()):
        (image,) = (value["image"]["name"] for value in job["inputs"])
        file = data / "puma" / "submission" / job["pk"] / "output" / f"{PUMA_SOCKET}.json"
        found[image.removesuffix(".tif")] = json.loads(file.read_text())["polygons"]
    return found


OF_PUMA = [{"name": name, "aliases": [f"nuclei_{name}"]} for name in PUMA_CLASSES]


def puma(data: Path, folder: Path, kept: Mapping[str, Sequence[dict[str, Any]]], *, input_as: str = "copy") -> Real:
    """The platform's /input against a reference of ``kept`` polygons as GeoJSON, as QuPath would name their classes."""
    challenge = write_rules(
        folder / "challenge",
        classes=OF_PUMA,
        cases=case_rows(((name, 1024, 1024) for name in kept), group="primary"),
        reference=in_files("geojson", "reference/{case}_nuclei.geojson", shape="outline", **CORNERS, **KEEP),
        submission=in_files(
            "polygons_json", "{case}.json", socket=PUMA_SOCKET, case_key="{case}.tif", units="px", **CORNERS
        ),
        rules=[iou_rule(0.5), radius_rule(15, name="near", rule="centroid_closest_first")],
    )
    for name, polygons in kept.items():
        features = []
        for polygon in polygons:
            ring = [point[:2] for point in [*polygon["path_points"], polygon["path_points"][0]]]
            geometry = {"type": "Polygon", "coordinates": [ring]}
            properties = {"objectType": "annotation", "classification": {"name": polygon["name"]}}
            features.append({"type": "Feature", "geometry": geometry, "properties": properties})
        document = {"type": "FeatureCollection", "features": features}
        write_files(challenge / "reference", {f"{name}_nuclei.geojson": document})
    if input_as == "link":
        link(data / "puma" / "submission", folder / "input")
    else:
        shutil.copytree(data / "puma" / "submission", folder / "input", copy_function=shutil.copyfile)
        for path in [folder / "input", *(path for path in (folder / "input").rglob("*") if path.is_dir())]:
            path.chmod(0o755)
    return Real(challenge, folder / "input")


def puma_reference(data: Path, folder: Path, overlap: str) -> Real:
    """The references of PUMA as they are published, under one overlap rule; submissions are label images."""
    paths = sorted((data / "puma" / "reference").iterdir())
    rules = {"shape": "outline", **CORNERS, "overlap": overlap, "overlap_scope": "image"}
    return build(
        folder,
        classes=OF_PUMA,
        cases=case_rows((path.name.split("_nuclei")[0], 1024, 1024) for path in paths),
        reference=in_files("geojson", "reference/{case}_nuclei.geojson", **rules),
        submission=class_map_rules(PUMA_CLASSES),
        rules=[iou_rule(0.5)],
        links={path.name: path for path in paths},
    )


def class_map_rules(classes: Sequence[str]) -> dict[str, Any]:
    """What 'evaluation convert --to label_tiff' and 'evaluation rasterise' write."""
    values = {name: number for number, name in enumerate(classes, start=1)}
    return in_files("label_image", "{case}.tif", class_map="{case}_class.tif", class_values=values)


def monuseg(data: Path, folder: Path, case: str, overlap: str) -> Real:
    """One image of MoNuSeg under an overlap rule; submissions are label images."""
    (source,) = (data / "monuseg").glob(f"{case}*.xml.gz")
    rules = {**CORNERS, "origin": "pixel_centre", "overlap": overlap, "overlap_scope": "image"}
    return build(
        folder,
        classes=[{"name": "nucleus", "aliases": [""]}],
        cases=case_rows([(case, 1000, 1000)]),
        reference=in_files("aperio_xml", "reference/{case}.xml", **rules),
        submission=in_files("label_image", "{case}.tif"),
        rules=[iou_rule(0.5)],
        families=["detection", "panoptic"],
        links={f"{case}.xml.gz": source},
    )


def monusac(data: Path, folder: Path) -> Real:
    """The two genuine images of MoNuSAC 2020 by the preset's rules; submissions are label images."""
    submission = class_map_rules(("Epithelial", "Lymphocyte", "Neutrophil", "Macrophage"))
    document = {"format_version": 1, "name": "MoNuSAC", "preset": "monusac2020", "submission": submission}
    cases = "case,group,height,width\nA9K0_1,A9K0,1153,1307\nA9K0_3,A9K0,185,497\n"
    challenge = write_files(folder / "challenge", {"challenge.toml": toml(document), "cases.csv": cases})
    for name in ("A9K0_1", "A9K0_3"):
        link(data / "monusac" / f"{name}.xml", challenge / "reference" / "A9K0" / f"{name}.xml")
    return Real(challenge, folder / "submission")


# --- COCO and label images --------------------------------------------------------------------------------------------


def consep(data: Path, folder: Path) -> Real:
    """Mask R-CNN's overlapping masks of CoNSeP test_1 against the stitched reference."""
    names = ("inflammatory", "epithelial", "spindle")
    values = [{name: number for number, name in enumerate(names, start=first)} for first in (2, 1)]
    rules = {"class_map": "reference/{case}_type.npy", "class_values": values[0], **KEEP}
    real = build(
        folder,
        classes=names,
        cases=case_rows([("test_1", 1000, 1000)]),
        reference=in_files("label_image", "reference/{case}.npy", **rules),
        submission=in_files("coco_json", "{case}.json", class_values=values[1], **CORNERS),
        rules=[iou_rule(0.5)],
        links={},
        copies={"test_1.json": data / "consep" / "predict" / "maskrcnn" / "preds" / "test_1.json"},
    )
    stitched = np.load(data / "consep" / "test_1_gt_stitched.npz")
    (real.challenge / "reference").mkdir()
    np.save(real.challenge / "reference" / "test_1.npy", stitched["inst"])
    np.save(real.challenge / "reference" / "test_1_type.npy", stitched["type"])
    return real


def label_tiffs(data: Path, folder: Path) -> Real:
    """The label TIFFs of StarDist and of NeurIPS CellSeg as one challenge; submissions are GeoJSON."""
    sizes = [
        ("stardist/mask2d.tif", 512, 512),
        ("neurips_cellseg/cell_00225_label.tiff", 1024, 1024),
        ("neurips_cellseg/cell_00528_label.tiff", 200, 200),
        ("neurips_cellseg/cell_00849_label.tiff", 512, 512),
    ]
    return build(
        folder,
        classes=["cell"],
        cases=case_rows((Path(name).stem, height, width) for name, height, width in sizes),
        reference=in_files("label_image", "reference/{case}.tif", **KEEP),
        submission=in_files("geojson", "{case}.geojson", shape="outline", **CORNERS),
        rules=[iou_rule(0.5)],
        links={f"{Path(name).stem}.tif": data / name for name, _, _ in sizes},
    )
