"""What lies in a folder, a ZIP or a file, found by looking: its format, its cases, their groups, sizes and classes."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import numpy as np

from evaluation.authoring.convert import (
    DEFAULTS,
    class_table,
    numbers_in_mat,
    read_one_case,
    usual_origin,
    whole_numbers,
)
from evaluation.challenge import FormatRules, LimitRules
from evaluation.challenge.formats import FORMATS
from evaluation.decoding.content import (
    EMPTY_ZIP_MAGIC,
    MHA_MAGICS,
    NPY_MAGIC,
    PNG_MAGIC,
    TIFF_MAGICS,
    ZIP_MAGIC,
)
from evaluation.decoding.image_size import IMAGE_SUFFIXES, read_image_size
from evaluation.decoding.streams import CutOff, Damaged
from evaluation.decoding.tiff_header import TiffFile
from evaluation.findings import Finding, listed, quote
from evaluation.findings.comparison import NothingToCompare, NotRead
from evaluation.findings.errors import InputFault, SubmissionRejected, WrongUsage
from evaluation.formats import Request, read_collection
from evaluation.formats.case_array import CaseArray
from evaluation.formats.detect import Detected, detect_format
from evaluation.formats.foreign import HEAD_BYTES, foreign_content
from evaluation.formats.images import find_image, list_images
from evaluation.formats.label_image import read_image, suffix_of
from evaluation.model import Annotations, Case, Outlines, Points
from evaluation.submission import open_submission
from evaluation.submission.by_pattern import PLATFORM_LISTS
from evaluation.submission.files import FolderFiles
from evaluation.submission.patterns import NOTE

SUFFIXES = {
    "aperio_xml": ".xml",
    "asap_xml": ".xml",
    "geojson": ".geojson",
    "nary_mat": ".mat",
    "hovernet_mat": ".mat",
    "conic_array": ".npy",
    "pannuke_masks": ".npy",
    "rle_csv": ".csv",
    "points_csv": ".csv",
    "nucls_csv": ".csv",
    "counts_csv": ".csv",
    "yolo_txt": ".txt",
}
PICTURE_SUFFIXES = {
    (PNG_MAGIC,): ".png",
    TIFF_MAGICS: ".tif",
    MHA_MAGICS: ".mha",
    (NPY_MAGIC,): ".npy",
    (ZIP_MAGIC, EMPTY_ZIP_MAGIC): ".npz",
}
CLASS_MAPS = ("_class", "_classes", "_type", "_types")
GREY, PALETTE = 0, 3  # colour types of PNG that labels may have
NUMBERED = ("hovernet_mat", "conic_array", "pannuke_masks")  # formats with numbers for classes alone
PANNUKE = ("Neoplastic", "Inflammatory", "Connective", "Dead", "Epithelial")
KAGGLE = {"pixel_order": "column", "first_pixel": 1}
UNKNOWN_YX = (1 << 20, 1 << 20)
NAMELESS = "nucleus"  # what nuclei without a class are called
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of a case.

    name       below the folder, for messages
    suffix     that its content has
    case       the name that its place gives to its case
    group      of the case, "" if the place tells none
    of_class   the class whose nuclei it has, "" for all
    class_map  a second image that has the class of every pixel
    """

    path: Path
    name: str
    suffix: str
    case: str = ""
    group: str = ""
    of_class: str = ""
    class_map: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FoundCase:
    """A case of a side. ``index`` is its place in an array of all cases."""

    files: tuple[FoundFile, ...]
    group: str = ""
    size_yx: tuple[int, int] | None = None
    index: int | None = None
    extent_yx: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FoundSide:
    """What a path holds.

    keys      of the rules of its format, as far as they are known
    cases     by the name that the files give them
    classes   names of the classes in the files, in the order in which they are met; none if the files tell none
    numbers   the numbers that stand for classes in the files, by name
    findings  what was not read
    """

    path: Path
    format: str
    suffix: str
    keys: Mapping[str, Any]
    cases: Mapping[str, FoundCase]
    classes: tuple[str, ...]
    numbers: Mapping[str, int] = field(default_factory=dict)
    is_shared: bool = False
    findings: tuple[Finding, ...] = ()

    @property
    def has_class_maps(self) -> bool:
        return any(file.class_map for case in self.cases.values() for file in case.files)

    @property
    def has_class_files(self) -> bool:
        return any(file.of_class for case in self.cases.values() for file in case.files)

    def words(self) -> str:
        """The side in a sentence."""
        number = len(self.cases)
        images = f"{number:,} {'image' if number == 1 else 'images'} as {self.format}"
        classes = f"classes {listed(self.classes, last='and')}" if self.classes else "no classes"
        parts = ", each part of a MultiPolygon a nucleus" if self.keys.get("parts") == "apart" else ""
        return f"{quote(str(self.path), 120)}: {images}, {classes}{parts}"


# --- files ------------------------------------------------------------------------------------------------------------


def look_at(path: Path, workspace: Path) -> FoundSide:
    """Find out what a folder, a ZIP or a file holds; a ZIP is unpacked into the workspace, an empty folder.

    Raises WrongUsage with what is wrong if there is nothing in it that can be read.
    """
    named = list_files(path, workspace)
    kinds: dict[tuple[str, str, str], list[tuple[str, Path, Detected]]] = {}
    not_read: list[tuple[str, str]] = []
    blank: list[tuple[str, Path, Detected]] = []  # what YOLO writes where it finds nothing
    for name, file in named:
        if name in PLATFORM_LISTS:
            continue
        is_note = NOTE.fullmatch(PurePosixPath(name).name)
        try:
            detected, suffix = detect_file(file)
        except InputFault as fault:
            if not is_note:
                not_read.append((name, fault.findings[0].got))
            continue
        if is_note and (detected is None or detected.format != "yolo_txt"):
            if not file.stat().st_size:
                blank.append((name, file, Detected("yolo_txt")))
        elif detected is None:
            not_read.append((name, suffix))
        else:
            kinds.setdefault((detected.format, str(sorted(detected.keys.items())), suffix), []).append(
                (name, file, detected)
            )
    if not kinds:
        got = (
            "no file" if not named else f"no labels, but {quote(not_read[0][0])}, {not_read[0][1]}" if not_read else ""
        )
        raise WrongUsage(NothingToCompare(got or "notes only").at(quote(str(path), 200)))
    order = sorted(kinds, key=lambda kind: (-len(kinds[kind]), kind[0] == "label_image", kind))
    chosen = kinds[order[0]]
    for kind in order[1:]:
        not_read += [(name, f"{kind[0]} ({kind[2]})") for name, _, _ in kinds[kind]]
    findings = [
        NotRead(what).at(*(quote(name, 120) for name, _ in of_kind)) for what, of_kind in grouped(not_read).items()
    ]
    (format, _, suffix), detected = order[0], chosen[0][2]
    if format == "yolo_txt":
        chosen = [*chosen, *blank]
    files = [FoundFile(file, name, suffix) for name, file, _ in chosen]
    try:
        return understand(path, format, suffix, dict(detected.keys), files, tuple(findings))
    except InputFault as fault:
        raise WrongUsage(*fault.findings) from None


def grouped(not_read: Iterable[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for name, what in not_read:
        found.setdefault(what, []).append((name, what))
    return found


def list_files(path: Path, workspace: Path) -> list[tuple[str, Path]]:
    """All files of a folder or a ZIP with their names in it, or the file itself; hidden ones are left out."""
    if path.is_file() and (suffix_of(path.name) == ".npz" or not is_zip(path)):
        return [(path.name, path)]
    limits = LimitRules()
    try:
        files = open_submission(path, limits)
    except SubmissionRejected as error:
        raise WrongUsage(*error.findings) from None
    names = [name for name in files.names if not any(part.startswith(".") for part in name.split("/"))]
    if isinstance(files, FolderFiles):
        return [(name, files.root / name) for name in names]
    try:
        for name in names:
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            with files.open(name) as packed, (workspace / name).open("wb") as target:
                shutil.copyfileobj(packed, target)
    except InputFault as fault:
        raise WrongUsage(*fault.findings) from None
    return [(name, workspace / name) for name in names]


def is_zip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) in (ZIP_MAGIC, EMPTY_ZIP_MAGIC)


def detect_file(path: Path) -> tuple[Detected | None, str]:
    """The format of a file and the suffix that its content has; None and what it is if it holds no nuclei."""
    try:
        detected = detect_format(path)
        if detected is None:
            with path.open("rb") as stream:
                return None, foreign_content(stream.read(HEAD_BYTES)) or "of no format that is known"
        if detected.format != "label_image":
            return detected, SUFFIXES.get(detected.format, ".json")
        with path.open("rb") as stream:
            head = stream.read(26)
            suffix = next(suffix for magics, suffix in PICTURE_SUFFIXES.items() if head.startswith(magics))
            if is_coloured(head, suffix, stream):
                return None, "a picture in colour"
        return detected, suffix
    except OSError as error:
        return None, (error.strerror or "not readable").lower()


def is_coloured(head: bytes, suffix: str, stream: BinaryIO) -> bool:
    """Whether an image has several samples for each pixel."""
    if suffix == ".png":
        return len(head) == 26 and head[25] not in (GREY, PALETTE)
    if suffix != ".tif":
        return False
    try:
        return TiffFile(stream).pages()[0].samples > 1
    except (CutOff, Damaged, IndexError):
        return False


# --- cases ------------------------------------------------------------------------------------------------------------


def understand(
    path: Path, format: str, suffix: str, keys: dict[str, Any], files: list[FoundFile], findings: tuple[Finding, ...]
) -> FoundSide:
    """The cases and classes of files of one format. Raises InputFault for files that cannot be read."""
    keys = {**usual_keys(format, keys), **keys}
    if FORMATS[format].file_holds != "one case" and len(files) == 1:
        shared = look_into_shared(path, format, suffix, keys, files[0], findings)
        if shared is not None:
            return shared
    if FORMATS[format].file_holds == "all cases":
        got = f"{len(files)} files, each of which may hold many images ({format})"
        raise InputFault(NothingToCompare(got).at(quote(str(path), 200)))
    files = place_files(files, format)
    by_case: dict[str, list[FoundFile]] = {}
    for file in files:
        by_case.setdefault(file.case, []).append(file)
    classes: list[str] = []
    cases: dict[str, FoundCase] = {}
    numbers: dict[str, int] = {}
    for case, of_case in by_case.items():
        found = [look_into(file, format, keys, classes, numbers) for file in of_case]
        classes += [file.of_class for file in of_case if file.of_class and file.of_class not in classes]
        size_yx = next((size for size, _ in found if size), None) or size_beside(of_case[0])
        extents = [extent for _, extent in found if extent]
        extent_yx = (max(y for y, _ in extents), max(x for _, x in extents)) if extents else None
        cases[case] = FoundCase(tuple(of_case), of_case[0].group, size_yx, None, extent_yx)
    named = tuple(name for name in classes if name != NAMELESS) if set(classes) != {NAMELESS} else ()
    return FoundSide(path, format, suffix, keys, cases, named, numbers, False, findings)


def usual_keys(format: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a format that have to be said, with the values that ``convert`` takes."""
    usual = {
        **DEFAULTS,
        **KAGGLE,
        "other_shapes": "skip",
        "origin": usual_origin(format, keys),
    }
    if keys.get("shape") == "point":
        usual = {key: value for key, value in usual.items() if key not in ("vertices", "vanished")}
    fields = FORMATS[format].model_fields
    return {key: value for key, value in usual.items() if key in fields}


def place_files(files: Sequence[FoundFile], format: str) -> list[FoundFile]:
    """The files with the case, group and class that their places tell; class maps go with their label images."""
    parts = {file.name: bare_parts(file.name) for file in files}
    maps: dict[str, Path] = {}
    if format == "label_image":
        stems = {name: "/".join(of_file) for name, of_file in parts.items()}
        known = set(stems.values())
        for file in files:
            base = next((stems[file.name][: -len(e)] for e in CLASS_MAPS if stems[file.name].endswith(e)), None)
            if base in known:
                maps[base] = file.path
        files = [file for file in files if file.path not in maps.values()]
        files = [replace(file, class_map=maps.get(stems[file.name])) for file in files]
    folders = Counter(of_file[:-1] for of_file in parts.values())
    has_class_folders = format in ("nary_mat", "label_image") and are_class_folders([parts[f.name] for f in files])
    stems_alone = len({parts[file.name][-1] for file in files}) == len(files)
    folders_alone = all(parts[file.name][:-1] and folders[parts[file.name][:-1]] == 1 for file in files)
    placed = []
    for file in files:
        of_file = parts[file.name]
        if has_class_folders:
            placed.append(
                replace(file, case=of_file[-3], of_class=of_file[-2], group=of_file[-4] if len(of_file) > 3 else "")
            )
        elif stems_alone:
            placed.append(replace(file, case=of_file[-1], group=of_file[-2] if len(of_file) > 1 else ""))
        elif folders_alone:
            placed.append(replace(file, case=of_file[-2], group=of_file[-3] if len(of_file) > 2 else ""))
        else:
            placed.append(replace(file, case="_".join(of_file), group=of_file[-2] if len(of_file) > 1 else ""))
    return with_groups(placed)


def bare_parts(name: str) -> tuple[str, ...]:
    """The folders and the stem of a name.

    >>> bare_parts("P1/slide.svs.geojson.gz")
    ('P1', 'slide')
    """
    *folders, stem = name.split("/")
    stem = re.sub(r"\.gz$", "", stem, flags=re.IGNORECASE)
    while (suffix := PurePosixPath(stem).suffix) and re.fullmatch(r"\.[A-Za-z][A-Za-z0-9]{0,7}", suffix):
        stem = stem[: -len(suffix)]
    return (*folders, stem)


def are_class_folders(parts: Sequence[tuple[str, ...]]) -> bool:
    """Whether each file lies in a folder named like its class, which lies in a folder named like its case."""
    if any(len(of_file) < 3 for of_file in parts):
        return False
    places = [(of_file[:-2], of_file[-2]) for of_file in parts]
    cases, classes = {case for case, _ in places}, {name for _, name in places}
    return len(set(places)) == len(places) and len(classes) < len(places) and len(cases) < len(places)


def with_groups(files: Sequence[FoundFile]) -> list[FoundFile]:
    """Groups are folders if there are several and one has several cases, else patients by TCGA's barcodes."""
    cases_of: dict[str, set[str]] = {}
    for file in files:
        cases_of.setdefault(file.group, set()).add(file.case)
    if len(cases_of) > 1 and max(map(len, cases_of.values())) > 1 and "" not in cases_of:
        return list(files)
    codes = [re.match(r"TCGA-[A-Z0-9]{2}-[A-Z0-9]{4}", file.case) for file in files]
    return [
        replace(file, group=code[0] if code and all(codes) else "") for file, code in zip(files, codes, strict=True)
    ]


def size_beside(file: FoundFile) -> tuple[int, int] | None:
    """The size of an image that is named like a file, and lies beside it."""
    for suffix in IMAGE_SUFFIXES:
        path = file.path.with_name(file.case + suffix)
        if path != file.path and path.is_file():
            return read_image_size(path)
    return None


# --- classes and sizes ------------------------------------------------------------------------------------------------


def request_for(name: str, where: str, format: str, keys: Mapping[str, Any], names: list[str]) -> Request:
    rules: FormatRules = FORMATS[format].model_validate({"format": format, "files": "{case}", **keys})
    return Request(
        where=quote(where, 120), name=name, rules=rules, classes=class_table(rules, names), limits=LimitRules()
    )


def look_into(
    file: FoundFile, format: str, keys: dict[str, Any], classes: list[str], numbers: dict[str, int]
) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """The size of the image of a file, and how far its nuclei reach; new classes are added to the lists.

    Raises InputFault if the file cannot be read.
    """
    given, keys = keys, dict(keys)
    if format == "pannuke_masks":
        with file.path.open("rb") as stream:
            request = request_for(file.case + file.suffix, file.name, format, {**keys, "class_values": {"a": 0}}, ["a"])
            keys["class_values"] = channels_of(CaseArray(stream, request).shape[-1], classes, numbers)
    request = request_for(
        file.case + file.suffix, file.name, format, keys, [] if format != "pannuke_masks" else classes
    )
    with file.path.open("rb") as stream:
        is_image = file.suffix in IMAGE_SUFFIXES
        found = None if is_image else find_image(Path(file.case + file.suffix), stream, request, file.case)
        size_yx = read_image_size(file.path) if found is None else found.size_yx
        if format == "hovernet_mat":
            add_numbers(numbers_in_mat(stream, file.name), classes, numbers)
        if file.class_map is not None:
            add_numbers(numbers_in_image(file, size_yx), classes, numbers)
        if request.rules.dense or found is None:
            return size_yx, None
        case = Case(file.case, file.case, *(size_yx or UNKNOWN_YX), 1.0, 0)
        said = read_one_case(stream, request, case, found)
    if any(finding.code == "many-parts" for finding in said.findings):
        given["parts"] = "apart"
    if format not in NUMBERED:
        classes += [name for name in request.classes.ids if name not in classes]
    return size_yx, extent_of(said)


def extent_of(said: Annotations) -> tuple[int, int] | None:
    """The height and width of an image that holds all nuclei."""
    points = [part.points_xy for part in said.parts if isinstance(part, Outlines | Points) and len(part.points_xy)]
    if not points:
        return None
    x, y = np.concatenate(points).max(axis=0)
    return max(1, int(np.ceil(y)) + 1), max(1, int(np.ceil(x)) + 1)


def numbers_in_image(file: FoundFile, size_yx: tuple[int, int] | None) -> list[int]:
    assert file.class_map is not None
    assert size_yx is not None
    with file.class_map.open("rb") as stream:
        case = Case(file.case, file.case, *size_yx)
        limit = LimitRules().bytes_per_file
        return whole_numbers(
            read_image(stream, suffix=file.suffix, where=quote(file.name), case=case, bytes_limit=limit)
        )


def add_numbers(found: Iterable[int], classes: list[str], numbers: dict[str, int]) -> None:
    for number in found:
        if str(number) not in numbers:
            numbers[str(number)] = number
            classes.append(str(number))
    classes.sort(key=lambda name: numbers.get(name, 0))


def channels_of(channels: int, classes: list[str], numbers: dict[str, int]) -> dict[str, int]:
    """The channel of each class of PanNuke's masks; other arrays have numbers for names."""
    names = PANNUKE if channels == len(PANNUKE) + 1 else tuple(map(str, range(1, channels)))
    if not classes:
        classes += names
        numbers.update({name: channel for channel, name in enumerate(names)})
    return dict(numbers)


def look_into_shared(
    path: Path, format: str, suffix: str, keys: dict[str, Any], file: FoundFile, findings: tuple[Finding, ...]
) -> FoundSide | None:
    """The cases and classes of a file that holds all cases; None if it holds one without a name."""
    classes: list[str] = []
    numbers: dict[str, int] = {}
    files = {"files": f"all{suffix}"}
    with file.path.open("rb") as stream:
        if FORMATS[format].model_fields.get("class_values") and format in NUMBERED:
            request = request_for(f"all{suffix}", file.name, format, {**keys, **files, "class_values": {"a": 1}}, ["a"])
            array = CaseArray(stream, request)
            if format == "pannuke_masks":
                if len(array.shape) != 4:
                    return None
                channels_of(array.shape[3], classes, numbers)
            elif len(array.shape) == 4:
                planes = (array.of_case(index)[..., 1] for index in range(array.shape[0]))
                add_numbers(sorted({n for plane in planes for n in whole_numbers(plane)}), classes, numbers)
            stream.seek(0)
            images = list_images(stream, request)
        else:
            request = request_for(f"all{suffix}", file.name, format, {**keys, **files}, [])
            images = list_images(stream, request)
            if not any(image.names for image in images):
                return None
            stream.seek(0)
            known = {name: Case(name, name, *(image.size_yx or UNKNOWN_YX)) for image in images for name in image.names}
            collection = read_collection(stream, request, known)
            extents = {name: extent_of(collection.cases[name]) for name in collection.cases}
            classes += list(request.classes.ids)
    digits = len(str(len(images)))
    cases = {}
    for image in images:
        name = image.names[0] if image.names else f"image_{image.index:0{digits}}"
        extent_yx = None if not image.names else next((extents[n] for n in image.names if extents.get(n)), None)
        cases[name] = FoundCase((file,), "", image.size_yx, image.index, extent_yx)
    named = tuple(name for name in classes if name != NAMELESS)
    return FoundSide(path, format, suffix, keys, cases, named, numbers, True, findings)
