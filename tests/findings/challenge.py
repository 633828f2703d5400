"""The command line, challenge.toml and cases.csv."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from killer import kill_worker

from evaluation.findings.errors import WrongUsage
from evaluation.report.html import page_html
from evaluation.report.page import Page
from findings.bench import Bench
from findings.registry import example_of

CASES = "case,group,height,width\nP1_1,P1,20,30\nP1_2,P1,20,30\n"


def preset_challenge(bench: Bench, *, rules: str = "", cases: str = CASES) -> None:
    bench.write("challenge/cases.csv", cases)
    bench.write("challenge/challenge.toml", f'format_version = 1\nname = "demo"\npreset = "monusac2020"\n{rules}')


@example_of("missing-file")
def no_list_of_cases(bench: Bench) -> str:
    preset_challenge(bench)
    Path("challenge/cases.csv").unlink()
    return bench.validate()


@example_of("invalid-toml")
def unquoted_text(bench: Bench) -> str:
    preset_challenge(bench, rules="[reference]\noverlap = last\n")
    return bench.validate()


@example_of("unknown-preset")
def misspelt_preset(bench: Bench) -> str:
    preset_challenge(bench)
    bench.replace("challenge/challenge.toml", "monusac2020", "monusac")
    return bench.validate()


@example_of("unknown-key")
def misspelt_key(bench: Bench) -> str:
    preset_challenge(bench, rules='[aggregation]\nunits = "case"\n')
    return bench.validate()


@example_of("missing-rule")
def no_aggregation_unit(bench: Bench) -> str:
    bench.make("label_image by class")
    bench.replace("challenge/challenge.toml", 'unit = "group", ', "")
    return bench.validate()


@example_of("invalid-rule")
def unknown_overlap_rule(bench: Bench) -> str:
    preset_challenge(bench, rules='[reference]\noverlap = "paint"\n')
    return bench.validate()


@example_of("contradictory-rules")
def overlap_scope_of_class_order(bench: Bench) -> str:
    preset_challenge(bench, rules='[reference]\noverlap_scope = "class"\n')
    return bench.validate()


@example_of("invalid-text")
def cases_in_latin_1(bench: Bench) -> str:
    preset_challenge(bench)
    bench.write("challenge/cases.csv", CASES.replace("P1_2", "Größe").encode("latin-1"))
    return bench.validate()


@example_of("no-challenge")
def misspelt_folder(bench: Bench) -> str:
    return bench.run("validate", "--challenge", "my_chalenge", "--submission", "submission")


@example_of("invalid-cases")
def image_without_height(bench: Bench) -> str:
    preset_challenge(bench, cases=CASES.replace("P1_2,P1,20", "P1_2,P1,0"))
    return bench.validate()


@example_of("no-outlines")
def sensitivity_of_points(bench: Bench) -> str:
    bench.make("points_json")
    return bench.run("sensitivity", "--challenge", "challenge")


@example_of("file-exists")
def second_init(bench: Bench) -> str:
    bench.write("my_challenge/challenge.toml", "edited by hand")
    return bench.run("init", "--preset", "monusac2020", "my_challenge")


@example_of("cannot-write")
def results_below_a_file(bench: Bench) -> str:
    bench.make("label_image by class")
    bench.write("results", "a file")
    return bench.run("score", "--challenge", "challenge", "--submission", "submission", "--output", "results/first_try")


@example_of("unreadable-image")
def text_as_svs(bench: Bench) -> str:
    bench.write("my_challenge/reference/P1/P1_1.xml", "<Annotations/>")
    bench.write("my_challenge/reference/P1/P1_1.svs", "not found")
    return bench.run("init", "--preset", "monusac2020", "my_challenge")


@example_of("missing-option")
def score_outside_the_platform(bench: Bench) -> str:
    bench.make("label_image by class")
    bench.patch.setattr("evaluation.commands.options.INPUT", Path("/input/of/the/platform"))
    return bench.run("score", "--challenge", "challenge").replace("/input/of/the/platform", "/input")


@example_of("missing-extra")
def page_without_jinja(bench: Bench) -> str:
    bench.patch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(WrongUsage) as fault:
        page_html(Page("A report", "", (), ()))
    return str(fault.value)


@example_of("no-cluster")
def nobody_at_the_address(bench: Bench) -> str:
    bench.make("label_image by class")
    options = ("--challenge", "challenge", "--submissions", "submission", "--output", "out")
    return bench.run("leaderboard", *options, "--cluster", "login1")


@example_of("unknown-format")
def misspelt_target(bench: Bench) -> str:
    return bench.convert("P1_1.xml", to="geojsn")


@example_of("unknown-code")
def misspelt_code(bench: Bench) -> str:
    return bench.run("explain", "unknown-clas")


@example_of("worker-died")
def killed_worker(bench: Bench) -> str:
    bench.make("label_image by class")
    bench.patch.setattr("evaluation.scoring.street.score_cases", kill_worker)
    bench.patch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    )
    return bench.score("--workers", 2)
