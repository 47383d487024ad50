"""MixUp and CutMix of whole batches, at collate.

MixUp (Zhang et al. 2018, "mixup: Beyond Empirical Risk Minimization") blends each sample with a
partner; CutMix (Yun et al. 2019) pastes a part of the partner. A joint batch holds samples that
have little in common, so here a pair meets only where both are real.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from omniloader._types import Sample
from omniloader.errors import ConfigError, SampleError, SchemaError
from omniloader.masks import mask_name
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.transforms.cut import box, windows
from omniloader.transforms.options import number, probability
from omniloader.transforms.valid import valid_index, wide
from omniloader.utils.seeding import derive_keys, derive_seed

Mode = Literal["mixup", "cutmix"]
PARTNER_SUFFIX = "_b"


class MixupCollator:
    """Collates, then mixes every sample with another one of its batch.

    The loss weighs both labels: ``lam * loss(out, y) + (1 - lam) * loss(out, y_b)``, each under its
    mask. The batch gets besides:

    - ``mixup_lambda``: the share of the sample itself, a float for the whole batch;
    - ``mixup_index``: the row of each sample's partner, int64 ``(B,)``;
    - ``<target>_b`` and ``<target>_b_mask``: the partner's targets.

    ``"mixup"`` blends floating features, ``lam * x + (1 - lam) * x_b``. ``"cutmix"`` pastes a
    window of time into sequences (the same share of each sample's real extent, in all its
    sequences at the same place) and a box into images ``(C, H, W)``, whatever their dtype; flat
    vectors have nothing to cut along and are blended. Its ``mixup_lambda`` is the share really
    kept.

    Both work step by step where the feature is real in both samples; a feature that only one of
    them has stays as it is, masks stay as they are. A sample that shares no feature with its
    partner is its own partner, so that no label is learnt from features that are not there.

    Args:
        base_collate: Makes the batch, such as ``unified_collate``. The batch is written in place.
        schema: The union schema: which values are features, which targets.
        alpha: Of the Beta(alpha, alpha) that the share is drawn from; 0: no mixing.
        mode: ``"mixup"`` or ``"cutmix"``.
        p: Probability that a batch is mixed.
        seed: Seed of the draw. It depends on the seed and on the samples of the batch (their
            ``index``, ``epoch``, ``visit``), hence not on workers. A batch without them draws
            from torch's generator of the worker.

    Raises:
        ConfigError: If an option is out of range.
        SchemaError: If a value already has the name of a partner's target.
    """

    def __init__(
        self,
        base_collate: Callable[[Sequence[Sample]], dict[str, Any]],
        schema: UnifiedSchema | DatasetSchema,
        alpha: float = 0.2,
        mode: Mode = "mixup",
        p: float = 1.0,
        seed: int = 0,
    ) -> None:
        if mode not in get_args(Mode):
            raise ConfigError(
                f"MixupCollator: mode must be one of {', '.join(get_args(Mode))}, got {mode!r}"
            )
        self.base_collate = base_collate
        self.schema = schema if isinstance(schema, UnifiedSchema) else UnifiedSchema([schema])
        self.alpha = number("MixupCollator", "alpha", alpha, 0.0)
        self.mode = mode
        self.p = probability("MixupCollator", "p", p)
        self.seed = seed
        for name in self.schema.target_keys:
            if name + PARTNER_SUFFIX in self.schema:
                raise SchemaError(
                    f"MixupCollator: '{name}{PARTNER_SUFFIX}' must be free for the partner's "
                    f"'{name}', got a value of that name in the schema; rename it"
                )

    def __call__(self, batch: Sequence[Sample]) -> dict[str, Any]:
        """Collate and mix a batch.

        Args:
            batch: B unified samples.

        Returns:
            What the base collate function returns, mixed, with the entries above.

        Raises:
            SampleError: If the collated batch lacks a value of the schema.
        """
        # The same dict: a batch that is to leave a worker in one piece is a dict of its own kind.
        collated = self.base_collate(batch)
        self._check(collated)
        size = len(batch)
        rng = np.random.default_rng(self._batch_seed(collated))
        lam, partner = 1.0, torch.arange(size)
        if self.alpha > 0 and size > 1 and rng.random() < self.p:
            drawn = float(rng.beta(self.alpha, self.alpha))
            order = torch.from_numpy(rng.permutation(size))
            lam, mixed = self._mix(collated, order, drawn, rng.random(2).tolist())
            partner = torch.where(mixed, order, partner)
        collated["mixup_lambda"], collated["mixup_index"] = lam, partner
        for name in self.schema.target_keys:
            theirs = name + PARTNER_SUFFIX
            collated[theirs] = collated[name][partner]
            collated[mask_name(theirs)] = collated[mask_name(name)][partner]
        return collated

    def _mix(
        self, collated: dict[str, Any], order: Tensor, lam: float, place: list[float]
    ) -> tuple[float, Tensor]:
        """Mix all features; the share really kept, and which rows were mixed at all."""
        mixed = torch.zeros(len(order), dtype=torch.bool)
        blended: list[tuple[Tensor, Tensor]] = []
        counts: list[tuple[float, float]] = []
        for spec in self.schema.features:
            value, mask = collated[spec.name], collated[mask_name(spec.name)]
            both = mask & mask[order]
            rows = both.reshape(len(order), -1).any(1)
            flat = not spec.is_sequence and len(spec.trailing_shape) < 2
            if not rows.any():
                continue
            if not value.is_contiguous():
                collated[spec.name] = value = value.contiguous()
            if self.mode == "mixup" or flat:
                if not spec.dtype.is_floating_point:
                    continue
                blended.append((value, both))
            elif spec.is_sequence:
                cut = windows(mask, 1 - lam, place[0]) & both
                counts.append(_paste(value, mask, rows, order, cut))
            else:
                counts.append(box(value, rows, order, 1 - lam, place))
            mixed |= rows
        if counts:
            lam = 1 - sum(part for part, _ in counts) / sum(whole for _, whole in counts)
        for value, both in blended:
            _blend(value, order, both, lam)
        return lam, mixed

    def _batch_seed(self, collated: dict[str, Any]) -> int:
        columns = [collated.get(name) for name in ("epoch", "index", "visit")]
        if not all(isinstance(column, Tensor) for column in columns):
            return int(torch.randint(2**63 - 1, ()))
        arrays = [column.numpy() for column in columns if isinstance(column, Tensor)]
        keys = derive_keys(derive_seed(self.seed, "mixup"), *arrays)
        return derive_seed(self.seed, "mixup", keys.astype("<u8").tobytes().hex())

    def _check(self, collated: dict[str, Any]) -> None:
        for name in self.schema.keys:
            for wanted in (name, mask_name(name)):
                if not isinstance(collated.get(wanted), Tensor):
                    raise SampleError(
                        f"MixupCollator: the collated batch must hold '{wanted}' as a tensor, got "
                        f"{type(collated.get(wanted)).__name__}; let base_collate stack all values "
                        "of the schema"
                    )


def _steps(value: Tensor, mask: Tensor) -> Tensor:
    """A value as ``(B·T, *trailing)``, a view."""
    return value.view(-1, *value.shape[mask.ndim :])


def _partners(index: Tensor, order: Tensor, steps: int) -> Tensor:
    """Flat position of the same step in the partner of each."""
    return order[index // steps] * steps + index % steps


def _blend(value: Tensor, order: Tensor, both: Tensor, lam: float) -> None:
    """Blend the steps that are real in both, in place."""
    index = valid_index(both)
    flat = _steps(value, both)
    there = _partners(index, order, both.shape[1] if both.ndim > 1 else 1)
    dtype = wide(value.dtype)
    own = flat.index_select(0, index).to(dtype).mul_(lam)
    other = flat.index_select(0, there).to(dtype).mul_(1 - lam)
    flat.index_copy_(0, index, own.add_(other).to(value.dtype))


def _paste(
    value: Tensor, mask: Tensor, rows: Tensor, order: Tensor, cut: Tensor
) -> tuple[float, float]:
    """Paste the partner's steps, in place; how many of the real steps of mixed rows these are."""
    index = valid_index(cut)
    flat = _steps(value, mask)
    flat.index_copy_(0, index, flat.index_select(0, _partners(index, order, mask.shape[1])))
    return float(index.numel()), float(mask[rows].sum())
