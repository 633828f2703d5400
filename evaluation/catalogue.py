"""Every code a finding can have, explained: ``evaluation explain CODE`` prints these pages.

An example is the line as it is printed. Codes are stable: they are never renamed, only retired.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Explanation:
    """A page of the catalogue: what a code means, why it matters, what to do, and how the line looks."""

    title: str
    why: str
    fix: str
    example: str
    severity: Literal["error", "warning"] = "error"


CATALOGUE: dict[str, Explanation] = {
    # --- challenge.toml and cases.csv -----------------------------------------------------------------------------
    "missing-file": Explanation(
        title="A file that is needed is not there",
        why="The challenge is defined by challenge.toml, cases.csv and one reference per case; without one of them "
        "nothing can be scored.",
        fix="Put the file where the line says, or correct the pattern in challenge.toml.",
        example="[missing-file] 'challenge.toml': no such file; expected the file that defines the challenge. "
        "Run 'evaluation init --preset NAME DIR' to make one.",
    ),
    "invalid-toml": Explanation(
        title="challenge.toml is not TOML",
        why="The file cannot be parsed, so no rule is known.",
        fix="Correct the line that is named; strings need quotes, lists need brackets.",
        example="[invalid-toml] 'challenge.toml': Invalid value (at line 4, column 11); expected TOML 1.0.",
    ),
    "unknown-preset": Explanation(
        title="The preset does not exist",
        why="A preset is a published challenge kept as a file of this program.",
        fix="Choose one of 'evaluation presets'.",
        example="[unknown-preset] challenge.toml: preset: 'monusac'; expected 'monusac2020'. "
        "Did you mean 'monusac2020'?",
    ),
    "unknown-key": Explanation(
        title="challenge.toml has a key that is not a rule",
        why="A misspelt rule that is silently ignored would change the scores.",
        fix="Correct or remove the key.",
        example="[unknown-key] challenge.toml: reference.overlaps: a key that is not known; expected one of "
        "'format', 'files', 'overlap'. Did you mean 'overlap'?",
    ),
    "missing-rule": Explanation(
        title="challenge.toml leaves a rule open",
        why="Nothing that changes a number has a silent default: another reader must be able to compute the same.",
        fix="Write the rule, or start from a preset that has it.",
        example="[missing-rule] challenge.toml: reference.overlap: missing; expected a value, since every rule that "
        "can change a score must be written. Add the key, or start from a preset.",
    ),
    "invalid-rule": Explanation(
        title="A rule in challenge.toml has a value that is not allowed",
        why="Each rule has a fixed set of values or a range.",
        fix="Use one of the values that the line lists.",
        example="[invalid-rule] challenge.toml: reference.overlap: 'paint'; expected 'keep', 'last', 'first', "
        "'smallest', 'class_order' or 'ignore'.",
    ),
    "contradictory-rules": Explanation(
        title="Two rules of challenge.toml contradict each other",
        why="One of them would have to be ignored silently.",
        fix="Change or remove one of the two keys that are named.",
        example="[contradictory-rules] challenge.toml: reference.ignore.fraction: 0.5 with policy 'clip'; expected a "
        "fraction only with the policy 'drop_overlapping'.",
    ),
    "invalid-text": Explanation(
        title="A text file of the challenge cannot be read",
        why="challenge.toml and cases.csv are text in UTF-8; spreadsheet programs often write another encoding.",
        fix="Save the file as UTF-8.",
        example="[invalid-text] cases.csv: bytes that are not UTF-8 (the first at 12); expected text in UTF-8. "
        "Save it as 'CSV UTF-8' or plain UTF-8.",
    ),
    "no-challenge": Explanation(
        title="There is no folder at the path of the challenge",
        why="The challenge is a folder with challenge.toml, cases.csv and the reference.",
        fix="Correct the path after --challenge.",
        example="[no-challenge] 'my_chalenge': no such folder; expected the folder of a challenge.",
    ),
    "invalid-cases": Explanation(
        title="cases.csv cannot be used",
        why="cases.csv is the list of what is scored: every row needs a name and a size, every name only once.",
        fix="Correct the row that is named.",
        example="[invalid-cases] cases.csv, line 3: height '0'; expected a whole number of pixels, at least 1.",
    ),
    "file-exists": Explanation(
        title="'init' would overwrite a file",
        why="A challenge.toml that was edited by hand is never replaced.",
        fix="Choose another folder, or remove the file first.",
        example="[file-exists] 'my_challenge/challenge.toml': there already; expected a folder without it. Remove it "
        "first.",
    ),
    "unreadable-image": Explanation(
        title="The size of an image cannot be read",
        why="'init' takes height and width from the header of the image beside each reference file.",
        fix="Copy the image again, or remove it and write the size into cases.csv by hand.",
        example="[unreadable-image] 'P1_1.svs': not a TIFF file; expected an SVS or TIFF file with a valid header.",
    ),
    # --- the command line -------------------------------------------------------------------------------------------
    "missing-option": Explanation(
        title="A path is neither given nor at its place on the platform",
        why="Without arguments 'score' uses the folders of the platform, which this machine does not have.",
        fix="Name the path.",
        example="[missing-option] --submission: not given, and there is no /input; expected a path. "
        "Add --submission PATH.",
    ),
    "unknown-code": Explanation(
        title="There is no such code",
        why="'explain' knows the codes in the square brackets of messages.",
        fix="Copy the code from the message, or list all with 'evaluation explain'.",
        example="[unknown-code] explain: 'unknown-clas'; expected one of the codes that 'evaluation explain' lists. "
        "Did you mean 'unknown-class'?",
    ),
    "worker-died": Explanation(
        title="A worker process ended without an answer",
        why="It was killed, as a rule because the machine ran out of memory. A result without its cases would be "
        "wrong, so none is written.",
        fix="Run again with '--workers 1', or with more memory.",
        example="[worker-died] one of 2 workers: ended without an answer, most often killed for memory; expected "
        "enough memory for all workers at once. Run again with '--workers 1' or with more memory.",
    ),
    # --- predictions ------------------------------------------------------------------------------------------------
    "instance-without-class": Explanation(
        title="A nucleus has no class",
        why="Every nucleus is counted in a class; one without a class cannot be scored.",
        fix="Write the class into every pixel of the nucleus in the class map.",
        example="[instance-without-class] case 'case_017': 2 nuclei have no class anywhere in the class map (ids '4', "
        "'19'); expected a class for every nucleus. Write the class into every pixel of the nucleus in the class map.",
    ),
    # --- Aperio XML and outlines ----------------------------------------------------------------------------------
    "not-xml": Explanation(
        title="The file is not well-formed XML",
        why="A file that stops early or has a broken tag would give some of its outlines and lose the rest.",
        fix="Export the file again, or copy it again if it was cut off on the way.",
        example="[not-xml] 'P1_1.xml': no element found (line 812, column 0); expected well-formed Aperio XML. "
        "Export or copy the file again.",
    ),
    "not-aperio-xml": Explanation(
        title="The XML file is not one of Aperio ImageScope",
        why="Outlines are read from Annotations/Annotation/Regions/Region/Vertices/Vertex; other XML has none there.",
        fix="Export the annotations as ImageScope XML, or name the right format in challenge.toml.",
        example="[not-aperio-xml] 'P1_1.xml': the root element is 'ASAP_Annotations'; expected an Aperio XML file "
        "(root 'Annotations').",
    ),
    "forbidden-xml": Explanation(
        title="The XML file declares a document type or entities",
        why="Declarations can make a small file expand without end or fetch other files. ImageScope writes none.",
        fix="Remove the '<!DOCTYPE …>' part of the file.",
        example="[forbidden-xml] 'P1_1.xml': a document type or entity declaration; expected XML without "
        "declarations. Remove the '<!DOCTYPE …>' part.",
    ),
    "unreadable-file": Explanation(
        title="The file cannot be read to its end",
        why="A compressed or binary file that is cut off or damaged has lost what comes after.",
        fix="Write, compress or copy the file again.",
        example="[unreadable-file] 'P1_1.xml.gz': the compressed data stop before their end; expected a complete gzip "
        "file. Compress or copy the file again.",
    ),
    "too-large": Explanation(
        title="The input is larger than the challenge allows",
        why="Bounds on what is read keep a broken or hostile file from taking all memory.",
        fix="Make the file smaller, or raise the limit in the table 'limits' of challenge.toml.",
        example="[too-large] 'P1_1.xml': more than 50,000,000 vertices; expected at most 50,000,000. Split the file, "
        "or raise limits.vertices_per_file in challenge.toml.",
    ),
    "unknown-class": Explanation(
        title="A class name is not one of the challenge",
        why="Classes are matched by name, so that their order can never swap them; a name that is not known has no "
        "class id. Upper and lower case are the same.",
        fix='Correct the name, or add it in challenge.toml as an alias ("" for annotations without a name) or as an '
        "ignore class.",
        example="[unknown-class] 'P1_1.xml', region '2/1' and 17 more: 'Lymphocytes' is not a class of this "
        "challenge; expected 'epithelial' or 'lymphocyte'. Did you mean 'lymphocyte'?",
    ),
    "invalid-coordinate": Explanation(
        title="A vertex has no usable coordinate",
        why="Without it the outline, and so its pixels, are not known.",
        fix="Write plain finite numbers in pixels, with a point as decimal mark.",
        example="[invalid-coordinate] 'P1_1.xml', region '1/3', vertex 12: Y is 'NaN'; expected numbers between -1e9 "
        "and 1e9 as X and Y of every vertex.",
    ),
    "unsupported-shape": Explanation(
        title="A region is not drawn as an outline",
        why="The vertices of an ellipse are the corners of its box, those of an arrow or a ruler enclose nothing: "
        "taken as outlines they would cover other pixels than their author meant.",
        fix="Draw the region as an outline, or remove it.",
        example="[unsupported-shape] 'P1_1.xml', region '1/3': Type '2' (ellipse); expected Type '0' (freehand) or '1' "
        "(rectangle of four vertices), whose vertices are corners of the outline. Draw the region as an outline, or "
        "remove it.",
    ),
    "hole-without-outline": Explanation(
        title="A hole lies in no outline",
        why="A region with NegativeROA is taken away from the smallest outline of its layer around it; here is none.",
        fix="Check whether the outline is missing or drawn in another layer. The hole is left out.",
        example="[hole-without-outline] 'P1_1.xml', region '1/9': a hole (NegativeROA) in no outline of its layer; "
        "expected holes inside an outline. The hole is left out; check where it lies.",
        severity="warning",
    ),
    "vanished-outline": Explanation(
        title="An outline covers no pixel",
        why="An outline covers the pixels whose centres lie in it; very small or thin ones, and those beside the "
        "image, cover none. The challenge asks to refuse them (reference.vanished = 'error').",
        fix="Remove the outline, or set reference.vanished to 'drop' or 'pixel'.",
        example="[vanished-outline] 'P1_1.xml', outline '1/3': no pixel centre inside; expected outlines that cover a "
        "pixel of the image. Remove it, or set reference.vanished to 'drop' or 'pixel'.",
    ),
    "too-complex-outlines": Explanation(
        title="The outlines cross too many rows of pixels",
        why="The time and memory that outlines need grow with the number of pixel rows that each of their edges "
        "crosses; real nuclei have about one row per vertex.",
        fix="Check the coordinates: are they in pixels of this image, in the order x, y?",
        example="[too-complex-outlines] 'P1_1.xml': edges that cross 900,000,000 rows of pixels; expected at most "
        "134,217,728 in one file. Check the coordinates: pixels of this image, in the order x, y?",
    ),
    # --- submission: files and layout -----------------------------------------------------------------------------
    "no-submission": Explanation(
        title="There is nothing at the path of the submission",
        why="The path on the command line names neither a folder nor a file.",
        fix="Correct the path.",
        example="[no-submission] 'predictons': no such folder or file; expected a folder or a ZIP file with "
        "predictions.",
    ),
    "empty-submission": Explanation(
        title="The submission holds no file",
        why="Without files every case would be missing. What operating systems leave behind (.DS_Store, Thumbs.db, "
        "__MACOSX) does not count.",
        fix="Check that the folder or ZIP is the right one, and that your program wrote its predictions into it.",
        example="[empty-submission] submission: no file in it; expected predictions. Check that the folder or ZIP is "
        "the right one and that writing the predictions worked.",
    ),
    "not-a-zip": Explanation(
        title="The submission is a file, but not a ZIP",
        why="A submission is a folder, or a ZIP of one; other archives are not read.",
        fix="Pack it as ZIP. If it is one, it was damaged or cut off: copy it again.",
        example="[not-a-zip] 'predictions.tar.gz': not a ZIP file, or a damaged one; expected a folder or a ZIP file. "
        "Pack or copy it again.",
    ),
    "too-many-files": Explanation(
        title="The submission has too many files",
        why="Bounds on what is read keep a broken or hostile submission from taking all memory.",
        fix="Leave out images, checkpoints and caches.",
        example="[too-many-files] submission: more than 100,000 files; expected at most 100,000. Leave out everything "
        "but the predictions.",
    ),
    "unsafe-path": Explanation(
        title="A file of the submission is not safe to read",
        why="Links and names with '..' can lead out of the submission, devices can block, and names with control "
        "characters can hide what they are.",
        fix="Submit plain files with plain names.",
        example="[unsafe-path] 'P1/P1_1/Epithelial/1.mat': a link that leads out of the submission; expected plain "
        "files inside the submission, with '/' between folders and short, printable names. Copy the file itself to its "
        "place, or rename it.",
    ),
    "no-case-found": Explanation(
        title="No file lies where a prediction is expected",
        why="The case and the class of a file are told by its place, as the pattern in challenge.toml says; here no "
        "file fits the pattern.",
        fix="Arrange the files as the line shows it for one of them.",
        example="[no-case-found] submission: no prediction among 2 files ('P1_1/Epithelial.mat', "
        "'P1_2/Epithelial.mat'); expected files like 'P1/P1_1/Epithelial/*.mat'. The pattern is "
        "'{group}/{case}/{class}/*.mat'; '*' stands for any name.",
    ),
    "unknown-case": Explanation(
        title="A file belongs to no case of the challenge",
        why="cases.csv is the list of what is scored. A misspelt case would be scored as missing.",
        fix="Correct the name as cases.csv spells it (upper and lower case differ), or leave the file out.",
        example="[unknown-case] 'P1/p1_1/Epithelial/1.mat' and 3 more: 'p1_1' is not a case of this challenge; "
        "expected one of the 4 cases in cases.csv, such as 'P1_1'. Did you mean 'P1_1'?",
    ),
    "wrong-group": Explanation(
        title="A case lies in the folder of another group",
        why="The group (patient) of a case is given by cases.csv; a file in another group's folder may be another "
        "case.",
        fix="Move the file to the group that cases.csv gives.",
        example="[wrong-group] case 'P1_1', 'P2/P1_1/Epithelial/1.mat': in the group 'P2', but the case belongs to "
        "'P1'; expected every case in the group that cases.csv gives it. Move it; files of this case lie at places "
        "like 'P1/P1_1/Epithelial/*.mat'.",
    ),
    "duplicate-file": Explanation(
        title="There are two files for the same thing",
        why="Which of them is meant cannot be known.",
        fix="Remove one of them.",
        example="[duplicate-file] case 'P1_1', 'P1/P1_1/Epithelial/2.mat': files of class 'Epithelial' twice; the "
        "other is 'P1/P1_1/Epithelial/1.mat'; expected one file for each case and class. Remove one of them.",
    ),
    "missing-case": Explanation(
        title="A case has no file, and the challenge asks for all of them",
        why="Every case in cases.csv is scored; this challenge refuses submissions that lack one.",
        fix="Write a file for every case, also when no nucleus was found (all pixels 0).",
        example="[missing-case] case 'P1_2': no file; expected predictions for every case in cases.csv. Add "
        "'P1/P1_2/Epithelial/*.mat'; for an image without nuclei write an image of zeros.",
    ),
    "missing-case-worst": Explanation(
        title="A case has no file and gets the worst value of every metric",
        why="Every case in cases.csv is scored; leaving out hard ones must not help.",
        fix="Write a file for every case, also when no nucleus was found (all pixels 0).",
        example="[missing-case-worst] case 'P1_2': no file; expected predictions for every case in cases.csv. It gets "
        "the worst value of every metric. To change that, add 'P1/P1_2/Epithelial/*.mat'.",
        severity="warning",
    ),
    "missing-class-file": Explanation(
        title="A case has no file for one of the classes, and the challenge asks for all of them",
        why="A file of zeros says that there is no nucleus of the class; no file may mean that writing it failed.",
        fix="Write one file for every class, also without nuclei.",
        example="[missing-class-file] case 'P1_2', class 'Macrophage': no file; expected one file for every class, "
        "also without nuclei. Add 'P1/P1_2/Macrophage/*.mat'; without nuclei write an image of zeros.",
    ),
    "incomplete-case": Explanation(
        title="A case has a label image or a class map, but not both",
        why="The label image tells the nuclei apart, the class map gives them their classes.",
        fix="Write both for every case.",
        example="[incomplete-case] case 'a': a label image without a class map; expected both for every case. Add "
        "'a_classes.npy'.",
    ),
    "unused-file": Explanation(
        title="A file is not used",
        why="It does not lie where a prediction is expected. Notes and logs may stay; a prediction in a wrong place "
        "would be lost.",
        fix="Check that it is not a prediction.",
        example="[unused-file] 'README.md': not used; expected only files like '{group}/{case}/{class}/*.mat'. Check "
        "that these are not predictions.",
        severity="warning",
    ),
    # --- label images ---------------------------------------------------------------------------------------------
    "wrong-format": Explanation(
        title="A file is not of the format that it should have",
        why="The format is told by the suffix or by the challenge; the content is something else, or damaged.",
        fix="Write the file again in the right format; renaming does not convert it.",
        example="[wrong-format] case 'a', 'a.tif': a PNG file; expected a TIFF file, as its suffix says. Write the "
        "file again in this format.",
    ),
    "unsupported-format": Explanation(
        title="A file has a format, or a variant of one, that is not read",
        why="Only formats that keep whole numbers exactly, and that can be read safely, are accepted.",
        fix="Write the labels in one of the formats that the line names.",
        example="[unsupported-format] case 'P1_1', 'P1/P1_1/Epithelial/1.mat': a MATLAB 7.3 file (HDF5); expected a "
        "MATLAB file of version 4, 6 or 7. Save it with '-v7' instead of '-v7.3'; from Python use scipy.io.savemat.",
    ),
    "no-mask-variable": Explanation(
        title="It is not clear which variable of a MATLAB file is the label image",
        why="The label image is the variable 'n_ary_mask', or the only 2-D array of numbers in the file.",
        fix="Save the label image alone, under the name 'n_ary_mask'.",
        example="[no-mask-variable] case 'P1_1', 'P1/P1_1/Epithelial/1.mat': 2 2-D arrays of numbers among the "
        "variables 'a' and 'b'; expected one variable 'n_ary_mask', or only one 2-D array of numbers. Save the label "
        "image alone: save(file, 'n_ary_mask', '-v7').",
    ),
    "not-numeric": Explanation(
        title="A file holds no plain numbers",
        why="Python objects would have to be unpickled, which can run code; structs, cells, texts and complex numbers "
        "are no label images.",
        fix="Save the label image alone, as an array of integers.",
        example="[not-numeric] case 'a', 'a.npy': an array of Python objects (a pickle); expected an array of whole "
        "numbers. Write the label image alone, for example numpy.save(path, labels.astype(numpy.int32)).",
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
        example="[several-images] case 'a', 'a.tif': 3 pages; expected one image, alone in its file. Write only the "
        "label image.",
    ),
    "external-data": Explanation(
        title="An .mha file has its data elsewhere",
        why="A header that names another file could make that file, even the reference, the prediction.",
        fix="Write header and data into one .mha file.",
        example="[external-data] case 'a', 'a.mha': a header whose data are in another file, 'a.raw'; expected "
        "'ElementDataFile = LOCAL', with the data behind the header. Write one .mha file; with SimpleITK: "
        "WriteImage(image, 'name.mha').",
    ),
    "not-finite": Explanation(
        title="Labels are not a number or infinite",
        why="A label is the number of a nucleus; such a pixel belongs to none, and not to the background either.",
        fix="Write 0 where there is no nucleus.",
        example="[not-finite] case 'a', 'a.npy': 2 of 6 pixels are not a number or infinite (nan, first at row 0, "
        "column 2); expected 0 for background and 1, 2, 3, … for nuclei. Write 0 where there is no nucleus.",
    ),
    "fractional-label": Explanation(
        title="Labels are not whole numbers",
        why="Fractions come from probabilities or from interpolation; neither tells which nucleus a pixel belongs to.",
        fix="Write labels of instances; resize with nearest-neighbour interpolation only.",
        example="[fractional-label] case 'a', 'a.npy': 3 of 6 pixels are not a whole number (0.5, first at row 1, "
        "column 0); expected 0 for background and 1, 2, 3, … for nuclei. Write labels of instances, not probabilities; "
        "do not interpolate when you resize.",
    ),
    "negative-label": Explanation(
        title="Labels are below 0",
        why="0 is the background and every positive number a nucleus; a negative number is neither.",
        fix="If it is your background, write 0.",
        example="[negative-label] case 'case_017', 'nuclei/output.mha': 1,284 of 1,048,576 pixels are below 0 (lowest "
        "-1, first at row 0, column 517); expected 0 for background and 1, 2, 3, … for nuclei. If -1 is your "
        "background, write 0.",
    ),
    "label-too-large": Explanation(
        title="Labels are above 2^63 - 1",
        why="Such numbers usually were negative before they were stored in an unsigned type.",
        fix="Number the nuclei 1, 2, 3, …",
        example="[label-too-large] case 'a', 'a.npy': 1 of 6 pixels is above 2^63 - 1 (highest 18446744073709551615, "
        "first at row 0, column 1); expected 0 for background and 1, 2, 3, … for nuclei. Number the nuclei 1, 2, 3, …; "
        "a negative number in an unsigned type also looks like this.",
    ),
    "binary-mask": Explanation(
        title="All nuclei of a file have the label 1",
        why="Every value is one instance, also if its parts lie apart: the nuclei count as a single one.",
        fix="Give every nucleus a label of its own, for example with scipy.ndimage.label or bwlabel.",
        example="[binary-mask] case 'a', 'a.npy': 37 separate regions that all have the label 1; expected a label of "
        "its own for each nucleus. They count as one nucleus. Number them, for example with scipy.ndimage.label or "
        "bwlabel.",
        severity="warning",
    ),
    "unknown-class-value": Explanation(
        title="A class map has a value that is no class",
        why="The challenge gives every class a value; another value has no meaning.",
        fix="Write the values that the line lists.",
        example="[unknown-class-value] case 'a', 'a_classes.npy': the value 7 in 12 pixels (first at row 0, column 3); "
        "expected 0 for no class, 1 ('Epithelial'), 2 ('Lymphocyte'). Write the values that the challenge gives to its "
        "classes.",
    ),
}
