"""``evaluation compare``: scores of folders, files or archives, without a challenge.

``found`` detects formats, cases, sizes and classes. From them a challenge by the preset ``recommended`` and its
submissions are written, and scored like any others.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.aggregation.intervals import FEWEST_GROUPS
from evaluation.authoring.challenge_text import challenge_text, table_text, tables_above
from evaluation.authoring.class_plan import ClassPlan, Plan, has_ignored, ignored_classes, is_none, plan_classes
from evaluation.authoring.comparison import Comparison, comparison_of
from evaluation.authoring.look import look, pictures_near
from evaluation.authoring.names import Pairing, bare_parts, pair_names
from evaluation.authoring.pieces import EACH_A_MASK, files_for_shell
from evaluation.authoring.placing import Placing, is_number, stage
from evaluation.authoring.source import NAMELESS, Source, SourceCase
from evaluation.authoring.without_challenge import for_files
from evaluation.challenge import CASES_FILE, CHALLENGE_FILE, Challenge, is_safe_name
from evaluation.challenge.documents import RECOMMENDED, resolve_preset
from evaluation.challenge.formats import FORMATS, PointRules
from evaluation.decoding.pixels import IMAGE_SUFFIXES
from evaluation.execution.workers import Progress, progress_of_round
from evaluation.findings import Finding, counted, fault, listed, quote
from evaluation.findings.errors import ChallengeBroken, EvaluationError, InputFault, SubmissionRejected, WrongUsage
from evaluation.leaderboard.verdict import names_of
from evaluation.model import RasterisationReport
from evaluation.results.files import write_atomically
from evaluation.scoring.read import read_reference, read_shared_reference
from evaluation.scoring.score import Result
from evaluation.scoring.street import score_submission
from evaluation.study.hints import hint_about_size, hints_about_files

if TYPE_CHECKING:
    from evaluation.report.scenes import Scene

CONFIDENCE = {"level": 0.95, "samples": 2000, "seed": 1, "method": "by_groups", "resample": "groups"}
RADIUS_PX = 12.0
OF_POINTS: dict[str, Any] = {
    "matching": {
        "rules": [
            {
                "name": "centroid_closest_first",
                "rule": "centroid_closest_first",
                "radius_px": RADIUS_PX,
                "class_aware": False,
                "ties": "first_pixel",
            }
        ]
    },
    "metrics": {"families": ["detection", "classification", "counting"], "boundary": "open"},
    "ranking": {
        "method": "sum_of_ranks",
        "ties": "min",
        "significance_level": 0.05,
        "require": [],
        "columns": [{"path": "detection.f1.group_mean", "direction": "descending"}],
    },
}
FAMILIES = ("detection", "classification", "segmentation", "panoptic", "covered", "overall", "thresholds", "overlap")
IOU_THRESHOLDS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
OF_SIZE = {  # formats that mean nothing without the size of the image: how they tell places, and what helps
    "yolo_txt": ("shares of the image", ""),
    "rle_csv": ("numbers of pixels, counted column by column", " Or add the columns 'Height' and 'Width'."),
}
UM_TO_PX = (
    "import json, os, sys; px = lambda c: [px(x) for x in c] if isinstance(c, list) else c * {factor}; "
    "made = lambda o: {{k: px(v) if k == 'coordinates' else made(v) for k, v in o.items()}} if isinstance(o, dict) "
    "else [made(x) for x in o] if isinstance(o, list) else o; os.makedirs('px', exist_ok=True); "
    "[json.dump(made(json.load(open(f))), open('px/' + os.path.basename(f), 'w')) for f in sys.argv[1:]]"
)
ONE_CLASS: dict[str, Any] = {  # without the scores that compare classes
    "ranking": {
        "columns": [
            {"path": "detection.f1.group_mean", "direction": "descending"},
            {"path": "covered.iou_class_mean.pooled", "direction": "descending"},
            {"path": "covered.hausdorff_px_class_mean.pooled", "direction": "ascending"},
        ]
    }
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a comparison of outlines shows: nuclei match above an IoU; further families of metrics."""

    iou: float = 0.5
    families: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def tables(self, classes: int, foreign: int = 0) -> dict[str, Any]:
        """The tables that differ from the preset; of the classes some are ``foreign`` to the reference."""
        families = [name for name in (*FAMILIES, *self.families) if classes > 1 or name != "classification"]
        tables: dict[str, Any] = {
            "metrics": {"families": list(dict.fromkeys(families)), "iou_thresholds": list(IOU_THRESHOLDS)}
        }
        if self.iou != 0.5:
            rule = {"rule": "iou_above", "threshold": self.iou, "class_aware": False, "ties": "first_pixel"}
            tables["matching"] = {"rules": [{"name": "iou_above", **rule}]}
        return {**(ONE_CLASS if classes - foreign == 1 else {}), **tables}


def compare_paths(
    reference: Path,
    predictions: Mapping[str, Path],
    *,
    classes: str | None = None,
    folder: Path | None = None,
    ignore: Sequence[str] = (),
    iou: float = 0.5,
    families: Sequence[str] = (),
    explain: bool = False,
    pictures: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Score predictions against a reference, each a folder, a ZIP or a file.

    classes  the classes and how else they are written, "tumour=neoplastic=1,stroma"; "none": one class; None: those
             that both sides have
    explain  add to the notes as what the files were read, and by which sign
    pictures draw the nuclei of every image for the page, on the tissue where it lies beside
    folder   keeps the challenge that is made, and the predictions beside it; None: nothing is kept
    ignore   labels or classes of the reference that mark what is not annotated: predictions there do not count
    iou      nuclei with an IoU above it match
    families further families of metrics, such as "objects"

    Raises WrongUsage for what cannot be read or paired, SubmissionRejected or ChallengeBroken for faulty files.
    """
    with ExitStack() as stack:
        stack.enter_context(told_without_challenge())
        workspace = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evaluation-compare-")))
        if folder is not None and folder.exists() and any(folder.iterdir()):
            raise WrongUsage(fault("file-exists", quote(folder, 120), wording="folder-not-empty"))
        paths = [reference, *predictions.values()]
        skip_tables = is_none(classes)  # of predictions; those of the reference may call nuclei ambiguous
        sides = look_at_sides(paths, workspace, skip_tables=skip_tables)
        found, of_models = sides[0], dict(zip(predictions, sides[1:], strict=True))
        of_models = {model: with_categories(side, found) for model, side in of_models.items()}
        check_ignored(found, ignore)
        wanted = Wanted(iou, tuple(families), tuple(ignored_classes(found, ignore)) if ignore else ())
        planned = plan_classes(found, of_models, classes, wanted.ignore)
        parties = parties_of(found, of_models, planned)
        results: dict[str, Result] = {}
        scenes: dict[str, Mapping[str, Scene]] = {}
        tissue = link_tissue(found, of_models, workspace / "tissue") if pictures else None
        signs = [line for side in sides for line in (f"Files of {quote(str(side.path), 120)}:", *side.signs)]
        notes: list[str] = signs if explain else []
        findings = list(planned.findings)
        lost: dict[str, list[str]] = {}
        for number, party in enumerate(parties):
            scratch = workspace / f"challenge_{number}"
            target = scratch if number or folder is None else folder
            made = make_challenge(found, party, target, wanted, scratch)
            if made.misfits:
                raise WrongUsage(*size_faults(made))
            challenge = Challenge.load(made.folder)
            for model, document in made.documents.items():
                own = Challenge.build({**document, "cases": challenge.cases})
                submitted = made.folder / "submissions" / model
                with named_model(model if len(of_models) > 1 else ""), about_classes(classes):
                    result = score_submission(
                        made.folder,
                        submitted,
                        challenge=own,
                        workers=workers,
                        progress=progress_of_round(progress, len(results), len(of_models)),
                    )
                if tissue is not None:
                    scenes[model] = draw_scenes(made.folder, submitted, own, tissue, workers)
                hints = hints_about_files(made.folder, submitted, result)
                hints = [about_um(hint, of_models[model]) for hint in hints]
                findings += [replace(hint, where=f"prediction {quote(model)}") for hint in hints]
                check_found(found, made, wanted.ignore, result)
                asked = for_files(map(about_labels, result.findings))
                results[model] = replace(result, challenge=challenge, findings=asked)
                for words in filter(None, (about_overlaps(own, result), about_empty(result))):
                    lost.setdefault(words, []).append(model)
            notes += made.notes
            findings += made.findings
        notes += [words.format(names=names_of(models)) for words, models in lost.items()]
        apart = [model for other in parties[1:] if not parties[0].ranks(other) for model in other.models]
        findings = list(dict.fromkeys(for_files(findings)))
        return comparison_of(results, tuple(dict.fromkeys(notes)), findings, apart, scenes)


def link_tissue(reference: Source, models: Mapping[str, Source], folder: Path) -> Path:
    """A folder with links to the pictures that lie beside the files of a case, or in a folder of pictures near them."""
    folder.mkdir()
    names: dict[str, str] = {}
    for name, case in reference.cases.items():
        names[free := free_name(safe_name(name), names)] = name
        files = [file for side in (reference, *models.values()) for file in side.cases.get(name, case).files]
        own = {path for file in files for path in (file.path, file.classes)}
        near = (path for file in files for path in pictures_near(file.path, [name]))
        picture = next((path for path in near if path not in own and path.suffix in IMAGE_SUFFIXES), None)
        if picture is not None:
            (folder / f"{free}{picture.suffix}").symlink_to(picture.resolve())
    return folder


def draw_scenes(
    folder: Path, submission: Path, challenge: Challenge, tissue: Path, workers: int | None
) -> Mapping[str, Scene]:
    """The scenes of a model, by the name of the image."""
    from evaluation.report.pictures import illustrate_cases  # slow to import

    names = [case.name for case in challenge.cases]
    second = illustrate_cases(folder, submission, challenge=challenge, drawn=names, images=tissue, workers=workers)
    return second.scenes


def look_at_sides(paths: Sequence[Path], workspace: Path, *, skip_tables: bool) -> list[Source]:
    """What the reference and the predictions hold. The sizes of images on one side tell how arrays of the other lie."""

    def look_at(path: Path, sizes: Collection[tuple[int, int]], *, is_reference: bool) -> Source:
        folder = Path(tempfile.mkdtemp(dir=workspace))
        return look(path, folder, skip_tables=skip_tables and not is_reference, imports=True, sizes=sizes)

    reference = look_at(paths[0], (), is_reference=True)
    predictions = [look_at(path, sizes_in(reference), is_reference=False) for path in paths[1:]]
    if reference.is_stack or EACH_A_MASK in reference.imports:
        reference = look_at(paths[0], set().union(*map(sizes_in, predictions)), is_reference=True)
    return [reference, *predictions]


def sizes_in(side: Source) -> set[tuple[int, int]]:
    return set() if side.is_stack else {case.size_yx for case in side.cases.values() if case.size_yx is not None}


@dataclass(frozen=True, slots=True, eq=False)
class Party:
    """Models that are compared by the same rules, and their classes, of which some are ``foreign`` to the reference."""

    models: Mapping[str, Source]
    plan: Plan
    foreign: tuple[str, ...] = ()
    are_points: bool = False

    @property
    def ranks_classes(self) -> bool:
        """Whether classes have a part in the ranking: the reference has several."""
        return len(self.plan) - len(self.foreign) > 1

    def ranks(self, other: Party) -> bool:
        """Whether models of another party can have a place among these."""
        return self.are_points == other.are_points and not self.ranks_classes


def parties_of(reference: Source, models: Mapping[str, Source], planned: ClassPlan) -> list[Party]:
    """The models by how each would be compared alone, so that nothing of one depends on the others.

    The first party is ranked: outlines go before points, and models with classes before those without.
    """
    parties = []
    for is_point in (False, True):
        for is_without in (False, True):
            chosen = {
                model: side
                for model, side in models.items()
                if (are_points(side) or are_points(reference)) == is_point and (model in planned.without) == is_without
            }
            plan, foreign = (planned.one_class, ()) if is_without else (planned.classes, planned.foreign)
            parties += [Party(chosen, plan, foreign, is_point)] if chosen else []
    return parties


def about_overlaps(challenge: Challenge, result: Result) -> str:
    """A note if outlines of the reference lose pixels, since the files of models cannot hold that they overlap."""
    reports = [case.rasterisation for case in result.cases if case.rasterisation is not None]
    lost = sum(of.outlines_that_lost_pixels for of in reports)
    if not lost:
        return ""
    outlines = f"{lost:,} of {sum(of.outlines for of in reports):,} lose pixels to others"
    why = "Outlines of the reference overlap, which the files of {names} cannot hold"
    return f"{why}: {outlines} (overlap = {challenge.reference.overlap})."


def about_empty(result: Result) -> str:
    """A note if nothing is predicted in images that have nuclei, and have a prediction."""
    rule = next(iter(result.scores))
    counts = [(each.case.name, each.counts[rule]) for each in result.cases if not each.missing]
    with_nuclei = [(name, of) for name, of in counts if of.true_positives or of.false_negatives]
    empty = [name for name, of in with_nuclei if not of.true_positives and not of.false_positives]
    if not empty:
        return ""
    name = quote(empty[0]).replace("{", "{{").replace("}", "}}")
    images = f"{len(empty):,} of {counted(len(with_nuclei), 'image')} with nuclei, such as {name}"
    return f"{{names}} has no nucleus in {images}."


@contextmanager
def told_without_challenge() -> Iterator[None]:
    """Tell what is wrong in the words of somebody who has no challenge."""
    try:
        yield
    except EvaluationError as error:
        error.findings = for_files(error.findings)
        raise


@contextmanager
def named_model(model: str) -> Iterator[None]:
    """Put the name of one of several models, "" for the only one, before what is wrong with its files."""
    try:
        yield
    except SubmissionRejected as error:
        if not model:
            raise
        findings = (replace(one, where=f"prediction {quote(model)}, {one.where}") for one in error.findings)
        raise SubmissionRejected(*findings).hiding(error.hidden_names) from None


@contextmanager
def about_classes(given: str | None) -> Iterator[None]:
    """Put what ``--classes`` can do behind what is wrong with the classes of nuclei; ``given``: its value."""
    try:
        yield
    except (SubmissionRejected, ChallengeBroken) as error:
        findings = map(about_labels, error.findings)
        error.findings = tuple(one if is_none(given) else with_advice(one) for one in findings)
        raise


def check_ignored(reference: Source, ignore: Sequence[str]) -> None:
    """Refuse what ``--ignore`` cannot name in the files of a reference. Raises WrongUsage."""
    known = {name.casefold() for name in reference.classes}
    for name in ignore:
        if are_points(reference):
            raise WrongUsage(fault("nothing-to-ignore", f"--ignore {quote(name)}", wording="points"))
        may_be_label = reference.format == "label_image" and is_number(name)
        may_be_region = reference.format == "geojson"  # regions of QuPath are seen when all classes are known
        if name.casefold() not in known and may_be_label and not int(name):
            raise WrongUsage(fault("nothing-to-ignore", f"--ignore {quote(name)}", wording="background"))
        if name.casefold() not in known and not (may_be_label or may_be_region):
            raise nothing_to_ignore(reference, name)


def check_found(reference: Source, made: MadeChallenge, ignore: Sequence[str], result: Result) -> None:
    """Refuse names that nothing in the reference has. Raises WrongUsage."""
    known = {name.casefold() for name in reference.classes}
    strange = [name for name in ignore if name.casefold() not in known]
    found = {each.case.name: counted_of(each.rasterisation) for each in result.cases}
    if len(ignore) == 1:
        strange = strange if not any(ignored for _, ignored in found.values()) else []
    for name in strange:
        rules: dict[str, Any] = next(iter(made.documents.values()))["reference"]
        others: dict[str, Any] = {"ignore": {**rules["ignore"], "classes": [one for one in ignore if one != name]}}
        if "not_annotated" in rules:
            others["not_annotated"] = [number for number in rules["not_annotated"] if str(number) != name]
        if not is_counted(made, {**rules, **others}, found):
            raise nothing_to_ignore(reference, name)


def is_counted(made: MadeChallenge, rules: Mapping[str, Any], found: Mapping[str, tuple[int, int]]) -> bool:
    """Whether other rules of a reference find anything else in its images than what was found."""
    changed = Challenge.build({**next(iter(made.documents.values())), "reference": rules})
    changed = changed.model_copy(update={"cases": Challenge.load(made.folder).cases})
    shared = read_shared_reference(changed, made.folder)
    try:
        for case in changed.cases:
            content = None if shared is None else shared.cases[case.name]
            if counted_of(read_reference(changed, made.folder, case, content).report) != found[case.name]:
                return True
        return False
    except InputFault:
        return True


def counted_of(report: RasterisationReport | None) -> tuple[int, int]:
    """How many outlines of a reference are scored, and how many are not."""
    return (0, 0) if report is None else (report.outlines, report.ignore_outlines)


def nothing_to_ignore(reference: Source, name: str) -> WrongUsage:
    label = "the number of a label, such as 255" if reference.format == "label_image" else ""
    classes = f"a class of its nuclei ({listed(reference.classes, 20)})" if reference.classes else ""
    expected = " or ".join(filter(None, (label, classes))) or "a reference with classes"
    return WrongUsage(fault("nothing-to-ignore", f"--ignore {quote(name)}", expected=expected))


def about_labels(finding: Finding) -> Finding:
    """Put what ``--ignore`` can do behind a question about a label of the reference."""
    if finding.code not in ("negative-label", "not-annotated") or "'reference/" not in finding.where:
        return finding
    label = re.findall("-?[0-9]+", finding.fix.partition(" stand")[0])
    return replace(finding, fix=f"{finding.fix} If it is not annotated: --ignore {label[-1]}.")


def about_um(hint: Finding, side: Source) -> Finding:
    """Put a call that makes px of um behind a hint that the coordinates of GeoJSON may be um."""
    larger = re.search(r"([0-9]+) times as large, .* are these um", hint.fix)
    if larger is None or side.format != "geojson" or side.imports:
        return hint
    call = f'python -c "{UM_TO_PX.format(factor=larger[1])}" {files_for_shell(side.path, side.files()[0].name)}'
    return replace(hint, fix=f"{hint.fix} If so, this writes px into a folder px: {call}")


def with_advice(finding: Finding) -> Finding:
    if finding.code == "instance-without-class":
        return replace(finding, fix=f"{finding.fix} Or leave classes out: --classes none.")
    if finding.code != "unknown-class":
        return finding
    fix = f"{finding.fix} Name all classes in --classes, or take all nuclei as one class: --classes none."
    return replace(finding, got=finding.got.replace("of this challenge", "that is compared"), fix=fix.strip())


def model_names(paths: Sequence[Path]) -> dict[str, Path]:
    """A short name for each prediction: its file or folder name, with the folder around it where two are the same."""

    def plain(path: Path) -> str:
        path = path.resolve()
        return path.name if path.is_dir() else re.sub(r"(\.[A-Za-z][A-Za-z0-9]{0,7})+$", "", path.name) or path.name

    short = [plain(path) for path in paths]
    names: dict[str, Path] = {}
    for name, path in zip(short, paths, strict=True):
        if short.count(name) > 1:
            name = f"{path.resolve().parent.name}_{name}"
        names[free_name(safe_name(name), names)] = path
    return names


def safe_name(name: str) -> str:
    """A name that cases, groups and teams may have."""
    plain = "".join(c if c.isalnum() or c in " _-.+@" else "_" for c in name)[:200].strip(" .")
    return plain if is_safe_name(plain) else "image"


def free_name(name: str, taken: Mapping[str, Any]) -> str:
    number, free = 2, name
    while free in taken:
        number, free = number + 1, f"{name}_{number}"
    return free


# --- the challenge ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Misfit:
    """An image whose sizes differ on the two sides, px."""

    name: str
    size_yx: tuple[int, int]
    own_yx: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class MadeChallenge:
    """A challenge in a folder, the resolved rules for each model, and what was found and assumed, in words.

    misfits   cases of models whose predictions have another size, with their names and both sizes
    """

    folder: Path
    documents: Mapping[str, Mapping[str, Any]]
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    misfits: Mapping[str, Mapping[str, Misfit]]


def make_challenge(reference: Source, party: Party, folder: Path, wanted: Wanted, scratch: Path) -> MadeChallenge:
    """Write a challenge of what was found, with ``submissions/<model>``. Raises WrongUsage.

    scratch  where files are linked, else they are copied; it is used instead if sizes differ
    """
    models, plan = party.models, party.plan
    for side in (reference, *models.values()):
        if side.format == "counts_csv":
            raise WrongUsage(fault("nothing-to-compare", quote(str(side.path), 200), got="numbers of nuclei only"))
    findings = [*reference.findings, *(finding for side in models.values() for finding in side.findings)]
    notes = [f"Reference {reference.words()}", *reference.notes]
    pairings: dict[str, Pairing] = {}
    check_stacks(reference, models)
    for model, side in models.items():
        pairings[model] = pairing = pair_cases(reference.cases, side.cases)
        if not pairing.pairs:
            are_ids = all(name == case.image_id for name, case in side.cases.items())
            fix = next(filter(None, map(several_of_each, (reference, side))), None)
            if are_ids:
                fix = "These are ids of images, whose names are in the data set of COCO: compare with that."
            raise WrongUsage(
                fault(
                    "nothing-to-compare",
                    f"prediction {quote(model)}",
                    wording="nothing-paired",
                    reference=list(reference.cases),
                    prediction=list(side.cases),
                    fix=fix,
                )
            )
        notes += [f"Prediction {side.words()}", *side.notes, *pairing_words(pairing)]
        findings += unpaired(pairing, model)
    names: dict[str, str] = {}
    for name in reference.cases:
        names[free_name(safe_name(name), names)] = name
    sizes, misfits, more = sizes_of(reference, models, pairings)
    folder = scratch if misfits else folder
    findings += more
    if len(plan) == 1 and not reference.classes:
        notes.append("One class: the reference tells no classes.")
    placing = Placing(folder, copy=folder != scratch)
    of_reference = stage(reference, plan, names, "reference", placing, wanted.ignore)
    documents = {}
    for model, side in models.items():
        chosen = {case: pairings[model].pairs[name] for case, name in names.items() if name in pairings[model].pairs}
        documents[model] = stage(side, plan, chosen, f"submissions/{model}", placing, wanted.ignore)
    rules = {model: document_of(reference, party, of_reference, table, wanted) for model, table in documents.items()}
    groups = {
        case: safe_name(reference.cases[name].group) if reference.cases[name].group else case
        for case, name in names.items()
    }
    indices = index_rows(reference, models, names, pairings)
    rows: list[list[object]] = [["case", "group", "height", "width", *(["index"] if indices else [])]]
    for case, name in names.items():
        rows.append([case, groups[case], *sizes[name], *([indices[case]] if indices else [])])
    heading = [
        "Made by 'evaluation compare' of what it found; the rules that are not written here are those of the preset.",
        "The files of the reference were copied and renamed.",
    ]
    first = next(iter(rules))
    write_atomically(folder / CHALLENGE_FILE, challenge_text(heading, rules[first]))
    write_atomically(folder / CASES_FILE, table_text(rows))
    notes.append(rules_in_a_sentence(reference, models, groups, wanted.iou))
    if wanted.ignore:
        named = listed(wanted.ignore, 20, last="and")
        notes.append(f"Not scored: what lies where the reference says {named} (--ignore).")
    resolved = {model: resolve_preset(dict(document)) for model, document in rules.items()}
    found = {
        model: {case: of_model[name] for case, name in names.items() if name in of_model}
        for model, of_model in misfits.items()
    }
    return MadeChallenge(folder, resolved, tuple(notes), tuple(findings), found)


def size_faults(made: MadeChallenge) -> list[Finding]:
    """That sizes differ, and what would match: it is tried on some images."""
    cases = Challenge.load(made.folder).cases
    faults = []
    for model, misfits in made.misfits.items():
        own = Challenge.build({**made.documents[model], "cases": cases})
        sizes = {case: misfit.own_yx for case, misfit in misfits.items()}
        fix = hint_about_size(own, made.folder, made.folder / "submissions" / model, sizes)
        faults += [
            fault(
                "sizes-differ",
                f"{quote(of.name)}, prediction {quote(model)}",
                fix=fix or None,
                found=shown(of.own_yx),
                size=shown(of.size_yx),
            )
            for of in misfits.values()
        ]
    return faults


def document_of(
    reference: Source, party: Party, of_reference: Mapping[str, Any], of_submission: Mapping[str, Any], wanted: Wanted
) -> dict[str, Any]:
    """The tables of challenge.toml: the preset and what differs from it."""
    points = party.are_points
    ignore: dict[str, Any] = {} if has_ignored(reference) or points else {"ignore": {"classes": []}}
    if wanted.ignore:
        ignore = {"ignore": {"classes": list(wanted.ignore), "policy": "drop_unmatched", "fraction": 0.5}}
    special = OF_POINTS if points else wanted.tables(len(party.plan), foreign=len(party.foreign))
    if points and len(party.plan) == 1:
        families = [name for name in OF_POINTS["metrics"]["families"] if name != "classification"]
        special = {**special, "metrics": {**special["metrics"], "families": families}}
    return {
        **tables_above(RECOMMENDED, f"Comparison with {safe_name(reference.path.resolve().name)}"),
        "classes": [
            {
                "name": name,
                **({"aliases": aliases} if aliases else {}),
                **({"only_predicted": True} if name in party.foreign else {}),
            }
            for name, aliases in party.plan
        ],
        "reference": {**of_reference, **ignore},
        "submission": {**of_submission, "missing_case": "worst", "missing_class_file": "empty"},
        **special,
        "confidence": CONFIDENCE,
    }


def are_points(side: Source) -> bool:
    return side.keys.get("shape") == "point" or issubclass(FORMATS[side.format], PointRules)


def rules_in_a_sentence(reference: Source, models: Mapping[str, Source], groups: Mapping[str, str], iou: float) -> str:
    """How nuclei are matched and scores are averaged; ``groups``: the patient of each image."""
    if any(are_points(side) for side in (reference, *models.values())):
        matched = f"points within {RADIUS_PX:g} px match, the closest first"
    else:
        matched = f"nuclei with an IoU above {iou:g} match, whatever their classes"
    number = len(set(groups.values()))
    unit = "images" if number == len(groups) else f"{number} patients"
    if number == 1:
        means = f"no intervals, since there is one {'image' if len(groups) == 1 else 'patient'}"
    elif number < FEWEST_GROUPS:
        means = f"means over {unit}, no intervals, since {number} {unit.split()[-1]} are too few"
    else:
        means = f"means over {unit}, with 95 % intervals"
    return f"Rules: preset '{RECOMMENDED}': {matched}; {means}."


# --- names, sizes -----------------------------------------------------------------------------------------------------


def several_of_each(side: Source) -> str | None:
    """What to do about a side that has files of one name in several folders, such as those of two annotators."""
    names = [file.name for file in side.files()]
    stems = [bare_parts(name)[-1] for name in names]
    twice = next((name for name, stem in zip(names, stems, strict=True) if stems.count(stem) > 1), None)
    folder = None if twice is None or len({*stems}) == 1 else twice.split("/")[0]
    return folder and f"Files of one name lie in several folders: name one of them, such as {quote(folder)}."


def with_categories(prediction: Source, reference: Source) -> Source:
    """Results of COCO with the names that the reference has for the ids of their classes."""
    known = reference.categories
    if prediction.categories or not (prediction.classes and set(prediction.classes) <= set(known)):
        return prediction
    numbers = {known[id]: int(id) for id in prediction.classes if id.isdecimal()}
    classes = tuple(known[id] for id in prediction.classes if known[id] != NAMELESS)
    return replace(prediction, classes=classes, numbers=numbers)


def pair_cases(reference: Mapping[str, SourceCase], prediction: Mapping[str, SourceCase]) -> Pairing:
    """Pairs by names; results of COCO, which have the ids of images for names, by these."""
    by_id = {case.image_id: name for name, case in reference.items() if case.image_id is not None}
    pairs = {by_id[name]: name for name in prediction if name in by_id}
    if not pairs or any(name != case.image_id for name, case in prediction.items()):
        return pair_names(reference, prediction)
    rules = {name: "the id of the image in the reference" for name in pairs if name != pairs[name]}
    missing = tuple(name for name in reference if name not in pairs)
    return Pairing(pairs, rules, missing, tuple(name for name in prediction if name not in by_id))


def check_stacks(reference: Source, models: Mapping[str, Source]) -> None:
    """Refuse arrays of images without names that the other side does not have, too. Raises WrongUsage."""
    for side in models.values():
        of_stack, other = (side, reference) if side.is_stack else (reference, side)
        if of_stack.is_stack and set(of_stack.cases) != set(other.cases):
            got = f"an array of {counted(len(of_stack.cases), 'image')} without names, where the other side has "
            names = "as many" if len(of_stack.cases) == len(other.cases) else f"{len(other.cases)}"
            got += f"{names}, such as {quote(next(iter(other.cases)))}"
            raise WrongUsage(fault("nothing-to-compare", quote(str(of_stack.path), 200), got=got, wording="nameless"))


def pairing_words(pairing: Pairing) -> list[str]:
    """How names that differ were paired, with an example of each way."""
    ways: dict[str, list[str]] = {}
    for name, rule in pairing.rules.items():
        ways.setdefault(rule, []).append(name)
    return [
        f"  {len(names)} of {len(pairing.pairs)} names paired by another spelling ({rule}): "
        f"{quote(names[0])} with {quote(pairing.pairs[names[0]])}"
        for rule, names in ways.items()
    ]


def unpaired(pairing: Pairing, model: str) -> list[Finding]:
    where = f"prediction {quote(model)}"
    found = []
    if pairing.without_prediction:
        where_to = [f"{where}, {quote(name)}" for name in pairing.without_prediction]
        found.append(fault("not-paired", *where_to, names=pairing.without_reference))
    if pairing.without_reference:
        found.append(
            fault(
                "not-paired",
                *(f"{where}, {quote(name)}" for name in pairing.without_reference),
                wording="no-reference-of-image",
            )
        )
    return found


def sizes_of(
    reference: Source, models: Mapping[str, Source], pairings: Mapping[str, Pairing]
) -> tuple[dict[str, tuple[int, int]], dict[str, dict[str, Misfit]], list[Finding]]:
    """The size of each case, by its name in the reference, which predictions of models have another one, and what is
    worth knowing. Raises WrongUsage.
    """
    sizes: dict[str, tuple[int, int]] = {}
    unknown: list[str] = []
    misfits: dict[str, dict[str, Misfit]] = {}
    for name, case in reference.cases.items():
        of_models = {
            model: side.cases[pairings[model].pairs[name]]
            for model, side in models.items()
            if name in pairings[model].pairs
        }
        known = [found.size_yx for found in (case, *of_models.values()) if found.size_yx is not None]
        if not known:
            extents = [found.extent_yx for found in (case, *of_models.values()) if found.extent_yx is not None]
            known = [(max(y for y, _ in extents), max(x for _, x in extents))] if extents else [(1, 1)]
            unknown.append(name)
        sizes[name] = size = known[0]
        for model, found in of_models.items():
            if found.size_yx is not None and found.size_yx != size:
                misfits.setdefault(model, {})[name] = Misfit(name, size, found.size_yx)
    if not unknown:
        return sizes, misfits, []
    todo = "Put the images beside the files, with the same names."
    for side in (reference, *models.values()):
        if side.format in OF_SIZE:
            units, or_else = OF_SIZE[side.format]
            lacking, where = f"the size of {quote(unknown[0])}", quote(str(side.path), 200)
            fix = todo + or_else
            raise WrongUsage(
                fault("nothing-to-compare", where, wording="no-scale", units=units, lacking=lacking, fix=fix)
            )
    return sizes, misfits, [fault("size-unknown", *map(quote, unknown), size=shown(sizes[unknown[0]]))]


def shown(size_yx: tuple[int, int]) -> str:
    return f"{size_yx[0]} x {size_yx[1]}"


def index_rows(
    reference: Source, models: Mapping[str, Source], names: Mapping[str, str], pairings: Mapping[str, Pairing]
) -> dict[str, int]:
    """The place of each case in arrays of all cases, if there are some. Raises WrongUsage if they do not agree."""
    indices: dict[str, int] = {}
    for case, name in names.items():
        found = [reference.cases[name].index]
        found += [side.cases[pairings[m].pairs[name]].index for m, side in models.items() if name in pairings[m].pairs]
        known = {index for index in found if index is not None}
        if len(known) > 1:
            raise WrongUsage(fault("nothing-to-compare", quote(case), got="arrays with images in another order"))
        if known:
            indices[case] = known.pop()
    return indices
