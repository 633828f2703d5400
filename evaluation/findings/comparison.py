"""What ``compare`` and ``init`` find when they look into folders, and what would match when nearly nothing does."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.findings.kind import Kind


class NothingToCompare(Kind):
    """There is nothing in a folder or file that could be compared.

    'compare' looks for label images, outlines, points and arrays, by what is in the files and not by their names.

    Name the folder with the labels. For what can be read see docs/formats.md.

    [nothing-to-compare] 'photos': no labels, but 'a.png', a picture in colour; expected files with nuclei: label
    images, outlines or points. Name the folder, file or ZIP with the labels; see docs/formats.md for what is read.
    """

    code = "nothing-to-compare"
    got = "{what}"
    expected = "files with nuclei: label images, outlines or points"
    fix = "Name the folder, file or ZIP with the labels; see docs/formats.md for what is read."

    what: str


class SeveralForEachJob(NothingToCompare):
    expected = "one output with nuclei for each job"
    fix = "Keep the files of one output beside predictions.json, and remove the others."


class SeveralPlaces(NothingToCompare):
    expected = "files that one pattern describes, such as '{{case}}.tif'"
    fix = "Give all of them one ending, and put them into one folder or into one for each patient."


class OfPlatform(NothingToCompare):
    expected = "a folder, file or ZIP as participants hand it in"
    fix = "Leave out --submission, and write 'format' and 'socket' under [submission]; see docs/organisers.md."


class NotScored(NothingToCompare):
    got = "the class {what:quoted}, which the reference has for what is not scored"
    expected = "classes that are scored"
    fix = "Leave it out of --classes."


class NoScale(Kind):
    """Coordinates are shares of an image, or um, and nothing tells how many px that is."""

    code = NothingToCompare.code
    got = "coordinates in {units}"
    expected = "something that tells {lacking}"
    fix = "{todo}"

    units: str
    lacking: str
    todo: str


class NothingPaired(Kind):
    """No file of the prediction has the name of a file of the reference."""

    code = NothingToCompare.code
    got = "names such as {prediction:listed 3}"
    expected = "some of the names of the reference, such as {reference:listed 3}"
    fix = "Name the files alike; endings such as '_masks' do not matter."

    reference: Sequence[str]
    prediction: Sequence[str]


class NotRead(Kind):
    """A file beside the labels was not read.

    All files of a side are read in one format, that of most of them; pictures and tables beside them do no harm. If a
    table of ids and classes cannot be read, it is left out, and those of the other images of its side with it.

    Nothing, unless these are the files that should be compared: then name their folder.

    [file-not-read] 'masks/photo.png': a picture in colour; expected labels in the format of the other files. It was
    left out.
    """

    code = "file-not-read"
    severity = "warning"
    got = "{what}"
    expected = "labels in the format of the other files"
    fix = "It was left out."

    what: str


class TableNotRead(Kind):
    code = NotRead.code
    severity = "warning"
    got = "a table of ids and classes, but {what}"
    expected = "{wanted}"
    fix = "No class table of this side is used; correct it if its classes are to count."

    what: str
    wanted: str


class NoPrediction(Kind):
    """An image is on one side only.

    An image of the reference without a prediction counts as one in which nothing was found; a prediction without a
    reference cannot be scored.

    Add the file, or name it like the other one. Remove the reference of images that are not to count.

    [not-paired] prediction 'masks', 'a': no file for it; expected a prediction for every image of the reference. It
    counts as an image in which nothing was found; the names that were left over are 'c'.
    """

    code = "not-paired"
    severity = "warning"
    got = "no file for it"
    expected = "a prediction for every image of the reference"
    fix = "It counts as an image in which nothing was found{left}."

    names: Sequence[str]

    @property
    def left(self) -> str:
        from evaluation.findings.words import listed

        return f"; the names that were left over are {listed(self.names, 3, last='and')}" if self.names else ""


class NoReferenceOfImage(Kind):
    code = NoPrediction.code
    severity = "warning"
    got = "no reference for it"
    expected = "only images that the reference has"
    fix = "It is left out."


class SizesDiffer(Kind):
    """The two sides of an image have different sizes.

    Pixels are compared with pixels; no side is resized, since that would change what is measured.

    Write the prediction at the size of the image that was annotated, height first.

    [sizes-differ] 'a', prediction 'masks': 30 x 20 px; expected 20 x 30 px, as in the reference. Height and width are
    swapped: transpose the arrays.
    """

    code = "sizes-differ"
    got = "{found} px"
    expected = "{size} px, as in the reference"
    fix = "{advice}"

    found: str
    size: str
    advice: str


class NoSizeKnown(Kind):
    """Neither the files nor an image beside them tell how large an image is.

    Outlines and points do not say where their image ends.

    Nothing, unless nuclei reach over the edge of the image: then put the image beside the file, by the same name.

    [size-unknown] 'a': no size in the files, and no image beside them; expected the size of the image. It is taken to
    end with the last nucleus, at 20 x 30 px, which changes no score of nuclei inside it.
    """

    code = "size-unknown"
    severity = "warning"
    got = "no size in the files, and no image beside them"
    expected = "the size of the image"
    fix = "It is taken to end with the last nucleus, at {size} px, which changes no score of nuclei inside it."

    size: str


class ClassesDiffer(Kind):
    """The two sides do not have the same classes.

    A class of one side alone can never be right, so it lowers the scores of classification and no others.

    Say which names mean the same class: 'compare --classes tumour=neoplastic,stroma=3' names the classes and, behind
    each, how else it is written. '--classes none' leaves classes out.

    [classes-differ] prediction 'masks': the class '2' is not in the reference; expected the classes '1'. If it is one
    of them by another name, say so: --classes 1=2.
    """

    code = "classes-differ"
    severity = "warning"
    got = "{what}"
    expected = "the classes {known:listed}"
    fix = "If it is one of them by another name, say so: --classes {example}."

    what: str
    known: Sequence[str]
    example: str


class ClassesLeftOut(Kind):
    code = ClassesDiffer.code
    severity = "warning"
    got = "{what}"
    expected = "the same classes on both sides"
    fix = "All nuclei are taken as one class.{advice}"

    what: str
    advice: str


class NearlyNothingMatches(Kind):
    """Nearly nothing matches, but much would if the prediction were changed in a simple way.

    Scores near 0 are seldom the method's: rows and columns are swapped, outlines lie half a pixel aside, ids were
    stored in 8 bits. Such changes are tried on some images, and the one that would match is named. No score is changed.

    Correct the prediction, or the rule of challenge.toml that the line names, and score again.

    [nearly-nothing-matches] prediction 'masks': IoU > 0.5 for 0 % of the nuclei; expected most of them. Transposed,
    it is 100 % (1 image was tried): are rows and columns, or x and y, swapped?
    """

    code = "nearly-nothing-matches"
    severity = "warning"
    got = "{now}"
    expected = "most of them"
    fix = "{advice}"

    now: str
    advice: str


class HalfPixelAside(Kind):
    code = NearlyNothingMatches.code
    severity = "warning"
    got = "a mean IoU of {now} of the matched nuclei"
    expected = "outlines that lie on those of the reference"
    fix = (
        "Moved by {shift} px in x and y it is {moved}: do coordinates count from another place? "
        "The rule is origin = '{other}'."
    )

    now: str
    moved: str
    shift: str
    other: str


class BackgroundIsNucleus(Kind):
    code = NearlyNothingMatches.code
    severity = "warning"
    got = "a nucleus that covers {percent} of its image, or more, in every image that was tried"
    expected = "nuclei, with 0 for the background"
    fix = "Is the background a value such as 255? Write 0 there, and a number of its own for each nucleus."

    percent: str


class ClassesMixedUp(Kind):
    code = NearlyNothingMatches.code
    severity = "warning"
    got = "the right class for {now} of the matched nuclei"
    expected = "most of them"
    fix = "With other names for its classes it is {right} ({said}): {question}"

    now: str
    right: str
    said: str
    question: str


KINDS: tuple[type[Kind], ...] = (
    NothingToCompare,
    NotRead,
    NoPrediction,
    SizesDiffer,
    NoSizeKnown,
    ClassesDiffer,
    NearlyNothingMatches,
)
