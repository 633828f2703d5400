"""Tables with a geometry for each nucleus; what is in a file, not its name, tells them apart.

::

    TIAToolbox's annotation store (.db)   SQLite: annotations(id, key, cx, cy, geometry, properties, …), metadata(key,
                                          value); geometry is WKB, compressed with zlib if metadata say so, and null for
                                          points, which are cx and cy; properties are JSON
    GeoParquet (.parquet)                 WKB in the primary column; also the shapes of SpatialData
    Xenium's boundaries (.parquet, .csv,  a row for each vertex: cell_id, vertex_x, vertex_y (um); newer ones have
    .csv.gz)                              label_id, since a cell may have several nuclei

TIAToolbox: ``annotation/storage.py`` in https://github.com/TissueImageAnalytics/tiatoolbox. https://geoparquet.org.
Xenium: https://www.10xgenomics.com/support/software/xenium-onboard-analysis. Parquet needs the extra ``imports``.
"""

from __future__ import annotations

import io
import json
import sqlite3
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice, pairwise
from typing import Any, BinaryIO

import numpy as np
import shapely

from evaluation.challenge.formats.geometry_table import GeometryTableRules
from evaluation.decoding.chunks import memory_told, plain_chunks, too_large, too_many
from evaluation.decoding.content import PARQUET_MAGIC, SQLITE_MAGIC
from evaluation.decoding.csv import numbers_of, read_table
from evaluation.decoding.json import resting_collector
from evaluation.decoding.polygons import Ring
from evaluation.decoding.streams import CutOff, inflated, stream_size
from evaluation.findings import listed, quote
from evaluation.findings.command_line import MissingExtra
from evaluation.findings.errors import InputFault, WrongUsage
from evaluation.findings.labels import OtherDocument
from evaluation.formats.annotation_lists import NUCLEI_AT_ONCE
from evaluation.formats.csv_columns import CLASS_COLUMNS
from evaluation.formats.example import Example, csv_bytes
from evaluation.formats.format import Format
from evaluation.formats.geojson import PROBABILITY_NAMES, FeatureReader
from evaluation.formats.request import Request
from evaluation.model import Annotations, Case, Float64, Int64

Properties = dict[str, Any]
Feature = tuple[object, Any, Properties]  # id, geometry, properties, as GeoJSON has them

OUTLINES, POINTS = (3, 6), (0, 4)  # numbers of types of geometries in shapely
POINT, LINE, POLYGON, COLLECTIONS = 1, 2, 3, (4, 5, 6, 7)  # the same in WKB
FOOTER_BYTES = 1 << 24
VERTEX_COLUMNS = ("vertex_x", "vertex_y")
NUCLEUS_COLUMNS = ("label_id", "cell_id")  # the first that is there tells the nuclei apart
BROKEN = "damaged WKB"
EXPECTED = "an annotation store of TIAToolbox, GeoParquet, or a table with cell_id, vertex_x and vertex_y"
WANTED = {"id", "key", "cell_id", "name", "classification", "objectType", *CLASS_COLUMNS, *PROBABILITY_NAMES, "prob"}
PLAIN = (str, int, float, bool)


def read_geometry_table(stream: BinaryIO, request: Request[GeometryTableRules], case: Case) -> Annotations:
    """The nuclei of a table in its order, by the same rules as those of GeoJSON; each row is a feature.

    The class is ``classification`` or the first of objectType, class, cell_type, label and type, among the properties
    or columns, that is the name of one. ``source_id`` is the key, the value of the columns id or cell_id, or the row.

    Raises InputFault: too-large, wrong-format, missing-extra, unreadable-file, invalid-csv, missing-column, and those
    of ``read_geojson`` about nuclei.
    """
    with memory_told(request.where), resting_collector():
        features = FeatureReader(request, case)
        found = features_of(stream, request)
        while some := list(islice(found, NUCLEI_AT_ONCE)):
            features.add([{"type": "Feature", "id": id, "geometry": of, "properties": said} for id, of, said in some])
        return features.annotations()


def features_of(stream: BinaryIO, request: Request) -> Iterator[Feature]:
    stream_size(stream, where=request.where, bytes_limit=request.limits.bytes_per_file)
    head = stream.read(len(SQLITE_MAGIC))
    stream.seek(0)
    if head == SQLITE_MAGIC:
        return features_of_store(stream, request)
    if head.startswith(PARQUET_MAGIC):
        return features_of_parquet(stream, request)
    return features_of_csv(stream, request)


def wrong_format(request: Request, seen: str) -> InputFault:
    return InputFault(OtherDocument(seen, EXPECTED).at(request.where))


# --- geometries -------------------------------------------------------------------------------------------------------


def geometries_of(values: Sequence[Any]) -> list[Any]:
    """WKB as geometries of GeoJSON, with a Ring for each ring; None stays, and what is no WKB becomes a text.

    >>> (geometry,) = geometries_of([shapely.box(0, 0, 2, 1).wkb])
    >>> geometry["type"], geometry["coordinates"][0][0].points_xy.tolist()
    ('MultiPolygon', [[2.0, 0.0], [2.0, 1.0], [0.0, 1.0], [0.0, 0.0], [2.0, 0.0]])
    """
    blobs = [value if type(value) is bytes and is_flat(value) else b"" for value in values]
    shapes = shapely.from_wkb(np.array([*blobs, None], object)[:-1], on_invalid="ignore")
    kinds = shapely.get_type_id(shapes)
    polygons, shape_of = shapely.get_parts(np.where(np.isin(kinds, OUTLINES), shapes, None), return_index=True)
    rings, polygon_of = shapely.get_rings(polygons, return_index=True)
    points_xy, ring_of = shapely.get_coordinates(rings, return_index=True)
    stop = np.searchsorted(ring_of, np.arange(len(rings)), "right")
    parts: list[list[Ring]] = [[] for _ in polygons]
    for polygon, ring in zip(polygon_of.tolist(), np.split(points_xy, stop)[:-1], strict=True):
        parts[polygon].append(Ring(ring))
    found: list[Any] = []
    for value, shape, kind in zip(values, shapes, kinds.tolist(), strict=True):
        if kind in OUTLINES:
            found.append({"type": "MultiPolygon", "coordinates": []})
        elif kind in POINTS:
            found.append({"type": "MultiPoint", "coordinates": shapely.get_coordinates(shape).tolist()})
        else:
            what = {"type": shape.geom_type} if shape is not None else BROKEN
            found.append(None if value is None else what)
    for number, part in zip(shape_of.tolist(), parts, strict=True):
        found[number]["coordinates"].append(part)
    return found


def is_flat(blob: bytes) -> bool:
    """Whether WKB is whole and has no collection in a collection: GEOS calls itself for each, until the stack is full.

    >>> is_flat(shapely.box(0, 0, 2, 1).wkb), is_flat(b"\\1\\7\\0\\0\\0\\1\\0\\0\\0" * 100_000)
    (True, False)
    """
    position, left, inside = 0, 1, False
    try:
        while left:
            left -= 1
            order = "<" if blob[position] else ">"
            (word,) = struct.unpack_from(f"{order}I", blob, position + 1)
            range_of_iso, kind = divmod(word & 0xFFFF, 1000)
            has_z, has_m = word >> 31 or range_of_iso in (1, 3), (word >> 30) & 1 or range_of_iso in (2, 3)
            vertex_bytes = 8 * (2 + bool(has_z) + bool(has_m))
            position += 5 + 4 * ((word >> 29) & 1)  # the number of a coordinate system
            if kind == POINT:
                position += vertex_bytes
                continue
            (count,) = struct.unpack_from(f"{order}I", blob, position)
            position += 4
            if kind == LINE:
                position += count * vertex_bytes
            elif kind == POLYGON:
                for _ in range(count):
                    (vertices,) = struct.unpack_from(f"{order}I", blob, position)
                    position += 4 + vertices * vertex_bytes
            elif inside or kind not in COLLECTIONS:
                return False
            else:
                left, inside = count, True
    except (IndexError, struct.error):
        return False
    return position <= len(blob)


def of_vertices(ids: Sequence[object], nucleus: Int64, points_xy: Float64, names: Sequence[Any]) -> Iterator[Feature]:
    """The nuclei of a table of vertices.

    ids      of the nuclei
    nucleus  int64 (V,) of which nucleus each vertex, float64 (V, 2), is
    names    of its class, at each vertex; none if the table has none
    """
    order = np.argsort(nucleus, kind="stable")
    start = np.searchsorted(nucleus[order], np.arange(len(ids) + 1))
    for number, (begin, end) in enumerate(pairwise(start.tolist())):
        if begin < end:
            properties = {"type": names[order[begin]]} if names else {}
            ring = Ring(points_xy[order[begin:end]])
            yield ids[number], {"type": "Polygon", "coordinates": ring}, properties


def with_class(said: Mapping[str, Any]) -> Properties:
    """The properties of a nucleus with its class where features of GeoJSON have it."""
    properties = {key: value for key, value in said.items() if type(value) in PLAIN}
    classification = said.get("classification")
    if type(classification) is str and classification.startswith("{"):  # what geopandas makes of QuPath's
        properties["classification"] = as_json(classification)
    elif type(classification) is dict:
        properties["classification"] = {"name": str(classification.get("name") or "")}
    found = next((said[name] for name in CLASS_COLUMNS if type(said.get(name)) is str), said.get("type"))
    return {**properties, "type": found} if type(found) in PLAIN else properties


def as_json(text: str) -> Any:
    """A value of JSON; the text itself if it is none."""
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return text


# --- TIAToolbox -------------------------------------------------------------------------------------------------------


# The second is what SQLite raises where its own message holds bytes of the file.
STORE_FAULTS = (sqlite3.Error, UnicodeDecodeError)


def open_store(data: bytes) -> sqlite3.Connection:
    """A database from its bytes, of which nothing can be done but reading tables. Raises sqlite3.Error."""
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(data[:18] + b"\1\1" + data[20:])  # a log that lies beside the file is not a part of it
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, len(data))
        database.text_factory = lambda text: text.decode("utf-8", "replace")
        for pragma in ("trusted_schema = off", "cell_size_check = on", "query_only = on"):
            database.execute(f"pragma {pragma}")
        reading = (sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT)
        database.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in reading else sqlite3.SQLITE_DENY)
    except STORE_FAULTS:
        database.close()
        raise
    return database


def keys_of_store(stream: BinaryIO) -> dict[str, str] | None:
    """Shape (that of the first nucleus), units and origin of an annotation store; None for other databases.

    TIAToolbox takes contours from OpenCV, whose vertices are pixels.
    """
    stream.seek(0)
    try:
        with closing(open_store(stream.read())) as database:
            row = database.execute("select geometry from annotations limit 1").fetchone()
    except STORE_FAULTS:
        return None
    return {"shape": "point" if row and row[0] is None else "outline", "units": "px", "origin": "pixel_centre"}


def features_of_store(stream: BinaryIO, request: Request) -> Iterator[Feature]:
    """The annotations of a store in the order in which they were added. Raises InputFault."""
    budget = request.limits.bytes_per_file
    try:
        with closing(open_store(stream.read())) as database:
            kind = database.execute("select type from sqlite_master where name = 'annotations'").fetchone()
            if kind != ("table",):
                raise wrong_format(request, "an SQLite database without a table 'annotations'")
            metadata = dict(database.execute("select key, value from metadata"))
            is_compressed = "zlib" in str(metadata.get("compression"))
            rows = database.execute("select key, cx, cy, geometry, properties from annotations order by id")
            while some := rows.fetchmany(NUCLEI_AT_ONCE):
                blobs = [row[3] for row in some]
                if is_compressed:
                    blobs = [plain_blob(blob, budget) for blob in blobs]
                    budget -= sum(len(blob) for blob in blobs if type(blob) is bytes)
                if budget < 0:
                    limit = f"at most {request.limits.bytes_per_file:,} bytes"
                    raise InputFault(too_large(request.where, "more after decompression", limit))
                for (key, x, y, blob, text), geometry in zip(some, geometries_of(blobs), strict=True):
                    said = as_json(text) if type(text) is str else None
                    point = {"type": "Point", "coordinates": [x, y]}
                    yield key, point if blob is None else geometry, with_class(said) if type(said) is dict else {}
    except STORE_FAULTS as error:
        raise wrong_format(request, f"an SQLite database that cannot be read ({quote(str(error), 80)})") from None


def plain_blob(blob: Any, budget: int) -> Any:
    """What zlib made shorter, at most one byte more than the budget; b"" if it is damaged."""
    try:
        return inflated(blob, max(budget, 0)) if type(blob) is bytes else blob
    except CutOff:
        return b""


# --- Parquet and CSV --------------------------------------------------------------------------------------------------


def keys_of_parquet(stream: BinaryIO) -> dict[str, str] | None:
    """Shape and units of a Parquet file by the words of its footer; None if it has no geometries."""
    size = stream.seek(0, 2)
    stream.seek(max(0, size - 8))
    tail = stream.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != PARQUET_MAGIC or length > min(size - 8, FOOTER_BYTES):
        return None
    stream.seek(size - 8 - length)
    footer = stream.read(length)
    if b"vertex_x" in footer:
        return {"shape": "outline", "units": "um"}
    is_point = b"Point" in footer and b"Polygon" not in footer
    return {"shape": "point" if is_point else "outline", "units": "px"} if b"geo" in footer else None


def features_of_parquet(stream: BinaryIO, request: Request) -> Iterator[Feature]:
    """The rows of a Parquet file. Raises InputFault."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputFault(MissingExtra("pyarrow", "imports").at(request.where)) from None
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # others reserve much address space
    try:
        file = parquet.ParquetFile(io.BytesIO(stream.read()))
        names, metadata = file.schema_arrow.names, file.schema_arrow.metadata or {}
        if set(VERTEX_COLUMNS) <= set(names):
            yield from vertices_of_parquet(file, names, request)
            return
        geo = as_json(metadata.get(b"geo", b"").decode("utf-8", "replace"))
        column = geo.get("primary_column") if type(geo) is dict else "geometry"
        if column not in names:
            raise wrong_format(request, f"Parquet with the columns {listed(names, last='and')}")
        chosen = [name for name in names if name in WANTED and name != column]
        for batch in file.iter_batches(NUCLEI_AT_ONCE, columns=[column, *chosen], use_threads=False):
            rows = batch.select(chosen).to_pylist()
            for row, geometry in zip(rows, geometries_of(batch.column(column).to_pylist()), strict=True):
                own = next((row[name] for name in ("id", "key", "cell_id") if row.get(name) is not None), None)
                yield own, geometry, with_class(row)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise wrong_format(request, f"Parquet that cannot be read ({quote(str(error), 80)})") from None


def vertices_of_parquet(file: Any, names: Sequence[str], request: Request) -> Iterator[Feature]:
    """The nuclei of a Parquet file with a row for each vertex. Raises InputFault, ArrowException."""
    import pyarrow

    check_vertices(file.metadata.num_rows, request)
    of_nucleus = next((name for name in NUCLEUS_COLUMNS if name in names), None)
    if of_nucleus is None:
        raise wrong_format(request, f"Parquet without the column {listed(NUCLEUS_COLUMNS)}")
    of_class = next((name for name in CLASS_COLUMNS if name in names), None)
    chosen = [*VERTEX_COLUMNS, of_nucleus, *([of_class] if of_class else [])]
    table = file.read(columns=chosen, use_threads=False).unify_dictionaries().combine_chunks()
    xy = [table.column(name).cast(pyarrow.float64()).to_numpy() for name in VERTEX_COLUMNS]
    codes = table.column(of_nucleus).combine_chunks()
    codes = codes if pyarrow.types.is_dictionary(codes.type) else codes.dictionary_encode()
    ids = [key.decode("utf-8", "replace") if type(key) is bytes else key for key in codes.dictionary.to_pylist()]
    nucleus = codes.indices.cast(pyarrow.int64()).fill_null(len(ids)).to_numpy()
    classes = table.column(of_class).to_pylist() if of_class else []
    return of_vertices([*ids, None], nucleus, np.column_stack(xy), classes)


def features_of_csv(stream: BinaryIO, request: Request) -> Iterator[Feature]:
    """The nuclei of a CSV file with a row for each vertex, compressed with gzip or not. Raises InputFault."""
    limits = request.limits
    data = io.BytesIO(b"".join(plain_chunks(stream, request.where, limits.bytes_per_file)))
    most = limits.vertices_per_file
    table = read_table(data, where=request.where, bytes_limit=limits.bytes_per_file, rows_limit=most)
    xy = [numbers_of(table.cells(table.need(name))) for name in VERTEX_COLUMNS]
    ids, nucleus = table.categories(table.need(*NUCLEUS_COLUMNS))
    of_class = table.find(CLASS_COLUMNS)
    names, name_of_row = ([], np.empty(0, np.int64)) if of_class is None else table.categories(of_class)
    return of_vertices(ids, nucleus, np.column_stack(xy), [names[index] for index in name_of_row.tolist()])


def check_vertices(rows: int, request: Request) -> None:
    if rows > (limit := request.limits.vertices_per_file):
        raise InputFault(too_many(request.where, "vertices", limit, "vertices_per_file"))


# --- examples ---------------------------------------------------------------------------------------------------------


def example(made: Example[GeometryTableRules], cases: Sequence[Case], class_name: str | None) -> bytes:
    """The kind of table that the suffix in ``files`` tells: .parquet, .csv, else an annotation store."""
    marks, name = made.marks(cases[0], class_name), made.rules.files.lower()
    shapes = [shapely.Point(x, y) for _, x, y in marks]
    if not made.rules.are_points:
        shapes = [shapely.Polygon(ring) for _, ring in made.rings(cases[0], class_name)]
    classes = [of_class for of_class, _, _ in marks]
    if name.endswith(".csv"):
        points, nucleus = shapely.get_coordinates(shapes, return_index=True)
        rows = [[f"cell-{n + 1}", *xy, classes[n]] for n, xy in zip(nucleus.tolist(), points.tolist(), strict=True)]
        return csv_bytes(["cell_id", *VERTEX_COLUMNS, "class"], rows)
    if name.endswith(".parquet"):
        return parquet_bytes(shapes, classes)
    with closing(sqlite3.connect(":memory:")) as store:
        store.execute("create table metadata(key text unique, value text)")
        store.execute("insert into metadata values ('version', '\"1.0.1\"'), ('compression', '\"zlib\"')")
        store.execute(
            "create table annotations(id integer primary key, key text unique, objtype text, cx integer not null, "
            "cy integer not null, geometry blob, properties text, area integer not null)"
        )
        for number, (shape, of_class) in enumerate(zip(shapes, classes, strict=True), start=1):
            blob = None if made.rules.are_points else zlib.compress(shape.wkb)
            middle = shape.centroid
            xy = (middle.x, middle.y) if made.rules.are_points else (int(middle.x), int(middle.y))
            row = (number, f"{number}", shape.geom_type, *xy, blob, json.dumps({"type": of_class}), int(shape.area))
            store.execute("insert into annotations values (?, ?, ?, ?, ?, ?, ?, ?)", row)
        store.commit()
        return store.serialize()


def parquet_bytes(shapes: Sequence[Any], classes: Sequence[str]) -> bytes:
    """GeoParquet 1.0. Raises WrongUsage if pyarrow is not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise WrongUsage(MissingExtra("pyarrow", "imports").at("GeoParquet")) from None
    column = {"encoding": "WKB", "geometry_types": sorted({shape.geom_type for shape in shapes}), "crs": None}
    geo = {"version": "1.0.0", "primary_column": "geometry", "columns": {"geometry": column}}
    table = pyarrow.table({"class": list(classes), "geometry": [shape.wkb for shape in shapes]})
    file = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), file)
    return file.getvalue()


FORMAT = Format(
    words="tables with a geometry for each nucleus: TIAToolbox's annotation stores, GeoParquet, or Xenium's boundaries",
    read=read_geometry_table,
    example=example,
)
