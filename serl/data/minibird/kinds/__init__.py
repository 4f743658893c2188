"""All question kinds, by difficulty."""

from __future__ import annotations

from serl.data.minibird.kinds.challenging import CHALLENGING
from serl.data.minibird.kinds.kind import Kind
from serl.data.minibird.kinds.moderate import MODERATE
from serl.data.minibird.kinds.simple import SIMPLE

# Difficulty -> its share of the questions, and its kinds.
KINDS: dict[str, tuple[float, tuple[Kind, ...]]] = {
    "simple": (0.50, SIMPLE),
    "moderate": (0.35, MODERATE),
    "challenging": (0.15, CHALLENGING),
}
