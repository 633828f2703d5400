"""The audit of a table of scores from elsewhere: the rules of ranking are varied; what asks for nuclei is left out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import get_args

from evaluation.analysis.audit import AS_WRITTEN, Variants, own_first, plan_methods
from evaluation.analysis.audit_document import Audit, Dimension
from evaluation.analysis.reweighted import ALL, other_patients, other_weights
from evaluation.challenge.rules import AuditRules, RankingRules
from evaluation.findings import counted, render_findings
from evaluation.leaderboard.board import identity_of, table_in_file
from evaluation.leaderboard.rank_given import parse_settings, rules_of_scores
from evaluation.leaderboard.score_csv import ScoreRows, Unit, aggregation_of, read_rows, table_of_rows
from evaluation.model import MissingValues

NO_NUCLEI = (
    "Matching rules, their thresholds, overlap, ignored regions and predictions are not varied: that needs nuclei, and "
    "these are scores."
)


def audit_scores_in_file(
    challenge_folder: Path | None, scores: Path, *, columns: Sequence[str], settings: Sequence[str], unit: Unit
) -> Audit:
    """The audit of the teams of a CSV file, which is read and ranked as ``rank_given`` does.

    Varied are the method, the rule for missing values if any are missing, whether cases or groups count the same, the
    weights of columns, and the patients. Raises WrongUsage and ChallengeBroken.
    """
    challenge, rules = rules_of_scores(challenge_folder, scores, columns, parse_settings(settings))
    rows, findings = read_rows(scores, rules.columns, challenge)
    of_audit = challenge.audit if challenge else AuditRules()
    own = table_of_rows(rows, rules.columns, unit=unit, missing=rules.missing)
    table = table_in_file(own, rules, challenge)
    notes = [NO_NUCLEI]
    means = other_means(rows, rules, unit, notes)
    missing: tuple[MissingValues, ...] = (rules.missing,)
    if any(of.code == "incomplete-scores" for of in own.findings):
        missing = own_first(rules.missing, get_args(MissingValues))
    else:
        notes.append("The rule for missing values is not varied: no team lacks a value that another one has.")
    methods = plan_methods(of_audit, rules)
    weights = other_weights(rules, of_audit.weights)
    patients = other_patients(table.units, wanted=of_audit.patients, notes=notes)
    values = {
        "missing": missing,
        "unit": tuple(means),
        "weights": (AS_WRITTEN, *weights),
        "patients": (ALL, *patients),
        "method": methods,
    }
    dimensions = [Dimension(name, of, of[0]) for name, of in values.items()]
    ranked = Variants(dimensions, rules, methods, table.teams)
    for rule, (name, mean) in product(missing, means.items()):
        found = table_of_rows(rows, rules.columns, unit=unit, missing=rule, mean=mean)
        by_rule = rules.model_copy(update={"missing": rule})
        ranked.add_table(table_in_file(found, by_rule, challenge), by_rule, missing=rule, unit=name)
    ranked.add_weights(table, weights)
    ranked.add_patients(table, patients)
    note = f"{counted(len(ranked.settings), 'variant')} of one table of scores."
    return ranked.audit(
        identity=identity_of(challenge, rules),
        unranked=[],
        notes=[note, *notes, *render_findings([*findings, *own.findings])],
    )


def other_means(rows: ScoreRows, rules: RankingRules, unit: Unit, notes: list[str]) -> dict[str, Unit | None]:
    """What columns are means over, that of the ranking first; others where groups and cases differ."""
    written = {aggregation_of(column.path, unit) for column in rules.columns}
    own = next(iter(written)) if len(written) == 1 else AS_WRITTEN
    if len(rows.groups) in (1, len(rows.cases)):
        notes.append("What means are taken over is not varied: groups and cases give the same.")
        return {own: None}
    return {own: None} | {name: name for name in get_args(Unit) if name != own}
