from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats as scipy_stats
from torch.utils.data import DataLoader

from omniloader.collate import unified_collate
from omniloader.data.memory import DictTensorDataset
from omniloader.errors import StatsError
from omniloader.loader import OmniLoader
from omniloader.schema.spec import DatasetSchema, TensorSpec
from omniloader.transforms.stats import (
    FeatureStats,
    compute_dataset_stats,
    compute_feature_stats,
    compute_stats,
)

N = 300


def rows_of(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def mix() -> OmniLoader:
    """Two sources that share ``audio``; ``face`` and ``rate`` are of one only."""
    audio = TensorSpec("audio", feature_dim=3, time_dim=6)
    face = TensorSpec("face", feature_dim=2)
    rate = TensorSpec("rate", dtype=torch.int64)
    speech = DictTensorDataset({"audio": rows_of(0, N, 4, 3) * 2 + 5, "face": rows_of(1, N, 2)})
    sensor = DictTensorDataset({"audio": rows_of(2, N, 6, 3) - 5, "rate": torch.arange(N)})
    return OmniLoader(
        [speech, sensor],
        [DatasetSchema([audio, face]), DatasetSchema([audio], [rate])],
        names=["speech", "sensor"],
    )


def assert_same(left: FeatureStats, right: FeatureStats) -> None:
    assert left.keys() == right.keys()
    assert left.info == right.info
    for key in left:
        for name in left[key]:
            np.testing.assert_allclose(
                left[key][name], right[key][name], rtol=1e-9, atol=1e-12, err_msg=f"{key} {name}"
            )


def test_pooled_figures_count_valid_positions_only() -> None:
    found = compute_stats(mix(), ["audio", "face", "rate"])
    audio = torch.cat(
        [(rows_of(0, N, 4, 3) * 2 + 5).flatten(0, 1), (rows_of(2, N, 6, 3) - 5).flatten(0, 1)]
    ).double()
    description = scipy_stats.describe(audio.numpy(), ddof=0)
    np.testing.assert_allclose(found["audio"]["mean"], description.mean, rtol=1e-9)
    np.testing.assert_allclose(found["audio"]["std"], np.sqrt(description.variance), rtol=1e-9)
    np.testing.assert_array_equal(found["audio"]["min"], description.minmax[0])
    np.testing.assert_array_equal(found["audio"]["max"], description.minmax[1])
    np.testing.assert_allclose(found["audio"]["median"], np.median(audio, axis=0), rtol=1e-9)
    np.testing.assert_allclose(found["audio"]["iqr"], scipy_stats.iqr(audio, axis=0), rtol=1e-9)
    assert found["rate"]["mean"].item() == (N - 1) / 2
    assert found["rate"]["mean"].shape == ()
    assert found.info["audio"]["count"] == N * 10
    assert found.info["face"]["count"] == N


@pytest.mark.parametrize("workers", [1, 2])
def test_figures_do_not_depend_on_workers(workers: int) -> None:
    keys = ["audio", "face", "rate"]
    assert_same(compute_stats(mix(), keys, workers=workers), compute_stats(mix(), keys))


def test_figures_do_not_depend_on_how_samples_come() -> None:
    omni = mix()
    keys = ["audio", "face", "rate"]
    expected = compute_stats(omni, keys)
    order = torch.randperm(len(omni), generator=torch.Generator().manual_seed(0)).tolist()
    loader = DataLoader(omni, batch_size=17, sampler=order, collate_fn=unified_collate)
    for samples in (loader, (omni[i] for i in order), [omni[i] for i in order]):
        assert_same(compute_stats(samples, keys), expected)


def test_feature_stats_are_mean_and_std() -> None:
    omni = mix()
    expected = compute_stats(omni, ["audio", "rate"])
    found = compute_feature_stats(omni, ["audio", "rate"])
    assert list(found) == ["audio", "rate"]
    for key, (mean, std) in found.items():
        assert torch.equal(mean, expected[key]["mean"])
        assert torch.equal(std, expected[key]["std"])


@pytest.mark.parametrize("workers", [0, 2])
def test_dataset_stats_are_those_of_each_dataset_apart(workers: int) -> None:
    omni = mix()
    found = compute_dataset_stats(omni, ["audio", "face", "rate"], workers=workers)
    assert list(found) == ["speech", "sensor"]
    # A dataset without a valid value of a key does not hold the key.
    assert list(found["speech"]) == ["audio", "face"]
    assert list(found["sensor"]) == ["audio", "rate"]
    for number, (name, keys) in enumerate(
        {"speech": ["audio", "face"], "sensor": ["audio"]}.items()
    ):
        alone = compute_stats((omni[number * N + i] for i in range(N)), keys)
        for key in keys:
            np.testing.assert_allclose(found[name][key]["mean"], alone[key]["mean"], rtol=1e-9)
            np.testing.assert_array_equal(found[name][key]["iqr"], alone[key]["iqr"])


def test_datasets_are_told_apart_within_a_shuffled_batch() -> None:
    omni = mix()
    order = torch.randperm(len(omni), generator=torch.Generator().manual_seed(1)).tolist()
    loader = DataLoader(omni, batch_size=64, sampler=order, collate_fn=unified_collate)
    found = compute_dataset_stats(loader, ["audio", "face"])
    expected = compute_dataset_stats(omni, ["audio", "face"])
    assert found.keys() == expected.keys()
    for name in found:
        assert_same(found[name], expected[name])


def test_another_key_can_tell_datasets_apart() -> None:
    samples = [{"x": float(i), "site": "ab"[i % 2]} for i in range(10)]
    found = compute_dataset_stats(samples, ["x"], dataset_key="site")
    assert {name: stats["x"]["mean"].item() for name, stats in found.items()} == {"a": 4, "b": 5}
    with pytest.raises(StatsError, match="sample 0 must name its dataset as text in 'dataset'"):
        compute_dataset_stats(samples, ["x"])
    with pytest.raises(StatsError, match="in 'site', got 3"):
        compute_dataset_stats([{"x": 1.0, "site": 3}], ["x"], "site")


def test_beyond_the_budget_the_error_is_said_and_kept() -> None:
    omni = mix()
    for workers in (0, 2):
        found = compute_stats(omni, ["audio"], memory_budget=2_000, workers=workers)
        assert found.info["audio"]["quantiles"] == "kll"
        values = torch.cat([omni[i]["audio"][omni[i]["audio_mask"]] for i in range(len(omni))])
        rank = (values < found["audio"]["median"]).double().mean(0)
        assert float((rank - 0.5).abs().max()) < 2 * found.info["audio"]["rank_error"]


def test_progress_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    compute_stats(mix(), ["audio"], progress=True)
    compute_stats(iter([{"x": 1.0}]), ["x"], progress=True)
    assert capsys.readouterr().out == ""


def test_a_source_of_raw_samples_lacks_masks_and_keys() -> None:
    samples: list[dict[str, Any]] = [{"x": 1.0}, {"y": 2.0}, {"x": None}, {"x": 3.0}]
    assert compute_stats(samples, ["x", "y"])["x"]["mean"].item() == 2.0
    assert compute_stats(samples, ["x"]).info["x"]["count"] == 2
    assert compute_stats(({"x": 2.0} for _ in range(3)), ["x", "x"])["x"]["std"].item() == 1e-6


def broken() -> Iterator[dict[str, Any]]:
    yield {"x": torch.zeros(2), "x_mask": torch.tensor(False), "z": 1.0}


@pytest.mark.parametrize(
    ("samples", "keys", "options", "text"),
    [
        (broken(), ["x"], {}, "'x' has no valid value: every 'x_mask' is False"),
        (broken(), ["a"], {}, "'a' is in none of the 1 samples; they hold: x, x_mask, z"),
        ([], ["a"], {}, "'a' needs at least one sample to be counted, got none"),
        ([{}], ["a"], {}, "they hold: nothing"),
        (DictTensorDataset({"x": torch.zeros(0, 2)}), ["x"], {"workers": 2}, "at least one sample"),
        (broken(), "x", {}, r"keys must be a list of names, got the text 'x'; write \['x'\]"),
        (broken(), [], {}, "keys must name at least one value, got none"),
        (broken(), ["x"], {"eps": 0.0}, "eps must be positive, got 0.0"),
        (broken(), ["x"], {"eps": float("nan")}, "eps must be positive, got nan"),
        (broken(), ["x"], {"workers": -1}, "workers must be at least 0, got -1"),
        (broken(), ["x"], {"workers": 2}, "workers=2 needs a dataset .* got generator"),
    ],
)
def test_what_has_no_figures_is_an_error_that_names_it(
    samples: Any, keys: Any, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(StatsError, match=text):
        compute_stats(samples, keys, **options)


def test_a_key_without_a_value_in_any_dataset_is_an_error() -> None:
    samples = [{"x": torch.zeros(2), "x_mask": torch.tensor(False), "dataset": "a"}]
    with pytest.raises(StatsError, match="'x' has no valid value"):
        compute_dataset_stats(samples, ["x"])


def test_an_error_in_a_worker_keeps_its_text() -> None:
    value = torch.zeros(40, 2)
    value[33, 1] = float("nan")
    with pytest.raises(StatsError, match="sample 33: 'x' must be finite"):
        compute_stats(DictTensorDataset({"x": value}), ["x"], workers=2)
