"""Every kind of blink source keeps the contract of omniloader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blinkdata import CEW, HUST, MRL, RN15, write_corpus

from blinklinmult.data.cached import CachedEmbeddingDataset
from blinklinmult.data.corpus import open_corpus
from blinklinmult.data.presets import corpus_path
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.data.stills import StillConfig, StillFramesDataset
from blinklinmult.data.strided import StridedSubset
from omniloader.testing import check_adapter

SPECS = {spec.name: spec for spec in (CEW, MRL, RN15, HUST)}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("blink")
    for spec in SPECS.values():
        write_corpus(root, spec, {"train": 6})
    return root


def corpus(root: Path, spec: DatasetSpec, **options: Any) -> Any:
    return open_corpus(spec, corpus_path(root, spec.name), "train", **options)


@pytest.mark.parametrize("options", [{}, {"cache_size": 2}, {"preload": True}, {"threads": 2}])
@pytest.mark.parametrize("name", SPECS)
def test_a_corpus(name: str, options: dict[str, Any], root: Path) -> None:
    check_adapter(corpus(root, SPECS[name], **options))


@pytest.mark.parametrize("name", ["cew", "rn15"])
def test_frames_of_windows(name: str, root: Path) -> None:
    spec = SPECS[name]
    check_adapter(StillFramesDataset(corpus(root, spec), StillConfig(stride=2), spec.name))


def test_a_share_of_a_split(root: Path) -> None:
    check_adapter(StridedSubset(corpus(root, RN15), keep=4, shifting=True))


def test_a_split_with_cached_embeddings(root: Path) -> None:
    source = corpus(root, HUST)
    rng = np.random.default_rng(0)
    shard = {
        "embedding": rng.normal(size=(6, HUST.time_dim, 4)).astype(np.float32),
        "mask": rng.random((6, HUST.time_dim)) < 0.8,
        "keys": np.array(list(source.sample_ids))[::-1],
    }
    cached = CachedEmbeddingDataset(source, shard, HUST.name)
    check_adapter(cached)
    check_adapter(StridedSubset(cached, keep=5, shifting=False))
