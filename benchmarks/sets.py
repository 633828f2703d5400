"""The benchmark sets: label maps of a reference and of a prediction with mistakes, seeded, kept in a cache folder.

``monusac_like``  101 images of 25 patients, sides of 100 to 1500 px, 15,000 nuclei in four classes
``slide``         one image of 10,000 x 10,000 px with 60,000 nuclei
``patches``       2,700 images of 256 x 256 px with 25 nuclei each, as many as a fold of PanNuke

    python -m benchmarks.sets          makes the sets and prints what is in them
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks import cache_folder
from benchmarks.label_maps import LabelMaps, draw_label_maps
from benchmarks.synthesis import MONUSAC_WEIGHTS, Mistakes, seeded

FORMAT = 1  # to be raised when the sets change, so that no old file is taken for a new one
SEED = 101
PARTS = ("reference", "prediction", "reference_class", "prediction_class")

# Images of each patient, and how many images hold one, two, three and four classes, as in MoNuSAC 2020's test set.
IMAGES_OF_PATIENT = (1, 1, 2, 2, 3, 3, *(4,) * 9, *(5,) * 8, 6, 7)
IMAGES_BY_CLASSES = (49, 45, 5, 2)
SHORTEST_PX, LONGEST_PX = 100, 1500
NUCLEI = 15_000
PATCHES = 2_700

# What a good team of that challenge does: about 88 % of nuclei found, IoU of matched pairs about 0.8.
MISTAKES = Mistakes(
    missed=0.08,
    spurious=0.10,
    confusion=((0.95, 0.04, 0.0, 0.01), (0.02, 0.98, 0.0, 0.0), (0.01, 0.12, 0.85, 0.02), (0.12, 0.02, 0.04, 0.82)),
    grow_px=0.2,
    grow_spread_px=1.2,
    shift_px=1,
    roughen_px=1.0,
    split=0.02,
    merged=0.03,
)


@dataclass(frozen=True, slots=True)
class PlannedImage:
    """What an image of a set is drawn from."""

    patient: int
    shape_yx: tuple[int, int]
    nuclei: int
    class_weights: tuple[float, ...]


def monusac_like() -> list[LabelMaps]:
    """The set like MoNuSAC 2020's test set, from the cache or made now."""
    return cached("monusac_like", monusac_plan)


def slide() -> list[LabelMaps]:
    """One large image, from the cache or made now (about a minute)."""
    return cached("slide", lambda: [PlannedImage(1, (10_000, 10_000), 60_000, MONUSAC_WEIGHTS)])


def patches() -> list[LabelMaps]:
    """Thousands of small images, from the cache or made now (about a minute)."""
    return cached("patches", lambda: [PlannedImage(index, (256, 256), 25, MONUSAC_WEIGHTS) for index in range(PATCHES)])


SETS: dict[str, Callable[[], list[LabelMaps]]] = {"monusac_like": monusac_like, "slide": slide, "patches": patches}


def monusac_plan() -> list[PlannedImage]:
    """Sizes, numbers of nuclei and classes of the 101 images.

    Sides are spread evenly over their logarithms, so that small images are as common as large ones; nuclei by area,
    denser in some images than in others; classes so that 49 images have one only.
    """
    rng = seeded(SEED, 0)
    images = sum(IMAGES_OF_PATIENT)
    patient = np.repeat(np.arange(1, len(IMAGES_OF_PATIENT) + 1), IMAGES_OF_PATIENT)
    size = (np.arange(images) + rng.random(images)) / images  # even shares of the range
    shape = np.empty((images, 2), np.int64)
    for axis in range(2):
        part = np.clip(size + 0.16 * (rng.random(images) - 0.5), 0, 1)
        shape[:, axis] = np.round(SHORTEST_PX * (LONGEST_PX / SHORTEST_PX) ** part)
    shape[0], shape[-1] = (SHORTEST_PX, SHORTEST_PX), (LONGEST_PX, LONGEST_PX)
    nuclei = shares(shape[:, 0] * shape[:, 1] * (0.6 + 0.8 * rng.random(images)), NUCLEI)
    classes = np.repeat(np.arange(1, 5), IMAGES_BY_CLASSES)[np.argsort(rng.random(images))]
    shuffled = np.argsort(rng.random(images))
    return [
        PlannedImage(
            int(patient[index]),
            (int(shape[source, 0]), int(shape[source, 1])),
            int(nuclei[source]),
            tuple(class_weights(rng, int(classes[index]))),
        )
        for index, source in enumerate(shuffled)
    ]


def shares(weight: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers, at least 1, in proportion to the weights, that add up to ``total``."""
    limits = np.round(np.cumsum(weight) / weight.sum() * total).astype(np.int64)
    number = np.maximum(np.diff(limits, prepend=0), 1)
    number[number.argmax()] += total - number.sum()
    return number


def class_weights(rng: np.random.Generator, classes: int) -> list[float]:
    """Weights of the four classes in an image that holds ``classes`` of them; common classes are chosen first."""
    often = np.array(MONUSAC_WEIGHTS) ** 0.33
    order = np.argsort(-often * rng.random(4))[:classes]
    return [MONUSAC_WEIGHTS[k] if k in order else 0.0 for k in range(4)]


def cached(name: str, plan: Callable[[], list[PlannedImage]]) -> list[LabelMaps]:
    """Read a set as .npy files from the cache; make and keep it if it is not there."""
    folder = cache_folder() / f"{name}-{FORMAT}-{SEED}"
    if not (folder / "complete").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        for index, image in enumerate(plan()):
            rng = seeded(SEED, 1, index)
            maps = draw_label_maps(rng, image.shape_yx, image.nuclei, MISTAKES, image.class_weights)
            for part in PARTS:
                np.save(folder / f"{index:03}-{part}.npy", getattr(maps, part))
        (folder / "complete").touch()
    count = len(list(folder.glob(f"*-{PARTS[0]}.npy")))
    return [LabelMaps(*(np.load(folder / f"{index:03}-{part}.npy") for part in PARTS)) for index in range(count)]


def describe(name: str, maps: list[LabelMaps]) -> str:
    """What is in a set, in one line."""
    pixels = sum(image.reference.size for image in maps)
    covered = sum(int(np.count_nonzero(image.reference)) for image in maps)
    reference, prediction = (sum(len(getattr(image, f"{side}_class")) for image in maps) for side in PARTS[:2])
    by_class = sum(np.bincount(image.reference_class, minlength=5)[1:] for image in maps)
    return (
        f"{name}: {len(maps)} images, {pixels / 1e6:.1f} Mpx, {reference:,} reference nuclei "
        f"({', '.join(f'{n:,}' for n in by_class)} by class, mean {covered / reference:.0f} px, "
        f"{covered / pixels:.0%} of the pixels), {prediction:,} predicted"
    )


if __name__ == "__main__":
    for set_name in sys.argv[1:] or SETS:
        print(describe(set_name, SETS[set_name]()))
