"""Which image, patient and class the path of each file of a side names."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evaluation.files.submission.jobs import JOBS_FILE
from evaluation.findings import counted, listed, quote
from evaluation.findings.errors import refused
from evaluation.folders import source as sides
from evaluation.folders.pieces import pixels_of
from evaluation.folders.source import Source, SourceCase, SourceFile, bare_parts

_Words = tuple[str, ...]  # the folders and the stem of a name
_LOOKED_AT = 3  # images whose nuclei of different classes are laid on each other
_BY_CHANCE_PX = 50  # that the nuclei of unrelated images must share by chance to be told from classes
_CLASS = re.compile("[A-Za-z][A-Za-z +-]{2,40}")
_KIND_WORD = r"(?:nuc(?:leus|lei|lear)?|(?:whole[_ -]?)?cells?|cellular|cytoplasm|membrane)"  # of labels, not of nuclei
_KIND = re.compile(rf"(?<![^/_ -]){_KIND_WORD}(?![^/_ -])", re.IGNORECASE)


class _Split(NamedTuple):
    """The words of a path without its class, and the class or ""."""

    case: _Words
    of_class: str


def _class_behind(words: _Words) -> _Split:
    """Split "A_lymphocytes" into image and class."""
    case, _, name = words[-1].rpartition("_")
    return _Split((*words[:-1], case), name) if case else _Split(words, "")


def _class_before(words: _Words) -> _Split:
    name, _, case = words[-1].partition("_")
    return _Split((*words[:-1], case), name) if case else _Split(words, "")


# What the place of the class in a path may be, in the order in which they are tried.
_LAYOUTS: Mapping[str, Callable[[_Words], _Split]] = {
    "<image>_<class>": _class_behind,
    "<image>/<class>/<n>": lambda words: _Split(words[:-2], words[-2]) if len(words) > 2 else _Split(words, ""),
    "<image>/<class>": lambda words: _Split(words[:-1], words[-1]) if len(words) > 1 else _Split(words, ""),
    "<class>/<image>": lambda words: _Split((*words[:-2], words[-1]), words[-2]) if words[1:] else _Split(words, ""),
    "<class>/<patient>/<image>": lambda words: _Split(words[1:], words[0]) if words[2:] else _Split(words, ""),
    "<class>_<image>": _class_before,
}


@dataclass(frozen=True, slots=True)
class _Placed:
    """Files with the images, groups and classes in their paths, and uncertainties, in sentences."""

    files: Sequence[SourceFile]
    notes: Sequence[str] = ()


def place_in_jobs(files: Sequence[SourceFile], images: Mapping[str, str]) -> _Placed:
    """The files with the cases of their jobs. Raises InputFault if a job has several."""
    placed = [
        replace(file, case=images[f"{folder}/"])
        for file in files
        for folder in PurePosixPath(file.name).parents
        if f"{folder}/" in images
    ]
    if len({file.case for file in placed}) < len(placed):
        kinds = sorted({PurePosixPath(file.name).name for file in placed})
        got = f"several outputs of each job, such as {listed(kinds, 3, last='and')}"
        raise refused("nothing-to-compare", quote(JOBS_FILE), wording="several-for-each-job", got=got)
    return _Placed(_with_groups(placed))


def place_files(files: Sequence[SourceFile], format: str, known: Collection[str] = ()) -> _Placed:
    """The files with the case, group and class in their paths; class maps go with their label images.

    known names of compared classes, if available
    """
    if format in ("label_image", "nary_mat"):
        maps, paths = sides.class_maps(file.name for file in files), {file.name: file.path for file in files}
        if format == "nary_mat" and 2 * len(maps) < len(files):  # such a file may be a label image as well
            maps = {}
        files = [
            replace(file, classes=file.classes or paths.get(maps.get(bare_parts(file.name), "")))
            for file in files
            if file.name not in maps.values()
        ]
    parts = {file.name: bare_parts(file.name) for file in files}
    split, notes = _with_classes(files, known)
    if split:
        files = [replace(file, of_class=split[file.name].of_class) for file in files]
        parts = {name: one.case for name, one in split.items()}
    places = {*parts.values()} if split else [*parts.values()]
    levels = range(1, 1 + min(map(len, places), default=0))  # of words, from the end
    level = next((n for n in levels if len({words[-n] for words in places}) == len(places)), None)
    placed = []
    for file in files:
        words = parts[file.name]
        case, last = (words[-level], level) if level else ("_".join(words), 1)
        placed.append(replace(file, case=case, group=words[-last - 1] if len(words) > last else ""))
    return _Placed(_with_groups(placed), notes)


def name_classes(files: Sequence[SourceFile], known: Collection[str]) -> bool:
    """Return whether the paths of files name classes, so that each file has the nuclei of one."""
    return bool(_with_classes(files, known)[0])


# --- classes in paths -------------------------------------------------------------------------------------------------


def _with_classes(files: Sequence[SourceFile], known: Collection[str]) -> tuple[Mapping[str, _Split], tuple[str, ...]]:
    """The image and class of each file by name, or nothing if the paths name no classes; and uncertainties.

    The paths name classes if these are compared (``known``), if they are words for nuclei, or if the nuclei of
    different files of an image do not share pixels, unlike nuclei of unrelated images.
    """
    told = {name.casefold() for name in known}
    possible: dict[str, dict[str, _Split]] = {}
    compared: list[dict[str, _Split]] = []
    for layout, split in _LAYOUTS.items():
        made = {file.name: split(bare_parts(file.name)) for file in files}
        classes = {one.of_class.casefold() for one in made.values()}
        if "" not in classes and len({*made.values()}) == len(made):
            possible[layout] = made
            if len(told) > 1 and classes <= told and (len(classes) > 1 or len(files) > 1):
                compared.append(made)
    if compared:
        return min(compared, key=lambda made: len({one.case for one in made.values()})), ()
    possible = {layout: made for layout, made in possible.items() if _come_back(made.values())}
    if (behind := possible.get("<image>_<class>")) and _are_classes(behind.values()):
        return behind, ()
    doubtful: dict[str, _Split] = {}
    for layout, made in possible.items():
        of_nuclei = all(sides.OF_NUCLEI.search(one.of_class) for one in made.values())
        if not _are_classes(made.values()) or (layout == "<class>_<image>" and not of_nuclei):
            continue
        shared = _shares_pixels(files, made)
        if shared is False or (of_nuclei and shared is None):
            file = next(iter(made))
            other = quote("-".join(bare_parts(file)).replace("_", "-"))
            return made, (f"If {quote(file, 80)} is an image, and not a class of one, name it otherwise: {other}.",)
        doubtful = doubtful or ({} if shared else made)
    if doubtful:
        names = list(dict.fromkeys(one.of_class for one in doubtful.values()))
        alike = ",".join(names[:20])
        return {}, (f"{listed(names, 3, last='and')} are read as images. If they are classes: --classes '{alike}'.",)
    return {}, _kinds_of_labels(["/".join(bare_parts(file.name)) for file in files])


def _kinds_of_labels(names: Sequence[str]) -> tuple[str, ...]:
    """Return what to do where the paths name label images of two kinds for each image, such as nuclei and cells."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(_KIND.sub("", name, count=1), []).append(name)
    if min(map(len, kinds.values()), default=0) < 2:
        return ()
    first = next(iter(kinds.values()))
    if len({*first}) < len(first):  # the same name: refused
        return ()
    two = " and ".join(map(quote, first[:2]))
    return (f"{two} are read as two images. If they are nuclei and cells of one image, pass the files of one kind.",)


def _are_classes(split: Iterable[_Split]) -> bool:
    """Return whether names may be class names: words, except names for kinds of files and parts of data sets."""
    names = {one.of_class for one in split}
    return all(map(_CLASS.fullmatch, names)) and not any(
        sides.ENDING.search(f"_{name}") or name.casefold() in sides.PARTS_OF_SETS or _KIND.fullmatch(name)
        for name in names
    )


def _come_back(split: Collection[_Split]) -> bool:
    """Return whether the same classes occur in several images. Those of one image must be words for nuclei."""
    cases, classes = {one.case for one in split}, {one.of_class for one in split}
    if len(cases) == 1:
        return len(classes) > 1 and all(map(sides.OF_NUCLEI.search, classes))
    return len(classes) > 1 and len(split) > max(len(cases), len(classes))


def _shares_pixels(files: Sequence[SourceFile], split: Mapping[str, _Split]) -> bool | None:
    """Return whether label images of one image, but of different classes, share more than a few pixels.

    None if there is no evidence: for other files, and if not even unrelated images would share some.
    """
    by_case: dict[_Words, list[SourceFile]] = {}
    for file in files:
        by_case.setdefault(split[file.name].case, []).append(file)
    shared, by_chance = 0, 0.0
    for of_image in islice((some for some in by_case.values() if len(some) > 1), _LOOKED_AT):
        planes = [pixels_of(file) for file in of_image if file.detected.format == "label_image"]
        for first, second in combinations([plane for plane in planes if plane is not None and plane.ndim == 2], 2):
            if first.shape != second.shape:
                return True
            shared += int(np.count_nonzero((first != 0) & (second != 0)))
            by_chance += np.count_nonzero(first) / first.size * np.count_nonzero(second)
    if max(shared, by_chance) < _BY_CHANCE_PX or by_chance / 10 < shared <= by_chance / 2:
        return None
    return bool(shared > by_chance / 2)


def join_classes(side: Source, of_class: Mapping[str, str], workspace: Path) -> Source | None:
    """The label images of a side with one file per image and class, by the compared class.

    A pixel of several images belongs to the first; a note reports this. None if there are no label images of one size.
    """
    folder, cases, shared = Path(tempfile.mkdtemp(dir=workspace)), dict[str, SourceCase](), 0
    for name, case in side.cases.items():
        alike: dict[str, list[SourceFile]] = {}
        for file in case.files:
            alike.setdefault(of_class[file.of_class], []).append(file)
        joined = []
        for number, (own, files) in enumerate(alike.items()):
            made = _joined_labels(files, are_masks="components" in side.keys)
            if made is None:
                return None
            shared += made[1]
            path = folder / f"{len(cases)}_{number}.npy"
            np.save(path, made[0], allow_pickle=False)
            joined.append(replace(files[0], path=path, suffix=".npy", of_class=own))
        cases[name] = replace(case, files=tuple(joined))
    notes = [f"Label images of classes that are taken as one share {counted(shared, 'pixel')}: the first has them."]
    return replace(side, suffix=".npy", cases=cases, notes=(*side.notes, *notes[: shared > 0]))


def _joined_labels(files: Sequence[SourceFile], *, are_masks: bool) -> tuple[npt.NDArray[np.int64], int] | None:
    """Several label images as one with unique labels, and the number of shared pixels; None for other files."""
    planes = [pixels_of(file, as_colours=False) for file in files if file.detected.format == "label_image"]
    arrays = [one for one in planes if one is not None and one.ndim == 2 and one.dtype.kind in "biu" and one.size]
    if len(arrays) < len(files) or len({one.shape for one in arrays}) > 1 or min(int(one.min()) for one in arrays) < 0:
        return None
    joined, shared = np.zeros(arrays[0].shape, np.int64), 0
    for labels in arrays:
        is_free, above = joined == 0, 0 if are_masks else int(joined.max())
        shared += int(np.count_nonzero(labels[~is_free]))
        joined[is_free & (labels != 0)] = labels[is_free & (labels != 0)].astype(np.int64) + above
    return joined, shared


# --- patients ---------------------------------------------------------------------------------------------------------


def _with_groups(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Take folders as groups if one of several has several cases; otherwise patients are reported by TCGA's
    barcodes."""
    cases_of: dict[str, set[str]] = {}
    for file in files:
        cases_of.setdefault(file.group, set()).add(file.case)
    if len(cases_of) > 1 and max(map(len, cases_of.values())) > 1 and "" not in cases_of:
        return list(files)
    patients = sides.patients_of([file.case for file in files])
    return [replace(file, group=patient) for file, patient in zip(files, patients, strict=True)]
