"""What hostile nuclei cost: ten shapes at n and at 2n, in every format of outlines, runs and masks, through ``score``.

In masks the later nucleus has the pixel, and there is an eleventh shape: nuclei strewn over the image pixel by pixel.
Files are decoded in this process, so that the time and the memory of it count.

    python -m benchmarks.complexity                   all shapes in all formats: processor time, memory, ratios
    python -m benchmarks.complexity stacked 20000     one shape at one n
    python -m benchmarks.complexity --assignment      points of which one side lies beside the other, up to the bound
    python -m benchmarks.complexity --endless         submissions of files whose decoding never ends
    python -m benchmarks.complexity --many            names, files, stores, keys and findings, at n and 2n

The submission holds the shape, the reference ordinary nuclei, unless both sides are asked for with ``--both``. Every
measurement is a process of its own. ``tests/test_complexity.py`` counts operations on the same shapes, much smaller.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from evaluation.challenge import Challenge
from evaluation.files.decoding import guard
from evaluation.files.formats.imports import find_stores
from evaluation.findings import fault, render_findings
from evaluation.findings.errors import EvaluationError
from evaluation.folders.pairs import pair_names
from evaluation.folders.source import list_files
from evaluation.platform.kit import example_files
from evaluation.scoring.street import check_submission, score_submission
from nuclei_metrics.errors import TooManyPairs
from nuclei_metrics.instances.prepare import resolve_overlaps
from nuclei_metrics.instances.rasterise import rasterise_outlines
from nuclei_metrics.matching.rules import match_centroid_assignment
from nuclei_metrics.model import Case, Instances, Outlines

ROOT = Path(__file__).resolve().parents[1]
Ring = list[tuple[float, float]]
COMPUTED = "evaluation.files.formats.yield_annotations"
CLASSES = 40
MOST_TIMES = 2.4  # what 2n may cost, where n costs 1
OUTLINE_RULES = {"vertices": "exact", "vanished": "drop", "origin": "pixel_corner"}
RULES: tuple[dict[str, Any], ...] = (
    {"rule": "iou_above", "threshold": 0.5},
    {"rule": "iou_assignment", "threshold": 0.0},
    {"rule": "best_iou_centroid_inside"},
    {"rule": "best_iou_any_overlap"},
    {"rule": "centroid_closest_first", "radius_px": 6.0},
    {"rule": "centroid_assignment", "radius_px": 6.0},
    {"rule": "hausdorff_closest_first", "radius_px": 6.0},
    {"rule": "confidence_first", "radius_px": 6.0},
)
OVERLAP_RULES = ("keep", "last", "first", "smallest", "class_order", "ignore")
FAMILIES = ("detection", "classification", "segmentation", "panoptic", "thresholds", "overlap", "objects", "counting")


@dataclass(frozen=True, slots=True)
class Nucleus:
    """An outline in px, its holes, and its class, 1…``CLASSES``."""

    outer: Ring
    holes: tuple[Ring, ...] = ()
    class_id: int = 1


@dataclass(frozen=True, slots=True)
class Picture:
    """The nuclei of one side of an image of (H, W) px."""

    nuclei: list[Nucleus]
    shape_yx: tuple[int, int]


# --- shapes -----------------------------------------------------------------------------------------------------------


def box(left: int, top: int, width: int, height: int) -> Ring:
    return [(left, top), (left + width, top), (left + width, top + height), (left, top + height)]


def stacked(n: int) -> Picture:
    """n squares of 12 px on the same pixels."""
    return Picture([Nucleus(box(40, 40, 12, 12))] * n, (128, 128))


def nested(n: int) -> Picture:
    """n squares in each other, of fifty sizes."""
    sizes = [10 + 2 * (place % 50) for place in range(n)]
    return Picture([Nucleus(box(64 - size // 2, 64 - size // 2, size, size)) for size in sizes], (128, 128))


def comb(n: int) -> Picture:
    """One nucleus with n teeth."""
    outer: Ring = [(4 * n, 1.0), (0, 1.0)]
    for tooth in range(n):
        outer += [(4 * tooth, 30), (4 * tooth + 2, 30), (4 * tooth + 2, 4), (4 * tooth + 4, 4)]
    return Picture([Nucleus(outer)], (40, 4 * n + 8))


def spiral(n: int) -> Picture:
    """One nucleus that winds around itself and has some n pixels."""
    turns = max(2, round(math.sqrt(n) / 3))
    middle = 4 * turns + 2
    arm = [
        (middle + (1 if corner in (0, 3) else -1) * 4 * turn, middle + (1 if corner < 2 else -1) * 4 * turn)
        for turn in range(1, turns + 1)
        for corner in range(4)
    ]
    back = [(x - math.copysign(2, x - middle), y - math.copysign(2, y - middle)) for x, y in reversed(arm)]
    return Picture([Nucleus([*arm, *back])], (2 * middle, 2 * middle))


def checkerboard(n: int) -> Picture:
    """n nuclei of one pixel that touch at their corners."""
    side = 2 * math.ceil(math.sqrt(n / 2))
    cells = [(2 * column + row % 2, row) for row in range(side) for column in range(side // 2)][:n]
    return Picture([Nucleus(box(*cell, 1, 1)) for cell in cells], (max(side, 64), max(side + 1, 64)))


def stripes(n: int) -> Picture:
    """n nuclei of one row from border to border, with a row between them."""
    return Picture([Nucleus(box(0, 2 * place, 200, 1)) for place in range(n)], (2 * n, 200))


def one_pixel(n: int) -> Picture:
    """n nuclei on one pixel."""
    return Picture([Nucleus(box(45, 45, 1, 1))] * n, (128, 128))


def image_size(n: int) -> Picture:
    """n nuclei that fill the image."""
    return Picture([Nucleus(box(0, 0, 100, 100))] * n, (100, 100))


def many_holes(n: int) -> Picture:
    """One nucleus with n holes of one pixel."""
    side = math.ceil(math.sqrt(n))
    holes = [box(2 + 3 * (place % side), 2 + 3 * (place // side), 1, 1) for place in range(n)]
    size = 3 * side + 4
    return Picture([Nucleus(box(1, 1, size - 2, size - 2), tuple(holes))], (max(size, 64), max(size, 64)))


def many_classes(n: int) -> Picture:
    """n squares in twenty piles, of forty classes."""
    places = [(place % 20, 1 + place % CLASSES) for place in range(n)]
    return Picture([Nucleus(box(6 * pile, 40, 12, 12), (), class_id) for pile, class_id in places], (128, 160))


SHAPES: dict[str, Callable[[int], Picture]] = {
    shape.__name__: shape
    for shape in (
        stacked, nested, comb, spiral, checkerboard, stripes, one_pixel, image_size, many_holes, many_classes
    )
}  # fmt: skip


def ordinary(shape_yx: tuple[int, int]) -> Picture:
    """Up to a hundred squares of 12 px beside each other."""
    height, width = shape_yx
    corners = [(left, top) for top in range(0, height - 12, 14) for left in range(0, width - 12, 14)][:100]
    return Picture([Nucleus(box(*corner, 12, 12), (), 1 + corner[0] % 2) for corner in corners], shape_yx)


def instances_of(picture: Picture) -> Instances:
    """The picture as the program draws it."""
    rings = [ring for nucleus in picture.nuclei for ring in (nucleus.outer, *nucleus.holes)]
    owners = [place for place, nucleus in enumerate(picture.nuclei) for _ in range(1 + len(nucleus.holes))]
    outlines = Outlines(
        points_xy=np.array([point for ring in rings for point in ring], np.float64).reshape(-1, 2),
        ring_start=np.cumsum([0, *map(len, rings)]),
        ring_instance=np.array(owners, np.int32),
        ring_is_hole=np.diff(owners, prepend=-1) == 0,
        class_id=np.array([nucleus.class_id for nucleus in picture.nuclei], np.int16),
        source_id=np.arange(len(picture.nuclei)).astype(object),
    )
    return rasterise_outlines(outlines, picture.shape_yx, vertices="exact", vanished="drop", origin="pixel_corner")


# --- formats ----------------------------------------------------------------------------------------------------------


def class_name(nucleus: Nucleus) -> str:
    return f"c{nucleus.class_id}"


def as_geojson(picture: Picture) -> str:
    features = [
        {
            "type": "Feature",
            "geometry": {
                "type": "Polygon",
                "coordinates": [[*ring, ring[0]] for ring in (nucleus.outer, *nucleus.holes)],
            },
            "properties": {"classification": {"name": class_name(nucleus)}},
        }
        for nucleus in picture.nuclei
    ]
    return json.dumps({"type": "FeatureCollection", "features": features})


def as_polygons_json(picture: Picture) -> str:
    """The format knows no holes."""
    polygons = [
        {"name": class_name(nucleus), "path_points": [[x, y, 0.5] for x, y in nucleus.outer]}
        for nucleus in picture.nuclei
    ]
    return json.dumps({"type": "Multiple polygons", "polygons": polygons, "version": {"major": 1, "minor": 0}})


def as_coco_json(picture: Picture) -> str:
    """The format knows no holes."""
    annotations = [
        {
            "id": number,
            "image_id": 1,
            "category_id": nucleus.class_id,
            "segmentation": [[value for point in nucleus.outer for value in point]],
            "iscrowd": 0,
        }
        for number, nucleus in enumerate(picture.nuclei, start=1)
    ]
    height, width = picture.shape_yx
    images = [{"id": 1, "file_name": "c1", "height": height, "width": width}]
    categories = [{"id": number, "name": f"c{number}"} for number in range(1, CLASSES + 1)]
    return json.dumps({"images": images, "annotations": annotations, "categories": categories})


def as_aperio_xml(picture: Picture) -> str:
    layers: dict[str, list[str]] = {}
    number = 0
    for nucleus in picture.nuclei:
        for ring in (nucleus.outer, *nucleus.holes):
            number += 1
            hole = "" if ring is nucleus.outer else ' NegativeROA="1"'
            vertices = "".join(f'<Vertex X="{x}" Y="{y}"/>' for x, y in ring)
            region = f'<Region Id="{number}"{hole}><Vertices>{vertices}</Vertices></Region>'
            layers.setdefault(class_name(nucleus), []).append(region)
    annotations = "".join(
        f'<Annotation Id="{layer}"><Attributes><Attribute Name="{name}"/></Attributes>'
        f"<Regions>{''.join(regions)}</Regions></Annotation>"
        for layer, (name, regions) in enumerate(layers.items(), start=1)
    )
    return f"<Annotations>{annotations}</Annotations>"


def as_asap_xml(picture: Picture) -> str:
    """The format knows no holes."""
    annotations = [
        f'<Annotation Name="{number}" Type="Polygon" PartOfGroup="{class_name(nucleus)}"><Coordinates>'
        + "".join(f'<Coordinate Order="{order}" X="{x}" Y="{y}"/>' for order, (x, y) in enumerate(nucleus.outer))
        + "</Coordinates></Annotation>"
        for number, nucleus in enumerate(picture.nuclei)
    ]
    return f"<ASAP_Annotations><Annotations>{''.join(annotations)}</Annotations></ASAP_Annotations>"


def as_nucls_csv(picture: Picture) -> str:
    """The format knows no holes."""
    rows = ["main_classification,type,xmin,ymin,xmax,ymax,coords_x,coords_y"]
    for nucleus in picture.nuclei:
        x, y = (np.array(nucleus.outer).T).tolist()
        corners = f"{min(x)},{min(y)},{max(x)},{max(y)}"
        lists = (",".join(map(str, values)) for values in (x, y))
        rows.append(f'{class_name(nucleus)},polyline,{corners},"{next(lists)}","{next(lists)}"')
    return "\n".join([*rows, ""])


def as_rle_csv(picture: Picture) -> str:
    instances = instances_of(picture)
    order = np.argsort(instances.run_instance, kind="stable")
    start, length = instances.run_start[order], (instances.run_stop - instances.run_start)[order]
    codes = np.stack([start, length], axis=1)
    bounds = np.searchsorted(instances.run_instance[order], np.arange(len(instances) + 1)).tolist()
    rows = [
        f"c1,{' '.join(map(str, codes[first:last].ravel().tolist()))},c{class_id}"
        for (first, last), class_id in zip(pairwise(bounds), instances.class_id.tolist(), strict=True)
    ]
    return "\n".join(["image_id,rle,class", *rows, ""])


@dataclass(frozen=True, slots=True)
class Format:
    """A format: how it is written, the name of its files, and its keys in challenge.toml."""

    write: Callable[[Picture], str]
    files: str
    keys: dict[str, Any]


FORMATS: dict[str, Format] = {
    "geojson": Format(as_geojson, "{case}.geojson", {"shape": "outline", **OUTLINE_RULES}),
    "polygons_json": Format(as_polygons_json, "{case}.json", {"units": "px", **OUTLINE_RULES}),
    "aperio_xml": Format(as_aperio_xml, "{case}.xml", OUTLINE_RULES),
    "coco_json": Format(as_coco_json, "{case}.json", OUTLINE_RULES),
    "asap_xml": Format(as_asap_xml, "{case}.xml", {"shape": "outline", **OUTLINE_RULES}),
    "nucls_csv": Format(as_nucls_csv, "{case}.csv", {"class_column": "main_classification", **OUTLINE_RULES}),
    "rle_csv": Format(as_rle_csv, "codes.csv", {"pixel_order": "row", "first_pixel": 0}),
}


VALUES = {f"c{number}": number for number in range(1, CLASSES + 1)}
CLASS_MAP = {"class_values": VALUES, "class_map": "{case}_class.tif"}
MASKS: dict[str, dict[str, Any]] = {
    "label_image tif": {"files": "{case}.tif", **CLASS_MAP},
    "label_image npz": {"files": "{case}.npz", **CLASS_MAP},
    "label_image mha": {"files": "{case}.mha", **CLASS_MAP},
    "label_image nii.gz": {"files": "{case}.nii.gz", **CLASS_MAP},
    "label_image png, class table": {"files": "{case}.png", "class_table": "{case}.csv"},
    "label_image by class": {"files": "{case}/{class}.tif"},
    "label_image components": {"files": "{case}.png", "components": 4, "class_values": VALUES},
    "nary_mat": {"files": "{case}/{class}/*.mat"},
    "hovernet_mat": {"files": "{case}.mat", "class_values": VALUES},
    "conic_array": {"files": "pred.npy", "class_values": VALUES},
    "pannuke_masks": {"files": "{case}.npy", "class_values": VALUES},
    "colour_map": {
        "files": "{case}.png",
        "border": "remove",
        "border_colour": "#00ff00",
        "colours": {name: f"#ff{number:02x}00" for name, number in VALUES.items()},
    },
}


def scattered(n: int) -> Instances:
    """n nuclei of nine pixels, each strewn over the whole image."""
    side = 3 * math.ceil(math.sqrt(n))
    place = np.arange(side * side)
    nucleus = (place % n).astype(np.int32)
    return Instances(
        shape_yx=(side, side),
        class_id=(np.arange(n) % CLASSES + 1).astype(np.int16),
        source_id=np.arange(1, n + 1),
        run_start=place,
        run_stop=place + 1,
        run_instance=nucleus,
    )


def mask_of(shape: str, n: int) -> Instances:
    """A shape as a mask can hold it: no pixel has two nuclei."""
    if shape == scattered.__name__:
        return scattered(n)
    kept = resolve_overlaps(instances_of(SHAPES[shape](n)), "last", "image").instances
    return replace(kept, source_id=np.arange(1, len(kept) + 1))


def write_masks(folder: Path, kind: str, reference: Instances, prediction: Instances) -> None:
    """As ``write_challenge``, in a format of masks."""
    case = Case("c1", "P1", *prediction.shape_yx, index=0)
    document = challenge_document({"format": kind.split()[0], **MASKS[kind]}, "keep")
    challenge = Challenge.build({**document, "cases": [case]})
    folders = {"challenge": (challenge.reference, reference), "submission": (challenge.submission, prediction)}
    (folder / "challenge").mkdir(parents=True, exist_ok=True)
    for place, (rules, instances) in folders.items():
        with patch("evaluation.files.formats.format.example_instances", lambda *_, made=instances: made):
            files = example_files(challenge, rules, [case])
        for name, content in files.items():
            path = folder / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    write_rules(folder / "challenge", document, case)


def toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value)


def challenge_document(side: dict[str, Any], overlap: str) -> dict[str, Any]:
    """A challenge with all matching rules, whose reference and submission have the same format."""
    reference = dict(side, overlap=overlap, overlap_scope="image")
    for key in ("files", "class_map", "class_table"):
        if key in side:
            reference[key] = f"reference/{side[key]}".replace("*", "1")
    return {
        "format_version": 1,
        "name": "complexity",
        "classes": [{"name": f"c{number}"} for number in range(1, CLASSES + 1)],
        "reference": reference | ({"ignore": {"policy": "clip"}} if overlap == "ignore" else {}),
        "submission": {**side, "missing_case": "worst", "missing_class_file": "empty"},
        "matching": {
            "rules": [{**rule, "name": rule["rule"], "class_aware": False, "ties": "first_pixel"} for rule in RULES]
        },
        "metrics": {"families": list(FAMILIES), "boundary": "open", "iou_thresholds": [0.5, 0.75]},
        "aggregation": {"unit": "group", "undefined": "skip"},
    }


def write_rules(folder: Path, document: dict[str, Any], case: Case) -> None:
    (folder / "challenge.toml").write_text("".join(f"{key} = {toml_value(value)}\n" for key, value in document.items()))
    (folder / "cases.csv").write_text(f"case,group,height,width,index\nc1,P1,{case.height},{case.width},0\n")


def write_challenge(folder: Path, kind: str, reference: Picture, prediction: Picture, *, overlap: str = "keep") -> None:
    """A challenge of one case with all matching rules, and a submission."""
    form = FORMATS[kind]
    file = form.files.format(case="c1")
    for name, picture in ((f"challenge/reference/{file}", reference), (f"submission/{file}", prediction)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(form.write(picture))
    document = challenge_document({"format": kind, "files": form.files, **form.keys}, overlap)
    write_rules(folder / "challenge", document, Case("c1", "P1", *prediction.shape_yx))


# --- measurements -----------------------------------------------------------------------------------------------------


def measure(kind: str, shape: str, n: int, overlap: str, *, both: bool) -> dict[str, Any]:
    """Score a shape in this process: seconds of processor time, bytes of memory, and how it ended."""
    guard.IS_AVAILABLE = False
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        if kind in MASKS:
            mask = mask_of(shape, n)
            write_masks(folder, kind, mask if both else instances_of(ordinary(mask.shape_yx)), mask)
            del mask
        else:
            picture = SHAPES[shape](n)
            write_challenge(folder, kind, picture if both else ordinary(picture.shape_yx), picture, overlap=overlap)
            del picture
        began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ending = "scored"
        try:
            score_submission(folder / "challenge", folder / "submission", workers=1).write(folder / "output")
        except EvaluationError as error:
            ending = error.findings[0].code
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": time.process_time() - began, "bytes": 1024 * (peak - before), "ending": ending}


def assign_aside(n: int, cutoff: Any) -> tuple[float, str]:
    """Processor time of ``centroid_assignment`` for n and 1.2 n points on a line, one side beside the other."""
    sides = [
        Instances(
            shape_yx=(1, 4 * n),
            class_id=np.ones(count, np.int16),
            source_id=np.arange(count),
            run_start=(none := np.empty(0, np.int64)),
            run_stop=none,
            run_instance=none.astype(np.int32),
            point_yx=np.stack([np.zeros(count), first + np.arange(count)], axis=1),
        )
        for first, count in ((0.0, n), (float(n), n + n // 5))
    ]
    began, ending = time.process_time(), "matched"
    try:
        match_centroid_assignment(*sides, radius_px=4.0 * n, class_aware=False, cutoff=cutoff)
    except TooManyPairs as error:
        ending = str(error)
    return time.process_time() - began, ending


def endless_files(n: int, seconds: int) -> tuple[float, str]:
    """Seconds by the clock for a submission of n files that are decoded for ever, if each may take so many seconds."""
    bounded, endless = patch.object(guard, "SECONDS", seconds), patch(COMPUTED, compute_forever)
    with tempfile.TemporaryDirectory() as kept, bounded, endless:
        folder, picture = Path(kept), ordinary((64, 64))
        write_challenge(folder, "geojson", picture, picture)
        names = [f"c{number}" for number in range(1, n + 1)]
        for name in names[1:]:
            (folder / "submission" / f"{name}.geojson").write_text(as_geojson(picture))
        rows = "".join(f"{name},P1,64,64,{index}\n" for index, name in enumerate(names))
        (folder / "challenge/cases.csv").write_text(f"case,group,height,width,index\n{rows}")
        began = time.monotonic()
        _, findings = check_submission(folder / "challenge", folder / "submission", workers=1)
    return time.monotonic() - began, findings[-1].got


def many_names(n: int, folder: Path) -> None:
    left, right = ([f"{word} {index} {7 * index % n}" for index in range(n)] for word in ("a", "b"))
    pair_names([*left, "c"], [f"{name}x" for name in right])


def many_files(n: int, folder: Path) -> None:
    for index in range(n):
        (folder / f"{index}.geojson").write_text("[]")
    list_files(folder, folder)


def many_stores(n: int, folder: Path) -> None:
    find_stores([f"{index}.zarr/{part}" for index in range(n) for part in (".zgroup", "0/.zarray", "0/0.0")])


def many_keys(n: int, folder: Path) -> None:
    (folder / "cases.csv").write_text("case,height,width\na,9,9\n")
    unknown = "".join(f"key{index} = 1\n" for index in range(n))
    (folder / "challenge.toml").write_text(f'format_version = 1\nname = "a"\npreset = "monusac2020"\n{unknown}')
    with suppress(EvaluationError):
        Challenge.load(folder)


def many_findings(n: int, folder: Path) -> None:
    cases = (f"case '{index}'" for index in range(n))
    render_findings(fault("outside-image", case, outside=index, nuclei=n, width=9, height=9)
                    for index, case in enumerate(cases))  # fmt: skip


MANY = (many_names, many_files, many_stores, many_keys, many_findings)


def seconds_of_many(work: Callable[[int, Path], None], n: int) -> float:
    """Processor time for n things of a kind."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        work(n, Path(folder))
        return time.process_time() - began


def compute_forever(*given: Any) -> Iterator[None]:
    while True:
        yield from ()


def in_own_process(kind: str, shape: str, n: int, overlap: str, minutes: float, *, both: bool) -> dict[str, Any] | None:
    """The same in a process of its own; None if it is not done in time."""
    command = [sys.executable, "-m", "benchmarks.complexity", shape, str(n), "--format", kind, "--overlap", overlap]
    try:
        done = subprocess.run(
            [*command, "--here", *(["--both"] if both else [])],
            cwd=ROOT, capture_output=True, text=True, check=True, timeout=60 * minutes,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", nargs="?", choices=[*SHAPES, scattered.__name__])
    parser.add_argument("n", nargs="?", type=int, default=4000)
    parser.add_argument("--format", choices=[*FORMATS, *MASKS])
    parser.add_argument("--overlap", choices=OVERLAP_RULES, default="keep")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--both", action="store_true", help="the shape is the reference too")
    parser.add_argument("--here", action="store_true", help="measure in this process and print JSON")
    parser.add_argument("--assignment", action="store_true", help="centroid_assignment of points beside the others")
    parser.add_argument("--endless", action="store_true", help="submissions of files whose decoding never ends")
    parser.add_argument("--many", action="store_true", help="names, files, stores, keys and findings")
    given = parser.parse_args()
    if given.many:
        print("| | n | seconds | at 2n | times |\n" + "| --- " * 5 + "|")
        for work in MANY:
            one, two = (seconds_of_many(work, n) for n in (given.n, 2 * given.n))
            kind = work.__name__.removeprefix("many_")
            print(f"| {kind} | {given.n:,} | {one:.2f} | {two:.2f} | {two / one:.1f} |", flush=True)
        return
    if given.assignment:
        for cutoff in ("after", "before"):
            for n in (1000, 2000, 2500, 5000):
                seconds, ending = assign_aside(n, cutoff)
                print(f"| {cutoff} | {n:,} | {seconds:.2f} | {ending} |", flush=True)
        return
    if given.endless:
        for n in (4, 8, 16):
            seconds, ending = endless_files(n, 2)
            print(f"| {n} | {seconds:.2f} | {ending} |", flush=True)
        return
    if given.here:
        print(json.dumps(measure(given.format, given.shape, given.n, given.overlap, both=given.both)))
        return
    print("| shape | format | n | seconds | at 2n | times | MB | at 2n | |\n" + "| --- " * 9 + "|")
    for shape in [given.shape] if given.shape else [*SHAPES, scattered.__name__]:
        for kind in [given.format] if given.format else [*FORMATS, *MASKS]:
            if shape == scattered.__name__ and kind in FORMATS:
                continue
            found = [
                in_own_process(kind, shape, n, given.overlap, given.minutes, both=given.both)
                for n in (given.n, 2 * given.n)
            ]
            if found[0] is None or found[1] is None:
                print(
                    f"| {shape} | {kind} | {given.n:,} | not done after {given.minutes:g} minutes | | | | | |",
                    flush=True,
                )
                continue
            one, two = found[0], found[1]
            numbers = f"{one['seconds']:.2f} | {two['seconds']:.2f} | {two['seconds'] / one['seconds']:.1f}"
            memory = f"{one['bytes'] / 1e6:.0f} | {two['bytes'] / 1e6:.0f} | {two['ending']}"
            print(f"| {shape} | {kind} | {given.n:,} | {numbers} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
