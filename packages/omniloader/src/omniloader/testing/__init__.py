"""Checks that a part of your own keeps the contracts, for use in your tests."""

from omniloader.testing.adapters import check_adapter
from omniloader.testing.batch_samplers import check_batch_sampler
from omniloader.testing.collators import check_collator
from omniloader.testing.strategies import check_strategy
from omniloader.testing.transforms import check_transform

__all__ = [
    "check_adapter",
    "check_batch_sampler",
    "check_collator",
    "check_strategy",
    "check_transform",
]
