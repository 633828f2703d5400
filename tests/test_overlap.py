"""Pixels that several nuclei claim, and regions that do not count."""

from __future__ import annotations

import numpy as np
import pytest
from formats import read_part
from skimage.draw import polygon
from test_overlap_rules import AS_DRAWN, RULES, mask_of

from nuclei_metrics.instances.prepare import prepare_reference

# --- a real file -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vertices", ["exact", "truncate"])
@pytest.mark.parametrize("rule", RULES)
def test_label_maps_of_a_real_file_are_those_painted_with_skimage(shared_data, rule, vertices):
    data = (shared_data / "monuseg" / "TCGA-50-5931-01Z-00-DX1.xml.gz").read_bytes()
    outlines = read_part(data, format="aperio_xml", classes={"": 1})
    rules = {**AS_DRAWN, "vertices": vertices, "overlap": rule, "ignore_policy": "clip"}
    prepared = prepare_reference([outlines], (1000, 1000), **rules)
    points = np.trunc(outlines.points_xy) if vertices == "truncate" else outlines.points_xy
    rings = np.split(points, outlines.ring_start[1:-1])
    pixels = [polygon(ring[:, 1], ring[:, 0], (1000, 1000)) for ring in rings]
    order = {"first": range(len(rings))[::-1], "smallest": sorted(range(len(rings)), key=lambda k: -len(pixels[k][0]))}
    canvas, cover = np.zeros((1000, 1000), int), np.zeros((1000, 1000), int)
    for index in order.get(rule, range(len(rings))):
        canvas[pixels[index]] = index + 1
        cover[pixels[index]] += 1
    if rule == "ignore":
        canvas[cover > 1] = 0
        assert np.array_equal(mask_of(prepared.ignore, (1000, 1000)), cover > 1)
    label = {source: index + 1 for index, source in enumerate(outlines.source_id)}
    if rule == "keep":
        assert prepared.instances.areas_px().tolist() == [len(r) for r, _ in pixels if len(r)]
    else:
        drawn = np.zeros(1_000_000, int)
        instances = prepared.instances
        for start, stop, index in zip(instances.run_start, instances.run_stop, instances.run_instance, strict=True):
            drawn[start:stop] = label[instances.source_id[index]]
        assert np.array_equal(drawn.reshape(1000, 1000), canvas)
    assert (cover > 1).sum() == prepared.report.contested_px
