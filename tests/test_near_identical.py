"""Submissions that are one entry handed in twice are found, and told apart from honest teams."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from literal import instances_of, masks_of

from benchmarks.gaming import PLANS, made_field
from evaluation.analysis.near_identical import NEARLY_THE_SAME, twin_share
from evaluation.instances.perturb import dilate_instances
from evaluation.instances.runs import select_instances
from evaluation.model import Instances


def squares(*corners_yx: tuple[int, int], side: int = 6) -> Instances:
    masks = np.zeros((len(corners_yx), 40, 50), bool)
    for mask, (y, x) in zip(masks, corners_yx, strict=True):
        mask[y : y + side, x : x + side] = True
    return instances_of(masks, (1,) * len(corners_yx))


def jittered(nuclei: Instances, rng: np.random.Generator, px: int = 1) -> Instances:
    """Every nucleus moved by itself; what leaves the image is lost."""
    masks = np.pad(masks_of(nuclei), ((0, 0), (px, px), (px, px)))
    height, width = nuclei.shape_yx
    for index, (y, x) in enumerate(rng.integers(0, 2 * px + 1, (len(masks), 2))):
        masks[index, :height, :width] = masks[index, y : y + height, x : x + width]
    return instances_of(masks[:, :height, :width], tuple(nuclei.class_id.tolist()))


def test_the_share_is_worked_by_hand() -> None:
    one = squares((2, 2), (2, 20), (20, 2), (20, 20))
    assert twin_share([one], [one]) == 1
    # moved by (1, -1) and by (0, 3); 4 px off; one side longer, 36 of 42 px
    masks = masks_of(squares((3, 1), (2, 23), (24, 2), (20, 20)))
    masks[3, 20:26, 26] = True
    assert twin_share([one], [instances_of(masks, (1, 1, 1, 1))]) == 1 / 2


def test_the_larger_submission_counts_and_order_and_class_do_not() -> None:
    one, other = squares((2, 2), (2, 20)), squares((2, 20), (2, 2), (20, 30))
    assert twin_share([one], [other]) == twin_share([other], [one]) == pytest.approx(2 / 3)
    assert twin_share([one, one], [one, None]) == 1 / 2
    assert twin_share([one], [None]) == twin_share([None], [None]) == twin_share([one], [squares()]) == 0


def test_a_second_copy_of_each_nucleus_hides_nothing() -> None:
    one = squares((2, 2), (2, 20))
    assert twin_share([one], [squares((2, 2), (2, 2), (2, 20), (2, 20))]) == 1


def test_of_points_the_same_place_counts() -> None:
    def points(*yx: tuple[float, float]) -> Instances:
        return Instances(
            shape_yx=(40, 50),
            class_id=np.ones(len(yx), np.int16),
            source_id=np.arange(len(yx)),
            run_start=np.zeros(0, np.int64),
            run_stop=np.zeros(0, np.int64),
            run_instance=np.zeros(0, np.int32),
            point_yx=np.array(yx),
        )

    assert twin_share([points((1, 2), (8.5, 9))], [points((8.5, 9), (1, 2.5))]) == 1 / 2


@pytest.mark.parametrize("plan", ["few", "common"])
def test_honest_teams_are_told_from_jittered_copies(plan: str) -> None:
    teams = made_field(PLANS[plan], 3).teams
    for left, right in combinations(teams, 2):
        assert twin_share(teams[left], teams[right]) < NEARLY_THE_SAME - 0.05
    rng = np.random.default_rng(1)
    for team in list(teams)[:2]:
        nuclei = [of for of in teams[team] if of is not None]
        kept = [select_instances(of, rng.random(len(of)) < 0.9) for of in nuclei]
        assert twin_share(nuclei, [jittered(of, rng, 2) for of in kept]) > NEARLY_THE_SAME + 0.1
        assert twin_share(nuclei, [dilate_instances(of) for of in nuclei]) < NEARLY_THE_SAME
