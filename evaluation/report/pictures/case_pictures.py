"""The pictures of one case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from evaluation.decoding.tissue import Rgb, Tissue
from evaluation.findings import Finding
from evaluation.findings.errors import InputFault
from evaluation.instances.runs import empty_region
from evaluation.metrics.errors import KINDS, RIGHT, Codes
from evaluation.model import Instances, Int32, Region
from evaluation.report.pictures.drawing import Drawing, DrawnSide, Side, overlay_png
from evaluation.report.pictures.geojson import Facts, overlay_geojson
from evaluation.report.pictures.images import left_out, open_image
from evaluation.report.pictures.judging import JudgedCase
from evaluation.report.pictures.labels import label_tiffs
from evaluation.report.pictures.states import STATES
from evaluation.report.pictures.views import View
from evaluation.results.files import write_atomically

OVERLAY_PX = 4096  # longer side of overlays, at most


class CasePictures:
    """A judged case with its image open. What cannot be shown stands in ``findings``."""

    def __init__(self, judged: JudgedCase, class_names: Sequence[str], image: Path | None) -> None:
        self.judged = judged
        self.case = judged.matched.case
        self.class_names = class_names
        self.image = image
        self.findings: list[Finding] = []
        opened = open_image(self.case, image)
        self.tissue = opened if isinstance(opened, Tissue) else None
        if isinstance(opened, Finding):
            self.findings.append(opened)
        self.drawing = drawing_of(judged)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.tissue is not None:
            self.tissue.close()

    def background(self, view: View) -> Rgb | None:
        """The image in a view; None, and a finding, if it cannot be shown."""
        if self.tissue is None:
            return None
        try:
            return self.tissue.window(view.y0, view.x0, view.y1, view.x1, view.step)
        except InputFault as fault:
            assert self.image is not None
            self.findings.append(left_out(self.case, self.image, fault.findings[0].got))
            return None

    def write(self, folder: Path) -> tuple[Path, ...]:
        """Write ``<case>.png``, ``.geojson`` and label images. Names of cases are checked with the challenge."""
        view = View.whole(self.case.shape_yx, OVERLAY_PX)
        contents = {
            ".png": overlay_png(self.drawing, view, self.background(view)),
            ".geojson": overlay_geojson(self.drawing, self.class_names, facts_of(self.judged)),
            **label_tiffs(self.judged),
        }
        for suffix, content in contents.items():
            write_atomically(folder / f"{self.case.name}{suffix}", content)
        return tuple(folder / f"{self.case.name}{suffix}" for suffix in contents)


def drawing_of(judged: JudgedCase) -> Drawing:
    """All that a picture of a case may show."""
    matched = judged.matched
    reference = matched.reference.instances
    ignored = np.full(len(judged.ignored), STATES.index("ignored"), np.int8)
    return Drawing(
        shape_yx=matched.case.shape_yx,
        sides=(
            DrawnSide("reference", reference, judged.reference_state),
            DrawnSide("prediction", matched.prediction, judged.prediction_state),
            DrawnSide("prediction", judged.ignored, ignored),
        ),
        nuclei=Region(reference.run_start, reference.run_stop),
        ignore=matched.reference.ignore,
        contested=matched.reference.contested or empty_region(),
    )


def facts_of(judged: JudgedCase) -> dict[Side, list[Facts]]:
    """What QuPath shows of each nucleus: its id, its area, the kind of its error, the IoU of its pair.

    Of a nucleus without a pair the largest IoU with one of the other side, if they share pixels.
    """
    matched, table, kinds = judged.matched, judged.matched.table, judged.kinds
    pairs = next(iter(matched.matches.values()))
    with np.errstate(invalid="ignore"):  # points have no pixels
        iou_of_pairs = pairs.intersection_px / pairs.union_px
    sides: tuple[tuple[Side, Instances, Codes, Int32, Int32], ...] = (
        ("reference", matched.reference.instances, kinds.reference, table.reference_index, pairs.reference_index),
        ("prediction", matched.prediction, kinds.prediction, table.prediction_index, pairs.prediction_index),
    )
    found: dict[Side, list[Facts]] = {}
    for side, instances, kind, of_table, of_pairs in sides:
        iou = np.full(len(instances), np.nan)
        np.fmax.at(iou, of_table, table.intersection_px / table.union_px())
        iou[of_pairs] = iou_of_pairs
        columns = (instances.areas_px().tolist(), iou.tolist(), kind.tolist(), instances.source_id.tolist())
        found[side] = [
            Facts(
                measurements={
                    **({"Area px^2": area} if area else {}),
                    **({} if math.isnan(value) else {"IoU": round(value, 6)}),
                },
                metadata={"Error": "none" if code == RIGHT else KINDS[code].replace("_", " "), "Id": str(source)},
            )
            for area, value, code, source in zip(*columns, strict=True)
        ]
    return found
