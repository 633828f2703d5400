"""The reference of every case as instances, with statistics of the conversion."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evaluation.challenge import Challenge
from evaluation.files.decoding.annotations import Annotations
from evaluation.files.results.documents import as_json, csv_table, identity
from evaluation.files.results.files import write_atomically
from evaluation.findings import EXAMPLES_SHOWN, Finding, fault, quote
from evaluation.findings.errors import ChallengeBroken, InputFault, WrongUsage, faults_as
from evaluation.scoring.match import implausible_labels, only_nuclei, share_of_only_nucleus
from evaluation.scoring.read import ReferenceFolder, read_reference, read_shared_reference
from evaluation.scoring.receive import memory_needs
from evaluation.scoring.workers import Progress, Run, Work, run_work
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.matching.table import find_twins
from nuclei_metrics.model import Case, Instances, Int64, RasterisationReport
from nuclei_metrics.model.arrays import distinct, expand

Made = TypeVar("Made")


def rasterise_reference(
    challenge_folder: Path | str, *, workers: int | None = None, progress: Progress | None = None
) -> tuple[Challenge, list[tuple[Case, PreparedReference]]]:
    """The reference of every case as instances, with the full rasterisation report. Raises ChallengeBroken."""
    folder = Path(challenge_folder)
    challenge = Challenge.load(folder)
    run = partial(run_work, workers=workers)
    prepared = of_every_case(_rasterise_case, challenge, folder, progress, run)
    return challenge, list(zip(challenge.cases, prepared, strict=True))


def reference_findings(prepared: Sequence[tuple[Case, PreparedReference]]) -> list[Finding]:
    """Return the findings of each case and of all cases together."""
    references = [reference for _, reference in prepared]
    shares = [share_of_only_nucleus(reference.instances) for reference in references]
    of_cases = [finding for reference in references for finding in reference.findings]
    return [*of_cases, *only_nuclei(shares, "reference")]


def of_every_case(
    function: Callable[[Challenge, Path, Case, Annotations | None], Made | tuple[Finding, ...]],
    challenge: Challenge,
    folder: ReferenceFolder,
    progress: Progress | None = None,
    run: Run = run_work,
) -> list[Made]:
    """Apply a function to the reference of every case, in order. Raises ChallengeBroken."""
    with faults_as(ChallengeBroken):
        shared = read_shared_reference(challenge, folder)
    inputs = [(case, None if shared is None else shared.cases[case.name]) for case in challenge.cases]
    needs = memory_needs(challenge, challenge.cases, folder=folder, shared=shared)
    outcomes = run(Work(_of_cases, (function, challenge, folder), inputs, needs, progress, at_once=1))
    faults = [finding for outcome in outcomes if isinstance(outcome, tuple) for finding in outcome]
    if faults:
        raise ChallengeBroken(*faults)
    return [outcome for outcome in outcomes if not isinstance(outcome, tuple)]


def _of_cases(
    function: Callable[[Challenge, ReferenceFolder, Case, Annotations | None], Made],
    challenge: Challenge,
    folder: ReferenceFolder,
    inputs: Sequence[tuple[Case, Annotations | None]],
) -> list[Made]:
    return [function(challenge, folder, case, content) for case, content in inputs]


def _rasterise_case(
    challenge: Challenge, folder: ReferenceFolder, case: Case, content: Annotations | None
) -> PreparedReference | tuple[Finding, ...]:
    """The reference of a case with its report. Nuclei drawn twice are looked for before the overlap rule acts."""
    rules = challenge.reference.model_copy(update={"overlap": "keep"})
    as_drawn = challenge.model_copy(update={"reference": rules})
    try:
        prepared = read_reference(challenge, folder, case, content, with_geometry_report=True)
        slips = _annotated_twice(case, read_reference(as_drawn, folder, case, content).instances)
        labels = implausible_labels(prepared.instances, challenge.reference, f"reference of case {quote(case.name)}")
        return replace(prepared, findings=(*prepared.findings, *labels, *slips))
    except InputFault as error:
        return error.findings


def _annotated_twice(case: Case, reference: Instances) -> list[Finding]:
    """Warn of pairs of nuclei that share more than half of the smaller of the two, which annotators drew twice."""
    first, second = find_twins(reference)
    if not len(first):
        return []
    named = sorted(zip(reference.source_id[first].tolist(), reference.source_id[second].tolist(), strict=True), key=str)
    pairs = [f"{quote(str(one))} and {quote(str(other))}" for one, other in named[:EXAMPLES_SHOWN]]
    where = f"reference of case {quote(case.name)}"
    return [fault("annotated-twice", where, pairs=len(first), named="; ".join(pairs))]


# --- the rasterised reference as files --------------------------------------------------------------------------------


# Label maps, the list of instances, and what happened to the outlines.


def write_rasterisation(
    folder: Path, challenge: Challenge, cases: Sequence[tuple[Case, Instances, RasterisationReport]]
) -> None:
    """Write ``labels/<group>/<case>.tif``, ``instances.csv`` and ``rasterisation.json``.

    A label map has the numbers of the instances in instances.csv, 1…N. If instances overlap (rule ``keep``), the
    file has a page for every layer of instances without overlap. Raises
    WrongUsage ("too-large") for an image that does not fit into memory.
    """
    rows: list[tuple[Any, ...]] = []
    names = ("", *challenge.class_names)
    for case, instances, _ in cases:
        path = folder / "labels" / case.group / f"{case.name}.tif"
        try:
            write_atomically(path, label_pages(instances))
        except MemoryError:
            where, (height, width) = f"case {quote(case.name)}", case.shape_yx
            raise WrongUsage(fault("too-large", where, wording="label-map", height=height, width=width)) from None
        columns = (instances.source_id, instances.class_id, instances.areas_px())
        rows += [
            (case.name, case.group, label, source, names[class_id], area)
            for label, (source, class_id, area) in enumerate(
                zip(*map(np.ndarray.tolist, columns), strict=True), start=1
            )
        ]
    header = ["case", "group", "label", "source_id", "class", "area_px"]
    write_atomically(folder / "instances.csv", csv_table(header, rows))
    document = {"challenge": identity(challenge), "cases": {case.name: asdict(report) for case, _, report in cases}}
    write_atomically(folder / "rasterisation.json", as_json(document))


def label_pages(instances: Instances) -> bytes:
    """A TIFF with a page of (H, W) px for each layer, uint16 or, for more than 65,535 instances, int32.

    Instance n has the number n + 1 in one of them. Only one page is in memory at a time.
    """
    dtype = np.uint16 if len(instances) <= np.iinfo(np.uint16).max else np.int32
    layer_of_run = _layers_of(instances)[instances.run_instance]
    height, width = instances.shape_yx
    import tifffile  # a submission is scored without it

    stream = io.BytesIO()
    with tifffile.TiffWriter(stream) as file:
        for layer in range(int(layer_of_run.max(initial=0)) + 1):
            page = np.zeros(height * width, dtype)
            runs = np.flatnonzero(layer_of_run == layer)
            starts, stops = instances.run_start[runs].tolist(), instances.run_stop[runs].tolist()
            for start, stop, index in zip(starts, stops, instances.run_instance[runs].tolist(), strict=True):
                page[start:stop] = index + 1
            file.write(
                page.reshape(height, width), compression="zlib", photometric="minisblack", metadata=None, software=False
            )
    return stream.getvalue()


def _layers_of(instances: Instances) -> Int64:
    """Put each instance into a layer, int64 (N,): the first in which it overlaps no instance before it.

    The cost grows with the runs and their overlapping pairs, not with the pixels.
    """
    following = np.arange(1, len(instances.run_start) + 1)
    beyond = np.searchsorted(instances.run_start, instances.run_stop)  # the first run that starts behind each one
    other = instances.run_instance[expand(following, beyond)].astype(np.int64)
    owner = np.repeat(instances.run_instance, beyond - following)
    pairs = distinct(np.maximum(owner, other) * len(instances) + np.minimum(owner, other))
    later, before = np.divmod(pairs, max(len(instances), 1))
    edges = np.searchsorted(later, np.arange(len(instances) + 1))
    layer = np.zeros(len(instances), np.int64)
    for index in distinct(later).tolist():
        taken = set(layer[before[edges[index] : edges[index + 1]]].tolist())
        layer[index] = next(free for free in range(len(taken) + 1) if free not in taken)
    return layer
