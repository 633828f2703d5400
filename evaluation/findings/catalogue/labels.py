"""Label images."""

from evaluation.findings.catalogue.explanation import Explanation

LABELS: dict[str, Explanation] = {
    "wrong-format": Explanation(
        title="A file is not of the format that it should have",
        why="The format is told by the suffix or by the challenge; the content is something else, or damaged.",
        fix="Write the file again in the right format; renaming does not convert it.",
        example="[wrong-format] case 'case_017', 'case_017.tif': a PNG file; expected a TIFF file, as its suffix "
        "says. Write the file again in this format.",
    ),
    "unsupported-format": Explanation(
        title="A file has a format, or a variant of one, that is not read",
        why="Only formats that keep whole numbers exactly, and that can be read safely, are accepted.",
        fix="Write the labels in one of the formats that the line names.",
        example="[unsupported-format] case 'case_017', 'case_017.bmp': a file with the suffix '.bmp'; expected one of"
        " '.npy', '.npz', '.png', '.tif', '.tiff', '.mha', '.nii', '.nii.gz' or '.nrrd'. Write the labels as .npy, "
        ".png, .tif or .mha.",
    ),
    "pickle": Explanation(
        title="A file holds pickled Python objects",
        why="Unpickling runs whatever code the file contains, so it is never done with the file of a stranger.",
        fix="Convert the file on the machine where it was made, where you trust it: 'evaluation convert "
        "--trust-pickle'; or save plain arrays.",
        example="[pickle] case 'case_017', 'case_017.npy': a pickled Python object; never unpickled from a "
        "submission; expected an array of whole numbers. Run 'evaluation convert --trust-pickle' on your own "
        "machine.",
    ),
    "no-mask-variable": Explanation(
        title="It is not clear which variable of a MATLAB or NPZ file is the label image",
        why="The label image is the only array in the file, or the one with the expected name ('n_ary_mask' in MATLAB "
        "files; 'labels', 'inst_map' and the like in NPZ files).",
        fix="Save the label image alone, under the name that the line gives.",
        example="[no-mask-variable] case 'P1_1', 'P1/P1_1/Epithelial/1.mat': 2 2-D arrays of numbers among the "
        "variables 'a' and 'b'; expected one variable 'n_ary_mask', or only one 2-D array of numbers. Save the label "
        "image alone: save(file, 'n_ary_mask', '-v7').",
    ),
    "not-numeric": Explanation(
        title="A file holds no plain numbers",
        why="Structs, cells, texts, records and complex numbers are no label images.",
        fix="Save the label image alone, as an array of integers.",
        example="[not-numeric] case 'case_017', 'case_017.npy': an array of complex numbers; expected an array of "
        "whole numbers. Write the label image alone, for example numpy.save(path, "
        "labels.astype(numpy.int32)).",
    ),
    "wrong-shape": Explanation(
        title="A label image has another size than its image",
        why="Pixels are compared one by one, so both must have the same height and width.",
        fix="Write the labels at the size of the image; if height and width are swapped, transpose them.",
        example="[wrong-shape] case 'P1_1', 'P1/P1_1/Epithelial/1.mat': 1,307 rows x 1,153 columns; expected 1,153 "
        "rows x 1,307 columns, the height and width of the image. Height and width are swapped: write the transposed "
        "array (labels.T in numpy, labels.' in MATLAB).",
    ),
    "several-images": Explanation(
        title="A TIFF file holds several images",
        why="Which of them is the label image cannot be known. Smaller copies of the first image (a pyramid) are fine.",
        fix="Write the label image alone.",
        example="[several-images] case 'case_017', 'case_017.tif': 3 pages; expected one image, alone in its file. "
        "Write only the label image.",
    ),
    "external-data": Explanation(
        title="An .mha file has its data elsewhere",
        why="A header that names another file could make that file, even the reference, the prediction.",
        fix="Write header and data into one .mha file.",
        example="[external-data] case 'case_017', 'case_017.mha': a header whose data are in another file, "
        "'case_017.raw'; expected 'ElementDataFile = LOCAL', with the data behind the header. Write one .mha "
        "file; with SimpleITK: WriteImage(image, 'name.mha').",
    ),
    "not-finite": Explanation(
        title="Labels are not a number or infinite",
        why="A label is the number of a nucleus; such a pixel belongs to none, and not to the background either.",
        fix="Write 0 where there is no nucleus.",
        example="[not-finite] case 'case_017', 'case_017.npy': 2 of 6 pixels are not a number or infinite (nan, first"
        " at row 0, column 2); expected 0 for background and 1, 2, 3, … for nuclei. Write 0 where there is no"
        " nucleus.",
    ),
    "fractional-label": Explanation(
        title="Labels are not whole numbers",
        why="Fractions come from probabilities or from interpolation; neither tells which nucleus a pixel belongs to.",
        fix="Write labels of instances; resize with nearest-neighbour interpolation only.",
        example="[fractional-label] case 'case_017', 'case_017.npy': 3 of 6 pixels are not a whole number (0.5, first"
        " at row 1, column 0); expected 0 for background and 1, 2, 3, … for nuclei. Write labels of "
        "instances, not probabilities; do not interpolate when you resize.",
    ),
    "negative-label": Explanation(
        title="Labels are below 0",
        why="0 is the background and every positive number a nucleus; a negative number is neither.",
        fix="If it is your background, write 0.",
        example="[negative-label] case 'case_017', 'case_017.mha': 1,284 of 1,048,576 pixels are below 0 (lowest -1, "
        "first at row 0, column 517); expected 0 for background and 1, 2, 3, … for nuclei. If -1 is your "
        "background, write 0.",
    ),
    "label-too-large": Explanation(
        title="Labels are above 2^63 - 1",
        why="Such numbers usually were negative before they were stored in an unsigned type.",
        fix="Number the nuclei 1, 2, 3, …",
        example="[label-too-large] case 'case_017', 'case_017.npy': 1 of 6 pixels is above 2^63 - 1 (highest "
        "18446744073709551615, first at row 0, column 1); expected 0 for background and 1, 2, 3, … for "
        "nuclei. Number the nuclei 1, 2, 3, …; a negative number in an unsigned type also looks like this.",
    ),
    "components": Explanation(
        title="Nuclei are the connected components of a mask",
        severity="warning",
        why="Where the challenge takes masks without numbers of nuclei (the rule components), pixels that touch are "
        "one nucleus. That joins nuclei that touch each other and splits those in several parts.",
        fix="Nothing, if nuclei lie apart; else write a label image, in which each nucleus has a number.",
        example="[components] case 'case_017', 'case_017.png': 3 regions of touching pixels, each a nucleus; 4 if "
        "corners did not touch, 1 of one pixel; expected nuclei that do not touch each other, each in one part. "
        "Nuclei that touch count as one, parts that lie apart as several: write labels where that matters.",
    ),
    "wrong-spacing": Explanation(
        title="The pixels of a label image have another size than those of the image",
        why="NIfTI and NRRD files say how large a pixel is; if that is not what cases.csv says, the labels were most "
        "likely made at another resolution. 1 mm counts as not given.",
        fix="Write the labels at the resolution of the image, and its spacing in mm.",
        example="[wrong-spacing] case 'case_017', 'case_017.nii.gz': pixels of 0.5 x 0.5 um; expected 0.25 um, as "
        "cases.csv has it. Write the labels at the resolution of the image, with its spacing in mm.",
    ),
    "binary-mask": Explanation(
        title="All nuclei of a file have the label 1",
        why="Every value is one instance, also if its parts lie apart: the nuclei count as a single one.",
        fix="Give every nucleus a label of its own, for example with scipy.ndimage.label or bwlabel.",
        example="[binary-mask] case 'case_017', 'case_017.npy': 37 separate regions that all have the label 1; "
        "expected a label of its own for each nucleus. They count as one nucleus. Number them, for example "
        "with scipy.ndimage.label or bwlabel.",
        severity="warning",
    ),
    "unknown-class-value": Explanation(
        title="A class map has a value that is no class",
        why="The challenge gives every class a value; another value has no meaning.",
        fix="Write the values that the line lists.",
        example="[unknown-class-value] case 'case_017', 'case_017_classes.npy': the value 7 in 12 pixels (first at "
        "row 0, column 3); expected 0 for no class, 1 ('Epithelial'), 2 ('Lymphocyte'). Write the values that"
        " the challenge gives to its classes.",
    ),
}
