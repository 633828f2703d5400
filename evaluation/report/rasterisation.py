"""The rasterised reference as files: label maps, the list of instances, and what happened on the way."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tifffile

from evaluation.challenge import Challenge
from evaluation.intervals import expand
from evaluation.model import Case, Instances, RasterisationReport
from evaluation.report.files import write_atomically
from evaluation.report.metrics_json import as_json, identity


def write_rasterisation(
    folder: Path, challenge: Challenge, cases: Sequence[tuple[Case, Instances, RasterisationReport]]
) -> None:
    """Write ``labels/<group>/<case>.tif``, ``instances.csv`` and ``rasterisation.json``.

    A label map has the numbers of the instances in instances.csv, 1…N. Where instances overlap (rule ``keep``) a
    pixel can hold one number only, so the file gets a page for every layer of instances that do not overlap.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[Any, ...]] = []
    names = ("", *challenge.class_names)
    for case, instances, _ in cases:
        path = folder / "labels" / case.group / f"{case.name}.tif"
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = io.BytesIO()
        tifffile.imwrite(stream, label_layers(instances), compression="zlib", photometric="minisblack", metadata=None)
        write_atomically(path, stream.getvalue())
        rows += [
            (case.name, case.group, index + 1, source, names[class_id], area)
            for index, (source, class_id, area) in enumerate(
                zip(
                    instances.source_id.tolist(),
                    instances.class_id.tolist(),
                    instances.areas_px().tolist(),
                    strict=True,
                )
            )
        ]
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["case", "group", "label", "source_id", "class", "area_px"])
    writer.writerows(rows)
    write_atomically(folder / "instances.csv", table.getvalue())
    document = {"challenge": identity(challenge), "cases": {case.name: asdict(report) for case, _, report in cases}}
    write_atomically(folder / "rasterisation.json", as_json(document))


def label_layers(instances: Instances) -> npt.NDArray[np.int32]:
    """Label maps, int32 (L, H, W); instance n has the number n + 1 in one of them. L is 1 if none overlap.

    An instance goes to the first layer in which it overlaps no other.
    """
    height, width = instances.shape_yx
    layers = [np.zeros(height * width, np.int32)]
    order = np.argsort(instances.run_instance, kind="stable")
    owner = instances.run_instance[order]
    bounds = np.searchsorted(owner, np.arange(len(instances) + 1))
    pixels = expand(instances.run_start[order], instances.run_stop[order])
    pixel_bound = np.concatenate([[0], np.cumsum((instances.run_stop - instances.run_start)[order])])[bounds]
    if len(np.unique(pixels)) == len(pixels):
        layers[0][pixels] = np.repeat(owner + 1, (instances.run_stop - instances.run_start)[order])
        return layers[0].reshape(1, height, width)
    for index in range(len(instances)):
        own = pixels[pixel_bound[index] : pixel_bound[index + 1]]
        layer = next((layer for layer in layers if not layer[own].any()), None)
        if layer is None:
            layer = np.zeros(height * width, np.int32)
            layers.append(layer)
        layer[own] = index + 1
    return np.stack(layers).reshape(-1, height, width)
