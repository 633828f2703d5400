"""Hints when nearly nothing matches: usual mistakes are undone on some images, to see whether more nuclei match.

For people at a terminal. Hints reveal the reference and must never reach the platform; they change no score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy

from evaluation.challenge import Challenge
from evaluation.challenge.matching_rules import RadiusRule
from evaluation.decoding.label_array import CLASSES_AT_MOST
from evaluation.findings import Finding, fault, listed, percent
from evaluation.findings.errors import InputFault
from evaluation.instances.labels import instances_from_labels
from evaluation.instances.prepare import convert_parts
from evaluation.instances.rasterise import placed_vertices
from evaluation.instances.runs import select_instances
from evaluation.matching import match_centroid_closest_first, match_iou_above, overlap_table
from evaluation.model import Annotations, Instances, Outlines, Part, Points
from evaluation.model.arrays import expand
from evaluation.scoring.read import in_image, read_case, read_reference, read_shared_reference, submission_side
from evaluation.scoring.receive import receive_submission
from evaluation.scoring.score import Result

Size = tuple[int, int]

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
class Seen:
    """An image: its reference, and its prediction as it was read, with the rules of its outlines.

    radius_px  within which centroids match; None: nuclei match by their IoU
    own_yx     the size of the prediction if it is another one
    """

    name: str
    reference: Instances
    parts: tuple[Part, ...]
    vertices: str | None = None
    origin: str | None = None
    radius_px: float | None = None
    own_yx: Size | None = None

    @property
    def shape_yx(self) -> Size:
        return self.reference.shape_yx

    def prediction(self, parts: Sequence[Part] | None = None, origin: str | None = None) -> Instances:
        """The prediction as instances; parts that do not fit the image are cut at its edge."""
        made = convert_parts(
            self.parts if parts is None else parts,
            self.own_yx or self.shape_yx,
            vertices=self.vertices or "exact",  # type: ignore[arg-type]
            origin=origin or self.origin or "pixel_centre",  # type: ignore[arg-type]
            vanished="drop",
            where=self.name,
        )
        return made.instances


@dataclass(frozen=True, slots=True)
class Undoing:
    """A change of a prediction: x and y are swapped, then scaled (below 0: mirrored) and moved, px.

    ``words`` tell what was done, ``question`` what the mistake may be. What is mirrored stays inside its image.
    """

    words: str
    question: str
    swap: bool = False
    scale_xy: tuple[float, float] = (1, 1)
    shift_xy: tuple[float, float] = (0, 0)

    def offset_xy(self, shape_yx: tuple[int, int]) -> tuple[float, float]:
        width, height = shape_yx[1], shape_yx[0]
        sides = (width - 1 if self.scale_xy[0] < 0 else 0, height - 1 if self.scale_xy[1] < 0 else 0)
        grown = [(abs(scale) - 1) / 2 for scale in self.scale_xy]  # pixels grow about their corners
        return sides[0] + self.shift_xy[0] + grown[0], sides[1] + self.shift_xy[1] + grown[1]

    def applied(self, image: Seen) -> Instances:
        offset = np.array(self.offset_xy(image.shape_yx))
        if image.radius_px is not None:
            made = image.prediction()
            points_xy = made.centroids_yx()[:, :: 1 if self.swap else -1] * np.array(self.scale_xy) + offset
            return replace(made, point_yx=points_xy[:, ::-1])
        if image.parts and all(isinstance(part, Outlines) for part in image.parts):
            moved = []
            for part in image.parts:
                assert isinstance(part, Outlines)
                origin = image.origin or "pixel_centre"
                points = placed_vertices(part.points_xy, vertices="exact", origin=origin)  # type: ignore[arg-type]
                points = points[:, ::-1] if self.swap else points
                moved.append(replace(part, points_xy=points * np.array(self.scale_xy) + offset))
            return image.prediction(moved, "pixel_centre")
        labels = painted(image.prediction())
        labels = labels.T if self.swap else labels
        rows, columns = (
            np.rint((np.arange(size) - offset[axis]) / self.scale_xy[axis]).astype(np.int64)
            for size, axis in zip(image.shape_yx, (1, 0), strict=True)
        )
        kept_rows = (rows >= 0) & (rows < labels.shape[0])
        kept_columns = (columns >= 0) & (columns < labels.shape[1])
        changed = np.zeros(image.shape_yx, labels.dtype)
        changed[np.ix_(kept_rows, kept_columns)] = labels[np.ix_(rows[kept_rows], columns[kept_columns])]
        return instances_from_labels(changed, class_id=1)


CHANGES = (
    Undoing("transposed", "are rows and columns, or x and y, swapped?", swap=True),
    Undoing("mirrored left to right", "was the image flipped?", scale_xy=(-1, 1)),
    Undoing("mirrored top to bottom", "was the image flipped, or does y count from below?", scale_xy=(1, -1)),
    Undoing("turned by 180 degrees", "was the image turned?", scale_xy=(-1, -1)),
    Undoing("turned by 90 degrees", "was the image turned?", swap=True, scale_xy=(-1, 1)),
    Undoing("turned by 270 degrees", "was the image turned?", swap=True, scale_xy=(1, -1)),
    *(
        Undoing(f"{factor:g} times as large", "is the image of another size or magnification, or are these um?",
               scale_xy=(factor, factor))
        for factor in (2, 4, 0.5, 0.25)
    ),
)  # fmt: skip


# --- what is looked at ------------------------------------------------------------------------------------------------


def hints_about_files(folder: Path, submission: Path, result: Result) -> list[Finding]:
    """Hints about a submission that was scored; a file that cannot be read any more gives none."""
    challenge = result.challenge
    if challenge.are_counts:
        return []
    are_points = challenge.reference.are_points or challenge.submission.are_points
    if are_points and not isinstance(challenge.matching.rules[0], RadiusRule):
        return classes_hint(result)
    try:
        return [*hints_about(lambda: read_some(challenge, folder, submission), result), *classes_hint(result)]
    except (InputFault, OSError):
        return []


def hint_about_size(challenge: Challenge, folder: Path, submission: Path, own_sizes: Mapping[str, Size]) -> str:
    """How the predictions that have sizes of their own, by case, would fit; "" if none was seen to."""
    try:
        images = read_some(challenge, folder, submission, own_sizes)
    except (InputFault, OSError):
        return ""
    return what_would_fit(images) if images else ""


def hints_about(look: Callable[[], list[Seen]], result: Result) -> list[Finding]:
    """Hints about a result, from some of its images if their scores call for it."""
    rule = next(iter(result.scores))
    counts = [case.counts[rule] for case in result.cases]
    matched = sum(each.true_positives for each in counts)
    nuclei = matched + sum(each.false_negatives for each in counts)
    ious = [iou for each in counts for iou in each.measures.get("iou", np.empty(0)).tolist()]
    few = matched < FEW_MATCHED * nuclei
    all_have_spurious = all(each.false_positives for each in counts if each.true_positives)
    lies_well = not ious or sum(ious) > (1 - HALF_PIXEL_GAIN) * len(ious)
    if not nuclei or not (few or all_have_spurious or not lies_well):
        return []
    images = look()
    if not images:
        return []
    if background := background_hint(images):
        return background
    return (what_would_match(images) if few else []) or half_pixel(images)


def read_some(
    challenge: Challenge, folder: Path, submission: Path, own_sizes: Mapping[str, Size] | None = None
) -> list[Seen]:
    """Up to four images with nuclei on both sides, all or those whose predictions have sizes of their own, px.

    Raises InputFault.
    """
    rule = challenge.matching.rules[0]
    are_points = challenge.reference.are_points or challenge.submission.are_points
    received = receive_submission(challenge, submission, folder)
    shared = read_shared_reference(challenge, folder)
    side = submission_side(challenge, received.files)
    images: list[Seen] = []
    for case in challenge.cases:
        content = received.contents.get(case.name)
        own_yx = None if own_sizes is None else own_sizes.get(case.name)
        is_other = own_sizes is not None and own_yx is None
        if content is None or is_other or max(case.height * case.width, math.prod(own_yx or ())) > PIXELS_AT_MOST:
            continue
        reference = read_reference(challenge, folder, case, None if shared is None else shared.cases[case.name])
        own = case if own_yx is None else replace(case, height=own_yx[0], width=own_yx[1])
        said = content if isinstance(content, Annotations) else read_case(side, own, content)
        parts = tuple(in_image(said.parts, case, side.rules))
        nuclei = sum(len(part) for part in parts if isinstance(part, Outlines | Instances | Points))
        if 0 < len(reference.instances) < NUCLEI_AT_MOST > nuclei:
            radius_px = rule.radius_in_px(case) if are_points and isinstance(rule, RadiusRule) else None
            outlines = side.rules.value("vertices"), side.rules.value("origin")
            images.append(Seen(case.name, reference.instances, parts, *outlines, radius_px, own_yx))
        if len(images) == IMAGES_TRIED:
            break
    return images


# --- what is tried ----------------------------------------------------------------------------------------------------


def what_would_match(images: Sequence[Seen]) -> list[Finding]:
    """The change under which by far the most nuclei match, as a warning; none if there is no such change."""
    radius_px = images[0].radius_px
    now = share(images, [image.prediction() for image in images])
    best = best_of(attempts(images), images)
    least = FEW_MATCHED if radius_px is not None else CLEARLY_MORE  # within a radius some match by chance
    if best.share < max(least, min(3 * now, now + CLEARLY_MORE)):
        return []
    what = "IoU > 0.5" if radius_px is None else f"a point within {radius_px:g} px"
    got = f"{what} for {percent(now)} of the nuclei"
    return [fault("nearly-nothing-matches", "prediction", got=got, fix=best.advice("it is", len(images)))]


def what_would_fit(images: Sequence[Seen]) -> str:
    """How predictions of another size than their images would match, in a sentence; "" if they do not."""
    best = best_of(fits(images), images)
    return best.advice("IoU > 0.5 for", len(images)) if best.share >= CLEARLY_MORE else ""


@dataclass(frozen=True, slots=True)
class Tried:
    """What was done to predictions, what the mistake may be, and the share of the nuclei that match then."""

    words: str
    question: str
    share: float

    def advice(self, what: str, images: int) -> str:
        tried = "1 image was" if images == 1 else f"{images} images were"
        done = f"{self.words[0].upper()}{self.words[1:]}"
        of_nuclei = "" if what == "it is" else " of the nuclei"
        return f"{done}, {what} {percent(self.share)}{of_nuclei} ({tried} tried): {self.question}"


Attempts = Iterable[tuple[str, str, list[Instances]]]


def best_of(attempts: Attempts, images: Sequence[Seen]) -> Tried:
    """The attempt under which the most nuclei match, of those with as many the one under which they fit best."""
    tried = [(share(images, made), mean_fit(images, made), words, question) for words, question, made in attempts]
    of_nuclei, _, words, question = max(tried, key=lambda each: each[:2])
    return Tried(words, question, of_nuclei)


def fits(images: Sequence[Seen]) -> Attempts:
    """Predictions of another size as labels of the size of their images: transposed, laid on them, resized."""
    labels = [painted(image.prediction()) for image in images]
    if all(image.own_yx == image.shape_yx[::-1] for image in images):
        swapped = [instances_from_labels(np.ascontiguousarray(own.T), class_id=1) for own in labels]
        yield "transposed", "height and width are swapped. Transpose the labels.", swapped
    gaps = [np.subtract(image.shape_yx, own.shape).tolist() for image, own in zip(images, labels, strict=True)]
    places = {
        "laid with its upper left corner on that of the reference": [(0, 0) for _ in gaps],
        "laid on the middle of the reference": [(y // 2, x // 2) for y, x in gaps],
        "laid with its lower right corner on that of the reference": [(y, x) for y, x in gaps],
    }
    if shift := likely_shift(images):
        places[f"moved by {shift[0]:g} px in x and {shift[1]:g} px in y"] = [(int(shift[1]), int(shift[0]))] * len(gaps)
    question = "was the image cropped or padded? Cut or pad the labels so."
    for words, at in places.items():
        laid = [laid_at(own, where, image.shape_yx) for own, where, image in zip(labels, at, images, strict=True)]
        yield words, question, [instances_from_labels(own, class_id=1) for own in laid]
    resized = []
    for own, image in zip(labels, images, strict=True):
        rows, columns = (np.arange(to) * own_size // to for to, own_size in zip(image.shape_yx, own.shape, strict=True))
        resized.append(instances_from_labels(own[np.ix_(rows, columns)], class_id=1))
    yield "resized", "was the image resized? Resize the labels (nearest neighbour).", resized


def laid_at(labels: npt.NDArray[np.int32], at: tuple[int, int], shape_yx: Size) -> npt.NDArray[np.int32]:
    """Labels with their first pixel at a row and a column of an image, which may lie outside it."""
    laid = np.zeros(shape_yx, np.int32)
    to_y, to_x = (slice(max(first, 0), max(first + own, 0)) for first, own in zip(at, labels.shape, strict=True))
    of_y, of_x = (slice(max(-first, 0), max(size - first, 0)) for first, size in zip(at, shape_yx, strict=True))
    laid[to_y, to_x] = labels[of_y, of_x]
    return laid


def attempts(images: Sequence[Seen]) -> Attempts:
    outlines = all(isinstance(part, Outlines) for image in images for part in image.parts)
    are_points = any(image.radius_px is not None for image in images)
    for change in CHANGES:
        square = all(image.shape_yx[0] == image.shape_yx[1] for image in images)
        if not change.swap or square or outlines or are_points:
            yield change.words, change.question, [change.applied(image) for image in images]
    if shift := likely_shift(images):
        words = f"moved by {shift[0]:g} px in x and {shift[1]:g} px in y"
        question = "was the image cropped, or do coordinates count from another corner?"
        change = Undoing(words, question, shift_xy=shift)
        yield words, question, [change.applied(image) for image in images]
    if not are_points:
        yield numbered_regions(images, outlines=outlines)
    if len(images) > 1 and len({image.shape_yx for image in images}) == 1:
        predictions = [image.prediction() for image in images]
        shares = np.array([[share([image], [made]) for made in predictions] for image in images])
        _, order = scipy.optimize.linear_sum_assignment(-shares)
        if (order != np.arange(len(images))).any():
            pairs = [f"{images[j].name} for {images[i].name}" for i, j in enumerate(order.tolist()) if i != j]
            question = f"are the names of the files mixed up ({', '.join(pairs[:2])})?"
            yield "given to each other's images", question, [predictions[j] for j in order.tolist()]


def numbered_regions(images: Sequence[Seen], *, outlines: bool) -> tuple[str, str, list[Instances]]:
    """Each region as a nucleus."""
    labels = max(len(image.prediction()) for image in images)
    question = "were ids stored in 8 bits, which end at 255? Save 16 or 32 bits."
    if outlines:
        question = "is an outline of several parts several nuclei? Write one for each nucleus."
    elif labels <= CLASSES_AT_MOST:
        question = "are the labels classes, not nuclei? Number each nucleus, for example with scipy.ndimage.label."
    made = [instances_from_labels(regions(painted(image.prediction())), class_id=1) for image in images]
    return "with a number for each region", question, made


def share(images: Sequence[Seen], predictions: Sequence[Instances]) -> float:
    """The share of the reference nuclei that match at an IoU above 0.5."""
    matched = nuclei = 0
    for image, prediction in zip(images, predictions, strict=True):
        nuclei += len(image.reference)
        matched += len(matches_that_fit(image, prediction)[0])
    return matched / max(nuclei, 1)


def matches_that_fit(image: Seen, prediction: Instances) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The reference nuclei that are matched, and how they fit: their IoU, or how close they are, px, below 0."""
    if image.radius_px is not None:
        near = match_centroid_closest_first(image.reference, prediction, radius_px=image.radius_px, class_aware=False)
        places = image.reference.centroids_yx()[near.reference_index], prediction.centroids_yx()[near.prediction_index]
        return np.asarray(near.reference_index), -np.hypot(*(places[0] - places[1]).T)
    table = overlap_table(image.reference, prediction)
    matches = match_iou_above(table, image.reference, prediction, threshold=0.5, class_aware=False)
    return np.asarray(matches.reference_index), np.asarray(matches.intersection_px / matches.union_px)


def background_hint(images: Sequence[Seen]) -> list[Finding]:
    """Whether a nucleus of each image covers more than half of it, as a background that is not 0 does, and nuclei match
    without it, or in its gaps. Outlines have no background.
    """

    def largest(instances: Instances) -> float:
        return float(instances.areas_px().max(initial=0)) / (instances.shape_yx[0] * instances.shape_yx[1])

    are_outlines = any(isinstance(part, Outlines) for image in images for part in image.parts)
    are_points = any(image.radius_px is not None for image in images)
    if are_outlines or are_points or max(largest(image.reference) for image in images) > 0.5:
        return []
    least = min(largest(image.prediction()) for image in images)
    if (
        least > 0.5
        and not share(images, list(map(without_largest, images)))
        and not share(images, list(map(inverted, images)))
    ):
        return []  # with 0 there, nothing would match either
    if least <= 0.5:
        return []
    return [fault("nearly-nothing-matches", "prediction", wording="background-is-nucleus", percent=percent(least))]


def without_largest(image: Seen) -> Instances:
    made = image.prediction()
    return select_instances(made, np.arange(len(made)) != made.areas_px().argmax())


def inverted(image: Seen) -> Instances:
    """The regions of what is background in a prediction."""
    return instances_from_labels(regions((painted(image.prediction()) == 0).astype(np.int32)), class_id=1)


def half_pixel(images: Sequence[Seen]) -> list[Finding]:
    """Whether outlines are shifted by half a pixel, which another ``origin`` would correct."""
    if not all(isinstance(part, Outlines) for image in images for part in image.parts):
        return []
    now = mean_fit(images, [image.prediction() for image in images])
    for shift in (0.5, -0.5):
        moved = mean_fit(images, [Undoing("", "", shift_xy=(shift, shift)).applied(image) for image in images])
        if moved > now + HALF_PIXEL_GAIN:
            other = "pixel_centre" if shift > 0 else "pixel_corner"
            own, better, by = f"{now:.2f}", f"{moved:.2f}", f"{shift:+g}"
            where = "prediction"
            return [
                fault(
                    "nearly-nothing-matches",
                    where,
                    wording="half-pixel-aside",
                    now=own,
                    moved=better,
                    shift=by,
                    other=other,
                )
            ]
    return []


def mean_fit(images: Sequence[Seen], predictions: Sequence[Instances]) -> float:
    fit = np.concatenate([matches_that_fit(image, made)[1] for image, made in zip(images, predictions, strict=True)])
    return float(fit.mean()) if len(fit) else 0.0


def likely_shift(images: Sequence[Seen]) -> tuple[float, float] | None:
    """The vector (x, y) by which most centroids of the prediction lie aside, whole px; None if there is none."""
    differences = []
    for image in images:
        left, right = image.reference.centroids_yx(), image.prediction().centroids_yx()
        left, right = (some[~np.isnan(some).any(axis=1)][:PAIRS_LOOKED_AT] for some in (left, right))
        differences.append((left[:, None] - right[None]).reshape(-1, 2))
    every = np.concatenate(differences)
    if not len(every):
        return None
    bins, count = np.unique(np.rint(every / BIN_PX), axis=0, return_counts=True)
    near = every[(np.abs(every - bins[count.argmax()] * BIN_PX) <= BIN_PX).all(axis=1)]
    y, x = np.rint(np.median(near, axis=0))
    return (float(x), float(y)) if (x, y) != (0, 0) else None


# --- labels -----------------------------------------------------------------------------------------------------------


def painted(instances: Instances) -> npt.NDArray[np.int32]:
    """Instances as a label map (H, W); where they overlap the later one stays."""
    labels = np.zeros(instances.shape_yx[0] * instances.shape_yx[1], np.int32)
    lengths = instances.run_stop - instances.run_start
    labels[expand(instances.run_start, instances.run_stop)] = np.repeat(instances.run_instance + 1, lengths)
    return labels.reshape(instances.shape_yx)


def regions(labels: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Each connected region of a label as a label of its own, by 4 neighbours."""
    from skimage.measure import label  # slow to import, and few need it

    return np.asarray(label(labels, connectivity=1), np.int32)


# --- classes ----------------------------------------------------------------------------------------------------------


def classes_hint(result: Result) -> list[Finding]:
    """Whether other names for the predicted classes would make most of the pairs right."""
    names = result.challenge.class_names
    rule = next(iter(result.scores), None)
    if len(names) < 2 or rule is None or result.challenge.are_counts:
        return []
    confusion = np.sum([case.counts[rule].confusion for case in result.cases], axis=0)[1:, 1:]
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
    now, then, wording = percent(int(np.trace(confusion)) / pairs), percent(float(right)), "classes-mixed-up"
    where = "prediction"
    return [fault("nearly-nothing-matches", where, wording=wording, now=now, right=then, said=said, question=kind)]
