"""A page with a part of every kind, of made numbers; names may be given, as strangers would."""

from __future__ import annotations

import numpy as np

from evaluation.report.figures import difference_figure, series_colour
from evaluation.report.nuclei import NucleusTable, TeamNuclei, browser_section
from evaluation.report.page import Axis, Cell, Column, Dot, Figure, Page, Section, Series, Table, Text, Tile, Tiles

PATIENTS = tuple(f"TCGA-{letters}" for letters in ("2Z-A9JG", "49-4488", "50-5931", "5P-A9K0", "69-7760", "A2-A0ES"))
CLASSES = ("Epithelial", "Lymphocyte", "Neutrophil", "Macrophage")
F1 = (0.8125, 0.75, 0.912345, 0.641026, 0.875, 0.7)
PQ = (0.6, 0.55, 0.7, None, 0.65, 0.5)


def made_page(patients: tuple[str, ...] = PATIENTS, *, title: str = "Nuclei in four classes: team Aurora") -> Page:
    """All blocks; ``patients`` are six names."""
    anchors = [f"patient-{number}" for number in range(len(patients))]
    facts = {"Challenge": "monusac2020", "Version": "3", "Hash": "sha256:5f1b0c9de8a7", "Scored by": "nuclei 0.1.0"}
    parts = (overview(), distribution(patients, anchors), classes(), compared(patients), nuclei(patients), rules())
    subtitle = "One submission, scored for 6 patients and 25 images"
    return Page(title, subtitle, tuple(facts.items()), parts, teams=patients)


def overview() -> Section:
    tiles = (
        Tile("Detection: F1", 0.781895, "95%: 0.731 to 0.829 · place 2 of 14", "detection.f1.group_mean"),
        Tile("Classification: balanced accuracy", 0.9123, "95%: 0.880 to 0.941 · place 1 of 14", tone="good"),
        Tile("Segmentation: IoU", 0.71, "95%: 0.694 to 0.727 · place 6 of 14"),
        Tile("AUROC", None, "no class probabilities were submitted", tone="warning"),
        Tile("Nuclei", 15498, "of the reference"),
    )
    texts = ("Panoptic quality multiplies the skills, so that it hides which of them is missing.", "See below.")
    warning = Text(("Two images have no prediction at all. They count as empty.",), "warning")
    lead = "Means over patients. An interval says how far another draw of patients would move the number."
    return Section("overview", "Three skills, side by side", (Tiles(tiles), warning, Text(texts)), lead)


def distribution(patients: tuple[str, ...], anchors: list[str]) -> Section:
    names, of_each = ("detection F1", "Panoptic quality"), list(zip(patients, anchors, F1, PQ, strict=True))
    marks = tuple(Dot(names[0], f1, name, anchor) for name, anchor, f1, _ in of_each)
    outlines = tuple(Dot(names[1], pq, name) for name, _, _, pq in of_each if pq is not None)
    dots = tuple(Dot(f1, pq, name, anchor) for name, anchor, f1, pq in of_each if pq is not None)
    rows = []
    for index, (name, anchor, f1, pq) in enumerate(of_each):
        bar, apart = Cell(f1, shade=f1, bar=(f1 - 0.1, f1, f1 + 0.05)), "good" if f1 > 0.8 else "bad"
        rows.append((Cell(name, name=anchor), 100 * index + 3, bar, pq, Cell(f1 - 0.8, tone=apart)))
    harmonic, mean = "Harmonic mean of precision and recall of detection.", "Panoptic quality, a mean over classes."
    columns = (Column("Patient"), Column("Nuclei", 0), Column("F1", 3, harmonic), Column("PQ", 3, mean))
    note, table = "PQ of a patient without nuclei is undefined.", "Scores of each patient"
    boxes = [Series(names[0], marks, kind="boxes"), Series(names[1], outlines, "@2", "boxes")]
    median, five = "Median F1 is 0.781; the lowest patient has 0.641.", "Five patients; PQ of one is undefined."
    points, unit = [Series("patients", dots)], (0, 1)
    blocks = (
        Figure("f1-by-patient", "F1 and PQ of each patient", median, boxes, y=Axis("score", unit)),
        Figure("f1-and-pq", "F1 against PQ", five, points, x=Axis("F1", unit), y=Axis("PQ", unit)),
        Table("table-of-patients", table, (*columns, Column("To the median", 3)), tuple(rows), note=note),
    )
    return Section("patients", "Patient by patient", blocks, "Each point is a patient; a click leads to its row.")


def classes() -> Section:
    counts = ((812, 31, 4, 9, 120), (25, 944, 12, 3, 88), (1, 22, 87, 6, 31), (14, 2, 5, 101, 40))
    columns = (Column("reference"), *(Column(name, 2) for name in (*CLASSES, "none")))
    rows = []
    for name, row in zip(CLASSES, counts, strict=True):
        rows.append((name, *(Cell(value / sum(row), f"{value}", shade=value / sum(row)) for value in row)))
    thresholds = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))
    lines = []
    for index, name in enumerate(CLASSES):
        dots = tuple(Dot(at, round(max(0.95 - (at - 0.4) ** 2 * (2 + index), 0), 6)) for at in thresholds)
        lines.append(Series(name, dots, series_colour(index), "lines"))
    places = enumerate(CLASSES)
    missed = tuple(Dot(name, 10 + 7 * place, low=8 + 7 * place, high=14 + 7 * place) for place, name in places)
    spurious = tuple(Dot(name, 30 - 5 * place) for place, name in enumerate(CLASSES))
    bars = [Series("missed", missed, "@missed"), Series("spurious", spurious, "@spurious")]
    falls, often = "F1 falls with the threshold.", "Epithelial nuclei are often spurious."
    blocks = (
        Table("confusion", "Confusion of classes", columns, tuple(rows), sortable=False),
        Figure("by-threshold", "F1 by IoU asked for", falls, lines, x=Axis("IoU at least"), y=Axis("F1")),
        Figure("errors", "What was missed and what is spurious", often, bars, y=Axis("nuclei")),
    )
    return Section("classes", "Which classes are told apart", blocks)


def compared(teams: tuple[str, ...]) -> Section:
    shares = [{1: 0.7, 2: 0.2, 3: 0.1}, {1: 0.2, 2: 0.6, 3: 0.1, 4: 0.1}, {1: 0.1, 2: 0.1, 3: 0.5, 4: 0.2, 5: 0.1}]
    means = dict(zip(teams, (1.2, 1.7, 3.5, 3.75, 5.0, 5.85), strict=True))
    told = "Two pairs of teams do not differ significantly."
    diagram = difference_figure("critical", "Critical difference", told, means, [teams[:2], teams[2:4]], 1.4)
    dots = [
        Dot(team, rank, size=share)
        for team, ranks in zip(teams[:3], shares, strict=True)
        for rank, share in ranks.items()
    ]
    first = "The first stays first in 70%."
    series = [Series("samples", dots, kind="discs")]
    discs = Figure("places", "Ranks in 1,000 samples", first, series, y=Axis("rank", (0.5, 5.5)), horizontal=True)
    return Section("stability", "How stable the ranks are", (discs, diagram), folded=True)


def nuclei(names: tuple[str, ...]) -> Section:
    """Four nuclei of two cases: matched, of the wrong class, missed and spurious; without tissue."""
    table = NucleusTable(
        outcome=np.array([0, 0, 1, 2]),
        classes=CLASSES,
        reference_class=np.array([0, 1, 2, -1]),
        reference_area=np.array([100, 80, 60, np.nan]),
        measures={"iou": np.array([0.8, 0.6, np.nan, np.nan])},
        cases=names[:2],
        case=np.array([0, 0, 1, 1]),
        prediction_class=np.array([0, 0, -1, 3]),
        prediction_area=np.array([95, 85, np.nan, 40]),
        reference_id=np.array(["1", "2", names[0], ""]),
        prediction_id=np.array(["1", "2", "", "3"]),
    )
    (section,) = browser_section(
        [TeamNuclei("", table, {})], {"name": "iou_above", "rule": "iou_above", "threshold": 0.5}
    )
    return section


def rules() -> Section:
    rows = tuple((f"rule {index}", "a text of the rules " * 3, index) for index in range(40))
    columns = (Column("Rule"), Column("In words"), Column("Number", 0))
    return Section(
        "rules", "The rules that were applied", (Table("table-of-rules", "All rules", columns, rows),), folded=True
    )
