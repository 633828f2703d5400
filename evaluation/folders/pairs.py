"""Which prediction belongs to which image of the reference, by their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from evaluation.files.submission.by_pattern import composed
from evaluation.findings import Finding, counted, fault, quote
from evaluation.findings.errors import WrongUsage
from evaluation.folders.source import ENDING, OF_OBJECTS, Source, bare_parts

OF_LABEL_STUDIO = re.compile("task-[0-9]+-annotation-")
OF_TILE = re.compile("(?:[ _.,=-]*[xyrc]?[0-9]+)+")  # behind the name of an image
MOST_NAMES = 1000  # of images whose tiles are looked for


def pair_models(reference: Source, models: Mapping[str, Source]) -> dict[str, Pairing]:
    """Pair the images of the reference with those of each model. Raises WrongUsage."""
    pairings = {}
    for model, side in models.items():
        _check_stacks(reference, side)
        pairings[model] = _pair_sides(reference, side, model)
        _check_formats(side, pairings[model].without_prediction)
        _check_formats(reference, pairings[model].without_reference)
    return pairings


def _several_of_each(side: Source) -> str | None:
    """Return advice about files with the same name in several folders, such as two annotators."""
    names = [file.name for file in side.files()]
    stems = [bare_parts(name)[-1] for name in names]
    number_of = Counter(stems)
    twice = next((name for name, stem in zip(names, stems, strict=True) if number_of[stem] > 1), None)
    if twice is None or len({*stems}) == 1:
        return None
    folders = list(dict.fromkeys(name.split("/")[0] for name in names))
    folder = next(filter(OF_OBJECTS.search, folders), twice.split("/")[0])
    return f"Files with the same name are in several folders: pass one folder, such as {quote(folder)}."


def _several_for_image(names: Sequence[str], others: Sequence[str]) -> str | None:
    """Return advice if one side has several files per image of the other: two kinds of labels, or tiles.

    >>> _several_for_image(["a1_nuclear", "a1_cell", "a2_nuclear", "a2_cell"], ["a1", "a2"])
    "There are two label images for one image, 'a1_nuclear' and 'a1_cell': name the files of one kind."
    >>> _several_for_image(["a_0_0", "a_0_64"], ["a"])
    "'a_0_0' and 'a_0_64' may be tiles of 'a': put them together, or cut the other side alike."
    """
    if names and all(map(OF_LABEL_STUDIO.match, names)):
        return "These names of Label Studio do not contain the image: export COCO, or rename the files."
    for whole in others[:MOST_NAMES]:
        behind = (name for name in names[:MOST_NAMES] if name.startswith(whole) and OF_TILE.fullmatch(name, len(whole)))
        if len(some := [*islice(behind, 2)]) == 2:
            said = f"{quote(some[0])} and {quote(some[1])} may be tiles of {quote(whole)}"
            return f"{said}: put them together, or cut the other side alike."
    kinds: dict[tuple[str, ...], dict[str, str]] = {}
    for name in names:
        numbers = tuple(re.findall("[0-9]+", name)) if len(others) > 1 else ()
        kinds.setdefault(numbers, {}).setdefault(re.sub("[0-9]+", "0", name), name)
    alike = [*next(iter(kinds.values()), {}).values()]
    if len(alike) < 2 or any(len(of_image) != len(alike) for of_image in kinds.values()):
        return None
    how_many = "two" if len(alike) == 2 else str(len(alike))
    return (
        f"There are {how_many} label images for one image, {quote(alike[0])} and {quote(alike[1])}: "
        "name the files of one kind."
    )


def _pair_sides(reference: Source, prediction: Source, model: str) -> Pairing:
    """Pairs by names; results of COCO, which have the ids of images for names, by these. Raises WrongUsage."""
    by_id = {case.image_id: name for name, case in reference.cases.items() if case.image_id is not None}
    are_ids = all(name == case.image_id for name, case in prediction.cases.items())
    if pairs := {by_id[name]: name for name in prediction.cases if are_ids and name in by_id}:
        rules = {name: "the id of the image in the reference" for name in pairs if name != pairs[name]}
        missing = tuple(name for name in reference.cases if name not in pairs)
        return Pairing(pairs, rules, missing, tuple(name for name in prediction.cases if name not in by_id))
    pairing = pair_names(reference.cases, prediction.cases)
    if pairing.pairs:
        return pairing
    own, others = list(reference.cases), list(prediction.cases)
    fix = _several_of_each(reference) or _several_of_each(prediction)
    fix = fix or _several_for_image(others, own) or _several_for_image(own, others)
    if are_ids:
        fix = "These are image ids. Compare with the COCO data set, which contains the names."
    where = f"prediction {quote(model)}"
    raise WrongUsage(
        fault("nothing-to-compare", where, wording="nothing-paired", fix=fix, reference=own, prediction=others)
    )


def _check_formats(side: Source, lacking: Sequence[str]) -> None:
    """Refuse a side that has the missing images, but in another format. Raises WrongUsage."""
    name = next((side.others[name] for name in lacking if name in side.others), None)
    if name is not None:
        got = f"files of two formats: {side.format}, and {quote(name)} of another format"
        fix = "Convert one of them ('evaluation convert'), or name the files of one format."
        raise WrongUsage(fault("nothing-to-compare", quote(str(side.path), 200), got=got, fix=fix))


def _check_stacks(reference: Source, side: Source) -> None:
    """Refuse arrays of images without names that the other side does not have, too. Raises WrongUsage."""
    of_stack, other = (side, reference) if side.is_stack else (reference, side)
    if of_stack.is_stack and set(of_stack.cases) != set(other.cases):
        got = f"an array of {counted(len(of_stack.cases), 'image')} without names, but the other side has "
        names = "as many" if len(of_stack.cases) == len(other.cases) else f"{len(other.cases)}"
        got += f"{names}, such as {quote(next(iter(other.cases)))}"
        raise WrongUsage(fault("nothing-to-compare", quote(str(of_stack.path), 200), got=got, wording="nameless"))


def pairing_words(pairing: Pairing) -> list[str]:
    """Return how names that differ were paired, with an example of each rule."""
    ways: dict[str, list[str]] = {}
    for name, rule in pairing.rules.items():
        ways.setdefault(rule, []).append(name)
    return [
        f"  {len(names)} of {len(pairing.pairs)} names paired by another spelling ({rule}): "
        f"{quote(names[0])} with {quote(pairing.pairs[names[0]])}"
        for rule, names in ways.items()
    ]


def unpaired(without_prediction: Sequence[str], without_reference: Sequence[str], model: str) -> list[Finding]:
    """Return which images are on one side only."""
    lacking, strange = (
        [f"prediction {quote(model)}, {quote(name)}" for name in names]
        for names in (without_prediction, without_reference)
    )
    findings = [fault("not-paired", *lacking, names=without_reference)] if lacking else []
    return [*findings, *([fault("not-paired", *strange, wording="no-reference-of-image")] if strange else [])]


# --- names ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pairing:
    """The name of the prediction of each reference, and why; names without a partner.

    rules   how different names were paired, in words, by the name of the reference
    """

    pairs: Mapping[str, str]
    rules: Mapping[str, str]
    without_prediction: tuple[str, ...]
    without_reference: tuple[str, ...]


def pair_names(reference: Iterable[str], prediction: Iterable[str]) -> Pairing:
    """Pair names: equal names first, then by ever weaker rules, only if unambiguous.

    >>> pair_names(["a1", "b2"], ["b2_cp_masks", "a1"]).pairs
    {'a1': 'a1', 'b2': 'b2_cp_masks'}
    >>> pair_names(["img_01", "img_02"], ["pred_02", "pred_01"]).pairs
    {'img_01': 'pred_01', 'img_02': 'pred_02'}
    """
    left, right = sorted(reference), sorted(prediction)
    pairs: dict[str, str] = {}
    rules: dict[str, str] = {}

    def add(partners: Sequence[tuple[str, str]], words: str) -> None:
        for one, other in partners:
            pairs[one] = other
            rules.update({one: words} if words else {})
        taken = set(pairs.values())
        left[:] = [name for name in left if name not in pairs]
        right[:] = [name for name in right if name not in taken]

    for words, key in SPELLINGS.items():
        add(_same_keys(left, right, key, key), words)
    add(_beginnings(left, right), "one is the beginning of the other")
    add(_same_keys(left, right, _own_part(left), _own_part(right)), "without the common part of all names")
    if len(left) == len(right) == 1 and not pairs:
        add([(left[0], right[0])], "the only files")
    return Pairing(dict(sorted(pairs.items())), rules, tuple(left), tuple(right))


def _without_suffix(name: str) -> str:
    """A name without the folders before it, its suffixes, and suffixes of Roboflow.

    >>> _without_suffix("train/Cell01.ome.tif"), _without_suffix("cell01_tif.rf.0123456789abcdef.jpg")
    ('cell01', 'cell01')
    """
    base = composed(name).casefold().replace("\\", "/").rpartition("/")[2]
    plain = re.sub(r"(_(png|jpe?g|tiff?|bmp|gif|webp))?\.rf\.[0-9a-z]{8,}", "", base)
    return re.sub(r"(\.[a-z][a-z0-9]{0,7})+$", "", plain) or plain


def without_ending(name: str) -> str:
    return ENDING.sub("", _without_suffix(name))


SPELLINGS: Mapping[str, Callable[[str], str]] = {  # in this order; what is the same in names that are paired
    "": composed,
    "upper and lower case": lambda name: composed(name).casefold(),
    "without folders and suffixes": _without_suffix,
    "without endings such as '_masks'": without_ending,
    "without zeros before numbers": lambda name: re.sub("(?<![0-9])0+(?=[0-9])", "", without_ending(name)),
    "without the code before it": lambda name: re.sub("^[0-9a-f]{8}-", "", without_ending(name)),  # of Label Studio
}


def _same_keys(
    left: Iterable[str], right: Iterable[str], left_key: Callable[[str], str], right_key: Callable[[str], str]
) -> list[tuple[str, str]]:
    """Pair names of both sides that have the same key, if no other name has it."""
    lefts, rights = _by_key(left, left_key), _by_key(right, right_key)
    keys = sorted(key for key in lefts.keys() & rights.keys() if key and len(lefts[key]) == len(rights[key]) == 1)
    return [(lefts[key][0], rights[key][0]) for key in keys]


def _by_key(names: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(key(name), []).append(name)
    return groups


def _beginnings(left: Iterable[str], right: Iterable[str]) -> list[tuple[str, str]]:
    """Pair names if one name begins with the other, up to a sign, and no other name does.

    >>> _beginnings(["a", "b-1", "c"], ["a.x", "b", "cd"])
    [('a', 'a.x'), ('b-1', 'b')]
    """
    lefts, rights = (_by_key(names, lambda name: composed(name).casefold()) for names in (left, right))
    pairs: set[tuple[str, str]] = set()
    for shorts, longs in ((lefts, rights), (rights, lefts)):
        for long, names in longs.items():
            ends = (end for end in range(1, len(long) + 1) if not long[end : end + 1].isalnum())
            for begun in filter(None, (shorts.get(long[:end]) for end in ends)):
                pairs.update(product(begun, names) if shorts is lefts else product(names, begun))
    times = [Counter(names) for names in zip(*pairs, strict=True)]
    return sorted((one, other) for one, other in pairs if times[0][one] == times[1][other] == 1)


def _common_start(names: list[str]) -> str:
    """Return the beginning that all names share."""
    first, last = min(names), max(names)
    return first[: next((index for index, sign in enumerate(first) if last[index : index + 1] != sign), len(first))]


def _own_part(names: list[str]) -> Callable[[str], str]:
    """Remove the common prefix and suffix of all names from a name; numbers are never cut."""
    folded = [composed(name).casefold() for name in names]
    if len(folded) < 2:
        return lambda name: ""
    start = re.sub(r"[0-9]+$", "", _common_start(folded))
    start = start if not start or not start[-1].isalpha() or all(n[len(start) :][:1].isdigit() for n in folded) else ""
    end = _common_start([name[::-1] for name in folded])[::-1]
    end = re.sub(r"^[0-9]+", "", end)

    def own(name: str) -> str:
        return composed(name).casefold().removeprefix(start).removesuffix(end).strip(" _.-")

    return own
