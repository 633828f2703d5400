"""Annotations: outlines and points, and the XML that holds them."""

from evaluation.findings.catalogue.explanation import Explanation

ANNOTATIONS: dict[str, Explanation] = {
    "not-xml": Explanation(
        title="The file is not well-formed XML",
        why="A file that stops early or has a broken tag would give some of its outlines and lose the rest.",
        fix="Export the file again, or copy it again if it was cut off on the way.",
        example="[not-xml] 'P1_1.xml': no element found (line 812, column 0); expected well-formed Aperio XML. "
        "Export or copy the file again.",
    ),
    "not-aperio-xml": Explanation(
        title="The XML file is not one of Aperio ImageScope",
        why="Outlines are read from Annotations/Annotation/Regions/Region/Vertices/Vertex; other XML has none there.",
        fix="Export the annotations as ImageScope XML. Organisers: name the right format in challenge.toml.",
        example="[not-aperio-xml] 'P1_1.xml': the root element is 'ASAP_Annotations'; expected an Aperio XML file "
        "(root 'Annotations').",
    ),
    "not-asap-xml": Explanation(
        title="The XML file is not one of ASAP",
        why="Annotations are read from ASAP_Annotations/Annotations/Annotation/Coordinates/Coordinate; other XML has "
        "none there.",
        fix="Save the annotations in ASAP. Organisers: name the right format in challenge.toml.",
        example="[not-asap-xml] 'P1_1.xml': the root element is 'Annotations'; expected an ASAP XML file (root "
        "'ASAP_Annotations').",
    ),
    "forbidden-xml": Explanation(
        title="The XML file declares a document type or entities",
        why="Declarations can make a small file expand without end or fetch other files. ImageScope "
        "and ASAP write none.",
        fix="Remove the '<!DOCTYPE …>' part of the file.",
        example="[forbidden-xml] 'P1_1.xml': a document type or entity declaration; expected XML without "
        "declarations. Remove the '<!DOCTYPE …>' part.",
    ),
    "unreadable-file": Explanation(
        title="The file cannot be read to its end",
        why="A compressed or binary file that is cut off or damaged has lost what comes after.",
        fix="Write, compress or copy the file again.",
        example="[unreadable-file] 'P1_1.xml.gz': the compressed data stop before their end; expected a complete gzip "
        "file. Compress or copy the file again.",
    ),
    "too-large": Explanation(
        title="The input is larger than the challenge allows",
        why="Bounds on what is read keep a broken or hostile file from taking all memory.",
        fix="Make the file smaller: leave out what is not needed, or write fewer vertices or a smaller type. The line "
        "names the limit; only organisers can raise it, in the table 'limits' of challenge.toml.",
        example="[too-large] case 'P1_1', 'P1_1.xml': more than 1,000 vertices; expected at most 1,000. Make the file"
        " smaller; organisers can raise limits.vertices_per_file in challenge.toml.",
    ),
    "unknown-class": Explanation(
        title="A class name is not one of the challenge",
        why="Classes are matched by name, so that their order can never swap them; a name that is not known has no "
        "class id. Upper and lower case are the same.",
        fix="Correct the name: the line lists those that the challenge knows. Organisers can add it in challenge.toml: "
        'as an alias ("" for annotations without a name), as an ignore class, or among skip_classes.',
        example="[unknown-class] 'P1_1.xml', region '2/1', region '2/2', region '2/3' and 15 more: 'Lymphocytes' is "
        "not a class of this challenge; expected 'epithelial' or 'lymphocyte'. Did you mean 'lymphocyte'?",
    ),
    "invalid-coordinate": Explanation(
        title="A vertex or point has no usable coordinate",
        why="Without it the place of the nucleus, and so its pixels, are not known.",
        fix="Write plain finite decimal numbers, with a point as decimal mark.",
        example="[invalid-coordinate] 'P1_1.xml', region '1/3', vertex 12: Y is 'NaN'; expected numbers between -1e9 "
        "and 1e9 as X and Y of every vertex.",
    ),
    "unsupported-shape": Explanation(
        title="An annotation has not the shape of a nucleus of this challenge",
        why="The vertices of an ellipse are the corners of its box, a spline is a curve through them, those of an "
        "arrow or a ruler enclose nothing: taken as outlines they would cover other pixels than their author meant. A "
        "point has no pixels, and an outline is no point.",
        fix="Draw the nucleus in the shape that the line names, or remove it. Organisers can leave out what is "
        "no nucleus by skip_classes or other_shapes in challenge.toml.",
        example="[unsupported-shape] 'P1_1.xml', region '1/3': Type '2' (ellipse); expected Type '0' (freehand) or '1' "
        "(rectangle of four vertices), whose vertices are corners of the outline. Draw the region as an outline, or "
        "remove it.",
    ),
    "left-out": Explanation(
        title="Annotations are left out",
        why="What the line names is no nucleus of this challenge: for example a region of interest among points, where "
        "other_shapes = 'skip' leaves annotations of the other shape out, a crowd of nuclei, or one of another image.",
        fix="Check that no nucleus is among them. With other_shapes = 'reject' other shapes are a fault.",
        example="[left-out] case 'P1_1', 'P1_1.xml', annotation '1', annotation '3': Type 'Polygon'; expected nuclei "
        "that are points. Annotations of another shape are left out, as other_shapes = 'skip' in "
        "challenge.toml says.",
        severity="warning",
    ),
    "hole-without-outline": Explanation(
        title="A hole lies in no outline",
        why="A region with NegativeROA is taken away from the smallest outline of its layer around it; here is none.",
        fix="Check whether the outline is missing or drawn in another layer. The hole is left out.",
        example="[hole-without-outline] case 'P1_1', 'P1_1.xml', region '1/9': a hole (NegativeROA) in no outline of "
        "its layer; expected holes inside an outline. The hole is left out; check where it lies.",
        severity="warning",
    ),
    "vanished-outline": Explanation(
        title="An outline covers no pixel",
        why="An outline covers the pixels whose centres lie in it; very small or thin ones, and those beside the "
        "image, cover none. The challenge asks to refuse them (vanished = 'error').",
        fix="Remove the outline. Organisers can set 'vanished' to 'drop' or 'pixel' in challenge.toml.",
        example="[vanished-outline] case 'P1_1', outline '1/3': no pixel centre inside; expected outlines that cover "
        "a pixel of the image. Remove it; organisers can set 'vanished' to 'drop' or 'pixel' in "
        "challenge.toml.",
    ),
    "too-many-overlaps": Explanation(
        title="Too many nuclei lie on each other",
        why="Every nucleus of the reference is compared with every predicted one that it shares pixels with. Where "
        "nuclei of one side do not overlap there are few such pairs; where thousands lie on one pixel there are "
        "millions. They are counted before they are compared, so the same files are refused on every machine.",
        fix="Leave out nuclei that were found several times. Organisers can raise 'overlaps_per_case' in the table "
        "'limits' of challenge.toml.",
        example="[too-many-overlaps] case 'P1_1': 40 nuclei, up to 40 of them on one pixel; expected fewer that lie on "
        "each other. Leave out nuclei that were found several times.",
    ),
    "case-too-costly": Explanation(
        title="A case takes far more comparisons than a slide of a million nuclei",
        why="Some matching rules and metrics compare all nuclei that are near each other, or look for the nearest one. "
        "The pairs are counted before they are compared, so the same files are refused on every machine.",
        fix="Leave out what is no nucleus, and what was found several times; check the coordinates. Organisers can "
        "choose a smaller radius, or cut the images into smaller ones.",
        example="[case-too-costly] case 'P1_1', matching rule 'after': 4 nuclei, which make too many pairs with those "
        "of the reference; expected fewer, or nuclei that lie where those of the image are. Leave out what is no "
        "nucleus, such as single pixels, and what was found several times.",
    ),
    "too-complex-outlines": Explanation(
        title="The outlines cross too many rows of pixels, or have too many holes",
        why="The time and memory that outlines need grow with the number of pixel rows that each of their edges "
        "crosses; real nuclei have about one row per vertex. It also grows with the number of outlines that a hole may "
        "lie in; real holes lie in one or two.",
        fix="Check the coordinates: are they in pixels of this image, in the order x, y?",
        example="[too-complex-outlines] case 'P1_1': edges that cross 899,000,000 rows of pixels; expected at most "
        "8,446,208 in a file of 900 vertices. Check the coordinates: pixels of this image, in the order x, y?",
    ),
}
