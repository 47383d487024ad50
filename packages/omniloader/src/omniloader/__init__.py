"""Train one model on many datasets that annotate different things.

Each dataset is brought to one masked, batchable scheme (every key always there, a ``<name>_mask``
that says what is real), mixed with the others, transformed with respect to the masks and fed to
an ordinary PyTorch ``DataLoader``::

    omni = OmniLoader([faces, speech], [faces_schema, speech_schema])
    sampler = omni.make_sampler(TemperatureStrategy(omni.dataset_sizes, temperature=2.0))
    loader = DataLoader(omni, batch_size=8, sampler=sampler, collate_fn=unified_collate)

or, from one file, ``OmniConfig.from_file("config.yaml").build_dataloader()``.
"""

import typing

from omniloader._version import __version__
from omniloader.collate import DynamicCollator, unified_collate
from omniloader.data.datasets import DictTensorDataset, HDF5Dataset
from omniloader.data.factory import build_datasets, register_adapter
from omniloader.data.npy import NpyFolderDataset
from omniloader.data.splits import load_split_info, save_split_info, split_indices
from omniloader.errors import (
    ConfigError,
    OmniError,
    PlanError,
    SampleError,
    SchemaError,
    SourceError,
    StateError,
    StatsError,
)
from omniloader.introspection import Report, describe, validate
from omniloader.loader import OmniLoader
from omniloader.masks import key_padding_mask
from omniloader.sampling.batches import OmniBatchSampler
from omniloader.sampling.bucketing import LengthBucketBatchSampler
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.strategies import (
    AnnealedTemperatureStrategy,
    FixedWeightStrategy,
    MixingStrategy,
    ProportionalStrategy,
    RoundRobinStrategy,
    TemperatureStrategy,
)
from omniloader.sampling.subsamplers import ExhaustionPolicy, IndexPool, SubsampleConfig
from omniloader.sampling.weights import (
    class_histogram,
    class_weights_for_loss,
    class_weights_for_sampler,
    positive_weights_for_loss,
)
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema
from omniloader.schema.unify import SampleUnifier
from omniloader.templates import config_template_path
from omniloader.transforms import (
    CenterCrop,
    Compose,
    FeatureDropout,
    FeatureMasking,
    GaussianNoise,
    InstanceNormalize,
    MinMaxNormalize,
    Normalize,
    PerDatasetNormalize,
    RandomCrop,
    RobustNormalize,
    SpanMasking,
    TimeWarp,
    Transform,
    build_transform,
)
from omniloader.transforms.mix import MixupCollator
from omniloader.transforms.stats import (
    compute_dataset_stats,
    compute_feature_stats,
    compute_stats,
    load_stats,
    save_stats,
)
from omniloader.utils.seeding import seed_everything, seed_worker

if typing.TYPE_CHECKING:
    from omniloader.config import OmniConfig

__all__ = [
    "AnnealedTemperatureStrategy",
    "CenterCrop",
    "Compose",
    "ConfigError",
    "DatasetSchema",
    "DictTensorDataset",
    "DynamicCollator",
    "ExhaustionPolicy",
    "FeatureDropout",
    "FeatureMasking",
    "FixedWeightStrategy",
    "GaussianNoise",
    "HDF5Dataset",
    "IndexPool",
    "InstanceNormalize",
    "LengthBucketBatchSampler",
    "MinMaxNormalize",
    "MixingStrategy",
    "MixupCollator",
    "Normalize",
    "NpyFolderDataset",
    "OmniBatchSampler",
    "OmniConfig",
    "OmniError",
    "OmniLoader",
    "OmniSampler",
    "PerDatasetNormalize",
    "PlanError",
    "ProportionalStrategy",
    "RandomCrop",
    "Report",
    "RobustNormalize",
    "RoundRobinStrategy",
    "SampleError",
    "SampleUnifier",
    "SchemaError",
    "SourceError",
    "SpanMasking",
    "StateError",
    "StatsError",
    "SubsampleConfig",
    "TemperatureStrategy",
    "TensorSpec",
    "TimeWarp",
    "Transform",
    "UnifiedSchema",
    "__version__",
    "build_datasets",
    "build_transform",
    "class_histogram",
    "class_weights_for_loss",
    "class_weights_for_sampler",
    "compute_dataset_stats",
    "compute_feature_stats",
    "compute_stats",
    "config_template_path",
    "describe",
    "key_padding_mask",
    "load_split_info",
    "load_stats",
    "positive_weights_for_loss",
    "register_adapter",
    "save_split_info",
    "save_stats",
    "seed_everything",
    "seed_worker",
    "split_indices",
    "unified_collate",
    "validate",
]


def __getattr__(name: str) -> typing.Any:
    # Configs stand on pydantic, which alone takes a fifth of torch's import time.
    if name == "OmniConfig":
        from omniloader.config import OmniConfig

        globals()[name] = OmniConfig
        return OmniConfig
    raise AttributeError(f"module 'omniloader' has no attribute '{name}'")
