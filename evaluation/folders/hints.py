"""Hints when nearly nothing matches: usual mistakes are undone on some images, to see whether more nuclei match.

For people at a terminal. Hints reveal the reference and must never reach the platform; they change no score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from evaluation.challenge import Challenge
from evaluation.challenge.matching_rules import RadiusRule
from evaluation.files.decoding.annotations import Annotations, library_faults
from evaluation.files.decoding.label_array import CLASSES_AT_MOST
from evaluation.files.submission import SubmissionFiles
from evaluation.findings import Finding, counted, fault, listed, percent
from evaluation.findings.errors import InputFault
from evaluation.scoring import read as reading
from evaluation.scoring.match import end_in_8_bits
from evaluation.scoring.read import ReferenceFolder
from evaluation.scoring.receive import receive_submission
from evaluation.scoring.score import Result
from nuclei_metrics.instances.prepare import convert_parts
from nuclei_metrics.instances.rasterise import placed_vertices
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.matching import match_iou_above, overlap_table
from nuclei_metrics.matching.rules import match_centroid_closest_first
from nuclei_metrics.model import Float64, Instances, OriginRule, Outlines, Part, Points, VerticesRule
from nuclei_metrics.model.arrays import expand

Size = tuple[int, int]

HINTED_SIDE = "prediction"  # where hints find what they tell
IMAGES_TRIED = 4
PIXELS_AT_MOST = 25_000_000
NUCLEI_AT_MOST = 20_000
FEW_MATCHED = 0.6  # share of the reference nuclei that are matched, below which changes are tried
CLEARLY_MORE = 0.3  # share that a hint is given for, and that a change has to add
HALF_PIXEL_GAIN = 0.03  # of the mean IoU
CLASSES_RIGHT, PAIRS_AT_LEAST = 0.8, 10
PAIRS_LOOKED_AT = 400
BIN_PX = 4


@dataclass(frozen=True, slots=True, eq=False)
class TriedImage:
    """An image: its reference, and its prediction as it was read, with the rules of its outlines.

    radius_px  within which centroids match; None: nuclei match by their IoU
    own_yx     the size of the prediction if it differs
    """

    name: str
    reference: Instances
    parts: tuple[Part, ...]
    vertices: VerticesRule | None = None
    origin: OriginRule | None = None
    radius_px: float | None = None
    own_yx: Size | None = None

    @property
    def shape_yx(self) -> Size:
        return self.reference.shape_yx

    @property
    def are_outlines(self) -> bool:
        return all(isinstance(part, Outlines) for part in self.parts)

    def prediction(self) -> Instances:
        """The prediction as instances; parts that do not fit the image are cut at its edge."""
        return self.converted(self.parts, self.vertices or "exact", self.origin or "pixel_centre")

    def moved_outlines(self, move: Callable[[Float64], Float64]) -> Instances:
        """The prediction with its vertices moved, float64 (N, 2) in x and y."""
        rules: dict[str, Any] = {"vertices": "exact", "origin": self.origin or "pixel_centre"}
        parts = [
            replace(part, points_xy=move(placed_vertices(part.points_xy, **rules)))
            for part in self.parts
            if isinstance(part, Outlines)
        ]
        return self.converted(parts, "exact", "pixel_centre")

    def converted(self, parts: Sequence[Part], vertices: VerticesRule, origin: OriginRule) -> Instances:
        rules: dict[str, Any] = {"vertices": vertices, "origin": origin, "vanished": "drop", "where": self.name}
        with library_faults():
            return convert_parts(parts, self.own_yx or self.shape_yx, **rules).instances


@dataclass(frozen=True, slots=True)
class _Undoing:
    """A change of a prediction: x and y are swapped, then scaled (below 0: mirrored) and moved, px.

    ``words`` describe the change, ``question`` the likely mistake. Mirrored nuclei stay inside their image.
    """

    words: str = ""
    question: str = ""
    swap: bool = False
    scale_xy: tuple[float, float] = (1, 1)
    shift_xy: tuple[float, float] = (0, 0)

    def offset_xy(self, shape_yx: Size) -> Float64:
        sides: Float64 = np.where(np.array(self.scale_xy) < 0, np.subtract(shape_yx[::-1], 1), 0)
        grown = (np.abs(self.scale_xy) - 1) / 2  # pixels grow about their corners
        return np.asarray(sides + self.shift_xy + grown)

    def applied(self, image: TriedImage) -> Instances:
        offset_xy, scale_xy = self.offset_xy(image.shape_yx), np.array(self.scale_xy)

        def move(points_xy: Float64) -> Float64:
            return np.asarray((points_xy[:, ::-1] if self.swap else points_xy) * scale_xy + offset_xy)

        if image.radius_px is not None:
            made = image.prediction()
            return replace(made, point_yx=move(made.centroids_yx()[:, ::-1])[:, ::-1])
        if image.are_outlines and image.own_yx is None:
            return image.moved_outlines(move)
        labels = painted(image.prediction())
        labels = labels.T if self.swap else labels
        from_y, from_x = (
            np.rint((np.arange(size) - offset_xy[axis]) / scale_xy[axis]).astype(np.int64)
            for size, axis in zip(image.shape_yx, (1, 0), strict=True)
        )
        y, x = (
            np.flatnonzero((index >= 0) & (index < size))
            for index, size in zip((from_y, from_x), labels.shape, strict=True)
        )
        changed = np.zeros(image.shape_yx, labels.dtype)
        changed[np.ix_(y, x)] = labels[np.ix_(from_y[y], from_x[x])]
        return instances_from_labels(changed, class_id=1)


_TIMES_AS_LARGE = {f"{factor:g} times as large": factor for factor in (2, 4, 0.5, 0.25)}
CHANGES = (
    _Undoing("transposed", "are rows and columns, or x and y, swapped?", swap=True),
    _Undoing("mirrored left to right", "was the image flipped?", scale_xy=(-1, 1)),
    _Undoing("mirrored top to bottom", "was the image flipped, or does y count from below?", scale_xy=(1, -1)),
    _Undoing("turned by 180 degrees", "was the image turned?", scale_xy=(-1, -1)),
    _Undoing("turned by 90 degrees", "was the image turned?", swap=True, scale_xy=(-1, 1)),
    _Undoing("turned by 270 degrees", "was the image turned?", swap=True, scale_xy=(1, -1)),
    *(
        _Undoing(words, "", scale_xy=(factor, factor))
        for words, factor in _TIMES_AS_LARGE.items()
    ),
)  # fmt: skip


# --- what is looked at ------------------------------------------------------------------------------------------------


def hints_about_files(folder: ReferenceFolder, submission: Path | SubmissionFiles, result: Result) -> list[Finding]:
    """Look for usual mistakes in a submission that was scored. Files that became unreadable yield no hints."""
    challenge = result.challenge
    if challenge.are_counts:
        return []
    are_points = challenge.reference.are_points or challenge.submission.are_points
    if are_points and not isinstance(challenge.matching.rules[0], RadiusRule):
        return classes_hint(result)
    try:
        return [*hints_about(lambda: _read_some(challenge, folder, submission), result), *classes_hint(result)]
    except (InputFault, OSError):
        return []


def hint_about_size(
    challenge: Challenge, folder: ReferenceFolder, submission: SubmissionFiles, own_sizes: Mapping[str, Size]
) -> str:
    """Return how predictions of other sizes than their images, by case, would fit; "" if nothing that was tried
    fits."""
    try:
        images = _read_some(challenge, folder, submission, own_sizes)
    except (InputFault, OSError):
        return ""
    return _what_would_fit(images) if images else ""


def hints_about(look: Callable[[], list[TriedImage]], result: Result) -> list[Finding]:
    """Look for usual mistakes on some images of a result, if its scores are so low that there may be one."""
    rule = next(iter(result.scores))
    table = result.scored.tables[rule]
    confusion, pairs = table.sums["confusion"], table.pairs
    found, nuclei = confusion[:, 1:, 1:].sum(axis=(1, 2)), int(confusion[:, 1:].sum())
    matched = int(found.sum())
    few = matched < FEW_MATCHED * nuclei
    all_have_spurious = bool(confusion[found > 0, 0].any(axis=1).all())
    ious = pairs.measures.get("iou", np.empty(0))[table.sums["points"][pairs.case] == 0]
    lies_well = not len(ious) or ious.sum() > (1 - HALF_PIXEL_GAIN) * len(ious)
    may_lie_better = not lies_well and not result.challenge.submission.dense  # by half a pixel, as outlines
    if not nuclei or not (few or all_have_spurious or may_lie_better):
        return []
    images = look()
    if not images:
        return []
    return (_what_would_match(images) if few else []) or _half_pixel(images)


def _read_some(
    challenge: Challenge,
    folder: ReferenceFolder,
    submission: Path | SubmissionFiles,
    own_sizes: Mapping[str, Size] | None = None,
) -> list[TriedImage]:
    """Read up to four images with nuclei on both sides; with ``own_sizes``, px, only predictions of these sizes.

    Raises InputFault.
    """
    rule = challenge.matching.rules[0]
    are_points = challenge.reference.are_points or challenge.submission.are_points
    received = receive_submission(challenge, submission, folder)
    shared = reading.read_shared_reference(challenge, folder)
    side = reading.submission_side(challenge, received.files)
    images: list[TriedImage] = []
    for case in challenge.cases:
        content = received.contents.get(case.name)
        own_yx = None if own_sizes is None else own_sizes.get(case.name)
        is_other = own_sizes is not None and own_yx is None
        if content is None or is_other or max(case.height * case.width, math.prod(own_yx or ())) > PIXELS_AT_MOST:
            continue
        reference = reading.read_reference(challenge, folder, case, None if shared is None else shared.cases[case.name])
        own = case if own_yx is None else replace(case, height=own_yx[0], width=own_yx[1])
        said = content if isinstance(content, Annotations) else reading.read_case(side, own, content)
        parts = tuple(reading.in_image(said.parts, case, side.rules))
        nuclei = sum(len(part) for part in parts if isinstance(part, Outlines | Instances | Points))
        if 0 < len(reference.instances) < NUCLEI_AT_MOST > nuclei:
            radius_px = rule.radius_in_px(case) if are_points and isinstance(rule, RadiusRule) else None
            outlines = side.rules.value("vertices"), side.rules.value("origin")
            images.append(TriedImage(case.name, reference.instances, parts, *outlines, radius_px, own_yx))
        if len(images) == IMAGES_TRIED:
            break
    return images


# --- what is tried ----------------------------------------------------------------------------------------------------


Attempts = Iterable[tuple[str, str, list[Instances]]]  # what was done, what the mistake may be, and the predictions


def _what_would_match(images: Sequence[TriedImage]) -> list[Finding]:
    """Warn of the change of the predictions under which by far more nuclei match, if there is such a change."""
    radius_px = images[0].radius_px
    now = share(images, [image.prediction() for image in images])
    best, change, question = _best_of(attempts(images), images)
    least = FEW_MATCHED if radius_px is not None else CLEARLY_MORE  # within a radius some match by chance
    if best < max(least, min(3 * now, now + CLEARLY_MORE)):
        return []
    what = "IoU > 0.5" if radius_px is None else f"a point within {radius_px:g} px"
    code, before, then, number = "nearly-nothing-matches", percent(now), percent(best), len(images)
    if factor := _TIMES_AS_LARGE.get(change):
        wording = "times-as-large"
        return [
            fault(code, HINTED_SIDE, wording=wording, factor=factor, what=what, now=before, then=then, images=number)
        ]
    done = f"{change[0].upper()}{change[1:]}"
    return [fault(code, HINTED_SIDE, change=done, question=question, what=what, now=before, then=then, images=number)]


def _what_would_fit(images: Sequence[TriedImage]) -> str:
    """Return how predictions of another size than their images would match; "" if they do not."""
    best, change, question = _best_of(_fits(images), images)
    tried = counted(len(images), "image was", "images were")
    advice = f"{change[0].upper()}{change[1:]}, IoU > 0.5 for {percent(best)} of the nuclei ({tried} tried): {question}"
    return advice if best >= CLEARLY_MORE else ""


def _best_of(tried: Attempts, images: Sequence[TriedImage]) -> tuple[float, str, str]:
    """Return the share of matched nuclei under the best attempt, the change, and the likely mistake.

    The best attempt has the most matches; among equal numbers, the best fit.
    """
    shares = [(share(images, made), _mean_fit(images, made), done, question) for done, question, made in tried]
    matched, _, done, question = max(shares, key=lambda attempt: attempt[:2])
    return matched, done, question


def _fits(images: Sequence[TriedImage]) -> Attempts:
    """Yield predictions of another size than their images transposed, laid on the image, and resized."""

    def tried(words: str, question: str, changes: Iterable[_Undoing]) -> tuple[str, str, list[Instances]]:
        return words, question, [change.applied(image) for change, image in zip(changes, images, strict=True)]

    sizes = [(image.shape_yx[::-1], (image.own_yx or image.shape_yx)[::-1]) for image in images]
    if all(own == shape[::-1] for shape, own in sizes):
        yield tried("transposed", "height and width are swapped. Transpose the labels.", [CHANGES[0]] * len(images))
    question = "was the image cropped or padded? Cut or pad the labels so."
    places = ("aligned with the upper left corner of", "centred on", "aligned with the lower right corner of")
    for words, part in zip(places, (0, 0.5, 1), strict=True):
        shifts = (np.floor(np.subtract(*of_image) * part).tolist() for of_image in sizes)
        yield tried(f"{words} the reference", question, (_Undoing(shift_xy=shift) for shift in shifts))
    if shift := _likely_shift(images):
        yield tried(_words_of_shift(shift), question, [_Undoing(shift_xy=shift)] * len(images))
    scales = (np.divide(*of_image).tolist() for of_image in sizes)
    question = "was the image resized? Resize the labels (nearest neighbour)."
    yield tried("resized", question, (_Undoing(scale_xy=scale) for scale in scales))


def attempts(images: Sequence[TriedImage]) -> Attempts:
    are_points = any(image.radius_px is not None for image in images)
    outlines = all(image.are_outlines for image in images)
    square = all(image.shape_yx[0] == image.shape_yx[1] for image in images)
    changes = [change for change in CHANGES if not change.swap or square or outlines or are_points]
    if shift := _likely_shift(images):
        question = "was the image cropped, or do coordinates count from another corner?"
        changes.append(_Undoing(_words_of_shift(shift), question, shift_xy=shift))
    for change in changes:
        yield change.words, change.question, [change.applied(image) for image in images]
    if not are_points:
        yield _numbered_regions(images, outlines=outlines)
    if len(images) > 1 and len({image.shape_yx for image in images}) == 1:
        predictions = [image.prediction() for image in images]
        shares = np.array([[share([image], [made]) for made in predictions] for image in images])
        _, order = scipy.optimize.linear_sum_assignment(-shares)
        if (order != np.arange(len(images))).any():
            pairs = [f"{images[j].name} for {images[i].name}" for i, j in enumerate(order.tolist()) if i != j]
            question = f"are the names of the files mixed up ({', '.join(pairs[:2])})?"
            yield "given to each other's images", question, [predictions[j] for j in order.tolist()]


def _numbered_regions(images: Sequence[TriedImage], *, outlines: bool) -> tuple[str, str, list[Instances]]:
    """Create a nucleus of each connected region."""
    labels = max(len(image.prediction()) for image in images)
    question = "do ids restart in each tile, or are they tracks? Number the nuclei uniquely."
    if any(end_in_8_bits(image.prediction().source_id.tolist()) for image in images):
        question = "were ids stored in 8 bits, which end at 255? Save 16 or 32 bits."
    if outlines:
        question = "are the parts of an outline separate nuclei? Write one outline for each nucleus."
    elif labels <= CLASSES_AT_MOST:
        question = "are the labels classes, not nuclei? Number each nucleus, for example with scipy.ndimage.label."
    made = [instances_from_labels(regions(painted(image.prediction())), class_id=1) for image in images]
    return "with a number for each region", question, made


def share(images: Sequence[TriedImage], predictions: Sequence[Instances]) -> float:
    """Measure which share of the reference nuclei match at an IoU above 0.5, or within the radius of points."""
    matched = nuclei = 0
    for image, prediction in zip(images, predictions, strict=True):
        nuclei += len(image.reference)
        matched += len(_matches_that_fit(image, prediction)[0])
    return matched / max(nuclei, 1)


def _matches_that_fit(
    image: TriedImage, prediction: Instances
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Find the reference nuclei that match, and how well: by their IoU, of points by minus their distance, px."""
    if image.radius_px is not None:
        near = match_centroid_closest_first(image.reference, prediction, radius_px=image.radius_px, class_aware=False)
        places = image.reference.centroids_yx()[near.reference_index], prediction.centroids_yx()[near.prediction_index]
        return np.asarray(near.reference_index), -np.hypot(*(places[0] - places[1]).T)
    table = overlap_table(image.reference, prediction)
    matches = match_iou_above(table, image.reference, prediction, threshold=0.5, class_aware=False)
    return np.asarray(matches.reference_index), np.asarray(matches.intersection_px / matches.union_px)


def _half_pixel(images: Sequence[TriedImage]) -> list[Finding]:
    """Warn if outlines are shifted by half a pixel, which another rule ``origin`` would correct."""
    if not all(image.are_outlines for image in images):
        return []
    now = _mean_fit(images, [image.prediction() for image in images])
    for shift, other in ((0.5, "pixel_centre"), (-0.5, "pixel_corner")):
        change = _Undoing(shift_xy=(shift, shift))
        moved = _mean_fit(images, [change.applied(image) for image in images])
        if moved > now + HALF_PIXEL_GAIN:
            code, wording, by = "nearly-nothing-matches", "half-pixel-aside", f"{shift:+g}"
            fit = f"{now:.2f}", f"{moved:.2f}"
            return [fault(code, HINTED_SIDE, wording=wording, now=fit[0], moved=fit[1], shift=by, other=other)]
    return []


def _mean_fit(images: Sequence[TriedImage], predictions: Sequence[Instances]) -> float:
    fit = np.concatenate([_matches_that_fit(image, made)[1] for image, made in zip(images, predictions, strict=True)])
    return float(fit.mean()) if len(fit) else 0.0


def _likely_shift(images: Sequence[TriedImage]) -> tuple[float, float] | None:
    """Find the vector (x, y), whole px, by which most predicted centroids would have to move; None if there is none."""
    differences = []
    for image in images:
        both = image.reference.centroids_yx(), image.prediction().centroids_yx()
        reference, prediction = (side[~np.isnan(side).any(axis=1)][:PAIRS_LOOKED_AT] for side in both)
        differences.append((reference[:, None] - prediction[None]).reshape(-1, 2))
    every = np.concatenate(differences)
    if not len(every):
        return None
    bins, count = np.unique(np.rint(every / BIN_PX), axis=0, return_counts=True)
    near = every[(np.abs(every - bins[count.argmax()] * BIN_PX) <= BIN_PX).all(axis=1)]
    y, x = np.rint(np.median(near, axis=0))
    return (float(x), float(y)) if (x, y) != (0, 0) else None


def _words_of_shift(shift_xy: tuple[float, float]) -> str:
    return f"moved by {shift_xy[0]:g} px in x and {shift_xy[1]:g} px in y"


# --- labels -----------------------------------------------------------------------------------------------------------


def painted(instances: Instances) -> npt.NDArray[np.int32]:
    """Paint instances into a label map (H, W); the later nucleus keeps shared pixels."""
    labels = np.zeros(instances.shape_yx[0] * instances.shape_yx[1], np.int32)
    lengths = instances.run_stop - instances.run_start
    labels[expand(instances.run_start, instances.run_stop)] = np.repeat(instances.run_instance + 1, lengths)
    return labels.reshape(instances.shape_yx)


def regions(labels: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Give each connected region of a label (by 4 neighbours) a new label."""
    from skimage.measure import label  # slow to import, and few need it

    return np.asarray(label(labels, connectivity=1), np.int32)


# --- classes ----------------------------------------------------------------------------------------------------------


def classes_hint(result: Result) -> list[Finding]:
    """Warn if other names for the predicted classes would make most of the matched pairs right."""
    names = result.challenge.class_names
    rule = next(iter(result.scores), None)
    if len(names) < 2 or rule is None or result.challenge.are_counts:
        return []
    confusion = result.scored.tables[rule].sums["confusion"].sum(axis=0)[1:, 1:]
    pairs = int(confusion.sum())
    if pairs < PAIRS_AT_LEAST or np.trace(confusion) > 0.5 * pairs:
        return []
    rows, columns = scipy.optimize.linear_sum_assignment(-confusion)
    right = confusion[rows, columns].sum() / pairs
    if right < CLASSES_RIGHT:
        return []
    met = [(i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if i != j and confusion[i, j]]
    steps = {j - i for i, j in met}
    said = listed((f"{names[j]} is {names[i]}" for i, j in met), 4, last="and")
    kind = "are their numbers off by one?" if steps in ({1}, {-1}) else "are they in another order?"
    now, then = percent(int(np.trace(confusion)) / pairs), percent(float(right))
    words = "classes-mixed-up"
    return [fault("nearly-nothing-matches", HINTED_SIDE, wording=words, now=now, right=then, said=said, question=kind)]
