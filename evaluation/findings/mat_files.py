"""MATLAB files of HoVer-Net, arrays of all cases, and colour-coded maps."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.findings.kind import Kind


class WrongLength(Kind):
    """The list of classes does not fit the nuclei.

    'inst_type' has one class for each nucleus, in ascending order of the ids in 'inst_map' (or in the order of
    'inst_uid'). If one is missing or too many, all that follow would belong to the wrong nuclei.

    Write the classes in the order of the ids that the map really holds; ids may have gaps.

    [wrong-length] case 'case_017', 'case_017.mat': 2 classes in 'inst_type' for 3 nuclei; expected one class for each
    nucleus. Write 'inst_type' in the order of numpy.unique(inst_map)[1:], or write their ids as 'inst_uid'.
    """

    code = "wrong-length"


class OtherNumberOfClasses(WrongLength):
    got = "{classes:,} classes in {types:quoted} for {nuclei:,} nuclei"
    expected = "one class for each nucleus"
    fix = "Write {types:quoted} in the order of numpy.unique(inst_map)[1:], or write their ids as {ids:quoted}."

    types: str
    ids: str
    classes: int
    nuclei: int


class RepeatedIds(WrongLength):
    got = "{repeated:,} repeated ids in {found:quoted}"
    expected = "each id once"
    fix = OtherNumberOfClasses.fix

    types: str
    ids: str
    repeated: int
    found: str


class NoColumnOfNumbers(WrongLength):
    got = "an array of {sizes}"
    expected = "one column of numbers"
    fix = "Write them as N x 1."

    shape: Sequence[int]

    @property
    def sizes(self) -> str:
        return " x ".join(f"{size:,}" for size in self.shape[:8])


class UnnamedChannel(Kind):
    """A channel without a class holds nuclei.

    The challenge gives each class its channel. Nuclei in another channel would be lost silently; most often the
    channels are in another order. The last channel may hold the background and is left out.

    Write each class into the channel that the challenge gives it.

    [unnamed-channel] case 'case_017', 'case_017.npy', channel 1: 2 nuclei in a channel that has no class; expected
    nuclei only in the channels 0 ('tumour'), 2 ('stroma'). Write each class into its channel; the last channel may hold
    the background.
    """

    code = "unnamed-channel"
    got = "{nuclei:,} {nuclei:nucleus/nuclei} in a channel that has no class"
    expected = "nuclei only in the channels {channels}"
    fix = "Write each class into its channel; the last channel may hold the background."

    nuclei: int
    channels: str


class UnknownColour(Kind):
    """A colour-coded map has a colour without a meaning.

    A pixel is of a class, of a border or of the background if it has exactly that colour. Other colours come from JPEG,
    from smoothing, or from another palette.

    Write the map in the colours that the line lists, in a format that keeps them, such as PNG.

    [unknown-colour] case 'case_017', 'case_017.png': the colour '#fe0000' in 2 pixels (first at row 0, column 1);
    expected '#000000' (background), '#ff0000' ('tumour'), '#0000ff' ('stroma'), '#8b4513' (borders). Write the map in
    these colours, as a PNG without smoothing; JPEG changes colours.
    """

    code = "unknown-colour"
    got = "the colour '#{colour:06x}' in {pixels:,} pixels (first at row {row}, column {column})"
    expected = "{known}"
    fix = "Write the map in these colours, as a PNG without smoothing; JPEG changes colours."

    colour: int
    pixels: int
    row: int
    column: int
    known: str


KINDS = (
    WrongLength,
    UnnamedChannel,
    UnknownColour,
)
