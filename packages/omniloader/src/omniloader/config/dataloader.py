"""A ``DataLoader`` that can say exactly where its epoch stands."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch.utils.data import DataLoader

from omniloader.errors import StateError
from omniloader.sampling.batches import OmniBatchSampler
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.state import State


class OmniDataLoader(DataLoader[Any]):
    """An ordinary ``DataLoader`` with ``set_epoch``, ``state_dict`` and ``load_state_dict``.

    Made by ``OmniConfig.build_dataloader``. The state counts batches that came out of the loader,
    not those that workers have read ahead, so it is exact in the middle of an epoch for any number
    of workers::

        state = loader.state_dict()          # after some batches, in the checkpoint
        loader.load_state_dict(state)        # in a new process: the next iteration goes on there
    """

    # No __init__ of its own: Lightning and Accelerate make a loader again from its arguments.
    _planned: OmniBatchSampler | None = None
    _counted: tuple[int, int] = (0, 0)
    _finished: int | None = None
    # Accelerate leaves such a loader as it is: sharing out a second time would lose samples.
    _is_accelerate_prepared = True

    @property
    def _index_sampler(self) -> Any:
        """The same batches as torch would cut from the sampler, each as one object."""
        if not isinstance(self.sampler, OmniSampler) or self.batch_size is None:
            return super()._index_sampler
        if self._planned is None or self._planned.sampler is not self.sampler:
            self._planned = OmniBatchSampler(self.sampler, self.batch_size, self.drop_last)
        return self._planned

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch: the order, and augmentation in running workers too.

        Args:
            epoch: From 0.
        """
        self._finished = None
        self._index_sampler.set_epoch(epoch)

    def index_batches(self) -> Iterable[Sequence[int]]:
        """The batches of global indices of the present epoch; nothing is read."""
        batches: Iterable[Sequence[int]] = self._index_sampler
        return batches

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        self._warn_of_a_second_pass()
        inner = super().__iter__()
        # A sampler that a trainer has put around ours knows no epoch.
        self._counted = (getattr(self._index_sampler, "epoch", 0), 0)
        return self._counting(inner)

    def _counting(self, inner: Iterator[Any]) -> Iterator[Any]:
        for count, batch in enumerate(inner, 1):
            self._counted = (self._counted[0], count)
            yield batch
        self._finished = self._counted[0]

    def _warn_of_a_second_pass(self) -> None:
        sampler = self._index_sampler
        order = getattr(sampler, "sampler", sampler)
        if (
            isinstance(order, OmniSampler)
            and order.shard.training
            and self._finished == order.epoch
        ):
            warnings.warn(
                f"this loader is iterated again at epoch {order.epoch}: the same order and "
                "augmentation once more; call loader.set_epoch(epoch) before each epoch",
                UserWarning,
                stacklevel=3,
            )

    def state_dict(self) -> State:
        """Where the run stands, as small plain JSON.

        Raises:
            StateError: If the loader has a sampler that cannot be resumed.
        """
        sampler = self._resumable()
        epoch, count = self._counted
        state: State = sampler.state_dict(count if epoch == sampler.epoch else 0)
        return state

    def load_state_dict(self, state: Mapping[str, Any], *, migrate: bool = False) -> bool:
        """Go on where a state was saved: the next iteration yields the rest of its epoch.

        Args:
            state: From :meth:`state_dict`, of any number of workers.
            migrate: Go on although the mix has changed, keeping the cursors of sources that are
                the same; see :meth:`~omniloader.sampling.sampler.OmniSampler.load_state_dict`.

        Returns:
            Whether the mix has changed.

        Raises:
            StateError: If the state belongs to another mix or order, saying what changed.
        """
        sampler = self._resumable()
        changed = bool(sampler.load_state_dict(state, migrate=migrate))
        self._counted, self._finished = (sampler.epoch, 0), None
        return changed

    def _resumable(self) -> Any:
        sampler = self._index_sampler
        if not hasattr(sampler, "load_state_dict"):
            raise StateError(
                f"only a loader over an OmniSampler can be resumed, this is over a "
                f"{type(sampler).__name__}; make it with OmniConfig.build_dataloader"
            )
        return sampler
