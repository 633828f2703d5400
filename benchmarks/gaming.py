"""Which tricks win which ranking: every trick, of every team, in made fields and real ones, under every preset.

    python -m benchmarks.gaming --write docs/gaming.md      # all of it, on one core
    python -m benchmarks.gaming --seeds 1 --presets recommended monusac2020

Nuclei are scored from memory. All presets are asked about the same nuclei: masks whose classes are those of the field,
whatever the formats and classes of the preset; its matching rules, metrics, averages and columns are its own.
"""

# ruff: noqa: E501

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.class_column import Simulated
from benchmarks.demo_files import confused
from benchmarks.shape_tricks import MORE_TRICKS
from benchmarks.synthesis import Mistakes, draw_nuclei, join_outlines, label_map, perturb, seeded
from benchmarks.tricks import (
    CHOSEN,
    FIRST_TRICKS,
    Field,
    Play,
    Played,
    Trick,
    TrickCase,
    best_iou,
    each,
    play_all,
    read_field,
    renamed,
    united,
)
from evaluation.challenge import Challenge, preset_names
from evaluation.challenge.documents import resolve_preset
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.instances.runs import (
    dilate_instances,
    empty_region,
    erode_instances,
    instances_from_labels,
    select_instances,
    shift_instances,
)
from nuclei_metrics.model import Case, Instances, Int64

CLASSES = ("Epithelial", "Lymphocyte", "Neutrophil", "Macrophage")
SPACING_UM = 0.25
IMAGES_OF_REAL = 30
TRICKS = (*FIRST_TRICKS, *MORE_TRICKS)
BY_NAME = {trick.name: trick for trick in TRICKS}
RECOMMENDED, KEPT, BY_RECALL = "recommended", "copies kept", "copies kept, class recall"
LEFT_OUT = {
    "disentangled": "its columns are three of the four of monusac2020",
    "monusac2020_as_published": "its faults depend on the ids of files; its column is that of a clean PQ",
}
BY_CENTROIDS = (
    "recommended, by centroids"  # the same with its second matching rule, centroid_closest_first, in the first place
)
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


# --- fields -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """A made field.

    patients, images   how many patients, and images of each
    nuclei             in each image, fewest and most
    weights            how often each class occurs
    hard               how many times more mistakes than in the easy field
    empty              how many images have no nucleus in the reference
    """

    words: str
    patients: int
    images: int
    nuclei: tuple[int, int]
    weights: tuple[float, float, float, float]
    hard: float
    side_px: int
    empty: int


PLANS: Mapping[str, Plan] = {
    "few": Plan("2 to 14 nuclei a patient, balanced classes, easy", 8, 2, (1, 7), (1, 1, 1, 1), 0.6, 130, 3),
    "common": Plan("20 to 60 nuclei a patient, two common classes", 6, 2, (10, 30), (6, 4, 1, 0.8), 1.0, 200, 1),
    "crowded": Plan("60 to 120 nuclei a patient, two rare classes, hard", 5, 2, (30, 60), (47, 50, 1, 2), 1.5, 250, 1),
}


def draw_teams(rng: np.random.Generator, hard: float) -> dict[str, Mistakes]:
    """Six teams whose skills are drawn one by one, so that some are near each other and most are good at one thing."""

    def between(low: float, high: float) -> float:
        return low + (high - low) * float(rng.random())

    return {
        f"team {number}": Mistakes(
            missed=min(0.45, hard * between(0.03, 0.35)),
            spurious=hard * between(0.02, 0.25),
            confusion=confused(1 - min(0.6, hard * between(0.02, 0.25))),
            grow_px=between(-1.6, 1.6),
            grow_spread_px=between(0, 1),
            roughen_px=between(0, 1),
            shift_px=int(rng.random() * 2),
            merged=hard * between(0, 0.06),
        )
        for number in range(1, 7)
    }


def made_field(plan: Plan, seed: int) -> Field:
    """The nuclei of a made field, the same for the same seed."""
    cases, references = [], []
    mistakes = draw_teams(seeded(seed, 10_000), plan.hard)
    teams: dict[str, list[Instances | None]] = {team: [] for team in mistakes}
    shape = plan.side_px, plan.side_px + 20
    for index in range(plan.patients * plan.images):
        rng = seeded(seed, index)
        low, high = plan.nuclei
        number = low + int(rng.random() * (high - low + 1))
        if index % (plan.patients * plan.images // plan.empty) == 1:
            number = 0
        nuclei = draw_nuclei(rng, shape, number, plan.weights)
        group = f"P{index // plan.images + 1:02}"
        stratum = f"T{index // plan.images % 2}"
        cases.append(Case(f"{group}_{index % plan.images + 1}", group, *shape, SPACING_UM, stratum=stratum))
        reference = instances_from_labels(*label_map(nuclei, shape))
        references.append(PreparedReference(reference, empty_region()))
        for place, (team, of_team) in enumerate(mistakes.items(), start=1):
            drawn = seeded(seed, index, place)
            prediction = perturb(drawn, nuclei, shape, of_team)
            if number == 0 and of_team.spurious > 0.06:
                prediction = join_outlines(prediction, draw_nuclei(drawn, shape, 1, plan.weights))
            teams[team].append(with_confidence(instances_from_labels(*label_map(prediction, shape)), reference, drawn))
    return Field(tuple(cases), tuple(references), teams)


def with_confidence(nuclei: Instances, reference: Instances, rng: np.random.Generator) -> Instances:
    """A confidence that has something to do with how well a nucleus lies."""
    iou = best_iou(nuclei, TrickCase(reference, nuclei, len(CLASSES)))
    drawn = np.clip(0.25 + 0.5 * iou + 0.5 * (rng.random(len(nuclei)) - 0.5), 0.01, 0.99)
    return replace(nuclei, probability=drawn.astype(np.float32))


def real_field() -> Field | None:
    """Data Science Bowl 2018, stage 1: two real teams and three that are made of them; None without the files."""
    source = DATA / "dsb2018"
    if not source.is_dir():
        return None
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rows = (source / "stage1_solution.csv").read_text().splitlines()
        sizes = {row.split(",")[0]: row.split(",")[2:4] for row in rows[1:]}
        cases = [f"{name},{name},{height},{width},{SPACING_UM}" for name, (height, width) in sorted(sizes.items())]
        (folder / "challenge" / "reference").mkdir(parents=True)
        (folder / "challenge" / "cases.csv").write_text("\n".join(["case,group,height,width,spacing_um", *cases, ""]))
        (folder / "challenge" / "challenge.toml").write_text('format_version = 1\nname = "dsb"\npreset = "dsb2018"\n')
        challenge = Challenge.load(folder / "challenge")
        (folder / "challenge" / challenge.reference.files).write_text("\n".join([*rows, ""]))
        submissions = {}
        for team in ("gray53", "DatName"):
            (folder / team).mkdir()
            (folder / team / "submission.csv").write_bytes((source / f"submission_{team}.csv").read_bytes())
            submissions[team] = folder / team
        field = read_field(folder / "challenge", challenge, submissions)
    field = smallest(field, IMAGES_OF_REAL)
    rng = seeded(7)

    def of(team: str, change: Any) -> list[Instances | None]:
        return [None if nuclei is None else change(nuclei) for nuclei in field.teams[team]]

    def thinned(nuclei: Instances) -> Instances:
        return select_instances(nuclei, rng.random(len(nuclei)) > 0.3)

    teams = {
        **field.teams,
        "gray53 without 30 %": of("gray53", thinned),
        "gray53 shrunk": of("gray53", lambda nuclei: erode_instances(nuclei, 2)),
        "DatName grown": of("DatName", dilate_instances),
    }
    graded = {
        team: [
            None if nuclei is None else with_confidence(nuclei, reference.instances, rng)
            for nuclei, reference in zip(predictions, field.references, strict=True)
        ]
        for team, predictions in sorted(teams.items())
    }
    named = tuple(replace(case, stratum=f"T{place % 2}") for place, case in enumerate(field.cases))
    return Field(named, field.references, graded)


def smallest(field: Field, number: int) -> Field:
    """The images with the fewest pixels, so that all tricks take minutes and not hours."""
    order = sorted(range(len(field.cases)), key=lambda place: (np.prod(field.cases[place].shape_yx), place))[:number]
    chosen = sorted(order)
    return Field(
        tuple(field.cases[place] for place in chosen),
        tuple(field.references[place] for place in chosen),
        {team: [predictions[place] for place in chosen] for team, predictions in field.teams.items()},
    )


# --- presets ----------------------------------------------------------------------------------------------------------


def counted_rules(
    presets: Sequence[str], classes: Sequence[str], cases: Sequence[Case]
) -> tuple[Challenge, dict[str, Challenge]]:
    """One challenge that counts what all presets need, and the presets, which rank by what was counted.

    Its first matching rule, by which it is judged whether a submission became worse, is that of ``recommended``.
    """
    documents = {preset: adapted(preset, classes) for preset in dict.fromkeys(["recommended", *presets])}
    names: dict[str, str] = {}
    rules: list[dict[str, Any]] = []
    for document in documents.values():
        renames = {}
        for rule in document["matching"]["rules"]:
            key = repr(sorted((k, v) for k, v in rule.items() if k != "name"))
            if key not in names:
                names[key] = f"rule_{len(names)}"
                rules.append({**rule, "name": names[key]})
            renames[rule["name"]] = names[key]
            rule["name"] = names[key]
        for column in document["ranking"]["columns"]:
            for old, new in renames.items():
                column["path"] = column["path"].replace(f"alternatives.{old}.", f"alternatives.{new}.")
    built = {preset: Challenge.build({**document, "cases": tuple(cases)}) for preset, document in documents.items()}
    every = list(built.values())
    metrics = built["recommended"].metrics.model_copy(
        update={
            "families": tuple(dict.fromkeys(family for of in every for family in (*of.metrics.families, "detection"))),
            "measures": tuple(dict.fromkeys(measure for of in every for measure in of.metric_choice().measures)),
            "iou_thresholds": max((of.metrics.iou_thresholds for of in every), key=len),
            "boundary": "open",
            "class_groups": {},
        }
    )
    document = adapted("recommended", classes)
    document["matching"]["rules"] = rules
    counted = Challenge.build({**document, "cases": tuple(cases)}).model_copy(update={"metrics": metrics})
    return counted, {preset: built[preset] for preset in presets}


def adapted(preset: str, classes: Sequence[str]) -> dict[str, Any]:
    """A preset for masks of these classes; its numbers are its own."""
    name = "recommended" if preset == BY_CENTROIDS else preset
    document = resolve_preset({"format_version": 1, "name": name, "preset": name})
    if preset == BY_CENTROIDS:
        document["matching"]["rules"] = document["matching"]["rules"][::-1]
    first = document["classes"][0]["name"], classes[0]
    masks = {"format": "label_image", "files": "{case}/{class}.tif"}
    document["classes"] = [{"name": name} for name in classes]
    document["reference"] = {**masks, "overlap": "keep", "overlap_scope": "image"}
    duplicates = document["submission"].get("duplicates", "keep")
    document["submission"] = {
        **masks, "missing_case": "worst", "missing_class_file": "empty", "duplicates": duplicates
    }  # fmt: skip
    document["metrics"] = {
        key: value for key, value in document["metrics"].items() if key not in ("class_groups", "class_probabilities")
    }
    ranked = [column["path"] for column in document["ranking"]["columns"]]
    rules = document["matching"]["rules"]
    document["matching"]["rules"] = [  # those that no column reads are not counted
        rule for place, rule in enumerate(rules) if not place or any(rule["name"] in path.split(".") for path in ranked)
    ]
    for column in document["ranking"]["columns"]:
        column["path"] = column["path"].replace(f".{first[0]}.", f".{first[1]}.")
    document.pop("confidence", None)
    if name == "recommended" and len(classes) == 1:
        columns = document["ranking"]["columns"]
        document["ranking"]["columns"] = [
            of for of in columns if not {"macro_f1", "class_f1"} & {*of["path"].split(".")}
        ]
    return document


# --- playing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """What a trick did to a team under a preset, in a field."""

    preset: str
    field: str
    play: Play


def fields(seeds: int, *, real: bool) -> Iterator[tuple[str, Field, tuple[str, ...]]]:
    for name, plan in PLANS.items():
        for seed in range(1, seeds + 1):
            yield f"{name} {seed}", made_field(plan, seed), CLASSES
    if real and (field := real_field()) is not None:
        yield "dsb2018", field, ("nucleus",)


def play_rankings(
    field: Field, counted: Challenge, rankings: Mapping[str, Challenge], tricks: Sequence[Trick] = TRICKS
) -> dict[str, Played]:
    """Every trick of every team under every preset; own duplicates count as the preset says."""
    found = {}
    for duplicates in dict.fromkeys(of.submission.duplicates for of in rankings.values()):
        some = {preset: of for preset, of in rankings.items() if of.submission.duplicates == duplicates}
        submission = counted.submission.model_copy(update={"duplicates": duplicates})
        counted = counted.model_copy(update={"submission": submission})
        found |= dict(zip(some, play_all(field, counted, list(some.values()), tricks), strict=True))
    return {preset: found[preset] for preset in rankings}


def play_presets(
    presets: Sequence[str], seeds: int, *, real: bool = True, tricks: Sequence[Trick] = TRICKS
) -> list[Found]:
    """Every trick of every team in every field under every preset."""
    found = []
    for name, field, classes in fields(seeds, real=real):
        started = time.perf_counter()
        counted, rankings = counted_rules(presets, classes, field.cases)
        for preset, played in play_rankings(field, counted, rankings, tricks).items():
            found += [Found(preset, name, play) for play in played.plays()]
        print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)
    return found


# --- copies ---------------------------------------------------------------------------------------------------------

CHANGES: Mapping[str, Callable[[Instances], Instances]] = {
    "a pixel larger": dilate_instances,
    "two pixels larger": lambda nuclei: dilate_instances(nuclei, 2),
    "a pixel smaller": erode_instances,
    "a pixel to the right": lambda nuclei: shift_instances(nuclei, 0, 1),
    "two pixels down": lambda nuclei: shift_instances(nuclei, 2, 0),
}
CLASSES_OF_COPIES: Mapping[str, Callable[[Instances, int], Int64]] = {
    "": lambda copy, classes: copy.class_id.astype(np.int64),
    ", as another class": lambda copy, classes: copy.class_id.astype(np.int64) % classes + 1,
}
NUMBERS = {1: "once", 3: "three times"}  # copies of a nucleus, each as much further from it


def copy_trick(chosen: str, change: str, as_class: str, number: int) -> Trick:
    """The chosen nuclei again, ``number`` times: changed once, twice, …; keys of CHOSEN, CHANGES, CLASSES_OF_COPIES."""
    words, choose = CHOSEN[chosen]

    def apply(nuclei: Instances, case: TrickCase) -> Instances:
        copies = [select_instances(nuclei, choose(nuclei, case))]
        for _ in range(number):
            copy = CHANGES[change](copies[-1])
            copies.append(renamed(copy, CLASSES_OF_COPIES[as_class](copy, case.classes)))
        return united(nuclei, *copies[1:])

    words += f" {NUMBERS[number]} more, {change}{as_class}"
    return Trick(words, words, each(apply))


def copy_tricks() -> list[Trick]:
    """Every kind of copy: which nuclei, how they differ, of which class, and how many."""
    return [copy_trick(*kind) for kind in product(CHOSEN, CHANGES, CLASSES_OF_COPIES, NUMBERS)]


def play_copies(seeds: int, *, tricks: Sequence[Trick], plans: Sequence[str] = tuple(PLANS)) -> list[Found]:
    """Copies of every kind, of every team in every made field: under ``recommended``, and what it was without."""
    found = []
    for name, seed in product(plans, range(1, seeds + 1)):
        field = made_field(PLANS[name], seed)
        counted, presets = counted_rules(["recommended"], CLASSES, field.cases)
        rankings = rankings_of_copies(presets["recommended"])
        for preset, played in play_rankings(field, counted, rankings, tricks).items():
            found += [Found(preset, f"{name} {seed}", play) for play in played.plays()]
    return found


def rankings_of_copies(own: Challenge) -> dict[str, Challenge]:
    """``recommended``; where own duplicates are kept; and where, besides, recall ranks the classes."""
    kept = own.model_copy(update={"submission": own.submission.model_copy(update={"duplicates": "keep"})})
    assert own.ranking is not None
    columns = [
        column.model_copy(update={"path": column.path.replace("covered.class_f1", "covered.class_recall")})
        for column in own.ranking.columns
    ]
    ranking = own.ranking.model_copy(update={"columns": tuple(columns)})
    return {RECOMMENDED: own, KEPT: kept, BY_RECALL: kept.model_copy(update={"ranking": ranking})}


def copies_words(found: Sequence[Found]) -> str:
    """How many plays of copies pay under each of ``rankings_of_copies``."""
    kinds, fields = (len({*values}) for values in ((of.play.trick for of in found), (of.field for of in found)))
    plays = {preset: [of.play.pays for of in found if of.preset == preset] for preset in (RECOMMENDED, KEPT, BY_RECALL)}
    return (
        f"{kinds} kinds of copies in {fields} made fields: {sum(plays[RECOMMENDED])} of {len(plays[RECOMMENDED]):,} plays "
        f'work; {sum(plays[KEPT])} where `duplicates = "keep"`, and {sum(plays[BY_RECALL])} where, besides, '
        "`covered.class_recall` ranks the classes in the place of `covered.class_f1`."
    )


# --- the page ---------------------------------------------------------------------------------------------------------

INTRODUCTION = """\
# Gaming a ranking

Can a ranking be won without a better submission? Each of {tricks} tricks was played on the submission of every team in {fields} fields, and the teams were ranked again
under the rules of every preset, {plays:,} times under each. A trick **works** if the team ranks higher although its submission became worse: its
pooled detection F1, or its pooled class score (macro F1 of detection with the right class), fell by more than 0.005. Both are computed under the first matching rule of the ranking. If the mean IoU over all
nuclei rose at the same time, the submission became more like the reference, and the play counts as **calibration** (–: not counted).

This page is written by `python -m benchmarks.gaming --write docs/gaming.md --seeds {seeds}`.

- Tricks marked (R) choose nuclei or images *by the reference*, which no participant can: an upper bound for good guesses.
  Tricks named `class_…` simulate a team that knows how certain its classes are.
- Nuclei are masks with four classes. For presets without a ranking (consep, hovernet, nucls), the columns of their files rank.
  *{by_centroids}* puts the second matching rule of `recommended` first, as papers advise for small nuclei.
- Simulated fields: {made}. Each field has six teams of random skill and one to three images without reference nuclei. {real}
- {left_out}

| preset | works | by participants | by the reference | largest climb | calibration |
|---|---|---|---|---|---|
"""
READING = """
What follows:

- **Scores of matched pairs** (disentangled, three of four columns of monusac2020, one of nucls) reward omitting nuclei: a team that keeps its best
  nuclei loses one column and gains the others. So do several sizes of each nucleus, because the best one matches.
- **Means over images** (consep, dsb2018, hovernet, monuseg2018, puma2024, sartorius2021) reward empty predictions: an image without reference
  nuclei scores 0 with one false positive and is excluded without, and one image weighs as much as any other.
- **Class-aware matching** (conic2022, pannuke, puma2024) rewards omitting nuclei with a wrong class, because a wrong class is two errors. Only the
  reference knows which they are.
- **One class only** (the column of monkey2024): losing nuclei of other classes costs nothing, so keeping the largest nuclei works.
- **Without classes**, dropping a rare class goes unnoticed.

Under `recommended`, at most one of a nucleus and its copies can match, and nobody can choose which ([duplicates](matching.md#own-duplicates)).
{copies}
(`python -m benchmarks.gaming --copies`.)

Few working tricks in these fields are no proof for all fields; what is proved is described with the
[covered](metrics.md#covered-how-good-is-the-better-half-and-are-the-classes-right) and
[overall](metrics.md#overall-outlines-and-classes-over-all-nuclei) scores. No sum of ranks is safe from *clones*: a second entry of one team can
reverse the order of two others. Rank one entry per team.

## The column for classes

`recommended` ranks by `covered.class_f1.group_mean`: macro F1 of the row-normalised confusion matrix over all reference nuclei, where a false negative is
wrong. Plays that paid in simulated counts ({fields} fields of 8 teams; *class skill*: correlation with it; `python -m benchmarks.class_column`):

{class_columns}

Changing classes cannot work under `detection.macro_f1`, because that score is the judge. It follows the skill better if classes are rare; but if outlines
rank too, omitting nuclei of uncertain class pays under it, and does not under `covered.class_f1`. If two of eight teams find only 30 to 50% of the nuclei,
all columns follow detection (correlation with F1 {lowest:.2f} to {highest:.2f}) more than class skill.

## Tricks that work

In brackets: the number of teams, over all fields.

| name | what is done | works under |
|---|---|---|
"""
NOWHERE = """
## Tricks that work under no preset

{names}. (`benchmarks/gaming.py` describes them.)
"""


def page(found: Sequence[Found], presets: Sequence[str], seeds: int, simulated: Simulated, copies: str) -> str:
    """docs/gaming.md."""
    names = list(dict.fromkeys(of.field for of in found))
    words = f"{IMAGES_OF_REAL} images of the Data Science Bowl 2018 with the submissions of two teams, and three made of them"
    head = INTRODUCTION.format(
        tricks=len({of.play.trick for of in found}),
        plays=len(found) // len(presets),
        seeds=seeds,
        fields=len(names),
        made="; ".join(f"*{name}*, {plan.words}" for name, plan in PLANS.items()),
        real=f"One field is real: {words}; it has one class." if "dsb2018" in names else "",
        left_out="; ".join(f"`{preset}` is left out: {why}" for preset, why in LEFT_OUT.items()) + ".",
        by_centroids=BY_CENTROIDS,
    )
    rows = [summary_row(preset, [of for of in found if of.preset == preset]) for preset in presets]
    of_few = [value for (_, of), value in simulated.found.items() if "few" in of]
    reading = READING.format(
        copies=copies,
        fields=simulated.fields,
        class_columns="\n".join(simulated.rows()),
        lowest=min(of_few),
        highest=max(of_few),
    )
    works = [row for row in trick_rows(found) if not row.endswith("|  |")]
    names = ", ".join(row.split(" | ")[0].removeprefix("| ") for row in trick_rows(found) if row.endswith("|  |"))
    return "\n".join([head + "\n".join(rows), reading + "\n".join(works), NOWHERE.format(names=names)])


def summary_row(preset: str, found: Sequence[Found]) -> str:
    plays = [of.play for of in found]
    paying = [play for play in plays if play.pays]
    by_reference = sum(BY_NAME[play.trick].by_reference for play in paying)
    climb = max(paying, key=lambda play: play.before - play.after, default=None)
    largest = f"{climb.before:g} to {climb.after:g}" if climb else "none"
    name = f"**{preset}**" if preset in ("recommended", BY_CENTROIDS) else f"[{preset}](presets.md#{preset})"
    share = f"{len(paying)} ({100 * len(paying) / len(plays):.1f}%)"
    return f"| {name} | {share} | {len(paying) - by_reference} | {by_reference} | {largest} | {sum(play.calibrates for play in plays)} |"


def trick_rows(found: Sequence[Found]) -> list[str]:
    """A row for each trick; copies that differ in confidence or class and work under the same presets share one."""
    rows: dict[tuple[str, str], list[Trick]] = {}
    for trick in TRICKS:
        often = Counter(of.preset for of in found if of.play.pays and of.play.trick == trick.name)
        pays = ", ".join(f"{preset} ({number})" for preset, number in sorted(often.items()))
        rows.setdefault((trick.name.removesuffix("_surer").removesuffix("_other"), pays), []).append(trick)
    lines = []
    for (_, pays), (first, *others) in rows.items():
        names = ", ".join([f"`{first.name}`", *(f"`…{trick.name.removeprefix(first.name)}`" for trick in others)])
        more = [f"…{trick.words.removeprefix(first.words)}" for trick in others]
        lines.append(f"| {names} | {'; '.join([first.words, *more])}{' (R)' * first.by_reference} | {pays} |")
    return lines


def ranked_presets() -> list[str]:
    return sorted([*(name for name in preset_names() if name not in LEFT_OUT), BY_CENTROIDS])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="of each made field")
    parser.add_argument("--presets", nargs="+", default=ranked_presets())
    parser.add_argument("--tricks", default="", help="only those with this in their names")
    parser.add_argument("--copies", action="store_true", help="only copies of every kind, under 'recommended'")
    parser.add_argument("--write", type=Path, help="docs/gaming.md")
    arguments = parser.parse_args()
    if arguments.copies:
        tricks = [trick for trick in copy_tricks() if arguments.tricks in trick.name]
        print(copies_words(play_copies(arguments.seeds, tricks=tricks)))
        return
    tricks = [trick for trick in TRICKS if arguments.tricks in trick.name]
    found = play_presets(arguments.presets, arguments.seeds, tricks=tricks)
    for preset in arguments.presets:
        print(summary_row(preset, [of for of in found if of.preset == preset]))
    if arguments.write:
        copies = copies_words(play_copies(arguments.seeds, tricks=copy_tricks()))
        arguments.write.write_text(page(found, arguments.presets, arguments.seeds, Simulated(), copies))


if __name__ == "__main__":
    main()
