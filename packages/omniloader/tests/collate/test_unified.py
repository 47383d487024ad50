import pytest
import torch
from mixes import RawDataset, assert_same_batch

from omniloader.collate import COLLATES, unified_collate
from omniloader.errors import SampleError
from omniloader.loader import OmniLoader
from omniloader.schema.spec import DatasetSchema, TensorSpec


def test_tensors_are_stacked_and_the_rest_listed() -> None:
    batch = unified_collate(
        [
            {"x": torch.tensor([1.0]), "key": "a", "index": 4},
            {"x": torch.tensor([2.0]), "key": None, "index": 7},
        ]
    )
    assert batch["x"].tolist() == [[1.0], [2.0]]
    assert batch["key"] == ["a", None]
    assert batch["index"].tolist() == [4, 7]
    assert batch["index"].dtype is torch.int64


def test_metadata_that_only_some_samples_carry_is_none_elsewhere() -> None:
    batch = unified_collate([{"speaker": "ann"}, {"age": 3}])
    assert batch == {"speaker": ["ann", None], "age": [None, 3]}


@pytest.mark.parametrize(
    ("second", "text"),
    [
        ({}, r"batch row 1 .*: 'x' must be a tensor in every sample of a batch, got NoneType"),
        ({"x": 3.0}, r"'x' must be a tensor in every sample of a batch, got float"),
        ({"x": torch.zeros(2).long()}, r"'x' must have dtype torch.float32 .* got torch.int64"),
        (
            {"x": torch.zeros(1, 2)},
            r"'x' must have shape \(2,\) like the samples before it, got \(1, 2\)",
        ),
        (
            {"x": torch.zeros(())},
            r"'x' must have shape \(2,\) like the samples before it, got \(\)",
        ),
        (
            {"x": torch.zeros(5)},
            r"'x': all sequences of a batch must have one length .* lengths 2 to 5",
        ),
    ],
)
def test_what_cannot_be_stacked_is_named(second: dict[str, object], text: str) -> None:
    row = {"dataset": "faces", "key": "k1", **second}
    with pytest.raises(SampleError, match=text):
        unified_collate([{"x": torch.zeros(2)}, row])


@pytest.mark.parametrize("batched", [False, True])
def test_native_lengths_that_differ_point_to_the_dynamic_collator(batched: bool) -> None:
    schema = DatasetSchema([TensorSpec("x", time_dim=4)])
    source = RawDataset(schema, 0, 0)
    source.samples = [{"x": torch.zeros(2)}, {"x": torch.zeros(5)}, {"x": torch.ones(2)}]
    omni = OmniLoader([source], [schema], pad_features=False)
    rows = omni.__getitems__([0, 1]) if batched else [omni[0], omni[1]]
    with pytest.raises(SampleError, match=r"'x': .* lengths 2 to 5; use DynamicCollator"):
        unified_collate(rows)
    equal = omni.__getitems__([0, 2]) if batched else [omni[0], omni[2]]
    assert unified_collate(equal)["x"].shape == (2, 2)


def test_an_empty_batch_is_an_empty_dict() -> None:
    assert_same_batch(unified_collate([]), {})


def test_the_registry_names_what_configs_can_ask_for() -> None:
    assert COLLATES["unified"] is unified_collate
    assert set(COLLATES) >= {"unified", "dynamic"}
