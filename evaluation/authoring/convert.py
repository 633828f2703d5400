"""``evaluation convert``: from any format to formats that other programs open.

Outlines stay outlines where both formats have them, so no vertex moves; else nuclei become pixels on the way.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from pydantic import ValidationError

from evaluation.authoring.imports import imported, pack_folder
from evaluation.challenge import Challenge, FormatRules, LimitRules
from evaluation.challenge.base import faults_of, joined
from evaluation.challenge.documents import parse_toml
from evaluation.challenge.formats import FORMATS, LARGEST_NUMBER, keys_of_formats
from evaluation.decoding.content import foreign_file
from evaluation.decoding.mat_file import MatFile
from evaluation.decoding.npy import CLASS_NAMES, ID_NAMES
from evaluation.decoding.pixels import read_image, suffix_of
from evaluation.decoding.streams import damage_told, plain_chunks
from evaluation.findings import Finding, counted, fault, quote
from evaluation.findings.errors import ConversionRefused, InputFault, SubmissionRejected, WrongUsage, faults_as
from evaluation.formats import Request, read_annotations, read_collection
from evaluation.formats.detect import Detected, detect_format, foreign_table
from evaluation.formats.geojson import write_geojson
from evaluation.formats.images import FoundImage, find_image
from evaluation.formats.imports import is_store, kind_of
from evaluation.formats.mat_files import TYPE_MAP, TYPES, variable_of
from evaluation.formats.platform_json import write_points_json, write_polygons_json
from evaluation.formats.tables import COLUMN_PREFIX
from evaluation.formats.write_labels import write_class_tiff, write_label_tiff, write_nary_mat
from evaluation.instances.outlines import trace_outlines
from evaluation.instances.overlap import resolve_overlaps
from evaluation.instances.parts import ConvertedParts, convert_parts
from evaluation.instances.rasterise import placed_vertices
from evaluation.model import (
    Annotations,
    Case,
    ClassTable,
    Counts,
    Instances,
    Int16,
    LabelImage,
    OriginRule,
    Outlines,
    OverlapRule,
    Part,
    Points,
)
from evaluation.results.files import all_or_none
from evaluation.scoring.read import (
    Side,
    in_image,
    outside_image,
    read_case,
    read_shared_reference,
    reference_files,
    reference_side,
    shared_reference_files,
    submission_side,
)
from evaluation.scoring.receive import CaseContent, receive_submission

Target = Literal["geojson", "label_tiff", "nary_mat", "platform"]
TARGETS: dict[Target, str] = {"geojson": ".geojson", "label_tiff": ".tif", "nary_mat": ".mat", "platform": ".json"}
SUFFIXES = {*TARGETS.values(), ".tiff"}  # of OUTPUT; another one is a part of its name
DEFAULTS: Mapping[str, Any] = {
    "vertices": "exact",
    "vanished": "drop",
    "units": "px",
    "shape": "outline",
    "class_column": "main_classification",
}
UNKNOWN_YX = (1 << 20, 1 << 20)  # size of images whose size does not matter
DRAWN: tuple[Target, ...] = ("geojson", "platform")
PAINTED: tuple[Target, ...] = ("label_tiff", "nary_mat")
CLASS_PROBABILITIES = {
    **dict.fromkeys(("geojson", "polygons_json", "points_json"), b'"class_probabilities"'),
    **dict.fromkeys(("points_csv", "nucls_csv"), COLUMN_PREFIX.encode()),
}
KEEP_CLASS_PROBABILITIES: tuple[Target, ...] = ("geojson",)
OF_CHALLENGES = ("format", "files", "case_key", "coordinates", "class_map", "class_table")
DATASET = "dataset"  # the path of the array in an HDF5 file or a Zarr store
WITH_CHALLENGE = "Give --challenge, whose cases.csv names the images and their sizes."
CENTRES = ("aperio_xml", "hovernet", "cellvit")  # formats and tools whose whole coordinates are taken for pixel centres


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """What is to be written: the parts of a case, the rules by which they were read, and the names of the classes.

    Ignore classes (-1, -2, …) stand behind the scored ones in ``class_names``.
    """

    case: Case
    parts: Sequence[Part]
    rules: FormatRules
    class_names: Sequence[str]
    colours: Sequence[str | None]
    scored: int

    def named(self, class_id: Int16) -> Int16:
        """Class ids as indices in ``class_names``, from 1."""
        return np.where(class_id < 0, self.scored - class_id, class_id).astype(np.int16)

    def drawn(self) -> Outlines | None:
        """The outlines, if the file has nothing else."""
        part = self.parts[0] if len(self.parts) == 1 else None
        return part if isinstance(part, Outlines) else None

    def converted(self) -> ConvertedParts:
        converted = convert_parts(
            self.parts,
            self.case.shape_yx,
            vertices=self.rules.value("vertices") or "exact",
            origin=self.rules.value("origin") or "pixel_centre",
            vanished=self.rules.value("vanished") or "drop",
            where=f"case {quote(self.case.name)}",
        )
        instances = converted.instances
        return replace(converted, instances=replace(instances, class_id=self.named(instances.class_id)))

    def moved(self, drawn: Outlines, origin: OriginRule) -> Outlines:
        """Outlines as they were read, rounded as the rules say and moved to another origin."""
        rules = self.rules
        points = placed_vertices(
            drawn.points_xy, vertices=rules.value("vertices") or "exact", origin=rules.value("origin") or "pixel_centre"
        )
        points = points + shift("pixel_centre", origin)
        return replace(drawn, points_xy=points, class_id=self.named(drawn.class_id))


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """The files of a case by what goes behind its name, and how many nuclei they hold.

    nuclei, left   how many were read, and how many of them are in the files
    """

    files: Mapping[str, bytes]
    nuclei: int
    left: int
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Conversion:
    """The files that were written, warnings about what is not in them, and the numbers of the classes in class maps.

    replaced  those of the files that were there before
    """

    files: tuple[Path, ...]
    findings: tuple[Finding, ...]
    classes: Mapping[str, int]
    replaced: frozenset[Path] = frozenset()


def traced(instances: Instances, origin: OriginRule, where: str) -> Outlines:
    """Outlines round the pixels of instances. Raises InputFault for points."""
    if instances.point_yx is not None:
        raise InputFault(fault("unsupported-shape", where, wording="points-without-outlines"))
    outlines = trace_outlines(instances)
    return replace(outlines, points_xy=outlines.points_xy + shift("pixel_corner", origin))


def marked(instances: Instances, origin: OriginRule) -> Points:
    """The points of instances that are points."""
    xy = instances.centroids_yx()[:, ::-1] + shift("pixel_centre", origin)
    return Points(xy, instances.class_id, instances.source_id, instances.probability, instances.class_probability)


def shift(before: OriginRule, after: OriginRule) -> float:
    """What is added to coordinates when their origin changes."""
    return {"pixel_centre": 0.0, "pixel_corner": 0.5}[after] - {"pixel_centre": 0.0, "pixel_corner": 0.5}[before]


def encode(content: Content, target: Target, origin: OriginRule, overlap: OverlapRule | None) -> Encoded:
    """The files of a case. Raises InputFault for what cannot be written."""
    where = f"case {quote(content.case.name)}"
    if any(isinstance(part, Counts) for part in content.parts):
        raise InputFault(fault("unsupported-shape", where, wording="only-numbers"))
    drawn = content.drawn() if target in DRAWN else None
    if drawn is not None:
        files = encode_outlines(content.moved(drawn, origin), content, target, where)
        return Encoded(files, len(drawn), len(drawn))
    converted = content.converted()
    instances = converted.instances
    nuclei, left = converted.scored_before + converted.ignored_before, len(instances)
    findings = outside_image(max(converted.outside, nuclei - left), nuclei, content.case, where)
    if content.case.shape_yx == UNKNOWN_YX:
        findings = [replace(finding, expected="x and y of 0 or more, in px") for finding in findings]
    if overlap is not None and target in PAINTED and instances.point_yx is None:
        resolved = resolve_overlaps(instances, overlap, "image")
        instances = resolved.instances
        if lost := int(resolved.lost_whole.sum()):
            findings.append(fault("left-out", where, wording="lost-pixels", lost=lost, nuclei=nuclei, rule=overlap))
    try:
        files = encode_instances(instances, content, target, origin, where)
    except MemoryError:
        raise InputFault(
            fault(
                "too-large",
                where,
                wording="for-memory",
                height=content.case.shape_yx[0],
                width=content.case.shape_yx[1],
            )
        ) from None
    return Encoded(files, nuclei, left, tuple(findings))


def class_numbers(names: Sequence[str]) -> dict[str, int]:
    """The number of each class in a class map: the one that it is called, if all are, else its place.

    >>> class_numbers(["tumour", "stroma"]), class_numbers(["4", "2"])
    ({'tumour': 1, 'stroma': 2}, {'4': 4, '2': 2})
    """
    if all(re.fullmatch("[1-9][0-9]{0,3}", name) for name in names):
        return {name: int(name) for name in names}
    return {name: number for number, name in enumerate(names, start=1)}


def lost_numbers(parts: Sequence[Part], target: Target, where: str) -> list[Finding]:
    """Warnings about probabilities that the format to be written has no place for."""
    found = []
    for what, targets in (("probability", DRAWN), ("class_probability", KEEP_CLASS_PROBABILITIES)):
        having = [part for part in parts if getattr(part, what, None) is not None]
        if target not in targets and having:
            count = sum(map(len, having))  # type: ignore[arg-type]  # label images have no probabilities
            words = "the probabilities" if what == "probability" else "the class probabilities"
            found.append(
                fault(
                    "left-out",
                    where,
                    wording="lost-numbers",
                    what=words,
                    nuclei=counted(count, "nucleus", "nuclei"),
                    target=target,
                )
            )
    return found


def encode_instances(
    instances: Instances, content: Content, target: Target, origin: OriginRule, where: str
) -> dict[str, bytes]:
    suffix, names = TARGETS[target], content.class_names
    if target == "platform" and instances.point_yx is not None:
        return {suffix: write_points_json(marked(instances, origin), names)}
    if target in DRAWN:
        return encode_outlines(traced(instances, origin, where), content, target, where)
    if target == "label_tiff":
        numbers = list(class_numbers(names).values())
        labels, class_map = write_label_tiff(instances, where=where), write_class_tiff(instances, numbers, where=where)
        return {suffix: labels, f"_class{suffix}": class_map}
    count = np.bincount(instances.class_id, minlength=len(names) + 1).tolist()
    if count[0]:
        raise InputFault(
            fault("instance-without-class", where, wording="some", count=count[0], nuclei=len(instances), format=target)
        )
    present = [c for c in range(1, len(count)) if count[c]] or [1]  # an image without nuclei has a file, too
    return {f"_{names[c - 1]}{suffix}": write_nary_mat(instances, c, where=where) for c in present}


def encode_outlines(outlines: Outlines, content: Content, target: Target, where: str) -> dict[str, bytes]:
    if target == "geojson":
        return {TARGETS[target]: write_geojson(outlines, content.class_names, content.colours)}
    return {TARGETS[target]: write_polygons_json(outlines, content.class_names, "nuclei", where=where)}


def check_free(path: Path, sources: set[Path]) -> None:
    """Raise WrongUsage if a file that is to be written is one of those that are converted, or a folder."""
    if path.resolve() in sources:
        raise WrongUsage(fault("file-exists", "OUTPUT", wording="source-as-output"))
    if path.is_dir():
        raise WrongUsage(fault("file-exists", quote(path), wording="folder-for-file"))


# --- the files of a challenge -----------------------------------------------------------------------------------------


def convert_challenge(
    folder: Path,
    source: Path | None,
    output: Path,
    target: Target,
    *,
    origin: OriginRule = "pixel_corner",
    overlap: OverlapRule | None = None,
) -> Conversion:
    """Write every case of a submission, or of the reference (``source`` None), in another format.

    Raises ConversionRefused with all that is wrong with what is read, or has no place in the other format.
    """
    challenge = Challenge.load(folder)
    rules = challenge.reference if source is None else challenge.submission
    names = [*challenge.class_names, *challenge.reference.ignore.classes]
    colours = [*(of_class.colour for of_class in challenge.classes), *[None] * len(challenge.reference.ignore.classes)]
    written: list[Path] = []
    faults: list[Finding] = []
    nuclei = left = 0
    with faults_as(ConversionRefused):
        readers, findings, sources = readers_of_cases(challenge, folder, source)
    with all_or_none(output) as keep:
        for case, read in readers:
            try:
                said = read()
                parts = in_image(said.parts, case, rules)
                content = Content(case, parts, rules, names, colours, len(challenge.classes))
                encoded = encode(content, target, origin, overlap)
            except InputFault as error:
                faults += error.findings
                continue
            lost = lost_numbers(said.parts, target, f"case {quote(case.name)}")
            findings += [*said.findings, *encoded.findings, *lost]
            nuclei += encoded.nuclei
            left += encoded.left
            for suffix, data in encoded.files.items():
                written.append(output / f"{case.name}{suffix}")
                check_free(written[-1], sources)
                keep(written[-1].name, data)
        if nuclei and not left and not faults:
            faults.append(
                fault(
                    "everything-outside",
                    "reference" if source is None else "submission",
                    wording="image",
                    nuclei=nuclei,
                )
            )
        if faults:
            raise ConversionRefused(*faults)
        replaced = frozenset(filter(Path.exists, written))
    return Conversion(tuple(written), tuple(findings), class_numbers(names), replaced)


CaseReader = tuple[Case, Callable[[], Annotations]]


def readers_of_cases(
    challenge: Challenge, folder: Path, source: Path | None
) -> tuple[list[CaseReader], list[Finding], set[Path]]:
    """Every case that is there with a function that reads it, warnings about the files, and the paths of the files."""

    def reader(side: Side, case: Case, content: CaseContent) -> CaseReader:
        return case, lambda: content if isinstance(content, Annotations) else read_case(side, case, content)

    if source is None:
        shared = read_shared_reference(challenge, folder)
        side = reference_side(challenge, folder)
        if shared:
            names = [file.name for file in shared_reference_files(challenge, folder)]
            readers = [reader(side, case, shared.cases[case.name]) for case in challenge.cases]
            return readers, shared.warnings, resolved(folder, names)
        files = {case: reference_files(challenge, folder, case) for case in challenge.cases}
        names = [
            name for of_case in files.values() for file in of_case for name in (file.name, *file.companions.values())
        ]
        return [reader(side, case, of_case) for case, of_case in files.items()], [], resolved(folder, names)
    received = receive_submission(challenge, source, folder)
    if received.has_errors:
        raise ConversionRefused(*received.findings)
    side = submission_side(challenge, received.files)
    contents = received.contents
    readers = [reader(side, case, contents[case.name]) for case in challenge.cases if case.name in contents]
    return readers, list(received.findings), resolved(source, received.files.names) | {source.resolve()}


def resolved(folder: Path, names: Iterable[str]) -> set[Path]:
    return {(folder / name).resolve() for name in names}


# --- one file ---------------------------------------------------------------------------------------------------------


class Discovered(Mapping[Any, int]):
    """Class ids that are given to names, or numbers, when they are first met."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __getitem__(self, key: Any) -> int:
        name = getattr(key, "written", str(key))  # files are looked up in lower case
        if not name or re.fullmatch("Point [0-9]+", name):  # the platform's word for no name
            name = "nucleus"
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


def convert_file(
    source: Path,
    output: Path,
    target: Target,
    *,
    format: str | None = None,
    options: Mapping[str, Any] | None = None,
    class_names: Sequence[str] = (),
    size_yx: tuple[int, int] | None = None,
    spacing_um: float | None = None,
    origin: OriginRule = "pixel_corner",
    overlap: OverlapRule | None = None,
) -> Conversion:
    """Convert one file that holds one case. Classes keep their names; without ``class_names`` those of the file count.

    format   the format of ``source``; None: what ``detect_format`` finds
    options  keys of its rules; what is not given is: exact vertices, outlines without pixels dropped, px, outlines
    size_yx  needed for formats that do not tell the size of their image when nuclei become pixels

    Raises WrongUsage for what is not known, ConversionRefused for what is wrong with the file, or if none of its nuclei
    is left.
    """
    options, given = dict(options or {}), source
    hints = {"other-case": WITH_CHALLENGE, "overlap-in-label-map": "The option is --overlap."}
    with ExitStack() as stack, refused_with(hints, given):
        if is_store(source) or (source.is_file() and kind_of(source)):
            workspace = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evaluation-convert-")))
            packed = pack_folder(source, workspace) if source.is_dir() else source
            source = imported(packed, workspace, name=given.name, dataset=options.pop(DATASET, None))
        detected = Detected(format) if format else detect(source)
        name = detected.format
        if name == "hovernet_mat" and "class_values" not in options:
            options |= numbered_classes(source, class_names)
        rules = rules_for(name, {**detected.keys, **options}, source)
        if rules.are_counts:
            raise InputFault(fault("unsupported-shape", quote(given.name, 120), wording="only-numbers"))
        if rules.value("shape") == "outline" and "shape" not in options:
            hints["unsupported-shape"] = "If its nuclei are points, add --set shape=point."
        elif rules.value("shape") == "point":
            hints["unsupported-shape"] = "Here: --set other_shapes=skip, or --set 'skip_classes=[\"NAME\"]'."
        if rules.value("units") not in (None, "px") and spacing_um is None:
            raise WrongUsage(fault("missing-option", "--spacing", wording="no-pixel-size", units=rules.value("units")))
        names = list(class_names or rules.value("class_values") or rules.value("colours") or ())
        request = Request(
            where=quote(given.name, 120),
            name=source.name,
            rules=rules,
            classes=class_table(rules, names),
            limits=LimitRules(),
        )
        stem = Path(bare_name(given)).stem
        with source.open("rb") as stream:
            found = find_image(source, stream, request, stem)
            is_dense = rules.dense or name in ("rle_csv", "yolo_txt")
            case = Case(stem, stem, *(size_yx or known_size(found, is_dense, target)), spacing_um, index=0)
            if name == "label_image" and (numbers := numbers_in_npz(stream, request, case)):
                names = names or list(map(str, range(1, max(numbers) + 1)))
                request = replace(request, classes=class_table(rules, names))
                with source.open("rb") as again:
                    said = read_annotations(stream, request, case, {"class_map": (again, request.where)})
            else:
                said = read_one_case(stream, request, case, found)
        names = names or ["nucleus"]
        content = Content(case, said.parts, rules, names, [None] * len(names), len(names))
        check_parts(said, request.where)
        hints.pop("unsupported-shape", None)
        encoded = encode(content, target, origin, overlap)
        lost = lost_numbers(said.parts, target, request.where)
        if not request.classes.names and tells_class_probabilities(source, name):
            lost.append(fault("left-out", request.where, wording="unnamed-probabilities"))
        if encoded.nuclei and not encoded.left:
            raise InputFault(fault("everything-outside", request.where, wording="image", nuclei=encoded.nuclei))
    base = output.with_suffix("") if output.suffix.lower() in SUFFIXES else output
    files = {f"{base.name}{suffix}": data for suffix, data in encoded.files.items()}
    written = tuple(base.parent / name for name in files)
    for path in written:
        check_free(path, {given.resolve()})
    replaced = frozenset(filter(Path.exists, written))
    with all_or_none(base.parent) as keep:
        for name, data in files.items():
            keep(name, data)
    return Conversion(written, (*said.findings, *encoded.findings, *lost), class_numbers(names), replaced)


@contextmanager
def refused_with(hints: Mapping[str, str], source: Path) -> Iterator[None]:
    """Raise what is wrong with a file as ConversionRefused, with what can be done by its code."""
    try:
        yield
    except (InputFault, SubmissionRejected) as refusal:
        findings = [replace(each, fix=f"{each.fix} {hints.get(each.code, '')}".strip()) for each in refusal.findings]
        raise ConversionRefused(*findings) from None
    except OSError as error:
        raise WrongUsage(
            fault("unreadable-file", quote(source), got=(error.strerror or "not readable").lower())
        ) from None


def numbered_classes(source: Path, class_names: Sequence[str]) -> dict[str, Any]:
    """``class_values`` for a file of HoVer-Net: its numbers from 1 in the order of the names, or as names."""
    with source.open("rb") as stream:
        numbers = numbers_in_mat(stream, source.name)
    names = class_names or list(map(str, range(1, max(numbers, default=0) + 1)))
    return {"class_values": {name: number for number, name in enumerate(names, start=1)}} if numbers else {}


def numbers_in_mat(stream: BinaryIO, name: str) -> list[int]:
    """The class numbers in a file of HoVer-Net. Raises InputFault."""
    mat = MatFile(stream, where=quote(name, 120), bytes_limit=LimitRules().bytes_per_file)
    variable = variable_of(mat, *TYPES) or variable_of(mat, TYPE_MAP)
    return [] if variable is None else whole_numbers(mat.read(variable))


def tells_class_probabilities(source: Path, format: str) -> bool:
    """Whether the text of a file has probabilities of classes, which cannot be read if no class is named."""
    if (word := CLASS_PROBABILITIES.get(format)) is None:
        return False
    tail = b""
    with source.open("rb") as stream:
        for chunk in plain_chunks(stream, quote(source.name), LimitRules().bytes_per_file):
            if word in tail + chunk:
                return True
            tail = chunk[-len(word) :]
    return False


def numbers_in_npz(stream: BinaryIO, request: Request, case: Case) -> list[int]:
    """The class numbers in an .npz file that has an array of them beside that of the ids. Raises InputFault."""
    stream.seek(0)
    if suffix_of(request.name) != ".npz":
        return []
    with damage_told(request.where, "a ZIP file"), zipfile.ZipFile(stream) as archive:
        arrays = {Path(name).stem for name in archive.namelist()}
    if len(arrays & set(CLASS_NAMES)) != 1 or not arrays & set(ID_NAMES):
        return []
    where, limit = request.where, request.limits.bytes_per_file
    wanted = {"shape_yx": case.shape_yx, "bytes_limit": limit, "names": CLASS_NAMES}
    return whole_numbers(read_image(stream, suffix=".npz", where=where, **wanted))


def whole_numbers(values: np.ndarray[Any, Any]) -> list[int]:
    """The numbers from 1 that occur, ascending."""
    return [int(value) for value in np.unique(values) if 0 < value <= LARGEST_NUMBER and value == int(value)]


def class_table(rules: FormatRules, names: list[str]) -> ClassTable:
    """How a file names its classes; without ``names`` those that are met are added to them, no name as "nucleus"."""
    skipped = frozenset(name.casefold() for name in rules.skip_classes)
    if names:
        return ClassTable(tuple(names), known_ids(names), known_values(rules, names), skipped)
    discovered = Discovered(names)
    return ClassTable((), discovered, discovered, skipped)


def read_one_case(stream: BinaryIO, request: Request, case: Case, found: FoundImage) -> Annotations:
    """The annotations of the only case of a file."""
    stream.seek(0)
    if not found.in_collection:
        return read_annotations(stream, request, case)
    collection = read_collection(stream, request, {found.name: case})
    said = collection.cases.get(case.name, Annotations(()))
    return Annotations(said.parts, (*collection.findings, *said.findings))


def check_parts(said: Annotations, where: str) -> None:
    """Raise InputFault if all that a file has was left out."""
    count = sum(finding.count for finding in said.findings if finding.code == "left-out")
    if count and not any(isinstance(part, LabelImage) or len(part) for part in said.parts):
        raise InputFault(*said.findings, fault("unsupported-shape", where, wording="all-left-out", count=count))


def rules_for(name: str, options: dict[str, Any], source: Path) -> FormatRules:
    """The rules of a format, with the usual values for what is not given. Raises WrongUsage."""
    if name not in FORMATS:
        raise WrongUsage(fault("unknown-format", "--from", name=name, known=FORMATS))
    for key in OF_CHALLENGES:
        if key in options:
            found, allowed = "given for a single file, where it says nothing", "a key that says how a file is read"
            problem = partial(
                fault, "invalid-rule", got=found, expected=allowed, fix="Leave it out, or give --challenge."
            )
            raise WrongUsage(problem(f"--set {key}="))
    format = FORMATS[name]
    usual = {**DEFAULTS, "origin": usual_origin(name, options)}
    if options.get("shape") == "point":
        usual = {key: value for key, value in usual.items() if key not in ("vertices", "vanished")}
    chosen = {key: value for key, value in usual.items() if key in format.model_fields}
    files = source.name if format.file_holds == "all cases" else "{case}"
    try:
        return format.model_validate({"format": name, "files": files, **chosen, **options})
    except ValidationError as error:
        faults = [each for problem in error.errors() for each in option_faults(problem, name)]
        said = [fault("invalid-rule", f"--set {each.where}=", got=each.got, expected=each.expected) for each in faults]
        raise WrongUsage(*said) from None


def usual_origin(format: str, keys: Mapping[str, Any]) -> OriginRule:
    """The usual origin of the coordinates of a format."""
    return "pixel_centre" if format in CENTRES or keys.get("tool") in CENTRES else "pixel_corner"


def option_faults(problem: Any, format: str) -> list[Finding]:
    """One pydantic error about the options of a format, as findings at their keys."""
    if problem["type"] == "extra_forbidden":
        return [fault("contradictory-rules", joined(*problem["loc"]), wording="only-own-keys", format=format, shape="")]
    return faults_of(problem, problem["loc"])


def known_size(found: FoundImage, is_dense: bool, target: Target) -> tuple[int, int]:
    """Height and width of the image: those that the file tells, or any if they do not matter. Raises WrongUsage."""
    if found.size_yx is not None:
        return found.size_yx
    if is_dense or target in PAINTED:
        raise WrongUsage(fault("missing-option", "--size", wording="no-image-size"))
    return UNKNOWN_YX


def known_ids(names: Sequence[str]) -> dict[str, int]:
    return {name.casefold(): index for index, name in enumerate(names, start=1)}


def known_values(rules: FormatRules, names: Sequence[str]) -> dict[int, int]:
    """The class id of each number in the file: as ``class_values`` says, else 1 (YOLO: 0) for the first class, …."""
    first = 0 if rules.format == "yolo_txt" else 1
    values = rules.value("class_values") or {name: (index,) for index, name in enumerate(names, start=first)}
    ids = known_ids(names)
    known = {ids[name.casefold()]: numbers for name, numbers in values.items() if name.casefold() in ids}
    return {number: class_id for class_id, numbers in known.items() for number in numbers}


def detect(source: Path) -> Detected:
    """The format of a file, by its content. Raises WrongUsage if it is of none, InputFault for damaged files."""
    detected = None if source.is_dir() else detect_format(source)
    if detected is None:
        table = "" if source.is_dir() else foreign_table(source)
        what = foreign_file(source) or table or ("a folder; convert its files one by one" if source.is_dir() else "")
        raise WrongUsage(
            fault("unknown-format", quote(source.name), wording="foreign", got=what)
            if what
            else fault("unknown-format", quote(source.name), wording="no-known", known=FORMATS)
        )
    return detected


def bare_name(source: Path) -> str:
    """The name of a file without the suffix of gzip."""
    return re.sub(r"\.gz$", "", source.name, flags=re.IGNORECASE)


def parse_options(options: Sequence[str]) -> dict[str, Any]:
    """``KEY=VALUE`` texts as keys of the format's rules; values are read as TOML, else as text. Raises WrongUsage.

    >>> parse_options(["units=mm", "first_pixel=1", "class_values={tumour=3}"])
    {'units': 'mm', 'first_pixel': 1, 'class_values': {'tumour': 3}}
    """
    known = sorted(keys_of_formats() | FormatRules.model_fields.keys() | {DATASET})
    chosen: dict[str, Any] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or key not in known:
            raise WrongUsage(fault("unknown-key", f"--set {quote(option)}", wording="option", name=key, known=known))
        try:
            parsed = parse_toml(f"value = {value}")["value"]
        except ValueError:
            parsed = value
        chosen[key] = tuple(parsed) if isinstance(parsed, list) else parsed
    return chosen


def parse_size(size: str | None) -> tuple[int, int] | None:
    """``HEIGHTxWIDTH`` in px. Raises WrongUsage.

    >>> parse_size("1000x800")
    (1000, 800)
    """
    if size is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})", size, re.ASCII)
    if match is None:
        raise WrongUsage(
            fault("invalid-rule", "--size", got=quote(size), expected="height and width in px, such as 1000x800")
        )
    return int(match[1]), int(match[2])
