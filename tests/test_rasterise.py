"""Outlines become pixels, and pixels outlines."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import shapely
from formats import read_part
from skimage.draw import polygon
from test_outlines import AS_IS, THIN, by_source, outlines_of, polygon_pixels, rasterised, report_of
from test_overlap_rules import AS_DRAWN, RULES, mask_of

from evaluation.files.decoding.annotations import library_faults
from evaluation.findings.errors import InputFault
from evaluation.scoring.read import count_self_intersecting
from nuclei_metrics.instances.outlines import trace_outlines
from nuclei_metrics.instances.prepare import prepare_reference
from nuclei_metrics.instances.rasterise import rasterise_outlines
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.model import Outlines

REAL = {
    "monusac/A9K0_1.xml": (1153, 1307),
    "monusac/A9K0_3.xml": (185, 497),
    **{f"monuseg/{name}.xml.gz": (1000, 1000) for name in ("TCGA-21-5784-01Z-00-DX1", "TCGA-2Z-A9J9-01A-01-TS1",
      "TCGA-44-2665-01B-06-BS6", "TCGA-50-5931-01Z-00-DX1", "TCGA-A6-6782-01A-01-BS1", "TCGA-CU-A0YN-01A-02-BSB",
      "TCGA-E2-A1B5-01Z-00-DX1", "TCGA-GL-6846-01A-01-BS1", "TCGA-ZF-A9R5-01A-01-TS1")},
}  # fmt: skip


def read(folder: Path, name: str) -> Outlines:
    names = {"epithelial": 1, "lymphocyte": 2, "neutrophil": 3, "macrophage": 4, "ambiguous": -1, "": 1}
    return read_part((folder / name).read_bytes(), format="aperio_xml", classes=names)


# --- the same pixels as scikit-image ---------------------------------------------------------------------------------


@pytest.mark.parametrize("vertices", ["exact", "truncate"])
@pytest.mark.parametrize("name", REAL)
def test_real_outlines_have_the_pixels_of_skimage(shared_data, name, vertices):
    outlines, shape = read(shared_data, name), REAL[name]
    found = by_source(rasterise_outlines(outlines, shape, **{**AS_IS, "vertices": vertices}))
    points = np.trunc(outlines.points_xy) if vertices == "truncate" else outlines.points_xy
    for index, (begin, end) in enumerate(pairwise(outlines.ring_start)):
        assert found.get(outlines.source_id[index], []) == polygon_pixels(points[begin:end], shape)


def test_vanished_outlines_are_refused_by_name_and_number():
    outlines = outlines_of([[(0, 0), (2, 0), (0, 2)], THIN, []])
    with pytest.raises(InputFault) as fault, library_faults():
        rasterise_outlines(outlines, (4, 5), **{**AS_IS, "vanished": "error"}, where="'a.xml'")
    assert str(fault.value).startswith("[vanished-outline] 'a.xml', outline '1/1' and 1 more: no pixel centre inside;")


def test_outlines_that_cross_endless_rows_are_refused():
    zigzag = [(i, 3e4 * (i % 2)) for i in range(12_000)]
    with pytest.raises(InputFault, match="too-complex-outlines"), library_faults():
        rasterise_outlines(outlines_of([zigzag]), (30_000, 12_000), **AS_IS)


def test_self_intersections_are_counted_only_if_asked_for():
    outlines = outlines_of([[(0, 0), (6, 4), (6, 0), (0, 4)], [(0, 0), (3, 0), (0, 3)], [(0, 0), (1, 1)], []])
    assert report_of(outlines, (7, 9)).outlines_self_intersecting is None
    assert report_of(outlines, (7, 9), count_crossed=count_self_intersecting).outlines_self_intersecting == 1


@pytest.mark.parametrize("name, facts", [
    ("monusac/A9K0_1.xml", {"outlines": 321, "contested_px_by_cover": {2: 592}, "outlines_self_intersecting": 76}),
    ("monusac/A9K0_3.xml", {"outlines": 5, "contested_px": 0}),
    ("monuseg/TCGA-50-5931-01Z-00-DX1.xml.gz", {"outlines": 445, "contested_px": 10_169,
      "outlines_vanished": ("1/180",)}),
    ("monuseg/TCGA-E2-A1B5-01Z-00-DX1.xml.gz", {"outlines": 329, "contested_px": 1_762,
      "outlines_vanished": ("1/460",)}),
    ("monuseg/TCGA-2Z-A9J9-01A-01-TS1.xml.gz", {"vertices_outside": 49, "outlines_outside": 5}),
])  # fmt: skip
def test_the_report_holds_the_measured_facts(shared_data, name, facts):
    report = report_of(read(shared_data, name), REAL[name], count_crossed=count_self_intersecting)
    assert {key: getattr(report, key) for key in facts} == facts


def test_every_monuseg_file_has_contested_pixels_and_none_is_under_four_outlines(shared_data):
    for name in [name for name in REAL if name.startswith("monuseg")]:
        report = report_of(read(shared_data, name), REAL[name])
        assert report.contested_px > 0
        assert max(report.contested_px_by_cover) <= 3


@pytest.mark.parametrize("folder", ["stardist", "neurips_cellseg"])
def test_real_label_maps_come_back(shared_data, folder):
    import tifffile

    paths = sorted(path for path in (shared_data / folder).rglob("*.tif*"))
    maps = [tifffile.imread(path) for path in paths]
    maps = [labels for labels in maps if labels.ndim == 2 and labels.dtype.kind in "iu"]
    assert maps
    for labels in maps:
        instances = instances_from_labels(labels)
        outlines = trace_outlines(instances)
        ring = np.repeat(np.arange(len(outlines.ring_instance)), np.diff(outlines.ring_start))
        area = shapely.area(shapely.polygons(shapely.linearrings(outlines.points_xy, indices=ring)))
        signed = np.where(outlines.ring_is_hole, -area, area)
        assert np.array_equal(np.bincount(outlines.ring_instance, signed, len(instances)), instances.areas_px())
        found = rasterised(outlines, labels.shape)
        for name in ("run_start", "run_stop", "run_instance"):
            assert np.array_equal(getattr(found, name), getattr(instances, name))


# --- two label maps ---------------------------------------------------------------------------------------------------


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
