"""Hostile XML, JSON and CSV."""

# ruff: noqa: E501 (one record to a line)

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable
from functools import partial

from hostile.make import (
    SQUARE,
    aperio,
    as_json,
    asap,
    asap_annotation,
    coco,
    compressed_counts,
    feature,
    geojson,
    gzip_bomb,
    point,
    points,
    polygon,
    polygons,
    rle,
    vertices,
)
from hostile.record import Content, Hostile

MANY = 50_000
LONG = 2_000_000
COUNTED = "49,997 more"
ESCAPES = "\x1b[31m\n\u202eevil\x07\u2028"
SLIDE = (100_000, 100_000)
OUTSIDE = ("outside-image",)
TRIANGLE = vertices((1, 1), (7, 1), (7, 7))


def one(kind: str, file: str) -> Callable[..., Hostile]:
    """Makes records of a kind in which one file is replaced."""

    def record(name: str, code: str | None, content: Content, **more: object) -> Hostile:
        return Hostile(f"{file.rpartition('.')[2]} {name}", kind, code, {file: content}, **more)  # type: ignore[arg-type]

    return record


def deep(opening: bytes, closing: bytes, times: int) -> bytes:
    return opening * times + closing * times


def xml_with(declarations: str, inner: str = "") -> bytes:
    return aperio(TRIANGLE + inner, head=f"<?xml version='1.0'?><!DOCTYPE Annotations [{declarations}]>")


LAUGHS = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
WIDE_ZIGZAG = vertices(*itertools.islice(itertools.cycle([(1, -1e9), (2, 1e9)]), 4000))

yolo = partial(one("yolo_txt", "c1.txt"))
YOLO = [
    yolo("yolo a million blank lines", None, b"\n" * 1_000_000, nuclei=0),
    yolo("yolo triangle with tabs and CR", None, b"0\t.1 .1\t.3 .1\t.3 .3\r\n", nuclei=1),
    yolo("yolo box with a confidence", "invalid-annotation", b"0 0.5 0.5 0.1 0.1 0.9\n", says="a box"),
    yolo("yolo in px", "invalid-coordinate", b"0 1 1 17 1 17 17\n", says="Divide x by the width"),
    *(yolo(f"yolo coordinate {value[:12]!r}", "invalid-coordinate", b"0 0 0 1 0 1 " + value) for value in (b"nan",
      b"inf", b"1e999", b"0x1", b"1_0", b"\xff", "１".encode(), b"9" * 400, b"-" * 100_000)),
    yolo("yolo class of a million digits", "unknown-class", b"7" * 1_000_000 + b" 0 0 1 0 1 1\n"),
    yolo("yolo 50,000 nuclei of an unknown class", "unknown-class", b"x 0 0 1 0 1 1\n" * MANY, says=COUNTED),
    yolo("yolo too many vertices", "too-large", lambda: b"0" + b" .1 .1" * 100_000,
     limits={"vertices_per_file": 99_999}, says="limits.vertices_per_file"),
    yolo("yolo too many nuclei", "too-large", lambda: b"0 0 0 1 0 1 1\n" * 5001, limits={"instances_per_case": 5000}),
    yolo("yolo gzip bomb", "too-large", lambda: gzip_bomb(b"0 0 0 1 0 1 1\n")),
]  # fmt: skip


xml = partial(one("aperio_xml", "P1/c1.xml"))
APERIO = [
    xml("aperio empty file", "not-xml", b""),
    xml("aperio nothing but NULs", "not-xml", b"\0" * 1000),
    xml("aperio billion laughs", "forbidden-xml", xml_with(f'<!ENTITY a0 "ha">{LAUGHS}', "&a9;")),
    xml("aperio external entity", "forbidden-xml", xml_with('<!ENTITY x SYSTEM "file:///etc/passwd">', "&x;")),
    xml("aperio parameter entity", "forbidden-xml", xml_with('<!ENTITY % x SYSTEM "http://127.0.0.1/"> %x;')),
    xml("aperio quadratic blow-up by attributes", "not-xml", aperio(f'<Vertex X="{"1" * 4_000_000}" Y="1"/>')),
    xml("aperio gzip bomb", "too-large", lambda: gzip_bomb(b" ", before=b"<Annotations>")),
    xml("aperio gzip bomb of vertices", "too-large", lambda: gzip_bomb(vertices((1, 1)).encode(), 1, before=b"<Annotations><Annotation><Regions><Region><Vertices>"),
        limits={"vertices_per_file": 10**9}),
    xml("aperio gzip of a gzip", "not-xml", gzip.compress(gzip.compress(aperio(TRIANGLE)))),
    xml("aperio 50,000 empty gzip members", "not-xml", gzip.compress(b"") * MANY),
    xml("aperio elements nested 200,000 deep", "not-xml", deep(b"<Annotations>", b"</Annotations>", 200_000)),
    xml("aperio 50,000 names of attributes", "not-xml", aperio("".join(f'<Vertex a{i}="1"/>' for i in range(MANY)))),
    xml("aperio tag without end", "not-xml", b"<Annotations " + b"a" * LONG),
    xml("aperio comment without end", "not-xml", b"<Annotations><!-- " + b"a" * LONG),
    xml("aperio says UTF-16 and is not", "not-xml", aperio(TRIANGLE, head="<?xml version='1.0' encoding='utf-16'?>")),
    xml("aperio invalid UTF-8", "not-xml", aperio(TRIANGLE).replace(b"Epithelial", b"\xff\xfe\xc0\x80")),
    xml("aperio root with escape codes", "not-xml", f"<{ESCAPES}/>".encode()),
    xml("aperio root of a million letters", "wrong-format", f"<{'a' * 1_000_000}/>".encode()),
    *(
        xml(f"aperio coordinate {value[:12]}", "invalid-coordinate", aperio(vertices((value, 1), (7, 1), (7, 7))))
        for value in ("NaN", "Infinity", "1e999", "1_000", "0x10", "１２", "9" * 400, "", "1,5", "1e10", "-1e308")
    ),
    xml("aperio 50,000 vertices without a place", "invalid-coordinate", aperio("<Vertex/>" * MANY), says="99,997 more"),
    xml("aperio 50,000 nuclei of an unknown class", "unknown-class", aperio(*[TRIANGLE] * MANY, name="x"), says=COUNTED),
    xml("aperio name of a class of a million letters", "unknown-class", aperio(TRIANGLE, name="a" * 900_000)),
    xml("aperio name of a class with escape codes", "unknown-class", aperio(TRIANGLE, name="&#10;&#x202e;&#x9b;31mx")),
    xml("aperio too many vertices", "too-large", lambda: aperio(vertices((1, 1)) * 100_000),
        limits={"vertices_per_file": 99_999}, says="limits.vertices_per_file"),
    xml("aperio outlines across a slide", "too-complex-outlines", aperio(WIDE_ZIGZAG), size=SLIDE),
    xml("aperio outlines just inside the limit", None, aperio(vertices((1, -1e9), (9, 1e9), (17, -1e9))), size=SLIDE, nuclei=1),
    xml("aperio huge coordinates", None, aperio(vertices((-1e9, -1e9), (1e9, -1e9), (1e9, 1e9), (-1e9, 1e9))), nuclei=1),
    xml("aperio one vertex many times", None, aperio(vertices((3, 3)) * 100_000), nuclei=0, warns=OUTSIDE),
]  # fmt: skip

asap_xml = one("asap_xml outlines", "c1.xml")
asap_points = one("asap_xml points", "c1.xml")
ASAP = [
    asap_xml("asap billion laughs", "forbidden-xml", b'<!DOCTYPE a [<!ENTITY b "ha">]>' + asap()),
    asap_xml("asap gzip bomb", "too-large", lambda: gzip_bomb(b"<a/>", 1, before=b"<ASAP_Annotations>")),
    asap_xml("asap unknown shapes", "unsupported-shape", asap(*[asap_annotation((1, 1), kind="Evil")] * MANY), says=COUNTED),
    asap_xml("asap 50,000 unknown classes", "unknown-class",
             lambda: asap(*(asap_annotation((1, 1), (7, 1), (7, 7), group=f"Lymphocyt {i}") for i in range(MANY))), says=COUNTED),
    asap_points("asap dot of no place", "invalid-coordinate", asap(asap_annotation(kind="Dot"))),
]  # fmt: skip

outlines = one("geojson outlines", "c1.geojson")
geo_points = one("geojson points", "c1.geojson")
NOT_JSON: list[tuple[str, bytes]] = [
    ("empty file", b""),
    ("a NUL behind", geojson() + b"\0"),
    ("1e999", geojson(feature()).replace(b"[7, 7]", b"[7, 1e999]")),
    ("whole number of 400 digits", geojson(feature()).replace(b"[7, 7]", b"[7, " + b"9" * 400 + b"]")),
    ("lone surrogate", geojson(feature(name="\ud800"))),
    ("invalid UTF-8", geojson(feature()).replace(b"Epithelial", b"\xff\xc0\x80\xed\xa0\x80")),
    ("unclosed text", b'{"type": "' + b"a" * LONG),
    ("a million quotation marks", b'"' * 1_000_000),
    ("backslashes", b'{"' + b"\\" * 1_000_001),
]
GEOJSON = [
    *(outlines(name, "not-json", content) for name, content in NOT_JSON),
    outlines("NaN as a coordinate", "invalid-coordinate", geojson(feature([[[1, 1], [7, float("nan")], [7, 7]]]))),
    outlines("NaN before a text without end", "not-json", b'[NaN, "' + b'\\"' * 100_000),
    outlines("200,000 times Infinity", "invalid-annotation", b"[-Infinity" + b",Infinity" * 200_000 + b"]"),
    outlines("nested 2 million deep", "too-deep", lambda: b"[" * LONG),
    outlines("nested 1,000 deep and closed", "too-deep", deep(b'{"features":[', b"]}", 500)),
    outlines("nested 33 deep", "too-deep", deep(b"[", b"]", 33), says="limits.json_depth"),
    outlines("gzip bomb", "too-large", lambda: gzip_bomb(b" ", before=b"[")),
    outlines("gzip bomb of brackets", "too-large", lambda: gzip_bomb(b"[],", before=b"[")),
    *(outlines(f"only {text[:10]}", "wrong-format", text.encode()) for text in ("null", "7", '"text"', "{}", '{"features": 7}')),
    outlines("features that are none", "invalid-annotation", geojson(None, 7, "x", [], {}), says="(also "),
    outlines("coordinates that are none", "invalid-annotation",
             geojson(*(feature(c) for c in (7, "x", {}, [7], ["x"], {"0": 1})))),
    outlines("coordinates beyond 64 bits", "invalid-coordinate", geojson(feature([[[2**64, 1], [-(2**63), 1], [7, 7]]]))),
    outlines("50,000 unknown classes", "unknown-class",
             lambda: geojson(*(feature(name=f"Epithelia {i}") for i in range(MANY))), says=COUNTED),
    outlines("class names that are none", "unknown-class", geojson(*(feature(name=n) for n in (7, [], {"a": 1}, True, 1e300)))),
    outlines("class name with escape codes", "unknown-class", geojson(feature(name=ESCAPES))),
    outlines("class name of 2 million letters", "unknown-class", lambda: geojson(feature(name="a" * LONG))),
    outlines("too many vertices", "too-large", lambda: geojson(feature([[[1, 1]] * 100_001])), limits={"vertices_per_file": 100_000}),
    outlines("one feature of 65 MB", "too-large", lambda: geojson(feature(name="a" * (65 << 20)))),
    outlines("30,000 holes in a nucleus", None,
             lambda: geojson(feature([[[SQUARE, *[SQUARE] * 300]] * 100][0], kind="MultiPolygon")), nuclei=0, warns=("many-parts", *OUTSIDE)),
    outlines("children without end", "too-large", geojson({"type": "Feature", "geometry": None, "properties": {"childObjects": [feature()] * 2000}}),
             limits={"instances_per_case": 1000}),
    outlines("duplicate keys", "duplicate-key", b'{"type": "X", "type": "FeatureCollection", "features": 7, "features": []}'),
    outlines("the whole plane", None, geojson(feature([[[-1e9, -1e9], [1e9, -1e9], [1e9, 1e9], [-1e9, 1e9]]])), nuclei=1),
    geo_points("many points in one feature", "too-large", geojson(feature([[1, 1]] * 1001, kind="MultiPoint")), limits={"instances_per_case": 1000}),
]  # fmt: skip

poly = one("polygons_json", "c1.json")
point_file = one("points_json", "c1.json")
PLATFORM = [
    poly("polygons with Infinity", "not-json", polygons(polygon([[float("inf"), 1, 0], [7, 1, 0], [7, 7, 0]]))),
    poly("polygons nested deep", "too-deep", deep(b'{"polygons":[', b"]}", 100_000)),
    poly("polygons without a vertex", "empty-polygon", polygons(polygon([]))),
    poly("polygons 50,000 unknown classes", "unknown-class", lambda: polygons(*(polygon(name=f"n{i}") for i in range(MANY))), says=COUNTED),
    poly("polygons across a slide", "too-complex-outlines", polygons(polygon([[1, -1e9, 0], [2, 1e9, 0]] * 2000)), size=SLIDE),
    point_file("points too many", "too-large", points(*[point()] * 1001), limits={"instances_per_case": 1000}),
]  # fmt: skip

csv = one("points_csv", "c1.csv")
shared_csv = one("points_csv shared", "points.csv")
nucls = one("nucls_csv", "c1.csv")
HEAD = b"case,x,y,class\n"
ROW = b"c1,3,3,Epithelial\n"
PROBABILITIES = b"case,x,y,probability_Epithelial,probability_Lymphocyte\n"
NUCLS_HEAD = b"raw_classification,main_classification,super_classification,type,xmin,ymin,xmax,ymax,coords_x,coords_y\n"


def nucls_row(x: str, y: str, *, kind: str = "polyline", name: str = "Epithelial", box: str = "1,1,7,7") -> bytes:
    return f'a,{name},b,{kind},{box},"{x}","{y}"\n'.encode()


def every_case(row: bytes) -> bytes:
    return b"".join(row.replace(b"c1", case) for case in (b"c1.png", b"c2.png", b"c3.png"))


CSV = [
    csv("empty lines", "invalid-csv", b"\n" * 1000),
    csv("NULs", "invalid-csv", HEAD + b"c1,\0,3,Epithelial\n"),
    csv("ragged rows", "invalid-csv", HEAD + b"c1,3\n" * MANY, says=COUNTED),
    csv("unclosed quotation mark", "invalid-csv", HEAD + b'"' + ROW * 100_000),
    csv("a line of 2 million commas", "invalid-csv", HEAD + b"," * LONG),
    csv("a header of 2 million commas", "invalid-csv", b"," * LONG),
    csv("a header of 1,000,000 letters", "missing-column", b"a" * 1_000_000),
    csv("a cell of 20 MB", "unknown-class", lambda: HEAD + b'c1,3,3,"' + b"a" * 20_000_000 + b'"\n'),
    csv("a number of 2 million digits", "invalid-coordinate", lambda: HEAD + b"c1,3," + b"9" * LONG + b",Epithelial\n"),
    *(csv(f"coordinate {value[:9]}", "invalid-coordinate", HEAD + f"c1,{value},3,Epithelial\n".encode())
      for value in ("nan", "inf", "1e999", "1_000", "0x10", "１２", "", "1e10", "=1+1")),
    csv("50,000 unknown classes", "unknown-class", HEAD + b"".join(b"c1,3,3,e%d\n" % i for i in range(MANY)), says=COUNTED),
    csv("50,000 rows of another case", "other-case", HEAD + ROW.replace(b"c1", b"c2") * MANY, says=COUNTED),
    csv("class with escape codes", "unknown-class", HEAD + f'c1,3,3,"{ESCAPES}"\n'.encode()),
    csv("two million rows", "too-large", lambda: HEAD + ROW * LONG, limits={"instances_per_case": 1000}),
    csv("only CR at the ends of lines", None, (HEAD + ROW * 2).replace(b"\n", b"\r"), nuclei=2, warns=("own-duplicates",)),
    shared_csv("50,000 unknown cases", "unknown-case",
               HEAD + every_case(ROW) + b"".join(b"x%d.png,3,3,Epithelial\n" % i for i in range(MANY)), says="and 49,997 more"),
    shared_csv("case of another spelling", "unknown-case", HEAD + every_case(ROW) + b"C1.PNG,3,3,Epithelial\n", says="Delete it"),
    shared_csv("case with a path", None, HEAD + every_case(ROW).replace(b"c1", b"../../c1"), nuclei=1),
    shared_csv("a case is missing", "missing-case", HEAD + every_case(ROW).replace(b"c3", b"c2"), warns=("own-duplicates",)),
    nucls("nucls unknown type", "unsupported-shape", NUCLS_HEAD + nucls_row("1,7,7", "1,1,7", kind="spline")),
    nucls("nucls two million vertices", "too-large", lambda: NUCLS_HEAD + nucls_row("1" + ",1" * LONG, "1" + ",1" * LONG),
          limits={"vertices_per_file": 1000}),
    nucls("nucls 50,000 unknown classes", "unknown-class",
          NUCLS_HEAD + b"".join(nucls_row("1,7,7", "1,1,7", name=f"n{i}") for i in range(MANY)), says=COUNTED),
    nucls("nucls box turned round", None, NUCLS_HEAD + nucls_row("", "", kind="rectangle", box="7,7,1,1"), nuclei=1),
]  # fmt: skip

codes = one("rle_csv", "codes.csv")
CODES_HEAD = b"image_id,rle,class\n"


def code_rows(code: str, *, times: int = 1) -> bytes:
    """The code for the first case; the others have none."""
    return CODES_HEAD + f"c1,{code},Epithelial\n".encode() * times + b"c2,,\nc3,,\n"


RLE = [
    *(codes(f"code {name}", "invalid-rle", code_rows(code)) for name, code in [
        ("beyond the image", "600 2"), ("negative", "-1 5"), ("odd", "1 2 3"), ("length 0", "1 0"), ("negative length", "5 -3"),
        ("overlapping", "1 5 3 5"), ("gigantic", "1 999999999999999999"), ("of 400 digits", "9" * 400 + " 1"),
        ("of fractions", "1.5 2"), ("of letters", "a b"), ("1e2", "1 1e2"), ("from 0", "0 3"), ("of other digits", "１ ２"),
    ]),
    codes("code of a million numbers", "invalid-rle", lambda: code_rows("1 1 " * 500_000)),
    codes("codes 50,000 times wrong", "invalid-rle", code_rows("1 1000", times=MANY), says=COUNTED),
    codes("codes of whole slides", "too-complex-runs", code_rows(f"1 {10**10}", times=1000), size=SLIDE),
    codes("codes of one column of a slide", "too-complex-runs", code_rows(f"1 {10**5}", times=1000), size=SLIDE),
    codes("codes of another size", "wrong-shape", CODES_HEAD.replace(b"class", b"class,height,width") + b"c1,1 1,Epithelial,99,1\n"),
    codes("codes of nothing", None, code_rows(""), nuclei=0, warns=("suspicious-content",)),
    codes("code of a whole slide", None, code_rows(f"1 {10**10}"), size=SLIDE, nuclei=1, warns=("background-is-nucleus",)),
]  # fmt: skip

coco_file = one("coco_json", "c1.json")
shared_coco = one("coco_json shared", "all.json")
midog = one("midog_json", "c1.json")
BOX = {"bbox": [1, 1, 7, 7]}
RING = {"segmentation": [[1, 1, 7, 1, 7, 7]]}
CATEGORIES = {"categories": [{"id": 7, "name": "Epitheliar"}]}
BOMB = "P" + "o" * 5 + "N"  # few characters, a count of billions
COCO = [
    coco_file("coco category of an unknown class", "unknown-class", coco(*[{**RING, "category_id": 7}] * MANY, **CATEGORIES), says=COUNTED),
    coco_file("coco code of a negative size", "wrong-shape", coco(rle([600], (-20, -30)))),
    coco_file("coco code of a size of truth", "invalid-annotation", coco(rle([600], (True, False)))),
    *(coco_file(f"coco code {name}", "invalid-rle", coco(rle(counts))) for name, counts in [
        ("negative", [-1, 601]), ("too short", [1, 2]), ("too long", [0, 601]), ("gigantic", [0, 2**62]), ("beyond 64 bits", [0, 10**30]),
        ("of fractions", [0.5, 599.5]), ("of truth", [True, 599]), ("of text", ["1", "599"]), ("garbage", "\x7f\x00~~~"), ("cut off", "PoP"),
        ("of other letters", "ÿ日本"), ("bomb", BOMB), ("of a number without end", "o" * 1_000_000), ("of a million letters", "1" * 1_000_000),
    ]),
    coco_file("coco code that wraps around", "invalid-rle", coco(rle([600, 2**63, 2**63]))),
    coco_file("coco codes of whole slides", "too-complex-runs", coco(*[rle([0, 10**10], SLIDE)] * 1000, size=SLIDE), size=SLIDE),
    coco_file("coco compressed codes of whole slides", "too-complex-runs",
              coco(*[rle(compressed_counts([5 * 10**9, 10**9, 4 * 10**9]), SLIDE)] * 1000, size=SLIDE), size=SLIDE),
    coco_file("coco compressed code of a slide", None, coco(rle(compressed_counts([0, 10**10]), SLIDE), size=SLIDE), size=SLIDE, nuclei=1, warns=("background-is-nucleus",)),
    shared_coco("coco an image of another spelling", "unknown-case",
                coco({**RING, "image_id": 4}, images=[{"id": i, "file_name": f"{'C1' if i == 4 else f'c{i}'}.png"} for i in (1, 2, 3, 4)])),
    shared_coco("coco 50,000 unknown images", "unknown-case",
                coco(images=[{"id": i, "file_name": f"{'c' if i < 4 else 'x'}{i}.png"} for i in range(1, MANY + 4)]), says=COUNTED),
    midog("midog box beyond all bounds", "invalid-coordinate", coco({"bbox": [1e300, 2, 3, 4]})),
    midog("midog nested deep", "too-deep", deep(b'{"annotations":[', b"]}", 100_000)),
]  # fmt: skip

nuc = one("contours_json hovernet", "c1.json")
cells = one("contours_json cellvit", "c1.json")
centroids = one("contours_json cellvit points", "c1.json")
shapes = one("contours_json labelme", "c1.json")
CELL = {"centroid": [4, 4], "contour": [[1, 1], [7, 1], [7, 7]], "type": 1}
SHAPE = {"label": "Epithelial", "points": [[1, 1], [7, 1], [7, 7]], "shape_type": "polygon", "group_id": None}


def contours(key: str, *records: object) -> bytes:
    return as_json({key: list(records)})


CONTOURS = [
    nuc("nuc is a list", None, contours("nuc", CELL), nuclei=1),
    nuc("nuc is a number", "wrong-format", as_json({"nuc": 5})),
    nuc("nuc record is a text", "invalid-annotation", as_json({"nuc": {"1": "a"}})),
    nuc("nuc contour without a vertex", "empty-polygon", as_json({"nuc": {"1": {**CELL, "contour": []}}})),
    nuc("nuc contour of texts", "invalid-coordinate", as_json({"nuc": {"1": {**CELL, "contour": ["a", "b", "c"]}}})),
    nuc("nuc contour beyond all bounds", "invalid-coordinate", as_json({"nuc": {"1": {**CELL, "contour": [[1e300, 1]] * 3}}})),
    nuc("nuc type of many digits", "unknown-class", as_json({"nuc": {"1": {**CELL, "type": 10**18}}})),
    nuc("nuc type is a list", "unknown-class", as_json({"nuc": {"1": {**CELL, "type": [[1]]}}})),
    nuc("nuc id twice", "duplicate-key", b'{"nuc": {"1": 1, "1": 2}}'),
    nuc("nuc nested deep", "too-deep", deep(b'{"nuc":[', b"]}", 100_000)),
    cells("cells is null", "wrong-format", as_json({"cells": None})),
    cells("cells type_map is a list", "unknown-class", as_json({"type_map": [1], "cells": [{**CELL, "type": 77}]})),
    cells("cells type_map of texts", "unknown-class", as_json({"type_map": {"1": ESCAPES}, "cells": [CELL]})),
    cells("cells without contours", "invalid-annotation", contours("cells", {"centroid": [1, 2], "type": 1})),
    cells("cells too many vertices", "too-large", contours("cells", {**CELL, "contour": [[1, 1]] * 3000}), limits={"vertices_per_file": 1000}),
    centroids("cells centroid of a number", "invalid-coordinate", as_json({"type_map": {"1": "Epithelial"}, "cells": [{**CELL, "centroid": [5]}]})),
    centroids("cells centroid is a text", "invalid-annotation", contours("cells", {**CELL, "centroid": "5, 5"})),
    shapes("shapes points is an object", "invalid-annotation", contours("shapes", {**SHAPE, "points": {}})),
    shapes("shapes circle", "unsupported-shape", contours("shapes", {**SHAPE, "shape_type": "circle"})),
    shapes("shapes type is a list", "unsupported-shape", contours("shapes", {**SHAPE, "shape_type": ["polygon"]})),
    shapes("shapes rectangle of texts", "invalid-coordinate", contours("shapes", {**SHAPE, "shape_type": "rectangle", "points": [["a", 1], [2, 3]]})),
    shapes("shapes group is an object", None, contours("shapes", {**SHAPE, "group_id": {"a": [1]}}), nuclei=1),
    shapes("shapes group without a vertex", "empty-polygon", contours("shapes", {**SHAPE, "group_id": 1, "points": []})),
]  # fmt: skip

TEXTS = (*YOLO, *APERIO, *ASAP, *GEOJSON, *PLATFORM, *CSV, *RLE, *COCO, *CONTOURS)
