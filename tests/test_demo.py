"""The made challenge: the same bytes again, and all the difficulties it is there to show."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat
from skimage.draw import polygon

from evaluation.authoring.demo import TEAMS, DemoPaths, run_demo, write_demo
from evaluation.challenge import Challenge

SHIPPED = Path(__file__).resolve().parents[1] / "ground_truth"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoPaths:
    return write_demo(tmp_path_factory.mktemp("demo"))


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def outlines_by_class(path: Path) -> dict[str, list[np.ndarray]]:
    """The outlines (V, 2) of each class of an Aperio XML file, read without the project's own reader."""
    layers = {}
    for annotation in ElementTree.parse(path).getroot().iter("Annotation"):
        name = annotation.find("Attributes/Attribute").get("Name")
        layers[name] = [
            np.array([[float(vertex.get("X")), float(vertex.get("Y"))] for vertex in region.iter("Vertex")])
            for region in annotation.iter("Region")
        ]
    return layers


@pytest.fixture(scope="module")
def layers_of_case(demo: DemoPaths) -> dict[str, dict[str, list[np.ndarray]]]:
    return {path.stem: outlines_by_class(path) for path in sorted(demo.challenge.glob("reference/*/*.xml"))}


def test_ground_truth_in_the_image_is_what_the_generator_writes(demo: DemoPaths) -> None:
    shipped = {name: content for name, content in files_below(SHIPPED).items() if not name.startswith("leaderboard/")}
    assert shipped == files_below(demo.challenge)


def test_ground_truth_in_the_image_is_small() -> None:
    assert sum(map(len, files_below(SHIPPED).values())) < 400_000


def test_same_seed_writes_the_same_bytes(demo: DemoPaths, tmp_path: Path) -> None:
    write_demo(tmp_path)
    assert files_below(tmp_path) == files_below(demo.challenge.parent)


def test_the_demo_writes_the_same_results_again_with_another_number_of_workers(tmp_path: Path) -> None:
    for name, workers in (("once", 1), ("again", 2)):
        run_demo(tmp_path / name, workers=workers)
    once = files_below(tmp_path / "once")
    assert {"leaderboard.json", *(f"results/{team}/metrics.json" for team in TEAMS)} <= set(once)
    assert once == files_below(tmp_path / "again")


def test_another_seed_writes_other_nuclei(demo: DemoPaths, tmp_path: Path) -> None:
    other = write_demo(tmp_path, seed=1)
    changed = {
        name for name, content in files_below(other.challenge).items() if content != files_below(demo.challenge)[name]
    }
    assert changed == {name for name in files_below(demo.challenge) if name.endswith(".xml")}


def test_mat_files_hold_no_date(demo: DemoPaths) -> None:
    path = next(demo.submissions["finder"].glob("*/*/*/1.mat"))
    assert b"Created on" not in path.read_bytes()[:128]


def test_challenge_loads_and_lists_every_reference(demo: DemoPaths) -> None:
    challenge = Challenge.load(demo.challenge)
    listed = {f"{case.group}/{case.name}.xml" for case in challenge.cases}
    assert listed == {
        path.relative_to(demo.challenge / "reference").as_posix() for path in demo.challenge.glob("reference/*/*.xml")
    }


def test_there_are_four_patients_with_one_to_three_images(demo: DemoPaths) -> None:
    groups = [case.group for case in Challenge.load(demo.challenge).cases]
    assert sorted(groups.count(group) for group in set(groups)) == [1, 2, 2, 3]


def test_vertices_are_whole_numbers_inside_the_image(
    demo: DemoPaths, layers_of_case: dict[str, dict[str, list[np.ndarray]]]
) -> None:
    for case in Challenge.load(demo.challenge).cases:
        points = np.concatenate([ring for rings in layers_of_case[case.name].values() for ring in rings])
        assert (points % 1 == 0).all()
        assert points.min() >= 0
        assert (points < [case.width, case.height]).all()


def test_outlines_overlap_in_every_image(
    demo: DemoPaths, layers_of_case: dict[str, dict[str, list[np.ndarray]]]
) -> None:
    for case in Challenge.load(demo.challenge).cases:
        cover = np.zeros(case.shape_yx, int)
        for name, rings in layers_of_case[case.name].items():
            for ring in rings if name != "Ambiguous" else []:
                cover[polygon(ring[:, 1], ring[:, 0], case.shape_yx)] += 1
        assert cover.max() >= 2, case.name


def test_nuclei_of_different_classes_overlap_somewhere(
    demo: DemoPaths, layers_of_case: dict[str, dict[str, list[np.ndarray]]]
) -> None:
    contested = 0
    for case in Challenge.load(demo.challenge).cases:
        classes = np.zeros((4, *case.shape_yx), bool)
        for index, name in enumerate(["Epithelial", "Lymphocyte", "Neutrophil", "Macrophage"]):
            for ring in layers_of_case[case.name][name]:
                classes[index][polygon(ring[:, 1], ring[:, 0], case.shape_yx)] = True
        contested += np.count_nonzero(classes.sum(axis=0) > 1)
    assert contested > 0


def test_some_cases_have_an_ambiguous_region_and_some_have_none(
    layers_of_case: dict[str, dict[str, list[np.ndarray]]],
) -> None:
    with_region = {case for case, layers in layers_of_case.items() if layers.get("Ambiguous")}
    assert with_region == {"P1_1", "P3_2"}


def test_every_class_occurs_and_one_is_absent_somewhere(
    layers_of_case: dict[str, dict[str, list[np.ndarray]]],
) -> None:
    for name in ["Epithelial", "Lymphocyte", "Neutrophil", "Macrophage"]:
        assert any(layers[name] for layers in layers_of_case.values())
    assert [case for case, layers in layers_of_case.items() if not layers["Macrophage"]] == [
        "P2_1",
        "P3_2",
        "P3_3",
    ]
    assert [case for case, layers in layers_of_case.items() if not layers["Neutrophil"]] == ["P3_1"]


def test_submissions_are_nary_masks_in_the_size_of_their_case(demo: DemoPaths) -> None:
    with (demo.challenge / "cases.csv").open(newline="") as file:
        shapes = {row["case"]: (int(row["height"]), int(row["width"])) for row in csv.DictReader(file)}
    for team in TEAMS:
        paths = sorted(demo.submissions[team].glob("*/*/*/1.mat"))
        assert {path.parts[-3] for path in paths} == set(shapes)
        for path in paths:
            labels = loadmat(path)["n_ary_mask"]
            assert labels.dtype == np.int32
            assert labels.shape == shapes[path.parts[-3]]
            assert np.array_equal(np.unique(labels), np.arange(labels.max() + 1))


def test_teams_find_nuclei_in_the_ambiguous_regions(
    demo: DemoPaths, layers_of_case: dict[str, dict[str, list[np.ndarray]]]
) -> None:
    shapes = {case.name: case.shape_yx for case in Challenge.load(demo.challenge).cases}
    for case, layers in layers_of_case.items():
        region = np.zeros(shapes[case], bool)
        for ring in layers.get("Ambiguous", []):
            region[polygon(ring[:, 1], ring[:, 0], shapes[case])] = True
        masks = [loadmat(path)["n_ary_mask"] for path in demo.submissions["finder"].glob(f"*/{case}/*/1.mat")]
        assert not region.any() or any((labels[region] > 0).any() for labels in masks)
