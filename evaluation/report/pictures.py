"""A second pass over a scored submission: scenes for the browser of nuclei, and overlays for QuPath."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson

from evaluation.challenge import Challenge
from evaluation.files.decoding.pixels import TISSUE_SUFFIXES
from evaluation.files.formats.format import tiff_bytes
from evaluation.files.formats.geojson import closed_rings, nucleus_parts
from evaluation.files.results.files import write_atomically
from evaluation.files.submission import SubmissionFiles
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import InputFault
from evaluation.report.tissue import Tissue, open_tissue
from evaluation.scoring.error_costs import CaseErrors, count_error_kinds
from evaluation.scoring.match import MatchedCase, match_case
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.read import ReferenceFolder, reference_files, rules_of_references
from evaluation.scoring.receive import receive_submission
from evaluation.scoring.score import Result
from evaluation.scoring.street import CaseInput, CaseOutcome, ReadCase, raise_faults, read_and_match, sort_cases
from evaluation.scoring.workers import Progress, run_work
from nuclei_metrics.instances.outlines import trace_outlines
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.instances.runs import empty_region, select_instances
from nuclei_metrics.metrics.counts import KINDS, RIGHT, WRONG_CLASS, ErrorKinds
from nuclei_metrics.model import Bool, Case, CaseResult, Instances, Int64, Region
from nuclei_metrics.model.instances import join_instances


@dataclass(frozen=True, slots=True)
class Window:
    """Rows y0 to y1 - 1 and columns x0 to x1 - 1 of an image, and its tissue, with ``step`` pixels reduced to one.

    webp   the picture, or b""
    """

    y0: int
    x0: int
    y1: int
    x1: int
    step: int = 1
    webp: bytes = b""

    @classmethod
    def around(cls, box: tuple[int, int, int, int], shape_yx: tuple[int, int], side_px: int) -> Self:
        """A square around a box (y0, x0, y1, x1) with as much again next to it; at the border it moves into the image.

        >>> Window.around((0, 90, 20, 100), (100, 120), 60)
        Window(y0=0, x0=60, y1=60, x1=120, step=1, webp=b'')
        """
        step = -(-2 * max(box[2] - box[0], box[3] - box[1]) // side_px)
        side = side_px * step
        y0, x0 = (
            min(max((low + high - side) // 2, 0), max(size - side, 0))
            for low, high, size in zip(box[:2], box[2:], shape_yx, strict=True)
        )
        return cls(y0, x0, min(y0 + side, shape_yx[0]), min(x0 + side, shape_yx[1]), step)

    def draw(self, tissue: Tissue) -> Self:
        """The window with its picture. Raises InputFault for pixels that cannot be decoded."""
        from imagecodecs import webp_encode  # slow to import, and few need it

        pixels = np.ascontiguousarray(tissue.window(self.y0, self.x0, self.y1, self.x1, self.step))
        return replace(self, webp=bytes(webp_encode(pixels, level=QUALITY, lossless=False)))


@dataclass(frozen=True, slots=True, eq=False)
class JudgedCase:
    """A matched case with the kind of error of each nucleus."""

    matched: MatchedCase
    kinds: ErrorKinds

    @property
    def sides(self) -> tuple[Instances, Instances]:
        """Reference and prediction, each followed by its nuclei that an ignore region removed."""
        reference, prediction = (
            scored if ignored is None else join_instances([scored, ignored], scored.shape_yx)
            for scored, ignored in (
                (self.matched.reference.instances, self.matched.reference.ignored),
                (self.matched.prediction, self.matched.ignored),
            )
        )
        return reference, prediction


def draw_instances(
    result: Result, pairs: Mapping[str, tuple[Instances, Instances | None]], regions: Mapping[str, Region]
) -> dict[str, Scene]:
    """Draw the nuclei in memory of a result, reference and prediction of each case, without tissue.

    regions  unannotated regions, by the name of the case
    """
    challenge, scenes = result.challenge, {}
    pixels = _share_pixels({case.name: prod(case.shape_yx) for case in challenge.cases}, PIXELS)
    for of_case in result.cases:
        case = of_case.case
        reference, prediction = pairs[case.name]
        prepared = PreparedReference(reference, regions.get(case.name, empty_region()))
        judged = JudgedCase(match_case(challenge, case, prepared, prediction), _kinds_of(challenge, of_case))
        scenes[case.name] = scene_of(judged, None, pixels[case.name])
    return scenes


def _kinds_of(challenge: Challenge, result: CaseResult) -> ErrorKinds:
    """Return the kind of every nucleus of a case under the first matching rule."""
    rule = challenge.matching.rules[0].name
    return ErrorKinds(result.reference.kinds[rule], result.prediction.kinds[rule])


# --- scenes -----------------------------------------------------------------------------------------------------------


WINDOW_PX = 112  # side of a window of a case that is too large to be drawn as a whole
QUALITY = 55  # of WebP


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """The scene of a case, with the rows of objects.csv under the first matching rule, (R,).

    windows    the whole case, or parts of it; the tissue of either may be reduced
    is_whole   whether it is the whole case
    reference, prediction  outlines as ``outline_texts`` writes them; "": no such nucleus, or not inside the windows
    findings   why the tissue is not shown
    """

    case: str
    shape_yx: tuple[int, int]
    windows: tuple[Window, ...]
    is_whole: bool
    reference: tuple[str, ...]
    prediction: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


def scene_of(judged: JudgedCase, image: Path | None, pixels: int) -> Scene:
    """The scene of a judged case. ``pixels``: how many of its image may be shown."""
    matched, sides, rows = judged.matched, judged.sides, scene_rows(judged)
    windows, is_whole = _choose_windows(judged, rows, pixels)
    texts = []
    for side, index in zip(sides, rows, strict=True):
        chosen = np.ones(len(side), np.bool_) if is_whole else _inside_windows(side, windows)
        own = [*outline_texts(side, chosen), ""]  # the last one stands for no nucleus
        texts.append(tuple(own[number] for number in index.tolist()))
    findings = []
    try:
        with nullcontext() if image is None else open_tissue(image) as tissue:
            if tissue is not None:
                tissue.check_size(matched.case.shape_yx)
                windows = [window.draw(tissue) for window in windows]
    except InputFault as error:
        height, width = matched.case.shape_yx
        where = f"case {quote(matched.case.name)}, {quote(image.name if image else '')}"
        findings.append(fault("image-left-out", where, got=error.findings[0].got, height=height, width=width))
    return Scene(
        case=matched.case.name,
        shape_yx=matched.case.shape_yx,
        windows=tuple(windows),
        is_whole=is_whole,
        reference=texts[0],
        prediction=texts[1],
        findings=tuple(findings),
    )


def scene_rows(judged: JudgedCase) -> tuple[Int64, Int64]:
    """Reference and prediction of each row of objects.csv in ``JudgedCase.sides``, -1 if missing.

    Order: matched, false negatives, false positives, and nuclei in ignore regions (reference, then prediction).
    """
    pairs = next(iter(judged.matched.matches.values()))
    sides = (judged.matched.reference.instances, judged.matched.prediction)
    matched = (pairs.reference_index.astype(np.int64), pairs.prediction_index.astype(np.int64))
    missed, spurious = (
        np.setdiff1d(np.arange(len(side)), matched_indices)
        for side, matched_indices in zip(sides, matched, strict=True)
    )
    ignored = [np.arange(len(side), len(whole)) for side, whole in zip(sides, judged.sides, strict=True)]
    none_of = [np.full(len(rows), -1) for rows in (missed, spurious, *ignored)]
    return (
        np.concatenate([matched[0], missed, none_of[1], ignored[0], none_of[3]]),
        np.concatenate([matched[1], none_of[0], spurious, none_of[2], ignored[1]]),
    )


# --- windows ----------------------------------------------------------------------------------------------------------


def _choose_windows(judged: JudgedCase, rows: tuple[Int64, Int64], pixels: int) -> tuple[list[Window], bool]:
    """The whole case if it has no more than ``pixels``, or half as fine; otherwise windows around the worst
    mistakes."""
    height, width = judged.matched.case.shape_yx
    for step in (1, 2):
        if height * width <= pixels * step**2:
            return [Window(0, 0, height, width, step)], True
    order = np.argsort(-lost_in_rows(judged, rows), kind="stable")[: pixels // WINDOW_PX**2]
    boxes = [_boxes_of_instances(side) for side in judged.sides]
    windows = []
    for number in order.tolist():
        pair = [box[index[number]] for box, index in zip(boxes, rows, strict=True) if index[number] >= 0]
        (y0, x0), (y1, x1) = np.min(pair, axis=0)[:2].tolist(), np.max(pair, axis=0)[2:].tolist()
        windows.append(Window.around((y0, x0, y1, x1), (height, width), WINDOW_PX))
    return list(dict.fromkeys(windows)), False


def lost_in_rows(judged: JudgedCase, rows: tuple[Int64, Int64]) -> Int64:
    """Count the pixels that each row costs, int64 (R,), as ``nuclei.lost_px`` does from objects.csv; 0 for points and
    ignored nuclei."""
    pairs, table = next(iter(judged.matched.matches.values())), judged.matched.table
    areas = (table.reference_area_px, table.prediction_area_px)
    own = []  # areas of the nuclei of each row; the last one of all is no nucleus
    for area, side, index in zip(areas, judged.sides, rows, strict=True):
        own.append(np.append(area, np.zeros(len(side) - len(area) + 1, np.int64))[index])
    loss = np.asarray(own[0] + own[1], np.int64)
    is_wrong = judged.kinds.reference[pairs.reference_index] == WRONG_CLASS
    loss[: len(pairs)] -= np.where(is_wrong, 1, 2) * pairs.intersection_px
    return loss


def _boxes_of_instances(instances: Instances) -> Int64:
    """y0, x0, y1, x1 of each instance, int64 (N, 4); a point is a pixel."""
    if instances.point_yx is not None:
        low = np.floor(instances.point_yx + 0.5).astype(np.int64)
        return np.concatenate([low, low + 1], axis=1)
    width = instances.shape_yx[1]
    row, begin = np.divmod(instances.run_start, width)
    end = begin + (instances.run_stop - instances.run_start)
    boxes = np.tile(np.array([*instances.shape_yx, 0, 0], np.int64), (len(instances), 1))
    for column, values in enumerate((row, begin)):
        np.minimum.at(boxes[:, column], instances.run_instance, values)
    for column, values in enumerate((row + 1, end), start=2):
        np.maximum.at(boxes[:, column], instances.run_instance, values)
    return boxes


def _inside_windows(instances: Instances, windows: Sequence[Window]) -> Bool:
    """Return which instances have their box in some of the windows, bool (N,)."""
    y0, x0, y1, x1 = _boxes_of_instances(instances).T
    parts = [(y0 < one.y1) & (y1 > one.y0) & (x0 < one.x1) & (x1 > one.x0) for one in windows]
    return np.any(parts, axis=0) if parts else np.zeros(len(instances), np.bool_)


# --- outlines ---------------------------------------------------------------------------------------------------------


def outline_texts(instances: Instances, chosen: Bool) -> list[str]:
    """The outlines of the chosen instances, "" for other instances.

    A ring is "x y" and the lengths of its sides, but for the last, in turn to the right and down; rings are joined by
    ";". A point has no sides, and one half pixel more.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> outline_texts(instances_from_labels(np.array([[0, 5, 5], [0, 5, 0]])), np.array([True]))
    ['1 0 2 1 -1 1 -1']
    """
    if instances.point_yx is not None:
        points = (instances.point_yx[:, ::-1] + 0.5).tolist()
        return [f"{x:g} {y:g}" if is_chosen else "" for (x, y), is_chosen in zip(points, chosen.tolist(), strict=True)]
    outlines = trace_outlines(select_instances(instances, chosen))
    corners = outlines.points_xy.astype(np.int64)
    sides = np.diff(corners, axis=0, append=0)
    lengths, is_down = sides.sum(axis=1).tolist(), (sides[:, 0] == 0).tolist()
    rings: list[list[str]] = [[] for _ in range(int(chosen.sum()))]
    for instance, (first, last) in zip(
        outlines.ring_instance.tolist(), pairwise(outlines.ring_start.tolist()), strict=True
    ):
        ring = [*corners[first].tolist(), *[0] * is_down[first], *lengths[first : last - 1]]
        rings[instance].append(" ".join(map(str, ring)))
    texts = np.full(len(instances), "", object)
    texts[chosen] = [";".join(one) for one in rings]
    return list(texts)


# --- the image of a case ----------------------------------------------------------------------------------------------


FOLDER = "images"  # of a challenge


def find_images(challenge: Challenge, folder: Path, images: Path | None = None) -> dict[str, Path]:
    """The image of each case that has one: ``<case>.svs``, ``.tif``, ``.tiff`` or ``.png``.

    It is in ``images`` or in the folder of its group there; by default in the folder ``images`` of the challenge, or
    next to the files of the reference. Reference files are never used as images.
    """
    top = folder / FOLDER if images is None else images
    paths = {}
    for case in challenge.cases:
        own = _own_files(challenge, folder, case)
        folders = [top, top / case.group, *(dict.fromkeys(path.parent for path in own) if images is None else ())]
        candidates = (inside / f"{case.name}{suffix}" for inside in folders for suffix in TISSUE_SUFFIXES)
        path = next((path for path in candidates if path not in own and path.is_file()), None)
        if path is not None:
            paths[case.name] = path
    return paths


def _own_files(challenge: Challenge, folder: Path, case: Case) -> list[Path]:
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
    """A FeatureCollection of all nuclei of both sides, nuclei removed by an ignore region, and regions.

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
            for _, geometry in _geometries_of(whole):
                features.append(_feature_of(geometry, name, state, {"objectType": "annotation", "name": name}))
    for side, instances, kind, index_in_table, index_in_pairs in (
        ("reference", reference.instances, kinds.reference, table.reference_index, pairs.reference_index),
        ("prediction", matched.prediction, kinds.prediction, table.prediction_index, pairs.prediction_index),
    ):
        iou = np.full(len(instances), np.nan)  # of a nucleus without a pair the largest with one of the other side
        with np.errstate(invalid="ignore"):  # points have no pixels
            np.fmax.at(iou, index_in_table, table.intersection_px / table.union_px())
            iou[index_in_pairs] = pairs.intersection_px / pairs.union_px
        features += _nucleus_features(side, instances, class_names, kind, iou)
    for side, ignored in (("reference", reference.ignored), ("prediction", matched.ignored)):
        features += [] if ignored is None else _nucleus_features(side, ignored, class_names)
    return orjson.dumps({"type": "FeatureCollection", "features": features}, option=orjson.OPT_SERIALIZE_NUMPY)


def _nucleus_features(
    side: str, instances: Instances, class_names: Sequence[str], kind: Any = None, iou: Any = None
) -> Iterator[dict[str, Any]]:
    """A feature of each nucleus that has pixels or a point; both nuclei of a pair have the same state.

    kind  of error; None for nuclei removed by an ignore region, without further information
    iou   NaN if unknown
    """
    areas = instances.areas_px().tolist()
    for index, geometry in _geometries_of(instances):
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
        yield {"id": f"{side} {source}", **_feature_of(geometry, name, state, properties)}


def _feature_of(geometry: dict[str, Any], name: str, state: str, properties: dict[str, Any]) -> dict[str, Any]:
    classification = {"name": name, "color": list(bytes.fromhex(STATE_COLOURS[state][1:]))}
    return {"type": "Feature", "geometry": geometry, "properties": {**properties, "classification": classification}}


def _geometries_of(instances: Instances) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield index and geometry of each nucleus that has pixels or a point."""
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
    """Draw both sides as label images, which give both nuclei of a pair the same number.

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
class _Judgement:
    """Outcome of a judged case from a worker; ``files`` were written."""

    errors: CaseErrors
    scene: Scene | None
    files: tuple[Path, ...]


def _judge_cases(
    challenge: Challenge,
    folder: ReferenceFolder,
    files: SubmissionFiles,
    images: Mapping[str, Path],
    overlays: Path | None,
    pixels: Mapping[str, int],
    inputs: Sequence[CaseInput],
) -> list[_Judgement | CaseOutcome]:
    """Judge and draw some cases, or return the fault.

    images  by the name of the case
    pixels  by name, the pixel limits of the cases with requested scenes
    """
    rules = rules_of_references(challenge)
    outcomes = [read_and_match(challenge, folder, files, case, rules) for case in inputs]
    cases = [outcome for outcome in outcomes if isinstance(outcome, ReadCase)]
    if len(cases) < len(outcomes):
        return [outcome for outcome in outcomes if isinstance(outcome, CaseOutcome)]
    results = measure_cases(challenge, [read.matched for read in cases])
    judgements: list[_Judgement | CaseOutcome] = []
    rule = challenge.matching.rules[0].name
    for read, result in zip(cases, results, strict=True):
        judged = JudgedCase(read.matched, _kinds_of(challenge, result))
        errors = count_error_kinds(result, rule)
        name, written = result.case.name, list[Path]()
        if overlays is not None:  # names of cases are checked with the challenge
            drawn = {".geojson": overlay_geojson(judged, challenge.class_names), **label_tiffs(judged)}
            for end, content in drawn.items():
                written.append(overlays / f"{name}{end}")
                write_atomically(written[-1], content)
        scene = scene_of(judged, images.get(name), pixels[name]) if name in pixels else None
        judgements.append(_Judgement(errors, scene, tuple(written)))
    return judgements


# --- the second pass --------------------------------------------------------------------------------------------------


PIXELS = 20_000_000  # of all cases together that a page may show: some 4 MB


@dataclass(frozen=True, slots=True, eq=False)
class SecondPass:
    """Results of the second pass over a submission.

    scenes     by name, of the cases that were requested
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

    challenge  rules other than challenge.toml for the same cases and files
    drawn      names of cases with requested scenes, by priority; PIXELS are shared among them
    images     folder of the images of the cases; None: see ``find_images``
    overlays   folder for the overlays of every case; None: no overlays

    Raises what ``score_submission`` raises. Workers never change a byte.
    """
    folder = Path(challenge_folder)
    challenge = Challenge.load(folder) if challenge is None else challenge
    paths = find_images(challenge, folder, images)
    return judge_files(challenge, folder, Path(submission), paths, drawn, overlays, workers, progress)


def judge_files(
    challenge: Challenge,
    folder: ReferenceFolder,
    submission: Path | SubmissionFiles,
    images: Mapping[str, Path],
    drawn: Sequence[str] = (),
    overlays: Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> SecondPass:
    """``illustrate_cases`` of files in any place. ``images``: of the cases, by name."""
    received = receive_submission(challenge, submission, folder)
    run = partial(run_work, workers=workers)
    cases = sort_cases(challenge, folder, received, progress, run)
    challenge = cases.challenge
    if challenge.are_counts:  # nothing is known of where nuclei lie
        return SecondPass()
    if overlays is not None:
        overlays.mkdir(parents=True, exist_ok=True)
    chosen = frozenset(drawn[: PIXELS // WINDOW_PX**2])
    sizes = {case.name: prod(case.shape_yx) for case in challenge.cases if case.name in chosen}
    judge = partial(_judge_cases, challenge, folder, received.files, images, overlays, _share_pixels(sizes, PIXELS))
    outcomes = run(cases.work(judge, progress=progress))
    raise_faults(challenge, received, [outcome for outcome in outcomes if isinstance(outcome, CaseOutcome)])
    judged = [outcome for outcome in outcomes if isinstance(outcome, _Judgement)]
    return SecondPass(
        scenes={one.scene.case: one.scene for one in judged if one.scene is not None},
        errors=tuple(one.errors for one in judged),
        files=tuple(path for one in judged for path in one.files),
    )


def _share_pixels(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Share the allowed pixels among cases: large cases get the unused share of small cases.

    >>> _share_pixels({"a": 100, "b": 10, "c": 100}, 130)
    {'b': 43, 'a': 60, 'c': 60}
    """
    shares: dict[str, int] = {}
    for index, (name, size) in enumerate(sorted(sizes.items(), key=lambda item: (item[1], item[0]))):
        shares[name] = total // (len(sizes) - index)
        total -= min(size, shares[name])
    return shares
