"""Tricks: what a participant could do to the nuclei of a submission to stand higher without being better.

A trick is a function of all cases of a submission. Those of the kind "reference" choose by the reference, which no
participant has: they are the upper bound of what a very good guess would gain. Those of the kind "calibration" are
honest: a cut of low confidence, or a pixel of growth, may improve a method, and is reported apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy

from evaluation.instances.parts import join_instances
from evaluation.instances.perturb import dilate_instances, erode_instances, shift_instances
from evaluation.instances.runs import select_instances, with_runs
from evaluation.matching import overlap_table
from evaluation.model import Bool, Float64, Instances, Int64
from evaluation.model.intervals import merge_runs

Kind = Literal["participant", "reference", "calibration"]


@dataclass(frozen=True, slots=True, eq=False)
class TrickCase:
    """One case of a submission as a trick sees it: both sides, and how many classes the challenge has."""

    reference: Instances
    prediction: Instances | None
    classes: int


Predictions = list[Instances | None]
Apply = Callable[[Sequence[TrickCase]], Predictions]


@dataclass(frozen=True, slots=True)
class Trick:
    """What is done, in words, and the function that does it; None in its list is a case that is not submitted.

    points  it can be done to nuclei that are points, too
    """

    name: str
    words: str
    apply: Apply
    kind: Kind = "participant"
    points: bool = False


# --- what tricks are made of ------------------------------------------------------------------------------------------


def each(change: Callable[[Instances, TrickCase], Instances]) -> Apply:
    """A trick that treats every case by itself; what was not submitted stays so."""

    def apply(cases: Sequence[TrickCase]) -> Predictions:
        return [None if case.prediction is None else change(case.prediction, case) for case in cases]

    return apply


def keep(value: Callable[[Instances, TrickCase], Float64], share: float) -> Apply:
    """Keep the share of the nuclei of each image that have the highest value, rounded up."""

    def change(nuclei: Instances, case: TrickCase) -> Instances:
        return select_instances(nuclei, among_highest(value(nuclei, case), math.ceil(share * len(nuclei))))

    return each(change)


def among_highest(value: Float64, number: int) -> Bool:
    """Which values are the highest ``number`` ones, the first of equal ones, bool (N,)."""
    chosen = np.zeros(len(value), np.bool_)
    chosen[np.argsort(-value, kind="stable")[:number]] = True
    return chosen


def area(nuclei: Instances, case: TrickCase) -> Float64:
    return nuclei.areas_px().astype(np.float64)


def confidence(nuclei: Instances, case: TrickCase) -> Float64:
    return area(nuclei, case) if nuclei.probability is None else nuclei.probability.astype(np.float64)


def best_iou(nuclei: Instances, case: TrickCase) -> Float64:
    """The highest IoU of each prediction with a reference nucleus, float64 (N,)."""
    found = np.zeros(len(nuclei))
    table = overlap_table(case.reference, nuclei)
    iou = table.intersection_px / table.union_px()
    np.maximum.at(found, table.prediction_index, iou)
    return found


def partner_class(nuclei: Instances, case: TrickCase) -> Int64:
    """Class of the reference nucleus that each prediction overlaps by an IoU above 1/2, int64 (N,); 0 for none."""
    found = np.zeros(len(nuclei), np.int64)
    table = overlap_table(case.reference, nuclei)
    above = 2 * table.intersection_px > table.union_px()
    found[table.prediction_index[above]] = case.reference.class_id[table.reference_index[above]]
    return found


def loneliness(nuclei: Instances, case: TrickCase) -> Float64:
    """Distance of the centroid of each nucleus to the nearest other one, px, float64 (N,)."""
    return np.zeros(len(nuclei)) if len(nuclei) < 2 else nearest(nuclei)[0]


def nearest(nuclei: Instances) -> tuple[Float64, Int64]:
    """Distance of the centroids to the nearest other one, px, float64 (N,), and which it is; of at least two nuclei."""
    centre = nuclei.centroids_yx()
    apart, other = scipy.spatial.cKDTree(centre).query(centre, k=2)
    own = other[:, 0] == np.arange(len(nuclei))  # not so where centroids are equal
    return apart[:, 1], np.where(own, other[:, 1], other[:, 0])


def pseudo_random(nuclei: Instances, case: TrickCase) -> Float64:
    """A number for each nucleus that has nothing to do with how good it is, the same in every run."""
    return (nuclei.first_pixels() * 7919 % 1009).astype(np.float64)


def one_of_each_class(nuclei: Instances, case: TrickCase) -> Instances:
    """The largest nucleus of each predicted class."""
    size, kept = area(nuclei, case), np.zeros(len(nuclei), np.bool_)
    for class_id in np.unique(nuclei.class_id):
        kept[np.argmax(np.where(nuclei.class_id == class_id, size, -1))] = True
    return select_instances(nuclei, kept)


def nothing(nuclei: Instances) -> Instances:
    return select_instances(nuclei, np.zeros(len(nuclei), np.bool_))


def silence(value: Callable[[TrickCase], float], *, share: float = 0.3, missing: bool = False) -> Apply:
    """Empty the share of the cases that have the highest value, or do not submit them; at least one."""

    def apply(cases: Sequence[TrickCase]) -> Predictions:
        values = np.array([value(case) for case in cases])
        chosen = among_highest(values, max(1, round(share * len(cases))))
        silent = [None if missing or case.prediction is None else nothing(case.prediction) for case in cases]
        return [quiet if is_in else case.prediction for quiet, is_in, case in zip(silent, chosen, cases, strict=True)]

    return apply


def number_predicted(case: TrickCase) -> float:
    return 0.0 if case.prediction is None else len(case.prediction)


def few_predicted(case: TrickCase) -> float:
    return -number_predicted(case)


def is_confident(nuclei: Instances, case: TrickCase) -> Bool:
    known = nuclei.probability
    return np.ones(len(nuclei), np.bool_) if known is None else np.asarray(known >= 0.5)


def error_rate(case: TrickCase) -> float:
    """1 - F1 at an IoU of 1/2; 0 for a case without nuclei."""
    if case.prediction is None or not len(case.prediction) + len(case.reference):
        return 0.0
    found = np.count_nonzero(partner_class(case.prediction, case))
    return 1 - 2 * found / (len(case.prediction) + len(case.reference))


def number_of_classes_predicted(cases: Sequence[TrickCase]) -> Int64:
    """How often each class is predicted, int64 (C + 1,)."""
    given = [case.prediction for case in cases if case.prediction is not None]
    counts = [np.bincount(nuclei.class_id, minlength=cases[0].classes + 1) for nuclei in given]
    return np.asarray(np.sum([np.zeros(cases[0].classes + 1, np.int64), *counts], axis=0))


def of_data_set(change: Callable[[Instances, TrickCase, int, int], Instances]) -> Apply:
    """A trick that knows the commonest and the rarest of the classes that the submission predicts."""

    def apply(cases: Sequence[TrickCase]) -> Predictions:
        often = number_of_classes_predicted(cases)
        seen = np.flatnonzero(often)
        common = int(often.argmax()) if len(seen) else 1
        rare = int(seen[often[seen].argmin()]) if len(seen) else 1
        return each(lambda nuclei, case: change(nuclei, case, common, rare))(cases)

    return apply


def renamed(nuclei: Instances, class_id: Int64) -> Instances:
    return replace(nuclei, class_id=class_id.astype(np.int16), class_probability=None)


def together(nuclei: Instances, *more: Instances) -> Instances:
    """Several sets of nuclei as one; they may overlap."""
    parts = [nuclei, *more]
    if nuclei.class_probability is not None:
        parts = [replace(part, class_probability=None) for part in parts]
    return join_instances(parts, nuclei.shape_yx)


def copies(shifts_yx: Sequence[tuple[int, int]]) -> Apply:
    """Every nucleus again, once for each shift."""
    return each(lambda nuclei, _: together(nuclei, *(moved(nuclei, dy, dx) for dy, dx in shifts_yx)))


def moved(nuclei: Instances, dy: int, dx: int) -> Instances:
    if nuclei.point_yx is None:
        return shift_instances(nuclei, dy, dx)
    height, width = nuclei.shape_yx
    return replace(nuclei, point_yx=np.clip(nuclei.point_yx + np.array([dy, dx]), 0, (height - 1, width - 1)))


def sizes(nuclei: Instances, case: TrickCase) -> Instances:
    """Every nucleus in three sizes."""
    return together(nuclei, erode_instances(nuclei), dilate_instances(nuclei))


def every_class(nuclei: Instances, case: TrickCase) -> Instances:
    """Every nucleus once for each class."""
    others = [
        renamed(nuclei, (nuclei.class_id.astype(np.int64) - 1 + step) % case.classes + 1)
        for step in range(1, case.classes)
    ]
    return together(nuclei, *others)


def rare_as_well(nuclei: Instances, case: TrickCase, common: int, rare: int) -> Instances:
    """Every nucleus that was not named as the rare class once more, as that."""
    others = select_instances(nuclei, nuclei.class_id != rare)
    return together(nuclei, renamed(others, np.full(len(others), rare)))


def made(starts: Int64, stops: Int64, instance: Int64, like: Instances, class_id: int) -> Instances:
    """Made nuclei of one class; where the submission tells confidences they are 0.5."""
    number = int(instance.max(initial=-1)) + 1
    new = Instances(
        shape_yx=like.shape_yx,
        class_id=np.full(number, class_id, np.int16),
        source_id=np.arange(number),
        run_start=starts,
        run_stop=stops,
        run_instance=instance.astype(np.int32),
        probability=None if like.probability is None else np.full(number, 0.5, np.float64),
    )
    return with_runs(new, new.run_start, new.run_stop, new.run_instance)


def whole_image(nuclei: Instances, case: TrickCase, common: int, rare: int) -> Instances:
    """One nucleus as large as the image."""
    height, width = nuclei.shape_yx
    rows = np.arange(height, dtype=np.int64) * width
    return made(rows, rows + width, np.zeros(height, np.int64), nuclei, common)


def squares(nuclei: Instances, side: int, step: int, class_id: int) -> Instances:
    """Squares of some pixels on a grid, but for the pixels that a predicted nucleus has."""
    height, width = nuclei.shape_yx
    taken = np.zeros(height * width + 1, np.int64)
    np.add.at(taken, nuclei.run_start, 1)
    np.add.at(taken, nuclei.run_stop, -1)
    free = np.cumsum(taken)[:-1].reshape(height, width) == 0
    starts, instance = [], []
    number = 0
    for row in range(step // 2, height - side, step):
        for column in range(step // 2, width - side, step):
            if free[row : row + side, column : column + side].all():
                starts.append(np.arange(row, row + side, dtype=np.int64) * width + column)
                instance.append(np.full(side, number, np.int64))
                number += 1
    none = np.empty(0, np.int64)
    start = np.concatenate([none, *starts])
    return made(start, start + side, np.concatenate([none, *instance]), nuclei, class_id)


def add_squares(side: int, step: int) -> Apply:
    return of_data_set(lambda nuclei, _, common, rare: together(nuclei, squares(nuclei, side, step, common)))


def halves(nuclei: Instances, chosen: Bool) -> Instances:
    """Cut the chosen nuclei in two at the column of their centroid."""
    width = nuclei.shape_yx[1]
    column = np.floor(np.nan_to_num(nuclei.centroids_yx()[:, 1])).astype(np.int64)
    run, is_cut = nuclei.run_instance, chosen[nuclei.run_instance]
    edge = nuclei.run_start // width * width + column[run]
    left_stop = np.where(is_cut, np.minimum(nuclei.run_stop, edge), nuclei.run_stop)
    right_start = np.where(is_cut, np.maximum(nuclei.run_start, edge), nuclei.run_stop)
    left, right = left_stop > nuclei.run_start, nuclei.run_stop > right_start
    parts = [
        with_runs(nuclei, start, stop, run[kept])
        for start, stop, kept in (
            (nuclei.run_start[left], left_stop[left], left),
            (right_start[right], nuclei.run_stop[right], right),
        )
    ]
    filled = [select_instances(part, part.areas_px() > 0) for part in parts]
    return together(*filled)


def split_largest(share: float) -> Apply:
    def change(nuclei: Instances, case: TrickCase) -> Instances:
        return halves(nuclei, among_highest(area(nuclei, case), math.ceil(share * len(nuclei))))

    return each(change)


def merge_neighbours(nuclei: Instances, case: TrickCase) -> Instances:
    """Make one nucleus of every two that are nearest to each other."""
    if len(nuclei) < 2:
        return nuclei
    other, owner = nearest(nuclei)[1], np.arange(len(nuclei))
    mutual = (other[other] == owner) & (other < owner)
    owner[mutual] = other[mutual]
    height, width = nuclei.shape_yx
    line = owner[nuclei.run_instance] * (height * (width + 1)) + nuclei.run_start + nuclei.run_start // width
    start, stop = merge_runs(line, line + nuclei.run_stop - nuclei.run_start)
    instance, index = np.divmod(start, height * (width + 1))
    first = index - index // (width + 1)
    joined = with_runs(nuclei, first, first + stop - start, instance.astype(np.int32))
    return select_instances(joined, ~mutual)


def inside(nuclei: Instances, case: TrickCase) -> Instances:
    """Only nuclei that do not touch the border of the image."""
    height, width = nuclei.shape_yx
    row, column = np.divmod(nuclei.run_start, width)
    last = column + nuclei.run_stop - nuclei.run_start
    at_border = (row == 0) | (row == height - 1) | (column == 0) | (last == width)
    touches = np.zeros(len(nuclei), np.bool_)
    touches[nuclei.run_instance[at_border]] = True
    return select_instances(nuclei, ~touches)


def only_specks(nuclei: Instances, case: TrickCase, common: int, rare: int) -> Instances:
    none = np.zeros(1, np.int64)
    return made(none, none + 1, none, nuclei, common)


def sure(nuclei: Instances, case: TrickCase) -> Instances:
    """Every confidence 1."""
    return replace(nuclei, probability=None if nuclei.probability is None else np.ones(len(nuclei), np.float64))


def only_if(test: Callable[[Instances, TrickCase], Bool]) -> Apply:
    return each(lambda nuclei, case: select_instances(nuclei, test(nuclei, case)))


def cut_smallest(share: float) -> Apply:
    """Drop the nuclei that are among the smallest of the whole submission."""

    def apply(cases: Sequence[TrickCase]) -> Predictions:
        every = np.concatenate([np.zeros(1), *(area(of.prediction, of) for of in cases if of.prediction is not None)])
        limit = float(np.quantile(every, share))
        return only_if(lambda nuclei, case: area(nuclei, case) > limit)(cases)

    return apply


SEVEN = ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (-1, -1), (2, 0))
FIRST = 1e-9  # a share that is rounded up to one nucleus


def is_common(nuclei: Instances, case: TrickCase, common: int, rare: int) -> Instances:
    return select_instances(nuclei, nuclei.class_id == common)


def all_common(nuclei: Instances, case: TrickCase, common: int, rare: int) -> Instances:
    return renamed(nuclei, np.full(len(nuclei), common))


def not_rare(nuclei: Instances, case: TrickCase, common: int, rare: int) -> Instances:
    return select_instances(nuclei, nuclei.class_id != rare)


def rare_is_common(nuclei: Instances, case: TrickCase, common: int, rare: int) -> Instances:
    return renamed(nuclei, np.where(nuclei.class_id == rare, common, nuclei.class_id))


def with_whole_image(nuclei: Instances, case: TrickCase, common: int, rare: int) -> Instances:
    return together(nuclei, whole_image(nuclei, case, common, rare))


def classified_right(nuclei: Instances, case: TrickCase) -> Bool:
    """Not of a wrong class: spurious nuclei stay."""
    found = partner_class(nuclei, case)
    return np.asarray((found == 0) | (found == nuclei.class_id))


def outlined_well(nuclei: Instances, case: TrickCase) -> Bool:
    """Not outlined poorly: spurious nuclei stay."""
    iou = best_iou(nuclei, case)
    return np.asarray((iou <= 0.5) | (iou > 0.7))


TRICKS: tuple[Trick, ...] = (
    Trick("largest_75", "keep the largest 75 % of the nuclei of each image", keep(area, 0.75)),
    Trick("largest_50", "keep the largest 50 %", keep(area, 0.5)),
    Trick("largest_25", "keep the largest 25 %", keep(area, 0.25)),
    Trick("largest_10", "keep the largest 10 %", keep(area, 0.1)),
    Trick("surest_75", "keep the surest 75 % of each image", keep(confidence, 0.75), points=True),
    Trick("surest_50", "keep the surest 50 %", keep(confidence, 0.5), points=True),
    Trick("surest_25", "keep the surest 25 %", keep(confidence, 0.25), points=True),
    Trick("isolated_75", "keep the 75 % that lie farthest from others", keep(loneliness, 0.75), points=True),
    Trick("isolated_50", "keep the 50 % that lie farthest from others", keep(loneliness, 0.5), points=True),
    Trick("random_50", "keep half of the nuclei, whichever", keep(pseudo_random, 0.5)),
    Trick("one_per_image", "keep the largest nucleus of each image", keep(area, FIRST)),
    Trick("one_per_class", "keep the largest nucleus of each class in each image", each(one_of_each_class)),
    Trick("no_small_20", "drop the smallest fifth of all nuclei", cut_smallest(0.2)),
    Trick("no_small_50", "drop the smaller half of all nuclei", cut_smallest(0.5)),
    Trick("no_border", "drop nuclei that touch the border of the image", each(inside)),
    Trick("empty_few", "empty the 30 % of the images with the fewest nuclei", silence(few_predicted), points=True),
    Trick("empty_many", "empty the 30 % of the images with the most nuclei", silence(number_predicted), points=True),
    Trick("missing_many", "do not submit these", silence(number_predicted, missing=True), points=True),
    Trick("empty_all", "submit empty files only", each(lambda nuclei, _: nothing(nuclei)), points=True),
    Trick("only_common", "keep the commonest class only", of_data_set(is_common), points=True),
    Trick("all_as_common", "give every nucleus the commonest class", of_data_set(all_common), points=True),
    Trick("no_rare", "drop the nuclei named as the rarest class", of_data_set(not_rare), points=True),
    Trick("rare_as_common", "name the rarest class as the commonest", of_data_set(rare_is_common), points=True),
    Trick("rare_as_well", "every nucleus once more, as the rarest class", of_data_set(rare_as_well), points=True),
    Trick("every_class", "every nucleus once as each class", each(every_class), points=True),
    Trick("copies_2", "every nucleus twice", copies([(0, 0)]), points=True),
    Trick("copies_shifted_3", "every nucleus and two copies a pixel away", copies(SEVEN[:2]), points=True),
    Trick("copies_shifted_8", "every nucleus and seven copies a pixel or two away", copies(SEVEN), points=True),
    Trick("three_sizes", "every nucleus as it is, a pixel smaller and a pixel larger", each(sizes)),
    Trick("whole_image", "one more nucleus, as large as the image", of_data_set(with_whole_image)),
    Trick("whole_image_only", "nothing but a nucleus as large as the image", of_data_set(whole_image)),
    Trick("specks", "single pixels on a grid of 16 px, where nothing was found", add_squares(1, 16)),
    Trick("speck_only", "nothing but one pixel in each image", of_data_set(only_specks)),
    Trick("squares", "squares of 15 px on a grid, where nothing was found", add_squares(15, 20)),
    Trick("split_all", "cut every nucleus in two", split_largest(1.0)),
    Trick("split_largest_10", "cut the largest tenth in two", split_largest(0.1)),
    Trick("merge", "make one nucleus of every two neighbours", each(merge_neighbours)),
    Trick("all_sure", "give every nucleus the confidence 1", each(sure), points=True),
    Trick("best_75", "keep the 75 % of each image with the best IoU", keep(best_iou, 0.75), "reference"),
    Trick("best_50", "keep the 50 % with the best IoU", keep(best_iou, 0.5), "reference"),
    Trick("best_25", "keep the 25 % with the best IoU", keep(best_iou, 0.25), "reference"),
    Trick("best_10", "keep the 10 % with the best IoU", keep(best_iou, 0.1), "reference"),
    Trick("best_one", "keep the nucleus with the best IoU of each image", keep(best_iou, FIRST), "reference"),
    Trick("empty_hardest", "empty the 30 % of the cases with the lowest F1", silence(error_rate), "reference"),
    Trick("missing_hardest", "do not submit these", silence(error_rate, missing=True), "reference"),
    Trick("no_wrong_class", "drop the nuclei whose class is wrong", only_if(classified_right), "reference"),
    Trick("no_poor_outline", "drop the nuclei with an IoU of 0.5 to 0.7", only_if(outlined_well), "reference"),
    Trick("grown", "a pixel larger", each(lambda nuclei, _: dilate_instances(nuclei)), "calibration"),
    Trick("shrunk", "a pixel smaller", each(lambda nuclei, _: erode_instances(nuclei)), "calibration"),
    Trick("confident", "drop those below a confidence of 0.5", only_if(is_confident), "calibration", points=True),
)
