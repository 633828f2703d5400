"""Which prediction belongs to which reference, by their names alone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

PICTURE_WORDS = ("img", "image", "im", "raw", "orig", "original", "photo", "input", "picture", "rgb", "tissue")
# What tools and people put behind the name of an image.
ENDINGS = (
    *("cp_masks", "cp_mask", "seg", "masks", "mask", "labels", "label", "lbl", "instances", "instance", "inst"),
    *("nuclei", "cells", "gt", "ground_truth", "groundtruth", "reference", "ref", "prediction", "predictions"),
    *("predicted", "pred", "preds", "output", "result", "results", "segmentation", "annotation", "annotations"),
    *("anno", "json", "mat", "geojson", "stardist", "cellpose", "cellvit", "hovernet"),
    *PICTURE_WORDS,
)
ENDING = re.compile(rf"(?:[ _.-]+(?:{'|'.join(sorted(ENDINGS, key=len, reverse=True))}))+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Pairing:
    """The name of the prediction of each reference, and why; names without a partner.

    rules   in words how names were compared, for pairs whose names are not the same, by the name of the reference
    """

    pairs: Mapping[str, str]
    rules: Mapping[str, str]
    without_prediction: tuple[str, ...]
    without_reference: tuple[str, ...]


def pair_names(reference: Iterable[str], prediction: Iterable[str]) -> Pairing:
    """Pair names: the same ones first, then by ever weaker rules, each only where it is unambiguous.

    >>> pair_names(["a1", "b2"], ["b2_cp_masks", "a1"]).pairs
    {'a1': 'a1', 'b2': 'b2_cp_masks'}
    >>> pair_names(["img_01", "img_02"], ["pred_02", "pred_01"]).pairs
    {'img_01': 'pred_01', 'img_02': 'pred_02'}
    """
    left, right = sorted(reference), sorted(prediction)
    pairs: dict[str, str] = {}
    rules: dict[str, str] = {}
    for words, key in (
        ("", composed),
        ("upper and lower case", lambda name: composed(name).casefold()),
        ("without folders and suffixes", without_suffix),
        ("without endings such as '_masks'", without_ending),
    ):
        take(left, right, key, key, words, pairs, rules)
    take_by_start(left, right, pairs, rules)
    take(left, right, own_part(left), own_part(right), "without what all names have in common", pairs, rules)
    if len(left) == len(right) == 1 and not pairs:
        pairs[left[0]], rules[left[0]] = right[0], "the only ones"
        left, right = [], []
    return Pairing(dict(sorted(pairs.items())), rules, tuple(left), tuple(right))


def composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def without_suffix(name: str) -> str:
    """A name without the folders before it, its suffixes, and what Roboflow puts behind it.

    >>> without_suffix("train/Cell01.ome.tif"), without_suffix("cell01_tif.rf.0123456789abcdef.jpg")
    ('cell01', 'cell01')
    """
    base = composed(name).casefold().replace("\\", "/").rpartition("/")[2]
    plain = re.sub(r"(_(png|jpe?g|tiff?|bmp|gif|webp))?\.rf\.[0-9a-z]{8,}", "", base)
    return re.sub(r"(\.[a-z][a-z0-9]{0,7})+$", "", plain) or plain


def without_ending(name: str) -> str:
    return ENDING.sub("", without_suffix(name))


def take(
    left: list[str],
    right: list[str],
    left_key: Callable[[str], str],
    right_key: Callable[[str], str],
    words: str,
    pairs: dict[str, str],
    rules: dict[str, str],
) -> None:
    """Move the names whose keys are the same, and the key of no other name, into the pairs."""
    of_left, of_right = by_key(left, left_key), by_key(right, right_key)
    for key in sorted(of_left.keys() & of_right.keys()):
        if key and len(of_left[key]) == len(of_right[key]) == 1:
            add(left, right, of_left[key][0], of_right[key][0], words, pairs, rules)


def by_key(names: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(key(name), []).append(name)
    return found


def add(
    left: list[str], right: list[str], one: str, other: str, words: str, pairs: dict[str, str], rules: dict[str, str]
) -> None:
    pairs[one] = other
    if words:
        rules[one] = words
    left.remove(one)
    right.remove(other)


def take_by_start(left: list[str], right: list[str], pairs: dict[str, str], rules: dict[str, str]) -> None:
    """Pair names of which one is the beginning of the other, up to a sign, and of no other name."""
    fits = {one: [other for other in right if begins(one, other)] for one in left}
    for one, others in fits.items():
        if len(others) == 1 and sum(others[0] in of_other for of_other in fits.values()) == 1:
            add(left, right, one, others[0], "one is the beginning of the other", pairs, rules)


def begins(one: str, other: str) -> bool:
    short, long = sorted((composed(one).casefold(), composed(other).casefold()), key=len)
    return long.startswith(short) and not long[len(short) : len(short) + 1].isalnum()


def common_start(names: list[str]) -> str:
    """What all names begin with."""
    first, last = min(names), max(names)
    return first[: next((index for index, sign in enumerate(first) if last[index : index + 1] != sign), len(first))]


def own_part(names: list[str]) -> Callable[[str], str]:
    """What a name has beyond what all names begin and end with; numbers are never cut."""
    folded = [composed(name).casefold() for name in names]
    if len(folded) < 2:
        return lambda name: ""
    start = re.sub(r"[0-9]+$", "", common_start(folded))
    start = start if not start or not start[-1].isalpha() or all(n[len(start) :][:1].isdigit() for n in folded) else ""
    end = common_start([name[::-1] for name in folded])[::-1]
    end = re.sub(r"^[0-9]+", "", end)

    def own(name: str) -> str:
        return composed(name).casefold().removeprefix(start).removesuffix(end).strip(" _.-")

    return own
