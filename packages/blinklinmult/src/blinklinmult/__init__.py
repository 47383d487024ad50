"""The data layer of a blink-detection model."""

from blinklinmult._version import __version__

__all__ = ["__version__"]
