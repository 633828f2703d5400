"""Contents of a folder, a ZIP or a file: format, cases, groups, sizes and classes, found by the readers.

``look`` goes through the files of a side in this order: the type of each file (``_recognise``), contents of images
besides one plane of labels (``unfold``), the most common format, and its reader's findings about each of these files.
Each decision is a sign with its reason, which notes and ``compare --explain`` print.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import numpy as np

from evaluation.challenge import FormatRules, LimitRules
from evaluation.challenge.formats import FORMATS, LARGEST_NUMBER, usual_suffix
from evaluation.files.decoding.annotations import Annotations
from evaluation.files.decoding.guard import reader_faults_told
from evaluation.files.decoding.label_array import find_edges, values_of_masks
from evaluation.files.decoding.mat_file import MatFile, read_mat_labels
from evaluation.files.decoding.pixels import TISSUE_SUFFIXES, check_directory, read_image, read_image_size, suffix_of
from evaluation.files.decoding.streams import CONVERT, GZIP_MAGIC, CutOff, Damaged, foreign_file, what_it_is
from evaluation.files.decoding.tiff import TiffFile
from evaluation.files.formats import BY_NAME, Request, format_of, read_annotations, read_collection
from evaluation.files.formats.arrays import TYPE_MAP, TYPES, CaseArray, variable_of
from evaluation.files.formats.coco import EMPTY_LIST, read_coco
from evaluation.files.formats.detect import Detected, FoundImage, detect_format, find_image, list_images
from evaluation.files.formats.headers import CLASS_COLUMNS, ID_COLUMNS, foreign_table, header_names
from evaluation.files.formats.imports import READERS, STORE_DIRECTORY_BYTES, is_store, kind_of
from evaluation.files.formats.label_image import read_class_table
from evaluation.files.submission.by_pattern import NOTE, PLATFORM_LISTS
from evaluation.files.submission.files import FolderFiles
from evaluation.findings import Finding, counted, fault, quote
from evaluation.findings.errors import InputFault, WrongUsage, faults_as, refused
from evaluation.folders import places
from evaluation.folders import source as sides
from evaluation.folders.pieces import COLOURED, VOLUMES, Files, axes_of_tiff, pixels_of, plane_of, remedy, unfold
from evaluation.folders.source import Size, Source, SourceCase, SourceFile, bare_parts
from nuclei_metrics.instances.plausible import holders_of_outlines, outlines_around_others, select_outlines
from nuclei_metrics.model import Case, ClassTable, LabelImage, LabelRuns, Outlines, Points

GREY, PALETTE = 0, 3  # colour types of PNG that labels may have
DEFAULTS: Mapping[str, Any] = {
    "vertices": "exact",
    "vanished": "drop",
    "units": "px",
    "shape": "outline",
    "class_column": "main_classification",
    "pixel_order": "column",  # codes are those of Kaggle
    "first_pixel": 1,
}
USUAL = {**DEFAULTS, "other_shapes": "skip"}
PANNUKE = ("Neoplastic", "Inflammatory", "Connective", "Dead", "Epithelial")
UNKNOWN_YX = (1 << 20, 1 << 20)  # size of images whose size does not matter
NESTED = 0.8  # share of the outlines of a class that lie inside those of another one
SOME = 3  # images of a side whose pixels are looked at
UNKNOWN = "unknown format"
OF_REGIONS = re.compile("_(tissue|tissues|regions?|rois?|compartments?)$")
IN_NOTES = (".txt", ".csv")  # usual suffixes of formats that a .txt file is read in


def look(
    path: Path,
    workspace: Path,
    *,
    skip_tables: bool = False,
    imports: bool = False,
    sizes: Collection[Size] = (),
    leave_out: Sequence[str] = (),
    known: Collection[str] = (),
) -> Source:
    """Inspect a folder, a ZIP or a file; a ZIP is unpacked into the workspace, an empty folder.

    skip_tables   tables of ids and classes are not read
    imports       files in formats that challenges do not use are imported, too
    sizes         of the images of the other side, if available
    leave_out     names of classes that are not nuclei
    known         names of compared classes, if available: paths may name them

    Raises WrongUsage with the fault if there is nothing in it that can be read.
    """
    sides.begin_budget()
    shown, named = quote(str(path), 200), dict(sides.list_files(path, workspace))
    with faults_as(WrongUsage):
        images = sides.images_of_jobs(named)
    files = Files(workspace)
    for name, file in named.items():
        is_list = PurePosixPath(name).name in PLATFORM_LISTS and (images or "/" not in name)
        if not is_list:
            _add_to_side(files, name, file, imports=imports)
    unfold(files, sizes, lambda images: places.name_classes(images, known))
    if files.notes and not imports:
        raise WrongUsage(fault("nothing-to-compare", shown, got=files.notes[0].rstrip("."), wording="in-pieces"))
    kinds: dict[tuple[str, str, str], list[SourceFile]] = {}
    for one in files.read:
        kinds.setdefault((one.detected.format, str(sorted(one.detected.keys.items())), one.suffix), []).append(one)
    if not kinds:
        raise _nothing_in(path, named, files)
    signs = _explained(path, files)
    regions = _regions_among(files.read)
    files.left_out += [(name, why) for name, why in regions.items()]
    kinds = {key: [one for one in alike if one.name not in regions] for key, alike in kinds.items()}
    order = sorted(
        filter(kinds.get, kinds),
        key=lambda kind: (
            -len(kinds[kind]),
            kinds[kind][0].detected.sign == EMPTY_LIST,
            kind[0] == "label_image",
            kind,
        ),
    )
    (format, _, suffix), chosen = order[0], kinds[order[0]]
    files.left_out += [(one.name, f"{kind[0]} ({kind[2]})") for kind in order[1:] for one in kinds[kind]]
    others = {bare_parts(one.name)[-1]: one.name for kind in order[1:] for one in kinds[kind]}
    reading = _Reading(path, format, suffix, usual_keys(format, chosen[0].detected.keys, USUAL), known)
    if leave_out:
        reading.keys["skip_classes"] = tuple(leave_out)
    tables, findings = _tables_beside(reading, chosen, named, files, skip_tables=skip_tables)
    chosen = [replace(one, classes=one.classes or tables.get(bare_parts(one.name))) for one in chosen]
    try:
        source = reading.source([*chosen, *files.blank] if format == "yolo_txt" else chosen, images)
    except InputFault as error:
        is_told = chosen[0].path == path or all(one.where.startswith(shown) for one in error.findings)
        raise WrongUsage(*(error.findings if is_told else sides.placed_in(path, error.findings))) from None
    if files.pictures and not imports:
        source = _without_mask_endings(source)
    return replace(
        source,
        findings=(*findings, *reading.nested()),
        others=others,
        has_pictures=bool(files.pictures),
        imports=tuple(sorted(files.forms)),
        notes=(*files.notes, *reading.notes),
        signs=tuple(signs),
        is_stack=files.is_stack,
    )


def _regions_among(files: Sequence[SourceFile]) -> dict[str, str]:
    """Files of regions of the tissue by their names: "a_tissue" if there is an "a_nuclei"."""
    stems = {one.name: bare_parts(one.name)[-1].casefold() for one in files}
    nuclei = {stem.removesuffix("_nuclei") for stem in stems.values() if stem.endswith("_nuclei")}
    regions = [name for name, stem in stems.items() if OF_REGIONS.search(stem) and OF_REGIONS.sub("", stem) in nuclei]
    return dict.fromkeys(regions, "regions of tissue; nuclei are in other files")


def _without_mask_endings(source: Source) -> Source:
    """Name the cases of a source by their pictures: ``a`` instead of ``a_masks``."""
    bare = {name: sides.MASK_ENDING.sub("", name) for name in source.cases}
    if len(set(bare.values())) < len(bare):
        return source
    cases = {
        bare[name]: replace(case, files=tuple(replace(file, case=bare[name]) for file in case.files))
        for name, case in source.cases.items()
    }
    return replace(source, cases=cases)


# --- which files there are, and what each is --------------------------------------------------------------------------


def _add_to_side(files: Files, name: str, path: Path, *, imports: bool) -> None:
    """Sort a file into read or ignored files, with its type; notes are skipped."""
    is_note, import_kind = NOTE.fullmatch(PurePosixPath(name).name), kind_of(path)
    if import_kind and not imports:
        files.left_out.append((name, f"{READERS[import_kind][0]}, {CONVERT} label_tiff or geojson"))
        return
    try:
        if import_kind:
            path = sides.imported(path, files.workspace, name=name)
            files.forms.add(READERS[import_kind][0])
        file = _recognise(name, path)
    except InputFault as error:
        files.not_imported += error.findings if import_kind else ()
        if is_note:
            return
        file = error.findings[0].got
    if is_note and not path.stat().st_size:
        files.blank.append(SourceFile(name, path, Detected("yolo_txt"), ".txt"))
    elif is_note and (file == UNKNOWN if isinstance(file, str) else usual_suffix(file.detected.format) not in IN_NOTES):
        return
    elif isinstance(file, str):
        files.left_out.append((name, file))
    elif file.detected.format == "counts_csv":
        files.left_out.append((name, "numbers of nuclei only"))
    else:
        (files.coloured if file.detected.format == COLOURED else files.read).append(file)


def look_at_file(
    path: Path, workspace: Path, *, format: str | None = None, dataset: str | None = None, plane: object = None
) -> SourceFile:
    """The image of a single file, as ``look`` reads it; images from several planes are in the workspace.

    format   its format, if known
    dataset  the path of the array in an HDF5 file or a Zarr store
    plane    a channel or page of an image, or its colours as ids (``plane_of``)

    Raises InputFault for a damaged file and for several images, OSError, and WrongUsage for a file of no format.
    """
    sides.begin_budget()
    packed = path
    if is_store(path):
        files_of_store = FolderFiles(path, LimitRules())
        packed = sides.pack(files_of_store, files_of_store.names, "", workspace)
    if packed.is_dir() and format is None:
        raise _of_no_format(path, "a folder; convert its files one by one")
    made = sides.imported(packed, workspace, name=path.name, dataset=dataset)
    if format is not None:
        return SourceFile(path.name, made, Detected(format), suffix_of(made.name))
    files, file = Files(workspace), _recognise(path.name, made)
    if isinstance(file, str):
        raise _of_no_format(path, file)
    if plane is not None:
        return plane_of(file, plane, workspace)
    (files.coloured if file.detected.format == COLOURED else files.read).append(file)
    unfold(files, ())
    if len(files.read) > 1:
        names = ["/".join(bare_parts(one.name)) for one in files.read]
        raise refused("other-case", quote(path.name), wording="several-images-in-file", count=len(names), names=names)
    if not files.read:
        raise _of_no_format(path, files.left_out[0][1])
    return files.read[0]


def _of_no_format(path: Path, what: str) -> WrongUsage:
    if what == UNKNOWN:
        return WrongUsage(fault("unknown-format", quote(path.name), wording="no-known", known=FORMATS))
    return WrongUsage(fault("unknown-format", quote(path.name), wording="foreign", got=what))


def _recognise(name: str, path: Path) -> SourceFile | str:
    """Detect the format of a file and the suffix of its content; describe files without nuclei.

    Raises InputFault.
    """
    with reader_faults_told(quote(name, 120)):
        return _recognised(name, path)


def _recognised(name: str, path: Path) -> SourceFile | str:
    try:
        if (suffix := suffix_of(path.name)) in BY_NAME:
            flat = SourceFile(name, path, Detected("label_image", sign=f"an image of two axes ({suffix})"), suffix)
            axes = 2 if (array := pixels_of(flat)) is None else sum(side > 1 for side in array.shape)
            return flat if axes == 2 else f"an image of {axes} axes ({suffix}); {VOLUMES}"
        if (detected := detect_format(path)) is None:
            return next(filter(None, (words(path) for words in OTHERS)), UNKNOWN)
        suffix = usual_suffix(detected.format)
        if suffix == ".csv" and _head_of(path).startswith(GZIP_MAGIC):
            return "a table in a gzip file, which is not opened: unpack it"
        if detected.format != "label_image":
            return SourceFile(name, path, detected, suffix)
        suffix = sides.image_suffix(path)
        if _is_zip_of_others(path, suffix):
            return "a ZIP, which is not opened: pass this ZIP, or unpack it"
        is_coloured, axes_yx = _read_header(path, suffix)
        return SourceFile(name, path, Detected(COLOURED) if is_coloured else detected, suffix, axes_yx=axes_yx)
    except OSError as error:
        return (error.strerror or "not readable").lower()


def _is_zip_of_others(path: Path, suffix: str) -> bool:
    """Return whether a file is a ZIP, by content or name, except arrays of NumPy. A cut ZIP is reported later."""
    name = path.name.lower()
    if suffix != ".npz" or not name.endswith(".zip") or name.endswith(".zarr.zip"):
        return False
    try:
        with path.open("rb") as stream:
            members = check_directory(stream, STORE_DIRECTORY_BYTES)
    except (CutOff, Damaged) as error:
        return isinstance(error, Damaged)
    return not any(member.filename.endswith(".npy") for member in members)


def _read_header(path: Path, suffix: str) -> tuple[bool, tuple[tuple[int, ...], Size] | None]:
    """Return whether an image has several samples for each pixel, and ``SourceFile.axes_yx``."""
    is_coloured = False
    with path.open("rb") as stream, suppress(CutOff, Damaged, IndexError):
        if suffix == ".png":
            head = stream.read(26)
            return len(head) == 26 and head[25] not in (GREY, PALETTE), None
        if suffix == ".tif":
            pages = TiffFile(stream).pages()
            is_coloured = pages[0].samples > 1 and not pages[0].is_separate
            return is_coloured, (axes_of_tiff(pages), (pages[0].height, pages[0].width))
    return is_coloured, None


def _head_of(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(16)


# What may know a file of no format, in words; the first that does counts.
OTHERS: tuple[Callable[[Path], str], ...] = (
    foreign_file, foreign_table, lambda path: what_it_is(_head_of(path)),
)  # fmt: skip


def _nothing_in(path: Path, named: Mapping[str, Path], files: Files) -> WrongUsage:
    """Create the exception for a side without a file that can be read."""
    if files.not_imported:
        return WrongUsage(*sides.placed_in(path, files.not_imported))
    got, fix = "notes only" if named else "no file", None
    if files.left_out:
        known = [one for one in files.left_out if one[1] != UNKNOWN] or files.left_out
        name, what = next((one for one in known if sides.OF_OBJECTS.search(one[0])), known[0])
        alike = [other for other, why in files.left_out if why == what]
        beside = [(len(alike) - 1, "more alike"), (len(files.left_out) - len(alike), "of other kinds")]
        rest = " and ".join(f"{number:,} {words}" for number, words in beside if number)
        got = f"no labels, but {quote(name)}, {what}" + f" ({rest})" * bool(rest)
        image = SourceFile(name, named[name], Detected("label_image"), sides.image_suffix(named[name]))
        fix = remedy(image, what, path)
    return WrongUsage(fault("nothing-to-compare", quote(str(path), 200), got=got, fix=fix))


def _explained(path: Path, files: Files) -> list[str]:
    """Return lines on the detected types of files, and the signs of detection."""
    alike: dict[tuple[str, str], list[str]] = {}
    for one in files.read:
        alike.setdefault((f"read as {one.detected.format}", one.detected.sign), []).append(one.name)
    for name, why in files.left_out:
        alike.setdefault(("not read", why), []).append(name)
    return [
        f"  {counted(len(names), 'file')} {what} ({why}), such as {quote(f'{path.name}/{names[0]}', 120)}"
        for (what, why), names in alike.items()
    ]


# --- tables of ids and classes beside label images --------------------------------------------------------------------


def _tables_beside(
    reading: _Reading, chosen: Sequence[SourceFile], named: Mapping[str, Path], files: Files, *, skip_tables: bool
) -> tuple[dict[tuple[str, ...], Path], list[Finding]]:
    """Find the tables of ids and classes next to label images, and report ignored tables.

    Tables are used only if all images have a readable table. They are read into ``reading``.
    """
    images = {bare_parts(one.name): one for one in chosen}
    is_asked = reading.format == "label_image"
    tables = {bare_parts(n): named[n] for n, _ in files.left_out if is_asked and _is_class_table(named[n])}
    first_map = next(iter(sides.class_maps(one.name for one in chosen).values()), None) if tables else None
    without = next((one.name for parts, one in images.items() if parts not in tables), None)
    but = ""  # why the tables are not used
    if first_map:
        but = f", but class maps such as {quote(first_map, 120)} go before tables"
    elif without:
        but = f", but {quote(without, 120)} has no table next to it"
    paths, left_out = {*tables.values()}, dict[str, list[str]]()
    for name, what in files.left_out:
        if what == COLOURED and bare_parts(name) in images:  # the image of a case
            continue
        if named[name] in paths:
            if skip_tables or (not but and bare_parts(name) in images):
                continue
            what = f"a table of ids and classes{but}"
        left_out.setdefault(what, []).append(quote(f"{reading.path.name}/{name}", 120))
    findings = [fault("file-not-read", *names, got=what) for what, names in left_out.items()]
    if skip_tables or but:
        return {}, findings
    try:
        for parts, one in images.items():
            if parts in tables:
                reading.read_table(replace(one, classes=tables[parts]))
    except InputFault as error:
        reading.classes.clear()
        first, expected = error.findings[0], error.findings[0].expected
        place = sides.placed_in(reading.path, [first])[0].where
        findings.append(fault("file-not-read", place, wording="table-not", expected=expected, what=first.got))
        return {}, findings
    return tables, findings


def _is_class_table(path: Path) -> bool:
    """Return whether a CSV file has a column of ids and one of classes."""
    if path.suffix.lower() != sides.CLASS_TABLE:
        return False
    with path.open("rb") as stream:
        columns = header_names(stream.read(4096).removeprefix(codecs.BOM_UTF8))
    ids = [name for name in ID_COLUMNS if name in columns]
    return bool(ids) and not columns.isdisjoint(set(CLASS_COLUMNS) - {ids[0]})


# --- what the reader of the format says -------------------------------------------------------------------------------


@dataclass(slots=True)
class _Reading:
    """Files of one format that are read one after the other.

    keys      of its rules, completed from the files
    known     names of compared classes, if available
    notes     uncertainties about the paths of the files, in sentences
    classes   names of classes in order of appearance
    numbers   their numbers in the files, by name
    rules     of the previous file, with their keys
    held      number of outlines of a class inside outlines of another class, by the ids of both
    of_class  number of outlines per class, by its id
    """

    path: Path
    format: str
    suffix: str
    keys: dict[str, Any]
    known: Collection[str] = ()
    notes: Sequence[str] = ()
    classes: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    rules: tuple[Mapping[str, Any], FormatRules] | None = None
    held: Counter[tuple[int, int]] = field(default_factory=Counter)
    of_class: Counter[int] = field(default_factory=Counter)

    def source(self, files: list[SourceFile], images: Mapping[str, str]) -> Source:
        """The cases and classes of the files; ``images`` by the folders of the platform's jobs. Raises InputFault."""
        shown, holds = quote(str(self.path), 200), FORMATS[self.format].file_holds
        if self.format == "midog_json" and self.has_boxes_of_coco(files[0]):
            raise refused("nothing-to-compare", shown, wording="boxes")
        shared = self.look_into_shared(files[0]) if holds != "one case" and len(files) == 1 else None
        if shared is not None:
            return shared
        if holds == "all cases" or (self.format == "pannuke_masks" and len(files) > 1 and self.has_many(files[0])):
            got = f"{len(files)} files, such as {quote(files[0].name, 80)}, each with any number of images"
            got += f" ({self.format})"
            raise refused("nothing-to-compare", shown, got=got)
        by_case: dict[str, list[SourceFile]] = {}
        placed = places.place_in_jobs(files, images) if images else places.place_files(files, self.format, self.known)
        self.notes = placed.notes
        for file in placed.files:
            by_case.setdefault(file.case, []).append(file)
        cases = {}
        for case, parts in by_case.items():
            looks = [self.look_into(file) for file in parts]
            stem = bare_parts(parts[0].name)[-1]
            size_yx = next((size for size, _ in looks if size), None) or sides.size_beside(parts[0].path, case, stem)
            extents = [extent for _, extent in looks if extent]
            extent_yx = (max(y for y, _ in extents), max(x for _, x in extents)) if extents else None
            cases[case] = SourceCase(tuple(parts), parts[0].group, size_yx, None, extent_yx)
        if self.format == "label_image" and (values := values_of_masks(self.labels_of(cases))):
            for labels in islice(self.labels_of(cases), SOME):
                if edges := find_edges(labels, where=shown):
                    raise InputFault(*edges)
            self.keys["components"] = 8
            if len(values) > 1 and set(self.classes) <= {sides.NAMELESS, ""}:
                self.add_numbers(sorted(values))
        return self.source_of(cases)

    def nested(self) -> list[Finding]:
        """Warn of a class with outlines inside outlines of another class, like nuclei in cells."""
        return [
            fault(
                "nested-classes", quote(self.path.name), number=number, outlines=self.of_class[inner],
                inner=self.classes[inner - 1] or sides.NAMELESS, outer=self.classes[outer - 1] or sides.NAMELESS,
            )
            for (inner, outer), number in sorted(self.held.items())
            if inner != outer and min(inner, outer) > 0 and number >= NESTED * self.of_class[inner]
        ]  # fmt: skip

    def has_many(self, file: SourceFile) -> bool:
        request = self.request(file)
        with reader_faults_told(request.where), file.path.open("rb") as stream:
            return len(CaseArray(stream, request).shape) == 4

    def labels_of(self, cases: Mapping[str, SourceCase]) -> Iterator[LabelRuns]:
        """Yield the labels of images without classes. The faults of one are reported when it is scored."""
        for name, case in cases.items():
            for file in case.files:
                if file.classes is not None or case.size_yx is None or "class_channel" in self.keys:
                    return
                of_file = Case(name, name, *case.size_yx, 1.0, 0)
                with suppress(InputFault), file.path.open("rb") as stream:
                    (image,) = read_annotations(stream, self.request(file), of_file).parts
                    assert isinstance(image, LabelImage)
                    yield image.labels

    def source_of(self, cases: Mapping[str, SourceCase], **more: Any) -> Source:
        named = tuple(filter(None, self.classes))
        named = () if named == (sides.NAMELESS,) else named
        return Source(self.path, self.format, self.suffix, self.keys, cases, named, self.numbers, **more)

    def request(self, file: SourceFile, files: str = "{case}") -> Request:
        """How to read a file; its classes are added to the known classes, unless its path contains the class."""
        keys = {"format": self.format, "files": files, **self.keys}
        if self.format in sides.ARRAY_FORMATS:  # their numbers are not known before they are read
            keys["class_values"] = {"any": 1}
        if self.rules is None or self.rules[0] != keys:
            self.rules = keys, FORMATS[self.format].model_validate(keys)
        (_, rules), name = self.rules, (file.case or "all") + file.suffix
        classes = met_classes(rules, [] if file.of_class else self.classes, nameless="")
        return Request(where=quote(file.name, 120), name=name, rules=rules, classes=classes, limits=LimitRules())

    def look_into(self, file: SourceFile) -> tuple[Size | None, Size | None]:
        """The size of the image of a file, and how far its nuclei reach. Raises InputFault if it cannot be read."""
        if file.of_class and file.of_class not in self.classes:
            self.classes.append(file.of_class)
        of_header = file.axes_yx[1] if file.axes_yx and min(file.axes_yx[1]) > 0 else None
        if of_header and self.format == "label_image" and (file.classes is None or file.class_key == "class_table"):
            return of_header, None
        request = self.request(file)
        with reader_faults_told(request.where), file.path.open("rb") as stream:
            is_image = file.suffix in TISSUE_SUFFIXES
            image = None if is_image else find_image(Path(request.name), stream, request, file.case)
            size_yx = image.size_yx if image else of_header or read_image_size(file.path)
            if self.format == "pannuke_masks":
                self.add_channels(CaseArray(stream, request).shape[-1])
            elif self.format == "hovernet_mat":
                self.add_numbers(numbers_in_mat(stream, file.name))
            if file.classes is not None and file.class_key == "class_map":
                assert size_yx is not None
                where, suffix, limit = quote(file.name), file.suffix, request.limits.bytes_per_file
                read = read_mat_labels if suffix == ".mat" else partial(read_image, suffix=suffix)
                with file.classes.open("rb") as second:
                    pixels = read(second, where=where, shape_yx=size_yx, bytes_limit=limit)
                self.add_numbers(whole_values(pixels))
            if request.rules.dense or image is None:
                return size_yx, None
            case = Case(file.case, file.case, *(size_yx or UNKNOWN_YX), 1.0, 0)
            annotations = read_one_case(stream, request, case, image)
        if any(finding.code == "many-parts" for finding in annotations.findings):
            self.keys["parts"] = "apart"
        self.look_for_regions(annotations)
        return size_yx, _extent_of(annotations)

    def look_for_regions(self, annotations: Annotations) -> None:
        """Ignore tissue regions, if outlines of a case contain more than five nuclei."""
        outlines = [part for part in annotations.parts if isinstance(part, Outlines)]
        around = [outlines_around_others(part) for part in outlines]
        if any(regions.any() for regions in around) and "regions" in FORMATS[self.format].model_fields:
            self.keys["regions"] = "leave_out"
            outlines = [select_outlines(part, ~regions) for part, regions in zip(outlines, around, strict=True)]
        for part in outlines if len(self.classes) > 1 else ():
            holder = holders_of_outlines(part)
            self.of_class.update(part.class_id.tolist())
            inside = np.flatnonzero(holder >= 0)
            self.held.update(zip(part.class_id[inside].tolist(), part.class_id[holder[inside]].tolist(), strict=True))

    def read_table(self, file: SourceFile) -> None:
        """Add the classes in the table of ids and classes of a label image. Raises InputFault."""
        assert file.classes is not None
        where = quote(str(PurePosixPath(file.name).with_name(file.classes.name)), 120)
        with reader_faults_told(where), file.classes.open("rb") as table:
            read_class_table(table, self.request(file), where)

    def add_numbers(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if str(number) not in self.numbers:
                self.numbers[str(number)] = number
                self.classes.append(str(number))
        self.classes.sort(key=lambda name: self.numbers.get(name, 0))

    def add_channels(self, channels: int) -> None:
        """The channel of each class of PanNuke's masks; other arrays have numbers for names."""
        names = PANNUKE if channels == len(PANNUKE) + 1 else tuple(map(str, range(1, channels)))
        if not self.classes:
            self.classes += names
            self.numbers.update({name: channel for channel, name in enumerate(names)})

    def has_boxes_of_coco(self, file: SourceFile) -> bool:
        """Return whether the boxes of a file are COCO's (x, y, width, height) and not MIDOG's (two corners, for a
        point)."""
        request = self.request(file)
        with reader_faults_told(request.where), file.path.open("rb") as stream:
            document = read_coco(stream, request)
            entries = [entry for piece in document.pieces for entry in piece if type(entry) is dict]
        boxes: list[tuple[Any, Any]] = [
            (entry["bbox"], entry.get("area")) for entry in entries if _is_box(entry.get("bbox"))
        ]
        if not boxes:
            return False
        is_size = any(x > width or y > height for (x, y, width, height), _ in boxes)
        has_area = all(type(area) in (int, float) and abs(area - b[2] * b[3]) <= 0.01 * area for b, area in boxes)
        return not document.images or is_size or has_area

    def look_into_shared(self, file: SourceFile) -> Source | None:
        """The cases and classes of a file that contains all cases; None if it contains one without a name."""
        categories: Mapping[str, str] = {}
        extents: dict[str, Size | None] = {}
        request = self.request(file, f"all{self.suffix}")
        with reader_faults_told(request.where), file.path.open("rb") as stream:
            if self.format in sides.ARRAY_FORMATS:
                array = CaseArray(stream, request)
                if self.format == "pannuke_masks" and len(array.shape) != 4:
                    return None
                if self.format == "pannuke_masks":
                    self.add_channels(array.shape[3])
                elif len(array.shape) == 4:
                    planes = (array.of_case(index)[..., 1] for index in range(array.shape[0]))
                    self.add_numbers(sorted({number for plane in planes for number in whole_values(plane)}))
                stream.seek(0)
                images = list_images(stream, request)
            else:
                images = list_images(stream, request)
                if not any(image.names for image in images):
                    return None
                if FORMATS[self.format].image_ids:
                    categories = read_coco(stream, request).categories
                stream.seek(0)
                cases = {n: Case(n, n, *(image.size_yx or UNKNOWN_YX)) for image in images for n in image.names}
                collection = read_collection(stream, request, cases)
                extents = {}
                for name in collection.cases:
                    annotations = collection.cases[name]
                    self.look_for_regions(annotations)
                    extents[name] = _extent_of(annotations)
        digits, shared = len(str(len(images))), {}
        for image in images:
            name = image.names[0] if image.names else f"image_{image.index:0{digits}}"
            extent_yx = next((extents[n] for n in image.names if extents.get(n)), None)
            called = (image.names or ("",))[-1]
            shared[name] = SourceCase((file,), "", image.size_yx, image.index, extent_yx, image.id, called)
        if FORMATS[self.format].image_ids and not categories:  # results, whose classes are ids
            self.numbers.update({name: int(name) for name in self.classes if name.isdecimal()})
        return self.source_of(shared, is_shared=True, categories=categories)


def _extent_of(annotations: Annotations) -> Size | None:
    """The height and width of an image that contains all nuclei."""
    points = [part.points_xy for part in annotations.parts if isinstance(part, Outlines | Points)]
    points = [xy for xy in points if len(xy)]
    if not points:
        return None
    x, y = np.concatenate(points).max(axis=0)
    return max(1, int(np.ceil(y)) + 1), max(1, int(np.ceil(x)) + 1)


def _is_box(box: object) -> bool:
    return type(box) is list and len(box) == 4 and all(type(side) in (int, float) for side in box)


# --- a file that no challenge describes -------------------------------------------------------------------------------


def usual_keys(format: str, keys: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a format, with default values."""
    is_centre = keys.get("tool", "") in format_of(format).centred
    values = {**usual, "origin": "pixel_centre" if is_centre else "pixel_corner"}
    not_own = ("vertices", "vanished") if keys.get("shape") == "point" else ()
    fields = FORMATS[format].model_fields.keys() - set(not_own)
    return {key: value for key, value in values.items() if key in fields} | dict(keys)


class _Discovered(Mapping[Any, int]):
    """Assigns class ids to names, or to numbers, at first use."""

    def __init__(self, names: list[str], nameless: str) -> None:
        self.names, self.nameless = names, nameless

    def __getitem__(self, key: Any) -> int:
        name = getattr(key, "written", str(key))  # files are looked up in lower case
        if not name or re.fullmatch("Point [0-9]+", name):  # the platform's word for no name
            name = self.nameless
        folded = [known.casefold() for known in self.names]
        if name.casefold() not in folded:
            self.names.append(name)
            folded.append(name.casefold())
        return folded.index(name.casefold()) + 1

    def __contains__(self, key: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def met_classes(rules: FormatRules, names: list[str], nameless: str = sides.NAMELESS) -> ClassTable:
    """Create a table that accepts every class: new classes are added, unnamed classes as ``nameless``."""
    met = _Discovered(names, nameless)
    return ClassTable((), met, met, frozenset(name.casefold() for name in rules.skip_classes))


def read_one_case(stream: BinaryIO, request: Request, case: Case, image: FoundImage) -> Annotations:
    """The annotations of the only case of a file."""
    stream.seek(0)
    if not image.in_collection:
        return read_annotations(stream, request, case)
    collection = read_collection(stream, request, {image.name: case})
    annotations = collection.cases.get(case.name, Annotations(()))
    return Annotations(annotations.parts, (*collection.findings, *annotations.findings))


def numbers_in_mat(stream: BinaryIO, name: str) -> list[int]:
    """The class numbers in a file of HoVer-Net. Raises InputFault."""
    where = quote(name, 120)
    with reader_faults_told(where):
        mat = MatFile(stream, where=where, bytes_limit=LimitRules().bytes_per_file)
        variable = variable_of(mat, *TYPES) or variable_of(mat, TYPE_MAP)
        return [] if variable is None else whole_values(mat.read(variable))


def whole_values(values: np.ndarray[Any, Any]) -> list[int]:
    """The numbers from 1 that occur, ascending."""
    return [int(value) for value in np.unique(values) if 0 < value <= LARGEST_NUMBER and value == int(value)]
