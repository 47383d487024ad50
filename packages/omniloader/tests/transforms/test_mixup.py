from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transform_cases import SCHEMA, batch_of

from omniloader.collate import DynamicCollator, unified_collate
from omniloader.errors import ConfigError, SampleError, SchemaError
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import DatasetSchema, TensorSpec, UnifiedSchema
from omniloader.transforms import MixupCollator
from omniloader.transforms.cut import windows

SIZE = 9


def random_batch(seed: int = 0, size: int = SIZE) -> UnifiedBatch:
    rng = np.random.default_rng(seed)
    values: dict[str, Any] = {}
    for spec in SCHEMA.specs:
        shape = (size, *spec.value_shape)
        value = (
            rng.normal(size=shape) if spec.dtype.is_floating_point else rng.integers(0, 9, shape)
        )
        mask = rng.random((size, *spec.mask_shape)) < 0.8
        mask &= (rng.random(size) < 0.7).reshape(-1, *(1,) * (mask.ndim - 1))
        values[spec.name] = (value, mask)
    return batch_of(values, SCHEMA)


def plain(seed: int = 0, size: int = SIZE) -> dict[str, Any]:
    return unified_collate(random_batch(seed, size))


def at(mask: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return mask.reshape(mask.shape + (1,) * (value.ndim - mask.ndim))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), alpha=st.sampled_from([0.2, 1.0, 5.0]))
def test_mixup_blends_where_both_are_real(seed: int, alpha: float) -> None:
    before = plain(seed)
    result = MixupCollator(unified_collate, SCHEMA, alpha=alpha, seed=seed)(random_batch(seed))
    lam, partner = result["mixup_lambda"], result["mixup_index"]
    assert isinstance(lam, float)
    assert partner.shape == (SIZE,)
    mixed = torch.zeros(SIZE, dtype=torch.bool)
    for spec in SCHEMA.features:
        x, mask = before[spec.name], before[f"{spec.name}_mask"]
        assert torch.equal(result[f"{spec.name}_mask"], mask)
        both = mask & mask[partner]
        blended = (lam * x.double() + (1 - lam) * x[partner].double()).to(x.dtype)
        if not spec.dtype.is_floating_point:
            blended = x
        elif bool(both.any()):
            mixed |= both.reshape(SIZE, -1).any(1)
        expected = torch.where(at(both, x), blended, x)
        coarse = {torch.float16: 1e-2, torch.bfloat16: 5e-2}.get(x.dtype, 1e-5)
        torch.testing.assert_close(result[spec.name], expected, rtol=coarse, atol=coarse)
        assert torch.equal(result[spec.name][~both], x[~both])
    for spec in SCHEMA.targets:
        y, mask = before[spec.name], before[f"{spec.name}_mask"]
        assert torch.equal(result[spec.name], y)
        assert torch.equal(result[f"{spec.name}_b"], y[partner])
        assert torch.equal(result[f"{spec.name}_b_mask"], mask[partner])
    assert torch.equal(partner[~mixed], torch.arange(SIZE)[~mixed])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_cutmix_pastes_whole_steps_of_the_partner(seed: int) -> None:
    before = plain(seed)
    result = MixupCollator(unified_collate, SCHEMA, alpha=1.0, mode="cutmix", seed=seed)(
        random_batch(seed)
    )
    lam, partner = result["mixup_lambda"], result["mixup_index"]
    assert 0 <= lam <= 1
    pasted = real = 0
    for spec in SCHEMA.features:
        x, mask, new = before[spec.name], before[f"{spec.name}_mask"], result[spec.name]
        assert torch.equal(result[f"{spec.name}_mask"], mask)
        if not spec.is_sequence:
            continue
        both = mask & mask[partner]
        own, theirs = ((new == other).reshape(*mask.shape, -1).all(-1) for other in (x, x[partner]))
        assert bool((own | (theirs & both)).all())
        rows = both.any(1) & (partner != torch.arange(SIZE))
        if spec.dtype.is_floating_point:
            pasted += int((theirs & ~own).sum())
            real += int(mask[rows].sum())
    if real and pasted:
        assert 1 - lam == pytest.approx(pasted / real, abs=0.35)


def test_the_window_is_the_same_share_of_every_extent() -> None:
    mask = torch.arange(10) < torch.tensor([10, 5, 0, 1])[:, None]
    cut = windows(mask, 0.4, 0.5)
    assert cut.sum(1).tolist() == [4, 2, 0, 0]
    assert not bool((cut & ~mask).any())
    for place in (0.0, 0.999999):
        assert not bool((windows(mask, 0.4, place) & ~mask).any())
    assert torch.equal(windows(mask, 1.0, 0.7), mask)


def images(size: int = 6) -> UnifiedBatch:
    schema = UnifiedSchema(
        [
            DatasetSchema(
                [TensorSpec("im", shape=(1, 8, 8)), TensorSpec("v", feature_dim=2)],
                [TensorSpec("y")],
            )
        ]
    )
    number = np.arange(size, dtype=np.float32)
    value = np.broadcast_to(number[:, None, None, None], (size, 1, 8, 8))
    real = np.ones(size, dtype=bool)
    vector = np.repeat(number[:, None], 2, 1)
    return batch_of({"im": (value, real), "v": (vector, real), "y": (number, real)}, schema)


def test_cutmix_pastes_a_box_into_images_and_blends_vectors_by_its_share() -> None:
    for seed in range(10):
        batch = images()
        result = MixupCollator(unified_collate, batch.schema, alpha=1.0, mode="cutmix", seed=seed)(
            batch
        )
        lam, partner = result["mixup_lambda"], result["mixup_index"]
        rows = torch.arange(6.0)
        moved = partner != torch.arange(6)
        theirs = (result["im"][:, 0] != rows[:, None, None]) & moved[:, None, None]
        share = theirs[moved].double().mean((1, 2))
        torch.testing.assert_close(share, torch.full_like(share, 1 - lam))
        expected = lam * rows + (1 - lam) * partner
        torch.testing.assert_close(result["v"][:, 0], expected.float())
        for plane in theirs[moved]:
            inside = plane.nonzero()
            if len(inside):
                low, high = inside.min(0).values, inside.max(0).values + 1
                assert int((high - low).prod()) == len(inside)


def test_samples_without_common_features_are_their_own_partners() -> None:
    schema = UnifiedSchema(
        [
            DatasetSchema(
                [TensorSpec("a", feature_dim=2), TensorSpec("b", feature_dim=2)], [TensorSpec("y")]
            )
        ]
    )
    first = np.arange(8) < 4
    batch = batch_of(
        {
            "a": (np.random.default_rng(0).random((8, 2)), first),
            "b": (np.random.default_rng(1).random((8, 2)), ~first),
            "y": (np.arange(8.0), np.ones(8)),
        },
        schema,
    )
    result = MixupCollator(unified_collate, schema, alpha=1.0, seed=2)(batch)
    partner = result["mixup_index"].numpy()
    assert (first[partner] == first).all()
    assert (partner != np.arange(8)).any()
    assert torch.equal(result["y_b"], torch.from_numpy(partner).float())


@pytest.mark.parametrize("options", [{"alpha": 0.0}, {"p": 0.0}])
def test_no_mixing_is_the_identity_with_the_same_keys(options: dict[str, Any]) -> None:
    before = plain()
    result = MixupCollator(unified_collate, SCHEMA, **options)(random_batch())
    assert result["mixup_lambda"] == 1.0
    assert result["mixup_index"].tolist() == list(range(SIZE))
    for name, value in before.items():
        if torch.is_tensor(value):
            assert torch.equal(result[name], value)
    assert torch.equal(result["valence_b"], before["valence"])
    assert result.keys() - before.keys() == {
        "mixup_lambda",
        "mixup_index",
        "valence_b",
        "valence_b_mask",
        "label_b",
        "label_b_mask",
    }


def test_a_batch_of_one_is_the_identity() -> None:
    result = MixupCollator(unified_collate, SCHEMA, alpha=1.0)(random_batch(size=1))
    assert result["mixup_lambda"] == 1.0
    assert result["mixup_index"].tolist() == [0]


def test_probability_is_a_share_of_batches() -> None:
    collate = MixupCollator(unified_collate, SCHEMA, p=0.5)
    mixed = 0
    for number in range(60):
        batch = random_batch(size=4)
        batch.origin["epoch"] += number
        mixed += collate(batch)["mixup_lambda"] != 1.0
    assert 15 < mixed < 45


def test_the_draw_depends_on_seed_and_samples_only() -> None:
    def lam(collate: Any, batch: Any) -> float:
        return float(collate(batch)["mixup_lambda"])

    collate = MixupCollator(unified_collate, SCHEMA, alpha=1.0)
    state = torch.get_rng_state()
    first = lam(collate, random_batch())
    assert first == lam(pickle.loads(pickle.dumps(collate)), random_batch())  # noqa: S301
    assert first == lam(collate, list(random_batch()))
    assert torch.equal(state, torch.get_rng_state())
    others = [lam(MixupCollator(unified_collate, SCHEMA, alpha=1.0, seed=1), random_batch())]
    for column in ("epoch", "index", "visit"):
        batch = random_batch()
        batch.origin[column][0] += 1
        others.append(lam(collate, batch))
    assert len({first, *others}) == 5


def test_a_batch_without_indices_draws_from_torchs_generator() -> None:
    def bare(batch: Any) -> dict[str, Any]:
        return {k: v for k, v in unified_collate(batch).items() if k not in ("index", "epoch")}

    collate = MixupCollator(bare, SCHEMA, alpha=1.0)
    torch.manual_seed(1)
    first, second = (collate(random_batch())["mixup_lambda"] for _ in range(2))
    torch.manual_seed(1)
    assert first == collate(random_batch())["mixup_lambda"]
    assert first != second


def test_native_lengths_are_mixed_after_dynamic_padding() -> None:
    schema = UnifiedSchema([DatasetSchema([TensorSpec("x", feature_dim=2, time_dim=9)])])
    samples = [
        {
            "x": torch.ones(n, 2) * n,
            "x_mask": torch.ones(n, dtype=torch.bool),
            "index": n,
            "epoch": 0,
            "visit": 0,
        }
        for n in (2, 5, 3)
    ]
    for mode in ("mixup", "cutmix"):
        collate = MixupCollator(DynamicCollator(schema), schema, alpha=1.0, mode=mode)  # type: ignore[arg-type]
        result = collate(samples)
        assert result["x"].shape == (3, 5, 2)
        assert bool((result["x"][~result["x_mask"]] == 0).all())


def test_a_batch_that_is_not_contiguous_is_mixed_all_the_same() -> None:
    def turned(batch: Any) -> dict[str, Any]:
        made = unified_collate(batch)
        made["audio"] = made["audio"].transpose(0, 1).contiguous().transpose(0, 1)
        return made

    straight = MixupCollator(unified_collate, SCHEMA, alpha=1.0)(random_batch())
    other = MixupCollator(turned, SCHEMA, alpha=1.0)(random_batch())
    assert torch.equal(straight["audio"], other["audio"])


def test_misuse_is_refused() -> None:
    with pytest.raises(ConfigError, match="mode must be one of mixup, cutmix, got 'blend'"):
        MixupCollator(unified_collate, SCHEMA, mode="blend")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="alpha must be a number at least 0, got -1"):
        MixupCollator(unified_collate, SCHEMA, alpha=-1)
    with pytest.raises(ConfigError, match="p must be a number"):
        MixupCollator(unified_collate, SCHEMA, p=2)
    doubled = DatasetSchema([TensorSpec("y_b")], [TensorSpec("y")])
    with pytest.raises(SchemaError, match="'y_b' must be free for the partner's 'y'"):
        MixupCollator(unified_collate, doubled)
    with pytest.raises(SampleError, match=r"must hold 'y(_mask)?' as a tensor, got NoneType"):
        MixupCollator(lambda batch: {}, DatasetSchema([], [TensorSpec("y")]))([{}])
