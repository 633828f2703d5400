"""Teams, rankings and leaderboards."""

from evaluation.findings.catalogue.explanation import Explanation

RANKINGS: dict[str, Explanation] = {
    "no-ranking": Explanation(
        title="challenge.toml does not say how teams are ranked",
        why="By which numbers, in which direction and how they are combined is for the organisers to decide; no "
        "order of teams is natural.",
        fix="Add the table [ranking] with a column at least. It changes no score.",
        example="[no-ranking] challenge.toml: ranking: no such table; expected a table with the columns that teams"
        " are ranked by. Add it, or start from a preset that ranks; docs/leaderboards.md shows one.",
    ),
    "no-teams": Explanation(
        title="There is nothing to rank",
        why="A leaderboard needs a folder with the submission or the result of every team.",
        fix="Name the folder that holds them all, also if there is only one.",
        example="[no-teams] 'submissions': no submission in it; expected a folder or a ZIP file for each team. "
        "Name the folder that holds the submissions, not one of them.",
    ),
    "invalid-team": Explanation(
        title="The name of a team cannot be used",
        why="It is the name of its folder or file, becomes that of the folder with its results, and is printed.",
        fix="Rename the folder or file; in a CSV file, correct the cell.",
        example="[invalid-team] 'team#1': the team 'team#1'; expected a name of letters, digits and any of ' "
        "_-.+@', up to 200. Rename the folder or file.",
    ),
    "duplicate-team": Explanation(
        title="A team is there twice",
        why="One result would replace the other. Names that differ in upper and lower case only count as the same,"
        " as some file systems take them for one.",
        fix="Keep one, or give every entry of a team a name of its own.",
        example="[duplicate-team] team 'alpha': 2 submissions of one team, 'alpha' and 'alpha.zip'; expected every"
        " team once. Keep one of them, or rename it: entries of a team are teams of their own.",
    ),
    "not-metrics": Explanation(
        title="A file is not the result that its name promises",
        why="Ranks are computed from metrics.json and, for each patient, from details.json. Another JSON file, or "
        "one that was edited, has other numbers at the same places, or none.",
        fix="Use the files as they were written.",
        example="[not-metrics] 'alpha.json': 'challenge' is wrong: field required; expected the metrics.json of a "
        "scored submission. Take the files that 'score' or the platform wrote, unchanged, and nothing "
        "else.",
    ),
    "different-challenges": Explanation(
        title="Results were made with different rules or cases",
        why="The hash in a result stands for the rules and cases it was made with. Numbers under different rules "
        "cannot be compared: the same predictions can be first under one and last under the other.",
        fix="Score these submissions again with the rules as they are, or rank with the challenge they were scored by.",
        example="[different-challenges] results: results with the hash 000000000000… in 'alpha'; expected results "
        "of this challenge, which has another hash. Equal hashes mean equal rules and cases. Score these "
        "submissions again with the rules as they are now.",
    ),
    "missing-units": Explanation(
        title="The ranking needs the values of every patient",
        why="Tests and ranks inside patients need more than means, and metrics.json holds means only.",
        fix="Rank result folders that hold details.json as well, or by a method that needs means only.",
        example="[missing-units] ranking: the method 'rank_then_aggregate', but of some team only the means are "
        "known; expected the values of every patient, for every team. Put the details.json of every team "
        "beside its metrics.json, or rank by the means alone: --set method=sum_of_ranks --set "
        "ex_aequo=false.",
    ),
    "missing-metric": Explanation(
        title="A file of scores lacks a metric that is ranked",
        why="Without rows no team has a value in that column.",
        fix="Correct the name of the column, or write the rows. Rows may name the path of a column, or that path "
        "without its last part.",
        example="[missing-metric] 'scores.csv': no row of the metric 'dice'; expected rows for every column, among"
        " 'Dice score'.",
    ),
    "invalid-score": Explanation(
        title="A score is not a number",
        why="Texts and infinite values have no rank.",
        fix="Write a plain decimal number, or leave the cell empty where the metric is undefined.",
        example="[invalid-score] 'scores.csv', line 3: the value 'NaN'; expected a finite number, or nothing where"
        " the metric is undefined.",
    ),
    "incomplete-scores": Explanation(
        title="A team lacks rows that other teams have",
        why="A mean over the other cases would reward leaving out the hard ones. So the team has no value in that "
        "column: it is last there, or not ranked, as the rule 'missing' says.",
        fix="Write the rows; with an empty value where the metric is undefined.",
        example="[incomplete-scores] 'scores.csv', team 'beta': no row for 1 of 2 cases in 'dice'; expected a row "
        "for every case that another team has. The team has no value in this column. Write rows with an "
        "empty value where it is undefined.",
        severity="warning",
    ),
    "unused-metric": Explanation(
        title="A file of scores has a metric that does not rank",
        why="Only the columns of the ranking are read.",
        fix="Name it as a column if it shall be ranked.",
        example="[unused-metric] 'scores.csv': rows of the metric 'time'; expected metrics that are ranked. They "
        "are left out; name it as a column if it shall be ranked.",
        severity="warning",
    ),
    "several-versions": Explanation(
        title="Results were made with different versions of the program",
        why="A release may change a score; the changelog says which do, under a heading of their own.",
        fix="Score all submissions with one version.",
        example="[several-versions] results: results of the versions '0.0.9' and '0.1.0'; expected results of one "
        "version of the program. Score all of them with the same image; docs/leaderboards.md tells how.",
        severity="warning",
    ),
    "gameable-ranking": Explanation(
        title="A ranking can be won by leaving nuclei out, or by copies",
        why="A score of matched pairs says how good those are that were found. Where it ranks, a team that keeps its "
        "easiest nuclei gains more than it loses in detection: in a made field the largest nucleus of each image "
        "alone won. A score that spurious nuclei do not touch is won by several guesses at each nucleus.",
        fix="New challenges start from the preset 'recommended'. A published ranking stays as it was published: show "
        "covered and overall scores beside it, and look at 'evaluation audit --tricks'.",
        example="[gameable-ranking] challenge.toml: ranking.columns: a missed nucleus costs nothing in "
        "'segmentation.iou.pooled'; expected columns that a missed nucleus makes worse. Rank as the preset "
        "'recommended' does, by detection.f1, covered.class_recall and covered.iou_class_mean with a floor on F1, and "
        "show these numbers beside it; docs/gaming.md tells what pays.",
        severity="warning",
    ),
    "other-leaderboard": Explanation(
        title="An earlier result is of another challenge",
        why="'score' ranks a submission among the results in the folder 'leaderboard' of the challenge. Those that"
        " were made with other rules or cases cannot be compared.",
        fix="Remove the file, or score that submission again.",
        example="[other-leaderboard] 'leaderboard/alpha.json': a result of 'Example of label_image by class' with "
        "the hash 000000000000…; expected results of this challenge, which has another hash. It is left "
        "out. Score the submission again with the rules as they are now.",
        severity="warning",
    ),
}
