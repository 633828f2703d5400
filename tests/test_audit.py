"""Audits: what becomes of a ranking under other rules, and whether the first place can be defended."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_format import challenge_document, toml
from frozen_demo import copy_frozen_demo
from scipy.ndimage import binary_dilation, binary_erosion
from scipy.stats import kendalltau

import evaluation.analysis.audit as audit_module
from evaluation import Case, Challenge, ChallengeBroken, score_submission
from evaluation.analysis.audit import audit_challenge, audit_runs, plan_audit, score_runs, table_of
from evaluation.analysis.audit_document import (
    Audit,
    Dimension,
    audit_csv,
    audit_document,
    audit_json,
)
from evaluation.analysis.variants import audit_positions, audit_scores, neighbours, tell_variants
from evaluation.challenge.rules import AuditRules
from evaluation.commands import main as cli
from evaluation.formats.write_labels import write_label_tiff
from evaluation.instances.labels import instances_from_labels
from evaluation.instances.perturb import perturb_instances
from evaluation.leaderboard import board as leaderboard
from evaluation.leaderboard import index
from evaluation.leaderboard.board import build_board, load_ranked, score_and_rank
from evaluation.leaderboard.teams import Team, challenge_key
from evaluation.model import Instances
from evaluation.ranking.stability import undrawn
from evaluation.report.audit import audit_page
from evaluation.report.terminal import page_renderables
from evaluation.scoring.from_files import score_then

SHAPE = (40, 60)
CASES = {"a": ("P1", 6), "b": ("P1", 3), "c": ("P2", 8), "d": ("P3", 5)}  # group and number of nuclei
FEW = {"overlap": [], "thresholds": [0.6], "units": ["pooled"], "methods": [], "patients": False}


def squares(number: int, *, left: int = 0, right: int = 0, grow: int = 0) -> np.ndarray[Any, Any]:
    """Squares of 8 px, ``left`` and ``right`` columns less, ``grow`` px more on each side."""
    labels = np.zeros(SHAPE, np.uint16)
    for place in range(number):
        y, x = 4 + 18 * (place // 4), 4 + 14 * (place % 4)
        labels[y - grow : y + 8 + grow, x + left - grow : x + 8 - right + grow] = place + 1
    return labels


TEAMS = {
    "narrow": lambda number: squares(number, right=1),  # first, unless all nuclei are eroded
    "thick": lambda number: squares(number, grow=1),
    "few": lambda number: squares(number // 2),
}


def document(**tables: Any) -> dict[str, Any]:
    """One class of label images, ranked by PQ."""
    side = {"format": "label_image", "files": "{case}.tif"}
    rule = {"rule": "iou_above", "threshold": 0.5, "class_aware": False, "ties": "first_pixel"}
    return {
        "format_version": 1,
        "name": "Squares",
        "classes": [{"name": "nucleus"}],
        "reference": side | {"files": "reference/{case}.tif", "overlap": "keep", "overlap_scope": "image"},
        "submission": side | {"missing_case": "worst", "missing_class_file": "empty"},
        "matching": {"rules": [{"name": "iou", **rule}]},
        "metrics": {"families": ["detection", "panoptic"], "boundary": "open"},
        "aggregation": {"unit": "group", "undefined": "skip"},
        "ranking": {
            "method": "sum_of_ranks",
            "ties": "min",
            "significance_level": 0.05,
            "columns": [{"path": "panoptic.pq.group_mean", "direction": "descending"}],
        },
        **tables,
    }


def write_images(folder: Path, drawn: Any, cases: Any = CASES) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for case, (_, number) in cases.items():
        (folder / f"{case}.tif").write_bytes(write_label_tiff(instances_from_labels(drawn(number))))


def make(folder: Path, teams: Any = TEAMS, cases: Any = CASES, **tables: Any) -> tuple[Path, Path]:
    """A challenge and the submissions of teams; returns both folders."""
    challenge, submissions = folder / "challenge", folder / "submissions"
    write_images(challenge / "reference", squares, cases)
    rows = [f"{case},{group},{SHAPE[0]},{SHAPE[1]}" for case, (group, _) in cases.items()]
    (challenge / "cases.csv").write_text("\n".join(["case,group,height,width", *rows, ""]))
    (challenge / "challenge.toml").write_text(toml(document(**tables)))
    submissions.mkdir(exist_ok=True)
    for team, drawn in teams.items():
        write_images(submissions / team, drawn, cases)
    return challenge, submissions


def run(folder: Path, output: str = "out", **given: Any) -> Audit:
    return audit_challenge(*make(folder, **given), folder / output, workers=1)


def challenge_of(**tables: Any) -> Challenge:
    cases = tuple(Case(case, group, *SHAPE) for case, (group, _) in CASES.items())
    return Challenge.build({**document(**tables), "cases": cases})


def plan_of(**audit: Any) -> Any:
    challenge = challenge_of(audit=audit)
    assert challenge.ranking is not None
    return plan_audit(challenge, challenge.ranking)


# --- the answer -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flipping(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Audit]:
    folder = tmp_path_factory.mktemp("flips")
    return folder, run(folder, audit=FEW)


def test_a_first_place_that_erosion_overturns_is_told_apart_from_the_rules(flipping: tuple[Path, Audit]) -> None:
    found = flipping[1]
    assert found.verdict == "yes"
    assert found.variants == 4 * 2 * 2  # predictions, thresholds, units
    assert found.answer == ("The first place of 'narrow' can be defended: it is first in 4 of 4 variants.",)
    assert found.robustness[0].startswith(
        "With the predictions of all teams changed by one pixel the first place is as published in 8 of 12 variants."
    )


def test_what_swaps_two_teams_is_counted_with_the_predictions(flipping: tuple[Path, Audit]) -> None:
    assert not [s for s in flipping[1].swaps if {s.ahead, s.behind} == {"narrow", "thick"}]  # by no rule
    effects = {effect.dimension: effect for effect in flipping[1].effects}
    assert (effects["predictions"].comparisons, effects["predictions"].first_changes) == (6 * 4, 3 * 4)
    assert effects["unit"].first_changes == effects["threshold"].first_changes == effects["overlap"].comparisons == 0


def test_a_first_place_that_no_rule_moves_is_not_shown_for_other_patients_by_three(tmp_path: Path) -> None:
    teams = {"good": squares, "few": TEAMS["few"]}
    found = run(tmp_path, teams=teams, audit={"thresholds": [0.4]})
    assert found.verdict == "undecided"
    assert found.answer == (
        "The first place of 'good' holds under all rules: it is first in "
        f"{(found.variants - 3) // 4} of {(found.variants - 3) // 4} variants.",  # 3 patients, 4 kinds of predictions
        "Whether it would hold with other patients is not shown: no test finds it better than 'few'.",
    )
    assert found.swaps == ()
    assert {effect.first_changes for effect in found.effects} == {0}
    assert found.agreement.mean == found.agreement.low == 1.0
    assert [(team.name, team.low, team.high) for team in found.trust] == [("good", 1.0, 1.0), ("few", 2.0, 2.0)]


def test_a_first_place_that_is_shared_where_nuclei_are_eroded_is_told_apart(tmp_path: Path) -> None:
    """Squares of 36 in 64 px have an IoU of 0.5625: above 0.6 nothing is found by anybody."""
    found = run(tmp_path, teams={"good": squares, "few": TEAMS["few"]}, audit={"thresholds": [0.6], "patients": False})
    perturbed, shared = found.variants * 3 // 4, found.variants // 8  # eroded, and above 0.6
    assert found.verdict == "undecided"  # two teams in three patients
    assert f"as published in {perturbed - shared} of {perturbed} variants" in found.robustness[0]


# --- the variants are what they say -----------------------------------------------------------------------------------


def perturbed(labels: np.ndarray[Any, Any], how: str) -> np.ndarray[Any, Any]:
    """Each nucleus by itself with scipy; the squares are too far apart to touch."""
    if how == "shifted":
        return np.pad(labels, ((0, 0), (1, 0)))[:, :-1]
    change = {"eroded": binary_erosion, "dilated": binary_dilation, "none": lambda mask: mask}[how]
    return sum((change(labels == label) * label for label in np.unique(labels)[1:]), np.zeros_like(labels))


@pytest.mark.parametrize("how", ["none", "eroded", "dilated", "shifted"])
def test_a_variant_has_the_scores_of_a_challenge_with_its_rules(
    flipping: tuple[Path, Audit], tmp_path: Path, how: str
) -> None:
    """Scored from scratch: predictions changed by scipy, the threshold and the unit written into the challenge."""
    rule = {"name": "iou", "rule": "iou_above", "threshold": 0.6, "class_aware": False, "ties": "first_pixel"}
    teams = {
        name: lambda number, drawn=drawn: perturbed(drawn(number), how).astype(np.uint16)
        for name, drawn in TEAMS.items()
    }
    challenge, submissions = make(tmp_path, teams=teams, matching={"rules": [rule]})
    values = [
        score_submission(challenge, submissions / t, workers=1).value("panoptic.pq.pooled") for t in sorted(teams)
    ]
    found = flipping[1]
    wanted = {"threshold": "0.6", "unit": "pooled", "predictions": how}
    (place,) = [v for v in range(found.variants) if wanted.items() <= found.setting(v).items()]
    expected = [1 + sum(other > value for other in values) for value in values]
    assert dict(zip(found.teams, found.position[place], strict=True)) == dict(zip(sorted(teams), expected, strict=True))
    plan = plan_audit(*load_ranked(flipping[0] / "challenge"))
    run_place = next(i for i, r in enumerate(plan.runs) if r.predictions == how)
    scored = [
        score_runs(
            plan, flipping[0] / "challenge", "", Team(t, flipping[0] / "submissions" / t), tmp_path / t, 1, print
        )[0]
        for t in sorted(teams)
    ]
    table = table_of(plan, scored, run_place, plan.matchings[1], "pooled")
    assert table.overall[:, 0].tolist() == values


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any], Any]:
    """The demo under two matching rules, three units and three methods: one run of each team."""
    folder = tmp_path_factory.mktemp("demo")
    made = copy_frozen_demo(folder)
    with (made.challenge / "challenge.toml").open("a") as stream:
        stream.write('[audit]\noverlap = ["class_order"]\nignore = ["clip"]\npredictions = ["none"]\n')
    challenge, rules = load_ranked(made.challenge)
    plan = plan_audit(challenge, rules)
    teams = [
        score_runs(plan, made.challenge, "", Team(name, path), folder / "kept" / name, 1, lambda _: None)[0]
        for name, path in made.submissions.items()
    ]
    return folder, teams, plan


def test_the_published_variant_is_the_leaderboard(demo: tuple[Path, list[Any], Any]) -> None:
    folder, teams, plan = demo
    board = score_and_rank(folder / "challenge", folder / "submissions", folder / "board", workers=1)
    found = audit_runs(plan, teams, ())
    assert found.published == 0
    assert set(found.setting(0).values()) == {
        *("iou_above", "as written", "group_mean", "class_order", "clip", "none", "all", "sum_of_ranks")
    }
    assert {row.name: (row.position, row.combined) for row in board.teams} == {
        name: (found.position[0, team], found.combined[0, team]) for team, name in enumerate(found.teams)
    }
    assert [team.name for team in found.trust] == [row.name for row in board.teams]


def no_samples(plain: Any) -> Any:
    return undrawn(plain.position, 0)


@pytest.mark.parametrize("ex_aequo", [False, True])
@pytest.mark.parametrize("method", ["median_of_ranks", "aggregate_then_rank", "rank_then_aggregate", "test_then_rank"])
def test_every_variant_is_the_leaderboard_of_its_table(
    demo: tuple[Path, list[Any], Any], method: str, ex_aequo: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaderboard, "draw_samples", lambda table, rules, plain: no_samples(plain))
    _, teams, plan = demo
    rules = plan.rules.model_copy(update={"method": method, "ex_aequo": ex_aequo})
    varied = replace(plan, rules=rules, methods=(method,))
    found = audit_runs(varied, teams, ())
    for place, (matching, unit) in enumerate(product(plan.matchings, plan.units)):
        board = build_board(table_of(varied, teams, 0, matching, unit), rules)
        expected = {row.name: (row.position, row.combined) for row in board.teams}
        assert {
            name: (found.position[place, team], found.combined[place, team]) for team, name in enumerate(found.teams)
        } == expected


def test_differences_are_counted_over_all_tables(demo: tuple[Path, list[Any], Any]) -> None:
    _, teams, plan = demo
    rules = plan.rules.model_copy(update={"significance_level": 0.2})
    varied = replace(plan, rules=rules)
    found = audit_runs(varied, teams, ())
    boards = [build_board(table_of(varied, teams, 0, m, u), rules) for m, u in product(plan.matchings, plan.units)]
    assert found.differences
    for difference in found.differences:
        k = [column.path for column in rules.columns].index(difference.column)
        times = 0
        for board in boards:
            test = board.columns[k].test
            assert test is not None
            i, j = board.compared.index(difference.better), board.compared.index(difference.worse)
            times += int(test.better[i, j] == 1)
        assert (difference.significant, difference.tables) == (times, len(boards))
    assert any(difference.survives for difference in found.differences)


def test_points_are_shifted_and_never_eroded() -> None:
    none = np.empty(0, np.int64)
    points = np.array([[1.0, 2.0], [3.0, 8.6]])
    nuclei = Instances(
        (5, 10), np.array([1, 1], np.int16), np.array([1, 2]), none, none, none.astype(np.int32), point_yx=points
    )
    assert perturb_instances(nuclei, "eroded") is perturb_instances(nuclei, "dilated") is nuclei
    assert perturb_instances(nuclei, "shifted").point_yx.tolist() == [[1.0, 3.0]]  # the other one left the image
    whole = instances_from_labels(squares(3))
    assert perturb_instances(whole, "none") is whole


# --- what is varied ---------------------------------------------------------------------------------------------------


def test_what_is_not_listed_comes_from_the_challenge(demo: tuple[Path, list[Any], Any]) -> None:
    challenge = demo[2].challenge.model_copy(update={"audit": AuditRules()})
    plan = plan_audit(challenge, demo[2].rules)
    assert {dimension.name: dimension.values for dimension in plan.dimensions()} == {
        "matching": ("iou_above", "best_iou_centroid_inside"),
        "threshold": ("as written", "0.4", "0.6"),
        "unit": ("group_mean", "pooled", "case_mean"),
        "overlap": ("class_order", "keep", "last"),
        "ignore": ("clip", "drop_centroid"),
        "predictions": ("none", "eroded", "dilated", "shifted"),
        "weights": (
            "as written",
            *(f"{column.path} {how}" for column in plan.rules.columns for how in ("without", "x 0.5", "x 2")),
        ),
        "patients": ("all", "without P1", "without P2", "without P3", "without P4"),
        "method": ("sum_of_ranks", "median_of_ranks", "rank_then_aggregate"),
    }
    assert len(plan.runs) == 3 * 2 * 4
    assert plan.combinations == 24 * (2 + 2) * 3 * 3


def test_the_audit_does_not_enter_the_hash() -> None:
    assert challenge_of(audit={"thresholds": [0.75]}).hash == challenge_of().hash


def test_the_audit_makes_no_result_of_the_leaderboard_new(tmp_path: Path) -> None:
    plain = challenge_key(make(tmp_path)[0], Challenge.load(tmp_path / "challenge"))
    assert challenge_key(make(tmp_path, audit=FEW)[0], Challenge.load(tmp_path / "challenge")) == plain


def test_the_example_of_the_page_runs_and_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).resolve().parents[1] / "docs/audit.md").read_text()
    code, printed = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)[0]
    exec(compile(code, "docs/audit.md", "exec"), {"__name__": "documentation"})
    assert capsys.readouterr().out == printed


def test_the_table_of_the_page_can_be_read(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[1] / "docs/audit.md").read_text()
    (table,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    made = copy_frozen_demo(tmp_path)
    with (made.challenge / "challenge.toml").open("a") as stream:
        stream.write(table)
    values = {d.name: d.values for d in plan_audit(*load_ranked(made.challenge)).dimensions()}
    assert values["threshold"] == ("as written", "0.4", "0.6", "0.75")
    assert values["overlap"] == ("class_order",)
    assert values["matching"][-1] == "near"
    assert values["method"] == ("sum_of_ranks", "test_then_rank")


def test_label_images_have_no_overlap_to_vary_and_one_column_no_median() -> None:
    plan = plan_of()
    values = {dimension.name: dimension.values for dimension in plan.dimensions()}
    assert values["overlap"] == ("keep",)
    assert values["ignore"] == ("none",)
    assert values["method"] == ("sum_of_ranks", "rank_then_aggregate")


def test_a_unit_that_is_another_by_another_name_is_left_out() -> None:
    challenge = challenge_of()
    assert challenge.ranking is not None
    alone = challenge.model_copy(update={"cases": tuple(replace(case, group=case.name) for case in challenge.cases)})
    together = challenge.model_copy(update={"cases": tuple(replace(case, group="P") for case in challenge.cases)})
    one = challenge.model_copy(update={"cases": challenge.cases[:1]})
    assert plan_audit(alone, challenge.ranking).units == ("group_mean", "pooled")
    assert plan_audit(together, challenge.ranking).units == ("group_mean", "case_mean")
    assert plan_audit(one, challenge.ranking).units == ("group_mean",)


def test_a_rule_under_which_a_column_has_no_value_is_left_out_and_told() -> None:
    aware = {"name": "aware", "rule": "iou_above", "threshold": 0.5, "class_aware": True, "ties": "first_pixel"}
    ranking = document()["ranking"] | {
        "columns": [{"path": "classification.accuracy.pooled", "direction": "descending"}]
    }
    metrics = {"families": ["detection", "classification"], "boundary": "open"}
    challenge = challenge_of(audit={"matching": [aware]}, ranking=ranking, metrics=metrics)
    assert challenge.ranking is not None
    plan = plan_audit(challenge, challenge.ranking)
    assert [matching.rule for matching in plan.matchings] == ["iou"] * 3
    assert any("aware is left out" in note for note in plan.notes)
    listed = challenge_of(audit={"matching": [aware]})
    assert listed.ranking is not None
    assert {matching.rule for matching in plan_audit(listed, listed.ranking).matchings} == {"iou", "aware"}


def test_columns_that_no_matching_rule_changes_are_not_ranked_under_several() -> None:
    ranking = document()["ranking"] | {"columns": [{"path": "objects.dice.pooled", "direction": "descending"}]}
    metrics = {"families": ["detection", "objects"], "boundary": "open"}
    challenge = challenge_of(ranking=ranking, metrics=metrics)
    assert challenge.ranking is not None
    plan = plan_audit(challenge, challenge.ranking)
    assert len(plan.matchings) == 1
    assert any("no column" in note for note in plan.notes)


def test_overlap_and_ignore_rules_that_contradict_each_other_are_left_out_and_told() -> None:
    plan = plan_of(overlap=["ignore", "last"])
    assert {run.overlap for run in plan.runs} == {"keep", "last"}
    assert any("Overlap ignore" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("audit", "where"),
    [
        ({"thresholds": [i / 2000 for i in range(1, 1000)]}, "audit"),
        ({"ignore": ["clip"]}, "audit.ignore"),
        (
            {"matching": [document()["matching"]["rules"][0]]},
            "audit.matching",
        ),
    ],
)
def test_lists_that_contradict_the_challenge_are_refused(audit: Any, where: str) -> None:
    with pytest.raises(ChallengeBroken) as caught:
        plan_of(**audit)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("contradictory-rules", f"challenge.toml: {where}")


def test_absolute_is_refused_for_several_columns(demo: tuple[Path, list[Any], Any]) -> None:
    challenge = demo[2].challenge.model_copy(update={"audit": AuditRules(methods=("absolute",))})
    with pytest.raises(ChallengeBroken, match="'absolute' with 4 columns"):
        plan_audit(challenge, demo[2].rules)


def test_unknown_keys_of_the_audit_are_refused() -> None:
    with pytest.raises(ChallengeBroken, match="unknown-key"):
        challenge_of(audit={"threshold": [0.5]})


@pytest.mark.parametrize(("kind", "predictions"), [("points_csv", ("none", "shifted")), ("counts_csv", ("none",))])
def test_only_what_a_format_can_do_is_done_to_predictions(kind: str, predictions: tuple[str, ...]) -> None:
    family, metric = ("detection", "f1") if kind == "points_csv" else ("counting", "r2")
    side = {"format": "counts_csv", "files": "counts.csv"}
    rules = challenge_document("points_csv" if kind == "points_csv" else "label_image by class")
    if kind == "counts_csv":
        del rules["matching"]
        rules["reference"] = side | {"files": "reference/counts.csv"}
        rules["submission"] |= side
        rules["metrics"] = {"families": ["counting"], "boundary": "open"}
        rules["submission"] = side | {"missing_case": "worst", "missing_class_file": "empty"}
    column = {"path": f"{family}.{metric}.pooled", "direction": "descending"}
    challenge = Challenge.build(
        {**rules, "ranking": document()["ranking"] | {"columns": [column]}, "audit": {"predictions": ["eroded"]}}
    )
    assert challenge.ranking is not None
    assert [run.predictions for run in plan_audit(challenge, challenge.ranking).runs] == ["none"]
    default = challenge.model_copy(update={"audit": AuditRules()})
    found = plan_audit(default, challenge.ranking)
    assert tuple(run.predictions for run in found.runs) == predictions


# --- what is kept -----------------------------------------------------------------------------------------------------


class Counter:
    """Counts the runs that are scored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = 0
        monkeypatch.setattr(audit_module, "score_then", self.score)

    def score(self, *arguments: Any, **options: Any) -> Any:
        self.runs += 1
        return score_then(*arguments, **options)


def test_a_second_audit_scores_nothing_and_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored = Counter(monkeypatch)
    first = run(tmp_path, audit=FEW)
    assert scored.runs == 4 * len(TEAMS)
    assert audit_json(run(tmp_path, audit=FEW)) == audit_json(first)
    assert scored.runs == 4 * len(TEAMS)
    more = run(tmp_path, audit=FEW | {"methods": ["rank_then_aggregate"]})  # methods ask for no scores
    assert more.variants == 2 * first.variants
    assert scored.runs == 4 * len(TEAMS)


def test_an_interrupted_audit_goes_on_and_what_changed_is_scored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = Counter(monkeypatch)
    first = run(tmp_path, audit=FEW)
    kept = sorted((tmp_path / "out/scores").rglob("*.json"))
    assert len(kept) == 12
    kept[0].unlink()
    kept[1].write_text(kept[1].read_text()[:-20])
    kept[2].write_text(kept[2].read_text().replace('"overall": [\n    0', '"overall": [\n    1'))
    scored.runs = 0
    assert audit_json(run(tmp_path, audit=FEW)) == audit_json(first)
    assert scored.runs == 3
    changed = run(tmp_path, audit=FEW, teams=TEAMS | {"few": lambda number: squares(number)})
    assert scored.runs == 3 + 4
    assert changed.trust[0].name == "few"


def test_nothing_of_an_unchanged_submission_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SETTLED_SECONDS", 0)
    first, read = run(tmp_path, audit=FEW), []
    key, kept = audit_module.submission_key, audit_module.read_scores
    monkeypatch.setattr(audit_module, "submission_key", lambda *of: (read.append(of[2].name), key(*of))[1])
    monkeypatch.setattr(audit_module, "read_scores", lambda *of: (read.append(of[0].name), kept(*of))[1])

    def again() -> str:
        read.clear()
        found = audit_challenge(tmp_path / "challenge", tmp_path / "submissions", tmp_path / "out", workers=1)
        return audit_json(found)

    assert again() == audit_json(first) and read == []
    path = sorted((tmp_path / "out/scores/few").iterdir())[0]
    path.write_text(path.read_text())
    assert again() == audit_json(first) and read[0] == "few" and len(read) == 1 + 4
    assert again() == audit_json(first) and read == []


def test_another_reference_is_another_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored = Counter(monkeypatch)
    run(tmp_path, audit=FEW)
    (tmp_path / "challenge/reference/a.tif").write_bytes(write_label_tiff(instances_from_labels(squares(1))))
    audit_challenge(tmp_path / "challenge", tmp_path / "submissions", tmp_path / "out", workers=1)
    assert scored.runs == 2 * 12


def test_a_rejected_team_is_looked_at_and_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored, told = Counter(monkeypatch), []
    challenge, submissions = make(tmp_path, audit=FEW)
    (submissions / "few/a.tif").write_bytes(b"no image")
    for outcome in ("scored", "kept"):
        found = audit_challenge(
            challenge, submissions, tmp_path / "out", workers=1, note=lambda *line: told.append(line)
        )
        assert told == [("few", "not ranked"), ("narrow", outcome), ("thick", outcome)]
        told.clear()
    assert scored.runs == 1 + 2 * 4
    assert [(row.name, row.code) for row in found.unranked] == [("few", "wrong-format")]
    assert found.teams == ("narrow", "thick")


def test_numbers_of_the_audit_do_not_depend_on_the_names_of_the_teams(
    flipping: tuple[Path, Audit], tmp_path: Path
) -> None:
    other = {"narrow": "zz", "thick": "aa", "few": "mm"}
    renamed = run(tmp_path, audit=FEW, teams={other[name]: drawn for name, drawn in TEAMS.items()})
    found = flipping[1]
    for name in TEAMS:
        left, right = found.teams.index(name), renamed.teams.index(other[name])
        assert found.position[:, left].tolist() == renamed.position[:, right].tolist()
    assert [replace(e) for e in renamed.effects] == list(found.effects)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_answers_first_and_writes_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    challenge, submissions = make(tmp_path, audit=FEW)
    out = tmp_path / "out"
    arguments = ["--challenge", challenge, "--submissions", submissions, "--output", out, "--workers", 1]
    assert cli.run(["audit", *map(str, arguments)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("✓ The first place of 'narrow' can be defended: it is first in 4 of 4 variants.\n")
    assert "predictions" in printed
    document = json.loads((out / "audit.json").read_text(), parse_constant=pytest.fail)
    assert document["first_place"]["defended"] == "yes"
    assert [dimension["name"] for dimension in document["dimensions"]] == list(audit_module.DIMENSIONS)
    rows = list(csv.DictReader(io.StringIO((out / "audit.csv").read_text())))
    assert len(rows) == 16 * 3
    eroded = {row["team"] for row in rows if row["predictions"] == "eroded" and row["position"] == "1"}
    assert eroded == {"thick"}
    assert {row["variant"] for row in rows if row["published"]} == {"1"}
    for variant in document["variants"]:
        order = {team["team"]: team["position"] for team in document["orders"][variant["order"]]}
        settings = {item["dimension"]: item["value"] for item in variant["settings"]}
        of_csv = {row["team"]: int(row["position"]) for row in rows if settings.items() <= row.items()}
        assert of_csv == order


def test_the_command_refuses_a_challenge_without_a_ranking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    challenge, submissions = make(tmp_path)
    (challenge / "challenge.toml").write_text(toml({k: v for k, v in document().items() if k != "ranking"}))
    arguments = ["--challenge", challenge, "--submissions", submissions, "--output", tmp_path / "out"]
    assert cli.run(["audit", *map(str, arguments)]) == 3
    assert "[no-ranking]" in capsys.readouterr().err


def rendered(found: Audit) -> str:
    from rich.console import Console

    console = Console(width=200, file=io.StringIO(), force_terminal=False, highlight=False)
    for part in page_renderables(audit_page(audit_document(found))):
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_hostile_names_reach_the_terminal_as_plain_text() -> None:
    names = ["[red]x[/red]", "\x1b[31mevil\n", "[/]"]
    found = audit_scores(names, [Dimension("matching", ("a", "b"))], [[0], [1]], np.array([[3, 2, 1], [1, 2, 3.0]]))
    text = rendered(found)
    assert "[red]x[/red]" in text
    assert "[/]" in text
    assert "\x1b" not in text
    json.loads(audit_json(found))
    assert len(list(csv.reader(io.StringIO(audit_csv(found))))) == 1 + 2 * 3


# --- scores that are known: Table 1 of "lessons from MoNuSAC 2020" ----------------------------------------------------

BORDER_AND_MATCHING = (Dimension("border", ("removed", "dilated")), Dimension("matching", ("strict", "centroid")))


@pytest.fixture(scope="module")
def table_1(shared_data: Path) -> Audit:
    tables = json.loads((shared_data / "lessons_from_monusac_tables.json").read_text())
    assert tables["conditions"] == [
        f"border-{b} {m}" for m in ("strict-iou", "centroid") for b in ("removed", "dilated")
    ]
    scores = np.array([tables["table1_pq_patient_mean"][condition] for condition in tables["conditions"]])
    return audit_scores(tables["teams"], BORDER_AND_MATCHING, [[0, 0], [1, 0], [0, 1], [1, 1]], scores)


def test_table_1_has_the_published_ranks(table_1: Audit) -> None:
    assert table_1.position.tolist() == [[2, 3, 4, 1], [1, 2, 4, 3], [1, 3, 4, 2], [1, 2, 4, 3]]


def test_nobody_can_defend_the_first_place_of_table_1(table_1: Audit) -> None:
    assert table_1.verdict == "no"
    assert table_1.answer == (
        "The first place of 'Team 1' cannot be defended: it is first in 3 of 4 variants.",
        "'Team 4' is first in 1 of 4, whenever border is removed and matching is strict.",
    )


def test_the_border_moves_the_order_of_table_1_more_than_the_matching_rule(table_1: Audit) -> None:
    """Worked by hand: removed to dilated turns 1-4 and 2-4 (tau 1/3), with centroids 2-4 only (2/3); strict to
    centroids turns 1-4 (2/3), with dilated borders nothing (1). Each moves the first place in one of two comparisons.
    """
    border, matching = table_1.effects
    assert (border.tau_mean, border.tau_low) == pytest.approx((0.5, 1 / 3))
    assert (matching.tau_mean, matching.tau_low) == pytest.approx((5 / 6, 2 / 3))
    assert (border.first_changes, matching.first_changes) == (1, 1)
    assert (border.same_order, matching.same_order) == (0, 0.5)
    # all pairs: rs-ds 1/3, rs-rc 2/3, rs-dc 1/3, ds-rc 2/3, ds-dc 1, rc-dc 2/3
    assert table_1.agreement.mean == pytest.approx((1 / 3 + 2 / 3 + 1 / 3 + 2 / 3 + 1 + 2 / 3) / 6)
    swaps = {(swap.ahead, swap.behind): (swap.turned, swap.rule, dict(swap.share_by_rule)) for swap in table_1.swaps}
    assert swaps == {
        ("Team 1", "Team 4"): (1, "border", {"border": 0.5, "matching": 0.5}),
        ("Team 2", "Team 4"): (2, "border", {"border": 1.0, "matching": 0.0}),
    } or swaps == {
        ("Team 1", "Team 4"): (1, "border", {"border": 0.5, "matching": 0.5}),
        ("Team 4", "Team 2"): (2, "border", {"border": 1.0, "matching": 0.0}),
    }
    assert [(team.name, team.low, team.high) for team in sorted(table_1.trust, key=lambda t: t.name)] == [
        ("Team 1", 1, 2), ("Team 2", 2, 3), ("Team 3", 4, 4), ("Team 4", 1, 3)
    ]  # fmt: skip


# --- against slow and independent versions ----------------------------------------------------------------------------


def random_audit(seed: int, teams: int = 6) -> tuple[Audit, Any]:
    rng = np.random.default_rng(seed)
    dimensions = (Dimension("a", ("0", "1", "2")), Dimension("b", ("0", "1")), Dimension("c", ("0", "1", "2")))
    settings = [s for s in product(range(3), range(2), range(3)) if s != (2, 1, 2)]  # one combination is left out
    scores = rng.integers(0, 5, (len(settings), teams)).astype(float)
    scores[rng.random(scores.shape) < 0.05] = np.nan
    return audit_scores([f"t{i}" for i in range(teams)], dimensions, settings, scores, published=4), settings


@pytest.mark.parametrize("seed", range(8))
def test_tau_is_that_of_scipy_between_all_variants_and_along_each_dimension(seed: int) -> None:
    found, settings = random_audit(seed)

    def tau(left: int, right: int) -> float:
        known = ~np.isnan(found.position[left]) & ~np.isnan(found.position[right])
        a, b = found.position[left][known], found.position[right][known]
        return np.nan if len(a) < 2 or len(set(a)) == 1 or len(set(b)) == 1 else kendalltau(a, b).statistic

    pairs = list(combinations(range(len(settings)), 2))
    all_taus = np.array([tau(*pair) for pair in pairs])
    assert found.agreement.mean == pytest.approx(np.nanmean(all_taus))
    assert found.agreement.low == pytest.approx(np.nanmin(all_taus))
    np.testing.assert_allclose(found.to_published, [tau(4, place) for place in range(len(settings))], atol=1e-12)
    for place, effect in enumerate(found.effects):
        alone = [(i, j) for i, j in pairs if [k for k in range(3) if settings[i][k] != settings[j][k]] == [place]]
        taus = [tau(*pair) for pair in alone]
        assert effect.comparisons == len(alone)
        assert effect.tau_mean == pytest.approx(np.nanmean(taus))
        assert effect.tau_low == pytest.approx(np.nanmin(taus))
        firsts = [{t for t in range(6) if found.position[v, t] == np.nanmin(found.position[v])} for v in range(17)]
        assert effect.first_changes == sum(firsts[i] != firsts[j] for i, j in alone)


@pytest.mark.parametrize("seed", range(4))
def test_swaps_are_those_of_a_plain_loop(seed: int) -> None:
    found, settings = random_audit(seed)
    p = found.position
    expected = {}
    for i, j in combinations(range(6), 2):
        turned = {s: sum(np.sign(row[i] - row[j]) == s for row in p) for s in (1, -1)}
        if turned[1] and turned[-1]:
            shares = []
            for place in range(3):
                pairs = neighbours(np.array(settings), place)
                shares.append(np.mean([(p[a, i] - p[a, j]) * (p[b, i] - p[b, j]) < 0 for a, b in pairs.tolist()]))
            expected[frozenset((f"t{i}", f"t{j}"))] = (pytest.approx(shares), set(turned.values()))
    assert {frozenset((swap.ahead, swap.behind)) for swap in found.swaps} == set(expected)
    for swap in found.swaps:
        shares, turned = expected[frozenset((swap.ahead, swap.behind))]
        assert [share for _, share in swap.share_by_rule] == shares
        assert swap.turned in turned
        ahead, behind = (found.teams.index(name) for name in (swap.ahead, swap.behind))
        assert not p[4, ahead] > p[4, behind]  # as published


def test_a_condition_says_whenever_exactly_where_it_holds() -> None:
    rng = np.random.default_rng(3)
    dimensions = (Dimension("a", ("x", "y", "z")), Dimension("b", ("u", "v")))
    settings = np.array(list(product(range(3), range(2))))
    for _ in range(60):
        chosen = rng.random(6) < 0.4
        if not 0 < chosen.sum() < 6:
            continue
        told = tell_variants(dimensions, settings, chosen)
        box = np.isin(settings[:, 0], settings[chosen, 0]) & np.isin(settings[:, 1], settings[chosen, 1])
        assert told.startswith("whenever ") == (box.sum() == chosen.sum())
        assert told.startswith("most often ") == bool(box.all())


# --- little to say ----------------------------------------------------------------------------------------------------

ONE = (Dimension("unit", ("pooled", "group")),)


@pytest.mark.parametrize(
    ("scores", "published", "verdict"),
    [
        ([[1.0], [0.5]], 0, "one-team"),
        ([[1.0, 0.5], [0.9, 0.4]], 0, "untested"),
        ([[1.0, 1.0], [0.5, 0.5]], 0, "shared"),
        ([[1.0, 1.0], [0.5, 0.4]], 0, "no"),
        ([[1.0, 0.5], [0.5, 0.5]], 0, "shared"),
        ([[1.0, 0.5], [0.5, 1.0]], None, "no"),
        ([[1.0, 0.5], [np.nan, 1.0]], 0, "no"),
        ([[1.0, 0.5], [np.nan, np.nan]], 0, "no"),
        ([[np.nan, np.nan], [1.0, 0.5]], 0, "no-teams"),
        ([[np.nan, np.nan], [np.nan, np.nan]], 0, "no-teams"),
        ([[], []], 0, "no-teams"),
        ([[1.0, 0.5]], 0, "nothing-varied"),
    ],
)
def test_every_edge_has_a_verdict_and_can_be_written_and_shown(
    scores: Any, published: int | None, verdict: str
) -> None:
    values = np.array(scores, float).reshape(len(scores), -1)
    settings = [[place] for place in range(len(scores))]
    found = audit_scores(["A", "B"][: values.shape[1]], ONE, settings, values, published=published)
    assert found.verdict == verdict
    assert found.answer[0].endswith(".")
    json.loads(audit_json(found), parse_constant=pytest.fail)
    assert rendered(found)
    assert audit_document(found)["first_place"]["answer"] == list(found.answer)


def test_of_many_challengers_three_are_named_and_the_others_counted() -> None:
    dimensions = [Dimension("judge", tuple("abcdef"))]
    found = audit_scores(list("ABCDEF"), dimensions, [[i] for i in range(6)], np.eye(6), published=0)
    assert found.answer[1:] == (
        "'B' is first in 1 of 6, whenever judge is b.",
        "'C' is first in 1 of 6, whenever judge is c.",
        "'D' is first in 1 of 6, whenever judge is d.",
        "So are 2 more teams in some variants.",
    )


def test_equal_variants_are_refused() -> None:
    with pytest.raises(ValueError, match="differ"):
        audit_positions(["A"], ONE, [[0], [0]], np.ones((2, 1)), np.ones((2, 1)))


@pytest.mark.parametrize("teams", [["few"], ["few", "twin"], []], ids=["one", "two equal", "none that can be read"])
@pytest.mark.parametrize("cases", [CASES, {"a": ("P1", 6)}], ids=["four cases", "one case"])
def test_few_teams_and_one_group_crash_nothing(tmp_path: Path, teams: list[str], cases: Any) -> None:
    chosen = dict.fromkeys(teams, TEAMS["few"]) or {"broken": TEAMS["few"]}
    challenge, submissions = make(tmp_path, teams=chosen, cases=cases, audit={"predictions": ["eroded"]})
    if not teams:
        (submissions / "broken/a.tif").write_bytes(b"no image")
    found = audit_challenge(challenge, submissions, tmp_path / "out", workers=1)
    assert found.verdict == {0: "no-teams", 1: "one-team", 2: "shared"}[len(teams)]
    assert rendered(found)
    json.loads(audit_json(found), parse_constant=pytest.fail)
    assert len(found.unranked) == (not teams)
