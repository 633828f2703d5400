"""How many groups (patients) are needed to tell teams apart, from a pilot, by simulation with the ranking's own rules.

The pilot tells how much two teams differ from group to group. A team that is truly ahead by a margin is simulated by
drawing groups with replacement from the differences of a pair of pilot teams, their mean moved to the margin, and asked
is whether ``paired_differences`` calls it better, as a leaderboard of as many teams would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.findings.challenge import Contradiction
from evaluation.findings.errors import WrongUsage
from evaluation.leaderboard.board import load_ranked
from evaluation.leaderboard.document import number
from evaluation.leaderboard.team_scores import plan_columns
from evaluation.leaderboard.teams import ResultFolder
from evaluation.model import Float64
from evaluation.ranking.differences import FEWEST_UNITS, POWER, half_width
from evaluation.results.metrics_json import as_json, identity, software
from evaluation.results.version import __version__

NUMBERS = (5, 8, 10, 15, 20, 30, 40, 60, 80, 100, 150, 200, 300, 500)
DRAWS = 2000


@dataclass(frozen=True, slots=True)
class PlannedPower:
    """A column: the spread between groups, and what can be told apart.

    spread    standard deviation of the paired differences over groups, the median over pairs of pilot teams
    power     at each of ``NUMBERS`` of groups the probability that a team ahead by the margin is called better
    needed    the first of ``NUMBERS`` with a power of 0.8; None: more than the last one
    smallest  the smallest difference that is found with a power of 0.8 in as many groups as the challenge has now
    """

    path: str
    spread: float
    power: tuple[float, ...]
    needed: int | None
    smallest: float


def plan_challenge(folder: Path, results: Path, *, margin: float, teams: int) -> dict[str, Any]:
    """The content of plan.json.

    results  of two pilot submissions at the least, with their details.json
    margin   by which teams are to be told apart, in the unit of each column
    teams    that are expected: pairs are corrected for their number

    Raises WrongUsage, ChallengeBroken.
    """
    challenge, rules = load_ranked(folder)
    scores, _, _ = ResultFolder(results).read(challenge, plan_columns(challenge, rules.columns))
    known = [of.by_unit for of in scores if of.by_unit is not None]
    if len(known) < 2 or known[0].shape[1] < FEWEST_UNITS:
        got = f"{len(known)} teams with values of {known[0].shape[1] if known else 0} groups"
        expected = f"two pilot teams or more with their details.json, and {FEWEST_UNITS} groups or more"
        raise WrongUsage(Contradiction(got, expected).at("--results"))
    values, level = np.stack(known), rules.significance_level / max(teams * (teams - 1) // 2, 1)
    draw = np.random.Generator(np.random.PCG64(rules.seed))
    columns = [
        plan_column(column.path, values[:, index], margin, level, draw) for index, column in enumerate(rules.columns)
    ]
    groups = values.shape[2]
    return {
        "software": software(__version__),
        "challenge": identity(challenge),
        "margin": margin,
        "teams": teams,
        "groups": groups,
        "numbers": list(NUMBERS),
        "columns": [
            {
                "path": of.path,
                "direction": column.direction,
                "spread": number(of.spread),
                "power": [number(share) for share in of.power],
                "needed": of.needed,
                "smallest": number(of.smallest),
                "noisy": of.needed is None or of.needed > groups,
            }
            for column, of in zip(rules.columns, columns, strict=True)
        ],
    }


def plan_column(path: str, values: Float64, margin: float, level: float, draw: np.random.Generator) -> PlannedPower:
    """The power in one column; ``values`` of the pilot teams, (T, G)."""
    apart = [values[one] - values[other] for one, other in combinations(range(len(values)), 2)]
    apart = [of[~np.isnan(of)] for of in apart]
    apart = sorted((of - of.mean() for of in apart if len(of) >= FEWEST_UNITS), key=np.std)
    if not apart:
        return PlannedPower(path, np.nan, tuple(np.nan for _ in NUMBERS), None, np.nan)
    typical = apart[len(apart) // 2]
    spread = float(typical.std(ddof=1))
    typical = typical * np.sqrt(len(typical) / (len(typical) - 1))  # so that what is drawn has this spread
    power = tuple(power_of(typical + margin, units, level, draw) for units in NUMBERS)
    needed = next((units for units, share in zip(NUMBERS, power, strict=True) if share >= POWER), None)
    return PlannedPower(path, spread, power, needed, smallest_of(typical, values.shape[1], level, draw))


def power_of(differences: Float64, units: int, level: float, draw: np.random.Generator) -> float:
    """How often the interval of the mean of drawn differences lies above 0."""
    drawn = differences[draw.integers(len(differences), size=(DRAWS, units))]
    spread = drawn.std(axis=1, ddof=1)
    low = drawn.mean(axis=1) - half_width(np.full(DRAWS, float(units)), spread, level)
    return float((low > 0).mean())


def smallest_of(centred: Float64, units: int, level: float, draw: np.random.Generator) -> float:
    """The smallest difference that is found with ``POWER``: so far is the interval to be moved in 0.8 of the draws."""
    drawn = centred[draw.integers(len(centred), size=(DRAWS, units))]
    half = half_width(np.full(DRAWS, float(units)), drawn.std(axis=1, ddof=1), level)
    return float(np.quantile(half - drawn.mean(axis=1), POWER))


def plan_lines(document: Mapping[str, Any]) -> list[str]:
    """What the plan says, and the lines of challenge.toml that follow from it."""
    lines = []
    for of in document["columns"]:
        needed = of["needed"] or f"more than {NUMBERS[-1]}"
        lines.append(
            f"{of['path']}: spread {of['spread']}; {needed} groups tell teams apart by {document['margin']:g}; "
            f"{document['groups']} groups by {of['smallest']}{': too noisy' * of['noisy']}"
        )
    return [*lines, "Proposed for challenge.toml:", *proposed(document)]


def proposed(document: Mapping[str, Any]) -> list[str]:
    """The table [ranking] with the margin for columns that these groups can decide; the others as comments."""
    lines = ["[ranking]", "columns = ["]
    for of in document["columns"]:
        line = f'{{ path = "{of["path"]}", direction = "{of["direction"]}", margin = {document["margin"]:g} }},'
        lines.append(f"  # too noisy for {document['groups']} groups: {line}" if of["noisy"] else f"  {line}")
    return [*lines, "]"]


def plan_json(document: Mapping[str, Any]) -> str:
    return as_json(document)
