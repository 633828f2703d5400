"""What all tables of challenge.toml are built from, and the keys of ``[reference]`` and ``[submission]``.

The reader, the words and the example of a format are in the file of its family in ``evaluation.files.formats``.
``docs/development.md`` states how to add one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, model_validator

from evaluation.findings import Finding, fault, listed, quote
from nuclei_metrics.model import Case, OriginRule, VanishedRule, VerticesRule


class RuleFault(ValueError):
    """Faults that a validator found. The ``where`` of a finding is a key of its table, or "" for the value itself."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__(*findings)
        self.findings = findings

    def __str__(self) -> str:
        return "; ".join(map(str, self.findings))


def invalid(key: str, got: str, expected: str) -> RuleFault:
    """The fault of a value that a rule cannot have."""
    return RuleFault(fault("invalid-rule", key, got=got, expected=expected))


def contradiction(key: str, got: str, expected: str, fix: str = "") -> RuleFault:
    """The fault of a contradictory or meaningless value."""
    return RuleFault(fault("contradictory-rules", key, got=got, expected=expected, fix=fix))


def faults_of(error: Any, location: Iterable[object]) -> list[Finding]:
    """One error of pydantic as findings, each at its key below a location in the document."""
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, RuleFault):
        return [replace(each, where=dotted(*location, each.where)) for each in cause.findings]
    if error["type"] == "missing":
        return [fault("missing-rule", dotted(*location))]
    expected = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    allowed, value = expected[0].lower() + expected[1:], error.get("input")
    got = quote(value)[1:-1] if type(value) in (int, float) else quote(value)
    got = f"the text {got}" if isinstance(value, str) and error["type"].endswith("_type") else got
    return [fault("invalid-rule", dotted(*location), got=got, expected=allowed)]


def check_distinct(key: str, values: Sequence[object]) -> None:
    """Refuse the content of a list twice, or for two things."""
    if twice := [value for value, number in Counter(values).items() if number > 1]:
        raise contradiction(key, f"{listed(twice, 3, last='and')} more than once", "every value once")


def _check_decimals(value: float) -> float:
    """Refuse a number with more than six decimals."""
    if round(value, 6) != value:
        raise invalid("", f"{value!r}", "a number of at most six decimals, to compare exactly")
    return value


SIX_DECIMALS = AfterValidator(_check_decimals)
Threshold = Annotated[float, Field(ge=0, lt=1), SIX_DECIMALS]


def dotted(*keys: object) -> str:
    return ".".join(str(key) for key in keys if key != "")


class Rules(BaseModel):
    """A table of challenge.toml: unknown keys are refused, values are not converted, instances are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)


def filled(pattern: str, case: Case, class_name: str = "") -> str:
    """A pattern with the names of a case, and of a class, in it."""
    return pattern.replace("{case}", case.name).replace("{group}", case.group).replace("{class}", class_name)


def check_pattern(pattern: str, key: str, *, required: set[str], allowed: set[str]) -> None:
    """Refuse a file pattern that could not be filled in, or that leaves its folder."""
    fields = set(re.findall(r"\{([^{}]*)\}", pattern))
    rest = re.sub(r"\{[^{}]*\}", "", pattern)
    if not required <= fields <= allowed or set("{}") & set(rest):
        names = ", ".join(f"{{{name}}}" for name in sorted(allowed))
        needed = "".join(f"{{{name}}} and " for name in sorted(required))
        raise invalid(key, quote(pattern), f"a pattern with {needed}no fields but {names}")
    if pattern.startswith("/") or "\\" in pattern or ".." in pattern.split("/"):
        raise invalid(key, quote(pattern), "a relative path with '/' between its parts, without '..'")


# --- what every format has --------------------------------------------------------------------------------------------


class Overlaps(IntEnum):
    """Which nuclei may share pixels: none, nuclei of different classes, or any."""

    NONE, BETWEEN_CLASSES, ANY = range(3)


LengthUnit = Literal["px", "um", "mm"]
Shape = Literal["outline", "point"]
Regions = Literal["keep", "leave_out"]
LARGEST_NUMBER = 32767
# What ``compare`` and ``convert`` import is no format of a challenge: names that may be tried, and suffixes.
IMPORTED_FORMATS = ("imagej_roi", "hdf5", "zarr", "ome_zarr", "cellpose", "geoparquet", "parquet")
IMPORTED = (".roi", ".h5", ".hdf5", ".zarr", ".zarr.zip", "_seg.npy", ".parquet")
ONLY_IMPORTED = "which only 'compare' and 'convert' read"
CONVERT_FIRST = "Convert such files first: evaluation convert FILE OUTPUT --to label_tiff, or --to geojson."


class FormatRules(Rules):
    """The keys of ``[reference]`` and ``[submission]`` for all formats; formats add further keys.

    files         pattern with {case}, {group}, {class}; without {case} one file contains all cases
    case_key      the name that a shared file, or the platform's list of jobs, has for a case, with {case} and {group};
                  or a table of such names for cases with different names
    coordinates   whether coordinates count from the corner of the image or of the slide; then
                  offset_x and offset_y of cases.csv are subtracted
    skip_cases    image names in a shared file that are not cases, and are ignored
    skip_classes  names of annotations that are not nuclei, and are ignored, such as regions of interest
    regions       treatment of outlines around more than five nuclei, such as tissue regions

    Properties of the format, not of the challenge:

    file_holds    content of a file; "either" if ``files`` decides
                  nuclei        representation of nuclei; "shapes": outlines, pixels, or set by the key ``shape``
    dense         whether its files have a value for every pixel, so that reading costs memory by area
    overlaps      which nuclei of a file may share pixels
                  companions    keys with patterns of further files of a case, and the names of such files
    suffix        usual suffix of its files; "": the last word of its name
    image_ids     whether results name images by the ids that another file lists
    """

    model_config = ConfigDict(defer_build=True)  # there are many of them, and a challenge has two

    format: str
    files: str
    case_key: str | dict[str, str] = "{case}"
    coordinates: Literal["image", "slide"] = "image"
    skip_cases: tuple[str, ...] = ()
    skip_classes: tuple[str, ...] = ()
    regions: Regions = "keep"

    file_holds: ClassVar[Literal["one case", "all cases", "either"]] = "one case"
    nuclei: ClassVar[Literal["shapes", "points", "numbers"]] = "shapes"
    dense: ClassVar[bool] = False
    overlaps: ClassVar[Overlaps] = Overlaps.ANY
    companions: ClassVar[Mapping[str, str]] = {}
    suffix: ClassVar[str] = ""
    image_ids: ClassVar[bool] = False

    def value(self, key: str) -> Any:
        """The value of a key, None if this format has no such key."""
        return vars(self).get(key)

    @property
    def is_shared(self) -> bool:
        """Return whether one file contains all cases."""
        return "{case}" not in self.files

    def key_of(self, case: Case) -> str:
        """The name of a case in a file of all cases."""
        if isinstance(self.case_key, str):
            return filled(self.case_key, case)
        return self.case_key.get(case.name, case.name)

    @property
    def are_points(self) -> bool:
        """Return whether nuclei are points."""
        return self.nuclei == "points" or self.value("shape") == "point"

    @property
    def are_counts(self) -> bool:
        """Return whether files contain only the number of nuclei per class."""
        return self.nuclei == "numbers"

    @property
    def tells_class(self) -> bool:
        """Return whether the files may state which class a nucleus has."""
        return True

    @property
    def needs_index(self) -> bool:
        """Return whether a file has numbers instead of names for cases, so that cases.csv needs ``index``."""
        return False

    @model_validator(mode="after")
    def check_files(self) -> Self:
        """Refuse patterns that do not fit the format."""
        required = {"case"} if "{group}" in self.files else set[str]()
        check_pattern(self.files, "files", required=required, allowed={"case", "group", "class"})
        if isinstance(self.case_key, str):
            check_pattern(self.case_key, "case_key", required={"case"}, allowed={"case", "group"})
        else:
            check_distinct("case_key", list(self.case_key.values()))
        for key in ("files", *self.companions):
            pattern = self.value(key)
            if pattern is not None and pattern.lower().endswith(IMPORTED):
                got, expected = f"{quote(pattern)}, {ONLY_IMPORTED}", f"files of the format '{self.format}'"
                raise RuleFault(fault("invalid-rule", key, got=got, expected=expected, fix=CONVERT_FIRST))
        for key in self.companions:
            if (pattern := self.value(key)) is not None:
                check_pattern(pattern, key, required={"case"}, allowed={"case", "group"})
        if self.is_shared and self.file_holds == "one case":
            raise invalid("files", "a pattern without {case}", "{case}, since a file of this format contains one case")
        if not self.is_shared and self.file_holds == "all cases":
            raise invalid("files", "a pattern with {case}", "no {case}, since a file of this format contains all cases")
        if self.is_shared and "*" in self.files:
            raise invalid("files", "a '*' without {case}", "the name of the file that contains all cases")
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

    nuclei: ClassVar = "points"


class ShapeRules(FormatRules):
    """Formats of outlines and points.

    shape          shape of the nuclei in a file with outlines and points
                   other_shapes   treatment of annotations of the other shape
    """

    shape: Shape
    origin: OriginRule
    other_shapes: Literal["reject", "skip"] | None = None
    vertices: VerticesRule | None = None
    vanished: VanishedRule | None = None

    @model_validator(mode="after")
    def check_shape(self) -> Self:
        faults = []
        for key in ("vanished", "vertices"):
            is_given = getattr(self, key) is not None
            if is_given and self.are_points:
                faults.append(
                    fault("contradictory-rules", key, wording="only-own-keys", format=self.format, shape=" of points")
                )
            if not is_given and not self.are_points:
                faults.append(fault("missing-rule", key))
        if faults:
            raise RuleFault(*faults)
        return self


class FeatureRules(ShapeRules):
    """Formats with GeoJSON geometries.

    parts  whether the parts of a MultiPolygon are one nucleus (default), or separate nuclei, as in CellViT
    """

    parts: Literal["together", "apart"] | None = None


# --- classes ----------------------------------------------------------------------------------------------------------


def _read_numbers(value: object) -> tuple[int, ...]:
    """The numbers that mean a class: one, or a list of them."""
    numbers = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not numbers or not all(type(number) is int and 0 <= number <= LARGEST_NUMBER for number in numbers):
        got = quote(list(value) if isinstance(value, tuple) else value)
        raise invalid("", got, f"a whole number from 0 to {LARGEST_NUMBER:,}, or a list of some")
    return numbers


def _plain_numbers(numbers: tuple[int, ...]) -> int | tuple[int, ...]:
    return numbers[0] if len(numbers) == 1 else numbers


ClassNumbers = Annotated[
    tuple[int, ...], PlainValidator(_read_numbers), PlainSerializer(_plain_numbers, return_type=int | tuple[int, ...])
]
ClassValues = dict[str, ClassNumbers]


class NumberedClasses(FormatRules):
    """Formats with numbers for classes.

    class_values  the number, or the numbers, that mean each class in the files, by class name
    """

    class_values: ClassValues | None = None

    @property
    def zero_is_background(self) -> bool:
        """Return whether the number 0 means that there is no nucleus."""
        return False

    @model_validator(mode="after")
    def check_class_values(self) -> Self:
        numbers = [number for of_class in (self.class_values or {}).values() for number in of_class]
        check_distinct("class_values", numbers)
        if self.zero_is_background and 0 in numbers:
            raise contradiction("class_values", "the value 0, which is the background", "values from 1")
        return self


class _ClassFiles(NumberedClasses):
    """Formats with classes in the file name, or in a second file.

    class_map  pattern of a second image that contains the class of every pixel
    """

    class_map: str | None = None

    companions: ClassVar[Mapping[str, str]] = {"class_map": "class map"}

    @property
    def ways(self) -> Mapping[str, object]:
        """The given keys that define the class of a nucleus."""
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
        """Refuse rules with no complete source, or several sources, for the class of a nucleus."""
        ways = list(self.ways)
        if len(ways) > 1 or (ways and "{class}" in self.files):
            got = f"given although {'files contains {class}' if len(ways) < 2 else ways[1] + ' is'}"
            raise contradiction(ways[0], got, "one key that defines the class of a nucleus")
        if ways and self.zero_is_background and self.class_values is None:
            raise contradiction("class_values", f"missing although {ways[0]} is given", "both")
        if self.class_values is not None and not ways:
            raise contradiction("class_values", "given without class_map, class_table or class_channel", "both")
        return self


# --- the formats ------------------------------------------------------------------------------------------------------


class _AperioXmlRules(OutlineRules):
    """Aperio ImageScope XML."""

    format: Literal["aperio_xml"]


class AsapXmlRules(ShapeRules):
    """ASAP XML."""

    format: Literal["asap_xml"]


class GeojsonRules(FeatureRules):
    """GeoJSON as QuPath writes it."""

    format: Literal["geojson"]


class _PolygonsJsonRules(OutlineRules):
    """JSON of the platform's kind "Multiple polygons"."""

    format: Literal["polygons_json"]
    units: LengthUnit


class _PointsJsonRules(PointRules):
    """JSON of the platform's kind "Multiple points"."""

    format: Literal["points_json"]
    units: LengthUnit


class PointsCsvRules(PointRules, NumberedClasses):
    """CSV with a row for each nucleus.

    columns  the columns of a CSV file without a header
    """

    format: Literal["points_csv"]
    units: LengthUnit
    columns: tuple[Literal["case", "x", "y", "class", "probability", "_"], ...] | None = None

    file_holds: ClassVar = "either"

    @model_validator(mode="after")
    def check_columns(self) -> Self:
        if self.columns is None:
            return self
        if sorted(set(self.columns) & {"x", "y"}) != ["x", "y"]:
            raise invalid("columns", "no x or no y", "both, each once")
        check_distinct("columns", [column for column in self.columns if column != "_"])
        return self


class NuclsCsvRules(OutlineRules):
    """NuCLS CSV.

    class_column  which of the class levels of NuCLS counts
    """

    format: Literal["nucls_csv"]
    class_column: Literal["raw_classification", "main_classification", "super_classification"]


class _MidogJsonRules(PointRules, NumberedClasses):
    """MIDOG JSON, a box for each nucleus."""

    format: Literal["midog_json"]

    file_holds: ClassVar = "either"
    image_ids: ClassVar = True


class _CocoJsonRules(OutlineRules, NumberedClasses):
    """COCO JSON."""

    format: Literal["coco_json"]

    file_holds: ClassVar = "either"
    image_ids: ClassVar = True


class RleCsvRules(FormatRules):
    """CSV of run-length codes.

    pixel_order  whether run-length codes go along rows or down columns
    first_pixel  the number of the first pixel
    """

    format: Literal["rle_csv"]
    pixel_order: Literal["row", "column"]
    first_pixel: Literal[0, 1]

    file_holds: ClassVar = "all cases"


class LabelImageRules(_ClassFiles):
    """Label images.

    class_table    pattern of a CSV file with the class of every id
    class_channel  the channel of the image, from 0, that contains the class of every pixel; ids are in the other one
    components     pixels of a mask with equal values that touch are one nucleus: by sides (4), or also corners (8); the
                   values are the classes (class_values), or do not matter
    not_annotated  values of pixels that are not annotated, such as -1 or 255: in a reference a region of the first
                   ignore class, in a prediction omitted
    """

    format: Literal["label_image"]
    class_table: str | None = None
    class_channel: Literal[0, 1] | None = None
    components: Literal[4, 8] | None = None
    not_annotated: tuple[int, ...] = ()

    suffix: ClassVar = ".mha"
    dense: ClassVar = True
    overlaps: ClassVar = Overlaps.NONE
    companions: ClassVar = {"class_map": "class map", "class_table": "class table"}

    @property
    def ways(self) -> Mapping[str, object]:
        inherited = super().ways
        are_values = self.components is not None and (self.class_values is not None or inherited)
        return {**inherited, "components": self.components} if are_values else inherited

    @property
    def zero_is_background(self) -> bool:
        return self.components is not None or super().zero_is_background


class _NaryMatRules(_ClassFiles):
    """MATLAB files with the labels in ``n_ary_mask``."""

    format: Literal["nary_mat"]

    dense: ClassVar = True
    overlaps: ClassVar = Overlaps.NONE


class _HovernetMatRules(NumberedClasses):
    """MATLAB files of HoVer-Net."""

    format: Literal["hovernet_mat"]

    dense: ClassVar = True
    overlaps: ClassVar = Overlaps.NONE

    @property
    def tells_class(self) -> bool:
        return self.class_values is not None

    @property
    def zero_is_background(self) -> bool:
        return True


class _ConicArrayRules(NumberedClasses):
    """NumPy arrays of nuclei and classes, as in CoNIC."""

    format: Literal["conic_array"]
    class_values: ClassValues

    suffix: ClassVar = ".npy"
    file_holds: ClassVar = "all cases"
    dense: ClassVar = True
    overlaps: ClassVar = Overlaps.NONE

    @property
    def needs_index(self) -> bool:
        return True

    @property
    def zero_is_background(self) -> bool:
        return True


class _PannukeMasksRules(NumberedClasses):
    """NumPy arrays with a channel for each class, as in PanNuke."""

    format: Literal["pannuke_masks"]
    class_values: ClassValues

    suffix: ClassVar = ".npy"
    file_holds: ClassVar = "either"
    dense: ClassVar = True
    overlaps: ClassVar = Overlaps.BETWEEN_CLASSES

    @property
    def needs_index(self) -> bool:
        return self.is_shared


Colour = Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")]


class ColourMapRules(FormatRules):
    """PNG with a colour for each class.

    colours        the colour of each class, by class name
    border_colour  the colour of the borders drawn between nuclei
    border         treatment of the pixels of borders
    """

    format: Literal["colour_map"]
    colours: dict[str, Colour]
    border_colour: Colour
    border: Literal["remove", "remove_and_dilate"]

    suffix: ClassVar = ".png"
    dense: ClassVar = True
    overlaps: ClassVar = Overlaps.NONE

    @model_validator(mode="after")
    def check_colours(self) -> Self:
        colours = [colour.lower() for colour in self.colours.values()]
        check_distinct("colours", colours)
        if "#000000" in {*colours, self.border_colour}:
            raise contradiction("colours", "black, which is the background", "other colours")
        if self.border_colour.lower() in colours:
            raise contradiction("border_colour", "the colour of a class", "a different colour")
        return self


class ContoursJsonRules(ShapeRules, NumberedClasses):
    """JSON of HoVer-Net, CellViT or labelme, with a contour and a class for each nucleus.

    tool  that writes the files
    """

    format: Literal["contours_json"]
    tool: Literal["hovernet", "cellvit", "labelme"]

    @property
    def zero_is_background(self) -> bool:
        return True


class YoloTxtRules(OutlineRules, NumberedClasses):
    """YOLO's text files for segmentation, with a class number and an outline in each line."""

    format: Literal["yolo_txt"]


class _CountsCsvRules(FormatRules):
    """CSV with a row for each image and a column for each class."""

    format: Literal["counts_csv"]

    file_holds: ClassVar = "all cases"
    nuclei: ClassVar = "numbers"

    @model_validator(mode="after")
    def check_class(self) -> Self:
        if "{class}" in self.files:
            raise invalid("files", "a pattern with {class}", "one without, since each class has a column")
        return self


# --- the list of formats ----------------------------------------------------------------------------------------------


FORMATS: Mapping[str, type[FormatRules]] = {  # every class above that names its format, in their order
    get_args(kind.model_fields["format"].annotation)[0]: kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, FormatRules) and get_args(kind.model_fields["format"].annotation)
}


def usual_suffix(format: str) -> str:
    """Return the suffix of the files of a format.

    >>> usual_suffix("polygons_json"), usual_suffix("geojson"), usual_suffix("label_image")
    ('.json', '.geojson', '.mha')
    """
    rules = FORMATS.get(format)
    return (rules and rules.suffix) or f".{format.rpartition('_')[2]}"


@cache
def keys_of_formats() -> frozenset[str]:
    """The keys that some format has, and not all."""
    return frozenset().union(*(rules.model_fields for rules in FORMATS.values())) - set(FormatRules.model_fields)


def format_rules(**keys: Any) -> FormatRules:
    """The rules of one side in the format that they name. Raises pydantic's ValidationError."""
    return FORMATS[keys["format"]].model_validate(keys)
