"""Annotations and lists as JSON."""

from __future__ import annotations

from collections.abc import Collection

from evaluation.findings.kind import FoundNotAllowed, Kind
from evaluation.findings.words import listed


class NotJson(Kind):
    """The file is not JSON.

    A file that stops early, or that holds NaN or Infinity, which JSON does not know, cannot be read as a whole; reading
    the part that is fine would lose the rest.

    Write it with a JSON library, as UTF-8, and replace NaN and Infinity by null or leave the key out. In Python,
    json.dump(…, allow_nan=False) tells where they are.

    [not-json] 'nuclei.json': unexpected character, expected a JSON value (line 1, column 42); expected well-formed JSON
    in UTF-8. Write it with a JSON library; NaN and Infinity are not JSON.
    """

    code = "not-json"
    got = "{why}"
    expected = "well-formed JSON in UTF-8"
    fix = "Write it with a JSON library; NaN and Infinity are not JSON."

    why: str


class TooDeep(Kind):
    """Arrays and objects of a JSON file are nested too deep.

    No format needs more than a few levels; bounds keep a hostile file from exhausting the reader.

    Write the plain structure of the format. Organisers can raise limits.json_depth in challenge.toml.

    [too-deep] 'nuclei.json': arrays and objects nested more than 32 deep; expected at most 32 (limits.json_depth in
    challenge.toml). Write the plain structure of the format.
    """

    code = "too-deep"


class NestedTooDeep(TooDeep):
    got = "arrays and objects nested more than {limit} deep"
    expected = "at most {limit} (limits.json_depth in challenge.toml)"
    fix = "Write the plain structure of the format."

    limit: int


class DuplicateKey(Kind):
    """An object of a JSON file has a key twice.

    Readers of JSON keep one of the two and do not tell which, so that two tools can see different nuclei in one file.

    Write every key once. A list of nuclei that comes in parts is one list under one key.

    [duplicate-key] 'nuclei.json': an object with the key 'polygons' twice; expected every key once. Leave one of them
    out, or join what they hold.
    """

    code = "duplicate-key"
    got = "an object with the key {key:quoted} twice"
    expected = "every key once"
    fix = "Leave one of them out, or join what they hold."

    key: str


class InvalidAnnotation(Kind):
    """An annotation in a JSON file does not have the form of its format.

    What it means is not known, and a nucleus would be lost if it were left out.

    Write it as the line says.

    [invalid-annotation] 'nuclei.geojson', feature 1: the coordinates of a 'Polygon' are '[[1, 2], [5, 2], [1, 6]]';
    expected a list of rings, each a list of positions.
    """

    code = "invalid-annotation"


class OtherValue(InvalidAnnotation):
    """A value that its format does not have there, as in the file."""

    got = "{value:quoted}"
    expected = "{wanted}"
    fix = "{advice}"

    value: object
    wanted: str
    advice: str = ""


class OtherGeometryValue(OtherValue):
    got = "{value:quoted} as a geometry"


class OtherValueOf(InvalidAnnotation):
    """The same with what it is the value of, such as "'size' is"."""

    got = "{of} {value:quoted}"
    expected = "{wanted}"

    of: str
    value: object
    wanted: str


class OtherObject(FoundNotAllowed):
    """What is no value of its own."""

    code = InvalidAnnotation.code


class TwoProbabilities(InvalidAnnotation):
    got = "two probabilities of one class, {first:quoted} and {second:quoted}"
    expected = "one number for each class"

    first: str
    second: str


class IdWithOtherName(InvalidAnnotation):
    got = "the id {id:quoted} again, with another name"
    expected = "an id for each"

    id: str


class CaseAgain(InvalidAnnotation):
    got = "{image:quoted} is the case {case:quoted} again"
    expected = "one image for each case"

    image: str
    case: str


class NoOutlineInLine(InvalidAnnotation):
    got = "{words:,} {words:word/words}"
    expected = "a class and the x and y of three vertices or more"
    fix = "Write the outlines of a model for segmentation."

    words: int


class BoxInLine(NoOutlineInLine):
    got = "a box"


class EmptyPolygon(Kind):
    """A polygon has no vertex.

    It lies nowhere. Often the contour of an object that is too small came out empty.

    Leave the polygon out, or write its outline.

    [empty-polygon] 'nuclei.json', polygon 2: no vertex; expected an outline of three vertices or more. Leave it out, or
    write its outline.
    """

    code = "empty-polygon"
    got = "no vertex"
    expected = "an outline of three vertices or more"
    fix = "Leave it out, or write its outline."


class ManyParts(Kind):
    """A MultiPolygon has so many parts that they can hardly be one nucleus.

    Some tools write all nuclei of a class as one feature. Taken as one nucleus they match nothing.

    Write parts = "apart" into the table of the format in challenge.toml, or --set parts=apart behind 'convert': then
    each part is a nucleus. parts = "together" says that they are one.

    [many-parts] 'nuclei.geojson', feature 1: a MultiPolygon of 11 parts, which counts as one nucleus;
    expected a nucleus. If each part is a nucleus, as CellViT writes them, the rule is parts = 'apart'; else 'together'.
    """

    code = "many-parts"
    severity = "warning"
    got = "a MultiPolygon of {parts:,} parts, which counts as one nucleus"
    expected = "a nucleus"
    fix = "If each part is a nucleus, as CellViT writes them, the rule is parts = 'apart'; else 'together'."

    parts: int


class InvalidProbability(Kind):
    """The probability of a nucleus is not a number from 0 to 1.

    Predictions are ranked by it; percentages, logits and distances are other scales.

    Write numbers from 0 to 1, or no probabilities at all.

    [invalid-probability] 'nuclei.json', polygon 2: the probability '1.5'; expected a number from 0 to 1.
    """

    code = "invalid-probability"
    got = "{what} {value:quoted}"
    expected = "a number from 0 to 1"

    value: object
    what: str = "the probability"


class InvalidClassProbability(InvalidProbability):
    got = "the probability {value:quoted} of the class {name:quoted}"

    name: str = ""


class MissingProbability(Kind):
    """Some nuclei have a probability and others have none.

    Nuclei without one cannot be ranked among those that have one; any number in its place would be a guess. So it is
    with the probabilities of the classes: a nucleus has one for each class of the challenge, or none.

    Write a probability for every nucleus of the case, or for none; if you write those of the classes, write all of
    them.

    [missing-probability] 'nuclei.json', polygon 2: no probability, although other nuclei have one; expected a
    probability for every nucleus, or for none.
    """

    code = "missing-probability"
    got = "no probability, although other nuclei have one"
    expected = "a probability for every nucleus, or for none"


class NoScore(MissingProbability):
    got = "no 'score', although others have one"


class NoClassProbabilities(MissingProbability):
    got = "no class probabilities, although other nuclei have them"
    expected = "a probability of each class for every nucleus, or for none"


class RowWithoutClassProbabilities(NoClassProbabilities):
    got = "no probability of each class"


class SomeClassesWithoutProbability(NoClassProbabilities):
    got = "no probability of {classes}"

    names: Collection[str]

    @property
    def classes(self) -> str:
        return listed(self.names, 3, last="and")


class SomeFilesWithoutProbabilities(NoClassProbabilities):
    got = "class probabilities in {having:,} of {files:,} files with nuclei"

    having: int
    files: int


KINDS = (
    NotJson,
    TooDeep,
    DuplicateKey,
    InvalidAnnotation,
    EmptyPolygon,
    ManyParts,
    InvalidProbability,
    MissingProbability,
)
