"""What is wrong with files, in the words of somebody who compares folders and knows of no challenge.

``compare`` makes a challenge and scores by it, so findings speak of its files, its limits, and numbers that stand for
what is not known. None of that is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from evaluation.findings import Finding

WORDS = r"(?:(?!\.(?:\s|$)).)*"  # of a sentence
PHRASES = (  # in this order
    (r"; organisers can raise limits\.\S+ in challenge\.toml", "; a challenge may have a higher limit"),
    (rf", or raise limits\.{WORDS}", ", or use a challenge: it may have a higher limit"),
    (rf"; the limit is limits\.{WORDS}", "; a challenge may have a higher limit"),
    (rf"; organisers can {WORDS}", ""),
    (r" \(limits\.\w+ in challenge\.toml\)", ""),
    (r"If the file has no header, its columns must be named in challenge\.toml \('columns'\)\.", "Write a header."),
    (r"; or name its group in skip_classes, or set other_shapes to 'skip', in challenge\.toml", ""),
    (r", as other_shapes = 'skip' in challenge\.toml says", ""),
    (r"challenge\.toml: metrics(\.\w+)*", "--metrics"),
    (r"challenge\.toml: limits\.\w+", "the images"),
    (r"challenge\.toml: ", "the rules that were made: "),
    (r", (as|as in) cases\.csv( has it)?", ""),
    (r" \(group in cases\.csv\)", ""),
    (r"every case in cases\.csv", "every image of the reference"),
    (r"the cases in cases\.csv", "the images of the reference"),
    (r" in the order of the column index of cases\.csv", " in the order of the other side"),
    (r" in cases\.csv", " of the reference"),
    (r"cases\.csv", "the images of the reference"),
    (r"1,?048,?576 (rows )?x 1,?048,?576( columns| px)?", "the size of its image"),
    (r",? ?\b30,?0\d\d \('[^']*'\)", ""),
)
OF_ORGANISERS = re.compile(rf"\s*(?:^|(?<=\.\s))(?={WORDS}(?:[Oo]rganisers|challenge\.toml)){WORDS}\.")


def for_files(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings in these words."""
    return tuple(
        replace(
            one,
            where=plain(one.where),
            got=plain(one.got),
            expected=plain(one.expected),
            fix=OF_ORGANISERS.sub("", plain(one.fix)).strip(),
        )
        for one in findings
    )


def plain(text: str) -> str:
    """A text without what only a challenge has.

    >>> plain("at most 32 (limits.json_depth in challenge.toml)")
    'at most 32'
    >>> plain("Make the file smaller; organisers can raise limits.bytes_per_file in challenge.toml.")
    'Make the file smaller; a challenge may have a higher limit.'
    """
    for pattern, words in PHRASES:
        text = re.sub(pattern, words, text)
    return text.replace("challenge.toml", "the rules")
