"""What all tables of challenge.toml are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from evaluation.findings import Finding, fault, quote
from evaluation.model import Case


class RuleFault(ValueError):
    """Faults that a validator found. The ``where`` of a finding is a key of its table, or "" for the value itself."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__(*findings)
        self.findings = findings

    def __str__(self) -> str:
        return "; ".join(map(str, self.findings))


def invalid(key: str, got: str, expected: str) -> RuleFault:
    """The fault of a value that a rule cannot have."""
    return RuleFault(fault("invalid-rule", key, got=got, expected=expected))


def contradiction(key: str, got: str, expected: str) -> RuleFault:
    """The fault of a value that contradicts another one, or makes no sense."""
    return RuleFault(fault("contradictory-rules", key, got=got, expected=expected))


def faults_of(error: Any, location: Iterable[object]) -> list[Finding]:
    """One error of pydantic as findings, each at its key below a location in the document."""
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, RuleFault):
        return [replace(each, where=dotted(*location, each.where)) for each in cause.findings]
    if error["type"] == "missing":
        return [fault("missing-rule", dotted(*location))]
    expected = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    allowed = expected[0].lower() + expected[1:]
    return [fault("invalid-rule", dotted(*location), got=quote(error.get("input")), expected=allowed)]


def check_distinct(key: str, values: Sequence[object]) -> None:
    """Refuse what stands in a list twice, or for two things."""
    if len(set(values)) < len(values):
        raise contradiction(key, "the same value twice", "every value once")


def check_decimals(value: float) -> float:
    """Refuse a number with more than six decimals."""
    if round(value, 6) != value:
        raise invalid("", f"{value!r}", "a number of at most six decimals, to compare exactly")
    return value


SIX_DECIMALS = AfterValidator(check_decimals)
Threshold = Annotated[float, Field(ge=0, lt=1), SIX_DECIMALS]


def dotted(*keys: object) -> str:
    return ".".join(str(key) for key in keys if key != "")


class Rules(BaseModel):
    """A table of challenge.toml: unknown keys are refused, values are not converted, instances are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)


def filled(pattern: str, case: Case, class_name: str = "") -> str:
    """A pattern with the names of a case, and of a class, in it."""
    return pattern.replace("{case}", case.name).replace("{group}", case.group).replace("{class}", class_name)


def check_pattern(pattern: str, key: str, *, required: set[str], allowed: set[str]) -> None:
    """Refuse a file pattern that could not be filled in, or that leaves its folder."""
    fields = set(re.findall(r"\{([^{}]*)\}", pattern))
    rest = re.sub(r"\{[^{}]*\}", "", pattern)
    if not required <= fields <= allowed or set("{}") & set(rest):
        names = ", ".join(f"{{{name}}}" for name in sorted(allowed))
        needed = "".join(f"{{{name}}} and " for name in sorted(required))
        raise invalid(key, quote(pattern), f"a pattern that holds {needed}no fields but {names}")
    if pattern.startswith("/") or "\\" in pattern or ".." in pattern.split("/"):
        raise invalid(key, quote(pattern), "a relative path with '/' between its parts, without '..'")
