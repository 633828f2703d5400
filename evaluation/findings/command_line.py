"""The command line."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from evaluation.findings.kind import Kind, NotAmong


class NoChallenge(Kind):
    """There is no folder at the path of the challenge.

    The challenge is a folder with challenge.toml, cases.csv and the reference.

    Correct the path after --challenge.

    [no-challenge] 'my_chalenge': no such folder; expected the folder of a challenge.
    """

    code = "no-challenge"
    got = "no such folder"
    expected = "the folder of a challenge"


class NoGroundTruth(NoChallenge):
    got = "no file in it, and the image holds only the ground truth of its demo"
    expected = "the ground truth of the phase"
    fix = "Upload ground_truth.tar.gz as the ground truth of the phase, or build the image with it in ground_truth/."


class FileExists(Kind):
    """A command would overwrite what is there.

    A challenge.toml that was edited by hand, or an earlier kit, is never replaced.

    Choose another folder, or remove what is there first.

    [file-exists] 'my_challenge/challenge.toml': there already; expected a folder without it. Remove it first.
    """

    code = "file-exists"
    got = "there already"
    expected = "a folder without it"
    fix = "Remove it first."


class SourceAsOutput(FileExists):
    got = "what is converted would be replaced"
    expected = "another name"
    fix = "Write to another file or folder."


class FileForFolder(FileExists):
    got = "a file"
    expected = "a folder to write to"
    fix = "Name another."


class FolderForFile(FileExists):
    got = "a folder"
    expected = "a file, or nothing"
    fix = "Write to another file or folder."


class FolderNotEmpty(FileExists):
    got = "not empty"
    expected = "an empty or new folder"
    fix = "Name a new folder, or empty this one."


class CannotWrite(Kind):
    """A folder cannot be written to.

    The results would be lost.

    Name another folder, or change the permissions of this one.

    [cannot-write] 'results/first_try': not a directory; expected a folder to write to. Check its permissions and the
    space that is left, or name another folder.
    """

    code = "cannot-write"
    got = "{why}"
    expected = "a folder to write to"
    fix = "Check its permissions and the space that is left, or name another folder."

    why: str


class AddressOfStorage(CannotWrite):
    got = "an address of storage"
    expected = "a folder or file of this machine"
    fix = "Mount the storage, or copy the files to or from it by another program."

    why: str = ""


class MissingOption(Kind):
    """An option that is needed is missing.

    Without arguments 'score' uses the folders of the platform, which other machines do not have; 'convert' needs the
    size of the image where the file does not tell it.

    Add the option that the line names.

    [missing-option] --submission: not given, and there is no /input; expected a path. Add --submission PATH.
    """

    code = "missing-option"
    got = "not given"


class NoPath(MissingOption):
    got = "not given, and there is no {usual_path}"
    expected = "a path"
    fix = "Add {option} PATH."

    option: str
    usual_path: object


class NotThere(MissingOption):
    got = "there is no {path:quoted 120}"
    expected = "a file or folder"
    fix = "Look at how it is spelt."

    path: str


class NoFolderForPages(MissingOption):
    expected = "a folder that pages are kept in"
    fix = "Add --output DIR."


class NotGivenBeside(MissingOption):
    got = "not given, but {given} is"
    expected = "{needed}"
    fix = "Add {option}."

    option: str
    given: str
    needed: str


class NoResultsOrScores(MissingOption):
    got = "{number} given"
    expected = "one of the two"
    fix = "Add one of them."

    number: str


class NoChallengeOfResults(MissingOption):
    expected = "the challenge that the results are of"
    fix = "Add --challenge DIR."


class NoColumn(MissingOption):
    got = "not given, and there is no --challenge"
    expected = "every metric to rank by, with its direction, among {metrics:listed}"
    fix = "Add --column METRIC:descending where higher is better, --column METRIC:ascending where lower is."

    metrics: Sequence[str]


class NoImageSize(MissingOption):
    got = "not given, and the file does not tell the size of its image"
    expected = "height and width in px"
    fix = "Add --size HEIGHTxWIDTH."


class NoPixelSize(MissingOption):
    got = "not given, and coordinates are in {units}"
    expected = "the size of a pixel in um"
    fix = "Add --spacing UM."

    units: str


class MissingExtra(Kind):
    """A part of the program is not installed.

    Pages and clusters need further packages. Scoring needs none of them, and the image has none.

    Run the command that the line names; './evaluate.sh' has the packages of reports.

    [missing-extra] HTML report: 'jinja2' is not installed; expected the packages of the extra 'report'. Install them:
    pip install '.[report]' in the folder of this program.
    """

    code = "missing-extra"
    got = "{package:quoted 120} is not installed"
    expected = "the packages of the extra '{extra}'"
    fix = "Install them: pip install '.[{extra}]' in the folder of this program."

    package: str
    extra: str


class MissingImports(MissingExtra):
    fix = "Run 'setup/imports.sh' in the folder of this program; where pip installed it, pip install '.[imports]'."


class UnknownFormat(NotAmong):
    """There is no such format.

    Formats are named as in challenge.toml; several of them have the same suffix.

    Use one of the names that the line lists.

    [unknown-format] --to: 'geojsn'; expected 'geojson', 'label_tiff', 'nary_mat' or 'platform'. Did you mean 'geojson'?
    """

    code = "unknown-format"
    got = "{name:quoted}"
    expected = "{known:listed 20}"


class NoKnownFormat(Kind):
    code = UnknownFormat.code
    got = "a file of no known format"
    expected = "{known:listed 40}"
    fix = "Name the format with --from."

    known: Collection[str]


class ForeignFormat(Kind):
    code = UnknownFormat.code
    got = "{what}"
    expected = "a format of docs/formats.md"

    what: str


class UnknownCode(Kind):
    """There is no such code.

    'explain' knows the codes in the square brackets of messages.

    Copy the code from the message, or list all with 'evaluation explain'.

    [unknown-code] explain: 'unknown-clas'; expected one of the codes that 'evaluation explain' lists. Did you mean
    'unknown-class'?
    """

    code = "unknown-code"
    got = "{name:quoted}"
    expected = "one of the codes that 'evaluation explain' lists"
    fix = "{suggestion}"

    name: str
    suggestion: str


KINDS = (
    NoChallenge,
    FileExists,
    CannotWrite,
    MissingOption,
    MissingExtra,
    UnknownFormat,
    UnknownCode,
)
