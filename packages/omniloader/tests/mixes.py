"""Shared by the suite: random schemas, raw samples that follow them, and small fixed mixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from omniloader.data.memory import DictTensorDataset
from omniloader.masks import mask_name
from omniloader.schema.spec import DatasetSchema, TensorSpec
from omniloader.transforms.base import Transform

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
)


@st.composite
def specs(draw: st.DrawFn, name: str) -> TensorSpec:
    """A spec of any kind: vector or sequence; scalar, flat or structured."""
    dtype = draw(st.sampled_from(DTYPES))
    if dtype.is_floating_point:
        placeholder: float = draw(st.sampled_from([0.0, -5.0, float("nan")]))
    else:
        placeholder = draw(st.sampled_from([0, 1]))
    kind = draw(st.sampled_from(["scalar", "flat", "structured"]))
    size = st.integers(1, 3)
    return TensorSpec(
        name,
        feature_dim=draw(size) if kind == "flat" else None,
        shape=tuple(draw(st.lists(size, min_size=2, max_size=3))) if kind == "structured" else None,
        time_dim=draw(st.none() | st.integers(1, 5)),
        dtype=dtype,
        placeholder=placeholder,
    )


@st.composite
def schema_lists(draw: st.DrawFn, max_sources: int = 3) -> list[DatasetSchema]:
    """Schemas of several sources that agree about the values they share."""
    names = [f"v{i}" for i in range(draw(st.integers(1, 5)))]
    pool = [draw(specs(name)) for name in names]
    is_target = [draw(st.booleans()) for _ in pool]
    schemas = []
    for _ in range(draw(st.integers(1, max_sources))):
        own = [draw(st.booleans()) for _ in pool]
        triples = list(zip(pool, is_target, own, strict=True))
        schemas.append(
            DatasetSchema(
                features=[s for s, target, here in triples if here and not target],
                targets=[s for s, target, here in triples if here and target],
            )
        )
    return schemas


def random_value(spec: TensorSpec, rng: np.random.Generator, steps: int) -> torch.Tensor:
    """A value of a spec with ``steps`` steps, as a source could hold it."""
    shape = ((steps,) if spec.is_sequence else ()) + spec.trailing_shape
    if spec.dtype is torch.bool:
        return torch.from_numpy(np.asarray(rng.integers(0, 2, shape).astype(bool)))
    if spec.dtype.is_floating_point:
        return torch.from_numpy(np.asarray(rng.normal(size=shape))).to(spec.dtype)
    return torch.from_numpy(np.asarray(rng.integers(0, 100, shape))).to(spec.dtype)


class RawDataset:
    """A source that only has ``ds[i]``: missing values, None, short and long sequences, masks."""

    def __init__(
        self,
        schema: DatasetSchema,
        size: int,
        seed: int,
        *,
        ragged: bool = True,
        exact: bool = False,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.samples: list[dict[str, Any]] = []
        for i in range(size):
            sample: dict[str, Any] = {"key": f"s{i}"} if rng.random() < 0.5 else {}
            for spec in schema.specs:
                fate = rng.random()
                if not exact and fate < 0.15:
                    continue
                if not exact and fate < 0.25:
                    sample[spec.name] = None
                    continue
                steps = int(rng.integers(0, 8)) if ragged else (spec.time_dim or 1)
                value = random_value(spec, rng, steps)
                sample[spec.name] = value.numpy() if fate > 0.8 else value
                if rng.random() < 0.4:
                    flags = rng.integers(0, 2, (steps,) if spec.is_sequence else ())
                    kind = rng.choice(["bool", "int64", "float32"])
                    sample[mask_name(spec.name)] = np.asarray(flags).astype(kind)
            self.samples.append(sample)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.samples[index]


def equal(left: Any, right: Any) -> bool:
    """Bit equality of tensors (nan equals nan), equality of the rest."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        if left.dtype is not right.dtype or left.shape != right.shape:
            return False
        return left.numpy().tobytes() == right.numpy().tobytes()
    return bool(left == right)


def assert_same_batch(left: dict[str, Any], right: dict[str, Any]) -> None:
    """Same keys in the same order, and every entry bit for bit."""
    assert list(left) == list(right)
    for name, value in left.items():
        assert equal(value, right[name]), f"'{name}' differs: {value} against {right[name]}"


def quickstart() -> tuple[list[DictTensorDataset], list[DatasetSchema]]:
    """The two sources of the quickstart, with fixed values."""
    g = torch.Generator().manual_seed(0)
    faces = DictTensorDataset(
        {
            "video": torch.randn(40, 16, 32, generator=g),
            "valence": torch.randn(40, 16, generator=g),
        }
    )
    speech = DictTensorDataset(
        {
            "audio": torch.randn(200, 24, 8, generator=g),
            "sentiment": torch.randn(200, generator=g),
        }
    )
    return [faces, speech], [
        DatasetSchema(
            [TensorSpec("video", feature_dim=32, time_dim=16)],
            [TensorSpec("valence", time_dim=16, placeholder=-5.0)],
        ),
        DatasetSchema(
            [TensorSpec("audio", feature_dim=8, time_dim=24)],
            [TensorSpec("sentiment", placeholder=-5.0)],
        ),
    ]


def batches(loader: Sequence[Any] | Any) -> list[dict[str, Any]]:
    """All batches, with tensors copied so that nothing is shared with a worker's memory."""
    return [
        {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
        for batch in loader
    ]


class AddNoise(Transform):
    """A user's transform: draws from its generator, writes in place."""

    def apply(self, sample: dict[str, Any], generator: torch.Generator) -> dict[str, Any]:
        real = sample["video_mask"]
        sample["video"][real] += torch.randn(int(real.sum()), 32, generator=generator)
        return sample


class Numbered:
    """Sample i is filled with i."""

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.full((32, 512), float(index)), "y": torch.tensor(index)}
