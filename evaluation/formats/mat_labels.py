"""The label image in a MATLAB file: the variable of MoNuSAC's "n-ary masks", or the only one that can be it."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.decoding.label_array import check_labels, check_shape
from evaluation.decoding.mat_file import SPARSE, MatFile, Variable
from evaluation.findings import fault
from evaluation.findings.errors import InputFault

VARIABLE = "n_ary_mask"


def read_mat_labels(
    stream: BinaryIO, *, where: str, shape_yx: tuple[int, int], bytes_limit: int
) -> npt.NDArray[np.integer[Any]]:
    """The label image of a MATLAB file, integer (H, W): the variable ``n_ary_mask``, or the only 2-D numeric one.

    stream       seekable, read from its start
    where        the file, for messages
    shape_yx     (H, W) px that it must have
    bytes_limit  the most bytes that the file, and the array in it, may have

    Nothing larger than the header is read before shape and size are known to be right. Raises InputFault:
    no-mask-variable, not-numeric (cells, structs, sparse, complex), and those of ``MatFile`` and ``check_labels``.
    """
    mat = MatFile(stream, where=where, bytes_limit=bytes_limit)
    variable = choose_variable(mat.variables, where)
    check_shape(variable.shape, where=where, shape_yx=shape_yx)
    return check_labels(mat.read(variable), where=where, shape_yx=shape_yx)


def choose_variable(variables: list[Variable], where: str) -> Variable:
    """The variable that holds the label image. Raises InputFault if it is not clear, or holds no plain numbers."""
    named = [variable for variable in variables if variable.name == VARIABLE]
    planes = [variable for variable in variables if variable.is_plane]
    candidates = named or planes or [variable for variable in variables if variable.kind is None]
    if len(candidates) == 1 and (chosen := candidates[0]).kind is None:
        return chosen
    if len(named) == 1 or (len(variables) == 1 and not candidates):
        chosen = variables[0] if not named else named[0]
        wording = "sparse-mask" if chosen.kind == SPARSE else "mask"
        raise InputFault(fault("not-numeric", where, wording=wording, kind=chosen.kind, name=chosen.name))
    names = [variable.name for variable in variables]
    if len(named) > 1:
        raise InputFault(fault("no-mask-variable", where, wording="label-twice", planes=len(named)))
    raise InputFault(fault("no-mask-variable", where, wording="no-label", names=names, planes=len(planes)))
