"""The files of a submission, and which case they belong to."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.model import Case
from findings.bench import FOUR_CLASSES, Bench
from findings.registry import example_of

IMAGES = tuple(Case(f"P{1 + i // 2}_{1 + i % 2}", f"P{1 + i // 2}", 20, 30, 0.25, i) for i in range(4))
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


@example_of("outside-image")
def nuclei_beyond_the_edge(bench: Bench) -> str:
    return points(bench, *["7,9,Epithelial"] * 389, *["1030,9,Epithelial"] * 12)


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


@example_of("everything-outside")
def coordinates_of_the_slide(bench: Bench) -> str:
    return points(bench, *["50007,70009,Epithelial"] * 401)


@example_of("instance-without-class")
def nuclei_outside_the_class_map(bench: Bench) -> str:
    one_array_a_case(bench)
    class_map = np.load("submission/case_017_classes.npy")
    class_map[:, 6:] = 0
    bench.write("submission/case_017_classes.npy", class_map)
    return bench.validate()


@example_of("no-submission")
def misspelt_path(bench: Bench) -> str:
    n_ary_masks(bench)
    return bench.validate("predictons")


@example_of("empty-submission")
def empty_folder(bench: Bench) -> str:
    n_ary_masks(bench)
    Path("predictions").mkdir()
    return bench.validate("predictions")


@example_of("not-a-zip")
def tar_file(bench: Bench) -> str:
    n_ary_masks(bench)
    return bench.validate(shutil.make_archive("predictions", "gztar", "submission").rpartition("/")[2])


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


@example_of("unsafe-path")
def link_out(bench: Bench) -> str:
    n_ary_masks(bench)
    path = Path("submission/P1/P1_1/Epithelial/1.mat")
    path.rename("elsewhere.mat")
    path.symlink_to("../../../../elsewhere.mat")
    return bench.validate()


@example_of("no-case-found")
def other_folders(bench: Bench) -> str:
    n_ary_masks(bench)
    for case in ("P1_1", "P1_2"):
        Path(f"predictions/{case}").mkdir(parents=True)
        shutil.copy(f"submission/P1/{case}/Epithelial/1.mat", f"predictions/{case}/Epithelial.mat")
    return bench.validate("predictions")


@example_of("unknown-case")
def lower_case(bench: Bench) -> str:
    n_ary_masks(bench)
    Path("submission/P1/P1_1").rename("submission/P1/p1_1")
    return bench.validate()


@example_of("wrong-group")
def case_of_another_patient(bench: Bench) -> str:
    n_ary_masks(bench)
    Path("submission/P2/P1_1").mkdir()
    Path("submission/P1/P1_1/Epithelial").rename("submission/P2/P1_1/Epithelial")
    return bench.validate()


@example_of("duplicate-file")
def two_files_of_a_class(bench: Bench) -> str:
    n_ary_masks(bench)
    folder = Path("submission/P1/P1_1/Epithelial")
    shutil.copy(folder / "1.mat", folder / "2.mat")
    return bench.validate()


@example_of("duplicate-case")
def two_jobs_of_a_case(bench: Bench) -> str:
    return list_of_jobs(bench, job(), job("job-2"))


@example_of("invalid-job")
def two_inputs(bench: Bench) -> str:
    return list_of_jobs(bench, job(inputs=job()["inputs"] * 2))


@example_of("forged-path")
def path_of_another_job(bench: Bench) -> str:
    return list_of_jobs(bench, job(output=NUCLEI | {"relative_path": "../../x"}))


@example_of("failed-job")
def failed_job(bench: Bench) -> str:
    return list_of_jobs(bench, job(status="Failed"))


@example_of("missing-output")
def no_output(bench: Bench) -> str:
    return list_of_jobs(bench, job())


@example_of("unsupported-output")
def value_in_the_database(bench: Bench) -> str:
    return list_of_jobs(bench, job(output=NUCLEI | {"super_kind": "Value"}))


@example_of("missing-case")
def case_that_is_asked_for(bench: Bench) -> str:
    n_ary_masks(bench, missing_case="reject")
    shutil.rmtree("submission/P1/P1_2")
    return bench.validate()


@example_of("missing-case-worst")
def case_that_is_left_out(bench: Bench) -> str:
    n_ary_masks(bench)
    shutil.rmtree("submission/P1/P1_2")
    return bench.validate()


@example_of("missing-class-file")
def class_that_is_left_out(bench: Bench) -> str:
    n_ary_masks(bench, missing_class_file="reject")
    shutil.rmtree("submission/P1/P1_2/Macrophage")
    return bench.validate()


@example_of("incomplete-case")
def no_class_map(bench: Bench) -> str:
    one_array_a_case(bench)
    Path("submission/case_017_classes.npy").unlink()
    return bench.validate()


@example_of("unused-file")
def notes(bench: Bench) -> str:
    n_ary_masks(bench)
    bench.write("submission/README.md", "our method")
    return bench.validate()
