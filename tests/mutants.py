"""Mutants: the program with one small fault each. The tests named beside it must notice every one.

    PYTHONPATH=.:library:tests python tests/mutants.py [--only TEXT] [--workers 2] [--check]

Each mutant is made in a copy of the repository, never in the repository itself. A mutant whose old text is not there
exactly once is an error, too: then the program has changed, and the mutant must follow. ``--check`` looks for that
alone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from marks import OF_TEST
from processes import run_in_group

ROOT = Path(__file__).resolve().parents[1]
COPIED = (
    "evaluation",
    "library",
    "tests",
    "benchmarks",
    "ground_truth",
    "docs",
    "requirements",
    "pyproject.toml",
    "README.md",
)
PACKAGES = ("library/nuclei_metrics", "evaluation")
TESTS = {
    path.stem: str(path.relative_to(ROOT))
    for part in ("", "library")
    for path in (ROOT / part / "tests").glob("test_*.py")
}
CPU_SECONDS = 900  # a mutant may never end
PYTEST = """\
import sys, pytest
from processes import end_with_parent
end_with_parent()
sys.exit(pytest.main(sys.argv[1:]))
"""
SLOW = {name for name in OF_TEST["slow"] if "::" not in name}
TESTS_FAILED = (1, 2)  # exit codes of pytest: a test failed, or could not be collected


@dataclass(frozen=True)
class Mutant:
    """A fault: the text that stands exactly once in a file of evaluation/, what stands there instead, and tests that
    must fail."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def path(self) -> str:
        package = next((name for name in PACKAGES if (ROOT / name / self.file).is_file()), "evaluation")
        return f"{package}/{self.file}"

    def __str__(self) -> str:
        return f"{self.path}: {shown(self.old)} -> {shown(self.new)}"

    def fault(self, root: Path = ROOT) -> str:
        """What is wrong with it, or ""."""
        path = root / self.path
        if not path.is_file():
            return "no such file"
        found = path.read_text().count(self.old)
        if found != 1:
            return f"the old text is there {found} times"
        lost = [name for name in self.tests if f"test_{name}" not in TESTS]
        return f"no such tests: {', '.join(lost)}" if lost else ""


def shown(text: str) -> str:
    return repr(" ".join(text.split()))


def of(file: str, tests: str, *pairs: tuple[str, str]) -> list[Mutant]:
    """Mutants of one file, told by the same tests (names without ``test_`` and ``.py``)."""
    return [Mutant(file, old, new, tuple(tests.split())) for old, new in pairs]


MUTANTS: Sequence[Mutant] = [
    # --- instances ----------------------------------------------------------------------------------------------------
    *of("matching/table.py", "twins",
        ("2 * table.intersection_px > np.minimum", "2 * table.intersection_px >= np.minimum"),
        ("np.minimum(area[first], area[second])", "np.maximum(area[first], area[second])"),
        ("shares[:-1] |= stop[:-1] > start[1:]", "shares[:-1] |= False"),
        ("rank[first[~both]], rank[second[~both]]", "rank[first], rank[second]"),
        ("np.where(fit > 0, fit, np.inf)", "np.where(fit > 0, -fit, np.inf)"),
        ("np.where(fit > 0, fit, np.inf)", "fit"),
        ("instances.position_order()[::-1]", "np.arange(len(instances))"),
        ("leaves[better] or not leaves[worse]", "True"),
        ("reach = radius_px / 2", "reach = radius_px")),
    *of("scoring/match.py", "duplicates",
        ("by_iou, of_rule = ~duplicates_among(", "by_iou, of_rule = duplicates_among("),
        ("np.maximum.at(fit, right[above], iou[above])", "fit[right[above]] = 1"),
        ("fit[chosen] = 1", "fit[:] = 1"),
        ("index[matches.prediction_index].astype(np.int32)", "matches.prediction_index"),
        ("found |= 2 * matches.intersection_px > matches.union_px", "found[:] = True"),
        ("matched_by_rule[matches.prediction_index[found]] = True", "pass")),
    *of("instances/boundary.py", "surfaces overlap_metrics",
        ("begin -= self.begin == 0", "begin -= 0 * (self.begin == 0)"),
        ("self.end == self.images_yx[self.entry, 1]", "self.end == self.shape_yx[1]"),
        ("bottom = runs.images_yx[runs.entry[last], 0] - 1", "bottom = runs.shape_yx[0] - 1"),
        ('if border == "open" and not boundaries.size.all():', "if False:"),
        ("for at_edge in (row == 0, row == runs.images_yx[entry, 0] - 1):", "for at_edge in (row == 0,):"),
        ("first[filled], size[filled] = offset, points", "first[filled], size[filled] = 0, points")),
    *of("instances/prepare.py", "overlap_rules",
        ("dropped = instances.areas_px() == 0", "dropped = instances.areas_px() < 0"),
        ("* exact.denominator > instances", "* exact.denominator >= instances"),
        ("limit_denominator(10**9)", "limit_denominator(10)"),
        ("np.floor(instances.centroids_yx() + 0.5)", "np.floor(instances.centroids_yx())"),
        ("return index[::-1].copy()", "return index.copy()"),
        ('-instances.areas_px() if rule == "smallest"', 'instances.areas_px() if rule == "smallest"'),
        ("several = self.cover.depth > 1", "several = self.cover.depth > 2"),
        ("lost_whole=(after == 0) & (before > 0)", "lost_whole=(after == 0) & (before > 1)"),
        ("lost_pixels=(after > 0) & (after < before)", "lost_pixels=(after < before)"),
        ('if scope == "class":\n        _, stretch', 'if scope == "image":\n        _, stretch')),
    *of("files/decoding/label_array.py", "compare_cases",
        ("if len(present) > 1 and not is_mask:", "if not is_mask:"),
        ("return values if is_told else set()", "return values")),
    *of("instances/runs.py", "runs",
        ("class_id < 0, -votes, instance", "class_id < 0, votes, instance"),
        ("np.lexsort((np.abs(class_id), class_id < 0,", "np.lexsort((class_id < 0, np.abs(class_id),")),
    *of("instances/runs.py", "compare",
        ("source_id=np.flatnonzero(chosen) + 1", "source_id=np.arange(int(chosen.sum())) + 1"),
        ("return confidences.clip(0, 1)", "return confidences")),
    *of("instances/prepare.py", "overlap_rules outlines",
        ("join_regions([region, resolved.ignored]", "join_regions([region]")),
    *of("instances/rasterise.py", "outlines",
        ("right[near] += (here > 0) * 1.0 - (before <= 0)", "right[near] += (here >= 0) * 1.0 - (before <= 0)"),
        ("left = guess + (here >= 0) - (before < 0)", "left = guess + (here > 0) - (before < 0)"),
        ("of_right[near[differ]] -= LEFT", "pass"),
        ("NEAR_CENTRE = 1e-4", "NEAR_CENTRE = 0"),
        ("if ray == RIGHT else np.floor(x) + 1", "if ray == RIGHT else np.floor(x)"),
        ("inside = state[settled] != 0", "inside = state[settled] == 3")),
    *of("instances/runs.py", "overlap_rules",
        ("return flat + flat // width", "return flat"),
        ("some = piece_start < piece_stop", "some = piece_start <= piece_stop")),
    *of("model/instances.py", "overlap_rules overlap_metrics",
        ("np.maximum(beyond, 0)", "np.maximum(beyond, 1)"),
        ("np.searchsorted(self.run_start, pixel)", "np.searchsorted(self.run_stop, pixel)")),
    # --- reading ------------------------------------------------------------------------------------------------------
    *of("files/decoding/xml.py", "xml",
        ("or VERTEX in joined", ""),
        ("len(sizes) != len(bodies) or ", ""),
        ("if not is_closed:  # holders in holders", "if False:"),
        ("(np.abs(numbers[:, -2:]) <= COORDINATE_LIMIT).all()", "True")),
    *of("files/decoding/csv.py", "csv formats",
        ("if name and folded.count(name.casefold()) > 1:", "if folded.count(name.casefold()) > 1:"),
        ("if lines > rows_limit + 1:", "if lines > rows_limit + 2:"),
        ("if width is not None and count > (lines + 1) * width:", "if False:")),
    *of("files/decoding/tiff.py", "tiff",
        ("if size < needed:", "if False:"),
        ("if segment_yx[0] < 1:", "if segment_yx[0] < 0:"),
        ("size >= 16 and size % 16 == 0", "size % 16 == 0")),
    *of("files/formats/annotation_xml.py", "formats xml",
        ("check_number(len(self.starts) + 1, ", "check_number(len(self.starts), "),
        ("order[1:] > order[:-1]", "order[1:] < order[:-1]"),
        ("order = by_order(regions.vertices.column(\"Order\"), regions.start)", "order = slice(None)"),
        ("check_number(present + 1, ", "check_number(present, "),
        ('in ("", DEFAULT_ATTRIBUTE)', 'in ("",)'),
        ("~is_hole & (regions.count >= 3)", "~is_hole")),
    *of("files/formats/coco.py", "formats",
        ("check_number(self.size // 2, ", "check_number(self.size, "),
        ("np.bincount(runs.instance, minlength=len(fresh)) > 0", "np.ones(len(fresh), bool)")),
    *of("files/formats/geojson.py", "conversion", ("for name in dict.fromkeys(names)}", "for name in set(names)}")),
    # --- the door of the library --------------------------------------------------------------------------------------
    *of("pairing.py", "door",
        ("found.iou[place], found.distance_px[place]", "found.distance_px[place], found.iou[place]"),
        ("(self.spurious, self.pairs[:, 0])", "(self.spurious, self.pairs[:, 1])"),
        ("(min(iou) == 0.5 and strict)", "min(iou) == 0.5"),
        ("if not iou or not all(0 <= threshold <= 1", "if not iou or not all(-1 <= threshold <= 2"),
        ("np.delete(prediction, right)", "np.delete(reference, left)")),
    *of("pair.py", "door",
        ("if not side:\n                return None", "if False:\n                return None"),
        ("if label not in classes]", "if False]"),
        ("if values.ndim == 2:\n            return replace", "if values.ndim == 3:\n            return replace"),
        ("if (class_id < 1).any():", "if False:"),
        ("if class_map.shape != side.shape_yx:", "if False:"),
        ("np.searchsorted(side.source_id, runs.value)", "runs.value - 1"),
        ("if len(shapes) == 2 and shapes[0] != shapes[1]:", "if False:")),
    *of("accumulate.py", "evaluation",
        ("key=lambda image: image.digest", "key=lambda image: 0"),
        ('"_images": [*self._images, *other._images]', '"_images": [*self._images]'),
        ("if self._rules() != other._rules():", "if False:"),
        ('if over == "images" or image.group is None', 'if over == "images"'),
        ('of_units.at(0) if over == "pooled" else mean.score', "of_units.at(0)"),
        ("dict(sorted(each.items()))", "each"),
        ("if len(found) == 1:", "if found:")),
    *of("functional.py", "door",
        ("return spacing * _outlines(matching, \"hausdorff_px\"", "return _outlines(matching, \"hausdorff_px\""),
        ("border, tolerance / spacing)", "border, tolerance * spacing)"),
        ('"mean_surface_distance_px", border)', '"hausdorff_px", border)'),
        ("Hits(tp, prediction - tp, reference - tp,", "Hits(tp, reference - tp, prediction - tp,"),
        ("classes=most if classes is None else classes", "classes=most")),
    *of("papers.py", "papers",
        ('if "<" not in path}', "}"),
        ("return of_papers or dict.fromkeys", "return dict.fromkeys")),
    *of("metrics/partition.py", "door evaluation",
        ("2 * table.intersection_px > table.reference_area_px", "2 * table.intersection_px >= table.reference_area_px"),
        ("pairs[3] + pairs[4]]", "pairs[3]]"),
        ("[pairs[0] + pairs[1],", "[pairs[0],"),
        ("_entropy(units, units.sum(\"vi_bits\")[:, 1])", "_entropy(units, units.sum(\"vi_bits\")[:, 0])"),
        ("part * (part - 1.0)", "part * part * 1.0")),
    *of("matching/nearest.py", "door",
        ("turn = -1 if swapped else 1", "turn = 1"),
        ("(index < 0) & _has_place(at)", "_has_place(at)"),
        ("order[_nearest(at[alone", "np.arange(len(order))[_nearest(at[alone")),
    # --- matching -----------------------------------------------------------------------------------------------------
    *of("matching/table.py", "matching_rules",
        ("threshold.denominator > self.union_px", "threshold.denominator >= self.union_px"),
        ("threshold.denominator >= self.union_px", "threshold.denominator > self.union_px"),
        ("reference.class_id[table.reference_index] ==", "reference.class_id[table.reference_index] !="),
        ("FINEST = 1_000_000", "FINEST = 10"),
        ("np.where(known, np.append(table.intersection_px, 0)[index], 0)",
         "np.append(table.intersection_px, 0)[index]"),
        ("bits = int(value.max()).bit_length()", "bits = int(value.max()).bit_length() - 1"),
        ("outer.run_stop, inner.run_start, ties_count=False)", "outer.run_stop, inner.run_start, ties_count=True)")),
    *of("matching/rules.py", "matching_rules",
        ("pairs.iou(), prediction.position_rank())",
         "pairs.iou(), -prediction.position_rank())"),
        ("best_rows(*columns, reference.position_rank())",
         "best_rows(*columns, -reference.position_rank())"),
        ('side="right") - 1', 'side="left") - 1'),
        ("3 * value > with_rivals", "4 * value > with_rivals"),
        ("gain - gain.min() + span * (min(int(i.max()), int(j.max())) + 2)", "gain - gain.min() + span"),
        ("linear_sum_assignment(table, maximize=True)", "linear_sum_assignment(table, maximize=False)"),
        ("if own_row == row and not taken & column", "if own_row == row"),
        ("cost = np.concatenate([most - gain,", "cost = np.concatenate([gain,"),
        ("pairs.closeness <= _squared_limit(radius_px)", "pairs.closeness <= radius_px"),
        ("-np.sqrt(pairs.closeness), most_pairs", "-pairs.closeness, most_pairs"),
        ("take_in_order(i, j, [i, squared, j])", "take_in_order(i, j, [i, j, squared])"),
        ("-rivals.iou(), right, -confidence]", "-rivals.iou(), right, confidence]"),
        ("is_match[rivals] = settle", "settle"),
        ("limit = _squared_limit(radius_px)", "limit = radius_px"),
        ("if free_left[i] and free_right[j]:", "if free_left[i]:"),
        ("limit = radius_px * RADIUS_ROUNDING", "limit = 2 * radius_px")),
    *of("matching/rules.py", "matching_rules overlap_metrics",
        ("rivals = contested[is_match[contested]]", "rivals = contested")),
    *of("scoring/read.py", "workers",
        ("        if key[-1]:\n", "        if True:\n"),
        ("if other[:2] == key[:2]}", "}"),
        ("        if self.size + size <= KEPT_BYTES:\n", "        if True:\n"),
        ("state.st_size, state.st_ino, state.st_mtime_ns, state.st_ctime_ns", "state.st_size, state.st_mtime_ns")),
    *of("files/results/documents.py", "pipeline",
        ('scored, (missed, None), len(missed)', 'scored, (None, missed), len(missed)'),
        ("is_matched[matched] = True", "is_matched[matched] = False"),
        ("sorted(names)} |", "sorted(members)} |"),
        ("put(rules, (kind, scored.names[row], rule), entry)", "put(rules, (kind, scored.names[row], rule), {})"),
        ('"high": rounded(interval.high)', '"high": rounded(interval.low)')),
    *of("model/instances.py", "matching_rules",
        ("order = np.lexsort((areas, first))", "order = np.lexsort((-areas, first))"),
        ("keys.insert(0, -instances.probability)", "keys.insert(0, instances.probability)")),
    # --- metrics ------------------------------------------------------------------------------------------------------
    *of("board/matched_nuclei.py", "alike",
        ("~(_same_area(one, reference) & _same_area(other, reference)) & ~np.isnan(one + other)",
         "~np.isnan(one + other)"),
        ("shares[max(1, len(shares) // 10) :]", "shares[1:]"),
        ("max([ALIKE, *(2 * share for share in ordinary)])", "ALIKE"),
        ("if number >= FEWEST_COMPARED else None", "if number else None"),
        ("(known == 1).mean()", "(known > 0.5).mean()")),
    *of("scoring/error_costs.py", "error_costs",
        ("np.delete(np.arange(len(nuclei.class_id)), matched_index)", "np.arange(len(nuclei.class_id))"),
        ("OF_MATCHED_PAIRS.get(path.split(\".\")[0], kind) == kind", "True"),
        ("np.maximum(confusion[:, 0] - removed, 0)", "confusion[:, 0]"),
        ("confusion[:, :, 0] -= new_pairs", "pass"),
        ("table.sums[name].sum(axis=(0, 2))", "table.sums[name][..., 1].sum(axis=0)"),
        ("np.zeros_like(named_wrong_sum), named_wrong_sum + named_right_sum", "named_wrong_sum, named_right_sum"),
        ('table.sums["missing"] * (kind != MISSED)', 'table.sums["missing"]'),
        ('table.sums["empty"] * ~new_pairs.any(axis=1)', 'table.sums["empty"]')),
    *of("metrics/classification.py", "formulas",
        ("in_use = normalised.any(axis=2).sum(axis=1)", "in_use = normalised.any(axis=1).sum(axis=1)"),
        ("scores(value, spread_references > 0,", "scores(value, root > 0,"),
        ("ratio(right * total - chance, total**2 - chance,", "ratio(right * total, total**2,"),
        ("ratio((rows * f1).sum(axis=1), rows", "ratio((both * f1).sum(axis=1), rows"),
        ("both = normalised[:, k].sum(axis=1) + normalised[:, :, k].sum(axis=1)",
         "both = 2 * normalised[:, k].sum(axis=1)"),
        ("np.array(group, np.int64) - 1] = 1", "np.array(group[:1], np.int64) - 1] = 1")),
    *of("metrics/detection.py", "formulas",
        ('value = 1 - cases * units.sum("count_squared_error")', 'value = 1 - units.sum("count_squared_error")'),
        ('difference.astype(np.float64) ** 2', 'np.abs(difference).astype(np.float64)'),
        ("2 * counts.tp + counts.fp + counts.fn, counts", "2 * counts.tp + counts.fp + counts.fp, counts"),
        ("ratio(counts.tp, counts.tp + counts.fn,", "ratio(counts.tp, counts.tp + counts.fp,"),
        ("2 * both.tp + 2 * wrong + spurious", "2 * both.tp + wrong + spurious"),
        ("Hits(tp, predictions - tp, references - tp,", "Hits(tp, references - tp, predictions - tp,"),
        ("np.where(left == right, left, 0)", "np.where(left == right, left, right)")),
    *of("metrics/counts.py", "formulas",
        ("absent = (hits(units, class_id).references == 0)", "absent = (hits(units, class_id).references < 0)"),
        ("confusion[:, :, class_id].sum(axis=1) - tp, confusion[:, class_id].sum(axis=1) - tp",
         "confusion[:, class_id].sum(axis=1) - tp, confusion[:, :, class_id].sum(axis=1) - tp"),
        ("2 * intersection / (union + intersection)", "2 * intersection / (union + union)"),
        ("cases.prediction.areas_px()[right] / cases.reference.areas_px()[left]",
         "cases.reference.areas_px()[left] / cases.prediction.areas_px()[right]")),
    *of("metrics/overlap.py", "overlap_metrics",
        ("unused[table.prediction_index[best]] = 0", "unused[table.prediction_index] = 0"),
        ("intersection_px[best] > outside_px", "intersection_px[best] >= outside_px"),
        ('np.stack([paired, area - paired], axis=1)', 'np.stack([paired, area], axis=1)')),
    *of("metrics/segmentation.py", "formulas",
        ("2 * counts.tp + counts.fp + counts.fn, counts.undefined", "2 * counts.tp + counts.fp, counts.undefined")),
    *of("metrics/segmentation.py", "formulas surfaces",
        (".sum(axis=2), _pairs_of_class(units)", "[:, :, 1], _pairs_of_class(units)"),
        ("lacking = np.isnan(score.value) & (score.reason == 0)", "lacking = np.isnan(score.value)")),
    *of("metrics/surfaces.py", "surfaces",
        ("tolerance_px**2 * (1 + TOLERANCE_ROUNDING)", "tolerance_px**2"),
        ("np.maximum(there.percentile(percentile), back.percentile(percentile))", "there.percentile(percentile)"),
        ("total[batch] = there.sum() + back.sum()", "total[batch] = 2 * there.sum()")),
    *of("metrics/metric.py", "formulas",
        ('code("no-instances"), code("no-reference")', 'code("no-reference"), code("no-instances")'),
        ("number += defined", "number += 1")),
    *of("measure.py", "surfaces",
        ("np.floor(tolerances + 0.5)", "np.floor(tolerances)"),
        ("measured[index][name][part] = values", "measured[index][name][: last - first] = values"),
        ("(side, border=border)", '(side, border="open")'),
        ("width_px=int(width_px), border=border", 'width_px=int(width_px), border="open"')),
    *of("metrics/every_nucleus.py", "covered", ("np.where(ranking.number < wanted, 0, last)", "last")),
    *of("metrics/curves.py", "curves",
        ('np.searchsorted(wanted, right, side="right")', "np.searchsorted(wanted, right)")),
    *of("metrics/order_statistics.py", "ranks", ("number)[order]", "number)")),
    *of("model/counts.py", "ranks", (", columns.data[a:b].tobytes())", ",)")),
    # --- aggregation --------------------------------------------------------------------------------------------------
    *of("aggregation/units.py", "pipeline metrics metric_properties golden",
        ("(1 - missing) * scores.value + missing * worst", "scores.value"),
        ('((missing > 0) | (undefined == "worst"))', '(undefined == "worst")'),
        ("if np.any(reason == POINTS_ONLY):", "if np.all(reason == POINTS_ONLY):"),
        ("(missing > 0) & (not counts_missed)", "(missing > 0)")),
    *of("aggregation/units.py", "confidence",
        ("DEFINED_SHARE = 0.9", "DEFINED_SHARE = 0.5"),
        ("tail = (1 - level) / 2\n    return", "tail = 1 - level\n    return"),
        ("- 2 * change * (weights @ (moved * share)) + change**2", "+ change**2"),
        ("np.sqrt(drawn / np.maximum(drawn - 1, 1)) / np.where(total", "1 / np.where(total"),
        ("(weights @ share**2)", "(weights @ share)"),
        ("np.sqrt((number - 1) / drawn_times * spread)", "np.sqrt(spread / drawn_times)"),
        ("mean = np.add.reduceat(times * value, begin)", "mean = np.add.reduceat(value, begin)")),
    *of("model/arrays.py", "formulas",
        ("<= 4 * np.spacing(np.abs(quotient))", "< 0"),
        ("short = np.round(quotient, 6)", "short = np.round(quotient, 1)")),
    *of("files/decoding/guard.py", "guard",
        ("seconds -= time.monotonic() - began", "pass"),
        ("if count > yielded:", "if count:"),
        ("if was_killed:", "if True:"),
        ("if death.signal_number == 0 and has_less:", "if not death:"),
        ("child for child in launchers_of_workers if not os.waitpid(child, os.WNOHANG)[0]", "*launchers_of_workers")),
    *of("scoring/read.py", "guard", ("rest = number - done", "rest = number")),
    *of("scoring/workers.py", "workers", ("budget -= sum(map(work.spent, of_part))", "budget -= 0")),
    *of("scoring/workers.py", "workers", ("of_thread.share is not None and max(", "False and max(")),
    *of("scoring/workers.py", "guard",
        ("plan.tries_again or isinstance(failure, NoRoomBeside)", "plan.tries_again")),
    *of("aggregation/units.py", "pipeline metrics golden",
        ("pairs.class_id[:, 0] == pairs.class_id[:, 1]", "pairs.class_id[:, 0] >= pairs.class_id[:, 1]")),
    *of("aggregation/units.py", "workers", ("place[one.case + at]", "place[one.case]")),
    *of("scoring/score.py", "pipeline golden",
        ("return case.group, case.name", "return case.name[::-1], case.group"),
        ('kind = "strata" if unit == "pooled" else KINDS_OF_UNITS[unit]', 'kind = KINDS_OF_UNITS["group"]')),
    *of("files/results/documents.py", "golden", ("DECIMALS = 6", "DECIMALS = 5")),
    *of("challenge/documents.py", "challenge",
        ("key=lambda case: (case.group, case.name)", "key=lambda case: case.name"),
        ("SMALLEST <= number <= LARGEST", "0 < number <= LARGEST"),
        ("number and number <= LONGEST_SIDE_PX", "number"),
        ('(column == "index" and values[column] in indices)', "False"),
        ('return 0 if text == "0" else', "return"),
        ('texts.get("group") or name', "name")),
    # --- ranking ------------------------------------------------------------------------------------------------------
    *of("ranking/methods.py", "ranks ranking_methods",
        ("return np.asarray((first + last) / 2)", "return np.asarray(first)"),
        ("in_order[np.isnan(ordered)] = np.nan", "in_order[np.isnan(ordered)] = 0"),
        ("np.where(np.isnan(upper), ~np.isnan(lower), apart)", "apart"),
        ("apart = upper - lower > tolerance * size", "apart = upper - lower > tolerance"),
        ("below > half * (1 + SCORE_ROUNDING))", "below >= half * (1 - SCORE_ROUNDING))")),
    *of("ranking/methods.py", "ranking_methods ranks",
        ("else total / weights.sum()", "else total / ranks.shape[-1]"),
        ('others = np.asarray(known.all(axis=1) | (missing == "worst"))', "others = np.asarray(known.all(axis=1))"),
        ("return np.asarray(absent & ~absent.all(axis=0))", "return np.asarray(absent)"),
        ("ranks[nobody] = np.nan", "assert nobody.size")),
    *of("ranking/stability.py", "ranks resampled ranking_methods significance",
        ("- 2 * self.tied_both", "- self.tied_both"),
        ("(self.pairs - self.tied_second).astype", "(self.pairs - self.tied_first).astype")),
    *of("ranking/significance.py", "significance",
        ("told_apart &= friedman.p_value <= level", "told_apart &= True"),
        ("pairs.p_values <= level * AT_LEVEL", "pairs.p_values < level"),
        ("np.arange(len(order), 0, -1)), 1)", "len(order)), 1)"),
        ("(2 * number + 1) / 24 - signed.ties / 48", "(2 * number + 1) / 24"),
        ("statistic = (teams - 1) * spread", "statistic = teams * spread")),
    *of("ranking/sign_flips.py", "declared_test",
        ("np.maximum(flipped[0], largest, out=flipped[0])", "pass"),
        ("np.maximum.accumulate(flipped, axis=0, out=flipped)", "pass"),
        ("p_values[order] = np.maximum.accumulate(by_size[::-1])[::-1]", "p_values[order] = by_size"),
        ("if 2.0 ** (1 - units) <= level", "if 2.0**-units <= level"),
        ("terms += weight * self.difference(column, pairs)", "terms += self.difference(column, pairs)")),
    *of("ranking/declared_test.py", "declared_test",
        ("1 + (self.better < 0).sum(axis=1)", "1 + (self.better > 0).sum(axis=1)"),
        ("np.sign(position - position[:, None]) * self.better > 0", "self.better != 0")),
    *of("ranking/differences.py", "facts",
        ("(spread == 0) & (2.0 ** (1 - units) > level)", "(spread == 0) & False"),
        ("row] = np.where(number > 0, apart.sum", "row] = np.where(number > 1, apart.sum")),
    *of("board/team_scores.py", "resampled",
        ("sums |= measure_sums(pairs, len(cases), len(challenge.class_names))", "sums |= {}"),
        ("of_strata=column.aggregation == STRATUM_MEAN", "of_strata=False")),
    *of("ranking/stability.py", "resampled",
        ("OUTSIDE, OF = 25, 1000", "OUTSIDE, OF = 50, 1000"),
        ("for middle in ((number - 1) // 2, number // 2)", "for middle in (number // 2, number // 2)")),
    *of("ranking/methods.py", "tables_of_scores rank_command",
        ('(np.isnan(worst) | (missing == "unranked"))', '(missing == "unranked")'),
        ("settled = np.where(gaps, worst[:, None], values)", "settled = values.copy()"),
        ("return Settled(settled, values, lacking, left_out)", "return Settled(settled, settled, lacking, left_out)")),
    *of("board/score_csv.py", "tables_of_scores rank_command",
        ("np.flatnonzero(value < ends[column_of_row])", "np.flatnonzero(value < -np.inf)"),
        ('"group_mean": "group", "case_mean": "case"', '"group_mean": "group"'),
        ("np.ascontiguousarray(scores.values[is_left][..., has_case])", "scores.values[is_left][..., has_case]"),
        ("case], has_row[team, case] = value, True", "case] = value")),
    *of("board/facts.py", "facts",
        ("if leading != first:", "if leading & first:"),
        ('< tested[0]["least_units"]', "< 2"),
        ('share = 1 - pair["ahead"] if is_turned', 'share = pair["ahead"] if is_turned'),
        ('significant" if better == ahead', 'significant" if better')),
    *of("board/ranked_table.py", "facts",
        ('replace(table, weights=np.ones(len(table.columns)))', 'table')),
    *of("platform/archive.py", "archive",
        ("if hashes.get(file) != store.file_hash(folder / file)", "if not hashes"),
        ("if stored[name] != expected[name]", "if not stored[name]")),
    *of("board/team_scores.py", "leaderboard",
        ("challenge.aggregation.unit if self.aggregation == STRATUM_MEAN else UNIT", "UNIT"),
        ("math.fsum(values.tolist()) / len(values)", "max(values.tolist())")),
    # --- results, pages and commands ----------------------------------------------------------------------------------
    *of("report/pictures.py", "submission_page",
        ("np.where(is_wrong, 1, 2) * pairs.intersection_px", "2 * pairs.intersection_px")),
    *of("report/nuclei.py", "submission_page",
        ("np.lexsort((np.arange(number), -loss))", "np.lexsort((np.arange(number), loss))"),
        ("edges = np.unique(np.searchsorted(ascending, starts))", "edges = np.searchsorted(ascending, starts)"),
        ('np.where(columns["case"] < first,', 'np.where(columns["case"] <= first,')),
    *of("report/result.py", "submission_page",
        ("if len(names) == 1:", "if len(names) == 2:"),
        ('"case_mean" if alone else self.main', "self.main")),
    *of("report/figures.py", "pages",
        ("BOX_FROM = 5", "BOX_FROM = 6"),
        ("NUMBERS_ROWS = 100", "NUMBERS_ROWS = 101"),
        ("np.linspace(0, len(order) - 1, most)", "np.linspace(0, len(order) - 2, most)")),
    *of("files/results/files.py", "results_files",
        ("if (target := folder / name).is_symlink() or target.is_file():", "if False:"),
        ("undo.append((target, path))", "pass")),
    *of("files/results/documents.py", "results_files",
        ("- 0.5) > 1e-3) & (np.abs(scaled) < 2**40)", "- 0.5) > -1) & (np.abs(scaled) < 2**40)")),
    *of("files/results/documents.py", "leaks",
        ("if character.isprintable()", "if True"),
        ("return FORMULA.sub(", "return text or (")),
    *of("commands/options.py", "leaks", ('"://" in value', '"s3://" in value')),
    # --- submission ---------------------------------------------------------------------------------------------------
    *of("findings/errors.py", "disclosure",
        ("LEAST_PART = 3", "LEAST_PART = 5"),
        ("LEAST_PART = 3", "LEAST_PART = 2"),
        ("parts.append(self.without_beginning(part[::-1], self.backwards)[::-1])", "parts.append(part)"),
        ("return (before.isalpha() and after.isalpha()) or", "return"),
        ('TEXTS = ("where", "got", "expected", "fix")', 'TEXTS = ("where", "got", "fix")')),
    *of("files/submission/files.py", "submission_files",
        ('if ".." in parts:', 'if ".." == name:'),
        ('if "\\\\" in name:', "if False:"),
        ("if not name.isprintable():", "if False:"),
        ("if content.tell() != member.file_size:", "if False:"),
        ("if member.file_size > limits.archive_ratio * member.compress_size:", "if False:")),
    *of("files/decoding/streams.py", "submission_files",
        ("if member.header_offset < stop:", "if member.header_offset < before.header_offset:"),
        ("if size > self.most_bytes:", "if False:"),
        ("if members > self.most_members:", "if False:"),
        ("if lengths[1] > MOST_EXTRA_BYTES or EXTRA", "if EXTRA"),
        ("or EXTRA_SHARE * extra_bytes > self.most_bytes", "")),
    *of("files/submission/by_pattern.py", "layout jobs submission_files",
        ('challenge.submission.missing_case == "reject"', 'challenge.submission.missing_case != "reject"'),
        ('challenge.submission.missing_class_file == "empty"', 'challenge.submission.missing_class_file != "empty"')),
    *of("files/submission/jobs.py", "jobs",
        ("if job.status != SUCCEEDED:", "if job.status is None:"),
        ("if why := what_is_unsafe(relative):", 'if why := "":'),
        ("key=lambda item: item[0] not in names", "key=lambda item: item[0]")),
    # --- findings -----------------------------------------------------------------------------------------------------
    *of("findings/__init__.py", "findings",
        ("render(text, data) if own is None else own", "render(text, data)"),
        ("len(where) if total is None else total", "len(where)"),
        ("where[:EXAMPLES_SHOWN], {", "where, {"),
        ("rest.rpartition", "rest.partition"),
        ("yes if value else no", "yes"),
        ("isinstance(value, Collection) and format_spec and", "isinstance(value, Collection) and"),
        ("did_you_mean(rest, value)", "did_you_mean(format_spec, value)")),
]  # fmt: skip


# --- running them -----------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutants in whose line this text stands")
    parser.add_argument("--workers", type=int, default=int(os.environ.get("TEST_WORKERS", "2")))
    parser.add_argument("--check", action="store_true", help="only see whether every old text is there once")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in str(mutant)]
    if not chosen:
        parser.error(f"no mutant has {options.only!r} in its line")
    lost = [f"{mutant}: {fault}" for mutant in chosen if (fault := mutant.fault())]
    for line in lost:
        print(f"ERROR     {line}")
    if options.check:
        print(f"{len(chosen)} mutants, {len(lost)} errors")
        return 1 if lost else 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.workers):
            copies.put(copy_repository(Path(folder) / str(number)))
        tests = sorted({name for mutant in chosen for name in mutant.tests})
        code, told = run_tests(Path(folder) / "0", tests)
        if code:
            lost.append(f"the tests fail without a mutant:\n{told}")
            print(f"ERROR     {lost[-1]}", flush=True)
        with ThreadPoolExecutor(options.workers) as pool:
            survivors = []
            outcomes = pool.map(lambda mutant: is_killed(mutant, copies), chosen)
            for mutant, (noticed, seconds) in zip(chosen, outcomes, strict=True):
                print(f"{'killed  ' if noticed else 'SURVIVED'}  {seconds:4.0f} s  {mutant}", flush=True)
                survivors += [] if noticed else [mutant]
    killed = len(chosen) - len(survivors)
    print(f"{len(chosen)} mutants: {killed} killed, {len(survivors)} survived, {len(lost)} errors")
    return 1 if survivors or lost else 0


def copy_repository(folder: Path) -> Path:
    litter = shutil.ignore_patterns("__pycache__", ".*_cache", ".hypothesis", "fuzz-failures")
    folder.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=litter)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def run_tests(copy: Path, names: Sequence[str]) -> tuple[int, str]:
    """The exit code of pytest and what it printed."""
    paths = [TESTS[f"test_{name}"] for name in names]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{copy}:{copy / 'library'}:{copy / 'tests'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    slow, application = SLOW & {Path(path).name for path in paths}, any(path.startswith("tests/") for path in paths)
    fast = ("--fast",) if application and not slow else ()  # which would leave out all slow ones
    options = ("-x", "-q", *fast, "-p", "no:cacheprovider", "--no-header", "--tb=line")
    command = [sys.executable, "-P", "-c", PYTEST, *options, *paths]
    done = run_in_group(command, cpu_seconds=CPU_SECONDS, cwd=copy, env=environment)
    return done.returncode, done.stdout[-2000:] + done.stderr[-2000:]


def is_killed(mutant: Mutant, copies: SimpleQueue[Path]) -> tuple[bool, float]:
    """Whether a test fails, and how long that took. One that cannot be made survives."""
    if mutant.fault():
        return False, 0.0
    copy = copies.get()
    began = time.monotonic()
    path = copy / mutant.path
    text = path.read_text()
    try:
        path.write_text(text.replace(mutant.old, mutant.new))
        code, _ = run_tests(copy, mutant.tests)
    finally:
        path.write_text(text)
        copies.put(copy)
    return code < 0 or code in TESTS_FAILED, time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
