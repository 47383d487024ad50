"""Lightning data module that mixes the blink corpora through omniloader.

Schemas come from the declarations that the files were written under, so the run's config names
corpora and nothing is declared twice. Loader, sampler, strategies, transforms and the assembly of
them are omniloader's; this module owns which files are opened, and how.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from blinklinmult.data.cached import CachedEmbeddingDataset
from blinklinmult.data.corpus import check_file, open_corpus
from blinklinmult.data.embeddings import CacheKey, find_key, read_shard
from blinklinmult.data.mixing import build_strategy, omni_config
from blinklinmult.data.omni import build_schemas
from blinklinmult.data.presets import build_hint, corpus_path
from blinklinmult.data.spec import DatasetSpec
from blinklinmult.data.stills import StillConfig, StillFramesDataset
from blinklinmult.data.strided import StridedSubset
from blinklinmult.data.workers import MAX_WORKERS, inflating_threads, pinning_helps, worker_count
from blinklinmult.errors import DataModuleError, EmbeddingCacheError
from blinklinmult.train.config import STRATEGIES, DataConfig
from omniloader._types import PathLike
from omniloader.config.dataloader import OmniDataLoader
from omniloader.errors import PlanError
from omniloader.integrations.lightning import TEST, TRAIN, OmniDataModule, Split
from omniloader.schema.spec import DatasetSchema, UnifiedSchema

logger = logging.getLogger(__name__)


class BlinkDataModule(OmniDataModule):
    """Serves the mixed blink corpora to the training loop.

    Training is mixed by the strategy and drops its last incomplete batch; validation and test run
    in full and in order. All batches have the same keys, whichever corpora are in them.

    Args:
        config: Dataloader configuration.
        specs: Corpora to include, in config order, in the run's windows.
        root: Repository root that dataset paths resolve against.
        embedding_key: The encoder whose cached embeddings are read; default the only one that the
            cache holds.

    Raises:
        DataModuleError: If no dataset is configured, or the specs are not those of the config.
    """

    def __init__(
        self,
        config: DataConfig,
        specs: list[DatasetSpec],
        root: PathLike,
        embedding_key: CacheKey | None = None,
    ) -> None:
        _check_specs(config, specs)
        super().__init__(omni_config(config))
        self.data_config = config
        self.specs = list(specs)
        self.root = Path(root).absolute()
        self.embedding_key = self._resolved_key(embedding_key)
        width = None if self.embedding_key is None else self.embedding_key.output_dim
        time_dim = 1 if config.stills else config.time_dim
        schemas, self.time_dim, self.image_size, self.feature_dim = build_schemas(
            self.specs, time_dim, config.image_size, config.stills, width
        )
        self._check_sizes()
        self.schemas: dict[str, DatasetSchema] = {
            spec.name: schema for spec, schema in zip(self.specs, schemas, strict=True)
        }
        # Of all corpora, those for testing only included: every batch has the same keys.
        self.schema = UnifiedSchema(schemas, [spec.name for spec in self.specs])

    def h5_path(self, spec: DatasetSpec) -> Path:
        """Path of one corpus's built HDF5 file.

        Args:
            spec: The corpus.

        Returns:
            Absolute path to the file.
        """
        return corpus_path(self.root, spec.name)

    def setup(self, stage: str | None = None) -> None:
        """Open every split's datasets and build the training sampler.

        Args:
            stage: Lightning stage hint: ``fit`` builds train and validation, ``validate``,
                ``test`` and ``predict`` one split; None builds all.

        Raises:
            DataModuleError: If a corpus cannot be served, or the mix not be made.
        """
        try:
            super().setup(stage)
        except PlanError as error:
            raise DataModuleError(f"strategy, strategy_kwargs, batch_size: {error}") from error

    def test_dataloader(self) -> OmniDataLoader:
        """The test loader: every sample once, in order.

        Raises:
            DataModuleError: If no corpus has a test split.
        """
        self._need_test_split()
        return super().test_dataloader()

    def predict_dataloader(self) -> OmniDataLoader:
        """The test loader, for predictions; raises as :meth:`test_dataloader`."""
        self._need_test_split()
        return super().predict_dataloader()

    def open_split(self, split: str) -> Split | None:
        """Datasets and schemas of the corpora that have this split; None if none has.

        Args:
            split: ``train``, ``valid`` or ``test``.

        Raises:
            DataModuleError: If a file is not built or not as declared, or nothing is left to
                train on.
        """
        names = list(self.data_config.datasets)
        if split == TEST:
            names += self.data_config.eval_datasets
        opened = []
        for spec in self.specs:
            if spec.name in names:
                dataset = self._open(spec, split)
                if dataset is not None:
                    opened.append((dataset, self.schemas[spec.name]))
        if not opened:
            if split == TRAIN:
                raise DataModuleError(
                    f"datasets: none of {', '.join(names)} has a sample to train on"
                )
            return None
        datasets, schemas = zip(*opened, strict=True)
        return list(datasets), list(schemas)

    def _need_test_split(self) -> None:
        self.setup("test")
        if TEST not in self.loaders:
            names = ", ".join(spec.name for spec in self.specs)
            raise DataModuleError(
                f"datasets, eval_datasets: none of {names} has a sample to test on; build their "
                "test split, or name a corpus that has one"
            )

    # -- one corpus ------------------------------------------------------------------------

    def _open(self, spec: DatasetSpec, split: str) -> Any | None:
        """One corpus's split, wrapped as the config says; None if it has no sample."""
        config, path = self.data_config, self.h5_path(spec)
        if split not in check_file(spec, path, build_hint(spec.name, self.root, path)):
            logger.info("corpus '%s': has no %s split, skipped", spec.name, split)
            return None
        dataset: Any = open_corpus(
            spec,
            path,
            split,
            cache_size=config.cache_size,
            preload=config.preload,
            threads=inflating_threads(self.config.num_workers),
        )
        if self.embedding_key is not None:
            dataset = self._with_embeddings(dataset, self.embedding_key, spec, split)
        if config.stills:
            dataset = self._stills(dataset, spec, split)
            if not len(dataset):
                logger.warning("corpus '%s': %s has no usable frame, skipped", spec.name, split)
                return None
        fraction = config.fit_fractions.get(spec.name)
        if fraction is not None and split != TEST:
            keep = max(1, round(len(dataset) * fraction))
            dataset = StridedSubset(dataset, keep, shifting=split == TRAIN)
        return dataset

    def _with_embeddings(
        self, dataset: Any, key: CacheKey, spec: DatasetSpec, split: str
    ) -> CachedEmbeddingDataset:
        shard = read_shard(self._cache_root(), key, spec.name, split)
        cached = CachedEmbeddingDataset(dataset, shard, spec.name)
        # Longer ones are of a run with longer windows beside these; the frames are the same.
        if len(cached) and cached.steps < spec.time_dim:
            raise EmbeddingCacheError(
                f"corpus '{spec.name}', {split}: cached embeddings must have the {spec.time_dim} "
                f"frames of its windows, got {cached.steps}; encode the split in these windows"
            )
        return cached

    def _stills(self, dataset: Any, spec: DatasetSpec, split: str) -> StillFramesDataset:
        config = self.data_config
        balance = split == TRAIN and spec.has_eye_state
        if split == TRAIN and not balance:
            logger.info("corpus '%s': has no eye_state, its frames are not balanced", spec.name)
        options = StillConfig(config.still_stride, config.still_open_to_closed, config.seed)
        return StillFramesDataset(dataset, options, spec.name, balance)

    # -- checks ----------------------------------------------------------------------------

    def _cache_root(self) -> Path:
        """Root of the cache of embeddings; a relative one starts at the run's root."""
        return self.root / Path(self.data_config.embedding_cache or "").expanduser()

    def _resolved_key(self, given: CacheKey | None) -> CacheKey | None:
        config = self.data_config
        if config.embedding_cache is None:
            return None
        key = find_key(self._cache_root()) if given is None else given
        if config.embedding_dim not in (None, key.output_dim):
            raise EmbeddingCacheError(
                f"cache '{config.embedding_cache}': its embeddings are {key.output_dim} wide, "
                f"embedding_dim says {config.embedding_dim}; mend embedding_dim, or encode again"
            )
        return key

    def _check_sizes(self) -> None:
        for spec in self.specs:
            if spec.image_size != self.image_size:
                raise DataModuleError(
                    f"corpus '{spec.name}': its crops are {spec.image_size} px, the run's "
                    f"image_size is {self.image_size}; build it at that size, because resizing a "
                    "crop would resample it twice"
                )
        key = self.embedding_key
        if key is not None and key.image_size != self.image_size:
            raise EmbeddingCacheError(
                f"cache '{self.data_config.embedding_cache}': image_size must be the run's "
                f"{self.image_size}, got {key.image_size}; encode the run's crops"
            )


def _check_specs(config: DataConfig, specs: list[DatasetSpec]) -> None:
    if not specs:
        raise DataModuleError("datasets: no corpus is configured; name at least one")
    wanted = {*config.datasets, *config.eval_datasets}
    given = {spec.name for spec in specs}
    if wanted != given or len(specs) != len(given):
        raise DataModuleError(
            f"specs must be those of datasets and eval_datasets ({', '.join(sorted(wanted))}), "
            f"got {', '.join(spec.name for spec in specs)}; use DataConfig.resolve_specs"
        )


__all__ = [
    "MAX_WORKERS",
    "STRATEGIES",
    "BlinkDataModule",
    "CachedEmbeddingDataset",
    "DataModuleError",
    "StridedSubset",
    "build_strategy",
    "logger",
    "pinning_helps",
    "worker_count",
]
