"""Label images in HDF5: which dataset is read, and that nothing else is touched."""

from __future__ import annotations

import io
from typing import Any

import h5py
import numpy as np
import pytest

from evaluation.decoding.hdf5 import read_hdf5
from evaluation.decoding.streams import damage_told
from evaluation.findings.errors import InputFault

LABELS = np.arange(35, dtype=np.uint16).reshape(5, 7)


def hdf5(build: Any) -> io.BytesIO:
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        build(file)
    stream.seek(0)
    return stream


def read(build: Any, dataset: str | None = None, limit: int = 100_000) -> Any:
    with damage_told("'a'", "an HDF5 file"):
        return read_hdf5(hdf5(build), where="'a'", shape_yx=(5, 7), bytes_limit=limit, dataset=dataset)


def fill(**arrays: Any) -> Any:
    def build(file: Any) -> None:
        for name, array in arrays.items():
            file[name.replace("__", "/")] = array

    return build


@pytest.mark.parametrize("dataset", ["/a/b/labels", "a/b/labels"])
def test_a_dataset_is_named_by_its_path(dataset: str) -> None:
    np.testing.assert_array_equal(read(fill(a__b__labels=LABELS, a__labels=LABELS * 2), dataset), LABELS)


def test_without_a_name_the_only_array_or_the_one_with_a_usual_name_is_read() -> None:
    np.testing.assert_array_equal(read(fill(exported_data=LABELS[..., None], note="text", number=3)), LABELS[..., None])
    np.testing.assert_array_equal(read(fill(image=LABELS * 3, volumes__labels=LABELS)), LABELS)


@pytest.mark.parametrize(
    ("build", "dataset", "told"),
    [
        (fill(a=LABELS, b__c=LABELS), None, r"\[no-mask-variable\] 'a': the datasets 'a' and 'b/c'; expected one"),
        (fill(a=LABELS), "/labels", r"\[no-mask-variable\] 'a': the datasets 'a'; expected the dataset '/labels'"),
        (lambda file: None, None, r"\[no-mask-variable\] 'a': no dataset"),
        (fill(labels="text"), "labels", r"\[not-numeric\] 'a': 'labels' is "),
        (fill(labels=LABELS), "/", r"\[no-mask-variable\]"),
        (fill(a__labels=LABELS), "a", r"\[not-numeric\] 'a': 'a' is a struct"),
        (fill(labels=LABELS.T), None, r"\[wrong-shape\] 'a', 'labels': 7 rows x 5 columns; .* swapped"),
        (fill(labels=np.zeros((5, 7, 3))), None, r"\[wrong-shape\]"),
    ],
)
def test_what_cannot_be_it_is_told(build: Any, dataset: str | None, told: str) -> None:
    with pytest.raises(InputFault, match=told):
        read(build, dataset)


def test_groups_that_hold_themselves_end() -> None:
    def build(file: Any) -> None:
        file["labels"] = LABELS
        file["a"] = file["/"]

    with pytest.raises(InputFault, match="wrong-format"):
        read(build)


def test_links_to_other_files_are_not_followed(tmp_path: Any) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["labels"] = LABELS
    secret = str(tmp_path / "secret.h5")
    with pytest.raises(InputFault, match="'labels' is a link"):
        read(lambda file: file.__setitem__("labels", h5py.ExternalLink(secret, "labels")), "labels")
    with pytest.raises(InputFault, match="no-mask-variable"):
        read(lambda file: file.__setitem__("a", h5py.ExternalLink(secret, "/")), "a/labels")


def test_an_array_above_the_limit_is_refused() -> None:
    with pytest.raises(InputFault, match="too-large"):
        read(fill(labels=LABELS.astype(np.int64)), limit=200)
