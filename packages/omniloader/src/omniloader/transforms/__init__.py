"""Mask-aware, replayable changes of unified samples, one by one or a batch at once."""

from omniloader.transforms.augment import (
    FeatureDropout,
    FeatureMasking,
    GaussianNoise,
    SpanMasking,
    TimeWarp,
)
from omniloader.transforms.base import Compose, Draw, Transform
from omniloader.transforms.batched import BatchTransform, Stack
from omniloader.transforms.crop import CenterCrop, RandomCrop
from omniloader.transforms.image import ImageJitter
from omniloader.transforms.normalize import (
    InstanceNormalize,
    MinMaxNormalize,
    Normalize,
    PerDatasetNormalize,
    RobustNormalize,
)
from omniloader.transforms.registry import TRANSFORMS, build_transform

__all__ = [
    "TRANSFORMS",
    "BatchTransform",
    "CenterCrop",
    "Compose",
    "Draw",
    "FeatureDropout",
    "FeatureMasking",
    "GaussianNoise",
    "ImageJitter",
    "InstanceNormalize",
    "MinMaxNormalize",
    "Normalize",
    "PerDatasetNormalize",
    "RandomCrop",
    "RobustNormalize",
    "SpanMasking",
    "Stack",
    "TimeWarp",
    "Transform",
    "build_transform",
]
