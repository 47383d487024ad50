import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mixes import RawDataset, assert_same_batch, equal, quickstart, schema_lists
from torch.utils.data import DataLoader, Subset

from omniloader.collate import DynamicCollator, unified_collate
from omniloader.data.memory import DictTensorDataset
from omniloader.errors import ConfigError, PlanError, SampleError, SchemaError
from omniloader.loader import OmniLoader
from omniloader.sampling.draw import DrawBatch, DrawIndex
from omniloader.sampling.strategies import RoundRobinStrategy
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema
from omniloader.transforms.base import Transform

SCALAR = DatasetSchema(targets=[TensorSpec("y", placeholder=-5.0)])


class Scripted:
    """A source that does what a test says for each index."""

    def __init__(self, *samples: Any) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        sample = self.samples[index]
        if isinstance(sample, Exception):
            raise sample
        return sample


@settings(max_examples=60, deadline=None)
@given(schemas=schema_lists(), seed=st.integers(0, 999), data=st.data())
def test_both_paths_agree_bit_for_bit(
    schemas: list[DatasetSchema], seed: int, data: st.DataObject
) -> None:
    sources = [RawDataset(schema, 5, seed + k) for k, schema in enumerate(schemas)]
    omni = OmniLoader(sources, schemas, metadata=("speaker",))
    index = data.draw(st.lists(st.integers(-len(omni), len(omni) - 1), min_size=1, max_size=12))
    batch = omni.__getitems__(index)
    assert isinstance(batch, UnifiedBatch)
    assert_same_batch(unified_collate(batch), unified_collate([omni[i] for i in index]))
    assert_same_batch(unified_collate(batch), unified_collate(list(batch)))


@settings(max_examples=60, deadline=None)
@given(schemas=schema_lists(), seed=st.integers(0, 999), data=st.data())
def test_both_paths_agree_at_native_length(
    schemas: list[DatasetSchema], seed: int, data: st.DataObject
) -> None:
    sources = [RawDataset(schema, 5, seed + k) for k, schema in enumerate(schemas)]
    omni = OmniLoader(sources, schemas, pad_features=False)
    index = data.draw(st.lists(st.integers(0, len(omni) - 1), min_size=1, max_size=12))
    batch = omni.__getitems__(index)
    singles = [omni[i] for i in index]
    for row, single in zip(batch, singles, strict=True):
        assert list(row) == list(single)
        for name in row:
            assert equal(row[name], single[name]), name
    collate = DynamicCollator(omni.schema)
    assert_same_batch(collate(batch), collate(singles))


def test_every_key_is_always_there_with_a_mask() -> None:
    datasets, schemas = quickstart()
    omni = OmniLoader(datasets, schemas, names=["faces", "speech"])
    faces, speech = omni[3], omni[45]
    assert list(faces) == list(speech)
    assert torch.equal(faces["video"], datasets[0][3]["video"])
    assert faces["video_mask"].all()
    assert not faces["audio_mask"].any()
    assert not faces["audio"].any()
    assert faces["sentiment"].item() == -5.0
    assert (faces["dataset"], faces["subset"], faces["key"]) == ("faces", None, "3")
    assert (speech["dataset"], speech["key"]) == ("speech", "5")
    assert [speech[k] for k in ("index", "dataset_index", "epoch", "visit")] == [45, 1, 0, 0]


def test_batches_say_where_rows_came_from() -> None:
    datasets, schemas = quickstart()
    omni = OmniLoader(datasets, schemas)
    batch = unified_collate(omni.__getitems__([0, 239, -1]))
    assert batch["index"].tolist() == [0, 239, 239]
    assert batch["dataset_index"].tolist() == [0, 1, 1]
    assert batch["epoch"].tolist() == batch["visit"].tolist() == [0, 0, 0]
    assert batch["index"].dtype is torch.int64
    assert batch["dataset"] == ["dataset_0", "dataset_1", "dataset_1"]
    again = omni.sample(239, epoch=0, visit=0)
    assert torch.equal(again["audio"], batch["audio"][1])


def test_locate_and_the_end() -> None:
    datasets, schemas = quickstart()
    omni = OmniLoader(datasets, schemas)
    assert len(omni) == 240
    assert omni.dataset_sizes == [40, 200]
    assert [omni.locate(i) for i in (0, 39, 40, 239, -1)] == [
        (0, 0),
        (0, 39),
        (1, 0),
        (1, 199),
        (1, 199),
    ]
    for index in (240, -241):
        with pytest.raises(IndexError, match=f"holds 240 samples, asked for index {index}"):
            omni[index]
        with pytest.raises(IndexError, match=f"holds 240 samples, asked for index {index}"):
            omni.__getitems__([0, index])
    with pytest.raises(IndexError):
        omni.locate(240)


def test_empty_sources_are_passed_over() -> None:
    empty = DictTensorDataset({"y": torch.zeros(0)})
    one = DictTensorDataset({"y": torch.ones(1)})
    omni = OmniLoader([empty, one, empty], [SCALAR] * 3)
    assert omni.locate(0) == (1, 0)
    assert unified_collate(omni.__getitems__([0]))["dataset"] == ["dataset_1"]


def test_metadata_travels_where_it_is_and_is_none_where_not() -> None:
    class Named(DictTensorDataset):
        sample_ids = ("a/0", "a/1")

    plain = DictTensorDataset(
        {"y": torch.zeros(2)}, {"speaker": ["ann", "bob"], "key": ["k0", "k1"]}
    )
    named = Named({"y": torch.zeros(2)}, {"dataset": ["own", None]}, name="rn15", subset="train")
    coded = DictTensorDataset({"y": torch.zeros(2), "speaker": torch.tensor([7, 8])})
    omni = OmniLoader([plain, named, coded], [SCALAR] * 3, metadata=["speaker", "key"])
    index = [5, 0, 2, 3, 1]
    batch = unified_collate(omni.__getitems__(index))
    assert batch["speaker"] == [8, "ann", None, None, "bob"]
    assert batch["key"] == ["1", "k0", "a/0", "a/1", "k1"]
    assert batch["dataset"] == ["dataset_2", "dataset_0", "own", "rn15", "dataset_0"]
    assert batch["subset"] == [None, None, "train", "train", None]
    assert_same_batch(batch, unified_collate([omni[i] for i in index]))


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ("speaker", "metadata must be a list of names, got the text 'speaker'"),
        (["y"], "metadata 'y' is the name of a value or of an index"),
        (["visit"], "metadata 'visit' is the name of a value or of an index"),
    ],
)
def test_metadata_names_are_checked(metadata: Any, text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        OmniLoader([Scripted()], [SCALAR], metadata=metadata)


def test_a_wider_schema_can_be_followed() -> None:
    datasets, schemas = quickstart()
    union = UnifiedSchema(schemas)
    valid = OmniLoader(datasets[:1], schemas[:1], union)
    assert list(valid[0]) == list(OmniLoader(datasets, schemas)[0])
    with pytest.raises(
        SchemaError, match=r"must hold every value the sources declare, lacks audio"
    ):
        OmniLoader(datasets, schemas, UnifiedSchema(schemas[:1]))
    other = DatasetSchema([TensorSpec("video", feature_dim=31, time_dim=16)])
    with pytest.raises(SchemaError, match="'the given schema' and 'the sources' disagree on"):
        OmniLoader(datasets[:1], schemas[:1], UnifiedSchema([other]))


def test_transforms_must_be_transforms() -> None:
    with pytest.raises(ConfigError, match="transform must be a Transform, got function; subclass"):
        OmniLoader([Scripted()], [SCALAR], transform=lambda sample: sample)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [IndexError("list index"), StopIteration()])
def test_a_source_that_ends_early_does_not_end_the_epoch(error: Exception) -> None:
    omni = OmniLoader([Scripted({"y": 1.0}, error)], [SCALAR], names=["speech"])
    text = r"source 'speech', sample 1 \(key '1'\): must be readable, the dataset raised "
    with pytest.raises(SampleError, match=text + type(error).__name__) as caught:
        list(DataLoader(omni, batch_size=2, collate_fn=unified_collate))
    assert caught.value.__cause__ is error
    with pytest.raises(SampleError, match=text):
        omni[1]


def test_own_errors_of_a_source_keep_their_class_and_gain_a_note() -> None:
    omni = OmniLoader([Scripted(OSError("disk gone"), RuntimeError("boom"))], [SCALAR], names=["a"])
    with pytest.raises(OSError, match="disk gone") as caught:
        omni[0]
    assert caught.value.__notes__ == ["while reading source 'a', sample 0 (key '0')"]
    with pytest.raises(RuntimeError, match="boom") as other:
        omni.__getitems__([1])
    assert other.value.__notes__ == ["while reading source 'a', sample 1 (key '1')"]


def test_errors_of_decoders_can_be_masked() -> None:
    samples = [RuntimeError("bad frame"), ZeroDivisionError("no frames"), {"y": 1.0}]
    omni = OmniLoader([Scripted(*samples)], [SCALAR], names=["a"], on_error="mask")
    with pytest.warns(RuntimeWarning, match=r"sample 0 .* raised RuntimeError: bad frame"):
        batch = unified_collate(omni.__getitems__([0, 1, 2]))
    assert batch["y_mask"].tolist() == [False, False, True]
    assert omni.error_counts == {"a": 2}


def test_what_is_not_a_sample_is_refused() -> None:
    omni = OmniLoader([Scripted(torch.zeros(2))], [SCALAR], names=["a"])
    with pytest.raises(
        SampleError, match=r"sample 0 .*: must be a dict of named values, got Tensor"
    ):
        omni[0]


@pytest.mark.parametrize("batched", [False, True])
def test_a_bad_value_names_source_sample_key_and_both_sides(batched: bool) -> None:
    wide = DatasetSchema([TensorSpec("x", feature_dim=4, time_dim=2)])
    good, bad = {"x": torch.zeros(2, 4), "key": "c0"}, {"x": torch.zeros(2, 5), "key": "c1"}
    omni = OmniLoader([Scripted(good, bad)], [wide], names=["speech"])
    text = (
        r"source 'speech', sample 1 \(key 'c1'\), 'x': must be a sequence of shape \(t, 4\), "
        r"got shape \(2, 5\); correct the source or its declared schema"
    )
    with pytest.raises(SampleError, match=text):
        omni.__getitems__([0, 1]) if batched else omni[1]


@pytest.mark.parametrize("batched", [False, True])
def test_bad_values_can_be_masked_counted_and_budgeted(batched: bool) -> None:
    samples = [{"y": 1.0}, {"y": "text"}, IndexError("gone"), {"y": [1.0, 2.0]}]
    omni = OmniLoader([Scripted(*samples)], [SCALAR], names=["a"], on_error="mask", error_budget=3)

    def read(index: list[int]) -> dict[str, Any]:
        rows = omni.__getitems__(index) if batched else [omni[i] for i in index]
        return unified_collate(rows)

    with pytest.warns(
        RuntimeWarning, match=r"source 'a', sample [12] .* must be .*masked, as on_error"
    ) as seen:
        batch = read([0, 1, 2, 3])
    assert len(seen) == 1
    assert batch["y_mask"].tolist() == [True, False, False, False]
    assert batch["y"].tolist() == [1.0, -5.0, -5.0, -5.0]
    assert omni.error_counts == {"a": 3}
    with pytest.raises(SampleError, match=r"bad values so far: 4, more than error_budget=3"):
        read([1])


def test_options_for_bad_samples_are_checked() -> None:
    with pytest.raises(ConfigError, match="on_error must be one of raise, mask, got 'skip'"):
        OmniLoader([Scripted()], [SCALAR], on_error="skip")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="error_budget must be at least 0, got -1"):
        OmniLoader([Scripted()], [SCALAR], error_budget=-1)


def test_read_batch_must_return_a_row_an_index() -> None:
    class Short(DictTensorDataset):
        def read_batch(self, indices: Any) -> dict[str, Any]:
            return {"y": torch.zeros(1)}

    omni = OmniLoader([Short({"y": torch.zeros(3)})], [SCALAR], names=["a"])
    with pytest.raises(
        SampleError, match=r"'a', 'y': read_batch must return one row an index, got 1"
    ):
        omni.__getitems__([0, 1])


def test_a_failing_read_batch_is_retried_sample_by_sample() -> None:
    class Picky(DictTensorDataset):
        def read_batch(self, indices: Any) -> dict[str, Any]:
            raise ValueError("some sample is bad")

        def __getitem__(self, index: int) -> dict[str, Any]:
            if index == 2:
                raise ValueError("this one")
            return super().__getitem__(index)

    omni = OmniLoader([Picky({"y": torch.zeros(3)})], [SCALAR], names=["a"])
    assert len(omni.__getitems__([0, 1])) == 2
    with pytest.raises(SampleError, match=r"source 'a', sample 2 .*raised ValueError: this one"):
        omni.__getitems__([1, 2])


def test_sequence_lengths_read_shapes_or_fall_back() -> None:
    schema = DatasetSchema([TensorSpec("x", time_dim=9)])
    ragged = Scripted({"x": torch.zeros(3)}, {}, {"x": [1.0, 2.0]}, {"x": None})
    stacked = DictTensorDataset({"x": torch.zeros(2, 5)})
    omni = OmniLoader([ragged, stacked, Scripted({"y": 1.0})], [schema, schema, SCALAR])
    lengths = omni.sequence_lengths("x")
    assert lengths.tolist() == [3, 0, 2, 0, 5, 5, 0]
    assert lengths.dtype == np.int64
    for key in ("y", "z"):
        with pytest.raises(SchemaError, match=f"must be a sequence of the schema, got '{key}'"):
            omni.sequence_lengths(key)


def test_the_epoch_reaches_sources_that_follow_it() -> None:
    class Shifting(Scripted):
        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __getitem__(self, index: int) -> Any:
            return {"y": float(self.epoch)}

    omni = OmniLoader([Shifting(0, 0, 0)], [SCALAR])
    omni.set_epoch(2)
    assert omni[0]["y"].item() == 2.0
    assert omni.sample(0, epoch=5)["y"].item() == 5.0
    assert omni[0]["y"].item() == 2.0
    batch = unified_collate(omni.__getitems__([0, DrawIndex(1, epoch=7, visit=3), 2]))
    assert batch["y"].tolist() == [2.0, 7.0, 2.0]
    assert batch["epoch"].tolist() == [2, 7, 2]
    assert batch["visit"].tolist() == [0, 3, 0]
    with pytest.raises(PlanError, match="epoch must be at least 0 and fit int64, got -1"):
        omni.set_epoch(-1)


def test_a_draw_batch_is_taken_whole() -> None:
    datasets, schemas = quickstart()
    omni = OmniLoader(datasets, schemas)
    draws = DrawBatch(np.array([3, 200]), np.array([0, 2]), epoch=4)
    batch = unified_collate(omni.__getitems__(draws))
    assert_same_batch(batch, unified_collate([omni[i] for i in draws]))
    assert batch["epoch"].tolist() == [4, 4]
    assert batch["visit"].tolist() == [0, 2]


def test_samplers_are_in_step_with_the_loader() -> None:
    datasets, schemas = quickstart()
    omni = OmniLoader(datasets, schemas)
    sampler = omni.make_sampler()
    assert len(sampler) == 240
    sampler.set_epoch(3)
    assert omni.epoch == 3
    with pytest.raises(
        PlanError, match=r"strategy must be made for sizes \[40, 200\], got \[40, 100\]"
    ):
        omni.make_sampler(RoundRobinStrategy([40, 100]))


def test_a_batch_reads_like_a_list() -> None:
    datasets, schemas = quickstart()
    batch = OmniLoader(datasets, schemas).__getitems__([0, 50, 2])
    assert isinstance(batch, UnifiedBatch)
    assert len(batch) == 3
    assert [row["index"] for row in batch] == [0, 50, 2]
    assert batch[-1]["index"] == 2
    assert [row["index"] for row in batch[1:]] == [50, 2]
    with pytest.raises(IndexError, match="batch holds 3 samples, asked for 3"):
        batch[3]
    copy = pickle.loads(pickle.dumps(batch))  # noqa: S301 - our own batch
    assert_same_batch(unified_collate(copy), unified_collate(batch))


def test_the_batched_path_serves_subset_and_other_collators() -> None:
    datasets, schemas = quickstart()
    omni = OmniLoader(datasets, schemas)
    loader = DataLoader(Subset(omni, [7, 100]), batch_size=2, collate_fn=lambda rows: list(rows))
    rows = next(iter(loader))
    assert [row["index"] for row in rows] == [7, 100]
    assert torch.equal(rows[0]["video"], omni[7]["video"])


def test_describe_validate_repr_and_close() -> None:
    datasets, schemas = quickstart()
    omni = OmniLoader(datasets, schemas, names=["faces", "speech"])
    assert omni.describe().sizes == {"faces": 40, "speech": 200} or omni.describe().sizes == [
        40,
        200,
    ]
    assert omni.validate(strict=True) is not None
    assert repr(omni).startswith("OmniLoader({'faces': 40, 'speech': 200}; UnifiedSchema(")
    closed = []
    datasets[0].close = lambda: closed.append(1)  # type: ignore[attr-defined]
    omni.close()
    omni.reset_for_worker()
    assert closed == [1]
    assert omni.datasets == datasets
    assert omni.schemas == schemas


def test_one_schema_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(
        SchemaError, match="got one DatasetSchema; write \\[dataset\\], \\[schema\\]"
    ):
        OmniLoader(Scripted({"y": 1.0}), SCALAR)  # type: ignore[arg-type]


class Careless(Transform):
    """A user's transform that does one thing wrong."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def apply(self, sample: dict[str, Any], generator: torch.Generator) -> dict[str, Any]:
        if self.fault == "dtype":
            sample["x"] = sample["x"].double()
        if self.fault == "width":
            sample["x"] = sample["x"][:, :1]
        if self.fault == "mask":
            sample["x"] = sample["x"][:2]
        if self.fault == "lost":
            del sample["x_mask"]
        if self.fault == "raises":
            raise RuntimeError("no such filter")
        return sample


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("dtype", r"'x': after a transform must still have dtype torch.float32, got torch.float64"),
        ("width", r"'x': after a transform each step must still have shape \(3,\), got \(1,\)"),
        ("mask", r"'x': after a transform the mask must be bool of shape \(2,\) like the value"),
        ("lost", r"a transform must keep 'x_mask' as a tensor, got NoneType"),
    ],
)
def test_what_a_transform_must_keep(batched: bool, fault: str, text: str) -> None:
    schema = DatasetSchema([TensorSpec("x", feature_dim=3, time_dim=4)])
    data = DictTensorDataset({"x": torch.zeros(2, 4, 3)})
    omni = OmniLoader([data], [schema], names=["a"], transform=Careless(fault))
    with pytest.raises(SampleError, match=rf"source 'a', key '1'.*{text}"):
        omni.__getitems__([1]) if batched else omni[1]


@pytest.mark.parametrize("batched", [False, True])
def test_an_error_in_a_transform_says_which_and_where(batched: bool) -> None:
    schema = DatasetSchema([TensorSpec("x", feature_dim=3, time_dim=4)])
    data = DictTensorDataset({"x": torch.zeros(2, 4, 3)})
    omni = OmniLoader([data], [schema], names=["a"], transform=Careless("raises"))
    with pytest.raises(RuntimeError, match="no such filter") as caught:
        omni.__getitems__([1]) if batched else omni[1]
    note = "while Careless transformed a sample (source 'a', key '1')"
    assert caught.value.__notes__ == [note]
