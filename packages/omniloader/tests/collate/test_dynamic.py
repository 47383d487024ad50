import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mixes import RawDataset, assert_same_batch, schema_lists

from omniloader.collate import DynamicCollator, unified_collate
from omniloader.errors import ConfigError
from omniloader.loader import OmniLoader
from omniloader.schema.spec import DatasetSchema, TensorSpec

SCHEMA = DatasetSchema(
    [TensorSpec("x", feature_dim=2, time_dim=4, placeholder=-1.0), TensorSpec("z", time_dim=3)],
    [TensorSpec("y")],
)


def omni_of(*lengths: int | None, pad: bool = False) -> OmniLoader:
    source = RawDataset(SCHEMA, 0, 0)
    source.samples = [
        {} if n is None else {"x": torch.ones(n, 2), "z": torch.ones(n)} for n in lengths
    ]
    return OmniLoader([source], [SCHEMA], pad_features=pad)


def both(omni: OmniLoader, collate: DynamicCollator) -> dict[str, torch.Tensor]:
    rows = list(range(len(omni)))
    batch = collate(omni.__getitems__(rows))
    assert_same_batch(batch, collate([omni[i] for i in rows]))
    return batch


def test_sequences_are_padded_to_the_longest_of_the_batch() -> None:
    omni = omni_of(3, 5, None)
    batch = both(omni, DynamicCollator(omni.schema))
    assert batch["x"].shape == (3, 5, 2)
    assert batch["x_mask"].sum(1).tolist() == [3, 5, 0]
    assert batch["x"][0, 3:].tolist() == [[-1.0, -1.0]] * 2
    assert bool((batch["x"][2] == -1.0).all())
    assert batch["y"].shape == (3,)


def test_other_sequences_are_brought_to_their_time_dim() -> None:
    omni = omni_of(2, 5)
    batch = both(omni, DynamicCollator(omni.schema, keys=["x"]))
    assert batch["x"].shape == (2, 5, 2)
    assert batch["z"].shape == (2, 3)
    assert batch["z_mask"].tolist() == [[True, True, False], [True, True, True]]


def test_a_batch_without_any_real_sequence_keeps_one_masked_step() -> None:
    omni = omni_of(None, None)
    batch = both(omni, DynamicCollator(omni.schema))
    assert batch["x"].tolist() == [[[-1.0, -1.0]]] * 2
    assert batch["x_mask"].tolist() == [[False], [False]]


def test_fixed_lengths_stay_as_they_are() -> None:
    omni = omni_of(2, 5, pad=True)
    batch = both(omni, DynamicCollator(omni.schema))
    assert_same_batch(batch, unified_collate(omni.__getitems__([0, 1])))


def test_keys_must_be_sequences() -> None:
    with pytest.raises(
        ConfigError, match="keys must name sequences of the schema, got 'y'; sequences are: x, z"
    ):
        DynamicCollator(omni_of(1).schema, keys=["y"])


@settings(max_examples=50, deadline=None)
@given(schemas=schema_lists(), seed=st.integers(0, 99))
def test_masked_content_equals_the_fixed_length_batch(
    schemas: list[DatasetSchema], seed: int
) -> None:
    """What is real does not depend on how long the padding is."""
    sources = [RawDataset(schema, 4, seed + k) for k, schema in enumerate(schemas)]
    native, fixed = (OmniLoader(sources, schemas, pad_features=pad) for pad in (False, True))
    rows = list(range(len(native)))
    a = DynamicCollator(native.schema)(native.__getitems__(rows))
    b = unified_collate(fixed.__getitems__(rows))
    for spec in native.schema.specs:
        steps = min(a[spec.name].shape[1], spec.time_dim) if spec.time_dim is not None else None
        value_a, value_b = a[spec.name], b[spec.name]
        if steps is not None:
            value_a, value_b = value_a[:, :steps], value_b[:, :steps]
        assert np.array_equal(value_a.numpy(), value_b.numpy(), equal_nan=True)
