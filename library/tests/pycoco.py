"""Made images with nuclei of three classes, and what pycocotools says of them."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

OF_PYCOCOTOOLS = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def code_of(mask: np.ndarray) -> dict:
    return coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))


def coco_evaluation(images, thresholds, areas=((0, 1e10),)) -> COCOeval:
    """Its evaluation of images: codes, classes; codes, classes, confidences (in ``eval`` -1: no such nuclei)."""
    truth: list[dict] = []
    found: list[dict] = []
    for image, (reference, of_reference, prediction, of_prediction, confidence) in enumerate(images, start=1):
        for code, class_id in zip(reference, of_reference, strict=True):
            entry = {"id": len(truth) + 1, "image_id": image, "category_id": int(class_id), "iscrowd": 0}
            truth.append({**entry, "segmentation": code, "area": float(coco_mask.area(code))})
        for code, class_id, score in zip(prediction, of_prediction, confidence, strict=True):
            entry = {"image_id": image, "category_id": int(class_id), "segmentation": code}
            found.append({**entry, "score": float(score)})
    height, width = images[0][0][0]["size"]
    dataset = COCO()
    dataset.dataset = {
        "info": {},
        "images": [{"id": image, "height": height, "width": width} for image in range(1, len(images) + 1)],
        "categories": [{"id": class_id} for class_id in sorted({entry["category_id"] for entry in truth})],
        "annotations": truth,
    }
    with contextlib.redirect_stdout(io.StringIO()):
        dataset.createIndex()
        evaluation = COCOeval(dataset, dataset.loadRes(found), "segm")
        evaluation.params.iouThrs = np.array(thresholds)
        evaluation.params.maxDets = [100_000]
        evaluation.params.areaRng = [list(area) for area in areas]
        evaluation.params.areaRngLbl = [str(area) for area in areas]
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation


def rectangles(random, number, size=40):
    """Masks (number, size, size) of rectangles, and their class."""
    masks = np.zeros((number, size, size), bool)
    for mask in masks:
        y, x = random.integers(0, size - 12, 2)
        height, width = random.integers(5, 12, 2)
        mask[y : y + height, x : x + width] = True
    return masks, random.integers(1, 4, number)


def made_images(seed: int) -> list[tuple[np.ndarray, ...]]:
    """Five images: masks and classes of the reference; masks, classes and confidences of the prediction.

    Five of 30 nuclei are missed, eight are spurious, the others moved by a pixel or two and some of them narrower.
    """
    random = np.random.default_rng(seed)
    scores = random.permutation(300).astype(np.float64) / 300
    images = []
    for _ in range(5):
        reference, of_reference = rectangles(random, 30)
        moved = np.stack([np.roll(mask, random.integers(-2, 3, 2), axis=(0, 1)) for mask in reference[5:]])
        spurious, of_spurious = rectangles(random, 8)
        prediction = np.concatenate([moved, spurious])
        prediction[::3, :, 1:] &= prediction[::3, :, :-1]
        of_prediction = np.concatenate([of_reference[5:], of_spurious])
        of_prediction[:3] = 3
        images.append((reference, of_reference, prediction, of_prediction, scores[: len(prediction)]))
        scores = scores[len(prediction) :]
    return images


def coded(images) -> list[tuple]:
    """The same images, with run-length codes in place of masks."""
    return [
        ([*map(code_of, reference)], of_reference, [*map(code_of, prediction)], *others)
        for reference, of_reference, prediction, *others in images
    ]
