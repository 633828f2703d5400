"""The rules of ``hovernet_mat``: see ``evaluation.formats.hovernet_mat``."""

from __future__ import annotations

from typing import ClassVar, Literal

from evaluation.challenge.formats.rules import NumberedClasses


class HovernetMatRules(NumberedClasses):
    """MATLAB files of HoVer-Net."""

    format: Literal["hovernet_mat"]

    dense: ClassVar = True

    @property
    def tells_class(self) -> bool:
        return self.class_values is not None

    @property
    def zero_is_background(self) -> bool:
        return True
