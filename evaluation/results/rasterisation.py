"""The rasterised reference as files: label maps, the list of instances, and what happened to the outlines."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

from evaluation.challenge import Challenge
from evaluation.findings import fault, quote
from evaluation.findings.errors import WrongUsage
from evaluation.model import Case, Instances, Int64, RasterisationReport
from evaluation.model.intervals import distinct, expand
from evaluation.results.csv_files import csv_table
from evaluation.results.documents import as_json, identity
from evaluation.results.files import write_atomically


def write_rasterisation(
    folder: Path, challenge: Challenge, cases: Sequence[tuple[Case, Instances, RasterisationReport]]
) -> None:
    """Write ``labels/<group>/<case>.tif``, ``instances.csv`` and ``rasterisation.json``.

    A label map has the numbers of the instances in instances.csv, 1…N. Where instances overlap (rule ``keep``) a
    pixel can hold one number only, so the file gets a page for every layer of instances that do not overlap. Raises
    WrongUsage ("too-large") for an image that the memory does not hold.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[Any, ...]] = []
    names = ("", *challenge.class_names)
    for case, instances, _ in cases:
        path = folder / "labels" / case.group / f"{case.name}.tif"
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write_atomically(path, label_pages(instances))
        except MemoryError:
            where, (height, width) = f"case {quote(case.name)}", case.shape_yx
            raise WrongUsage(fault("too-large", where, wording="label-map", height=height, width=width)) from None
        columns = (instances.source_id, instances.class_id, instances.areas_px())
        rows += [
            (case.name, case.group, label, source, names[class_id], area)
            for label, (source, class_id, area) in enumerate(
                zip(*map(np.ndarray.tolist, columns), strict=True), start=1
            )
        ]
    header = ["case", "group", "label", "source_id", "class", "area_px"]
    write_atomically(folder / "instances.csv", csv_table(header, rows))
    document = {"challenge": identity(challenge), "cases": {case.name: asdict(report) for case, _, report in cases}}
    write_atomically(folder / "rasterisation.json", as_json(document))


def label_pages(instances: Instances) -> bytes:
    """A TIFF with a page of (H, W) px for each layer, uint16 or, for more than 65,535 instances, int32.

    Instance n has the number n + 1 in one of them. Only one page is in memory at a time.
    """
    dtype = np.uint16 if len(instances) <= np.iinfo(np.uint16).max else np.int32
    layer_of_run = layers_of(instances)[instances.run_instance]
    height, width = instances.shape_yx
    stream = io.BytesIO()
    with tifffile.TiffWriter(stream) as file:
        for layer in range(int(layer_of_run.max(initial=0)) + 1):
            page = np.zeros(height * width, dtype)
            runs = np.flatnonzero(layer_of_run == layer)
            starts, stops = instances.run_start[runs].tolist(), instances.run_stop[runs].tolist()
            for start, stop, index in zip(starts, stops, instances.run_instance[runs].tolist(), strict=True):
                page[start:stop] = index + 1
            file.write(
                page.reshape(height, width), compression="zlib", photometric="minisblack", metadata=None, software=False
            )
    return stream.getvalue()


def layers_of(instances: Instances) -> Int64:
    """The layer of each instance, int64 (N,): the first in which it overlaps no instance before it.

    The cost goes with the runs and with the pairs of them that overlap, not with the pixels.
    """
    following = np.arange(1, len(instances.run_start) + 1)
    beyond = np.searchsorted(instances.run_start, instances.run_stop)  # the first run that starts behind each one
    other = instances.run_instance[expand(following, beyond)].astype(np.int64)
    owner = np.repeat(instances.run_instance, beyond - following)
    pairs = distinct(np.maximum(owner, other) * len(instances) + np.minimum(owner, other))
    later, before = np.divmod(pairs, max(len(instances), 1))
    edges = np.searchsorted(later, np.arange(len(instances) + 1))
    layer = np.zeros(len(instances), np.int64)
    for index in distinct(later).tolist():
        taken = set(layer[before[edges[index] : edges[index + 1]]].tolist())
        layer[index] = next(free for free in range(len(taken) + 1) if free not in taken)
    return layer
