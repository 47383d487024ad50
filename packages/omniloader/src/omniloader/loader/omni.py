"""OmniLoader: several sources as one masked, map-style dataset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import torch
from torch.utils.data import Dataset

from omniloader._types import IntArray, MapDataset, Sample
from omniloader.data.source import Source, make_sources
from omniloader.errors import PlanError, SchemaError
from omniloader.introspection import Report, describe, validate
from omniloader.loader.arguments import bound, checked_metadata, covering, whole
from omniloader.loader.draws import IndexSpace, groups, unpack
from omniloader.loader.faults import FaultLog
from omniloader.loader.kept import kept
from omniloader.loader.lengths import lengths_of
from omniloader.loader.reader import SourceReader
from omniloader.sampling.sampler import OmniSampler
from omniloader.sampling.strategies import MixingStrategy, ProportionalStrategy
from omniloader.sampling.subsamplers import SubsampleConfig
from omniloader.schema.assemble import SourceRows, assemble
from omniloader.schema.batch import UnifiedBatch
from omniloader.schema.spec import INDEX_KEYS, METADATA_KEYS, DatasetSchema, UnifiedSchema
from omniloader.transforms.base import Draw, Transform
from omniloader.utils.parts import Workers
from omniloader.utils.sharing import shared


class OmniLoader(Dataset[Sample]):
    """Concatenates sources that annotate different things into one masked, unified stream.

    Wrap it in an ordinary ``torch.utils.data.DataLoader``. Every sample carries every feature and
    target of every source, each with a ``<name>_mask`` that is True where the value is real::

        omni = OmniLoader([faces, speech], [faces_schema, speech_schema], names=["faces", "speech"])
        loader = DataLoader(omni, batch_size=8, sampler=omni.make_sampler(),
                            collate_fn=unified_collate, worker_init_fn=seed_worker)

    Args:
        datasets: Map-style datasets whose samples are dicts of named values. What they may offer
            besides (``read_batch``, ``sequence_lengths``, …) is listed in ``ARCHITECTURE.md``.
        schemas: What each of them provides; only declared keys reach a batch.
        schema: The union to follow, when it is to hold more than these sources declare (a
            validation set that has to match the training batches). Default: their union.
        pad_features: Bring sequences to their ``time_dim``. False keeps native lengths, for
            :class:`~omniloader.collate.DynamicCollator`.
        transform: Applied to every unified sample, mask-aware and replayable.
        training: False switches ``train_only`` transforms off.
        seed: Seed of all randomness in transforms.
        names: Names of the sources. Default: each dataset's own ``name``, else ``dataset_<i>``.
        metadata: Names of more metadata to carry, such as ``("speaker",)``.
        on_error: ``"raise"`` for a value that does not fit or a sample that cannot be read;
            ``"mask"`` keeps the sample with the value masked, counts it in ``error_counts`` and
            warns once a source.
        error_budget: With ``"mask"``, the number of bad values after which it raises after all.

    Raises:
        SchemaError: If the sources disagree about a value they share.
        ConfigError: If lists differ in length or an option is not known.
    """

    def __init__(
        self,
        datasets: Sequence[MapDataset],
        schemas: Sequence[DatasetSchema],
        schema: UnifiedSchema | None = None,
        pad_features: bool = True,
        transform: Transform | None = None,
        training: bool = True,
        seed: int = 0,
        *,
        names: Sequence[str] | None = None,
        metadata: Iterable[str] = (),
        on_error: Literal["raise", "mask"] = "raise",
        error_budget: int = 100,
    ) -> None:
        self.sources: tuple[Source, ...] = make_sources(datasets, schemas, names)
        union = UnifiedSchema([source.schema for source in self.sources], self.names)
        self.schema = union if schema is None else covering(schema, union)
        self.pad_features = pad_features
        self.transform = None if transform is None else bound(transform, self.schema)
        self.training = training
        self.seed = whole("seed", seed)
        self.metadata = checked_metadata(metadata, self.schema)
        self.dataset_sizes = [len(source.dataset) for source in self.sources]
        self._space = IndexSpace(self.dataset_sizes)
        self._errors = FaultLog(self.names, on_error, whole("error_budget", error_budget))
        self._readers = [
            SourceReader(number, source, self.schema, pad_features, self.metadata, self._errors)
            for number, source in enumerate(self.sources)
        ]
        # In shared memory, so that set_epoch reaches workers that already run.
        self._epoch = shared(torch.zeros((), dtype=torch.int64))

    @property
    def datasets(self) -> list[MapDataset]:
        """The sources' datasets."""
        return [source.dataset for source in self.sources]

    @property
    def schemas(self) -> list[DatasetSchema]:
        """The sources' schemas."""
        return [source.schema for source in self.sources]

    @property
    def names(self) -> list[str]:
        """The sources' names."""
        return [source.name for source in self.sources]

    @property
    def error_counts(self) -> dict[str, int]:
        """Values masked so far because they were bad, per source, over all workers."""
        return self._errors.counts()

    def __len__(self) -> int:
        return self._space.size

    def locate(self, index: int) -> tuple[int, int]:
        """Which source a global index belongs to.

        Args:
            index: Global index; negative counts from the end.

        Returns:
            (number of the source, index in it).

        Raises:
            IndexError: If there is no such sample.
        """
        return self._space.locate(self._space.checked(index))

    def sequence_lengths(self, key: str, workers: Workers = 0) -> IntArray:
        """Native number of steps of a sequence in every sample, 0 where it is missing.

        Reads shapes, not data, from sources that offer ``sequence_lengths``.

        Args:
            key: A sequence of the schema.
            workers: Processes that read, or an engine that reads elsewhere; 0 reads here.

        Returns:
            int64 ``(len(self),)`` in the order of global indices.

        Raises:
            SchemaError: If the key is not a sequence.
        """
        if key not in self.schema or not self.schema.spec(key).is_sequence:
            sequences = [spec.name for spec in self.schema.specs if spec.is_sequence]
            raise SchemaError(
                f"sequence_lengths: key must be a sequence of the schema, got '{key}'; "
                f"sequences are: {', '.join(sequences) or 'none'}"
            )
        return lengths_of(self._readers, self.dataset_sizes, key, workers)

    def __getitem__(self, index: int) -> Sample:
        """One unified sample.

        Args:
            index: Global index; a :class:`~omniloader.sampling.draw.DrawIndex` also brings its
                epoch and visit.

        Raises:
            IndexError: If there is no such sample.
            SampleError: If the sample cannot be read or does not fit its schema.
        """
        epoch = getattr(index, "epoch", None)
        return self.sample(index, epoch=epoch, visit=getattr(index, "visit", 0))

    def sample(self, index: int, *, epoch: int | None = None, visit: int = 0) -> Sample:
        """Make any sample again, augmentation included.

        Args:
            index: Global index, as a batch carries it in ``index``.
            epoch: Its epoch; default the present one.
            visit: How often the sample had already been drawn in that epoch.

        Returns:
            Value and mask of every spec, metadata, and ``index dataset_index epoch visit``.
        """
        flat = self._space.checked(index)
        number, local = self._space.locate(flat)
        epoch = self.epoch if epoch is None else int(epoch)
        unified = self._readers[number].read(local, epoch)
        unified.update(zip(INDEX_KEYS, (flat, number, epoch, int(visit)), strict=True))
        if self.transform is None:
            return unified
        draw = Draw(self.seed, *(np.array([value]) for value in (epoch, flat, visit)))
        result = self.transform.transform_sample(unified, draw, training=self.training)
        return kept(self.schema, result)

    def __getitems__(self, indices: Sequence[int]) -> UnifiedBatch | list[Sample]:
        """Many unified samples at once: what ``DataLoader`` asks for when it builds a batch.

        The same values as sample by sample, bit for bit, read once a source and written
        straight into stacked tensors.

        Args:
            indices: Global indices, or a :class:`~omniloader.sampling.draw.DrawBatch`.

        Returns:
            A list-like batch that ``unified_collate`` takes as it is; a plain list of samples
            where a user's transform makes samples that cannot be stacked.
        """
        flat, epochs, visits = unpack(indices, self.epoch)
        flat = self._space.all_checked(flat)
        numbers, locals_ = self._space.split(flat)
        metadata = {name: [None] * len(flat) for name in (*METADATA_KEYS, *self.metadata)}
        contributions: list[SourceRows] = [
            self._readers[number].read_rows(rows, locals_[rows], epoch, metadata)
            for number, epoch, rows in groups(numbers, epochs)
        ]
        values, lengths = assemble(self.schema, len(flat), contributions, self.pad_features)
        columns = (flat, numbers, epochs, visits)
        origin = {
            name: torch.from_numpy(np.ascontiguousarray(column, dtype=np.int64))
            for name, column in zip(INDEX_KEYS, columns, strict=True)
        }
        batch = UnifiedBatch(self.schema, values, metadata, origin, lengths, self.seed)
        if self.transform is None:
            return batch
        draw = Draw(self.seed, epochs, flat, visits)
        changed = self.transform.transform_batch(batch, draw, training=self.training)
        return kept(self.schema, changed)

    @property
    def epoch(self) -> int:
        """The present epoch, the same in every worker."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch: samples drawn from now on are augmented for it, in running workers too.

        A sampler made by :meth:`make_sampler` calls this by itself.

        Args:
            epoch: From 0.
        """
        if not 0 <= whole("epoch", epoch) < 2**63:
            raise PlanError(f"set_epoch: epoch must be at least 0 and fit int64, got {epoch}")
        self._epoch.fill_(epoch)

    def make_sampler(
        self,
        strategy: MixingStrategy | None = None,
        seed: int = 0,
        subsample: SubsampleConfig | Sequence[SubsampleConfig] | None = None,
        epoch: int = 0,
    ) -> OmniSampler:
        """A sampler over a mixing strategy, in step with this loader.

        Args:
            strategy: How to mix; default proportional to the sources' sizes.
            seed: Seed of the default strategy.
            subsample: How the default strategy draws within a source.
            epoch: First epoch.

        Returns:
            A sampler whose ``set_epoch`` also advances this loader.

        Raises:
            PlanError: If the strategy was made for other sizes.
        """
        if strategy is None:
            strategy = ProportionalStrategy(
                self.dataset_sizes, seed=seed, subsample=subsample, names=self.names
            )
        if list(strategy.sizes) != self.dataset_sizes:
            raise PlanError(
                f"make_sampler: strategy must be made for sizes {self.dataset_sizes}, got "
                f"{list(strategy.sizes)}; build it with omni.dataset_sizes"
            )
        return OmniSampler(strategy, epoch=epoch, on_epoch=self.set_epoch)

    def reset_for_worker(self) -> None:
        """Drop handles that sources inherited from another process."""
        for reader in self._readers:
            reader.reset_for_worker()

    def close(self) -> None:
        """Release the files of all sources that can be closed."""
        for source in self.sources:
            close = getattr(source.dataset, "close", None)
            if callable(close):
                close()

    def describe(self, max_samples: int = 64) -> Report:
        """What the mix holds; see :func:`omniloader.introspection.describe`."""
        return describe(self, max_samples=max_samples)

    def validate(self, num_samples: int = 4, strict: bool = False) -> Report:
        """Check data against schemas; see :func:`omniloader.introspection.validate`."""
        return validate(self, num_samples=num_samples, strict=strict)

    def __repr__(self) -> str:
        sizes = dict(zip(self.names, self.dataset_sizes, strict=True))
        return f"OmniLoader({sizes}; {self.schema!r})"
