"""Audits: what becomes of a ranking under other rules, and whether the first rank can be defended."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter as Counted
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards import ranking_by, values_of
from every_format import small_document, write_rules
from frozen_demo import copy_frozen_demo
from preset_files import squares_xml, start, write
from scipy.io import loadmat
from scipy.ndimage import maximum_filter, minimum_filter

import evaluation.board.teams as teams_module
from evaluation import Case, Challenge, ChallengeBroken, score_submission
from evaluation.board import ranked_table
from evaluation.board.audit import audit_challenge, audit_views, kept_of, plan_audit, rank_view, view_of
from evaluation.board.board import build_board, score_and_rank
from evaluation.board.rules import load_ranked
from evaluation.board.stored import Unranked
from evaluation.board.teams import challenge_key, score_teams
from evaluation.board.variants import Audit, Dimension, audit_csv, audit_document, audit_positions, compare_conditions
from evaluation.challenge.rules import AuditRules
from evaluation.commands import main as cli
from evaluation.files.formats.format import image_bytes
from evaluation.files.formats.label_image import write_label_tiff
from evaluation.files.results.documents import as_json
from evaluation.report.html import page_html
from evaluation.report.leaderboard import leaderboard_page
from evaluation.report.page import Figure, Page, Table, Text
from evaluation.report.studies import audit_page
from evaluation.report.terminal import page_renderables
from evaluation.scoring.street import score_then
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.ranking.methods import SCORE_ROUNDING, rank_values
from nuclei_metrics.ranking.stability import undrawn

SHAPE = (40, 60)
CASES = {"a": ("P1", 6), "b": ("P1", 3), "c": ("P2", 8), "d": ("P3", 5)}  # group and number of nuclei
FEW = {"overlap": [], "thresholds": [0.6], "units": ["pooled"], "methods": []}


def squares(number: int, *, left: int = 0, right: int = 0, grow: int = 0) -> np.ndarray[Any, Any]:
    """Squares of 8 px, ``left`` and ``right`` columns less, ``grow`` px more on each side."""
    labels = np.zeros(SHAPE, np.uint16)
    for place in range(number):
        y, x = 4 + 18 * (place // 4), 4 + 14 * (place % 4)
        labels[y - grow : y + 8 + grow, x + left - grow : x + 8 - right + grow] = place + 1
    return labels


TEAMS = {
    "narrow": lambda number: squares(number, right=1),
    "thick": lambda number: squares(number, grow=1),
    "few": lambda number: squares(number // 2),
}


def document(**tables: Any) -> dict[str, Any]:
    """One class of label images, ranked by PQ."""
    rule = {"name": "iou", "rule": "iou_above", "threshold": 0.5}
    side, families = {"format": "label_image", "files": "{case}.tif"}, ("detection", "panoptic")
    ranking = ranking_by("panoptic.pq.group_mean")
    return small_document(side, rule, families=families, unit="group", **{"ranking": ranking, **tables})


def write_images(folder: Path, drawn: Any, cases: Any = CASES) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for case, (_, number) in cases.items():
        (folder / f"{case}.tif").write_bytes(write_label_tiff(instances_from_labels(drawn(number))))


def make(folder: Path, teams: Any = TEAMS, cases: Any = CASES, **tables: Any) -> tuple[Path, Path]:
    """A challenge and the submissions of teams; returns both folders."""
    challenge, submissions = folder / "challenge", folder / "submissions"
    write_images(challenge / "reference", squares, cases)
    listed = [Case(case, group, *SHAPE) for case, (group, _) in cases.items()]
    write_rules({**document(**tables), "cases": listed}, challenge)
    submissions.mkdir(exist_ok=True)
    for team, drawn in teams.items():
        write_images(submissions / team, drawn, cases)
    return challenge, submissions


def run(folder: Path, output: str = "out", **given: Any) -> Audit:
    return audit_challenge(*make(folder, **given), folder / output, workers=1)


def challenge_of(*columns: str, **tables: Any) -> Challenge:
    """Ranked by other columns than PQ, if there are any."""
    if columns:
        tables["ranking"] = ranking_by(*columns)
    cases = tuple(Case(case, group, *SHAPE) for case, (group, _) in CASES.items())
    return Challenge.build({**document(**tables), "cases": cases})


def audit_json(found: Audit) -> str:
    return as_json(audit_document(found))


def audit_scores(teams: Any, dimensions: Any, settings: Any, scores: Any, published: int | None = None) -> Audit:
    """The audit of scores, higher is better, that are known under several conditions, float64 (V, T)."""
    position = rank_values(scores, higher_is_better=True, ties="min", tolerance=SCORE_ROUNDING)
    return audit_positions(teams, dimensions, settings, position, position, published=published)


def plan_of(*, challenge: Challenge | None = None, **tables: Any) -> Any:
    challenge = challenge or challenge_of(**tables)
    assert challenge.ranking is not None
    return plan_audit(challenge, challenge.ranking)


# --- the answer -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Audit]:
    folder = tmp_path_factory.mktemp("held")
    return folder, run(folder, audit=FEW)


def test_a_first_place_that_no_rule_moves_is_not_shown_to_be_better_by_three_patients(held: tuple[Path, Audit]) -> None:
    found = held[1]
    assert (found.verdict, found.variants) == ("undecided", 2 * 2)  # thresholds, units
    assert found.answer == (
        "The first rank of 'narrow' is stable under all tested rules: it is first in 4 of 4 variants.",
        "No column shows it significantly better than 'thick' or 'few'.",
    )
    assert {effect.first_changes for effect in found.effects} == {0}
    assert {effect.dimension: effect.comparisons for effect in found.effects} == {
        "matching": 0, "threshold": 2, "unit": 2, "overlap": 0, "ignore": 0, "weights": 0, "method": 0,
    }  # fmt: skip
    places = {team.name: team.places for team in found.places}
    assert places == {"narrow": ((1.0, 4),), "thick": ((2.0, 4),), "few": ((3.0, 4),)}


def test_a_single_change_that_moves_the_first_place_is_named(tmp_path: Path) -> None:
    """Squares of 8 x 8 px: above an IoU of 0.9 nothing of "narrow" (7/8) is found, all that "half" drew is."""
    teams = {"narrow": TEAMS["narrow"], "half": TEAMS["few"]}
    found = run(tmp_path, teams=teams, audit=FEW | {"thresholds": [0.9], "units": ["group"]})
    assert (found.verdict, found.variants) == ("no", 2)
    assert found.answer == (
        "The first rank of 'narrow' cannot be defended: it is first in 1 of 2 variants.",
        "'half' is first in 1 of 2.",
        "1 of 1 single changes of the rules give another first rank: threshold 0.9 ('half').",
    )
    shares = {(varied.name, of.value): of.first for varied in found.varied for of in varied.values}
    assert shares["threshold", "0.9"] == (("half", 1.0),)
    assert shares["overlap", "keep"] == (("half", 0.5), ("narrow", 0.5))


# --- the variants are what they say -----------------------------------------------------------------------------------


def test_a_variant_has_the_scores_of_a_challenge_with_its_rules(held: tuple[Path, Audit], tmp_path: Path) -> None:
    """Scored from scratch: the threshold and the unit written into the challenge."""
    rule = {"name": "iou", "rule": "iou_above", "threshold": 0.6, "class_aware": False, "ties": "first_pixel"}
    challenge, submissions = make(tmp_path, matching={"rules": [rule]})
    values = {
        team: score_submission(challenge, submissions / team, workers=1).value("panoptic.pq.pooled") for team in TEAMS
    }
    found = held[1]
    (row,) = [
        v for v in range(found.variants) if {"threshold": "0.6", "unit": "pooled"}.items() <= found.setting(v).items()
    ]
    expected = {team: 1 + sum(other > value for other in values.values()) for team, value in values.items()}
    assert dict(zip(found.teams, found.position[row], strict=True)) == expected


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any], Any]:
    """The demo under two matching rules and three units: one run of each team."""
    folder = tmp_path_factory.mktemp("demo")
    made = copy_frozen_demo(folder)
    with (made.challenge / "challenge.toml").open("a") as stream:
        stream.write('[audit]\noverlap = ["class_order"]\nignore = ["clip"]\n')
    plan = plan_audit(*load_ranked(made.challenge))
    (one,) = plan.runs
    places = folder / "submissions", folder / "out"
    scored = score_teams(made.challenge, one.challenge, *places, workers=1, kept=kept_of(one, plan.all_paths))
    views = [view_of(plan, one, scored.scores, matching, unit) for matching, unit in product(plan.columns, plan.units)]
    return folder, views, plan


def test_the_published_variant_is_the_leaderboard(demo: tuple[Path, list[Any], Any]) -> None:
    folder, views, plan = demo
    board = score_and_rank(folder / "challenge", folder / "submissions", folder / "board", workers=1)
    found = audit_views(views, plan.challenge.audit)
    assert found.published == 0
    assert found.setting(0) == {
        "matching": "iou_above", "threshold": "as written", "unit": "group_mean", "overlap": "class_order",
        "ignore": "clip", "weights": "as written", "method": "sum_of_ranks",
    }  # fmt: skip
    assert {row.name: (row.position, row.combined) for row in board.teams} == {
        name: (found.position[0, team], found.combined[0, team]) for team, name in enumerate(found.teams)
    }
    assert [team.name for team in found.places] == [row.name for row in board.teams]
    methods = {of.method for of in board.methods}
    (note,) = [note for note in found.notes if note.startswith("Methods that rank differently")]
    assert set(re.findall(r"[a-z]+(?:_[a-z]+)+", note)) == methods


@pytest.mark.parametrize("method", ["median_of_ranks", "aggregate_then_rank", "rank_then_aggregate", "test_then_rank"])
def test_every_variant_is_the_leaderboard_of_its_table(demo, method, monkeypatch):
    monkeypatch.setattr(ranked_table, "draw_samples", lambda table, rules, plain: undrawn(plain.position, 0))
    for view, ex_aequo in product(demo[1], (False, True)):
        rules = demo[2].rules.model_copy(update={"method": method, "ex_aequo": ex_aequo})
        position, combined = rank_view(replace(view, rules=rules), method)
        expected = {row.name: (row.position, row.combined) for row in build_board(view.table, rules).teams}
        assert dict(zip(view.table.teams, zip(position, combined, strict=True), strict=True)) == expected


# --- what is varied ---------------------------------------------------------------------------------------------------


def test_what_is_not_listed_comes_from_the_challenge(demo: tuple[Path, list[Any], Any]) -> None:
    challenge = demo[2].challenge.model_copy(update={"audit": AuditRules()})
    plan = plan_audit(challenge, demo[2].rules)
    assert list(plan.columns) == [
        *(("iou_above", threshold) for threshold in ("as written", "0.4", "0.6")),
        ("best_iou_centroid_inside", "as written"),
    ]
    assert plan.units == ("group_mean", "pooled", "case_mean")
    assert [(run.overlap, run.ignore) for run in plan.runs] == list(
        product(("class_order", "keep", "last"), ("clip", "drop_centroid"))
    )
    found = audit_views(demo[1], AuditRules())
    values = {dimension.name: dimension.values for dimension in found.dimensions}
    paths = [column.path for column in plan.rules.columns]
    assert values["weights"] == ("as written", *(f"{p} {how}" for p in paths for how in ("without", "x 0.5", "x 2")))
    assert values["method"][0] == "sum_of_ranks"
    assert "mean_of_ranks" not in values["method"]  # another name of the same
    assert found.variants == len(values["method"]) * (len(demo[1]) + 12)


def test_the_audit_does_not_enter_the_hash() -> None:
    assert challenge_of(audit={"thresholds": [0.75]}).hash == challenge_of().hash


def test_the_audit_makes_no_result_of_the_leaderboard_new(tmp_path: Path) -> None:
    plain = challenge_key(make(tmp_path)[0], Challenge.load(tmp_path / "challenge"))
    assert challenge_key(make(tmp_path, audit=FEW)[0], Challenge.load(tmp_path / "challenge")) == plain


def test_the_table_of_the_page_can_be_read(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[1] / "docs/audit.md").read_text()
    (table,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    made = copy_frozen_demo(tmp_path)
    with (made.challenge / "challenge.toml").open("a") as stream:
        stream.write(table)
    plan = plan_audit(*load_ranked(made.challenge))
    assert [threshold for rule, threshold in plan.columns if rule == "iou_above"] == [
        "as written",
        "0.4",
        "0.6",
        "0.75",
    ]
    assert {run.overlap for run in plan.runs} == {"class_order"}
    assert ("near", "as written") in plan.columns
    assert plan.challenge.audit.methods == ("sum_of_ranks", "test_then_rank")


def test_a_unit_that_is_another_by_another_name_is_left_out() -> None:
    challenge = challenge_of()
    for cases, units in (
        (tuple(replace(case, group=case.name) for case in challenge.cases), ("group_mean", "pooled")),
        (tuple(replace(case, group="P") for case in challenge.cases), ("group_mean", "case_mean")),
        (challenge.cases[:1], ("group_mean",)),
    ):
        assert plan_of(challenge=challenge.model_copy(update={"cases": cases})).units == units


def test_a_rule_under_which_a_column_has_no_value_or_no_other_one_is_left_out_and_told() -> None:
    aware = {"name": "aware", "rule": "iou_above", "threshold": 0.5, "class_aware": True, "ties": "first_pixel"}
    families = {"boundary": "open", "families": ["detection", "classification", "objects"]}
    of_classes = challenge_of("classification.accuracy.pooled", audit={"matching": [aware]}, metrics=families)
    plan = plan_of(challenge=of_classes)
    assert [rule for rule, _ in plan.columns] == ["iou"] * 3
    assert any("aware is not varied" in note for note in plan.notes)
    assert {rule for rule, _ in plan_of(audit={"matching": [aware]}).columns} == {"iou", "aware"}
    plan = plan_of(challenge=challenge_of("objects.dice.pooled", metrics=families))
    assert len(plan.columns) == 1
    assert any("no ranked score" in note for note in plan.notes)


def test_overlap_and_ignore_rules_that_contradict_each_other_are_left_out_and_told() -> None:
    assert [(run.overlap, run.ignore) for run in plan_of().runs] == [("keep", "none")]  # label images have no overlap
    plan = plan_of(audit={"overlap": ["ignore", "last"]})
    assert {run.overlap for run in plan.runs} == {"keep", "last"}
    assert any("Overlap ignore" in note for note in plan.notes)


@pytest.mark.parametrize("audit, where", [
    ({"thresholds": [i / 2000 for i in range(1, 1000)]}, "audit"),
    ({"ignore": ["clip"]}, "audit.ignore"),
    ({"border": ["remove"]}, "audit.border"),
    ({"matching": [document()["matching"]["rules"][0]]}, "audit.matching"),
    ({"threshold": [0.5]}, "audit.threshold"),
])  # fmt: skip
def test_lists_that_contradict_the_challenge_are_refused(audit: Any, where: str) -> None:
    with pytest.raises(ChallengeBroken) as caught:
        plan_of(audit=audit)
    (finding,) = caught.value.findings
    code = "unknown-key" if where == "audit.threshold" else "contradictory-rules"
    assert (finding.code, finding.where) == (code, f"challenge.toml: {where}")


def test_absolute_is_refused_for_several_columns(demo: tuple[Path, list[Any], Any]) -> None:
    with pytest.raises(ChallengeBroken, match="'absolute' with 4 columns"):
        audit_views(demo[1], AuditRules(methods=("absolute",)))


def test_numbers_of_nuclei_have_nothing_to_match_or_overlap() -> None:
    side, ranking = {"format": "counts_csv", "files": "counts.csv"}, ranking_by("counting.r2.pooled")
    rules = small_document(side, classes=["a", "b"], families=["counting"], unit="group", ranking=ranking)
    plan = plan_of(challenge=Challenge.build({**rules, "cases": challenge_of().cases}))
    assert [(run.overlap, run.ignore) for run in plan.runs] == [("none", "none")]
    assert list(plan.columns.values()) == [("counting.r2.pooled",)]


# --- what is kept -----------------------------------------------------------------------------------------------------


class Counter:
    """Counts the runs that are scored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = 0
        monkeypatch.setattr(teams_module, "score_then", self.score)

    def score(self, *arguments: Any, **options: Any) -> Any:
        self.runs += 1
        return score_then(*arguments, **options)

    def since(self) -> int:
        """How many since the last time that this was asked."""
        runs, self.runs = self.runs, 0
        return runs


def test_what_did_not_change_is_not_scored_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored = Counter(monkeypatch)
    first = run(tmp_path, audit=FEW)
    assert scored.since() == len(TEAMS)
    assert audit_json(run(tmp_path, audit=FEW)) == audit_json(first)
    more = run(tmp_path, audit=FEW | {"methods": ["rank_then_aggregate", "median_of_ranks"]})  # they ask for no scores
    assert {of.name: of.values for of in more.dimensions}["method"][0] == "sum_of_ranks"
    assert scored.since() == 0
    kept = sorted((tmp_path / "out/scores").rglob("scores.json"))
    assert len(kept) == 3
    kept[0].unlink()
    kept[1].write_text(kept[1].read_text()[:-20])
    kept[2].write_text(kept[2].read_text().replace('"overall": [\n    0', '"overall": [\n    1'))
    assert audit_json(run(tmp_path, audit=FEW)) == audit_json(first)
    assert scored.since() == 3
    changed = run(tmp_path, audit=FEW, teams=TEAMS | {"few": lambda number: squares(number)})
    assert (scored.since(), changed.places[0].name) == (1, "few")
    other = run(tmp_path, audit=FEW | {"thresholds": [0.7]})  # other numbers of the same result
    assert scored.since() == 3
    tried = {of.value for varied in other.varied if varied.name == "threshold" for of in varied.values}
    assert tried == {"as written", "0.7"}
    (tmp_path / "challenge/reference/a.tif").write_bytes(write_label_tiff(instances_from_labels(squares(1))))
    audit_challenge(tmp_path / "challenge", tmp_path / "submissions", tmp_path / "out", workers=1)
    assert scored.since() == 3


def test_a_rejected_team_is_looked_at_and_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored, told = Counter(monkeypatch), []
    challenge, submissions = make(tmp_path, audit=FEW)
    (submissions / "few/a.tif").write_bytes(b"no image")
    for outcome in ("scored", "kept"):
        found = audit_challenge(
            challenge, submissions, tmp_path / "out", workers=1, note=lambda *line: told.append(line)
        )
        assert told == [("few", "not ranked", ""), ("narrow", outcome, ""), ("thick", outcome, "")]
        told.clear()
    assert scored.runs == 3
    assert [(row.name, row.code) for row in found.unranked] == [("few", "wrong-format")]
    assert found.teams == ("narrow", "thick")


def test_numbers_of_the_audit_do_not_depend_on_the_names_of_the_teams(held: tuple[Path, Audit], tmp_path: Path) -> None:
    other = {"narrow": "zz", "thick": "aa", "few": "mm"}
    renamed = run(tmp_path, audit=FEW, teams={other[name]: drawn for name, drawn in TEAMS.items()})
    found = held[1]
    for name in TEAMS:
        left, right = found.teams.index(name), renamed.teams.index(other[name])
        assert found.position[:, left].tolist() == renamed.position[:, right].tolist()
    assert renamed.effects == found.effects


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_answers_first_and_writes_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    challenge, submissions = make(tmp_path, audit=FEW)
    out = tmp_path / "out"
    arguments = ["--challenge", challenge, "--submissions", submissions, "--output", out, "--workers", 1, "--report"]
    assert cli.run(["audit", *map(str, arguments)]) == 0
    printed = capsys.readouterr().out
    assert "The first rank of 'narrow' is stable under all tested rules" in printed.splitlines()[0]
    document = json.loads((out / "audit.json").read_text(), parse_constant=pytest.fail)
    assert document["first_place"]["defended"] == "undecided"
    names = ["matching", "threshold", "unit", "overlap", "ignore", "weights", "method"]
    assert [dimension["name"] for dimension in document["dimensions"]] == names
    rows = list(csv.DictReader(io.StringIO((out / "audit.csv").read_text())))
    assert len(rows) == 4 * 3
    assert {row["variant"] for row in rows if row["published"]} == {"1"}
    for team in document["teams"]:
        places = Counted(float(row["position"]) for row in rows if row["team"] == team["name"])
        assert {of["place"]: of["variants"] for of in team["places"]} == places
    assert (out / "audit.html").read_text() == page_html(audit_page(document))


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


def test_the_border_moves_the_order_of_the_published_table_1_more_than_the_matching_rule(shared_data: Path) -> None:
    """Worked by hand: removed to dilated turns 1-4 and 2-4 of six pairs, with centroids 2-4 only; strict to
    centroids turns 1-4, with dilated borders nothing. Each moves the first rank in one of two comparisons.
    """
    tables = json.loads((shared_data / "lessons_from_monusac_tables.json").read_text())
    settings = list(product(("strict-iou", "centroid"), ("removed", "dilated")))
    scores = np.array([tables["table1_pq_patient_mean"][f"border-{border} {rule}"] for rule, border in settings])
    dimensions = (Dimension("matching", ("strict-iou", "centroid")), Dimension("border", ("removed", "dilated")))
    found = audit_scores(tables["teams"], dimensions, list(product((0, 1), (0, 1))), scores)
    assert found.position.tolist() == [[2, 3, 4, 1], [1, 2, 4, 3], [1, 3, 4, 2], [1, 2, 4, 3]]
    assert found.verdict == "no"
    assert found.answer == (
        "The first rank of 'Team 1' cannot be defended: it is first in 3 of 4 variants.",
        "'Team 4' is first in 1 of 4.",
    )
    matching, border = found.effects
    assert (border.comparisons, matching.comparisons) == (2, 2)
    assert (border.pairs_changed, matching.pairs_changed) == pytest.approx((1.5 / 6, 0.5 / 6))
    assert (border.first_changes, matching.first_changes) == (1, 1)


def test_differences_in_the_published_distances_are_robust_as_in_table_5(shared_data: Path) -> None:
    """Of Team 4 and Team 2 Table 5 has none in the Hausdorff distance, but of Team 3 against all, and 4 against 1."""
    tables = json.loads((shared_data / "lessons_from_monusac_tables.json").read_text())
    published = np.array([tables["table4_hausdorff_px_patient_mean"][of] for of in tables["conditions"]])
    ahead = np.sign(published[:, None, None] - published[:, None, :, None])  # (V, K, T, T), lower is better
    names = [1, 2, 3, 4]
    literal = {(a, b) for a, b in product(names, names) if all(row[a - 1] < row[b - 1] for row in published.tolist())}
    significant = np.zeros_like(ahead)
    for better, worse in ((1, 3), (2, 3), (4, 1), (4, 3), (4, 2)):  # in two of four, as the paper asks
        significant[:2, 0, better - 1, worse - 1], significant[:2, 0, worse - 1, better - 1] = 1, -1
    found = compare_conditions(tables["teams"], ["hd"], ahead.astype(int), significant.astype(int))
    pairs = {(int(pair.team[-1]), int(pair.other[-1])): pair for pair in found}
    assert {pair for pair, of in pairs.items() if of.better == 4} == literal == {(1, 3), (2, 1), (2, 3), (4, 1), (4, 3)}
    assert {pair for pair, of in pairs.items() if of.holds} == {(1, 3), (2, 3), (4, 1), (4, 3)}


def test_pairs_are_counted_over_the_conditions_by_the_declared_test(demo: tuple[Path, list[Any], Any]) -> None:
    found = audit_views(demo[1], AuditRules())
    conditions = [view for view in demo[1] if view.values["unit"] == "group_mean"]
    assert len(conditions) > 1
    assert len(found.pairs) == 3 * len(demo[2].rules.columns)
    columns = [column.path for column in demo[2].rules.columns]
    for pair in found.pairs:
        better = significant = 0
        for view in conditions:
            one, other, column = *map(view.table.teams.index, (pair.team, pair.other)), columns.index(pair.column)
            values = view.table.overall[:, column] * (1 if view.table.higher_is_better[column] else -1)
            better += values[one] > values[other]
            tests = ranked_table.compare_teams(view.table, view.rules)
            significant += tests.columns[column].better[one, other] == 1
        assert (pair.conditions, pair.better, pair.significant) == (len(conditions), better, significant)
        assert pair.holds == (better == len(conditions) and significant >= len(conditions) / 2)


# --- against slow and independent versions ----------------------------------------------------------------------------


def random_audit(seed: int, teams: int = 6) -> tuple[Audit, Any]:
    rng = np.random.default_rng(seed)
    dimensions = (Dimension("a", ("0", "1", "2")), Dimension("b", ("0", "1")), Dimension("c", ("0", "1", "2")))
    settings = [s for s in product(range(3), range(2), range(3)) if s != (2, 1, 2)]  # one combination is left out
    scores = rng.integers(0, 5, (len(settings), teams)).astype(float)
    scores[rng.random(scores.shape) < 0.05] = np.nan
    return audit_scores([f"t{i}" for i in range(teams)], dimensions, settings, scores, published=4), settings


@pytest.mark.parametrize("seed", range(3))
def test_effects_and_shares_are_those_of_plain_loops(seed: int) -> None:
    found, settings = random_audit(seed)
    p = np.where(np.isnan(found.position), np.inf, found.position)
    firsts = [{t for t in range(6) if row[t] == row.min()} for row in p]
    team_pairs = list(combinations(range(6), 2))
    for place, effect in enumerate(found.effects):
        pairs = combinations(range(len(settings)), 2)
        alone = [(i, j) for i, j in pairs if [k for k in range(3) if settings[i][k] != settings[j][k]] == [place]]

        def order(row: int, a: int, b: int) -> int:
            return int(p[row, a] > p[row, b]) - int(p[row, a] < p[row, b])

        turned = [np.mean([order(i, a, b) != order(j, a, b) for a, b in team_pairs]) for i, j in alone]
        assert effect.comparisons == len(alone)
        assert effect.pairs_changed == pytest.approx(np.mean(turned))
        assert effect.first_changes == sum(firsts[i] != firsts[j] for i, j in alone)
    for index, share in ((index, share) for index, varied in enumerate(found.varied) for share in varied.values):
        value = found.dimensions[index].values.index(share.value)
        inside = [firsts[row] for row, setting in enumerate(settings) if setting[index] == value]
        parts = {f"t{t}": sum((t in of) / len(of) for of in inside) / len(inside) for t in range(6)}
        assert dict(share.first) == pytest.approx({team: part for team, part in parts.items() if part})
        assert share.variants == len(inside)


# --- little to say ----------------------------------------------------------------------------------------------------

ONE = (Dimension("unit", ("pooled", "group")),)


@pytest.mark.parametrize("scores, published, verdict", [
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
])  # fmt: skip
def test_every_edge_has_a_verdict_and_can_be_written_and_shown(scores, published, verdict):
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
        "'B' is first in 1 of 6.",
        "'C' is first in 1 of 6.",
        "'D' is first in 1 of 6.",
        "So are 2 more teams in some variants.",
        "5 of 5 single changes of the rules give another first rank: judge b ('B'), judge c ('C'), judge d ('D') and "
        "2 more.",
    )


def test_equal_variants_are_refused() -> None:
    with pytest.raises(ValueError, match="differ"):
        audit_positions(["A"], ONE, [[0], [0]], np.ones((2, 1)), np.ones((2, 1)))


@pytest.mark.parametrize("teams, cases, verdict", [
    (["few"], {"a": ("P1", 6)}, "one-team"), (["few", "twin"], CASES, "shared"), ([], CASES, "no-teams"),
])  # fmt: skip
def test_few_teams_and_one_group_crash_nothing(tmp_path: Path, teams: list[str], cases: Any, verdict: str) -> None:
    chosen = dict.fromkeys(teams, TEAMS["few"]) or {"broken": TEAMS["few"]}
    challenge, submissions = make(tmp_path, teams=chosen, cases=cases)
    if not teams:
        (submissions / "broken/a.tif").write_bytes(b"no image")
    found = audit_challenge(challenge, submissions, tmp_path / "out", workers=1)
    assert found.verdict == verdict
    assert rendered(found)
    json.loads(audit_json(found), parse_constant=pytest.fail)
    assert len(found.unranked) == (not teams)


# --- the page of an audit: every number on it is one of audit.json, or counted from it by hand here -------------------

NAN = float("nan")
IDENTITY = {"name": "Made", "version": "1", "hash": "00"}

# Rules of a made challenge, the first value of each its own. A leads but where the last nucleus wins; there C wins if
# the matching is loose. D is not ranked where both are changed.
RULES = (Dimension("matching", ("strict", "loose"), "strict"), Dimension("overlap", ("none", "last"), "none"))
SETTINGS = [[0, 0], [0, 1], [1, 0], [1, 1]]
PLACES = [[1, 2, 3, 4], [2, 1, 3, 4], [1, 2, 2, 4], [2, 3, 1, NAN]]


def document_of(audit: Audit) -> dict[str, Any]:
    """What audit.json holds, read back."""
    found: dict[str, Any] = json.loads(as_json(audit_document(audit)), parse_constant=pytest.fail)
    return found


def made(places: Any = PLACES, names: Any = ("A", "B", "C", "D"), better: Any = None, **more: Any) -> dict[str, Any]:
    position = np.array(places, float)
    audit = audit_positions(names, RULES, SETTINGS, position, position, published=0, better=better)
    return document_of(replace(audit, identity=IDENTITY, **more))


def part(page: Page, anchor: str) -> Any:
    """The table or figure with an anchor."""
    (found,) = (b for section in page.sections for b in section.blocks if getattr(b, "anchor", "") == anchor)
    return found


def test_the_answer_stands_first_and_looks_like_what_it_is() -> None:
    document = made()
    first = audit_page(document).sections[0].blocks[0]
    assert first == Text(tuple(document["first_place"]["answer"]), "bad")
    assert first.paragraphs[0].startswith("The first rank of 'A' cannot be defended: it is first in 2 of 4 variants")
    always = made([[1, 2, 3, 4]] * 4, better={("A", name) for name in "BCD"})
    assert audit_page(always).sections[0].blocks[0] == Text(tuple(always["first_place"]["answer"]), "good")


def test_the_tables_are_counted_by_hand() -> None:
    """A, B and C are first in 2, 1 and 1 variants; D has no place in one. Effects stand from the strongest to the
    weakest: of six pairs matching turns B-C; and A-B, A-C and B-C where the last nucleus wins. Overlap turns A-B; and
    A-C and B-C where matching is loose, with another first place both times.
    """
    page = audit_page(made())
    teams, effects, varied = (
        [values_of(row) for row in part(page, of).rows] for of in ("audit-teams", "effects", "varied")
    )
    assert teams == [
        ["A", 1, 1, 2, 0.5, 2, 0],
        ["B", 2, 1, 1, 0.25, 1, 0],
        ["C", 3, 1, 1, 0.25, 1, 0],
        ["D", 4, 4, 0, 0, 0, 1],
    ]
    assert [row[:2] for row in effects] == [["matching", 1], ["overlap", 2]]
    assert [row[2] for row in effects] == pytest.approx([(1 / 6 + 3 / 6) / 2, (1 / 6 + 2 / 6) / 2], abs=1e-6)
    assert varied == [
        ["matching", "strict (published)", 2, "A 50% and B 50%"],
        ["matching", "loose", 2, "A 50% and C 50%"],
        ["overlap", "none (published)", 2, "A 100%"],
        ["overlap", "last", 2, "B 50% and C 50%"],
    ]


def of_thresholds(places: Any, names: str = "AB", **more: Any) -> dict[str, Any]:
    """The audit of places under as many thresholds, the first one that of the challenge."""
    position = np.array(places, float)
    values = tuple(f"0.{number}" for number in range(1, len(position) + 1))
    settings = [[number] for number in range(len(position))]
    dimension = (Dimension("threshold", values, values[0]),)
    return document_of(audit_positions(tuple(names), dimension, settings, position, position, published=0, **more))


def test_the_effect_of_a_rule_counts_boards_on_which_all_teams_share_a_place() -> None:
    """Of three pairs of teams none, all and all stand otherwise."""
    (effect,) = of_thresholds([[1, 2, 3], [1, 2, 3], [1, 1, 1]], "ABC")["effects"]
    assert effect["first_changes"] == 2
    assert effect["pairs_changed"] == pytest.approx(2 / 3, abs=1e-6)


def test_shared_first_places_are_counted_in_parts() -> None:
    document = of_thresholds([[1, 2], [1, 1], [1, 1], [2, 1]])
    parts = [(of["first"], of["first_alone"], of["first_share"]) for of in document["teams"]]
    assert parts == [(3, 1, 0.5), (3, 1, 0.5)]
    assert "'B' is first in 3 (shared in 2) of 4" in document["first_place"]["answer"][1]


def test_nothing_is_green_without_a_test() -> None:
    for better, verdict, tone in (
        (None, "untested", "warning"), (set(), "undecided", "warning"), ({("B", "A")}, "undecided", "warning"),
        ({("B", "A"), ("A", "B")}, "yes", "good"),
    ):  # fmt: skip
        document = of_thresholds([[1, 2], [1, 2]], better=better)
        assert document["first_place"]["defended"] == verdict
        blocks = audit_page(document).sections[0].blocks
        assert next(block for block in blocks if isinstance(block, Text)).tone == tone


def test_one_team_and_no_team_have_a_page() -> None:
    one = made([[1]] * 4, ["A"])
    assert len(part(audit_page(one), "audit-teams").rows) == 1
    nobody = made(np.empty((4, 0)), [], unranked=[Unranked("A", "no-value", "no rank in any variant")])
    page = audit_page(nobody)
    assert [row[0] for row in part(page, "unranked").rows] == ["A"]
    for found in (one, nobody):
        assert page_html(audit_page(found)).startswith("<!DOCTYPE html>")


def test_an_audit_stands_on_the_page_of_its_leaderboard() -> None:
    from boards import SEPARATE, ranked, table_of

    from evaluation.board.document import leaderboard_document

    board: Mapping[str, Any] = leaderboard_document(ranked(table_of([SEPARATE]))) | {"challenge": IDENTITY}
    page = leaderboard_page(board, audit=made())
    assert "effects" in {block.anchor for s in page.sections for block in s.blocks if isinstance(block, Table)}
    blocks = [block for section in page.sections for block in section.blocks]
    known = [block.anchor for block in blocks if isinstance(block, Table | Figure)]
    assert len(set(known)) == len(known)
    assert Text(tuple(made()["first_place"]["answer"]), "bad") in blocks


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_the_page_is_accessible_and_fits(browser, tmp_path: Path, width, scheme) -> None:
    names = ["<img src=x onerror=alert(1)>", "<b>B</b>", "'C' & \u202eco", "D" * 120]
    path = tmp_path / "audit.html"
    path.write_text(page_html(audit_page(made(names=names))), encoding="utf-8")
    with browser.open(path, width=width, scheme=scheme) as opened:
        opened.check()
        opened.screenshot("audit")
        assert names[0] in opened.page.locator("#audit-teams").inner_text()
        assert opened.page.locator("img[src=x]").count() == 0


# --- colour maps: Table 1 of the lessons from MoNuSAC -----------------------------------------------------------------


COLOUR_MAPS = """format_version = 1
name = "colour maps"
preset = "monusac2020"
[submission]
format = "colour_map"
files = "{group}/{case}.png"
colours = { Epithelial = "#ff0000", Lymphocyte = "#ffff00", Neutrophil = "#0000ff", Macrophage = "#00ff00" }
border_colour = "#8b4513"
border = "remove"
missing_case = "worst"
missing_class_file = "empty"
[ranking]
method = "sum_of_ranks"
ties = "min"
significance_level = 0.05
test = "friedman_nemenyi"
columns = [{ path = "panoptic.pq.group_mean", direction = "descending" }]
[audit]
thresholds = []
overlap = ["class_order"]
ignore = ["clip"]
units = ["group"]
methods = ["sum_of_ranks"]
"""
FILLS = {"Epithelial": (255, 0, 0), "Lymphocyte": (255, 255, 0), "Neutrophil": (0, 0, 255), "Macrophage": (0, 255, 0)}


def coded(masks: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """The PNG of labels by class: pixels whose four neighbours have the same label, and boundaries in brown."""
    picture = np.zeros((*next(iter(masks.values())).shape, 3), np.uint8)
    for name, labels in masks.items():
        cross = [[0, 1, 0], [1, 1, 1], [0, 1, 0]]
        is_inner = minimum_filter(labels, footprint=cross) == maximum_filter(labels, footprint=cross)
        picture[labels > 0] = (139, 69, 19)
        picture[is_inner & (labels > 0)] = FILLS[name]
    return image_bytes(picture, ".png")


def scores_by_border(folder: Path) -> dict[tuple[str, str], dict[str, float]]:
    where = ["--challenge", str(folder / "challenge"), "--submissions", str(folder / "teams")]
    assert cli.run(["audit", *where, "--output", str(folder / "audit"), "--workers", "1"]) == 0
    document = json.loads((folder / "audit" / "audit.json").read_text())
    (dimension,) = (one for one in document["dimensions"] if one["name"] == "border")
    assert [one["value"] for one in dimension["values"]] == ["remove", "remove_and_dilate"]
    return {
        (one["border"], one["matching"]): {entry["name"]: entry["values"][0] for entry in one["entries"]}
        for one in document["borders"]
    }


def test_an_audit_of_colour_maps_has_borders_by_matching_rules_and_the_coded_reference(tmp_path, capsys) -> None:
    """Squares of 10 and 20 px lose a pixel on each side, (8/10)² and (18/20)², and get it back but for the corners."""
    start(tmp_path, "monusac2020", [{"case": "image", "group": "P1", "height": 60, "width": 80}])
    write(tmp_path / "challenge" / "challenge.toml", COLOUR_MAPS)
    boxes = [(10, 19, 10, 19), (30, 49, 30, 49)]
    write(tmp_path / "challenge" / "reference" / "P1" / "image.xml", squares_xml([("Epithelial", boxes)]))
    labels = np.zeros((60, 80), int)
    for number, (top, bottom, left, right) in enumerate(boxes, start=1):
        labels[top : bottom + 1, left : right + 1] = number
    write(tmp_path / "teams" / "copy" / "P1" / "image.png", coded({"Epithelial": labels}))
    write(tmp_path / "teams" / "half" / "P1" / "image.png", coded({"Epithelial": labels * (labels == 1)}))
    found = scores_by_border(tmp_path)
    rules = ("iou_above", "best_iou_centroid_inside")
    assert found.keys() == {(border, rule) for border in ("remove", "remove_and_dilate") for rule in rules}
    for rule in rules:
        removed = {"copy": 0.725, "half": 0.426667, "colour-coded reference": 0.725}
        assert found["remove", rule] == removed  # (0.64 + 0.81) / 2, and 0.64 / 1.5
        dilated = {"copy": 0.975, "half": 0.64, "colour-coded reference": 0.975}
        assert found["remove_and_dilate", rule] == dilated  # (0.96 + 0.99) / 2
    printed = capsys.readouterr().out
    assert "Scores by border and matching rule" in printed and "colour-coded reference" in printed


@pytest.mark.real_data
def test_borders_cost_on_real_files_what_the_lessons_say(tmp_path, shared_data) -> None:
    """Table 1: removed borders cost most, dilated ones little, the centroid rule is milder; the reference has 0.892."""
    source = shared_data / "monusac_challenge"
    expected = json.loads((source / "expected.json").read_text())
    start(tmp_path, "monusac2020", [{"case": ""}])
    write(tmp_path / "challenge" / "challenge.toml", COLOUR_MAPS)
    write(tmp_path / "challenge" / "cases.csv", (source / "ground_truth/cases.csv").read_bytes())
    (tmp_path / "challenge" / "reference").rmdir()
    (tmp_path / "challenge" / "reference").symlink_to(source / "ground_truth/reference")
    for case in Challenge.load(tmp_path / "challenge").cases:
        files = {name: sorted((source / "submission" / case.group / case.name / name).glob("*.mat")) for name in FILLS}
        masks = {name: loadmat(paths[0])["n_ary_mask"].astype(int) for name, paths in files.items() if paths}
        write(tmp_path / "teams" / "team" / case.group / f"{case.name}.png", coded(masks))
    found = scores_by_border(tmp_path)
    for rule, key in (("iou_above", "strict_iou"), ("best_iou_centroid_inside", "centroid")):
        removed, dilated = (found[border, rule]["team"] for border in ("remove", "remove_and_dilate"))
        original = expected[key]["pq_group_mean"]
        assert removed < dilated < original and dilated > original - 0.002 and removed < original - 0.01
        reference = [found[border, rule]["colour-coded reference"] for border in ("remove", "remove_and_dilate")]
        assert reference[0] == pytest.approx(0.892, abs=0.002) and 0.913 < reference[1] < 1
    assert all(found[border, "iou_above"]["team"] < found[border, "best_iou_centroid_inside"]["team"]
               for border in ("remove", "remove_and_dilate"))  # fmt: skip
