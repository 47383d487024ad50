"""Every registered transform keeps the contract, over random samples of every kind of value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transform_cases import SCHEMA, STATS

from omniloader.schema.spec import UnifiedSchema
from omniloader.testing import check_transform
from omniloader.transforms import TRANSFORMS, Compose, build_transform

MOVES_TIME = {"time_warp", "random_crop", "center_crop"}

CASES: dict[str, list[dict[str, Any]]] = {
    "normalize": [{"stats": STATS}],
    "min_max_normalize": [{"stats": STATS}],
    "robust_normalize": [{"stats": STATS}],
    "instance_normalize": [{}],
    "per_dataset_normalize": [
        {"stats": {"first": STATS}, "fallback": "identity"},
        {"stats": {"first": STATS}, "fallback": "union", "union_stats": STATS},
        {"stats": {"first": {k: v for k, v in STATS.items() if k != "profile"}}},
    ],
    "gaussian_noise": [{"p": 0.7}, {"p": 1.0, "keys": ["valence", "half"]}],
    "feature_dropout": [{"p": 0.6}, {"p": 1.0, "keep_at_least_one": False}],
    "span_masking": [{"num_spans": 2, "span_len": 2, "p": 0.8}],
    "feature_masking": [{"num_masks": 2, "max_width": 3, "p": 0.8}],
    "time_warp": [{"p": 0.8}, {"p": 1.0, "min_rate": 0.3, "max_rate": 3.0}],
    "random_crop": [{"length": 4}, {"length": 12}],
    "center_crop": [{"length": 4}, {"length": 12}, {"length": 1}],
    "image_jitter": [{"p": 0.8}, {"p": 1.0, "value_range": (0.0, 1.0)}],
}


def test_every_registered_transform_has_a_case() -> None:
    assert CASES.keys() == TRANSFORMS.keys()


@pytest.mark.parametrize(
    ("name", "options"), [(name, case) for name, cases in CASES.items() for case in cases]
)
def test_a_registered_transform_keeps_the_contract(name: str, options: dict[str, Any]) -> None:
    transform = build_transform({"name": name, **options})
    for seed in range(4):
        check_transform(transform, SCHEMA, moves_time=name in MOVES_TIME, seed=seed)


@settings(max_examples=40, deadline=None)
@given(
    names=st.lists(st.sampled_from(sorted(CASES)), min_size=1, max_size=4),
    seed=st.integers(0, 2**31),
)
def test_pipelines_of_them_keep_it_too(names: list[str], seed: int) -> None:
    parts = [{"name": name, **CASES[name][0]} for name in names]
    transform = build_transform([parts[0], parts])
    assert isinstance(transform, Compose)
    check_transform(transform, SCHEMA, moves_time=True, seed=seed, size=5)


def test_a_schema_given_at_construction_is_kept_by_bind() -> None:
    transform = build_transform({"name": "gaussian_noise"}, schema=SCHEMA)
    assert transform.bind(UnifiedSchema([])).schema is SCHEMA  # type: ignore[attr-defined]
