"""Published numbers beside ours: docs/reproduced.md.

    python -m benchmarks.reproduced ../shared/data                             # prints the page
    python -m benchmarks.reproduced ../shared/data --write docs/reproduced.md  # seconds

The data are public files that are not part of the project (licences). Each part makes a challenge from them as its
organisers would, scores it by the commands and returns rows.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import io
import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from evaluation import Result, score_submission
from evaluation.board.sensitivity import study_sensitivity
from evaluation.commands.main import run
from nuclei_metrics.metrics.classification import balanced_accuracy
from nuclei_metrics.model import CaseTable, Units
from nuclei_metrics.ranking.methods import rank_values

CODE = "published code of the lessons, on the same files"
SCRIPT = "independent script, on the same files"


@dataclass(frozen=True, slots=True)
class Row:
    """A published number and ours.

    decimals  of the published number
    source    of it
    reason    of a difference at these decimals; empty if there is none to expect
    """

    table: str
    what: str
    published: float
    ours: float
    decimals: int
    source: str
    reason: str = ""

    @property
    def is_equal(self) -> bool:
        """Return whether ours is the published number at its decimals."""
        return abs(self.ours - self.published) <= 0.5000001 * 10.0**-self.decimals

    def text(self) -> str:
        published, ours = (f"{value:.{self.decimals}f}" for value in (self.published, self.ours))
        difference = "0" if self.is_equal else f"{self.ours - self.published:+.{self.decimals}f}"
        return f"| {self.table} | {self.what} | {published} | {ours} | {difference} | {self.reason or self.source} |"


# --- means of published scores ----------------------------------------------------------------------------------------


def _board_means(scores: Iterable[tuple[str, str, float]], folder: Path) -> dict[str, float]:
    """Rank by (team, case, score) with the command, and return the mean over cases of each team."""
    with (folder / "scores.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["team", "case", "group", "metric", "value"])
        writer.writerows([team, case, case, "score", value] for team, case, value in scores)
    command = ["rank", "--scores", str(folder / "scores.csv"), "--column", "score:descending", "--unit", "case"]
    with contextlib.redirect_stdout(io.StringIO()):
        if run([*command, "--output", str(folder / "board")]) != 0:
            raise RuntimeError("rank failed")
    teams = json.loads((folder / "board/leaderboard.json").read_text())["teams"]
    return {team["name"]: team["columns"][0]["value"] for team in teams}


def _monusac_board(data: Path, folder: Path) -> Iterator[Row]:
    """The leaderboard of MoNuSAC 2020, from the organisers' PQ of each image and class."""
    of_image = defaultdict(list)
    with (data / "monusac2020_published_pq.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            of_image[row["team"], row["image"]].append(float(row["pq"]))
    means = _board_means([(*key, float(np.mean(values))) for key, values in of_image.items()], folder)
    yield Row("MoNuSAC 2020, leaderboard", "PQ, SJTU_426", 0.5793, means["SJTU_426"], 4, "leaderboard")
    for team, published in (("IVG", 0.5084), ("Dark Brotherhood", 0.4792), ("Amirreza Mahbod", 0.3890)):
        yield Row("MoNuSAC 2020, leaderboard", f"PQ, {team}", published, means[team], 4, SCRIPT)


_SWAPPED = {  # recomputed PQ of macrophages and neutrophils; the challenge's table has the two in each other's place
    "Breast": (0.342, 0.446),
    "Kidney": (0.465, 0.441),
    "Lung": (0.621, 0.566),
    "Prostate": (0.426, 0.612),
}


def _monusac_organs(data: Path, folder: Path) -> Iterator[Row]:
    """Table 1 of "Comments on MoNuSAC 2020": PQ of a team in each organ, mean over images."""
    with (data / "monusac2020_published_pq.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["team"] == "SJTU_426"]
    for organ, published in _SWAPPED.items():
        for class_name, value in zip(("Macrophage", "Neutrophil"), published, strict=True):
            scores = [
                ("team", row["image"], float(row["pq"]))
                for row in rows
                if (row["organ"], row["class"]) == (organ, class_name)
            ]
            place = folder / f"{organ}-{class_name}"
            place.mkdir()
            yield Row("Comments on MoNuSAC 2020, Table 1", f"PQ, {organ}, {class_name}", value,
                      _board_means(scores, place)["team"], 3, "paper, recomputed")  # fmt: skip


def _pannuke(data: Path, folder: Path) -> Iterator[Row]:
    """The bPQ of a model on a fold of PanNuke, from its bPQ of each image; images without nuclei have none."""
    document = json.loads((data / "cellvit/vit256_fold1_results.json").read_text())
    values = {name: image["bPQ"] for name, image in document["image_metrics"].items()}
    known = [("model", name, value) for name, value in values.items() if not np.isnan(value)]
    published = document["dataset"]["bPQ"]
    yield Row("PanNuke, CellViT-256", "bPQ, mean over images", published, _board_means(known, folder)["model"], 6,
              "results file of CellViT")  # fmt: skip


def _leaderboards(data: Path, _: Path) -> Iterator[Row]:
    """The ranks in columns of the platform's boards; of both directions the one that agrees better."""
    for path in sorted((data / "leaderboards").glob("*.csv")):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        names = set(rows[0]) - {"mean_position"}
        columns = [name.removesuffix("_position") for name in names if name.endswith("_position")]
        agreeing = 0
        for column in columns:
            values = np.array([float(row[column]) for row in rows])
            published = np.array([float(row[f"{column}_position"]) for row in rows])
            ranks = [rank_values(values, higher_is_better=better, ties="min") for better in (True, False)]
            agreeing += max(int((found == published).sum()) for found in ranks)
        total = len(rows) * len(columns)
        reason = "platform; directions of columns chosen to fit, since the file has none"
        yield Row(f"leaderboard `{path.stem}`", "ranks in columns that agree", total, agreeing, 0, reason)


# --- lessons from MoNuSAC 2020 ----------------------------------------------------------------------------------------


def _lessons(data: Path, _: Path) -> Iterator[Row]:
    """Table 2 from the matrices of Table 3."""
    tables = json.loads((data / "lessons_from_monusac_tables.json").read_text())
    matrices = tables["table3_confusion_matrices_border_dilated_strict"]["counts"]
    for (team, matrix), published in zip(
        matrices.items(), tables["table2_balanced_accuracy_border_dilated_strict"], strict=True
    ):
        counts = CaseTable({"confusion": np.array([matrix])}, {}, np.ones(1), None, None)
        (ours,) = balanced_accuracy(Units(counts, csr_array([[1]]))).value.tolist()
        yield Row("lessons, Table 2", f"balanced accuracy, {team}, from Table 3", published, ours, 2, "paper",
                  "paper: mean over patients; ours: from the pooled matrix of Table 3")  # fmt: skip


_OF_CODE = {
    "pq_group_mean": "panoptic.pq",
    "dq_group_mean": "panoptic.rq",
    "sq_group_mean": "panoptic.sq",
    "det_acc": "detection.threat_score",
    "det_prec": "detection.precision",
    "det_rec": "detection.recall",
    "det_f1": "detection.f1",
    "balanced_accuracy": "classification.balanced_accuracy",
    "iou_class_mean": "segmentation.iou_class_mean",
    "hausdorff_px": "segmentation.hausdorff_px",
}


def _monusac_code(data: Path, folder: Path) -> Iterator[Row]:
    """All scores of one submission under both matching rules; then what erosion costs its macrophages."""
    source = data / "monusac_challenge"
    challenge = _challenge(folder, "monusac2020", (source / "ground_truth/cases.csv").read_text())
    (challenge / "reference").symlink_to(source / "ground_truth/reference")
    result = score_submission(challenge, source / "submission", workers=1)
    expected = json.loads((source / "expected.json").read_text())
    for rule, start in (("strict_iou", ""), ("centroid", "alternatives.best_iou_centroid_inside.")):
        for key, path in _OF_CODE.items():
            ours = result.value(f"{start}{path}.group_mean")
            yield Row("MoNuSAC's forms, 4 images", f"`{path}`, {rule}", expected[rule][key], _known(ours), 6, CODE)
    strata = study_sensitivity(challenge, workers=1)["strata"]
    (all_sizes,) = (of for of in strata if of["class"] == "Macrophage" and of["size_px"] is None)
    (eroded,) = (effect for effect in all_sizes["effects"] if effect["perturbation"] == "eroded_1")
    what = "median IoU of macrophages, eroded by 1 px"
    yield Row("PQ should be avoided, Fig. 7", what, 0.92, eroded["measures"]["iou"]["median"], 2,
              f"paper; {all_sizes['nuclei']} of its 307 macrophages")  # fmt: skip


# PQ by PQ_metric.ipynb at 48c250d, see tests/test_published_faults.py.
_NOTEBOOK = {
    ("P1_2", "Epithelial"): 0.648945,
    ("P1_2", "Neutrophil"): 0.186419,
    ("P2_1", "Epithelial"): 0.689408,
    ("P2_1", "Neutrophil"): 0.361966,
    ("P2_1", "Macrophage"): 0.486480,
    ("P1_1", "Epithelial"): 0.698573,
    ("P2_2", "Epithelial"): 0.686179,
}


def _monusac_notebook(data: Path, folder: Path) -> Iterator[Row]:
    """PQ with the published faults, as the published notebook computes it from the same files."""
    source = data / "monusac_challenge"
    challenge = _challenge(folder, "monusac2020_as_published", (source / "ground_truth/cases.csv").read_text())
    (challenge / "reference").symlink_to(source / "ground_truth/reference")
    details = score_submission(challenge, source / "submission", workers=1).details
    for (case, class_name), published in _NOTEBOOK.items():
        scores = details["cases"][case]["rules"]["iou_above"]["scores"]["panoptic"]["per_class"]
        cut = "the notebook cuts ambiguous regions out of the prediction only" * (case in ("P1_1", "P2_2"))
        yield Row("MoNuSAC's forms, with the published faults", f"PQ, {case}, {class_name}", published,
                  _known(scores[class_name]["pq"]), 6, "published notebook, on the same files", cut)  # fmt: skip


# --- points -----------------------------------------------------------------------------------------------------------

_POINTS = """format_version = 1
name = "points"
version = "1"
classes = [{classes}]
[reference]
{reference}
[submission]
{submission}
missing_case = "worst"
missing_class_file = "empty"
[matching]
rules = [{rules}]
[metrics]
families = ["detection", "classification"]
boundary = "open"
[aggregation]
unit = "pooled"
undefined = "skip"
"""
_RADII = {4: 1080, 8: 1107, 16: 1117, 20: 1119, 41: 1121}  # px: pairs


def _score_points(folder: Path, cases: str, files: dict[str, Path], submitted: Path, **tables: str) -> Result:
    """Score a file of points; ``files`` of the reference by their names, ``tables`` of challenge.toml."""
    (folder / "reference").mkdir()
    (folder / "submission").mkdir()
    (folder / "challenge.toml").write_text(_POINTS.format(**tables))
    (folder / "cases.csv").write_text(cases)
    for name, path in files.items():
        (folder / "reference" / name).symlink_to(path)
    shutil.copyfile(submitted, folder / "submission" / submitted.name)
    return score_submission(folder, folder / "submission", workers=1)


def _radius_rule(px: int) -> str:
    rule = f'name = "within_{px}", rule = "centroid_assignment", radius_px = {px}'
    return f'{{ {rule}, class_aware = false, ties = "first_pixel" }}'


def _counts(result: Result, px: int) -> dict[str, Any]:
    counts: dict[str, Any] = result.details["pooled"]["rules"][f"within_{px}"]["counts"]
    return counts


def _monkey(data: Path, folder: Path) -> Iterator[Row]:
    """The dots of a slide of MONKEY against its points: pairs within some radii, and their classes."""
    names = ("lymphocytes", "monocytes")
    source, corner = data / "monkey", 'origin = "pixel_corner"'
    result = _score_points(
        folder,
        "case,height,width\nA_P000001,90000,22000\n",
        {f"A_P000001_{name}.json": source / f"ground_truth/A_P000001_{name}.json" for name in names},
        source / "A_P000001.xml",
        classes=", ".join(f'{{ name = "{name}" }}' for name in names),
        reference=f'format = "points_json"\nfiles = "reference/{{case}}_{{class}}.json"\n{corner}\nunits = "px"',
        submission=f'format = "asap_xml"\nfiles = "{{case}}.xml"\nshape = "point"\n{corner}\nskip_classes = ["ROI"]',
        rules=", ".join(map(_radius_rule, _RADII)),
    )
    for px, pairs in _RADII.items():
        yield Row("MONKEY, dots of a slide against its points", f"pairs within {px} px", pairs,
                  _counts(result, px)["true_positives"], 0, SCRIPT)  # fmt: skip
    matrix = _counts(result, 16)["confusion_matrix"]
    for row, column, pairs in ((1, 1, 460), (1, 2, 36), (2, 2, 621)):
        what = f"pairs within 16 px, {names[row - 1]} called {names[column - 1]}"
        yield Row("MONKEY, dots of a slide against its points", what, pairs, matrix[row][column], 0, SCRIPT)


def _midog(data: Path, folder: Path) -> Iterator[Row]:
    """The mitotic figures of MIDOG++, scored against themselves; hard negatives are left out."""
    source = data / "midog/databases/MIDOG++.json.gz"
    images = json.loads(gzip.decompress(source.read_bytes()))["images"]
    rows = [f"{one['file_name'].removesuffix('.tiff')},{one['height']},{one['width']}" for one in images]
    side = 'format = "midog_json"\norigin = "pixel_corner"\ncase_key = "{case}.tiff"'
    side += '\nskip_classes = ["not mitotic figure"]'
    result = _score_points(
        folder,
        "\n".join(["case,height,width", *rows, ""]),
        {source.name: source},
        source,
        classes='{ name = "mitotic figure" }',
        reference=f'{side}\nfiles = "reference/MIDOG++.json.gz"',
        submission=f'{side}\nfiles = "MIDOG++.json.gz"',
        rules=_radius_rule(25),
    )
    counts = _counts(result, 25)
    yield Row("MIDOG++", "mitotic figures in 553 images", 11_937, counts["true_positives"], 0,
              "paper; the annotations, scored against themselves")  # fmt: skip
    yield Row("MIDOG++", "false positives and negatives of the annotations against themselves", 0,
              counts["false_positives"] + counts["false_negatives"], 0, "by definition")  # fmt: skip


# --- whole challenges -------------------------------------------------------------------------------------------------

_BOWL = {  # F1, PQ pooled, PQ over images, threat score over 0.5:0.05:0.95 and images
    "DatName": (0.4582, 0.3324, 0.4368, 0.2619),
    "gray53": (0.7177, 0.5679, 0.5830, 0.4266),
}
_BOWL_PATHS = (
    "detection.f1.pooled",
    "panoptic.pq.pooled",
    "panoptic.pq.case_mean",
    "thresholds.threat_score_iou50_95.case_mean",
)


def _bowl(data: Path, folder: Path) -> Iterator[Row]:
    """Two teams of the Data Science Bowl 2018, stage 1."""
    source = data / "dsb2018"
    with (source / "stage1_solution.csv").open(newline="") as file:
        sizes = {row["ImageId"]: (row["Height"], row["Width"]) for row in csv.DictReader(file)}
    rows = ["case,height,width", *(",".join((name, *size)) for name, size in sizes.items()), ""]
    challenge = _challenge(folder, "dsb2018", "\n".join(rows))
    (challenge / "reference").mkdir()
    (challenge / "reference/solution.csv").symlink_to(source / "stage1_solution.csv")
    for team, published in _BOWL.items():
        (folder / team).mkdir()
        shutil.copyfile(source / f"submission_{team}.csv", folder / team / "submission.csv")
        result = score_submission(challenge, folder / team, workers=1)
        for path, value in zip(_BOWL_PATHS, published, strict=True):
            yield Row("Data Science Bowl 2018, stage 1", f"`{path}`, {team}", value, _known(result.value(path)), 4,
                      SCRIPT)  # fmt: skip


def _challenge(folder: Path, preset: str, cases: str) -> Path:
    """Write the two files of a challenge that is a preset."""
    challenge = folder / "challenge"
    challenge.mkdir()
    (challenge / "challenge.toml").write_text(f'format_version = 1\nname = "{preset}"\npreset = "{preset}"\n')
    (challenge / "cases.csv").write_text(cases)
    return challenge


def _known(value: float | None) -> float:
    return np.nan if value is None else value


# --- the page ---------------------------------------------------------------------------------------------------------

_PARTS: tuple[Callable[[Path, Path], Iterator[Row]], ...] = (
    _monusac_board,
    _monusac_organs,
    _lessons,
    _monusac_code,
    _monusac_notebook,
    _bowl,
    _monkey,
    _midog,
    _pannuke,
    _leaderboards,
)
_HEAD = """# Reproduced

Published numbers and ours, from public files. This page is written by a command, which a test runs:

```
python -m benchmarks.reproduced ../shared/data --write docs/reproduced.md
```

A difference of 0: the published number at its decimals. The last column has the source of the published number, or the reason of a difference.

| table | number | published | ours | difference | source or reason |
| --- | --- | --- | --- | --- | --- |
"""  # noqa: E501
_TAIL = """
## Not reproduced

The files of these tables are not in that folder. With reference and submissions in place, the commands are `evaluation init DIR --preset NAME`,
then `evaluation leaderboard --challenge DIR --submissions DIR --output DIR`.

| table | missing | preset |
| --- | --- | --- |
| MoNuSAC 2020, PQ from nuclei | 99 of the 101 test images, and the teams' masks | `monusac2020_as_published` |
| lessons, Tables 1, 4 and 5 | the same; the tables have means over patients, no values of patients | `monusac2020` |
| PQ should be avoided, Fig. 3 and 5 | annotations of the pathologists of NuCLS' multi-rater set | none: `evaluation compare FIRST SECOND --match any_overlap --report` |
| PQ should be avoided, Fig. 4 | the five masks of `example_single_cell` in the paper's repository (panoptic-quality-suppl). By hand, with `evaluation compare gt.png seg_1.png --match any_overlap`: IoU 0.78, 0.63, 0.68 and 0.45, the same as counting pixels with numpy | none |
| CoNIC 2022, mPQ+ and R² | the final test set, which is not public, and the teams' predictions | `conic2022` |
| Hirling 2024, rankings under other metrics | the teams' submissions to stage 2 of the Data Science Bowl, to Sartorius and to MIDOG | `dsb2018`, `sartorius2021`, `midog2021` |
| PUMA, MONKEY, MIDOG: scores of teams | the test sets, and the teams' predictions; ranks of PUMA's boards and MONKEY's points of a slide are above | `puma2024`, `monkey2024`, `midog2021` |
"""  # noqa: E501


def reproduced(data: Path) -> list[Row]:
    """Compute all rows."""
    rows: list[Row] = []
    for part in _PARTS:
        with tempfile.TemporaryDirectory() as folder:
            rows += part(data, Path(folder))
    return rows


def page(rows: Iterable[Row]) -> str:
    """Return docs/reproduced.md."""
    return "".join([_HEAD, *(f"{row.text()}\n" for row in rows), _TAIL])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the public files")
    parser.add_argument("--write", type=Path, help="docs/reproduced.md")
    arguments = parser.parse_args()
    text = page(reproduced(arguments.data.resolve()))
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
