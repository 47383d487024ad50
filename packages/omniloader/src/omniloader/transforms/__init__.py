"""Mask-aware, replayable changes of unified samples, one by one or a batch at once."""

from omniloader.transforms.augment import GaussianNoise
from omniloader.transforms.base import Compose, Draw, Transform
from omniloader.transforms.normalize import MinMaxNormalize, Normalize, RobustNormalize

__all__ = [
    "Compose",
    "Draw",
    "GaussianNoise",
    "MinMaxNormalize",
    "Normalize",
    "RobustNormalize",
    "Transform",
]
