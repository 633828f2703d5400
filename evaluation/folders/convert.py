"""``evaluation convert``: from any format to formats that other programs open.

Outlines stay outlines if both formats have them, so no vertex moves; otherwise nuclei become pixels on the way.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from evaluation.challenge import Challenge, FormatRules, LimitRules
from evaluation.challenge.documents import parse_toml
from evaluation.challenge.formats import FORMATS, dotted, faults_of, keys_of_formats
from evaluation.files.decoding.annotations import Annotations, library_faults
from evaluation.files.decoding.pixels import CLASS_NAMES, ID_NAMES, check_directory, read_image, suffix_of
from evaluation.files.decoding.streams import COORDINATE_LIMIT, CutOff, Damaged, damage_told
from evaluation.files.formats import Request, format_of, read_annotations
from evaluation.files.formats.detect import find_image
from evaluation.files.formats.geojson import write_geojson
from evaluation.files.formats.label_image import write_class_tiff, write_label_tiff, write_nary_mat
from evaluation.files.formats.listed_nuclei import write_points_json, write_polygons_json
from evaluation.files.results.files import all_or_none
from evaluation.findings import Finding, counted, fault, quote
from evaluation.findings.errors import ConversionRefused, InputFault, SubmissionRejected, WrongUsage, faults_as, refused
from evaluation.folders import look as looked
from evaluation.folders.look import UNKNOWN_YX, look_at_file, whole_values
from evaluation.folders.pieces import PLANE
from evaluation.folders.source import convert_call
from evaluation.scoring import read as reading
from evaluation.scoring.receive import CaseContent, receive_submission
from nuclei_metrics import model
from nuclei_metrics.instances.outlines import trace_outlines
from nuclei_metrics.instances.prepare import convert_parts, resolve_overlaps
from nuclei_metrics.instances.rasterise import placed_vertices
from nuclei_metrics.model import Case, ClassTable, Instances, Int16, LabelImage, OriginRule, Outlines, Part

Target = Literal["geojson", "label_tiff", "nary_mat", "platform"]
TARGETS: dict[Target, str] = {"geojson": ".geojson", "label_tiff": ".tif", "nary_mat": ".mat", "platform": ".json"}
TARGET_OF_FORMAT: dict[str, Target] = {
    "geojson": "geojson",
    "label_image": "label_tiff",
    "nary_mat": "nary_mat",
    **dict.fromkeys(("polygons_json", "points_json"), "platform"),
}
OUTPUT_SUFFIXES = {*TARGETS.values(), ".tiff"}  # of OUTPUT; another one is a part of its name
NOT_SAID = {"vertices": "exact", "origin": "pixel_centre", "vanished": "drop"}  # of formats without these keys
SHIFT: Mapping[OriginRule, float] = {"pixel_centre": 0.0, "pixel_corner": 0.5}  # of the first pixel's centre
DRAWN: tuple[Target, ...] = ("geojson", "platform")
PAINTED: tuple[Target, ...] = ("label_tiff", "nary_mat")
OF_CHALLENGES = ("format", "files", "case_key", "coordinates", "class_map", "class_table")
DATASET = "dataset"  # the path of the array in an HDF5 file or a Zarr store
_SCALE = "scale"  # what coordinates are multiplied by, such as 4 for um that are 0.25 of a pixel
LOOKED_AT_FILES, LOOKED_AT_BYTES = 10_000, 1 << 30  # of a rejected submission that is looked at again
WITH_CHALLENGE = "Add --challenge: its cases.csv lists the images and their sizes."


@dataclass(frozen=True, slots=True, eq=False)
class _Encoded:
    """The files of a case by suffix, and their number of nuclei.

    nuclei, left   how many were read, and how many of them are in the files
    """

    files: Mapping[str, bytes]
    nuclei: int
    written_nuclei: int
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class _Conversion:
    """The written files, warnings about omitted content, and the numbers of classes in class maps.

    replaced  written files that existed before
    """

    files: tuple[Path, ...]
    findings: tuple[Finding, ...]
    classes: Mapping[str, int]
    replaced: frozenset[Path] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class _Writer:
    """How nuclei are written.

    origin       of integer coordinates in the output
    overlap      which nucleus keeps shared pixels, in formats without overlaps
    rules        by which the nuclei are read
    class_names  ignore classes (-1, -2, …) follow the ``scored`` classes
    """

    target: Target
    origin: OriginRule
    overlap: model.OverlapRule | None
    rules: FormatRules
    class_names: Sequence[str]
    colours: Sequence[str | None]
    scored: int

    def encode(self, case: Case, parts: Sequence[Part], annotations: Annotations, where: str) -> _Encoded:
        """The files of a case; ``parts``: the ``annotations`` inside its image.

        where source of the probabilities, for messages

        Raises InputFault for unwritable content.
        """
        place = f"case {quote(case.name)}"
        if any(isinstance(part, model.Counts) for part in parts):
            raise refused("unsupported-shape", place, wording="only-numbers")
        lost = _lost_numbers(annotations.parts, self.target, where)
        rules: dict[str, Any] = {key: self.rules.value(key) or usual for key, usual in NOT_SAID.items()}
        if self.target in DRAWN and len(parts) == 1 and isinstance(outlines := parts[0], Outlines):
            points = placed_vertices(outlines.points_xy, vertices=rules["vertices"], origin=rules["origin"])
            class_id, number = self.named(outlines.class_id), len(outlines)
            moved = replace(outlines, points_xy=points + SHIFT[self.origin], class_id=class_id)
            return _Encoded(self.encode_outlines(moved, place), number, number, (*annotations.findings, *lost))
        with library_faults():
            converted = convert_parts(parts, case.shape_yx, **rules, where=place)
        instances = replace(converted.instances, class_id=self.named(converted.instances.class_id))
        nuclei, written_nuclei = converted.scored_before + converted.ignored_before, len(instances)
        outside = reading.outside_image(max(converted.outside, nuclei - written_nuclei), nuclei, case, place)
        if case.shape_yx == UNKNOWN_YX:
            outside = [replace(finding, expected="x and y of 0 or more, in px") for finding in outside]
        if self.overlap is not None and self.target in PAINTED and instances.point_yx is None:
            resolved = resolve_overlaps(instances, self.overlap, "image")
            instances = resolved.instances
            if gone := int(resolved.lost_whole.sum()):
                rule = self.overlap
                outside.append(fault("left-out", place, wording="lost-pixels", lost=gone, nuclei=nuclei, rule=rule))
        try:
            files = self.encode_instances(instances, place)
        except MemoryError:
            height, width = case.shape_yx
            raise InputFault(fault("too-large", place, wording="for-memory", height=height, width=width)) from None
        return _Encoded(files, nuclei, written_nuclei, (*annotations.findings, *outside, *lost))

    def named(self, class_id: Int16) -> Int16:
        """Class ids as indices in ``class_names``, from 1."""
        return np.where(class_id < 0, self.scored - class_id, class_id).astype(np.int16)

    def encode_instances(self, instances: Instances, where: str) -> dict[str, bytes]:
        target, suffix, names = self.target, TARGETS[self.target], self.class_names
        are_points = instances.point_yx is not None
        if target == "platform" and are_points:
            xy = instances.centroids_yx()[:, ::-1] + SHIFT[self.origin]
            class_id, probabilities = instances.class_id, (instances.probability, instances.class_probability)
            return {suffix: write_points_json(model.Points(xy, class_id, instances.source_id, *probabilities), names)}
        if target in DRAWN and are_points:
            raise refused("unsupported-shape", where, wording="points-without-outlines")
        if target in DRAWN:
            outlines = trace_outlines(instances)  # from corner to corner
            points = outlines.points_xy + (SHIFT[self.origin] - SHIFT["pixel_corner"])
            return self.encode_outlines(replace(outlines, points_xy=points), where)
        if target == "label_tiff":
            numbers = list(_class_numbers(names).values())
            labels = write_label_tiff(instances, where=where)
            return {suffix: labels, f"_class{suffix}": write_class_tiff(instances, numbers, where=where)}
        count = np.bincount(instances.class_id, minlength=len(names) + 1).tolist()
        if without := count[0]:
            nuclei = len(instances)
            raise refused("instance-without-class", where, wording="some", count=without, nuclei=nuclei, format=target)
        present = [c for c in range(1, len(count)) if count[c]] or [1]  # an image without nuclei has a file, too
        return {f"_{names[c - 1]}{suffix}": write_nary_mat(instances, c, where=where) for c in present}

    def encode_outlines(self, outlines: Outlines, where: str) -> dict[str, bytes]:
        if self.target == "geojson":
            return {TARGETS[self.target]: write_geojson(outlines, self.class_names, self.colours)}
        return {TARGETS[self.target]: write_polygons_json(outlines, self.class_names, "nuclei", where=where)}


def _write_all(
    folder: Path, encoded: Iterable[tuple[str, _Encoded]], names: Sequence[str], sources: set[Path], where: str
) -> _Conversion:
    """Write the files of all cases, with their names, into a folder; all or nothing.

    sources  converted files, which are never overwritten
    where    the source, for messages

    Raises ConversionRefused if no nuclei remain, WrongUsage for files that cannot be written.
    """
    written: list[Path] = []
    findings: list[Finding] = []
    nuclei = written_nuclei = 0
    with all_or_none(folder) as keep:
        for name, case in encoded:
            findings += case.findings
            nuclei, written_nuclei = nuclei + case.nuclei, written_nuclei + case.written_nuclei
            for suffix, data in case.files.items():
                path = folder / f"{name}{suffix}"
                if path.resolve() in sources:
                    raise WrongUsage(fault("file-exists", "OUTPUT", wording="source-as-output"))
                if path.is_dir():
                    raise WrongUsage(fault("file-exists", quote(path), wording="folder-for-file"))
                written.append(path)
                keep(path.name, data)
        if nuclei and not written_nuclei:
            raise ConversionRefused(fault("everything-outside", where, wording="image", nuclei=nuclei))
        replaced = frozenset(filter(Path.exists, written))
    return _Conversion(tuple(written), tuple(findings), _class_numbers(names), replaced)


def _class_numbers(names: Sequence[str]) -> dict[str, int]:
    """Number the classes in a class map: by name if all names are numbers, otherwise by order.

    >>> _class_numbers(["tumour", "stroma"]), _class_numbers(["4", "2"])
    ({'tumour': 1, 'stroma': 2}, {'4': 4, '2': 2})
    """
    if all(re.fullmatch("[1-9][0-9]{0,3}", name) for name in names):
        return {name: int(name) for name in names}
    return {name: number for number, name in enumerate(names, start=1)}


def _lost_numbers(parts: Sequence[Part], target: Target, where: str) -> list[Finding]:
    """Warn of probabilities that the written format cannot contain."""
    lost = []
    for key, words, targets in (
        ("probability", "the probabilities", DRAWN),
        ("class_probability", "the class probabilities", ()),
    ):
        having = [part for part in parts if getattr(part, key, None) is not None]
        if target not in targets and having:
            number = sum(map(len, having))  # type: ignore[arg-type]  # label images have no probabilities
            nuclei = counted(number, "nucleus", "nuclei")
            lost.append(fault("left-out", where, wording="lost-numbers", what=words, nuclei=nuclei, target=target))
    return lost


# --- the files of a challenge -----------------------------------------------------------------------------------------


def convert_challenge(
    folder: Path,
    source: Path | None,
    output: Path,
    target: Target,
    *,
    origin: OriginRule = "pixel_corner",
    overlap: model.OverlapRule | None = None,
) -> _Conversion:
    """Write every case of a submission, or of the reference (``source`` None), in another format.

    Raises ConversionRefused with all faults of the source, and content that the other format cannot contain.
    """
    challenge = Challenge.load(folder)
    rules, side = (challenge.reference, "reference") if source is None else (challenge.submission, "submission")
    ignored = challenge.reference.ignore.classes
    names = [*challenge.class_names, *ignored]
    colours = [*(scored.colour for scored in challenge.classes), *[None] * len(ignored)]
    writer = _Writer(target, origin, overlap, rules, names, colours, len(challenge.classes))
    with faults_as(ConversionRefused):
        readers, findings, sources = _readers_of_cases(challenge, folder, source)

    def encoded() -> Iterator[tuple[str, _Encoded]]:
        faults: list[Finding] = []
        for case, read in readers:
            try:
                annotations = read()
                parts = reading.in_image(annotations.parts, case, rules)
                files = writer.encode(case, parts, annotations, f"case {quote(case.name)}")
            except InputFault as error:
                faults += error.findings
                continue
            yield case.name, files
        if faults:
            raise ConversionRefused(*faults)

    done = _write_all(output, encoded(), names, sources, side)
    return replace(done, findings=(*findings, *done.findings))


CaseReader = tuple[Case, Callable[[], Annotations]]


def _readers_of_cases(
    challenge: Challenge, folder: Path, source: Path | None
) -> tuple[list[CaseReader], list[Finding], set[Path]]:
    """List every case that has files with a function that reads it; also warnings, and the paths of the files."""
    contents: Mapping[str, CaseContent]
    if source is None:
        side, shared = reading.reference_side(challenge, folder), reading.read_shared_reference(challenge, folder)
        files = {case.name: reading.reference_files(challenge, folder, case) for case in challenge.cases if not shared}
        contents, findings = (shared.cases, shared.warnings) if shared else (files, [])
        of_all = reading.shared_reference_files(challenge, folder) if shared else chain.from_iterable(files.values())
        names = [name for file in of_all for name in file.names]
    else:
        received = receive_submission(challenge, source, folder)
        if received.has_errors:
            raise ConversionRefused(*received.findings)
        side, contents = reading.submission_side(challenge, received.files), received.contents
        names, findings = [*received.files.names], [*received.findings]

    def reader(case: Case, content: CaseContent) -> CaseReader:
        return case, lambda: content if isinstance(content, Annotations) else reading.read_case(side, case, content)

    readers = [reader(case, contents[case.name]) for case in challenge.cases if case.name in contents]
    root = source or folder
    return readers, findings, {root.resolve(), *((root / name).resolve() for name in names)}


# --- one file ---------------------------------------------------------------------------------------------------------


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
    overlap: model.OverlapRule | None = None,
) -> _Conversion:
    """Convert one file that contains one case. Classes keep their names; without ``class_names`` all classes of the
    file count.

    format   the format of ``source``; None: from ``detect_format``
    options  keys of its rules; defaults: exact vertices, outlines without pixels dropped, px, outlines
    size_yx  needed for formats that do not show the size of their image when nuclei become pixels

    Raises WrongUsage for unknown options, ConversionRefused for faults of the file, or if no nuclei remain.
    """
    options, original = dict(options or {}), source
    hints = {"other-case": WITH_CHALLENGE, "overlap-in-label-map": "The option is --overlap."}
    with ExitStack() as stack, _refused_with(hints, original):
        workspace = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evaluation-convert-")))
        dataset, plane, scale = (options.pop(key, None) for key in (DATASET, PLANE, _SCALE))
        file = look_at_file(original, workspace, format=format, dataset=dataset, plane=plane)
        source, detected = file.path, file.detected
        name = detected.format
        if name == "hovernet_mat" and "class_values" not in options:
            with source.open("rb") as stream:
                numbers = looked.numbers_in_mat(stream, source.name)
            numbered = class_names or list(map(str, range(1, max(numbers, default=0) + 1)))
            values = {name: number for number, name in enumerate(numbered, start=1)}
            options |= {"class_values": values} if numbers else {}
        rules = _rules_for(name, {**detected.keys, **options}, source)
        if rules.are_counts:
            raise refused("unsupported-shape", quote(original.name, 120), wording="only-numbers")
        if rules.value("shape") == "outline" and "shape" not in options:
            hints["unsupported-shape"] = "If its nuclei are points, add --set shape=point."
        elif rules.value("shape") == "point":
            hints["unsupported-shape"] = "Here: --set other_shapes=skip, or --set 'skip_classes=[\"NAME\"]'."
        if rules.value("units") not in (None, "px") and spacing_um is None:
            raise WrongUsage(fault("missing-option", "--spacing", wording="no-pixel-size", units=rules.value("units")))
        names = list(class_names or rules.value("class_values") or rules.value("colours") or ())
        where, classes = quote(original.name, 120), class_table(rules, names)
        request = Request(where=where, name=source.name, rules=rules, classes=classes, limits=LimitRules())
        stem = Path(re.sub(r"\.gz$", "", original.name, flags=re.IGNORECASE)).stem
        with source.open("rb") as stream:
            image = find_image(source, stream, request, stem)
            size_yx = size_yx or image.size_yx
            if size_yx is None and (rules.dense or format_of(name).places or target in PAINTED):
                raise WrongUsage(fault("missing-option", "--size", wording="no-image-size"))
            case = Case(stem, stem, *(size_yx or UNKNOWN_YX), spacing_um, index=0)
            of_classes = None if file.classes is None else np.load(file.classes, allow_pickle=False)
            if of_classes is None and name == "label_image":
                of_classes = _classes_in_npz(stream, request, case)
            if of_classes is not None and (numbers := whole_values(of_classes)):
                names = names or list(map(str, range(1, max(numbers) + 1)))
                request = replace(request, classes=class_table(rules, names))
                with (file.classes or source).open("rb") as again:
                    annotations = read_annotations(stream, request, case, {"class_map": (again, request.where)})
            else:
                annotations = looked.read_one_case(stream, request, case, image)
        names = names or ["nucleus"]
        if scale is not None:
            annotations = replace(annotations, parts=tuple(_scaled(part, scale) for part in annotations.parts))
        parts = annotations.parts
        left_out = sum(finding.count for finding in annotations.findings if finding.code == "left-out")
        if left_out and not any(isinstance(part, LabelImage) or len(part) for part in parts):
            told = fault("unsupported-shape", request.where, wording="all-left-out", count=left_out)
            raise InputFault(*annotations.findings, told)
        hints.pop("unsupported-shape", None)
        writer = _Writer(target, origin, overlap, rules, names, [None] * len(names), len(names))
        encoded = writer.encode(case, parts, annotations, request.where)
    base = output.with_suffix("") if output.suffix.lower() in OUTPUT_SUFFIXES else output
    return _write_all(base.parent, [(base.name, encoded)], names, {original.resolve()}, request.where)


def _scaled(part: Part, scale: object) -> Part:
    """Return outlines or points with scaled coordinates. Raises WrongUsage."""
    got, expected = quote(scale), "a number above 0"
    if isinstance(scale, int | float) and 0 < scale < COORDINATE_LIMIT:
        if isinstance(part, Outlines | model.Points):
            return replace(part, points_xy=part.points_xy * float(scale))
        got, expected = "given for a file without coordinates", "outlines or points"
    raise WrongUsage(fault("invalid-rule", f"--set {_SCALE}=", got=got, expected=expected))


@contextmanager
def _refused_with(hints: Mapping[str, str], source: Path) -> Iterator[None]:
    """Raise the faults of a file as ConversionRefused, with a remedy by code."""
    try:
        yield
    except (InputFault, SubmissionRejected) as refusal:
        raise ConversionRefused(*(each.advised(hints.get(each.code, "")) for each in refusal.findings)) from None
    except OSError as error:
        raise WrongUsage(
            fault("unreadable-file", quote(source), got=(error.strerror or "not readable").lower())
        ) from None


def _classes_in_npz(stream: BinaryIO, request: Request, case: Case) -> npt.NDArray[Any] | None:
    """The classes in an .npz file with an array of classes next to the ids. Raises InputFault."""
    stream.seek(0)
    if suffix_of(request.name) != ".npz":
        return None
    with damage_told(request.where, "a ZIP file"):
        arrays = {Path(member.filename).stem for member in check_directory(stream)}
    if len(arrays & set(CLASS_NAMES)) != 1 or not arrays & set(ID_NAMES):
        return None
    where, limit = request.where, request.limits.bytes_per_file
    wanted = {"shape_yx": case.shape_yx, "bytes_limit": limit, "names": CLASS_NAMES}
    return read_image(stream, suffix=".npz", where=where, **wanted)


def class_table(rules: FormatRules, names: list[str]) -> ClassTable:
    """Create the table of names and numbers of classes in a file: ``class_values``, otherwise 1 (YOLO: 0) is the first.

    Without ``names``, names in the file are added to them.
    """
    if not names:
        return looked.met_classes(rules, names)
    first = 0 if rules.format == "yolo_txt" else 1
    numbers = rules.value("class_values") or {name: (index,) for index, name in enumerate(names, start=first)}
    ids = {name.casefold(): index for index, name in enumerate(names, start=1)}
    known = ((ids.get(name.casefold()), own) for name, own in numbers.items())
    values = {number: class_id for class_id, own in known if class_id is not None for number in own}
    return replace(looked.met_classes(rules, names), names=tuple(names), ids=ids, values=values)


def _rules_for(name: str, options: dict[str, Any], source: Path) -> FormatRules:
    """The rules of a format, with the usual values for anything that is not given. Raises WrongUsage."""
    if name not in FORMATS:
        raise WrongUsage(fault("unknown-format", "--from", name=name, known=FORMATS))
    if (key := next((key for key in OF_CHALLENGES if key in options), None)) is not None:
        got, expected = "given for a single file, where it has no effect", "a key that defines how a file is read"
        fix = "Remove it, or add --challenge."
        raise WrongUsage(fault("invalid-rule", f"--set {key}=", got=got, expected=expected, fix=fix))
    files = source.name if FORMATS[name].file_holds == "all cases" else "{case}"
    try:
        keys = looked.usual_keys(name, options, looked.DEFAULTS)
        return FORMATS[name].model_validate({"format": name, "files": files, **keys})
    except ValidationError as error:
        findings: list[Finding] = []
        for problem in error.errors():
            faults = faults_of(problem, problem["loc"])
            if problem["type"] == "extra_forbidden":
                key = dotted(*problem["loc"])
                faults = [fault("contradictory-rules", key, wording="only-own-keys", format=name, shape="")]
            findings += [fault("invalid-rule", f"--set {f.where}=", got=f.got, expected=f.expected) for f in faults]
        raise WrongUsage(*findings) from None


def parse_options(options: Sequence[str]) -> dict[str, Any]:
    """``KEY=VALUE`` texts as keys of the format's rules; values are read as TOML, otherwise as text. Raises WrongUsage.

    >>> parse_options(["units=mm", "first_pixel=1", "class_values={tumour=3}"])
    {'units': 'mm', 'first_pixel': 1, 'class_values': {'tumour': 3}}
    """
    known = sorted(keys_of_formats() | FormatRules.model_fields.keys() | {DATASET, PLANE, _SCALE})
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


def with_other_format(
    findings: Sequence[Finding], submission: Path, format: str, *, is_inside: bool
) -> tuple[Finding, ...]:
    """Findings about a rejected submission: if its files have another format than the challenge's, it is reported.

    The detected format and the command that converts a file follow the first error and all errors of its code; they
    replace the pattern if no file was found.
    """
    if not is_soon_looked_at(submission):
        return tuple(findings)
    with tempfile.TemporaryDirectory(prefix="evaluation-validate-") as workspace:
        try:
            source = looked.look(submission, Path(workspace), imports=True)
        except (InputFault, SubmissionRejected, WrongUsage, OSError):
            return tuple(findings)
    if source.format == format:
        return tuple(findings)
    case = next(iter(source.cases.values()))
    name, images = case.files[0].name, counted(len(source.cases), "image")
    words = f"It contains {images} as {source.format}; expected: {format}."
    if (target := TARGET_OF_FORMAT.get(format)) is not None:
        size = ["--size", "HEIGHTxWIDTH"] if target in PAINTED and case.size_yx is None else []
        words = f"{words} {convert_call(submission, name, '--to', target, *size, is_inside=is_inside)}".rstrip()
    first = min(finding for finding in findings if finding.severity == "error")
    before = "" if first.code == "no-case-found" else first.fix
    return tuple(
        replace(one, fix=f"{before and one.fix} {words}".strip()) if one.code == first.code else one for one in findings
    )


def is_soon_looked_at(submission: Path) -> bool:
    """Return whether it takes little time to look at a folder or ZIP: it has few files, and little to unpack."""
    if submission.is_dir():
        return sum(1 for _ in islice(submission.rglob("*"), LOOKED_AT_FILES + 1)) <= LOOKED_AT_FILES
    if not zipfile.is_zipfile(submission):
        return True
    with suppress(CutOff, Damaged, OSError), submission.open("rb") as stream:
        sizes = [member.file_size for member in check_directory(stream)]
        return len(sizes) <= LOOKED_AT_FILES and sum(sizes) <= LOOKED_AT_BYTES
    return False
