"""Shapes of nuclei: those of scikit-image for each nucleus alone, also where they overlap; in objects.csv by option."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from skimage.measure import regionprops

from evaluation.challenge import Challenge
from evaluation.instances.labels import instances_from_labels
from evaluation.instances.parts import join_instances
from evaluation.instances.runs import SHAPES, measure_shapes
from evaluation.scoring.from_arrays import score_instances


def blobs(seed: int, nuclei: int = 600, shape: tuple[int, int] = (300, 500)) -> np.ndarray:
    """Ellipses, some cut by others, some of one pixel or one line."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(shape, np.int32)
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    for label in range(1, nuclei + 1):
        y, x = rng.uniform(0, shape[0]), rng.uniform(0, shape[1])
        a, b = rng.uniform(0.5, 9, 2)
        labels[((rows - y) / a) ** 2 + ((columns - x) / b) ** 2 <= 1] = label
    return np.unique(labels, return_inverse=True)[1].reshape(shape).astype(np.int32)


def instances_of(labels: np.ndarray):
    return instances_from_labels(labels, np.ones(labels.max(), np.int16))


@pytest.mark.filterwarnings("ignore")
def test_shapes_are_those_of_each_nucleus_alone():
    labels = blobs(0)
    found = measure_shapes(instances_of(labels))
    expected = regionprops(labels)
    assert len(expected) == labels.max() > 300
    for name in SHAPES:
        np.testing.assert_allclose(found[name], [region[name] for region in expected], rtol=1e-9)


def test_nuclei_that_overlap_keep_their_shapes():
    first, second = instances_of(blobs(1)), instances_of(blobs(2))
    both = measure_shapes(join_instances([first, second], first.shape_yx))
    for name in SHAPES:
        alone = np.concatenate([measure_shapes(side)[name] for side in (first, second)])
        np.testing.assert_array_equal(both[name], alone)


def test_a_disc_is_round_and_a_cross_is_not_solid():
    labels = np.zeros((40, 90), np.int32)
    rows, columns = np.ogrid[:40, :90]
    labels[(rows - 20) ** 2 + (columns - 20) ** 2 <= 15**2] = 1
    labels[18:22, 50:80] = labels[5:35, 63:67] = 2
    labels[1, 40:89] = 3
    found = measure_shapes(instances_of(labels))
    assert found["eccentricity"][0] == pytest.approx(0, abs=0.02)
    assert found["eccentricity"][2] == pytest.approx(1, abs=0.001)
    assert found["solidity"].tolist() == [pytest.approx(0.97, abs=0.03), pytest.approx(0.45, abs=0.06), 1.0]


@pytest.mark.parametrize("asked", [True, False])
def test_objects_csv_has_shapes_if_they_are_asked_for_and_the_same_hash(asked):
    labels = np.zeros((30, 40), np.int32)
    labels[2:10, 2:10], labels[15:18, 2:30] = 1, 2
    shifted = np.where(labels == 1, 1, 0) + np.where(np.roll(labels, 15, 1) == 1, 2, 0)
    cases = {"c": (instances_of(labels), instances_of(shifted.astype(np.int32)))}
    plain = Challenge.from_preset("dsb2018", name="a")
    rules = plain.metrics.model_dump() | {"shapes": asked}
    challenge = plain.model_copy(update={"metrics": type(plain.metrics)(**rules)})
    assert challenge.hash == plain.hash
    rows = list(csv.DictReader(io.StringIO(score_instances(challenge, cases, groups={"c": "g"}).objects)))
    ends = [(row["outcome"], row.get("reference_solidity"), row.get("prediction_eccentricity")) for row in rows]
    outcomes = ["matched", "missed", "spurious"]
    if asked:
        assert ends[:3] == [("matched", "1.0", "0.0"), ("missed", "1.0", ""), ("spurious", "", "0.0")]
    else:
        assert ends[:3] == [(outcome, None, None) for outcome in outcomes]
