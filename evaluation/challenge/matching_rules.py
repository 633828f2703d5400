"""The matching rules of challenge.toml: ``rule`` names one, the other keys are its parameters."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evaluation.challenge.base import Rules, contradiction, invalid
from evaluation.model import Case

PublishedFault = Literal["reference_index", "unopened_masks"]
COUNTED = "counted"  # stands for the name of a matching rule where nuclei are counted and never paired
Radius = Annotated[float, Field(ge=0, le=1e9)]


class MatchingRule(Rules):
    """What all matching rules have. ``name`` is the key under ``alternatives`` in metrics.json.

    takes_points  whether the rule, if it has a radius, can pair nuclei that are points
    """

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9_]*$")]
    class_aware: bool
    ties: Literal["first_pixel"]

    takes_points: ClassVar[bool] = False

    @property
    def needs_pixels(self) -> bool:
        """Whether it cannot pair nuclei that are points."""
        return not self.takes_points

    @property
    def needs_spacing(self) -> bool:
        """Whether every case needs its ``spacing_um``."""
        return False


class IouRule(MatchingRule):
    """Pairs with an IoU strictly above a threshold."""

    threshold: Annotated[float, Field(ge=0, lt=1)]

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        check_decimals(self.threshold)
        return self


class IouAbove(IouRule):
    rule: Literal["iou_above"]


class IouAssignment(IouRule):
    rule: Literal["iou_assignment"]


class BestIouCentroidInside(MatchingRule):
    rule: Literal["best_iou_centroid_inside"]


class BestIouAnyOverlap(MatchingRule):
    rule: Literal["best_iou_any_overlap"]


class RadiusRule(MatchingRule):
    """Pairs that are close to each other: within a radius, in px or in um (then every case needs ``spacing_um``)."""

    radius_px: Radius | None = None
    radius_um: Radius | None = None

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        if (self.radius_px is None) == (self.radius_um is None):
            got = "missing" if self.radius_px is None else "given beside radius_um"
            raise contradiction("radius_px", got, "one of radius_px and radius_um")
        return self

    @property
    def needs_spacing(self) -> bool:
        return self.radius_um is not None

    def radius_in_px(self, case: Case) -> float:
        """The radius in an image; its spacing is there if it is needed (checked with the challenge)."""
        if self.radius_px is not None:
            return self.radius_px
        assert self.radius_um is not None and case.spacing_um is not None
        return self.radius_um / case.spacing_um


class CentroidClosestFirst(RadiusRule):
    rule: Literal["centroid_closest_first"]
    takes_points: ClassVar[bool] = True


class CentroidAssignment(RadiusRule):
    """``cutoff``: pairs beyond the radius are left out "before" the assignment, or dropped "after" one of all."""

    rule: Literal["centroid_assignment"]
    cutoff: Literal["before", "after"] = "before"
    takes_points: ClassVar[bool] = True


class HausdorffClosestFirst(RadiusRule):
    rule: Literal["hausdorff_closest_first"]


class ConfidenceFirst(RadiusRule):
    """The most probable prediction first: within a radius, or with an IoU of at least a threshold."""

    rule: Literal["confidence_first"]
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    takes_points: ClassVar[bool] = True

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        keys = [key for key in ("radius_px", "radius_um", "threshold") if getattr(self, key) is not None]
        if len(keys) != 1:
            got = f"given beside {' and '.join(keys[:-1])}" if keys else "missing"
            raise contradiction(keys[-1] if keys else "radius_px", got, "one of radius_px, radius_um and threshold")
        if self.threshold is not None:
            check_decimals(self.threshold)
        return self

    @property
    def needs_pixels(self) -> bool:
        return self.threshold is not None


def check_decimals(threshold: float, key: str = "threshold") -> None:
    if round(threshold, 6) != threshold:
        raise invalid(key, f"{threshold!r}", "a number of at most six decimals, to compare exactly")


AnyMatchingRule = (
    IouAbove
    | IouAssignment
    | BestIouCentroidInside
    | BestIouAnyOverlap
    | CentroidClosestFirst
    | CentroidAssignment
    | HausdorffClosestFirst
    | ConfidenceFirst
)
MATCHING_RULES: dict[str, type[MatchingRule]] = {
    "iou_above": IouAbove,
    "iou_assignment": IouAssignment,
    "best_iou_centroid_inside": BestIouCentroidInside,
    "best_iou_any_overlap": BestIouAnyOverlap,
    "centroid_closest_first": CentroidClosestFirst,
    "centroid_assignment": CentroidAssignment,
    "hausdorff_closest_first": HausdorffClosestFirst,
    "confidence_first": ConfidenceFirst,
}


class MatchingRules(Rules):
    """The matching rules, the primary one first.

    published_faults  faults of published rankings that are reproduced on purpose: see ``scoring.published_faults``
    """

    published_faults: tuple[PublishedFault, ...] = ()
    rules: Annotated[tuple[Annotated[AnyMatchingRule, Field(discriminator="rule")], ...], Field(min_length=1)]

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        names = [rule.name for rule in self.rules]
        if len(set(names)) < len(names):
            raise contradiction("rules", "two rules with the same name", "a name of its own for each rule")
        if self.published_faults and not all(rule.class_aware for rule in self.rules):
            raise contradiction("published_faults", "given beside a rule that ignores classes", "class_aware rules")
        return self

    @property
    def passes(self) -> tuple[tuple[str, bool], ...]:
        """Name and ``class_aware`` of each rule, the primary one first; ``COUNTED`` and False if there is none."""
        return tuple((rule.name, rule.class_aware) for rule in self.rules) or ((COUNTED, False),)
