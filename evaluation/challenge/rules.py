"""The tables of challenge.toml, each a model that refuses unknown keys and contradictions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, create_model, model_validator
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_plain_validator_function

from evaluation.challenge.documents import MOST_PIXELS
from evaluation.challenge.formats import (
    CONVERT_FIRST,
    FORMATS,
    IMPORTED_FORMATS,
    ONLY_IMPORTED,
    SIX_DECIMALS,
    FormatRules,
    RuleFault,
    Rules,
    Threshold,
    check_distinct,
    check_pattern,
    contradiction,
    invalid,
    usual_suffix,
)
from evaluation.challenge.matching_rules import AnyMatchingRule
from evaluation.findings import fault, listed, quote
from nuclei_metrics.metrics import FAMILIES
from nuclei_metrics.model import (
    WITH_FRACTION,
    Aggregate,
    AggregationUnit,
    BorderRule,
    ClassPresence,
    IgnorePolicy,
    Measure,
    Missing,
    MissingValues,
    OverlapRule,
    OverlapScope,
    RankingMethod,
    Ties,
    UndefinedRule,
)

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9 _+-]*$")]


class ClassRules(Rules):
    """A scored class. ``aliases`` are other spellings; "" means annotations without a class name.

    only_predicted  the reference has no such nuclei: a predicted nucleus of this class can match, with a wrong class.
                    The class is not counted among the classes that a false negative guesses at random
    """

    name: Name
    aliases: tuple[str, ...] = ()
    only_predicted: bool = False
    colour: Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")] | None = None


class _IgnoreRules(Rules):
    """What becomes of the ignore classes, and of contested pixels under the overlap rule ``ignore``."""

    classes: tuple[str, ...] = ()
    policy: IgnorePolicy | None = None
    fraction: Annotated[float, Field(gt=0, le=1)] | None = None

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if self.classes and self.policy is None:
            raise contradiction("policy", "missing although classes are listed", "a policy for the ignore classes")
        if (self.fraction is not None) != (self.policy in WITH_FRACTION):
            expected = f"a fraction with the policy {listed(WITH_FRACTION)}, and only with them"
            raise contradiction("fraction", f"{self.fraction} with policy {self.policy!r}", expected)
        return self


class ReferenceRules(FormatRules):
    """How annotations become instances."""

    overlap: OverlapRule | None = None
    overlap_scope: OverlapScope | None = None
    ignore: _IgnoreRules = _IgnoreRules.model_construct()

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if "*" in self.files:
            raise invalid("files", "a '*'", "the name of one file for each case")
        for key in ("overlap", "overlap_scope"):
            is_given = getattr(self, key) is not None
            without_area = "points" if self.are_points else "counts" if self.are_counts else ""
            if without_area and is_given:
                raise contradiction(
                    key, f"given for {without_area}", f"no such key, since {without_area} do not overlap"
                )
            if not without_area and not is_given:
                raise RuleFault(fault("missing-rule", key))
        if self.overlap == "ignore" and self.ignore.policy not in ("clip", "drop_unmatched"):
            expected = "the policy 'clip' or 'drop_unmatched', since contested pixels must leave both sides"
            raise contradiction("overlap", f"'ignore' with ignore.policy {self.ignore.policy!r}", expected)
        if self.overlap == "class_order" and self.overlap_scope == "class":
            got = "'class' with overlap 'class_order'"
            raise contradiction("overlap_scope", got, "'image', since the order of the classes decides between classes")
        return self


class SubmissionRules(FormatRules):
    """Paths of predictions and the meaning of their numbers.

    socket      slug of the output with the predictions in the platform's algorithm phase; with {class} one output per
                class. Then predictions.json assigns jobs to cases; ``files`` is for other computers, by default
                "{case}" with the suffix of the format
    input       slug of the input that names the case by its image or file name, or a list of slugs if the phase
                has several interfaces; None if jobs have one input
    case_names  whether participants may read the names of cases in messages
    duplicates  two predictions of a case that share more than half of the smaller nucleus, whatever their classes:
                both can match ("keep"), or at most one can match and the other is a false positive. Predictions that
                match different reference nuclei are not duplicates. Points are duplicates within half the radius of
                the first matching rule
    """

    socket: str | None = None
    input: str | tuple[str, ...] | None = None
    case_names: Literal["public", "hidden"] = "public"
    missing_case: Literal["worst", "reject"]
    missing_class_file: Literal["empty", "reject"]
    duplicates: Literal["keep", "false_positive"] = "keep"

    @model_validator(mode="before")
    @classmethod
    def name_files(cls, rules: Any) -> Any:
        """Name the files outside the platform if there is a socket but no ``files``."""
        if isinstance(rules, Mapping) and isinstance(socket := rules.get("socket"), str) and "files" not in rules:
            name = "{case}/{class}" if "{class}" in socket else "{case}"
            return {**rules, "files": name + usual_suffix(str(rules.get("format"))).replace(".geojson", ".json")}
        return rules

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if self.socket is None and self.input is not None:
            raise contradiction("input", "given without a socket", "both keys, or no input")
        if self.socket is not None and self.is_shared:
            raise contradiction("socket", "given for a file of all cases", "{case}, since each job writes a file")
        if self.socket is not None:
            check_pattern(self.socket, "socket", required=set(), allowed={"class"})
            if ("{class}" in self.socket) != ("{class}" in self.files):
                raise contradiction("socket", "{class} in files or in socket only", "{class} in both keys or no key")
        check_distinct("input", list(self.inputs))
        return self

    @property
    def inputs(self) -> tuple[str, ...]:
        """Slugs of the inputs that name the case, one per interface; empty if jobs have one input."""
        return (self.input,) if isinstance(self.input, str) else self.input or ()


MEASURING = frozenset({"segmentation", "covered", "overall"})  # families that are made of ``measures``


class _InEveryFormat:
    """The rules of a side: the keys of the side and of the format; the key ``format`` chooses the model.

    Pydantic's union would build the models of all formats at start, although a challenge uses two.
    """

    def __init__(self, side: type[FormatRules]) -> None:
        self.side = side
        self.made: dict[str, type[FormatRules]] = {}

    def model(self, name: str) -> type[FormatRules]:
        """The model for a format. Other processes find it by its name in this module."""
        if name not in self.made:
            words: dict[str, Any] = {"__module__": __name__, "__doc__": self.side.__doc__}
            self.made[name] = create_model(f"{self.side.__name__}_{name}", __base__=(FORMATS[name], self.side), **words)
        return self.made[name]

    @property
    def models(self) -> dict[str, type[FormatRules]]:
        return {name: self.model(name) for name in FORMATS}

    def validate(self, value: Any) -> Any:
        """The rules in the format that they name."""
        if isinstance(value, self.side):
            return value
        if not isinstance(value, Mapping):
            raise invalid("", quote(value), "a table")
        if (name := value.get("format")) is None:
            raise RuleFault(fault("missing-rule", "format"))
        if name in IMPORTED_FORMATS:
            got, expected = f"{quote(name)}, {ONLY_IMPORTED}", f"one of the formats {listed(FORMATS, 30)}"
            raise RuleFault(fault("invalid-rule", "format", got=got, expected=expected, fix=CONVERT_FIRST))
        if not isinstance(name, str) or name not in FORMATS:
            known = list(FORMATS)
            raise RuleFault(
                fault("invalid-rule", "format", wording="unknown-table", name=str(name), known=known, what="formats")
            )
        try:
            return self.model(name).model_validate(value)
        except ValidationError as error:
            faults: Any = [{**problem, "loc": (name, *problem["loc"])} for problem in error.errors()]
            raise ValidationError.from_exception_data(error.title, faults) from None

    def __get_pydantic_core_schema__(self, _: Any, __: Any) -> CoreSchema:
        return no_info_plain_validator_function(self.validate)

    def __get_pydantic_json_schema__(self, _: Any, handler: Any) -> Any:
        union: Any = Annotated[reduce(or_, self.models.values()), Field(discriminator="format")]
        return handler(TypeAdapter(union).core_schema)


IN_EVERY_FORMAT = {"reference": _InEveryFormat(ReferenceRules), "submission": _InEveryFormat(SubmissionRules)}


def __getattr__(name: str) -> Any:
    """The model of a side in a format, by its name, for pickle."""
    for each in IN_EVERY_FORMAT.values():
        side, _, format = name.partition("_")
        if side == each.side.__name__ and format in FORMATS:
            return each.model(format)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


Grouping = Annotated[dict[Name, Annotated[tuple[str, ...], Field(min_length=1)]], Field(min_length=1)]


Area = Annotated[float, Field(ge=0, le=1e12)]


class MetricRules(Rules):
    """The metrics. Additions to these lists add numbers to metrics.json and change no other numbers.

    families         of metrics, or single metrics of a family, such as "detection.f1", by the name of
                     their page or by their path in metrics.json
    measures         measures of each matched pair, for the family segmentation
    tolerance_px, tolerance_um   of surface_dice, surface_dice_length and boundary_iou
    iou_thresholds   ascending; for the family thresholds, and the mean AP of COCO in the family curves
    false_positives, per   points of the FROC curve, for the family curves: false positives per "image" or "mm2"
    class_probabilities    predictions contain the probability of each class: adds AUROC to the family classification
    sizes_px         for the family sizes: by name, the smallest and largest area of its nuclei, px, inclusive
    class_groups     groupings of classes: by their name, groups and the classes in each
    coverage         share of the reference nuclei in the family covered, rounded up to whole nuclei
    distance_cap_px, distance_cap_um   cost of a false negative or false positive in the distances of the families
                                       covered and overall, and the maximum for a pair, for the measures in this unit
    """

    families: Annotated[tuple[str, ...], Field(min_length=1)]
    boundary: BorderRule
    measures: Annotated[tuple[Measure, ...], Field(min_length=1)] = ("iou", "dice", "hausdorff_px", "hausdorff95_px")
    tolerance_px: Annotated[float, Field(gt=0, le=1e6)] | None = None
    tolerance_um: Annotated[float, Field(gt=0, le=1e6)] | None = None
    iou_thresholds: Annotated[tuple[Threshold, ...], Field(max_length=100)] = ()
    false_positives: Annotated[tuple[Annotated[float, Field(gt=0, le=1e9)], ...], Field(max_length=100)] = ()
    per: Literal["image", "mm2"] = "image"
    class_probabilities: bool = False
    sizes_px: Annotated[dict[Name, tuple[Area, Area]], Field(max_length=20)] = Field(default_factory=dict)
    class_groups: dict[Name, Grouping] = Field(default_factory=dict)
    coverage: Annotated[float, Field(gt=0, le=1), SIX_DECIMALS] | None = None
    distance_cap_px: Annotated[float, Field(gt=0, le=1e6)] | None = None
    distance_cap_um: Annotated[float, Field(gt=0, le=1e6)] | None = None

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        for key in ("families", "measures"):
            check_distinct(key, getattr(self, key))
        for name in self.families:
            family = name.partition(".")[0]
            if family not in FAMILIES:
                finding = fault("invalid-rule", "families", wording="unknown-family", name=family, known=FAMILIES)
                raise RuleFault(finding)
            if name != family and family in self.families:
                raise contradiction("families", f"'{name}' beside '{family}'", "the family, or metrics of it")
        families = self.family_names
        tolerances = [key for key in ("tolerance_px", "tolerance_um") if getattr(self, key) is not None]
        needed = sorted({"surface_dice", "surface_dice_length", "boundary_iou"} & set(self.measures))
        if needed and len(tolerances) != 1:
            got = "given together with tolerance_um" if tolerances else f"missing for {listed(needed, last='and')}"
            raise contradiction("tolerance_px", got, "one of tolerance_px and tolerance_um")
        if tolerances and not needed:
            raise contradiction(tolerances[0], "given without a measure that has a tolerance", "no such key")
        for key in ("iou_thresholds", "false_positives"):
            numbers = getattr(self, key)
            if list(numbers) != sorted(set(numbers)):
                raise invalid(key, "not ascending", "each number once, from the smallest to the largest")
        if self.iou_thresholds == (0.5, 0.95):
            got = "0.5 and 0.95 alone, which would be named like the range from 0.5 to 0.95"
            raise invalid("iou_thresholds", got, "ten thresholds in steps of 0.05, or other thresholds")
        if ("thresholds" in families) and not self.iou_thresholds:
            raise contradiction("iou_thresholds", "missing for the family 'thresholds'", "a list such as [0.5, 0.75]")
        if self.iou_thresholds and not {"thresholds", "curves", "sizes"} & set(families):
            got = "given without the family 'thresholds', 'curves' or 'sizes'"
            raise contradiction("iou_thresholds", got, "no such key")
        if bool(self.sizes_px) != ("sizes" in families):
            got = "missing for the family 'sizes'" if "sizes" in families else "given without the family 'sizes'"
            raise contradiction("sizes_px", got, "such as { small = [0, 1024] } with that family, and only with it")
        if any(low > high for low, high in self.sizes_px.values()):
            raise invalid("sizes_px", "a range that ends before it begins", "the smallest area first")
        if "sizes" in families and "iou" not in self.measures:
            raise contradiction("measures", "no 'iou' although the family 'sizes' gives it", "'iou' among them")
        if self.false_positives and "curves" not in families:
            raise contradiction("false_positives", "given without the family 'curves'", "no such key")
        if "panoptic" in families and "iou" not in self.measures:
            raise contradiction("measures", "no 'iou' although panoptic quality needs it", "'iou' among them")
        self.check_coverage()
        return self

    @property
    def family_names(self) -> tuple[str, ...]:
        """The families of the chosen metrics, without repeats."""
        return tuple(dict.fromkeys(name.partition(".")[0] for name in self.families))

    def check_coverage(self) -> None:
        """Refuse a coverage or distance cap that is invalid or unused, and families without theirs."""
        families = set(self.family_names)
        if (self.coverage is not None) != ("covered" in families):
            got = "missing for the family 'covered'" if "covered" in families else "given without the family 'covered'"
            raise contradiction("coverage", got, "a coverage with that family, and only with it")
        for unit in ("px", "um"):
            key = f"distance_cap_{unit}"
            needed = [measure for measure in self.measures if measure.endswith(f"_{unit}")]
            is_needed = bool(needed) and bool({"covered", "overall"} & families)
            if is_needed and getattr(self, key) is None:
                got = f"missing for {listed(needed, last='and')} in the families 'covered' and 'overall'"
                raise contradiction(key, got, "the cost of a false negative")
            if not is_needed and getattr(self, key) is not None:
                got = f"given without a distance in {unit} in the families 'covered' and 'overall'"
                raise contradiction(key, got, "no such key")


class ConfidenceRules(Rules):
    """Confidence intervals by the bootstrap, which draws patients with replacement.

    level      share of the bootstrap samples inside the interval
    samples    number of bootstrap samples
    seed       of the random numbers: equal seeds give equal intervals
    method     percentile; or by_groups: studentised, not for fewer than 5 patients
    resample   patients (groups) are drawn with replacement, from all or inside their strata
    columns    paths of metrics.json with their aggregation; empty: all scores of the first matching rule in the unit of
               ``aggregation.unit``, except for single classes
    """

    level: Annotated[float, Field(gt=0, lt=1)]
    samples: Annotated[int, Field(ge=100, le=100_000)]
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    method: Literal["percentile", "by_groups"]
    resample: Literal["groups", "groups_in_strata"]
    columns: tuple[str, ...] = ()


class AggregationRules(Rules):
    """How units become scores of the data set.

    class_present   sides in which a class must occur in a unit for its panoptic quality to count there: "either", or
                    the "reference" (then predictions of other classes cost nothing, as in PanNuke)
    """

    unit: AggregationUnit
    undefined: UndefinedRule
    class_present: ClassPresence = "either"


Margin = Annotated[float, Field(ge=0, lt=1e9)]


class RankingColumn(Rules):
    """A column of the leaderboard. ``weight`` is the weight of its ranks in sums and means of ranks.

    margin  of equivalence; None: the margin of [ranking]
    """

    path: Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)+$")]
    direction: Literal["ascending", "descending"]
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    margin: Margin | None = None


class Floor(Rules):
    """A minimum score: a number of metrics.json, and its least value; teams below it rank after all other teams."""

    path: Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)+$")]
    at_least: Annotated[float, Field(gt=0, lt=1)]


class RankingRules(Rules):
    """How teams are ranked. It changes no score.

    method     sum_of_ranks, mean_of_ranks, median_of_ranks: of the ranks in the columns. absolute: by the only column.
               aggregate_then_rank, rank_then_aggregate, test_then_rank: from the values of the units (groups)
    aggregate  of values or ranks over units, for aggregate_then_rank and rank_then_aggregate
    ties       ranks of equal values: min ("1, 2, 2, 4"), average ("1, 2.5, 2.5, 4") or dense ("1, 2, 2, 3")
    missing    a team without a value in a column: the worst rank there, or no rank at all. A team without values
               of units that other teams have: the worst value, no rank, or complete_cases: the unit counts for no team
    margin     of equivalence: smaller differences in a column do not matter; columns can have other margins
    test       of significance, which decides "better" and "too few": sign_flips, friedman_nemenyi or wilcoxon_holm
    ex_aequo   teams without a significant difference share a rank
    require    minimum scores: teams below a minimum are ranked separately, after all other teams
    unranked   entries that are scored and shown without a rank, and do not affect ranks or tests: annotators,
               baselines, published methods
    samples, seed   of the bootstrap that shows the stability of ranks
    """

    method: RankingMethod
    ties: Ties
    significance_level: Annotated[float, Field(gt=0, lt=1)]
    columns: tuple[RankingColumn, ...]
    aggregate: Aggregate = "mean"
    missing: MissingValues = "worst"
    test: Literal["sign_flips", "friedman_nemenyi", "wilcoxon_holm"] = "sign_flips"
    ex_aequo: bool = False
    require: tuple[Floor, ...] = ()
    margin: Margin = 0.0
    unranked: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    samples: Annotated[int, Field(ge=100, le=100_000)] = 1000
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the columns."""
        return tuple(column.path for column in self.columns)

    @property
    def floor_paths(self) -> tuple[str, ...]:
        """The paths of the minimum scores."""
        return tuple(floor.path for floor in self.require)

    def margin_of(self, column: RankingColumn) -> float:
        return self.margin if column.margin is None else column.margin

    @property
    def missing_rank(self) -> Missing:
        """How a team without any value in a column is ranked: last there ("worst"), or not at all."""
        return "worst" if self.missing == "worst" else "unranked"

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if self.method == "absolute" and len(self.columns) != 1:
            raise contradiction("columns", f"{len(self.columns)} with method 'absolute'", "one column")
        check_distinct("columns", self.paths)
        check_distinct("require", self.floor_paths)
        return self


_NAME_OF_OUTPUT = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.%s$"  # an output in a folder "images" is an image there

_FILES_OF_PLATFORM = ("metrics.json", "inputs.json", "predictions.json")


class PublishRules(Rules):
    """Files for the platform: the public metrics.json, and two files for organisers. Changes no score.

    metrics   scores: every score, except of single patients. ranked: the columns and minimum scores of [ranking], their
              parts, and their intervals. All other scores are in details.json
    details, objects   names of details.json and objects.csv there: paths must be unique on the whole platform
    """

    metrics: Literal["scores", "ranked"] = "scores"
    details: Annotated[str, Field(pattern=_NAME_OF_OUTPUT % "json")] = "details.json"
    objects: Annotated[str, Field(pattern=_NAME_OF_OUTPUT % "csv")] = "objects.csv"

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if self.details in _FILES_OF_PLATFORM:
            raise invalid("details", f"'{self.details}', a file of the platform", "another name")
        return self


class AuditRules(Rules):
    """Other rules for an audit, next to the rules of the challenge. Changes no score.

    matching     more matching rules, next to all of the challenge
    thresholds   IoU thresholds, for the rules that have one
    units        aggregations at the end of the paths of the columns
    overlap      overlap rules of the reference
    ignore       ignore policies
    border       what becomes of the borders in colour maps
    fraction     of the policies "drop_overlapping" and "drop_unmatched"
    methods      of [ranking]
    weights      factors of the weight of each column, one column at a time; 0: without it

    Defaults depend on the challenge; a list with only the value of the challenge varies nothing.
    """

    matching: tuple[Annotated[AnyMatchingRule, Field(discriminator="rule")], ...] = ()
    thresholds: tuple[Threshold, ...] | None = None
    units: tuple[AggregationUnit, ...] | None = None
    overlap: tuple[OverlapRule, ...] | None = None
    ignore: tuple[IgnorePolicy, ...] | None = None
    border: tuple[Literal["remove", "remove_and_dilate"], ...] | None = None
    fraction: Annotated[float, Field(gt=0, le=1)] = 0.5
    methods: tuple[RankingMethod, ...] | None = None
    weights: tuple[Annotated[float, Field(ge=0, le=1000)], ...] | None = None


class LimitRules(Rules):
    """Bounds on untrusted input. They refuse inputs; they never change a score.

    Nuclei of both sides times pixels stay below 2^63: every pixel of every nucleus has a unique number.
    """

    bytes_per_file: Annotated[int, Field(ge=1)] = 2_000_000_000
    files_per_submission: Annotated[int, Field(ge=1)] = 100_000
    bytes_per_submission: Annotated[int, Field(ge=1)] = 50_000_000_000
    archive_ratio: Annotated[int, Field(ge=1)] = 1100  # deflate reaches 1,032 on zeros
    pixels_per_image: Annotated[int, Field(ge=1, le=MOST_PIXELS)] = 4_000_000_000
    instances_per_case: Annotated[int, Field(ge=1, le=8_000_000)] = 2_000_000
    overlaps_per_case: Annotated[int, Field(ge=0)] = 20_000_000  # see ``overlap_table``
    vertices_per_file: Annotated[int, Field(ge=3)] = 50_000_000
    json_depth: Annotated[int, Field(ge=1, le=500)] = 32
