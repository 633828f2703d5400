"""What a folder, a ZIP or a file holds, detected from its content: format, cases, groups, sizes and classes."""

from __future__ import annotations

import codecs
import shutil
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from evaluation.authoring.contents import TableFault, has_boxes_of_coco, look_into, look_into_shared, size_beside
from evaluation.authoring.convert import DEFAULTS, usual_origin
from evaluation.authoring.imports import imported, pack
from evaluation.authoring.pieces import COLOURED, VOLUMES, Seen, remedy, unfold
from evaluation.authoring.places import bare_parts, class_maps, images_of_jobs, place_files, place_in_jobs
from evaluation.authoring.sides import CLASS_TABLE, NAMELESS, FoundCase, FoundFile, FoundSide
from evaluation.challenge import LimitRules
from evaluation.challenge.formats import FORMATS
from evaluation.decoding.content import (
    EMPTY_ZIP_MAGIC,
    MHA_MAGICS,
    NPY_MAGIC,
    PNG_MAGIC,
    TIFF_MAGICS,
    ZIP_MAGIC,
    what_it_is,
)
from evaluation.decoding.foreign import CONVERT, foreign_file
from evaluation.decoding.streams import CutOff, Damaged
from evaluation.decoding.tiff_header import Tag, TiffFile
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import InputFault, SubmissionRejected, WrongUsage, faults_as
from evaluation.formats.csv_columns import CLASS_COLUMNS, ID_COLUMNS
from evaluation.formats.detect import Detected, columns_of, detect_format
from evaluation.formats.imports import READERS, find_stores, kind_of
from evaluation.formats.label_image import suffix_of
from evaluation.submission import open_submission
from evaluation.submission.by_pattern import PLATFORM_LISTS
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
GREY, PALETTE = 0, 3  # colour types of PNG that labels may have
VOLUME_SUFFIXES = (".nii", ".nii.gz", ".nrrd", ".nhdr", ".mhd")
KAGGLE = {"pixel_order": "column", "first_pixel": 1}


def look_at(
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
    if images:
        named = [(name, file) for name, file in named if PurePosixPath(name).name not in PLATFORM_LISTS]
    seen: list[Seen] = []
    not_read: list[tuple[str, str]] = []
    blank: list[Seen] = []  # what YOLO writes where it finds nothing
    formats_imported: set[str] = set()
    not_imported: list[Finding] = []
    paths = dict(named)
    for name, file in named:
        if name in PLATFORM_LISTS:
            continue
        is_note = NOTE.fullmatch(PurePosixPath(name).name)
        try:
            if (of_import := kind_of(file)) is not None:
                words = READERS[of_import][0]
                if not imports:
                    not_read.append((name, f"{words}, {CONVERT} label_tiff or geojson"))
                    continue
                file = paths[name] = imported(file, workspace, name=name)
                formats_imported.add(words)
            detected, suffix = detect_file(file)
        except InputFault as error:
            not_imported += error.findings if of_import else ()
            if not is_note:
                not_read.append((name, error.findings[0].got))
            continue
        if is_note and (detected is None or detected.format != "yolo_txt"):
            if not file.stat().st_size:
                blank.append(Seen(name, file, Detected("yolo_txt"), ".txt"))
        elif detected is None:
            not_read.append((name, suffix))
        else:
            seen.append(Seen(name, file, detected, suffix))
    unfolded = unfold(seen, workspace, sizes)
    not_read += unfolded.left_out
    formats_imported |= unfolded.forms
    signs = explained(path, unfolded.seen, not_read)
    kinds: dict[tuple[str, str, str], list[Seen]] = {}
    for one in unfolded.seen:
        kinds.setdefault((one.detected.format, str(sorted(one.detected.keys.items())), one.suffix), []).append(one)
    if not kinds and not_imported:
        raise WrongUsage(*(replace(one, where=f"{quote(str(path), 200)}, {one.where}") for one in not_imported))
    if not kinds:
        got, fix = "no file" if not named else "notes only", None
        if not_read:
            got = f"no labels, but {quote(not_read[0][0])}, {not_read[0][1]}"
            name, what = not_read[0]
            fix = remedy(Seen(name, paths[name], Detected("label_image"), picture_suffix(paths[name])), what, path)
        raise WrongUsage(fault("nothing-to-compare", quote(str(path), 200), got=got, fix=fix))
    order = sorted(kinds, key=lambda kind: (-len(kinds[kind]), kind[0] == "label_image", kind))
    chosen = kinds[order[0]]
    for kind in order[1:]:
        not_read += [(one.name, f"{kind[0]} ({kind[2]})") for one in kinds[kind]]
    stems = {bare_parts(one.name): one.name for one in chosen}
    tables = class_tables((name, paths[name]) for name, _ in not_read) if order[0][0] == "label_image" else {}
    of_tables = set(tables.values())
    first_map = next(iter(class_maps(stems.values()).values()), None) if tables else None
    without = next((name for stem, name in stems.items() if stem not in tables), None)
    but = ""  # why the tables are not used: all images of a side must have one
    if first_map:
        but = f", but class maps such as {quote(first_map, 120)} go before tables"
    elif without:
        but = f", but {quote(without, 120)} has none beside it"
    left_out: dict[str, list[str]] = {}
    for name, what in not_read:
        if what == COLOURED and bare_parts(name) in stems:  # the image of a case
            continue
        if paths[name] in of_tables:
            if skip_tables or (not but and bare_parts(name) in stems):
                continue
            what = f"a table of ids and classes{but}"
        left_out.setdefault(what, []).append(quote(f"{path.name}/{name}", 120))
    findings = [fault("file-not-read", *names, got=what) for what, names in left_out.items()]
    (format, _, suffix), detected = order[0], chosen[0].detected
    if format == "yolo_txt":
        chosen = [*chosen, *blank]
    if skip_tables or but:
        tables = {}
    files = [
        FoundFile(one.path, one.name, suffix, classes=one.classes or tables.get(bare_parts(one.name))) for one in chosen
    ]
    shown, keys = quote(str(path), 200), dict(detected.keys)
    try:
        try:
            side = understand(path, format, suffix, keys, files, tuple(findings), images)
        except TableFault as error:
            first = error.findings[0]
            findings.append(
                fault(
                    "file-not-read",
                    f"{shown}, {first.where}",
                    wording="table-not",
                    expected=first.expected,
                    what=first.got,
                )
            )
            files = [replace(file, classes=None) for file in files]
            side = understand(path, format, suffix, keys, files, tuple(findings), images)
    except InputFault as error:
        is_told = files[0].path == path or all(one.where.startswith(shown) for one in error.findings)
        here = error.findings if is_told else [replace(one, where=f"{shown}, {one.where}") for one in error.findings]
        raise WrongUsage(*here) from None
    return replace(
        side,
        imports=tuple(sorted(formats_imported)),
        notes=tuple(unfolded.notes),
        signs=tuple(signs),
        is_stack=unfolded.is_stack,
    )


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
                return None, foreign_file(path) or what_it_is(stream.read(16)) or "of no format that is known"
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
