"""What a folder, a ZIP or a file holds: format, cases, groups, sizes and classes, found by the readers themselves."""

from __future__ import annotations

import codecs
import shutil
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from evaluation.authoring.imports import imported, pack
from evaluation.authoring.names import bare_parts, class_maps, images_of_jobs, place_files, place_in_jobs
from evaluation.authoring.pieces import COLOURED, MASK_ENDING, VOLUMES, Seen, remedy, unfold
from evaluation.authoring.sides import CLASS_TABLE, NAMELESS, FoundCase, FoundFile, FoundSide
from evaluation.challenge import FormatRules, LimitRules
from evaluation.challenge.formats import FORMATS
from evaluation.decoding.content import (
    CONVERT,
    EMPTY_ZIP_MAGIC,
    MHA_MAGICS,
    NPY_MAGIC,
    PNG_MAGIC,
    TIFF_MAGICS,
    ZIP_MAGIC,
    foreign_file,
    what_it_is,
)
from evaluation.decoding.pixels import IMAGE_SUFFIXES, read_image, read_image_size, suffix_of
from evaluation.decoding.streams import CutOff, Damaged
from evaluation.decoding.tiff import Tag, TiffFile
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import InputFault, SubmissionRejected, WrongUsage, faults_as
from evaluation.formats import Request, read_collection
from evaluation.formats.arrays import CaseArray
from evaluation.formats.coco import read_document
from evaluation.formats.detect import Detected, columns_of, detect_format, foreign_table
from evaluation.formats.images import DOCUMENTS, find_image, list_images
from evaluation.formats.imports import READERS, find_stores, kind_of
from evaluation.formats.label_image import read_class_table
from evaluation.formats.tables import CLASS_COLUMNS, ID_COLUMNS
from evaluation.model import Annotations, Case, Outlines, Points
from evaluation.submission import open_submission
from evaluation.submission.by_pattern import NOTE, PLATFORM_LISTS

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
GREY, PALETTE = 0, 3  # colour types of PNG that labels may have
VOLUME_SUFFIXES = (".nii", ".nii.gz", ".nrrd", ".nhdr", ".mhd")
KAGGLE = {"pixel_order": "column", "first_pixel": 1}
NUMBERED = ("hovernet_mat", "conic_array", "pannuke_masks")  # formats with numbers for classes alone
PANNUKE = ("Neoplastic", "Inflammatory", "Connective", "Dead", "Epithelial")
UNKNOWN = "of no format that is known"
UNKNOWN_YX = (1 << 20, 1 << 20)


class TableFault(InputFault):
    """A table of ids and classes beside a label image cannot be read; without it the image can."""


def look(
    path: Path,
    workspace: Path,
    *,
    skip_tables: bool = False,
    imports: bool = False,
    sizes: Collection[tuple[int, int]] = (),
) -> FoundSide:
    """Find out what a folder, a ZIP or a file holds; a ZIP is unpacked into the workspace, an empty folder.

    skip_tables   tables of ids and classes are not read
    imports       files of formats that are no formats of challenges are imported, too
    sizes         of the images of the other side, as far as they are known

    Raises WrongUsage with what is wrong if there is nothing in it that can be read.
    """
    named = list_files(path, workspace)
    with faults_as(WrongUsage):
        images = images_of_jobs(dict(named))
    is_list = {name for name, _ in named if PurePosixPath(name).name in PLATFORM_LISTS and (images or "/" not in name)}
    files = see_files([(name, file) for name, file in named if name not in is_list], workspace, imports=imports)
    unfolded = unfold(files.seen, workspace, sizes)
    files.left_out += unfolded.left_out
    shown = quote(str(path), 200)
    if unfolded.notes and not imports:
        raise WrongUsage(fault("nothing-to-compare", shown, got=unfolded.notes[0].rstrip("."), wording="in-pieces"))
    kinds: dict[tuple[str, str, str], list[Seen]] = {}
    for one in unfolded.seen:
        kinds.setdefault((one.detected.format, str(sorted(one.detected.keys.items())), one.suffix), []).append(one)
    if not kinds:
        raise nothing_in(path, files, is_empty=not named)
    signs = explained(path, unfolded.seen, files.left_out)
    order = sorted(kinds, key=lambda kind: (-len(kinds[kind]), kind[0] == "label_image", kind))
    (format, _, suffix), chosen = order[0], kinds[order[0]]
    for kind in order[1:]:
        files.left_out += [(one.name, f"{kind[0]} ({kind[2]})") for one in kinds[kind]]
    tables, findings = tables_beside(path, format, chosen, files, skip_tables=skip_tables)
    if format == "yolo_txt":
        chosen = [*chosen, *files.blank]
    found = [
        FoundFile(one.path, one.name, suffix, classes=one.classes or tables.get(bare_parts(one.name))) for one in chosen
    ]
    keys = dict(chosen[0].detected.keys)
    try:
        try:
            side = understand(path, format, suffix, keys, found, tuple(findings), images)
        except TableFault as error:
            (first, *_), wording = error.findings, "table-not"
            place = f"{shown}, {first.where}"
            findings.append(fault("file-not-read", place, wording=wording, expected=first.expected, what=first.got))
            found = [replace(file, classes=None) for file in found]
            side = understand(path, format, suffix, keys, found, tuple(findings), images)
    except InputFault as error:
        is_told = found[0].path == path or all(one.where.startswith(shown) for one in error.findings)
        here = error.findings if is_told else [replace(one, where=f"{shown}, {one.where}") for one in error.findings]
        raise WrongUsage(*here) from None
    if unfolded.pictures and not imports:
        side = without_mask_endings(side)
    return replace(
        side,
        has_pictures=bool(unfolded.pictures),
        imports=tuple(sorted(files.imported | unfolded.forms)),
        notes=tuple(unfolded.notes),
        signs=tuple(signs),
        is_stack=unfolded.is_stack,
    )


def without_mask_endings(side: FoundSide) -> FoundSide:
    """The side with the names of its pictures for cases: ``a`` for ``a_masks``."""
    bare = {name: MASK_ENDING.sub("", name) for name in side.cases}
    if len(set(bare.values())) < len(bare):
        return side
    cases = {
        bare[name]: replace(case, files=tuple(replace(file, case=bare[name]) for file in case.files))
        for name, case in side.cases.items()
    }
    return replace(side, cases=cases)


@dataclass(slots=True)
class Files:
    """The files of a side one by one.

    left_out      names of those that are not read, and what they are
    blank         empty ones, which YOLO writes where it finds nothing
    paths         where each lies; imports lie in the workspace
    imported      what files were before they were imported
    not_imported  what is wrong with those that could not be
    """

    paths: dict[str, Path]
    seen: list[Seen] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    blank: list[Seen] = field(default_factory=list)
    imported: set[str] = field(default_factory=set)
    not_imported: list[Finding] = field(default_factory=list)


def see_files(named: Sequence[tuple[str, Path]], workspace: Path, *, imports: bool) -> Files:
    files = Files(dict(named))
    for name, file in named:
        is_note = NOTE.fullmatch(PurePosixPath(name).name)
        of_import = None
        try:
            if (of_import := kind_of(file)) is not None:
                words = READERS[of_import][0]
                if not imports:
                    files.left_out.append((name, f"{words}, {CONVERT} label_tiff or geojson"))
                    continue
                file = files.paths[name] = imported(file, workspace, name=name)
                files.imported.add(words)
            detected, suffix = detect_file(file)
        except InputFault as error:
            files.not_imported += error.findings if of_import else ()
            if not is_note:
                files.left_out.append((name, error.findings[0].got))
            continue
        is_read = suffix != UNKNOWN if detected is None else detected.format in ("yolo_txt", "points_csv")
        if is_note and not file.stat().st_size:
            files.blank.append(Seen(name, file, Detected("yolo_txt"), ".txt"))
        elif is_note and not is_read:
            continue
        elif detected is None:
            files.left_out.append((name, suffix))
        else:
            files.seen.append(Seen(name, file, detected, suffix))
    return files


def nothing_in(path: Path, files: Files, *, is_empty: bool) -> WrongUsage:
    """What is raised for a side without a file that can be read."""
    shown = quote(str(path), 200)
    if files.not_imported:
        return WrongUsage(*(replace(one, where=f"{shown}, {one.where}") for one in files.not_imported))
    got, fix = "no file" if is_empty else "notes only", None
    if files.left_out:
        name, what = files.left_out[0]
        got = f"no labels, but {quote(name)}, {what}"
        image = Seen(name, files.paths[name], Detected("label_image"), picture_suffix(files.paths[name]))
        fix = remedy(image, what, path)
    return WrongUsage(fault("nothing-to-compare", shown, got=got, fix=fix))


def tables_beside(
    path: Path, format: str, chosen: Sequence[Seen], files: Files, *, skip_tables: bool
) -> tuple[dict[tuple[str, ...], Path], list[Finding]]:
    """The tables of ids and classes beside label images, and what was left out. All images must have one, or none."""
    stems = {bare_parts(one.name): one.name for one in chosen}
    tables = class_tables((name, files.paths[name]) for name, _ in files.left_out) if format == "label_image" else {}
    of_tables = set(tables.values())
    first_map = next(iter(class_maps(stems.values()).values()), None) if tables else None
    without = next((name for stem, name in stems.items() if stem not in tables), None)
    but = ""  # why the tables are not used
    if first_map:
        but = f", but class maps such as {quote(first_map, 120)} go before tables"
    elif without:
        but = f", but {quote(without, 120)} has none beside it"
    left_out: dict[str, list[str]] = {}
    for name, what in files.left_out:
        if what == COLOURED and bare_parts(name) in stems:  # the image of a case
            continue
        if files.paths[name] in of_tables:
            if skip_tables or (not but and bare_parts(name) in stems):
                continue
            what = f"a table of ids and classes{but}"
        left_out.setdefault(what, []).append(quote(f"{path.name}/{name}", 120))
    findings = [fault("file-not-read", *names, got=what) for what, names in left_out.items()]
    return {} if skip_tables or but else tables, findings


def explained(path: Path, seen: Sequence[Seen], not_read: Sequence[tuple[str, str]]) -> list[str]:
    """What the files of a side were taken for, and by which sign, in lines."""
    taken = [(f"read as {one.detected.format}", one.detected.sign, one.name) for one in seen]
    alike: dict[tuple[str, str], list[str]] = {}
    for what, why, name in (*taken, *(("not read", why, name) for name, why in not_read)):
        alike.setdefault((what, why), []).append(name)
    return [
        f"  {len(names):,} {'file' if len(names) == 1 else 'files'} {what} ({why}), such as "
        f"{quote(f'{path.name}/{names[0]}', 120)}"
        for (what, why), names in alike.items()
    ]


def list_files(path: Path, workspace: Path) -> list[tuple[str, Path]]:
    """All files of a folder or a ZIP with their names in it, or the file itself; hidden ones are left out.

    Zarr stores that are folders are packed into the workspace, each as one file.
    """
    if path.is_file() and (suffix_of(path.name) == ".npz" or holds_one_image(path)):
        return [(path.name, path)]
    limits = LimitRules()
    try:
        files = open_submission(path, limits)
    except SubmissionRejected as error:
        side = quote(str(path), 200)
        raise WrongUsage(
            *(
                replace(one, where=f"{side}, {one.where}" if one.code == "unsafe-path" else side)
                for one in error.findings
            )
        ) from None
    found = []
    with faults_as(WrongUsage):
        stores = find_stores(files.names)
        for top, parts in stores.items():
            found.append((f"{top or path.resolve().name}.zip", pack(files, parts, top, workspace)))
        in_stores = {part for parts in stores.values() for part in parts}
        names = [name for name in files.names if name not in in_stores]
        names = [name for name in names if not any(part.startswith(".") for part in name.split("/"))]
        for name in names:
            if path.is_dir() and (path / name).is_file():
                found.append((name, path.resolve() / name))
                continue
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            with files.open(name) as packed, (workspace / name).open("wb") as target:
                shutil.copyfileobj(packed, target)
            found.append((name, workspace / name))
    return found


def class_tables(others: Iterable[tuple[str, Path]]) -> dict[tuple[str, ...], Path]:
    """The tables of ids and classes, by the parts of their names without suffixes."""
    return {bare_parts(name): path for name, path in others if is_class_table(path)}


def is_class_table(path: Path) -> bool:
    """Whether a CSV file has a column of ids and one of classes."""
    if path.suffix.lower() != CLASS_TABLE:
        return False
    with path.open("rb") as stream:
        columns = columns_of(stream.read(4096).removeprefix(codecs.BOM_UTF8))
    ids = [name for name in ID_COLUMNS if name in columns]
    return bool(ids) and not columns.isdisjoint(set(CLASS_COLUMNS) - {ids[0]})


def holds_one_image(path: Path) -> bool:
    """Whether a file is no ZIP, or one that is imported: ROIs of ImageJ, or one Zarr store."""
    with path.open("rb") as stream:
        return stream.read(4) not in (ZIP_MAGIC, EMPTY_ZIP_MAGIC) or kind_of(path) is not None


def is_plain_zip(path: Path) -> bool:
    return path.name.lower().endswith(".zip") and not path.name.lower().endswith(".zarr.zip")


def has_arrays(stream: BinaryIO) -> bool:
    """Whether a ZIP has arrays of NumPy, or is damaged, which is told later; the stream is left at its start."""
    try:
        with zipfile.ZipFile(stream) as archive:
            return any(name.endswith(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        return True
    finally:
        stream.seek(0)


def detect_file(path: Path) -> tuple[Detected | None, str]:
    """The format of a file and the suffix that its content has; None and what it is if it holds no nuclei."""
    try:
        detected = detect_format(path)
        if detected is None:
            if (suffix := suffix_of(path.name)) in VOLUME_SUFFIXES:
                return None, f"an image as scanners make it ({suffix}), most often a volume; {VOLUMES}"
            with path.open("rb") as stream:
                return None, foreign_file(path) or foreign_table(path) or what_it_is(stream.read(16)) or UNKNOWN
        if detected.format != "label_image":
            return detected, SUFFIXES.get(detected.format, ".json")
        with path.open("rb") as stream:
            head = stream.read(26)
            suffix = picture_suffix(path)
            stream.seek(0)
            if suffix == ".npz" and is_plain_zip(path) and not has_arrays(stream):
                return None, "a ZIP, which is not opened: name that one, or unpack it"
            if is_coloured(head, suffix, stream):
                return None, COLOURED
        return detected, suffix
    except OSError as error:
        return None, (error.strerror or "not readable").lower()


def picture_suffix(path: Path) -> str:
    """The suffix that the content of an image file has, "" for other files."""
    with path.open("rb") as stream:
        head = stream.read(16)
    return next((suffix for magics, suffix in PICTURE_SUFFIXES.items() if head.startswith(magics)), "")


def is_coloured(head: bytes, suffix: str, stream: BinaryIO) -> bool:
    """Whether an image has several samples for each pixel."""
    if suffix == ".png":
        return len(head) == 26 and head[25] not in (GREY, PALETTE)
    if suffix != ".tif":
        return False
    try:
        page = TiffFile(stream).pages()[0]
        return page.samples > 1 and page.value(Tag.PLANAR_CONFIGURATION, 1) == 1
    except (CutOff, Damaged, IndexError):
        return False


def understand(
    path: Path,
    format: str,
    suffix: str,
    keys: dict[str, Any],
    files: list[FoundFile],
    findings: tuple[Finding, ...],
    images: Mapping[str, str],
) -> FoundSide:
    """The cases and classes of files of one format; ``images`` by the folders of the platform's jobs.

    Raises InputFault for files that cannot be read.
    """
    keys = {**usual_keys(format, keys), **keys}
    if format == "midog_json" and has_boxes_of_coco(files[0], format, keys):
        raise InputFault(fault("nothing-to-compare", quote(str(path), 200), wording="boxes"))
    if FORMATS[format].file_holds != "one case" and len(files) == 1:
        shared = look_into_shared(path, format, suffix, keys, files[0], findings)
        if shared is not None:
            return shared
    if FORMATS[format].file_holds == "all cases":
        got = f"{len(files)} files, each of which may hold many images ({format})"
        raise InputFault(fault("nothing-to-compare", quote(str(path), 200), got=got))
    files = place_in_jobs(files, images) if images else place_files(files, format)
    by_case: dict[str, list[FoundFile]] = {}
    for file in files:
        by_case.setdefault(file.case, []).append(file)
    classes: list[str] = []
    cases: dict[str, FoundCase] = {}
    numbers: dict[str, int] = {}
    for case, of_case in by_case.items():
        found = [look_into(file, format, keys, [] if file.of_class else classes, numbers) for file in of_case]
        classes += [file.of_class for file in of_case if file.of_class and file.of_class not in classes]
        size_yx = next((size for size, _ in found if size), None) or size_beside(of_case[0])
        extents = [extent for _, extent in found if extent]
        extent_yx = (max(y for y, _ in extents), max(x for _, x in extents)) if extents else None
        cases[case] = FoundCase(tuple(of_case), of_case[0].group, size_yx, None, extent_yx)
    named = tuple(name for name in classes if name != NAMELESS) if set(classes) != {NAMELESS} else ()
    return FoundSide(path, format, suffix, keys, cases, named, numbers, False, findings)


def usual_keys(format: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a format that have to be said, with the values that ``convert`` takes."""
    usual = {**DEFAULTS, **KAGGLE, "other_shapes": "skip", "origin": usual_origin(format, keys)}
    if keys.get("shape") == "point":
        usual = {key: value for key, value in usual.items() if key not in ("vertices", "vanished")}
    fields = FORMATS[format].model_fields
    return {key: value for key, value in usual.items() if key in fields}


# --- what is in files ---


def size_beside(file: FoundFile) -> tuple[int, int] | None:
    """The size of an image that is named like a file, and lies beside it."""
    for suffix in IMAGE_SUFFIXES:
        path = file.path.with_name(file.case + suffix)
        if path != file.path and path.is_file():
            return read_image_size(path)
    return None


def request_for(name: str, where: str, format: str, keys: Mapping[str, Any], names: list[str]) -> Request:
    rules: FormatRules = FORMATS[format].model_validate({"format": format, "files": "{case}", **keys})
    return Request(
        where=quote(where, 120), name=name, rules=rules, classes=class_table(rules, names), limits=LimitRules()
    )


def look_into(
    file: FoundFile, format: str, keys: dict[str, Any], classes: list[str], numbers: dict[str, int]
) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """The size of the image of a file, and how far its nuclei reach; new classes are added to the lists.

    Raises InputFault if the file cannot be read, TableFault if its class table cannot.
    """
    given, keys = keys, dict(keys)
    if format == "pannuke_masks":
        with file.path.open("rb") as stream:
            request = request_for(file.case + file.suffix, file.name, format, {**keys, "class_values": {"a": 0}}, ["a"])
            keys["class_values"] = channels_of(CaseArray(stream, request).shape[-1], classes, numbers)
    named = classes if format == "pannuke_masks" else []
    request = request_for(file.case + file.suffix, file.name, format, keys, named)
    with file.path.open("rb") as stream:
        is_image = file.suffix in IMAGE_SUFFIXES
        found = None if is_image else find_image(Path(file.case + file.suffix), stream, request, file.case)
        size_yx = read_image_size(file.path) if found is None else found.size_yx
        if format == "hovernet_mat":
            add_numbers(numbers_in_mat(stream, file.name), classes, numbers)
        if file.classes is not None and file.class_key == "class_table":
            with file.classes.open("rb") as table:
                where = quote(str(PurePosixPath(file.name).with_name(file.classes.name)), 120)
                try:
                    read_class_table(table, request, where)
                except InputFault as fault:
                    raise TableFault(*fault.findings) from None
            classes += [name for name in request.classes.ids if name not in classes]
        elif file.classes is not None:
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
    assert file.classes is not None
    assert size_yx is not None
    with file.classes.open("rb") as stream:
        limit = LimitRules().bytes_per_file
        return whole_numbers(
            read_image(stream, suffix=file.suffix, where=quote(file.name), shape_yx=size_yx, bytes_limit=limit)
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


def has_boxes_of_coco(file: FoundFile, format: str, keys: Mapping[str, Any]) -> bool:
    """Whether the boxes of a file are COCO's (x, y, width, height) and not MIDOG's (two corners, for a point)."""
    with file.path.open("rb") as stream:
        document = read_document(stream, request_for(file.name, file.name, format, keys, []))
        entries = [entry for piece in document.pieces for entry in piece if type(entry) is dict]
    boxes: list[tuple[Any, Any]] = [
        (entry["bbox"], entry.get("area")) for entry in entries if is_box(entry.get("bbox"))
    ]
    if not boxes:
        return False
    is_size = any(x > width or y > height for (x, y, width, height), _ in boxes)
    has_area = all(type(area) in (int, float) and abs(area - b[2] * b[3]) <= 0.01 * area for b, area in boxes)
    return not document.images or is_size or has_area


def is_box(box: object) -> bool:
    return type(box) is list and len(box) == 4 and all(type(side) in (int, float) for side in box)


def look_into_shared(
    path: Path, format: str, suffix: str, keys: dict[str, Any], file: FoundFile, findings: tuple[Finding, ...]
) -> FoundSide | None:
    """The cases and classes of a file that holds all cases; None if it holds one without a name."""
    classes: list[str] = []
    numbers: dict[str, int] = {}
    categories: Mapping[str, str] = {}
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
            if format in DOCUMENTS:
                categories = read_document(stream, request).categories
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
        cases[name] = FoundCase(
            (file,), "", image.size_yx, image.index, extent_yx, image.id, (image.names or ("",))[-1]
        )
    named = tuple(name for name in classes if name != NAMELESS)
    return FoundSide(path, format, suffix, keys, cases, named, numbers, True, findings, categories=categories)
