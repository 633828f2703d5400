"""ROIs of ImageJ and Fiji: the ZIP that the ROI manager saves, with a .roi file for each nucleus, or one .roi file.

A ROI is an outline (polygon, freehand, traced, oval, rectangle, composite) or points; lines, angles and texts cannot be
a nucleus. Its group is the number of its class, its name the id of the nucleus.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import BinaryIO

import numpy as np

from evaluation.challenge.formats.imagej_roi import ImagejRoiRules
from evaluation.decoding.content import EMPTY_ZIP_MAGIC, ZIP_MAGIC, check_content
from evaluation.decoding.imagej_roi import POINT, POLYGON, ROI_MAGIC, SUBPIXEL, Roi, read_roi
from evaluation.decoding.npy import ZIP_FAULTS, check_directory
from evaluation.decoding.streams import CutOff, Damaged, damage_told, stream_size, too_large
from evaluation.findings.annotations import OtherRoi, RoiLeftOut
from evaluation.findings.errors import InputFault
from evaluation.findings.json_files import DamagedRoi
from evaluation.formats.annotation_lists import Faults, NucleusLists
from evaluation.formats.classes import SKIPPED, UNKNOWN
from evaluation.formats.example import Example
from evaluation.formats.format import Format
from evaluation.formats.request import Request
from evaluation.model import Annotations, Case

DIRECTORY_BYTES = 1 << 24  # of some 200,000 nuclei
LARGEST_ROI = 1 << 24
NUCLEI_AT_ONCE = 1 << 12
KIND = "a ZIP of ImageJ's ROIs"


def read_imagej_roi(stream: BinaryIO, request: Request[ImagejRoiRules], case: Case) -> Annotations:
    """The ROIs in the order of the ZIP: areas, or with ``shape = "point"`` points, each of which is a nucleus.

    - Ovals and curves become polygons. A composite ROI is one nucleus with parts and holes.
    - A group is looked up in ``class_values``; 0 is no class.
    - What is of the other shape, or neither, is refused, or left out with ``other_shapes = "skip"``.

    Raises InputFault with all that is wrong: too-large, wrong-format, unreadable-file, invalid-annotation,
    unsupported-shape, empty-polygon, invalid-coordinate, unknown-class.
    """
    nuclei, left_out = NucleusLists(request, case, "ROI", closed=True), Faults(request.where)
    with damage_told(request.where, KIND):
        for name, data in roi_files(stream, request):
            nuclei.next_annotation()
            try:
                add_roi(read_roi(data), name, request, nuclei, left_out)
            except Damaged as error:
                nuclei.fault(DamagedRoi(name, error))
            if not nuclei.number % NUCLEI_AT_ONCE:
                nuclei.settle()
        nuclei.settle()
    part = nuclei.points() if request.rules.are_points else nuclei.outlines()
    return Annotations((part,), tuple(left_out.findings()))


def roi_files(stream: BinaryIO, request: Request) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each ROI. Raises InputFault, CutOff, Damaged."""
    limit = request.limits.bytes_per_file
    stream_size(stream, where=request.where, bytes_limit=limit)
    check_content(stream, where=request.where, magics=(ZIP_MAGIC, EMPTY_ZIP_MAGIC, ROI_MAGIC), name=KIND)
    if stream.read(4) == ROI_MAGIC:
        stream.seek(0)
        yield request.name, stream.read()
        return
    check_directory(stream, DIRECTORY_BYTES)
    try:
        with zipfile.ZipFile(stream) as archive:
            members = [member for member in archive.infolist() if not is_litter(member.filename)]
            if (needed := sum(member.file_size for member in members)) > limit:
                raise InputFault(too_large(request.where, f"ROIs of {needed:,} bytes", limit))
            for member in members:
                if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise Damaged("a ROI that is encrypted, or compressed in another way than ImageJ does")
                yield member.filename, archive.read(member)
    except ZIP_FAULTS:
        raise CutOff from None


def shape_in(stream: BinaryIO) -> str | None:
    """The shape of the first ROI, None if there is none; the stream is left at its start."""
    try:
        if stream.read(4) == ROI_MAGIC:
            stream.seek(0)
            return "point" if read_roi(stream.read()).is_point else "outline"
        check_directory(stream, DIRECTORY_BYTES)
        with zipfile.ZipFile(stream) as archive:
            first = next((member for member in archive.infolist() if not is_litter(member.filename)), None)
            if first is None or not first.filename.endswith(".roi") or first.file_size > LARGEST_ROI:
                return None
            return "point" if read_roi(archive.read(first)).is_point else "outline"
    except (Damaged, CutOff, *ZIP_FAULTS):
        return None
    finally:
        stream.seek(0)


def is_litter(name: str) -> bool:
    return name.endswith("/") or name.startswith("__MACOSX/") or PurePosixPath(name).name.startswith(".")


def add_roi(roi: Roi, file: str, request: Request[ImagejRoiRules], nuclei: NucleusLists, left_out: Faults) -> None:
    """Hand a ROI over. What is wrong with it is noted."""
    class_id = class_of_group(roi.group, request, nuclei)
    if class_id == SKIPPED:
        return
    if roi.other or roi.is_point != request.rules.are_points:
        what = roi.other or ("a point" if roi.is_point else "an area")
        wanted = "points" if request.rules.are_points else "areas"
        if request.rules.other_shapes == "skip":
            left_out.add(RoiLeftOut(what, file, wanted), nuclei.place())
        else:
            nuclei.fault(OtherRoi(what, file, wanted))
        return
    name = roi.name or PurePosixPath(file).name.removesuffix(".roi")
    parts = [[ring.tolist() for ring in part] for part in roi.parts]
    if roi.is_point:
        nuclei.add_points(parts[0][0], class_id, [name] * len(parts[0][0]), None, None)
    else:
        nuclei.add_outline(parts, class_id, name, None, None)


def class_of_group(group: int, request: Request, nuclei: NucleusLists) -> int:
    """The class id of a group, or SKIPPED: by its number as a name, else as a number; 0 is no class."""
    name = str(group) if group else None
    class_id = nuclei.names.look_up(name)
    if class_id == UNKNOWN and group in request.classes.values:
        return request.classes.values[group]
    return SKIPPED if class_id == SKIPPED else nuclei.class_of(name)


# --- example ----------------------------------------------------------------------------------------------------------


def example(made: Example[ImagejRoiRules], cases: Sequence[Case], class_name: str | None) -> bytes:
    if made.rules.are_points:
        found = [(name, np.array([[x, y]])) for name, x, y in made.marks(cases[0], class_name)]
    else:
        found = made.rings(cases[0], class_name)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (name, ring) in enumerate(found, start=1):
            group = made.values[name] if made.rules.class_values is not None else 0
            member = zipfile.ZipInfo(f"{number:04d}.roi")
            archive.writestr(member, roi_bytes(ring, POINT if made.rules.are_points else POLYGON, group))
    return file.getvalue()


def roi_bytes(ring: np.ndarray, kind: int, group: int) -> bytes:
    """A ROI with coordinates of fractions of pixels, as ImageJ writes it."""
    left, top = np.floor(ring.min(axis=0)).astype(int)
    right, bottom = np.ceil(ring.max(axis=0)).astype(int)
    whole = np.round(ring - (left, top)).astype(">i2").T.tobytes()
    data: bytes = whole + ring.astype(">f4").T.tobytes()
    head = struct.pack(">4shBxhhhhH", ROI_MAGIC, 228, kind, top, left, bottom, right, len(ring)) + bytes(32)
    head += struct.pack(">h8xi", SUBPIXEL, 64 + len(data))
    return head + data + struct.pack(">30xB33x", group)


FORMAT = Format(
    words="ZIP of ImageJ's ROI manager (`RoiSet.zip`)",
    read=read_imagej_roi,
    example=example,
)
