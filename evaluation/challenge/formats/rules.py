"""What the keys of all formats have in common, and the groups of keys that several formats share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, PlainSerializer, PlainValidator, model_validator

from evaluation.challenge.base import RuleFault, Rules, check_pattern, contradiction, filled, invalid
from evaluation.findings import fault, quote
from evaluation.model import Case, OriginRule, VanishedRule, VerticesRule

Units = Literal["px", "um", "mm"]
Shape = Literal["outline", "point"]
LARGEST_NUMBER = 32767
# What ``compare`` and ``convert`` import is no format of a challenge: names that may be tried, and suffixes.
IMPORTS = ("imagej_roi", "hdf5", "zarr", "ome_zarr", "cellpose", "geoparquet", "parquet")
IMPORTED = (".roi", ".h5", ".hdf5", ".zarr", ".zarr.zip", "_seg.npy", ".parquet")
ONLY_IMPORTED = "which only 'compare' and 'convert' read"
CONVERT_FIRST = "Convert such files first: evaluation convert FILE OUTPUT --to label_tiff, or --to geojson."


class FormatRules(Rules):
    """The keys of ``[reference]`` and ``[submission]`` that every format has; a format adds its own.

    files         pattern with {case}, {group}, {class}; without {case} one file holds all cases
    case_key      the name that a shared file, or the platform's list of jobs, has for a case, with {case} and {group};
                  or a table of such names by the names of the cases that have another one
    coordinates   whether coordinates count from the corner of the image or of the slide it was cut from; then
                  offset_x and offset_y of cases.csv are subtracted
    skip_classes  names of annotations that are no nuclei and are left out, such as regions of interest

    Of the format, not of the challenge:

    file_holds    what a file holds; "either" if ``files`` decides
    dense         whether its files have a value for every pixel, so that reading costs memory by area
    companions    its keys that are patterns of further files of a case, and what such a file is called
    """

    model_config = ConfigDict(defer_build=True)  # there are many of them, and a challenge has two

    format: str
    files: str
    case_key: str | dict[str, str] = "{case}"
    coordinates: Literal["image", "slide"] = "image"
    skip_classes: tuple[str, ...] = ()

    file_holds: ClassVar[Literal["one case", "all cases", "either"]] = "one case"
    dense: ClassVar[bool] = False
    companions: ClassVar[Mapping[str, str]] = {}

    def value(self, key: str) -> Any:
        """The value of a key, None if this format has no such key."""
        return getattr(self, key, None)

    @property
    def is_shared(self) -> bool:
        """Whether one file holds all cases."""
        return "{case}" not in self.files

    def key_of(self, case: Case) -> str:
        """The name of a case in a file of all cases."""
        if isinstance(self.case_key, str):
            return filled(self.case_key, case)
        return self.case_key.get(case.name, case.name)

    @property
    def are_points(self) -> bool:
        """Whether nuclei are points."""
        return False

    @property
    def are_counts(self) -> bool:
        """Whether nothing is known of the nuclei but how many there are of each class."""
        return False

    @property
    def tells_class(self) -> bool:
        """Whether the files may say which class a nucleus has."""
        return True

    @property
    def needs_index(self) -> bool:
        """Whether a file has numbers instead of names for cases, so that cases.csv needs ``index``."""
        return False

    @model_validator(mode="after")
    def check_files(self) -> Self:
        """Refuse patterns that do not fit the format."""
        allowed = {"class"} if self.is_shared else {"case", "group", "class"}
        check_pattern(self.files, "files", required=set(), allowed=allowed)
        if isinstance(self.case_key, str):
            check_pattern(self.case_key, "case_key", required={"case"}, allowed={"case", "group"})
        elif len(set(self.case_key.values())) < len(self.case_key):
            raise invalid("case_key", "a name for two cases", "a name of its own for every case")
        for key in ("files", *self.companions):
            pattern = self.value(key)
            if pattern is not None and pattern.lower().endswith(IMPORTED):
                found = f"{quote(pattern)}, {ONLY_IMPORTED}"
                raise RuleFault(
                    fault(
                        "invalid-rule",
                        key,
                        got=found,
                        expected=f"files of the format '{self.format}'",
                        fix=CONVERT_FIRST,
                    )
                )
        for key in self.companions:
            if (pattern := self.value(key)) is not None:
                check_pattern(pattern, key, required={"case"}, allowed={"case", "group"})
        if self.is_shared and self.file_holds == "one case":
            raise invalid("files", "a pattern without {case}", "{case}, since a file holds one case in this format")
        if not self.is_shared and self.file_holds == "all cases":
            raise invalid("files", "a pattern with {case}", "one without, since a file holds all cases in this format")
        if self.is_shared and "*" in self.files:
            raise invalid("files", "a '*' without {case}", "the name of the file that holds all cases")
        return self


# --- outlines and points ----------------------------------------------------------------------------------------------


class OutlineRules(FormatRules):
    """Formats of outlines: how vertices become pixels."""

    vertices: VerticesRule
    origin: OriginRule
    vanished: VanishedRule


class PointRules(FormatRules):
    """Formats of points."""

    origin: OriginRule

    @property
    def are_points(self) -> bool:
        return True


class ShapeRules(FormatRules):
    """Formats of outlines and points.

    shape          what the nuclei of a file with outlines and points are
    other_shapes   what becomes of the annotations of the other shape
    """

    shape: Shape
    origin: OriginRule
    other_shapes: Literal["reject", "skip"] | None = None
    vertices: VerticesRule | None = None
    vanished: VanishedRule | None = None

    @property
    def are_points(self) -> bool:
        return self.shape == "point"

    @model_validator(mode="after")
    def check_shape(self) -> Self:
        faults = []
        for key in ("vanished", "vertices"):
            given = getattr(self, key) is not None
            if given and self.are_points:
                faults.append(
                    fault("contradictory-rules", key, wording="only-own-keys", format=self.format, shape=" of points")
                )
            if not given and not self.are_points:
                faults.append(fault("missing-rule", key))
        if faults:
            raise RuleFault(*faults)
        return self


class FeatureRules(ShapeRules):
    """Formats whose geometries are those of GeoJSON.

    parts  whether the parts of a MultiPolygon are one nucleus together (if not given), or a nucleus each, as in CellViT
    """

    parts: Literal["together", "apart"] | None = None


# --- classes ----------------------------------------------------------------------------------------------------------


def read_numbers(value: object) -> tuple[int, ...]:
    """The numbers that stand for a class: one, or a list of them."""
    numbers = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not numbers or not all(type(number) is int and 0 <= number <= LARGEST_NUMBER for number in numbers):
        got = quote(list(value) if isinstance(value, tuple) else value)
        raise invalid("", got, f"a whole number from 0 to {LARGEST_NUMBER:,}, or a list of some")
    return numbers


def plain_numbers(numbers: tuple[int, ...]) -> int | tuple[int, ...]:
    return numbers[0] if len(numbers) == 1 else numbers


ClassNumbers = Annotated[
    tuple[int, ...], PlainValidator(read_numbers), PlainSerializer(plain_numbers, return_type=int | tuple[int, ...])
]
ClassValues = dict[str, ClassNumbers]


class NumberedClasses(FormatRules):
    """Formats with numbers for classes.

    class_values  the number, or the numbers, that stand for each class in the files, by class name
    """

    class_values: ClassValues | None = None

    @property
    def zero_is_background(self) -> bool:
        """Whether the number 0 means that there is no nucleus."""
        return False

    @model_validator(mode="after")
    def check_class_values(self) -> Self:
        numbers = [number for of_class in (self.class_values or {}).values() for number in of_class]
        check_distinct("class_values", numbers)
        if self.zero_is_background and 0 in numbers:
            raise contradiction("class_values", "the value 0, which is the background", "values from 1")
        return self


def check_distinct(key: str, values: Sequence[object]) -> None:
    """Refuse a value that stands for two classes."""
    if len(set(values)) < len(values):
        raise contradiction(key, "the same value twice", "every value once, for one class")


class ClassFiles(NumberedClasses):
    """Formats whose classes stand in the name of a file, or in another file.

    class_map  pattern of a second image that holds the class of every pixel
    """

    class_map: str | None = None

    companions: ClassVar[Mapping[str, str]] = {"class_map": "class map"}

    @property
    def ways(self) -> Mapping[str, object]:
        """The keys that say where the classes stand, those that are given."""
        keys = ("class_map", "class_table", "class_channel")
        return {key: self.value(key) for key in keys if self.value(key) is not None}

    @property
    def tells_class(self) -> bool:
        return "{class}" in self.files or bool(self.ways)

    @property
    def zero_is_background(self) -> bool:
        return bool(self.ways.keys() & {"class_map", "class_channel"})

    @model_validator(mode="after")
    def check_ways(self) -> Self:
        """Refuse several ways, or half a way, to tell the class of a nucleus."""
        ways = list(self.ways)
        if len(ways) > 1 or (ways and "{class}" in self.files):
            raise contradiction(
                ways[0],
                f"given although {'files holds {class}' if len(ways) < 2 else ways[1] + ' is'}",
                "one way to tell the class of a nucleus",
            )
        if ways and self.zero_is_background and self.class_values is None:
            raise contradiction("class_values", f"missing although {ways[0]} is given", "both")
        if self.class_values is not None and not ways:
            raise contradiction("class_values", "given without class_map, class_table or class_channel", "both")
        return self
