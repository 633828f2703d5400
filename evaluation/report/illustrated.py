"""Pictures of a scored submission, and what is known of what they show. ``evaluation.report.pictures`` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from evaluation.findings import Finding
from evaluation.report.page import Colour, Picture

State = Literal["matched", "missed", "spurious", "wrong_class", "ignored", "contested"]
STATES: tuple[State, ...] = get_args(State)

# Okabe and Ito, "Color Universal Design" (2008), but for wrong_class, where theirs is the colour of stained tissue.
# Pictures keep them on light and on dark pages.
STATE_COLOURS: Mapping[State, str] = {
    "matched": "#009e73",
    "missed": "#e69f00",
    "spurious": "#56b4e9",
    "wrong_class": "#5b2a86",
    "ignored": "#999999",
    "contested": "#f0e442",
}
LEGEND: tuple[tuple[Colour, str], ...] = (
    ("matched", "matched"),
    ("missed", "missed: in the reference, without a match"),
    ("spurious", "spurious: predicted, without a match"),
    ("wrong_class", "matched, but of another class"),
    ("ignored", "not scored: ignore region, and predictions that left because of it"),
    ("contested", "pixels inside several outlines of the reference"),
)
LINES = "Solid lines (of points: rings) are the reference, broken lines (crosses) the prediction."


@dataclass(frozen=True, slots=True)
class NucleusPicture:
    """One of the worst nuclei.

    kind       of error, as in ``metrics.errors.KINDS``; "right": matched, but its outline differs
    loss_px    pixels that it costs; 0 for points
    area_px    of the reference nucleus, of the prediction if there is none
    iou        of the two, None without a partner or without pixels
    reference_id, prediction_id, reference_class, prediction_class   "" where there is none
    centre_xy  px of the image
    """

    case: str
    kind: str
    loss_px: int
    area_px: int
    iou: float | None
    reference_id: str
    prediction_id: str
    reference_class: str
    prediction_class: str
    centre_xy: tuple[float, float]
    picture: Picture


@dataclass(frozen=True, slots=True)
class CasePicture:
    """A whole case; ``states`` counts the nuclei, matched and wrong_class as pairs."""

    case: str
    states: Mapping[State, int]
    has_tissue: bool
    picture: Picture


@dataclass(frozen=True, slots=True)
class Illustration:
    """Pictures of a submission.

    nuclei      the worst ones, the worst first
    cases       in the order in which they were asked for
    lines       what kinds of lines mean, in a sentence
    definition  how the worst nuclei were chosen, in some sentences
    files       overlays that were written
    findings    images that are not shown, and why
    """

    nuclei: tuple[NucleusPicture, ...] = ()
    cases: tuple[CasePicture, ...] = ()
    legend: tuple[tuple[Colour, str], ...] = LEGEND
    lines: str = LINES
    definition: str = ""
    files: tuple[Path, ...] = ()
    findings: tuple[Finding, ...] = ()
