"""Further tricks: copies that share less than half, chains, rings, lattices, gaps, and what a class posterior allows.

Nuclei are changed as masks in their bounding boxes: a change makes masks of one mask, each a nucleus of its own.
"""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import scipy
from scipy.ndimage import binary_dilation, binary_erosion, uniform_filter

from benchmarks.tricks import (
    Apply,
    Predictions,
    Trick,
    TrickCase,
    ValueOfNuclei,
    among_highest,
    area,
    confidence,
    each,
    highest_share,
    inside_border,
    merge_neighbours,
    only_if,
    partner_class,
    renamed,
    united,
)
from nuclei_metrics.instances.runs import select_instances
from nuclei_metrics.model import Bool, Float64, Instances

Change = Callable[[Bool], Sequence[Bool]]  # the mask of a nucleus, with room around it, to the masks of nuclei
Choose = Callable[[Instances, TrickCase], Bool]
DIRECTIONS_YX = ((0, 1), (0, -1), (1, 0), (-1, 0))


# --- masks ------------------------------------------------------------------------------------------------------------


def every(nuclei: Instances, case: TrickCase) -> Bool:
    return np.ones(len(nuclei), np.bool_)


def unsure(share: float) -> Choose:
    """Choose the least confident share of the nuclei of each image."""
    return lambda nuclei, case: highest_share(-confidence(nuclei, case), share)


def shaped(change: Change, choose: Choose = every, *, other_class: bool = False) -> Apply:
    """Make a trick that replaces each chosen nucleus by those of ``change``, all but the first named as the next class.

    ``other_class`` says whether they are; nuclei that are not chosen stay.
    """

    def of_case(nuclei: Instances, case: TrickCase) -> Instances:
        chosen = choose(nuclei, case)
        index, start, stop = list[int](), list[np.ndarray](), list[np.ndarray]()
        class_id = list[int]()
        for number in range(len(nuclei)):
            mask, top, left = crop(nuclei, number)
            masks = change(mask) if chosen[number] else [mask]
            for place, one in enumerate(masks):
                first, last = runs_of_crop(one, top, left, nuclei.shape_yx)
                if len(first):
                    index.append(number)
                    start.append(first)
                    stop.append(last)
                    own = int(nuclei.class_id[number])
                    class_id.append(own % case.classes + 1 if other_class and place else own)
        return rebuilt(nuclei, index, start, stop, class_id)

    return each(of_case)


def crop(nuclei: Instances, number: int) -> tuple[Bool, int, int]:
    """Cut a nucleus out, with room for another of its size on each side: its mask, and the first row and column."""
    width = nuclei.shape_yx[1]
    own = nuclei.run_instance == number
    row, column = np.divmod(nuclei.run_start[own], width)
    last = column + nuclei.run_stop[own] - nuclei.run_start[own]
    top, left = int(row.min()), int(column.min())
    height, breadth = int(row.max()) + 1 - top, int(last.max()) - left
    room = max(height, breadth) + 4
    mask = np.zeros((height + 2 * room, breadth + 2 * room), np.bool_)
    for line, begin, end in zip(row - top + room, column - left + room, last - left + room, strict=True):
        mask[line, begin:end] = True
    return mask, top - room, left - room


def runs_of_crop(mask: Bool, top: int, left: int, shape_yx: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """List the runs of a mask as far as it lies inside the image."""
    height, width = shape_yx
    inside = mask[max(-top, 0) : height - top, max(-left, 0) : width - left]
    edges = np.diff(np.pad(inside, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    (row, first), (_, last) = np.nonzero(edges == 1), np.nonzero(edges == -1)
    base = (row + max(top, 0)) * width + max(left, 0)
    return base + first, base + last


def rebuilt(
    nuclei: Instances, index: list[int], start: list[np.ndarray], stop: list[np.ndarray], class_id: list[int]
) -> Instances:
    """Make instances of runs; each has the confidence of the nucleus that it comes from."""
    none = [np.empty(0, np.int64)]
    flat, end = np.concatenate([*start, *none]), np.concatenate([*stop, *none])
    owner = np.repeat(np.arange(len(index)), [len(runs) for runs in start]).astype(np.int32)
    order = np.lexsort((owner, flat))
    source = np.array(index, np.int64)
    return replace(
        nuclei,
        class_id=np.array(class_id, np.int16),
        source_id=nuclei.source_id[source],
        run_start=flat[order],
        run_stop=end[order],
        run_instance=owner[order],
        probability=None if nuclei.probability is None else nuclei.probability[source],
        class_probability=None,
    )


# --- changes of a mask ------------------------------------------------------------------------------------------------


def moved(mask: Bool, dy: int, dx: int) -> Bool:
    return np.roll(mask, (dy, dx), axis=(0, 1))


def apart(mask: Bool, direction_yx: tuple[int, int], share: float = 0.5) -> Bool:
    """Move a mask until it shares less than a share of its pixels with where it was."""
    steps = 1
    while (moved(mask, steps * direction_yx[0], steps * direction_yx[1]) & mask).sum() >= share * mask.sum():
        steps += 1
    return moved(mask, steps * direction_yx[0], steps * direction_yx[1])


def core(mask: Bool, share: float) -> Bool:
    """Shrink a mask until it has at most a share of its pixels; empty if it vanishes before."""
    inner = mask
    while inner.sum() > share * mask.sum():
        inner = binary_erosion(inner)
    return np.asarray(inner)


def larger(mask: Bool, px: int) -> Bool:
    return np.asarray(binary_dilation(mask, iterations=px))


def smaller(mask: Bool, px: int) -> Bool:
    return np.asarray(binary_erosion(mask, iterations=px))


def part_of(mask: Bool, share: float, axis: int, *, is_first: bool) -> Bool:
    """Keep a share of the pixels of a mask, by their rows (axis 0) or columns, from the first or from the last."""
    place = np.indices(mask.shape)[axis]
    limit = np.quantile(place[mask], share if is_first else 1 - share)
    return mask & (place <= limit if is_first else place >= limit)


def lattice(mask: Bool, number: int, of: int = 3) -> Bool:
    """Leave out one pixel of ``of``: lattices of different ``number`` share half of each other, of three."""
    row, column = np.indices(mask.shape)
    return mask & ((row + column) % of != number)


def checkers(mask: Bool) -> Bool:
    return lattice(mask, 1, 2)


def middle(mask: Bool) -> Bool:
    dot = np.zeros_like(mask)
    rows, columns = np.nonzero(mask)
    nearest = np.argmin((rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2)
    dot[rows[nearest], columns[nearest]] = True
    return dot


def ellipse(mask: Bool) -> Bool:
    """Draw the ellipse with the centre, the directions and the area of a mask."""
    rows, columns = np.nonzero(mask)
    centre = np.array([rows.mean(), columns.mean()])
    spread = np.cov(np.stack([rows, columns])) if len(rows) > 2 else np.zeros((2, 2))
    spread += np.eye(2) / 12  # of a pixel
    off = np.moveaxis(np.indices(mask.shape), 0, -1) - centre
    distance = np.einsum("yxi,ij,yxj->yx", off, np.linalg.inv(spread), off)
    return np.asarray(distance <= np.sort(distance.ravel())[int(mask.sum()) - 1])


def smooth(mask: Bool) -> Bool:
    return np.asarray(uniform_filter(mask.astype(np.float64), 3) > 0.5)


# --- tricks by images and by patients ---------------------------------------------------------------------------------


def in_patients(kept: Callable[[int, list[int]], int]) -> Apply:
    """Make a trick that keeps some nuclei of each patient, the most confident ones.

    kept  gives their number, from that of the patient and those of all patients
    """

    def apply(cases: Sequence[TrickCase]) -> Predictions:
        groups = [case.group for case in cases]
        number = {group: sum(len(c.prediction or ()) for c in cases if c.group == group) for group in groups}
        every = list(number.values())
        return split_by_case(
            cases, lambda of: among_highest(all_values(of, confidence), kept(number[of[0].group], every)), groups
        )

    return apply


def split_by_case(
    cases: Sequence[TrickCase], choose: Callable[[Sequence[TrickCase]], Bool], groups: Sequence[str] | None = None
) -> Predictions:
    """Keep the nuclei that ``choose`` marks among those of all cases with a prediction, or of each group of them."""
    predictions = [case.prediction for case in cases]
    names = [""] * len(cases) if groups is None else groups
    for group in dict.fromkeys(names):
        places = [place for place, name in enumerate(names) if name == group and predictions[place] is not None]
        marked = choose([cases[place] for place in places]) if places else np.empty(0, np.bool_)
        ends = np.cumsum([len(predictions[place] or ()) for place in places])
        for place, part in zip(places, np.split(marked, ends[:-1] if len(ends) else []), strict=False):
            nuclei = predictions[place]
            assert nuclei is not None
            predictions[place] = select_instances(nuclei, part)
    return predictions


def all_values(cases: Sequence[TrickCase], value: ValueOfNuclei) -> Float64:
    return np.concatenate(
        [np.empty(0), *(value(case.prediction, case) for case in cases if case.prediction is not None)]
    )


def lowest(value: ValueOfNuclei, share: float) -> Callable[[Sequence[TrickCase]], Bool]:
    """Mark the share of the nuclei of a whole submission with the lowest values."""

    def mark(cases: Sequence[TrickCase]) -> Bool:
        values = all_values(cases, value)
        return among_highest(-values, round(share * len(values)))

    return mark


def without_lowest(value: ValueOfNuclei, share: float) -> Apply:
    return lambda cases: split_by_case(cases, lambda of: ~lowest(value, share)(of))


def gaps_filled(side_px: int, step_px: int = 14) -> Apply:
    """Add a tenth as many squares as nuclei, where no nucleus of the submission lies near."""

    def add(nuclei: Instances, case: TrickCase) -> Instances:
        height, width = nuclei.shape_yx
        taken = np.zeros((height, width), np.bool_)
        taken.ravel()[runs_as_pixels(nuclei)] = True
        near = binary_dilation(taken, iterations=3) if taken.any() else taken
        index, start, stop = list[int](), list[np.ndarray](), list[np.ndarray]()
        grid = product(range(4, height - side_px, step_px), range(4, width - side_px, step_px))
        free = [at for at in grid if not near[at[0] : at[0] + side_px, at[1] : at[1] + side_px].any()]
        number = min(len(free), -(-len(nuclei) // 10))
        if not number:
            return nuclei
        for top, left in free[:: len(free) // number][:number]:
            rows = np.arange(top, top + side_px) * width + left
            index.append(0)
            start.append(rows)
            stop.append(rows + side_px)
        dots = rebuilt(nuclei, index, start, stop, [case.common] * len(index))
        if dots.probability is not None:
            dots = replace(dots, probability=np.full(len(index), 0.05, dots.probability.dtype))
        return united(nuclei, dots)

    return each(add)


def runs_as_pixels(nuclei: Instances) -> np.ndarray:
    pixels = [np.arange(start, stop) for start, stop in zip(nuclei.run_start, nuclei.run_stop, strict=True)]
    return np.concatenate([*pixels, np.empty(0, np.int64)])


def onto_neighbours(nuclei: Instances, case: TrickCase) -> Instances:
    """Add the least confident fifth once more, 6 px to the right."""
    aside = shaped(lambda mask: [moved(mask, 0, 6)])([replace(case, prediction=only(nuclei, unsure(0.2), case))])[0]
    assert aside is not None
    return united(nuclei, aside)


def only(nuclei: Instances, choose: Choose, case: TrickCase) -> Instances:
    found = only_if(choose)([replace(case, prediction=nuclei)])[0]
    assert found is not None
    return found


def unions(nuclei: Instances, case: TrickCase) -> Instances:
    """Add the union of every two nearest neighbours to the nuclei themselves."""
    merged = merge_neighbours(nuclei, case)
    is_union = ~np.isin(merged.areas_px(), nuclei.areas_px())
    return united(nuclei, only(merged, lambda *_: is_union, case)) if is_union.any() else nuclei


def by_size(nuclei: Instances, case: TrickCase) -> Instances:
    """Name every nucleus as the class of the image whose mean area is nearest to its own."""
    size = area(nuclei, case)
    known = np.unique(nuclei.class_id)
    if not len(known):
        return nuclei
    means = np.array([size[nuclei.class_id == one].mean() for one in known])
    return renamed(nuclei, known[np.abs(size[:, None] - means).argmin(axis=1)].astype(np.int64))


def left_out_of(choose_class: Choose, share: float) -> Choose:
    """Keep all but the least confident share of the nuclei of some classes."""

    def kept(nuclei: Instances, case: TrickCase) -> Bool:
        own = choose_class(nuclei, case)
        value = np.where(own, confidence(nuclei, case), np.inf)
        return ~(own & highest_share(-value, share * own.mean() if len(own) else 0.0))

    return kept


def as_common(choose: Choose) -> Apply:
    return each(lambda nuclei, case: renamed(nuclei, np.where(choose(nuclei, case), case.common, nuclei.class_id)))


# --- a class posterior ------------------------------------------------------------------------------------------------

STRENGTHS = {"": 0.7, "_good": 0.95}  # the probability that a right name is surer than a wrong or spurious one
RIGHT = 0.8  # of the names, as a team thinks


def certainty(auc: float) -> ValueOfNuclei:
    """Simulate how sure a team is of its names: the posterior of "right" after a signal of this strength."""
    strength = float(np.sqrt(2) * scipy.special.ndtri(auc))

    def of(nuclei: Instances, case: TrickCase) -> Float64:
        right = partner_class(nuclei, case) == nuclei.class_id
        drawn = ((nuclei.first_pixels() * 7919 + nuclei.areas_px() * 104729) % 10007 + 0.5) / 10007
        signal = scipy.special.ndtri(drawn) + strength * right
        return np.asarray(scipy.special.expit(strength * (signal - strength / 2) + np.log(RIGHT / (1 - RIGHT))))

    return of


def posterior_tricks(suffix: str, auc: float) -> list[Trick]:
    value, words = certainty(auc), f" (its posterior tells right names from wrong ones with an AUC of {auc:g})"

    def below(limit: float, *, but_common: bool = False) -> Choose:
        return lambda nuclei, case: (value(nuclei, case) >= limit) | (but_common & (nuclei.class_id == case.common))

    def named(*, rare: bool) -> Apply:
        def rename(nuclei: Instances, case: TrickCase, limit: float) -> Instances:
            chosen = value(nuclei, case) <= limit
            return renamed(nuclei, np.where(chosen, case.rare if rare else case.common, nuclei.class_id))

        def apply(cases: Sequence[TrickCase]) -> Predictions:
            limit = float(np.quantile(all_values(cases, value), 0.1)) if len(all_values(cases, value)) else 0.0
            return each(lambda nuclei, case: rename(nuclei, case, limit))(cases)

        return apply

    return [
        *(
            Trick(f"class_unsure_{round(100 * share)}{suffix}", f"leave out the {100 * share:g} % that are least sure of their class{words}", without_lowest(value, share))
            for share in (0.05, 0.1, 0.2)
        ),
        *(
            Trick(f"class_below_{round(100 * limit)}{suffix}", f"leave out what is sure of its class to less than {limit:g}{words}", only_if(below(limit)))
            for limit in (0.35, 0.5)
        ),
        Trick(f"class_below_50_but_common{suffix}", f"the same with 0.5, but for the commonest class{words}", only_if(below(0.5, but_common=True))),
        Trick(f"class_unsure_common{suffix}", f"name the tenth that is least sure of its class as the commonest{words}", named(rare=False)),
        Trick(f"class_unsure_rare{suffix}", f"name the tenth that is least sure of its class as the rarest{words}", named(rare=True)),
    ]  # fmt: skip


# --- all --------------------------------------------------------------------------------------------------------------


def is_common(nuclei: Instances, case: TrickCase) -> Bool:
    return np.asarray(nuclei.class_id == case.common)


def is_rare(nuclei: Instances, case: TrickCase) -> Bool:
    return np.asarray(nuclei.class_id == case.rare)


def at_border(nuclei: Instances, case: TrickCase) -> Bool:
    return ~inside_border(nuclei, case)


def largest_fifth(nuclei: Instances, case: TrickCase) -> Bool:
    return highest_share(area(nuclei, case), 0.2)


def three_by_shift(mask: Bool) -> list[Bool]:
    """A nucleus between two that share less than half with each other and more than half with it."""
    return [mask, apart(mask, (0, 1), 0.7), apart(mask, (0, -1), 0.7)]


def three_by_size(mask: Bool) -> list[Bool]:
    """A nucleus, its core, and what is larger without the core."""
    inner = core(mask, 0.45)
    return [mask, inner, larger(mask, 2) & ~inner]


def crescents(mask: Bool) -> list[Bool]:
    return [mask & ~apart(mask, direction, 0.4) for direction in ((0, 1), (0, -1))]


def parts(mask: Bool) -> list[Bool]:
    return [part_of(mask, 0.62, 0, is_first=first) for first in (True, False)]


def halves_beside(mask: Bool) -> list[Bool]:
    return [mask, *(part_of(mask, 0.5, 1, is_first=first) for first in (True, False))]


def without_7(change: Callable[[Bool], Bool]) -> Apply:
    """Change every outline, and leave the least confident 7 % out."""

    def apply(cases: Sequence[TrickCase]) -> Predictions:
        kept = without_lowest(confidence, 0.07)(cases)
        changed = [replace(case, prediction=nuclei) for case, nuclei in zip(cases, kept, strict=True)]
        return shaped(lambda mask: [change(mask)])(changed)

    return apply


MORE_TRICKS: tuple[Trick, ...] = (
    Trick("half_copies", "every nucleus once more, where it shares just less than half", shaped(lambda mask: [mask, apart(mask, (0, 1))])),
    Trick("half_copies_4", "every nucleus four times more, each sharing just less than half with it", shaped(lambda mask: [mask, *(apart(mask, way) for way in DIRECTIONS_YX)])),
    Trick("chain_shift", "every nucleus between two copies that share less than half with each other", shaped(three_by_shift)),
    Trick("chain_size", "every nucleus, its core, and a larger one without the core", shaped(three_by_size)),
    Trick("core_60", "every nucleus, and its core of at most 60 %", shaped(lambda mask: [mask, core(mask, 0.6)])),
    Trick("core_and_larger", "for every nucleus its core of at most 45 %, and one three pixels larger", shaped(lambda mask: [core(mask, 0.45), larger(mask, 3)])),
    Trick("ring_around", "every nucleus, and a ring of three pixels around it", shaped(lambda mask: [mask, larger(mask, 3) & ~mask])),
    Trick("ring_instead", "for every nucleus its outer two pixels", shaped(lambda mask: [mask & ~smaller(mask, 2)])),
    Trick("crescents", "for every nucleus two crescents of 60 %", shaped(crescents)),
    Trick("parts_62", "for every nucleus two parts of 62 %", shaped(parts)),
    Trick("checkers_instead", "for every nucleus two checkerboards", shaped(lambda mask: [checkers(mask), mask & ~checkers(mask)])),
    Trick("checkers_beside", "every nucleus, and a checkerboard of it", shaped(lambda mask: [mask, checkers(mask)])),
    Trick("lattices_3", "for every nucleus three lattices of two thirds, which share half", shaped(lambda mask: [lattice(mask, number) for number in range(3)])),
    Trick("lattices_sizes", "three lattices of two thirds: of the nucleus, one smaller and one larger", shaped(lambda mask: [lattice(mask, 0), lattice(smaller(mask, 1), 1), lattice(larger(mask, 1), 2)])),
    Trick("middle_dot", "every nucleus, and the pixel in its middle", shaped(lambda mask: [mask, middle(mask)])),
    Trick("far_sizes", "every nucleus as it is, three pixels smaller and three pixels larger", shaped(lambda mask: [mask, smaller(mask, 3), larger(mask, 3)])),
    Trick("far_sizes_unsure", "the least confident half as it is, three pixels smaller and three pixels larger", shaped(lambda mask: [mask, smaller(mask, 3), larger(mask, 3)], unsure(0.5))),
    Trick("far_smaller", "every nucleus once more, three pixels smaller", shaped(lambda mask: [mask, smaller(mask, 3)])),
    Trick("far_larger", "every nucleus once more, three pixels larger", shaped(lambda mask: [mask, larger(mask, 3)])),
    Trick("onto_neighbour", "the least confident fifth once more, 6 px to the right", each(onto_neighbours)),
    Trick("same_other", "every nucleus once more, of the same pixels, as another class", shaped(lambda mask: [mask, mask], other_class=True)),
    Trick("ring_other", "every nucleus, and a ring around it as another class", shaped(lambda mask: [mask, larger(mask, 3) & ~mask], other_class=True)),
    Trick("hedge_halves", "the largest fifth, and the two halves of each", shaped(halves_beside, largest_fifth)),
    Trick("hedge_unions", "every nucleus, and the union of every two neighbours", each(unions)),
    Trick("gap_dots", "a tenth as many pixels in the gaps between the nuclei", gaps_filled(1)),
    Trick("gap_squares", "a tenth as many squares of 7 px in the gaps between the nuclei", gaps_filled(7)),
    Trick("empty_small_patient", "empty the patient with the fewest nuclei", in_patients(lambda own, every: 0 if own == min(every) else own)),
    Trick("one_less", "leave the least confident nucleus of each small patient out", in_patients(lambda own, every: own if own > np.median(every) else max(own - 1, 0))),
    Trick("fifth_less", "leave the least confident fifth of large patients out", in_patients(lambda own, every: round(0.8 * own) if own > np.median(every) else own)),
    Trick("by_size", "name every nucleus by its size", each(by_size)),
    Trick("unsure_common", "name the least confident fifth as the commonest class", as_common(unsure(0.2))),
    Trick("no_unsure_rare", "leave the least confident fifth of the rarest class out", only_if(left_out_of(is_rare, 0.2))),
    Trick("no_unsure_common", "leave the least confident fifth of the commonest class out", only_if(left_out_of(is_common, 0.2))),
    Trick("border_grown", "make nuclei at the border of the image a pixel larger", shaped(lambda mask: [larger(mask, 1)], at_border)),
    Trick("smooth_93", "smooth every outline, and leave the least confident 7 % out", without_7(smooth)),
    Trick("ellipse_93", "an ellipse for every outline, without the least confident 7 %", without_7(ellipse)),
    Trick("unsure_grown", "make the least confident half a pixel larger", shaped(lambda mask: [larger(mask, 1)], unsure(0.5))),
    Trick("unsure_core", "for the least confident half their cores of at most 60 %", shaped(lambda mask: [core(mask, 0.6)], unsure(0.5))),
    *(trick for suffix, auc in STRENGTHS.items() for trick in posterior_tricks(suffix, auc)),
)  # fmt: skip
