"""Tricks do what they say, are scored as files are, and pay under rankings that can be gamed; the whole suite is a
benchmark (``python -m benchmarks.gaming``), of which a small part runs here."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from literal import instances_of, masks_of

from benchmarks.class_column import Simulated
from benchmarks.gaming import (
    BY_CENTROIDS,
    BY_NAME,
    CLASSES,
    KEPT,
    LEFT_OUT,
    RECOMMENDED,
    TRICKS,
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
from benchmarks.tricks import (
    FIRST_TRICKS,
    Field,
    Played,
    Predictions,
    Trick,
    count_predictions,
    each,
    paths_read,
    scores_read,
    trick_cases,
)
from evaluation.challenge import preset_names
from evaluation.scoring.score import summarise
from nuclei_metrics.instances.runs import erode_instances
from nuclei_metrics.model import Instances

SMALL = Plan("a small one", 4, 2, (2, 9), (5, 4, 1, 1), 1.2, 120, 1)
PRESETS = ("recommended", "monusac2020", "conic2022")


@cache
def field() -> Field:
    whole = made_field(SMALL, 5)
    return Field(whole.cases, whole.references, {team: whole.teams[team] for team in list(whole.teams)[:3]})


@cache
def played() -> dict[str, Played]:
    counted, rankings = counted_rules(PRESETS, CLASSES, field().cases)
    return play_rankings(field(), counted, rankings, FIRST_TRICKS)


def play(name: str, team: str) -> Predictions:
    return BY_NAME[name].apply(field().trick_cases(team, len(CLASSES)))


# --- tricks -----------------------------------------------------------------------------------------------------------


def test_every_trick_gives_sound_nuclei_and_changes_something() -> None:
    assert len(BY_NAME) == len(TRICKS) == len({trick.words for trick in TRICKS}) >= 90
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
    assert len(plays) == 3 * len(FIRST_TRICKS)
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


def test_a_trick_pays_only_if_the_submission_became_worse_and_is_not_nearer_to_the_reference() -> None:
    for of in played().values():
        for p in of.plays():
            higher = p.after < p.before and min(p.f1_change, p.class_score_change) < -0.005
            assert p.pays + p.calibrates == higher


def test_a_submission_that_is_nearer_to_the_reference_is_calibrated_and_no_trick() -> None:
    """Nuclei drawn a pixel too large, of which one is missed: smaller ones lie better, and one is lost."""
    made = played()["monusac2020"]
    scores = {key: of for key, of in made.scores.items() if key[1] in ("", "best_one")}
    first = next(p for p in made.plays() if p.trick == "best_one" and p.pays)
    judged = dict(made.judged)
    judged[first.team, "best_one"] = judged[first.team, ""] + [-0.1, -0.1, 0.01]
    (play,) = (p for p in replace(made, scores=scores, judged=judged).plays() if p.team == first.team)
    assert (play.pays, play.calibrates) == (False, True)


def test_every_ranking_is_judged_by_its_own_first_rule() -> None:
    """Cores of nuclei match by their centroids, and not by IoU."""
    counted, rankings = counted_rules([RECOMMENDED, BY_CENTROIDS], CLASSES, field().cases)
    cores = Trick("cores", "cores", each(lambda nuclei, _: erode_instances(nuclei, 3)))
    found = play_rankings(field(), counted, rankings, [cores])
    f1 = [found[preset].judged["team 1", "cores"][0] for preset in (RECOMMENDED, BY_CENTROIDS)]
    assert f1[0] < f1[1] - 0.1


def test_the_page_counts_what_pays_under_every_preset_and_of_every_trick() -> None:
    found = [Found(preset, "small 1", p) for preset, of in played().items() for p in of.plays()]
    text = page(found, PRESETS, 1, Simulated(1), "0 of 9 plays of copies work.")
    assert "0 of 9 plays of copies work." in text
    for preset in PRESETS:
        assert row_of(text, preset).split("|")[2].split()[0] == str(len(paying(preset)))
    often = Counter(paying("monusac2020"))
    for trick in FIRST_TRICKS:
        if trick.name in often:
            assert f"monusac2020 ({often[trick.name]})" in row_of_trick(text, trick)


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


def works_nowhere(text: str) -> set[str]:
    """Return the names of tricks in the list below the table; "`core`, `…_other`" are core and core_other."""
    found: list[str] = []
    for name in re.findall(r"`(…?\w+)`", text.partition("## Tricks that work under no preset")[2]):
        found.append(name if name[0] != "…" else f"{next(of for of in reversed(found) if of)}{name[1:]}")
    return set(found)


def test_the_page_in_docs_has_every_preset_and_keeps_the_promise() -> None:
    text = (Path(__file__).resolve().parents[1] / "docs" / "gaming.md").read_text()
    for preset in preset_names():
        assert preset in LEFT_OUT or row_of(text, preset), preset
    share = re.search(r"\(([\d.]+)%\)", row_of(text, "recommended"))
    assert share is not None and float(share[1]) <= 1
    for trick in TRICKS:
        if trick.name in works_nowhere(text):
            continue
        _, _, words, _, _ = row_of_trick(text, trick).split("|")
        words = words.replace("%", " %")
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
