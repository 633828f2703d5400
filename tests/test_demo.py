"""The made challenge: the same bytes again, and all the difficulties it is there to show."""

from __future__ import annotations

from pathlib import Path

from evaluation.authoring.demo import TEAMS, DemoPaths, run_demo, write_demo
from evaluation.challenge import Challenge

SHIPPED = Path(__file__).resolve().parents[1] / "ground_truth"


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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
