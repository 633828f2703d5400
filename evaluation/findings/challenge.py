"""challenge.toml, cases.csv and the reference."""

from __future__ import annotations

from evaluation.findings.kind import Kind


class MissingFile(Kind):
    """A file that is needed is not there.

    The challenge is defined by challenge.toml, cases.csv and one reference per case; without one of them nothing can be
    scored.

    Put the file where the line says, or correct the pattern in challenge.toml.

    [missing-file] challenge.toml: no such file; expected the file that defines the challenge. Run 'evaluation init
    --preset NAME DIR' to make one.
    """

    code = "missing-file"


class InvalidToml(Kind):
    """challenge.toml is not TOML.

    The file cannot be parsed, so no rule is known.

    Correct the line that is named; strings need quotes, lists need brackets.

    [invalid-toml] challenge.toml: Invalid value (at line 5, column 11); expected TOML 1.0. Correct the line; texts need
    quotation marks.
    """

    code = "invalid-toml"


class UnknownPreset(Kind):
    """The preset does not exist.

    A preset is a published challenge kept as a file of this program.

    Choose one of 'evaluation presets'.

    [unknown-preset] challenge.toml: preset: 'monusac'; expected 'conic2022', 'consep', 'dsb2018', 'glas2015',
    'hovernet', 'midog2021', 'monkey2024', 'monusac2020' or one of 6 more. Did you mean 'monusac2020'?
    """

    code = "unknown-preset"


class UnknownKey(Kind):
    """A key is not a rule.

    A misspelt rule that is silently ignored would change the scores.

    Correct or remove the key.

    [unknown-key] challenge.toml: aggregation.units: a key that is not known; expected one of 'class_present',
    'undefined' or 'unit'. Did you mean 'unit'?
    """

    code = "unknown-key"


class MissingRule(Kind):
    """challenge.toml leaves a rule open.

    Nothing that changes a number has a silent default: another reader must be able to compute the same.

    Write the rule, or start from a preset that has it.

    [missing-rule] challenge.toml: aggregation.unit: missing; expected a value, since every rule that can change a score
    must be written. Add the key, or start from a preset.
    """

    code = "missing-rule"


class InvalidRule(Kind):
    """A rule, or an option of a format, has a value that is not allowed.

    Each rule has a fixed set of values or a range.

    Use one of the values that the line lists.

    [invalid-rule] challenge.toml: reference.overlap: 'paint'; expected 'keep', 'last', 'first', 'smallest',
    'class_order' or 'ignore'.
    """

    code = "invalid-rule"


class ContradictoryRules(Kind):
    """Two rules of challenge.toml contradict each other.

    One of them would have to be ignored silently.

    Change or remove one of the two keys that are named.

    [contradictory-rules] challenge.toml: reference.overlap_scope: 'class' with overlap 'class_order'; expected 'image',
    since the order of the classes decides between classes.
    """

    code = "contradictory-rules"


class InvalidText(Kind):
    """A text file of the challenge cannot be read.

    challenge.toml and cases.csv are text in UTF-8; spreadsheet programs often write another encoding.

    Save the file as UTF-8.

    [invalid-text] cases.csv: bytes that are not UTF-8 (the first at 40); expected text in UTF-8. Save it as 'CSV UTF-8'
    or plain UTF-8.
    """

    code = "invalid-text"


class InvalidCases(Kind):
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


class UnreadableImage(Kind):
    """The size of an image cannot be read.

    'init' takes height and width from the header of the image beside each reference file, and 'convert' from that of
    the file itself.

    Copy the image again. For 'init', remove it and write the size into cases.csv by hand; for 'convert', give the size
    with --size.

    [unreadable-image] 'P1_1.svs': not an image that can be read; expected an SVS, TIFF or PNG file.
    """

    code = "unreadable-image"


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
