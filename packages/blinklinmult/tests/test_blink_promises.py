"""Every name of the documents imports from where they say."""

from __future__ import annotations

import importlib
import pickle

import pytest

from blinklinmult import errors
from omniloader.errors import OmniError

PROMISED = {
    "blinklinmult": ["__version__"],
    "blinklinmult.data.schema": [
        *("EYE_IMAGE", "EYE_FEATURE", "EYE_EMBEDDING", "HEAD_POSE", "BLINK_IDS", "EYE_STATE"),
        *("BLINK_PRESENCE", "SAMPLE_KEY", "SOURCE_KEY", "EYE_SIDE", "FRAME_GROUP", "SUBSETS"),
        *("DATASETS", "VIDEO_DATASETS", "IMAGE_DATASETS", "QUALITY_SIGNALS", "NO_BLINK"),
        *("INVALID_BLINK", "TARGET_PLACEHOLDER", "SCHEMA_VERSION", "DatasetSpec", "SchemaError"),
        *("frames_for", "build_sample_id", "parse_sample_id"),
    ],
    "blinklinmult.data.omni": [
        *("logger", "eye_image_shape", "dataset_schema", "unified_specs", "build_schemas"),
    ],
    "blinklinmult.data.writer": ["H5Writer", "WriterError"],
    "blinklinmult.data.stills": ["StillConfig", "StillFramesDataset"],
    "blinklinmult.data.embeddings": [
        *("CacheKey", "encoder_digest", "shard_path", "write_shard", "read_shard"),
        *("EmbeddingCacheError", "CachedEmbeddingDataset"),
    ],
    "blinklinmult.data.datamodule": [
        *("logger", "STRATEGIES", "MAX_WORKERS", "DataModuleError", "StridedSubset"),
        *("CachedEmbeddingDataset", "BlinkDataModule", "pinning_helps", "worker_count"),
        "build_strategy",
    ],
    "blinklinmult.train.config": ["DataConfig", "ConfigError"],
    "blinklinmult.cli": ["main"],
}


@pytest.mark.parametrize("module", PROMISED)
def test_promised_names_import(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in PROMISED[module] if not hasattr(found, name)] == []


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("SchemaError", ValueError),
        ("ConfigError", ValueError),
        ("WriterError", ValueError),
        ("SourceVideoError", ValueError),
        ("EmbeddingCacheError", RuntimeError),
        ("DataModuleError", RuntimeError),
    ],
)
def test_errors_are_builtins_and_survive_a_worker(name: str, builtin: type[Exception]) -> None:
    error = getattr(errors, name)("what of whom")
    assert isinstance(error, builtin)
    assert isinstance(error, OmniError)
    back = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(back), str(back)) == (type(error), "what of whom")
