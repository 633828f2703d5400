"""NIfTI and NRRD files read equal what SimpleITK wrote; headers that name other files are refused."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import SimpleITK
from label_pictures import picture
from test_label_formats import LABELS, SHAPE, image_of, request

from evaluation.findings.errors import InputFault
from evaluation.formats.guarded import begin_annotations
from evaluation.formats.images import find_image
from evaluation.model import Case

SUFFIXES = (".nii", ".nii.gz", ".nrrd", ".mha")


def written(folder: Path, suffix: str, array: Any = LABELS, spacing_mm: float = 1.0, compressed: bool = False) -> bytes:
    image = SimpleITK.GetImageFromArray(array)
    image.SetSpacing([spacing_mm] * image.GetDimension())
    SimpleITK.WriteImage(image, str(folder / f"a{suffix}"), useCompression=compressed)
    return (folder / f"a{suffix}").read_bytes()


def read(content: bytes, suffix: str, spacing_um: float | None = None, limit: int = 10_000_000) -> Any:
    case = Case("a", "a", *SHAPE, spacing_um)
    asked = request(suffix, format="label_image", limit=limit)
    return picture(image_of(begin_annotations(io.BytesIO(content), asked, case, owner="tests")()).labels)


def refusal(content: bytes, suffix: str, spacing_um: float | None = None, limit: int = 10_000_000) -> str:
    with pytest.raises(InputFault) as error:
        read(content, suffix, spacing_um, limit)
    return str(error.value).replace(f" case 'a', 'a{suffix}':", "")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "f4", "f8"])
def test_labels_equal_what_simpleitk_wrote(suffix: str, dtype: str, compressed: bool, tmp_path: Path) -> None:
    array = (LABELS % 100).astype(dtype)
    np.testing.assert_array_equal(read(written(tmp_path, suffix, array, compressed=compressed), suffix), array)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_spacing_is_compared_with_the_case(suffix: str, tmp_path: Path) -> None:
    content = written(tmp_path, suffix, spacing_mm=0.0005)
    np.testing.assert_array_equal(read(content, suffix, spacing_um=0.5), LABELS)
    np.testing.assert_array_equal(read(content, suffix), LABELS)
    assert refusal(content, suffix, spacing_um=0.25) == (
        "[wrong-spacing] pixels of 0.5 x 0.5 um; expected 0.25 um, as cases.csv has it. Write the labels at the "
        "resolution of the image, with its spacing in mm."
    )
    not_given = written(tmp_path, suffix)
    np.testing.assert_array_equal(read(not_given, suffix, spacing_um=0.25), LABELS)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_another_shape_is_refused(suffix: str, tmp_path: Path) -> None:
    assert refusal(written(tmp_path, suffix, LABELS.T), suffix).startswith("[wrong-shape] 31 rows x 20 columns;")
    several = np.stack([LABELS, LABELS])
    assert refusal(written(tmp_path, suffix, several), suffix).startswith("[wrong-shape] an array of 2 x 20 x 31")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_size_of_an_image_is_told_without_a_case(suffix: str, tmp_path: Path) -> None:
    content, asked = written(tmp_path, suffix), request(suffix, format="label_image")
    assert find_image(tmp_path / f"a{suffix}", io.BytesIO(content), asked, "a").size_yx == SHAPE


@pytest.mark.parametrize("name", ["data file: /etc/passwd", "datafile: b.raw", "data file: LIST", "DATA FILE: b.raw"])
def test_an_nrrd_header_never_names_another_file(name: str, tmp_path: Path) -> None:
    content = written(tmp_path, ".nrrd")
    assert refusal(content.replace(b"\nencoding", f"\n{name}\nencoding".encode()), ".nrrd").startswith(
        "[external-data]"
    )


def test_a_nifti_header_without_its_data_is_refused(tmp_path: Path) -> None:
    content = written(tmp_path, ".nii")
    detached = content[:344] + b"ni1\0" + content[348:]
    assert refusal(detached, ".nii").startswith("[external-data]")
    assert refusal(gzip.compress(detached), ".nii.gz").startswith("[external-data]")


def test_what_decompresses_to_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    bomb = gzip.compress(written(tmp_path, ".nii") + bytes(20_000_000))
    assert refusal(bomb, ".nii.gz").startswith("[too-large] more after decompression; expected at most 10,000,000")
