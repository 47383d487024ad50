"""Lightning: an ``OmniConfig`` as a ``LightningDataModule`` (extra ``[lightning]``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omniloader._types import MapDataset
from omniloader.config import OmniConfig, build
from omniloader.config.dataloader import OmniDataLoader
from omniloader.errors import ConfigError
from omniloader.loader import OmniLoader
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.shard import Shard
from omniloader.schema.spec import DatasetSchema, UnifiedSchema

try:
    import lightning
except ImportError as error:
    raise ImportError(
        "omniloader.integrations.lightning needs Lightning; pip install 'omniloader[lightning]'"
    ) from error

Split = tuple[Sequence[MapDataset], Sequence[DatasetSchema]]
"""Datasets, and one schema for each."""

TRAIN, VALID, TEST = "train", "valid", "test"

_SPLITS_OF = {
    "fit": (TRAIN, VALID),
    "validate": (VALID,),
    "test": (TEST,),
    "predict": (TEST,),
    None: (TRAIN, VALID, TEST),
}


class OmniDataModule(lightning.LightningDataModule):
    """Serves a mix to a ``Trainer``: training drawn through the strategy, the rest in order.

    Epochs reach the order, augmentation and running workers by themselves. The position in the
    epoch is a part of the trainer's checkpoint, so ``Trainer.fit(ckpt_path=…)`` goes on in the
    middle of an epoch with the next batch. Over several processes the samplers do the sharing:
    make the trainer with ``use_distributed_sampler=False``::

        module = OmniDataModule(OmniConfig.from_file("config.yaml"))
        Trainer(max_epochs=10, use_distributed_sampler=False).fit(model, module)

    A subclass may override :meth:`open_split` to bring its own sources.

    Args:
        config: Everything about loading.
        train: Datasets and schemas to train on; default those of the config.
        valid: The same for validation; default those of the config, if any of its datasets has
            ``eval`` options; else there is no validation.
        test: The same for test and predict; without it there is neither.
        schema: Union schema of all splits, where it is to hold more than a split declares.

    Attributes:
        loaders: Split to its :class:`~omniloader.loader.OmniLoader`, after ``setup``.
        samplers: Split to its :class:`~omniloader.sampling.sampler.OmniSampler`, after ``setup``.
    """

    def __init__(
        self,
        config: OmniConfig,
        train: Split | None = None,
        valid: Split | None = None,
        test: Split | None = None,
        schema: UnifiedSchema | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.schema = schema
        self.loaders: dict[str, OmniLoader] = {}
        self.samplers: dict[str, OmniSampler] = {}
        self._given = {TRAIN: train, VALID: valid, TEST: test}
        self._dataloaders: dict[str, OmniDataLoader] = {}
        self._epoch = 0

    # -- what a subclass may say -----------------------------------------------------------

    def open_split(self, split: str) -> Split | None:
        """The sources of a split; None if there are none.

        Args:
            split: ``train``, ``valid`` or ``test``.
        """
        given = self._given[split]
        if given is not None:
            return given
        if split == TRAIN or (split == VALID and any("eval" in d for d in self.config.datasets)):
            return self.config.build_datasets(training=split == TRAIN)
        return None

    # -- hooks of the trainer --------------------------------------------------------------

    def setup(self, stage: str | None = None) -> None:
        """Open the splits of a stage that are not open yet.

        Args:
            stage: ``fit``, ``validate``, ``test``, ``predict``; None: all.

        Raises:
            ConfigError: If the trainer would share out samples a second time.
        """
        trainer: Any = self.trainer
        if trainer is not None:
            _check_sampling(trainer)
            if not any(isinstance(callback, _EpochCallback) for callback in trainer.callbacks):
                trainer.callbacks.append(_EpochCallback())
        for split in _SPLITS_OF[stage]:
            self._has(split)

    def teardown(self, stage: str | None = None) -> None:
        """Release the files of a stage's splits; they open again when they are read."""
        for split in _SPLITS_OF[stage]:
            if split in self.loaders:
                self.loaders[split].close()

    def set_epoch(self, epoch: int) -> None:
        """Advance the order and augmentation of all splits; the trainer does it by itself.

        Args:
            epoch: The upcoming epoch, from 0.
        """
        self._epoch = epoch  # of splits that are opened later, too
        for dataloader in self._dataloaders.values():
            dataloader.set_epoch(epoch)

    def train_dataloader(self) -> OmniDataLoader:
        """The training loader, drawing through the strategy."""
        return self._required(TRAIN)

    def val_dataloader(self) -> OmniDataLoader | list[OmniDataLoader]:
        """The validation loader: every sample once, in order. An empty list if there is none."""
        return self._required(VALID) if self._has(VALID) else []

    def test_dataloader(self) -> OmniDataLoader:
        """The test loader: every sample once, in order."""
        return self._required(TEST)

    def predict_dataloader(self) -> OmniDataLoader:
        """The test loader, for predictions."""
        return self._required(TEST)

    # -- assembly --------------------------------------------------------------------------

    def _has(self, split: str) -> bool:
        """Whether there is such a split; it is built when it is first asked for."""
        if split not in self._dataloaders:
            sources = self.open_split(split)
            if sources is None:
                return False
            self._build(split, sources)
        return True

    def _required(self, split: str) -> OmniDataLoader:
        """The loader of a split, made again where the processes were joined since it was made."""
        if not self._has(split):
            raise ConfigError(
                f"OmniDataModule: there is no {split} split; give it as {split}=(datasets, schemas)"
            )
        shard = self.samplers[split].shard
        now = Shard.resolve(self.config.rank, self.config.num_replicas)
        if (shard.rank, shard.num_replicas) != (now.rank, now.num_replicas):
            self._assemble(split, self.samplers[split].epoch)
        return self._dataloaders[split]

    def _build(self, split: str, sources: Split) -> None:
        datasets, schemas = sources
        self.loaders[split] = build.make_loader(
            self.config,
            (list(datasets), list(schemas)),
            self.config.base_dir,
            split == TRAIN,
            self.schema,
        )
        self._assemble(split, self._epoch)

    def _assemble(self, split: str, epoch: int) -> None:
        omni = self.loaders[split]
        if split == TRAIN:
            made = build.training_dataloader(self.config, omni, epoch, _TrainerDataLoader)
            # Refuses an epoch without a batch here, and not in the middle of a trainer.
            len(made)
        else:
            made = build.evaluation_dataloader(self.config, omni, epoch)
        self._dataloaders[split] = made
        # A batch sampler of ours keeps the sampler that it plans batches of.
        own: Any = made.sampler if isinstance(made.sampler, OmniSampler) else made.batch_sampler
        self.samplers[split] = own if isinstance(own, OmniSampler) else own.sampler


class _TrainerDataLoader(OmniDataLoader):
    """Goes on with the next epoch when its state is from the end of one.

    A trainer that resumes there asks for the first iterator before it says which epoch begins.
    """

    def load_state_dict(self, state: Mapping[str, Any], *, migrate: bool = False) -> bool:
        changed = super().load_state_dict(state, migrate=migrate)
        if next(iter(self.index_batches()), None) is None:
            self.set_epoch(self._index_sampler.epoch + 1)
        else:
            # Looking has used the position up.
            super().load_state_dict(state, migrate=migrate)
        return changed


class _EpochCallback(lightning.Callback):
    """Tells the data module each epoch; Lightning itself looks for plain samplers only."""

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        module = trainer.datamodule
        if isinstance(module, OmniDataModule):
            module.set_epoch(trainer.current_epoch)


def _check_sampling(trainer: Any) -> None:
    """Refuse a trainer that would wrap our sampler, which already shares out, once more."""
    connector = getattr(trainer, "_accelerator_connector", None)
    if getattr(connector, "is_distributed", False) and getattr(
        connector, "use_distributed_sampler", False
    ):
        raise ConfigError(
            "Trainer: use_distributed_sampler must be False with OmniDataModule, got True; its "
            "samplers already share out the mix over the processes, and a second sharing would "
            "drop samples"
        )
