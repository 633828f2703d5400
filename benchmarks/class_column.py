"""Which column should rank the classes: what pays under each, and how well it follows the skill that made the teams.

    python -m benchmarks.class_column [--seed 2]

Teams are tables of counts (patient, reference class, predicted class; class 0: none); their skills are drawn.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from scipy.stats import spearmanr

from benchmarks.tricks import LOSS
from nuclei_metrics.model import Float64

CLASSES, PATIENTS, NUCLEI, TEAMS = 4, 8, 60, 8
INSIDE = np.arange(1, CLASSES + 1)
WEIGHTS = {"balanced": (1, 1, 1, 1), "two common": (6, 4, 1, 0.8), "two rare": (47, 50, 1, 2)}


def f1(counts: Float64) -> Float64:
    pairs = counts[..., 1:, 1:].sum(axis=(-2, -1))
    return np.asarray(2 * pairs / (2 * pairs + counts[..., 1:, 0].sum(axis=-1) + counts[..., 0, 1:].sum(axis=-1)))


def macro_f1(counts: Float64) -> Float64:
    each = counts[..., 1:, :].sum(axis=-1) + counts[..., 1:].sum(axis=-2)
    return np.asarray(np.nanmean(2 * counts[..., INSIDE, INSIDE] / each, axis=-1))


def class_recall(counts: Float64) -> Float64:
    right = counts[..., INSIDE, INSIDE] + counts[..., 1:, 0] / CLASSES
    return np.asarray(np.nanmean(right / counts[..., 1:, :].sum(axis=-1), axis=-1))


def class_f1(counts: Float64) -> Float64:
    """Macro F1 of the row-normalised matrix over all reference nuclei, a missed one as wrong."""
    shares = counts[..., 1:, 1:] / counts[..., 1:, :].sum(axis=-1, keepdims=True)
    right = shares[..., INSIDE - 1, INSIDE - 1]
    return np.asarray(np.nanmean(2 * right / (1 + np.nansum(shares, axis=-2)) + 0 * right, axis=-1))


COLUMNS: dict[str, Callable[[Float64], Float64]] = {  # of counts (team, patient, reference, prediction)
    "covered.class_f1.group_mean": lambda counts: np.asarray(np.nanmean(class_f1(counts), axis=1)),
    "covered.class_recall.pooled": lambda counts: class_recall(counts.sum(axis=1)),
    "detection.macro_f1.pooled": lambda counts: macro_f1(counts.sum(axis=1)),
    "detection.macro_f1.group_mean": lambda counts: np.asarray(np.nanmean(macro_f1(counts), axis=1)),
}


def draw_teams(random: np.random.Generator, words: str, *, few: bool, common: bool) -> tuple[Float64, Float64]:
    """Counts of the teams, and their class skill: the share of the found nuclei that get the right name.

    few     two teams find 30 to 50 % of the nuclei, the others 60 to 97 %
    common  wrong names are common ones; else each as often
    """
    share = np.array(WEIGHTS[words], float) / sum(WEIGHTS[words])
    there = random.multinomial(NUCLEI, share, size=PATIENTS)
    found, named = random.uniform(0.6, 0.97, TEAMS), random.uniform(0.6, 0.97, TEAMS)
    spurious = random.uniform(0.02, 0.25, TEAMS)
    if few:
        found[:2] = random.uniform(0.3, 0.5, 2)
    counts = np.zeros((TEAMS, PATIENTS, CLASSES + 1, CLASSES + 1))
    for team, patient in np.ndindex(TEAMS, PATIENTS):
        for place in range(CLASSES):
            number = random.binomial(there[patient, place], found[team])
            names = np.where(np.arange(CLASSES) == place, 0, share if common else 1.0)
            names *= (1 - named[team]) / names.sum()
            names[place] = named[team]
            counts[team, patient, place + 1, 1:] = random.multinomial(number, names / names.sum())
            counts[team, patient, place + 1, 0] = there[patient, place] - number
        counts[team, patient, 0, 1:] = random.multinomial(random.binomial(NUCLEI, spurious[team]), share)
    return counts, named


def tricks(counts: Float64) -> Iterator[tuple[str, Float64]]:
    """What a team may do to its counts (patient, reference, prediction)."""
    often = counts.sum(axis=(0, 1))[1:]
    common, rare = 1 + int(often.argmax()), 1 + int(np.where(often > 0, often, np.inf).argmin())
    every, not_rare = np.ones(CLASSES + 1), [of for of in INSIDE.tolist() if of != rare]
    for share in (0.05, 0.1, 0.2, 0.33):
        yield "rare", renamed(counts, [common], rare, share * every)
        lower = np.where(np.arange(CLASSES + 1) == rare, 0.4 + 2 * share, share)  # finds more of the rare class
        yield "rare", renamed(counts, not_rare, rare, np.minimum(lower, 1))
    yield "common", renamed(counts, [of for of in INSIDE.tolist() if of != common], common, every)
    misnamed, rarest, all_of_them = np.full((3, CLASSES + 1, CLASSES + 1), 0.5)
    misnamed[INSIDE, INSIDE] = 0.1
    rarest[:] = np.arange(CLASSES + 1) == rare
    for share in (0.4 * all_of_them, all_of_them, rarest):
        yield "silence", silent(counts, share)
    yield "misnamed", silent(counts, misnamed)
    hardest = np.isin(np.arange(PATIENTS), np.argsort(f1(counts))[:2])
    yield "silence", silent(counts, hardest[:, None, None] * np.ones_like(misnamed))


def renamed(counts: Float64, sources: list[int], target: int, share: Float64) -> Float64:
    """A share, by reference class, of what is predicted as other classes named as the target."""
    counts = counts.copy()
    for source in sources:
        part = np.round(counts[:, :, source] * share)
        counts[:, :, source] -= part
        counts[:, :, target] += part
    return counts


def silent(counts: Float64, share: Float64) -> Float64:
    counts, part = counts.copy(), np.round(counts * share)
    part[..., 0] = 0
    counts -= part
    counts[:, 1:, 0] += part[:, 1:].sum(axis=-1)
    return counts


def of_patients(counts: Float64) -> Float64:
    return np.asarray(np.nanmean(f1(counts), axis=1))


def ranks(columns: list[Float64]) -> Float64:
    """By the sum of ranks in columns, the first of which has a floor of one half."""
    better = [(column[np.newaxis] > column[:, np.newaxis]).sum(axis=1) for column in columns]
    total = np.sum(better, axis=0) + 1000 * (columns[0] < 0.5)
    return np.asarray((total[np.newaxis] < total[:, np.newaxis]).sum(axis=1), np.float64)


class Simulated:
    """What was found by column.

    fields, played   how many fields were drawn, and plays of each kind
    pays             plays of each column and kind after which a team that became worse stands higher
    skill, found     rank correlation with the class skill, and with pooled F1, by column and kind of field
    """

    def __init__(self, fields: int = 12, seed: int = 2) -> None:
        self.fields = 0
        self.played: Counter[str] = Counter()
        self.pays: Counter[tuple[str, str]] = Counter()
        self.skill: dict[tuple[str, str], float] = {}
        self.found: dict[tuple[str, str], float] = {}
        with np.errstate(all="ignore"):
            for few in (False, True):
                for words in WEIGHTS:
                    self.draw(words, 2 * fields, few=few, seed=seed)

    def draw(self, words: str, fields: int, *, few: bool, seed: int) -> None:
        random = np.random.default_rng(seed)
        told: dict[str, list[tuple[float, float]]] = {name: [] for name in COLUMNS}
        for index in range(fields):
            counts, skill = draw_teams(random, words, few=few, common=bool(index % 2))
            iou = random.random(TEAMS)
            outlines = [iou, iou + 0.2 * random.random(TEAMS)]
            found = f1(counts.sum(axis=1))
            for name, of in COLUMNS.items():
                value = of(counts)
                told[name].append((spearmanr(value, skill)[0], spearmanr(value, found)[0]))
            before = {name: ranks([of_patients(counts), of(counts), *outlines]) for name, of in COLUMNS.items()}
            for team in range(TEAMS):
                self.play(counts, outlines, team, {name: of[team] for name, of in before.items()})
        for name, pairs in told.items():
            key = name, words + ", two find few" * few
            self.skill[key], self.found[key] = np.nanmean(pairs, axis=0).tolist()
        self.fields += fields

    def play(self, counts: Float64, outlines: list[Float64], team: int, before: dict[str, float]) -> None:
        for kind, changed in tricks(counts[team]):
            both = counts.copy()
            both[team] = changed
            lost = min(of(changed.sum(axis=0)) - of(counts[team].sum(axis=0)) for of in (f1, macro_f1)) < -LOSS
            lower = 0.01 * (np.arange(TEAMS) == team) * (kind in ("silence", "misnamed"))  # silence never raises them
            self.played[kind] += 1
            if lost:
                for name, of in COLUMNS.items():
                    after = ranks([of_patients(both), of(both), *(it - lower for it in outlines)])
                    self.pays[name, kind] += int(after[team] < before[name])

    def rows(self) -> list[str]:
        """The table of docs/gaming.md."""
        kinds = {
            "rare": "naming a rare class too often",
            "misnamed": "leaving out half of the misnamed nuclei and a tenth of the others",
            "silence": "other silence",
        }
        fields = ["balanced", "two common", "two rare", "two rare, two find few"]
        head = [*kinds.values(), *(f"class skill: {of}" for of in fields)]
        rows = [["column", *head], ["---"] * (len(head) + 1)]
        for name in COLUMNS:
            pays = [f"{self.pays[name, kind]} of {self.played[kind]:,}" for kind in kinds]
            rows.append([f"`{name}`", *pays, *(f"{self.skill[name, of]:.2f}" for of in fields)])
        return [f"| {' | '.join(row)} |" for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fields", type=int, default=12, help="of each kind, twice")
    parser.add_argument("--seed", type=int, default=2)
    arguments = parser.parse_args()
    found = Simulated(arguments.fields, arguments.seed)
    print("\n".join([*found.rows(), "", *(f"{key}: F1 {value:.2f}" for key, value in found.found.items())]))


if __name__ == "__main__":
    main()
