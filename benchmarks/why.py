"""The four pictures of docs/why.md, and the numbers of its experiments, from the demo.

    python -m benchmarks.why --write docs/pictures     # writes why_*.svg

tests/test_why.py draws them again and compares. The second and the third are experiments with the reference of the demo
as a prediction: nuclei are left out, called by another class, or eroded.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evaluation import Challenge, score_instances, score_submission
from evaluation.board.sensitivity import study_sensitivity
from evaluation.folders.demo import DemoPaths, write_demo
from evaluation.report.figures import series_colour, svg_of
from evaluation.report.page import Axis, Dot, Figure, Series
from evaluation.scoring.read import read_reference
from nuclei_metrics.instances.runs import erode_instances, select_instances
from nuclei_metrics.model import Instances

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # of the nuclei that an experiment changes
PIXELS = (0, 1, 2, 3, 4)  # of an erosion
Numbers = Mapping[str, Mapping[str, float]]
STYLE = Path(__file__).parent.parent / "evaluation/report/templates/style.css"


# --- experiments ------------------------------------------------------------------------------------------------------


def _left_out(nuclei: Instances, chosen: np.ndarray) -> Instances:
    return select_instances(nuclei, ~chosen)


def _called_otherwise(nuclei: Instances, chosen: np.ndarray) -> Instances:
    """Call the chosen nuclei by the next class."""
    classes = int(nuclei.class_id.max(initial=1))
    other = np.where(nuclei.class_id == classes, 1, nuclei.class_id + 1)
    return replace(nuclei, class_id=np.where(chosen, other, nuclei.class_id).astype(np.int16))


def _eroded(nuclei: Instances, px: int) -> Instances:
    return erode_instances(nuclei, px, border="open") if px else nuclei


def experiments(demo: DemoPaths) -> Numbers:
    """PQ of the reference against itself, mean over patients, by what is done to a share of it, or to all of it.

    "missed 0.4" has no prediction for 40% of the nuclei, "wrong class 0.4" another class for them; "eroded 2" has all
    nuclei smaller by two pixels.
    """
    challenge = Challenge.load(demo.challenge)
    sides = {case.name: read_reference(challenge, demo.challenge, case, None).instances for case in challenge.cases}
    groups = {case.name: case.group for case in challenge.cases}
    rng = np.random.default_rng(1)
    order = {name: rng.permutation(len(nuclei)) / max(len(nuclei), 1) for name, nuclei in sides.items()}

    def scored(change: Callable[..., Instances]) -> dict[str, float]:
        pairs = {name: (nuclei, change(name, nuclei)) for name, nuclei in sides.items()}
        result = score_instances(challenge, pairs, groups=groups)
        paths = ("panoptic.pq", "panoptic.rq", "panoptic.sq", "detection.f1")
        return {path: result.value(f"{path}.group_mean") or 0.0 for path in paths}

    found = {}
    for what, change in (("missed", _left_out), ("wrong class", _called_otherwise)):
        for share in SHARES:
            found[f"{what} {share}"] = scored(lambda name, nuclei, s=share, c=change: c(nuclei, order[name] < s))
    for px in PIXELS:
        found[f"eroded {px}"] = scored(lambda _, nuclei, by=px: _eroded(nuclei, by))
    return found


def removed_area(demo: DemoPaths, px: int) -> float:
    """The share of the nuclei's pixels that an erosion takes."""
    challenge = Challenge.load(demo.challenge)
    sides = [read_reference(challenge, demo.challenge, case, None).instances for case in challenge.cases]
    before, after = (
        sum(int(nuclei.areas_px().sum()) for nuclei in all_of)
        for all_of in (sides, [erode_instances(nuclei, px, border="open") for nuclei in sides])
    )
    return 1 - after / before


# --- pictures ---------------------------------------------------------------------------------------------------------

SKILLS = {
    "panoptic.pq": "PQ",
    "detection.f1": "F1 of detection",
    "classification.balanced_accuracy": "balanced accuracy",
    "segmentation.iou": "IoU of matched nuclei",
}
AGGREGATIONS = {"pooled": "all pooled", "group_mean": "mean over patients", "case_mean": "mean over images"}


def _team_lines(anchor: str, caption: str, values: Mapping[str, Mapping[str, float]], axis: str) -> Figure:
    """Draw a line of marks for each team."""
    series = [
        Series(team, [Dot(name, value) for name, value in of_team.items()], series_colour(index), "lines")
        for index, (team, of_team) in enumerate(values.items())
    ]
    return Figure(anchor, caption, caption, series, y=Axis(axis))


def pictures(demo: DemoPaths) -> dict[str, Figure]:
    """The figures by the names of their files."""
    results = {
        team: score_submission(demo.challenge, path, workers=1) for team, path in sorted(demo.submissions.items())
    }

    def values(paths: Mapping[str, str]) -> dict[str, dict[str, float]]:
        return {
            team: {name: result.value(path) or 0.0 for path, name in paths.items()} for team, result in results.items()
        }

    of_skills = values({f"{path}.group_mean": name for path, name in SKILLS.items()})
    of_units = values({f"panoptic.pq.{name}": words for name, words in AGGREGATIONS.items()})
    done = experiments(demo)
    changed = [
        Series(f"{words} (of nuclei)", [Dot(100 * share, done[f"{what} {share}"]["panoptic.pq"]) for share in SHARES],
               series_colour(index), "lines")
        for index, (what, words) in enumerate((("missed", "missed"), ("wrong class", "found, wrong class")))
    ]  # fmt: skip
    areas = [100 * removed_area(demo, px) if px else 0.0 for px in PIXELS]
    eroded = [Dot(area, done[f"eroded {px}"]["panoptic.pq"]) for area, px in zip(areas, PIXELS, strict=True)]
    changed.append(Series("all found, eroded (of area)", eroded, series_colour(2), "lines"))
    strata = [one for one in study_sensitivity(demo.challenge, workers=1)["strata"] if one["class"] is None]
    sizes = sorted((one for one in strata if one["size_px"] is not None), key=lambda one: one["size_px"]["from"])
    by_size = [
        Series(words, [Dot(_size_text(one), _median(one, change)) for one in sizes], series_colour(index), "lines")
        for index, (change, words) in enumerate((("eroded_1", "eroded by 1 px"), ("dilated_1", "dilated by 1 px"),
                                                 ("halved_eroded_1", "half resolution, eroded by 1 px")))
    ]  # fmt: skip
    return {
        "why_skills": _team_lines("why-skills", "Three teams: PQ and three skills", of_skills, "mean over patients"),
        "why_errors": Figure("why-errors", "PQ of three kinds of errors", "", changed,
                             x=Axis("changed, %"), y=Axis("PQ", (0, 1.02))),
        "why_size": Figure("why-size", "IoU of a pixel by size", "", by_size,
                           x=Axis("diameter of the nucleus, px"), y=Axis("median IoU", (0, 1.02))),
        "why_aggregation": _team_lines("why-aggregation", "PQ by aggregation", of_units, "PQ"),
    }  # fmt: skip


def _size_text(stratum: Mapping[str, Any]) -> str:
    low, high = stratum["size_px"]["from"], stratum["size_px"]["below"]
    return f"from {low}" if high is None else f"{low} to {high}"


def _median(stratum: Mapping[str, Any], change: str) -> float | None:
    (effect,) = (one for one in stratum["effects"] if one["perturbation"] == change)
    median: float | None = effect["measures"]["iou"]["median"]
    return median


def standalone(figure: Figure) -> str:
    """The SVG of a figure as a file, with the colours of pages, light and dark."""
    colours = re.findall(r"  (--[\w-]+: [^;]+;)", STYLE.read_text(encoding="utf-8").partition("}")[0])
    style = f"svg {{ color-scheme: light dark; background: var(--surface); {' '.join(colours)} }}"
    head, tail = svg_of(figure).split(">", 1)
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" ', 1)
    return f"{head}><style>{style}</style>{tail}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, required=True, help="docs/pictures")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        demo = write_demo(Path(folder))
        for name, figure in pictures(demo).items():
            (arguments.write / f"{name}.svg").write_text(standalone(figure), encoding="utf-8")
        for what, scores in experiments(demo).items():
            print(what, *(f"{path} {value:.3f}" for path, value in scores.items()))
        print("removed area", *(f"{px} px: {removed_area(demo, px):.3f}" for px in PIXELS[1:]))


if __name__ == "__main__":
    main()
