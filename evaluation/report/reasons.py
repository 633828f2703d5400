"""Explanations of unmatched nuclei and lower ranks, from numbers of objects.csv and leaderboard.json."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from operator import add
from pathlib import Path
from typing import Any

from evaluation.board.stored import read_objects, rows_with
from evaluation.findings import counted, did_you_mean, fault, quote
from evaluation.findings.errors import WrongUsage, refused
from evaluation.report.result import ResultDocuments, node_at

_Row = Mapping[str, str]
_WORDS_OF_SIDES = {"reference": "reference nucleus", "prediction": "predicted nucleus"}
_WORDS_OF_KINDS = {
    "missed": "missed: no unmatched prediction has an IoU of 0.1 or more with it",
    "spurious": "spurious: no unmatched reference nucleus has an IoU of 0.1 or more with it",
    "wrong_class": "wrong class: the same rule without classes would match it",
    "poor_outline": "poor outline: the best free pair overlaps, but not enough for the rule",
    "split": "split: one reference nucleus is covered by several predictions",
    "duplicate": "duplicate: it shares more than half of the smaller of the two with a matched prediction",
    "merged": "merged: one prediction covers several reference nuclei",
}
_WORDS_OF_POLICIES = {  # of ignore regions, in which this share of a nucleus lies
    "clip": "all of it",
    "drop_overlapping": "more than {fraction:g} of it",
    "drop_centroid": "its centroid",
    "drop_unmatched": "all of it, or more than {fraction:g} of a prediction that matches nothing",
}


def reasons_at(folder: Path, result: ResultDocuments, case: str, at: str) -> list[str]:
    """Explain in a paragraph each nucleus of a case with an id, or the nucleus nearest to "ROW,COLUMN".

    A line for each further matching rule follows. Raises WrongUsage for a case or a nucleus that objects.csv does not
    have, and for a point outside.
    """
    first, *others = result.rules["matching"]["rules"]
    spacing = (result.details or {"cases": {}})["cases"].get(case, {}).get("spacing_um")
    rows_of = {
        name: _rows_of(folder / "objects.csv", case, name, spacing)
        for name in (rule["name"] for rule in (first, *others))
    }
    rows = rows_of[result.rule]
    place = _place_in(at)
    if place is None:
        chosen = [row for row in rows if at in (row["reference_id"], row["prediction_id"])]
        if not chosen:
            ids = [row["reference_id"] or row["prediction_id"] for row in rows]
            raise _not_in_result("--at", at, ids)
    else:
        chosen = [_nearest_row(rows, place, at)]
    lines = []
    ignore = result.rules["reference"]["ignore"]
    for row in chosen:
        if row["outcome"] == "ignored":
            inside = _WORDS_OF_POLICIES[ignore["policy"]].format_map(ignore)
            lines.append(f"{_subject_of(row, place)} ignored: {inside} lies in an ignore region. It is in no score.")
            continue
        lines.append(_reason_of(row, rows, first, place))
        lines += [_under_rule(row, rows_of[rule["name"]], rule) for rule in others]
    return lines


def _nearest_row(rows: Sequence[_Row], place: tuple[float, float], at: str) -> _Row:
    """Return the nucleus nearest to a point. Raises WrongUsage for a point outside the extent of the nuclei."""
    placed = [row for row in rows if row["row"]]
    areas = (float(row[f"{side}_area_px"] or 0) for row in placed for side in _WORDS_OF_SIDES)
    reach = 2 * math.sqrt(max(areas, default=0.0) / math.pi) + 16  # the largest diameter, and some pixels for points
    ends = []
    for value, name in zip(place, ("row", "column"), strict=True):
        known = [float(row[name]) for row in placed]
        low, high = min(known, default=0.0), max(known, default=0.0)
        if not low - reach <= value <= high + reach or not known:
            ends.append(f"{name}s {low:.0f} to {high:.0f}")
    if ends:
        fix = f"The nuclei of the case are in {' and '.join(ends)}."
        names = [row["reference_id"] or row["prediction_id"] for row in rows]
        wording = "not-in-result"
        raise WrongUsage(fault("unknown-code", "--at", wording=wording, fix=fix, name=at, known=names))
    return min(placed, key=lambda row: _distance(row, place))


def _under_rule(row: _Row, rows: Sequence[_Row], rule: Mapping[str, Any]) -> str:
    """Describe the nuclei of a row under another matching rule."""
    words = []
    for side, other in (("reference", "prediction"), ("prediction", "reference")):
        own = next((one for one in rows if row[f"{side}_id"] and one[f"{side}_id"] == row[f"{side}_id"]), None)
        if own is None:
            continue
        matched = f"matched to {_WORDS_OF_SIDES[other]} {quote(own[f'{other}_id'])}"
        is_matched = own["outcome"] == "matched"
        words.append(
            f"{_WORDS_OF_SIDES[side]} {quote(row[f'{side}_id'])} is {matched if is_matched else 'not matched'}"
        )
        if is_matched and own[f"{other}_id"] == row[f"{other}_id"]:
            break  # the same pair, from both of its sides
    return f"{rule_in_words(rule)}: {'; '.join(words)}."


def _not_in_result(option: str, name: str, known: Sequence[str]) -> WrongUsage:
    fix = did_you_mean(name, known)
    return WrongUsage(fault("unknown-code", option, wording="not-in-result", fix=fix, name=name, known=list(known)))


def _rows_of(path: Path, case: str, rule: str, spacing_um: float | None) -> list[_Row]:
    """Return the rows of a case under a rule, each with the size of a pixel; "": unknown."""
    if (table := read_objects(path)) is None:
        raise refused("not-metrics", "'objects.csv'", got="not there")
    names = table.categories(table.need("case"))[0]
    if case not in names:
        raise _not_in_result("--case", case, names)
    table = table.take(rows_with(table, "case", case) & rows_with(table, "rule", rule))
    cells = [[cell.decode() for cell in table.cells(column)] for column in range(len(table.names))]
    spacing = "" if spacing_um is None else str(spacing_um)
    return [{**dict(zip(table.names, row, strict=True)), "spacing_um": spacing} for row in zip(*cells, strict=True)]


def _place_in(text: str) -> tuple[float, float] | None:
    """Return row and column of "512,300"; None for an id."""
    try:
        row, column = (float(part) for part in text.split(","))
    except ValueError:
        return None
    return (row, column) if math.isfinite(row) and math.isfinite(column) else None


def _distance(row: _Row, place: tuple[float, float]) -> float:
    return math.dist(place, (float(row["row"]), float(row["column"])))


def _reason_of(row: _Row, rows: Sequence[_Row], rule: Mapping[str, Any], place: tuple[float, float] | None) -> str:
    """Create the paragraph of a row of objects.csv."""
    outcome = {"missed": "a false negative", "spurious": "a false positive"}.get(row["outcome"], "matched")
    side, other = ("reference", "prediction")[:: -1 if row["outcome"] == "spurious" else 1]
    words = [f"{_subject_of(row, place)} {outcome}"]
    if outcome == "matched":
        words[0] += f" to {_nucleus(row, other)}" + (f", IoU {float(row['iou']):.3f}." if row.get("iou") else ".")
        if row["kind"] == "wrong_class":
            words.append("The classes differ, so it counts as a wrong class.")
        return " ".join([*words, f"{rule_in_words(rule)}."])
    words[0] += "."
    if not row["nearest_id"]:
        return " ".join([*words, f"There is no {_WORDS_OF_SIDES[other]} in this case."])
    found = next((one for one in rows if one[f"{other}_id"] == row["nearest_id"]), None)
    nearest = f"{_WORDS_OF_SIDES[other]} {quote(row['nearest_id'])}" if found is None else _nucleus(found, other)
    iou, distance = float(row["nearest_iou"]), float(row["nearest_distance_px"] or "nan")
    if iou:
        words.append(f"Its best candidate is {nearest}: IoU {iou:.3f}, centroids {_length(row, distance)} apart.")
    else:
        words.append(
            f"No {_WORDS_OF_SIDES[other]} overlaps it. The nearest one is {nearest}, {_length(row, distance)} away."
        )
    if row["taken_by"]:
        taken = f"That is matched to {_WORDS_OF_SIDES[side]} {quote(row['taken_by'])}"
        by = f" (IoU {float(found['iou']):.3f})" if found and found.get("iou") else ""
        words.append(f"{taken}{by}.")
    else:
        words.append("That is matched to nothing.")
    words.append(f"{rule_in_words(rule)}{_lacking(row, found, rule, side, iou, distance)}.")
    words.append(f"Kind of error: {_WORDS_OF_KINDS.get(row['kind'], row['kind'])}.")
    return " ".join(words)


def _subject_of(row: _Row, place: tuple[float, float] | None) -> str:
    """Return the beginning of the sentence on a row: its nucleus and where it is."""
    where = f" at row {float(row['row']):.1f}, column {float(row['column']):.1f}" if row["row"] else ""
    if place is not None:
        where += f" ({_length(row, _distance(row, place))} from {place[0]:g},{place[1]:g})"
    return f"Case {quote(row['case'])}: {_nucleus(row, 'reference' if row['reference_id'] else 'prediction')}{where} is"


def _length(row: _Row, px: float) -> str:
    """Write a distance in px, and in µm if the size of a pixel is known."""
    return f"{px:.1f} px" + (f" = {px * float(row['spacing_um']):.2f} µm" if row["spacing_um"] else "")


def _nucleus(row: _Row, side: str) -> str:
    area = f", {int(row[f'{side}_area_px']):,} px" if row[f"{side}_area_px"] else ""
    if area and row["spacing_um"]:
        area += f" = {int(row[f'{side}_area_px']) * float(row['spacing_um']) ** 2:.1f} µm²"
    return f"{_WORDS_OF_SIDES[side]} {quote(row[f'{side}_id'])} ({row[f'{side}_class']}{area})"


def rule_in_words(rule: Mapping[str, Any]) -> str:
    words = f"The rule {quote(rule['name'])}"
    if rule.get("threshold") is not None:
        words += f" needs an IoU above {rule['threshold']:g}"
    elif (unit := next((unit for unit in ("px", "um") if rule.get(f"radius_{unit}") is not None), None)) is not None:
        words += f" needs centroids at most {rule[f'radius_{unit}']:g} {'µm' if unit == 'um' else unit} apart"
    else:
        words += f" is {rule['rule']}"
    return words + " and the same class" * bool(rule.get("class_aware"))


def _lacking(row: _Row, found: _Row | None, rule: Mapping[str, Any], side: str, iou: float, distance: float) -> str:
    """Return why the best candidate fails the rule; nothing if only its other match is the reason."""
    lacking = []
    threshold, radius = rule.get("threshold"), rule.get("radius_px")
    if rule.get("radius_um") is not None and row["spacing_um"]:
        radius = rule["radius_um"] / float(row["spacing_um"])
    if threshold is not None and iou <= threshold:
        lacking.append(f"{threshold - iou:.3f} of IoU")
    if radius is not None and distance > radius:
        lacking.append(_length(row, distance - radius))
    other = "prediction" if side == "reference" else "reference"
    if rule.get("class_aware") and found is not None and found[f"{other}_class"] != row[f"{side}_class"]:
        lacking.append("the class")
    return f"; this pair lacks {' and '.join(lacking)}" if lacking else ""


# --- why a team is behind ---------------------------------------------------------------------------------------------


def columns_lost(document: Mapping[str, Any], name: str, titles: Sequence[str]) -> list[str]:
    """Return for each column in which a team is not first who is ahead, by how much, with p and n.

    titles  of the columns
    """
    teams = document["teams"]
    own = next((team for team in teams if team["name"] == name), None)
    return [] if own is None else [*_columns_lost(document, own, teams, titles)]


def standing_in_words(document: Mapping[str, Any], name: str, titles: Sequence[str]) -> list[str]:
    """Return the rank of a team and its largest losses. Raises WrongUsage for a name without a rank."""
    names = [team["name"] for team in document["teams"]]
    if name not in names:
        raise _not_in_result("--team", name, names)
    own = document["teams"][names.index(name)]
    method = document["ranking"]["method"].replace("_", " ")
    first = (
        f"{quote(name)}: rank {own['position']:g} of {counted(len(names), 'team')} by {method} ({own['combined']:g})."
    )
    lost = columns_lost(document, name, titles)
    return [first, *(lost or ["No team is better in any column."])]


def nuclei_of_columns(columns: Iterable[str], result: ResultDocuments) -> list[str]:
    """Return how many nuclei the ranked columns of a team rest on; nothing on columns of one class or another rule.

    For organisers, since the numbers reveal the reference.
    """
    if result.details is None or not all("false_negatives" in unit.counts for unit in result.groups):
        return []
    share = Fraction(str(result.rules["metrics"]["coverage"] or 1))
    groups: dict[str, list[str]] = {}
    for path in columns:
        family, _, metric = path.partition(".")
        if family == "alternatives" or metric.startswith(("per_class.", "grouped.")):
            continue
        hits, missed = ([unit.counts[key] for unit in result.groups] for key in ("true_positives", "false_negatives"))
        numbers, what = list(map(add, hits, missed)), "reference nuclei"
        if family == "covered" and not metric.startswith("class_"):
            numbers, what = (
                [math.ceil(share * number) for number in numbers],
                f"reference nuclei, the best {float(share):.0%}",
            )
        elif family in ("classification", "segmentation"):
            numbers, what = hits, "matched nuclei"
        each = f"{min(numbers)} to {max(numbers)} in each of {counted(len(numbers), 'patient')}"
        groups.setdefault(f"{sum(numbers):,} {what} ({each})", []).append(f"`{path}`")
    return [f"{' and '.join(paths)}: {words}." for words, paths in groups.items()]


def one_percent_more(document: Mapping[str, Any], name: str, result: ResultDocuments) -> list[str]:
    """Describe the ranked columns, and the ranks in them, with 1% more of the reference nuclei of each unit matched.

    Columns that also depend on which nuclei these are, or on their outlines, are only named. Nothing without false
    negatives.
    """
    if result.details is None:
        return []
    units = {
        "pooled": ("", [result.details["pooled"]["rules"][result.rule]["counts"]]),
        "group_mean": (" of each patient", [one.counts for one in result.groups]),
        "case_mean": (" of each case", [one.counts for one in result.cases]),
    }
    lines, others = [], []
    for index, path in enumerate(column["path"] for column in document["columns"]):
        metric, _, unit = path.rpartition(".")
        now, (how, gain_in) = result.value(path), _GAINS.get(metric, ("", None))
        if now is None or unit not in units or gain_in is None:
            others.append(f"`{path}`")
            continue
        each, counts = units[unit]
        if not (gain := math.fsum(map(gain_in, counts))):
            continue
        gain /= node_at(result.details["means"][result.rule], path)["units"] if unit != "pooled" else 1
        values = [team["columns"][index]["value"] for team in document["teams"] if team["name"] != name]
        ranks = [1 + sum(other is not None and other > value for other in values) for value in (now, now + gain)]
        lines.append(
            f"With 1% more of the reference nuclei{each} matched{how}, and nothing else changed, `{path}` would be "
            f"{now + gain:.4f} instead of {now:.4f}: rank {ranks[1]} in this column, now {ranks[0]}."
        )
    if lines and others:
        lines.append(f"Not computed for {' and '.join(others)}.")
    return lines


def _gain_in_f1(counts: Mapping[str, Any]) -> float:
    """Return the gain in F1 of a unit if new predictions match 1% of its nuclei."""
    hits, missed, extra = (counts[key] for key in ("true_positives", "false_negatives", "false_positives"))
    more = min((hits + missed) / 100, missed)
    now, then = (2 * found / (hits + missed + extra + found) if missed else 0.0 for found in (hits, hits + more))
    return then - now


def _gain_in_class_f1(counts: Mapping[str, Any]) -> float:
    """Return the gain in ``covered.class_f1`` of a unit if new predictions match 1% of each class with its class."""
    _, *rows = counts["confusion_matrix"]
    shares = [[count / max(sum(row), 1) for count in row] for row in rows]
    gains = []
    for index, row in enumerate(shares, start=1):
        more, right, named = min(0.01, row[0]), row[index], 1 + math.fsum(other[index] for other in shares)
        gains += [2 * (right + more) / (named + more) - 2 * right / named] if any(row) else []
    return math.fsum(gains) / max(len(gains), 1)


_GAINS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], float]]] = {
    "detection.f1": ("", _gain_in_f1),
    "covered.class_f1": (", with their classes", _gain_in_class_f1),
}


def _columns_lost(
    document: Mapping[str, Any], own: Mapping[str, Any], teams: Sequence[Mapping[str, Any]], titles: Sequence[str]
) -> Iterable[str]:
    for index, (title, column) in enumerate(zip(titles, document["columns"], strict=True)):
        mine = own["columns"][index]
        if mine["value"] is None or mine.get("rank") is None:
            continue
        ahead = [team for team in teams if (rank := team["columns"][index].get("rank")) is not None
                 and team["columns"][index]["value"] is not None and rank < mine["rank"]]  # fmt: skip
        ahead.sort(key=lambda team: -team["columns"][index]["rank"])
        if not ahead:
            continue
        shown = [*ahead[:2], *ahead[2:][-1:]]  # the next two, and the first
        lost = [_lost_to(column, index, own, team, document["units"]["kind"]) for team in shown]
        more = f" ({counted(len(ahead), 'team')} ahead in all)" if len(ahead) > len(shown) else ""
        yield f"{title}: {mine['value']:.4f}, rank {mine['rank']:g}; behind {'; '.join(lost)}{more}."


def _lost_to(column: Mapping[str, Any], index: int, own: Mapping[str, Any], other: Mapping[str, Any], kind: str) -> str:
    """Return the difference between two teams, with the p-value of the declared test if known."""
    values = [team["columns"][index]["value"] for team in (own, other)]
    words = f"{quote(other['name'])} by {abs(values[0] - values[1]):.4f}"
    names = {own["name"], other["name"]}
    for pair in column.get("differences", ()):
        if {pair["first"], pair["second"]} == names and pair["p_value"] is not None:
            is_tested = pair["units"] >= column["significance"]["least_units"]
            p_value = f"p = {pair['p_value']:.3g}" if is_tested else "too few for the test"
            return f"{words} ({p_value}, n = {pair['units']} {kind})"
    return words
