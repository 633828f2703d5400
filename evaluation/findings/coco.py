"""COCO and run-length codes."""

from __future__ import annotations

from evaluation.findings.kind import Kind


class InvalidRle(Kind):
    """A run-length code cannot be right.

    A code lists all pixels of a nucleus as runs; a wrong number shifts or loses all that follow. Most often the order
    of the pixels (along rows or down columns) or the number of the first pixel (0 or 1) is mistaken.

    Write the code in the order that the challenge names, for an image of the right height and width.

    [invalid-rle] 'codes.csv', line 2: an odd number of numbers (3); expected pairs of start (from 1) and length that do
    not overlap, in 20 pixels. Check the order of the pixels, the number of the first one, and the size of the image.
    """

    code = "invalid-rle"


class InvalidCode(InvalidRle):
    """What is wrong with a code; ``wanted`` says how codes are built."""

    expected = "{wanted}"
    fix = "Check the order of the pixels, the number of the first one, and the size of the image."

    value: object
    wanted: str


class OddCode(InvalidCode):
    got = "an odd number of numbers ({value:,})"


class NoNumberInCode(InvalidCode):
    got = "{value:quoted} is not a whole number of at most 18 digits"


class InvalidStart(InvalidCode):
    got = "the start {value:,}"


class InvalidLength(InvalidCode):
    got = "the length {value:,}"


class RunBeyondImage(InvalidCode):
    got = "a run to pixel {value:,}"


class RunsOverlap(InvalidCode):
    got = "two runs that hold pixel {value:,}"


class InvalidRunLength(InvalidCode):
    got = "a count of {value:,}"


class NoRunLength(InvalidCode):
    got = "a count that is not a whole number"


class NoCompressedCode(InvalidCode):
    got = "a string that is no compressed code"


class WrongSum(InvalidCode):
    got = "counts that add up to {value[0]:,}, not {value[1]:,}"


class TooComplexRuns(Kind):
    """Run-length codes cover too many rows of pixels.

    A code of a few letters can cover a whole image; many of them would take all time and memory. A real nucleus covers
    about one row of pixels for each run of its code.

    Check the codes: does each of them hold one nucleus, and not the background?

    [too-complex-runs] 'codes.csv', case 'case_017': run-length codes that cover more than 262,192 rows of pixels;
    expected at most 262,192: 262,144, and 16 for each run in the codes. Check the codes: each nucleus has one, and
    covers nothing but the nucleus.
    """

    code = "too-complex-runs"
    got = "run-length codes that cover more than {limit:,} rows of pixels"
    expected = "at most {limit:,}: {freely:,}, and {per_run} for each run in the codes"
    fix = "Check the codes: each nucleus has one, and covers nothing but the nucleus."

    limit: int
    freely: int
    per_run: int


class NotCoco(Kind):
    """A JSON file is not one of COCO.

    Images, categories and annotations are looked for under their names in COCO; other files have none there.

    Export the annotations as COCO. Organisers: name the right format in challenge.toml.

    [not-coco] 'nuclei.json': an object with 'type' and 'features'; expected an object with 'images', 'annotations' and
    'categories', or a list of results. Export it as COCO again, or name the right format.
    """

    code = "not-coco"
    got = "{found}"
    expected = "an object with 'images', 'annotations' and 'categories', or a list of results"
    fix = "{advice}"

    found: str
    advice: str = "Export it as COCO again, or name the right format."


KINDS = (
    InvalidRle,
    TooComplexRuns,
    NotCoco,
)
