"""What is wrong in a challenge, a submission, a leaderboard or a comparison."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killer import kill_worker

import evaluation
from evaluation.findings import render_findings
from evaluation.findings.errors import WrongUsage
from evaluation.model import Case
from evaluation.report.html import page_html
from evaluation.report.page import Page
from findings.bench import FOUR_CLASSES, Bench, after, example_of, examples_of, told

# --- the command line, challenge.toml and cases.csv -------------------------------------------------------------------


CASES = "case,group,height,width\nP1_1,P1,20,30\nP1_2,P1,20,30\n"


def of_preset(bench: Bench, rules: str = "", cases: str | bytes = CASES, preset: str = "monusac2020") -> str:
    """What is said about a challenge with some rules of its own."""
    bench.write("challenge/cases.csv", cases)
    bench.write("challenge/challenge.toml", f'format_version = 1\nname = "demo"\npreset = "{preset}"\n{rules}')
    return bench.validate()


@example_of("missing-rule")
def no_aggregation_unit(bench: Bench) -> str:
    bench.make("label_image by class")
    bench.replace("challenge/challenge.toml", 'unit = "group", ', "")
    return bench.validate()


@example_of("cannot-write")
def results_below_a_file(bench: Bench) -> str:
    bench.make("label_image by class")
    bench.write("results", "a file")
    return bench.run("score", "--challenge", "challenge", "--submission", "submission", "--output", "results/first_try")


@example_of("missing-option")
def score_outside_the_platform(bench: Bench) -> str:
    bench.make("label_image by class")
    bench.patch.setattr("evaluation.commands.options.INPUT", Path("/input/of/the/platform"))
    return bench.run("score", "--challenge", "challenge").replace("/input/of/the/platform", "/input")


@example_of("missing-extra")
def page_without_jinja(bench: Bench) -> str:
    bench.patch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(WrongUsage) as fault:
        page_html(Page("A report", "", (), ()))
    return str(fault.value)


@example_of("no-cluster")
def nobody_at_the_address(bench: Bench) -> str:
    bench.make("label_image by class")
    options = ("--challenge", "challenge", "--submissions", "submission", "--output", "out")
    return bench.run("leaderboard", *options, "--cluster", "login1")


@example_of("worker-died")
def killed_worker(bench: Bench) -> str:
    bench.make("label_image by class")
    bench.patch.setattr("evaluation.scoring.street.score_cases", kill_worker)
    bench.patch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    )
    return bench.score("--workers", 2)


examples_of(
    {
        "invalid-toml": lambda bench: of_preset(bench, "[reference]\noverlap = last\n"),  # unquoted text
        "unknown-preset": lambda bench: of_preset(bench, preset="monusac"),  # misspelt preset
        "unknown-key": lambda bench: of_preset(bench, '[aggregation]\nunits = "case"\n'),  # misspelt key
        "invalid-rule": lambda bench: of_preset(bench, '[reference]\noverlap = "paint"\n'),  # unknown overlap rule
        # overlap scope of class order
        "contradictory-rules": lambda bench: of_preset(bench, '[reference]\noverlap_scope = "class"\n'),
        # cases in latin 1
        "invalid-text": lambda bench: of_preset(bench, cases=CASES.replace("P1_2", "Größe").encode("latin-1")),
        # misspelt folder
        "no-challenge": lambda bench: bench.run("validate", "--challenge", "my_chalenge", "--submission", "submission"),
        # image without height
        "invalid-cases": lambda bench: of_preset(bench, cases=CASES.replace("P1_2,P1,20", "P1_2,P1,0")),
        "unknown-format": lambda bench: bench.convert("P1_1.xml", to="geojsn"),  # misspelt target
        "missing-file": after(of_preset, Path("challenge/cases.csv").unlink),
        "no-outlines": lambda bench: bench.make("points_json") or bench.run("sensitivity", "--challenge", "challenge"),
        "unknown-code": lambda bench: bench.run("explain", "unknown-clas"),  # misspelt code
        "file-exists": told(
            {"my_challenge/challenge.toml": "edited by hand"}, "init --preset monusac2020 my_challenge"
        ),
        # text as svs
        "unreadable-image": told(
            {"my_challenge/reference/P1/P1_1.xml": "<Annotations/>", "my_challenge/reference/P1/P1_1.svs": "not found"},
            "init --preset monusac2020 my_challenge",
        ),
    }
)

# --- the files of a submission, and which case they belong to ---------------------------------------------------------


IMAGES = tuple(Case(f"P{1 + i // 2}_{1 + i % 2}", f"P{1 + i // 2}", 20, 30, 0.25, i) for i in range(4))
P1_1, P1_2 = "submission/P1/P1_1", "submission/P1/P1_2"
FIRST = f"{P1_1}/Epithelial/1.mat"
WITHOUT_A_CASE = partial(shutil.rmtree, P1_2)
NUCLEI = {"slug": "nuclei", "kind": "Multiple polygons", "super_kind": "File", "relative_path": "nuclei.json"}


def n_ary_masks(bench: Bench, **submission: str) -> None:
    """The layout of MoNuSAC: four images of two patients, a file for each class."""
    bench.make("nary_mat", cases=IMAGES, classes=FOUR_CLASSES, submission=submission)


def one_array_a_case(bench: Bench, **limits: int) -> None:
    bench.make("label_image class map npy", submission={"class_map": "{case}_classes.npy"}, limits=limits)


def list_of_jobs(bench: Bench, *jobs: dict[str, Any]) -> str:
    """What the platform hands over in the algorithm phase: predictions.json, and no file at its place."""
    bench.make("polygons_json", submission={"socket": "nuclei"})
    shutil.rmtree("submission")
    bench.write("submission/predictions.json", list(jobs))
    return bench.validate()


def job(pk: str = "job-1", case: str = "case_017", output: dict[str, Any] = NUCLEI, **keys: Any) -> dict[str, Any]:
    given = {"image": {"name": case}, "socket": {"slug": "slide"}}
    return {"pk": pk, "status": "Succeeded", "inputs": [given], "outputs": [{"socket": output}], **keys}


def points(bench: Bench, *rows: str) -> str:
    """What is said about points of the only case, an image of 1,024 x 1,024 px."""
    bench.make("points_csv", cases=(Case("case_017", "P1", 1024, 1024, 0.25, 0),))
    bench.write("submission/case_017.csv", "\n".join(["x,y,class", *rows, ""]))
    return bench.validate()


@example_of("own-duplicates")
def nuclei_found_twice(bench: Bench) -> str:
    apart = [f"{50 * (place % 20) + 7},{50 * (place // 20) + 9},Epithelial" for place in range(395)]
    return points(bench, *apart, *apart[:6])


@example_of("hardly-meant")
def micrometres_for_px(bench: Bench) -> str:
    rows = [f"{12.5 * (place % 20) + 7},{12 * (place // 20) + 9},Epithelial" for place in range(400)]
    return points(bench, *rows, "255.5,9,Epithelial")


@example_of("annotated-twice")
def nucleus_drawn_twice(bench: Bench) -> str:
    bench.make("polygons_json", cases=(Case("case_017", "P1", 64, 64, 0.25, 0),))
    (file,) = Path("challenge").rglob("*.json")
    document = json.loads(file.read_text())
    shape = document["polygons"]
    bench.write(str(file), {**document, "polygons": [*shape[:2], shape[0]]})
    return bench.run("rasterise", "--challenge", "challenge", "--output", "rasterised")


@example_of("instance-without-class")
def nuclei_outside_the_class_map(bench: Bench) -> str:
    one_array_a_case(bench)
    class_map = np.load("submission/case_017_classes.npy")
    class_map[:, 6:] = 0
    bench.write("submission/case_017_classes.npy", class_map)
    return bench.validate()


@example_of("too-many-files")
def more_files_than_allowed(bench: Bench) -> str:
    one_array_a_case(bench, files_per_submission=100)
    for index in range(100):
        bench.write(f"submission/cache/{index}.npy", b"")
    return bench.validate()


@example_of("too-compressed")
def zeros(bench: Bench) -> str:
    one_array_a_case(bench, archive_ratio=100)
    with zipfile.ZipFile("predictions.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("case_017.npy", bytes(5_000_000))
        archive.write("submission/case_017_classes.npy", "case_017_classes.npy")
    return bench.validate("predictions.zip")


@example_of("overlapping-members")
def two_members_of_the_same_bytes(bench: Bench) -> str:
    one_array_a_case(bench)
    with zipfile.ZipFile("predictions.zip", "w") as archive:
        for name in ("case_017.npy", "case_018.npy"):
            archive.write(f"submission/{name}", name)
    data = bytearray(Path("predictions.zip").read_bytes())
    start_of_second = data.rindex(b"PK\1\2") + 42
    data[start_of_second : start_of_second + 4] = bytes(4)
    return bench.validate(str(bench.write("predictions.zip", bytes(data))))


@example_of("no-case-found")
def other_folders(bench: Bench) -> str:
    n_ary_masks(bench)
    for case in ("P1_1", "P1_2"):
        Path(f"predictions/{case}").mkdir(parents=True)
        shutil.copy(f"submission/P1/{case}/Epithelial/1.mat", f"predictions/{case}/Epithelial.mat")
    return bench.validate("predictions")


examples_of(
    {
        # nuclei beyond the edge
        "outside-image": lambda bench: points(bench, *["7,9,Epithelial"] * 389, *["1030,9,Epithelial"] * 12),
        "everything-outside": lambda bench: points(
            bench, *["50007,70009,Epithelial"] * 401
        ),  # coordinates of the slide
        "unknown-case": after(n_ary_masks, partial(Path(P1_1).rename, "submission/P1/p1_1")),  # lower case
        "no-submission": after(n_ary_masks, run=lambda bench: bench.validate("predictons")),  # misspelt path
        "empty-submission": after(
            n_ary_masks, Path("predictions").mkdir, run=lambda bench: bench.validate("predictions")
        ),
        "not-a-zip": after(
            n_ary_masks,
            partial(shutil.make_archive, "predictions", "gztar", "submission"),
            run=lambda bench: bench.validate("predictions.tar.gz"),
        ),
        # link out of the submission
        "unsafe-path": after(
            n_ary_masks,
            partial(Path(FIRST).rename, "elsewhere.mat"),
            partial(Path(FIRST).symlink_to, "../../../../elsewhere.mat"),
        ),
        # case of another patient
        "wrong-group": after(
            n_ary_masks,
            Path("submission/P2/P1_1").mkdir,
            partial(Path(P1_1, "Epithelial").rename, "submission/P2/P1_1/Epithelial"),
        ),
        "duplicate-file": after(n_ary_masks, partial(shutil.copy, FIRST, f"{P1_1}/Epithelial/2.mat")),
        "incomplete-case": after(one_array_a_case, Path("submission/case_017_classes.npy").unlink),  # no class map
        "duplicate-case": lambda bench: list_of_jobs(bench, job(), job("job-2")),  # two jobs of a case
        "invalid-job": lambda bench: list_of_jobs(bench, job(inputs=job()["inputs"] * 2)),  # two inputs
        # path of another job
        "forged-path": lambda bench: list_of_jobs(bench, job(output=NUCLEI | {"relative_path": "../../x"})),
        "failed-job": lambda bench: list_of_jobs(bench, job(status="Failed")),  # failed job
        "missing-output": lambda bench: list_of_jobs(bench, job()),  # no output
        # value in the database
        "unsupported-output": lambda bench: list_of_jobs(bench, job(output=NUCLEI | {"super_kind": "Value"})),
        # case that is asked for
        "missing-case": after(partial(n_ary_masks, missing_case="reject"), WITHOUT_A_CASE),
        "missing-case-worst": after(n_ary_masks, WITHOUT_A_CASE),  # case that is left out
        # class that is left out
        "missing-class-file": after(
            partial(n_ary_masks, missing_class_file="reject"), partial(shutil.rmtree, f"{P1_2}/Macrophage")
        ),
        "unused-file": after(n_ary_masks, lambda: Path("submission/README.md").write_text("our method")),  # notes
    }
)

# --- teams, rankings and leaderboards ---------------------------------------------------------------------------------


KIND = "label_image by class"
RANKING = {
    "method": "sum_of_ranks",
    "ties": "min",
    "significance_level": 0.05,
    "columns": [{"path": "detection.f1.group_mean", "direction": "descending"}],
}
AS_ALPHA = partial(shutil.copytree, "submission", "submissions/alpha")
SCORES = ("team,case,metric,value", "alpha,a,dice,0.5", "beta,a,dice,0.4")


def make(bench: Bench, **ranking: Any) -> None:
    bench.make(KIND, ranking=RANKING | ranking)


def one_submission(bench: Bench, name: str = "alpha") -> None:
    make(bench)
    shutil.copytree("submission", Path("submissions") / name)


def leaderboard(bench: Bench) -> str:
    return bench.run(
        "leaderboard", "--challenge", "challenge", "--submissions", "submissions", "--output", "board", "--workers", 1
    )


def ranked_results(bench: Bench, *more: str) -> str:
    return bench.run("rank", "--challenge", "challenge", "--results", "results", "--output", "board", *more)


def one_result(bench: Bench, **ranking: Any) -> dict[str, Any]:
    """The metrics.json of a scored submission."""
    make(bench, **ranking)
    bench.score("--workers", 1)
    metrics: dict[str, Any] = json.loads(Path("out/metrics.json").read_text())
    return metrics


def ranked_scores(bench: Bench, *rows: str) -> str:
    bench.write("scores.csv", "\n".join([*rows, ""]))
    return bench.run("rank", "--scores", "scores.csv", "--column", "dice:descending", "--output", "board")


@example_of("not-metrics")
def another_json_file(bench: Bench) -> str:
    make(bench)
    bench.write("results/alpha.json", {"score": 0.5})
    return ranked_results(bench)


@example_of("different-challenges")
def result_under_other_rules(bench: Bench) -> str:
    metrics = one_result(bench)
    metrics["challenge"]["hash"] = "0" * 64
    bench.write("results/alpha.json", metrics)
    return ranked_results(bench)


@example_of("missing-units")
def means_only(bench: Bench) -> str:
    bench.write("results/alpha.json", one_result(bench, method="rank_then_aggregate"))
    return ranked_results(bench)


@example_of("several-versions")
def result_of_an_older_version(bench: Bench) -> str:
    metrics = one_result(bench)
    for team, version in (("alpha", "0.1.0"), ("beta", "0.0.9")):
        bench.write(f"results/{team}.json", {**metrics, "software": metrics["software"] | {"version": version}})
    return ranked_results(bench)


@example_of("other-leaderboard")
def earlier_result_under_other_rules(bench: Bench) -> str:
    metrics = one_result(bench)
    metrics["challenge"]["hash"] = "0" * 64
    bench.write("challenge/leaderboard/alpha.json", metrics)
    bench.score("--workers", 1)
    return "\n".join(json.loads(Path("out/details.json").read_text())["findings"])


examples_of(
    {
        "no-ranking": after(lambda bench: bench.make(KIND), AS_ALPHA, run=leaderboard),
        "no-teams": after(make, Path("submissions").mkdir, run=leaderboard),
        "invalid-team": after(partial(one_submission, name="team#1"), run=leaderboard),
        # folder and archive of a team
        "duplicate-team": after(
            one_submission, partial(shutil.make_archive, "submissions/alpha", "zip", "submission"), run=leaderboard
        ),
        "unknown-entry": after(partial(make, unranked=["alhpa"]), AS_ALPHA, run=leaderboard),  # slip in a name
        # by matched pairs alone
        "gameable-ranking": after(
            partial(make, columns=[{"path": "segmentation.iou.pooled", "direction": "descending"}]),
            run=lambda bench: bench.run("phase", "--challenge", "challenge"),
        ),
        # another name of the metric
        "missing-metric": lambda bench: ranked_scores(bench, *[row.replace("dice", "Dice score") for row in SCORES]),
        "invalid-score": lambda bench: ranked_scores(bench, *SCORES[:2], "beta,a,dice,NaN"),  # nan as text
        "incomplete-scores": lambda bench: ranked_scores(bench, *SCORES, "alpha,b,dice,0.1"),  # case left out
        "unused-metric": lambda bench: ranked_scores(bench, *SCORES, "alpha,a,time,3"),  # another metric
        # column for each team
        "wide-table": told(
            {"scores.csv": "case,alpha,beta,age\na,0.5,0.4,61\nb,0.6,0.3,47\n"},
            "rank --scores scores.csv --column score:descending --output board",
        ),
    }
)

# --- what is found in folders, and what would match -------------------------------------------------------------------


MASK = np.zeros((20, 30), np.uint8)
for number, (top, left) in enumerate([(1, 2), (1, 20), (8, 3), (12, 22), (14, 10)], start=1):
    MASK[top : top + 4, left : left + 3] = number
PICTURE = np.zeros((20, 30, 3), np.uint8)
SQUARE = np.zeros((20, 20), np.uint8)
for number, (top, left) in enumerate([(1, 12), (2, 5), (15, 2), (8, 17)], start=1):
    SQUARE[top : top + 3, left : left + 4] = number


@example_of("no-class-map")
def two_images_as_a_pair(bench: Bench) -> str:
    pair = (SQUARE, SQUARE)
    return "\n".join(render_findings(evaluation.compare(pair, pair).findings))


RING = {"type": "Polygon", "coordinates": [[[1, 1], [29, 1], [29, 19], [1, 1]]]}
OUTLINES = {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": RING, "properties": {}}]}
BOTH = {"reference/a.png": MASK, "masks/a.png": MASK}
ONE_CLASS = (MASK > 0).astype(np.uint8)
COMPARE = "compare reference masks"

examples_of(
    {
        "nothing-to-compare": told({"reference/a.png": MASK, "photos/a.png": PICTURE}, "compare reference photos"),
        "nothing-to-ignore": told(BOTH, f"{COMPARE} --ignore 250"),  # no pixel has it
        "file-not-read": told({**BOTH, "masks/photo.png": PICTURE}, COMPARE),
        "not-paired": told(
            dict.fromkeys(["reference/a.png", "reference/b.png", "masks/b.png", "masks/c.png"], MASK), COMPARE
        ),
        "sizes-differ": told({**BOTH, "masks/a.png": np.ascontiguousarray(MASK.T)}, COMPARE),  # transposed
        "size-unknown": told({"reference/a.geojson": OUTLINES, "masks/a.geojson": OUTLINES}, COMPARE),  # no image
        # class of the prediction alone
        "classes-differ": told(
            {**BOTH, "reference/a_class.png": ONE_CLASS, "masks/a_class.png": ONE_CLASS + (MASK > 2)}, COMPARE
        ),
        # rows and columns are swapped
        "nearly-nothing-matches": told(
            {"reference/a.png": SQUARE, "masks/a.png": np.ascontiguousarray(SQUARE.T)}, COMPARE
        ),
    }
)
