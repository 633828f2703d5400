"""Names that participants must not read leave no trace in messages."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.findings import Finding, quote, render_findings, render_summary
from evaluation.submission.redact import redact, redact_findings

NAME = st.text("ab12_-. ", min_size=1, max_size=12).map(str.strip).filter(lambda name: name.strip("."))


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        (["P1_1"], "case 'P1_1': no file", "case '‹case›': no file"),
        (["P1_1", "P1"], "'P1/P1_1/1.mat': cut", "'‹case›/‹case›/1.mat': cut"),
        (["P1_1"], "'P1_12.mat' and 'xP1_1'", "'P1_12.mat' and 'xP1_1'"),
        (["P1_1"], "Add 'P1_1_class.npy'", "Add '‹case›_class.npy'"),
        (["P1_1"], "Add 'P1_1Epithelial.npy'", "Add '‹case›Epithelial.npy'"),
        (["P1_1"], "job P1_1 is late", "job ‹case› is late"),
        (["a"], "not a ZIP: 'a/1.mat', 'data.mat'", "not a ZIP: '‹case›/1.mat', 'data.mat'"),
        (["1"], "1 file: 'P_1/1.mat', '11.mat'", "1 file: 'P_‹case›/‹case›.mat', '11.mat'"),
        (["case"], "case 'case', '{case}.mat'", "case '‹case›', '{case}.mat'"),
        (["a b", "a", "b"], "'a b.mat'", "'‹case›.mat'"),
        (["a+b", "(x)", "[1"], "'a+b/[1'", "'‹case›/‹case›'"),
        (["M\u00fcller"], "'M\u00fcller.mat'", "'‹case›.mat'"),
        ([], "case 'a'", "case 'a'"),
        (["", "a"], "'a'", "'‹case›'"),
    ],
)
def test_whole_names_are_taken_out(names: list[str], text: str, expected: str) -> None:
    assert redact(text, names) == expected


def test_order_of_names_changes_nothing() -> None:
    names = ["P1", "P1_1", "P1_1_a", "1"]
    assert redact("'P1_1_a/P1_1.1'", names) == redact("'P1_1_a/P1_1.1'", names[::-1]) == "'‹case›/‹case›.‹case›'"


def test_what_is_left_of_a_long_name_is_taken_out() -> None:
    name = "patient-0815-" + "x" * 80 + "-left-lung"
    assert redact(f"case {quote(name)}: no file", [name]) == "case '‹case›…‹case›': no file"
    assert redact(f"{quote(f'sub/{name}/1.mat', 60)}: no file", [name]) == "'sub/‹case›…‹case›/1.mat': no file"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'s/abc…'", "'s/‹case›…'"),
        ("'s/abcd…'", "'s/‹case›…'"),
        ("'s/ab…'", "'s/ab…'"),
        ("'…def/1'", "'…‹case›/1'"),
        ("'…cdef/1'", "'…‹case›/1'"),
        ("'…ef/1'", "'…ef/1'"),
    ],
)
def test_three_characters_of_a_cut_name_are_taken_out_and_two_tell_nothing(text: str, expected: str) -> None:
    assert redact(text, ["abcdef"]) == expected


def test_a_name_that_the_end_of_a_line_cuts_is_taken_out() -> None:
    assert redact("case 'a', 'secret_sl…", ["secret_slide_0815"]) == "case 'a', '‹case›…"


def test_apostrophes_in_names_of_files_do_not_open_a_way() -> None:
    for name in ("it's", "' ", " '", "a' b", "'", "x'; y"):
        assert "secret" not in redact(f"{quote(name)}: Did you mean 'secret'?", ["secret"])


@pytest.mark.parametrize("field", ["where", "got", "expected", "fix"])
def test_every_text_of_a_finding_is_without_names(field: str) -> None:
    texts = dict.fromkeys(("where", "got", "expected", "fix"), "nothing") | {field: "'secret.mat'"}
    (redacted,) = redact_findings([Finding("missing-case", **texts)], ["secret"])
    assert getattr(redacted, field) == "'‹case›.mat'"


def test_findings_are_equal_without_names_and_told_in_one_line() -> None:
    found = [Finding("missing-case", f"case 'p{index}'", "no file", "one", f"Add 'p{index}'.") for index in range(9)]
    redacted = redact_findings(found, [f"p{index}" for index in range(9)])
    assert render_findings(redacted) == ["[missing-case] case '‹case›': no file; expected one. Add '‹case›'."]
    assert len(render_summary(redacted, intro="Submission rejected:")) < 1000


@given(st.lists(NAME, min_size=1, max_size=5), st.lists(st.text("ab12_-./' ", max_size=10), max_size=5))
def test_no_quoted_name_is_left(names: list[str], texts: list[str]) -> None:
    text = "".join(f"{quote(text)}, {quote(names[index % len(names)])}: " for index, text in enumerate(texts))
    redacted = redact(text, names)
    assert not [name for name in names if f" '{name}': " in redacted]


def test_many_names_take_no_time() -> None:
    names = [f"slide_{index:06}" for index in range(20_000)]
    found = [Finding("missing-case", f"case '{name}'", "no file", "one") for name in names[:2000]]
    assert all("slide" not in finding.where for finding in redact_findings(found, names))


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("text", ["case '{}'", "case 'c1', 'P1/{}.json': cut off", "'{}_class.png' and 2 more"])
def test_a_name_with_accents_is_taken_out_as_macos_spells_it_too(text, form):
    text = text.format(unicodedata.normalize(form, "Zoë-Åse"))
    assert redact(text, ["Zoë-Åse"]) == text.replace(unicodedata.normalize(form, "Zoë-Åse"), "‹case›")
    assert redact(text, [unicodedata.normalize("NFD", "Zoë-Åse")]) == redact(text, ["Zoë-Åse"])
