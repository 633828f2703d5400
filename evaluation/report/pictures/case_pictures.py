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
from evaluation.report.illustrated import STATES, CasePicture, NucleusPicture
from evaluation.report.page import Picture
from evaluation.report.pictures.captions import Named, caption_of, case_caption
from evaluation.report.pictures.drawing import Drawing, DrawnSide, Side, overlay_png
from evaluation.report.pictures.geojson import Facts, overlay_geojson
from evaluation.report.pictures.images import left_out, open_image
from evaluation.report.pictures.judging import NONE, JudgedCase, Mistake
from evaluation.report.pictures.views import View
from evaluation.results.files import write_atomically

NUCLEUS_PX = 256  # side of the picture of a nucleus
CASE_PX = 660  # longer side of the picture of a case, at most: ten of tissue fit into a page of 10 MB
OVERLAY_PX = 4096  # the same of the files that are written
POINT_PX = 20  # what is shown around a point on each side


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
        """Write ``<case>.png`` and ``<case>.geojson``. Names of cases are checked with the challenge."""
        view = View.whole(self.case.shape_yx, OVERLAY_PX, up=1)
        contents = {
            ".png": overlay_png(self.drawing, view, self.background(view)),
            ".geojson": overlay_geojson(self.drawing, self.class_names, facts_of(self.judged)),
        }
        for suffix, content in contents.items():
            write_atomically(folder / f"{self.case.name}{suffix}", content)
        return tuple(folder / f"{self.case.name}{suffix}" for suffix in contents)

    def whole(self, *, submitted: bool) -> CasePicture:
        """The picture of the case."""
        view = View.whole(self.case.shape_yx, CASE_PX)
        background = self.background(view)
        states = self.judged.states()
        caption = case_caption(self.case, states, background is not None, submitted=submitted)
        png = overlay_png(self.drawing, view, background)
        picture = Picture(png, f"Overlay of both sides. {caption}", caption, view.shape_yx[1])
        return CasePicture(self.case.name, states, background is not None, picture)

    def nucleus(self, mistake: Mistake) -> NucleusPicture:
        """The picture of a mistake."""
        sides: dict[Side, Instances] = {
            "reference": self.judged.matched.reference.instances,
            "prediction": self.judged.matched.prediction,
        }
        places: dict[Side, int] = {"reference": mistake.reference, "prediction": mistake.prediction}
        subject = {side: place for side, place in places.items() if place != NONE}
        boxes = np.array([box_of(sides[side], place) for side, place in subject.items()])
        (y0, x0), (y1, x1) = boxes[:, :2].min(axis=0).tolist(), boxes[:, 2:].max(axis=0).tolist()
        view = View.around((y0, x0, y1, x1), self.case.shape_yx, NUCLEUS_PX)
        named = {side: self.named(sides[side], place) for side, place in subject.items()}
        centre_xy = ((x0 + x1) / 2, (y0 + y1) / 2)
        reference, prediction = named.get("reference"), named.get("prediction")
        caption = caption_of(mistake.kind, self.case, centre_xy, reference, prediction, mistake.iou)
        png = overlay_png(self.drawing, view, self.background(view), subject=subject)
        first = reference or prediction
        assert first is not None
        return NucleusPicture(
            case=self.case.name,
            kind=mistake.kind,
            loss_px=mistake.loss_px,
            area_px=first.area_px,
            iou=mistake.iou,
            reference_id=reference.source_id if reference else "",
            prediction_id=prediction.source_id if prediction else "",
            reference_class=reference.class_name if reference else "",
            prediction_class=prediction.class_name if prediction else "",
            centre_xy=centre_xy,
            picture=Picture(png, caption, caption, view.shape_yx[1]),
        )

    def named(self, instances: Instances, index: int) -> Named:
        class_id = int(instances.class_id[index])
        area = int((instances.run_stop - instances.run_start)[instances.run_instance == index].sum())
        return Named(str(instances.source_id[index]), self.class_names[class_id - 1] if class_id > 0 else "", area)


def drawing_of(judged: JudgedCase) -> Drawing:
    """All that may be seen of a case."""
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


def box_of(instances: Instances, index: int) -> tuple[int, int, int, int]:
    """Rows y0 to y1 - 1 and columns x0 to x1 - 1 that a nucleus lies in, as y0, x0, y1, x1."""
    if instances.point_yx is not None:
        y, x = np.floor(instances.point_yx[index]).astype(int).tolist()
        return y - POINT_PX, x - POINT_PX, y + POINT_PX, x + POINT_PX
    runs = instances.run_instance == index
    width = instances.shape_yx[1]
    start, stop = instances.run_start[runs], instances.run_stop[runs]
    row = start // width
    return int(row[0]), int((start - row * width).min()), int(row[-1]) + 1, int((stop - row * width).max())


def facts_of(judged: JudgedCase) -> dict[Side, list[Facts]]:
    """What QuPath tells of each nucleus: its id, its area, the kind of its error, its IoU with its partner."""
    matched, mistakes = judged.matched, judged.mistakes
    pairs = next(iter(matched.matches.values()))
    iou_of_pairs = np.divide(
        pairs.intersection_px, pairs.union_px, where=pairs.union_px > 0, out=np.full(len(pairs), np.nan)
    )
    sides: tuple[tuple[Side, Instances, Codes, Int32, Int32], ...] = (
        ("reference", matched.reference.instances, judged.kinds.reference, mistakes.reference, pairs.reference_index),
        ("prediction", matched.prediction, judged.kinds.prediction, mistakes.prediction, pairs.prediction_index),
    )
    found: dict[Side, list[Facts]] = {}
    for side, instances, kind, of_mistakes, of_pairs in sides:
        iou = np.full(len(instances) + 1, np.nan)  # the last one stands for no nucleus
        iou[of_mistakes] = mistakes.iou
        iou[of_pairs] = iou_of_pairs
        columns = (instances.areas_px().tolist(), iou[:-1].tolist(), kind.tolist(), instances.source_id.tolist())
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
