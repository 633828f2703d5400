"""What published scores and messages tell of a hidden reference.

The numbers that are found are compared with the reference itself. docs/security.md says the same in words.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import ChallengeBroken, instances_from_labels, score_instances, score_submission
from evaluation.challenge import Challenge, preset_names
from evaluation.challenge.documents import read_rules
from evaluation.challenge.rules import PublishRules
from evaluation.commands import main as cli
from evaluation.commands import options
from evaluation.findings import Finding, quote, render_findings, render_summary
from evaluation.findings.errors import redact, redact_findings
from evaluation.folders.demo import DemoPaths
from nuclei_metrics.model import Instances

SIZE = 120
CLASSES = ("Epithelial", "Lymphocyte", "Neutrophil", "Macrophage")
GROUPS = ("P1", "P2", "P3")
NUCLEI = np.array([[7, 31, 3, 0], [11, 5, 0, 0], [40, 2, 9, 0]])  # by group and class; there is no macrophage
OTHERS = np.array([[90, 4, 8, 0], [1, 1, 0, 0], [6, 55, 2, 0]])
ONE = np.array([[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])  # a sure lymphocyte of P1
NONE = np.zeros_like(NUCLEI)


def nuclei(counts: list[int], reference: list[int]) -> Instances:
    """Squares of 4 px, so many of each class; the first of a class lies on the first of that class in the reference."""
    labels = np.zeros((SIZE, SIZE), np.int32)
    first = np.cumsum([0, *reference])
    places = [first[of_class] + number for of_class, count in enumerate(counts) for number in range(count)]
    for label, place in enumerate(places, start=1):
        row, column = divmod(int(place), SIZE // 6)
        labels[6 * row : 6 * row + 4, 6 * column : 6 * column + 4] = label
    return instances_from_labels(labels, np.repeat(np.arange(1, 5), counts))


def published(publish: str, submitted: Any, reference: Any = NUCLEI) -> dict[str, Any]:
    """metrics.json as participants read it."""
    return published_of(publish, sides_of(submitted, reference))


def sides_of(submitted: Any, reference: Any = NUCLEI) -> dict[str, tuple[Instances, Instances]]:
    return {
        group: (nuclei(of_reference.tolist(), of_reference.tolist()), nuclei(of.tolist(), of_reference.tolist()))
        for group, of_reference, of in zip(GROUPS, reference, submitted, strict=True)
    }


def published_of(publish: str, sides: dict[str, tuple[Instances, Instances]]) -> dict[str, Any]:
    challenge = Challenge.from_preset(
        "recommended",
        name="hidden",
        metrics={"families": ("detection", "classification", "panoptic", "covered", "counting")},
        publish={"metrics": publish},
    )
    found: dict[str, Any] = json.loads(score_instances(challenge, sides).texts(public=True)["metrics.json"])
    return found


# --- attacks: metrics.json in, numbers of nuclei out ------------------------------------------------------------------


def counts_by_class(metrics: dict[str, Any]) -> list[int]:
    """Of an all-zero submission: the mean error of a count of zero is the mean count."""
    found = metrics["counting"]["per_class"]
    return [round(found[name]["mean_absolute_error"]["pooled"] * len(GROUPS)) for name in CLASSES]


def all_nuclei(metrics: dict[str, Any]) -> int:
    """Of one sure nucleus: one divided by the recall."""
    return round(1 / metrics["detection"]["recall"]["pooled"])


def absent_classes(metrics: dict[str, Any]) -> list[str]:
    """Of any submission: a class without nuclei on both sides has no score."""
    reasons = metrics["undefined"]["detection"]["per_class"]
    return [name for name in CLASSES if "pooled" in reasons.get(name, {}).get("f1", {})]


def nuclei_of_group(metrics: dict[str, Any]) -> int:
    """Of one sure nucleus: F1 is 2 / (1 + n) in its group and 0 in the others."""
    return round(2 / (metrics["detection"]["f1"]["group_mean"] * len(GROUPS)) - 1)


def nuclei_of_class(metrics: dict[str, Any], classes_present: int) -> int:
    """Of one sure nucleus: an F1 of 2 / (1 + n) in its class, of n nuclei in its group, and of 0 in the others."""
    return round(2 / (metrics["covered"]["class_f1"]["group_mean"] * len(GROUPS) * classes_present) - 1)


# --- what they find ---------------------------------------------------------------------------------------------------


def test_all_scores_of_two_submissions_tell_how_many_nuclei_there_are():
    assert counts_by_class(published("scores", NONE)) == NUCLEI.sum(axis=0).tolist()
    assert absent_classes(published("scores", NONE)) == ["Macrophage"]
    assert all_nuclei(published("scores", ONE)) == NUCLEI.sum()


@pytest.mark.parametrize("attack", [counts_by_class, absent_classes, all_nuclei])
def test_what_these_attacks_read_is_not_among_the_ranked_scores(attack: Callable[[dict[str, Any]], Any]):
    for submitted in (NONE, ONE):
        with pytest.raises(KeyError):
            attack(published("ranked", submitted))


def test_ranked_scores_of_an_empty_submission_tell_nothing():
    """The same bytes for any number of nuclei."""
    assert published("ranked", NONE) == published("ranked", NONE, OTHERS)
    assert published("scores", NONE) != published("scores", NONE, OTHERS)


def test_ranked_scores_of_one_sure_nucleus_still_tell_the_number_in_its_patient_and_of_its_class():
    """What docs/security.md owns up to: a score that says anything tells something."""
    for reference in (NUCLEI, OTHERS):
        metrics = published("ranked", ONE, reference)
        assert nuclei_of_group(metrics) == reference[0].sum()
        assert nuclei_of_class(metrics, classes_present=np.count_nonzero(reference[0])) == reference[0, 1]


def test_submissions_that_follow_the_answers_tell_every_false_positive():
    """Of 64 nuclei in one patient 6 are false positives: the precision of chosen ones, halved until it is 0 or 1."""
    rng = np.random.default_rng(3)
    places = np.arange(64)
    wrong = set(rng.choice(64, 6, replace=False).tolist())

    def at(chosen: Any) -> Instances:
        labels = np.zeros((SIZE, SIZE), np.int32)
        for label, place in enumerate(chosen, start=1):
            row, column = divmod(int(place), SIZE // 6)
            labels[6 * row : 6 * row + 4, 6 * column : 6 * column + 4] = label
        return instances_from_labels(labels, np.ones(len(chosen), np.int64))

    sides = {group: (at(range(70, 90)), at([])) for group in GROUPS[1:]}
    reference, questions = at([place for place in places if place not in wrong]), 0

    def false_positives(chosen: Any) -> int:
        nonlocal questions
        questions += 1
        metrics = published_of("ranked", {**sides, "P1": (reference, at(chosen))})
        return round(len(chosen) * (1 - metrics["detection"]["precision"]["group_mean"] * len(GROUPS)))

    def halve(chosen: Any, number: int) -> list[int]:
        if number in (0, len(chosen)):
            return chosen.tolist() if number else []
        left, right = np.array_split(chosen, 2)
        of_left = false_positives(left)
        return halve(left, of_left) + halve(right, number - of_left)

    assert set(halve(places, false_positives(places))) == wrong
    assert questions == 20


def test_a_ranked_result_has_few_numbers():
    """The bound on what a submission can tell: its numbers times the bits of six decimals."""
    assert numbers_in(published("ranked", ONE)) == [
        "covered.class_f1.group_mean",
        "covered.surface_dice.group_mean",
        "detection.f1.group_mean",
        "detection.precision.group_mean",
        "detection.recall.group_mean",
    ]
    assert len(numbers_in(published("scores", ONE))) > 200


def numbers_in(node: Any, path: str = "") -> list[str]:
    """The paths of all numbers, and of the reasons of those that are undefined, in order."""
    if not isinstance(node, dict):
        return [path]
    inner = {key: of for key, of in node.items() if path or key not in ("challenge", "software")}
    return [each for key, of in sorted(inner.items()) for each in numbers_in(of, f"{path}.{key}" if path else key)]


# --- the platform and the laptop --------------------------------------------------------------------------------------


def scored(folder: Path, demo: DemoPaths, *, on_platform: bool) -> Path:
    """The output of a dry run of the image, or of the platform with the ground truth of the demo."""
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(options, "INPUT", demo.submissions["finder"])
        patch.setattr(options, "OUTPUT", folder)
        patch.setattr(options, "GROUND_TRUTH", demo.challenge if on_platform else folder / "nowhere")
        assert cli.run(["score"]) == 0
    return folder


@pytest.fixture(scope="module")
def output(demo: DemoPaths, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the platform, not to be changed."""
    return scored(tmp_path_factory.mktemp("output"), demo, on_platform=True)


def files_of(folder: Path, *names: str) -> list[Any]:
    return [json.loads((folder / name).read_bytes()) for name in names]


def test_on_the_platform_are_the_files_of_a_laptop(demo, output, tmp_path):
    sides = ["--challenge", str(demo.challenge), "--submission", str(demo.submissions["finder"])]
    assert cli.run(["score", *sides, "--output", str(tmp_path)]) == 0
    for name in ("metrics.json", "details.json", "objects.csv"):
        assert (output / name).read_bytes() == (tmp_path / name).read_bytes()


def test_on_the_platform_details_hold_what_metrics_do_not_if_only_what_ranks_is_published(own_demo, tmp_path):
    rules = own_demo.challenge / "challenge.toml"
    everything, details = files_of(scored(tmp_path / "all", own_demo, on_platform=True), "metrics.json", "details.json")
    rules.write_text(rules.read_text() + '\n[publish]\nmetrics = "ranked"\n')
    public, more = files_of(scored(tmp_path / "ranked", own_demo, on_platform=True), "metrics.json", "details.json")
    assert more.pop("metrics") == everything
    for document in (details, more):
        document["challenge"]["rules"].pop("publish")
    assert more == details
    assert len(numbers_in(public)) < 20 < 100 < len(numbers_in(everything))
    for path in numbers_in(public):
        assert value_at(public, path) == value_at(everything, path)
    dry_run, of_dry_run = files_of(
        scored(tmp_path / "dry", own_demo, on_platform=False), "metrics.json", "details.json"
    )
    assert len(numbers_in(dry_run)) > 100
    assert "metrics" not in of_dry_run


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_publishes_every_family_that_it_asks_for(preset, tmp_path):
    assert cli.run(["init", "--preset", preset, str(tmp_path / preset)]) == 0
    started = Challenge.build(read_rules(tmp_path / preset / "challenge.toml"))
    assert started.publish == PublishRules()
    assert started.hash == Challenge.from_preset(preset, name=preset).hash


def test_published_scores_take_no_more_than_100_kB_and_those_that_rank_stay():
    names = [f"class {number}" for number in range(60)]
    column = {"path": "detection.per_class.class 7.f1.group_mean", "direction": "descending"}
    for some in (4, 12, 60):
        challenge = Challenge.from_preset(
            "recommended",
            name="hidden",
            classes=[{"name": name} for name in names[: max(some, 8)]],
            reference={"ignore": {"classes": []}},
            ranking={"columns": [column], "require": []},
        )
        result = score_instances(challenge, sides_of(ONE))
        text = result.texts(public=True)["metrics.json"]
        public = json.loads(text)
        assert len(text) <= 100_000
        assert {"detection", "classification", "segmentation", "panoptic", "covered", "overall"} <= public.keys()
        assert column["path"] in numbers_in(public)
        assert ("alternatives" in public, "per_class" in public["panoptic"]) == (some == 4, some < 60)
        for path in numbers_in(public):
            assert value_at(public, path) == value_at(result.metrics, path)


def test_standard_deviations_are_those_of_numpy_and_stand_at_the_paths_of_their_means(demo):
    result = score_submission(demo.challenge, demo.submissions["namer"], workers=1)
    for kind, mean in (("groups", "group_mean"), ("cases", "case_mean")):
        for path in (("detection", "f1"), ("segmentation", "hausdorff_px"), ("classification", "balanced_accuracy")):
            values = result.units[next(iter(result.scores))][kind].scores[path].value
            expected = round(float(np.nanstd(values, ddof=1)), 6)
            assert expected > 0
            assert result.value(f"standard_deviations.{'.'.join(path)}.{mean}") == pytest.approx(expected, abs=1e-6)
            means = next(iter(result.details["means"].values()))
            assert value_at(means, f"{'.'.join(path)}.{mean}.standard_deviation") == pytest.approx(expected, abs=1e-6)
    assert "pooled" not in result.metrics["standard_deviations"]["detection"]["f1"]


@pytest.mark.parametrize("patients", [1, 2, 3])
def test_no_standard_deviation_of_fewer_than_three_patients(patients, tmp_path):
    """Of two, mean and deviation tell the values of both."""
    sides = {f"P{number}": next(iter(sides_of(ONE).values())) for number in range(patients)}
    result = score_instances(Challenge.from_preset("recommended", name="hidden"), sides)
    public = json.loads(result.texts(public=True)["metrics.json"])
    assert ("standard_deviations" in public) == (patients == 3)
    ranked = Challenge.from_preset("recommended", name="hidden", publish={"metrics": "ranked"})
    assert "standard_deviations" not in score_instances(ranked, sides).texts(public=True)["metrics.json"]


def test_the_platform_gets_the_names_that_publish_says(own_demo, tmp_path):
    rules = own_demo.challenge / "challenge.toml"
    names = {"details": "nuclei-details.json", "objects": "nuclei_objects.csv"}
    rules.write_text(rules.read_text() + "\n[publish]\n" + "".join(f'{k} = "{v}"\n' for k, v in names.items()))
    output = scored(tmp_path / "platform", own_demo, on_platform=True)
    assert sorted(path.name for path in output.iterdir()) == [
        "metrics.json",
        "nuclei-details.json",
        "nuclei_objects.csv",
    ]
    output = scored(tmp_path / "laptop", own_demo, on_platform=False)
    assert sorted(path.name for path in output.iterdir()) == ["details.json", "metrics.json", "objects.csv"]


@pytest.mark.parametrize("key, name", [
    ("details", "inputs.json"), ("details", "metrics.json"), ("details", "a/details.json"), ("details", "details.txt"),
    ("details", ".details.json"), ("details", "../details.json"), ("objects", "objects.json"), ("objects", ".csv"),
])  # fmt: skip
def test_a_name_that_an_output_of_the_platform_cannot_have_is_refused(key, name):
    with pytest.raises(ChallengeBroken, match=rf"publish\.{key}"):
        Challenge.from_preset("recommended", name="a", publish={key: name})


def test_without_a_nucleus_the_table_of_nuclei_has_its_header():
    empty = nuclei([0] * 4, [0] * 4)
    objects = score_instances(Challenge.from_preset("recommended", name="a"), {"a": (empty, empty)}).objects
    assert objects.startswith("case,group,rule,outcome,reference_id,")
    assert objects.count("\n") == 1


def value_at(node: Any, path: str) -> Any:
    for key in path.split("."):
        node = node[key]
    return node


def test_results_of_the_platform_are_ranked_and_shown_as_those_of_a_laptop(demo, output, tmp_path):
    for kept in ("both", "metrics"):
        results = tmp_path / kept / "finder"
        results.mkdir(parents=True)
        for name in ("metrics.json", "details.json")[: 1 + (kept == "both")]:
            (results / name).write_bytes((output / name).read_bytes())
        given = ["--results", str(tmp_path / kept), "--output", str(tmp_path / kept / "board")]
        assert cli.run(["rank", "--challenge", str(demo.challenge), *given]) == 0
        board = json.loads((tmp_path / kept / "board/leaderboard.json").read_bytes())
        assert [team["name"] for team in board["teams"]] == ["finder"]
        assert None not in [column["value"] for column in board["teams"][0]["columns"]]
        assert cli.run(["report", "--results", str(results), "--output", str(tmp_path / f"{kept}.html")]) == 0
    assert cli.run(["report", "--results", str(output), "--public", "--output", str(tmp_path / "public.html")]) == 0


def test_what_is_published_changes_no_hash():
    keys: list[dict[str, Any]] = [{}, {"metrics": "scores"}, {"metrics": "ranked"}, {"details": "d.json"}]
    challenges = [Challenge.from_preset("monusac2020", name="a", publish=publish) for publish in keys]
    assert len({challenge.hash for challenge in challenges}) == 1


def test_nothing_to_rank_is_nothing_to_publish():
    with pytest.raises(ChallengeBroken, match=r"publish\.metrics.*'ranked' without a column"):
        Challenge.from_preset(
            "recommended", name="a", ranking={"columns": (), "require": ()}, publish={"metrics": "ranked"}
        )


# --- names that participants must not read leave no trace in messages -------------------------------------------------


NAME = st.text("ab12_-. ", min_size=1, max_size=12).map(str.strip).filter(lambda name: name.strip("."))


LONG = "patient-0815-" + "x" * 80 + "-left-lung"


@pytest.mark.parametrize("names, text, expected", [
    (["P1_1"], "case 'P1_1': no file", "case '‹case›': no file"),
    (["P1_1", "P1"], "'P1/P1_1/1.mat': cut", "'‹case›/‹case›/1.mat': cut"),
    (["P1", "P1_1", "P1_1_a", "1"], "'P1_1_a/P1_1.1'", "'‹case›/‹case›.‹case›'"),
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
    # what is left of a long name: three characters of it are taken out, and two tell nothing
    ([LONG], f"case {quote(LONG)}: no file", "case '‹case›…‹case›': no file"),
    ([LONG], f"{quote(f'sub/{LONG}/1.mat', 60)}: no file", "'sub/‹case›…‹case›/1.mat': no file"),
    (["secret_slide_0815"], "case 'a', 'secret_sl…", "case 'a', '‹case›…"),
    (["abcdef"], "'s/abc…'", "'s/‹case›…'"),
    (["abcdef"], "'s/abcd…'", "'s/‹case›…'"),
    (["abcdef"], "'s/ab…'", "'s/ab…'"),
    (["abcdef"], "'…def/1'", "'…‹case›/1'"),
    (["abcdef"], "'…cdef/1'", "'…‹case›/1'"),
    (["abcdef"], "'…ef/1'", "'…ef/1'"),
])  # fmt: skip
def test_names_and_what_is_left_of_them_are_taken_out(names: list[str], text: str, expected: str) -> None:
    assert redact(text, names) == redact(text, names[::-1]) == expected


def test_apostrophes_in_names_of_files_do_not_open_a_way() -> None:
    for name in ("it's", "' ", " '", "a' b", "'", "x'; y"):
        assert "secret" not in redact(f"{quote(name)}: Did you mean 'secret'?", ["secret"])


def test_every_text_of_a_finding_is_without_names() -> None:
    for field in ("where", "got", "expected", "fix"):
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
