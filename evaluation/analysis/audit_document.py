"""The audit as files: which variants there are, what they change, and whether the first place holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evaluation.leaderboard.document import number
from evaluation.leaderboard.team_scores import Unranked
from evaluation.model import Bool, Float64, Int64
from evaluation.results.csv_cells import csv_table
from evaluation.results.metrics_json import as_json
from evaluation.results.version import __version__

ORDERS_UP_TO = 100  # of which Kendall's tau between all is written

Verdict = Literal["yes", "untested", "undecided", "shared", "no", "one-team", "nothing-varied", "no-teams"]


@dataclass(frozen=True, slots=True)
class Dimension:
    """Something that is varied, and the values that it has.

    published  the value of the challenge itself; None if no variant is the published one
    """

    name: str
    values: tuple[str, ...]
    published: str | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What one dimension does alone: all pairs of variants that differ in it only are compared.

    comparisons   how many pairs of variants
    tau_mean, tau_low   of Kendall's tau-b between the two, None if it is never defined
    tau_undefined in how many it is not defined: all teams share a place in one of the two
    pairs_changed  mean share of the pairs of teams that stand otherwise in the other variant; always defined
    same_order    share of the comparisons in which every two teams stand as they do in the other variant
    first_changes in how many another team, or another number of teams, is first
    """

    dimension: str
    comparisons: int
    tau_mean: float | None
    tau_low: float | None
    same_order: float | None
    first_changes: int
    tau_undefined: int = 0
    pairs_changed: float | None = None


@dataclass(frozen=True, slots=True)
class TeamTrust:
    """Where a team stands in the variants of the rules.

    published  its place in the published variant, None: not ranked there, or no variant is published
    low, high  the best and the worst of its places, None if it is never ranked
    first      in how many variants it is first, and ``alone`` in how many nobody shares this
    credit     the same with shared first places in equal parts: those of all teams add up to the variants
    unranked   in how many it is not ranked
    when       which variants those are in which it is first, in words; "" for none and for all
    """

    name: str
    published: float | None
    low: float | None
    high: float | None
    first: int
    alone: int
    credit: float
    unranked: int
    when: str


@dataclass(frozen=True, slots=True)
class Swap:
    """Two teams that stand in one order in some variants and in the other order in others.

    ahead, behind  as in the published variant; else as in most
    turned, tied   in how many variants they stand the other way, and share a place
    rule           the dimension that turns them in the largest share of its comparisons; None if only changes of
                   several dimensions at once turn them
    share_by_rule  of all dimensions that are varied
    turned_when    which variants those are in which they stand the other way, in words
    """

    ahead: str
    behind: str
    turned: int
    tied: int
    rule: str | None
    share_by_rule: tuple[tuple[str, float], ...]
    turned_when: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two teams in a column, significant in one variant at least.

    tables        in how many variants of the scores (the method of the ranking has no part in it) it could be tested
    significant   in how many ``better`` is significantly better than ``worse``
    opposite      in how many it is significantly worse
    same_direction  in how many its value is the better one
    """

    column: str
    better: str
    worse: str
    tables: int
    significant: int
    opposite: int
    same_direction: int

    @property
    def survives(self) -> bool:
        """Whether it is significant, and in the same direction, in all variants."""
        return self.significant == self.same_direction == self.tables

    @property
    def is_robust(self) -> bool:
        """Whether it has one direction in all variants and is significant in half of them ("lessons from MoNuSAC")."""
        return self.same_direction == self.tables and 2 * self.significant >= self.tables and self.opposite == 0


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Kendall's tau-b between all variants.

    mean, low  over all pairs of variants in which it is defined (``defined``: their share); None if in none, or if
               there are too many different orders
    between    float64 (O, O) between the orders, None if they are many
    """

    mean: float | None
    low: float | None
    defined: float | None
    between: Float64 | None


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    """A ranking under other rules.

    verdict, answer   can the first place be defended, as a code and in words; of the variants of the rules
    robustness        the first place if the predictions of all teams are changed by one pixel, and without a patient
    by_rules          bool (V,), variants with predictions as they are and all patients. Trust, agreement, swaps and
                      the effects of rules are of these
    settings          int64 (V, D), the index of each variant's value in each dimension
    published         the index of the published variant, or None
    teams             (T,) that have a place in any variant
    position, combined  float64 (V, T); NaN where a team is not ranked
    order_of, orders  int64 (V,) which of the different orders, float64 (O, T), a variant has
    to_published      float64 (V,) Kendall's tau-b to the published variant, NaN where undefined or nothing is published
    notes             what is left out, and why
    """

    identity: Mapping[str, str]
    verdict: Verdict
    answer: tuple[str, ...]
    robustness: tuple[str, ...]
    by_rules: Bool
    dimensions: tuple[Dimension, ...]
    settings: Int64
    published: int | None
    teams: tuple[str, ...]
    position: Float64
    combined: Float64
    order_of: Int64
    orders: Float64
    to_published: Float64
    agreement: Agreement
    effects: tuple[Effect, ...]
    trust: tuple[TeamTrust, ...]
    swaps: tuple[Swap, ...]
    differences: tuple[Difference, ...]
    unranked: tuple[Unranked, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def variants(self) -> int:
        return len(self.settings)

    def setting(self, variant: int) -> dict[str, str]:
        """The values of a variant by the name of the dimension."""
        pairs = zip(self.dimensions, self.settings[variant].tolist(), strict=True)
        return {dimension.name: dimension.values[value] for dimension, value in pairs}


# --- files ------------------------------------------------------------------------------------------------------------


def audit_json(audit: Audit) -> str:
    """The content of audit.json: strict JSON, sorted keys, six decimals; the same bytes for the same audit."""
    return as_json(audit_document(audit))


def audit_document(audit: Audit) -> dict[str, Any]:
    """The content of audit.json. Names of teams and values of rules are values, never keys."""
    between = audit.agreement.between
    return {
        "first_place": {
            "defended": audit.verdict,
            "answer": list(audit.answer),
            "predictions": list(audit.robustness),
            "variants": int(audit.by_rules.sum()),
        },
        "challenge": dict(audit.identity) or None,
        "software": {"version": __version__},
        "dimensions": [
            {"name": dimension.name, "values": list(dimension.values), "published": dimension.published}
            for dimension in audit.dimensions
        ],
        "effects": [
            {
                "dimension": effect.dimension,
                "comparisons": effect.comparisons,
                "kendall_tau": {"mean": number(effect.tau_mean), "low": number(effect.tau_low)},
                "same_order": number(effect.same_order),
                "first_changes": effect.first_changes,
                "tau_undefined": effect.tau_undefined,
                "pairs_changed": number(effect.pairs_changed),
            }
            for effect in audit.effects
        ],
        "kendall_tau": {
            "mean": number(audit.agreement.mean),
            "low": number(audit.agreement.low),
            "defined": number(audit.agreement.defined),
            "between_orders": None if between is None else [[number(tau) for tau in row] for row in between.tolist()],
        },
        "teams": [
            {
                "name": team.name,
                "published": number(team.published),
                "places": None if team.low is None else {"low": number(team.low), "high": number(team.high)},
                "first": team.first,
                "first_alone": team.alone,
                "first_share": number(team.credit / max(int(audit.by_rules.sum()), 1)),
                "not_ranked": team.unranked,
                "first_when": team.when,
            }
            for team in audit.trust
        ],
        "swaps": [
            asdict(swap)
            | {"share_by_rule": [{"dimension": name, "share": number(of)} for name, of in swap.share_by_rule]}
            for swap in audit.swaps
        ],
        "significant_differences": [
            {**asdict(found), "survives": found.survives, "robust": found.is_robust} for found in audit.differences
        ],
        "orders": [
            [{"team": team, "position": number(index)} for team, index in zip(audit.teams, row, strict=True)]
            for row in audit.orders.tolist()
        ],
        "variants": [
            {
                "settings": [{"dimension": name, "value": value} for name, value in audit.setting(index).items()],
                "order": int(audit.order_of[index]),
                "published": index == audit.published,
                "kendall_tau_to_published": number(float(audit.to_published[index])),
            }
            for index in range(audit.variants)
        ],
        "not_ranked": [{"name": row.name, "code": row.code, "reason": row.reason} for row in audit.unranked],
        "notes": list(audit.notes),
    }


def audit_csv(audit: Audit) -> str:
    """The content of audit.csv: a row for each variant and team."""
    rows = []
    names = [dimension.name for dimension in audit.dimensions]
    for index in range(audit.variants):
        head = [index + 1, *audit.setting(index).values(), "yes" if index == audit.published else ""]
        for team, name in enumerate(audit.teams):
            places = (audit.position[index, team], audit.combined[index, team])
            rows.append([*head, name, *(number(float(value)) for value in places)])
    return csv_table(["variant", *names, "published", "team", "position", "combined"], rows)
