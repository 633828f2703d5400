"""What a picture shows, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evaluation.model import Case
from evaluation.report.illustrated import State

TITLES = {
    "right": "Matched, but with another outline",
    "missed": "Missed",
    "spurious": "Spurious",
    "wrong_class": "Wrong class",
    "poor_outline": "Not matched: the outlines differ too much",
    "split": "Split: one nucleus, several predictions",
    "merged": "Merged: several nuclei, one prediction",
}


@dataclass(frozen=True, slots=True)
class Named:
    """A nucleus as its file names it; areas are 0 for points."""

    source_id: str
    class_name: str
    area_px: int

    def words(self) -> str:
        words = [self.class_name or "without a class", *([f"{self.area_px:,} px"] if self.area_px else [])]
        return ", ".join(words)


def caption_of(
    kind: str,
    case: Case,
    centre_xy: tuple[float, float],
    reference: Named | None,
    prediction: Named | None,
    iou: float | None,
) -> str:
    """A sentence or two on one of the worst nuclei."""
    facts = [
        f"{side}: {named.words()}" for side, named in (("reference", reference), ("prediction", prediction)) if named
    ]
    if iou is not None:
        facts.append(f"IoU {iou:.2f}")
    words = "; ".join(facts)
    place = f"Case {case.name}, x {centre_xy[0]:.0f}, y {centre_xy[1]:.0f} px."
    return f"{TITLES[kind]}. {words[:1].upper()}{words[1:]}. {place}"


def case_caption(case: Case, states: Mapping[State, int], has_tissue: bool, *, submitted: bool) -> str:
    """What became of the nuclei of a case."""
    words: list[tuple[State, str]] = [
        ("matched", "matched"),
        ("wrong_class", "of another class"),
        ("missed", "missed"),
        ("spurious", "spurious"),
        ("ignored", "ignored"),
    ]
    numbers = ", ".join(f"{states[state]:,} {word}" for state, word in words if states[state])
    what = numbers or "no nuclei"
    if not submitted:
        what += "; not submitted"
    return f"Case {case.name}: {what}.{'' if has_tissue else ' No image: plain background.'}"
