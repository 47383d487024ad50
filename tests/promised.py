"""The import paths that are promises: they stay where they are, whatever moves behind them."""

from __future__ import annotations

TOP_LEVEL = """
    AnnealedTemperatureStrategy CenterCrop Compose DatasetSchema DictTensorDataset DynamicCollator
    ExhaustionPolicy FeatureDropout FeatureMasking FixedWeightStrategy GaussianNoise HDF5Dataset
    IndexPool InstanceNormalize LengthBucketBatchSampler MinMaxNormalize MixingStrategy
    MixupCollator Normalize NpyFolderDataset OmniConfig OmniLoader OmniSampler PerDatasetNormalize
    ProportionalStrategy RandomCrop Report RobustNormalize RoundRobinStrategy SampleUnifier
    SpanMasking SubsampleConfig TemperatureStrategy TensorSpec TimeWarp Transform UnifiedSchema
    __version__ build_datasets build_transform class_histogram class_weights_for_loss
    class_weights_for_sampler compute_dataset_stats compute_feature_stats compute_stats
    config_template_path describe load_split_info load_stats save_split_info save_stats
    seed_everything seed_worker split_indices unified_collate validate
"""

TRANSFORMS = """
    CenterCrop Compose FeatureDropout FeatureMasking GaussianNoise InstanceNormalize
    MinMaxNormalize Normalize PerDatasetNormalize RandomCrop RobustNormalize SpanMasking TimeWarp
    Transform TRANSFORMS build_transform
"""

PROMISED = {
    "omniloader": TOP_LEVEL,
    "omniloader.cli": "main",
    "omniloader.collate": "DynamicCollator unified_collate",
    "omniloader.config": "COLLATES OmniConfig STRATEGIES seed_everything",
    "omniloader.data.datasets": "DictTensorDataset HDF5Dataset",
    "omniloader.data.factory": "ADAPTERS build_dataset build_datasets schema_from_dict",
    "omniloader.data.npy": "NpyFolderDataset",
    "omniloader.data.splits": "load_split_info save_split_info split_indices",
    "omniloader.integrations.lightning": "OmniDataModule",
    "omniloader.introspection": "Report describe validate",
    "omniloader.loader": "OmniLoader",
    "omniloader.sampling.bucketing": "LengthBucketBatchSampler",
    "omniloader.sampling.sampler": "OmniSampler",
    "omniloader.sampling.strategies": """
        AnnealedTemperatureStrategy FixedWeightStrategy MixingStrategy ProportionalStrategy
        RoundRobinStrategy TemperatureStrategy""",
    "omniloader.sampling.subsamplers": "ExhaustionPolicy IndexPool SubsampleConfig",
    "omniloader.sampling.weights": """
        class_histogram class_weights_for_loss class_weights_for_sampler""",
    "omniloader.schema.spec": "DatasetSchema TensorSpec UnifiedSchema",
    "omniloader.schema.unify": "METADATA_KEYS SampleUnifier",
    "omniloader.templates": "config_template_path",
    "omniloader.transforms": TRANSFORMS,
    "omniloader.transforms.augment": "FeatureDropout FeatureMasking GaussianNoise SpanMasking",
    "omniloader.transforms.base": "Compose Transform",
    "omniloader.transforms.crop": "CenterCrop RandomCrop",
    "omniloader.transforms.mix": "MixupCollator",
    "omniloader.transforms.normalize": """
        InstanceNormalize MinMaxNormalize Normalize PerDatasetNormalize RobustNormalize""",
    "omniloader.transforms.stats": """
        compute_dataset_stats compute_feature_stats compute_stats load_stats save_stats""",
    "omniloader.utils.padding": "fill_gaps_with_repeat pad_or_crop_time_dim repeat_pad_time_dim",
    "omniloader.utils.seeding": "seed_worker",
}
