"""What a value looks like, what a source provides, and the union of all sources."""

from omniloader.schema.dataset import DatasetSchema
from omniloader.schema.tensor import INDEX_KEYS, METADATA_KEYS, NONFINITE, TensorSpec, fits_dtype
from omniloader.schema.union import UnifiedSchema

__all__ = [
    "INDEX_KEYS",
    "METADATA_KEYS",
    "NONFINITE",
    "DatasetSchema",
    "TensorSpec",
    "UnifiedSchema",
    "fits_dtype",
]
