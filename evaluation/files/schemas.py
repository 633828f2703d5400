"""Schemas of submitted files, as pydantic models: the platform's list of jobs, JSON of each format, rows of CSV.

The model of the list of jobs checks every list that is read. Files of nuclei are read by decoders that are faster than
models of records (by a fifth to a half); a property test contains model and decoder to each other, both ways.
``json_schema`` writes the schemas for participants. The models do not depend on a challenge: readers check class names,
image sizes and run-length codes. Unknown keys are ignored.

A schema has no ``$ref`` and no ``prefixItems``: the platform puts the schema of a socket into a larger schema, where
references break, and supports JSON Schema up to draft 7.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial
from typing import Annotated, Any, Generic, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError, WithJsonSchema, with_config
from typing_extensions import TypedDict, TypeVar

from evaluation.files.decoding.streams import COORDINATE_LIMIT

DRAFT = "http://json-schema.org/draft-07/schema#"
NUMBERS = frozenset({int, float})  # by type: True is no number


@with_config(ConfigDict(strict=True))
class _Record(TypedDict):
    """An object whose values are not converted."""


# --- coordinates ------------------------------------------------------------------------------------------------------


def _check_position(position: list[Any]) -> list[Any]:
    for number in position[:2]:
        if type(number) not in NUMBERS or not abs(number) <= COORDINATE_LIMIT:
            raise ValueError("a position [x, y] or [x, y, z] of numbers")
    return position


def _check_first(rings: list[list[Any]]) -> list[list[Any]]:
    if not rings or not rings[0]:
        raise ValueError("a list of rings, the first with a vertex")
    return rings


_NUMBER = {"type": "number", "minimum": -COORDINATE_LIMIT, "maximum": COORDINATE_LIMIT}
_POSITION = {"type": "array", "items": [_NUMBER, _NUMBER], "minItems": 2}
_VERTICES = {"type": "array", "items": _POSITION}
_RINGS = {"type": "array", "items": [{**_VERTICES, "minItems": 1}], "additionalItems": _VERTICES, "minItems": 1}

Position = Annotated[list[Any], Field(min_length=2), AfterValidator(_check_position), WithJsonSchema(_POSITION)]
Vertices = Annotated[list[Position], Field(min_length=1), WithJsonSchema({**_VERTICES, "minItems": 1})]
Rings = Annotated[list[list[Position]], AfterValidator(_check_first), WithJsonSchema(_RINGS)]
Parts = Annotated[list[Rings], Field(min_length=1)]

Probability = Annotated[float, Field(ge=0, le=1)]
Number = Annotated[float, Field(ge=-COORDINATE_LIMIT, le=COORDINATE_LIMIT)]


def _all_or_none(records: Any, key: str) -> Any:
    """Refuse records, a list or the values of an object, if only some have a probability."""
    each = list(records.values()) if isinstance(records, dict) else records
    if 0 < sum(record.get(key) is None for record in each) < len(each):
        raise ValueError(f"{key} for every nucleus, or for no nucleus")
    return records


# --- the platform's list of jobs --------------------------------------------------------------------------------------


class _Socket(_Record):
    """The description of an input or an output of a job."""

    slug: str
    relative_path: NotRequired[str | None]
    kind: NotRequired[str | None]
    super_kind: NotRequired[str | None]


class _ImageOfValue(_Record):
    """The image of an input; ``name`` is the name of the uploaded file, with its suffix."""

    name: str


class _Value(_Record):
    """An input or an output of a job; the platform calls its description ``socket`` or ``interface``."""

    socket: NotRequired[_Socket | None]
    interface: NotRequired[_Socket | None]
    image: NotRequired[_ImageOfValue | None]
    file: NotRequired[str | None]


class _Job(_Record):
    """A run of the algorithm on one item of the archive; ``pk`` is the name of the folder with its outputs."""

    pk: str
    inputs: list[_Value]
    outputs: list[_Value]
    status: NotRequired[str]


Jobs = Annotated[list[_Job], Field(min_length=1)]


# --- the platform's JSON of nuclei ------------------------------------------------------------------------------------


class _PlatformPolygon(_Record):
    """A nucleus of "Multiple polygons"; ``name`` is its class."""

    path_points: Vertices
    name: NotRequired[str | None]
    probability: NotRequired[Probability | None]


class _PlatformPoint(_Record):
    """A nucleus of "Multiple points"; ``name`` is its class."""

    point: Position
    name: NotRequired[str | None]
    probability: NotRequired[Probability | None]


Evenly = AfterValidator(partial(_all_or_none, key="probability"))


class _MultiplePolygons(_Record):
    """The platform's kind "Multiple polygons"."""

    polygons: Annotated[list[_PlatformPolygon], Evenly]
    type: NotRequired[Literal["Multiple polygons"]]


class _SinglePolygon(_PlatformPolygon):
    """The platform's kind "Polygon"."""

    type: Literal["Polygon"]


class _MultiplePoints(_Record):
    """The platform's kind "Multiple points"."""

    points: Annotated[list[_PlatformPoint], Evenly]
    type: NotRequired[Literal["Multiple points"]]


class _SinglePoint(_PlatformPoint):
    """The platform's kind "Point"."""

    type: Literal["Point"]


# --- GeoJSON ----------------------------------------------------------------------------------------------------------


class _Polygon(_Record):
    """An outline: a ring, and rings of holes."""

    type: Literal["Polygon"]
    coordinates: Rings


class _MultiPolygon(_Record):
    """An outline of several parts."""

    type: Literal["MultiPolygon"]
    coordinates: Parts


class _OutlineCollection(_Record):
    """Outlines that are one nucleus together."""

    type: Literal["GeometryCollection"]
    geometries: Annotated[list[_Polygon | _MultiPolygon], Field(min_length=1)]


class _Point(_Record):
    """The place of a nucleus."""

    type: Literal["Point"]
    coordinates: Position


class _MultiPoint(_Record):
    """The places of several nuclei."""

    type: Literal["MultiPoint"]
    coordinates: Annotated[list[Position], Field(min_length=1)]


Outline = _Polygon | _MultiPolygon | _OutlineCollection
Place = _Point | _MultiPoint
G = TypeVar("G", default=Outline)


def _check_no_object(value: Any) -> Any:
    if isinstance(value, dict):
        raise ValueError("an object with values of the expected types")
    return value


# Empty properties, which some tools write as null or [].
NoObject = Annotated[Any, AfterValidator(_check_no_object), WithJsonSchema({"not": {"type": "object"}})]


class _Classification(_Record):
    """The class of a feature as QuPath writes it."""

    name: NotRequired[str | None]


class _Properties(_Record):
    """The properties of a feature that count."""

    classification: NotRequired[_Classification | str | None]
    probability: NotRequired[Probability | None]


class _Feature(_Record, Generic[G]):
    """A nucleus; without a geometry it is omitted."""

    type: Literal["Feature"]
    geometry: NotRequired[G | None]
    properties: NotRequired[_Properties | NoObject]


def _features_evenly(features: list[Any]) -> list[Any]:
    nuclei = [feature.get("properties") for feature in features if feature.get("geometry") is not None]
    _all_or_none([each if isinstance(each, dict) else {} for each in nuclei], "probability")
    return features


class _FeatureCollection(_Record, Generic[G]):
    """GeoJSON of an image."""

    features: Annotated[list[_Feature[G]], AfterValidator(_features_evenly)]
    type: NotRequired[Any]  # "FeatureCollection"


# --- COCO -------------------------------------------------------------------------------------------------------------


Id = int | str


def _check_polygons(polygons: list[list[Any]]) -> list[list[Any]]:
    if len(polygons) > 2 and all(len(polygon) == 2 for polygon in polygons):
        raise ValueError("lists of numbers, not of pairs")
    if any(len(polygon) % 2 for polygon in polygons):
        raise ValueError("an even number of numbers")
    return polygons


_FLAT = {"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 2, "items": _NUMBER}}
FlatPolygons = Annotated[
    list[Annotated[list[Number], Field(min_length=2)]],
    Field(min_length=1),
    AfterValidator(_check_polygons),
    WithJsonSchema(_FLAT),
]


class _RunLengths(_Record):
    """A run-length code, column by column; as text compressed as by pycocotools."""

    size: Annotated[list[int], Field(min_length=2, max_length=2)]
    counts: list[Annotated[int, Field(ge=0)]] | str


class _CocoResult(_Record):
    """A nucleus among COCO's results."""

    image_id: NotRequired[Id | None]  # of a file of one image it may be left out
    segmentation: FlatPolygons | _RunLengths
    category_id: NotRequired[Id | None]
    score: NotRequired[Probability | None]


CocoResults = Annotated[list[_CocoResult], AfterValidator(partial(_all_or_none, key="score"))]


class _CocoImage(_Record):
    """An image of a COCO data set; a case by its ``file_name``."""

    id: Id
    file_name: NotRequired[Id | None]


class _CocoCategory(_Record):
    """A class of a COCO data set."""

    id: Id
    name: NotRequired[Id | None]


class _CocoDataset(_Record):
    """A COCO data set with its images and classes."""

    images: list[_CocoImage]
    annotations: CocoResults
    categories: NotRequired[list[_CocoCategory] | None]


# --- HoVer-Net, CellViT, labelme --------------------------------------------------------------------------------------


class _Cell(_Record):
    """A nucleus of HoVer-Net or CellViT; ``type`` is its class."""

    contour: Vertices
    type: NotRequired[int | str | None]
    type_prob: NotRequired[Probability | None]


Cells = Annotated[list[_Cell] | dict[str, _Cell], AfterValidator(partial(_all_or_none, key="type_prob"))]


class _HoverNet(_Record):
    """JSON of HoVer-Net: nuclei by their ids."""

    nuc: Cells


class _CellVit(_Record):
    """JSON of CellViT; ``type_map`` names the numbers of classes."""

    cells: Cells


class _LabelmeShape(_Record):
    """A shape of labelme; ``label`` is its class, shapes with one label and ``group_id`` are one nucleus."""

    points: Vertices
    label: NotRequired[str | None]
    shape_type: NotRequired[Literal["polygon", "rectangle"] | None]


class _Labelme(_Record):
    """JSON of labelme."""

    shapes: list[_LabelmeShape]


# --- MIDOG ------------------------------------------------------------------------------------------------------------


def _check_box(box: list[float]) -> list[float]:
    if not (box[0] <= box[2] and box[1] <= box[3]):
        raise ValueError("numbers [x1, y1, x2, y2], two corners of the box, the upper left one first")
    return box


class _MidogNucleus(_Record):
    """A nucleus of MIDOG: ``bbox`` is [x1, y1, x2, y2]."""

    image_id: NotRequired[Id | None]
    bbox: Annotated[list[Number], Field(min_length=4, max_length=4), AfterValidator(_check_box)]
    category_id: NotRequired[Id | None]
    score: NotRequired[Probability | None]


class _Midog(_Record):
    """JSON of MIDOG; in a file of one image the list of images may be omitted."""

    images: NotRequired[list[_CocoImage]]
    annotations: Annotated[list[_MidogNucleus], AfterValidator(partial(_all_or_none, key="score"))]
    categories: NotRequired[list[_CocoCategory] | None]


# --- tables: a list of rows, each by the names of its columns; numbers are numbers, and empty cells have no key -------


Label = float | str  # a class, or the name of an image


class _PointRow(_Record):
    """A row of a table of points; without x and y it is no nucleus. Other names of columns: docs/formats.md."""

    x: NotRequired[Number]
    y: NotRequired[Number]
    case: NotRequired[Label]
    probability: NotRequired[Any]


def _check_points(rows: list[Any]) -> list[Any]:
    nuclei = [row for row in rows if "x" in row or "y" in row]
    if any("x" not in row or "y" not in row for row in nuclei):
        raise ValueError("numbers in both x and y, or two empty cells")
    return _check_probabilities(rows, nuclei)


def _check_probabilities(rows: list[Any], nuclei: list[Any]) -> list[Any]:
    _all_or_none(nuclei, "probability")
    for row in nuclei:
        number = row.get("probability", 0)
        if isinstance(number, str) or not 0 <= number <= 1:
            raise ValueError("probability is a number from 0 to 1")
    return rows


def _numbers_in(cell: float | str | None) -> list[float]:
    """Return the numbers of a cell such as "1,2.5,3"."""
    if not isinstance(cell, str):
        return [] if cell is None else [cell]
    numbers = [float(text if PLAIN_NUMBER.fullmatch(text.strip()) else "nan") for text in cell.split(",")]
    if not all(abs(number) <= COORDINATE_LIMIT for number in numbers):
        raise ValueError("numbers with commas between them")
    return numbers


PLAIN_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOX = ("xmin", "ymin", "xmax", "ymax")
_LIST = {"type": ["number", "string"], "pattern": "^[-+0-9.eE, ]*$"}
Coordinates = Annotated[Number | str, WithJsonSchema(_LIST)]


def _check_nucls(row: dict[str, Any]) -> dict[str, Any]:
    x, y = (_numbers_in(row.get(key)) for key in ("coords_x", "coords_y"))
    is_box = row["type"].casefold() == "rectangle" and not x and not y
    if len(x) != len(y) or not (x or is_box):
        raise ValueError("as many x as y, and vertices of a polyline")
    corners = [row.get(key) for key in _BOX] if is_box else []
    if not all(isinstance(n, float | int) and abs(n) <= COORDINATE_LIMIT for n in corners):
        raise ValueError("xmin, ymin, xmax, ymax of a rectangle")
    return row


class _NuclsRow(_Record):
    """A row of NuCLS: vertices of a polyline, or the box of a rectangle."""

    type: Annotated[str, Field(pattern="^([Rr][Ee][Cc][Tt][Aa][Nn][Gg][Ll][Ee]|[Pp][Oo][Ll][Yy][Ll][Ii][Nn][Ee])$")]
    coords_x: NotRequired[Coordinates]
    coords_y: NotRequired[Coordinates]
    xmin: NotRequired[Any]
    ymin: NotRequired[Any]
    xmax: NotRequired[Any]
    ymax: NotRequired[Any]
    raw_classification: NotRequired[Label]
    main_classification: NotRequired[Label]
    super_classification: NotRequired[Label]
    probability: NotRequired[Probability]


class _RleRow(_Record):
    """A row of run-length codes: "start length start length …"; a row without a code is not a nucleus."""

    image_id: Label
    rle: NotRequired[Annotated[str, Field(pattern=r"^\s*([+]?[0-9]{1,18}\s+[+]?0*[1-9][0-9]{0,17}(\s+|$))*$")]]
    probability: NotRequired[Any]


def _check_codes(rows: list[Any]) -> list[Any]:
    return _check_probabilities(rows, [row for row in rows if "rle" in row])


_COUNT = {"type": "number", "minimum": 0, "maximum": 10**9, "multipleOf": 1}


def _check_counts(row: dict[str, Any]) -> dict[str, Any]:
    counts = [value for key, value in row.items() if key != "case"]
    if type(row.get("case")) not in (int, float, str) or not all(type(count) in NUMBERS for count in counts):
        raise ValueError("the name of a case, and numbers")
    if not all(0 <= count <= 10**9 and count % 1 == 0 for count in counts):
        raise ValueError("whole numbers from 0 to 1,000,000,000")
    return row


# A case, and the number of nuclei of each class. Which columns are classes the model does not know: leave others out.
_COUNT_ROW = {
    "type": "object",
    "properties": {"case": {"type": ["number", "string"]}},
    "required": ["case"],
    "additionalProperties": _COUNT,
}
CountRow = Annotated[dict[str, Any], AfterValidator(_check_counts), WithJsonSchema(_COUNT_ROW)]


Rows = Annotated[list[_PointRow], AfterValidator(_check_points)]
RleRows = Annotated[list[_RleRow], AfterValidator(_check_codes)]
NuclsRows = Annotated[
    list[Annotated[_NuclsRow, AfterValidator(_check_nucls)]], AfterValidator(partial(_all_or_none, key="probability"))
]


# --- all of them ------------------------------------------------------------------------------------------------------


MODELS: Mapping[str, Any] = {
    "predictions.json": Jobs,
    "polygons_json": _MultiplePolygons | _SinglePolygon,
    "points_json": _MultiplePoints | _SinglePoint,
    "geojson": _FeatureCollection[Outline] | list[_Feature[Outline]] | _Feature[Outline],
    "geojson_points": _FeatureCollection[Place] | list[_Feature[Place]] | _Feature[Place],
    "coco_json": CocoResults | _CocoDataset,
    "hovernet_json": _HoverNet,
    "cellvit_json": _CellVit,
    "labelme_json": _Labelme,
    "midog_json": _Midog,
    "points_csv": Rows,
    "nucls_csv": NuclsRows,
    "rle_csv": RleRows,
    "counts_csv": list[CountRow],
}


@cache
def model_of(name: str) -> TypeAdapter[Any]:
    """Return the model of a submitted file."""
    return TypeAdapter(MODELS[name])


def places_at_fault(name: str, document: Any) -> list[tuple[int | str, ...]]:
    """List the invalid places of a document; empty if it is valid."""
    try:
        model_of(name).validate_python(document)
    except ValidationError as error:
        return [problem["loc"] for problem in error.errors(include_url=False, include_input=False)]
    return []


def name_of_schema(format: str, *, are_points: bool, tool: str | None = None) -> str | None:
    """Return the name of the schema of a format; None if its files are no JSON and no CSV.

    >>> name_of_schema("geojson", are_points=True), name_of_schema("label_image", are_points=False)
    ('geojson_points', None)
    """
    name = f"{tool}_json" if format == "contours_json" else format
    name = "geojson_points" if are_points and format == "geojson" else name
    return name if name in MODELS and not (are_points and format == "contours_json") else None


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 7) of a submitted file, without references."""
    schema = model_of(name).json_schema()
    plain: dict[str, Any] = _without_references(schema, schema.get("$defs", {}))
    if name.endswith("_csv"):
        empty = "" if name == "counts_csv" else "; empty cells are omitted"
        plain = {"description": f"Rows of the table, by the names of its columns{empty}.", **plain}
    return {"$schema": DRAFT, "title": name, **plain}


def _without_references(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_without_references(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _without_references(definitions[node["$ref"].rpartition("/")[2]], definitions)
    # The titles that pydantic makes of the names of keys say nothing.
    kept = {key: value for key, value in node.items() if key not in ("$defs", "discriminator")}
    if isinstance(kept.get("title"), str):
        del kept["title"]
    return {key: _without_references(value, definitions) for key, value in kept.items()}
