"""The rules of ``nary_mat``: see ``evaluation.formats.nary_mat``."""

from __future__ import annotations

from typing import ClassVar, Literal

from evaluation.challenge.formats.rules import ClassFiles


class NaryMatRules(ClassFiles):
    """MATLAB files with the labels in ``n_ary_mask``."""

    format: Literal["nary_mat"]

    dense: ClassVar = True
