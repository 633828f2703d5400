"""How many groups (patients) are needed to tell teams apart, from a pilot, by simulation with the ranking's own rules.

The pilot tells how much two teams differ from group to group. A team that is truly ahead by a margin is simulated by
drawing groups with replacement from the differences of a pair of pilot teams, their mean moved to the margin, and asked
is whether ``paired_differences`` calls it better, as a leaderboard of as many teams would.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.analysis.fit import Fit, fit_rules, floor_below
from evaluation.analysis.gaming import Field
from evaluation.analysis.made_teams import made_teams, one_pixel_changes, reference_field, score_made_teams
from evaluation.analysis.sensitivity import study_sensitivity
from evaluation.analysis.sensitivity_document import Sensitivity
from evaluation.challenge import CHALLENGE_FILE, Challenge
from evaluation.challenge.documents import read_text, resolve_preset
from evaluation.challenge.rules import RankingColumn, RankingRules
from evaluation.findings import render_findings
from evaluation.findings.challenge import Contradiction
from evaluation.findings.errors import ChallengeBroken, WrongUsage
from evaluation.leaderboard.annotators import (
    Marked,
    annotator_distances,
    compare_annotators,
    mean_with_interval,
    proposed_margin,
    read_annotators,
)
from evaluation.leaderboard.board import load_ranked
from evaluation.leaderboard.document import number
from evaluation.leaderboard.gameable import metrics_of_paths
from evaluation.leaderboard.team_scores import plan_columns
from evaluation.leaderboard.teams import ResultFolder
from evaluation.model import Float64
from evaluation.ranking.differences import FEWEST_UNITS, POWER, half_width
from evaluation.results.metrics_json import identity, software
from evaluation.scoring.columns import check_columns
from evaluation.scoring.rasterise import with_sizes

MADE = "No submissions: the teams are made, the reference with drawn mistakes. Real teams may differ more."
LEAST_MARGIN = 0.02
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


def plan_challenge(
    folder: Path, results: Path | None = None, *, margin: float | None = None, teams: int, workers: int | None = None
) -> dict[str, Any]:
    """The content of plan.json.

    results  of two pilot submissions at the least, with their details.json; None: made teams (``made_teams``)
    margin   by which teams are to be told apart, in the unit of each column; None: what one pixel or another annotator
             changes in the column, at least ``LEAST_MARGIN``
    teams    that are expected: pairs are corrected for their number

    Without results everything is simulated under the rules that are proposed. With fewer groups than ``FEWEST_UNITS``
    nothing is simulated, and the rest is there. Raises WrongUsage, ChallengeBroken.
    """
    challenge, rules = load_ranked(folder)
    known = [] if results is None else results_of_pilot(challenge, rules, results)
    found, words = study_pilot(folder, challenge, needed=results is None, workers=workers)
    marked = read_annotators(folder, challenge)
    fit = None if found is None else fit_rules(found, annotator_distances(challenge, marked) if marked else {})
    raw = tomllib.loads(read_text(folder / CHALLENGE_FILE))
    proposal = Proposal(raw, challenge)
    if fit is not None:
        proposal.take_fit(fit)
    field = (
        None if challenge.are_counts or (results is not None and found is None) else reference_field(challenge, folder)
    )
    changes = np.full(len(rules.columns), np.nan)
    if field is not None:
        changes = one_pixel_changes(proposal.challenge, rules, field)
    if results is None:
        if field is None:
            raise WrongUsage(
                Contradiction("numbers of nuclei", "the results of a pilot, by --results").at("--challenge")
            )
        known = [of.by_unit for of in score_made_teams(proposal.challenge, rules, field) if of.by_unit is not None]
    human: list[float | None] = [None] * len(rules.columns)
    if marked and field is not None:
        f1 = RankingColumn(path=proposal.f1, direction="descending")
        scored = with_sizes(proposal.challenge, folder)
        human, reached = between_annotators(scored, [*rules.columns, f1], rules, marked, field)
        if fit is not None and reached is not None and (floor := floor_below(reached)) < fit.floor:
            proposal.take_floor(floor)
            words.append(f"Floor on detection F1: {floor:g} instead, half of what annotators reach with each other.")
    margins = [
        margin or max(LEAST_MARGIN, two_digits(np.nan_to_num(change)), two_digits(of or 0.0))
        for change, of in zip(changes.tolist(), human, strict=False)
    ]
    values, level = np.stack(known), rules.significance_level / max(teams * (teams - 1) // 2, 1)
    draw = np.random.Generator(np.random.PCG64(rules.seed))
    columns = [
        plan_column(column.path, values[:, index], margins[index], level, draw)
        for index, column in enumerate(rules.columns)
    ]
    groups = values.shape[2]
    simulated = groups >= FEWEST_UNITS
    noisy = [simulated and (of.needed is None or of.needed > groups) for of in columns]
    proposal.take_columns(rules, margins, noisy)
    return {
        "software": software(),
        "challenge": identity(challenge),
        "pilot": "made teams" if results is None else "submissions",
        "teams": teams,
        "groups": groups,
        "numbers": list(NUMBERS),
        "fit": [*(fit.words if fit else ()), *words],
        "columns": [
            {
                "path": of.path,
                "direction": column.direction,
                "margin": margins[index],
                "one_pixel": number(float(changes[index])),
                "annotators": number(human[index]),
                "spread": number(of.spread),
                "power": [number(share) for share in of.power],
                "needed": of.needed,
                "smallest": number(of.smallest),
                "noisy": noisy[index],
                "proposed": column.path in proposal.paths,
            }
            for index, (column, of) in enumerate(zip(rules.columns, columns, strict=True))
        ],
        "proposed": proposal.document,
        "not_proposed": proposal.refused,
    }


def results_of_pilot(challenge: Challenge, rules: RankingRules, results: Path) -> list[Float64]:
    """The values of pilot teams by column and group. Raises WrongUsage for too few."""
    scores, _ = ResultFolder(results).read(challenge, plan_columns(challenge, rules.columns))
    known = [of.by_unit for of in scores if of.by_unit is not None]
    if len(known) < 2:
        raise WrongUsage(
            Contradiction(f"{len(known)} teams", "two pilot teams or more with their details.json").at("--results")
        )
    return known


def study_pilot(
    folder: Path, challenge: Challenge, *, needed: bool, workers: int | None
) -> tuple[Sensitivity | None, list[str]]:
    """What a pixel costs; or why it is not known. Raises ChallengeBroken where a reference is ``needed``."""
    if challenge.reference.are_points or challenge.are_counts:
        return None, ["Nuclei without outlines: no matching rule, tolerance, cap or floor is proposed."]
    try:
        return study_sensitivity(folder, workers=workers), []
    except ChallengeBroken:
        if needed:
            raise
        return None, ["The reference cannot be read: no matching rule, tolerance, cap or floor is proposed."]


def between_annotators(
    challenge: Challenge, columns: Sequence[RankingColumn], rules: RankingRules, marked: Marked, field: Field
) -> tuple[list[float | None], float | None]:
    """How much each column changes with another annotator as the reference (``proposed_margin``), and the mean of the
    last column between annotators; None: not known.

    Scored are the annotators and made teams, since of two annotators each is scored against one reference only.
    """
    names = [case.name for case in field.cases]
    teams = (
        (name, {case: (of, None) for case, of in zip(names, predictions, strict=True)})
        for name, predictions in made_teams(challenge, rules, field)
    )
    found = compare_annotators(challenge, rules.model_copy(update={"columns": tuple(columns)}), marked, teams)
    reached = mean_with_interval([of.by_unit[-1] for of in found.pairs.values()], rules.significance_level)["mean"]
    return [proposed_margin(found, index) for index in range(len(columns))], reached


class Proposal:
    """challenge.toml as it is proposed: what would break the rules is not taken.

    document   as it is written, with its preset
    challenge  the same, resolved and checked
    refused    what was not taken, and why
    """

    def __init__(self, raw: Mapping[str, Any], challenge: Challenge) -> None:
        self.document, self.challenge, self.refused = dict(raw), challenge, list[str]()

    def take(self, table: str, keys: Mapping[str, Any], what: str) -> None:
        """Other values for keys of a table, if the whole stays valid."""
        document = {**self.document, table: {**self.document.get(table, {}), **keys}}
        try:
            challenge = Challenge.build({**resolve_preset(dict(document)), "cases": self.challenge.cases})
            check_columns(challenge)
        except ChallengeBroken as broken:
            self.refused.append(f"{what}: {render_findings(broken.findings)[0]}")
            return
        self.document, self.challenge = document, challenge

    def take_fit(self, fit: Fit) -> None:
        metrics = self.challenge.metrics
        if fit.rule is not None:
            own = [rule.model_dump(mode="json", exclude_none=True) for rule in self.challenge.matching.rules]
            same = {"name", "class_aware", "ties"}
            others = [of for of in own if {**of, **dict.fromkeys(same, "")} != {**fit.rule, **dict.fromkeys(same, "")}]
            self.take("matching", {"rules": [fit.rule, *others]}, "matching rule")
        if fit.tolerance is not None and metrics.tolerance_um is None:
            measures = list(dict.fromkeys([*metrics.measures, "surface_dice"]))
            self.take("metrics", {"measures": measures, "tolerance_px": float(fit.tolerance)}, "tolerance")
        if metrics.distance_cap_px is not None:
            self.take("metrics", {"distance_cap_px": fit.cap}, "cap")
        self.take_floor(fit.floor)

    def take_floor(self, at_least: float) -> None:
        """Of detection F1, as the challenge averages; a floor of 0 is none."""
        required = self.challenge.ranking.require if self.challenge.ranking else ()
        others = [of.model_dump() for of in required if not of.path.startswith("detection.f1.")]
        if at_least > 0:
            self.take("ranking", {"require": [*others, {"path": self.f1, "at_least": at_least}]}, "floor")

    @property
    def f1(self) -> str:
        unit = self.challenge.aggregation.unit
        return f"detection.f1.{unit if unit == 'pooled' else f'{unit}_mean'}"

    def take_columns(self, rules: RankingRules, margins: Sequence[float], noisy: Sequence[bool]) -> None:
        """The columns that the groups can decide, with their margins, and one at least that missed nuclei cost; all of
        them if there is none."""
        columns = [
            {
                "path": column.path,
                "direction": column.direction,
                **({"weight": column.weight} if column.weight != 1 else {}),
                "margin": margin,
            }
            for column, margin in zip(rules.columns, margins, strict=True)
        ]
        self.take("ranking", {"columns": columns}, "margins")
        seeing = {
            path for path, metric in metrics_of_paths(self.challenge, rules.columns).items() if metric.missed != "none"
        }
        kept = {column.path for column, is_noisy in zip(rules.columns, noisy, strict=True) if not is_noisy}
        if not kept & seeing:
            kept |= seeing
        if kept:
            self.take("ranking", {"columns": [of for of in columns if of["path"] in kept]}, "columns")

    @property
    def paths(self) -> set[str]:
        return {column.path for column in self.challenge.ranking.columns} if self.challenge.ranking else set()


def two_digits(value: float) -> float:
    return float(f"{value:.2g}")


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
    """What the plan says, a line for each column."""
    lines = [MADE] if document["pilot"] == "made teams" else []
    lines += document["fit"]
    lines += [few] if (few := few_groups(document)) else []
    lines += [line_of(of, document["groups"]) for of in document["columns"]]
    noise = noise_words(document)
    return [*lines, *([noise] if noise else []), *(f"Not proposed: {reason}" for reason in document["not_proposed"])]


def few_groups(document: Mapping[str, Any]) -> str:
    """Why nothing was simulated, "" if it was."""
    groups = document["groups"]
    told = f"{groups} groups (patients) are too few to simulate how many are needed: {FEWEST_UNITS} at least."
    return told if groups < FEWEST_UNITS else ""


def line_of(column: Mapping[str, Any], groups: int) -> str:
    path, margin = column["path"], column["margin"]
    if column["spread"] is None:
        return f"{path}: margin {margin}"
    needed = column["needed"] or f"more than {NUMBERS[-1]}"
    return (
        f"{path}: spread {column['spread']}; {needed} groups tell teams apart by {margin}; "
        f"{groups} groups by {column['smallest']}{': too noisy' * column['noisy']}"
    )


def noise_words(document: Mapping[str, Any]) -> str:
    """Which columns the groups cannot decide, and what is proposed; "" for none."""
    noisy = [of for of in document["columns"] if of["noisy"]]
    left, kept = ([of["path"] for of in noisy if of["proposed"] is proposed] for proposed in (False, True))
    noise = []
    if left:
        noise.append(
            f"Too noisy for {document['groups']} groups and left out of the proposed ranking: {', '.join(left)}."
        )
    if kept:
        why = "without them missed nuclei cost nothing, or no column is left"
        noise.append(f"Too noisy for {document['groups']} groups and kept, since {why}: {', '.join(kept)}.")
    return " ".join(noise)


def heading(document: Mapping[str, Any]) -> list[str]:
    """The comments that the proposed challenge.toml begins with."""
    noise = noise_words(document)
    return [
        "Proposed by 'evaluation plan': the rules of the pilot, and what fits its nuclei. Look at each of them.",
        *document["fit"],
        *([noise] if noise else []),
    ]
