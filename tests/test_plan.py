"""The plan of a challenge from a pilot: power by simulation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import tifffile
from test_annotators import CASES, make
from test_story import FROZEN, made_challenge

from evaluation.analysis.fit import Fit
from evaluation.analysis.gaming import Field
from evaluation.analysis.made_teams import Skill, made_prediction, one_pixel_changes
from evaluation.analysis.plan import NUMBERS, Proposal, plan_column, plan_lines, smallest_of
from evaluation.challenge import Challenge
from evaluation.commands.main import run
from evaluation.instances.labels import instances_from_labels
from evaluation.instances.prepare import PreparedReference
from evaluation.instances.runs import empty_region
from evaluation.leaderboard.annotators import annotators_document
from evaluation.model import Case, Instances
from evaluation.scoring.columns import check_columns

KEPT = Path(__file__).parent / "golden" / "kept_0.1"
LEVEL = 0.05 / 45  # ten teams
POINTS = """\
format_version = 1
name = "points"
[[classes]]
name = "Epithelial"
[reference]
format = "points_csv"
files = "reference/{case}.csv"
origin = "pixel_centre"
units = "px"
[submission]
format = "points_csv"
files = "{case}.csv"
origin = "pixel_centre"
units = "px"
missing_case = "worst"
missing_class_file = "empty"
[matching]
rules = [{ name = "near", rule = "centroid_closest_first", radius_px = 5.0, class_aware = false, ties = "first_pixel" }]
[metrics]
families = ["detection"]
boundary = "open"
[aggregation]
unit = "pooled"
undefined = "worst"
[ranking]
method = "sum_of_ranks"
ties = "min"
significance_level = 0.05
columns = [{ path = "detection.f1.pooled", direction = "descending" }]
"""


def theory(units: int, effect: float) -> float:
    """The power of a paired t-test, two-sided level, counted on the right side only: noncentral t."""
    limit = scipy.stats.t.ppf(1 - LEVEL / 2, units - 1)
    return float(scipy.stats.nct.sf(limit, units - 1, effect * np.sqrt(units)))


def test_the_power_is_that_of_the_t_test_for_normal_differences() -> None:
    draw = np.random.default_rng(3)
    values = np.stack([np.zeros(4000), draw.normal(scale=0.1, size=4000)])
    found = plan_column("x", values, 0.05, LEVEL, draw)
    assert found.spread == pytest.approx(0.1, rel=0.05)
    for units, power in zip(NUMBERS, found.power, strict=True):
        assert power == pytest.approx(theory(units, 0.5), abs=0.06), units
    assert found.needed == next(units for units in NUMBERS if theory(units, 0.5) >= 0.8)


def test_the_smallest_difference_has_a_power_of_four_fifths() -> None:
    draw = np.random.default_rng(3)
    smallest = smallest_of(draw.normal(size=4000), 30, LEVEL, draw)
    assert theory(30, smallest) == pytest.approx(0.8, abs=0.05)


def test_a_column_that_no_number_of_groups_decides_is_told() -> None:
    draw = np.random.default_rng(3)
    values = np.stack([np.zeros(40), draw.normal(scale=5, size=40)])
    assert plan_column("x", values, 0.01, LEVEL, draw).needed is None


def noisy_plan(proposed: bool) -> dict[str, object]:
    column = {"spread": 0.1, "smallest": 0.05, "margin": 0.02}
    columns = [
        {**column, "path": "detection.f1.pooled", "needed": 10, "noisy": False, "proposed": True},
        {**column, "path": "counting.r2.pooled", "needed": None, "noisy": True, "proposed": proposed},
    ]
    return {"columns": columns, "groups": 12, "pilot": "submissions", "fit": [], "not_proposed": []}


def test_noisy_columns_are_told_with_what_becomes_of_them() -> None:
    lines = plan_lines(noisy_plan(False))
    assert "too noisy" in lines[1] and "too noisy" not in lines[0]
    assert lines[2] == "Too noisy for 12 groups and left out of the proposed ranking: counting.r2.pooled."
    assert "kept" in plan_lines(noisy_plan(True))[2]


def squares(number: int, side: int = 10) -> Instances:
    """In a row, with as much space between them."""
    labels = np.zeros((3 * side, 2 * side * number + side), np.int64)
    for place in range(number):
        labels[side : 2 * side, (2 * place + 1) * side : (2 * place + 2) * side] = place + 1
    return instances_from_labels(labels, class_id=1)


def one_image(nuclei: Instances) -> tuple[Challenge, Field]:
    cases = (Case("a", "A", *nuclei.shape_yx, 0.25),)
    challenge = Challenge.from_preset("recommended", name="made", cases=cases)
    return challenge, Field(cases, (PreparedReference(nuclei, empty_region()),), {})


def test_what_a_pixel_changes_is_that_of_squares() -> None:
    challenge, field = one_image(squares(3))
    paths = {"segmentation.iou.pooled": "descending", "segmentation.hausdorff_px.pooled": "ascending"}
    columns = [{"path": path, "direction": direction} for path, direction in paths.items()]
    rules = challenge.ranking.model_validate(
        {**challenge.ranking.model_dump(), "columns": tuple(columns), "require": ()}
    )
    # eroded: 8 x 8 of 10 x 10, the worst of the three; the corner is then sqrt(2) away
    assert one_pixel_changes(challenge, rules, field) == pytest.approx([1 - 64 / 100, np.sqrt(2)], abs=1e-6)


def test_made_teams_make_the_mistakes_of_their_skill() -> None:
    nuclei = squares(2000)
    made = made_prediction(nuclei, Skill(0.2, 0.1, 0.3, 0.5), 1.0, 4, np.random.default_rng(1))
    areas, place = made.areas_px(), made.centroids_yx()[:, 0]
    there = place < 16  # added ones lie further down
    assert there.sum() == pytest.approx(1600, abs=60) and (~there).sum() == pytest.approx(200, abs=45)
    assert (made.class_id[there] != 1).mean() == pytest.approx(0.3, abs=0.04)
    shifted = place[there] == 15.5
    assert set(areas[there].tolist()) == {64, 100, 140}
    assert ((areas[there] != 100) | shifted).mean() == pytest.approx(0.5, abs=0.04)
    twice = (made_prediction(nuclei, Skill(0, 0, 0, 0), 1.0, 4, np.random.default_rng(1)) for _ in range(2))
    assert [of.run_start.tolist() for of in twice] == [nuclei.run_start.tolist()] * 2


def test_a_proposal_takes_nothing_that_breaks_the_rules() -> None:
    challenge, _ = one_image(squares(1))
    raw = {"format_version": 1, "name": "made", "preset": "recommended"}
    proposal = Proposal(raw, challenge)
    proposal.take("metrics", {"tolerance_px": 2.0}, "tolerance")  # without a measure that has one
    assert proposal.document == raw and proposal.refused[0].startswith("tolerance: [contradictory-rules]")
    rule = {"name": "planned", "rule": "iou_above", "threshold": 0.6, "class_aware": False, "ties": "first_pixel"}
    proposal.take_fit(Fit(rule, 2, 7.0, 0.4, ()))
    assert [of.name for of in proposal.challenge.matching.rules] == ["planned", "iou_above", "centroid_closest_first"]
    assert (proposal.challenge.metrics.tolerance_px, proposal.challenge.metrics.distance_cap_px) == (2, 7)
    assert [of.at_least for of in proposal.challenge.ranking.require] == [0.4]


def test_a_column_that_missed_nuclei_cost_stays_though_it_is_noisy() -> None:
    challenge, _ = one_image(squares(1))
    columns = [
        {"path": path, "direction": "descending"}
        for path in ("detection.f1.pooled", "segmentation.iou.pooled", "classification.accuracy.pooled")
    ]
    rules = challenge.ranking.model_validate({**challenge.ranking.model_dump(), "columns": tuple(columns)})
    proposal = Proposal({"format_version": 1, "name": "made", "preset": "recommended"}, challenge)
    proposal.take_columns(rules, [0.02] * 3, [True, False, True])
    assert proposal.paths == {"detection.f1.pooled", "segmentation.iou.pooled"}


def test_without_submissions_a_challenge_is_proposed_that_is_valid(tmp_path: Path, capfd) -> None:
    made_challenge(tmp_path / "pilot", slice(None))
    for folder, workers in (("out", "1"), ("again", "2")):
        places = ["--challenge", str(tmp_path / "pilot"), "--output", str(tmp_path / folder), "--workers", workers]
        assert run(["plan", *places, "--teams", "6", "--report"]) == 0
    told = capfd.readouterr().out
    assert "the teams are made" in told and "tell teams apart by" in told and "Cap of distances" in told
    names = ("plan.json", "challenge.toml", "plan.html")
    assert all((tmp_path / "out" / of).read_bytes() == (tmp_path / "again" / of).read_bytes() for of in names)
    shutil.copy(tmp_path / "pilot/cases.csv", tmp_path / "out")
    proposed = Challenge.load(tmp_path / "out")
    check_columns(proposed)
    assert proposed.matching.rules[0].rule == "centroid_closest_first"  # a pixel costs 0.18 of IoU there
    document = json.loads((tmp_path / "out/plan.json").read_text())
    assert {of.path: of.margin for of in proposed.ranking.columns} == {
        of["path"]: of["margin"] for of in document["columns"] if of["proposed"]
    }
    assert "Too noisy" in (tmp_path / "out/plan.html").read_text()


def test_points_are_planned_without_outlines(tmp_path: Path, capfd) -> None:
    rows = "\n".join(f"c{n},P{n},100,100,0.25" for n in range(6))
    (tmp_path / "reference").mkdir()
    draw = np.random.default_rng(1)
    for n in range(6):
        lines = [f"{x},{y},Epithelial" for x, y in draw.integers(5, 95, (12, 2)).tolist()]
        (tmp_path / f"reference/c{n}.csv").write_text("\n".join(["x,y,class", *lines]) + "\n")
    (tmp_path / "cases.csv").write_text(f"case,group,height,width,spacing_um\n{rows}\n")
    (tmp_path / "challenge.toml").write_text(POINTS)
    assert run(["plan", "--challenge", str(tmp_path), "--teams", "2"]) == 0
    told = capfd.readouterr().out
    assert "Nuclei without outlines" in told and "detection.f1.pooled: spread" in told


@pytest.mark.parametrize("made", [True, False])
def test_few_groups_are_not_simulated_and_the_rest_is_planned(made: bool, tmp_path: Path, capfd) -> None:
    challenge, groups = (FROZEN / "challenge", 4) if made else (KEPT / "challenge", 2)
    results = [] if made else ["--results", str(KEPT / "first")]
    assert run(["plan", "--challenge", str(challenge), *results, "--output", str(tmp_path), "--report"]) == 0
    told = f"{groups} groups (patients) are too few to simulate how many are needed: 5 at least."
    assert told in capfd.readouterr().out
    document = json.loads((tmp_path / "plan.json").read_text())
    assert {(of["needed"], of["noisy"], of["spread"], *of["power"]) for of in document["columns"]} == {
        (None, False, None, *[None] * len(NUMBERS))
    }
    shutil.copy(challenge / "cases.csv", tmp_path)
    assert [of.path for of in Challenge.load(tmp_path).ranking.columns] == [of["path"] for of in document["columns"]]
    assert (tmp_path / "plan.html").read_text().count("are too few") == 1


def test_one_pilot_team_is_too_few(tmp_path: Path, capfd) -> None:
    shutil.copytree(KEPT / "first/finder", tmp_path / "finder")
    assert run(["plan", "--challenge", str(KEPT / "challenge"), "--results", str(tmp_path)]) == 2
    assert "1 teams" in capfd.readouterr().err


@pytest.mark.parametrize(("scale", "shift", "key", "expected"), [(4, 3, "tolerance", 3.0), (1, 4, "radius", 4.0)])
def test_annotators_bound_margin_radius_tolerance_and_floor(scale, shift, key, expected, tmp_path: Path) -> None:
    """The second one leaves out most squares, and draws the others some pixels further down."""
    first = {case: frozenset(range(16)) for case in CASES}
    second = {case: frozenset(range(index % 3 + 1)) for index, case in enumerate(CASES)}
    challenge, _ = make(tmp_path, {"one": first, "two": second}, {})
    for path in challenge.glob("*/**/*.tif"):
        large = np.kron(tifffile.imread(path), np.ones((scale, scale), np.uint16))
        tifffile.imwrite(path, np.roll(large, shift if path.parent.name == "two" else 0, axis=0))
    sizes = (challenge / "cases.csv").read_text()
    (challenge / "cases.csv").write_text(sizes.replace("50,60", f"{50 * scale},{60 * scale}"))
    apart = annotators_document(challenge, {})["distances"]
    assert apart["radius_px"] == apart["contour_px"] == shift
    assert run(["plan", "--challenge", str(challenge), "--output", str(tmp_path / "out"), "--report"]) == 0
    document = json.loads((tmp_path / "out/plan.json").read_text())
    (column,) = document["columns"]
    assert column["annotators"] > 0.3 and "Annotators place 95 % of the nuclei" in " ".join(document["fit"])
    assert column["margin"] == pytest.approx(max(column["annotators"], column["one_pixel"]), rel=0.05)
    proposed = document["proposed"]
    found = {
        "tolerance": proposed["metrics"].get("tolerance_px"),
        "radius": proposed["matching"]["rules"][0].get("radius_px"),
    }
    assert found[key] == expected
    if key == "tolerance":  # with n of 16 squares a pair of annotators has F1 2 n / (16 + n)
        reached = np.mean([2 * n / (16 + n) for n in [1, 2, 3, 1, 2, 3, 1, 2]])
        assert proposed["ranking"]["require"][0]["at_least"] == np.floor(reached / 2 / 0.05) * 0.05 > 0


def test_the_command_plans_from_results(tmp_path: Path, capfd) -> None:
    """Ten patients, made of two: the details of each team under other names."""
    shutil.copytree(KEPT / "challenge", tmp_path / "challenge")
    rows = [f"P{n}_1,P{n},280,330,0.25" for n in range(1, 11)]
    (tmp_path / "challenge/cases.csv").write_text("case,group,height,width,spacing_um\n" + "\n".join(rows) + "\n")
    from evaluation.challenge import Challenge

    new = Challenge.load(tmp_path / "challenge").hash
    for team in ("finder", "namer"):
        folder = tmp_path / "results" / team
        folder.mkdir(parents=True)
        for name in ("metrics.json", "details.json"):
            document = json.loads((KEPT / "first" / team / name).read_text())
            document["challenge"]["hash"] = new
            if name == "details.json":
                for kind, end in (("cases", "_1"), ("groups", "")):
                    old = document[kind]
                    document[kind] = {f"P{n}{end}": old[f"P{1 + n % 2}{end}"] for n in range(1, 11)}
            (folder / name).write_text(json.dumps(document))
    places = ["--challenge", str(tmp_path / "challenge"), "--results", str(tmp_path / "results")]
    assert run(["plan", *places, "--margin", "0.05", "--teams", "2", "--output", str(tmp_path / "out")]) == 0
    told = capfd.readouterr().out
    document = json.loads((tmp_path / "out/plan.json").read_text())
    assert document["groups"] == 10 and "detection.f1.group_mean: spread" in told
    f1 = [
        json.loads((tmp_path / "results" / team / "details.json").read_text())["groups"] for team in ("finder", "namer")
    ]
    of = [[each[f"P{n}"]["rules"]["iou_above"]["scores"]["detection"]["f1"] for n in range(1, 11)] for each in f1]
    assert document["columns"][0]["spread"] == pytest.approx(np.std(np.subtract(*of), ddof=1), abs=1e-6)
