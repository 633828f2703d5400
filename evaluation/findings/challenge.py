"""challenge.toml, cases.csv and the reference."""

from __future__ import annotations

from collections.abc import Collection

from evaluation.findings.annotations import TooLarge
from evaluation.findings.kind import FoundNotAllowed, Kind, NotAmong


class MissingFile(Kind):
    """A file that is needed is not there.

    The challenge is defined by challenge.toml, cases.csv and one reference per case; without one of them nothing can be
    scored.

    Put the file where the line says, or correct the pattern in challenge.toml.

    [missing-file] challenge.toml: no such file; expected the file that defines the challenge. Run 'evaluation init
    --preset NAME DIR' to make one.
    """

    code = "missing-file"
    got = "no such file"


class NoChallengeFile(MissingFile):
    expected = "the file that defines the challenge"
    fix = "Run 'evaluation init --preset NAME DIR' to make one."


class NoCasesFile(MissingFile):
    expected = "the list of cases (case, group, height, width)"
    fix = "Run 'evaluation init' to make one from the images, or write it by hand."


class NoReference(MissingFile):
    expected = "the reference of every case in cases.csv"


class NoReferenceEntry(MissingFile):
    got = "no entry for case {case:quoted}"
    expected = "every case in cases.csv"

    case: str


class CannotReadReference(NoReference):
    got = "{why}"

    why: str


class NoImages(MissingFile):
    got = "{what}"
    expected = "images such as {example:quoted}, .tif, .tiff or .png"
    fix = "Name them like the cases."

    what: str
    example: str


class InvalidToml(Kind):
    """challenge.toml is not TOML.

    The file cannot be parsed, so no rule is known.

    Correct the line that is named; strings need quotes, lists need brackets.

    [invalid-toml] challenge.toml: Invalid value (at line 5, column 11); expected TOML 1.0. Correct the line; texts need
    quotation marks.
    """

    code = "invalid-toml"
    got = "{error}"
    expected = "TOML 1.0"
    fix = "Correct the line; texts need quotation marks."

    error: object


class TooDeepToml(Kind):
    code = InvalidToml.code
    got = "tables nested too deeply"
    expected = "TOML 1.0"


class UnknownPreset(NotAmong):
    """The preset does not exist.

    A preset is a published challenge kept as a file of this program.

    Choose one of 'evaluation explain presets'.

    [unknown-preset] challenge.toml: preset: 'monusac'; expected 'conic2022', 'consep', 'dsb2018', 'glas2015',
    'hovernet', 'midog2021', 'monkey2024', 'monusac2020' or one of 7 more. Did you mean 'monusac2020'?
    """

    code = "unknown-preset"
    got = "{name:quoted}"


class UnknownKey(Kind):
    """A key is not a rule.

    A misspelt rule that is silently ignored would change the scores.

    Correct or remove the key.

    [unknown-key] challenge.toml: aggregation.units: a key that is not known; expected one of 'class_present',
    'undefined', 'unit' or 'worst'. Did you mean 'unit'?
    """

    code = "unknown-key"
    got = "a key that is not known"


class UnknownRule(NotAmong):
    code = UnknownKey.code
    got = UnknownKey.got
    expected = "one of {known:listed 20}"


class UnknownOption(UnknownRule):
    got = "not known"
    expected = "KEY=VALUE with a key of the format"


class CasesInRules(UnknownKey):
    expected = "the cases in cases.csv"


class MissingRule(Kind):
    """challenge.toml leaves a rule open.

    Nothing that changes a number has a silent default: another reader must be able to compute the same.

    Write the rule, or start from a preset that has it.

    [missing-rule] challenge.toml: aggregation.unit: missing; expected a value, since every rule that can change a score
    must be written. Add the key, or start from a preset.
    """

    code = "missing-rule"
    got = "missing"
    expected = "a value, since every rule that can change a score must be written"
    fix = "Add the key, or start from a preset."


class InvalidRule(Kind):
    """A rule, or an option of a format, has a value that is not allowed.

    Each rule has a fixed set of values or a range.

    Use one of the values that the line lists.

    [invalid-rule] challenge.toml: reference.overlap: 'paint'; expected 'keep', 'last', 'first', 'smallest',
    'class_order' or 'ignore'.
    """

    code = "invalid-rule"


class InvalidValue(FoundNotAllowed):
    """What a rule may be stands beside the check of it."""

    code = InvalidRule.code


class UnknownTable(NotAmong):
    """A table whose format, or matching rule, there is not."""

    code = InvalidRule.code
    got = "{name:quoted}"
    expected = "one of the {what} {known:listed 20}"

    what: str


class UnknownFamily(NotAmong):
    code = InvalidRule.code
    got = "{name:quoted}"
    expected = "one of {known:listed}"


class UnknownMetric(UnknownFamily):
    """``known`` are the metrics of its family in this challenge."""

    expected = "'{family}', or a metric of it in this challenge, such as {examples:listed}"

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def examples(self) -> list[str]:
        return list(self.known)[:3]


class UnknownColumn(NotAmong):
    code = InvalidRule.code
    got = "{name:quoted 120}"
    expected = "the path of a number in metrics.json, <family>.<metric>.<aggregation>"


class FamilyNotListed(Kind):
    code = InvalidRule.code
    got = "{path:quoted 120}, but the family {family:quoted} is not in metrics.families"
    expected = "numbers of the families that are listed there: {listed:joined}"
    fix = "Add the family to metrics.families, or take the column out."

    path: str
    family: str
    listed: Collection[str]


class ContradictoryRules(Kind):
    """Two rules of challenge.toml contradict each other.

    One of them would have to be ignored silently.

    Change or remove one of the two keys that are named.

    [contradictory-rules] challenge.toml: reference.overlap_scope: 'class' with overlap 'class_order'; expected 'image',
    since the order of the classes decides between classes.
    """

    code = "contradictory-rules"


class NoFloor(ContradictoryRules):
    got = "a floor on {path:quoted 120}, which is not better the higher it is in [0, 1]"
    expected = "a score in [0, 1] of which more is better"

    path: str


class NoNucleiForTricks(ContradictoryRules):
    got = "numbers of nuclei"
    expected = "nuclei that tricks can be played on"


class Contradiction(FoundNotAllowed):
    """What a rule may be beside the others stands beside the check of them."""

    code = ContradictoryRules.code


class OnlyOwnKeys(ContradictoryRules):
    """A key that another format has."""

    got = "given with the format {format!r}{shape}"
    expected = "only keys that say something about this format"

    format: str
    shape: str = ""


class EmptyColumn(ContradictoryRules):
    got = "{setting}, but {column} is empty for {cases} cases"
    expected = "{column} for every case in cases.csv"

    setting: str
    column: str
    cases: int


class CasesWithoutStratum(ContradictoryRules):
    got = "{path:quoted 120}, but cases have no stratum"
    expected = "a stratum for every case in cases.csv"
    fix = "Fill in the column 'stratum': the tissue, organ or centre of each case."

    path: str


class OnlyOneOption(ContradictoryRules):
    got = "given with {other}"
    expected = "only one of them, since {reason}"

    other: str
    reason: str


class InvalidText(Kind):
    """A text file of the challenge cannot be read.

    challenge.toml and cases.csv are text in UTF-8; spreadsheet programs often write another encoding.

    Save the file as UTF-8.

    [invalid-text] cases.csv: bytes that are not UTF-8 (the first at 40); expected text in UTF-8. Save it as 'CSV UTF-8'
    or plain UTF-8.
    """

    code = "invalid-text"
    got = "bytes that are not UTF-8 (the first at {position:,})"
    expected = "text in UTF-8"
    fix = "Save it as 'CSV UTF-8' or plain UTF-8."

    position: int


class CannotReadText(Kind):
    code = InvalidText.code
    got = "{why}"
    expected = "a readable file"

    why: object


class InvalidCases(FoundNotAllowed):
    """cases.csv cannot be used.

    cases.csv is the list of what is scored: every row needs a name and a size, every name only once.

    Correct the row that is named.

    [invalid-cases] cases.csv, line 3: height '0'; expected a whole number of pixels, at least 1.
    """

    code = "invalid-cases"


class NoOutlines(Kind):
    """The reference has no outlines.

    'sensitivity' draws every nucleus a pixel larger, smaller or lower. Points and numbers of nuclei have no border that
    could lie elsewhere.

    Nothing to do: for points, the radius of the matching rule says how far they may lie apart.

    [no-outlines] challenge.toml: reference.format: 'points_json', which has no outlines; expected outlines or label
    images. Points have no border: how far they may lie apart is the radius of the rule.
    """

    code = "no-outlines"
    got = "{format:quoted}, which has no outlines"
    expected = "outlines or label images"
    fix = "Points have no border: how far they may lie apart is the radius of the rule."

    format: str


class UnreadableImage(Kind):
    """The size of an image cannot be read.

    'init' takes height and width from the header of the image beside each reference file, and 'convert' from that of
    the file itself.

    Copy the image again. For 'init', remove it and write the size into cases.csv by hand; for 'convert', give the size
    with --size.

    [unreadable-image] 'P1_1.svs': not an image that can be read; expected an SVS, TIFF or PNG file.
    """

    code = "unreadable-image"
    got = "{why}"
    expected = "{allowed}"

    allowed: str
    why: str = "not an image that can be read"


class NoParts(TooLarge):
    got = "{found}"
    expected = "an image of which parts can be read"
    fix = "Write it again in tiles, with reduced copies (a pyramid)."

    found: str


KINDS = (
    MissingFile,
    InvalidToml,
    UnknownPreset,
    UnknownKey,
    MissingRule,
    InvalidRule,
    ContradictoryRules,
    InvalidText,
    InvalidCases,
    NoOutlines,
    UnreadableImage,
)
