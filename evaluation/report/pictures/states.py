"""The states of a nucleus that pictures show, and their colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

State = Literal["matched", "missed", "spurious", "wrong_class", "ignored", "contested"]
STATES: tuple[State, ...] = get_args(State)

# Okabe and Ito, "Color Universal Design" (2008), but for wrong_class, where theirs is the colour of stained tissue.
# Pictures keep them on light and on dark pages.
STATE_COLOURS: Mapping[State, str] = {
    "matched": "#009e73",
    "missed": "#e69f00",
    "spurious": "#56b4e9",
    "wrong_class": "#5b2a86",
    "ignored": "#999999",
    "contested": "#f0e442",
}
