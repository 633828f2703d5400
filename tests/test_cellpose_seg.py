"""Pickles are read as lists of what they call; nothing is called."""

from __future__ import annotations

import io
import os
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evaluation.decoding.cellpose_seg import read_masks
from evaluation.decoding.npy import read_npy
from evaluation.decoding.streams import CutOff
from evaluation.findings.errors import InputFault

MASKS = np.arange(35, dtype=np.uint16).reshape(5, 7)


def saved(content: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(content, object), allow_pickle=True)
    return file.getvalue()


def read(content: bytes, shape_yx: tuple[int, int] = (5, 7)) -> Any:
    return read_npy(io.BytesIO(content), where="'a'", shape_yx=shape_yx, bytes_limit=10_000)


class Evil:
    """A pickle of this ends the process if it is loaded."""

    def __reduce__(self) -> Any:
        return os._exit, (42,)


@given(hnp.arrays(st.sampled_from(["u1", ">u2", "<i4", "u8", "f4", "f8", "?"]), hnp.array_shapes(max_side=6)))
def test_any_array_of_numbers_is_what_numpy_unpickles(array: Any) -> None:
    for made in (array, np.asfortranarray(array)):
        for protocol in (3, 4):  # numpy.save takes 3 or 4
            outer = np.array({"masks": made, "flows": [array, None], "name": "é"}, object)
            found = read_masks(pickle.dumps(outer, protocol), "'a'")
            expected = pickle.loads(pickle.dumps(outer, protocol)).item()["masks"]
            assert found.dtype.newbyteorder("=") == expected.dtype
            np.testing.assert_array_equal(found, expected)


def test_what_a_pickle_calls_is_not_called() -> None:
    np.testing.assert_array_equal(read(saved({"masks": MASKS, "filename": Evil()})), MASKS)
    for content in ({"masks": Evil()}, Evil(), {"masks": [1]}, {"inst_map": MASKS}, {"masks": None}, [1]):
        with pytest.raises(InputFault, match=r"\[pickle\]"):
            read(saved(content))


@pytest.mark.parametrize("masks", [np.array([[None]]), MASKS.astype(complex), MASKS.astype("U3"), np.zeros(2, "u1,u2")])
def test_masks_that_are_no_numbers_are_refused(masks: Any) -> None:
    with pytest.raises(InputFault, match=r"\[pickle\]"):
        read(saved({"masks": masks}))


def test_masks_of_another_size_are_refused() -> None:
    with pytest.raises(InputFault, match="wrong-shape"):
        read(saved({"masks": MASKS}), (7, 5))


def test_a_shape_that_is_not_that_of_the_data_is_refused() -> None:
    content = saved({"masks": MASKS})
    for wrong in (b"K\x05K\x08\x86", b"K\x05J\xff\xff\xff\xff\x86"):
        assert content.count(b"K\x05K\x07\x86") == 1
        with pytest.raises(InputFault, match=r"\[pickle\]"):
            read(content.replace(b"K\x05K\x07\x86", wrong))


def test_every_file_that_is_cut_off_is_refused() -> None:
    content = saved({"masks": MASKS})
    for size in range(len(content) - 1):
        with pytest.raises((InputFault, CutOff)):
            read(content[:size])
