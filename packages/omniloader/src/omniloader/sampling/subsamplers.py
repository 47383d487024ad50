"""How one source is drawn from: with or without replacement, by weight, over epochs."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from omniloader._types import FloatArray, IntArray
from omniloader.errors import PlanError
from omniloader.sampling.checks import checked_epoch, checked_whole
from omniloader.sampling.streams import Independent, Passes, Stream, Systematic
from omniloader.utils.seeding import derive_seed


class ExhaustionPolicy(enum.Enum):
    """What a new epoch does with the samples that the one before left over."""

    FRESH = "fresh"
    """Begins a new shuffle of the whole source."""
    EXHAUST = "exhaust"
    """Goes on where the last epoch stopped, until the source is used up, then shuffles anew."""


@dataclass(frozen=True)
class SubsampleConfig:
    """How samples are drawn within a source.

    Args:
        replacement: Draw independently, so that a sample may come again at any time.
        policy: What a new epoch does with what is left over; has no meaning with
            ``replacement`` or ``sample_weights``.
        effective_size: Number of samples the source counts as, in place of its size, wherever
            a strategy looks at sizes: its share of the mix and its part of the epoch's length.
            Under :class:`~omniloader.sampling.strategies.ProportionalStrategy` it is exactly the
            number of draws an epoch. All samples remain in play: smaller than the size, each
            epoch draws another part; larger, samples repeat.
        sample_weights: One weight a sample. With ``replacement`` each draw picks sample i with
            probability ``w_i / Σw``; without, sample i comes floor or ceil of
            ``count · w_i / Σw`` times. A weight of 0 means never.

    Raises:
        PlanError: If a value cannot be used.
    """

    replacement: bool = False
    policy: ExhaustionPolicy = ExhaustionPolicy.FRESH
    effective_size: int | None = None
    sample_weights: Sequence[float] | None = field(default=None, repr=False, compare=False)
    # Weights may be an array, which does not compare to one bool, and may be long.
    weights_digest: str | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the options; the weights are checked against a source by the pool."""
        try:
            policy = ExhaustionPolicy(self.policy)
        except ValueError:
            known = ", ".join(member.value for member in ExhaustionPolicy)
            raise PlanError(
                f"SubsampleConfig: policy must be one of {known}, got {self.policy!r}"
            ) from None
        object.__setattr__(self, "policy", policy)
        if not isinstance(self.replacement, bool):
            raise PlanError(
                f"SubsampleConfig: replacement must be True or False, got {self.replacement!r}"
            )
        if self.effective_size is not None:
            size = checked_whole(self.effective_size, "SubsampleConfig: effective_size", 1)
            object.__setattr__(self, "effective_size", size)
        if self.sample_weights is not None:
            raw = np.ascontiguousarray(self.sample_weights, dtype=np.float64)
            digest = hashlib.blake2b(raw.data, digest_size=8).hexdigest()
            object.__setattr__(self, "weights_digest", digest)


class IndexPool:
    """The samples of one source, and the rule by which they are drawn.

    ::

        >>> pool = IndexPool(5, policy=ExhaustionPolicy.EXHAUST)
        >>> pool.draw(3, epoch=0), pool.draw(3, epoch=1)
        ([3, 2, 4], [1, 0, 4])

    Args:
        size: Number of samples.
        replacement: Draw independently.
        policy: What a new epoch does with what is left over.
        seed: Names the order.
        weights: One weight a sample.
        name: What messages call the source.

    Raises:
        PlanError: If the size or a weight cannot be used.
    """

    def __init__(
        self,
        size: int,
        replacement: bool = False,
        policy: ExhaustionPolicy = ExhaustionPolicy.FRESH,
        seed: int = 0,
        weights: Sequence[float] | None = None,
        *,
        name: str = "pool",
    ) -> None:
        self.name = name
        self.size = checked_whole(size, f"source '{name}': size", 0)
        self.replacement = replacement
        self.policy = ExhaustionPolicy(policy)
        self.seed = seed
        self._weights = None if weights is None else checked_weights(weights, self.size, name)
        self._groups: IntArray | None = None
        self._cumulative: FloatArray | None = None
        self._windows: dict[int, tuple[int, int]] = {}

    @property
    def is_stream(self) -> bool:
        """Whether an epoch goes on where the last one stopped."""
        exhausts = self.policy is ExhaustionPolicy.EXHAUST
        return exhausts and not self.replacement and self._weights is None

    def stream(self, count: int, epoch: int, start: int = 0) -> Stream:
        """The draws of one epoch, as a function of their numbers.

        Args:
            count: Number of draws.
            epoch: From 0.
            start: Draws of all epochs before; read only where :attr:`is_stream`.
        """
        if self.is_stream:
            return Passes(self.size, derive_seed(self.seed, "exhaust"), start)
        if self.replacement:
            seed = derive_seed(self.seed, "replacement", epoch)
            return Independent(self.size, seed, self._running_weights())
        if self._weights is None:
            return Passes(self.size, derive_seed(self.seed, "fresh", epoch))
        if self._groups is None:
            self._groups = np.unique(self._weights, return_inverse=True)[1].astype(np.int64)
        seed = derive_seed(self.seed, "systematic", epoch)
        return Systematic(self._weights, self._groups, seed, count)

    def draw(self, count: int, epoch: int) -> list[int]:
        """The local indices of one epoch; the same whenever they are asked for again.

        Args:
            count: Number of draws.
            epoch: From 0. Under EXHAUST a new epoch starts where the last one before it, of
                those this pool was asked for, has ended.

        Raises:
            PlanError: If the count is negative, or samples are asked of an empty source.
        """
        count = checked_whole(count, f"source '{self.name}': count", 0)
        epoch = checked_epoch(epoch)
        if count == 0:
            return []
        if self.size == 0:
            raise PlanError(f"source '{self.name}': has no samples, asked for {count}")
        stream = self.stream(count, epoch, self._window_start(count, epoch))
        return list(stream.take(np.arange(count))[0].tolist())

    def _window_start(self, count: int, epoch: int) -> int:
        if epoch in self._windows:
            start = self._windows[epoch][0]
        else:
            before = [known for known in self._windows if known < epoch]
            start = sum(self._windows[max(before)]) if before else 0
        self._windows[epoch] = (start, count)
        return start

    def _running_weights(self) -> FloatArray | None:
        if self._weights is not None and self._cumulative is None:
            self._cumulative = np.cumsum(self._weights)
        return self._cumulative


def checked_weights(weights: Sequence[float], size: int, name: str) -> FloatArray:
    """Sample weights as float64 ``(size,)``, or an error that names the source."""
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (size,):
        raise PlanError(
            f"source '{name}': sample_weights must hold one weight for each of its {size} "
            f"samples, got shape {array.shape}"
        )
    wrong = np.flatnonzero(~np.isfinite(array) | (array < 0))
    if len(wrong):
        raise PlanError(
            f"source '{name}': sample_weights must be finite and at least 0, got "
            f"{array[wrong[0]]} for sample {wrong[0]} ({len(wrong)} such weights)"
        )
    if size and not array.any():
        raise PlanError(
            f"source '{name}': sample_weights must not all be 0; leave the source out of the mix "
            "if nothing of it is to be drawn"
        )
    if array.max(initial=0.0) > 1e290:  # their sum could overflow
        array = array / array.max()
    return array
