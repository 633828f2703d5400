"""Contents of a path: files, cases and classes, meanings of names, and pairs of names."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from evaluation.challenge import LimitRules
from evaluation.challenge.formats import FORMATS
from evaluation.files.decoding.guard import bounds_of, decode, forget_seconds, seconds_of, seconds_of_images
from evaluation.files.decoding.pixels import CONTAINERS, TISSUE_SUFFIXES, read_image_size, suffix_of
from evaluation.files.formats.detect import Detected
from evaluation.files.formats.imports import find_stores, kind_of
from evaluation.files.submission import open_submission
from evaluation.files.submission.files import SubmissionFiles
from evaluation.files.submission.jobs import JOBS_FILE, jobs_folder, name_in, read_jobs
from evaluation.findings import Finding, counted, fault, listed, quote, shell_command
from evaluation.findings.errors import InputFault, SubmissionRejected, WrongUsage, faults_as

OF_OBJECTS = re.compile("object|instance", re.IGNORECASE)  # in the name of what has nuclei rather than classes
Size = tuple[int, int]  # height and width, px
ARRAY_FORMATS = [  # formats whose rules must name the numbers of classes
    name for name, rules in FORMATS.items() if (key := rules.model_fields.get("class_values")) and key.is_required()
]
NAMELESS = "nucleus"  # what nuclei without a class are called
CLASS_TABLE = ".csv"
_READER = "evaluation.files.formats.imports:read_import"
_LOOKED_AT = "files that are looked at"  # the owner of their decoders, and of the processor time that they take
PIXELS_ALLOWED = 1 << 26  # for which memory is allowed, since the size of an image is not known before
PICTURE_WORDS = ("img", "image", "im", "raw", "orig", "original", "photo", "input", "picture", "rgb", "tissue")
# What tools and people put behind the name of an image.
ENDINGS = (
    *("cp_masks", "cp_mask", "seg", "masks", "mask", "labels", "label", "lbl", "instances", "instance", "inst"),
    *("nuclei", "cells", "gt", "ground_truth", "groundtruth", "reference", "ref", "prediction", "predictions"),
    *("predicted", "pred", "preds", "output", "result", "results", "segmentation", "annotation", "annotations"),
    *("anno", "json", "mat", "geojson", "stardist", "cellpose", "cellvit", "hovernet"),
    *PICTURE_WORDS,
)
ENDING = re.compile(rf"(?:[ _.-]+(?:{'|'.join(sorted(ENDINGS, key=len, reverse=True))}))+$", re.IGNORECASE)
OF_NUCLEI = re.compile(
    "cyte|phage|phil|blast|cell|nucle|tumou?r|epitheli|strom|inflam|neoplas|connect|plasma|necro|dead|mitos|mitot|apop",
    re.IGNORECASE,
)
PICTURE_FOLDERS = {"images", "image", "imgs", "img", "raw", "tissue", "pictures", "photos", "inputs"}
PICTURE_FOLDERS |= {"tissue_images", "tissue images"}
MASK_FOLDERS = {"masks", "mask", "labels", "label", "gt", "annotations", "instances", "ground_truth", "segmentations"}
NOT_MASKS = {*PICTURE_WORDS, "json", "mat", "geojson", "output", "result", "results", "ref", "reference"}
MASK_WORDS = tuple(sorted((word for word in ENDINGS if word not in NOT_MASKS), key=len, reverse=True))
MASK_ENDING = re.compile(rf"(?:[ _.-]+(?:{'|'.join(MASK_WORDS)}))+$", re.IGNORECASE)
JPEG_SUFFIXES = (".jpg", ".jpeg", ".JPG", ".JPEG")
PARTS_OF_SETS = {"train", "training", "test", "testing", "val", "valid", "validation", "dev"}
CLASS_MAPS = ("_class", "_classes", "_type", "_types")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that has a format.

    name       below the folder, for messages
    detected   its format, and the sign of detection
    suffix     of its content
    classes    a second file, with the class of every pixel (an image) or of every id (a table), or None
    case       the name of its case, from its path
    group      of the case, "" if the path has none
    of_class   the class of its nuclei, "" for all classes
    axes_yx    the axes of a TIFF image, and the size of its first page, from its header, if it could be read
    """

    name: str
    path: Path
    detected: Detected
    suffix: str
    classes: Path | None = None
    case: str = ""
    group: str = ""
    of_class: str = ""
    axes_yx: tuple[tuple[int, ...], Size] | None = None

    @property
    def class_key(self) -> str:
        """The key of the rules for the file of classes."""
        is_table = self.classes is not None and self.classes.suffix.lower() == CLASS_TABLE
        return "class_table" if is_table else "class_map"

    @property
    def class_ending(self) -> str:
        """The suffix of the name of the class file after the case."""
        return CLASS_TABLE if self.class_key == "class_table" else f"_class{self.suffix}"


@dataclass(frozen=True, slots=True, eq=False)
class SourceCase:
    """A case of a source.

    size_yx    of its image, None if unknown
    index      its index in an array of all cases
    extent_yx  extent of its nuclei
    image_id   the id of its image in a COCO file
    called     its full name in a file of all cases
    """

    files: tuple[SourceFile, ...]
    group: str = ""
    size_yx: Size | None = None
    index: int | None = None
    extent_yx: Size | None = None
    image_id: str | None = None
    called: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Contents of a path.

    keys      of the rules of its format, if available
    cases     by their names in the files
    classes   names of the classes in the files, in order of appearance; empty without classes
    numbers   the numbers of classes in the files, by name
    findings  about unread files
    imports   original formats of imported files, in words
    notes     about combined files, in sentences
    signs     detected types of its files and the reasons, in lines
    has_pictures  whether pictures among its files were ignored
    is_stack  its images are planes of an array, with numbers as names
    categories  names of classes by their ids in a COCO file, as used in results
    others      ignored files of another format, by the last part of their names without endings
    """

    path: Path
    format: str
    suffix: str
    keys: Mapping[str, Any]
    cases: Mapping[str, SourceCase]
    classes: tuple[str, ...]
    numbers: Mapping[str, int] = field(default_factory=dict)
    is_shared: bool = False
    others: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    imports: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    has_pictures: bool = False
    is_stack: bool = False
    categories: Mapping[str, str] = field(default_factory=dict)

    def files(self) -> list[SourceFile]:
        return [file for case in self.cases.values() for file in case.files]

    @property
    def class_file(self) -> SourceFile | None:
        """The first file with classes in a second file."""
        return next((file for file in self.files() if file.classes and not file.of_class), None)

    @property
    def has_class_files(self) -> bool:
        return any(file.of_class for file in self.files())

    def words(self) -> str:
        """The source in a sentence."""
        images = f"{counted(len(self.cases), 'image')} as {self.format}"
        images += f" (from {' and '.join(self.imports)})" if self.imports else ""
        classes = f"classes {listed(self.classes, 20, last='and')}" if self.classes else "no classes"
        parts = ", each part of a MultiPolygon a nucleus" if self.keys.get("parts") == "apart" else ""
        parts += ", each region of touching pixels a nucleus" if "components" in self.keys else ""
        file = next((file for file in self.files() if file.of_class), None)
        of_name = f", the class in the name ({quote(file.name, 80)} is of {quote(file.case)})" if file else ""
        return f"{quote(str(self.path), 120)}: {images}, {classes}{parts}{of_name}"


def placed_in(path: Path, findings: Iterable[Finding]) -> list[Finding]:
    """Findings about files of a side, with the side before the file."""
    return [replace(one, where=f"{quote(str(path), 200)}, {one.where}") for one in findings]


def list_files(path: Path, workspace: Path) -> list[tuple[str, Path]]:
    """All files of a folder or a ZIP with their names in it, or the file itself, without hidden files.

    Zarr stores that are folders are packed into the workspace, each as one file.
    """
    if path.is_file() and (suffix_of(path.name) == ".npz" or image_suffix(path) != ".npz" or kind_of(path) is not None):
        return [(path.name, path)]
    try:
        files = open_submission(path, LimitRules())
    except SubmissionRejected as error:
        shown = quote(str(path), 200)
        raise WrongUsage(
            *(placed_in(path, [e])[0] if e.code == "unsafe-path" else replace(e, where=shown) for e in error.findings)
        ) from None
    listed, root = [], path.resolve()
    is_folder = root.is_dir()
    with faults_as(WrongUsage):
        stores = find_stores(files.names)
        for top, parts in stores.items():
            listed.append((f"{top or root.name}.zip", pack(files, parts, top, workspace)))
        in_stores = {part for parts in stores.values() for part in parts}
        for folder, rois in _single_rois(files.names).items():
            listed.append((f"{folder or root.name}.zip", pack(files, rois, folder, workspace)))
            in_stores |= {*rois}
        for name in files.names:
            if name in in_stores or any(part.startswith(".") for part in name.split("/")):
                continue
            file = root / name
            if not (is_folder and file.is_file()):
                file = workspace / name
                file.parent.mkdir(parents=True, exist_ok=True)
                with files.open(name) as packed, file.open("wb") as target:
                    shutil.copyfileobj(packed, target)
            listed.append((name, file))
    return listed


def _single_rois(names: Iterable[str]) -> dict[str, list[str]]:
    """Group ROIs of ImageJ by folder, where each is a file named by a number, as ImageJ names them."""
    folders: dict[str, list[str]] = {}
    for name in names:
        if name.lower().endswith(".roi"):
            folders.setdefault(name.rpartition("/")[0], []).append(name)
    is_number = re.compile("[0-9]+(-[0-9]+)*$")
    return {
        folder: parts
        for folder, parts in folders.items()
        if len(parts) > 1 and all(is_number.match(PurePosixPath(part).stem) for part in parts)
    }


def image_suffix(path: Path) -> str:
    """The suffix that the content of an image file has, "" for other files."""
    with path.open("rb") as stream:
        head = stream.read(16)
    return next((suffix for suffix, one in CONTAINERS.items() if head.startswith(one.magics)), "")


class _Budget(threading.local):
    """The pixels of each image that was decoded of the side that is looked at in this thread."""

    def __init__(self) -> None:
        self.pixels: list[int] = []


_budget = _Budget()


def begin_budget() -> None:
    """Start the budget of processor time of a side, which grows with its images."""
    _budget.pixels.clear()
    forget_seconds(_LOOKED_AT)


def decode_one(
    function: str, path: Path, asked: tuple[Any, ...], *, name: str, pixels: int, writes: bool = False
) -> Any:
    """Return the only result of a reader for a file that is looked at, in the confined process.

    name    of the file, for messages
    pixels  for which memory and time are allowed

    All files of a side share a budget of processor time, like the files of a submission: decoded content counts as
    images, texts by their length. Raises InputFault, and WrongUsage ("too-slow") if earlier files used up the budget.
    """
    if seconds_of(_LOOKED_AT) > (allowed := seconds_of_images(_budget.pixels)):
        raise WrongUsage(fault("too-slow", name, wording="looked-at", seconds=allowed))
    with path.open("rb") as stream:
        bounds = bounds_of(path.stat().st_size, pixels, LimitRules().bytes_per_file)
        (content,) = decode(function, [stream], asked, where=name, owner=_LOOKED_AT, bounds=bounds, writes=writes)
    if content is not None:
        _budget.pixels.append(content.size if isinstance(content, np.ndarray) else len(content))
    return content


def imported(path: Path, workspace: Path, *, name: str | None = None, dataset: str | None = None) -> Path:
    """A label image (.npy) or GeoJSON in the workspace, built from a file that is an import; of any other the path
    itself.

    name     of the file, for messages
    dataset  the path of the array in it

    Raises InputFault.
    """
    if (kind := kind_of(path)) is None:
        return path
    shown = name or path.name
    asked = (kind, shown, dataset, LimitRules().bytes_per_file)
    content = decode_one(_READER, path, asked, name=quote(shown, 120), pixels=PIXELS_ALLOWED)
    made = Path(tempfile.mkdtemp(dir=workspace)) / "imported"
    if isinstance(content, str):
        made = made.with_suffix(".geojson")
        made.write_bytes(content.encode())
        return made
    made = made.with_suffix(".npy")
    np.save(made, content, allow_pickle=False)
    return made


def convert_call(side: Path, name: str, *options: str, is_inside: bool = False) -> str:
    """Return a sentence with the command that converts a file of a folder or ZIP; "" if no command can name the file.

    side       the folder, file or ZIP that was looked at
    is_inside  the command is run in the folder
    """
    is_packed = side.is_file() and suffix_of(side.name) != ".npz" and zipfile.is_zipfile(side)
    file = side / name if side.is_dir() else Path(name) if is_packed else side
    call = shell_command("evaluation", "convert", Path(name) if is_inside else file, "OUTPUT", *options)
    if not call or not (is_packed or file.is_file()):  # some names stand for a part of a file
        return ""
    return f"{'Unpack the ZIP. In its folder this' if is_packed else 'This'} converts a file: {call}"


def pack(files: SubmissionFiles, parts: Iterable[str], top: str, workspace: Path) -> Path:
    """A Zarr store below ``top``, as a ZIP in the workspace. Raises InputFault, OSError."""
    target = Path(tempfile.mkdtemp(dir=workspace)) / "store.zarr.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for part in parts:
            member = zipfile.ZipInfo(part.removeprefix(top).lstrip("/"))
            with files.open(part) as opened, archive.open(member, "w", force_zip64=True) as written:
                shutil.copyfileobj(opened, written)
    return target


def images_of_jobs(files: Mapping[str, Path]) -> dict[str, str]:
    """The image of each folder of a download from the platform, by predictions.json; otherwise nothing.

    Raises InputFault for a file that cannot be read.
    """
    names = sorted(files)
    folder = jobs_folder(names)
    if folder is None:
        return {}
    try:
        with files[folder + JOBS_FILE].open("rb") as stream:
            jobs = read_jobs(stream, where=quote(folder + JOBS_FILE, 120), limits=LimitRules())
    except InputFault as error:
        if any(finding.code != "invalid-job" for finding in error.findings):
            raise
        return {}  # predictions of COCO may be called so
    images = {job["pk"]: next(filter(None, map(name_in, job["inputs"])), "") for job in jobs}
    return {f"{folder}{pk}/": bare_parts(name)[-1] for pk, name in images.items() if name}


def class_maps(names: Iterable[str]) -> dict[tuple[str, ...], str]:
    """The names of class maps, by the parts of the names of their label images.

    >>> class_maps(["P1/a.tif", "P1/a_class.tif", "b_class.tif", "c_masks.png", "c_type.png"])
    {('P1', 'a'): 'P1/a_class.tif', ('c_masks',): 'c_type.png'}
    """
    parts = {name: bare_parts(name) for name in names}
    known = {(*folders, ENDING.sub("", stem)): (*folders, stem) for *folders, stem in parts.values()}
    known |= {words: words for words in parts.values()}
    maps = {}
    for name, (*folders, stem) in parts.items():
        base = next(((*folders, stem[: -len(end)]) for end in CLASS_MAPS if stem.endswith(end)), None)
        if base in known:
            maps[known[base]] = name
    return maps


@lru_cache(1 << 16)  # every step of looking asks for the same names
def bare_parts(name: str) -> tuple[str, ...]:
    """Split a name into its folders and its stem.

    >>> bare_parts("P1/slide.svs.geojson.gz")
    ('P1', 'slide')
    """
    *folders, stem = name.split("/")
    stem = re.sub(r"\.gz$", "", stem, flags=re.IGNORECASE)
    while (suffix := PurePosixPath(stem).suffix) and re.fullmatch(r"\.[A-Za-z][A-Za-z0-9]{0,7}", suffix):
        stem = stem[: -len(suffix)]
    return (*folders, stem)


def patients_of(cases: Sequence[str]) -> list[str]:
    """The patients in the names of cases, by TCGA's barcodes; "" for each if not all names have one."""
    codes = [re.match(r"TCGA-[A-Z0-9]{2}-[A-Z0-9]{4}", case) for case in cases]
    return [code[0] if code and all(codes) else "" for code in codes]


def size_beside(path: Path, *names: str) -> Size | None:
    """Read the size of the picture that has one of these names; an ending such as ``_nuclei`` may differ."""
    names = (*names, *(MASK_ENDING.sub("", name) for name in names))
    image = next((one for one in pictures_near(path, names) if one != path), None)
    return None if image is None else _jpeg_size(image) or read_image_size(image)


def pictures_near(path: Path, names: Iterable[str]) -> Iterator[Path]:
    """Pictures with one of these names next to a file, or in a picture folder near its folder or in its place."""
    words = sorted(word for name in PICTURE_FOLDERS for word in {name, name.capitalize(), name.title()})
    folder, parts = path.parent, path.parent.parts
    at = [index for index, part in enumerate(parts) if part.casefold() in MASK_FOLDERS]
    join = os.path.join  # pathlib takes most of the time of a folder of many files
    near = [join(around, word) for around in (folder, folder.parent) for word in words]
    near += [join(*parts[:index], word, *parts[index + 1 :]) for index in at for word in words]
    for place in dict.fromkeys([str(folder), *filter(os.path.isdir, near)]):
        for name in dict.fromkeys(names):
            suffixes = (*TISSUE_SUFFIXES, *JPEG_SUFFIXES)
            yield from map(Path, filter(os.path.isfile, (join(place, name + suffix) for suffix in suffixes)))


def _jpeg_size(path: Path) -> Size | None:
    """Height and width of a JPEG image from its frame header; None for other files."""
    with path.open("rb") as stream:
        if path.suffix not in JPEG_SUFFIXES or stream.read(2) != b"\xff\xd8":
            return None
        while len(head := stream.read(4)) == 4 and head[0] == 0xFF:
            if 0xC0 <= head[1] <= 0xCF and head[1] not in (0xC4, 0xC8, 0xCC):
                frame = stream.read(5)
                return (int.from_bytes(frame[1:3]), int.from_bytes(frame[3:])) if len(frame) == 5 else None
            stream.seek(max(int.from_bytes(head[2:]) - 2, 0), 1)
    return None
