"""From the files of a case to its instances, by the rules of the challenge; all faults of a case come at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evaluation.challenge import Challenge
from evaluation.errors import InputFault
from evaluation.findings import Finding, quote
from evaluation.formats import read_class_map, read_labels
from evaluation.formats.aperio_xml import read_aperio_xml
from evaluation.formats.label_array import find_binary_mask
from evaluation.instances.labels import instances_from_label_images
from evaluation.instances.prepare import PreparedReference, prepare_reference
from evaluation.model import Case, Instances, LabelImage
from evaluation.submission import CaseFile, SubmissionFiles


def read_reference(challenge: Challenge, folder: Path, case: Case, *, with_geometry_report: bool) -> PreparedReference:
    """The reference instances of a case, by the rules of the challenge. Raises InputFault."""
    rules = challenge.reference
    name = rules.files.format(case=case.name, group=case.group)
    path = next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)
    if path is None:
        raise InputFault(
            Finding("missing-file", quote(name), "no such file", "the reference of every case in cases.csv")
        )
    with path.open("rb") as stream:
        outlines = read_aperio_xml(
            stream,
            where=quote(name),
            class_ids=challenge.class_ids(),
            bytes_limit=challenge.limits.bytes_per_file,
            vertices_limit=challenge.limits.vertices_per_file,
        )
    return prepare_reference(
        outlines,
        case.shape_yx,
        overlap=rules.overlap,
        overlap_scope=rules.overlap_scope,
        vanished=rules.vanished,
        vertices=rules.vertices,
        origin=rules.origin,
        ignore_policy=rules.ignore.policy,
        ignore_fraction=rules.ignore.fraction,
        with_geometry_report=with_geometry_report,
        where=quote(name),
    )


def read_prediction(
    challenge: Challenge, files: SubmissionFiles, case: Case, case_files: Sequence[CaseFile]
) -> tuple[Instances, tuple[Finding, ...]]:
    """The predicted instances of a case from its files, and warnings. Raises InputFault with all faults."""
    images: list[LabelImage] = []
    faults: list[Finding] = []
    warnings: list[Finding] = []
    for file in case_files:
        try:
            images.append(read_label_file(challenge, files, case, file))
            warnings += find_binary_mask(images[-1].labels, where=place(case, file.name))
        except InputFault as fault:
            faults += fault.findings
    files.close()
    if faults:
        raise InputFault(*faults)
    instances = instances_from_label_images(images, case.shape_yx)
    nameless = np.flatnonzero(instances.class_id == 0)
    if len(nameless):
        shown = ", ".join(quote(instances.source_id[index]) for index in nameless[:3])
        raise InputFault(
            Finding(
                "instance-without-class",
                f"case {quote(case.name)}",
                f"{len(nameless):,} nuclei have no class anywhere in the class map (ids {shown})",
                "a class for every nucleus",
                "Write the class into every pixel of the nucleus in the class map.",
            )
        )
    return instances, tuple(warnings)


def read_label_file(challenge: Challenge, files: SubmissionFiles, case: Case, file: CaseFile) -> LabelImage:
    """One label image of a case, with its class map if the challenge has class maps."""
    limit = challenge.limits.bytes_per_file
    rules = challenge.submission
    with files.open(file.name) as stream:
        labels = read_labels(
            rules.format, stream, where=place(case, file.name), shape_yx=case.shape_yx, bytes_limit=limit
        )
    class_map = None
    if file.class_map_name is not None and rules.class_values is not None:
        with files.open(file.class_map_name) as stream:
            class_map = read_class_map(
                stream,
                where=place(case, file.class_map_name),
                shape_yx=case.shape_yx,
                bytes_limit=limit,
                class_values=rules.class_values,
                class_names=challenge.class_names,
            )
    return LabelImage(labels, file.class_id, class_map, source=file.name)


def place(case: Case, name: str) -> str:
    return f"case {quote(case.name)}, {quote(name, 120)}"
