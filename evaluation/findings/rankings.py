"""Teams, rankings and leaderboards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluation.findings.kind import Kind, NotAmong
from evaluation.findings.words import listed


class NoRanking(Kind):
    """challenge.toml does not say how teams are ranked.

    The organisers decide which numbers rank, in which direction, and how they are combined; there is no default.

    Add the table [ranking] with a column at least. It changes no score.

    [no-ranking] challenge.toml: ranking: no such table; expected a table with the columns that teams are ranked by. Add
    it, or start from a preset that ranks; docs/leaderboards.md shows one.
    """

    code = "no-ranking"
    got = "no such table"
    expected = "a table with the columns that teams are ranked by"
    fix = "Add it, or start from a preset that ranks; docs/leaderboards.md shows one."


class NoRankingColumns(NoRanking):
    got = "no columns"


class NoTeams(Kind):
    """There is nothing to rank.

    A leaderboard needs a folder with the submission or the result of every team.

    Name the folder that holds them all, also if there is only one.

    [no-teams] 'submissions': no submission in it; expected a folder or a ZIP file for each team. Name the folder that
    holds the submissions, not one of them.
    """

    code = "no-teams"
    got = "no submission in it"
    expected = "a folder or a ZIP file for each team"
    fix = "Name the folder that holds the submissions, not one of them."


class NoTeamsInResults(NoTeams):
    got = "no result in it"
    expected = "the metrics.json of every team"
    fix = "Name the folder that 'score' or 'leaderboard' wrote, or one with the platform's files."


class NoTeamsInScores(NoTeams):
    got = "no row with a metric that is ranked"
    expected = "a row for every team and case"
    fix = ""


class InvalidTeam(Kind):
    """The name of a team cannot be used.

    It is the name of its folder or file, becomes that of the folder with its results, and is printed.

    Rename the folder or file; in a CSV file, correct the cell.

    [invalid-team] 'team#1': the team 'team#1'; expected a name of letters, digits and any of ' _-.+@', up to 200.
    Rename the folder or file.
    """

    code = "invalid-team"
    got = "the team {name:quoted}"
    expected = "a name of letters, digits and any of ' _-.+@', up to 200"
    fix = "Rename the folder or file."

    name: str


class UnprintableTeam(InvalidTeam):
    expected = "a printable name of up to {limit} characters"
    fix = ""

    limit: int


class DuplicateTeam(Kind):
    """A team is there twice.

    One result would replace the other. Names that differ in upper and lower case only count as the same, as some file
    systems take them for one.

    Keep one, or give every entry of a team a name of its own.

    [duplicate-team] team 'alpha': 2 submissions of one team, 'alpha' and 'alpha.zip'; expected every team once. Keep
    one of them, or rename it: entries of a team are teams of their own.
    """

    code = "duplicate-team"
    got = "{count} submissions of one team, {sources:joined}"
    expected = "every team once"
    fix = "Keep one of them, or rename it: entries of a team are teams of their own."

    sources: Sequence[str]

    @property
    def count(self) -> int:
        return len(self.sources)


class NotMetrics(Kind):
    """A file is not the result that its name says.

    Ranks are computed from metrics.json and, for each patient, from details.json. Another JSON file, or one that was
    edited, has other numbers at the same places, or none.

    Use the files as they were written.

    [not-metrics] 'alpha.json': 'challenge' is wrong: field required; expected the metrics.json of a scored submission.
    Take the files that 'score' or the platform wrote, unchanged, and nothing else.
    """

    code = "not-metrics"
    got = "{why}"
    expected = "the metrics.json of a scored submission"
    fix = "Take the files that 'score' or the platform wrote, unchanged, and nothing else."

    why: str


class NotBoard(NotMetrics):
    expected = "a leaderboard.json of this program"
    fix = "Take the file that 'leaderboard' or 'rank' wrote, unchanged."


class NotItsDetails(NotMetrics):
    expected = "the details.json that was written with {metrics}"

    metrics: str = "it"


class NotItsResult(NotMetrics):
    expected = "the result of this submission, scored by this version"


class NotOurForm(NotMetrics):
    got = "not of the form that this program writes"
    expected = "the {why} that this program wrote"


class NoDocument(NotMetrics):
    expected = "the folder that score, leaderboard, rank, audit or sensitivity wrote to"
    fix = ""


class DifferentChallenges(Kind):
    """Results were made with different rules or cases.

    The hash in a result stands for the rules and cases it was made with. Numbers under different rules cannot be
    compared: the same predictions can be first under one and last under the other.

    Score these submissions again with the rules as they are, or rank with the challenge they were scored by.

    [different-challenges] results: results with the hash 000000000000… in 'alpha'; expected results of this challenge,
    which has another hash. Equal hashes mean equal rules and cases. Score these submissions again with the rules as
    they are now.
    """

    code = "different-challenges"
    got = "the hash {hash:.12}…"
    expected = "a result of this challenge, which has another hash"
    fix = "Score the submission again with the rules as they are now."

    hash: str


class SeveralHashes(Kind):
    code = DifferentChallenges.code
    got = "results with the hash {named}{more}"
    expected = "results of this challenge, which has another hash"
    fix = "Equal hashes mean equal rules and cases. Score these submissions again with the rules as they are now."

    teams_by_hash: Mapping[str, Sequence[str]]

    @property
    def named(self) -> str:
        first = list(self.teams_by_hash.items())[:5]
        return "; ".join(f"{hash[:12]}… in {listed(teams, 3, last='and')}" for hash, teams in first)

    @property
    def more(self) -> str:
        return f"; and {len(self.teams_by_hash) - 5} more" if len(self.teams_by_hash) > 5 else ""


class MissingUnits(Kind):
    """The ranking needs the values of every patient.

    Tests and ranks inside patients need more than means, and metrics.json holds means only.

    Rank result folders that hold details.json as well, or by a method that needs means only.

    [missing-units] ranking: the method 'rank_then_aggregate', but of some team only the means are known; expected the
    values of every patient, for every team. Put the details.json of every team beside its metrics.json, or rank by the
    means alone: --set method=sum_of_ranks --set ex_aequo=false.
    """

    code = "missing-units"
    got = "{rule}, but of some team only the means are known"
    expected = "the values of every patient, for every team"
    fix = (
        "Put the details.json of every team beside its metrics.json, or rank by the means alone: "
        "--set method=sum_of_ranks --set ex_aequo=false."
    )

    rule: str


class MissingMetric(NotAmong):
    """A file of scores lacks a metric that is ranked.

    Without rows no team has a value in that column.

    Correct the name of the column, or write the rows. Rows may name the path of a column, or that path without its last
    part.

    [missing-metric] 'scores.csv': no row of the metric 'dice'; expected rows for every column, among 'Dice score'.
    """

    code = "missing-metric"
    got = "no row of the metric {name:quoted 120}"
    expected = "rows for every column{among}"

    @property
    def among(self) -> str:
        return f", among {listed(self.known)}" if self.known else ""


class FloorWithoutScores(Kind):
    code = MissingMetric.code
    got = "{path:quoted 120}"
    expected = "floors on columns that are ranked, since a table of scores has no other numbers"

    path: str


class InvalidScore(Kind):
    """A score is not a number.

    Texts and infinite values have no rank.

    Write a plain decimal number, or leave the cell empty where the metric is undefined.

    [invalid-score] 'scores.csv', line 3: the value 'NaN'; expected a finite number, or nothing where the metric is
    undefined.
    """

    code = "invalid-score"
    got = "the value {value:quoted}"
    expected = "a finite number, or nothing where the metric is undefined"

    value: str


class IncompleteScores(Kind):
    """A team lacks values that other teams have.

    A row that is missing and an empty cell are the same. A mean over the other cases would reward leaving out the hard
    ones. So the rule 'missing' says what becomes of it: the worst value of any team takes the place ('worst'), the team
    is not ranked ('unranked'), or the case counts for no team in that column ('complete_cases').

    Write a value for every case.

    [incomplete-scores] 'scores.csv', team 'beta': no value for 1 of 2 cases in 'dice'; expected a value for every case
    that another team has one for. 0.1 takes their place, the worst value of any team.
    """

    code = "incomplete-scores"
    severity = "warning"
    got = "no value for {lacking:,} of {cases:,} cases in {path:quoted 120}"
    expected = "a value for every case that another team has one for"
    fix = "{consequence}."

    lacking: int
    cases: int
    path: str
    consequence: str


class UnusedMetric(Kind):
    """A file of scores has a metric that does not rank.

    Only the columns of the ranking are read.

    Name it as a column if it shall be ranked.

    [unused-metric] 'scores.csv': rows of the metric 'time'; expected metrics that are ranked. They are left out; name
    it as a column if it shall be ranked.
    """

    code = "unused-metric"
    severity = "warning"
    got = "rows of the metric {metric:quoted}"
    expected = "metrics that are ranked"
    fix = "They are left out; name it as a column if it shall be ranked."

    metric: str


class UnknownEntry(NotAmong):
    """An entry that shall not be ranked is not there.

    Entries that ranking.unranked names are shown without a place. A name with a slip names nobody, and the entry that
    was meant is ranked among the teams.

    Write the name as that of the folder or file; an entry that comes later needs nothing.

    [unknown-entry] challenge.toml: ranking.unranked: 'alhpa' is no entry; expected 'alpha'. Did you mean 'alpha'?
    """

    code = "unknown-entry"
    severity = "warning"
    got = "{name:quoted} is no entry"


class SeveralVersions(Kind):
    """Results were made with different versions of the program.

    A release may change a score; the changelog says which do, under a heading of their own.

    Score all submissions with one version.

    [several-versions] results: results of the versions '0.0.9' and '0.1.0'; expected results of one version of the
    program. Score all of them with the same image; docs/leaderboards.md tells how.
    """

    code = "several-versions"
    severity = "warning"
    got = "results of the versions {versions:joined}"
    expected = "results of one version of the program"
    fix = "Score all of them with the same image; docs/leaderboards.md tells how."

    versions: Sequence[str]


class GameableRanking(Kind):
    """A ranking can be won by leaving nuclei out, or by copies.

    A score of matched pairs says how good those are that were found. Where it ranks, a team that keeps its easiest
    nuclei gains more than it loses in detection: in a made field the largest nucleus of each image alone won. A score
    that spurious nuclei do not touch is won by several guesses at each nucleus.

    New challenges start from the preset 'recommended'. A published ranking stays as it was published: show covered and
    overall scores beside it, and look at 'evaluation audit --tricks'.

    [gameable-ranking] challenge.toml: ranking.columns: a missed nucleus costs nothing in 'segmentation.iou.pooled';
    expected columns that a missed nucleus makes worse. Rank as the preset 'recommended' does, by detection.f1,
    covered.class_recall and covered.iou_class_mean with a floor on F1, and show these numbers beside it; docs/gaming.md
    tells what pays.
    """

    code = "gameable-ranking"
    severity = "warning"
    got = "a missed nucleus costs nothing in {paths:joined}"
    expected = "columns that a missed nucleus makes worse"
    fix = (
        "Rank as the preset 'recommended' does, by detection.f1, covered.class_recall and covered.iou_class_mean with "
        "a floor on F1, and show these numbers beside it; docs/gaming.md tells what pays."
    )

    paths: Sequence[str]


class CopiesPay(GameableRanking):
    code = GameableRanking.code
    got = "a spurious nucleus costs nothing in {paths:joined}, and no floor is asked for"
    expected = "a floor on a score that spurious nuclei make worse"
    fix = 'Add require = [{{ path = "detection.f1.group_mean", at_least = 0.5 }}] to [ranking].'


class FloorForCopies(GameableRanking):
    code = GameableRanking.code
    got = "a floor on {paths:joined}, which copies of nuclei pass"
    expected = "a floor on a score that missed and spurious nuclei make worse"
    fix = "Put it on detection.f1."


class OtherLeaderboard(Kind):
    """An earlier result is of another challenge.

    'score' ranks a submission among the results in the folder 'leaderboard' of the challenge. Those that were made with
    other rules or cases cannot be compared.

    Remove the file, or score that submission again.

    [other-leaderboard] 'leaderboard/alpha.json': a result of 'Example of label_image by class' with the hash
    000000000000…; expected results of this challenge, which has another hash. It is left out. Score the submission
    again with the rules as they are now.
    """

    code = "other-leaderboard"
    severity = "warning"
    got = "a result of {challenge:quoted} with the hash {hash:.12}…"
    expected = "results of this challenge, which has another hash"
    fix = "It is left out. Score the submission again with the rules as they are now."

    challenge: str
    hash: str


class BrokenResult(Kind):
    code = OtherLeaderboard.code
    severity = "warning"
    got = "{found}"
    expected = "the metrics.json of an earlier submission to this challenge"
    fix = "It is left out. Store the file again as it was written."

    found: str


class ClosedLeaderboard(Kind):
    code = OtherLeaderboard.code
    severity = "warning"
    got = "permission denied"
    expected = "a folder that everybody may read"
    fix = "The submission has no place. Pack the ground truth again."


KINDS = (
    NoRanking,
    NoTeams,
    InvalidTeam,
    DuplicateTeam,
    NotMetrics,
    DifferentChallenges,
    MissingUnits,
    MissingMetric,
    InvalidScore,
    IncompleteScores,
    UnusedMetric,
    SeveralVersions,
    UnknownEntry,
    GameableRanking,
    OtherLeaderboard,
)
