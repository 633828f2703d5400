"""Tricks do what they say, are scored as files are, and pay under rankings that can be gamed; the whole suite is a
benchmark (``python -m benchmarks.gaming``), of which a small part runs here."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards import ranking_by
from findings import Bench
from literal import instances_of, masks_of

from benchmarks.class_column import Simulated
from benchmarks.gaming import (
    CLASSES,
    KEPT,
    LEFT_OUT,
    RECOMMENDED,
    Found,
    Plan,
    copies_words,
    copy_trick,
    copy_tricks,
    counted_rules,
    made_field,
    page,
    play_rankings,
    rankings_of_copies,
)
from evaluation.board.tricks import (
    TRICKS,
    Field,
    Played,
    Predictions,
    Trick,
    as_recommended,
    count_predictions,
    paths_read,
    scores_read,
    trick_cases,
    tricks_verdict,
)
from evaluation.challenge import Challenge, preset_names
from evaluation.report.html import page_html
from evaluation.report.page import Table, Text
from evaluation.report.studies import tricks_page
from evaluation.scoring.score import summarise
from nuclei_metrics.model import Instances

SMALL = Plan("a small one", 4, 2, (2, 9), (5, 4, 1, 1), 1.2, 120, 1)
BY_NAME = {trick.name: trick for trick in TRICKS}
PRESETS = ("recommended", "monusac2020", "conic2022")


@cache
def field() -> Field:
    whole = made_field(SMALL, 5)
    return Field(whole.cases, whole.references, {team: whole.teams[team] for team in list(whole.teams)[:3]})


@cache
def played() -> dict[str, Played]:
    counted, rankings = counted_rules(PRESETS, CLASSES, field().cases)
    return play_rankings(field(), counted, rankings)


def play(name: str, team: str) -> Predictions:
    return BY_NAME[name].apply(field().trick_cases(team, len(CLASSES)))


# --- tricks -----------------------------------------------------------------------------------------------------------


def test_every_trick_gives_sound_nuclei_and_changes_something() -> None:
    assert len(BY_NAME) == len(TRICKS) == len({trick.words for trick in TRICKS}) >= 30
    unchanged = set(BY_NAME)
    for name, (team, before) in product(BY_NAME, field().teams.items()):
        for left, right, case in zip(before, play(name, team), field().cases, strict=True):
            if told(left) != told(right):
                unchanged.discard(name)
            if right is None:
                continue
            assert right.shape_yx == case.shape_yx, name
            assert np.all(np.diff(right.run_start) >= 0), name
            assert np.all((right.class_id >= 1) & (right.class_id <= 4)), name
            assert np.all(right.areas_px() > 0), name
            assert np.array_equal(right.run_start // case.width, (right.run_stop - 1) // case.width), name
            masks_of(right)  # the runs of a nucleus do not overlap
            assert len(right.probability) == len(right), name
    assert unchanged == set()


def told(nuclei: Instances | None) -> list[list[float]]:
    if nuclei is None:
        return []
    return [part.tolist() for part in (nuclei.run_start, nuclei.run_stop, nuclei.class_id, nuclei.probability)]


def strips(*ends: tuple[int, int], classes: tuple[int, ...] | None = None) -> Instances:
    masks = np.zeros((len(ends), 3, 20), bool)
    for index, (first, last) in enumerate(ends):
        masks[index, 1, first:last] = True
    return instances_of(masks, classes or (1,) * len(ends))


def applied(name: str, prediction: Instances, reference: Instances | None = None) -> Instances:
    (found,) = BY_NAME[name].apply(trick_cases([prediction if reference is None else reference], [prediction], 3))
    assert found is not None
    return found


def test_tricks_do_what_their_words_say() -> None:
    nuclei = strips((0, 2), (3, 7), (8, 11), (12, 20), classes=(1, 1, 2, 3))
    for name, areas in {
        "largest_50": [4, 8], "one_per_image": [8], "no_border": [4, 3], "only_common": [2, 4], "no_rare": [2, 4, 8],
        "whole_image": [2, 4, 3, 8, 60], "empty_many": [],
        "split_largest_10": [2, 4, 3, 3, 5],  # at the column of its centroid
    }.items():  # fmt: skip
        assert applied(name, nuclei).areas_px().tolist() == areas, name
    assert applied("all_as_common", nuclei).class_id.tolist() == [1, 1, 1, 1]
    assert len(applied("copies_shifted_8", nuclei)) == 4 * 7  # those two rows down are outside of the image


def test_tricks_by_the_reference_keep_the_best_and_merge_what_lies_near() -> None:
    assert applied("merge", strips((0, 2), (3, 5), (15, 18))).areas_px().tolist() == [4, 3]
    reference = strips((0, 4), (5, 9), (10, 14), classes=(1, 2, 3))
    prediction = strips((0, 4), (5, 8), (10, 13), (15, 18), classes=(1, 1, 3, 2))
    assert applied("best_one", prediction, reference).areas_px().tolist() == [4]
    assert applied("no_wrong_class", prediction, reference).class_id.tolist() == [1, 3, 2]


# --- scores -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trick", ["larger_copies", "empty_many"])
@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_ranked_is_what_a_result_of_the_challenge_alone_has(trick: str, preset: str) -> None:
    challenge = counted_rules(PRESETS, CLASSES, field().cases)[1][preset]
    own = summarise(challenge, count_predictions(challenge, field(), play(trick, "team 1")))
    found = played()[preset].scores["team 1", trick]
    values = [own.value(path) for path in paths_read(challenge)]
    np.testing.assert_array_equal([*found.overall, *found.floors], [np.nan if v is None else v for v in values])


def test_a_method_that_ranks_in_patients_gets_what_they_contribute() -> None:
    challenge = counted_rules(PRESETS, CLASSES, field().cases)[1]["monusac2020"]
    assert played()["monusac2020"].scores["team 1", ""].by_unit is None
    assert challenge.ranking is not None
    ranking = challenge.ranking.model_copy(update={"method": "rank_then_aggregate"})
    changed = challenge.model_copy(update={"ranking": ranking})
    scores = scores_read(changed, count_predictions(challenge, field(), play("larger_copies", "team 1")), "team 1")
    assert scores.by_unit is not None
    np.testing.assert_allclose(np.nanmean(scores.by_unit, axis=1), scores.overall, atol=1e-6)


# --- what pays --------------------------------------------------------------------------------------------------------


def paying(preset: str) -> list[str]:
    return [p.trick for p in played()[preset].plays() if p.pays]


def test_under_recommended_at_most_one_play_in_a_hundred_pays_and_under_monusac2020_silence_does() -> None:
    plays = played()["recommended"].plays()
    assert len(plays) == 3 * len(TRICKS)
    assert len(paying("recommended")) <= len(plays) / 100
    assert {"best_one", "best_25"} & set(paying("monusac2020"))


KINDS = (
    ("", "a pixel larger", "", 1),
    ("_surest", "a pixel to the right", ", as another class", 3),
    ("_rare", "a pixel smaller", "", 3),
)


def test_copies_are_those_that_their_words_say() -> None:
    assert len({trick.name for trick in copy_tricks()}) == 60
    (case, *_) = field().trick_cases("team 1", len(CLASSES))
    larger, aside, _ = (copy_trick(*kind).apply([case])[0] for kind in KINDS)
    own = case.prediction
    assert own is not None and larger is not None and aside is not None and len(own) > 1
    assert len(larger) == 2 * len(own) and (larger.areas_px()[len(own) :] > own.areas_px()).all()
    half = (len(aside) - len(own)) // 3
    assert half == -(-len(own) // 2)
    first, second = (slice(len(own) + place * half, len(own) + (place + 1) * half) for place in (0, 1))
    assert (aside.class_id[first] % len(CLASSES) + 1 == aside.class_id[second]).all()
    inside = aside.centroids_yx()[second, 1] < case.reference.shape_yx[1] - 20
    assert ((aside.centroids_yx()[second] - aside.centroids_yx()[first])[inside] == [0, 1]).all()


def test_copies_do_not_pay_under_recommended() -> None:
    """Three kinds; ``python -m benchmarks.gaming --copies`` plays sixty."""
    counted, presets = counted_rules([RECOMMENDED], CLASSES, field().cases)
    rankings = rankings_of_copies(presets[RECOMMENDED])
    assert [of.submission.duplicates for of in rankings.values()] == ["false_positive", "keep", "keep"]
    found = play_rankings(field(), counted, rankings, [copy_trick(*kind) for kind in KINDS])
    plays = [Found(preset, "small 1", play) for preset, of in found.items() for play in of.plays()]
    assert copies_words(plays).startswith("3 kinds of copies in 1 made fields: 0 of 9 plays work; ")
    f1 = {preset: [of.play.f1_change for of in plays if of.preset == preset] for preset in (RECOMMENDED, KEPT)}
    assert max(f1[RECOMMENDED]) < -0.005  # each of them is worse than what it was made of
    paid = [replace(of, play=replace(of.play, pays=True)) if of.preset != RECOMMENDED else of for of in plays]
    assert "; 9 where `duplicates" in copies_words(paid) and "and 9 where, besides, `covered" in copies_words(paid)


def test_a_trick_pays_only_if_the_submission_became_worse() -> None:
    for of in played().values():
        for p in of.plays():
            assert p.pays == (p.after < p.before and min(p.f1_change, p.class_score_change) < -0.005)


def test_the_page_counts_what_pays_under_every_preset_and_of_every_trick() -> None:
    found = [Found(preset, "small 1", p) for preset, of in played().items() for p in of.plays()]
    text = page(found, PRESETS, 1, Simulated(1), "0 of 9 plays of copies work.")
    assert "0 of 9 plays of copies work." in text
    for preset in PRESETS:
        assert row_of(text, preset).split("|")[2].split()[0] == str(len(paying(preset)))
    often = Counter(paying("monusac2020"))
    for trick in TRICKS:
        assert (f"monusac2020 ({often[trick.name]})" in row_of_trick(text, trick)) == (trick.name in often)


def row_of(text: str, preset: str) -> str:
    starts = f"| **{preset}** |", f"| [{preset}](presets.md#{preset}) |"
    return next(line for line in text.splitlines() if line.startswith(starts))


def row_of_trick(text: str, trick: Trick) -> str:
    """Also of one that shares a row: "| `larger_copies`, `…_surer` | every nucleus once more, a pixel larger; …, …"."""
    for line in text.splitlines():
        first, *others = re.findall(r"`(…?\w+)`", line.partition(" | ")[0]) or [""]
        if line.startswith("| `") and trick.name in (first, *(first + other[1:] for other in others)):
            return line
    raise AssertionError(trick.name)


def test_the_page_in_docs_has_every_preset_and_keeps_the_promise() -> None:
    text = (Path(__file__).resolve().parents[1] / "docs" / "gaming.md").read_text()
    for preset in preset_names():
        assert preset in LEFT_OUT or row_of(text, preset), preset
    share = re.search(r"\(([\d.]+) %\)", row_of(text, "recommended"))
    assert share is not None and float(share[1]) <= 1
    for trick in TRICKS:
        _, _, words, _, _ = row_of_trick(text, trick).split("|")
        assert words.rstrip().endswith("(R)") == trick.by_reference
        assert words.strip().removesuffix(" (R)").split("; …")[0] in trick.words
        assert trick.words.rpartition(", ")[2] in words


@pytest.mark.parametrize("seed", [2, 3])
def test_macro_f1_follows_the_skill_in_naming_rare_classes_and_class_recall_pays_for_naming_them_in_vain(seed):
    found = Simulated(4, seed)
    recall, ranked = "covered.class_recall.pooled", "detection.macro_f1.pooled"
    assert found.pays[recall, "rare"] > 0 == found.pays[ranked, "rare"]
    for words in ("two common", "two rare", "two rare, two find few"):
        assert found.skill[ranked, words] > found.skill[recall, words]
    assert found.pays[ranked, "misnamed"] <= 0.03 * found.played["misnamed"]


def test_the_numbers_of_the_column_for_classes_in_docs_are_those_of_the_simulation() -> None:
    text = (Path(__file__).resolve().parents[1] / "docs" / "gaming.md").read_text()
    assert all(row in text.splitlines() for row in Simulated().rows())


@pytest.mark.parametrize("classes", [1, 2])
def test_as_recommended_has_the_columns_of_the_preset_and_of_one_class_none_for_naming(classes: int) -> None:
    recommended = counted_rules(PRESETS, CLASSES[:classes], field().cases)[0]
    paths = [column.path for column in as_recommended(recommended).ranking.columns]
    own = [column.path for column in Challenge.from_preset("recommended", name="own").ranking.columns]
    assert paths == [path for path in own if classes > 1 or path != "detection.macro_f1.pooled"]


# --- the command ------------------------------------------------------------------------------------------------------


def test_audit_with_tricks_says_what_pays(bench: Bench) -> None:
    bench.make("label_image by class", ranking=ranking_by("detection.f1.pooled", "segmentation.iou.pooled"))
    shutil.copytree("submission", "submissions/alpha")
    shutil.copytree("submission", "submissions/beta")
    where = ("--challenge", "challenge", "--submissions", "submissions", "--output", "out")
    printed = bench.run("audit", *where, "--tricks")
    assert "outlines: ask" not in printed  # fewer than 20 nuclei tell no copies
    document = json.loads(Path("out/tricks.json").read_text())
    assert document["first"] == ["alpha", "beta"]
    assert len(document["plays"]) == 2 * len(TRICKS)
    none = f"one of {len(TRICKS)} attempts to game the ranking worked."
    verdict = [f"N{none}"]
    assert document["verdict"] == verdict and printed.startswith(f"✓ {verdict[0]}")
    board = bench.run("leaderboard", *where)
    assert f"n{none}" in " ".join(board.split())
    assert len(json.loads(Path("out/leaderboard.json").read_text())["verdict"]) <= 5
    bench.run("leaderboard", *where[:-1], "elsewhere")
    assert "attempts" not in " ".join(json.loads(Path("elsewhere/leaderboard.json").read_text())["verdict"])
    assert bench.run("audit", *where, "--tricks") == printed
    bench.run("audit", *where, "--tricks", "--report")
    assert "Entries that decide the first rank" in Path("out/tricks.html").read_text()


def test_a_shared_first_rank_is_no_other_team() -> None:
    """A is first; without B it shares its rank with C, and with a second entry of C all three are first."""
    document = made_document()
    entry = {"first_without_it": [], "shares_outlines_with": [], "first_if_it_is_there_twice": []}
    document["entries"] = [
        {**entry, "team": "B", "first_without_it": ["A", "C"]},
        {**entry, "team": "C", "first_if_it_is_there_twice": ["A", "B", "C"]},
    ]
    assert tricks_verdict(document)[2:] == [
        "Without 'B' the first rank would change.", "With a second entry of 'C' the first rank would change.",
    ]  # fmt: skip
    (table,) = tricks_page(document).sections[1].blocks
    assert isinstance(table, Table)
    assert table.rows == (("B", "A and C", "", ""), ("C", "", "A, B and C", ""))


def made_document() -> dict[str, Any]:
    def play(trick: str, team: str, before: float, after: float | None, pays: bool) -> dict[str, Any]:
        changes = {"f1_change": -0.25, "class_score_change": 0.125}
        return {"trick": trick, "team": team, "before": before, "after": after, "pays": pays, **changes}

    return {
        "challenge": {"name": "n", "version": "1", "hash": "0" * 64, "ranking_hash": "1" * 64},
        "software": {"version": "1"},
        "first": ["a"],
        "tricks": [
            {"name": "keep", "words": "keep few", "by_reference": False},
            {"name": "best", "words": "keep the best", "by_reference": True},
        ],
        "plays": [
            play("keep", "b", 3, 1, True),
            play("keep", "c", 2, 1, True),
            play("best", "b", 3, 2, True),
            play("best", "c", 2, 1, False),
            play("keep", "a", 1, None, False),
        ],
        "pay_under_recommended": 0,
        "entries": [
            {"team": "b", "first_without_it": ["c"], "shares_outlines_with": [], "first_if_it_is_there_twice": []},
            {"team": "a", "first_without_it": [], "shares_outlines_with": [], "first_if_it_is_there_twice": []},
        ],
        "alike": [],
        "left_out": {"<d>": "rejected"},
        "findings": [],
        "verdict": ["Said."],
    }


def test_the_page_of_tricks_says_what_works_and_who_climbs(bench: Bench) -> None:
    document = made_document()
    page = tricks_page(document)
    tables = {block.anchor: block for of in page.sections for block in of.blocks if isinstance(block, Table)}
    assert [row[:3] for row in tables["works"].rows] == [
        ("keep few", "anybody", "b and c"),
        ("keep the best", "only with the reference", "b"),
    ]
    assert tables["works"].rows[0][3].text == "b, 3 to 1"
    assert tables["entry-table"].rows == (("b", "c", "", ""),)
    assert len(tables["plays"].rows) == 4
    assert page.sections[0].blocks[0] == Text(("Said.",), "bad")
    assert "&lt;d&gt; is left out: rejected" in page_html(page)
    for entry in document["plays"]:
        entry["pays"] = False
    document["entries"] = []
    page = tricks_page(document)
    assert page.sections[0].blocks[0] == Text(("Said.",), "good")
    assert isinstance(page.sections[1].blocks[0], Text)
    Path("results").mkdir()
    Path("results/tricks.json").write_text(json.dumps(document))
    assert "No team's absence or second entry" in bench.run("report", "--results", "results")
