"""The challenge: every rule or number that can change a score, validated, versioned and hashed.

``challenge.toml`` contains the rules, ``cases.csv`` the list of scored cases. A published challenge is a
preset, a file in ``evaluation/challenge/presets``; ``preset = "name"`` starts from it, and keys in challenge.toml
override it.

In: a folder, or rules as data. Out: a ``Challenge`` that cannot be changed. All but the engine, the model and findings
may import it.
"""

from evaluation.challenge.definition import Challenge
from evaluation.challenge.documents import (
    CASES_FILE,
    CHALLENGE_FILE,
    is_safe_name,
    preset_names,
    preset_text,
    read_cases,
)
from evaluation.challenge.formats import FORMATS, FormatRules, RuleFault, Rules, format_rules
from evaluation.challenge.matching_rules import COUNTED, MATCHING_RULES, AnyMatchingRule, ConfidenceFirst, IouRule
from evaluation.challenge.rules import LimitRules
