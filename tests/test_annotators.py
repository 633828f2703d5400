"""Several annotators: agreement, teams beside it, and what is proposed from it; against sets of made squares."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import real_challenges as real
import scipy.stats
import tifffile

from benchmarks.claims import place_beside, places_beside_annotators
from evaluation import Challenge, score_instances
from evaluation.commands.main import run
from evaluation.instances.labels import instances_from_labels
from evaluation.leaderboard.annotators import annotator_lines, annotators_document, distances_between
from evaluation.leaderboard.board import score_and_rank
from evaluation.leaderboard.document import leaderboard_document
from evaluation.model import Case

CASES = tuple(f"case_{number}" for number in range(8))
F1, MAE = "detection.f1.group_mean", "counting.mean_absolute_error.group_mean"
Drawn = Mapping[str, frozenset[int]]  # the squares of each case, of 16


def draw(chance: float, seed: int) -> dict[str, frozenset[int]]:
    random = np.random.default_rng(seed)
    return {case: frozenset(np.flatnonzero(random.random(16) < chance).tolist()) | {0} for case in CASES}


def labels(squares: frozenset[int]) -> np.ndarray[Any, Any]:
    """Squares of 6 px on a grid of 4 x 4 places, 12 px apart; an image that is not square."""
    image = np.zeros((50, 60), np.uint16)
    for square in squares:
        y, x = divmod(square, 4)
        image[12 * y + 2 : 12 * y + 8, 12 * x + 3 : 12 * x + 9] = square + 1
    return image


def f1(one: frozenset[int], other: frozenset[int]) -> float:
    return 2 * len(one & other) / (len(one) + len(other))


def write(folder: Path, drawn: Drawn) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for case, squares in drawn.items():
        tifffile.imwrite(folder / f"{case}.tif", labels(squares))


def make(folder: Path, annotators: Mapping[str, Drawn], teams: Mapping[str, Drawn]) -> tuple[Path, Path]:
    challenge = real.write_rules(
        folder / "challenge",
        classes=["nucleus"],
        cases=[{"case": case, "group": f"P{index}", "height": 50, "width": 60, "spacing_um": 0.5}
               for index, case in enumerate(CASES)],
        reference={"format": "label_image", "files": "reference/{case}.tif", **real.KEEP},
        submission={"format": "label_image", "files": "{case}.tif", "missing_case": "worst"},
        rules=[real.iou_rule(0.5)],
        families=["detection"],
    )  # fmt: skip
    with (challenge / "challenge.toml").open("a") as rules:
        rules.write(
            '\n[ranking]\nmethod = "sum_of_ranks"\nties = "min"\nsignificance_level = 0.05\n'
            f'columns = [{{ path = "{F1}", direction = "descending" }}]\n'
        )
    write(challenge / "reference", next(iter(annotators.values())))
    for name, drawn in annotators.items():
        write(challenge / "annotators" / name, drawn)
    for name, drawn in teams.items():
        write(folder / "teams" / name, drawn)
    return challenge, folder / "teams"


def paths(teams: Path) -> dict[str, Path]:
    return {path.name: path for path in teams.iterdir()} if teams.is_dir() else {}


def column(document: Mapping[str, Any]) -> Any:
    return document["columns"][0]


def by_name(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {of["name"]: of["value"] for of in cells}


READERS = {"one": draw(0.6, 1), "two": draw(0.7, 2), "three": draw(0.5, 3)}


def test_agreement_is_that_of_the_sets_that_were_drawn_by_case_group_and_all_with_a_t_interval(tmp_path: Path) -> None:
    challenge, _ = make(tmp_path, READERS, {})
    found = column(annotators_document(challenge, {}))
    of_pairs = {}
    for pair in found["pairs"]:
        one, other = READERS[pair["scored"]], READERS[pair["reference"]]
        wanted = {case: f1(one[case], other[case]) for case in CASES}
        assert by_name(pair["cases"]) == pytest.approx(wanted, abs=1e-6)
        assert list(by_name(pair["groups"]).values()) == pytest.approx(list(wanted.values()), abs=1e-6)
        assert pair["value"] == pytest.approx(np.mean(list(wanted.values())), abs=1e-6)
        of_pairs[pair["scored"], pair["reference"]] = list(wanted.values())
    assert set(of_pairs) == set(permutations(READERS, 2))
    of_group = np.mean(list(of_pairs.values()), axis=0)
    interval = scipy.stats.t.interval(0.95, 7, of_group.mean(), scipy.stats.sem(of_group))
    agreement = found["agreement"]
    assert agreement["units"] == 8
    assert (agreement["mean"], agreement["low"], agreement["high"]) == pytest.approx(
        (of_group.mean(), *interval), abs=1e-6
    )


def test_agreement_is_what_the_array_api_says_with_one_annotator_as_the_submission(tmp_path: Path) -> None:
    folder, _ = make(tmp_path, READERS, {})
    images = {case: (labels(READERS["two"][case]), labels(READERS["one"][case])) for case in CASES}
    groups = {case: f"P{index}" for index, case in enumerate(CASES)}
    wanted = score_instances(Challenge.load(folder), images, groups=groups, spacing_um=0.5).value(F1)
    (pair,) = (
        of
        for of in column(annotators_document(folder, {}))["pairs"]
        if (of["scored"], of["reference"]) == ("one", "two")
    )
    assert pair["value"] == pytest.approx(wanted, abs=1e-6)


def test_teams_against_each_annotator_and_all_and_what_another_annotator_changes(tmp_path: Path) -> None:
    two = {name: READERS[name] for name in ("one", "two")}
    team = draw(0.5, 9)
    challenge, teams = make(tmp_path, two, {"team": team})
    found = column(annotators_document(challenge, paths(teams)))
    values = {name: [f1(team[case], drawn[case]) for case in CASES] for name, drawn in two.items()}
    (entry,) = found["teams"]
    assert {of["reference"]: of["value"] for of in entry["against"]} == pytest.approx(
        {name: np.mean(of) for name, of in values.items()}, abs=1e-6
    )
    assert entry["all"]["mean"] == pytest.approx(np.mean(list(values.values())), abs=1e-6)
    assert found["proposed_margin"] == pytest.approx(abs(np.mean(values["one"]) - np.mean(values["two"])), abs=1e-6)


def test_two_annotators_without_a_team_propose_no_margin(tmp_path: Path) -> None:
    challenge, _ = make(tmp_path, {name: READERS[name] for name in ("one", "two")}, {})
    assert column(annotators_document(challenge, {}))["proposed_margin"] is None


def test_a_team_better_than_everybody_is_above_a_poor_one_below_and_a_copy_within(tmp_path: Path) -> None:
    truth = draw(1.0, 0)  # every annotator leaves out other squares of it
    readers = {name: {case: truth[case] - {number, number + 3, number + 6} for case in CASES}
               for name, number in (("one", 1), ("two", 2), ("three", 3))}  # fmt: skip
    teams = {"whole": truth, "poor": {case: frozenset({0, 15}) for case in CASES}, **readers}
    challenge, folder = make(tmp_path, readers, teams)
    places = {of["name"]: of["place"] for of in column(annotators_document(challenge, paths(folder)))["teams"]}
    assert places == {"whole": "above", "poor": "below", "one": "within", "two": "within", "three": "within"}


def test_a_team_between_a_good_and_a_poor_annotator_is_within(tmp_path: Path) -> None:
    truth = draw(1.0, 0)
    drawn = {"good": {15}, "better": {14}, "poor": set(range(4, 16)), "between": {3, 6, 9, 12}}
    of_all = {name: {case: truth[case] - left_out for case in CASES} for name, left_out in drawn.items()}
    team_drawn = of_all.pop("between")
    challenge, teams = make(tmp_path, of_all, {"between": team_drawn})
    (team,) = column(annotators_document(challenge, paths(teams)))["teams"]
    assert team["place"] == "within"


@pytest.mark.parametrize(
    ("drawings", "edge"), [("alike", None), ("one annotator better", "above"), ("one annotator worse", "below")]
)
@pytest.mark.parametrize("patients", [5, 25])
def test_a_team_at_human_agreement_is_seldom_called_above_or_below_it(drawings: str, edge: str, patients: int) -> None:
    """In at most half the level each way: 2.5 %, and 1.4 % for 500 boards; at the edge it does occur."""
    above, below = places_beside_annotators(drawings, 2, patients, boards=500, seed=3)
    assert max(above, below) <= 0.039
    if patients == 25 and edge:
        assert {"above": above, "below": below}[edge] >= 0.008


@pytest.mark.parametrize("good", [True, False])
def test_a_team_that_errs_a_quarter_or_twice_as_much_as_every_annotator_is_above_or_below(good: bool) -> None:
    """Scores against the others are exp(-d) of 25 patients, d the squared error of the one plus that of the other."""
    random, own = np.random.default_rng(4), 0.25 if good else 2.0
    drawn = random.normal(0, 0.2, (4, 25, 8)) * np.array([1, 1, 1, own])[:, None, None]
    score = np.exp(-((drawn[:, None] - drawn[None]) ** 2).mean(axis=-1))
    found = place_beside(
        [score[[-1, one], other] for one, other in permutations(range(3), 2)], higher_is_better=True, level=0.05
    )
    assert found == ("above" if good else "below")


def test_where_lower_is_better_whoever_is_farthest_from_all_is_below(tmp_path: Path) -> None:
    challenge, teams = make(tmp_path, READERS, {"poor": {case: frozenset({0}) for case in CASES}})
    rules = (challenge / "challenge.toml").read_text().replace('families = ["detection"]', 'families = ["counting"]')
    rules = rules.replace(f'"{F1}", direction = "descending"', f'"{MAE}", direction = "ascending"')
    (challenge / "challenge.toml").write_text(rules)
    found = column(annotators_document(challenge, paths(teams)))
    (pair,) = (of for of in found["pairs"] if (of["scored"], of["reference"]) == ("one", "two"))
    assert pair["value"] == np.mean([abs(len(READERS["one"][case]) - len(READERS["two"][case])) for case in CASES])
    assert found["teams"][0]["place"] == "below"


def test_equal_annotators_agree_wholly_and_no_team_is_above_them(tmp_path: Path) -> None:
    same = {"one": READERS["one"], "two": READERS["one"]}
    challenge, teams = make(tmp_path, same, {"copy": READERS["one"], "other": READERS["two"], "poor": draw(0.1, 5)})
    document = annotators_document(challenge, paths(teams))
    found = column(document)
    assert {found["agreement"][key] for key in ("mean", "low", "high")} == {1}
    assert {of["name"]: of["place"] for of in found["teams"]} == {"copy": "within", "other": "below", "poor": "below"}
    assert found["proposed_margin"] == 0 and document["distances"]["radius_px"] == 0
    assert not any("margin" in line or "radius" in line for line in annotator_lines(document))


def test_an_annotator_is_compared_in_the_cases_that_it_marked_and_few_groups_tell_nothing(tmp_path: Path) -> None:
    part = {case: READERS["two"][case] for case in CASES[:3]}
    challenge, teams = make(tmp_path, {"one": READERS["one"], "two": part}, {"team": draw(0.5, 9)})
    document = annotators_document(challenge, paths(teams))
    found = column(document)
    assert document["cases"] == [{"annotator": "one", "cases": 8}, {"annotator": "two", "cases": 3}]
    wanted = np.mean([f1(READERS["one"][case], part[case]) for case in CASES[:3]])
    assert found["agreement"] == {"mean": pytest.approx(wanted, abs=1e-6), "low": None, "high": None, "units": 3}
    assert by_name(found["pairs"][0]["cases"])[CASES[5]] is None
    assert found["teams"][0]["place"] is None


def test_the_radius_is_the_95th_percentile_of_what_both_marked_but_not_beyond_half_way_to_the_next_nucleus() -> None:
    case = Case("a", "P", 200, 200, 0.5)
    image = np.zeros((200, 200), np.uint16)
    image[20:26, 20:26], image[20:26, 120:126], image[120:126, 20:26] = 1, 2, 3
    one, near = (
        instances_from_labels(image, class_id=1),
        instances_from_labels(np.roll(image, (3, 4), (0, 1)), class_id=1),
    )
    found = distances_between([(case, one, near)], "open")
    assert (found["pairs"], found["radius_px"], found["radius_um"], found["next_px"]) == (3, 5, 2.5, 100)
    far = instances_from_labels(np.roll(image, (0, 60), (0, 1)), class_id=1)
    assert distances_between([(case, one, far)], "open")["radius_px"] <= 50


def test_the_leaderboard_shows_it_without_groups_and_cases_and_changes_nothing_else(tmp_path: Path) -> None:
    challenge, teams = make(tmp_path, READERS, {"a": draw(0.5, 9), "b": draw(0.6, 8)})
    board = leaderboard_document(score_and_rank(challenge, teams, tmp_path / "with", workers=1))
    shown = column(board["annotators"])
    private = column(annotators_document(challenge, paths(teams)))
    assert shown["agreement"] == private["agreement"]
    assert [of["place"] for of in shown["teams"]] == [of["place"] for of in private["teams"]]
    assert not any(case in json.dumps(board["annotators"]) for case in CASES) and '"groups"' not in json.dumps(shown)
    shutil.rmtree(challenge / "annotators")
    without = leaderboard_document(score_and_rank(challenge, teams, tmp_path / "without", workers=1))
    assert without == {key: value for key, value in board.items() if key != "annotators"}
    metrics = [(tmp_path / name / "results/a/metrics.json").read_bytes() for name in ("with", "without")]
    assert metrics[0] == metrics[1]


def test_the_commands_print_it_and_the_proposal_is_toml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    challenge, teams = make(tmp_path, READERS, {"a": draw(0.5, 9)})
    arguments = ["--challenge", str(challenge), "--submissions", str(teams), "--output"]
    assert run(["annotators", *arguments, str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    proposed = tomllib.loads(printed.partition("Proposed for challenge.toml:\n")[2].partition("Written")[0])
    margin = column(json.loads((tmp_path / "out/annotators.json").read_text()))["proposed_margin"]
    assert proposed["ranking"]["columns"][0]["margin"] == pytest.approx(margin, rel=1e-4)
    assert "a 0." in printed and "annotators agree 0." in printed
    assert run(["leaderboard", *arguments, str(tmp_path / "board")]) == 0
    assert "How well annotators agree" in capsys.readouterr().out


@pytest.mark.parametrize("left", [0, 1])
def test_fewer_than_two_annotators_are_the_fault_of_the_challenge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], left: int
) -> None:
    challenge, _ = make(tmp_path, READERS, {})
    for name in list(READERS)[left:]:
        shutil.rmtree(challenge / "annotators" / name)
    assert run(["annotators", "--challenge", str(challenge)]) == 3
    assert f"[missing-file] 'annotators/': {left} folders; expected 2 to 100" in capsys.readouterr().err


def test_the_two_annotations_of_monkey_agree_as_far_as_their_pairs_say(shared_data: Path, tmp_path: Path) -> None:
    made = real.monkey(shared_data, tmp_path, [real.radius_rule(16, name="near")])
    with (made.challenge / "challenge.toml").open("a") as rules:
        rules.write(
            '\n[ranking]\nmethod = "sum_of_ranks"\nties = "min"\nsignificance_level = 0.05\ncolumns = [\n'
            '  { path = "detection.f1.pooled", direction = "descending" },\n'
            '  { path = "classification.accuracy.pooled", direction = "descending" },\n]\n'
        )
    first, second = (made.challenge / "annotators" / name for name in ("dots", "published"))
    shutil.copytree(made.challenge / "reference", second)
    first.mkdir()
    dots = ElementTree.parse(shared_data / "monkey" / "A_P000001.xml").getroot().iter("Annotation")
    points: dict[str, list[dict[str, Any]]] = {"lymphocytes": [], "monocytes": []}
    for dot in dots:
        if dot.get("PartOfGroup") in points:
            place = next(dot.iter("Coordinate"))
            points[dot.get("PartOfGroup", "")].append({"point": [float(place.get("X", "")), float(place.get("Y", ""))]})
    for name, of_class in points.items():
        document = {"name": name, "type": "Multiple points", "points": of_class, "version": {"major": 1, "minor": 0}}
        (first / f"A_P000001_{name}.json").write_text(json.dumps(document))
    document = annotators_document(made.challenge, {"dots": made.submission})
    f1_of, accuracy = document["columns"]
    # SOURCES.md: of 1,240 dots and 1,121 points 1,117 pairs within 16 px; 460 and 621 of them with the same class
    assert [of["value"] for of in f1_of["pairs"]] == pytest.approx([2 * 1117 / (1240 + 1121)] * 2, abs=1e-6)
    assert [of["value"] for of in accuracy["pairs"]] == pytest.approx([(460 + 621) / 1117] * 2, abs=1e-6)
    assert [of["value"] for of in f1_of["teams"][0]["against"]] == pytest.approx([1, 2 * 1117 / 2361], abs=1e-6)
    assert f1_of["agreement"]["low"] is None and f1_of["teams"][0]["place"] is None  # one patient
    assert (
        0 == document["distances"]["median_px"] < document["distances"]["radius_px"] < 16
    )  # 1,040 are the very points
