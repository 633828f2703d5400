"""Made teams: the reference with mistakes that are drawn from a seed, where a challenge has no submissions yet.

They show what such mistakes do to the columns of a challenge, patient by patient; they are no results of real teams.
Each misses, adds and confuses nuclei and draws outlines a pixel off, more often in some patients than in others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evaluation.analysis.gaming import Field, RankedBy, count_predictions, scores_for
from evaluation.analysis.tricks import moved, renamed, together
from evaluation.challenge import Challenge
from evaluation.challenge.rules import RankingRules
from evaluation.findings.errors import ChallengeBroken, faults_as
from evaluation.instances.perturb import dilate_instances, erode_instances
from evaluation.instances.runs import select_instances
from evaluation.leaderboard.team_scores import TeamScores, groups_of
from evaluation.model import Float64, Instances
from evaluation.scoring.read import read_reference, read_shared_reference

HARDNESS = (0.4, 1.6)  # of a patient: how many times more often mistakes are made


@dataclass(frozen=True, slots=True)
class Skill:
    """Shares of the nuclei that are missed, added elsewhere, given another class, and drawn or placed a pixel off."""

    missed: float
    spurious: float
    confused: float
    off: float


SKILLS: Mapping[str, Skill] = {
    "made: careful": Skill(0.05, 0.03, 0.05, 0.3),
    "made: coarse": Skill(0.10, 0.10, 0.10, 0.9),
    "made: silent": Skill(0.25, 0.03, 0.05, 0.3),
    "made: confused": Skill(0.08, 0.08, 0.30, 0.6),
}
ONE_PIXEL: Mapping[str, Callable[[Instances], Instances]] = {
    "eroded": lambda nuclei: erode_instances(nuclei, border="open"),
    "dilated": dilate_instances,
    "shifted": lambda nuclei: moved(nuclei, 1, 0),
}


def reference_field(challenge: Challenge, folder: Path) -> Field:
    """The reference of all cases, without teams. Raises ChallengeBroken."""
    with faults_as(ChallengeBroken):
        shared = read_shared_reference(challenge, folder)
        references = tuple(
            read_reference(challenge, folder, case, None if shared is None else shared.cases[case.name])
            for case in challenge.cases
        )
    return Field(challenge.cases, references, {})


def made_teams(challenge: Challenge, rules: RankingRules, field: Field) -> Iterator[tuple[str, list[Instances]]]:
    """Each made team with its predictions in the order of the cases; the same for the same seed."""
    groups = groups_of(challenge)
    low, high = HARDNESS
    for index, (name, skill) in enumerate(SKILLS.items()):
        hardness = low + (high - low) * generator(rules.seed, index).random(len(groups))
        yield (
            name,
            [
                made_prediction(
                    reference.instances,
                    skill,
                    float(hardness[groups.index(case.group)]),
                    len(challenge.classes),
                    generator(rules.seed, index, 1 + of_case),
                )
                for of_case, (case, reference) in enumerate(zip(field.cases, field.references, strict=True))
            ],
        )


def score_made_teams(challenge: Challenge, rules: RankingRules, field: Field) -> list[TeamScores]:
    """What each made team has in the columns of a ranking, by group."""
    ranked = RankedBy(challenge, rules)
    return [
        scores_for(ranked, count_predictions(challenge, field, predictions), name)
        for name, predictions in made_teams(challenge, rules, field)
    ]


def generator(*seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def made_prediction(
    nuclei: Instances, skill: Skill, hardness: float, classes: int, draw: np.random.Generator
) -> Instances:
    """The nuclei of an image with the mistakes of a team; no mistake befalls more than nine nuclei of ten."""
    number = len(nuclei)
    chance = draw.random((5, number))
    missed, confused, off, spurious = (
        min(0.9, share * hardness) for share in (skill.missed, skill.confused, skill.off, skill.spurious)
    )
    other = (nuclei.class_id - 1 + 1 + (draw.random(number) * max(classes - 1, 1)).astype(np.int64)) % classes + 1
    named = renamed(nuclei, np.where((chance[1] < confused) & (nuclei.class_id > 0), other, nuclei.class_id))
    away = [1 + int(share * (length - 1)) for share, length in zip(draw.random(2), nuclei.shape_yx, strict=True)]
    kept = chance[0] >= missed
    way = (chance[3] * (len(ONE_PIXEL))).astype(np.int64)
    is_off = kept & (chance[2] < off)
    parts = [select_instances(named, kept & ~is_off)]
    changes = ONE_PIXEL.values() if nuclei.point_yx is None else [ONE_PIXEL["shifted"]] * len(ONE_PIXEL)
    parts += [change(select_instances(named, is_off & (way == index))) for index, change in enumerate(changes)]
    parts.append(moved(select_instances(named, chance[4] < spurious), away[0] // 2 + 1, away[1] // 2 + 1))
    return replace(together(*parts), probability=None)


def one_pixel_changes(challenge: Challenge, rules: RankingRules, field: Field) -> Float64:
    """In each column the largest change for one pixel, float64 (K,): the reference itself less the same eroded, dilated
    or shifted. Points can be shifted only. NaN where it is undefined."""
    ranked = RankedBy(challenge, rules)
    references = [of.instances for of in field.references]
    ways = [change for name, change in ONE_PIXEL.items() if name == "shifted" or not challenge.reference.are_points]
    own, *changed = (
        scores_for(ranked, count_predictions(challenge, field, [change(nuclei) for nuclei in references]), "").overall
        for change in [lambda nuclei: nuclei, *ways]
    )
    return np.asarray(np.abs(np.stack(changed) - own).max(axis=0))
