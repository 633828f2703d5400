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
from every_format import toml

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
    folder.mkdir(parents=True, exist_ok=True)
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
    (folder / "challenge.toml").write_text(toml(document))
    with (folder / "cases.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(cases[0]))
        writer.writeheader()
        writer.writerows(cases)
    return folder


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
    side = {"format": "rle_csv", "pixel_order": "column", "first_pixel": 1}
    thresholds = [*range(50, 100, 5)]
    challenge = write_rules(
        folder / "challenge",
        classes=["nucleus"],
        cases=case_rows((name, *size) for name, size in sizes.items()),
        reference={**side, "files": "reference/stage1_solution.csv", **KEEP},
        submission={**side, "files": "submission.csv"},
        rules=[*(iou_rule(t / 100, f"iou_{t}") for t in thresholds), iou_rule(0.499999, "at_least_half")],
        families=["detection", "panoptic"],
    )
    link(source / "stage1_solution.csv", challenge / "reference" / "stage1_solution.csv")
    copy(source / f"submission_{team}.csv", folder / "submission" / "submission.csv")
    return Real(challenge, folder / "submission")


# --- points -----------------------------------------------------------------------------------------------------------


def monkey(data: Path, folder: Path, rules: Sequence[Mapping[str, Any]], **submission: Any) -> Real:
    """The points of MONKEY's JSON files as reference; without further rules its ASAP dots are the submission."""
    of_dots = {
        "format": "asap_xml",
        "files": "{case}.xml",
        "shape": "point",
        "origin": "pixel_corner",
        "skip_classes": ["ROI"],
    }
    challenge = write_rules(
        folder / "challenge",
        classes=["lymphocytes", "monocytes"],
        cases=case_rows([("A_P000001", 90_000, 22_000)], spacing_um=MONKEY_UM),
        reference={
            "format": "points_json",
            "files": "reference/{case}_{class}.json",
            "origin": "pixel_corner",
            "units": "px",
        },
        submission=submission or of_dots,
        rules=rules,
    )
    for name in ("lymphocytes", "monocytes"):
        link(data / f"monkey/ground_truth/A_P000001_{name}.json", challenge / f"reference/A_P000001_{name}.json")
    if not submission:
        copy(data / "monkey" / "A_P000001.xml", folder / "submission" / "A_P000001.xml")
    return Real(challenge, folder / "submission")


def monkey_on_the_platform(data: Path, folder: Path) -> Real:
    """MONKEY's own predictions.json, with the points of the reference as outputs, in millimetres."""
    rules = {
        "format": "points_json",
        "files": "{case}/{class}.json",
        "socket": "detected-{class}",
        "case_key": "{case}_PAS_CPG.tif",
        "origin": "pixel_corner",
        "units": "mm",
    }
    real = monkey(data, folder, [radius_rule(5.0, name="near", unit="um")], **rules)
    copy(data / "monkey" / "test" / "predictions.json", real.submission / "predictions.json")
    for name in ("lymphocytes", "monocytes"):
        document = json.loads((data / f"monkey/ground_truth/A_P000001_{name}.json").read_text())
        points = [{"point": [*(v * MONKEY_UM / 1000 for v in entry["point"]), 0.25]} for entry in document["points"]]
        target = real.submission / "A_P000001" / "output" / f"detected-{name}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            json.dumps({"type": "Multiple points", "points": points, "version": {"major": 1, "minor": 0}})
        )
    return real


def evalutils(data: Path, folder: Path, radii: Sequence[float]) -> Real:
    """Points as CSV with blanks in the header."""
    side = {"format": "points_csv", "origin": "pixel_corner", "units": "px"}
    challenge = write_rules(
        folder / "challenge",
        classes=["nucleus"],
        cases=case_rows([("slide", 6700, 8900)]),
        reference={**side, "files": "reference/{case}.csv"},
        submission={**side, "files": "{case}.csv"},
        rules=[
            radius_rule(radius, name=f"{rule}_{radius}", rule=f"centroid_{rule}")
            for radius in radii
            for rule in ("closest_first", "assignment")
        ],
    )
    link(data / "evalutils_points" / "reference.csv", challenge / "reference" / "slide.csv")
    copy(data / "evalutils_points" / "predictions.csv", folder / "submission" / "slide.csv")
    return Real(challenge, folder / "submission")


def midog(data: Path, folder: Path, *, hard_negatives: str) -> Real:
    """MIDOG++ against itself. ``hard_negatives``: "skip" them, or make them a "class"."""
    source = data / "midog" / "databases" / "MIDOG++.json.gz"
    images = json.loads(gzip.decompress(source.read_bytes()))["images"]
    sizes = [(image["file_name"].removesuffix(".tiff"), image["height"], image["width"]) for image in images]
    side: dict[str, Any] = {"format": "midog_json", "origin": "pixel_corner", "case_key": "{case}.tiff"}
    classes = ["mitotic figure", "not mitotic figure"]
    if hard_negatives == "skip":
        side["skip_classes"] = [classes.pop()]
    challenge = write_rules(
        folder / "challenge",
        classes=classes,
        cases=case_rows(sizes),
        reference={**side, "files": "reference/MIDOG++.json.gz"},
        submission={**side, "files": "MIDOG++.json.gz"},
        rules=[radius_rule(25, name="near", rule="centroid_closest_first")],
        families=["detection", "classification"],
    )
    link(source, challenge / "reference" / "MIDOG++.json.gz")
    copy(source, folder / "submission" / "MIDOG++.json.gz")
    return Real(challenge, folder / "submission")


def midog_container(data: Path, folder: Path) -> Real:
    """The container's expected points in millimetres as reference, its other output as submission."""
    side = {"format": "points_json", "origin": "pixel_corner", "units": "mm"}
    challenge = write_rules(
        folder / "challenge",
        classes=[{"name": "mitotic figure", "aliases": [""]}],
        cases=case_rows([("007", 1000, 1000)], spacing_um=0.25),
        reference={**side, "files": "reference/{case}.json", "skip_classes": ["non-mitotic figure"]},
        submission={**side, "files": "{case}.json"},
        rules=[radius_rule(7.5, name="near", unit="um")],
    )
    link(data / "midog" / "test" / "expected_output.json", challenge / "reference" / "007.json")
    copy(data / "midog" / "output" / "mitotic-figures.json", folder / "submission" / "007.json")
    return Real(challenge, folder / "submission")


# --- outlines ---------------------------------------------------------------------------------------------------------


def puma_polygons(data: Path) -> dict[str, list[dict[str, Any]]]:
    """The polygons of the real /input by the name of the case, read without our readers."""
    found = {}
    for job in json.loads((data / "puma" / "submission" / "predictions.json").read_text()):
        (image,) = (value["image"]["name"] for value in job["inputs"])
        file = data / "puma" / "submission" / job["pk"] / "output" / f"{PUMA_SOCKET}.json"
        found[image.removesuffix(".tif")] = json.loads(file.read_text())["polygons"]
    return found


def puma(data: Path, folder: Path, kept: Mapping[str, Sequence[dict[str, Any]]], *, input_as: str = "copy") -> Real:
    """The platform's /input against a reference of ``kept`` polygons as GeoJSON, as QuPath would name their classes."""
    challenge = write_rules(
        folder / "challenge",
        classes=[{"name": name, "aliases": [f"nuclei_{name}"]} for name in PUMA_CLASSES],
        cases=case_rows(((name, 1024, 1024) for name in kept), group="primary"),
        reference={
            "format": "geojson",
            "files": "reference/{case}_nuclei.geojson",
            "shape": "outline",
            **CORNERS,
            **KEEP,
        },
        submission={
            "format": "polygons_json",
            "files": "{case}.json",
            "socket": PUMA_SOCKET,
            "case_key": "{case}.tif",
            "units": "px",
            **CORNERS,
        },
        rules=[iou_rule(0.5), radius_rule(15, name="near", rule="centroid_closest_first")],
    )
    (challenge / "reference").mkdir()
    for name, polygons in kept.items():
        features = [
            {
                "type": "Feature",
                "geometry": {
                    "type": "Polygon",
                    "coordinates": [[point[:2] for point in [*polygon["path_points"], polygon["path_points"][0]]]],
                },
                "properties": {"objectType": "annotation", "classification": {"name": polygon["name"]}},
            }
            for polygon in polygons
        ]
        document = {"type": "FeatureCollection", "features": features}
        (challenge / "reference" / f"{name}_nuclei.geojson").write_text(json.dumps(document))
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
    names = [path.name.split("_nuclei")[0] for path in paths]
    challenge = write_rules(
        folder / "challenge",
        classes=[{"name": name, "aliases": [f"nuclei_{name}"]} for name in PUMA_CLASSES],
        cases=case_rows((name, 1024, 1024) for name in names),
        reference={
            "format": "geojson",
            "files": "reference/{case}_nuclei.geojson",
            "shape": "outline",
            **CORNERS,
            "overlap": overlap,
            "overlap_scope": "image",
        },
        submission=class_map_rules(PUMA_CLASSES),
        rules=[iou_rule(0.5)],
    )
    for path in paths:
        link(path, challenge / "reference" / path.name)
    return Real(challenge, folder / "submission")


def class_map_rules(classes: Sequence[str]) -> dict[str, Any]:
    """What 'evaluation convert --to label_tiff' and 'evaluation rasterise' write."""
    values = {name: number for number, name in enumerate(classes, start=1)}
    return {"format": "label_image", "files": "{case}.tif", "class_map": "{case}_class.tif", "class_values": values}


def monuseg(data: Path, folder: Path, case: str, overlap: str) -> Real:
    """One image of MoNuSeg under an overlap rule; submissions are label images."""
    challenge = write_rules(
        folder / "challenge",
        classes=[{"name": "nucleus", "aliases": [""]}],
        cases=case_rows([(case, 1000, 1000)]),
        reference={
            "format": "aperio_xml",
            "files": "reference/{case}.xml",
            "origin": "pixel_centre",
            "vertices": "exact",
            "vanished": "drop",
            "overlap": overlap,
            "overlap_scope": "image",
        },
        submission={"format": "label_image", "files": "{case}.tif"},
        rules=[iou_rule(0.5)],
        families=["detection", "panoptic"],
    )
    (source,) = (data / "monuseg").glob(f"{case}*.xml.gz")
    link(source, challenge / "reference" / f"{case}.xml.gz")
    return Real(challenge, folder / "submission")


def monusac(data: Path, folder: Path) -> Real:
    """The two genuine images of MoNuSAC 2020 by the preset's rules; submissions are label images."""
    submission = class_map_rules(("Epithelial", "Lymphocyte", "Neutrophil", "Macrophage"))
    document = {"format_version": 1, "name": "MoNuSAC", "preset": "monusac2020", "submission": submission}
    challenge = folder / "challenge"
    challenge.mkdir(parents=True)
    (challenge / "challenge.toml").write_text(toml(document))
    (challenge / "cases.csv").write_text("case,group,height,width\nA9K0_1,A9K0,1153,1307\nA9K0_3,A9K0,185,497\n")
    for name in ("A9K0_1", "A9K0_3"):
        link(data / "monusac" / f"{name}.xml", challenge / "reference" / "A9K0" / f"{name}.xml")
    return Real(challenge, folder / "submission")


# --- COCO -------------------------------------------------------------------------------------------------------------


def consep(data: Path, folder: Path) -> Real:
    """Mask R-CNN's overlapping masks of CoNSeP test_1 against the stitched reference."""
    names = ("inflammatory", "epithelial", "spindle")
    challenge = write_rules(
        folder / "challenge",
        classes=names,
        cases=case_rows([("test_1", 1000, 1000)]),
        reference={
            "format": "label_image",
            "files": "reference/{case}.npy",
            "class_map": "reference/{case}_type.npy",
            "class_values": {name: number for number, name in enumerate(names, start=2)},
            **KEEP,
        },
        submission={
            "format": "coco_json",
            "files": "{case}.json",
            "class_values": {name: number for number, name in enumerate(names, start=1)},
            **CORNERS,
        },
        rules=[iou_rule(0.5)],
    )
    (challenge / "reference").mkdir()
    stitched = np.load(data / "consep" / "test_1_gt_stitched.npz")
    np.save(challenge / "reference" / "test_1.npy", stitched["inst"])
    np.save(challenge / "reference" / "test_1_type.npy", stitched["type"])
    copy(data / "consep" / "predict" / "maskrcnn" / "preds" / "test_1.json", folder / "submission" / "test_1.json")
    return Real(challenge, folder / "submission")


# --- label images -----------------------------------------------------------------------------------------------------


def label_tiffs(data: Path, folder: Path) -> Real:
    """The label TIFFs of StarDist and of NeurIPS CellSeg as one challenge; submissions are GeoJSON."""
    sizes = [
        ("stardist/mask2d.tif", 512, 512),
        ("neurips_cellseg/cell_00225_label.tiff", 1024, 1024),
        ("neurips_cellseg/cell_00528_label.tiff", 200, 200),
        ("neurips_cellseg/cell_00849_label.tiff", 512, 512),
    ]
    challenge = write_rules(
        folder / "challenge",
        classes=["cell"],
        cases=case_rows((Path(name).stem, height, width) for name, height, width in sizes),
        reference={"format": "label_image", "files": "reference/{case}.tif", **KEEP},
        submission={"format": "geojson", "files": "{case}.geojson", "shape": "outline", **CORNERS},
        rules=[iou_rule(0.5)],
    )
    for name, _, _ in sizes:
        link(data / name, challenge / "reference" / f"{Path(name).stem}.tif")
    return Real(challenge, folder / "submission")
