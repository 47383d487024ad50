"""OmniConfig: one file that describes a run."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, PrivateAttr

from omniloader._types import MapDataset, PathLike
from omniloader.config import build, parts
from omniloader.config.check import checked
from omniloader.config.dataloader import OmniDataLoader
from omniloader.config.document import Document
from omniloader.config.load import read_config, read_json, read_yaml
from omniloader.config.model import ConfigFields
from omniloader.errors import ConfigError
from omniloader.introspection import Forecast
from omniloader.loader import OmniLoader
from omniloader.sampling.mixing import MixingStrategy, Subsample
from omniloader.schema.spec import DatasetSchema, UnifiedSchema
from omniloader.transforms import Transform


class OmniConfig(ConfigFields):
    """Everything a run needs: seed, datasets, mixing, transforms, collate, loader options.

    Frozen; fields are plain values as written in the file. Every field and its default stands
    in the template (``omniloader template``)::

        config = OmniConfig.from_file("config.yaml")
        train_loader = config.build_dataloader(training=True)
        val_loader = config.build_dataloader(training=False)  # in order, augmentations off

    Args:
        **values: The fields, as in a file.

    Raises:
        ConfigError: If a key is unknown or a value cannot be used, naming all findings with
            their key paths (and lines of the file).
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    _base_dir: Path | None = PrivateAttr(default=None)

    def __init__(self, **values: Any) -> None:
        super().__init__(**checked(Document(values=values)))

    # -- reading and writing ---------------------------------------------------------------

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], base_dir: PathLike | None = None) -> Self:
        """A config from plain values.

        Args:
            data: The fields.
            base_dir: Where relative paths start; default the working directory.

        Raises:
            ConfigError: As the class says.
        """
        if not isinstance(data, Mapping):
            raise ConfigError(f"a config must be a mapping of keys to values, got {data!r}")
        return cls._from_document(Document(values=dict(data)), base_dir)

    @classmethod
    def from_file(cls, path: PathLike) -> Self:
        """A config from a ``.yaml``, ``.yml`` or ``.json`` file; its relative paths start there.

        Raises:
            ConfigError: If the file is not there (also a ``FileNotFoundError``), or as the
                class says.
        """
        return cls._from_document(read_config(path), Path(path).parent)

    @classmethod
    def from_yaml(cls, path: PathLike) -> Self:
        """A config from a YAML file of any suffix; see :meth:`from_file`."""
        return cls._from_document(read_yaml(path), Path(path).parent)

    @classmethod
    def from_json(cls, path: PathLike) -> Self:
        """A config from a JSON file of any suffix; see :meth:`from_file`."""
        return cls._from_document(read_json(path), Path(path).parent)

    @classmethod
    def _from_document(cls, document: Document, base_dir: PathLike | None) -> Self:
        config = cls(**checked(document))
        if base_dir is not None:
            config._base_dir = Path(base_dir).absolute()
        return config

    def to_dict(self) -> dict[str, Any]:
        """All fields and the user's own ``x-`` keys as plain values; ``from_dict`` reads them.

        Relative paths stay relative: pass ``base_dir=config.base_dir`` when reading them again.
        """
        return copy.deepcopy(self.model_dump())

    @property
    def base_dir(self) -> Path | None:
        """Where relative paths start: the folder of the file; None means the working directory."""
        return self._base_dir

    @property
    def fingerprint(self) -> str:
        """A short hash of what decides the data: equal for configs that read the same samples.

        Loader knobs such as ``num_workers`` are left out.
        """
        parts = {name: getattr(self, name) for name in ("datasets", "pad_features")}
        text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def replace(self, **changes: Any) -> Self:
        """A copy with other values for some fields, checked as always."""
        return type(self).from_dict({**self.to_dict(), **changes}, self._base_dir)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OmniConfig):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    # -- assembly --------------------------------------------------------------------------

    def require_datasets(self) -> None:
        """Refuse a config without datasets.

        Raises:
            ConfigError: If ``datasets`` is empty.
        """
        if not self.datasets:
            raise ConfigError(
                "datasets: is empty; list at least one dataset, as 'omniloader template' shows"
            )

    def build_datasets(self, training: bool = True) -> parts.Sources:
        """Open the datasets of the ``datasets`` section.

        Args:
            training: False lays the ``eval`` options of each entry (``eval: {subset: valid}``)
                over the entry.

        Returns:
            (datasets, schemas), in config order.

        Raises:
            ConfigError: If there are none, or an option does not fit.
            SourceError: If files cannot be read.
        """
        self.require_datasets()
        return parts.open_datasets(self, self._base_dir, training)

    def build_subsample(self) -> Subsample | None:
        """How samples are drawn within a source: one for all, one a source or name, or None."""
        return parts.make_subsample(self)

    def build_strategy(
        self,
        sizes: Sequence[int],
        subsample: Subsample | None = None,
        names: Sequence[str] | None = None,
    ) -> MixingStrategy:
        """The mixing strategy.

        Args:
            sizes: Number of samples a source.
            subsample: Instead of the config's ``subsample``.
            names: Names of the sources for messages.

        Raises:
            PlanError: If no order can be made of these.
        """
        return parts.make_strategy(self, sizes, subsample, names)

    def build_transform(
        self, schema: UnifiedSchema | None, training: bool = True
    ) -> Transform | None:
        """The transform pipeline; None if there is none.

        Args:
            schema: The union schema, against which keys are checked.
            training: False takes ``eval_transforms`` if the config has them, else ``transforms``
                (of which the loader then skips those for training only).
        """
        return parts.make_transform(self, schema, self._base_dir, training)

    def build_collate(self, schema: UnifiedSchema, training: bool = True) -> parts.Collate:
        """The collate function; in evaluation ``mixup`` gives way to its base.

        Args:
            schema: The union schema.
            training: Whether for training.
        """
        return parts.make_collate(self, schema, training)

    def build_loader(
        self,
        datasets: Sequence[MapDataset] | None = None,
        schemas: Sequence[DatasetSchema] | None = None,
        training: bool = True,
    ) -> OmniLoader:
        """The unified, transformed data set.

        Args:
            datasets: Instead of the config's own.
            schemas: Theirs.
            training: False: evaluation data, without transforms for training only.

        Raises:
            ConfigError: If only one of the two is given.
        """
        return build.make_loader(
            self, self._sources(datasets, schemas, training), self._base_dir, training
        )

    def build_dataloader(
        self,
        datasets: Sequence[MapDataset] | None = None,
        schemas: Sequence[DatasetSchema] | None = None,
        training: bool = True,
        epoch: int = 0,
    ) -> OmniDataLoader:
        """A ready ``DataLoader``, from the config alone.

        In training it draws through the strategy: call ``loader.set_epoch(epoch)`` before each
        epoch. ``loader.state_dict()`` says exactly where it stands, for a checkpoint. In
        evaluation every sample comes once, in order, without augmentation and with no batch
        dropped.

        Args:
            datasets: Instead of the config's own.
            schemas: Theirs.
            training: Training or evaluation.
            epoch: First epoch.

        Returns:
            The loader; its ``dataset`` is the :class:`~omniloader.loader.OmniLoader`.
        """
        omni = self.build_loader(datasets, schemas, training)
        if training:
            return build.training_dataloader(self, omni, epoch)
        return build.evaluation_dataloader(self, omni, epoch)

    def forecast(self, epochs: Iterable[int] = (0,)) -> list[Forecast]:
        """What epochs will hold, without reading a sample; see ``omniloader plan``.

        Args:
            epochs: Their numbers.
        """
        bare = self.replace(transforms=[], eval_transforms=None, num_workers=0)
        return build.forecasts(self, bare.build_loader(), epochs)

    def _sources(
        self,
        datasets: Sequence[MapDataset] | None,
        schemas: Sequence[DatasetSchema] | None,
        training: bool,
    ) -> parts.Sources:
        if (datasets is None) != (schemas is None):
            raise ConfigError("datasets and schemas must be given together, one schema a dataset")
        if datasets is None or schemas is None:
            return self.build_datasets(training)
        return list(datasets), list(schemas)
