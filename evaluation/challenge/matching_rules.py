"""The matching rules of challenge.toml, as records: parameters, call and description.

The algorithms are in ``nuclei_metrics.matching``, which is imported when a rule is first applied: scipy
takes half a second, and most commands match nothing. ``docs/development.md`` states how to add a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator

from evaluation.challenge.formats import SIX_DECIMALS, Rules, Threshold, check_distinct, contradiction
from nuclei_metrics.model import BorderRule, Case, Float64, Instances, Matches, OverlapTable, um_to_px

PublishedFault = Literal["reference_index", "unopened_masks", "file_order"]
COUNTED = "counted"  # stands for the name of a matching rule where nuclei are counted and never paired
Radius = Annotated[float, Field(ge=0, le=1e9)]


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """The nuclei of a case that a rule pairs.

    table   the pixels that reference and prediction share
    border  definition of boundaries at the image border, for the rule that compares boundaries
    places  y, x and number of the image of each nucleus, float64 (N, 3) and (M, 3), of several cases below each other
    """

    case: Case
    table: OverlapTable
    reference: Instances
    prediction: Instances
    border: BorderRule
    places: tuple[Float64, Float64] | None = None

    @property
    def compared(self) -> tuple[OverlapTable, Instances, Instances]:
        return self.table, self.reference, self.prediction


class MatchingRule(Rules):
    """What all matching rules have. ``name`` is the key under ``alternatives`` in metrics.json.

    takes_points  whether the rule, if it has a radius, can pair nuclei that are points
    condition     continues "A reference nucleus and a prediction are a pair"; {limit} means ``limit``
                  label         the same in a few words
    """

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9_]*$")]
    class_aware: bool
    ties: Literal["first_pixel"]

    if TYPE_CHECKING:
        rule: str

    takes_points: ClassVar[bool] = False
    condition: ClassVar[str]
    label: ClassVar[str]

    @property
    def needs_pixels(self) -> bool:
        """Return whether it cannot pair nuclei that are points."""
        return not self.takes_points

    @property
    def needs_spacing(self) -> bool:
        """Return whether every case needs its ``spacing_um``."""
        return False

    @property
    def is_by_pixels(self) -> bool:
        """Return whether only nuclei that share pixels can be a pair, so that images can be matched below each
        other."""
        return True

    def joins(self, cases: Iterable[Case]) -> bool:
        """Return whether cases without points may be matched below each other, each nucleus with its place."""
        return self.is_by_pixels

    @property
    def algorithm(self) -> str:
        """The name in ``ALGORITHMS`` of the function that finds the pairs."""
        return self.rule

    def arguments(self, sides: Sides) -> dict[str, Any]:
        """Arguments for the matching function."""
        names = ("table", "reference", "prediction")
        return {"class_aware": self.class_aware, **{name: getattr(sides, name) for name in names}}

    def match(self, sides: Sides) -> Matches:
        """The pairs of a case."""
        from nuclei_metrics.matching import ALGORITHMS

        return ALGORITHMS[self.algorithm](**self.arguments(sides))

    @property
    def limit(self) -> str:
        """The threshold, or the radius with its unit, in words."""
        return ""

    @property
    def short(self) -> str:
        """The rule in a few words, for a table."""
        return self.label.format(limit=self.limit)

    @property
    def words(self) -> str:
        """The rule in two sentences."""
        of_class = (
            "Only nuclei of equal class can be a pair."
            if self.class_aware
            else "Classes do not matter for the pairing; the classes of the pairs are compared afterwards."
        )
        return f"A reference nucleus and a prediction are a pair {self.condition.format(limit=self.limit)}. {of_class}"


class IouRule(MatchingRule):
    """Pairs with an IoU strictly above a threshold."""

    threshold: Threshold

    @property
    def limit(self) -> str:
        return f"{self.threshold:g}"

    def arguments(self, sides: Sides) -> dict[str, Any]:
        return {**super().arguments(sides), "threshold": self.threshold}


class IouAbove(IouRule):
    rule: Literal["iou_above"]
    condition: ClassVar[str] = (
        "if their IoU is above {limit}; rival pairs are resolved for the most pairs, then the greatest total IoU"
    )
    label: ClassVar[str] = "IoU > {limit}"


class _IouAssignment(IouRule):
    rule: Literal["iou_assignment"]
    condition: ClassVar[str] = "if their IoU is above {limit}; rival pairs are resolved for the greatest total IoU"
    label: ClassVar[str] = "IoU > {limit}, assigned"


class _BestIouCentroidInside(MatchingRule):
    rule: Literal["best_iou_centroid_inside"]
    condition: ClassVar[str] = "if the prediction has the highest IoU and its centroid is inside"
    label: ClassVar[str] = "best IoU, centre inside"


class _BestIouAnyOverlap(MatchingRule):
    rule: Literal["best_iou_any_overlap"]
    condition: ClassVar[str] = "if the prediction has the highest IoU; one shared pixel is enough"
    label: ClassVar[str] = "best IoU, any overlap"


class RadiusRule(MatchingRule):
    """Pairs that are close to each other: within a radius, in px or in um (then every case needs ``spacing_um``)."""

    radius_px: Radius | None = None
    radius_um: Radius | None = None

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if (self.radius_px is None) == (self.radius_um is None):
            got = "missing" if self.radius_px is None else "given together with radius_um"
            raise contradiction("radius_px", got, "one of radius_px and radius_um")
        return self

    @property
    def needs_spacing(self) -> bool:
        return self.radius_um is not None

    @property
    def is_by_pixels(self) -> bool:
        return False

    @property
    def limit(self) -> str:
        return f"{self.radius_um:g} µm" if self.radius_px is None else f"{self.radius_px:g} px"

    def arguments(self, sides: Sides) -> dict[str, Any]:
        return {**super().arguments(sides), "radius_px": self.radius_in_px(sides.case)}

    def radius_in_px(self, case: Case) -> float:
        """The radius in an image; its spacing is there if it is needed (checked with the challenge)."""
        if self.radius_px is not None:
            return self.radius_px
        assert self.radius_um is not None and case.spacing_um is not None
        return float(um_to_px(self.radius_um, case.spacing_um))


class _CentroidClosestFirst(RadiusRule):
    rule: Literal["centroid_closest_first"]
    takes_points: ClassVar[bool] = True
    condition: ClassVar[str] = "if their centroids are at most {limit} apart, the closest pair first"
    label: ClassVar[str] = "centroids within {limit}"

    def arguments(self, sides: Sides) -> dict[str, Any]:
        return {**super().arguments(sides), "places": sides.places}

    def joins(self, cases: Iterable[Case]) -> bool:
        return len({self.radius_in_px(case) for case in cases}) == 1


class InFileOrder(_CentroidClosestFirst):
    """The published fault ``file_order``, which replaces the rule that is written: see ``_keep_faults``."""

    def match(self, sides: Sides) -> Matches:
        from evaluation.challenge.file_order import match_in_file_order

        return match_in_file_order(**RadiusRule.arguments(self, sides))

    def joins(self, cases: Iterable[Case]) -> bool:
        return False


class _CentroidAssignment(RadiusRule):
    """``cutoff``: pairs beyond the radius are omitted "before" the assignment, or dropped "after" one of all."""

    rule: Literal["centroid_assignment"]
    cutoff: Literal["before", "after"] = "before"
    takes_points: ClassVar[bool] = True
    condition: ClassVar[str] = "if their centroids are at most {limit} apart, in the best assignment of all"
    label: ClassVar[str] = "assigned within {limit}"

    def arguments(self, sides: Sides) -> dict[str, Any]:
        return {**super().arguments(sides), "cutoff": self.cutoff}


class _HausdorffClosestFirst(RadiusRule):
    rule: Literal["hausdorff_closest_first"]
    condition: ClassVar[str] = "if their boundaries are at most {limit} apart, the closest pair first"
    label: ClassVar[str] = "Hausdorff up to {limit}"

    def arguments(self, sides: Sides) -> dict[str, Any]:
        return {**super().arguments(sides), "border": sides.border}


class ConfidenceFirst(RadiusRule):
    """The most probable prediction first: within a radius, or with an IoU of at least a threshold."""

    rule: Literal["confidence_first"]
    threshold: Annotated[float, Field(gt=0, le=1), SIX_DECIMALS] | None = None
    takes_points: ClassVar[bool] = True
    condition: ClassVar[str] = "with {limit}, the most probable prediction first"
    label: ClassVar[str] = "{limit}, highest confidence first"

    @property
    def limit(self) -> str:
        return f"centroids within {super().limit}" if self.threshold is None else f"IoU ≥ {self.threshold:g}"

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        keys = [key for key in ("radius_px", "radius_um", "threshold") if getattr(self, key) is not None]
        if len(keys) != 1:
            got = f"given together with {' and '.join(keys[:-1])}" if keys else "missing"
            raise contradiction(keys[-1] if keys else "radius_px", got, "one of radius_px, radius_um and threshold")
        return self

    @property
    def needs_pixels(self) -> bool:
        return self.threshold is not None

    @property
    def algorithm(self) -> str:
        return self.rule if self.threshold is None else f"{self.rule}_iou"

    def arguments(self, sides: Sides) -> dict[str, Any]:
        if self.threshold is None:
            return super().arguments(sides)
        return {**MatchingRule.arguments(self, sides), "threshold": self.threshold}


AnyMatchingRule = (  # the registry: a new rule adds its line here
    IouAbove
    | _IouAssignment
    | _BestIouCentroidInside
    | _BestIouAnyOverlap
    | _CentroidClosestFirst
    | _CentroidAssignment
    | _HausdorffClosestFirst
    | ConfidenceFirst
)
MATCHING_RULES: dict[str, type[MatchingRule]] = {
    get_args(kind.model_fields["rule"].annotation)[0]: kind for kind in get_args(AnyMatchingRule)
}


def rule_from(keys: Mapping[str, Any]) -> MatchingRule:
    """A matching rule from its keys, as results contain them."""
    return MATCHING_RULES[keys["rule"]].model_validate(keys)


class MatchingRules(Rules):
    """The matching rules, the primary one first.

    published_faults  faults of published rankings that are reproduced on purpose: see ``_keep_faults``
    """

    published_faults: tuple[PublishedFault, ...] = ()
    rules: Annotated[tuple[Annotated[AnyMatchingRule, Field(discriminator="rule")], ...], Field(min_length=1)]

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        check_distinct("rules", [rule.name for rule in self.rules])
        of_classes = set(self.published_faults) - {"file_order"}
        if of_classes and not all(rule.class_aware for rule in self.rules):
            raise contradiction("published_faults", "given with a rule that ignores classes", "class_aware rules")
        if "file_order" in self.published_faults and not isinstance(self.rules[0], _CentroidClosestFirst):
            got = f"'file_order' with the first rule {self.rules[0].rule!r}"
            raise contradiction("published_faults", got, "the first rule 'centroid_closest_first'")
        return self

    @property
    def passes(self) -> tuple[tuple[str, bool], ...]:
        """Name and ``class_aware`` of each rule, the primary one first; ``COUNTED`` and False if missing."""
        return tuple((rule.name, rule.class_aware) for rule in self.rules) or ((COUNTED, False),)
