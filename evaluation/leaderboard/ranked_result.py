"""The result of one submission with its place among stored ones, or the reason why it has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from evaluation.results.documents import put
from evaluation.results.schema import MetricsFile
from evaluation.scoring.score import Result

NO_STORED_RESULTS, UNRANKED = "no-stored-results", "unranked"


@dataclass(frozen=True)
class RankedResult(Result):
    """A result with the table ``leaderboard`` of metrics.json.

    ranks        the table
    not_ranked   why numbers in it are None, a tree like it
    """

    ranks: Mapping[str, Any] = field(default_factory=dict)
    not_ranked: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """metrics.json as nested tables, with the table ``leaderboard``."""
        scores = Result(**{item.name: getattr(self, item.name) for item in fields(Result)}).metrics
        document = {**scores, "leaderboard": dict(self.ranks)}
        if self.not_ranked:
            document["undefined"] = {**scores["undefined"], "leaderboard": dict(self.not_ranked)}
        MetricsFile.model_validate(document)
        return document


def with_ranks(result: Result, ranks: Mapping[str, Any], not_ranked: Mapping[str, Any]) -> RankedResult:
    return RankedResult(
        **{item.name: getattr(result, item.name) for item in fields(Result)}, ranks=ranks, not_ranked=not_ranked
    )


def without_place(result: Result, reason: str = NO_STORED_RESULTS) -> Result:
    """The result of a challenge that ranks but keeps no result to rank among; unchanged if it does not rank.

    Every number of ``leaderboard`` is None for the reason, but ``submissions``, which is 1.
    """
    rules = result.challenge.ranking
    if rules is None or not rules.columns:
        return result
    ranks: dict[str, Any] = {"submissions": 1}
    reasons: dict[str, Any] = {}
    for path in (("position",), ("sum_of_ranks",), *(("rank", *column.path.split(".")) for column in rules.columns)):
        put(ranks, path, None)
        put(reasons, path, reason)
    return with_ranks(result, ranks, reasons)
