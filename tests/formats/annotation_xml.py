"""XML of Aperio and ASAP: what elements and attributes mean, and what is refused."""

from __future__ import annotations

import gzip

from formats import Table

CLASSES = {"epithelial": 1, "lymphocyte": 2, "ambiguous": -1}
TRIANGLE = ((1, 2), (5, 2), (1, 6.5))
SQUARE = ((0, 0), (4, 0), (4, 3), (0, 3))
SKIP = {"other_shapes": "skip"}


def region(*points, id="1", **attributes) -> str:
    texts = "".join(f'<Vertex X="{x}" Y="{y}" Z="0"/>' for x, y in points or TRIANGLE)
    named = "".join(f' {key}="{value}"' for key, value in {"Id": id, **attributes}.items() if value is not None)
    return f"<Region{named}><Attributes/><Vertices>{texts}</Vertices></Region>"


def layer(*regions: str, cls: str | None = "Epithelial", id="1", name="") -> str:
    attributes = "<Attributes/>" if cls is None else f'<Attributes><Attribute Id="0" Name="{cls}"/></Attributes>'
    number = "" if id is None else f' Id="{id}"'
    return f'<Annotation Name="{name}"{number}>{attributes}<Regions>{"".join(regions)}</Regions></Annotation>'


def aperio(*layers: str) -> str:
    return f'<?xml version="1.0"?>\n<Annotations MicronsPerPixel="0.25">{"".join(layers)}</Annotations>'


def annotation(*points, type="Dot", group="epithelial", orders=None) -> str:
    texts = "".join(
        "<Coordinate" + ("" if order is None else f' Order="{order}"') + f' X="{x}" Y="{y}" />'
        for order, (x, y) in zip(range(len(points)) if orders is None else orders, points, strict=True)
    )
    named = {"Name": "Annotation 0", "Type": type, "PartOfGroup": group, "Color": "#F4FA58"}
    attributes = "".join(f' {key}="{value}"' for key, value in named.items() if value is not None)
    return f"<Annotation{attributes}><Coordinates>{texts}</Coordinates></Annotation>"


def dot(x=1.5, y=2.25, **options) -> str:
    return annotation((x, y), **options)


def polygon(*points, **options) -> str:
    return annotation(*(points or TRIANGLE), **{"type": "Polygon", **options})


def asap(*annotations: str) -> str:
    groups = '<Group Name="epithelial" PartOfGroup="cells" Color="#ff0000"><Attributes /></Group>'
    return (
        f'<?xml version="1.0"?>\n<ASAP_Annotations><Annotations>{"".join(annotations)}</Annotations>'
        f"<AnnotationGroups>{groups}</AnnotationGroups></ASAP_Annotations>"
    )


def points(*coordinates) -> list[list[float]]:
    return [list(point) for point in coordinates]


def square(left, top, size):
    return (left, top), (left + size, top), (left + size, top + size), (left, top + size)


ASAP = {"format": "asap_xml", "shape": "point"}
OF_OUTLINES = ASAP | {"shape": "outline"}
ONE = {"classes": {"nucleus": 1}}
ALIAS = {"classes": {"epithelial": 1, "other": 5, "": 5}}
ELSEWHERE = '<Annotation Type="x"><Coordinates><Coordinate X="a"/></Coordinates></Annotation><Coordinate X="b"/>'
VERTICES = '<Vertex Y="2" X="1"/><Vertex Z="9" X="3" Y="4"/><Vertex X="5" Z="9" Y="6"/><Vertex X="7" Y="8"/>'
NO_OUTLINES = {"source_id": [], "points_xy": [], "ring_start": [0]}

OTHERS = ("Polygon", "Rectangle", "Spline", "Measurement")


def mixed(name: str) -> str:
    """Dots beside annotations of another type, of which one is in a group that is not known."""
    return asap(dot(), annotation(*SQUARE, type=name, group="ROI"), dot(3, 4), annotation(*SQUARE, type=name))


READ = [
    # --- Aperio: layers and classes
    ("layers keep their order whatever their ids, and empty ones add nothing",
     aperio(layer(region(id="9"), region(id="4"), cls="Lymphocyte", id="4"), layer(id="2"),
            layer(region(id="4"), cls="Ambiguous", id="1")), {},
     {"source_id": ["4/9", "4/4", "1/4"], "class_id": [2, 2, -1], "ring_start": [0, 3, 6, 9],
      "points_xy": points(*TRIANGLE) * 3}),
    ("the class may come after the regions and in any order of attributes",
     aperio(f'<Annotation><Regions>{region()}</Regions><Attributes><Attribute Value="" Id="3" Name="Lymphocyte"/>'
            "</Attributes></Annotation>"), {}, {"class_id": [2]}),
    ("attributes of a region are not the class",
     aperio(layer(region().replace("<Attributes/>", '<Attributes><Attribute Name="Lymphocyte"/></Attributes>'))), {},
     {"class_id": [1]}),
    ("an attribute that is known is the class although another comes first",
     aperio(layer(region()).replace("<Attribute ", '<Attribute Name="Description"/><Attribute ')), {},
     {"class_id": [1]}),
    ("the name of the layer is the class if no attribute is known",
     aperio(layer(region(), cls="Description", name="Lymphocyte")), {}, {"class_id": [2]}),
    ("a layer without a name has the class of the empty alias",
     aperio(*(layer(region(), cls=cls) for cls in (None, "Description", ""))), ALIAS, {"class_id": [5, 5, 5]}),
    ("a layer without a name has the only class of a challenge with one",
     aperio(layer(region(), cls=None)), ONE, {"class_id": [1]}),
    ("the class of the file goes before the names in it",
     aperio(*(layer(region(), cls=cls) for cls in ("Fibroblast", "Lymphocyte", None))), {"file_class": 1},
     {"class_id": [1, 1, 1]}),
    ("layers without a name are left out if the challenge skips them",
     aperio(layer(region(), cls=None)), ONE | {"skipped": [""]}, NO_OUTLINES),
    ("an unknown class without regions is no fault",
     aperio(layer(cls="Fibroblast"), layer(region())), {}, {"class_id": [1]}),
    ("missing ids are replaced by positions",
     aperio(layer(id=None), layer(region(id=None), id=None), layer(region(id=None), region(id=None), id=None)), {},
     {"source_id": ["2/1", "3/1", "3/2"]}),
    *(("a file without regions has no outlines", text, {}, NO_OUTLINES)
      for text in (aperio(), aperio(layer()), "<Annotations/>")),
    ("regions without vertices are outlines without vertices",
     aperio(layer('<Region Id="1"><Vertices/></Region>', region(id="2"), '<Region Id="3"/>')), {},
     {"ring_start": [0, 0, 3, 3]}),
    ("the coordinates of a vertex may come in any order and among others",
     aperio(layer(f"<Region><Vertices>{VERTICES}</Vertices></Region>")), {},
     {"points_xy": [[1, 2], [3, 4], [5, 6], [7, 8]]}),
    ("vertices of anything else are left aside",
     aperio(layer(region()).replace("<Regions>", '<Plots><Plot><Vertices><Vertex X="1" Y="x"/></Vertices></Plot>'
                                    "</Plots><Vertex/><Regions>")), {}, {"points_xy": points(*TRIANGLE)}),
    ("only the value 1 of NegativeROA is a hole",
     aperio(layer(region(NegativeROA="0"), region(NegativeROA=""), region())), {},
     {"ring_is_hole": [False, False, False]}),
    ("a hole belongs to the smallest outline around it wherever it stands",
     aperio(layer(region(*square(4, 4, 2), id="hole", NegativeROA="1"), region(*square(0, 0, 20), id="large"),
                  region(*square(2, 2, 8), id="small"), region(*square(3, 3, 0.5), id="beside"),
                  region(*square(15, 15, 2), id="other hole", NegativeROA="1"))), {},
     {"source_id": ["1/large", "1/small", "1/beside"], "ring_instance": [0, 0, 1, 1, 2],
      "ring_is_hole": [False, True, False, True, False],
      "points_xy": points(*square(0, 0, 20), *square(15, 15, 2), *square(2, 2, 8), *square(4, 4, 2),
                          *square(3, 3, 0.5))}),
    ("coordinates up to the limit are accepted",
     aperio(layer(region((1e9, -1e9), ("+.5", "-1."), ("1e3", " 2&#10;")))), {},
     {"points_xy": [[1e9, -1e9], [0.5, -1], [1000, 2]]}),
    ("rectangles of four corners are outlines", aperio(layer(region(Type="0"), region(Type="1"))), {},
     {"class_id": [1, 1]}),
    ("gzip files of several members and with padding are read to the end",
     gzip.compress(aperio(layer(region())).encode()[:100]) + gzip.compress(aperio(layer(region())).encode()[100:])
     + bytes(1000), {}, {"points_xy": points(*TRIANGLE)}),
    ("a small file may grow more", gzip.compress(aperio(layer(region())).encode() + b" " * 4_000_000), {},
     {"class_id": [1]}),
    # --- ASAP
    ("dots and the coordinates of point sets are points in document order",
     asap(dot(10, 20, group="lymphocyte"), annotation((1, 2), (3, 4), type="PointSet"), annotation(type="PointSet"),
          dot(5, 6, group="Lymphocyte")), ASAP,
     {"points_xy": [[10, 20], [1, 2], [3, 4], [5, 6]], "class_id": [2, 1, 1, 2],
      "source_id": ["1", "2/1", "2/2", "4"]}),
    ("polygons and rectangles are outlines in document order",
     asap(polygon(group="lymphocyte"), annotation(*SQUARE, type="Rectangle"), polygon(group="ambiguous")), OF_OUTLINES,
     {"points_xy": points(*TRIANGLE, *SQUARE, *TRIANGLE), "ring_start": [0, 3, 7, 10], "ring_instance": [0, 1, 2],
      "ring_is_hole": [False] * 3, "class_id": [2, 1, -1], "source_id": ["1", "2", "3"]}),
    *(("files without annotations have no nuclei", text, ASAP, {"points_xy": [], "class_id": []})
      for text in (asap(), "<ASAP_Annotations/>")),
    ("a polygon without coordinates is an outline without vertices",
     asap(polygon(), '<Annotation Type="Polygon" PartOfGroup="lymphocyte" />', polygon(*SQUARE)), OF_OUTLINES,
     {"ring_start": [0, 3, 3, 7]}),
    ("groups are matched in any case and with blanks around",
     asap(dot(group=" LYMPHOcyte  "), dot(group=" None ", type=" Dot ")),
     ASAP | {"classes": {"": 1, "lymphocyte": 2}}, {"class_id": [2, 1]}),
    *(("no group is the class of the empty alias or the only one", asap(dot(group=group)), ASAP | {"classes": classes},
       {"class_id": [expected]})
      for group in ("None", "", None) for classes, expected in (({"a": 1, "b": 2, "": 2}, 2), ({"a": 1}, 1))),
    ("a class may be called none", asap(dot(group="None")), ASAP | {"classes": {"a": 1, "none": 2}}, {"class_id": [2]}),
    *(("annotations of skipped groups are left out whatever they are",
       asap(polygon(group="ROI"), dot(7, 8), annotation((1, 1), (9, 9), type="Measurement", group="roi"),
            annotation(group="roi"), annotation((1, 1), type="Nonsense", group="ROI")),
       ASAP | {"skipped": ["roi"]} | options, {"source_id": ["2"], "points_xy": [[7, 8]]})
      for options in ({}, SKIP, {"file_class": 2})),
    *(("annotations without a group are left out if the challenge skips them", asap(dot(group="None"), dot()),
       ASAP | {"classes": {"epithelial": 1}, "skipped": [skipped]}, {"source_id": ["2"]}) for skipped in ("none", "")),
    ("the class of the file goes before the groups in it",
     asap(*(dot(group=group) for group in ("lymphocyte", "unknown", "None"))), ASAP | {"file_class": 1},
     {"class_id": [1, 1, 1]}),
    ("coordinates go by their order",
     asap(polygon(*SQUARE), polygon(TRIANGLE[2], TRIANGLE[0], TRIANGLE[1], orders=[2, 0, 1]), polygon(*SQUARE)),
     OF_OUTLINES, {"points_xy": points(*SQUARE, *TRIANGLE, *SQUARE)}),
    *(("a wrong or missing order keeps that of the document",
       asap(polygon(*SQUARE, orders=[3, 2, 1, 0]), polygon(orders=orders)), OF_OUTLINES,
       {"points_xy": points(*SQUARE[::-1], *TRIANGLE)})
      for orders in ([2, 0, 0], [2, None, 0], [2, "x", 0], [None] * 3, [0, 0, 0], [2, "nan", 0])),
    ("attributes of a coordinate may come in any order",
     asap(dot()).replace('Order="0" X="1.5" Y="2.25"', 'Y="2.25" Z="7" X="1.5" Order="0"'), ASAP,
     {"points_xy": [[1.5, 2.25]]}),
    ("elements of the same names elsewhere are left aside",
     asap(dot()).replace("<AnnotationGroups>", f"<AnnotationGroups>{ELSEWHERE}").replace(
         "</Coordinates>", f"<Other>{ELSEWHERE}</Other></Coordinates>{ELSEWHERE}"), ASAP, {"points_xy": [[1.5, 2.25]]}),
    *(("skipped layers are left out whatever they hold",
       aperio(layer(region(id="7"), cls="Lymphocyte", id="1"),
              layer(region((1, 1), (5, 5), Type="2"), region(NegativeROA="1"), cls=" ROI ", id="2"),
              layer(region(*square(1, 1, 3), id="8"), cls="Description", name="Roi", id="3"),
              layer(region(*square(5, 5, 3), id="9"), cls="Epithelial", name="ROI", id="4")),
       {"skipped": ["roi"], "file_class": file_class},
       {"source_id": ["1/7", "4/9"], "class_id": ids, "points_xy": points(*TRIANGLE, *square(5, 5, 3))})
      for file_class, ids in ((0, [2, 1]), (2, [2, 2]))),
    *(("a hole without an outline in its layer is left out with a warning",
       aperio(around, layer(region(*square(4, 4, 2), id="7", NegativeROA="1"), id="5")), {},
       {"ring_is_hole": [False] * bool(around),
        "findings": ["[hole-without-outline] region '5/7': a hole (NegativeROA)"]})
      for around in (layer(region(*square(0, 0, 20)), cls="Lymphocyte"), "", layer(region((0, 0))))),
    *(("an outline among points is left out if other shapes are skipped", mixed(name), ASAP | SKIP,
       {"source_id": ["1", "3"],
        "findings": [f"[left-out] annotation '{index}': Type '{name}'; expected" for index in (2, 4)]})
      for name in OTHERS),
    ("points among outlines are left out if other shapes are skipped",
     asap(dot(group="unknown"), polygon(), dot(), annotation((1, 2), type="PointSet")), OF_OUTLINES | SKIP,
     {"source_id": ["2"],
      "findings": [f"[left-out] annotation '{index}': Type '{name}'"
                   for index, name in ((1, "Dot"), (3, "Dot"), (4, "PointSet"))]}),
    ("of equal outlines around a hole the first gets it",
     aperio(layer(region((0, 0), (9, 9), (0, 0)), region(*square(0, 0, 9)), region(*square(0, 0, 9)),
                  region(*square(3, 2, 2), NegativeROA="1"), region(*square(6, 2, 2), NegativeROA="1"))), {},
     {"ring_instance": [0, 1, 1, 1, 2]}),
]  # fmt: skip

NUMBERS = [
    ('X="1" Y="NaN"', "Y is 'NaN'"), ('X="inf" Y="1"', "X is 'inf'"), ('X="1,5" Y="1"', "X is '1,5'"),
    ('X="1" Y="1000000001"', "Y is '1000000001'"), ('X="" Y="1"', "X is ''"), ('X="1_000" Y="1"', "X is '1_000'"),
    ('X="1" Y="\uff11"', "Y is '\uff11'"), ('X="1\u00a0" Y="1"', "X is '1?'"), ('X="0x10" Y="1"', "X is '0x10'"),
    ('X="1 2" Y="1"', "X is '1 2'"), ('X="1e400" Y="1"', "X is '1e400'"), ('Y="1"', "no X"), ('X="1"', "no Y"),
    ('x="1" Y="1"', "no X"),
]  # fmt: skip
UNKNOWN = "is not a class of this challenge; expected 'epithelial' or 'lymphocyte'."
CLASSLESS = aperio(layer(*(region(id=str(number)) for number in range(3, 9)), cls="Lymphocytes", id="2"))
FEW = "expected at most 2. Make the file smaller; organisers can raise limits.instances_per_case in challenge.toml."
DEEP, LONG = "elements nested more than 64 deep", "a tag or comment of more than a million bytes"
ZIPPED = gzip.compress(aperio(layer(region())).encode())

REFUSED = [  # the beginning of the lines, or "…" and their end
    (CLASSLESS, {}, f"[unknown-class] region '2/3', region '2/4', region '2/5' and 3 more: 'Lymphocytes' "
     f"{UNKNOWN} Did you mean 'lymphocyte'?"),
    (aperio(layer(region(), cls=None)), {}, "[unknown-class] region '1/1': the layer has no class name"),
    (aperio(layer(region(), cls="Epithelail")), ALIAS, "[unknown-class] region '1/1': 'Epithelail' is not a "),
    (aperio(*(layer(region(), region(), cls="Fibroblast", id=str(number)) for number in range(30))), {},
     "[unknown-class] region '0/1', region '0/1', region '1/1' and 57 more: 'Fibroblast' is not a class"),
    *((aperio(layer(region(), region(id="8").replace('X="5" Y="2"', vertex), id="3")), {},
       f"[invalid-coordinate] region '3/8', vertex 2: {got}; expected plain numbers between -1e9 and 1e9 px, "
       "with a point as decimal mark.") for vertex, got in NUMBERS),
    (aperio(layer(region((1, 1), (5, 4), id="6", Type="2"))), {},
     "[unsupported-shape] region '1/6': Type '2' (ellipse); expected Type '0'"),
    (aperio(layer(region((1, 1), (5, 4), Type="1"))), {},
     "[unsupported-shape] region '1/1': Type '1' (rectangle) of two vertices;"),
    *((text, {}, "[forbidden-xml] a document type or entity declaration;") for text in (
        "<!DOCTYPE Annotations><Annotations/>", '<!DOCTYPE a [<!ENTITY b "c">]><Annotations>&b;</Annotations>',
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><Annotations>&b;</Annotations>')),
    *((text, {}, "[not-xml] ") for text in (
        "", "not XML", '{"type": "Polygon"}', aperio(layer(region()))[:-20], "<Annotations></Annotation>",
        "<Annotations>&nbsp;</Annotations>", '<?xml version="1.0" encoding="klingon"?><Annotations/>',
        '<?xml version="1.0" encoding="shift_jis"?><Annotations/>', b"\x00\x01\x02\x03", b"\xff\xfe<")),
    *((f"<{root}/>", {}, f"[wrong-format] the root element is '{root}';")
      for root in ("ASAP_Annotations", "Annotation", "Vertex", "html")),
    (aperio(layer(region(), region())), {"limits": {"vertices_per_file": 5}},
     "[too-large] more than 5 vertices; expected at most 5."),
    *((text, {"limits": {"instances_per_case": 2}}, f"[too-large] more than 2 {what}") for what, text in (
        ("regions", aperio(layer(region(), region()), layer(region(NegativeROA="1")))),
        (f"layers; {FEW}", aperio(layer(), layer(), layer())),
        ("attributes", aperio(layer(region()).replace("<Attributes>", "<Attributes><Attribute/><Attribute/>"))))),
    *((text, {}, f"[not-xml] {got}") for text, got in (
        ("<Annotations>" * 100, DEEP), (f"<Annotations>{'<Annotation>' * 10**6}", DEEP),
        ("<Annotations><Annotation><Regions><Region><Vertices>" + "<Vertex>" * 10**6, DEEP),
        ("<Annotations>" + "".join(f"<a{i}/>" for i in range(50_000)), "more than 1,000 different names"),
        ("<Annotations>" + "".join(f'<a b{i}=""/>' for i in range(50_000)), "more than 1,000 different names"),
        (f"<Annotations><!--{'x' * 10**7}--></Annotations>", LONG), (f"<Annotations a='{'x' * 10**7}'/>", LONG),
        (f"<?a {'x' * 10**7}?><Annotations/>", LONG), (f"<{'x' * 10**7}/>", LONG))),
    *((data, {}, "[unreadable-file] ") for data in (
        ZIPPED[:-9], ZIPPED[:40], ZIPPED[:2], ZIPPED + b"rest", ZIPPED[:-8] + bytes(8))),
    # --- ASAP
    (asap(polygon(), dot(), dot(), annotation((1, 2), type="PointSet")), OF_OUTLINES, "\n".join(
        f"[unsupported-shape] annotation '{index}': Type '{name}'; expected Type 'Polygon' or 'Rectangle' of "
        "four coordinates, since nuclei are outlines in this challenge. Remove it; or name its group in skip_classes, "
        "or set other_shapes to 'skip', in challenge.toml."
        for index, name in ((2, "Dot"), (3, "Dot"), (4, "PointSet")))),
    *((asap(annotation(*SQUARE, type=name)), OF_OUTLINES | SKIP,
       f"[unsupported-shape] annotation '1': Type '{name or ''}'; expected Type 'Polygon'")
      for name in ("Spline", "polygon", "None", "", None, "Ellipse")),
    (asap(annotation(*SQUARE, type="Spline")), OF_OUTLINES | SKIP, "…Draw it again, or remove it."),
    (asap(annotation((0, 0), (4, 3), type="Rectangle")), OF_OUTLINES,
     "[unsupported-shape] annotation '1': Type 'Rectangle' of 2 coordinates; expected"),
    *((asap(dot(), annotation(*where)), ASAP,
       f"[invalid-coordinate] annotation '2': a Dot with {got} coordinates; expected one coordinate for a "
       "Dot. Draw several points as a PointSet.") for where, got in (((), "no"), (((1, 2), (3, 4)), "2"))),
    (asap(dot(), dot(group="lymphocytes"), dot(group="x"), dot(group="lymphocytes"), polygon(group="y"),
          dot(group="None")), ASAP | SKIP,
     f"[unknown-class] annotation '2', annotation '4': 'lymphocytes' {UNKNOWN} Did you mean 'lymphocyte'?\n"
     f"[unknown-class] annotation '3': 'x' {UNKNOWN}\n"
     "[unknown-class] annotation '6': the annotation is in no group; expected 'epithelial' or 'lymphocyte'."),
    *((asap(dot(), polygon().replace('Order="1" X="5" Y="2"', f'Order="0" {coordinate}')), ASAP | SKIP,
       f"[invalid-coordinate] annotation '2', coordinate 2: {got}; expected plain numbers between -1e9 and 1e9 "
       "px, with a point as decimal mark.") for coordinate, got in NUMBERS),
    *((f"<{root}/>", ASAP, f"[wrong-format] the root element is '{root}';")
      for root in ("Annotations", "html")),
    ("", ASAP, "…expected well-formed ASAP XML. Export or copy the file again."),
    (asap(dot(), dot()), ASAP | {"limits": {"instances_per_case": 1}}, "[too-large] more than 1 annotations;"),
    (asap(annotation((1, 2), (3, 4), type="PointSet")), ASAP | {"limits": {"instances_per_case": 1}},
     "[too-large] more than 1 points; expected at most 1."),
    (asap(polygon(), dot()), ASAP | SKIP | {"limits": {"vertices_per_file": 3}},
     "[too-large] more than 3 vertices; expected at most 3."),
    *((mixed(name), ASAP | rule, [
        f"[unsupported-shape] annotation '{index}': Type '{name}'; expected Type 'Dot' or 'PointSet', since"
        for index in (2, 4)]) for name, rule in zip(OTHERS, ({}, {"other_shapes": "reject"}) * 2, strict=True)),
    (aperio(layer(*[region((0, 0), (1000, 0), (0, 1000 + i)) for i in range(5000)],
                  *[region((1, 1), (2, 1), (1, 2), NegativeROA="1")] * 5000)), {}, "[too-complex-outlines]"),
    (aperio(layer(region(("x", 1)), region(Type="2"), cls="Fibroblast")), {},
     ["[unknown-class]", "[unsupported-shape]", "[invalid-coordinate]"]),
    (asap(dot("x"), annotation(), polygon(), dot(group="unknown")), ASAP,
     ["[unknown-class]", "[invalid-coordinate]", "[invalid-coordinate]", "[unsupported-shape]"]),
]  # fmt: skip

TABLE = Table(
    {"format": "aperio_xml", "classes": CLASSES},
    READ,
    REFUSED,
    [
        (aperio(*(layer(region(), region(), cls=f"name {number}") for number in range(30))), {}, 20, 60),
        (aperio(layer(*(region(("a", 1), (2, "b"), (3, 4), id=str(i)) for i in range(40)))), {}, 20, 80),
        (asap(*[dot(group=f"g{number}") for number in range(40)] * 3), ASAP, 20, 120),
    ],
)
