"""Checks that a part of your own keeps the contracts, for use in your tests."""

from omniloader.testing.transforms import check_transform

__all__ = ["check_transform"]
