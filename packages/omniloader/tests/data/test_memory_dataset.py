from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omniloader._types import BatchReader, Gather, MapDataset
from omniloader.data.datasets import DictTensorDataset
from omniloader.errors import SampleError


def voices(n: int = 5) -> DictTensorDataset:
    return DictTensorDataset(
        {"audio": torch.arange(n * 6.0).reshape(n, 3, 2), "label": torch.arange(n)},
        {"speaker": [f"s{i}" for i in range(n)]},
        name="voices",
    )


def test_sample_is_one_row_of_each_tensor_and_its_metadata() -> None:
    data = voices()
    sample = data[1]
    assert len(data) == 5
    assert sample["audio"].tolist() == [[6.0, 7.0], [8.0, 9.0], [10.0, 11.0]]
    assert (sample["label"].item(), sample["label"].shape) == (1, ())
    assert sample["speaker"] == "s1"
    assert data[-1]["speaker"] == "s4"


def test_it_is_a_source_with_a_batch_reader() -> None:
    assert isinstance(voices(), MapDataset)
    assert isinstance(voices(), BatchReader)
    assert (voices().name, voices().subset) == ("voices", None)


@pytest.mark.parametrize("index", [5, -6])
def test_index_outside_is_an_index_error(index: int) -> None:
    with pytest.raises(IndexError, match=rf"'voices': index {index} is out of range for 5 samples"):
        voices()[index]
    with pytest.raises(IndexError, match=rf"index {index} is out of range for 5 samples"):
        voices().read_batch(np.array([0, index]))


def test_iteration_ends() -> None:
    assert [sample["speaker"] for sample in voices(3)] == ["s0", "s1", "s2"]


def test_writing_into_a_sample_leaves_the_data_alone() -> None:
    data = voices()
    data[0]["audio"].add_(100)
    assert data[0]["audio"][0].tolist() == [0.0, 1.0]


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_batch_equals_the_samples(data: st.DataObject) -> None:
    dataset = voices(data.draw(st.integers(1, 6)))
    size = len(dataset)
    indices = data.draw(st.lists(st.integers(-size, size - 1), max_size=8))
    batch = dataset.read_batch(indices)
    for key in ("audio", "label"):
        column = batch[key]
        assert isinstance(column, Gather)
        rows = column.table[torch.from_numpy(column.index)]
        assert len(rows) == len(indices)
        for row, index in zip(rows, indices, strict=True):
            assert torch.equal(row, dataset[index][key])
    assert batch["speaker"] == [dataset[i]["speaker"] for i in indices]


def test_lengths_come_from_shapes() -> None:
    lengths = voices().sequence_lengths("audio")
    assert lengths.tolist() == [3] * 5
    assert lengths.dtype == np.int64
    assert voices().sequence_lengths("video").tolist() == [0] * 5
    with pytest.raises(SampleError, match="'label' has no time axis, a sample of it is one number"):
        voices().sequence_lengths("label")


def test_numpy_arrays_are_taken() -> None:
    frozen = np.arange(4, dtype=">u2")
    frozen.flags.writeable = False
    data = DictTensorDataset({"a": frozen, "b": np.ones((4, 2), np.float16)[:, ::-1]})
    assert (data[3]["a"].item(), data[3]["a"].dtype) == (3, torch.int32)
    assert (data[0]["b"].tolist(), data[0]["b"].dtype) == ([1.0, 1.0], torch.float16)


def test_gradients_stay_outside() -> None:
    data = DictTensorDataset({"x": torch.ones(2, requires_grad=True)})
    assert not data[0]["x"].requires_grad


def test_it_survives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(voices()))  # noqa: S301
    assert torch.equal(copy[2]["audio"], voices()[2]["audio"])


@pytest.mark.parametrize(
    ("tensors", "metadata", "message"),
    [
        ({"x": torch.ones(3), "y": torch.ones(4)}, None, "got 'x' has 3, 'y' has 4"),
        ({"x": torch.ones(3)}, {"id": ["a"]}, "got 'x' has 3, 'id' has 1"),
        ({"x": torch.tensor(1.0)}, None, "'x' must be a tensor or array .* got a scalar"),
        ({"x": [1, 2]}, None, "'x' must be a tensor or array .* got list"),
        ({"x": torch.ones(1)}, {"x": ["a"]}, "'x' stands in tensors and in metadata"),
        ({"x": torch.ones(1)}, {"id": "a"}, "metadata 'id' must be a sequence .* got 'a'"),
        ({"x": torch.ones(1)}, {"id": iter("a")}, "metadata 'id' must be a sequence"),
        ({}, None, "needs at least one key, got none"),
        ({"x": np.array([object()])}, None, "'x': values must be numbers, bool or text"),
    ],
)
def test_what_does_not_fit_is_refused(tensors: object, metadata: object, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        DictTensorDataset(tensors, metadata)  # type: ignore[arg-type]
    assert isinstance(caught.value, SampleError)
