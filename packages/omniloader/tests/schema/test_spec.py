import pytest
import torch

from omniloader.errors import SchemaError
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema, fits_dtype


def test_shapes_of_the_four_kinds() -> None:
    shapes = {
        (): TensorSpec("a"),
        (3,): TensorSpec("b", feature_dim=3),
        (4,): TensorSpec("c", time_dim=4),
        (4, 3): TensorSpec("d", time_dim=4, feature_dim=3),
        (15, 3, 64, 64): TensorSpec("e", time_dim=15, shape=(3, 64, 64)),
    }
    for shape, spec in shapes.items():
        assert spec.value_shape == shape
        assert spec.mask_shape == ((spec.time_dim,) if spec.is_sequence else ())
        assert spec.trailing_shape == shape[len(spec.mask_shape) :]


def test_shape_list_becomes_a_tuple_so_that_specs_stay_hashable() -> None:
    assert hash(TensorSpec("e", shape=[3, 2])) == hash(TensorSpec("e", shape=(3, 2)))  # type: ignore[arg-type]


def test_placeholders_are_fresh_memory() -> None:
    spec = TensorSpec("x", time_dim=2, placeholder=-1.0)
    first, second = spec.placeholder_value(), spec.placeholder_value()
    first.fill_(9)
    assert second.tolist() == [-1.0, -1.0]
    assert spec.placeholder_mask().tolist() == [False, False]


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"name": "x_mask"}, r"spec 'x_mask': a name must not end in '_mask'.*declare 'x'"),
        ({"name": "dataset"}, r"spec 'dataset': the name is reserved for metadata"),
        ({"name": "visit"}, r"spec 'visit': the name is reserved for metadata"),
        ({"name": ""}, r"name must be a non-empty text, got ''"),
        ({"name": 3}, r"name must be a non-empty text, got 3"),
        ({"feature_dim": 0}, r"'x': feature_dim must be a whole number of at least 1, got 0"),
        ({"feature_dim": True}, r"feature_dim must be a whole number of at least 1, got True"),
        ({"time_dim": -2}, r"time_dim must be a whole number of at least 1, got -2"),
        ({"shape": (3, 0)}, r"shape\[1\] must be a whole number of at least 1, got 0"),
        ({"shape": (3,), "feature_dim": 3}, r"feature_dim=3 and shape=\(3,\) exclude each other"),
        ({"dtype": "float32"}, r"dtype must be a torch dtype such as torch.float32, got 'float32'"),
        ({"nonfinite": "drop"}, r"nonfinite must be one of keep, mask, raise, got 'drop'"),
        ({"placeholder": None}, r"placeholder must be a number, got None"),
        (
            {"dtype": torch.uint8, "placeholder": -1},
            r"placeholder -1 does not fit torch.uint8; choose a placeholder the dtype can hold",
        ),
        ({"dtype": torch.int64, "placeholder": float("nan")}, r"nan does not fit torch.int64"),
        ({"dtype": torch.float16, "placeholder": 1e5}, r"100000.0 does not fit torch.float16"),
        ({"dtype": torch.int32, "placeholder": 0.5}, r"0.5 does not fit torch.int32"),
        ({"dtype": torch.bool, "placeholder": 2}, r"2 does not fit torch.bool"),
    ],
)
def test_impossible_declarations_are_refused(kwargs: dict[str, object], text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        TensorSpec(**{"name": "x", **kwargs})  # type: ignore[arg-type]


def test_what_a_dtype_holds() -> None:
    assert fits_dtype(float("nan"), torch.float16)
    assert fits_dtype(float("inf"), torch.float32)
    assert fits_dtype(-128, torch.int8)
    assert not fits_dtype(128, torch.int8)
    assert fits_dtype(1, torch.complex64)
    assert TensorSpec("b", dtype=torch.bool, placeholder=True).placeholder is True


def test_a_schema_refuses_doubled_names_and_strangers() -> None:
    with pytest.raises(
        SchemaError, match="'x' is declared twice; a value is a feature or a target"
    ):
        DatasetSchema(features=[TensorSpec("x")], targets=[TensorSpec("x")])
    with pytest.raises(SchemaError, match="every entry must be a TensorSpec, got 'x'"):
        DatasetSchema(features=["x"])  # type: ignore[list-item]
    with pytest.raises(SchemaError, match="targets must be a list of TensorSpec, got one alone"):
        DatasetSchema(targets=TensorSpec("x"))  # type: ignore[arg-type]


def test_union_keeps_the_order_of_first_appearance() -> None:
    a = DatasetSchema([TensorSpec("video"), TensorSpec("pose")], [TensorSpec("valence")])
    b = DatasetSchema([TensorSpec("audio"), TensorSpec("video")], [TensorSpec("mood")])
    union = UnifiedSchema([a, b])
    assert union.feature_keys == ["video", "pose", "audio"]
    assert union.target_keys == ["valence", "mood"]
    assert [spec.name for spec in union.specs] == ["video", "pose", "audio", "valence", "mood"]
    assert union.keys == {"video", "pose", "audio", "valence", "mood"}
    assert len(union) == 5
    assert "audio" in union
    assert a.keys == {"video", "pose", "valence"}
    assert union.spec("mood") is b.targets[0]
    assert repr(union).startswith("UnifiedSchema(features=['video'")
    assert union == UnifiedSchema([a, b])
    assert hash(union) == hash(UnifiedSchema([a, b]))
    assert union != UnifiedSchema([a])
    assert (union == 3) is False
    with pytest.raises(KeyError, match="'smell' is not in the union schema; declared: video, pose"):
        union.spec("smell")


def test_negative_zero_fills_like_zero() -> None:
    value = TensorSpec("x", feature_dim=1, placeholder=-0.0).placeholder_value()
    assert value.numpy().tobytes() == bytes(4)


def test_a_nan_placeholder_agrees_with_itself() -> None:
    spec = TensorSpec("x", placeholder=float("nan"))
    again = TensorSpec("x", placeholder=float("nan"))
    assert len(UnifiedSchema([DatasetSchema([spec]), DatasetSchema([again])])) == 1


@pytest.mark.parametrize(
    ("other", "attribute"),
    [
        (TensorSpec("x", feature_dim=4, time_dim=2), "trailing_shape"),
        (TensorSpec("x", feature_dim=3, time_dim=5), "time_dim"),
        (TensorSpec("x", feature_dim=3), "time_dim"),
        (TensorSpec("x", feature_dim=3, time_dim=2, dtype=torch.int64), "dtype"),
        (TensorSpec("x", feature_dim=3, time_dim=2, placeholder=-1.0), "placeholder"),
    ],
)
def test_sources_that_disagree_are_named_with_both_specs(other: TensorSpec, attribute: str) -> None:
    first = DatasetSchema([TensorSpec("x", feature_dim=3, time_dim=2)])
    with pytest.raises(SchemaError) as caught:
        UnifiedSchema([first, DatasetSchema([other])], names=["faces", "speech"])
    text = str(caught.value)
    assert text.startswith(f"'x': sources 'faces' and 'speech' disagree on {attribute}: ")
    assert f"'faces' declares a feature, {first.features[0].describe()}" in text
    assert f"'speech' declares a feature, {other.describe()}" in text


def test_a_role_may_not_change_between_sources() -> None:
    spec = TensorSpec("x")
    with pytest.raises(SchemaError, match="'dataset_0' and 'dataset_1' disagree on role"):
        UnifiedSchema([DatasetSchema([spec]), DatasetSchema(targets=[spec])])


def test_habits_of_a_source_may_differ() -> None:
    a, b = TensorSpec("x", sentinel=-999.0), TensorSpec("x", nonfinite="mask")
    assert UnifiedSchema([DatasetSchema([a]), DatasetSchema([b])]).keys == {"x"}
