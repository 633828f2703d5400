"""Hostile shapes cost in proportion to their size: operations are counted at n and at 2n, so no clock decides.

Seconds and bytes are measured by ``benchmarks/complexity.py`` on the same shapes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.ma  # numpy imports it late, which fails while its functions are wrapped
import pytest
from every_format import write_challenge as write_every_format

from benchmarks.complexity import (
    FORMATS,
    MASKS,
    MOST_TIMES,
    OVERLAP_RULES,
    RULES,
    SHAPES,
    Picture,
    instances_of,
    mask_of,
    ordinary,
    write_challenge,
    write_masks,
)
from evaluation import SubmissionRejected, check_submission, score_submission
from evaluation.challenge import MATCHING_RULES
from evaluation.challenge.matching_rules import Sides
from evaluation.files.decoding import guard
from evaluation.files.decoding.json import repeated_key
from evaluation.scoring.match import match
from nuclei_metrics.instances.prepare import resolve_overlaps
from nuclei_metrics.matching import overlap_table
from nuclei_metrics.matching.rules import match_iou_assignment
from nuclei_metrics.metrics.counts import join_cases
from nuclei_metrics.metrics.overlap import count_objects, count_overlaps
from nuclei_metrics.model import Case, Instances

COUNTED = (
    "add", "append", "argsort", "bincount", "concatenate", "cumsum", "diff", "divmod", "flatnonzero", "isin",
    "lexsort", "maximum", "minimum", "multiply", "nonzero", "repeat", "searchsorted", "sort", "stack", "subtract",
    "unique", "where", "zeros",
)  # fmt: skip
NUMBER = {"comb": 150, "image_size": 150, "nested": 200, "stripes": 300}  # of nuclei or parts, where 400 take long
WITHOUT_HOLES = ("polygons_json", "coco_json", "asap_xml", "nucls_csv")


@pytest.fixture(autouse=True)
def decoded_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that another process does could be counted."""
    monkeypatch.setattr(guard, "IS_AVAILABLE", False)


class Counter:
    """Elements that pass through numpy's functions, in and out, and calls of Python and C functions."""

    def __init__(self) -> None:
        self.operations = 0

    def counting(self, function: Any) -> Any:
        """The function, and what hangs on it such as ``np.maximum.at``, so that its elements are counted."""
        counter = self

        class Counting:
            def __call__(self, *given: Any, **named: Any) -> Any:
                result = function(*given, **named)
                counter.operations += sum(of.size for of in (*given, result) if isinstance(of, np.ndarray))
                return result

            def __getattr__(self, name: str) -> Any:
                return counter.counting(getattr(function, name))

        return Counting()

    def called(self, _: Any, event: str, __: Any) -> None:
        if event in ("call", "c_call"):
            self.operations += 1


@contextmanager
def counted() -> Iterator[Counter]:
    counter = Counter()
    with pytest.MonkeyPatch.context() as patch:
        for name in COUNTED:
            patch.setattr(np, name, counter.counting(getattr(np, name)))
        sys.setprofile(counter.called)
        try:
            yield counter
        finally:
            sys.setprofile(None)


def growth(job: Callable[[int], Callable[[], object]], n: int) -> float:
    """How many times as many operations 2n takes. ``job`` prepares, and what it returns is counted."""
    found = []
    for number in (n, 2 * n):
        run = job(number)
        with counted() as counter:
            run()
        found.append(counter.operations)
    return found[1] / found[0]


def sides_of(shape: str, n: int) -> tuple[Instances, Instances]:
    """Eight ordinary nuclei, however large the image is, and the shape."""
    picture = SHAPES[shape](n)
    return instances_of(Picture(ordinary((40, 64)).nuclei, picture.shape_yx)), instances_of(picture)


def test_the_counter_tells_a_square_from_a_line() -> None:
    def square(n: int) -> Callable[[], object]:
        return lambda: [np.sort(np.arange(n)) for _ in range(n)]

    def line(n: int) -> Callable[[], object]:
        return lambda: np.sort(np.arange(1000 * n))

    assert growth(square, 500) > 3.5
    assert growth(line, 500) == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_overlap_table_of_a_shape_and_ordinary_nuclei(shape: str) -> None:
    def job(n: int) -> Callable[[], object]:
        sides = sides_of(shape, n)
        return lambda: (overlap_table(*sides), overlap_table(*sides[::-1]))

    assert growth(job, 4 * NUMBER.get(shape, 400)) < MOST_TIMES


def too_steep(jobs: dict[Any, Callable[[int], Callable[[], object]]], n: int) -> dict[Any, float]:
    """Those that take too much for 2n, and how many times as much."""
    found = {name: growth(job, n) for name, job in jobs.items()}
    return {name: times for name, times in found.items() if times >= MOST_TIMES}


@pytest.mark.parametrize("shape", SHAPES)
def test_overlap_rules(shape: str) -> None:
    def resolving(n: int, rule: Any, scope: Any) -> Callable[[], object]:
        return partial(resolve_overlaps, instances_of(SHAPES[shape](n)), rule, scope)

    every = product(OVERLAP_RULES, ("image", "class"))
    jobs = {(rule, scope): partial(resolving, rule=rule, scope=scope) for rule, scope in every}
    assert too_steep(jobs, 2 * NUMBER.get(shape, 400)) == {}


@pytest.mark.parametrize("shape", SHAPES)
def test_matching_rules(shape: str) -> None:
    """Both ways: stacked predictions, and a stacked reference."""

    def matching(n: int, parameters: dict[str, Any]) -> Callable[[], object]:
        rule = MATCHING_RULES[parameters["rule"]](**parameters, name="a", class_aware=False, ties="first_pixel")
        sides = sides_of(shape, n)
        case = Case("a", "P1", *sides[0].shape_yx)
        both = [(pair, overlap_table(*pair)) for pair in (sides, sides[::-1])]
        return lambda: [match(rule, Sides(case, table, *pair, "open")) for pair, table in both]

    jobs = {parameters["rule"]: partial(matching, parameters=parameters) for parameters in RULES}
    assert too_steep(jobs, NUMBER.get(shape, 400)) == {}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_metrics_that_need_no_matching_rule(shape: str) -> None:
    def job(n: int) -> Callable[[], object]:
        sides = sides_of(shape, n)
        table = overlap_table(*sides)
        pairs = match_iou_assignment(table, *sides, threshold=0.0, class_aware=False)

        def run() -> object:
            cases = join_cases([(*sides, table)])
            return count_objects(cases), count_overlaps(cases, pairs)

        return run

    # A short stack of stripes has its nearest nucleus at once; in a long one each stripe measures all eight.
    assert growth(job, 1200 if shape == "stripes" else NUMBER.get(shape, 400)) < MOST_TIMES


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", FORMATS)
def test_reading_a_format(kind: str, shape: str, tmp_path: Path) -> None:
    if shape == "many_holes" and kind in WITHOUT_HOLES:
        pytest.skip("the format has no holes")

    def job(n: int) -> Callable[[], object]:
        picture = SHAPES[shape](n)
        folder = tmp_path / str(n)
        write_challenge(folder, kind, ordinary(picture.shape_yx), picture)
        return lambda: check_submission(folder / "challenge", folder / "submission", workers=1)

    job(10)()  # what is imported at first use shall not be counted
    assert growth(job, NUMBER.get(shape, 400)) < MOST_TIMES


ALL_MASKS = list(product(MASKS, [*SHAPES, "scattered"]))


@pytest.mark.parametrize(("kind", "shape"), ALL_MASKS[:: len(SHAPES)])  # of each kind one or two, of each shape some
def test_reading_some_masks(kind: str, shape: str, tmp_path: Path) -> None:
    assert growth_of_masks(kind, shape, tmp_path) < MOST_TIMES


@pytest.mark.parametrize(("kind", "shape"), ALL_MASKS)
def test_reading_masks(kind: str, shape: str, tmp_path: Path) -> None:
    assert growth_of_masks(kind, shape, tmp_path) < MOST_TIMES


def growth_of_masks(kind: str, shape: str, tmp_path: Path) -> float:
    def job(n: int) -> Callable[[], object]:
        mask = mask_of(shape, n)
        folder = tmp_path / str(n)
        write_masks(folder, kind, instances_of(ordinary(mask.shape_yx)), mask)
        return lambda: check_submission(folder / "challenge", folder / "submission", workers=1)

    job(10)()
    return growth(job, NUMBER.get(shape, 400))


@pytest.mark.parametrize("kind, step", [
    ("points_csv", 0), ("points_csv", 1), ("points_json", 0), ("midog_json", 1), ("geojson points", 0),
])  # fmt: skip
def test_reading_points(kind: str, step: int, tmp_path: Path) -> None:
    """Stacked, or side by side."""

    def job(n: int) -> Callable[[], object]:
        challenge, submission = write_every_format(kind, tmp_path / str(n))
        file = submission / f"c1.{'geojson' if kind == 'geojson points' else kind.partition('_')[2]}"
        spots = [(3 + step * place % 20, 3 + step * place // 20 % 15) for place in range(n)]
        file.write_text(POINTS[kind](spots))
        return lambda: check_submission(challenge, submission, workers=1)

    job(10)()
    assert growth(job, 2000) < MOST_TIMES


POINTS: dict[str, Callable[[list[tuple[int, int]]], str]] = {
    "points_csv": lambda spots: "\n".join(["x,y,class", *(f"{x},{y},Epithelial" for x, y in spots), ""]),
    "points_json": lambda spots: json.dumps({
        "type": "Multiple points", "points": [{"name": "Epithelial", "point": [x, y, 0.5]} for x, y in spots]
    }),
    "midog_json": lambda spots: json.dumps({
        "images": [{"id": 1, "file_name": "c1", "height": 20, "width": 30}],
        "categories": [{"id": 1, "name": "Epithelial"}],
        "annotations": [
            {"id": number, "image_id": 1, "category_id": 1, "bbox": [x - 25, y - 25, x + 25, y + 25]}
            for number, (x, y) in enumerate(spots)
        ],
    }),
    "geojson points": lambda spots: json.dumps({"type": "FeatureCollection", "features": [
        {"type": "Feature", "geometry": {"type": "Point", "coordinates": [x, y]},
         "properties": {"classification": {"name": "Epithelial"}}} for x, y in spots
    ]}),
}  # fmt: skip


def test_looking_for_keys_that_stand_twice() -> None:
    def looking(n: int, text: Callable[[int], str]) -> Callable[[], object]:
        return partial(repeated_key, text(n).encode())

    def object_of(key: str) -> Callable[[int], str]:
        return lambda n: "{" + ",".join(f'"{key}":1'.replace("N", f"{place:06}") for place in range(n)) + "}"

    texts = {
        "of one object": object_of("N"),
        "of nested objects": lambda n: '{"a":[' * n + "]}" * n,
        "that begin and end alike": object_of("aaaaaaaaNzzzzzzzz"),
        "with escapes": object_of("\\u0041N"),
    }
    assert too_steep({name: partial(looking, text=text) for name, text in texts.items()}, 2000) == {}


@pytest.mark.parametrize("kind", ["geojson", "rle_csv"])
def test_stacks_on_both_sides_are_refused_before_they_are_compared(kind: str, tmp_path: Path) -> None:
    """The reference fits with itself and not with the submission, which has four times as many on each other."""
    write_challenge(tmp_path, kind, SHAPES["one_pixel"](2500), SHAPES["one_pixel"](9000))
    with pytest.raises(SubmissionRejected) as caught, counted() as counter:
        score_submission(tmp_path / "challenge", tmp_path / "submission", workers=1)
    (finding,) = caught.value.findings
    assert (finding.code, finding.got) == ("too-many-overlaps", "9,000 nuclei, up to 9,000 of them on one pixel")
    assert counter.operations < 2500 * 9000
