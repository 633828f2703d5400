"""Real tensors of torch as sides. Skipped where torch is not installed, which the summary of the tests says."""

from __future__ import annotations

import numpy as np
import pytest
from made_sides import PREDICTION, REFERENCE

from nuclei_metrics import Evaluation, average_precision, match, panoptic_quality

torch = pytest.importorskip("torch", reason="torch is not installed: real tensors were NOT tested")


def test_a_tensor_is_a_side():
    sides = torch.tensor(REFERENCE), torch.tensor(PREDICTION, dtype=torch.int32)
    assert panoptic_quality(*sides) == panoptic_quality(REFERENCE, PREDICTION)
    assert match(*sides).pairs.tolist() == match(REFERENCE, PREDICTION).pairs.tolist()


def test_masks_scores_and_classes_of_a_detector_are_tensors():
    masks = torch.stack([torch.tensor(label == PREDICTION) for label in (4, 5, 6)])
    confidence = torch.tensor([0.9, 0.8, 0.1])
    expected = average_precision(REFERENCE, PREDICTION, confidence=[0.9, 0.8, 0.1])
    for form in (masks, list(masks), masks[:, None].float()):  # torchvision's are (N, 1, H, W)
        assert average_precision(torch.tensor(REFERENCE), form, confidence=confidence) == expected
    val = Evaluation(classes=["a", "b"])
    val.update(
        torch.tensor(REFERENCE),
        masks,
        reference_class=torch.tensor([1, 2, 2]),
        prediction_class=torch.tensor([1, 2, 1]),
    )
    assert val.compute()["panoptic.per_class.a.pq"].value == pytest.approx(5 / 6 / 1.5)


def test_a_tensor_with_a_gradient_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"tensor.detach\(\).cpu\(\)"):
        match(torch.tensor(REFERENCE), torch.ones(REFERENCE.shape, requires_grad=True))


def test_nothing_is_copied():
    labels = torch.tensor(REFERENCE)
    from nuclei_metrics.instances.runs import as_array

    assert np.shares_memory(as_array(labels, "labels"), labels.numpy())
