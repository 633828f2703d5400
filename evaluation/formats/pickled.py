"""Pickled dictionaries of segmentation tools, for people who convert files of their own.

Loading a pickle runs whatever is in it. So nothing that reads submissions imports this module; only
``evaluation convert --trust-pickle`` does.
"""

from __future__ import annotations

import pickle
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import joblib
import numpy as np
import numpy.typing as npt

from evaluation.findings.annotations import UnknownClassNumbers
from evaluation.findings.errors import InputFault
from evaluation.findings.labels import OtherPickle
from evaluation.formats.request import Request
from evaluation.model import Annotations, LabelImage, Outlines
from evaluation.model.label_runs import runs_of

# What loading a pickle, and taking its values for what they are not, may raise.
DAMAGED = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    struct.error,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
    zlib.error,
)
KNOWN = ("inst_map", "cells", "contour")


def read_own_pickle(stream: BinaryIO, request: Request) -> tuple[Annotations, tuple[int, int] | None]:
    """What a trusted pickle (.pkl, .dat, or .npy with an object in it) says of its case, and the size of the image.

    Known are dictionaries with ``inst_map`` and ``type_map`` or ``inst_type`` (HoVer-Net, NuCLS tiles, PanNuke tools),
    and cells with ``contour``, ``type`` and ``prob`` (CellViT: a list, or under ``cells``; HoVer-Net, and TIAToolbox
    with joblib: a dictionary by id). Class numbers become classes by ``class_values``. The size is None for contours.
    Raises InputFault for all else.
    """
    try:
        return understood(load(stream), request)
    except DAMAGED as error:
        seen = f"not what such files hold ({type(error).__name__})"
        raise InputFault(OtherPickle(seen, KNOWN).at(request.where)) from None


def understood(content: Any, request: Request) -> tuple[Annotations, tuple[int, int] | None]:
    if isinstance(content, np.ndarray) and content.dtype == object and content.size == 1:
        content = content.item()
    if isinstance(content, Mapping) and "inst_map" in content:
        return label_image_of(content, request)
    cells = content.get("cells", content) if isinstance(content, Mapping) else content
    if isinstance(cells, Mapping):
        cells = [{"id": key, **cell} for key, cell in cells.items() if isinstance(cell, Mapping)]
    if isinstance(cells, Sequence) and cells and all(isinstance(c, Mapping) and "contour" in c for c in cells):
        return Annotations((outlines_of(cells, request),)), None
    raise InputFault(OtherPickle(f"an object of the type {type(content).__name__}", KNOWN).at(request.where))


def load(stream: BinaryIO) -> Any:
    if stream.read(6) == b"\x93NUMPY":
        stream.seek(0)
        return np.load(stream, allow_pickle=True)
    stream.seek(0)
    return joblib.load(stream)


def label_image_of(content: Mapping[str, Any], request: Request) -> tuple[Annotations, tuple[int, int]]:
    labels = np.asarray(content["inst_map"]).astype(np.int64)
    shape_yx = (labels.shape[0], labels.shape[1])
    if "type_map" in content:
        class_map = class_ids(np.asarray(content["type_map"]), request)
        return Annotations((LabelImage(runs_of(labels), class_map=runs_of(class_map), source=request.name),)), shape_yx
    if "inst_type" in content:
        classes = class_ids(np.asarray(content["inst_type"]).reshape(-1), request)
        return Annotations((LabelImage(runs_of(labels), class_of_instance=classes, source=request.name),)), shape_yx
    return Annotations((LabelImage(runs_of(labels), request.classes.of_nameless, source=request.name),)), shape_yx


def class_ids(numbers: npt.NDArray[Any], request: Request) -> npt.NDArray[np.int16]:
    """Class ids by their numbers; 0 is none. Raises InputFault for a number that is no class."""
    distinct, index = np.unique(numbers.astype(np.int64), return_inverse=True)
    known = request.classes.values
    if unknown := [int(number) for number in distinct if number and int(number) not in known]:
        raise InputFault(UnknownClassNumbers(unknown, known).at(request.where))
    ids = [known[int(number)] if number else 0 for number in distinct]
    return np.array(ids, np.int16)[index].reshape(numbers.shape)


def outlines_of(cells: Sequence[Mapping[str, Any]], request: Request) -> Outlines:
    rings = [np.asarray(cell["contour"], np.float64).reshape(-1, 2) for cell in cells]
    numbers = np.array([int(cell.get("type") or 0) for cell in cells])
    probability = [cell.get("prob", cell.get("type_prob")) for cell in cells]
    return Outlines(
        points_xy=np.concatenate(rings),
        ring_start=np.cumsum([0, *map(len, rings)], dtype=np.int64),
        ring_instance=np.arange(len(rings), dtype=np.int32),
        ring_is_hole=np.zeros(len(rings), np.bool_),
        class_id=class_ids(numbers, request),
        probability=None if None in probability else np.array(probability, np.float32),
        source_id=np.array([str(cell.get("id", i)) for i, cell in enumerate(cells, start=1)] + [None], object)[:-1],
    )
