"""What all tables of challenge.toml are made of."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict

from evaluation.findings import quote
from evaluation.model import Case


class RuleFault(ValueError):
    """What a validator finds: lines of "kind|key|what we got|what we expected", or with "|what to do".

    Bars in values are quoted away.
    """


class Rules(BaseModel):
    """A table of challenge.toml: unknown keys are refused, values are not converted, instances are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


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
        raise RuleFault(
            f"invalid|{key}|{quote(pattern).replace('|', '?')}|a pattern that holds {needed}no fields but {names}"
        )
    if pattern.startswith("/") or "\\" in pattern or ".." in pattern.split("/"):
        raise RuleFault(
            f"invalid|{key}|{quote(pattern).replace('|', '?')}|a relative path with '/' between its parts, without '..'"
        )
