"""OmniLoader: sources, unification and transforms as one map-style dataset."""

from omniloader.loader.omni import OmniLoader

__all__ = ["OmniLoader"]
