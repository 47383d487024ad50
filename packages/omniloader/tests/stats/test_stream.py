from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset

from omniloader._types import Gather
from omniloader.collate import unified_collate
from omniloader.data.memory import DictTensorDataset
from omniloader.errors import StatsError
from omniloader.loader import OmniLoader
from omniloader.schema.spec import DatasetSchema, TensorSpec
from omniloader.stats.stream import Block, BlockReader


class Plain:
    """A map-style dataset without any extra."""

    def __init__(self, samples: list[dict[str, Any]]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.samples[index]


class Ragged(Plain):
    """Offers whole columns, but as lists."""

    def read_batch(self, indices: np.ndarray) -> dict[str, list[Any]]:
        return {"x": [self.samples[i].get("x") for i in indices], "y": list(indices)}


def gathered(blocks: Iterator[Block], key: str) -> np.ndarray:
    """All valid steps of a key, in order."""
    steps = [b.columns[key].steps().reshape(-1).numpy() for b in blocks if key in b.columns]
    return np.concatenate(steps)


def raw_samples(n: int = 50) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    samples = []
    for i in range(n):
        steps = int(rng.integers(1, 9))
        samples.append(
            {
                "x": torch.tensor(rng.standard_normal((steps, 3)), dtype=torch.float32),
                "x_mask": torch.tensor(rng.random(steps) < 0.7),
                "y": i,
                "key": f"clip_{i}",
            }
        )
    return samples


def expected_of(samples: list[dict[str, Any]]) -> np.ndarray:
    return torch.cat([s["x"][s["x_mask"]] for s in samples]).reshape(-1).numpy()


def make_omni(samples: list[dict[str, Any]]) -> OmniLoader:
    schema = DatasetSchema(
        [TensorSpec("x", feature_dim=3, time_dim=10)], [TensorSpec("y", dtype=torch.int64)]
    )
    return OmniLoader([Plain(samples)], [schema], names=["clips"])


def test_every_kind_of_source_gives_the_same_valid_steps() -> None:
    samples = raw_samples()
    omni = make_omni(samples)
    kinds: dict[str, Any] = {
        "list": samples,
        "map-style": Plain(samples),
        "iterator": iter(samples),
        "OmniLoader": omni,
        "its samples": [omni[i] for i in range(len(omni))],
        "its batches": DataLoader(omni, batch_size=7, collate_fn=unified_collate),
        "its handed batches": DataLoader(omni, batch_size=7, collate_fn=lambda batch: batch),
        "batches of an iterable": iter(list(DataLoader(omni, 8, collate_fn=unified_collate))),
        "lists of samples": DataLoader(Plain(samples), 8, collate_fn=list),
        "lone samples of a DataLoader": DataLoader(Plain(samples), batch_size=None),
        "a Subset": Subset(omni, range(len(omni))),
    }
    for name, source in kinds.items():
        blocks = list(BlockReader(source, ["x", "y"]).blocks())
        assert sum(block.size for block in blocks) == len(samples), name
        np.testing.assert_array_equal(gathered(iter(blocks), "x"), expected_of(samples), name)
        np.testing.assert_array_equal(gathered(iter(blocks), "y"), np.arange(50), name)


def test_a_range_of_a_map_style_source_can_be_read() -> None:
    samples = raw_samples()
    stacked = DictTensorDataset({"y": torch.arange(50)})
    for source in (Plain(samples), make_omni(samples), stacked):
        reader = BlockReader(source, ["y"])
        assert reader.size == 50
        np.testing.assert_array_equal(gathered(reader.blocks(11, 34), "y"), np.arange(11, 34))
    assert BlockReader(iter(samples), ["y"]).size is None
    assert BlockReader(DataLoader(stacked), ["y"]).size is None


def test_columns_grow_into_large_batches_without_a_copy() -> None:
    table = torch.arange(10_000)
    blocks = list(BlockReader(DictTensorDataset({"y": table}), ["y"]).blocks())
    assert [block.size for block in blocks] == [1, 4, 16, 64, 256, 1024, 4096, 4539]
    assert blocks[3].columns["y"].value.data_ptr() == table[21:].data_ptr()


def test_batches_of_large_samples_stay_small() -> None:
    table = torch.zeros(1, 1 << 18).expand(100, -1)  # a MiB a sample
    sizes = [b.size for b in BlockReader(DictTensorDataset({"y": table}), ["y"]).blocks()]
    assert max(sizes) == 8


def test_rows_of_a_table_in_any_order_are_gathered() -> None:
    class Reversed(Plain):
        def read_batch(self, indices: np.ndarray) -> dict[str, Any]:
            return {"y": Gather(torch.arange(9), 8 - indices)}

    blocks = BlockReader(Reversed([{}] * 9), ["y"]).blocks()
    assert gathered(blocks, "y").tolist() == list(range(9))[::-1]


def test_lists_of_a_batch_reader_are_read_one_by_one() -> None:
    source = Ragged([{"x": torch.ones(2, 1)}, {}, {"x": torch.ones(3, 1)}])
    blocks = list(BlockReader(source, ["x"]).blocks())
    assert [block.size for block in blocks] == [1, 1, 1]
    assert ["x" in block.columns for block in blocks] == [True, False, True]
    assert blocks[0].names == ("x", "y")
    alike = Ragged([{"x": torch.ones(2, 1)}] * 9)
    assert [block.size for block in BlockReader(alike, ["x"]).blocks()] == [1, 4, 4]


def test_lone_samples_of_one_form_are_packed_and_copied() -> None:
    buffer = torch.zeros(3)

    def reused() -> Iterator[dict[str, Any]]:
        for i in range(40):
            buffer.fill_(i)
            yield {"x": buffer, "x_mask": True, "n": i, "z": np.float64(i), "dataset": f"d{i}"}

    blocks = list(BlockReader(reused(), ["x", "n", "z", "absent"]).blocks())
    assert [block.size for block in blocks] == [40]
    assert blocks[0].columns["x"].value[:, 0].tolist() == list(range(40))
    assert blocks[0].columns["z"].value.tolist() == list(range(40))
    assert blocks[0].metadata["dataset"][39] == "d39"
    assert blocks[0].names == ("x", "x_mask", "n", "z", "dataset")
    assert blocks[0].where(39) == "sample 39 of 'd39'"


@pytest.mark.parametrize(
    "odd",
    [
        torch.zeros(300_000),  # too large to copy twice
        torch.zeros(3, dtype=torch.bfloat16),
        torch.zeros(3, requires_grad=True),
        np.zeros(3, dtype=np.uint32),
        np.zeros(3, dtype=">f4"),
        [0.0, 0.0, 0.0],
        (0, 0, 0),
    ],
)
def test_what_cannot_be_packed_is_read_alone_and_in_order(odd: Any) -> None:
    samples = [{"x": torch.ones(3)}, {"x": torch.ones(3)}, {"x": odd}, {"x": torch.ones(3)}]
    blocks = list(BlockReader(samples, ["x", "absent"]).blocks())
    assert [block.size for block in blocks] == [2, 1, 1]
    assert blocks[1].where(0) == "sample 2"
    assert float(blocks[1].columns["x"].value.sum()) == 0.0
    assert blocks[2].where(0) == "sample 3"


def test_packs_end_where_they_are_full_or_the_form_changes() -> None:
    samples = [{"x": 1}] * 1500 + [{"x": 1.5}] * 3 + [{"y": 1}] + [{"x": 2**70}]
    with pytest.raises(StatsError, match=r"sample 1504: 'x' must"):
        list(BlockReader(samples, ["x"]).blocks())
    blocks = list(BlockReader(samples[:-1], ["x"]).blocks())
    assert [block.size for block in blocks] == [1024, 476, 3, 1]
    assert "x" not in blocks[3].columns


def test_a_batch_that_follows_lone_samples_keeps_the_order() -> None:
    items = [{"x": 1.0}, {"x": torch.tensor([2.0, 3.0]), "index": torch.tensor([8, 9])}, {"x": 4.0}]
    blocks = list(BlockReader(items, ["x"]).blocks())
    assert gathered(iter(blocks), "x").tolist() == [1.0, 2.0, 3.0, 4.0]
    assert [block.where(block.size - 1) for block in blocks] == ["sample 0", "sample 9", "sample 3"]


def test_without_a_mask_the_schema_or_the_number_of_axes_tells_steps() -> None:
    sequence = DatasetSchema([TensorSpec("x", time_dim=4)])
    video = DatasetSchema([TensorSpec("x", shape=(2, 2), time_dim=4)])
    image = DatasetSchema([TensorSpec("x", shape=(3, 2, 2))])

    def shape(value: torch.Tensor, schema: DatasetSchema | None = None, **kwargs: Any) -> Any:
        (block,) = BlockReader([{"x": value}], ["x"], schema, **kwargs).blocks()
        return block.columns["x"].trailing_shape

    assert shape(torch.zeros(())) == ()
    assert shape(torch.zeros(5)) == (5,)
    assert shape(torch.zeros(5), sequence) == ()
    assert shape(torch.zeros(5), numbers=True) == ()
    assert shape(torch.zeros(4, 5)) == (5,)
    assert shape(torch.zeros(4, 2, 2), video) == (2, 2)
    assert shape(torch.zeros(3, 2, 2), image) == (3, 2, 2)
    with pytest.raises(
        StatsError, match=r"sample 0: 'x' of shape \(4, 2, 2\) has no mask.*schema="
    ):
        shape(torch.zeros(4, 2, 2))
    with pytest.raises(StatsError, match="must have a time axis as its schema says, got none"):
        shape(torch.zeros(()), sequence)


@pytest.mark.parametrize(
    ("sample", "text"),
    [
        ({"x": "text"}, "sample 0: 'x' must be numeric, got an array"),
        ({"x": torch.zeros(2, dtype=torch.complex64)}, "sample 0: 'x' must be real"),
        (
            {"x": torch.zeros(3, 2), "x_mask": torch.ones(4), "dataset": "d", "key": "k"},
            r"sample 0 of 'd' \(key 'k'\): 'x_mask' must hold one flag a step of 'x', whose shape "
            r"is \(3, 2\), got shape \(4,\)",
        ),
        ({"x": torch.zeros(3, 2), "x_mask": torch.ones(3, 2)}, "'x_mask' must hold one flag"),
        ({"x": torch.zeros(3), "x_mask": torch.tensor([0, 1, 2])}, "must hold only 0 and 1"),
        ([1, 2], "sample 0 must be a dict of named values, got int"),
        ("ab", "sample 0 must be a dict of named values, got str"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(sample: Any, text: str) -> None:
    with pytest.raises(StatsError, match=text):
        list(BlockReader([sample], ["x"]).blocks())
