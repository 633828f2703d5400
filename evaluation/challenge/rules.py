"""The tables of challenge.toml, each a model that refuses unknown keys and contradictions."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from evaluation.challenge.base import RuleFault, Rules, check_pattern
from evaluation.challenge.format_rules import A_VALUE, FormatRules
from evaluation.model import (
    AggregationUnit,
    BorderRule,
    Case,
    IgnorePolicy,
    OverlapRule,
    OverlapScope,
    UndefinedRule,
)

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9 _+-]*$")]
Family = Literal["detection", "classification", "segmentation", "panoptic"]


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


class ReferenceRules(FormatRules):
    """How annotations become instances."""

    overlap: OverlapRule | None = None
    overlap_scope: OverlapScope | None = None
    ignore: IgnoreRules = IgnoreRules()

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if "*" in self.files:
            raise RuleFault("invalid|files|a '*'|the name of one file for each case")
        for key in ("overlap", "overlap_scope"):
            given = getattr(self, key) is not None
            if self.are_points and given:
                raise RuleFault(f"contradictory|{key}|given for points|no such key, since points do not overlap")
            if not self.are_points and not given:
                raise RuleFault(f"missing|{key}|missing|{A_VALUE}")
        if self.overlap == "ignore" and self.ignore.policy != "clip":
            raise RuleFault(
                f"contradictory|overlap|'ignore' with ignore.policy {self.ignore.policy!r}"
                "|the policy 'clip', since contested pixels must leave both sides"
            )
        if self.overlap == "class_order" and self.overlap_scope == "class":
            raise RuleFault(
                "contradictory|overlap_scope|'class' with overlap 'class_order'"
                "|'image', since the order of the classes decides between classes"
            )
        return self


class SubmissionRules(FormatRules):
    """Where predictions lie and what their numbers mean.

    socket      slug of the output that holds the predictions in the platform's algorithm phase; with {class} one for
                each class. Then predictions.json says which job belongs to which case, and ``files`` is for laptops
    input       slug of the input whose image or file name is the name of the case; None if jobs have one input
    case_names  whether participants may read the names of cases in messages
    """

    socket: str | None = None
    input: str | None = None
    case_names: Literal["public", "hidden"] = "public"
    missing_case: Literal["worst", "reject"]
    missing_class_file: Literal["empty", "reject"]

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if self.socket is None and self.input is not None:
            raise RuleFault("contradictory|input|given without a socket|both, or neither")
        if self.socket is not None and self.is_shared:
            raise RuleFault("contradictory|socket|given for a file of all cases|files with {case}, one for each job")
        if self.socket is not None:
            check_pattern(self.socket, "socket", required=set(), allowed={"class"})
            if ("{class}" in self.socket) != ("{class}" in self.files):
                raise RuleFault("contradictory|socket|{class} in files or in socket only|{class} in both or in neither")
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


Radius = Annotated[float, Field(ge=0, le=1e9)]


class CentroidRule(MatchingRule):
    """Pairs whose centroids lie within a radius, in px or in um (then every case needs ``spacing_um``)."""

    radius_px: Radius | None = None
    radius_um: Radius | None = None

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if (self.radius_px is None) == (self.radius_um is None):
            got = "missing" if self.radius_px is None else "given beside radius_um"
            raise RuleFault(f"contradictory|radius_px|{got}|one of radius_px and radius_um")
        return self

    def radius_in_px(self, case: Case) -> float:
        """The radius in an image; its spacing is there if it is needed (checked with the challenge)."""
        if self.radius_px is not None:
            return self.radius_px
        assert self.radius_um is not None and case.spacing_um is not None
        return self.radius_um / case.spacing_um


class CentroidClosestFirst(CentroidRule):
    rule: Literal["centroid_closest_first"]


class CentroidAssignment(CentroidRule):
    rule: Literal["centroid_assignment"]


AnyMatchingRule = IouAbove | BestIouCentroidInside | CentroidClosestFirst | CentroidAssignment
MATCHING_RULES: dict[str, type[MatchingRule]] = {
    "iou_above": IouAbove,
    "best_iou_centroid_inside": BestIouCentroidInside,
    "centroid_closest_first": CentroidClosestFirst,
    "centroid_assignment": CentroidAssignment,
}


class MatchingRules(Rules):
    rules: Annotated[tuple[Annotated[AnyMatchingRule, Field(discriminator="rule")], ...], Field(min_length=1)]

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

    bytes_per_file: Annotated[int, Field(ge=1)] = 2_000_000_000
    files_per_submission: Annotated[int, Field(ge=1)] = 100_000
    archive_ratio: Annotated[int, Field(ge=1)] = 1100  # deflate reaches 1,032 on zeros
    pixels_per_image: Annotated[int, Field(ge=1)] = 4_000_000_000
    instances_per_case: Annotated[int, Field(ge=1)] = 2_000_000
    vertices_per_file: Annotated[int, Field(ge=3)] = 50_000_000
    json_depth: Annotated[int, Field(ge=1, le=500)] = 32
