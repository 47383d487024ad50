"""What is looked at: the part of an ``OmniLoader`` that introspection needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from omniloader._types import MapDataset
from omniloader.schema.spec import DatasetSchema, UnifiedSchema

T = TypeVar("T")


class Mix(Protocol):
    """Sources with their schemas, names and union: an ``OmniLoader`` is one."""

    schema: UnifiedSchema
    pad_features: bool
    metadata: tuple[str, ...]

    @property
    def datasets(self) -> list[MapDataset]:
        """The sources' datasets."""

    @property
    def schemas(self) -> list[DatasetSchema]:
        """The sources' schemas."""

    @property
    def names(self) -> list[str]:
        """The sources' names."""


class Track(Protocol):
    """Shows progress over what it passes on, such as ``rich.progress.track``."""

    def __call__(self, items: Iterable[T], *, total: int, description: str) -> Iterable[T]:
        """Pass the items on."""


def no_progress(items: Iterable[T], *, total: int, description: str) -> Iterable[T]:
    """A :class:`Track` that shows nothing."""
    return items


def labels_of(names: Sequence[str]) -> list[str]:
    """Names made unique, so that two sources of one name stay apart: ``a[0]``, ``a[1]``."""
    return [
        name if names.count(name) == 1 else f"{name}[{number}]" for number, name in enumerate(names)
    ]
