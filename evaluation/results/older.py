"""Documents of version 0.1 in the form that they have today."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from evaluation.challenge import Challenge
from evaluation.challenge.definition import models_in

NOW_CALLED = {"charged": "penalised"}


def details_of_today(details: dict[str, Any]) -> dict[str, Any]:
    """A details.json with today's names, and with rules that were not known then as they were in effect."""
    if details.get("software", {}).get("version") != "0.1.0":
        return details
    rules = with_defaults(Challenge, details["challenge"]["rules"])
    return {**details, "challenge": {**details["challenge"], "rules": rules}, "means": renamed(details["means"])}


def with_defaults(model: type[BaseModel], table: dict[str, Any]) -> dict[str, Any]:
    """A table of rules with the keys that it lacks, also inside; formats and matching rules as they are."""
    found = dict(table)
    for key, field in model.model_fields.items():
        inner = list(models_in(field.annotation))
        if key not in table and not field.is_required():
            default = field.get_default(call_default_factory=True)
            found[key] = default.model_dump(mode="json") if isinstance(default, BaseModel) else default
        elif len(inner) == 1 and isinstance(value := table.get(key), dict):
            found[key] = with_defaults(inner[0], value)
        elif len(inner) == 1 and isinstance(value, list):
            found[key] = [with_defaults(inner[0], each) for each in value]
    return found


def renamed(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    return {NOW_CALLED.get(key, key): renamed(value) for key, value in tree.items()}
