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
from omniloader.transforms.mix import MixupCollator
from omniloader.transforms.normalize import (
    InstanceNormalize,
    MinMaxNormalize,
    Normalize,
    PerDatasetNormalize,
    RobustNormalize,
)
from omniloader.transforms.registry import TRANSFORMS, build_transform
from omniloader.transforms.stats import (
    FeatureStats,
    compute_dataset_stats,
    compute_feature_stats,
    compute_stats,
    load_stats,
    save_stats,
)

__all__ = [
    "TRANSFORMS",
    "BatchTransform",
    "CenterCrop",
    "Compose",
    "Draw",
    "FeatureDropout",
    "FeatureMasking",
    "FeatureStats",
    "GaussianNoise",
    "ImageJitter",
    "InstanceNormalize",
    "MinMaxNormalize",
    "MixupCollator",
    "Normalize",
    "PerDatasetNormalize",
    "RandomCrop",
    "RobustNormalize",
    "SpanMasking",
    "Stack",
    "TimeWarp",
    "Transform",
    "build_transform",
    "compute_dataset_stats",
    "compute_feature_stats",
    "compute_stats",
    "load_stats",
    "save_stats",
]
