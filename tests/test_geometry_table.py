"""TIAToolbox's annotation stores, GeoParquet and Xenium's boundaries. The oracles are sqlite3 with the statements of
TIAToolbox, geopandas and pyarrow, where they are installed, and shapely."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import struct
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import shapely
from every_format import SIDES, write_challenge

from evaluation import score_submission
from evaluation.authoring.convert import convert_file
from evaluation.challenge import LimitRules, format_rules
from evaluation.commands.main import run
from evaluation.findings.errors import ConversionRefused, InputFault, SubmissionRejected
from evaluation.formats import Request, read_annotations
from evaluation.formats.detect import Detected, detect_format
from evaluation.formats.geometry_table import is_flat, keys_of_store
from evaluation.model import Case, ClassTable

CASE = Case("a", "a", 40, 60, 0.5)
CLASSES = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2, "7": 2}, {}, frozenset({"region"}))
ONE = ClassTable(("nucleus",), {"nucleus": 1})
SQUARE, HOLED = shapely.box(1, 2, 9, 8), shapely.box(20, 20, 40, 36) - shapely.box(24, 24, 30, 30)
TWO_PARTS = shapely.MultiPolygon([shapely.box(0, 0, 3, 3), shapely.box(5, 0, 8, 3)])


def read(data: bytes, shape="outline", units="px", classes=CLASSES, limits=None, **more):
    keys = {"vertices": "exact", "vanished": "drop"} if shape == "outline" else {}
    keys |= {"shape": shape, "units": units, "origin": "pixel_centre", **more}
    rules = format_rules(format="geometry_table", files="{case}.db", **keys)
    limits = LimitRules(**(limits or {}))
    request = Request(where="'a.db'", name="a.db", rules=rules, classes=classes, limits=limits)
    return read_annotations(io.BytesIO(data), request, CASE)


def polygons_of(part) -> list[shapely.Geometry]:
    """The nuclei as shapely has them."""
    found = []
    for nucleus in range(len(part)):
        rings = np.flatnonzero(part.ring_instance == nucleus).tolist()
        shapes = [shapely.Polygon(part.points_xy[part.ring_start[r] : part.ring_start[r + 1]]) for r in rings]
        holes = [shape for shape, ring in zip(shapes, rings, strict=True) if part.ring_is_hole[ring]]
        outer = [shape for shape, ring in zip(shapes, rings, strict=True) if not part.ring_is_hole[ring]]
        found.append(shapely.union_all(outer) - shapely.union_all(holes))
    return found


def store(path: Path, *nuclei, compression: str | None = "zlib", journal: str = "delete") -> bytes:
    """What ``SQLiteStore`` of TIAToolbox 1.5 writes of pairs of a geometry and its properties."""
    with closing(sqlite3.connect(path)) as con:
        con.execute(f"pragma journal_mode = {journal}")
        con.execute("CREATE TABLE metadata (key TEXT UNIQUE, value TEXT)")
        for key, value in {"version": "1.0.1", "compression": compression, "compression_level": 9}.items():
            con.execute("INSERT INTO metadata VALUES (?, ?)", (key, json.dumps(value)))
        con.execute("CREATE VIRTUAL TABLE rtree USING rtree_i32(id, min_x, max_x, min_y, max_y)")
        con.execute(
            "CREATE TABLE annotations(id INTEGER PRIMARY KEY, key TEXT UNIQUE, objtype TEXT, cx INTEGER NOT NULL, "
            "cy INTEGER NOT NULL, geometry BLOB, properties TEXT, area INTEGER NOT NULL)"
        )
        for index, (shape, properties) in enumerate(nuclei):
            blob = None if shape.geom_type == "Point" else shape.wkb
            blob = zlib.compress(blob, 9) if blob and compression else blob
            middle = shape.centroid
            row = (f"key-{index}", shape.geom_type, int(middle.x), int(middle.y), blob)
            said = json.dumps(properties, separators=(",", ":"))
            con.execute("INSERT INTO annotations VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", (*row, said, int(shape.area)))
            con.execute("INSERT INTO rtree VALUES (?, ?, ?, ?, ?)", (index + 1, *np.array(shape.bounds)[[0, 2, 1, 3]]))
        con.execute('CREATE INDEX area ON annotations ("area")')
        con.commit()
    return path.read_bytes()


# --- TIAToolbox -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["zlib", None])
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_store_has_the_outlines_classes_and_probabilities(compression, journal, tmp_path):
    nuclei = [
        (SQUARE, {"prob": 0.75, "type": "tumour"}),
        (HOLED, {"prob": 0.5, "type": 7}),
        (TWO_PARTS, {"prob": 1, "type": "stroma"}),
        (SQUARE, {"type": "region"}),
    ]
    data = store(tmp_path / "a.db", *nuclei, compression=compression, journal=journal)
    (part,) = read(data).parts
    assert part.class_id.tolist() == [1, 2, 2]
    assert part.probability.tolist() == [0.75, 0.5, 1]
    assert part.source_id.tolist() == ["key-0", "key-1", "key-2"]
    assert [a.equals(b) for a, (b, _) in zip(polygons_of(part), nuclei, strict=False)] == [True] * 3
    assert detect_format(tmp_path / "a.db") == Detected(
        "geometry_table", {"shape": "outline", "units": "px", "origin": "pixel_centre"}
    )


def test_parts_of_a_nucleus_may_be_nuclei(tmp_path):
    data = store(tmp_path / "a.db", (TWO_PARTS, {"type": "tumour"}))
    (part,) = read(data, parts="apart").parts
    assert part.source_id.tolist() == ["key-0/1", "key-0/2"]


def test_points_of_a_store_are_whole_pixels(tmp_path):
    data = store(tmp_path / "a.db", (shapely.Point(5, 7), {"type": "tumour"}), (shapely.Point(9, 3), {"type": 7}))
    (part,) = read(data, "point").parts
    assert part.points_xy.tolist() == [[5, 7], [9, 3]]
    assert detect_format(tmp_path / "a.db").keys["shape"] == "point"
    with pytest.raises(InputFault, match="unsupported-shape"):
        read(data)


def test_a_type_that_is_no_class_is_told(tmp_path):
    with pytest.raises(InputFault, match="'9' is not a class"):
        read(store(tmp_path / "a.db", (SQUARE, {"type": 9})))
    (part,) = read(store(tmp_path / "b.db", (SQUARE, {"type": 9})), classes=ONE).parts
    assert part.class_id.tolist() == [1]


def test_a_store_is_read_and_nothing_else_is_done(tmp_path):
    """A view, a trigger or an expression in a schema would run what the sender wrote."""
    for statement, got in [
        ("CREATE VIEW annotations AS SELECT 1 AS id, 'a' AS key, 1 AS cx, 1 AS cy, NULL AS geometry, '' AS properties",
         "without a table 'annotations'"),
        ("CREATE TABLE annotations(id INTEGER PRIMARY KEY, key, cx, cy, properties, geometry AS (zeroblob(999999999)))",
         "too big"),
        ("CREATE TABLE annotations(id INTEGER PRIMARY KEY, key, cx)", "no such column"),
        ("CREATE TABLE others(id)", "without a table 'annotations'"),
    ]:  # fmt: skip
        path = tmp_path / f"{abs(hash(statement))}.db"
        with closing(sqlite3.connect(path)) as con:
            con.execute("CREATE TABLE metadata (key TEXT UNIQUE, value TEXT)")
            con.execute(statement)
            if "zeroblob" in statement:
                con.execute("INSERT INTO annotations VALUES (1, 'a', 1, 1, '{}')")
            con.commit()
        with pytest.raises(InputFault, match=got):
            read(path.read_bytes())


def test_a_store_with_a_damaged_schema_is_refused(tmp_path):
    """SQLite names the table in its message, in which bytes that are no UTF-8 break Python's module."""
    content = store(tmp_path / "a.db", (shapely.Point(1, 2), {}))
    damaged = content.replace(b"key TEXT UNIQUE, objtype", b"key TEXT UNIQUE( \xb6bjtype", 1)
    damaged = damaged.replace(b"tableannotations", b"table\xb6nnotations", 1)
    assert damaged != content
    with pytest.raises(InputFault) as caught:
        read(damaged)
    assert "[wrong-format]" in str(caught.value.findings[0])
    assert keys_of_store(io.BytesIO(damaged)) is None


def test_compressed_geometries_are_bounded_together(tmp_path):
    empty = shapely.Polygon([(0, 0)] * 20_000)
    data = store(tmp_path / "a.db", *[(empty, {"type": "tumour"})] * 10)
    assert len(data) < 100_000
    with pytest.raises(InputFault, match="more after decompression"):
        read(data, limits={"bytes_per_file": 1_000_000})


# --- GeoParquet and Xenium --------------------------------------------------------------------------------------------


def test_geoparquet_is_read_as_geopandas_writes_it(tmp_path):
    geopandas = pytest.importorskip("geopandas", exc_type=ImportError)
    shapes = [SQUARE, HOLED, TWO_PARTS]
    table = {"cell_id": ["x", "y", "z"], "cell_type": ["tumour", "stroma", "tumour"], "area": [1.5, 2, 3]}
    path = tmp_path / "a.parquet"
    geopandas.GeoDataFrame(table, geometry=shapes).to_parquet(path)
    (part,) = read(path.read_bytes()).parts
    assert part.class_id.tolist() == [1, 2, 1]
    assert part.source_id.tolist() == ["x", "y", "z"]
    assert [a.equals(b) for a, b in zip(polygons_of(part), shapes, strict=True)] == [True] * 3
    assert detect_format(path) == Detected("geometry_table", {"shape": "outline", "units": "px"})
    points = geopandas.GeoDataFrame({"type": ["stroma"]}, geometry=[shapely.Point(1.5, 2.5)])
    points.rename_geometry("centre").to_parquet(path)
    (part,) = read(path.read_bytes(), "point").parts
    assert part.points_xy.tolist() == [[1.5, 2.5]]
    assert detect_format(path).keys["shape"] == "point"


def test_qupath_through_geopandas_keeps_its_classes(tmp_path):
    geopandas = pytest.importorskip("geopandas", exc_type=ImportError)
    properties = {"objectType": "annotation", "classification": {"name": "stroma", "color": [1, 2, 3]}}
    feature = {"type": "Feature", "id": "u-1", "geometry": shapely.geometry.mapping(SQUARE), "properties": properties}
    frame = geopandas.GeoDataFrame.from_features([feature])
    for column in (frame.classification, frame.classification.map(json.dumps)):
        frame.assign(classification=column).to_parquet(tmp_path / "a.parquet")
        (part,) = read((tmp_path / "a.parquet").read_bytes()).parts
        assert part.class_id.tolist() == [2]


XENIUM = """"cell_id","vertex_x","vertex_y"
"aa-1",1.0,2.0
"aa-1",4.5,2.0
"aa-1",4.5,4.0
"ab-1",10,10
"ab-1",12,10
"ab-1",12,13
"""


def test_xenium_has_a_row_for_each_vertex_in_um(tmp_path):
    for data in (XENIUM.encode(), gzip.compress(XENIUM.encode())):
        (part,) = read(data, units="um", classes=ONE).parts
        assert part.source_id.tolist() == ["aa-1", "ab-1"]
        assert part.points_xy.tolist() == [[2, 4], [9, 4], [9, 8], [20, 20], [24, 20], [24, 26]]
        (tmp_path / "nucleus_boundaries.csv.gz").write_bytes(data)
        found = detect_format(tmp_path / "nucleus_boundaries.csv.gz")
        assert found == Detected("geometry_table", {"shape": "outline", "units": "um"})


def test_a_cell_of_xenium_may_have_several_nuclei():
    lines = XENIUM.replace('"ab-1"', '"aa-1"').strip().split("\n")
    text = "\n".join(f"{line},{label}" for line, label in zip(lines, ["label_id", *"111222"], strict=True))
    (part,) = read(text.encode(), units="um", classes=ONE).parts
    assert len(part) == 2


@pytest.mark.parametrize("kind", ["string", "dictionary", "binary", "int"])
def test_boundaries_of_xenium_in_parquet_are_those_in_csv(kind, tmp_path):
    pyarrow = pytest.importorskip("pyarrow", exc_type=ImportError)
    from pyarrow import parquet

    ids = ["aa-1"] * 3 + ["ab-1"] * 3
    column = {
        "string": pyarrow.array(ids),
        "dictionary": pyarrow.array(ids).dictionary_encode(),
        "binary": pyarrow.array(ids, pyarrow.binary()),
        "int": pyarrow.array([1, 1, 1, 2, 2, 2], pyarrow.uint32()),
    }[kind]
    x, y = np.array([[1, 4.5, 4.5, 10, 12, 12], [2, 2, 4, 10, 10, 13]], np.float32)
    parquet.write_table(
        pyarrow.table({"cell_id": column, "vertex_x": x, "vertex_y": y}), tmp_path / "a.parquet", row_group_size=4
    )
    (part,) = read((tmp_path / "a.parquet").read_bytes(), units="um", classes=ONE).parts
    assert part.source_id.tolist() == ([1, 2] if kind == "int" else ["aa-1", "ab-1"]) or kind == "int"
    assert part.points_xy.tolist() == [[2, 4], [9, 4], [9, 8], [20, 20], [24, 20], [24, 26]]
    assert detect_format(tmp_path / "a.parquet") == Detected("geometry_table", {"shape": "outline", "units": "um"})


def test_parquet_that_has_no_nuclei_is_told(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", exc_type=ImportError)
    from pyarrow import parquet

    def written(table, **more) -> bytes:
        file = io.BytesIO()
        parquet.write_table(pyarrow.table(table), file, **more)
        return file.getvalue()

    plain = written({"a": [1], "b": ["x"]})
    with pytest.raises(InputFault, match="Parquet with the columns 'a' and 'b'"):
        read(plain)
    (tmp_path / "a.parquet").write_bytes(plain)
    assert detect_format(tmp_path / "a.parquet") is None
    with pytest.raises(InputFault, match="that cannot be read"):
        whole = written({"geometry": [SQUARE.wkb] * 99, "type": ["tumour"] * 99})
        read(b"PAR1" + bytes(60) + whole[64:])
    with pytest.raises(InputFault, match="damaged WKB"):
        read(written({"geometry": [b"\1\3\0\0\0\xff\xff\xff\xff"], "type": ["tumour"]}))
    with pytest.raises(InputFault, match="without the column"):
        read(written({"vertex_x": [1.0], "vertex_y": [1.0]}))
    with pytest.raises(InputFault, match="vertices_per_file"):
        rows = {"vertex_x": [1.0] * 9, "vertex_y": [1.0] * 9, "cell_id": ["a"] * 9}
        read(written(rows), limits={"vertices_per_file": 8})


def nested(kind: int, order: str = "<", flags: int = 0, sibling: bytes = b"") -> bytes:
    """100,000 collections of a kind in each other, each behind a sibling."""
    head = bytes([order == "<"]) + struct.pack(f"{order}I", kind | flags) + bytes(4 * bool(flags & 1 << 29))
    return (head + struct.pack(f"{order}I", 1 + bool(sibling)) + sibling) * 100_000


@pytest.mark.parametrize("kind", [4, 5, 6, 7, 1006, 3007, 9, 10, 11, 12])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("flags", [0, 1 << 29, 1 << 31, 7 << 29])
def test_collections_in_collections_are_damaged_and_end_nothing(kind, order, flags):
    assert not is_flat(nested(kind, order, flags))
    assert not is_flat(nested(kind, order, flags, shapely.Point(1, 2).wkb))


@pytest.mark.parametrize("options", [{}, {"byte_order": 0}, {"include_srid": True}, {"flavor": "iso"}])
@pytest.mark.parametrize(
    "wkt",
    ["POINT (1 2)", "POINT Z (1 2 3)", "LINESTRING (1 2, 3 4)", "POLYGON ((0 0, 9 0, 9 9, 0 0), (1 1, 2 1, 2 2, 1 1))",
     "MULTIPOLYGON Z (((0 0 1, 9 0 1, 9 9 1, 0 0 1)), ((20 0 1, 29 0 1, 29 9 1, 20 0 1)))", "MULTIPOINT (1 2, 3 4)",
     "POLYGON EMPTY", "GEOMETRYCOLLECTION (POINT (1 2), POLYGON ((0 0, 9 0, 9 9, 0 0)))", "POINT ZM (1 2 3 4)"],
)  # fmt: skip
def test_what_shapely_writes_is_flat_until_it_is_cut(wkt, options):
    blob = shapely.to_wkb(shapely.set_srid(shapely.from_wkt(wkt), 4326), **{"output_dimension": 4, **options})
    assert is_flat(blob)
    assert not is_flat(blob[:-1])


def test_a_store_with_nested_wkb_is_refused_in_this_process(tmp_path):
    store(tmp_path / "a.db", (SQUARE, {"type": "tumour"}), compression=None)
    with closing(sqlite3.connect(tmp_path / "a.db")) as con:
        con.execute("UPDATE annotations SET geometry = ?", (nested(6),))
        con.commit()
    with pytest.raises(ConversionRefused, match="damaged WKB"):
        convert_file(tmp_path / "a.db", tmp_path / "out", "geojson")


def test_parquet_needs_an_extra_and_says_so(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InputFault, match=r"missing-extra.*'pyarrow' is not installed.*parquet"):
        read(b"PAR1" + bytes(40) + b"PAR1")


def test_parquet_is_a_perfect_submission_through_the_confined_process(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", exc_type=ImportError)
    side = {"vertices": "exact", "vanished": "drop", "origin": "pixel_corner", "files": "{case}.parquet"}
    monkeypatch.setitem(SIDES, "geometry_table parquet", {**side, "shape": "outline", "units": "um"})
    challenge, submission = write_challenge("geometry_table parquet", tmp_path)
    assert score_submission(challenge, submission, workers=1).value("segmentation.iou.pooled") == 1.0
    whole = (submission / "c1.parquet").read_bytes()
    (submission / "c1.parquet").write_bytes(whole[:-8] + b"\xff\xff\0\0PAR1")
    with pytest.raises(SubmissionRejected, match="wrong-format"):
        score_submission(challenge, submission, workers=1)


# --- commands ---------------------------------------------------------------------------------------------------------


def test_a_store_is_converted_without_a_word_of_its_format(tmp_path):
    store(tmp_path / "a.db", (SQUARE, {"type": "tumour"}), (HOLED, {"type": "stroma"}))
    convert_file(tmp_path / "a.db", tmp_path / "out", "geojson", origin="pixel_centre")
    features = json.loads((tmp_path / "out.geojson").read_text())["features"]
    assert [feature["properties"]["classification"]["name"] for feature in features] == ["tumour", "stroma"]
    assert [shapely.geometry.shape(f["geometry"]).equals(s) for f, s in zip(features, [SQUARE, HOLED], strict=True)]


def test_stores_are_compared(tmp_path, capsys):
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
        store(tmp_path / name / "a.db", (SQUARE, {"type": "tumour"}), (HOLED, {"type": "stroma"}))
    assert run(["compare", str(tmp_path / "mine"), str(tmp_path / "theirs")]) == 0
    printed = capsys.readouterr()
    assert "1 image as geometry_table, classes 'stroma' and 'tumour'" in (printed.out + printed.err).replace(
        "'tumour' and 'stroma'", "'stroma' and 'tumour'"
    )


def test_um_want_the_size_of_a_pixel(tmp_path, capsys):
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text(XENIUM)
    both = ["compare", str(tmp_path / "mine"), str(tmp_path / "theirs")]
    assert run(both) == 2
    assert "Give --spacing" in capsys.readouterr().err
    assert run([*both, "--spacing", "0.25", "--save-challenge", str(tmp_path / "made")]) == 0
    assert (tmp_path / "made" / "cases.csv").read_text().startswith("case,group,height,width,spacing_um")
    (tmp_path / "theirs" / "experiment.xenium").write_text('{"pixel_size": 0.2125}')
    capsys.readouterr()
    assert run(both) == 0
    printed = capsys.readouterr()
    assert "A pixel is 0.2125 um." in printed.out
    assert "experiment.xenium" not in printed.err
    (tmp_path / "theirs" / "experiment.xenium").write_text('{"pixel_size": "NaN"}')
    assert run(both) == 2
    arguments = ["convert", str(tmp_path / "mine" / "a.csv"), str(tmp_path / "out"), "--to", "geojson"]
    assert run(arguments) in (1, 2)
    assert "--spacing" in capsys.readouterr().err
    assert run([*arguments, "--spacing", "0.5"]) == 0
    features = json.loads((tmp_path / "out.geojson").read_text())["features"]
    assert features[0]["geometry"]["coordinates"][0][0] == [2, 4]
