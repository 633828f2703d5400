"""Ignore regions: instances in a region that is not scored are clipped or left out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from evaluation.instances.runs import select_instances, subtract_region
from evaluation.model import Bool, IgnorePolicy, Instances, Int64, Region


def apply_ignore_region(
    instances: Instances, region: Region, policy: IgnorePolicy, fraction: float | None = None
) -> Instances:
    """The instances that are still scored, in the same order.

    ``clip``              the pixels in the region leave, on both sides; instances without pixels leave with them
    ``drop_overlapping``  instances with more than ``fraction`` of their pixels in the region leave; the others keep
                          all their pixels
    ``drop_centroid``     instances whose centroid pixel lies in the region leave; the others keep all their pixels
    ``drop_unmatched``    as ``clip``; what matches nothing is known later

    Points that lie in a pixel of the region leave under every policy. It acts on both sides alike. ``fraction`` is the
    decimal number as it is written (0.29 of 100 px is exactly 29 px), taken to nine decimals. An empty region changes
    nothing. Raises ValueError for ``drop_overlapping`` without it.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> instances = instances_from_labels(np.array([[1, 1, 2, 0]]))
    >>> region = Region(np.array([1]), np.array([3]))
    >>> apply_ignore_region(instances, region, "clip").areas_px().tolist()
    [1]
    >>> apply_ignore_region(instances, region, "drop_overlapping", 0.5).areas_px().tolist()
    [2]
    """
    if len(region.run_start) == 0:
        return instances
    if instances.point_yx is not None:
        return select_instances(instances, ~pixels_in_region(points_as_pixels(instances), instances, region))
    if policy in ("clip", "drop_unmatched"):
        instances = subtract_region(instances, region)
        dropped = instances.areas_px() == 0
    elif policy == "drop_overlapping":
        if fraction is None:
            raise ValueError("the policy 'drop_overlapping' needs a fraction")
        dropped = more_than_fraction_inside(instances, region, fraction)
    else:
        dropped = centroid_inside(instances, region)
    return select_instances(instances, ~dropped)


def more_than_fraction_inside(instances: Instances, region: Region, fraction: float) -> Bool:
    """Whether ``inside / area > fraction``, compared in whole numbers, bool (N,)."""
    exact = Fraction(str(fraction)).limit_denominator(10**9)
    return np.asarray(region.pixels_of(instances) * exact.denominator > instances.areas_px() * exact.numerator)


def centroid_inside(instances: Instances, region: Region) -> Bool:
    """Whether the pixel that holds the centroid lies in the region, bool (N,); False for instances without pixels."""
    return pixels_in_region(instances.centroid_pixels_yx(), instances, region)


def points_as_pixels(instances: Instances) -> Int64:
    """The pixel that each point lies in, int64 (N, 2); -1 outside the image."""
    pixel = np.floor(instances.centroids_yx() + 0.5)
    outside = ((pixel < 0) | (pixel >= instances.shape_yx)).any(axis=1)
    pixel[outside] = -1
    return pixel.astype(np.int64)


def pixels_in_region(pixel_yx: Int64, instances: Instances, region: Region) -> Bool:
    """Whether each pixel, int64 (N, 2), lies in the region, bool (N,); False for -1."""
    flat = pixel_yx[:, 0] * instances.shape_yx[1] + pixel_yx[:, 1]
    run = np.searchsorted(region.run_start, flat, "right") - 1
    return np.asarray((run >= 0) & (pixel_yx[:, 0] >= 0) & (flat < region.run_stop[run]))
