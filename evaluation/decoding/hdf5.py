"""Label images in HDF5 files that are not MATLAB's: a dataset by its path, or the only one that can be it.

Its axes are rows and columns, as h5py and ilastik write them. What may point elsewhere or be damaged is refused as in
MATLAB 7.3 files. The HDF Group, "HDF5 File Format Specification Version 3.0".
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, BinaryIO

import numpy.typing as npt

from evaluation.decoding.label_array import check_shape
from evaluation.decoding.matlab_hdf5 import Hdf5Member, Unsupported, list_members, read_member
from evaluation.decoding.npy import ID_NAMES
from evaluation.findings import quote
from evaluation.findings.errors import InputFault
from evaluation.findings.labels import NoDataset, NotNumericDataset, UnsupportedHdf5


def read_hdf5(
    stream: BinaryIO,
    *,
    where: str,
    shape_yx: tuple[int, int],
    bytes_limit: int,
    channels: int = 1,
    dataset: str | None = None,
) -> npt.NDArray[Any]:
    """The array of an HDF5 file at the path ``dataset``; None: the only one, or the only one with a usual name.

    Nothing larger than headers is read before the shape is known to be right. Raises InputFault: no-mask-variable,
    not-numeric, wrong-shape, too-large, unsupported-format; CutOff, Damaged.
    """
    try:
        chosen = choose_member(list_members(stream, nested=True), dataset, where)
        check_shape(chosen.shape, where=f"{where}, {quote(chosen.name)}", shape_yx=shape_yx, channels=channels)
        return read_member(chosen, where=where, bytes_limit=bytes_limit)
    except Unsupported as error:
        raise InputFault(UnsupportedHdf5(str(error)).at(where)) from None


def shape_in_hdf5(stream: BinaryIO, where: str, dataset: str | None) -> tuple[int, ...]:
    """The shape of the array that ``read_hdf5`` reads. Raises InputFault, CutOff, Damaged."""
    return choose_member(list_members(stream, nested=True), dataset, where).shape


def choose_member(members: list[Hdf5Member], dataset: str | None, where: str) -> Hdf5Member:
    """The member to read. Raises InputFault if it cannot be told, or holds no plain numbers."""
    if dataset is not None:
        chosen = [member for member in members if member.name == dataset.strip("/")]
        expected = f"the dataset {quote(dataset)}"
    else:
        chosen = [member for member in members if member.kind is None and len(member.shape) > 1]
        named = [member for member in chosen if PurePosixPath(member.name).name in ID_NAMES]
        chosen = named if len(chosen) > 1 else chosen
        expected = f"one array, or one with a name such as {quote(ID_NAMES[0])}"
    if len(chosen) != 1:
        names = [member.name for member in members if member.dataset is not None]
        raise InputFault(NoDataset(names, expected).at(where))
    if chosen[0].kind is not None:
        raise InputFault(NotNumericDataset(chosen[0].kind, chosen[0].name).at(where))
    return chosen[0]
