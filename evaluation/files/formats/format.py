"""Inputs of readers besides the bytes of a file, and inputs for example files.

Examples contain three square nuclei along the upper edge of each image, of the first classes in turn. The kit
contains such files for participants, and the fuzzers start from them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Generic, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import TypeVar

from evaluation.challenge import FormatRules, LimitRules
from evaluation.files.decoding.annotations import Annotations, Collection
from evaluation.files.decoding.streams import COORDINATE_LIMIT
from evaluation.findings import Finding
from evaluation.findings.errors import InputFault
from nuclei_metrics.model import Bool, Case, ClassTable, Float64, Instances, Int64, Outlines, Points, um_to_px

# --- What a reader has to know besides the bytes. ---------------------------------------------------------------------


RulesT = TypeVar("RulesT", bound=FormatRules, default=FormatRules, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[RulesT]):
    """How to read a file.

    where       the file, and its case if it has one, for messages; in quotes
    name        name of the file; its suffix tells image formats apart
    rules       the rules of the side of the file
    classes     names of the classes in its files
    limits      bounds on what is read
    file_class  the class of all nuclei in the file, if the path contains it; 0: the file contains classes
    """

    where: str
    name: str
    rules: RulesT
    classes: ClassTable
    limits: LimitRules
    file_class: int = 0


# --- Coordinates in files: which numbers can be some, and what their units are worth. ---------------------------------


UM_PER_UNIT = {"um": 1.0, "mm": 1000.0}


def are_coordinates(numbers: Float64) -> Bool:
    """Return a mask of valid coordinates, between -1e9 and 1e9 px, not NaN. The result has the same shape."""
    return np.asarray(np.abs(numbers) <= COORDINATE_LIMIT)


def to_px(numbers: Float64, units: str | None, spacing_um: float | Float64 | None) -> Float64:
    """Convert coordinates of a file from px, um or mm to px by the pixel size, NaN if it is unknown.

    units       of the rules; None: px, the only units of the format
    spacing_um  one value, or an array that broadcasts
    """
    if units is None or units == "px":
        return numbers
    with np.errstate(over="ignore"):
        return np.asarray(um_to_px(numbers * UM_PER_UNIT[units], np.nan if spacing_um is None else spacing_um))


class CasesOnDemand(Mapping[str, Annotations]):
    """Annotations by the names of cases, in the order of a file: a case is decoded when it is requested."""

    def __init__(self, names: Sequence[str], decode: Callable[[str], Annotations]) -> None:
        self.names = names
        self.decode = decode

    def __getitem__(self, name: str) -> Annotations:
        if name not in self.names:
            raise KeyError(name)
        return self.decode(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def part_of(columns: Mapping[str, Any], rows: Any) -> dict[str, Any]:
    """Take some rows of all columns; a column that is None stays None."""
    return {name: None if column is None else column[rows] for name, column in columns.items()}


@contextmanager
def noting(faults: list[Finding]) -> Iterator[None]:
    """Add the faults of a part of a file to ``faults``, and continue after it."""
    try:
        yield
    except InputFault as error:
        faults += error.findings


def outlines_of_rings(
    points_xy: Float64,
    size: Int64,
    owner: npt.NDArray[np.integer[Any]] | None = None,
    is_hole: Bool | None = None,
    **columns: Any,
) -> Outlines:
    """Create outlines from concatenated rings, their vertex counts, and the columns of their nuclei.

    owner    which nucleus each ring is a part of; None: each ring is a nucleus
    is_hole  None: no ring is a hole
    """
    return Outlines(
        points_xy=points_xy,
        ring_start=np.concatenate([np.zeros(1, np.int64), np.cumsum(size)]),
        ring_instance=np.asarray(np.arange(len(size)) if owner is None else owner, np.int32),
        ring_is_hole=np.zeros(len(size), np.bool_) if is_hole is None else is_hole,
        **columns,
    )


# --- What the example files of all formats hold. ----------------------------------------------------------------------


SIDE_PX = 6
NUCLEI = 3

UInt16 = npt.NDArray[np.uint16]


def example_instances(case: Case, classes: int) -> Instances:
    """Create the nuclei of a case, squares that end where the image does."""
    height, width = case.shape_yx
    side = max(1, min(SIDE_PX, height, width // NUCLEI))
    count = min(NUCLEI, width // side)
    row, nucleus = np.mgrid[: min(side, height), :count].reshape(2, -1)
    start = row.astype(np.int64) * width + nucleus * ((width - side) // max(count - 1, 1))  # from edge to edge
    return Instances(
        shape_yx=case.shape_yx,
        class_id=(np.arange(count) % classes + 1).astype(np.int16),
        source_id=np.arange(1, count + 1),
        run_start=start,
        run_stop=start + side,
        run_instance=nucleus.astype(np.int32),
    )


class Example(Generic[RulesT]):
    """Synthetic nuclei in the coordinates, units and classes of the rules of a side.

    names   the classes of the challenge
    values  the number of each class: the first of ``class_values``, otherwise 1 for the first class and so on
    """

    def __init__(self, rules: RulesT, class_names: Sequence[str]) -> None:
        self.rules = rules
        self.names = tuple(class_names)
        numbers = rules.value("class_values") or {name: (index,) for index, name in enumerate(self.names, start=1)}
        self.values: dict[str, int] = {name: of_class[0] for name, of_class in numbers.items()}

    def instances(self, case: Case, class_name: str | None = None) -> Instances:
        """Return the nuclei of a case; only one class if its file contains one class."""
        from nuclei_metrics.instances.runs import select_instances

        everything = example_instances(case, len(self.names))
        if class_name is None:
            return everything
        return select_instances(everything, everything.class_id == self.names.index(class_name) + 1)

    def labels(self, case: Case, class_name: str | None = None) -> UInt16:
        instances = self.instances(case, class_name)
        flat = np.zeros(case.height * case.width, np.uint16)
        for start, stop, index in zip(instances.run_start, instances.run_stop, instances.run_instance, strict=True):
            flat[start:stop] = instances.source_id[index]
        return flat.reshape(case.shape_yx)

    def class_numbers(self, case: Case) -> UInt16:
        """Return the number of the class of every pixel, 0 background."""
        numbers = np.array([0, *(self.values[name] for _, name in self.classes_of(case))], np.uint16)
        return numbers[self.labels(case)]

    def classes_of(self, case: Case, class_name: str | None = None) -> list[tuple[int, str]]:
        """Return id and class of each nucleus."""
        instances = self.instances(case, class_name)
        pairs = zip(instances.source_id, instances.class_id, strict=True)
        return [(int(label), self.names[class_id - 1]) for label, class_id in pairs]

    def outlines(self, case: Case, class_name: str | None = None) -> Outlines:
        """Return outlines that cover exactly the pixels, on the grid of the rules."""
        from nuclei_metrics.instances.outlines import trace_outlines

        traced = trace_outlines(self.instances(case, class_name))
        shift = 0.5 if self.rules.value("origin") == "pixel_centre" else 0.0
        return replace(traced, points_xy=self.in_file(traced.points_xy - shift, case))

    def rings(self, case: Case, class_name: str | None = None) -> list[tuple[str, npt.NDArray[np.float64]]]:
        """Return class and vertices of each nucleus."""
        outlines = self.outlines(case, class_name)
        rings = np.split(outlines.points_xy, outlines.ring_start[1:-1])
        return [(self.names[of_class - 1], ring) for of_class, ring in zip(outlines.class_id, rings, strict=True)]

    def points(self, case: Case, class_name: str | None = None) -> Points:
        """Return centroids, in the units of the rules."""
        instances = self.instances(case, class_name)
        shift = 0.5 if self.rules.value("origin") == "pixel_corner" else 0.0
        points_xy = self.in_file(np.asarray(instances.centroid_pixels_yx()[:, ::-1], np.float64) + shift, case)
        return Points(points_xy, instances.class_id, instances.source_id)

    def marks(self, case: Case, class_name: str | None = None) -> list[tuple[str, float, float]]:
        """Return class, x and y of each centroid."""
        points = self.points(case, class_name)
        names = [self.names[class_id - 1] for class_id in points.class_id]
        return [(name, x, y) for name, (x, y) in zip(names, points.points_xy.tolist(), strict=True)]

    def in_file(self, points_xy: Float64, case: Case) -> Float64:
        """Convert points of the image, in px, to the origin and the unit of coordinates in files of these rules."""
        corner_xy = case.offset_xy if self.rules.coordinates == "slide" else (0.0, 0.0)
        units = self.rules.value("units")
        unit = 1.0 if units in (None, "px") or case.spacing_um is None else case.spacing_um / UM_PER_UNIT[units]
        return np.asarray((points_xy + corner_xy) * unit)


# --- Bytes of files. --------------------------------------------------------------------------------------------------


TIFF_SUFFIXES = (".tif", ".tiff")
MAT_HEADER = b"MATLAB 5.0 MAT-file, an n-ary mask"  # 116 bytes of text, where scipy writes the date


def csv_bytes(header: Sequence[str] | None, rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header] if header else [])
    writer.writerows(rows)
    return text.getvalue().encode()


def npy_bytes(array: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def mat_bytes(labels: npt.NDArray[Any]) -> bytes:
    """Write a MATLAB 5 file with the variable ``n_ary_mask``, without a date."""
    from scipy import io as scipy_io

    file = io.BytesIO()
    scipy_io.savemat(file, {"n_ary_mask": labels}, do_compression=True)
    return MAT_HEADER.ljust(116) + file.getvalue()[116:]


def tiff_bytes(pixels: npt.NDArray[Any]) -> bytes:
    """Write a TIFF of one deflated page; the same pixels always give the same bytes."""
    import tifffile  # slow to import, and readers share this file with writers

    file = io.BytesIO()
    tifffile.imwrite(file, pixels, compression="zlib", metadata=None, software=False)
    return file.getvalue()


def image_bytes(array: npt.NDArray[Any], name: str) -> bytes:
    """Write an array as the image file of a name or suffix."""
    from evaluation.files.decoding.pixels import suffix_of

    suffix = suffix_of(f"a{name}")
    if suffix == ".png":
        import imagecodecs

        return bytes(imagecodecs.png_encode(array))
    if suffix == ".npz":
        file = io.BytesIO()
        np.savez_compressed(file, labels=array)
        return file.getvalue()
    if suffix in (".mha", ".nii", ".nii.gz", ".nrrd"):
        import SimpleITK

        with TemporaryDirectory() as folder:  # it writes files of a name only
            path = Path(folder, f"labels{suffix}")
            SimpleITK.WriteImage(SimpleITK.GetImageFromArray(array, isVector=array.ndim == 3), str(path))
            return path.read_bytes()
    if suffix in TIFF_SUFFIXES:
        return tiff_bytes(array)
    return mat_bytes(array) if suffix == ".mat" else npy_bytes(array)


# --- Detection: the format of a file, and its images. -----------------------------------------------------------------


SizeYx = tuple[int, int]
LARGEST_SIDE = 1 << 24


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is known of a file of unknown format.

    kind   of its content
    what   description of an array or a MATLAB file
    head   of a text: its first bytes, at least a line, without gzip
    names  of the variables of a MATLAB file, or of the columns of a table in lower case
    shape  of a NumPy array
    """

    kind: Literal["image", "array", "matlab", "json", "xml", "text"]
    what: str = ""
    head: bytes = b""
    names: Set[str] = frozenset()
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Word:
    """Words in quotes in a JSON or XML file that tell its format, the first one in the file before others.

    texts    the words; ASCII
    keys     of the rules that they tell, such as ``shape``
    is_key   whether they decide before a colon only
    is_late  whether they decide only if no other word of the file does
    """

    texts: Sequence[str]
    keys: Mapping[str, str] = field(default_factory=dict)
    is_key: bool = False
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class ListedImage:
    """An image of a file of all cases.

    names    its possible names, the likeliest first; empty if the file only numbers images
    index    its index from 0, if the file contains nothing else about it
    size_yx  height and width, px; None if unknown
    id       its number in a COCO file, as used in results
    """

    names: tuple[str, ...]
    index: int | None = None
    size_yx: SizeYx | None = None
    id: str | None = None


def plain_size(size: object) -> SizeYx | None:
    """Return height and width, if they are two whole numbers above 0."""
    if type(size) is list and len(size) == 2 and all(type(side) is int and 1 <= side <= LARGEST_SIDE for side in size):
        return size[0], size[1]
    return None


@dataclass(frozen=True, slots=True)
class Format:
    """A format: a row of ``FORMATS`` of its module. docs/development.md states how to add one.

    words        description of the files for participants
    example      writes a valid file for an ``Example``, its cases (one, unless the file contains all) and the name of
                 its class, None if it contains all
    read         reads the annotations of a case from a stream, for a ``Request``, the case, and its further files,
                 by key
    read_all     reads annotations of all cases from a stream, for a ``Request`` and the cases by their names in such
                 files
    explain      returns sentences for participants about the special keys of this format
    detect       returns what in the ``Beginning`` of a file shows this format; "" if nothing does
    root         beginning of the root element of XML
    told_by      words that tell the format of JSON, or keys of its rules in XML with this root
    list_images  lists the images of a file of all cases
    find_size    finds the size of the image of a file of one case, for a stream, ``Request`` and the name of the image
    centred      the tools, "" for any, whose whole coordinates are taken for pixel centres without a challenge
    places       what tells places only together with the size of the image, and a further remedy; None: nothing
    """

    words: str
    example: Callable[..., bytes]
    read: Callable[..., Annotations] | None = None
    read_all: Callable[..., Collection] | None = None
    explain: Callable[[Any], list[str]] | None = None
    detect: Callable[[Beginning], str] | None = None
    root: bytes = b""
    told_by: Sequence[Word] = ()
    list_images: Callable[[BinaryIO, Request], list[ListedImage]] | None = None
    find_size: Callable[[BinaryIO, Request, str], SizeYx | None] | None = None
    centred: Sequence[str] = ()
    places: tuple[str, str] | None = None
