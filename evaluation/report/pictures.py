"""What a second pass over a scored submission shows: the scenes of its cases, and overlays for QuPath."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from evaluation.challenge import Challenge
from evaluation.decoding.pixels import TISSUE_SUFFIXES
from evaluation.execution.workers import Progress, run_job, run_work
from evaluation.findings import Finding
from evaluation.findings.errors import InputFault
from evaluation.formats.format import tiff_bytes
from evaluation.formats.geojson import closed_rings, nucleus_parts
from evaluation.instances.outlines import trace_outlines
from evaluation.metrics.counts import KINDS, RIGHT, WRONG_CLASS
from evaluation.model import Case, Instances, Region
from evaluation.report.scenes import WINDOW_PX, JudgedCase, Scene, judge_case, scene_of
from evaluation.results.files import write_atomically
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.read import reference_files, rules_of_references
from evaluation.scoring.receive import receive_submission
from evaluation.scoring.street import CaseInput, CaseOutcome, ReadCase, raise_faults, read_and_match, sort_cases
from evaluation.study.error_costs import CaseErrors, count_error_kinds
from evaluation.submission import SubmissionFiles

# --- the image of a case ----------------------------------------------------------------------------------------------


FOLDER = "images"  # of a challenge


def find_images(challenge: Challenge, folder: Path, images: Path | None = None) -> dict[str, Path]:
    """The image of each case that has one: ``<case>.svs``, ``.tif``, ``.tiff`` or ``.png``.

    It lies in ``images`` or in the folder of its group there; where that is not given, in the folder ``images`` of the
    challenge, or beside the files of the reference. These are never taken for images.
    """
    top = folder / FOLDER if images is None else images
    paths = {}
    for case in challenge.cases:
        own = own_files(challenge, folder, case)
        folders = [top, top / case.group, *(dict.fromkeys(path.parent for path in own) if images is None else ())]
        candidates = (inside / f"{case.name}{suffix}" for inside in folders for suffix in TISSUE_SUFFIXES)
        path = next((path for path in candidates if path not in own and path.is_file()), None)
        if path is not None:
            paths[case.name] = path
    return paths


def own_files(challenge: Challenge, folder: Path, case: Case) -> list[Path]:
    """The files of the reference of a case."""
    if challenge.reference.is_shared:
        return [folder / challenge.reference.files]
    with suppress(InputFault):
        return [folder / name for file in reference_files(challenge, folder, case) for name in file.names]
    return []


# --- overlays as GeoJSON, for QuPath ----------------------------------------------------------------------------------
# Nuclei are detections with a classification such as "False negative" or "Matched: reference", which QuPath shows in
# its colour and lets people switch on and off; regions are annotations. Coordinates count from the corner of the first
# pixel, in px. Ids of files and kinds of errors are metadata, which QuPath has from 0.5 on.
# https://github.com/qupath/qupath, QuPathTypeAdapters.


WORDS_OF_STATES: Mapping[str, str] = {"missed": "false negative", "spurious": "false positive"}  # as people read them
# Okabe and Ito, "Color Universal Design" (2008), but for wrong_class, where theirs is the colour of stained tissue.
# The browser has the same, on light and on dark pages.
STATE_COLOURS: Mapping[str, str] = {
    "matched": "#009e73", "missed": "#e69f00", "spurious": "#56b4e9", "wrong_class": "#5b2a86",
    "ignored": "#999999", "contested": "#f0e442",
}  # fmt: skip


def overlay_geojson(judged: JudgedCase, class_names: Sequence[str]) -> bytes:
    """A FeatureCollection of all nuclei of both sides, of those that left because of an ignore region, and of regions.

    class_names  class id c is ``class_names[c - 1]``; it becomes the name of the nucleus

    The same case gives the same bytes.
    """
    matched, table, kinds = judged.matched, judged.matched.table, judged.kinds
    reference, pairs = matched.reference, next(iter(matched.matches.values()))
    regions: Sequence[tuple[Region | None, str, str]] = (
        (reference.ignore, "Ignore region", "ignored"),
        (reference.contested, "Contested", "contested"),
    )
    features = []
    for region, name, state in regions:
        if region is not None and len(region.run_start):
            runs, one = np.zeros(len(region.run_start), np.int32), np.ones(1, np.int16)
            whole = Instances(matched.case.shape_yx, one, np.zeros(1), region.run_start, region.run_stop, runs)
            for _, geometry in geometries_of(whole):
                features.append(feature_of(geometry, name, state, {"objectType": "annotation", "name": name}))
    for side, instances, kind, index_in_table, index_in_pairs in (
        ("reference", reference.instances, kinds.reference, table.reference_index, pairs.reference_index),
        ("prediction", matched.prediction, kinds.prediction, table.prediction_index, pairs.prediction_index),
    ):
        iou = np.full(len(instances), np.nan)  # of a nucleus without a pair the largest with one of the other side
        with np.errstate(invalid="ignore"):  # points have no pixels
            np.fmax.at(iou, index_in_table, table.intersection_px / table.union_px())
            iou[index_in_pairs] = pairs.intersection_px / pairs.union_px
        features += nucleus_features(side, instances, class_names, kind, iou)
    features += nucleus_features("prediction", judged.ignored, class_names)
    return orjson.dumps({"type": "FeatureCollection", "features": features}, option=orjson.OPT_SERIALIZE_NUMPY)


def nucleus_features(
    side: str, instances: Instances, class_names: Sequence[str], kind: Any = None, iou: Any = None
) -> Iterator[dict[str, Any]]:
    """A feature of each nucleus that has pixels or a point; both nuclei of a pair have the same state.

    kind  of error; None: the nuclei left because of an ignore region, and nothing else is known of them
    iou   NaN: not known
    """
    areas = instances.areas_px().tolist()
    for index, geometry in geometries_of(instances):
        class_id, state, source = int(instances.class_id[index]), "ignored", instances.source_id[index]
        properties: dict[str, Any] = {"objectType": "detection"}
        if 0 < class_id <= len(class_names):
            properties["name"] = class_names[class_id - 1]
        if kind is not None:
            unmatched = "missed" if side == "reference" else "spurious"
            state = {RIGHT: "matched", WRONG_CLASS: "wrong_class"}.get(int(kind[index]), unmatched)
            error = "none" if state == "matched" else KINDS[kind[index]].replace("_", " ")
            measured = {"Area px^2": areas[index] or math.nan, "IoU": round(float(iou[index]), 6)}
            properties["measurements"] = {key: value for key, value in measured.items() if not math.isnan(value)}
            properties["metadata"] = {"Error": error, "Id": str(source)}
        name = WORDS_OF_STATES.get(state, state.replace("_", " ")).capitalize()
        name += f": {side}" if state in ("matched", "wrong_class") else ""
        yield {"id": f"{side} {source}", **feature_of(geometry, name, state, properties)}


def feature_of(geometry: dict[str, Any], name: str, state: str, properties: dict[str, Any]) -> dict[str, Any]:
    classification = {"name": name, "color": list(bytes.fromhex(STATE_COLOURS[state][1:]))}
    return {"type": "Feature", "geometry": geometry, "properties": {**properties, "classification": classification}}


def geometries_of(instances: Instances) -> Iterator[tuple[int, dict[str, Any]]]:
    """Index and geometry of each nucleus that has pixels or a point."""
    if instances.point_yx is not None:
        for index, (y, x) in enumerate((instances.point_yx + 0.5).tolist()):
            yield index, {"type": "Point", "coordinates": [x, y]}
        return
    outlines = trace_outlines(instances)
    rings = closed_rings(outlines.points_xy, outlines.ring_start)
    first = np.searchsorted(outlines.ring_instance, np.arange(len(outlines) + 1)).tolist()
    for index, (begin, end) in enumerate(pairwise(first)):
        parts = [[rings[ring] for ring in part] for part in nucleus_parts(outlines, range(begin, end))]
        if len(parts) > 1:
            yield index, {"type": "MultiPolygon", "coordinates": parts}
        elif parts:
            yield index, {"type": "Polygon", "coordinates": parts[0]}


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
    files = {}
    for end, side, number in (("_reference.tif", sides[0], reference), ("_prediction.tif", sides[1], prediction)):
        labels = np.zeros(prod(side.shape_yx), np.int32)
        for run in np.argsort(side.run_instance, kind="stable").tolist():
            labels[side.run_start[run] : side.run_stop[run]] = number[side.run_instance[run]]
        files[end] = tiff_bytes(labels.reshape(side.shape_yx))
    return files


# --- in a worker ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """What is known of a case; ``files`` were written."""

    errors: CaseErrors
    scene: Scene | None
    files: tuple[Path, ...]


def judge_cases(
    challenge: Challenge,
    folder: Path,
    files: SubmissionFiles,
    images: Mapping[str, Path],
    overlays: Path | None,
    pixels: Mapping[str, int],
    inputs: Sequence[CaseInput],
) -> list[Judgement | CaseOutcome]:
    """Judge and draw some cases, or return what is wrong with them.

    images  by the name of the case
    pixels  by name, how many may be shown of the cases whose scenes are wanted
    """
    rules = rules_of_references(challenge)
    outcomes = [read_and_match(challenge, folder, files, case, rules) for case in inputs]
    cases = [outcome for outcome in outcomes if isinstance(outcome, ReadCase)]
    if len(cases) < len(outcomes):
        return [outcome for outcome in outcomes if isinstance(outcome, CaseOutcome)]
    results = measure_cases(challenge, [read.matched for read in cases])
    judgements: list[Judgement | CaseOutcome] = []
    rule = challenge.matching.rules[0].name
    for read, result in zip(cases, results, strict=True):
        judged = judge_case(challenge, read.matched, read.prediction)
        errors = count_error_kinds(read.matched, result.counts[rule], judged.kinds, rule)
        name, written = result.case.name, list[Path]()
        if overlays is not None:  # names of cases are checked with the challenge
            drawn = {".geojson": overlay_geojson(judged, challenge.class_names), **label_tiffs(judged)}
            for end, content in drawn.items():
                written.append(overlays / f"{name}{end}")
                write_atomically(written[-1], content)
        scene = scene_of(judged, images.get(name), pixels[name]) if name in pixels else None
        judgements.append(Judgement(errors, scene, tuple(written)))
    return judgements


# --- the second pass --------------------------------------------------------------------------------------------------


PIXELS = 20_000_000  # of all cases together that a page may show: some 4 MB


@dataclass(frozen=True, slots=True, eq=False)
class SecondPass:
    """Holds what the second pass over a submission found.

    scenes     by name, of the cases that were asked for
    errors     of every case
    files      overlays that were written
    """

    scenes: Mapping[str, Scene] = field(default_factory=dict)
    errors: tuple[CaseErrors, ...] = ()
    files: tuple[Path, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Why images are not shown."""
        return tuple(finding for scene in self.scenes.values() for finding in scene.findings)


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
        return SecondPass()
    if overlays is not None:
        overlays.mkdir(parents=True, exist_ok=True)
    chosen = frozenset(drawn[: PIXELS // WINDOW_PX**2])
    paths = find_images(challenge, folder, images)
    sizes = {case.name: prod(case.shape_yx) for case in challenge.cases if case.name in chosen}
    judge = partial(judge_cases, challenge, folder, received.files, paths, overlays, share_pixels(sizes, PIXELS))
    outcomes = run_work(cases.work(judge, progress=progress), workers)
    raise_faults(challenge, received, [outcome for outcome in outcomes if isinstance(outcome, CaseOutcome)])
    judged = [outcome for outcome in outcomes if isinstance(outcome, Judgement)]
    return SecondPass(
        scenes={one.scene.case: one.scene for one in judged if one.scene is not None},
        errors=tuple(one.errors for one in judged),
        files=tuple(path for one in judged for path in one.files),
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
