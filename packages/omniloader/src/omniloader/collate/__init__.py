"""From a list of unified samples, or a :class:`UnifiedBatch`, to the plain dict a model gets."""

from typing import Any

from omniloader.collate.dynamic import DynamicCollator
from omniloader.collate.unified import unified_collate

__all__ = ["COLLATES", "DynamicCollator", "unified_collate"]

COLLATES: dict[str, Any] = {"unified": unified_collate, "dynamic": DynamicCollator}
"""Config name to collate function, or to a class that is built from the schema."""
