"""How the files of one side are read: the keys that ``[reference]`` and ``[submission]`` have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from evaluation.challenge.base import RuleFault, Rules, check_pattern
from evaluation.findings import quote
from evaluation.model import OriginRule, VanishedRule, VerticesRule

FormatName = Literal[
    "aperio_xml",
    "asap_xml",
    "geojson",
    "polygons_json",
    "points_json",
    "points_csv",
    "nucls_csv",
    "midog_json",
    "coco_json",
    "coco_panoptic",
    "rle_csv",
    "label_image",
    "nary_mat",
    "hovernet_mat",
    "conic_array",
    "pannuke_masks",
    "colour_map",
    "counts_csv",
]
Units = Literal["px", "um", "mm"]
Shape = Literal["outline", "point"]
Colour = Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")]
LARGEST_NUMBER = 32767


def read_numbers(value: object) -> tuple[int, ...]:
    """The numbers that stand for a class: one, or a list of them."""
    numbers = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not numbers or not all(type(number) is int and 0 <= number <= LARGEST_NUMBER for number in numbers):
        got = quote(list(value) if isinstance(value, tuple) else value).replace("|", "?")
        raise RuleFault(f"invalid||{got}|a whole number from 0 to {LARGEST_NUMBER:,}, or a list of some")
    return numbers


def plain_numbers(numbers: tuple[int, ...]) -> int | tuple[int, ...]:
    return numbers[0] if len(numbers) == 1 else numbers


ClassNumbers = Annotated[
    tuple[int, ...], PlainValidator(read_numbers), PlainSerializer(plain_numbers, return_type=int | tuple[int, ...])
]

A_VALUE = "a value, since every rule that can change a score must be written"
OUTLINES = frozenset({"vertices", "origin", "vanished"})


@dataclass(frozen=True, slots=True)
class FormatKeys:
    """What a format needs to be told, and how its files lie.

    required, optional   keys of FormatRules; all other keys of ``PARTICULAR`` are refused
    cases                whether a file holds one case, several ("shared": a pattern without {case}), or either
    names_classes        whether its files say which class a nucleus has
    """

    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    cases: Literal["one", "shared", "either"] = "one"
    dense: bool = False


FORMATS: dict[str, FormatKeys] = {
    "aperio_xml": FormatKeys(OUTLINES),
    "asap_xml": FormatKeys(frozenset({"shape", "origin"}), OUTLINES | {"other_shapes"}),
    "geojson": FormatKeys(frozenset({"shape", "origin"}), OUTLINES | {"other_shapes"}),
    "polygons_json": FormatKeys(OUTLINES | {"units"}),
    "points_json": FormatKeys(frozenset({"origin", "units"})),
    "points_csv": FormatKeys(frozenset({"origin", "units"}), frozenset({"columns", "class_values"}), "either"),
    "nucls_csv": FormatKeys(OUTLINES | {"class_column"}),
    "midog_json": FormatKeys(frozenset({"origin"}), frozenset({"class_values"}), "either"),
    "coco_json": FormatKeys(OUTLINES, frozenset({"class_values"}), "either"),
    "coco_panoptic": FormatKeys(frozenset({"segments"}), frozenset({"class_values"}), dense=True),
    "rle_csv": FormatKeys(frozenset({"pixel_order", "first_pixel"}), frozenset(), "shared"),
    "label_image": FormatKeys(
        frozenset(), frozenset({"class_map", "class_table", "class_channel", "class_values", "components"}), dense=True
    ),
    "nary_mat": FormatKeys(frozenset(), frozenset({"class_map", "class_values"}), dense=True),
    "hovernet_mat": FormatKeys(frozenset(), frozenset({"class_values"}), dense=True),
    "conic_array": FormatKeys(frozenset({"class_values"}), frozenset(), "shared", dense=True),
    "pannuke_masks": FormatKeys(frozenset({"class_values"}), frozenset(), "either", dense=True),
    "colour_map": FormatKeys(frozenset({"colours", "border_colour", "border"}), dense=True),
    "counts_csv": FormatKeys(cases="shared"),
}
assert set(FORMATS) == set(get_args(FormatName))
PARTICULAR = frozenset().union(*(keys.required | keys.optional for keys in FORMATS.values()))


class FormatRules(Rules):
    """Where the files of a side lie, and what in them means what. Which keys a format takes is in ``FORMATS``.

    files          pattern with {case}, {group}, {class}; without {case} one file holds all cases
    case_key       the name that a shared file, or the platform's list of jobs, has for a case, with {case} and {group}
    coordinates    whether coordinates count from the corner of the image or of the slide it was cut from; then
                   offset_x and offset_y of cases.csv are subtracted
    skip_classes   names of annotations that are no nuclei and are left out, such as regions of interest
    shape          what the nuclei of a file with outlines and points are
    other_shapes   what becomes of the annotations of the other shape
    class_map      pattern of a second image that holds the class of every pixel
    class_table    pattern of a CSV or JSON file with the class of every id
    class_channel  the channel of the image, from 0, that holds the class of every pixel; ids are in the other one
    components     pixels of a mask with equal values that touch are one nucleus: by sides (4), or also corners (8);
                   the values are the classes (class_values), or do not matter
    segments       pattern of the JSON file that goes with panoptic PNG files; without {case} it is shared
    class_values   the number, or the numbers, that stand for each class in the files, by class name
    class_column   which of the class levels of NuCLS counts
    columns        the columns of a CSV file without a header
    pixel_order    whether run-length codes go along rows or down columns
    first_pixel    the number of the first pixel in run-length codes
    colours        the colour of each class in a colour-coded map, by class name
    border_colour  the colour of the borders drawn between nuclei
    border         what becomes of the pixels of borders
    """

    format: FormatName
    files: str
    case_key: str = "{case}"
    coordinates: Literal["image", "slide"] = "image"
    skip_classes: tuple[str, ...] = ()
    shape: Shape | None = None
    other_shapes: Literal["reject", "skip"] | None = None
    vertices: VerticesRule | None = None
    origin: OriginRule | None = None
    vanished: VanishedRule | None = None
    units: Units | None = None
    class_map: str | None = None
    class_table: str | None = None
    class_channel: Literal[0, 1] | None = None
    components: Literal[4, 8] | None = None
    segments: str | None = None
    class_values: dict[str, ClassNumbers] | None = None
    class_column: Literal["raw_classification", "main_classification", "super_classification"] | None = None
    columns: tuple[Literal["case", "x", "y", "class", "probability", "_"], ...] | None = None
    pixel_order: Literal["row", "column"] | None = None
    first_pixel: Literal[0, 1] | None = None
    colours: dict[str, Colour] | None = None
    border_colour: Colour | None = None
    border: Literal["remove", "remove_and_dilate"] | None = None

    @property
    def is_shared(self) -> bool:
        """Whether one file holds all cases."""
        return "{case}" not in self.files

    @property
    def are_points(self) -> bool:
        return self.shape == "point" or self.format in ("points_json", "points_csv", "midog_json")

    @property
    def are_counts(self) -> bool:
        """Whether nothing is known of the nuclei but how many there are of each class."""
        return self.format == "counts_csv"

    @model_validator(mode="after")
    def check_format(self) -> Self:
        keys = FORMATS[self.format]
        required = keys.required | (OUTLINES if self.shape == "outline" else frozenset())
        allowed = required | keys.optional
        if self.shape == "point":
            allowed -= {"vertices", "vanished"}
        faults = []
        for key in sorted(PARTICULAR):
            given = getattr(self, key) is not None
            if given and key not in allowed:
                shape = " of points" if self.shape == "point" else ""
                faults.append(
                    f"contradictory|{key}|given with the format {self.format!r}{shape}"
                    "|only keys that say something about this format"
                )
            if not given and key in required:
                faults.append(f"missing|{key}|missing|{A_VALUE}")
        if faults:
            raise RuleFault("\n".join(faults))
        if self.columns is not None and sorted(set(self.columns) & {"x", "y"}) != ["x", "y"]:
            raise RuleFault("invalid|columns|no x or no y|both, each once")
        if self.columns is not None and len(set(self.columns) - {"_"}) < len([c for c in self.columns if c != "_"]):
            raise RuleFault("invalid|columns|a column twice|every column once; '_' leaves one out")
        self.check_places(keys)
        self.check_classes()
        return self

    def check_places(self, keys: FormatKeys) -> None:
        """Refuse patterns that do not fit the format."""
        allowed = {"class"} if self.is_shared else {"case", "group", "class"}
        check_pattern(self.files, "files", required=set(), allowed=allowed)
        check_pattern(self.case_key, "case_key", required={"case"}, allowed={"case", "group"})
        for key in ("class_map", "class_table"):
            if (pattern := getattr(self, key)) is not None:
                check_pattern(pattern, key, required={"case"}, allowed={"case", "group"})
        if self.segments is not None:
            check_pattern(self.segments, "segments", required=set(), allowed={"case", "group"})
        if self.is_shared and keys.cases == "one":
            raise RuleFault("invalid|files|a pattern without {case}|{case}, since a file holds one case in this format")
        if not self.is_shared and keys.cases == "shared":
            raise RuleFault(
                "invalid|files|a pattern with {case}|one without, since a file holds all cases in this format"
            )
        if self.are_counts and "{class}" in self.files:
            raise RuleFault("invalid|files|a pattern with {class}|one without, since each class has a column")
        if self.is_shared and "*" in self.files:
            raise RuleFault("invalid|files|a '*' without {case}|the name of the file that holds all cases")

    def check_classes(self) -> None:
        """Refuse several ways, or half a way, to tell the class of a nucleus."""
        ways = [key for key in ("class_map", "class_table", "class_channel") if getattr(self, key) is not None]
        if ways and self.components is not None:
            raise RuleFault(f"contradictory|components|given although {ways[0]} is|masks whose values are the classes")
        if self.components is not None and self.class_values is not None and "{class}" in self.files:
            raise RuleFault("contradictory|class_values|given although files holds {class}|one of both")
        if len(ways) > 1 or (ways and "{class}" in self.files):
            raise RuleFault(
                f"contradictory|{ways[0]}|given although {'files holds {class}' if len(ways) < 2 else ways[1] + ' is'}"
                "|one way to tell the class of a nucleus"
            )
        needs_values = {"class_map", "class_channel"} & set(ways)
        if needs_values and self.class_values is None:
            raise RuleFault(f"contradictory|class_values|missing although {ways[0]} is given|both")
        if self.format in ("label_image", "nary_mat") and self.class_values and not ways and not self.components:
            raise RuleFault("contradictory|class_values|given without class_map, class_table or class_channel|both")
        zero_is_background = bool(needs_values or self.components) or self.format in ("hovernet_mat", "conic_array")
        numbers = [number for of_class in (self.class_values or {}).values() for number in of_class]
        colours = [colour.lower() for colour in (self.colours or {}).values()]
        for key, values in (("class_values", numbers), ("colours", colours)):
            if len(set(values)) < len(values):
                raise RuleFault(f"contradictory|{key}|the same value twice|every value once, for one class")
        if zero_is_background and 0 in numbers:
            raise RuleFault("contradictory|class_values|the value 0, which is the background|values from 1")
        if "#000000" in {*(self.colours or {}).values(), self.border_colour}:
            raise RuleFault("contradictory|colours|black, which is the background|other colours")
        if (self.border_colour or "").lower() in colours:
            raise RuleFault("contradictory|border_colour|the colour of a class|a colour of its own")
