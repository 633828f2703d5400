"""One module per file format: bytes to values, everything checked on the way in."""

from __future__ import annotations

from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from evaluation.formats.label_image import read_class_map, read_label_image
from evaluation.formats.nary_mat import read_nary_mat

__all__ = ["read_class_map", "read_labels"]


def read_labels(
    format: Literal["nary_mat", "label_image"],
    stream: BinaryIO,
    *,
    where: str,
    shape_yx: tuple[int, int],
    bytes_limit: int,
) -> npt.NDArray[np.integer[Any]]:
    """The label image of a file in the format that the challenge names, integer (H, W). Raises InputFault."""
    reader = {"nary_mat": read_nary_mat, "label_image": read_label_image}[format]
    return reader(stream, where=where, shape_yx=shape_yx, bytes_limit=bytes_limit)
