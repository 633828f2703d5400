"""The audit as files and as tables: which variants there are, what they change, and whether the first place holds."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich import box
from rich.markup import escape
from rich.table import Table

from evaluation.findings import quote
from evaluation.leaderboard.document import UnrankedRow, interval, number, percent, safe, shown, unranked_lines
from evaluation.model import Float64, Int64
from evaluation.results.metrics_json import as_json

ORDERS_UP_TO = 100  # of which Kendall's tau between all is written
LINES_UP_TO = 8

Verdict = Literal["yes", "shared", "no", "one-team", "nothing-varied", "no-teams"]


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
    same_order    share of the comparisons in which every two teams stand as they do in the other variant
    first_changes in how many another team, or another number of teams, is first
    """

    dimension: str
    comparisons: int
    tau_mean: float | None
    tau_low: float | None
    same_order: float | None
    first_changes: int


@dataclass(frozen=True, slots=True)
class TeamTrust:
    """Where a team stands in the variants.

    published  its place in the published variant, None: not ranked there, or no variant is published
    low, high  the best and the worst of its places, None if it is never ranked
    first      in how many variants it is first, and ``alone`` in how many nobody shares this
    unranked   in how many it is not ranked
    when       which variants those are in which it is first, in words; "" for none and for all
    """

    name: str
    published: float | None
    low: float | None
    high: float | None
    first: int
    alone: int
    unranked: int
    when: str


@dataclass(frozen=True, slots=True)
class Swap:
    """Two teams that stand in one order in some variants and in the other order in others.

    ahead, behind  as in the published variant; else as in most
    turned, tied   in how many variants they stand the other way, and share a place
    rule           the dimension that turns them in the largest share of its comparisons; None if only changes of
                   several dimensions at once turn them
    shares         of all dimensions that are varied
    when           which variants those are in which they stand the other way, in words
    """

    ahead: str
    behind: str
    turned: int
    tied: int
    rule: str | None
    shares: tuple[tuple[str, float], ...]
    when: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two teams in a column, significant in one variant at least.

    tables        in how many variants of the scores (the method of the ranking has no part in it) it could be tested
    significant   in how many ``better`` is significantly better than ``worse``
    opposite      in how many it is significantly worse
    same          in how many its value is the better one
    """

    column: str
    better: str
    worse: str
    tables: int
    significant: int
    opposite: int
    same: int

    @property
    def survives(self) -> bool:
        """Whether it is significant, and in the same direction, in all variants."""
        return self.significant == self.same == self.tables

    @property
    def is_robust(self) -> bool:
        """Whether it has one direction in all variants and is significant in half of them ("lessons from MoNuSAC")."""
        return self.same == self.tables and 2 * self.significant >= self.tables and self.opposite == 0


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
    """What becomes of a ranking under other rules.

    verdict, answer   can the first place be defended, as a code and in words
    settings          int64 (V, D), the place of each variant's value in each dimension
    published         the place of the published variant, or None
    teams             (T,) that have a place in any variant
    position, combined  float64 (V, T); NaN where a team is not ranked
    order_of, orders  int64 (V,) which of the different orders, float64 (O, T), a variant has
    to_published      float64 (V,) Kendall's tau-b to the published variant, NaN where undefined or nothing is published
    notes             what is left out, and why
    """

    title: str
    identity: Mapping[str, str]
    software_version: str
    verdict: Verdict
    answer: tuple[str, ...]
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
    unranked: tuple[UnrankedRow, ...] = ()
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
        "first_place": {"defended": audit.verdict, "answer": list(audit.answer)},
        "challenge": dict(audit.identity) or None,
        "software": {"version": audit.software_version},
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
                "not_ranked": team.unranked,
                "first_when": team.when,
            }
            for team in audit.trust
        ],
        "swaps": [
            {
                "ahead": swap.ahead,
                "behind": swap.behind,
                "turned": swap.turned,
                "tied": swap.tied,
                "rule": swap.rule,
                "share_by_rule": [{"dimension": name, "share": number(share)} for name, share in swap.shares],
                "turned_when": swap.when,
            }
            for swap in audit.swaps
        ],
        "significant_differences": [
            {
                "column": found.column,
                "better": found.better,
                "worse": found.worse,
                "tables": found.tables,
                "significant": found.significant,
                "opposite": found.opposite,
                "same_direction": found.same,
                "survives": found.survives,
                "robust": found.is_robust,
            }
            for found in audit.differences
        ],
        "orders": [
            [{"team": team, "position": number(place)} for team, place in zip(audit.teams, row, strict=True)]
            for row in audit.orders.tolist()
        ],
        "variants": [
            {
                "settings": [{"dimension": name, "value": value} for name, value in audit.setting(place).items()],
                "order": int(audit.order_of[place]),
                "published": place == audit.published,
                "kendall_tau_to_published": number(float(audit.to_published[place])),
            }
            for place in range(audit.variants)
        ],
        "not_ranked": [{"name": row.name, "code": row.code, "reason": row.reason} for row in audit.unranked],
        "notes": list(audit.notes),
    }


def audit_csv(audit: Audit) -> str:
    """The content of audit.csv: a row for each variant and team."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [dimension.name for dimension in audit.dimensions]
    writer.writerow(["variant", *names, "published", "team", "position", "combined"])
    for place in range(audit.variants):
        head = [place + 1, *audit.setting(place).values(), "yes" if place == audit.published else ""]
        for team, name in enumerate(audit.teams):
            places = (audit.position[place, team], audit.combined[place, team])
            writer.writerow([*head, name, *(number(float(value)) for value in places)])
    return text.getvalue()


# --- what people see --------------------------------------------------------------------------------------------------


def plain_table(title: str) -> Table:
    return Table(
        title=escape(title),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        title_justify="left",
        title_style="bold",
    )


def team_table(audit: Audit) -> Table:
    """The teams: their published place, their places in all variants, and how often they are first."""
    table = plain_table(f"Places in {plural(audit.variants, 'variant')}")
    for heading in ("#", "team", "places", "first"):
        table.add_column(heading, justify="left" if heading == "team" else "right")
    for team in audit.trust:
        places = "–" if team.low is None else interval(team.low, team.high)
        table.add_row(shown(team.published), safe(team.name), places, percent(team.first / audit.variants))
    for row in audit.unranked:
        table.add_row("–", safe(row.name), "", "", style="dim")
    return table


def effect_table(audit: Audit) -> Table:
    """What each dimension does alone, the one that moves the order most first."""
    table = plain_table("What one rule changes, all others equal")
    for heading in ("rule", "values", "tau", "lowest", "same order", "first changes"):
        table.add_column(heading, justify="left" if heading in ("rule", "values") else "right")
    by_name = {dimension.name: dimension for dimension in audit.dimensions}
    for effect in strongest(audit.effects):
        if effect.comparisons == 0:
            continue
        changes = f"{effect.first_changes:,} of {effect.comparisons:,}"
        values = escape(", ".join(by_name[effect.dimension].values))
        taus = (decimal(effect.tau_mean), decimal(effect.tau_low), percent(effect.same_order))
        table.add_row(effect.dimension, values, *taus, changes)
    return table


def strongest(effects: Sequence[Effect]) -> list[Effect]:
    """Effects from the strongest to the weakest: by mean tau, the first place, and their names."""

    def strength(effect: Effect) -> tuple[float, float, str]:
        tau = 2.0 if effect.tau_mean is None else effect.tau_mean
        return tau, -effect.first_changes / max(effect.comparisons, 1), effect.dimension

    return sorted(effects, key=strength)


def decimal(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def audit_lines(audit: Audit) -> list[str]:
    """What the tables do not show: which teams swap and why, which differences survive, what is left out."""
    lines = []
    if audit.agreement.mean is not None:
        lines.append(
            f"Kendall's tau between all {audit.variants:,} variants: {audit.agreement.mean:.2f} in the mean, "
            f"{decimal(audit.agreement.low)} at the lowest; {plural(len(audit.orders), 'different order')}."
        )
    lines += [swap_line(audit, swap) for swap in audit.swaps[:LINES_UP_TO]]
    if len(audit.swaps) > LINES_UP_TO:
        lines.append(
            f"and {len(audit.swaps) - LINES_UP_TO:,} more pairs of teams that swap; audit.json has all of them."
        )
    lines += difference_lines(audit)
    lines += unranked_lines(audit.unranked)
    if len(audit.unranked) > 20:
        lines.append(f"and {len(audit.unranked) - 20:,} more that are not ranked; audit.json has all of them.")
    return [*lines, *audit.notes]


def swap_line(audit: Audit, swap: Swap) -> str:
    by = f"by the {swap.rule} more than by any other rule" if swap.rule else "only by changes of several rules at once"
    return (
        f"{quote(swap.behind, 40)} passes {quote(swap.ahead, 40)} in {swap.turned:,} of {audit.variants:,} variants "
        f"({swap.when}); {by}."
    )


def difference_lines(audit: Audit) -> list[str]:
    """Which significant differences are there in all variants, column by column."""
    if not audit.differences:
        return ["No difference between two teams is significant in any variant, or none could be tested."]
    lines = []
    surviving = [found for found in audit.differences if found.survives]
    robust = [found for found in audit.differences if found.is_robust and not found.survives]
    for found in surviving[:LINES_UP_TO]:
        lines.append(
            f"{found.column}: {quote(found.better, 40)} is significantly better than {quote(found.worse, 40)} in all "
            f"{found.tables:,} variants."
        )
    for found in robust[: max(LINES_UP_TO - len(surviving), 0)]:
        lines.append(
            f"{found.column}: {quote(found.better, 40)} is better than {quote(found.worse, 40)} in all "
            f"{found.tables:,} variants, significantly in {found.significant:,}."
        )
    rest = len(audit.differences) - len(lines)
    if rest:
        what = "differences are significant" if rest != 1 else "difference is significant"
        lines.append(f"{rest:,} {'more ' if lines else ''}{what} in some variants; audit.json has all of them.")
    return lines


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
