"""What may be claimed of a leaderboard, in at most five sentences that are computed from leaderboard.json."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.findings import counted, percent, quote

Document = Mapping[str, Any]

NAMED_UP_TO = 3  # teams, units, changes of the rules
FEWEST_SAMPLED = 5  # units, to say in how many bootstrap samples a team is first
NO_SAMPLES = {
    "no-units": "only the means are known, not the values of each patient",
    "one-unit": "there is one patient only",
    "no-teams": "no team is ranked",
    "not-resampled": "{columns} cannot be computed again for samples of the patients",
}
OTHERS_FIRST, OTHERS_SHARE = "another team is first", "others share the first rank"
SOME_ARE_FIRST = "only some of those who share the first rank are first"
GAPS = {
    "worst": "{lack}; these count as the worst",
    "complete_cases": "{left_out} {kind} in which a team lacks a value are left out for all",
    "no-value": "{lack}",
}


def verdict_sentences(document: Document, who: str = "team", units: str = "") -> list[str]:
    """Say who is first, significantly better than whom, in how many samples, and by which methods and units.

    who     what is ranked: "team", or "model" of one's own
    units   how cases or groups are called: "images", "patients"
    """
    if units:
        document = {**document, "units": {**document["units"], "kind": units}}
    teams = document["teams"]
    if not teams:
        return ["No team is ranked."]
    first = [team["name"] for team in teams if team["position"] == teams[0]["position"]]
    are = "share the first rank" if len(first) > 1 else "is first"
    sentences = [f"{names_of(first)} {are} of {counted(len(teams), who)}{_about_gaps(document)}."]
    if len(teams) > 1:
        sentences += [
            *_about_differences(document, first, who),
            *_about_samples(document, first),
            *_about_methods(document, set(first)),
            *_about_units(document),
        ]
    return sentences[:5]


def names_of(names: Sequence[str], word: str = "and") -> str:
    """List names in quotes in words, the first three of them.

    >>> names_of(["A", "B", "C", "D"])
    "'A', 'B', 'C' and 1 more"
    """
    return in_words([quote(name, 40) for name in names], word)


def in_words(names: Sequence[str], word: str = "and") -> str:
    rest = [f"{len(names) - NAMED_UP_TO:,} more"] if len(names) > NAMED_UP_TO else []
    parts = [*names[:NAMED_UP_TO], *rest]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def _about_gaps(document: Document) -> str:
    """Say which teams lack values that others have, in the column in which they lack most; or how many units left."""
    gaps = document.get("gaps")
    if gaps is None:
        return ""
    lacking = sorted(gaps["teams"], key=lambda team: -team["lacking"])
    each = [f"{quote(team['name'], 40)} lacks {team['lacking']:,} of {gaps['values']:,} values" for team in lacking]
    words = {"lack": in_words(each), "left_out": f"{gaps['left_out']:,} of {gaps['values']:,}", "kind": gaps["kind"]}
    return "; " + GAPS[gaps["rule"]].format(**words)


# --- differences ------------------------------------------------------------------------------------------------------


@dataclass
class _Pair:
    """What the columns say of the first team and another one.

    tested   columns in which both have values in enough units; ``common`` is the largest number of such units
    better, worse  titles of the columns in which the first one is significantly better or worse
    equal    number of the columns in which they differ by no more than the margin
    behind   units in which the first one is behind, and all that were compared, if there is one column
    """

    tested: int = 0
    common: int = 0
    better: list[str] = field(default_factory=list)
    worse: list[str] = field(default_factory=list)
    equal: int = 0
    behind: tuple[float, int] | None = None


def _about_differences(document: Document, first: Sequence[str], who: str) -> list[str]:
    """Say which teams the first one is significantly better than, which are better, and which differences are open.

    Where there are too few units for a test, it says in how many of them the first team is better.
    """
    columns = [column for column in document["columns"] if "differences" in column]
    if not columns:
        return [f"No difference can be tested: {NO_SAMPLES['no-units'].replace('patient', unit_of(document))}."]
    leader = first[0]
    pairs = _compare_with(leader, columns, _tested_titles(document))
    others = [team["name"] for team in document["teams"] if team["name"] != leader]
    tested = [name for name in others if pairs[name].tested]
    if not tested:
        return [_too_few(document, leader, others, max(pairs[name].common for name in others))]
    parts = []
    better = [name for name in tested if pairs[name].better]
    worse = [name for name in tested if pairs[name].worse]
    equal = [name for name in tested if pairs[name].equal == pairs[name].tested == len(columns)]
    open_ = [name for name in tested if not pairs[name].better and not pairs[name].worse and name not in equal]
    lead = quote(leader, 40)
    if better:
        many = "all" if len(better) == len(others) else f"{len(better):,} of"
        beaten = names_of(better) if len(better) <= NAMED_UP_TO else f"{many} {len(others):,} other {who}s"
        parts.append(f"{lead} is significantly better than {beaten}{_in_columns(pairs, better, columns, 'better')}")
    if worse:
        are = f"{'are' if len(worse) > 1 else 'is'} significantly better than {lead}"
        parts.append(f"{names_of(worse)} {are}{_in_columns(pairs, worse, columns, 'worse')}")
    if equal:
        s, have = ("", "have") if len(equal) > 1 else ("s", "has")
        is_margin = any(entry["margin"] for entry in columns)
        words = (
            f"differ{s} from {lead} by no more than the margin" if is_margin else f"{have} the same values as {lead}"
        )
        parts.append(f"{names_of(equal)} {words}")
    if open_:
        facts = _what_is_open(document, open_[0], pairs[open_[0]]) if len(open_) == 1 else ""
        parts.append(f"the difference from {names_of(open_, 'or')} is not significant{facts}")
    if rest := [name for name in others if name not in tested]:
        most = max(pairs[name].common for name in rest)
        shared = f"values in {most:,} {document['units']['kind']} at most" if most else "no values"
        parts.append(f"{names_of(rest)} and {lead} have {shared} in common: too few for a test")
    sentence = "; ".join(parts)
    return [f"{sentence[0].upper()}{sentence[1:]}."]


def _compare_with(leader: str, columns: Sequence[Document], titles: Mapping[str, str]) -> dict[str, _Pair]:
    """Collect what the differences of all columns say of each other team, by its name."""
    pairs: dict[str, _Pair] = {}
    for column in columns:
        for difference in column["differences"]:
            if leader not in (difference["first"], difference["second"]):
                continue
            is_first = difference["first"] == leader
            pair = pairs.setdefault(difference["second"] if is_first else difference["first"], _Pair())
            pair.common = max(pair.common, difference["units"])
            if column["significance"]["undefined"] or difference["units"] < column["significance"]["least_units"]:
                continue
            pair.tested += 1
            verdict = difference["verdict"]
            if verdict == "equivalent":
                pair.equal += 1
            elif verdict != "undecided":
                (pair.better if (verdict == "better") == is_first else pair.worse).append(titles[column["path"]])
            if len(columns) == 1:
                ahead = difference["ahead"] if is_first else 1 - difference["ahead"]
                pair.behind = round((1 - ahead) * difference["units"], 3), difference["units"]
    return pairs


def _in_columns(pairs: Mapping[str, _Pair], names: Iterable[str], columns: Sequence[Document], what: str) -> str:
    """Say where teams are better or worse: by the title of the column if it is one for all of them."""
    titles = {title for name in names for title in getattr(pairs[name], what)}
    if len(columns) == 1 and not next(iter(titles)).endswith(")"):
        return ""
    return f" in {titles.pop()}" if len(titles) == 1 else f" in at least one of {len(columns)} columns"


def _what_is_open(document: Document, name: str, pair: _Pair) -> str:
    """Say in how many units a team that is not significantly worse is ahead."""
    kind = document["units"]["kind"]
    if pair.behind and 2 * pair.behind[0] > pair.behind[1] and pair.behind[0].is_integer():
        return f", and {quote(name, 40)} is ahead in {pair.behind[0]:,.0f} of {pair.behind[1]:,} {kind}"
    return ""


def _too_few(document: Document, leader: str, others: Sequence[str], common: int) -> str:
    """Say in how many units the first team is better, which are too few for a test."""
    units, kind = document["units"]["number"], document["units"]["kind"]
    both = "" if common == units else "common "
    few = f"{counted(common, f'{both}{unit_of(document)} is', f'{both}{kind} are')} too few for a significance test"
    least = max(column["significance"]["least_units"] for column in document["columns"])
    few += f" ({least} are the least)"
    places = {team["name"]: team.get("unit_places") or () for team in document["teams"]}
    if common < units or not places[leader]:
        return f"{few[0].upper()}{few[1:]}."
    behind = zip(*(places[name] for name in others), strict=True)
    known = list(zip(places[leader], behind, strict=True))
    won = sum(own is not None and all(place is None or own < place for place in rest) for own, rest in known)
    lost = sum(own is None or any(place is not None and place < own for place in rest) for own, rest in known)
    alone = len(document["columns"]) == 1 and len(others) == 1
    what = f"is better than {names_of(others)}" if alone else "ranks first"
    shared = f" and as good in {units - won - lost:,}" if units > won + lost else ""
    every = f"all {units:,}" if won == units else f"{won:,} of {units:,}"
    where = f"the one {unit_of(document)}" if units == 1 and won else f"{every} {kind}"
    return f"{quote(leader, 40)} {what} in {where}{shared}; {few}."


def _tested_titles(document: Document) -> dict[str, str]:
    """Name the columns, by their paths, as they are tested: unit by unit, whatever the column is aggregated over."""
    kind = document["units"]["kind"]
    paths = [column["path"] for column in document["columns"]]
    tested = ("group_mean", "case_mean") if kind in ("cases", "images") else ("group_mean",)
    others = {*ALL_AGGREGATIONS} - {*tested}
    return {
        path: f"{title} (mean over {kind})" if path.rpartition(".")[2] in others else title
        for path, title in zip(paths, short_titles(paths), strict=True)
    }


def unit_of(document: Document) -> str:
    return str(document["units"]["kind"]).removesuffix("s")


# --- samples, methods, units ------------------------------------------------------------------------------------------


def _about_samples(document: Document, first: Sequence[str]) -> list[str]:
    """Say in which share of samples the first team is first; nothing where there are too few units."""
    stability, kind, units = document["stability"], document["units"]["kind"], document["units"]["number"]
    if stability["undefined"] == "not-resampled":
        why = why_no_samples(document)
        return [f"How often {names_of(first)} would be first in bootstrap samples is not known: {why}."]
    if stability["undefined"] is not None or units < FEWEST_SAMPLED or document["ranking"]["ex_aequo"]:
        return []
    samples = f"of the bootstrap samples of these {units:,} {kind}"
    if len(first) > 1:
        return [f"In {share_text(stability['same_order'])} {samples} the teams have this order."]
    team = document["teams"][0]
    alone, shared = team["first_alone"], team["first_shared"]
    tied = f", and in {share_text(shared)} it shares the first rank" if shared else ""
    return [f"In {share_text(alone)} {samples} {names_of(first)} is first{' alone' if shared else ''}{tied}."]


def why_no_samples(document: Document) -> str:
    stability = document["stability"]
    reason: str = stability["undefined"]
    columns = in_words([metric_title(path) for path in stability.get("columns", ())] or ["a column"])
    return NO_SAMPLES.get(reason, reason).replace("patient", unit_of(document)).format(columns=columns)


def _about_methods(document: Document, first: set[str]) -> list[str]:
    """Say whether other methods of ranking put the same teams first.

    Methods that give the same order are one ranking.
    """
    methods = document.get("methods") or ()
    if len(methods) < 2:
        return []
    names = [team["name"] for team in document["teams"]]
    rankings: dict[tuple[int | None, ...], str] = {}
    for entry in methods:
        rankings.setdefault(_order_of(entry["places"]), entry["method"].replace("_", " "))
    changed: dict[str, list[str]] = {}
    for places, method in rankings.items():
        leaders = {name for name, place in zip(names, places, strict=True) if place == 0}
        if leaders != first:
            of_others = OTHERS_SHARE if leaders & first else OTHERS_FIRST
            changed.setdefault(SOME_ARE_FIRST if leaders < first else of_others, []).append(method)
    if not changed:
        return [f"All {len(methods)} methods of ranking agree on the first rank."]
    parts = [f"{what} in {len(entry)} ({in_words(entry)})" for what, entry in sorted(changed.items())]
    return [f"The {len(methods)} methods of ranking give {len(rankings)} different orders: {', '.join(parts)}."]


def _order_of(places: Sequence[float | None]) -> tuple[int | None, ...]:
    """Count how many teams stand before each, whatever the tie rule of the places; None: it is not ranked.

    >>> _order_of([1.5, 1.5, 3, None])
    (0, 0, 2, None)
    """
    known = [place for place in places if place is not None]
    return tuple(None if place is None else sum(other < place for other in known) for place in places)


def _about_units(document: Document) -> list[str]:
    """Say which units decide the first rank, each by itself."""
    stability, number = document["stability"], document["units"]["number"]
    if stability["undefined"] is not None or number < FEWEST_SAMPLED or document["ranking"]["ex_aequo"]:
        return []
    without, unit = stability["first_changes_without"], unit_of(document)
    if not without:
        return [f"No single {unit} decides the first rank."]
    if len(without) == 1:
        return [f"Without {unit} {without[0]} the first rank would change."]
    shown = ", ".join([*without[:NAMED_UP_TO], *(["…"] if len(without) > NAMED_UP_TO else [])])
    return [f"Without any one of {len(without):,} {unit}s ({shown}) the first rank would change."]


def share_text(value: float | None) -> str:
    """Write a share in percent that is not rounded to all or none.

    >>> share_text(0.9996), share_text(1.0), share_text(0.004)
    ('more than 99 %', '100 %', 'less than 1 %')
    """
    return percent(value).replace(">", "more than").replace("<", "less than")


# --- names of metrics -------------------------------------------------------------------------------------------------


METRIC_NAMES: Mapping[str, str] = {
    "f1": "F1",
    "macro_f1": "macro F1",
    "iou": "IoU",
    "dice": "Dice",
    "pq": "PQ",
    "sq": "SQ",
    "rq": "RQ",
    "aji": "AJI",
    "mcc": "MCC",
    "r2": "R² of counts",
    "froc": "FROC",
    "auroc": "AUROC",
    "hausdorff": "Hausdorff distance",
    "hausdorff95": "Hausdorff distance (95 %)",
    "mean_absolute_error": "mean absolute error of counts",
}
# Families whose metrics have names of their own; of all others the family is named.
FAMILIAR = ("classification", "segmentation", "panoptic", "counting", "curves", "thresholds", "distances")
OF_DETECTION = ("f1", "precision", "recall")  # that classification has as well
ALL_AGGREGATIONS = ("pooled", "group_mean", "case_mean", "stratum_mean", "worst_group", "worst_stratum")


def metric_title(path: str) -> str:
    """Name a metric by its path in metrics.json, with or without its aggregation.

    >>> metric_title("detection.f1.group_mean"), metric_title("segmentation.iou_class_mean")
    ('detection F1', 'IoU (class mean)')
    >>> metric_title("classification.per_class.Epithelial.f1"), metric_title("classification.accuracy")
    ('classification F1, Epithelial', 'accuracy')
    >>> metric_title("segmentation.per_class.Epithelial.hausdorff95_px.pooled")
    'Hausdorff distance (95 %), px, Epithelial'
    >>> metric_title("thresholds.f1_iou50_95"), metric_title("segmentation.surface_dice_2px")
    ('F1 at IoU 50–95 %', 'surface Dice at 2 px')
    """
    parts = path.split(".")
    if parts[-1] in ALL_AGGREGATIONS:
        parts.pop()
    if not parts:
        return path
    family, *between, name = ["", *parts][-max(len(parts), 2) :]
    name, ends = re.subn(r"_class_mean$", "", name)
    name, halves = re.subn(r"_median$", "", name)
    limit = re.search(r"_iou(\d+)(?:_(\d+))?$", name)
    unit = re.search(r"_(\d*)(px|um)$", name)
    name = name[: (limit or unit).start()] if limit or unit else name  # type: ignore[union-attr]
    name = METRIC_NAMES.get(name, " ".join(METRIC_NAMES.get(word, word) for word in name.split("_")))
    if limit:
        name += f" at IoU {limit[1]}{('–' if len(limit[2]) > 1 else '.') + limit[2] if limit[2] else ''} %"
    elif unit:
        name += f" at {unit[1]} {unit[2]}" if unit[1] else f", {unit[2]}"
    title = f"{name}{' (class mean)' * ends}{' (median)' * halves}"
    if between[:1] == ["per_class"]:
        title += f", {'.'.join(between[1:])}"
    elif between:
        title += " without classes" if between == ["binary"] else f", {'.'.join(between)}"
    is_familiar = family in ("", *FAMILIAR) and not (family == "classification" and parts[-1] in OF_DETECTION)
    return title if is_familiar else f"{family.replace('_', ' ')} {title}"


def short_titles(paths: Sequence[str]) -> list[str]:
    """Name metrics as headings side by side; where two are alike, by their paths.

    >>> short_titles(["detection.f1.group_mean", "segmentation.hausdorff_px.group_mean"])
    ['detection F1', 'Hausdorff distance, px']
    >>> short_titles(["detection.f1.pooled", "detection.f1.case_mean"])
    ['detection f1 pooled', 'detection f1 case mean']
    """
    titles = [metric_title(path) for path in paths]
    if len(set(titles)) == len(titles):
        return titles
    return [path.replace(".", " ").replace("_", " ") for path in paths]
