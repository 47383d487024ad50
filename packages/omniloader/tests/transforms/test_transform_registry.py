from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transform_cases import SCHEMA, STATS

from omniloader.errors import ConfigError, StatsError
from omniloader.schema.spec import DatasetSchema, TensorSpec
from omniloader.transforms import (
    TRANSFORMS,
    CenterCrop,
    Compose,
    GaussianNoise,
    Normalize,
    PerDatasetNormalize,
    build_transform,
    compute_dataset_stats,
    compute_stats,
    save_stats,
)


def test_config_names_are_a_promise() -> None:
    assert set(TRANSFORMS) >= {
        "normalize",
        "min_max_normalize",
        "robust_normalize",
        "instance_normalize",
        "per_dataset_normalize",
        "gaussian_noise",
        "feature_dropout",
        "span_masking",
        "feature_masking",
        "time_warp",
        "random_crop",
        "center_crop",
    }


def test_lists_become_pipelines_nested_as_they_are() -> None:
    noise = GaussianNoise(std=0.3)
    built = build_transform(
        [
            {"name": "gaussian_noise", "std": 0.2, "x-note": "mine"},
            [{"name": "center_crop", "length": 4}],
            noise,
        ]
    )
    assert isinstance(built, Compose)
    first, inner, last = built.transforms
    assert isinstance(first, GaussianNoise)
    assert first.std == 0.2
    assert isinstance(inner, Compose)
    assert isinstance(inner.transforms[0], CenterCrop)
    assert last is noise


def test_a_schema_is_bound_and_checks_keys_now() -> None:
    built = build_transform({"name": "gaussian_noise"}, SCHEMA)
    assert isinstance(built, GaussianNoise)
    assert built.schema is SCHEMA
    own = DatasetSchema([TensorSpec("x", feature_dim=2)])
    with pytest.raises(
        ConfigError, match="key 'audio' must be a value of the schema, which holds: x"
    ):
        build_transform([{"name": "gaussian_noise", "keys": ["audio"]}], own)
    with pytest.raises(StatsError, match="key 'audio' must be a value of the schema"):
        build_transform({"name": "normalize", "stats": STATS}, own)


def test_figures_may_be_named_by_path(tmp_path: Path) -> None:
    samples = [
        {"x": torch.randn(3, 2), "x_mask": torch.ones(3, dtype=torch.bool), "dataset": name}
        for name in "aabb"
    ]
    save_stats(compute_stats(samples, ["x"]), tmp_path / "all.json")
    save_stats(compute_dataset_stats(samples, ["x"]), tmp_path / "each.json")
    built = build_transform({"name": "normalize", "stats_path": tmp_path / "all.json"})
    assert isinstance(built, Normalize)
    both = build_transform(
        {
            "name": "per_dataset_normalize",
            "stats_path": tmp_path / "each.json",
            "fallback": "union",
            "union_stats_path": tmp_path / "all.json",
        }
    )
    assert isinstance(both, PerDatasetNormalize)
    stranger = {**samples[0], "dataset": "c"}
    assert torch.equal(both(stranger)["x"], built(stranger)["x"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"name": "gausian_noise"},
            r"transform.name: unknown transform 'gausian_noise', did you m",
        ),
        ({"name": "zzz"}, "unknown transform 'zzz'; known: normalize, min_max_normalize"),
        ({"std": 0.1}, "unknown transform None"),
        (
            [{"name": "gaussian_noise"}, {"name": "gaussian_noise", "stdd": 0.1}],
            r"transform\[1\].stdd: unknown key of 'gaussian_noise', did you mean 'std'\?",
        ),
        ({"name": "gaussian_noise", "zzz": 0.1}, "zzz: unknown key .*; known: keys, std, p$"),
        ({"name": "gaussian_noise", "schema": 1}, "transform.schema: unknown key"),
        ({"name": "gaussian_noise", "stats_path": "x"}, "transform.stats_path: unknown key"),
        ({"name": "random_crop"}, "transform.length: 'random_crop' must be given 'length', got no"),
        ("gaussian_noise", "transform: must be a mapping with 'name' or a list of them, got 'gau"),
        ([3], r"transform\[0\]: must be a mapping with 'name' or a list of them, got 3"),
    ],
)
def test_what_cannot_be_built_is_named(spec: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_transform(spec)
