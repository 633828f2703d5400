"""Pictures of a scored submission: overlays and scenes of its cases, from a second pass over what was scored."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson

from evaluation.challenge import Challenge
from evaluation.decoding.pixels import IMAGE_SUFFIXES
from evaluation.execution.workers import Progress, run_job, run_work
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import InputFault
from evaluation.formats.geojson import closed_rings, parts_of
from evaluation.formats.label_image import tiff
from evaluation.instances.outlines import trace_outlines
from evaluation.instances.runs import empty_region
from evaluation.metrics.errors import KINDS, RIGHT, Codes
from evaluation.model import Case, Instances, Int32, Int64, Outlines, Region
from evaluation.report.scenes import (
    COLOURS,
    STATES,
    WINDOW_PX,
    WORDS,
    Drawing,
    DrawnSide,
    JudgedCase,
    Scene,
    Side,
    State,
    View,
    judge_case,
    overlay_png,
    scene_of,
)
from evaluation.report.tissue import Rgb, Tissue, open_tissue
from evaluation.results.files import write_atomically
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.read import reference_files, rules_of_references
from evaluation.scoring.receive import receive_submission
from evaluation.scoring.street import CaseInput, CaseOutcome, ReadCase, raise_faults, read_and_match, sort_cases
from evaluation.study.error_costs import CaseErrors, count_errors
from evaluation.submission import SubmissionFiles

# --- which file is the image of a case --------------------------------------------------------------------------------


FOLDER = "images"  # of a challenge


def find_images(challenge: Challenge, folder: Path, images: Path | None = None) -> dict[str, Path]:
    """The image of each case that has one: ``<case>.svs``, ``.tif``, ``.tiff`` or ``.png``.

    It lies in ``images`` or in the folder of its group there; where that is not given, in the folder ``images`` of the
    challenge, or beside the files of the reference. These are never taken for images.
    """
    top = folder / FOLDER if images is None else images
    found = {}
    for case in challenge.cases:
        own = own_files(challenge, folder, case)
        folders = [top, top / case.group, *(dict.fromkeys(path.parent for path in own) if images is None else ())]
        candidates = (inside / f"{case.name}{suffix}" for inside in folders for suffix in IMAGE_SUFFIXES)
        path = next((path for path in candidates if path not in own and path.is_file()), None)
        if path is not None:
            found[case.name] = path
    return found


def own_files(challenge: Challenge, folder: Path, case: Case) -> list[Path]:
    """The files of the reference of a case."""
    if challenge.reference.is_shared:
        return [folder / challenge.reference.files]
    with suppress(InputFault):
        return [folder / name for file in reference_files(challenge, folder, case) for name in file.names]
    return []


def open_image(case: Case, path: Path | None) -> Tissue | Finding | None:
    """The image of a case, or why it is not shown."""
    if path is None:
        return None
    try:
        tissue = open_tissue(path)
    except InputFault as error:
        return left_out(case, path, error.findings[0].got)
    if tissue.shape_yx == case.shape_yx:
        return tissue
    tissue.close()
    return left_out(case, path, "{:,} rows x {:,} columns".format(*tissue.shape_yx))


def left_out(case: Case, path: Path, got: str) -> Finding:
    return fault(
        "image-left-out",
        f"case {quote(case.name)}, {quote(path.name)}",
        got=got,
        height=case.shape_yx[0],
        width=case.shape_yx[1],
    )


# --- overlays as GeoJSON, for QuPath ----------------------------------------------------------------------------------
# Nuclei are detections with a classification such as "False negative" or "Matched: reference", which QuPath shows in
# its colour and lets people switch on and off; regions are annotations. Coordinates count from the corner of the first
# pixel, in px. Ids of files and kinds of errors are metadata, which QuPath has from 0.5 on.
# https://github.com/qupath/qupath, QuPathTypeAdapters.


IGNORE_REGION, CONTESTED = "Ignore region", "Contested"


@dataclass(frozen=True, slots=True)
class Facts:
    """What QuPath shows of a nucleus: numbers by their names, and texts."""

    measurements: Mapping[str, float]
    metadata: Mapping[str, str]


def overlay_geojson(drawing: Drawing, class_names: Sequence[str], facts: Mapping[Side, Sequence[Facts]]) -> bytes:
    """A FeatureCollection of all nuclei of both sides and of the regions; the same drawing gives the same bytes.

    class_names  class id c is ``class_names[c - 1]``; it becomes the name of the nucleus
    facts        of each nucleus that is scored
    """
    features = [
        *region_features(drawing.ignore, drawing.shape_yx, IGNORE_REGION, "ignored"),
        *region_features(drawing.contested, drawing.shape_yx, CONTESTED, "contested"),
    ]
    for side in drawing.sides:
        features += nucleus_features(side, class_names, facts[side.side])
    return orjson.dumps({"type": "FeatureCollection", "features": features}, option=orjson.OPT_SERIALIZE_NUMPY)


def nucleus_features(side: DrawnSide, class_names: Sequence[str], facts: Sequence[Facts]) -> list[dict[str, Any]]:
    features = []
    for index, geometry in geometries_of(side):
        state, class_id = int(side.state[index]), int(side.instances.class_id[index])
        properties: dict[str, Any] = {
            "objectType": "detection",
            "classification": {"name": name_of(STATES[state], side.side), "color": list(COLOURS[state])},
        }
        if 0 < class_id <= len(class_names):
            properties["name"] = class_names[class_id - 1]
        if STATES[state] != "ignored":
            properties |= {"measurements": facts[index].measurements, "metadata": facts[index].metadata}
        identity = f"{side.side} {side.instances.source_id[index]}"
        features.append({"type": "Feature", "id": identity, "geometry": geometry, "properties": properties})
    return features


def name_of(state: State, side: Side) -> str:
    """The classification of a nucleus in QuPath. Both nuclei of a pair have the same state.

    >>> name_of("missed", "reference"), name_of("wrong_class", "prediction")
    ('False negative', 'Wrong class: prediction')
    """
    name = WORDS.get(state, state.replace("_", " ")).capitalize()
    return f"{name}: {side}" if state in ("matched", "wrong_class") else name


def geometries_of(side: DrawnSide) -> Iterator[tuple[int, dict[str, Any]]]:
    """Index and geometry of each nucleus that has pixels or a point."""
    if side.points_xy is not None:
        for index, point in enumerate(side.points_xy.tolist()):
            yield index, {"type": "Point", "coordinates": point}
        return
    for indices, outlines in side.traced():
        yield from zip(indices.tolist(), polygons_of(outlines), strict=True)


def polygons_of(outlines: Outlines) -> list[dict[str, Any]]:
    """The geometry of each instance; all have pixels."""
    rings = closed_rings(outlines.points_xy, outlines.ring_start)
    first = np.searchsorted(outlines.ring_instance, np.arange(len(outlines) + 1)).tolist()
    geometries = []
    for begin, end in pairwise(first):
        parts = [[rings[ring] for ring in part] for part in parts_of(outlines, range(begin, end))]
        several = len(parts) > 1
        polygon = {"type": "MultiPolygon" if several else "Polygon", "coordinates": parts if several else parts[0]}
        geometries.append(polygon)
    return geometries


def region_features(region: Region, shape_yx: tuple[int, int], name: str, state: State) -> list[dict[str, Any]]:
    """A region as an annotation, if it is not empty."""
    if len(region.run_start) == 0:
        return []
    whole = Instances(
        shape_yx,
        np.ones(1, np.int16),
        np.zeros(1, np.int64),
        region.run_start,
        region.run_stop,
        np.zeros(len(region.run_start), np.int32),
    )
    classification = {"name": name, "color": list(COLOURS[STATES.index(state)])}
    properties = {"objectType": "annotation", "classification": classification, "name": name}
    return [
        {"type": "Feature", "geometry": geometry, "properties": properties}
        for geometry in polygons_of(trace_outlines(whole))
    ]


# --- label images, for napari -----------------------------------------------------------------------------------------
# TIFF files that it opens as layers of labels.


LABELLED_PX = 1 << 27  # of a case; a larger one gets none: its GeoJSON has every outline


def label_tiffs(judged: JudgedCase) -> dict[str, bytes]:
    """``_reference.tif`` and ``_prediction.tif``: 0, or the number of a nucleus; those of a pair have the same number.

    Where nuclei of a side overlap, the later one is seen. Points have no pixels, so cases of points have no such files.
    """
    matched = judged.matched
    sides = (matched.reference.instances, matched.prediction)
    if prod(matched.case.shape_yx) > LABELLED_PX or any(side.point_yx is not None for side in sides):
        return {}
    pairs = next(iter(matched.matches.values()))
    reference = np.arange(1, len(sides[0]) + 1)
    prediction = np.arange(1, len(sides[1]) + 1) + len(sides[0])
    prediction[pairs.prediction_index] = reference[pairs.reference_index]
    return {"_reference.tif": tiff_of(sides[0], reference), "_prediction.tif": tiff_of(sides[1], prediction)}


def tiff_of(side: Instances, number: Int64) -> bytes:
    labels = np.zeros(prod(side.shape_yx), np.int32)
    order = np.argsort(side.run_instance, kind="stable")
    runs = (side.run_start[order], side.run_stop[order], number[side.run_instance[order]])
    for start, stop, value in zip(*(part.tolist() for part in runs), strict=True):
        labels[start:stop] = value
    return tiff(labels.reshape(side.shape_yx))


# --- the pictures of one case -----------------------------------------------------------------------------------------


OVERLAY_PX = 4096  # longer side of overlays, at most


class CasePictures:
    """A judged case with its image open. What cannot be shown stands in ``findings``."""

    def __init__(self, judged: JudgedCase, class_names: Sequence[str], image: Path | None) -> None:
        self.judged = judged
        self.case = judged.matched.case
        self.class_names = class_names
        self.image = image
        self.findings: list[Finding] = []
        opened = open_image(self.case, image)
        self.tissue = opened if isinstance(opened, Tissue) else None
        if isinstance(opened, Finding):
            self.findings.append(opened)
        self.drawing = drawing_of(judged)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.tissue is not None:
            self.tissue.close()

    def background(self, view: View) -> Rgb | None:
        """The image in a view; None, and a finding, if it cannot be shown."""
        if self.tissue is None:
            return None
        try:
            return self.tissue.window(view.y0, view.x0, view.y1, view.x1, view.step)
        except InputFault as fault:
            assert self.image is not None
            self.findings.append(left_out(self.case, self.image, fault.findings[0].got))
            return None

    def write(self, folder: Path) -> tuple[Path, ...]:
        """Write ``<case>.png``, ``.geojson`` and label images. Names of cases are checked with the challenge."""
        view = View.whole(self.case.shape_yx, OVERLAY_PX)
        contents = {
            ".png": overlay_png(self.drawing, view, self.background(view)),
            ".geojson": overlay_geojson(self.drawing, self.class_names, facts_of(self.judged)),
            **label_tiffs(self.judged),
        }
        for suffix, content in contents.items():
            write_atomically(folder / f"{self.case.name}{suffix}", content)
        return tuple(folder / f"{self.case.name}{suffix}" for suffix in contents)


def drawing_of(judged: JudgedCase) -> Drawing:
    """All that a picture of a case may show."""
    matched = judged.matched
    reference = matched.reference.instances
    ignored = np.full(len(judged.ignored), STATES.index("ignored"), np.int8)
    return Drawing(
        shape_yx=matched.case.shape_yx,
        sides=(
            DrawnSide("reference", reference, judged.reference_state),
            DrawnSide("prediction", matched.prediction, judged.prediction_state),
            DrawnSide("prediction", judged.ignored, ignored),
        ),
        nuclei=Region(reference.run_start, reference.run_stop),
        ignore=matched.reference.ignore,
        contested=matched.reference.contested or empty_region(),
    )


def facts_of(judged: JudgedCase) -> dict[Side, list[Facts]]:
    """What QuPath shows of each nucleus: its id, its area, the kind of its error, the IoU of its pair.

    Of a nucleus without a pair the largest IoU with one of the other side, if they share pixels.
    """
    matched, table, kinds = judged.matched, judged.matched.table, judged.kinds
    pairs = next(iter(matched.matches.values()))
    with np.errstate(invalid="ignore"):  # points have no pixels
        iou_of_pairs = pairs.intersection_px / pairs.union_px
    sides: tuple[tuple[Side, Instances, Codes, Int32, Int32], ...] = (
        ("reference", matched.reference.instances, kinds.reference, table.reference_index, pairs.reference_index),
        ("prediction", matched.prediction, kinds.prediction, table.prediction_index, pairs.prediction_index),
    )
    found: dict[Side, list[Facts]] = {}
    for side, instances, kind, of_table, of_pairs in sides:
        iou = np.full(len(instances), np.nan)
        np.fmax.at(iou, of_table, table.intersection_px / table.union_px())
        iou[of_pairs] = iou_of_pairs
        columns = (instances.areas_px().tolist(), iou.tolist(), kind.tolist(), instances.source_id.tolist())
        found[side] = [
            Facts(
                measurements={
                    **({"Area px^2": area} if area else {}),
                    **({} if math.isnan(value) else {"IoU": round(value, 6)}),
                },
                metadata={"Error": "none" if code == RIGHT else KINDS[code].replace("_", " "), "Id": str(source)},
            )
            for area, value, code, source in zip(*columns, strict=True)
        ]
    return found


# --- in a worker ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """What is known of a case; ``files`` were written, ``findings`` say what these do not show."""

    errors: CaseErrors
    scene: Scene | None
    files: tuple[Path, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class CaseWork:
    """All that the pictures of a submission are made of; ``images`` by the name of the case.

    pixels  by name, how many may be shown of the cases whose scenes are wanted
    """

    challenge: Challenge
    folder: Path
    files: SubmissionFiles
    images: Mapping[str, Path]
    overlays: Path | None
    pixels: Mapping[str, int]

    def judge(self, inputs: Sequence[CaseInput]) -> list[Judgement | CaseOutcome]:
        """Judge and draw some cases, or return what is wrong with them."""
        rules = rules_of_references(self.challenge)
        outcomes = [read_and_match(self.challenge, self.folder, self.files, given, rules) for given in inputs]
        found = [outcome for outcome in outcomes if isinstance(outcome, ReadCase)]
        if len(found) < len(outcomes):
            return [outcome for outcome in outcomes if isinstance(outcome, CaseOutcome)]
        results = measure_cases(self.challenge, [read.matched for read in found])
        judgements: list[Judgement | CaseOutcome] = []
        rule = self.challenge.matching.rules[0].name
        for read, result in zip(found, results, strict=True):
            judged = judge_case(self.challenge, read.matched, read.prediction)
            errors = count_errors(read.matched, result.counts[rule], judged.kinds, rule)
            name = result.case.name
            with CasePictures(judged, self.challenge.class_names, self.images.get(name)) as pictures:
                files = pictures.write(self.overlays) if self.overlays is not None else ()
                scene = scene_of(judged, pictures.background, self.pixels[name]) if name in self.pixels else None
                judgements.append(Judgement(errors, scene, files, tuple(pictures.findings)))
        return judgements


# --- the second pass --------------------------------------------------------------------------------------------------


PIXELS = 20_000_000  # of all cases together that a page may show: some 4 MB


@dataclass(frozen=True, slots=True, eq=False)
class SecondPass:
    """What the second pass found.

    scenes     by name, of the cases that were asked for
    errors     of every case
    files      overlays that were written
    findings   images that are not shown, and why
    """

    scenes: dict[str, Scene]
    errors: tuple[CaseErrors, ...] = ()
    files: tuple[Path, ...] = ()
    findings: tuple[Finding, ...] = ()


def illustrate_cases(
    challenge_folder: Path | str,
    submission: Path | str,
    *,
    challenge: Challenge | None = None,
    drawn: Sequence[str] = (),
    images: Path | None = None,
    overlays: Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> SecondPass:
    """Read every case of a submission again, as ``score_submission`` does, and find the state of its nuclei.

    challenge  other rules for the same cases and files than those of challenge.toml
    drawn      names of cases whose scenes are wanted, the most wanted first; PIXELS are shared among them
    images     where the images of the cases lie; None: see ``find_images``
    overlays   where the overlays of every case are written; None: nowhere

    Raises what ``score_submission`` raises. Workers never change a byte.
    """
    folder = Path(challenge_folder)
    challenge = Challenge.load(folder) if challenge is None else challenge
    received = receive_submission(challenge, Path(submission), folder)
    cases = run_job(sort_cases(challenge, folder, received, progress), workers)
    challenge = cases.challenge
    if challenge.are_counts:  # nothing is known of where nuclei lie
        return SecondPass({})
    if overlays is not None:
        overlays.mkdir(parents=True, exist_ok=True)
    chosen = frozenset(drawn[: PIXELS // WINDOW_PX**2])
    found = find_images(challenge, folder, images)
    sizes = {case.name: prod(case.shape_yx) for case in challenge.cases if case.name in chosen}
    work = CaseWork(challenge, folder, received.files, found, overlays, share_pixels(sizes, PIXELS))
    outcomes = run_work(cases.work(work.judge, progress=progress), workers)
    raise_faults(challenge, received, [outcome for outcome in outcomes if isinstance(outcome, CaseOutcome)])
    judged = [outcome for outcome in outcomes if isinstance(outcome, Judgement)]
    return SecondPass(
        scenes={one.scene.case: one.scene for one in judged if one.scene is not None},
        errors=tuple(one.errors for one in judged),
        files=tuple(path for one in judged for path in one.files),
        findings=tuple(dict.fromkeys(finding for one in judged for finding in one.findings)),
    )


def share_pixels(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """How many pixels of each case may be shown: what small cases do not need is left for large ones.

    >>> share_pixels({"a": 100, "b": 10, "c": 100}, 130)
    {'b': 43, 'a': 60, 'c': 60}
    """
    shares: dict[str, int] = {}
    for index, (name, size) in enumerate(sorted(sizes.items(), key=lambda item: (item[1], item[0]))):
        shares[name] = total // (len(sizes) - index)
        total -= min(size, shares[name])
    return shares
