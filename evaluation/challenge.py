"""The challenge: every rule or number that can change a score, validated, versioned and hashed.

``challenge.toml`` holds the rules, ``cases.csv`` the list of what is scored. A published challenge is a preset, a file
in ``evaluation/presets``; ``preset = "name"`` starts from one, and keys that stand beside it win.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evaluation.errors import ChallengeBroken, WrongUsage
from evaluation.findings import Finding, did_you_mean, listed, quote
from evaluation.model import (
    AggregationUnit,
    BorderRule,
    Case,
    IgnorePolicy,
    OriginRule,
    OverlapRule,
    OverlapScope,
    UndefinedRule,
    VanishedRule,
    VerticesRule,
)

CHALLENGE_FILE = "challenge.toml"
CASES_FILE = "cases.csv"
MAX_CLASSES = 1000

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9 _+-]*$")]
Family = Literal["detection", "classification", "segmentation", "panoptic"]


class RuleFault(ValueError):
    """What a validator of rules finds: "kind|key|what we got|what we expected"; a bar in a value is quoted away."""


class Rules(BaseModel):
    """A table of challenge.toml: unknown keys are refused, values are not converted, instances are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ClassRules(Rules):
    """A scored class. ``aliases`` are other spellings; "" stands for annotations without a class name."""

    name: Name
    aliases: tuple[str, ...] = ()
    colour: Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")] | None = None


class IgnoreRules(Rules):
    """What becomes of the ignore classes, and of contested pixels under the overlap rule ``ignore``."""

    classes: tuple[str, ...] = ()
    policy: IgnorePolicy | None = None
    fraction: Annotated[float, Field(gt=0, le=1)] | None = None

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if self.classes and self.policy is None:
            raise RuleFault("contradictory|policy|missing although classes are listed|what the ignore classes do")
        if (self.fraction is not None) != (self.policy == "drop_overlapping"):
            raise RuleFault(
                f"contradictory|fraction|{self.fraction} with policy {self.policy!r}"
                "|a fraction with the policy 'drop_overlapping', and only with it"
            )
        return self


class ReferenceRules(Rules):
    """How annotations become instances."""

    format: Literal["aperio_xml"]
    files: str
    overlap: OverlapRule
    overlap_scope: OverlapScope
    vanished: VanishedRule
    vertices: VerticesRule
    origin: OriginRule
    ignore: IgnoreRules = IgnoreRules()

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        check_pattern(self.files, "files", required={"case"}, allowed={"case", "group"})
        if self.overlap == "ignore" and self.ignore.policy != "clip":
            raise RuleFault(
                f"contradictory|overlap|'ignore' with ignore.policy {self.ignore.policy!r}"
                "|the policy 'clip', since contested pixels must leave both sides"
            )
        if "*" in self.files:
            raise RuleFault("invalid|files|a '*'|the name of one file for each case")
        if self.overlap == "class_order" and self.overlap_scope == "class":
            raise RuleFault(
                "contradictory|overlap_scope|'class' with overlap 'class_order'"
                "|'image', since the order of the classes decides between classes"
            )
        return self


class SubmissionRules(Rules):
    """Where predictions lie and what their numbers mean.

    files         pattern with {case}, {group}, {class}; ``*`` stands for any name. With {class}: one file per class
    class_map     pattern of a second image that holds the class of every pixel
    class_values  value of each class in ``class_map``, by class name
    """

    format: Literal["nary_mat", "label_image"]
    files: str
    class_map: str | None = None
    class_values: dict[str, Annotated[int, Field(ge=1, le=32767)]] | None = None
    missing_case: Literal["worst", "reject"]
    missing_class_file: Literal["empty", "reject"]

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        check_pattern(self.files, "files", required={"case"}, allowed={"case", "group", "class"})
        if self.class_map is not None:
            check_pattern(self.class_map, "class_map", required={"case"}, allowed={"case", "group"})
            if "{class}" in self.files:
                raise RuleFault(
                    "contradictory|class_map|given although files holds {class}|a class map or one file per class"
                )
        if (self.class_map is None) != (self.class_values is None):
            raise RuleFault("contradictory|class_values|class_map and class_values not both given|both or neither")
        if self.class_values is not None and len(set(self.class_values.values())) < len(self.class_values):
            raise RuleFault("contradictory|class_values|a value that stands for two classes|a value for each class")
        return self


class MatchingRule(Rules):
    """What all matching rules have. ``name`` is the key under ``alternatives`` in metrics.json."""

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9_]*$")]
    class_aware: bool
    ties: Literal["first_pixel"]


class IouAbove(MatchingRule):
    rule: Literal["iou_above"]
    threshold: Annotated[float, Field(ge=0, lt=1)]

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if round(self.threshold, 6) != self.threshold:
            raise RuleFault(
                f"invalid|threshold|{self.threshold!r}|a number of at most six decimals, to compare exactly"
            )
        return self


class BestIouCentroidInside(MatchingRule):
    rule: Literal["best_iou_centroid_inside"]


MATCHING_RULES: dict[str, type[MatchingRule]] = {
    "iou_above": IouAbove,
    "best_iou_centroid_inside": BestIouCentroidInside,
}


class MatchingRules(Rules):
    rules: Annotated[
        tuple[Annotated[IouAbove | BestIouCentroidInside, Field(discriminator="rule")], ...], Field(min_length=1)
    ]

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        names = [rule.name for rule in self.rules]
        if len(set(names)) < len(names):
            raise RuleFault("contradictory|rules|two rules with the same name|a name of its own for each rule")
        return self


class MetricRules(Rules):
    families: Annotated[tuple[Family, ...], Field(min_length=1)]
    boundary: BorderRule

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if len(set(self.families)) < len(self.families):
            raise RuleFault("contradictory|families|a family twice|every family once")
        return self


class AggregationRules(Rules):
    unit: AggregationUnit
    undefined: UndefinedRule


class RankingColumn(Rules):
    path: Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)+$")]
    direction: Literal["ascending", "descending"]


class RankingRules(Rules):
    method: Literal["sum_of_ranks"]
    ties: Literal["min"]
    significance_level: Annotated[float, Field(gt=0, lt=1)]
    columns: tuple[RankingColumn, ...]


class LimitRules(Rules):
    """Bounds on what is read from strangers. They refuse inputs; they never change a score."""

    vertices_per_file: Annotated[int, Field(ge=3)] = 50_000_000
    bytes_per_file: Annotated[int, Field(ge=1)] = 2_000_000_000


class Challenge(Rules):
    """A resolved challenge: all rules written out, and the cases.

    >>> challenge = Challenge.from_preset("monusac2020", name="example", cases=[Case("a", "P1", 100, 120)])
    >>> challenge.class_names
    ('Epithelial', 'Lymphocyte', 'Neutrophil', 'Macrophage')
    >>> challenge.matching.rules[0].rule
    'iou_above'
    """

    format_version: Literal[1]
    name: Annotated[str, Field(min_length=1, max_length=200)]
    version: Annotated[str, Field(min_length=1, max_length=64)] = "1"
    classes: Annotated[tuple[ClassRules, ...], Field(min_length=1, max_length=MAX_CLASSES)]
    reference: ReferenceRules
    submission: SubmissionRules
    matching: MatchingRules
    metrics: MetricRules
    aggregation: AggregationRules
    ranking: RankingRules | None = None
    limits: LimitRules = LimitRules()
    cases: tuple[Case, ...] = ()

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        spellings = [s.casefold() for rules in self.classes for s in {rules.name, *rules.aliases}]
        spellings += [name.casefold() for name in self.reference.ignore.classes]
        twice = sorted({spelling for spelling in spellings if spellings.count(spelling) > 1})
        if twice:
            raise RuleFault(
                f"contradictory|classes|{twice[0]!r} stands for two classes|names and aliases that differ from each "
                "other and from reference.ignore.classes, also when upper and lower case are the same"
            )
        submission = self.submission
        if submission.class_values is not None and set(submission.class_values) != set(self.class_names):
            raise RuleFault(
                f"contradictory|submission.class_values|values for {listed(sorted(submission.class_values))}"
                f"|one for each class, that is for {listed(self.class_names)}"
            )
        if len(self.classes) > 1 and "{class}" not in submission.files and submission.class_map is None:
            raise RuleFault(
                "contradictory|submission.files|no {class} and no class_map although there are several classes"
                "|a way to tell the class of a nucleus"
            )
        return self

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the scored classes; class id c is ``class_names[c - 1]``."""
        return tuple(rules.name for rules in self.classes)

    def class_ids(self) -> dict[str, int]:
        """Class id by case-folded name or alias: 1…C for scored classes, -1…-I for ignore classes."""
        ids = {
            spelling.casefold(): index
            for index, rules in enumerate(self.classes, start=1)
            for spelling in (rules.name, *rules.aliases)
        }
        ids.update({name.casefold(): -index for index, name in enumerate(self.reference.ignore.classes, start=1)})
        return ids

    @property
    def hash(self) -> str:
        """SHA-256 over the canonical JSON of resolved rules and cases: equal hashes, equal scoring.

        Limits and colours are left out; they change no number.
        """
        rules = self.model_dump(mode="json", exclude={"limits": True, "classes": {"__all__": {"colour"}}})
        document = json.dumps(rules, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(document.encode()).hexdigest()

    @classmethod
    def load(cls, folder: Path | str) -> Challenge:
        """Read challenge.toml and cases.csv of a folder. Raises ChallengeBroken with all that is wrong."""
        try:
            return cls.load_files(Path(folder))
        except RecursionError:
            raise ChallengeBroken(
                Finding("invalid-toml", CHALLENGE_FILE, "tables nested too deeply", "TOML 1.0")
            ) from None

    @classmethod
    def load_files(cls, folder: Path) -> Challenge:
        """``load`` of rules that are not nested beyond reason."""
        rules = read_rules(folder / CHALLENGE_FILE)
        if not (folder / CASES_FILE).is_file():
            raise ChallengeBroken(
                Finding(
                    "missing-file",
                    CASES_FILE,
                    "no such file",
                    "the list of cases (case, group, height, width)",
                    "Run 'evaluation init' to make one from the images, or write it by hand.",
                )
            )
        return cls.build({**rules, "cases": read_cases(read_text(folder / CASES_FILE))})

    @classmethod
    def from_preset(cls, preset: str, *, name: str, cases: Iterable[Case] = (), **rules: Any) -> Challenge:
        """A challenge from a preset, without files; ``rules`` are tables of challenge.toml that win over the preset."""
        document = {"format_version": 1, "name": name, "preset": preset, **rules}
        return cls.build({**resolve_preset(document), "cases": tuple(cases)})

    @classmethod
    def build(cls, document: Mapping[str, Any]) -> Challenge:
        """Validate resolved rules. Raises ChallengeBroken with one finding per fault, each naming its key."""
        try:
            return cls.model_validate(tuples_for_lists(document))
        except ValidationError as error:
            faults = error.errors()
            consequences = {"too_short"} if len(faults) > 1 else set()  # a list whose only item is at fault
            raise ChallengeBroken(
                *(finding_of(fault) for fault in faults if fault["type"] not in consequences)
            ) from None


def tuples_for_lists(value: Any) -> Any:
    """TOML gives lists; frozen rules hold tuples, and strict validation converts nothing."""
    if isinstance(value, Mapping):
        return {key: tuples_for_lists(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(tuples_for_lists(item) for item in value)
    return value


def preset_names() -> list[str]:
    """Names of the published challenges this program knows."""
    return sorted(
        entry.name[:-5] for entry in resources.files("evaluation.presets").iterdir() if entry.name.endswith(".toml")
    )


def preset_text(name: str) -> str:
    """The file of a preset, comments included. Raises WrongUsage if there is none of that name."""
    if name not in preset_names():
        raise WrongUsage(unknown_preset(name, "preset"))
    return resources.files("evaluation.presets").joinpath(f"{name}.toml").read_text("utf-8")


def unknown_preset(name: object, where: str) -> Finding:
    names = preset_names()
    return Finding("unknown-preset", where, quote(name), listed(names), did_you_mean(str(name), names))


def read_rules(path: Path) -> dict[str, Any]:
    """challenge.toml as a document, its preset merged in."""
    if not path.is_file():
        raise ChallengeBroken(
            Finding(
                "missing-file",
                CHALLENGE_FILE,
                "no such file",
                "the file that defines the challenge",
                "Run 'evaluation init --preset NAME DIR' to make one.",
            )
        )
    try:
        document = tomllib.loads(read_text(path))
    except ValueError as error:  # TOMLDecodeError, and whole numbers of thousands of digits
        raise ChallengeBroken(Finding("invalid-toml", CHALLENGE_FILE, str(error), "TOML 1.0")) from None
    if "cases" in document:
        raise ChallengeBroken(
            Finding("unknown-key", f"{CHALLENGE_FILE}: cases", "a key that is not known", f"the cases in {CASES_FILE}")
        )
    return resolve_preset(document)


def read_text(path: Path) -> str:
    """A text file of the challenge. Raises ChallengeBroken if it cannot be read or is not UTF-8."""
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        got = f"bytes that are not UTF-8 (the first at {error.start:,})"
        raise ChallengeBroken(
            Finding("invalid-text", path.name, got, "text in UTF-8", "Save it as 'CSV UTF-8' or plain UTF-8.")
        ) from None
    except OSError as error:
        raise ChallengeBroken(Finding("invalid-text", path.name, str(error.strerror), "a readable file")) from None


def resolve_preset(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its preset merged in; tables are merged key by key, all else is replaced."""
    if "preset" not in document:
        return document
    name = document["preset"]
    if name not in preset_names():
        raise ChallengeBroken(unknown_preset(name, f"{CHALLENGE_FILE}: preset"))

    def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
        merged = dict(below)
        for key, value in above.items():
            both_tables = isinstance(value, dict) and isinstance(below.get(key), dict)
            merged[key] = merge(below[key], value) if both_tables else value
        return merged

    return merge(tomllib.loads(preset_text(name)), {key: item for key, item in document.items() if key != "preset"})


def check_pattern(pattern: str, key: str, *, required: set[str], allowed: set[str]) -> None:
    """Refuse a file pattern that could not be filled in, or that leaves its folder."""
    fields = set(re.findall(r"\{([^{}]*)\}", pattern))
    rest = re.sub(r"\{[^{}]*\}", "", pattern)
    if not required <= fields <= allowed or set("{}") & set(rest):
        names = ", ".join(f"{{{name}}}" for name in sorted(allowed))
        raise RuleFault(
            f"invalid|{key}|{quote(pattern).replace('|', '?')}|a pattern that holds {{case}} and no fields but {names}"
        )
    if pattern.startswith("/") or "\\" in pattern or ".." in pattern.split("/"):
        raise RuleFault(
            f"invalid|{key}|{quote(pattern).replace('|', '?')}|a relative path with '/' between its parts, without '..'"
        )


def finding_of(fault: Any) -> Finding:
    """One pydantic error as a finding that names the key as it stands in challenge.toml."""
    location = [part for part in fault["loc"] if part not in MATCHING_RULES]
    rule = next((part for part in fault["loc"] if part in MATCHING_RULES), "iou_above")
    place = ".".join(str(part) for part in location)
    message = fault["msg"].removeprefix("Value error, ")
    if isinstance(fault.get("ctx", {}).get("error"), RuleFault):
        kind, key, got, expected = message.split("|", 3)
        place = ".".join(filter(None, [place, key]))
        code = "contradictory-rules" if kind == "contradictory" else "invalid-rule"
        return Finding(code, f"{CHALLENGE_FILE}: {place}", got, expected)
    where = f"{CHALLENGE_FILE}: {place}"
    if fault["type"] == "extra_forbidden":
        known = known_keys(location[:-1], rule)
        fix = did_you_mean(str(location[-1]), known)
        return Finding("unknown-key", where, "a key that is not known", f"one of {listed(known, 20)}", fix)
    if fault["type"] in ("missing", "union_tag_not_found"):
        return Finding(
            "missing-rule",
            where if fault["type"] == "missing" else f"{where}.rule",
            "missing",
            "a value, since every rule that can change a score must be written",
            "Add the key, or start from a preset.",
        )
    expected = message.removeprefix("Input should be ")
    if fault["type"] == "union_tag_invalid":
        expected = f"one of the matching rules {listed(MATCHING_RULES)}"
    if fault["type"] == "model_type":
        expected = "a table"
    return Finding("invalid-rule", where, quote(fault.get("input")), expected[0].lower() + expected[1:])


def known_keys(location: list[Any], rule: str) -> list[str]:
    """Keys that the table at a location of challenge.toml may have."""
    tables: dict[tuple[str, ...], type[Rules]] = {
        (): Challenge,
        ("classes",): ClassRules,
        ("reference",): ReferenceRules,
        ("reference", "ignore"): IgnoreRules,
        ("submission",): SubmissionRules,
        ("matching",): MatchingRules,
        ("matching", "rules"): MATCHING_RULES[rule],
        ("metrics",): MetricRules,
        ("aggregation",): AggregationRules,
        ("ranking",): RankingRules,
        ("ranking", "columns"): RankingColumn,
        ("limits",): LimitRules,
    }
    table = tables[tuple(part for part in location if isinstance(part, str))]
    return sorted((set(table.model_fields) | ({"preset"} if table is Challenge else set())) - {"cases"})


def read_cases(text: str) -> tuple[Case, ...]:
    """The rows of cases.csv: ``case, group, height, width, spacing_um``; group and spacing_um may be left out.

    Cases come back sorted by group and name, so that the order of rows changes nothing. Raises ChallengeBroken.
    """
    rows = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    try:
        header = [name.strip() for name in rows.fieldnames or []]
    except csv.Error as error:
        raise ChallengeBroken(
            Finding("invalid-cases", f"{CASES_FILE}, line 1", str(error), "comma-separated values")
        ) from None
    rows.fieldnames = header
    known = ["case", "group", "height", "width", "spacing_um"]
    faults: list[Finding] = []

    def fault(where: str, got: str, expected: str, fix: str = "") -> None:
        faults.append(Finding("invalid-cases", f"{CASES_FILE}{where}", got, expected, fix))

    for column in ("case", "height", "width"):
        if column not in header:
            fault(", line 1", f"no column {quote(column)}", f"the columns {listed(known).replace(' or ', ' and ')}")
    for column in header:
        if column not in known:
            fault(", line 1", f"column {quote(column)}", f"one of {listed(known)}", did_you_mean(column, known))
    if len(set(header)) < len(header):
        fault(", line 1", "a column twice", "every column once")
    if faults:
        raise ChallengeBroken(*faults)

    cases: dict[str, Case] = {}
    for row in lines_of(rows, faults):
        where = f", line {rows.line_num}"
        if None in row or None in row.values():
            fault(where, "another number of values than the header", "one value for each column")
            continue
        name = row["case"].strip()
        group = row.get("group", "").strip() or name
        for column, value in (("case", name), ("group", group)):
            if not is_safe_name(value):
                fault(where, f"{column} {quote(value)}", "a name of letters, digits and any of ' _-.+@', up to 200")
        height, width = (whole_number(row[column]) for column in ("height", "width"))
        for column, number in (("height", height), ("width", width)):
            if number is None:
                fault(where, f"{column} {quote(row[column])}", "a whole number of pixels, at least 1")
        spacing = None
        if row.get("spacing_um", "").strip():
            spacing = positive_number(row["spacing_um"])
            if spacing is None:
                fault(where, f"spacing_um {quote(row['spacing_um'])}", "the size of a pixel in um, above 0")
        if name in cases:
            fault(where, f"case {quote(name)} again", "every case once")
        if height is not None and width is not None:
            cases[name] = Case(name, group, height, width, spacing)
    if not cases and not faults:
        fault("", "no rows", "one row for each case that is scored")
    if faults:
        raise ChallengeBroken(*faults)
    return tuple(sorted(cases.values(), key=lambda case: (case.group, case.name)))


def lines_of(rows: csv.DictReader[str], faults: list[Finding]) -> Iterator[dict[str, str]]:
    try:
        yield from rows
    except csv.Error as error:
        faults.append(
            Finding("invalid-cases", f"{CASES_FILE}, line {rows.line_num}", str(error), "comma-separated values")
        )


def is_safe_name(name: str) -> bool:
    """Whether a case or group name can be part of a path and of a message."""
    return 0 < len(name) <= 200 and set(name) != {"."} and all(c.isalnum() or c in " _-.+@" for c in name)


def whole_number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\s*0*[1-9][0-9]{0,8}\s*", text, re.ASCII) else None


def positive_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None
