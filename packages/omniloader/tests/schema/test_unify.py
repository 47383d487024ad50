import numpy as np
import pytest
import torch

from omniloader.errors import SampleError
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema
from omniloader.schema.unify import METADATA_KEYS, SampleUnifier

SCHEMA = DatasetSchema(
    features=[TensorSpec("x", feature_dim=2, time_dim=3, placeholder=-1.0)],
    targets=[TensorSpec("y", dtype=torch.int64, placeholder=-5)],
)


def test_missing_values_become_placeholder_and_false() -> None:
    sample = SampleUnifier(SCHEMA)({"y": None})
    assert list(sample) == ["x", "x_mask", "y", "y_mask", *METADATA_KEYS]
    assert sample["x"].tolist() == [[-1.0, -1.0]] * 3
    assert sample["x_mask"].tolist() == [False] * 3
    assert sample["y"].item() == -5
    assert sample["y_mask"].item() is False
    assert [sample[key] for key in METADATA_KEYS] == [None, None, None]


def test_short_sequences_are_padded_and_long_ones_cut() -> None:
    unify = SampleUnifier(SCHEMA)
    short = unify({"x": [[1, 2]]})
    assert short["x"].tolist() == [[1.0, 2.0], [-1.0, -1.0], [-1.0, -1.0]]
    assert short["x_mask"].tolist() == [True, False, False]
    long = unify({"x": np.arange(10).reshape(5, 2), "x_mask": [1, 0, 1, 1, 1]})
    assert long["x"].tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert long["x_mask"].tolist() == [True, False, True]


def test_a_value_equal_to_the_placeholder_is_real() -> None:
    sample = SampleUnifier(SCHEMA)({"y": -5})
    assert sample["y_mask"].item() is True


def test_native_length_is_kept_and_missing_is_empty() -> None:
    unify = SampleUnifier(SCHEMA, pad_features=False)
    assert unify({"x": torch.zeros(7, 2)})["x"].shape == (7, 2)
    missing = unify({})
    assert missing["x"].shape == (0, 2)
    assert missing["x_mask"].shape == (0,)
    assert missing["y"].item() == -5


def test_a_sample_owns_its_memory() -> None:
    x, y = torch.zeros(3, 2), torch.tensor(4)
    mask = torch.ones(3, dtype=torch.bool)
    sample = SampleUnifier(SCHEMA)({"x": x, "y": y, "x_mask": mask, "y_mask": torch.tensor(True)})
    for name in ("x", "x_mask", "y", "y_mask"):
        sample[name].zero_().add_(1 if sample[name].dtype is not torch.bool else False)
    assert (float(x.sum()), int(y), bool(mask.all())) == (0.0, 4, True)


def test_metadata_travels_and_other_keys_do_not() -> None:
    sample = SampleUnifier(SCHEMA)({"key": "clip", "dataset": "rn15", "speaker": "a"})
    assert (sample["key"], sample["dataset"], sample["subset"]) == ("clip", "rn15", None)
    assert "speaker" not in sample


def test_only_what_the_own_source_declares_is_read() -> None:
    union = UnifiedSchema([SCHEMA])
    own = DatasetSchema(features=list(SCHEMA.features))
    sample = SampleUnifier(union, declared=own)({"y": 3, "x": torch.zeros(3, 2)})
    assert sample["y_mask"].item() is False
    assert sample["x_mask"].all()


def test_a_value_that_does_not_fit_is_named() -> None:
    with pytest.raises(
        SampleError, match=r"'x': must be a sequence of shape \(t, 2\), got shape \(3,\)"
    ):
        SampleUnifier(SCHEMA)({"x": torch.zeros(3)})
    with pytest.raises(
        SampleError, match=r"'y': must hold numbers that torch.int64 can represent, got 0.5"
    ):
        SampleUnifier(SCHEMA)({"y": 0.5})


def test_refusals_can_be_taken_over() -> None:
    seen = []
    sample = SampleUnifier(SCHEMA)({"y": "two"}, lambda name, problem: seen.append((name, problem)))
    assert seen[0][0] == "y"
    assert seen[0][1].startswith("must be numeric, got str 'two'")
    assert (sample["y"].item(), sample["y_mask"].item()) == (-5, False)
