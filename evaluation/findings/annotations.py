"""Outlines and points, above all as XML."""

from __future__ import annotations

from collections.abc import Collection

from evaluation.findings.kind import FoundNotAllowed, Kind, NotAmong


class NotXml(Kind):
    """The file is not well-formed XML.

    A file that stops early or has a broken tag would give some of its outlines and lose the rest.

    Export the file again, or copy it again if it was cut off on the way.

    [not-xml] 'P1_1.xml': no element found (line 812, column 0); expected well-formed Aperio XML. Export or copy the
    file again.
    """

    code = "not-xml"
    got = "{why}"
    expected = "well-formed {software} XML"
    fix = "Export or copy the file again."

    why: str
    software: str


class OtherRoot(Kind):
    got = "the root element is {name:quoted}"
    expected = "an {software} XML file (root {root:quoted})"

    name: str
    software: str
    root: str


class NotAperioXml(OtherRoot):
    """The XML file is not one of Aperio ImageScope.

    Outlines are read from Annotations/Annotation/Regions/Region/Vertices/Vertex; other XML has none there.

    Export the annotations as ImageScope XML. Organisers: name the right format in challenge.toml.

    [not-aperio-xml] 'P1_1.xml': the root element is 'ASAP_Annotations'; expected an Aperio XML file (root
    'Annotations').
    """

    code = "not-aperio-xml"


class NotAsapXml(OtherRoot):
    """The XML file is not one of ASAP.

    Annotations are read from ASAP_Annotations/Annotations/Annotation/Coordinates/Coordinate; other XML has none there.

    Save the annotations in ASAP. Organisers: name the right format in challenge.toml.

    [not-asap-xml] 'P1_1.xml': the root element is 'Annotations'; expected an ASAP XML file (root 'ASAP_Annotations').
    """

    code = "not-asap-xml"


class ForbiddenXml(Kind):
    """The XML file declares a document type or entities.

    Declarations can make a small file expand without end or fetch other files. ImageScope and ASAP write none.

    Remove the '<!DOCTYPE …>' part of the file.

    [forbidden-xml] 'P1_1.xml': a document type or entity declaration; expected XML without declarations. Remove the
    '<!DOCTYPE …>' part.
    """

    code = "forbidden-xml"
    got = "a document type or entity declaration"
    expected = "XML without declarations"
    fix = "Remove the '<!DOCTYPE …>' part."


class UnreadableFile(Kind):
    """The file cannot be read to its end.

    A compressed or binary file that is cut off or damaged has lost what comes after.

    Write, compress or copy the file again.

    [unreadable-file] 'P1_1.xml.gz': the compressed data stop before their end; expected a complete gzip file. Compress
    or copy the file again.
    """

    code = "unreadable-file"
    got = "{why}"
    expected = "a file that can be read"

    why: str


class DamagedInSubmission(UnreadableFile):
    expected = "a file that can be read to its end"
    fix = "Write or pack it again."


class CutOff(Kind):
    code = UnreadableFile.code
    got = "the data stop before their end, or are damaged"
    expected = "a complete file"
    fix = "Write or copy the file again."


class BrokenGzip(CutOff):
    got = "{why}"
    expected = "a complete gzip file"
    fix = "Compress or copy the file again."

    why: str


class Changing(CutOff):
    got = "a file that changes while it is read"
    fix = ""


class BrokeOff(CutOff):
    got = "the library that decodes it ended with {how}"

    how: str


class TooLarge(Kind):
    """The input is larger than the challenge allows.

    Bounds on what is read keep a broken or hostile file from taking all memory.

    Make the file smaller: leave out what is not needed, or write fewer vertices or a smaller type. The line names the
    limit; only organisers can raise it, in the table 'limits' of challenge.toml.

    [too-large] case 'P1_1', 'P1_1.xml': more than 1,000 vertices; expected at most 1,000. Make the file smaller;
    organisers can raise limits.vertices_per_file in challenge.toml.
    """

    code = "too-large"


class TooManyBytes(TooLarge):
    got = "{size:,} bytes"
    expected = "at most {limit:,} bytes in a file (limits.bytes_per_file in challenge.toml)"

    size: int
    limit: int


class TooMany(TooLarge):
    got = "more than {limit:,} {what}"
    expected = "at most {limit:,}"
    fix = "Make the file smaller; organisers can raise limits.{key} in challenge.toml."

    what: str
    limit: int
    key: str


class LargerThanAllowed(FoundNotAllowed):
    code = TooLarge.code
    fix = "Make the file smaller; organisers can raise limits.bytes_per_file in challenge.toml."


class TooManyRows(TooLarge):
    got = "more than {limit:,} rows"
    expected = "at most {limit:,}"
    fix = "Remove rows, or raise limits.instances_per_case in challenge.toml."

    limit: int


class TooLongPart(TooLarge):
    got = "{size:,} bytes that are no list of annotations, or are a single one"
    expected = "at most {limit:,} bytes"
    fix = "Write each nucleus as an annotation of its own, in one list, and nothing else that is long."

    size: int
    limit: int


class TooMuchToDecode(TooLarge):
    got = "more than {what} to be decoded"
    expected = "a file that is read with less"
    fix = "Leave out what is not needed, or write it in a format that is read piece by piece."

    what: str


class MoreThanBytes(TooLarge):
    got = "{found}"
    expected = "at most {limit:,} bytes"
    fix = (
        "Leave out what is not needed, store integers in a smaller type, or raise limits.bytes_per_file in "
        "challenge.toml."
    )

    found: str
    limit: int


class MoreThanMemory(TooLarge):
    got = "more than the memory holds"
    expected = "a smaller file"
    fix = "{advice}"

    advice: str


class TooManyBytesInAll(TooLarge):
    got = "{size:,} bytes in all files, unpacked"
    expected = "at most {limit:,} (limits.bytes_per_submission in challenge.toml)"
    fix = "Leave out everything but the predictions."

    size: int
    limit: int


class TooManyNuclei(TooLarge):
    got = "{nuclei:,} nuclei"
    expected = "at most {limit:,}"
    fix = "Check that labels are not probabilities; the limit is limits.instances_per_case in challenge.toml."

    nuclei: int
    limit: int


class TooManyNucleiInRows(TooManyNuclei):
    fix = "Remove some, or raise limits.instances_per_case in challenge.toml."


class TooManyProbabilities(TooLarge):
    got = "probabilities of {classes:,} classes for {nuclei:,} nuclei or more"
    expected = "at most {limit:,} such numbers in a file"
    fix = "Leave the class probabilities out, or write one file for each case."

    classes: int
    nuclei: int
    limit: int


class TooManyScores(TooLarge):
    got = "{teams:,} teams in {cases:,} cases"
    expected = "at most {limit:,} values"

    teams: int
    cases: int
    limit: int


class TooLargeForMemory(TooLarge):
    got = "an image of {height:,} x {width:,} px, which the memory does not hold"
    expected = "an image that fits into memory"
    fix = "Write outlines or points, such as geojson."

    height: int
    width: int


class LabelMapTooLarge(TooLargeForMemory):
    got = "a label map of {height:,} x {width:,} px, which the memory does not hold"
    expected = "images that fit into memory"
    fix = "Run it on a machine with more memory, or cut the image into tiles."


class TooLargeForMatlab(TooLarge):
    got = "a label image of {size:,} bytes"
    expected = "at most {limit:,} in a MATLAB 5 file"
    fix = "Write a TIFF."

    size: int
    limit: int


class UnknownClass(NotAmong):
    """A class name is not one of the challenge.

    Classes are matched by name, so that their order can never swap them; a name that is not known has no class id.
    Upper and lower case are the same.

    Correct the name: the line lists those that the challenge knows. Organisers can add it in challenge.toml: as an
    alias ("" for annotations without a name), as an ignore class, or among skip_classes.

    [unknown-class] 'P1_1.xml', region '2/1', region '2/2', region '2/3' and 15 more: 'Lymphocytes' is not a class of
    this challenge; expected 'epithelial' or 'lymphocyte'. Did you mean 'lymphocyte'?
    """

    code = "unknown-class"
    got = "{name:quoted} is not a class of this challenge"


class UnknownClassOrNumber(UnknownClass):
    expected = "{known:listed}, or one of the numbers {numbers}"

    numbers: str


class NoClassName(UnknownClass):
    got = "{found}"

    found: str


class UnknownClassNumbers(Kind):
    code = UnknownClass.code
    got = "{unknown:listed} among the class numbers"
    expected = "0 or one of {known:listed}"

    unknown: Collection[int]
    known: Collection[int]


class MoreUnknownClasses(UnknownClass):
    """Without a suggestion, since to look for a close name takes time."""

    fix = ""


class IgnoreClassInName(UnknownClass):
    got = "{name:quoted} marks regions that are not scored"
    fix = "Leave this file out."


class InvalidCoordinate(Kind):
    """A vertex or point has no usable coordinate.

    Without it the place of the nucleus, and so its pixels, are not known.

    Write plain finite decimal numbers, with a point as decimal mark.

    [invalid-coordinate] 'P1_1.xml', region '1/3', vertex 12: Y is 'NaN'; expected numbers between -1e9 and 1e9 as X and
    Y of every vertex.
    """

    code = "invalid-coordinate"


class InvalidXmlCoordinate(InvalidCoordinate):
    got = "{found}"
    expected = "numbers between -1e9 and 1e9 as X and Y of every {word}"

    found: str
    word: str


class NoPosition(InvalidCoordinate):
    got = "the position {position:quoted}"
    expected = "numbers between -1e9 and 1e9 px as x and y of every vertex"

    position: str


class NoCoordinate(InvalidCoordinate):
    got = "{column} is {text:quoted}"
    expected = "plain numbers between -1e9 and 1e9 px, with a point as decimal mark"

    column: str
    text: str


class MoreXThanY(InvalidCoordinate):
    """Or the other way round."""

    got = "{x:,} numbers in coords_x and {y:,} in coords_y"
    expected = "an x and a y for every vertex"

    x: int
    y: int


class DotWithout(InvalidCoordinate):
    """A Dot of ASAP without a coordinate, or with several."""

    got = "a Dot with {number} coordinates"
    expected = "one coordinate for a Dot"
    fix = "Draw several points as a PointSet."

    number: object


class NoCoordinateInTurn(InvalidCoordinate):
    got = "the number {value:quoted}"
    expected = "numbers between -1e9 and 1e9, x and y of each vertex in turn"

    value: object


class OddPolygon(NoCoordinateInTurn):
    got = "a polygon of {value:,} numbers"


class NoBox(InvalidCoordinate):
    got = "'bbox' is {box:quoted}"
    expected = "{wanted}: x1 <= x2, y1 <= y2, between -1e9 and 1e9"

    box: object
    wanted: str


class NoShare(InvalidCoordinate):
    got = "the coordinate {text:quoted}"
    expected = "a share of the width or height of the image, from 0 to 1"
    fix = "Divide x by the width of the image in px, and y by its height."

    text: str


class UnsupportedShape(Kind):
    """An annotation does not have the shape of a nucleus of this challenge.

    The vertices of an ellipse are the corners of its box, a spline is a curve through them, those of an arrow or a
    ruler enclose nothing: taken as outlines they would cover other pixels than their author meant. A point has no
    pixels, and an outline is no point.

    Draw the nucleus in the shape that the line names, or remove it. Organisers can leave out what is no nucleus by
    skip_classes or other_shapes in challenge.toml.

    [unsupported-shape] 'P1_1.xml', region '1/3': Type '2' (ellipse); expected Type '0' (freehand) or '1' (rectangle of
    four vertices), whose vertices are corners of the outline. Draw the region as an outline, or remove it.
    """

    code = "unsupported-shape"


class OtherRegion(UnsupportedShape):
    """A region of Aperio whose vertices are no corners."""

    got = "Type {type:quoted}{shape}"
    expected = "Type '0' (freehand) or '1' (rectangle of four vertices), whose vertices are corners of the outline"
    fix = "Draw the region as an outline, or remove it."

    type: str
    shape: str


class OtherAsapType(UnsupportedShape):
    got = "Type {type:quoted}{corners}"
    expected = "Type {types:listed}{wanted_corners}, since nuclei are {shape}s in this challenge"
    fix = "Draw it anew, or remove it."

    type: str
    corners: str
    types: Collection[str]
    shape: str

    @property
    def wanted_corners(self) -> str:
        return " of four coordinates" if self.shape == "outline" else ""


class OtherAsapShape(OtherAsapType):
    fix = "Remove it; or name its group in skip_classes, or set other_shapes to 'skip', in challenge.toml."


class OtherNuclsType(UnsupportedShape):
    got = "the type {type:quoted}"
    expected = "'rectangle' or 'polyline'"
    fix = "Write nuclei as outlines ('polyline') or as boxes ('rectangle')."

    type: str


class OtherGeometry(UnsupportedShape):
    got = "a {what} of the type {type:quoted}"
    expected = "{wanted:listed}"
    fix = "{advice}"

    what: str
    type: str
    wanted: Collection[str]
    advice: str


class NoSegmentation(UnsupportedShape):
    got = "no segmentation"
    expected = "{wanted}"
    fix = "Write the outline or the pixels of the nucleus, or remove it."

    wanted: str


class NotOneRing(UnsupportedShape):
    """An outline that the platform's JSON cannot hold."""

    got = "an outline {what}"
    expected = "outlines without holes, of one part, in a 'Multiple polygons' file"
    fix = "Split it, fill its holes, or write another format, such as GeoJSON."

    what: str


class PointsInLabelImage(UnsupportedShape):
    got = "nuclei that are points"
    expected = "nuclei with pixels, in a label image"
    fix = "Write a format that holds points."


class PointsBesideOutlines(UnsupportedShape):
    got = "points beside outlines"
    expected = "points alone, or outlines alone"


class PointsWithoutOutlines(UnsupportedShape):
    got = "points"
    expected = "nuclei with outlines"
    fix = "Points can be written as the platform's JSON."


class OnlyNumbers(UnsupportedShape):
    got = "numbers of nuclei"
    expected = "outlines, points or pixels"


class AllLeftOut(UnsupportedShape):
    got = "no nucleus; {count:,} {count:annotation is/annotations are} left out"
    expected = "one nucleus at least"

    count: int


class LeftOut(Kind):
    """Annotations are left out.

    What the line names is no nucleus of this challenge: for example a region of interest among points, where
    other_shapes = 'skip' leaves annotations of the other shape out, a crowd of nuclei, or one of another image.

    Check that no nucleus is among them. With other_shapes = 'reject' other shapes are a fault.

    [left-out] case 'P1_1', 'P1_1.xml', annotation '1', annotation '3': Type 'Polygon'; expected nuclei that are points.
    Annotations of another shape are left out, as other_shapes = 'skip' in challenge.toml says.
    """

    code = "left-out"
    severity = "warning"


class GeometryLeftOut(LeftOut):
    got = "a {what} of the type {type:quoted}"
    expected = "{wanted:listed}"
    fix = "It is left out."

    what: str
    type: str
    wanted: Collection[str]


class NoGeometry(LeftOut):
    got = "no geometry"
    expected = "features with a geometry"
    fix = GeometryLeftOut.fix


class AsapShapeLeftOut(LeftOut):
    got = "Type {type:quoted}"
    expected = "nuclei that are {shape}s"
    fix = "Annotations of another shape are left out, as other_shapes = 'skip' in challenge.toml says."

    type: str
    shape: str


class Crowd(LeftOut):
    got = "a crowd ('iscrowd' is 1)"
    expected = "single nuclei, or crowds of an ignore class"


class OtherImages(LeftOut):
    got = "{count:,} annotations of other images"
    expected = "the image of case {case:quoted} alone"

    count: int
    case: str


class CodeLeftOut(LeftOut):
    got = "a code without a pixel"
    expected = "codes of at least one pixel"


class LostPixels(LeftOut):
    got = "{lost:,} of {nuclei:,} nuclei, all of whose pixels go to others"
    expected = "nuclei that keep a pixel by --overlap {rule}"
    fix = "Formats with outlines, such as geojson, keep nuclei that overlap."

    lost: int
    nuclei: int
    rule: str


class LostNumbers(LeftOut):
    got = "{what} of {nuclei}"
    expected = "what has a place in {target}"
    fix = "GeoJSON keeps them."

    what: str
    nuclei: str
    target: str


class UnnamedProbabilities(LeftOut):
    got = "class probabilities, but no names of classes"
    expected = "the classes that they are of"
    fix = "They are left out; name the classes in order with --classes."


class HoleWithoutOutline(Kind):
    """A hole lies in no outline.

    A region with NegativeROA is taken away from the smallest outline of its layer around it; here is none.

    Check whether the outline is missing or drawn in another layer. The hole is left out.

    [hole-without-outline] case 'P1_1', 'P1_1.xml', region '1/9': a hole (NegativeROA) in no outline of its layer;
    expected holes inside an outline. The hole is left out; check where it lies.
    """

    code = "hole-without-outline"
    severity = "warning"
    got = "a hole (NegativeROA) in no outline of its layer"
    expected = "holes inside an outline"
    fix = "The hole is left out; check where it lies."


class VanishedOutline(Kind):
    """An outline covers no pixel.

    An outline covers the pixels whose centres lie in it; very small or thin ones, and those beside the image, cover
    none. The challenge asks to refuse them (vanished = 'error').

    Remove the outline. Organisers can set 'vanished' to 'drop' or 'pixel' in challenge.toml.

    [vanished-outline] case 'P1_1', outline '1/3': no pixel centre inside; expected outlines that cover a pixel of the
    image. Remove it; organisers can set 'vanished' to 'drop' or 'pixel' in challenge.toml.
    """

    code = "vanished-outline"
    got = "no pixel centre inside"
    expected = "outlines that cover a pixel of the image"
    fix = "Remove it; organisers can set 'vanished' to 'drop' or 'pixel' in challenge.toml."


class VanishedCode(CodeLeftOut):
    code = VanishedOutline.code
    fix = "Remove it."


class TooManyOverlaps(Kind):
    """Too many nuclei lie on each other.

    Every nucleus of the reference is compared with every predicted one that it shares pixels with. Where nuclei of one
    side do not overlap there are few such pairs; where thousands lie on one pixel there are millions. They are counted
    before they are compared, so the same files are refused on every machine.

    Leave out nuclei that were found several times. Organisers can raise 'overlaps_per_case' in the table 'limits' of
    challenge.toml.

    [too-many-overlaps] case 'P1_1': 40 nuclei, up to 40 of them on one pixel; expected fewer that lie on each other.
    Leave out nuclei that were found several times.
    """

    code = "too-many-overlaps"
    got = "{nuclei:,} nuclei, up to {deepest:,} of them on one pixel"
    expected = "fewer that lie on each other"
    fix = "Leave out nuclei that were found several times."

    nuclei: int
    deepest: int


class TooManyReferenceOverlaps(Kind):
    """For organisers: no prediction can be matched with such a reference."""

    code = TooManyOverlaps.code
    got = "{pairs:,} {what}"
    expected = "at most {limit:,}"
    fix = "Remove nuclei of the reference that lie on each other, or raise 'overlaps_per_case' under [limits]."

    pairs: int
    what: str
    limit: int


class CaseTooCostly(Kind):
    """A case takes far more comparisons than a slide of a million nuclei.

    Some matching rules and metrics compare all nuclei that are near each other, or look for the nearest one. The pairs
    are counted before they are compared, so the same files are refused on every machine.

    Leave out what is no nucleus, and what was found several times; check the coordinates. Organisers can choose a
    smaller radius, or cut the images into smaller ones.

    [case-too-costly] case 'P1_1', matching rule 'after': 4 nuclei, which make too many pairs with those of the
    reference; expected fewer, or nuclei that lie where those of the image are. Leave out what is no nucleus, such as
    single pixels, and what was found several times.
    """

    code = "case-too-costly"
    got = "{predictions:,} nuclei, which make too many pairs with those of the reference"
    expected = "fewer, or nuclei that lie where those of the image are"
    fix = "Leave out what is no nucleus, such as single pixels, and what was found several times."

    predictions: int


class TooManyDistant(CaseTooCostly):
    got = "{predictions:,} nuclei, too many of them far from all nuclei of the image"
    fix = "Check the coordinates; leave out what is no nucleus, and what was found several times."


class TooManyPossiblePairs(Kind):
    """For organisers: the reference alone has too many."""

    code = CaseTooCostly.code
    got = "{pairs:,} {what}"
    expected = "at most {limit:,}"
    fix = 'Choose a smaller radius or cutoff = "before", or cut the images into smaller ones.'

    pairs: int
    what: str
    limit: int


class TooComplexOutlines(Kind):
    """The outlines cross too many rows of pixels, or have too many holes.

    The time and memory that outlines need grow with the number of pixel rows that each of their edges crosses; real
    nuclei have about one row per vertex. It also grows with the number of outlines that a hole may lie in; real holes
    lie in one or two.

    Check the coordinates: are they in pixels of this image, in the order x, y?

    [too-complex-outlines] case 'P1_1': edges that cross 899,000,000 rows of pixels; expected at most 8,446,208 in a
    file of 900 vertices. Check the coordinates: pixels of this image, in the order x, y?
    """

    code = "too-complex-outlines"
    got = "edges that cross {crossings:,.0f} rows of pixels"
    expected = "at most {limit:,} in a file of {vertices:,} vertices"
    fix = "Check the coordinates: pixels of this image, in the order x, y?"

    crossings: float
    limit: int
    vertices: int


class TooComplexHoles(Kind):
    code = TooComplexOutlines.code
    got = "{holes:,} holes (NegativeROA) that may lie in more than {limit:,} outlines in all"
    expected = "holes in a few outlines each"
    fix = "Check which regions are holes."

    holes: int
    limit: int


KINDS = (
    NotXml,
    NotAperioXml,
    NotAsapXml,
    ForbiddenXml,
    UnreadableFile,
    TooLarge,
    UnknownClass,
    InvalidCoordinate,
    UnsupportedShape,
    LeftOut,
    HoleWithoutOutline,
    VanishedOutline,
    TooManyOverlaps,
    CaseTooCostly,
    TooComplexOutlines,
)
