"""Label images."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK
import tifffile
from scipy.io import savemat

from evaluation.formats.example import image_bytes
from evaluation.model import Case
from findings.bench import Bench
from findings.registry import example_of

SHAPE = (20, 31)
LABELS = np.zeros(SHAPE, np.uint16)


def label_image(bench: Bench, suffix: str, content: Any, shape_yx: tuple[int, int] = SHAPE) -> str:
    """What is said about a label image of the only case and class."""
    case = Case("case_017", "P1", *shape_yx, 0.25, 0)
    nucleus = [{"name": "nucleus"}]
    bench.make("label_image by class", cases=(case,), classes=nucleus, submission={"files": f"{{case}}{suffix}"})
    bench.write(f"submission/case_017{suffix}", content)
    return bench.validate()


def n_ary_mask(bench: Bench, shape_yx: tuple[int, int], **variables: Any) -> str:
    """What is said about a MATLAB file of P1_1."""
    bench.make("nary_mat", cases=(Case("P1_1", "P1", *shape_yx, 0.25, 0),))
    savemat("submission/P1/P1_1/Epithelial/1.mat", variables)
    return bench.validate()


@example_of("wrong-format")
def renamed_png(bench: Bench) -> str:
    return label_image(bench, ".tif", image_bytes(LABELS, ".png"))


@example_of("unsupported-format")
def bitmap(bench: Bench) -> str:
    return label_image(bench, ".bmp", b"BM")


@example_of("components")
def mask_with_corners(bench: Bench) -> str:
    case, mask = Case("case_017", "P1", *SHAPE, 0.25, 0), np.zeros(SHAPE, np.uint8)
    mask[2:5, 3:6] = mask[5:8, 6:9] = mask[12:15, 20:22] = mask[18, 1] = 255
    rules = {"files": "{case}.png", "components": 8}
    bench.make("label_image by class", cases=(case,), classes=[{"name": "nucleus"}], submission=rules)
    bench.write("submission/case_017.png", image_bytes(mask, ".png"))
    return bench.validate()


@example_of("wrong-spacing")
def other_resolution(bench: Bench) -> str:
    image = SimpleITK.GetImageFromArray(LABELS)
    image.SetSpacing([0.0005, 0.0005])
    SimpleITK.WriteImage(image, "a.nii.gz")
    return label_image(bench, ".nii.gz", Path("a.nii.gz").read_bytes())


@example_of("pickle")
def pickled_dictionary(bench: Bench) -> str:
    np.save("pickled.npy", np.array([{"inst_map": LABELS}], object), allow_pickle=True)
    return label_image(bench, ".npy", Path("pickled.npy").read_bytes())


@example_of("no-mask-variable")
def two_variables(bench: Bench) -> str:
    return n_ary_mask(bench, SHAPE, a=LABELS, b=LABELS)


@example_of("not-numeric")
def complex_numbers(bench: Bench) -> str:
    return label_image(bench, ".npy", LABELS * 1j)


@example_of("wrong-shape")
def transposed(bench: Bench) -> str:
    return n_ary_mask(bench, (1153, 1307), n_ary_mask=np.zeros((1307, 1153), np.uint8))


@example_of("several-images")
def three_pages(bench: Bench) -> str:
    file = io.BytesIO()
    tifffile.imwrite(file, np.stack([LABELS] * 3), photometric="minisblack")
    return label_image(bench, ".tif", file.getvalue())


@example_of("external-data")
def header_alone(bench: Bench) -> str:
    header = "NDims = 2\nDimSize = 31 20\nElementType = MET_INT\nElementDataFile = case_017.raw\n"
    return label_image(bench, ".mha", header)


@example_of("not-finite")
def result_of_a_division(bench: Bench) -> str:
    return label_image(bench, ".npy", np.array([[0, 1, np.nan], [np.inf, 0, 0]]), (2, 3))


@example_of("fractional-label")
def probabilities(bench: Bench) -> str:
    return label_image(bench, ".npy", np.array([[0, 1, 0], [0.5, 0.5, 0.5]]), (2, 3))


@example_of("negative-label")
def background_of_minus_one(bench: Bench) -> str:
    labels = np.zeros((1024, 1024), np.int16)
    labels[0, 517:] = labels[1, :777] = -1
    header = "NDims = 2\nDimSize = 1024 1024\nElementType = MET_SHORT\nElementDataFile = LOCAL\n"
    return label_image(bench, ".mha", header.encode() + labels.tobytes(), labels.shape)


@example_of("label-too-large")
def minus_one_as_unsigned(bench: Bench) -> str:
    return label_image(bench, ".npy", np.array([[0, 2**64 - 1, 0], [0, 0, 0]], np.uint64), (2, 3))


@example_of("binary-mask")
def threshold(bench: Bench) -> str:
    labels = np.zeros((10, 74), np.uint8)
    labels[5, ::2] = 1
    return label_image(bench, ".npy", labels, labels.shape)


@example_of("not-annotated")
def void_of_255(bench: Bench) -> str:
    labels = np.zeros((40, 60), np.uint8)
    labels.reshape(-1)[:1284] = 255
    labels[30, :12] = np.arange(1, 13)
    return label_image(bench, ".png", image_bytes(labels, "a.png"), labels.shape)


@example_of("unknown-class-value")
def class_of_another_challenge(bench: Bench) -> str:
    bench.make("label_image class map npy", submission={"class_map": "{case}_classes.npy"})
    classes = np.load("submission/case_017_classes.npy")
    classes[0, 3:15] = 7
    bench.write("submission/case_017_classes.npy", classes)
    return bench.validate()
