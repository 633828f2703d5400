"""Hints when nearly nothing matches: usual mistakes are undone on some images, to see whether more nuclei match.

For people at a terminal. Hints reveal the reference and must never reach the platform; they change no score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy

from evaluation.challenge import Challenge
from evaluation.decoding.label_array import CLASSES_AT_MOST
from evaluation.findings import Finding, fault, listed, percent
from evaluation.findings.errors import InputFault
from evaluation.instances.labels import instances_from_labels
from evaluation.instances.parts import convert_parts
from evaluation.instances.rasterise import placed_vertices
from evaluation.instances.runs import select_instances
from evaluation.matching import match_iou_above, overlap_table
from evaluation.model import Annotations, Instances, Outlines, Part
from evaluation.scoring.read import in_image, read_case, read_reference, read_shared_reference, submission_side
from evaluation.scoring.receive import receive_submission
from evaluation.scoring.score import Result

IMAGES_TRIED = 4
PIXELS_AT_MOST = 25_000_000
NUCLEI_AT_MOST = 20_000
FEW = 0.6  # share of the reference nuclei that are matched, below which changes are tried
CLEARLY_MORE = 0.3  # share that a hint is given for, and that a change has to add
HALF_PIXEL_GAIN = 0.03  # of the mean IoU
CLASSES_RIGHT, PAIRS_AT_LEAST = 0.8, 10
PAIRS_LOOKED_AT = 400
BIN_PX = 4


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """An image: its reference, and its prediction as it was read, with the rules of its outlines."""

    name: str
    reference: Instances
    parts: tuple[Part, ...]
    vertices: str | None = None
    origin: str | None = None

    @property
    def shape_yx(self) -> tuple[int, int]:
        return self.reference.shape_yx

    def prediction(self, parts: Sequence[Part] | None = None, origin: str | None = None) -> Instances:
        """The prediction as instances; parts that do not fit the image are cut at its edge."""
        made = convert_parts(
            self.parts if parts is None else parts,
            self.shape_yx,
            vertices=self.vertices or "exact",  # type: ignore[arg-type]
            origin=origin or self.origin or "pixel_centre",  # type: ignore[arg-type]
            vanished="drop",
            where=self.name,
        )
        return made.instances


@dataclass(frozen=True, slots=True)
class Change:
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

    def applied(self, seen: Seen) -> Instances:
        offset = np.array(self.offset_xy(seen.shape_yx))
        if seen.parts and all(isinstance(part, Outlines) for part in seen.parts):
            moved = []
            for part in seen.parts:
                assert isinstance(part, Outlines)
                origin = seen.origin or "pixel_centre"
                points = placed_vertices(part.points_xy, vertices="exact", origin=origin)  # type: ignore[arg-type]
                points = points[:, ::-1] if self.swap else points
                moved.append(replace(part, points_xy=points * np.array(self.scale_xy) + offset))
            return seen.prediction(moved, "pixel_centre")
        labels = painted(seen.prediction())
        labels = labels.T if self.swap else labels
        rows, columns = (
            np.rint((np.arange(size) - offset[axis]) / self.scale_xy[axis]).astype(np.int64)
            for size, axis in zip(seen.shape_yx, (1, 0), strict=True)
        )
        kept_rows = (rows >= 0) & (rows < labels.shape[0])
        kept_columns = (columns >= 0) & (columns < labels.shape[1])
        changed = np.zeros(seen.shape_yx, labels.dtype)
        changed[np.ix_(kept_rows, kept_columns)] = labels[np.ix_(rows[kept_rows], columns[kept_columns])]
        return instances_from_labels(changed, class_id=1)


CHANGES = (
    Change("transposed", "are rows and columns, or x and y, swapped?", swap=True),
    Change("mirrored left to right", "was the image flipped?", scale_xy=(-1, 1)),
    Change("mirrored top to bottom", "was the image flipped, or does y count from below?", scale_xy=(1, -1)),
    Change("turned by 180 degrees", "was the image turned?", scale_xy=(-1, -1)),
    Change("turned by 90 degrees", "was the image turned?", swap=True, scale_xy=(-1, 1)),
    Change("turned by 270 degrees", "was the image turned?", swap=True, scale_xy=(1, -1)),
    *(
        Change(f"{factor:g} times as large", "was the image resized, or is it of another magnification?",
               scale_xy=(factor, factor))
        for factor in (2, 4, 0.5, 0.25)
    ),
)  # fmt: skip


# --- what is looked at ------------------------------------------------------------------------------------------------


def hints_about_files(folder: Path, submission: Path, result: Result) -> list[Finding]:
    """Hints about a submission that was scored; a file that cannot be read any more gives none."""
    challenge = result.challenge
    if challenge.are_counts or challenge.reference.are_points or challenge.submission.are_points:
        return classes_hint(result)
    try:
        return [*hints_about(lambda: read_some(challenge, folder, submission), result), *classes_hint(result)]
    except (InputFault, OSError):
        return []


def hints_about(look: Callable[[], list[Seen]], result: Result) -> list[Finding]:
    """Hints about a result, from some of its images if their scores call for it."""
    rule = next(iter(result.scores))
    counts = [case.counts[rule] for case in result.cases]
    matched = sum(each.true_positives for each in counts)
    nuclei = matched + sum(each.false_negatives for each in counts)
    ious = [iou for each in counts for iou in each.measures.get("iou", np.empty(0)).tolist()]
    few = matched < FEW * nuclei
    all_have_spurious = all(each.false_positives for each in counts if each.true_positives)
    lies_well = not ious or sum(ious) > (1 - HALF_PIXEL_GAIN) * len(ious)
    if not nuclei or not (few or all_have_spurious or not lies_well):
        return []
    seen = look()
    if not seen:
        return []
    if background := background_hint(seen):
        return background
    return (what_would_match(seen) if few else []) or half_pixel(seen)


def read_some(challenge: Challenge, folder: Path, submission: Path) -> list[Seen]:
    """Up to four images with nuclei on both sides. Raises InputFault."""
    received = receive_submission(challenge, submission, folder)
    shared = read_shared_reference(challenge, folder)
    side = submission_side(challenge, received.files)
    found: list[Seen] = []
    for case in challenge.cases:
        content = received.contents.get(case.name)
        if content is None or case.height * case.width > PIXELS_AT_MOST:
            continue
        reference = read_reference(challenge, folder, case, None if shared is None else shared.cases[case.name])
        said = content if isinstance(content, Annotations) else read_case(side, case, content)
        parts = tuple(in_image(said.parts, case, side.rules))
        nuclei = sum(len(part) for part in parts if isinstance(part, Outlines | Instances))
        if 0 < len(reference.instances) < NUCLEI_AT_MOST > nuclei:
            found.append(
                Seen(case.name, reference.instances, parts, side.rules.value("vertices"), side.rules.value("origin"))
            )
        if len(found) == IMAGES_TRIED:
            break
    received.files.close()
    return found


# --- what is tried ----------------------------------------------------------------------------------------------------


def what_would_match(seen: Sequence[Seen]) -> list[Finding]:
    """The change under which by far the most nuclei match, as a warning; none if there is no such change."""
    now = share(seen, [image.prediction() for image in seen])
    tried = [(words, question, share(seen, made)) for words, question, made in attempts(seen)]
    words, question, best = max(tried, key=lambda each: each[2])
    if best < max(CLEARLY_MORE, min(3 * now, now + CLEARLY_MORE)):
        return []
    images = "1 image was" if len(seen) == 1 else f"{len(seen)} images were"
    advice = f"{words[0].upper()}{words[1:]}, it is {percent(best)} ({images} tried): {question}"
    return [
        fault("nearly-nothing-matches", "prediction", got=f"IoU > 0.5 for {percent(now)} of the nuclei", fix=advice)
    ]


def attempts(seen: Sequence[Seen]) -> Iterable[tuple[str, str, list[Instances]]]:
    for change in CHANGES:
        square = all(image.shape_yx[0] == image.shape_yx[1] for image in seen)
        outlines = all(isinstance(part, Outlines) for image in seen for part in image.parts)
        if not change.swap or square or outlines:
            yield change.words, change.question, [change.applied(image) for image in seen]
    if shift := likely_shift(seen):
        words = f"moved by {shift[0]:g} px in x and {shift[1]:g} px in y"
        question = "was the image cropped, or do coordinates count from another corner?"
        change = Change(words, question, shift_xy=shift)
        yield words, question, [change.applied(image) for image in seen]
    labels = max(len(image.prediction()) for image in seen)
    question = "were ids stored in 8 bits, which end at 255? Save 16 or 32 bits."
    if labels <= CLASSES_AT_MOST:
        meant = "is it a mask of one value?" if labels == 1 else "are the labels classes, not nuclei?"
        question = f"{meant} Number each nucleus, for example with scipy.ndimage.label."
    numbered = [instances_from_labels(regions(painted(image.prediction())), class_id=1) for image in seen]
    yield "with a number for each region", question, numbered
    if len(seen) > 1 and len({image.shape_yx for image in seen}) == 1:
        predictions = [image.prediction() for image in seen]
        shares = np.array([[share([image], [made]) for made in predictions] for image in seen])
        _, order = scipy.optimize.linear_sum_assignment(-shares)
        if (order != np.arange(len(seen))).any():
            pairs = [f"{seen[j].name} for {seen[i].name}" for i, j in enumerate(order.tolist()) if i != j]
            question = f"are the names of the files mixed up ({', '.join(pairs[:2])})?"
            yield "given to each other's images", question, [predictions[j] for j in order.tolist()]


def share(seen: Sequence[Seen], predictions: Sequence[Instances]) -> float:
    """The share of the reference nuclei that match at an IoU above 0.5."""
    matched = nuclei = 0
    for image, prediction in zip(seen, predictions, strict=True):
        nuclei += len(image.reference)
        matched += len(matches_of(image, prediction)[0])
    return matched / max(nuclei, 1)


def matches_of(image: Seen, prediction: Instances) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The reference nuclei that are matched, and their IoU."""
    table = overlap_table(image.reference, prediction)
    found = match_iou_above(table, image.reference, prediction, threshold=0.5, class_aware=False)
    return np.asarray(found.reference_index), np.asarray(found.intersection_px / found.union_px)


def background_hint(seen: Sequence[Seen]) -> list[Finding]:
    """Whether a nucleus of each image covers more than half of it, as a background that is not 0 does, and nuclei match
    without it, or in its gaps. Outlines have no background.
    """

    def largest(instances: Instances) -> float:
        return float(instances.areas_px().max(initial=0)) / (instances.shape_yx[0] * instances.shape_yx[1])

    are_outlines = any(isinstance(part, Outlines) for image in seen for part in image.parts)
    if are_outlines or max(largest(image.reference) for image in seen) > 0.5:
        return []
    least = min(largest(image.prediction()) for image in seen)
    if least > 0.5 and not share(seen, list(map(without_largest, seen))) and not share(seen, list(map(inverted, seen))):
        return []  # with 0 there, nothing would match either
    return (
        [fault("nearly-nothing-matches", "prediction", wording="background-is-nucleus", percent=percent(least))]
        if least > 0.5
        else []
    )


def without_largest(image: Seen) -> Instances:
    made = image.prediction()
    return select_instances(made, np.arange(len(made)) != made.areas_px().argmax())


def inverted(image: Seen) -> Instances:
    """The regions of what is background in a prediction."""
    return instances_from_labels(regions((painted(image.prediction()) == 0).astype(np.int32)), class_id=1)


def half_pixel(seen: Sequence[Seen]) -> list[Finding]:
    """Whether outlines are shifted by half a pixel, which another ``origin`` would correct."""
    if not all(isinstance(part, Outlines) for image in seen for part in image.parts):
        return []
    now = mean_iou(seen, [image.prediction() for image in seen])
    for shift in (0.5, -0.5):
        moved = mean_iou(seen, [Change("", "", shift_xy=(shift, shift)).applied(image) for image in seen])
        if moved > now + HALF_PIXEL_GAIN:
            other = "pixel_centre" if shift > 0 else "pixel_corner"
            return [
                fault(
                    "nearly-nothing-matches",
                    "prediction",
                    wording="half-pixel-aside",
                    now=f"{now:.2f}",
                    moved=f"{moved:.2f}",
                    shift=f"{shift:+g}",
                    other=other,
                )
            ]
    return []


def mean_iou(seen: Sequence[Seen], predictions: Sequence[Instances]) -> float:
    ious = np.concatenate([matches_of(image, made)[1] for image, made in zip(seen, predictions, strict=True)])
    return float(ious.mean()) if len(ious) else 0.0


def likely_shift(seen: Sequence[Seen]) -> tuple[float, float] | None:
    """The vector (x, y) by which most centroids of the prediction lie aside, whole px; None if there is none."""
    differences = []
    for image in seen:
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
    length = instances.run_stop - instances.run_start
    first = np.cumsum(length) - length
    pixels = np.arange(length.sum()) - np.repeat(first - instances.run_start, length)
    labels[pixels] = np.repeat(instances.run_instance + 1, length)
    return labels.reshape(instances.shape_yx)


def regions(labels: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Each connected region of a label as a label of its own, by 4 neighbours."""
    from scipy.ndimage import find_objects, label

    numbered = np.zeros_like(labels)
    last = 0
    for value, box in enumerate(find_objects(labels), start=1):
        if box is not None:
            parts, count = label(labels[box] == value)
            numbered[box] = np.where(parts, parts + last, numbered[box])
            last += count
    return numbered


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
    return [
        fault(
            "nearly-nothing-matches",
            "prediction",
            wording="classes-mixed-up",
            now=percent(int(np.trace(confusion)) / pairs),
            right=percent(float(right)),
            said=said,
            question=kind,
        )
    ]
