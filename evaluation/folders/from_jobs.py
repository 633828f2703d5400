"""The rules of an algorithm phase, found in a predictions.json: sockets, input, format, and the names of cases.

The file comes from a result page, or from a starter kit with one placeholder name for all inputs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from evaluation.challenge import LimitRules
from evaluation.files.submission.jobs import JOBS_FILE, name_in, read_jobs, socket_of
from evaluation.findings import counted, fault, listed, quote
from evaluation.findings.errors import WrongUsage, faults_as

OF_OUTLINES = {"vertices": "exact", "origin": "pixel_corner", "vanished": "drop"}
FORMATS: Mapping[str, Mapping[str, Any]] = {  # of the platform's kinds, the likeliest output of nuclei first
    "Multiple polygons": {"format": "polygons_json", "units": "px", **OF_OUTLINES},
    "Multiple points": {"format": "points_json", "units": "px", "origin": "pixel_corner"},
    "Image": {"format": "label_image"},
    "Heat Map": {"format": "label_image"},
    "Anything": {"format": "geojson", "shape": "outline", **OF_OUTLINES},
    "CSV file": {"format": "points_csv", "units": "px", "origin": "pixel_corner"},
}
OF_NUCLEI = re.compile("nucle|cell|cyte|instance|mitos|mitot")
GUESSED_SUFFIX = ".tif"  # of images, where a starter kit has made names
BYTES_LOOKED_AT = 50_000_000
OUTPUTS_LOOKED_AT = 20
MM_SHARE = 0.05  # coordinates below this share of the image are no px


@dataclass(frozen=True, slots=True)
class _FoundPhase:
    """An algorithm phase as its jobs show it.

    table    of ``[submission]``
    names    of the inputs, in the order of the file; empty for placeholders
    lines    description of the findings
    classes  named by the outputs next to the list
    """

    table: Mapping[str, Any]
    names: tuple[str, ...]
    lines: tuple[str, ...]
    classes: tuple[str, ...]

    def cases(self) -> list[str]:
        """Name the cases after the inputs, if no reference does."""
        before, _, behind = str(self.table["case_key"]).partition("{case}")
        return [name.removeprefix(before).removesuffix(behind) for name in self.names]


def find_jobs_file(sample: Path) -> Path | None:
    """Return the predictions.json that a path is, or contains at its top or in ``test/input`` of a starter kit."""
    if sample.is_file():
        return sample if sample.name == JOBS_FILE else None
    return next((path for place in ("", "test/input") if (path := sample / place / JOBS_FILE).is_file()), None)


def find_phase(
    file: Path, classes: Sequence[str], cases: Mapping[str, tuple[int, int] | None], *, points: bool
) -> _FoundPhase:
    """Find the rules of an algorithm phase.

    classes  names of the classes of the reference
    cases    height and width of the cases of the reference by name, None if they are unknown
    points   whether the reference has points

    Raises WrongUsage if the file is not one of the platform, or no output can contain nuclei.
    """
    where = quote(str(file), 200)
    with faults_as(WrongUsage), file.open("rb") as stream:
        jobs = read_jobs(stream, where=where, limits=LimitRules())
    outputs = _sockets_of(jobs, "outputs", points)
    socket, kind = _output_of_nuclei(outputs, classes, where)
    inputs = _inputs_that_name(jobs)
    names = [name for job in jobs if (name := _name_of_input(job, inputs))]
    are_made = len(set(names)) < len(names) or not names
    key = _case_key([] if are_made else names, cases)
    table: dict[str, Any] = {**FORMATS[kind], "socket": socket}
    table |= {"input": inputs[0] if len(inputs) == 1 else inputs, "case_key": key, "case_names": "hidden"}
    lines = [
        f"Algorithm phase {where}: {counted(len(jobs), 'job')}; nuclei are in the output {quote(socket)} ({kind}), "
        f"case names come from the input {listed(inputs, last='and')}: case_key = {quote(key)}."
    ]
    if others := [slug for slug in outputs if not _fits(socket, slug)]:
        lines.append(f"Outputs that are not read: {listed(others, 20, last='and')}.")
    if are_made:
        lines.append(f"Its input names are placeholders; image names that end with {GUESSED_SUFFIX} are assumed.")
    else:
        keys = {key.replace("{case}", case) for case in cases}
        lines += [f"{len(keys & set(names))} of {len(names)} inputs are cases of the reference."] if cases else []
    if "units" in table:
        table["units"] = _units(_outputs_beside(file.parent, jobs, socket), cases)
        lines.append(
            f"Coordinates are read as {table['units']} from the corner of the first pixel: check units, origin."
        )
    looked_at = () if "{class}" in socket else islice(_outputs_beside(file.parent, jobs, socket), OUTPUTS_LOOKED_AT)
    named = {item.get("name"): None for document in looked_at for item in _items_of(document)}
    classes = tuple(name for name in named if isinstance(name, str))
    return _FoundPhase(table, () if are_made else tuple(names), tuple(lines), classes)


def _sockets_of(jobs: Iterable[Mapping[str, Any]], side: str, points: bool) -> dict[str, str]:
    """Find the kind of each socket that every job has, by slug."""
    kinds: dict[str, str] = {}
    count: Counter[str] = Counter()
    for job in jobs:
        sockets = [socket_of(value) for value in job[side]]
        kinds |= {socket["slug"]: _kind_of(socket, points) for socket in sockets if isinstance(socket.get("slug"), str)}
        count.update({socket["slug"] for socket in sockets if isinstance(socket.get("slug"), str)})
    most = max(count.values(), default=0)
    return {slug: kind for slug, kind in kinds.items() if count[slug] == most}


def _kind_of(socket: Mapping[str, Any], points: bool) -> str:
    """Report the kind of a socket; a starter kit leaves it out."""
    if isinstance(kind := socket.get("kind"), str):
        return kind
    path = str(socket.get("relative_path"))
    if path.startswith("images/"):
        return "Image"
    return "CSV file" if path.endswith(".csv") else "Multiple points" if points else "Multiple polygons"


def _output_of_nuclei(outputs: Mapping[str, str], classes: Sequence[str], where: str) -> tuple[str, str]:
    """Choose the output with the nuclei (with {class} if classes have separate outputs), and its kind. Raises
    WrongUsage.
    """
    patterns: Counter[str] = Counter()
    for name in classes:
        spelt = re.sub("[^a-z0-9]+", "-", name.casefold())
        patterns.update(slug.replace(spelt, "{class}") for slug in outputs if spelt and spelt in slug)
    for pattern, number in patterns.most_common(1):
        if number > 1:
            return pattern, next(kind for slug, kind in outputs.items() if _fits(pattern, slug))
    for kind in FORMATS:
        slugs = [slug for slug, of_slug in outputs.items() if of_slug == kind]
        slugs.sort(key=lambda slug: OF_NUCLEI.search(slug) is None)
        if slugs:
            return slugs[0], kind
    got = f"the outputs {listed([f'{slug} ({kind})' for slug, kind in outputs.items()], last='and') or 'of no job'}"
    raise WrongUsage(fault("nothing-to-compare", where, wording="of-platform", got=got))


def _fits(pattern: str, slug: str) -> bool:
    before, _, behind = pattern.partition("{class}")
    return slug == pattern or ("{class}" in pattern and slug.startswith(before) and slug.endswith(behind))


def _inputs_that_name(jobs: Iterable[Mapping[str, Any]]) -> list[str]:
    """List the slugs of the inputs that name the cases: the first image of each job that is no mask."""
    slugs: dict[str, None] = {}
    for job in jobs:
        of_job = {socket_of(value).get("slug"): value for value in job["inputs"]}
        named = [slug for slug, value in of_job.items() if isinstance(slug, str) and name_in(value)]
        named.sort(key=lambda slug: "mask" in slug)
        if named and not slugs.keys() & set(named):
            slugs[named[0]] = None
    return list(slugs)


def _name_of_input(job: Mapping[str, Any], slugs: Sequence[str]) -> str:
    return next((name_in(value) for value in job["inputs"] if socket_of(value).get("slug") in slugs), "")


def _case_key(names: Sequence[str], cases: Iterable[str]) -> str:
    """Find the pattern that builds input names from case names.

    >>> _case_key(["roi_004.tif", "roi_005.tif"], ["roi_004"]), _case_key(["a.tif"], []), _case_key([], ["a"])
    ('{case}.tif', '{case}.tif', '{case}.tif')
    >>> _case_key(["A_P000001_PAS_CPG.tif"], ["A_P000001", "A"])
    '{case}_PAS_CPG.tif'
    """
    by_length = sorted(cases, key=len, reverse=True)
    patterns: Counter[str] = Counter()
    for name in names:
        if (case := next((case for case in by_length if case in name), None)) is not None:
            patterns[name.replace(case, "{case}", 1)] += 1
    if patterns:
        return patterns.most_common(1)[0][0]
    suffixes = Counter(PurePosixPath(name).suffix for name in names)
    return "{case}" + (suffixes.most_common(1)[0][0] if suffixes else GUESSED_SUFFIX)


def ending_of_files(jobs_file: Path, cases: Sequence[str]) -> str:
    """Return the common suffix of the files after the names of the inputs, such as "_nuclei", or ""."""
    with faults_as(WrongUsage), jobs_file.open("rb") as stream:
        jobs = read_jobs(stream, where=quote(str(jobs_file), 200), limits=LimitRules())
    inputs = _inputs_that_name(jobs)
    stems = {PurePosixPath(name).stem for job in jobs if (name := _name_of_input(job, inputs))}
    endings = {case[len(stem) :] for case in cases for stem in stems if case.startswith(stem)}
    (ending,) = endings if len(endings) == 1 else {""}
    return ending if all(case.endswith(ending) for case in cases) else ""


def _outputs_beside(folder: Path, jobs: Iterable[Mapping[str, Any]], socket: str) -> Iterator[Any]:
    """Yield existing JSON outputs next to the list."""
    for job in jobs:
        for value in job["outputs"]:
            described = socket_of(value)
            path = folder / str(job.get("pk")) / "output" / str(described.get("relative_path"))
            is_chosen = isinstance(slug := described.get("slug"), str) and _fits(socket, slug)
            if is_chosen and path.is_file() and path.stat().st_size <= BYTES_LOOKED_AT:
                with suppress(orjson.JSONDecodeError):
                    yield orjson.loads(path.read_bytes())


def _units(outputs: Iterable[Any], cases: Mapping[str, Any]) -> str:
    """Report px or mm from the largest coordinate of outputs."""
    sides = [side for size in cases.values() if size for side in size]
    for document in outputs if sides else ():
        if largest := max(_numbers_in(document), default=0.0):
            return "mm" if largest < MM_SHARE * max(sides) else "px"
    return "px"


def _items_of(document: Any) -> list[dict[str, Any]]:
    """List the polygons or points in a file of the platform."""
    items = document.get("polygons") or document.get("points") or [] if isinstance(document, dict) else []
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _numbers_in(document: Any) -> list[float]:
    """List the coordinates in a file of the platform."""
    vertices = [item.get("path_points") or [item.get("point")] for item in _items_of(document)]
    return [number for of_item in vertices for vertex in of_item if isinstance(vertex, list) for number in vertex[:2]]
