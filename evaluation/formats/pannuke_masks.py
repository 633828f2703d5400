"""Masks of PanNuke: one channel of instance ids for each class, the last one for the background; .npy files.

A file holds one image, H x W x C, or all of them, N x H x W x C. PanNuke's own arrays are float64 and have C = 6.
Nuclei of different channels may have the same id, and may share pixels. Gamper et al., "PanNuke Dataset Extension,
Insights and Baselines", arXiv:2003.10778.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.decoding.label_array import check_labels, check_shape, find_binary_mask
from evaluation.findings import Finding, quote
from evaluation.findings.errors import InputFault, refusal
from evaluation.formats.case_array import CaseArray, DecodedCases, case_index, check_cases, wrong_array
from evaluation.formats.example import Example, npy_bytes
from evaluation.formats.format import Format, Request
from evaluation.model import Annotations, Case, Collection, LabelImage
from evaluation.model.label_runs import present_labels, runs_of


def read_pannuke_masks(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """The nuclei of one case: one label image for each class. ``class_values`` gives the channel, from 0, of each.

    The last channel is left out if no class names it; other channels without a class must be empty. Raises InputFault:
    wrong-shape, unnamed-channel, and those of ``CaseArray`` and ``check_labels``.
    """
    array = CaseArray(stream, request)
    check_channels(array.shape, ("rows", "columns"), request)
    check_shape(array.shape[:2], where=request.where, shape_yx=case.shape_yx)
    return channels_of(array.read(array.shape, 0, fortran=array.header.fortran), request, case, request.where)


def read_pannuke_masks_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """The nuclei of all cases; the index of a case along the first axis is ``Case.index``.

    stream  stays open as long as ``Collection.cases`` is read from: a case is decoded when it is asked for

    The array may hold more images than there are cases. Raises InputFault: wrong-shape, and those of ``CaseArray``;
    asking for a case: wrong-shape, unnamed-channel, and those of ``check_labels``.
    """
    array = CaseArray(stream, request)
    check_channels(array.shape, ("images", "rows", "columns"), request)
    check_cases(array, cases)

    def decode(case: Case) -> Annotations:
        where = f"{request.where}, case {quote(case.name)}"
        check_shape(array.shape[1:3], where=where, shape_yx=case.shape_yx)
        return channels_of(array.of_case(case_index(case)), request, case, where)

    return Collection(DecodedCases(cases, decode))


def check_channels(shape: tuple[int, ...], axes: tuple[str, ...], request: Request) -> None:
    """Refuse arrays without the axes and a last one for the channels."""
    needed = max(request.classes.values) + 1
    if len(shape) == len(axes) + 1 and shape[-1] >= needed:
        return
    expected = f"{' x '.join(axes)} x channels, of which there are at least {needed}"
    fix = "Write one channel of ids for each class, as the last axis."
    raise wrong_array(request.where, shape, expected, fix)


def channels_of(planes: npt.NDArray[Any], request: Request, case: Case, where: str) -> Annotations:
    """The label images of the channels that have a class. Raises InputFault with what is wrong in all channels."""
    parts: list[LabelImage] = []
    faults: list[Finding] = []
    warnings: list[Finding] = []
    for channel in range(planes.shape[2]):
        class_id = request.classes.values.get(channel)
        if class_id is None and channel == planes.shape[2] - 1:
            continue
        place = f"{where}, channel {channel}"
        plane = np.ascontiguousarray(planes[..., channel])
        try:
            if class_id is None:
                check_empty(plane, place, request)
                continue
            labels = runs_of(check_labels(plane, where=place, shape_yx=case.shape_yx))
        except InputFault as error:
            faults += error.findings
            continue
        parts.append(LabelImage(labels, request.file_class or class_id, source=f"channel {channel}"))
        warnings += find_binary_mask(labels, where=place)
    if faults:
        raise InputFault(*faults)
    return Annotations(tuple(parts), tuple(warnings))


def check_empty(plane: npt.NDArray[Any], place: str, request: Request) -> None:
    """Refuse nuclei in a channel that no class names."""
    if not plane.any():
        return
    names = {class_id: name for name, class_id in request.classes.ids.items() if class_id < 0}
    names |= dict(enumerate(request.classes.names, start=1))
    named = [f"{channel} ({quote(names[class_id])})" for channel, class_id in sorted(request.classes.values.items())]
    labels = check_labels(plane, where=place, shape_yx=(plane.shape[0], plane.shape[1]))
    count = len(present_labels(runs_of(labels)))
    raise refusal("unnamed-channel", place, nuclei=count, channels=", ".join(named))


def example(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    ordered = [example_masks(made, case) for case in sorted(cases, key=lambda case: case.index or 0)]
    return npy_bytes(np.stack(ordered) if made.rules.is_shared else ordered[0])


def example_masks(made: Example, case: Case) -> npt.NDArray[np.uint16]:
    labels = made.labels(case)
    masks = np.zeros((*case.shape_yx, 1 + max(5, *made.values.values())), np.uint16)
    for label, name in made.classes_of(case):
        masks[..., made.values[name]] += np.where(labels == label, label, 0).astype(np.uint16)
    return masks


FORMAT = Format(
    words="NumPy array, height x width x channels, the nuclei of a class in each channel",
    read=read_pannuke_masks,
    read_all=read_pannuke_masks_collection,
    example=example,
)
