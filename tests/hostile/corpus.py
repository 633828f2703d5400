"""Hostile submissions, all made by code: what each of them is, and the code that it must get."""

from __future__ import annotations

from hostile.containers import CONTAINERS
from hostile.images import IMAGES
from hostile.record import Hostile
from hostile.texts import TEXTS

CORPUS: tuple[Hostile, ...] = (*TEXTS, *IMAGES, *CONTAINERS)
