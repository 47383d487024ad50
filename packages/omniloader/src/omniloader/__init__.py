"""Joint training on datasets that annotate different things: one masked, batchable scheme."""

from omniloader._version import __version__

__all__ = ["__version__"]
