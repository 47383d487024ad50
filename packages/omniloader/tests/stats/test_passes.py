from __future__ import annotations

import pickle
from functools import partial

import pytest
import torch

from omniloader.data.memory import DictTensorDataset
from omniloader.errors import StatsError
from omniloader.loader import OmniLoader
from omniloader.schema.spec import DatasetSchema, TensorSpec
from omniloader.stats.feature import FeatureOptions
from omniloader.stats.histogram import ClassCounts, PositiveCounts, SampleClasses
from omniloader.stats.passes import _Slices, run_pass
from omniloader.stats.stream import BlockReader
from omniloader.stats.table import FeatureTable

SOURCE = DictTensorDataset({"y": torch.arange(90) % 4})


def counts() -> ClassCounts:
    return ClassCounts("y")


def test_a_slice_is_the_accumulator_of_its_samples() -> None:
    slices = _Slices(BlockReader(SOURCE, ["y"]), counts, [0, 40, 90])
    assert len(slices) == 2
    assert slices[0].counts.tolist() == [10, 10, 10, 10]
    merged = slices[0]
    merged.merge(slices[1])
    assert merged.counts.tolist() == run_pass(SOURCE, ["y"], counts).counts.tolist()
    assert merged.seen.samples == 90


def test_slices_travel_to_processes_that_start_afresh() -> None:
    schema = DatasetSchema([], [TensorSpec("y", dtype=torch.int64)])
    reader = BlockReader(OmniLoader([SOURCE], [schema]), ["y"], schema)
    slices = _Slices(reader, partial(FeatureTable, ["y"], FeatureOptions()), [0, 40, 90])
    table = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(slices))[1]))  # noqa: S301
    assert table.figures("", 1e-6)[1]["y"]["count"] == 50


@pytest.mark.parametrize("workers", [1, 2])
def test_slices_are_merged_in_the_order_of_samples(workers: int) -> None:
    found = run_pass(SOURCE, ["y"], lambda: SampleClasses("y"), numbers=True, workers=workers)
    assert found.classes().tolist() == (torch.arange(90) % 4).tolist()


def test_nothing_can_be_split_as_well() -> None:
    empty = DictTensorDataset({"y": torch.zeros(0)})
    assert run_pass(empty, ["y"], counts, workers=2).seen.samples == 0
    one = DictTensorDataset({"y": torch.tensor([2])})
    assert run_pass(one, ["y"], counts, workers=2).counts.tolist() == [0, 0, 1]


def test_merging_with_parts_that_lack_the_target() -> None:
    total = PositiveCounts("y")
    for samples in ([{"x": 1}], [{"y": torch.tensor([0, 1])}], [{"x": 1}]):
        total.merge(run_pass(samples, ["y"], lambda: PositiveCounts("y")))
    assert (total.total, total.seen.samples) == (1, 3)
    assert total.positives is not None
    assert total.positives.tolist() == [0.0, 1.0]
    masked = SampleClasses("y")
    nothing = [{"y": torch.zeros(3), "y_mask": torch.zeros(3, dtype=torch.bool)}]
    for block in BlockReader(nothing, ["y"]).blocks():
        masked.add(block)
    assert masked.classes().tolist() == [-1]


def test_workers_are_refused_where_there_is_nothing_to_split() -> None:
    with pytest.raises(StatsError, match=r"workers=1 needs a dataset with len.* got list_iterator"):
        run_pass(iter([{"y": 1}]), ["y"], counts, workers=1)
    with pytest.raises(StatsError, match="workers must be at least 0, got -2"):
        run_pass(SOURCE, ["y"], counts, workers=-2)
