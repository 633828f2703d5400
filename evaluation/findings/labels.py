"""Label images."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from evaluation.findings.kind import FoundNotAllowed, Kind
from evaluation.findings.words import listed, quote

MATLAB = "a MATLAB file of version 6 or 7"


class WrongFormat(Kind):
    """A file is not of the format that it should have.

    The suffix of the file or the challenge says which format it has; the content is something else, or damaged.

    Write the file again in the right format; renaming does not convert it.

    [wrong-format] case 'case_017', 'case_017.tif': a PNG file; expected a TIFF file, as its suffix says. Write the file
    again in this format.
    """

    code = "wrong-format"


class OtherDocument(WrongFormat):
    got = "{seen}"
    expected = "{name}"
    fix = "Write the file again in this format."

    seen: str
    name: str


class OtherContent(OtherDocument):
    expected = "{name}, as its suffix says"


class OtherThanMatlab(WrongFormat):
    got = "{found}"
    expected = MATLAB
    fix = "Save it with save(…, '-v7')."

    found: str


class DamagedHeader(WrongFormat):
    got = "a damaged header ({why})"
    expected = "{name}"
    fix = "Write or copy the file again."

    why: str
    name: str


class DamagedImport(DamagedHeader):
    got = "what cannot be read: {why}"


class UnsupportedFormat(Kind):
    """A file has a format, or a variant of one, that is not read.

    Only formats that keep whole numbers exactly, and that can be read safely, are accepted.

    Write the labels in one of the formats that the line names.

    [unsupported-format] case 'case_017', 'case_017.bmp': a BMP image, which is not read; export as label images (.tif,
    .png, .npy); expected one of '.npy', '.npz', '.png', '.tif', '.tiff', '.mha', '.nii', '.nii.gz' or '.nrrd'. Write
    the labels as .npy, .png, .tif or .mha.
    """

    code = "unsupported-format"


class OtherSuffix(UnsupportedFormat):
    got = "{found}"
    expected = "one of {known:listed 20}"
    fix = "{advice}"

    suffix: str
    known: Collection[str]
    advice: str
    content: str | None = None

    @property
    def found(self) -> str:
        of_suffix = f"a file with the suffix {quote(self.suffix)}" if self.suffix else "a file without a suffix"
        return self.content or of_suffix


class OtherColours(UnsupportedFormat):
    got = "{channels} {channels:channel/channels} of {dtype}"
    expected = "3 or 4 channels of uint8: red, green, blue and perhaps alpha"
    fix = "Write the map as an RGB image of 8 bits a channel."

    channels: int
    dtype: str


class UnsupportedTiff(UnsupportedFormat):
    got = "a TIFF file with {what}"
    expected = "whole numbers of 8, 16, 32 or 64 bits, without compression or with a lossless one (deflate, LZW, zstd)"
    fix = "Write it again, for example with tifffile.imwrite(path, labels, compression='zlib')."

    what: str


class UnsupportedMatlab(UnsupportedFormat):
    got = "a MATLAB 7.3 file (HDF5) with {what}"
    expected = MATLAB
    fix = "Save it with '-v7' instead of '-v7.3'; from Python use scipy.io.savemat."

    what: str


class OtherHdf5(UnsupportedMatlab):
    got = "an HDF5 file that is not MATLAB's, so the order of its axes is not known"

    what: str = ""


class UnsupportedPng(UnsupportedFormat):
    got = "{found}"
    expected = "a PNG of grey values, a palette or RGB, of up to 16 bits, not interlaced"
    fix = "{advice}"

    found: str
    advice: str


class UnsupportedEncoding(FoundNotAllowed):
    code = UnsupportedFormat.code
    fix = "Write the file with SimpleITK."


class Pickle(Kind):
    """A file holds pickled Python objects.

    Unpickling runs whatever code the file contains, so it is never done with a file that is not trusted.

    Save the label image alone, as an array of numbers or a TIFF; outlines as GeoJSON.

    [pickle] case 'case_017', 'case_017.npy': a pickled Python object; never unpickled from a submission; expected an
    array of whole numbers. Save the label image alone, such as numpy.save('name.npy', labels).
    """

    code = "pickle"
    got = "a pickled Python object; never unpickled from a submission"
    expected = "an array of whole numbers"
    fix = "Save the label image alone, such as numpy.save('name.npy', labels)."


class NoMaskVariable(Kind):
    """It is not clear which variable of a MATLAB or NPZ file is the label image.

    The label image is the only array in the file, or the one with the expected name ('n_ary_mask' in MATLAB files;
    'labels', 'inst_map' and the like in NPZ files).

    Save the label image alone, under the name that the line gives.

    [no-mask-variable] case 'P1_1', 'P1/P1_1/Epithelial/1.mat': 2 2-D arrays of numbers among the variables 'a' and 'b';
    expected one variable 'n_ary_mask', or only one 2-D array of numbers. Save the label image alone: save(file,
    'n_ary_mask', '-v7').
    """

    code = "no-mask-variable"


class NoArray(NoMaskVariable):
    got = "{found}"
    expected = "{wanted}"
    fix = "Name it: 'evaluation convert … --set dataset=PATH'; or write the label image alone."

    names: Collection[str]
    wanted: str
    what: ClassVar[str] = "array"

    @property
    def found(self) -> str:
        return f"the {self.what}s {listed(self.names, last='and')}" if self.names else f"no {self.what}"


class NoDataset(NoArray):
    what = "dataset"


class NoArrayInNpz(NoArray):
    fix = "Save the label image alone: numpy.savez_compressed(path, labels=labels)."


class NoIdVariable(NoMaskVariable):
    """In a file of HoVer-Net."""

    got = "{found}"
    expected = "a variable {name:quoted}"
    fix = "Save the label image as {name:quoted}."

    name: str
    names: Collection[str]

    @property
    def found(self) -> str:
        return f"the variables {listed(self.names, last='and')}" if self.names else "no variable"


class VariableTwice(NoMaskVariable):
    got = "the variable {name:quoted} {times} times"
    expected = "each variable once"
    fix = "Save the file again."

    name: str
    times: int


class NoLabelVariable(NoMaskVariable):
    got = "{found}"
    expected = "one variable 'n_ary_mask', or only one 2-D array of numbers"
    fix = "Save the label image alone: save(file, 'n_ary_mask', '-v7')."

    names: Collection[str]
    planes: int

    @property
    def found(self) -> str:
        among = f"{self.planes} 2-D arrays of numbers among the variables {listed(self.names, last='and')}"
        return among if self.names else "no variable"


class LabelVariableTwice(NoLabelVariable):
    got = "the variable 'n_ary_mask' {planes} times"


class NotNumeric(Kind):
    """A file holds no plain numbers.

    Structs, cells, texts, records and complex numbers are no label images.

    Save the label image alone, as an array of integers.

    [not-numeric] case 'case_017', 'case_017.npy': an array of complex numbers; expected an array of whole numbers.
    Write the label image alone, for example numpy.save(path, labels.astype(numpy.int32)).
    """

    code = "not-numeric"
    got = "an array of {kind}"
    expected = "an array of whole numbers"
    fix = "Write the label image alone, for example numpy.save(path, labels.astype(numpy.int32))."

    kind: str


class NotNumericDataset(NotNumeric):
    got = "{name:quoted} is {kind}"
    fix = NoArray.fix

    name: str


class NotNumericVariable(NotNumericDataset):
    fix = "Save it as an array."


class NotNumericMask(NotNumericDataset):
    fix = NoLabelVariable.fix


class SparseMask(NotNumericMask):
    fix = "Save full({name})."


class WrongShape(Kind):
    """A label image has another size than its image.

    Pixels are compared one by one, so both must have the same height and width.

    Write the labels at the size of the image; if height and width are swapped, transpose them.

    [wrong-shape] case 'P1_1', 'P1/P1_1/Epithelial/1.mat': 1,307 rows x 1,153 columns; expected 1,153 rows x 1,307
    columns, the height and width of the image. Height and width are swapped: write the transposed array (labels.T in
    numpy, labels.' in MATLAB).
    """

    code = "wrong-shape"
    got = "{found}"
    expected = "{height:,} rows x {width:,} columns, the height and width of the image{channels}"
    fix = "{advice}"

    found: str
    height: int
    width: int
    advice: str
    channels: str = ""


class WrongArray(FoundNotAllowed):
    """An array of all cases."""

    code = WrongShape.code


class TooFewImages(Kind):
    code = WrongShape.code
    got = "an array of {images:,} images"
    expected = "at least {needed:,}, since the case {case:quoted} has the index {index}"
    fix = "Write the images in the order of the column index of cases.csv, also those without nuclei."

    images: int
    case: str
    index: int

    @property
    def needed(self) -> int:
        return self.index + 1


class OtherSizeOfCode(Kind):
    code = WrongShape.code
    got = "an image of height {found_height:quoted} and width {found_width:quoted}"
    expected = "{height:,} and {width:,}, the height and width of the image"
    fix = "Make the codes at the size of the image."

    found_height: str
    found_width: str
    height: int
    width: int


class SeveralImages(Kind):
    """A TIFF file holds several images.

    Which of them is the label image cannot be known. Smaller copies of the first image (a pyramid) are fine.

    Write the label image alone.

    [several-images] case 'case_017', 'case_017.tif': 3 pages; expected one image, alone in its file. Write only the
    label image.
    """

    code = "several-images"
    got = "{found}"
    expected = "one image, alone in its file"
    fix = "Write only the label image."

    found: str


class ExternalData(Kind):
    """An .mha file has its data elsewhere.

    A header that names another file could make that file, even the reference, the prediction.

    Write header and data into one .mha file.

    [external-data] case 'case_017', 'case_017.mha': a header whose data are in another file, 'case_017.raw'; expected
    'ElementDataFile = LOCAL', with the data behind the header. Write one .mha file; with SimpleITK: WriteImage(image,
    'name.mha').
    """

    code = "external-data"


class DataElsewhere(ExternalData):
    got = "a header whose data are in another file, {name:quoted}"
    expected = "'ElementDataFile = LOCAL', with the data behind the header"
    fix = "Write one .mha file; with SimpleITK: WriteImage(image, 'name.mha')."

    name: str


class DataBesideHeader(ExternalData):
    got = "a header whose data are in {what}"
    expected = "the data behind the header"
    fix = "Write header and data into one file; with SimpleITK: WriteImage(image, 'name.nii.gz')."

    what: str


class InvalidLabels(Kind):
    """Pixels of a label image that are no labels; ``first`` is the first of them."""

    expected = "{meaning}"

    wrong: int
    pixels: int
    first: object
    row: int
    column: int
    lowest: object
    highest: object
    meaning: str

    @property
    def counted(self) -> str:
        return f"{self.wrong:,} of {self.pixels:,} pixels {'is' if self.wrong == 1 else 'are'}"

    @property
    def place(self) -> str:
        return f"first at row {self.row}, column {self.column}"


class NotFinite(InvalidLabels):
    """Labels are not a number or infinite.

    A label is the number of a nucleus; such a pixel belongs to none, and not to the background either.

    Write 0 where there is no nucleus.

    [not-finite] case 'case_017', 'case_017.npy': 2 of 6 pixels are not a number or infinite (nan, first at row 0,
    column 2); expected 0 for background and 1, 2, 3, … for nuclei. Write 0 where there is no nucleus.
    """

    code = "not-finite"
    got = "{counted} not a number or infinite ({first}, {place})"
    fix = "Write 0 where there is no nucleus."


class FractionalLabel(InvalidLabels):
    """Labels are not whole numbers.

    Fractions come from probabilities or from interpolation; neither tells which nucleus a pixel belongs to.

    Write labels of instances; resize with nearest-neighbour interpolation only.

    [fractional-label] case 'case_017', 'case_017.npy': 3 of 6 pixels are not a whole number (0.5, first at row 1,
    column 0); expected 0 for background and 1, 2, 3, … for nuclei. Write labels of instances, not probabilities; do not
    interpolate when you resize.
    """

    code = "fractional-label"
    got = "{counted} not a whole number ({first}, {place})"
    fix = "Write labels of instances, not probabilities; do not interpolate when you resize."


class NegativeLabel(InvalidLabels):
    """Labels are below 0.

    0 is the background and every positive number a nucleus; a negative number is neither.

    If it is your background, write 0.

    [negative-label] case 'case_017', 'case_017.mha': 1,284 of 1,048,576 pixels are below 0 (lowest -1, first at row 0,
    column 517); expected 0 for background and 1, 2, 3, … for nuclei. If -1 is your background, write 0.
    """

    code = "negative-label"
    got = "{counted} below 0 (lowest {lowest}, {place})"
    fix = "If -1 is your background, write 0."


class LabelTooLarge(InvalidLabels):
    """Labels are above 2^63 - 1.

    Such numbers usually were negative before they were stored in an unsigned type.

    Number the nuclei 1, 2, 3, …

    [label-too-large] case 'case_017', 'case_017.npy': 1 of 6 pixels is above 2^63 - 1 (highest 18446744073709551615,
    first at row 0, column 1); expected 0 for background and 1, 2, 3, … for nuclei. Number the nuclei 1, 2, 3, …; a
    negative number in an unsigned type also looks like this.
    """

    code = "label-too-large"
    got = "{counted} above 2^63 - 1 (highest {highest}, {place})"
    fix = "Number the nuclei 1, 2, 3, …; a negative number in an unsigned type also looks like this."


class BinaryMask(Kind):
    """All nuclei of a file have the label 1.

    Every value is one instance, also if its parts lie apart: the nuclei count as a single one.

    Give every nucleus a label of its own, for example with scipy.ndimage.label or bwlabel.

    [binary-mask] case 'case_017', 'case_017.npy': 37 separate regions that all have the label 1; expected a label of
    its own for each nucleus. They count as one nucleus. Number them, for example with scipy.ndimage.label or bwlabel.
    """

    code = "binary-mask"
    severity = "warning"
    got = "{regions:,} separate regions that all have the label {label}"
    expected = "a label of its own for each nucleus"
    fix = "They count as one nucleus. Number them, for example with scipy.ndimage.label or bwlabel."

    regions: int
    label: int


class Components(Kind):
    """Nuclei are the connected components of a mask.

    Where the challenge takes masks without numbers of nuclei (the rule components), pixels that touch are one nucleus.
    That joins nuclei that touch each other and splits those in several parts.

    Nothing, if nuclei lie apart; else write a label image, in which each nucleus has a number.

    [components] case 'case_017', 'case_017.png': 3 regions of touching pixels, each a nucleus; 4 if corners did not
    touch, 1 of one pixel; expected nuclei that do not touch each other, each in one part. Nuclei that touch count as
    one, parts that lie apart as several: write labels where that matters.
    """

    code = "components"
    severity = "warning"
    got = (
        "{count:,} regions of touching pixels, each a nucleus; {other:,} if corners {corners}, {specks:,} of one pixel"
    )
    expected = "nuclei that do not touch each other, each in one part"
    fix = "Nuclei that touch count as one, parts that lie apart as several: write labels where that matters."

    count: int
    other: int
    corners: str
    specks: int


class WrongSpacing(Kind):
    """The pixels of a label image have another size than those of the image.

    MetaImage, NIfTI and NRRD files say how large a pixel is; if that is not what cases.csv says, the labels were most
    likely made at another resolution. 1 mm counts as not given; a number that is right in um is taken as that.

    Write the labels at the resolution of the image, and its spacing in mm.

    [wrong-spacing] case 'case_017', 'case_017.nii.gz': pixels of 0.5 x 0.5 um; expected 0.25 um, as cases.csv has it.
    Write the labels at the resolution of the image, with its spacing in mm.
    """

    code = "wrong-spacing"
    got = "pixels of {x:.4g} x {y:.4g} um"
    expected = "{spacing_um:.4g} um, as cases.csv has it"
    fix = "Write the labels at the resolution of the image, with its spacing in mm."

    x: float
    y: float
    spacing_um: float


class UnknownClassValue(Kind):
    """A class map has a value that is no class.

    The challenge gives every class a value; another value has no meaning.

    Write the values that the line lists.

    [unknown-class-value] case 'case_017', 'case_017_classes.npy': the value 7 in 12 pixels (first at row 0, column 3);
    expected 0 for no class, 1 ('Epithelial'), 2 ('Lymphocyte'). Write the values that the challenge gives to its
    classes.
    """

    code = "unknown-class-value"
    got = "the value {value} in {pixels:,} pixels (first at row {row}, column {column})"
    expected = "{allowed}"
    fix = "Write the values that the challenge gives to its classes."

    value: int
    pixels: int
    row: int
    column: int
    allowed: str


class UnknownClassOfNuclei(Kind):
    """In a list of the classes of nuclei."""

    code = UnknownClassValue.code
    got = "the value {value} for {nuclei:,} {nuclei:nucleus/nuclei} (first for the id {id})"
    expected = UnknownClassValue.expected
    fix = UnknownClassValue.fix

    value: int
    nuclei: int
    id: int
    allowed: str


KINDS = (
    WrongFormat,
    UnsupportedFormat,
    Pickle,
    NoMaskVariable,
    NotNumeric,
    WrongShape,
    SeveralImages,
    ExternalData,
    NotFinite,
    FractionalLabel,
    NegativeLabel,
    LabelTooLarge,
    BinaryMask,
    Components,
    WrongSpacing,
    UnknownClassValue,
)
