"""The rules of ``colour_map``: see ``evaluation.formats.colour_map``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evaluation.challenge.base import contradiction
from evaluation.challenge.formats.rules import FormatRules, check_distinct

Colour = Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")]


class ColourMapRules(FormatRules):
    """PNG with a colour for each class.

    colours        the colour of each class, by class name
    border_colour  the colour of the borders drawn between nuclei
    border         what becomes of the pixels of borders
    """

    format: Literal["colour_map"]
    colours: dict[str, Colour]
    border_colour: Colour
    border: Literal["remove", "remove_and_dilate"]

    dense: ClassVar = True

    @model_validator(mode="after")
    def check_colours(self) -> Self:
        colours = [colour.lower() for colour in self.colours.values()]
        check_distinct("colours", colours)
        if "#000000" in {*colours, self.border_colour}:
            raise contradiction("colours", "black, which is the background", "other colours")
        if self.border_colour.lower() in colours:
            raise contradiction("border_colour", "the colour of a class", "a colour of its own")
        return self
