"""The files of a submission, and which case they belong to."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.findings.finding import EXAMPLES_SHOWN
from evaluation.findings.kind import Kind
from evaluation.findings.words import listed, quote

OUTSIDE = "Check the units, the order of x and y, and whether coordinates count from the image or the slide."


class OutsideImage(Kind):
    """Nuclei lie outside the image, or on no pixel of it.

    A nucleus that covers no pixel of its image can never be matched: as an outline it is left out, as a point it counts
    as found where nothing is. Most often the units are wrong (all coordinates in mm lie on the first pixel), x and y
    are swapped, or coordinates count from the corner of the slide.

    Check the units and the order of x and y against the image.

    [outside-image] case 'case_017': 12 of 401 nuclei lie outside the image, or on no pixel of it; expected x below
    1,024 and y below 1,024, in px. Check the units, the order of x and y, and whether coordinates count from the image
    or the slide.
    """

    code = "outside-image"
    severity = "warning"
    got = "{outside:,} of {nuclei:,} nuclei {outside:lies/lie} outside the image, or on no pixel of it"
    expected = "x below {width:,} and y below {height:,}, in px"
    fix = OUTSIDE

    outside: int
    nuclei: int
    width: int
    height: int


class EverythingOutside(Kind):
    """All nuclei lie outside their images, or on no pixel of them.

    No nucleus could be matched, so every score would be that of an empty submission. It is a mistake in the
    coordinates, most often in their units.

    Write coordinates as the challenge asks for: its units, x before y, counted from the corner of the image.

    [everything-outside] submission: all 401 nuclei lie outside their images, or on no pixel of them; expected
    coordinates in px of the images. Check the units, the order of x and y, and whether coordinates count from the image
    or the slide.
    """

    code = "everything-outside"
    got = "all {nuclei:,} nuclei lie outside their images, or on no pixel of them"
    expected = "coordinates in px of the images"
    fix = OUTSIDE

    nuclei: int


class EverythingOutsideImage(EverythingOutside):
    got = "all {nuclei:,} nuclei lie outside their image, or on no pixel of it"
    expected = "coordinates in px of the image"


class InstanceWithoutClass(Kind):
    """A nucleus has no class.

    Every nucleus is counted in a class; one without a class cannot be scored.

    Give every nucleus its class where the format has it: in the class map, in the table, or as a name.

    [instance-without-class] case 'case_017': 2 nuclei have no class (ids '2', '3'); expected a class for every nucleus.
    Write the class of every nucleus where the challenge expects it.
    """

    code = "instance-without-class"
    got = "{count:,} {count:nucleus has/nuclei have} no class (ids {shown})"
    expected = "a class for every nucleus"
    fix = "Write the class of every nucleus where the challenge expects it."

    count: int
    first_ids: Sequence[object]

    @property
    def shown(self) -> str:
        return ", ".join(map(quote, self.first_ids))


class NotInClassTable(InstanceWithoutClass):
    got = "{count:,} {count:nucleus has/nuclei have} no class in the class table (ids {shown})"
    fix = "Write the id and the class of every nucleus into the table."


class SomeWithoutClass(Kind):
    """A format is written that has no place for them."""

    code = InstanceWithoutClass.code
    got = "{count:,} of {nuclei:,} nuclei without a class"
    expected = "a class for every nucleus of a {format}"
    fix = "Name the classes with --classes."

    count: int
    nuclei: int
    format: str


class NoSubmission(Kind):
    """There is nothing at the path of the submission.

    The path on the command line names neither a folder nor a file.

    Correct the path.

    [no-submission] 'predictons': no such folder or file; expected a folder or a ZIP file with predictions.
    """

    code = "no-submission"
    got = "{why}"
    expected = "a folder or a ZIP file with predictions"

    why: str


class NoScores(NoSubmission):
    expected = "a CSV file of scores"


class NoFolderOfTeams(NoSubmission):
    expected = "a folder with the submission of every team"


class NoResults(NoSubmission):
    expected = "a folder with results"


class EmptySubmission(Kind):
    """The submission holds no file.

    Without files every case would be missing. What operating systems leave behind (.DS_Store, Thumbs.db, __MACOSX) does
    not count.

    Check that the folder or ZIP is the right one, and that your program wrote its predictions into it.

    [empty-submission] submission: no file in it; expected predictions. Check that the folder or ZIP is the right one
    and that writing the predictions worked.
    """

    code = "empty-submission"
    got = "no file in it"
    expected = "predictions"
    fix = "Check that the folder or ZIP is the right one and that writing the predictions worked."


class NotAZip(Kind):
    """The submission is a file, but not a ZIP.

    A submission is a folder, or a ZIP of one; other archives are not read.

    Pack it as ZIP. If it is one, it was damaged or cut off: copy it again.

    [not-a-zip] 'predictions.tar.gz': not a ZIP file, or a damaged one; expected a folder or a ZIP file. Pack or copy it
    again.
    """

    code = "not-a-zip"
    got = "not a ZIP file, or a damaged one"
    expected = "a folder or a ZIP file"
    fix = "Pack or copy it again."


class ForeignSubmission(NotAZip):
    got = "{what}"
    fix = "Pack one."

    what: str


class TooManyFiles(Kind):
    """The submission has too many files.

    Bounds on what is read keep a broken or hostile submission from taking all memory.

    Leave out images, checkpoints and caches.

    [too-many-files] submission: more than 100 files; expected at most 100 files (limits.files_per_submission in
    challenge.toml). Leave out everything but the predictions.
    """

    code = "too-many-files"
    got = "more than {limit:,} files"
    expected = "at most {limit:,} files (limits.files_per_submission in challenge.toml)"
    fix = "Leave out everything but the predictions."

    limit: int


class TooManyEarlierResults(TooManyFiles):
    got = "{count:,} files"
    expected = "at most {limit:,} results"
    fix = "Keep the best of each team."

    count: int


class TooLongListOfMembers(TooManyFiles):
    got = "a list of members of {list_bytes:,} bytes"

    list_bytes: int


class TooCompressed(Kind):
    """A file in the ZIP unpacks to far more bytes than it is packed in.

    Deflate cannot make more than about 1,030 bytes from one; larger claims are false, and organisers may allow less. A
    small ZIP file that unpacks without end would take all memory.

    Submit the folder itself, or pack it anew with an ordinary program.

    [too-compressed] 'case_017.npy': 5,000,000 bytes from 4,874 in the ZIP file; expected at most 100 from each byte
    (limits.archive_ratio in challenge.toml). Submit the folder, or pack it anew.
    """

    code = "too-compressed"
    got = "{unpacked_bytes:,} bytes from {packed_bytes:,} in the ZIP file"
    expected = "at most {ratio:,} from each byte (limits.archive_ratio in challenge.toml)"
    fix = "Submit the folder, or pack it anew."

    unpacked_bytes: int
    packed_bytes: int
    ratio: int


class OverlappingMembers(Kind):
    """Two files in the ZIP share bytes.

    Ordinary programs write one file after the other. Files that share bytes can unpack to any size.

    Pack the ZIP again with an ordinary program.

    [overlapping-members] 'case_018.npy': bytes of the ZIP file that belong to 'case_017.npy' as well; expected members
    that lie one after the other. Pack the ZIP again.
    """

    code = "overlapping-members"
    got = "bytes of the ZIP file that belong to {other:quoted} as well"
    expected = "members that lie one after the other"
    fix = "Pack the ZIP again."

    other: str


class UnsafePath(Kind):
    """A file of the submission is not safe to read.

    Links and names with '..' can lead out of the submission, devices can block, and names with control characters can
    hide what they are.

    Submit plain files with plain names.

    [unsafe-path] 'P1/P1_1/Epithelial/1.mat': a link that leads out of the submission; expected plain files inside the
    submission, with '/' between folders and short, printable names. Copy the file itself to its place, or rename it.
    """

    code = "unsafe-path"
    got = "{why}"
    expected = "plain files inside the submission, with '/' between folders and short, printable names"
    fix = "Copy the file itself to its place, or rename it."

    why: str


class Backslash(UnsafePath):
    fix = (
        f"{UnsafePath.fix} Some programs of Windows write such a ZIP: pack it with another one, such as 7-Zip or "
        "'python -m zipfile -c'."
    )


class NoCaseFound(Kind):
    """No file lies where a prediction is expected.

    The path of a file says which case and class it is of, as the pattern in challenge.toml describes; here no file fits
    the pattern.

    Arrange the files as the line shows it for one of them.

    [no-case-found] submission: no prediction among 2 files ('P1_1/Epithelial.mat', 'P1_2/Epithelial.mat'); expected
    files like 'P1/P1_1/Epithelial/*.mat'. The pattern is '{group}/{case}/{class}/*.mat'; '*' stands for any name.
    """

    code = "no-case-found"
    got = "no file"
    expected = "files like {example:quoted 120}"
    fix = "The pattern is {pattern:quoted 120}; '*' stands for any name."

    example: str
    pattern: str


class NoPredictionAmongFiles(NoCaseFound):
    got = "no prediction among {count:,} {count:file/files} ({shown}{more})"

    names: Sequence[str]

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def shown(self) -> str:
        return ", ".join(quote(name, 120) for name in self.names[:EXAMPLES_SHOWN])

    @property
    def more(self) -> str:
        return f" and {self.count - EXAMPLES_SHOWN:,} more" if self.count > EXAMPLES_SHOWN else ""


class UnknownCase(Kind):
    """A file belongs to no case of the challenge.

    cases.csv is the list of what is scored. A misspelt case would be scored as missing.

    Correct the name as cases.csv spells it (upper and lower case differ), or leave the file out.

    [unknown-case] 'P1/p1_1/Epithelial/1.mat', 'P1/p1_1/Lymphocyte/1.mat', 'P1/p1_1/Macrophage/1.mat' and 1 more: 'p1_1'
    is not a case of this challenge; expected one of the 4 cases in cases.csv, such as 'P1_1'. Did you mean 'P1_1'?
    """

    code = "unknown-case"
    got = "{what}{name:quoted} is not a case of this challenge"
    expected = "one of the {count:,} cases in cases.csv{example}"
    fix = "{what_to_do}"

    name: str
    known: Sequence[str]
    suggestion: str
    what: str = ""

    @property
    def what_to_do(self) -> str:
        return self.suggestion or "Leave out what is not asked for."

    @property
    def count(self) -> int:
        return len(self.known)

    @property
    def example(self) -> str:
        return f", such as {quote(self.known[0])}" if self.known else ""


class EntriesOfNoCase(UnknownCase):
    got = "not a case of this challenge"


class UnknownInput(Kind):
    code = UnknownCase.code
    got = "the input of a job, {name:quoted}, is not a case of this challenge"
    expected = "one of the {count:,} cases in cases.csv"
    fix = "Add the image to cases.csv, or take it out of the images of the phase."

    name: str
    known: Sequence[str]

    @property
    def count(self) -> int:
        return len(self.known)


class UnknownCaseInScores(UnknownCase):
    fix = "{suggestion}"

    @property
    def example(self) -> str:
        return ""


class UnprintableCase(Kind):
    code = UnknownCase.code
    got = "the case {name:quoted}"
    expected = "a printable name of up to {limit} characters"

    name: str
    limit: int


class WrongGroup(Kind):
    """A case lies in the folder of another group.

    The group (patient) of a case is given by cases.csv; a file in another group's folder may be another case.

    Move the file to the group that cases.csv gives.

    [wrong-group] case 'P1_1', 'P2/P1_1/Epithelial/1.mat': in the group 'P2', but the case belongs to 'P1'; expected
    every case in the group that cases.csv gives it. Move it; files of this case lie at places like
    'P1/P1_1/Epithelial/*.mat'.
    """

    code = "wrong-group"
    got = "in the group {group:quoted}, but the case belongs to {own_group:quoted}"
    expected = "every case in the group that cases.csv gives it"
    fix = "Move it; files of this case lie at places like {right:quoted 120}."

    group: str
    own_group: str
    right: str


class OtherGroup(Kind):
    """In a file of scores."""

    code = WrongGroup.code
    got = "in the group {group:quoted}"
    expected = "{own_group:quoted}, the group that cases.csv gives it"

    group: str
    own_group: str


class TwoGroups(Kind):
    code = WrongGroup.code
    got = "case {case:quoted} in the group {group:quoted}, before in {before:quoted}"
    expected = "one group for each case"

    case: str
    group: str
    before: str


class DuplicateFile(Kind):
    """There are two files for the same thing.

    Which of them is meant cannot be known.

    Remove one of them.

    [duplicate-file] case 'P1_1', 'P1/P1_1/Epithelial/2.mat': files of class 'Epithelial' twice; the other is
    'P1/P1_1/Epithelial/1.mat'; expected one file for each case and class. Remove one of them.
    """

    code = "duplicate-file"


class TwiceForCase(DuplicateFile):
    got = "{what} twice; the other is {other:quoted 120}"
    expected = "one file for each case"
    fix = "Remove one of them."

    what: str
    other: str


class TwiceForCaseAndClass(TwiceForCase):
    expected = "one file for each case and class"


class TwiceForAllCases(DuplicateFile):
    got = "files of all cases twice; the other is {other:quoted 120}"
    expected = "one file, or one for each class where the challenge asks for that"
    fix = "Remove one of them."

    other: str


class TwiceInZip(DuplicateFile):
    got = "twice in the ZIP file"
    expected = "every file once"
    fix = "Pack the ZIP again."


class SeveralOutputs(DuplicateFile):
    got = "two outputs for {socket:quoted}"
    expected = "every output once"
    fix = "Leave out one of them."

    socket: object


class SeveralImagesInFolder(DuplicateFile):
    got = "{count:,} images in the folder"
    expected = "one image for each case"
    fix = "Write one only."

    count: int


class TwiceForClass(DuplicateFile):
    got = "files of a class twice; the other is {other:quoted 120}"
    expected = "one file for each class"
    fix = "Remove one of them."

    other: str


class DuplicateCase(Kind):
    """Two jobs have the same case.

    Which of their outputs is meant cannot be known.

    Leave one of them.

    [duplicate-case] case 'case_017': 2 jobs ('job-1', 'job-2'); expected one job for each case. Leave out the others.
    """

    code = "duplicate-case"
    got = "{count:,} jobs ({shown})"
    expected = "one job for each case"
    fix = "Leave out the others."

    jobs: Sequence[str]

    @property
    def count(self) -> int:
        return len(self.jobs)

    @property
    def shown(self) -> str:
        return ", ".join(map(quote, self.jobs[:2])) + (", …" if self.count > 2 else "")


class InvalidJob(Kind):
    """A job in predictions.json is not one that the platform writes.

    In the algorithm phase predictions.json says which outputs belong to which case: each job has a pk, one input with
    the name of the case, and outputs.

    Do not write predictions.json yourself. If the algorithm has several inputs, the organisers name the one that counts
    (submission.input).

    [invalid-job] 'predictions.json', job 'job-1': 2 inputs; expected one input, which has the name of the case.
    Organisers: name the input that counts with submission.input in challenge.toml.
    """

    code = "invalid-job"
    got = "{what}"
    expected = "jobs as the platform writes them, with pk, inputs and outputs"
    fix = "Do not write this file yourself."

    what: str


class SeveralInputs(InvalidJob):
    expected = "one input, which has the name of the case"
    fix = "Organisers: name the input that counts with submission.input in challenge.toml."


class ForgedPath(Kind):
    """A path in predictions.json leads out of the submission.

    The platform writes plain names. Others could lead to files of the evaluation.

    Do not write predictions.json yourself.

    [forged-path] 'predictions.json', job 'job-1': the relative_path of 'nuclei' is a name with '..'; expected names of
    files inside the submission. Do not write this file yourself.
    """

    code = "forged-path"
    got = "{what} is {why}"
    expected = "names of files inside the submission"
    fix = "Do not write this file yourself."

    what: str
    why: str


class FailedJob(Kind):
    """The algorithm did not succeed on a case.

    Without its outputs there is nothing to score.

    Look into the log of the job on the platform, and run it again.

    [failed-job] case 'case_017': a job with the status 'Failed'; expected 'Succeeded'. Run it again for this case.
    """

    code = "failed-job"
    got = "a job with the status {status:quoted}"
    expected = "'Succeeded'"
    fix = "Run it again for this case."

    status: object


class MissingOutput(Kind):
    """A job lacks the output that is scored.

    The challenge names the output of the algorithm that holds the nuclei (submission.socket).

    Let the algorithm write it for every case, also when no nucleus was found.

    [missing-output] case 'case_017', 'nuclei.json': no such file; expected the output 'nuclei' of every job. Write one
    for every case, also when no nucleus was found.
    """

    code = "missing-output"
    got = "no such file"
    expected = "the output {socket:quoted} of every job"
    fix = "Write one for every case, also when no nucleus was found."

    socket: object


class NoImageInFolder(MissingOutput):
    got = "no image in the folder"
    expected = "one .mha, .tif or .tiff"


class NotAmongOutputs(MissingOutput):
    got = "{among}"
    expected = "an output {socket:quoted} of every job"
    fix = "Give the algorithm this output."

    outputs: Sequence[object]

    @property
    def among(self) -> str:
        return f"no such output among {listed(self.outputs, last='and')}" if self.outputs else "no output"


class UnsupportedOutput(Kind):
    """An output is a value inside predictions.json.

    Nuclei are read from files and images. A socket that the platform stores in its database has neither.

    The organisers change the socket to one that is stored as a file.

    [unsupported-output] case 'case_017', 'nuclei.json': 'nuclei' is a value inside predictions.json; expected an output
    that is a file or an image. Organisers: let the socket be stored as a file.
    """

    code = "unsupported-output"
    got = "{socket:quoted} is a value inside predictions.json"
    expected = "an output that is a file or an image"
    fix = "Organisers: let the socket be stored as a file."

    socket: object


class MissingCase(Kind):
    """A case has no file, and the challenge asks for all of them.

    Every case in cases.csv is scored; this challenge refuses submissions that lack one.

    Write a file for every case, also when no nucleus was found (all pixels 0).

    [missing-case] case 'P1_2': no file; expected predictions for every case in cases.csv. Add
    'P1/P1_2/Epithelial/*.mat'; for an image without nuclei write an image of zeros.
    """

    code = "missing-case"
    got = "{what}"
    expected = "predictions for every case in cases.csv"
    fix = "Add {right}; for an image without nuclei {empty}."

    what: str
    right: str
    empty: str


class NoPrediction(Kind):
    """In memory there are no files."""

    code = MissingCase.code
    got = "no prediction"
    expected = "one for every case"


class MissingCaseWorst(Kind):
    """A case has no file and gets the worst value of every metric.

    Every case in cases.csv is scored; leaving out hard ones must not help.

    Write a file for every case, also when no nucleus was found (all pixels 0).

    [missing-case-worst] case 'P1_2': no file; expected predictions for every case in cases.csv. It gets the worst value
    of every metric. To change that, add 'P1/P1_2/Epithelial/*.mat'.
    """

    code = "missing-case-worst"
    severity = "warning"
    got = "{what}"
    expected = "predictions for every case in cases.csv"
    fix = "It gets the worst value of every metric. To change that, add {right}."

    what: str
    right: str


class MissingClassFile(Kind):
    """A case has no file for one of the classes, and the challenge asks for all of them.

    A file of zeros says that there is no nucleus of the class; no file may mean that writing it failed.

    Write one file for every class, also without nuclei.

    [missing-class-file] case 'P1_2', class 'Macrophage': no file; expected one file for every class, also without
    nuclei. Add 'P1/P1_2/Macrophage/*.mat'; without nuclei write an image of zeros.
    """

    code = "missing-class-file"
    got = "no file"
    expected = "one file for every class, also without nuclei"
    fix = "Add {right:quoted 120}; without nuclei {empty}."

    right: str
    empty: str


class IncompleteCase(Kind):
    """A case has a label image or a class map, but not both.

    The label image tells the nuclei apart, the class map gives them their classes.

    Write both for every case.

    [incomplete-case] case 'case_017': a label image without a class map; expected both for every case. Add
    'case_017_classes.npy'.
    """

    code = "incomplete-case"
    got = "a {present} without a {absent}"
    expected = "both for every case"
    fix = "Add {right:quoted 120}."

    present: str
    absent: str
    right: str


class UnusedFile(Kind):
    """A file is not used.

    It does not lie where a prediction is expected. Notes and logs may stay; a prediction in a wrong place would be
    lost.

    Check that it is not a prediction.

    [unused-file] 'README.md': not used; expected only files like '{group}/{case}/{class}/*.mat'. Check that these are
    not predictions.
    """

    code = "unused-file"
    severity = "warning"
    got = "not used"
    expected = "only files like {pattern:quoted 120}"
    fix = "Check that these are not predictions."

    pattern: str


class NotASubmission(Kind):
    """Beside the submissions of a leaderboard."""

    code, severity = UnusedFile.code, UnusedFile.severity
    got = "not used"
    expected = "a folder, a ZIP or a CSV file for each team"
    fix = "Check that these are not submissions."


KINDS = (
    OutsideImage,
    EverythingOutside,
    InstanceWithoutClass,
    NoSubmission,
    EmptySubmission,
    NotAZip,
    TooManyFiles,
    TooCompressed,
    OverlappingMembers,
    UnsafePath,
    NoCaseFound,
    UnknownCase,
    WrongGroup,
    DuplicateFile,
    DuplicateCase,
    InvalidJob,
    ForgedPath,
    FailedJob,
    MissingOutput,
    UnsupportedOutput,
    MissingCase,
    MissingCaseWorst,
    MissingClassFile,
    IncompleteCase,
    UnusedFile,
)
