"""Whole slides with very many nuclei: a challenge folder and a submission as files, seeded, made of tiles.

No nucleus reaches beyond its tile. So nuclei lie as densely at any size of the slide, and ``is_cut`` writes the same
nuclei as a case for each tile, all of one group. Only the first few tiles are drawn, and used again and again.

    python -m benchmarks.slides FOLDER 1000000      makes a slide of 100,000 x 100,000 px
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.synthesis import MONUSAC_KINDS, Mistakes, draw_nuclei, perturb, seeded
from evaluation.files.formats.geojson import write_geojson
from evaluation.files.formats.listed_nuclei import write_polygons_json
from nuclei_metrics.model import Outlines

SEED = 808
DRAWN = 6  # different tiles
VERTEX_STEP_PX = 3.5  # about 24 vertices a nucleus
CLASS_NAMES = [kind.name for kind in MONUSAC_KINDS]
GROUP = "slide"
# What a good team does (``benchmarks.sets``), without what costs a loop: nuclei split and merged.
MISTAKES = Mistakes(
    missed=0.08,
    spurious=0.10,
    confusion=((0.95, 0.04, 0.0, 0.01), (0.02, 0.98, 0.0, 0.0), (0.01, 0.12, 0.85, 0.02), (0.12, 0.02, 0.04, 0.82)),
    grow_px=0.2,
    grow_spread_px=1.2,
    shift_px=1,
    roughen_px=1.0,
)
CHALLENGE_TOML = """\
format_version = 1
name = "Made slides"
preset = "monusac2020"

[reference]
format = "{format}"
files = "reference/{{case}}.{suffix}"
{keys}
vertices = "exact"
origin = "pixel_centre"
vanished = "drop"
overlap = "class_order"
overlap_scope = "image"

[submission]
format = "{format}"
files = "{{case}}.{suffix}"
{keys}
vertices = "exact"
origin = "pixel_centre"
vanished = "drop"
"""


@dataclass(frozen=True, slots=True)
class Slide:
    """A slide of ``rows`` x ``columns`` tiles of ``tile_px`` pixels a side, each with so many nuclei."""

    rows: int
    columns: int
    tile_px: int = 10_000
    nuclei: int = 10_000

    @property
    def shape_yx(self) -> tuple[int, int]:
        return self.rows * self.tile_px, self.columns * self.tile_px


SLIDES = {  # by the number of nuclei
    1_000: Slide(1, 1, 3_162, 1_000),
    10_000: Slide(1, 1),
    100_000: Slide(2, 5),
    1_000_000: Slide(10, 10),
}


def draw_tile(slide: Slide, number: int, seed: int = SEED) -> tuple[Outlines, Outlines]:
    """Reference and prediction of a tile, in its own coordinates; a margin of a pixel all around stays free.

    Vertices lie on quarters of a pixel: such numbers move from tile to slide without rounding.
    """
    inner = slide.tile_px - 3
    draws = [seeded(seed, number, side) for side in range(2)]
    reference = draw_nuclei(draws[0], (inner, inner), slide.nuclei, vertex_step_px=VERTEX_STEP_PX)
    prediction = perturb(draws[1], reference, (inner, inner), MISTAKES)

    def quarters(rng: np.random.Generator, outlines: Outlines) -> Outlines:
        offset = 1 + np.floor(4 * rng.random(outlines.points_xy.shape)) / 4
        return replace(outlines, points_xy=outlines.points_xy + offset)

    return quarters(draws[0], reference), quarters(draws[1], prediction)


# --- files ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileKind:
    """How a format is written: the whole file of some outlines, and where the list of nuclei begins in it."""

    suffix: str
    write: Callable[[Outlines], bytes]
    opening: bytes
    keys: str


KINDS = {
    "geojson": FileKind(
        "geojson",
        lambda outlines: write_geojson(outlines, CLASS_NAMES, [None] * len(CLASS_NAMES)),
        b'"features":[',
        'shape = "outline"',
    ),
    "polygons_json": FileKind(
        "json", lambda outlines: write_polygons_json(outlines, CLASS_NAMES, GROUP), b'"polygons":[', 'units = "px"'
    ),
}
CLOSING = b"]}"  # of both


def write_slide(folder: Path, slide: Slide, *, kind: str = "geojson", is_cut: bool = False, seed: int = SEED) -> None:
    """Write ``challenge/`` and ``submission/``, the same bytes for the same seed.

    is_cut   a case for each tile instead of one for all of them, all in one group
    """
    of_kind = KINDS[kind]
    tiles = list(product(range(slide.rows), range(slide.columns)))
    cases = {f"tile_{row}_{column}": [(row, column)] for row, column in tiles} if is_cut else {GROUP: tiles}
    height, width = (slide.tile_px, slide.tile_px) if is_cut else slide.shape_yx
    challenge, submission = folder / "challenge", folder / "submission"
    for parent in (challenge / "reference", submission):
        parent.mkdir(parents=True, exist_ok=True)
    rows = [f"{name},{GROUP},{height},{width},0.25" for name in cases]
    (challenge / "cases.csv").write_text("\n".join(["case,group,height,width,spacing_um", *rows, ""]))
    rules = CHALLENGE_TOML.format(format=kind, suffix=of_kind.suffix, keys=of_kind.keys)
    (challenge / "challenge.toml").write_text(rules)

    drawn = [draw_tile(slide, number, seed) for number in range(min(DRAWN, len(tiles)))]
    for name, places in cases.items():
        for side, parent in enumerate((challenge / "reference", submission)):
            parts = (
                in_slide(drawn[(row * slide.columns + column) % DRAWN][side], slide, row, column, moves=not is_cut)
                for row, column in places
            )
            write_parts(parent / f"{name}.{of_kind.suffix}", of_kind, parts)


def in_slide(outlines: Outlines, slide: Slide, row: int, column: int, *, moves: bool) -> Outlines:
    """The nuclei of a tile with ids of their own, and in its place if it ``moves``."""
    ids = np.array([f"{row}.{column}.{source}" for source in outlines.source_id] + [None], object)[:-1]
    offset = (column * slide.tile_px, row * slide.tile_px) if moves else (0, 0)
    return replace(outlines, points_xy=outlines.points_xy + offset, source_id=ids)


def write_parts(path: Path, kind: FileKind, parts: Iterable[Outlines]) -> None:
    """One file of all outlines; those of one part after the other are in memory."""
    with path.open("wb") as file:
        for number, outlines in enumerate(parts):
            text = kind.write(outlines)
            begin = text.index(kind.opening) + len(kind.opening)
            file.write(b"," if number else text[:begin])
            file.write(text[begin : -len(CLOSING)])
        file.write(CLOSING)


if __name__ == "__main__":
    write_slide(Path(sys.argv[1]), SLIDES[int(sys.argv[2])], kind=sys.argv[3] if len(sys.argv) > 3 else "geojson")
