"""Teams, rankings and leaderboards."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from findings.bench import Bench
from findings.registry import example_of

KIND = "label_image by class"
RANKING = {
    "method": "sum_of_ranks",
    "ties": "min",
    "significance_level": 0.05,
    "columns": [{"path": "detection.f1.group_mean", "direction": "descending"}],
}
SCORES = ("team,case,metric,value", "alpha,a,dice,0.5", "beta,a,dice,0.4")


def make(bench: Bench, **ranking: Any) -> None:
    bench.make(KIND, ranking=RANKING | ranking)


def one_submission(bench: Bench, name: str = "alpha") -> None:
    make(bench)
    shutil.copytree("submission", Path("submissions") / name)


def leaderboard(bench: Bench) -> str:
    return bench.run(
        "leaderboard", "--challenge", "challenge", "--submissions", "submissions", "--output", "board", "--workers", 1
    )


def ranked_results(bench: Bench, *more: str) -> str:
    return bench.run("rank", "--challenge", "challenge", "--results", "results", "--output", "board", *more)


def one_result(bench: Bench, **ranking: Any) -> dict[str, Any]:
    """The metrics.json of a scored submission."""
    make(bench, **ranking)
    bench.score("--workers", 1)
    metrics: dict[str, Any] = json.loads(Path("out/metrics.json").read_text())
    return metrics


def ranked_scores(bench: Bench, *rows: str) -> str:
    bench.write("scores.csv", "\n".join([*rows, ""]))
    return bench.run("rank", "--scores", "scores.csv", "--column", "dice:descending", "--output", "board")


@example_of("no-ranking")
def challenge_that_ranks_nothing(bench: Bench) -> str:
    bench.make(KIND)
    shutil.copytree("submission", "submissions/alpha")
    return leaderboard(bench)


@example_of("no-teams")
def empty_folder(bench: Bench) -> str:
    make(bench)
    Path("submissions").mkdir()
    return leaderboard(bench)


@example_of("invalid-team")
def name_with_a_number_sign(bench: Bench) -> str:
    one_submission(bench, "team#1")
    return leaderboard(bench)


@example_of("duplicate-team")
def folder_and_archive_of_a_team(bench: Bench) -> str:
    one_submission(bench)
    shutil.make_archive("submissions/alpha", "zip", "submission")
    return leaderboard(bench)


@example_of("not-metrics")
def another_json_file(bench: Bench) -> str:
    make(bench)
    bench.write("results/alpha.json", {"score": 0.5})
    return ranked_results(bench)


@example_of("different-challenges")
def result_under_other_rules(bench: Bench) -> str:
    metrics = one_result(bench)
    metrics["challenge"]["hash"] = "0" * 64
    bench.write("results/alpha.json", metrics)
    return ranked_results(bench)


@example_of("missing-units")
def means_only(bench: Bench) -> str:
    bench.write("results/alpha.json", one_result(bench, method="rank_then_aggregate"))
    return ranked_results(bench)


@example_of("missing-metric")
def another_name_of_the_metric(bench: Bench) -> str:
    return ranked_scores(bench, *[row.replace("dice", "Dice score") for row in SCORES])


@example_of("invalid-score")
def nan_as_text(bench: Bench) -> str:
    return ranked_scores(bench, *SCORES[:2], "beta,a,dice,NaN")


@example_of("incomplete-scores")
def case_left_out(bench: Bench) -> str:
    return ranked_scores(bench, *SCORES, "alpha,b,dice,0.1")


@example_of("unknown-entry")
def slip_in_the_name_of_an_entry_without_a_place(bench: Bench) -> str:
    make(bench, unranked=["alhpa"])
    shutil.copytree("submission", "submissions/alpha")
    return leaderboard(bench)


@example_of("unused-metric")
def another_metric(bench: Bench) -> str:
    return ranked_scores(bench, *SCORES, "alpha,a,time,3")


@example_of("wide-table")
def column_for_each_team(bench: Bench) -> str:
    Path("scores.csv").write_text("case,alpha,beta,age\na,0.5,0.4,61\nb,0.6,0.3,47\n")
    return bench.run("rank", "--scores", "scores.csv", "--column", "score:descending", "--output", "board")


@example_of("several-versions")
def result_of_an_older_version(bench: Bench) -> str:
    metrics = one_result(bench)
    for team, version in (("alpha", "0.1.0"), ("beta", "0.0.9")):
        bench.write(f"results/{team}.json", {**metrics, "software": metrics["software"] | {"version": version}})
    return ranked_results(bench)


@example_of("gameable-ranking")
def ranking_by_matched_pairs(bench: Bench) -> str:
    make(bench, columns=[{"path": "segmentation.iou.pooled", "direction": "descending"}])
    return bench.run("phase", "--challenge", "challenge")


@example_of("other-leaderboard")
def earlier_result_under_other_rules(bench: Bench) -> str:
    metrics = one_result(bench)
    metrics["challenge"]["hash"] = "0" * 64
    bench.write("challenge/leaderboard/alpha.json", metrics)
    bench.score("--workers", 1)
    return "\n".join(json.loads(Path("out/details.json").read_text())["findings"])
