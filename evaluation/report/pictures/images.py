"""Which file is the image of a case."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from evaluation.challenge import Challenge
from evaluation.decoding.image_size import IMAGE_SUFFIXES
from evaluation.decoding.tissue import Tissue, open_tissue
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import InputFault
from evaluation.model import Case
from evaluation.scoring.memory import names_of
from evaluation.scoring.read import reference_files

FOLDER = "images"  # of a challenge


def find_images(challenge: Challenge, folder: Path, images: Path | None = None) -> dict[str, Path]:
    """The image of each case that has one: ``<case>.svs``, ``.tif``, ``.tiff`` or ``.png``.

    It lies in ``images`` or in the folder of its group there; where that is not given, in the folder ``images`` of the
    challenge, or beside the files of the reference. These are never taken for images.
    """
    top = folder / FOLDER if images is None else images
    found = {}
    for case in challenge.cases:
        own = own_files(challenge, folder, case)
        folders = [top, top / case.group, *(dict.fromkeys(path.parent for path in own) if images is None else ())]
        candidates = (inside / f"{case.name}{suffix}" for inside in folders for suffix in IMAGE_SUFFIXES)
        path = next((path for path in candidates if path not in own and path.is_file()), None)
        if path is not None:
            found[case.name] = path
    return found


def own_files(challenge: Challenge, folder: Path, case: Case) -> list[Path]:
    """The files of the reference of a case."""
    if challenge.reference.is_shared:
        return [folder / challenge.reference.files]
    with suppress(InputFault):
        return [folder / name for file in reference_files(challenge, folder, case) for name in names_of(file)]
    return []


def open_image(case: Case, path: Path | None) -> Tissue | Finding | None:
    """The image of a case, or why it is not shown."""
    if path is None:
        return None
    try:
        tissue = open_tissue(path)
    except InputFault as error:
        return left_out(case, path, error.findings[0].got)
    if tissue.shape_yx == case.shape_yx:
        return tissue
    tissue.close()
    return left_out(case, path, "{:,} rows x {:,} columns".format(*tissue.shape_yx))


def left_out(case: Case, path: Path, got: str) -> Finding:
    return fault(
        "image-left-out",
        f"case {quote(case.name)}, {quote(path.name)}",
        got=got,
        height=case.shape_yx[0],
        width=case.shape_yx[1],
    )
