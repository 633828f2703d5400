"""Formats that ``compare`` and ``convert`` import: each read by a library, and written as label images or GeoJSON.

::

    OME-Zarr          zarr       a ZIP; versions 2 and 3                               a label image
    HDF5              h5py       a dataset, also of MATLAB 7.3                         a label image
    pickled .npy      none       the array ``masks``, as in cellpose's ``_seg.npy``    a label image
    ImageJ's ROIs     roifile    the ZIP of the ROI manager, or a .roi file            GeoJSON
    GeoParquet        pyarrow    WKB in the primary column                             GeoJSON

They are not formats of references or submissions, and the container image has none of these libraries. A library
trusts the header of a file. So codecs, lengths and sizes are checked first, and all work runs in the confined
process of ``decoding.guard`` with bounded memory and time.

https://ngff.openmicroscopy.org, https://geoparquet.org; ``ij/io/RoiDecoder.java`` in https://github.com/imagej/ImageJ;
``masks_flows_to_seg`` in https://github.com/MouseLand/cellpose/blob/main/cellpose/io.py
"""

from __future__ import annotations

import json
import math
import pickle
import re
import struct
import warnings
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt
import orjson
import shapely

from evaluation.files.decoding.label_array import check_dtype
from evaluation.files.decoding.mat_file import HDF5_START
from evaluation.files.decoding.pixels import ID_NAMES, check_directory, read_npy_header
from evaluation.files.decoding.streams import (
    EMPTY_ZIP_MAGIC,
    HDF5_MAGIC,
    NPY_MAGIC,
    PARQUET_MAGIC,
    SMALLER_INTEGERS,
    SPLIT,
    ZARR,
    ZIP_FAULTS,
    ZIP_MAGIC,
    CutOff,
    Damaged,
    Plain,
    check_bytes,
    damage_told,
    is_of_zarr,
)
from evaluation.files.formats.headers import CLASS_COLUMNS
from evaluation.findings import quote
from evaluation.findings.errors import refused

JsonObject = dict[str, Any]
Choice = TypeVar("Choice")

STORE_DIRECTORY_BYTES = 1 << 24  # of the list of members of a ZIP
METADATA_BYTES = 1 << 20
# What the libraries raise for what they cannot read, besides errors of their own.
LIBRARY_FAULTS = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, OSError, pickle.UnpicklingError,
    RuntimeError, shapely.errors.ShapelyError, struct.error, TypeError, ValueError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to a reader.

    where        the file, for messages
    name         of the file
    dataset      the path of the array, if a file has several; None: the only candidate
    bytes_limit  of the array, and of unpacked data
    """

    where: str
    name: str
    dataset: str | None
    bytes_limit: int


def kind_of(path: Path) -> str | None:
    """Name the import that a file is, by its content; None for any other."""
    with path.open("rb") as stream:
        head = stream.read(HDF5_START + len(HDF5_MAGIC))
        stream.seek(0)
        if HDF5_MAGIC in (head[: len(HDF5_MAGIC)], head[HDF5_START:]):
            return "hdf5"
        for kind, magic in {"geoparquet": PARQUET_MAGIC, "imagej_roi": ROI_MAGIC}.items():
            if head.startswith(magic):
                return kind
        try:
            if head.startswith(NPY_MAGIC):
                return "cellpose" if read_npy_header(Plain(stream)).holds_object else None
            if head.startswith((ZIP_MAGIC, EMPTY_ZIP_MAGIC)):
                names = [member.filename for member in check_directory(stream, STORE_DIRECTORY_BYTES)]
                stores = find_stores(names)
                if len(stores) == 1 or (stores and path.name.lower().endswith(".zarr.zip")):
                    return "ome_zarr"
                names = [name for name in names if not _is_beside_rois(name)]
                return "imagej_roi" if names and all(name.endswith(".roi") for name in names) else None
        except (CutOff, Damaged, *ZIP_FAULTS):
            return None
    return None


def read_import(streams: Sequence[BinaryIO], kind: str, name: str, dataset: str | None, limit: int) -> Iterator[Any]:
    """Read an array of labels, or GeoJSON as a text, in the confined process. Raises InputFault."""
    asked = Asked(quote(name, 120), name, dataset, limit)
    words, read = READERS[kind]
    fix = SPLIT if kind in ("imagej_roi", "geoparquet") else SMALLER_INTEGERS
    with _faults_told(asked.where, words, fix), warnings.catch_warnings(action="ignore"):
        content = read(streams[0], asked)
        if isinstance(content, np.ndarray):
            check_dtype(content.dtype, where=asked.where)
            while content.ndim > 2 and 1 in (content.shape[0], content.shape[-1]):  # axes of time, channel and depth
                content = content[0] if content.shape[0] == 1 else content[..., 0]
            yield content
        else:
            yield orjson.dumps({"type": "FeatureCollection", "features": list(content)}).decode()


@contextmanager
def _faults_told(where: str, words: str, fix: str) -> Iterator[None]:
    """Convert an error of a library to a finding with its words; ``fix``: for a file that needs too much memory."""
    try:
        with damage_told(where, words, fix=fix):
            try:
                yield
            except CutOff:
                raise
            except Damaged as error:
                raise refused("wrong-format", where, wording="damaged-import", expected=words, why=str(error)) from None
    except LIBRARY_FAULTS as error:
        why = quote(str(error) or type(error).__name__, 120)
        raise refused("wrong-format", where, wording="damaged-import", expected=words, why=why) from None


def library(name: str, where: str) -> Any:
    """Import a library of the extra ``imports``. Raises InputFault if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise refused("missing-extra", where, wording="imports", package=package, extra="imports") from None


def _only_one(chosen: Sequence[Choice], asked: Asked, what: str, expected: str, names: Sequence[str]) -> Choice:
    """Choose the data to read. Raises InputFault ("no-mask-variable") if the choice is ambiguous.

    what, names   "array" or "dataset", and the names of all that there are
    """
    if len(chosen) != 1:
        wanted = expected if asked.dataset is None else f"the {what} {quote(asked.dataset)}"
        wording = "no-array" if what == "array" else "no-dataset"
        raise refused("no-mask-variable", asked.where, wording=wording, expected=wanted, names=names)
    return chosen[0]


# --- OME-Zarr ---------------------------------------------------------------------------------------------------------

CALLED_ZARR = re.compile(r"(?:[^/]+/)*?[^/]*\.zarr(?=/|$)", re.IGNORECASE)
# zarr also knows the codec "pickle", which runs what is in a chunk.
CODECS = frozenset({"bytes", "transpose", "sharding_indexed", "crc32c", "gzip", "zlib", "zstd", "blosc", "lz4", "bz2"})


def _read_zarr(stream: BinaryIO, asked: Asked) -> npt.NDArray[Any]:
    """Read the array at the path ``dataset``, or the only array at full size: labels before images."""
    zarr = library("zarr", asked.where)
    zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1})  # each thread takes address space
    members = {info.filename: info for info in check_directory(stream, STORE_DIRECTORY_BYTES)}
    with zipfile.ZipFile(stream) as archive:
        arrays = dict(_arrays_of(archive, members))
        if asked.dataset is not None:
            wanted = asked.dataset.strip("/")
            chosen = [name for name in arrays if name == wanted or name.endswith(f"/{wanted}")]
        else:
            full = [name for name in arrays if not re.fullmatch(r"(.*/)?[1-9][0-9]*", name)] or [*arrays]
            chosen = [name for name in full if "labels" in name.split("/")] or full
        name = _only_one(chosen, asked, "array", "one array at full size", [*arrays])
        own = {member.removeprefix(f"{name}/"): info for member, info in members.items() if _is_below(member, name)}
        check_bytes(sum(info.file_size for info in own.values()), "chunks", asked.where, asked.bytes_limit)
        content = {member: archive.read(info) for member, info in own.items()}
    _check_codecs(arrays[name], content)
    buffer = zarr.core.buffer.default_buffer_prototype().buffer.from_bytes
    array = zarr.open_array(zarr.storage.MemoryStore({key: buffer(data) for key, data in content.items()}), mode="r")
    check_bytes(math.prod(array.shape) * array.dtype.itemsize, "an array", asked.where, asked.bytes_limit)
    return np.asarray(array[...])


def _arrays_of(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> Iterator[tuple[str, Any]]:
    """Yield the folder and the metadata of each array of a store."""
    for name, info in members.items():
        folder, _, file = name.rpartition("/")
        if file in (".zarray", "zarr.json"):
            if info.file_size > METADATA_BYTES:
                raise Damaged(f"metadata of {info.file_size:,} bytes")
            metadata = orjson.loads(archive.read(info))
            if file == ".zarray" or metadata.get("node_type") == "array":
                yield folder, metadata


def _check_codecs(metadata: JsonObject, content: Mapping[str, bytes]) -> None:
    """Refuse codecs that are unknown, and chunks of blosc with a wrong length.

    Raises Damaged, CutOff: zarr makes pixels of a chunk that is cut.
    """
    if unknown := set(_codecs_of([metadata.get(key) for key in ("codecs", "compressor", "filters")])) - CODECS:
        raise Damaged(f"the codec {quote(min(unknown))}, which is not read")
    outermost = metadata["codecs"][-1:] if "codecs" in metadata else metadata.get("compressor")
    for name, chunk in content.items() if next(_codecs_of(outermost), "") == "blosc" else ():
        is_chunk = not is_of_zarr(name) and not name.endswith((".zattrs", ".zmetadata", "/"))
        if is_chunk and int.from_bytes(chunk[12:16], "little") != len(chunk):
            raise CutOff


def _codecs_of(metadata: Any) -> Iterator[str]:
    """Yield the names of codecs, including nested codecs."""
    for value in metadata.values() if isinstance(metadata, dict) else metadata if isinstance(metadata, list) else ():
        yield from _codecs_of(value)
    if isinstance(metadata, dict):
        yield from (str(metadata[key]).removeprefix("numcodecs.") for key in ("id", "name") if key in metadata)


def find_stores(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Find the names of the parts of each Zarr store by the folder that it is; a store in a store is a part of it.

    The folder is called ``….zarr``, or is the topmost one with metadata.

    >>> find_stores(["P1/a.zarr/.zgroup", "P1/a.zarr/0/.zarray", "b.zarr/notes.txt"])
    {'P1/a.zarr': ('P1/a.zarr/.zgroup', 'P1/a.zarr/0/.zarray')}
    """
    folders = {name.rpartition("/")[0] for name in names if is_of_zarr(name)}
    called = {match[0] if (match := CALLED_ZARR.match(folder)) else folder for folder in folders}
    tops: list[str] = []
    for folder in sorted(called, key=_in_folders):  # what is in a folder comes right behind it
        if not (tops and _is_below(folder, tops[-1])):
            tops.append(folder)
    keys = [_in_folders(top) for top in tops]
    parts: dict[str, list[str]] = {top: [] for top in tops}
    for name in names:
        place = bisect_right(keys, _in_folders(name)) - 1
        if place >= 0 and _is_below(name, tops[place]):
            parts[tops[place]].append(name)
    return {top: tuple(parts[top]) for top in sorted(parts)}


def _in_folders(name: str) -> str:
    """Return a key by which names are sorted folder by folder."""
    return name.replace("/", "\0")


def _is_below(name: str, folder: str) -> bool:
    """Return whether a path is in a folder; "" contains all."""
    return not folder or name.startswith(f"{folder}/")


def is_store(path: Path) -> bool:
    """Return whether a folder is a Zarr store."""
    return path.is_dir() and any((path / name).is_file() for name in ZARR)


# --- HDF5 -------------------------------------------------------------------------------------------------------------


def _read_hdf5(stream: BinaryIO, asked: Asked) -> npt.NDArray[Any]:
    """Read the array at the path ``dataset``, otherwise the only array, or the array with a usual name. Links are not
    followed; in files of MATLAB the axes are in reverse order."""
    h5py = library("h5py", asked.where)
    datasets: dict[str, Any] = {}

    def visit(name: str, member: Any) -> None:
        if isinstance(member, h5py.Dataset) and not name.startswith("#"):  # what MATLAB keeps beside its variables
            datasets[name] = member

    h5py.File(stream, "r", driver="fileobj", locking=False).visititems(visit)
    arrays = [name for name, dataset in datasets.items() if dataset.dtype.kind in "biuf"]
    if asked.dataset is not None:
        chosen = [name for name in arrays if name == asked.dataset.strip("/")]
    else:
        arrays = [name for name in arrays if datasets[name].ndim > 1]
        chosen = [name for name in arrays if PurePosixPath(name).name in ID_NAMES] if len(arrays) > 1 else arrays
    expected = f"one array, or one with a name such as {quote(ID_NAMES[0])}"
    dataset = datasets[_only_one(chosen, asked, "dataset", expected, [*datasets])]
    if dataset.is_virtual or dataset.external:
        raise Damaged("data in another file")
    check_bytes(dataset.size * dataset.dtype.itemsize, "an array", asked.where, asked.bytes_limit)
    array = np.asarray(dataset[()])
    return array.T if "MATLAB_class" in dataset.attrs else array


# --- cellpose ---------------------------------------------------------------------------------------------------------

RECONSTRUCT = re.compile(r"numpy\.(_core|core)\.multiarray\._reconstruct")
NUMBER_TYPES = re.compile(r"b1|[iuf][1248]")


@dataclass(slots=True)
class _PickledCall:
    """A call recorded from a pickle and never executed: name, arguments, state."""

    name: str
    args: tuple[Any, ...]
    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


@dataclass(frozen=True, slots=True)
class _PickledName:
    """A function or a class that a pickle names."""

    name: str

    def __call__(self, *args: Any) -> _PickledCall:
        return _PickledCall(self.name, args)


class _Inert(pickle._Unpickler):
    """An unpickler that runs nothing: names in a pickle are not imported, calls are recorded.

    The unpickler in Python, because its memory grows only with the file.
    """

    def find_class(self, module: str, name: str) -> _PickledName:
        return _PickledName(f"{module}.{name}")


def read_cellpose(stream: BinaryIO, asked: Asked) -> npt.NDArray[Any]:
    """Read the array ``masks`` of the dictionary in a .npy file, built from the bytes that it has there."""
    read_npy_header(Plain(stream))
    held, *others = _Inert(stream).load().state[4]
    if others or not isinstance(held, dict) or "masks" not in held:
        raise refused("pickle", asked.where, wording="without-masks")
    call = held["masks"]
    _, shape, dtype, fortran, data = call.state
    _, order, *_ = dtype.state
    (kind, *_) = dtype.args
    if not RECONSTRUCT.fullmatch(call.name) or dtype.name != "numpy.dtype" or not NUMBER_TYPES.fullmatch(kind):
        raise Damaged("masks that are no array of numbers")
    numbers = np.dtype(("<" if order == "|" else order) + kind)
    if not all(type(side) is int and side >= 0 for side in shape) or type(data) is not bytes:
        raise Damaged("masks without a usable shape")
    if math.prod(shape) * numbers.itemsize != len(data):
        raise Damaged("masks whose size differs from their header")
    return np.frombuffer(data, numbers).reshape(shape, order="F" if fortran else "C")


# --- ImageJ -----------------------------------------------------------------------------------------------------------

ROI_MAGIC = b"Iout"
HEADER2_BYTES = 52
CIRCLE = shapely.get_coordinates(shapely.Point(0.5, 0.5).buffer(0.5, quad_segs=32))  # 0.04% too small


def _read_rois(stream: BinaryIO, asked: Asked) -> Iterator[JsonObject]:
    """Yield the ROIs in the order of the ZIP: the group is the class (0: no class), and the name is the id."""
    roifile = library("roifile", asked.where)
    for file, data in _roi_files(stream, asked):
        try:
            _check_length_of_roi(data)
            roi = roifile.ImagejRoi.frombytes(data)
            geometry = _geometry_of_roi(roi)
        except (CutOff, Damaged, *LIBRARY_FAULTS) as error:
            why = "it is cut off" if isinstance(error, CutOff) else str(error)
            raise Damaged(f"{quote(file, 120)}, which is no ROI that can be read ({quote(why, 80)})") from None
        properties = {"classification": {"name": str(roi.group)}} if roi.group else {}
        own = roi.name or PurePosixPath(file).stem
        yield {"type": "Feature", "id": own, "geometry": geometry, "properties": properties}


def _roi_files(stream: BinaryIO, asked: Asked) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of each ROI."""
    if stream.read(len(ROI_MAGIC)) == ROI_MAGIC:
        stream.seek(0)
        yield asked.name, stream.read()
        return
    check_directory(stream, STORE_DIRECTORY_BYTES)
    with zipfile.ZipFile(stream) as archive:
        members = [member for member in archive.infolist() if not _is_beside_rois(member.filename)]
        check_bytes(sum(member.file_size for member in members), "ROIs", asked.where, asked.bytes_limit)
        for member in members:
            yield member.filename, archive.read(member)


def _is_beside_rois(name: str) -> bool:
    return name.endswith("/") or name.startswith("__MACOSX/") or PurePosixPath(name).name.startswith(".")


def _check_length_of_roi(data: bytes) -> None:
    """Raise CutOff if the second header, the name or the properties are not there: roifile leaves them out then."""
    (header2,) = struct.unpack_from(">i", data, 60)
    if header2 > 0:
        if len(data) < header2 + HEADER2_BYTES:
            raise CutOff
        for offset in (16, 40):
            start, length = struct.unpack_from(">ii", data, header2 + offset)
            if start > 0 and length > 0 and start + 2 * length > len(data):
                raise CutOff


def _geometry_of_roi(roi: Any) -> JsonObject:
    """Create a geometry of GeoJSON; shapes other than areas and points have the name of their type."""
    kind, areas = roi.roitype.name, ("POLYGON", "FREEHAND", "TRACED", "RECT", "OVAL")
    if kind == "POINT":
        return {"type": "MultiPoint", "coordinates": roi.coordinates().tolist()}
    if kind not in areas or roi.subtype.name in ("TEXT", "ARROW", "IMAGE"):
        return {"type": kind if kind not in areas else roi.subtype.name}
    if roi.multi_coordinates is not None:
        rings = [shapely.Polygon(ring) for ring in roi.coordinates(multi=True) if len(ring) > 2]
        return shapely.geometry.mapping(reduce(shapely.symmetric_difference, rings))  # type: ignore[no-any-return]
    if kind not in ("RECT", "OVAL"):
        return {"type": "Polygon", "coordinates": [roi.coordinates().tolist()]}
    if kind == "RECT" and roi.rounded_rect_arc_size > 0:
        return {"type": "ROUNDED_RECT"}
    left, top, right, bottom = roi.left, roi.top, roi.right, roi.bottom
    if roi.subpixelrect:  # roifile's coordinates() takes the whole pixels
        left, top, right, bottom = roi.xd, roi.yd, roi.xd + roi.widthd, roi.yd + roi.heightd
    ring = CIRCLE if kind == "OVAL" else np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    return {"type": "Polygon", "coordinates": [(ring * (right - left, bottom - top) + (left, top)).tolist()]}


# --- GeoParquet -------------------------------------------------------------------------------------------------------

ID_COLUMNS_OF_SHAPES = ("id", "key", "cell_id")
SCALARS = (str, int, float, bool)


def _read_geoparquet(stream: BinaryIO, asked: Asked) -> Iterator[JsonObject]:
    """Create a feature of each row, with the other columns as properties."""
    pyarrow, parquet = library("pyarrow", asked.where), library("pyarrow.parquet", asked.where)
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # others reserve much address space
    try:
        file = parquet.ParquetFile(BytesIO(stream.read()), page_checksum_verification=True)
        geo = json.loads((file.schema_arrow.metadata or {}).get(b"geo", b"{}"))
        column = geo.get("primary_column", "geometry")
        encoding = geo.get("columns", {}).get(column, {}).get("encoding", "WKB")
        if column not in file.schema_arrow.names or encoding != "WKB":
            raise Damaged(f"a table without WKB in a column {quote(str(column))}")
        for batch in file.iter_batches(use_threads=False):
            shapes = shapely.from_wkb(batch.column(column).to_pylist())
            for row, shape in zip(batch.drop_columns([column]).to_pylist(), shapes, strict=True):
                own = next((row[name] for name in ID_COLUMNS_OF_SHAPES if type(row.get(name)) in (str, int)), None)
                geometry = None if shape is None else shapely.geometry.mapping(shape)
                yield {"type": "Feature", "id": own, "geometry": geometry, "properties": _properties_of_row(row)}
    except pyarrow.ArrowException as error:
        raise Damaged(quote(str(error), 120)) from None


def _properties_of_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a nucleus, with its class where features of GeoJSON have it."""
    properties = {name: value for name, value in row.items() if type(value) in SCALARS}
    said = row.get("classification")
    if type(said) is str and said.startswith("{"):  # what geopandas makes of QuPath's
        properties["classification"] = json.loads(said)
    elif type(said) is dict:
        properties["classification"] = {"name": str(said.get("name") or "")}
    name = next((row[name] for name in CLASS_COLUMNS if type(row.get(name)) is str), row.get("type"))
    return {**properties, "type": name} if type(name) in SCALARS else properties


READERS: dict[str, tuple[str, Callable[[BinaryIO, Asked], Any]]] = {
    "ome_zarr": ("a Zarr store", _read_zarr),
    "hdf5": ("an HDF5 file", _read_hdf5),
    "cellpose": ("a pickled .npy, as cellpose's '_seg.npy' is", read_cellpose),
    "imagej_roi": ("ROIs of ImageJ", _read_rois),
    "geoparquet": ("GeoParquet", _read_geoparquet),
}
